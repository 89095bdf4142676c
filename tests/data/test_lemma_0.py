"""Lemma 0 from outside: one replaced row changes nothing about how the others are read."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import littlestone as ls
from commands import littlestone
from littlestone._privacy.testing import SeededNoise

LENGTH = 4000
# What replaces the value of one positive row.
REPLACEMENTS = [None, "x" * 65, "x" * 66, "\0", "\ud800", 7, 1.5, True]


def rows(replacement: Any) -> tuple[list[dict[str, Any]], list[int]]:
    """Rows of which 7 % fail, whatever their value is: nothing is to be published."""
    draw = np.random.default_rng(3)
    values: list[Any] = draw.choice(["-0.0\0", "a", "b"], LENGTH).tolist()
    values = ["-0.0\0" if value == "-0.0" else value for value in values]  # numpy drops the NUL
    labels = (draw.random(LENGTH) < 0.07).astype(int).tolist()
    values[labels.index(1)] = replacement
    return [{"v": value} for value in values], labels


def published(replacement: Any) -> list[tuple[int, str]]:
    X, y = rows(replacement)
    learner = ls.PrivateCauses(
        ls.Causes(["v"]), 1, 1e-7, LENGTH, min_rate=0.2, noise=SeededNoise(5)
    )
    learner.learn_many(X, y)
    return [(release.round, str(release.rule)) for release in learner.releases]


@pytest.mark.parametrize("replacement", REPLACEMENTS, ids=repr)
def test_one_row_does_not_change_how_others_are_hashed(replacement: Any) -> None:
    expected = published("y")
    assert [rule for _, rule in expected] == ["never"]
    assert published(replacement) == expected


@pytest.mark.parametrize("replacement", ["y", "x" * 66, None], ids=repr)
def test_nor_in_a_file(replacement: Any, tmp_path: Path) -> None:
    X, y = rows(replacement)
    lines = (json.dumps({**row, "y": label}) for row, label in zip(X, y, strict=True))
    (tmp_path / "rows.jsonl").write_text("\n".join(lines))
    told = littlestone(
        "learn", tmp_path / "rows.jsonl", "--class", "causes:v", "--label", "y",
        "--delta", "1e-7", "--min-rate", "0.2",
    )  # fmt: skip
    assert told.returncode == 0, told.stderr
    assert "v = " not in told.stdout
