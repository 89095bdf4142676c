"""Peers: the learners of this package beside those that others made, on the same streams.

River's online classifiers see every label and promise nothing; SOA and Halving know the class and
promise nothing; ours know the class and keep epsilon 1. Values that are names are one-hot encoded
for River, numbers are scaled: what its own examples do. No package that we know of has a private
online classifier that publishes a rule (FIELD: diffprivlib, jax-privacy, Opacus have none), so the
private peers are the algorithms of the papers themselves, as built here.
"""

import warnings
from collections.abc import Callable, Iterator
from statistics import median
from typing import Any, NamedTuple

from rich.table import Table
from river.linear_model import LogisticRegression, Perceptron
from river.preprocessing import OneHotEncoder, StandardScaler
from river.tree import HoeffdingTreeClassifier

from bench.output import publish
from littlestone._classes.specs import parse_spec
from littlestone._hypotheses.rows import row_of
from littlestone._learners.registry import LEARNERS, Terms, make_learner
from littlestone._privacy.testing import SeededNoise
from littlestone._simulate.adversaries import ADVERSARIES
from littlestone._simulate.games import REFUSALS, play
from littlestone._simulate.streams import Stream

EPSILON, DELTA, ROUNDS, SEEDS = 1.0, 1e-6, 10_000, range(5)
CASES = (
    ("points:x", "iid"),
    ("points:x", "burst"),
    ("rules:a,b,c,d,e", "iid"),
    ("thresholds:x:1:15", "iid"),
    ("thresholds:x:1:1023", "iid"),
    ("thresholds:x:1:1023", "halving"),
)
OURS = ("dpsoa", "experts", "soa", "halving")


def _ready(encoded: bool) -> Any:
    return OneHotEncoder(drop_zeros=True) if encoded else StandardScaler()


RIVER: dict[str, Callable[[bool], Any]] = {
    "River LogisticRegression": lambda encoded: _ready(encoded) | LogisticRegression(),
    "River HoeffdingTree": lambda encoded: HoeffdingTreeClassifier(),
    "River Perceptron": lambda encoded: _ready(encoded) | Perceptron(),
}


class Found(NamedTuple):
    """The median mistakes, and a remark."""

    mistakes: float
    remark: str = ""


def run() -> None:
    """Print the table."""
    warnings.filterwarnings("ignore", message="delta = .* is above")
    title = f"Median mistakes in {ROUNDS:,} rounds, {len(SEEDS)} seeds; private ones: epsilon 1"
    table = Table("private", title=title)
    table.add_column("learner", no_wrap=True)
    for spec, name in CASES:
        table.add_column(f"{spec.replace(':x', '').replace(':', ' ')}, {name}", justify="right")
    for name, private, cells in _lines():
        table.add_row(private, name, *cells)
    publish("peers", table)
    print("* vacuous by its own plan: its first rule stands")


def _lines() -> Iterator[tuple[str, str, list[str]]]:
    for name in OURS:
        private = "yes" if LEARNERS[name].private else "no"
        yield name, private, [_cell(_ours(name, *case)) for case in CASES]
    for name, make in RIVER.items():
        yield name, "no", [_cell(_rivers(make, *case)) for case in CASES]


def _cell(found: Found | None) -> str:
    return "cannot" if found is None else f"{found.mistakes:,.0f}{found.remark}"


def _stream(spec: str, name: str, seed: int) -> Stream:
    made = ADVERSARIES[name](parse_spec(spec), ROUNDS, seed, 0.0)
    assert isinstance(made, Stream)
    return made


def _ours(name: str, spec: str, stream: str) -> Found | None:
    """None when the learner cannot take the class."""
    mistakes, remark = list[int](), ""
    for seed in SEEDS:
        try:
            terms = Terms(cls=parse_spec(spec), epsilon=EPSILON, delta=DELTA, horizon=ROUNDS)
            learner = make_learner(name, terms, seed=seed, noise=SeededNoise(seed))
        except REFUSALS:
            return None
        remark = "*" if getattr(getattr(learner, "plan", None), "vacuous", False) else ""
        mistakes.append(play(learner, _stream(spec, stream, seed), ROUNDS).mistakes)
    return Found(median(mistakes), remark)


def _rivers(make: Callable[[bool], Any], spec: str, stream: str) -> Found:
    encoded = not spec.startswith("thresholds")
    counts = [_prequential(make(encoded), _stream(spec, stream, seed)) for seed in SEEDS]
    return Found(median(counts))


def _prequential(model: Any, stream: Stream) -> int:
    """Mistakes of a model that predicts each row before it learns it; no answer yet is a no."""
    wrong = 0
    for number, y in enumerate(stream.answers.tolist()):
        x = row_of(stream.batch, number)
        wrong += bool(model.predict_one(x)) != y
        model.learn_one(x, y)
    return wrong
