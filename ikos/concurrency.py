"""Long work: told as it goes on, spread over cores, and ended by Ctrl-C without a trace."""

from __future__ import annotations

import itertools
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

from ikos._validation import integer, quote

__all__ = ["Interrupted"]

Progress = Callable[[int, int], None]
"""Called with what is done and the whole, as work goes on."""

_POOLS = itertools.count()
_START = 1.0  # seconds that a thread may take to begin
_WORKERS = 64  # of an executor that does not say how many it has, such as Dask's

_T = TypeVar("_T")


class Interrupted(KeyboardInterrupt):
    """Ctrl-C in the middle of work, with the results that were complete.

    It is a `KeyboardInterrupt`: where no code catches it, the program ends as it always does.

    Parameters
    ----------
    partial : object
        What the work would have returned for ``done`` parts of it, or None.
    done, trials : int
        Parts that were done, and that were asked for; 0 where they were not known yet.
    what : str
        What the parts are, or when it happened.
    """

    def __init__(self, partial: Any, done: int, trials: int, what: str) -> None:
        super().__init__(partial, done, trials, what)
        self.partial = partial
        self.done = done
        self.trials = trials
        self.what = what

    def __str__(self) -> str:
        if not self.trials:
            return f"interrupted {self.what}"
        return f"interrupted after {self.done:,} of {self.trials:,} {self.what}"


_came: list[bool] = []  # whether Ctrl-C came; empty where nothing keeps it


@contextmanager
def interrupts_kept() -> Generator[None, None, None]:
    """Let no Ctrl-C be lost in code of others that swallows it, such as a first import.

    It is raised where it comes, as always, and again at the end, if that had no effect. Where the
    program has a handler of its own, or in another thread, nothing is changed.
    """
    mine = (
        not _came
        and threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    )
    if not mine:
        yield
        return

    def note(*_: object) -> None:
        _came[:] = [True]
        raise KeyboardInterrupt

    try:
        _came[:] = [False]
        signal.signal(signal.SIGINT, note)
        yield
        check_interrupt()
    finally:
        if signal.getsignal(signal.SIGINT) is note:  # and no other that was set in the meantime
            signal.signal(signal.SIGINT, signal.default_int_handler)
        _came.clear()


def check_interrupt() -> None:
    """Raise KeyboardInterrupt if there was one that `interrupts_kept` has kept."""
    if any(_came):
        raise KeyboardInterrupt


def cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def threads_for(threads: object, steps: int, worthwhile: int) -> int:
    """Return how many threads to use: as asked, or all cores where the work is long enough.

    Parameters
    ----------
    threads : int or None
        As the user says; None for the default.
    steps : int
        Steps of work.
    worthwhile : int
        Steps from which on further threads are worth their start.
    """
    if threads is not None:
        return integer("threads", threads, low=1, high=1024)
    return cores() if steps >= worthwhile else 1


@contextmanager
def pool(threads: int) -> Generator[Executor | None, None, None]:
    """Provide threads while the block lasts, or None for a single one.

    None of them is left at its end: an executor alone forgets a thread if Ctrl-C comes while it is
    started.

    Parameters
    ----------
    threads : int
        How many.
    """
    if threads == 1:
        yield None
        return
    name = f"ikos-{next(_POOLS)}"
    try:
        with ThreadPoolExecutor(threads, thread_name_prefix=name) as executor:
            yield executor
    finally:
        for thread in _named(name):
            if thread.is_alive():
                thread.join()
        # one that was started and does not run yet: it will find nothing to do
        last = time.monotonic() + _START
        while _named(name) and time.monotonic() < last:
            time.sleep(0.001)


def _named(pool: str) -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith(f"{pool}_")]


def spread(
    work: Callable[..., _T],
    tasks: Iterable[tuple[Any, ...]],
    executor: Executor | None,
    *,
    ahead: int | None = None,
) -> Generator[_T, None, None]:
    """Yield the results of tasks in their order; a bounded number of them is under way.

    Parameters
    ----------
    work : callable
        Takes the arguments of a task; can be pickled where the executor needs that.
    tasks : iterable of tuple
        Arguments of each.
    executor : Executor or None
        Where to run; here, one after the other, for None.
    ahead : int, optional
        How many may be under way, or done while an earlier one is not; by default four for each
        worker. None waits for a slow one before it if that is all of them.
    """
    if executor is not None and not callable(getattr(executor, "submit", None)):
        raise TypeError(f"executor must be an Executor or None, got {quote(executor)}")
    if executor is None:
        for task in tasks:
            yield work(*task)
        return
    most = ahead or 4 * (getattr(executor, "_max_workers", None) or _WORKERS)
    under_way: deque[Future[_T]] = deque()
    try:
        for task in tasks:
            under_way.append(executor.submit(work, *task))
            if len(under_way) >= most:
                yield _first(under_way)
        while under_way:
            yield _first(under_way)
    finally:
        for future in under_way:
            future.cancel()


def _first(under_way: deque[Future[_T]]) -> _T:
    """Return the first result; it stays among those to be cancelled while it is waited for."""
    result = under_way[0].result()
    under_way.popleft()
    return result
