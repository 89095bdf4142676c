"""Render the private report: one HTML file that shows the data owner how a run went.

Promises: the file says that it is private before it says anything else; it asks the network for
nothing and runs no script; whatever comes from the data is shown as text. A rule has one colour
and one letter throughout a report, and the figure says in words what it shows.

No text from the data is drawn by matplotlib: rules are named in the legend, which is HTML. Nothing
is read a second time: costs are estimated from the counts that were released.

`RunResult` holds how a run went: what may be published, and what belongs to the data owner.
"""

import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from string import ascii_uppercase
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from littlestone._data.rounds import BadRow
from littlestone._display import clipped, environment, library_version
from littlestone._hypotheses.rules import Hypothesis
from littlestone._learners.base import PrivateLearner, Release
from littlestone._learners.causes import PrivateCauses
from littlestone._learners.evidence import (
    CauseHistory,
    CauseSummary,
    CostSample,
    OverTime,
    costs_of,
    over_time,
    summarize_causes,
)
from littlestone._learners.trace import TOP, Sample
from littlestone._plots import (
    COLOURS,
    INK,
    LETTERS,
    MANY_RELEASES,
    NARROW,
    OTHER,
    SOFT,
    WIDE,
    inline_svg,
    multiple,
    new_figure,
    percent,
    plot_mistakes,
    plot_over_time,
    rate_scale,
    short_numbers,
    style_axes,
    top_rate,
)
from littlestone._report.causes import label_in_words, rule_in_words, rules_as_text, summary_of
from littlestone._store.releases_file import release_to_json
from littlestone._store.request import LearnRequest, RunConfig
from littlestone._store.store import Published, Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


# The letter of the rules that have none of their own.
OTHER_RULES = "other"
# A page has the figure of a run twice, and shows the one that fits.
SIZES = {"wide": WIDE, "narrow": NARROW}
# The most causes in a figure: those that stand, and the last ones that were dropped.
MOST_CAUSES = 12


@dataclass(frozen=True, repr=False)
class Report:
    """Hold all that a report shows. Private, so it does not print."""

    title: str
    spec: str
    guarantee: str
    rounds: int
    null_rounds: int
    beyond_cap: int
    bad_rows: Sequence[str]
    trees: int
    releases: Sequence[Release]
    samples: Sequence[Sample]
    plan: Sequence[tuple[str, str, str]]
    ledger: Sequence[tuple[str, str, str, str]]
    notes: Sequence[str]
    provenance: Mapping[str, str]
    statement: Mapping[str, str]
    label: str = ""
    causes: Sequence[CauseSummary] | None = None
    rate_to_beat: float | None = None
    why: Sequence[str] = ()
    costs: Sequence[CostSample] = ()
    over_time: OverTime | None = None
    missed: int | None = None
    false_alarms: int = 0
    counted: str = "events"
    # Whether a finished table was learned: then nothing came before anything else.
    table: bool = False

    def __repr__(self) -> str:
        return "Report(private)"

    @property
    def has_outcomes(self) -> bool:
        """Return whether causes say which outcome they are of."""
        return any(each.cause.outcome is not None for each in self.causes or ())


def render_report(report: Report) -> str:
    """Return the report as the text of one HTML file. Private."""
    rules = lettered_rules(report.releases, report.samples)
    figures = _in_sizes(report, run_figure) if report.rounds and not report.table else []
    histories = report.over_time.histories if report.over_time else ()
    template = environment("littlestone._report").get_template("report.html.j2")
    return template.render(
        report=report,
        last=report.samples[-1] if report.samples else None,
        legend=[(letter, n, str(rule)) for n, (rule, letter) in enumerate(rules.items())],
        others=len(rules) == len(COLOURS),
        figures=figures,
        over_time=_in_sizes(report, over_time_figure) if histories else [],
        histories=[(_letter(report, each), str(each.cause), each.words) for each in histories],
        lead=" ".join(lead(report)),
        words=" ".join(in_words(report)),
        numbers=map(_in_numbers, report.samples),
        releases=rules_as_text(report.releases, of_causes=report.causes is not None),
        causes=None if report.causes is None else [*_cause_rows(report)],
        costs=[
            tuple(f"{x:,.0f}" for x in cost[: 3 if report.causes else 2]) for cost in report.costs
        ],
        scale=f"{100 * _scale(report):g} %",
    )


def _in_sizes(
    report: Report, draw: "Callable[[Report, float], Figure]"
) -> list[tuple[str, Markup]]:
    """Return a figure in every size, each with the kind of screen that it is for."""
    return [
        (kind, inline_svg(draw(report, width), f"{draw.__name__} {kind}"))
        for kind, width in SIZES.items()
    ]


def _scale(report: Report) -> float:
    return rate_scale([each.bar for each in report.causes or ()], report.rate_to_beat)


def _cause_rows(report: Report) -> Iterator[dict[str, Any]]:
    """Yield what the template shows of each cause; places on a bar are in thousandths of it."""
    scale = _scale(report)

    def place(rate: float | None) -> str | None:
        return None if rate is None else f"{min(1000.0, 1000 * rate / scale):.1f}"

    for number, each in enumerate(report.causes or ()):
        evidence, bar = each.evidence, each.bar
        has_rate = evidence is not None and bar.rate is not None
        to_beat = None if evidence is None else evidence.to_beat
        yield {
            "letter": ascii_uppercase[number] if number < MOST_CAUSES else "",
            "cause": str(each.cause),
            "standing": each.standing,
            "spans": "" if report.table else f"; {spans_in_words(each)}",
            "events": None if evidence is None else evidence.estimate.counted,
            "rate": percent(bar.rate) if bar.rate is not None else None,
            "interval": f"{percent(bar.low)} to {percent(bar.high)}",
            "base": None if bar.base is None else percent(bar.base),
            "lift": None if evidence is None or not evidence.lift else multiple(evidence.lift),
            "clear": has_rate and bar.base is not None and bar.low > bar.base,
            "at": place(bar.rate),
            "low": place(bar.low) if has_rate else None,
            "high": place(bar.high) if has_rate else None,
            "base_at": place(bar.base),
            "beaten": None if to_beat is None else percent(to_beat),
            "beaten_at": place(to_beat),
        }


def lead(report: Report) -> Iterator[str]:
    """Say in a sentence or two what happened. Private."""
    if report.causes is not None:
        if not report.causes:
            rows = some(report.rounds, "row" if report.table else "round")
            yield f"Nothing was published in {rows}."
            return
        standing = sum(each.standing for each in report.causes)
        published = _times(len(report.causes), "cause was", "causes were")
        now = "" if report.table else f"; {_times(standing, 'stands', 'stand')} now"
        yield f"{published} published{now}."
    elif report.releases:
        changed = _times(len(report.releases) - 1, "time", "times")
        yield f"The rule changed {changed} in {some(report.rounds, 'round')}."
    if report.costs:
        _, ours, nothing = report.costs[-1]
        rate = report.rate_to_beat or 0.5
        yield (
            f"What was published cost about {ours:,.0f}; publishing nothing would have cost about "
            f"{nothing:,.0f}. A missed positive costs 1, a false alarm the odds of the rate to beat, "
            f"which are {rate / (1 - rate):.2g} now."
        )


def _times(count: int, one: str, many: str) -> str:
    return f"{count:,} {one if count == 1 else many}"


def spans_in_words(one: CauseSummary) -> str:
    """Return the rounds in which a cause stood, in words."""
    spans = [f"{a:,} to {'the end' if b is None else f'{b:,}'}" for a, b in one.spans]
    return ("published" if one.standing else "dropped") + f": rounds {', '.join(spans)}"


def _in_numbers(sample: Sample) -> tuple[str, ...]:
    leader, votes = sample.votes[0] if sample.votes else ("none", 0)
    return f"{sample.round:,}", f"{sample.mistakes:,}", f"{votes:,}", clipped(str(leader), 60)


def lettered_rules(releases: Sequence[Release], samples: Iterable[Sample]) -> dict[Hypothesis, str]:
    """Return the rules that have a colour and a letter of their own."""
    most = {release.rule: 0 for release in releases}
    published, standing = set(most), releases[-1].rule if releases else None
    for sample in samples:
        for rule, votes in sample.votes:
            most[rule] = max(votes, most.get(rule, 0))
    # The rule that stands, then published ones, then those with most votes: colours are few.
    ranked = sorted(most, key=lambda rule: (rule != standing, rule not in published, -most[rule]))
    return dict(zip(ranked[: len(COLOURS)], ascii_uppercase, strict=False))


def run_figure(report: Report, width: float = WIDE) -> "Figure":
    """Draw mistakes or costs, votes, and what stood when, over one axis of rounds. Private."""
    rules, causes = lettered_rules(report.releases, report.samples), report.causes
    title, bars = "Published rules", _rule_bars(report, rules)
    if report.costs and causes is not None:
        title, bars = "Causes, by the rounds in which they stood", _cause_bars(report, causes)
    votes = bool(report.trees) and not report.costs
    heights = [2.2, *([2.0] if votes else []), *([0.55 + 0.2 * len(bars)] if bars else [])]
    figure = new_figure(sum(heights), width)
    grid = figure.subplots(len(heights), 1, sharex=True, height_ratios=heights, squeeze=False)
    panels = [style_axes(ax) for ax in grid[:, 0]]
    _plot_costs(panels[0], report) if report.costs else _plot_mistakes(panels[0], report)
    if votes:
        _plot_votes(panels[1], report, rules)
    if bars:
        _plot_bars(panels[-1], bars)
        _entitle(panels[-1], title)
    panels[-1].set_xlim(0, report.rounds)
    short_numbers(panels[-1].xaxis)
    panels[-1].set_xlabel("rounds")
    return figure


def over_time_figure(report: Report, width: float = WIDE) -> "Figure":
    """Draw the rate of each cause, a panel each, over one axis. Public."""
    shown = report.over_time
    assert shown is not None
    count, top = len(shown.lines), top_rate(shown.lines)
    figure = new_figure(0.5 + 1.3 * count, width)
    panels = figure.subplots(count, 1, sharex=True, squeeze=False)[:, 0]
    for ax, line, history in zip(panels, shown.lines, shown.histories, strict=True):
        plot_over_time([line], style_axes(ax), timed=shown.timed)
        ax.set_ylim(0, top)
        _entitle(ax, _letter(report, history))
    panels[-1].set_xlabel(shown.zone)
    return figure


def _letter(report: Report, history: CauseHistory) -> str:
    """Return the letter by which a report names a cause; nothing if it has none."""
    named = zip(ascii_uppercase, (report.causes or ())[:MOST_CAUSES], strict=False)
    return next((letter for letter, each in named if each.cause == history.cause), "")


def _plot_mistakes(ax: "Axes", report: Report) -> None:
    points = [(sample.round, sample.mistakes) for sample in report.samples]
    plot_mistakes(points, [min(r.round, report.rounds) for r in report.releases[1:]], ax)
    ax.set(xlabel="", ylabel="")
    _entitle(ax, "Mistakes (dotted: a new rule)")


def _plot_costs(ax: "Axes", report: Report) -> None:
    """Draw what the published causes cost beside publishing nothing, or only that."""
    across, published, nothing = zip(*report.costs, strict=True)
    if report.causes:
        ax.plot(across, nothing, "--", color=SOFT, label="publishing nothing", clip_on=False)
        ax.fill_between(across, published, nothing, color=COLOURS[0], alpha=0.1, linewidth=0)
    ax.plot(across, published, color=COLOURS[0], label="the published causes", clip_on=False)
    ax.set_ylim(0, 1.05 * max(1.0, *published, *nothing))
    changes = report.releases[1:]
    for release in changes if len(changes) <= MANY_RELEASES else ():
        ax.axvline(min(release.round, report.rounds), color=SOFT, linestyle=":", linewidth=1)
    short_numbers(ax.yaxis)
    if report.causes:
        ax.legend(frameon=False, fontsize=LETTERS, labelcolor=INK, loc="upper left").set_zorder(1)
    title = "Cost, estimated (dotted: a change)" if report.causes else "Positives missed, estimated"
    _entitle(ax, title)


# A letter, a colour, and the rounds in which what has them stood.
Bar = tuple[str, str, Sequence[tuple[int, int]]]


def _cause_bars(report: Report, causes: Sequence[CauseSummary]) -> list[Bar]:
    return [
        (
            letter,
            COLOURS[0] if each.standing else OTHER,
            [(start, stop or report.rounds) for start, stop in each.spans],
        )
        for letter, each in zip(ascii_uppercase, causes[:MOST_CAUSES], strict=False)
    ]


def _rule_bars(report: Report, rules: Mapping[Hypothesis, str]) -> list[Bar]:
    # A rule may be published for the round after the last.
    ends = [min(release.round, report.rounds) for release in report.releases[1:]] + [report.rounds]
    stood: dict[str, list[tuple[int, int]]] = {}
    # Without a release there is one end too many.
    for release, end in zip(report.releases, ends, strict=False):
        stood.setdefault(rules.get(release.rule, OTHER_RULES), []).append((release.round, end))
    return [(letter, _colours(rules)[letter], spans) for letter, spans in stood.items()]


def _plot_bars(ax: "Axes", bars: Sequence[Bar]) -> None:
    """Draw a row for each letter: a bar for the rounds in which it stood, a dot where it began."""
    last = max((stop for _, _, spans in bars for _, stop in spans), default=1)
    for row, (_, colour, spans) in enumerate(bars):
        starts = [min(start, last) for start, _ in spans]
        ax.hlines([row] * len(spans), starts, [stop for _, stop in spans], colour, linewidth=7)
        # However short it stood, a dot shows that it did; at the edge it must not be cut.
        ax.plot(starts, [row] * len(spans), "o", color=colour, markersize=7, clip_on=False)
    ax.set_yticks(range(len(bars)), [letter for letter, _, _ in bars])
    ax.tick_params(axis="y", pad=8)
    ax.set_ylim(len(bars) - 0.4, -0.6)


def _entitle(ax: "Axes", title: str) -> None:
    ax.set_title(title, loc="left", color=INK, fontsize=LETTERS)


def _plot_votes(ax: "Axes", report: Report, rules: Mapping[Hypothesis, str]) -> None:
    """Draw a line for each rule that has a letter, and one for the sum of all others."""
    cast = [Counter[str]() for _ in report.samples]
    for votes, sample in zip(cast, report.samples, strict=True):
        for rule, count in sample.votes:
            votes[rules.get(rule, OTHER_RULES)] += count
    marker = "o" if len(cast) == 1 else ""
    for letter, colour in _colours(rules).items():
        counts = [votes[letter] for votes in cast]
        if any(counts):
            across = [sample.round for sample in report.samples]
            (line,) = ax.plot(across, counts, color=colour, marker=marker, label=letter)
            # Votes stay as they are between two samples; a slope would show changes that did not
            # happen.
            line.set_drawstyle("steps-post")
    ax.set_ylim(0, 1.05 * max([1, *(votes.total() for votes in cast)]))
    short_numbers(ax.yaxis)
    _entitle(ax, f"Votes of {report.trees:,} trees")


def _colours(rules: Mapping[Hypothesis, str]) -> dict[str, str]:
    return dict(zip(rules.values(), COLOURS, strict=False)) | {OTHER_RULES: OTHER}


def voters(sample: Sample) -> int:
    """Return how many trees vote for the rules that a sample lists."""
    return sum(votes for _, votes in sample.votes)


def in_words(report: Report) -> Iterable[str]:
    """Say what the figure shows, to people who cannot see it. Private."""
    if report.costs and report.causes is not None:
        yield from lead(report)
        for each in report.causes[:MOST_CAUSES]:
            yield f"{clipped(str(each.cause), 80)}, {spans_in_words(each)}."
        return
    if not report.samples:
        yield "Nothing was recorded."
    else:
        last = report.samples[-1]
        # The last sample itself qualifies, so there is always one.
        half = next(s for s in report.samples if 2 * s.mistakes >= last.mistakes)
        yield (
            f"{last.mistakes:,} mistakes in {last.round:,} rounds;"
            f" {half.mistakes:,} of them by round {half.round:,}."
        )
        if report.trees:
            cast = [f"{votes:,} for {clipped(str(rule), 80)}" for rule, votes in last.votes]
            full = any(len(sample.votes) >= TOP for sample in report.samples)
            silent = f"no vote, or for a rule not among the first {TOP}" if full else "no vote"
            cast.append(f"{report.trees - voters(last):,} {silent}")
            yield f"Of {report.trees:,} trees after round {last.round:,}: {', '.join(cast)}."
    published = [
        f"{clipped(str(rule), 80)} from round {number:,}" for number, rule in report.releases
    ]
    if len(published) > 10:
        published[5:-5] = [f"{len(published) - 10:,} others"]
    yield (
        f"{len(report.releases):,} published: {'; '.join(published)}." if published else "No rule."
    )


@dataclass
class RunResult:
    """How a run went. What the run has published is public, the rest is private."""

    task: LearnRequest
    run: Run
    length: int | None
    bad_rows: list[BadRow] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    _printed: int = 0
    # How far the rows that were learned before have been passed over, while they are.
    passing: str = ""
    # What the rows are counted in.
    unit: str = "line"

    @property
    def learner(self) -> PrivateLearner:
        """Return the learner."""
        return self.run.learner

    def new_notes(self) -> list[str]:
        """Return the notes that have not been printed yet, once."""
        printed, self._printed = self._printed, len(self.notes)
        return self.notes[printed:]

    def public(self) -> dict[str, Any]:
        """Return what may be published, as JSON data."""
        return public_of(self.run.about, self.run.published)

    def private(self) -> dict[str, Any]:
        """Return what belongs to the data owner, as JSON data."""
        learner = self.learner
        private: dict[str, Any] = {**learner_counts(learner)}
        if isinstance(learner, PrivateCauses):
            private |= errors_by_kind(learner.mistakes, learner.missed, learner.cost)
        return private | {
            "bad_rows": [f"{self.unit} {bad.line}: {bad.sentence}" for bad in self.bad_rows],
            "ledger": [list(row) for row in ledger_rows(learner)],
            "notes": self.notes,
        }


def public_of(about: RunConfig, published: Published) -> dict[str, Any]:
    """Return what may be published of a run, as JSON data."""
    causes = summary_of(published)
    return {
        "learner": about.chosen.learner_name,
        "why": about.chosen.why,
        "class": about.terms.spec,
        "guarantee": str(published.guarantee),
        "spent": published.spent,
        "rule": str(published.releases[-1].rule),
        "releases": [release_to_json(release) for release in published.releases],
        **about.terms.label_data,
        "rounds": published.rounds,
        "horizon": about.chosen.plan.horizon,
        "final": published.final,
        **({} if causes is None else {"causes": causes.to_json()}),
    }


def statement_of(about: RunConfig, published: Published) -> dict[str, str]:
    """Return a statement for somebody who has to answer for the privacy of a run. Public."""
    terms, guarantee, last = about.terms, published.guarantee, published.releases[-1]
    label = label_in_words(**terms.label_data)
    counts = f", and counts with noise in {some(len(published.windows), 'window')} of rounds"
    drawn = "" if about.account is None else " It was drawn from a budget that all runs share."
    what, of_causes = some(len(published.releases), "rule"), published.evidence is not None
    sentence = rule_in_words(last.rule, label, of_causes=of_causes)
    standing = f" The last rule, from event {last.round:,} on: {sentence}."
    ever, rows = " and ever will, however much it is", "event"
    if terms.table:
        rows = "row"
        what, counts, ever, standing = (
            "1 rule",
            ", and counts with noise",
            "",
            f" The rule: {sentence}.",
        )
    if of_causes and len(published.releases) == 1:
        what, standing = "No rule", ""
    return {
        "What was published": f"{what} about {label}{counts * bool(published.windows)}, computed "
        f"from {some(published.rounds, rows)} with the class {terms.spec}.{standing}",
        **guarantee.meaning(),
        "What was spent": f"{guarantee}: in all, for everything that this run has published{ever}."
        f"{drawn} Up to now it has used {published.spent}.",
    }


def counts_of(rounds: int, null_rounds: int, beyond_cap: int, mistakes: int) -> dict[str, int]:
    """Return what became of the rounds, by name. Private, but for how many there were."""
    return {
        "rounds": rounds,
        "counted_rounds": rounds - null_rounds,
        "mistakes": mistakes,
        "null_rounds": null_rounds,
        "beyond_cap": beyond_cap,
        "unreadable": null_rounds - beyond_cap,
    }


def learner_counts(learner: PrivateLearner) -> dict[str, int]:
    """Return what became of the rounds of a learner. Private, but for how many there were."""
    return counts_of(learner.rounds, learner.null_rounds, learner.beyond_cap, learner.mistakes)


def errors_by_kind(mistakes: int, missed: int, cost: float) -> dict[str, Any]:
    """Return the mistakes of a learner of causes by kind, and what they cost."""
    return {"missed": missed, "false_alarms": mistakes - missed, "cost": cost}


def counts_in_words(counts: Mapping[str, Any], what: str = "round") -> Iterator[str]:
    """Say what became of the rounds: what counted, what was beyond the cap, what was unreadable."""
    counted, mistakes = counts["counted_rounds"], some(counts["mistakes"], "mistake")
    if "missed" in counts:
        alarms = some(counts["false_alarms"], "false alarm")
        if counts["false_alarms"]:
            alarms += f", which cost as much as {counts['cost'] - counts['missed']:,.0f}"
        mistakes = f"{some(counts['missed'], 'missed positive')}; {alarms};"
    share = f" ({counts['mistakes'] / counted:.3%})" if counted and "missed" not in counts else ""
    if counts["null_rounds"]:
        yield f"{mistakes} in the {some(counted, what)} that counted{share}"
    else:
        yield f"{mistakes} in {some(counted, what)}{share}"
    if beyond := counts["beyond_cap"]:
        yield f"{some(beyond, what)} beyond the cap of their user: not learned, null rounds"
    if unreadable := counts["unreadable"]:
        yield f"{some(unreadable, 'row')} that could not be read: null rounds"


def some(count: int, what: str) -> str:
    """Write a count with its noun."""
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def report_of(outcome: RunResult) -> Report:
    """Return the private report of a run."""
    learner, task, chosen = outcome.learner, outcome.task, outcome.run.about.chosen
    summary = summary_of(outcome.run.published)
    of_causes = _of_causes(learner) if isinstance(learner, PrivateCauses) else {}
    return Report(
        # Causes of outcomes say themselves what happens.
        label=task.label if task.negative else label_in_words(**task.label_data),
        **of_causes,
        why=() if summary is None else summary.reasons(),
        title=task.source,
        spec=task.spec,
        guarantee=str(outcome.run.published.guarantee),
        statement=statement_of(outcome.run.about, outcome.run.published),
        rounds=learner.rounds,
        null_rounds=learner.null_rounds,
        beyond_cap=learner.beyond_cap,
        bad_rows=outcome.private()["bad_rows"],
        trees=getattr(learner.plan, "trees", 0),
        releases=learner.releases,
        samples=learner.trace,
        plan=list(learner.plan.lines()),
        ledger=ledger_rows(learner),
        notes=outcome.notes,
        provenance={
            "littlestone": library_version(),
            "class": repr(learner.cls),
            "learner": f"{chosen.learner_name}: {chosen.why}",
            "seed of the random bits (not secret)": str(learner.seed),
        },
    )


def _of_causes(learner: PrivateCauses) -> dict[str, Any]:
    """Return the fields of a report that only a learner of causes has."""
    costs = costs_of(learner.windows)
    causes = summarize_causes(learner.releases, learner.evidence)
    return {
        "causes": causes,
        "rate_to_beat": learner.rate_to_beat,
        "costs": costs if len(costs) > 1 else [],
        "over_time": over_time(
            learner.windows, [each.evidence for each in causes if each.evidence]
        ),
        "missed": learner.missed,
        "false_alarms": learner.mistakes - learner.missed,
        "counted": learner.plan.counted,
        "table": learner.plan.table,
    }


def _adding(adds: bool, cap: int | None) -> str:
    if adds:
        return "adds up"
    return "disjoint epochs: counts once" if cap is None else f"in {some(cap, 'epoch')} at most"


def ledger_rows(learner: PrivateLearner) -> list[tuple[str, str, str, str]]:
    """Return the ledger by mechanism: how often used, at what cost each, how that adds up."""
    cap = getattr(learner.plan, "cap", None)
    uses = Counter((event.mechanism, event.cost, event.epoch is None) for event in learner.ledger)
    return [
        (
            mechanism,
            f"{count:,}",
            f"epsilon {float(cost.epsilon):.4g}, delta {float(cost.delta):.3g}",
            # The evidence of a user is paid for once, whatever the epochs.
            _adding(adds, None if mechanism == "evidence" else cap),
        )
        for (mechanism, cost, adds), count in uses.items()
    ]


def refuse_file(path: Path | None, force: bool = False) -> None:
    """Raise `OSError` if a file exists, unless `force` is set, or cannot be written."""
    if path is not None and path.exists() and not force:
        raise FileExistsError(
            17, "it exists already: choose another name, or --force to overwrite it", str(path)
        )
    refuse_unwritable(path)


def refuse_unwritable(path: Path | None) -> None:
    """Raise `OSError` if a file cannot be written, before anything is spent on what it will hold."""
    if path is None:
        return
    if path.is_dir():
        raise IsADirectoryError(21, "it is a folder: name a file in it", str(path))
    if not path.parent.is_dir():
        raise FileNotFoundError(2, "the folder is not there: create it first", str(path))
    try:
        with open(path, "ab") if path.exists() else TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise type(error)(
            error.errno, f"{error.strerror}: it cannot be written", str(path)
        ) from None


def write_private_json(path: Path | None, data: object) -> None:
    """Write private data as JSON, if there is a file for it."""
    if path is not None:
        write_private(path, json.dumps(data, ensure_ascii=False) + "\n")


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner may read."""
    # A file that exists keeps its mode when it is overwritten: it might be readable for others.
    path.unlink(missing_ok=True)
    with open(
        # Created with mode 0600: a chmod afterwards would leave a moment for others to open it.
        os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600),
        "w",
        encoding="utf-8",
    ) as f:
        f.write(text)
