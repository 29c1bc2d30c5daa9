"""A shuffler: collects the envelopes of one column, and releases those of complete reports once.

It cannot decrypt envelopes. The transport determines what it releases, and in which order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import cast

import httpx

from ikos.deployment.endpoint import PartyEndpoints
from ikos.deployment.envelopes import EnvelopeTerms
from ikos.deployment.intermediary import SENT, Intermediary, check_kept
from ikos.deployment.party_files import PartyConfig
from ikos.deployment.remote import RemoteShuffler
from ikos.deployment.store import Writing, damaged


class ShufflerEndpoint(Intermediary):
    """One shuffler of one window."""

    def stored(self, number: bytes, part: bytes) -> bytes:
        """Return any envelopes of the right length: it cannot decrypt them."""
        del number
        return part

    def batch(self) -> Iterator[bytes]:
        """Return the envelopes of the complete reports, in pieces, each time it is asked."""
        self.check_agreed()
        complete = set(self.complete_ids())
        parts = {number: part for number, _, part in self.intake.reports() if number in complete}

        def work(writing: Writing) -> None:
            check_kept(writing)
            if len(parts) == len(complete):
                writing.note(SENT, "yes")

        self.write(work).result()
        if len(parts) != len(complete):
            raise damaged(f"{len(complete) - len(parts)} reports are gone")
        self.log("batch released")
        return self.released([parts[number] for number in sorted(parts)])

    def released(self, parts: Sequence[bytes]) -> Iterator[bytes]:
        """Yield the envelopes, and whatever else the transport releases."""
        return cast(EnvelopeTerms, self.task.transport).released(self.task, parts)


def shuffler(config: PartyConfig, client: httpx.Client) -> PartyEndpoints[ShufflerEndpoint]:
    """Return a shuffler that asks the others over a connection."""
    return PartyEndpoints(config, ShufflerEndpoint, partial(RemoteShuffler, client))
