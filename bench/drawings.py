"""Make every picture of docs/ that is not of a benchmark, or those of the parts that are named.

`python -m bench.drawings theory` draws the figures of docs/theory.md, with `SeededNoise`: NOT PRIVATE.
`examples` runs the programs of examples/, and `screens` takes pictures of the page and the report of
the tutorial's learners, which needs Chromium. The noise of both is secret and fresh.
"""

import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import numpy as np

import littlestone as ls
from bench.charts import Chart, Curve
from littlestone._classes.dimension import Leaf, MistakeTree, describe, paths
from littlestone._display import clipped
from littlestone._hypotheses.rows import part_of
from littlestone._plots import COLOURS, INK, LETTERS, SOFT, new_figure, svg_file
from littlestone._privacy.testing import SeededNoise
from littlestone._simulate.adversaries import halving
from littlestone._simulate.streams import Stream

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from playwright.sync_api import FloatRect, Page

FIGURES = Path("docs/figures").absolute()
ROUNDS, CUTS = 20_000, 7
LONGEST = 18


def theory() -> dict[str, str]:
    """Return the figures of docs/theory.md by name, as text of SVG files."""
    tree = ls.witness(ls.Thresholds(1, CUTS))
    title = f"A shattered mistake tree of the thresholds on {CUTS} points"
    return {
        "tree": svg_file(tree_figure(tree), "tree", title),
        "learners": learners().svg(),
        "votes": votes().svg(),
    }


def draw_theory() -> None:
    """Write the figures of docs/theory.md."""
    for name, picture in theory().items():
        (FIGURES / "theory" / f"{name}.svg").write_text(picture, encoding="utf-8")


def run_examples() -> None:
    """Have each program of examples/ draw its picture."""
    for picture in sorted((FIGURES / "examples").glob("*.svg")):
        with TemporaryDirectory() as folder:
            _run(f"examples/{picture.stem}.py", folder)
            shutil.copy(Path(folder) / picture.name, picture)


# Of the pictures of pages, in pixels: narrow, so that letters are large enough in a document.
WIDTH = 960
CLASS = "causes:version,country,device,carrier,language"


def take_screens() -> None:
    """Take pictures of the report and the page that docs/tutorial.md leads to."""
    from playwright.sync_api import expect, sync_playwright

    browser = next(filter(None, map(shutil.which, ("chromium", "google-chrome"))), None)
    with TemporaryDirectory() as folder, sync_playwright() as playwright:
        place = Path(folder)
        _run("-m", "littlestone", "demo", "--out", "demo", place=place)
        learn = ["-m", "littlestone", "learn", "demo/events.csv"]
        learn += ["--class", CLASS, "--label", "failed", "--delta", "1e-7"]
        _run(*learn, "--report", "report.html", place=place)
        _run(*learn, "--horizon", "1000000", "--db", "run.db", place=place)
        chromium = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        screen = chromium.new_page(viewport={"width": WIDTH, "height": 960})
        with _served(place / "run.db") as address:
            screen.goto(address)
            expect(screen.locator("#status")).to_have_text("live")
            _down_to(screen, "#stood", FIGURES / "headline.png")
            _down_to(screen, "#worth", FIGURES / "page.png")
        screen.goto((place / "report.html").as_uri())
        _down_to(screen, "figure >> nth=0", FIGURES / "report.png")
        chromium.close()


def _down_to(screen: "Page", last: str, path: Path) -> None:
    """Take a picture of a page that ends below one of its elements."""
    box = screen.locator(last).bounding_box()
    assert box is not None
    height = box["y"] + box["height"] + 24
    clip: FloatRect = {"x": 0, "y": 0, "width": WIDTH, "height": height}
    screen.screenshot(path=path, clip=clip, full_page=True)


@contextmanager
def _served(store: Path) -> Iterator[str]:
    """Serve a store while the block runs, and give its address."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    command = [sys.executable, "-m", "littlestone", "serve", str(store), "--port", port]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as service:
        assert service.stdout is not None
        try:
            next(line for line in service.stdout if port in line)
            yield f"http://127.0.0.1:{port}/"
        finally:
            service.terminate()


def _run(*words: str, place: Path | None = None) -> None:
    command = [sys.executable, *words]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=place)


def learners() -> Chart:
    """Mistakes so far, down a path of the tree above."""
    cls = ls.Thresholds(1, CUTS)
    stream = halving(cls, ROUNDS, seed=1)
    private: dict[str, ls.DPSOA | ls.PrivateExperts] = {
        "DPSOA": ls.DPSOA(cls, 1, 1e-7, ROUNDS, seed=1, noise=SeededNoise(1)),
        "PrivateExperts": ls.PrivateExperts(cls, 1, ROUNDS, seed=1, noise=SeededNoise(1)),
    }
    curves = [
        Curve(f"{name}, epsilon 1", COLOURS[n], _mistakes(learner, stream))
        for n, (name, learner) in enumerate(private.items())
    ]
    curves.append(Curve("SOA, not private", COLOURS[2], _mistakes(ls.SOA(cls), stream)))
    ends = [(1.0, float(cls.dimension)), (float(ROUNDS), float(cls.dimension))]
    curves.append(Curve("the dimension", SOFT, ends, ":"))
    return Chart("learners", "Mistakes so far on the halving stream, d = 3", "rounds", curves)


def _mistakes(
    learner: ls.DPSOA | ls.PrivateExperts | ls.SOA, stream: Stream
) -> list[tuple[float, float]]:
    points = [(1.0, 0.0)]
    edges = np.unique(np.geomspace(1, ROUNDS, 160).astype(int))
    for start, stop in zip([0, *edges], edges, strict=False):
        part = slice(int(start), int(stop))
        learner.learn_many(part_of(stream.batch, part), stream.answers[part])
        points.append((float(stop), float(learner.mistakes)))
    return points


def votes() -> Chart:
    """The votes of a forest for the culprit, and when it is published."""
    plan = ls.Plan.practical(ls.Points("merchant"), 1, 1e-7, ROUNDS)
    learner = ls.DPSOA(ls.Points("merchant"), plan=plan, seed=1, noise=SeededNoise(1))
    draw = np.random.default_rng(1)
    culprit, for_it, published = ls.one_of(["M7"], "merchant"), list[tuple[float, float]](), 0
    for start in range(0, 1500, 10):
        column = draw.choice(["M1", "M2", "M3", "M7"], 10, p=[0.35, 0.35, 0.24, 0.06])
        learner.learn_many({"merchant": column}, column == "M7")
        if learner.hypothesis == culprit:
            published = published or start + 10
            break
        for_it.append((start + 10.0, float(learner.votes.get(culprit, 0))))
    needed = float(plan.votes_needed)
    curves = [
        Curve(f"votes for {culprit}, of {plan.trees} trees", COLOURS[0], for_it),
        Curve("votes that are named 19 times in 20", INK, _level(needed, for_it), "-."),
        Curve("mistakes at which the gate looks", SOFT, _level(plan.thresholds[0], for_it), ":"),
    ]
    title = f"Copies come to agree; published from round {published:,} on"
    return Chart(
        "votes", title, "rounds", curves, log_across=False, at=[250, 500, 750, 1000], up="votes"
    )


def _level(value: float, points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    return [(points[0][0], value), (points[-1][0], value)]


def tree_figure(tree: MistakeTree) -> "Figure":
    """Draw a mistake tree from left to right, with a rule in each leaf."""
    leaves = len(list(paths(tree)))
    figure = new_figure(0.3 * leaves)
    ax = figure.subplots()
    ax.set_axis_off()
    ax.set_xlim(0, 1 + np.log2(leaves))
    ax.set_ylim(leaves, 0)
    _draw_tree(ax, tree, 0, 0.0, float(leaves))
    return figure


def _draw_tree(ax: "Axes", tree: MistakeTree, level: int, top: float, rows: float) -> None:
    """Draw a tree whose leaves fill `rows` rows from `top` on."""
    middle = top + rows / 2
    if isinstance(tree, Leaf):
        ax.text(level, middle, str(tree.rule), color=INK, fontsize=LETTERS, va="center")
        return
    asked = clipped(describe(tree.point) + " ?", LONGEST)
    ax.text(level, middle, asked, color=INK, fontsize=LETTERS, va="center")
    for label, branch in enumerate((tree.zero, tree.one)):
        down = top + label * rows / 2
        start, end = (level + 0.42, middle), (level + 0.95, down + rows / 4)
        ax.plot(*zip(start, end, strict=True), color=COLOURS[label])
        x, y = (start[0] + end[0]) / 2, (start[1] + end[1]) / 2 + (0.45 if label else -0.15)
        ax.text(x, y, str(label), color=SOFT, fontsize=LETTERS, ha="center")
        _draw_tree(ax, branch, level + 1, down, rows / 2)


PARTS = {"theory": draw_theory, "examples": run_examples, "screens": take_screens}

if __name__ == "__main__":
    for part in sys.argv[1:] or PARTS:
        PARTS[part]()
