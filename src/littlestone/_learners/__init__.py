"""The learning room: where theory and privacy meet.

Its law: a learner publishes a rule before each example, and private votes become public rules
through one door. It may import theory and privacy, never lab or edge.
"""
