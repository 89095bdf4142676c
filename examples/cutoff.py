"""Score cut-off: from which score on is a transaction fraud? Each outcome is a customer's.

The grid of scores is public. Half-way the fraudsters change and the cut with them; the published
rule follows: `python examples/cutoff.py [FOLDER]`.
"""

import numpy as np

import littlestone as ls
from story import folder, plot, public_side

TRANSACTIONS, CUTS = 60_000, (70, 45)


def main() -> None:
    place = folder()
    draw = np.random.default_rng(3)
    scores = draw.integers(0, 101, TRANSACTIONS)
    cuts = np.repeat(CUTS, TRANSACTIONS // len(CUTS))
    fraud = (scores >= cuts) ^ (draw.random(TRANSACTIONS) < 0.01)

    grid = ls.Thresholds(0, 100, 5, column="score")
    advice = ls.recommend(grid, 1, 1e-8, TRANSACTIONS, tolerance=0.01)
    print(advice)
    learner = advice.make()
    first = learner.hypothesis
    for start in range(0, TRANSACTIONS, 250):
        part = slice(start, start + 250)
        learner.learn_many({"score": scores[part]}, fraud[part])

    print("Where to cut? What may be published:")
    print(public_side(learner))
    wrong = first.predict({"score": scores}) != fraud
    title = "Cut-off: mistakes so far, the cut changes half-way"
    plot(place / "cutoff.svg", title, learner.trace, np.cumsum(wrong).tolist())


if __name__ == "__main__":
    main()
