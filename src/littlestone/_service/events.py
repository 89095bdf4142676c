"""The public state as clients see it, and the stream of server-sent events. All of it is public.

The id of an event is a signed position: rounds, releases, a digest of the rules, and a code that
only the learner's key can make. A subscriber that comes back with a position ahead of the store, or
with other rules, proves that the file is an old copy; a forged position proves nothing.
"""

import asyncio
import hashlib
import hmac
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any, NamedTuple

from littlestone._service.schemas import EvidenceResponse, ProgressResponse, ReleaseResponse
from littlestone._service.writer import PublicState
from littlestone._store.releases_file import release_to_json

# Seconds of silence after which a stream sends a comment, so that proxies keep it open.
HEARTBEAT = 15.0

# Seconds between two events of a stream, at least.
MIN_INTERVAL = 0.25


class StreamPosition(NamedTuple):
    """Hold how far a history was."""

    rounds: int
    releases: int
    digest: str

    def sign(self, key: bytes) -> str:
        """Return the position as the id of an event."""
        text = f"{self.rounds}-{self.releases}-{self.digest}"
        return f"{text}-{_signature(key, text)}"


def parse_position(event_id: str, key: bytes) -> StreamPosition | None:
    """Return the position in the id of an event."""
    text, _, signature = event_id.rpartition("-")
    # In constant time: a client must not learn a valid signature byte by byte.
    if not hmac.compare_digest(signature.encode(), _signature(key, text).encode()):
        return None
    rounds, releases, digest = text.split("-")
    return StreamPosition(int(rounds), int(releases), digest)


def _signature(key: bytes, text: str) -> str:
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()[:32]


class EventHub:
    """Hold the public state in the event loop, and send its changes to the subscribers."""

    def __init__(self, state: PublicState, key: bytes, label: str) -> None:
        self._key, self._label = key, label
        self._changed = asyncio.Event()
        self.releases: list[ReleaseResponse] = []
        self._digests = [""]
        self.closed = False
        self.stale = False
        self.state = state
        self._add_releases(None)

    def publish(self, state: PublicState) -> None:
        """Publish a state. It must be on disk."""
        self.state = state
        if len(state.published.releases) > len(self.releases):
            self._add_releases(datetime.now(UTC).isoformat(timespec="seconds"))
        self._wake()

    def close(self) -> None:
        """End every stream."""
        self.closed = True
        self._wake()

    def _wake(self) -> None:
        # A new event for the next change: one that was cleared could be missed by a slow stream.
        waiting, self._changed = self._changed, asyncio.Event()
        waiting.set()

    def _add_releases(self, since: str | None) -> None:
        """Add the new releases, with the time at which they came, if this process knows it."""
        # Releases are only ever appended, so those with a higher number are the new ones.
        for release in self.state.published.releases[len(self.releases) :]:
            number = len(self.releases) + 1
            self.releases.append(
                ReleaseResponse(number=number, since=since, **release_to_json(release))
            )
            line = json.dumps([self._digests[-1], release.round, release.rule.to_json()])
            self._digests.append(hashlib.sha256(line.encode()).hexdigest()[:16])

    @property
    def position(self) -> StreamPosition:
        """Return how far the history is."""
        return StreamPosition(self.state.published.rounds, len(self.releases), self._digests[-1])

    def contradicts(self, event_id: str) -> bool:
        """Return whether an id proves that the store is an old copy."""
        seen = parse_position(event_id, self._key)
        if seen is None:
            return False
        if seen.rounds > self.state.published.rounds or seen.releases > len(self.releases):
            return True
        return self._digests[seen.releases] != seen.digest

    def releases_seen(self, event_id: str) -> int:
        """Return how many releases a client with this id has seen; all of them for a bad id."""
        seen = parse_position(event_id, self._key)
        return len(self.releases) if seen is None else min(seen.releases, len(self.releases))

    def progress(self) -> ProgressResponse:
        """Return how far the stream is, and what it has cost."""
        published, spent = self.state
        return ProgressResponse(
            rounds=published.rounds,
            releases=len(self.releases),
            spent=published.spent,
            spent_epsilon=float(spent.epsilon),
            spent_delta=float(spent.delta),
            final=published.final,
        )

    def evidence(self) -> EvidenceResponse:
        """Return the evidence as it was committed; without causes for a learner that has none."""
        found = self.state.published.evidence
        if found is None:
            found = dict.fromkeys(("min_rate", "base_rate", "base_low", "base_high", "causes"))
            found |= {"counted_to": 0, "costs": []}
        return EvidenceResponse(label=self._label, **found)

    async def stream(self, seen: int) -> AsyncIterator[bytes]:
        """Yield the releases from number `seen` + 1 on, evidence that is new, and the progress."""
        yield b"retry: 2000\n\n"
        sent = None
        while True:
            changed = self._changed
            for release in self.releases[seen:]:
                yield _event("release", release.to_json())
            seen = len(self.releases)
            # Before the progress: some clients close the stream once they have that.
            evidence = self.state.published.evidence
            if evidence != sent:
                sent = evidence
                yield _event("evidence", self.evidence().to_json())
            # A stale store sends no ids: a subscriber keeps the one that proves it to be stale.
            event_id = None if self.stale else self.position.sign(self._key)
            yield _event("rounds", self.progress().to_json(), event_id)
            if self.closed:
                return
            await asyncio.sleep(MIN_INTERVAL)
            while not changed.is_set():
                try:
                    await asyncio.wait_for(changed.wait(), HEARTBEAT)
                except TimeoutError:
                    yield b": still here\n\n"


def _event(name: str, data: dict[str, Any], event_id: str | None = None) -> bytes:
    head = f"event: {name}\n" if event_id is None else f"event: {name}\nid: {event_id}\n"
    return f"{head}data: {json.dumps(data)}\n\n".encode()
