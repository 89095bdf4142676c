"""Run `littlestone token`: list the tokens of a service, or replace one while it runs."""

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import typer

from littlestone._privacy.parameters import BadParameter

if TYPE_CHECKING:
    from littlestone._service.tokens import TokenEntry


def token(
    db: Path, *, rotate: Literal["feeder", "operator"] | None, overlap: float, tokens: Path | None
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
