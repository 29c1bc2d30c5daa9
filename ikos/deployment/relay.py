"""A relay: a party that checks clients' openings, and adds them up.

Before the set is fixed, it is handed the commitments of reports, and refuses those that its
openings do not open. It signs the reports of the set as it was handed them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import httpx
import numpy as np
from numpy.typing import NDArray

from ikos.deployment.adder import AdderEndpoint
from ikos.deployment.endpoint import PartyEndpoints, split_ids
from ikos.deployment.intermediary import AGREED, check_kept
from ikos.deployment.party_files import PartyConfig
from ikos.deployment.remote import RemoteShuffler
from ikos.deployment.store import Writing, damaged
from ikos.deployment.verified import added, added_openings
from ikos.deployment.wire import ID_BYTES, Problem
from ikos.verified.statements import SCALAR_BYTES

HANDED = 0  # the analyzer's number: the row of what it handed this party


class RelayEndpoint(AdderEndpoint):
    """One relay of one window."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._size = ID_BYTES + self.terms.receipt_bytes(self.task)

    def examine(self, receipts: bytes) -> bytes:
        """Return the ids of reports that do not open their commitments; keep the other receipts.

        Before a set is agreed, other receipts may take the place of these: whether an opening fits
        a commitment reveals nothing to whoever chose the commitment.
        """
        self._close_for_good()
        try:
            rows = dict(self._rows(receipts))
            ids = split_ids(b"".join(number for number, _ in self._rows(receipts)))
        except ValueError as error:
            raise Problem("batchRejected", str(error)) from None
        here = ((number, part) for number, _, part in self.intake.reports() if number in rows)
        openings = dict(self.secrets(here))
        if len(openings) < max(1, len(rows)):
            raise Problem("batchRejected", "some of these reports are not here, or there are none")
        secrets = _array([openings[number] for number in ids])
        of: dict[str, Any] = {"context": self.context, "receipts": _array([*rows.values()])}
        places = added_openings(self.task).refused(self.config.party, (secrets,), ids=ids, **of)
        refused = [ids[place] for place in places]
        good = sorted(rows.keys() - set(refused))
        kept = b"".join(number + rows[number] for number in good)

        def work(writing: Writing) -> None:
            check_kept(writing)
            if writing.fact(AGREED) is not None:
                raise Problem("batchRejected", "a batch was agreed before")
            writing.empty("opened")
            writing.insert("opened", HANDED, "", kept)

        self.write(work).result()
        self.name_refused(refused, "its opening does not fit its commitment")
        return b"".join(refused)

    def _rows(self, receipts: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Yield ids and receipts."""
        for start in range(0, len(receipts), self._size):
            row = receipts[start : start + self._size]
            if len(row) < self._size:
                raise ValueError(f"receipts must be {self._size} bytes each, with their ids")
            yield row[:ID_BYTES], row[ID_BYTES:]

    def _handed(self) -> dict[bytes, bytes]:
        """Return the receipts of the reports that were not refused."""
        kept = (receipts for party, _, receipts in self.rows("opened") if party == HANDED)
        return dict(self._rows(next(kept, b"")))

    def eligible(self, writing: Writing) -> set[bytes]:
        """Return the ids of the reports that were not refused."""
        del writing
        return set(self._handed())

    def sum(self) -> bytes:
        """Return the sum of the openings of the agreed set, and the signature of its reports."""
        from ikos.verified.certificate import digest  # needs the extra

        complete, rows = self.complete_ids(), self._handed()
        known = set(complete)
        here = ((number, part) for number, _, part in self.intake.reports() if number in known)
        secrets = [secret for _, secret in self.secrets(here)]
        if len(secrets) != len(complete):
            raise damaged(f"{len(complete) - len(secrets)} reports are gone")
        total = added(_array(secrets))
        assert self.config.signing is not None
        listed = [(number, rows[number]) for number in complete]
        signed = self.config.signing.sign(digest(self.context, listed))
        return b"".join(scalar.to_bytes(SCALAR_BYTES) for scalar in total) + signed


def _array(rows: Sequence[bytes]) -> NDArray[np.uint8]:
    return np.frombuffer(b"".join(rows), np.uint8).reshape(len(rows), -1)


def relay(config: PartyConfig, client: httpx.Client) -> PartyEndpoints[RelayEndpoint]:
    """Return a relay that asks the others over a connection."""
    return PartyEndpoints(config, RelayEndpoint, partial(RemoteShuffler, client))
