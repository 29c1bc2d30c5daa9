"""Long work: its progress, spread over cores, and what is left of it at Ctrl-C."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

from ikos._validation import integer, quote

__all__ = ["Interrupted"]

Progress = Callable[[int, int], None]
"""Called with what is done and the whole, as work goes on."""

_WORKERS = 64  # of an executor that does not say how many it has, such as Dask's

_T = TypeVar("_T")


class Interrupted(KeyboardInterrupt):
    """Ctrl-C in the middle of work, with the results that were complete.

    It is a `KeyboardInterrupt`: where it is not caught, the program ends as it always does.

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


def cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def threads_for(threads: object, steps: int, worthwhile: int) -> int:
    """Return how many threads to use: as asked, or all cores from ``worthwhile`` steps on."""
    if threads is not None:
        return integer("threads", threads, low=1, high=1024)
    return cores() if steps >= worthwhile else 1


@contextmanager
def pool(threads: int) -> Generator[Executor | None, None, None]:
    """Provide threads until the block ends, and they have ended too; None for a single one."""
    if threads == 1:
        yield None
        return
    with ThreadPoolExecutor(threads) as executor:
        yield executor


def spread(
    work: Callable[..., _T],
    tasks: Iterable[tuple[Any, ...]],
    executor: Executor | None,
    *,
    ahead: int | None = None,
) -> Generator[_T, None, None]:
    """Yield the results of tasks in their order, computed here for None.

    At most ``ahead`` (by default four for each worker) are under way, or done while an earlier one
    is not; those that have not begun are cancelled at the end.
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
