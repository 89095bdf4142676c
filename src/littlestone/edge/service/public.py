"""The public routes: the rules, the guarantee, and what the rules say of rows. No token."""

import json
import math
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from littlestone.edge.about import OLD_COPY
from littlestone.edge.service import answers
from littlestone.edge.service.bodies import examples_of
from littlestone.edge.service.describing import BODIES, EVENTS, problems
from littlestone.edge.service.parts import Service, TheService, body_of, holder_of
from littlestone.edge.service.refusals import unavailable
from littlestone.edge.service.words import in_words

MOST = 1000
"""The most releases of one answer."""

router = APIRouter(tags=["public"])


def as_json(data: dict[str, Any], status: int = 200) -> Response:
    """An answer that no cache keeps."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False)
    return Response(text.encode("utf-8", "backslashreplace"), status, media_type="application/json")


@router.get("/hypothesis", response_model=answers.HypothesisSaid, responses=problems(429))
async def hypothesis(service: TheService) -> Response:
    """The rule that stands now."""
    news = service.news
    now, published = news.releases[-1], news.public.published
    stood = published.rounds - now["round"] + 1
    more = {"rounds": published.rounds, "stood": stood, "final": published.final}
    return as_json(now | more)


@router.get("/releases", response_model=answers.ReleasesSaid, responses=problems(422, 429))
async def releases(
    service: TheService,
    after: Annotated[int, Query(ge=0, le=2**53, description="Those after this number.")] = 0,
) -> Response:
    """The published rules, in order, at most 1,000 at a time."""
    found = service.news.releases
    return as_json({"releases": found[after : after + MOST], "total": len(found)})


@router.get("/guarantee", response_model=answers.GuaranteeSaid, responses=problems(429))
async def guarantee(service: TheService) -> Response:
    """What all published rules together promise, and what they have cost so far."""
    about, promised = service.about, service.guarantee
    return as_json(
        {
            "guarantee": service.news.public.published.guarantee,
            "epsilon": promised.epsilon if math.isfinite(promised.epsilon) else None,
            "delta": promised.delta,
            "adjacency": promised.adjacency,
            "unit": promised.unit,
            "words": in_words(promised),
            "learner": about.chosen.learner_name,
            "class": about.spec,
            "horizon": about.chosen.plan.horizon,
        }
        | service.news.rounds_json()
    )


@router.post(
    "/predict",
    response_model=answers.PredictionsSaid,
    responses=problems(400, 408, 413, 415, 422, 429, 503),
    openapi_extra={"requestBody": BODIES["examples"]},
)
async def predict(request: Request, service: TheService) -> Response:
    """What the rule that stands now says of rows, or of one row. Nothing is learned."""
    body = await body_of(request, service.limits, service.limits.public_body)
    rule, cls = service.news.public.published.releases[-1].rule, service.wanted.cls

    def said() -> Response:
        columns, _ = examples_of(body.data, body.form, service.wanted, service.limits)
        predictions = [bool(answer) for answer in cls.predict(rule, columns).tolist()]
        return as_json({"sentence": str(rule), "predictions": predictions})

    size = len(body.data)
    if size <= service.predicting.inline:
        return said()
    with service.predictions.one(holder_of(request)):
        return await service.predicting.do(size, said)


@router.get("/healthz", response_model=answers.HealthSaid, responses=problems(429, 503))
async def healthz(service: TheService) -> Response:
    """Whether rounds are taken: 200 if so, 503 with the reason if not."""
    writer, rounds = service.writer, service.news.public.published.rounds
    why = writer.over or writer.trouble
    if why is not None:
        raise unavailable(why)
    return as_json({"status": "ok", "rounds": rounds})


@router.get("/events", response_class=StreamingResponse, responses=EVENTS | problems(422, 429, 503))
async def events(
    request: Request,
    service: TheService,
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
    holder = holder_of(request)
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
