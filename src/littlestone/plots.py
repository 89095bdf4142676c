"""Draw with matplotlib, and write a figure as SVG.

matplotlib is imported inside the functions only: it takes longer to import than all else together.
Figures are made without pyplot, so no figure stays open and no global state changes.

Promises: equal figures give equal SVG, byte by byte; the SVG names no address and runs no script.
"""

import io
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from markupsafe import Markup

from littlestone.display import short_number, visible

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
WIDTH = 4.8

LETTERS = 9
# With more releases than this they are not marked: the marks would hide the curve.
MANY_RELEASES = 60


def new_axes(height: float = 2.9) -> "Axes":
    """Return empty axes on a figure of their own, which pyplot does not know of."""
    figure = new_figure(height)
    return style_axes(figure.subplots())


def new_figure(height: float) -> "Figure":
    """Return an empty figure with a transparent background."""
    from matplotlib.figure import Figure

    return Figure(figsize=(WIDTH, height), layout="constrained", facecolor="none")


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
    points: Sequence[tuple[int, int]],
    changes: Sequence[int],
    ax: "Axes | None" = None,
    *,
    label: str = "mistakes of the published rules",
) -> "Axes":
    """Draw mistakes over rounds, with a mark wherever the published rule changed. Private.

    Both axes are linear: on a logarithmic axis of rounds the first rounds, in which most mistakes
    are made, fill the picture and a rule that stands for most of the stream does not show.

    Parameters
    ----------
    points : sequence of (int, int)
        Numbers of rounds, and the mistakes made in them.
    changes : sequence of int
        The rounds from which another rule was published.
    ax : matplotlib.axes.Axes, optional
        Where to draw; new axes by default. On axes with curves the limits only grow.
    label : str
        The curve's name in a legend.

    Returns
    -------
    matplotlib.axes.Axes
        The axes.

    Examples
    --------
    >>> ax = plot_mistakes([(1, 0), (50, 9), (100, 10)], [51])
    >>> ax.lines[0].get_xydata()[-1].tolist(), len(ax.lines)
    ([100.0, 10.0], 2)
    """
    ax = new_axes() if ax is None else ax
    colour = COLOURS[len(ax.lines) % len(COLOURS)]
    across, up = [rounds for rounds, _ in points], [mistakes for _, mistakes in points]
    # A single point is no line: a marker shows it.
    marker = "o" if len(points) == 1 else ""
    (curve,) = ax.plot(across, up, color=colour, marker=marker, label=label)
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
    """Draw mistakes over rounds as `plot_mistakes` does, with a title that says PRIVATE.

    Parameters
    ----------
    points : sequence of (int, int)
        Numbers of rounds, and the mistakes made in them.
    changes : sequence of int
        The rounds from which another rule was published.
    ax : matplotlib.axes.Axes, optional
        Where to draw; new axes by default.

    Returns
    -------
    matplotlib.axes.Axes
        The axes.
    """
    ax = plot_mistakes(points, changes, ax)
    ax.set_title("PRIVATE: not for publication", color=INK, fontsize=LETTERS + 1)
    ax.legend(frameon=False, fontsize=LETTERS)
    return ax


def svg_of(figure: "Figure", name: str) -> str:
    """Return a figure as an SVG element.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
        The figure.
    name : str
        What tells the figure's identifiers from those of others on the same page.

    Returns
    -------
    str
        The element, without a date or other metadata.
    """
    from matplotlib import rc_context

    text = io.StringIO()
    # A date or a random salt would make each run write another file.
    metadata = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": name}):
        figure.savefig(text, format="svg", metadata=metadata)
    svg = text.getvalue()
    return svg[svg.index("<svg") :]


def svg_file(figure: "Figure", name: str, title: str) -> str:
    """Return a figure as the text of an SVG file, on a light page.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
        The figure.
    name : str
        The name of the file.
    title : str
        What the figure shows, for people who cannot see it.

    Returns
    -------
    str
        The text.
    """
    figure.set_facecolor(PAGE)
    start, rest = svg_of(figure, name).split(">", 1)
    return f"{start}>{Markup('<title>{}</title>').format(visible(title))}{rest}"


def inline_svg(figure: "Figure", name: str) -> Markup:
    """Return a figure as markup for a page whose style sheet is templates/style.css.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
        The figure, in the colours of this module.
    name : str
        What tells the figure's identifiers from those of others on the same page.

    Returns
    -------
    Markup
        The element. Its colours are variables of the style sheet, so they follow light and dark.
    """
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
