"""Telemetry root cause: which version makes the app fail? Nobody's crash may show.

Events of an app with five columns; from some event on a bad version is about, which fails 30 % of
the time, where all else fails 1 % of the time. What is published before every event are the causes,
with their evidence: `python examples/telemetry.py [FOLDER]`.
"""

import csv

import numpy as np

import littlestone as ls
from littlestone.simulate.streams import TELEMETRY_COLUMNS, write_events
from story import folder, plot, public_side

EVENTS = 100_000


def main() -> None:
    place = folder()
    write_events(place / "events.csv", EVENTS)
    with open(place / "events.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    columns = {
        name: np.array([row[name] for row in rows], dtype=object) for name in TELEMETRY_COLUMNS
    }
    failed = np.array([int(row["failed"]) for row in rows])

    learner = ls.PrivateCauses(ls.Causes(TELEMETRY_COLUMNS), 1, 1e-8, EVENTS)
    for start in range(0, EVENTS, 500):  # as they come in, say once a minute
        part = slice(start, start + 500)
        learner.learn_many({name: columns[name][part] for name in TELEMETRY_COLUMNS}, failed[part])

    print("Which version fails? What may be published:")
    print(public_side(learner))
    print(learner.evidence)
    print(f"  {learner.missed:,} of {failed.sum():,} failures came without warning (private)")
    title = "Telemetry: mistakes so far"
    plot(place / "telemetry.svg", title, learner.trace, np.cumsum(failed).tolist())


if __name__ == "__main__":
    main()
