"""The streams and measures of `python -m bench causes`."""

import numpy as np
import pytest
from bench.causes import FAMILIES, MAKERS, USUAL, score


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
