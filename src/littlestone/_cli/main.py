"""The command line: its verbs, and the entry point.

Tables are for people, `--json` is for machines. What is public goes to standard output, what is
private to standard error or to a file that only its owner may read. Bad input is one sentence on
standard error and exit code 2, never a traceback.

A verb has a module; `dimension` shares that of `plan`. What only one
verb needs is imported when that verb runs: people ask for help more often than for anything else.
"""

import io
import os
import sys
from typing import Annotated, NoReturn

import typer

from littlestone._cli import (
    audit,
    backup,
    budget,
    compare,
    demo,
    init,
    learn,
    plan,
    serve,
    show,
    token,
)
from littlestone._display import library_version
from littlestone.errors import LittlestoneError

app = typer.Typer(
    name="littlestone",
    help="Differentially private online classification.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"littlestone {library_version()}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="The version.")
    ] = False,
) -> None: ...


app.command("dimension", epilog=plan.DIMENSION_EXAMPLE, help=plan.DIMENSION_HELP)(
    plan.print_dimension
)
app.command(epilog=init.EXAMPLE)(init.init)
app.command(epilog=learn.EXAMPLE)(learn.learn)
app.command(epilog=plan.EXAMPLE)(plan.plan)
app.command(epilog=compare.EXAMPLE)(compare.compare)
app.command(epilog=audit.EXAMPLE)(audit.audit)
app.command(epilog=show.EXAMPLE)(show.show)
app.command(epilog=serve.EXAMPLE)(serve.serve)
app.command(epilog=backup.EXAMPLE)(backup.backup)
app.command(epilog=token.EXAMPLE)(token.token)
app.command(epilog=demo.EXAMPLE)(demo.demo)
app.add_typer(budget.app, name="budget")


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
    typer.echo(f"error: {sentence}", err=True)
    sys.exit(2)
