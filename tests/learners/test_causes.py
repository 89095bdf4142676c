"""The causes learner: its slow twin, batches of any size, first window, checkpoints, users."""

import random
from collections.abc import Callable
from fractions import Fraction
from typing import Any, cast

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from test_checkpoint import MemoryStore

import littlestone as ls
import naive
from effort import scaled
from littlestone._hypotheses.causes import causes_of
from littlestone._learners import causes_plan
from littlestone._learners.plan_table import checked_min_rate
from littlestone._privacy.mechanism import MechanismMoved
from littlestone._privacy.parameters import BadParameter
from littlestone._privacy.testing import ScriptedNoise, SeededNoise
from littlestone.errors import BadClass, BadExample

pytestmark = pytest.mark.filterwarnings("ignore:delta")

ROUNDS = 1600
AGES = ls.Ranges("age", [18, 30, 65])
# Some rows cannot be read: the value of a column has no text.
Row = dict[str, Any]
Stream = list[tuple[Row | None, Any]]


def stream(seed: int, rounds: int = ROUNDS, nulls: float = 0.0) -> Stream:
    """Rows whose culprit changes half-way, at a rate below 1; some rounds are null."""
    draw = random.Random(seed)
    rows: Stream = []
    for number in range(rounds):
        if draw.random() < nulls:
            rows.append((None, None))
            continue
        x = {
            "a": draw.choice(["x", "y", None]),
            "b": draw.choice([1, "1", 2, 3, "z"]),
            "age": draw.choice([None, 10, "20", 40.5, 70]),
        }
        bad = x["a"] == "x" if number < rounds // 2 else x["b"] == 2
        y = draw.random() < (0.7 if bad else 0.02)
        rows.append((x, y))
    return rows


def learner(width: int = 1, seed: int = 1, **given: Any) -> ls.PrivateCauses:
    options = {name: given.pop(name) for name in ("limit", "values") if name in given}
    cls = ls.Causes(["a", "b", AGES], width=width, **options)
    usual: dict[str, Any] = {"epsilon": 8, "delta": 1e-3, "horizon": ROUNDS, "min_rate": 0.2}
    return ls.PrivateCauses(cls, noise=SeededNoise(seed), **usual | given)


def fed(private: ls.PrivateCauses, rows: Stream, sizes: Any = None) -> ls.PrivateCauses:
    """Learn rows in batches of these sizes; one by one without."""
    if sizes is None:
        for x, y in rows:
            private.skip_one() if y is None else private.learn_one(x, y)
        return private
    at = 0
    while at < len(rows):
        size = sizes()
        part = rows[at : at + size]
        xs = [{"a": object(), "b": 1, "age": 1} if x is None else x for x, _ in part]
        private.learn_many(xs, [y for _, y in part], bad_rows="null")
        at += size
    return private


def public(private: ls.PrivateCauses) -> Any:
    return private.releases, private.windows, private.rate_to_beat, private.spent, private.rounds


def private_too(private: ls.PrivateCauses) -> Any:
    return *public(private), private.mistakes, private.missed, private.null_rounds


def like_its_twin(make: Callable[[], ls.PrivateCauses], rows: Stream) -> naive.CausesLearner:
    """Compare a learner with its slow twin, and with itself however it is fed."""
    one_by_one = fed(make(), rows)
    cls = one_by_one.cls
    assert isinstance(cls, ls.Causes)
    slow = naive.CausesLearner(cls, one_by_one.plan, SeededNoise(1))
    for x, y in rows:
        slow.step(x, False if y in cls.normal else y)
    assert [tuple(release) for release in one_by_one.releases] == slow.releases
    assert list(one_by_one.windows) == slow.windows
    assert one_by_one.mistakes == slow.mistakes
    assert one_by_one.missed == slow.missed
    draw = random.Random(5)
    for sizes in (lambda: 1, lambda: draw.randint(1, 40), lambda: 8, lambda: 777, lambda: ROUNDS):
        assert private_too(fed(make(), rows, sizes)) == private_too(one_by_one)
    return slow


def moves_as_it_stays(make: Callable[[], ls.PrivateCauses], rows: Stream, times: int) -> None:
    """Stop a learner and resume it at random moments: it publishes what it would have."""
    draw, stayed = random.Random(1), fed(make(), rows, lambda: 333)
    for _ in range(times):
        store, went, at = MemoryStore(), make(), 0
        while at < len(rows):
            size = draw.choice([1, 7, 8, 50, 400])
            fed(went, rows[at : at + size], draw.choice([None, lambda: 30]))
            at += size
            store.take(went)
            went = make()
            went.resume(store.whole)
        assert private_too(went) == private_too(stayed)
        assert went.evidence == stayed.evidence
        assert went.trace[-1] == stayed.trace[-1]
    assert len(stayed.releases) > 1


def storms(rounds: int) -> Stream:
    """Rows whose positives come in storms, in which another value has most of them each time."""
    draw = random.Random(8)
    rows: Stream = []
    for number in range(rounds):
        x = {"a": draw.choice("xyz"), "b": draw.choice([1, 2, 3]), "age": draw.choice([10, 40, 70])}
        bad = number // 400 % 2 == 0 and x["a"] == "xyz"[number // 800 % 3]
        rows.append((x, draw.random() < (0.9 if bad else 0.02)))
    return rows


def test_causes_that_do_not_last_are_published_more_and_more_rarely() -> None:
    rows, terms = storms(16_000), {"horizon": 16_000}
    settled = fed(learner(**terms), rows, lambda: 1000)
    eager = fed(learner(**terms, change_cost=0), rows, lambda: 1000)
    gate = settled.loop.gate.gate
    assert gate is not None
    assert cast(Any, gate.draw).margin > 60
    assert 2 * len(settled.releases) < len(eager.releases)


SETTINGS: dict[str, dict[str, Any]] = {
    "width 1": {"width": 1},
    "width 2": {"width": 2},
    "width 3": {"width": 3},
    "auto": {"width": 2, "min_rate": "auto"},
    "limit": {"width": 1, "limit": 1},
    "small epsilon": {"epsilon": 2},
    "horizon": {"horizon": 1000},
    "half": {"min_rate": 0.5},
    "storms": {"change_cost": 200},
    "fixed": {"width": 2, "min_rate": "auto", "baseline": "fixed"},
    "declared": {"width": 2, "values": {"b": [1, "1", 2, 3, "z", "other"]}},
    "all declared": {"width": 2, "min_rate": "auto", "values": {"a": ["x", None], "b": [2, 9]}},
}


@pytest.mark.parametrize("nulls", [0.0, 0.2])
@pytest.mark.parametrize("name", SETTINGS)
def test_it_is_its_slow_twin_however_it_is_fed(
    name: str, nulls: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Epochs that end without a firing, and short windows, within a short stream.
    monkeypatch.setattr(causes_plan, "LONGEST_EPOCH", 400)
    monkeypatch.setattr(causes_plan, "SHORTEST_WINDOW", 100)
    rows = storms(ROUNDS) if name == "storms" else stream(3, nulls=nulls)
    slow = like_its_twin(lambda: learner(**SETTINGS[name]), rows)
    assert name != "storms" or slow.plan.margin(slow.windows, slow.causes) > 0
    if name in ("width 1", "width 2", "limit"):
        assert len(slow.releases) >= 2


def test_causes_are_added_and_dropped() -> None:
    """The second half of the stream speaks against what the first half published."""
    found = fed(learner(seed=2, horizon=4 * ROUNDS), stream(4, 4 * ROUNDS), lambda: 500)
    sets = [{str(cause) for cause in causes_of(release.rule)} for release in found.releases]
    assert any("a = 'x'" in some for some in sets)
    assert "a = 'x'" not in sets[-1]
    assert "b = 2" in sets[-1]


def test_releases_without_noise_follow_from_the_rows() -> None:
    cls = ls.Causes(["a"])
    private = ls.PrivateCauses(cls, 1, 1e-6, 10_000, min_rate=0.5, noise=ScriptedNoise({}))
    threshold = private.plan.threshold(private.plan.terms(1.0))
    private.learn_many({"a": np.array(["x"] * 400)}, np.ones(400, dtype=bool))
    # The count is compared at multiples of check_every.
    first = -(-int(np.ceil(threshold)) // 8) * 8 + 1
    assert [release.round for release in private.releases] == [1, first]
    assert private.missed == first - 1


def test_a_bad_batch_changes_nothing() -> None:
    private = fed(learner(), stream(3)[:300], lambda: 100)
    before = private_too(private)
    good = {"a": "x", "b": 1, "age": 1}
    with pytest.raises(BadExample):
        private.learn_many([good, {"a": object(), "b": 1, "age": 1}], [True, False])
    with pytest.raises(BadExample, match="not 0 or 1"):
        private.learn_many([good, good], [True, 7])
    with pytest.raises(BadExample, match="2 examples and 1 labels"):
        private.learn_many([good, good], [True])
    for bad in ({"a": "x"}, {"a": "x", "b": 1, "age": "old"}, 7):
        with pytest.raises(BadExample):
            private.learn_one(bad, True)
    assert private_too(private) == before
    private.learn_one(good, True)


@pytest.mark.filterwarnings("ignore:.*after the horizon")
def test_past_the_horizon_nothing_is_read() -> None:
    private = fed(learner(horizon=800), stream(3), lambda: 300)
    other = fed(learner(horizon=800), stream(3)[:800], lambda: 300)
    assert (private.releases, private.windows) == (other.releases, other.windows)
    assert private.loop.get_state()["rows"] == other.loop.get_state()["rows"]
    assert private.windows[-1].stop == 800
    fed(private, stream(9), None)
    with pytest.warns(UserWarning, match="2 of these rows come after the horizon of 800 rounds"):
        fed(private, stream(9)[:2], lambda: 2)
    private.end_window()
    assert (private.releases, private.windows) == (other.releases, other.windows)
    assert private.final is not None


@pytest.mark.parametrize("horizon", [1, 5, 8, 9, 19, 20, 100])
@pytest.mark.filterwarnings("ignore:.*after the horizon")
def test_a_short_horizon_has_a_first_window_too(horizon: int) -> None:
    for sizes in (None, lambda: 7, lambda: 200):
        private = fed(learner(horizon=horizon, min_rate="auto"), stream(3)[:150], sizes)
        assert private.rounds == 150
        assert (private.rate_to_beat is None) == (horizon < 8)


def test_the_first_window_sets_the_rate_and_nothing_else_reads_it() -> None:
    rows = stream(3)
    private = learner(min_rate="auto")
    size = private.plan.first_window
    fed(private, rows[: size - 1])
    assert private.rate_to_beat is None
    assert not private.windows
    assert private.spent.epsilon == 0
    fed(private, rows[size - 1 : size])
    first = private.windows[-1]
    assert first[:3] == (1, private.plan.base_rounds, ())
    odds = 2 * max(first.positives[0], 0) / first.negatives[0]
    assert private.rate_to_beat == pytest.approx(max(0.02, odds / (1 + odds)))
    assert private.loop.get_state()["rows"] == {"rows": 0}
    assert private.loop.get_state()["pending"] == 0
    # Full epsilon, as no later mechanism reads these rounds.
    assert first.scale == float(2 / private.plan.budget.epsilon)


@pytest.mark.parametrize("given", [0, -0.1, 1, 1.2, "often", float("nan"), float("inf")])
def test_a_rate_out_of_bounds_is_refused(given: Any) -> None:
    with pytest.raises(BadParameter, match="min_rate"):
        learner(min_rate=given)


def test_rates_within_bounds_are_exact() -> None:
    for given in (0.5, "1/2", Fraction(1, 2), np.float64(0.5)):
        assert checked_min_rate(given) == "1/2"
    assert checked_min_rate(0.001) == "1/1000"
    assert checked_min_rate(0.9) == "9/10"


@pytest.mark.parametrize("asked", [{"epsilon": 2}, {"min_rate": 0.1}, {"change_cost": 3}])
def test_what_contradicts_the_plan_is_refused(asked: dict[str, Any]) -> None:
    cls = ls.Causes(["a"])
    for rate in ("auto", 0.2):
        plan = ls.CausesPlan.practical(cls, 1, 1e-6, 1000, min_rate=rate)
        with pytest.raises(BadParameter, match="conflicts with the plan's"):
            ls.PrivateCauses(cls, plan=plan, **asked)
        assert ls.PrivateCauses(cls, epsilon=1, plan=plan).plan is plan


def test_what_it_does_not_take_is_refused() -> None:
    with pytest.raises(BadClass, match="PrivateCauses learns Causes"):
        ls.PrivateCauses(ls.Points("a"), 1, 1e-6, 100)
    with pytest.raises(BadParameter, match="give delta and horizon, or a plan"):
        ls.PrivateCauses(ls.Causes(["a"]), 1)
    plan = ls.CausesPlan.practical(ls.Causes(["a"]), 1, 1e-6, 100)
    with pytest.raises(BadParameter, match="made for"):
        ls.PrivateCauses(ls.Causes(["b"]), plan=plan)
    for unit, cap in (("user", None), ("event", 2)):
        with pytest.raises(BadParameter, match="cap"):
            learner(unit=unit, cap=cap)


@pytest.mark.parametrize("name", ["width 1", "width 2", "auto"])
def test_a_learner_that_moves_is_the_learner_that_stayed(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(causes_plan, "LONGEST_EPOCH", 800)
    times = scaled(6, least=2)
    moves_as_it_stays(lambda: learner(**SETTINGS[name]), stream(3, nulls=0.1), times)


def test_only_the_same_plan_resumes_and_a_lost_checkpoint_is_the_end() -> None:
    store, private = MemoryStore(), fed(learner(), stream(3)[:100], None)
    store.take(private)
    other = learner(epsilon=4)
    with pytest.raises(BadParameter, match="the state belongs to"):
        other.resume(store.whole)
    with pytest.raises(RuntimeError, match="disk"), private.checkpoint():
        raise RuntimeError("disk full")
    with pytest.raises(MechanismMoved):
        private.learn_one({"a": "x", "b": 1, "age": 1}, True)


def test_frames_give_the_same_releases() -> None:
    draw = np.random.default_rng(2)
    text = {name: draw.choice(["p", "q", "r", "3"], 4000) for name in ("a", "b")}
    age = draw.uniform(0, 90, 4000)
    y = draw.random(4000) < np.where((text["a"] == "p") & (age < 30), 0.8, 0.02)
    missing = draw.random(4000) < 0.1
    objects = {name: cells.astype(object) for name, cells in text.items()}
    for cells in objects.values():
        cells[missing] = None
    batches: list[Any] = [
        objects | {"age": age},
        pd.DataFrame(objects | {"age": age}),
        pd.DataFrame(objects | {"age": age}).astype({"a": "category", "b": "string"}),
        pl.DataFrame({n: c.tolist() for n, c in objects.items()} | {"age": age}),
        pl.DataFrame({n: c.tolist() for n, c in objects.items()} | {"age": age}).with_columns(
            pl.col("a").cast(pl.Categorical)
        ),
        pa.table({n: c.tolist() for n, c in objects.items()} | {"age": age}),
        pa.table(
            {n: pa.array(c.tolist()).dictionary_encode() for n, c in objects.items()} | {"age": age}
        ),
        [{"a": a, "b": b, "age": c} for a, b, c in zip(*objects.values(), age, strict=True)],
    ]
    made = []
    for batch in batches:
        made.append(learner(width=2, horizon=4000))
        made[-1].learn_many(batch, y)
    assert len(made[0].releases) > 1
    for other in made[1:]:
        assert private_too(other) == private_too(made[0])


def test_a_learner_without_a_cause_says_so_and_why() -> None:
    draw = np.random.default_rng(3)
    learner = ls.PrivateCauses(ls.Causes(["a"]), 1, 1e-7, 4000, noise=SeededNoise(1))
    assert "round 0: no cause is published; " in repr(learner)
    learner.learn_many({"a": draw.choice(list("xyz"), 4000)}, draw.random(4000) < 0.02)
    assert learner.remarks[0].startswith("no draw found a cause with enough positives.")
    for text in (repr(learner), learner._repr_html_()):
        assert f"no cause is published; {learner.remarks[0]}; what to try: more rows" in text


def test_without_a_delta_only_declared_values_are_published() -> None:
    draw = np.random.default_rng(0)
    rows = {name: draw.choice(["yes", "no"], 2_000) for name in ("soup", "fish")}
    rows["fish"][:400] = "raw"  # not declared, and the only cause
    ill = draw.random(2_000) < np.where(rows["fish"] == "raw", 0.9, 0.02)
    declared = {name: ["yes", "no"] for name in rows}
    options: dict[str, Any] = {"epsilon": 1, "columns": list(rows)}
    for delta, cause in ((1e-6, "fish = 'raw'"), (0, "never")):
        found = ls.find_causes(rows, ill, delta=delta, values=declared, **options)
        assert str(found.hypothesis) == cause
        assert found.guarantee.delta == delta
    found = ls.find_causes(
        rows, ill, delta=0, values=declared | {"fish": ["yes", "no", "raw"]}, **options
    )
    assert str(found.hypothesis) == "fish = 'raw'"
    with pytest.raises(BadParameter, match="values of all columns are declared"):
        ls.find_causes(rows, ill, delta=0, values={"soup": ["yes", "no"]}, **options)


def test_windows_that_count_few_users_say_nothing_about_the_order_of_the_rows() -> None:
    """They have thousands of rounds, and nearly all of their counts is noise."""
    draw = np.random.default_rng(0)
    rows = {"a": draw.choice(["x", "y"], 60_000)}
    private = ls.PrivateCauses(
        ls.Causes(["a"]), 1, 1e-7, 60_000, unit="user", cap=1, noise=SeededNoise(1)
    )
    private.learn_many(rows, draw.random(60_000) < 0.02, draw.integers(0, 1500, 60_000))
    assert any("what is counted" in said for said in private.remarks)
    assert not any("sorted" in said for said in private.remarks)


@pytest.mark.parametrize("unit", ["event", "user"])
@pytest.mark.parametrize("found", [False, True])
@pytest.mark.parametrize("rows", [300, 20_000, 400_000])
def test_all_draws_from_a_table_share_epsilon_delta_and_what_known_keys_weigh(
    rows: int, found: bool, unit: Any
) -> None:
    cls = ls.Causes(["a", "b"], values={"a": ["1", "2", "3"], "b": ["x", "y"]})
    plan = causes_plan.CausesPlan.practical(cls, 1, 1e-7, rows, unit=unit, table=True)
    whole = plan.terms(0.25, plan.declared)
    left = plan.epsilon - plan.epsilon_evidence - (plan.epsilon_base or 0)
    spent, share, weight, draws = Fraction(0), Fraction(0), Fraction(0), 0
    before = None
    while terms := plan.next_draw(whole, left - spent, rows / 10, before):
        before, draws = (terms.rate, found), draws + 1
        spent += plan.draw(terms).cost.epsilon
        share += terms.share
        weight += sum(known.keys * known.weight for known in terms.known)
    assert spent <= left
    assert spent > left - Fraction(1, 1000)
    assert share <= 1
    # A cause that no row lists is named this often at most, however many draws there are.
    assert Fraction(99, 100) * causes_plan.TABLE_KNOWN_WEIGHT < weight
    assert weight <= causes_plan.TABLE_KNOWN_WEIGHT
    assert (draws > 1) == (rows > 300)
