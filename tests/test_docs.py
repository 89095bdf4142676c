"""Documentation that runs: every ```console block, command by command, and what it should print.

Python blocks run as doctests. Each document has a folder of its own, in which its commands follow
each other. `...` stands for anything, as in a doctest.
"""

import ast
import doctest
import os
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import nbclient
import nbformat
import pytest

from console import Step, steps
from generate import PAGES

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
DOCUMENTS = [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "CONTRIBUTING.md", README]
NOT_HERE = ("make ", "pip ", "git ", "source ")
"""Commands that set the machine up, which has been done."""

FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


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
            same = doctest.OutputChecker().check_output(step.output, found, FLAGS)
            assert same, f"$ {step.command}\n{found}"


def test_a_command_that_fails_or_prints_something_else_is_found_out(tmp_path: Path) -> None:
    text = "```console\n$ echo one \\\n    two\none three\n$ false\n```\n"
    first, second = steps(text)
    assert run(first, tmp_path) == "one two\n"
    assert not doctest.OutputChecker().check_output(first.output, "one two\n", FLAGS)
    with pytest.raises(AssertionError, match="false"):
        run(second, tmp_path)


@pytest.mark.parametrize("page", PAGES)
def test_pages_that_are_made_are_up_to_date(page: str) -> None:
    assert (ROOT / "docs" / page).read_text("utf-8") == PAGES[page](), "run `make docs`"


@pytest.mark.slow
def test_the_notebook_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scripts = str(Path(sys.executable).parent)
    monkeypatch.setenv("PATH", f"{scripts}:{os.environ['PATH']}")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    book = nbformat.read(ROOT / "docs" / "tutorial.ipynb", as_version=4)
    nbclient.NotebookClient(book, resources={"metadata": {"path": str(tmp_path)}}).execute()
    printed = [output.get("text", "") for cell in book.cells for output in cell.get("outputs", [])]
    assert sum("version = '4.2.1'" in text for text in printed) >= 3
    shown = [output.get("data", {}) for cell in book.cells for output in cell.get("outputs", [])]
    assert any("image/png" in data for data in shown), "a plot"


LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")


def test_links_between_documents_lead_somewhere() -> None:
    for path in DOCUMENTS:
        for target in LINK.findall(path.read_text("utf-8")):
            assert (path.parent / target).exists(), f"{path.name}: {target}"


NAMED = re.compile(r"`((?:_[a-z]+|tests|docs|proofs|paper)/[\w/.]+\.\w+)`")


def test_the_files_that_a_document_names_exist() -> None:
    for path in DOCUMENTS:
        for name in NAMED.findall(path.read_text("utf-8")):
            found = [folder / name for folder in (ROOT, ROOT / "src" / "littlestone")]
            assert any(one.exists() for one in found), f"{path.name}: {name}"


HOME = "https://github.com/littlestone/littlestone"
RAW = "https://raw.githubusercontent.com/littlestone/littlestone/main/"
OURS = re.compile(f"^({HOME}/blob/main/|{RAW})")


def test_the_links_of_the_readme_also_work_on_a_package_index() -> None:
    """There is no folder beside it there: its links are absolute, and of this repository."""
    text = README.read_text("utf-8")
    assert not LINK.findall(text), "a relative link: use [docs/NAME.md], and define it at the end"
    defined = dict(re.findall(r"^\[([^\]]+)\]: (\S+)$", text, re.M))
    prose = re.sub(r"^(```.*?^```|    .*?$)", "", text, flags=re.S | re.M)
    used = set(re.findall(r"\[((?:docs/|[A-Z]+\.)[\w./#-]+)\]", prose))
    assert used == set(defined), "each is defined, and each definition is used"
    for name, address in defined.items():
        target = OURS.sub("", address)
        assert target != address, f"{name} is not a file of this repository: {address}"
        assert target == name
        assert (ROOT / target.partition("#")[0]).exists(), target
        if anchor := target.partition("#")[2]:
            headings = re.findall(r"^#+ (.*)$", (ROOT / target.partition("#")[0]).read_text(), re.M)
            assert anchor in {heading.lower().replace(" ", "-") for heading in headings}


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
    assert unknown_names("`Forest` and `Forrest`, `Tree.generation` and `Tree.age`") == [
        "Forrest",
        "Tree.age",
    ]


def test_the_code_of_a_theorem_is_where_the_guarantee_says() -> None:
    text = (ROOT / "docs" / "guarantee.md").read_text("utf-8")
    theorems = re.findall(r"^## (?:Lemma|Theorem) .*?(?=^## |\Z)", text, re.S | re.M)
    assert len(theorems) == 19
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
