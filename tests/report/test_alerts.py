"""Alerts, against a receiver that listens: what is sent, when, how often, and after kills."""

import hmac
import json
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from killed import forked, kill_at_every_write

from commands import littlestone
from littlestone import open_store, read_store
from littlestone._cli.learn import run
from littlestone._report.alerts import Alerts, destinations_of
from littlestone._report.report import RunResult
from littlestone._store.request import LearnRequest
from running_service import TASK, begun, running, until

KEY = b"a key of more than sixteen characters"


@dataclass
class Receiver:
    """A webhook on a port of its own. `answer` gets each alert and returns a status."""

    answer: Callable[[dict[str, Any]], int] = lambda alert: 200
    taken: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    url: str = ""

    @property
    def ids(self) -> list[str]:
        return [alert["id"] for alert in self.taken]


@contextmanager
def listening(answer: Callable[[dict[str, Any]], int] = lambda alert: 200) -> Iterator[Receiver]:
    receiver = Receiver(answer)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            alert = json.loads(body)
            status = receiver.answer(alert)
            if status == 200:
                receiver.taken.append(alert)
                receiver.bodies.append(body)
                receiver.headers.append(dict(self.headers))
            self.send_response(status)
            if status == 302:
                self.send_header("Location", f"{receiver.url}/elsewhere")
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    receiver.url = f"http://127.0.0.1:{server.server_port}/hook"
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield receiver
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture
def day(tmp_path: Path) -> Path:
    """A version fails from row 3,000 on, and another in its place from row 9,000 on."""
    lines = ["version,failed"]
    for n in range(15_000):
        bad = "4.2" if 3_000 <= n < 9_000 else "4.3" if n >= 9_000 else None
        version = f"4.{n % 5}"
        lines.append(f"{version},{int(version == bad)}")
    path = tmp_path / "day.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def task_of(day: Path, **more: Any) -> LearnRequest:
    asked = LearnRequest(
        source=str(day), spec="causes:version", label="failed", epsilon=2.0, delta=1e-7,
        horizon=15_000, change_cost=0.0, min_rate=0.1,
    )  # fmt: skip
    return replace(asked, **more)


def learned(day: Path, db: Path | None = None, **more: Any) -> RunResult:
    return run(task_of(day, **more), lambda _: None, db)


def test_each_release_is_sent_once_with_its_evidence_and_the_guarantee(
    day: Path, tmp_path: Path
) -> None:
    key, db = tmp_path / "key", tmp_path / "run.db"
    key.write_bytes(KEY + b"\n")
    with listening() as receiver:
        outcome = learned(day, db, on_release=receiver.url, alert_key=key)
        releases = outcome.run.published.releases
        # The first rule is there before any row: it is no news.
        assert len(releases) > 2
        assert receiver.ids == [f"{outcome.run.run}-{n}" for n in range(2, len(releases) + 1)]
        for alert, release in zip(receiver.taken, releases[1:], strict=True):
            assert (alert["round"], alert["rule"]) == (release.round, release.rule.to_json())
            assert alert["guarantee"] == str(outcome.run.published.guarantee)
            assert alert["text"].startswith(f"{alert['sentence']}, from event {release.round:,} on")
        assert receiver.taken[0]["sentence"] == "failed when version = '4.2'"
        assert [one["cause"] for one in receiver.taken[-1]["evidence"]]
        assert set(receiver.taken[-1]) == {
            "id", "text", "round", "sentence", "rule", "base_rate", "evidence", "label", "class",
            "guarantee", "run", "number",
        }  # fmt: skip
        for body, headers in zip(receiver.bodies, receiver.headers, strict=True):
            signed = headers["X-Littlestone-Time"].encode() + b"." + body
            expected = hmac.new(KEY, signed, sha256).hexdigest()
            assert headers["X-Littlestone-Signature"] == f"sha256={expected}"
        before = len(receiver.taken)
        learned(day, db, on_release=receiver.url, alert_key=key)
        assert len(receiver.taken) == before
        # A destination that is new to a store is not told its history.
        learned(day, db, on_release=f"{receiver.url}?another")
        assert len(receiver.taken) == before
    assert db.with_name("run.db.alerts").stat().st_mode & 0o077 == 0


def test_what_is_refused_is_sent_again_and_redirects_are_not_followed(day: Path) -> None:
    answers = iter([500, 302])
    with listening(lambda alert: next(answers, 200)) as receiver:
        outcome = learned(day, on_release=receiver.url)
        assert [alert["number"] for alert in receiver.taken] == list(
            range(2, 1 + len(outcome.run.published.releases))
        )
    assert any("did not take an alert: it answered 500" in note for note in outcome.notes)
    assert not any(receiver.url in note for note in outcome.notes)


def test_slack_gets_text_in_which_values_are_no_mentions(tmp_path: Path) -> None:
    day = tmp_path / "day.csv"
    rows = [f"{'ok' if n % 3 else '<!channel> & co'},{int(n % 3 == 0)}" for n in range(6000)]
    day.write_text("\n".join(["version,failed", *rows]) + "\n")
    with listening() as receiver:
        learned(day, on_release=f"slack+{receiver.url}")
    assert receiver.taken[0].keys() == {"text"}
    assert "'&lt;!channel&gt; &amp; co'" in receiver.taken[0]["text"]


def test_a_command_gets_the_same_on_standard_input(day: Path, tmp_path: Path) -> None:
    script, told = tmp_path / "tell.sh", tmp_path / "told.jsonl"
    script.write_text(f"#!/bin/sh\ncat >> {told}\necho printed\n")
    script.chmod(0o755)
    done = littlestone(
        "learn", day, "--class", "causes:version", "--label", "failed", "--min-rate", 0.1,
        "--change-cost", 0, "--json", "--exec", script,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    releases = json.loads(done.stdout)["public"]["releases"]
    alerts = [json.loads(line) for line in told.read_text().splitlines()]
    assert [alert["round"] for alert in alerts] == [each["round"] for each in releases[1:]]
    assert "printed" in done.stderr


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"on_release": "ftp://host/x"}, "http://..., https://..."),
        ({"command": "no-such-command-here"}, "there is no such command"),
        ({"command": "'open"}, "No closing quotation"),
        ({"alert_key": Path("key")}, "requires --on-release"),
    ],
)
def test_what_cannot_be_used_is_refused_before_anything_is_learned(
    options: dict[str, Any], why: str, day: Path, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=why):
        learned(day, tmp_path / "run.db", **options)
    assert not (tmp_path / "run.db").exists()


@pytest.mark.slow
def test_nothing_is_sent_before_its_commit_and_all_of_it_after_kills(
    day: Path, tmp_path: Path
) -> None:
    """The run is killed at each statement that writes, and at last comes to its end."""
    db, early = tmp_path / "run.db", list[str]()

    def answer(alert: dict[str, Any]) -> int:
        if len(read_store(db).published.releases) < alert["number"]:
            early.append(alert["id"])
        return 200

    with listening(answer) as receiver:
        kills = sum(
            1 for _ in kill_at_every_write(lambda: learned(day, db, on_release=receiver.url))
        )
    stored = read_store(db)
    numbers = range(2, 1 + len(stored.published.releases))
    assert kills > 5
    assert early == []
    assert list(dict.fromkeys(receiver.ids)) == [f"{stored.run}-{number}" for number in numbers]


def test_an_alert_that_was_cut_off_is_sent_again_with_its_id(day: Path, tmp_path: Path) -> None:
    """Killed while it waits for the answer: the same alert comes when the run goes on."""
    db, pid, ids = tmp_path / "run.db", tmp_path / "pid", list[str]()

    def answer(alert: dict[str, Any]) -> int:
        ids.append(alert["id"])
        if len(ids) == 1:
            os.kill(int(pid.read_text()), signal.SIGKILL)
        return 200

    def work() -> None:
        pid.write_text(str(os.getpid()))
        learned(day, db, on_release=receiver.url)

    with listening(answer) as receiver:
        assert not forked(work)
        assert forked(work)
    assert ids[0] == ids[1]
    assert len(set(ids)) == len(ids) - 1 == len(read_store(db).published.releases) - 1


def test_a_service_sends_alerts_and_goes_on_with_them(tmp_path: Path) -> None:
    """The receiver is down at first, and the service stops before it is up again."""
    path, status, warnings = tmp_path / "run.db", [503], list[str]()
    with listening(lambda alert: status[0]) as receiver:
        receivers = destinations_of(replace(TASK, on_release=receiver.url))
        store = begun(path)
        alerts = Alerts(store, receivers, warnings.append)
        with running(path, store=store, alerts=alerts) as service:
            service.feed_until_found()
            until(lambda: bool(warnings))
            alerts.close(0)
        assert "did not take an alert: it answered 503" in warnings[0]
        assert "lacks 1 alerts" in warnings[1]
        status[0] = 200
        store = open_store(path)
        alerts = Alerts(store, receivers, warnings.append)
        with running(path, store=store, alerts=alerts):
            until(lambda: bool(receiver.taken))
    assert [alert["sentence"] for alert in receiver.taken] == ["fraud when merchant = 'M7'"]
