"""The SQLite file that a learner lives in, and the releases file beside it."""
