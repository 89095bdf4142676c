"""Adversaries keep their word, games are what they say, and no stream breaks a learner."""

import numpy as np
import pytest

import littlestone as ls
from classes import CASES
from littlestone._hypotheses.causes import causes_of
from littlestone._hypotheses.rows import row_of
from littlestone._learners.registry import Terms, learner_names, make_learner
from littlestone._privacy.parameters import BadParameter
from littlestone._privacy.testing import SeededNoise
from littlestone._simulate.adversaries import (
    ADVERSARIES,
    Adaptive,
    Mirror,
    TreeAdversary,
    adversary_of,
    halving,
    mirror,
)
from littlestone._simulate.games import best_mistakes, marks, play
from littlestone._simulate.streams import Stream

pytestmark = pytest.mark.filterwarnings("ignore:delta")

CLASSES: dict[str, ls.HypothesisClass] = {
    "points": ls.Points("m"),
    "sets": ls.Sets(3),
    "rules": ls.Rules(["a", "b", "c"]),
    "thresholds": ls.Thresholds(1, 15, column="s"),
    "a fine grid": ls.Thresholds(0, 1, 0.01),
    "intervals": ls.Intervals(1, 8),
    "conjunctions": ls.Conjunctions(["a", "b", "c"]),
    "table": CASES["table by first"][0],
    "complement": ls.Complement(ls.Points("m")),
    "union": ls.Union(ls.Thresholds(0, 5), ls.Intervals(0, 5)),
    "union of columns": ls.Union(ls.Points("a"), ls.Thresholds(0, 2, 1, "b")),
    "contributed": CASES["contributed"][0],
}
# Without a known dimension, which adaptive adversaries need.
CAUSES: dict[str, ls.HypothesisClass] = {
    "causes": ls.Causes(["a", "b", "c"]),
    "causes of two conditions": ls.Causes(["a", "b", ls.Ranges("n", [1, 2, 3])], width=2),
}
OBLIVIOUS = [name for name in ADVERSARIES if name not in ("mirror", "tree")]
REALIZABLE = [name for name in OBLIVIOUS if name not in ("noisy", "rates", "drift")]


def stream(name: str, cls: ls.HypothesisClass, rounds: int, seed: int, noise: float = 0) -> Stream:
    made = ADVERSARIES[name](cls, rounds, seed, noise)
    assert isinstance(made, Stream)
    return made


def terms(
    cls: ls.HypothesisClass, epsilon: float, delta: float, horizon: int, change_cost: float = 50
) -> Terms:
    return Terms(cls=cls, epsilon=epsilon, delta=delta, horizon=horizon, change_cost=change_cost)


@pytest.mark.parametrize("family", CLASSES | CAUSES)
@pytest.mark.parametrize("name", OBLIVIOUS)
def test_a_stream_can_be_read_and_fits_the_rule_it_names(name: str, family: str) -> None:
    cls = (CLASSES | CAUSES)[family]
    for seed in range(3):
        made = stream(name, cls, 400, seed)
        assert broken_promise(cls, made, 400, name in REALIZABLE) is None
        assert made.unavoidable is not None
        assert (made.unavoidable == 0) == (name not in ("noisy", "rates"))
        again = stream(name, cls, 400, seed)
        assert [row_of(made.batch, n) for n in range(400)] == [
            row_of(again.batch, n) for n in range(400)
        ]


def broken_promise(
    cls: ls.HypothesisClass, made: Stream, rounds: int, realizable: bool
) -> str | None:
    """What a stream does not keep of what its adversary promises."""
    if not len(made) == len(made.answers) == rounds:
        return "length"
    if not cls.readable(made.batch).all():
        return "readable"
    if made.truth not in cls or (made.later is not None and made.later not in cls):
        return "truth"
    if realizable and (made.unavoidable != 0 or best_mistakes(cls, made) != 0):
        return "realizable"
    return None


def test_noise_flips_the_share_of_labels_that_was_asked_for() -> None:
    for name in set(OBLIVIOUS) - {"rates"}:
        made = stream(name, ls.Points(), 20_000, 5, noise=0.1)
        assert made.unavoidable == pytest.approx(2000, abs=250), name
    with pytest.raises(BadParameter, match="takes no label noise"):
        ADVERSARIES["mirror"](ls.Points(), 10, 1, 0.1)


@pytest.mark.parametrize("cls", [
    ls.Causes(["a", "b", "c"]),
    ls.Causes(["a", "b", ls.Ranges("n", [1, 2, 3])], width=2),
    ls.Rules(["a", "b"]),
])  # fmt: skip
def test_a_stream_with_rates_has_them(cls: ls.HypothesisClass) -> None:
    made = adversary_of("rates:0.4:0.02:0.1")(cls, 40_000, 7, 0.0)
    assert isinstance(made, Stream)
    assert made.truth is not None
    assert made.truth in cls
    assert cls.readable(made.batch).all()
    matched = made.truth.predict(made.batch)
    assert matched.mean() == pytest.approx(0.1, abs=0.01)
    assert made.answers[matched].mean() == pytest.approx(0.4, abs=0.03)
    assert made.answers[~matched].mean() == pytest.approx(0.02, abs=0.005)
    if isinstance(cls, ls.Causes):
        (cause,) = causes_of(made.truth)
        assert len(cause.conditions) == cls.width


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("rates:2", "rate is from 0 to 1, not 2"),
        ("rates:0.1:0.2:0.3:0.4", "expected rates:RATE:BASE:SHARE"),
        ("rates:often", "expected rates:RATE:BASE:SHARE"),
        ("iid:0.3", "the stream iid takes no parameters"),
        ("circles", "no stream is called 'circles'"),
    ],
)
def test_a_bad_name_of_a_stream_is_a_sentence(name: str, why: str) -> None:
    with pytest.raises(BadParameter, match=why):
        adversary_of(name)


def test_missed_positives_are_those_of_the_rules_in_their_time() -> None:
    """Counted again from the releases, round by round."""
    made = adversary_of("rates:0.9:0.01:0.1")(ls.Points("m"), 3_000, 3, 0.0)
    assert isinstance(made, Stream)
    game = play(ls.SOA(ls.Points("m")), made, 3_000)
    at, missed = 0, 0
    for number in range(3_000):
        while at + 1 < len(game.releases) and game.releases[at + 1].round <= number + 1:
            at += 1
        missed += bool(made.answers[number]) and not game.releases[at].rule(
            row_of(made.batch, number)
        )
    assert game.missed == missed > 0
    assert game.mistakes > missed


def test_streams_have_their_shapes() -> None:
    cls = ls.Thresholds(1, 15)
    ordered = stream("sorted", cls, 500, 2)
    assert np.all(np.diff(np.asarray(ordered.batch)) >= 0)
    changes = np.diff(stream("burst", ls.Sets(2), 5000, 3).answers.astype(int))
    assert (changes == 1).sum() <= 1
    assert (changes == -1).sum() <= 1
    assert stream("burst", ls.Sets(2), 5000, 3).answers.sum() > 100
    moved = stream("drift", ls.Points(), 1000, 4)
    assert moved.truth != moved.later
    assert moved.turn == 500
    assert moved.truth is not None
    assert moved.errors(moved.truth) > 20, "no rule that never changes fits a drift"
    stuck = stream("stall", ls.Intervals(1, 8), 2000, 1)
    assert len(set(np.asarray(stuck.batch)[256:].tolist())) == 1
    assert len(set(np.asarray(stuck.batch)[:256].tolist())) == 8


@pytest.mark.parametrize("family", ["points", "sets", "rules", "thresholds", "intervals", "table"])
@pytest.mark.parametrize("rounds", [10, 300])
def test_halving_costs_soa_no_more_than_the_dimension(family: str, rounds: int) -> None:
    cls = CLASSES[family]
    games = [play(ls.SOA(cls), halving(cls, rounds, seed), rounds).mistakes for seed in range(9)]
    assert 0 < max(games) <= cls.dimension
    if family in ("points", "sets"):
        assert min(games) == cls.dimension


class Recorder:
    """An adversary, and what it showed."""

    def __init__(self, adversary: Adaptive) -> None:
        self._adversary = adversary
        self.shown = list[tuple[object, bool]]()
        self.wrong = 0

    @property
    def truth(self) -> ls.Hypothesis | None:
        return self._adversary.truth

    def challenge(self, rule: ls.Hypothesis) -> tuple[object, bool] | None:
        move = self._adversary.challenge(rule)
        if move is not None:
            self.shown.append(move)
            self.wrong += rule(move[0]) != move[1]
        return move


@pytest.mark.parametrize("family", CLASSES)
@pytest.mark.parametrize("who", ["mirror", "tree"])
@pytest.mark.parametrize("player", ["soa", "dpsoa"])
def test_those_who_look_stay_realizable_and_show_mistakes(
    who: str, family: str, player: str
) -> None:
    cls = CLASSES[family]
    if family in ("union of columns", "union", "contributed") and player == "soa":
        pytest.skip("no optimal learner for this class")
    if family == "union of columns":
        with pytest.raises(ls.TooLarge):
            ADVERSARIES[who](cls, 300, 1, 0)
        return
    adversary = ADVERSARIES[who](cls, 300, 1, 0)
    assert isinstance(adversary, Mirror | TreeAdversary)
    recorder = Recorder(adversary)
    learner = make_learner(player, terms(cls, 1, 1e-6, 300), seed=2, noise=SeededNoise(3))
    game = play(learner, recorder, 300)
    assert game.truth in cls
    assert fits(game.truth, recorder)
    assert game.mistakes == recorder.wrong
    assert game.mistakes > 0 or cls.dimension == 0
    if who == "tree":
        assert game.rounds == game.mistakes == cls.dimension
    else:
        assert game.rounds == 300
        assert player == "dpsoa" or game.mistakes <= cls.dimension


def fits(truth: ls.Hypothesis | None, recorder: Recorder) -> bool:
    """Whether a rule is right about all that was shown."""
    return truth is not None and all(truth(x) == y for x, y in recorder.shown)


def test_the_mirror_catches_a_learner_that_never_changes_every_time() -> None:
    adversary = mirror(ls.Thresholds(1, 7), 0, 0)
    for _ in range(50):
        move = adversary.challenge(ls.NEVER)
        assert move is not None
        assert move[1]


@pytest.mark.parametrize("name", ["halving", "noisy"])
@pytest.mark.parametrize("player", sorted(learner_names()))
def test_a_game_in_batches_is_the_game_round_by_round(name: str, player: str) -> None:
    rounds = 1500
    cls: ls.HypothesisClass = ls.Thresholds(1, 7)
    cls = ls.Causes(["a", "b"], limit=1) if player == "causes" else cls
    made = stream(name, cls, rounds, 6)
    asked = terms(cls, 8, 1e-4, rounds)
    one, other = (make_learner(player, asked, seed=9, noise=SeededNoise(4)) for _ in "ab")
    game = play(one, made, rounds, name=player, opponent=name)
    curve, sampled = [], set(marks(rounds))
    for n in range(rounds):
        other.learn_one(row_of(made.batch, n), made.answers[n])
        if n + 1 in sampled:
            curve.append((n + 1, other.mistakes))
    assert list(game.curve) == curve
    assert game.releases == other.releases
    # To causes all rows of that game are positive: none has a cause.
    assert name != "halving" or len(game.releases) > 1 or player in ("halving", "causes")
    assert repr(game) == f"Transcript({player} against {name}, private)"
    assert game.best is not None
    assert game.unavoidable is not None
    assert game.best <= rounds


def test_the_best_fixed_rule_is_found_by_brute_force() -> None:
    for family in ("points", "sets", "rules", "thresholds", "intervals", "conjunctions", "table"):
        cls = CLASSES[family]
        for name in ("noisy", "drift"):
            made = stream(name, cls, 300, 8, 0.2)
            found = best_mistakes(cls, made)
            assert found is not None
            assert made.truth is not None
            assert found <= made.errors(made.truth)
            if cls.size is not None:
                assert found == min(map(made.errors, cls.hypotheses()))
    entries = np.array([1, 1, 2, 2, 2, 3, 3])
    answers = np.array([1, 1, 1, 1, 0, 0, 1], dtype=bool)
    assert best_mistakes(ls.Points(), Stream(entries, answers, None)) == 3
    assert best_mistakes(ls.Sets(2), Stream(entries, answers, None)) == 2
