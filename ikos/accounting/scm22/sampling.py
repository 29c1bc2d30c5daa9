"""How a user draws t of d coordinates, and what an answer about a drawn one weighs."""

from __future__ import annotations

from fractions import Fraction

from ikos._validation import choice, integer

SAMPLINGS = ("stratified", "uniform")
"""How t of d coordinates are drawn: one of each of t runs, or t without replacement."""


def stratum_sizes(d: int, t: int) -> tuple[int, int, int]:
    """Return how many runs of t have the smaller size, that size, and how many have one more.

    Parameters
    ----------
    d : int
        Coordinates.
    t : int
        Runs, from 1 to d.

    Examples
    --------
    >>> stratum_sizes(10, 4)  # 2, 2, 3, 3
    (2, 2, 2)
    """
    coordinates = integer("d", d, low=1)
    runs = integer("t", t, low=1, high=coordinates)
    size, longer = divmod(coordinates, runs)
    return runs - longer, size, longer


def weights(d: int, t: int, sampling: str) -> list[tuple[Fraction, int]]:
    """Return each weight, one over the chance that a coordinate is drawn, and of how many."""
    fewer, size, longer = stratum_sizes(d, t)
    if choice("sampling", sampling, SAMPLINGS) == "uniform":
        return [(Fraction(d, t), d)]
    runs = [(Fraction(size), fewer * size), (Fraction(size + 1), longer * (size + 1))]
    return [(weight, count) for weight, count in runs if count]
