"""What the three stories share: where they leave their files, and how they draw their curve."""

import sys
from collections.abc import Sequence
from pathlib import Path

import littlestone as ls
from littlestone.learners.trace import Sample
from littlestone.plots import new_figure, plot_mistakes, style_axes, svg_file


def folder() -> Path:
    """Where the files go: the first argument, or a folder here."""
    place = Path(sys.argv[1] if len(sys.argv) > 1 else "stories")
    place.mkdir(parents=True, exist_ok=True)
    return place


def public_side(learner: ls.PrivateLearner) -> str:
    """The public side, as sentences."""
    rules = [f"  from round {number:>7,}: {rule}" for number, rule in learner.releases]
    return "\n".join([*rules, f"  {learner.guarantee}"])


def plot(path: Path, title: str, samples: Sequence[Sample], doing_nothing: Sequence[int]) -> None:
    """Mistakes so far, beside those of the first rule had it never changed. Private."""
    figure = new_figure(height=2.9)
    ax = style_axes(figure.subplots())
    ours = [(sample.round, sample.mistakes) for sample in samples]
    plot_mistakes(ours, [], ax, label="published rules")
    step = max(1, len(doing_nothing) // 400)
    kept = [*enumerate(doing_nothing, 1)][::step]
    plot_mistakes(kept, [], ax, label="the first rule, kept")
    ax.legend(frameon=False)
    path.write_text(svg_file(figure, path.stem, title), encoding="utf-8")
    print(f"  drawn: {path} (private: it shows mistakes)")
