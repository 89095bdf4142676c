"""The command line: `verbs.py` declares every verb, and the module of its name does the work."""
