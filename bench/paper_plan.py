"""The practical plan against the paper's: how many times fewer mistakes, for d = 1 and d = 2.

Prints the best few paper plans that a search found, and then the best of them and the practical
plan on fresh seeds. The search leans towards the paper: it is made on streams like those of the
comparison, while the practical plan comes from formulas alone; and checks every 64 rounds save
noise. A paper plan that has not published the truth by the end would go on erring: ">=".
"""

from functools import partial
from itertools import product
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

from bench.output import publish
from bench.streams import rows, scores, value_column
from bench.trials import Case, Tally, tallies
from littlestone import HypothesisClass, Plan, Points, Rules, Sets, Thresholds
from littlestone._simulate.streams import Stream
from littlestone.paper import PaperPlan

DELTA = 1e-9
CHECK_EVERY = 64
TREES, RELEASES, ETAS = (330, 500, 750, 1100), (1, 2), (1.0, 2.0, 3.0)
SEARCHED, MEASURED = range(100, 102), range(10)
SHOWN = 3
AIM = 30


class Match(NamedTuple):
    """A class and a stream on which the plans meet."""

    name: str
    cls: HypothesisClass
    stream: partial[Stream]
    rounds: int


ABC = ("a", "b", "c")
MATCHES = (
    Match("Points", Points(), partial(value_column, rate=0.06), 10**6),
    Match("Thresholds, 3", Thresholds(1, 3), partial(scores, points=3), 200_000),
    Match("Rules of 3", Rules(ABC), partial(rows, rate=0.06, columns=ABC), 200_000),
    Match("Sets(2)", Sets(2), partial(value_column, rate=0.06, culprits=2), 200_000),
)


def run() -> None:
    """Print the search and the comparison."""
    cases = [Case(match.cls, _grid(match), match.stream) for match in MATCHES]
    searched = tallies(cases, SEARCHED, "searching paper plans")
    ranked = [
        sorted(zip(case.plans, found, strict=True), key=lambda pair: pair[1].mean)
        for case, found in zip(cases, searched, strict=True)
    ]
    console = Console(highlight=False, width=100)
    console.print(_search(ranked))
    finals = [
        Case(match.cls, (_practical(match), pairs[0][0]), match.stream)
        for match, pairs in zip(MATCHES, ranked, strict=True)
    ]
    publish("paper_plan", _comparison(tallies(finals, MEASURED, "practical against paper")))


def _grid(match: Match) -> tuple[PaperPlan, ...]:
    return tuple(
        PaperPlan.of(
            match.cls,
            1,
            DELTA,
            match.rounds,
            trees=trees,
            releases=releases,
            eta=eta,
            check_every=CHECK_EVERY,
        )
        for trees, releases, eta in product(TREES, RELEASES, ETAS)
    )


def _practical(match: Match) -> Plan:
    return Plan.practical(match.cls, 1, DELTA, match.rounds)


def _search(ranked: list[list[tuple[Any, Tally]]]) -> Table:
    tried = len(TREES) * len(RELEASES) * len(ETAS)
    title = f"Paper plans: the best {SHOWN} of {tried} (mean mistakes, {len(SEARCHED)} seeds)"
    table = Table("class", "d", "leaves", "trees", "releases", "lost votes", "mean", title=title)
    for match, pairs in zip(MATCHES, ranked, strict=True):
        for plan, tally in pairs[:SHOWN]:
            (leaves,) = plan.leaves
            counts = (match.cls.dimension, leaves, plan.trees, plan.releases, plan.threshold)
            table.add_row(match.name, *map(str, counts), f"{tally.mean:,.0f}")
        table.add_section()
    return table


def _comparison(found: list[list[Tally]]) -> Table:
    seeds = len(MEASURED)
    title = (
        f"Practical plan against the best paper plan: mistakes, epsilon = 1, delta = {DELTA:g},\n"
        f"{seeds} fresh seeds, positives i.i.d. (6 %, or by the cut); aim: {AIM} times fewer"
    )
    table = Table("class", "d", "T", title=title)
    for plan in ("practical", "paper"):
        table.add_column(f"{plan}\nmedian", justify="right")
        table.add_column("\nworst", justify="right")
        table.add_column("\nfound", justify="right")
    table.add_column("ratio", justify="right")
    table.add_column("ok")
    for match, (practical, paper) in zip(MATCHES, found, strict=True):
        at_least = "" if paper.found == seeds else ">= "
        ratio = paper.median / practical.median
        table.add_row(
            match.name,
            str(match.cls.dimension),
            f"{match.rounds:.0e}".replace("e+0", "e"),
            *_cells(practical, ""),
            *_cells(paper, at_least),
            f"{at_least}{ratio:,.0f}",
            "yes" if ratio >= AIM else "NO",
        )
    return table


def _cells(tally: Tally, at_least: str) -> list[str]:
    median, worst, _, found = tally.cells
    return [median, at_least + worst, found]
