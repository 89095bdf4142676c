"""Record a bounded history of a run, for the data owner. Private.

However long the stream, a trace holds at most `most` samples, spread over all of it, the first and
the last among them. It is deterministic: the same samples in, the same samples kept.
"""

from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

from littlestone._hypotheses.rules import Hypothesis

# The default number of samples of a trace.
MOST_SAMPLES = 2_000

# The most rules in a sample's votes.
TOP = 8


class Sample(NamedTuple):
    """Hold what the data owner may see after `round` rounds. Private, so it does not print.

    Of a learner of causes, `mistakes` is what they cost: see `PrivateCauses.cost`.
    """

    round: int
    mistakes: int
    votes: tuple[tuple[Hypothesis, int], ...]

    def __repr__(self) -> str:
        return f"Sample(round={self.round}, private)"


Place: TypeAlias = tuple[bool, int]


class Entry(NamedTuple):
    """Hold a sample of a trace."""

    sample: Sample
    keep: bool
    number: int

    @property
    def place(self) -> Place:
        """Return what identifies the entry."""
        return self.keep, self.number


class Thinned(NamedTuple):
    """Hold the changes of a trace."""

    gone: tuple[Place, ...]
    new: tuple[Entry, ...]


class Trace:
    """Hold at most `most` samples."""

    def __init__(self, most: int = MOST_SAMPLES) -> None:
        if most < 4:
            raise ValueError(f"most={most} is too small: a trace holds at least 4 samples")
        self.most = most
        self._entries: list[Entry] = []
        self._gone: list[Place] = []
        self._new: dict[Place, Entry] = {}
        self._counts = {False: 0, True: 0}
        self._strides = {False: 1, True: 1}

    def __repr__(self) -> str:
        return f"Trace(samples={len(self._entries)}, private)"

    @property
    def samples(self) -> tuple[Sample, ...]:
        """Return what is kept, in order; the last sample is always there."""
        return tuple(entry.sample for entry in self._entries)

    @property
    def last_round(self) -> int:
        """Return the round of the last sample; 0 if there is none."""
        return self._entries[-1].sample.round if self._entries else 0

    def unsaved(self) -> "Thinned":
        """Return what was added and dropped since the last call."""
        found = Thinned(tuple(self._gone), tuple(self._new.values()))
        self._gone, self._new = [], {}
        return found

    def get_state(self) -> dict[str, list[int]]:
        """Return the state beside the entries."""
        return {"counts": [*self._counts.values()], "strides": [*self._strides.values()]}

    def load_state(self, live: dict[str, list[int]], entries: Iterable[Entry]) -> None:
        """Load a saved trace."""
        self._entries = list(entries)
        self._counts = dict(zip((False, True), live["counts"], strict=True))
        self._strides = dict(zip((False, True), live["strides"], strict=True))

    def add(self, sample: Sample, keep: bool = False) -> None:
        """Add a sample."""
        if self._entries:
            last = self._entries[-1]
            if sample.round < last.sample.round:
                raise ValueError(
                    f"sample of round {sample.round} after that of round {last.sample.round}: "
                    "samples must be in order"
                )
            # The last sample is always held, also where the stride would drop it, until the next
            # one comes.
            if not self._stays(last):
                self._drop(self._entries.pop())
        entry = Entry(sample, keep, self._counts[keep])
        self._entries.append(entry)
        self._new[entry.place] = entry
        self._counts[keep] += 1
        while len(self._entries) > self.most:
            self._thin()

    def _stays(self, entry: Entry) -> bool:
        return entry.number % self._strides[entry.keep] == 0

    def _thin(self) -> None:
        # Doubling keeps samples evenly spread over the whole stream.
        self._strides[False] *= 2
        # Firings are spared unless there are so many that they fill the trace by themselves.
        if sum(entry.keep for entry in self._entries) > self.most // 2:
            self._strides[True] *= 2
        *others, last = self._entries
        for entry in others:
            if not self._stays(entry):
                self._drop(entry)
        self._entries = [*filter(self._stays, others), last]

    def _drop(self, entry: Entry) -> None:
        if self._new.pop(entry.place, None) is None:
            self._gone.append(entry.place)
