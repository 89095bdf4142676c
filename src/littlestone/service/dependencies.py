"""Roles: who may do what. The public reads rules, a feeder writes rounds, an operator looks inside.

No role includes another: whoever feeds need not see mistakes, and whoever watches cannot write. A
token is made at the first start and kept in a file that only its owner may read.

The parts of a running service, and what routes share: roles, bodies, threads to read them in.
"""

import asyncio
import hashlib
import hmac
import json
import os
import secrets
import stat
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, TypeVar

from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from starlette.requests import ClientDisconnect, HTTPConnection

from littlestone.data.blocks import ColumnSchema
from littlestone.privacy.accounting import Guarantee
from littlestone.privacy.parameters import BadParameter
from littlestone.service.events import EventHub
from littlestone.service.limits import ConcurrencyLimit, Limits, RateLimit, Refused, client_at
from littlestone.service.parsing import Form, content_kind
from littlestone.service.writer import Writer
from littlestone.store.serialization import RunConfig

Role: TypeAlias = Literal["feeder", "operator"]
ROLES: tuple[Role, ...] = ("feeder", "operator")


class TokenRoles:
    """Tells the role of a token, in a time that does not depend on the token.

    >>> keys = Keys({"feeder": "one", "operator": "other"})
    >>> keys.role_of("other"), keys.role_of("another"), keys.role_of(None)
    ('operator', None, None)
    """

    def __init__(self, tokens: dict[Role, str]) -> None:
        self._hashes = {role: _hashed(token) for role, token in tokens.items()}

    def role_of(self, token: str | None) -> Role | None:
        """The role that a token gives; all are compared, whichever it is."""
        given = _hashed(token or "")
        found = [role for role in self._hashes if hmac.compare_digest(given, self._hashes[role])]
        return found[0] if found and token else None

    def role_in(self, authorization: str | None) -> Role | None:
        """Return the role that an `Authorization` header gives.

        >>> Keys({"feeder": "one", "operator": "other"}).role_in("Bearer one")
        'feeder'
        """
        scheme, _, token = (authorization or "").partition(" ")
        return self.role_of(token.strip()) if scheme.lower() == "bearer" else None


def _hashed(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


def read_tokens(path: Path) -> dict[Role, str]:
    """The tokens in a file, which is made if there is none."""
    if not path.exists():
        _make(path)
    if stat.S_IMODE(path.stat().st_mode) & 0o077:
        raise BadParameter(
            f"{path} can be read by others: make new tokens (delete the file), or chmod 600 {path}"
        )
    try:
        found = json.loads(path.read_text("utf-8"))
        tokens: dict[Role, str] = {role: found[role] for role in ROLES}
    except (ValueError, KeyError, TypeError):
        tokens = {}
    if not all(isinstance(token, str) and len(token) >= 16 for token in tokens.values()):
        tokens = {}
    if len({*tokens.values()}) < len(ROLES):
        raise BadParameter(
            f"{path} is no file of tokens: it holds one of at least 16 letters for each of "
            f"{' and '.join(ROLES)}, as JSON. Delete it to have it made again"
        )
    return tokens


def _make(path: Path) -> None:
    """New tokens in a new file; whole, or not there."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    tokens = {role: secrets.token_urlsafe(32) for role in ROLES}
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(json.dumps(tokens, indent=2) + "\n")
    try:
        os.link(draft, path)
    finally:
        draft.unlink()


T = TypeVar("T")
MAY = {
    "feeder": "May write rounds, and nothing else that is not public.",
    "operator": "May look at the private side, and write nothing.",
}


@dataclass
class Service:
    """All that the routes need."""

    about: RunConfig
    guarantee: Guarantee
    wanted: ColumnSchema
    writer: Writer
    news: EventHub
    keys: TokenRoles
    limits: Limits
    pace: RateLimit
    batches: ConcurrencyLimit
    looks: ConcurrencyLimit
    watchers: ConcurrencyLimit
    predictions: ConcurrencyLimit
    feeding: "Workers"
    predicting: "Workers"


def get_service(request: Request) -> Service:
    """The service that a request came to."""
    service = request.app.state.service
    assert isinstance(service, Service)
    return service


ServiceDependency = Annotated[Service, Depends(get_service)]


def require_role(role: Role) -> Callable[..., Awaitable[None]]:
    """Let in whoever brings the token of a role."""
    bearer = HTTPBearer(scheme_name=role, description=MAY[role], auto_error=False)

    async def check(
        request: Request,
        given: Annotated[HTTPAuthorizationCredentials | None, Depends(bearer)],
    ) -> None:
        found = get_service(request).keys.role_of(None if given is None else given.credentials)
        if found is None:
            raise Refused(
                401,
                f"this needs the token of the {role}, as `Authorization: Bearer TOKEN`",
                headers={"WWW-Authenticate": "Bearer"},
            )
        if found != role:
            raise Refused(403, f"the token is that of the {found}, and this is for the {role}")

    return check


def client_of(request: HTTPConnection) -> str:
    """Return whom the limits count a request for, if it brings no token."""
    return "" if request.client is None else client_at(request.client.host)


@dataclass(frozen=True)
class Body:
    """What a client sent."""

    data: bytes
    form: Form

    def digest(self, mode: str) -> bytes:
        """Tells bodies apart that must not share a key."""
        return hashlib.sha256(f"{self.form} {mode}\n".encode() + self.data).digest()


async def body_of(request: Request, limits: Limits, most: int) -> Body:
    """Return the body of a request.

    Parameters
    ----------
    request, limits
        The request, and how long its body may take, or be silent.
    most
        Bytes that it may have.

    Raises
    ------
    Refused
        If it is too long, too slow, or of an unknown kind.
    """
    form = content_kind(request.headers.get("content-type"))
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise Refused(415, "a body is sent as it is, not packed")
    length = request.headers.get("content-length", "0")
    if length.isdecimal() and int(length) > most:
        raise _too_long(most)
    chunks, total = [], 0
    clock = asyncio.get_running_loop().time
    end = clock() + limits.body_timeout

    def next_end() -> float:
        return min(end, clock() + limits.idle_timeout)

    try:
        async with asyncio.timeout_at(next_end()) as waiting:
            async for chunk in request.stream():
                waiting.reschedule(next_end())
                chunks.append(chunk)
                total += len(chunk)
                if total > most:
                    raise _too_long(most)
    except TimeoutError:
        said = f"{limits.body_timeout:g} seconds, or nothing of it came for {limits.idle_timeout:g}"
        raise Refused(408, f"the body took longer than {said}") from None
    except ClientDisconnect:
        raise Refused(400, "the body was cut off") from None
    return Body(b"".join(chunks), form)


def _too_long(most: int) -> Refused:
    return Refused(413, f"a body may have {most:,} bytes: send the rows in parts")


class Workers:
    """Threads that read bodies, so that the event loop can answer others meanwhile.

    A queue of its own for each kind of work: what the public sends never waits in front of what a
    feeder sends. Few threads: they share one interpreter with the event loop.

    Parameters
    ----------
    threads
        How many.
    inline
        Bodies up to so many bytes are read in the event loop; a thread would cost more.
    """

    def __init__(self, threads: int, inline: int) -> None:
        self.inline = inline
        self._pool = ThreadPoolExecutor(threads, "bodies")

    async def do(self, size: int, work: Callable[..., T], *given: Any) -> T:
        """Do some work on a body of so many bytes."""
        if size <= self.inline:
            return work(*given)
        return await asyncio.get_running_loop().run_in_executor(self._pool, work, *given)

    def stop(self) -> None:
        """Begin nothing more; nobody waits for it."""
        self._pool.shutdown(wait=False, cancel_futures=True)


async def run_in_thread(future: "Future[T]") -> T:
    """What the writer makes of something."""
    return await asyncio.wrap_future(future)
