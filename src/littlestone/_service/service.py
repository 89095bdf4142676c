"""A learner that is served: its parts, its public state, and the stream of server-sent events.

The id of an event is a signed position: rounds, releases, a digest of the rules, and a code that
only the learner's key can make. A subscriber that comes back with a position ahead of the store, or
with other rules, proves that the file is an old copy; a forged position proves nothing.
"""

import asyncio
import hashlib
import hmac
import json
import os
import time
from collections import Counter
from collections.abc import AsyncIterator
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime
from threading import get_ident
from typing import Any, NamedTuple, TypeVar

from littlestone._display import library_version
from littlestone._report.alerts import Alerts
from littlestone._service.bodies import Waits
from littlestone._service.limits import ConcurrencyLimit, Limits, RateLimit, unavailable
from littlestone._service.operations import AuditLog
from littlestone._service.tokens import Tokens
from littlestone._service.writer import PublicState, TopicFeeder, Writer
from littlestone._store.releases_file import release_to_json
from littlestone._store.store import Store

T = TypeVar("T")
# Large bodies to `/predict` that are parsed or wait for it: in all, and of one address.
MAX_PREDICTIONS, MAX_PREDICTIONS_EACH = 16, 4
# Seconds of silence after which a stream sends a comment, so that proxies keep it open; and seconds
# between two events of a stream, at least.
HEARTBEAT, MIN_INTERVAL = 15.0, 0.25
UNWRITABLE = "the file of the learner, or its folder, cannot be written to"
STOPPED = (
    "the service is stopping, and it is unknown whether the batch was learned: send it again, with "
    "the same key"
)


class Service:
    """Hold the parts of a running service."""

    def __init__(
        self,
        store: Store,
        tokens: Tokens,
        limits: Limits,
        *,
        feeder: TopicFeeder | None = None,
        audit: AuditLog | None = None,
        alerts: Alerts | None = None,
    ) -> None:
        self.tokens, self.limits, self.feeder, self.audit = tokens, limits, feeder, audit
        self.alerts = alerts
        # Read here: from the start of the writer on, the store belongs to its thread.
        self.path, self.run, self.config = store.path, store.run, store.about
        terms = store.about.terms
        self.schema = terms.schema(store.cls)
        self.events = EventHub(PublicState(store.published, store.spent), store.key, terms.label)
        call = asyncio.get_running_loop().call_soon_threadsafe
        self.writer = Writer(store, self.publish, call)
        self.rate_limit = RateLimit(limits.rate)
        self.batches = ConcurrencyLimit(limits.queue, "batches under way")
        self.watchers = ConcurrencyLimit(
            limits.watchers, "streams of events", each=limits.watchers_each
        )
        self.predictions = ConcurrencyLimit(
            MAX_PREDICTIONS, "predictions under way", each=MAX_PREDICTIONS_EACH
        )
        # Threads of their own: predictions, which anybody may request, hold up no batch.
        self.batch_threads = ThreadPoolExecutor(2, "batches")
        self.prediction_threads = ThreadPoolExecutor(1, "predictions")
        self.receiving, self._waiting = Waits(), set[asyncio.Future[None]]()
        self.requests: Counter[tuple[str, int]] = Counter()
        self.started = time.time()

    def start(self) -> None:
        """Log the start, and read the topic, if there is one."""
        if self.audit is not None:
            self.audit.event("start", run=self.run, version=library_version())
        if self.feeder is not None:
            self.feeder.feed(self.writer, self.run)

    def publish(self, state: PublicState) -> None:
        """Publish a state, which must be on disk, to subscribers and receivers of alerts."""
        self.events.publish(state)
        if self.alerts is not None:
            self.alerts.publish(state.published)

    def close(self) -> None:
        """Begin to stop: end the streams of events, and drop bodies of which a part has come."""
        self.events.close()
        self.receiving.end()

    async def stop(self) -> None:
        """Finish what the writer has, and close the store."""
        self.close()
        if self.feeder is not None:
            await asyncio.to_thread(self.feeder.end)
        for pool in (self.batch_threads, self.prediction_threads):
            pool.shutdown(wait=False, cancel_futures=True)
        await asyncio.to_thread(self.writer.stop)
        if self.alerts is not None:
            await asyncio.to_thread(self.alerts.close)
        if self.audit is not None:
            self.audit.event("stop", run=self.run)

    async def wait_for(self, future: "Future[T]") -> T:
        """Wait for a result of the writer. A job that was not begun is dropped if nobody waits."""
        loop, thread = asyncio.get_running_loop(), get_ident()
        waiting: asyncio.Future[None] = loop.create_future()

        def wake() -> None:
            if not waiting.done():
                waiting.set_result(None)

        def done(_: "Future[T]") -> None:
            # Receipts come in this thread, which `wrap_future` would wake once more for each.
            if get_ident() == thread:
                wake()
            elif not loop.is_closed():
                loop.call_soon_threadsafe(wake)

        future.add_done_callback(done)
        self._waiting.add(waiting)
        try:
            await waiting
        finally:
            self._waiting.discard(waiting)
            future.cancel()  # what was begun goes on
        return future.result()

    def end_waits(self) -> None:
        """Refuse all requests that wait for the writer."""
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_exception(unavailable(STOPPED))

    @property
    def problem(self) -> str | None:
        """Return why rounds cannot be accepted, or a topic is not read; None if all is well."""
        topic_error = None if self.feeder is None else self.feeder.error
        if problem := self.writer.problem or topic_error:
            return problem
        writable = (os.access(path, os.W_OK) for path in (self.path, self.path.parent))
        return None if all(writable) else UNWRITABLE


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
    """Hold the public state in the event loop as JSON data, and send its changes to subscribers."""

    def __init__(self, state: PublicState, key: bytes, label: str) -> None:
        self._key, self._label = key, label
        self._changed = asyncio.Event()
        self.releases: list[dict[str, Any]] = []
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
            self.releases.append({"number": number, **release_to_json(release), "since": since})
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

    def progress(self) -> dict[str, Any]:
        """Return how far the stream is, and what it has cost."""
        published, spent = self.state
        return {
            "rounds": published.rounds,
            "releases": len(self.releases),
            "spent": published.spent,
            "spent_epsilon": float(spent.epsilon),
            "spent_delta": float(spent.delta),
            "final": published.final,
        }

    def evidence(self) -> dict[str, Any]:
        """Return the evidence as it was committed; without causes for a learner that has none."""
        evidence = self.state.published.evidence
        if evidence is None:
            unknown = (
                "rate_to_beat",
                "why_that_rate",
                "base_rate",
                "base_low",
                "base_high",
                "over_time",
                "causes",
            )
            evidence = dict.fromkeys(unknown) | {"counted_to": 0, "costs": [], "remarks": []}
        return {"label": self._label, **evidence}

    async def stream(self, seen: int) -> AsyncIterator[bytes]:
        """Yield the releases from number `seen` + 1 on, evidence that is new, and the progress."""
        yield b"retry: 2000\n\n"
        sent = None
        while True:
            changed = self._changed
            for release in self.releases[seen:]:
                yield _event("release", release)
            seen = len(self.releases)
            # Before the progress: some clients close the stream once they have that.
            evidence = self.state.published.evidence
            if evidence != sent:
                sent = evidence
                yield _event("evidence", self.evidence())
            # A stale store sends no ids: a subscriber keeps the one that proves it to be stale.
            event_id = None if self.stale else self.position.sign(self._key)
            yield _event("rounds", self.progress(), event_id)
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
