"""Find the event that distinguishes two worlds best (Neyman and Pearson 1933).

Two budgets are spent by two things: the monitor's by *when* it fires, the selector's by *what* is
then published. Neither alone shows the whole loss, so an outcome is both together. Outcomes are
sorted by how much likelier they are in one world than in the other, as some runs show it, and an
event is a beginning of that order, as long as other runs find best. The runs that bound it have to
be others again.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TypeAlias

from littlestone.lab.bounds import roughly
from littlestone.lab.runs import Seen

Worlds: TypeAlias = tuple[Sequence[Seen], Sequence[Seen]]
View: TypeAlias = Callable[[Seen], str]
"""What is looked at in a run, in words: runs with equal words are one outcome."""
PARTS = (1, 2, 4, 8, 16, 64)
"""Into how many parts, each about as likely, the rounds of a firing are divided."""
SHOWN = 3
CHOOSING = 0.95
"""The confidence at which events are compared. It enters no bound."""


@dataclass(frozen=True)
class Event:
    """Hold a set of outcomes that is likelier in one world.

    Parameters
    ----------
    view
        What is looked at in a run.
    outcomes
        The outcomes, in words.
    turned
        Whether it is likelier in the second world.
    """

    view: View
    outcomes: tuple[str, ...]
    turned: bool

    def counts(self, worlds: Worlds) -> tuple[int, int]:
        """Return in how many runs it happened where it is likely, and where it is not."""
        wanted = frozenset(self.outcomes)
        one, other = (sum(self.view(seen) in wanted for seen in world) for world in worlds)
        return (other, one) if self.turned else (one, other)

    def __str__(self) -> str:
        more = len(self.outcomes) - SHOWN
        said = "; or ".join(self.outcomes[:SHOWN])
        return f"{said}; or {more} more" if more > 0 else said


def best_event(ordering: Worlds, cutting: Worlds, delta: float) -> Event:
    """Return the event with the highest bound.

    Parameters
    ----------
    ordering
        The runs that sort outcomes.
    cutting
        The runs that choose where to cut.
    delta
        The delta claimed.

    Returns
    -------
    Event
        The event.
    """

    def worth(found: tuple[Event, int, int]) -> float:
        return roughly(found[1], found[2], len(cutting[0]), delta, CHOOSING)

    candidates = [
        found
        for view in views([*ordering[0], *ordering[1]])
        for turned in (False, True)
        for found in _beginnings(view, turned, ordering, cutting)
    ]
    return max(candidates, key=worth)[0]


def _beginnings(
    view: View, turned: bool, ordering: Worlds, cutting: Worlds
) -> Iterator[tuple[Event, int, int]]:
    """Yield every beginning of the order of outcomes, with its counts in the runs that cut."""
    likely, unlikely = _counted(view, turned, ordering)
    known = sorted({*likely, *unlikely})
    order = sorted(known, key=lambda o: -(likely[o] + 0.5) / (unlikely[o] + 0.5))
    more, less = _counted(view, turned, cutting)
    totals = zip(
        accumulate(more[o] for o in order), accumulate(less[o] for o in order), strict=True
    )
    for length, (p, q) in enumerate(totals, start=1):
        yield Event(view, tuple(order[:length]), turned), p, q


def _counted(view: View, turned: bool, worlds: Worlds) -> tuple[Counter[str], Counter[str]]:
    one, other = (Counter(map(view, world)) for world in worlds)
    return (other, one) if turned else (one, other)


def views(runs: Sequence[Seen]) -> list[View]:
    """Return what may be looked at, fine and coarse; where rounds are divided depends on `runs`."""
    firsts = sorted(seen[0].round for seen in runs if seen)
    sums = sorted(_yes(seen) for seen in runs)
    return [
        *(_Firing(_divided(firsts, parts), named) for parts in PARTS for named in (False, True)),
        *(_Standing(_divided(sums, parts)) for parts in PARTS[1:]),
        _last,
    ]


@dataclass(frozen=True)
class _Firing:
    """Describe when the first firing was, and what it published: by name, or by its answer."""

    ends: tuple[int, ...]
    named: bool

    def __call__(self, seen: Seen) -> str:
        if not seen:
            return "it never fired"
        first = seen[0]
        if first.rule is None:
            then = "nothing"
        elif self.named:
            then = first.rule
        else:
            then = f"a rule that says {'yes' if first.answer else 'no'} to the example"
        return f"it fired {_when(first.round, self.ends)} and published {then}"


@dataclass(frozen=True)
class _Standing:
    """Describe after how many firings the rule said yes to the replaced example."""

    ends: tuple[int, ...]

    def __call__(self, seen: Seen) -> str:
        return f"a rule that says yes to the example, {_when(_yes(seen), self.ends, 'time')}"


def _last(seen: Seen) -> str:
    rules = [firing.rule for firing in seen if firing.rule is not None]
    return f"{len(seen)} firings, the last rule {rules[-1] if rules else 'the first one'}"


def _yes(seen: Seen) -> int:
    return sum(firing.answer for firing in seen)


def _divided(values: Sequence[int], parts: int) -> tuple[int, ...]:
    """Return the ends of so many parts, each about as likely."""
    return tuple(
        sorted({values[len(values) * n // parts] for n in range(1, parts)} if values else ())
    )


def _when(number: int, ends: tuple[int, ...], unit: str = "round") -> str:
    part = bisect_left(ends, number)
    if not ends:
        return f"at some {unit}"
    if part == 0:
        return f"by {unit} {ends[0]:,}"
    after = ends[part - 1] + 1
    if part == len(ends):
        return f"from {unit} {after:,} on"
    return (
        f"at {unit} {after:,}" if after == ends[part] else f"at {unit}s {after:,} to {ends[part]:,}"
    )
