"""Mechanisms of differential privacy: integers and keys in, a key or a bit out; no learning.

Rules of this package: secret randomness enters through `noise` and nowhere else; private becomes
public in `gates` and nowhere else; what decides privacy is an integer or a fraction; a mechanism
with state goes forward only. Noise that is not secret is in `testing`, and nothing here imports it.
"""

from littlestone._privacy.accounting import (
    Cost,
    Guarantee,
    PrivacyEvent,
    spent,
)
from littlestone._privacy.causes import (
    CausesMechanism,
    CausesSchedule,
    Gains,
    SparseExponential,
    WindowCounts,
)
from littlestone._privacy.draw import Draw
from littlestone._privacy.exponential import ExponentialMechanism, StayOrDraw
from littlestone._privacy.gates import Decision, Gate, Schedule, Step
from littlestone._privacy.mechanism import Mechanism, MechanismMoved
from littlestone._privacy.noise import Noise, SystemNoise
from littlestone._privacy.parameters import BadParameter
from littlestone._privacy.selection import StableHistogram, UnknownDomainSelection
from littlestone._privacy.settling import SearchOrCompare, Settling
from littlestone._privacy.sparse_vector import MistakesMonitor

__all__ = [
    "BadParameter",
    "CausesMechanism",
    "CausesSchedule",
    "Cost",
    "Decision",
    "Draw",
    "ExponentialMechanism",
    "Gains",
    "Gate",
    "Guarantee",
    "Mechanism",
    "MechanismMoved",
    "MistakesMonitor",
    "Noise",
    "PrivacyEvent",
    "Schedule",
    "SearchOrCompare",
    "Settling",
    "SparseExponential",
    "StableHistogram",
    "StayOrDraw",
    "Step",
    "SystemNoise",
    "UnknownDomainSelection",
    "WindowCounts",
    "spent",
]
