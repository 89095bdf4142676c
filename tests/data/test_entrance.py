"""Lemma 0: round i is a function of row i alone, at every entrance.

Rows are given to each entrance twice, with one row replaced. What the learner is shown of all other
rows must be equal, or the whole column is refused before a row of it is read. Readers in front of
us (numpy, pandas, polars, pyarrow) guess the type of a column from all of its rows, so one cell can
change what the others are handed over as: identity may not follow that type.
"""

import csv
import io
import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest import mock

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.ipc
import pyarrow.parquet
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import littlestone as ls
import littlestone.river as lr
from effort import scaled
from littlestone._data import readers
from littlestone._data.cells import user_number
from littlestone._data.kafka import read_messages
from littlestone._data.readers import open_rows
from littlestone._data.rounds import NULL, BadStream, Rounds
from littlestone._data.schema import file_schema, read_parts, read_rounds
from littlestone._data.tables import rounds_of_table
from littlestone._hypotheses.cells import flat_type, label, number_of
from littlestone._hypotheses.rows import Batch, as_batch, part_of, row_of
from littlestone._hypotheses.values import canonical, encode, key_of
from littlestone._learners.base import PrivateLearner
from littlestone._learners.epoch_rows import PatternIndex
from littlestone._service.bodies import parse_block
from littlestone._service.limits import Limits
from littlestone.errors import BadColumn
from littlestone.sklearn import PrivateClassifier

pytestmark = pytest.mark.filterwarnings("ignore:delta", "ignore::FutureWarning")

TEXT, NUMBER, TRUTH = ls.Points("a"), ls.Thresholds(0, 9, 0.5, column="a"), ls.Conjunctions(["a"])
BOTH = ls.Union(ls.Points("a"), ls.Thresholds(0, 9, 0.5, column="a"))
CAUSES, RANGES = ls.Causes(["a"]), ls.Causes([ls.Ranges("a", [1, 2.5, 2**53 + 1])])
CLASSES = {
    "text": TEXT,
    "number": NUMBER,
    "truth": TRUTH,
    "text and number": BOTH,
    "causes": CAUSES,
    "causes with ranges": RANGES,
}
Row = tuple[Any, Any, Any]
"""The cell that the class reads, a cell that it does not read, and the label."""
Fingerprint = object
"""What a learner can tell of a round."""

CELLS: list[Any] = [
    *(
        3,
        2,
        0,
        1,
        2.5,
        3.0,
        -0.0,
        "oops",
        "3",
        "3.0",
        "007",
        "1.10",
        "1.1",
        "1e3",
        " 7",
        "-0",
        "+3",
    ),
    *("True", "true", "FALSE", True, False, None, float("nan"), "", "NA", "nan", "inf"),
    *("#N/A", "null", "+nan", "nan(1)", "0x1F", "0xFFFFFFFFFFFFFFFF", "2020-01-01"),
    *(
        10**400,
        -(10**400),
        2**53 + 1,
        2**63,
        -(2**63),
        "9007199254740993",
        'a"b',
        "a,b",
        "é",
        "4.2.1",
    ),
]
LABELS: list[Any] = [0, 1, True, False, "0", "1", "true", 1.0, "1.0", 2, "maybe", None, ""]


RULES: dict[str, list[ls.Hypothesis]] = {
    "value": [ls.one_of([3], "a"), ls.one_of(["3.0", "007"], "a")],
    "number": [ls.between(2.5, None, "a"), ls.between(None, 9007199254740992.5, "a")],
    "truth": [ls.all_of([("a", True)])],
}


def seen(cls: ls.HypothesisClass, batch: Batch, usable: Any, answers: Any) -> list[Fingerprint]:
    """What a class can tell of each round; a null round, which nobody is shown, is None."""
    kind = cls.reads["a"]
    expected = {"value": key_of, "number": number_of, "truth": label}[kind]
    kept = part_of(batch, np.flatnonzero(usable))
    together = [rule.predict(kept).tolist() for rule in RULES[kind]]
    found: list[Fingerprint] = [None] * len(usable)
    for place, row in enumerate(np.flatnonzero(usable)):
        x: Any = row_of(kept, place)
        alone = [rule(x) for rule in RULES[kind]]
        assert alone == [said[place] for said in together]
        found[row] = expected(x["a"]), alone, bool(answers[row])
    if isinstance(cls, ls.Causes):
        return with_patterns(cls, kept, np.flatnonzero(usable), found)
    return found


def with_patterns(
    cls: ls.Causes, kept: Batch, places: Any, found: list[Fingerprint]
) -> list[Fingerprint]:
    """What the rows of an epoch hold of each round as well: its hash, and its exact value."""
    index, every = PatternIndex(cls), np.arange(len(places))
    together = index.read(kept, every, every)
    hashed = together.negatives.columns[0].tolist()
    exact = together.positives[0].tolist()
    for place, row in enumerate(places):
        # A batch holds of a row what the row alone gives.
        single = index.read(as_batch([row_of(kept, place)]), every[:1], every[:1])
        assert single.negatives.columns[0].tolist() == [hashed[place]]
        assert canonical(single.positives[0][0]) == canonical(exact[place])
        found[row] = found[row], hashed[place], encode(canonical(exact[place]))
    return found


def rounds(cls: ls.HypothesisClass, X: Any, y: Any) -> list[Fingerprint]:
    """What `learn_many` shows a learner."""
    read = read_rounds(cls, X, y, None, "null")
    return seen(cls, read.columns, read.usable, read.answers)


def block_rounds(cls: ls.HypothesisClass, blocks: Sequence[Rounds]) -> list[Fingerprint]:
    """What a reader of files shows a learner."""
    found = (seen(cls, one.columns, one.labels != NULL, one.labels == 1) for one in blocks)
    return [expected for some in found for expected in some]


def columns(rows: Sequence[Row]) -> dict[str, list[Any]]:
    a, b, y = zip(*rows, strict=True)
    return {"a": list(a), "b": list(b), "y": list(y)}


def dicts(rows: Sequence[Row]) -> list[dict[str, Any]]:
    return [{"a": a, "b": b, "y": y} for a, b, y in rows]


def table(make: Callable[[dict[str, list[Any]]], Any]) -> Callable[..., list[Fingerprint]]:
    """An entrance: `learn_many` with a table that a library makes of lists."""

    def entrance(cls: ls.HypothesisClass, rows: Sequence[Row], folder: Path) -> list[Fingerprint]:
        given = columns(rows)
        return rounds(cls, make({"a": given["a"], "b": given["b"]}), given["y"])

    return entrance


def written(rows: Sequence[Row]) -> str:
    """The rows as the text of a CSV file."""
    text = io.StringIO()
    out = csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\n")
    out.writerow("aby")
    out.writerows(["" if cell is None else str(cell) for cell in row] for row in rows)
    return text.getvalue()


def read_by(read: Callable[[io.BytesIO], Any]) -> Callable[..., list[Fingerprint]]:
    """An entrance: a table that a library read from a CSV file, types guessed, labels too."""

    def entrance(cls: ls.HypothesisClass, rows: Sequence[Row], folder: Path) -> list[Fingerprint]:
        if any(isinstance(cell, int) and abs(cell) >= 2**63 for row in rows for cell in row):
            # Beside such a number pandas takes missing cells for text (docs/limits.md).
            raise OverflowError("a whole number of more than 64 bits")
        found = read(io.BytesIO(written(rows).encode()))
        return rounds(cls, found, found["y"])

    return entrance


def array(cells: Sequence[Any]) -> Any:
    """An array of whatever type numpy takes."""
    if any(isinstance(cell, bool) for cell in np.ravel(np.array(cells, dtype=object))):
        # Beside whole numbers numpy makes 1 of True before anybody can see it (docs/limits.md).
        raise OverflowError("a truth value beside whole numbers")
    return np.array(cells)


def matrix(cls: ls.HypothesisClass, rows: Sequence[Row], folder: Path) -> list[Fingerprint]:
    """One numpy array of both columns, of whatever type numpy takes."""
    both = array([[a, b] for a, b, _ in rows])
    return rounds(cls, {"a": both[:, 0], "b": both[:, 1]}, [y for *_, y in rows])


def sklearn_lists(cls: ls.HypothesisClass, rows: Sequence[Row], folder: Path) -> list[Fingerprint]:
    model = PrivateClassifier(cls.__class__(*renamed(cls)), 1, 1e-6)
    batch = model._table([[a, b] for a, b, _ in rows], reset=True)
    assert isinstance(batch, dict)
    return rounds(cls, {"a": batch["x0"]}, [y for *_, y in rows])


def sklearn_frames(cls: ls.HypothesisClass, rows: Sequence[Row], folder: Path) -> list[Fingerprint]:
    """A frame of pandas whose columns go by number, as `read_csv(header=None)` makes it."""
    model = PrivateClassifier(cls.__class__(*renamed(cls)), 1, 1e-6)
    batch = model._table(pd.DataFrame([[a, b] for a, b, _ in rows]), reset=True)
    assert isinstance(batch, dict)
    return rounds(cls, {"a": batch["x0"]}, [y for *_, y in rows])


def renamed(cls: ls.HypothesisClass) -> Sequence[Any]:
    """The parameters of a class that reads x0, as scikit-learn names the first column."""
    if cls is BOTH:
        return [ls.Points("x0"), ls.Thresholds(0, 9, 0.5, "x0")]
    if cls is TEXT:
        return ["x0"]
    if isinstance(cls, ls.Causes):
        return [["x0"] if cls is CAUSES else [ls.Ranges("x0", [1, 2.5, 2**53 + 1])]]
    return [["x0"]] if cls is TRUTH else [0, 9, 0.5, "x0"]


def river_rows(cls: ls.HypothesisClass, rows: Sequence[Row], folder: Path) -> list[Fingerprint]:
    """River's verbs, one row at a time."""
    model, found = lr.PrivateClassifier(cls, 1, 1e-6, 100, "dpsoa"), list[Fingerprint]()

    def passed(self: PrivateLearner, x: Any, y: bool | None, route: int) -> None:
        self.rounds += 1
        batch = {"a": np.array([None if x is None else x["a"]], dtype=object)}
        found.extend(seen(cls, batch, np.array([y is not None]), [y]))

    with mock.patch.object(PrivateLearner, "_pass", passed):
        for a, b, y in rows:
            model.learn_one({"a": a, "b": b}, y)
    return found


def river_frames(cls: ls.HypothesisClass, rows: Sequence[Row], folder: Path) -> list[Fingerprint]:
    """River's mini-batches, of the frame that pandas makes of lists."""
    model, found = lr.PrivateClassifier(cls, 1, 1e-6, 100, "dpsoa"), list[Fingerprint]()

    def learned(self: PrivateLearner, read: Rounds) -> None:
        found.extend(seen(cls, read.columns, read.usable, read.answers))

    with mock.patch.object(PrivateLearner, "learn", learned):
        frame = pd.DataFrame(columns(rows))
        model.learn_many(frame[["a", "b"]], frame["y"])
    return found


def http(form: Any) -> Callable[..., list[Fingerprint]]:
    """An entrance: the body of a request."""

    def entrance(cls: ls.HypothesisClass, rows: Sequence[Row], folder: Path) -> list[Fingerprint]:
        lines = [json.dumps(row) for row in dicts(without_nan(rows))]
        body = "\n".join(lines) if form == "ndjson" else f"[{','.join(lines)}]"
        return block_rounds(
            cls, [parse_block(body.encode(), form, file_schema(cls, "y", None), Limits())]
        )

    return entrance


def messages(cls: ls.HypothesisClass, rows: Sequence[Row], folder: Path) -> list[Fingerprint]:
    """The values of messages; which round each is has its own tests (test_topic.py)."""
    values, offsets = [json.dumps(row).encode() for row in dicts(rows)], np.arange(len(rows))
    piece, _ = read_messages(file_schema(cls, "y", None), values, {}, offsets)
    return block_rounds(cls, [piece])


def without_nan(rows: Sequence[Row]) -> list[Any]:
    """JSON has no NaN."""
    return [tuple(None if cell != cell else cell for cell in row) for row in rows]


def file(name: str, text: Callable[[Sequence[Row]], str]) -> Callable[..., list[Fingerprint]]:
    """An entrance: a file that our readers read."""

    def entrance(cls: ls.HypothesisClass, rows: Sequence[Row], folder: Path) -> list[Fingerprint]:
        path = folder / name
        path.write_text(text(rows), encoding="utf-8")
        with (
            mock.patch.object(readers, "refuse_mostly_bad"),
            open_rows(path, cls, label="y") as found,
        ):
            return block_rounds(cls, list(found))

    return entrance


def parquet(types: Sequence[Any]) -> Callable[..., list[Fingerprint]]:
    """An entrance: Parquet with a schema, read here and as Ray's tasks read it."""

    def entrance(cls: ls.HypothesisClass, rows: Sequence[Row], folder: Path) -> list[Fingerprint]:
        schema = pa.schema(list(zip("aby", types, strict=True)))
        cells = [
            [held_as(cell, held) for cell, held in zip(row, types, strict=True)] for row in rows
        ]
        made = pa.table(
            [pa.array(c, t) for c, t in zip(zip(*cells, strict=True), types, strict=True)],
            schema=schema,
        )
        pa.parquet.write_table(made, folder / "rows.parquet", row_group_size=2)
        with (
            mock.patch.object(readers, "refuse_mostly_bad"),
            open_rows(folder / "rows.parquet", cls, label="y") as found,
        ):
            here = block_rounds(cls, list(found))
        there = block_rounds(cls, [rounds_of_table(file_schema(cls, "y", None), made, 0)])
        assert here == there
        return here

    return entrance


def arrow(types: Sequence[Any], *, name: str = "rows.arrow") -> Callable[..., list[Fingerprint]]:
    """An entrance: an Arrow file or stream with a schema, in record batches of two rows."""

    def entrance(cls: ls.HypothesisClass, rows: Sequence[Row], folder: Path) -> list[Fingerprint]:
        columns = zip(*rows, strict=True)
        made = pa.table(
            [
                pa.array([held_as(cell, flat_type(held)) for cell in column], held)
                for column, held in zip(columns, types, strict=True)
            ],
            names=list("aby"),
        )
        make = pa.ipc.new_stream if name.endswith(".arrows") else pa.ipc.new_file
        with make(folder / name, made.schema) as out:
            out.write_table(made, max_chunksize=2)
        with (
            mock.patch.object(readers, "refuse_mostly_bad"),
            # A URI goes through pyarrow's file systems, as s3:// does.
            open_rows((folder / name).as_uri(), cls, label="y", block_rows=3) as found,
        ):
            return block_rounds(cls, list(found))

    return entrance


def partitions(cls: ls.HypothesisClass, rows: Sequence[Row], folder: Path) -> list[Fingerprint]:
    """A folder whose partitions are columns; which rows are in which file is public."""
    half = (len(rows) + 1) // 2
    for part, some in enumerate((rows[:half], rows[half:])):
        (folder / f"c={part}").mkdir(exist_ok=True)
        held = [[None if cell is None else str(cell) for cell in row] for row in some]
        made = pa.table([pa.array(cells, pa.string()) for cells in zip(*held, strict=True)], "aby")
        with pa.ipc.new_file(folder / f"c={part}" / "rows.arrow", made.schema) as out:
            out.write_table(made)
    with (
        mock.patch.object(readers, "refuse_mostly_bad"),
        open_rows(folder, cls, label="y", user="c", format="arrow") as read,
    ):
        blocks = list(read)
    users = [user for block in blocks if block.users is not None for user in block.users]
    assert users == [user_number("0")] * half + [user_number("1")] * (len(rows) - half)
    return block_rounds(cls, blocks)


def by_name(stream: Callable[[Sequence[Row], Path], Any]) -> Callable[..., list[Fingerprint]]:
    """An entrance: `learn_many` with a stream of record batches, whose labels go by name."""

    def entrance(cls: ls.HypothesisClass, rows: Sequence[Row], folder: Path) -> list[Fingerprint]:
        return block_rounds(cls, list(read_parts(cls, stream(rows, folder), "y", None, "null")))

    return entrance


def record_batches(rows: Sequence[Row], folder: Path) -> Any:
    """A reader of batches of two rows, of the types that pyarrow guesses."""
    return pa.table(columns(rows)).to_reader(max_chunksize=2)


def relation(rows: Sequence[Row], folder: Path) -> Any:
    """A relation of DuckDB over a CSV file, all of text: the dialects that it guesses are its own."""
    if any(isinstance(cell, int) and abs(cell) >= 2**63 for row in rows for cell in row):
        raise OverflowError("a whole number of more than 64 bits")
    (folder / "rows.csv").write_text(written(rows), encoding="utf-8")
    return DUCKDB.read_csv(
        str(folder / "rows.csv"), header=True, all_varchar=True, sep=",", quotechar='"'
    )


DUCKDB = duckdb.connect(config={"threads": 1})


def held_as(cell: Any, held: Any) -> Any:
    """A cell as a column of this type can hold it."""
    if cell is None or held == pa.string():
        return None if cell is None else str(cell)
    try:
        if held == pa.int64():
            return int(cell) if -(2**63) <= int(cell) < 2**63 else None
        return float(cell)
    except (ValueError, OverflowError):
        return None


CODED = pa.dictionary(pa.int32(), pa.string())
ENTRANCES: dict[str, Callable[[ls.HypothesisClass, Sequence[Row], Path], list[Fingerprint]]] = {
    "rows": lambda cls, rows, _: rounds(cls, dicts(rows), [y for *_, y in rows]),
    "lists": table(dict),
    "numpy": table(lambda c: {name: array(cells) for name, cells in c.items()}),
    "numpy, one matrix": matrix,
    "pandas": table(pd.DataFrame),
    "pandas, nullable": table(lambda c: pd.DataFrame(c).convert_dtypes()),
    "pandas, categories": table(lambda c: pd.DataFrame(c).astype("category")),
    "pandas.read_csv": read_by(pd.read_csv),
    "pandas.read_csv, arrow": read_by(lambda f: pd.read_csv(f, dtype_backend="pyarrow")),
    "pandas.read_csv by pyarrow": read_by(lambda f: pd.read_csv(f, engine="pyarrow")),
    "polars": table(lambda c: pl.DataFrame(c, strict=False)),
    "polars.read_csv": read_by(lambda f: pl.read_csv(f, infer_schema_length=None)),
    "pyarrow.csv": read_by(pa.csv.read_csv),
    "scikit-learn": sklearn_lists,
    "scikit-learn, frames": sklearn_frames,
    "River": river_rows,
    "River, frames": river_frames,
    "CSV": file("rows.csv", written),
    "JSON lines": file(
        "rows.jsonl", lambda rows: "".join(json.dumps(r) + "\n" for r in dicts(rows))
    ),
    "Kafka": messages,
    "HTTP": http("json"),
    "HTTP, lines": http("ndjson"),
    "Parquet, text": parquet([pa.string()] * 3),
    "Parquet, whole": parquet([pa.int64(), pa.string(), pa.int64()]),
    "Parquet, floats": parquet([pa.float64(), pa.string(), pa.float64()]),
    "Arrow, partitions": partitions,
    "Arrow, text": arrow([pa.string()] * 3),
    "Arrow, dictionary": arrow([CODED, CODED, CODED], name="rows.arrows"),
    "Arrow, floats": arrow([pa.float64(), pa.string(), pa.float64()]),
    "pyarrow.RecordBatchReader": by_name(record_batches),
    "DuckDB": by_name(relation),
}
NEVER_REFUSED = {
    "rows",
    "lists",
    "scikit-learn",
    "River",
    "CSV",
    "JSON lines",
    "Kafka",
    "HTTP",
    "HTTP, lines",
}
NEVER_REFUSED |= {"Parquet, text", "Parquet, whole", "Arrow, partitions", "Arrow, text"}
NEVER_REFUSED |= {"Arrow, dictionary"}
OUT_OF_REACH = (
    pa.ArrowException,
    pl.exceptions.PolarsError,
    duckdb.Error,
    OverflowError,
    TypeError,
    ValueError,
)
"""What libraries in front of us raise when they cannot make a table of such cells at all."""


def entered(
    name: str, cls: ls.HypothesisClass, rows: Sequence[Row], folder: Path
) -> list[Fingerprint] | None:
    """The rounds that an entrance makes of rows; None where it refuses the column, or the library
    in front of it cannot hold the rows."""
    try:
        return ENTRANCES[name](cls, rows, folder)
    except (BadColumn, BadStream):
        assert name not in NEVER_REFUSED
        return None
    except ls.BadExample:
        raise
    except OUT_OF_REACH:
        assert name.startswith(
            ("numpy", "pandas", "polars", "pyarrow", "DuckDB", "River, f", "scikit-learn, f")
        )
        return None


ROWS = st.tuples(st.sampled_from(CELLS), st.sampled_from(CELLS), st.sampled_from(LABELS))


@pytest.mark.parametrize("cls", CLASSES.values(), ids=CLASSES)
@pytest.mark.parametrize("name", ENTRANCES)
@settings(
    max_examples=scaled(40, least=10), suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@example(rows=[(3, 1, 1), (2, 1, 0)], at=1, other=(2.5, 1, 0))
@example(rows=[(3, 1, 1), (2, 1, 0)], at=1, other=("oops", 1, 0))
@example(rows=[(3, 1, 1), (2, 1, 0)], at=1, other=(2, "oops", 0))
@example(rows=[(3, 1, 1), (2, 1, 0)], at=1, other=(None, None, "oops"))
@example(rows=[("007", 1, 1), ("1.10", 1, 0)], at=1, other=("oops", 1, 0))
@example(rows=[("True", 1, 1), ("False", 1, 0)], at=1, other=("oops", 1, 0))
@example(rows=[(2**53 + 1, 1, 1), (2, 1, 0)], at=1, other=(2.5, 1, 0))
@example(rows=[("NA", "x", 1), ("3", "x", 0)], at=1, other=("oops", "x", 0))
@example(rows=[("NA", "x", 1), ("", "x", 0)], at=1, other=("oops", "x", 0))
@example(rows=[("+nan", "x", 1), ("", "x", 0)], at=1, other=("oops", "x", 0))
@example(rows=[("0x1F", "x", 1), ("3", "x", 0)], at=1, other=("oops", "x", 0))
@example(rows=[(3, "x", 1), (2, "x", 0)], at=1, other=(None, "x", 0))
@given(rows=st.lists(ROWS, min_size=2, max_size=5), at=st.integers(0, 4), other=ROWS)
def test_round_i_is_a_function_of_row_i_alone(
    name: str, cls: ls.HypothesisClass, rows: list[Row], at: int, other: Row, tmp_path: Path
) -> None:
    at %= len(rows)
    one = entered(name, cls, rows, tmp_path)
    two = entered(name, cls, [*rows[:at], other, *rows[at + 1 :]], tmp_path)
    if one is not None and two is not None:
        assert len(one) == len(two) == len(rows)
        assert one[:at] + one[at + 1 :] == two[:at] + two[at + 1 :]


def test_the_property_can_fail() -> None:
    """A planted fault: identity by type and value, as in version 0.1."""
    one, two = (pd.DataFrame({"a": cells})["a"] for cells in ([3, 2], [3, 2.5]))
    assert encode(one[0]) != encode(two[0])
    assert key_of(str(int(one[0]))) == key_of("3")


@pytest.mark.parametrize("name", ENTRANCES)
def test_rows_of_text_numbers_and_truths_come_through(name: str, tmp_path: Path) -> None:
    """An entrance that refused everything, or called it null, would pass the test above."""
    texts = entered(name, TEXT, [("4.2.1", "x", 1), ("oops", "x", 0), ("4.2.1", "x", 1)], tmp_path)
    if name not in ("Parquet, whole", "Parquet, floats", "Arrow, floats"):
        assert texts is not None
        assert None not in texts
        assert texts[0] == texts[2] != texts[1]
    numbers = entered(name, NUMBER, [(3, "x", 1), (2.5, "x", 0)], tmp_path)
    assert numbers is not None
    assert name == "Parquet, whole" or None not in numbers
    truths = entered(name, TRUTH, [(1, "x", 1), (0, "x", 0)], tmp_path)
    assert truths is not None
    assert None not in truths


@pytest.mark.parametrize("other", [2, 2.5, "oops", None, True])
def test_scikit_learn_publishes_the_same_rule_whatever_one_row_holds(other: object) -> None:
    X = [[3], [2]] * 1000 + [[other]]
    y = [1, 0] * 1000 + [0]
    model = PrivateClassifier(ls.Points("x0"), epsilon=20, delta=1e-4).fit(X, y)
    assert str(model.learner_.hypothesis) == "x0 = 3"


@pytest.mark.parametrize("other", ["2", "2.5", "oops", ""])
def test_pandas_read_csv_publishes_the_same_rule_whatever_one_row_holds(other: str) -> None:
    text = "a,y\n" + "3,1\n2,0\n" * 1000 + f"{other},0\n"
    frame = pd.read_csv(io.StringIO(text), dtype=str)
    learner = ls.DPSOA(ls.Points("a"), 20, 1e-4, 2001)
    learner.learn_many(frame, frame["y"], bad_rows="null")
    assert str(learner.hypothesis) == "a = 3"
    if other != "oops":
        with pytest.raises(ls.BadExample, match=r"column 'a'.*guessed.*dtype=str"):
            learner.learn_many(pd.read_csv(io.StringIO(text)), frame["y"], bad_rows="null")
        assert learner.rounds == 2001


@pytest.mark.parametrize("cls", [ls.Points(), ls.Thresholds(0, 9)], ids=["text", "number"])
@pytest.mark.parametrize("other", [1j, np.timedelta64(1, "s"), "1", "oops"], ids=repr)
@pytest.mark.parametrize("first", [1, b"1"])
def test_an_odd_neighbour_in_an_array_changes_no_cell_and_no_label(
    cls: ls.HypothesisClass, first: object, other: object
) -> None:
    """numpy makes complex numbers, time differences or text of whole numbers beside one."""
    expected: Any = key_of if isinstance(cls, ls.Points) else number_of
    cells, labels = set(), set()
    for last in (first, other):
        with suppress(TypeError):  # what numpy says of bytes beside complex numbers
            array = np.array([first, last])
            with suppress(BadColumn):
                read = read_rounds(cls, array, [1, 0], None, "null")
                cells.add((bool(read.usable[0]), expected(row_of(read.columns, 0))))
            with suppress(BadColumn):
                read = read_rounds(cls, [1, 0], array, None, "null")
                labels.add((bool(read.usable[0]), bool(read.answers[0])))
    assert cells == {(True, expected(1))}
    assert labels == {(True, True)}


def test_a_column_that_pandas_guessed_piece_by_piece_is_refused() -> None:
    """In the pieces without letters 007 is 7: which rows they are, one row of each decides."""
    text = "a,y\n" + "007,1\n" * 300_000 + "oops,0\n"
    with pytest.warns(pd.errors.DtypeWarning, match="mixed types"):
        frame = pd.read_csv(io.StringIO(text))
    learner = ls.DPSOA(TEXT, 1, 1e-9, 10**6)
    with pytest.raises(BadColumn, match=r"column 'a'.*dtype=str"):
        learner.learn_many(frame, frame["y"], bad_rows="null")
    assert learner.rounds == 0


def test_whole_numbers_of_128_bits_are_numbers() -> None:
    frame = pl.read_csv(b"a\n3\n18446744073709551616\n", infer_schema_length=None)
    assert frame["a"].dtype == pl.Int128
    assert rounds(NUMBER, frame, [1, 0]) == rounds(NUMBER, [{"a": 3}, {"a": 2**64}], [1, 0])


@pytest.mark.parametrize("rows", [60, 6000], ids=["few", "many"])
@pytest.mark.parametrize("length", [6, 60], ids=["short", "long"])
@pytest.mark.parametrize("source", ["table", "stream", "dictionary", "labels"])
def test_text_that_is_not_utf_8_in_a_table_is_one_cell_and_stops_nothing(
    source: str, length: int, rows: int
) -> None:
    """As in a file of Parquet: one row of a stream must not decide whether others are learned."""

    def learned(odd: bytes) -> PrivateLearner:
        cells = [b"%d" % (row % 2) * length for row in range(rows)]
        labels = [b"%d" % (row % 2) for row in range(rows)]
        (labels if source == "labels" else cells)[7] = odd
        table = pa.table({"a": unchecked_text(cells), "y": unchecked_text(labels)})
        if source == "dictionary":
            codes, found = np.unique(np.array(cells, dtype=object), return_inverse=True)
            coded = pa.DictionaryArray.from_arrays(found, unchecked_text(codes.tolist()))
            table = table.set_column(0, "a", coded)
        learner = ls.PrivateCauses(ls.Causes(["a"]), epsilon=1, delta=1e-7, horizon=rows)
        batches = pa.RecordBatchReader.from_batches(table.schema, table.to_batches(1000))
        learner.learn_many(batches if source == "stream" else table, "y", bad_rows="null")
        return learner

    good, bad = learned(b"1"), learned(b"\xff")
    assert (good.rounds, bad.rounds) == (rows, rows)
    assert bad.null_rounds - good.null_rounds <= 1


def unchecked_text(cells: list[bytes]) -> pa.StringArray:
    """A column of text as a writer leaves it that does not look at its bytes."""
    ends = np.cumsum([0, *map(len, cells)]).astype(np.int32)
    buffers = pa.py_buffer(ends.tobytes()), pa.py_buffer(b"".join(cells))
    return pa.StringArray.from_buffers(len(cells), *buffers)
