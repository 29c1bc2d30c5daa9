"""Two descriptions of shuffled randomized response on bits, CSUZZ19's and notes' on it: one law."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations


def _plus_binomial(start: int, trials: int, p: Fraction) -> dict[int, Fraction]:
    """Return the law of a number plus a binomial variable."""
    return {
        start + heads: math.comb(trials, heads) * p**heads * (1 - p) ** (trials - heads)
        for heads in range(trials + 1)
    }


def _mixed(parts: Sequence[tuple[Fraction, dict[int, Fraction]]], n: int) -> list[Fraction]:
    return [
        sum((w * law.get(y, Fraction(0)) for w, law in parts), Fraction(0)) for y in range(n + 1)
    ]


def response_counts(bits: Sequence[int], gamma: Fraction) -> list[Fraction]:
    """Return the law of the number of ones among bits, each a fair coin with probability gamma.

    The local randomizer with lambda = gamma n, shuffled: `ikos.baselines.BinaryRandomizedResponse`.

    Examples
    --------
    >>> print(*response_counts([0, 1], Fraction(1, 2)))
    3/16 5/8 3/16
    """
    law = {0: Fraction(1)}
    for bit in bits:
        one = (1 - gamma) * bit + gamma / 2
        longer: dict[int, Fraction] = {}
        for count, chance in law.items():
            for add, p in ((0, 1 - one), (1, one)):
                longer[count + add] = longer.get(count + add, Fraction(0)) + chance * p
        law = longer
    return [law[count] for count in range(len(bits) + 1)]


def subset_counts(bits: Sequence[int], gamma: Fraction) -> list[Fraction]:
    """Return the law of the sum of the bits outside a random set, plus Bin(s, 1/2).

    The equivalent algorithm: s ~ Bin(n, gamma), and the set is uniform among those of s users.

    Examples
    --------
    >>> print(*subset_counts([0, 1], Fraction(1, 2)))
    3/16 5/8 3/16
    """
    n = len(bits)
    parts = []
    for s, size in _plus_binomial(0, n, gamma).items():
        for chosen in combinations(range(n), s):
            others = sum(bits) - sum(bits[user] for user in chosen)
            parts.append((size / math.comb(n, s), _plus_binomial(others, s, Fraction(1, 2))))
    return _mixed(parts, n)
