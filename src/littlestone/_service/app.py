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

from littlestone._display import library_version
from littlestone._service.limits import Limits, Refused, client_at
from littlestone._service.operations import ACCESS, LOG, describe_error
from littlestone._service.routes import (
    ApiResponse,
    feed,
    feeder,
    operator,
    problem_response,
    public,
    row_schemas,
)
from littlestone._service.service import Service
from littlestone._service.tokens import Tokens
from littlestone._store.store import Store

DESCRIPTION = """A stored learner behind HTTP: before every round it has a published rule, and the
whole sequence of published rules is differentially private.

**Public**, without a token: the rules, the rounds of their release, the evidence for causes, the
number of rounds, the guarantee. **Feeder**: writes rounds. **Operator**: sees mistakes and votes,
which are exact and belong to the data owner. No role includes another. Tokens are sent as
`Authorization: Bearer`.

Every refusal is a sentence, as JSON: `{"error": "..."}`. A batch that is refused changes nothing,
and is outside the privacy guarantee: that it was refused tells about its rows."""
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
PRIVATE_ROUTES, PUBLIC_ROUTES = (
    frozenset(route.path for route in routes if isinstance(route, APIRoute))
    for routes in ([*feeder.routes, *operator.routes], public.routes)
)
KNOWN_ROUTES = PRIVATE_ROUTES | PUBLIC_ROUTES | {"/openapi.json"}
OTHER_ROUTES = "other"
INTERNAL_ERROR = "an internal error: its place was logged, and nothing of the request"
OTHER_NAME = "this service does not have that host name: pass it with --host-name at the start"
ACCESS_LINE = '%s - "%s %s HTTP/%s" %d'


def make_app(
    store: Store, tokens: Tokens, limits: Limits, *, hosts: Iterable[str] = (), **options: Any
) -> FastAPI:
    """Return the application for a store, which it closes at its end; `options` as `Service` has."""
    terms = store.about.terms
    rows = row_schemas(terms.schema(store.cls))

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        service = app.state.service = Service(store, tokens, limits, **options)
        service.start()
        try:
            yield
        finally:
            await service.stop()

    app = FastAPI(
        title="littlestone",
        description=DESCRIPTION,
        version=library_version(),
        lifespan=lifespan,
        default_response_class=ApiResponse,
        exception_handlers={
            HTTPException: cast(Any, _handle_http_error),
            RequestValidationError: cast(Any, _handle_bad_parameter),
        },
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    for router in (feeder, operator, public):
        app.include_router(router)
    # Rows are described by the columns of the learner's class.
    app.openapi()["components"]["schemas"] |= rows
    app.add_middleware(Guard, hosts=frozenset(map(str.lower, (*LOCAL_NAMES, *hosts))))
    return app


async def _handle_http_error(request: Request, error: HTTPException) -> Response:
    return problem_response(error)


async def _handle_bad_parameter(request: Request, error: RequestValidationError) -> Response:
    # Only where and why: pydantic's own message would repeat what was sent.
    first = error.errors()[0]
    where = " ".join(str(part) for part in first["loc"])
    return problem_response(Refused(422, f"{where}: {first['msg']}"))


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
        request = HTTPConnection(scope)
        service: Service = request.app.state.service
        # Cut, as in `client_at`: what a proxy wrote is kept there.
        client = "" if request.client is None else client_at(request.client.host[:64])
        token = service.tokens.find(request.headers.get("authorization"))
        # What routes and the audit log know about a request, as `request.state`.
        scope["state"] = {"client": client, "token": token, "receipt": None}

        async def send_guarded(message: Message) -> None:
            nonlocal begun, ended
            if ended:
                return
            if message["type"] == "http.response.start":
                begun = True
                _record(service, scope, message["status"])
                headers = message.setdefault("headers", [])
                present = {name for name, _ in headers}
                headers.extend(pair for pair in HEADERS if pair[0] not in present)
            elif is_head:  # the response is complete now; a stream is ended by it
                message, ended = {"type": "http.response.body"}, True
            await send(message)

        try:
            # Requests with a token count for its role: a feeder behind the address of a hostile
            # client is not slowed down by it.
            service.rate_limit.check(f"from {client}" if token is None else token.role)
            self._check_names(request)
            # A copy: the server reads the method in its own scope, and sends no body to a HEAD.
            inner = {**scope, "method": "GET"} if is_head else scope
            is_batch = scope["path"] == "/rounds" and scope["method"] == "POST"
            await (feed if is_batch else self.app)(inner, receive, send_guarded)
        except Refused as error:
            await problem_response(error)(scope, receive, send_guarded)
        except Exception as error:
            LOG.error("an internal error: %s", describe_error(error))
            if not begun:
                problem = problem_response(HTTPException(500, INTERNAL_ERROR))
                await problem(scope, receive, send_guarded)

    def _check_names(self, request: HTTPConnection) -> None:
        """Refuse a foreign host name, and a path that ends with a line break."""
        # The router's `$` matches before a line break at the end, too: such a request would be
        # answered as one for the route, and counted and audited as one for no route.
        if request.scope["path"].endswith("\n"):
            raise Refused(404, "Not Found")
        # granian says an empty one for a request that has none, as of HTTP/1.0.
        for host in filter(None, request.headers.getlist("host")):
            if not _is_address(name := _host_name(host)) and name not in self.hosts:
                raise Refused(421, OTHER_NAME)


def _record(service: Service, scope: Scope, status: int) -> None:
    """Log and count a request that is about to be answered; a private one is also audited."""
    method, path, state = scope["method"], scope["path"], scope["state"]
    client = state["client"]
    ACCESS.info(ACCESS_LINE, client, method, path, scope["http_version"], status)
    route = path if path in KNOWN_ROUTES else OTHER_ROUTES
    service.requests[route, status] += 1
    if service.audit is not None and route in PRIVATE_ROUTES:
        facts = {"client": client, "method": method, "route": route, "status": status}
        service.audit.request(state["token"], state["receipt"], **facts)


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
