"""The theory room: pure mathematics.

Its law: immutable values, no randomness, no privacy, no input or output. Everything here is a
function of its arguments, so copying is harmless and two calls always agree. It knows nothing of
the privacy room, and nothing of who asks.
"""
