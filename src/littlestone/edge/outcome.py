"""How a run went: what may be published, and what belongs to the data's holder."""

import os
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import littlestone
from littlestone.edge.blocks import BadRow
from littlestone.edge.report import Report
from littlestone.edge.tasks import AnyLearner, Chosen, Task
from littlestone.edge.witness import release_to_json
from littlestone.learning.dpsoa import DPSOA
from littlestone.learning.experts import PrivateExperts
from littlestone.privacy.accounting import Guarantee


@dataclass
class Outcome:
    """How a run went. `learner.hypothesis` and `learner.releases` are public, the rest private."""

    task: Task
    chosen: Chosen
    learner: AnyLearner
    length: int | None
    bad_rows: list[BadRow] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    repeats: int = 1
    passing: str = ""
    """How far the rows that were learned before have been passed over, while they are."""

    @property
    def guarantee(self) -> Guarantee:
        """What is promised for all that is published."""
        return self.learner.guarantee.for_repeats(self.repeats)

    def public(self) -> dict[str, Any]:
        """What may be published, as JSON data."""
        learner = self.learner
        return {
            "learner": self.chosen.learner_name,
            "why": self.chosen.why,
            "guarantee": str(self.guarantee),
            "rule": str(learner.hypothesis),
            "releases": [release_to_json(release) for release in learner.releases],
            "rounds": learner.rounds,
            "final": learner.final,
        }

    def private(self) -> dict[str, Any]:
        """What belongs to the data's holder, as JSON data."""
        return {
            "mistakes": self.learner.mistakes,
            "null_rounds": self.learner.null_rounds,
            "bad_rows": [f"line {bad.line}: {bad.sentence}" for bad in self.bad_rows],
        }


def report_of(outcome: Outcome) -> Report:
    """The private report of a run."""
    learner, task = outcome.learner, outcome.task
    return Report(
        title=task.source,
        spec=task.spec,
        guarantee=str(outcome.guarantee),
        rounds=learner.rounds,
        null_rounds=learner.null_rounds,
        bad_rows=outcome.private()["bad_rows"],
        trees=0 if isinstance(learner, PrivateExperts) else learner.plan.trees,
        releases=learner.releases,
        samples=learner.trace,
        plan=list(learner.plan.lines()),
        ledger=ledger_rows(learner),
        notes=outcome.notes,
        provenance={
            "littlestone": littlestone.__version__,
            "class": repr(learner.cls),
            "learner": f"{outcome.chosen.learner_name}: {outcome.chosen.why}",
            "plan": task.plan,
            "seed of the coins (not secret)": str(learner.seed),
        },
    )


def _adding(adds: bool, cap: int | None) -> str:
    if adds:
        return "adds up"
    return "disjoint epochs: counts once" if cap is None else f"counts for at most {cap} epochs"


def ledger_rows(learner: AnyLearner) -> list[tuple[str, str, str, str]]:
    """The ledger by mechanism: how often used, at what cost each, how that adds up."""
    cap = learner.plan.cap if isinstance(learner, DPSOA) else None
    uses = Counter((event.mechanism, event.cost, event.epoch is None) for event in learner.ledger)
    return [
        (
            mechanism,
            f"{count:,}",
            f"epsilon {float(cost.epsilon):.4g}, delta {float(cost.delta):.3g}",
            _adding(adds, cap),
        )
        for (mechanism, cost, adds), count in uses.items()
    ]


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner may read."""
    path.unlink(missing_ok=True)
    with open(
        os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8"
    ) as f:
        f.write(text)
