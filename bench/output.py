"""What the bench says: printed for a person, and written into the documents that quote it.

A document holds `<!-- bench: NAME -->` ... `<!-- /bench -->`: on lines of their own around a table or
a paragraph, or in the middle of a line around a figure. `make bench` replaces what stands between
the marks by what was published under NAME, which is the name of a part, or PART.something. Without
`--write` a part only prints.
"""

import re
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    # `make release-check` reads the documents where rich is not installed.
    from rich.table import Table

MARKED = re.compile(r"(<!-- bench: ([\w.-]+) -->)(.*?)(<!-- /bench -->)", re.DOTALL)
WIDTH = 100

_blocks: dict[str, str] = {}
_figures: dict[Path, str] = {}


def publish(name: str, table: "Table") -> None:
    """Print a table, and keep it as Markdown for the documents that have a mark of this name."""
    from rich.console import Console

    Console(highlight=False, emoji=False, width=120).print(table)
    keep(name, as_markdown(table))


def publish_text(name: str, text: str) -> None:
    """Print a figure or a sentence, and keep it for the documents that have a mark of this name."""
    print(f"{name}: {text}")
    keep(name, text)


def publish_figure(path: Path, svg: str) -> None:
    """Keep a figure, which is written to its file with the tables."""
    print(f"drawn: {path}")
    _figures[path] = svg


def keep(name: str, text: str) -> None:
    """Keep a text for the documents, without printing it."""
    _blocks[name] = text


def published() -> set[str]:
    """Return the names under which something was published."""
    return set(_blocks)


def forget() -> None:
    """Drop what was published."""
    _blocks.clear()
    _figures.clear()


def as_markdown(table: "Table") -> str:
    """Return the cells of a table as Markdown; columns that are justified to the right stay so."""
    heads = [str(column.header) for column in table.columns]
    rules = ["--:" if column.justify == "right" else "---" for column in table.columns]
    cells = zip(*([str(cell) for cell in column.cells] for column in table.columns), strict=True)
    lines = [
        [" ".join(cell.replace("|", r"\|").split()) for cell in line]
        for line in (heads, rules, *cells)
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def documents(root: Path = Path()) -> list[Path]:
    """Return the documents that may quote the bench."""
    pages = [
        root / "README.md",
        root / "paper" / "paper.md",
        *sorted((root / "docs").rglob("*.md")),
    ]
    return [page for page in pages if page.exists()]


def marks(root: Path = Path()) -> set[str]:
    """Return the names that documents have marks for."""
    texts = [document.read_text("utf-8") for document in documents(root)]
    return {match[2] for text in texts for match in MARKED.finditer(text)}


def part_of(name: str) -> str:
    """Return the part of the bench that publishes a name.

    >>> part_of("scale.bytes")
    'scale'
    """
    return name.partition(".")[0]


def write_blocks(root: Path = Path()) -> None:
    """Put what was published between the marks of its name, and leave the rest as it is."""
    for path, svg in _figures.items():
        (root / path).write_text(svg, "utf-8")
    for document in documents(root):
        text = document.read_text("utf-8")
        filled = MARKED.sub(_filled, text)
        if filled != text:
            document.write_text(filled, "utf-8")


def _filled(match: re.Match[str]) -> str:
    """Return a mark with what was published; on lines of their own marks have blank lines inside.

    Without them a table is not read as one, and text would be part of the comment's block.
    """
    begin, name, before, end = match.groups()
    if name not in _blocks:
        return match[0]
    text = _blocks[name]
    if not before.startswith("\n"):
        return f"{begin}{text}{end}"
    if not text.startswith("|"):
        text = "\n".join(_wrapped(line) for line in text.splitlines())
    return f"{begin}\n\n{text}\n\n{end}"


def _wrapped(line: str) -> str:
    """Wrap a paragraph or an item of a list."""
    indent = "  " if line.startswith("- ") else ""
    return textwrap.fill(
        line, WIDTH, subsequent_indent=indent, break_on_hyphens=False, break_long_words=False
    )
