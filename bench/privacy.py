"""The privacy room: what a check and a release cost, next to OpenDP's own vector draw."""

from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import partial

import numpy as np
from rich.console import Console
from rich.table import Table

from bench.clock import seconds
from littlestone._privacy.draws import Draw, ExponentialMechanism
from littlestone._privacy.gates import Gate
from littlestone._privacy.noise import SystemNoise, _laplace_vector
from littlestone._privacy.schedules import Climbing
from littlestone._privacy.selection import StableHistogram, UnknownDomainSelection
from littlestone.paper import AboveThreshold

CHECKS = 20_000
KEYS = 1_000
RELEASES = 20
VOTES = {b"key %d" % n: 1 + n % 7 for n in range(KEYS)}


def run() -> None:
    """Print both tables."""
    Console(highlight=False, width=100).print(draws(), million())


def opendp() -> object:
    return _laplace_vector(Fraction(2))([0] * CHECKS)


def sparse_vector() -> object:
    monitor = AboveThreshold(SystemNoise(), epsilon=1, releases=1)
    return [monitor.check(0, threshold=10**6) for _ in range(CHECKS)]


def quiet_gate() -> Gate[Mapping[bytes, int]]:
    return Gate(
        SystemNoise(),
        epsilon=0.25,
        schedule=Climbing(lambda ages, refusals: 10**6),
        draw=StableHistogram(epsilon=0.75, delta=1e-6),
        published=b"old",
    )


def mistakes_gate() -> object:
    gate = quiet_gate()
    return [gate.run([0], lambda *_: {}) for _ in range(CHECKS)]


def mistakes_run() -> object:
    return quiet_gate().run([0] * CHECKS, lambda *_: {})


def releases(selector: Draw[Mapping[bytes, int]]) -> object:
    noise = SystemNoise()
    return [selector.select(VOTES, noise, release) for release in range(RELEASES)]


def draws() -> Table:
    """Per check, and per key of a release. Aim: below 2."""
    unit = seconds(opendp, 3) / CHECKS
    work: list[tuple[str, Callable[[], object], int]] = [
        ("sparse vector, a check", sparse_vector, CHECKS),
        ("mistakes gate, a check", mistakes_gate, CHECKS),
        (f"mistakes gate, a check in a run of {CHECKS:,}", mistakes_run, CHECKS),
        (
            f"stable histogram of {KEYS:,} keys, a key",
            partial(releases, StableHistogram(epsilon=1, delta=1e-6)),
            RELEASES * KEYS,
        ),
        (
            f"unknown-domain selection of {KEYS:,} keys, a key",
            partial(releases, UnknownDomainSelection(epsilon=1, delta=1e-6)),
            RELEASES * KEYS,
        ),
    ]
    table = Table("work", "times OpenDP's vector draw", title="Spending")
    for name, job, count in work:
        table.add_row(name, f"{seconds(job, 3) / count / unit:.2f}")
    return table


def million() -> Table:
    """The exponential mechanism over a million candidates. Aim: well under a second."""
    mechanism = ExponentialMechanism([b"%d" % n for n in range(10**6)], epsilon=1)
    noise = SystemNoise()
    table = Table("distinct scores", "seconds", title="Exponential mechanism, 10^6 candidates")
    for distinct in (10, 5_000, 10**6):
        scores = np.arange(10**6) % distinct
        took = seconds(partial(mechanism.select, scores, noise, 0), 3)
        table.add_row(f"{distinct:,}", f"{took:.3f}")
    return table
