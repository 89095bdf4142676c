"""Two curves of a run: the mistakes of the published rules, and what the trees vote for.

Promises: votes are stacked, coloured rules first, up to the number of trees and never beyond; a
rule has one colour throughout a report. Both pictures say in words what they show.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from littlestone.edge.markup import Markup, clipped, element
from littlestone.edge.plane import (
    CEILING,
    LEFT,
    RIGHT,
    Axis,
    Plane,
    Point,
    area,
    picture,
    slopes,
    steps,
)
from littlestone.learning.releases import Release
from littlestone.learning.trace import TOP, Sample
from littlestone.theory.hypothesis import Hypothesis

COLOURS = 6
"""How many colours the style sheet has."""

MANY = 60
"""With more releases than this, curves are drawn without a line for each."""

LONGEST = 2_000
"""A title in a picture is cut here; the table of releases is where a rule is never cut."""

Colours = dict[Hypothesis, int]


def colours(releases: Sequence[Release], samples: Iterable[Sample]) -> Colours:
    """The rules with a colour of their own: the standing one, then published ones, by best vote."""
    best: Colours = {release.rule: 0 for release in releases}
    published, standing = set(best), releases[-1].rule if releases else None
    for sample in samples:
        for rule, votes in sample.votes:
            best[rule] = max(votes, best.get(rule, 0))
    ranked = sorted(best, key=lambda rule: (rule != standing, rule not in published, -best[rule]))
    return {rule: number for number, rule in enumerate(ranked[:COLOURS])}


def colour_of(rule: Hypothesis | None, palette: Colours) -> str:
    """A rule's colour, by its name in the style sheet."""
    return f"c{palette[rule]}" if rule in palette else "other"


def mistakes_chart(axis: Axis, samples: Sequence[Sample], releases: Sequence[Release]) -> Markup:
    """The mistakes of the published rules, summed, against the rounds."""
    plane = Plane(axis, max([1, *(sample.mistakes for sample in samples)]))
    shown = thinned(samples, axis)
    points = _points(plane, [x for x, _ in shown], [sample.mistakes for _, sample in shown])
    marks = [
        *_firings(plane, releases),
        element("path", class_="under", d=area(slopes(points), points, plane.base)),
        element("path", class_="curve", d=slopes(points)),
        *(element("circle", class_="dot", cx=x, cy=y, r=3.5) for x, y in points[-1:]),
    ]
    return picture(plane, "mistakes", "Mistakes so far", _mistakes_in_words(samples), marks)


def votes_chart(
    axis: Axis,
    samples: Sequence[Sample],
    releases: Sequence[Release],
    trees: int,
    palette: Colours,
) -> Markup:
    """What the trees vote for. A layer reaches down to the base; lower ones are drawn over it."""
    plane, shown, layers = Plane(axis, height_of(samples, trees)), thinned(samples, axis), []
    xs, stacks = [x for x, _ in shown], [stacked(sample, palette) for _, sample in shown]
    for layer, rule in reversed([*enumerate([*palette, None])]):
        if any(stack[layer] > (layer and stack[layer - 1]) for stack in stacks):
            points = _points(plane, xs, [stack[layer] for stack in stacks])
            around = area(steps(points), points, plane.base)
            title = element("title", "other rules" if rule is None else clipped(str(rule), LONGEST))
            layers.append(element("path", title, class_=colour_of(rule, palette), d=around))
    words, marks = _votes_in_words(samples, trees), [*_firings(plane, releases), *layers]
    return picture(plane, "votes", f"What {trees:,} trees vote for", words, marks)


def height_of(samples: Iterable[Sample], trees: int) -> int:
    """How many trees the picture shows: all, or as many as ever voted if those are few."""
    most = max(map(voters, samples), default=0)
    return trees if 2 * most > trees else max(1, most)


def _firings(plane: Plane, releases: Sequence[Release]) -> Iterator[Markup]:
    """A line wherever the rule changed, unless the lines would hide the picture."""
    for release in releases[1:] if len(releases) <= MANY else ():
        x = plane.axis.x(release.round)
        yield element("line", class_="firing", x1=x, x2=x, y1=CEILING, y2=f"{plane.base:g}")


def stacked(sample: Sample, palette: Colours) -> list[int]:
    """Up to which tree each layer reaches: the coloured rules, then all others.

    >>> from littlestone.theory.hypothesis import ALWAYS, NEVER
    >>> stacked(Sample(9, 0, ((NEVER, 5), (ALWAYS, 2))), {ALWAYS: 0})
    [2, 7]
    """
    tops = [0] * (len(palette) + 1)
    for rule, votes in sample.votes:
        tops[palette.get(rule, -1)] += votes
    for layer in range(len(palette)):
        tops[layer + 1] += tops[layer]
    return tops


def thinned(samples: Sequence[Sample], axis: Axis) -> list[tuple[float, Sample]]:
    """Samples that the eye can tell apart, and where they are. Of several in one column of the
    picture, the last and the one with the most votes stay, each on its side of the column, so that
    the peak before a firing is seen however short it was."""
    kept: list[tuple[float, Sample]] = []
    for column, group in groupby(samples, key=lambda sample: round(axis.x(sample.round))):
        first, *others = group
        if others:
            fullest = max([first, *others], key=voters)
            kept += [(max(LEFT, column - 0.5), fullest), (min(RIGHT, column + 0.5), others[-1])]
        else:
            kept.append((axis.x(first.round), first))
    return kept


def _points(plane: Plane, xs: Sequence[float], values: Iterable[int]) -> list[Point]:
    """Values on the plane, the whole at least two wide: a single sample is seen too."""
    points = [(x, plane.y(value)) for x, value in zip(xs, values, strict=True)]
    if points:
        (start, first), (end, last) = points[0], points[-1]
        end = max(end, LEFT + 2)
        points = [(min(start, end - 2), first), *points[1:], (end, last)]
    return points


def voters(sample: Sample) -> int:
    """How many trees vote for the rules that a sample lists."""
    return sum(votes for _, votes in sample.votes)


def silence(samples: Iterable[Sample]) -> str:
    """What the trees that a sample does not list do."""
    full = any(len(sample.votes) >= TOP for sample in samples)
    return f"no vote, or for a rule not among the first {TOP}" if full else "no vote"


def _mistakes_in_words(samples: Sequence[Sample]) -> str:
    if not samples:
        return "Nothing was recorded."
    last = samples[-1]
    half = next(sample for sample in samples if 2 * sample.mistakes >= last.mistakes)
    return (
        f"{last.mistakes:,} mistakes in {last.round:,} rounds;"
        f" {half.mistakes:,} of them by round {half.round:,}."
    )


def _votes_in_words(samples: Sequence[Sample], trees: int) -> str:
    if not samples:
        return "Nothing was recorded."
    last = samples[-1]
    listed = [f"{votes:,} for {clipped(str(rule), 80)}" for rule, votes in last.votes]
    listed.append(f"{trees - voters(last):,} {silence(samples)}")
    return f"Of {trees:,} trees after round {last.round:,}: {', '.join(listed)}."
