"""A learner that is served: what the routes share, and who may do what.

The public reads rules, a feeder writes rounds, an operator sees the private data. No role includes
another: a machine that feeds need not see mistakes, and a screen that shows them cannot write.
"""

import asyncio
import os
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, TypeVar

from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from starlette.requests import HTTPConnection

from littlestone._data.schema import file_schema
from littlestone._display import library_version
from littlestone._service.bodies import Waits
from littlestone._service.events import EventHub
from littlestone._service.feed import TopicFeeder
from littlestone._service.limits import (
    ConcurrencyLimit,
    Limits,
    RateLimit,
    Refused,
    client_at,
    unavailable,
)
from littlestone._service.logs import AuditLog
from littlestone._service.tokens import ROLES, Role, TokenEntry, TokenRoles
from littlestone._service.writer import PublicState, Writer
from littlestone._store.store import Receipt, Store, open_store

T = TypeVar("T")
# Large bodies to `/predict` that are parsed or wait for it: in all, and of one address.
MAX_PREDICTIONS, MAX_PREDICTIONS_EACH = 16, 4
UNWRITABLE = "the file of the learner, or its folder, cannot be written to"
STOPPED = (
    "the service is stopping, and it is unknown whether the batch was learned: send it again, with "
    "the same key"
)


def reopen_store(path: Path, generation: int) -> Store:
    """Open a store again, unless another process has opened it since."""
    return open_store(path, after=generation)


class Service:
    """Hold the parts of a running service."""

    def __init__(
        self,
        store: Store,
        tokens: TokenRoles,
        limits: Limits,
        *,
        reopen: Callable[[Path, int], Store] = reopen_store,
        feeder: TopicFeeder | None = None,
        audit: AuditLog | None = None,
    ) -> None:
        self.tokens, self.limits, self.feeder, self.audit = tokens, limits, feeder, audit
        # Read here: from the start of the writer on, the store belongs to its thread.
        self.path, self.run, self.config = store.path, store.run, store.about
        self.guarantee, terms = store.guarantee, store.about.terms
        self.schema = file_schema(store.cls, terms.label, terms.user, terms.positive)
        self.events = EventHub(PublicState(store.published, store.spent), store.key, terms.label)
        self.writer = Writer(
            store,
            partial(reopen, store.path),
            self.events.publish,
            asyncio.get_running_loop().call_soon_threadsafe,
        )
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
        self.receiving, self.waiting = Waits(), Waits()
        self.requests: Counter[tuple[str, int]] = Counter()
        self.started = time.time()

    def start(self) -> None:
        """Start to write."""
        self.writer.start()
        if self.audit is not None:
            self.audit.event("start", run=self.run, version=library_version())
        if self.feeder is not None:
            self.feeder.feed(self.writer, self.run)

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
        if self.audit is not None:
            self.audit.event("stop", run=self.run)

    async def wait_for(self, future: "Future[T]") -> T:
        """Wait for a result that the writer sets in this thread, without blocking the event loop."""
        if not future.done():
            # Not `asyncio.wrap_future`: for a result of another thread it would wake the loop again.
            ready = asyncio.Event()
            future.add_done_callback(lambda _: ready.set())
            try:
                async with asyncio.timeout(None) as timeout:
                    with self.waiting.ending(timeout):
                        await ready.wait()
            except TimeoutError:  # the grace period of a stop is over
                future.cancel()
                raise unavailable(STOPPED) from None
            except asyncio.CancelledError:
                future.cancel()  # nobody waits: not begun, the job is dropped
                raise
        return future.result()

    @property
    def problem(self) -> str | None:
        """Return why rounds cannot be accepted, or a topic is not read; None if all is well."""
        topic_error = None if self.feeder is None else self.feeder.error
        if problem := self.writer.problem or topic_error:
            return problem
        writable = (os.access(path, os.W_OK) for path in (self.path, self.path.parent))
        return None if all(writable) else UNWRITABLE


def service_of(request: HTTPConnection) -> Service:
    """Return the service that received a request."""
    service = request.app.state.service
    assert isinstance(service, Service)
    return service


def client_of(request: HTTPConnection) -> str:
    """Return the client that the limits count a request for, if it has no token."""
    return "" if request.client is None else client_at(request.client.host)


# Roles.


@dataclass
class RequestNote:
    """Hold what was found out about a request on its way."""

    token: TokenEntry | None = None
    receipt: Receipt | None = None


# Where a request's note is kept in its scope.
NOTE = "littlestone.note"


def note_of(request: HTTPConnection) -> RequestNote:
    """Return the note of a request."""
    note = request.scope[NOTE]
    assert isinstance(note, RequestNote)
    return note


def require_role(role: Role) -> Callable[..., Awaitable[None]]:
    """Return a dependency that refuses a request without the token of a role."""
    bearer = HTTPBearer(scheme_name=role, description=ROLES[role], auto_error=False)

    async def check(
        request: Request,
        given: Annotated[HTTPAuthorizationCredentials | None, Depends(bearer)],
    ) -> None:
        token = note_of(request).token  # looked up when it came in; `given` is for OpenAPI
        if token is None:
            raise Refused(
                401,
                f"this needs the token of the {role}, as `Authorization: Bearer TOKEN`",
                headers={"WWW-Authenticate": "Bearer"},
            )
        if token.role != role:
            raise Refused(403, f"the token is that of the {token.role}, and this is for the {role}")

    return check
