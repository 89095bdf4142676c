"""Reading streams: a slow twin, rows that keep their places, and sentences for what is wrong."""

import csv
import gzip
import io
import json
import math
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import littlestone as ls
from classes import GROUPS
from effort import scaled
from littlestone._data import text as lines
from littlestone._data.cells import user_number
from littlestone._data.formats import parse_objects
from littlestone._data.readers import open_rows
from littlestone._data.rounds import NULL, BadStream, Rounds
from littlestone._data.schema import Faults
from littlestone._hypotheses.rows import part_of
from littlestone._hypotheses.values import encode

CLS = ls.Union(ls.Rules(["a"]), ls.Thresholds(0, 9, 1, "n"), ls.Conjunctions(["t"]))
NAMES = ["a", "n", "t", "y", "u", "extra"]
SIZES = [1, 2, 3, 7, 1000]
Row = tuple[object, ...]
"""What a row is read as: a's value (by key), the number, the truth value, label, user."""

on_files = settings(
    max_examples=scaled(60, least=10),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    deadline=None,
)


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small files are to have many pieces too."""
    monkeypatch.setattr(lines, "_CHUNK_BYTES", 61)


def read(path: str | Path, cls: ls.HypothesisClass = CLS, **options: Any) -> list[Rounds]:
    with open_rows(path, cls, **{"label": "y", "user": "u"} | options) as rows:
        blocks = list(rows)
    assert rows.length in (None, sum(map(len, blocks)))
    size = options.get("block_rows", 65536)
    assert all(len(block) == size for block in blocks[:-1])
    assert all(block.null_rounds() == (block.labels == -1).sum() for block in blocks)
    assert all(len(block.bad) == min(block.null_rounds(), 100) for block in blocks)
    return blocks


def rows_of(blocks: list[Rounds]) -> list[Row | None]:
    """The rows of blocks one by one; None for a null round."""
    found: list[Row | None] = []
    for block in blocks:
        assert block.users is not None
        columns = block.columns
        assert [columns[name].dtype.kind for name in "nt"] == ["f", "b"]
        for at, label in enumerate(block.labels.tolist()):
            row = (
                encode(columns["a"][at]),
                encode(columns["n"][at]),
                bool(columns["t"][at]),
                label,
                int(block.users[at]),
            )
            found.append(None if label == -1 else row)
    return found


def slow_truth(cell: object) -> int | None:
    if isinstance(cell, str):
        word = cell.strip().lower()
        try:
            cell = float(word)
        except ValueError:
            return {"false": 0, "true": 1}.get(word)
    return int(cell) if isinstance(cell, int | float) and cell in (0, 1) else None


def slow_row(row: dict[str, Any], number: Callable[[Any], float | None]) -> Row | None:
    """One row, as the rules of the docstrings say it is read."""
    if not set(NAMES[:5]) <= set(row) or isinstance(row["a"], list | dict):
        return None
    n, t, y, u = number(row["n"]), slow_truth(row["t"]), slow_truth(row["y"]), row["u"]
    if n is None or t is None or y is None or u in ("", None) or isinstance(u, list | dict):
        return None
    if any(isinstance(cell, str) and not is_unicode(cell) for cell in (row["a"], u)):
        return None
    return encode(row["a"]), encode(n), bool(t), y, user_number(u)


def is_unicode(text: str) -> bool:
    return not any("\ud800" <= letter <= "\udfff" for letter in text)


def text_number(cell: str) -> float | None:
    try:
        return float(cell.strip() or "nan")
    except ValueError:
        return {"false": 0.0, "true": 1.0}.get(cell.strip().lower())


def json_number(cell: object) -> float | None:
    if cell is None:
        return math.nan
    if isinstance(cell, str):
        return text_number(cell)
    return float(cell) if isinstance(cell, int | float) else None


LABELS = ["0", "1", "True", "fALSE", "1.0", "0.0", "yes", "", " 1", "2"]
good_cells = st.tuples(
    st.sampled_from(["x", "", "a,b", 'say "so"', "é", "\t", "1", "'", '5"']),
    st.sampled_from(["1", "2.5", "", "1e3", "nan", "-inf", " 7"]),
    st.sampled_from(["0", "1", "TRUE"]),
    st.sampled_from(["0", "1", "1.0"]),
    st.sampled_from(["u1", "u2"]),
    st.sampled_from(["", "free text, with comma"]),
)
DIRT = {
    0: ["\udcff", "a\0b"],
    1: ["abc", "1,5", "\udcff", "0y1"],
    2: ["", "t", "2"],
    3: LABELS,
    4: ["", "\udcfe"],
    5: ["\udcff"],
}
dirty_cells = st.tuples(
    good_cells, st.sampled_from([(at, cell) for at, cells in DIRT.items() for cell in cells])
).map(lambda drawn: (*drawn[0][: drawn[1][0]], drawn[1][1], *drawn[0][drawn[1][0] + 1 :]))
wrong_width = st.lists(st.sampled_from(["x", "1", ""]), max_size=9).filter(
    lambda cells: len(cells) != len(NAMES)
)
csv_rows = st.lists(st.one_of(good_cells, good_cells, dirty_cells, wrong_width.map(tuple)))


def as_csv(rows: list[tuple[str, ...]], delimiter: str = ",") -> list[str]:
    """Rows as lines of CSV, without their ends."""
    written = []
    for row in rows:
        buffer = io.StringIO()
        csv.writer(buffer, delimiter=delimiter, lineterminator="").writerow(row)
        written.append(buffer.getvalue())
    return written


def save(path: Path, text_lines: list[str], end: str = "\n", last: bool = True) -> Path:
    text = end.join(text_lines) + (end if last else "")
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    return path


def padded(some: list[Any], good: Any) -> list[Any]:
    """Enough good rows around some for the file not to be refused."""
    return [good] * (len(some) + 1) + some + [good]


GOOD_CELLS = ("x", "1", "0", "1", "u1", "")


@on_files
@given(csv_rows, st.sampled_from(SIZES), st.sampled_from(["\n", "\r\n"]), st.booleans())
@pytest.mark.parametrize(
    ("ending", "delimiter"),
    [("csv", ","), ("tsv", "\t"), ("csv.gz", ","), ("csv", ";"), ("csv", "|")],
)
def test_csv_is_read_as_its_slow_twin_reads_it(
    tmp_path: Path, ending: str, delimiter: str, rows: Any, size: int, end: str, last: bool
) -> None:
    rows = padded(rows, GOOD_CELLS)
    path = tmp_path / f"stream.{ending}"
    save(path, as_csv([tuple(NAMES), *rows], delimiter), end, last)
    if ending.endswith("gz"):
        path.write_bytes(gzip.compress(path.read_bytes()))
    expected = [
        slow_row(dict(zip(NAMES, row, strict=True)), text_number) if len(row) == 6 else None
        for row in rows
    ]
    assert rows_of(read(path, block_rows=size)) == expected


JUNK: list[Any] = [
    None,
    True,
    0,
    1,
    1.0,
    2.5,
    "1",
    "true",
    "",
    "x",
    "\ud800",
    [1],
    {"k": 1},
    10**30,
]
GOOD_OBJECT = {"a": "x", "n": 1, "t": True, "y": 0, "u": "u1"}
objects = st.one_of(
    st.just(GOOD_OBJECT),
    st.fixed_dictionaries({}, optional=dict.fromkeys(NAMES, st.sampled_from(JUNK))),
    st.tuples(st.sampled_from(NAMES[:5]), st.sampled_from(JUNK)).map(
        lambda change: GOOD_OBJECT | {change[0]: change[1]}
    ),
)
rubbish_lines = st.sampled_from(
    [
        "",
        "  ",
        "{",
        "[1]",
        "7",
        '"text"',
        "{}",
        '{"a": 1}}',
        "]",
        "[" * 100_000,
        "\udcff",
        "9" * 5000,
        "null",
        '{"a": "x", "n": 1, "t": 1, "y": 1, "u": "\udcff"}',
    ]
)


def slow_line(line: str) -> Row | None:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return slow_row(row, json_number) if isinstance(row, dict) else None


@on_files
@given(st.lists(st.one_of(objects.map(json.dumps), rubbish_lines)), st.sampled_from(SIZES))
@pytest.mark.parametrize("ending", ["jsonl", "ndjson.gz", "json"])
def test_json_lines_are_read_as_their_slow_twin_reads_them(
    tmp_path: Path, ending: str, written: list[str], size: int
) -> None:
    written = padded(written, json.dumps(GOOD_OBJECT))
    path = save(tmp_path / f"stream.{ending}", written)
    if ending.endswith("gz"):
        path.write_bytes(gzip.compress(path.read_bytes()))
    assert rows_of(read(path, block_rows=size)) == list(map(slow_line, written))


any_line = st.one_of(
    st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"]), max_size=20),
    st.text(st.sampled_from('",\r\0x1\udcff'), max_size=12),
    st.sampled_from(["", '"', '",', 'x,"1', '""', ',"', '"x\r', "{", '{"a": "', "[" * 2000]),
)


@on_files
@given(csv_rows, any_line, st.data(), st.sampled_from(SIZES), st.booleans())
def test_rubbish_in_one_line_of_csv_leaves_every_other_row_in_its_place(
    tmp_path: Path, rows: Any, rubbish: str, data: st.DataObject, size: int, last: bool
) -> None:
    written = as_csv([tuple(NAMES), *padded(rows, GOOD_CELLS)])
    at = data.draw(st.integers(1, len(written) - 1))
    path = tmp_path / "stream.csv"
    before = rows_of(read(save(path, written, last=last or written[-1] == ""), block_rows=size))
    written[at] = rubbish
    after = rows_of(read(save(path, written, last=last or written[-1] == ""), block_rows=size))
    assert len(after) == len(before) == len(written) - 1
    del before[at - 1], after[at - 1]
    assert after == before


@on_files
@given(st.lists(objects.map(json.dumps)), any_line, st.data(), st.sampled_from(SIZES))
def test_rubbish_in_one_line_of_json_leaves_every_other_row_in_its_place(
    tmp_path: Path, written: list[str], rubbish: str, data: st.DataObject, size: int
) -> None:
    written = padded(written, json.dumps(GOOD_OBJECT))
    at = data.draw(st.integers(0, len(written) - 1))
    before = rows_of(read(save(tmp_path / "stream.jsonl", written), block_rows=size))
    written[at] = rubbish
    after = rows_of(read(save(tmp_path / "stream.jsonl", written), block_rows=size))
    assert len(after) == len(before) == len(written)
    del before[at], after[at]
    assert after == before


HEADER = "a,y\n"
MERCHANTS = ls.Points("a")


def simple(path: str | Path, text: str | bytes = b"", **options: Any) -> list[tuple[object, int]]:
    """The values and labels of a file of two columns; with a text, written first."""
    if text:
        Path(path).write_bytes(text.encode() if isinstance(text, str) else text)
    blocks = read(path, MERCHANTS, **{"user": None} | options)
    return [
        (value if label >= 0 else "", label)
        for block in blocks
        for value, label in zip(block.columns["a"], block.labels.tolist(), strict=True)
    ]


@pytest.mark.parametrize(
    ("body", "rows"),
    [
        ('"x\ny",1\nz,0\n', [("x\ny", 1), ("z", 0)]),
        ('"x\r\n\r\ny",1\r\nz,0\r\n', [("x\r\n\r\ny", 1), ("z", 0)]),
        ('"x,1\nz,0\nw,1\n', [("", -1), ("z", 0), ("w", 1)]),
        ('"x\nz",0,1\nw,1\nz,0\nz,0\n', [("", -1), ("", -1), ("w", 1), ("z", 0), ("z", 0)]),
        ('5",1\n6",0\n', [('5"', 1), ('6"', 0)]),
        ('"x\n"6""",0\nz,1\n', [("", -1), ('6"', 0), ("z", 1)]),
        ('"x\nz,0\ny",1\n', [("", -1), ("z", 0), ('y"', 1)]),
        ('"x"y,1\nz,0\n', [("", -1), ("z", 0)]),
        ("x\nz,0,1\nw,1\nw,1\n", [("", -1), ("", -1), ("w", 1), ("w", 1)]),
        ("x" * 140_000 + ",1\nz,0\n", [("", -1), ("z", 0)]),
        ("x,1\n\nz,0\n", [("x", 1), ("", -1), ("z", 0)]),
        ("x,1\nz,0\n\n", [("x", 1), ("z", 0), ("", -1)]),
        ("x,1\nz,0", [("x", 1), ("z", 0)]),
        ("x\rx,1\nz,0\nz,0", [("", -1), ("z", 0), ("z", 0)]),
    ],
)
def test_what_makes_a_record_of_csv(tmp_path: Path, body: str, rows: object) -> None:
    assert simple(tmp_path / "stream.csv", HEADER + body) == rows


def test_a_sentence_is_never_taken_for_a_row_of_as_many_cells(tmp_path: Path) -> None:
    for width in range(30, 50):
        good = "x,1" + "," * (width - 2)
        path = save(tmp_path / "s.csv", ["a,y" + "," * (width - 2), good, '"' + good])
        (block,) = read(path, MERCHANTS, user=None)
        assert block.bad == ((3, "not a row of CSV: unexpected end of data"),)


def test_a_quote_goes_on_for_so_many_lines_and_no_more(tmp_path: Path) -> None:
    for count, first in ((100, "whole"), (101, "broken")):
        cell = "\n".join(["text"] * count)
        body = f'{HEADER}"{cell}",1\n' + "z,0\n" * 300
        found = simple(tmp_path / "stream.csv", body)
        assert found[0] == ((cell, 1) if first == "whole" else ("", -1))
        assert found[-300:] == [("z", 0)] * 300
        assert len(found) == (301 if first == "whole" else 300 + count)


def test_a_line_without_end_is_one_null_round(tmp_path: Path) -> None:
    body = HEADER + "z,0\n" + "x" * (lines.MAX_LINE_BYTES + 1) + ",1\nz,0\n"
    assert simple(tmp_path / "stream.csv", body) == [("z", 0), ("", -1), ("z", 0)]
    body = HEADER + "z,0\nz,0\n" + "x" * (3 * lines.MAX_LINE_BYTES)
    assert simple(tmp_path / "stream.csv", body) == [("z", 0), ("z", 0), ("", -1)]
    longest = '{"a": "z", "y": 0}'.ljust(lines.MAX_LINE_BYTES)
    path = save(tmp_path / "stream.jsonl", [longest, longest + " ", longest])
    assert simple(path) == [("z", 0), ("", -1), ("z", 0)]


def test_a_byte_order_mark_is_no_part_of_a_name(tmp_path: Path) -> None:
    assert simple(tmp_path / "stream.csv", "\ufeffa,y\nx,1\n") == [("x", 1)]
    assert simple(tmp_path / "stream.jsonl", '\ufeff{"a": "x", "y": 1}\n') == [("x", 1)]


def test_values_keep_their_types(tmp_path: Path) -> None:
    written = [7, 7.0, True, None, "7"]
    path = save(tmp_path / "s.jsonl", [json.dumps({"a": value, "y": 1}) for value in written])
    assert [encode(value) for value, _ in simple(path)] == list(map(encode, written))
    table = pa.table({"a": pa.array([2**53 + 1, 7]), "y": [1, 0]})
    pq.write_table(table, tmp_path / "s.parquet")
    blocks = read(tmp_path / "s.parquet", MERCHANTS, user=None)
    assert set(map(type, blocks[0].columns["a"])) == {int}
    assert blocks[0].columns["a"].tolist() == [2**53 + 1, 7]


def test_parquet_text_that_is_not_unicode_spoils_its_row_only(tmp_path: Path) -> None:
    raw = pa.array([b"x", b"\xff", b"z"], pa.binary())
    text = pa.Array.from_buffers(pa.string(), 3, raw.buffers())
    for column in (text, text.dictionary_encode()):
        pq.write_table(pa.table({"a": column, "y": [1, 1, 0]}), tmp_path / "s.parquet")
        assert simple(tmp_path / "s.parquet") == [("x", 1), ("", -1), ("z", 0)]


def test_a_value_that_the_class_cannot_read_is_a_null_round(tmp_path: Path) -> None:
    table = ls.FiniteClass([[0, 1], [1, 0]], ["A", "B"], "a")
    path = save(tmp_path / "s.csv", ["a,y", "A,1", "B,0", "C,1"])
    (block,) = read(path, table, user=None)
    assert block.labels.tolist() == [1, 0, -1]
    assert block.bad == ((4, "'C' is not a point of the table"),)


def test_a_bad_row_is_told_by_the_line_where_it_begins(tmp_path: Path) -> None:
    rows = ['"two\nlines",1', "x,2", *["x,1"] * 200, '"a\nb",0', *["x,1"] * 200, "x,3", ""]
    (block,) = read(save(tmp_path / "s.csv", ["a,y", *rows]), MERCHANTS, user=None)
    assert block.bad == (
        (4, "column 'y': '2' is not 0, 1, true or false"),
        (407, "column 'y': '3' is not 0, 1, true or false"),
        (408, "the line is blank"),
    )


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ('{"n": 1, "t": 1, "y": 1, "u": 1}', "no column 'a'"),
        ('{"a": 1, "t": 1, "y": 1, "u": 1}', "no column 'n'"),
        ('{"a": [1], "n": 1, "t": 1, "y": 1, "u": 1}', "column 'a': [1] is not a plain value"),
        ('{"a": 1, "n": [1], "t": 1, "y": 1, "u": 1}', "column 'n': [1] is not a number"),
        ('{"a": 1, "n": "1a", "t": 1, "y": 1, "u": 1}', "column 'n': '1a' is not a number"),
        ('{"a": 1, "n": 1, "t": null, "y": 1, "u": 1}', "column 't' is empty"),
        ('{"a": 1, "n": 1, "t": 1, "y": {}, "u": 1}', "column 'y': {} is not 0, 1, true or false"),
        ('{"a": 1, "n": 1, "t": 1, "y": 1, "u": null}', "column 'u' is empty"),
        ("[1]", "[1] is not an object of JSON"),
        ('"text"', "'text' is not an object of JSON"),
        ("{", "not a line of JSON: Expecting property name"),
        (" ", "the line is blank"),
    ],
)
def test_what_is_wrong_with_a_line_of_json(tmp_path: Path, line: str, sentence: str) -> None:
    good = json.dumps(GOOD_OBJECT)
    (block,) = read(save(tmp_path / "s.jsonl", [good, line, good]))
    ((number, said),) = block.bad
    assert number == 2
    assert said.startswith(sentence)


def test_the_user_of_a_null_round_is_kept(tmp_path: Path) -> None:
    rows = ["x,perhaps,u1", "x,1,u2", "x,1,u3", "x,1,", "x", "x,1,u2", "x,1,u2"]
    (block,) = read(save(tmp_path / "s.csv", ["a,y,u", *rows]), MERCHANTS)
    assert block.users is not None
    names = ["u1", "u2", "u3", None, None, "u2", "u2"]
    assert block.users.tolist() == list(map(user_number, names))
    assert block.labels.tolist() == [-1, 1, 1, -1, -1, 1, 1]
    assert block.bad == (
        (2, "column 'y': 'perhaps' is not 0, 1, true or false"),
        (5, "column 'u' is empty"),
        (6, "1 cells where line 1 has 3"),
    )


def test_standard_input_and_pipes_have_no_length(tmp_path: Path) -> None:
    code = (
        "import sys, littlestone as ls; from littlestone._data.readers import open_rows\n"
        "with open_rows('-', ls.Points('a'), label='y', format=sys.argv[1]) as rows:\n"
        "    print(rows.name, rows.length, [b.labels.tolist() for b in rows])"
    )
    for format_, sent in (
        ("csv", b"a,y\nx,1\nz,0"),
        ("csv", gzip.compress(b"a,y\nx,1\nz,0")),
        ("jsonl", b'{"a": 1, "y": 1}\n{"a": 1, "y": 0}\n'),
    ):
        done = subprocess.run(
            [sys.executable, "-c", code, format_], input=sent, capture_output=True, check=True
        )
        assert done.stdout.decode().strip() == "standard input None [[1, 0]]"
    pipe = tmp_path / "pipe.csv"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(b"a,y\nx,1\n",))
    writer.start()
    with open_rows(pipe, MERCHANTS, label="y") as rows:
        assert rows.length is None
        assert [len(block) for block in rows] == [1]
    writer.join()


def test_a_file_that_grows_keeps_the_length_it_had(tmp_path: Path) -> None:
    path = save(tmp_path / "s.csv", ["a,y", *["x,1"] * 3000])
    with open_rows(path, MERCHANTS, label="y", block_rows=100) as rows:
        with path.open("a") as file:
            file.write("x,1\n" * 3000)
        assert sum(map(len, rows)) == rows.length == 3000


def refusal(path: str | Path, cls: ls.HypothesisClass = MERCHANTS, **options: Any) -> str:
    with pytest.raises(BadStream) as refused:
        read(path, cls, **{"user": None} | options)
    return str(refused.value)


PACKED = gzip.compress(b"a,y\n1,1\n", mtime=0)
"""Without the time of day: pytest names cases by their content, the same in every worker."""


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("s.csv", b"", "there are no rows in the file"),
        ("s.csv", b"a,y\n", "there are no rows in the file"),
        ("s.jsonl", b"", "there are no rows in the file"),
        ("s.csv", b"b,y\n1,1\n", "line 1: no column 'a', which the class reads: the file has 'b'"),
        ("s.csv", b"a,yy\n1,1\n", "line 1: no column 'y', which holds the label: the file has 'a', "
         "'yy'. Did you mean 'yy'?"),
        ("s.csv", b"a^y\n1^1\n", "the file has 'a^y'. If it should be several, say what separates "
         "them: --delimiter"),
        ("s.tsv", b"a;y\n1;1\n", "say what separates them: --delimiter"),
        ("s.csv", b"a,y,a\n1,1,1\n", "line 1: column 'a' is there twice"),
        ("s.csv", b"\n1,1\n", "line 1: no column 'a', which the class reads: the file has none"),
        ("s.csv", b'"a,y\n1,1\n', "line 1: the header is not a row of CSV"),
        ("s.csv", b'"a"^"y"\n1^1\n', "if that is another character, say --delimiter"),
        ("s.csv", b'[\n{"a": 1, "y": 1}]\n', "it looks like JSON"),
        ("s.data", b'{"a": 1, "y": 1}\n', "pass --format jsonl"),
        ("s.csv", b"a,y\n\xdf,1\n\xdf,1\n", "name its encoding, --encoding latin-1"),
        ("s.csv", b"a,\xdf,y\n1,1,1\n", "name that: --encoding latin-1"),
        ("s.json", b'[{"a": 1, "y": 1}]\n', "Of an array make lines, an object each: `jq"),
        ("s.json", b'[\n{"a": 1,\n"y": 1}\n]\n', "cannot be read. line 1: not a line of JSON"),
        ("s.jsonl", b'{"a": {"b": 1}, "y": 1}\n', "is not a plain value in UTF-8"),
        ("s.csv", b"PK\x03\x04\x14\0\xff", "a zip archive: unpack it first"),
        ("s.csv", b"\x89PNG\r\n\x1a\n\0\0", "line 1: not text in UTF-8"),
        ("s.data", b"\0\1\2\3", "name it: --format csv"),
        ("s.csv", "a,y\n1,1\n".encode("utf-16"), "line 1: not text in UTF-8"),
        ("s.csv.gz", b"a,y\n1,1\n", "named .gz, but not packed by gzip"),
        ("s.csv.gz", PACKED[:-9], "the gzip file is damaged or cut off"),
        ("s.csv.gz", PACKED[:10] + b"rubbish" * 9, "the gzip file is"),
        ("s.jsonl", b'{"b": 1, "y": 1}\n', "no column 'a', which the class reads: the file has"),
        ("s.jsonl", b"a,y\n1,1\n", "2 of the first 2 rows cannot be read. line 1: not a line of"),
        ("s.csv", b"a,y\n1,1\n1,2\n1,3\n", "2 of the first 3 rows cannot be read. "
         "line 3: column 'y': '2' is not 0, 1, true or false. If the labels have other"),
        ("s.parquet", b"a,y\n1,1\n", "not a Parquet file"),
    ],
)  # fmt: skip
def test_a_file_of_the_wrong_shape_gets_a_sentence(
    tmp_path: Path, name: str, content: bytes, sentence: str
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    said = refusal(path)
    assert said.startswith(f"{path}: ")
    assert sentence in said


@pytest.mark.parametrize(
    ("labels", "option"),
    [
        (["no", "yes"], "--positive yes."),
        (["No", "Yes"], "--positive Yes."),
        (["N", "Y"], "--positive Y."),
        (["f", "t"], "--positive t."),
        (["1", "2", "1", "1"], "--positive 2, or --positive 1."),
        (["ok", "lost"], "If the labels have other values, say which of them are positive"),
        ([*["0"] * 18, "unsure"], "--positive VALUE"),
    ],
)
def test_labels_that_nobody_explained_are_refused(
    tmp_path: Path, labels: list[str], option: str
) -> None:
    """More than 5 % of the labels say something else than 0 and 1: nothing is spent on guesses."""
    path = save(tmp_path / "s.csv", ["a,y", *(f"x,{y}" for y in (labels * 500)[:2000])])
    assert option in refusal(path)
    blocks = read(path, MERCHANTS, user=None, positive=["1"])
    assert not any(block.null_rounds() for block in blocks)


@pytest.mark.parametrize("labels", [[*["0"] * 19, "unsure"], ["0", "", "1", "NA"]])
def test_a_few_odd_labels_and_missing_ones_are_null_rounds(
    tmp_path: Path, labels: list[str]
) -> None:
    path = save(tmp_path / "s.csv", ["a,y", *(f"x,{y}" for y in (labels * 500)[:2000])])
    nulls = sum(block.null_rounds() for block in read(path, MERCHANTS, user=None))
    assert nulls == 2000 * sum(label not in ("0", "1") for label in labels) / len(labels)


@pytest.mark.parametrize(
    ("content", "options"),
    [
        (b"a;y\n\xdf;1\n\xe9;0\n", {"encoding": "latin-1"}),
        (b'"a"\t"y"\n\xdf\t1\n"\xe9"\t0\n', {"encoding": "cp1252"}),
        (b'"x, y";"a";y\n,;\xdf;1\n;\xe9;0\n', {"encoding": "latin-1"}),  # a comma in quotes
        (b"a^y\n\xdf^1\n\xe9^0\n", {"encoding": "latin-1", "delimiter": "^"}),
        (b"a,b\ty\ta\nz\t1\t\xdf\nz\t0\t\xe9\n", {"encoding": "latin-1", "delimiter": "tab"}),
        ("a;y\n\xdf;1\n\xe9;0\n".encode(), {}),
    ],
)
def test_marks_and_encodings_are_seen_or_said(
    tmp_path: Path, content: bytes, options: dict[str, str]
) -> None:
    """The mark is the one between the names of the first line, whatever the rows hold."""
    for name in ("s.csv", "s"):
        (tmp_path / name).write_bytes(content)
        (block,) = read(tmp_path / name, MERCHANTS, user=None, **options)
        assert list(block.columns["a"]) == ["\xdf", "\xe9"]
        assert block.labels.tolist() == [1, 0]


@pytest.mark.parametrize(
    ("name", "options", "sentence"),
    [
        ("s.csv", {"delimiter": ";;"}, "--delimiter ';;': it is one character"),
        ("s.csv", {"delimiter": '"'}, "no quote and no line break"),
        ("s.csv", {"encoding": "utf-16"}, "`iconv -f utf-16 -t utf-8 FILE > NEW`"),
        ("s.csv", {"encoding": "iso2022_jp"}, "cannot be read line by line"),
        ("s.csv", {"encoding": "raw_unicode_escape"}, "cannot be read line by line"),
        ("s.csv", {"encoding": "latin-7"}, "there is no encoding of this name"),
        ("s.jsonl", {"delimiter": ";"}, "s.jsonl: --delimiter is for CSV files, and this is jsonl"),
        ("s.parquet", {"encoding": "latin-1"}, "--encoding is for text files, and parquet is none"),
    ],
)
def test_marks_and_encodings_that_are_none_get_a_sentence(
    tmp_path: Path, name: str, options: dict[str, Any], sentence: str
) -> None:
    assert sentence in refusal(tmp_path / name, **options)


def test_a_file_that_is_not_there_is_an_os_error(tmp_path: Path) -> None:
    for name in ("none.csv", "none.jsonl.gz", "none.parquet"):
        with pytest.raises(FileNotFoundError):
            read(tmp_path / name)
    with pytest.raises(IsADirectoryError):
        read(tmp_path, format="csv")


def test_a_folder_is_its_parquet_files_in_the_order_of_their_paths(tmp_path: Path) -> None:
    parts = {"b/1.parquet": ["x"], "a/2.parquet": ["y", "z"], "a/10.parquet": ["w"], "b/0.csv": []}
    for name, cells in parts.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        pq.write_table(pa.table({"a": cells, "y": [1] * len(cells)}), tmp_path / name)
    for hidden in ("_delta_log/1.parquet", "a/.2.parquet.crc.parquet"):
        (tmp_path / hidden).parent.mkdir(exist_ok=True)
        (tmp_path / hidden).write_bytes(b"half written")
    with open_rows(tmp_path, MERCHANTS, label="y", block_rows=3) as rows:
        assert rows.length == 4
        found = [block.columns["a"].tolist() for block in rows]
    assert found == [["w", "y", "z"], ["x"]]


def test_a_column_has_one_type_in_all_files_of_a_folder(tmp_path: Path) -> None:
    """Numbers of one file would be read as those of the other: a row more would change others."""
    for name, cells in (("1", [1, 2]), ("2", ["1.5"])):
        table = pa.table({"a": cells, "y": [1] * len(cells)})
        pq.write_table(table, tmp_path / f"{name}.parquet")
    said = refusal(tmp_path)
    assert "2.parquet: column 'a' has type string, and int64 in" in said


def test_a_folder_without_parquet_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "day.csv").write_text("a,y\n1,1\n")
    assert refusal(tmp_path).endswith(
        ": there is no Parquet file in the folder; say --format arrow if it holds Arrow files"
    )


@pytest.mark.parametrize(
    ("column", "kind"),
    [
        ("a", pa.timestamp("us")),
        ("a", pa.struct({"k": pa.int64()})),
        ("a", pa.float64()),
        ("a", pa.bool_()),
        ("n", pa.timestamp("us")),
        ("t", pa.null()),
        ("y", pa.binary()),
        ("u", pa.date32()),
    ],
)
def test_a_parquet_column_of_an_unusable_type(tmp_path: Path, column: str, kind: Any) -> None:
    types = {"a": pa.string(), "n": pa.int8(), "t": pa.bool_(), "y": pa.int8(), "u": pa.string()}
    table = pa.table({name: pa.nulls(2, held) for name, held in (types | {column: kind}).items()})
    pq.write_table(table, tmp_path / "s.parquet")
    said = refusal(tmp_path / "s.parquet", CLS, user="u")
    assert f"column {column!r} has type {kind}, which cannot be read as a" in said


def test_a_damaged_parquet_file(tmp_path: Path) -> None:
    path = tmp_path / "s.parquet"
    table = pa.table({"a": [str(n) for n in range(5000)], "y": [1] * 5000})
    pq.write_table(table, path, row_group_size=1000, compression="zstd")
    content = bytearray(path.read_bytes())
    middle = len(content) // 2
    content[middle : middle + 2000] = bytes(2000)
    path.write_bytes(bytes(content))
    with (
        pytest.raises(BadStream, match="damaged"),
        open_rows(path, MERCHANTS, label="y", block_rows=1000) as rows,
    ):
        assert [len(block) for block in rows] == []


def test_parquet_without_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pq.write_table(pa.table({"a": ["x"], "y": [1]}), tmp_path / "s.parquet")
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    said = refusal(tmp_path / "s.parquet")
    assert said.endswith("reading Parquet needs pyarrow: pip install 'littlestone[parquet]'")


def test_pyarrow_is_imported_only_when_used() -> None:
    code = "import sys, littlestone._data.readers; sys.exit('pyarrow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_parquet_is_not_read_from_a_pipe() -> None:
    assert "from a file, not from a pipe" in refusal("-", format="parquet")


def test_formats_by_name_and_by_word(tmp_path: Path) -> None:
    path = save(tmp_path / "stream.log", ['{"a": "x", "y": 1}'])
    assert simple(path, format="NDJSON") == [("x", 1)]
    assert simple(tmp_path / "stream.txt", "a,y\nx,1\n") == [("x", 1)]
    assert "unknown format 'xlsx': it is one of csv, tsv" in refusal(path, format="xlsx")
    with pytest.raises(ValueError, match="at least one row"):
        read(path, block_rows=0)


@pytest.mark.parametrize("size", SIZES)
def test_most_of_the_first_thousand_decide_whatever_the_size_of_a_block(
    tmp_path: Path, size: int
) -> None:
    good, bad = ["x,1"] * 500, ["x"] * 500
    late = ["x"] * 5000
    path = save(tmp_path / "s.csv", ["a,y", *bad, *good, *late])
    blocks = read(path, MERCHANTS, user=None, block_rows=size)
    assert sum(block.null_rounds() for block in blocks) == 5500
    path = save(tmp_path / "s.csv", ["a,y", *bad, "x", *good])
    assert "501 of the first 1000 rows" in refusal(path, block_rows=size)


def test_a_strict_run_stops_at_the_first_bad_row(tmp_path: Path) -> None:
    path = save(tmp_path / "s.csv", ["a,y", *["x,1"] * 2000, "x,1,1", *["x,1"] * 9])
    with open_rows(path, MERCHANTS, label="y", strict=True, block_rows=500) as rows:
        blocks = iter(rows)
        assert [len(next(blocks)) for _ in range(4)] == [500] * 4
        with pytest.raises(BadStream) as stop:
            next(blocks)
    assert str(stop.value) == (
        f"{path}: line 2002: 3 cells where line 1 has 2 (the stop of a strict run tells about that "
        "row: it is outside the privacy guarantee)"
    )
    pq.write_table(pa.table({"a": ["x"] * 9, "y": [*[1] * 8, 2]}), tmp_path / "s.parquet")
    said = refusal(tmp_path / "s.parquet", strict=True, block_rows=4)
    assert "row 9: column 'y': 2 is not 0" in said


def test_rows_are_read_once(tmp_path: Path) -> None:
    path = save(tmp_path / "s.csv", ["a,y", "x,1"])
    with open_rows(path, MERCHANTS, label="y") as rows:
        assert rows.name == str(path)
        assert len(list(rows)) == 1
        with pytest.raises(BadStream, match="have been read: open the file again"):
            iter(rows)


def test_classes_that_cannot_read_a_file(tmp_path: Path) -> None:
    path = save(tmp_path / "s.csv", ["a,y", "x,1"])
    assert "reads bare values, and a file has columns" in refusal(path, ls.Points())
    assert "does not declare which columns it reads" in refusal(path, GROUPS)
    assert "'a' is the label" in refusal(path, label="a")
    assert "as the label and as the user" in refusal(path, user="y")


def test_a_column_that_members_of_a_union_read_in_two_ways_is_read_as_text(tmp_path: Path) -> None:
    path = save(tmp_path / "s.csv", ["a,y", "0.70,1", "7e-1,0", "red,1"])
    cls = ls.Union(ls.Points("a"), ls.Thresholds(0, 1, 0.1, "a"))
    with open_rows(path, cls, label="y") as rows:
        (block,) = rows
    assert block.labels.tolist() == [1, 0, NULL], "red is no number, which one of the members reads"
    assert ls.one_of(["0.70"], "a").predict(block.columns).tolist() == [True, False, False]
    assert ls.between(0.7, None, "a").predict(part_of(block.columns, [0, 1])).all()


def test_decimals_of_parquet_are_the_nearest_floats(tmp_path: Path) -> None:
    """A cast of pyarrow makes 0.30000000000000004 of 0.3."""
    cells = [Decimal(n).scaleb(-1) for n in range(100)]
    pq.write_table(pa.table({"a": cells, "y": [1] * 100}), tmp_path / "s.parquet")
    with open_rows(tmp_path / "s.parquet", ls.Thresholds(0, 9, 0.1, "a"), label="y") as rows:
        (block,) = rows
    assert block.columns["a"].tolist() == [n / 10 for n in range(100)]


def test_what_the_families_read() -> None:
    assert ls.Sets(2, "m").reads == {"m": "value"}
    assert ls.Points().reads == {None: "value"}
    assert ls.Rules(["b", "a"]).reads == {"b": "value", "a": "value"}
    assert ls.Intervals(0, 9, 1, "s").reads == {"s": "number"}
    assert ls.Conjunctions(["b"]).reads == {"b": "truth"}
    assert ls.FiniteClass([[0, 1]], column="c").reads == {"c": "value"}
    assert ls.Halving(ls.Thresholds(0, 9, 1, "s")).cls.reads == {"s": "number"}
    assert ls.Complement(CLS).reads == {"a": "value", "n": "number", "t": "truth"}
    assert ls.Union(ls.Points("m"), GROUPS).reads == {}


def test_how_deep_a_line_is_nested_is_judged_by_that_line_alone() -> None:
    """The decoder's own limit follows from how it is called: from whether another line failed."""
    for depth in [*range(95, 105), *range(880, 1010)]:
        line = '{"a": 1, "z": ' + "[" * depth + "]" * depth + "}"
        read = []
        for other in ('{"a": 2}', '{"a": '):
            faults: Faults = {}
            rows = parse_objects([line, other], faults)
            read.append((rows[0], faults.get(0)))
        assert read[0] == read[1], depth
        assert (read[0][1] is None) == (depth < 100)
    wide = json.dumps({"a": 1, "z": ["[" * 500, [[]] * 500]})
    nothing: Faults = {}
    assert parse_objects([wide], nothing) == [json.loads(wide)]
    assert not nothing, "wide, and not deep"
