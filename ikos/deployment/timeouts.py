"""Connections to other parties that end when a whole exchange should, however little comes.

The timeouts of httpx are for one read each: who sends a byte now and then, of the head of an answer
as well, would hold its reader for ever.
"""

from __future__ import annotations

import ssl
import threading
import time
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from typing import Any

import httpcore
import httpx

SLOWEST = 1 << 14
"""Bytes a second of what is long, and takes its time in proportion."""

_limit = threading.local()


@contextmanager
def within(seconds: float) -> Generator[None, None, None]:
    """Let no exchange of this thread read or write beyond so many seconds from now.

    What reads by then raises `httpx.TimeoutException`.
    """
    before = getattr(_limit, "until", None)
    _limit.until = time.monotonic() + seconds
    try:
        yield
    finally:
        _limit.until = before


def _left(timeout: float | None, late: type[Exception]) -> float | None:
    """Return the timeout of one step: what is asked, and no more than is left."""
    until: float | None = getattr(_limit, "until", None)
    if until is None:
        return timeout
    left = until - time.monotonic()
    if left <= 0:
        raise late("the exchange took too long")
    return left if timeout is None else min(timeout, left)


class _Stream(httpcore.NetworkStream):
    def __init__(self, stream: httpcore.NetworkStream) -> None:
        self._stream = stream

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, _left(timeout, httpcore.ReadTimeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._stream.write(buffer, _left(timeout, httpcore.WriteTimeout))

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore.NetworkStream:
        left = _left(timeout, httpcore.ConnectTimeout)
        return _Stream(self._stream.start_tls(ssl_context, server_hostname, left))

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


class _Backend(httpcore.NetworkBackend):
    def __init__(self) -> None:
        self._backend = httpcore.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        left = _left(timeout, httpcore.ConnectTimeout)
        return _Stream(self._backend.connect_tcp(host, port, left, local_address, socket_options))

    def sleep(self, seconds: float) -> None:
        self._backend.sleep(seconds)


class Punctual(httpx.HTTPTransport):
    """The transport of httpx, which keeps to `within`.

    Parameters
    ----------
    context : ssl.SSLContext
        Whom to trust.
    """

    def __init__(self, context: ssl.SSLContext) -> None:
        super().__init__(verify=context, trust_env=False)
        self._pool = httpcore.ConnectionPool(
            ssl_context=context,
            max_connections=100,
            max_keepalive_connections=20,
            keepalive_expiry=5.0,
            network_backend=_Backend(),
        )
