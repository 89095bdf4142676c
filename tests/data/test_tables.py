"""Arrow files and streams, partitions of folders, and URIs: one stream of rows, read as others are.

The oracle of a new source is a CSV file with the same cells as text: whatever the entrance, the
rows of the stream, their order and their checksums are the same.
"""

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.feather
import pyarrow.fs
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest

import littlestone as ls
from littlestone._data import locations
from littlestone._data.locations import locate
from littlestone._data.readers import format_of, open_rows, read_header
from littlestone._data.rounds import BadStream, Rounds, Start
from littlestone._data.schema import read_rounds
from littlestone._hypotheses.rows import row_of
from littlestone._hypotheses.values import key_of
from littlestone._learners.base import PrivateLearner

CLS = ls.Causes(["version", "day"])
VERSIONS = [*"abcabcab", None, "é"]
TABLE = pa.table(
    {
        "version": VERSIONS,
        "day": ["1"] * 10,
        "failed": [0, 1] * 5,
        "unread": pa.array([{"deep": n} for n in range(10)]),
    }
)
WITHOUT_DAY = TABLE.drop_columns(["day"])


def arrow_file(path: Path, table: Any = TABLE, **options: Any) -> Path:
    """Write record batches of 3 rows, as a file or a stream."""
    make = pa.ipc.new_stream if path.suffix == ".arrows" else pa.ipc.new_file
    with make(path, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as file:
        file.write_table(table, max_chunksize=3)
    return path


def rows_of(path: object, cls: Any = CLS, size: int = 4, **options: Any) -> list[Rounds]:
    with open_rows(str(path), cls, label="failed", block_rows=size, **options) as rows:
        return list(rows)


def cells(blocks: list[Rounds]) -> list[tuple[Any, ...]]:
    """The cells and labels of all rows."""
    return [
        (*dict(row_of(block.columns, row)).values(), int(block.labels[row]))  # type: ignore[call-overload]
        for block in blocks
        for row in range(len(block))
    ]


EXPECTED = [(version, "1", row % 2) for row, version in enumerate(VERSIONS)]


@pytest.mark.parametrize("name", ["e.arrow", "e.feather", "e.arrows", "e.ipc"])
@pytest.mark.parametrize("compression", [None, "zstd", "lz4"])
def test_arrow_has_the_rows_that_were_written(
    name: str, compression: str | None, tmp_path: Path
) -> None:
    path = arrow_file(tmp_path / name, compression=compression)
    blocks = rows_of(path)
    assert cells(blocks) == EXPECTED
    assert [len(block) for block in blocks] == [4, 4, 2]
    with open_rows(path, CLS, label="failed") as rows:
        assert rows.length == 10


@pytest.mark.parametrize("name", ["e.arrow", "e.arrows"])
@pytest.mark.parametrize("row", range(11))
def test_arrow_is_read_on_from_any_row(name: str, row: int, tmp_path: Path) -> None:
    path = arrow_file(tmp_path / name)
    with open_rows(path, CLS, label="failed", block_rows=4) as rows:
        assert cells([block for block, _ in rows.blocks(Start(row))]) == EXPECTED[row:]


def test_record_batches_before_the_place_are_not_read_from_a_file(tmp_path: Path) -> None:
    path = arrow_file(tmp_path / "e.arrow")
    with open_rows(path, CLS, label="failed", block_rows=4) as rows:
        assert rows.length == 10
        # A row of the first batch that was spoilt after the batches were counted is not met.
        read, opened = [], pa.ipc.open_file

        class Noting:
            def __init__(self, *given: Any, **options: Any) -> None:
                self._file = opened(*given, **options)
                self.schema = self._file.schema
                self.num_record_batches = self._file.num_record_batches

            def get_batch(self, number: int) -> Any:
                read.append(number)
                return self._file.get_batch(number)

        with mock.patch.object(pa.ipc, "open_file", Noting):
            assert len(list(rows.blocks(Start(7)))) == 1
    assert read == [2, 3]


def test_dictionaries_are_decoded_and_batches_do_not_matter(tmp_path: Path) -> None:
    parts = [TABLE.slice(0, 4), TABLE.slice(4)]
    coded = [
        part.set_column(0, "version", part.column(0).combine_chunks().dictionary_encode())
        for part in parts
    ]
    with pa.ipc.new_stream(tmp_path / "e.arrows", coded[0].schema) as file:
        for part in coded:  # each has another dictionary
            file.write_table(part)
    found = rows_of(tmp_path / "e.arrows")
    assert cells(found) == EXPECTED
    plain = rows_of(arrow_file(tmp_path / "e.arrow"))
    assert [block.sums() for block in found] == [block.sums() for block in plain]


BROKEN = pa.array([b"a", b"\xff", None, b""]).cast("string", safe=False)


@pytest.mark.parametrize("held", ["string", "large_string"])
def test_files_that_repeat_values_and_files_that_do_not_are_one_stream(
    held: str, tmp_path: Path
) -> None:
    texts = BROKEN.cast(held)
    (tmp_path / "parts").mkdir()
    # Few rows take many bytes each, and many that repeat a text take few.
    for part, times in enumerate([1, 500, 1, 500]):
        column = pa.chunked_array([texts] * times)
        table = pa.table({"version": column, "day": column, "failed": [0, 1, 0, 1] * times})
        pq.write_table(table, tmp_path / "parts" / f"{part}.parquet", row_group_size=700)
    # Parquet does not keep that a dictionary has large strings.
    coded = texts.dictionary_encode() if held == "string" else texts
    coded = pa.table({"version": coded, "day": coded, "failed": [0, 1, 0, 1]})
    pq.write_table(coded, tmp_path / "parts" / "4.parquet")
    found = cells(rows_of(tmp_path / "parts", size=97))
    row = [("a", "a", 0), (None, None, -1), (None, None, 0), ("", "", 1)]
    assert found == row * 1003


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "not an Arrow file or stream"),
        (b"version,day,failed\n1,1,1\n", "not an Arrow file or stream"),
        (b"ARROW1\0\0", "not an Arrow file or stream"),
        (b"FEA1" + bytes(100), "Feather of version 1, which is not Arrow"),
    ],
)
def test_what_is_not_arrow_is_refused(content: bytes, sentence: str, tmp_path: Path) -> None:
    (tmp_path / "e.arrow").write_bytes(content)
    with pytest.raises(BadStream, match=sentence):
        rows_of(tmp_path / "e.arrow")


def test_a_stream_that_is_cut_off_is_refused_and_one_without_its_end_is_not(tmp_path: Path) -> None:
    path = arrow_file(tmp_path / "e.arrows")
    whole = path.read_bytes()
    path.write_bytes(whole[:-8])  # a writer that is still at work has not marked the end
    assert cells(rows_of(path)) == EXPECTED
    path.write_bytes(whole[:-50])
    with pytest.raises(BadStream, match="damaged or not finished"):
        rows_of(path)


@pytest.mark.parametrize("held", [pa.float64(), pa.bool_(), pa.date32(), pa.list_(pa.string())])
def test_a_column_that_has_no_text_is_refused_by_its_type(held: Any, tmp_path: Path) -> None:
    table = WITHOUT_DAY.append_column("day", pa.nulls(10, held))
    with pytest.raises(BadStream, match=r"'day' has type .*, which cannot be read as a value"):
        rows_of(arrow_file(tmp_path / "e.arrow", table))


def test_an_arrow_stream_comes_through_a_pipe(tmp_path: Path) -> None:
    content = arrow_file(tmp_path / "e.arrows").read_bytes()
    reading, writing = os.pipe()

    def write() -> None:
        with open(writing, "wb", buffering=0) as file:
            for at in range(0, len(content), 100):  # what is asked for does not come at once
                file.write(content[at : at + 100])

    thread = threading.Thread(target=write)
    thread.start()
    with open_rows(f"/dev/fd/{reading}", CLS, label="failed", format="arrow") as rows:
        assert rows.length is None
        assert rows.identity(0) is None
        assert cells(list(rows)) == EXPECTED
    thread.join()
    os.close(reading)


def partitioned(folder: Path, write: Callable[[Any, Path], Any], ending: str) -> Path:
    """Write rows by day, in folders whose names have to be decoded."""
    for day, start in (("1", 0), ("%C3%A9%3D", 4), ("__HIVE_DEFAULT_PARTITION__", 8)):
        place = folder / f"d%20ay={day}"
        place.mkdir(parents=True)
        write(WITHOUT_DAY.slice(start, 4), place / f"part.{ending}")
    return folder


DAYS = ls.Causes(["version", "d ay"])
BY_DAY = [
    *((VERSIONS[row], "é=", row % 2) for row in range(4, 8)),
    *((VERSIONS[row], "1", row % 2) for row in range(4)),
    *((VERSIONS[row], None, row % 2) for row in range(8, 10)),
]


@pytest.mark.parametrize("form", ["parquet", "arrow"])
@pytest.mark.parametrize("uri", [False, True])
def test_names_of_folders_are_columns(form: str, uri: bool, tmp_path: Path) -> None:
    """The order is that of paths, by code point: %C3... before 1 before __HIVE...."""
    write = pq.write_table if form == "parquet" else lambda table, path: arrow_file(path, table)
    place = partitioned(tmp_path / "by day", write, form)
    path = (tmp_path / "by day").as_uri() if uri else str(place)
    found = rows_of(path, DAYS, format=form)
    assert cells(found) == BY_DAY
    header = read_header(path, form)
    assert header.names == ("version", "failed", "unread", "d ay")
    assert header.types is not None
    assert (header.types["d ay"], header.rows) == ("text", 10)


def test_a_partition_is_read_as_the_class_reads_it(tmp_path: Path) -> None:
    for day in ("1.5", "oops"):
        (tmp_path / f"score={day}").mkdir()
        pq.write_table(TABLE, tmp_path / f"score={day}" / "part.parquet")
    with open_rows(tmp_path, ls.Thresholds(0, 9, 0.5, "score"), label="failed") as rows:
        (block,) = rows
    assert block.columns["score"][:10].tolist() == [1.5] * 10
    assert (block.labels[10:] == -1).all()
    # A label may be a partition as well, and then nothing is left to read in the file.
    for failed in "01":
        place = tmp_path / "all" / f"failed={failed}" / "day=1"
        place.mkdir(parents=True)
        pq.write_table(TABLE.select(["unread"]), place / "part.parquet")
        arrow_file(place / "part.arrow", TABLE.select(["unread"]))
    for form in ("parquet", "arrow"):
        found = cells(rows_of(tmp_path / "all", ls.Points("day"), format=form))
        assert found == [("1", 0)] * 10 + [("1", 1)] * 10


def test_a_partition_that_is_a_column_of_the_file_too_is_refused_if_it_is_read(
    tmp_path: Path,
) -> None:
    (tmp_path / "day=2").mkdir()
    pq.write_table(TABLE, tmp_path / "day=2" / "part.parquet")
    with pytest.raises(BadStream, match=r"'day' is in the file and in the name.*rename"):
        rows_of(tmp_path)
    assert len(cells(rows_of(tmp_path, ls.Points("version")))) == 10
    # A file that is named itself has no folders: what is above it is nobody's choice.
    assert cells(rows_of(tmp_path / "day=2" / "part.parquet")) == EXPECTED
    (tmp_path / "day=2" / "day=3").mkdir()
    pq.write_table(WITHOUT_DAY, tmp_path / "day=2" / "day=3" / "part.parquet")
    with pytest.raises(BadStream, match="two folders on its path name the column 'day'"):
        rows_of(tmp_path)


@pytest.mark.parametrize(
    "name", ["e.csv", "e.csv.gz", "e.jsonl", "e.parquet", "e.arrow", "e.arrows"]
)
def test_a_uri_has_the_rows_of_its_file(name: str, tmp_path: Path) -> None:
    path = tmp_path / "with space" / name
    path.parent.mkdir()
    frame = TABLE.drop_columns(["unread"]).to_pandas()
    match path.suffixes[0]:
        case ".csv":
            frame.to_csv(path, index=False)
        case ".jsonl":
            frame.to_json(path, orient="records", lines=True)
        case ".parquet":
            pq.write_table(TABLE, path)
        case _:
            arrow_file(path)
    there = path.as_uri()
    assert "%20" in there
    one, two = rows_of(path), rows_of(there)
    assert cells(one) == cells(two)
    assert [block.sums() for block in one] == [block.sums() for block in two]
    assert read_header(there).names == read_header(str(path)).names
    with open_rows(there, CLS, label="failed", block_rows=4) as rows:
        assert rows.length == 10
        identity = rows.identity(5)
        (_, place), *_ = rows.blocks()
    with open_rows(there, CLS, label="failed", block_rows=4) as rows:
        assert rows.identity(5) == identity
        assert cells([block for block, _ in rows.blocks(place)]) == cells(one)[4:]
    os.utime(path, ns=(1, 1))
    with open_rows(there, CLS, label="failed") as rows:
        assert rows.identity(5) != identity  # written again: all rows are compared


class Refusing(pa.fs.FileSystemHandler):  # type: ignore[misc]
    """A file system that answers as S3 does without a right to read."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def _fail(self, *given: Any) -> Any:
        raise self._error

    def get_type_name(self) -> str:
        return "refusing"

    get_file_info = get_file_info_selector = open_input_file = open_input_stream = _fail
    create_dir = delete_dir = delete_dir_contents = delete_root_dir_contents = delete_file = _fail
    move = copy_file = open_output_stream = open_append_stream = normalize_path = _fail


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (OSError("AWS Error ACCESS_DENIED during HeadObject"), "ACCESS_DENIED.*AWS_ACCESS_KEY_ID"),
        (FileNotFoundError("bucket/x"), "there is no such file or folder; check its name"),
    ],
)
def test_a_refusal_of_the_file_system_is_a_sentence(
    error: Exception, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    system = pa.fs.PyFileSystem(Refusing(error))
    there = locations.Location("s3://bucket/e.parquet", "bucket/e.parquet", system)
    monkeypatch.setattr(locations, "_resolved", lambda uri: there)
    with pytest.raises(BadStream, match=sentence) as caught:
        rows_of("s3://bucket/e.parquet")
    assert str(caught.value).startswith("s3://bucket/e.parquet: ")


def test_uris_that_no_file_system_knows_and_missing_objects_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadStream, match=r"nowhere://x/e\.csv: cannot be read: Unrecognized"):
        rows_of("nowhere://x/e.csv")
    with pytest.raises(BadStream, match="there is no such file or folder"):
        rows_of((tmp_path / "none.parquet").as_uri())
    with pytest.raises(BadStream, match="there is no such file or folder"):
        rows_of((tmp_path / "none").as_uri())
    with pytest.raises(BadStream, match="a secret does not belong in a URI") as caught:
        rows_of("s3://key:hidden@bucket/e.parquet")
    assert "hidden" not in str(caught.value)


def test_a_folder_behind_a_uri_is_recognised(tmp_path: Path) -> None:
    pq.write_table(TABLE, tmp_path / "e.parquet")
    assert format_of(tmp_path.as_uri(), "", None) == "parquet"
    assert format_of(f"{tmp_path.as_uri()}/e.csv?region=x", "", None) == "csv"
    assert locate("s3:events.csv").filesystem is None
    assert cells(rows_of(tmp_path.as_uri())) == EXPECTED


STREAMS: dict[str, Callable[[Any], Any]] = {
    "table": lambda table: table,
    "record batch": lambda table: table.combine_chunks().to_batches()[0],
    "reader": lambda table: table.to_reader(max_chunksize=3),
    "capsule": lambda table: Capsule(table),
    "array capsule": lambda table: ArrayCapsule(table),
    "duckdb": lambda table: relation(table, "SELECT * FROM rows ORDER BY number"),
    "pandas": lambda table: table.to_pandas(),
    "dict": lambda table: table.to_pydict(),
}


def relation(table: Any, query: str) -> Any:
    """A relation of DuckDB over a table, which the query calls rows."""
    connection = duckdb.connect()
    connection.register("rows", table)
    return connection.sql(query)


class Capsule:
    """An object of another library that has Arrow data."""

    def __init__(self, table: Any) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._table.to_reader(max_chunksize=3).__arrow_c_stream__(requested_schema)


class ArrayCapsule:
    def __init__(self, table: Any) -> None:
        self._batch = table.combine_chunks().to_batches()[0]

    def __arrow_c_array__(self, requested_schema: object = None) -> object:
        return self._batch.__arrow_c_array__(requested_schema)


def events(count: int = 3000) -> Any:
    draw = np.random.default_rng(5)
    version = draw.choice([*"abcd"], count)
    failed = draw.random(count) < np.where(version == "b", 0.95, 0.01)
    users = [f"user {n}" for n in draw.integers(0, 300, count)]
    return pa.table(
        {"version": version, "failed": failed, "who": users, "number": np.arange(count)}
    )


Learned = list[tuple[Any, ...]]


@pytest.fixture
def learned(monkeypatch: pytest.MonkeyPatch) -> Learned:
    """What learners are shown of each row: value, label, user."""
    found: Learned = []

    def learn(self: PrivateLearner, rounds: Rounds) -> None:
        users = [None] * len(rounds) if rounds.users is None else rounds.users.tolist()
        values: Any = rounds.columns["version"]
        found.extend(zip(values, rounds.labels.tolist(), users, strict=True))

    monkeypatch.setattr(PrivateLearner, "learn", learn)
    return found


@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize("unit", ["event", "user"])
def test_every_table_and_stream_is_learned_as_lists_are(
    name: str, unit: Any, learned: Learned
) -> None:
    table = events(50)
    options: dict[str, Any] = {"unit": "user", "cap": 5} if unit == "user" else {}
    by_list = {"users": table["who"].to_pylist()} if unit == "user" else {}
    by_name = {"users": "who"} if unit == "user" else {}
    failed, found = table["failed"].to_pylist(), []
    for X, y, users in (
        (table.select(["version"]).to_pylist(), failed, by_list),
        (STREAMS[name](table), "failed", by_name),
        (STREAMS[name](table), failed, by_list),
        (STREAMS[name](table), failed, by_name),
    ):
        learner = ls.DPSOA(ls.Points("version"), 8, 1e-6, 3000, seed=7, **options)
        learner.learn_many(X, y, **users)
        found.append(learned[:])
        learned.clear()
    assert len(found[0]) == 50
    assert found[0] == found[1] == found[2] == found[3]


def test_a_stream_is_learned_batch_by_batch(tmp_path: Path) -> None:
    table, seen = events(), []
    learner = ls.PrivateCauses(ls.Causes(["version"]), 1, 1e-6, 3000)

    def batches() -> Any:
        for batch in table.to_batches(max_chunksize=1000):
            seen.append(learner.rounds)
            yield batch

    learner.learn_many(pa.RecordBatchReader.from_batches(table.schema, batches()), "failed")
    assert (seen, learner.rounds) == ([0, 1000, 2000], 3000)
    learner.learn_many(table.schema.empty_table().to_reader(), "failed")
    assert learner.rounds == 3000


def test_a_batch_of_a_stream_that_is_refused_leaves_those_before_it() -> None:
    bad = pa.table({"version": ["a"] * 5, "failed": pa.array([0, 1, 0, 7, 0], pa.int64())})
    learner = ls.DPSOA(ls.Points("version"), 1, 1e-6, 3000)
    with pytest.raises(ls.BadExample, match=r"row 3: label 7 .*the 2 rows of the stream before"):
        learner.learn_many(bad.to_reader(max_chunksize=2), "failed")
    assert learner.rounds == 2
    with pytest.raises(ls.BadExample, match="row 3: label 7 is not 0 or 1: pass"):
        learner.learn_many(bad, "failed")
    assert learner.rounds == 2
    learner.learn_many(bad.to_reader(max_chunksize=2), "failed", bad_rows="null")
    assert (learner.rounds, learner.null_rounds) == (7, 1)


def test_a_label_by_name_is_refused_where_the_class_would_read_it() -> None:
    table = events(10)
    with pytest.raises(ls.BadExample, match="column 'version' is read by the class"):
        ls.DPSOA(ls.Points("version"), 1, 1e-6, 100).learn_many(table, "version")
    with pytest.raises(ls.BadExample, match="does not say which columns it reads"):
        ls.DPSOA(ls.Points(), 1, 1e-6, 100).learn_many(table, "failed")
    with pytest.raises(ls.BadExample, match="no column 'fail' in the batch"):
        ls.DPSOA(ls.Points("version"), 1, 1e-6, 100).learn_many(table.to_reader(), "fail")


def test_numbers_of_duckdb_are_refused_where_text_is_read() -> None:
    learner = ls.DPSOA(ls.Points("number"), 1, 1e-6, 100)
    table = events(10)
    with pytest.raises(ls.BadExample, match="convert the column: "):
        learner.learn_many(relation(table, "SELECT * FROM rows ORDER BY number"), "failed")
    query = "SELECT number::VARCHAR AS number, failed FROM rows ORDER BY rows.number"
    learner.learn_many(relation(table, query), "failed")
    assert learner.rounds == 10


def test_whole_numbers_of_a_file_are_its_text_once_their_column_is_converted(
    tmp_path: Path,
) -> None:
    """A table in memory does not say who gave it its types: each library is told what to call."""
    path = tmp_path / "rows.parquet"
    table = pa.table({"shop": pa.array([7, None, 12], pa.int64()), "failed": [1, 0, 1]})
    pq.write_table(table, path)
    shops = ls.Points("shop")
    with open_rows(path, shops, label="failed") as rows:
        (expected,) = ([key_of(cell) for cell in block.columns["shop"]] for block in rows)
    query = f"SELECT shop, CAST(shop AS VARCHAR) AS text FROM '{path}'"
    selected = relation(table, query).to_arrow_table()
    frame, columns = pd.read_parquet(path, dtype_backend="numpy_nullable"), pl.read_parquet(path)
    for library, held, text in [
        ("pandas", frame[["shop"]], frame["shop"].astype("string")),
        ("polars", columns, columns.with_columns(pl.col("shop").cast(pl.String))["shop"]),
        ("pyarrow", table, table["shop"].cast("string")),
        ("all_varchar", selected, selected["text"]),
    ]:
        with pytest.raises(ls.BadExample, match=rf"column 'shop': .*{library}.*convert the column"):
            read_rounds(shops, held, [1, 0, 1])
        block = read_rounds(shops, {"shop": text}, [1, 0, 1])
        assert [key_of(cell) for cell in block.columns["shop"]] == expected
