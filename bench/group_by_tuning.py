"""Choose the windows and margins of the private GROUP BY on development seeds.

    python -m bench.group_by_tuning [seeds]

Every choice runs on the same incidents, at the width and budget of the bench. Prints the mean F1
over groups (each group counts once), and the choice with the highest: it is `Config`'s default.
"""

import sys
from collections import defaultdict
from collections.abc import Sequence
from itertools import product
from multiprocessing import get_context
from statistics import mean

from bench.causes import DELTA, EPSILON, MAKERS, score
from bench.group_by import Config, run_group_by
from bench.incidents import GROUPS

NOISES = ("gaussian", "laplace")
STARTS = (2_000, 4_000, 8_000, 16_000, 32_000)
LARGEST = (0.0, 16_000, 64_000, 0.25, 1.0)
MARGINS = (1.0, 2.0, 3.0, 4.0)
KEEPS = (-1.0, 0.0, 2.0, 3.0)


def _tried(task: tuple[str, int, Sequence[Config]]) -> tuple[str, list[tuple[float, float]]]:
    group, seed, configs = task
    incident, found = MAKERS[group](seed), []
    for config in configs:
        timeline = run_group_by(incident, EPSILON, DELTA, width=incident.width, config=config)
        result = score(incident, timeline, "group-by")
        found.append((result.f1, float(result.false)))
    return group, found


def compare(configs: Sequence[Config], count: int) -> Config:
    """Print what each choice scores, the best last; return the best."""
    groups = [g for g in [*GROUPS, "real", "null"] if g != "long"]
    tasks = [(group, seed, configs) for group in groups for seed in range(count)]
    by_group: dict[str, list[list[tuple[float, float]]]] = defaultdict(list)
    with get_context("spawn").Pool(2) as pool:
        for number, (group, found) in enumerate(pool.imap_unordered(_tried, tasks), 1):
            by_group[group].append(found)
            print(f"\r{number}/{len(tasks)}", end="", file=sys.stderr)
    print(file=sys.stderr)
    lines = []
    for number, config in enumerate(configs):
        f1 = mean(mean(found[number][0] for found in some) for some in by_group.values())
        false = mean(found[number][1] for some in by_group.values() for found in some)
        lines.append((f1, false, config))
    for f1, false, config in sorted(lines):
        print(f"F1 {f1:.3f}  false causes {false:.2f}  {config}")
    return max(lines)[2]


def main() -> None:
    """Choose noise and windows, then margins, on as many seeds of each group as asked for."""
    count = int(sys.argv[1]) if sys.argv[1:] else 4
    usual = Config()
    windows = [
        usual._replace(noise=noise, start=start, largest=largest)
        for noise, start, largest in product(NOISES, STARTS, LARGEST)
        if largest <= 1 or largest > start
    ]
    best = compare(windows, count)
    compare([best._replace(margin=m, keep=k) for m, k in product(MARGINS, KEEPS)], count)


if __name__ == "__main__":
    main()
