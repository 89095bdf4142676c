"""Releases and evidence of the causes learner as recorded: the same noise publishes the same.

A change of structure must not change a release; one that means to records them again with
`python tests/test_recorded_causes.py`, and says why in its commit.
"""

import json
import random
from pathlib import Path
from typing import Any

import pytest

import littlestone as ls
from littlestone._privacy.testing import SeededNoise

RECORD = Path(__file__).parent / "recorded_causes.json"
ROUNDS = 6000
WAYS: dict[str, dict[str, Any]] = {
    "rate": {"min_rate": 0.1},
    "auto": {},
    "width 3": {"width": 3, "min_rate": 0.2},
    "one cause": {"limit": 1, "min_rate": 0.2},
    "per user": {"unit": "user", "cap": 2, "epsilon": 12, "min_rate": 0.2},
}


def released(way: str) -> dict[str, Any]:
    """What the learner publishes of a stream of two causes, of which one is repaired."""
    draw, given = random.Random(way), dict(WAYS[way])
    cls = ls.Causes(
        ["version", "country", ls.Ranges("age", [18, 30, 65])],
        width=given.pop("width", 2),
        limit=given.pop("limit", 8),
    )
    rows, labels, users = [], [], []
    for number in range(ROUNDS):
        x = {
            "version": f"4.{draw.randrange(6)}",
            "country": draw.choice(["SE", "NO", "DK", None]),
            "age": draw.choice([None, draw.randrange(90)]),
        }
        bad = (x["version"] == "4.2" and number < ROUNDS // 2) or x["country"] == "DK"
        rows.append(x)
        labels.append(draw.random() < (0.5 if bad else 0.03))
        users.append(f"user {draw.randrange(ROUNDS)}")
    usual: dict[str, Any] = {"epsilon": 4, "delta": 1e-5, "horizon": ROUNDS}
    learner = ls.PrivateCauses(cls, noise=SeededNoise(7), **usual | given)
    learner.learn_many(rows, labels, users if "unit" in given else None)
    return {
        "mistakes": learner.mistakes,
        "missed": learner.missed,
        "rate_to_beat": learner.rate_to_beat,
        "releases": [[release.round, str(release.rule)] for release in learner.releases],
        "windows": [window.to_json() for window in learner.windows],
    }


@pytest.mark.parametrize("way", WAYS)
def test_releases_and_windows_are_as_recorded(way: str) -> None:
    found = json.loads(json.dumps(released(way)))
    assert found == json.loads(RECORD.read_text())[way]


if __name__ == "__main__":
    record = {way: released(way) for way in WAYS}
    RECORD.write_text(json.dumps(record, indent=0, sort_keys=True).replace("\n", "") + "\n")
    print(RECORD, RECORD.stat().st_size)  # noqa: T201
