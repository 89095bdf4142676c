"""The command line: its verbs, and the entry point.

Tables are for people, `--json` is for machines. What is public goes to standard output, what is
private to standard error or to a file that only its owner may read. Bad input is one sentence on
standard error and exit code 2, never a traceback.

A verb has a module of its name, imported when the verb is asked for: of all the others `--help` says
one line, and importing nothing for it keeps that quick.
"""

import io
import os
import sys
from collections.abc import Iterable
from importlib import import_module
from typing import Annotated, NoReturn

import typer

from littlestone._display import library_version
from littlestone.errors import LittlestoneError

# What `--help` says of each verb; a test compares it with the verb's own help.
VERBS = {
    "dimension": "Print the Littlestone dimension of a class: the number of mistakes that the best "
    "learner without privacy cannot avoid.",
    "init": "Propose a command for a file, with the reason for each choice.",
    "learn": "Learn a rule from a stream of labelled rows, privately: before each row a rule is "
    "published.",
    "plan": "Print every constant of a learner before it sees any data.",
    "compare": "Compare learners on synthetic streams that know the truth.",
    "audit": "Check that the code keeps its guarantee.",
    "show": "Show what a stored learner has published; with --private, what only its owner may see.",
    "serve": "Serve a stored learner over HTTP, with a live page.",
    "backup": "Copy a stored learner to another file, also while it is running.",
    "token": "List the tokens of a service by name, or replace one without a restart.",
    "demo": "Run the whole story on a built-in stream of telemetry: a cause is found, privately.",
    "budget": "Keep the privacy budgets of data sets in a file that all runs draw from.",
}


# The function of a verb has its name, but where another public function has it.
_FUNCTIONS = {"dimension": "print_dimension"}


def command_line(verbs: Iterable[str]) -> typer.Typer:
    """Return the command line with these verbs, and one line of help for each of the others."""
    app = typer.Typer(
        name="littlestone",
        help="Differentially private online classification.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )
    app.callback()(_options)
    for verb, summary in VERBS.items():
        if verb not in verbs:
            app.command(verb, help=summary)(_not_imported)
            continue
        module = import_module(f"littlestone._cli.{verb}")
        if hasattr(module, "app"):
            app.add_typer(module.app, name=verb)
        else:
            own = getattr(module, "HELP", None)
            app.command(verb, help=own, epilog=module.EXAMPLE)(
                getattr(module, _FUNCTIONS.get(verb, verb))
            )
    return app


def _not_imported() -> None: ...


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"littlestone {library_version()}")
        raise typer.Exit


def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="The version.")
    ] = False,
) -> None: ...


def main() -> None:
    """Run the command line; refusals become a sentence and exit code 2."""
    _open_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without line drawing shows ?
    try:
        command_line(sys.argv[1:])()
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
