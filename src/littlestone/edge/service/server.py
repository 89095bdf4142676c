"""The server: a socket, the application behind it, and a stop that loses nothing.

Told to stop (SIGTERM, Ctrl-C), it takes no more connections, ends the streams of events, finishes
the requests that are under way, and lets go of the store.
"""

import contextlib
import ipaddress
import logging
import signal
import socket
from collections.abc import Callable
from types import FrameType
from typing import Any

import uvicorn
from fastapi import FastAPI

GRACE = 30
"""Seconds that requests under way have when the server stops."""


class Server(uvicorn.Server):
    """A server whose streams of events end when it stops: it would wait for them otherwise."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop: the streams first, then the rest."""
        app = self.config.app
        if isinstance(app, FastAPI) and hasattr(app.state, "service"):
            app.state.service.news.close()
        await super().shutdown(sockets)


class _NoQuery(logging.Filter):
    """Takes the query out of a line of the access log."""

    def filter(self, record: logging.LogRecord) -> bool:
        if isinstance(record.args, tuple) and len(record.args) == 5:
            client, method, path, version, status = record.args
            record.args = client, method, str(path).partition("?")[0], version, status
        return True


_LINE = {"format": "%(asctime)s %(levelname)s %(message)s"}
LOGS: dict[str, Any] = {
    "version": 1,
    "disable_existing_loggers": False,
    "filters": {"no query": {"()": _NoQuery}},
    "formatters": {"line": _LINE},
    "handlers": {
        "lines": {
            "class": "logging.StreamHandler",
            "formatter": "line",
            "filters": ["no query"],
            "stream": "ext://sys.stderr",
        }
    },
    "loggers": {
        name: {"handlers": ["lines"], "level": "INFO", "propagate": False}
        for name in ("uvicorn", "uvicorn.access", "littlestone")
    },
}


def server_for(app: FastAPI, *, logs: dict[str, Any] | None = None) -> Server:
    """A server for an application."""
    return Server(
        uvicorn.Config(
            app,
            lifespan="on",
            ws="none",
            server_header=False,
            log_config=LOGS if logs is None else logs,
            timeout_graceful_shutdown=GRACE,
        )
    )


def bound(host: str, port: int) -> socket.socket:
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


def serve(app: FastAPI, listening: socket.socket) -> None:
    """Serve until told to stop."""
    _quietly(lambda: server_for(app).run(sockets=[listening]))


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
