"""The writer: the one thread that uses the store, and a queue in front of it.

Promises: what is answered is on disk; what is published was on disk before. Batches that wait are
committed together: a disk takes as long for one as for several. When a commit fails the
learner in memory is dead, and the store is opened again from the last commit. When somebody else
has opened the file, or it is no longer where it was, or it has turned out to be an old copy,
nothing is written any more, for good. That it is an old copy the file then says itself.
"""

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from threading import Condition, Thread
from typing import Any, NamedTuple, TypeVar

from littlestone.data.blocks import Block
from littlestone.learners.base import PrivateLearner
from littlestone.privacy.accounting import Cost
from littlestone.service.limits import Refused, unavailable
from littlestone.store.store import (
    KeyConflict,
    KeyedBatch,
    Published,
    Receipt,
    Store,
    StoreLost,
    StoreMoved,
)

T = TypeVar("T")
RETRY = 5
"""Seconds after which to try again what failed."""

TOGETHER = 32
"""The most batches of one commit."""

FAILED = "what was sent could not be written: none of it is learned. Try again, with the same key"
WRITTEN = (
    "an error came after this was written: it is learned. With the same key it can be sent again, "
    "without a key it would be learned twice"
)
TAKEN = "another process has opened the file of this learner: this one writes no more, for good"
DISPLACED = (
    "the file of this learner was moved, removed or replaced: this one writes no more, for good. "
    "Put it back as it was, and start the service again"
)
STORE_CLOSING = "the service is stopping: this was not learned. Try again, with the same key"


class PublicState(NamedTuple):
    """The public side after a commit, and what the ledger adds up to then."""

    published: Published
    spent: Cost


class _Work(NamedTuple):
    """A batch to learn, a look at the learner, or word that the file is an old copy (None)."""

    what: KeyedBatch | Callable[[PrivateLearner], Any] | None
    answer: "Future[Any]"


class Writer:
    """Does one job at a time with a store. `publish` is told the public side after every commit,
    in the writer's thread; `reopen` opens the store again if it is still the one of a generation.
    """

    def __init__(
        self,
        store: Store,
        reopen: Callable[[int], Store],
        publish: Callable[[PublicState], None],
    ) -> None:
        self._store: Store | None = store
        self._generation = store.generation
        self._reopen, self._publish = reopen, publish
        self._stopped, self._marked, self._ready = False, False, Condition()
        self._waiting: deque[_Work] = deque()
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
        with self._ready:
            self._stopped = True
            self._ready.notify()
        self._thread.join()

    def end(self, why: str) -> None:
        """Write no more, for good; the first reason stands."""
        self.over = self.over or why

    def condemn(self, why: str) -> None:
        """Write no more, for good, as the file is an old copy; and have it say so."""
        self.end(why)
        self._put(None)

    def learn(self, block: Block, key: str | None, digest: bytes) -> "Future[Receipt]":
        """Have a block learned. The receipt is for what is on disk."""
        return self._put(KeyedBatch(block, key, digest))

    def look(self, see: Callable[[PrivateLearner], T]) -> "Future[T]":
        """Look at the learner between two commits."""
        return self._put(see)

    def _put(self, what: KeyedBatch | Callable[[PrivateLearner], Any] | None) -> "Future[Any]":
        answer: Future[Any] = Future()
        with self._ready:
            if not self._stopped:
                self._waiting.append(_Work(what, answer))
                self._ready.notify()
                return answer
        answer.set_exception(unavailable(STORE_CLOSING))
        return answer

    def _run(self) -> None:
        while works := self._next():
            begun = [work for work in works if work.answer.set_running_or_notify_cancel()]
            if begun:
                self._do(begun)
        if self._store is not None:
            self._store.close()

    def _next(self) -> list[_Work]:
        """What is to be done now: a look, or the batches that wait. Nothing at the end."""
        with self._ready:
            self._ready.wait_for(lambda: self._waiting or self._stopped)
            works: list[_Work] = []
            while self._waiting and len(works) < TOGETHER:
                if works and not _are_batches(works[0], self._waiting[0]):
                    break
                works.append(self._waiting.popleft())
            return works

    def _do(self, works: list[_Work]) -> None:
        before = None if self._store is None else self._store.published.rounds
        try:
            found = self._done(works)
        except Exception as error:
            refusal = self._told(error)
            after = None if self._store is None else self._store.published.rounds
            if len(works) > 1 and before is not None and after == before:
                for work in works:  # one of them may have spoilt it for the others
                    self._do([work])
                return
            if before is not None and after is not None and after > before:
                refusal = unavailable(WRITTEN)
            found = [refusal] * len(works)
        for work, one in zip(works, found, strict=True):
            if isinstance(one, KeyConflict):
                work.answer.set_exception(Refused(409, str(one)))
            elif isinstance(one, Refused):
                work.answer.set_exception(one)
            else:
                work.answer.set_result(one)

    def _done(self, works: list[_Work]) -> list[Any]:
        if works[0].what is None:
            self._mark_old_copy()
            return [None]
        store = self._opened()
        batches = [work.what for work in works if isinstance(work.what, KeyedBatch)]
        if not batches:
            return [work.what(store.learner) for work in works if callable(work.what)]
        if self.over is not None:
            raise unavailable(self.over)
        found = store.learn_all(batches)
        self._publish(PublicState(store.published, store.spent))
        return list(found)

    def _mark_old_copy(self) -> None:
        """Have the file say that it is an old copy, unless it is not ours to judge any more."""
        if self._marked:
            return
        try:
            self._store = self._store or self._reopen(self._generation)
            self._store.condemn()
        except StoreLost:
            # Whoever holds the file now is ahead of us, so that somebody has seen more proves
            # nothing: that it was taken is the reason to tell.
            self.over = None
            raise
        self._marked = True

    def _told(self, error: Exception) -> Refused:
        """What a client hears of a failure; the store is made whole again if it can be."""
        if isinstance(error, Refused):
            return error
        self._drop()
        if isinstance(error, StoreLost):
            return self._ended(error)
        self.trouble = f"a commit failed ({type(error).__name__})"
        try:
            self._opened()
        except Refused as refusal:
            return refusal
        return unavailable(FAILED, RETRY)

    def _ended(self, error: StoreLost) -> Refused:
        why = DISPLACED if isinstance(error, StoreMoved) else TAKEN
        self.end(why)
        return unavailable(why)

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
        except StoreLost as error:
            raise self._ended(error) from None
        except Exception as error:
            self.trouble = f"the file cannot be opened ({type(error).__name__})"
            raise unavailable(FAILED, RETRY) from None
        self._store, self._generation, self.trouble = store, store.generation, None
        self._publish(PublicState(store.published, store.spent))
        return store


def _are_batches(*works: _Work) -> bool:
    return all(isinstance(work.what, KeyedBatch) for work in works)
