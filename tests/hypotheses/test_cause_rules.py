"""Causes and their rules: one form for one set of causes, and a batch is its rows."""

import json
import random
from typing import Any

import numpy as np
import pytest

import littlestone as ls
from littlestone._hypotheses.causes import (
    AnyOf,
    Cause,
    Condition,
    any_of,
    cause_from_json,
    cause_from_key,
    causes_of,
    condition_from_json,
    match_counts,
)
from littlestone._hypotheses.rows import column_of
from littlestone.errors import BadClass, BadExample

CELLS: list[Any] = [
    "x",
    "y",
    "",
    None,
    1,
    "1",
    1.0,
    True,
    "True",
    -0.0,
    "0.0",
    b"x",
    10**30,
    ("t",),
]
NUMBERS: list[Any] = [
    17,
    17.9,
    "18",
    18,
    18.0,
    29.999,
    30,
    "NA",
    None,
    float("nan"),
    True,
    "",
    1e300,
]
LIMITS = [None, 1, 18, 29.5, 30]


def cause(**equal: Any) -> Cause:
    """Return a cause of equalities."""
    return Cause(tuple(Condition(name, value) for name, value in equal.items()))


def ranged(low: float | None, high: float | None, **equal: Any) -> Cause:
    """Return a cause with a range of `n`, and equalities."""
    conditions = tuple(Condition(name, value) for name, value in equal.items())
    return Cause((*conditions, Condition("n", low=low, high=high)))


def drawn_cause(draw: random.Random) -> Cause:
    found = [Condition(name, draw.choice(CELLS)) for name in draw.sample("abc", draw.randint(0, 2))]
    low, high = sorted(draw.sample(range(len(LIMITS)), 2))
    if not found or draw.random() < 0.4:
        top = None if draw.random() < 0.3 and low else LIMITS[high]
        found.append(Condition("n", low=LIMITS[low], high=top))
    return Cause(tuple(found))


def drawn_rows(draw: random.Random, count: int) -> list[dict[str, Any]]:
    return [
        {**{name: draw.choice(CELLS) for name in "abc"}, "n": draw.choice(NUMBERS)}
        for _ in range(count)
    ]


def naive(one: Cause, row: dict[str, Any]) -> bool:
    """Whether a cause holds, from the rules of its conditions, one by one."""
    for condition in one.conditions:
        if condition.is_range:
            rule = ls.between(condition.low, condition.high, condition.column)
        else:
            rule = ls.one_of([condition.value], condition.column)
        if not rule(row):
            return False
    return True


@pytest.mark.parametrize("seed", range(40))
def test_a_batch_is_its_rows(seed: int) -> None:
    draw = random.Random(seed)
    causes = [drawn_cause(draw) for _ in range(draw.randint(1, 6))]
    rows = drawn_rows(draw, 50)
    expected = [[naive(one, row) for one in causes] for row in rows]
    assert [[one(row) for one in causes] for row in rows] == expected
    columns = {name: np.fromiter((row[name] for row in rows), dtype=object) for name in "abcn"}
    rule = any_of(causes)
    for batch in (rows, columns):
        assert rule.predict(batch).tolist() == [any(some) for some in expected]
        counts, first = match_counts(causes, batch)
        assert counts.dtype == first.dtype == np.int8
        assert counts.tolist() == [sum(some) for some in expected]
        assert first.tolist() == [some.index(True) if any(some) else -1 for some in expected]
        assert [one.predict(batch).tolist() for one in causes] == [
            list(c) for c in zip(*expected, strict=True)
        ]
    assert [rule(row) for row in rows] == [any(some) for some in expected]


@pytest.mark.parametrize("dtype", ["U3", "object", "i8", "f8", "S3"])
def test_arrays_of_every_type(dtype: str) -> None:
    draw = random.Random(dtype)
    a, b, n = (np.array(draw.choices(range(4), k=200)).astype(dtype) for _ in range(3))
    if dtype == "object":
        a[:5] = None
    causes = [
        cause(a=1, b=2), cause(a="1.0"), cause(b=3), cause(b="2.0"), cause(a=None),
        ranged(1, 3, a=2), ranged(None, 1, a=0), ranged(2.5, None, b=0),
    ]  # fmt: skip
    rows = [{"a": x, "b": y, "n": z} for x, y, z in zip(a, b, n, strict=True)]
    counts, _ = match_counts(causes, {"a": a, "b": b, "n": n})
    assert counts.tolist() == [sum(naive(one, row) for one in causes) for row in rows]
    assert counts.any()


def test_no_causes_match_nothing() -> None:
    counts, first = match_counts([], {"a": np.arange(3)})
    assert (counts.tolist(), first.tolist()) == ([0, 0, 0], [-1, -1, -1])


def test_ranges_hold_at_their_lower_limit_and_not_at_the_upper() -> None:
    adult = ranged(18, 30)
    rows: list[Any] = [17.999, 18, "18", np.float32(29.5), 30, "30.0", None, "NA", float("nan")]
    expected = [False, True, True, True, False, False, False, False, False]
    assert [adult({"n": n}) for n in rows] == expected
    assert adult.predict({"n": rows}).tolist() == expected
    young = ranged(None, 18)
    assert (
        young.predict({"n": rows}).tolist()
        == [True, False, False, False, False, False] + [True] * 3
    )
    beyond = ranged(2**53 + 1, None)  # a limit that no float has
    assert beyond.predict({"n": np.array([2.0**53, 2.0**53 + 2])}).tolist() == [False, True]


def test_a_column_that_cannot_be_read_raises_in_rows_and_batches() -> None:
    rule = any_of([cause(a=1), ranged(18, None)])
    for row in ({"a": 1}, {"a": 1, "n": "old"}, {"n": 20}, {"a": object(), "n": 20}):
        with pytest.raises(BadExample):
            rule(row)
        with pytest.raises(BadExample):
            rule.predict([row])
    with pytest.raises(BadExample, match="row 1: 'old' is not a number"):
        rule.predict({"a": [1, 1], "n": np.array([1, "old"], dtype=object)})
    several = any_of([cause(a=1), cause(a=2)])
    with pytest.raises(BadExample, match="row 1: a value of type object"):
        several.predict({"a": np.array([1, object()], dtype=object)})


@pytest.mark.parametrize("seed", range(40))
def test_keys_and_json_are_read_back(seed: int) -> None:
    draw = random.Random(seed)
    causes = [drawn_cause(draw) for _ in range(5)]
    for one in causes:
        assert cause_from_key(one.key) == one
        assert cause_from_json(json.loads(json.dumps(one.to_json()))) == one
        for condition in one.conditions:
            assert condition_from_json(json.loads(json.dumps(condition.to_json()))) == condition
    for other in causes[1:]:
        assert (causes[0].key == other.key) == (causes[0] == other)
    rule = any_of(causes)
    again = ls.rule_from_json(json.loads(json.dumps(rule.to_json())))
    assert (again, str(again), again.key, hash(again)) == (rule, str(rule), rule.key, hash(rule))
    assert any_of(causes_of(rule)) == any_of(reversed(causes)) == rule


def test_equal_causes_have_one_key() -> None:
    forms = [cause(a=3, b="x"), cause(b="x", a="3"), cause(b=b"x", a=np.int8(3))]
    assert len({one.key for one in forms}) == len(set(forms)) == 1
    assert ranged(18.0, None) == ranged(18, None)
    different = [
        cause(a="1.0"),
        cause(a=1),
        cause(a="True "),
        cause(a=None),
        cause(a="None"),
        cause(b=1),
    ]
    assert len({one.key for one in different}) == len(different)
    # A range from 1 to 2 is not the value (1, 2), nor a tuple of three.
    assert Condition("n", (1, 2)).key != Condition("n", low=1, high=2).key


@pytest.mark.parametrize(
    "data",
    [
        {"column": "a"}, {"column": "a", "value": "1"}, {"column": "a", "value": 1.0},
        {"column": "n", "low": 1.0, "high": None}, {"column": "n", "low": 1},
        {"column": "n", "low": None, "high": None}, {"column": "a", "value": 1, "more": 2},
        {"column": "", "value": 1}, {"column": "n", "low": 3, "high": 2}, [], None, "a",
    ],
)  # fmt: skip
def test_json_that_no_condition_wrote_is_refused(data: Any) -> None:
    with pytest.raises(BadExample, match="is not a condition that littlestone wrote"):
        condition_from_json(data)
    with pytest.raises(BadExample):
        ls.rule_from_json({"kind": "any of", "causes": [[data, {"column": "b", "value": "x"}]]})


def test_rules_in_another_form_are_refused() -> None:
    wide, narrow = cause(a=1), cause(a=1, b="x")
    good = any_of([cause(a=2), narrow]).to_json()
    assert ls.rule_from_json(good)
    bad: list[Any] = [
        [wide.to_json(), narrow.to_json()],  # one contains the other
        [narrow.to_json(), cause(a=2).to_json()],  # not sorted
        [wide.to_json()],  # has the form of `one_of`
        [[*narrow.to_json()][::-1]],  # conditions not sorted
        [[]], [], {}, None, "all",
    ]  # fmt: skip
    for causes in bad:
        with pytest.raises(BadExample, match="is not a rule that littlestone wrote"):
            ls.rule_from_json({"kind": "any of", "causes": causes})


def test_bytes_that_are_no_key_are_refused() -> None:
    key = cause(a=1, b="x").key
    for bad in (b"", b"n", b"t", b"rubbish", key[:-1], key + b"x", Condition("a", 1).key, b"\xff"):
        with pytest.raises(BadExample, match="is not the key of a cause"):
            cause_from_key(bad)


def test_causes_that_another_contains_are_left_out() -> None:
    assert any_of([cause(a=1, b=2), cause(a=1)]) == ls.one_of([1], "a")
    assert any_of([ranged(18, 30), ranged(None, 30)]) == ls.between(None, 30, "n")
    assert any_of([ranged(18, 30, a=1), ranged(None, 30)]) == ls.between(None, 30, "n")
    kept = any_of([ranged(18, 30, a=1), ranged(None, 30, a=1), ranged(18, 30, a=2)])
    assert str(kept) == "(a = 1 and n < 30) or (a = 2 and 18 <= n < 30)"
    # An equality with a number inside a range reads the text, not the number: both stay.
    assert len(causes_of(any_of([ranged(18, 30), cause(n=20)]))) == 2


@pytest.mark.parametrize("seed", range(30))
def test_containing_means_holding_wherever_the_other_does(seed: int) -> None:
    draw = random.Random(seed)
    rows = drawn_rows(draw, 300)
    causes = [drawn_cause(draw) for _ in range(12)]
    masks = [one.predict(rows) for one in causes]
    for one, mask in zip(causes, masks, strict=True):
        assert one.contains(one)
        for other, narrow in zip(causes, masks, strict=True):
            if one.contains(other):
                assert not (narrow & ~mask).any()
                assert not other.contains(one) or one == other
    without = any_of(causes)
    assert without.predict(rows).tolist() == np.any(masks, axis=0).tolist()


def test_rules_print_like_those_of_other_classes() -> None:
    assert any_of([]) is ls.NEVER
    assert any_of([cause(version="4.2.1")]) == ls.one_of(["4.2.1"], "version")
    assert any_of([ranged(18, None)]) == ls.between(18, None, "n")
    assert str(cause(version="4.2.1", country="SE")) == "country = 'SE' and version = '4.2.1'"
    rule = any_of([cause(v="b", c=1), cause(d="K9"), cause(v="a"), ranged(1, 2), cause(d=7)])
    assert str(rule) == "d = 7 or d = 'K9' or 1 <= n < 2 or v = 'a' or (c = 1 and v = 'b')"
    assert str(ls.negation(rule)) == f"not ({rule})"
    assert ls.negation(ls.negation(rule)) == rule
    assert rule.mentions() == {"d": (7, "K9"), "n": (1, 2), "v": ("a", "b"), "c": (1,)}
    assert rule._repr_html_().startswith("<code>")


def test_causes_of_other_rules() -> None:
    assert causes_of(ls.NEVER) == ()
    assert causes_of(ls.between(None, 3, "n")) == (ranged(None, 3),)
    foreign = [
        ls.ALWAYS, ls.one_of([1, 2], "a"), ls.one_of([1]), ls.negation(ls.one_of([1], "a")),
        ls.steps(True, [1, 2], "n"), ls.steps(False, [1, 2, 3], "n"), ls.between(1, 2),
    ]  # fmt: skip
    for rule in foreign:
        with pytest.raises(BadClass, match="is not an or of causes"):
            causes_of(rule)


def test_what_is_no_cause_gets_a_sentence() -> None:
    with pytest.raises(BadClass, match="1 to 3 conditions, not 0"):
        Cause(())
    with pytest.raises(BadClass, match="1 to 3 conditions, not 4"):
        cause(a=1, b=2, c=3, d=4)
    with pytest.raises(BadClass, match="one condition for each column"):
        Cause((Condition("a", 1), Condition("a", 2)))
    with pytest.raises(BadClass, match="no number lies in the range"):
        Condition("n", low=3, high=3)
    with pytest.raises(BadClass, match="a value or limits, not both"):
        Condition("n", 1, low=3)
    with pytest.raises(BadClass, match="a column is named by a string"):
        Condition(7, 1)  # type: ignore[arg-type]
    with pytest.raises(BadExample, match="not a finite number"):
        Condition("n", low=float("inf"))
    with pytest.raises(BadClass, match="is not a cause"):
        any_of([Condition("a", 1)])  # type: ignore[list-item]


def test_each_column_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted, because predicting is on the path of every row."""
    from littlestone._hypotheses import causes as module

    read: list[str] = []

    def counted(X: Any, column: str, kind: Any = None) -> Any:
        read.append(column)
        return column_of(X, column, kind)

    monkeypatch.setattr(module, "column_of", counted)
    rule = any_of([cause(a=1, b=2), cause(a=1, b=3), cause(a=2), ranged(1, 2, b=9), ranged(2, 3)])
    assert isinstance(rule, AnyOf)
    rule.predict({name: np.arange(9) for name in "abn"})
    assert sorted(read) == ["a", "b", "n"]
