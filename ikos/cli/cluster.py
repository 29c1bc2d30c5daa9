"""The connection to a cluster that the command line asks for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from ikos.cluster import Cluster

__all__ = ["connected"]


@contextmanager
def connected(workers: int | None, scheduler: str | None) -> Iterator[Cluster | None]:
    """Give the cluster that was asked for, or None.

    Parameters
    ----------
    workers : int or None
        Processes to start here.
    scheduler : str or None
        The address of a scheduler.
    """
    if workers is not None and scheduler is not None:
        raise click.UsageError("--workers are started here, without --scheduler: give one of them")
    if workers is None and scheduler is None:
        yield None
        return
    from ikos.cluster import Cluster, ClusterError

    try:
        with Cluster(workers, scheduler=scheduler) as cluster:
            yield cluster
    except ClusterError as error:
        raise click.UsageError(str(error)) from None
