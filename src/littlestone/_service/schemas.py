"""The models of all responses, and what OpenAPI says beyond the routes: bodies, errors, rows.

Routes build these models and send them with `json_response`. The examples are invented.
"""

import json
from typing import Any

from pydantic import BaseModel, Field
from starlette.responses import Response

from littlestone._data.schema import Schema
from littlestone._service.limits import Refused


class ApiModel(BaseModel):
    """Hold the data of a response."""

    def to_json(self) -> dict[str, Any]:
        """Return the model as JSON data; what was not given is left out."""
        return self.model_dump(by_alias=True, exclude_unset=True)


def json_response(model: ApiModel, status: int = 200) -> Response:
    """Return the response with a model as its body."""
    # Not pydantic's own writer: that fails at a lone surrogate, which a rule's text may hold, and
    # writes NaN as null, which would hide a fault of ours.
    text = json.dumps(model.to_json(), ensure_ascii=False, allow_nan=False)
    return Response(text.encode("utf-8", "backslashreplace"), status, media_type="application/json")


def refusal_response(error: Refused) -> Response:
    """Return the response to a request that is refused."""
    problem = ProblemResponse(error=error.sentence)
    if error.rows:
        problem.rows = [BadRowResponse(row=row.line, error=row.sentence) for row in error.rows]
    response = json_response(problem, error.status)
    response.headers.update(error.headers)
    return response


class BadRowResponse(ApiModel):
    """Say what is wrong with a row; the sentence names the field."""

    row: int = Field(description="Counted from 1.")
    error: str


class ProblemResponse(ApiModel):
    """Say in a sentence why a request was refused."""

    error: str
    rows: list[BadRowResponse] = Field(default=[], description="The first bad rows, if any.")


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
    events: int | None = Field(description="Estimated events that it matches first.")
    positives: int | None = Field(description="Estimated positive ones among them.")
    rate: float | None = Field(description="Their positive rate.")
    low: float | None = Field(description="The lower end of its 95 % interval.")
    high: float | None = Field(description="The upper end.")
    base_rate: float | None = Field(
        description="The positive rate of events that no cause matches."
    )
    lift: float | None = Field(description="The rate, in multiples of the base rate.")


class EvidenceResponse(ApiModel):
    """Hold the evidence for every cause that was published: the data of the event `evidence`."""

    label: str = Field(description="The column of labels: what the causes are of.")
    min_rate: float | None = Field(description="Causes with a higher rate are worth publishing.")
    base_rate: float | None = Field(
        description="The positive rate of all events that no published cause matched."
    )
    base_low: float | None = Field(description="The lower end of its 95 % interval.")
    base_high: float | None = Field(description="The upper end.")
    counted_to: int = Field(description="The last round that is counted.")
    costs: list[tuple[int, float, float]] = Field(
        default=[],
        description="By round: what the published causes have cost so far, and what publishing "
        "nothing would have, in missed positives; estimated from the same counts.",
    )
    causes: list[CauseResponse] | None = Field(
        description="Those that stand first; null if the learner has no evidence."
    )


class HypothesisResponse(ReleaseResponse):
    """Hold the current rule."""

    label: str = Field(description="The column of labels, which the rule predicts.")
    rounds: int = Field(description="Rounds so far.")
    stood: int = Field(description="Rounds since its release.")
    final: str | None = Field(description="Why it will not change any more, if so.")
    min_rate: float | None = Field(description="As in /evidence; null if there is none.")
    causes: list[CauseResponse] | None = Field(
        description="The causes that stand, as in /evidence; null if there are none."
    )


class ReleasesResponse(ApiModel):
    """Hold published rules, in order."""

    releases: list[ReleaseResponse]
    total: int = Field(description="How many there are in all.")


class PredictionsResponse(ApiModel):
    """Hold the labels that the current rule predicts."""

    sentence: str = Field(description="The rule.")
    predictions: list[bool] | list[Any] = Field(
        description="True or false; outcomes and the normal label if labels are outcomes."
    )


class ProgressResponse(ApiModel):
    """Hold how far the stream is, and what it has cost: the data of the event `rounds`."""

    rounds: int
    releases: int
    spent: str = Field(description="The total of the ledger so far.")
    spent_epsilon: float
    spent_delta: float
    final: str | None


class GuaranteeResponse(ProgressResponse):
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
    class_: str = Field(serialization_alias="class", description="Which rules may be published.")
    horizon: int


class HealthResponse(ApiModel):
    """Say that rounds are accepted."""

    status: str = Field(description="ok.")
    rounds: int


class LiveResponse(ApiModel):
    """Say that the process answers."""

    status: str = Field(description="ok.")


class ReceiptResponse(ApiModel):
    """Confirm a batch. It is on disk."""

    first: int = Field(description="The number of its first round.")
    rounds: int
    null_rounds: int = Field(description="Rounds of it that were not learned.")
    again: bool = Field(description="The key was known: this is the first receipt.")


class VotesResponse(ApiModel):
    """Hold how many trees vote for a rule. Private."""

    sentence: str
    votes: int


class SampleResponse(ApiModel):
    """Hold the mistakes and votes after a round. Private."""

    round: int
    mistakes: int
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
    null_rounds: int = Field(description="All others: unreadable, or beyond the cap.")
    beyond_cap: int = Field(description="Rounds beyond the cap of their user.")
    unreadable: int = Field(description="Rounds whose row could not be read.")
    rate: float | None = Field(description="Mistakes per round that counted.")
    mistakes_of_rule: int = Field(description="Mistakes of the current rule.")
    rate_of_rule: float | None = Field(description="The same, per round since its release.")
    voters: int = Field(description="Trees that vote; 0 for a learner without trees.")
    votes: list[VotesResponse]
    samples: list[SampleResponse]
    ledger: list[SpentResponse]


TITLE = "littlestone"
DESCRIPTION = """A stored learner behind HTTP: before every round it has a published rule, and the
whole sequence of published rules is differentially private.

**Public**, without a token: the rules, the rounds of their release, the evidence for causes, the
number of rounds, the guarantee. **Feeder**: writes rounds. **Operator**: sees mistakes and votes,
which are exact and belong to the data owner. No role includes another. Tokens are sent as
`Authorization: Bearer`.

Every refusal is a sentence, as JSON: `{"error": "..."}`. A batch that is refused changes nothing,
and is outside the privacy guarantee: that it was refused tells about its rows."""

_DESCRIPTIONS = {
    400: "The body is not JSON, or not UTF-8.",
    401: "No token, or an unknown one.",
    403: "The token is of another role.",
    408: "The body took too long.",
    409: "The key was used for other rows.",
    413: "The body, or the number of rows, is above the limit.",
    415: "The body is of an unknown kind.",
    422: "Something cannot be read; the sentence names the row and the field. Nothing changed.",
    429: "Too many requests, or too much at a time: see Retry-After.",
    503: "Unavailable: see the sentence; with Retry-After try again, without it do not.",
}
_RETRY_HEADER = {
    "Retry-After": {"description": "Seconds to wait.", "schema": {"type": "integer"}},
}


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the descriptions of the errors of a route, for OpenAPI."""
    described: dict[int | str, dict[str, Any]] = {}
    for status in statuses:
        described[status] = {"model": ProblemResponse, "description": _DESCRIPTIONS[status]}
        if status in (429, 503):
            described[status]["headers"] = _RETRY_HEADER
    return described


EVENTS: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Events `release`, `evidence` and `rounds`, each with JSON data.",
        "content": {"text/event-stream": {"schema": {"type": "string"}}},
    }
}


METRICS: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Metrics in the text format of Prometheus.",
        "content": {"text/plain": {"schema": {"type": "string"}}},
    }
}


def _rows_schema(name: str, *, or_single: bool) -> dict[str, Any]:
    row: dict[str, Any] = {"$ref": f"#/components/schemas/{name}"}
    rows = {"type": "array", "items": row, "minItems": 1}
    wrapped = {
        "type": "object",
        "properties": {"rows": rows},
        "required": ["rows"],
        "additionalProperties": False,
    }
    return {"oneOf": [rows, wrapped, *([row] if or_single else [])]}


BODIES: dict[str, dict[str, Any]] = {
    kind: {
        "required": True,
        "description": f"Rows {having}. As NDJSON: an object a line, no line blank.",
        "content": {
            "application/json": {"schema": _rows_schema(name, or_single=or_single)},
            "application/x-ndjson": {"schema": {"type": "string"}},
        },
    }
    for kind, name, or_single, having in (
        ("rounds", "LabelledRow", False, "with their labels"),
        ("examples", "Row", True, "without labels, or one"),
    )
}

# What an idempotency key may be.
KEY_PATTERN = r"^[\x21-\x7e]{1,200}$"

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
    return {
        "Row": _row_schema("The columns that the class reads.", properties, example),
        "LabelledRow": _row_schema(
            "The columns, the label, and the user if protected.", labelled, labelled_example
        ),
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
