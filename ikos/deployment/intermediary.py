"""A party between clients and the analyzer, whatever it releases of clients' parts.

In each window it releases one set of reports, once, and only after all other intermediaries
of the task have confirmed that they agreed to the same set: from different sets an analyzer could
learn more than one sum.
"""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import suppress
from operator import methodcaller
from typing import Any, ClassVar

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from ikos.deployment.endpoint import EXPIRED, Endpoint, PartyEndpoints, split_ids
from ikos.deployment.limits import Addresses
from ikos.deployment.remote import in_parallel
from ikos.deployment.service import BYTES, Service
from ikos.deployment.store import REPORTS, Writing
from ikos.deployment.task import Task, Window
from ikos.deployment.wire import Agreement, Problem, ShufflerStatus

AGREED = "agreed"
SENT = "sent"


def agreed_digest(window: Window, ids: bytes) -> str:
    """Return what intermediaries compare: SHA-256 of the window and of complete reports' ids."""
    return hashlib.sha256(b"ikos-parties 3 batch" + window.bound + ids).hexdigest()


class Intermediary(Endpoint):
    """A party between clients and the analyzer, of one window."""

    over_fact: ClassVar[str] = REPORTS

    def released_bytes(self, reports: int) -> int:
        """Return the length of the release of this many reports."""
        return self.task.transport.batch_bytes(self.task, reports)

    @abstractmethod
    def batch(self) -> Iterator[bytes]:
        """Return the release of the complete reports, in pieces.

        Raises `Problem` unless all others agreed to the same batch, and after its deletion.
        """

    def resume(self) -> None:
        """Resume a deletion that was interrupted, if there is room on the disk."""
        if self.deleted:
            with suppress(OSError):
                self.store.shrink()

    @property
    def deleted(self) -> bool:
        """Whether all parts were deleted, which also noted their number."""
        return self.fact(REPORTS) is not None

    @property
    def state(self) -> str:
        """``collecting``, ``closed``, ``agreed``; all ``deleted``, or the batch ``sent`` before."""
        if self.deleted:
            return "deleted" if self.fact(SENT) is None else "sent"
        return super().state if self.agreement() is None else "agreed"

    def status(self) -> ShufflerStatus:
        """Return its public status."""
        return ShufflerStatus(**self._public())

    def ids(self) -> bytes:
        """Return the ids of all reports, in byte order; raises `Problem` while the task is open."""
        self._close_for_good()
        ids = b"".join(self.intake.ids())
        self.write(check_kept).result()
        return ids

    def examine(self, receipts: bytes) -> bytes:
        """Return the ids of reports whose receipts do not fit the parts here."""
        del receipts
        raise Problem("notFound", "no receipts are checked here")

    def eligible(self, writing: Writing) -> set[bytes]:
        """Return the ids of the reports that may be in a batch."""
        return self.intake.known(writing).ids

    def agree(self, data: bytes) -> str:
        """Note once which reports are complete; return the digest. All must be here."""
        self._close_for_good()
        least = self.task.min_reports
        try:
            ids = split_ids(data)
            if len(ids) < least:
                raise ValueError(f"a batch must be of at least {least} reports, got {len(ids)}")
        except ValueError as error:
            raise Problem("batchRejected", str(error)) from None
        digest = agreed_digest(self.window, data)

        def work(writing: Writing) -> str:
            if (earlier := writing.fact(AGREED)) is not None:
                return earlier
            check_kept(writing)
            if not self.eligible(writing).issuperset(ids):
                raise Problem("batchRejected", "some reports of the batch are not here")
            writing.insert("complete", data, count=len(ids))
            return writing.note(AGREED, digest)

        if self.write(work).result() != digest:
            raise Problem("batchRejected", "another batch was agreed before")
        self.log("batch agreed")
        return digest

    def _ask(self, other: int) -> str | None:
        """Return the digest of the batch to which another intermediary agreed, if any."""
        return self.peer(other).agreement()

    def agreement(self) -> str | None:
        """Return the digest of the agreed batch, if any."""
        return self.fact(AGREED)

    def check_agreed(self) -> None:
        """Raise `Problem` unless all others agreed to the same batch, and after its deletion."""
        self.write(check_kept).result()
        mine = self.agreement()
        if mine is None:
            raise Problem("notAgreed", "no batch was agreed")
        for other, theirs in sorted(in_parallel(self._ask, self.others)):
            if isinstance(theirs, OSError):
                raise Problem("peerUnreachable", str(theirs))
            if theirs != mine:
                who = self.task.party_name(other)
                raise Problem("notAgreed", f"{who} has not agreed to the same batch")

    def forget(self) -> None:
        """Delete all parts, ids and digests of tokens.

        The analyzer has added up the batch, or will never ask for one. Raises `Problem` while the
        task is open. StoreError while a reader holds the store: traces stay on disk until this is
        repeated.
        """
        self._close_for_good()
        self.write(self.intake.clear).result()
        self.store.shrink()
        self.log("batch deleted")

    def end(self) -> None:
        """End; no work is in progress."""

    def _close_for_good(self) -> None:
        """Refuse if the task is open; if the clock closed it, make that final."""
        if not self.closed:
            raise Problem("taskOpen", "the task is open: close it first, or wait")
        self.close()


def check_kept(writing: Writing) -> None:
    """Refuse if the reports were deleted; if not, those read before are complete."""
    if writing.deleted:
        if writing.fact(EXPIRED) is not None:
            raise Problem("batchExpired", "reports that were not released in time were deleted")
        raise Problem("batchGone", "the batch was deleted by command")


def application(
    parties: Mapping[str, PartyEndpoints[Any]], *, rate: float, addresses: Addresses | None = None
) -> Starlette:
    """Return the ASGI application of intermediaries, by task name."""
    service = Service(parties, rate, addresses)
    return service.application(
        service.command("POST", "/close", methodcaller("close")),
        service.command("GET", "/reports", methodcaller("ids")),
        service.command("PUT", "/receipts", _examined, more=_receipt_bytes),
        service.window_route("GET", "/agreement", _agreement),
        service.command("PUT", "/batch", _agree),
        service.command("GET", "/batch", _batch),
        service.command("DELETE", "/batch", methodcaller("forget")),
    )


def _agreement(intermediary: Intermediary, _: Request) -> Agreement:
    digest = intermediary.agreement()
    if digest is None:
        raise Problem("notFound", "no batch was agreed")
    return Agreement(digest=digest)


def _receipt_bytes(task: Task) -> int:
    return task.transport.receipt_bytes(task)


def _examined(intermediary: Intermediary, receipts: bytes) -> bytes:
    return intermediary.examine(receipts)


def _agree(intermediary: Intermediary, ids: bytes) -> Agreement:
    return Agreement(digest=intermediary.agree(ids))


def _batch(intermediary: Intermediary) -> Response:
    # it shows batches that are cut off; counted first, as the batch may be deleted at any time
    length = intermediary.released_bytes(intermediary.count("complete"))
    headers = {"Content-Length": str(length)}
    return StreamingResponse(intermediary.batch(), headers=headers, media_type=BYTES)
