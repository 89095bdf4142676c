"""A stored learner of causes, and events of which one version fails more often, for the service."""

from typing import Any

import numpy as np

from littlestone._store.request import LearnRequest
from running_service import Running

CAUSES = LearnRequest(
    spec="causes:version,country",
    label="failed",
    epsilon=4.0,
    delta=1e-7,
    horizon=60_000,
    min_rate=0.2,
)
BAD = "4.2.1"
CAUSE = f"version = '{BAD}'"


def incident(count: int, seed: int, bad: str = BAD, rate: float = 0.6) -> list[dict[str, Any]]:
    """Events of four versions; a quarter is of the bad one, and fails with a rate; others 5 %."""
    draw = np.random.default_rng(seed)
    versions = draw.choice([bad, "4.2.0", "4.3.0", "4.1.9"], count)
    countries = draw.choice(["SE", "NO", "DK"], count)
    failed = draw.random(count) < np.where(versions == bad, rate, 0.05)
    columns = versions.tolist(), countries.tolist(), failed.tolist()
    return [
        {"version": version, "country": country, "failed": int(one)}
        for version, country, one in zip(*columns, strict=True)
    ]


def evidence_of(served: Running) -> dict[str, Any]:
    """What everybody may read."""
    found: dict[str, Any] = served.get("/evidence").json()
    return found


def with_evidence(served: Running, bad: str = BAD) -> dict[str, Any]:
    """Feed until the cause stands and counts of many rounds are released; return it."""
    for seed in range(40):
        assert served.feed(incident(1000, seed, bad)).status_code == 200
        for cause in evidence_of(served)["causes"]:
            named = cause["standing"] and bad[:4] in cause["cause"] and cause["rate"] is not None
            # So many that the noise is small beside them.
            if named and cause["counted_to"] - cause["counted_from"] >= 4000:
                return dict(cause)
    raise AssertionError("the cause is not found")
