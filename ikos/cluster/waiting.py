"""Requests to a cluster, and waiting for it as long as it has workers."""

from __future__ import annotations

import asyncio
import pkgutil
import time
from collections.abc import Awaitable, Collection, Coroutine, Iterable, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager
from typing import Any, TypeVar

import ikos

LOOK_SECONDS = 2.0  # between two looks at a cluster
ANSWER_SECONDS = 15.0  # for a scheduler to answer
LIMIT_SECONDS = 60.0  # that a cluster may be without a running worker while its results are awaited

_T = TypeVar("_T")


class ClusterError(RuntimeError):
    """The cluster cannot be reached, or did not finish the work; nothing was released."""


@contextmanager
def connection() -> Iterator[None]:
    """Report the loss of the connection or the workers in one line, however Dask reports it."""
    from distributed import KilledWorker
    from distributed.client import ClosedClientError
    from distributed.comm.core import CommClosedError

    try:
        yield
    except (CancelledError, ClosedClientError, CommClosedError):
        raise ClusterError(
            "the connection to the scheduler was lost, or the work was cancelled there; "
            "nothing was released"
        ) from None
    except KilledWorker:
        raise ClusterError(
            "workers ended again and again at one task, and nothing was released; where "
            "memory is short, use smaller partitions or fewer workers"
        ) from None


async def workers(client: Any) -> dict[str, dict[str, Any]] | None:
    """Return the scheduler's data on each worker, by address; None if it does not answer."""
    if client.scheduler is None:  # the connection is closed
        return None
    try:
        known = await asyncio.wait_for(client.scheduler.identity(), ANSWER_SECONDS)
    except OSError:  # also if it takes too long
        return None
    listed: dict[str, dict[str, Any]] = known["workers"]
    return listed


def check_open(client: Any) -> None:
    """Refuse a closed connection."""
    if client.status in ("closing", "closed"):
        raise ClusterError("the connection to the cluster was closed")


def check_versions(client: Any) -> None:
    """Refuse a cluster with a worker that has another version of ikos, or none."""
    # by a function of the standard library, as a worker without ikos could not read one of ours;
    # workers that end meanwhile return other errors, and are skipped
    asked = {"on_error": "return", "callback_timeout": LIMIT_SECONDS}
    try:
        versions = client.sync(client.run, pkgutil.resolve_name, "ikos:__version__", **asked)
    except TimeoutError:
        raise ClusterError("workers of the cluster do not answer") from None
    here = ikos.__version__
    for worker, version in versions.items():
        if isinstance(version, (ImportError, AttributeError)):
            raise ClusterError(f"the worker {worker} has no ikos, and here is version {here}")
        if isinstance(version, str) and version != here:
            raise ClusterError(
                f"the worker {worker} has version {version} of ikos, and here is {here}: "
                "they must be the same"
            )


def threads(client: Any) -> int:
    """Return the number of the workers' threads, or refuse a cluster that has none."""
    known = client.sync(workers, client)
    if not known:
        raise ClusterError(
            "the scheduler does not answer" if known is None else "the cluster has no workers"
        )
    return sum(worker["nthreads"] for worker in known.values())


class Watch:
    """Watches a cluster, and gives up if no worker is seen running twice for `LIMIT_SECONDS`.

    One look is not enough: if memory is short, workers start and are killed again and again.
    """

    def __init__(self, client: Any) -> None:
        self._client = client
        self._since = self._looked = time.monotonic()
        self._running: set[str] | None = None

    async def look(self) -> None:
        """Look at the cluster, unless just done; raise `ClusterError` if no workers are left."""
        now = time.monotonic()
        if self._running is not None and now < self._looked + LOOK_SECONDS:
            return
        if now > self._looked + LIMIT_SECONDS + ANSWER_SECONDS:  # there was nothing to wait for
            self._running = None
        known = await workers(self._client)
        self._looked = time.monotonic()  # a scheduler may take its time to answer
        running = {name for name, worker in (known or {}).items() if worker["status"] == "running"}
        if self._running is None or running & self._running:
            self._since = time.monotonic()
        self._running = running
        if time.monotonic() - self._since <= LIMIT_SECONDS:
            return
        what = "the cluster had no workers that stayed"
        if known is None:
            what = "the scheduler did not answer"
        elif paused := sum(worker["status"] == "paused" for worker in known.values()):
            what = f"all workers ({paused}) were paused, which Dask does where memory is short"
        raise ClusterError(
            f"for {LIMIT_SECONDS:.0f} s {what}, and the work was given up; nothing was released"
        )

    async def over(self, work: Awaitable[_T]) -> _T:
        """Return the result of some work, or give up if the workers are gone."""
        under_way = asyncio.ensure_future(work)
        try:
            while not (await asyncio.wait([under_way], timeout=LOOK_SECONDS))[0]:
                await self.look()
            return under_way.result()
        finally:
            under_way.cancel()


def _finished(client: Any, work: Coroutine[Any, Any, _T]) -> _T:
    """Return the result of work on the client's event loop."""
    under_way = asyncio.run_coroutine_threadsafe(work, client.loop.asyncio_loop)
    try:
        return under_way.result()
    finally:
        under_way.cancel()


def first_done(client: Any, futures: Collection[Any]) -> set[Any]:
    """Return the finished ones of some tasks, once there is one; it may have failed."""
    from distributed.client import FIRST_COMPLETED, wait

    async def first() -> set[Any]:
        result = await Watch(client).over(wait(futures, return_when=FIRST_COMPLETED))
        done: set[Any] = result.done
        return done

    return _finished(client, first())


def results(client: Any, futures: Iterable[Any]) -> list[Any]:
    """Return the results of tasks, in order, when all are done.

    Errors of tasks about their input or about workers (`ValueError`, `TypeError`,
    `distributed.KilledWorker`) are raised unchanged, others as a `ClusterError`.
    """
    from distributed import KilledWorker
    from distributed.client import wait

    tasks, watch = list(futures), Watch(client)

    async def gathered() -> list[Any]:
        await watch.over(wait(tasks))
        for task in tasks:
            if task.status == "error":
                error = await task.exception(timeout=LIMIT_SECONDS)
                if isinstance(error, (KilledWorker, ValueError, TypeError)):
                    raise error from None
                raise ClusterError(
                    "a task failed on a worker, and nothing was released: "
                    f"{type(error).__name__}: {error}"
                ) from None
        # a result that is lost before it arrives is computed again
        values: list[Any] = await watch.over(client.gather(tasks))
        return values

    return _finished(client, gathered()) if tasks else []
