"""The analyzer: collects clear shares, asks the shufflers for the rest, and releases one sum.

Each step of a release is on disk before the next begins, and each can be done again: an analyzer
that is killed goes on where it was. It uses complete reports alone; with fewer than the guarantee
counts on it stops, for good. It releases once.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from ikos.deployment import collection, hpke
from ikos.deployment.collection import Collection
from ikos.deployment.parallel import MOST, at_once
from ikos.deployment.party_files import AnalyzerSeat
from ikos.deployment.reports import ID_BYTES
from ikos.deployment.store import Store, Writing
from ikos.modular import Zq
from ikos.results import SumResult
from ikos.shuffling import View

__all__ = ["Analyzer", "Stopped", "result_json"]

SCHEMA = (
    collection.SCHEMA
    + """
CREATE TABLE IF NOT EXISTS complete (
    id BLOB PRIMARY KEY NOT NULL, digest BLOB NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS batch (
    party INTEGER PRIMARY KEY, envelopes BLOB NOT NULL, digest BLOB NOT NULL
);
"""
)
_AGREED = "agreed"
_STOPPED = "stopped"
_RESULT = "result"
_DISCARDED = "discarded"
_SHRUNK = "shrunk"
_LISTS = 4  # of ids that are in memory together

_T = TypeVar("_T")


class Stopped(Exception):  # noqa: N818
    """A task of which nothing will be released, and why.

    Parameters
    ----------
    why : str
        For people.
    left : OSError, optional
        What hinders that all shares are deleted; the next release tries again.
    """

    def __init__(self, why: str, left: OSError | None = None) -> None:
        super().__init__(why)
        self.left = left


class Column(Protocol):
    """A shuffler, as the analyzer speaks to it; each may raise OSError and be asked again."""

    def close(self) -> None:
        """Close the task."""

    def ids(self) -> bytes:
        """Return the ids of its reports, in order."""

    def agree(self, ids: bytes) -> None:
        """Tell it which reports are complete."""

    def batch(self, limit: int) -> bytes:
        """Return the envelopes of the complete reports; more than ``limit`` bytes are refused."""

    def forget(self) -> None:
        """Tell it that the batch is stored."""


class Analyzer:
    """The analyzer of one task.

    Parameters
    ----------
    seat : AnalyzerSeat
        What it knows.
    columns : sequence of Column
        The shufflers, in order.
    """

    def __init__(self, seat: AnalyzerSeat, columns: Sequence[Column]) -> None:
        if len(columns) != seat.seat.task.columns:
            raise ValueError(
                f"columns must be {seat.seat.task.columns} shufflers, got {len(columns)}"
            )
        self.seat = seat.seat
        self.task = seat.seat.task
        self.store = Store(seat.seat, SCHEMA)
        self.collection = Collection(seat.seat, self.store)
        self.columns = tuple(columns)
        self._key = seat.key
        self._releasing = threading.Lock()

    @property
    def state(self) -> str:
        """``collecting``, ``closed``, ``agreed``, ``stopped`` or ``released``."""
        for fact, state in ((_RESULT, "released"), (_STOPPED, "stopped"), (_AGREED, "agreed")):
            if self.collection.fact(fact) is not None:
                return state
        return "closed" if self.collection.closed else "collecting"

    def reports(self) -> int:
        """Return how many clear shares were accepted."""
        noted = self.collection.fact("reports")
        return self.collection.count() if noted is None else int(noted)

    def complete(self) -> int | None:
        """Return how many reports are complete, once it is known."""
        noted = self.collection.fact("complete")
        return None if noted is None else int(noted)

    def why_stopped(self) -> str | None:
        """Return why nothing will be released, if so."""
        return self.collection.fact(_STOPPED)

    def result(self) -> dict[str, Any] | None:
        """Return the result, once it was released, as `result_json` made it."""
        noted = self.collection.fact(_RESULT)
        return None if noted is None else dict(json.loads(noted))

    @property
    def over(self) -> bool:
        """Whether nothing is left to be done: no share is on the disk any more."""
        fact = _SHRUNK if self.result() is not None else _DISCARDED
        return self.collection.fact(fact) is not None

    def close(self) -> None:
        """Close the task here and at all shufflers.

        Raises
        ------
        OSError
            If one does not answer; the others were told. To be done again.
        """
        self.collection.close()
        self._tell(lambda column: column.close())

    def _ask(
        self,
        ask: Callable[[Column], _T],
        parties: Sequence[int] | None = None,
        most: int = MOST,
    ) -> Iterator[tuple[int, _T]]:
        """Ask shufflers, all unless named, at once; OSError at the end where one did not answer."""
        numbers = range(1, self.task.columns + 1) if parties is None else parties
        missing = {}
        for party, found in at_once(lambda party: ask(self.columns[party - 1]), numbers, most):
            if isinstance(found, OSError):
                missing[party] = str(found)
            else:
                yield party, found
        if missing:
            raise OSError("; ".join(missing[party] for party in sorted(missing)))

    def _tell(self, tell: Callable[[Column], None], parties: Sequence[int] | None = None) -> None:
        for _ in self._ask(tell, parties):
            pass

    def release(self, progress: Callable[[str], None] | None = None) -> dict[str, Any]:
        """Return the result: the sum of complete reports, with its guarantee.

        Parameters
        ----------
        progress : callable
            Told each step as it begins.

        Raises
        ------
        Stopped
            If nothing will ever be released.
        OSError
            If a shuffler does not answer or refuses for now, or if the store is being read, so
            that what is deleted cannot be erased; to be done again.
        """
        progress = progress or (lambda _: None)
        with self._releasing:
            found = self.result()
            if found is not None:
                if not self.over:
                    self._shrink()
                return found
            try:
                return self._release(progress)
            except Stopped as stopped:
                if not self.over:
                    progress("deleting all shares")
                    stopped.left = self._discard()
                raise

    def _release(self, progress: Callable[[str], None]) -> dict[str, Any]:
        why = self.why_stopped()
        if why is not None:
            raise Stopped(why)
        progress("closing")
        self.close()
        ids = self._agreed() or self._agree(progress)
        self._fetch(ids, progress)
        progress("adding up")
        return self._conclude(self._sum(ids))

    def _stop(self, why: str) -> Stopped:
        return Stopped(self.collection.note(_STOPPED, why).result())

    def _discard(self) -> OSError | None:
        """Delete all shares, here and at the shufflers; return what hinders it, for now."""
        try:
            self.store.write(_delete).result()
            self._shrink()
            self._tell(lambda column: column.forget())
            self.collection.note(_DISCARDED, "yes").result()
        except OSError as error:
            return error
        return None

    def _agreed(self) -> list[bytes]:
        if self.collection.fact(_AGREED) is None:
            return []
        return [number for (number,) in self.store.rows("complete")]

    def _agree(self, progress: Callable[[str], None]) -> list[bytes]:
        """Find the complete reports: their ids are at all parties."""
        progress("asking the shufflers for their reports")
        complete = set(self.collection.ids())
        for party, data in self._ask(lambda column: column.ids(), most=_LISTS):
            if len(data) % ID_BYTES:
                raise self._stop(f"shuffler {party} sent ids that are none; nothing is released")
            complete.intersection_update(
                data[i : i + ID_BYTES] for i in range(0, len(data), ID_BYTES)
            )
        ids = sorted(complete)

        def work(writing: Writing) -> None:
            writing.note("complete", str(len(ids)))
            writing.note("reports", str(writing.count("report")))
            if len(ids) < self.task.min_reports:
                few = (
                    f"{len(ids):,} reports are complete, and nothing is released for fewer than "
                    f"{self.task.min_reports:,}"
                )
                writing.note(_STOPPED, few)
            else:
                writing.note(_AGREED, "yes")
                for number in ids:
                    writing.insert("complete", number)

        self.store.write(work).result()
        why = self.why_stopped()
        if why is not None:
            raise Stopped(why)
        return ids

    def _fetch(self, ids: list[bytes], progress: Callable[[str], None]) -> None:
        """Store the batches of all shufflers, and let them forget theirs."""
        stored = {party for party, _ in self.store.rows("batch")}
        missing = [party for party in range(1, self.task.columns + 1) if party not in stored]
        if missing:
            progress("telling the shufflers which reports are complete")
            data = b"".join(ids)
            self._tell(lambda column: column.agree(data), missing)
        length = len(ids) * hpke.size(self.task)
        for party in missing:  # one by one: a batch may be a gigabyte
            progress(f"receiving the batch of shuffler {party}")
            data = self.columns[party - 1].batch(length)
            if len(data) != length:  # cut on the way, perhaps: it still has all of them
                raise OSError(
                    f"shuffler {party} released {len(data):,} bytes instead of {length:,}"
                )
            self.store.write(_insert(party, data)).result()
        progress("telling the shufflers that their batches are stored")
        self._tell(lambda column: column.forget())

    def _sum(self, ids: list[bytes]) -> SumResult:
        group = Zq(self.task.modulus)
        with closing(self.store.rows("batch")) as rows:  # what is being read is not erased
            columns = [self._opened(party, data, group) for party, data in rows]
        complete, own = set(ids), np.empty(len(ids), dtype=group.dtype)
        own[:] = [
            hpke.read_clear(part, self.task)  # each was read when it came
            for number, _, part in self.store.rows("report")
            if number in complete
        ]
        return self.task.protocol.analyze(View((*columns, own), None))

    def _opened(self, party: int, data: bytes, group: Zq) -> NDArray[Any]:
        """Return the shares in a batch."""
        size = hpke.size(self.task)
        sealed = [data[start : start + size] for start in range(0, len(data), size)]
        shares, unopened = [], len(sealed) - len(set(sealed))
        for envelope in sealed:
            try:
                shares.append(hpke.unseal(envelope, self._key, self.task, party))
            except ValueError:
                unopened += 1
        if unopened:
            raise self._stop(
                f"of the envelopes of shuffler {party} {unopened:,} do not open, or are there "
                "twice; nothing is released, and nobody can tell whose they are"
            )
        found = np.empty(len(shares), dtype=group.dtype)
        found[:] = shares
        return found

    def _conclude(self, result: SumResult) -> dict[str, Any]:
        """Note the result, and delete all shares, at once."""
        text = json.dumps(result_json(result), allow_nan=False)

        def work(writing: Writing) -> None:
            writing.note(_RESULT, text)
            _delete(writing)

        self.store.write(work).result()
        self._shrink()
        return dict(json.loads(text))

    def _shrink(self) -> None:
        """Leave nothing on the disk of what was deleted."""
        if not self.store.shrink():
            raise OSError("what was deleted is still on the disk: somebody reads the store")
        self.collection.note(_SHRUNK, "yes").result()

    def end(self) -> None:
        """End: finish what waits."""
        self.store.close()


def _delete(writing: Writing) -> None:
    writing.clear("report", "batch", "complete")


def _insert(party: int, data: bytes) -> Callable[[Writing], None]:
    return lambda writing: writing.insert("batch", party, data)


def result_json(result: SumResult) -> dict[str, Any]:
    """Return a result as it is published.

    ``estimate`` of the sum, ``sum_low`` and ``sum_high`` (95 %), ``mean``, ``standard_error``,
    ``users``, ``epsilon``, ``delta``, ``theorem``, ``conditions``, ``text`` for people.
    """
    guarantee = result.guarantee
    low: float | None
    high: float | None
    try:
        low, high = result.interval(0.95)
    except ValueError:  # wrapped around with a probability that leaves none
        low = high = None
    return {
        "estimate": result.estimate,
        "sum_low": low,
        "sum_high": high,
        "mean": result.mean(),
        "standard_error": result.standard_error,
        "users": result.users,
        "epsilon": guarantee.epsilon,
        "delta": guarantee.delta,
        "theorem": guarantee.theorem,
        "conditions": list(guarantee.conditions),
        "text": str(result),
    }
