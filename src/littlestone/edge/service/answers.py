"""Answers: what each route says, as OpenAPI describes it. The examples are made up."""

from typing import Annotated, Any

from pydantic import BaseModel, Field

RULE = {"kind": "one_of", "column": "merchant", "values": ["M7"]}
A_RELEASE = {
    "number": 2,
    "round": 2249,
    "sentence": "merchant = 'M7'",
    "rule": RULE,
    "since": "2026-01-31T12:00:00+00:00",
}


class Answer(BaseModel):
    """Something that the service says."""


class BadRowSaid(Answer):
    """What is wrong with a row; the sentence names the field."""

    row: Annotated[int, Field(description="Counted from 1.")]
    error: str


class Problem(Answer):
    """Why there is no answer, in a sentence."""

    error: str
    rows: Annotated[list[BadRowSaid], Field(description="The first rows at fault, if any.")] = []


class ReleaseSaid(Answer):
    """A published rule."""

    number: Annotated[int, Field(description="Counted from 1.")]
    round: Annotated[int, Field(description="The round from which it stands, counted from 1.")]
    sentence: Annotated[str, Field(description="The rule in words.")]
    rule: Annotated[dict[str, Any], Field(description="The rule as data.")]
    since: Annotated[
        str | None, Field(description="When it was published, if this process saw it.")
    ]


class HypothesisSaid(ReleaseSaid):
    """The rule that stands now."""

    rounds: Annotated[int, Field(description="Rounds so far.")]
    stood: Annotated[int, Field(description="Rounds that this rule has stood.")]
    final: Annotated[str | None, Field(description="Why it will not change any more, if so.")]


class ReleasesSaid(Answer):
    """Published rules, in order."""

    releases: list[ReleaseSaid]
    total: Annotated[int, Field(description="How many there are in all.")]


class PredictionsSaid(Answer):
    """What the published rule says of rows."""

    sentence: Annotated[str, Field(description="The rule.")]
    predictions: list[bool]


class GuaranteeSaid(Answer):
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


class HealthSaid(Answer):
    """Whether rounds are taken."""

    status: Annotated[str, Field(description="ok, or why not.")]
    rounds: int


class ReceiptSaid(Answer):
    """What became of a batch. It is on disk."""

    first: Annotated[int, Field(description="The number of its first round.")]
    rounds: int
    null_rounds: Annotated[int, Field(description="Rounds of it that taught nothing.")]
    again: Annotated[bool, Field(description="The key was known: this is the first receipt.")]


class VotesSaid(Answer):
    """How many trees vote for a rule. Private."""

    sentence: str
    votes: int


class SampleSaid(Answer):
    """How it stood after a round. Private."""

    round: int
    mistakes: int
    votes: list[VotesSaid]


class SpentSaid(Answer):
    """A mechanism of the ledger."""

    mechanism: str
    times: str
    each: str
    adds: str


class TraceSaid(Answer):
    """How it goes. Private: exact, without noise, for the data's holder only."""

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
    votes: list[VotesSaid]
    samples: list[SampleSaid]
    ledger: list[SpentSaid]
