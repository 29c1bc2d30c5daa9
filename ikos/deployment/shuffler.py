"""A shuffler: collects the envelopes of one column, and releases those of complete reports once.

It cannot open an envelope. What it releases is in the order of the envelopes' bytes, which are
random: a function of the set of envelopes, not of who sent them or when. It releases one set, and
only after every other shuffler of the task has told it that it was asked for the same one: an
analyzer that asked each for other reports could learn more than one sum.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import pairwise

from ikos.deployment import collection
from ikos.deployment.collection import Collection
from ikos.deployment.errors import Refused
from ikos.deployment.parallel import at_once
from ikos.deployment.party_files import PartyConfig
from ikos.deployment.reports import ID_BYTES
from ikos.deployment.store import Store, StoreError, Writing

__all__ = ["Shuffler"]

SCHEMA = (
    collection.SCHEMA
    + """
CREATE TABLE IF NOT EXISTS complete (
    id BLOB PRIMARY KEY NOT NULL, digest BLOB NOT NULL
) WITHOUT ROWID;
"""
)
_AGREED = "agreed"
_SENT = "sent"
_CHUNK = 512  # envelopes that are sent together


def agreed_digest(task_id: bytes, ids: bytes) -> str:
    """Return what shufflers compare: SHA-256 of the task and of all complete reports' ids."""
    return hashlib.sha256(b"ikos-parties 1 batch" + task_id + ids).hexdigest()


def split_ids(data: bytes) -> list[bytes]:
    """Return ids that come one after the other; ValueError if not in strictly increasing order."""
    if len(data) % ID_BYTES:
        raise ValueError(f"ids must be {ID_BYTES} bytes each, got {len(data)} in all")
    ids = [data[start : start + ID_BYTES] for start in range(0, len(data), ID_BYTES)]
    if any(later <= before for before, later in pairwise(ids)):
        raise ValueError("ids must be in strictly increasing order")
    return ids


class Shuffler:
    """One shuffler of one task.

    Parameters
    ----------
    seat : Seat
        Which.
    ask : callable
        From the number of another shuffler to the digest that it agreed to, or None; raises
        OSError where it does not answer.
    """

    def __init__(self, seat: PartyConfig, ask: Callable[[int], str | None]) -> None:
        if seat.party < 1:
            raise ValueError("seat must be a shuffler's, got the analyzer's")
        self.seat = seat
        self.store = Store(seat, SCHEMA)
        self.collection = Collection(seat, self.store)
        self._ask = ask
        # a process that ended in the middle of forgetting goes on with it, if there is room
        if self.collection.fact(_SENT) is not None:
            with suppress(OSError):
                self.store.shrink()

    @property
    def state(self) -> str:
        """``collecting``, ``closed``, ``agreed``, ``sent``, or ``deleted`` without being sent."""
        if self.collection.fact(_SENT) is not None:
            return "deleted" if self.agreement() is None else "sent"
        if self.collection.fact(_AGREED) is not None:
            return "agreed"
        return "closed" if self.collection.closed else "collecting"

    def reports(self) -> int:
        """Return how many reports were accepted."""
        sent = self.collection.fact(_SENT)
        return self.collection.count() if sent is None else int(sent)

    def ids(self) -> bytes:
        """Return the ids of all reports, in the order of their bytes.

        Raises
        ------
        Refused
            Before the task is closed, and after the batch was sent.
        """
        self._need_closed()
        if self.collection.fact(_SENT) is not None:
            raise Refused("batchGone", "the batch was sent and deleted")
        self.collection.close()  # even if it was the clock: whatever waits is decided before
        return b"".join(self.collection.ids())

    def agree(self, data: bytes) -> str:
        """Note which reports are complete, once and for all, and return the digest.

        Raises
        ------
        Refused
            Before the task is closed; if the ids are not in order or not all of them here, or too
            few, or others were noted before.
        """
        self._need_closed()
        self.collection.close()
        try:
            ids = split_ids(data)
        except ValueError as error:
            raise Refused("batchRejected", str(error)) from None
        task = self.seat.task
        if not task.min_reports <= len(ids) <= task.users:
            raise Refused(
                "batchRejected",
                f"a batch must be of {task.min_reports} to {task.users} reports, got {len(ids)}",
            )
        digest = agreed_digest(task.id, data)

        def work(writing: Writing) -> str:
            if _AGREED in writing.facts:
                return writing.facts[_AGREED]
            for number in ids:
                writing.insert("complete", number)
            found = writing.connection.execute(
                "SELECT count(*) FROM complete JOIN report USING (id)"
            )
            if found.fetchone()[0] != len(ids):
                raise Refused("batchRejected", "some reports of the batch are not here")
            return writing.note(_AGREED, digest)

        noted = self.store.write(work).result()
        if noted != digest:
            raise Refused("batchRejected", "another batch was agreed before")
        return digest

    def agreement(self) -> str | None:
        """Return the digest that was agreed, if any."""
        return self.collection.fact(_AGREED)

    def complete(self) -> int:
        """Return of how many reports the agreed batch is."""
        return self.store.count("complete")

    def batch(self) -> Iterator[bytes]:
        """Return the envelopes of the complete reports, in pieces, in the order of their bytes.

        Raises
        ------
        Refused
            Before a batch was agreed; where another shuffler agreed to another one, or none, or
            does not answer; after it was sent and deleted.
        StoreError
            If a row was damaged or lost.
        """
        if self.collection.fact(_SENT) is not None:
            raise Refused("batchGone", "the batch was sent and deleted")
        mine = self.agreement()
        if mine is None:
            raise Refused("notAgreed", "no batch was agreed")
        others = [j for j in range(1, self.seat.task.columns + 1) if j != self.seat.party]
        for other, theirs in sorted(at_once(self._ask, others)):
            if isinstance(theirs, OSError):
                raise Refused("peerUnreachable", f"shuffler {other} does not answer")
            if theirs != mine:
                raise Refused("notAgreed", f"shuffler {other} has not agreed to the same batch")
        for table in ("complete", "report"):
            for _ in self.store.rows(table):
                pass
        return self._envelopes()

    def _envelopes(self) -> Iterator[bytes]:
        """Yield envelopes, each checked again; fewer than agreed, and an error, if one is not."""
        left = self.complete()

        def intact(*row: bytes) -> bool:
            return self.store.digest("report", row[:-1]) == row[-1]

        with self.store.read() as connection:
            connection.create_function("intact", 4, intact)
            rows = connection.execute(
                "SELECT part FROM report JOIN complete USING (id)"
                " WHERE intact(id, token, part, report.digest) ORDER BY part"
            )
            while some := rows.fetchmany(_CHUNK):
                left -= len(some)
                yield b"".join(part for (part,) in some)
            if left:
                raise StoreError("storeDamaged", f"the store is damaged: {left} envelopes are gone")

    def forget(self) -> None:
        """Delete all envelopes and ids, for good: the batch is stored, or nobody will ask for one.

        Digests of tokens go too: nobody can report to a closed task.

        Raises
        ------
        Refused
            Before the task is closed. And while somebody reads the batch: traces of it are on disk
            until this was done again.
        """
        self._need_closed()
        self.collection.close()

        def work(writing: Writing) -> None:
            writing.note(_SENT, str(writing.count("report")))
            writing.clear("report", "complete")

        self.store.write(work).result()
        if not self.store.shrink():
            raise Refused("storeBusy", "the batch is being read; ask again")

    def _need_closed(self) -> None:
        if not self.collection.closed:
            raise Refused("taskOpen", "the task is open: close it first, or wait")

    def close(self) -> None:
        """End: finish what waits."""
        self.store.close()
