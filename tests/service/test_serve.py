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
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from commands import MAIN, littlestone
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
    more = "--user", "who", "--cap", "9", "--audit-log", str(audit), "--log-format", "json"
    with process(tmp_path, *BEGIN, *more) as served:
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
    lines = [json.loads(line) for line in errors.splitlines()]
    assert all({"time", "level", "message"} <= line.keys() for line in lines)
    logged = {(line["method"], line["path"], line["status"]) for line in lines if "path" in line}
    assert {("POST", "/rounds", 422), ("GET", "/private/trace", 200)} <= logged
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


def test_a_client_that_comes_before_the_server_has_started_waits() -> None:
    with listening_socket("127.0.0.1", 0) as listening:
        socket.create_connection(listening.getsockname(), timeout=5).close()


def refused(folder: Path, *arguments: str) -> str:
    """What `serve` says to arguments that it does not take; the file stays who has it."""
    path = folder / "run.db"
    before = read_store(path).generation if path.exists() else None
    done = littlestone("serve", "run.db", *arguments, folder=folder)
    assert (done.returncode, done.stdout) == (2, "")
    assert (read_store(path).generation if path.exists() else None) == before
    return done.stderr


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    assert "to begin it, say --class, --label, --horizon" in refused(tmp_path)
    assert "name its file" in littlestone("serve", tmp_path, *BEGIN).stderr
    without = f"import sys; sys.modules['fastapi'] = None\n{MAIN}"
    done = command(tmp_path, "serve", "run.db", *BEGIN, code=without)
    assert done.returncode == 2
    assert "pip install 'littlestone[serve]'" in done.stderr
    (tmp_path / "other.db").write_text("not a learner, and long enough to be looked at")
    done = littlestone("serve", tmp_path / "other.db", "--port", "0")
    assert (done.returncode, "not a learner" in done.stderr) == (2, True)


def test_help_imports_no_server() -> None:
    code = (
        "import sys; import littlestone._cli.main\n"
        "assert not {'fastapi', 'granian', 'pydantic'} & sys.modules.keys()"
    )
    assert command(Path(), code=code).returncode == 0
    assert "--tokens" in command(Path(), "serve", "--help").stdout


def test_a_start_refuses_what_does_not_fit_and_throws_nobody_out(tmp_path: Path) -> None:
    path = tmp_path / "run.db.tokens"
    with process(tmp_path, *BEGIN) as served:
        assert served.client.base_url.host == "127.0.0.1"  # this machine, unless told otherwise
        port = str(served.client.base_url.port)
        assert "choose another --port" in refused(tmp_path, "--port", port)
        for option, value, sentence in (
            ("--epsilon", "2", "begun with --epsilon 1.0, not 2.0"),
            ("--trusted-proxy", "*", "an address or a network"),
            ("--limit", "rows=few", "with a name of body, rows"),
            ("--limit", "rows=0", "must be above 0"),
        ):
            assert sentence in refused(tmp_path, "--port", "0", option, value)
        assert len({*served.tokens.values()}) == 2
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        _, _, errors = served.stop()
        assert "warning" not in errors
    with process(tmp_path, *BEGIN, "--host", "0.0.0.0") as again:
        assert again.tokens == served.tokens
        _, _, errors = again.stop()
    assert "TLS" in errors
    path.chmod(0o644)
    assert "can be read by others" in refused(tmp_path, "--port", "0")
    path.write_text("{}")
    path.chmod(0o600)
    assert "not a file of tokens" in refused(tmp_path, "--port", "0")


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
        process(tmp_path, *BEGIN, "--limit", "idle_timeout=1", files=128) as served,
        contextlib.ExitStack() as stack,
    ):
        address = "127.0.0.1", int(served.client.base_url.port or 0)
        attacking: list[socket.socket] = []
        for number in range(250):
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


def test_names_and_proxies_are_the_operators_to_say_and_a_log_line_holds_no_query(
    tmp_path: Path,
) -> None:
    more = "--host-name", "wall.example", "--trusted-proxy", "127.0.0.1"
    with process(tmp_path, *BEGIN, *more) as served:
        for name, status in (("wall.example", 200), ("evil.example", 421)):
            headers = {"Host": name, "X-Forwarded-For": "forged\x9b"}
            raw = [(key.encode(), value.encode("latin-1")) for key, value in headers.items()]
            assert served.client.get("/hypothesis", headers=raw).status_code == status
        with socket.create_connection(("127.0.0.1", served.client.base_url.port or 0)) as old:
            old.sendall(b"GET /hypothesis?who=" + CANARY.encode() + b" HTTP/1.0\r\n\r\n")
            assert old.recv(100).startswith(b"HTTP/1.0 200")
        _, _, errors = served.stop()
    assert r"forged\x9b - " in errors
    assert re.search(r'"GET /hypothesis HTTP/1(.0)?" 200', errors)
    assert CANARY not in errors
