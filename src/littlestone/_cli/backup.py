"""Run `littlestone backup`: copy a stored learner, or go on with a copy."""

from pathlib import Path
from typing import Annotated

import typer

from littlestone._privacy.parameters import BadParameter
from littlestone._store.copies import back_up, take_over

EXAMPLE = "Example: littlestone backup run.db copy.db"
USAGE = (
    "say which file to copy and where (littlestone backup RUN.DB COPY.DB), or which copy to go on "
    "with (littlestone backup --take-over COPY.DB)"
)


def backup(
    file: Annotated[
        Path | None, typer.Argument(metavar="RUN.DB", help="The learner's file.")
    ] = None,
    copy: Annotated[
        Path | None, typer.Argument(metavar="COPY.DB", help="Where the copy is to be.")
    ] = None,
    continued: Annotated[
        Path | None,
        typer.Option(
            "--take-over",
            metavar="COPY.DB",
            help="Go on with this copy from now on; its original is marked, and never goes on.",
        ),
    ] = None,
    original: Annotated[
        Path | None,
        typer.Option(metavar="RUN.DB", help="Where the original is now, if it was moved."),
    ] = None,
    original_lost: Annotated[
        bool,
        typer.Option(
            help="With --take-over: promise that the original never goes on, and has published "
            "nothing since the copy was made. Nobody can check that."
        ),
    ] = False,
) -> None:
    """Copy a stored learner to another file, also while it is running."""
    if continued is None:
        if file is None or copy is None or original is not None or original_lost:
            raise BadParameter(USAGE)
        _refuse_missing(file)
        mark = back_up(file, copy)
        typer.echo(
            f"{copy} is a copy of {file} at round {mark.rounds:,}. `littlestone show` reads it; to "
            f"go on with it in the place of {file}: littlestone backup --take-over {copy}"
        )
        return
    if file is not None or (original is not None and original_lost):
        raise BadParameter(USAGE)
    _refuse_missing(continued)
    rounds = take_over(continued, original, lost=original_lost)
    typer.echo(f"the learner goes on in {continued}, after round {rounds:,}")


def _refuse_missing(file: Path) -> None:
    if not file.exists():
        raise FileNotFoundError(2, "there is no such file", str(file))
