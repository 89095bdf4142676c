"""Every outcome that a draw can have is accepted: the learner publishes it and goes on.

A draw that raised for one outcome would be tried again with fresh noise, and the law of what is
published would depend on what the draw may not return.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from itertools import product
from typing import Any

import pytest
from test_checkpoint import same

import littlestone as ls
from littlestone._privacy.noise import Address, Noise

pytestmark = pytest.mark.filterwarnings("ignore:delta")

# Where a draw falls: in which group of equal scores, and on which of its members.
Spot = tuple[Fraction, Fraction]
Example = tuple[object, bool | None]
Make = Callable[[Noise], Any]
PURPOSES = {"group": 0, "drawn": 0, "member": 1, "kept": 1}


class SteeredNoise(Noise):
    """Let each draw fall where a script says; the monitor has no noise."""

    def __init__(self, spots: Mapping[int, Spot]) -> None:
        self._spots = dict(spots)

    def __repr__(self) -> str:
        return "SteeredNoise(NOT PRIVATE)"

    def laplace(self, scale: Fraction, at: Address) -> int:
        return 0

    def uniform(self, below: int, at: Address) -> int:
        spot = self._spots.get(at[1], (Fraction(0), Fraction(0)))
        return int(spot[PURPOSES[at[0]]] * below)


# Groups are in the order of their scores, the best first: the last have little weight.
GROUPS = [1 - Fraction(3, 5) ** n for n in range(14)]
MEMBERS = [Fraction(2 * n + 1, 10) for n in range(5)]


Releases = tuple[tuple[int, str], ...]


def histories(make: Make, stream: list[Example]) -> dict[Releases, dict[int, Spot]]:
    """All that two draws in a row can publish, each with spots that lead to it."""
    reached: dict[Releases, dict[int, Spot]] = {(): {}}
    for draw in range(2):
        before, reached = reached, {}
        for spots in before.values():
            for spot in product(GROUPS, MEMBERS):
                steered = spots | {draw: spot}
                learner = make(SteeredNoise(steered))
                learner.learn_many(*map(list, zip(*stream, strict=True)))
                published = tuple(
                    (release.round, str(release.rule)) for release in learner.releases
                )
                reached.setdefault(published, steered)
    return reached


def mistakes(learner: Any, stream: list[Example]) -> int:
    """The mistakes of the rules that stood, by what was published."""
    count = 0
    for number, (x, y) in enumerate(stream, start=1):
        rule = [release.rule for release in learner.releases if release.round <= number][-1]
        count += rule(x) != y
    return count


def accepted(make: Make, stream: list[Example]) -> set[tuple[str, ...]]:
    """The first rules of every history, in order, once each was gone through and resumed."""
    rules: set[tuple[str, ...]] = set()
    for published, spots in histories(make, stream).items():
        learner = same(lambda spots=spots: make(SteeredNoise(spots)), stream)  # type: ignore[misc]
        assert learner.mistakes == mistakes(learner, stream)
        rules.add(tuple(rule for _, rule in published[:3]))
    return rules


@pytest.mark.parametrize("change_cost", [0, 1])
@pytest.mark.parametrize("first", ["drawn", "own"])
def test_experts_accept_every_rule_of_the_class(first: Any, change_cost: int) -> None:
    cls = ls.Intervals(1, 2)
    plan = ls.ExpertsPlan.practical(cls, Fraction(1, 2), 100, change_cost=change_cost)
    plan = replace(plan, threshold=1, check_every=2, stay_nats=Fraction(0))
    stream: list[Example] = [(1 + n % 2, n % 5 > 1) for n in range(50)]

    def make(noise: Noise) -> ls.PrivateExperts:
        return ls.PrivateExperts(cls, plan=plan, first=first, seed=1, noise=noise)

    reached, rules = accepted(make, stream), set(map(str, cls.hypotheses()))
    start = str(make(SteeredNoise({})).hypothesis)
    # The rule that stands may be drawn again: then nothing is published.
    assert rules - {start} == {published[1] for published in reached if published[1:]}
    assert rules == {published[2] for published in reached if published[2:]}


@pytest.mark.parametrize("cls", [ls.Points(), ls.Complement(ls.Points())])
def test_a_forest_accepts_what_it_searches_and_what_it_compares(cls: ls.HypothesisClass) -> None:
    plan = ls.Plan.practical(cls, 2, 0.2, 200)
    plan = replace(plan, leaves={1: 6}, thresholds=(2,), check_every=2)
    bad = isinstance(cls, ls.Points)
    # Two values are bad, then none.
    stream: list[Example] = [(n % 3, bad is (n % 3 < 2 and n < 24)) for n in range(160)]

    def make(noise: Noise) -> ls.DPSOA:
        return ls.DPSOA(cls, plan=plan, seed=1, noise=noise)

    reached, start = accepted(make, stream), "never" if bad else "always"
    names = [f"x {'=' if bad else '!='} {value}" for value in (0, 1)]
    assert {(start,), *((start, name, start) for name in names)} <= reached
    assert any(set(names) < set(published) for published in reached)


@pytest.mark.parametrize("afterwards", ["failures", "none"])
def test_causes_accept_every_add_every_drop_and_nothing(afterwards: str) -> None:
    cls = ls.Causes(["a", "b"], limit=2)
    plan = ls.CausesPlan.practical(cls, 4, 0.4, 400, min_rate=0.5)
    # Each value fails half of the time, so no cause gains or loses much.
    stream: list[Example] = [
        (
            {"a": "xy"[n // 2 % 2], "b": "uv"[n // 4 % 2]},
            n % 2 == 0 and (n < 40 or afterwards == "failures"),
        )
        for n in range(100)
    ]

    def make(noise: Noise) -> ls.PrivateCauses:
        return ls.PrivateCauses(cls, plan=plan, noise=noise)

    keys = ["a = 'x'", "a = 'y'", "b = 'u'", "b = 'v'"]
    moves = {(key, "never") for key in keys}
    if afterwards == "failures":
        both = ((key, " or ".join(sorted([key, more]))) for key in keys for more in keys)
        moves = {move for move in both if move[0] * 2 not in move[1].replace(" or ", "")}
    assert {(), *moves} <= {published[1:] for published in accepted(make, stream)}
