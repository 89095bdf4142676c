"""Keep all rounds so far, and grow a fresh flat forest on them for every query (Theorem 4.2).

Every query grows new trees with random bits of their own and replays the whole prefix: O(t) a
query. All trees are replayed at once: a tree changes only where the rule of its state is wrong, so
trees in the same state read those rounds only. Where a rule is wrong, and the state after an
example, are computed once for all forests.

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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from littlestone._classes.base import (
    HypothesisClass,
    checked_class,
    kinds_of,
    learn_row,
    predict_rows,
)
from littlestone._hypotheses.rows import (
    Batch,
    as_batch,
    batch_length,
    packed,
    part_of,
    row_of,
    unpacked,
)
from littlestone._hypotheses.rules import Hypothesis
from littlestone._hypotheses.values import Mask, decode, encode
from littlestone._learners.base import ChangedState, EventLearner, Release, StateData
from littlestone._learners.plan_table import PlanLine, PlanTable, planned_delta, planned_epsilon
from littlestone._learners.rounds import Numbers, RoundBatch, Rounds
from littlestone._learners.runners import BallotWatcher, Publish
from littlestone._learners.tree import Purpose, below, fresh_seed, random_bits
from littlestone._learners.tuning import Selection
from littlestone._privacy.accounting import Cost, per_release
from littlestone._privacy.gates import EveryCheck
from littlestone._privacy.noise import Noise, SystemNoise
from littlestone._privacy.parameters import BadParameter, Real, whole
from littlestone._privacy.selection import StableHistogram

# The most states for which the errors of their rules are cached.
MOST_STATES_CACHED = 512


class Prefix:
    """Hold all rounds so far, and the votes of a forest grown on them. Private."""

    def __init__(self, cls: HypothesisClass, trees: int, seed: int, *, fresh: bool = True) -> None:
        self.cls, self.trees, self.seed, self.fresh = cls, trees, seed, fresh
        self._parts: list[tuple[Batch, Mask, Numbers]] = []
        self._votes: Counter[Hypothesis] = Counter()
        self._replay = Replay(Learned(cls))
        self._new: list[tuple[Batch, Mask, Numbers]] = []
        self._saved = 0

    def __repr__(self) -> str:
        return f"Prefix({self.cls!r}, private)"

    def learn(self, batch: Batch, answers: Mask, routes: Numbers) -> None:
        """Add some rounds; they are routed by their numbers."""
        self._parts.append((batch, answers, routes))
        self._new.append((batch, answers, routes))

    def ballot(self, number: int) -> Mapping[bytes, int]:
        """Return the votes, by key, of the forest with this number."""
        # No round yet: every tree votes for the first rule.
        if not self._parts:
            first = self.cls.hypothesis(self.cls.start())
            self._votes = Counter() if first is None else Counter({first: self.trees})
        else:
            batch, answers, numbers = self._joined()
            # `EveryRound` reuses one address: that is all that distinguishes it (Theorem 11).
            address = number if self.fresh else 0
            routes = below(self.trees, random_bits(self.seed, Purpose.TREE, address, numbers))
            self._votes = self._replay.votes(batch, answers, numbers, routes, self.trees)
        return {rule.key: votes for rule, votes in self._votes.items()}

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
        rows = [
            (packed(row_of(batch, row)), bool(answers[row]), int(numbers[row]))
            for batch, answers, numbers in self._new
            for row in range(len(answers))
        ]
        self._new = []
        if not rows:
            return ChangedState(False, {})
        self._saved += 1
        return ChangedState(False, {self._saved: encode(tuple(rows))})

    def load_state(self, live: StateData, parts: Mapping[int, bytes]) -> None:
        """Load the saved rounds."""
        for number in sorted(parts):
            rows: Any = decode(parts[number])
            xs, answers, numbers = zip(*rows, strict=True)
            batch = as_batch(list(map(unpacked, xs)), kinds_of(self.cls))
            self.learn(batch, np.array(answers), np.array(numbers))
            self._saved = number
        self._new = []

    def _joined(self) -> tuple[Batch, Mask, Numbers]:
        """Join the parts into one, once."""
        if len(self._parts) > 1:
            batches, answers, numbers = zip(*self._parts, strict=True)
            joined = _concatenated(batches), np.concatenate(answers), np.concatenate(numbers)
            self._parts = [joined]
        return self._parts[0]


def _concatenated(batches: Any) -> Batch:
    """Concatenate batches."""
    columns = [isinstance(batch, dict) for batch in batches]
    if all(columns):
        names = [name for name in batches[0] if all(name in batch for batch in batches)]
        return {name: _column([batch[name] for batch in batches]) for name in names}
    return _column([_rows(batch) if isinstance(batch, dict) else batch for batch in batches])


def _rows(batch: Batch) -> npt.NDArray[Any]:
    """Return a batch of columns as rows."""
    rows = np.empty(batch_length(batch), dtype=object)
    rows[:] = [row_of(batch, row) for row in range(len(rows))]
    return rows


def _column(arrays: Any) -> npt.NDArray[Any]:
    """Concatenate arrays; of different types as objects, so that 1 and 1.0 stay two values."""
    if len({array.dtype for array in arrays}) > 1:
        arrays = [array.astype(object) for array in arrays]
    return np.concatenate(arrays)


class Learned:
    """Cache the states of the class's learner after each example, for all forests."""

    def __init__(self, cls: HypothesisClass) -> None:
        self.cls = cls
        # States are identified by their bytes: a class may keep values as they came, and
        # 1 == True, so that equal states may lead to different rules.
        self.states, self._numbers = [cls.start()], {pickle.dumps(cls.start()): 0}
        self.rules = [cls.hypothesis(cls.start())]
        self._after: list[dict[int, int]] = [{}]

    def known(self, state: int) -> dict[int, int]:
        """Return the known states after some rounds, by round number."""
        return self._after[state]

    def learn(self, state: int, number: int, x: object, y: bool) -> int:
        """Compute the state after a round."""
        after, rule = learn_row(self.cls, self.states[state], x, y)
        data = pickle.dumps(after)
        if data not in self._numbers:
            self._numbers[data] = len(self.states)
            self.states.append(after)
            self.rules.append(rule)
            self._after.append({})
        self._after[state][number] = self._numbers[data]
        return self._numbers[data]


class _Errors:
    """Hold, of one state: the rows read, those its rule gets wrong, and the states after these."""

    def __init__(self) -> None:
        self.seen = 0
        self.rows: npt.NDArray[np.intp] = np.array([], dtype=np.intp)
        self.after: npt.NDArray[np.intp] = np.array([], dtype=np.intp)

    def see(self, wrong: Mask) -> None:
        """Add the errors among new rows."""
        found = self.seen + np.flatnonzero(wrong)
        self.rows = np.concatenate([self.rows, found])
        self.after = np.concatenate([self.after, np.full(len(found), -1)])
        self.seen += len(wrong)


class Replay:
    """Replay a growing stream, for one forest of flat trees after another."""

    def __init__(self, learned: Learned) -> None:
        self._learned = learned
        self._known: dict[int, _Errors] = {}

    def votes(
        self, batch: Batch, answers: Mask, numbers: Numbers, routes: Any, trees: int
    ) -> Counter[Hypothesis]:
        """Return the votes of a forest after some rounds."""
        # The last row that each tree has learned; before the first there is none.
        at = np.full(trees, -1)
        groups: dict[int, list[Any]] = {0: [np.arange(trees)]}
        votes: Counter[Hypothesis] = Counter()
        while groups:
            # Trees in one state are handled together: there are far fewer states than trees.
            state, some = groups.popitem()
            rule, members = self._learned.rules[state], np.concatenate(some)
            if rule is None:
                continue
            errors = self._errors(state, rule, batch, answers)
            places = _first_errors(errors.rows, routes, at, members)
            erring = places < len(errors.rows)
            if not erring.all():
                # A tree without further mistakes has reached its last state: that is its vote.
                votes[rule] += int((~erring).sum())
            moving, places = members[erring], places[erring]
            at[moving] = errors.rows[places]
            self._learn(state, errors, places, batch, answers, numbers)
            after = errors.after[places]
            for reached in np.unique(after).tolist():
                groups.setdefault(reached, []).append(moving[after == reached])
        return votes

    def _errors(self, state: int, rule: Hypothesis, batch: Batch, answers: Mask) -> _Errors:
        """Return where a state's rule is wrong; cached for `MOST_STATES_CACHED` states."""
        # Only new rows are evaluated: rows are appended and never change.
        errors = self._known.setdefault(state, _Errors())
        if errors.seen < len(answers):
            new = slice(errors.seen, None)
            errors.see(predict_rows(self._learned.cls, rule, part_of(batch, new)) != answers[new])
        # The state that was just read, and the start, are always needed again.
        if len(self._known) > MOST_STATES_CACHED:
            self._known.pop(
                next((kept for kept in self._known if kept not in (0, state)), -1), None
            )
        return errors

    def _learn(
        self,
        state: int,
        errors: _Errors,
        places: Any,
        batch: Batch,
        answers: Mask,
        numbers: Numbers,
    ) -> None:
        """Compute the states after some errors that are not known yet."""
        known = self._learned.known(state)
        for place in places[errors.after[places] < 0].tolist():
            row = int(errors.rows[place])
            number = int(numbers[row])
            after = known.get(number)
            if after is None:
                x, y = row_of(batch, row), bool(answers[row])
                after = self._learned.learn(state, number, x, y)
            errors.after[place] = after


def _first_errors(rows: Any, routes: Any, at: Any, members: Any) -> Any:
    """Return, for each of some trees, the place among `rows` of its first one after `at`."""
    waiting, first = np.zeros(len(at), dtype=bool), np.full(len(at), len(rows))
    waiting[members] = True
    trees = routes[rows]
    ahead = np.flatnonzero(waiting[trees] & (rows > at[trees]))[::-1]
    # Places are in falling order, so of several of one tree the first place is assigned last.
    first[trees[ahead]] = ahead
    return first[members]


RELIABLE = 0.99
EVEN = 0.5
# Trees per vote that a release needs: with more, the first rule keeps more votes than the new one
# gets; with fewer, mistakes fall into the same trees.
TREES_A_VOTE = 2
# Rounds to plan for, at most: T rounds take some T^2 steps.
MOST_ROUNDS = 10**6
# Terms that are added up one by one; more of them have a formula.
MOST_SUMMED = 10**6
# Iterations of the search for a horizon; two are enough.
SEARCH_STEPS = 3


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

    @property
    def not_vacuous_from(self) -> int | None:
        """Estimate the horizon from which on the plan is not vacuous; None beyond `MOST_ROUNDS`.

        With the best number of trees, the mistakes needed grow a little faster than the square root
        of the horizon.
        """
        horizon = self.horizon
        # Iterate: the mistakes that are needed depend on the horizon through the split of epsilon.
        # Mistakes needed grow like the root of the horizon, so the iteration settles at once.
        for _ in range(SEARCH_STEPS):
            needed = EveryRoundPlan.of(self.epsilon, self.delta, horizon).mistakes_needed or 0
            horizon = max(1, math.ceil(needed**2 / horizon))
            if horizon > MOST_ROUNDS:
                return None
        return horizon

    def lines(self) -> Iterator[PlanLine]:
        """Yield the rows of the plan table."""
        pair = f"epsilon {float(self.epsilon):g}, delta {float(self.delta):g}"
        yield PlanLine("privacy: proved", pair, "replace-one, per event; any stream")
        yield PlanLine("releases", f"{self.horizon:,}", "one a round: they add up")
        yield PlanLine("trees", f"{self.trees:,} of one leaf", "a fresh forest at every round")
        yield PlanLine("votes a release needs", f"{self.votes_needed:,}", "for 99 %")
        if self.mistakes_needed is not None:
            yield PlanLine(
                "mistakes needed", f"about {self.mistakes_needed:,}", "several may share a tree"
            )
        yield PlanLine(
            "first release at round", f"{self.first:,}", "earlier there are too few votes"
        )
        yield PlanLine("horizon", f"{self.horizon:,} rounds", "then the last rule stands")
        if self.vacuous:
            enough = self.not_vacuous_from
            rounds = f"from about {enough:,} rounds on, or" if enough else "it takes"
            yield PlanLine(
                "vacuous",
                "a release needs more mistakes than there are rounds",
                f"the first rule will stand: {rounds} a larger epsilon, or DPSOA",
            )
        else:
            yield PlanLine("utility: heuristic", "no prediction", "measure it on synthetic streams")


def _rounds_to_reach(some: int, trees: int) -> int | None:
    """Return the expected rounds, rounded up, until `some` of the trees are hit (coupon collector)."""
    if some > trees:
        return None
    # The sum is close to an integral, of 1/x from trees - some to trees.
    if some > MOST_SUMMED:
        left = trees - some
        return math.ceil(trees * math.log((2 * trees + 1) / (2 * left + 1)))
    return math.ceil(float((trees / np.arange(trees, trees - some, -1)).sum()))


class EveryRoundRunner:
    """Run the voters, and the gate that queries them at every round, through the rounds."""

    def __init__(
        self,
        cls: HypothesisClass,
        forest: Prefix,
        gate: EveryCheck,
        rule: Hypothesis,
        first: int,
        publish: Publish,
        watch: BallotWatcher,
    ) -> None:
        self.forest, self.gate, self.rule = forest, gate, rule
        self.mistakes = 0
        self._cls, self._first, self._publish, self._watch = cls, first, publish, watch

    def get_state(self) -> StateData:
        """Return the runner's own state; the gate, the rule and the prefix have theirs."""
        return {"mistakes": self.mistakes}

    def load_state(self, live: StateData, releases: Sequence[Release]) -> None:
        """Load the runner's own state; gate and prefix are loaded already."""
        self.mistakes, self.rule = live["mistakes"], releases[-1].rule

    def advance(self, rounds: RoundBatch, start: int, stop: int) -> None:
        """Learn the rounds from `start` up to `stop`, one after the other."""
        # Every round is queried, so the rows are needed in this process.
        near = rounds.here()
        for number in range(start, stop):
            one = near.between(number, number + 1)
            if one.size:
                self._learn(one.copied())
            self.pass_one(number)

    def advance_one(self, number: int, x: object, y: bool, route: int) -> None:
        """Learn one round."""
        batch = as_batch([x], kinds_of(self._cls))
        self._learn(Rounds(batch, np.array([y]), np.array([number]), np.array([route])))
        self.pass_one(number)

    def learn_buffered(self) -> None:
        """Do nothing: rounds are learned at once."""

    def _learn(self, one: Rounds) -> None:
        self.mistakes += int((predict_rows(self._cls, self.rule, one.batch) != one.answers).sum())
        self.forest.learn(one.batch, one.answers, one.number)

    def pass_one(self, number: int) -> None:
        """End a round, null or not: query the trees."""
        # Both conditions are public, so skipping a query reveals nothing (Theorem 11).
        if number + 1 < self._first or self.gate.exhausted:
            return
        _, key = self.gate.check(self.forest.ballot(number))
        rule = self.rule if key is None else self.forest.named(key)
        # A selection of the published rule is no release: the transcript says so already.
        changed = rule != self.rule
        if changed:
            self.rule = rule
            self._publish(number + 1, rule)
        self._watch(number + 1, self.forest.votes, changed)


class AdaptiveDPSOA(EventLearner):
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
        self.plan = EveryRoundPlan.of(epsilon, delta, horizon, trees=trees)
        self.seed = fresh_seed() if seed is None else seed
        # The first rule reads no data, so publishing it costs nothing.
        rule = cls.hypothesis(cls.start())
        if rule is None:
            raise BadParameter(f"{cls!r} has no rule before the first example")
        super().__init__(cls, rule, horizon)
        gate = EveryCheck(
            SystemNoise() if noise is None else noise,
            epsilon=self.plan.epsilon,
            delta=self.plan.delta,
            releases=horizon,
            published=rule.key,
        )
        forest = Prefix(cls, self.plan.trees, self.seed, fresh=self.fresh)
        self._runner = EveryRoundRunner(
            cls, forest, gate, rule, self.plan.first, self._publish, self._watch
        )


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
