"""The auditors of `python -m bench auditors`: they convict what is false and clear what is true."""

from math import exp, log

import numpy as np
import pytest
from bench import auditors

from littlestone._privacy.testing import SeededNoise

RUNS = 6_000


def responses(p: float, seed: int) -> list[auditors.Output]:
    """A truthful answer with probability p."""
    return [(int(x),) for x in np.random.default_rng(seed).random(RUNS) < p]


TRUTH = 1.0
ONE, TWO = responses(exp(TRUTH) / (1 + exp(TRUTH)), 1), responses(1 / (1 + exp(TRUTH)), 2)


def test_statdp_rejects_a_claim_that_is_too_small_only() -> None:
    assert auditors.statdp(ONE, TWO, 0.8 * TRUTH, seed=3) < 1e-3
    assert auditors.statdp(ONE, TWO, 1.2 * TRUTH, seed=3) > 0.5


def test_dp_sniper_bounds_epsilon_from_below() -> None:
    # Of an event that is cut to a probability of 1 %, some 80 and 30 of 3,000 outputs are counted.
    assert 0.05 * TRUTH < auditors.dp_sniper(ONE, TWO, seed=3) < TRUTH


def test_delta_siege_bounds_the_claim_that_is_refuted() -> None:
    assert 0.8 < auditors.delta_siege(ONE, TWO, TRUTH, 0.0) < 1
    assert auditors.delta_siege(ONE, TWO, 0.5 * TRUTH, 0.0) > 1.5
    assert auditors.delta_siege(ONE, TWO, TRUTH, 0.1) < 0.9


def test_rho_is_where_the_claim_becomes_true() -> None:
    assert auditors.refuted_rho(0.5, 0.1, 1, 0) == pytest.approx(log(5))
    rho = auditors.refuted_rho(0.5, 0.1, 1, 0.2)
    assert exp(rho) * 0.1 + rho * 0.2 == pytest.approx(0.5)
    assert auditors.refuted_rho(0.1, 0.5, 1, 0.2) == 0
    law = {"a": 0.5, "b": 0.5}, {"a": 0.1, "b": 0.9}
    assert auditors.exact_rho(*law, 1, 0) == pytest.approx(log(5))
    assert auditors.exact_rho(*law, 1, 0.2) == pytest.approx(rho)


@pytest.mark.slow
def test_a_gross_fault_is_found_and_the_sound_monitor_is_not() -> None:
    found = {target.name: target for target in auditors.targets()}
    rows = {
        name: auditors.audit(found[name], 1_000, SeededNoise)
        for name in ("mistakes monitor", "no query noise")
    }
    assert rows["mistakes monitor"][-1] == ""
    assert rows["no query noise"][-1] == "StatDP, DP-Sniper, Delta-Siege"
    assert rows["mistakes monitor"][4] == "1.00"
    assert rows["no query noise"][4] == "infinite"
