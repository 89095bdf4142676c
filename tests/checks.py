"""One check at a time, for tests: a gate and a monitor take batches, of which one is the least."""

from typing import Any

from littlestone._privacy import Decision, Gate, MistakesMonitor


def check_gate(gate: Gate[Any], loss: Any, scores: Any) -> Decision:
    """One check of a gate."""
    return gate.run([loss], lambda place: scores).decision


def check_monitor(monitor: MistakesMonitor, mistakes: Any, threshold: Any) -> bool:
    """One check of a monitor."""
    return monitor.run([mistakes], [threshold]) is not None
