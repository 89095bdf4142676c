"""Figures, reprinted by `make bench`. Timings are ratios inside one run: machines are noisy."""
