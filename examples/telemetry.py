"""Which version makes the app fail, and where? Two columns at once, and rates far below one half.

Version 4.2.1 fails 30 % of the time on one device, everything else fails 1 % of the time: run
`python examples/telemetry.py [FOLDER]`.
"""

import numpy as np

import littlestone as ls
from story import folder, new_axes, print_public, save

EVENTS = 150_000


def events() -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Four columns, and whether the app failed."""
    draw = np.random.default_rng(4)
    columns = {
        "version": draw.choice(
            ["4.1.9", "4.2.0", "4.2.1", "4.3.0"], EVENTS, p=[0.3, 0.3, 0.3, 0.1]
        ),
        "device": draw.choice([f"K{n}" for n in range(1, 11)], EVENTS),
        "country": draw.choice(["SE", "NO", "DK", "FI", "DE", "FR"], EVENTS),
        "carrier": draw.choice([f"carrier {n}" for n in range(200)], EVENTS),
    }
    bad = (columns["version"] == "4.2.1") & (columns["device"] == "K9")
    return columns, draw.random(EVENTS) < np.where(bad, 0.3, 0.01)


def main() -> None:
    place = folder()
    columns, failed = events()
    causes = ls.Causes(["version", "device", "country", "carrier"], width=2)
    learner = ls.PrivateCauses(causes, epsilon=1, delta=1e-8, horizon=EVENTS)
    for start in range(0, EVENTS, 500):  # as they come in, say once a minute
        part = slice(start, start + 500)
        learner.learn_many({name: cells[part] for name, cells in columns.items()}, failed[part])

    print("What makes failures frequent? What may be published:")
    print_public(learner)
    print(learner.evidence)
    ax = learner.plot(new_axes("", height=1.9))
    ax.set_title("Public: how often the app fails, estimated privately", loc="left", fontsize=11)
    save(ax, place / "telemetry.svg")


if __name__ == "__main__":
    main()
