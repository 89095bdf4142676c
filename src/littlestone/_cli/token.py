"""Run `littlestone token`: list the tokens of a service, or replace one while it runs."""

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from littlestone._privacy.parameters import BadParameter

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
    try:
        from littlestone._service.tokens import read_tokens, rotate_token
    except ModuleNotFoundError:
        raise BadParameter("`token` needs pydantic: pip install 'littlestone[serve]'") from None

    path = tokens or db.with_name(f"{db.name}.tokens")
    if not path.exists():
        raise FileNotFoundError(2, "there are no tokens: `littlestone serve` makes them", str(path))
    if rotate is not None:
        made = rotate_token(path, rotate, overlap)
        ending = f"works until {_shown(made.until)}" if overlap else "does not work any more"
        typer.echo(f"{made.new} is in {path}; {made.old} {ending}")
        return
    for entry in read_tokens(path):
        typer.echo(f"{entry.name:<12} {_state(entry)}")


def _state(entry: "TokenEntry") -> str:
    if entry.until is None:
        return "present"
    verb = "works until" if entry.until > datetime.now(UTC) else "ended at"
    return f"{verb} {_shown(entry.until)}"


def _shown(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="seconds")
