"""TLS: a certificate, and connections that count from their first byte.

asyncio tells a protocol of a connection after its handshake. A client that opens connections and
never shakes hands would so be counted by no limit. Here a connection is accepted plain, counted,
and then has the time of a head for its handshake.
"""

import asyncio
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

from littlestone._privacy.parameters import BadParameter
from littlestone._service.server import LOG, Admission, Connection


class TlsContext:
    """Hold a certificate with its key, which can be read again while connections are open."""

    def __init__(self, certificate: Path, key: Path) -> None:
        self.certificate, self.key = certificate, key
        self.context = self._load()

    def _load(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        try:
            # The empty password: OpenSSL would ask for one on the terminal, and wait.
            context.load_cert_chain(self.certificate, self.key, password="")
        except (OSError, ssl.SSLError) as error:
            why = getattr(error, "reason", None) or error.strerror or "unreadable"
            raise BadParameter(
                f"--tls-certificate {self.certificate} and --tls-key {self.key} cannot be used "
                f"({why}): they must be a certificate and its key without a password, in PEM"
            ) from None
        return context

    def refresh(self) -> None:
        """Read the files again, for connections to come; if they cannot be used, go on as before."""
        try:
            self.context = self._load()
        except BadParameter as error:
            LOG.error("the certificate stays as it was: %s", error)
        else:
            LOG.info("the certificate was read again")


class TlsConnection(asyncio.Protocol):
    """Count a connection, shake hands within a time, and pass it on to a `Connection`."""

    def __init__(self, admission: Admission, tls: TlsContext, **options: Any) -> None:
        self._admission, self._tls, self._options = admission, tls, options
        self._leave: Callable[[], None] | None = None
        self._early = b""
        self._task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Count the connection, or close it at once; then shake hands."""
        assert isinstance(transport, asyncio.Transport)
        self._leave = self._admission.admit(transport)
        if self._leave is not None:
            # Until the handshake begins: bytes that come before it are part of it.
            transport.pause_reading()
            self._task = asyncio.get_running_loop().create_task(self._shake_hands(transport))

    async def _shake_hands(self, plain: asyncio.Transport) -> None:
        assert self._leave is not None
        try:
            secure = await asyncio.get_running_loop().start_tls(
                plain,
                self,
                self._tls.context,
                server_side=True,
                ssl_handshake_timeout=self._admission.limits.head_timeout,
            )
        except (OSError, TimeoutError):  # an error of TLS is one of these
            secure = None
        if secure is None:
            plain.abort()
            self._leave()
            return
        connection = Connection(self._admission, leave=self._leave, **self._options)
        connection.connection_made(secure)
        secure.set_protocol(connection)
        if self._early:
            connection.data_received(self._early)

    def data_received(self, data: bytes) -> None:
        """Keep what comes in the same packet as the end of the handshake."""
        self._early += data
