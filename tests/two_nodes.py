"""A cluster of two nodes, of which one is lost: `python -m two_nodes FOLDER` says what was learned.

In a process of its own, as a process can be connected to one cluster only.
"""

import sys
from pathlib import Path
from typing import Any

import ray
from ray.cluster_utils import Cluster

from littlestone.edge.engine import Ray, far
from test_engine import SHORT, here, there_with


def main(folder: Path) -> None:
    """Learn with two nodes; learn again, and lose one on the way."""
    for name, value in SHORT.items():
        setattr(far, name, value)
    expected = here("events", folder)
    cluster = Cluster(True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    other = cluster.add_node(num_cpus=1)
    engine = Ray(cluster.address, workers=3)
    assert there_with("events", folder, engine, lambda number: None) == expected
    assert alive() == 2

    def lose(number: int) -> None:
        if number == 4:
            cluster.remove_node(other, allow_graceful=False)

    assert there_with("events", folder, engine, lose) == expected
    assert alive() == 1
    sys.stdout.write("the same\n")
    ends: list[Any] = [ray.shutdown, cluster.shutdown]
    for end in ends:
        end()


def alive() -> int:
    """How many nodes there are."""
    nodes: Any = ray.nodes
    return sum(node["Alive"] for node in nodes())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
