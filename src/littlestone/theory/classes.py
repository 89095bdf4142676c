"""The hypothesis-class protocol, and what every family shares.

A class brings its own learner A (Section 2.1): a mistake-bounded, conservative learner, written as
pure functions on states. `learn` is called on a mistake only, and from then on the learner is right
on that example, so a mistake always changes its hypothesis. On a sample that no hypothesis of the
class fits, A answers None (the paper's bottom).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import chain, count, islice, pairwise, product
from math import isfinite
from typing import Any, ClassVar, Protocol, cast

import numpy as np

from littlestone.theory.errors import BadClass, BadExample, TooLarge
from littlestone.theory.hypothesis import Hypothesis
from littlestone.theory.notebook import counted, facts
from littlestone.theory.rows import Batch, Column, Kind, batch_length, passes, row_of
from littlestone.theory.values import Mask, Plain, encode, key_of


@dataclass(frozen=True, repr=False)
class State:
    """What a learner remembers. It is a digest of somebody's data, so it never prints."""

    content: Any

    def __repr__(self) -> str:
        return "State(private)"


DEAD = State(None)
"""The state after an inconsistent sample: its hypothesis is None, for ever."""


class HypothesisClass(Protocol):
    """A set of hypotheses and a learner for it. Inherit to get the defaults."""

    _closed: ClassVar[bool] = False
    """Whether the dimension is a formula, so that it may be shown unasked."""

    @property
    def dimension(self) -> int:
        """The Littlestone dimension: the depth of the deepest shattered mistake tree."""
        ...

    @property
    def mistake_bound(self) -> int:
        """How many mistakes the learner makes at most on a sample that the class fits."""
        ...

    def start(self) -> State:
        """The state before any example."""
        ...

    def learn(self, state: State, x: object, y: object) -> State:
        """The state after a mistake on (x, y)."""
        ...

    def hypothesis(self, state: State) -> Hypothesis | None:
        """The rule of a state, or None when the sample was inconsistent."""
        ...

    def disagreement(self, one: Hypothesis, other: Hypothesis) -> object:
        """An example on which two different rules differ."""
        ...

    def __contains__(self, rule: object) -> bool:
        """Whether a rule belongs to the class. A learner may publish rules that do not."""
        ...

    def predict(self, rule: Hypothesis, X: Any) -> Mask:
        """What a rule says of a batch."""
        return rule.predict(X)

    def restart(self, rule: Hypothesis) -> State:
        """A state that predicts as a published rule of the class does; where a family does not
        offer one, or the rule is not its own, `start()`."""
        return self.start()

    def check(self, x: object) -> None:
        """Raise `BadExample` unless the class can read the example, whatever is published."""
        for y in (True, False):
            self.learn(self.start(), x, y)

    def readable(self, batch: Batch) -> Mask:
        """Which rows of a batch pass `check`; families vectorise it."""
        rows = range(batch_length(batch))
        passed = (passes(partial(check_row, self), row_of(batch, row)) for row in rows)
        return np.fromiter(passed, dtype=bool, count=len(rows))

    @property
    def reads(self) -> Mapping[Column, Kind]:
        """The columns that the class reads, and as what: for readers of text files, in which 7 may
        be a number or a name. Empty when the class does not say."""
        return {}

    @property
    def size(self) -> int | None:
        """How many rules; None when there is no end of them."""
        return None

    def hypotheses(self) -> Iterator[Hypothesis]:
        """Every rule of a finite class, once."""
        raise TooLarge(f"{self!r} has no end of rules to list")

    def domain(self) -> dict[Column, tuple[Plain, ...]]:
        """For each column that a finite class reads, the values that tell its rules apart."""
        raise TooLarge(f"{self!r} has no end of values to list")

    def _repr_html_(self) -> str:
        told = {"rules": "no end of them" if self.size is None else counted(self.size)}
        if self._closed:
            told["Littlestone dimension"] = str(self.dimension)
        kinds = kinds_of(self)
        if kinds:
            read = (f"{name or 'the value itself'} (as a {kind})" for name, kind in kinds.items())
            told["reads"] = ", ".join(read)
        return facts(repr(self), told)

    def skeleton(self) -> tuple[list[Hypothesis], list[object]]:
        """A small finite part with the dimension of the whole: hypotheses, and points to tell
        them apart. It is what a shattered tree is made from."""
        raise TooLarge(f"{self!r} does not say which finite part of it has its dimension")


def checked_class(cls: object) -> HypothesisClass:
    """A hypothesis class, refused when it is something else."""
    if HypothesisClass not in type(cls).__mro__:
        raise BadClass(f"{cls!r} is not a hypothesis class, such as Points() or Rules(['a', 'b'])")
    return cast(HypothesisClass, cls)


# What learners call instead of the methods of a class. A class may be somebody else's, and raise
# on a row that it said it can read. An exception in the middle of a batch would stop the learner
# at a moment that the data decides, which is outside the guarantee. So every function below is
# total: what raises is given a value, and that value is a function of the same arguments.


def check_row(cls: HypothesisClass, x: object) -> None:
    """Raise `BadExample` unless a class can read an example, whatever the class raises itself.

    Parameters
    ----------
    cls : HypothesisClass
        A class, perhaps of the user's own.
    x : object
        An example.
    """
    try:
        cls.check(x)
    except (BadExample, MemoryError):
        raise
    except Exception as error:
        raise BadExample(f"{cls!r} cannot read the row: {type(error).__name__}: {error}") from error


def learn_row(
    cls: HypothesisClass, state: State, x: object, y: bool
) -> tuple[State, Hypothesis | None]:
    """Return the state after a mistake and its rule; `DEAD` and None where the class raises.

    A tree in which the class raised votes for nothing, as after a sample that no rule fits. The
    row reached that tree alone, so still at most one vote moves (docs/guarantee.md, Lemma 0).
    """
    try:
        after = cls.learn(state, x, y)
        return after, cls.hypothesis(after)
    except MemoryError:
        raise
    except Exception:
        return DEAD, None


def predict_row(rule: Hypothesis, x: object) -> bool:
    """Return what a rule says of an example; False where the rule raises."""
    try:
        return bool(rule(x))
    except MemoryError:
        raise
    except Exception:
        return False


def predict_rows(cls: HypothesisClass, rule: Hypothesis, batch: Batch) -> Mask:
    """Return what a rule says of each row of a batch; False where the rule raises.

    Where the vectorised function raises, rows are asked one by one, so that a row that makes a
    rule raise does not change what is said of the others.
    """
    try:
        return cls.predict(rule, batch)
    except MemoryError:
        raise
    except Exception:
        rows = (predict_row(rule, row_of(batch, row)) for row in range(batch_length(batch)))
        return np.fromiter(rows, dtype=bool, count=batch_length(batch))


def disagreement_of(cls: HypothesisClass, one: Hypothesis, other: Hypothesis) -> list[object]:
    """Return an example on which two rules differ; an empty list where the class finds none."""
    try:
        x = cls.disagreement(one, other)
    except MemoryError:
        raise
    except Exception:
        return []
    return [x] if tells_apart(x, one, other) else []


def kinds_of(cls: HypothesisClass) -> Mapping[Column, Kind]:
    """How each column is read; nothing where the class does not say, or its members differ."""
    try:
        return cls.reads
    except BadClass:
        return {}


Domain = Mapping[Column, Sequence[Plain]]


def points_of(domain: Domain) -> list[object]:
    """Every example over a domain: values, or rows where it has columns.

    >>> points_of({None: (1, 2)}), points_of({"a": (1, 2)})
    ([1, 2], [{'a': 1}, {'a': 2}])
    """
    return list(_points(domain))


def _points(domain: Domain) -> Iterator[object]:
    if None in domain:
        return iter(domain[None])
    return (dict(zip(domain, row, strict=True)) for row in product(*domain.values()))


MOST_TRIED = 200_000


def differ(one: Hypothesis, other: Hypothesis, column: Column = None) -> object:
    """An example on which two rules differ, searched over the values that they mention.

    Requires: different rules. `column` is what the class reads where the rules mention nothing.
    The search is over a product of columns, so families that read many have a way of their own.

    >>> from littlestone.theory.vocabulary import between, one_of
    >>> differ(one_of(["a"], "c"), one_of(["a", "b"], "c")), differ(one_of([3]), between(3, 4))
    ({'c': 'b'}, 3.5)
    """
    mentioned: dict[Column, dict[bytes, Plain]] = {}
    for name, some in chain(one.mentions().items(), other.mentions().items()):
        mentioned.setdefault(name, {}).update((encode(value), value) for value in some)
    domain = {name: probes(found.values()) for name, found in mentioned.items()}
    for x in islice(_points(domain or {column: (0,)}), MOST_TRIED):
        if tells_apart(x, one, other):
            return x
    raise TooLarge(f"found no example that tells {one} from {other}, of {MOST_TRIED:,} tried")


def tells_apart(x: object, one: Hypothesis, other: Hypothesis) -> bool:
    """Whether two rules can read an example and differ on it."""
    try:
        return one(x) != other(x)
    except MemoryError:
        raise
    except Exception:
        return False


def probes(mentioned: Iterable[Plain]) -> list[Plain]:
    """The values mentioned, and one in every gap that they leave, also between texts of numbers.

    >>> probes([3, 4]), probes(["a"])
    ([3, 4, 3.5, 2, 5, 0], ['a', 0])
    """
    some = list(mentioned)
    numbers = sorted({number for v in some if (number := _finite(v)) is not None})
    gaps = [_middle(low, high) for low, high in pairwise(numbers)]
    ends = [numbers[0] - 1, numbers[-1] + 1] if numbers else []
    return [*some, *gaps, *ends, unlike(some)]


def _finite(value: Plain) -> int | float | None:
    """Return the number that a value is, or spells; None where it is none, or not finite."""
    if isinstance(value, int):  # it may be too large for a float
        return None if isinstance(value, bool) else value
    try:
        number = float(value) if isinstance(value, str | float) else None
    except ValueError:
        return None
    return number if number is not None and isfinite(number) else None


def _middle(low: int | float, high: int | float) -> int | float:
    """Return a number between two, exactly where a float cannot say it."""
    exact = (Fraction(low) + Fraction(high)) / 2
    if abs(exact) >= 1 << 53:
        return int(exact)
    return float(exact)


def unlike(some: Iterable[Plain]) -> int:
    """A value that is none of these. It is a whole number, which every family can read.

    >>> unlike(["a"]), unlike([0, 1, 1.0])
    (0, 2)
    """
    taken = {key_of(value) for value in some}
    return next(number for number in count() if key_of(number) not in taken)
