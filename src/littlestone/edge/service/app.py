"""The application: the routes, put together; what goes wrong, as a sentence; headers on it all."""

import asyncio
import logging
import traceback
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, cast

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from littlestone import __version__
from littlestone.edge.blocks import wanted
from littlestone.edge.service import describing, page, private, public
from littlestone.edge.service.limits import Limits, Pace, Places
from littlestone.edge.service.news import News
from littlestone.edge.service.parts import Service
from littlestone.edge.service.public import as_json
from littlestone.edge.service.refusals import Refused
from littlestone.edge.service.roles import Keys
from littlestone.edge.service.writer import Public, Writer
from littlestone.edge.store import Store, open_store

LOG = logging.getLogger("littlestone")
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
MOST_LOOKS = 8
"""Operators who look inside at the same moment."""


def make_app(
    store: Store,
    keys: Keys,
    limits: Limits,
    *,
    reopen: Callable[[Path, int], Store] | None = None,
) -> FastAPI:
    """The application for a store, which it takes over and closes at its end."""
    again = partial(reopen or _reopened, store.path)
    wants = wanted(store.cls, store.about.label, store.about.user)
    first = Public(store.published, store.spent)
    about, guarantee, key = store.about, store.guarantee, store.key

    @asynccontextmanager
    async def life(app: FastAPI) -> AsyncIterator[None]:
        loop, news = asyncio.get_running_loop(), News(first, key)

        def publish(public: Public) -> None:
            loop.call_soon_threadsafe(news.publish, public)

        writer = Writer(store, again, publish)
        places = (
            Places(limits.queue, "batches under way"),
            Places(MOST_LOOKS, "who look inside"),
            Places(limits.watchers, "subscribers"),
        )
        pace = Pace(limits.rate)
        app.state.service = Service(
            about, guarantee, wants, writer, news, keys, limits, pace, *places
        )
        writer.start()
        try:
            yield
        finally:
            news.close()
            await asyncio.to_thread(writer.stop)

    app = _App(
        describing.rows_described(wants),
        title=describing.TITLE,
        description=describing.ABOUT,
        version=__version__,
        lifespan=life,
        docs_url=None,
        redoc_url=None,
    )
    for router in (public.router, private.router, page.router):
        app.include_router(router)
    for kind, answer in _ANSWERS.items():
        app.add_exception_handler(kind, cast(Any, answer))
    app.add_middleware(_Guarded)
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
    """Headers on every answer; and a fault of ours is told, and logged, without what was sent."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        begun = False

        async def sent(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        try:
            await self.app(scope, receive, sent)
        except Exception as error:
            LOG.error("a fault of ours: %s", _place(error))
            if not begun:
                said = {"error": "a fault of ours: its place was logged, and nothing of yours"}
                await as_json(said, 500)(scope, receive, sent)


def _place(error: Exception) -> str:
    """Where an error was raised, and its kind; its text may hold what is private."""
    frames = traceback.extract_tb(error.__traceback__)[-5:]
    where = " > ".join(f"{Path(frame.filename).name}:{frame.lineno}" for frame in frames)
    return f"{type(error).__name__} at {where}"
