"""What a release needs: versions that agree, workflows that can be read, and a paper."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

import littlestone
import release

ROOT = Path(__file__).parents[1]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))


def read(path: Path) -> dict[str, Any]:
    found = yaml.safe_load(path.read_text("utf-8"))
    assert isinstance(found, dict)
    return found


def test_the_version_is_the_same_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    assert release.version() == littlestone.__version__
    assert release.version(f"v{littlestone.__version__}")
    with pytest.raises(SystemExit, match="these versions differ"):
        release.version("v9.9.9")


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_has_few_rights_and_ends(path: Path) -> None:
    flow = read(path)
    assert flow["permissions"] == {"contents": "read"}, "the least; a job asks for more"
    assert True in list[Any](flow), "`on`, which YAML 1.1 reads as a truth value"
    for name, job in flow["jobs"].items():
        assert job["timeout-minutes"] <= 90, name
        for step in job["steps"]:
            assert ("uses" in step) != ("run" in step)
            # Text of an event in a shell is code of whoever wrote it.
            assert "${{ github.event" not in step.get("run", "")
            if step.get("uses", "").startswith("actions/checkout"):
                assert step["with"]["persist-credentials"] is False


def test_a_release_is_published_without_a_stored_secret() -> None:
    flow = read(ROOT / ".github" / "workflows" / "release.yml")
    text = (ROOT / ".github" / "workflows" / "release.yml").read_text("utf-8")
    assert "secrets." not in text
    publish = flow["jobs"]["publish"]
    assert publish["permissions"] == {"id-token": "write"}
    assert publish["steps"][-1]["with"]["attestations"] is True
    needed = {name for name, job in flow["jobs"].items() if job.get("needs") == "build"}
    assert needed == {"publish"}, "only what was checked is published"


def test_the_tests_run_on_every_python_that_the_package_names() -> None:
    flow = read(ROOT / ".github" / "workflows" / "tests.yml")
    matrix = flow["jobs"]["pythons"]["strategy"]["matrix"]
    text = (ROOT / "pyproject.toml").read_text("utf-8")
    named = re.findall(r"Python :: (3\.\d+)", text)
    assert matrix["python"] == named
    assert [one["python"] for one in matrix["include"]] == ["3.14"]


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.stem)
def test_forms_can_be_read(path: Path) -> None:
    form = read(path)
    if path.stem == "config":
        assert form["blank_issues_enabled"] is False
        return
    assert form["name"]
    ids = [one["id"] for one in form["body"] if one["type"] != "markdown"]
    assert len({*ids}) == len(ids)


def test_the_citation_names_what_it_is() -> None:
    cited = read(ROOT / "CITATION.cff")
    assert cited["title"].startswith("littlestone")
    assert cited["cff-version"] == "1.2.0"


def test_the_paper_cites_what_its_bibliography_has() -> None:
    text = (ROOT / "paper" / "paper.md").read_text("utf-8")
    head = yaml.safe_load(text.split("---")[1])
    assert {"title", "tags", "authors", "affiliations", "date", "bibliography"} <= set(head)
    known = re.findall(
        r"^@\w+\{([\w:-]+),", (ROOT / "paper" / head["bibliography"]).read_text(), re.M
    )
    cited = set(re.findall(r"@([\w:-]+\w)", text.split("---", 2)[2]))
    assert cited == set(known), "each is there, and each is cited"
    # What the journal asks for, in this order.
    assert re.findall(r"^# (.+)", text, re.M) == [
        "Summary", "Statement of need", "State of the field", "Software design",
        "Research impact statement", "AI usage disclosure", "Acknowledgements", "References",
    ]  # fmt: skip
    assert 750 <= len(re.sub(r"<!--.*?-->", "", text.split("---", 2)[2]).split()) <= 1750


def test_links_of_the_files_for_visitors_lead_somewhere() -> None:
    for name in ("SECURITY.md", "SUPPORT.md", "CODE_OF_CONDUCT.md", "CHANGELOG.md"):
        text = (ROOT / name).read_text("utf-8")
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text):
            assert (ROOT / target).exists(), f"{name}: {target}"


def test_no_address_of_a_repository_is_named_that_may_not_exist() -> None:
    folders = (".github", "bench", "deploy", "docs", "examples", "paper", "src")
    files = [path for name in folders for path in (ROOT / name).rglob("*") if path.is_file()]
    files += [path for path in ROOT.iterdir() if path.is_file()]
    ours = re.compile(r"(?:github\.com|githubusercontent\.com|github\.io)/littlestone")
    named = [path.name for path in files if ours.search(path.read_text("utf-8", errors="ignore"))]
    assert not named
