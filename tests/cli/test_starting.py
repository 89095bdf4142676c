"""Starting: what is heavy is loaded on use, and what is not installed is asked for."""

import subprocess
import sys
from pathlib import Path

import pytest

import littlestone
from littlestone._cli.main import VERBS

# What takes long to import. The second set is what rules and learners need: no help needs it.
HEAVY = {
    "jinja2",
    "matplotlib",
    "opendp",
    "pandas",
    "polars",
    "pyarrow",
    "river",
    "scipy",
    "sklearn",
}
OF_LEARNERS = {"numpy", "rich", "sqlite3", "asyncio", "multiprocessing"}
EXTRAS = {"river": "littlestone.river", "sklearn": "littlestone.sklearn"}


def python(code: str) -> str:
    """What a fresh Python prints."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


HELP = "import sys; sys.argv = ['littlestone', '--help']; from littlestone._cli.main import main\n"
HELP += "try:\n    main()\nfinally:\n    print('LOADED', *sys.modules)"


@pytest.mark.parametrize("start", ["import sys, littlestone\nprint('LOADED', *sys.modules)", HELP])
def test_nothing_heavy_is_imported_before_it_is_used(start: str) -> None:
    loaded = set(python(start).split("LOADED")[1].split())
    assert not (HEAVY | OF_LEARNERS) & loaded
    ours = {name for name in loaded if name.startswith("littlestone.")}
    assert ours <= {
        "littlestone._cli", "littlestone._cli.main", "littlestone._display", "littlestone.errors",
    }  # fmt: skip


@pytest.mark.parametrize("verb", VERBS)
def test_the_help_of_a_verb_needs_nothing_heavy(verb: str) -> None:
    shown, loaded = python(HELP.replace("'--help'", f"'{verb}', '--help'")).split("LOADED")
    assert not HEAVY & set(loaded.split())
    # The list of verbs has the same words, without importing the verb.
    assert " ".join(VERBS[verb].split()) in " ".join(shown.split())


def test_each_exported_name_has_a_home() -> None:
    assert {name for name in littlestone.__all__ if not hasattr(littlestone, name)} == set()
    assert set(littlestone.__all__) < set(dir(littlestone))


def test_the_version_is_there_when_asked_for() -> None:
    assert littlestone.__version__[0].isdigit()
    with pytest.raises(AttributeError, match="no attribute 'wersion'"):
        getattr(littlestone, "wersion")  # noqa: B009


@pytest.mark.parametrize("missing", EXTRAS)
def test_an_extra_that_is_not_installed_is_asked_for(missing: str) -> None:
    blocked = f"import sys; sys.modules[{missing!r}] = None\n"
    said = python(
        f"{blocked}try:\n    import {EXTRAS[missing]}\n"
        "except ModuleNotFoundError as error:\n    print(error)"
    )
    assert f"pip install 'littlestone[{missing}]'" in said


def test_each_extra_is_named_in_the_project() -> None:
    project = Path(__file__).parents[2].joinpath("pyproject.toml").read_text(encoding="utf-8")
    for name in ("parquet", *EXTRAS):
        assert f"\n{name} = [" in project


def test_predictions_in_batches_ask_for_pandas() -> None:
    pytest.importorskip("river")
    said = python(
        "import sys; sys.modules['pandas'] = None\n"
        "from littlestone import Points\n"
        "from littlestone.river import SOAClassifier\n"
        "try:\n    SOAClassifier(Points('m')).predict_many({'m': [1]})\n"
        "except ModuleNotFoundError as error:\n    print(error)"
    )
    assert "pip install pandas" in said
