"""Protect a person, not a row: all rows of a user count as one, in as many epochs as the cap.

The same stream at three caps. It is made up, so running three times costs nobody anything; on real
events three runs would spend three budgets. Run `python examples/users.py [FOLDER]`.
"""

from typing import Any

import numpy as np

import littlestone as ls
from story import COLOURS, folder, new_axes, save

EVENTS, USERS = 200_000, 40_000
CAPS = (1, 4, 16)


def main() -> None:
    place = folder()
    draw = np.random.default_rng(6)
    plugins = draw.choice([f"plugin {n}" for n in range(50)], EVENTS)
    users = draw.integers(0, USERS, EVENTS)
    crashed = draw.random(EVENTS) < np.where(plugins == "plugin 7", 0.6, 0.01)
    rows = np.bincount(users, minlength=USERS)
    print(f"{EVENTS:,} events of {USERS:,} users, up to {rows.max()} of one user")

    waits: dict[str, int] = {}
    for cap in (None, *CAPS):
        terms: dict[str, Any] = {} if cap is None else {"unit": "user", "cap": cap}
        causes = ls.Causes(["plugin"])
        learner = ls.PrivateCauses(causes, epsilon=2, delta=1e-8, horizon=EVENTS, **terms)
        learner.learn_many({"plugin": plugins}, crashed, None if cap is None else users)
        name = "one event" if cap is None else f"a user, cap {cap}"
        found = [number for number, rule in learner.releases if str(rule) == "plugin = 'plugin 7'"]
        waits[name] = found[0] if found else 0
        after = f"from event {found[0]:,}" if found else "not found"
        print(f"  {name:<15}plugin = 'plugin 7' {after}")
        print(f"  {'':<15}{learner.guarantee}")

    ax = new_axes("Events until the plugin is published, by what is protected")
    bars = ax.barh(list(waits), list(waits.values()), color=COLOURS[0])
    labels = [f"{wait:,}" if wait else "not found" for wait in waits.values()]
    ax.bar_label(bars, labels=labels, padding=4)
    ax.invert_yaxis()
    ax.set_xlabel("event")
    save(ax, place / "users.svg")


if __name__ == "__main__":
    main()
