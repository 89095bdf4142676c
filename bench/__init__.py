"""Figures of the documents, written by `make bench`. Timings are ratios inside one run."""
