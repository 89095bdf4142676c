"""Lemma 0, cell by cell: a cell reads the same alone and in any company, through every entrance."""

import csv
import io
import json
import math
import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from decimal import Decimal
from fractions import Fraction
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest

import littlestone as ls
from effort import scaled
from littlestone._data import readers
from littlestone._data.kafka import read_messages
from littlestone._data.rounds import Rounds
from littlestone._data.schema import file_schema, read_rounds
from littlestone._data.tables import open_parquet, rounds_of_table
from littlestone._hypotheses.causes import OUTCOME
from littlestone._hypotheses.cells import Kind, coded, label, number_of, read_column
from littlestone._hypotheses.rows import row_of
from littlestone._hypotheses.values import key_of
from littlestone._service.bodies import parse_block
from littlestone._service.limits import Limits

TEXTS = [
    *(
        "",
        "a",
        "é",
        "\U0001f600",
        "a\0",
        "\0",
        "\0a",
        "-0.0",
        "-0.0\0",
        "0.0",
        "-0",
        "007",
        "7",
        "+7",
    ),
    *("7.0", "1e3", " 7", "0x1F", "true", "False", "1", "0", "1.0", "NA", "nan", "null", "None"),
    *("inf", "-inf", "x" * 64, "x" * 65, "x" * 66, "9" * 4300, "9" * 1300, "9007199254740993"),
    *("\ud800", "a\udc80", 'a"b', "a,b", "2020-01-01", "u1", "u2"),
]
NUMBERS = [
    0,
    1,
    -1,
    7,
    2**53 + 1,
    2**63,
    -(2**63),
    10**400,
    0.0,
    -0.0,
    1.0,
    7.5,
    math.inf,
    math.nan,
]
JSON_CELLS = [*TEXTS, *NUMBERS, True, False, None, [1], {"a": 1}]
OBJECTS = [
    *(*JSON_CELLS, np.int8(7), np.float32(7.5), np.float64("nan"), np.bool_(True), np.str_("a")),
    *(
        pd.NA,
        pd.NaT,
        Decimal("7.5"),
        Decimal("NaN"),
        b"a",
        b"\xff",
        (1, "a"),
        (1.0, "a"),
        (True, "a"),
    ),
    *(object(), np.datetime64("2020-01-01"), pd.Timestamp("2020-01-01")),
]
OPTIONAL_TEXTS = [*(text for text in TEXTS if text.isprintable() or "\0" in text), None]
CLASSES: dict[str, ls.HypothesisClass] = {
    "value": ls.Points("a"),
    "number": ls.Thresholds(0, 100, column="a"),
    "truth": ls.Conjunctions(["a"]),
    "outcomes": ls.Causes(["a"], normal=["0", ""]),
}
NAMES = ("a", "y", "u")
Table = dict[str, list[Any]]
Entrance = Callable[[ls.HypothesisClass, Table, Path], Rounds]


def in_memory(make: Callable[[Table], Any], column: Callable[[list[Any]], Any]) -> Entrance:
    """`learn_many`: a table, labels and users."""

    def entrance(cls: ls.HypothesisClass, table: Table, folder: Path) -> Rounds:
        y, u = column(table["y"]), column(table["u"])
        return read_rounds(cls, make({"a": table["a"]}), y, u, "null")

    return entrance


def objects(cells: Sequence[Any]) -> Any:
    array = np.empty(len(cells), dtype=object)
    array[:] = cells
    return array


def from_file(name: str, write: Callable[[Table, Path], None], **options: str) -> Entrance:
    def entrance(cls: ls.HypothesisClass, table: Table, folder: Path) -> Rounds:
        write(table, folder / name)
        with (
            mock.patch.object(readers, "refuse_mostly_bad"),
            ls.open_rows(folder / name, cls, label="y", user="u", **options) as rows,  # type: ignore[arg-type]
        ):
            (block,) = rows
        return block

    return entrance


def write_csv(table: Table, path: Path, delimiter: str = ",", encoding: str = "utf-8") -> None:
    text = io.StringIO(newline="")
    csv.writer(text, quoting=csv.QUOTE_ALL, delimiter=delimiter).writerows(
        [list(table), *zip(*table.values(), strict=True)]
    )
    errors = "surrogatepass" if encoding == "utf-8" else "surrogateescape"
    path.write_bytes(text.getvalue().encode(encoding, errors))


# \udc81 is a byte that neither encoding has; in Shift JIS it begins a letter of two bytes.
ENCODED = {"cp1252": ["a", "é", "€", "\udc81", "a\udc81", "1", ""],
           "shift_jis": ["a", "ｱ", "表", "\udc81", "a\udcfd", "1", ""]}  # fmt: skip


def lines_of(table: Table) -> list[str]:
    rows = zip(*table.values(), strict=True)
    return [json.dumps(dict(zip(table, row, strict=True))) for row in rows]


def write_lines(table: Table, path: Path) -> None:
    path.write_text("\n".join(lines_of(table)))


def arrow(table: Table, held: Any = None) -> Any:
    return pa.table({name: pa.array(cells, held or pa.string()) for name, cells in table.items()})


def messages(cls: ls.HypothesisClass, table: Table, folder: Path) -> Rounds:
    values = [line.encode() for line in lines_of(table)]
    return read_messages(file_schema(cls, "y", "u"), values, {}, np.arange(len(values)))[0]


def body(cls: ls.HypothesisClass, table: Table, folder: Path) -> Rounds:
    lines = "\n".join(lines_of(table)).encode()
    limits = Limits(rows=10**6)
    return parse_block(lines, "ndjson", file_schema(cls, "y", "u"), limits)


def dictionary(cls: ls.HypothesisClass, table: Table, folder: Path) -> Rounds:
    coded = pa.table({name: pa.array(cells).dictionary_encode() for name, cells in table.items()})
    return rounds_of_table(file_schema(cls, "y", "u"), coded, 0)


# Tables in memory: what makes one, what makes a column of labels or users, and what its cells can be.
TABLES: dict[str, tuple[Callable[[Table], Any], Callable[[list[Any]], Any], list[Any]]] = {
    "rows": (lambda t: [{"a": cell} for cell in t["a"]], list, OBJECTS),
    "lists": (lambda t: t, list, OBJECTS),
    "objects": (lambda t: {"a": objects(t["a"])}, objects, OBJECTS),
    "text arrays": (lambda t: {"a": np.array(t["a"])}, np.array, OPTIONAL_TEXTS[:-1]),
    "pandas": (pd.DataFrame, lambda cells: pd.Series(cells, dtype="str"), OPTIONAL_TEXTS),
    "pandas objects": (
        lambda t: pd.DataFrame(t, dtype=object),
        lambda cells: pd.Series(cells, dtype=object),
        OPTIONAL_TEXTS,
    ),
    "categories": (
        lambda t: pd.DataFrame(t).astype("category"),
        lambda cells: pd.Series(cells, dtype="category"),
        OPTIONAL_TEXTS,
    ),
    "polars": (pl.DataFrame, lambda cells: pl.Series(cells, dtype=pl.String), OPTIONAL_TEXTS),
    "arrow": (lambda t: arrow(t), lambda cells: pa.array(cells, pa.string()), OPTIONAL_TEXTS),
    "views": (
        lambda t: arrow(t, pa.string_view()),
        lambda cells: pa.array(cells, pa.string_view()),
        OPTIONAL_TEXTS,
    ),
}
# Each entrance, and what its cells can be.
ENTRANCES: dict[str, tuple[Entrance, list[Any]]] = {
    name: (in_memory(make, column), pool) for name, (make, column, pool) in TABLES.items()
} | {
    "CSV": (from_file("rows.csv", write_csv), TEXTS),
    "semicolons": (from_file("rows.csv", partial(write_csv, delimiter=";")), [*TEXTS, "a;b"]),
    **{
        code: (from_file("rows.csv", partial(write_csv, encoding=code), encoding=code), cells)
        for code, cells in ENCODED.items()
    },
    "JSON lines": (
        from_file("rows.jsonl", write_lines),
        JSON_CELLS,
    ),
    "Parquet": (
        from_file("rows.parquet", lambda t, path: pyarrow.parquet.write_table(arrow(t), path)),
        OPTIONAL_TEXTS,
    ),
    "dictionaries": (dictionary, OPTIONAL_TEXTS),
    "Kafka": (messages, JSON_CELLS),
    "HTTP": (
        body,
        [cell for cell in JSON_CELLS if cell == cell and cell not in (math.inf, -math.inf)],
    ),
}
READ: dict[str, Callable[[Any], object]] = {
    "value": key_of,
    "outcomes": key_of,
    "number": number_of,
    "truth": label,
}


def fingerprints(kind: str, rounds: Rounds) -> list[Any]:
    """What a learner can tell of each round; None of a null round."""
    assert rounds.users is not None
    found: list[Any] = []
    for row, (number, user) in enumerate(
        zip(rounds.labels.tolist(), rounds.users.tolist(), strict=True)
    ):
        if number < 0:
            found.append(None)
            continue
        x: Any = row_of(rounds.columns, row)
        outcome = x.get(OUTCOME, number) if number else number
        found.append((READ[kind](x["a"]), key_of(outcome), user))
    return found


SOUND = {"value": "v", "outcomes": "v", "number": "1", "truth": "1"}


@pytest.mark.parametrize("kind", CLASSES)
@pytest.mark.parametrize("name", ENTRANCES)
def test_a_cell_reads_the_same_alone_and_in_any_company(
    name: str, kind: str, tmp_path: Path
) -> None:
    (entrance, pool), cls = ENTRANCES[name], CLASSES[kind]
    sound = {"a": SOUND[kind], "y": "1", "u": "u1"}

    def alone(column: str, cell: Any) -> Any:
        row: Table = {other: [cell if other == column else sound[other]] for other in NAMES}
        try:
            (found,) = fingerprints(kind, entrance(cls, row, tmp_path))
        except ls.BadExample as error:  # a column of one cell that the library cannot hold as text
            raise AssertionError(f"{cell!r} alone: {error}") from error
        return None if found is None else found[NAMES.index(column)]

    expected = {column: [alone(column, cell) for cell in pool] for column in NAMES}
    draw = random.Random(f"{name} {kind}")
    for rows in [2, 5, 70, scaled(2600, least=300)]:
        picks = {column: [draw.randrange(len(pool)) for _ in range(rows)] for column in NAMES}
        table = {column: [pool[at] for at in places] for column, places in picks.items()}
        read = fingerprints(kind, entrance(cls, table, tmp_path))
        assert len(read) == rows
        for row, found in enumerate(read):
            parts = tuple(expected[column][picks[column][row]] for column in NAMES)
            assert found == (None if None in parts else parts), [table[c][row] for c in NAMES]


RULES: dict[str, list[ls.Hypothesis]] = {
    "value": [ls.one_of([7, "0.0", None], "a"), ls.one_of(["a\0", "x" * 65, "nan", "True"], "a")],
    "number": [ls.between(1, 7.5, "a"), ls.between(None, 9007199254740993, "a")],
    "truth": [ls.all_of([("a", True)])],
    "causes": [
        ls.any_of([ls.Cause((ls.Condition("a", 7),)), ls.Cause((ls.Condition("a", "-0.0"),))])
    ],
}


@pytest.mark.parametrize("kind", RULES)
@pytest.mark.parametrize("name", TABLES)
def test_a_rule_labels_a_cell_alone_as_in_any_company(name: str, kind: str) -> None:
    (make, _, pool), draw = TABLES[name], random.Random(f"{name} {kind}")
    for rule in RULES[kind]:
        expected = []
        for cell in pool:
            with suppress(ls.BadExample):
                expected.append((cell, *rule.predict(make({"a": [cell]})).tolist()))
        assert len({said for _, said in expected}) == 2, "the test could not fail"
        for rows in [2, 5, 70, scaled(2600, least=300)]:
            some = draw.choices(expected, k=rows)
            said = rule.predict(make({"a": [cell for cell, _ in some]})).tolist()
            assert said == [alone for _, alone in some]


# What no file holds, and a caller in Python may: `float` takes these, and a reader of cells need not.
PYTHON_OBJECTS: list[Any] = [
    Fraction(1, 3),
    Decimal("0.3"),
    np.array(5.0),
    bytearray(b"3"),
    memoryview(b"3"),
    np.float32(0.1),
    np.str_("4"),
    10**400,
    "1_000",
    "\u0661",
    b"7",
    1,
    True,
    1.0,
    None,
]


@pytest.mark.parametrize("company", [[], ["no number"], [None, 1], PYTHON_OBJECTS])
@pytest.mark.parametrize("kind", ["number", "value", "truth"])
def test_a_reader_of_a_column_reads_any_object_by_itself(kind: Kind, company: list[Any]) -> None:
    for cell in PYTHON_OBJECTS:
        alone, faulty = read_column([cell], kind)
        column, wrong = read_column([*company, cell, *company], kind)
        place = len(company)
        assert wrong[place] == faulty[0], cell
        assert repr(column[place]) == repr(alone[0]), cell


HALVES = [0.0, 1.0, 2.0, None]
CHUNKS: dict[str, list[Any]] = {
    "half floats": [pa.array([cell], pa.float16()) for cell in HALVES],
    "half floats by code": [pa.array([cell], pa.float16()).dictionary_encode() for cell in HALVES],
    "a null among the values": [
        pa.array(["x", None]).dictionary_encode(null_encoding="encode"),
        pa.array(["y", "x"]).dictionary_encode(),
    ],
    "codes of eight bits": [
        pa.DictionaryArray.from_arrays(pa.array(range(100), pa.int8()), pa.array(texts))
        for texts in ([f"{part}-{n}" for n in range(100)] for part in "ab")
    ],
    "views": [pa.array(["x"], pa.string_view()), pa.array(["y", None], pa.string_view())],
    "views by code": [
        pa.DictionaryArray.from_arrays(pa.array([0, 0]), pa.array([text], pa.string_view()))
        for text in "xy"
    ],
    "decimals of 32 bits": [pa.array([Decimal(n)], pa.decimal32(5, 1)) for n in (1, 0)],
    "nulls": [pa.nulls(2), pa.nulls(1)],
    "nothing": [],
}


@pytest.mark.parametrize("name", CHUNKS)
def test_a_chunk_of_arrow_reads_the_same_alone_and_beside_others(name: str) -> None:
    chunks = CHUNKS[name]
    whole = pa.chunked_array(chunks, chunks[0].type if chunks else pa.string())
    assert coded(whole).tolist() == [cell for chunk in chunks for cell in chunk.to_pylist()]


def test_how_a_parquet_file_is_encoded_changes_no_round(tmp_path: Path) -> None:
    # Of these texts pyarrow makes no dictionary, and the file repeats few values all the same.
    ids = [f"id-{n}" for n in range(3000)]
    table = pa.table({"id": ids, "y": ["1", "0", "0"] * 1000} | {c: ["x"] * 3000 for c in "abcdef"})
    found = []
    for encoding in ("PLAIN", "DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY"):
        path = tmp_path / f"{encoding}.parquet"
        pyarrow.parquet.write_table(
            table, path, use_dictionary=[*"abcdef", "y"], column_encoding={"id": encoding}
        )
        with readers.open_rows(path, ls.Points("id"), label="y") as rows:
            blocks = [(list(block.columns["id"]), block.labels.tolist()) for block in rows]
        found.append([list(chain.from_iterable(parts)) for parts in zip(*blocks, strict=True)])
    assert found == [[ids, [1, 0, 0] * 1000]] * 3


@pytest.mark.parametrize("odd", [b"new", b"\xff", b"p-1"])
@pytest.mark.parametrize("held", [pa.int8(), pa.uint8(), pa.int64()])
def test_codes_of_a_parquet_file_may_be_too_few_for_its_values(
    held: pa.DataType, odd: bytes, tmp_path: Path
) -> None:
    # As pandas writes categories. What the last row holds must not decide how others are read.
    size = 64 if held == pa.int8() else 128  # and one value more in the last row
    texts = [[f"{part}-{n}".encode() for n in range(size)] for part in "pq"]
    chunks = []
    for values in (texts[0], [*texts[1], odd]):
        offsets = np.cumsum([0, *map(len, values)]).astype(np.int32)
        data = [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(values))]
        words = pa.Array.from_buffers(pa.string(), len(values), data)
        codes = pa.array(range(len(values)), held)
        chunks.append(pa.DictionaryArray.from_arrays(codes, words, safe=False))
    table = pa.table({"a": pa.chunked_array(chunks), "y": ["0"] * (2 * size + 1)})
    pyarrow.parquet.write_table(table, tmp_path / "e.parquet")
    with readers.open_rows(tmp_path / "e.parquet", ls.Points("a"), label="y") as rows:
        blocks = [(list(block.columns["a"]), block.null_rounds()) for block in rows]
    cells = [cell for block, _ in blocks for cell in block]
    assert cells[:-1] == [text.decode() for text in (*texts[0], *texts[1])]
    assert sum(nulls for _, nulls in blocks) == (odd == b"\xff")


class Failing:
    """A reader of Parquet that keeps dictionaries, until it cannot, or finds no place for a code."""

    def __init__(self, file: Any, batches: int, finds: Any) -> None:
        self.file, self.batches, self.finds = file, batches, finds

    def iter_batches(self, *arguments: Any, **options: Any) -> Any:
        yield from list(self.file.iter_batches(*arguments, **options))[: self.batches]
        if self.finds is None:
            raise OSError("Not yet implemented")
        yield self.finds


NOWHERE = pa.DictionaryArray.from_arrays(pa.array([0, 9]), pa.array(["x"]), safe=False)


@pytest.mark.parametrize("batches", range(5))
@pytest.mark.parametrize("finds", [None, pa.record_batch({"a": NOWHERE})], ids=["no", "a code"])
def test_the_plain_reader_goes_on_where_the_other_stopped(
    finds: Any, batches: int, tmp_path: Path
) -> None:
    table = pa.table({"a": [f"{n}" for n in range(100)]})
    pyarrow.parquet.write_table(table, tmp_path / "e.parquet", row_group_size=40)
    with pyarrow.parquet.ParquetFile(tmp_path / "e.parquet") as file:
        opened = open_parquet(file, Failing(file, batches, finds), ["a"])
        rows = [row["a"] for part in opened.batches(slice(1, None), 25) for row in part.to_pylist()]
    assert rows == [f"{n}" for n in range(40, 100)]
