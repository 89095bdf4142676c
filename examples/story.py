"""What the three stories share: where they leave their files, and how they draw their curve."""

import sys
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

import littlestone as ls
from littlestone.learners.trace import Sample
from littlestone.report.figures import Chart, Curve, drawn, standalone


def folder() -> Path:
    """Where the files go: the first argument, or a folder here."""
    place = Path(sys.argv[1] if len(sys.argv) > 1 else "stories")
    place.mkdir(parents=True, exist_ok=True)
    return place


def told(learner: ls.PrivateLearner) -> str:
    """The public side, as sentences."""
    rules = [f"  from round {number:>7,}: {rule}" for number, rule in learner.releases]
    return "\n".join([*rules, f"  {learner.guarantee}"])


def plot(path: Path, title: str, samples: Sequence[Sample], doing_nothing: Sequence[int]) -> None:
    """Mistakes so far, beside those of the first rule had it never changed. Private."""
    ours = [(float(sample.round), float(sample.mistakes)) for sample in samples if sample.round]
    step = max(1, len(doing_nothing) // 400)
    theirs = [(n + 1.0, float(m)) for n, m in enumerate(doing_nothing) if n % step == 0]
    chart = Chart(
        path.stem,
        title,
        "rounds",
        [Curve("published rules", "c0", ours), Curve("the first rule, kept", "c1", theirs)],
        log_across=False,
        at=[len(doing_nothing) * part / 4 for part in range(5)],
    )
    style = files("littlestone.report").joinpath("curves.css").read_text("utf-8")
    path.write_text(standalone(drawn(chart), style), encoding="utf-8")
    print(f"  drawn: {path} (private: it shows mistakes)")
