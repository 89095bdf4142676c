"""SOA and Halving: bounds against every adversary, batches, and streams that no rule fits."""

import random
from itertools import product
from typing import Any

import numpy as np
import pytest

import littlestone as ls
import naive
from classes import CASES, TABLE, targets
from littlestone._simulate.adversaries import TreeAdversary
from littlestone._simulate.games import play


def most_mistakes(
    cls: ls.HypothesisClass, points: list[object], state: ls.VersionSpace, left: list[naive.Row]
) -> int:
    """The worst realizable play from a state, by brute force over the rows still consistent."""
    rule = cls.hypothesis(state)
    assert rule is not None
    worst = 0
    for at, x in enumerate(points):
        wrong = [row for row in left if row[at] != rule(x)]
        if wrong:
            after = cls.learn(state, x, not rule(x))
            assert cls.hypothesis(after) != rule, "a mistake must change the hypothesis"
            worst = max(worst, 1 + most_mistakes(cls, points, after, wrong))
    return worst


def test_soa_is_optimal_on_all_small_classes() -> None:
    """All 255 classes on three points: an adversary forces the dimension, and none forces more."""
    every = list(product((0, 1), repeat=3))
    for mask in range(1, 256):
        rows = [row for i, row in enumerate(every) if mask >> i & 1]
        cls = ls.FiniteClass(rows)
        assert most_mistakes(cls, [0, 1, 2], cls.start(), rows) == naive.dimension(rows)


@pytest.mark.parametrize("seed", range(40))
def test_soa_is_optimal_and_halving_is_bounded(seed: int) -> None:
    draw = random.Random(seed)
    rows = draw.sample(list(product((0, 1), repeat=5)), draw.randint(2, 14))
    points: list[object] = [0, 1, 2, 3, 4]
    soa, halving = ls.FiniteClass(rows), ls.FiniteClass(rows, vote="halving")
    assert most_mistakes(soa, points, soa.start(), rows) == naive.dimension(rows)
    assert most_mistakes(halving, points, halving.start(), rows) <= len(rows).bit_length() - 1


@pytest.mark.parametrize("seed", range(40))
def test_soa_votes_as_littlestone_says(seed: int) -> None:
    draw = random.Random(seed)
    rows = draw.sample(list(product((0, 1), repeat=4)), draw.randint(1, 12))
    rule = ls.SOA(ls.FiniteClass(rows)).hypothesis
    for point in range(4):
        assert naive.soa_label(rows, point) in (None, rule(point))


@pytest.mark.parametrize("name", [n for n, (c, _) in CASES.items() if not isinstance(c, ls.Union)])
def test_soa_meets_its_adversary_at_the_dimension(name: str) -> None:
    cls, _ = CASES[name]
    if cls.mistake_bound > cls.dimension and cls.size is None and not isinstance(cls, ls.Rules):
        pytest.skip("no optimal learner for this class")
    game = play(ls.SOA(cls), TreeAdversary(ls.witness(cls)), rounds=100)
    assert game.rounds == game.mistakes == cls.dimension


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("noise", [0.0, 0.2])
def test_batches_do_not_matter(name: str, noise: float) -> None:
    cls, points = CASES[name]
    draw = random.Random(3)
    truth = targets(cls, points)[-1]
    xs = [draw.choice(points) for _ in range(300)]
    ys = [truth(x) != (draw.random() < noise) for x in xs]
    learners = [_alone(cls) for _ in range(4)]
    for x, y in zip(xs, ys, strict=True):
        learners[0].learn_one(x, y)
    for learner, size in zip(learners[1:], (1, 7, 300), strict=True):
        for at in range(0, 300, size):
            learner.learn_many(xs[at : at + size], ys[at : at + size])
        assert learner.releases == learners[0].releases
        assert (learner.rounds, learner.mistakes) == (300, learners[0].mistakes)
    if noise == 0:
        assert learners[0].mistakes <= cls.mistake_bound


def _alone(cls: ls.HypothesisClass) -> ls.SOA:
    """The class's own learner, whatever its bound, with the surface of SOA."""
    learner = ls.SOA.__new__(ls.SOA)
    super(ls.SOA, learner).__init__(cls)
    return learner


def test_a_stream_that_no_rule_fits_is_survived() -> None:
    """Labels against every published rule, for ever: no exception, no stall."""
    for cls, points in CASES.values():
        learner = _alone(cls)
        for x in points * 5:
            learner.learn_one(x, not learner.predict_one(x))
        assert learner.mistakes == learner.rounds == 5 * len(points)


def test_a_point_that_only_one_label_fits() -> None:
    learner = ls.SOA(ls.FiniteClass([[0, 0], [0, 1]]))
    learner.learn_one(0, 1)
    learner.learn_one(1, 1)
    assert learner.predict_one(1)


LATE = {"score": [99] * 500 + ["high"]}


@pytest.mark.parametrize(
    ("X", "y", "why"),
    [
        ({"score": np.arange(100)}, np.full(100, 2), "row 0: label 2 is not 0 or 1"),
        ({"score": np.arange(100)}, [1], "100 examples and 1 labels"),
        ([{"score": 0}, {"score": 99}, {"points": 1}], [1, 0, 1], "row 2: no column 'score'"),
        (LATE, [0] * 501, "row 500: 'high' is not a number"),
        ({"score": [1, 2], "other": [1]}, [0, 1], "different lengths"),
        ({"points": [1]}, [1], "no column 'score' in the batch: it has 'points'"),
        ([1, 2], [0, 1], "no column|not a row"),
        (7, [0], "not a batch of rows|an array or a list"),
    ],
)
def test_a_bad_batch_changes_nothing(X: Any, y: Any, why: str) -> None:
    learner = ls.SOA(ls.Thresholds(0, 100, 5, column="score"))
    learner.learn_many({"score": np.arange(100)}, np.arange(100) >= 70)
    before = repr(learner), learner.rounds, learner.mistakes, learner.releases
    with pytest.raises(ls.BadExample, match=why):
        learner.learn_many(X, y)
    assert (repr(learner), learner.rounds, learner.mistakes, learner.releases) == before


def test_releases_say_from_which_round_a_rule_stood() -> None:
    learner = ls.SOA(ls.Points())
    for x, y in [("a", 0), ("b", 1), ("b", 1), ("c", 1)]:
        learner.learn_one(x, y)
    assert learner.releases == (
        ls.Release(1, ls.NEVER),
        ls.Release(3, ls.one_of(["b"])),
        ls.Release(5, ls.one_of(["c"])),
    )
    table = ls.SOA(ls.FiniteClass([[0, 0], [0, 1]]))
    for _ in range(5):
        table.learn_one(0, 1)
    assert (table.mistakes, len(table.releases)) == (5, 1), "the same rule is no release"


@pytest.mark.parametrize("x", [{"z": 1}, [1, 2], "text", None, 7])
def test_whether_a_row_can_be_read_does_not_depend_on_the_rule(x: object) -> None:
    """A bad row is bad under `never` and under any other rule."""
    learner = ls.SOA(ls.Rules(["a", "b"]))
    for _ in range(2):
        for verb in (lambda x: learner.learn_one(x, 0), learner.predict_one):
            with pytest.raises(ls.BadExample):
                verb(x)
        with pytest.raises(ls.BadExample):
            learner.learn_many([{"a": 1, "b": 2}, x], [0, 0])
        assert learner.rounds in (0, 1)
        learner.learn_one({"a": 1, "b": 2}, 1)


@pytest.mark.parametrize("cls", [ls.FiniteClass(TABLE), ls.Complement(ls.FiniteClass(TABLE))])
def test_points_off_the_table_are_refused_by_every_verb(cls: ls.HypothesisClass) -> None:
    learner = ls.SOA(cls)
    for verb in (
        lambda: learner.predict_one("zz"),
        lambda: learner.learn_one("zz", 0),
        lambda: learner.predict_many([0, "zz"]),
        lambda: learner.learn_many([0, "zz"], [0, 0]),
    ):
        with pytest.raises(ls.BadExample, match="'zz' is not a point of the table"):
            verb()
    assert learner.rounds == 0


@pytest.mark.parametrize("make", [ls.SOA, ls.Halving])
@pytest.mark.parametrize("family", [ls.Intervals, ls.Thresholds])
def test_tables_of_a_grid_place_numbers_as_the_family_does(make: Any, family: Any) -> None:
    draw = random.Random(2)
    raw, placed = make(family(0, 10)), make(family(0, 10))
    negated = make(ls.Complement(family(0, 10)))
    for _ in range(200):
        x = draw.choice([draw.uniform(-3, 13), float(draw.randint(0, 10)), None])
        truth = x is not None and (x >= 4 if family is ls.Thresholds else 3 <= x < 8)
        raw.learn_one(x, truth)
        placed.learn_one(_placed(x), truth)
        negated.learn_one(x, not truth)
        assert raw.hypothesis == placed.hypothesis == ls.negation(negated.hypothesis)
    assert str(raw.hypothesis) == ("x >= 4" if family is ls.Thresholds else "3 <= x < 8")


def _placed(x: float | None) -> int:
    return 0 if x is None else max(0, min(10, int(x // 1)))


def test_soa_looks_at_dimensions_and_not_at_heads() -> None:
    """Four rows that shatter two points against five that shatter one."""
    shattered = [[1, a, b, *[0] * 5] for a in (0, 1) for b in (0, 1)]
    singles = [[0, 0, 0, *(int(i == j) for j in range(5))] for i in range(5)]
    cls = ls.FiniteClass(shattered + singles)
    assert ls.SOA(cls).predict_one(0)
    assert not ls.Halving(cls).predict_one(0)


def test_the_first_row_left_is_published() -> None:
    cls = ls.FiniteClass(TABLE, vote="first")
    rules = list(cls.hypotheses())
    assert cls.hypothesis(cls.start()) == rules[0]
    assert cls.hypothesis(cls.learn(cls.start(), 2, 0)) == rules[1]
    assert cls.hypothesis(cls.learn(cls.start(), 0, 1)) == rules[2]


def test_claims_with_the_largest_keys_are_dropped_first() -> None:
    cls = ls.Sets(3)
    state = cls.learn(cls.restart(ls.one_of(["a", "b", "c"])), "x", 1)
    assert str(cls.hypothesis(state)) == "x in {'a', 'b', 'x'}"


def test_ties_of_soa_go_to_the_larger_side_then_to_zero() -> None:
    assert str(ls.SOA(ls.FiniteClass([[0], [1]])).hypothesis) == "never"
    rows = [[1, 0, 0], [1, 1, 0], [1, 0, 1], [0, 0, 0], [0, 1, 1]]
    assert ls.SOA(ls.FiniteClass(rows)).predict_one(0)


class Labelled:
    """A series as data frames have it: a position for slices, a label for single items."""

    def __init__(self, values: list[object], labels: list[object]) -> None:
        self._values, self._labels = values, labels

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.fromiter(self._values, dtype=object)

    def __len__(self) -> int:
        return len(self._values)

    def __getitem__(self, item: Any) -> Any:
        return self._values[self._labels.index(item)]


class Frame:
    """A data frame that is iterated by column and names its columns as pyarrow does."""

    def __init__(self, columns: dict[str, Labelled]) -> None:
        self._columns, self.column_names = columns, list(columns)

    def __getitem__(self, name: str) -> Labelled:
        return self._columns[name]

    def __iter__(self) -> Any:
        return iter(self._columns.values())


def test_series_and_frames_are_read_by_position() -> None:
    series = Labelled([5, 1, 9, 3], labels=[3, 2, 1, 0])
    learner = ls.SOA(ls.Points())
    learner.learn_many(series, [1, 0, 0, 0])
    assert str(learner.hypothesis) == "x = 5"
    ruled = ls.SOA(ls.Rules(["a", "b"]))
    ruled.learn_many(Frame({"a": series, "b": Labelled([0] * 4, list("wxyz"))}), [1, 0, 0, 0])
    assert str(ruled.hypothesis) == "a = 5 and b = 0"
    with pytest.raises(ls.BadExample, match="no column 'b' in the batch: it has 'a'"):
        ruled.predict_many(Frame({"a": series}))


def test_a_million_rows_in_one_call() -> None:
    draw = np.random.default_rng(0)
    scores = draw.integers(0, 100, 1_000_000)
    learner = ls.SOA(ls.Thresholds(0, 100, 5, column="score"))
    learner.learn_many({"score": scores}, scores >= 70)
    assert str(learner.hypothesis) == "score >= 70"
    assert learner.mistakes <= 4
    assert learner.rounds == 1_000_000
    assert learner.predict_many({"score": np.array([69, 70])}).tolist() == [False, True]


def test_structured_arrays_are_batches() -> None:
    rows = np.array([("4.2.1", 1), ("4.2.0", 2)] * 50, dtype=[("version", "U8"), ("n", "i8")])
    learner = ls.SOA(ls.Rules(["version", "n"]))
    learner.learn_many(rows, rows["version"] == "4.2.1")
    assert learner.predict_many(rows).tolist() == [True, False] * 50


def test_learners_without_an_optimal_table_refuse() -> None:
    with pytest.raises(ls.TooLarge, match="infinitely many rules"):
        ls.Halving(ls.Points())
    with pytest.raises(ls.BadClass, match="neither a table nor on one grid"):
        ls.Halving(ls.Conjunctions(["a", "b"]))
    with pytest.raises(ls.TooLarge, match="where every member is finite"):
        ls.SOA(ls.Union(ls.Points(), ls.Sets(2)))


def test_they_say_that_they_are_not_private() -> None:
    learner = ls.SOA(ls.Points())
    assert repr(learner) == "SOA(Points(column=None)): never (not private)"
    assert learner.guarantee.epsilon == float("inf")
    assert str(learner.guarantee).startswith("no privacy at all")
