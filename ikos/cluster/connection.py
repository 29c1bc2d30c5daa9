"""The connection to a cluster: a new one on this machine, or a running one."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

from ikos._validation import InvalidType, InvalidValue, integer, quote
from ikos.cluster.driver import add_up
from ikos.cluster.waiting import (
    ANSWER_SECONDS,
    ClusterError,
    check_open,
    check_versions,
    connection,
    workers,
)
from ikos.data.reading import Reader
from ikos.primitives.concurrency import Progress, cores
from ikos.primitives.randomness import RandomSource
from ikos.transports.base import Totals, Transport

MAX_WORKERS = 1024

START_SECONDS = 120  # for a local worker to start, at first or to replace a lost one
WORKER_SECONDS = 15  # for a running scheduler to have a worker
CLOSING_SECONDS = 30  # for all local workers to end before they are killed


class Cluster:
    """Dask workers that run sums and graph experiments; see docs/how-to/cluster.md.

    Parameters
    ----------
    workers : int, optional
        Processes to start on this machine, with one thread each; by default one per core.
    scheduler : str, optional
        Address of a running scheduler instead, such as ``"tcp://10.0.0.1:8786"``. Its workers need
        the same version of ikos.
    client : distributed.Client, optional
        An open connection instead; it stays open.

    Raises
    ------
    ClusterError
        If there is no scheduler at the address, or it has no workers. Sums raise it if the cluster
        was closed, if a worker has another version of ikos, or if for a minute there were no
        workers or all were paused for lack of memory.
    """

    def __init__(
        self, workers: int | None = None, *, scheduler: str | None = None, client: Any = None
    ) -> None:
        sources = {"workers": workers, "scheduler": scheduler, "client": client}
        named = [name for name, value in sources.items() if value is not None]
        if len(named) > 1:
            raise InvalidValue(named[0], f"must be None where {named[1]} is given")
        if scheduler is not None and not isinstance(scheduler, str):
            raise InvalidType("scheduler", f"must be an address, got {quote(scheduler)}")
        many = cores() if workers is None else integer("workers", workers, low=1, high=MAX_WORKERS)
        try:
            import distributed
        except ImportError:
            raise ImportError(
                "a cluster needs Dask, which is not installed: pip install 'ikos[cluster]'"
            ) from None
        if client is not None and not isinstance(client, distributed.Client):
            raise InvalidType("client", f"must be a distributed.Client, got {quote(client)}")
        with ExitStack() as opened:
            if client is None:
                client = _client(_local(opened, many) if scheduler is None else scheduler)
                opened.callback(_leave, client)
            self.client = client
            self._opened = opened.pop_all()

    @property
    def executor(self) -> Executor:
        """The ``executor=`` argument of `ikos.graphs` functions."""
        check_open(self.client)
        with connection():
            check_versions(self.client)
        executor: Executor = self.client.get_executor(pure=False)
        return executor

    def refuse_others(self, transport: Transport) -> None:
        """Refuse a transport that this cluster does not run."""
        if transport.scheme is None:
            raise InvalidValue("cluster", f"must be None for transport {transport.name!r}")

    def add_up(
        self,
        reader: Reader,
        transport: Transport,
        x: Any,
        rng: RandomSource,
        progress: Progress | None,
    ) -> Totals:
        """Return the sum modulo q of each coordinate, and the number of users."""
        check_open(self.client)
        assert transport.scheme is not None
        totals = add_up(self.client, reader, transport.scheme, x, rng, progress)
        return transport.with_noise(totals, rng)

    def close(self) -> None:
        """Close what was opened here."""
        self._opened.close()

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


@contextmanager
def interrupts_held() -> Iterator[None]:
    """Shield processes that start meanwhile from Ctrl-C, which a terminal sends to all."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    from multiprocessing import resource_tracker

    # the resource tracker unblocks all signals when it starts, with the first process
    resource_tracker.ensure_running()
    held = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, held)


def _local(opened: ExitStack, workers: int) -> Any:
    """Start worker processes, for as long as a stack is open."""
    import dask
    from distributed import LocalCluster

    class Local(LocalCluster):  # type: ignore[misc]
        """A cluster that does not fail if a worker is reported as lost twice."""

        def _update_worker_status(self, op: str, msg: Any) -> None:
            with suppress(KeyError):  # an error would prevent it from closing
                super()._update_worker_status(op, msg)

    settings = {
        # if no replacement of a lost worker has come by then, none ever does
        "distributed.deploy.lost-worker-timeout": START_SECONDS,
        # else each array is returned to the system at once, and each new one is cleared by it
        "distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_": None,
    }
    opened.enter_context(dask.config.set(settings))
    begun = time.monotonic()
    try:
        with interrupts_held():
            local = Local(
                n_workers=workers,
                threads_per_worker=1,
                processes=True,
                dashboard_address="127.0.0.1:0",  # None would be one port for every interface
                silence_logs=logging.CRITICAL,  # a lost worker is replaced
                death_timeout=START_SECONDS,
            )
    except Exception as error:  # of any kind; workers that have started are ended
        late = time.monotonic() > begun + START_SECONDS
        reason = f"they have not started within {START_SECONDS} s" if late else _first_line(error)
        raise ClusterError(
            f"no workers could be started here: {reason} (a script that starts them does so "
            "under \"if __name__ == '__main__':\", since workers import it)"
        ) from None
    opened.callback(_end, local)
    return local


def _end(local: Any) -> None:
    """End workers, by force if they do not respond."""
    processes = [worker.pid for worker in local.workers.values()]
    try:
        local.close(timeout=CLOSING_SECONDS)
    except TimeoutError:
        for process in filter(None, processes):
            with suppress(ProcessLookupError):
                os.kill(process, getattr(signal, "SIGKILL", signal.SIGTERM))


def _leave(client: Any) -> None:
    """End a connection; if that takes too long, another error explains why."""
    with suppress(TimeoutError):
        client.close(timeout=CLOSING_SECONDS)


async def _answers(address: str) -> None:
    """Raise an error if nothing listens: a client reports that only at its end."""
    from distributed.comm import connect

    await (await connect(address, timeout=ANSWER_SECONDS)).close()


def _client(place: Any, tries: int = 3) -> Any:
    """Connect to a scheduler that has workers, by its address or the object that runs it."""
    from distributed import Client

    shown = quote(place) if isinstance(place, str) else "started here"
    try:
        if isinstance(place, str):
            with ThreadPoolExecutor(1) as executor:  # the program may run its own loop here
                executor.submit(asyncio.run, _answers(place)).result()
        client = Client(place, timeout=ANSWER_SECONDS, set_as_default=False)
    except AssertionError:
        # distributed expects its greeting alone; a busy scheduler may send more along with it
        if tries == 1:
            raise
        return _client(place, tries - 1)
    except (OSError, ValueError, TypeError, ImportError) as error:
        raise ClusterError(f"no scheduler answers at {shown}: {_first_line(error)}") from None
    try:
        # its own limit covers workers, not the scheduler
        client.sync(
            client.wait_for_workers,
            1,
            timeout=WORKER_SECONDS,
            callback_timeout=WORKER_SECONDS + ANSWER_SECONDS,
        )
    except TimeoutError:
        paused = " that are not paused for lack of memory" if client.sync(workers, client) else ""
        _leave(client)
        raise ClusterError(f"the scheduler {shown} has no workers{paused}") from None
    except BaseException:
        _leave(client)
        raise
    return client


def _first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]
