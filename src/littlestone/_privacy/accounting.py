"""Account for what was spent. Rounding is always towards less privacy claimed.

A `Cost` is exact, and costs add (docs/guarantee.md, Theorem 8). A `Guarantee` is what may be quoted.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, Context
from fractions import Fraction
from textwrap import TextWrapper
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
        return self if count == 1 else Cost(self.epsilon * count, self.delta * count)

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
    public_times
        The column of times that is published, where there is one.

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
    public_times: str | None = None

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
        times = f"; the times in {self.public_times!r} are not protected"
        return text + capped + again + times * (self.public_times is not None)

    def meaning(self) -> dict[str, str]:
        """Return what the guarantee means to those whose rows are in the stream, by heading."""
        if math.isinf(self.epsilon):
            return {"The guarantee": f"There is no privacy here: {self.noise}."}
        whole = "Each single event: its values and its label."
        replaced, either = "any single event were replaced by another", "two events"
        groups = "Several events of one person: k of them have k times the epsilon and more delta."
        if self.unit == "user":
            whole = "Each user: the values and labels of all events of that user together."
            whole += f" At most {self.cap:,} of them count; others are not read." * bool(self.cap)
            replaced = "all events of any single user were replaced by others"
            either, groups = "two versions of a user's events", "When and how often a user appears."
        if self.public_times is not None:
            replaced += " of the same time" if self.unit == "event" else " of the same times"
            groups += (
                f" The times in the column {self.public_times!r}, which --time declares public: those "
                "at the ends of windows of rounds are published, to the second."
            )
        factor, guess, chance = self._in_numbers()
        return {
            "What is protected": whole,
            "Against whom": "Everyone who reads what is published, now or later, also those who know "
            "every other event and all settings. Whoever can read the learner's file, the private "
            "report or the memory of the machine sees the events themselves.",
            "The guarantee": f"{self}. If {replaced}, the "
            "probability of whatever is published would change by at most a factor of "
            f"{factor}{chance}. This holds whatever the data are.",
            "In other words": f"Someone who knows all but which of {either} is in the data, "
            f"and guesses it from everything published, is right at most {guess} of the time. A "
            "blind guess is right 50 % of the time.",
            "What is not covered": f"{groups} That an event took place, when it arrived, and how many "
            "there are. Other publications from the same data: their epsilon and delta add to these. "
            "What holds of a person because it holds of everyone, with their events or without. "
            "Settings that were chosen after looking at the data.",
        }

    def _in_numbers(self) -> tuple[str, str, str]:
        """Return factor, chance of a guess, and what delta adds; none of them understated."""
        chance = f", plus 1 in {math.floor(1 / Fraction(repr(self.delta))):,}" if self.delta else ""
        if self.epsilon > LARGEST_POWER:
            return f"e^{self.epsilon:g}", "100 %", chance
        power = enclose_exp(Fraction(self.epsilon), DIGITS)[1]
        guess = (Fraction(power) + Fraction(self.delta)) / (Fraction(power) + 1)
        factor = Context(prec=3, rounding=ROUND_CEILING).plus(power)
        return f"{factor:,f}", f"{min(1000, math.ceil(1000 * guess)) / 10:g} %", chance

    def explain(self) -> str:
        """Return the guarantee in plain words, for somebody who has to answer for it.

        Examples
        --------
        >>> print(Guarantee(1.0, 1e-7).explain())
        What is protected
          Each single event: its values and its label.
        ...
        In other words
          Someone who knows all but which of two events is in the data, and guesses it
          from everything published, is right at most 73.2 % of the time. A blind guess
          is right 50 % of the time.
        ...
        """
        return in_sections(self.meaning())


def in_sections(said: Mapping[str, str]) -> str:
    """Return text by heading, in lines of at most 80 columns."""
    lines = TextWrapper(
        width=80,
        initial_indent="  ",
        subsequent_indent="  ",
        break_long_words=False,
        break_on_hyphens=False,
    )
    return "\n".join(f"{heading}\n{lines.fill(text)}" for heading, text in said.items())


@dataclass(frozen=True)
class PrivacyEvent:
    """Record one use of a mechanism."""

    mechanism: str
    cost: Cost
    epoch: int | None = None
    noise: str = "SystemNoise()"
