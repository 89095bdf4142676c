"""Traces: bounded, spread over the whole stream, and the same for the same samples."""

from collections import Counter
from collections.abc import Mapping
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from littlestone._classes.sets import Points
from littlestone._hypotheses.rules import NEVER, Hypothesis
from littlestone._learners.dpsoa import DPSOA
from littlestone._learners.forest import Forest
from littlestone._learners.trace import MOST_SAMPLES, TOP, Sample, Trace


def filled(keeps: list[bool], most: int = MOST_SAMPLES) -> Trace:
    trace = Trace(most)
    for number, keep in enumerate(keeps):
        trace.add(Sample(number, 0, ()), keep)
        assert len(trace.samples) <= most
        assert trace.samples[-1].round == number
    return trace


def rounds(trace: Trace) -> list[int]:
    return [sample.round for sample in trace.samples]


@given(st.lists(st.booleans(), min_size=1, max_size=200), st.integers(4, 20))
def test_bounded_in_order_and_with_both_ends(keeps: list[bool], most: int) -> None:
    kept = rounds(filled(keeps, most))
    assert kept == sorted(set(kept))
    assert (kept[0], kept[-1]) == (0, len(keeps) - 1)
    assert kept == rounds(filled(keeps, most))


def test_a_short_history_is_whole() -> None:
    assert rounds(filled([False] * MOST_SAMPLES)) == list(range(MOST_SAMPLES))


def test_a_long_history_is_spread_over_all_of_it() -> None:
    """Halving what is old again and again would leave nothing of the first half."""
    gaps = {after - before for before, after in pairwise(rounds(filled([False] * 100_000, 100)))}
    assert max(gaps) <= 2 * 100_000 // (100 // 2)
    assert len(rounds(filled([False] * 100_000, 100))) > 100 // 2 - 2


def test_firings_are_kept_while_there_is_room() -> None:
    firings = set(range(0, 20_000, 500))
    assert firings <= set(rounds(filled([number in firings for number in range(20_000)], 100)))


def test_too_many_firings_are_thinned_evenly_too() -> None:
    kept = rounds(filled([True] * 10_000, 100))
    assert 49 <= len(kept) <= 100
    assert max(after - before for before, after in pairwise(kept)) <= 2 * 10_000 // (100 // 2)


def test_samples_come_in_order() -> None:
    trace = filled([False] * 3)
    with pytest.raises(ValueError, match="round 1 after that of round 2"):
        trace.add(Sample(1, 0, ()))


def test_a_trace_has_room() -> None:
    with pytest.raises(ValueError, match="at least 4"):
        Trace(3)


def test_what_is_private_does_not_print() -> None:
    trace = Trace()
    trace.add(Sample(7, 123, ((NEVER, 45),)))
    assert repr(trace) == "Trace(samples=1, private)"
    assert repr(trace.samples) == "(Sample(round=7, private),)"


def test_small_batches_do_not_each_add_a_sample() -> None:
    learner = DPSOA(Points(), 1, 1e-9, 10**6, seed=1, watched=True)
    learner.learn_many(["a"] * 100_000, [0] * 100_000)
    for _ in range(500):
        learner.learn_many(["a"] * 10, [0] * 10)
    late = [sample.round for sample in learner.trace if sample.round > 100_000]
    assert late[-1] == 105_000  # the present is in it all the same
    assert all(later - earlier >= earlier >> 10 for earlier, later in pairwise(late[:-1]))
    assert len(late) > 40


def test_votes_are_counted_only_for_samples_that_are_due(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = []

    def counting(forest: Forest) -> Mapping[Hypothesis, int]:
        counted.append(forest)
        return dict(Counter(rule for rule in forest.standing if rule is not None))

    monkeypatch.setattr(Forest, "votes", property(counting))
    learner = DPSOA(Points(), 1, 1e-9, 10**6, seed=1)
    learner.learn_many(["a"] * 100_000, [0] * 100_000)
    counted.clear()
    for _ in range(500):
        learner.learn_many(["a"] * 10, [0] * 10)
    assert 0 < len(counted) < 100


def test_a_sample_has_the_rules_with_most_votes_and_breaks_ties_by_key() -> None:
    learner = DPSOA(Points(), 1, 1e-9, 10**6, seed=1)
    values = [n % 7 if n % 3 else n for n in range(600)]
    learner.learn_many(values, [1] * 600)
    votes = sorted(learner.votes.items(), key=lambda pair: (-pair[1], pair[0].key))
    assert len(votes) > TOP
    assert learner.trace[-1].votes == tuple(votes[:TOP])
