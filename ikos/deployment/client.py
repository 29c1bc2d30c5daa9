"""A client: makes one report for a task, and sends it until all parties have it.

It never makes a second one: two sharings of a value would reveal more than one, and noise drawn
twice averages out.
"""

from __future__ import annotations

import base64
import hashlib
import os
import random
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from numpy.typing import ArrayLike, NDArray

from ikos._validation import InvalidType, InvalidValue, number, quote
from ikos.data.domains import Bounds
from ikos.deployment import tokens
from ikos.deployment.remote import (
    ANSWER_SECONDS,
    CONNECT_SECONDS,
    RemoteError,
    Untrusted,
    connect,
    exchange,
    open_window,
    problem_of,
)
from ikos.deployment.reports import ClientReport, ReportStore
from ikos.deployment.task import Task, Window
from ikos.deployment.wire import encoded
from ikos.primitives.concurrency import Progress
from ikos.results.sums import at_least

__all__ = ["Client", "Receipt", "Rejected", "Unsent", "submit_many"]

SETTLE_SECONDS = 0.1
"""From the call to the first message: longer than sampling, whose time reveals a little."""

_PAUSE = 0.2
_LONGEST_PAUSE = 5.0
_NEVER = threading.Event()
_AGAIN = {408, 429, 500, 502, 503, 504, 507}


class Rejected(ValueError):  # noqa: N818
    """``party`` refuses the report permanently; ``row`` is its secret's index in `submit_many`."""

    row: int | None = None

    def __init__(self, party: str, name: str, detail: str) -> None:
        super().__init__(f"{party} rejects the report: {detail} ({name})")
        self.party = party
        self.name = name


class Unsent(OSError):  # noqa: N818
    """Some parties do not have the report yet: submit again to send it. ``row``: see `Rejected`."""

    row: int | None = None


@dataclass(frozen=True)
class Receipt:
    """All parties have the report of a window.

    ``again``: an earlier call made the report, and this call's value was not used.
    """

    parties: int
    again: bool
    window: int = 0


def _send(
    http: httpx.Client,
    window: Window,
    secret: bytes,
    report: ClientReport,
    until: float,
    given_up: threading.Event = _NEVER,
) -> None:
    """Send all parts, in a random order; parties count a repeated part once."""
    parties = window.task.parties
    draw, pause = random.SystemRandom(), _PAUSE  # not the generator that the caller may seed
    waiting = draw.sample(range(parties), parties)
    while waiting:
        behind, why = [], ""
        for party in waiting:
            seconds = min(ANSWER_SECONDS, max(CONNECT_SECONDS, until - time.monotonic()))
            try:
                send_part(http, window, secret, report, party, seconds)
            except Untrusted as error:
                raise Unsent(str(error)) from None
            except RemoteError as error:
                behind.append(party)
                why = str(error)
        waiting, seconds = behind, until - time.monotonic()
        if waiting and (seconds <= 0 or given_up.is_set()):
            raise Unsent(
                f"{parties - len(waiting)} of {parties} parties have the report; submit again "
                f"to resume: {why}"
            )
        if waiting:  # many clients waiting for one party do not return at once
            given_up.wait(min(seconds, pause * (0.5 + draw.random())))
            pause = min(2 * pause, _LONGEST_PAUSE)


class Client:
    """One client of one task, with one report for each window.

    Parameters
    ----------
    task : Task
    secret : bytes
        This client's 32 bytes.
    store : Path, optional
        A folder for reports, possibly shared by several clients and tasks. The report is on disk
        before any of it is sent, and a restarted program sends the same one. Without a store, only
        this object remembers the report: never create a second `Client` for the same client.
    ca : Path, optional
        PEM file of the certificate authorities (CAs) to trust, instead of the system's.
    max_epsilon, max_delta : float, optional
        Largest epsilon and delta to accept. The task author chooses the guarantee: a program that
        takes tasks from others must limit it.

    Raises
    ------
    ValueError
        If the task's epsilon or delta is larger than accepted.

    Examples
    --------
    >>> Client(task, secret, store="reports", max_epsilon=1).submit(42)  # doctest: +SKIP
    Receipt(parties=6, again=False, window=0)
    """

    def __init__(
        self,
        task: Task,
        secret: bytes,
        *,
        store: Path | str | None = None,
        ca: Path | None = None,
        max_epsilon: float | Fraction | None = None,
        max_delta: float | Fraction | None = None,
    ) -> None:
        _check_promise(task, max_epsilon, max_delta)
        _check_secret("secret", secret)
        self.task = task
        self._secret = secret
        self._kept = None if store is None else ReportStore(store, task.at(0))
        self._reports: dict[int, ClientReport] = {}
        self._ca, self._process = ca, os.getpid()
        self._making = threading.Lock()  # if threads submit at once, one makes the report

    def begun(self, window: int = 0) -> bool:
        """Whether a window's report was made, by this object or with its store."""
        kept = self._store(self.task.at(window))
        return window in self._reports if kept is None else kept.has(self._secret)

    def _store(self, window: Window) -> ReportStore | None:
        return None if self._kept is None else self._kept.of_window(window)

    def submit(
        self, value: ArrayLike, *, window: int | None = None, timeout: float = 60.0
    ) -> Receipt:
        """Send this client's report of a value; blocks until all parties have it.

        Parameters
        ----------
        value : float, (d,) array_like or str
            In the task's domain, or one of its labels. Not used if a report was made before.
        window : int, optional
            By default the open one; if the task has several, the analyzer is asked which it is. No
            party accepts reports for any other.
        timeout : float
            Seconds to keep trying while parties do not answer; each gets at least five.

        Raises
        ------
        TypeError, ValueError
            If the value is outside the task's domain; nothing was sent.
        Rejected, Unsent
            `Rejected` if a party refuses the report, which then never counts unless it was complete
            before; `Unsent` if a party did not answer in time.
        """
        seconds = number("timeout", timeout, low=0, high=1e6)
        with closing(connect(self._ca)) as http:
            chosen = _window(self.task, window, http)
            begin = time.monotonic()
            with self._making:
                report, again = self._report(chosen, value)
            # the time of the first message reveals nothing about the time of sampling
            time.sleep(max(0.0, begin + SETTLE_SECONDS - time.monotonic()))
            until = begin + SETTLE_SECONDS + seconds
            _send(http, chosen, self._secret, report, until)
        if (kept := self._store(chosen)) is not None:
            kept.mark_sent(self._secret)
        return Receipt(self.task.parties, again, chosen.number)

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("a Client cannot be copied: its copy might make a second report")

    def _report(self, window: Window, value: ArrayLike) -> tuple[ClientReport, bool]:
        """Return the report, kept before it is sent, and whether an earlier call made it."""
        kept = self._store(window)
        if kept is None and os.getpid() != self._process:
            raise RuntimeError("a Client without a store cannot be used in a forked process")
        earlier = self._reports.get(window.number) if kept is None else kept.of(self._secret)
        if earlier is not None:
            return earlier, True
        report = ClientReport.make(window, check_value(self.task, value))
        if kept is not None:
            first = kept.add(self._secret, report)
            return first, first is not report
        self._reports[window.number] = report
        return report, False


def _window(task: Task, number: int | None, http: httpx.Client) -> Window:
    """Return the requested window of a task, by default the open one."""
    if number is None and task.windows > 1:
        try:
            return open_window(http, task)
        except RemoteError as error:
            raise Unsent(str(error)) from None
    return task.at(number or 0)


def _check_secret(name: str, secret: object) -> None:
    """Refuse anything but a client's secret, without quoting it."""
    if not isinstance(secret, bytes):
        raise InvalidType(name, f"must be bytes, got {type(secret).__name__}")
    if len(secret) != tokens.SECRET_BYTES:
        raise InvalidValue(name, f"must be {tokens.SECRET_BYTES} bytes, got {len(secret)}")


def check_value(task: Task, value: ArrayLike) -> Any:
    """Return a value that the task allows, as the protocol reads it."""
    values: Any = [value]
    if isinstance(task.domain, Bounds):
        values = np.empty(1, dtype=object)
        values[0] = value
    try:
        return task.values(values)[0]
    except (InvalidType, InvalidValue) as error:  # these do not quote it
        name = "value" if error.parameter == "x[0]" else error.parameter
        raise type(error)(name, error.what) from None


def _check_promise(
    task: Task, max_epsilon: float | Fraction | None, max_delta: float | Fraction | None
) -> None:
    """Refuse a task whose guarantee is weaker than the client agrees to."""
    promised = {"epsilon": task.epsilon, "delta": Fraction(task.protocol.guarantee.delta)}
    for name, most in (("epsilon", max_epsilon), ("delta", max_delta)):
        if most is not None and number(f"max_{name}", most, low=0) < promised[name]:
            raise InvalidValue(
                f"max_{name}",
                f"must be at least the {name} that the task guarantees, "
                f"{at_least(promised[name], 6)}, got {quote(most)}",
            )


def send_part(
    http: httpx.Client,
    window: Window,
    secret: bytes,
    report: ClientReport,
    party: int,
    seconds: float = ANSWER_SECONDS,
) -> None:
    """Send one party's part, once."""
    part, task = report.parts[party], window.task
    who = task.party_name(party)
    digest = base64.b64encode(hashlib.sha256(part).digest()).decode()
    response = exchange(
        http,
        "PUT",
        f"{task.address(party)}{window.path}/reports/{encoded(report.id)}",
        who,
        content=part,
        headers={
            "Authorization": f"Bearer {tokens.to_text(tokens.for_party(secret, task, party))}",
            "Content-Digest": f"sha-256=:{digest}:",
            "Content-Type": "application/octet-stream",
        },
        seconds=seconds,
    )
    if response.status_code in (200, 201):
        if response.content:  # a page from a proxy: the party kept nothing
            raise RemoteError(f"{who} sent an unexpected answer")
        return
    name, detail = problem_of(response)
    if response.status_code in _AGAIN:
        raise RemoteError(f"{who} refuses for now: {detail} ({name})")
    raise Rejected(who, name, detail)


def submit_many(
    task: Task,
    secrets: Sequence[bytes],
    values: ArrayLike,
    *,
    window: int | None = None,
    store: Path | str | None = None,
    connections: int = 8,
    ca: Path | None = None,
    timeout: float = 60.0,
    progress: Progress | None = None,
    max_epsilon: float | Fraction | None = None,
    max_delta: float | Fraction | None = None,
) -> int:
    """Send the reports of many clients from one machine, and return their number.

    For testing only: the caller sees all values.

    Parameters
    ----------
    task, store, ca, timeout, max_epsilon, max_delta
        As for `Client`. With a store, repeating the call resumes it: reports that some parties lack
        are sent unchanged.
    secrets : sequence of bytes
        One per value, all different.
    values : (k,) or (k, d) array_like
        In the task's domain, or its labels. Not used for clients whose report was made before.
    window : int, optional
        As for `Client.submit`.
    connections : int
        Number of clients that send at once.
    progress : callable, optional
        Called with the number of clients done, in earlier calls too, and the total.

    Raises
    ------
    TypeError, ValueError, Rejected, Unsent
        As for `Client.submit`, for the first client affected; the last two have its ``row``.
    """
    _check_promise(task, max_epsilon, max_delta)
    checked = task.values(values)
    _check_secrets(secrets, len(checked))
    with closing(connect(ca)) as http:
        chosen = _window(task, window, http)
        kept = None if store is None else ReportStore(store, chosen)
        batch = _Batch(http, chosen, secrets, checked, kept, timeout)
        batch.send_all(connections, progress)
    return len(secrets)


def _check_secrets(secrets: Sequence[bytes], count: int) -> None:
    """Refuse secrets that are not different, or not one for each of the values."""
    if len(secrets) != count:
        raise InvalidValue("secrets", f"must be one for each of {count}, got {len(secrets)}")
    for row, secret in enumerate(secrets):
        _check_secret(f"secrets[{row}]", secret)
    if len(set(secrets)) < len(secrets):
        raise InvalidValue("secrets", "must be different: one client sends one report")


class _Batch:
    """The reports of many clients for a window; all are made before any of them is sent.

    After an error no more of them are begun, so that the first client affected is the one named.
    """

    def __init__(
        self,
        http: httpx.Client,
        window: Window,
        secrets: Sequence[bytes],
        values: NDArray[Any],
        kept: ReportStore | None,
        timeout: float,
    ) -> None:
        self._http, self._window, self._secrets = http, window, secrets
        self._kept, self._timeout = kept, timeout
        self._given_up, self._failed = threading.Event(), threading.Event()
        self._reports: dict[int, ClientReport] = {}
        everyone = range(len(secrets))
        self._rows = [i for i in everyone if kept is None or not kept.is_sent(secrets[i])]
        for row in self._rows:
            if kept is not None and (report := kept.of(secrets[row])) is not None:
                self._reports[row] = report
        if new := [row for row in self._rows if row not in self._reports]:
            reports = ClientReport.make_many(window, values[new])
            self._reports |= dict(zip(new, reports, strict=True))

    def send(self, row: int) -> None:
        """Send a client's report, unless that of an earlier client failed."""
        if self._failed.is_set():
            return
        secret, report = self._secrets[row], self._reports[row]
        try:
            if self._kept is not None:
                report = self._kept.add(secret, report)
            until = time.monotonic() + self._timeout
            _send(self._http, self._window, secret, report, until, self._given_up)
            if self._kept is not None:
                self._kept.mark_sent(secret)
        except BaseException as error:
            self._failed.set()
            if isinstance(error, Rejected | Unsent):
                error.row = row
            raise

    def send_all(self, connections: int, progress: Progress | None) -> None:
        """Send the unsent reports, of a number of clients at once."""
        total = len(self._secrets)
        before = total - len(self._rows)
        with ThreadPoolExecutor(connections) as executor:
            sent = executor.map(self.send, self._rows)
            try:
                for done in range(before, total + 1):
                    if done > before:
                        next(sent)
                    if progress is not None and done:
                        progress(done, total)
            except BaseException:  # also at an interruption: without waiting for the others
                self._given_up.set()
                executor.shutdown(wait=False, cancel_futures=True)
                raise
