"""The parts of a running service, and what routes share: roles, bodies, threads to read them in."""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from starlette.requests import ClientDisconnect, HTTPConnection

from littlestone.edge.about import About
from littlestone.edge.blocks import Wanted
from littlestone.edge.service.bodies import Form, form_of
from littlestone.edge.service.limits import Limits, Pace, Places, holder_at
from littlestone.edge.service.news import News
from littlestone.edge.service.refusals import Refused
from littlestone.edge.service.roles import Keys, Role
from littlestone.edge.service.writer import Writer
from littlestone.privacy.accounting import Guarantee

T = TypeVar("T")
MAY = {
    "feeder": "May write rounds, and nothing else that is not public.",
    "operator": "May look at the private side, and write nothing.",
}


@dataclass
class Service:
    """All that the routes need."""

    about: About
    guarantee: Guarantee
    wanted: Wanted
    writer: Writer
    news: News
    keys: Keys
    limits: Limits
    pace: Pace
    batches: Places
    looks: Places
    watchers: Places
    predictions: Places
    feeding: "Workers"
    predicting: "Workers"


def service_of(request: Request) -> Service:
    """The service that a request came to."""
    service = request.app.state.service
    assert isinstance(service, Service)
    return service


TheService = Annotated[Service, Depends(service_of)]


def only(role: Role) -> Callable[..., Awaitable[None]]:
    """Let in whoever brings the token of a role."""
    bearer = HTTPBearer(scheme_name=role, description=MAY[role], auto_error=False)

    async def check(
        request: Request,
        given: Annotated[HTTPAuthorizationCredentials | None, Depends(bearer)],
    ) -> None:
        found = service_of(request).keys.role_of(None if given is None else given.credentials)
        if found is None:
            raise Refused(
                401,
                f"this needs the token of the {role}, as `Authorization: Bearer TOKEN`",
                headers={"WWW-Authenticate": "Bearer"},
            )
        if found != role:
            raise Refused(403, f"the token is that of the {found}, and this is for the {role}")

    return check


def holder_of(request: HTTPConnection) -> str:
    """Return whom the limits count a request for, if it brings no token."""
    return "" if request.client is None else holder_at(request.client.host)


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
    form = form_of(request.headers.get("content-type"))
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


async def done(future: "Future[T]") -> T:
    """What the writer makes of something."""
    return await asyncio.wrap_future(future)
