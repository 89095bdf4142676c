"""The server: a socket, the application behind it, and a stop that loses nothing.

Told to stop (SIGTERM, Ctrl-C), it takes no more connections, ends the streams of events, drops the
requests of which only a part has come, finishes the others, and lets go of the store.
"""

import asyncio
import contextlib
import ipaddress
import signal
import socket
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any, cast

import uvicorn
from fastapi import FastAPI

from littlestone.service.connections import AT_ONCE, Admission, Connection
from littlestone.service.logs import LOGS, log_loop

GRACE = 5
"""Seconds that requests under way have when the server stops."""

NO_TIMEOUT = 10**6
WAITING = 1024
"""Connections that may wait to be accepted; the system may allow fewer."""


class Server(uvicorn.Server):
    """A server whose streams of events end when it stops: it would wait for them otherwise."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start; what goes wrong in the event loop is a line of the log."""
        asyncio.get_running_loop().set_exception_handler(log_loop)
        await super().startup(sockets)
        # asyncio takes one number for how many connections are accepted at a turn, which must be
        # few, and for how many may wait for it, which must be many.
        for listening in sockets or ():
            listening.listen(WAITING)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop: the streams first, then the rest."""
        app = self.config.app
        if isinstance(app, FastAPI) and hasattr(app.state, "service"):
            app.state.service.news.close()
        await super().shutdown(sockets)


def server_for(app: FastAPI, admission: Admission, *, logs: dict[str, Any] | None = None) -> Server:
    """Return a server for an application.

    Parameters
    ----------
    app, admission
        The application, and whose connections are kept.
    logs
        A configuration of logging to use instead of ours.
    """
    return Server(
        uvicorn.Config(
            app,
            lifespan="on",
            # Named, not found out: another protocol or loop that is installed has other timeouts.
            http=cast(Any, partial(Connection, admission)),
            loop="asyncio",
            ws="none",
            server_header=False,
            forwarded_allow_ips=list(map(str, admission.proxies)),  # none: nobody is believed
            backlog=AT_ONCE,
            timeout_keep_alive=NO_TIMEOUT,  # a connection has its own, which ends it for certain
            log_config=LOGS if logs is None else logs,
            timeout_graceful_shutdown=GRACE,
        )
    )


def listening_socket(host: str, port: int) -> socket.socket:
    """A socket that listens; the port is chosen by the system if it is 0."""
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    found = socket.socket(family, kind, protocol)  # asyncio asks TCP not to wait if it is named
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind(address)
    except OSError as error:
        found.close()
        raise OSError(
            error.errno, f"{error.strerror}: choose another --port", f"port {port}"
        ) from None
    return found


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address.

    >>> is_loopback("127.0.0.1"), is_loopback("::1"), is_loopback("0.0.0.0"), is_loopback("wall")
    (True, True, False, False)
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def run_server(server: Server, listening: socket.socket) -> None:
    """Serve until told to stop."""
    _quietly(lambda: server.run(sockets=[listening]))


def _quietly(run: Callable[[], None]) -> None:
    """Run a server; the signal that stopped it, which it raises again at its end, is done with."""

    def done(number: int, frame: FrameType | None) -> None:
        pass

    before = signal.signal(signal.SIGTERM, done)
    try:
        with contextlib.suppress(KeyboardInterrupt):
            run()
    finally:
        signal.signal(signal.SIGTERM, before)
