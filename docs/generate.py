"""The pages that are made: the command line from `--help`, the notebook from the tutorial, and the
page of sliders by `plan --html`.

`make docs` writes them, and then builds the site. The notebook is run when one of its cells has
changed, or with `--run`: it is stored with what its cells print.

The tests compare the files with what this would write.
"""

import json
import re
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from typer.main import get_command
from typer.testing import CliRunner

from littlestone._cli.verbs import app

HERE = Path(__file__).parent
WIDTH = 100
# The first cell of the notebook: the rest finds `littlestone`, whoever started Jupyter from where.
SET_UP = """import os, sys, tempfile
os.environ["PATH"] = os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"]
os.chdir(tempfile.mkdtemp())  # what follows leaves its files there
"""


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
    """docs/tutorial.md as a notebook that has not run: its commands and examples are cells."""
    text = (HERE / "tutorial.md").read_text("utf-8")
    parts = re.split(r"^(```(?:console|python)\n.*?^```\n)", text, flags=re.S | re.M)
    cells = [_code(SET_UP.strip()), *map(_cell, parts)]
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


def what_if() -> str:
    """How soon a cause would be named, with sliders."""
    with TemporaryDirectory() as folder:
        page = Path(folder, "whatif.html")
        words = [
            "plan",
            "causes:version,country,device",
            "--horizon",
            "300000",
            "--html",
            str(page),
        ]
        made = CliRunner().invoke(app, words)
        assert made.exit_code == 0, made.output
        return page.read_text("utf-8")


def without_outputs(book: str) -> str:
    """Return a notebook as it was before it ran."""
    cells = json.loads(book)
    for cell in cells["cells"]:
        if cell["cell_type"] == "code":
            cell |= {"execution_count": None, "outputs": []}
    return json.dumps(cells, indent=1, ensure_ascii=False) + "\n"


def run_notebook(book: str) -> str:
    """Run a notebook, and return it with what its cells print."""
    import nbclient
    import nbformat

    cells = nbformat.reads(book, as_version=4)
    nbclient.NotebookClient(cells, record_timing=False, coalesce_streams=True).execute()
    del cells.metadata["language_info"]
    return json.dumps(cells, indent=1, ensure_ascii=False) + "\n"


PAGES = {"cli.md": cli, "tutorial.ipynb": notebook, "whatif.html": what_if}

if __name__ == "__main__":
    for page, write in PAGES.items():
        path, text = HERE / page, write()
        if page.endswith(".ipynb"):
            stored = path.read_text("utf-8")
            same = without_outputs(stored) == text and "--run" not in sys.argv
            text = stored if same else run_notebook(text)
        path.write_text(text, encoding="utf-8")
