"""What the examples share: where they leave their files, what they print, how they draw."""

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import littlestone as ls

COLOURS = ["#2a6f97", "#c8553d", "#6a994e", "#8a8a8a"]


def folder() -> Path:
    """Where the files go: the first argument, or a folder here."""
    place = Path(sys.argv[1] if len(sys.argv) > 1 else "stories")
    place.mkdir(parents=True, exist_ok=True)
    return place


def print_public(learner: ls.PrivateLearner) -> None:
    """Print the rules, and the rounds from which they stood."""
    for number, rule in learner.releases:
        print(f"  from round {number:>7,}: {rule}")
    print(f"  {learner.guarantee}")


def new_axes(title: str, height: float = 3.0) -> Axes:
    """Return empty axes on a figure of their own."""
    ax = Figure(figsize=(7.2, height), layout="constrained").subplots()
    ax.set_title(title, loc="left", fontsize=11)
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def save(ax: Axes, path: Path) -> None:
    """Write the figure of some axes as an SVG file."""
    figure = ax.get_figure()
    assert isinstance(figure, Figure)
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": path.stem}):
        figure.savefig(path, metadata={"Date": None})
    print(f"  drawn: {path.name}")


def rolling(hits: Sequence[bool] | np.ndarray, width: int = 2000) -> np.ndarray:
    """Return the mean of the last `width` entries, at every 100th."""
    total = np.concatenate([[0], np.cumsum(np.asarray(hits, dtype=float))])
    ends = np.arange(width, len(total), 100)
    return np.asarray((total[ends] - total[ends - width]) / width)
