"""A shuffler: collects the envelopes of one column, and releases those of complete reports once.

It cannot decrypt envelopes. The transport determines what it releases, and in which order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import httpx

from ikos.deployment.endpoint import PartyEndpoints
from ikos.deployment.intermediary import Intermediary
from ikos.deployment.party_files import PartyConfig
from ikos.deployment.remote import RemoteShuffler


class ShufflerEndpoint(Intermediary):
    """One shuffler of one window."""

    def check(self, part: bytes) -> None:
        """Accept any envelopes of the right length: it cannot decrypt them."""

    def released_bytes(self, reports: int) -> int:
        """Return the length of the parts of this many reports."""
        return reports * self.config.part_bytes

    def released(self, parts: Sequence[bytes]) -> Iterator[bytes]:
        """Yield the envelopes, and whatever else the transport releases."""
        return self.task.transport.released(self.task, parts)


def shuffler(config: PartyConfig, client: httpx.Client) -> PartyEndpoints[ShufflerEndpoint]:
    """Return a shuffler that asks the others over a connection."""
    return PartyEndpoints(config, ShufflerEndpoint, partial(RemoteShuffler, client))
