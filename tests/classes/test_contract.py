"""One contract for every hypothesis class: add a family to `classes.CASES` and it is tested."""

import copy
import json
import random
from typing import Any

import numpy as np
import pytest

import littlestone as ls
from classes import CASES, targets
from littlestone._hypotheses.rows import as_batch
from littlestone._hypotheses.rules import NEVER

Case = tuple[ls.HypothesisClass, list[object]]


@pytest.fixture(params=CASES, ids=lambda name: name.replace(" ", "-"))
def case(request: pytest.FixtureRequest) -> Case:
    return CASES[request.param]


def rule_of(cls: ls.HypothesisClass, state: ls.VersionSpace) -> ls.Hypothesis:
    rule = cls.hypothesis(state)
    assert rule is not None
    return rule


def reachable(
    cls: ls.HypothesisClass, points: list[object], limit: int = 400
) -> list[ls.VersionSpace]:
    """States that the learner gets into by learning from mistakes on the points."""
    found = [cls.start()]
    for state in found:
        rule = cls.hypothesis(state)
        for x in points:
            if rule is not None and len(found) < limit:
                after = cls.learn(state, x, not rule(x))
                if after not in found:
                    found.append(after)
    return found


def test_no_adversary_forces_more_mistakes_than_the_bound(case: Case) -> None:
    """Every realizable play on the points, searched whole: states and targets left."""
    cls, points = case
    labels = [[rule(x) for x in points] for rule in targets(cls, points)]
    worst: dict[tuple[ls.VersionSpace, frozenset[int]], int] = {}

    def most(state: ls.VersionSpace, left: frozenset[int]) -> int:
        if (state, left) not in worst:
            rule = rule_of(cls, state)
            best = 0
            for at, x in enumerate(points):
                wrong = frozenset(i for i in left if labels[i][at] != rule(x))
                if wrong:
                    best = max(best, 1 + most(cls.learn(state, x, not rule(x)), wrong))
            worst[state, left] = best
        return worst[state, left]

    worst_play = most(cls.start(), frozenset(range(len(labels))))
    assert worst_play <= cls.mistake_bound
    if not isinstance(cls, ls.Union):
        assert worst_play >= cls.dimension, "an adversary can always force the dimension"


def test_a_mistake_is_put_right_at_once(case: Case) -> None:
    cls, points = case
    for state in reachable(cls, points):
        rule = cls.hypothesis(state)
        for x in points if rule else []:
            assert rule is not None
            after = cls.hypothesis(cls.learn(state, x, not rule(x)))
            assert after is None or after(x) != rule(x)


def test_none_exactly_when_no_rule_fits_the_mistakes(case: Case) -> None:
    cls, points = case
    rules = targets(cls, points)
    draw = random.Random(1)
    for _ in range(300):
        state, shown = cls.start(), list[tuple[object, bool]]()
        while (rule := cls.hypothesis(state)) is not None and len(shown) < 20:
            x = draw.choice(points)
            shown.append((x, not rule(x)))
            state = cls.learn(state, *shown[-1])
            fits = any(all(r(x) == y for x, y in shown) for r in rules)
            late = isinstance(cls, ls.Union) and not fits
            assert fits == (cls.hypothesis(state) is not None) or late


def test_none_is_for_ever(case: Case) -> None:
    cls, points = case
    for x in points:
        assert cls.hypothesis(cls.learn(ls.INCONSISTENT, x, 1)) is None
        assert cls.hypothesis(cls.learn(ls.INCONSISTENT, x, 0)) is None
    assert cls.hypothesis(ls.INCONSISTENT) is None


def test_a_restarted_learner_begins_with_the_published_rule_and_stays_bounded(case: Case) -> None:
    cls, points = case
    for published in targets(cls, points)[:12]:
        restarted = cls.restart(published)
        offered = published if offers_restart(cls, published) else rule_of(cls, cls.start())
        assert rule_of(cls, restarted) == offered
        for truth in targets(cls, points)[:12]:
            state, mistakes = restarted, 0
            for _ in range(4):
                for x in points:
                    rule = rule_of(cls, state)
                    if rule(x) != truth(x):
                        state, mistakes = cls.learn(state, x, truth(x)), mistakes + 1
            assert mistakes <= 2 * cls.mistake_bound + 1
            assert all(rule_of(cls, state)(x) == truth(x) for x in points)


def offers_restart(cls: ls.HypothesisClass, rule: ls.Hypothesis) -> bool:
    inner = cls.of if isinstance(cls, ls.Complement) else cls
    if isinstance(inner, ls.Conjunctions):
        # Without negation `never` has no literals to start from: it starts as at first.
        return inner.negation or rule != NEVER
    families = ls.Sets | ls.Rules | ls.Causes | ls.Thresholds | ls.Bins | ls.Intervals
    return isinstance(inner, families)


def test_a_restarted_learner_is_none_exactly_when_no_rule_fits(case: Case) -> None:
    cls, points = case
    rules = targets(cls, points)
    draw = random.Random(2)
    for published in [rule for rule in rules[:8] if offers_restart(cls, rule)]:
        for _ in range(60):
            state, shown = cls.restart(published), list[tuple[object, bool]]()
            while (rule := cls.hypothesis(state)) is not None and len(shown) < 20:
                x = draw.choice(points)
                shown.append((x, not rule(x)))
                state = cls.learn(state, *shown[-1])
                fits = any(all(r(x) == y for x, y in shown) for r in rules)
                assert fits == (cls.hypothesis(state) is not None)


def test_a_foreign_rule_is_no_restart(case: Case) -> None:
    cls, _ = case
    for foreign in (ls.one_of(range(9), "nothing"), ls.steps(True, [1, 2, 3, 4], "nothing")):
        assert cls.restart(foreign) == cls.start()


def test_rules_are_canonical(case: Case) -> None:
    cls, points = case
    by_function: dict[tuple[bool, ...], ls.Hypothesis] = {}
    for state in reachable(cls, points):
        rule = cls.hypothesis(state)
        if rule is None:
            continue
        again = ls.rule_from_json(json.loads(json.dumps(rule.to_json())))
        assert again == rule
        assert (hash(again), str(again), again.key) == (hash(rule), str(rule), rule.key)
        twin = by_function.setdefault(tuple(map(rule, points)), rule)
        told_apart = not isinstance(cls, ls.Union)
        assert twin == rule or not told_apart, "two keys for one function on the points"
        assert "State" not in str(rule)
        assert "object at" not in str(rule)


def test_different_rules_have_a_disagreement(case: Case) -> None:
    cls, points = case
    rules = list({cls.hypothesis(state) for state in reachable(cls, points)} - {None})
    for one in rules[:25]:
        for other in rules[:25]:
            if one is not None and other is not None and one != other:
                x = cls.disagreement(one, other)
                assert one(x) != other(x)
                cls.check(x)


def test_rules_of_different_members_are_told_apart() -> None:
    mixed = ls.Union(ls.Thresholds(0, 4, 1, "c"), ls.Conjunctions(list("abc")))
    x = mixed.disagreement(ls.between(3, None, "c"), ls.all_of([("c", True)]))
    assert x == {"a": True, "b": True, "c": 1}
    wide = ls.Union(ls.Rules([f"c{n}" for n in range(16)], guess="majority"), ls.Points("c0"))
    votes = [ls.at_least(9, [(f"c{n}", value) for n in range(16)]) for value in (1, 2)]
    mixed.check(x)
    wide.check(wide.disagreement(*votes))


def test_a_union_teaches_its_members_their_own_mistakes_only() -> None:
    """A member that was right would take the example for a contradiction."""
    either = ls.Union(ls.Points("a"), ls.Conjunctions(["a", "b"]))
    state = either.learn(either.start(), {"a": True, "b": True}, 1)
    assert str(either.hypothesis(state)) == "a = 'True'"
    state = either.learn(state, {"a": True, "b": False}, 0)
    assert str(either.hypothesis(state)) == "a and b"


def batches(points: list[object]) -> dict[str, Any]:
    """The same batch in each shape that a user may bring."""
    if not isinstance(points[0], dict):
        return {"list": points, "objects": np.fromiter(points, dtype=object)}
    names = list(points[0])
    rows: Any = points
    columns = {name: np.fromiter((row[name] for row in rows), dtype=object) for name in names}
    shapes: dict[str, Any] = {"rows": points, "columns": columns}
    if all(isinstance(value, int) for row in rows for value in row.values()):
        shapes["arrays"] = {name: np.array([row[name] for row in rows]) for name in names}
    return shapes


def test_a_batch_is_its_examples(case: Case) -> None:
    cls, points = case
    for state in reachable(cls, points, limit=60):
        rule = cls.hypothesis(state)
        for shape, batch in batches(points).items() if rule else []:
            assert rule is not None
            said = cls.predict(rule, batch)
            assert said.dtype == bool, shape
            assert said.tolist() == [rule(x) for x in points], shape


def test_a_batch_is_readable_where_its_rows_are(case: Case) -> None:
    cls, points = case
    rubbish: list[object] = ["rubbish", [1], None, float("nan"), 1 << 5000, 7, True]
    odd: list[object] = rubbish
    if isinstance(points[0], dict):
        odd = [{**points[0], name: value} for name in points[0] for value in rubbish]
    rows = [*points, *odd]
    expected = []
    for x in rows:
        try:
            cls.check(x)
            expected.append(True)
        except ls.BadExample:
            expected.append(False)
    assert cls.readable(as_batch(rows)).tolist() == expected
    assert all(expected[: len(points)])


def test_dimension_bound_and_witness_agree(case: Case) -> None:
    cls, _ = case
    if isinstance(cls, ls.Union) and cls.size is None:
        with pytest.raises(ls.TooLarge, match="where every member is finite"):
            ls.dimension(cls)
        return
    depth = ls.dimension(cls)
    assert 1 <= depth <= cls.mistake_bound
    assert ls.shattered_depth(ls.witness(cls)) == depth


def test_members_are_members(case: Case) -> None:
    cls, points = case
    assert all(rule in cls for rule in targets(cls, points))
    assert ls.one_of(["nowhere"], "nothing") not in cls
    assert "a string" not in cls


def test_a_state_never_prints(case: Case) -> None:
    cls, points = case
    for state in reachable(cls, points, limit=20):
        assert str(state) == repr(state) == "VersionSpace(private)"
        assert f"{[state]}" == "[VersionSpace(private)]"


def test_classes_are_values(case: Case) -> None:
    cls, _ = case
    assert copy.deepcopy(cls).start() == cls.start()


def test_rubbish_gets_a_sentence(case: Case) -> None:
    cls, points = case
    for rubbish in (["a", "list"], {"unhashable"}, {}, object(), np.datetime64("2026-01-01")):
        with pytest.raises(ls.BadExample, match=r"\w+ \w+"):
            cls.learn(cls.start(), rubbish, 1)
    with pytest.raises(ls.BadExample, match="label 'yes' is not 0 or 1"):
        cls.learn(cls.start(), points[0], "yes")
