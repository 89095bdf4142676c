"""Hold what a person asked of a stream, and choose the learner for it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from littlestone._classes.base import HypothesisClass
from littlestone._classes.specs import class_from_json, class_to_json, parse_spec, same_class
from littlestone._data.kafka import is_topic
from littlestone._data.schema import LABELS_CONFLICT, Schema, file_schema
from littlestone._learners.base import PrivateLearner
from littlestone._learners.causes_plan import AUTO as AUTO_RATE
from littlestone._learners.plan_table import CHANGE_COST
from littlestone._learners.rate_to_beat import FOLLOW, Baseline
from littlestone._learners.registry import (
    AUTO,
    LearnerChoice,
    Terms,
    choose,
    learner_choice_from_json,
)
from littlestone._privacy.accounting import Unit
from littlestone._privacy.parameters import BadParameter
from littlestone._store.files import BadStore

# What says which labels are positive: at most one of them is given.
LABEL_LISTS = ("positive", "positive_if", "negative")


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
    baseline: Baseline = FOLLOW
    table: bool = False
    positive: Sequence[str] = ()
    positive_if: Sequence[str] = ()
    negative: Sequence[str] = ()
    values: str | None = None
    learner: str = AUTO
    time: str | None = None
    seed: int | None = None

    @property
    def cls(self) -> HypothesisClass:
        """Return the class that the specification, the normal labels and the values describe."""
        if len(self._named_labels) > 1:
            raise BadParameter(LABELS_CONFLICT)
        return parse_spec(self.spec, self.negative, self.values)

    def schema(self, cls: HypothesisClass) -> Schema:
        """Return which columns are read, and how."""
        return file_schema(cls, self.label, self.user, self.positive, self.positive_if, self.time)

    @property
    def unit(self) -> Unit:
        """Return what is protected whole."""
        return "event" if self.user is None else "user"

    @property
    def label_data(self) -> dict[str, Any]:
        """Return what the rules are about, as JSON data: label, its positive or normal values."""
        return {"label": self.label} | self._named_labels

    @property
    def _named_labels(self) -> dict[str, list[str]]:
        """Return which labels were named, as JSON data."""
        values = {name: list(getattr(self, name)) for name in LABEL_LISTS}
        return {name: texts for name, texts in values.items() if texts}

    def terms(self, horizon: int, cls: HypothesisClass | None = None) -> Terms:
        """Return the terms of a plan, once the number of rounds is known."""
        if self.cap is not None and self.user is None:
            raise BadParameter("--cap requires --user: it limits the rounds of a user")
        if self.user is not None and self.cap is None and not self.table:
            raise BadParameter(
                f"--user {self.user} requires --cap N: of causes, how many epochs read a user, of "
                "other classes how many rows of a user count. All rows of a user are protected "
                "together; --cap 1 is a usual choice"
            )
        given: dict[str, Any] = {"cls": self.cls if cls is None else cls, "horizon": horizon}
        # The other fields have the same names here.
        names = {field.name for field in fields(Terms)} - {*given}
        return Terms(**given, **{name: getattr(self, name) for name in names})

    def to_json(self) -> dict[str, Any]:
        """Return what a learner is begun with, as JSON data."""
        held = {field.name: getattr(self, field.name) for field in fields(StreamTerms)}
        return held | {name: list(held[name]) for name in LABEL_LISTS}


@dataclass(frozen=True, kw_only=True)
class LearnRequest(StreamTerms):
    """Hold what a person asked for: what to learn, with which budget, from where, to where."""

    source: str = ""
    strict: bool = False
    format: str | None = None
    delimiter: str | None = None
    encoding: str | None = None
    out: Path | None = None
    report: Path | None = None
    private_json: Path | None = None
    force: bool = False
    on_release: str | None = field(default=None, repr=False)
    command: str | None = field(default=None, repr=False)
    alert_key: Path | None = None
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

    @property
    def is_endless(self) -> bool:
        """Return whether rows may come until the run is stopped."""
        return self.follow or (is_topic(self.source) and not self.until_end)

    def begun_as(self, terms: StreamTerms) -> "LearnRequest":
        """Return the request with the terms of a learner that was begun before."""
        return replace(self, **terms.to_json())


@dataclass(frozen=True)
class RunConfig:
    """Hold how a learner was begun. It never changes."""

    terms: StreamTerms
    chosen: LearnerChoice
    cls: HypothesisClass
    # The file of budgets, and the data set in it, that the run draws from, if any.
    account: Mapping[str, str] | None = None

    def make(self, **options: Any) -> PrivateLearner:
        """Return the learner, before its first round."""
        return self.chosen.make(self.cls, self.terms.seed, **options)

    def to_json(self) -> dict[str, Any]:
        """Return the configuration as JSON data."""
        return {
            "terms": self.terms.to_json(),
            "account": self.account,
            "chosen": self.chosen.to_json(),
            "class": class_to_json(self.cls),
        }

    def refuse_other(self, task: LearnRequest, path: Path) -> None:
        """Raise `BadStore` if an option differs from what the learner was begun with."""
        # The class by what it is, not by its text: a file of it may have changed under its name.
        asked, stored = task.to_json(), self.terms.to_json()
        of_class = {name: asked[name] for name in ("spec", "values") if name in task.given}
        if of_class:
            self._refuse_other_class(replace(self.terms, **of_class), path)
        for name in sorted(task.given & {*asked} - {*of_class}):
            given, begun = asked[name], stored[name]
            if given != begun:
                raise _begun_otherwise(path, f"--{name.replace('_', '-')}", given, begun)

    def _refuse_other_class(self, asked: StreamTerms, path: Path) -> None:
        # Normal labels are compared with the other options.
        if same_class(asked.cls, self.cls):
            return
        for option, given, begun in (
            ("--class", asked.spec, self.terms.spec), ("--values", asked.values, self.terms.values)
        ):  # fmt: skip
            if given != begun:
                raise _begun_otherwise(path, option, given, begun)
        named, options = asked.spec, "--class"
        if asked.values is not None:
            named, options = f"{named} with {asked.values}", f"{options} and --values"
        raise BadStore(
            f"{path} was begun with another class under the name {named}: what it names has changed "
            f"since. Leave {options} out to go on with the class that the file keeps, or begin "
            "another file"
        )


def _begun_otherwise(path: Path, option: str, given: object, begun: object) -> BadStore:
    return BadStore(
        f"{path} was begun with {option} {begun}, not {given}: leave it out to go on, or begin "
        "another file"
    )


def run_config_from_json(data: Mapping[str, Any]) -> RunConfig:
    """Return what `RunConfig.to_json` wrote."""
    cls = class_from_json(data["class"])
    chosen = learner_choice_from_json(data["chosen"])
    return RunConfig(StreamTerms(**data["terms"]), chosen, cls, data["account"])


def choose_learner(
    task: StreamTerms, horizon: int, cls: HypothesisClass | None = None
) -> LearnerChoice:
    """Choose the learner for a request, and plan for it."""
    return choose(task.terms(horizon, cls))
