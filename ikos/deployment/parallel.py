"""Several parties asked at once: one that is slow holds up no other."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from typing import TypeVar

MOST = 32
"""Parties that are asked at the same time, unless told."""

_T = TypeVar("_T")


def at_once(
    ask: Callable[[int], _T], parties: Sequence[int], most: int = MOST
) -> Iterator[tuple[int, _T | OSError]]:
    """Yield the answer of each party as it comes, or the OSError that asking it raised.

    Examples
    --------
    >>> from ikos.deployment.parallel import at_once
    >>> sorted(at_once(lambda party: 10 * party, [1, 2, 3]))
    [(1, 10), (2, 20), (3, 30)]
    """
    waiting: queue.SimpleQueue[int] = queue.SimpleQueue()
    answers: queue.SimpleQueue[tuple[int, Future[_T]]] = queue.SimpleQueue()
    for party in parties:
        waiting.put(party)

    def work() -> None:
        with contextlib.suppress(queue.Empty):
            while True:
                party = waiting.get_nowait()
                answers.put((party, _asked(ask, party)))

    for _ in range(min(len(parties), most)):
        # daemons, unlike those of an executor: a program that is told to end waits for nobody
        threading.Thread(target=work, name="asking", daemon=True).start()
    for _ in parties:
        party, answer = answers.get()
        error = answer.exception()
        yield party, error if isinstance(error, OSError) else answer.result()


def _asked(ask: Callable[[int], _T], party: int) -> Future[_T]:
    """Ask a party; return its answer, or whatever that raised."""
    answer: Future[_T] = Future()
    try:
        answer.set_result(ask(party))
    except BaseException as error:
        answer.set_exception(error)
    return answer
