"""Experiments: adversaries, games, audits and transcripts.

The lab sees the truth (labels, mistakes, targets), so nothing that serves the public may import it.
"""
