"""Labelled rows from files: blocks, and the readers of CSV, JSON lines and Parquet."""
