"""Waiting for workers: as long as it takes, unless none is left to do the work."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Iterator
from concurrent.futures import Executor, Future, wait
from contextlib import contextmanager
from typing import Any, TypeVar

from ikos.cluster.errors import ClusterError, connection
from ikos.concurrency import check_interrupt

STEP = 2.0
"""Seconds between two looks at a cluster."""

ANSWER = 15.0
"""Seconds for a scheduler to answer."""

LIMIT = 60.0
"""Seconds that a cluster may be without a worker at work while somebody waits for it."""

_T = TypeVar("_T")


def workers(client: Any) -> dict[str, dict[str, Any]] | None:
    """Return what the scheduler knows of each worker, by address; None if it does not answer."""
    scheduler = client.scheduler
    if scheduler is None:  # the connection is closed
        return None
    try:
        found: dict[str, dict[str, Any]] = client.sync(scheduler.identity, callback_timeout=ANSWER)[
            "workers"
        ]
    except OSError:  # also of what takes too long
        return None
    return found


def check_open(client: Any) -> None:
    """Refuse a connection that was closed."""
    if client.status in ("closing", "closed"):
        raise ClusterError("the connection to the cluster was closed")


def threads(client: Any) -> int:
    """Return how many threads the workers have, or refuse a cluster that has none."""
    found = workers(client)
    if found is None:
        raise ClusterError("the scheduler does not answer")
    if not found:
        raise ClusterError("the cluster has no workers")
    return sum(one["nthreads"] for one in found.values())


class Watch:
    """Looks at a cluster while somebody waits for it.

    Parameters
    ----------
    client : distributed.Client
        The connection.
    """

    def __init__(self, client: Any) -> None:
        self._client = client
        self._since = 0.0
        self._running: set[str] | None = None

    def look(self) -> None:
        """Look once.

        Raises
        ------
        ClusterError
            If for `LIMIT` seconds no worker was seen at work by two looks, one after the other.
            One look is not enough: where memory is short, workers start, are ended at once, and
            start again for ever.
        """
        found = workers(self._client)
        running = {where for where, one in (found or {}).items() if one["status"] == "running"}
        if self._running is None or running & self._running:
            self._since = time.monotonic()
        self._running = running
        if time.monotonic() - self._since > LIMIT:
            raise ClusterError(
                f"for {LIMIT:.0f} s {_missing(found)}, and the work was given up; "
                "nothing was released"
            )


def _missing(found: dict[str, dict[str, Any]] | None) -> str:
    if found is None:
        return "the scheduler did not answer"
    paused = sum(one["status"] == "paused" for one in found.values())
    if paused:
        many = "the cluster's only worker was" if paused == 1 else f"all {paused} workers were"
        return f"{many} paused, which Dask does where memory is short"
    return "the cluster had no workers that stayed"


def lasting(client: Any, work: Callable[[], Awaitable[_T]]) -> _T:
    """Return what comes of work on the client's event loop, or give up with its workers.

    Parameters
    ----------
    client : distributed.Client
        The connection.
    work : callable
        Called on the event loop.

    Raises
    ------
    ClusterError
        As `Watch.look`.
    """

    async def made() -> _T:
        return await work()

    under_way = asyncio.run_coroutine_threadsafe(made(), client.loop.asyncio_loop)
    try:
        _ended(client, [under_way])
        return under_way.result()
    finally:
        under_way.cancel()


def _ended(client: Any, futures: Collection[Future[Any]]) -> None:
    """Wait until all of some futures are done, or give up with the client's workers."""
    watch = Watch(client)
    while wait(futures, timeout=STEP).not_done:
        check_interrupt()
        watch.look()


def first_done(client: Any, futures: Collection[Any]) -> set[Any]:
    """Return those of some tasks that are done, when there is one; it may have failed."""
    from distributed.client import FIRST_COMPLETED
    from distributed.client import wait as ended

    done: set[Any] = lasting(client, lambda: ended(futures, return_when=FIRST_COMPLETED)).done
    return done


def results(client: Any, futures: list[Any]) -> list[Any]:
    """Return the results of tasks, in their order, when all of them are done.

    Parameters
    ----------
    client : distributed.Client
        The connection.
    futures : list of distributed.Future
        The tasks.

    Raises
    ------
    ClusterError
        If a task failed other than by `Refused`, or as `Watch.look`. What the graph of a Dask
        collection raises for its values, `ValueError` and `TypeError`, is raised as it is, and so
        is `distributed.KilledWorker`, for `connection`.
    """
    from distributed import KilledWorker
    from distributed.client import wait as ended

    if not futures:
        return []
    lasting(client, lambda: ended(futures))
    for future in futures:
        if future.status != "error":
            continue
        error = future.exception(timeout=LIMIT)
        if isinstance(error, (KilledWorker, ValueError, TypeError)):
            raise error from None
        raise ClusterError(
            f"a task failed on a worker, and nothing was released: {type(error).__name__}: {error}"
        ) from None
    # a result that is lost before it is here is made again
    found: list[Any] = lasting(client, lambda: client.gather(futures))
    return found


class Calls(Executor):
    """Runs calls on a cluster, and gives up those who wait for one if no worker is left.

    Parameters
    ----------
    client : distributed.Client
        The connection.
    """

    def __init__(self, client: Any) -> None:
        self._client = client
        self._executor = client.get_executor(pure=False)
        self._open: set[Future[Any]] = set()
        self._shut = False

    def submit(self, fn: Callable[..., _T], /, *args: Any, **kwargs: Any) -> Future[_T]:
        """Return a future of ``fn(*args, **kwargs)``; its result may be a `ClusterError`.

        Raises
        ------
        ClusterError
            If the connection was closed.
        """
        if self._shut:
            raise RuntimeError("cannot schedule new futures after shutdown")
        check_open(self._client)
        call = _Call(self._client, self._executor.submit(fn, *args, **kwargs))
        self._open.add(call)
        call.add_done_callback(self._open.discard)
        return call

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more calls; wait for those that were taken, or cancel them.

        Raises
        ------
        ClusterError
            If no worker is left to wait for; the calls are cancelled.
        """
        self._shut = True
        try:
            if wait and not cancel_futures:
                _ended(self._client, list(self._open))
        finally:
            for call in list(self._open):
                call.cancel()


class _Call(Future[_T]):
    """A call on a cluster; who waits for it without a timeout is patient, but not for ever."""

    def __init__(self, client: Any, made: Future[_T]) -> None:
        super().__init__()
        self._client = client
        self._made: Future[_T] | None = made
        made.add_done_callback(self._take)

    def _take(self, made: Future[_T]) -> None:
        # in a circle of references, the result would stay on the cluster until it is noticed
        self._made = None
        if not self.set_running_or_notify_cancel():
            return
        try:
            with connection():
                self.set_result(made.result())
        except BaseException as error:
            self.set_exception(error)

    def cancel(self) -> bool:
        """Cancel the call, here and there."""
        cancelled, made = super().cancel(), self._made
        if made is not None:
            made.cancel()
        return cancelled

    def result(self, timeout: float | None = None) -> _T:
        """Return the result.

        Raises
        ------
        ClusterError
            If no worker is left, the connection is lost, or the call was cancelled.
        """
        with self._patience(timeout):
            return super().result(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Return what the call raised; raise a `ClusterError` as `result` does."""
        with self._patience(timeout):
            return super().exception(timeout)

    @contextmanager
    def _patience(self, timeout: float | None) -> Iterator[None]:
        with connection():
            if timeout is None:
                _ended(self._client, [self])
            yield
