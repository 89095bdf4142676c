"""Several learners in one service: each under its name, one that is damaged beside sound ones."""

import json
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import PIPE

import httpx
import pytest
from fastapi import FastAPI
from starlette.types import ASGIApp, Receive, Scope, Send

from commands import MAIN, littlestone
from littlestone._privacy.parameters import BadParameter
from littlestone._service.app import make_app
from littlestone._service.fleet import Learner, make_fleet, open_folder
from littlestone._service.limits import Limits
from littlestone._service.server import admission, listening_socket, server_for
from littlestone._service.tokens import TokensFile
from littlestone._store.copies import back_up, take_over
from littlestone._store.store import open_store, read_store
from running_service import CULPRIT, QUIET, TASK, begun, events

LIMITS = Limits(rate=1e6)
HOSTILE = "<img src=x onerror=alert(1)>\u202e"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two learners that have begun, and a file that is none."""
    for name in ("logins", "payments"):
        begun(tmp_path / f"{name}.db").close()
    (tmp_path / "broken.db").write_text("no store")
    return tmp_path


def learners_in(folder: Path, limits: Limits = LIMITS) -> list[Learner]:
    return open_folder(
        folder,
        lambda path: TokensFile(path.with_name(f"{path.name}.tokens")),
        lambda path, tokens: make_app(open_store(path), tokens, limits),
    )


@contextmanager
def serving(folder: Path, limits: Limits = LIMITS, below: str = "") -> Iterator[httpx.Client]:
    """The service of a folder; `below` is a path that a proxy in front of it takes off."""
    app: FastAPI = make_fleet(learners_in(folder, limits), limits)
    app.add_middleware(BelowPath, path=below)
    server = server_for(app, admission(limits, stores=3), logs=QUIET)
    with listening_socket("127.0.0.1", 0) as listening:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            while not server.started and thread.is_alive():
                time.sleep(0.01)
            url = f"http://127.0.0.1:{listening.getsockname()[1]}"
            with httpx.Client(base_url=url, timeout=60) as client:
                yield client
        finally:
            server.should_exit = True
            thread.join()


class BelowPath:
    """What `location PATH/ { proxy_pass http://127.0.0.1:8000/; }` does to a request."""

    def __init__(self, app: ASGIApp, path: str) -> None:
        self.app, self.path = app, path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            assert scope["path"].startswith(f"{self.path}/"), "a request that the proxy has not got"
            scope = {**scope, "path": scope["path"].removeprefix(self.path)}
        await self.app(scope, receive, send)


def bearing(folder: Path, name: str, role: str) -> dict[str, str]:
    tokens = json.loads((folder / f"{name}.db.tokens").read_text())
    return {"Authorization": f"Bearer {tokens[role]}"}


def described(client: httpx.Client, headers: dict[str, str] | None = None) -> dict[str, object]:
    found = client.get("/learners", headers=headers or {}).json()["learners"]
    return {one["name"]: one for one in found}


def test_each_learner_has_its_routes_tokens_and_rounds(folder: Path) -> None:
    with serving(folder) as client:
        feeder = bearing(folder, "payments", "feeder")
        sent = client.post("/payments/rounds", json=events(200), headers=feeder)
        assert sent.json() == {"first": 1, "rounds": 200, "null_rounds": 0, "again": False}
        # A token is that of one learner.
        assert client.post("/logins/rounds", json=events(1), headers=feeder).status_code == 401
        assert client.get("/payments/hypothesis").json()["rounds"] == 200
        assert client.get("/logins/hypothesis").json()["rounds"] == 0
        operator = bearing(folder, "payments", "operator")
        assert client.get("/payments/private/trace", headers=operator).status_code == 200
        assert client.get("/logins/private/trace", headers=operator).status_code == 401
        assert client.head("/payments/hypothesis").status_code == 200
        with client.stream("GET", "/payments/events") as stream:
            assert any(line == "event: rounds" for line in stream.iter_lines())
        paths = client.get("/payments/openapi.json").json()
        assert paths["servers"] == [{"url": "/payments"}]
    # Closed at the stop: what was acknowledged is there, and nobody holds the files.
    assert read_store(folder / "payments.db").published.rounds == 200
    assert not list(folder.glob("*.db-wal"))


def test_what_is_unavailable_says_why_to_its_operator_only(folder: Path) -> None:
    with serving(folder) as client:
        assert described(client)["broken"] == {"name": "broken", "status": "unavailable"}
        public = client.get("/broken/hypothesis")
        assert public.status_code == 503
        assert public.json() == {"error": "this learner is unavailable: its operator can see why"}
        for headers in (
            bearing(folder, "payments", "operator"),
            bearing(folder, "broken", "feeder"),
            {"Authorization": "Bearer nothing"},
        ):
            assert client.get("/broken/healthz", headers=headers).json() == public.json()
            assert "reason" not in str(described(client, headers)["broken"])
        operator = bearing(folder, "broken", "operator")
        assert "not a learner" in client.post("/broken/rounds", headers=operator).json()["error"]
        assert "not a learner" in str(described(client, operator)["broken"])
        assert "not a learner" not in client.get("/").text
        for route in ("/ready", "/healthz"):
            assert client.get(route).json() == {"status": "ok", "learners": 3, "live": 2}
        assert client.get("/live").json() == {"status": "ok"}


def test_a_learner_that_is_lost_at_work_does_not_stop_the_others(folder: Path) -> None:
    with serving(folder) as client:
        open_store(folder / "payments.db").close()  # another process takes it
        feeder = bearing(folder, "payments", "feeder")
        assert client.post("/payments/rounds", json=events(1), headers=feeder).status_code == 503
        other = bearing(folder, "logins", "feeder")
        assert client.post("/logins/rounds", json=events(1), headers=other).status_code == 200
        found = {name: one["status"] for name, one in described(client).items()}  # type: ignore[index]
        assert found == {"broken": "unavailable", "logins": "live", "payments": "takes no rounds"}


def test_two_files_of_one_learner_are_both_refused(folder: Path) -> None:
    shutil.copy(folder / "payments.db", folder / "restored.db")
    before = (folder / "payments.db").read_bytes()
    with serving(folder) as client:
        found = described(client, bearing(folder, "payments", "operator"))
        assert "same learner as restored.db" in str(found["payments"])
        assert client.get("/restored/hypothesis").status_code == 503
        assert client.get("/logins/hypothesis").status_code == 200
    assert (folder / "payments.db").read_bytes() == before


def test_a_backup_is_made_while_the_service_learns_and_then_taken_over(folder: Path) -> None:
    copy = folder / "copies" / "payments.db"
    copy.parent.mkdir()
    with serving(folder) as client:
        feeder = bearing(folder, "payments", "feeder")
        for batch in range(5):
            assert client.post("/payments/rounds", json=events(100, 100 * batch), headers=feeder)
        assert back_up(folder / "payments.db", copy).rounds == 500
        assert take_over(copy) == 500
        # The service had it open: it learns no more.
        assert client.post("/payments/rounds", json=events(1), headers=feeder).status_code == 503
    shutil.copy(copy, folder / "moved.db")
    with serving(folder) as client:
        assert client.get("/moved/hypothesis").status_code == 503, "both are in the folder"
    (folder / "payments.db").unlink()
    with serving(folder) as client:
        assert client.get("/moved/hypothesis").json()["rounds"] == 500


def test_names_and_paths(folder: Path) -> None:
    begun(folder / "healthz.db").close()
    with serving(folder) as client:
        assert client.get("/nothing/hypothesis").status_code == 404
        assert client.get("/nothing").status_code == 404
        # Relative: a proxy may serve the folder below a path of its own.
        assert client.get("/payments").headers["location"] == "payments/"
        assert client.get("/payments/").headers["content-type"].startswith("text/html")
        assert "rename healthz.db" in str(
            described(client, bearing(folder, "healthz", "operator"))["healthz"]
        )
        assert client.get("/", headers={"Host": "evil.example"}).status_code == 421
        assert client.get("/payments/", headers={"Host": "evil.example"}).status_code == 421
        assert client.get("/%2e%2e/payments.db").status_code == 404
        assert client.post("/rounds", json=[]).status_code == 404  # a folder has none of its own


def test_the_index_and_a_learner_have_limits_of_their_own(folder: Path) -> None:
    with serving(folder, Limits(rate=3)) as client:
        statuses = [client.get("/learners").status_code for _ in range(8)]
        assert 429 in statuses
        assert client.get("/payments/hypothesis").status_code == 200


def test_the_index_shows_what_is_published_as_text(folder: Path) -> None:
    rows = [{"merchant": HOSTILE if row["fraud"] else "M1", **row} for row in events(4000)]
    rows = [row | {"merchant": HOSTILE} if row["fraud"] else row for row in rows]
    with serving(folder) as client:
        feeder = bearing(folder, "payments", "feeder")
        assert client.post("/payments/rounds", json=rows, headers=feeder).status_code == 200
        text = client.get("/").text
        assert "fraud when merchant = " in text
        assert "<img src=x" not in text
        assert "\u202e" not in text
        assert 'href="payments/"' in text
    assert CULPRIT not in text


def test_a_folder_without_a_learner_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadParameter, match="no learner in"):
        learners_in(tmp_path)
    (tmp_path / "broken.db").write_text("no store")
    with pytest.raises(BadParameter, match="can be served: broken"):
        learners_in(tmp_path)
    refused = littlestone("serve", tmp_path, "--port", 0, "--class", TASK.spec)
    assert refused.returncode == 2
    assert "--class: a folder's learners are served as they were begun" in refused.stderr


def test_the_process_serves_a_folder_and_stops(folder: Path) -> None:
    command = [sys.executable, "-W", "error", "-c", MAIN, "serve", str(folder), "--port", "0"]
    process = subprocess.Popen(command, stdout=PIPE, stderr=PIPE, text=True)
    try:
        assert process.stdout is not None
        address = process.stdout.readline().split()[1]
        for _ in range(600):
            try:
                found = httpx.get(f"{address}ready", timeout=60)
                break
            except httpx.TransportError:
                time.sleep(0.1)
        assert found.json()["live"] == 2
        feeder = bearing(folder, "logins", "feeder")
        assert httpx.post(f"{address}logins/rounds", json=events(3), headers=feeder, timeout=60)
        process.send_signal(signal.SIGTERM)
        out, errors = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 0
    assert "stopped" in out
    assert "warning: broken is unavailable: " in errors
    assert read_store(folder / "logins.db").published.rounds == 3
