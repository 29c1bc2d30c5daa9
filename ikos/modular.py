"""The group Z_q: integers modulo q in numpy arrays, exact for every q >= 2.

Elements are kept reduced, in ``[0, q)``, in the smallest of three kinds of array that is
exact: ``uint32`` for q <= 2^32, ``uint64`` for q <= 2^64, and Python integers in an object
array beyond.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ikos._validation import integer, quote, reject_masked, whole_number

BLOCK = 1 << 15
"""Elements that are worked on at a time: 256 KiB of uint64, which stays in a core's cache."""


def blocks(length: int, size: int = BLOCK) -> Iterator[slice]:
    """Yield the slices that cut ``range(length)`` into runs of at most ``size``."""
    for start in range(0, length, size):
        yield slice(start, min(start + size, length))


@dataclass(frozen=True)
class Zq:
    """The additive group of integers modulo q, at least 2 and of any size.

    >>> group = Zq(2**61 - 1)
    >>> a = group.elements([5, 2**61 - 2])
    >>> group.subtract(a, group.elements([7, 1]))
    >>> a
    array([2305843009213693949, 2305843009213693949], dtype=uint64)
    >>> group.sum(a)
    2305843009213693947
    """

    q: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "q", integer("q", self.q, low=2))
        _ = self.power_of_two, self._fills_dtype  # found once, with bits and dtype

    @cached_property
    def bits(self) -> int:
        """Bits of one element, ceil(log2 q)."""
        return (self.q - 1).bit_length()

    @cached_property
    def dtype(self) -> np.dtype[Any]:
        """The numpy type of the elements."""
        if self.bits <= 32:
            return np.dtype(np.uint32)
        return np.dtype(np.uint64) if self.bits <= 64 else np.dtype(object)

    @cached_property
    def power_of_two(self) -> bool:
        """Whether q is a power of two, so that reduction is a mask."""
        return self.q & (self.q - 1) == 0

    @cached_property
    def _fills_dtype(self) -> bool:
        """Whether machine arithmetic wraps at exactly q."""
        return self.dtype != object and self.q == 1 << (8 * self.dtype.itemsize)

    def elements(
        self, x: ArrayLike, name: str = "x", first: int = 0, upper: int | None = None
    ) -> NDArray[Any]:
        """Return integers in ``[0, q)``, or in ``{0..upper}``, as a new array of group elements.

        Any integer dtype, or Python integers of any size; booleans are 0 and 1, and decimals and
        fractions may be integers. Anything else is refused, and nothing is reduced silently.
        Messages call it ``name``, and the index of its first value ``first``.
        """
        reject_masked(name, x)
        highest = self.q - 1 if upper is None else upper
        # numpy would turn lists such as [True, 2] or [2**64, 1] into something else unseen
        given = np.asarray(x, dtype=object) if isinstance(x, (list, tuple)) else np.asarray(x)
        if given.dtype == object:
            if isinstance(x, (list, tuple)):
                for value in x:
                    reject_masked(name, value)
            flat = []
            for i, value in enumerate(given.flat, first):
                found = whole_number(value)
                if found is None:
                    raise TypeError(f"{name}[{i}] must be an integer, got {type(value).__name__}")
                flat.append(found)
            bad = next((i for i, value in enumerate(flat) if not 0 <= value <= highest), None)
            if bad is not None:
                raise ValueError(self._outside(name, first + bad, upper))
            result = np.empty(len(flat), dtype=self.dtype)
            result[:] = flat
            return result.reshape(given.shape)
        if given.dtype.kind == "b":
            given = given.astype(np.uint8)
        if given.dtype.kind not in "iu":
            hint = f"; if all are whole numbers, give {name}.astype(np.int64)"
            raise TypeError(
                f"{name} must hold integers, got an array of {given.dtype}"
                f"{hint if given.dtype.kind == 'f' else ''}"
            )
        if given.size:
            low, high = int(given.min()), int(given.max())
            if low < 0 or high > highest:
                bad = int(given.argmin() if low < 0 else given.argmax())
                raise ValueError(self._outside(name, first + bad, upper))
        return given.astype(self.dtype, copy=True)

    def _outside(self, name: str, index: int, upper: int | None) -> str:
        bounds = f"[0, q) for q = {quote(self.q)}"
        if upper is not None:
            bounds = f"[0, upper] for upper = {quote(upper)}"
        return f"{name}[{index}] must be in {bounds}"

    def contains(self, a: NDArray[Any]) -> bool:
        """Whether ``a`` is an array of reduced elements in this group's dtype."""
        if a.dtype != self.dtype:
            return False
        if self.dtype == object:
            return all(type(value) is int and 0 <= value < self.q for value in a.flat)
        return self._fills_dtype or a.size == 0 or int(a.max()) < self.q

    def reduce(self, x: NDArray[Any]) -> NDArray[Any]:
        """Return signed integers (int64, or object) modulo q, as a new array of elements."""
        if self.dtype == object or x.dtype == object:
            result = np.empty(x.shape, dtype=self.dtype)
            result.reshape(-1)[:] = [int(value) % self.q for value in x.flat]
            return result
        if self.q < 1 << 63:
            return np.mod(x.astype(np.int64), np.int64(self.q)).astype(self.dtype)
        # every int64 lies in [-q, q): its bits are the value modulo 2^64, and adding q to the
        # negative ones wraps them to value + q, which is in [0, q)
        result = x.astype(np.int64).view(np.uint64)
        if not self._fills_dtype:
            np.add(result, np.uint64(self.q), out=result, where=x < 0)
        return result

    def subtract(self, a: NDArray[Any], b: NDArray[Any]) -> None:
        """Set ``a`` to ``a - b`` modulo q, in place, for 1-d arrays of reduced elements."""
        if self.dtype == object:
            np.subtract(a, b, out=a)
            np.remainder(a, self.q, out=a)
            return
        if self._fills_dtype:
            np.subtract(a, b, out=a)
            return
        q = a.dtype.type(self.q)
        below_half = self.bits < 8 * a.dtype.itemsize
        held = np.empty(min(a.size, BLOCK), dtype=a.dtype if below_half else np.bool_)
        for part in blocks(a.size):
            left, right, shifted = a[part], b[part], held[: part.stop - part.start]
            if self.power_of_two:
                np.subtract(left, right, out=left)
                np.bitwise_and(left, q - a.dtype.type(1), out=left)
            elif below_half:
                # with q below half the range, a wrapped difference is the larger of itself and
                # itself + q, and one that did not wrap the smaller
                np.subtract(left, right, out=left)
                np.add(left, q, out=shifted)
                np.minimum(left, shifted, out=left)
            else:
                # near the top of the range that is ambiguous: the borrow decides, before the
                # subtraction, whether q is added, and both operations wrap
                np.less(left, right, out=shifted)
                np.subtract(left, right, out=left)
                np.add(left, q, out=left, where=shifted)

    def take_off(self, a: NDArray[Any], b: NDArray[Any]) -> None:
        """Set ``a`` to ``a - b``, as `subtract`, but leave reducing ``a`` to `finish`.

        Where q is a power of two, words need no reduction on the way: they wrap at a multiple of q.
        """
        if self.power_of_two and self.dtype != object:
            np.subtract(a, b, out=a)
        else:
            self.subtract(a, b)

    def put_on(self, a: NDArray[Any], b: NDArray[Any]) -> None:
        """Set ``a`` to ``a + b``, as `add`, but leave reducing ``a`` to `finish`."""
        if self.power_of_two and self.dtype != object:
            np.add(a, b, out=a)
        else:
            self.add(a, b)

    def finish(self, a: NDArray[Any]) -> None:
        """Reduce what `take_off` and `put_on` left, in place."""
        if self.power_of_two and self.dtype != object and not self._fills_dtype:
            np.bitwise_and(a, a.dtype.type(self.q - 1), out=a)

    def negate(self, a: NDArray[Any]) -> NDArray[Any]:
        """Return ``-a`` modulo q, for an array of reduced elements."""
        result = np.zeros_like(a)
        self.subtract(result, a)
        return result

    def add(self, a: NDArray[Any], b: NDArray[Any]) -> None:
        """Set ``a`` to ``a + b`` modulo q, in place, for arrays of reduced elements."""
        self.subtract(a, self.negate(b))

    def sum(self, a: NDArray[Any]) -> int:
        """Return the sum of reduced elements modulo q, exactly.

        Words of 64 bits are added up modulo 2^64, and their upper halves exactly: those of a block
        add up to less than 2^64, as do the lower halves, which are the difference modulo 2^64.
        """
        if self.dtype == object:
            return int(sum(a.flat)) % self.q
        flat = a.reshape(-1)
        if self.power_of_two:  # q divides 2^32 or 2^64: a sum that wraps stays right modulo q
            return int(flat.sum(dtype=self.dtype)) % self.q
        total = 0
        if self.dtype == np.uint32:
            for part in blocks(flat.size, 1 << 31):
                total += int(flat[part].sum(dtype=np.uint64))
            return total % self.q
        held = np.empty(min(flat.size, BLOCK), dtype=np.uint64)
        for part in blocks(flat.size):
            upper = held[: part.stop - part.start]
            np.right_shift(flat[part], 32, out=upper)
            above = int(np.add.reduce(upper)) << 32
            total += above + (int(np.add.reduce(flat[part])) - above) % (1 << 64)
        return total % self.q
