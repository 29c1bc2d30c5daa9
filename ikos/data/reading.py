"""Users' values, checked, as elements of a ring with noise, in the order that a transport takes.

Values come in parts: of some users, or of some coordinates of their vectors. Each part draws its
rounding and noise from its own source, and each group of coordinates its shares. The draws for a
value depend on its place, and not on threads or on the lengths of the parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ikos._validation import InvalidType, InvalidValue, refuse_missing
from ikos.data.domains import Domain
from ikos.data.encoding import Encoding
from ikos.primitives.concurrency import Interrupted, Scratch
from ikos.primitives.mixing import MESSAGES_IN_MEMORY, Encoder
from ikos.primitives.modular import Integers, Zq, blocks
from ikos.primitives.randomness import RandomSource
from ikos.primitives.sharing import USERS_PER_SOURCE

ENTRIES_PER_SOURCE = 1 << 20  # of vectors, whose rounding and noise come from one source
COLUMNS_PER_PASS = 32  # coordinates copied from all users' vectors at a time, in whole cache lines,
ENTRIES_PER_PASS = 1 << 22  # or at most about this number of entries
ENTRIES_PER_BUNCH = 1 << 17  # of whole coordinates that are shared together, in cache

Values = ArrayLike | Sequence[Any] | Iterator[ArrayLike]
"""An array, a list, a memory map, or an iterator over blocks of values."""

Streams = Callable[[int], RandomSource]

Columns = tuple[
    NDArray[Any], Sequence[Callable[[NDArray[Any]], None]], Sequence[tuple[slice, RandomSource]]
]
"""Memory for all users' elements of some coordinates, (c, users), the remaining tasks that write
parts of them, and the coordinates that are then shared together, with their source."""

Ring = Zq | Integers
"""The ring of elements: residues modulo q, or plain integers."""

NoiseShares = tuple[NDArray[np.int64], NDArray[Any]]
"""Places of entries that get noise, ascending, and the integers to be added."""


@dataclass(frozen=True)
class Participation:
    """The number ``n`` of users of a sum, and the ``least`` number that must take part."""

    n: int
    least: int

    def check(self, name: str, users: int, *, so_far: bool = False) -> None:
        """Refuse too few users or too many; with ``so_far``, only too many."""
        least, n = self.least, self.n
        if not least <= users <= n:
            wanted = f"the n = {n}" if least == n else f"min_honest = {least} to n = {n}"
            got = f"at least {users}" if so_far else users
            raise InvalidValue(name, f"must hold one value for each of {wanted} users, got {got}")


class AddedNoise(Protocol):
    """The noise that users add; the shares of ``parties`` users add up to one variable."""

    @property
    def parties(self) -> int:
        """Number of users whose noise adds up to one variable."""

    def entries(self, size: int, rng: RandomSource) -> NoiseShares:
        """Draw the noise of ``size`` entries, all independent."""


@dataclass(frozen=True)
class Reader:
    """Reads values as elements: a domain checks them, an encoding rounds them, noise is added.

    Without an ``encoding``, values are elements already. It can be pickled.
    """

    users: Participation
    domain: Domain
    encoding: Encoding | None
    noise: AddedNoise | None
    ring: Ring
    scalar: bool
    """Whether users hold scalars, not vectors."""

    @property
    def dimension(self) -> int:
        """Coordinates of a value; 1 for numbers."""
        return self.domain.dimension

    def checked(self, x: Any, first: int = 0) -> NDArray[Any]:
        """Return values, (k, *shape), checked, as (k,) or (k, d); the first is user ``first``'s.

        Arrays of a suitable type are not copied.
        """
        values = self.domain.values(x, first)
        if self.encoding is not None:
            self.encoding.check(self.domain.shaped(values), first)
        return values

    def one(self, x: Any) -> NDArray[Any]:
        """Return one user's value, checked, as an array of one."""
        whole = isinstance(refuse_missing("x", x), np.ndarray)
        return self.checked(x[np.newaxis] if whole else [x])

    def rounded(
        self, values: NDArray[Any], rng: RandomSource, out: NDArray[Any], scratch: Scratch
    ) -> None:
        """Write checked values, rounded at random, as elements to ``out``.

        It is contiguous and has the shape of ``values``.
        """
        if self.encoding is not None:
            self.encoding.encode(values, rng, out.reshape(-1), scratch)
            return
        elements = values if self.scalar else self.ring.elements(values)
        if elements is not out:
            out[...] = elements

    def noise_shares(self, size: int, rng: RandomSource) -> NoiseShares:
        """Draw the noise of ``size`` entries, if there is any."""
        if self.noise is None:
            return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
        return self.noise.entries(size, rng)

    def elements(self, values: NDArray[Any], rng: RandomSource) -> NDArray[Any]:
        """Return checked values as elements with noise, of the same shape, from one source."""
        elements = np.empty(values.shape, dtype=self.ring.dtype)
        self.rounded(values, rng, elements, Scratch())
        self.ring.add(elements.reshape(-1), *self.noise_shares(elements.size, rng))
        return elements

    def read(self, x: Values) -> Inputs:
        """Return all users' values, unchecked unless they are a list."""
        return Inputs(self, self._iterator_or_array(x))

    def _iterator_or_array(self, x: Any) -> NDArray[Any] | Iterator[ArrayLike]:
        if isinstance(x, np.ndarray) and x.ndim == 1 and self.scalar:
            return np.asarray(refuse_missing("x", x))
        if isinstance(x, Iterator):
            return x
        if hasattr(x, "__dask_graph__"):
            raise InvalidType("x", "is a Dask collection: pass cluster= to run on Dask workers")
        if hasattr(x, "parts") and hasattr(x, "blocks"):  # a column of tables
            read: Iterator[ArrayLike] = located(self.checked, x).blocks()
            return read
        # a list is checked as a whole, since numpy would silently convert it to something else; so
        # is an array of no users, which is refused
        return self.domain.shaped(self.checked(x))


@dataclass(frozen=True)
class Inputs:
    """All users' values of one run, which a transport takes in order, by place, or by column.

    An array has shape (users, *shape), as it was passed; transports get rows of entries.
    """

    reader: Reader
    values: NDArray[Any] | Iterator[ArrayLike]

    def blocks(self, size: int | None = None) -> Iterator[NDArray[Any]]:
        """Yield checked copies of some users' values: ``size``, or `USERS_PER_SOURCE` numbers."""
        reader, x = self.reader, self.values
        size = size or max(1, USERS_PER_SOURCE // reader.dimension)
        if not isinstance(x, Iterator):
            for part in blocks(x.shape[0], size):
                yield reader.checked(x[part].copy(), part.start)
            return
        first, lacking = 0, size
        kept: list[NDArray[Any]] = []
        for some in x:
            values = reader.checked(some.copy() if isinstance(some, np.ndarray) else some, first)
            first += values.shape[0]
            if first > reader.users.n:  # before more are read: an iterator may be endless
                reader.users.check("x", first, so_far=True)
            # copied by both: an iterator may write its next block to the same memory
            while values.shape[0] >= lacking:
                yield np.concatenate([*kept, values[:lacking]])
                values, kept, lacking = values[lacking:], [], size
            if values.shape[0]:
                kept.append(values.copy())
                lacking -= values.shape[0]
        if kept:
            yield np.concatenate(kept)

    def check_users(self) -> None:
        """Refuse too few users or too many, unless they are not counted yet."""
        if not isinstance(self.values, Iterator):
            self.reader.users.check("x", self.values.shape[0])

    def numbers(self, rng: RandomSource) -> NDArray[Any] | Encoder:
        """Return the elements of users' numbers, or their encoder, by place.

        An iterator is read here, once, as the number of users is not known before.
        """
        reader, data = self.reader, self.values
        encode = BlockEncoder(reader, rng.streams())
        if isinstance(data, Iterator):
            elements = _joined(map(encode, self.blocks(), count()))
            reader.users.check("x", elements.size)
            return elements
        self.check_users()

        def write(number: int, part: slice, out: NDArray[Any]) -> None:
            # a copy is checked and used: others may meanwhile write to the memory, or the file
            same = data.dtype == out.dtype
            values = out if same else encode.scratch("values", out.size, data.dtype)
            values[:] = data[part]
            encode(reader.checked(values, part.start), number, out)

        return Encoder(data.size, write)

    def vectors(self) -> NDArray[Any]:
        """Return all users' vectors, checked; an iterator is read whole."""
        reader = self.reader
        if not isinstance(self.values, Iterator):
            self.check_users()
            return self.values.reshape(len(self.values), reader.dimension)
        vectors = _joined(self.blocks())
        reader.users.check("x", len(vectors))
        # checked again: a promise about all vectors, now that all are read
        return reader.checked(reader.domain.shaped(vectors))


def columns(reader: Reader, vectors: NDArray[Any], rng: RandomSource) -> Iterator[Columns]:
    """Yield the elements of checked vectors, some coordinates at a time, in the same memory.

    The draws for an entry depend on its place, not on the threads.
    """
    users, numbers = vectors.shape[0], count()
    encode, secrets = BlockEncoder(reader, rng.streams()), rng.streams()

    def write(columns: slice, number: int, part: slice, out: NDArray[Any]) -> None:
        some = vectors[part, columns]
        copy, encoded = (
            encode.scratch(name, some.size, kind).reshape(some.shape)
            for name, kind in (("values", some.dtype), ("encoded", out.dtype))
        )
        copy[...] = some
        out[:, part] = encode(copy, number, encoded).T

    width = min(
        max(COLUMNS_PER_PASS, ENTRIES_PER_PASS // users), max(1, MESSAGES_IN_MEMORY // users)
    )
    elements = np.empty((min(reader.dimension, width), users), reader.ring.dtype)
    for some in blocks(reader.dimension, width):
        c = some.stop - some.start
        yield (
            elements[:c],
            [
                partial(write, some, next(numbers), part)
                for part in blocks(users, max(1, ENTRIES_PER_SOURCE // c))
            ],
            [
                (rows, secrets(some.start + rows.start))
                for rows in blocks(c, max(1, ENTRIES_PER_BUNCH // users))
            ],
        )


@dataclass
class BlockEncoder:
    """Encodes users' checked values in blocks, of `USERS_PER_SOURCE` numbers or of vectors.

    Noise of numbers is drawn for all blocks that share one variable at once. All noise shares
    are independent: two threads or processes may draw the same blocks' and use those of one each.
    """

    reader: Reader
    streams: Streams
    scratch: Scratch = field(default_factory=Scratch)
    _drawn: dict[int, NoiseShares] = field(default_factory=dict)

    def __call__(
        self, values: NDArray[Any], number: int, out: NDArray[Any] | None = None
    ) -> NDArray[Any]:
        """Return the elements of values, of block ``number``, perhaps in ``out``."""
        reader, source = self.reader, self.streams(number)
        if out is None:
            out = np.empty(values.shape, dtype=reader.ring.dtype)
        reader.rounded(values, source, out, self.scratch)
        if reader.scalar and reader.noise is not None:
            noise = self._noise(reader.noise, number, out.size)
        else:
            noise = reader.noise_shares(out.size, source)
        reader.ring.add(out.reshape(-1), *noise)
        return out

    def _noise(self, noise: AddedNoise, number: int, size: int) -> NoiseShares:
        """Return the noise of a block of numbers."""
        together = max(1, noise.parties // USERS_PER_SOURCE)
        run, place = divmod(number, together)
        shares = self._drawn.get(run)
        if shares is None:
            drawn = together * USERS_PER_SOURCE if together > 1 else size
            shares = noise.entries(drawn, self.streams((1 << 64) + run))
            if together > 1:
                self._drawn[run] = shares
        users, amounts = shares
        low, high = np.searchsorted(
            users, (place * USERS_PER_SOURCE, place * USERS_PER_SOURCE + size)
        )
        return users[low:high] - place * USERS_PER_SOURCE, amounts[low:high]


def _joined(parts: Iterator[NDArray[Any]]) -> NDArray[Any]:
    """Return all blocks of an iterator in one array."""
    try:
        held = list(parts)
    except KeyboardInterrupt:
        raise Interrupted(None, 0, 0, "while values were read") from None
    return np.concatenate(held) if held else np.empty(0)


def located(check: Callable[[Any, int], Any], x: Any) -> Any:
    """Return a column of tables whose values are checked, and reported by file and row."""
    return x.seen(_Located(check)) if hasattr(x, "seen") else x


@dataclass(frozen=True)
class _Located:
    """Adds the file and row to the error for a refused value. It can be pickled."""

    check: Callable[[Any, int], Any]

    def __call__(self, values: NDArray[Any], before: int) -> NDArray[Any]:
        """Return a block of a table unchanged, checked where it is read."""
        try:
            self.check(values, before)
        except InvalidValue as error:
            if error.row is None:
                raise
            from ikos.data.tables import InvalidRow  # imported only if there are tables

            raise InvalidRow(error.row - before, f"which {error.what}") from None
        return values
