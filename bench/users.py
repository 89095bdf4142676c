"""Users: causes of streams and tables in which people have many rows, each protected whole.

    python -m bench users [--runs N] [--seed S] [--epsilon E] [--jobs J]

200,000 rounds. What a user's device is never changes; one device, of a given share of the users,
fails in 30 % of its rounds, and all others in 1 %. Besides there are columns that belong to the user
and columns that change with every round. With *heavy* users 1 % of them send half of all rounds.

- **found**: runs in which the device stands at the end; **false**: runs in which anything else was
  published at any time.
- **coverage**: how often an interval of 95 % holds the truth, for the rate of the device and for that
  of all other rounds. The evidence counts the first round of each user in every epoch of the plan,
  which is public. So the truth of a window is the mean probability to fail of those of its rounds
  that are first of their user in their epoch: not that of all rounds, of which heavy users have more.

Noise is `SeededNoise`, which is not private: these are rehearsals.
"""

import argparse
from collections.abc import Sequence
from math import sqrt
from typing import NamedTuple
from zlib import crc32

import numpy as np
from numpy.typing import NDArray
from rich.table import Table

from bench.incidents import Codes, Floats, Mask, spell, zipf
from bench.output import publish, publish_text
from bench.tables import DELTA, played
from littlestone import Causes, PrivateCauses
from littlestone._hypotheses.causes import Cause, Condition, causes_of
from littlestone._privacy.testing import SeededNoise

ROUNDS, RATE, BASE, DEVICES = 200_000, 0.3, 0.01, 20
HEAVY_USERS, HEAVY_ROUNDS = 0.01, 0.5
RIGHT = Cause((Condition("device", "device0"),))
RUNS, SEED, JOBS = 20, 10_000, 2


class Setting(NamedTuple):
    """Say how many users there are, which share has the device, and how they are learned."""

    users: int
    share: float
    # The epochs that may read a user; None of a finished table.
    cap: int | None
    heavy: bool = False
    rounds: int = ROUNDS


SETTINGS = [
    *(Setting(4_000, 0.05, cap, heavy) for heavy in (False, True) for cap in (1, 2)),
    *(Setting(40_000, 0.01, 1, heavy) for heavy in (False, True)),
    *(Setting(4_000, 0.05, None, heavy) for heavy in (False, True)),
    Setting(40_000, 0.01, None),
]


class UserRows(NamedTuple):
    """Hold rounds: whose each is, its values, the probability to fail, and whether it failed."""

    users: NDArray[np.int64]
    codes: dict[str, Codes]
    chances: Floats
    labels: Mask


def make_rows(setting: Setting, seed: int) -> UserRows:
    """Make the rounds of a setting; device 0 is the one that fails."""
    rng, count = np.random.default_rng([seed, setting.users]), setting.users
    device = 1 + zipf(rng, count, DEVICES - 1, 1.0)
    device[rng.permutation(count)[: round(setting.share * count)]] = 0
    country = zipf(rng, count, 30, 1.0)
    users = rng.integers(0, count, setting.rounds)
    if setting.heavy:
        few = rng.permutation(count)[: max(1, round(HEAVY_USERS * count))]
        heavy = rng.random(setting.rounds) < HEAVY_ROUNDS
        users = np.where(heavy, rng.choice(few, setting.rounds), users)
    codes = {
        "device": device[users],
        "country": country[users],
        "page": zipf(rng, setting.rounds, 50, 1.0),
        "hour": rng.integers(0, 24, setting.rounds).astype(np.int32),
    }
    chances = np.where(codes["device"] == 0, RATE, BASE)
    return UserRows(users, codes, chances, rng.random(setting.rounds) < chances)


def first_rounds(users: NDArray[np.int64], epoch: int) -> Mask:
    """Return which rounds are the first of their user in an epoch of so many rounds."""
    first = np.zeros(len(users), dtype=bool)
    for start in range(0, len(users), epoch):
        _, places = np.unique(users[start : start + epoch], return_index=True)
        first[start + places] = True
    return first


class Outcome(NamedTuple):
    """Hold whether the device stands, whether anything else ever did, and what intervals held."""

    found: bool
    false: bool
    held: list[bool]


def play(task: tuple[Setting, int, float]) -> Outcome:
    """Learn the rounds of a setting, and compare what was published with the truth."""
    setting, seed, epsilon = task
    rows = make_rows(setting, seed)
    values = spell(rows.codes)
    learner = PrivateCauses(
        Causes(list(rows.codes)),
        epsilon,
        DELTA,
        setting.rounds,
        unit="user",
        cap=setting.cap,
        table=setting.cap is None,
        seed=seed,
        # Noise is drawn by address: one seed would be the same luck in every setting.
        noise=SeededNoise(crc32(repr((setting, seed)).encode())),
    )
    batch = {name: values[name][codes] for name, codes in rows.codes.items()}
    learner.learn_many(batch, rows.labels, rows.users)
    named = [set(causes_of(release.rule)) for release in learner.releases]
    found, others = RIGHT in named[-1], set().union(*named) - {RIGHT}
    return Outcome(found, bool(others), intervals_held(learner, rows))


def intervals_held(learner: PrivateCauses, rows: UserRows) -> list[bool]:
    """Return for the device and for all other rounds whether the interval holds the truth."""
    # An epoch of a table is all of it. There any row of a user may be the one that is counted; here
    # all rows of a user fail alike.
    first = first_rounds(rows.users, learner.plan.longest_epoch)
    number, told = np.arange(1, len(first) + 1), rows.codes["device"] == 0
    held = []
    for entry in learner.evidence:
        if entry.cause == RIGHT:
            counted = first & (entry.since <= number) & (number <= entry.until)
            for rate, of in ((entry.estimate, told), (entry.base, ~told)):
                held.append(rate.low <= float(rows.chances[counted & of].mean()) <= rate.high)
    return held


def run(arguments: Sequence[str] = ()) -> None:
    """Play all settings and print what was found."""
    made = argparse.ArgumentParser(prog="python -m bench users", description=__doc__)
    made.formatter_class = argparse.RawDescriptionHelpFormatter
    made.add_argument("--runs", type=int, default=RUNS, help="of each setting")
    made.add_argument("--seed", type=int, default=SEED, help="the first of all seeds")
    made.add_argument("--epsilon", type=float, default=1.0)
    made.add_argument("--jobs", type=int, default=JOBS, help="processes")
    options = made.parse_args(list(arguments))
    seeds = range(options.seed, options.seed + options.runs)
    tasks = [(setting, seed, options.epsilon) for setting in SETTINGS for seed in seeds]
    answers = iter(played(play, tasks, options.jobs, "users"))
    table = Table("users", "affected", "who sends", "M", "runs", "found", "false", "coverage", "ok")
    table.title = f"{ROUNDS:,} rounds of users, epsilon {options.epsilon:g}, delta {DELTA:g}"
    held: list[bool] = []
    for setting in SETTINGS:
        outcomes = [next(answers) for _ in seeds]
        found, false = (sum(getattr(o, name) for o in outcomes) for name in ("found", "false"))
        own = [inside for outcome in outcomes for inside in outcome.held]
        held += own
        ok = found >= 0.95 * len(seeds) and not false
        table.add_row(
            f"{setting.users:,}",
            f"{setting.share:.0%}",
            "heavy" if setting.heavy else "even",
            "table" if setting.cap is None else str(setting.cap),
            *map(str, (len(seeds), found, false)),
            f"{sum(own)} of {len(own)}",
            "yes" if ok else "NO",
        )
    publish("users", table)
    share = float(np.mean(held))
    spread = 1.96 * sqrt(share * (1 - share) / len(held))
    publish_text(
        "users.intervals",
        f"{100 * share:.1f} % ± {100 * spread:.1f} % of {len(held):,} intervals hold the truth.",
    )
