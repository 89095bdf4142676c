"""Rows of an epoch: hashes of values, and counts as the definition has them."""

import json
import random
from typing import Any

import numpy as np
import pytest

import littlestone as ls
import naive
from effort import scaled
from littlestone._hypotheses.columns import objects
from littlestone._hypotheses.rows import as_batch, row_of
from littlestone._learners import epoch_rows
from littlestone._learners.epoch_rows import EpochRows, hash_values
from littlestone._learners.loop import ChangedState
from naive import add_rows


def test_values_with_one_identity_have_one_hash() -> None:
    for same in ([3, "3", np.int8(3), b"3"], ["0.0", "-0.0", 0.0, -0.0], [None], [True, "True"]):
        assert len(set(hash_values(objects(same)))) == 1
    texts = ("", "a", "b", "ab", "ba", "3", "03", "x" * 65, "-0.0", "-0.0\0", "\0", "\ud800")
    assert len(set(hash_values(objects(texts)))) == len(texts)


def test_hashes_are_those_that_stores_hold() -> None:
    """A store keeps hashes: they must not change from version to version."""
    assert hash_values(objects(("4.2.1", "x" * 70, 3, None))).tolist() == [
        1426989167, 18168585, 1245094663, 2013832146,
    ]  # fmt: skip


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


def found(rows: EpochRows) -> dict[bytes, tuple[int, ...]]:
    counts, widths, key, _ = rows.counts()
    pairs = zip(counts.tolist(), widths.tolist(), strict=True)
    listed = [(key(place), (*both, width)) for place, (both, width) in enumerate(pairs)]
    assert len(dict(listed)) == len(listed)
    return dict(listed)


@pytest.mark.parametrize("table", [0, 50, epoch_rows.LARGEST_TABLE])
@pytest.mark.parametrize("seed", range(40))
def test_counts_are_those_of_the_definition(
    seed: int, table: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Small tables, so that every way of counting occurs.
    monkeypatch.setattr(epoch_rows, "LARGEST_TABLE", table)
    if table == 0:
        monkeypatch.setattr(epoch_rows, "LARGEST_NUMBER", 0)
    cls, batch, labels = case(seed)
    draw = np.random.default_rng(seed)
    unmatched = draw.random(len(labels)) < 0.8
    fast, slow = EpochRows(cls), naive.EpochCounts(cls)
    add_rows(fast, batch, labels, unmatched)
    for row in np.flatnonzero(unmatched).tolist():
        slow.add(row_of(batch, row), bool(labels[row]))
    assert found(fast) == slow.counts()
    fast.clear()
    assert found(fast) == {}


def test_negatives_of_one_hash_are_shared_and_positives_are_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Theorem 15, hashed negatives: with every value in one hash, all keys read all negatives."""
    monkeypatch.setattr(epoch_rows, "hash_values", lambda values: np.full(len(values), 7))
    rows = EpochRows(ls.Causes(["a"]))
    values = np.array(["x", "x", "y", "z"], dtype=object)
    add_rows(rows, {"a": values}, np.array([True, True, True, False]))
    assert rows.counts()[0].tolist() == [[1, 2], [1, 1]]


@pytest.mark.parametrize("small", [3, 1024])
@pytest.mark.parametrize("seed", range(8))
def test_parts_hold_what_is_new(seed: int, small: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(epoch_rows, "SMALL_CHUNK", small)
    cls, batch, labels = case(seed)
    rows, parts, draw = EpochRows(cls), dict[int, bytes](), random.Random(seed)
    for _ in range(scaled(12, least=6)):
        if draw.random() < 0.2:
            rows.clear()
        if len(labels):
            some = sorted(draw.sample(range(len(labels)), draw.randint(0, min(9, len(labels)))))
            part = {name: column[some] for name, column in batch.items()}
            add_rows(rows, part, labels[some])
        changed = rows.unsaved()
        if changed.cleared:
            parts.clear()
        parts |= changed.parts
        assert rows.unsaved() == ChangedState(False, {})
        again = EpochRows(cls)
        again.load_state(json.loads(json.dumps(rows.get_state())), parts)
        assert list(found(again).items()) == list(found(rows).items())
        assert again.size == rows.size
        assert again.unsaved() == ChangedState(False, {})


def test_only_changed_parts_are_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(epoch_rows, "SMALL_CHUNK", 10)
    rows = EpochRows(ls.Causes(["a"]))

    def added(count: int) -> ChangedState:
        add_rows(rows, {"a": np.arange(count)}, np.zeros(count, bool))
        return rows.unsaved()

    first = added(25)
    assert first.cleared
    assert set(first.parts) == {0}
    assert set(added(3).parts) == {1}
    assert set(added(4).parts) == {1}, "small parts are written again, with what is new"
    assert set(added(15).parts) == {2}
    rows.clear()
    cleared = added(1)
    assert cleared.cleared
    assert set(cleared.parts) == {0}


def test_a_part_that_is_missing_is_noticed() -> None:
    rows = EpochRows(ls.Causes(["a"]))
    add_rows(rows, {"a": np.arange(9)}, np.zeros(9, bool))
    with pytest.raises(ValueError, match="0 rows of an epoch were saved as 9"):
        EpochRows(ls.Causes(["a"])).load_state(rows.get_state(), {})
