"""Large classes: scores by groups are the scores of the list, rule by rule, prior included."""

import random
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_checkpoint import same

import littlestone as ls
from littlestone._classes.base import points_of
from littlestone._classes.dimension import Shattering, tabulate
from littlestone._classes.serialization import class_from_json, class_to_json, same_class
from littlestone._classes.specs import BadSpec, parse_spec
from littlestone._classes.vocabulary import read_vocabulary
from littlestone._hypotheses.rows import as_batch
from littlestone._learners import large_scores
from littlestone._learners.experts import FixedSharePrior
from littlestone._learners.large_scores import IntervalCounts, LargeCounts, VocabularyCounts
from littlestone._learners.scores import mistake_counts
from littlestone._privacy.structured import NO_PAIR, STAYING
from littlestone._privacy.testing import SeededNoise

pytestmark = pytest.mark.filterwarnings("ignore:delta")

VOCABULARY = ls.VocabularyRules({"a": ["x", "y", "z"], "b": ["x", "w"]})
RATE = Fraction(1, 4)


def interval_scores(found: IntervalCounts) -> dict[ls.Hypothesis, int]:
    """The score of every rule, from the structure."""
    ballot = found.ballot
    prefix = np.concatenate(ballot._cells)
    cell = np.searchsorted(ballot._starts, np.arange(len(prefix)), side="right") - 1
    scores: dict[ls.Hypothesis, int] = {ls.NEVER: ballot._single[NO_PAIR]}
    for b in range(len(prefix)):
        for a in range(b):
            penalty = ballot._penalties[cell[a], cell[b]]
            scores[found.cls.rule(a, b - 1)] = int(prefix[a] - prefix[b] - penalty)
    return scores


def vocabulary_scores(found: VocabularyCounts) -> dict[ls.Hypothesis, int]:
    """The score of every rule, from the groups."""
    ballot = found.ballot
    numbers = {
        ballot.number_of(group, place): score
        for group, (score, size) in enumerate(zip(*ballot.groups, strict=True))
        for place in range(size)
        if group != ballot._stay
    }
    assert sorted(numbers) == list(range(found.size)), "every rule is in one group"
    return {found.rule(number): score for number, score in numbers.items()}


def stay_score(found: LargeCounts) -> int:
    """The score of staying, from the structure."""
    if isinstance(found, IntervalCounts):
        return found.ballot._single[STAYING]
    assert isinstance(found, VocabularyCounts)
    return found.ballot.groups.scores[-1]


def scores_of(found: LargeCounts) -> dict[ls.Hypothesis, int]:
    if isinstance(found, IntervalCounts):
        return interval_scores(found)
    assert isinstance(found, VocabularyCounts)
    return vocabulary_scores(found)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("cls", [ls.Intervals(1, 9), VOCABULARY, ls.Intervals(1, 1)])
def test_scores_and_prior_are_those_of_the_list(cls: Any, seed: int) -> None:
    draw = random.Random(seed)
    large = IntervalCounts(cls) if isinstance(cls, ls.Intervals) else VocabularyCounts(cls)
    listed, points = mistake_counts(cls), points_of(cls.domain())
    by_group, by_rule = FixedSharePrior(large.group_sizes), FixedSharePrior(listed.size)
    rules = list(cls.hypotheses())
    published = draw.choice(rules)
    large.costs = listed.costs = (1 + seed % 3, 1)
    for number in range(6):
        rows = [draw.choice(points) for _ in range(15)]
        answers = np.array([draw.random() < 0.4 for _ in rows])
        for counts in (large, listed):
            counts.learn(as_batch(rows), answers, np.arange(15))
        scores = scores_of(large)
        expected = {
            listed.rule(n): int(score) for n, score in enumerate(listed.ballot[: len(rules)])
        }
        shift = {scores[rule] - expected[rule] for rule in rules}
        if number:
            shift.add(stay_score(large) - int(listed.ballot[-1]))
        assert len(shift) == 1, "a common term at most"
        rule = draw.choice(rules)
        for counts, prior in ((large, by_group), (listed, by_rule)):
            counts.restart(rule)
            if rule != published:
                if isinstance(counts, LargeCounts):
                    prior.split(*counts.refine(published, rule))
                prior.drop(counts.agreement_with(published, rule))
                counts.penalised = prior.penalties(RATE)
            counts.standing = rule
        if rule != published:
            place = {listed.rule(n): n for n in range(listed.size)}[rule]
            assert large.penalised[large.group_of(rule)] == listed.penalised[place]  # type: ignore[index]
        published = rule


def test_the_prior_begins_again_beyond_its_most_cuts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_scores, "MOST_CUTS", 4)
    cls = ls.Intervals(1, 50)
    counts, last = IntervalCounts(cls), cls.rule(7, 8)
    prior = FixedSharePrior(counts.group_sizes)
    for first in range(0, 40, 3):
        rule = cls.rule(first, first + 5)
        prior.split(*counts.refine(last, rule))
        prior.drop(counts.agreement_with(last, rule))
        counts.penalised, last = prior.penalties(RATE), rule
        assert len(counts._cuts) <= 4
        assert counts.group_sizes.sum() == cls.size
        assert len(interval_scores(counts)) == cls.size


def stream(cls: Any, truth: ls.Hypothesis, length: int) -> list[tuple[object, bool]]:
    draw, points = random.Random(1), points_of(cls.domain())
    rows = [draw.choice(points) for _ in range(length)]
    return [(x, truth(x) != (draw.random() < 0.02)) for x in rows]


@pytest.mark.parametrize("change_cost", [0, 2, 50])
@pytest.mark.parametrize("min_rate", [0.2, 0.5])
@pytest.mark.parametrize("cls", [VOCABULARY, ls.Intervals(1, 9)])
def test_a_large_class_is_learned_and_resumed(
    cls: Any, min_rate: float, change_cost: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(large_scores, "MOST_RULES", 10)
    truth = list(cls.hypotheses())[3]

    def make() -> ls.PrivateExperts:
        return ls.PrivateExperts(
            cls,
            3,
            5_000,
            change_cost=change_cost,
            min_rate=min_rate,
            first="own",
            seed=1,
            noise=SeededNoise(2),
        )

    learner = same(make, [*stream(cls, truth, 600), *stream(cls, ls.NEVER, 300)])
    assert len(learner.releases) > 2
    assert any(release.rule == truth for release in learner.releases)
    assert learner.plan.epsilon == 3


def test_ten_thousand_values_and_a_hundred_thousand_points() -> None:
    """Sizes at which a list of all rules could not be made."""
    cls = ls.VocabularyRules({name: [f"{name}{n}" for n in range(10_000)] for name in "abc"})
    draw = np.random.default_rng(1)
    rows = {name: np.array([f"{name}{n}" for n in draw.integers(0, 50, 2_000)]) for name in "abc"}
    learner = ls.PrivateExperts(cls, 1, 10_000, first="own", seed=1, noise=SeededNoise(1))
    learner.learn_many(rows, rows["b"] == "b7")
    assert str(learner.hypothesis) == "b = 'b7'"
    grid = ls.Intervals(1, 100_000)
    experts = ls.PrivateExperts(grid, 1, 10_000, first="own", seed=1, noise=SeededNoise(1))
    numbers = draw.integers(1, 100_001, 4_000)
    answers = (numbers >= 30_000) & (numbers < 50_000)
    experts.learn_many(numbers, answers)
    wrong = (experts.hypothesis.predict(numbers) != answers).mean()
    assert wrong < 0.05


def test_vocabulary_rules_are_a_class() -> None:
    cls = VOCABULARY
    assert cls.size == 6 == len(set(cls.hypotheses()))
    assert all(rule in cls for rule in cls.hypotheses())
    assert ls.one_of(["q"], "a") not in cls
    state = cls.learn(cls.start(), {"a": "q", "b": "x"}, 1)
    assert str(cls.hypothesis(state)) == "b = 'x'", "values outside match nothing"
    assert cls.learn(cls.start(), {"a": "q", "b": "q"}, 1) == ls.INCONSISTENT
    assert same_class(class_from_json(class_to_json(cls)), cls)
    assert "PrivateExperts" in str(ls.recommend(cls, epsilon=1, delta=1e-6, horizon=1000))
    bad: list[Any] = [{"a": []}, {"a": ["x", "x"]}, {"a": np.array(["x"])}, ["a"]]
    for columns in bad:
        with pytest.raises(ls.BadClass):
            ls.VocabularyRules(columns)


@pytest.mark.parametrize("values", [1, 2, 3])
def test_the_dimension_is_the_searched_one(values: int) -> None:
    cls = ls.VocabularyRules({name: [f"v{n}" for n in range(values)] for name in "abc"})
    points = points_of(cls.domain())
    table = tabulate(list(cls.hypotheses()), points)
    assert cls.dimension == Shattering(table).dimension(table.everything)


def test_vocabularies_on_the_command_line(tmp_path: Path) -> None:
    versions, countries = tmp_path / "versions.txt", tmp_path / "countries.txt"
    versions.write_bytes(b"\xef\xbb\xbf4.2.0\r\n4.2.1\r\n")
    countries.write_text("SE\n NO \nFR")
    cls = parse_spec(f"rules:version=@{versions},country=@{countries}")
    assert isinstance(cls, ls.VocabularyRules)
    assert cls.vocabularies == (("4.2.0", "4.2.1"), ("SE", "NO", "FR"))
    with pytest.raises(BadSpec, match="no vocabulary"):
        parse_spec(f"rules:version=@{versions},country")
    with pytest.raises(BadSpec, match="FILE is missing"):
        parse_spec("rules:version=@")
    with pytest.raises(BadSpec, match="cannot be read"):
        parse_spec("rules:version=@nowhere.txt")


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"a\n\nb\n", "line 2: it is empty"),
        (b"a\nb\na\n", "line 3: 'a' is already on line 1"),
        (b"", "the vocabulary is empty"),
        (b"a\n\xff\n", "line 2: not text in UTF-8"),
    ],
)
def test_bad_vocabularies_name_the_line(content: bytes, why: str, tmp_path: Path) -> None:
    path = tmp_path / "values.txt"
    path.write_bytes(content)
    with pytest.raises(ls.BadClass, match=why):
        read_vocabulary(path)
