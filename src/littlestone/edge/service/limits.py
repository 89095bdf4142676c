"""Limits: how much a client may ask for, and how often."""

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from littlestone.edge.service.refusals import Refused, unavailable
from littlestone.privacy.exact import BadParameter


@dataclass(frozen=True)
class Limits:
    """What is refused: 413 for `body` (bytes) and `rows`, 422 for `fields` (of a row), 429 for
    `rate` (requests a second of one client), 503 for `queue` (batches under way) and `watchers`
    (subscribers to events), 408 for `patience` (seconds that a body may take)."""

    body: int = 8 << 20
    rows: int = 100_000
    fields: int = 1_000
    rate: float = 500.0
    queue: int = 64
    watchers: int = 200
    patience: float = 30.0

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not value > 0:
                raise BadParameter(f"the limit on {name} is above 0, not {value}")


class Pace:
    """A bucket of requests for each client: it fills at `rate` a second, and holds one second's.

    >>> now = [0.0]
    >>> pace = Pace(2, clock=lambda: now[0])
    >>> pace.wait("a"), pace.wait("a"), pace.wait("a"), pace.wait("b")
    (0.0, 0.0, 0.5, 0.0)
    """

    MOST = 10_000
    """Clients that are remembered; the longest known is forgotten first."""

    def __init__(self, rate: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.rate, self._clock = rate, clock
        self._left: dict[str, tuple[float, float]] = {}

    def wait(self, client: str) -> float:
        """Take a request out of a client's bucket; else the seconds until there is one."""
        now, room = self._clock(), max(1.0, self.rate)
        left, then = self._left.pop(client, (room, now))
        left = min(room, left + (now - then) * self.rate)
        wait = 0.0 if left >= 1 else (1 - left) / self.rate
        self._left[client] = (left if wait else left - 1), now
        if len(self._left) > self.MOST:
            del self._left[next(iter(self._left))]
        return wait

    def check(self, client: str) -> None:
        """Refuse a client that asks too often."""
        if wait := self.wait(client):
            raise Refused(
                429,
                f"too many requests: there may be {self.rate:g} a second",
                headers={"Retry-After": str(math.ceil(wait))},
            )


class Places:
    """So many at a time; one more is told to come back."""

    def __init__(self, most: int, what: str) -> None:
        self.most, self.what, self.taken = most, what, 0

    @contextmanager
    def one(self) -> Iterator[None]:
        """Hold a place, or be refused."""
        self.take()
        try:
            yield
        finally:
            self.leave()

    def take(self) -> None:
        """Take a place, to be left with `leave`."""
        if self.taken >= self.most:
            raise unavailable(f"there are {self.most} {self.what} already: try again", 1)
        self.taken += 1

    def leave(self) -> None:
        """Give a place back."""
        self.taken -= 1
