"""The pictures of docs/theory.md, drawn by our own code. Noise is `SeededNoise`: NOT PRIVATE."""

from collections.abc import Iterator, Sequence
from importlib.resources import files
from pathlib import Path

import numpy as np

import littlestone as ls
from littlestone.classes.dimension import Leaf, MistakeTree, describe, paths
from littlestone.display import Markup, clipped, element
from littlestone.hypotheses.rows import part_of
from littlestone.privacy.testing import SeededNoise
from littlestone.report.figures import Chart, Curve, drawn, standalone
from littlestone.simulate.adversaries import halving
from littlestone.simulate.streams import Stream

FOLDER = Path("docs/figures/theory")
ROUNDS, CUTS = 20_000, 7


def run() -> None:
    """Draw them all."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    style = files("littlestone.report").joinpath("curves.css").read_text("utf-8")
    tree = ls.witness(ls.Thresholds(1, CUTS))
    pictures = {
        "tree": tree_picture(tree, "A shattered mistake tree of the thresholds on 7 points"),
        "learners": drawn(learners()),
        "votes": drawn(votes()),
    }
    for name, picture in pictures.items():
        path = FOLDER / f"{name}.svg"
        path.write_text(standalone(picture, style), encoding="utf-8")
        print(f"drawn: {path}")


def learners() -> Chart:
    """Mistakes so far, down a path of the tree above."""
    cls = ls.Thresholds(1, CUTS)
    stream = halving(cls, ROUNDS, seed=1)
    private: dict[str, ls.DPSOA | ls.PrivateExperts] = {
        "DPSOA": ls.DPSOA(cls, 1, 1e-7, ROUNDS, seed=1, noise=SeededNoise(1)),
        "PrivateExperts": ls.PrivateExperts(cls, 1, ROUNDS, seed=1, noise=SeededNoise(1)),
    }
    curves = [
        Curve(f"{name}, epsilon 1", f"c{n}", _mistakes(learner, stream))
        for n, (name, learner) in enumerate(private.items())
    ]
    curves.append(Curve("SOA, not private", "c2", _mistakes(ls.SOA(cls), stream)))
    ends = [(1.0, float(cls.dimension)), (float(ROUNDS), float(cls.dimension))]
    curves.append(Curve("the dimension", "floor", ends))
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
        Curve(f"votes for {culprit}, of {plan.trees} trees", "c0", for_it),
        Curve("votes that are named 19 times in 20", "bound", _level(needed, for_it)),
        Curve("mistakes at which the gate looks", "floor", _level(plan.thresholds[0], for_it)),
    ]
    title = f"Copies come to agree; published from round {published:,} on"
    return Chart("votes", title, "rounds", curves, log_across=False, at=[250, 500, 750, 1000])


def _level(value: float, points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    return [(points[0][0], value), (points[-1][0], value)]


if __name__ == "__main__":
    run()


ROW, STEP, LEFT, TOP, LETTER = 26.0, 150.0, 12.0, 24.0, 7.0
LONGEST = 18


def tree_picture(tree: MistakeTree, title: str) -> Markup:
    """The tree as one SVG element."""
    ends = list(paths(tree))
    width = LEFT + STEP * len(ends[0][0]) + LETTER * max(len(str(rule)) for _, rule in ends) + 24
    height = TOP + ROW * len(ends)
    marks = list(_marks(tree, 0, 0.0, float(len(ends))))
    return element(
        "svg",
        element("title", title),
        *marks,
        role="img",
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {width:g} {height:g}",
    )


def _marks(tree: MistakeTree, level: int, top: float, rows: float) -> Iterator[Markup]:
    """What stands for a tree whose leaves fill `rows` rows from `top` on."""
    x, y = LEFT + STEP * level, TOP + ROW * (top + rows / 2 - 0.5)
    if isinstance(tree, Leaf):
        yield element("text", str(tree.rule), x=f"{x:g}", y=f"{y + 4:g}", class_="rule")
        return
    asked = clipped(describe(tree.point) + " ?", LONGEST)
    from_x = x + LETTER * len(asked) + 6
    for answer, branch in enumerate((tree.zero, tree.one)):
        down = top + answer * rows / 2
        to_y = TOP + ROW * (down + rows / 4 - 0.5)
        to_x = x + STEP - 6
        style = f"branch c{answer}-line"
        yield element("path", class_=style, d=f"M{from_x:g} {y:g}L{to_x:g} {to_y:g}", fill="none")
        middle = (from_x + to_x) / 2, (y + to_y) / 2 - 4
        yield element("text", str(answer), x=f"{middle[0]:g}", y=f"{middle[1]:g}", class_="tick")
        yield from _marks(branch, level + 1, down, rows / 2)
    yield element("text", asked, x=f"{x:g}", y=f"{y + 4:g}")
