"""The guarantee in plain words."""

import math

from littlestone.privacy.accounting import Guarantee


def in_words(guarantee: Guarantee) -> list[str]:
    """What the guarantee means to somebody whose rows are in the stream.

    >>> in_words(Guarantee(1.0, 1e-6))[1]
    'For any one event, it makes any sequence of rules at most 2.72 times as likely or unlikely.'
    """
    if math.isinf(guarantee.epsilon):
        return [f"There is no privacy here: {guarantee.noise}."]
    one = "event" if guarantee.unit == "event" else "user"
    whole = "event" if one == "event" else "user, with all that is theirs"
    said = [
        f"All rules published here, taken together, tell almost nothing about any one {whole}.",
        f"For any one {one}, it makes any sequence of rules at most "
        f"{math.exp(guarantee.epsilon):.3g} times as likely or unlikely.",
    ]
    if guarantee.delta:
        said.append(f"That may fail with a probability of at most {guarantee.delta:.2g}.")
    said.append("It holds for every stream, and against whoever reads every rule, now or later.")
    return said
