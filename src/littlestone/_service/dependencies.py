"""What the routes share: the parts of a running service, roles and tokens, bodies, threads.

The public reads rules, a feeder writes rounds, an operator sees the private data. No role includes
another: a machine that feeds need not see mistakes, and a screen that shows them cannot write.
"""

import asyncio
import hashlib
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from starlette.requests import HTTPConnection

from littlestone._data.blocks import ColumnSchema
from littlestone._privacy.accounting import Guarantee
from littlestone._service.audit_log import AuditLog
from littlestone._service.events import EventHub
from littlestone._service.feed import TopicFeeder
from littlestone._service.limits import ConcurrencyLimit, Limits, RateLimit, Refused, client_at
from littlestone._service.metrics import RequestCounts
from littlestone._service.parsing import BodyFormat, body_format
from littlestone._service.tokens import ROLES, Role, TokenEntry, TokenRoles
from littlestone._service.writer import Writer
from littlestone._store.serialization import RunConfig
from littlestone._store.store import Receipt

T = TypeVar("T")


# The service and its parts.


@dataclass(kw_only=True)
class Service:
    """Hold the parts of a running service."""

    path: Path
    config: RunConfig
    guarantee: Guarantee
    schema: ColumnSchema
    writer: Writer
    events: EventHub
    tokens: TokenRoles
    limits: Limits
    rate_limit: RateLimit
    batches: ConcurrencyLimit
    receiving: ConcurrencyLimit
    inspections: ConcurrencyLimit
    watchers: ConcurrencyLimit
    predictions: ConcurrencyLimit
    batch_threads: "BodyThreads"
    prediction_threads: "BodyThreads"
    requests: RequestCounts
    audit: AuditLog | None = None
    feeder: TopicFeeder | None = None
    started: float = field(default_factory=time.time)


def service_of(request: HTTPConnection) -> Service:
    """Return the service that received a request."""
    service = request.app.state.service
    assert isinstance(service, Service)
    return service


async def get_service(request: Request) -> Service:
    """Return the service that received a request, as a dependency of a route."""
    # A coroutine: FastAPI would call a plain function in a thread, for every request.
    return service_of(request)


ServiceDependency = Annotated[Service, Depends(get_service)]


def client_of(request: HTTPConnection) -> str:
    """Return the client that the limits count a request for, if it has no token."""
    return "" if request.client is None else client_at(request.client.host)


# Roles.


@dataclass
class RequestNote:
    """Hold what was found out about a request on its way."""

    token: TokenEntry | None = None
    receipt: Receipt | None = None


# Where a request's note is kept in its scope.
NOTE = "littlestone.note"


def note_of(request: HTTPConnection) -> RequestNote:
    """Return the note of a request."""
    note = request.scope[NOTE]
    assert isinstance(note, RequestNote)
    return note


def check_role(request: HTTPConnection, role: Role) -> None:
    """Refuse a request without the token of a role, which was looked up when it came in."""
    token = note_of(request).token
    if token is None:
        raise Refused(
            401,
            f"this needs the token of the {role}, as `Authorization: Bearer TOKEN`",
            headers={"WWW-Authenticate": "Bearer"},
        )
    if token.role != role:
        raise Refused(403, f"the token is that of the {token.role}, and this is for the {role}")


def require_role(role: Role) -> Callable[..., Awaitable[None]]:
    """Return a dependency that refuses a request without the token of a role."""
    bearer = HTTPBearer(scheme_name=role, description=ROLES[role], auto_error=False)

    async def check(
        request: Request,
        given: Annotated[HTTPAuthorizationCredentials | None, Depends(bearer)],
    ) -> None:
        # `given` is for OpenAPI.
        check_role(request, role)

    return check


# Bodies.


@dataclass(frozen=True)
class Body:
    """Hold what a client sent."""

    data: bytes
    form: BodyFormat

    def digest(self, mode: str) -> bytes:
        """Return a hash that differs for bodies that must not share an idempotency key."""
        return hashlib.sha256(f"{self.form} {mode}\n".encode() + self.data).digest()


async def read_body(request: Request, limits: Limits, maximum: int) -> Body:
    """Return the body of a request."""
    headers = request.headers
    form = body_format(headers.get("content-type"))
    if headers.get("content-encoding", "identity").lower() != "identity":
        raise Refused(415, "a body must not be compressed")
    # A promise of the client, so it only refuses early: what arrives is counted as well.
    length = headers.get("content-length", "0")
    if length.isdecimal() and int(length) > maximum:
        raise _too_long(maximum)
    chunks, total, more = [], 0, True
    clock = asyncio.get_running_loop().time
    end = clock() + limits.body_timeout
    try:
        async with asyncio.timeout_at(min(end, clock() + limits.idle_timeout)) as waiting:
            while more:
                message = await request.receive()
                if message["type"] == "http.disconnect":
                    raise Refused(400, "the body was cut off")
                chunk, more = message.get("body", b""), message.get("more_body", False)
                chunks.append(chunk)
                total += len(chunk)
                if total > maximum:  # a length in the header is a claim, or missing
                    raise _too_long(maximum)
                if more:
                    # Two clocks: a body that trickles never is silent, and must not hold a slot
                    # for ever.
                    waiting.reschedule(min(end, clock() + limits.idle_timeout))
    except TimeoutError:
        raise Refused(
            408,
            f"the body took longer than {limits.body_timeout:g} seconds, or nothing of it came for "
            f"{limits.idle_timeout:g}",
        ) from None
    return Body(b"".join(chunks), form)


def _too_long(maximum: int) -> Refused:
    return Refused(413, f"a body may have {maximum:,} bytes: send the rows in parts")


class BodyThreads:
    """Parse bodies in threads, so that the event loop can answer other requests meanwhile."""

    def __init__(self, threads: int, inline: int) -> None:
        self.inline = inline
        self._pool = ThreadPoolExecutor(threads, "bodies")

    async def run(self, data: bytes, work: Callable[..., T], *arguments: Any) -> T:
        """Call a function on a body."""
        if self.is_small(data):
            return work(*arguments)
        return await asyncio.get_running_loop().run_in_executor(self._pool, work, *arguments)

    def is_small(self, data: bytes) -> bool:
        """Return whether a body is parsed in the event loop."""
        # Many parts take long, however short they are; most have 16 bytes and more.
        parts = data.count(b",") + data.count(b"\n") if len(data) <= self.inline else 0
        return max(len(data), 16 * parts) <= self.inline

    def stop(self) -> None:
        """Start nothing more, without waiting for what runs."""
        self._pool.shutdown(wait=False, cancel_futures=True)


async def wait_for(future: "Future[T]") -> T:
    """Wait for a result that the writer sets in this thread, without blocking the event loop."""
    if not future.done():
        # Not `asyncio.wrap_future`: for a result of another thread it would wake the loop again.
        ready = asyncio.Event()
        future.add_done_callback(lambda _: ready.set())
        try:
            await ready.wait()
        except asyncio.CancelledError:
            future.cancel()  # nobody waits: not begun, the job is dropped
            raise
    return future.result()
