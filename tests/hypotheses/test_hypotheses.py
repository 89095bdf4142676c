"""Rules: sentences, equality of functions, JSON, and exact comparison."""

import copy
from dataclasses import FrozenInstanceError, dataclass, fields
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import littlestone as ls
from littlestone._hypotheses.rows import Column
from littlestone._hypotheses.rules import Hypothesis
from littlestone._hypotheses.values import Mask, Plain, encode

untyped: Any = ls


@pytest.mark.parametrize(
    ("rule", "sentence"),
    [
        (ls.one_of(["4.2.1"], "version"), "version = '4.2.1'"),
        (ls.between(70, None, "score"), "score >= 70"),
        (ls.between(None, 0.5, "score"), "score < 0.5"),
        (ls.between(3, 9, "hour"), "3 <= hour < 9"),
        (ls.NEVER, "never"),
        (ls.ALWAYS, "always"),
        (ls.one_of(["b", "a"], "m"), "m in {'a', 'b'}"),
        (ls.all_of([("vip", False), ("new", True)]), "new and not vip"),
        (ls.at_least(1, [("a", 1), ("b", 2)]), "a = 1 or b = 2"),
        (ls.at_least(2, [("a", 1), ("b", 2)]), "a = 1 and b = 2"),
        (ls.at_least(2, [("a", 1), ("b", 2), ("c", 3)]), "at least 2 of: a = 1, b = 2, c = 3"),
        (ls.negation(ls.one_of(["M"], "m")), "m != 'M'"),
        (ls.negation(ls.between(3, 9, "hour")), "hour < 3 or hour >= 9"),
        (ls.steps(True, [1, 2, 3], "h"), "h < 1 or 2 <= h < 3"),
        (ls.steps(False, [1, 2, 3], "h"), "1 <= h < 2 or h >= 3"),
        (ls.negation(ls.all_of([("a", True), ("b", True)])), "not (a and b)"),
        (ls.negation(ls.all_of([("a", True)])), "not a"),
    ],
)
def test_sentences(rule: Hypothesis, sentence: str) -> None:
    assert str(rule) == sentence
    assert ls.rule_from_json(rule.to_json()) == rule
    assert ls.negation(ls.negation(rule)) == rule
    parts = [getattr(rule, field.name) for field in fields(rule)]
    keys = [part.key if isinstance(part, Hypothesis) else part for part in parts]
    assert rule.key == encode((rule.kind, *keys))


def test_equal_functions_are_equal() -> None:
    assert ls.one_of([]) == ls.at_least(2, [("a", 1)]) == ls.between(5, 5) == ls.NEVER
    assert ls.all_of([("a", True), ("a", False)]) == ls.NEVER
    assert ls.between(None, None) == ls.all_of([]) == ls.negation(ls.NEVER) == ls.ALWAYS
    assert ls.between(70.0, None) == ls.between(np.float64(70), None) == ls.between(70, None)
    assert ls.at_least(1, [("a", 1)]) == ls.one_of([1], "a")
    assert ls.negation(ls.between(70, None)) == ls.between(None, 70)
    assert ls.Thresholds(0, 10, 5).rule(0) == ls.Intervals(0, 10, 5).rule(0, 2)
    assert ls.Thresholds(0, 10, 5).rule(1) == ls.Intervals(0, 10, 5).rule(1, 2)


def test_rules_are_frozen_and_ordered_by_key() -> None:
    rule: Any = ls.one_of([1])
    with pytest.raises(FrozenInstanceError):
        rule.column = "a"
    rules = [ls.one_of([n]) for n in (3, 1, 2)]
    assert sorted(rules) == sorted(rules, key=lambda r: r.key)
    assert copy.deepcopy(rule) == rule
    assert rule != "x = 1"
    with pytest.raises(TypeError):
        _ = rule < 5


@pytest.mark.parametrize(
    "data",
    [
        None,
        [],
        {},
        {"kind": "spell"},
        {"kind": "constant"},
        {"kind": "constant", "answer": 1},
        {"kind": "constant", "answer": "yes"},
        {"kind": "one of", "values": 3, "column": None},
        {"kind": "one of", "values": {"tuple": [2, 1]}, "column": None},
        {"kind": "one of", "values": {"tuple": []}, "column": None},
        {"kind": "one of", "values": {"tuple": [{"set": 1}]}, "column": None},
        {"kind": "one of", "values": {"tuple": [1]}, "column": 5},
        {"kind": "steps", "below": False, "cuts": {"tuple": [70.0]}, "column": None},
        {"kind": "steps", "below": False, "cuts": {"tuple": []}, "column": None},
        {"kind": "steps", "below": False, "cuts": {"tuple": [2, 1]}, "column": None},
        {"kind": "steps", "below": False, "cuts": {"tuple": [{"float": "nan"}]}, "column": None},
        {"kind": "steps", "below": False, "cuts": {"tuple": [10**400]}, "column": None},
        {"kind": "all", "literals": {"tuple": [{"tuple": ["a", 1]}]}},
        {"kind": "at least", "count": 1, "pairs": {"tuple": [{"tuple": ["a", 1]}]}},
        {"kind": "not", "rule": {"kind": "constant", "answer": True}},
        {"kind": "not", "rule": 7},
        {"kind": "constant", "answer": True, "more": 1},
    ],
)
def test_json_that_we_did_not_write_is_refused(data: object) -> None:
    with pytest.raises(ls.BadExample, match="is not a rule that littlestone wrote"):
        ls.rule_from_json(data)


@dataclass(frozen=True, eq=False)
class StartsWith(Hypothesis):
    """A kind that a user adds."""

    kind = "starts with"
    prefix: str

    def __call__(self, x: object) -> bool:
        return str(x).startswith(self.prefix)

    def predict(self, X: Any) -> Mask:
        return np.char.startswith(np.asarray(X, dtype=str), self.prefix)

    def mentions(self) -> dict[Column, tuple[Plain, ...]]:
        return {None: (self.prefix,)}

    def __str__(self) -> str:
        return f"x starts with {self.prefix!r}"


@pytest.mark.parametrize(
    ("build", "why"),
    [
        (lambda: untyped.all_of([("a", "no")]), "a column and a truth value"),
        (lambda: untyped.all_of([(None, True)]), "a column and a truth value"),
        (lambda: untyped.at_least(1, [("a", 1), ("a", 2)]), "named twice"),
        (lambda: untyped.steps(True, [2, 1]), "cuts must increase"),
        (lambda: untyped.one_of([1], 5), "named by a string"),
    ],
)
def test_rules_that_make_no_sense(build: Any, why: str) -> None:
    with pytest.raises(ls.BadClass, match=why):
        build()


def test_an_example_is_read_whole() -> None:
    """No literal that already fails may hide a column that cannot be read."""
    both = ls.all_of([("a", True), ("b", True)])
    with pytest.raises(ls.BadExample, match="column 'b' holds 'yes'"):
        both({"a": False, "b": "yes"})
    with pytest.raises(TypeError):
        untyped.at_least(1.5, [("a", 1), ("b", 1)])
    assert ls.at_least(True, [("a", 1), ("b", 1)]) == ls.at_least(1, [("a", 1), ("b", 1)])


def test_a_kind_of_ones_own() -> None:
    rule = StartsWith("ab")
    assert ls.rule_from_json(rule.to_json(), also={"starts with": StartsWith}) == rule
    assert str(ls.negation(rule)) == "not (x starts with 'ab')"
    negated = ls.negation(rule)
    assert ls.rule_from_json(negated.to_json(), also={"starts with": StartsWith}) == negated
    with pytest.raises(ls.BadExample):
        ls.rule_from_json(rule.to_json())


NUMBERS = st.one_of(
    st.integers(-(2**70), 2**70), st.floats(), st.none(), st.integers(-5, 5), st.sampled_from([0.5])
)
CUTS = st.one_of(
    st.integers(-(2**60), 2**60),
    st.integers(2**53 - 2, 2**53 + 2),
    st.integers(-5, 5),
    st.floats(-5, 5),
)


@given(st.lists(NUMBERS, max_size=10), CUTS)
def test_comparison_is_exact_and_missing_is_below(numbers: list[Any], cut: float) -> None:
    """A number in a row is the nearest float; it is compared with the cut without rounding."""
    expected = [n is not None and n == n and float(n) >= cut for n in numbers]
    rule = ls.between(cut, None)
    assert rule.predict(numbers).tolist() == expected
    assert [rule(n) for n in numbers] == expected
    assert ls.between(None, cut).predict(numbers).tolist() == [not e for e in expected]


@given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=10), CUTS)
def test_comparison_of_integer_arrays_is_exact(numbers: list[int], cut: float) -> None:
    array = np.array(numbers, dtype=np.int64)
    assert ls.between(cut, None).predict(array).tolist() == [float(n) >= cut for n in numbers]


@example([2.0**53, 2.0**53 + 2], 2**53 + 1)
@given(st.lists(st.floats(), max_size=10), CUTS)
def test_comparison_of_float_arrays_is_exact(numbers: list[float], cut: float) -> None:
    array = np.array(numbers, dtype=np.float64)
    assert ls.between(cut, None).predict(array).tolist() == [n >= cut for n in numbers]


@pytest.mark.parametrize("cut", [0, 1, 0.5, 2, 2**70])
def test_comparison_of_truth_values(cut: float) -> None:
    said = ls.between(cut, None).predict(np.array([False, True]))
    assert said.tolist() == [cut <= 0, cut <= 1]


def test_float32_is_compared_as_the_number_it_is() -> None:
    array = np.array([0.7, 0.3], dtype=np.float32)
    rule = ls.between(0.7, None)
    assert rule.predict(array).tolist() == [rule(v) for v in array] == [False, False]


@pytest.mark.parametrize(
    ("rule", "X", "why"),
    [
        (ls.between(1, None), ["high"], "'high' is not a number"),
        (ls.between(1, None), np.array(["1", "1a"]), "row 1: '1a' is not a number"),
        (ls.one_of([1], "a"), [1, 2], "not a row with column 'a'"),
        (ls.one_of([1], "a"), {"b": [1]}, "no column 'a' in the batch: it has 'b'"),
        (ls.one_of([1]), {"a": [1]}, "name one with column="),
        (ls.NEVER, 7, "a batch of examples is an array or a list"),
        (ls.NEVER, "text", "a batch of examples is an array or a list"),
        (ls.between(1, None), np.array(["2026-01-01"], dtype="M8[ns]"), "which no class reads"),
        (ls.between(1, None), [1, np.arange(2)], "row 1: .* no canonical form"),
        (ls.all_of([("a", True), ("b", True)]), {"a": [0, 0], "b": [1, 7]}, "row 1: .*holds 7"),
        (ls.one_of([1]), 7, "a batch of examples is an array or a list"),
        (ls.one_of([1]), "text", "a batch of examples is an array or a list"),
        (ls.one_of([1]), np.zeros((2, 2)), "one dimension"),
        (ls.all_of([("a", True)]), [{"a": "yes"}], "reads 0 or 1"),
    ],
)
def test_batches_that_make_no_sense(rule: Hypothesis, X: Any, why: str) -> None:
    with pytest.raises(ls.BadExample, match=why):
        rule.predict(X)
