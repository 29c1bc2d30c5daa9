"""Options that put work on a cluster, and the connection to it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from ikos.cli.types import Whole
from ikos.cluster.processes import MAX_WORKERS

if TYPE_CHECKING:
    from ikos.cluster import Cluster

__all__ = ["connected", "scheduler_option", "workers_option"]

workers_option = click.option(
    "--workers",
    type=Whole(low=1, high=MAX_WORKERS),
    metavar="INTEGER",
    help="Work in so many processes of Dask on this machine [in none: all cores as they are]. "
    "Needs the extra 'cluster'.",
)

scheduler_option = click.option(
    "--scheduler",
    metavar="ADDRESS",
    help="Work on the cluster of a Dask scheduler, e.g. tcp://10.0.0.1:8786. Needs the extra "
    "'cluster'.",
)


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
