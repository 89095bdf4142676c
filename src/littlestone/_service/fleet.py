"""Several learners in one service: each store of a folder under its name, and an index of them.

Each learner is the application of `make_app` under `/NAME`, with its own tokens, limits and writing
thread; all share the event loop, the connections and the log. A store that cannot be opened does
not keep the others from being served: it is listed as unavailable, and only its operator is told
why.
"""

import re
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, cast

from fastapi import FastAPI, Request
from markupsafe import Markup
from pydantic import Field
from starlette.responses import HTMLResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from littlestone._display import environment, library_version
from littlestone._privacy.parameters import BadParameter
from littlestone._report.causes import label_in_words, rule_in_words
from littlestone._service.app import HANDLERS, Guard, host_names
from littlestone._service.dependencies import Service
from littlestone._service.limits import Limits, RateLimit, Refused, unavailable
from littlestone._service.metrics import RequestCounts
from littlestone._service.routes import source_hash
from littlestone._service.schemas import ApiModel, LiveResponse, json_response
from littlestone._service.tokens import TokenRoles
from littlestone._store.copies import run_in
from littlestone.errors import LittlestoneError

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
# Routes of the index, now or in a later version, which no learner may take.
RESERVED = frozenset(
    {"docs", "healthz", "learners", "live", "metrics", "openapi.json", "private", "ready"}
)
UNAVAILABLE = "this learner is unavailable: its operator can see why"
TWICE = (
    "it holds the same learner as {others}: two files that go on from one state publish twice for "
    "the same rows. Keep the one that was used last, and move the others out of the folder"
)


# Opening the stores of a folder.


@dataclass(frozen=True)
class Learner:
    """Hold one store of a folder: its application, or why there is none."""

    name: str
    tokens: TokenRoles
    app: FastAPI | None = None
    reason: str | None = None


def stores_in(folder: Path) -> list[Path]:
    """Return the stores of a folder: its files that end in `.db`, in the order of their names."""
    return sorted(path for path in folder.glob("*.db") if not path.name.startswith("."))


def open_folder(
    folder: Path,
    tokens_for: Callable[[Path], TokenRoles],
    app_for: Callable[[Path, TokenRoles], FastAPI],
) -> list[Learner]:
    """Open every store of a folder."""
    paths = stores_in(folder)
    if not paths:
        raise BadParameter(
            f"there is no learner in {folder}: begin one there first (littlestone serve "
            f"{folder}/NAME.db --class ..., or littlestone learn ... --db {folder}/NAME.db)"
        )
    # All are read before one is opened for writing: opening is a move, and of two files with one
    # learner neither may go on.
    runs = {path: _run_or_reason(path) for path in paths}
    found = [_opened(path, runs, tokens_for, app_for) for path in paths]
    if all(learner.app is None for learner in found):
        reasons = "; ".join(f"{learner.name}: {learner.reason}" for learner in found)
        raise BadParameter(f"no learner in {folder} can be served: {reasons}")
    return found


def _run_or_reason(path: Path) -> str | Exception:
    try:
        _refuse_name(path)
        return run_in(path)
    except (LittlestoneError, OSError) as error:
        return error


def _refuse_name(path: Path) -> None:
    if not NAME.fullmatch(path.stem) or path.stem in RESERVED:
        raise BadParameter(
            f"a learner cannot be served under the name {path.stem!r}: rename {path.name}, to "
            "letters, digits and ._- that are none of " + ", ".join(sorted(RESERVED))
        )


def _opened(
    path: Path,
    runs: Mapping[Path, str | Exception],
    tokens_for: Callable[[Path], TokenRoles],
    app_for: Callable[[Path, TokenRoles], FastAPI],
) -> Learner:
    tokens = TokenRoles({})
    try:
        tokens = tokens_for(path)
        run = runs[path]
        if isinstance(run, Exception):
            raise run
        if others := [other.name for other in runs if other != path and runs[other] == run]:
            raise BadParameter(TWICE.format(others=" and ".join(others)))
        return Learner(path.stem, tokens, app_for(path, tokens))
    except (LittlestoneError, OSError) as error:
        return Learner(path.stem, tokens, reason=str(error))


# The application.


class LearnerResponse(ApiModel):
    """Describe a learner of the service."""

    name: Annotated[str, Field(description="Its routes are below this name.")]
    status: Annotated[str, Field(description="live, takes no rounds, or unavailable.")]
    sentence: Annotated[str | None, Field(description="What is published, in words.")] = None
    since: Annotated[int | None, Field(description="The round from which it stands.")] = None
    rounds: int | None = None
    horizon: int | None = None
    releases: int | None = None
    guarantee: str | None = None
    reason: Annotated[str | None, Field(description="For the operator of this learner only.")] = (
        None
    )


class LearnersResponse(ApiModel):
    """List the learners of the service."""

    learners: list[LearnerResponse]


class FleetHealthResponse(ApiModel):
    """Say how many learners accept rounds."""

    status: Annotated[str, Field(description="ok.")]
    learners: int
    live: int


class _Streams:
    """End the event streams of all learners, as the server does at a stop."""

    def __init__(self, apps: Iterable[FastAPI]) -> None:
        self._apps = list(apps)

    def close(self) -> None:
        for app in self._apps:
            app.state.service.events.close()


@dataclass(frozen=True)
class Fleet:
    """Hold what the index needs."""

    learners: Mapping[str, Learner]
    tokens: TokenRoles
    rate_limit: RateLimit
    events: _Streams
    requests: RequestCounts
    audit: None = None


def make_fleet(
    learners: Sequence[Learner], limits: Limits, *, hosts: Iterable[str] = ()
) -> FastAPI:
    """Return the application of several learners, which closes their stores at its end."""
    apps = {learner.name: learner.app for learner in learners if learner.app is not None}
    fleet = Fleet(
        {learner.name: learner for learner in learners},
        TokenRoles({}),
        RateLimit(limits.rate),
        _Streams(apps.values()),
        RequestCounts(("/", "/learners", "/live", "/ready", "/healthz"), ()),
    )

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            # A mounted application is not started by the outer one.
            for inner in apps.values():
                await stack.enter_async_context(inner.router.lifespan_context(inner))
            app.state.service = fleet
            yield

    app = FastAPI(
        title="littlestone: several learners",
        version=library_version(),
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
    )
    app.add_api_route("/", _index, include_in_schema=False)
    app.add_api_route("/learners", _learners, response_model=LearnersResponse)
    app.add_api_route("/live", _live, response_model=LiveResponse)
    for route in ("/ready", "/healthz"):
        app.add_api_route(route, _ready, name=route, response_model=FleetHealthResponse)
    app.add_api_route("/{name}", _elsewhere, methods=METHODS, include_in_schema=False)
    app.add_api_route("/{name}/{rest:path}", _elsewhere, methods=METHODS, include_in_schema=False)
    for kind, handler in HANDLERS.items():
        app.add_exception_handler(kind, cast(Any, handler))
    app.add_middleware(Guard, hosts=host_names(hosts))
    # Outermost: a request to a learner passes that learner's guard, and not the index's as well.
    app.add_middleware(_Dispatch, apps=apps)
    return app


METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]


class _Dispatch:
    """Pass requests below `/NAME/` on to the application of that learner."""

    def __init__(self, app: ASGIApp, apps: Mapping[str, ASGIApp]) -> None:
        self.app, self.apps = app, apps

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            root = scope.get("root_path", "")
            name, slash, _ = scope["path"].removeprefix(root).lstrip("/").partition("/")
            if slash and name in self.apps:
                inner = {**scope, "root_path": f"{root}/{name}"}
                await self.apps[name](inner, receive, send)
                return
        await self.app(scope, receive, send)


# The routes of the index.


def _fleet(request: Request) -> Fleet:
    fleet = request.app.state.service
    assert isinstance(fleet, Fleet)
    return fleet


def _is_operator(learner: Learner, authorization: str | None) -> bool:
    token = learner.tokens.find_in_header(authorization)
    return token is not None and token.role == "operator"


def _described(learner: Learner, authorization: str | None) -> LearnerResponse:
    if learner.app is None:
        found = LearnerResponse(name=learner.name, status="unavailable")
        if _is_operator(learner, authorization):
            found.reason = learner.reason
        return found
    service: Service = learner.app.state.service
    published, config = service.events.state.published, service.config
    release = published.releases[-1]
    label = label_in_words(**config.label_data)
    return LearnerResponse(
        name=learner.name,
        status="live" if is_live(service) else "takes no rounds",
        sentence=rule_in_words(release.rule, label),
        since=release.round,
        rounds=published.rounds,
        horizon=config.chosen.plan.horizon,
        releases=len(published.releases),
        guarantee=published.guarantee,
    )


def is_live(service: Service) -> bool:
    """Return whether a learner accepts rounds."""
    return service.writer.problem is None


async def _learners(request: Request) -> Response:
    """List the learners and what each has published."""
    given = request.headers.get("authorization")
    found = [_described(learner, given) for learner in _fleet(request).learners.values()]
    return json_response(LearnersResponse(learners=found))


async def _live() -> Response:
    """Return 200 if the process answers: restart it if not."""
    return json_response(LiveResponse(status="ok"))


async def _ready(request: Request) -> Response:
    """Return 200 if a learner accepts rounds; each has a route of its own, below its name."""
    learners = _fleet(request).learners.values()
    live = sum(one.app is not None and is_live(one.app.state.service) for one in learners)
    if not live:
        raise unavailable("no learner accepts rounds")
    return json_response(FleetHealthResponse(status="ok", learners=len(learners), live=live))


async def _elsewhere(request: Request, name: str, rest: str | None = None) -> Response:
    learner = _fleet(request).learners.get(name)
    if learner is None:
        raise Refused(404, "there is no such learner: / lists them")
    if learner.app is not None:
        # Relative, so that it also holds behind a proxy that serves us below a path of its own.
        return Response(status_code=307, headers={"Location": f"{name}/"})
    is_operator = _is_operator(learner, request.headers.get("authorization"))
    raise unavailable(str(learner.reason) if is_operator else UNAVAILABLE)


@cache
def _style() -> str:
    folder = files("littlestone._service")
    parts = (folder.joinpath("page.css"), folder.joinpath("templates", "index.css"))
    return "".join(part.read_text("utf-8") for part in parts)


async def _index(request: Request) -> Response:
    found = [_described(learner, None) for learner in _fleet(request).learners.values()]
    template = environment("littlestone._service").get_template("index.html.j2")
    text = template.render(style=Markup(_style()), learners=found)
    policy = (
        f"default-src 'none'; style-src {source_hash(_style())}; img-src data:; base-uri 'none'; "
        "form-action 'none'; frame-ancestors 'none'"
    )
    return HTMLResponse(text, headers={"Content-Security-Policy": policy})
