"""Statements about committed values: which bits they are made of, in one linear form each.

A proof shows that a user knows *free* bits, that the *derived* wires are bits too, and that each
committed value is its linear form of all these wires (docs/verified-sums.md).
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ikos._validation import InvalidValue, integer, quote

ORDER = 0xFFFFFFFF_FFFFFFFF_FFFFFFFF_FFFFFFFE_BAAEDCE6_AF48A03B_BFD25E8C_D0364141
"""The order of secp256k1, a prime: commitments, openings and proofs are computed modulo it."""

POINT_BYTES, SCALAR_BYTES = 33, 32
"""Lengths of a point, compressed, and of a scalar."""

MAX_BITS = 500
"""Most free bits of a statement: a proof has 32 bytes and costs two products for each."""

MAX_LARGEST = (1 << 128) - 1
"""Largest value: sums of up to 2^127 such values are below half of `ORDER`."""


class Form(NamedTuple):
    """An affine form of wires: a constant, and pairs of a wire and its coefficient."""

    constant: int
    terms: tuple[tuple[int, int], ...]

    def at(self, wires: Sequence[int], scale: int) -> int:
        """Return the form at some wires, with its constant times ``scale``."""
        return self.constant * scale + sum(factor * wires[wire] for wire, factor in self.terms)


@dataclass(frozen=True)
class Statement:
    """What is proved of committed values, as `bounded` and `one_hot` state it.

    Wires are the ``free`` bits, then the ``derived`` ones, which are forms of those. The values are
    the forms ``outputs`` of all wires: the first free bits are each value's in turn, with these
    ``weights``, and ``steps`` are added to that of the user's class, or 0 without classes.
    """

    free: int
    derived: tuple[Form, ...]
    outputs: tuple[Form, ...]
    weights: tuple[int, ...]
    steps: int = 0

    @property
    def dimension(self) -> int:
        """The number of committed values."""
        return len(self.outputs)

    @property
    def largest(self) -> int:
        """Largest value, of each of them."""
        return self.steps + sum(self.weights)

    @property
    def size(self) -> int:
        """The number of wires."""
        return self.free + len(self.derived)

    @property
    def proof_bytes(self) -> int:
        """Length of a proof: three points, and the free bits and two more as scalars.

        Examples
        --------
        >>> bounded(105).proof_bytes
        387
        """
        return 3 * POINT_BYTES + (self.free + 2) * SCALAR_BYTES

    def wires(self, free: Sequence[int], scale: int) -> list[int]:
        """Return all wires for values of the free ones, with constants times ``scale``."""
        return [*free, *(form.at(free, scale) for form in self.derived)]

    def witness(self, values: Sequence[int]) -> list[int]:
        """Return free bits for some values; an InvalidValue if there are none, which quotes none.

        Examples
        --------
        >>> bounded(5).weights, bounded(5).witness([4])
        ((1, 2, 2), [0, 1, 1])
        """
        rest = [*map(operator.index, values)]
        if self.steps and rest:
            # the largest value has a witness if any has: one that exceeds the class's own is at
            # least the steps and below the noise's width, and so is the class's
            rest[rest.index(max(rest))] -= self.steps
        bits: list[int] = []
        for left in rest:
            own: list[int] = []
            for place, weight in reversed([*enumerate(self.weights)]):
                # smaller weights make all of 0 .. 2^place - 1
                own.append(int(left >= 1 << place))
                left -= weight * own[-1]
            if left:
                raise InvalidValue("values", "must satisfy the statement")
            bits += reversed(own)
        if self.steps:
            bits += [int(value != y) for value, y in zip(rest[:-1], values, strict=False)]
        if len(bits) != self.free:
            raise InvalidValue("values", f"must be {self.dimension}, got {len(rest)}")
        return bits


def weights(largest: int) -> tuple[int, ...]:
    """Return weights with which bits make exactly 0 .. ``largest``; all but the last double."""
    powers = [1 << place for place in range(largest.bit_length())]
    return tuple(powers[:-1]) + tuple(largest - power + 1 for power in powers[-1:])


def bounded(largest: int, dimension: int = 1) -> Statement:
    """Return the statement that each of ``dimension`` values is in 0 .. ``largest``.

    An InvalidValue for more than `MAX_BITS` bits together, before anything is built.
    """
    integer("largest", largest, low=1, high=MAX_LARGEST)
    _check_dimension(dimension, 1, MAX_BITS, largest.bit_length())
    of = weights(largest)
    outputs = _numbers(of, dimension)
    return Statement(len(of) * dimension, (), tuple(Form(0, terms) for terms in outputs), of)


def one_hot(dimension: int, steps: int, width: int) -> Statement:
    """Return the statement of one class: a value is ``steps`` larger than its noise.

    All others of the ``dimension`` values are noise alone, in 0 .. ``width`` - 1. An InvalidValue
    for more than `MAX_BITS` bits together, before anything is built.
    """
    integer("steps", steps, low=1, high=MAX_LARGEST)
    integer("width", width, low=1, high=MAX_LARGEST)
    of = weights(width - 1)
    _check_dimension(dimension, 2, MAX_BITS + 1, len(of) + 1)
    first = len(of) * dimension
    last = Form(1, tuple((first + place, -1) for place in range(dimension - 1)))
    noise = _numbers(of, dimension)
    outputs = (Form(0, (*terms, (first + i, steps))) for i, terms in enumerate(noise))
    return Statement(first + dimension - 1, (last,), tuple(outputs), of, steps)


def _check_dimension(dimension: int, low: int, bits: int, each: int) -> None:
    """Refuse more values than fit in a number of bits."""
    if integer("dimension", dimension, low=low) * each > bits:
        raise InvalidValue(
            "dimension",
            f"must be at most {bits // each} in a verified sum, with {each} of a user's {MAX_BITS} "
            f"bits in each coordinate, got {quote(dimension)}",
        )


def _numbers(of: tuple[int, ...], dimension: int) -> list[tuple[tuple[int, int], ...]]:
    """Return the terms of consecutive numbers with these weights."""
    size = len(of)
    return [tuple((i * size + j, w) for j, w in enumerate(of)) for i in range(dimension)]
