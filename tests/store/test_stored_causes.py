"""A stored causes learner, closed or killed at random, goes on exactly: releases, windows, rate."""

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from killed import forked

from effort import scaled
from littlestone._data.rounds import Rounds
from littlestone._data.schema import user_numbers
from littlestone._hypotheses.causes import OUTCOME
from littlestone._learners.causes import PrivateCauses
from littlestone._privacy.testing import SeededNoise
from littlestone._store.request import LearnRequest, choose_learner
from littlestone._store.store import create, open_store, read_store

pytestmark = pytest.mark.filterwarnings("ignore:delta", "ignore:This process:DeprecationWarning")
ROUNDS, HORIZON = 12_000, 12_000
WAYS: dict[str, dict[str, Any]] = {
    "rate": {"min_rate": 0.2},
    "auto": {},
    "width 2": {"min_rate": 0.2, "spec": "causes:a,b,age@18/30/65:2"},
    "user": {"min_rate": 0.3, "user": "who", "cap": 3, "epsilon": 12.0},
    "outcomes": {"min_rate": 0.2, "negative": ["0"]},
}


def request(**more: Any) -> LearnRequest:
    usual: dict[str, Any] = {"spec": "causes:a,b,age@18/30/65", "epsilon": 4.0, "delta": 1e-5}
    return LearnRequest(label="y", horizon=HORIZON, seed=3, **usual | more)


def rows(users: bool, outcomes: bool = False) -> Rounds:
    """A stream whose culprit changes, and its outcome; a few rows are null rounds."""
    draw = np.random.default_rng(5)
    a, b = (draw.choice(["p", "q", "r", "s"], ROUNDS).astype(object) for _ in range(2))
    age = draw.integers(0, 90, ROUNDS).astype(np.float64)
    culprit = np.where(np.arange(ROUNDS) < ROUNDS // 2, a == "p", (b == "q") & (age < 30))
    labels = (draw.random(ROUNDS) < np.where(culprit, 0.7, 0.02)).astype(np.int32)
    labels[5::37] = -1
    names = draw.choice([f"user {n}" for n in range(ROUNDS // 2)], ROUNDS).astype(object)
    told = np.where(a == "p", "lost", "slow").astype(object)
    told[labels != 1] = None
    numbers = user_numbers(names) if users else None
    columns = {"a": a, "b": b, "age": age}
    return Rounds(columns | ({OUTCOME: told} if outcomes else {}), labels, numbers)


def rows_for(asked: LearnRequest) -> Rounds:
    return rows(asked.user is not None, bool(asked.negative))


def in_memory(asked: LearnRequest) -> PrivateCauses:
    plain = choose_learner(asked, HORIZON).make(asked.cls, 3, noise=SeededNoise(1))
    plain.learn(rows_for(asked))
    assert isinstance(plain, PrivateCauses)
    return plain


def stored(path: Path) -> PrivateCauses:
    """The learner of a store, resumed for reading."""
    found = read_store(path)
    learner = found.about.chosen.make(found.about.cls, found.about.terms.seed, noise=SeededNoise(1))
    learner.resume(found.saved)
    assert isinstance(learner, PrivateCauses)
    return learner


def same(one: PrivateCauses, other: PrivateCauses) -> None:
    for name in (
        "releases",
        "windows",
        "rate_to_beat",
        "mistakes",
        "missed",
        "null_rounds",
        "spent",
    ):
        assert getattr(one, name) == getattr(other, name), name
    assert one.evidence == other.evidence


@pytest.mark.parametrize("way", WAYS)
def test_a_stored_causes_learner_is_the_learner(tmp_path: Path, way: str) -> None:
    asked = request(**WAYS[way])
    plain, whole, draw = in_memory(asked), rows_for(asked), random.Random(way)
    path = tmp_path / "run.db"
    create(path, asked, choose_learner(asked, HORIZON), noise=SeededNoise(1)).close()
    at = 0
    while at < ROUNDS:
        size = draw.choice([1, 7, 100, 1500, 3000])
        with open_store(path, noise=SeededNoise(1)) as store:
            store.learn(whole.part(at, min(at + size, ROUNDS)))
        at += size
    same(stored(path), plain)
    assert len(plain.releases) > 2
    assert len(plain.windows) > 3
    assert ("when" in str(plain.releases[1].rule)) == (way == "outcomes")


@pytest.mark.parametrize("way", ["auto", "user"])
def test_killed_at_random_it_goes_on_exactly(tmp_path: Path, way: str) -> None:
    asked, path = request(**WAYS[way]), tmp_path / "run.db"
    create(path, asked, choose_learner(asked, HORIZON), noise=SeededNoise(1)).close()
    whole, draw, moments = rows_for(asked), random.Random(), set[int]()

    def learn() -> None:
        """Learn what the store does not have yet, in batches of random size."""
        with open_store(path, noise=SeededNoise(1)) as store:
            while (start := store.published.rounds) < ROUNDS:
                store.learn(whole.part(start, min(start + draw.choice([1, 7, 40, 90]), ROUNDS)))

    kills = 0
    # On a busy machine a run may be killed again and again before its first commit: wait longer.
    while kills < scaled(12, least=3) or (len(moments) < 2 and kills < 60):
        kills += 1
        forked(learn, draw.uniform(0.0, 0.25 + 0.05 * kills))
        moments.add(read_store(path).published.rounds)
    assert forked(learn)
    assert len(moments) > 1
    same(stored(path), in_memory(asked))
