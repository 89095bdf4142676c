"""A cluster of two nodes, of which one is lost: `python -m two_nodes FOLDER` says what was learned.

With `node` as a second argument a command loses the node that it works through, which no process
of Ray survives: what it says, and how many rounds are in its store, as JSON.

In a process of its own, as a process can be connected to one cluster only.
"""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import ray
from events import learned, shorten_blocks
from ray.cluster_utils import Cluster

from littlestone._ray import Ray
from littlestone._store.files import BadStore
from littlestone._store.store import read_store


def main(folder: Path) -> None:
    """Learn with two nodes; learn again, and lose one on the way."""
    with pytest.MonkeyPatch.context() as patch:
        shorten_blocks(patch)
        expected = learned("trees", folder)
        cluster = Cluster(True, head_node_args={"num_cpus": 1, "include_dashboard": False})
        other = cluster.add_node(num_cpus=1)
        engine = Ray(cluster.address, workers=3)
        assert learned("trees", folder, engine) == expected
        wait_for_nodes(2)

        def lose(number: int) -> None:
            if number == 4:
                cluster.remove_node(other, allow_graceful=False)

        assert learned("trees", folder, engine, lose) == expected
        wait_for_nodes(
            1
        )  # the head hears of a lost node after a while, and learning may end before
    sys.stdout.write("the same\n")
    ends: list[Any] = [ray.shutdown, cluster.shutdown]
    for end in ends:
        end()


COMMAND = """
from littlestone._cli.main import main
from littlestone._data import rounds
from littlestone._ray import rows as far
rounds.FIRST_BLOCK = far.LARGEST_BLOCK = 200
main()
"""


def lose_the_node(folder: Path) -> None:
    """Kill the node that `learn --engine ray:ADDRESS --db run.db` works through, half-way."""
    head = {"num_cpus": 1, "include_dashboard": False}
    cluster: Any = Cluster(True, head_node_args=head)
    cluster.add_node(num_cpus=1)
    rows, store = folder / "days", folder / "run.db"
    arguments = ("learn", rows, "--class", "rules:version,country", "--label", "failed",
                 "--db", store, "--delta", 1e-9, "--engine", f"ray:{cluster.address}")  # fmt: skip
    command = [sys.executable, "-c", COMMAND, *map(str, arguments)]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while running.poll() is None and rounds_in(store) < 1000:
        time.sleep(0.05)
    for raylet in cluster.head_node.all_processes["raylet"]:
        raylet.process.kill()
    out, err = running.communicate()
    last = err.splitlines()[-1]
    sys.stdout.write(json.dumps([running.returncode, out, last, rounds_in(store)]) + "\n")
    cluster.shutdown()


def rounds_in(store: Path) -> int:
    """How many rounds are committed; none while the store is being made."""
    try:
        return read_store(store).published.rounds if store.exists() else 0
    except BadStore:
        return 0


def alive() -> int:
    """How many nodes there are."""
    nodes: Any = ray.nodes
    return sum(node["Alive"] for node in nodes())


def wait_for_nodes(number: int) -> None:
    """Wait until the head counts that many nodes; complain after two minutes."""
    deadline = time.monotonic() + 120
    while alive() != number:
        assert time.monotonic() < deadline, f"the head counts {alive()} nodes, not {number}"
        time.sleep(0.1)


if __name__ == "__main__":
    (lose_the_node if sys.argv[2:] == ["node"] else main)(Path(sys.argv[1]))
