"""Asking parties in parallel, and retrying work with growing pauses."""

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
    """Yield the answer of each party as it comes, or the OSError from asking it."""
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
        # daemons, unlike an executor's threads: a program told to end waits for no party
        threading.Thread(target=work, args=(party,), name="asking", daemon=True).start()
    for _ in parties:
        party, answer = answers.get()
        error = answer.exception()
        yield party, error if isinstance(error, OSError) else answer.result()


class Retrier:
    """Work done in its own thread.

    ``work`` does what is left to do, and may be called again at any time. It gets a function to
    call with each step. After an OSError it is retried; any other exception ends it.
    """

    def __init__(self, name: str, work: Callable[[Callable[[str], None]], None]) -> None:
        self._name = name
        self._work = work
        self._changed = threading.Condition()
        self._wanted = self._ended = self._started = False
        # progress and next attempt in one object, as it is read without the lock
        self._state: tuple[ReleaseState, float | None] = (ReleaseState(), None)
        self._logged: str | None = None

    @property
    def now(self) -> ReleaseState:
        """Its progress."""
        now, until = self._state
        again = None if until is None else max(0, round(until - time.monotonic()))
        return now.model_copy(update={"again": again})

    def begin(self) -> None:
        """Begin, or retry at once; work under way is repeated after it."""
        with self._changed:
            self._wanted = True
            self._changed.notify()
            if not self._state[0].running:
                self._state = ReleaseState(running=True), None
            if not self._started and not self._ended:
                self._started = True
                # a daemon: the work can be left at any point and repeated
                threading.Thread(target=self._run, name=self._name, daemon=True).start()

    def end(self) -> None:
        """Start no more attempts; work under way is not waited for."""
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
                if not self._wanted:  # otherwise it was begun again meanwhile
                    until = None if pause is None else time.monotonic() + pause
                    self._state = ReleaseState(message=message), until

    def _step(self, step: str) -> None:
        self._state = ReleaseState(running=True, step=step), None

    def _try(self) -> tuple[str | None, bool]:
        """Return what hindered the work, if anything, and whether to retry."""
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
