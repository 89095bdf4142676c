"""The black-box audit: planted leaks are found, the real learner is not accused, and what cannot be
seen is said. An honest learner is judged with a confidence of 1 - 1e-7, so that it fails by chance
once in ten million runs; the leaks are so large that they pass as rarely."""

import json
import math
import subprocess
import sys
from pathlib import Path

import pytest

import littlestone as ls
from leaks import SMALL, SMALLER, KeepingSingleVotes, WithHalvedNoise
from littlestone.lab.audits import Audit, Make, Neighbours, audit
from littlestone.lab.bounds import at_least, epsilon_bound, lower, power, upper
from littlestone.lab.neighbours import Subject, built_in, with_a_null_round
from littlestone.privacy import BadParameter

SURE, ENOUGH = 1 - 1e-7, 0.999
RUNS = 1000
LABEL, LONE = built_in(ls.Points(), SMALL)
ALONE = built_in(ls.Points(), SMALLER)[1]


def of(make: Make, pair: Neighbours, runs: int = RUNS, claimed: float = 2) -> Audit:
    return audit(make, pair, claimed=claimed, delta=0.001, runs=runs, confidence=ENOUGH)


def test_halved_noise_is_found() -> None:
    found = of(WithHalvedNoise(), LABEL)
    assert found.convicts, found
    assert found.verdict.startswith("VIOLATION: at least")


def test_a_histogram_that_keeps_single_votes_is_found() -> None:
    found = of(KeepingSingleVotes(), ALONE, claimed=1)
    assert found.convicts, found
    assert "x = " in found.event


def test_a_learner_without_privacy_is_found() -> None:
    assert of(Subject("soa", ls.Points(), SMALL, 0), LABEL, runs=400).convicts


@pytest.mark.parametrize("pair", [LABEL, LONE], ids=lambda pair: pair.what)
def test_the_real_learner_is_not_accused(pair: Neighbours) -> None:
    seen: list[int] = []
    runs = RUNS if pair is LABEL else 400
    found = audit(
        Subject("dpsoa", ls.Points(), SMALL, 0),
        pair,
        claimed=2,
        delta=0.001,
        runs=runs,
        confidence=SURE,
        watch=seen.append,
    )
    assert not found.convicts, found
    assert seen == sorted(seen)
    assert seen[-1] == 2 * runs
    if pair is LABEL:
        assert found.bound > 0.5
        assert found.verdict.startswith("no violation found: at least "), found


def test_what_cannot_be_seen_is_said() -> None:
    """Twenty runs cannot show an epsilon of 2, whatever they are."""
    found = of(WithHalvedNoise(), LABEL, runs=20)
    assert not found.convicts
    assert found.verdict.startswith("not detectable at this size")


def test_neighbours_differ_in_one_round() -> None:
    rows = (("a", True), ("b", False))
    with pytest.raises(BadParameter, match="differ in one round"):
        Neighbours("twice the same", rows, rows)
    pair = with_a_null_round(ls.Points(), [("b", False), *rows])
    assert pair.other == (("b", False), (None, None), ("b", False))
    with pytest.raises(BadParameter, match="nothing to tell apart"):
        with_a_null_round(ls.Points(), [("b", False)])


@pytest.mark.parametrize(("count", "runs"), [(0, 5), (1, 7), (30, 40), (40, 40), (3, 900)])
def test_tails_are_the_sums_they_stand_for(count: int, runs: int) -> None:
    for p in (1e-6, 0.03, 0.5, 0.77, 0.999):
        terms = [math.comb(runs, k) * p**k * (1 - p) ** (runs - k) for k in range(count, runs + 1)]
        assert at_least(count, runs, p) == pytest.approx(math.fsum(terms), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize(("count", "runs"), [(0, 5), (3, 12), (500, 1000), (12, 12)])
@pytest.mark.parametrize("miss", [0.05, 1e-7])
def test_the_bounds_are_where_the_tails_say(count: int, runs: int, miss: float) -> None:
    low, high = lower(count, runs, miss), upper(count, runs, miss)
    assert low <= count / runs <= high
    if count:
        assert at_least(count, runs, low) == pytest.approx(miss, rel=1e-6)
    if count < runs:
        assert 1 - at_least(count + 1, runs, high) == pytest.approx(miss, rel=1e-6)


@pytest.mark.parametrize(("p", "q"), [(0.7, 0.3), (0.05, 0.01), (0.99, 0.9)])
def test_a_bound_is_rarely_above_the_truth(p: float, q: float) -> None:
    """Over all counts of 40 runs, exactly."""
    runs, truth = 40, math.log((p - 0.001) / q)

    def mass(k: int, rate: float) -> float:
        return math.comb(runs, k) * rate**k * (1 - rate) ** (runs - k)

    above = sum(
        mass(a, p) * mass(b, q)
        for a in range(runs + 1)
        for b in range(runs + 1)
        if epsilon_bound(a, b, runs, 0.001, 0.9) > truth
    )
    assert above <= 0.1


def test_power_is_what_a_doubled_epsilon_would_have() -> None:
    """The log-odds of 0.8 and 0.2 are 2.77 apart; doubled, 16/17 and 1/17: a loss of 2.77."""
    assert power(800, 200, 1000, claimed=2, delta=0, confidence=0.95) > 0.8
    assert power(800, 200, 1000, claimed=2.8, delta=0, confidence=0.95) < 0.2
    assert power(80, 20, 100, claimed=2.6, delta=0, confidence=0.95) < 0.2
    assert power(500, 500, 1000, claimed=0.1, delta=0, confidence=0.95) == 0


def command(*arguments: object) -> subprocess.CompletedProcess[str]:
    code = "from littlestone.edge.cli import main; main()"
    return subprocess.run(
        [sys.executable, "-c", code, "audit", *map(str, arguments)],
        capture_output=True,
        text=True,
        encoding="utf-8",
        env={"PYTHONUTF8": "1", "COLUMNS": "120"},
    )


OPTIONS = ("points:m", "--epsilon", 8, "--delta", 0.01, "--horizon", 8)


def test_the_verb_prints_both_audits() -> None:
    done = command(*OPTIONS, "--runs", 30)
    assert done.returncode == 0, done.stderr
    for words in ("COMPUTED", "mistakes monitor", "drawn and kept", "epochs gate", "kept"):
        assert words in done.stdout
    for words in ("RUN: dpsoa", "15 runs in each world", "claimed", "not detectable at this size"):
        assert words in done.stdout
    assert "PRIVATE" not in done.stdout


def test_a_file_of_ones_own_is_private_and_a_leak_exits_with_one(tmp_path: Path) -> None:
    file = tmp_path / "events.csv"
    file.write_text("m,bad\n" + "a,0\nb,1\n" * 4)
    leak = (*OPTIONS[:2], 1, "--delta", 0.01, "--horizon", 8, "--learner", "soa", "--runs", 400)
    done = command(*leak, "--file", file, "--label", "bad")
    assert done.returncode == 1, done.stderr
    assert "PRIVATE: for the data's holder only. RUN: soa" in done.stdout
    assert "VIOLATION" in done.stdout.split("PRIVATE")[1]
    assert "m = 'b'" not in done.stdout.split("PRIVATE")[0]
    data = json.loads(command(*OPTIONS, "--runs", 20, "--file", file, "--label", "bad",
                              "--json").stdout)  # fmt: skip
    assert "runs" not in data
    assert data["private"][0]["what"] == "row 2 is a null round"
    assert data["kept"] is True
    assert "say which column" in command(*OPTIONS, "--file", file).stderr


def test_users_are_enumerated_and_not_run() -> None:
    done = command(*OPTIONS, "--user", "--cap", 1)
    assert (done.returncode, "add --runs 0" in done.stderr) == (2, True)
