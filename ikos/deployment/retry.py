"""Work that is done again, with growing pauses, for as long as something hinders it."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

FIRST_PAUSE = 1.0
LONGEST_PAUSE = 60.0

_log = logging.getLogger("ikos.deployment")


@dataclass(frozen=True)
class Attempt:
    """How far the work is.

    Attributes
    ----------
    running : bool
        Whether it is under way now.
    step : str, optional
        What it is at.
    message : str, optional
        What hindered it, where it is not under way and not done.
    until : float, optional
        When it is tried again, by `time.monotonic`.
    """

    running: bool = False
    step: str | None = None
    message: str | None = None
    until: float | None = None

    @property
    def again(self) -> int | None:
        """Seconds until it is tried again, if it will be."""
        return None if self.until is None else max(0, round(self.until - time.monotonic()))


class Persistent:
    """Some work, in a thread of its own while there is any.

    Parameters
    ----------
    name : str
        What it is called in the log.
    work : callable
        Does what is left of it, and may be called again at any time. It is given a function, to
        be told each step. An OSError is what hinders it for now; any other exception ends it.
    """

    def __init__(self, name: str, work: Callable[[Callable[[str], None]], None]) -> None:
        self._name = name
        self._work = work
        self._changed = threading.Condition()
        self._wanted = self._ended = False
        self._thread: threading.Thread | None = None
        self._now = Attempt()
        self._said: str | None = None

    @property
    def now(self) -> Attempt:
        """How far it is."""
        return self._now

    def begin(self) -> None:
        """Begin, or try again at once; what is under way is tried once more after it."""
        with self._changed:
            self._wanted = True
            self._changed.notify()
            if not self._now.running:
                self._now = Attempt(running=True)
            if self._thread is None and not self._ended:
                # a daemon: whatever it is at can be left, and done again
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()

    def end(self) -> None:
        """Try no more; what is under way is not waited for."""
        with self._changed:
            self._ended = True
            self._changed.notify()

    def _run(self) -> None:
        pause = FIRST_PAUSE
        while True:
            with self._changed:
                if self._ended or not self._wanted:
                    self._thread = None
                    return
                self._wanted = False
            message, again = self._tried()
            with self._changed:
                if self._wanted:  # somebody asked meanwhile
                    self._now = Attempt(running=True)
                elif again:
                    self._now = Attempt(message=message, until=time.monotonic() + pause)
                    self._changed.wait_for(lambda: self._wanted or self._ended, pause)
                    self._now = Attempt(running=True)
                    self._wanted = True
                    pause = min(2 * pause, LONGEST_PAUSE)
                else:
                    self._now = Attempt(message=message)

    def _tried(self) -> tuple[str | None, bool]:
        """Return what hindered the work, if anything, and whether to try again."""
        try:
            self._work(self._step)
        except OSError as error:
            if not self._ended and str(error) != self._said:
                _log.warning("%s hindered: %s", self._name, error)
            self._said = str(error)
            return self._said, True
        except Exception:
            # without its text: it might hold what nobody may see
            if not self._ended:
                _log.error("%s failed: an error of the program", self._name)
            return "an error of the program", False
        self._said = None
        return None, False

    def _step(self, step: str) -> None:
        self._now = Attempt(running=True, step=step)
