"""`littlestone compare` as its user meets it: every cell once, resumed after a crash, private on a
user's own file, and a sentence for what is wrong."""

import json
import re
import stat
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from commands import Command, littlestone
from effort import EVERYTHING
from littlestone._classes.specs import parse_spec
from littlestone._cli import compare as compare_run
from littlestone._cli.compare import Sweep, cells, finished, notes, render_comparison, spending
from littlestone._data.blocks import BadStream
from littlestone._privacy.parameters import BadParameter
from littlestone._report.figures import BOUND, FLOOR, Chart, Curve, charts
from littlestone._simulate.sweeps import (
    Cell,
    Result,
    median_curve,
    result_from_json,
    run_cell,
    summary_lines,
)


@pytest.fixture
def command() -> Command:
    return partial(littlestone, "compare")


# Every process of a pool takes a second to start.
POOL: list[object] = [] if EVERYTHING else ["--workers", 1]
SMALL = Sweep(
    ["thresholds:x:1:3"], ["soa", "halving"], ["iid", "halving"], [200, 400], [1.0], 1e-6, 2
)


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> list[Cell]:
    """Cells run in this process; the list of those that were."""
    ran = list[Cell]()

    def run(classes: object, stream: object, left: list[Cell], workers: int) -> object:
        for cell in left:
            ran.append(cell)
            yield run_cell(parse_spec(cell.cls), cell)

    monkeypatch.setattr(compare_run, "_run", run)
    return ran


def test_every_cell_is_done_exactly_once_also_after_a_crash(
    here: list[Cell], tmp_path: Path
) -> None:
    path = tmp_path / "sweep.jsonl"
    whole = compare_run.run_sweep(SMALL, resume=path)
    assert len(here) == len(whole) == len({cell.key for cell in here}) == 16
    text = path.read_text()
    assert len(text.splitlines()) == 16
    for cut in (len(text) - 1, len(text) - 40, text.rindex("\n", 0, -1) + 3):
        here.clear()
        path.write_text(text[:cut])
        again = compare_run.run_sweep(SMALL, resume=path)
        assert len(here) == 1, "the cell of the torn line, and no other"
        keys = [json.dumps(json.loads(line)["cell"]) for line in path.read_text().splitlines()]
        assert len(keys) == len(set(keys)) == 16
        assert [result.mistakes for result in again] == [result.mistakes for result in whole]
    here.clear()
    assert len(compare_run.run_sweep(SMALL, resume=path)) == 16
    assert here == []


def missing_or_twice(sweep: Sweep, results: list[Result]) -> bool:
    """Whether the results are not those of the sweep's cells, each once, all seeds in each line."""
    whole = [cell.key for cell in sweep.cells()] == [result.cell.key for result in results]
    return not whole or any(line.seeds != sweep.seeds for line in summary_lines(results))


@pytest.mark.usefixtures("here")
def test_planted_a_comparison_that_drops_or_repeats_a_seed_is_found() -> None:
    results = compare_run.run_sweep(SMALL)
    assert not missing_or_twice(SMALL, results)
    assert missing_or_twice(SMALL, results[:-1])
    assert missing_or_twice(SMALL, [*results[:-1], results[0]])
    assert missing_or_twice(SMALL, [*results, results[0]])
    one_seed = [result for result in results if result.cell.seed == 1]
    assert missing_or_twice(SMALL, one_seed)


def test_a_stopped_sweep_keeps_what_is_done(here: list[Cell], tmp_path: Path) -> None:
    path = tmp_path / "sweep.jsonl"

    def stop(done: int, total: int, result: Result | None) -> None:
        if done == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compare_run.run_sweep(SMALL, resume=path, watch=stop)
    assert len(finished(path)) == 5
    compare_run.run_sweep(SMALL, resume=path)
    assert len(here) == 16


@pytest.mark.parametrize("text", ["merchant,fraud\nM,1\n", "one line and no end", '{"cell": 1}\n'])
def test_a_file_that_is_not_ours_is_refused_and_left_alone(text: str, tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    path.write_text(text)
    with pytest.raises(BadStream, match="give --resume another name"):
        finished(path)
    assert path.read_text() == text


def test_a_result_goes_to_json_and_back() -> None:
    cell = Cell("points:m", "dpsoa", "burst", 500, 4.0, 1e-6, 3)
    result = run_cell(parse_spec("points:m"), cell)
    assert result_from_json(json.loads(json.dumps(result.to_json()))) == result
    assert repr(result) == "Result(dpsoa on burst, private)"
    refused = run_cell(parse_spec("points:m"), Cell("points:m", "halving", "iid", 50, 1.0, 1e-6, 1))
    assert refused.error is not None
    assert "infinitely many rules" in refused.error
    assert cells(summary_lines([refused])[0])[3:5] == ["halving", "cannot"]


def made(learner: str, seed: int, *curve: tuple[int, int], best: int = 0) -> Result:
    cell = Cell("points:m", learner, "iid", curve[-1][0], 1.0, 1e-6, seed)
    return Result(cell, 1, curve[-1][0], curve, best, 0, seed, seconds=2.0, guarantee="")


def test_a_line_is_the_median_and_the_worst_of_its_seeds() -> None:
    results = [made("soa", n, (10, n), (100, 10 * n), best=2) for n in (1, 2, 6)]
    line = summary_lines(results)[0]
    assert (line.seeds, line.median, line.worst, line.excess) == (3, 20, 60, 18)
    assert (line.releases, line.per_second) == (2, 50)
    assert median_curve(results) == [(10, 2), (100, 20)]


def test_pictures_show_the_floor_and_the_bound_and_say_whose_it_is() -> None:
    results = [made("dpsoa", 1, (10, 5), (10**6, 40)), made("soa", 1, (10, 1), (10**6, 1))]
    (chart,) = charts(results)
    names = {curve.name: curve for curve in chart.curves}
    assert list(names) == ["dpsoa", "soa", FLOOR, BOUND]
    assert names[BOUND].points == [(10**5, 23.8), (10**6, 25.9)]
    assert "concentrated" in BOUND
    drawn = {
        line.get_label(): np.asarray(line.get_xydata()).tolist() for line in chart.plot().lines
    }
    assert {name: [*map(tuple, points)] for name, points in drawn.items()} == {
        name: list(curve.points) for name, curve in names.items()
    }
    svg = chart.svg()
    assert svg.startswith("<svg ")
    assert all(f">{name}</text>" in svg for name in names)
    hostile = Chart("a", "<script>", "x", [Curve("<b>", "#4477aa", [(1, 1), (2, 2)])]).svg()
    assert "<script>" not in hostile
    assert "<b>" not in hostile
    short = charts([made("dpsoa", 1, (10, 5), (1000, 40))])
    assert BOUND not in [curve.name for curve in short[0].curves], "unknown, so not drawn"


def test_a_result_plots_its_curve_beside_others() -> None:
    first = made("dpsoa", 1, (10, 5), (1000, 40))
    ax = first.plot()
    assert made("soa", 1, (10, 1), (2000, 1)).plot(ax) is ax
    drawn = {line.get_label(): np.asarray(line.get_xydata()).tolist() for line in ax.lines}
    assert drawn == {"dpsoa": [[10, 5], [1000, 40]], "soa": [[10, 1], [2000, 1]]}
    assert len({line.get_color() for line in ax.lines}) == 2
    assert ax.get_xlim() == (0, 2000)


def test_hostile_text_stays_text_on_the_page_and_in_the_files() -> None:
    hostile = "points:</title><script>x</script>\u202e$_$"
    cell = Cell(hostile, "soa", "iid", 100, 1.0, 1e-6, 1)
    refused = Result(replace(cell, learner="halving"), 1, error=hostile)
    results = [Result(cell, 1, 100, ((1, 0), (100, 3)), 0, 0, 1, seconds=2.0), refused]
    sweep = Sweep([hostile], ["soa"], ["iid"], [100], [1.0], 1e-6, 1)
    page, (chart,) = render_comparison(sweep, results, hostile), charts(results)
    for written in (page, chart.svg()):
        assert "<script" not in written
        assert "\u202e" not in written
        assert "&lt;script&gt;x&lt;/script&gt;\\u202e$_$" in written
    assert page.count("&lt;script&gt;") >= 5, "the heading, captions, the table, the command"


def test_a_comparison_on_made_up_streams(command: Command, tmp_path: Path) -> None:
    page, folder = tmp_path / "page.html", tmp_path / "figures"
    done = command("--class", "points:m", "--class", "sets:m:2", "--learners", "dpsoa,soa,halving",
                   "--streams", "halving,mirror", "--rounds", "300,600", "--epsilon", "8",
                   "--seeds", 2, "--html", page, "--figures", folder, *POOL)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "PRIVATE" not in done.stdout
    assert "halving on halving, mirror: Points(column='m') has infinitely many rules" in done.stdout
    rows = [line.split() for line in done.stdout.splitlines()]
    assert ["mirror", "600", "8", "soa", "2", "2", "2", "2"] in [row[:8] for row in rows]
    text = page.read_text()
    assert "http" not in text.replace("http-equiv", "")
    assert text.count("<svg") == len(list(folder.iterdir()))
    idents = re.findall(r'\sid="([^"]*)"', text)
    assert len(idents) == len(set(idents)) > 0, "figures of one page share no identifier"
    assert "<script" not in text
    names = {path.name for path in folder.iterdir()}
    assert {"rounds-1.svg", "horizon-1.svg", "dimension-1.svg"} <= names


def test_a_users_file_is_private(command: Command, tmp_path: Path) -> None:
    path, page, sweep = (tmp_path / name for name in ("e.csv", "page.html", "sweep.jsonl"))
    rows = [f"M{n % 5},{int(n % 5 == 3)}" for n in range(1500)] + ["M1,perhaps"]
    path.write_text("\n".join(["merchant,fraud", *rows]) + "\n")
    asked = ["--class", "points:merchant", "--file", path, "--label", "fraud", "--learners",
             "dpsoa,soa", "--epsilon", "1,2", "--seeds", 2, *POOL]  # fmt: skip
    done = command(*asked, "--html", page, "--resume", sweep)
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    assert done.stderr.startswith("PRIVATE: for studying, not for publishing.")
    assert "6 in all" in done.stderr
    assert "soa follow the data without noise" in done.stderr
    assert "file 1,500 1 dpsoa" in " ".join(done.stderr.split())
    assert "PRIVATE" in page.read_text().split("<main>")[0].split("<body>")[1]
    for written in (page, sweep):
        assert stat.S_IMODE(written.stat().st_mode) == 0o600
    again = command(*asked, "--private-json", tmp_path / "private.json", "--resume", sweep)
    assert again.returncode == 0, again.stderr
    data = json.loads((tmp_path / "private.json").read_text())
    assert data["private"].startswith("PRIVATE")
    assert [line["excess"] for line in data["lines"] if line["learner"] == "soa"] == [1, 1]
    path.write_text(path.read_text().replace("M1,0", "M9,0", 1))
    assert len(sweep.read_text().splitlines()) == 8
    command(*asked, "--resume", sweep)
    assert len(sweep.read_text().splitlines()) == 16, "another file is another stream"


def test_a_vacuous_learner_is_called_so() -> None:
    asked = [("adaptive", 1.0, 60), ("every-round", 1.0, 60), ("adaptive", 1.0, 50), ("soa", 1, 60)]
    results = [
        run_cell(parse_spec("points:m"), Cell("points:m", learner, "iid", rounds, epsilon, 1e-6, 1))
        for learner, epsilon, rounds in asked
    ]
    sweep = Sweep(["points:m"], ["adaptive"], ["iid"], [50, 60], [1.0], 1e-6, 1)
    adaptive, every_round = notes(sweep, results)
    assert adaptive.startswith("adaptive at epsilon 1 is vacuous: the first rule will stand")
    assert "T = 50, 60" in adaptive
    assert every_round.startswith("every-round at epsilon 1 is vacuous")
    assert "adaptive at epsilon 1 is vacuous" in render_comparison(sweep, results, "")
    enough = Cell("points:m", "adaptive", "iid", 60, 200.0, 1e-3, 1)
    assert notes(sweep, [run_cell(parse_spec("points:m"), enough)]) == []


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--learners", "soa,oracle"], "no learner is called 'oracle': there are auto, dpsoa"),
        (["--streams", "calm"], "no stream is called 'calm': there are iid"),
        (["--rounds", "many"], "--rounds is one or more whole numbers with commas between"),
        (["--rounds", "1.5"], "--rounds is one or more whole numbers with commas between"),
        (["--rounds", "0"], "--rounds is one or more numbers above zero"),
        (["--epsilon", "-1"], "--epsilon is one or more numbers above zero"),
        (["--seeds", "0"], "--seeds is at least 1, not 0"),
        (["--noise", "1"], "--noise is at least 0 and below 1, not 1"),
        (["--delta", "0"], "delta must lie strictly between 0 and 1, not 0.0"),
        (["--file", "x.csv"], "--file and --label go together"),
        (["--file", "x", "--label", "y", "--figures", "f"], "--figures are for publishing"),
        (["--file", "-", "--label", "y", "--resume", "r"], "only a file that can be read again"),
    ],
)
def test_what_is_wrong_is_a_sentence(
    command: Command, arguments: list[str], sentence: str, tmp_path: Path
) -> None:
    done = command("--class", "points:m", *arguments)
    assert done.returncode == 2
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr
    assert not done.stdout


def test_spending_adds_up_and_the_page_names_its_command() -> None:
    sweep = Sweep(
        ["points:m"], ["dpsoa", "soa"], ["iid"], [10], [1.0, 2.0], 1e-6, 3, 0, 0, "f", "y"
    )
    assert "9 in all" in spending(sweep)
    results = [made("soa", 1, (10, 1))]
    assert "littlestone compare &lt;x&gt;" in render_comparison(
        sweep, results, "littlestone compare <x>"
    )
    with pytest.raises(BadParameter, match="one --class and no --noise"):
        Sweep(["points:m"], ["soa"], ["iid"], [10], [1.0], 1e-6, 1, 0.1, 0, "f", "y")
