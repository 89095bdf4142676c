"""Find causes without privacy, told everything: the ceiling of what a greedy search can find.

It is told all rows in advance, the rounds at which the set of causes changes, and what an alarm on
each row gains (`Incident.weights`). It sums the weights of every pattern over all rows of a phase,
takes the one of the highest gain if that is `MARGIN` standard deviations above 0, removes its rows,
and begins again. What it finds stands from the first round of the phase.
"""

from functools import partial
from itertools import pairwise

import numpy as np

from bench.group_by import LIMIT, Ints, Key, Timeline, keys_of, spelt, split_key, subsets
from bench.incidents import Incident, Mask, matches

MARGIN = 5.0


def run_ceiling(incident: Incident, *, width: int, margin: float = MARGIN) -> Timeline:
    """Return the causes of each phase, from its first round on."""
    timeline: Timeline = []
    for start, stop in pairwise(incident.changes):
        chosen = _causes(incident, start, stop, width, margin)
        timeline.append((start, spelt(incident, chosen)))
    return timeline


def _causes(incident: Incident, start: int, stop: int, width: int, margin: float) -> list[Key]:
    left = np.ones(stop - start, dtype=bool)
    chosen: list[Key] = []
    while len(chosen) < LIMIT:
        best = _best(incident, start, stop, left, width, margin)
        if best is None:
            break
        chosen.append(best)
        left &= ~matches(incident.codes, best, start, stop)
    return chosen


def _best(
    incident: Incident, start: int, stop: int, left: Mask, width: int, margin: float
) -> Key | None:
    """Return the pattern of the highest gain among the rows that are left, if it is significant."""
    labels, weights = incident.labels[start:stop], incident.weights[start:stop]
    positive: Ints = np.flatnonzero(left & labels)
    negative: Ints = np.flatnonzero(left & ~labels)
    best, highest = None, 0.0
    # Subsets come by width: at equal gain the pattern of fewer conditions stays.
    for names in subsets(incident, width):
        keys, counts = np.unique(
            keys_of(incident, names, start, stop, positive), return_counts=True
        )
        # A gain is at most its positives, so the others need not be counted.
        enough = counts > max(highest, margin**2)
        if not enough.any():
            continue
        keys, counts = keys[enough], counts[enough]
        listed = keys_of(incident, names, start, stop, negative)
        places = np.minimum(np.searchsorted(keys, listed), len(keys) - 1)
        hit = keys[places] == listed
        alarms = partial(np.bincount, places[hit], minlength=len(keys))
        costs = weights[negative[hit]]
        gains = counts + alarms(costs)
        gains[gains <= margin * np.sqrt(counts + alarms(costs**2))] = 0
        top = int(gains.argmax())
        if gains[top] > highest:
            highest, best = float(gains[top]), split_key(incident, names, int(keys[top]))
    return best
