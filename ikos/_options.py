"""Keyword arguments that a function passes on to a protocol."""

from __future__ import annotations

from fractions import Fraction
from typing import TypedDict


class SumOptions(TypedDict, total=False):
    """Options of `ikos.PrivateSum` that apply to any values."""

    precision: int | None
    modulus: int | None
    messages: int | None
    analysis: str
    shuffler: str
    clear_share: bool
    min_honest: int | None
    corrupt_shufflers: int
    reserve: float | Fraction


class MeanOptions(SumOptions, total=False):
    """Options of `ikos.PrivateSum` that apply to values within bounds."""

    integers: bool


class VectorSumOptions(SumOptions, total=False):
    """Options of `ikos.vectors.PrivateVectorSum` that apply to columns."""

    layout: str
    releases: int
