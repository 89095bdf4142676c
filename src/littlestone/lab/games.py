"""Games: a learner against an adversary, written down round by round."""

from dataclasses import dataclass
from typing import Any, Protocol

from littlestone.theory.hypothesis import Hypothesis
from littlestone.theory.trees import Leaf, MistakeTree


class Learner(Protocol):
    """What a game asks of a learner."""

    @property
    def hypothesis(self) -> Hypothesis: ...

    def learn_one(self, x: Any, y: Any) -> None: ...


class Adversary(Protocol):
    """Chooses each example after seeing the published rule; None ends the game."""

    def challenge(self, rule: Hypothesis) -> tuple[object, bool] | None: ...


@dataclass(frozen=True, repr=False)
class Round:
    """What happened in one round. Private: it holds the example and its label, and never prints."""

    rule: Hypothesis
    x: object
    y: bool

    def __repr__(self) -> str:
        return "Round(private)"

    @property
    def mistake(self) -> bool:
        """Whether the published rule was wrong."""
        return self.rule(self.x) != self.y


class TreeAdversary:
    """Walks down a mistake tree, always against the published rule.

    Every round is a mistake and the play stays realizable, so no learner makes fewer mistakes than
    the tree is deep. `truth` is a hypothesis that fits the whole play, known when it ends.
    """

    def __init__(self, tree: MistakeTree) -> None:
        self._tree = tree

    @property
    def truth(self) -> Hypothesis | None:
        return self._tree.rule if isinstance(self._tree, Leaf) else None

    def challenge(self, rule: Hypothesis) -> tuple[object, bool] | None:
        if isinstance(self._tree, Leaf):
            return None
        x, y = self._tree.point, not rule(self._tree.point)
        self._tree = self._tree.one if y else self._tree.zero
        return x, y


def play(learner: Learner, adversary: Adversary, rounds: int) -> list[Round]:
    """The transcript of a game of at most so many rounds.

    >>> from littlestone.learning.plain import SOA
    >>> from littlestone.theory.dimension import witness
    >>> from littlestone.theory.sets import Sets
    >>> game = play(SOA(Sets(2)), TreeAdversary(witness(Sets(2))), rounds=10)
    >>> [(round.x, round.y) for round in game]
    [(2, True), (1, True)]
    """
    transcript: list[Round] = []
    for _ in range(rounds):
        rule = learner.hypothesis
        move = adversary.challenge(rule)
        if move is None:
            break
        transcript.append(Round(rule, *move))
        learner.learn_one(*move)
    return transcript
