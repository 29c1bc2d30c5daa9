"""A shuffler: collects the envelopes of one column, and releases those of complete reports once.

It cannot open an envelope. In each window it releases those of one set of reports, each block in
the order of their bytes, which does not depend on who sent them or when, and only after all other
shufflers of the task have confirmed that they agreed to the same set: from different sets an
analyzer could learn more than one sum.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial

import httpx
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from ikos.deployment.limits import Addresses
from ikos.deployment.party_files import PartyConfig
from ikos.deployment.remote import RemoteShuffler, in_parallel
from ikos.deployment.service import BYTES, EXPIRED, Endpoint, Party, Service, split_ids
from ikos.deployment.store import REPORTS, Writing, damaged
from ikos.deployment.task import Window
from ikos.deployment.wire import Agreement, Refused, ShufflerStatus

_AGREED = "agreed"
_SENT = "sent"
_CHUNK = 512  # envelopes sent together


def agreed_digest(window: Window, ids: bytes) -> str:
    """Return what shufflers compare: SHA-256 of the window and of all complete reports' ids."""
    return hashlib.sha256(b"ikos-parties 2 batch" + window.bound + ids).hexdigest()


class Shuffler(Endpoint):
    """One shuffler of one window."""

    def resume(self) -> None:
        """Go on with a deletion that was interrupted, if there is room."""
        if self.deleted:
            with suppress(OSError):
                self.store.shrink()

    @property
    def deleted(self) -> bool:
        """Whether all envelopes were deleted, which also noted their number."""
        return self.fact(REPORTS) is not None

    @property
    def state(self) -> str:
        """``collecting``, ``closed``, ``agreed``; all ``deleted``, or the batch ``sent`` before."""
        if self.deleted:
            return "deleted" if self.fact(_SENT) is None else "sent"
        return super().state if self.agreement() is None else "agreed"

    def status(self) -> ShufflerStatus:
        """Return the shuffler's public status."""
        return ShufflerStatus(**self._public())

    def ids(self) -> bytes:
        """Return the ids of all reports, in byte order; Refused while the task is open."""
        self._close_for_good()
        found = b"".join(self.intake.ids())
        self.write(_check_kept).result()
        return found

    def agree(self, data: bytes) -> str:
        """Note once which reports are complete; return the digest. Refused if one is not here."""
        self._close_for_good()
        least = self.task.min_reports
        try:
            ids = split_ids(data)
            if len(ids) < least:
                raise ValueError(f"a batch must be of at least {least} reports, got {len(ids)}")
        except ValueError as error:
            raise Refused("batchRejected", str(error)) from None
        digest = agreed_digest(self.window, data)

        def work(writing: Writing) -> str:
            if (before := writing.fact(_AGREED)) is not None:
                return before
            _check_kept(writing)
            if not self.intake.known(writing).ids.issuperset(ids):
                raise Refused("batchRejected", "some reports of the batch are not here")
            writing.insert("complete", data, count=len(ids))
            return writing.note(_AGREED, digest)

        if self.write(work).result() != digest:
            raise Refused("batchRejected", "another batch was agreed before")
        self.log("batch agreed")
        return digest

    def _ask(self, other: int) -> str | None:
        """Return the digest that another shuffler agreed to, if any."""
        return self.peer(other).agreement()

    def agreement(self) -> str | None:
        """Return the digest that was agreed, if any."""
        return self.fact(_AGREED)

    def batch(self) -> Iterator[bytes]:
        """Return the envelopes of the complete reports: of each block, in byte order, in pieces.

        Refused unless all other shufflers agreed to the same batch, and after it was deleted.
        """
        self.write(_check_kept).result()
        mine = self.agreement()
        if mine is None:
            raise Refused("notAgreed", "no batch was agreed")
        for other, theirs in sorted(in_parallel(self._ask, self.others)):
            if isinstance(theirs, OSError):
                raise Refused("peerUnreachable", str(theirs))
            if theirs != mine:
                raise Refused("notAgreed", f"shuffler {other} has not agreed to the same batch")
        complete = set(self.complete_ids())
        found = [part for number, _, part in self.intake.reports() if number in complete]

        def work(writing: Writing) -> None:
            _check_kept(writing)
            if len(found) == len(complete):
                writing.note(_SENT, "yes")

        self.write(work).result()
        if len(found) != len(complete):
            raise damaged(f"{len(complete) - len(found)} envelopes are gone")
        self.log("batch released")
        return self._envelopes(found)

    def _envelopes(self, parts: Sequence[bytes]) -> Iterator[bytes]:
        first = 0
        for size in map(self.task.block_bytes, range(len(self.task.blocks))):
            envelopes = sorted(part[first : first + size] for part in parts)
            for start in range(0, len(envelopes), _CHUNK):
                yield b"".join(envelopes[start : start + _CHUNK])
            first += size

    def forget(self) -> None:
        """Delete all envelopes, ids and digests of tokens, for good.

        The analyzer has added up the batch, or will never ask for one. Refused while the task is
        open. StoreError while a reader holds the store: traces stay on disk until this is repeated.
        """
        self._close_for_good()
        self.write(self.intake.clear).result()
        self.store.shrink()
        self.log("batch deleted")

    def end(self) -> None:
        """End: nothing is under way."""

    def _close_for_good(self) -> None:
        """Refuse if the task is open; if the clock closed it, make that final."""
        if not self.closed:
            raise Refused("taskOpen", "the task is open: close it first, or wait")
        self.close()


def _check_kept(writing: Writing) -> None:
    """Refuse if all was deleted; if not, in the order of writes, what was read before is whole."""
    if writing.deleted:
        if writing.fact(EXPIRED) is not None:
            raise Refused("batchExpired", "what was not released in time was deleted")
        raise Refused("batchGone", "the batch was deleted by order")


def shuffler(config: PartyConfig, client: httpx.Client) -> Party[Shuffler]:
    """Return a shuffler that asks the others over a connection."""
    return Party(config, partial(Shuffler, peer=partial(RemoteShuffler, client)))


def application(
    shufflers: Mapping[str, Party[Shuffler]], *, rate: float, addresses: Addresses | None = None
) -> Starlette:
    """Return the ASGI application of shufflers, by task name."""
    service = Service(shufflers, rate, addresses)
    return service.application(
        service.command("POST", "/close", Shuffler.close),
        service.command("GET", "/reports", Shuffler.ids),
        service.window_route("GET", "/agreement", _agreement),
        service.command("PUT", "/batch", lambda one, ids: Agreement(digest=one.agree(ids))),
        service.command("GET", "/batch", _batch),
        service.command("DELETE", "/batch", Shuffler.forget),
    )


def _agreement(one: Shuffler, _: Request) -> Agreement:
    digest = one.agreement()
    if digest is None:
        raise Refused("notFound", "no batch was agreed")
    return Agreement(digest=digest)


def _batch(one: Shuffler) -> Response:
    # it shows batches that are cut off; counted first, as the batch may be deleted at any time
    length = {"Content-Length": str(one.count("complete") * one.config.part_bytes)}
    return StreamingResponse(one.batch(), headers=length, media_type=BYTES)
