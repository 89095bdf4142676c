"""What OpenAPI says beyond the routes: bodies, errors, the shape of a row. Examples are made up."""

from typing import Any

from littlestone.edge.blocks import Wanted
from littlestone.edge.service.answers import Problem

TITLE = "littlestone"
ABOUT = """A stored learner behind HTTP: before every round it has a published rule, and the whole
sequence of published rules is differentially private.

**Public**, without a token: the rules, the rounds from which they stood, the number of rounds, the
guarantee. **Feeder**: writes rounds. **Operator**: sees mistakes and votes, which are exact and
belong to the data's holder. No role includes another. Tokens are sent as `Authorization: Bearer`.

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
        found[status] = {"model": Problem, "description": _SAYS[status]}
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


def rows_described(wanted: Wanted) -> dict[str, Any]:
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
