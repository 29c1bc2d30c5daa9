"""The intake of a window: clients' parts, each kept once, and on disk before it is acknowledged.

A row of the store has all parts of one write, so that each costs little more than its bytes. Which
ids and tokens were used is kept in memory.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial

from ikos.deployment.store import TABLES, Store, StoreError, Writing, damaged
from ikos.deployment.wire import ID_BYTES, Problem

GATHER_SECONDS = 0.005  # for which a report waits for others, to share a write
_TOKEN_BYTES = 32
_ROW_BYTES = 1 << 20

Report = tuple[bytes, bytes, bytes]
"""A client's id, the digest of its token, and its part."""


@dataclass
class _Known:
    """The ids of reports, and a digest of each id and part by its token."""

    ids: set[bytes] = field(default_factory=set)
    tokens: dict[bytes, bytes] = field(default_factory=dict)

    def answer(self, report: Report, refusal: Problem | None, new: list[Report]) -> bool | Problem:
        """Return whether a report is new, or why it is refused; add it here and to ``new``."""
        number, token, part = report
        digest = hashlib.sha256(number + part).digest()
        if number in self.ids or token in self.tokens:
            if self.tokens.get(token) == digest:
                return False
            words = "this report id or token was already used with different content"
            return Problem("reportRejected", words)
        if refusal is not None:
            return refusal
        self.ids.add(number)
        self.tokens[token] = digest
        new.append(report)
        return True

    def drop(self, reports: Sequence[Report]) -> None:
        """Forget reports that could not be stored."""
        for number, token, _ in reports:
            self.ids.discard(number)
            self.tokens.pop(token, None)


class Intake:
    """The reports of a window, of parts of this size.

    ``refusal``, which is called in the store's thread, returns why a new report is refused, or
    None.
    """

    def __init__(
        self,
        store: Store,
        window: int,
        part_bytes: int,
        refusal: Callable[[Writing], Problem | None],
    ) -> None:
        self._store, self._window, self._refusal = store, window, refusal
        self._size = ID_BYTES + _TOKEN_BYTES + part_bytes
        self._known: _Known | None = None  # of the store's thread
        self._again = -math.inf  # when to read what is known again
        self._pending: list[Report] = []
        self._keeping: asyncio.Task[list[bool | Problem]]  # of those pending, if there are any

    async def receive(self, number: bytes, token: bytes, part: bytes) -> bool:
        """Store a client's id, the digest of its token, and its part; return whether they are new.

        Reports that come within a few milliseconds share a write. One whose client leaves
        meanwhile is stored, as its other parts may be. Raises `Problem` if the report is refused.
        """
        if not self._pending:
            self._keeping = asyncio.create_task(self._keep())
        keeping, place = self._keeping, len(self._pending)
        self._pending.append((number, token, part))
        answer = (await asyncio.shield(keeping))[place]
        if isinstance(answer, Problem):
            raise answer
        return answer

    async def _keep(self) -> list[bool | Problem]:
        """Gather reports for a while, and accept them."""
        await asyncio.sleep(GATHER_SECONDS)
        pending, self._pending = self._pending, []
        return await asyncio.wrap_future(self.accept(pending))

    def accept(self, reports: Sequence[Report]) -> Future[list[bool | Problem]]:
        """Store clients' parts, each once; the result, when they are on disk, tells which are new.

        A part is not new if it came before with the same id and token, even if the window is closed
        by now. Different content under that id or token is refused. After a StoreError none of them
        is stored.
        """

        def work(writing: Writing) -> list[bool | Problem]:
            known, refusal = self.known(writing), self._refusal(writing)
            new = list[Report]()
            writing.undo.append(lambda: known.drop(new))
            answers = [known.answer(report, refusal, new) for report in reports]
            most = max(1, _ROW_BYTES // self._size)
            for start in range(0, len(new), most):
                reports_of_row = new[start : start + most]
                data = b"".join([b"".join(report) for report in reports_of_row])
                writing.insert("report", writing.count("report"), data, count=len(reports_of_row))
            return answers

        return self._store.write(self._window, work)

    def known(self, writing: Writing) -> _Known:
        """Return the ids and tokens of the reports; call this in the store's thread."""
        if writing.deleted:
            return _Known()
        if self._known is None:
            if time.monotonic() < self._again:
                raise damaged("its reports could not be read a moment ago")
            begin, known = time.monotonic(), _Known()
            try:
                for report in self.reports():
                    known.answer(report, None, [])
            except StoreError:  # other writes must not wait for a scan each time
                self._again = time.monotonic() + 9 * (time.monotonic() - begin)
                raise
            self._known = known
        return self._known

    def clear(self, writing: Writing, tables: Sequence[str] = TABLES) -> None:
        """Delete the window's rows, on disk and in memory; call this in the store's thread."""
        writing.undo.append(partial(setattr, self, "_known", self._known))
        writing.clear(tables)
        self._known = None

    def reports(self) -> Iterator[Report]:
        """Yield all reports on disk; StoreError if one was damaged or lost."""
        size, part = self._size, ID_BYTES + _TOKEN_BYTES
        for _, data in self._store.rows(self._window, "report"):
            for start in range(0, len(data), size):
                report = data[start : start + size]
                yield report[:ID_BYTES], report[ID_BYTES:part], report[part:]

    def ids(self) -> list[bytes]:
        """Return all ids, in byte order; StoreError if one was damaged or lost."""
        return sorted(number for number, *_ in self.reports())
