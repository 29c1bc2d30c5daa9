"""The group Z_q: integers modulo q in numpy arrays, exact for every q >= 2.

Elements are kept reduced, in ``[0, q)``: as ``uint32`` for q <= 2^32, as ``uint64`` for q <= 2^64,
and beyond as Python integers in an object array.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ikos._validation import (
    InvalidType,
    InvalidValue,
    integer,
    quote,
    refuse_missing,
    reject_missing,
    whole_number,
)

BLOCK = 1 << 15
"""Elements in a block: 256 KiB of uint64, which fits in the cache of a core."""


def blocks(length: int, size: int = BLOCK) -> Iterator[slice]:
    """Yield the slices that cut ``range(length)`` into runs of at most ``size``."""
    for start in range(0, length, size):
        yield slice(start, min(start + size, length))


@dataclass(frozen=True)
class Zq:
    """The additive group of integers modulo q, for any q >= 2."""

    q: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "q", integer("q", self.q, low=2))
        _ = self.power_of_two, self._fills_dtype  # computed once, with bits and dtype

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
        """Return integers in ``[0, q)``, or in ``{0..upper}``, as an array of group elements.

        Input has any integer dtype or holds Python integers of any size; booleans are 0 and 1;
        decimals and fractions that are whole count as integers. Anything else is refused; nothing
        is reduced silently. An array of the group's dtype is not copied. Messages use ``name`` and
        count values from ``first``.
        """
        refuse_missing(name, x)
        # numpy would silently turn lists such as [True, 2] or [2**64, 1] into something else
        array = np.asarray(x, dtype=object) if isinstance(x, (list, tuple)) else np.asarray(x)
        if array.dtype == object:
            residues = np.empty(array.size, dtype=object)
            for i, value in enumerate(array.flat):
                residues[i] = whole_number(value)
                if residues[i] is None:
                    reject_missing(name, [value] * (array.ndim > 0), "an integer", first + i)
                    kind = type(value).__name__
                    raise InvalidType(
                        f"{name}[{first + i}]", f"must be an integer, got {kind}", row=first + i
                    )
            array = residues.reshape(array.shape)
        elif array.dtype.kind == "b":
            array = array.astype(np.uint8)
        elif array.dtype.kind not in "iu":
            if array.dtype.kind == "f":
                reject_missing(name, array.flat, "an integer", first)
            hint = f"; if all are whole, give {name}.astype(np.int64) or read with integers=True"
            hint *= array.dtype.kind == "f"
            raise InvalidType(name, f"must hold integers, got an array of {array.dtype}{hint}")
        highest = self.q - 1 if upper is None else upper
        if array.size and (int(array.min()) < 0 or int(array.max()) > highest):
            bad = next(i for i, value in enumerate(array.flat) if not 0 <= int(value) <= highest)
            within = f"[0, q) for q = {quote(self.q)}"
            if upper is not None:
                within = f"[0, upper] for upper = {quote(upper)}"
            raise InvalidValue(f"{name}[{first + bad}]", f"must be in {within}", row=first + bad)
        return array.astype(self.dtype, copy=False)

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
        # every int64 is in [-q, q), and its bits are the value modulo 2^64: adding q to a negative
        # one wraps it to value + q, in [0, q)
        result = x.astype(np.int64).view(np.uint64)
        if not self._fills_dtype:
            np.add(result, np.uint64(self.q), out=result, where=x < 0)
        return result

    def add(self, a: NDArray[Any], places: NDArray[np.int64], amounts: NDArray[Any]) -> None:
        """Add signed integers to some of the reduced elements, (k,), in place."""
        if places.size:
            changed = a[places]
            self.subtract(changed, self.reduce(-amounts))
            a[places] = changed

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
        held = np.empty(min(a.size, BLOCK), dtype=a.dtype)
        for part in blocks(a.size):
            left, right, shifted = a[part], b[part], held[: part.stop - part.start]
            if below_half:
                # with q below half the range, the reduced difference is the smaller of the
                # difference and the difference + q, both wrapped
                np.subtract(left, right, out=left)
                np.add(left, q, out=shifted)
                np.minimum(left, shifted, out=left)
            else:
                # near the top of the range both may be smaller: whether q is added is decided by
                # the borrow, before the subtraction; both operations wrap
                np.multiply(left < right, q, out=shifted)
                np.subtract(left, right, out=left)
                np.add(left, shifted, out=left)

    def subtract_lazily(self, a: NDArray[Any], b: NDArray[Any]) -> None:
        """Set ``a`` to ``a - b``, as `subtract`, but reduced only after `reduce_in_place`.

        For a power of two, words wrap at a multiple of q and need no reduction in between.
        """
        if self.power_of_two and self.dtype != object:
            np.subtract(a, b, out=a)
        else:
            self.subtract(a, b)

    def reduce_in_place(self, a: NDArray[Any]) -> None:
        """Reduce the result of `subtract_lazily`, in place."""
        if self.power_of_two and self.dtype != object and not self._fills_dtype:
            np.bitwise_and(a, a.dtype.type(self.q - 1), out=a)

    def sum(self, a: NDArray[Any]) -> int:
        """Return the sum of reduced elements modulo q, exactly.

        For 64-bit words, as many as cannot overflow are added up. Of these sums, the upper halves
        in a block add up to less than 2^64, and so do the lower halves, whose sum is the difference
        of two sums modulo 2^64.
        """
        if self.dtype == object:
            return int(sum(a.flat)) % self.q
        flat = a.reshape(-1)
        if self.power_of_two:  # q divides 2^32 or 2^64: a sum that wraps stays correct modulo q
            return int(flat.sum(dtype=self.dtype)) % self.q
        total = 0
        if self.dtype == np.uint32:
            for part in blocks(flat.size, 1 << 31):
                total += int(flat[part].sum(dtype=np.uint64))
            return total % self.q
        rows, together = 1 << min(64 - self.bits, 4), 8 * BLOCK
        held = np.empty(min(flat.size, together), dtype=np.uint64)
        for part in blocks(flat.size, together):
            block = flat[part]
            if block.size % rows == 0:
                block = np.add.reduce(block.reshape(rows, -1), axis=0)
            upper = np.right_shift(block, 32, out=held[: block.size])
            above = int(np.add.reduce(upper)) << 32
            total += above + (int(np.add.reduce(block)) - above) % (1 << 64)
        return total % self.q

    def sums(self, a: NDArray[Any]) -> list[int]:
        """Return the sum of each row of reduced elements modulo q, as `sum` does."""
        if self.dtype == object:
            return [self.sum(row) for row in a]
        if self.power_of_two:
            totals = np.add.reduce(a, axis=1, dtype=self.dtype).tolist()
        elif self.dtype == np.uint32:
            totals = np.add.reduce(a, axis=1, dtype=np.uint64).tolist()
        else:
            lower = np.add.reduce(a & np.uint64((1 << 32) - 1), axis=1).tolist()
            upper = np.add.reduce(a >> np.uint64(32), axis=1).tolist()
            totals = [low + (high << 32) for low, high in zip(lower, upper, strict=True)]
        return [total % self.q for total in totals]


@dataclass(frozen=True)
class Integers:
    """Plain integers, int64: elements of sums that are not modulo q."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """The numpy type of the elements."""
        return np.dtype(np.int64)

    def elements(self, x: ArrayLike) -> NDArray[np.int64]:
        """Return integers as an array of elements."""
        return np.asarray(x).astype(np.int64, copy=False)

    def add(self, a: NDArray[Any], places: NDArray[np.int64], amounts: NDArray[Any]) -> None:
        """Add integers to some of the elements, (k,), in place."""
        a[places] += amounts
