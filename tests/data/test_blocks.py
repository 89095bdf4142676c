"""The pieces fit: forest, monitor and selector, wired by hand, find a culprit on a noisy stream.

This is not the learner (no plan, no batches that cross a firing); it holds the rooms to each other
until there is one.
"""

import random

import numpy as np

import littlestone as ls
from checks import check_gate
from littlestone._hypotheses.rows import as_batch
from littlestone._learners.forest import Forest
from littlestone._privacy import Gate, UnknownDomainSelection
from littlestone._privacy.gates import Climbing
from littlestone._privacy.testing import SeededNoise

CHECK_EVERY = 8


def played(cls: ls.HypothesisClass, stream: list[tuple[object, bool]], seed: int) -> ls.Hypothesis:
    """The published rule at the end: one gate, one forest, a restart at every firing."""
    forest = Forest(cls, [1] * 200, seed)
    rule: ls.Hypothesis = ls.NEVER
    gate = Gate(
        SeededNoise(seed),
        epsilon=0.3,
        schedule=Climbing(lambda ages, refusals: 70 + ages // 100),
        draw=UnknownDomainSelection(epsilon=0.7, delta=1e-6),
        published=rule.key,
        check_every=CHECK_EVERY,
    )
    for at in range(0, len(stream) - CHECK_EVERY + 1, CHECK_EVERY):
        xs, ys = zip(*stream[at : at + CHECK_EVERY], strict=True)
        answers = np.array(ys)
        mistakes = int((rule.predict(as_batch(list(xs))) != answers).sum())
        forest.learn(as_batch(list(xs)), answers, np.arange(at, at + CHECK_EVERY))
        votes = forest.votes
        ballot = {vote.key: n for vote, n in votes.items()}
        decision = check_gate(gate, mistakes, ballot)
        if decision.fired:
            rule = next((vote for vote in votes if vote.key == decision.key), rule)
            forest.restart(rule)
    return rule


def test_the_culprit_is_found_despite_noise() -> None:
    draw = random.Random(4)
    stream: list[tuple[object, bool]] = []
    for _ in range(6000):
        row = {"version": f"4.{draw.randrange(30)}", "country": f"c{draw.randrange(20)}"}
        stream.append((row, (row["version"] == "4.7") != (draw.random() < 0.01)))
    for seed in range(3):
        found = played(ls.Rules(["version", "country"]), stream, seed)
        assert str(found) == "version = '4.7'"


def test_a_quiet_stream_publishes_nothing() -> None:
    stream: list[tuple[object, bool]] = [(n % 50, False) for n in range(4000)]
    assert played(ls.Points(), stream, seed=1) == ls.NEVER
