"""The streams and measures of `python -m bench causes`, `tables` and `users`."""

import numpy as np
import pytest
from bench.causes import FAMILIES, MAKERS, USUAL, score
from bench.group_by import peel
from bench.incidents import Incident, spell
from bench.tables import (
    KINDS,
    ORDERS,
    best_gain,
    finished,
    gain_of,
    make_guests,
    make_permuted,
    make_table,
    ordered,
)
from bench.users import Setting, first_rounds, make_rows


@pytest.mark.parametrize("kind", [kind for family in USUAL for kind in FAMILIES[family]])
def test_a_seed_makes_one_stream_and_the_truth_has_a_full_score(kind: str) -> None:
    stream, again, other = (MAKERS[kind](seed) for seed in (3, 3, 4))
    assert stream.table.equals(again.table)
    assert np.array_equal(stream.labels, again.labels)
    assert stream.planted == again.planted
    assert not np.array_equal(stream.labels, other.labels)

    truth = score(stream, [(start, tuple(stream.active(start))) for start in stream.changes], "")
    assert (truth.f1, truth.over_time, truth.false, truth.regret) == (1, 1, 0, 0)
    assert truth.found
    nothing = score(stream, [(0, ())], "")
    assert (nothing.changes, nothing.net) == (0, 0)
    assert nothing.f1 == (0 if stream.active(stream.rounds) else 1)


def test_a_wrong_cause_counts_once_and_each_of_its_drops() -> None:
    stream = MAKERS["ramp"](3)
    right, wrong = tuple(stream.active(0)), (frozenset({("a", "a0")}),)
    sets = [(), wrong, right, (*right, *wrong), (), wrong, ()]
    published = score(stream, [(1000 * number, causes) for number, causes in enumerate(sets)], "")
    assert (published.false, published.changes, published.drops) == (1, 6, 3)
    assert published.first == 2000
    late = score(stream, [(0, ()), (1000, right)], "")
    assert 0.8 < late.gain < 1
    assert late.gain == pytest.approx(late.net / (late.net + late.regret))


# Finished tables and users.


@pytest.mark.parametrize("kind", KINDS)
def test_a_seed_makes_one_table_and_its_order_changes_no_gain(kind: str) -> None:
    table, again, other = (make_table(kind, 600, seed) for seed in (3, 3, 4))
    assert table.table.equals(again.table)
    assert np.array_equal(table.labels, again.labels)
    assert table.labels.sum() != other.labels.sum()
    low, high = KINDS[kind].base
    assert low / 3 < table.labels.mean() < high + 0.3

    rows = sorted(zip(*table.table.to_pydict().values(), table.labels, strict=True))
    for order in ORDERS[1:]:
        moved = ordered(table, order)
        assert not np.array_equal(moved.labels, table.labels)
        assert sorted(zip(*moved.table.to_pydict().values(), moved.labels, strict=True)) == rows
        assert best_gain(moved) == pytest.approx(best_gain(table))
    assert np.array_equal(ordered(table, "sorted").labels, np.sort(table.labels))


def small_table() -> Incident:
    """Return 40 rows: of a = a0 8 of 10 are positive, of all others 2 of 30."""
    a = np.repeat([0, 1, 2], [10, 10, 20]).astype(np.int32)
    codes = {"a": a, "b": np.tile([0, 1], 20).astype(np.int32)}
    labels = np.zeros(40, dtype=bool)
    labels[[*range(8), 12, 31]] = True
    return finished(codes, spell(codes), labels, "small")


def test_the_gain_of_a_table_is_that_of_twice_its_odds() -> None:
    table = small_table()
    # 10 of 40 rows are positive: odds of 1 to 3, so a false alarm costs two thirds.
    assert gain_of(table, []) == 0
    right = frozenset({("a", "a0")})
    assert gain_of(table, [right]) == pytest.approx(8 - 2 * 2 / 3)
    assert gain_of(table, [right, right]) == gain_of(table, [right]) == best_gain(table)
    assert gain_of(table, [frozenset({("a", "a1")})]) == pytest.approx(1 - 9 * 2 / 3)


@pytest.mark.parametrize("declared", [False, True])
def test_the_peeled_group_by_finds_what_stands_out_of_little_noise(declared: bool) -> None:
    table = small_table()
    right = (frozenset({("a", "a0")}),)
    assert peel(table, 100.0, 1e-7, seed=1, declared=declared) == right
    # At an epsilon of 1 the same rows are within the noise.
    assert peel(table, 1.0, 1e-7, seed=1, declared=declared) == ()


def test_labels_are_permuted_and_guests_fall_ill_as_they_say() -> None:
    permuted = make_permuted(0.2, 5_000, 1)
    assert permuted.labels.mean() == pytest.approx(0.2, abs=0.02)
    assert best_gain(permuted) < 30

    ill = {True: [0, 0], False: [0, 0]}
    for seed in range(20):
        guests, dish = make_guests(seed)
        assert (guests.rounds, len(guests.codes)) == (300, 20)
        for ate in ill:
            of = guests.labels[guests.mask(dish) == ate]
            ill[ate][0] += int(of.sum())
            ill[ate][1] += len(of)
    assert ill[True][0] / ill[True][1] == pytest.approx(0.7, abs=0.03)
    assert ill[False][0] / ill[False][1] == pytest.approx(0.08, abs=0.02)
    assert sum(of[0] for of in ill.values()) / 6_000 == pytest.approx(0.35, abs=0.02)


def test_the_first_round_of_each_user_in_every_epoch_counts() -> None:
    users = np.array([3, 1, 3, 1, 2, 2, 1, 3, 3])
    assert np.flatnonzero(first_rounds(users, 4)).tolist() == [0, 1, 4, 6, 7, 8]
    assert np.flatnonzero(first_rounds(users, 100)).tolist() == [0, 1, 4]


@pytest.mark.parametrize("heavy", [False, True])
def test_users_fail_by_their_device_and_heavy_ones_send_half(heavy: bool) -> None:
    setting = Setting(2_000, 0.05, 1, heavy, rounds=40_000)
    rows, again = make_rows(setting, 1), make_rows(setting, 1)
    assert np.array_equal(rows.labels, again.labels)
    # What belongs to a user never changes; 5 % of the users have the device.
    pairs = set(zip(rows.users.tolist(), rows.codes["device"].tolist(), strict=True))
    assert len(pairs) == len({user for user, _ in pairs})
    assert sum(device == 0 for _, device in pairs) == pytest.approx(100, abs=2)
    told = rows.codes["device"] == 0
    assert set(rows.chances[told]) == {0.3}
    assert rows.labels[~told].mean() == pytest.approx(0.01, abs=0.003)
    sent = np.sort(np.bincount(rows.users, minlength=2_000))[::-1]
    share = sent[:20].sum() / 40_000
    assert share > 0.49 if heavy else share < 0.03
