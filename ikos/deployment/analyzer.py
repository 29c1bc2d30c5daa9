"""The analyzer: collects its own parts, asks shufflers for the rest, releases each window once.

Each step of a release is on disk before the next begins, and can be repeated.
"""

from __future__ import annotations

import json
import logging
import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from itertools import islice
from operator import methodcaller
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import httpx
import scipy.special  # noqa: F401  # for results: loaded now, not in a release
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, Response

from ikos._validation import InvalidValue
from ikos.deployment.endpoint import Endpoint, PartyEndpoints, now, split_ids
from ikos.deployment.limits import Addresses, Rate
from ikos.deployment.party_files import PartyConfig, reason, write_pieces
from ikos.deployment.remote import RemoteShuffler, in_parallel
from ikos.deployment.retry import RetryLoop
from ikos.deployment.service import Service
from ikos.deployment.status_page import Seen, task_page, tasks_page
from ikos.deployment.store import StoreError, Writing, damaged
from ikos.deployment.task import Window
from ikos.deployment.task_fields import MOMENT
from ikos.deployment.terms import Chosen, Opened
from ikos.deployment.wire import (
    ID_BYTES,
    SHOWN,
    AnalyzerStatus,
    Problem,
    Result,
    decoded,
    encoded,
    first_few,
)
from ikos.results.sums import SumResult
from ikos.sums.ledger import BudgetExceeded, Ledger

_ORDERED = "ordered"
_AGREED = "agreed"
_STOPPED = "stopped"
_REFUSED = "refused"
_RESULT = "result"
_OVER = "over"
_LISTS_TOGETHER = 4  # of ids received at the same time
_BATCH_BYTES = 1 << 28  # of batches in memory, or a single one
_STATES_SECONDS = 1.0  # for which shufflers' states are cached
_PAGE_RATE = 4.0  # times a second that pages ask shufflers, for all tasks and windows

_T = TypeVar("_T")


class Stopped(Exception):  # noqa: N818
    """Nothing in this window will ever be released, and why; all its shares are deleted."""


class _Expired(OSError):  # noqa: N818
    """A shuffler deleted its reports as they were not released in time: retrying is useless."""


class AnalyzerEndpoint(Endpoint):
    """The analyzer of one window."""

    over_fact: ClassVar[str] = _OVER

    def __init__(self, party: PartyEndpoints[Any], window: Window) -> None:
        super().__init__(party, window)
        self._releasing, self._asking = threading.Lock(), threading.Lock()
        name = f"task {self.task.name}, window {window.number}: release"
        self._work = RetryLoop(name, self._go_on, lambda *took: self.store.timed(*took))
        self._checked: tuple[dict[bytes, bytes], dict[bytes, int]] | None = None  # once closed
        self.latest_states: list[Seen] = [(None, "")] * self.task.columns
        self._asked = -math.inf

    def stored(self, number: bytes, part: bytes) -> bytes:
        """Return a part; ValueError for one that would later stop the release."""
        del number
        self.task.transport.check(self.task, part)
        return part

    @property
    def state(self) -> str:
        """``collecting``, ``closed``, ``agreed``, ``stopped`` or ``released``."""
        for fact, state in ((_RESULT, "released"), (_STOPPED, "stopped"), (_AGREED, "agreed")):
            if self.fact(fact) is not None:
                return state
        return super().state

    def result(self) -> Result | None:
        """Return the result, if it was released."""
        noted = self.fact(_RESULT)
        return None if noted is None else Result.model_validate_json(noted)

    @property
    def over(self) -> bool:
        """Whether all is done: no share is left on disk."""
        return self.fact(_OVER) is not None

    def status(self) -> AnalyzerStatus:
        """Return the public status of the analyzer."""
        release, complete, refused = self._work.now, self.fact("complete"), self.refused()
        messages = filter(None, (self.fact(_STOPPED), release.message))
        return AnalyzerStatus(
            **self._public(),
            complete=None if complete is None else int(complete),
            refused=len(refused),
            refusals=dict(islice(refused.items(), SHOWN)),
            release=release.model_copy(update={"message": "; ".join(messages) or None}),
            result=self.result(),
        )

    def refused(self) -> dict[str, int]:
        """Return which reports were refused, if that is known, and the party that refused each."""
        noted: dict[str, int] = json.loads(self.fact(_REFUSED) or "{}")
        return noted

    def certificate(self) -> Response:
        """Return the file by which others can check the result."""
        if not self._certificate.exists():
            raise Problem("notFound", "there is no certificate")
        return FileResponse(self._certificate, media_type="text/plain; charset=us-ascii")

    @property
    def _certificate(self) -> Path:
        return self.config.folder / f"certificate-{self.window.number}"

    def states(self) -> list[Seen]:
        """Return the status of each shuffler, if it answers, and what is wrong with it, if so."""
        if self._asking.acquire(blocking=False):  # one thread asks for all requests
            try:
                if time.monotonic() - self._asked > _STATES_SECONDS:
                    self.latest_states = [
                        (None, str(answer)) if isinstance(answer, OSError) else answer
                        for _, answer in sorted(in_parallel(self.look, self.others))
                    ]
                    self._asked = time.monotonic()
            finally:
                self._asking.release()
        return self.latest_states

    def unreachable(self) -> list[str]:
        """Return why this party, or a shuffler, cannot reach a shuffler."""
        answers = sorted(in_parallel(lambda j: self.peer(j).unreachable(), self.others))
        errors = [str(answer) for _, answer in answers if isinstance(answer, OSError)]
        lists = ((j, words) for j, words in answers if isinstance(words, list) and words)
        name = self.task.party_name
        return errors or [f"{name(j)} says: {'; '.join(words)}" for j, words in lists]

    def resume(self) -> None:
        """Resume a release or closing that was requested before the process ended."""
        if not self.over and (self.fact(_ORDERED) is not None or self.closed_by_order):
            self._work.begin()

    def expire(self, moment: datetime) -> bool:
        """Stop a window that was not released in time, here and at the shufflers."""
        if not self._releasing.acquire(blocking=False):  # not in the middle of a release
            return False
        settled = self._settled
        try:
            return super().expire(moment)
        finally:
            self._releasing.release()
            if not settled and self.expired and not self.over:  # also after a StoreError
                self._work.begin()  # which deletes, as it is stopped, and retries by itself

    def _expire(self, writing: Writing) -> bool:
        deleted = super()._expire(writing)
        if deleted:
            writing.note(_ORDERED, "yes")
            writing.note(_STOPPED, f"not released by {self.expires:{MOMENT}}, and deleted")
        return deleted

    def order_close(self) -> AnalyzerStatus:
        """Close the task at all parties; return those that do not answer, to be notified later."""
        missing = None
        try:
            self.close_all()
        except StoreError:
            raise
        except OSError as error:
            self._work.begin()
            missing = str(error)
        return self.status().model_copy(update={"missing": missing})

    def order_release(self) -> Response:
        """Begin or resume a release; the status tells its progress."""
        if not self.over:
            self.note(_ORDERED, "yes").result()
            self._work.begin()
        return JSONResponse(self.status().model_dump(), 202)

    def _go_on(self, step: Callable[[str], None]) -> None:
        """Close and release as requested, from the step where an earlier attempt stopped."""
        if self.over:
            return
        if self.fact(_ORDERED) is None:
            step("closing")
            self.close_all()
            return
        try:
            self.release(step)
            self.log("result released")
        except Stopped as stopped:
            self.log(f"release stopped: {stopped}", logging.WARNING)

    def _ask(
        self, ask: Callable[[RemoteShuffler], _T], parties: Sequence[int], most: int = 32
    ) -> Iterator[tuple[int, _T]]:
        """Ask shufflers in parallel; OSError at the end if one did not answer."""
        missing = {}
        for party, answer in in_parallel(lambda j: ask(self.peer(j)), parties, most):
            if isinstance(answer, OSError):
                missing[party] = answer
            else:
                yield party, answer
        if missing:
            names = {getattr(error, "name", "") for error in missing.values()}
            expired = "batchExpired" in names
            words = "; ".join(first_few([str(missing[party]) for party in sorted(missing)]))
            raise _Expired(words) if expired else OSError(words)

    def close_all(self) -> None:
        """Close the task here and at all shufflers; OSError if one did not answer: call again."""
        self.close()
        list(self._ask(lambda column: column.close(), self.others))

    def release(self, progress: Callable[[str], None] = lambda _: None) -> Result:
        """Return the result; Stopped if there will be none, OSError if it must be called again."""
        with self._releasing:
            if self.fact(_RESULT) is None and self.fact(_STOPPED) is None:
                with suppress(Stopped):
                    try:
                        self._release(progress)
                    except _Expired as expired:
                        raise self._stop(f"{expired}; nothing is released") from None
            if not self.over:
                progress("deleting all shares")
                self._delete()
        result = self.result()
        if result is None:
            raise Stopped(self.fact(_STOPPED))
        return result

    def _release(self, progress: Callable[[str], None]) -> None:
        progress("closing")
        self.close_all()
        ids = self._agree(progress) if self.fact(_AGREED) is None else self.complete_ids()
        chosen = self._chosen(ids)
        self._enter()
        self._open_batches(chosen, progress)
        progress("adding up")
        result = self._sum(chosen)
        self._certify(chosen)
        self._conclude(result)

    def _stop(self, why: str) -> Stopped:
        return Stopped(self.note(_STOPPED, why).result())

    def _agree(self, progress: Callable[[str], None]) -> list[bytes]:
        """Find the complete reports, whose ids are at all parties, and which none refuses."""
        receipts, refused = self._valid(progress)
        progress(f"asking {self._all} for their reports")
        here, few, name = set(receipts), {}, self.task.party_name
        complete, least = here, self.task.min_reports
        for party, data in self._ask(lambda column: column.ids(), self.others, _LISTS_TOGETHER):
            try:
                common = here.intersection(split_ids(data))
            except ValueError as error:
                raise self._stop(f"{name(party)}: {error}; nothing is released") from None
            if len(common) < least <= len(here):
                few[party] = f"; {name(party)} has {len(common):,} of the {len(here):,} here"
            complete = complete & common
        if self.task.transport.receipt_bytes(self.task) and len(complete) >= least:
            progress(f"asking {self._all} to check the reports")
            refused = {**self._examined(complete, receipts), **refused}
        ids, why = sorted(complete - set(refused)), "".join(few[party] for party in sorted(few))
        if refused:
            why += f"; {len(refused):,} were refused"

        def work(writing: Writing) -> str | None:
            writing.note("complete", str(len(ids)))
            if refused:
                named = {encoded(number): refused[number] for number in sorted(refused)}
                writing.note(_REFUSED, json.dumps(named))
            if len(ids) < least:
                return writing.note(
                    _STOPPED,
                    f"{len(ids):,} reports are complete, and nothing is released for fewer than "
                    f"{least:,}{why}",
                )
            writing.note(_AGREED, "yes")
            writing.insert("complete", b"".join(ids), count=len(ids))
            return None

        stopped = self.write(work).result()
        self._checked = None
        if stopped is not None:
            raise Stopped(stopped)
        return ids

    def _valid(
        self, progress: Callable[[str], None]
    ) -> tuple[dict[bytes, bytes], dict[bytes, int]]:
        """Return the receipts of valid reports, and which others this party refuses."""
        if self._checked is None:
            progress("checking reports")
            reports = ((number, part) for number, _, part in self.intake.reports())
            found = dict(self.task.transport.receipts(self.window, reports))
            refused = [number for number, receipt in found.items() if receipt is None]
            self.name_refused(refused, "its proof or opening is not valid")
            valid = {number: receipt for number, receipt in found.items() if receipt is not None}
            self._checked = valid, dict.fromkeys(refused, 0)
        return self._checked

    def _examined(self, complete: set[bytes], receipts: dict[bytes, bytes]) -> dict[bytes, int]:
        """Return which of some reports other parties refuse, given the receipts of all."""
        told = b"".join(number + receipts[number] for number in sorted(complete))
        found = dict[int, list[bytes]]()
        for party, data in self._ask(lambda column: column.examine(told), self.others):
            name = self.task.party_name(party)
            try:
                found[party] = split_ids(data)
                if not complete.issuperset(found[party]):
                    raise InvalidValue("ids", "must be those of reports that were handed on")
            except ValueError as error:
                raise self._stop(f"{name}, refused reports: {error}") from None
            self.name_refused(found[party], f"{name} refuses its opening")
        return {number: party for party in sorted(found, reverse=True) for number in found[party]}

    def _enter(self) -> None:
        """Record the release in the ledger, once; Stopped if it would exceed the budget."""
        if self.config.ledger is None:
            return
        key, note = self.window.path, self.config.note
        note = f"{note}, window {self.window.number}" if note else key
        try:
            Ledger(self.config.ledger).enter_run(self.task.protocol, key=key, note=note)
        except BudgetExceeded as error:
            raise self._stop(f"the ledger refuses this release: {error}") from None
        except (OSError, ValueError) as error:  # for an operator to repair
            self.log(f"ledger: {error}", logging.WARNING)
            raise OSError("the ledger cannot be used; the analyzer's log says why") from None

    def _chosen(self, ids: list[bytes]) -> Chosen:
        places = {number: place for place, number in enumerate(ids)}

        def parts() -> Iterator[tuple[int, bytes]]:
            found = 0
            for number, _, part in self.intake.reports():
                if number in places:
                    yield places[number], part
                    found += 1
            if found != len(ids):
                raise damaged(f"only {found} of {len(ids)} complete reports are stored")

        return Chosen(ids, parts, [decoded(text, ID_BYTES) for text in self.refused()])

    def _open_batches(self, chosen: Chosen, progress: Callable[[str], None]) -> None:
        """Decrypt the batches of all shufflers, store the sums, and let shufflers delete theirs."""
        opened = {party for party, *_ in self.rows("opened")}
        missing = [party for party in self.others if party not in opened]
        if missing:
            progress(f"telling {self._all} which reports are complete")
            agreed = b"".join(chosen.ids)
            list(self._ask(lambda column: column.agree(agreed), self.others))
        terms, keys = self.task.transport, self.config.keys
        length = terms.batch_bytes(self.task, len(chosen.ids))
        together = max(1, _BATCH_BYTES // length)
        read_key = partial(keys.read, self.window.key)
        with terms.opener(self.window, read_key, len(missing), chosen) as open_batch:
            for start in range(0, len(missing), together):
                waiting = missing[start : start + together]
                progress(self._receiving(waiting))
                for party, data in self._ask(partial(_batch, length=length), list(waiting), most=2):
                    progress(f"opening the batch of {self.task.party_name(party)}")
                    try:
                        sums, rest = open_batch(party, data)
                    except ValueError as error:
                        raise self._stop(f"{error}; nothing is released") from None
                    row = party, json.dumps(sums), rest
                    self.write(methodcaller("insert", "opened", *row)).result()
                    del data  # before the next one comes
                    waiting.remove(party)
                    if waiting:
                        progress(self._receiving(waiting))
        progress(f"telling {self._all} that their batches are added up")
        list(self._ask(lambda column: column.forget(), self.others))

    def _opened(self) -> list[Opened]:
        """Return what batches held, in the order of parties."""
        opened = [(json.loads(sums), rest) for _, sums, rest in self.rows("opened")]
        if len(opened) != self.task.columns:
            raise damaged("sums of batches are missing")
        return opened

    def _sum(self, chosen: Chosen) -> SumResult:
        terms = self.task.transport
        return terms.result(self.task, terms.totals(self.window, self._opened(), chosen))

    def _certify(self, chosen: Chosen) -> None:
        """Write the certificate, if there is one, before there is a result."""
        if (key := self.config.signing) is None:
            return
        pieces = self.task.transport.certificate(self.window, self._opened(), chosen, key.sign)
        try:
            write_pieces(self._certificate, pieces)
        except OSError as error:
            raise OSError(f"the certificate cannot be written: {reason(error)}") from None

    def _conclude(self, result: SumResult) -> None:
        """Record the result and delete all shares, in one transaction."""
        text = Result.of(result).model_dump_json()

        def work(writing: Writing) -> None:
            writing.note(_RESULT, text)
            self.intake.clear(writing)

        self.write(work).result()

    def _delete(self) -> None:
        """Delete all shares left on disk; OSError if it must be called again."""
        self.write(self.intake.clear).result()
        self.store.shrink()
        if self.fact(_RESULT) is None:
            list(self._ask(lambda column: column.forget(), self.others))
        self.note(_OVER, "yes").result()

    def end(self) -> None:
        """Start no new attempts."""
        self._work.end()

    @property
    def _all(self) -> str:
        """All parties beside the analyzer, in words."""
        return f"the {self.task.transport.intermediary}s"

    def _receiving(self, parties: Sequence[int]) -> str:
        """Return the step of waiting for the batches of some of them."""
        some = f"{self.task.transport.intermediary}s {', '.join(map(str, parties))}"
        return f"receiving batches of {some}"


def _batch(column: RemoteShuffler, length: int) -> bytes:
    """Return a shuffler's batch; OSError if it has another length."""
    data = column.batch(length)
    if len(data) != length:  # perhaps cut off on the way: the shuffler still has all of it
        raise OSError(f"{column.name} released {len(data):,} bytes, not {length:,}")
    return data


def analyzer(config: PartyConfig, client: httpx.Client) -> PartyEndpoints[AnalyzerEndpoint]:
    """Return an analyzer that asks the shufflers over a connection, and resumes its work."""
    if config.ledger is not None:
        Ledger(config.ledger)  # refused now, not at a release

    def peer(window: Window, party: int) -> RemoteShuffler:
        return RemoteShuffler(client, window, party, config.controls[party - 1])

    return PartyEndpoints(config, AnalyzerEndpoint, peer)


def application(
    analyzers: Mapping[str, PartyEndpoints[AnalyzerEndpoint]],
    *,
    rate: float,
    addresses: Addresses | None = None,
) -> Starlette:
    """Return the ASGI application of the analyzer, for tasks by name."""
    service, asking = Service(analyzers, rate, addresses), Rate(_PAGE_RATE)

    async def tasks(_: Request) -> Response:
        moment = now()
        open_now = [party.at(party.task.current(moment).number) for party in analyzers.values()]
        rows = ((analyzer.window, analyzer.state, analyzer.reports()) for analyzer in open_now)
        return HTMLResponse(tasks_page(rows, moment))

    async def page(analyzer: AnalyzerEndpoint, request: Request) -> Response:
        # strangers may open the pages of all windows, and each asks all shufflers
        allowed = asking.allows()
        states = await run_in_threadpool(analyzer.states) if allowed else analyzer.latest_states
        latest = service.party(request).latest()
        bars = [(other.window, other.state, other.reports()) for other in latest]
        return HTMLResponse(task_page(analyzer.window, analyzer.status(), states, bars, now()))

    return service.application(
        service.route("GET", "/", tasks),
        service.window_route("GET", "/page", page),
        service.window_route("GET", "/certificate", lambda analyzer, _: analyzer.certificate()),
        service.command("POST", "/close", AnalyzerEndpoint.order_close),
        service.command("POST", "/release", AnalyzerEndpoint.order_release),
    )
