"""Aggregate values from arrays, iterators and files, block of users by block, to one sum.

Numbers come in blocks of users, each of which draws its rounding and noise from a source of its
own, so that they may be read while others are at work. Vectors are looked at as a whole, and
encoded some coordinates at a time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ikos._validation import quote
from ikos.aggregation.engine import SharingScheme, mixed_sum
from ikos.concurrency import Interrupted, Progress
from ikos.modular import blocks
from ikos.randomness import RandomSource
from ikos.sharing import split

USERS = 1 << 18
"""Users whose rounding and noise come from one source."""

COLUMNS = 32
"""Coordinates that are taken out of all users' vectors at a time."""

MAX_ENTRIES = 1 << 28
"""Most entries of an array of shares of vectors."""

Values = ArrayLike | Sequence[Any] | Iterator[ArrayLike]
"""An array, a list, a memory map, or an iterator over blocks of values."""

Coordinate = NDArray[Any] | Iterator[NDArray[Any]]
"""All users' elements of one coordinate, perhaps in blocks of users."""


class Encoder(Protocol):
    """What clients do with their values, and to whom they send what."""

    @property
    def setting(self) -> SharingScheme:
        """What is sent to whom, of each coordinate."""

    @property
    def n(self) -> int:
        """How many users there are at most."""

    @property
    def dimension(self) -> int:
        """How many coordinates their values have."""

    @property
    def scalar(self) -> bool:
        """Whether values are numbers, and not vectors."""

    def checked(self, x: Any, first: int = 0) -> NDArray[Any]:
        """Return values that were looked at, (k,) or (k, d); the first is user ``first``'s."""

    def encoded(self, values: NDArray[Any], rng: RandomSource) -> NDArray[Any]:
        """Return the group elements of checked numbers, (k,), or of coordinates, (c, k)."""

    def check_users(self, users: int, name: str) -> None:
        """Refuse too few users and too many."""


class Engine(Protocol):
    """Where a sum is run, other than here: `ikos.cluster.Cluster`."""

    def add_up(
        self, clients: Encoder, x: Any, rng: RandomSource, progress: Progress | None
    ) -> tuple[int, int]:
        """Return the sum modulo q of all users' elements, and how many users there were."""


def checked_blocks(
    clients: Encoder, x: NDArray[Any] | Iterator[ArrayLike]
) -> Iterator[NDArray[Any]]:
    """Yield checked values, `USERS` at a time, however they come.

    What is looked at is a copy, that is what is used: others may write to the memory, or to
    the file that is mapped there, in the meantime.
    """
    if not isinstance(x, Iterator):
        for part in blocks(x.shape[0], USERS):
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
        first += values.shape[0]
        if first > clients.n:  # before more of them are read, perhaps without end
            clients.check_users(first, "x")
        # copied, by both: an iterator may write what comes next to the same memory
        while values.shape[0] >= lacking:
            yield np.concatenate([*kept, values[:lacking]])
            values, kept, lacking = values[lacking:], [], USERS
        if values.shape[0]:
            kept.append(values.copy())
            lacking -= values.shape[0]
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
    if isinstance(x, np.ndarray) and x.ndim == 1 and clients.scalar:
        return x
    # numpy would make something else of a list before anyone could look, so that it is looked at
    # as a whole; as is what has no users, to be refused
    return clients.checked(x)


def coordinates(
    clients: Encoder, values: NDArray[Any] | Iterator[ArrayLike], rng: RandomSource
) -> Iterator[Coordinate]:
    """Yield the group elements of each coordinate of all users' values.

    Of numbers, blocks of users, as they are read: the k-th draws from source k of the
    `RandomSource.streams`. Of checked vectors arrays, `COLUMNS` of which are encoded together.
    """
    if clients.scalar:
        streams = rng.streams()
        yield (
            clients.encoded(some, streams(number))
            for number, some in enumerate(checked_blocks(clients, values))
        )
        return
    assert isinstance(values, np.ndarray)
    for part in blocks(clients.dimension, COLUMNS):
        yield from clients.encoded(np.ascontiguousarray(values[:, part].T), rng)


def collect(clients: Encoder, x: Values, rng: RandomSource) -> tuple[int, Iterator[Coordinate]]:
    """Return how many users there are, and the elements of each coordinate of their values.

    An iterator is read here, once: how many users there are is not known before.
    """
    given = iterator_or_array(clients, x)
    if not isinstance(given, Iterator):
        clients.check_users(given.shape[0], "x")
        return given.shape[0], coordinates(clients, given, rng)
    try:
        if clients.scalar:
            (encoded,) = coordinates(clients, given, rng)
            found = list(encoded)
        else:
            found = list(checked_blocks(clients, given))
    except KeyboardInterrupt:
        raise Interrupted(None, 0, 0, "while values were read") from None
    users = sum(some.shape[0] for some in found)
    clients.check_users(users, "x")
    joined = np.concatenate(found)
    if clients.scalar:
        return users, iter((joined,))
    # a promise about all vectors is looked at when they are together
    return users, coordinates(clients, clients.checked(joined), rng)


def shares_of(
    clients: Encoder, users: int, elements: Iterator[Coordinate], rng: RandomSource
) -> NDArray[Any]:
    """Return shares, (messages, users), or (messages, users, dimension) of vectors."""
    scheme, d = clients.setting, clients.dimension
    entries = scheme.messages * users * d
    if entries > MAX_ENTRIES and not clients.scalar:
        raise ValueError(
            f"x has users whose shares have {entries:,} entries, more than "
            f"{MAX_ENTRIES:,}; use run, or fewer users"
        )
    shares = np.empty((d, scheme.messages, users), dtype=scheme.group.dtype)
    for here, given in zip(shares, elements, strict=True):
        column = given if isinstance(given, np.ndarray) else np.concatenate(list(given))
        split(column, scheme.group, scheme.messages, rng, out=here)
    return shares[0] if clients.scalar else np.moveaxis(shares, 0, -1)


def add_up(
    clients: Encoder,
    x: Values,
    rng: RandomSource,
    *,
    threads: int | None = None,
    cluster: Engine | None = None,
    progress: Progress | None = None,
) -> tuple[list[int], int]:
    """Return the sum modulo q of each coordinate of all users' elements, and how many users."""
    if progress is not None and not callable(progress):
        raise TypeError(f"progress must be callable, got {quote(progress)}")
    if cluster is not None:
        if threads is not None:
            raise ValueError(f"threads must be None with cluster=, got {threads!r}")
        if not hasattr(cluster, "add_up"):
            raise TypeError(f"cluster must be an ikos.cluster.Cluster, got {quote(cluster)}")
        if not clients.scalar:
            raise ValueError("cluster must be None for vectors: they are added up here")
        z, users = cluster.add_up(clients, x, rng, progress)
        return [z], users
    users, elements = collect(clients, x, rng)
    scheme, totals = clients.setting, []
    for given in elements:
        column = given if isinstance(given, np.ndarray) else np.empty(users, scheme.group.dtype)
        encoded = None if isinstance(given, np.ndarray) else given
        told = progress if clients.scalar else None
        total = mixed_sum(column, scheme, rng, encoded=encoded, threads=threads, progress=told)
        totals.append(total)
        if progress is not None and not clients.scalar:
            progress(len(totals), clients.dimension)
    return totals, users
