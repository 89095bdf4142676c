"""Mistakes of the practical plan: every class, rate and spacing; label noise; growth with T.

Prints the plans, a table of all cases, and a summary against the aims of issue 4. Everything is
fixed by seeds: see `trials`.
"""

from collections.abc import Iterator, Mapping
from fractions import Fraction
from functools import partial
from typing import Any, NamedTuple

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from bench.streams import SPACINGS, rows, scores, value_column
from bench.trials import Case, Tally, tallies
from littlestone import HypothesisClass, Plan, Points, Rules, Sets, Thresholds
from littlestone._simulate.streams import Stream
from littlestone.paper import PaperPlan

SEEDS = range(20)
DELTAS = (1e-6, 1e-9)
TITLE = f"""Mistakes of the practical plan, epsilon = 1, {len(SEEDS)} seeds, T = 1e6 unless said
(delta = 1e-6 is above 1/(10 T): for comparison with FIELD.md; of noisy streams, the excess)"""
NOISE, NOISY = 0.02, "2 % noise"
SHORT, LONG = "T = 1e5", "T = 1e7"


class Family(NamedTuple):
    """A class with its streams, and the mistakes allowed at each delta."""

    cls: HypothesisClass
    stream: partial[Stream]
    aims: tuple[int, int]


RULES = Rules(["a", "b", "c", "d", "e"])
FAMILIES = {
    "Points": Family(Points(), partial(value_column), (110, 125)),
    "Rules of 5": Family(RULES, partial(rows), (250, 250)),
    "Rules, correlated": Family(RULES, partial(rows, correlated=True), (400, 400)),
    "Sets(3)": Family(Sets(3), partial(value_column, culprits=3), (400, 400)),
    "Thresholds, 7": Family(Thresholds(1, 7), partial(scores, points=7), (400, 400)),
    "Thresholds, 15": Family(Thresholds(1, 15), partial(scores, points=15), (700, 700)),
}
PLAIN = ("Points", "Rules of 5", "Thresholds, 15")
"""Those measured with label noise, and on short and long streams."""


class Row(NamedTuple):
    """A line of the table."""

    family: str
    stream: str
    remark: str = ""


Found = Mapping[Row, list[Tally]]


def run() -> None:
    """Print plans, cases and summary."""
    console = Console(highlight=False, width=120)
    cases = dict(_cases())
    for title, plan in _plans(cases).items():
        console.print(f"{title}\n{plan}\n", soft_wrap=True, markup=False)
    found = dict(zip(cases, tallies(list(cases.values()), SEEDS, "mistakes"), strict=True))
    console.print(_table(found))
    console.print(_summary(found))


def _cases() -> Iterator[tuple[Row, Case]]:
    """Every line of the table, in order."""
    for name, family in FAMILIES.items():
        if family.stream.func is scores:
            yield _usual(name), _case(family)
            continue
        for rate in (0.01, 0.06):
            for spacing in SPACINGS:
                row = Row(name, f"{100 * rate:g} %, {spacing}")
                yield row, _case(family, rate=rate, spacing=spacing)
    for name in PLAIN:
        yield _usual(name, NOISY), _case(FAMILIES[name], noise=NOISE)
    for name in PLAIN:
        for remark, rounds in {SHORT: 10**5, LONG: 10**7}.items():
            yield _usual(name, remark), _case(FAMILIES[name], rounds)


def _usual(name: str, remark: str = "") -> Row:
    """The line that others are compared with."""
    by_cut = FAMILIES[name].stream.func is scores
    return Row(name, "uniform" if by_cut else "6 %, i.i.d.", remark)


def _case(family: Family, rounds: int = 10**6, noise: float = 0.0, **how: Any) -> Case:
    """Positives at 6 %, i.i.d., unless said."""
    cls, stream, _ = family
    if stream.func is not scores:
        how = {"rate": 0.06, **how}
    plans = tuple(Plan.practical(cls, 1, delta, rounds) for delta in DELTAS)
    return Case(cls, plans, partial(stream, noise=noise, **how))


def _plans(cases: Mapping[Row, Case]) -> dict[str, Plan | PaperPlan]:
    """Each plan once: the horizon makes no difference to its constants."""
    found: dict[str, Plan | PaperPlan] = {}
    for case in cases.values():
        for plan in case.plans:
            found.setdefault(f"{plan.made_for}, delta = {_short(plan.delta)}", plan)
    return found


def _table(found: Found) -> Table:
    table = Table(title=TITLE, box=SIMPLE_HEAD, collapse_padding=True)
    for name in ("class", "stream", ""):
        table.add_column(name, no_wrap=True)
    for delta in DELTAS:
        for name in (f"{_short(delta)}: median", "worst", "releases", "found"):
            table.add_column(name, justify="right")
    before = Row("", "")
    for row, of_deltas in found.items():
        if row.family != before.family:
            table.add_section()
        table.add_row(*row, *(cell for tally in of_deltas for cell in tally.cells))
        before = row
    return table


def _summary(found: Found) -> Table:
    """Each figure for the spacing and the rate that suit it least."""
    table = Table(
        "figure", "aim", *(f"delta {_short(delta)}" for delta in DELTAS), "ok", title="Summary"
    )
    for name, family in FAMILIES.items():
        plain = [found[row] for row in found if row.family == name and not row.remark]
        worst = [max(tally.worst for tally in of_delta) for of_delta in zip(*plain, strict=True)]
        ok = all(count <= aim for count, aim in zip(worst, family.aims, strict=True))
        aims = " / ".join(map(str, dict.fromkeys(family.aims)))
        table.add_row(f"{name}: worst", f"<= {aims}", *map(str, worst), "yes" if ok else "NO")
    for name in PLAIN:
        pairs = list(zip(found[_usual(name, NOISY)], found[_usual(name)], strict=True))
        medians = [noisy.median / quiet.median for noisy, quiet in pairs]
        worsts = [noisy.worst / quiet.worst for noisy, quiet in pairs]
        table.add_row(*_ratio(f"{name}: noisy / noiseless medians", medians, "<", 2))
        table.add_row(*_ratio(f"{name}: noisy / noiseless worsts", worsts, "<", 2))
    for name in PLAIN:
        pairs = list(zip(found[_usual(name, LONG)], found[_usual(name, SHORT)], strict=True))
        growth = [long.median / short.median for long, short in pairs]
        table.add_row(*_ratio(f"{name}: median at T = 1e7 / 1e5", growth, "<=", 1.3))
    return table


def _ratio(figure: str, ratios: list[float], sign: str, aim: float) -> list[str]:
    ok = max(ratios) < aim if sign == "<" else max(ratios) <= aim
    return [figure, f"{sign} {aim:g}", *(f"{ratio:.2f}" for ratio in ratios), "yes" if ok else "NO"]


def _short(delta: float | Fraction) -> str:
    return f"{float(delta):.0e}".replace("e-0", "e-")
