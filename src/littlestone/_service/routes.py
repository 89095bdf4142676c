"""The routes: public ones without a token, those of the feeder and the operator, and the page.

The page shows the published rule, live. It is one HTML file that loads nothing from other servers;
its content security policy lets a browser run this script and this style and no other, whatever
text the data holds.
"""

import base64
import hashlib
import math
from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from importlib.resources import files
from typing import Annotated, NamedTuple

from fastapi import APIRouter, Depends, Header, Query, Request
from starlette.responses import HTMLResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from littlestone._learners.base import PrivateLearner
from littlestone._learners.causes import PrivateCauses
from littlestone._learners.outcomes import predicted_labels
from littlestone._learners.trace import Sample
from littlestone._privacy.accounting import Guarantee
from littlestone._report.causes import label_in_words
from littlestone._report.report import counts_of, ledger_rows
from littlestone._service import schemas
from littlestone._service.dependencies import (
    Service,
    ServiceDependency,
    check_role,
    client_of,
    note_of,
    read_body,
    require_role,
    service_of,
    wait_for,
)
from littlestone._service.limits import Refused, unavailable
from littlestone._service.parsing import bad_rows_refusal, parse_block, parse_examples
from littlestone._service.schemas import (
    BAD_ROWS,
    BATCH_PARAMETERS,
    BODIES,
    EVENTS,
    KEY_PATTERN,
    json_response,
    problems,
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
async def hypothesis(service: ServiceDependency) -> Response:
    """Return the current rule."""
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
async def evidence(service: ServiceDependency) -> Response:
    """Return events, rate, interval and lift of every cause that was published."""
    return json_response(service.events.evidence())


@public.get("/releases", response_model=schemas.ReleasesResponse, responses=problems(422, 429))
async def releases(
    service: ServiceDependency,
    after: Annotated[int, Query(ge=0, le=2**53, description="Those after this number.")] = 0,
) -> Response:
    """Return the published rules, in order, at most 1,000 at a time."""
    found = service.events.releases
    page = found[after : after + MAX_RELEASES]
    return json_response(schemas.ReleasesResponse(releases=page, total=len(found)))


@public.get("/guarantee", response_model=schemas.GuaranteeResponse, responses=problems(429))
async def guarantee(service: ServiceDependency) -> Response:
    """Return the guarantee of all published rules together, and what they have cost so far."""
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
            label=config.label,
            # Causes of outcomes say themselves what happens.
            label_words=config.label
            if config.negative
            else label_in_words(config.label, config.positive),
            class_=config.spec,
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
async def predict(request: Request, service: ServiceDependency) -> Response:
    """Return the labels that the current rule predicts for rows, or for one. Nothing is learned."""
    body = await read_body(request, service.limits, service.limits.public_body)
    rule, cls = service.events.state.published.releases[-1].rule, service.schema.cls

    def answer() -> Response:
        columns, _ = parse_examples(body.data, body.form, service.schema, service.limits)
        labels = predicted_labels(cls, rule, columns).tolist()
        # Not validated: that would look at every row again.
        return json_response(
            schemas.PredictionsResponse.model_construct(sentence=str(rule), predictions=labels)
        )

    if service.prediction_threads.is_small(body.data):
        return answer()
    with service.predictions.slot(client_of(request)):
        return await service.prediction_threads.run(body.data, answer)


@public.get("/events", response_class=StreamingResponse, responses=EVENTS | problems(422, 429, 503))
async def events(
    request: Request,
    service: ServiceDependency,
    last_event_id: Annotated[str, Header(max_length=200)] = "",
    last: Annotated[
        str, Query(max_length=200, description="As the header, for clients that cannot set one.")
    ] = "",
) -> Response:
    """Stream releases and rounds as they come, as server-sent events."""
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


# Routes that need a token.


@private.post(
    "/rounds",
    tags=["feeder"],
    response_model=schemas.ReceiptResponse,
    responses=problems(400, 401, 403, 408, 409, 413, 415, 422, 429, 503),
    openapi_extra={
        "requestBody": BODIES["rounds"],
        "parameters": BATCH_PARAMETERS,
        "security": [{"feeder": []}],
    },
)
async def rounds(request: Request) -> Response:
    """Learn a batch of rows: a round each, in order. The response comes when they are on disk."""
    # Without dependencies of FastAPI: to resolve them is a large part of the time of a small batch.
    service = service_of(request)
    check_role(request, "feeder")
    bad_rows, key = _batch_options(request)
    if service.writer.closed is not None:
        raise unavailable(service.writer.closed)
    with service.batches.slot():
        with service.receiving.slot():
            body = await read_body(request, service.limits, service.limits.body)
            arguments = body.data, body.form, service.schema, service.limits
            block = await service.batch_threads.run(body.data, parse_block, *arguments)
            if block.nulls and bad_rows == "refuse":
                raise bad_rows_refusal(block.bad, block.nulls, len(block))
            # The mode is part of the digest: the same bytes mean other rounds in the other mode.
            queued = service.writer.learn(block, key, body.digest(bad_rows))
        receipt = await wait_for(queued)
        note_of(request).receipt = receipt
    return json_response(
        schemas.ReceiptResponse(
            first=receipt.first,
            rounds=receipt.rounds,
            null_rounds=receipt.nulls,
            again=receipt.again,
        )
    )


def _batch_options(request: Request) -> tuple[str, str | None]:
    """Return what becomes of bad rows, and the key of the batch (`BATCH_PARAMETERS`)."""
    # Most batches come without a query; to parse one takes time.
    query = request.query_params if request.scope["query_string"] else {}
    bad_rows, key = query.get("bad_rows", "refuse"), request.headers.get("idempotency-key")
    if bad_rows not in BAD_ROWS:
        raise Refused(422, f"query bad_rows: it must be {' or '.join(BAD_ROWS)}")
    if key is not None and KEY_PATTERN.fullmatch(key) is None:
        raise Refused(
            422,
            "header idempotency-key: it must be 1 to 200 visible characters of ASCII, no spaces",
        )
    return bad_rows, key


@private.get(
    "/private/trace",
    dependencies=[Depends(require_role("operator"))],
    tags=["operator"],
    response_model=schemas.TraceResponse,
    responses=problems(401, 403, 422, 429, 503),
)
async def trace(
    service: ServiceDependency,
    samples: Annotated[int, Query(ge=0, le=5000, description="At most so many.")] = 200,
) -> Response:
    """Return mistakes, votes, rate, null rounds, ledger. **Private**: exact, for the data owner."""
    with service.inspections.slot():
        inspected = await wait_for(service.writer.inspect(_inspect))
    before = service.events.releases[-1].round - 1
    return json_response(_trace_response(inspected, before=before, maximum=samples))


class _Inspected(NamedTuple):
    """What an operator may see of a learner, in values that do not change when it learns."""

    samples: tuple[Sample, ...]
    counts: dict[str, int]
    missed: int | None
    ledger: list[tuple[str, str, str, str]]


def _inspect(learner: PrivateLearner) -> _Inspected:
    counts = counts_of(learner.rounds, learner.null_rounds, learner.beyond_cap, learner.mistakes)
    missed = learner.missed if isinstance(learner, PrivateCauses) else None
    return _Inspected(learner.trace, counts, missed, ledger_rows(learner))


def _trace_response(inspected: _Inspected, *, before: int, maximum: int) -> schemas.TraceResponse:
    """Return the trace; `before` is the number of rounds before the current rule's release."""
    samples, counts, missed, ledger = inspected
    last = samples[-1]
    earlier = [sample.mistakes for sample in samples if sample.round <= before]
    of_rule = last.mistakes - (earlier[-1] if earlier else 0)
    rounds_of_rule, counted = counts["rounds"] - before, counts["counted_rounds"]
    return schemas.TraceResponse(
        **counts,
        missed=missed,
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
            for mechanism, times, each, adds in ledger
        ],
    )


def _votes(sample: Sample) -> list[schemas.VotesResponse]:
    return [schemas.VotesResponse(sentence=str(rule), votes=votes) for rule, votes in sample.votes]


def _thin(samples: Sequence[Sample], maximum: int) -> list[Sample]:
    """Return at most so many samples, evenly spaced, the last among them."""
    if maximum >= len(samples):
        return list(samples)
    return [samples[(at + 1) * len(samples) // maximum - 1] for at in range(maximum)]


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
