"""Logging: lines without queries and control characters, and never more than a disk can take.

A line has the client, the request and the status. Clients decide how many lines there are, so each
kind of line has a rate; lines beyond it are counted, and the next line says how many there were.

The server: connections with timeouts, the application, and a stop that loses nothing.

A client that opens connections and sends half a head, half a body or nothing, or that does not read
its response, costs a file descriptor each. So every wait for a client has an end, and there are
fewer connections than file descriptors: the store needs some to go on.

At a stop (SIGTERM, Ctrl-C) the server accepts no more connections, ends the event streams, drops
the requests of which only a part has come, finishes the others, and closes the store.
"""

import asyncio
import contextlib
import ipaddress
import logging
import signal
import socket
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, cast

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from littlestone._privacy.parameters import BadParameter
from littlestone._service.limits import (
    ConcurrencyLimit,
    Limits,
    RateLimit,
    Refused,
    client_at,
    plain_address,
)

LOG = logging.getLogger("littlestone")
ACCESS = "uvicorn.access"
# Lines a second: of requests, and of any other kind.
ACCESS_RATE, OTHER_RATE = 100.0, 5.0
LEFT_OUT = " (and {:,} lines like it, which were left out)"


class LogFilter(logging.Filter):
    """Drop lines beyond the rate of their kind, and escape what does not print."""

    def __init__(self, clock: Any = time.monotonic) -> None:
        super().__init__()
        self._rate = RateLimit(OTHER_RATE, clock)
        self._dropped: Counter[str] = Counter()

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a line is written; the line of a request loses its query."""
        # The kind is the template, without its arguments.
        kind = f"{record.name} {record.msg}"
        if record.name != ACCESS and self._rate.wait(kind):  # `AccessLog` has a rate of its own
            self._dropped[kind] += 1
            return False
        if isinstance(record.args, tuple):
            if record.name == ACCESS and len(record.args) == 5:
                client, method, path, version, status = record.args
                record.args = client, method, str(path).partition("?")[0], version, status
            record.args = tuple(map(_printable, record.args))
        if dropped := self._dropped.pop(kind, 0):
            record.msg += LEFT_OUT.format(dropped)
        return True


class AccessLog:
    """Write a line for each request, up to a rate."""

    def __init__(self, clock: Any = time.monotonic) -> None:
        self._rate, self._dropped = RateLimit(ACCESS_RATE, clock), 0

    def info(self, message: str, *parts: object) -> None:
        """Log a request, as uvicorn describes it."""
        if self._rate.wait(ACCESS):
            self._dropped += 1
            return
        left_out = LEFT_OUT.format(self._dropped) if self._dropped else ""
        logging.getLogger(ACCESS).info(message + left_out, *parts)
        self._dropped = 0


def _printable(part: object) -> object:
    """Return an argument of a line with escapes for what would move a terminal's cursor."""
    if not isinstance(part, str) or part.isprintable():
        return part
    return "".join(
        sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in part
    )


def describe_error(error: BaseException) -> str:
    """Return the type of an error and where it was raised; its text may hold private data."""
    frames = traceback.extract_tb(error.__traceback__)[-5:]
    where = " > ".join(f"{Path(frame.filename).name}:{frame.lineno}" for frame in frames)
    return f"{type(error).__name__} at {where}"


def log_loop_error(loop: object, context: dict[str, Any]) -> None:
    """Log an error of the event loop itself as one line; asyncio would write a traceback."""
    error = context.get("exception")
    description = "no error" if error is None else describe_error(error)
    LOG.error("%s (%s)", context["message"], description)


LOGGING_CONFIG: dict[str, Any] = {
    "version": 1,
    "disable_existing_loggers": False,
    "filters": {"limited": {"()": LogFilter}},
    "formatters": {"line": {"format": "%(asctime)s %(levelname)s %(message)s"}},
    "handlers": {
        "lines": {
            "class": "logging.StreamHandler",
            "formatter": "line",
            "filters": ["limited"],
            "stream": "ext://sys.stderr",
        }
    },
    "loggers": {
        name: {"handlers": ["lines"], "level": "INFO", "propagate": False}
        for name in ("asyncio", "uvicorn", ACCESS, "littlestone")
    },
}


# Connections at a time, unless more are requested.
DEFAULT_CONNECTIONS = 1_000

# File descriptors for everything but connections: the store, logs, the event loop, a second store
# while the first is opened again.
RESERVED_FILES = 40
# File descriptors of each further store, and of opening it again.
STORE_FILES = 8

# Connections that are accepted in one turn of the event loop.
ACCEPTED_AT_ONCE = 16

# One address may have one in so many of the connections.
CLIENT_SHARE = 4

# Seconds that requests under way have when the server stops.
GRACE = 5

NO_TIMEOUT = 10**6
# Connections that may wait to be accepted; the system may allow fewer.
BACKLOG = 1024


# Connections.


@dataclass(frozen=True)
class Admission:
    """Hold what all connections share."""

    limits: Limits
    connections: ConcurrencyLimit
    proxies: tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...]
    access: AccessLog = field(default_factory=AccessLog)

    def is_proxy(self, host: str) -> bool:
        """Return whether an address is that of a trusted proxy."""
        return any(ipaddress.ip_address(host) in network for network in self.proxies)

    def close(self) -> None:
        """Admit no more connections."""
        self.connections.maximum = 0

    def admit(self, transport: asyncio.Transport) -> Callable[[], None] | None:
        """Count a connection; return what gives its slot back. None, and it is closed, if refused."""
        if not self.connections.maximum:
            transport.abort()
            return None
        host = _host_of(transport)
        counted_for = None if self.is_proxy(host) else client_at(host)
        try:
            self.connections.acquire(counted_for)
        except Refused as error:
            LOG.warning(f"a connection was refused: {error.sentence}")
            transport.abort()
            return None
        return partial(self.connections.release, counted_for)


def _host_of(transport: asyncio.Transport) -> str:
    return plain_address(str((transport.get_extra_info("peername") or [""])[0]))


def admission(limits: Limits, proxies: Sequence[str] = (), stores: int = 1) -> Admission:
    """Return the limit on connections, low enough that file descriptors remain."""
    # A refused connection is closed three turns of the event loop after it was accepted: so many
    # may be open beyond the limit.
    room = _max_files() - RESERVED_FILES - 4 * ACCEPTED_AT_ONCE - (stores - 1) * STORE_FILES
    if room < CLIENT_SHARE or (limits.connections or 0) > room:
        raise BadParameter(
            f"{_max_files():,} open files are allowed, which leaves {max(0, room):,} for "
            "connections: allow more (ulimit -n), or lower --most-connections"
        )
    maximum = limits.connections or min(DEFAULT_CONNECTIONS, room)
    try:
        networks = tuple(map(ipaddress.ip_network, proxies))
    except ValueError as error:
        raise BadParameter(f"--trusted-proxy must be an address or a network: {error}") from None
    each = max(1, maximum // CLIENT_SHARE)
    return Admission(limits, ConcurrencyLimit(maximum, "connections", each=each), networks)


def _max_files() -> int:
    """Return how many files this process may have open."""
    if sys.platform == "win32":  # has neither such a limit nor the module
        return 10 * DEFAULT_CONNECTIONS
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 10 * DEFAULT_CONNECTIONS if soft == resource.RLIM_INFINITY else soft


class Connection(H11Protocol):
    """Serve one connection, and close it when its client is silent for too long."""

    def __init__(
        self, admission: Admission, *, leave: Callable[[], None] | None = None, **options: Any
    ) -> None:
        super().__init__(**options)
        self._limits, self._admission = admission.limits, admission
        self.access_logger = cast(Any, admission.access)
        self._leave = leave
        self._between_requests = False
        self._read_timer: asyncio.TimerHandle | None = None
        self._write_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Count the connection, or close it at once; then wait for a head."""
        self._leave = self._leave or self._admission.admit(transport)
        if self._leave is None:
            return
        super().connection_made(transport)
        # An IPv4 address in its plain form, so that trusted proxies given as IPv4 match.
        if self.client is not None:
            self.client = _host_of(transport), self.client[1]
        self._limit_reading(self._limits.head_timeout)

    def connection_lost(self, exc: Exception | None) -> None:
        """Give the slot back."""
        if self._leave is not None:
            self._leave()
            self._limit_reading(None)
            self._stop_write_timer()
            super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read bytes; the first after a silence begin a head, which has its own timeout."""
        if self._between_requests:
            self._between_requests = False
            self._limit_reading(self._limits.head_timeout)
        super().data_received(data)

    def handle_events(self) -> None:
        """Handle what was read; a whole head starts the application, which may take long."""
        before = self.cycle
        super().handle_events()
        if self.cycle is not before:
            self._between_requests = False
            self._limit_reading(None)

    def on_response_complete(self) -> None:
        """Wait for the next request, or for the client to have read this response."""
        self._between_requests = True
        self._limit_reading(self._limits.idle_timeout)
        super().on_response_complete()

    def pause_writing(self) -> None:
        """Wait for a client that does not read its response."""
        super().pause_writing()
        self._stop_write_timer()
        self._write_timer = self.loop.call_later(self._limits.idle_timeout, self.transport.abort)

    def resume_writing(self) -> None:
        """Go on: the client has read."""
        self._stop_write_timer()
        super().resume_writing()

    def shutdown(self) -> None:
        """Finish a request that has come whole; drop another, of which nothing was acknowledged."""
        cycle = self.cycle
        if cycle is not None and cycle.more_body and not cycle.response_complete:
            self.transport.abort()
        else:
            super().shutdown()

    def _limit_reading(self, seconds: float | None) -> None:
        """Close the connection after so many seconds, unless this is called again before."""
        if self._read_timer is not None:
            self._read_timer.cancel()
        # abort, not close: close would first wait until the client has read all that was written.
        self._read_timer = (
            None if seconds is None else self.loop.call_later(seconds, self.transport.abort)
        )

    def _stop_write_timer(self) -> None:
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None


# The server.


class Server(uvicorn.Server):
    """Serve an application, and end its event streams at a stop: uvicorn would wait for them."""

    refresh: Sequence[Callable[[], None]] = ()
    hung_up = False
    admission: Admission | None = None

    async def on_tick(self, counter: int) -> bool:
        """Do what a signal asked for; several times a second."""
        # Here and not in the handler, which may interrupt anything, such as a line of the log.
        if self.hung_up:
            self.hung_up = False
            for function in self.refresh:
                function()
        return await super().on_tick(counter)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, with errors of the event loop as lines of the log."""
        asyncio.get_running_loop().set_exception_handler(log_loop_error)
        await super().startup(sockets)
        # asyncio takes one number for how many connections are accepted in a turn, which must be
        # small, and for how many may wait for it, which must be large.
        for listening in sockets or ():
            listening.listen(BACKLOG)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop: the streams first, then the rest."""
        # uvicorn asks the connections that it knows to end; one that was just being accepted would
        # stay open until the grace period is over.
        if self.admission is not None:
            self.admission.close()
        app = self.config.app
        if isinstance(app, FastAPI) and hasattr(app.state, "service"):
            app.state.service.events.close()
        await super().shutdown(sockets)


def server_for(
    app: FastAPI,
    admission: Admission,
    *,
    logs: dict[str, Any] | None = None,
    protocol: Callable[..., asyncio.Protocol] | None = None,
) -> Server:
    """Return a server for an application."""
    server = Server(
        uvicorn.Config(
            app,
            lifespan="on",
            # Fixed, not detected: another installed protocol or loop would have other timeouts.
            http=cast(Any, protocol or partial(Connection, admission)),
            loop="asyncio",
            ws="none",
            server_header=False,
            forwarded_allow_ips=list(map(str, admission.proxies)),  # none by default
            backlog=ACCEPTED_AT_ONCE,
            timeout_keep_alive=NO_TIMEOUT,  # `Connection` has its own
            log_config=LOGGING_CONFIG if logs is None else logs,
            timeout_graceful_shutdown=GRACE,
        )
    )
    server.admission = admission
    return server


def listening_socket(host: str, port: int) -> socket.socket:
    """Return a socket that listens."""
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    found = socket.socket(family, kind, protocol)  # with a protocol asyncio sets TCP_NODELAY
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind(address)
        # From now on clients wait for the start of the server, and are not refused.
        found.listen(BACKLOG)
    except OSError as error:
        found.close()
        raise OSError(
            error.errno, f"{error.strerror}: choose another --port", f"port {port}"
        ) from None
    return found


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def run_server(server: Server, listening: socket.socket) -> None:
    """Serve until a signal stops the server."""

    def handle(number: int, frame: FrameType | None) -> None:
        # uvicorn raises the signal that stopped it once more at its end: that one is ignored.
        server.hung_up |= number != signal.SIGTERM

    signals = [signal.SIGTERM, *([] if sys.platform == "win32" else [signal.SIGHUP])]
    before = {number: signal.signal(number, handle) for number in signals}
    try:
        with contextlib.suppress(KeyboardInterrupt):
            server.run(sockets=[listening])
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
