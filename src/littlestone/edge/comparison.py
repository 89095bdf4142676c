"""A comparison as one HTML page, as a table in the terminal, and as SVG files.

Promises: the page asks the network for nothing and runs no script; when the stream was a user's
file, everything says that it is private before it says anything else, and what it spent.
"""

from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

from rich.console import Console, JustifyMethod
from rich.table import Table

from littlestone import __version__
from littlestone.edge.comparing import Sweep
from littlestone.edge.curves import drawn, standalone
from littlestone.edge.markup import Markup, element
from littlestone.edge.pictures import charts
from littlestone.edge.plane import shortened
from littlestone.edge.report import POLICY
from littlestone.lab.contenders import CONTENDERS
from littlestone.lab.summary import Line, lines
from littlestone.lab.sweeps import FILE, Result

COLUMNS = ("stream", "T", "epsilon", "learner", "median", "worst", "excess", "releases", "rounds/s")
WIDEST = 120
EXCESS = (
    "Mistakes over seeds: median and worst. Excess: the median over the mistakes of the best rule"
    " that never changes. Releases: those after the first rule, median."
)


def spending(sweep: Sweep) -> str:
    """What comparing learners on a user's own file has cost, in a sentence."""
    private = sum(CONTENDERS[name].private for name in sweep.learners)
    total = sum(sweep.epsilons) * sweep.seeds * private
    open_ones = ", ".join(name for name in sweep.learners if not CONTENDERS[name].private)
    told = f" {open_ones} follow the data without noise." if open_ones else ""
    return (
        f"PRIVATE: for studying, not for publishing. Every private learner and seed spends its"
        f" epsilon on this data, {total:g} in all if their rules were published.{told}"
    )


def notes(sweep: Sweep, results: Sequence[Result]) -> list[str]:
    """What a reader should know about the figures."""
    said = list[str]()
    if sweep.file is None and sweep.delta * 10 * max(sweep.rounds) > 1:
        said.append(
            f"delta = {sweep.delta:g} is above 1 / (10 x rounds): that allows some record of a"
            " stream to be published"
        )
    return [*said, *vacuous(results)]


def vacuous(results: Sequence[Result]) -> list[str]:
    """The learners whose plans said that they would learn nothing, each once for every epsilon."""
    about: dict[tuple[str, float], set[int]] = {}
    for result in results:
        if result.vacuous:
            cell = result.cell
            about.setdefault((cell.learner, cell.epsilon), set()).add(cell.rounds)
    return [
        f"{learner} at epsilon {epsilon:g} is vacuous: the first rule will stand, by its own plan"
        f" (T = {', '.join(f'{rounds:,}' for rounds in sorted(lengths))})"
        for (learner, epsilon), lengths in about.items()
    ]


def print_comparison(console: Console, sweep: Sweep, results: Sequence[Result]) -> None:
    """The table, for people."""
    if sweep.file is not None:
        console.print(spending(sweep) + "\n")
    found = lines(results)
    for spec in dict.fromkeys(line.cls for line in found):
        of_class = [line for line in found if line.cls == spec]
        seeds = max(line.seeds for line in of_class)
        console.print(
            f"{spec}, Littlestone dimension {of_class[0].dimension}, delta {sweep.delta:g},"
            f" {seeds} seed{'s' * (seeds != 1)}"
        )
        table = Table(box=None, padding=(0, 1, 0, 0), show_edge=False)
        for name in COLUMNS:
            side: JustifyMethod = "left" if name in ("stream", "learner") else "right"
            table.add_column(name, justify=side, no_wrap=True)
        for line in of_class:
            table.add_row(*cells(line))
        console.print(table, width=WIDEST)
        for said in troubles(of_class):
            console.print(f"  {said}")
        console.print()
    console.print(EXCESS)
    for note in notes(sweep, results):
        console.print(f"note: {note}")


def cells(line: Line) -> list[str]:
    """A line of the table."""
    start = [_stream(line), f"{line.rounds:,}", f"{line.epsilon:g}", line.learner]
    if line.trouble:
        return [*start, "cannot", "", "", "", ""]
    return [
        *start,
        f"{line.median:,.4g}" if line.median < 10_000 else f"{line.median:,.0f}",
        f"{line.worst:,}",
        "unknown" if line.excess is None else f"{line.excess:,.0f}",
        f"{line.releases:,.4g}",
        _brief(line.per_second),
    ]


def _brief(number: float) -> str:
    """Two digits that matter: `61k`, `3.3M`."""
    return shortened([10**6, round(float(f"{number:.2g}"))])[1]


def troubles(found: Sequence[Line]) -> list[str]:
    """Why some learners could not play, each reason once, with the streams it is about."""
    about: dict[tuple[str, str], dict[str, None]] = {}
    for line in found:
        if line.trouble:
            about.setdefault((line.learner, line.trouble), {})[_stream(line)] = None
    return [f"{name} on {', '.join(on)}: {why}" for (name, why), on in about.items()]


def _stream(line: Line) -> str:
    return "file" if line.stream.startswith(FILE) else line.stream


def render(sweep: Sweep, results: Sequence[Result], command: str) -> str:
    """The comparison as one HTML file."""
    room = files("littlestone.edge")
    style = "".join(room.joinpath(f"{n}.css").read_text("utf-8") for n in ("report", "curves"))
    private = sweep.file is not None
    title = f"{'PRIVATE: ' * private}a littlestone comparison"
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=POLICY),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("title", title),
        element("style", Markup(style)),
    )
    warning = [element("aside", element("p", element("strong", spending(sweep))))] * private
    parts = [
        element("h1", element("span", "Learners side by side"), element("code", *_classes(sweep))),
        *(element("p", note, class_="note") for note in notes(sweep, results)),
        *_figures(results),
        _table(results),
        _provenance(sweep, command),
    ]
    body = element("body", *warning, element("main", *parts))
    return f"<!DOCTYPE html>\n{element('html', head, body, lang='en')}\n"


def _classes(sweep: Sweep) -> list[str]:
    return [", ".join(sweep.specs)]


def _figures(results: Sequence[Result]) -> list[Markup]:
    figures = [
        element("figure", element("figcaption", chart.title), drawn(chart))
        for chart in charts(results)
    ]
    return [element("section", element("h2", "Mistakes"), *figures)] if figures else []


def _table(results: Sequence[Result]) -> Markup:
    found = lines(results)
    names = ["class", *COLUMNS]
    rows = [[line.cls, *cells(line)] for line in found]
    return element(
        "section",
        element("h2", "In numbers"),
        element("p", EXCESS),
        _grid(names, rows),
        *(element("p", said, class_="note") for said in troubles(found)),
    )


def _grid(names: Sequence[str], rows: Sequence[Sequence[str]]) -> Markup:
    head = element("tr", *(element("th", name, scope="col") for name in names))
    body = [element("tr", *(element("td", cell) for cell in row)) for row in rows]
    table = element("table", element("thead", head), element("tbody", *body), class_="numbers")
    label = "Table: the comparison in numbers"
    return element("div", table, class_="scroll", tabindex=0, role="group", aria_label=label)


def _provenance(sweep: Sweep, command: str) -> Markup:
    rows = [
        ["command", command],
        ["littlestone", __version__],
        ["delta", f"{sweep.delta:g}"],
        ["seeds", f"1 to {sweep.seeds}, of the streams and of the coins; the noise is secret"],
        *([name, CONTENDERS[name].what] for name in sweep.learners),
    ]
    return element(
        "section", element("h2", "Where this comes from"), _grid(["what", "value"], rows)
    )


def write_figures(folder: Path, results: Sequence[Result]) -> list[Path]:
    """Every picture as an SVG file of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    style = files("littlestone.edge").joinpath("curves.css").read_text("utf-8")
    written = []
    for chart in charts(results):
        path = folder / f"{chart.name}.svg"
        path.write_text(standalone(drawn(chart), style), encoding="utf-8")
        written.append(path)
    return written
