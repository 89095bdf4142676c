"""The class of causes: its patterns by naive enumeration, its dimension by exact search."""

import json
import random
from itertools import combinations
from typing import Any

import numpy as np
import pytest

import littlestone as ls
from classes import targets
from littlestone._classes.base import points_of
from littlestone._classes.dimension import Shattering, tabulate
from littlestone._classes.specs import BadSpec, class_from_json, class_to_json, parse_spec
from littlestone._hypotheses.causes import Cause, Condition
from littlestone.errors import BadClass, BadExample, TooLarge

COLUMNS: dict[str, list[Any]] = {
    "one": ["a"],
    "two": ["a", "b"],
    "three": ["a", "b", "c"],
    "a range": [ls.Ranges("s", [1, 2.5, 10])],
    "mixed": ["a", ls.Ranges("s", [1, 2.5, 10])],
    "uneven": ["a", ls.Ranges("s", range(4)), "b"],
    "two ranges": [ls.Ranges("s", range(6)), "a", ls.Ranges("t", [0])],
}


def points(cls: ls.Causes, values: int) -> list[Any]:
    """Rows with some values in each column of text, and one number in each cell."""
    return points_of(
        {
            name: (None, *c.edges) if isinstance(c, ls.Ranges) else tuple(range(values))
            for name, c in zip(cls.names, cls.columns, strict=True)
        }
    )


def dyadic_ranges(cells: int) -> set[tuple[int, int]]:
    """The ranges of cells by halving, the whole line left out."""
    size = 1
    while size < cells:
        size *= 2
    found: set[tuple[int, int]] = set()

    def halve(start: int, end: int) -> None:
        if start < cells:
            found.add((start, min(end, cells)))
            if end - start > 1:
                halve(start, (start + end) // 2)
                halve((start + end) // 2, end)

    halve(0, size)
    return found - {(0, cells)}


def naive_patterns(cls: ls.Causes, x: dict[str, Any]) -> set[Cause]:
    """Every cause of the class that holds for a row, out of all that could."""
    every: list[Condition] = []
    for c in cls.columns:
        if isinstance(c, ls.Ranges):
            for start, end in dyadic_ranges(c.cells):
                low = c.edges[start - 1] if start else None
                high = c.edges[end - 1] if end < c.cells else None
                every.append(Condition(c.column, low=low, high=high))
        else:
            every.append(Condition(c, x[c]))
    return {
        Cause(some)
        for width in range(1, cls.width + 1)
        for some in combinations(every, width)
        if len({condition.column for condition in some}) == width and Cause(some)(x)
    }


@pytest.mark.parametrize("width", [1, 2, 3])
@pytest.mark.parametrize("name", COLUMNS)
def test_patterns_are_those_of_the_definition(name: str, width: int) -> None:
    cls = ls.Causes(COLUMNS[name], width)
    most = 0
    for x in points(cls, 2):
        found = cls.patterns_of(x)
        assert len(set(found)) == len({cause.key for cause in found}) == len(found)
        assert set(found) == naive_patterns(cls, x)
        assert all(cause(x) and cls.lists(cause) for cause in found)
        widths = [sum(cause.width == w for cause in found) for w in range(1, width + 1)]
        assert all(n <= most for n, most in zip(widths, cls.pattern_counts, strict=True))
        most = max(most, len(found))
    assert most == cls.patterns == sum(cls.pattern_counts)


@pytest.mark.parametrize("edges", range(1, 40))
def test_a_number_lies_in_at_most_log_ranges(edges: int) -> None:
    ranges = ls.Ranges("s", [n / 2 for n in range(edges)])
    assert ranges.count == max(map(len, ranges.conditions)) == int(np.ceil(np.log2(edges + 1)))
    listed = {condition for some in ranges.conditions for condition in some}
    assert len(listed) == len(dyadic_ranges(edges + 1))
    assert all(condition in ranges for condition in listed)
    for low, high in combinations([None, *ranges.edges, None], 2):
        if low is not None or high is not None:
            condition = Condition("s", low=low, high=high)
            assert (condition in ranges) == (condition in listed)


def test_cells_of_a_batch_are_those_of_its_numbers() -> None:
    ranges = ls.Ranges("age", [-1, 18, 30.5, 2**53 + 1])
    cells: list[Any] = [
        None,
        float("nan"),
        -2,
        -1,
        "17.9",
        18,
        30.4,
        "30.5",
        2**53,
        2**53 + 2,
        "NA",
    ]
    expected = [0, 0, 0, 1, 1, 2, 2, 3, 3, 4, 0]
    assert [ranges.cell(value) for value in cells] == expected
    assert ranges.cells_of(np.array(cells, dtype=object)).tolist() == expected
    numbers = np.array([np.nan, -1, 18, 30.5, 2.0**53, 2.0**53 + 2])
    assert ranges.cells_of(numbers).tolist() == [0, 1, 2, 3, 3, 4]
    assert ranges.cells_of(np.array([-5, 17, 18])).tolist() == [0, 1, 2]
    with pytest.raises(BadExample, match="is not a number"):
        ranges.cells_of(np.array(["old"], dtype=object))


@pytest.mark.parametrize("edges", [[], [3, 2], [1, 1.0], ["a"], [float("nan")], None])
def test_bad_edges_get_a_sentence(edges: Any) -> None:
    with pytest.raises(BadClass, match=r"edge.* of 's'|column 's' needs"):
        ls.Ranges("s", edges)


def test_bad_parameters_get_a_sentence() -> None:
    for width in (0, 4, 1.5, True, "2"):
        with pytest.raises(BadClass, match="width must be a whole number from 1 to 3"):
            ls.Causes(["a"], width)  # type: ignore[arg-type]
    with pytest.raises(BadClass, match="limit must be a whole number from 1 to 100"):
        ls.Causes(["a"], limit=0)
    with pytest.raises(BadClass, match="column 'a' is named twice"):
        ls.Causes(["a", ls.Ranges("a", [1])])
    bad: list[Any] = ["version", ls.Ranges("a", [1]), None]
    columns: Any
    for columns in bad:
        with pytest.raises(BadClass, match="columns are a list of names and Ranges"):
            ls.Causes(columns)
    for columns in ([7], [""], []):
        with pytest.raises(BadClass, match="column"):
            ls.Causes(columns)


def test_reading() -> None:
    cls = ls.Causes(["a", ls.Ranges("s", [1])], width=2)
    assert cls.reads == {"a": "value", "s": "number"}
    with pytest.raises(BadExample, match="'many' is not a number"):
        cls.check({"a": 1, "s": "many"})
    with pytest.raises(BadExample, match="no column 's'"):
        cls.check({"a": 1})
    assert cls.readable({"a": np.array([1, 2]), "s": np.array(["1", "many"])}).tolist() == [
        True,
        False,
    ]


def test_members() -> None:
    cls = ls.Causes(["a", "b", ls.Ranges("s", [1, 2, 3])], width=2, limit=2)
    a, b = Cause((Condition("a", 1),)), Cause((Condition("b", 1),))
    upper = Cause((Condition("s", low=2),))
    both = Cause((*a.conditions, *upper.conditions))
    inside = [ls.NEVER, *map(ls.any_of, ([a], [a, b], [upper], [both, b]))]
    assert all(rule in cls for rule in inside)
    assert all(cls.hypothesis(cls.restart(rule)) == rule for rule in inside)
    off_grid = Cause((Condition("s", low=1, high=3),))  # of edges, but not dyadic
    other_edge = Cause((Condition("s", low=1.5),))
    as_text = Cause((Condition("s", 2),))
    as_number = Cause((Condition("a", low=2),))
    wide = Cause((*both.conditions, *b.conditions))
    unknown = Cause((Condition("z", 1),))
    three = [a, b, upper]
    for causes in ([off_grid], [other_edge], [as_text], [as_number], [wide], [unknown], three):
        rule = ls.any_of(causes)
        assert rule not in cls
        assert cls.restart(rule) == cls.start()
    assert ls.one_of([1, 2], "a") not in cls


@pytest.mark.parametrize(
    ("columns", "width", "limit"),
    [("uneven", 2, 3), ("two ranges", 3, 2), ("three", 2, 4), ("a range", 1, 3), ("two", 1, 3)],
)
def test_the_learner_is_bounded_and_exact(columns: str, width: int, limit: int) -> None:
    """Random truths: the bound holds, and the rule is right on all rows in the end."""
    cls = ls.Causes(COLUMNS[columns], width, limit)
    rows = points(cls, 3)
    for seed in range(6):
        draw = random.Random(seed)
        patterns = sorted({p for x in rows for p in cls.patterns_of(x)}, key=lambda p: p.key)
        truth = ls.any_of(draw.sample(patterns, draw.randint(0, limit)))
        for state in (cls.start(), cls.restart(ls.any_of(draw.sample(patterns, limit)))):
            start, mistakes = state, 0
            for x in draw.sample(rows, len(rows)) * 3:
                rule = cls.hypothesis(state)
                assert rule is not None
                if rule(x) != truth(x):
                    state, mistakes = cls.learn(state, x, truth(x)), mistakes + 1
            assert mistakes <= cls.mistake_bound + (limit if start != cls.start() else 0)
            rule = cls.hypothesis(state)
            assert rule is not None
            assert all(rule(x) == truth(x) for x in rows)


def test_more_causes_than_the_limit_fit_no_rule() -> None:
    cls = ls.Causes(["a"], limit=2)
    state = cls.start()
    for value in (1, 2):
        state = cls.learn(state, {"a": value}, 1)
    assert str(cls.hypothesis(state)) == "a = 1 or a = 2"
    assert cls.learn(state, {"a": 3}, 1) == ls.INCONSISTENT
    assert cls.learn(state, {"a": 1}, 0) == ls.INCONSISTENT


@pytest.mark.parametrize("name", ["two ranges", "uneven"])
def test_different_rules_of_ranges_are_told_apart(name: str) -> None:
    """Unless they are one function, as `s < 1 or s >= 1` is `always`."""
    cls = ls.Causes(COLUMNS[name], width=2, limit=3)
    rows, draw = points(cls, 3), random.Random(1)
    patterns = sorted({p for x in rows for p in cls.patterns_of(x)}, key=lambda p: p.key)
    for _ in range(150):
        one, other = (ls.any_of(draw.sample(patterns, draw.randint(0, 3))) for _ in range(2))
        if [one(x) for x in rows] == [other(x) for x in rows]:
            with pytest.raises(TooLarge, match="no example was found"):
                cls.disagreement(one, other)
        else:
            x = cls.disagreement(one, other)
            assert one(x) != other(x)
            cls.check(x)
    cls.check(cls.disagreement(ls.ALWAYS, ls.NEVER))


SEARCHED = [
    *((name, width, 1) for name in ("one", "two", "three", "a range", "mixed") for width in (1, 2)),
    ("three", 3, 1), ("uneven", 2, 1), ("one", 1, 2), ("one", 1, 3), ("two", 1, 2), ("two", 2, 2),
    ("three", 1, 2), ("a range", 1, 2), ("a range", 1, 3), ("mixed", 1, 2),
]  # fmt: skip


@pytest.mark.parametrize(("name", "width", "limit"), SEARCHED)
def test_bounds_hold_and_meet_the_exact_search(name: str, width: int, limit: int) -> None:
    """On three values a column, which the trees of the lower bounds here do not exceed."""
    cls = ls.Causes(COLUMNS[name], width, limit)
    rows = points(cls, 3)
    table = tabulate(targets(cls, rows), rows)
    exact = Shattering(table).dimension(table.everything)
    least, most = cls.dimension_bounds
    assert least <= exact <= most <= cls.mistake_bound
    if least == most:
        assert cls.dimension == exact
    else:
        with pytest.raises(TooLarge, match=f"it is from {least} to {most}"):
            cls.dimension  # noqa: B018
        with pytest.raises(TooLarge):
            cls.finite_core()


def test_one_cause_is_exact_for_common_sizes() -> None:
    """A slip in a bound would open a gap here."""
    gaps = {
        (columns, width)
        for columns in range(1, 10)
        for width in (1, 2, 3)
        if len(set(ls.Causes([f"c{n}" for n in range(columns)], width, 1).dimension_bounds)) > 1
    }
    assert gaps == {(6, 3), (8, 2), (8, 3), (9, 3)}
    for columns in (1, 2, 5, 8):
        names = [f"c{n}" for n in range(columns)]
        assert ls.Causes(names, limit=1).dimension == ls.Rules(names).dimension
    assert ls.Causes(["a"], limit=5).dimension == ls.Sets(5).dimension


@pytest.mark.parametrize(
    ("columns", "width", "limit", "known"),
    [
        (["a", "b", "c", "d", "e"], 2, 1, 4),
        (["a", "b", "c", "d", "e"], 3, 1, 5),
        (["a", "b", ls.Ranges("s", range(7))], 3, 1, 4),
        (["a", "b", ls.Ranges("s", range(7)), ls.Ranges("t", [1, 2])], 2, 1, 5),
        ([ls.Ranges("s", range(15))], 1, 1, 3),
        ([ls.Ranges("s", [1, 2])], 1, 3, 3),
        (["a", "b"], 1, 2, 4),
        (["a"], 3, 6, 6),
    ],
)
def test_shattered_trees_prove_the_dimension(
    columns: Any, width: int, limit: int, known: int
) -> None:
    cls = ls.Causes(columns, width, limit)
    assert cls.dimension == known
    assert ls.shattered_depth(ls.witness(cls)) == known


@pytest.mark.parametrize(
    ("spec", "cls"),
    [
        ("causes:a,b", ls.Causes(["a", "b"])),
        ("causes:a:2", ls.Causes(["a"], 2)),
        ("causes:a,b:3:4", ls.Causes(["a", "b"], 3, 4)),
        ("causes:age@18/30/65,a:2", ls.Causes([ls.Ranges("age", [18, 30, 65]), "a"], 2)),
        ("causes:t@-3/-1.5/1e3", ls.Causes([ls.Ranges("t", [-3, -1.5, 1000])])),
        (r"causes:user\@host,a\:b,c\,d@7", ls.Causes(["user@host", "a:b", ls.Ranges("c,d", [7])])),
        ("causes:a/b,c", ls.Causes(["a/b", "c"])),
    ],
)
def test_specifications(spec: str, cls: ls.Causes) -> None:
    found = parse_spec(spec)
    assert found == cls
    assert repr(found) == repr(cls)
    assert class_from_json(json.loads(json.dumps(class_to_json(found)))) == cls


@pytest.mark.parametrize(
    ("spec", "marked", "sentence"),
    [
        ("causes", "", "COLUMNS is missing: causes:COLUMN,COLUMN,...[:WIDTH[:LIMIT]]"),
        ("causes:", "", "a column name is missing"),
        ("causes:a,,b", ",", "a column name is missing"),
        ("causes:@3", "@", "a column name is missing"),
        ("causes:a,a@3", "a", "column 'a' is named twice"),
        ("causes:a@", "", "an edge is a number: '' is not; write a@18/30/65"),
        ("causes:a@1/two/3", "two", "an edge is a number: 'two' is not; write a@18/30/65"),
        ("causes:a@1/3/2", "2", "edges must increase: 2 comes after 3"),
        ("causes:a@1/inf", "1/inf", "not a finite number"),
        ("causes:a@1@2", "@2", r"column 'a' has edges twice: write a name with an at sign as \@"),
        ("causes:a:x", "x", "WIDTH is a whole number: 'x' is not"),
        ("causes:a:1.5", "1.5", "WIDTH is a whole number: '1.5' is not"),
        ("causes:a:4", "4", "width must be a whole number from 1 to 3, not 4"),
        ("causes:a:1:0", "0", "limit must be a whole number from 1 to 100, not 0"),
        ("causes:a:1:2:3", "3", "one part too many"),
    ],
)
def test_errors_say_where(spec: str, marked: str, sentence: str) -> None:
    with pytest.raises(BadSpec) as caught:
        parse_spec(spec)
    said, shown, marks = str(caught.value).split("\n")
    assert sentence in said
    assert shown.strip() == spec
    part = spec[marks.index("^") - 2 : len(marks) - 2]
    assert part == marked
