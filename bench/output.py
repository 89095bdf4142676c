"""What the bench says: printed for a person, and written between marks into the documents that quote it.

A document holds `<!-- bench: NAME -->` ... `<!-- /bench -->`, around a table or in the middle of a
sentence. `make bench` replaces what stands between the marks by what the part of the bench called NAME
has published under that name; without `--write` a part only prints.
"""

import re
from collections.abc import Iterable
from pathlib import Path

from rich.console import Console
from rich.table import Table

MARKED = re.compile(r"(<!-- bench: ([\w.-]+) -->)(.*?)(<!-- /bench -->)", re.DOTALL)
DOCUMENTS = (Path("README.md"), Path("paper/paper.md"), *sorted(Path("docs").rglob("*.md")))

_blocks: dict[str, str] = {}


def publish(name: str, table: Table) -> None:
    """Print a table, and keep it as Markdown for the documents that have a mark of this name."""
    Console(highlight=False, width=120).print(table)
    _blocks[name] = f"\n{as_markdown(table)}\n"


def publish_text(name: str, text: str) -> None:
    """Print a figure or a sentence, and keep it for the documents that have a mark of this name."""
    print(f"{name}: {text}")
    _blocks[name] = text


def as_markdown(table: Table) -> str:
    """Return the cells of a table as Markdown; columns that are justified to the right stay so."""
    heads = [str(column.header) for column in table.columns]
    rules = ["--:" if column.justify == "right" else "---" for column in table.columns]
    cells = zip(*([str(cell) for cell in column.cells] for column in table.columns), strict=True)
    return "\n".join(f"| {' | '.join(line)} |" for line in (heads, rules, *cells))


def write_blocks(documents: Iterable[Path] = DOCUMENTS) -> list[str]:
    """Put what was published between the marks; return the names that no document has a mark for."""
    unquoted = set(_blocks)
    for document in documents:
        if not document.exists():
            continue
        text = document.read_text(encoding="utf-8")
        unquoted -= {match[2] for match in MARKED.finditer(text)}
        filled = MARKED.sub(
            lambda match: match[1] + _blocks.get(match[2], match[3]) + match[4], text
        )
        if filled != text:
            document.write_text(filled, encoding="utf-8")
    return sorted(unquoted)
