"""`littlestone serve` as a process: its arguments, its logs, its stop, what is never printed."""

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from commands import MAIN
from littlestone._service.server import listening_socket
from littlestone._store.store import read_store

BEGIN = ["--class", "points:merchant", "--label", "fraud", "--delta", "1e-9", "--horizon", "100000"]
CANARY = "canary-7391"


class Process:
    """A service in a process of its own."""

    def __init__(self, folder: Path, *arguments: str, files: int | None = None) -> None:
        command = [sys.executable, "-W", "error", "-c", MAIN, "serve", "run.db", "--port", "0"]
        if files is not None:
            command = ["sh", "-c", f'ulimit -n {files} && exec "$@"', "sh", *command]
        environment = os.environ | {"PYTHONUNBUFFERED": "1"}
        self.process = subprocess.Popen(
            [*command, *arguments],
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        first = self.process.stdout.readline()
        assert first.startswith("page"), self.process.communicate()
        tokens = json.loads((folder / "run.db.tokens").read_text())
        self.feeder, self.operator = (
            {"Authorization": f"Bearer {tokens[role]}"} for role in ("feeder", "operator")
        )
        self.tokens = tokens
        self.client = httpx.Client(base_url=first.split()[1], timeout=60)

    def stop(self) -> tuple[int, str, str]:
        """Tell it to stop: its exit code, output and errors."""
        self.process.send_signal(signal.SIGTERM)
        out, errors = self.process.communicate(timeout=60)
        return self.process.returncode, out, errors


@contextmanager
def process(folder: Path, *arguments: str, files: int | None = None) -> Iterator[Process]:
    found = Process(folder, *arguments, files=files)
    try:
        yield found
    finally:
        found.client.close()
        if found.process.poll() is None:
            found.process.kill()
            found.process.communicate()


def command(folder: Path, *arguments: str, code: str = MAIN) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], cwd=folder, capture_output=True, text=True
    )


def rows_with(canary: str) -> list[dict[str, Any]]:
    """Rows whose culprit is M7; the canary is a merchant who never wins, and a field beside."""
    names = ["M7" if n % 2 else f"M{n % 40}" for n in range(3998)]
    rows = [{"merchant": name, "fraud": int(name == "M7"), "who": f"u{n}"}
            for n, name in enumerate(names)]  # fmt: skip
    odd = {"merchant": canary, "fraud": 1, "who": canary, canary: canary}
    return [*rows, odd, odd]


def test_nothing_of_the_data_is_told(tmp_path: Path) -> None:
    """A value is planted among rows, users, labels and fields; it is nowhere that is public."""
    seen: list[str] = []
    audit = tmp_path / "audit.jsonl"
    with process(
        tmp_path, *BEGIN, "--user", "who", "--cap", "9", "--audit-log", str(audit)
    ) as served:
        client = served.client

        def public() -> None:
            told = ("hypothesis", "releases", "evidence", "guarantee", "openapi.json")
            for path in (*told, "live", "ready", "metrics", "private/metrics", "", "x"):
                seen.append(repr((client.get(path).headers, client.get(path).text)))
            seen.append(client.post("/predict", json={"merchant": "M7"}).text)
            seen.append(client.post("/predict", json={"x": "M7"}).text)
            seen.append(client.get("/private/trace").text)
            seen.append(client.get("/private/trace", headers=served.feeder).text)
            seen.append(client.post("/rounds", json=[{"merchant": "M7"}]).text)
            with client.stream("GET", "/events") as answer:
                lines = answer.iter_lines()
                seen.extend(line for _, line in zip(range(5), lines, strict=False))

        for _ in range(20):
            answer = client.post("/rounds", json=rows_with(CANARY), headers=served.feeder)
            assert answer.status_code == 200
        public()
        bad = [{"merchant": CANARY, "fraud": CANARY, "who": CANARY}]
        null = client.post("/rounds?bad_rows=null", json=bad, headers=served.feeder)
        refused = client.post(
            f"/rounds?note={CANARY}",
            json=bad,
            headers=served.feeder | {"Idempotency-Key": CANARY},
        )
        assert (null.status_code, refused.status_code) == (200, 422)
        assert CANARY in refused.text  # whoever sent it learns what was wrong with it
        client.post("/rounds", content=f"[{CANARY}".encode(), headers=served.feeder)
        client.post("/rounds", json=bad, headers=served.operator)
        public()
        inside = client.get("/private/trace", headers=served.operator).json()
        assert inside["unreadable"] == 1
        _, out, errors = served.stop()
    seen_text = "\n".join(seen)
    assert "merchant = 'M7'" in seen_text
    audited = audit.read_text()
    texts = {"public": seen_text, "output": out, "logs": errors, "audit log": audited}
    for where, text in texts.items():
        assert CANARY not in text, where
        for token in served.tokens.values():
            assert token not in text, where
    assert "POST /rounds" in errors  # there are logs
    for name in ("mistakes", "missed", "votes", "null_rounds"):
        assert not re.search(rf'"{name}": ?[\d\[]', seen_text + audited), name
    exposed = {*re.findall(r"# TYPE littlestone_(\w+)", seen_text)}
    assert exposed == {
        "info", "rounds_total", "horizon_rounds", "releases_total", "final", "guarantee_epsilon",
        "guarantee_delta", "spent_epsilon", "spent_delta", "ready", "uptime_seconds",
        "requests_total",
    }  # fmt: skip
    told_of_rounds = re.findall(r'route="/rounds",status="(\d+)"', seen_text)
    assert {*told_of_rounds} == {"200"}  # that there was a bad row is not told
    assert '"route": "/rounds", "status": 422' in audited


def test_a_stop_finishes_what_it_has_begun_and_loses_nothing(tmp_path: Path) -> None:
    receipts: list[dict[str, Any]] = []
    others: list[int] = []
    enough = threading.Event()

    def feed(served: Process, name: int) -> None:
        rows = [{"merchant": f"M{n % 40}", "fraud": 0} for n in range(200)]
        with httpx.Client(base_url=served.client.base_url, timeout=60) as client:
            for batch in range(10_000):
                headers = served.feeder | {"Idempotency-Key": f"{name}.{batch}"}
                try:
                    answer = client.post("/rounds", json=rows, headers=headers)
                except httpx.TransportError:
                    return
                if answer.status_code != 200:
                    others.append(answer.status_code)
                    return
                receipts.append(answer.json())
                if len(receipts) > 50:
                    enough.set()

    with process(tmp_path, *BEGIN, "--limit", "rate=1000000") as served:
        threads = [threading.Thread(target=feed, args=(served, name)) for name in range(4)]
        with served.client.stream("GET", "/events") as watched:
            for thread in threads:
                thread.start()
            assert enough.wait(60)
            code, out, errors = served.stop()
            for thread in threads:
                thread.join()
            list(watched.iter_lines())  # the stream was ended, not cut
    assert code == 0, errors
    assert "what was acknowledged is in the file" in out
    assert {*others} <= {503}
    firsts = sorted(receipt["first"] for receipt in receipts)
    assert len({*firsts}) == len(firsts)
    rounds = read_store(tmp_path / "run.db").published.rounds
    assert rounds >= firsts[-1] + 199
    assert rounds % 200 == 0
    assert rounds <= 200 * (len(receipts) + 4)
    with process(tmp_path) as served:  # and it goes on
        assert served.client.get("/ready").json()["rounds"] == rounds


def test_a_client_that_comes_before_the_server_has_started_waits() -> None:
    with listening_socket("127.0.0.1", 0) as listening:
        socket.create_connection(listening.getsockname(), timeout=5).close()


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    done = command(tmp_path, "serve", "run.db")
    assert done.returncode == 2
    assert "to begin it, say --class, --label, --horizon" in done.stderr
    assert not (tmp_path / "run.db").exists()
    assert "name its file" in command(tmp_path, "serve", ".", *BEGIN).stderr
    without = f"import sys; sys.modules['fastapi'] = None\n{MAIN}"
    done = command(tmp_path, "serve", "run.db", *BEGIN, code=without)
    assert done.returncode == 2
    assert "pip install 'littlestone[serve]'" in done.stderr
    (tmp_path / "run.db").write_text("not a learner, and long enough to be looked at")
    done = command(tmp_path, "serve", "run.db", "--port", "0")
    assert done.returncode == 2
    assert "not a learner" in done.stderr


def test_help_imports_no_server() -> None:
    code = (
        "import sys; import littlestone._cli.main\n"
        "assert not {'fastapi', 'granian', 'pydantic'} & sys.modules.keys()"
    )
    assert command(Path(), code=code).returncode == 0
    assert "--tokens" in command(Path(), "serve", "--help").stdout


def test_what_is_said_again_must_be_what_was_said(tmp_path: Path) -> None:
    with process(tmp_path, *BEGIN) as served:
        served.stop()
    generation = read_store(tmp_path / "run.db").generation
    done = command(tmp_path, "serve", "run.db", "--epsilon", "2", "--port", "0")
    assert done.returncode == 2
    assert "begun with --epsilon 1.0, not 2.0" in done.stderr
    assert read_store(tmp_path / "run.db").generation == generation  # nobody was thrown out
    with process(tmp_path, *BEGIN) as served:
        served.stop()


def test_tokens_are_for_their_owner(tmp_path: Path) -> None:
    with process(tmp_path, *BEGIN) as served:
        before = served.tokens
        assert len({*before.values()}) == 2
        served.stop()
    path = tmp_path / "run.db.tokens"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with process(tmp_path) as served:
        assert served.tokens == before
        served.stop()
    path.chmod(0o644)
    done = command(tmp_path, "serve", "run.db", "--port", "0")
    assert done.returncode == 2
    assert "can be read by others" in done.stderr
    path.write_text("{}")
    path.chmod(0o600)
    assert "not a file of tokens" in command(tmp_path, "serve", "run.db", "--port", "0").stderr


def test_it_listens_to_this_machine_unless_told_otherwise(tmp_path: Path) -> None:
    with process(tmp_path, *BEGIN) as served:
        assert served.client.base_url.host == "127.0.0.1"
        port = str(served.client.base_url.port)
        generation = read_store(tmp_path / "run.db").generation
        done = command(tmp_path, "serve", "run.db", "--port", port)
        assert done.returncode == 2
        assert "choose another --port" in done.stderr
        assert read_store(tmp_path / "run.db").generation == generation
        _, _, errors = served.stop()
        assert "warning" not in errors
    with process(tmp_path, "--host", "0.0.0.0") as served:
        _, _, errors = served.stop()
    assert "TLS" in errors


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl here")
def test_the_tour_of_the_documentation_runs(tmp_path: Path) -> None:
    text = (Path(__file__).parents[2] / "docs" / "service.md").read_text()
    tour = text.split("```sh")[1].split("```")[0]
    with process(tmp_path, *BEGIN) as served:
        script = tour.replace("127.0.0.1:8000", served.client.base_url.netloc.decode())
        done = subprocess.run(
            ["bash", "-euc", script], cwd=tmp_path, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert '"first": 3, "rounds": 2, "null_rounds": 1' in done.stdout
        assert '"predictions": [false]' in done.stdout
        assert "event: rounds" in done.stdout
        assert '"mistakes": 2' in done.stdout
        served.stop()


@pytest.mark.skipif(sys.platform != "linux", reason="127.0.0.2 is this machine on Linux only")
def test_connections_that_send_half_a_head_stop_nobody(tmp_path: Path) -> None:
    """More of them than the process may have files open; who comes meanwhile is answered, later."""

    def reads(client: httpx.Client) -> int:
        return client.get("/hypothesis").status_code

    with (
        process(tmp_path, *BEGIN, "--limit", "idle_timeout=4", files=256) as served,
        contextlib.ExitStack() as stack,
    ):
        address = "127.0.0.1", int(served.client.base_url.port or 0)
        attacking: list[socket.socket] = []
        for number in range(600):
            raw = stack.enter_context(socket.socket())
            raw.settimeout(60)
            raw.bind((f"127.0.0.{1 + number // 100}", 0))
            raw.connect(address)
            attacking.append(raw)
            raw.sendall(b"GET /hypothesis HTTP/1.1\r\nHost:")
        assert reads(served.client) == 200
        for raw in attacking:
            with contextlib.suppress(ConnectionError):
                assert raw.recv(100) == b""  # in the end each of them is closed
        assert reads(served.client) == 200
        rows = [{"merchant": "M7", "fraud": 1}]
        assert served.client.post("/rounds", json=rows, headers=served.feeder).status_code == 200
        _, _, errors = served.stop()
    assert "Traceback" not in errors
    assert len(errors) < 2_000


def test_names_and_proxies_are_the_operators_to_say(tmp_path: Path) -> None:
    more = "--host-name", "wall.example", "--trusted-proxy", "127.0.0.1"
    with process(tmp_path, *BEGIN, *more) as served:
        for name, status in (("wall.example", 200), ("evil.example", 421)):
            headers = {"Host": name, "X-Forwarded-For": "forged\x9b"}
            raw = [(key.encode(), value.encode("latin-1")) for key, value in headers.items()]
            assert served.client.get("/hypothesis", headers=raw).status_code == status
        _, _, errors = served.stop()
    assert r"forged\x9b - " in errors
    generation = read_store(tmp_path / "run.db").generation
    for option, value, seen_text in (
        ("--trusted-proxy", "*", "an address or a network"),
        ("--limit", "rows=few", "with a name of body, rows"),
        ("--limit", "rows=0", "must be above 0"),
    ):
        done = command(tmp_path, "serve", "run.db", "--port", "0", option, value)
        assert done.returncode == 2
        assert seen_text in done.stderr
    assert read_store(tmp_path / "run.db").generation == generation  # nobody was thrown out


def test_a_log_line_holds_no_query(tmp_path: Path) -> None:
    with process(tmp_path, *BEGIN) as served:
        with socket.create_connection(("127.0.0.1", served.client.base_url.port or 0)) as raw:
            raw.sendall(b"GET /hypothesis?who=" + CANARY.encode() + b" HTTP/1.0\r\n\r\n")
            assert raw.recv(100).startswith(b"HTTP/1.0 200")
        _, _, errors = served.stop()
    assert re.search(r'"GET /hypothesis HTTP/1(.0)?" 200', errors)
    assert CANARY not in errors
