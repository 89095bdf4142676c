"""The writer: the one thread that uses the store, and a queue in front of it.

Promises: what is answered is on disk; what is published was on disk before. When a commit fails the
learner in memory is dead, and the store is opened again from the last commit. When somebody else
has opened the file, or it has turned out to be an old copy, nothing is written any more, for good.
"""

import queue
from collections.abc import Callable
from concurrent.futures import Future
from threading import Lock, Thread
from typing import Any, NamedTuple, TypeVar

from littlestone.edge.about import BadStore
from littlestone.edge.blocks import Block
from littlestone.edge.service.refusals import Refused, unavailable
from littlestone.edge.store import Published, Receipt, Store, Taken
from littlestone.privacy.accounting import Cost

T = TypeVar("T")
RETRY = 5
"""Seconds after which to try again what failed."""

FAILED = "what was sent could not be written: none of it is learned. Try again, with the same key"
TAKEN = "another process has opened the file of this learner: this one writes no more, for good"
STOPPING = "the service is stopping: this was not learned. Try again, with the same key"


class Public(NamedTuple):
    """The public side after a commit, and what the ledger adds up to then."""

    published: Published
    spent: Cost


class _Work(NamedTuple):
    job: Callable[[Store], Any]
    answer: "Future[Any]"


class Writer:
    """Does one job at a time with a store. `publish` is told the public side after every commit,
    in the writer's thread; `reopen` opens the store again if it is still the one of a generation.
    """

    def __init__(
        self,
        store: Store,
        reopen: Callable[[int], Store],
        publish: Callable[[Public], None],
    ) -> None:
        self._store: Store | None = store
        self._generation = store.generation
        self._reopen, self._publish = reopen, publish
        self._stopped, self._lock = False, Lock()
        self._queue: queue.SimpleQueue[_Work | None] = queue.SimpleQueue()
        self._thread = Thread(target=self._run, name="writer", daemon=True)
        self.over: str | None = None
        """Why nothing is written any more, for good."""
        self.trouble: str | None = None
        """Why nothing can be written at the moment."""

    def start(self) -> None:
        """Begin to work."""
        self._thread.start()

    def stop(self) -> None:
        """Finish what is queued, let go of the store, and end."""
        with self._lock:
            self._stopped = True
            self._queue.put(None)
        self._thread.join()

    def end(self, why: str) -> None:
        """Write no more, for good; the first reason stands."""
        self.over = self.over or why

    def learn(self, block: Block, key: str | None, digest: bytes) -> "Future[Receipt]":
        """Have a block learned. The receipt is for what is on disk."""

        def job(store: Store) -> Receipt:
            if self.over is not None:
                raise unavailable(self.over)
            receipt = store.learn(block, key=key, digest=digest)
            self._publish(Public(store.published, store.learner.spent))
            return receipt

        return self._put(job)

    def look(self, see: Callable[[Any], T]) -> "Future[T]":
        """Look at the learner between two batches."""
        return self._put(lambda store: see(store.learner))

    def _put(self, job: Callable[[Store], T]) -> "Future[T]":
        answer: Future[T] = Future()
        with self._lock:
            if not self._stopped:
                self._queue.put(_Work(job, answer))
                return answer
        answer.set_exception(unavailable(STOPPING))
        return answer

    def _run(self) -> None:
        while (work := self._queue.get()) is not None:
            if work.answer.set_running_or_notify_cancel():
                self._do(work)
        if self._store is not None:
            self._store.close()

    def _do(self, work: _Work) -> None:
        try:
            work.answer.set_result(work.job(self._opened()))
        except Exception as error:
            work.answer.set_exception(self._told(error))

    def _told(self, error: Exception) -> Refused:
        """What a client hears of a failure; the store is made whole again if it can be."""
        if isinstance(error, Refused):
            return error
        if isinstance(error, BadStore):
            return Refused(409, str(error))
        self._drop()
        if isinstance(error, Taken):
            self.end(TAKEN)
            return unavailable(TAKEN)
        self.trouble = f"a commit failed ({type(error).__name__})"
        try:
            self._opened()
        except Refused as refusal:
            return refusal
        return unavailable(FAILED, RETRY)

    def _drop(self) -> None:
        if self._store is not None:
            self._store.close()
            self._store = None

    def _opened(self) -> Store:
        """The store, opened again if need be; never taken back from another process."""
        if self._store is not None:
            return self._store
        if self.over is not None:
            raise unavailable(self.over)
        try:
            store = self._reopen(self._generation)
        except Taken:
            self.end(TAKEN)
            raise unavailable(TAKEN) from None
        except Exception as error:
            self.trouble = f"the file cannot be opened ({type(error).__name__})"
            raise unavailable(FAILED, RETRY) from None
        self._store, self._generation, self.trouble = store, store.generation, None
        self._publish(Public(store.published, store.learner.spent))
        return store
