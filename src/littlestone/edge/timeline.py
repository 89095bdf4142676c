"""The timeline of a run: a band for each published rule, along the rounds for which it stood.

Promises: labels overlap neither each other nor the lines that lead from them to their bands; a
label that has no room is left out, and every band says its whole rule when pointed at.
"""

from collections.abc import Sequence
from typing import NamedTuple

from littlestone.edge.charts import LONGEST, Colours, colour_of
from littlestone.edge.markup import Markup, clipped, columns, element
from littlestone.edge.plane import CEILING, LEFT, RIGHT, Axis, Plane, picture
from littlestone.learning.releases import Release

BAND, ROW, ROWS = 24, 18, 4
LETTER, ROOM, GAP = 6.4, 30, 8
"""The width of a letter, how many a label may have, and the room between labels."""


class Label(NamedTuple):
    """A release's label from `left` to `right`, `row` rows above the bands. The line that leads
    from it to its band, at `x`, is at one of its ends."""

    release: Release
    text: str
    x: float
    left: float
    right: float
    row: int = 0


def timeline(axis: Axis, releases: Sequence[Release], palette: Colours) -> Markup:
    """The picture of what was published when."""
    labels = placed(releases, axis)
    top = CEILING + ROW * (1 + max((label.row for label in labels), default=-1))
    plane = Plane(axis, height=top + BAND - CEILING)
    ends = [*(release.round for release in releases[1:]), axis.rounds + 1]
    marks = [_label(label, top) for label in labels]
    for release, end in zip(releases, ends, strict=False):
        marks.append(_band(axis, release, end, top, colour_of(release.rule, palette)))
    return picture(plane, "releases", "Published rules", _in_words(releases), marks)


def placed(releases: Sequence[Release], axis: Axis) -> list[Label]:
    """The labels that fit, each above those that it would run into. Those that reach back to the
    left climb to the right, the others climb to the left: so no line crosses a label."""
    labels, found = _beside_their_lines(releases, axis), list[Label]()
    backward = [label for label in reversed(labels) if label.right == label.x]
    for label in [*backward, *(label for label in labels if label.right != label.x)]:
        near = [o for o in found if o.left < label.right + GAP and label.left - GAP < o.right]
        row = 1 + max((other.row for other in near), default=-1)
        if row < ROWS and not any(o.left - GAP < label.x < o.right + GAP for o in near):
            found.append(label._replace(row=row))
    return found


def _beside_their_lines(releases: Sequence[Release], axis: Axis) -> list[Label]:
    """From the last to the first: to the right of its line, or to the left if that has no room."""
    labels, limit = [], float(RIGHT)
    for release in reversed(releases):
        text, x = clipped(str(release.rule), ROOM), axis.x(release.round)
        width = LETTER * columns(text)
        backward = x + width > limit and x - width >= LEFT
        limit = x if backward else limit
        labels.append(Label(release, text, x, x - width * backward, x + width * (not backward)))
    return labels


def _label(label: Label, top: float) -> Markup:
    x, y = label.x, top - ROW * label.row - 6
    return element(
        "g",
        element("title", _title(label.release)),
        element("line", class_="lead", x1=x, x2=x, y1=f"{y + 3:g}", y2=f"{top:g}"),
        element("text", label.text, x=x, y=f"{y:g}", class_="back" if label.right == x else "on"),
    )


def _band(axis: Axis, release: Release, end: int, top: float, colour: str) -> Markup:
    left = axis.x(release.round)
    width = max(1.5, axis.x(end) - left - 1)
    return element(
        "rect",
        element("title", _title(release)),
        class_=colour,
        x=f"{min(left, RIGHT - width):g}",
        y=f"{top:g}",
        width=f"{width:g}",
        height=BAND,
    )


def _title(release: Release) -> str:
    return f"From round {release.round:,}: {clipped(str(release.rule), LONGEST)}"


def _in_words(releases: Sequence[Release]) -> str:
    said = [f"{clipped(str(rule), 80)} from round {number:,}" for number, rule in releases]
    if len(said) > 10:
        said[5:-5] = [f"{len(said) - 10:,} others"]
    return f"{len(releases):,} published: {'; '.join(said)}." if said else "No rule is published."
