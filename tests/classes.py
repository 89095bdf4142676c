"""The classes that the contract suite runs on: every family, small enough to be searched whole."""

from itertools import chain, combinations

import littlestone as ls
from contributing import example
from littlestone._classes.base import points_of
from littlestone._hypotheses.rows import value_of
from littlestone._hypotheses.values import encode

COLUMNS = ["a", "b", "c"]
ROWS = points_of(dict.fromkeys(COLUMNS, (0, 1, 2)))
PAIRS = points_of(dict.fromkeys(["a", "b"], (0, 1, 2)))
TRUTHS = points_of(dict.fromkeys(COLUMNS, (False, True)))
TABLE = [[0, 0, 1, 1], [0, 1, 0, 1], [1, 1, 0, 0], [1, 0, 0, 1], [0, 0, 0, 0], [1, 1, 1, 0]]
VALUES: list[object] = ["red", 1, True, 1.0, None]


def targets(cls: ls.HypothesisClass, points: list[object]) -> list[ls.Hypothesis]:
    """Rules of the class that the points tell apart, one for each way to label them."""
    if cls.size is not None:
        rules = list(cls.hypotheses())
    elif isinstance(cls, ls.Complement):
        rules = [ls.negation(rule) for rule in targets(cls.of, points)]
    elif isinstance(cls, ls.Union):
        rules = [rule for member in cls.members for rule in targets(member, points)]
    elif isinstance(cls, ls.Rules):
        rules = [ls.NEVER, *(ls.one_of([v], c) for c in cls.columns for v in (0, 1, 2))]
    elif isinstance(cls, ls.Causes):
        patterns = dict.fromkeys(cause for x in points for cause in cls.patterns_of(x))
        several = chain.from_iterable(combinations(patterns, n) for n in range(cls.limit + 1))
        rules = [ls.any_of(causes) for causes in several]
    elif isinstance(cls, ls.Sets):
        values = {encode(v): v for v in (value_of(x, cls.column) for x in points)}.values()
        some = chain.from_iterable(combinations(values, size) for size in range(cls.k + 1))
        rules = [ls.one_of(chosen, cls.column) for chosen in some]
    else:
        rules = cls.finite_core()[0]
    return list({tuple(map(rule, points)): rule for rule in rules}.values())


def column(name: str, values: list[object]) -> list[object]:
    """Rows of one column."""
    return [{name: value} for value in values]


EDGES = [1, 2.5, 10]
GROUPS: ls.HypothesisClass = example("a hypothesis class")["Groups"](
    ["SE", "NO"], ["FR", "IT"], ["US"]
)
NUMBERS: list[object] = [-3, 0, 1, 2.5, 3, 4, 5, 99]

CASES: dict[str, tuple[ls.HypothesisClass, list[object]]] = {
    "points": (ls.Points(), VALUES),
    "points of a column": (ls.Points(column="m"), column("m", VALUES)),
    "sets": (ls.Sets(2), VALUES),
    "sets of a column": (ls.Sets(3, column="m"), column("m", VALUES)),
    "rules": (ls.Rules(COLUMNS), ROWS),
    "rules by majority": (ls.Rules(COLUMNS, guess="majority"), ROWS),
    "thresholds": (ls.Thresholds(0, 5), NUMBERS),
    "thresholds of a column": (ls.Thresholds(0, 1, 0.25, "s"), column("s", [0, 0.25, 0.5, 0.9, 1])),
    "bins": (ls.Bins([0, 1, 4.5]), NUMBERS),
    "bins of a column": (ls.Bins([0.25, 1, 3], "s"), column("s", [None, 0, 0.25, 1, 3, 99])),
    "intervals": (ls.Intervals(0, 5), NUMBERS),
    "intervals of a column": (ls.Intervals(0, 4, 2, "s"), column("s", [0, 2, 3.9, 4])),
    "conjunctions": (ls.Conjunctions(COLUMNS), TRUTHS),
    "monotone conjunctions": (ls.Conjunctions(COLUMNS, negation=False), TRUTHS),
    "one cause": (ls.Causes(COLUMNS, limit=1), ROWS),
    "two causes": (ls.Causes(["a", "b"], limit=2), PAIRS),
    "declared values": (ls.Causes(["a", "b"], limit=1, values={"b": ["q", 1, None]}), PAIRS),
    "a cause of two conditions": (ls.Causes(["a", "b"], width=2, limit=1), PAIRS),
    "a cause with ranges": (
        ls.Causes(["a", ls.Ranges("s", EDGES)], width=2, limit=1),
        points_of({"a": (0, 1, 2), "s": (None, *EDGES)}),
    ),
    "table": (ls.FiniteClass(TABLE), [0, 1, 2, 3]),
    "table by halving": (ls.FiniteClass(TABLE, vote="halving"), [0, 1, 2, 3]),
    "table by first": (ls.FiniteClass(TABLE, "wxyz", vote="first"), list("wxyz")),
    "complement": (ls.Complement(ls.Points(column="m")), column("m", VALUES)),
    "complement of thresholds": (ls.Complement(ls.Thresholds(0, 5)), NUMBERS),
    "union": (ls.Union(ls.Points(), ls.Complement(ls.Points())), VALUES),
    "union on a grid": (ls.Union(ls.Thresholds(0, 5), ls.Intervals(0, 5)), NUMBERS),
    "union of columns": (
        ls.Union(ls.Points("a"), ls.Thresholds(0, 2, 1, "b")),
        points_of({"a": (0, 1, 2), "b": (0, 1, 2)}),
    ),
    "union of a grid and points": (ls.Union(ls.Sets(2), ls.Intervals(0, 3)), [0, 1, 1.5, 2, 3]),
    "union of votes": (
        ls.Union(ls.Rules(COLUMNS, guess="majority"), ls.Points("a")),
        ROWS,
    ),
    "contributed": (GROUPS, ["SE", "NO", "FR", "IT", "US"]),
}
