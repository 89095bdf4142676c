"""Define the protocol of hypothesis classes, and functions that all of them share.

A class has its own learner A (Section 2.1): a mistake-bounded, conservative learner, written as
pure functions on states. `learn` is called on a mistake only, and from then on the learner is right
on that example, so a mistake always changes its hypothesis. On a sample that no hypothesis of the
class fits, the hypothesis is None (the paper's bottom).
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import chain, count, islice, pairwise, product
from math import isfinite
from typing import Any, ClassVar, TypeVar

import numpy as np

from littlestone._display import facts, plural
from littlestone._hypotheses.cells import Kind, passes, plain_number
from littlestone._hypotheses.rows import Batch, Column, batch_length, read_examples, row_of
from littlestone._hypotheses.rules import Hypothesis
from littlestone._hypotheses.values import Mask, Plain, encode, key_of
from littlestone.errors import BadClass, BadExample, TooLarge


@dataclass(frozen=True, repr=False)
class VersionSpace:
    """Hold the version space of a learner. It depends on private data, so it does not print.

    Parameters
    ----------
    content : object
        What the class needs to know of the mistakes so far, immutable; None if inconsistent.
    """

    content: Any

    def __repr__(self) -> str:
        return "VersionSpace(private)"


# The state after an inconsistent sample: its hypothesis is None, and remains so.
INCONSISTENT = VersionSpace(None)


class HypothesisClass(ABC):
    """Define a set of hypotheses and a learner for it. Inherit from it to get the defaults."""

    # Whether the dimension has a closed form, so that it may be printed without a search.
    _closed: ClassVar[bool] = False

    @property
    @abstractmethod
    def dimension(self) -> int:
        """Return the Littlestone dimension: the depth of the deepest shattered mistake tree."""

    @property
    @abstractmethod
    def mistake_bound(self) -> int:
        """Return the most mistakes that the learner makes on a sample that the class fits."""

    @abstractmethod
    def start(self) -> VersionSpace:
        """Return the state before any example."""

    @abstractmethod
    def learn(self, state: VersionSpace, x: object, y: object) -> VersionSpace:
        """Return the state after a mistake.

        Returns `INCONSISTENT` if no rule of the class fits any more.

        Parameters
        ----------
        state : VersionSpace
            The state before.
        x, y : object
            The example and its label, which the rule of `state` got wrong.

        Raises
        ------
        BadExample
            If the class cannot read the example or the label, in whatever state.
        """

    @abstractmethod
    def hypothesis(self, state: VersionSpace) -> Hypothesis | None:
        """Return the rule of a state, or None if the sample was inconsistent."""

    @abstractmethod
    def disagreement(self, one: Hypothesis, other: Hypothesis) -> object:
        """Return a distinguishing example: one to which two rules give different labels.

        The class can read the example.

        Parameters
        ----------
        one, other : Hypothesis
            Different rules, such as the learner publishes.
        """

    @abstractmethod
    def __contains__(self, rule: object) -> bool:
        """Return whether a rule belongs to the class. A learner may publish rules that do not."""

    def predict(self, rule: Hypothesis, X: Any) -> Mask:
        """Return the labels that a rule gives to a batch.

        Parameters
        ----------
        rule : Hypothesis
            The rule.
        X : object
            The batch.
        """
        return rule.predict(X)

    def restart(self, rule: Hypothesis, last: VersionSpace | None = None) -> VersionSpace:
        """Return the state in which every learner begins an epoch: its rule is the published one.

        It is a function of the published rules alone, through `last`, so it is public. What they
        say about the target may be used, as long as a learner whose own examples contradict it
        goes by its examples. By default, and for a rule that is not of the class, this is
        `start()`.

        Parameters
        ----------
        rule : Hypothesis
            The published rule.
        last : VersionSpace, optional
            What this method returned for the rule published before; `start()` if there is none.
        """
        return self.start()

    @property
    def most_releases(self) -> int | None:
        """Return the most releases of trees of one leaf, whoever chooses the examples.

        This holds for a stream that a rule of the class fits, if every epoch begins with `restart`
        and is a search by votes (docs/theory.md, "Adversaries who react"). None if no bound is
        proved.
        """
        return None

    def check(self, x: object) -> None:
        """Raise `BadExample` unless the class can read the example, in whatever state."""
        # In the start state, with both labels: reading must not depend on what was learned.
        for y in (True, False):
            self.learn(self.start(), x, y)

    def readable(self, batch: Batch) -> Mask:
        """Return which rows of a batch pass `check`."""
        if _is_plain(self):
            return ~read_examples(batch, self.reads)[1]
        return _pass_check(self, batch)

    @property
    def reads(self) -> Mapping[Column, Kind]:
        """Return the columns that the class reads, and how; empty if that is unknown.

        In a file or a table 7 may be a number or a name. Where it is unknown, files are refused,
        the types of tables are taken as they come, and Lemma 0 (docs/guarantee.md) holds for lists
        only.
        """
        return {}

    @property
    def size(self) -> int | None:
        """Return the number of rules; None if there are infinitely many."""
        return None

    def hypotheses(self) -> Iterator[Hypothesis]:
        """Return every rule of a finite class, once."""
        raise TooLarge(f"{self!r} has infinitely many rules: they cannot be listed")

    def domain(self) -> dict[Column, tuple[Plain, ...]]:
        """Return, for each column that a finite class reads, values that distinguish its rules.

        In one order in every process: workers of a cluster number the points by it.
        """
        raise TooLarge(f"{self!r} reads infinitely many values: they cannot be listed")

    def _repr_html_(self) -> str:
        entries = {"rules": "infinitely many" if self.size is None else plural(self.size)}
        if self._closed:
            entries["Littlestone dimension"] = str(self.dimension)
        kinds = kinds_of(self)
        if kinds:
            read = (f"{name or 'the value itself'} (as a {kind})" for name, kind in kinds.items())
            entries["reads"] = ", ".join(read)
        return facts(repr(self), entries)

    def finite_core(self) -> tuple[list[Hypothesis], list[object]]:
        """Return a finite core: hypotheses, and points on which they have the dimension of all.

        The search for a shattered tree is over the finite core.
        """
        raise TooLarge(f"{self!r} has no finite core: it must define finite_core()")


def checked_class(cls: object) -> HypothesisClass:
    """Return a hypothesis class; raise `BadClass` if it is something else."""
    if not isinstance(cls, HypothesisClass):
        raise BadClass(f"{cls!r} is not a hypothesis class, such as Points() or Rules(['a', 'b'])")
    return cls


# What learners call instead of the methods of a class. A class may be a user's own, and raise on a
# row for which `readable` was true. An exception in the middle of a batch would stop the learner
# at a moment that depends on the data, which is outside the guarantee. So every function below is
# total: where the class raises, it returns a value that is a function of the same arguments.


def check_row(cls: HypothesisClass, x: object) -> None:
    """Raise `BadExample` unless a class can read an example, whatever the class raises itself."""
    try:
        cls.check(x)
    except (BadExample, MemoryError):
        raise
    except Exception as error:
        raise BadExample(f"{cls!r} cannot read the row: {type(error).__name__}: {error}") from error


def read_row(cls: HypothesisClass, x: object) -> object:
    """Return an example as a learner stores it, or raise `BadExample` if the class cannot read it."""
    check_row(cls, x)
    kinds = kinds_of(cls)
    if not kinds:
        return x
    if type(x) is dict or isinstance(x, Mapping):
        return {name: plain_number(x[name]) for name in kinds if name in x}
    return plain_number(x)


ClassT = TypeVar("ClassT", bound=type[HypothesisClass])

# What reads every plain row: the functions `check` and `reads` of a class, as it defines them.
_PLAIN_ROWS: list[tuple[object, object]] = []


def reads_plain_rows(made: ClassT) -> ClassT:
    """Declare that a class reads each row whose cells are plain values of the kinds in `reads`."""
    _PLAIN_ROWS.append((made.check, made.reads))
    return made


def _is_plain(cls: HypothesisClass) -> bool:
    """Return whether a class reads each row whose cells are of its kinds."""
    # Compared, not looked up: somebody's own class may have a dict where ours have a property.
    return (type(cls).check, type(cls).reads) in _PLAIN_ROWS


def _pass_check(cls: HypothesisClass, batch: Batch) -> Mask:
    """Return which rows of a batch pass the class's own check, row by row."""
    rows = range(batch_length(batch))
    passed = (passes(partial(check_row, cls), row_of(batch, row)) for row in rows)
    return np.fromiter(passed, dtype=bool, count=len(rows))


def readable_rows(cls: HypothesisClass, batch: Batch) -> Mask:
    """Return which rows of a batch, read by the kinds of a class, the class can read as well."""
    if _is_plain(cls) and type(cls).readable is HypothesisClass.readable:
        return np.ones(batch_length(batch), dtype=bool)
    try:
        return cls.readable(batch)
    except (BadExample, MemoryError):
        raise
    except Exception:  # its own answer raises: row by row
        return _pass_check(cls, batch)


def learn_row(
    cls: HypothesisClass, state: VersionSpace, x: object, y: bool
) -> tuple[VersionSpace, Hypothesis | None]:
    """Return the state after a mistake, and its rule; None where the class raises."""
    try:
        after = cls.learn(state, x, y)
        return after, cls.hypothesis(after)
    except MemoryError:
        raise
    except Exception:
        return INCONSISTENT, None


def predict_row(rule: Hypothesis, x: object) -> bool:
    """Return the label that a rule gives to an example; False where the rule raises."""
    try:
        return bool(rule(x))
    except MemoryError:
        raise
    except Exception:
        return False


def predict_rows(cls: HypothesisClass, rule: Hypothesis, batch: Batch) -> Mask:
    """Return the label that a rule gives to each row of a batch; False where the rule raises."""
    try:
        return cls.predict(rule, batch)
    except MemoryError:
        raise
    except Exception:
        rows = (predict_row(rule, row_of(batch, row)) for row in range(batch_length(batch)))
        return np.fromiter(rows, dtype=bool, count=batch_length(batch))


def disagreement_of(cls: HypothesisClass, one: Hypothesis, other: Hypothesis) -> list[object]:
    """Return a distinguishing example of two rules in a list, empty where the class finds none."""
    try:
        x = cls.disagreement(one, other)
    except MemoryError:
        raise
    except Exception:
        return []
    return [x] if distinguishes(x, one, other) else []


def kinds_of(cls: HypothesisClass) -> Mapping[Column, Kind]:
    """Return how each column is read; empty if that is unknown."""
    return cls.reads


# For each column the values to combine.
Domain = Mapping[Column, Sequence[Plain]]


def points_of(domain: Domain) -> list[object]:
    """Return every example over a domain: values, or rows where it has columns."""
    return list(_points(domain))


def _points(domain: Domain) -> Iterator[object]:
    if None in domain:
        return iter(domain[None])
    return (dict(zip(domain, row, strict=True)) for row in product(*domain.values()))


# The most examples that the search for a distinguishing example evaluates.
MOST_EXAMPLES_TRIED = 200_000


def distinguishing_example(one: Hypothesis, other: Hypothesis, column: Column = None) -> object:
    """Return a distinguishing example of two rules, searched over the values that they mention.

    The search is over a product of columns, so families that read many construct an example
    instead.

    Parameters
    ----------
    one, other : Hypothesis
        Different rules.
    column : str, optional
        The column of the example if the rules mention none.

    Raises
    ------
    TooLarge
        If there is none among the first `MOST_EXAMPLES_TRIED`.

    Examples
    --------
    >>> from littlestone._hypotheses.rules import one_of
    >>> distinguishing_example(one_of(["a"], "c"), one_of(["a", "b"], "c"))
    {'c': 'b'}
    """
    mentioned: dict[Column, dict[bytes, Plain]] = {}
    for name, values in chain(one.mentions().items(), other.mentions().items()):
        # By canonical bytes: 1 and True are different values.
        mentioned.setdefault(name, {}).update((encode(value), value) for value in values)
    domain = {name: _candidate_values(values.values()) for name, values in mentioned.items()}
    for x in islice(_points(domain or {column: (0,)}), MOST_EXAMPLES_TRIED):
        if distinguishes(x, one, other):
            return x
    raise TooLarge(f"none of {MOST_EXAMPLES_TRIED:,} examples distinguishes {one} from {other}")


def distinguishes(x: object, one: Hypothesis, other: Hypothesis) -> bool:
    """Return whether two rules can read an example and give it different labels."""
    try:
        return one(x) != other(x)
    except MemoryError:
        raise
    except Exception:
        return False


def _candidate_values(mentioned: Iterable[Plain]) -> list[Plain]:
    """Return the values mentioned, and one in every gap between them, numbers in text included."""
    values = list(mentioned)
    # Rules on numbers differ somewhere between two of their cuts, or beyond the last.
    numbers = sorted({number for v in values if (number := _finite(v)) is not None})
    gaps = [_middle(low, high) for low, high in pairwise(numbers)]
    ends = [numbers[0] - 1, numbers[-1] + 1] if numbers else []
    return [*values, *gaps, *ends, fresh_value(values)]


def _finite(value: Plain) -> int | float | None:
    """Return the number that a value is, or is the text of; None if it is not finite."""
    # It may be too large for a float.
    if isinstance(value, int):
        return None if isinstance(value, bool) else value
    try:
        number = float(value) if isinstance(value, str | float) else None
    except ValueError:
        return None
    return number if number is not None and isfinite(number) else None


def _middle(low: int | float, high: int | float) -> int | float:
    """Return a number between two."""
    exact = (Fraction(low) + Fraction(high)) / 2
    # From 2^53 on a float may round to one of the two.
    if abs(exact) >= 1 << 53:
        return int(exact)
    return float(exact)


def fresh_value(some: Iterable[Plain]) -> int:
    """Return a value that is none of these: a whole number, which every family can read."""
    taken = {key_of(value) for value in some}
    return next(number for number in count() if key_of(number) not in taken)
