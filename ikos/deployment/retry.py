"""Work that is retried by itself until it is done, with growing pauses after errors."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from ikos.deployment.store import log
from ikos.deployment.wire import ReleaseState

FIRST_PAUSE = 1.0
LONGEST_PAUSE = 60.0


class RetryLoop:
    """Does some work in a thread, again after an OSError; ``work`` yields its steps."""

    def __init__(
        self,
        name: str,
        work: Callable[[Callable[[str], None]], None],
        timed: Callable[[str, float], object] = lambda *_: None,
    ) -> None:
        self._name = name
        self._work = work
        self._changed = threading.Condition()
        self._wanted = self._ended = False
        # progress and next attempt in one object, as it is read without the lock
        self._state: tuple[ReleaseState, float | None] = (ReleaseState(), None)
        self._logged: str | None = None
        self._timed, self._since = timed, 0.0
        # a daemon: the work can be left at any point and repeated
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    @property
    def now(self) -> ReleaseState:
        """Its progress."""
        state, until = self._state
        again = None if until is None else max(0, round(until - time.monotonic()))
        return state.model_copy(update={"again": again})

    def begin(self) -> None:
        """Begin, or retry at once; work in progress is repeated when it ends."""
        with self._changed:
            self._wanted = True
            if self._thread.ident is None:
                self._thread.start()
            self._changed.notify()
            if not self._state[0].running:
                self._step(None)

    def end(self) -> None:
        """Start no more attempts, without waiting for work in progress."""
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
                self._step(None)
            message, pause = self._try(pause)
            with self._changed:
                self._step(None)
                if not self._wanted:  # otherwise it was begun again meanwhile
                    until = None if pause is None else time.monotonic() + pause
                    self._state = ReleaseState(message=message), until

    def _step(self, step: str | None) -> None:
        ended, begin = self._state[0].step, self._since
        self._since = time.monotonic()
        if ended is not None:
            self._timed(ended, self._since - begin)
        self._state = ReleaseState(running=True, step=step), None

    def _try(self, pause: float | None) -> tuple[str | None, float | None]:
        """Return what hindered the work, if anything, and how long to pause, if it is retried."""
        try:
            self._work(self._step)
        except OSError as error:
            if not self._ended and str(error) != self._logged:
                log.warning("%s hindered: %s", self._name, error)
            self._logged = str(error)
            return self._logged, min(2 * pause if pause else FIRST_PAUSE, LONGEST_PAUSE)
        except Exception:
            if not self._ended:  # an executor takes no more work while the program ends
                log.error("%s failed", self._name)  # without its text, which might hold secrets
            return "an error of the program", None
        self._logged = None
        return None, None
