"""The routes with the data of their responses: public ones, those of feeder and operator, the page.

The public reads rules, a feeder writes rounds, an operator sees the private data. No role includes
another: a machine that feeds need not see mistakes, and a screen that shows them cannot write.

The page shows the published rule, live. It is one HTML file that loads nothing from other servers;
its content security policy lets a browser run this script and this style and no other, whatever
text the data holds.
"""

import base64
import hashlib
import json
import math
import re
from collections.abc import Sequence
from contextlib import suppress
from functools import cache, partial
from importlib.resources import files
from typing import Annotated, Any, Literal, NamedTuple

from fastapi import APIRouter, Depends, Header, Query, Request
from fastapi.security import HTTPBearer
from prometheus_client import Metric
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection
from starlette.responses import (
    HTMLResponse,
    JSONResponse,
    PlainTextResponse,
    Response,
    StreamingResponse,
)
from starlette.types import Receive, Scope, Send

from littlestone._data.schema import Schema
from littlestone._learners.base import PrivateLearner
from littlestone._learners.causes import PrivateCauses
from littlestone._learners.outcomes import predicted_labels
from littlestone._learners.trace import Sample
from littlestone._report.causes import label_in_words
from littlestone._report.report import learner_counts, ledger_rows
from littlestone._service import operations
from littlestone._service.bodies import (
    INLINE,
    bad_rows_refusal,
    parse_block,
    parse_examples,
    parse_in,
    receive_body,
)
from littlestone._service.limits import Refused, unavailable
from littlestone._service.operations import counter, gauge
from littlestone._service.service import Service
from littlestone._service.tokens import ROLES, Role, TokenEntry
from littlestone._store.serialization import OLD_COPY

# The most releases of one response.
MAX_RELEASES = 1000
# What an idempotency key may be, and what becomes of a batch with rows that cannot be read.
KEY_PATTERN = r"[\x21-\x7e]{1,200}"
KEY_HEADER, MODES = "idempotency-key", ("refuse", "null")


# Responses. The examples are invented.


class ApiResponse(JSONResponse):
    """Send JSON. A rule's text may hold a lone surrogate, and NaN would be a fault of ours."""

    def render(self, content: Any) -> bytes:
        """Return the body."""
        text = json.dumps(content, ensure_ascii=False, allow_nan=False)
        return text.encode("utf-8", "backslashreplace")


class ApiModel(BaseModel):
    """Describe the data of a response."""

    model_config = ConfigDict(ser_json_inf_nan="constants")


class BadRowResponse(ApiModel):
    """Say what is wrong with a row; the sentence names the field."""

    row: int = Field(description="Counted from 1.")
    error: str


class ProblemResponse(ApiModel):
    """Say in a sentence why a request was refused."""

    error: str
    rows: list[BadRowResponse] = Field(default=[], description="The first bad rows, if any.")


def problem_response(error: HTTPException) -> Response:
    """Return the response to a request that is refused."""
    problem: dict[str, Any] = {"error": str(error.detail)}
    if isinstance(error, Refused) and error.rows:
        problem["rows"] = [{"row": bad.line, "error": bad.sentence} for bad in error.rows]
    return ApiResponse(problem, error.status_code, error.headers)


_PROBLEMS = {
    400: "The body is not JSON, or not UTF-8.",
    401: "No token, or an unknown one.",
    403: "The token is of another role.",
    408: "The body took too long.",
    409: "The key was used for other rows, or the learner is of a finished table.",
    413: "The body, or the number of rows, is above the limit.",
    415: "The body is of an unknown kind.",
    422: "Something cannot be read; the sentence names the row and the field. Nothing changed.",
    429: "Too many requests, or too much at a time: see Retry-After.",
    503: "Unavailable: see the sentence; with Retry-After try again, without it do not.",
}
A_TABLE = (
    "the learner is of a finished table, which is learned whole, once: begin another file with a "
    "budget of its own for other rows"
)
_RETRY_HEADER = {"Retry-After": {"description": "Seconds to wait.", "schema": {"type": "integer"}}}
Described = dict[int | str, dict[str, Any]]


def problems(*statuses: int) -> Described:
    """Return the descriptions of errors, for OpenAPI."""
    described: Described = {}
    for status in statuses:
        described[status] = {"model": ProblemResponse, "description": _PROBLEMS[status]}
        if status in (429, 503):
            described[status]["headers"] = _RETRY_HEADER
    return described


def _text(kind: str, description: str) -> Described:
    content = {kind: {"schema": {"type": "string"}}}
    return {200: {"description": description, "content": content}}


EVENTS = _text("text/event-stream", "Events `release`, `evidence` and `rounds`, as JSON.")
METRICS = _text("text/plain", "Metrics in the text format of Prometheus.")
BODY_PROBLEMS = problems(400, 408, 413, 415, 422, 503)


# Requests.


async def service_of(request: Request) -> Service:
    """Return the service that received a request."""
    service = request.app.state.service
    assert isinstance(service, Service)
    return service


Served = Annotated[Service, Depends(service_of)]


class RoleRequired(HTTPBearer):
    """Refuse a request without the token of a role; the base class describes it for OpenAPI."""

    def __init__(self, role: Role) -> None:
        super().__init__(scheme_name=role, description=ROLES[role], auto_error=False)
        self._role = role

    async def __call__(self, request: HTTPConnection) -> None:
        """Check the token that `Guard` has found."""
        token: TokenEntry | None = request.state.token
        if token is None:
            raise Refused(
                401,
                f"this needs the token of the {self._role}, as `Authorization: Bearer TOKEN`",
                headers={"WWW-Authenticate": "Bearer"},
            )
        if token.role != self._role:
            raise Refused(
                403, f"the token is that of the {token.role}, and this is for the {self._role}"
            )


def _request_body(name: str, having: str, *, or_single: bool) -> dict[str, Any]:
    row: dict[str, Any] = {"$ref": f"#/components/schemas/{name}"}
    rows = {"type": "array", "items": row, "minItems": 1}
    wrapped = {
        "type": "object",
        "properties": {"rows": rows},
        "required": ["rows"],
        "additionalProperties": False,
    }
    schema = {"oneOf": [rows, wrapped, *([row] if or_single else [])]}
    content = {
        "application/json": {"schema": schema},
        "application/x-ndjson": {"schema": {"type": "string"}},
    }
    words = f"Rows {having}. As NDJSON: an object a line, no line blank."
    return {"requestBody": {"required": True, "description": words, "content": content}}


_KINDS: dict[str, dict[str, Any]] = {
    "value": {"type": ["string", "number", "boolean", "null"]},
    "number": {"type": ["number", "null"], "minimum": -1e300, "maximum": 1e300},
    "truth": {"enum": [0, 1, True, False]},
}
_EXAMPLES: dict[str, Any] = {"value": "a", "number": 1, "truth": 1}


def row_schemas(schema: Schema) -> dict[str, Any]:
    """Return the JSON schemas of a row with its label and of one without, for a class."""
    properties = {name: _KINDS[kind] for name, kind in schema.kinds.items()}
    example = {name: _EXAMPLES[kind] for name, kind in schema.kinds.items()}
    labelled = properties | {schema.label: _KINDS[schema.label_kind]}
    named = [] if schema.bounds else [*schema.positive, *schema.normal]
    labelled_example = example | {schema.label: named[0] if named else 0}
    if schema.user is not None:
        labelled[schema.user] = {"type": ["string", "integer"], "minLength": 1}
        labelled_example[schema.user] = "somebody"
    words = "The columns, the label, and the user if protected."
    return {
        "Row": _row_schema("The columns that the class reads.", properties, example),
        "LabelledRow": _row_schema(words, labelled, labelled_example),
    }


def _row_schema(
    description: str, properties: dict[str, Any], example: dict[str, Any]
) -> dict[str, Any]:
    return {
        "type": "object",
        "description": f"{description} Other fields are ignored.",
        "properties": properties,
        "required": list(properties),
        "example": example,
    }


# Public routes.

public = APIRouter(tags=["public"], responses=problems(429))


class ReleaseResponse(ApiModel):
    """Hold a published rule."""

    number: int = Field(description="Counted from 1.")
    round: int = Field(description="The round from which it is published, counted from 1.")
    sentence: str = Field(description="The rule in words.")
    rule: dict[str, Any] = Field(description="The rule as data.")
    since: str | None = Field(description="When it was published, if this process saw it.")


class CauseResponse(ApiModel):
    """Hold a cause that was published, with what released counts say about it."""

    cause: str = Field(description="In words.")
    outcome: Any = Field(
        default=None, description="What happens where it holds, if labels are outcomes."
    )
    conditions: list[dict[str, Any]] = Field(description="The cause as data.")
    standing: bool = Field(description="Whether it is published now.")
    since: int = Field(description="The round from which it is, or was last, published.")
    until: int | None = Field(description="The last round, if it was dropped.")
    spans: list[tuple[int, int | None]] = Field(
        description="The first and last round of each time that it stood."
    )
    counted_from: int | None = Field(description="The first round that is counted.")
    counted_to: int | None = Field(description="The last round that is counted.")
    events: int | None = Field(description="Estimated events for which it is the first to hold.")
    events_low: int | None = Field(description="The lower end of their 95 % interval.")
    events_high: int | None = Field(description="The upper end.")
    positives: int | None = Field(description="Estimated positive ones among them.")
    rate: float | None = Field(description="Their positive rate.")
    low: float | None = Field(description="The lower end of its 95 % interval.")
    high: float | None = Field(description="The upper end.")
    base_rate: float | None = Field(
        description="The positive rate of events that no cause matches."
    )
    lift: float | None = Field(description="The rate, in multiples of the base rate.")
    to_beat: float | None = Field(description="The rate that it had to beat to be published.")


class HypothesisResponse(ReleaseResponse):
    """Hold the current rule."""

    label: str = Field(description="The column of labels, which the rule predicts.")
    rounds: int = Field(description="Rounds so far.")
    stood: int = Field(description="Rounds since its release.")
    final: str | None = Field(description="Why it will not change any more, if so.")
    rate_to_beat: float | None = Field(description="As in /evidence; null if there is none.")
    causes: list[CauseResponse] | None = Field(
        description="The causes that stand, as in /evidence; null if there are none."
    )


@public.get("/hypothesis", response_model=HypothesisResponse, response_model_exclude_unset=True)
async def hypothesis(service: Served) -> Any:
    """Return the current rule."""
    release, published = service.events.releases[-1], service.events.state.published
    evidence = service.events.evidence()
    causes = evidence["causes"]
    return release | {
        "label": evidence["label"],
        "rounds": published.rounds,
        "stood": published.rounds - release["round"] + 1,
        "final": published.final,
        "rate_to_beat": evidence["rate_to_beat"],
        "causes": None if causes is None else [cause for cause in causes if cause["standing"]],
    }


class HistoryResponse(ApiModel):
    """Hold how the rate of a cause went."""

    cause: str = Field(description="The cause, as a sentence.")
    words: str = Field(description="Whether its rate came down, and since when.")
    points: list[tuple[float, float, float | None, float, float, float | None]] = Field(
        description="For each stretch of rounds: where it begins and ends on the axis, in "
        "thousandths; the positive rate, the ends of its 95 % interval, and the rate of all others."
    )


class OverTimeResponse(ApiModel):
    """Hold how the rates of causes went, over one axis."""

    from_: str = Field(alias="from", description="Where the axis begins: a round, or a time.")
    to: str = Field(description="Where it ends.")
    top: float = Field(description="A rate at which the other axis may end.")
    lines: list[HistoryResponse]


class EvidenceResponse(ApiModel):
    """Hold the evidence for every cause that was published: the data of the event `evidence`."""

    label: str = Field(description="The column of labels: what the causes are of.")
    rate_to_beat: float | None = Field(
        description="The positive rate that a cause has to beat now."
    )
    why_that_rate: str | None = Field(description="Where it is from, in words.")
    remarks: list[str] = Field(
        default=[],
        description="If no cause stands, why: how many positives one would have needed, which rows "
        "no draw has read, and what to try; how events of several causes count; and that the rows "
        "seem to be sorted by their label.",
    )
    base_rate: float | None = Field(
        description="The positive rate of all events that no published cause matched."
    )
    base_low: float | None = Field(description="The lower end of its 95 % interval.")
    base_high: float | None = Field(description="The upper end.")
    counted: str = Field(
        default="events", description="What is counted, in words: of users one event each, or so."
    )
    counted_to: int = Field(description="The last round that is counted.")
    costs: list[tuple[int, float, float]] = Field(
        default=[],
        description="By round: what the published causes have cost so far, and what publishing "
        "nothing would have, in missed positives; estimated from the same counts.",
    )
    over_time: OverTimeResponse | None = Field(
        description="How the rates of causes went, to be drawn; null while that cannot be told."
    )
    causes: list[CauseResponse] | None = Field(
        description="Those that stand first, by positives beyond the rate of all others; null if "
        "the learner has no evidence."
    )


@public.get("/evidence", response_model=EvidenceResponse, response_model_exclude_unset=True)
async def evidence(service: Served) -> Any:
    """Return events, rate, interval and lift of every cause that was published."""
    return service.events.evidence()


class ReleasesResponse(ApiModel):
    """Hold published rules, in order."""

    releases: list[ReleaseResponse]
    total: int = Field(description="How many there are in all.")


@public.get("/releases", response_model=ReleasesResponse, responses=problems(422))
async def releases(
    service: Served,
    after: Annotated[int, Query(ge=0, le=2**53, description="Those after this number.")] = 0,
) -> Any:
    """Return the published rules, in order, at most 1,000 at a time."""
    published = service.events.releases
    return {"releases": published[after : after + MAX_RELEASES], "total": len(published)}


class GuaranteeResponse(ApiModel):
    """Hold the guarantee of the whole sequence of published rules, and what it has cost."""

    guarantee: str = Field(description="The text to quote.")
    epsilon: float | None
    delta: float
    adjacency: str
    unit: str
    words: list[str] = Field(description="The same in plain words.")
    learner: str
    label: str = Field(description="The column of labels.")
    label_words: str = Field(
        description="What a positive row is, in words: the label, with its value."
    )
    class_: str = Field(alias="class", description="Which rules may be published.")
    horizon: int
    table: bool = Field(description="Whether a finished table is learned, at once, and no stream.")
    # The data of the event `rounds`.
    rounds: int
    releases: int
    spent: str = Field(description="The total of the ledger so far.")
    spent_epsilon: float
    spent_delta: float
    final: str | None


@public.get("/guarantee", response_model=GuaranteeResponse)
async def guarantee(service: Served) -> Any:
    """Return the guarantee of all published rules together, and what they have cost so far."""
    terms, chosen = service.config.terms, service.config.chosen
    promised = service.events.state.published.guarantee
    # Causes of outcomes say themselves what happens.
    words = terms.label if terms.negative else label_in_words(**terms.label_data)
    return service.events.progress() | {
        "guarantee": str(promised),
        "epsilon": promised.epsilon if math.isfinite(promised.epsilon) else None,
        "delta": promised.delta,
        "adjacency": promised.adjacency,
        "unit": promised.unit,
        "words": [f"{heading}: {text}" for heading, text in promised.meaning().items()],
        "learner": chosen.learner_name,
        "label": terms.label,
        "label_words": words,
        "class": terms.spec,
        "horizon": chosen.plan.horizon,
        "table": terms.table,
    }


class PredictionsResponse(ApiModel):
    """Hold the labels that the current rule predicts."""

    sentence: str = Field(description="The rule.")
    predictions: list[bool] | list[Any] = Field(
        description="True or false; outcomes and the normal label if labels are outcomes."
    )


@public.post(
    "/predict",
    response_model=PredictionsResponse,
    responses=BODY_PROBLEMS,
    openapi_extra=_request_body("Row", "without labels, or one", or_single=True),
)
async def predict(request: Request, service: Served) -> Any:
    """Return the labels that the current rule predicts for rows, or for one. Nothing is learned."""
    limits, schema = service.limits, service.schema
    body = await receive_body(request, limits, limits.public_body, service.receiving)
    rule = service.events.state.published.releases[-1].rule

    def answer() -> Response:
        columns = parse_examples(body.data, body.form, schema, limits)
        labels = predicted_labels(schema.cls, rule, columns).tolist()
        # Rendered here, not in the event loop: there may be many.
        return ApiResponse({"sentence": str(rule), "predictions": labels})

    if len(body.data) <= INLINE:
        return answer()
    with service.predictions.slot(request.state.client):
        return await parse_in(service.prediction_threads, body.data, answer)


@public.get("/events", response_class=StreamingResponse, responses=EVENTS | problems(422, 503))
async def events(
    request: Request,
    service: Served,
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
    service.watchers.acquire(request.state.client)
    return _EventResponse(service, service.events.releases_seen(seen), request.state.client)


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


# Public routes for whoever runs the service.


class LiveResponse(ApiModel):
    """Say that the process answers."""

    status: Literal["ok"]


@public.get("/live", response_model=LiveResponse)
async def live() -> Any:
    """Return 200 if the process answers: restart it if not."""
    return {"status": "ok"}


class ReadyResponse(LiveResponse):
    """Say that rounds are accepted."""

    rounds: int


@public.get("/ready", response_model=ReadyResponse, responses=problems(503))
async def ready(service: Served) -> Any:
    """Return 200 if rounds can be accepted, 503 with the reason if not."""
    if (why := service.problem) is not None:
        raise unavailable(why)
    return {"status": "ok", "rounds": service.events.state.published.rounds}


@public.get("/metrics", response_class=PlainTextResponse, responses=METRICS)
async def metrics(service: Served) -> Response:
    """Return public figures for Prometheus: rounds, releases, guarantee, requests, uptime."""
    return operations.exposed(_public_families(service, private=False))


def _public_families(service: Service, *, private: bool) -> list[Metric]:
    """Return what is public: each figure is also in `/guarantee`, `/hypothesis` or `/ready`."""
    published, spent = service.events.state
    promised = published.guarantee
    return [
        operations.run_info(service.config, promised.unit),
        counter("rounds", "Rounds so far.", published.rounds),
        gauge("horizon_rounds", "Rounds that are planned for.", service.config.chosen.plan.horizon),
        counter("releases", "Published rules.", len(published.releases)),
        gauge("final", "1 if the rule cannot change.", published.final is not None),
        gauge("guarantee_epsilon", "Of all that is published.", promised.epsilon),
        gauge("guarantee_delta", "Of all that is published.", promised.delta),
        gauge("spent_epsilon", "Of the guarantee, so far.", float(spent.epsilon)),
        gauge("spent_delta", "Of the guarantee, so far.", float(spent.delta)),
        gauge("ready", "1 if rounds can be accepted.", service.problem is None),
        operations.uptime(service.started),
        operations.request_counts(service.requests, private=private),
    ]


# Routes that need a token.

feeder = APIRouter(
    tags=["feeder"],
    dependencies=[Depends(RoleRequired("feeder"))],
    responses=problems(401, 403, 429, 503),
)
operator = APIRouter(
    prefix="/private",
    tags=["operator"],
    dependencies=[Depends(RoleRequired("operator"))],
    responses=problems(401, 403, 429, 503),
)


class ReceiptResponse(ApiModel):
    """Confirm a batch. It is on disk."""

    first: int = Field(description="The number of its first round.")
    rounds: int
    null_rounds: int = Field(description="Rounds of it that were not learned.")
    again: bool = Field(description="The key was known: this is the first receipt.")


BATCH_OPTIONS = [
    {
        "name": "bad_rows",
        "in": "query",
        "description": "What becomes of a batch with rows that cannot be read.",
        "schema": {"type": "string", "enum": MODES, "default": MODES[0]},
    },
    {
        "name": "Idempotency-Key",
        "in": "header",
        "description": "Names the batch, so that sending it again is not a second round.",
        "schema": {"type": "string", "pattern": f"^{KEY_PATTERN}$"},
    },
]


def read_batch_options(request: Request) -> tuple[str, str | None]:
    """Return what becomes of bad rows, and the key of the batch, if it has one."""
    # Most batches have no query, which is not parsed then.
    query = request.query_params if request.scope["query_string"] else {}
    mode, key = query.get("bad_rows", MODES[0]), request.headers.get(KEY_HEADER)
    if mode not in MODES:
        raise Refused(422, f"query bad_rows: it must be {' or '.join(MODES)}")
    if key is not None and not re.fullmatch(KEY_PATTERN, key):
        raise Refused(
            422, f"header {KEY_HEADER}: it must be 1 to 200 visible characters of ASCII, no spaces"
        )
    return mode, key


# The options are read by hand: FastAPI's way is a sixth of the event loop's time for a small batch.
@feeder.post(
    "/rounds",
    response_model=ReceiptResponse,
    responses=BODY_PROBLEMS | problems(409),
    openapi_extra=_request_body("LabelledRow", "with their labels", or_single=False)
    | {"parameters": BATCH_OPTIONS},
)
async def rounds(request: Request) -> Response:
    """Learn a batch of rows: a round each, in order. The response comes when they are on disk."""
    service: Service = request.app.state.service
    limits, (bad_rows, key) = service.limits, read_batch_options(request)
    if service.config.terms.table:
        raise Refused(409, A_TABLE)
    with service.batches.slot():
        body = await receive_body(request, limits, limits.body, service.receiving)
        arguments = body.data, body.form, service.schema, limits
        block = await parse_in(service.batch_threads, body.data, parse_block, *arguments)
        if (nulls := block.null_rounds()) and bad_rows == "refuse":
            raise bad_rows_refusal(block.bad, nulls, len(block))
        # The mode is part of the digest: the same bytes mean other rounds in the other mode.
        queued = service.writer.learn(block, key, body.digest(bad_rows))
        receipt = request.state.receipt = await service.wait_for(queued)
    return ApiResponse(
        {
            "first": receipt.first,
            "rounds": receipt.rounds,
            "null_rounds": receipt.nulls,
            "again": receipt.again,
        }
    )


@operator.get("/metrics", response_class=PlainTextResponse, responses=METRICS)
async def private_metrics(service: Served) -> Response:
    """Return all figures for Prometheus. **Private**: mistakes, null rounds, commits, memory."""
    writer, families = service.writer, _public_families(service, private=True)
    # If the store is lost or closed, the other figures are wanted all the more.
    with suppress(Refused):
        families += await service.wait_for(writer.inspect(operations.learner_families))
    families += [
        gauge("batches_under_way", "Batches not answered yet.", service.batches.taken),
        gauge("queued_jobs", "Jobs that wait for the writer.", writer.queued),
        gauge("event_streams", "Open streams of events.", service.watchers.taken),
        counter("commit_failures", "Commits that failed.", writer.failures),
        *writer.commits.collect(),
        *operations.process_families(service.path),
    ]
    if service.audit is not None:
        lost = service.audit.failures
        families.append(counter("audit_failures", "Lines of the audit log lost.", lost))
    return operations.exposed(families)


class VotesResponse(ApiModel):
    """Hold how many trees vote for a rule. Private."""

    sentence: str
    votes: int


class SampleResponse(ApiModel):
    """Hold the mistakes and votes after a round. Private."""

    round: int
    mistakes: int = Field(description="Of a learner of causes, what they cost: see `cost`.")
    votes: list[VotesResponse]


class SpentResponse(ApiModel):
    """Hold the uses of one mechanism in the ledger."""

    mechanism: str
    times: str
    each: str
    adds: str


class TraceResponse(ApiModel):
    """Hold mistakes and votes. Private: exact, without noise, for the data owner only."""

    rounds: int
    counted_rounds: int = Field(description="Rounds with an example that was learned.")
    mistakes: int = Field(description="Among the rounds that counted.")
    missed: int | None = Field(description="Of these, positives; null if they are not told apart.")
    cost: float | None = Field(
        description="With causes: a missed positive costs 1, a false alarm the odds to beat."
    )
    null_rounds: int = Field(description="All others: unreadable, or beyond the cap.")
    beyond_cap: int = Field(description="Rounds beyond the cap of their user.")
    unreadable: int = Field(description="Rounds whose row could not be read.")
    rate: float | None = Field(description="Mistakes per round that counted.")
    mistakes_of_rule: int = Field(description="Mistakes of the current rule, or their cost.")
    rate_of_rule: float | None = Field(description="The same, per round since its release.")
    voters: int = Field(description="Trees that vote; 0 for a learner without trees.")
    votes: list[VotesResponse]
    samples: list[SampleResponse]
    ledger: list[SpentResponse]


@operator.get("/trace", response_model=TraceResponse, responses=problems(422))
async def trace(
    service: Served,
    samples: Annotated[int, Query(ge=0, le=5000, description="At most so many.")] = 200,
) -> Any:
    """Return mistakes, votes, rate, null rounds, ledger. **Private**: exact, for the data owner."""
    before = service.events.releases[-1]["round"] - 1
    inspect = partial(_trace, before=before, maximum=samples)
    return await service.wait_for(service.writer.inspect(inspect))


def _trace(learner: PrivateLearner, *, before: int, maximum: int) -> dict[str, Any]:
    """Return the trace; `before` is the number of rounds before the current rule's release."""
    counts = learner_counts(learner)
    samples, counted = learner.trace, counts["counted_rounds"]
    last = samples[-1]
    earlier = [sample.mistakes for sample in samples if sample.round <= before]
    of_rule = last.mistakes - (earlier[-1] if earlier else 0)
    rounds_of_rule = counts["rounds"] - before
    return counts | {
        "missed": learner.missed if isinstance(learner, PrivateCauses) else None,
        "cost": learner.cost if isinstance(learner, PrivateCauses) else None,
        "rate": counts["mistakes"] / counted if counted else None,
        "mistakes_of_rule": of_rule,
        "rate_of_rule": of_rule / rounds_of_rule if rounds_of_rule else None,
        "voters": sum(votes for _, votes in last.votes),
        "votes": _votes(last),
        "samples": [
            {"round": sample.round, "mistakes": sample.mistakes, "votes": _votes(sample)}
            for sample in _thin(samples, maximum)
        ],
        "ledger": [
            dict(zip(SpentResponse.model_fields, row, strict=True)) for row in ledger_rows(learner)
        ],
    }


def _votes(sample: Sample) -> list[dict[str, Any]]:
    return [{"sentence": str(rule), "votes": votes} for rule, votes in sample.votes]


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
