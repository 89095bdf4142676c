"""Run `littlestone token`: list the tokens of a service, or replace one while it runs."""

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

if TYPE_CHECKING:
    from littlestone._service.tokens import TokenEntry

EXAMPLE = "Example: littlestone token run.db --rotate feeder --overlap 3600"


def token(
    db: Annotated[Path, typer.Argument(metavar="RUN.DB", help="The learner's file.")],
    rotate: Annotated[
        Literal["feeder", "operator"] | None,
        typer.Option(help="Make a new token for this role, and end the present one."),
    ] = None,
    overlap: Annotated[
        float, typer.Option(help="Seconds for which the token that is replaced works on.")
    ] = 3600.0,
    tokens: Annotated[
        Path | None, typer.Option(help="The file of tokens; RUN.DB.tokens by default.")
    ] = None,
) -> None:
    """List the tokens of a service by name, or replace one without a restart."""
    from littlestone._service.tokens import read_tokens, rotate_token

    path = tokens or db.with_name(f"{db.name}.tokens")
    if not path.exists():
        raise FileNotFoundError(2, "there are no tokens: `littlestone serve` makes them", str(path))
    if rotate is not None:
        made = rotate_token(path, rotate, overlap)
        ending = f"works until {made.until}" if overlap else "does not work any more"
        typer.echo(f"{made.new} is in {path}; {made.old} {ending}")
        return
    for entry in read_tokens(path, create=False):
        typer.echo(f"{entry.name:<12} {_state(entry)}")


def _state(entry: "TokenEntry") -> str:
    if entry.until is None:
        return "present"
    until = datetime.fromtimestamp(entry.until, UTC)
    verb = "works until" if until > datetime.now(UTC) else "ended at"
    return f"{verb} {until.isoformat(timespec='seconds')}"
