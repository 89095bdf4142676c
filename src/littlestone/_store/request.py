"""Hold what a person asked of a stream, and choose the learner for it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from littlestone._classes.base import HypothesisClass
from littlestone._classes.specs import parse_spec
from littlestone._data.kafka import is_topic
from littlestone._learners.base import PrivateLearner
from littlestone._learners.causes_plan import AUTO as AUTO_RATE
from littlestone._learners.evidence import Window
from littlestone._learners.plan_table import CHANGE_COST
from littlestone._learners.registry import AUTO, LearnerChoice, Terms, choose
from littlestone._privacy.accounting import Unit
from littlestone._privacy.parameters import BadParameter


@dataclass(frozen=True, kw_only=True)
class StreamTerms:
    """Hold what a learner of a stream is begun with, as a person writes it.

    A store keeps it: said again, it must be the same.
    """

    spec: str
    label: str
    epsilon: float
    delta: float
    horizon: int | None = None
    user: str | None = None
    cap: int | None = None
    change_cost: float = CHANGE_COST
    min_rate: float | str = AUTO_RATE
    positive: Sequence[str] = ()
    negative: Sequence[str] = ()
    learner: str = AUTO

    @property
    def cls(self) -> HypothesisClass:
        """Return the class that the specification and the normal labels describe."""
        if self.positive and self.negative:
            raise BadParameter(
                "--positive conflicts with --negative: name the positive values, and all others "
                "are negative; or the normal ones, and each other value is an outcome of its own"
            )
        return parse_spec(self.spec, self.negative)

    @property
    def unit(self) -> Unit:
        """Return what is protected whole."""
        return "event" if self.user is None else "user"

    @property
    def label_data(self) -> dict[str, Any]:
        """Return what the rules are about, as JSON data: label, its positive or normal values."""
        named = {"positive": list(self.positive), "negative": list(self.negative)}
        return {"label": self.label} | {name: values for name, values in named.items() if values}

    def terms(self, horizon: int, cls: HypothesisClass | None = None) -> Terms:
        """Return the terms of a plan, once the number of rounds is known."""
        if self.cap is not None and self.user is None:
            raise BadParameter("--cap requires --user: it limits the rounds of a user")
        return Terms(
            cls=self.cls if cls is None else cls,
            epsilon=self.epsilon,
            delta=self.delta,
            horizon=horizon,
            unit=self.unit,
            cap=self.cap,
            change_cost=self.change_cost,
            min_rate=self.min_rate,
            learner=self.learner,
        )

    def to_json(self) -> dict[str, Any]:
        """Return what a learner is begun with, as JSON data."""
        held = {field.name: getattr(self, field.name) for field in fields(StreamTerms)}
        return held | {"positive": list(self.positive), "negative": list(self.negative)}


@dataclass(frozen=True, kw_only=True)
class LearnRequest(StreamTerms):
    """Hold what a person asked for: what to learn, with which budget, from where, to where."""

    source: str = ""
    seed: int | None = None
    strict: bool = False
    format: str | None = None
    out: Path | None = None
    report: Path | None = None
    private_json: Path | None = None
    force: bool = False
    engine: str | None = None
    workers: int | None = None
    given: frozenset[str] = frozenset()
    again: bool = False
    new_rows: bool = False
    complete: bool = False
    budget: Path | None = None
    dataset: str | None = None
    follow: bool = False
    until_end: bool = False
    kafka: Mapping[str, str] = field(default_factory=dict, repr=False)

    def refuse_without_store(self, path: Path | None) -> None:
        """Refuse options that are about what was learned before, where nothing is kept of it."""
        options = ("again", "new_rows", "complete")
        said = [f"--{name.replace('_', '-')}" for name in options if getattr(self, name)]
        if said and path is None:
            raise BadParameter(f"{said[0]} requires --db: without it every run begins anew")
        if self.again and self.new_rows:
            raise BadParameter("--again conflicts with --new-rows: rows are known, or they are not")

    def refuse_other_kind(self) -> None:
        """Refuse options that are for topics where the source is a file, and the other way."""
        for_files = ("follow", "again", "complete")
        wrong = for_files if is_topic(self.source) else ("until_end", "kafka")
        kind = "a file" if is_topic(self.source) else "a topic (kafka://BROKERS/TOPIC)"
        names = {"kafka": "--kafka-option and --kafka-config require"}
        for name in wrong:
            if getattr(self, name):
                said = names.get(name, f"--{name.replace('_', '-')} requires")
                raise BadParameter(f"{said} {kind} as source")
        if is_topic(self.source) and self.format not in (None, "jsonl", "ndjson"):
            raise BadParameter(f"--format {self.format}: the messages of a topic are JSON objects")
        if self.follow and self.complete:
            raise BadParameter("--follow conflicts with --complete: a file grows, or it does not")

    @property
    def is_endless(self) -> bool:
        """Return whether rows may come until the run is stopped."""
        return self.follow or (is_topic(self.source) and not self.until_end)

    def begun_as(self, terms: StreamTerms) -> "LearnRequest":
        """Return the request with the terms of a learner that was begun before."""
        return replace(self, **terms.to_json())


def choose_learner(
    task: StreamTerms, horizon: int, cls: HypothesisClass | None = None
) -> LearnerChoice:
    """Choose the learner for a request, and plan for it."""
    return choose(task.terms(horizon, cls))


@runtime_checkable
class WindowedLearner(Protocol):
    """Describe a learner that releases counts of windows of rounds."""

    @property
    def windows(self) -> tuple[Window, ...]:
        """Return the counts that were released. Public."""

    def end_window(self) -> None:
        """Release the counts of the present window now."""


def windows_of(learner: PrivateLearner) -> tuple[Window, ...]:
    """Return the windows whose counts a learner has released; of most learners there are none."""
    # Not `isinstance` with the protocol, which takes longer than the rest of a small batch's state.
    windows: tuple[Window, ...] = getattr(learner, "windows", ())
    return windows


def end_window(learner: PrivateLearner) -> None:
    """End the present window of a learner that has windows."""
    if isinstance(learner, WindowedLearner):
        learner.end_window()
