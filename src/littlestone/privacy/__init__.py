"""The privacy room: the only one that spends budget or touches secret randomness.

Its law: integers and keys in, a key or a bit out. It knows nothing of learning, and nothing of the
theory room. Every mechanism states its claim, and a test computes its output law exactly.
"""
