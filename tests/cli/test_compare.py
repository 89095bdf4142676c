"""`littlestone compare` as its user meets it: learners on made-up streams, as a table or JSON."""

import json
import xml.etree.ElementTree as ET
from dataclasses import replace
from statistics import median

import pytest
from bench.results import BOUND, FLOOR, Games, _chart

import littlestone as ls
from commands import littlestone
from littlestone._learners.registry import Terms
from littlestone._simulate.adversaries import adversary_of
from littlestone._simulate.games import play_line
from littlestone._simulate.streams import Stream

SMALL = ("compare", "--class", "thresholds:x:1:3", "--learners", "soa,halving,dpsoa")


def test_a_table_has_a_line_for_each_learner_stream_and_length() -> None:
    done = littlestone(*SMALL, "--streams", "iid,mirror", "--rounds", "200,400", "--seeds", 2)
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    starts = {tuple(words[:4]) for words in lines if words[:1] in (["iid"], ["mirror"])}
    assert starts == {
        (stream, rounds, "1", learner)
        for stream in ("iid", "mirror")
        for rounds in ("200", "400")
        for learner in ("soa", "halving", "dpsoa")
    }


def test_json_has_the_medians_over_the_seeds() -> None:
    terms = Terms(cls=ls.Thresholds(1, 3, column="x"), epsilon=1, delta=1e-6, horizon=300)
    games = play_line("halving", "soa", terms, 3, 0.0).games
    words = ("--streams", "halving", "--rounds", 300, "--seeds", 3, "--json")
    found = json.loads(littlestone(*SMALL, *words).stdout)
    line = found["lines"][0]
    assert (line["learner"], line["seeds"]) == ("soa", 3)
    assert line["median"] == median(game.mistakes for game in games)
    assert line["worst"] == max(game.mistakes for game in games)
    assert line["missed"] + line["alarms"] <= 2 * line["worst"]
    assert line["rules"] == [str(game.rule) for game in games]


def test_a_right_cause_is_no_loss() -> None:
    """It has twice as many false alarms as positives, and costs less than publishing nothing."""
    terms = Terms(cls=ls.Causes(["a", "b"]), epsilon=8, delta=1e-6, horizon=20_000)
    line = play_line("rates:0.3:0.01:0.2", "causes", terms, 2, 0.0)
    said = line.to_json()
    made = adversary_of(line.stream)(terms.cls, terms.horizon, 1, 0.0)
    assert isinstance(made, Stream)
    assert said["missed"] + said["alarms"] > made.answers.sum() > said["worst"] > said["missed"]
    assert 0 < said["excess"] < said["median"]
    asked = play_line(line.stream, "causes", replace(terms, min_rate=0.1), 1, 0.0).games[0]
    assert asked.missed is not None
    assert asked.cost == pytest.approx(asked.missed + (asked.mistakes - asked.missed) / 9)


def test_what_a_learner_cannot_do_is_a_line() -> None:
    done = littlestone("compare", "--class", "points:x", "--learners", "experts,soa",
                       "--streams", "iid", "--rounds", 100, "--seeds", 1)  # fmt: skip
    assert done.returncode == 0
    assert "experts cannot" in done.stdout
    assert "  experts: Points(column='x') has infinitely many rules" in done.stdout


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--learners", "sao"), "no learner is called 'sao'"),
        (("--learners", ","), "name at least one learner"),
        (("--streams", "windy"), "no stream is called 'windy'"),
        (("--rounds", "10,x"), "--rounds is one or more whole numbers"),
        (("--rounds", "0"), "--rounds is one or more whole numbers"),
        (("--epsilon", "-1"), "--epsilon is one or more numbers"),
        (("--noise", "1"), "--noise is at least 0 and below 1"),
        (("--seeds", "0"), "--seeds"),
        (("--delta", "2"), "delta"),
    ],
)
def test_what_is_wrong_is_a_sentence(words: tuple[str, ...], why: str) -> None:
    done = littlestone(*SMALL, *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert why in done.stderr
    assert "Traceback" not in done.stderr


def test_the_figures_of_the_results_have_the_floor_and_the_bound() -> None:
    games = Games("name", "T", ["points:x"], ["soa"], ["iid"], [1000, 100_000])
    terms = [Terms(cls=ls.Points("x"), epsilon=1, delta=1e-6, horizon=n) for n in (1000, 10**5)]
    lines = {"points:x": [play_line("iid", "soa", each, 1, 0.0) for each in terms]}
    chart = _chart("name", games, lines, "iid")
    names = [curve.name for curve in chart.curves]
    assert names == ["soa", FLOOR, BOUND]
    assert chart.curves[-1].points == [(100_000, 23.8)]
    assert ET.fromstring(chart.svg()).tag.endswith("svg")
