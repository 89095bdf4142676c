"""Lemma 0 from outside: one replaced row changes nothing about how the others are read."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
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


# What a reader makes of status codes: of all rows but one that is no number, it guesses numbers.
GUESSED: dict[str, Any] = {
    "pandas": lambda cells: pd.DataFrame({"a": ["x"] * len(cells), "c": pd.Series(cells)}),
    "pandas categories": lambda cells: pd.DataFrame(
        {"a": ["x"] * len(cells), "c": pd.Series(cells, dtype="category")}
    ),
    "polars": lambda cells: pl.DataFrame({"a": ["x"] * len(cells), "c": cells}),
    "pyarrow": lambda cells: pa.table({"a": ["x"] * len(cells), "c": cells}),
}
CODES = {"guessed": [0, 1, 1], "text": ["00", "01", "01"]}


@pytest.mark.parametrize("named", [True, False], ids=["by name", "apart"])
@pytest.mark.parametrize("role", ["labels", "users"])
@pytest.mark.parametrize("library", GUESSED)
def test_guessed_numbers_are_no_labels_and_no_users(library: str, role: str, named: bool) -> None:
    """`00` is 0 or '00' as the other rows decide: nobody may be told which."""
    for cells in CODES.values():
        frame = GUESSED[library](cells)
        column = "c" if named else frame["c"]
        if role == "labels":
            learner = ls.PrivateCauses(ls.Causes(["a"], normal=["00"]), 1, 1e-7, 100, min_rate=0.2)
            arguments: tuple[Any, ...] = (frame, column)
        else:
            learner = ls.PrivateCauses(
                ls.Causes(["a"]), 1, 1e-7, 100, min_rate=0.2, unit="user", cap=2
            )
            labels = "y" if named else [0, 1, 1]
            frame = _with_labels(frame) if named else frame
            column = "c" if named else frame["c"]
            arguments = (frame, labels, column)
        if cells == CODES["guessed"]:
            with pytest.raises(ls.BadExample, match="by their text"):
                learner.learn_many(*arguments)
        else:
            learner.learn_many(*arguments)
            assert learner.rounds == 3


def _with_labels(frame: Any) -> Any:
    if isinstance(frame, pd.DataFrame):
        return frame.assign(y=[0, 1, 1])
    if isinstance(frame, pl.DataFrame):
        return frame.with_columns(y=pl.Series([0, 1, 1]))
    return frame.append_column("y", pa.array([0, 1, 1]))
