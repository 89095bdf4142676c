"""The command line as its user meets it: in a process of its own."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

MAIN = "from littlestone.cli.main import main; main()"
Command = Callable[..., subprocess.CompletedProcess[str]]


def littlestone(
    *arguments: object, text: str | None = None, folder: Path | None = None, width: int = 100
) -> subprocess.CompletedProcess[str]:
    """Run `littlestone ...`; `text` is its standard input."""
    return subprocess.run(
        [sys.executable, "-c", MAIN, *map(str, arguments)],
        input=text,
        capture_output=True,
        text=True,
        encoding="utf-8",
        cwd=folder,
        env={"PYTHONUTF8": "1", "COLUMNS": str(width)},
    )
