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

from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import Any, NamedTuple, TypeVar

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


class _Job(NamedTuple):
    """A batch, which may be committed with others, or something else to do with the store."""

    task: KeyedBatch | Callable[[Store], Any]
    result: "Future[Any]"

    @property
    def is_batch(self) -> bool:
        return isinstance(self.task, KeyedBatch)


class Writer:
    """Do all work on a store in one thread."""

    def __init__(
        self,
        store: Store,
        reopen: Callable[[int], Store],
        publish: Callable[[PublicState], None],
        call: Callable[[Callable[[], None]], object],
    ) -> None:
        self._store: Store | None = store
        self._generation = store.generation
        self._reopen, self._publish, self._call = reopen, publish, call
        # What is on disk, and not published yet.
        self._state: PublicState | None = None
        self._stopped, self._stopping = False, Lock()
        self._marked_old = self._is_lost = False
        # Not a condition: whoever is woken by one has to wait again, for the lock of the waker.
        # None is the last entry.
        self._queue: SimpleQueue[_Job | None] = SimpleQueue()
        # What was taken out of the queue and is not of the same kind as the jobs before it.
        self._held: _Job | None = None
        self._thread = Thread(target=self._run, name="writer", daemon=True)
        self.commits, self.failures = commit_seconds(), 0
        # Why nothing is written any more, for good; None if the writer works.
        self.closed: str | None = None
        # Why nothing can be written at the moment; None if it can.
        self.error: str | None = None

    @property
    def queued(self) -> int:
        """Return how many jobs wait. Private: how long one takes depends on rows."""
        return self._queue.qsize()

    @property
    def problem(self) -> str | None:
        """Return why rounds are not accepted; None if they are."""
        if self.closed or self.error:
            return self.closed or self.error
        return None if self._thread.is_alive() and not self._stopped else STOPPING

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Finish what is queued, close the store, and end the thread."""
        with self._stopping:
            if not self._stopped:
                self._stopped = True
                self._queue.put(None)
        self._thread.join()

    def mark_old_copy(self, why: str) -> None:
        """Write no more batches, and mark the file as an old copy."""
        self.closed = self.closed or why  # the first reason stands
        self._enqueue(self._mark_file)

    def learn(self, block: Rounds, key: str | None, digest: bytes) -> "Future[Receipt]":
        """Learn a block of rows."""
        return self._enqueue(KeyedBatch(block, key, digest))

    def learn_source(self, block: Rounds, source: Source) -> "Future[Receipt]":
        """Learn rows of a source, in one transaction with how far it is learned then."""

        def learn(store: Store) -> Receipt:
            self._refuse_if_closed()
            with self.commits.time():
                return store.learn(block, source=source)

        return self._enqueue(learn)

    def sources(self) -> "Future[tuple[list[Source], int]]":
        """Return how far each source is learned, and the number of rounds, as committed."""
        return self._enqueue(lambda store: (store.sources(), store.published.rounds))

    def inspect(self, function: Callable[[PrivateLearner], T]) -> "Future[T]":
        """Call a function on the learner between two commits."""
        return self._enqueue(lambda store: function(store.learner))

    def _enqueue(self, task: KeyedBatch | Callable[[Store], Any]) -> "Future[Any]":
        result: Future[Any] = Future()
        # Under the lock, so that nothing is queued behind the last entry.
        with self._stopping:
            if not self._stopped:
                self._queue.put(_Job(task, result))
                return result
        result.set_exception(unavailable(STOPPING))
        return result

    def _run(self) -> None:
        while jobs := self._next_jobs():
            # A job whose client has gone is dropped; once begun it cannot be cancelled any more.
            begun = [job for job in jobs if job.result.set_running_or_notify_cancel()]
            if begun:
                self._finish(begun)
        if self._store is not None:
            self._store.close()

    def _next_jobs(self) -> list[_Job]:
        """Wait for work; return one job, or several batches to commit together. None at the end."""
        first, self._held = self._held or self._queue.get(), None
        if first is None:
            return []
        jobs = [first]
        while first.is_batch and len(jobs) < MAX_GROUP:
            try:
                job = self._queue.get_nowait()
            except Empty:
                break
            if job is None:  # the last entry stays the last
                self._queue.put(None)
                break
            if not job.is_batch:
                self._held = job
                break
            jobs.append(job)
        return jobs

    def _finish(self, jobs: list[_Job]) -> None:
        """Do some jobs, and have their results set."""
        before = None if self._store is None else self._store.published.rounds
        try:
            results = self._do(jobs)
        except Exception as error:
            refusal = self._recover(error)
            after = None if self._store is None else self._store.published.rounds
            if len(jobs) > 1 and before is not None and after == before:
                for job in jobs:  # nothing was written: one batch may have failed the others
                    self._finish([job])
                return
            if before is not None and after is not None and after > before:
                refusal = unavailable(WRITTEN)
            results = [refusal] * len(jobs)
        # One call for all: each wakes the other thread, and makes this one wait for it.
        self._call(partial(self._answer, jobs, results, self._state))
        self._state = None

    def _answer(self, jobs: list[_Job], results: list[Any], state: PublicState | None) -> None:
        """Publish a state, and set the results of jobs; in the thread of those who wait."""
        if state is not None:
            try:
                self._publish(state)
            except Exception as error:
                # The batches are on disk, and their clients wait: the next commit publishes more.
                # Logged here: the event loop would log the arguments, which hold rows.
                LOG.error("a state was not published: %s", describe_error(error))
        for job, result in zip(jobs, results, strict=True):
            if isinstance(result, KeyConflict):
                job.result.set_exception(Refused(409, str(result)))
            elif isinstance(result, Refused):
                job.result.set_exception(result)
            else:
                job.result.set_result(result)

    def _do(self, jobs: list[_Job]) -> list[Any]:
        store = self._opened_store()
        published = store.published
        task = jobs[0].task
        if isinstance(task, KeyedBatch):
            self._refuse_if_closed()
            with self.commits.time():
                batches = [job.task for job in jobs if isinstance(job.task, KeyedBatch)]
                results = list(store.learn_all(batches))
        else:
            results = [task(store)]
        # Only after the commit inside: nothing is published that is not on disk.
        if store.published is not published:
            self._state = PublicState(store.published, store.published_spent)
        return results

    def _refuse_if_closed(self) -> None:
        if self.closed is not None:
            raise unavailable(self.closed)

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
        if isinstance(error, Refused):
            return error
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
            store = self._reopen(self._generation)
        except StoreLost as error:
            raise self._lost(error) from None
        except Exception as error:
            self.error = f"the file cannot be opened ({type(error).__name__})"
            raise unavailable(NOT_WRITTEN, RETRY_SECONDS) from None
        self._store, self._generation, self.error = store, store.generation, None
        self._state = PublicState(store.published, store.spent)
        return store


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
