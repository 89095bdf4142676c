"""CONTRIBUTING.md's steps: what it shows how to add is added as it stands there, and works.

Its class is one of `classes.CASES`, on which the contract suite runs.
"""

import gzip
import json
import re
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import littlestone as ls
from contributing import example
from littlestone._audit.enumeration import Finding, Law, transcripts, worst
from littlestone._audit.gates import OLD, VOTES, A, Stream, neighbouring_laws, voting
from littlestone._cli.verbs import app
from littlestone._data import readers
from littlestone._learners.registry import LEARNERS, learner_names
from littlestone._privacy.accounting import Cost
from littlestone._privacy.gates import Gate
from littlestone._privacy.noise import Noise, SystemNoise
from littlestone._privacy.schedules import Climbing


@pytest.fixture
def contributed() -> Iterator[str]:
    """The learner, registered."""
    before = dict(LEARNERS)
    example("a learner")
    (name,) = set(LEARNERS) - set(before)
    yield name
    LEARNERS.clear()
    LEARNERS.update(before)


def invoked(*arguments: object) -> str:
    done = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert done.exit_code == 0, (done.output, done.exception)
    return done.stdout


def test_a_contributed_learner_runs_in_learn_plan_and_compare(
    contributed: str, tmp_path: Path
) -> None:
    assert contributed in learner_names()
    events = tmp_path / "events.csv"
    events.write_text("x,y\n" + "".join(f"{n % 10},{int(n % 10 >= 7)}\n" for n in range(400)))
    spec = "thresholds:x:0:9"
    asked = ["learn", events, "--class", spec, "--label", "y", "--learner", contributed]
    for more in ([], ["--db", tmp_path / "run.db"], ["--db", tmp_path / "run.db"]):
        public = json.loads(invoked(*asked, *more, "--epsilon", 4, "--json"))["public"]
        assert (public["learner"], public["rounds"]) == ("EagerExperts", 400)
        assert len(public["releases"]) > 1
    assert "EagerExperts" in invoked("show", tmp_path / "run.db")
    plans = [
        json.loads(invoked("plan", spec, "--horizon", 400, "--learner", name, "--json"))
        for name in (contributed, "experts")
    ]
    assert plans[0]["learner"] == "EagerExperts"
    assert plans[0]["plan"]["threshold"] == plans[1]["plan"]["threshold"] // 2

    table = invoked(
        "compare", "--class", spec, "--learners", f"{contributed},soa", "--streams", "iid",
        "--rounds", 300, "--seeds", 1,
    )  # fmt: skip
    assert re.search(rf"iid +300 +1 {contributed} +\d", table), table


@pytest.fixture
def logfmt(monkeypatch: pytest.MonkeyPatch) -> None:
    """The entrance, registered."""
    for name in ("FORMATS", "LINE_FORMATS"):
        monkeypatch.setattr(readers, name, dict(getattr(readers, name)))
    example("an entrance")


@pytest.mark.usefixtures("logfmt")
def test_a_contributed_entrance_is_learned_gone_on_with_and_described(tmp_path: Path) -> None:
    rows = [{"merchant": f"M{n % 7}", "fraud": int(n % 7 == 3)} for n in range(300)]
    lines = [f"merchant={row['merchant']} fraud={row['fraud']}" for row in rows]
    lines[40], lines[41] = "merchant=M3", ""
    by_line, by_object = tmp_path / "events.logfmt", tmp_path / "events.jsonl"
    objects = [json.dumps(row) for row in rows]
    objects[40], objects[41] = '{"merchant": "M3"}', "{}"
    by_object.write_text("\n".join([*objects, ""]))
    with ls.open_rows(by_object, ls.Points("merchant"), label="fraud") as reader:
        (expected,) = reader
    for path, data in (
        (by_line, "\n".join([*lines, ""]).encode()),
        (tmp_path / "events.logfmt.gz", gzip.compress("\n".join([*lines, ""]).encode())),
    ):
        path.write_bytes(data)
        with ls.open_rows(path, ls.Points("merchant"), label="fraud") as reader:
            (block,) = reader
            assert reader.length == 300
        assert block.sums() == expected.sums()
        assert [bad.line for bad in block.bad] == [41, 42]

    asked = ["--class", "points:merchant", "--label", "fraud", "--horizon", 300, "--delta", 1e-6]
    for count in (100, 100, 300):
        by_line.write_text("\n".join([*lines[:count], ""]))
        learned = json.loads(
            invoked("learn", by_line, *asked, "--db", tmp_path / "run.db", "--json")
        )
        assert learned["public"]["rounds"] == count
    same = json.loads(invoked("learn", by_object, "--db", tmp_path / "run.db", "--json"))
    assert same["public"]["rounds"] == 300, "the same rows in another format"
    assert "the keys of its first line" in invoked("init", by_line)


def audited(draw: Any, rounds: int = 3) -> Finding:
    """Enumerate a gate with a draw on every pair of neighbouring streams of a few rounds."""

    def gate(noise: Noise) -> Gate[Any]:
        climbing = Climbing(lambda ages, refusals: 1 + refusals)
        return Gate(noise, epsilon=1, schedule=climbing, draw=draw, published=OLD)

    def law_of(rows: Stream) -> Law:
        return transcripts(gate, voting(rows, settles=False), rounds)

    pairs = neighbouring_laws(law_of, VOTES, rounds)
    return worst("gate", f"{rounds} rounds", gate(SystemNoise()).total, pairs)


def test_a_contributed_draw_keeps_its_claim_and_one_with_less_noise_does_not() -> None:
    draw = example("a draw")["Alarm"](A, epsilon=2, threshold=2)
    finding = audited(draw)
    assert finding.claim == Cost(Fraction(3))
    assert finding.kept
    assert finding.share > 0.6, "the neighbours come close to the claim"
    draw.scale /= 4
    assert not audited(draw).kept
