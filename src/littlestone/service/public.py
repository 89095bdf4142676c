"""The guarantee in plain words.

The public routes: the rules, the guarantee, and what the rules say of rows. No token.

The page: the published rule on a wall, live. One HTML file that asks no other server for
anything; a browser runs this script and this style and no other, whatever the data holds.
"""

import base64
import hashlib
import json
import math
from fractions import Fraction
from functools import cache
from importlib.resources import files
from typing import Annotated, Any, NamedTuple

from fastapi import APIRouter, Header, Query, Request
from starlette.responses import HTMLResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from littlestone.privacy.accounting import Guarantee
from littlestone.service import schemas
from littlestone.service.dependencies import Service, ServiceDependency, body_of, client_of
from littlestone.service.limits import unavailable
from littlestone.service.parsing import parse_examples
from littlestone.service.schemas import BODIES, EVENTS, problems
from littlestone.store.serialization import OLD_COPY

USUAL = 4.0
"""Above it docs/choosing.md finds it hard to speak of privacy, and so does the page."""
LARGEST_FACTOR_SHOWN = 700.0
"""Above it e to that power is no number of a computer."""


def guarantee_in_words(guarantee: Guarantee) -> list[str]:
    """What the guarantee means to somebody whose rows are in the stream.

    >>> in_words(Guarantee(1.0, 1e-6))[1]
    'Had any one event been another, no sequence of rules would be more than 2.72 times ...'
    >>> in_words(Guarantee(50.0, 1e-6))[0]
    'All rules published here, taken together, tell perhaps much about any one event.'
    >>> in_words(Guarantee(1e6, 1e-6))[1]
    'Had any one event been another, no sequence of rules would be more than e^1e+06 times ...'
    >>> in_words(Guarantee(1.0, 1e-9))[2]
    'That may fail with a probability of at most 1 in 1,000,000,000.'
    """
    if math.isinf(guarantee.epsilon):
        return [f"There is no privacy here: {guarantee.noise}."]
    one = "event" if guarantee.unit == "event" else "user"
    whole = "event" if one == "event" else "user, with all that is theirs"
    weak, huge = guarantee.epsilon > USUAL, guarantee.epsilon > LARGEST_FACTOR_SHOWN
    much = "perhaps much" if weak else "almost nothing"
    times = f"e^{guarantee.epsilon:g}" if huge else f"{math.exp(guarantee.epsilon):.3g}"
    said = [
        f"All rules published here, taken together, tell {much} about any one {whole}.",
        f"Had any one {one} been another, no sequence of rules would be more than "
        f"{times} times as likely or unlikely.",
    ]
    if guarantee.cap is not None:
        rounds = "round" if guarantee.cap == 1 else "rounds"
        said.append(f"At most {guarantee.cap:,} {rounds} of a user count; later ones are not read.")
    if guarantee.delta:
        chance = f"1 in {math.floor(1 / Fraction(repr(guarantee.delta))):,}"
        said.append(f"That may fail with a probability of at most {chance}.")
    said.append("It holds for every stream, and against whoever reads every rule, now or later.")
    return said


MOST_RELEASES_SHOWN = 1000
"""The most releases of one answer."""

router = APIRouter(tags=["public"])


def as_json(data: dict[str, Any], status: int = 200) -> Response:
    """An answer that no cache keeps."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False)
    return Response(text.encode("utf-8", "backslashreplace"), status, media_type="application/json")


@router.get("/hypothesis", response_model=schemas.HypothesisResponse, responses=problems(429))
async def hypothesis(service: ServiceDependency) -> Response:
    """The rule that stands now."""
    news = service.news
    now, published = news.releases[-1], news.public.published
    stood = published.rounds - now["round"] + 1
    more = {"rounds": published.rounds, "stood": stood, "final": published.final}
    return as_json(now | more)


@router.get("/releases", response_model=schemas.ReleasesResponse, responses=problems(422, 429))
async def releases(
    service: ServiceDependency,
    after: Annotated[int, Query(ge=0, le=2**53, description="Those after this number.")] = 0,
) -> Response:
    """The published rules, in order, at most 1,000 at a time."""
    found = service.news.releases
    return as_json({"releases": found[after : after + MOST_RELEASES_SHOWN], "total": len(found)})


@router.get("/guarantee", response_model=schemas.GuaranteeResponse, responses=problems(429))
async def guarantee(service: ServiceDependency) -> Response:
    """What all published rules together promise, and what they have cost so far."""
    about, promised = service.about, service.guarantee
    return as_json(
        {
            "guarantee": service.news.public.published.guarantee,
            "epsilon": promised.epsilon if math.isfinite(promised.epsilon) else None,
            "delta": promised.delta,
            "adjacency": promised.adjacency,
            "unit": promised.unit,
            "words": guarantee_in_words(promised),
            "learner": about.chosen.learner_name,
            "class": about.spec,
            "horizon": about.chosen.plan.horizon,
        }
        | service.news.rounds_json()
    )


@router.post(
    "/predict",
    response_model=schemas.PredictionsResponse,
    responses=problems(400, 408, 413, 415, 422, 429, 503),
    openapi_extra={"requestBody": BODIES["examples"]},
)
async def predict(request: Request, service: ServiceDependency) -> Response:
    """What the rule that stands now says of rows, or of one row. Nothing is learned."""
    body = await body_of(request, service.limits, service.limits.public_body)
    rule, cls = service.news.public.published.releases[-1].rule, service.wanted.cls

    def said() -> Response:
        columns, _ = parse_examples(body.data, body.form, service.wanted, service.limits)
        predictions = [bool(answer) for answer in cls.predict(rule, columns).tolist()]
        return as_json({"sentence": str(rule), "predictions": predictions})

    size = len(body.data)
    if size <= service.predicting.inline:
        return said()
    with service.predictions.one(client_of(request)):
        return await service.predicting.do(size, said)


@router.get("/healthz", response_model=schemas.HealthResponse, responses=problems(429, 503))
async def healthz(service: ServiceDependency) -> Response:
    """Whether rounds are taken: 200 if so, 503 with the reason if not."""
    writer, rounds = service.writer, service.news.public.published.rounds
    why = writer.over or writer.trouble
    if why is not None:
        raise unavailable(why)
    return as_json({"status": "ok", "rounds": rounds})


@router.get("/events", response_class=StreamingResponse, responses=EVENTS | problems(422, 429, 503))
async def events(
    request: Request,
    service: ServiceDependency,
    last_event_id: Annotated[str, Header(max_length=200)] = "",
    last: Annotated[
        str, Query(max_length=200, description="As the header, for who cannot set one.")
    ] = "",
) -> Response:
    """Releases and rounds as they come: server-sent events.

    `release` is a published rule; `rounds` tells how far the stream is, and carries an id. Whoever
    comes back with an id that is ahead of the store proves that its file is an old copy: then no
    more rounds are taken.
    """
    seen = last_event_id or last
    if service.news.denies(seen):
        service.news.stale = True
        service.writer.condemn(OLD_COPY)
    holder = client_of(request)
    service.watchers.take(holder)
    return _Stream(service, service.news.known(seen), holder)


class _Stream(StreamingResponse):
    """A stream of events, which gives its place back when it ends, however it does."""

    def __init__(self, service: Service, known: int, holder: str) -> None:
        stream = service.news.stream(known)
        super().__init__(stream, media_type="text/event-stream")
        self.headers["X-Accel-Buffering"] = "no"
        self._places, self._holder = service.watchers, holder

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._places.leave(self._holder)


class Page(NamedTuple):
    """The file, and what a browser may do with it."""

    text: str
    policy: str


@cache
def the_page() -> Page:
    """The page; it holds nothing of the learner, which the script asks for."""
    own = files("littlestone.service")
    sheets = files("littlestone.report").joinpath("colours.css"), own.joinpath("page.css")
    style = "".join(sheet.read_text("utf-8") for sheet in sheets)
    script = own.joinpath("page.js").read_text("utf-8")
    text = own.joinpath("page.html").read_text("utf-8")
    policy = (
        f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; "
        "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    )
    return Page(text.replace("{style}", style).replace("{script}", script), policy)


def _hash(text: str) -> str:
    """How a policy names a text that may run."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


@router.get("/", include_in_schema=False)
async def page() -> Response:
    """The page."""
    text, policy = the_page()
    return HTMLResponse(text, headers={"Content-Security-Policy": policy})
