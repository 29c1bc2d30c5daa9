"""Waiting for workers: as long as it takes, unless none is left to do the work."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Iterable
from concurrent.futures import Executor, Future, wait
from typing import Any, TypeVar

from ikos.cluster.errors import ClusterError, connection

STEP = 2.0
"""Seconds between two looks at a cluster."""

ANSWER = 15.0
"""Seconds for a scheduler to answer."""

LIMIT = 60.0
"""Seconds that a cluster may be without a running worker while its results are awaited."""

_T = TypeVar("_T")


def workers(client: Any) -> dict[str, dict[str, Any]] | None:
    """Return what the scheduler knows of each worker, by address; None if it does not answer."""
    if client.scheduler is None:  # the connection is closed
        return None
    try:
        known = client.sync(client.scheduler.identity, callback_timeout=ANSWER)
    except OSError:  # also of what takes too long
        return None
    found: dict[str, dict[str, Any]] = known["workers"]
    return found


def check_open(client: Any) -> None:
    """Refuse a connection that was closed."""
    if client.status in ("closing", "closed"):
        raise ClusterError("the connection to the cluster was closed")


def threads(client: Any) -> int:
    """Return how many threads the workers have, or refuse a cluster that has none."""
    found = workers(client)
    if not found:
        raise ClusterError(
            "the scheduler does not answer" if found is None else "the cluster has no workers"
        )
    return sum(one["nthreads"] for one in found.values())


class Watch:
    """Looks at a cluster, and gives it up if for `LIMIT` seconds no worker is seen to run twice.

    One look is not enough: where memory is short, workers start and are ended at once, for ever.
    """

    def __init__(self, client: Any) -> None:
        self._client = client
        self._since = 0.0
        self._running: set[str] | None = None

    def look(self) -> None:
        """Look once; raise a `ClusterError` where nothing is left to wait for."""
        found = workers(self._client)
        running = {where for where, one in (found or {}).items() if one["status"] == "running"}
        if self._running is None or running & self._running:
            self._since = time.monotonic()
        self._running = running
        if time.monotonic() - self._since <= LIMIT:
            return
        what = "the cluster had no workers that stayed"
        if found is None:
            what = "the scheduler did not answer"
        elif paused := sum(one["status"] == "paused" for one in found.values()):
            what = f"all workers ({paused}) were paused, which Dask does where memory is short"
        raise ClusterError(
            f"for {LIMIT:.0f} s {what}, and the work was given up; nothing was released"
        )


def lasting(client: Any, work: Callable[[], Awaitable[_T]]) -> _T:
    """Return what comes of work on the client's event loop, or give up with its workers."""

    async def made() -> _T:
        return await work()

    under_way = asyncio.run_coroutine_threadsafe(made(), client.loop.asyncio_loop)
    watch = Watch(client)
    try:
        while wait([under_way], timeout=STEP).not_done:
            watch.look()
        return under_way.result()
    finally:
        under_way.cancel()


def first_done(client: Any, futures: Collection[Any]) -> set[Any]:
    """Return those of some tasks that are done, when there is one; it may have failed."""
    from distributed.client import FIRST_COMPLETED
    from distributed.client import wait as ended

    done: set[Any] = lasting(client, lambda: ended(futures, return_when=FIRST_COMPLETED)).done
    return done


def results(client: Any, futures: Iterable[Any]) -> list[Any]:
    """Return the results of tasks, in their order, when all of them are done.

    What tasks raise is raised as it is where it says something about their input or about workers
    (`ValueError`, `TypeError`, `distributed.KilledWorker`), and else as a `ClusterError`.
    """
    from distributed import KilledWorker
    from distributed.client import wait as ended

    tasks = list(futures)
    if not tasks:
        return []
    lasting(client, lambda: ended(tasks))
    for task in tasks:
        if task.status == "error":
            error = task.exception(timeout=LIMIT)
            if isinstance(error, (KilledWorker, ValueError, TypeError)):
                raise error from None
            raise ClusterError(
                "a task failed on a worker, and nothing was released: "
                f"{type(error).__name__}: {error}"
            ) from None
    # a result that is lost before it is here is made again
    found: list[Any] = lasting(client, lambda: client.gather(tasks))
    return found


class Calls(Executor):
    """Runs calls on a cluster; who waits for one is told if no worker is left."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._calls: list[_Call[Any]] = []

    def submit(self, fn: Callable[..., _T], /, *args: Any, **kwargs: Any) -> Future[_T]:
        """Return a future of ``fn(*args, **kwargs)``; its result may be a `ClusterError`."""
        check_open(self._client)
        call: _Call[_T] = _Call(self._client, self._client.submit(fn, *args, pure=False, **kwargs))
        self._calls = [one for one in self._calls if not one.done()]
        self._calls.append(call)
        return call

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Wait for the calls that are under way, or cancel them; all are cancelled at an error."""
        try:
            for call in self._calls if wait and not cancel_futures else ():
                call.exception()
        finally:
            for call in self._calls:
                call.cancel()
            self._calls = []


class _Call(Future[_T]):
    """A call on a cluster, of which the task is forgotten there once its result is here."""

    def __init__(self, client: Any, task: Any) -> None:
        super().__init__()
        self._client = client
        self._task = task

    def result(self, timeout: float | None = None) -> _T:  # noqa: ARG002
        """Return the result, for which it waits as long as there are workers."""
        if not super().done():
            try:
                with self._client.as_current(), connection():
                    self.set_result(results(self._client, [self._task])[0])
            except Exception as error:
                self._forget()
                self.set_exception(error.with_traceback(None))  # which holds the task
            self._task = None
        return super().result()

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Return what the call raised, or a `ClusterError`."""
        try:
            self.result(timeout)
        except Exception as error:
            return error
        return None

    def cancel(self) -> bool:
        """Cancel the call, here and there."""
        if not super().cancel():
            return False
        self._forget()
        return True

    def _forget(self) -> None:
        if self._task is not None and self._client.status == "running":
            self._task.cancel()
