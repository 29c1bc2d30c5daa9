"""Long work: its progress, how it is spread over cores, and what Ctrl-C leaves of it."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Executor, Future
from typing import Any, TypeVar

from ikos._validation import quote

__all__ = ["Interrupted"]

Progress = Callable[[int, int], None]
"""Called with what is done, and with the whole, as work goes on."""

_WORKERS = 64  # of an executor that does not say how many it has, such as Dask's

_T = TypeVar("_T")


class Interrupted(KeyboardInterrupt):
    """Ctrl-C in the middle of work, with the results that were complete.

    As a `KeyboardInterrupt`, it ends the program if it is not caught.

    Parameters
    ----------
    partial : object
        What the work would have returned for ``done`` parts of it, or None.
    done, trials : int
        Parts that were done, and that were asked for; 0 if these were not known yet.
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


def spread(
    work: Callable[..., _T],
    tasks: Iterable[tuple[Any, ...]],
    executor: Executor | None,
    *,
    ahead: int | None = None,
) -> Generator[_T, None, None]:
    """Yield the results of tasks in their order; without an executor, they are computed here.

    At most ``ahead`` tasks (by default four for each worker) are under way, or done while an
    earlier one is not. At the end, those that have not begun are cancelled.
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
    """Return the first result; while it is waited for, it is among those to be cancelled."""
    result = under_way[0].result()
    under_way.popleft()
    return result
