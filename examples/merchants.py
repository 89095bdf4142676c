"""Which merchants to block? Fraud moves on, and the published rule follows it.

Three merchants turn bad and good again at different times. Reports of fraud are customers': none
may show. Run `python examples/merchants.py [FOLDER]`.
"""

import numpy as np

import littlestone as ls
from story import COLOURS, folder, new_axes, print_public, save

PAYMENTS = 200_000
BAD = {
    "Quick Gifts": (0, 90_000),
    "Top Phones": (40_000, PAYMENTS),
    "Ticket Spot": (100_000, PAYMENTS),
}
"""From which payment on, and until which, a merchant is bad. Bad is: 70 % are fraud."""


def payments() -> tuple[np.ndarray, np.ndarray]:
    """Merchants, and whether the payment was fraud."""
    draw = np.random.default_rng(5)
    merchants = np.array([f"shop {n}" for n in draw.zipf(1.3, PAYMENTS) % 20_000], object)
    number, bad = np.arange(PAYMENTS), np.zeros(PAYMENTS, dtype=bool)
    for name, (start, end) in BAD.items():
        theirs = draw.random(PAYMENTS) < 0.03
        merchants[theirs] = name
        bad[theirs] = ((number >= start) & (number < end))[theirs]
    return merchants, draw.random(PAYMENTS) < np.where(bad, 0.7, 0.01)


def main() -> None:
    place = folder()
    merchants, fraud = payments()
    causes = ls.Causes(["merchant"])
    # Blocking is worth it where at least one payment of five is fraud.
    learner = ls.PrivateCauses(causes, 1, 1e-8, PAYMENTS, min_rate=0.2)
    for start in range(0, PAYMENTS, 500):
        part = slice(start, start + 500)
        learner.learn_many({"merchant": merchants[part]}, fraud[part])

    print("Whom to block? What may be published:")
    print_public(learner)
    ax = new_axes("Public: blocked (colour), beside when the merchant was bad (grey)")
    for row, (name, bad) in enumerate(BAD.items()):
        ax.broken_barh([(bad[0], bad[1] - bad[0])], (row - 0.35, 0.25), color=COLOURS[3])
        ends = [release.round for release in learner.releases[1:]] + [PAYMENTS]
        spans = [
            (start, end - start)
            for (start, rule), end in zip(learner.releases, ends, strict=True)
            if rule({"merchant": name})
        ]
        ax.broken_barh(spans, (row, 0.25), color=COLOURS[0])
        print(f"  {name:<12}{'blocked' if spans and sum(spans[-1]) == PAYMENTS else 'passes'}")
    ax.set_yticks(range(len(BAD)), list(BAD))
    ax.set_xlabel("payment")
    save(ax, place / "merchants.svg")


if __name__ == "__main__":
    main()
