"""Rows of an epoch: hashes of all array kinds, and gains as the definition has them."""

import json
import random
from typing import Any

import numpy as np
import pytest

import littlestone as ls
import naive
from effort import scaled
from littlestone._hypotheses.rows import as_batch, row_of
from littlestone._learners import epoch_rows
from littlestone._learners.base import ChangedState
from littlestone._learners.epoch_rows import EpochRows, hash_column, value_hash

TEXTS = [
    "", "a", "4.2.1", "3", "-3", "007", "0.0", "-0.0", "1" * 63, "1" * 64, "1" * 65, "x" * 70,
    "a\0", "\0", "\0a", "x" * 64 + "\0", "x" * 70 + "\0", "\ud800", "é", "\U0001f600", "True",
]  # fmt: skip
COLUMNS: dict[str, Any] = {
    "text": np.array(TEXTS),
    "text, other byte order": np.array(TEXTS).astype(np.array(TEXTS).dtype.newbyteorder()),
    "short text": np.array(["a", "bb", "-0.0", "3"]),
    "empty text": np.array(["", ""]),
    "no rows": np.array([], dtype="U3"),
    "objects, text": np.array([*TEXTS, None], dtype=object),
    "objects": np.fromiter(
        [*TEXTS, None, 3, True, 1, 1.0, 0.0, -0.0, b"a", b"\xff", (1, "a"), 10**70], dtype=object
    ),
    "ints": np.array([0, -1, 3, 2**62, -(2**63)]),
    "unsigned": np.array([0, 2**64 - 1], dtype=np.uint64),
    "small ints": np.array([1, -2], dtype=np.int8),
    "floats": np.array([0.0, -0.0, 1.5, np.inf]),
    "truths": np.array([True, False]),
    "bytes": np.array([b"a", b"3", b"-0.0", b"\xff"]),
    "strings of variable width": np.array(["a", "-0.0", "x" * 70], dtype=np.dtypes.StringDType()),
}  # fmt: skip


@pytest.mark.parametrize("name", COLUMNS)
def test_a_column_has_the_hashes_of_its_values(name: str) -> None:
    column = COLUMNS[name]
    assert hash_column(column).tolist() == [value_hash(value) for value in column.tolist()]
    strided = np.repeat(column, 2)[::2]
    assert hash_column(strided).tolist() == hash_column(column).tolist()


@pytest.mark.parametrize("known", [None, "x" * 70, "-0.0", "a\0"])
def test_texts_that_hardly_repeat_have_the_same_hashes(known: str | None) -> None:
    """Also beside what is remembered already: None and long text are not hashed as arrays."""
    hash_column(np.array([known] * 3, dtype=object))
    column = np.array([*(f"{known} {n}" for n in range(1000)), known, ""], dtype=object)
    assert hash_column(column).tolist() == [value_hash(value) for value in column.tolist()]
    column = np.array([*(f"v{n}" for n in range(1000, 2000)), known, ""], dtype=object)
    assert hash_column(column).tolist() == [value_hash(value) for value in column.tolist()]


def test_values_with_one_identity_have_one_hash() -> None:
    for same in ([3, "3", np.int8(3), b"3"], ["0.0", "-0.0", 0.0, -0.0], [None], [True, "True"]):
        assert len({value_hash(value) for value in same}) == 1
    distinct = [value_hash(text) for text in ("", "a", "b", "ab", "ba", "3", "03", "x" * 65)]
    assert len(set(distinct)) == len(distinct)


def test_hashes_are_those_that_stores_hold() -> None:
    """A store keeps hashes: they must not change from version to version."""
    assert [value_hash(value) for value in ("4.2.1", "x" * 70, 3, None)] == [
        1465196668, 2252990307, 4072133456, 0,
    ]  # fmt: skip


def test_what_is_remembered_of_hashes_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(epoch_rows, "MOST_REMEMBERED", 10)
    monkeypatch.setattr(epoch_rows, "_REMEMBERED", epoch_rows._TextHashes())
    texts = np.array([f"text {n}" for n in range(100)], dtype=object)
    assert hash_column(texts).tolist() == [value_hash(text) for text in texts]
    assert len(epoch_rows._REMEMBERED) <= 10


KINDS = ("objects", "text", "ints", "mixed")


def column(kind: str, rows: int, values: int, draw: random.Random) -> Any:
    """A column of a few values, as an array of some kind."""
    numbers = [draw.randrange(values) for _ in range(rows)]
    match kind:
        case "ints":
            return np.array(numbers, dtype=np.int64)
        case "text":
            return np.array([f"v{n}" if n else "-0.0" for n in numbers], dtype=np.str_)
        case "objects":
            return np.array([f"v{n}" if n else None for n in numbers], dtype=object)
    # 1, 1.0 and True are equal in Python, and three values here.
    pool = [1, 1.0, True, "1", None, "0.0", -0.0, "x", (1, "a"), b"x"]
    return np.fromiter((pool[n % len(pool)] for n in numbers), dtype=object, count=rows)


def case(seed: int) -> tuple[ls.Causes, Any, Any]:
    """A class, a batch and its labels."""
    draw = random.Random(seed)
    rows, values = draw.choice([0, 1, 30, 200]), draw.choice([2, 5, 40])
    columns: list[Any] = [f"c{n}" for n in range(draw.randint(1, 4))]
    batch = {name: column(draw.choice(KINDS), rows, values, draw) for name in columns}
    for name in draw.sample(columns, draw.randint(0, min(2, len(columns)))):
        edges = sorted(draw.sample(range(50), draw.randint(1, 6)))
        columns[columns.index(name)] = ls.Ranges(name, edges)
        batch[name] = np.array([draw.uniform(-5, 55) for _ in range(rows)])
    labels = np.array([draw.random() < draw.choice([0.05, 0.5]) for _ in range(rows)], dtype=bool)
    return ls.Causes(columns, width=draw.randint(1, 3)), as_batch(batch), labels


def found(rows: EpochRows, units: int, alarm: int) -> dict[bytes, tuple[int, int]]:
    gains, classes, key = rows.gains(units=units, alarm=alarm)
    pairs = zip(gains.tolist(), classes.tolist(), strict=True)
    listed = [(key(place), pair) for place, pair in enumerate(pairs)]
    assert len(dict(listed)) == len(listed)
    return dict(listed)


@pytest.mark.parametrize("table", [0, 50, epoch_rows.LARGEST_TABLE])
@pytest.mark.parametrize("seed", range(40))
def test_gains_are_those_of_the_definition(
    seed: int, table: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Small tables, so that every way of counting occurs.
    monkeypatch.setattr(epoch_rows, "LARGEST_TABLE", table)
    if table == 0:
        monkeypatch.setattr(epoch_rows, "LARGEST_NUMBER", 0)
    cls, batch, labels = case(seed)
    draw = np.random.default_rng(seed)
    unmatched = draw.random(len(labels)) < 0.8
    fast, slow, one_by_one = EpochRows(cls), naive.EpochCounts(cls), EpochRows(cls)
    fast.add(batch, labels, unmatched)
    for row in np.flatnonzero(unmatched).tolist():
        slow.add(row_of(batch, row), bool(labels[row]))
        one_by_one.add_one(row_of(batch, row), bool(labels[row]))
    assert found(fast, 9, 2) == slow.gains(9, 2)
    assert list(found(one_by_one, 9, 2).items()) == list(found(fast, 9, 2).items())
    fast.clear()
    assert found(fast, 9, 2) == {}


def test_a_lookup_finds_every_key_however_many_attempts_it_takes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    draw = np.random.default_rng(1)
    for count, places in ((1, 16), (50, 16), (3000, 1), (3000, 16)):
        monkeypatch.setattr(epoch_rows, "PLACES", places)
        for dtype in (np.uint32, np.int64):
            keys = np.unique(draw.integers(0, 2**31, count).astype(dtype))
            rows = np.concatenate([keys, draw.integers(0, 2**31, 500).astype(dtype), keys[::-1]])
            sought = {key: place + 1 for place, key in enumerate(keys.tolist())}
            places_found = epoch_rows._places(rows, keys)
            assert places_found.tolist() == [sought.get(row, 0) for row in rows.tolist()]


def test_negatives_of_one_hash_are_shared_and_positives_are_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Theorem 15, hashed negatives: with every value in one hash, all keys read all negatives."""
    monkeypatch.setattr(epoch_rows, "_multipliers", lambda: np.zeros(65, dtype=np.uint64))
    monkeypatch.setattr(epoch_rows, "_factors", lambda: [0] * 65)
    monkeypatch.setattr(epoch_rows, "_REMEMBERED", epoch_rows._TextHashes())
    rows = EpochRows(ls.Causes(["a"]))
    values = np.array(["x", "x", "y", "z"], dtype=object)
    rows.add({"a": values}, np.array([True, True, True, False]), np.ones(4, bool))
    gains = rows.gains(units=1, alarm=1)[0]
    assert gains.tolist() == [1, 0]


@pytest.mark.parametrize("page", [3, 1024])
@pytest.mark.parametrize("seed", range(8))
def test_pages_hold_what_is_new(seed: int, page: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(epoch_rows, "PAGE", page)
    cls, batch, labels = case(seed)
    rows, parts, draw = EpochRows(cls), dict[int, bytes](), random.Random(seed)
    for _ in range(scaled(12, least=6)):
        if draw.random() < 0.2:
            rows.clear()
        if len(labels):
            some = sorted(draw.sample(range(len(labels)), draw.randint(0, min(9, len(labels)))))
            part = {name: column[some] for name, column in batch.items()}
            rows.add(part, labels[some], np.ones(len(some), dtype=bool))
        changed = rows.unsaved()
        if changed.cleared:
            parts.clear()
        parts |= changed.parts
        assert rows.unsaved() == ChangedState(False, rows.unsaved().parts)
        again = EpochRows(cls)
        again.load_state(json.loads(json.dumps(rows.get_state())), parts)
        assert list(found(again, 5, 1).items()) == list(found(rows, 5, 1).items())
        assert again.size == rows.size
        assert again.unsaved().cleared is False


def test_only_changed_pages_are_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(epoch_rows, "PAGE", 10)
    rows = EpochRows(ls.Causes(["a"]))

    def added(count: int) -> ChangedState:
        rows.add({"a": np.arange(count)}, np.zeros(count, bool), np.ones(count, bool))
        return rows.unsaved()

    first = added(25)
    assert first.cleared
    assert set(first.parts) == {1, 3, 5}
    assert added(3) == ChangedState(False, {5: rows._page(1, 2)})
    assert set(added(15).parts) == {5, 7, 9}
    rows.clear()
    cleared = added(1)
    assert cleared.cleared
    assert set(cleared.parts) == {1}
