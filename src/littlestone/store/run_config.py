"""A task: what a person asked of a stream, and the learner that will do it.

The learner follows from the class, the budget and the unit alone, never from the stream: choosing
it costs nothing.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias

from littlestone.classes.base import HypothesisClass
from littlestone.classes.specs import parse_spec
from littlestone.data.blocks import Block, RowSpan
from littlestone.learners.adaptive import AdaptiveDPSOA, EveryRoundPlan
from littlestone.learners.dpsoa import DPSOA, Engine, RemoteRows
from littlestone.learners.experts import ExpertsPlan, PrivateExperts
from littlestone.learners.plan import Plan, plan_from_json
from littlestone.learners.plan_table import plan_data_from_json
from littlestone.learners.recommend import recommend
from littlestone.privacy.accounting import Unit
from littlestone.privacy.noise import Noise
from littlestone.privacy.parameters import BadParameter

LearnerName = Literal["auto", "dpsoa", "experts", "adaptive"]
PlanName = Literal["practical", "paper"]
REQUEST_TERMS = (
    "spec", "label", "epsilon", "delta", "horizon", "user", "cap", "tolerance", "learner", "plan"
)  # fmt: skip
AnyLearner: TypeAlias = DPSOA | PrivateExperts | AdaptiveDPSOA
AnyPlan: TypeAlias = Plan | ExpertsPlan | EveryRoundPlan


@dataclass(frozen=True)
class LearnRequest:
    """What a person asked for."""

    source: str
    spec: str
    label: str
    epsilon: float
    delta: float
    horizon: int | None = None
    user: str | None = None
    cap: int | None = None
    tolerance: float = 0.0
    learner: LearnerName = "auto"
    plan: PlanName = "practical"
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
    verify: bool = False

    def refuse_without_store(self, path: Path | None) -> None:
        """Refuse options that are about what was learned before, where nothing is kept of it."""
        options = ("again", "new_rows", "complete", "verify")
        said = [f"--{name.replace('_', '-')}" for name in options if getattr(self, name)]
        if said and path is None:
            raise BadParameter(f"{said[0]} requires --db: without it every run begins anew")
        if self.again and self.new_rows:
            raise BadParameter("--again conflicts with --new-rows: rows are known, or they are not")

    @property
    def terms(self) -> dict[str, Any]:
        """What a learner is begun with, which never changes afterwards."""
        return {name: getattr(self, name) for name in REQUEST_TERMS}

    @property
    def unit(self) -> Unit:
        """What is protected whole."""
        return "event" if self.user is None else "user"


class LearnerChoice(NamedTuple):
    """A plan, and why the learner that it is for."""

    plan: AnyPlan
    why: str

    @property
    def learner_name(self) -> str:
        """The learner that the plan is for."""
        match self.plan:
            case Plan():
                return DPSOA.__name__
            case ExpertsPlan():
                return PrivateExperts.__name__
        return AdaptiveDPSOA.__name__

    def make(
        self,
        cls: HypothesisClass,
        seed: int | None,
        *,
        watched: bool = False,
        noise: Noise | None = None,
        engine: Engine | None = None,
    ) -> AnyLearner:
        """The learner, before its first round."""
        self.refuse_other_than_trees(engine)
        match self.plan:
            case Plan() as plan:
                return DPSOA(cls, plan=plan, seed=seed, watched=watched, noise=noise, engine=engine)
            case ExpertsPlan() as plan:
                return PrivateExperts(cls, plan=plan, first="own", seed=seed, noise=noise)
            case EveryRoundPlan(epsilon, delta, horizon, trees):
                return AdaptiveDPSOA(
                    cls, epsilon, delta, horizon, trees=trees, seed=seed, noise=noise
                )

    def refuse_other_than_trees(self, engine: Engine | None) -> None:
        """An engine is of use to a learner that has trees."""
        if engine is not None and not isinstance(self.plan, Plan):
            raise BadParameter(
                f"an engine grows the trees of DPSOA, and {self.learner_name} has none: leave out "
                "--engine, or say --learner dpsoa"
            )

    def to_json(self) -> dict[str, Any]:
        """The choice as JSON data."""
        return {"learner": self.learner_name, "why": self.why, "plan": self.plan.to_json()}


def learner_choice_from_json(data: Mapping[str, Any]) -> LearnerChoice:
    """Read back what `LearnerChoice.to_json` wrote."""
    kinds: dict[str, Callable[[Mapping[str, Any]], AnyPlan]] = {
        DPSOA.__name__: plan_from_json,
        PrivateExperts.__name__: partial(plan_data_from_json, ExpertsPlan),
        AdaptiveDPSOA.__name__: partial(plan_data_from_json, EveryRoundPlan),
    }
    if data["learner"] not in kinds:
        raise BadParameter(f"no learner is called {data['learner']!r}: there are {list(kinds)}")
    return LearnerChoice(kinds[data["learner"]](data["plan"]), data["why"])


def choose_learner(
    task: LearnRequest, horizon: int, cls: HypothesisClass | None = None
) -> LearnerChoice:
    """The learner and the plan for a task, whose class may have been read already."""
    _refuse_what_does_not_fit(task)
    cls = parse_spec(task.spec) if cls is None else cls
    budget = task.epsilon, task.delta, horizon
    if task.plan == "paper":
        return LearnerChoice(Plan.paper(cls, *budget), "The paper's plan is DPSOA's.")
    name, why = task.learner, "It was asked for."
    if name == "auto":
        found = recommend(cls, *budget, unit=task.unit, tolerance=task.tolerance, cap=task.cap)
        name = "experts" if found.learner_name == PrivateExperts.__name__ else "dpsoa"
        why = found.why
    if name == "experts":
        plan = ExpertsPlan.practical(cls, task.epsilon, horizon, tolerance=task.tolerance)
        return LearnerChoice(plan, why)
    if name == "adaptive":
        return LearnerChoice(EveryRoundPlan.of(*budget), why)
    forest = Plan.practical(cls, *budget, unit=task.unit, cap=task.cap, tolerance=task.tolerance)
    return LearnerChoice(forest, why)


class RemoteBlock(RowSpan, RemoteRows, Protocol):
    """Consecutive rows that are elsewhere."""


def learn_block(learner: AnyLearner, block: Block | RemoteBlock) -> None:
    """Learn some rows; those that the class cannot read are null rounds, as those marked are."""
    if not isinstance(block, Block):
        assert isinstance(learner, DPSOA), "only its trees grow on a cluster"
        learner.learn_remote(block)
    elif isinstance(learner, DPSOA):
        learner.learn_many(block.columns, block.labels, block.users, bad_rows="null")
    else:
        learner.learn_many(block.columns, block.labels, bad_rows="null")


def _refuse_what_does_not_fit(task: LearnRequest) -> None:
    if task.cap is not None and task.user is None:
        raise BadParameter("--cap limits the rounds of a user: say which column is the --user")
    if task.plan == "paper" and (task.user is not None or task.tolerance):
        raise BadParameter("the paper's plan knows no users and no tolerance: leave out --plan")
    if task.plan == "paper" and task.learner not in ("auto", "dpsoa"):
        raise BadParameter(f"the paper's plan is for dpsoa: leave out --learner {task.learner}")
    if task.learner in ("experts", "adaptive") and task.user is not None:
        raise BadParameter(f"{task.learner} protects events, not users: leave out --learner")
    if task.learner == "adaptive" and task.tolerance:
        raise BadParameter("adaptive knows no tolerance: leave out --tolerance or --learner")
