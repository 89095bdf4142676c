"""The pages that are made: the command line from `--help`, the notebook from the tutorial.

`make docs` writes them, and then builds the site.

The tests compare the files with what this would write.
"""

import json
import re
from pathlib import Path
from typing import Any

from typer.main import get_command
from typer.testing import CliRunner

from littlestone._cli.verbs import app

HERE = Path(__file__).parent
WIDTH = 100


def cli() -> str:
    """Every verb with its help."""
    parts = [
        "# The command line",
        "Made from `--help` by `make docs`. Tables are for people, `--json` is for machines; bad "
        "input is one sentence on standard error and exit code 2.",
        _block(_help()),
    ]
    group: Any = get_command(app)
    for verb, command in group.commands.items():
        parts += [f"## {verb}", _block(_help(verb))]
        for name in getattr(command, "commands", ()):
            parts += [f"### {verb} {name}", _block(_help(verb, name))]
    return "\n\n".join(parts) + "\n"


def _help(*verb: str) -> str:
    environment = {"COLUMNS": str(WIDTH), "TERMINAL_WIDTH": str(WIDTH)}
    asked = CliRunner().invoke(app, [*verb, "--help"], prog_name="littlestone", env=environment)
    assert asked.exit_code == 0, asked.output
    return asked.output


def _block(text: str) -> str:
    lines = (f"    {line}".rstrip() for line in text.strip().splitlines())
    return "\n".join(lines)


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


PAGES = {"cli.md": cli, "tutorial.ipynb": notebook}

if __name__ == "__main__":
    for page, write in PAGES.items():
        (HERE / page).write_text(write(), encoding="utf-8")
