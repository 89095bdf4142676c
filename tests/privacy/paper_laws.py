"""Enumerate the paper's own gates: the sparse vector, Algorithm 2, a selection at every check."""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from itertools import product
from typing import Any

from littlestone._audit.enumeration import (
    ByLaw,
    Finding,
    Laws,
    Make,
    Transcript,
    World,
    at_one,
    transcripts,
    worst,
)
from littlestone._audit.gates import (
    OLD,
    VOTES,
    A,
    Stream,
    fixed,
    neighbouring_laws,
    votes_without_delta,
)
from littlestone._privacy.accounting import Cost
from littlestone._privacy.draws import Draw
from littlestone._privacy.gates import NO_CHANGE, Decision
from littlestone._privacy.noise import Noise
from littlestone._privacy.selection import StableHistogram
from littlestone._privacy.testing import ScriptedNoise
from littlestone.paper.gates import EveryCheck


def forest(rows: Stream, trees: int = 2) -> World:
    """Return a forest: round n goes to tree n mod `trees`, which votes for its latest row."""

    def world(past: Transcript) -> tuple[Any, ...]:
        votes = [OLD] * trees
        for n in range(len(past) + 1):
            # The tree of a round depends on its number alone, so a replaced row moves one vote.
            votes[n % trees] = rows(past[:n])
        return (dict(Counter(vote for vote in votes if vote is not None)),)

    return world


def sparse_vector(
    make: Make, epsilon: Fraction, releases: int, query: Fraction
) -> Iterator[Finding]:
    """Enumerate the sparse vector of Theorem 2, on queries that move by one."""
    name, claim, length = "sparse vector", Cost(epsilon), 3
    worlds = list(product((0, 1, 2), repeat=length))
    laws = {
        queries: transcripts(make, fixed([(query, 1) for query in queries]), length)
        for queries in worlds
    }
    small = [
        (laws[one], laws[other])
        for one, other in product(worlds, worlds)
        if all(abs(x - y) <= 1 for x, y in zip(one, other, strict=True))
    ]
    yield worst(name, f"{len(worlds)} streams of {length} queries", claim, small)
    # High noes force the threshold noise up; a shift of one in every query then costs the monitor's
    # whole share, and each firing its own.
    high, only = 14 * math.ceil(query), (False,) * 10 + (True,) * releases

    def world(shift: int) -> World:
        return lambda past: (-high - shift if only[len(past)] else high + shift, 0)

    one, other = (transcripts(make, world(shift), len(only), only) for shift in (0, 1))
    yield at_one(name, f"high noes, then {releases} low firings", claim, [(one, other)])


def votes_gate(
    make: Callable[[Noise, int, int], Any],
    claim: Cost,
    releases: int,
    query: Fraction,
    draw: Draw[Mapping[bytes, int]],
) -> Iterator[Finding]:
    """Enumerate the gate of Algorithm 2; `make` takes trees and threshold."""
    high = 14 * math.ceil(query)
    enough = votes_without_delta(draw)
    # So far ahead that the draw would almost surely take the favourite: the underdog's win has the
    # largest ratio.
    held = max(2 * high, enough + 100 * math.ceil(2 / draw.cost.epsilon))
    trees = 10 * held

    def far(noise: Noise) -> Any:
        return make(noise, trees, trees - 2 - high)

    won = tuple(Decision(True, A if n % 2 == 0 else OLD) for n in range(releases))
    pairs: list[Laws] = []
    for firings in (won, (Decision(True, None),) * (releases + 5)):
        only = (*(NO_CHANGE,) * 10, *firings)
        under = enough if firings[0].key else 0
        one, other = (transcripts(far, _losing(held, under, n), len(only), only) for n in (0, 1))
        pairs.append((one, other))
    yield at_one("votes gate", f"quiet checks, then {releases} underdogs", claim, pairs)
    length = 3
    small = neighbouring_laws(
        lambda rows: transcripts(lambda noise: make(noise, 2, 1), forest(rows), length),
        VOTES,
        length,
    )
    yield worst("votes gate", f"{len(VOTES) ** length} streams of {length} rounds", claim, small)


def _losing(held: int, under: int, shift: int) -> World:
    """Return a world in which the published key loses its votes, then gets them back."""

    def world(past: Transcript) -> tuple[Any, ...]:
        if len(past) < 10:
            return ({OLD: 2 - shift},)
        favourite, other = (OLD, A) if under == 0 or len(past) % 2 == 0 else (A, OLD)
        ballot = {favourite: held + shift}
        return (ballot | {other: under + 1 - shift} if under else ballot,)

    return world


def every_check(epsilon: Fraction, delta: Fraction, releases: int) -> Finding:
    """Enumerate all small streams, a release at each round."""
    asked: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "releases": releases}
    each = EveryCheck(ScriptedNoise({}), **asked, published=OLD).each
    by_law = ByLaw(StableHistogram(epsilon=each.epsilon, delta=each.delta))

    def make(noise: Noise) -> EveryCheck:
        gate = EveryCheck(noise, **asked, published=OLD)
        gate.selector = by_law
        return gate

    pairs = neighbouring_laws(
        lambda rows: transcripts(make, forest(rows), releases), VOTES, releases
    )
    family = f"{len(VOTES) ** releases} streams of {releases} rounds"
    return worst("every check", family, Cost(epsilon, delta), pairs)
