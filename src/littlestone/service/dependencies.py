"""What the routes share: the parts of a running service, roles and tokens, bodies, threads.

The public reads rules, a feeder writes rounds, an operator sees the private data. No role includes
another: a machine that feeds need not see mistakes, and a screen that shows them cannot write.
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
from littlestone.service.feed import TopicFeeder
from littlestone.service.limits import ConcurrencyLimit, Limits, RateLimit, Refused, client_at
from littlestone.service.parsing import BodyFormat, body_format
from littlestone.service.writer import Writer
from littlestone.store.serialization import RunConfig

T = TypeVar("T")
Role: TypeAlias = Literal["feeder", "operator"]
ROLES: dict[Role, str] = {
    "feeder": "May write rounds, and nothing else that is not public.",
    "operator": "May read the private data, and write nothing.",
}
MIN_TOKEN_LENGTH = 16


# The service and its parts.


@dataclass(kw_only=True)
class Service:
    """Hold the parts of a running service.

    Parameters
    ----------
    config, guarantee
        How the learner was configured, and what it guarantees.
    schema
        The columns that rows must have.
    writer
        The thread that writes the store.
    events
        The public state and its subscribers.
    tokens
        The tokens and their roles.
    limits, rate_limit
        What a client may request, and how often.
    batches, inspections, watchers, predictions
        How many there may be at a time: of batches, requests for the private data, event streams,
        and large bodies to `/predict`.
    batch_threads, prediction_threads
        Where large bodies are parsed.
    feeder
        What reads a topic in the background, if there is one.
    """

    config: RunConfig
    guarantee: Guarantee
    schema: ColumnSchema
    writer: Writer
    events: EventHub
    tokens: "TokenRoles"
    limits: Limits
    rate_limit: RateLimit
    batches: ConcurrencyLimit
    inspections: ConcurrencyLimit
    watchers: ConcurrencyLimit
    predictions: ConcurrencyLimit
    batch_threads: "BodyThreads"
    prediction_threads: "BodyThreads"
    feeder: TopicFeeder | None = None


def get_service(request: Request) -> Service:
    """Return the service that received a request."""
    service = request.app.state.service
    assert isinstance(service, Service)
    return service


ServiceDependency = Annotated[Service, Depends(get_service)]


def client_of(request: HTTPConnection) -> str:
    """Return the client that the limits count a request for, if it has no token."""
    return "" if request.client is None else client_at(request.client.host)


# Tokens and roles.


class TokenRoles:
    """Find the role of a token, in a time that does not depend on the token.

    Parameters
    ----------
    tokens
        The token of each role. Only hashes are kept.

    Examples
    --------
    >>> tokens = TokenRoles({"feeder": "one", "operator": "other"})
    >>> tokens.role_of("other"), tokens.role_of("another"), tokens.role_of(None)
    ('operator', None, None)
    """

    def __init__(self, tokens: dict[Role, str]) -> None:
        self._hashes = {role: _hash(token) for role, token in tokens.items()}

    def role_of(self, token: str | None) -> Role | None:
        """Return the role of a token, or None."""
        # Hashes have one length, so the comparison does not tell how long a token is.
        given = _hash(token or "")
        # A list, not `next`: every hash is compared, so the time tells nothing about which fits.
        found = [role for role in self._hashes if hmac.compare_digest(given, self._hashes[role])]
        return found[0] if found and token else None

    def role_in_header(self, authorization: str | None) -> Role | None:
        """Return the role of the token in an `Authorization` header.

        Examples
        --------
        >>> TokenRoles({"feeder": "one", "operator": "other"}).role_in_header("Bearer one")
        'feeder'
        """
        scheme, _, token = (authorization or "").partition(" ")
        return self.role_of(token.strip()) if scheme.lower() == "bearer" else None


def _hash(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


def read_tokens(path: Path) -> dict[Role, str]:
    """Return the tokens in a file, which is created if there is none.

    Raises
    ------
    BadParameter
        If others than the owner can read the file, or it does not hold a token for each role.
    """
    if not path.exists():
        _create_tokens(path)
    # Not repaired by chmod: somebody may have read the tokens already.
    if stat.S_IMODE(path.stat().st_mode) & 0o077:
        raise BadParameter(
            f"{path} can be read by others: make new tokens (delete the file), or chmod 600 {path}"
        )
    try:
        found = json.loads(path.read_text("utf-8"))
        tokens: dict[Role, str] = {role: found[role] for role in ROLES}
    except (ValueError, KeyError, TypeError):
        tokens = {}
    if not all(isinstance(one, str) and len(one) >= MIN_TOKEN_LENGTH for one in tokens.values()):
        tokens = {}
    if len({*tokens.values()}) < len(ROLES):
        raise BadParameter(
            f"{path} is not a file of tokens: it must hold one of at least {MIN_TOKEN_LENGTH} "
            f"characters for each of {' and '.join(ROLES)}, as JSON. Delete it to have it made "
            "again"
        )
    return tokens


def _create_tokens(path: Path) -> None:
    """Write new tokens to a new file; it appears whole, or not at all."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    tokens = {role: secrets.token_urlsafe(32) for role in ROLES}
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(json.dumps(tokens, indent=2) + "\n")
    try:
        os.link(draft, path)  # unlike rename, it never replaces tokens that somebody else made
    finally:
        draft.unlink()


def require_role(role: Role) -> Callable[..., Awaitable[None]]:
    """Return a dependency that refuses a request without the token of a role."""
    bearer = HTTPBearer(scheme_name=role, description=ROLES[role], auto_error=False)

    async def check(
        request: Request,
        given: Annotated[HTTPAuthorizationCredentials | None, Depends(bearer)],
    ) -> None:
        found = get_service(request).tokens.role_of(None if given is None else given.credentials)
        if found is None:
            raise Refused(
                401,
                f"this needs the token of the {role}, as `Authorization: Bearer TOKEN`",
                headers={"WWW-Authenticate": "Bearer"},
            )
        if found != role:
            raise Refused(403, f"the token is that of the {found}, and this is for the {role}")

    return check


# Bodies.


@dataclass(frozen=True)
class Body:
    """Hold what a client sent.

    Parameters
    ----------
    data, form
        The bytes and their format.
    """

    data: bytes
    form: BodyFormat

    def digest(self, mode: str) -> bytes:
        """Return a hash that differs for bodies that must not share an idempotency key."""
        return hashlib.sha256(f"{self.form} {mode}\n".encode() + self.data).digest()


async def read_body(request: Request, limits: Limits, maximum: int) -> Body:
    """Return the body of a request.

    Parameters
    ----------
    request
        The request.
    limits
        How long its body may take, or be silent.
    maximum
        Bytes that it may have.

    Raises
    ------
    Refused
        If it is too long, too slow, or of an unknown format.
    """
    form = body_format(request.headers.get("content-type"))
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise Refused(415, "a body must not be compressed")
    # A promise of the client, so it only refuses early: what arrives is counted as well.
    length = request.headers.get("content-length", "0")
    if length.isdecimal() and int(length) > maximum:
        raise _too_long(maximum)
    chunks, total = [], 0
    clock = asyncio.get_running_loop().time
    end = clock() + limits.body_timeout

    def next_timeout() -> float:
        return min(end, clock() + limits.idle_timeout)

    try:
        async with asyncio.timeout_at(next_timeout()) as waiting:
            async for chunk in request.stream():
                # Two clocks: a body that trickles never is silent, and must not hold a slot for
                # ever.
                waiting.reschedule(next_timeout())
                chunks.append(chunk)
                total += len(chunk)
                if total > maximum:  # a length in the header is a claim, or missing
                    raise _too_long(maximum)
    except TimeoutError:
        raise Refused(
            408,
            f"the body took longer than {limits.body_timeout:g} seconds, or nothing of it came for "
            f"{limits.idle_timeout:g}",
        ) from None
    except ClientDisconnect:
        raise Refused(400, "the body was cut off") from None
    return Body(b"".join(chunks), form)


def _too_long(maximum: int) -> Refused:
    return Refused(413, f"a body may have {maximum:,} bytes: send the rows in parts")


class BodyThreads:
    """Parse bodies in threads, so that the event loop can answer other requests meanwhile.

    Each kind of work has its own instance: public requests never wait in front of a feeder's. Few
    threads, because they share one interpreter with the event loop.

    Parameters
    ----------
    threads
        How many.
    inline
        Bodies up to so many bytes are parsed in the event loop; a thread would cost more.
    """

    def __init__(self, threads: int, inline: int) -> None:
        self.inline = inline
        self._pool = ThreadPoolExecutor(threads, "bodies")

    async def run(self, size: int, work: Callable[..., T], *arguments: Any) -> T:
        """Call a function on a body.

        Parameters
        ----------
        size
            The bytes of the body.
        work, arguments
            The function and what it is called with.
        """
        if size <= self.inline:
            return work(*arguments)
        return await asyncio.get_running_loop().run_in_executor(self._pool, work, *arguments)

    def stop(self) -> None:
        """Start nothing more, without waiting for what runs."""
        self._pool.shutdown(wait=False, cancel_futures=True)


async def wait_for(future: "Future[T]") -> T:
    """Wait for the result of the writer without blocking the event loop."""
    return await asyncio.wrap_future(future)
