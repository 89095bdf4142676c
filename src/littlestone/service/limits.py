"""Refusals: what a client is told when it does not get what it asked for. Always a sentence.

Limits: how much a client may ask for, how often, and how long it may take over it.
"""

import ipaddress
import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from littlestone.data.blocks import BadRow
from littlestone.privacy.parameters import BadParameter


class Refused(Exception):
    """An answer that is no success: a status, a sentence, and perhaps the rows that are at fault.

    >>> Refused(413, "too long").to_json()
    {'error': 'too long'}
    """

    def __init__(
        self,
        status: int,
        sentence: str,
        *,
        rows: Sequence[BadRow] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(sentence)
        self.status, self.sentence, self.rows = status, sentence, rows
        self.headers = dict(headers or {})

    def to_json(self) -> dict[str, Any]:
        """The body of the answer."""
        rows = [{"row": row.line, "error": row.sentence} for row in self.rows]
        return {"error": self.sentence} | ({"rows": rows} if rows else {})


def unavailable(sentence: str, retry: int | None = None) -> Refused:
    """The service cannot do it now; with `retry`, it may be able to after so many seconds."""
    return Refused(503, sentence, headers={} if retry is None else {"Retry-After": str(retry)})


@dataclass(frozen=True)
class Limits:
    """Hold the limits of a service; what is beyond one is refused, and nothing else is.

    Parameters
    ----------
    body, public_body
        Bytes of a body: of a feeder's, and of anybody's (413).
    rows, fields
        Rows of a body (413), fields of a row (422).
    rate
        Requests a second of one address, or of one token (429).
    queue
        Batches under way (503).
    watchers, watchers_each
        Streams of events: in all (503), and of one address (429).
    connections
        Open connections; None for as many as the process has file descriptors for, up to 1,000.
        One address may have a quarter. One more is closed at once.
    head_timeout, idle_timeout, body_timeout
        Seconds for the whole head of a request; of silence between two requests, inside a body, or
        of a client that does not read its answer; for a whole body (408). A connection that takes
        longer is closed.
    """

    body: int = 8 << 20
    rows: int = 100_000
    fields: int = 1_000
    rate: float = 500.0
    queue: int = 64
    watchers: int = 200
    public_body: int = 256 << 10
    watchers_each: int = 20
    connections: int | None = None
    head_timeout: float = 10.0
    idle_timeout: float = 10.0
    body_timeout: float = 30.0

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if value is not None and not value > 0:
                raise BadParameter(f"the limit on {name} is above 0, not {value}")


class RateLimit:
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


class ConcurrencyLimit:
    """So many at a time, and so many for each holder; one more is told to come back.

    >>> places = Places(3, "streams", each=1)
    >>> places.take("a"), places.take("b")
    (None, None)
    >>> places.take("a")
    Traceback (most recent call last):
    littlestone.service.limits.Refused: you have 1 of the 3 streams already: try again
    """

    def __init__(self, most: int, what: str, each: int | None = None) -> None:
        self.most, self.what, self.each, self.taken = most, what, each or most, 0
        self._of: Counter[str] = Counter()

    @contextmanager
    def one(self, holder: str | None = None) -> Iterator[None]:
        """Hold a place, or be refused."""
        self.take(holder)
        try:
            yield
        finally:
            self.leave(holder)

    def take(self, holder: str | None = None) -> None:
        """Take a place, to be left with `leave`; None is a holder without a limit of its own."""
        if self.taken >= self.most:
            raise unavailable(f"there are {self.most} {self.what} already: try again", 1)
        if holder is not None:
            if self._of[holder] >= self.each:
                said = f"you have {self.each} of the {self.most} {self.what} already: try again"
                raise Refused(429, said, headers={"Retry-After": "1"})
            self._of[holder] += 1
        self.taken += 1

    def leave(self, holder: str | None = None) -> None:
        """Give a place back."""
        self.taken -= 1
        if holder is not None:
            self._of[holder] -= 1
            if not self._of[holder]:
                del self._of[holder]


def plain_address(host: str) -> str:
    """Return an address as people write it: an IPv4 address in IPv6 clothes is an IPv4 address.

    >>> plain_address("::ffff:192.0.2.7"), plain_address("::1"), plain_address("?")
    ('192.0.2.7', '::1', '?')
    """
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)


def client_at(host: str) -> str:
    """Return whom the limits count a client for: its address; of IPv6 the /64, which is one site's.

    >>> holder_at("192.0.2.7"), holder_at("2001:db8::1:2:3:4"), holder_at("2001:db8::1")
    ('192.0.2.7', '2001:db8::/64', '2001:db8::/64')
    """
    try:
        address = ipaddress.ip_address(plain_address(host))
    except ValueError:
        return host[:64]  # a proxy can write anything here, and it is kept
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    return str(ipaddress.IPv6Network((address, 64), strict=False))
