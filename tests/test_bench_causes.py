"""The streams and measures of `python -m bench causes`, `tables` and `users`."""

from collections.abc import Iterable

import numpy as np
import pytest
from bench import causes_peers
from bench.causes import FAMILIES, MAKERS, USUAL, score
from bench.causes_peers import (
    PEERS,
    WINDOWS,
    Numbered,
    Peer,
    Released,
    Setting,
    answer_once,
    answers,
    choose,
    keep,
    score_once,
    with_greedy,
)
from bench.group_by import Ints, peel, spelt
from bench.incidents import Cause, Incident, Planted, matches, spell
from bench.output import forget
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
from bench.users import Setting as UserSetting
from bench.users import first_rounds, make_rows


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


# Peers.


def steady_stream() -> Incident:
    """Return 4,000 rows: every fifth has a = a0, and exactly those fail."""
    codes = {
        "a": np.where(np.arange(4_000) % 5 == 0, 0, 1 + np.arange(4_000) % 3).astype(np.int32),
        "b": (np.arange(4_000) % 7).astype(np.int32),
    }
    planted = (Planted(frozenset({("a", "a0")}), 0, 4_000),)
    labels = codes["a"] == 0
    return Incident("steady", 0, codes, spell(codes), labels, planted, min_rate=0.5, width=2)


@pytest.mark.parametrize(("windows", "first"), [("tenths", 400), ("doubling", 125)])
@pytest.mark.parametrize("name", ["DuckDB", "OpenDP"])
def test_what_a_peer_answers_stands_from_the_end_of_a_window(
    name: str, windows: str, first: int
) -> None:
    stream = steady_stream()
    ends = [stop for _, stop in WINDOWS[windows](4_000)]
    assert (ends[0], ends[-1]) == (first, 4_000)
    timeline = answers(name, stream, Setting(windows), epsilon=100.0)
    right = (frozenset({("a", "a0")}),)
    assert timeline == [(0, ()), *((stop, right) for stop in ends)]
    result = score(stream, timeline, name)
    # The failures of the first window are missed, every other one is gained.
    assert (result.f1, result.regret) == (1, first / 5)
    assert result.gain == pytest.approx(1 - first / 4_000)


def test_windows_end_with_the_stream_and_those_of_private_peers_are_disjoint() -> None:
    for windows in ("tenths", "doubling"):
        rounds = WINDOWS[windows](1_003)
        assert [n for start, stop in rounds for n in range(start, stop)] == list(range(1_003))
    assert WINDOWS["all so far"](1_003)[-1] == (0, 1_003)


def test_a_ranked_pattern_is_kept_if_rows_that_are_left_speak_for_it() -> None:
    stream = steady_stream()
    cause, child, other = ({("a", 0)}, {("a", 0), ("b", 0)}, {("b", 1)})
    ranked = [frozenset(pattern) for pattern in (other, cause, child)]
    assert keep(stream, 0, 4_000, ranked, margin=3.0) == [cause]
    # A child that comes first is kept, and so is the cause, for the rest of its rows.
    assert keep(stream, 0, 4_000, reversed(ranked), margin=3.0) == [child, cause]
    assert keep(stream, 0, 4_000, ranked, margin=100.0) == []


def test_numbers_of_patterns_say_which_pattern_and_label_they_are() -> None:
    stream = steady_stream()
    numbered = Numbered(stream)
    for numbers in numbered.rows(0, 40, np.ones(40, dtype=bool)):
        for row, number in enumerate(numbers.tolist()):
            pattern, label = numbered.pattern(number)
            assert label == stream.labels[row]
            assert not pattern or matches(stream.codes, pattern)[row]
    assert len({n for some in numbered.rows(0, 1, np.ones(1, dtype=bool)) for n in some}) == 4


def test_negatives_are_released_for_the_patterns_whose_positives_passed() -> None:
    counted: list[set[int]] = []

    def above_700(rows: Iterable[Ints], moved: int, epsilon: float) -> Released:
        numbers, counts = np.unique(np.concatenate(list(rows)), return_counts=True)
        counted.append(set(numbers.tolist()))
        passed = {n: float(c) for n, c in zip(numbers, counts, strict=True) if c > 700}
        return Released(passed, 1.0, 700.0)

    stream = steady_stream()
    # Rows with a = a1 fail too, some of them.
    stream.labels[(stream.codes["a"] == 1) & (np.arange(4_000) % 2 == 0)] = True
    peer = Peer("", release=above_700)
    assert peer.answer(stream, 0, 4_000, [], Setting(), 1.0) == [{("a", 0)}]
    positive, negative = counted
    numbered = Numbered(stream)
    assert {numbered.pattern(n)[1] for n in positive} == {True}
    # Of a0 no row is negative, and a1 has fewer than 700 positives.
    assert {numbered.pattern(n) for n in negative} == {(frozenset(), False)}


def test_a_choice_does_not_depend_on_the_order_in_which_values_appear() -> None:
    def chosen(values: list[str]) -> tuple[Cause, ...]:
        codes = {"a": np.zeros(1_000, dtype=np.int32)}
        spelling = {"a": np.array(values, dtype=object)}
        table = finished(codes, spelling, np.ones(1_000, dtype=bool), "tied")
        numbered = Numbered(table)
        of_all = {0: 9_000.0, 1: 1_000.0}
        # Two values with the same counts: 500 positives, 10 negatives.
        tied = {2 + 2 * code + label: (10.0, 500.0)[label] for code in (0, 1) for label in (0, 1)}
        released = Released(of_all | tied, 1.0, 5.0)
        return spelt(table, choose(numbered, released, [], 1_000, Setting()))

    assert len(chosen(["x", "y"])) == 2
    assert chosen(["x", "y"]) == chosen(["y", "x"])


def test_the_table_of_peers_says_what_is_not_installed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    groups = {"stand still": ("jump",), "no cause": ("null",)}
    monkeypatch.setattr(causes_peers, "GROUPS", groups)
    monkeypatch.setitem(PEERS, "DuckDB", Peer("no_such_package"))
    options = "--methods littlestone,DuckDB --streams 1 --runs 1 --tables phishing --jobs 1"
    causes_peers.run(options.split())
    lines = capsys.readouterr().out.splitlines()
    (ours,) = (line for line in lines if "littlestone" in line)
    (other,) = (line for line in lines if "DuckDB" in line)
    assert "yes" in ours
    assert (ours.count(" ± "), ours.count(" / ")) == (1, 2)
    assert "not installed" in other
    assert "±" not in other
    forget()


def test_a_table_is_scored_against_the_greedy_search() -> None:
    table = with_greedy(small_table())
    right, wrong = frozenset({("a", "a0")}), frozenset({("b", "b0")})
    assert [planted.cause for planted in table.planted] == [right]
    # Less than 20 missed positives are counted as 20.
    f1, gain = score_once(table, (right,))
    assert f1 == 1
    assert gain == pytest.approx((8 - 2 * 2 / 3) / 20)
    f1, gain = score_once(table, (right, wrong))
    assert f1 == pytest.approx(2 / 3)
    assert gain < (8 - 2 * 2 / 3) / 20
    assert score_once(table, ()) == (0, 0)


def test_opendp_finds_what_stands_out_of_little_noise() -> None:
    table = small_table()
    codes = {name: np.tile(column, 10) for name, column in table.codes.items()}
    larger = finished(codes, table.values, np.tile(table.labels, 10), "larger")
    assert answer_once("OpenDP", larger, 1, epsilon=1_000.0) == (frozenset({("a", "a0")}),)
    assert answer_once("OpenDP", table, 1, epsilon=1.0) == ()


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
    setting = UserSetting(2_000, 0.05, 1, heavy, rounds=40_000)
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
