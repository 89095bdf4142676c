"""Draw with matplotlib, and write a figure as SVG.

matplotlib is imported inside the functions only: it takes longer to import than all else together.
Figures are made without pyplot, so no figure stays open and no global state changes.

Promises: equal figures give equal SVG, byte by byte; the SVG names no address and runs no script.
"""

import io
import math
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from markupsafe import Markup

from littlestone._display import clipped, short_number, visible

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

# Paul Tol's bright scheme, which people who are colour-blind can tell apart.
COLOURS = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377")

INK, SOFT, GRID, OTHER, PAGE = "#20242c", "#5a6270", "#e2e3e0", "#b3b6b9", "#fcfcfa"

# The variables of templates/style.css by the colour that they have on a light page.
_VARIABLES = {INK: "ink", SOFT: "soft", GRID: "line", OTHER: "other"} | {
    colour: f"c{number}" for number, colour in enumerate(COLOURS)
}

# Inches. Narrow, so that letters are large enough where a page is 390 pixels wide.
WIDTH = 4.2
# Of figures that a page has twice: for a phone, and for all wider screens and paper.
NARROW, WIDE = 3.6, 8.6

LETTERS = 9
# With more releases than this they are not marked: the marks would hide the curve.
MANY_RELEASES = 60


def new_axes(height: float = 2.9) -> "Axes":
    """Return empty axes on a figure of their own, which pyplot does not know of."""
    figure = new_figure(height)
    return style_axes(figure.subplots())


def new_figure(height: float, width: float = WIDTH) -> "Figure":
    """Return an empty figure with a transparent background."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained", facecolor="none")


def style_axes(ax: "Axes") -> "Axes":
    """Give axes the colours and the grid of all our figures, and return them."""
    ax.set_facecolor("none")
    ax.spines[:].set_visible(False)
    ax.grid(color=GRID, linewidth=0.8)
    ax.set_axisbelow(True)
    ax.tick_params(which="both", colors=SOFT, labelsize=LETTERS, length=0)
    ax.xaxis.label.set(color=SOFT, fontsize=LETTERS)
    ax.yaxis.label.set(color=SOFT, fontsize=LETTERS)
    return ax


def short_numbers(axis: "Axis") -> None:
    """Give an axis few whole numbers, written as `short_number` writes them."""
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator(nbins=5, integer=True))
    axis.set_major_formatter(lambda value, _: short_number(value))


def plot_mistakes(
    points: Sequence[tuple[int, int]], changes: Sequence[int], ax: "Axes | None" = None
) -> "Axes":
    """Draw mistakes over rounds, with a mark wherever the published rule changed. Private."""
    ax = new_axes() if ax is None else ax
    colour = COLOURS[len(ax.lines) % len(COLOURS)]
    across, up = [rounds for rounds, _ in points], [mistakes for _, mistakes in points]
    # A single point is no line: a marker shows it.
    marker = "o" if len(points) == 1 else ""
    (curve,) = ax.plot(
        across, up, color=colour, marker=marker, label="mistakes of the published rules"
    )
    for number, change in enumerate(changes if len(changes) <= MANY_RELEASES else ()):
        name = "_" if number else "another rule is published"
        ax.axvline(change, color=SOFT, linestyle=":", linewidth=1, label=name)
    # The axes begin at 0, and still grow when another curve is drawn.
    ax.update_datalim([(0, 0), (1, 1)])
    curve.sticky_edges.x[:] = [0, *across[-1:]]
    curve.sticky_edges.y[:] = [0]
    ax.autoscale_view()
    ax.set_xlabel("rounds")
    ax.set_ylabel("mistakes")
    short_numbers(ax.xaxis)
    short_numbers(ax.yaxis)
    return ax


def plot_private(
    points: Sequence[tuple[int, int]], changes: Sequence[int], ax: "Axes | None" = None
) -> "Axes":
    """Draw mistakes over rounds as `plot_mistakes` does, with a title that says PRIVATE."""
    ax = plot_mistakes(points, changes, ax)
    ax.set_title("PRIVATE: not for publication", color=INK, fontsize=LETTERS + 1)
    ax.legend(frameon=False, fontsize=LETTERS)
    return ax


class RateBar(NamedTuple):
    """Hold a positive rate to draw."""

    name: str
    rate: float | None
    low: float
    high: float
    base: float | None
    note: str = ""


# The most columns of a name beside a bar.
LONGEST_NAME = 52


def percent(rate: float) -> str:
    """Write a rate in percent, with a decimal where it says something."""
    if rate in (0, 1):
        return f"{rate:.0%}".replace("%", " %")
    return f"{100 * rate:.1f} %" if rate >= 0.001 else f"{100 * rate:.2g} %"


def multiple(times: float) -> str:
    """Write how many times one rate is another, in two digits."""
    return f"{float(f'{times:.2g}'):,g}"


def rate_scale(bars: Sequence[RateBar], min_rate: float | None = None) -> float:
    """Return a round rate at which a scale for all bars may end."""
    drawn = [bar for bar in bars if bar.rate is not None]
    most = max([min_rate or 0.0, *(max(bar.high, bar.base or 0.0) for bar in drawn)])
    steps = (0.001, 0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8)
    return next((step for step in steps if 1.1 * most <= step), 1.0) if most else 1.0


def plot_rates(
    bars: Sequence[RateBar], ax: "Axes | None" = None, *, min_rate: float | None = None
) -> "Axes":
    """Draw rates with their intervals as bars, each above the rate of everything else."""
    ax = new_axes(0.9 + 0.95 * max(1, len(bars))) if ax is None else ax
    scale = rate_scale(bars, min_rate)
    for row, bar in enumerate(bars):
        if bar.rate is not None:
            ax.barh(row - 0.05, bar.rate, 0.32, color=COLOURS[0])
            spread = [[max(0.0, bar.rate - bar.low)], [max(0.0, bar.high - bar.rate)]]
            ax.errorbar(bar.rate, row - 0.05, xerr=spread, color=INK, capsize=3, linewidth=1.4)
        if bar.base is not None:
            ax.barh(row + 0.2, bar.base, 0.12, color=OTHER)
        # Above the bar, from the left: there it is never cut, however long the bar is.
        words = (
            f"{'unknown' if bar.rate is None else percent(bar.rate)}{bar.note and ' '}{bar.note}"
        )
        for y, text, colour in ((0.53, clipped(bar.name, LONGEST_NAME), INK), (0.31, words, SOFT)):
            # A dollar in text from the data must not begin mathematics.
            label = ax.text(0, row - y, text, fontsize=LETTERS, color=colour, parse_math=False)
            # Else a long name would make the axes narrow.
            label.set_in_layout(False)
    if not bars:
        ax.text(0.5, 0.5, "no cause is published", transform=ax.transAxes, ha="center", color=SOFT)
    if min_rate is not None:
        # Beside the bars only: across the whole height it would run through the names.
        ends = [(row - 0.24, row + 0.3) for row in range(len(bars))]
        lows, highs = [low for low, _ in ends], [high for _, high in ends]
        ax.vlines([min_rate] * len(bars), lows, highs, colors=SOFT, linestyles="--", linewidth=1)
    ax.set_ylim(max(1, len(bars)) - 0.6, -0.8)
    ax.set_yticks([])
    ax.set_xlim(0, scale)
    ax.xaxis.set_major_formatter(lambda rate, _: f"{100 * rate:g} %")
    return ax


# Where a stretch begins and ends on an axis; its rate, the interval of that, and the base rate.
RatePoint = tuple[float, float, float | None, float, float, float | None]


class RateLine(NamedTuple):
    """Hold how a rate went, to be drawn."""

    name: str
    points: Sequence[RatePoint]


def top_rate(lines: Sequence[RateLine]) -> float:
    """Return a round rate at which a scale for all lines may end; wider intervals are cut there."""
    points = [point for line in lines for point in line.points]
    bars = [RateBar("", rate, 0.0, 1.2 * (rate or 0.0), base) for _, _, rate, _, _, base in points]
    return rate_scale(bars)


def plot_over_time(lines: Sequence[RateLine], ax: "Axes | None" = None, *, timed: bool) -> "Axes":
    """Draw how rates went, with their intervals as bands; grey is the rate of everything else."""
    dates: Any = import_module("matplotlib.dates")
    ax = new_axes(3.2) if ax is None else ax
    for number, (name, points) in enumerate(lines):
        across = [x for point in points for x in point[:2]]
        places: Any = [datetime.fromtimestamp(x, UTC) for x in across] if timed else across
        # A rate holds for a whole stretch, so both of its ends have it.
        ends = [[math.nan if rate is None else rate for rate in point[2:]] for point in points]
        rate, low, high, base = zip(*(end for end in ends for _ in range(2)), strict=True)
        colour = COLOURS[number]
        ax.fill_between(places, low, high, color=colour, alpha=0.18, linewidth=0)
        ax.plot(places, base, color=OTHER, linewidth=1.6)
        # A legend leaves out what begins with an underscore, as the name of a column may.
        name = f" {clipped(name, LONGEST_NAME)}"
        ax.plot(places, rate, color=colour, linewidth=1.8, label=name)
    ax.set_ylim(0, top_rate(lines))
    ax.yaxis.set_major_formatter(lambda rate, _: f"{100 * rate:g} %")
    ax.margins(x=0)
    if timed:
        ax.xaxis.set_major_locator(locator := dates.AutoDateLocator(minticks=3, maxticks=7))
        ax.xaxis.set_major_formatter(dates.ConciseDateFormatter(locator))
    else:
        short_numbers(ax.xaxis)
    return ax


def svg_of(figure: "Figure", name: str) -> str:
    """Return a figure as an SVG element."""
    from matplotlib import rc_context

    text = io.StringIO()
    # A date or a random salt would make each run write another file.
    metadata = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": name}):
        figure.savefig(text, format="svg", metadata=metadata)
    svg = text.getvalue()
    return svg[svg.index("<svg") :]


def svg_file(figure: "Figure", name: str, title: str) -> str:
    """Return a figure as the text of an SVG file, on a light page."""
    figure.set_facecolor(PAGE)
    start, rest = svg_of(figure, name).split(">", 1)
    return f"{start}>{Markup('<title>{}</title>').format(visible(title))}{rest}"


def inline_svg(figure: "Figure", name: str) -> Markup:
    """Return a figure as markup for a page whose style sheet is templates/style.css."""
    svg = svg_of(figure, name)
    svg = re.sub(r"<defs>\s*<style.*?</defs>|<!--.*?-->", "", svg, flags=re.DOTALL)
    svg = re.sub(r'\sxmlns(:\w+)?="[^"]*"', "", svg)
    # matplotlib numbers the groups of each figure from 1: two figures would repeat identifiers.
    svg = re.sub(r'<g id="[^"]*"', "<g", svg)
    svg = re.sub(r"#[0-9a-f]{6}\b", _variable, svg)
    return Markup(svg)


def _variable(colour: re.Match[str]) -> str:
    name = _VARIABLES.get(colour[0])
    return colour[0] if name is None else f"var(--{name})"
