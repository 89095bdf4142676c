"""Releases as they were recorded: the same noise and the same seeds publish the same rules.

Every class with every kind of plan and unit, on streams that a rule of the class fits and that none
fits. A change of structure must not change a release; one that means to records them again with
`python tests/test_recorded.py`, and says why in its commit.
"""

import json
import random
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import littlestone as ls
from classes import CASES, targets
from littlestone._privacy.testing import SeededNoise
from littlestone.paper import AdaptiveDPSOA, EveryRound, PaperDPSOA, PaperPlan

RECORD = Path(__file__).parent / "recorded.json"
ROUNDS = 1500
WRONG = {"clean": 0.0, "noisy": 0.1}
"""The share of labels that are wrong."""


def stream(name: str, wrong: float) -> tuple[list[Any], list[bool], list[str]]:
    """Rows, labels and users, made from the name of a class."""
    cls, points = CASES[name]
    draw = random.Random(f"{name} {wrong}")
    truth = draw.choice(targets(cls, points))
    rows = draw.choices(points, k=ROUNDS)
    labels = [truth(x) != (draw.random() < wrong) for x in rows]
    return rows, labels, [f"user {draw.randrange(ROUNDS // 3)}" for _ in rows]


def learners(cls: ls.HypothesisClass) -> dict[str, Callable[[], Any]]:
    """Makers of learners, each with noise that is not secret; per user where the name says so."""
    own: dict[str, Any] = {"seed": 5, "noise": SeededNoise(7)}
    asked: dict[str, Any] = {"epsilon": 8, "delta": 1e-5, "horizon": ROUNDS}
    few: dict[str, Any] = {"epsilon": 300, "delta": 0.01, "horizon": 12, "trees": 3}
    small: dict[str, Any] = {"trees": 30, "releases": 6, "check_every": 10}
    return {
        "practical": lambda: ls.DPSOA(cls, **asked, **own),
        "practical, user": lambda: ls.DPSOA(cls, **asked, unit="user", cap=2, **own),
        "paper": lambda: PaperDPSOA(cls, PaperPlan.of(cls, 60, 1e-3, ROUNDS, **small), **own),
        "soa": lambda: ls.SOA(cls),
        "experts": lambda: ls.PrivateExperts(cls, 2, ROUNDS, **own),
        "experts, tracking": lambda: ls.PrivateExperts(cls, 2, ROUNDS, change_cost=0, **own),
        "adaptive": lambda: AdaptiveDPSOA(cls, **few, **own),
        "every round": lambda: EveryRound(cls, **few, **own),
    }


def released(name: str, wrong: float) -> dict[str, Any]:
    """What each learner publishes of a class's stream, with its mistakes at the end."""
    rows, labels, users = stream(name, wrong)
    found: dict[str, Any] = {}
    for kind, make in learners(CASES[name][0]).items():
        try:
            learner = make()
        except ValueError:  # not every learner takes every class
            found[kind] = "refused"
            continue
        more = {"users": users} if "user" in kind else {}
        learner.learn_many(rows, labels, **more)
        said = [[release.round, str(release.rule)] for release in learner.releases]
        found[kind] = [learner.mistakes, said]
    return found


@pytest.mark.filterwarnings("ignore:delta")
@pytest.mark.parametrize("kind", WRONG)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.filterwarnings("ignore:.*after the horizon")
def test_releases_are_as_recorded(name: str, kind: str) -> None:
    assert released(name, WRONG[kind]) == json.loads(RECORD.read_text())[f"{name}, {kind}"]


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    record = {f"{name}, {kind}": released(name, WRONG[kind]) for name in CASES for kind in WRONG}
    RECORD.write_text(json.dumps(record, indent=0, sort_keys=True).replace("\n", "") + "\n")
    print(RECORD, RECORD.stat().st_size)  # noqa: T201
