"""Charts of mistakes: curves that are named in the figure itself, so that it can stand alone."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from littlestone._display import short_number
from littlestone._plots import INK, LETTERS, new_figure, short_numbers, style_axes, svg_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# How many times the lowest end the highest value is where a linear axis would hide the lowest.
FAR = 100


@dataclass(frozen=True)
class Curve:
    """Values at places from left to right."""

    name: str
    colour: str
    points: Sequence[tuple[float, float]]
    line: str = "-"


@dataclass(frozen=True)
class Chart:
    """What a figure shows."""

    name: str
    title: str
    across: str
    curves: Sequence[Curve]
    log_across: bool = True
    at: Sequence[float] = ()
    up: str = "mistakes"

    def figure(self) -> "Figure":
        """The chart with the names of its curves below it."""
        figure = new_figure(2.6 + 0.2 * len(self.curves))
        ax = style_axes(figure.subplots())
        for curve in self.curves:
            across, up = zip(*curve.points, strict=True)
            marker = "o" if len(curve.points) <= 12 and curve.line != ":" else ""
            (drawn,) = ax.plot(across, up, curve.line, color=curve.colour, label=curve.name)
            drawn.set(marker=marker, markersize=4)
        self._number_axes(ax)
        figure.legend(loc="outside lower left", frameon=False, fontsize=LETTERS, labelcolor=INK)
        return figure

    def _number_axes(self, ax: "Axes") -> None:
        top = max([1.0, *(y for curve in self.curves for _, y in curve.points)])
        log_up = top > FAR * max(1.0, min(curve.points[-1][1] for curve in self.curves))
        short_numbers(ax.xaxis)
        short_numbers(ax.yaxis)
        if log_up:
            ax.set_yscale("symlog", linthresh=1)
        # Room above the highest curve, so that it is not cut.
        ax.set_ylim(0, top * (1.6 if log_up else 1.05))
        ax.set_ylabel(f"{self.up} (logarithmic)" if log_up else self.up)
        ax.set_xlabel(self.across)
        if self.log_across:
            ax.set_xscale("log")
        if self.at:
            ax.set_xticks(self.at)
        ax.minorticks_off()
        for axis in (ax.xaxis, ax.yaxis):
            axis.set_major_formatter(lambda value, _: short_number(value))

    def svg(self) -> str:
        """The text of an SVG file, with a title for people who cannot see it."""
        ends = "; ".join(f"{c.name}: {c.points[-1][1]:,.4g}" for c in self.curves)
        return svg_file(self.figure(), self.name, f"{self.title}. At the end {ends}.")
