"""Select the key with the most votes: the stable histogram (Thm 5.1 of the paper).

A replaced example moves one vote from one key to another, an L1 distance of 2. Every key with a
vote gets discrete Laplace noise of scale 2/epsilon, and the top noisy key is released if its noisy
count reaches tau: the smallest tau >= 1 at which a single vote is released with probability at
most delta, a^(tau-1)/(1+a) <= delta, where a = exp(-epsilon/2). Proof: docs/guarantee.md,
Theorem 4.
"""

import math
from collections.abc import Mapping
from decimal import ROUND_CEILING, ROUND_FLOOR
from fractions import Fraction
from functools import cache
from itertools import count

from littlestone.privacy.accounting import Cost
from littlestone.privacy.noise import Noise, noise_scale
from littlestone.privacy.parameters import (
    BadParameter,
    Real,
    context,
    decimal_of,
    enclose_exp,
    log_of,
    positive,
    probability,
    whole,
)


class StableHistogram:
    """Select the key with the most votes, with noise, from any domain, known or not.

    Requires: one replaced example takes at most one vote from one key and gives at most one to
    another. Promises: `select` is (epsilon, delta)-differentially private in the votes.

    Parameters
    ----------
    epsilon, delta
        What a selection costs.

    Examples
    --------
    >>> from littlestone.privacy.testing import ScriptedNoise
    >>> histogram = StableHistogram(epsilon=1, delta=1e-6)
    >>> histogram.threshold
    28
    >>> histogram.select({b"a": 40, b"b": 45}, ScriptedNoise({}), release=0)
    b'b'
    >>> histogram.select({b"a": 40, b"b": 45}, ScriptedNoise({}), release=0, leave_out=b"b")
    b'a'
    >>> histogram.select({b"a": 27}, ScriptedNoise({}), release=0) is None
    True
    """

    name = "stable histogram"

    def __init__(self, *, epsilon: Real, delta: Real) -> None:
        self.cost = Cost(positive(epsilon, "epsilon"), probability(delta, "delta"))
        # Theorem 4: the votes move by 2 in all; tau follows from the raised scale that is drawn.
        self.scale = noise_scale(2 / self.cost.epsilon)
        self.threshold = release_threshold(self.scale, self.cost.delta)

    def select(
        self,
        ballot: Mapping[bytes, int],
        noise: Noise,
        release: int,
        leave_out: bytes | None = None,
    ) -> bytes | None:
        """Select the top noisy key that reaches the threshold, or None.

        Ties go to the key that comes first in the order of bytes. A key with zero votes is treated
        as absent: noise on it would reveal that it once had a vote.
        """
        # Theorem 4: noise for every key with votes, in an order that does not depend on the data.
        best, top = None, self.threshold - 1
        for rank, (key, n) in enumerate(positive_votes(ballot, leave_out).items()):
            noisy = n + noise.laplace(self.scale, ("histogram", release, rank))
            if noisy > top:
                best, top = key, noisy
        return best

    def parameters(self) -> dict[str, str]:
        """Return the public parameters on which the guarantee rests."""
        return self.cost.parameters(self.name)


def positive_votes(votes: Mapping[bytes, int], leave_out: bytes | None = None) -> dict[bytes, int]:
    """Return the votes of the keys that have some, sorted by key, as Python integers.

    Counts of fixed width (numpy's) would wrap around in arithmetic; they are converted here, once,
    and nothing else of this package reads votes.

    Parameters
    ----------
    votes
        The votes of each key.
    leave_out
        A key to leave out.

    Examples
    --------
    >>> positive_votes({b"b": 1, b"a": 2, b"c": 0, b"d": 3}, leave_out=b"d")
    {b'a': 2, b'b': 1}
    """
    for key in votes:
        # Keys are compared and sorted as bytes: the order must not depend on the data (Theorem 4).
        if type(key) is not bytes:
            raise BadParameter(f"a key must be bytes, not {key!r}")
    found = {key: whole(votes[key], "votes", least=0) for key in sorted(votes)}
    return {key: n for key, n in found.items() if n > 0 and key != leave_out}


@cache
def release_threshold(scale: Fraction, delta: Fraction) -> int:
    """Return the smallest tau >= 1 with a^(tau-1)/(1+a) <= delta, a = exp(-1/scale), exactly.

    Parameters
    ----------
    scale
        The scale of the noise.
    delta
        How probably a single vote may be released.

    Examples
    --------
    >>> release_threshold(Fraction(2), Fraction(1, 10**6))
    28
    """
    # A guess in floats, corrected by exact decisions below: only those count.
    guess = -float(scale) * (log_of(delta) + math.log1p(math.exp(-1 / float(scale))))
    below = max(0, math.floor(guess))
    while below > 0 and _tail_at_most_delta(below - 1, scale, delta):
        below -= 1
    while not _tail_at_most_delta(below, scale, delta):
        below += 1
    return below + 1


def _tail_at_most_delta(n: int, scale: Fraction, delta: Fraction) -> bool:
    """Return whether a^n <= delta (1 + a), decided with as many digits as it takes.

    It ends: a is transcendental (Lindemann), so the two sides are never equal.
    """
    # Forty digits nearly always decide; an undecided comparison gets forty more.
    for digits in count(40, 40):
        down, up = context(digits, ROUND_FLOOR), context(digits, ROUND_CEILING)
        left_low, left_high = enclose_exp(-n / scale, digits)
        a_low, a_high = enclose_exp(-1 / scale, digits)
        right_low = down.multiply(down.add(a_low, 1), decimal_of(delta, down))
        right_high = up.multiply(up.add(a_high, 1), decimal_of(delta, up))
        if left_high <= right_low:
            return True
        if left_low > right_high:
            return False
    raise AssertionError("unreachable")
