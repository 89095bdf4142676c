"""Connections: how many there may be, and how long a client may keep one without using it.

A client that opens connections and sends half a head, half a body or nothing, or that does not read
what it asked for, costs a file descriptor each. So every wait for a client has an end, and there
are fewer connections than file descriptors: the store needs some to go on.
"""

import asyncio
import ipaddress
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from littlestone.privacy.parameters import BadParameter
from littlestone.service.limits import ConcurrencyLimit, Limits, Refused, client_at, plain_address
from littlestone.service.logs import LOG

MOST_CONNECTIONS = 1_000
"""Connections at a time, unless more are asked for."""

OWN = 40
"""File descriptors for all that is no connection: the store, logs, the event loop, a second
store while the first is opened again."""

AT_ONCE = 16
"""Connections that are accepted at a turn of the event loop."""

EACH = 4
"""One address may have one in so many of the connections."""


def _files() -> int:
    """How many files this process may have open."""
    if sys.platform == "win32":  # no such limit, and no such module
        return 10 * MOST_CONNECTIONS
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 10 * MOST_CONNECTIONS if soft == resource.RLIM_INFINITY else soft


@dataclass(frozen=True)
class Admission:
    """Say whose connections are kept, and for how long; all connections share it.

    Parameters
    ----------
    limits
        The timeouts.
    places
        How many connections there may be.
    proxies
        Networks whose `X-Forwarded-For` is believed. A connection of theirs is that of many
        clients, so they have no share of their own.
    """

    limits: Limits
    places: ConcurrencyLimit
    proxies: tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...]

    def is_proxy(self, host: str) -> bool:
        """Tell whether an address is that of a proxy."""
        return any(ipaddress.ip_address(host) in network for network in self.proxies)


def admission(limits: Limits, proxies: Sequence[str] = ()) -> Admission:
    """Return who is admitted, with so many places that file descriptors remain.

    Parameters
    ----------
    limits
        What the operator asked for.
    proxies
        Addresses and networks of trusted proxies.

    Raises
    ------
    BadParameter
        If the limit on open files does not allow that many connections, or a proxy is no address.
    """
    # A connection that is refused is closed three turns of the event loop after it was accepted:
    # meanwhile so many are open beyond the places.
    room = _files() - OWN - 4 * AT_ONCE
    if room < EACH or (limits.connections or 0) > room:
        raise BadParameter(
            f"{_files():,} open files are allowed, which leaves {max(0, room):,} for connections: "
            "allow more (ulimit -n), or lower --most-connections"
        )
    most = limits.connections or min(MOST_CONNECTIONS, room)
    try:
        networks = tuple(map(ipaddress.ip_network, proxies))
    except ValueError as error:
        raise BadParameter(f"--trusted-proxy is an address or a network: {error}") from None
    return Admission(
        limits, ConcurrencyLimit(most, "connections", each=max(1, most // EACH)), networks
    )


class Connection(H11Protocol):
    """A connection whose client is waited for, but not for long.

    Parameters
    ----------
    admission
        What all connections share.
    given
        What uvicorn gives to a protocol.
    """

    def __init__(self, admission: Admission, **given: Any) -> None:
        super().__init__(**given)
        self._limits, self._admission = admission.limits, admission
        self._holder: str | None = None
        self._admitted = False
        self._silent = False
        self._waiting: asyncio.TimerHandle | None = None
        self._writing: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a place, or close the connection at once; then wait for a head."""
        host = plain_address(str((transport.get_extra_info("peername") or [""])[0]))
        self._holder = None if self._admission.is_proxy(host) else client_at(host)
        try:
            self._admission.places.take(self._holder)
        except Refused as error:
            LOG.warning(f"a connection was refused: {error.sentence}")
            transport.abort()
            return
        self._admitted = True
        super().connection_made(transport)
        if self.client is not None:
            self.client = host, self.client[1]
        self._wait(self._limits.head_timeout)

    def connection_lost(self, exc: Exception | None) -> None:
        """Give the place back."""
        if self._admitted:
            self._admission.places.leave(self._holder)
            self._wait(None)
            self._stop_writing_timer()
            super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take what came; the first piece after a silence begins a head, which has its time."""
        if self._silent:
            self._silent = False
            self._wait(self._limits.head_timeout)
        super().data_received(data)

    def handle_events(self) -> None:
        """Handle what came; with a whole head it is the application's turn, and it may take long.

        A body has its own time, where it is read.
        """
        before = self.cycle
        super().handle_events()
        if self.cycle is not before:
            self._silent = False
            self._wait(None)

    def on_response_complete(self) -> None:
        """Wait for the next request, or for the client to have read this answer."""
        self._silent = True
        self._wait(self._limits.idle_timeout)
        super().on_response_complete()

    def pause_writing(self) -> None:
        """Wait for a client that does not read what it asked for."""
        super().pause_writing()
        self._stop_writing_timer()
        self._writing = self.loop.call_later(self._limits.idle_timeout, self.transport.abort)

    def resume_writing(self) -> None:
        """Go on: the client has read."""
        self._stop_writing_timer()
        super().resume_writing()

    def shutdown(self) -> None:
        """Finish what was asked for whole; drop what was not, as nothing of it was acknowledged."""
        cycle = self.cycle
        if cycle is not None and cycle.more_body and not cycle.response_complete:
            self.transport.abort()
        else:
            super().shutdown()

    def _wait(self, seconds: float | None) -> None:
        """Close the connection after so many seconds, unless this is called again before."""
        if self._waiting is not None:
            self._waiting.cancel()
        # abort, not close: close would first wait until the client has read all that was written.
        self._waiting = (
            None if seconds is None else self.loop.call_later(seconds, self.transport.abort)
        )

    def _stop_writing_timer(self) -> None:
        if self._writing is not None:
            self._writing.cancel()
            self._writing = None
