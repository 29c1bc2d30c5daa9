"""A helper: a party that adds up the vectors that clients' seeds stand for.

A copy of its folder from before its release adds the same noise to the same set with the same
seeds, and independent noise to anything else.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from datetime import datetime
from functools import partial
from typing import Any

import httpx
import numpy as np
from numpy.typing import NDArray

from ikos.deployment.adder import AdderEndpoint
from ikos.deployment.endpoint import PartyEndpoints
from ikos.deployment.helpers import LONG_VECTOR, added_shares, added_up, noisy
from ikos.deployment.packed import packed
from ikos.deployment.party_files import PartyConfig
from ikos.deployment.remote import RemoteShuffler
from ikos.deployment.store import damaged
from ikos.primitives.randomness import Expanded


class HelperEndpoint(AdderEndpoint):
    """One helper of one window."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._adding = threading.Lock()
        self._transport = added_shares(self.task)
        # forgotten with the seeds: what is added up already, and whose
        self._ahead: tuple[NDArray[Any], set[bytes]] | None = None

    def received(self, number: bytes, part: bytes) -> None:
        """Add a short vector up now: so a release takes as long as what is left out."""
        if self._transport.dimension < LONG_VECTOR:
            with self._adding:
                total, ids = self._ahead = self._ahead or (self._transport.zeros(), set())
                for _, words in self._vectors([(number, part)]):
                    total += words
                ids.add(number)

    def expire(self, moment: datetime) -> bool:
        """Delete what was not released in time; forget what came of seeds that are gone."""
        if self.deleted:
            self._ahead = None
        return super().expire(moment)

    def sum(self) -> bytes:
        """Return the packed sum of the agreed set, with this helper's noise, if it adds any."""
        transport, complete, here, drawn = self._transport, set(self.complete_ids()), 0, 0

        def waiting() -> Iterator[tuple[bytes, bytes]]:
            nonlocal here, drawn
            for number, _, part in self.intake.reports():
                if number in complete:
                    here += 1  # in any order, and nobody else knows what is hashed
                    drawn += int.from_bytes(hashlib.sha256(number + part).digest())
                if (number in complete) != (number in ids):
                    yield number, part

        def add(total: NDArray[Any], some: list[tuple[bytes, bytes]]) -> None:
            for number, words in self._vectors(some):
                (np.add if number in complete else np.subtract)(total, words, out=total)

        with self._adding:
            ahead, ids = self._ahead or (transport.zeros(), set())
            total = ahead + added_up(waiting(), transport.zeros, add, transport.dimension)
        if here != len(complete):
            raise damaged(f"{len(complete) - here} reports are gone")
        # a copy may be sent another seed under an id: with one noise, the answers' difference
        # would be that of the two vectors
        source = Expanded(self.derived(b"noise" + drawn.to_bytes(40)))
        sums = noisy(transport, transport.elements(total), source)
        return packed(sums, transport.group.bits)

    def _vectors(self, reports: list[tuple[bytes, bytes]]) -> Iterator[tuple[bytes, NDArray[Any]]]:
        """Yield the id and the vector of each report, given its seed as stored."""
        for number, seed in self.secrets(reports):
            bound = self.config.party, number, self.context
            yield number, self._transport.keystream(seed, *bound)


def helper(config: PartyConfig, client: httpx.Client) -> PartyEndpoints[HelperEndpoint]:
    """Return a helper that asks the others over a connection."""
    return PartyEndpoints(config, HelperEndpoint, partial(RemoteShuffler, client))
