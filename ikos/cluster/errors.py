"""What goes wrong on a cluster, in one line."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NoReturn

_KINDS = (ValueError, TypeError, ImportError, OSError, MemoryError, ArithmeticError)


class ClusterError(RuntimeError):
    """A cluster that cannot be reached, or did not get the work done; nothing was released."""


@dataclass(frozen=True)
class Refusal:
    """What clients raised, and in which partition where the message does not say it.

    A result and no exception, which Dask would log with its arguments; it prints no value.
    """

    kind: type[Exception]
    message: str = field(repr=False)
    partition: int | None

    @classmethod
    def of(cls, error: Exception, partition: int | None) -> Refusal:
        """Return what an exception says, in a form that can be sent anywhere."""
        for kind in _KINDS:
            if isinstance(error, kind):
                return cls(kind, str(error) or type(error).__name__, partition)
        return cls(ClusterError, f"{type(error).__name__}: {error}", partition)

    def throw(self) -> NoReturn:
        """Raise it here, with the partition named."""
        where = ""
        if self.partition is not None:
            where = f" (in partition {self.partition}, counted from 0)"
        raise self.kind(self.message + where) from None


@contextmanager
def connection() -> Iterator[None]:
    """Say in one line that the connection was lost, or the workers, however Dask says it."""
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
