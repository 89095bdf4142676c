"""In a notebook: tables for people, public things only, and text that stays text."""

import re
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from bench.streams import value_column

import littlestone as ls
from classes import CASES
from littlestone import paper
from littlestone._learners.base import Releases
from littlestone._privacy.testing import SeededNoise
from littlestone._simulate.games import play

TAGS = {"div", "table", "caption", "thead", "tbody", "tr", "th", "td", "code"}
HOSTILE = "<script>alert('x')</script>\u202e&amp;"


def text_of(shown: Any) -> str:
    """The text of some HTML, which must be well-formed and hold nothing that runs."""
    page = shown._repr_html_()
    assert isinstance(page, str)
    tree = ElementTree.fromstring(page)
    assert {part.tag for part in tree.iter()} <= TAGS
    return " ".join(tree.itertext())


@pytest.mark.parametrize("name", CASES)
def test_every_class_is_a_table(name: str) -> None:
    cls = CASES[name][0]
    said = text_of(cls)
    assert "rules" in said
    if isinstance(cls, ls.Sets | ls.Rules | ls.Thresholds | ls.Intervals | ls.Conjunctions):
        assert f"Littlestone dimension {cls.dimension}" in said


def test_a_class_whose_dimension_takes_long_does_not_work_it_out() -> None:
    rows = np.random.default_rng(1).integers(0, 2, (300, 300)).astype(bool)
    table = ls.FiniteClass(list(rows))
    assert "300" in text_of(table)
    assert "dimension" not in table.__dict__


@pytest.mark.parametrize(
    "plan",
    [
        ls.Plan.practical(ls.Points(), 1, 1e-6, 1000),
        paper.PaperPlan.of(ls.Points(), 1, 1e-6, 1000),
        ls.ExpertsPlan.practical(ls.Thresholds(0, 9), 1, 1000),
        paper.EveryRoundPlan.of(1, 1e-6, 1000),
        paper.TheoremPlan.of(ls.Points(), 1, 1e-6, 1000),
    ],
    ids=lambda plan: type(plan).__name__,
)
def test_a_plan_is_a_table_of_its_lines(plan: Any) -> None:
    said = text_of(plan)
    for line in plan.lines():
        assert all(part in said for part in line)


def learned(learner: Any) -> Any:
    draw = np.random.default_rng(1).choice(["a", "b", "c"], 1237)
    learner.learn_many({"m": draw}, draw == "b", bad_rows="null")
    return learner


def test_a_learner_shows_what_is_public_only() -> None:
    learner = learned(ls.DPSOA(ls.Points("m"), 4, 1e-6, 10_000, seed=1, noise=SeededNoise(1)))
    assert learner.mistakes
    for said in (repr(learner), text_of(learner)):
        assert "m = 'b'" in said
        assert "1,237" in said
        assert str(learner.guarantee) in said
        assert not re.search(rf"\b{learner.mistakes}\b|mistake|vote|null", said)


def test_a_learner_without_privacy_says_so() -> None:
    learner = ls.SOA(ls.Points("m"))
    learner.learn_one({"m": "b"}, 1)
    assert "not private" in text_of(learner)
    assert "m = 'b'" in text_of(learner)
    assert "mistake" not in text_of(learner)


def test_releases_are_a_table_and_still_a_tuple() -> None:
    learner = learned(ls.DPSOA(ls.Points("m"), 4, 1e-6, 10_000))
    assert isinstance(learner.releases, tuple)
    assert "m = 'b'" in text_of(learner.releases)
    many = Releases(learner.releases[:1] * 1000)
    assert "980 more" in text_of(many)


def test_a_transcript_does_not_tell_its_mistakes() -> None:
    transcript = play(ls.SOA(ls.Points()), value_column(7, 1237, 0.06), 1237)
    assert transcript.mistakes
    assert repr(transcript) == "Transcript(SOA against Stream, private)"


def test_text_from_data_stays_text() -> None:
    rule = ls.one_of([HOSTILE], HOSTILE)
    learner = ls.SOA(ls.Rules([HOSTILE]))
    learner.learn_one({HOSTILE: HOSTILE}, 1)
    for shown in (rule, learner, learner.releases, ls.Points(HOSTILE)):
        assert "<script" not in shown._repr_html_()
        assert "\u202e" not in shown._repr_html_()
        assert "<script>" in text_of(shown)


def test_a_recommendation_is_a_table() -> None:
    assert "PrivateExperts" in text_of(ls.recommend(ls.Thresholds(0, 9), 1, 1e-6, 1000))
