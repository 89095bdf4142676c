"""The application: routes, and what every request and response passes."""

import ipaddress
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from functools import lru_cache
from typing import Any, cast

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from littlestone._data.schema import file_schema
from littlestone._display import library_version
from littlestone._service import routes, schemas
from littlestone._service.limits import Limits, Refused
from littlestone._service.logs import ACCESS, LOG, describe_error
from littlestone._service.schemas import ProblemResponse, json_response, refusal_response
from littlestone._service.service import NOTE, RequestNote, Service, client_of, service_of
from littlestone._service.tokens import TokenRoles
from littlestone._store.store import Store

# In the form of ASGI.
HEADERS = [
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"referrer-policy", b"no-referrer"),
    (b"server", b"littlestone"),
    (b"x-content-type-options", b"nosniff"),
]
LOCAL_NAMES = ("localhost", "ip6-localhost")
# What the audit log is about, what is counted by its path, and what all other paths are counted as:
# clients must not choose names of series.
PRIVATE_ROUTES = frozenset(
    route.path for route in routes.private.routes if isinstance(route, APIRoute)
)
KNOWN_ROUTES = frozenset(
    {"/openapi.json"}
    | {route.path for route in routes.public.routes if isinstance(route, APIRoute)}
    | PRIVATE_ROUTES
)
OTHER_ROUTES = "other"
INTERNAL_ERROR = "an internal error: its place was logged, and nothing of the request"
ACCESS_LINE = '%s - "%s %s HTTP/%s" %d'
# pydantic says a pattern; the only one here is that of a key.
BAD_KEY = "it must be 1 to 200 visible characters of ASCII, no spaces"


def make_app(
    store: Store, tokens: TokenRoles, limits: Limits, *, hosts: Iterable[str] = (), **options: Any
) -> FastAPI:
    """Return the application for a store, which it closes at its end; `options` as `Service` has."""
    about = store.about
    rows = schemas.row_schemas(
        file_schema(store.cls, about.terms.label, about.terms.user, about.terms.positive)
    )

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        service = app.state.service = Service(store, tokens, limits, **options)
        service.start()
        try:
            yield
        finally:
            await service.stop()

    app = _App(
        rows,
        title=schemas.TITLE,
        description=schemas.DESCRIPTION,
        version=library_version(),
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    for router in (routes.private, routes.public):
        app.include_router(router)
    for kind, handler in HANDLERS.items():
        app.add_exception_handler(kind, cast(Any, handler))
    app.add_middleware(Guard, hosts=frozenset(map(str.lower, (*LOCAL_NAMES, *hosts))))
    return app


class _App(FastAPI):
    """Describe rows in OpenAPI by the columns of the learner's class."""

    def __init__(self, rows: dict[str, Any], **options: Any) -> None:
        super().__init__(**options)
        self._rows = rows

    def openapi(self) -> dict[str, Any]:
        """Return the description of every route."""
        description = super().openapi()
        models = description["components"]["schemas"]
        models |= self._rows
        # FastAPI's own models of errors, which no route returns.
        for name in ("HTTPValidationError", "ValidationError"):
            models.pop(name, None)
        return description


async def _handle_refusal(request: Request, error: Refused) -> Response:
    return refusal_response(error)


async def _handle_bad_parameter(request: Request, error: RequestValidationError) -> Response:
    # Only where and why: pydantic's own message would repeat what was sent.
    first = error.errors()[0]
    where = " ".join(str(part) for part in first["loc"])
    why = BAD_KEY if first["type"] == "string_pattern_mismatch" else first["msg"]
    return json_response(ProblemResponse(error=f"{where}: {why}"), 422)


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

    def __init__(self, app: ASGIApp, hosts: frozenset[str]) -> None:
        self.app, self.hosts = app, hosts

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
                _record(HTTPConnection(scope), message["status"])
                headers = message.setdefault("headers", [])
                present = {name for name, _ in headers}
                headers.extend(pair for pair in HEADERS if pair[0] not in present)
            elif is_head:  # the response is complete now; a stream is ended by it
                message, ended = {"type": "http.response.body"}, True
            await send(message)

        try:
            self._check(HTTPConnection(scope))
            # A copy: the server reads the method in its own scope, and sends no body to a HEAD.
            inner = {**scope, "method": "GET"} if is_head else scope
            await self.app(inner, receive, send_guarded)
        except Refused as error:
            await refusal_response(error)(scope, receive, send_guarded)
        except Exception as error:
            LOG.error("an internal error: %s", describe_error(error))
            if not begun:
                problem = ProblemResponse(error=INTERNAL_ERROR)
                await json_response(problem, 500)(scope, receive, send_guarded)

    def _check(self, request: HTTPConnection) -> None:
        """Refuse a client that requests too often, or that uses a foreign host name or a bad path."""
        service = service_of(request)
        token = service.tokens.find_in_header(request.headers.get("authorization"))
        request.scope[NOTE].token = token
        # Requests with a token count for its role: a feeder behind the address of a hostile client
        # is not slowed down by it.
        service.rate_limit.check(f"from {client_of(request)}" if token is None else token.role)
        # The router's `$` matches before a line break at the end, too: such a request would be
        # answered as one for the route, and counted and audited as one for no route.
        if request.scope["path"].endswith("\n"):
            raise Refused(404, "Not Found")
        # granian says an empty one for a request that has none, as of HTTP/1.0.
        for host in filter(None, request.headers.getlist("host")):
            if not _is_address(name := _host_name(host)) and name not in self.hosts:
                raise Refused(
                    421,
                    "this service does not have that host name: pass it with --host-name at the "
                    "start",
                )


def _record(request: HTTPConnection, status: int) -> None:
    """Log and count a request that is about to be answered; a private one is also audited."""
    service, scope = service_of(request), request.scope
    client, method, path = client_of(request), scope["method"], scope["path"]
    ACCESS.info(ACCESS_LINE, client, method, path, scope["http_version"], status)
    route = path if path in KNOWN_ROUTES else OTHER_ROUTES
    service.requests[route, status] += 1
    if service.audit is not None and route in PRIVATE_ROUTES:
        note: RequestNote = scope[NOTE]
        facts = {"client": client, "method": method, "route": route, "status": status}
        service.audit.request(note.token, note.receipt, **facts)


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
