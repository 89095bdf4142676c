"""Starting: what is heavy is loaded on use, and what is not installed is asked for."""

import os
import pty
import re
import subprocess
import sys
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

import littlestone
from littlestone._cli.options import OPTIONS
from littlestone._cli.verbs import app
from littlestone._learners.plan_table import USUAL_DELTA
from littlestone._learners.registry import LEARNERS, learner_names, planned_names
from littlestone._simulate.adversaries import ADVERSARIES
from littlestone._store.request import LearnRequest

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
MAIN: Any = get_command(app)
VERBS = list(MAIN.commands)


@pytest.mark.parametrize(
    "start",
    [
        "import sys, littlestone\nprint('LOADED', *sys.modules)",
        HELP,
        *(HELP.replace("'--help'", f"'{verb}', '--help'") for verb in VERBS),
    ],
)
def test_nothing_heavy_is_imported_before_it_is_used(start: str) -> None:
    loaded = set(python(start).split("LOADED")[1].split())
    assert not (HEAVY | OF_LEARNERS) & loaded
    ours = {name for name in loaded if name.startswith("littlestone.")}
    assert ours <= {
        "littlestone._cli", "littlestone._cli.main", "littlestone._cli.options",
        "littlestone._cli.verbs", "littlestone._display", "littlestone.errors",
    }  # fmt: skip


def test_the_first_verbs_are_the_first_to_be_tried() -> None:
    assert VERBS[:3] == ["demo", "init", "learn"]
    shown = subprocess.run(
        [sys.executable, "-m", "littlestone", "--help"], capture_output=True, text=True
    ).stdout
    assert re.findall(r"^  (\w+) ", shown.partition("Begin here:")[2], re.M)[:3] == VERBS[:3]


@pytest.mark.parametrize("words", [[], *([verb] for verb in VERBS)])
def test_help_is_in_panels_and_fits_80_columns(words: list[str]) -> None:
    environment = os.environ | {"COLUMNS": "80"}
    done = subprocess.run(
        [sys.executable, "-m", "littlestone", *words, "--help"],
        capture_output=True, text=True, env=environment,
    )  # fmt: skip
    assert max(map(len, done.stdout.splitlines())) <= 80
    headings = re.findall(r"^(\w[^:\n]*):$", done.stdout, re.M)
    if words in (["learn"], ["serve"]):
        assert headings[1:3] == ["What everybody needs", "Privacy"]
        assert headings[-1] == "Advanced"
    elif not words:
        assert headings == ["Options", "Begin here", "Keep it running", "Understand and check"]


def test_the_shell_completes_verbs_and_options() -> None:
    def completed(line: str) -> list[str]:
        environment = os.environ | {
            "_LITTLESTONE_COMPLETE": "complete_bash",
            "COMP_WORDS": line,
            "COMP_CWORD": str(len(line.split(" ")) - 1),
        }
        start = (
            "import sys; sys.argv[0] = 'littlestone'; import littlestone._cli.main as m; m.main()"
        )
        done = subprocess.run([sys.executable, "-c", start], capture_output=True, env=environment)
        return done.stdout.decode().split()

    assert completed("littlestone le") == ["learn"]
    assert completed("littlestone learn --ho") == ["--horizon"]


def test_the_words_of_options_are_those_of_the_library() -> None:
    """Help is written without importing anything; so defaults and names are compared here."""
    for field in fields(LearnRequest):
        if field.name in OPTIONS and field.default not in (MISSING, None, ()):
            assert OPTIONS[field.name].default == field.default, field.name
    assert OPTIONS["delta"].default == USUAL_DELTA
    words = {
        (verb, option.name): option.help
        for verb, command in MAIN.commands.items()
        for option in command.params
    }
    assert ", ".join(planned_names()) in words["learn", "learner"]
    assert ", ".join(LEARNERS) in words["audit", "learner"]
    assert ", ".join(learner_names()) in words["compare", "learners"]
    assert ", ".join(ADVERSARIES) in words["compare", "streams"]


def on_a_terminal(folder: Path, *words: str, **environment: str) -> str:
    """What a command writes to a terminal of 80 columns."""
    told, terminal = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "littlestone", *words],
        stdin=terminal, stdout=terminal, stderr=terminal, cwd=folder,
        env=os.environ | {"COLUMNS": "80", "TERM": "xterm"} | environment,
    )  # fmt: skip
    os.close(terminal)
    said = b""
    while True:
        try:
            said += os.read(told, 65536)
        except OSError:  # the other end is closed
            break
    os.close(told)
    process.wait()
    return said.decode()


def test_public_and_private_are_told_apart_on_a_terminal(tmp_path: Path) -> None:
    lines = [f"{'bad' if n % 4 else 'good'},{int(bool(n % 4))}" for n in range(4000)]
    tmp_path.joinpath("events.csv").write_text("\n".join(["version,failed", *lines]) + "\n")
    words = ["learn", "events.csv", "--class", "points:version", "--label", "failed"]
    bare = on_a_terminal(tmp_path, *words)
    assert "\x1b[1;32mPUBLIC: " in bare
    assert "\x1b[1;31mPRIVATE: " in bare
    assert "\x1b[1;31m| " in bare.partition("PRIVATE")[2]
    # What was drawn and removed again is not looked at.
    lasting = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", bare.rpartition("\x1b[2K")[2]).splitlines()
    assert max(map(len, lasting)) <= 80
    assert "⠋" in bare
    # A cell of a notebook is a terminal that only grows.
    assert "⠋" not in on_a_terminal(tmp_path, *words, JPY_PARENT_PID="1")


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
