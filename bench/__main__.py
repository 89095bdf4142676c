"""Run every part of the bench, or those named: `python -m bench theory privacy`.

Options are for the part `causes`, named alone: `python -m bench causes --seeds 20 --heldout`.
"""

import sys

from bench import (
    adaptive,
    agreement,
    auto,
    causes,
    causes_speed,
    evidence,
    experts,
    memory,
    mistakes,
    monitors,
    paper_plan,
    peers,
    privacy,
    scale,
    selectors,
    service,
    shape,
    speed,
    starting,
    theory,
)

PARTS = {
    "theory": theory.run,
    "privacy": privacy.run,
    "selectors": selectors.run,
    "monitors": monitors.run,
    "mistakes": mistakes.run,
    "paper_plan": paper_plan.run,
    "experts": experts.run,
    "adaptive": adaptive.run,
    "auto": auto.run,
    "evidence": evidence.run,
    "peers": peers.run,
    "agreement": agreement.run,
    "speed": speed.run,
    "causes_speed": causes_speed.run,
    "starting": starting.run,
    "memory": memory.run,
    "service": service.run,
    "scale": scale.run,
    "shape": shape.run,
    "causes": causes.run,
}


def main() -> None:
    """Run what is asked for; worker processes import this file without running it."""
    if sys.argv[1:2] == ["causes"] and sys.argv[2:3] and sys.argv[2].startswith("-"):
        causes.run(sys.argv[2:])
        return
    unknown = set(sys.argv[1:]) - set(PARTS)
    if unknown:
        sys.exit(f"no part of the bench is called {', '.join(sorted(unknown))}: {', '.join(PARTS)}")
    for name in sys.argv[1:] or PARTS:
        PARTS[name]()


if __name__ == "__main__":
    main()
