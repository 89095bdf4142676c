"""Classes as JSON data: what is read back is the class that was written, in every value's type."""

import json
from pathlib import Path

import pytest

import littlestone as ls
from classes import CASES
from littlestone._classes.finite import explicit
from littlestone._classes.specs import class_from_json, class_to_json, parse_spec, same_class
from littlestone.errors import BadClass

SPECS = ["points:m", "sets:m:3", "rules:a,b\\,c", "thresholds:s:0:100:5", "thresholds:s:0.5:2:0.25",
         "intervals:s:-3:9", "conjunctions:a,b", "table:table.csv",
         "causes:a,b=@values.txt,age@18/30:2"]  # fmt: skip
MORE: dict[str, ls.HypothesisClass] = {
    "points of every type": ls.FiniteClass(
        [[0, 1] * 4, [1, 0] * 4],
        ["1", 2.5, None, b"\xff", float("nan"), float("inf"), (1, ("a",)), 10**30],
    ),
    "a table on a grid": explicit(ls.Thresholds(0, 1, 0.25, "s"), "halving"),
    "a table on edges": explicit(ls.Bins([0.1, 5], "s"), "first"),
    "nested": ls.Complement(ls.Union(ls.Complement(ls.Sets(2, "m")), ls.Points("m"))),
}


def again(cls: ls.HypothesisClass) -> ls.HypothesisClass:
    return class_from_json(json.loads(json.dumps(class_to_json(cls), allow_nan=False)))


@pytest.mark.parametrize("name", [*CASES, *MORE])
def test_a_class_is_read_back_as_it_was(name: str) -> None:
    cls = MORE[name] if name in MORE else CASES[name][0]
    if name == "contributed":
        with pytest.raises(BadClass, match="cannot be written to a file"):
            class_to_json(cls)
        return
    found = again(cls)
    assert type(found) is type(cls)
    assert same_class(found, cls)
    assert repr(found) == repr(cls)
    assert found.hypothesis(found.start()) == cls.hypothesis(cls.start())
    if cls.size is not None and cls.size < 100:
        assert list(found.hypotheses()) == list(cls.hypotheses())
    others = (other for other in CASES if other not in ("contributed", name))
    assert not any(same_class(found, CASES[other][0]) for other in others)


@pytest.mark.parametrize("spec", SPECS)
def test_every_specification_can_be_kept(
    spec: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "table.csv").write_text("m,a,b\nfirst,1,0\nsecond,0,1\n")
    (tmp_path / "values.txt").write_text("SE\n\nNO\r\n")
    assert again(parse_spec(spec)) == parse_spec(spec)
    assert same_class(again(parse_spec(spec)), parse_spec(spec))


def test_declared_values_are_part_of_a_class(tmp_path: Path) -> None:
    (tmp_path / "b.txt").write_text("SE\nNO\n\nSE")
    (tmp_path / "more.csv").write_text('\ufeffcolumn,value\na,4.2\na,"4,3"\n')
    cls = parse_spec(f"causes:a,b=@{tmp_path}/b.txt", ["ok"], tmp_path / "more.csv")
    expected = {"a": ["4.2", "4,3"], "b": ["SE", "NO"]}
    assert cls == ls.Causes(["a", "b"], normal=["ok"], values=expected)
    assert cls != ls.Causes(["a", "b"], normal=["ok"], values={"b": ["SE", "NO"]})
    other = ls.Causes(["a", "b"], normal=["ok"], values=expected | {"b": ["SE", "DK"]})
    assert not same_class(cls, other)
    assert repr(cls) != repr(other), "a plan is made for one of them"


def test_classes_are_the_same_by_what_they_are() -> None:
    assert same_class(ls.Thresholds(0, 10), ls.Thresholds(0.0, 10.0, 1.0))
    assert not same_class(ls.Points("m"), ls.Sets(1, "m"))
    rows = [[0, 1], [1, 0]]
    assert not same_class(ls.FiniteClass(rows, ["01", 2]), ls.FiniteClass(rows, [1, 2]))
    assert not same_class(ls.FiniteClass(rows), ls.FiniteClass(rows[::-1]))


def test_a_class_of_a_subclass_is_not_taken_for_its_base() -> None:
    class Mine(ls.Sets):
        """A family of a user's own."""

    with pytest.raises(BadClass, match="cannot be written to a file"):
        class_to_json(ls.Union(Mine(2), ls.Points()))
    with pytest.raises(BadClass, match="no class is called 'mine'"):
        class_from_json({"kind": "mine"})
