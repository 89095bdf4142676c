"""Data frames: a value means the same in a list, a numpy array, pandas, polars and pyarrow."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import littlestone as ls
from littlestone._data.schema import readable_batch
from littlestone._hypotheses.rows import as_batch, column_of
from littlestone._hypotheses.values import encode

Columns = Mapping[str, list[Any]]


def rows_of(columns: Columns) -> list[dict[str, Any]]:
    """The same table as a list of rows."""
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def arrays(columns: Columns) -> dict[str, Any]:
    """The same table as object arrays."""
    return {name: np.array(values, dtype=object) for name, values in columns.items()}


OWN_TYPES = {str: "string", int: "Int64", float: "Float64", bool: "boolean"}
ARROW_TYPES = {"Int64": "int64", "Float64": "double", "boolean": "bool"}


def own_type(values: list[Any]) -> str:
    """The type of pandas that holds values of one kind and knows a missing one."""
    return next((OWN_TYPES[type(value)] for value in values if value is not None), "Int64")


def nullable(columns: Columns) -> Any:
    """The same table in pandas, with the types that know a missing value."""
    kept = {name: pd.array(values, dtype=own_type(values)) for name, values in columns.items()}
    return pd.DataFrame(kept)


def arrow_backed(columns: Columns) -> Any:
    """The same table in pandas, with the types of pyarrow."""
    types = {n: ARROW_TYPES.get(own_type(v), "string") for n, v in columns.items()}
    return pd.DataFrame({n: pd.array(v, dtype=f"{types[n]}[pyarrow]") for n, v in columns.items()})


def categorical(columns: Columns) -> Any:
    """The same table in pandas, every column a category."""
    objects = {name: pd.Series(values, dtype=object) for name, values in columns.items()}
    return pd.DataFrame({name: values.astype("category") for name, values in objects.items()})


def chunked(columns: Columns) -> Any:
    """The same table in pyarrow, in two chunks."""
    table = pa.table(dict(columns))
    middle = table.num_rows // 2
    return pa.concat_tables([table.slice(0, middle), table.slice(middle)])


def dictionaries(columns: Columns) -> Any:
    """The same table in pyarrow, every column dictionary-encoded, in two chunks."""
    parts = [pa.array(values).dictionary_encode() for values in columns.values()]
    table = pa.table(parts, names=list(columns))
    middle = table.num_rows // 2
    return pa.concat_tables([table.slice(0, middle), table.slice(middle)])


TABLES: dict[str, Callable[[Columns], Any]] = {
    "rows": rows_of,
    "lists": dict,
    "numpy": arrays,
    "pandas": lambda columns: pd.DataFrame(columns, dtype=object),
    "pandas, nullable": nullable,
    "pandas, arrow": arrow_backed,
    "pandas, categories": categorical,
    "polars": pl.DataFrame,
    "pyarrow": pa.table,
    "pyarrow, chunks": chunked,
    "pyarrow, dictionaries": dictionaries,
    "pyarrow, a batch": lambda columns: pa.table(dict(columns)).to_batches()[0],
}

COLUMNS: dict[str, list[Any]] = {
    "strings": ["b", "a", None, "b"],
    "whole": [3, None, 2**53 + 1, 3],
    "whole, none missing": [3, 1, 2**53 + 1, 3],
    "floats": [0.5, None, -0.0, 2.0],
    "truths": [True, None, False, True],
    "nothing": [None, None, None, None],
}


@pytest.mark.parametrize("values", COLUMNS.values(), ids=list(COLUMNS))
@pytest.mark.parametrize("table", TABLES.values(), ids=list(TABLES))
def test_a_value_has_the_same_text_in_every_table(
    table: Callable[[Columns], Any], values: list[Any]
) -> None:
    found = as_batch(table({"a": values}))
    assert isinstance(found, dict)
    assert [encode(value) for value in found["a"]] == [encode(value) for value in values]


@pytest.mark.parametrize("table", TABLES.values(), ids=list(TABLES))
def test_a_missing_neighbour_does_not_change_the_text_of_a_row(
    table: Callable[[Columns], Any],
) -> None:
    """Else one replaced row would change the votes of all rows of its batch."""
    one, other = (column_of(table({"a": v}), "a", "value") for v in ([7, 8, 9], [7, 8, None]))
    assert [encode(value) for value in one[:2]] == [encode(value) for value in other[:2]]


MEANINGS: list[tuple[ls.HypothesisClass, ls.Hypothesis, list[Any], list[bool]]] = [
    (ls.Points("a"), ls.one_of([None], "a"), ["x", None], [False, True]),
    (ls.Sets(2, "a"), ls.one_of([None, "x"], "a"), ["x", None, "y"], [True, True, False]),
    (ls.Rules(["a"]), ls.one_of([None], "a"), ["1", None], [False, True]),
    (ls.Thresholds(0, 9, 1, "a"), ls.between(0, None, "a"), [0, None], [True, False]),
    (ls.Thresholds(0, 9, 1, "a"), ls.between(0.5, None, "a"), [0.5, None], [True, False]),
    (ls.Intervals(0, 9, 1, "a"), ls.between(None, 4, "a"), [2, 7, None], [True, False, True]),
    (
        ls.FiniteClass([[0, 1], [1, 0]], ["x", None], "a"),
        ls.one_of([None], "a"),
        ["x", None],
        [False, True],
    ),
]


@pytest.mark.parametrize(
    ("cls", "rule", "values", "said"), MEANINGS, ids=[repr(case[0])[:30] for case in MEANINGS]
)
@pytest.mark.parametrize("table", TABLES.values(), ids=list(TABLES))
def test_a_missing_value_has_one_meaning(
    table: Callable[[Columns], Any],
    cls: ls.HypothesisClass,
    rule: ls.Hypothesis,
    values: list[Any],
    said: list[bool],
) -> None:
    batch = readable_batch(cls, table({"a": values}))
    assert cls.predict(rule, batch).tolist() == said
    assert [rule({"a": value}) for value in values] == said


@pytest.mark.parametrize("table", TABLES.values(), ids=list(TABLES))
def test_a_conjunction_refuses_a_missing_truth(table: Callable[[Columns], Any]) -> None:
    columns: Columns = {"a": [True, None], "b": [True, False]}
    learner = ls.DPSOA(ls.Conjunctions(["a", "b"]), 1, 1e-9, 100)
    with pytest.raises(ls.BadExample, match=r"row 1: .*a conjunction reads 0 or 1"):
        learner.learn_many(table(columns), [1, 0])
    assert learner.rounds == 0
    learner.learn_many(table(columns), [1, 0], bad_rows="null")
    assert (learner.rounds, learner.null_rounds) == (2, 1)


@pytest.mark.parametrize("nan", [float("nan"), np.float32("nan"), -float("nan")])
def test_nan_is_a_missing_number_and_in_a_table_a_missing_text(nan: float) -> None:
    numbers = [
        [{"a": 1.0}, {"a": nan}],
        {"a": np.array([1.0, nan])},
        pd.DataFrame({"a": [1.0, nan]}),
        pl.DataFrame({"a": [1.0, float(nan)]}),
        pa.table({"a": [1.0, float(nan)]}),
    ]
    for table in numbers:
        batch = readable_batch(ls.Thresholds(0, 9, column="a"), table)
        assert ls.between(-9, None, "a").predict(batch).tolist() == [True, False]
    texts = readable_batch(ls.Points("a"), pd.DataFrame({"a": ["1", nan]}, dtype=object))
    assert ls.one_of([None], "a").predict(texts).tolist() == [False, True]
    alone = readable_batch(ls.Points("a"), [{"a": "1"}, {"a": nan}])
    assert ls.one_of([None], "a").predict(alone).tolist() == [False, False]
    assert ls.one_of(["nan"], "a").predict(alone).tolist() == [False, True]


def test_a_float_column_of_numbers_keeps_its_speed() -> None:
    """Where a class reads numbers, a missing one may be NaN: both are below every cut."""
    cls = ls.Thresholds(0, 9, 1, "a")
    for table in (pl.DataFrame({"a": [1.5, None]}), pa.table({"a": [1.5, None]})):
        batch = readable_batch(cls, table)
        assert isinstance(batch, dict)
        assert batch["a"].dtype == np.float64


LARGE = {"a": np.linspace(0, 1, 1000)}


@pytest.mark.parametrize(
    "frame", [pd.DataFrame(LARGE), pl.DataFrame(LARGE), pa.table(LARGE)], ids=lambda f: type(f)
)
def test_numbers_are_not_copied(frame: Any) -> None:
    assert np.shares_memory(column_of(frame, "a", "number"), column_of(frame, "a", "number"))


class Refusing(dict[str, Any]):
    """A table that counts what is asked of it."""

    def __init__(self, columns: Mapping[str, Any]) -> None:
        super().__init__(columns)
        self.asked: list[str] = []

    def __getitem__(self, name: str) -> Any:
        self.asked.append(name)
        return super().__getitem__(name)


def test_only_the_columns_that_the_class_reads_are_touched() -> None:
    table = Refusing({"a": [1, 2], "b": [object(), object()], "c": [0, 1]})
    learner = ls.DPSOA(ls.Points("a"), 1, 1e-9, 100)
    learner.learn_many(table, [0, 1])
    learner.predict_many(table)
    assert set(table.asked) == {"a"}


@pytest.mark.parametrize("table", TABLES.values(), ids=list(TABLES))
def test_learners_learn_the_same_from_every_table(table: Callable[[Columns], Any]) -> None:
    values = [None if n % 5 == 0 else f"v{n % 7}" for n in range(400)]
    answers = [value is None for value in values]
    learner = ls.DPSOA(ls.Points("a"), 50, 1e-4, 400, seed=1)
    learner.learn_many(table({"a": values, "b": values}), pl.Series(answers))
    assert str(learner.hypothesis) == "a = None"
    assert learner.predict_many(table({"a": ["x", None], "b": ["x", "x"]})).tolist() == [
        False,
        True,
    ]


@pytest.mark.parametrize(
    "y",
    [
        pd.Series([0, 1], dtype="Int64"),
        pd.Series([False, True], dtype="boolean"),
        pd.Series([0, 1]).astype("category"),
        pl.Series([False, True]),
        pa.array([0, 1]),
        pa.chunked_array([[0], [1]]),
    ],
    ids=lambda y: type(y).__name__,
)
def test_labels_come_from_any_table(y: Any) -> None:
    learner = ls.SOA(ls.Points())
    learner.learn_many(["a", "b"], y)
    assert str(learner.hypothesis) == "x = 'b'"


def test_columns_named_by_numbers_get_a_sentence() -> None:
    frame = pd.DataFrame(np.zeros((2, 2)))
    for cls in (ls.Points("0"), ls.Rules(["0", "1"]), ls.Thresholds(0, 1, 1, "0")):
        with pytest.raises(ls.BadExample, match=r"no column '0'.* it has 0, 1.*rename"):
            ls.DPSOA(cls, 1, 1e-9, 100).learn_many(frame, [0, 1])
    with pytest.raises(ls.BadExample, match="rename"):
        as_batch(frame)
    with pytest.raises(ls.BadExample, match="rename"):
        ls.one_of([0.0], "0").predict(frame)


def test_a_column_that_is_there_twice_gets_a_sentence() -> None:
    frame = pd.DataFrame([[1, 2]], columns=["a", "a"])
    with pytest.raises(ls.BadExample, match="2 columns 'a'"):
        readable_batch(ls.Points("a"), frame)
    table = pa.table([pa.array([1]), pa.array([2])], names=["a", "a"])
    with pytest.raises(ls.BadExample, match="2 columns 'a'"):
        readable_batch(ls.Points("a"), table)


def test_a_lazy_frame_is_to_be_collected() -> None:
    with pytest.raises(ls.BadExample, match="collect"):
        readable_batch(ls.Points("a"), pl.LazyFrame({"a": [1]}))


def test_a_masked_array_says_what_is_missing() -> None:
    masked = np.ma.array([1, 2], mask=[False, True])
    assert column_of(masked, None, "value").tolist() == [1, None]
    assert column_of(np.ma.array([1, 2]), None, "value").tolist() == [1, 2]


def test_pandas_own_missing_value_is_none() -> None:
    assert encode(pd.NA) == encode(None)
    assert ls.one_of([None])(pd.NA)


def test_numpy_truths_are_read_alike_alone_and_in_a_batch() -> None:
    learner = ls.DPSOA(ls.Conjunctions(["a"]), 1, 1e-9, 100)
    learner.learn_one({"a": np.bool_(True)}, 1)
    learner.learn_many([{"a": np.bool_(True)}, {"a": np.int8(0)}], [1, 0])
    assert learner.rounds == 3


def test_dates_are_refused_whatever_the_table() -> None:
    day = pd.Timestamp("2020-01-01")
    for table in (pd.DataFrame({"a": [day]}), pl.DataFrame({"a": [day]}), pa.table({"a": [day]})):
        with pytest.raises(ls.BadExample, match=r"which no class reads|by their text"):
            readable_batch(ls.Points("a"), table)


def test_a_value_that_a_dictionary_holds_twice_is_found_at_both_places() -> None:
    twice = pa.DictionaryArray.from_arrays([0, 1, 2, 1, 0], ["a", "b", "a"])
    batch = as_batch({"c": twice}, {"c": "value"})
    for values in (["a"], ["a", "b"], ["a", "z"], ["z"]):
        rule = ls.one_of(values, "c")
        expected = [rule({"c": cell}) for cell in twice.to_pylist()]
        # Also of a part, which shares what was computed for the whole.
        part = {"c": column_of(batch, "c", "value")[2:]}
        assert rule.predict(batch).tolist() == expected
        assert rule.predict(part).tolist() == expected[2:]
