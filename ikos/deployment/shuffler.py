"""A shuffler: collects the envelopes of one column, and releases those of complete reports once.

It cannot open an envelope. It releases each block in the order of its envelopes' bytes, which does
not depend on who sent them or when.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import httpx

from ikos.deployment.endpoint import Party
from ikos.deployment.intermediary import Intermediary
from ikos.deployment.party_files import PartyConfig
from ikos.deployment.remote import RemoteShuffler

_ENVELOPES_PER_PIECE = 512


class Shuffler(Intermediary):
    """One shuffler of one window."""

    def check(self, part: bytes) -> None:
        """Accept any envelopes of the right length: it cannot open them."""

    def released_bytes(self, reports: int) -> int:
        """Return the length of the envelopes of so many reports."""
        return reports * self.config.part_bytes

    def released(self, parts: Sequence[bytes]) -> Iterator[bytes]:
        """Yield the envelopes in some parts: of each block, in byte order."""
        first = 0
        for size in map(self.task.block_bytes, range(len(self.task.blocks))):
            envelopes = sorted(part[first : first + size] for part in parts)
            for start in range(0, len(envelopes), _ENVELOPES_PER_PIECE):
                yield b"".join(envelopes[start : start + _ENVELOPES_PER_PIECE])
            first += size


def shuffler(config: PartyConfig, client: httpx.Client) -> Party[Shuffler]:
    """Return a shuffler that asks the others over a connection."""
    return Party(config, Shuffler, partial(RemoteShuffler, client))
