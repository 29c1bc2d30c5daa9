"""What goes wrong on a cluster, in one line."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NoReturn

__all__ = ["ClusterError", "Refused", "connection", "results"]

_KINDS = (ValueError, TypeError, ImportError, OSError, MemoryError, ArithmeticError)


class ClusterError(RuntimeError):
    """A cluster that cannot be reached, or did not get the work done; nothing was released."""


@dataclass(frozen=True)
class Refused:
    """What clients raised.

    It is a result and no exception: Dask would log an exception with what it was about.

    Attributes
    ----------
    kind : type
        The exception's.
    message : str
        What it said.
    partition : int
        Where.
    """

    kind: type[Exception]
    message: str
    partition: int

    @classmethod
    def of(cls, error: Exception, partition: int) -> Refused:
        """Return what an exception says, in a form that can be sent anywhere."""
        for kind in _KINDS:
            if isinstance(error, kind):
                return cls(kind, str(error) or type(error).__name__, partition)
        return cls(ClusterError, f"{type(error).__name__}: {error}", partition)

    def throw(self) -> NoReturn:
        """Raise it here, with the partition named."""
        raise self.kind(f"{self.message} (in partition {self.partition}, counted from 0)") from None


@contextmanager
def connection() -> Iterator[None]:
    """Say in one line that the connection was lost, however Dask says it."""
    from distributed.client import ClosedClientError
    from distributed.comm.core import CommClosedError

    try:
        yield
    except (CancelledError, ClosedClientError, CommClosedError):
        raise ClusterError(
            "the connection to the scheduler was lost, or the work was cancelled there; "
            "nothing was released"
        ) from None


def results(futures: list[Any]) -> list[Any]:
    """Return the results of tasks, in their order, when all of them are done.

    Raises
    ------
    ClusterError
        If a task failed other than by `Refused`. What the graph of a Dask collection raises for
        its values, `ValueError` and `TypeError`, is raised as it is.
    """
    from distributed import KilledWorker
    from distributed.client import wait

    if not futures:
        return []
    wait(futures)
    for future in futures:
        if future.status != "error":
            continue
        error = future.exception()
        if isinstance(error, KilledWorker):
            raise ClusterError(
                "workers ended again and again at one task, and nothing was released; where "
                "memory is short, use smaller partitions or fewer workers"
            ) from None
        if isinstance(error, (ValueError, TypeError)):
            raise error from None
        raise ClusterError(
            f"a task failed on a worker, and nothing was released: {type(error).__name__}: {error}"
        ) from None
    found: list[Any] = futures[0].client.gather(futures)
    return found
