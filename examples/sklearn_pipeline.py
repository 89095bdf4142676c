"""A scikit-learn pipeline: a table in, a private rule out, scored on other rows.

Run `python examples/sklearn_pipeline.py [FOLDER]`.
"""

import numpy as np
import pandas as pd
from sklearn.metrics import balanced_accuracy_score
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import littlestone as ls
from littlestone.sklearn import PrivateClassifier
from story import COLOURS, folder, new_axes, save

PATIENTS = 40_000


def patients() -> tuple[pd.DataFrame, np.ndarray]:
    """Two laboratory values, and whether the patient fell ill."""
    draw = np.random.default_rng(9)
    table = pd.DataFrame(
        {"weight": draw.normal(75, 12, PATIENTS), "height": draw.normal(1.72, 0.09, PATIENTS)}
    )
    index = table["weight"] / table["height"] ** 2
    return table, np.asarray(draw.random(PATIENTS) < np.where(index >= 30, 0.98, 0.01))


def body_mass_index(table: pd.DataFrame) -> pd.DataFrame:
    """Row by row: nothing is fitted, so one patient does not change another's value."""
    return pd.DataFrame({"bmi": table["weight"] / table["height"] ** 2})


def main() -> None:
    place = folder()
    table, ill = patients()
    known, other, known_ill, other_ill = train_test_split(table, ill, random_state=0)
    cuts = ls.Thresholds(15, 45, 1, column="bmi")
    model = make_pipeline(
        FunctionTransformer(body_mass_index),
        PrivateClassifier(cuts, epsilon=1, delta=1e-7, classes=[False, True]),
    )
    model.fit(known, known_ill)
    learner = model[-1].learner_
    print("Who falls ill? What may be published:")
    print(f"  {learner.hypothesis}")
    print(f"  {learner.guarantee}")
    score = balanced_accuracy_score(other_ill, model.predict(other))
    print(f"  balanced accuracy on {len(other):,} other patients: {score:.1%} (private)")

    ax = new_axes("Body mass index of those who fell ill, and the published rule (shaded)")
    bmi, grid = body_mass_index(other)["bmi"], np.arange(15, 46, 0.1)
    bins = [float(edge) for edge in range(15, 46)]
    ax.hist([bmi[~other_ill], bmi[other_ill]], bins, stacked=True, color=[COLOURS[3], COLOURS[1]],
            label=["well", "ill"])  # fmt: skip
    holds = learner.hypothesis.predict({"bmi": grid})
    top = ax.get_ylim()[1]
    ax.fill_between(grid, 0, top, where=holds.tolist(), alpha=0.15, color=COLOURS[0])
    ax.legend(frameon=False)
    ax.set_xlabel("body mass index")
    save(ax, place / "sklearn_pipeline.svg")


if __name__ == "__main__":
    main()
