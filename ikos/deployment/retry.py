"""Parties that are asked in parallel, and work that is tried again with growing pauses."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from typing import TypeVar

from ikos.deployment.wire import ReleaseState

FIRST_PAUSE = 1.0
LONGEST_PAUSE = 60.0

_log = logging.getLogger("ikos.deployment")
_T = TypeVar("_T")


def in_parallel(
    ask: Callable[[int], _T], parties: Sequence[int], most: int = 32
) -> Iterator[tuple[int, _T | OSError]]:
    """Yield the answer of each party as it comes, or the OSError that asking it raised."""
    answers: queue.SimpleQueue[tuple[int, Future[_T]]] = queue.SimpleQueue()
    free = threading.Semaphore(most)

    def work(party: int) -> None:
        answer: Future[_T] = Future()
        with free:
            try:
                answer.set_result(ask(party))
            except BaseException as error:
                answer.set_exception(error)
        answers.put((party, answer))

    for party in parties:
        # daemons, unlike those of an executor: a program that is told to end waits for no party
        threading.Thread(target=work, args=(party,), name="asking", daemon=True).start()
    for _ in parties:
        party, answer = answers.get()
        error = answer.exception()
        yield party, error if isinstance(error, OSError) else answer.result()


class Retrier:
    """Some work, done in a thread of its own.

    ``work`` does what is left to do, and may be called again at any time. It is given a function
    to call with each step. An OSError hinders it for now; any other exception ends it.
    """

    def __init__(self, name: str, work: Callable[[Callable[[str], None]], None]) -> None:
        self._name = name
        self._work = work
        self._changed = threading.Condition()
        self._wanted = self._ended = self._started = False
        # how far it is, and when it is tried again: one object, as it is read without the lock
        self._state: tuple[ReleaseState, float | None] = (ReleaseState(), None)
        self._logged: str | None = None

    @property
    def now(self) -> ReleaseState:
        """How far it is."""
        now, until = self._state
        again = None if until is None else max(0, round(until - time.monotonic()))
        return now.model_copy(update={"again": again})

    def begin(self) -> None:
        """Begin, or try again at once; work under way is repeated after it."""
        with self._changed:
            self._wanted = True
            self._changed.notify()
            if not self._state[0].running:
                self._state = ReleaseState(running=True), None
            if not self._started and not self._ended:
                self._started = True
                # a daemon: the work can be left at any point and done again
                threading.Thread(target=self._run, name=self._name, daemon=True).start()

    def end(self) -> None:
        """Try no more; work under way is not waited for."""
        with self._changed:
            self._ended = True
            self._changed.notify()

    def _run(self) -> None:
        pause: float | None = None
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._wanted or self._ended, pause)
                if self._ended:
                    return
                self._wanted = False
                self._state = ReleaseState(running=True), None
            message, again = self._try()
            pause = min(2 * pause if pause else FIRST_PAUSE, LONGEST_PAUSE) if again else None
            with self._changed:
                if not self._wanted:  # else it was begun again meanwhile
                    until = None if pause is None else time.monotonic() + pause
                    self._state = ReleaseState(message=message), until

    def _step(self, step: str) -> None:
        self._state = ReleaseState(running=True, step=step), None

    def _try(self) -> tuple[str | None, bool]:
        """Return what hindered the work, if anything, and whether to try again."""
        try:
            self._work(self._step)
        except OSError as error:
            if not self._ended and str(error) != self._logged:
                _log.warning("%s hindered: %s", self._name, error)
            self._logged = str(error)
            return self._logged, True
        except Exception:
            # without its text, which might hold secrets
            if not self._ended:
                _log.error("%s failed: an error of the program", self._name)
            return "an error of the program", False
        self._logged = None
        return None, False
