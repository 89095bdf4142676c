"""A run of the learner over a file: rows in, releases out (public), a report (private).

Promises: what is wrong with the arguments or the shape of the file is said before anything is
learned or written. A release is in its file before the next row is read; a run that is interrupted
leaves a file of releases that is whole, line by line.
"""

import json
import os
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

import littlestone
from littlestone.edge.blocks import BadRow, BadStream, Block
from littlestone.edge.readers import Rows, open_rows
from littlestone.edge.report import Report, render
from littlestone.edge.specs import parse_spec
from littlestone.edge.tasks import AnyLearner, Chosen, Task, chosen_for
from littlestone.learning.dpsoa import DPSOA
from littlestone.learning.experts import PrivateExperts
from littlestone.learning.releases import Release
from littlestone.theory.classes import HypothesisClass

MOST_BAD_ROWS = 20
FIRST_BLOCK, LARGEST_BLOCK = 4096, 65536


@dataclass
class Outcome:
    """How a run went. `learner.hypothesis` and `learner.releases` are public, the rest private."""

    task: Task
    chosen: Chosen
    learner: AnyLearner
    length: int | None
    bad_rows: list[BadRow] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def public(self) -> dict[str, Any]:
        """What may be published, as JSON data."""
        learner = self.learner
        return {
            "learner": self.chosen.learner_name,
            "why": self.chosen.why,
            "guarantee": str(learner.guarantee),
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


def release_to_json(release: Release) -> dict[str, Any]:
    """A release as JSON data: the round from which it stands, the rule as a sentence and as data.

    >>> release_to_json(Release(1, littlestone.NEVER))
    {'round': 1, 'sentence': 'never', 'rule': {'kind': 'constant', 'answer': False}}
    """
    rule = release.rule
    return {"round": release.round, "sentence": str(rule), "rule": rule.to_json()}


def run(task: Task, watch: Callable[[Outcome], None]) -> Outcome:
    """Do what a task asks; `watch` is told how it goes after every block."""
    cls = parse_spec(task.spec)
    for path in (task.out, task.report):
        if path is not None and path.exists() and not task.force:
            raise FileExistsError(
                17, "it exists already: choose another name, or --force to overwrite it", str(path)
            )
    with open_rows(
        task.source,
        cls,
        label=task.label,
        user=task.user,
        strict=task.strict,
        format=task.format,
        block_rows=LARGEST_BLOCK,
    ) as rows:
        outcome = _begun(task, cls, rows.length, _horizon(task, rows.name, rows.length))
        with _releases_file(task.out) as file:
            _learn_all(outcome, rows, file, watch)
    learner = outcome.learner
    if learner.final is not None and learner.rounds > outcome.chosen.plan.horizon:
        outcome.notes.append(learner.final)
    if task.report is not None:
        write_private(task.report, render(report_of(outcome)))
    return outcome


def _begun(task: Task, cls: HypothesisClass, length: int | None, horizon: int) -> Outcome:
    """The learner before its first row, and what there is to say of it."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        chosen = chosen_for(task, horizon)
        learner = chosen.make(cls, task.seed, watched=task.report is not None)
    notes = [str(warning.message) for warning in caught]
    notes += [f"{value}: {why}" for what, value, why in chosen.plan.lines() if what == "vacuous"]
    return Outcome(task, chosen, learner, length, notes=notes)


def _learn_all(
    outcome: Outcome, rows: Rows, file: TextIO | None, watch: Callable[[Outcome], None]
) -> None:
    """Every row, and every release into its file before the next row is read."""
    learner = outcome.learner
    written = _write_new(file, learner, 0)
    for block in rows:
        for start, stop in _parts(len(block), learner.rounds):
            _learn(learner, block, start, stop)
            written = _write_new(file, learner, written)
            watch(outcome)
        room = MOST_BAD_ROWS - len(outcome.bad_rows)
        outcome.bad_rows += block.bad[:room]


def _learn(learner: AnyLearner, block: Block, start: int, stop: int) -> None:
    columns = {name: column[start:stop] for name, column in block.columns.items()}
    labels = block.labels[start:stop]
    if isinstance(learner, DPSOA):
        users = None if block.users is None else block.users[start:stop]
        learner.learn_many(columns, labels, users, bad_rows="null")
    else:
        learner.learn_many(columns, labels, bad_rows="null")


def _horizon(task: Task, name: str, length: int | None) -> int:
    if task.horizon is not None:
        return task.horizon
    if length is None:
        raise BadStream(
            f"{name}: how many rows will come is not known, and the plan depends on it: say "
            "--horizon N. A guess made from the rows themselves would not be private"
        )
    return max(1, length)


def _parts(count: int, rounds: int) -> Iterator[tuple[int, int]]:
    """A block in parts: short ones while the stream is young, so that there is something to see."""
    start = 0
    while start < count:
        size = min(max(FIRST_BLOCK, rounds + start), LARGEST_BLOCK)
        yield start, min(count, start + size)
        start += size


@contextmanager
def _releases_file(path: Path | None) -> Iterator[TextIO | None]:
    if path is None:
        yield None
        return
    with open(path, "w", encoding="utf-8") as file:
        yield file


def _write_new(file: TextIO | None, learner: AnyLearner, written: int) -> int:
    """Append the releases that are not in the file yet; how many are in it then."""
    releases = learner.releases
    if file is not None and len(releases) > written:
        for release in releases[written:]:
            line = release_to_json(release) | {"guarantee": str(learner.guarantee)}
            file.write(json.dumps(line, ensure_ascii=False) + "\n")
        file.flush()
    return len(releases)


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner may read."""
    path.unlink(missing_ok=True)
    with open(
        os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8"
    ) as f:
        f.write(text)


def report_of(outcome: Outcome) -> Report:
    """The private report of a run."""
    learner, task = outcome.learner, outcome.task
    return Report(
        title=task.source,
        spec=task.spec,
        guarantee=str(learner.guarantee),
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
