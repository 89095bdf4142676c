"""Run `littlestone compare`: play learners on made-up streams that know the truth, as a table."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import product

from rich.console import JustifyMethod
from rich.table import Table

from littlestone._classes.specs import parse_spec
from littlestone._cli.options import read_min_rate
from littlestone._cli.terminal import noting, plain_console, print_json, say, wide_console
from littlestone._display import short_number
from littlestone._learners.plan_table import checked_change_cost, planned_delta, planned_epsilon
from littlestone._learners.rate_to_beat import FOLLOW, Baseline
from littlestone._learners.registry import AUTO, LEARNERS, Terms, check_name, learner_names
from littlestone._privacy.parameters import BadParameter
from littlestone._simulate.adversaries import adversary_of
from littlestone._simulate.games import Line, play_line

MOST_ROUNDS = 10**8
EXCESS = (
    "Cost over seeds: median and worst. Every mistake costs 1; where causes are looked for, a false"
    " alarm costs the odds of the rate to beat. Excess: the median over the cost of the best rule"
    " that never changes. Missed and alarms: the mistakes on positives and on negatives, medians."
    " Releases: those after the first rule, median."
)
COLUMNS = (
    "stream", "T", "epsilon", "learner", "median", "worst", "missed", "alarms", "excess",
    "releases", "rounds/s",
)  # fmt: skip
# On a narrow terminal these are left out; --json has them.
LEFT_OUT, ROOM_FOR_ALL = ("worst", "releases", "rounds/s"), 100


def compare(
    spec: str,
    *,
    learners: str,
    streams: str,
    rounds: str,
    epsilon: str,
    delta: float,
    seeds: int,
    noise: float,
    change_cost: float,
    min_rate: str,
    baseline: Baseline,
    as_json: bool,
) -> None:
    """Compare learners on synthetic streams that know the truth."""
    cls, lengths = parse_spec(spec), [int(n) for n in _numbers("--rounds", rounds, whole=True)]
    for name in (players := _words("learner", learners)):
        check_name(name, learner_names())
    for name in (opponents := _words("stream", streams)):
        adversary_of(name)
    if max(lengths) > MOST_ROUNDS:
        raise BadParameter(f"--rounds is at most {MOST_ROUNDS:,}: a stream is held in memory")
    if not 0 <= noise < 1:
        raise BadParameter(f"--noise is at least 0 and below 1, not {noise:g}")
    checked_change_cost(change_cost)
    planned_delta(delta)
    rate = read_min_rate(min_rate)
    asked = {"min_rate": rate != "auto", "baseline": baseline != FOLLOW}
    for term in [term for term, given in asked.items() if given]:
        if not any(n == AUTO or term in LEARNERS[n].takes for n in players):
            option = f"--{term.replace('_', '-')}"
            raise BadParameter(f"none of these learners has {option}: leave it out")
    budgets = [planned_epsilon(number) for number in _numbers("--epsilon", epsilon)]
    terms = Terms(
        cls=cls,
        epsilon=1,
        delta=delta,
        horizon=1,
        change_cost=change_cost,
        min_rate=rate,
        baseline=baseline,
    )
    with noting() as caught:
        lines = [
            play_line(stream, name, replace(terms, horizon=n, epsilon=each), seeds, noise)
            for stream, n, each, name in product(opponents, lengths, budgets, players)
        ]
    notes = list(dict.fromkeys(caught))
    if as_json:
        print_json({"class": spec, "notes": notes, "lines": [line.to_json() for line in lines]})
        return
    print_lines(f"{spec}, delta {delta:g}, {seeds} seed{'s' * (seeds != 1)}", lines)
    for note in [EXCESS, *(f"note: {note}" for note in notes)]:
        say(plain_console(), note, "")


def print_lines(title: str, lines: Sequence[Line]) -> None:
    """Print the lines as a table, and why some could not be played."""
    console = plain_console()
    console.print(title)
    table = Table(box=None, padding=(0, 1, 0, 0), show_edge=False)
    narrow = console.is_terminal and console.width < ROOM_FOR_ALL
    names = [name for name in COLUMNS if not (narrow and name in LEFT_OUT)]
    for name in names:
        side: JustifyMethod = "left" if name in ("stream", "learner") else "right"
        table.add_column(name, justify=side, no_wrap=True)
    for line in lines:
        cells = dict(zip(COLUMNS, cells_of(line), strict=True))
        table.add_row(*(cells[name] for name in names))
    wide_console(console).print(table)
    for reason in dict.fromkeys(f"  {line.learner}: {line.error}" for line in lines if line.error):
        console.print(reason)
    console.print()


def cells_of(line: Line) -> list[str]:
    """Return the cells of a line of the table."""
    start = [line.stream, f"{line.rounds:,}", f"{line.epsilon:g}", line.learner]
    if line.error:
        return [*start, "cannot", *[""] * (len(COLUMNS) - len(start) - 1)]
    data = line.to_json()
    counts = ["" if data[name] is None else f"{data[name]:,.0f}" for name in ("missed", "alarms")]
    return [
        *start,
        f"{data['median']:,.4g}" if data["median"] < 10_000 else f"{data['median']:,.0f}",
        f"{data['worst']:,.0f}",
        *counts,
        "unknown" if data["excess"] is None else f"{data['excess']:,.0f}",
        f"{data['releases']:,.4g}",
        short_number(round(float(f"{data['per_second']:.2g}"))),
    ]


def _words(kind: str, text: str) -> list[str]:
    # In the order given, once each: a repeated name would play its games twice.
    words = list(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))
    if not words:
        raise BadParameter(f"name at least one {kind}, with commas between")
    return words


def _numbers(option: str, text: str, whole: bool = False) -> list[float]:
    try:
        numbers = [float(word) for word in _words("number", text)]
    except ValueError:
        numbers = []
    if not all(n > 0 and (n.is_integer() or not whole) for n in numbers) or not numbers:
        kind = "whole numbers" if whole else "numbers"
        raise BadParameter(f"{option} is one or more {kind} above zero, with commas between")
    return numbers
