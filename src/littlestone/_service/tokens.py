"""Tokens: who may do what, kept in a file that is read again when it changes.

The file is JSON, of mode 0600: the present token of each role in the clear, and of tokens that were
replaced a hash and the time at which they stop working. A role may so have two tokens for a while,
and clients change to the new one without a gap.
"""

import hashlib
import hmac
import logging
import math
import os
import secrets
import stat
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal, NamedTuple, TypeAlias

from pydantic import AwareDatetime, BaseModel, Field, ValidationError

from littlestone._privacy.parameters import BadParameter
from littlestone._store.files import file_lock

Role: TypeAlias = Literal["feeder", "operator"]
ROLES: dict[Role, str] = {
    "feeder": "May write rounds, and nothing else that is not public.",
    "operator": "May read the private data, and write nothing.",
}
MIN_TOKEN_LENGTH = 16
# Seconds after which the file is looked at again.
LOOK_EVERY = 1.0
LOG = logging.getLogger("littlestone")

_Token = Annotated[str, Field(min_length=MIN_TOKEN_LENGTH)]


class _OldToken(BaseModel):
    """What the file keeps of a token that was replaced."""

    role: Role
    name: str
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    until: AwareDatetime


class _TokensData(BaseModel):
    """What the file holds. `serial` counts the tokens that a role has had."""

    feeder: _Token
    operator: _Token
    serial: dict[Role, int] = {}
    old: list[_OldToken] = []

    def name(self, role: Role) -> str:
        """Return the name of the present token of a role."""
        return f"{role}-{self.serial.get(role, 1)}"


class TokenEntry(NamedTuple):
    """Hold what is known of a token, but for the token itself."""

    name: str
    role: Role
    digest: bytes
    until: datetime | None = None


class Tokens:
    """Find the roles of the tokens in a file, and read it again when it changes."""

    def __init__(
        self,
        path: Path,
        clock: Callable[[], float] = time.time,
        ticks: Callable[[], float] = time.monotonic,
    ) -> None:
        if not path.exists():
            _create_tokens(path)
        self.path, self._clock, self._ticks = path, clock, ticks
        self.entries = read_tokens(path)
        self._seen, self._looked = _version(path), ticks()

    def find(self, authorization: str | None) -> TokenEntry | None:
        """Return the entry of the token in an `Authorization` header; None if it does not work."""
        if self._ticks() - self._looked >= LOOK_EVERY:
            self.refresh()
        scheme, _, token = (authorization or "").partition(" ")
        # Hashes have one length, so the comparison does not tell how long a token is. All of them are
        # compared, so the time tells nothing about which fits.
        given = _hash(token.strip())
        fitting = [entry for entry in self.entries if hmac.compare_digest(given, entry.digest)]
        if not fitting or scheme.lower() != "bearer":
            return None
        until = fitting[0].until
        return fitting[0] if until is None or self._clock() < until.timestamp() else None

    def refresh(self) -> None:
        """Read the file again, if it has changed."""
        self._looked = self._ticks()
        version = _version(self.path)
        if version == self._seen:
            return
        # Also if it cannot be read: one line of the log for each change is enough.
        self._seen = version
        try:
            self.entries = read_tokens(self.path)
        except (BadParameter, OSError) as error:
            why = error.strerror if isinstance(error, OSError) else error
            LOG.error("the tokens stay as they were: %s", why)
        else:
            names = ", ".join(entry.name for entry in self.entries)
            LOG.info("the tokens were read again: %s", names)


def _version(path: Path) -> tuple[int, ...]:
    with suppress(OSError):
        status = path.stat()
        return status.st_ino, status.st_mtime_ns, status.st_size, status.st_mode
    return ()


def _hash(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


def read_tokens(path: Path) -> tuple[TokenEntry, ...]:
    """Return the tokens in a file."""
    data = _read_data(path)
    return (
        *(TokenEntry(data.name(role), role, _hash(getattr(data, role))) for role in ROLES),
        *(
            TokenEntry(token.name, token.role, bytes.fromhex(token.sha256), token.until)
            for token in data.old
        ),
    )


def _read_data(path: Path) -> _TokensData:
    # Not repaired by chmod: somebody may have read the tokens already.
    if stat.S_IMODE(path.stat().st_mode) & 0o077:
        raise BadParameter(
            f"{path} can be read by others: make new tokens (delete the file), or chmod 600 {path}"
        )
    with suppress(ValidationError):
        data = _TokensData.model_validate_json(path.read_bytes())
        hashes = [_hash(data.feeder).hex(), _hash(data.operator).hex()]
        hashes += [token.sha256 for token in data.old]
        if len({*hashes}) == len(hashes):
            return data
    raise BadParameter(
        f"{path} is not a file of tokens: it must hold one of at least {MIN_TOKEN_LENGTH} "
        f"characters for each of {' and '.join(ROLES)}, as JSON. Delete it to have it made again"
    )


def _create_tokens(path: Path) -> None:
    """Write new tokens to a new file; it appears whole, or not at all."""
    new = _TokensData(feeder=secrets.token_urlsafe(32), operator=secrets.token_urlsafe(32))
    draft = _draft(path, new)
    try:
        os.link(draft, path)  # unlike rename, it never replaces tokens that somebody else made
    finally:
        draft.unlink()


def _draft(path: Path, data: _TokensData) -> Path:
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(data.model_dump_json(indent=2, exclude_defaults=True) + "\n")
        file.flush()
        os.fsync(file.fileno())
    return draft


class Rotation(NamedTuple):
    """Say what became of the tokens of a role."""

    new: str
    old: str
    until: datetime


def rotate_token(
    path: Path, role: Role, overlap: float, *, clock: Callable[[], float] = time.time
) -> Rotation:
    """Make a new token for a role; the one before works on for a while."""
    if not 0 <= overlap < 10**9:
        raise BadParameter(f"the overlap must be 0 seconds or more, not {overlap:g}")
    with path.open("rb") as held, file_lock(held):
        # Another rotation may have replaced the file before this one had its lock.
        if os.fstat(held.fileno()).st_ino != path.stat().st_ino:
            raise BadParameter(f"{path} was rotated by another process just now: try again")
        data, now = _read_data(path), datetime.fromtimestamp(clock(), UTC)
        # Rounded up to a second: never shorter than what was said.
        until = datetime.fromtimestamp(math.ceil(now.timestamp() + overlap), UTC)
        sha256 = _hash(getattr(data, role)).hex()
        ended = _OldToken(role=role, name=data.name(role), sha256=sha256, until=until)
        setattr(data, role, secrets.token_urlsafe(32))
        data.serial[role] = data.serial.get(role, 1) + 1
        data.old = [token for token in data.old if token.until > now] + [ended] * bool(overlap)
        os.replace(_draft(path, data), path)
    return Rotation(data.name(role), ended.name, until)
