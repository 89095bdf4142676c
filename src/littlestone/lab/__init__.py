"""The lab: experiments. Adversaries, games and transcripts.

Its law: the lab sees the truth (labels, mistakes, targets), so nothing that serves the public may
import it.
"""
