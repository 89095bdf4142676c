"""Rows in: columns, blocks and the readers of CSV, JSON lines and Parquet."""
