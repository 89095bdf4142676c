"""The command line: its verbs, and the entry point.

Tables are for people, `--json` is for machines. What is public goes to standard output, what is
private to standard error or to a file that only its owner may read. Bad input is one sentence on
standard error and exit code 2, never a traceback.
"""

import io
import os
import sys
from shutil import get_terminal_size
from textwrap import fill
from typing import NoReturn

import typer

from littlestone._cli.verbs import app
from littlestone.errors import LittlestoneError


def main() -> None:
    """Run the command line; refusals become a sentence and exit code 2."""
    _open_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without line drawing shows ?
    try:
        app()
    # A file that is missing or cannot be written is bad input, not a fault of ours.
    except OSError as error:
        _refuse(f"{error.filename}: {error.strerror}" if error.filename else str(error))
    except LittlestoneError as error:
        _refuse(str(error))


def _open_closed_streams() -> None:
    """Send what is written to a closed standard stream (`>&-`) nowhere."""
    # Python has None in the place of a stream that was closed when it started. Its number is taken
    # too: a file that is opened later would get it, and with it what others print.
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            os.dup2(os.open(os.devnull, os.O_RDWR), number)
            setattr(sys, name, os.fdopen(number, "w" if number else "r"))


def _refuse(sentence: str) -> NoReturn:
    lines = f"error: {sentence}"
    if sys.stderr.isatty():
        lines = fill(lines, get_terminal_size().columns, break_long_words=False)
    typer.echo(lines, err=True)
    sys.exit(2)
