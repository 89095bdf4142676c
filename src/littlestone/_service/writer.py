"""The writer: the one thread that uses the store, and the queue in front of it.

Promises: what is acknowledged is on disk, and what is published was on disk before. Batches that
wait are committed together, because a disk takes as long for one commit as for several. After a
failed commit the learner in memory has learned what is not on disk: it is dropped, and the store is
opened again from the last commit. When another process has opened the file, or the file was moved,
or it is an old copy, nothing is written any more. An old copy is then marked as such in the file.

A topic of Kafka is learned in the background, by a thread that queues its blocks as clients queue
theirs. A block is committed with the position that it reaches; after a failed commit the topic is
read again from the position that the store has.
"""

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from threading import Lock, Thread
from typing import NamedTuple, TypeVar

from littlestone._data.kafka import TopicRows
from littlestone._data.rounds import BadStream, Rounds
from littlestone._learners.base import PrivateLearner
from littlestone._privacy.accounting import Cost
from littlestone._service.limits import STOPPING, Refused, unavailable
from littlestone._service.operations import LOG, commit_seconds, describe_error
from littlestone._store.request import LearnRequest
from littlestone._store.sources import Source, new_messages, topic_source
from littlestone._store.store import (
    KeyConflict,
    KeyedBatch,
    Published,
    Receipt,
    Store,
    StoreLost,
    StoreMoved,
    open_store,
)

T = TypeVar("T")
# Seconds after which a client may try again what failed.
RETRY_SECONDS = 5

# The most batches of one commit, and rows of one from a topic: few enough that the batches of
# clients do not wait for long.
MAX_GROUP, BLOCK_ROWS = 32, 8192

NOT_WRITTEN = (
    "the batch could not be written, and none of it is learned: try again, with the same key"
)
WRITTEN = (
    "an error came after the batch was written: it is learned. With the same key it can be sent "
    "again, without a key it would be learned twice"
)
TAKEN = "another process has opened the file of this learner: this one writes no more, for good"
MOVED = (
    "the file of this learner was moved, removed or replaced: this one writes no more, for good. "
    "Put it back as it was, and start the service again"
)


class PublicState(NamedTuple):
    """Hold what is public after a commit."""

    published: Published
    spent: Cost


class _Waiting(NamedTuple):
    """A batch, and what its client waits for."""

    batch: KeyedBatch
    result: "Future[Receipt]"


class Writer:
    """Do all work on a store in one thread."""

    def __init__(
        self,
        store: Store,
        publish: Callable[[PublicState], None],
        call: Callable[[Callable[[], None]], object],
    ) -> None:
        self._store: Store | None = store
        self._path, self._generation = store.path, store.generation
        self._publish, self._call = publish, call
        # What is on disk, and not published yet.
        self._state: PublicState | None = None
        self._thread = ThreadPoolExecutor(1, "writer")
        self._waiting: deque[_Waiting] = deque()
        self._stopped, self._stopping = False, Lock()
        self._marked_old = self._is_lost = False
        self.commits, self.failures = commit_seconds(), 0
        # Why nothing is written any more, for good; None if the writer works.
        self.closed: str | None = None
        # Why nothing can be written at the moment; None if it can.
        self.error: str | None = None

    @property
    def queued(self) -> int:
        """Return how many batches wait. Private: how long one takes depends on rows."""
        return len(self._waiting)

    @property
    def problem(self) -> str | None:
        """Return why rounds are not accepted; None if they are."""
        return self.closed or self.error or (STOPPING if self._stopped else None)

    def stop(self) -> None:
        """Finish what waits, close the store, and end the thread."""
        with self._stopping:
            if not self._stopped:
                self._stopped = True
                self._thread.submit(self._close)
        self._thread.shutdown()

    def mark_old_copy(self, why: str) -> None:
        """Write no more batches, and mark the file as an old copy."""
        self.closed = self.closed or why  # the first reason stands
        self._submit(self._mark_file)

    def learn(self, block: Rounds, key: str | None, digest: bytes) -> "Future[Receipt]":
        """Learn a block of rows, in one commit with others that wait."""
        result: Future[Receipt] = Future()
        with self._stopping:
            if self._stopped:
                result.set_exception(unavailable(STOPPING))
            else:
                self._waiting.append(_Waiting(KeyedBatch(_arrived(block), key, digest), result))
                self._thread.submit(self._learn_waiting)
        return result

    def learn_source(self, block: Rounds, source: Source) -> "Future[Receipt]":
        """Learn rows of a source, in one transaction with how far it is learned then."""
        timed = _arrived(block)
        return self._submit(self._learning(lambda store: store.learn(timed, source=source)))

    def sources(self) -> "Future[tuple[list[Source], int]]":
        """Return how far each source is learned, and the number of rounds, as committed."""
        return self._submit(lambda store: (store.sources(), store.published.rounds))

    def inspect(self, function: Callable[[PrivateLearner], T]) -> "Future[T]":
        """Call a function on the learner between two commits."""
        return self._submit(lambda store: function(store.learner))

    def _submit(self, work: Callable[[Store], T]) -> "Future[T]":
        """Call a function on the store after what waits now."""
        with self._stopping:
            if not self._stopped:
                return self._thread.submit(self._do, work)
        refused: Future[T] = Future()
        refused.set_exception(unavailable(STOPPING))
        return refused

    # In the thread.

    def _close(self) -> None:
        if self._store is not None:
            self._store.close()

    def _do(self, work: Callable[[Store], T]) -> T:
        """Call a function on the store; what it committed is published before its result is set."""
        try:
            return self._use(work)
        finally:
            self._answer([], [])

    def _learn_waiting(self) -> None:
        """Learn batches that wait, if an earlier commit has left any."""
        waiting = [self._waiting.popleft() for _ in range(min(MAX_GROUP, len(self._waiting)))]
        # A batch whose client has gone is dropped; once begun it cannot be cancelled any more.
        if begun := [each for each in waiting if each.result.set_running_or_notify_cancel()]:
            self._learn(begun)

    def _learn(self, waiting: list[_Waiting]) -> None:
        """Learn batches in one commit, and have their results set."""
        before = self._rounds
        batches = [each.batch for each in waiting]
        results: Sequence[Receipt | KeyConflict | Refused]
        try:
            results = self._use(self._learning(lambda store: store.learn_all(batches)))
        except Refused as refusal:
            after = self._rounds
            if len(waiting) > 1 and before is not None and after == before:
                for each in waiting:  # nothing was written: one batch may have failed the others
                    self._learn([each])
                return
            is_written = before is not None and after is not None and after > before
            results = [unavailable(WRITTEN) if is_written else refusal] * len(waiting)
        self._answer(waiting, results)

    @property
    def _rounds(self) -> int | None:
        return None if self._store is None else self._store.published.rounds

    def _learning(self, work: Callable[[Store], T]) -> Callable[[Store], T]:
        """Return work that is counted as a commit, and refused once nothing is written any more."""

        def learn(store: Store) -> T:
            if self.closed is not None:
                raise unavailable(self.closed)
            with self.commits.time():
                return work(store)

        return learn

    def _use(self, work: Callable[[Store], T]) -> T:
        """Call a function on the store; raise `Refused`, with the store opened again, if it fails."""
        store = self._opened_store()
        published = store.published
        try:
            result = work(store)
        except Refused:
            raise
        except Exception as error:
            raise self._recover(error) from error
        # Only after the commit inside: nothing is published that is not on disk.
        if store.published is not published:
            self._state = PublicState(store.published, store.published_spent)
        return result

    def _answer(
        self, waiting: Sequence[_Waiting], results: Sequence[Receipt | KeyConflict | Refused]
    ) -> None:
        """Publish what was committed, then set the results, both in the thread of those who wait."""
        state, self._state = self._state, None

        def answer() -> None:
            if state is not None:
                try:
                    self._publish(state)
                except Exception as error:
                    # The batches are on disk, and their clients wait: the next commit publishes more.
                    # Logged here: the event loop would log the arguments, which hold rows.
                    LOG.error("a state was not published: %s", describe_error(error))
            for each, result in zip(waiting, results, strict=True):
                if isinstance(result, Receipt):
                    each.result.set_result(result)
                else:
                    refused = isinstance(result, Refused)
                    each.result.set_exception(result if refused else Refused(409, str(result)))

        # One call for all: each wakes the other thread, and makes this one wait for it.
        if state is not None or waiting:
            self._call(answer)

    def _mark_file(self, store: Store) -> None:
        """Mark the file as an old copy, unless another process has it."""
        if self._marked_old:
            return
        try:
            store.mark_old_copy()
        except StoreLost:
            # Whoever has the file now has published more than we know, so a client that has seen
            # more proves nothing about the file. The reason to report is that it was taken.
            self.closed = None
            raise
        self._marked_old = True

    def _recover(self, error: Exception) -> Refused:
        """Return the refusal for a failure, and open the store again if that is possible."""
        self.failures += 1
        # The learner in memory may be ahead of the disk: going on from it could publish what was
        # never committed (docs/guarantee.md, Theorem 12).
        if self._store is not None:
            self._store.close()
            self._store = None
        if isinstance(error, StoreLost):
            return self._lost(error)
        self.error = f"a commit failed ({type(error).__name__})"
        try:
            self._opened_store()
        except Refused as refusal:
            return refusal
        return unavailable(NOT_WRITTEN, RETRY_SECONDS)

    def _lost(self, error: StoreLost) -> Refused:
        why = MOVED if isinstance(error, StoreMoved) else TAKEN
        self.closed, self._is_lost = self.closed or why, True
        return unavailable(why)

    def _opened_store(self) -> Store:
        """Return the store, opened again if need be; never taken back from another process."""
        if self._store is not None:
            return self._store
        if self._is_lost:
            raise unavailable(self.closed or TAKEN)
        try:
            store = open_store(self._path, after=self._generation)
        except StoreLost as error:
            raise self._lost(error) from None
        except Exception as error:
            self.error = f"the file cannot be opened ({type(error).__name__})"
            raise unavailable(NOT_WRITTEN, RETRY_SECONDS) from None
        self._store, self._generation, self.error = store, store.generation, None
        self._state = PublicState(store.published, store.spent)
        return store


def _arrived(block: Rounds) -> Rounds:
    """Return rows with the time at which they came, by our clock, unless they have their own."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return replace(block, times=[now] * len(block)) if block.times is None else block


class TopicFeeder(Thread):
    """Learn the messages of a topic until it is stopped, or the horizon is reached."""

    def __init__(self, rows: TopicRows, task: LearnRequest, horizon: int) -> None:
        super().__init__(name="topic", daemon=True)
        self._rows, self._task, self._horizon = rows, task, horizon
        self._writer: Writer | None = None
        # Why nothing is read any more; None if the topic is read.
        self.error: str | None = None

    def feed(self, writer: Writer, run: str) -> None:
        """Start to feed a writer."""
        self._writer = writer
        self._rows.commit_to(run)
        self.start()

    def run(self) -> None:
        """Feed, again after a failed commit, until there is no going on."""
        assert self._writer is not None, "`feed` starts the thread"
        stop = self._rows.stop
        try:
            while not stop.is_set():
                try:
                    self._feed(self._writer)
                    return
                except Refused as refusal:
                    if self._writer.closed is not None:
                        raise BadStream(self._writer.closed) from None
                    LOG.warning("a block of the topic was not learned: %s", refusal.detail)
                    stop.wait(RETRY_SECONDS)
        except BadStream as error:
            self.error = str(error)
            LOG.error("the topic is not read any more: %s", self.error)
        except Exception as error:
            self.error = f"{self._rows.name} is not read any more: an internal error"
            LOG.error("the topic is not read any more: %s", describe_error(error))
        finally:
            self._rows.close()

    def _feed(self, writer: Writer) -> None:
        sources, rounds = writer.sources().result()
        source = topic_source(sources, self._rows, self._task, rounds=rounds)
        waiting = False
        for block, reached in new_messages(
            self._rows, source, size=BLOCK_ROWS, most=self._horizon - rounds, bad=[]
        ):
            problem = self._rows.problem if block is None else None
            if problem is not None and not waiting:
                LOG.warning("waiting for the brokers: %s", problem)
            waiting = problem is not None
            if block is not None:
                writer.learn_source(block, reached).result()
        if not self._rows.stop.is_set():
            LOG.info("the horizon is reached: the topic is not read any more")

    def end(self) -> None:
        """End the thread; what was committed stands."""
        self._rows.stop.set()
        if self.is_alive():
            self.join()
