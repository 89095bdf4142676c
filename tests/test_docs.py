"""Documentation that runs: every ```console block, command by command, and what it should print.

Python blocks run as doctests. Each document has a folder of its own, in which its commands follow
each other. `...` stands for anything, as in a doctest.
"""

import ast
import json
import os
import re
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from bench.__main__ import PARTS
from bench.shape import code_lines

from console import Step, prints, steps
from generate import PAGES, run_notebook, without_outputs

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
DOCUMENTS = [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "CONTRIBUTING.md", README]
NOT_HERE = ("make ", "pip ", "git ", "source ")
"""Commands that set the machine up, which has been done."""


def run(step: Step, folder: Path) -> str:
    scripts = str(Path(sys.executable).parent)
    done = subprocess.run(
        ["bash", "-c", step.command],
        cwd=folder,
        capture_output=True,
        text=True,
        env={**os.environ, "PATH": f"{scripts}:{os.environ['PATH']}", "COLUMNS": "120"},
    )
    assert done.returncode == 0, f"$ {step.command}\n{done.stdout}{done.stderr}"
    return done.stdout


WITH_COMMANDS = [
    pytest.param(path, id=path.name, marks=[] if path == README else pytest.mark.slow)
    for path in DOCUMENTS
    if list(steps(path.read_text("utf-8")))
]


@pytest.mark.parametrize("path", WITH_COMMANDS)
def test_the_commands_of_a_document_print_what_it_says(path: Path, tmp_path: Path) -> None:
    for step in steps(path.read_text("utf-8")):
        if step.command.startswith(NOT_HERE):
            continue
        found = run(step, tmp_path)
        if step.output.strip():
            assert prints(step, found), f"$ {step.command}\n{found}"


def test_a_command_that_fails_or_prints_something_else_is_found_out(tmp_path: Path) -> None:
    text = "```console\n$ echo one \\\n    two\none three\n$ false\n```\n"
    first, second = steps(text)
    assert run(first, tmp_path) == "one two\n"
    assert not prints(first, "one two\n")
    with pytest.raises(AssertionError, match="false"):
        run(second, tmp_path)


def test_only_the_numbers_of_what_is_learned_may_differ() -> None:
    said = "  65,641  version = '4.2.1'  30.3%  ####\n"
    learned, planned = Step("littlestone learn events.csv", said), Step("littlestone plan", said)
    assert prints(learned, "  7  version = '4.2.1'  29%  ##\n")
    assert not prints(learned, "  7  version = '4.2.0'  29%  ##\n")
    assert not prints(learned, "  7  version = '4.2.1'  29%  ##  2.4%\n")
    assert prints(planned, said)
    why = "a cause has to beat a rate of 2.0%, {}\n  quoted\n"
    both = Step("littlestone learn events.csv", why.format("the least that is asked"))
    assert prints(both, why.format("twice the odds of all rows"))
    assert not prints(both, why.format("the least that is asked").replace("quoted", "kept"))
    assert not prints(planned, said.replace("30.3", "30.4"))


@pytest.mark.parametrize("page", PAGES)
def test_pages_that_are_made_are_up_to_date(page: str) -> None:
    stored = (ROOT / "docs" / page).read_text("utf-8")
    source = without_outputs(stored) if page.endswith(".ipynb") else stored
    assert source == PAGES[page](), "run `make docs`"


def outputs(book: str) -> list[dict[str, Any]]:
    """Return what the cells of a notebook show, which it must have been run for."""
    cells = [cell for cell in json.loads(book)["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    return [output for cell in cells for output in cell["outputs"]]


def shows_the_culprit(book: str) -> bool:
    shown = outputs(book)
    named = sum("version = '4.2.1'" in "".join(output.get("text", "")) for output in shown)
    return named >= 3 and any("image/png" in output.get("data", {}) for output in shown)


def test_the_notebook_is_stored_with_what_it_shows() -> None:
    assert shows_the_culprit((ROOT / "docs" / "tutorial.ipynb").read_text("utf-8"))


@pytest.mark.slow
def test_the_notebook_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With nothing but its kernel chosen: no environment is active."""
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    assert shows_the_culprit(run_notebook(PAGES["tutorial.ipynb"]()))


LINK = re.compile(r"(?:\]\(|<img src=\")([^)#:\"]+)(?:#[^)]*)?[)\"]")
ANCHOR = re.compile(r"\]\(([^)#:]*\.md)#([^)]+)\)")


def test_links_between_documents_lead_somewhere() -> None:
    for path in DOCUMENTS:
        text = path.read_text("utf-8")
        for target in LINK.findall(text):
            assert (path.parent / target).exists(), f"{path.name}: {target}"
        for target, anchor in ANCHOR.findall(text):
            headings = re.findall(r"^#+ (.*)$", (path.parent / target).read_text("utf-8"), re.M)
            made = {re.sub(r"[^\w -]", "", head).lower().replace(" ", "-") for head in headings}
            assert anchor in made, f"{path.name}: {target}#{anchor}"


NAMED = re.compile(r"`((?:_[a-z]+|tests|docs|proofs|paper)/[\w/.]+\.\w+)`")


def test_the_files_that_a_document_names_exist() -> None:
    for path in DOCUMENTS:
        for name in NAMED.findall(path.read_text("utf-8")):
            found = [folder / name for folder in (ROOT, ROOT / "src" / "littlestone")]
            assert any(one.exists() for one in found), f"{path.name}: {name}"


BENCH, MAKE = re.compile(r"`python -m bench\s(\w+)"), re.compile(r"`make (\w[\w-]*)")


def test_every_table_and_figure_of_the_results_is_in_a_section_that_names_a_command() -> None:
    text = (ROOT / "docs" / "results.md").read_text("utf-8")
    sections = re.split(r"^## ", text, flags=re.M)[1:]
    measured = [section for section in sections if re.search(r"^(?:\||!\[)", section, re.M)]
    assert len(measured) > 8
    for section in measured:
        assert BENCH.search(section) or MAKE.search(section), section[:60]


def test_the_commands_that_documents_name_exist() -> None:
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text("utf-8"), re.M)
    for path in DOCUMENTS:
        text = path.read_text("utf-8")
        assert set(BENCH.findall(text)) <= set(PARTS), path.name
        assert set(MAKE.findall(text)) <= set(targets), path.name


def test_the_links_of_the_readme_are_absolute_on_a_package_index() -> None:
    """There is no folder beside it there; each is the file of this tree that it is here."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    hook = project["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]
    text = README.read_text("utf-8")
    here = LINK.findall(text)
    assert len(here) > 20
    for rule in hook["substitutions"]:
        text = re.sub(rule["pattern"], rule["replacement"], text)
    assert not LINK.findall(text)
    there = re.findall(r"repository\.invalid/(?:raw|blob)/v\$HFPR_VERSION/([^)#]+)", text)
    assert there == here
    shown = re.findall(r"!\[[^\]]*\]\((https://repository\.invalid/\w+)/", text)
    assert set(shown) == {"https://repository.invalid/raw"}, "pages are no pictures"


def test_the_badges_of_the_readme_are_true() -> None:
    text, project = README.read_text("utf-8"), (ROOT / "pyproject.toml").read_text("utf-8")
    pythons = re.findall(r"Python :: (3\.\d+)", project)
    badges = re.findall(r"!\[([^\]]*)\]\(https://img\.shields\.io/badge/([^)]*)-\w+\)", text)
    assert badges == [
        (f"Python {pythons[0]} to {pythons[-1]}", f"python-{pythons[0]}_to_{pythons[-1]}"),
        ("Licence: MIT", "licence-MIT"),
    ]
    assert 'license = "MIT"' in project


CODE = re.compile(r"`([a-z_]+/[a-z_]+\.py)`:((?:\s+`[\w.]+`,?)+)")


def package_names() -> dict[str, set[str]]:
    """Every top-level name of the package, with the names that its class defines or inherits."""
    found: dict[str, set[str]] = {}
    for path in sorted((ROOT / "src" / "littlestone").rglob("*.py")):
        for node in ast.parse(path.read_text("utf-8")).body:
            for name in _bound(node):
                found.setdefault(name, set()).update(_members(node))
    return found


def _bound(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else []
    targets = [node.target] if isinstance(node, ast.AnnAssign) else targets
    return [target.id for target in targets if isinstance(target, ast.Name)]


def _members(node: ast.stmt) -> set[str]:
    return {
        item.attr if isinstance(item, ast.Attribute) else getattr(item, "name", "")
        for item in ast.walk(node)
        if isinstance(item, ast.Attribute | ast.FunctionDef)
    } | {name for item in getattr(node, "body", []) for name in _bound(item)}


def unknown_names(text: str) -> list[str]:
    """The names in backticks of a text that the package does not have."""
    known = package_names()
    return [
        name
        for name in re.findall(r"`([A-Za-z_]\w*(?:\.\w+)?)`", text)
        if len(name) > 1
        and (name.partition(".")[0] not in known or not _has(known, *name.partition(".")[::2]))
    ]


def _has(known: dict[str, set[str]], owner: str, member: str) -> bool:
    return not member or member in known[owner]


def test_the_names_of_the_glossary_exist() -> None:
    assert unknown_names((ROOT / "docs" / "glossary.md").read_text("utf-8")) == []
    assert unknown_names("`Forest` and `Forrest`, `Forest.votes` and `Forest.age`") == [
        "Forrest",
        "Forest.age",
    ]


def test_the_code_of_a_theorem_is_where_the_guarantee_says() -> None:
    text = (ROOT / "docs" / "guarantee.md").read_text("utf-8")
    theorems = re.findall(r"^## (?:Lemma|Theorem) .*?(?=^## |\Z)", text, re.S | re.M)
    assert len(theorems) == 21
    for theorem in theorems:
        named = CODE.findall(theorem)
        assert named, theorem[:40]
        for file, names in named:
            module = import_module(f"littlestone.{file[:-3].replace('/', '.')}")
            for name in re.findall(r"`([\w.]+)`", names):
                found: object = module
                for part in name.split("."):
                    assert hasattr(found, part), f"{file}: {name}"
                    found = getattr(found, part)


PATH_ROW = re.compile(r"^\| `([\w/]+\.py)` \| `([\w.]+)`, `([\w.]+)` \| (\d+)-(\d+) \|", re.M)


def spans(node: ast.AST, owner: str = "") -> dict[str, tuple[int, int]]:
    """The first and last line of every function and class, decorators included."""
    found: dict[str, tuple[int, int]] = {}
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef | ast.FunctionDef):
            name = owner + child.name
            first = min([child.lineno, *(mark.lineno for mark in child.decorator_list)])
            found[name] = first, child.end_lineno or first
            found |= spans(child, f"{name}.")
    return found


def test_the_path_of_a_reviewer_names_the_lines_and_how_many_they_are() -> None:
    text = (ROOT / "docs" / "trust.md").read_text("utf-8")
    rows = PATH_ROW.findall(text)
    assert len(rows) == 19
    along = {True: 0, False: 0}
    for file, start, end, first, last in rows:
        source = (ROOT / "src" / "littlestone" / file).read_text("utf-8")
        tree = ast.parse(source)
        lines = spans(tree)
        here = lines[start][0], lines[end][1]
        assert (int(first), int(last)) == here, f"{file}: {start} to {end} is {here}"
        counted = code_lines(source, tree) & set(range(here[0], here[1] + 1))
        along[file.startswith("_privacy/")] += len(counted)
    decides, beside = along[True], along[False]
    stated = re.sub(r"\s+", " ", text)
    assert (
        f"the {decides:,} below decide privacy, with {beside} of two files beside them: "
        f"{decides + beside:,} lines"
    ) in stated, along
    whole = sum(
        len(code_lines(source, ast.parse(source)))
        for path in (ROOT / "src" / "littlestone" / "_privacy").glob("*.py")
        for source in [path.read_text("utf-8")]
    )
    assert f"The package `_privacy` has {whole:,} lines of code" in stated, whole
