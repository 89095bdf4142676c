"""What an operator relies on: metrics, readiness, logs, the audit log, tokens that change, TLS."""

import json
import shutil
import signal
import ssl
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families
from test_serve import BEGIN, CANARY, process

from commands import MAIN, littlestone
from effort import scaled
from fuzz_service import fuzz
from littlestone._privacy.parameters import BadParameter
from littlestone._service.limits import Limits
from littlestone._service.operations import COMMIT_BUCKETS, AuditLog
from littlestone._service.server import Certificate
from littlestone._service.tokens import Tokens, read_tokens, rotate_token
from littlestone._store.copies import back_up, take_over
from littlestone._store.request import LearnRequest
from littlestone._store.store import open_store, read_store
from running_service import TOKENS, Running, bearing, events, known_tokens, running, until

# Metrics.


def figures(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Every sample, as Prometheus' own parser reads it."""
    return {
        (
            sample.name.removeprefix("littlestone_"),
            tuple(sorted(sample.labels.items())),
        ): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def named(text: str) -> dict[str, float]:
    """The samples without labels, by name."""
    return {name: value for (name, labels), value in figures(text).items() if not labels}


def test_public_metrics_say_what_the_other_routes_say(tmp_path: Path) -> None:
    with running(tmp_path / "run.db") as served:
        served.feed_until_found()
        assert served.feed([{"merchant": "M7"}]).status_code == 422
        for _ in range(2):
            assert served.get("/nothing/here").status_code == 404
        answer = served.get("/metrics")
        assert answer.headers["content-type"].startswith("text/plain; version=")
        found, told = named(answer.text), served.get("/guarantee").json()
        assert found["rounds_total"] == told["rounds"]
        assert found["horizon_rounds"] == told["horizon"]
        assert found["releases_total"] == told["releases"] == 2
        assert found["guarantee_epsilon"] == told["epsilon"]
        assert found["guarantee_delta"] == told["delta"]
        assert found["spent_epsilon"] == told["spent_epsilon"]
        assert (found["ready"], found["final"]) == (1, 0)
        assert 0 <= found["uptime_seconds"] < 600
        by_route = figures(answer.text)
        batches = told["rounds"] // 4000
        assert by_route["requests_total", (("route", "/rounds"), ("status", "200"))] == batches
        assert by_route["requests_total", (("route", "other"), ("status", "404"))] == 2
        assert ("requests_total", (("route", "/rounds"), ("status", "422"))) not in by_route
        inside = figures(served.get("/private/metrics", "operator").text)
        assert inside["requests_total", (("route", "/rounds"), ("status", "422"))] == 1
        facts = next(dict(labels) for name, labels in by_route if name == "info")
        assert (facts["class"], facts["unit"]) == ("points:merchant", "event")


def test_the_operators_metrics_say_what_the_trace_says(tmp_path: Path) -> None:
    with running(tmp_path / "run.db") as served:
        served.feed_until_found()
        served.feed([{"merchant": "M7"}], query="?bad_rows=null")
        text = served.get("/private/metrics", "operator").text
        found, told = named(text), served.get("/private/trace", "operator").json()
        for name in ("mistakes", "null_rounds", "beyond_cap", "unreadable", "counted_rounds"):
            assert found[f"{name}_total"] == told[name]
        assert found["null_rounds_total"] == 1
        assert (found["queued_jobs"], found["batches_under_way"]) == (0, 0)
        assert found["commit_seconds_count"] == 1 + (told["rounds"] - 1) // 4000
        assert found["process_resident_memory_bytes"] > 10**7
        assert found["store_bytes"] > 10**4
        buckets = [value for (name, _), value in figures(text).items() if name.endswith("_bucket")]
        assert len(buckets) == len(COMMIT_BUCKETS) + 1
        assert buckets == sorted(buckets)
        assert buckets[-1] == found["commit_seconds_count"]
        refused = served.get("/private/metrics"), served.get("/private/metrics", "feeder")
        assert [answer.status_code for answer in refused] == [401, 403]
        assert all("littlestone_" not in answer.text for answer in refused)


def test_metrics_are_there_when_the_store_is_lost(tmp_path: Path) -> None:
    with running(tmp_path / "run.db") as served:
        served.feed(events(3))
        with open_store(tmp_path / "run.db"):
            assert served.feed(events(3)).status_code == 503
            found = named(served.get("/private/metrics", "operator").text)
            assert (found["ready"], found["commit_failures_total"]) == (0, 1)
            assert "mistakes_total" not in found  # nobody holds the learner any more
            assert named(served.get("/metrics").text)["rounds_total"] == 3


def test_odd_names_are_escaped(tmp_path: Path) -> None:
    odd = 'mer"ch\\ant'
    task = LearnRequest(
        spec=f"points:{odd}", label="fraud", epsilon=1.0, delta=1e-9, horizon=10_000
    )
    with running(tmp_path / "run.db", task=task) as served:
        found = figures(served.get("/metrics").text)
        assert next(dict(labels) for name, labels in found if name == "info")["class"] == task.spec


# Readiness.


def test_ready_looks_at_writer_and_disk_and_live_does_not(tmp_path: Path) -> None:
    path = tmp_path / "run.db"

    def statuses(served: Running) -> list[int]:
        return [served.get(route).status_code for route in ("/live", "/ready")]

    with running(path) as served:
        assert statuses(served) == [200, 200]
        path.rename(tmp_path / "away.db")  # cannot be written to, though nobody has tried yet
        assert statuses(served) == [200, 503]
        assert "cannot be written to" in served.get("/ready").json()["error"]
        (tmp_path / "away.db").rename(path)
        assert statuses(served) == [200, 200]
        served.service.writer.stop()
        assert statuses(served) == [200, 503]
        assert "stopping" in served.get("/ready").json()["error"]


# The audit log.


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_the_audit_log_says_who_did_what_and_survives_rotation(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    audit = AuditLog(path)
    with running(tmp_path / "run.db", audit=audit) as served:
        served.feed(events(3), key=CANARY)
        served.feed(events(3), key=CANARY)
        served.feed([{"merchant": CANARY}])
        served.get("/hypothesis")  # public: not in it
        path.rename(tmp_path / "audit.1")
        served.get("/private/trace", "operator")
        path.unlink()
        served.get(f"/private/metrics?{CANARY}", "feeder")
        served.feed(events(1), role=None)
    first, second = lines_of(tmp_path / "audit.1"), lines_of(path)
    assert path.stat().st_mode & 0o777 == 0o600
    facts = [
        [line.get(name) for name in ("who", "route", "status", "first", "rounds", "again")]
        for line in (*first[1:], *second[:-1])
    ]
    assert facts == [
        ["feeder-1", "/rounds", 200, 1, 3, False],
        ["feeder-1", "/rounds", 200, 1, 3, True],
        ["feeder-1", "/rounds", 422, None, None, None],
        ["feeder-1", "/private/metrics", 403, None, None, None],
        [None, "/rounds", 401, None, None, None],
    ]
    assert (first[0]["action"], second[-1]["action"]) == ("start", "stop")
    assert first[0]["run"] == second[-1]["run"]
    assert all(line["client"] == "127.0.0.1" for line in first[1:])
    text = path.read_text() + (tmp_path / "audit.1").read_text()
    for secret in (CANARY, "null", *TOKENS.values()):
        assert secret not in text.replace('"who": null, "role": null', "")


def test_a_line_break_after_a_path_does_not_pass_the_audit_log_by(tmp_path: Path) -> None:
    """The router would find the route all the same, and the counts another path."""
    path = tmp_path / "audit.jsonl"
    with running(tmp_path / "run.db", audit=AuditLog(path)) as served:
        bodies = [events(3), [{"merchant": CANARY}]]
        for body in bodies:
            answer = served.client.post("/rounds%0a", json=body, headers=bearing("feeder"))
            assert answer.status_code == 404
        assert served.get("/private/trace%0A", "operator").status_code == 404
        assert served.get("/ready").json()["rounds"] == 0
        told = figures(served.get("/metrics").text)
        counted = {labels: n for (name, labels), n in told.items() if name == "requests_total"}
        assert counted[("route", "other"), ("status", "404")] == 3
        assert (("route", "other"), ("status", "422")) not in counted  # it tells about rows
    assert [line["action"] for line in lines_of(path)] == ["start", "stop"]


def test_strangers_do_not_fill_the_audit_log(tmp_path: Path) -> None:
    now = [0.0]
    audit = AuditLog(tmp_path / "audit.jsonl", clock=lambda: now[0])
    known = known_tokens(tmp_path / "tokens").find(f"Bearer {TOKENS['feeder']}")
    some: dict[str, Any] = {"client": "x", "method": "POST", "route": "/rounds", "status": 401}
    for _ in range(1000):
        audit.request(None, **some)
    for _ in range(20):
        audit.request(known, **some)
    now[0] = 1.0
    audit.request(None, **some)
    found = lines_of(tmp_path / "audit.jsonl")
    assert len(found) == 5 + 20 + 1
    assert found[-1]["left_out"] == 995
    audit.close()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
def test_an_audit_log_that_cannot_be_written_is_told_and_refuses_nobody(tmp_path: Path) -> None:
    with running(tmp_path / "run.db", audit=AuditLog(Path("/dev/full"))) as served:
        assert served.feed(events(3)).json()["rounds"] == 3
        found = named(served.get("/private/metrics", "operator").text)
        assert found["audit_failures_total"] == 2  # the start, and the batch


# Tokens.


def test_a_token_is_replaced_without_a_restart(tmp_path: Path) -> None:
    now, path = [1000.0], tmp_path / "tokens"
    tokens = Tokens(path, clock=lambda: now[0], ticks=lambda: now[0])
    before = json.loads(path.read_text())
    with running(tmp_path / "run.db", tokens=tokens) as served:

        def status(token: str) -> int:
            headers = {"Authorization": f"Bearer {token}"}
            return served.client.post("/rounds", json=events(1), headers=headers).status_code

        assert status(before["feeder"]) == 200
        made = rotate_token(path, "feeder", 60, clock=lambda: now[0])
        assert (made.new, made.old) == ("feeder-2", "feeder-1")
        after = json.loads(path.read_text())
        assert after["operator"] == before["operator"]
        assert before["feeder"] not in path.read_text()  # of old ones a hash is kept
        now[0] += 1
        assert [status(before["feeder"]), status(after["feeder"])] == [200, 200]
        now[0] += 58.5
        assert [status(before["feeder"]), status(after["feeder"])] == [200, 200]
        now[0] += 1
        assert [status(before["feeder"]), status(after["feeder"])] == [401, 200]
        rotate_token(path, "feeder", 0, clock=lambda: now[0])
        now[0] += 1
        assert status(after["feeder"]) == 401
        assert status(json.loads(path.read_text())["feeder"]) == 200
    assert [entry.name for entry in read_tokens(path)] == ["feeder-3", "operator-1"]
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_spoilt_file_of_tokens_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    tokens = Tokens(path)
    sound = path.read_text()
    token = json.loads(sound)["feeder"]
    same = json.loads(sound) | {"operator": token}
    naive = {"old": [{"role": "feeder", "name": "x", "sha256": "00", "until": "2030-01-01"}]}
    for text in ("", "{}", json.dumps(same), json.dumps(json.loads(sound) | naive)):
        path.write_text(text)
        tokens.refresh()
        assert tokens.find(f"Bearer {token}")
        with pytest.raises(BadParameter, match="not a file of tokens"):
            read_tokens(path)
    path.write_text(sound)
    path.chmod(0o644)
    tokens.refresh()
    with pytest.raises(BadParameter, match="can be read by others"):
        rotate_token(path, "feeder", 60)
    path.unlink()
    tokens.refresh()
    assert tokens.find(f"Bearer {token}")
    assert not path.exists()  # a new one is for the next start to make


def test_the_verb_replaces_a_token_of_a_running_service(tmp_path: Path) -> None:
    with process(tmp_path, *BEGIN) as served:
        done = littlestone("token", tmp_path / "run.db", "--rotate", "feeder", "--overlap", "0")
        assert "feeder-2 is in" in done.stdout
        served.process.send_signal(signal.SIGHUP)  # at once, and it does not end the process

        def old_one_ended() -> bool:
            answer = served.client.post("/rounds", json=[], headers=served.feeder)
            return answer.status_code == 401

        until(old_one_ended)
        new = json.loads((tmp_path / "run.db.tokens").read_text())["feeder"]
        assert new not in done.stdout
        headers = {"Authorization": f"Bearer {new}"}
        rows = [{"merchant": "M1", "fraud": 0}]
        assert served.client.post("/rounds", json=rows, headers=headers).status_code == 200
        _, _, errors = served.stop()
    assert "the tokens were read again: feeder-2, operator-1" in errors
    listed = littlestone("token", tmp_path / "run.db").stdout
    assert listed.split() == ["feeder-2", "present", "operator-1", "present"]
    refused = littlestone("token", tmp_path / "other.db")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "there are no tokens" in refused.stderr


# TLS.


def certificate(folder: Path, name: str) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1, signed by itself."""
    files = folder / f"{name}.pem", folder / f"{name}.key"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
         "-nodes", "-days", "2", "-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1",
         "-out", files[0], "-keyout", files[1]],
        check=True, capture_output=True,
    )  # fmt: skip
    return files


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Path, Path]]:
    if shutil.which("openssl") is None:
        pytest.skip("there is no openssl here to make a certificate")
    folder = tmp_path_factory.mktemp("tls")
    return [certificate(folder, name) for name in ("one", "other")]


@pytest.fixture(scope="module")
def secure(
    tmp_path_factory: pytest.TempPathFactory, certificates: list[tuple[Path, Path]]
) -> Iterator[Running]:
    """A service over TLS, beside more connections without a handshake than it may serve.

    granian closes them after ten seconds, in which other tests run.
    """
    path, limits = tmp_path_factory.mktemp("secure") / "run.db", Limits(connections=8, rate=1e6)
    with running(path, limits=limits, tls=Certificate(*certificates[0])) as served:
        silent = [served.raw() for _ in range(40)]
        yield served
        for raw in silent:
            with raw:
                assert raw.recv(1) == b""
        assert served.get("/live").status_code == 200


def test_rounds_and_events_go_over_tls_beside_connections_without_a_handshake(
    secure: Running, certificates: list[tuple[Path, Path]]
) -> None:
    assert secure.url.startswith("https")
    assert secure.feed(events(4000)).json()["rounds"] == 4000
    with secure.watching() as found:
        assert next(found)[2]["rounds"] == 4000

    def version(most: ssl.TLSVersion) -> str | None:
        """What is agreed on with a client that would take anything up to a version."""
        context = ssl.create_default_context(cafile=certificates[0][0])
        context.set_ciphers("ALL:@SECLEVEL=0")
        with warnings.catch_warnings(action="ignore"):  # Python would not have it either
            context.minimum_version, context.maximum_version = ssl.TLSVersion.TLSv1, most
        with secure.raw() as raw, context.wrap_socket(raw, server_hostname="127.0.0.1") as agreed:
            return agreed.version()

    assert version(ssl.TLSVersion.TLSv1_3) == "TLSv1.3"
    assert version(ssl.TLSVersion.TLSv1_2) == "TLSv1.2"
    with pytest.raises(ssl.SSLError):
        version(ssl.TLSVersion.TLSv1_1)
    with pytest.raises(httpx.TransportError):  # without TLS nothing is answered
        httpx.get(secure.url.replace("https", "http"))
    assert secure.get("/hypothesis").status_code == 200


@pytest.mark.slow
def test_a_certificate_is_renewed_without_a_restart(
    tmp_path: Path, certificates: list[tuple[Path, Path]]
) -> None:
    paths = tmp_path / "tls.pem", tmp_path / "tls.key"

    def install(files: tuple[Path, Path]) -> None:
        for source, target in zip(files, paths, strict=True):
            shutil.copy(source, target)

    def trusted(number: int) -> bool:
        context = ssl.create_default_context(cafile=certificates[number][0])
        try:
            return httpx.get(f"{address}/live", verify=context).status_code == 200
        except httpx.ConnectError:
            return False

    install(certificates[0])
    more = "--tls-certificate", str(paths[0]), "--tls-key", str(paths[1])
    with process(tmp_path, *BEGIN, *more) as served:
        address = str(served.client.base_url).rstrip("/")
        assert address.startswith("https")
        assert (trusted(0), trusted(1)) == (True, False)
        install((certificates[1][0], certificates[0][1]))  # a certificate without its key
        served.process.send_signal(signal.SIGHUP)
        time.sleep(0.3)
        assert trusted(0)
        install(certificates[1])
        served.process.send_signal(signal.SIGHUP)
        until(lambda: trusted(1))
        _, _, errors = served.stop()
    assert "the certificate stays as it was" in errors
    assert "the certificate was read again" in errors
    generation = read_store(tmp_path / "run.db").generation
    for options, said in (
        (more[:2], "belong together"),
        ((*more[:3], str(tmp_path / "none")), "cannot be used"),
    ):
        done = littlestone("serve", tmp_path / "run.db", "--port", "0", *options)
        assert done.returncode == 2
        assert said in done.stderr
    few = ["sh", "-c", 'ulimit -n 1024 && exec "$@"', "sh", sys.executable, "-c", MAIN]
    done = subprocess.run(
        [*few, "serve", "run.db", *more], cwd=tmp_path, capture_output=True, text=True
    )
    assert "--tls-certificate needs 16,384: allow more (ulimit -n)" in done.stderr
    assert read_store(tmp_path / "run.db").generation == generation  # nobody was thrown out


# Copies.


def test_a_backup_is_made_while_the_service_learns_and_then_taken_over(tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    with running(tmp_path / "run.db") as served:
        for batch in range(5):
            assert served.feed(events(100, 100 * batch)).status_code == 200
        assert back_up(served.path, copy).rounds == 500
        assert take_over(copy) == 500
        assert served.feed(events(1)).status_code == 503  # it learns no more
    with running(copy) as served:
        assert served.get("/hypothesis").json()["rounds"] == 500


# An upgrade.


@pytest.mark.slow
def test_an_upgrade_under_load_loses_and_doubles_nothing(tmp_path: Path) -> None:
    """Clients write all the while; the process is stopped, and the next one started."""
    acknowledged: list[dict[str, Any]] = []
    over = threading.Event()

    def feed(url: str, feeder: dict[str, str]) -> None:
        batch = 0
        with httpx.Client(base_url=url, timeout=60) as client:
            while not over.is_set():
                key = {"Idempotency-Key": f"{threading.get_ident()}.{batch}"}
                try:
                    answer = client.post("/rounds", json=events(20), headers=feeder | key)
                except httpx.TransportError:  # nobody listens for a moment
                    time.sleep(0.01)
                    continue
                if answer.status_code == 200:
                    acknowledged.append(answer.json())
                    batch += 1
                else:
                    assert answer.status_code == 503, answer.text

    def more_is_acknowledged() -> None:
        before = len(acknowledged)
        until(lambda: len(acknowledged) > before + 20)

    port, threads = "0", list[threading.Thread]()
    for number in range(2):
        with process(tmp_path, *BEGIN, "--port", port, "--limit", "rate=1000000") as served:
            if number == 0:
                given = str(served.client.base_url), served.feeder
                threads += [threading.Thread(target=feed, args=given) for _ in range(4)]
                for thread in threads:
                    thread.start()
                port = str(served.client.base_url.port)
            with served.client.stream("GET", "/events") as watched:
                more_is_acknowledged()
                if number == 1:
                    over.set()
                    for thread in threads:
                        thread.join()
                code, out, errors = served.stop()
                list(watched.iter_lines())  # the stream was ended, not cut
            assert (code, "what was acknowledged is in the file" in out) == (0, True), errors
    firsts = sorted(receipt["first"] for receipt in acknowledged)
    assert firsts == [1 + 20 * n for n in range(len(firsts))]  # each once, and no gap
    assert read_store(tmp_path / "run.db").published.rounds == 20 * len(firsts)


# Whatever is sent.


@pytest.mark.slow
def test_a_fuzz_of_requests_finds_no_fault_and_changes_nothing(tmp_path: Path) -> None:
    found = fuzz(tmp_path, scaled(2000, least=300), seed=7, report=lambda line: None)
    assert {200, 400, 401, 403, 404, 405, 409, 413, 415, 421, 422} <= {*found.statuses}
    assert found.reads
