"""Run non-private tools from PyPI on incidents: SliceLine, pysubgroup and a GROUP BY in DuckDB.

None of them is a dependency: they are imported when asked for and skipped when not installed (a
venv of their own: `pip install sliceline pysubgroup duckdb`). They are told what an incident's
finder would not know: when the causes change, and how many there are in each phase. Their own
ranking is kept; a pattern that contains or is contained in one already taken is passed over.
"""

from collections.abc import Callable, Iterable, Iterator
from importlib.util import find_spec
from itertools import pairwise
from typing import Any, NamedTuple

import pandas as pd

from bench.group_by import Timeline, subsets
from bench.incidents import Cause, Incident

RANKED = 40
# Rows that pysubgroup is given: its time grows with rows times selectors.
MOST_ROWS = 100_000
# Selectors that pysubgroup is given: values of fewer rows than this share are left out.
SMALLEST = 0.002


def _frame(incident: Incident, start: int, stop: int) -> pd.DataFrame:
    frame = incident.table.slice(start, stop - start).to_pandas().astype(str)
    return frame.assign(_label=incident.labels[start:stop], _weight=incident.weights[start:stop])


def _sliceline(incident: Incident, start: int, stop: int, width: int) -> Iterator[Cause]:
    from sliceline.slicefinder import Slicefinder

    frame = _frame(incident, start, stop)
    names = list(incident.codes)
    finder = Slicefinder(
        alpha=0.95, k=RANKED, max_l=width, min_sup=max(50, int(0.002 * len(frame))), verbose=False
    )
    finder.fit(frame[names].to_numpy(), frame["_label"].to_numpy().astype(float))
    for values in finder.top_slices_:
        yield frozenset(
            (name, str(value))
            for name, value in zip(names, values, strict=True)
            if value is not None
        )


def _pysubgroup(incident: Incident, start: int, stop: int, width: int) -> Iterator[Cause]:
    import pysubgroup as ps

    frame = _frame(incident, start, stop)
    if len(frame) > MOST_ROWS:
        frame = frame.sample(MOST_ROWS, random_state=1)
    target = ps.BinaryTarget("_label", True)
    space = []
    for name in incident.codes:
        counts = frame[name].value_counts()
        kept = counts.index[counts >= SMALLEST * len(frame)]
        space += [ps.EqualitySelector(name, value) for value in kept]
    task = ps.SubgroupDiscoveryTask(
        frame, target, space, result_set_size=RANKED, depth=width, qf=ps.WRAccQF()
    )
    for _, subgroup in ps.Apriori().execute(task).to_descriptions():
        yield frozenset(
            (selector.attribute_name, str(selector.attribute_value))
            for selector in subgroup.selectors
        )


def _duckdb(incident: Incident, start: int, stop: int, width: int) -> Iterator[Cause]:
    """GROUPING SETS over every set of columns, by the sum of weights."""
    import duckdb

    frame = _frame(incident, start, stop)
    names = list(incident.codes)
    columns = ", ".join(f'"{name}"' for name in names)
    sets = ", ".join(
        "(" + ", ".join(f'"{name}"' for name in some) + ")" for some in subsets(incident, width)
    )
    with duckdb.connect() as connection:
        connection.register("events", frame)
        rows = connection.execute(
            f"select {columns}, sum(_weight) as gain"
            f" from events group by grouping sets ({sets}) order by gain desc limit {RANKED}"
        ).fetchall()
    for row in rows:
        yield frozenset(
            (name, str(value)) for name, value in zip(names, row[:-1], strict=True) if value
        )


class Peer(NamedTuple):
    """A package and the function that ranks patterns with it."""

    package: str
    ranked: Callable[[Incident, int, int, int], Iterable[Cause]]

    def installed(self) -> bool:
        """Tell whether the package can be imported."""
        return find_spec(self.package) is not None


PEERS = {
    "sliceline": Peer("sliceline", _sliceline),
    "pysubgroup": Peer("pysubgroup", _pysubgroup),
    "duckdb": Peer("duckdb", _duckdb),
}


def run_peer(name: str, incident: Incident, width: int) -> Timeline:
    """Return the first causes of each phase in a tool's ranking, as many as there are."""
    timeline: Timeline = []
    for start, stop in pairwise(incident.changes):
        wanted, taken = len(incident.active(start)), list[Cause]()
        ranked: Any = PEERS[name].ranked(incident, start, stop, width) if wanted else ()
        for cause in ranked:
            if len(taken) < wanted and not any(cause <= t or t <= cause for t in taken):
                taken.append(cause)
        timeline.append((start, tuple(taken)))
    return timeline
