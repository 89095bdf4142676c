"""The parts of a running service, and the gatekeepers that every route shares."""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from starlette.requests import ClientDisconnect

from littlestone.edge.about import About
from littlestone.edge.blocks import Wanted
from littlestone.edge.service.bodies import Form, form_of
from littlestone.edge.service.limits import Limits, Pace, Places
from littlestone.edge.service.news import News
from littlestone.edge.service.refusals import Refused
from littlestone.edge.service.roles import Keys, Role
from littlestone.edge.service.writer import Writer
from littlestone.privacy.accounting import Guarantee

T = TypeVar("T")
INLINE = 1 << 15
"""Bodies up to so many bytes are read in the event loop; a thread would cost more."""

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


def service_of(request: Request) -> Service:
    """The service that a request came to."""
    service = request.app.state.service
    assert isinstance(service, Service)
    return service


TheService = Annotated[Service, Depends(service_of)]


async def anyone(request: Request) -> None:
    """Let everybody in, but not too often."""
    service_of(request).pace.check(_client(request))


def only(role: Role) -> Callable[..., Awaitable[None]]:
    """Let in whoever brings the token of a role."""
    bearer = HTTPBearer(scheme_name=role, description=MAY[role], auto_error=False)

    async def check(
        request: Request,
        given: Annotated[HTTPAuthorizationCredentials | None, Depends(bearer)],
    ) -> None:
        service = service_of(request)
        found = service.keys.role_of(None if given is None else given.credentials)
        service.pace.check(found or _client(request))
        if found is None:
            raise Refused(
                401,
                f"this needs the token of the {role}, as `Authorization: Bearer TOKEN`",
                headers={"WWW-Authenticate": "Bearer"},
            )
        if found != role:
            raise Refused(403, f"the token is that of the {found}, and this is for the {role}")

    return check


def _client(request: Request) -> str:
    return "" if request.client is None else f"from {request.client.host}"


@dataclass(frozen=True)
class Body:
    """What a client sent."""

    data: bytes
    form: Form

    def digest(self, mode: str) -> bytes:
        """Tells bodies apart that must not share a key."""
        return hashlib.sha256(f"{self.form} {mode}\n".encode() + self.data).digest()


async def body_of(request: Request, limits: Limits) -> Body:
    """The body of a request, if it is neither too long, nor too slow, nor of an unknown kind."""
    form = form_of(request.headers.get("content-type"))
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise Refused(415, "a body is sent as it is, not packed")
    length = request.headers.get("content-length", "0")
    if length.isdecimal() and int(length) > limits.body:
        raise _too_long(limits)
    chunks, total = [], 0
    try:
        async with asyncio.timeout(limits.patience):
            async for chunk in request.stream():
                chunks.append(chunk)
                total += len(chunk)
                if total > limits.body:
                    raise _too_long(limits)
    except TimeoutError:
        raise Refused(408, f"the body took longer than {limits.patience:g} seconds") from None
    except ClientDisconnect:
        raise Refused(400, "the body was cut off") from None
    return Body(b"".join(chunks), form)


def _too_long(limits: Limits) -> Refused:
    return Refused(413, f"a body may have {limits.body:,} bytes: send the rows in parts")


async def worked(size: int, work: Callable[..., T], *given: Any) -> T:
    """Do some work on so many bytes, in a thread if they are many."""
    return work(*given) if size <= INLINE else await asyncio.to_thread(work, *given)


async def done(future: "Future[T]") -> T:
    """What the writer makes of something."""
    return await asyncio.wrap_future(future)
