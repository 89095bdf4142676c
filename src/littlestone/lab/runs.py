"""Run a learner many times on two neighbouring streams, and record what was published.

Only what is public is looked at: when the gate fired, and which rule stood then.
"""

import os
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any, NamedTuple, Protocol, TypeAlias

from littlestone.learning.releases import Release
from littlestone.privacy.exact import BadParameter

Row: TypeAlias = tuple[object, bool | None]
"""An example and its label; without a label it is a null round."""
NULL: Row = (None, None)
PART = 25
"""Runs that a worker makes before it reports."""


class Audited(Protocol):
    """Describe what an audit needs of a learner. `ledger` and `skip_one` are used if present."""

    @property
    def releases(self) -> tuple[Release, ...]: ...

    def learn_one(self, x: Any, y: Any) -> None: ...


Make: TypeAlias = Callable[[], Audited]
"""Makes a learner, with its own secret noise. It is sent to other processes: a function of a
module, or a frozen value with `__call__`."""


@dataclass(frozen=True)
class Neighbours:
    """Hold two streams that differ in one round.

    Parameters
    ----------
    what
        The round, in words.
    one
        The one stream.
    other
        The other stream.
    every
        The public schedule of checks: nothing can be published in between.
    """

    what: str
    one: tuple[Row, ...]
    other: tuple[Row, ...]
    every: int = 1

    def __post_init__(self) -> None:
        changed = sum(a != b for a, b in zip(self.one, self.other, strict=False))
        if len(self.one) != len(self.other) or changed != 1:
            raise BadParameter("neighbours are streams of one length that differ in one round")

    @property
    def example(self) -> object:
        """Return the example that was replaced."""
        pairs = zip(self.one, self.other, strict=True)
        here, there = next((a, b) for a, b in pairs if a != b)
        return there[0] if here[1] is None else here[0]


class Firing(NamedTuple):
    """Record a firing.

    Parameters
    ----------
    round
        After which round it was.
    rule
        The rule it published; None: no new one.
    answer
        What the rule that stands then says of the replaced example.
    """

    round: int
    rule: str | None
    answer: bool


Seen: TypeAlias = tuple[Firing, ...]
"""All that one run made public."""


def in_both_worlds(
    make: Make, pair: Neighbours, runs: int, workers: int | None, watch: Callable[[int], None]
) -> tuple[list[Seen], list[Seen]]:
    """Return what was published in every run of the two worlds.

    Parameters
    ----------
    make
        Makes the learner.
    pair
        The two streams.
    runs
        The runs of each world.
    workers
        How many processes run.
    watch
        Called with the number of runs made so far.

    Returns
    -------
    tuple of list
        What each run published, by world.
    """
    found: tuple[list[Seen], list[Seen]] = ([], [])
    with ProcessPoolExecutor(workers or os.cpu_count(), get_context("spawn")) as pool:
        jobs = [
            (world, pool.submit(_several, make, rows, pair, min(PART, runs - at)))
            for at in range(0, runs, PART)
            for world, rows in enumerate((pair.one, pair.other))
        ]
        for world, job in jobs:
            found[world].extend(job.result())
            watch(len(found[0]) + len(found[1]))
    return found


def _several(make: Make, rows: Sequence[Row], pair: Neighbours, count: int) -> list[Seen]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [published(make(), rows, pair) for _ in range(count)]


def published(learner: Audited, rows: Sequence[Row], pair: Neighbours) -> Seen:
    """Return what a learner publishes on some rows, one check after the other.

    Parameters
    ----------
    learner
        The learner.
    rows
        The rows.
    pair
        The pair that they are of.

    Returns
    -------
    tuple of Firing
        All that was made public.
    """
    firings: list[Firing] = []
    uses, releases = _uses(learner), len(learner.releases)
    for at in range(0, len(rows), pair.every):
        part = rows[at : at + pair.every]
        _show(learner, part, at)
        if _uses(learner) > uses:
            rule = learner.releases[-1].rule
            new = str(rule) if len(learner.releases) > releases else None
            firings.append(Firing(at + len(part), new, rule(pair.example)))
            uses, releases = _uses(learner), len(learner.releases)
    return tuple(firings)


def _show(learner: Any, rows: Sequence[Row], start: int) -> None:
    """Have a learner learn some rounds.

    Per user, each round has a user of its own: its number. A learner without null rounds is not
    given any.
    """
    per_user = getattr(getattr(learner, "plan", None), "unit", "event") == "user"
    if hasattr(learner, "skip_one"):
        xs, ys = map(list, zip(*rows, strict=True))
        users = {"users": list(range(start, start + len(rows)))} if per_user else {}
        learner.learn_many(xs, ys, **users, bad_rows="null")
        return
    for x, y in rows:
        if y is not None:
            learner.learn_one(x, y)


def _uses(learner: Audited) -> int:
    ledger = getattr(learner, "ledger", None)
    return len(learner.releases if ledger is None else ledger)
