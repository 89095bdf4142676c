"""Simulate: streams, adversaries, games and comparisons of learners.

Simulations read labels, mistakes and targets, so nothing that serves the public may import them.
"""
