"""Rules as values: canonical encoding, printing, JSON, and how rows are read."""
