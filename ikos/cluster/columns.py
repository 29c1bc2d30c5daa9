"""Everybody's values, from wherever they are, to tasks: a block of users each."""

from __future__ import annotations

import pickle
from collections.abc import Generator, Iterable, Iterator
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ikos.aggregation.execution import (
    USERS,
    Encoder,
    checked_blocks,
    iterator_or_array,
    with_location,
)
from ikos.cluster.tasks import Checked, Desk
from ikos.randomness import RandomSource

SPAN = 4
"""Blocks of `USERS` users in one task at most: as messages of less than 10 MB."""

_STRIDE = 1 << 32


def block_tasks(
    client: Any, clients: Encoder, x: Any, rng: RandomSource, threads: int
) -> Generator[Any, None, None]:
    """Yield a future of a `Block` for each block of users, as fast as they are asked for.

    Parameters
    ----------
    client : distributed.Client
        Where to.
    clients : Clients
        What the users do.
    x : Any
        A Dask array or series, what has ``parts``, or what `SecureSum.run` takes.
    rng : RandomSource
        Where their randomness comes from.
    threads : int
        Of the cluster.

    Raises
    ------
    TypeError, ValueError
        If it is none of these, or a value that is looked at here is not one that users may have.
    """
    encoding, sharing = rng.streams(), rng.streams()
    if hasattr(x, "__dask_graph__"):
        return _collection(client, x, Desk(clients, encoding, sharing, _STRIDE))
    if hasattr(x, "parts"):
        parts = map(_movable, with_location(clients, x).parts)
        return _sent(client, Desk(clients, encoding, sharing, _STRIDE), parts)
    given = iterator_or_array(clients, x)
    span = SPAN
    if isinstance(given, np.ndarray):
        clients.check_users(given.size, "x")
        span = min(SPAN, max(1, given.size // (2 * threads * USERS)))
    desk = Desk(clients, encoding, sharing, span)
    return _sent(client, desk, map(Checked, _together(checked_blocks(clients, given), span)))


def _movable(part: Any) -> Any:
    """Return a part as it is; one that cannot be sent, such as a pipe, says so itself."""
    pickle.dumps(part)
    return part


def _together(found: Iterator[NDArray[Any]], span: int) -> Iterator[list[NDArray[Any]]]:
    while some := list(islice(found, span)):
        yield some


def _sent(client: Any, desk: Desk, given: Iterable[Any]) -> Generator[Any, None, None]:
    for number, values in enumerate(given):
        yield client.submit(desk, values, number, pure=False)


def _collection(client: Any, x: Any, desk: Desk) -> Generator[Any, None, None]:
    from dask.delayed import delayed

    dimensions = getattr(x, "ndim", None)
    if not isinstance(dimensions, int):  # what is delayed has any attribute, delayed as well
        raise TypeError(
            f"x must be a Dask array or a column of a data frame, got {type(x).__name__}"
        )
    if dimensions != 1:
        raise ValueError(f"x must be one-dimensional, got {dimensions} dimensions")
    work = delayed(desk, pure=False, traverse=False, name=False)
    partitions = np.ravel(x.to_delayed()).tolist()
    yield from client.compute([work(given, number) for number, given in enumerate(partitions)])
