"""Text is cut many lines at a time; here beside readers that take one line after the other."""

import csv
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import littlestone as ls
from effort import scaled
from littlestone._data import readers, text
from littlestone._data.rounds import NULL, Start
from littlestone._data.schema import MOST_FAULTS_KEPT
from littlestone._hypotheses.cells import label

# The line at which a record begins, and its cells; none of a null round.
Record = tuple[int, dict[str, Any] | None]
NAMES = ["a", "b", "y"]
SOUND_ROW = re.compile('(?:"(?:[^"]|"")*"|[^",]*)(?:,(?:"(?:[^"]|"")*"|[^",]*))*')


def lines_in(data: bytes) -> list[str]:
    lines = data.split(b"\n")
    return [line.decode("utf-8", "surrogateescape") for line in lines[: None if lines[-1] else -1]]


def slow_csv(data: bytes) -> Iterator[Record]:
    """The rules of docs/files.md, line by line."""
    lines, line = lines_in(data), 1
    while line < len(lines):
        cells, used = slow_record(lines[line : line + 100])
        yield line + 1, dict(zip(NAMES, cells, strict=True)) if len(cells) == len(NAMES) else None
        line += used


def slow_record(lines: list[str]) -> tuple[list[str], int]:
    if (alone := one_row(lines[0])) is not None:
        return alone, 1
    reader = csv.reader([line + "\n" for line in lines], strict=True)
    try:
        cells = next(reader)
    except csv.Error:
        return [], 1
    if len(cells) != len(NAMES) or any(map(is_sound, lines[1 : reader.line_num])):
        return [], 1
    return cells, reader.line_num


def one_row(line: str) -> list[str] | None:
    try:
        return next(csv.reader([line], strict=True))
    except csv.Error:
        return None


def is_sound(line: str) -> bool:
    cells = one_row(line)
    whole = SOUND_ROW.fullmatch(line.removesuffix("\r"))
    return cells is not None and len(cells) == len(NAMES) and whole is not None


def slow_json(data: bytes) -> Iterator[Record]:
    for number, line in enumerate(lines_in(data), start=1):
        try:
            found = json.loads(line)
        except (ValueError, RecursionError):
            found = None
        sound = isinstance(found, dict) and not {"a", "y"} - set(found) and nesting(found) <= 100
        yield number, found if sound else None


def nesting(value: Any) -> int:
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + max(map(nesting, parts), default=0) if isinstance(value, dict | list) else 0


def is_plain(cell: Any) -> bool:
    """Whether a cell of column a can be read as a value."""
    if isinstance(cell, str):
        return not any("\ud800" <= letter <= "\udfff" for letter in cell)
    return not isinstance(cell, list | dict)


def expected(record: dict[str, Any] | None) -> Any:
    if record is None or not is_plain(record["a"]):
        return None
    try:
        return repr(record["a"]), label(record["y"])
    except ls.BadExample:
        return None


def check(path: Path, data: bytes, records: list[Record], block_rows: int) -> None:
    """Read a file in small blocks; compare values, labels, the places of bad rows, and positions."""
    path.write_bytes(data)
    found, bad, ends = list[Any](), list[int](), list[Start]()
    with ls.open_rows(path, ls.Points("a"), label="y", block_rows=block_rows) as rows:
        assert rows.length == len(records)
        for block, end in rows.blocks():
            cells = zip(list(block.columns["a"]), block.labels.tolist(), strict=True)
            found += [None if y == NULL else (repr(a), bool(y)) for a, y in cells]
            bad += [row.line for row in block.bad]
            ends.append(end)
    assert found == [expected(record) for _, record in records]
    nulls = [line for line, record in records if expected(record) is None]
    assert set(bad) <= set(nulls)
    assert bad == nulls or len(nulls) > MOST_FAULTS_KEPT
    starts = np.cumsum([0, *(len(line) + 1 for line in data.split(b"\n"))])
    numbers = [line for line, _ in records]
    for end in ends:
        last = end.row == len(records)
        assert end.byte == (len(data) if last else starts[end.line - 1])
        assert last or end.line == numbers[end.row]


CELLS = [
    "a",
    "é",
    "\0",
    "",
    " ",
    "007",
    "1",
    "0",
    "\u2028",
    "\x1c",
    "a\udcff",
    "\udced\udca0\udc80",
]
QUOTED = [*(f'"{cell}"' for cell in CELLS), '"a""b"', '""""', '"a,b"']
ODD = [
    '"',
    "'",
    '"a',
    'a"',
    'a"b',
    '"a"b',
    "\r",
    "a\r",
    '"a\r"',
    '""a',
    '"""',
    "a,b",
    "x" * 150_000,
]


def joined(cells: list[str]) -> str:
    return ",".join(cells)


csv_lines = st.one_of(
    st.lists(st.sampled_from(CELLS), min_size=3, max_size=3).map(joined),
    st.lists(st.sampled_from([*CELLS, *QUOTED]), min_size=3, max_size=3).map(joined),
    st.lists(st.sampled_from([*CELLS, *QUOTED, *ODD]), min_size=1, max_size=4).map(joined),
    st.text('ab01,"\r ', max_size=12),
)
VALUES = [
    "a",
    'q"uote',
    "back\\slash",
    "é",
    "\n",
    "\ud800",
    1,
    True,
    1.0,
    1e400,
    10**30,
    None,
    [1],
    {},
]
objects = st.fixed_dictionaries(
    {"a": st.sampled_from(VALUES), "y": st.sampled_from([0, 1, "1", None])},
    optional={"b": st.sampled_from([*VALUES, {"a": 2, "y": 1}, ["y", "a"]])},
)
DEEP = [f'{{"a":1,"b":{"[" * levels}{"]" * levels},"y":1}}' for levels in (99, 100)]
ODD_LINES = [
    *("", " ", "[]", "1", "{}", '{"a":1}', '{"a":1,"y":0', '{"a":1,"y":0}}', '{"a":1}{"y":0}'),
    *('{"a":1,"y":0,}', '{"a":1,,"y":0}', '{,"a":1,"y":0}', '{"a":1,"a":2,"y":0}', '{"a":1 "y":0}'),
    *('{"a":1},{"y":0}', '{"a":01,"y":0}', '{"a":NaN,"y":0}', '{"a":-Infinity,"y":0}'),
    *('{"a":"\t","y":0}', '{"a":"\x7f","y":0}', '{"a":"\\ud800","y":0}', '{"a":"\udcff","y":0}'),
    *('\ufeff{"a":1,"y":0}', '{"a":1,"y":0}\r', '\x0c{"a":1,"y":0}', '{"a":"1","y":\xa00}'),
    *('{"a":"x","b":{"y":1,"a":2},"y":0}', '{"y":0,"a":1}', '{"a":"\u2028","y":0}', *DEEP),
    '{"a":' + "9" * 5000 + ',"y":0}',
    *('{"a":"x","y":0,"a":1}', '{"a":"x","y":0]', '{"a":"x","y":01', '{"a":"x";"y":0}'),
    *(
        '{"a":"x","z":0}',
        '{"y":0,"a":"x"}',
        '["a","x","y",0]',
        '{"a":"","y":"}"}',
        'x{"a":"x","y":0}',
    ),
]
spaces = st.sampled_from([(",", ":"), (", ", ": "), (" ,\t", " :\r")])
json_lines = st.one_of(
    st.builds(
        lambda x, marks: json.dumps(x, separators=marks, ensure_ascii=False), objects, spaces
    ),
    st.builds(json.dumps, objects),
    st.sampled_from(ODD_LINES),
)


@st.composite
def damaged(draw: Any, lines: st.SearchStrategy[str]) -> str:
    """A line, or one that lacks some letters."""
    line = draw(lines)
    if len(line) > 200 or draw(st.integers(0, 3)):
        return str(line)
    start = draw(st.integers(0, len(line)))
    return str(line[:start] + line[start + draw(st.integers(1, 3)) :])


@st.composite
def files(draw: Any, lines: st.SearchStrategy[str], ends: list[str]) -> bytes:
    """A few lines, many times: what repeats is cut, and what is odd is not."""
    pool = draw(st.lists(damaged(lines), min_size=1, max_size=5))
    picked = draw(st.lists(st.sampled_from(pool), min_size=1, max_size=40))
    feeds = draw(st.sampled_from(ends))
    whole: str = feeds.join(picked) + draw(st.sampled_from([feeds, ""]))
    data = whole.encode("utf-8", "surrogatepass")
    # Half of the files are not UTF-8.
    escaped = all(not "\ud800" <= letter <= "\udfff" or letter >= "\udc80" for letter in whole)
    return whole.encode("utf-8", "surrogateescape") if escaped and draw(st.booleans()) else data


FUZZ = settings(
    max_examples=scaled(200, least=50),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
chunks = st.sampled_from([61, 1000, 1 << 20])


@pytest.fixture(params=["pyarrow", "no pyarrow"])
def small(request: Any, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setattr(readers, "refuse_mostly_bad", lambda *given: None)
    if request.param == "no pyarrow":
        monkeypatch.setitem(sys.modules, "pyarrow", None)
    return monkeypatch


@FUZZ
@given(files(csv_lines, ["\n", "\r\n"]), chunks, st.integers(1, 9))
def test_lines_of_csv_read_as_one_after_the_other(
    tmp_path: Path, small: pytest.MonkeyPatch, data: bytes, chunk: int, block: int
) -> None:
    small.setattr(text, "_CHUNK_BYTES", chunk)
    whole = b"a,b,y\n" + data
    records = list(slow_csv(whole))
    if records:
        check(tmp_path / "rows.csv", whole, records, block)


@FUZZ
@given(files(json_lines, ["\n"]), chunks, st.integers(1, 9))
def test_lines_of_json_read_as_one_after_the_other(
    tmp_path: Path, small: pytest.MonkeyPatch, data: bytes, chunk: int, block: int
) -> None:
    small.setattr(text, "_CHUNK_BYTES", chunk)
    # The first line says which columns there are.
    whole = b'{"a":"first","y":0}\n' + data
    check(tmp_path / "rows.jsonl", whole, list(slow_json(whole)), block)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_an_odd_line_of_csv_changes_no_other(
    end: str, tmp_path: Path, small: pytest.MonkeyPatch
) -> None:
    cells = [*CELLS[:4], *QUOTED, *ODD[:-1]]
    odd = [
        "",
        "a",
        "a,b",
        *(line for x in cells for line in (x, f"{x},b,1", f"a,{x},1", f"a,b,{x}")),
    ]
    pairs = [f"{x}{end}a,b,0{end}{y}{end}{y}" for x in odd for y in odd]
    data = f"a,b,y{end}{end.join(pairs)}".encode("utf-8", "surrogateescape")
    check(tmp_path / "rows.csv", data, list(slow_csv(data)), 1 << 12)


@pytest.mark.parametrize(
    "line", ['{"a":"x","y":"0"}', '{"a":"x","y":0}', '{"a": 1, "y": 0}', '{"a":1,"b":[],"y":0}']
)
def test_an_odd_line_of_json_changes_no_other(
    line: str, tmp_path: Path, small: pytest.MonkeyPatch
) -> None:
    lines = [x for odd in ODD_LINES for x in (line, odd, odd, line)]
    data = "\n".join([line, *lines]).encode("utf-8", "surrogateescape")
    check(tmp_path / "rows.jsonl", data, list(slow_json(data)), 1 << 12)


def test_a_sound_row_with_quotes_is_not_swallowed_before_a_carriage_return(tmp_path: Path) -> None:
    path, lines = tmp_path / "rows.csv", ["a§b§y", "a§b§1", '"x', 'a§"§a"§"1"']
    path.write_bytes("".join(f"{line}\r\n" for line in lines).encode())
    with ls.open_rows(path, ls.Points("a"), label="y", delimiter="§") as rows:
        (block,) = rows
    assert block.labels.tolist() == [1, NULL, 1]


@pytest.mark.parametrize("first", ["a,plain,0", 'a,"quoted",0', 'a,"x\ry",0'])
def test_a_cell_that_nobody_reads_is_too_long_beside_every_line(first: str, tmp_path: Path) -> None:
    path, long = tmp_path / "rows.csv", f"a,{'n' * (csv.field_size_limit() + 1)},1"
    path.write_bytes("\n".join(["a,b,y", first, long, "a,b,1", ""]).encode())
    with ls.open_rows(path, ls.Points("a"), label="y") as rows:
        (block,) = rows
    assert block.labels.tolist() == [0, NULL, 1]


@pytest.mark.parametrize(
    ("first", "line"),
    [
        (r'{"a":{"\u0061":0},"\\u0061":0,"y":"0"}', r'{"a":1,"\u0061":"5","y":"0"}'),
        (
            r'{"a":{"k":"\"","b":0,"c":0,"y":0},",\"b":0,"y":"0"}',
            r'{"a":"1","a":1,","b":"t","y":"\"","y":"0"}',
        ),
    ],
)
def test_a_key_that_is_spelled_otherwise_is_another(
    first: str, line: str, tmp_path: Path, small: pytest.MonkeyPatch
) -> None:
    data = "\n".join([first, *[line] * 9]).encode()
    check(tmp_path / "rows.jsonl", data, list(slow_json(data)), 1 << 12)


@pytest.mark.parametrize("encoding", ["mac_arabic", "mac_farsi"])
def test_an_encoding_with_another_quote_is_refused(encoding: str, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_bytes(b"a,y\nx,1\n")
    with pytest.raises(ls.BadStream, match="line by line"):
        ls.open_rows(tmp_path / "rows.csv", ls.Points("a"), label="y", encoding=encoding)
