"""Abuse block-list: at most three senders are abusive. A report of abuse must not be traceable.

Each report is sensitive: who reported whom. The published list is a rule of `Sets(3)`, and it grows
as abusive senders turn up: `python examples/blocklist.py [FOLDER]`.
"""

import numpy as np

import littlestone as ls
from story import folder, plot, public_side

MESSAGES = 120_000
ABUSIVE = {"deals@spam.example": 0, "win@prize.example": 40_000, "ceo@phish.example": 80_000}
"""Who sends abuse, and from which message on."""


def messages() -> tuple[np.ndarray, np.ndarray]:
    """Senders, and whether the message was reported."""
    draw = np.random.default_rng(5)
    senders = np.array([f"user{n}@mail.example" for n in draw.zipf(1.3, MESSAGES) % 50_000], object)
    for name, start in ABUSIVE.items():
        theirs = (np.arange(MESSAGES) >= start) & (draw.random(MESSAGES) < 0.03)
        senders[theirs] = name
    return senders, np.isin(senders, list(ABUSIVE)).astype(int)


def main() -> None:
    place = folder()
    senders, reported = messages()
    learner = ls.DPSOA(ls.Sets(3, "sender"), 1, 1e-8, MESSAGES, watched=True)
    for start in range(0, MESSAGES, 1000):
        part = slice(start, start + 1000)
        learner.learn_many({"sender": senders[part]}, reported[part])

    print("Whom to block? What may be published:")
    print(public_side(learner))
    for sender in (*ABUSIVE, "user7@mail.example"):
        print(f"  {sender:<22}{'blocked' if learner.predict_one({'sender': sender}) else 'passes'}")
    title = "Block-list: mistakes so far"
    plot(place / "blocklist.svg", title, learner.trace, np.cumsum(reported).tolist())


if __name__ == "__main__":
    main()
