"""Rates and variances of few bits, so that sampling takes integers of machine words."""

from __future__ import annotations

import math
from fractions import Fraction

_BITS = 24
"""Significant bits of a rate: few, so that sampling from it takes integers of machine words."""


def unit_of(value: Fraction) -> Fraction:
    """Return the distance of neighbouring numbers of `_BITS` significant bits."""
    exponent = value.numerator.bit_length() - value.denominator.bit_length()
    return Fraction(2) ** (exponent - _BITS)


def rounded_down(value: Fraction) -> Fraction:
    """Return a positive number with no more than about `_BITS` significant bits, rounded down."""
    unit = unit_of(value)
    return unit * math.floor(value / unit)


def rounded_up(value: Fraction) -> Fraction:
    """Return a positive number with no more than about `_BITS` significant bits, rounded up."""
    unit = unit_of(value)
    return unit * math.ceil(value / unit)
