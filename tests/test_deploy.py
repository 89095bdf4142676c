"""The container and the unit: what they may do is checked here, as far as nothing has to be run."""

import configparser
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from littlestone._service.fleet import make_fleet
from littlestone._service.limits import Limits

ROOT = Path(__file__).parents[1]
UNIT = ROOT / "deploy" / "littlestone._service"
INSTRUCTIONS = {
    "ARG", "FROM", "WORKDIR", "COPY", "RUN", "LABEL", "ENV", "USER", "VOLUME", "EXPOSE",
    "STOPSIGNAL", "HEALTHCHECK", "ENTRYPOINT", "CMD",
}  # fmt: skip
analyze = shutil.which("systemd-analyze")
needs_systemd = pytest.mark.skipif(analyze is None, reason="there is no systemd-analyze here")


def instructions() -> list[tuple[str, str]]:
    """The instructions of the Dockerfile, with their arguments on one line."""
    text = re.sub(r"^#.*\n", "", (ROOT / "Dockerfile").read_text("utf-8"), flags=re.M)
    lines = [line for line in text.replace("\\\n", " ").splitlines() if line.strip()]
    return [(line.split()[0], line.partition(" ")[2].strip()) for line in lines]


def test_the_image_runs_as_nobody_and_holds_no_secret() -> None:
    found = instructions()
    assert {name for name, _ in found} <= INSTRUCTIONS
    last = [name for name, _ in found].index("FROM", 2)  # the stage that is kept
    kept = found[last:]
    (user,) = [value for name, value in kept if name == "USER"]
    assert int(user.split(":")[0]) > 0
    # Only the environment of the first stage comes along: no sources, no caches.
    copies = [value for name, value in kept if name == "COPY"]
    assert copies == ["--from=build /opt/littlestone /opt/littlestone"]
    whole = (ROOT / "Dockerfile").read_text("utf-8")
    assert not re.search(r"(?i)(secret|password|token)\s*=", whole)
    assert "--index-url" not in whole
    for name, value in found:
        if name in ("ENTRYPOINT", "CMD"):
            assert isinstance(json.loads(value), list), "without a shell, which would eat SIGTERM"


def test_only_what_is_needed_gets_into_the_build() -> None:
    lines = (ROOT / ".dockerignore").read_text("utf-8").splitlines()
    rules = [line for line in lines if line and not line.startswith("#")]
    assert rules[0] == "*"
    wanted = {line[1:] for line in rules if line.startswith("!")}
    copied = {
        word
        for name, value in instructions()
        if name == "COPY" and "--from" not in value
        for word in value.split()[:-1]
    }
    assert {word.removeprefix("./") for word in copied} == wanted
    assert all((ROOT / word).exists() for word in wanted)


def test_the_image_is_healthy_when_the_service_is_ready() -> None:
    (check,) = [value for name, value in instructions() if name == "HEALTHCHECK"]
    (route,) = re.findall(r"127.0.0.1:8000(/\w+)", check)
    app = make_fleet([], Limits())
    assert route in {getattr(one, "path", None) for one in app.routes}
    assert compile(json.loads(check[check.index("[") :])[2], "HEALTHCHECK", "exec")


def test_the_unit_is_hardened() -> None:
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read(UNIT)
    service = parser["Service"]
    for name in ("DynamicUser", "NoNewPrivileges", "PrivateTmp", "MemoryDenyWriteExecute"):
        assert service[name] == "yes"
    assert service["ProtectSystem"] == "strict"
    assert service["CapabilityBoundingSet"] == ""
    assert service["StateDirectory"] == "littlestone"
    assert f"/var/lib/{service['StateDirectory']}" in service["ExecStart"]


@needs_systemd
def test_systemd_finds_nothing_wrong_with_the_unit(tmp_path: Path) -> None:
    assert analyze is not None
    # The program is not installed here.
    unit = tmp_path / UNIT.name
    unit.write_text(UNIT.read_text().replace("/opt/littlestone/bin/littlestone", "/bin/true"))
    done = subprocess.run([analyze, "verify", "--man=no", unit], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    rated = subprocess.run(
        [analyze, "security", "--offline=true", "--no-pager", "--threshold=15", UNIT],
        capture_output=True,
        text=True,
    )
    assert rated.returncode == 0, rated.stdout[-200:] + rated.stderr
