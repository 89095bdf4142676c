"""Run every part of the bench, or those named: `python -m bench theory privacy`."""

import sys

from bench import monitors, privacy, selectors, theory

PARTS = {
    "theory": theory.run,
    "privacy": privacy.run,
    "selectors": selectors.run,
    "monitors": monitors.run,
}

unknown = set(sys.argv[1:]) - set(PARTS)
if unknown:
    sys.exit(f"no part of the bench is called {', '.join(sorted(unknown))}: {', '.join(PARTS)}")
for name in sys.argv[1:] or PARTS:
    PARTS[name]()
