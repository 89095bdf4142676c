"""The service: a stored learner behind HTTP.

One thread writes the store, one event loop answers requests. A rule is published after its commit,
private data requires a token, and nothing from the data is logged.
"""
