"""Starting: how long an import and a `--help` take, as a ratio to an empty Python.

Only the ratios mean anything from one machine to another. The seconds are what a person waits here:
the aims are 0.1 s for `import littlestone`, which imports a name when it is used, and a third of a
second for `littlestone --help`.
"""

import subprocess
import sys
from collections.abc import Iterator
from functools import partial

from rich.table import Table

from bench.clock import seconds
from bench.output import publish, publish_text

TRIES = 7
HEAVY = ("opendp", "pandas", "polars", "pyarrow", "river", "scipy", "sklearn", "granian")
EMPTY = ("-c", "pass")
STARTS: dict[str, tuple[tuple[str, ...], float | None]] = {
    "python -c pass": (EMPTY, None),
    "python -c 'import numpy'": (("-c", "import numpy"), None),
    "python -c 'import littlestone'": (("-c", "import littlestone"), 0.1),
    "python -c 'littlestone.DPSOA'": (("-c", "import littlestone; littlestone.DPSOA"), None),
    "littlestone --help": (
        ("-c", "from littlestone._cli.main import main; main()", "--help"),
        1 / 3,
    ),
    "python -c 'import littlestone.river'": (("-c", "import littlestone.river"), None),
    "python -c 'import littlestone.sklearn'": (("-c", "import littlestone.sklearn"), None),
}


def run() -> None:
    """Print the table."""
    table = Table("start", title="Starting: the best of seven, beside an empty Python")
    for name in ("seconds", "of pass", "aim", "ok"):
        table.add_column(name, justify="right")
    for line in _lines():
        table.add_row(*line)
    publish("starting", table)
    publish_text("starting.imported", f"of {', '.join(HEAVY)}: {_loaded() or 'none'}")


def _lines() -> Iterator[list[str]]:
    floor = seconds(partial(start, *EMPTY), TRIES)
    for name, (arguments, aim) in STARTS.items():
        took = floor if arguments == EMPTY else seconds(partial(start, *arguments), TRIES)
        verdict = "" if aim is None else "yes" if took < aim else "NO"
        said = "" if aim is None else f"< {aim:.2g} s"
        yield [name, f"{took:.3f}", f"{took / floor:.1f}", said, verdict]


def start(*arguments: str) -> str:
    """Run a Python to its end, and say what it printed."""
    done = subprocess.run([sys.executable, *arguments], check=True, capture_output=True, text=True)
    return done.stdout


def _loaded() -> str:
    """The heavy libraries that an import of the command line brings along."""
    asked = "import sys, littlestone._cli.main; print(*sys.modules)"
    return ", ".join(sorted(set(HEAVY) & set(start("-c", asked).split())))


if __name__ == "__main__":
    run()
