"""The application: the routes, put together; what goes wrong, as a sentence; headers on it all."""

import asyncio
import ipaddress
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, cast

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from littlestone.data.blocks import column_schema
from littlestone.display import library_version
from littlestone.service import private, public, schemas
from littlestone.service.dependencies import Service, TokenRoles, Workers, client_of
from littlestone.service.events import EventHub
from littlestone.service.limits import ConcurrencyLimit, Limits, RateLimit, Refused
from littlestone.service.logs import LOG, place_of
from littlestone.service.public import as_json
from littlestone.service.writer import PublicState, Writer
from littlestone.store.store import Store, open_store

HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
MOST_LOOKS = 8
"""Operators who look inside at the same moment."""

PREDICTIONS, PREDICTIONS_EACH = 16, 4
"""Large bodies of the public that are read or wait for it: in all, and of one address."""

LOCAL = ("localhost", "ip6-localhost")
STOPPING = (
    "the service is stopping, and cannot tell whether this was learned: send it again, with the "
    "same key"
)


def make_app(
    store: Store,
    keys: TokenRoles,
    limits: Limits,
    *,
    hosts: Iterable[str] = (),
    reopen: Callable[[Path, int], Store] | None = None,
) -> FastAPI:
    """Return the application for a store, which it takes over and closes at its end.

    Parameters
    ----------
    store, keys, limits
        The learner, whose tokens give which role, and how much a client may ask for.
    hosts
        Names by which clients may call this service, beside this machine's own and addresses.
    reopen
        Opens the store again after a failed commit.
    """
    again = partial(reopen or _reopened, store.path)
    wants = column_schema(store.cls, store.about.label, store.about.user)
    first = PublicState(store.published, store.spent)
    about, guarantee, key = store.about, store.guarantee, store.key

    @asynccontextmanager
    async def life(app: FastAPI) -> AsyncIterator[None]:
        loop, news = asyncio.get_running_loop(), EventHub(first, key)

        def publish(public: PublicState) -> None:
            loop.call_soon_threadsafe(news.publish, public)

        writer = Writer(store, again, publish)
        places = (
            ConcurrencyLimit(limits.queue, "batches under way"),
            ConcurrencyLimit(MOST_LOOKS, "who look inside"),
            ConcurrencyLimit(limits.watchers, "streams of events", each=limits.watchers_each),
            ConcurrencyLimit(PREDICTIONS, "predictions under way", each=PREDICTIONS_EACH),
        )
        workers = Workers(2, inline=1 << 15), Workers(1, inline=1 << 12)
        pace = RateLimit(limits.rate)
        app.state.service = Service(
            about, guarantee, wants, writer, news, keys, limits, pace, *places, *workers
        )
        writer.start()
        try:
            yield
        finally:
            news.close()
            for some in workers:
                some.stop()
            await asyncio.to_thread(writer.stop)

    app = _App(
        schemas.row_schemas(wants),
        title=schemas.TITLE,
        description=schemas.ABOUT,
        version=library_version(),
        lifespan=life,
        docs_url=None,
        redoc_url=None,
    )
    for router in (public.router, private.router):
        app.include_router(router)
    for kind, answer in _ANSWERS.items():
        app.add_exception_handler(kind, cast(Any, answer))
    app.add_middleware(_Guarded, hosts=frozenset(map(str.lower, (*LOCAL, *hosts))))
    return app


class _App(FastAPI):
    """An application whose description knows what a row is."""

    def __init__(self, rows: dict[str, Any], **options: Any) -> None:
        super().__init__(**options)
        self._rows = rows

    def openapi(self) -> dict[str, Any]:
        """The description of every route."""
        schema = super().openapi()
        schemas = schema["components"]["schemas"]
        schemas |= self._rows
        for name in ("HTTPValidationError", "ValidationError"):
            schemas.pop(name, None)
        return schema


def _reopened(path: Path, generation: int) -> Store:
    return open_store(path, after=generation)


async def _refused(request: Request, error: Refused) -> Response:
    return _told(error)


def _told(error: Refused) -> Response:
    answer = as_json(error.to_json(), error.status)
    answer.headers.update(error.headers)
    return answer


async def _unfit(request: Request, error: RequestValidationError) -> Response:
    """A parameter that is not what it should be: which, and why, without repeating it."""
    first = error.errors()[0]
    where = " ".join(str(part) for part in first["loc"])
    return as_json({"error": f"{where}: {first['msg']}"}, 422)


async def _other(request: Request, error: HTTPException) -> Response:
    answer = as_json({"error": str(error.detail)}, error.status_code)
    answer.headers.update(error.headers or {})
    return answer


_ANSWERS = {Refused: _refused, RequestValidationError: _unfit, HTTPException: _other}


class _Guarded:
    """Every request passes here, whatever its path: it may not come too often, nor under a name of
    somebody else. Headers are put on every answer; HEAD is a GET whose body is left out; and a
    fault of ours is told, and logged, without what was sent."""

    def __init__(self, app: ASGIApp, hosts: frozenset[str]) -> None:
        self.app, self.hosts = app, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        begun = ended = False
        is_head = scope["method"] == "HEAD"

        async def sent(message: Message) -> None:
            nonlocal begun, ended
            if ended:
                return
            if message["type"] == "http.response.start":
                begun = True
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            elif is_head:  # an answer without a body is whole now, and a stream finds itself ended
                message, ended = {"type": "http.response.body"}, True
            await send(message)

        # A copy: the server goes by the method in its own, and sends no body to a HEAD.
        inside = {**scope, "method": "GET"} if is_head else scope
        try:
            self._admit(HTTPConnection(scope))
            await self.app(inside, receive, sent)
        except Refused as error:
            await _told(error)(scope, receive, sent)
        except asyncio.CancelledError:  # the time that requests have at a stop is over
            if not begun:
                await as_json({"error": STOPPING}, 503)(scope, receive, sent)
        except Exception as error:
            LOG.error("a fault of ours: %s", place_of(error))
            if not begun:
                said = {"error": "a fault of ours: its place was logged, and nothing of yours"}
                await as_json(said, 500)(scope, receive, sent)

    def _admit(self, request: HTTPConnection) -> None:
        """Refuse whoever asks too often, or was led here under a name that is not ours.

        A browser that is told that evil.example is at 127.0.0.1 lets its scripts read our answers;
        it says evil.example in Host. An address cannot be given to somebody else like that.
        """
        service = request.app.state.service
        role = service.keys.role_in(request.headers.get("authorization"))
        service.pace.check(role or f"from {client_of(request)}")
        host = request.headers.get("host")
        if host is not None and not _is_address(name := _name_in(host)) and name not in self.hosts:
            raise Refused(
                421, "this service does not go by that name: name it with --host-name at its start"
            )


def _name_in(host: str) -> str:
    """The name in a Host header, without its port.

    >>> _name_in("Localhost:8000"), _name_in("[::1]:8000"), _name_in("wall.example.")
    ('localhost', '::1', 'wall.example')
    """
    name = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
    return name.lower().removesuffix(".")


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
