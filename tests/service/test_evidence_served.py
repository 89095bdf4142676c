"""The evidence for causes: public, as it was committed, and post-processing of released counts."""

import json
import re
import sqlite3
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from incidents import CAUSE, CAUSES, evidence_of, incident, with_evidence
from littlestone._hypotheses.causes import causes_of
from littlestone._learners.causes import PrivateCauses
from littlestone._learners.evidence import (
    estimate_base,
    summarize_causes,
    window_from_json,
)
from littlestone._learners.evidence import evidence_of as estimate_evidence
from littlestone._service.tokens import Role
from littlestone._store.store import Published, read_store
from running_service import Running, bearing, begun, block_of, events, running

ROLES: list[Role | None] = [None, "feeder", "operator"]
FIGURES = (
    "counted_from", "counted_to", "events", "events_low", "events_high", "positives", "rate", "low",
    "high", "base_rate", "lift"
)  # fmt: skip


def test_everybody_reads_the_evidence_that_was_committed(tmp_path: Path) -> None:
    with running(tmp_path / "run.db", task=CAUSES) as served:
        empty = evidence_of(served)
        assert (empty["label"], empty["rate_to_beat"], empty["causes"]) == ("failed", 0.2, [])
        assert empty["base_rate"] is None
        found = with_evidence(served)
        answers = [served.get("/evidence", role).json() for role in ROLES]
        assert answers[0] == answers[1] == answers[2]

        assert found["cause"] == CAUSE
        assert found["conditions"] == [{"column": "version", "value": "4.2.1"}]
        assert found["low"] < found["rate"] < found["high"]
        assert found["base_rate"] < found["low"], "5 % of the others fail, and 60 % of its events"
        assert found["lift"] == pytest.approx(found["rate"] / found["base_rate"])
        assert abs(found["rate"] - 0.6) < 0.25
        rule = served.get("/hypothesis").json()
        told = served.get("/guarantee").json()
        assert rule["label"] == told["label"] == told["label_words"] == "failed"
        assert rule["causes"] == [found]
        assert (found["since"], found["spans"]) == (rule["round"], [[rule["round"], None]])
        assert found["counted_from"] == found["since"], "a window ends where a rule begins"

        committed = read_store(served.path)
        assert committed.published.evidence is not None
        assert {"label": "failed"} | committed.published.evidence == answers[0]


def test_outcomes_are_fed_and_their_causes_served(tmp_path: Path) -> None:
    task = replace(CAUSES, label="outcome", negative=["ok"])
    with running(tmp_path / "run.db", task=task) as served:
        for seed in range(12):
            rows = incident(1000, seed)
            for row in rows:
                row["outcome"] = "timeout" if row.pop("failed") else "ok"
            assert served.feed(rows).status_code == 200
        (found,) = evidence_of(served)["causes"]
        assert found["cause"] == "timeout when version = '4.2.1'"
        assert found["outcome"] == "timeout"
        assert found["conditions"] == [{"column": "version", "value": "4.2.1"}]
        assert served.get("/guarantee").json()["label_words"] == "outcome"
        rule = served.get("/hypothesis").json()
        assert rule["sentence"] == found["cause"]
        assert rule["rule"]["causes"][0]["outcome"] == "timeout"
        # A row with a missing label is a bad one, and keeps its place.
        assert served.feed([{"version": "4.2.1", "country": "SE", "outcome": None}]).json()
        asked = [{"version": version, "country": "SE"} for version in ("4.2.1", "4.2.0")]
        predicted = served.client.post("/predict", json=asked).json()
        assert predicted["predictions"] == ["timeout", "ok"]
        schema = served.get("/openapi.json").json()["components"]["schemas"]["LabelledRow"]
        assert schema["example"]["outcome"] == "ok"


def test_every_figure_follows_from_released_counts(tmp_path: Path) -> None:
    """Nothing is read from the private side: the released windows and rules give all of it."""
    with running(tmp_path / "run.db", task=CAUSES) as served:
        with_evidence(served)
        told, saved = evidence_of(served), read_store(served.path).saved
        inside = served.get("/private/trace", "operator").json()
        public = [served.get(path).text for path in ("/evidence", "/hypothesis", "/guarantee")]
    windows = [window_from_json(window) for window in saved.state["loop"]["windows"]]
    standing = causes_of(saved.releases[-1].rule)
    estimated = estimate_evidence(windows, standing)
    summed = [one.to_json() for one in summarize_causes(saved.releases, estimated)]
    assert told["causes"] == json.loads(json.dumps(summed))
    assert told["base_rate"] == estimate_base(windows).rate
    assert told["counted_to"] == windows[-1].stop
    assert inside["missed"] == saved.state["loop"]["missed"]
    assert 0 < inside["missed"] < inside["mistakes"]
    for name in ("mistakes", "missed", "votes", "null_rounds", "ledger", "alone", "cells"):
        assert not re.search(rf'"{name}"', "".join(public)), name


def test_a_value_that_never_wins_is_in_no_public_answer(tmp_path: Path) -> None:
    canary = "canary-2214"
    rows = [{"version": canary, "country": canary, "failed": 1}] * 2
    with running(tmp_path / "run.db", task=CAUSES) as served, served.watching() as heard:
        for _ in range(2):
            assert served.feed(rows).status_code == 200
        with_evidence(served)
        paths = ("/evidence", "/hypothesis", "/releases", "/guarantee", "/openapi.json", "/")
        told = [served.get(path).text for path in paths]
        while '"evidence"' not in told[-1] or CAUSE not in told[-1]:
            told.append(json.dumps(next(heard)))
        assert CAUSE in told[0]
        assert canary not in "".join(told)


def test_what_is_not_committed_is_not_published(tmp_path: Path) -> None:
    """Theorem 12: a learner that is ahead of its file has drawn noise that nobody may see."""
    with begun(tmp_path / "run.db", CAUSES) as store:
        learner = store.learner
        assert isinstance(learner, PrivateCauses)
        store.learn(block_of(store, incident(5000, 1)))
        before = store.published
        assert before.evidence == read_store(store.path).published.evidence
        kept = json.dumps(before.evidence)
        block = block_of(store, incident(9000, 2))
        learner.learn_many(block.columns, block.labels)
        ahead = summarize_causes(learner.releases, learner.evidence)
        assert learner.windows[-1].stop > before.evidence["counted_to"], "it is ahead"  # type: ignore[index]
        assert json.dumps([one.to_json() for one in ahead]) not in kept
        assert json.dumps(store.published.evidence) == kept
        assert json.dumps(read_store(store.path).published.evidence) == kept


def test_a_failed_commit_publishes_no_evidence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ahead: list[int] = []
    store = begun(tmp_path / "run.db", CAUSES)

    def fail(**more: object) -> None:
        assert isinstance(store.learner, PrivateCauses)
        ahead.append(store.learner.windows[-1].stop)
        raise sqlite3.OperationalError("disk I/O error")

    with running(tmp_path / "run.db", store=store) as served:
        with_evidence(served)
        before, released = evidence_of(served), served.get("/releases").json()
        monkeypatch.setattr(store._seal, "write", fail)
        # More rounds than the longest window, so the learner in memory released counts.
        rows = incident(8000, 7)
        assert served.feed(rows, key="b").status_code == 503
        assert ahead[0] > before["counted_to"]
        assert evidence_of(served) == before
        assert served.get("/releases").json()["total"] == released["total"]
        assert served.feed(rows, key="b").status_code == 200, "the file was opened again"
        assert evidence_of(served)["counted_to"] > before["counted_to"]


def test_evidence_is_streamed_when_it_is_new_and_only_then(tmp_path: Path) -> None:
    with running(tmp_path / "run.db", task=CAUSES) as served, served.watching() as heard:
        first, second = next(heard), next(heard)
        assert (first[0], second[0]) == ("evidence", "rounds")
        assert first[2] == evidence_of(served)
        assert second[1], "the id goes with the rounds"
        assert first[1] == ""
        for _ in range(3):  # no window ends in these rounds
            served.feed(incident(2, 5))
            assert next(heard)[0] == "rounds"
        with_evidence(served)
        final, last, names = evidence_of(served), first[2], list[str]()
        while last != final:
            name, _, data = next(heard)
            names.append(name)
            last = data if name == "evidence" else last
        assert "release" in names
        assert next(heard)[0] == "rounds", "whoever closes at the rounds has the evidence"


def test_other_learners_have_no_evidence_and_send_none(tmp_path: Path) -> None:
    with running(tmp_path / "run.db") as served, served.watching() as heard:
        told = evidence_of(served)
        assert (told["label"], told["causes"], told["rate_to_beat"]) == ("fraud", None, None)
        assert served.get("/hypothesis").json()["causes"] is None
        assert served.get("/private/trace", "operator").json()["missed"] is None
        served.feed(events(3))
        assert [next(heard)[0] for _ in range(2)] == ["rounds", "rounds"]


def test_a_cause_without_counts_yet_is_there_without_figures(tmp_path: Path) -> None:
    with begun(tmp_path / "run.db", CAUSES) as store:
        learner = store.learner
        assert isinstance(learner, PrivateCauses)
        for seed in range(4000):
            if len(learner.releases) > 1:
                break
            store.learn(block_of(store, incident(8, seed)))
        assert store.published.evidence is not None
        (found,) = store.published.evidence["causes"]
        assert (found["cause"], found["standing"]) == (CAUSE, True)
        assert all(found[name] is None for name in FIGURES)
        with running(store.path, store=store) as served:
            assert evidence_of(served)["causes"] == [found]


def test_a_restart_keeps_the_evidence_and_a_file_of_before_has_none(tmp_path: Path) -> None:
    with running(tmp_path / "run.db", task=CAUSES) as served:
        with_evidence(served)
        before = evidence_of(served)
    with running(tmp_path / "run.db") as served:
        assert evidence_of(served) == before
    public: dict[str, Any] = {"rounds": 1, "guarantee": "g", "spent": "s", "final": None}
    assert Published(**public, releases=()).evidence is None


def test_windows_have_the_time_at_which_their_rows_arrived(tmp_path: Path) -> None:
    begun_at = datetime.now(UTC).replace(microsecond=0)
    with running(tmp_path / "run.db", task=CAUSES) as served:
        with_evidence(served)
        feed_until_told(served)
        page = evidence_of(served)["over_time"]
        explained = served.get("/guarantee").json()["guarantee"]
    windows = read_store(tmp_path / "run.db").published.windows
    times = [datetime.fromisoformat(window.time or "") for window in windows]
    assert begun_at <= times[0] <= times[-1] <= datetime.now(UTC)
    if times[0] < times[-1]:
        assert (page["from"][:4], page["from"][-3:]) == (str(begun_at.year), "UTC")
    (line,) = page["lines"]
    assert line["cause"] == CAUSE
    assert "events before round" in line["words"]
    assert all(
        low <= rate <= high for _, _, rate, low, high, _ in line["points"] if rate is not None
    )
    assert "not protected" not in explained, "when rows arrive is public anyway"


def feed_until_told(served: Running) -> None:
    """Feed until the counts of a second window tell how the rate went."""
    for seed in range(60, 100):
        if evidence_of(served)["over_time"] is not None:
            return
        assert served.feed(incident(1000, seed)).status_code == 200
    raise AssertionError("one window only")


def test_rows_with_times_of_their_own_are_no_worse_for_one_that_cannot_be_read(
    tmp_path: Path,
) -> None:
    task = replace(CAUSES, time="at")
    times: list[Any] = ["1987-03-14T15:09:26.5+01:00", None, "soon", 1e300, [], {"a": 1}]
    with running(tmp_path / "run.db", task=task) as served:
        for seed in range(6):
            rows = incident(1000, seed)
            for n, row in enumerate(rows):
                # Windows end at checks, of which there is one every 8 rounds.
                row["at"] = times[n % len(times) if (n + 1) % 8 else 0]
                if n % 8 == 3:
                    del row["at"]
            body = json.dumps(rows).replace("1e+300", "1e999")
            answer = served.client.post(
                "/rounds",
                content=body,
                headers=bearing("feeder", **{"Content-Type": "application/json"}),
            )
            assert answer.status_code == 200, "no row of it is null"
        assert "the times in 'at' are not protected" in served.get("/guarantee").json()["guarantee"]
    windows = read_store(tmp_path / "run.db").published.windows
    assert {window.time for window in windows} == {"1987-03-14T14:09:26+00:00"}
