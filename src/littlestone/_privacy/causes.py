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
"""

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from itertools import count
from math import lcm
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


class EpochTerms(NamedTuple):
    """Hold what is chosen anew for each epoch, by public numbers alone."""

    monitor: Fraction
    rate: Fraction
    # The most that the two weights of a draw have together, in whole weights: 1 + c0.
    swing: Fraction
    # By width, from 1.
    known: tuple[Known, ...] = ()
    # What a key has to gain beyond what it usually takes, in whole weights.
    margin: int = 0

    def to_json(self) -> State:
        """Return the terms as JSON data; fractions are exact, as text."""
        known = [[keys, str(weight)] for keys, weight in self.known]
        exact = {name: str(getattr(self, name)) for name in ("monitor", "rate", "swing")}
        return {**exact, "known": known, "margin": self.margin}


def terms_from_json(data: State) -> EpochTerms:
    """Return the terms that `EpochTerms.to_json` wrote."""
    known = tuple(Known(keys, Fraction(weight)) for keys, weight in data["known"])
    monitor, rate, swing = (Fraction(data[name]) for name in ("monitor", "rate", "swing"))
    return EpochTerms(monitor, rate, swing, known, whole_field(data, "margin"))


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
        self.rate, self.delta = positive(terms.rate, "rate"), probability(delta, "delta")
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
        self.known = terms.known
        self.cost = Cost(2 * self.rate, self.delta)

    def select(
        self, scores: Moves, noise: Noise, release: int, published: bytes | None = None
    ) -> bytes | None:
        """Draw a move: ADD, DROP or REPLACE and the bytes of its keys, or None for nothing."""
        table = self.table(scores)
        common = lcm(*(weight.denominator for weight in table.weights))
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
            if place < len(moves.adds):
                return ADD + moves.add_key(place)
            place -= len(moves.adds)
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
        drops = -weights.score(moves.drops)
        table.put(drops - self.drop_penalty * units, 0)
        if moves.may_add:
            self._put_adds(moves, table)
        for drop, counts in zip(drops.tolist(), moves.replaces, strict=False):
            if len(counts):
                # A narrower key that no row lists has the score of dropping the cause.
                gains = drop + weights.score(counts) - self.replace_penalty * units
                table.put(gains, table.add_class(self.replace_weight / len(counts)))
        return table

    def add_scores(self, moves: Moves) -> Counts:
        """Return the score of adding each active key, before its margin."""
        gains = moves.weights.score(moves.adds)
        # Theorem 15: less the weight of a positive, so that a key which one row alone makes active
        # has a score of at most 0; known keys exist in both worlds, and are clipped at 0.
        return np.where(moves.known >= 0, np.maximum(gains, 0), gains - moves.weights.positive)

    def _put_adds(self, moves: Moves, table: "MoveTable") -> None:
        known = moves.known >= 0
        unknown = [table.add_class(self.delta * share) for share in self.prior]
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
        return super().parameters() | {
            "rate": str(self.rate),
            "prior": ", ".join(map(str, self.prior)),
            "swing": str(self.swing),
            "units": str(self.units),
        }

    def joint(self, monitor: Cost, reads: int) -> Cost:
        """Return what monitor and draws cost together: all of it from the first check on."""
        if reads > 1:
            raise BadParameter("the joint cost is that of one round: groups pay by Theorem 14")
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

    def __init__(self, noise: Noise, *, epsilon: Real, name: str) -> None:
        super().__init__()
        self.cost = Cost(positive(epsilon, "epsilon"))
        self._noise, self.name = noise, name
        # A replaced round leaves one cell and enters another: an L1 sensitivity of 2.
        self.scale = noise_scale(2 / self.cost.epsilon)
        self.windows = 0

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
        return {"epsilon": str(self.cost.epsilon), "name": self.name, "noise": repr(self._noise)}

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
        self.threshold = release_threshold(self.scale, cost.delta)
        self.windows = 0

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
    """Hold all mechanisms of a causes learner: a first window, the gate, and the evidence."""

    def __init__(
        self,
        noise: Noise,
        *,
        per_round: Cost,
        epsilon_evidence: Fraction,
        draw: Callable[[EpochTerms], SparseExponential],
        check_every: int = 1,
        units: int = UNITS,
        unit: Unit = "event",
        cap: int | None = None,
    ) -> None:
        super().__init__()
        if (unit == "user") != (cap is not None):
            raise BadParameter("unit='user' requires a cap on a user's rounds; 'event' has none")
        self._noise, self.unit, self._cap = noise, unit, cap
        self._per_round, self._draw = per_round, draw
        self._check_every, self.units = check_every, whole(units, "units", least=1)
        self.evidence = WindowCounts(noise, epsilon=epsilon_evidence, name="evidence")
        self._first = WindowCounts(noise, epsilon=per_round.epsilon, name="first window")
        self._values = StableValues(noise, per_round)
        self.gate: Gate[Moves] | None = None
        self.terms: EpochTerms | None = None

    # Releases are unlimited.
    exhausted = False

    def release_first(self, counts: Numbers) -> list[int]:
        """Return the noisy counts of the first window, which ends here."""
        self._only_once(self._first.windows)
        return self._first.release(counts)

    def discover(self, votes: Mapping[bytes, int]) -> list[bytes]:
        """Return the values that stand out in a part of the first window that nothing else reads."""
        self._only_once(self._values.windows)
        return self._values.release(votes)

    def _only_once(self, windows: int) -> None:
        if self.gate is not None or windows:
            raise BadParameter("there is one first window at most, before everything else")

    def begin_epoch(self, terms: EpochTerms, rounds: int, threshold: Threshold) -> None:
        """Set what is public of the epoch that begins; the first time, make the gate."""
        draw = self._draw(terms)
        joint = draw.joint(Cost(terms.monitor), 1)
        # What the gate and the evidence read, they both read.
        total = joint + self.evidence.cost
        if total.epsilon > self._per_round.epsilon or total.delta > self._per_round.delta:
            raise BadParameter("gate and evidence together cost more than a round may cost")
        if self.gate is None:
            self.gate = Gate(
                self._noise,
                epsilon=terms.monitor,
                schedule=CausesSchedule(rounds, threshold),
                draw=draw,
                check_every=self._check_every,
                largest_loss=self.units,
            )
        else:
            self.gate.begin_epoch(terms.monitor, draw)
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
        cost = self._per_round.for_group(self._cap or 1)
        return Guarantee.of(cost, self._noise, self.unit, self._cap)

    @property
    def ledger(self) -> tuple[PrivacyEvent, ...]:
        """Return every use of a mechanism so far."""
        noise = repr(self._noise)
        first = [PrivacyEvent("first window", self._first.cost, 0, noise)] * self._first.windows
        first += [PrivacyEvent("values", self._values.cost, 0, noise)] * self._values.windows
        evidence = [
            PrivacyEvent("evidence", self.evidence.cost, window, noise)
            for window in range(self.evidence.windows)
        ]
        return (*first, *(self.gate.ledger if self.gate else ()), *evidence)

    @property
    def spent(self) -> Cost:
        """Return what one round may have cost so far; never more than the guarantee."""
        gate = NOTHING if self.gate is None else self.gate.spent
        later = gate + (self.evidence.cost if self.evidence.windows else NOTHING)
        # The parts of the first window are disjoint too.
        first = self._values.cost if self._values.windows else NOTHING
        first = first if self._values.windows or not self._first.windows else self._first.cost
        # Disjoint rounds: the larger of the two, not the sum.
        largest = Cost(max(first.epsilon, later.epsilon), max(first.delta, later.delta))
        return largest.for_group(self._cap or 1)

    def _parameters(self) -> State:
        return {
            "epsilon": str(self._per_round.epsilon),
            "delta": str(self._per_round.delta),
            "evidence": self.evidence._parameters(),
            "units": self.units,
            "unit": self.unit,
            "cap": self._cap,
        }

    def _state_data(self) -> State:
        return {
            "first": self._first._state(),
            "values": self._values._state(),
            "evidence": self.evidence._state(),
            "terms": self.terms.to_json() if self.terms else None,
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
