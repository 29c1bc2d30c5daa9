"""Everybody's values, from wherever they are, to one sum: block of users by block."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ikos._validation import quote
from ikos.aggregation.engine import SharingScheme, mixed_sum
from ikos.concurrency import Interrupted, Progress
from ikos.modular import blocks
from ikos.randomness import RandomSource

USERS = 1 << 18
"""Users whose rounding and noise come from one source."""

Values = ArrayLike | Sequence[Any] | Iterator[ArrayLike]
"""An array, a list, a memory map, or an iterator over blocks of values."""


class Encoder(Protocol):
    """What clients do with their values, and to whom they send what."""

    @property
    def setting(self) -> SharingScheme:
        """What is sent to whom."""

    @property
    def n(self) -> int:
        """How many users there are at most."""

    def checked(self, x: Any, first: int = 0) -> NDArray[Any]:
        """Return values that were looked at; the first is user number ``first``."""

    def encoded(self, values: NDArray[Any], rng: RandomSource) -> NDArray[Any]:
        """Return the group elements that users with checked values share."""

    def check_users(self, users: int, name: str) -> None:
        """Refuse too few users and too many."""


class Engine(Protocol):
    """Where a sum is run, other than here: `ikos.cluster.Cluster`."""

    def add_up(
        self, clients: Encoder, x: Any, rng: RandomSource, progress: Progress | None
    ) -> tuple[int, int]:
        """Return the sum modulo q of everybody's elements, and how many users there were."""


def checked_blocks(
    clients: Encoder, x: NDArray[Any] | Iterator[ArrayLike]
) -> Iterator[NDArray[Any]]:
    """Yield checked values, `USERS` at a time, however they come.

    What is looked at is a copy, that is what is used: somebody else may write to the memory, or to
    the file that is mapped there, in the meantime.
    """
    if not isinstance(x, Iterator):
        for part in blocks(x.size, USERS):
            yield clients.checked(x[part].copy(), part.start)
        return
    first, lacking = 0, USERS
    kept: list[NDArray[Any]] = []
    for some in x:
        if _is_one(some):
            raise TypeError(
                "x must be an iterator of blocks (arrays) of values, got one that yields "
                f"{type(some).__name__}"
            )
        values = clients.checked(some.copy() if isinstance(some, np.ndarray) else some, first)
        first += values.size
        if first > clients.n:  # before more of them are read, perhaps without end
            clients.check_users(first, "x")
        # copied, by both: an iterator may write what comes next to the same memory
        while values.size >= lacking:
            yield np.concatenate([*kept, values[:lacking]])
            values, kept, lacking = values[lacking:], [], USERS
        if values.size:
            kept.append(values.copy())
            lacking -= values.size
    if kept:
        yield np.concatenate(kept)


def _is_one(some: Any) -> bool:
    """Whether it is one value, or nothing, where there should be a block of them."""
    if hasattr(some, "__array__"):
        return np.ndim(some) == 0
    return isinstance(some, str | bytes) or not hasattr(some, "__len__")


@dataclass(frozen=True)
class _Located:
    """Names the file and the row of a value that clients refuse. It can be pickled."""

    clients: Encoder

    def __call__(self, values: NDArray[Any], before: int) -> NDArray[Any]:
        """Return a block of a table as it is, looked at where it is read."""
        try:
            self.clients.checked(values, before)
        except ValueError as error:
            found = re.match(r"x\[(\d+)\] ", message := str(error))
            if found is None:
                raise
            from ikos.tables import BadRow  # which only they need who have tables

            why = f"which {message[found.end() :]}"
            raise BadRow(int(found[1]) - before, why) from None
        return values


def with_location(clients: Encoder, x: Any) -> Any:
    """Return a column of tables so that what clients refuse is named by its file and row."""
    return x.seen(_Located(clients)) if hasattr(x, "seen") else x


def iterator_or_array(clients: Encoder, x: Values) -> NDArray[Any] | Iterator[ArrayLike]:
    """Return values as an iterator, or as an array of which parts are still to be looked at."""
    if hasattr(x, "__dask_graph__"):
        raise TypeError("x is a Dask collection: say where to work on it with cluster=")
    if isinstance(x, Iterator):
        return x
    if hasattr(x, "parts") and hasattr(x, "blocks"):  # a column of tables
        found: Iterator[ArrayLike] = with_location(clients, x).blocks()
        return found
    if isinstance(x, np.ndarray) and x.ndim == 1:
        return x
    # numpy would make something else of a list before anyone could look, so that it is looked at
    # as a whole; as is what has no users, to be refused
    return clients.checked(x)


def encoded_blocks(
    clients: Encoder, x: NDArray[Any] | Iterator[ArrayLike], streams: Callable[[int], RandomSource]
) -> Iterator[NDArray[Any]]:
    """Yield the group elements that everybody shares, `USERS` at a time.

    By one thread: it is many short steps, at each of which threads would wait for each other, and
    on two it took twice as long.
    """
    for number, values in enumerate(checked_blocks(clients, x)):
        yield clients.encoded(values, streams(number))


def collect(clients: Encoder, x: Values, rng: RandomSource) -> NDArray[Any]:
    """Return the group elements that everybody shares.

    Parameters
    ----------
    clients : Clients
        What they do.
    x : Values
        An iterator is read once.
    rng : RandomSource
        Source k of its `streams` is for block k of `USERS` users, however they came.

    Returns
    -------
    (users,) ndarray
        A new array of the group's dtype.

    Raises
    ------
    TypeError, ValueError
        If a value is not one that the clients may have, or there are too few or too many.
    """
    given = iterator_or_array(clients, x)
    if not isinstance(given, Iterator):
        clients.check_users(given.size, "x")
    found = list(encoded_blocks(clients, given, rng.streams()))
    elements = np.concatenate(found) if found else np.empty(0, dtype=clients.setting.group.dtype)
    clients.check_users(elements.size, "x")
    return elements


def add_up(
    clients: Encoder,
    x: Values,
    rng: RandomSource,
    *,
    threads: int | None = None,
    cluster: Engine | None = None,
    progress: Progress | None = None,
) -> tuple[int, int]:
    """Run a secure summation on everybody's values.

    Parameters
    ----------
    clients, x, rng, threads
        As for `collect`.
    cluster : Engine, optional
        Where to run it; here by default.
    progress : callable, optional
        Called with the pieces of the shufflers' output that are done, and their number.

    Returns
    -------
    z, users : int
        The sum modulo q of their elements, and how many users there were.

    Raises
    ------
    Interrupted
        At Ctrl-C; nothing was released.
    """
    if progress is not None and not callable(progress):
        raise TypeError(f"progress must be callable, got {quote(progress)}")
    if cluster is not None:
        if threads is not None:
            raise ValueError(f"threads must be None with cluster=, got {threads!r}")
        if not hasattr(cluster, "add_up"):
            raise TypeError(f"cluster must be an ikos.cluster.Cluster, got {quote(cluster)}")
        return cluster.add_up(clients, x, rng, progress)
    return _add_up_here(clients, x, rng, threads, progress)


def _add_up_here(
    clients: Encoder, x: Values, rng: RandomSource, threads: int | None, progress: Progress | None
) -> tuple[int, int]:
    given = iterator_or_array(clients, x)
    if isinstance(given, Iterator):
        try:
            elements, encoded = collect(clients, given, rng), None
        except KeyboardInterrupt:
            raise Interrupted(None, 0, 0, "while values were read") from None
    else:
        clients.check_users(given.size, "x")
        elements = np.empty(given.size, dtype=clients.setting.group.dtype)
        encoded = encoded_blocks(clients, given, rng.streams())
    z = mixed_sum(
        elements,
        clients.setting,
        rng,
        encoded=encoded,
        threads=threads,
        progress=progress,
    )
    return z, elements.size
