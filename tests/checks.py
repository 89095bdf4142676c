"""One check at a time, for tests: a gate and a monitor take batches, of which one is the least."""

import json
from typing import Any

from littlestone._privacy.gates import Decision, Gate, MistakesMonitor
from littlestone._privacy.mechanism import Mechanism


def state_of(mechanism: Mechanism) -> Any:
    """The state of a mechanism, as a store keeps it: through JSON."""
    with mechanism.checkpoint() as state:
        return json.loads(json.dumps(state))


def check_gate(gate: Gate[Any], loss: Any, scores: Any) -> Decision:
    """One check of a gate."""
    return gate.run([loss], lambda place, fired: scores).decision


def check_monitor(monitor: MistakesMonitor, mistakes: Any, threshold: Any) -> bool:
    """One check of a monitor."""
    return monitor.advance([mistakes], threshold) is not None
