"""The documentation site: it builds without a warning, and holds every public name."""

import inspect
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
from bench.drawings import theory
from numpydoc.docscrape import NumpyDocString
from sphinx.util.inventory import InventoryFile

DOCS = Path(__file__).parents[1] / "docs"
MODULES = ["littlestone", "littlestone.river", "littlestone.sklearn"]


def build(source: Path, out: Path) -> subprocess.CompletedProcess[str]:
    """Build a site as `make docs` does."""
    options = ["-W", "--keep-going", "-q", "-d", str(out / "doctrees")]
    command = [sys.executable, "-m", "sphinx", *options, str(source), str(out / "site")]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("docs")
    done = build(DOCS, out)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return out / "site"


def public_names() -> list[str]:
    return [f"{name}.{one}" for name in MODULES for one in import_module(name).__all__]


def parameters(thing: object) -> set[str]:
    """Return the names of what a public class or function is called with."""
    if not callable(thing) or (inspect.isclass(thing) and issubclass(thing, Exception)):
        return set()
    found = inspect.signature(thing).parameters.values()
    anything = inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL
    return {one.name for one in found if one.kind not in anything}


def documented(thing: object) -> set[str]:
    """Return the names in the section Parameters of a docstring."""
    listed = NumpyDocString(inspect.getdoc(thing) or "")["Parameters"]
    return {name.lstrip("*") for one in listed for name in one.name.split(", ")}


@pytest.mark.slow
def test_every_public_name_is_in_the_reference(site: Path) -> None:
    with (site / "objects.inv").open("rb") as file:
        inventory = InventoryFile.load(file, "", lambda base, path: path)
    kinds = [kind for kind in inventory if kind.startswith("py:")]
    where = {name: item.uri for kind in kinds for name, item in inventory[kind].items()}
    assert [name for name in public_names() if name not in where] == []
    assert len(public_names()) > 70
    for name in public_names():
        page, _, anchor = where[name].partition("#")
        assert page.startswith("reference/")
        module, _, own = name.rpartition(".")
        thing = getattr(import_module(module), own)
        if inspect.isclass(thing) or inspect.isroutine(thing):
            assert page == f"reference/api/{name}.html", "a page of its own"
        assert f'id="{anchor.replace("$", name)}"' in (site / page).read_text("utf-8"), name


def test_every_parameter_of_a_public_name_is_documented() -> None:
    for name in public_names():
        module, _, own = name.rpartition(".")
        thing = getattr(import_module(module), own)
        if inspect.isclass(thing) or inspect.isroutine(thing):
            assert parameters(thing) <= documented(thing), name


def test_a_parameter_that_is_not_documented_is_found() -> None:
    def halve(count: int, twice: bool) -> None:
        """Halve.

        Parameters
        ----------
        count : int
            How many.
        """

    assert parameters(halve) - documented(halve) == {"twice"}


@pytest.mark.slow
def test_a_page_loads_nothing_from_elsewhere(site: Path) -> None:
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 25
    remote = re.compile(r"<(?:script|link|img|iframe)[^>]*(?:src|href)=\"(?:https?:)?//[^\"]*")
    for page in pages:
        assert remote.findall(page.read_text("utf-8")) == [], page.name


def test_a_broken_link_is_an_error(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "conf.py").write_text('extensions = ["myst_parser"]\n')
    (source / "index.md").write_text("# A page\n\n[nowhere](nowhere.md)\n")
    done = build(source, tmp_path)
    assert done.returncode == 1
    assert "nowhere.md" in done.stderr


def test_the_figures_of_the_theory_are_current() -> None:
    """Their titles say what the curves come to, whatever the version of matplotlib draws."""
    title = re.compile(r"<title[^>]*>(.*?)</title>", re.S)
    for name, picture in theory().items():
        stored = (DOCS / "figures" / "theory" / f"{name}.svg").read_text("utf-8")
        assert title.findall(stored) == title.findall(picture) != [], "run `make figures`"
