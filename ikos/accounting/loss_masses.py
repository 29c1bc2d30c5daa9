"""Discretized privacy losses with integer masses, composed exactly and rounded up.

They are nowhere below the true ones ("connecting the dots", :ref:`proof-lattice`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import accumulate
from typing import NamedTuple

import gmpy2
from gmpy2 import mpfr

from ikos.numeric.rounding import DOWN, UP, exact, float_up, rounding

BITS = 160  # masses are composed as multiples of 2^-160
TAIL = 1e-30  # mass that may be moved to infinity, and as much from the smallest losses up


def units(mass: float | mpfr) -> int:
    """Return a mass as a multiple of 2^-160, rounded up."""
    with rounding(UP):
        return int(gmpy2.ceil(gmpy2.mul_2exp(mpfr(mass), BITS)))


class Masses(NamedTuple):
    """Masses of losses first, first + stride, ... and of infinite ones, as multiples of 2^-160."""

    first: int
    stride: int
    finite: list[int]
    infinite: int

    def times(self, other: Masses, tail: int) -> Masses:
        """Return the masses of both losses together, rounded up; a ``tail`` at each end moves up.

        One product of two integers, which hold the masses in slots that no sum overflows.
        """
        mass = sum(other.finite)
        slot = max(self.finite).bit_length() + mass.bit_length() + 1
        product = gmpy2.pack(self.finite, slot) * gmpy2.pack(other.finite, slot)
        finite = [gmpy2.c_div_2exp(slot_mass, BITS) for slot_mass in gmpy2.unpack(product, slot)]
        infinite = self.infinite * (mass + other.infinite) + sum(self.finite) * other.infinite
        end = len(finite) - bisect_right(list(accumulate(finite[:0:-1])), tail)
        start = min(bisect_right(list(accumulate(finite)), tail), end - 1)
        return Masses(
            self.first + other.first + start * self.stride,
            self.stride,
            [sum(finite[: start + 1]), *finite[start + 1 : end]],
            gmpy2.c_div_2exp(infinite, BITS) + sum(finite[end:]),
        )

    def power(self, copies: int, tail: float = TAIL) -> Masses:
        """Return the masses of many such losses together, by squaring."""
        result = self
        places = copies.bit_length() - 1
        share = units(tail) // (2 * places or 1)  # two products each
        for place in reversed(range(places)):
            each = share >> place  # it will occur 2^place times
            result = result.times(result, each)
            if copies >> place & 1:
                result = result.times(self, each)
        return result

    def divergence(self, unit: float, epsilon: Fraction) -> float:
        """Return the delta for epsilon of losses in multiples of ``unit``, rounded up."""
        up, down = rounding(UP), rounding(DOWN)
        odds = exact(epsilon - self.first * Fraction(unit), DOWN)  # of epsilon, over the loss
        step, total = down.mul(-unit, self.stride), up.add(self.infinite, 0)
        fall, weight = down.exp(step), down.exp(odds)
        for mass in self.finite:
            if weight < 1:
                total = up.add(total, up.mul(mass, up.sub(1, weight)))
            weight = down.mul(weight, fall)
        return min(1.0, float_up(up.div_2exp(total, BITS)))


def connected(
    heights: Sequence[float], keys: Sequence[int], unit: float
) -> Iterator[tuple[int, mpfr, mpfr]]:
    """Yield places of losses and masses, rounded up, that cover a privacy profile, the last first.

    ``heights`` are deltas at epsilons 0 and ``keys`` times ``unit``, for both orders of neighbours.
    Each key has a mass under one neighbour, that of the loss -key, and under the other, of key.
    """
    up, down = rounding(UP), rounding(DOWN)
    # the chord to the first point, from its mirror image, has the slope of one from (-1, 1)
    above, below = ([-1, *(way.exp(way.mul(unit, key)) for key in keys)] for way in (up, down))
    flatter = 0
    for i in range(len(keys), 0, -1):
        high, low = heights[i - 1], heights[i]
        slope = up.div(up.sub(high, low), down.sub(below[i], above[i - 1]))
        mass = max(up.sub(slope, flatter), 0)  # times the odds, that under the other
        yield keys[i - 1], mass, up.mul(above[i], mass)
        flatter = down.div(down.sub(high, low), up.sub(above[i], below[i - 1]))
