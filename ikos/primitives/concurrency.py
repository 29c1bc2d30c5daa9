"""Long computations: progress, spreading over cores, and partial results after Ctrl-C."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import islice, starmap
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ikos._validation import InvalidType, quote

__all__ = ["Interrupted"]

Progress = Callable[[int, int], None]
"""Called with the amounts done and in all, as work goes on."""

reported: ContextVar[Progress | None] = ContextVar("reported", default=None)
"""Where sums report their progress that are not told where: they may be run by other functions."""

_WORKERS = 64  # assumed for an executor that does not reveal its number of workers, such as Dask's

_T = TypeVar("_T")


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during a computation, with the results that were complete.

    ``partial`` is the result for the first ``done`` parts, or None; ``trials`` is the number of
    parts requested, 0 if unknown; ``what`` names the parts, or states when it happened.
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


@contextmanager
def reporting(progress: Progress) -> Iterator[None]:
    """Report the progress of all sums that are run meanwhile."""
    token = reported.set(progress)
    try:
        yield
    finally:
        reported.reset(token)


class Scratch(threading.local):
    """Memory of each thread for arrays that it reuses.

    Allocating memory takes longer than writing it, and makes threads wait for each other.
    """

    def __call__(self, name: str, size: int, dtype: Any) -> NDArray[Any]:
        """Return an uninitialized array, in the same memory for the same name."""
        held: NDArray[Any] | None = self.__dict__.get(name)
        if held is None or held.size < size or held.dtype != dtype:
            held = self.__dict__[name] = np.empty(size, dtype=dtype)
        return held[:size]


def cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def spread(
    work: Callable[..., _T], tasks: Iterable[tuple[Any, ...]], executor: Executor | None
) -> Generator[_T, None, None]:
    """Yield the results of tasks in order; without an executor, they are computed here.

    At most four tasks per worker are running, or done before an earlier one is. At the end, those
    that have not begun are cancelled.
    """
    if executor is None:
        yield from starmap(work, tasks)
        return
    if not callable(getattr(executor, "submit", None)):
        raise InvalidType("executor", f"must be an Executor or None, got {quote(executor)}")
    most, todo = 4 * (getattr(executor, "_max_workers", None) or _WORKERS), iter(tasks)
    under_way: deque[Future[_T]] = deque()
    try:
        while True:
            for task in islice(todo, most - len(under_way)):
                under_way.append(executor.submit(work, *task))
            if not under_way:
                return
            result = under_way[0].result()  # while awaited, among the tasks to be cancelled
            under_way.popleft()
            yield result
    finally:
        for future in under_way:
            future.cancel()
