"""Account for what was spent. Rounding is always towards less privacy claimed.

A `Cost` is exact, and costs add (docs/guarantee.md, Theorem 8). A `Guarantee` is what may be quoted.
"""

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal, TypeAlias

from littlestone._privacy.noise import Noise
from littlestone._privacy.parameters import BadParameter, enclose_exp, float_above, whole

Unit: TypeAlias = Literal["event", "user"]

DIGITS = 60
# Powers of e above it are not computed.
LARGEST_POWER = 1000


@dataclass(frozen=True)
class Cost:
    """Hold an exact (epsilon, delta) that one mechanism claims. Costs add: basic composition."""

    epsilon: Fraction
    delta: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        # `not >=` also refuses a NaN, should a float ever get here.
        if self.epsilon < 0 or not self.delta >= 0:
            raise BadParameter("a cost has epsilon and delta of at least 0")

    def parameters(self, name: str) -> dict[str, str]:
        """Return the cost as the parameters of the mechanism of this name."""
        return {"name": name, "epsilon": str(self.epsilon), "delta": str(self.delta)}

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(self.epsilon + other.epsilon, self.delta + other.delta)

    def times(self, count: int) -> "Cost":
        """Return the basic composition of `count` mechanisms of this cost."""
        return Cost(self.epsilon * count, self.delta * count)

    def for_group(self, rounds: int) -> "Cost":
        """Return what this cost of one round amounts to for a row that is in several rounds."""
        if whole(rounds, "rounds", least=1) == 1:
            return self
        epsilon, delta = self.epsilon * rounds, self.delta
        # A delta of 1 claims nothing, hence is true.
        if epsilon > LARGEST_POWER:
            return Cost(epsilon, Fraction(1 if delta else 0))
        # Theorem 14: k replaced rounds cost k epsilon and delta (1 + e^epsilon + ...).
        powers = (Fraction(enclose_exp(self.epsilon * n, DIGITS)[1]) for n in range(1, rounds))
        return Cost(epsilon, min(delta * (1 + sum(powers)), Fraction(1)))


NOTHING = Cost(Fraction(0))


@dataclass(frozen=True)
class Guarantee:
    """Hold what may be quoted: floats, rounded up. Without secret noise there is no guarantee.

    Parameters
    ----------
    epsilon, delta
        The guarantee; infinite and 1 if there is none.
    adjacency
        What neighbouring streams are.
    unit
        What is protected whole: an event or a user.
    noise
        Where the noise was drawn.
    cap
        How many rounds of a user count, where there is a limit.
    repeats
        How often the same row was learned, at most.

    Examples
    --------
    >>> print(Guarantee(1.0, 1e-6))
    (1.0, 1e-06)-differential privacy, replace-one, per event
    >>> print(Guarantee(1.0, 1e-6, unit="user", cap=5))
    (1.0, 1e-06)-differential privacy, replace-one, per user: at most 5 rounds a user count
    """

    epsilon: float
    delta: float
    adjacency: str = "replace-one"
    unit: Unit = "event"
    noise: str = "SystemNoise()"
    cap: int | None = None
    repeats: int = 1

    def for_repeats(self, repeats: int) -> "Guarantee":
        """Return the guarantee of a row that is learned up to `repeats` times (Theorem 14).

        Per user nothing changes: all rounds of a user are protected together, however many.

        >>> print(Guarantee(1.0, 0.0).for_repeats(2))
        (2.0, 0.0)-differential privacy, replace-one, per event (rows were learned up to 2 times)
        """
        # Theorem 14: per user, all rounds are protected together already.
        if repeats == 1 or self.unit == "user" or math.isinf(self.epsilon):
            return self
        cost = Cost(Fraction(self.epsilon), Fraction(self.delta)).for_group(repeats)
        epsilon, delta = float_above(cost.epsilon), float_above(cost.delta)
        return replace(self, epsilon=epsilon, delta=delta, repeats=repeats)

    @classmethod
    def of(
        cls, cost: Cost, noise: Noise, unit: Unit = "event", cap: int | None = None
    ) -> "Guarantee":
        """Return the guarantee that a cost amounts to, in floats rounded up.

        Parameters
        ----------
        cost
            What everything costs together.
        noise
            Where the noise is drawn; if it is not private, there is no guarantee.
        unit
            What is protected whole.
        cap
            How many rounds of a user count, where there is a limit: later ones are not read.
        """
        # Whatever the mechanisms claim, draws that anyone can know protect no one.
        if not noise.private:
            return cls(math.inf, 1.0, unit=unit, noise=f"the noise was {noise!r}", cap=cap)
        epsilon, delta = float_above(cost.epsilon), float_above(cost.delta)
        return cls(epsilon, delta, unit=unit, noise=repr(noise), cap=cap)

    def __str__(self) -> str:
        if math.isinf(self.epsilon):
            return f"no privacy at all: {self.noise}"
        pair = f"({self.epsilon!r}, {self.delta!r})"
        text = f"{pair}-differential privacy, {self.adjacency}, per {self.unit}"
        rounds = "round" if self.cap == 1 else "rounds"
        capped = f": at most {self.cap:,} {rounds} a user count" if self.cap else ""
        again = f" (rows were learned up to {self.repeats} times)" if self.repeats > 1 else ""
        return text + capped + again


@dataclass(frozen=True)
class PrivacyEvent:
    """Record one use of a mechanism."""

    mechanism: str
    cost: Cost
    epoch: int | None = None
    noise: str = "SystemNoise()"
