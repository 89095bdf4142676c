"""A River pipeline: a private classifier behind a transformer, evaluated before it learns.

Beside it runs River's own logistic regression, which is not private. Run
`python examples/river_pipeline.py [FOLDER]`.
"""

from collections.abc import Iterator

import numpy as np
from river import compose, linear_model, preprocessing

import littlestone as ls
from littlestone.river import PrivateClassifier
from story import COLOURS, folder, new_axes, print_public, rolling, save

VISITS = 40_000


def visits() -> Iterator[tuple[dict[str, str], bool]]:
    """Rows as River has them: dicts. Half-way another campaign becomes the bad one."""
    draw = np.random.default_rng(8)
    for number in range(VISITS):
        row = {
            "campaign": f"campaign {draw.integers(20)}",
            "browser": str(draw.choice(["Firefox", "Chrome", "Safari"])),
            "visitor": f"v{draw.integers(10_000)}",
        }
        bad = "campaign 3" if number < VISITS // 2 else "campaign 11"
        yield row, bool(draw.random() < (0.9 if row["campaign"] == bad else 0.01))


def main() -> None:
    place = folder()
    columns = "campaign", "browser"
    private = compose.Select(*columns) | PrivateClassifier(
        ls.Causes(columns), epsilon=1, delta=1e-7, horizon=VISITS
    )
    plain = (
        compose.Select(*columns) | preprocessing.OneHotEncoder() | linear_model.LogisticRegression()
    )
    models = {"private (epsilon 1)": private, "logistic regression": plain}
    right: dict[str, list[bool]] = {name: [] for name in models}
    for row, bot in visits():
        for name, model in models.items():
            right[name].append(bool(model.predict_one(row)) == bot)  # before the label is known
            model.learn_one(row, bot)

    print("Which visits are bots? What may be published:")
    print_public(private["PrivateClassifier"].learner_)
    ax = new_axes("Right, of the last 2,000 visits (private: exact counts)")
    for colour, (name, hits) in zip(COLOURS, right.items(), strict=False):
        share = rolling(hits)
        ax.plot(2000 + 100 * np.arange(len(share)), share, label=name, color=colour)
        print(f"  {name:<22}{np.mean(hits):.1%} right")
    ax.legend(frameon=False, loc="lower right")
    ax.set_xlabel("visit")
    save(ax, place / "river_pipeline.svg")


if __name__ == "__main__":
    main()
