"""From which score on is a payment worth a review? A missed fraud costs four times a review.

So a review pays where more than 1 in 5 payments is fraud: that is `min_rate`. Run
`python examples/cutoff.py [FOLDER]`.
"""

import numpy as np

import littlestone as ls
from story import COLOURS, folder, new_axes, print_public, save

PAYMENTS = 100_000
REVIEW, MISSED = 10, 40
"""What a review costs, and what a fraud costs that is not reviewed."""

EDGES = list(range(10, 100, 10))
"""Where the score may be cut. They are public, and chosen without looking at payments."""


def rate(scores: np.ndarray) -> np.ndarray:
    """Return how often payments of these scores are fraud."""
    return np.asarray(1 / (1 + np.exp((82 - scores) / 6)))


def cost(rule: ls.Hypothesis, scores: np.ndarray, fraud: np.ndarray) -> int:
    """Return what payments cost if those for which a rule holds are reviewed."""
    reviewed = rule.predict({"score": scores})
    return int(REVIEW * (reviewed & ~fraud).sum() + MISSED * (~reviewed & fraud).sum())


def main() -> None:
    place = folder()
    draw = np.random.default_rng(3)
    scores = draw.integers(0, 101, PAYMENTS)
    fraud = draw.random(PAYMENTS) < rate(scores)

    grid = ls.Causes([ls.Ranges("score", EDGES)])
    min_rate = REVIEW / (REVIEW + MISSED)
    learner = ls.PrivateCauses(grid, epsilon=1, delta=1e-8, horizon=PAYMENTS, min_rate=min_rate)
    for start in range(0, PAYMENTS, 500):
        part = slice(start, start + 500)
        learner.learn_many({"score": scores[part]}, fraud[part])

    print(f"Which scores to review? Those above a rate of {min_rate:.0%}. What may be published:")
    print_public(learner)
    print(learner.evidence)
    print("  What 100,000 payments cost (private: exact counts):")
    for name, rule in {
        "review nothing": ls.NEVER,
        "review what is more often fraud than not": ls.between(80, None, "score"),
        "review what was published last": learner.hypothesis,
    }.items():
        print(f"    {name:<42}{cost(rule, scores, fraud):>9,}")

    ax = new_axes("How often payments are fraud, and the published scores (shaded)")
    points = np.arange(101)
    ax.plot(points, rate(points), color=COLOURS[0])
    ax.axhline(min_rate, color=COLOURS[3], linestyle="--")
    ax.text(1, min_rate + 0.02, "a review pays above this rate")
    reviewed = learner.hypothesis.predict({"score": points})
    ax.fill_between(points, 0, 1, where=reviewed.tolist(), step="post", alpha=0.2, color=COLOURS[1])
    ax.set_xlabel("score")
    save(ax, place / "cutoff.svg")


if __name__ == "__main__":
    main()
