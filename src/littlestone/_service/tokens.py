"""Tokens: who may do what, kept in a file that is read again when it changes.

The file is JSON, of mode 0600: the present token of each role in the clear, and of tokens that were
replaced a hash and the time at which they stop working. A role may so have two tokens for a while,
and clients change to the new one without a gap.
"""

import hashlib
import hmac
import json
import logging
import os
import secrets
import stat
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

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


class TokenEntry(NamedTuple):
    """Hold what is known of a token, but for the token itself."""

    name: str
    role: Role
    digest: bytes
    until: float | None = None

    @property
    def who(self) -> dict[str, str]:
        """Return whose token it is, for the audit log."""
        return {"who": self.name, "role": self.role}


class TokenRoles:
    """Find the role of a token, in a time that does not depend on the token."""

    def __init__(
        self,
        tokens: Mapping[Role, str] | Sequence[TokenEntry],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.entries = tuple(
            [TokenEntry(f"{role}-1", role, _hash(token)) for role, token in tokens.items()]
            if isinstance(tokens, Mapping)
            else tokens
        )
        self._clock = clock

    def find(self, token: str | None) -> TokenEntry | None:
        """Return the entry of a token, or None if it is unknown or has ended."""
        # Hashes have one length, so the comparison does not tell how long a token is.
        given = _hash(token or "")
        # A list, not `next`: every hash is compared, so the time tells nothing about which fits.
        found = [one for one in self.entries if hmac.compare_digest(given, one.digest)]
        if not found or not token:
            return None
        until = found[0].until
        return found[0] if until is None or self._clock() < until else None

    def find_in_header(self, authorization: str | None) -> TokenEntry | None:
        """Return the entry of the token in an `Authorization` header."""
        scheme, _, token = (authorization or "").partition(" ")
        return self.find(token.strip()) if scheme.lower() == "bearer" else None


class TokensFile(TokenRoles):
    """Find the roles of the tokens in a file, and read it again when it changes."""

    def __init__(
        self,
        path: Path,
        clock: Callable[[], float] = time.time,
        ticks: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(read_tokens(path), clock)
        self.path, self._ticks = path, ticks
        self._seen, self._looked = _version(path), ticks()

    def find(self, token: str | None) -> TokenEntry | None:
        """Implement `TokenRoles.find`, with the file as it was a second ago at the earliest."""
        if self._ticks() - self._looked >= LOOK_EVERY:
            self.refresh()
        return super().find(token)

    def refresh(self) -> None:
        """Read the file again, if it has changed."""
        self._looked = self._ticks()
        version = _version(self.path)
        if version == self._seen:
            return
        # Also if it cannot be read: one line of the log for each change is enough.
        self._seen = version
        try:
            self.entries = read_tokens(self.path, create=False)
        except (BadParameter, OSError) as error:
            why = error.strerror if isinstance(error, OSError) else error
            LOG.error("the tokens stay as they were: %s", why)
        else:
            names = ", ".join(entry.name for entry in self.entries)
            LOG.info("the tokens were read again: %s", names)


def _version(path: Path) -> tuple[int, ...]:
    with suppress(OSError):
        found = path.stat()
        return found.st_ino, found.st_mtime_ns, found.st_size, found.st_mode
    return ()


def _hash(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


def read_tokens(path: Path, *, create: bool = True) -> tuple[TokenEntry, ...]:
    """Return the tokens in a file."""
    if create and not path.exists():
        _create_tokens(path)
    # Not repaired by chmod: somebody may have read the tokens already.
    if stat.S_IMODE(path.stat().st_mode) & 0o077:
        raise BadParameter(
            f"{path} can be read by others: make new tokens (delete the file), or chmod 600 {path}"
        )
    return _entries(path, _read_data(path))


def _read_data(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text("utf-8"))
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise _not_tokens(path)
    return found


def _entries(path: Path, data: dict[str, Any]) -> tuple[TokenEntry, ...]:
    try:
        tokens = [(role, data[role]) for role in ROLES]
        if not all(
            isinstance(token, str) and len(token) >= MIN_TOKEN_LENGTH for _, token in tokens
        ):
            raise ValueError
        present = [TokenEntry(_name(data, role), role, _hash(token)) for role, token in tokens]
        old = [
            TokenEntry(
                str(one["name"]), _role(one["role"]), bytes.fromhex(one["sha256"]), _time(one)
            )
            for one in data.get("old", ())
        ]
    except (ValueError, KeyError, TypeError):
        raise _not_tokens(path) from None
    if len({entry.digest for entry in (*present, *old)}) < len(present) + len(old):
        raise _not_tokens(path)
    return (*present, *old)


def _not_tokens(path: Path) -> BadParameter:
    return BadParameter(
        f"{path} is not a file of tokens: it must hold one of at least {MIN_TOKEN_LENGTH} "
        f"characters for each of {' and '.join(ROLES)}, as JSON. Delete it to have it made again"
    )


def _name(data: dict[str, Any], role: Role) -> str:
    return f"{role}-{int(data.get('serial', {}).get(role, 1))}"


def _role(name: object) -> Role:
    return next(role for role in ROLES if role == name)


def _time(one: dict[str, Any]) -> float:
    until = datetime.fromisoformat(one["until"])
    if until.tzinfo is None:
        raise ValueError("a time without its zone")
    return until.timestamp()


def _create_tokens(path: Path) -> None:
    """Write new tokens to a new file; it appears whole, or not at all."""
    draft = _draft(path, {role: secrets.token_urlsafe(32) for role in ROLES})
    try:
        os.link(draft, path)  # unlike rename, it never replaces tokens that somebody else made
    finally:
        draft.unlink()


def _draft(path: Path, data: dict[str, Any]) -> Path:
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(json.dumps(data, indent=2) + "\n")
        file.flush()
        os.fsync(file.fileno())
    return draft


class Rotation(NamedTuple):
    """Say what became of the tokens of a role."""

    new: str
    old: str
    until: str


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
        entries, data = read_tokens(path, create=False), _read_data(path)
        now = clock()
        # Rounded up to a second: never shorter than what was said.
        until = datetime.fromtimestamp(-(-(now + overlap) // 1) if overlap else now, UTC)
        old = next(entry for entry in entries if entry.role == role and entry.until is None)
        ended = {
            "role": role,
            "name": old.name,
            "sha256": old.digest.hex(),
            "until": until.isoformat(timespec="seconds"),
        }
        standing = [one for one in data.get("old", ()) if _time(one) > now]
        serial = data.get("serial", {})
        data |= {
            role: secrets.token_urlsafe(32),
            "serial": serial | {role: int(serial.get(role, 1)) + 1},
            "old": [*standing, *([ended] if overlap else [])],
        }
        os.replace(_draft(path, data), path)
    return Rotation(_name(data, role), old.name, ended["until"])
