"""The registry of learners: every entrance makes the same learner, and an entry tells the truth."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import littlestone as ls
from littlestone._audit.audit import AuditTarget
from littlestone._classes.specs import parse_spec
from littlestone._learners.registry import (
    LEARNERS,
    Terms,
    choose,
    learner_choice_from_json,
    make_learner,
)
from littlestone._privacy.parameters import BadParameter
from littlestone._store.request import LearnRequest, choose_learner
from littlestone._store.store import create, open_store

pytestmark = pytest.mark.filterwarnings("ignore:delta")

EPSILON, DELTA, HORIZON, SEED = 2.0, 1e-6, 500, 3
SPECS = {"points:x": "dpsoa", "thresholds:x:0:9": "experts"}
PRIVATE = [name for name, entry in LEARNERS.items() if entry.private]


def terms(cls: ls.HypothesisClass, **more: Any) -> Terms:
    return Terms(cls=cls, epsilon=EPSILON, delta=DELTA, horizon=HORIZON, **more)


def request(spec: str, learner: str = "auto", **more: Any) -> LearnRequest:
    return LearnRequest(
        spec=spec, label="y", epsilon=EPSILON, delta=DELTA, learner=learner, seed=SEED, **more
    )


def through_store(spec: str, path: Path) -> Any:
    asked = request(spec)
    create(path, asked, choose_learner(asked, HORIZON)).close()
    with open_store(path) as store:
        return store.learner


def through_sklearn(spec: str, path: Path) -> Any:
    sklearn = pytest.importorskip("littlestone.sklearn")
    cls = parse_spec(spec.replace(":x", ":x0"))
    model = sklearn.PrivateClassifier(cls, EPSILON, DELTA, HORIZON, seed=SEED)
    return model.fit([[1], [2]], [0, 1]).learner_


def through_river(spec: str, path: Path) -> Any:
    river = pytest.importorskip("littlestone.river")
    cls = parse_spec(spec)
    return river.PrivateClassifier(cls, EPSILON, DELTA, HORIZON, seed=SEED).learner_


def through_audit(spec: str, path: Path) -> Any:
    plan: Any = choose_learner(request(spec, SPECS[spec]), HORIZON).plan
    return AuditTarget(SPECS[spec], parse_spec(spec), plan, SEED)()


ENTRANCES: dict[str, Callable[[str, Path], Any]] = {
    "learn": lambda spec, path: choose_learner(request(spec), HORIZON).make(parse_spec(spec), SEED),
    "learn by name": lambda spec, path: choose_learner(request(spec, SPECS[spec]), HORIZON).make(
        parse_spec(spec), SEED
    ),
    "store": through_store,
    "compare": lambda spec, path: make_learner("auto", terms(parse_spec(spec)), seed=SEED),
    "compare by name": lambda spec, path: make_learner(
        SPECS[spec], terms(parse_spec(spec)), seed=SEED
    ),
    "audit": through_audit,
    "scikit-learn": through_sklearn,
    "River": through_river,
}


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("entrance", ENTRANCES)
def test_every_entrance_makes_the_same_learner(entrance: str, spec: str, tmp_path: Path) -> None:
    cls = parse_spec(spec)
    expected = ls.recommend(cls, EPSILON, DELTA, HORIZON).make()
    made = ENTRANCES[entrance](spec, tmp_path / "run.db")
    assert type(made) is type(expected)
    plans = [learner.plan.to_json() for learner in (made, expected)]
    for plan in plans:
        plan.pop("made_for", None)  # scikit-learn's column has another name
    assert plans[0] == plans[1]
    own = expected.releases[0].rule
    assert str(made.releases[0].rule).replace("x0", "x") == str(own)
    assert own == cls.hypothesis(cls.start())
    if SPECS[spec] == "experts":
        drawn = ls.PrivateExperts(cls, EPSILON, HORIZON, first="drawn", seed=SEED)
        assert drawn.hypothesis != own, "with this seed the test could not fail"


@pytest.mark.parametrize("name", PRIVATE)
def test_an_entry_tells_the_truth(name: str, tmp_path: Path) -> None:
    entry, spec = LEARNERS[name], "causes:x" if name == "causes" else "thresholds:x:0:9"
    cls = parse_spec(spec)
    chosen = choose(terms(cls, learner=name))
    assert learner_choice_from_json(json.loads(json.dumps(chosen.to_json()))) == chosen
    made = chosen.make(cls, SEED, watched=True)
    assert type(made) is entry.learner
    assert (made.guarantee.delta > 0) == ("delta" in entry.takes)
    for asked, taken in (
        ({"unit": "user", "cap": 2}, "unit" in entry.takes),
        ({"change_cost": 7}, "change_cost" in entry.takes),
    ):
        if taken:
            assert choose(terms(cls, learner=name, **asked)).plan != chosen.plan
        else:
            with pytest.raises(BadParameter, match=f"{name} "):
                choose(terms(cls, learner=name, **asked))
    begin = request(spec, name)
    create(tmp_path / "run.db", begin, chosen).close()


@pytest.mark.parametrize("name", PRIVATE)
def test_an_entry_knows_which_classes_its_learner_takes(name: str) -> None:
    for cls in (ls.Points("x"), ls.Thresholds(0, 9, column="x"), ls.Causes(["x"], limit=1)):
        if LEARNERS[name].unsupported(cls) is None:
            make_learner(name, terms(cls), seed=SEED)
        else:
            with pytest.raises((ls.TooLarge, ls.BadClass)):
                make_learner(name, terms(cls), seed=SEED)


def test_what_has_no_plan_is_not_private_and_is_not_planned_for() -> None:
    cls = ls.Thresholds(0, 9)
    for name in set(LEARNERS) - set(PRIVATE):
        assert make_learner(name, terms(cls)).guarantee.epsilon == float("inf")
        with pytest.raises(BadParameter, match=f"no learner is called '{name}'"):
            choose(terms(cls, learner=name))
    with pytest.raises(BadParameter, match="no learner is called 'oracle': there are auto, dpsoa"):
        make_learner("oracle", terms(cls))
    with pytest.raises(BadParameter, match="no private learner is called 'SOA'"):
        learner_choice_from_json({"learner": "SOA", "plan": {}, "why": ""})
