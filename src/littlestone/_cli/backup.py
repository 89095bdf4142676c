"""Run `littlestone backup`: copy a stored learner, or go on with a copy."""

from pathlib import Path

import typer

from littlestone._privacy.parameters import BadParameter
from littlestone._store.copies import back_up, take_over

USAGE = (
    "say which file to copy and where (littlestone backup RUN.DB COPY.DB), or which copy to go on "
    "with (littlestone backup --take-over COPY.DB)"
)


def backup(
    file: Path | None,
    copy: Path | None,
    *,
    continued: Path | None,
    original: Path | None,
    original_lost: bool,
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
