"""Coded columns: every cell is read as it is without codes, whatever the column comes in."""

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from littlestone._hypotheses import coded
from littlestone._hypotheses.coded import CodedColumn, coded_array
from littlestone._hypotheses.rows import as_batch, coded_column_of, column_of
from littlestone._learners.epoch_rows import hash_column, value_hash
from littlestone.errors import BadColumn

ROWS = 3 * coded.FEWEST_ROWS
DRAW = np.random.default_rng(1)
SHORT = ["", "a", "ab", "4.2.1", "3", "-3", "007", "0.0", "-0.0", "a\0", "\0a", "é", "True", "nan"]
TEXTS = {
    "four bytes": ["", "a", "ab", "abcd", "3", "\0", "é", "None"],
    "twelve bytes": [*SHORT, "twelve bytes", "x" * 12],
    "long": [*SHORT, "x" * 13, "x" * 64, "x" * 65, "y" * 200],
    "other planes": [*SHORT, "\U0001f600", "\uffff", "x\U0001f600"],
    "many": [f"value {n}" for n in range(1000)],
}


def _cells(texts: list[str], missing: bool) -> list[str | None]:
    values = [*texts, None] if missing else texts
    return [values[at] for at in DRAW.integers(len(values), size=ROWS)]


def _fresh(cells: list[Any]) -> np.ndarray:
    """Return an array in which no text of more than one character is one object twice."""
    array = np.empty(len(cells), dtype=object)
    array[:] = [cell if cell is None else "".join(list(cell)) for cell in cells]
    return array


def _shared(cells: list[Any]) -> np.ndarray:
    array = np.empty(len(cells), dtype=object)
    array[:] = cells
    return array


def _pieces(cells: list[Any], held: Any) -> Any:
    halves = cells[: ROWS // 3], cells[ROWS // 3 :]
    return pa.chunked_array([pa.array(half, held) for half in halves], held)


# What a column of texts, some of them missing, comes in.
COLUMNS: dict[str, Callable[[list[Any]], Any]] = {
    "fresh objects": _fresh,
    "shared objects": _shared,
    "objects with gaps": lambda cells: np.repeat(_shared(cells), 2)[::2],
    "polars": lambda cells: pl.Series(cells, dtype=pl.String),
    "polars slice": lambda cells: pl.Series([*cells, *cells], dtype=pl.String)[7 : 7 + ROWS],
    "polars pieces": lambda cells: pl.Series(cells[:99], dtype=pl.String).append(
        pl.Series(cells[99:], dtype=pl.String)
    ),
    "polars categorical": lambda cells: pl.Series(cells, dtype=pl.Categorical),
    "polars enum": lambda cells: pl.Series(
        cells, dtype=pl.Enum(sorted({c for c in cells if c is not None}))
    ),
    "pandas": lambda cells: pd.Series(cells, dtype="str"),
    "pandas string": lambda cells: pd.Series(cells, dtype="string"),
    "pandas python string": lambda cells: pd.Series(cells, dtype="string[python]"),
    "pandas arrow": lambda cells: pd.Series(cells, dtype=pd.ArrowDtype(pa.string())),
    "pandas objects": lambda cells: pd.Series(_shared(cells), dtype=object),
    "pandas NaN": lambda cells: pd.Series(
        [np.nan if cell is None else cell for cell in cells], dtype=object
    ),
    "pandas categories": lambda cells: pd.Series(cells, dtype="category"),
    "pandas index": lambda cells: pd.Series(cells, dtype="str", index=range(ROWS, 0, -1)),
    "arrow": lambda cells: pa.array(cells, pa.string()),
    "arrow large": lambda cells: pa.array(cells, pa.large_string()),
    "arrow view": lambda cells: pa.array(cells, pa.string_view()),
    "arrow slice": lambda cells: pa.array([None, "x", *cells], pa.string())[2:],
    "arrow view slice": lambda cells: pa.array([None, "x", *cells], pa.string_view())[2:],
    "arrow pieces": lambda cells: _pieces(cells, pa.string()),
    "arrow view pieces": lambda cells: _pieces(cells, pa.string_view()),
    "arrow dictionary": lambda cells: pa.array(cells, pa.string()).dictionary_encode(),
    "arrow dictionaries": lambda cells: _pieces(cells, pa.string()).dictionary_encode(),
    "arrow other dictionaries": lambda cells: pa.chunked_array(
        [pa.array(some).dictionary_encode() for some in (cells[::-1][-99:], cells[99:])]
    ),
}
FRAMES = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "arrow": lambda x: pa.table(x)}


@pytest.mark.parametrize("missing", [False, True], ids=["whole", "missing"])
@pytest.mark.parametrize("texts", TEXTS)
@pytest.mark.parametrize("name", COLUMNS)
def test_cells_are_those_of_the_column(name: str, texts: str, missing: bool) -> None:
    cells = _cells(TEXTS[texts], missing)
    if name == "arrow other dictionaries":
        cells[:99] = cells[:99][::-1]
    column = COLUMNS[name](cells)
    batch = as_batch({"x": column}, {"x": "value"}, coded=True)
    plain = column_of({"x": column}, "x", "value").tolist()
    found = coded_column_of(batch, "x")
    assert found is not None
    assert found.tolist() == plain == np.asarray(found).tolist() == list(found)
    assert {type(cell) for cell in found.tolist()} <= {str, type(None)}
    assert found[5:9].tolist() == plain[5:9]
    assert found[7] == plain[7]
    assert found[np.array([3, 1])].tolist() == [plain[3], plain[1]]
    assert column_of(batch, "x").tolist() == plain
    hashes = found.dictionary.map(hash_column)[found.codes].tolist()
    assert hashes == list(map(value_hash, plain))


@pytest.mark.parametrize("kind", FRAMES)
def test_frames_are_coded(kind: str) -> None:
    columns = {"a": _cells(TEXTS["many"], True), "b": _cells(TEXTS["long"], False)}
    batch = as_batch(FRAMES[kind](columns), {"a": "value", "b": "value"}, coded=True)
    assert isinstance(batch, dict)
    assert all(isinstance(batch[name], CodedColumn) for name in columns)
    assert {name: list(column) for name, column in batch.items()} == columns


@pytest.mark.parametrize("texts", TEXTS)
@pytest.mark.parametrize("order", ["=", ">"])
def test_arrays_of_text_are_coded(texts: str, order: Literal["=", ">"]) -> None:
    array = np.array(_cells(TEXTS[texts], False))
    array = array.astype(array.dtype.newbyteorder(order))
    for some in (array, np.repeat(array, 2)[::2]):
        found = coded_array(some)
        assert found is not None
        assert found.tolist() == array.tolist()


@pytest.mark.parametrize("kind", ["int8", "int64", "uint8", "uint64", ">i4"])
def test_arrays_of_whole_numbers_are_coded(kind: str) -> None:
    edge = np.iinfo(kind)
    array = DRAW.choice(np.array([edge.min, edge.max, 3, 7], dtype=kind), ROWS).astype(kind)
    found = coded_array(array)
    assert found is not None
    assert found.tolist() == array.tolist()
    assert {type(cell) for cell in found.tolist()} == {int}


@pytest.mark.parametrize(
    "array",
    [
        np.array(["a"] * (coded.FEWEST_ROWS - 1)),
        np.array([f"{n}" for n in range(ROWS)]),
        np.array([f"{n}" for n in range(ROWS)], dtype=object),
        np.array([1.5] * ROWS),
        np.array([b"a"] * ROWS),
        np.array(["a", 1] * ROWS, dtype=object),
        np.array(["a", True, 1.0, 1] * ROWS, dtype=object),
        np.array(["a", np.str_("a")] * ROWS, dtype=object),
        np.array(["a", float("nan")] * ROWS, dtype=object),
        np.array([f"{n % 70_000}" for n in range(500_000)]),
    ],
    ids=str,
)
def test_other_arrays_are_not_coded(array: Any) -> None:
    assert coded_array(array) is None
    assert as_batch({"x": array}, coded=True)["x"] is array


@pytest.mark.parametrize(
    "column",
    [
        pl.Series([1, 2] * ROWS),
        pl.Series([1.0, None] * ROWS),
        pd.Series([1, 2] * ROWS),
        pd.Series([1, 2] * ROWS, dtype="category"),
        pd.Series(["a", 2] * ROWS, dtype="category"),
        pd.Series(["a", 2] * ROWS, dtype=object),
        pa.array([1, 2] * ROWS),
        pa.array([1, 2] * ROWS).dictionary_encode(),
        np.array([1.5] * ROWS),
    ],
    ids=lambda column: f"{type(column).__module__} {getattr(column, 'dtype', '')}",
)
def test_columns_that_have_lost_their_text_are_refused(column: Any) -> None:
    for codes in (False, True):
        with pytest.raises(BadColumn, match="by their text"):
            as_batch({"x": column}, {"x": "value"}, coded=codes)


def test_what_is_read_as_a_number_is_not_coded() -> None:
    batch = as_batch({"x": np.array([1, 2] * ROWS)}, {"x": "number"}, coded=True)
    assert isinstance(batch["x"], np.ndarray)


@pytest.mark.parametrize("mixers", [(0, 0, 0, 0), (1, 1, 1, 1)])
def test_values_that_share_a_place_are_told_apart(
    mixers: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All cells are compared: a hash only finds the place at which to compare."""
    monkeypatch.setattr(coded, "MIXERS", mixers)
    for texts in TEXTS.values():
        cells = _cells(texts, True)
        for column in (pl.Series(cells), _shared(cells), _fresh(cells)):
            found = coded_column_of(as_batch({"x": column}, {"x": "value"}, coded=True), "x")
            assert found is not None
            assert found.tolist() == cells


def test_values_that_come_late_are_found() -> None:
    array = np.array(["a"] * ROWS + [f"v{n % 100}" for n in range(ROWS)] + ["late"] * 5)
    found = coded_array(array)
    assert found is not None
    assert found.tolist() == array.tolist()


def test_marked_values_are_found() -> None:
    found = coded_array(np.array(["a", "b", "c"] * ROWS))
    assert found is not None
    for marks in ([0, 0, 0], [0, 1, 0], [1, 0, 1], [1, 1, 1]):
        assert found.where(np.array(marks, dtype=bool)).tolist() == [*map(bool, marks)] * ROWS
