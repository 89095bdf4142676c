"""Run `littlestone audit`: enumerate the plan, and run a learner on neighbouring streams."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn

from littlestone._audit.audit import (
    ENOUGH_POWER,
    AnyPlan,
    Audit,
    AuditTarget,
    Measured,
    Neighbours,
    Row,
    audit_runs,
    small,
    verdict,
)
from littlestone._audit.enumeration import Finding
from littlestone._audit.gates import Enumeration, enumerated
from littlestone._audit.neighbours import for_causes, for_experts, for_forests, with_a_null_round
from littlestone._classes.base import HypothesisClass
from littlestone._classes.causes import Causes
from littlestone._classes.specs import parse_spec
from littlestone._cli.terminal import draws, plain_console, plain_table, print_json
from littlestone._data.readers import open_rows
from littlestone._hypotheses.rows import row_of
from littlestone._learners.causes_plan import CausesPlan
from littlestone._learners.experts import ExpertsPlan
from littlestone._learners.plan import Plan
from littlestone._learners.registry import LEARNERS, check_name
from littlestone._privacy.parameters import BadParameter
from littlestone._report.report import refuse_file, write_private_json
from littlestone._store.request import LearnRequest, choose_learner

CONFIDENCE = 0.95
MOST_ROWS = 20_000
# Called with what is being done, of how many runs, and how many were made.
ReportProgress = Callable[[str, int | None, int | None], None]
# Below it neighbouring streams would have millions of rounds, and a leak take as many runs.
LEAST_EPSILON = 0.01


def audit(
    spec: str,
    task: LearnRequest,
    *,
    shrunk: bool,
    learner: str | None,
    runs: int,
    seed: int,
    file: str | None,
    label: str | None,
    workers: int | None,
    as_json: bool,
) -> None:
    """Check that the code keeps its guarantee."""
    if task.epsilon < LEAST_EPSILON:
        raise BadParameter(
            f"an audit is for an epsilon of at least {LEAST_EPSILON}, not {task.epsilon}: a leak as "
            "small as that would take millions of runs to show. The mechanisms are the same at any "
            "epsilon: audit at 1"
        )
    if file is None and task.private_json is not None:
        raise BadParameter("without a --file nothing is private: take --json, not --private-json")
    refuse_file(task.private_json)
    cls = parse_spec(spec, values=task.values)
    learner = learner or ("causes" if isinstance(cls, Causes) else "dpsoa")
    check_name(learner, LEARNERS)
    # One without privacy has no plan, and is held to what DPSOA promises.
    held_to = learner if LEARNERS[learner].private else "dpsoa"
    task = replace(task, spec=spec, learner=held_to)
    if task.horizon is None:
        raise BadParameter("say --horizon, the number of rounds to plan for")
    plan = choose_learner(task, task.horizon).plan
    if not isinstance(plan, AnyPlan):
        raise BadParameter(f"{learner} cannot be audited: no law is known for its mechanisms")
    plans = small(plan) if shrunk else [plan]
    subjects = [AuditTarget(learner, cls, each, seed) for each in plans]
    rows = None if file is None else read_audit_rows(file, cls, label)
    try:
        with progress(Console(stderr=True)) as watch:
            result = run_audit(subjects, runs=runs, rows=rows, workers=workers, watch=watch)
    # Overflow in exp(epsilon) is the range of floats, and no fault of the plan.
    except ArithmeticError as error:
        raise BadParameter(
            f"epsilon {task.epsilon:g} is too large to audit ({error}): probabilities that differ by "
            "a factor of exp(epsilon) do not fit floats. The mechanisms are the same at any epsilon: "
            "audit at 1"
        ) from None
    if as_json:
        print_json(result.to_json())
    else:
        print_computed(plain_console(), result)
    write_private_json(task.private_json, result.runs_to_json())
    # What the runs show on made-up streams is in the JSON already.
    if result.audits and (result.private or not as_json):
        sys.stdout.flush()
        print_runs(plain_console(stderr=result.private), result)
    # For scripts: a refuted claim is a failure.
    if not result.kept:
        raise typer.Exit(1)


@dataclass(frozen=True)
class AuditResult:
    """Hold what an audit found. The audits of a person's own file are private, the rest is not."""

    enumeration: Enumeration
    audits: tuple[Audit, ...]
    private: bool
    learner: str

    @property
    def kept(self) -> bool:
        """Return whether nothing was refuted."""
        return self.enumeration.kept and not any(audit.convicts for audit in self.audits)

    @property
    def verdict(self) -> str | None:
        """Return the outcome of all runs in a sentence."""
        return verdict(self.audits) if self.audits else None

    def to_json(self) -> dict[str, Any]:
        """Return what is public, as JSON data. On a person's own file what the runs show is not."""
        return {
            "plan": self.enumeration.plan.to_json(),
            "enumerated": [_finding_to_json(f) for f in self.enumeration.findings],
            "notes": list(self.enumeration.notes),
            "learner": self.learner,
            **({} if self.private else self.runs_to_json()),
        }

    def runs_to_json(self) -> dict[str, Any]:
        """Return what the runs show, as JSON data. Private on a person's own file."""
        return {
            "runs": [audit_to_json(a) for a in self.audits],
            "verdict": self.verdict,
            "kept": self.kept,
        }


def _finding_to_json(finding: Finding) -> dict[str, Any]:
    return {
        "mechanism": finding.mechanism,
        "family": finding.family,
        "claim": {"epsilon": float(finding.claim.epsilon), "delta": float(finding.claim.delta)},
        "computed": {"epsilon": finding.epsilon, "delta": finding.delta},
        "share": finding.share,
        "kept": finding.kept,
    }


def audit_to_json(found: Audit) -> dict[str, Any]:
    """Return an audit as JSON data; a bound below zero shows nothing."""
    return asdict(found) | {"bound": max(0.0, found.bound), "verdict": found.verdict}


def run_audit(
    subjects: Sequence[AuditTarget],
    *,
    runs: int,
    rows: list[Row] | None,
    workers: int | None,
    watch: ReportProgress,
) -> AuditResult:
    """Enumerate the first plan, then audit a learner under each; `runs` of 0 leave that out."""
    cases = [(each, pair) for each in subjects for pair in _pairs(each, rows)] if runs else []
    plan = subjects[0].plan
    enumeration = enumerated(plan, lambda finding: watch(finding.mechanism, None, None))
    audits: list[Audit] = []
    for subject, pair in cases:
        # The control takes as long as the audit: one pair that shows its power is enough.
        shown = any(done.power >= ENOUGH_POWER for done in audits)
        control = None if shown else subject.control
        audits.append(
            audit_runs(
                subject,
                pair,
                control=control,
                claimed=float(subject.claim.epsilon),
                delta=float(subject.claim.delta),
                runs=runs,
                # A union bound over the cases: all bounds hold together.
                confidence=1 - (1 - CONFIDENCE) / len(cases),
                workers=workers,
                watch=partial(watch, pair.what, (2 if control is None else 4) * runs),
            )
        )
    return AuditResult(enumeration, tuple(audits), rows is not None, subjects[0].name)


def _pairs(subject: AuditTarget, rows: list[Row] | None) -> list[Neighbours]:
    """Neighbours made for a subject, or made from a person's own rows."""
    cls, plan, seed = subject.cls, subject.plan, subject.seed
    if isinstance(plan, CausesPlan) and not plan.watches:
        raise BadParameter(
            "whole learners of users' causes, and of finished tables, are not run: no neighbours are "
            "known on which a leak would show. Take --runs 0, which computes the laws of their draws"
        )
    if rows is not None:
        pairs = [with_a_null_round(subject().releases[0].rule, rows, subject.every)]
    elif isinstance(plan, Plan):
        pairs = for_forests(cls, plan, seed)
    elif isinstance(plan, ExpertsPlan):
        pairs = for_experts(cls, plan, seed)
    else:
        pairs = for_causes(cls, plan)
    return [replace(pair, every=subject.every) for pair in pairs]


def read_audit_rows(source: str, cls: HypothesisClass, label: str | None) -> list[Row]:
    """Read a file as rows to audit on; one that cannot be read is a null round."""
    if label is None:
        raise BadParameter("say which column of the file is the --label")
    rows: list[Row] = []
    with open_rows(source, cls, label=label) as blocks:
        for block in blocks:
            for row, answer in enumerate(block.labels.tolist()):
                x: Any = row_of(block.columns, row)
                rows.append((x, bool(answer)) if answer >= 0 else (None, None))
            if len(rows) > MOST_ROWS:
                raise BadParameter(
                    f"{source} has more than {MOST_ROWS:,} rows: audit on a part of it"
                )
    return rows


@contextmanager
def progress(console: Console) -> Iterator[ReportProgress]:
    """Yield a callback that moves a progress bar; without a terminal there is none."""
    columns = SpinnerColumn(), BarColumn(24), MofNCompleteColumn(), TextColumn("{task.description}")
    with Progress(*columns, console=console, transient=True, disable=not draws(console)) as bar:
        task = bar.add_task("", total=None)

        def watch(what: str, total: int | None, done: int | None) -> None:
            bar.update(task, completed=done, total=total, description=what)

        yield watch


def print_computed(console: Console, found: AuditResult) -> None:
    """Print the findings of the enumeration as a table, each with a verdict. Public."""
    console.print("COMPUTED: the output law of the plan's own code, on families of neighbours")
    exact = plain_table("mechanism", "family", "claim", "largest", "share", "verdict")
    for f in found.enumeration.findings:
        verdict = "kept" if f.kept else "VIOLATION"
        exact.add_row(f.mechanism, f.family, *_amounts(f), f"{f.share:.4f}", verdict)
    console.print(exact)
    for note in found.enumeration.notes:
        console.print(f"  note: {note}")


def print_runs(console: Console, found: AuditResult) -> None:
    """Print what the runs showed."""
    whose = "PRIVATE: for the data owner only. " if found.private else ""
    console.print(f"\n{whose}RUN: {found.learner} on neighbouring streams")
    for a in found.audits:
        console.print(f"\n  {a.what}")
        _print_measured(console, "", a.found)
        console.print(f"  {'epsilon':<20}at least {max(a.bound, 0):.3g}, {a.confidence:.1%} sure")
        console.print(f"  {'claimed':<20}({a.claimed:.4g}, {a.delta:.3g})")
        if a.control is not None:
            _print_measured(console, "twice the epsilon: ", a.control)
            console.print(f"  {'would be convicted':<20}with probability {a.power:.2g}")
    console.print(f"\n  {'VERDICT':<20}{found.verdict}")
    if not LEARNERS[found.learner].private:
        name = LEARNERS[found.learner].learner_name
        console.print(f"\n  note: {name} is not private; it is here as a leak that must be found")


def _print_measured(console: Console, whose: str, seen: Measured) -> None:
    console.print(f"  {'the event':<20}{whose}{seen.event}")
    console.print(
        f"  {'how often':<20}{seen.likely:,} in one world, {seen.unlikely:,} in the other, of "
        f"{seen.runs:,} runs each; as many more chose the event"
    )


def _amounts(finding: Finding) -> tuple[str, str]:
    """Claim and computed: epsilon; and where there is a delta, the delta at that epsilon."""
    epsilon, delta = float(finding.claim.epsilon), float(finding.claim.delta)
    if not delta:
        return f"{epsilon:.4g}", f"{finding.epsilon:.4g}"
    return f"{epsilon:.4g}, {delta:.3g}", f"{finding.epsilon:.4g}, {finding.delta:.3g}"
