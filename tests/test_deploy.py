"""The container and the unit: what they may do is checked here, as far as nothing has to be run."""

import configparser
import json
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

from littlestone._service import routes
from running_service import running

ROOT = Path(__file__).parents[1]
UNIT = ROOT / "deploy" / "littlestone@.service"
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
    last = max(i for i, (name, _) in enumerate(found) if name == "FROM")  # the stage that is kept
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


def pinned(path: Path) -> dict[str, str]:
    """The versions of a file of requirements."""
    return dict(re.findall(r"^([\w.-]+)==([^\s;\\]+)", path.read_text("utf-8").lower(), flags=re.M))


def test_actions_are_named_by_the_digest_of_their_commit() -> None:
    texts = [path.read_text("utf-8") for path in (ROOT / ".github/workflows").glob("*.yml")]
    used = [line for text in texts for line in re.findall(r"uses: (.+)", text)]
    assert len(used) > 10
    for line in used:
        assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", line), line


def test_the_image_is_built_from_digests_and_hashes() -> None:
    base, *stages = [value for name, value in instructions() if name == "FROM"]
    assert stages == ["base AS build", "base"]
    # The Python that the versions of constraints.txt were resolved for, as in the workflow.
    workflow = (ROOT / ".github/workflows/tests.yml").read_text("utf-8")
    (version,) = re.findall(r'checked:.*?python-version: "([\d.]+)"', workflow, flags=re.S)
    assert re.fullmatch(rf"python:{version}\.\d+-slim-\w+@sha256:[0-9a-f]{{64}} AS base", base)
    installs = [
        part for _, value in instructions() for part in re.findall(r"pip install[^&]*", value)
    ]
    assert len(installs) == 3
    assert all("--require-hashes" in part or "--no-index" in part for part in installs)


@pytest.mark.parametrize("name", ["requirements.txt", "build-requirements.txt"])
def test_requirements_of_the_image_have_hashes_and_the_versions_of_the_constraints(
    name: str,
) -> None:
    text = (ROOT / "deploy" / name).read_text("utf-8")
    assert "://" not in text, "an index is the business of whoever builds"
    entries = re.split(r"\n(?=\S)", re.sub(r"^#.*\n", "", text, flags=re.M).strip())
    assert all(re.search(r"--hash=sha256:[0-9a-f]{64}", entry) for entry in entries)
    locked = pinned(ROOT / "deploy" / name)
    assert len(locked) == len(entries)
    if name == "requirements.txt":
        known = {
            key.replace("_", "-"): one for key, one in pinned(ROOT / "constraints.txt").items()
        }
        assert locked == {key: known[key] for key in locked}
    else:
        project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
        assert set(project["build-system"]["requires"]) <= {f"{k}=={v}" for k, v in locked.items()}


def test_everything_that_is_pinned_is_kept_up_to_date() -> None:
    updates = yaml.safe_load((ROOT / ".github/dependabot.yml").read_text("utf-8"))["updates"]
    folders = {
        entry["package-ecosystem"]: entry.get("directories", [entry.get("directory")])
        for entry in updates
    }
    assert folders == {"github-actions": ["/"], "docker": ["/"], "pip": ["/", "/deploy"]}


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
    assert route in {getattr(one, "path", None) for one in routes.public.routes}
    assert compile(json.loads(check[check.index("[") :])[2], "HEALTHCHECK", "exec")


def test_the_unit_is_hardened() -> None:
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read(UNIT)
    service = parser["Service"]
    for name in ("DynamicUser", "NoNewPrivileges", "PrivateTmp", "MemoryDenyWriteExecute"):
        assert service[name] == "yes"
    assert service["ProtectSystem"] == "strict"
    assert re.fullmatch(r"\d+[MG]", service["MemoryMax"])
    assert service["CapabilityBoundingSet"] == ""
    assert service["StateDirectory"] == "littlestone"
    assert f"/var/lib/{service['StateDirectory']}/%i.db" in service["ExecStart"]


@needs_systemd
def test_systemd_finds_nothing_wrong_with_the_unit(tmp_path: Path) -> None:
    assert analyze is not None
    # The program is not installed here.
    unit = tmp_path / "littlestone@payments.service"
    unit.write_text(UNIT.read_text().replace("/opt/littlestone/bin/littlestone", "/bin/true"))
    done = subprocess.run([analyze, "verify", "--man=no", unit], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    rated = subprocess.run(
        [analyze, "security", "--offline=true", "--no-pager", "--threshold=15", UNIT],
        capture_output=True,
        text=True,
    )
    assert rated.returncode == 0, rated.stdout[-200:] + rated.stderr


def test_dashboard_and_rules_name_metrics_that_are_there(tmp_path: Path) -> None:
    with running(tmp_path / "run.db") as service:
        service.client.get("/live")  # requests are counted from the first on
        served = service.client.get("/metrics").text
    there = set(re.findall(r"^(littlestone_\w+)", served, flags=re.M))
    panels = json.loads((ROOT / "deploy/grafana-dashboard.json").read_text("utf-8"))["panels"]
    groups = yaml.safe_load((ROOT / "deploy/prometheus-alerts.yml").read_text("utf-8"))["groups"]
    expressions = [target["expr"] for panel in panels for target in panel["targets"]]
    expressions += [rule["expr"] for group in groups for rule in group["rules"]]
    named = {name for each in expressions for name in re.findall(r"littlestone_\w+", each)}
    assert len(named) > 8
    assert named <= there
