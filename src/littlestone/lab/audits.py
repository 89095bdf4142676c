"""The black-box audit: a whole learner, run many times on two neighbouring streams.

Half of the runs choose an event that tells the worlds apart, the other half bound it: so the bound
holds whatever the learner is. It can convict; it can never acquit. When even a doubled epsilon
would hardly be seen, it says so.
"""

import math
import os
import warnings
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any, Protocol, TypeAlias

from littlestone.lab.bounds import epsilon_bound, power
from littlestone.learning.releases import Release
from littlestone.privacy.exact import BadParameter

Row: TypeAlias = tuple[object, bool | None]
"""An example and its label; without a label it is a null round."""
Event: TypeAlias = tuple[str, Hashable]
ENOUGH_POWER = 0.8
PART = 25
"""Runs that a worker makes before it reports."""


class Audited(Protocol):
    """What an audit asks of a learner. `ledger` and `skip_one` are used where they are."""

    @property
    def releases(self) -> tuple[Release, ...]: ...

    def learn_one(self, x: Any, y: Any) -> None: ...


Make: TypeAlias = Callable[[], Audited]
"""Makes a learner, with its own secret noise. It is sent to other processes: a function of a
module, or a frozen value with `__call__`."""


@dataclass(frozen=True)
class Neighbours:
    """Two streams that differ in one round, and what that round is."""

    what: str
    one: tuple[Row, ...]
    other: tuple[Row, ...]

    def __post_init__(self) -> None:
        changed = sum(a != b for a, b in zip(self.one, self.other, strict=False))
        if len(self.one) != len(self.other) or changed != 1:
            raise BadParameter("neighbours are streams of one length that differ in one round")


@dataclass(frozen=True)
class Audit:
    """What the runs showed. `runs` were bounded in each world, as many more chose the event."""

    what: str
    event: str
    runs: int
    likely: int
    unlikely: int
    bound: float
    claimed: float
    delta: float
    confidence: float
    power: float

    @property
    def convicts(self) -> bool:
        """Whether the claim is refuted."""
        return self.bound > self.claimed

    @property
    def verdict(self) -> str:
        """The outcome in a sentence."""
        least = f"at least {max(0.0, self.bound):.3g}"
        if self.convicts:
            return f"VIOLATION: {least}, claimed {self.claimed:.3g}"
        if self.power < ENOUGH_POWER:
            return (
                f"not detectable at this size: {least}, claimed {self.claimed:.3g}; a doubled "
                f"epsilon would be seen with probability {self.power:.2g}"
            )
        return f"no violation found: {least}, claimed {self.claimed:.3g}"


def audit(
    make: Make,
    pair: Neighbours,
    *,
    claimed: float,
    delta: float,
    runs: int,
    confidence: float = 0.95,
    workers: int | None = None,
    watch: Callable[[int], None] = lambda done: None,
) -> Audit:
    """Run a learner `runs` times in each world, and bound its epsilon from below.

    `watch` is told how many runs have been made, of twice `runs`.
    """
    if runs < 2:
        raise BadParameter(f"an audit needs at least 2 runs in each world, not {runs}")
    one, other = outcomes(make, pair, runs, workers, watch)
    half = runs // 2
    event, turned = chosen(one[:half], other[:half], claimed, delta, confidence)
    likely, unlikely = (sum(event in seen for seen in world[half:]) for world in (one, other))
    held = runs - half
    if turned:
        likely, unlikely = unlikely, likely
    bound = epsilon_bound(likely, unlikely, held, delta, confidence)
    seen = power(likely, unlikely, held, claimed, delta, confidence)
    return Audit(
        pair.what, _said(event), held, likely, unlikely, bound, claimed, delta, confidence, seen
    )


def chosen(
    one: Sequence[frozenset[Event]],
    other: Sequence[frozenset[Event]],
    claimed: float,
    delta: float,
    confidence: float,
) -> tuple[Event, bool]:
    """The event that convicts most, or could; and whether it is the other world's."""
    counts = Counter(e for seen in one for e in seen), Counter(e for seen in other for e in seen)
    runs = len(one)

    def worth(candidate: tuple[Event, bool]) -> tuple[float, float, str]:
        event, turned = candidate
        likely, unlikely = counts[turned][event], counts[not turned][event]
        bound = max(0.0, epsilon_bound(likely, unlikely, runs, delta, confidence))
        spare = power(likely, unlikely, runs, claimed, delta, confidence) if not bound else 1.0
        return bound, spare, repr(event)

    events = sorted({*counts[0], *counts[1]}, key=repr)
    return max(((event, turned) for event in events for turned in (False, True)), key=worth)


def outcomes(
    make: Make, pair: Neighbours, runs: int, workers: int | None, watch: Callable[[int], None]
) -> tuple[list[frozenset[Event]], list[frozenset[Event]]]:
    """What was released in every run of the two worlds, as the events that it is in."""
    parts = [min(PART, runs - at) for at in range(0, runs, PART)]
    found: tuple[list[frozenset[Event]], list[frozenset[Event]]] = ([], [])
    with ProcessPoolExecutor(workers or os.cpu_count(), get_context("spawn")) as pool:
        jobs = [
            (world, pool.submit(_runs, make, rows, count))
            for count in parts
            for world, rows in enumerate((pair.one, pair.other))
        ]
        for world, job in jobs:
            found[world].extend(job.result())
            watch(len(found[0]) + len(found[1]))
    return found


def _runs(make: Make, rows: Sequence[Row], count: int) -> list[frozenset[Event]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [frozenset(_events(make(), rows)) for _ in range(count)]


def _events(learner: Audited, rows: Sequence[Row]) -> Iterator[Event]:
    """Everything public about one run: firings, releases, the last rule; and what each is not."""
    fired: list[int] = []
    uses = _uses(learner)
    for number, (x, y) in enumerate(rows, start=1):
        if y is not None:
            learner.learn_one(x, y)
        elif hasattr(learner, "skip_one"):
            learner.skip_one()
        if _uses(learner) > uses:
            uses = _uses(learner)
            fired.append(number)
    releases = learner.releases[1:]
    first = min(fired, default=math.inf)
    for number in range(1, len(rows) + 1):
        yield ("fired by round" if first <= number else "not fired by round"), number
    yield "firings", len(fired)
    yield "releases", len(releases)
    yield "last rule", str(learner.releases[-1].rule)
    for release in releases:
        yield "released", str(release.rule)


def _uses(learner: Audited) -> int:
    ledger = getattr(learner, "ledger", None)
    return len(learner.releases if ledger is None else ledger)


def _said(event: Event) -> str:
    return f"{event[0]} {event[1]}" if event[0].endswith("round") else f"{event[0]}: {event[1]}"
