"""The server: granian in this process, on our own socket, and a stop that loses nothing.

granian closes connections that are silent for too long, speaks TLS, and accepts no more connections
than it is told to, so that file descriptors remain for the store. A client that does not read its
response is dropped by the system (TCP_USER_TIMEOUT).

At a stop (SIGTERM, Ctrl-C) the server accepts no more connections, ends the event streams, drops
the requests of which only a part has come, finishes the others, and closes the store.
"""

import asyncio
import ipaddress
import os
import signal
import socket
import ssl
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from fastapi import FastAPI
from granian._granian import SocketHolder
from granian.constants import HTTPModes, Interfaces, SSLProtocols
from granian.http import HTTP1Settings
from granian.log import LogLevels
from granian.server.embed import Server
from granian.utils.proxies import wrap_asgi_with_proxy_headers

from littlestone._privacy.parameters import BadParameter
from littlestone._service.limits import Limits
from littlestone._service.operations import LOG, log_loop_error, logging_config
from littlestone._service.service import Service

Serving: TypeAlias = "asyncio.Task[None]"
# File descriptors for all but connections: the store, logs, the event loop, a second store while the
# first is opened again.
RESERVED_FILES, MIN_CONNECTIONS = 64, 16
# With TLS granian does not count connections before their handshake, and once the file descriptors
# are used up it never accepts another: one address can have about 60,000 of them.
TLS_FILES = 1 << 14
# Seconds that requests under way have when the server stops, and then their answers.
GRACE, LAST_ANSWERS = 5.0, 0.5
# Connections that may wait to be accepted; the system may allow fewer.
BACKLOG = 1024
# Bytes of the head of a request.
MAX_HEAD = 1 << 16


class Certificate(NamedTuple):
    """Hold the files of a certificate and its key, in PEM."""

    chain: Path
    key: Path

    def check(self) -> None:
        """Refuse files that cannot be used."""
        try:
            # The empty password: OpenSSL would ask for one on the terminal, and wait.
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(self.chain, self.key, password="")
        except (OSError, ssl.SSLError) as error:
            why = getattr(error, "reason", None) or error.strerror or "unreadable"
            raise BadParameter(
                f"--tls-certificate {self.chain} and --tls-key {self.key} cannot be used ({why}): "
                "they must be a certificate and its key without a password, in PEM"
            ) from None


class Listener(Server):
    """Serve on a socket that listens already, so that its port is known and its options are ours."""

    def __init__(self, listening: socket.socket, app: Any, **options: Any) -> None:
        super().__init__(
            app, interface=Interfaces.ASGINL, http=HTTPModes.http1, websockets=False, **options
        )
        self._listening = listening

    def _init_shared_socket(self) -> None:
        # A copy of the socket: granian closes it at its end. Its types say less than it takes.
        holder: Any = SocketHolder
        server: Any = self
        server._sfd = os.dup(self._listening.fileno())
        server._shd = holder(server._sfd, False, BACKLOG)


class HttpServer:
    """Serve an application until it is stopped."""

    def __init__(
        self,
        listening: socket.socket,
        limits: Limits,
        *,
        proxies: Sequence[str] = (),
        certificate: Certificate | None = None,
        logs: dict[str, Any] | None = None,
        refresh: Callable[[], None] = lambda: None,
    ) -> None:
        # All that can be refused is, before a store is taken over.
        self._proxies = trusted_networks(proxies)
        self._connections = max_connections(limits, certificate is not None)
        if certificate is not None:
            certificate.check()
        self._certificate, self._logs, self._refresh = certificate, logs, refresh
        self._listening = listening
        self._timeout = max(1, int(1000 * limits.idle_timeout))
        # Linux: drops clients that do not read what was sent to them.
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, self._timeout)
        self.started = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._signals: asyncio.Queue[signal.Signals] = asyncio.Queue()

    def run(self, app: FastAPI) -> None:
        """Serve an application until a signal, or `stop`."""
        asyncio.run(self._run(app))

    def stop(self) -> None:
        """Stop, from another thread."""
        if self._loop is not None:
            with suppress(RuntimeError):  # it has stopped already
                self._loop.call_soon_threadsafe(self._signals.put_nowait, signal.SIGTERM)

    async def _run(self, app: FastAPI) -> None:
        loop = self._loop = asyncio.get_running_loop()
        loop.set_exception_handler(log_loop_error)
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                loop.add_signal_handler(number, self._signals.put_nowait, number)
        async with app.router.lifespan_context(app):
            listener, serving = self._start(app)
            self.started.set()
            while await self._next_signal(serving) == signal.SIGHUP:
                self._refresh()
                if self._certificate is not None:
                    listener, serving = self._renew(app, listener, serving)
            await self._finish(app.state.service, listener, serving)

    def _start(self, app: FastAPI) -> tuple[Server, Serving]:
        listener = self._listener(app)
        return listener, asyncio.get_running_loop().create_task(listener.serve())

    async def _next_signal(self, serving: Serving) -> signal.Signals:
        """Wait for a signal; raise what ended the listener, if that comes first."""
        waiting = asyncio.get_running_loop().create_task(self._signals.get())
        await asyncio.wait([waiting, serving], return_when=asyncio.FIRST_COMPLETED)
        if serving.done():
            waiting.cancel()
            raise OSError(f"the server has ended by itself: {serving.exception()}")
        return waiting.result()

    def _renew(self, app: FastAPI, listener: Server, serving: Serving) -> tuple[Server, Serving]:
        """Start a listener with the certificate as it is now, and end the one before."""
        try:
            assert self._certificate is not None
            self._certificate.check()
        except BadParameter as error:
            LOG.error("the certificate stays as it was: %s", error)
            return listener, serving
        LOG.info("the certificate was read again")
        listener.stop()
        return self._start(app)

    async def _finish(self, service: Service, listener: Server, serving: Serving) -> None:
        """End the listener: requests under way are answered, after a grace period with 503."""
        service.close()
        listener.stop()
        done, _ = await asyncio.wait([serving], timeout=GRACE)
        if not done:
            service.end_waits()
            await asyncio.wait([serving], timeout=LAST_ANSWERS)

    def _listener(self, app: FastAPI) -> Server:
        files = self._certificate
        return Listener(
            self._listening,
            wrap_asgi_with_proxy_headers(app, self._proxies) if self._proxies else app,
            backpressure=self._connections,
            http1_settings=HTTP1Settings(
                header_read_timeout=self._timeout, max_buffer_size=MAX_HEAD
            ),
            log_level=LogLevels.error,
            log_dictconfig=self._logs or logging_config("text"),
            ssl_cert=files and files.chain,
            ssl_key=files and files.key,
            ssl_protocol_min=SSLProtocols.tls12,
        )


def trusted_networks(proxies: Sequence[str]) -> list[str]:
    """Return the networks of trusted proxies."""
    try:
        return [str(ipaddress.ip_network(proxy)) for proxy in proxies]
    except ValueError as error:
        raise BadParameter(f"--trusted-proxy must be an address or a network: {error}") from None


def max_connections(limits: Limits, tls: bool = False) -> int:
    """Return how many connections there may be, so that file descriptors remain."""
    files = _max_files()
    if files < RESERVED_FILES + MIN_CONNECTIONS:
        raise BadParameter(
            f"{files:,} open files are allowed, and a service needs "
            f"{RESERVED_FILES + MIN_CONNECTIONS}: allow more (ulimit -n)"
        )
    if tls and files < TLS_FILES:
        raise BadParameter(
            f"{files:,} open files are allowed, and --tls-certificate needs {TLS_FILES:,}: allow "
            "more (ulimit -n), or let a proxy speak TLS"
        )
    return min(limits.connections, files - RESERVED_FILES)


def _max_files() -> int:
    """Return how many files this process may have open, after it asked for all it can have."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        soft = hard
    return sys.maxsize if soft == resource.RLIM_INFINITY else soft


def listening_socket(host: str, port: int) -> socket.socket:
    """Return a socket that listens."""
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    listening = socket.socket(family, kind, protocol)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        listening.bind(address)
        # From now on clients wait for the start of the server, and are not refused.
        listening.listen(BACKLOG)
    except OSError as error:
        listening.close()
        raise OSError(
            error.errno, f"{error.strerror}: choose another --port", f"port {port}"
        ) from None
    return listening


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
