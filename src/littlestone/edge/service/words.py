"""The guarantee in plain words."""

import math
from fractions import Fraction

from littlestone.privacy.accounting import Guarantee

USUAL = 4.0
"""Above it docs/choosing.md finds it hard to speak of privacy, and so does the page."""
LARGEST_POWER = 700.0
"""Above it e to that power is no number of a computer."""


def in_words(guarantee: Guarantee) -> list[str]:
    """What the guarantee means to somebody whose rows are in the stream.

    >>> in_words(Guarantee(1.0, 1e-6))[1]
    'Had any one event been another, no sequence of rules would be more than 2.72 times ...'
    >>> in_words(Guarantee(50.0, 1e-6))[0]
    'All rules published here, taken together, tell perhaps much about any one event.'
    >>> in_words(Guarantee(1e6, 1e-6))[1]
    'Had any one event been another, no sequence of rules would be more than e^1e+06 times ...'
    >>> in_words(Guarantee(1.0, 1e-9))[2]
    'That may fail with a probability of at most 1 in 1,000,000,000.'
    """
    if math.isinf(guarantee.epsilon):
        return [f"There is no privacy here: {guarantee.noise}."]
    one = "event" if guarantee.unit == "event" else "user"
    whole = "event" if one == "event" else "user, with all that is theirs"
    weak, huge = guarantee.epsilon > USUAL, guarantee.epsilon > LARGEST_POWER
    much = "perhaps much" if weak else "almost nothing"
    times = f"e^{guarantee.epsilon:g}" if huge else f"{math.exp(guarantee.epsilon):.3g}"
    said = [
        f"All rules published here, taken together, tell {much} about any one {whole}.",
        f"Had any one {one} been another, no sequence of rules would be more than "
        f"{times} times as likely or unlikely.",
    ]
    if guarantee.cap is not None:
        rounds = "round" if guarantee.cap == 1 else "rounds"
        said.append(f"At most {guarantee.cap:,} {rounds} of a user count; later ones are not read.")
    if guarantee.delta:
        chance = f"1 in {math.floor(1 / Fraction(repr(guarantee.delta))):,}"
        said.append(f"That may fail with a probability of at most {chance}.")
    said.append("It holds for every stream, and against whoever reads every rule, now or later.")
    return said
