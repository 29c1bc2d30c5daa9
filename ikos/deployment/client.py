"""A client: makes one report for a task, and sends it until all parties have it.

It never makes a second one: two sharings of one value would reveal more than one does, and noise
that is drawn twice averages out.
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

from ikos._validation import number, quote
from ikos.concurrency import Progress
from ikos.deployment import tokens
from ikos.deployment.remote import (
    ANSWER_SECONDS,
    CONNECT_SECONDS,
    RemoteError,
    Untrusted,
    connect,
    exchange,
    problem_of,
)
from ikos.deployment.reports import ClientReport, ReportStore
from ikos.deployment.task import Task
from ikos.deployment.wire import encoded
from ikos.results import at_least

__all__ = ["Client", "Receipt", "Rejected", "Unsent", "submit_many"]

SETTLE_SECONDS = 0.1
"""From the call to the first message: longer than sampling takes, whose time reveals a little."""

_PAUSE = 0.2
_LONGEST_PAUSE = 5.0
_AGAIN = {408, 429, 500, 502, 503, 504, 507}


class Rejected(ValueError):  # noqa: N818
    """A party does not take the report, and will not.

    Parameters
    ----------
    party : str
        Which.
    name : str
        The problem's: ``taskClosed``, ``reportRejected``, ...
    detail : str
        For people.

    Attributes
    ----------
    row : int or None
        Of `submit_many`: whose report, by its place among the secrets.
    """

    row: int | None = None

    def __init__(self, party: str, name: str, detail: str) -> None:
        super().__init__(f"{party} rejects the report: {detail} ({name})")
        self.party = party
        self.name = name


class Unsent(OSError):  # noqa: N818
    """Some parties do not have the report yet: submit again, and the same one is sent on.

    ``row`` is as of `Rejected`.
    """

    row: int | None = None


@dataclass(frozen=True)
class Receipt:
    """All parties have the report.

    Attributes
    ----------
    parties : int
        How many.
    again : bool
        Whether it was made by an earlier call, so that the value of this one was not used.
    """

    parties: int
    again: bool


class Client:
    """One client of one task.

    Parameters
    ----------
    task : Task
        The task.
    secret : bytes
        This client's, of 32 bytes.
    store : Path, optional
        A folder for the report, made if it is not there; the report is on disk before anything
        of it is sent. With it a program that was ended in the middle sends the same report when
        it is started again. It may be that of other clients and tasks, and of `submit_many`:
        reports are found by secret and task. Without, the object remembers: never make a second
        one for the same client.
    ca : Path, optional
        Authorities to trust in the parties' certificates, instead of the system's.
    max_epsilon, max_delta : float, optional
        What the task may promise at most. The maker of a task chooses what it promises: a program
        that takes tasks from others must say what it agrees to.

    Raises
    ------
    ValueError
        If the task promises less privacy.

    Examples
    --------
    >>> client = Client(
    ...     task, secret, store="reports", max_epsilon=1, max_delta=1e-8
    ... )  # doctest: +SKIP
    >>> client.submit(42)  # doctest: +SKIP
    Receipt(parties=6, again=False)
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
        self._store = None if store is None else ReportStore(store, task)
        self._process = os.getpid()
        self._ca = ca
        self._report: ClientReport | None = None
        self._making = threading.Lock()  # of threads that submit at once, one makes the report

    @property
    def begun(self) -> bool:
        """Whether this client's report was made, by this object or with its store."""
        kept = self._store is not None and self._store.has(self._secret)
        return self._report is not None or kept

    def submit(self, value: float, *, patience: float = 60.0) -> Receipt:
        """Send this client's report of a value; blocks until all parties have it.

        Parameters
        ----------
        value : float
            Within the task's bounds. Not used where a report was made before.
        patience : float
            Seconds to go on for, where parties do not answer. Each is tried once in any case, for
            five seconds at least.

        Returns
        -------
        Receipt

        Raises
        ------
        TypeError, ValueError
            If the task does not allow the value; nothing was sent.
        Rejected
            If a party does not take the report. Nothing is released of a report that not all
            parties have.
        Unsent
            If parties did not answer in time. Submit again.
        """
        seconds = number("patience", patience, low=0, high=1e6)
        with closing(connect(self._ca)) as http:
            begin = time.monotonic()
            with self._making:
                report, again = self._made(value)
            # the time of the first message says nothing about the time of sampling
            time.sleep(max(0.0, begin + SETTLE_SECONDS - time.monotonic()))
            _send(http, self.task, self._secret, report, begin + SETTLE_SECONDS + seconds)
        if self._store is not None:
            self._store.mark_sent(self._secret)
        return Receipt(self.task.messages, again)

    def _made(self, value: float) -> tuple[ClientReport, bool]:
        """Return the report, and whether it was there; it is on disk when this returns."""
        if self._store is None and os.getpid() != self._process:
            raise RuntimeError("a Client without a store cannot be used in a forked process")
        if self._report is None and self._store is not None:
            self._report = self._store.of(self._secret)
        if self._report is not None:
            return self._report, True
        made = ClientReport.make(self.task, _check_value(self.task, value))
        kept = None if self._store is None else self._store.add(self._secret, made)
        self._report = kept or made
        return self._report, kept is not None

    def __repr__(self) -> str:
        return f"<Client of task {self.task.name}>"

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("a Client cannot be copied: its copy might make a second report")


def _check_secret(name: str, secret: object) -> None:
    """Refuse what is no client's secret, without quoting any of it."""
    if not isinstance(secret, bytes):
        raise TypeError(f"{name} must be bytes, got {type(secret).__name__}")
    if len(secret) != tokens.SECRET_BYTES:
        raise ValueError(f"{name} must be {tokens.SECRET_BYTES} bytes, got {len(secret)}")


def _check_value(task: Task, value: object) -> float:
    """Return a value that the task allows, as the protocol reads it."""
    one = np.empty(1, dtype=object)
    one[0] = value
    try:
        return float(task.protocol.checked(one)[0])
    except (TypeError, ValueError) as error:  # which do not quote it
        raise type(error)(str(error).replace("x[0]", "value", 1)) from None


def _check_promise(
    task: Task, max_epsilon: float | Fraction | None, max_delta: float | Fraction | None
) -> None:
    """Refuse a task that promises less than its client agrees to."""
    promised = {"epsilon": task.epsilon, "delta": Fraction(task.protocol.guarantee.delta)}
    for name, most in (("epsilon", max_epsilon), ("delta", max_delta)):
        if most is not None and number(f"max_{name}", most, low=0) < promised[name]:
            raise ValueError(
                f"max_{name} must be at least the {name} that the task promises, "
                f"{at_least(promised[name], 6)}, got {quote(most)}"
            )


def _send(
    http: httpx.Client,
    task: Task,
    secret: bytes,
    report: ClientReport,
    until: float,
    given_up: threading.Event | None = None,
) -> None:
    """Send all parts, in a random order; a part that is there already is not counted twice."""
    given_up = given_up or threading.Event()
    waiting = random.SystemRandom().sample(range(task.messages), task.messages)
    pause = _PAUSE
    while True:
        behind, why = [], ""
        for party in waiting:
            seconds = max(CONNECT_SECONDS, until - time.monotonic())
            try:
                send_part(http, task, secret, report, party, min(seconds, ANSWER_SECONDS))
            except Untrusted as error:
                raise Unsent(str(error)) from None
            except RemoteError as error:
                behind.append(party)
                why = str(error)
        waiting = behind
        if not waiting:
            return
        left = until - time.monotonic()
        if left <= 0 or given_up.is_set():
            raise Unsent(
                f"{task.messages - len(waiting)} of {task.messages} parties have the report; "
                f"submit again to go on with it: {why}"
            )
        # many clients that wait for one party do not come back at once
        given_up.wait(min(left, pause * (0.5 + random.random())))
        pause = min(2 * pause, _LONGEST_PAUSE)


def send_part(
    http: httpx.Client,
    task: Task,
    secret: bytes,
    report: ClientReport,
    party: int,
    seconds: float = ANSWER_SECONDS,
) -> None:
    """Send the part of one party, once."""
    part = report.parts[party]
    who = f"shuffler {party}" if party else "the analyzer"
    digest = base64.b64encode(hashlib.sha256(part).digest()).decode()
    response = exchange(
        http,
        "PUT",
        f"{task.address(party)}/tasks/{task.name}/reports/{encoded(report.id)}",
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
        if response.content:  # a page that a proxy answers: nothing was kept
            raise RemoteError(f"{who} answers something else")
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
    store: Path | str | None = None,
    connections: int = 8,
    ca: Path | None = None,
    patience: float = 60.0,
    progress: Progress | None = None,
    max_epsilon: float | Fraction | None = None,
    max_delta: float | Fraction | None = None,
) -> int:
    """Send the reports of many clients from one machine.

    For testing only: the caller sees all values.

    Parameters
    ----------
    task : Task
        The task.
    secrets : sequence of bytes
        One for each value, all different.
    values : (k,) array_like of float
        Within the task's bounds. Not used of clients whose report was made before.
    store : Path, optional
        As of `Client`. The same call again goes on: it sends what was begun as it was made, and
        nothing of what all parties have. Without, clients whose report was begun when a call ends
        early are lost.
    connections : int
        How many clients send at once.
    ca, patience, max_epsilon, max_delta
        As of `Client`.
    progress : callable, optional
        Called with the clients done, in an earlier call as well, and their number.

    Returns
    -------
    int
        How many clients' reports all parties have: all of them.

    Raises
    ------
    TypeError, ValueError
        If the task does not allow the values; nothing was sent.
    Rejected, Unsent
        As of `Client.submit`, for the first client that meets it; ``row`` says which.
    """
    _check_promise(task, max_epsilon, max_delta)
    checked = task.protocol.checked(values)
    if len(secrets) != checked.size:
        raise ValueError(f"secrets must be one for each of {checked.size}, got {len(secrets)}")
    for row, secret in enumerate(secrets):
        _check_secret(f"secrets[{row}]", secret)
    if len(set(secrets)) < len(secrets):
        raise ValueError("secrets must be different: one client sends one report")
    kept = None if store is None else ReportStore(store, task)
    waiting = _waiting(task, secrets, checked, kept)
    before = len(secrets) - len(waiting)
    given_up, failed = threading.Event(), threading.Event()
    with closing(connect(ca)) as http, ThreadPoolExecutor(connections) as executor:

        def send(one: tuple[int, ClientReport]) -> None:
            row, report = one
            secret = secrets[row]
            if failed.is_set():  # the client that failed began before, and its error is raised
                return
            try:
                if kept is not None:
                    report = kept.add(secret, report) or report
                _send(http, task, secret, report, time.monotonic() + patience, given_up)
                if kept is not None:
                    kept.mark_sent(secret)
            except BaseException as error:
                failed.set()
                if isinstance(error, Rejected | Unsent):
                    error.row = row
                raise

        sent = executor.map(send, waiting)
        if progress is not None and before:
            progress(before, len(secrets))
        try:
            for done, _ in enumerate(sent, before + 1):
                if progress is not None:
                    progress(done, len(secrets))
        except BaseException:  # an interruption as well: the others are not waited for
            given_up.set()
            executor.shutdown(wait=False, cancel_futures=True)
            raise
    return len(secrets)


def _waiting(
    task: Task, secrets: Sequence[bytes], values: NDArray[Any], kept: ReportStore | None
) -> list[tuple[int, ClientReport]]:
    """Return the rows that were not sent yet, with their reports: those begun before, and new."""
    rows = [k for k, one in enumerate(secrets) if kept is None or not kept.is_sent(one)]
    begun = {k: kept.of(secrets[k]) for k in rows} if kept is not None else {}  # before any is sent
    new = [k for k in rows if begun.get(k) is None]
    made = dict(zip(new, ClientReport.make_many(task, values[new]), strict=True)) if new else {}
    return [(k, begun.get(k) or made[k]) for k in rows]
