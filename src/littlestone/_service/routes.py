"""The routes: public ones without a token, those of the feeder and the operator, and the page.

The page shows the published rule, live. It is one HTML file that loads nothing from other servers;
its content security policy lets a browser run this script and this style and no other, whatever
text the data holds.
"""

import base64
import hashlib
import math
from collections.abc import Sequence
from contextlib import suppress
from fractions import Fraction
from functools import cache, partial
from importlib.resources import files
from typing import Annotated, Literal, NamedTuple

from fastapi import APIRouter, Depends, Header, Query, Request
from prometheus_client import Metric
from starlette.responses import HTMLResponse, PlainTextResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from littlestone._learners.base import PrivateLearner
from littlestone._learners.causes import PrivateCauses
from littlestone._learners.outcomes import predicted_labels
from littlestone._learners.trace import Sample
from littlestone._privacy.accounting import Guarantee
from littlestone._report.causes import label_in_words
from littlestone._report.report import counts_of, ledger_rows
from littlestone._service import metrics as figures
from littlestone._service import schemas
from littlestone._service.bodies import (
    INLINE,
    bad_rows_refusal,
    parse_block,
    parse_examples,
    parse_in,
    receive_body,
)
from littlestone._service.limits import Refused, unavailable
from littlestone._service.schemas import (
    BODIES,
    EVENTS,
    KEY_PATTERN,
    METRICS,
    json_response,
    problems,
)
from littlestone._service.service import (
    Service,
    client_of,
    note_of,
    require_role,
    service_of,
)
from littlestone._store.serialization import OLD_COPY

# The most releases of one response.
MAX_RELEASES = 1000
# Above it docs/choosing.md calls privacy weak, and so does the page.
WEAK_EPSILON = 4.0
# Above it e to that power is beyond the range of a float.
MAX_EXPONENT = 700.0

public = APIRouter(tags=["public"])
private = APIRouter()


# Public routes.


@public.get("/hypothesis", response_model=schemas.HypothesisResponse, responses=problems(429))
async def hypothesis(request: Request) -> Response:
    """Return the current rule."""
    service = service_of(request)
    release, published = service.events.releases[-1], service.events.state.published
    evidence = service.events.evidence()
    causes = evidence.causes
    return json_response(
        schemas.HypothesisResponse(
            **dict(release),
            label=evidence.label,
            rounds=published.rounds,
            stood=published.rounds - release.round + 1,
            final=published.final,
            min_rate=evidence.min_rate,
            causes=None if causes is None else [cause for cause in causes if cause.standing],
        )
    )


@public.get("/evidence", response_model=schemas.EvidenceResponse, responses=problems(429))
async def evidence(request: Request) -> Response:
    """Return events, rate, interval and lift of every cause that was published."""
    return json_response(service_of(request).events.evidence())


@public.get("/releases", response_model=schemas.ReleasesResponse, responses=problems(422, 429))
async def releases(
    request: Request,
    after: Annotated[int, Query(ge=0, le=2**53, description="Those after this number.")] = 0,
) -> Response:
    """Return the published rules, in order, at most 1,000 at a time."""
    published = service_of(request).events.releases
    shown = published[after : after + MAX_RELEASES]
    return json_response(schemas.ReleasesResponse(releases=shown, total=len(published)))


@public.get("/guarantee", response_model=schemas.GuaranteeResponse, responses=problems(429))
async def guarantee(request: Request) -> Response:
    """Return the guarantee of all published rules together, and what they have cost so far."""
    service = service_of(request)
    config, promised = service.config, service.guarantee
    return json_response(
        schemas.GuaranteeResponse(
            guarantee=service.events.state.published.guarantee,
            epsilon=promised.epsilon if math.isfinite(promised.epsilon) else None,
            delta=promised.delta,
            adjacency=promised.adjacency,
            unit=promised.unit,
            words=guarantee_in_words(promised),
            learner=config.chosen.learner_name,
            label=config.terms.label,
            # Causes of outcomes say themselves what happens.
            label_words=config.terms.label
            if config.terms.negative
            else label_in_words(config.terms.label, config.terms.positive),
            class_=config.terms.spec,
            horizon=config.chosen.plan.horizon,
            **dict(service.events.progress()),
        )
    )


@public.post(
    "/predict",
    response_model=schemas.PredictionsResponse,
    responses=problems(400, 408, 413, 415, 422, 429, 503),
    openapi_extra={"requestBody": BODIES["examples"]},
)
async def predict(request: Request) -> Response:
    """Return the labels that the current rule predicts for rows, or for one. Nothing is learned."""
    service = service_of(request)
    limits = service.limits
    body = await receive_body(request, limits, limits.public_body, service.receiving)
    rule, cls = service.events.state.published.releases[-1].rule, service.schema.cls

    def answer() -> Response:
        columns = parse_examples(body.data, body.form, service.schema, limits)
        labels = predicted_labels(cls, rule, columns).tolist()
        # Not validated: that would look at every row again.
        return json_response(
            schemas.PredictionsResponse.model_construct(sentence=str(rule), predictions=labels)
        )

    if len(body.data) <= INLINE:
        return answer()
    with service.predictions.slot(client_of(request)):
        return await parse_in(service.prediction_threads, body.data, answer)


@public.get("/events", response_class=StreamingResponse, responses=EVENTS | problems(422, 429, 503))
async def events(
    request: Request,
    last_event_id: Annotated[str, Header(max_length=200)] = "",
    last: Annotated[
        str, Query(max_length=200, description="As the header, for clients that cannot set one.")
    ] = "",
) -> Response:
    """Stream releases and rounds as they come, as server-sent events."""
    service = service_of(request)
    seen = last_event_id or last
    if service.events.contradicts(seen):
        service.events.stale = True
        service.writer.mark_old_copy(OLD_COPY)
    client = client_of(request)
    service.watchers.acquire(client)
    return _EventResponse(service, service.events.releases_seen(seen), client)


class _EventResponse(StreamingResponse):
    """Stream events, and release the slot at the end, however the stream ends."""

    def __init__(self, service: Service, seen: int, client: str) -> None:
        super().__init__(service.events.stream(seen), media_type="text/event-stream")
        self.headers["X-Accel-Buffering"] = "no"  # nginx would hold events back
        self._limit, self._client = service.watchers, client

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._limit.release(self._client)


def guarantee_in_words(guarantee: Guarantee) -> list[str]:
    """Return what the guarantee means to somebody whose rows are in the stream."""
    if math.isinf(guarantee.epsilon):
        return [f"There is no privacy here: {guarantee.noise}."]
    unit = "event" if guarantee.unit == "event" else "user"
    whole = "event" if unit == "event" else "user, with all that is theirs"
    much = "perhaps much" if guarantee.epsilon > WEAK_EPSILON else "almost nothing"
    huge = guarantee.epsilon > MAX_EXPONENT
    factor = f"e^{guarantee.epsilon:g}" if huge else f"{math.exp(guarantee.epsilon):.3g}"
    words = [
        f"All rules published here, taken together, tell {much} about any one {whole}.",
        f"Had any one {unit} been another, no sequence of rules would be more than "
        f"{factor} times as likely or unlikely.",
    ]
    if guarantee.cap is not None:
        rounds = "round" if guarantee.cap == 1 else "rounds"
        words.append(
            f"At most {guarantee.cap:,} {rounds} of a user count; later ones are not read."
        )
    if guarantee.delta:
        # Rounded down, so that the probability is never understated.
        chance = f"1 in {math.floor(1 / Fraction(repr(guarantee.delta))):,}"
        words.append(f"That may fail with a probability of at most {chance}.")
    words.append("It holds for every stream, and against whoever reads every rule, now or later.")
    return words


# Public routes for whoever runs the service.


@public.get("/live", response_model=schemas.LiveResponse, responses=problems(429))
async def live() -> Response:
    """Return 200 if the process answers: restart it if not."""
    return json_response(schemas.LiveResponse(status="ok"))


@public.get("/ready", response_model=schemas.HealthResponse, responses=problems(429, 503))
async def ready(request: Request) -> Response:
    """Return 200 if rounds can be accepted, 503 with the reason if not."""
    service = service_of(request)
    if (why := service.problem) is not None:
        raise unavailable(why)
    rounds = service.events.state.published.rounds
    return json_response(schemas.HealthResponse(status="ok", rounds=rounds))


@public.get("/metrics", response_class=PlainTextResponse, responses=METRICS | problems(429))
async def metrics(request: Request) -> Response:
    """Return public figures for Prometheus: rounds, releases, guarantee, requests, uptime."""
    return figures.exposed(_public_families(service_of(request), private=False))


def _public_families(service: Service, *, private: bool) -> list[Metric]:
    """Return what is public: each figure is also in `/guarantee`, `/hypothesis` or `/ready`."""
    promised, (published, spent) = service.guarantee, service.events.state
    gauge, counter = figures.gauge, figures.counter
    return [
        figures.run_info(service.config, promised.unit),
        counter("rounds", "Rounds so far.", published.rounds),
        gauge("horizon_rounds", "Rounds that are planned for.", service.config.chosen.plan.horizon),
        counter("releases", "Published rules.", len(published.releases)),
        gauge("final", "1 if the rule cannot change.", published.final is not None),
        gauge("guarantee_epsilon", "Of all that is published.", promised.epsilon),
        gauge("guarantee_delta", "Of all that is published.", promised.delta),
        gauge("spent_epsilon", "Of the guarantee, so far.", float(spent.epsilon)),
        gauge("spent_delta", "Of the guarantee, so far.", float(spent.delta)),
        gauge("ready", "1 if rounds can be accepted.", service.problem is None),
        figures.uptime(service.started),
        figures.request_counts(service.requests, private=private),
    ]


# Routes that need a token.


@private.post(
    "/rounds",
    dependencies=[Depends(require_role("feeder"))],
    tags=["feeder"],
    response_model=schemas.ReceiptResponse,
    responses=problems(400, 401, 403, 408, 409, 413, 415, 422, 429, 503),
    openapi_extra={"requestBody": BODIES["rounds"]},
)
async def rounds(
    request: Request,
    bad_rows: Annotated[
        Literal["refuse", "null"],
        Query(description="What becomes of a batch with rows that cannot be read."),
    ] = "refuse",
    idempotency_key: Annotated[
        str | None,
        Header(
            pattern=KEY_PATTERN,
            description="Names the batch, so that sending it again is not a second round.",
        ),
    ] = None,
) -> Response:
    """Learn a batch of rows: a round each, in order. The response comes when they are on disk."""
    service = service_of(request)
    limits = service.limits
    with service.batches.slot():
        body = await receive_body(request, limits, limits.body, service.receiving)
        arguments = body.data, body.form, service.schema, limits
        block = await parse_in(service.batch_threads, body.data, parse_block, *arguments)
        if block.nulls and bad_rows == "refuse":
            raise bad_rows_refusal(block.bad, block.nulls, len(block))
        # The mode is part of the digest: the same bytes mean other rounds in the other mode.
        queued = service.writer.learn(block, idempotency_key, body.digest(bad_rows))
        receipt = await service.wait_for(queued)
    note_of(request).receipt = receipt
    return json_response(
        schemas.ReceiptResponse(
            first=receipt.first,
            rounds=receipt.rounds,
            null_rounds=receipt.nulls,
            again=receipt.again,
        )
    )


@private.get(
    "/private/metrics",
    dependencies=[Depends(require_role("operator"))],
    tags=["operator"],
    response_class=PlainTextResponse,
    responses=METRICS | problems(401, 403, 429, 503),
)
async def private_metrics(request: Request) -> Response:
    """Return all figures for Prometheus. **Private**: mistakes, null rounds, commits, memory."""
    service = service_of(request)
    writer, gauge, counter = service.writer, figures.gauge, figures.counter
    families = _public_families(service, private=True)
    # If the store is lost or closed, the other figures are wanted all the more.
    with suppress(Refused):
        families += await service.wait_for(writer.inspect(figures.learner_families))
    families += [
        gauge("batches_under_way", "Batches not answered yet.", service.batches.taken),
        gauge("queued_jobs", "Jobs that wait for the writer.", writer.queued),
        gauge("event_streams", "Open streams of events.", service.watchers.taken),
        counter("commit_failures", "Commits that failed.", writer.failures),
        *writer.commits.collect(),
        *figures.process_families(service.path),
    ]
    if service.audit is not None:
        lost = service.audit.failures
        families.append(counter("audit_failures", "Lines of the audit log lost.", lost))
    return figures.exposed(families)


@private.get(
    "/private/trace",
    dependencies=[Depends(require_role("operator"))],
    tags=["operator"],
    response_model=schemas.TraceResponse,
    responses=problems(401, 403, 422, 429, 503),
)
async def trace(
    request: Request,
    samples: Annotated[int, Query(ge=0, le=5000, description="At most so many.")] = 200,
) -> Response:
    """Return mistakes, votes, rate, null rounds, ledger. **Private**: exact, for the data owner."""
    service = service_of(request)
    before = service.events.releases[-1].round - 1
    inspect = partial(_trace, before=before, maximum=samples)
    return json_response(await service.wait_for(service.writer.inspect(inspect)))


def _trace(learner: PrivateLearner, *, before: int, maximum: int) -> schemas.TraceResponse:
    """Return the trace; `before` is the number of rounds before the current rule's release."""
    counts = counts_of(learner.rounds, learner.null_rounds, learner.beyond_cap, learner.mistakes)
    samples, counted = learner.trace, counts["counted_rounds"]
    last = samples[-1]
    earlier = [sample.mistakes for sample in samples if sample.round <= before]
    of_rule = last.mistakes - (earlier[-1] if earlier else 0)
    rounds_of_rule = counts["rounds"] - before
    return schemas.TraceResponse(
        **counts,
        missed=learner.missed if isinstance(learner, PrivateCauses) else None,
        rate=counts["mistakes"] / counted if counted else None,
        mistakes_of_rule=of_rule,
        rate_of_rule=of_rule / rounds_of_rule if rounds_of_rule else None,
        voters=sum(votes for _, votes in last.votes),
        votes=_votes(last),
        samples=[
            schemas.SampleResponse(
                round=sample.round, mistakes=sample.mistakes, votes=_votes(sample)
            )
            for sample in _thin(samples, maximum)
        ],
        ledger=[
            schemas.SpentResponse(mechanism=mechanism, times=times, each=each, adds=adds)
            for mechanism, times, each, adds in ledger_rows(learner)
        ],
    )


def _votes(sample: Sample) -> list[schemas.VotesResponse]:
    return [schemas.VotesResponse(sentence=str(rule), votes=votes) for rule, votes in sample.votes]


def _thin(samples: Sequence[Sample], maximum: int) -> list[Sample]:
    """Return at most so many samples, evenly spaced, the last among them."""
    if maximum >= len(samples):
        return list(samples)
    return [samples[(i + 1) * len(samples) // maximum - 1] for i in range(maximum)]


# The page.


class Page(NamedTuple):
    """Hold the page."""

    text: str
    policy: str


@cache
def load_page() -> Page:
    """Return the page. It holds nothing of the learner; its script requests that."""
    folder = files("littlestone._service")
    style = folder.joinpath("page.css").read_text("utf-8")
    script = folder.joinpath("page.js").read_text("utf-8")
    text = folder.joinpath("page.html").read_text("utf-8")
    policy = (
        f"default-src 'none'; script-src {source_hash(script)}; style-src {source_hash(style)}; "
        "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    )
    return Page(text.replace("{style}", style).replace("{script}", script), policy)


def source_hash(text: str) -> str:
    """Return the hash by which a policy allows a script or a style."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


@public.get("/", include_in_schema=False)
async def page() -> Response:
    """Return the page."""
    text, policy = load_page()
    return HTMLResponse(text, headers={"Content-Security-Policy": policy})
