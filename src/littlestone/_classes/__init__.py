"""Provide hypothesis classes: immutable values without randomness, privacy, input or output.

Everything here is a function of its arguments, so copying is harmless and equal calls agree.
"""
