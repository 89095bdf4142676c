"""Keep all rounds so far, and grow a fresh flat forest on them for every query (Theorem 4.2).

Every query grows new trees with random bits of their own and replays the whole prefix: O(t) a
query. All trees are replayed at once: a tree changes only where the rule of its state is wrong, so
trees in the same state read those rounds only.

Given the random bits, a replaced round moves at most one vote of each query, as a round goes to one
tree of each forest (docs/guarantee.md, Theorem 11).

Release a rule at every round (Theorem 4.2): O(t) per round, so O(T^2) in all.

At each round a fresh forest is grown on the whole prefix and a stable histogram of its votes is
released, so that an adaptive stream meets random bits that it has not seen. Every release reads the
whole stream, so the costs of all releases add up; at epsilon 1 the plan is vacuous for any stream
that can be run, and says so. Where only privacy against an adaptive stream matters, note that
`DPSOA` and `PrivateExperts` are private against it too.
"""

import math
import pickle
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from littlestone._classes.base import (
    HypothesisClass,
    checked_class,
    kinds_of,
    learn_row,
    predict_rows,
)
from littlestone._data.rounds import Numbers, Rounds
from littlestone._hypotheses.rows import as_batch, packed, row_of, unpacked
from littlestone._hypotheses.rules import Hypothesis
from littlestone._hypotheses.values import decode, encode
from littlestone._learners.base import PrivateLearner
from littlestone._learners.loop import ChangedState, Judged, StateData
from littlestone._learners.plan_table import PlanTable, planned_delta, planned_epsilon
from littlestone._learners.tree import Purpose, below, fresh_seed, random_bits
from littlestone._learners.tuning import Selection
from littlestone._privacy.accounting import Cost
from littlestone._privacy.noise import Noise, SystemNoise
from littlestone._privacy.parameters import BadParameter, Real, whole
from littlestone._privacy.selection import StableHistogram
from littlestone.paper.gates import EveryCheck, per_release
from littlestone.paper.learner import CheckedLoop, OneForest


class Prefix:
    """Hold all rounds so far, and the votes of a forest grown on them. Private."""

    def __init__(self, cls: HypothesisClass, trees: int, seed: int, *, fresh: bool = True) -> None:
        self.cls, self.trees, self.seed, self.fresh = cls, trees, seed, fresh
        self._rows: list[tuple[object, bool, int]] = []
        self._saved = 0
        self._votes: Counter[Hypothesis] = Counter()
        # States by number, what they become after the example of a round, and their rules.
        # They are told apart by their bytes: a class may keep values as they came, and 1 == True.
        self._states, self._numbers = [cls.start()], {pickle.dumps(cls.start()): 0}
        self._rules, self._after = [cls.hypothesis(cls.start())], dict[tuple[int, int], int]()

    def __repr__(self) -> str:
        return f"Prefix({self.cls!r}, private)"

    def learn(self, rounds: Rounds) -> None:
        """Add some rounds; they are routed by their numbers."""
        pairs = zip(rounds.answers.tolist(), rounds.routes().tolist(), strict=True)
        for row, (y, number) in enumerate(pairs):
            self._rows.append((row_of(rounds.columns, row), y, number))

    def ballot(self, number: int) -> Mapping[bytes, int]:
        """Return the votes, by key, of the forest with this number."""
        # `EveryRound` reuses one address: that is all that distinguishes it (Theorem 11).
        address = number if self.fresh else 0
        numbers = np.array([row[2] for row in self._rows], dtype=np.int64)
        routes = below(self.trees, random_bits(self.seed, Purpose.TREE, address, numbers))
        self._votes = self._grown(np.asarray(routes))
        return {rule.key: votes for rule, votes in self._votes.items()}

    def _grown(self, routes: Numbers) -> Counter[Hypothesis]:
        """Return the votes of a forest of flat trees, whose rows are routed so."""
        batch = as_batch([row[0] for row in self._rows], kinds_of(self.cls)) if self._rows else None
        answers = np.array([row[1] for row in self._rows], dtype=bool)
        # Trees in one state are handled together: there are far fewer states than trees.
        last = np.full(self.trees, -1)
        groups: dict[int, list[int]] = {0: list(range(self.trees))}
        errors: dict[int, Numbers] = {}
        votes: Counter[Hypothesis] = Counter()
        while groups:
            state, members = groups.popitem()
            rule = self._rules[state]
            if rule is None:
                continue
            if state not in errors and batch is not None:
                errors[state] = np.flatnonzero(predict_rows(self.cls, rule, batch) != answers)
            rows = _first_errors(errors.get(state, np.array([], np.intp)), routes, last, members)
            # A tree without further mistakes has reached its last state: that is its vote.
            votes[rule] += int((rows < 0).sum())
            for tree, row in zip(members, rows.tolist(), strict=True):
                if row >= 0:
                    last[tree] = row
                    groups.setdefault(self._state_after(state, row), []).append(tree)
        return +votes

    def _state_after(self, state: int, row: int) -> int:
        """Return the state after an example, computed once for all forests."""
        x, y, number = self._rows[row]
        if (state, number) not in self._after:
            reached, rule = learn_row(self.cls, self._states[state], x, y)
            place = self._numbers.setdefault(pickle.dumps(reached), len(self._states))
            if place == len(self._states):
                self._states.append(reached)
                self._rules.append(rule)
            self._after[state, number] = place
        return self._after[state, number]

    @property
    def votes(self) -> Mapping[Hypothesis, int]:
        """Return the votes of the last forest. Private."""
        return self._votes

    def named(self, key: bytes) -> Hypothesis:
        """Return the rule of a key that some tree voted for."""
        return next(rule for rule in self._votes if rule.key == key)

    def get_state(self) -> StateData:
        """Return nothing: all rounds are in parts."""
        return {}

    def unsaved(self) -> ChangedState:
        """Return the rounds since the last call, as one part."""
        new = tuple((packed(x), y, number) for x, y, number in self._rows[self._saved :])
        parts = {self._saved: encode(new)} if new else {}
        self._saved = len(self._rows)
        return ChangedState(False, parts)

    def load_state(self, live: StateData, parts: Mapping[int, bytes]) -> None:
        """Load the saved rounds."""
        for first in sorted(parts):
            rows: Any = decode(parts[first])
            self._rows += [(unpacked(x), y, number) for x, y, number in rows]
        self._saved = len(self._rows)


def _first_errors(wrong: Numbers, routes: Numbers, last: Numbers, members: list[int]) -> Numbers:
    """Return, for each of some trees, its first wrong row after its last one; -1 if none."""
    first = np.full(len(last), -1)
    trees = routes[wrong]
    ahead = wrong > last[trees]
    # In falling order, so of several rows of one tree the first is assigned last.
    first[trees[ahead][::-1]] = wrong[ahead][::-1]
    return first[members]


RELIABLE = 0.99
EVEN = 0.5
# Trees per vote that a release needs: with more, the first rule keeps more votes than the new one
# gets; with fewer, mistakes fall into the same trees.
TREES_A_VOTE = 2
# Rounds to plan for, at most: T rounds take some T^2 steps.
MOST_ROUNDS = 10**6


@dataclass(frozen=True)
class EveryRoundPlan(PlanTable):
    """Hold the constants of a learner that releases at every round.

    Parameters
    ----------
    epsilon, delta : Fraction
        The budget of all releases together.
    horizon : int
        The number of rounds, each with a release.
    trees : int
        The trees of each forest.
    first : int
        The first round after which the trees are queried. Before it there are too few rounds for
        the votes that a release needs, whatever the rows are, so the schedule is public.
    votes_needed : int
        The votes with which a rule is released with probability 0.99.
    mistakes_needed : int or None
        The mistakes of the published rule, on average, until another rule has more votes than the
        published one and enough for a release; None when no number suffices.

    Examples
    --------
    >>> plan = EveryRoundPlan.of(epsilon=20, delta=1e-6, horizon=1000)
    >>> plan.votes_needed, plan.mistakes_needed, plan.vacuous
    (491, 681, False)
    """

    # No fields: users are not protected together, and every round is queried.
    unit, cap, check_every, expected_mistakes = "event", None, 1, None

    epsilon: Fraction
    delta: Fraction
    horizon: int
    trees: int
    first: int
    votes_needed: int
    mistakes_needed: int | None

    def __post_init__(self) -> None:
        for name in ("horizon", "trees", "first"):
            whole(getattr(self, name), name, least=1)

    @classmethod
    def of(
        cls, epsilon: Real, delta: Real, horizon: int, *, trees: int | None = None
    ) -> "EveryRoundPlan":
        """Choose enough trees for the votes that a release needs when `horizon` releases are made.

        Parameters
        ----------
        epsilon, delta : Real
            The budget of all releases together.
        horizon : int
            The number of rounds.
        trees : int, optional
            The trees of each forest; chosen if not given.

        Raises
        ------
        BadParameter
            If a parameter is out of range.
        """
        # Refused before the search for a split, which would take long as well.
        if whole(horizon, "horizon", least=1) > MOST_ROUNDS:
            raise BadParameter(
                f"a release at every round reads the whole stream each time: at most "
                f"{MOST_ROUNDS:,} rounds, not {horizon:,}. Take DPSOA, which has no such limit"
            )
        exact = planned_epsilon(epsilon, horizon, of=f"{horizon:,} releases")
        total = Cost(exact, planned_delta(delta))
        each = per_release(total, horizon)
        selection = Selection(StableHistogram, float(each.epsilon), float(each.delta))
        votes, even = selection.votes_for(RELIABLE), selection.votes_for(EVEN)
        count = TREES_A_VOTE * votes if trees is None else whole(trees, "trees", least=1)
        # The new rule must be released (even odds) and outvote the old one (half of the trees).
        mistakes = _rounds_to_reach(max(even, math.ceil(count / 2)), count)
        return cls(total.epsilon, total.delta, horizon, count, max(1, votes // 2), votes, mistakes)

    @property
    def vacuous(self) -> bool:
        """Tell whether a release needs more mistakes than there are rounds."""
        return self.mistakes_needed is None or self.mistakes_needed >= self.horizon

    def _own_lines(self) -> Iterator[tuple[str, str, str]]:
        yield "releases", f"{self.horizon:,}", "one a round: they add up"
        yield "trees", f"{self.trees:,} of one leaf", "a fresh forest at every round"
        yield "votes a release needs", f"{self.votes_needed:,}", "for 99 %"
        if self.mistakes_needed is not None:
            yield "mistakes needed", f"about {self.mistakes_needed:,}", "several may share a tree"
        yield "first release at round", f"{self.first:,}", "earlier there are too few votes"


def _rounds_to_reach(some: int, trees: int) -> int | None:
    """Return the expected rounds, rounded up, until `some` of the trees are hit (coupon collector)."""
    if some > trees:
        return None
    # The sum of 1/x from trees - some + 1 to trees is close to an integral.
    return math.ceil(trees * math.log((2 * trees + 1) / (2 * (trees - some) + 1)))


class PrefixVotes(OneForest):
    """Keep all rounds, of which a forest is grown at every query."""

    def add(self, judged: Judged) -> None:
        """Keep rounds, in arrays of their own."""
        super().add(judged._replace(rows=judged.rows.taken(np.arange(len(judged.rows.number)))))


class EveryRoundLoop(CheckedLoop):
    """Query the voters at every round, each time in a forest of its own."""

    state: PrefixVotes

    def _check(self, number: int) -> None:
        # Both conditions are public, so skipping a query reveals nothing (Theorem 11).
        if number <= self.state.unwatched or self.gate.exhausted:
            return
        _, key = self.gate.check(self.state.forest.ballot(number - 1))
        rule = self.rule if key is None else self.state.named(key)
        # A selection of the published rule is no release: the transcript says so already.
        changed = rule != self.rule
        if changed:
            self.rule = rule
            self._publish(number, rule)
        self._watch(number, lambda: self.state.votes, changed)


class AdaptiveDPSOA(PrivateLearner):
    """Learn with a release at every round (Theorem 4.2). Forward only.

    Takes O(t) per round: for streams of some 10^4 rounds. Privacy holds for every stream, also an
    adaptive one, and the rules do not depend on how the rounds are batched (docs/guarantee.md,
    Theorem 11). `plan.vacuous` tells whether epsilon is too small to release anything but the first
    rule.

    Parameters
    ----------
    cls : HypothesisClass
        The class that is learned.
    epsilon, delta : Real
        The budget of all releases together.
    horizon : int
        The number of rounds after which the last rule stands.
    trees : int, optional
        The trees of each forest; chosen if not given.
    seed : int, optional
        Fixes the routing of rounds, which is not secret.
    noise : Noise, optional
        The source of secret noise; the system's if not given.

    Raises
    ------
    BadParameter
        If a parameter is out of range.

    Examples
    --------
    >>> from littlestone._classes.sets import Points
    >>> learner = AdaptiveDPSOA(Points(), epsilon=90, delta=1e-3, horizon=200)
    >>> learner.learn_many(["a", "b"] * 100, [1, 0] * 100)
    >>> print(learner.hypothesis, "|", learner.guarantee)
    x = 'a' | (90.0, 0.001)-differential privacy, replace-one, per event
    """

    plan: EveryRoundPlan
    fresh = True
    _loop_type = EveryRoundLoop

    def __init__(
        self,
        cls: HypothesisClass,
        epsilon: Real,
        delta: Real,
        horizon: int,
        *,
        trees: int | None = None,
        seed: int | None = None,
        noise: Noise | None = None,
    ) -> None:
        checked_class(cls)
        plan = EveryRoundPlan.of(epsilon, delta, horizon, trees=trees)
        # The first rule reads no data, so publishing it costs nothing.
        rule = cls.hypothesis(cls.start())
        if rule is None:
            raise BadParameter(f"{cls!r} has no rule before the first example")
        gate = EveryCheck(
            SystemNoise() if noise is None else noise,
            epsilon=plan.epsilon,
            delta=plan.delta,
            releases=horizon,
            published=rule.key,
        )
        seed = fresh_seed() if seed is None else seed
        state = PrefixVotes(Prefix(cls, plan.trees, seed, fresh=self.fresh))
        # Before the first query there are too few rounds for a release.
        state.unwatched = plan.first - 1
        super().__init__(plan, seed, rule, state, gate)


class EveryRound(AdaptiveDPSOA):
    """Learn like `AdaptiveDPSOA` from one forest with the same random bits at every round.

    The naive private baseline. The proof fixes the random bits, so the guarantee is the same; what
    it lacks is the bound on mistakes against an adaptive stream.

    Parameters
    ----------
    cls, epsilon, delta, horizon, trees, seed, noise
        As in `AdaptiveDPSOA`.
    """

    fresh = False
