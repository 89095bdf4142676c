"""Run every part of the bench, or those named: `python -m bench theory`."""

import sys

from bench import theory

PARTS = {"theory": theory.run}

for name in sys.argv[1:] or PARTS:
    PARTS[name]()
