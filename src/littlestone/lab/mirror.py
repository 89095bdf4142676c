"""Play adaptive adversaries: they choose each example against the published rule.

Both stay realizable. A private learner's guarantee holds against them too; a small number of
mistakes is not guaranteed.
"""

from math import prod

from littlestone.theory.classes import HypothesisClass, points_of
from littlestone.theory.errors import TooLarge
from littlestone.theory.hypothesis import Hypothesis
from littlestone.theory.rows import as_batch
from littlestone.theory.shattering import Table, refuse_absurd, tabulate
from littlestone.theory.trees import Leaf, MistakeTree

MOST_POINTS = 4_096


class TreeAdversary:
    """Walk down a mistake tree, always against the published rule.

    Every round is a mistake and the play stays realizable, so no learner makes fewer mistakes than
    the tree is deep. `truth` is a hypothesis that fits the whole play, known when it ends.

    Parameters
    ----------
    tree
        The mistake tree.
    """

    def __init__(self, tree: MistakeTree) -> None:
        self._tree = tree

    @property
    def truth(self) -> Hypothesis | None:
        return self._tree.rule if isinstance(self._tree, Leaf) else None

    def challenge(self, rule: Hypothesis) -> tuple[object, bool] | None:
        return None if isinstance(self._tree, Leaf) else self._down(not rule(self._tree.point))

    def _down(self, y: bool) -> tuple[object, bool] | None:
        if isinstance(self._tree, Leaf):
            return None
        x = self._tree.point
        self._tree = self._tree.one if y else self._tree.zero
        return x, y


class Mirror:
    """Show an example that the published rule gets wrong, while some rule fits all examples so far.

    Of such examples it shows one that leaves the most rules possible. The rules in play are the
    whole class where its table can be written out, else the finite part that has its dimension.
    When the published rule agrees with every rule left, it shows what is true. `shown_wrong` counts
    the rounds on which the published rule was wrong.

    Parameters
    ----------
    cls
        The class.

    Examples
    --------
    >>> from littlestone.theory.hypothesis import NEVER
    >>> from littlestone.theory.sets import Points
    >>> adversary = Mirror(Points())
    >>> adversary.challenge(NEVER), str(adversary.truth)
    ((1, True), 'x = 1')
    """

    def __init__(self, cls: HypothesisClass) -> None:
        self._table = _table(cls)
        self._batch = as_batch(list(self._table.points))
        self._space = self._table.everything
        self._rule: Hypothesis | None = None
        self._move: tuple[object, bool] | None = None
        self._catches = False
        self.shown_wrong = 0

    @property
    def truth(self) -> Hypothesis:
        return self._table.hypotheses[(self._space & -self._space).bit_length() - 1]

    def challenge(self, rule: Hypothesis) -> tuple[object, bool] | None:
        if rule is not self._rule and rule != self._rule:
            self._move = self._against(rule)
        self._rule = rule
        self.shown_wrong += self._catches
        return self._move

    def _against(self, rule: Hypothesis) -> tuple[object, bool]:
        """Return the best example against a rule.

        Showing it again costs nothing, so it is kept until the rule changes.
        """
        said = rule.predict(self._batch)
        left = [
            (self._space & ~ones if answer else self._space & ones)
            for ones, answer in zip(self._table.ones, said, strict=True)
        ]
        best = max(range(len(left)), key=lambda point: left[point].bit_count())
        self._catches = left[best] > 0
        if self._catches:
            self._space = left[best]
            return self._table.points[best], not said[best]
        return self._table.points[0], bool(said[0])


def _table(cls: HypothesisClass) -> Table:
    """Return the class written out; its finite core where it is infinite or too large."""
    try:
        size, domain = cls.size, cls.domain()
        count = prod(map(len, domain.values()))
        if size is None or count > MOST_POINTS:
            raise TooLarge(f"{cls!r} has too many points to try one by one")
        refuse_absurd(size, count)
        return tabulate(list(cls.hypotheses()), points_of(domain))
    except TooLarge:
        return tabulate(*cls.skeleton())
