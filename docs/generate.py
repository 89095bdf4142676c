"""The pages that are made: the command line from `--help`, the library from its docstrings, the
notebook from the tutorial. `make docs` writes them.

The tests compare the files with what this would write.
"""

import inspect
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

import littlestone
from littlestone.cli.main import app

HERE = Path(__file__).parent
WIDTH = 100
PARAGRAPH = "\n\n"

GROUPS: dict[str, list[str]] = {
    "Learners": [
        "DPSOA", "PrivateExperts", "AdaptiveDPSOA", "EveryRound", "SOA", "Halving", "recommend",
        "Recommendation",
    ],
    "Plans": ["Plan", "ExpertsPlan", "EveryRoundPlan", "plan_from_json"],
}  # fmt: skip
"""The first chapters; whatever else is public follows, by the alphabet."""


def cli() -> str:
    """Every verb with its help."""
    verbs = [
        command.name or command.callback.__name__
        for command in app.registered_commands
        if command.callback
    ]
    parts = [
        "# The command line",
        "Made from `--help` by `make docs`. Tables are for people, `--json` is for machines; bad "
        "input is one sentence on standard error and exit code 2.",
        _block(_help()),
    ]
    for verb in sorted(verbs):
        parts += [f"## {verb}", _block(_help(verb))]
    return "\n\n".join(parts) + "\n"


def _help(*verb: str) -> str:
    environment = {"COLUMNS": str(WIDTH), "TERMINAL_WIDTH": str(WIDTH)}
    asked = CliRunner().invoke(app, [*verb, "--help"], prog_name="littlestone", env=environment)
    assert asked.exit_code == 0, asked.output
    return asked.output


def _block(text: str) -> str:
    lines = (f"    {line}".rstrip() for line in text.strip().splitlines())
    return "\n".join(lines)


def api() -> str:
    """Every public name with its docstring."""
    named = [name for names in GROUPS.values() for name in names]
    others = [name for name in littlestone.__all__ if name not in named]
    parts = [
        "# The library",
        "`import littlestone as ls`. Made from the docstrings by `make docs`; their examples run "
        "in the tests.",
    ]
    for title, names in {**GROUPS, "Everything else": sorted(others, key=str.lower)}.items():
        parts.append(f"## {title}")
        for name in names:
            parts += _entry(name, getattr(littlestone, name))
    return "\n\n".join(parts) + "\n"


def _entry(name: str, thing: Any) -> Iterator[str]:
    if not (inspect.isclass(thing) or inspect.isroutine(thing)):
        yield f"### `ls.{name}`"
        yield f"`{thing!r}`" if len(repr(thing)) < WIDTH else type(thing).__name__
        return
    yield f"### `ls.{name}{_signature(thing)}`"
    yield _said(thing)
    if inspect.isclass(thing):
        members = [line for line in map(_member, *_members(thing)) if line]
        if members:
            yield "\n".join(members)


def _members(kind: type) -> tuple[list[type], list[str]]:
    names = [name for name in vars(kind) if not name.startswith("_")]
    for base in kind.__mro__[1:]:
        if base.__module__.startswith("littlestone.learners"):
            names += [n for n in vars(base) if not n.startswith("_") and n not in names]
    return [kind] * len(names), names


def _member(kind: type, name: str) -> str | None:
    found = inspect.getattr_static(kind, name)
    function = found.__func__ if isinstance(found, classmethod | staticmethod) else found
    if isinstance(found, property):
        shown = name
    elif inspect.isfunction(function):
        shown = f"{name}{_signature(function)}"
    else:
        return None
    doc = inspect.getdoc(found)
    return f"- `{shown}`: {' '.join(doc.split(PARAGRAPH)[0].split())}" if doc else None


def _signature(thing: Callable[..., Any]) -> str:
    try:
        signature = inspect.signature(thing)
    except (TypeError, ValueError):
        return ""
    kept = [
        parameter.replace(annotation=inspect.Parameter.empty)
        for name, parameter in signature.parameters.items()
        if name not in ("self", "noise")
    ]
    bare = signature.replace(parameters=kept, return_annotation=inspect.Signature.empty)
    return re.sub(r"<[^>]*>", "...", str(bare))


SECTIONS = re.compile(
    r"^(Parameters|Returns|Raises|Attributes|Yields|Examples|Notes)\n-+\n", re.MULTILINE
)


def _said(thing: object) -> str:
    """Return a docstring as Markdown: names of sections in bold, parameters listed, examples as
    blocks."""
    lines, inside = [], False
    said = SECTIONS.sub(r"**\1**\n\n", inspect.getdoc(thing) or "")
    said = re.sub(r"^([\w*]+(?:, [\w*]+)*)(?: : (.+))?\n    (?=\S)", _parameter, said, flags=re.M)
    for line in said.splitlines():
        begins = line.startswith(">>>")
        if begins and not inside:
            lines += ["```python"]
            inside = True
        if inside and not line.strip():
            lines += ["", "```"]
            inside = False
        lines.append(line)
    return "\n".join([*lines, *(["", "```"] if inside else [])])


def _parameter(found: re.Match[str]) -> str:
    kind = f" ({found[2]})" if found[2] else ""
    return f"- `{found[1]}`{kind}: "


def notebook() -> str:
    """docs/tutorial.md as a notebook: its commands and examples are cells."""
    text = (HERE / "tutorial.md").read_text("utf-8")
    cells = [
        _cell(part)
        for part in re.split(r"^(```(?:console|python)\n.*?^```\n)", text, flags=re.S | re.M)
    ]
    numbered = [
        cell | {"id": f"cell-{number}"} for number, cell in enumerate(cells) if cell["source"]
    ]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    book = {
        "cells": numbered,
        "metadata": {"kernelspec": kernel},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(book, indent=1, ensure_ascii=False) + "\n"


def _cell(part: str) -> dict[str, Any]:
    kind, _, body = part.partition("\n")
    if kind == "```console":
        steps = re.split(r"^\$ ", body.removesuffix("```\n"), flags=re.M)[1:]
        commands = [
            step.replace("\\\n", "\\\0").partition("\n")[0].replace("\0", "\n") for step in steps
        ]
        return _code("\n".join(["%%bash", "set -e", *commands]))
    if kind == "```python":
        lines = re.findall(r"^(?:>>>|\.\.\.) ?(.*)$", body, flags=re.M)
        return _code("\n".join(lines))
    return {"cell_type": "markdown", "metadata": {}, "source": part.strip()}


def _code(source: str) -> dict[str, Any]:
    return {
        "cell_type": "code",
        "execution_count": None,
        "metadata": {},
        "outputs": [],
        "source": source,
    }


PAGES = {"cli.md": cli, "api.md": api, "tutorial.ipynb": notebook}

if __name__ == "__main__":
    for page, write in PAGES.items():
        (HERE / page).write_text(write(), encoding="utf-8")
