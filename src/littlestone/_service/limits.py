"""Limits on what a client may request, and the error with which a request is refused."""

import ipaddress
import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any

from starlette.exceptions import HTTPException

from littlestone._data.rounds import BadRow
from littlestone._privacy.parameters import BadParameter

STOPPING = "the service is stopping, and the batch is not learned: try again, with the same key"


class Refused(HTTPException):
    """Refuse a request with a status and a sentence, which may name its first bad rows."""

    def __init__(
        self,
        status: int,
        sentence: str,
        *,
        rows: Sequence[BadRow] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(status, sentence, headers)
        self.rows = rows


def unavailable(sentence: str, retry: int | None = None) -> Refused:
    """Return the refusal of something that the service cannot do now."""
    return Refused(503, sentence, headers=None if retry is None else {"Retry-After": str(retry)})


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Hold the limits of a service."""

    body: int = 8 << 20
    rows: int = 100_000
    fields: int = 1_000
    rate: float = 500.0
    queue: int = 64
    watchers: int = 200
    public_body: int = 256 << 10
    watchers_each: int = 20
    connections: int = 1_000
    idle_timeout: float = 10.0
    body_timeout: float = 30.0

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not value > 0:
                raise BadParameter(f"the limit on {name} must be above 0, not {value}")

    @classmethod
    def read(cls, texts: Iterable[str]) -> "Limits":
        """Return the limits that texts such as `rows=10000` say."""
        kinds: dict[str, Any] = {field.name: type(field.default) for field in fields(cls)}
        limits = dict[str, Any]()
        for text in texts:
            name, _, number = text.partition("=")
            try:
                limits[name] = kinds[name](number)
            except (KeyError, ValueError):
                raise BadParameter(
                    f"--limit {text}: it must be NAME=NUMBER, with a name of {', '.join(kinds)}"
                ) from None
        return cls(**limits)


class RateLimit:
    """Limit the requests of each client by a token bucket that holds one second's requests."""

    # Clients whose buckets are kept; the least recent is dropped first.
    MAX_CLIENTS = 10_000

    def __init__(self, rate: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.rate, self._clock = rate, clock
        self._buckets: dict[str, tuple[float, float]] = {}

    def wait(self, client: str) -> float:
        """Take a request out of a client's bucket, or return the seconds until there is one."""
        # At least one: with a rate below 1 a smaller bucket would never hold a whole request.
        now, size = self._clock(), max(1.0, self.rate)
        # Popped and put back: a dict keeps insertion order, so its first key is the least recent.
        requests, then = self._buckets.pop(client, (size, now))
        # Filled when it is read: no timer has to run for clients that do not come back.
        requests = min(size, requests + (now - then) * self.rate)
        wait = 0.0 if requests >= 1 else (1 - requests) / self.rate
        self._buckets[client] = (requests if wait else requests - 1), now
        # Bounded, or a client with many addresses could fill the memory. A dropped client begins
        # with a full bucket, which is the lesser evil.
        if len(self._buckets) > self.MAX_CLIENTS:
            del self._buckets[next(iter(self._buckets))]
        return wait

    def check(self, client: str) -> None:
        """Raise `Refused` (429) if a client requests too often."""
        if wait := self.wait(client):
            raise Refused(
                429,
                f"too many requests: there may be {self.rate:g} a second",
                headers={"Retry-After": str(math.ceil(wait))},
            )


class ConcurrencyLimit:
    """Limit how many of something there are at a time, in all and for each client."""

    def __init__(self, maximum: int, name: str, each: int | None = None) -> None:
        self.maximum, self.name, self.each, self.taken = maximum, name, each or maximum, 0
        self._by_client: Counter[str] = Counter()

    @contextmanager
    def slot(self, client: str | None = None) -> Iterator[None]:
        """Hold a slot inside a `with` block."""
        self.acquire(client)
        try:
            yield
        finally:
            self.release(client)

    def acquire(self, client: str | None = None) -> None:
        """Take a slot, or raise `Refused`; a client None has no limit of its own."""
        # 503 for all together, 429 for one client: only the second can do something about it.
        if self.taken >= self.maximum:
            raise unavailable(f"there are {self.maximum} {self.name} already: try again", 1)
        if client is not None:
            if self._by_client[client] >= self.each:
                raise Refused(
                    429,
                    f"you have {self.each} of the {self.maximum} {self.name} already: try again",
                    headers={"Retry-After": "1"},
                )
            # Counted after both checks: a refused client holds nothing that it would have to give
            # back.
            self._by_client[client] += 1
        self.taken += 1

    def release(self, client: str | None = None) -> None:
        """Give a slot back."""
        self.taken -= 1
        if client is not None:
            self._by_client[client] -= 1
            if not self._by_client[client]:  # else the counter would grow with every address
                del self._by_client[client]


@lru_cache(maxsize=1024)
def client_at(host: str) -> str:
    """Return the client that the limits count an address for: of IPv6 its /64, which is one site."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host[:64]  # a proxy can write anything here, and it is kept in memory
    if isinstance(address, ipaddress.IPv6Address):
        # A socket for both versions reports IPv4 clients inside IPv6: one client has one name.
        mapped = address.ipv4_mapped
        return str(mapped or ipaddress.IPv6Network((address, 64), strict=False))
    return str(address)
