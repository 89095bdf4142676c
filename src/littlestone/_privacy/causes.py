"""Add, drop and narrow causes privately: weighted rows, known and unknown keys, private counts.

The published rule is an or of causes. A missed positive and a false alarm have public costs for the
monitor, and positive and negative rows have public weights in the draw; all of them are chosen anew
at each epoch, from what was released. They are whole numbers of units, none above `UNITS`, so that
all noise is integer (docs/guarantee.md, Theorem 15).

The mechanisms, and one that holds them together:

- `SparseExponential` draws a move: add a key, drop a cause, replace one by a narrower key, or
  nothing. Keys are known, or unknown before they occur (after the sparse exponential mechanism of
  Ghazi, Kumar and Manurangsi 2020).
- `Gate` watches the weighted loss with `CausesSchedule`. Monitor and draw are accounted for jointly:
  where a replaced row moves the monitor it moves the draw less.
- `WindowCounts` releases counts over disjoint windows of rounds, `StableValues` values that occur.
- `CausesMechanism` has all of them; a first window is read by nothing but its own counts.

Where users are protected, or a table is finished, there is no monitor: epochs end at public ages. Of
users each has a part in a score, which is clipped (Theorem 19); a finished table is read by all draws,
whose costs add up (Theorem 20).
"""

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from itertools import count
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from littlestone._privacy.accounting import NOTHING, Cost, Guarantee, PrivacyEvent, Unit
from littlestone._privacy.draws import Draw, draw_by_score
from littlestone._privacy.gates import Gate, Step
from littlestone._privacy.mechanism import Mechanism, State, whole_field
from littlestone._privacy.noise import Noise, noise_scale
from littlestone._privacy.parameters import (
    BadParameter,
    Numbers,
    Real,
    enclose_exp,
    log_of,
    positive,
    probability,
    whole,
    whole_numbers,
)
from littlestone._privacy.schedules import Ages, EpochEnd, Schedule
from littlestone._privacy.selection import release_threshold

Counts = npt.NDArray[np.int64]
Classes = npt.NDArray[np.intp]
# What the key of a move begins with.
ADD, DROP, REPLACE = b"+", b"-", b">"
# The units of a whole weight: costs and weights are rounded down to this grid.
UNITS = 10_000
# The largest margin, in whole weights: scores stay far from the limits of 64 bits.
LARGEST_MARGIN = 1 << 32


class Weights(NamedTuple):
    """Hold what a positive and a negative row weigh, in units. Public."""

    positive: int
    negative: int

    def score(self, counts: Counts) -> Counts:
        """Return the weighted sum of negatives and positives, given as rows of two counts."""
        return np.asarray(self.positive * counts[:, 1] - self.negative * counts[:, 0])


class Known(NamedTuple):
    """Hold how many keys of a width are known, and what each weighs at score 0. Public."""

    keys: int
    weight: Fraction


class UserBound(NamedTuple):
    """Bound what one user does to a draw. Public."""

    # A user's part of a score lies between minus this and 1, in whole weights.
    lowest: Fraction
    # The rounds of a user that an epoch reads.
    rounds: int


class UserPairs(NamedTuple):
    """Hold, for each pair of a user and a key, the negative and positive rows, and the key's place."""

    counts: Counts
    places: Counts

    def score(self, weights: Weights, size: int, lowest: int, highest: int) -> Counts:
        """Return the score of so many keys: the sum of what each user does, clipped."""
        # Theorem 19: each pair once, or the clip would not bound what a user does.
        parts = np.clip(weights.score(self.counts), lowest, highest)
        scores = np.zeros(size, np.int64)
        np.add.at(scores, self.places, parts)
        return scores


class Moves(NamedTuple):
    """Hold, for each move, the negative and positive rows of an epoch that speak on it.

    Counts are private. Weights, and which keys are known, are public.
    """

    weights: Weights
    # Of the unmatched rows, those that list each active key; the width of each key, from 0; and its
    # number among the known keys of that width, -1 if it is unknown.
    adds: Counts
    widths: Classes
    known: Counts
    add_key: Callable[[int], bytes]
    known_key: Callable[[int, int], bytes]
    # The rows that each cause alone matches.
    drops: Counts
    drop_keys: Sequence[bytes]
    # Of these, for each cause, those that list each of its narrower keys.
    replaces: Sequence[Counts] = ()
    replace_key: Callable[[int, int], bytes] = lambda cause, place: b""
    # Whether keys may be added: the number of published causes is public.
    may_add: bool = True
    # Where users are protected, the rows of each apart.
    add_pairs: UserPairs | None = None
    drop_pairs: UserPairs | None = None


class EpochTerms(NamedTuple):
    """Hold what is chosen anew for each epoch, by public numbers alone."""

    # 0 for no monitor: the epoch ends at a public age.
    monitor: Fraction
    rate: Fraction
    # The most that the two weights of a draw have together, in whole weights: 1 + c0.
    swing: Fraction
    # By width, from 1.
    known: tuple[Known, ...] = ()
    # What a key has to gain beyond what it usually takes, in whole weights.
    margin: int = 0
    # The part of delta that the draw has.
    share: Fraction = Fraction(1)
    # Where users are protected, and not rows.
    users: UserBound | None = None
    # By width, what an unknown key weighs at score 0 once enough positive rows list it; without it,
    # what delta leaves it.
    frequent: tuple[Fraction, ...] = ()

    def to_json(self) -> State:
        """Return the terms as JSON data; fractions are exact, as text."""
        known = [[keys, str(weight)] for keys, weight in self.known]
        exact = {name: str(getattr(self, name)) for name in ("monitor", "rate", "swing", "share")}
        users = None if self.users is None else [str(self.users.lowest), self.users.rounds]
        frequent = list(map(str, self.frequent))
        return {
            **exact,
            "known": known,
            "margin": self.margin,
            "users": users,
            "frequent": frequent,
        }


def terms_from_json(data: State) -> EpochTerms:
    """Return the terms that `EpochTerms.to_json` wrote."""
    known = tuple(Known(keys, Fraction(weight)) for keys, weight in data["known"])
    monitor, rate, swing = (Fraction(data[name]) for name in ("monitor", "rate", "swing"))
    lowest, *rounds = data["users"] or [None]
    users = UserBound(Fraction(lowest), *rounds) if lowest else None
    margin, share = whole_field(data, "margin"), Fraction(data["share"])
    frequent = tuple(map(Fraction, data["frequent"]))
    return EpochTerms(monitor, rate, swing, known, margin, share, users, frequent)


class SparseExponential(Draw[Moves]):
    """Draw a move by the rows that speak for it: add, drop, replace, or nothing."""

    name = "sparse exponential mechanism"

    def __init__(
        self,
        terms: EpochTerms,
        *,
        delta: Real,
        prior: Sequence[Fraction],
        units: int = UNITS,
        drop_penalty: int = 0,
        replace_weight: Fraction = Fraction(1),
        replace_penalty: int = 0,
    ) -> None:
        # Without a delta only known keys are drawn.
        self.delta = Fraction(0) if delta == 0 else probability(delta, "delta")
        self.rate = positive(terms.rate, "rate")
        self.units, self.swing = whole(units, "units", least=1), terms.swing
        if not 1 <= self.swing <= 2:
            raise BadParameter(f"weights sum to at most 1 to 2 whole ones, not {self.swing}")
        # A margin is public and at least 0, and is taken off every key alike: a key that is active
        # in one world only becomes lighter, and differences stay what they are (Theorem 15).
        self.margin = min(whole(terms.margin, "margin", least=0), LARGEST_MARGIN)
        self.drop_penalty = whole(drop_penalty, "drop_penalty", least=0)
        self.replace_weight = positive(replace_weight, "replace_weight")
        self.replace_penalty = whole(replace_penalty, "replace_penalty", least=0)
        self.prior = tuple(Fraction(share) for share in prior)
        if not self.prior or any(not 0 < share <= 1 for share in self.prior):
            raise BadParameter("the prior of each width of keys lies above 0 and is at most 1")
        # Theorem 15: all known keys count, also those that no row of the epoch lists.
        self.known, self.users = terms.known, terms.users
        # How far a unit moves a score: a row by a whole weight, a user through all of its part, and
        # both ways at once (Theorem 19).
        reach, rounds = Fraction(1), 1
        if self.users is not None:
            lowest = positive(self.users.lowest, "what a user may take from a score")
            reach, rounds = 1 + lowest, whole(self.users.rounds, "rounds of a user", least=1)
        self.cost = Cost(2 * reach * self.rate, self.delta)
        # What unknown keys weigh, and by how much the positives of one must exceed those of one row:
        # Theorem 15, "Frequent keys". Each of a user's rounds may name keys that nobody else has.
        each = [self.delta / rounds * share for share in self.prior]
        self.unknown, self.gaps = each, [0] * len(each)
        if terms.frequent and self.delta:
            self.unknown = [max(pair) for pair in zip(terms.frequent, each, strict=True)]
            self.gaps = [
                self._gap(high / low) for high, low in zip(self.unknown, each, strict=True)
            ]

    def select(
        self, scores: Moves, noise: Noise, release: int, published: bytes | None = None
    ) -> bytes | None:
        """Draw a move: ADD, DROP or REPLACE and the bytes of its keys, or None for nothing."""
        table = self.table(scores)
        common = math.lcm(*(weight.denominator for weight in table.weights))
        weights = [int(weight * common) for weight in table.weights]
        rate = self.rate / self.units
        drawn = draw_by_score(
            table.scores, rate, noise, release, classes=table.classes, weights=weights
        )
        return self.key_at(scores, drawn, noise, release)

    def key_at(self, moves: Moves, drawn: int, noise: Noise, release: int) -> bytes | None:
        """Return the key of a move by its place in the table."""
        if drawn == 0:
            return None
        place = drawn - 1
        if place < len(moves.drops):
            return DROP + moves.drop_keys[place]
        place -= len(moves.drops)
        if moves.may_add:
            if place < len(moves.widths):
                return ADD + moves.add_key(place)
            place -= len(moves.widths)
            if place < len(self.known):
                return ADD + self._idle_key(moves, place, noise, release)
            place -= len(self.known)
        for cause, counts in enumerate(moves.replaces):
            if place < len(counts):
                return replace_move(moves.drop_keys[cause], moves.replace_key(cause, place))
            place -= len(counts)
        raise AssertionError("unreachable")

    def _idle_key(self, moves: Moves, width: int, noise: Noise, release: int) -> bytes:
        """Draw one of the known keys of a width that no row lists, each as likely."""
        active = moves.known[moves.widths == width]
        for attempt in count():
            number = noise.uniform(self.known[width].keys, ("known", release, attempt))
            if not (active == number).any():
                return moves.known_key(width, number)
        raise AssertionError("unreachable")

    def check(self, weights: Weights) -> None:
        """Raise `BadParameter` unless step 1 of Theorem 15 holds for weights."""
        most, units = self.swing * self.units, self.units
        if not (min(weights) > 0 and max(weights) <= units and sum(weights) <= most):
            raise BadParameter(f"weights {weights} are not within the terms of the epoch")

    def table(self, moves: Moves) -> "MoveTable":
        """Return scores and weights of nothing, drops, adds, idle known keys, and replaces."""
        weights, units = moves.weights, self.units
        self.check(weights)
        table = MoveTable([np.zeros(1, np.int64)], [np.zeros(1, np.intp)], [Fraction(1)])
        drops = -self._score(moves.drops, moves.drop_pairs, weights)
        table.put(drops - self.drop_penalty * units, 0)
        if moves.may_add:
            self._put_adds(moves, table)
        for drop, counts in zip(drops.tolist(), moves.replaces, strict=False):
            if len(counts):
                if self.users is not None:
                    raise BadParameter("where users are protected, no cause is replaced by another")
                # A narrower key that no row lists has the score of dropping the cause.
                gains = drop + weights.score(counts) - self.replace_penalty * units
                table.put(gains, table.add_class(self.replace_weight / len(counts)))
        return table

    def _score(self, counts: Counts, pairs: UserPairs | None, weights: Weights) -> Counts:
        """Return the sum of what rows do, or of what users do, each of whom is bounded."""
        if (pairs is None) != (self.users is None):
            raise BadParameter("rows are counted by user where users are protected, and only there")
        if pairs is None or self.users is None:
            return weights.score(counts)
        lowest = -math.floor(self.users.lowest * self.units)
        return pairs.score(weights, len(counts), lowest, self.units)

    def add_scores(self, moves: Moves) -> Counts:
        """Return the score of adding each active key, before its margin."""
        gains = self._score(moves.adds, moves.add_pairs, moves.weights)
        # Theorem 15: less the weight of a positive, or the most of a user, so that a key which one
        # row, or user, alone makes active has a score of at most 0; known keys exist in both worlds,
        # and are clipped at 0.
        most = moves.weights.positive if self.users is None else self.units
        unknown = gains - most if self.delta else np.zeros_like(gains)
        if any(self.gaps):
            positives = self._score(moves.adds, moves.add_pairs, Weights(moves.weights.positive, 0))
            gap = np.array(self.gaps)[moves.widths]
            unknown = np.minimum(gains, positives - most - gap)
        return np.where(moves.known >= 0, np.maximum(gains, 0), unknown)

    def _gap(self, ratio: Fraction) -> int:
        """Return a score that makes up for a ratio of weights, in units, rounded up."""
        if ratio == 1:
            return 0
        gap = math.ceil(log_of(ratio) * self.units / self.rate)
        # The logarithm is a float: checked by an exponential that is rounded outwards.
        while enclose_exp(gap * self.rate / self.units, 40)[0] < ratio:
            gap += 1
        return gap

    def _put_adds(self, moves: Moves, table: "MoveTable") -> None:
        known = moves.known >= 0
        unknown = [table.add_class(weight) for weight in self.unknown]
        listed = [table.add_class(known_keys.weight) for known_keys in self.known]
        of_width = np.array([unknown, [*listed, *[0] * (len(unknown) - len(listed))]])
        margin = self.margin * self.units
        table.put(self.add_scores(moves) - margin, of_width[known.astype(np.intp), moves.widths])
        active = np.bincount(moves.widths[known], minlength=len(self.known))
        for keys, some in zip(self.known, active.tolist(), strict=True):
            # One entry for all known keys that no row lists: they have one score.
            table.put(np.array([-margin]), table.add_class((keys.keys - some) * keys.weight))

    def parameters(self) -> dict[str, str]:
        """Return the public parameters on which the guarantee rests."""
        return (
            super().parameters()
            | {
                "rate": str(self.rate),
                "prior": ", ".join(map(str, self.prior)),
                "swing": str(self.swing),
                "units": str(self.units),
            }
            | ({} if self.users is None else {"users": ", ".join(map(str, self.users))})
        )

    def joint(self, monitor: Cost, reads: int) -> Cost:
        """Return what monitor and draws cost together: all of it from the first check on."""
        if monitor == NOTHING:
            return super().joint(monitor, reads)
        if reads > 1 or self.users is not None:
            raise BadParameter("a monitor watches rounds that one draw reads, and no users")
        # Theorem 15: where a replaced row moves the monitor, it moves the draw less.
        epsilon = max(2 * self.rate, monitor.epsilon + self.swing * self.rate)
        return Cost(epsilon, self.delta)


class MoveTable:
    """Collect the scores of moves, the class of each, and the weight of each class at score 0."""

    def __init__(
        self, scores: list[Counts], classes: list[Classes], weights: list[Fraction]
    ) -> None:
        self._scores, self._classes, self.weights = scores, classes, weights

    def add_class(self, weight: Fraction) -> int:
        """Add a class of moves of one weight."""
        self.weights.append(weight)
        return len(self.weights) - 1

    def put(self, scores: Counts, classes: Classes | int) -> None:
        """Add moves of one class, or each of its own."""
        self._scores.append(scores)
        self._classes.append(np.broadcast_to(np.asarray(classes, np.intp), scores.shape))

    @property
    def scores(self) -> Counts:
        """Return the scores of all moves."""
        return np.concatenate(self._scores)

    @property
    def classes(self) -> Classes:
        """Return the class of each move."""
        return np.concatenate(self._classes)


def replace_move(old: bytes, new: bytes) -> bytes:
    """Return the key of a move that replaces one key by another."""
    return REPLACE + len(old).to_bytes(4) + old + new


def replaced(key: bytes) -> tuple[bytes, bytes]:
    """Return the two keys of a move that replaces one by the other."""
    size = int.from_bytes(key[1:5])
    return key[5 : 5 + size], key[5 + size :]


class Threshold(NamedTuple):
    """Hold a threshold that grows with the age of an epoch, up to the most that it gets to."""

    most: int
    start: float = 0.0
    slope: float | None = None

    def at(self, ages: Ages) -> Any:
        """Return the threshold at an age, or at each of several."""
        if self.slope is None:
            return self.most
        return np.minimum(self.most, np.ceil(self.start + self.slope * ages).astype(np.int64))


class CausesSchedule(Schedule):
    """End epochs by age, and watch a threshold: both are set anew for each epoch."""

    def __init__(self, rounds: int, threshold: Threshold) -> None:
        self.begin_epoch(rounds, threshold)
        # In units; 0 until an epoch has ended with nothing, and after a move.
        self.loss_rate = Fraction(0)
        # Epochs since the last move that have reached their age.
        self.aged = 0

    def begin_epoch(self, rounds: int, threshold: Threshold) -> None:
        """Set what is public of the epoch: both must follow from what was released."""
        self._longest, self._threshold = whole(rounds, "rounds", least=1), threshold

    @property
    def epoch(self) -> int:
        """Return the rounds after which a move is drawn without a firing."""
        return self._longest

    def limits(self, ages: Ages) -> Any:
        """Return the threshold at each age."""
        return self._threshold.at(ages)

    def after(self, end: EpochEnd, published: bytes) -> None:
        """Note what a round has cost, if the monitor has fired in vain."""
        self.aged = self.aged + end.aged if end.key is None else 0
        if end.key is not None:
            self.refusals, self.loss_rate = 0, Fraction(0)
        elif end.fired:
            # At a firing the loss is about the threshold, which is public: so is the rate.
            reached = int(self.limits(end.window_age))
            self.refusals += 1
            self.loss_rate = Fraction(reached, end.window_age)

    def dump(self) -> State:
        """Return what the schedule knows, as JSON data."""
        public = {"ends": self._longest, "threshold": list(self._threshold), "aged": self.aged}
        return super().dump() | {"rate": str(self.loss_rate)} | public

    def load(self, state: State) -> None:
        """Load what `dump` returned."""
        super().load(state)
        self.loss_rate, self.aged = Fraction(state["rate"]), whole_field(state, "aged")
        self.begin_epoch(whole_field(state, "ends", least=1), Threshold(*state["threshold"]))


class WindowCounts(Mechanism):
    """Release the counts of disjoint windows of rounds, with discrete Laplace noise."""

    def __init__(self, noise: Noise, *, epsilon: Real, name: str, sensitivity: int = 2) -> None:
        super().__init__()
        self.cost = Cost(positive(epsilon, "epsilon"))
        self._noise, self.name = noise, name
        # A replaced round leaves one cell and enters another: an L1 sensitivity of 2, for each round
        # of a user that is counted. A number of positive rows alone changes by 1.
        self.scale = noise_scale(whole(sensitivity, "sensitivity", least=1) / self.cost.epsilon)
        self.sensitivity, self.windows = sensitivity, 0

    def release(self, counts: Numbers) -> list[int]:
        """Return the counts of a window with noise, and begin the next window."""
        exact = whole_numbers(counts, "counts", least=0)
        with self._step:
            number, self.windows = self.windows, self.windows + 1
            return [
                int(count) + self._noise.laplace(self.scale, (self.name, number, cell))
                for cell, count in enumerate(exact)
            ]

    def _parameters(self) -> State:
        cost = {"epsilon": str(self.cost.epsilon), "sensitivity": self.sensitivity}
        return {**cost, "name": self.name, "noise": repr(self._noise)}

    def _state_data(self) -> State:
        return {"windows": self.windows}

    def _load_state_data(self, data: State) -> None:
        self.windows = whole_field(data, "windows")


class StableValues(Mechanism):
    """Release, once, the values for which enough rounds vote, one vote a round (Theorem 16)."""

    def __init__(self, noise: Noise, cost: Cost) -> None:
        super().__init__()
        self._noise, self.cost = noise, cost
        # A replaced round takes a vote from one value and gives it to another.
        self.scale = noise_scale(2 / cost.epsilon)
        self.windows = 0

    @cached_property
    def threshold(self) -> int:
        """Return the least noisy count that is released; without a delta there is none."""
        return release_threshold(self.scale, self.cost.delta)

    def release(self, votes: Mapping[bytes, int]) -> list[bytes]:
        """Return the values whose noisy count of votes reaches the threshold, in order."""
        whole_numbers(list(votes.values()), "votes", least=1)
        with self._step:
            self.windows += 1
            noise = self._noise
            return [
                value
                for place, value in enumerate(sorted(votes))
                if votes[value] + noise.laplace(self.scale, ("discovered", 0, place))
                >= self.threshold
            ]

    def _parameters(self) -> State:
        return self.cost.parameters("stable values") | {"noise": repr(self._noise)}

    def _state_data(self) -> State:
        return {"windows": self.windows}

    def _load_state_data(self, data: State) -> None:
        self.windows = whole_field(data, "windows")


class CausesMechanism(Mechanism):
    """Hold all mechanisms of a causes learner: a first window, the gate, and the evidence.

    The budget is that of a unit, a round or a user, which so many draws read at most, and of which the
    evidence counts so many rounds. With an epsilon for the base rate all draws read one finished table
    (Theorem 20).
    """

    def __init__(
        self,
        noise: Noise,
        *,
        budget: Cost,
        epsilon_evidence: Fraction,
        draw: Callable[[EpochTerms], SparseExponential],
        check_every: int = 1,
        units: int = UNITS,
        reads: int = 1,
        counts: int = 1,
        rounds: int | None = None,
        epsilon_base: Fraction | None = None,
    ) -> None:
        super().__init__()
        # How many rounds of a user count; None where rounds are protected.
        self.unit: Unit = "event" if rounds is None else "user"
        self._noise, self._rounds, self._reads = noise, rounds, whole(reads, "reads", least=1)
        self._budget, self._draw = budget, draw
        self._check_every, self.units = check_every, whole(units, "units", least=1)
        self.evidence = WindowCounts(
            noise, epsilon=epsilon_evidence, name="evidence", sensitivity=2 * counts
        )
        self._table = epsilon_base is not None
        self._first = (
            WindowCounts(noise, epsilon=budget.epsilon, name="first window")
            if epsilon_base is None
            else WindowCounts(noise, epsilon=epsilon_base, name="base rate", sensitivity=1)
        )
        self._values = StableValues(noise, budget)
        self.gate: Gate[Moves] | None = None
        self.terms: EpochTerms | None = None
        # Without a monitor, what each draw costs.
        self._draws: list[Cost] = []

    # Releases are unlimited.
    exhausted = False

    def release_first(self, counts: Numbers) -> list[int]:
        """Return the noisy counts of the first window, which ends here."""
        self._only_once(self._first.windows)
        with self._step:
            return self._first.release(counts)

    def discover(self, votes: Mapping[bytes, int]) -> list[bytes]:
        """Return the values that stand out in a part of the first window that nothing else reads."""
        self._only_once(self._values.windows)
        with self._step:
            return self._values.release(votes)

    def release_evidence(self, counts: Numbers) -> list[int]:
        """Return the noisy counts of a window of evidence, which ends here."""
        if self._table and self.evidence.windows:
            raise BadParameter("a finished table is counted once")
        # A window ends within a step of `run`, which holds the lock.
        self._step.check()
        return self.evidence.release(counts)

    @property
    def left(self) -> Cost:
        """Return what is left of the budget for the draws from a finished table. Public."""
        used = sum(self._draws, self._first.cost + self.evidence.cost)
        return Cost(self._budget.epsilon - used.epsilon, self._budget.delta - used.delta)

    def _only_once(self, windows: int) -> None:
        if self.gate is not None or windows:
            raise BadParameter("there is one first window at most, before everything else")
        # Its noise is for one round: a user may have more (Theorem 19).
        if self.unit == "user" and not self._table:
            raise BadParameter("where users of a stream are protected there is no first window")

    def begin_epoch(self, terms: EpochTerms, rounds: int, threshold: Threshold) -> None:
        """Set what is public of the epoch that begins; the first time, make the gate."""
        draw = self._draw(terms)
        if self.unit == "user" and draw.users is None:
            raise BadParameter("where users are protected, a draw bounds what each of them does")
        joint = draw.joint(Cost(terms.monitor), self._reads)
        # What the gate and the evidence read, they both read.
        total = joint + self.evidence.cost
        if self._table:
            # All of them read the table.
            total += sum(self._draws, self._first.cost)
        if total.epsilon > self._budget.epsilon or total.delta > self._budget.delta:
            raise BadParameter("gate and evidence together cost more than a unit may cost")
        if not terms.monitor:
            self._draws.append(draw.cost)
        if self.gate is None:
            self.gate = Gate(
                self._noise,
                epsilon=terms.monitor or None,
                schedule=CausesSchedule(rounds, threshold),
                draw=draw,
                check_every=self._check_every,
                largest_loss=self.units,
                unit=self.unit,
                cap=None if self.unit == "event" else self._reads,
            )
        else:
            self.gate.begin_epoch(terms.monitor or None, draw)
            self.schedule.begin_epoch(rounds, threshold)
        self.terms = terms

    @property
    def schedule(self) -> CausesSchedule:
        """Return the schedule of the gate, once there is one."""
        assert self.gate is not None
        assert isinstance(self.gate.schedule, CausesSchedule)
        return self.gate.schedule

    def run(self, losses: Numbers, scores: Callable[[int, bool], Moves]) -> Step:
        """Make checks in a row, up to the first that fires (see `Gate.run`)."""
        if self.gate is None:
            raise BadParameter("the first window has not ended")
        # Theorem 20: a draw that was not charged would read the table for nothing.
        if self._draws and self.releases_made >= len(self._draws):
            raise BadParameter("the draw of this epoch was made: begin the next one")
        with self._step:
            return self.gate.run(losses, scores)

    @property
    def first_scale(self) -> Fraction:
        """Return the scale of the noise of the first window."""
        return self._first.scale

    @property
    def releases_made(self) -> int:
        """Return how many draws were made."""
        return 0 if self.gate is None else self.gate.releases_made

    @property
    def guarantee(self) -> Guarantee:
        """Return what all that is released guarantees, however long the stream gets."""
        return Guarantee.of(self._budget, self._noise, self.unit, self._rounds)

    @property
    def ledger(self) -> tuple[PrivacyEvent, ...]:
        """Return every use of a mechanism so far."""
        # All that reads a finished table adds up: it has no epoch of its own.
        noise, epoch = repr(self._noise), None if self._table else 0
        first = [PrivacyEvent(self._first.name, self._first.cost, epoch, noise)]
        first *= self._first.windows
        first += [PrivacyEvent("values", self._values.cost, 0, noise)] * self._values.windows
        draws = self.gate.ledger if self.gate else ()
        if self._draws:
            # Those of users have an epoch each, which may read other users.
            numbers = [None if self._table else n for n in range(self.releases_made)]
            costs = zip(self._draws, numbers, strict=False)
            draws = tuple(PrivacyEvent(SparseExponential.name, c, n, noise) for c, n in costs)
        evidence = [
            PrivacyEvent("evidence", self.evidence.cost, None if self._table else window, noise)
            for window in range(self.evidence.windows)
        ]
        return (*first, *draws, *evidence)

    @property
    def spent(self) -> Cost:
        """Return what one unit may have cost so far; never more than the guarantee."""
        counted = self.evidence.cost if self.evidence.windows else NOTHING
        if self._table or self.unit == "user":
            base = self._first.cost if self._first.windows else NOTHING
            draws = sorted(self._draws[: self.releases_made], key=lambda cost: cost.epsilon)
            # All draws read a table, and a few of them a user: the dearest.
            return sum(draws if self._table else draws[-self._reads :], base + counted)
        later = (NOTHING if self.gate is None else self.gate.spent) + counted
        # The parts of the first window are disjoint too.
        first = self._values.cost if self._values.windows else NOTHING
        first = first if self._values.windows or not self._first.windows else self._first.cost
        # Disjoint rounds: the larger of the two, not the sum.
        return Cost(max(first.epsilon, later.epsilon), max(first.delta, later.delta))

    def _parameters(self) -> State:
        return {
            "epsilon": str(self._budget.epsilon),
            "delta": str(self._budget.delta),
            "evidence": self.evidence._parameters(),
            "first": self._first._parameters(),
            "units": self.units,
            "unit": self.unit,
            "reads": self._reads,
            "rounds": self._rounds,
        }

    def _state_data(self) -> State:
        return {
            "first": self._first._state(),
            "values": self._values._state(),
            "evidence": self.evidence._state(),
            "terms": self.terms.to_json() if self.terms else None,
            "draws": [[str(cost.epsilon), str(cost.delta)] for cost in self._draws],
            "gate": self.gate._state() if self.gate else None,
        }

    def _load_state_data(self, data: State) -> None:
        self._first.resume(data["first"])
        self._values.resume(data["values"])
        self.evidence.resume(data["evidence"])
        if data["gate"] is not None:
            # The schedule of the gate has its own state: what it begins with is replaced.
            self.gate = None
            self.begin_epoch(terms_from_json(data["terms"]), 1, Threshold(0))
            assert self.gate is not None
            self.gate.resume(data["gate"])
        self._draws = [Cost(*map(Fraction, cost)) for cost in data["draws"]]
