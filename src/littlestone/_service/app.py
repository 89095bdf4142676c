"""The application: routes, exception handlers, and what every request and response passes."""

import asyncio
import ipaddress
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, cast

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from littlestone._data.blocks import column_schema
from littlestone._display import library_version
from littlestone._service import operations, routes, schemas
from littlestone._service.audit_log import AuditLog
from littlestone._service.dependencies import (
    NOTE,
    BodyThreads,
    RequestNote,
    Service,
    client_of,
)
from littlestone._service.events import EventHub
from littlestone._service.feed import TopicFeeder
from littlestone._service.limits import ConcurrencyLimit, Limits, RateLimit, Refused
from littlestone._service.metrics import RequestCounts
from littlestone._service.schemas import ProblemResponse, json_response, refusal_response
from littlestone._service.server import LOG, describe_error
from littlestone._service.tokens import ROLES, TokenRoles
from littlestone._service.writer import PublicState, Writer
from littlestone._store.store import Store, open_store

# In the form of ASGI.
HEADERS = [
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
]
# Requests for the private data at a time.
MAX_INSPECTIONS = 8

# Large bodies to `/predict` that are parsed or wait for it: in all, and of one address.
MAX_PREDICTIONS, MAX_PREDICTIONS_EACH = 16, 4

# What the audit log is about: routes that need a token.
PRIVATE_ROUTES = frozenset(
    route.path
    for router in (routes.private, operations.private)
    for route in router.routes
    if isinstance(route, APIRoute)
)

LOCAL_NAMES = ("localhost", "ip6-localhost")
STOPPED = (
    "the service is stopping, and it is unknown whether the batch was learned: send it again, with "
    "the same key"
)
INTERNAL_ERROR = "an internal error: its place was logged, and nothing of the request"


def make_app(
    store: Store,
    tokens: TokenRoles,
    limits: Limits,
    *,
    hosts: Iterable[str] = (),
    reopen: Callable[[Path, int], Store] | None = None,
    feeder: TopicFeeder | None = None,
    audit: AuditLog | None = None,
) -> FastAPI:
    """Return the application for a store, which it closes at its end."""
    schema = column_schema(store.cls, store.about.label, store.about.user, store.about.positive)
    # Read here: from the start of the writer on, the store belongs to its thread.
    state = PublicState(store.published, store.spent)
    config, guarantee, key, run = store.about, store.guarantee, store.key, store.run

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        events = EventHub(state, key, config.label)
        receiving = ConcurrencyLimit(limits.queue, "batches being received")
        writer = Writer(
            store,
            partial(reopen or _reopen, store.path),
            events.publish,
            asyncio.get_running_loop().call_soon_threadsafe,
            lambda: receiving.taken,
        )
        service = app.state.service = Service(
            path=store.path,
            config=config,
            guarantee=guarantee,
            schema=schema,
            writer=writer,
            events=events,
            tokens=tokens,
            limits=limits,
            rate_limit=RateLimit(limits.rate),
            batches=ConcurrencyLimit(limits.queue, "batches under way"),
            receiving=receiving,
            inspections=ConcurrencyLimit(MAX_INSPECTIONS, "requests for the trace"),
            watchers=ConcurrencyLimit(
                limits.watchers, "streams of events", each=limits.watchers_each
            ),
            predictions=ConcurrencyLimit(
                MAX_PREDICTIONS, "predictions under way", each=MAX_PREDICTIONS_EACH
            ),
            batch_threads=BodyThreads(2, inline=1 << 17),
            prediction_threads=BodyThreads(1, inline=1 << 12),
            requests=RequestCounts(paths, ["/rounds"]),
            audit=audit,
            feeder=feeder,
        )
        writer.start()
        if audit is not None:
            audit.event("start", run=run, version=library_version())
        if feeder is not None:
            feeder.feed(writer, run)
        try:
            yield
        finally:
            events.close()
            if feeder is not None:
                await asyncio.to_thread(feeder.end)
            service.batch_threads.stop()
            service.prediction_threads.stop()
            await asyncio.to_thread(writer.stop)
            if audit is not None:
                audit.event("stop", run=run)

    app = _App(
        schemas.row_schemas(schema),
        title=schemas.TITLE,
        description=schemas.DESCRIPTION,
        version=library_version(),
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
    )
    paths = {"/openapi.json"}
    # Rounds first: routes are looked through in this order.
    for router in (routes.private, routes.public, operations.public, operations.private):
        app.include_router(router)
        paths |= {route.path for route in router.routes if isinstance(route, APIRoute)}
    for kind, handler in HANDLERS.items():
        app.add_exception_handler(kind, cast(Any, handler))
    app.add_middleware(Guard, hosts=host_names(hosts), batches=routes.rounds)
    return app


def host_names(hosts: Iterable[str]) -> frozenset[str]:
    """Return the names by which clients may call the service, beside addresses."""
    return frozenset(map(str.lower, (*LOCAL_NAMES, *hosts)))


class _App(FastAPI):
    """Describe rows in OpenAPI by the columns of the learner's class."""

    def __init__(self, rows: dict[str, Any], **options: Any) -> None:
        super().__init__(**options)
        self._rows = rows

    def openapi(self) -> dict[str, Any]:
        """Return the description of every route."""
        description = super().openapi()
        components = description["components"]
        # Of the role whose route checks it without a dependency that FastAPI knows of.
        feeder = {"type": "http", "scheme": "bearer", "description": ROLES["feeder"]}
        components["securitySchemes"]["feeder"] = feeder
        components["schemas"] |= self._rows
        # FastAPI's own models of errors, which no route returns.
        for name in ("HTTPValidationError", "ValidationError"):
            components["schemas"].pop(name, None)
        return description


def _reopen(path: Path, generation: int) -> Store:
    return open_store(path, after=generation)


async def _handle_refusal(request: Request, error: Refused) -> Response:
    return refusal_response(error)


async def _handle_bad_parameter(request: Request, error: RequestValidationError) -> Response:
    # Only where and why: pydantic's own message would repeat what was sent.
    first = error.errors()[0]
    where = " ".join(str(part) for part in first["loc"])
    return json_response(ProblemResponse(error=f"{where}: {first['msg']}"), 422)


async def _handle_http_error(request: Request, error: HTTPException) -> Response:
    response = json_response(ProblemResponse(error=str(error.detail)), error.status_code)
    response.headers.update(error.headers or {})
    return response


HANDLERS = {
    Refused: _handle_refusal,
    RequestValidationError: _handle_bad_parameter,
    HTTPException: _handle_http_error,
}


class Guard:
    """Check the rate and the host name of every request, and set headers on every response."""

    def __init__(
        self,
        app: ASGIApp,
        hosts: frozenset[str],
        batches: Callable[[Request], Awaitable[Response]] | None = None,
    ) -> None:
        self.app, self.hosts, self.batches = app, hosts, batches

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        begun = ended = False
        is_head = scope["method"] == "HEAD"
        scope[NOTE] = RequestNote()

        async def send_guarded(message: Message) -> None:
            nonlocal begun, ended
            if ended:
                return
            if message["type"] == "http.response.start":
                begun = True
                _record(scope, message["status"])
                headers = message.setdefault("headers", [])
                present = {name for name, _ in headers}
                headers.extend(pair for pair in HEADERS if pair[0] not in present)
            elif is_head:  # the response is complete now; a stream is ended by it
                message, ended = {"type": "http.response.body"}, True
            await send(message)

        # A copy: the server reads the method in its own scope, and sends no body to a HEAD.
        inner = {**scope, "method": "GET"} if is_head else scope
        try:
            self._check(HTTPConnection(scope))
            is_batch = scope["method"] == "POST" and route_path(scope) == "/rounds"
            if is_batch and self.batches is not None:
                response = await self.batches(Request(scope, receive))
                await response(scope, receive, send_guarded)
            else:
                await self.app(inner, receive, send_guarded)
        except Refused as error:
            await refusal_response(error)(scope, receive, send_guarded)
        except asyncio.CancelledError:  # the grace period of a stop is over
            if not begun:
                problem = ProblemResponse(error=STOPPED)
                await json_response(problem, 503)(scope, receive, send_guarded)
        except Exception as error:
            LOG.error("an internal error: %s", describe_error(error))
            if not begun:
                problem = ProblemResponse(error=INTERNAL_ERROR)
                await json_response(problem, 500)(scope, receive, send_guarded)

    def _check(self, request: HTTPConnection) -> None:
        """Refuse a client that requests too often, or that uses a foreign host name or a bad path."""
        service = request.app.state.service
        token = service.tokens.find_in_header(request.headers.get("authorization"))
        request.scope[NOTE].token = token
        # Requests with a token count for its role: a feeder behind the address of a hostile client
        # is not slowed down by it.
        service.rate_limit.check(f"from {client_of(request)}" if token is None else token.role)
        # The router's `$` matches before a line break at the end, too: such a request would be
        # answered as one for the route, and counted and audited as one for no route.
        if request.scope["path"].endswith("\n"):
            raise Refused(404, "Not Found")
        host = request.headers.get("host")
        if (
            host is not None
            and not _is_address(name := _host_name(host))
            and name not in self.hosts
        ):
            raise Refused(
                421,
                "this service does not have that host name: pass it with --host-name at the start",
            )


def route_path(scope: Scope) -> str:
    """Return the path of a request inside the application."""
    # Behind a mount the path begins with that of the mount.
    path: str = scope["path"]
    return path.removeprefix(scope.get("root_path", ""))


def _record(scope: Scope, status: int) -> None:
    """Count a request that is about to be answered, and write it to the audit log if it is private."""
    service: Service = scope["app"].state.service
    route = service.requests.route_of(route_path(scope))
    service.requests.add(route, status)
    if service.audit is not None and route in PRIVATE_ROUTES:
        note: RequestNote = scope[NOTE]
        client = client_of(HTTPConnection(scope))
        service.audit.request(
            note.token,
            client=client,
            method=scope["method"],
            route=route,
            status=status,
            receipt=note.receipt,
        )


def _host_name(host: str) -> str:
    """Return the name in a Host header, without its port."""
    name = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
    return name.lower().removesuffix(".")


@lru_cache(maxsize=64)
def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
