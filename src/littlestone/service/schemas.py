"""Answers: what each route says, as OpenAPI describes it. The examples are made up.

What OpenAPI says beyond the routes: bodies, errors, the shape of a row. Examples are made up.
"""

from typing import Annotated, Any

from pydantic import BaseModel, Field

from littlestone.data.blocks import ColumnSchema

RULE = {"kind": "one_of", "column": "merchant", "values": ["M7"]}
A_RELEASE = {
    "number": 2,
    "round": 2249,
    "sentence": "merchant = 'M7'",
    "rule": RULE,
    "since": "2026-01-31T12:00:00+00:00",
}


class Response(BaseModel):
    """Something that the service says."""


class BadRowResponse(Response):
    """What is wrong with a row; the sentence names the field."""

    row: Annotated[int, Field(description="Counted from 1.")]
    error: str


class ProblemResponse(Response):
    """Why there is no answer, in a sentence."""

    error: str
    rows: Annotated[
        list[BadRowResponse], Field(description="The first rows at fault, if any.")
    ] = []


class ReleaseResponse(Response):
    """A published rule."""

    number: Annotated[int, Field(description="Counted from 1.")]
    round: Annotated[int, Field(description="The round from which it stands, counted from 1.")]
    sentence: Annotated[str, Field(description="The rule in words.")]
    rule: Annotated[dict[str, Any], Field(description="The rule as data.")]
    since: Annotated[
        str | None, Field(description="When it was published, if this process saw it.")
    ]


class HypothesisResponse(ReleaseResponse):
    """The rule that stands now."""

    rounds: Annotated[int, Field(description="Rounds so far.")]
    stood: Annotated[int, Field(description="Rounds that this rule has stood.")]
    final: Annotated[str | None, Field(description="Why it will not change any more, if so.")]


class ReleasesResponse(Response):
    """Published rules, in order."""

    releases: list[ReleaseResponse]
    total: Annotated[int, Field(description="How many there are in all.")]


class PredictionsResponse(Response):
    """What the published rule says of rows."""

    sentence: Annotated[str, Field(description="The rule.")]
    predictions: list[bool]


class GuaranteeResponse(Response):
    """What the whole sequence of published rules promises, and what it has cost."""

    guarantee: Annotated[str, Field(description="What you may quote.")]
    epsilon: float | None
    delta: float
    adjacency: str
    unit: str
    words: Annotated[list[str], Field(description="The same in plain words.")]
    learner: str
    class_: Annotated[str, Field(alias="class", description="Which rules may be published.")]
    horizon: int
    rounds: int
    releases: int
    spent: Annotated[str, Field(description="What the ledger adds up to so far.")]
    spent_epsilon: float
    spent_delta: float
    final: str | None


class HealthResponse(Response):
    """Whether rounds are taken."""

    status: Annotated[str, Field(description="ok, or why not.")]
    rounds: int


class ReceiptResponse(Response):
    """What became of a batch. It is on disk."""

    first: Annotated[int, Field(description="The number of its first round.")]
    rounds: int
    null_rounds: Annotated[int, Field(description="Rounds of it that taught nothing.")]
    again: Annotated[bool, Field(description="The key was known: this is the first receipt.")]


class VotesResponse(Response):
    """How many trees vote for a rule. Private."""

    sentence: str
    votes: int


class SampleResponse(Response):
    """How it stood after a round. Private."""

    round: int
    mistakes: int
    votes: list[VotesResponse]


class SpentResponse(Response):
    """A mechanism of the ledger."""

    mechanism: str
    times: str
    each: str
    adds: str


class TraceResponse(Response):
    """How it goes. Private: exact, without noise, for the data owner only."""

    rounds: int
    counted_rounds: Annotated[int, Field(description="Rounds with an example that was learned.")]
    null_rounds: Annotated[int, Field(description="All others: unreadable, or beyond the cap.")]
    beyond_cap: Annotated[int, Field(description="Rounds beyond the cap of their user.")]
    unreadable: Annotated[int, Field(description="Rounds whose row could not be read.")]
    mistakes: Annotated[int, Field(description="Among the rounds that counted.")]
    rate: Annotated[float | None, Field(description="Mistakes a round that counted.")]
    mistakes_of_rule: Annotated[int, Field(description="Mistakes of the rule that stands now.")]
    rate_of_rule: Annotated[float | None, Field(description="The same, a round that it stood.")]
    voters: Annotated[int, Field(description="Trees that vote; 0 where nothing votes.")]
    votes: list[VotesResponse]
    samples: list[SampleResponse]
    ledger: list[SpentResponse]


TITLE = "littlestone"
ABOUT = """A stored learner behind HTTP: before every round it has a published rule, and the whole
sequence of published rules is differentially private.

**Public**, without a token: the rules, the rounds from which they stood, the number of rounds, the
guarantee. **Feeder**: writes rounds. **Operator**: sees mistakes and votes, which are exact and
belong to the data owner. No role includes another. Tokens are sent as `Authorization: Bearer`.

Every refusal is a sentence, as JSON: `{"error": "..."}`. A batch that is refused changes nothing,
and is outside the privacy guarantee: that it was refused tells about its rows."""

_SAYS = {
    400: "The body is not JSON, or not UTF-8.",
    401: "No token, or an unknown one.",
    403: "The token is of another role.",
    408: "The body took too long.",
    409: "The key was used for other rows.",
    413: "The body, or the number of rows, is above the limit.",
    415: "The body is of an unknown kind.",
    422: "Something cannot be read; the sentence names the row and the field. Nothing changed.",
    429: "Too many requests, or too much at a time: see Retry-After.",
    503: "Not now, or never again: see the sentence, and Retry-After if there is one.",
}
_WAITS = {
    "Retry-After": {"description": "Seconds until then.", "schema": {"type": "integer"}},
}
_EXAMPLE = {
    422: {
        "error": "1 of 2 rows cannot be read: row 2: no column 'merchant'",
        "rows": [{"row": 2, "error": "no column 'merchant'"}],
    },
    429: {"error": "too many requests: there may be 500 a second"},
}


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The refusals of a route."""
    found: dict[int | str, dict[str, Any]] = {}
    for status in statuses:
        found[status] = {"model": ProblemResponse, "description": _SAYS[status]}
        if status in (429, 503):
            found[status]["headers"] = _WAITS
        if status in _EXAMPLE:
            found[status]["content"] = {"application/json": {"example": _EXAMPLE[status]}}
    return found


EVENTS: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Events `release` and `rounds`, each with JSON data.",
        "content": {"text/event-stream": {"schema": {"type": "string"}}},
    }
}


def _many(name: str, one: bool) -> dict[str, Any]:
    row: dict[str, Any] = {"$ref": f"#/components/schemas/{name}"}
    rows = {"type": "array", "items": row, "minItems": 1}
    inside = {
        "type": "object",
        "properties": {"rows": rows},
        "required": ["rows"],
        "additionalProperties": False,
    }
    return {"oneOf": [rows, inside, *([row] if one else [])]}


BODIES: dict[str, dict[str, Any]] = {
    kind: {
        "required": True,
        "description": f"Rows {having}. As NDJSON: an object a line, no line blank.",
        "content": {
            "application/json": {"schema": _many(name, one)},
            "application/x-ndjson": {"schema": {"type": "string"}},
        },
    }
    for kind, name, one, having in (
        ("rounds", "LabelledRow", False, "with their labels"),
        ("examples", "Row", True, "without labels, or one"),
    )
}

_KINDS: dict[str, dict[str, Any]] = {
    "value": {"type": ["string", "number", "boolean", "null"]},
    "number": {"type": ["number", "null"], "minimum": -1e300, "maximum": 1e300},
    "truth": {"enum": [0, 1, True, False]},
}
_EXAMPLES: dict[str, Any] = {"value": "a", "number": 1, "truth": 1}


def row_schemas(wanted: ColumnSchema) -> dict[str, Any]:
    """The schemas of a row with its label and of one without, as this learner's class has them."""
    inside = {name: _KINDS[kind] for name, kind in wanted.kinds.items()}
    example = {name: _EXAMPLES[kind] for name, kind in wanted.kinds.items()}
    labelled, shown = inside | {wanted.label: _KINDS["truth"]}, example | {wanted.label: 0}
    if wanted.user is not None:
        labelled[wanted.user] = {"type": ["string", "integer"], "minLength": 1}
        shown[wanted.user] = "somebody"
    return {
        "Row": _row("The columns that the class reads.", inside, example),
        "LabelledRow": _row("The columns, the label, and the user if protected.", labelled, shown),
    }


def _row(says: str, inside: dict[str, Any], example: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "description": f"{says} Other fields are ignored.",
        "properties": inside,
        "required": list(inside),
        "example": example,
    }
