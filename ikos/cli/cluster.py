"""The connection to the cluster that the options name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from ikos.cluster import Cluster


@contextmanager
def connected(workers: int | None, scheduler: str | None) -> Iterator[Cluster | None]:
    """Yield a cluster of processes started here, or of a scheduler's address, or None."""
    if workers is not None and scheduler is not None:
        raise click.UsageError("--workers are started here, without --scheduler: give one of them")
    if workers is None and scheduler is None:
        yield None
        return
    from ikos.cluster import Cluster, ClusterError
    from ikos.cluster.waiting import connection

    option = "--workers" if scheduler is None else "--scheduler"
    try:
        try:
            cluster = Cluster(workers, scheduler=scheduler)
        except ImportError as error:
            said = str(error).replace("a cluster needs", f"{option} needs", 1)
            raise click.UsageError(said) from None
        with cluster, connection():
            yield cluster
    except ClusterError as error:
        raise click.UsageError(f"{option}: {error}") from None
