"""Mechanisms of differential privacy: integers and keys in, a key or a bit out; no learning.

To review what decides privacy, read in this order: `noise` (with `parameters`), where all secret
randomness enters; `draws`, `selection` and `causes`, which select a key from private scores;
`gates`, where private becomes public, and nowhere else; `schedules`, which are public; `mechanism`,
which keeps state from being used twice; and `accounting`, what it costs.

What decides privacy is an integer or a fraction; a mechanism with state goes forward only. Noise
that is not secret is in `testing`, and nothing here imports it.
"""
