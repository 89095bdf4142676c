"""Starting: what is heavy is loaded on use, and what is not installed is asked for."""

import subprocess
import sys
from pathlib import Path

import pytest

import littlestone

HEAVY = {
    "opendp",
    "pandas",
    "polars",
    "pyarrow",
    "river",
    "scipy",
    "sklearn",
    "matplotlib",
    "jinja2",
}
EXTRAS = {"river": "littlestone.river", "sklearn": "littlestone.sklearn"}


def python(code: str) -> str:
    """What a fresh Python prints."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("module", ["littlestone", "littlestone._cli.main"])
def test_nothing_heavy_is_imported_before_it_is_used(module: str) -> None:
    loaded = python(f"import sys, {module}; print(*sys.modules)").split()
    assert not HEAVY & set(loaded)


def test_help_runs_without_what_one_verb_needs() -> None:
    loaded = python("import sys, littlestone._cli.main; print(*sys.modules)").split()
    late = {"cli.learn_run", "cli.audit_run", "audit", "ray.rows", "service"}
    assert not {f"littlestone.{name}" for name in late} & set(loaded)
    assert "littlestone._cli.learn" in loaded, "these names are those of modules"


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
