"""Values have one canonical form, and rules about them have one identity."""

import json
from collections import Counter
from collections.abc import Iterable
from enum import IntEnum
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import littlestone as ls
from littlestone._hypotheses.cells import read_column
from littlestone._hypotheses.values import (
    canonical,
    decode,
    encode,
    from_json,
    key_of,
    plain,
    to_json,
)

ATOMS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(0, 2),
    st.floats(),
    st.sampled_from([0.0, -0.0, 1.0, 2.0]),
    st.text(max_size=3),
    st.binary(max_size=3),
)
VALUES = st.one_of(ATOMS, st.tuples(ATOMS), st.tuples(ATOMS, st.tuples(ATOMS)))


def canonical_text(value: object) -> str:
    """The oracle: type and content written out, nested."""
    if isinstance(value, tuple):
        return "(" + ",".join(map(canonical_text, value)) + ")"
    if isinstance(value, float):
        value = "nan" if value != value else repr(value + 0.0)
        return "float " + str(value)
    return f"{type(value).__name__} {value!r}"


@given(VALUES, VALUES)
def test_encoding_separates_what_is_different_and_nothing_else(a: object, b: object) -> None:
    assert (encode(a) == encode(b)) == (canonical_text(a) == canonical_text(b))


@given(VALUES)
def test_round_trips(value: object) -> None:
    assert encode(decode(encode(value))) == encode(value)
    assert encode(from_json(json.loads(json.dumps(to_json(value))))) == encode(value)
    json.dumps(to_json(value), allow_nan=False)


@example([(float("nan"),)], [(float("nan"),)])
@given(st.lists(VALUES, max_size=8), st.lists(VALUES, max_size=12))
def test_vectorised_membership_is_canonical_equality(some: list[Any], entries: list[Any]) -> None:
    array = np.fromiter(entries, dtype=object, count=len(entries))
    keys = {key_of(v) for v in some}
    assert isin(array, map(plain, some)).tolist() == [key_of(e) in keys for e in entries]


def text_of(value: object) -> str:
    """The oracle: the text that identifies a value."""
    if isinstance(value, tuple):
        return "(" + ",".join(map(text_of, value)) + ")"
    if isinstance(value, bytes):
        return f"text {value.decode()!r}" if value.isascii() else f"bytes {value!r}"
    if isinstance(value, float):
        value += 0.0
    value = 0.0 if value == "-0.0" else value
    return "missing" if value is None else f"text {str(value)!r}"


@given(VALUES, VALUES)
def test_values_with_one_text_are_one_value(a: object, b: object) -> None:
    assert (key_of(a) == key_of(b)) == (text_of(a) == text_of(b))
    assert (ls.one_of([a]) == ls.one_of([b])) == (key_of(a) == key_of(b))
    assert encode(canonical(canonical(a))) == encode(canonical(a)) == key_of(a)


@pytest.mark.parametrize(
    "array",
    [
        np.array([0, 1, 2, 255], dtype=np.uint8),
        np.array([-1, 0, 1, 2**62]),
        np.array([0.0, -0.0, 1.0, np.nan, np.inf]),
        np.array([0.1, 0.7, np.nan], dtype=np.float32),
        np.array([True, False]),
        np.array(["a", "b", "1", ""]),
        np.array([b"a", b"", b"1"]),
        np.array(["a", "b"], dtype=np.dtypes.StringDType()),
    ],
    ids=lambda array: str(array.dtype),
)
@pytest.mark.parametrize("many", [False, True])
def test_typed_arrays_are_their_entries(array: Any, many: bool) -> None:
    some = [plain(v) for v in array[: len(array) // 2 + 1]]
    some += [0, 1, True, 1.0, 0.1, float("nan"), "a", b"a", None, "a\0", 10**30, -1]
    some = (
        [*some, *range(900, 920), *map(str, range(20)), *map(float, range(70, 90))]
        if many
        else some
    )
    keys = {key_of(v) for v in some}
    assert isin(array, some).tolist() == [key_of(entry) in keys for entry in array]


class Colour(IntEnum):
    RED = 1


def test_forms_of_one_value_make_one_rule() -> None:
    for same in (np.int8(1), np.uint64(1), Colour.RED, "1", b"1", np.str_("1")):
        assert ls.one_of([same]) == ls.one_of([1])
        assert ls.one_of([same]).to_json() == ls.one_of([1]).to_json()
        assert str(ls.one_of([same])) == "x = 1"
    assert ls.one_of([np.float32(0.5)]) == ls.one_of([0.5]) == ls.one_of([np.longdouble(0.5)])
    assert str(ls.one_of([np.str_("a")])) == "x = 'a'"
    assert len({ls.one_of([v]) for v in (1, True, 1.0, "01", " 1", "1.", b"\xff")}) == 7


def test_the_order_of_arrival_never_shows() -> None:
    for values in ([1, True, "b", None, 2.5], [None, 2.5, "b", True, 1]):
        assert str(ls.one_of(values)) == "x in {None, 1, '2.5', 'True', 'b'}"
    assert str(ls.one_of([16, 2, 10, 1])) == "x in {1, 2, 10, 16}"


ODD = [[1], {1}, {}, object(), np.datetime64("2026-01-01"), 1j, np.arange(2)]


@pytest.mark.parametrize("value", ODD, ids=lambda value: type(value).__name__)
def test_values_without_a_canonical_form_are_refused(value: object) -> None:
    with pytest.raises(ls.BadExample, match="no canonical form"):
        encode(value)
    column = np.fromiter(["a", value, 1], dtype=object)
    assert read_column(column, "value")[1].tolist() == [False, True, False]
    with pytest.raises(ls.BadExample, match=r"row 1: .* no canonical form"):
        ls.one_of([1]).predict(column)


def test_a_number_too_long_to_print_is_refused() -> None:
    with pytest.raises(ls.BadExample, match="too long to print"):
        ls.one_of([10**5000])


def test_arrays_without_canonical_values_are_refused() -> None:
    with pytest.raises(ls.BadExample, match="which no class reads"):
        ls.one_of([1]).predict(np.array(["2026-01-01"], dtype="M8[D]"))


def isin(cells: Any, values: Iterable[Any]) -> Any:
    return ls.one_of(values).predict(cells)


def test_near_misses_are_not_equal() -> None:
    """Where numpy's own comparison would say yes and the canonical one says no, and the reverse."""
    assert encode(-0.0) == encode(0.0)
    assert key_of(-0.0) == key_of(0.0) == key_of("0.0") == key_of("-0.0")
    assert isin(np.array([0.1], dtype=np.float32), [0.1]).tolist() == [False]
    assert isin(np.array(["a"]), ["a\0"]).tolist() == [False]
    assert isin(np.array([b"a"]), [b"a\0"]).tolist() == [False]
    assert isin(np.array([b"a"]), ["a"]).tolist() == [True]
    assert isin(np.array([True]), [1]).tolist() == [False]
    assert isin(np.array([True]), ["True"]).tolist() == [True]
    text = np.array(["a", "a\0", None], dtype=np.dtypes.StringDType(na_object=None))
    assert isin(text, ["a\0"]).tolist() == [False, True, False]
    assert isin(text, [None]).tolist() == [False, False, True]
    assert isin(np.array([2**53 + 1]), [float(2**53)]).tolist() == [False]
    many = [*range(20), -1, 2**63]
    assert isin(np.array([2**63 - 1, 7]), many).tolist() == [False, True]


def test_keys_by_python_equality_would_tell_who_came_first() -> None:
    """A planted fault: votes kept under `==`. The released form is that of the first record."""
    records: list[object] = [1, True, 1.0]
    by_equality = [Counter(order) for order in (records, records[::-1])]
    assert by_equality[0] == by_equality[1], "the same votes, as Python sees them"
    assert [repr(next(iter(votes))) for votes in by_equality] == ["1", "1.0"], "and they tell"
    by_key = [Counter(ls.one_of([v]).key for v in order) for order in (records, records[::-1])]
    assert sorted(by_key[0]) == sorted(by_key[1])
    assert len(by_key[0]) == 3
