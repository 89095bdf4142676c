"""Games of a comparison on a cluster, each in a task of its own."""

import warnings
from collections.abc import Iterator, Sequence
from typing import Any

from littlestone.classes.base import HypothesisClass
from littlestone.ray.cluster import Ray, plain_error
from littlestone.simulate.streams import Stream
from littlestone.simulate.sweeps import Cell, Result, run_cell


def play_on(
    engine: Ray, classes: dict[str, HypothesisClass], stream: Stream | None, cells: Sequence[Cell]
) -> Iterator[Result]:
    """Results as they come, with as many games under way as there are workers."""
    ray, left, under_way = engine.connected(), iter(cells), list[Any]()
    shared, task = ray.put((classes, stream)), ray.remote(_one)
    while True:
        for cell in left:
            under_way.append(task.remote(shared, cell))
            if len(under_way) >= engine.count():
                break
        if not under_way:
            return
        done, under_way = ray.wait(under_way)
        with plain_error(ray):
            yield from ray.get(done)


def _one(shared: tuple[dict[str, HypothesisClass], Stream | None], cell: Cell) -> Result:
    warnings.simplefilter("ignore")
    classes, stream = shared
    return run_cell(classes[cell.cls], cell, stream)
