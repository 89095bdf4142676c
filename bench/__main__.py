"""Run every part of the bench, or those named: `python -m bench theory privacy`.

Options are for the parts `causes`, `causes_peers`, `agnostic`, `auditors`, `long`, `service`,
`tables` and `users`, named alone:
`python -m bench causes --streams 20`.
"""

import sys

from bench import (
    adaptive,
    agnostic,
    agreement,
    auditors,
    auto,
    causes,
    causes_peers,
    causes_speed,
    evidence,
    experts,
    long,
    memory,
    mistakes,
    monitors,
    noise,
    paper_plan,
    peers,
    privacy,
    results,
    scale,
    selectors,
    service,
    shape,
    single_rows,
    speed,
    starting,
    tables,
    theory,
    users,
)

PARTS = {
    "theory": theory.run,
    "privacy": privacy.run,
    "selectors": selectors.run,
    "monitors": monitors.run,
    "mistakes": mistakes.run,
    "noise": noise.run,
    "paper_plan": paper_plan.run,
    "experts": experts.run,
    "agnostic": agnostic.run,
    "adaptive": adaptive.run,
    "auto": auto.run,
    "evidence": evidence.run,
    "peers": peers.run,
    "agreement": agreement.run,
    "auditors": auditors.run,
    "speed": speed.run,
    "single_rows": single_rows.run,
    "causes_speed": causes_speed.run,
    "starting": starting.run,
    "memory": memory.run,
    "service": service.run,
    "scale": scale.run,
    "long": long.run,
    "shape": shape.run,
    "causes": causes.run,
    "causes_peers": causes_peers.run,
    "tables": tables.run,
    "users": users.run,
}
# Not part of `make bench`: `make results` plays them.
ON_REQUEST = {"results": results.run}


def main() -> None:
    """Run what is asked for; worker processes import this file without running it."""
    with_options = {
        "causes": causes.run,
        "causes_peers": causes_peers.run,
        "agnostic": agnostic.run,
        "auditors": auditors.run,
        "long": long.run,
        "service": service.run,
        "tables": tables.run,
        "users": users.run,
    }
    if sys.argv[1:2] and sys.argv[1] in with_options and sys.argv[2:3] and sys.argv[2][0] == "-":
        with_options[sys.argv[1]](sys.argv[2:])
        return
    unknown = set(sys.argv[1:]) - set(PARTS) - set(ON_REQUEST)
    if unknown:
        sys.exit(f"no part of the bench is called {', '.join(sorted(unknown))}: {', '.join(PARTS)}")
    for name in sys.argv[1:] or PARTS:
        (PARTS | ON_REQUEST)[name]()


if __name__ == "__main__":
    main()
