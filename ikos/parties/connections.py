"""Connections of a server, none of which is held for long by somebody who sends nothing."""

from __future__ import annotations

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

__all__ = ["HEAD_SECONDS", "Hurried"]

HEAD_SECONDS = 30.0
"""In which the head of a request must come, from its first byte or from the connection on."""

SPARE = 100
"""Connections beyond the limit that are told so; more are ended without a word."""


class Hurried(H11Protocol):
    """A connection of uvicorn's with a deadline for the head of each request.

    uvicorn ends a connection that is idle after an answer. It waits without end for the first
    request, and for what is left of one that has begun.
    """

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Begin to wait; end at once what is far too much."""
        super().connection_made(transport)
        if self.limit_concurrency and len(self.connections) > self.limit_concurrency + SPARE:
            transport.abort()
        else:
            self._hurry()

    def data_received(self, data: bytes) -> None:
        """Go on to wait while the head is not whole."""
        super().data_received(data)
        if self.conn.their_state is h11.IDLE:
            self._hurry()
        else:
            self._rest()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no more."""
        self._rest()
        super().connection_lost(exc)

    def _hurry(self) -> None:
        if self._deadline is None:
            self._deadline = self.loop.call_later(HEAD_SECONDS, self.transport.abort)

    def _rest(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
