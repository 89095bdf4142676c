"""How a run went: what may be published, and what belongs to the data owner."""

import os
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from littlestone.data.blocks import BadRow
from littlestone.display import library_version
from littlestone.learners.base import PrivateLearner
from littlestone.learners.registry import LearnerChoice
from littlestone.privacy.accounting import Guarantee
from littlestone.report.html import Report
from littlestone.store.releases_file import release_to_json
from littlestone.store.request import LearnRequest


@dataclass
class RunResult:
    """How a run went. `learner.hypothesis` and `learner.releases` are public, the rest private."""

    task: LearnRequest
    chosen: LearnerChoice
    learner: PrivateLearner
    length: int | None
    bad_rows: list[BadRow] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    repeats: int = 1
    _told: int = 0
    passing: str = ""
    """How far the rows that were learned before have been passed over, while they are."""

    @property
    def guarantee(self) -> Guarantee:
        """What is promised for all that is published."""
        return self.learner.guarantee.for_repeats(self.repeats)

    def untold_notes(self) -> list[str]:
        """Return the notes that have not been told yet, once.

        A note may follow from the rows (a file that is known under another name), so notes are told
        where the private side is.
        """
        told, self._told = self._told, len(self.notes)
        return self.notes[told:]

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
        """What belongs to the data owner, as JSON data."""
        learner = self.learner
        counts = counts_of(
            learner.rounds, learner.null_rounds, learner.beyond_cap, learner.mistakes
        )
        return counts | {
            "bad_rows": [f"line {bad.line}: {bad.sentence}" for bad in self.bad_rows],
            "ledger": [list(row) for row in ledger_rows(learner)],
            "notes": self.notes,
        }


def counts_of(rounds: int, null_rounds: int, beyond_cap: int, mistakes: int) -> dict[str, int]:
    """Return what became of the rounds, by name. Private, but for how many there were.

    >>> counts_of(rounds=100, null_rounds=60, beyond_cap=58, mistakes=3)["counted_rounds"]
    40
    """
    return {
        "rounds": rounds,
        "counted_rounds": rounds - null_rounds,
        "mistakes": mistakes,
        "null_rounds": null_rounds,
        "beyond_cap": beyond_cap,
        "unreadable": null_rounds - beyond_cap,
    }


def counts_in_words(counts: Mapping[str, int]) -> Iterator[str]:
    """Say what became of the rounds: what counted, what was beyond the cap, what was unreadable.

    >>> for line in counts_in_words(counts_of(100, 60, 58, 3)):
    ...     print(line)
    3 mistakes in the 40 rounds that counted (7.500%)
    58 rounds beyond the cap of their user: not learned, null rounds
    2 rows that could not be read: null rounds
    >>> list(counts_in_words(counts_of(1, 0, 0, 0)))
    ['0 mistakes in 1 round (0.000%)']
    """
    counted, mistakes = counts["counted_rounds"], some(counts["mistakes"], "mistake")
    share = f" ({counts['mistakes'] / counted:.3%})" if counted else ""
    if counts["null_rounds"]:
        yield f"{mistakes} in the {some(counted, 'round')} that counted{share}"
    else:
        yield f"{mistakes} in {some(counted, 'round')}{share}"
    if beyond := counts["beyond_cap"]:
        yield f"{some(beyond, 'round')} beyond the cap of their user: not learned, null rounds"
    if unreadable := counts["unreadable"]:
        yield f"{some(unreadable, 'row')} that could not be read: null rounds"


def some(count: int, what: str) -> str:
    """Write a count with its noun.

    >>> some(1, "round"), some(2000, "round")
    ('1 round', '2,000 rounds')
    """
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def report_of(outcome: RunResult) -> Report:
    """The private report of a run."""
    learner, task = outcome.learner, outcome.task
    return Report(
        title=task.source,
        spec=task.spec,
        guarantee=str(outcome.guarantee),
        rounds=learner.rounds,
        null_rounds=learner.null_rounds,
        beyond_cap=learner.beyond_cap,
        bad_rows=outcome.private()["bad_rows"],
        trees=getattr(learner.plan, "trees", 0),
        releases=learner.releases,
        samples=learner.trace,
        plan=list(learner.plan.lines()),
        ledger=ledger_rows(learner),
        notes=outcome.notes,
        provenance={
            "littlestone": library_version(),
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


def ledger_rows(learner: PrivateLearner) -> list[tuple[str, str, str, str]]:
    """The ledger by mechanism: how often used, at what cost each, how that adds up."""
    cap = getattr(learner.plan, "cap", None)
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


def refuse_file(path: Path | None, force: bool = False) -> None:
    """Raise `FileExistsError` if a file is there that is to be written: nothing is overwritten
    unasked."""
    if path is not None and path.exists() and not force:
        raise FileExistsError(
            17, "it exists already: choose another name, or --force to overwrite it", str(path)
        )


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner may read."""
    path.unlink(missing_ok=True)
    with open(
        os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8"
    ) as f:
        f.write(text)
