"""Connections with a time limit on a whole exchange, even if a little data keeps arriving.

The timeouts of httpx are for one read each: a party that sends a byte now and then, even within the
head of an answer, would hold its reader forever.
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
"""Bytes per second of a long content, which may take a proportional time."""

_limit = threading.local()


@contextmanager
def within(seconds: float) -> Generator[None, None, None]:
    """Limit the time of this thread's exchanges: `httpx.TimeoutException` beyond it."""
    before = getattr(_limit, "until", None)
    _limit.until = time.monotonic() + seconds
    try:
        yield
    finally:
        _limit.until = before


def _left(timeout: float | None, late: type[Exception]) -> float | None:
    """Return the timeout of one step: the given one, or the time left if that is less."""
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
        self.close = stream.close  # type: ignore[method-assign]
        self.get_extra_info = stream.get_extra_info  # type: ignore[method-assign]

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, _left(timeout, httpcore.ReadTimeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._stream.write(buffer, _left(timeout, httpcore.WriteTimeout))

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore.NetworkStream:
        left = _left(timeout, httpcore.ConnectTimeout)
        return _Stream(self._stream.start_tls(ssl_context, server_hostname, left))


class _Backend(httpcore.SyncBackend):
    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        left = _left(timeout, httpcore.ConnectTimeout)
        return _Stream(super().connect_tcp(host, port, left, local_address, socket_options))


class Transport(httpx.HTTPTransport):
    """The transport of httpx, limited by `within`; it trusts what a context trusts."""

    def __init__(self, context: ssl.SSLContext) -> None:
        super().__init__(verify=context, trust_env=False)
        self._pool._network_backend = _Backend()
