"""Read a file of scores, and learn it if asked: the process that `memory` measures.

Prints its peak memory in bytes, and the seconds that reading took. It imports what a user would.
"""

import resource
import sys
import time
from pathlib import Path

from littlestone import DPSOA, Thresholds
from littlestone._data.readers import open_rows

LINUX = Path("/proc/self/status")


def peak() -> int:
    """The most memory this program has held. Where there is one, from the kernel's account of it:
    `getrusage` also counts what the process was before it became this program."""
    if LINUX.exists():
        (line,) = (line for line in LINUX.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def main(path: str, rounds: int, learn: bool) -> None:
    """Read all of it."""
    cls = Thresholds(1, 15, column="score")
    learner = DPSOA(cls, epsilon=1, delta=1e-9, horizon=rounds)
    start = time.perf_counter()
    with open_rows(path, cls, label="label") as rows:
        for block in rows:
            if learn:
                learner.learn_many(block.columns, block.labels, bad_rows="null")
    print(peak(), time.perf_counter() - start)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3] == "learn")
