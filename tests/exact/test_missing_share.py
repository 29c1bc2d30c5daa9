"""What is seen when a share is missing: more than is proved for complete reports."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import product

from ikos import security_level

View = tuple[tuple[tuple[int, ...], ...], tuple[int, ...]]


def views(inputs: tuple[int, ...], q: int, m: int, *, missing: bool) -> Counter[View]:
    """Count all views of m sorted columns and clear shares; user 0's first share may be missing."""
    found: Counter[View] = Counter()
    for columns in product(product(range(q), repeat=len(inputs)), repeat=m):
        clear = tuple((x - sum(shares)) % q for x, *shares in zip(inputs, *columns, strict=True))
        first = columns[0][1:] if missing else columns[0]
        found[tuple(tuple(sorted(column)) for column in (first, *columns[1:])), clear] += 1
    return found


def worst(n: int, q: int, m: int, *, missing: bool) -> Fraction:
    """Return the largest total variation distance of two inputs with the same sum."""
    laws = {x: views(x, q, m, missing=missing) for x in product(range(q), repeat=n)}
    return max(
        Fraction(sum(abs(one[v] - other[v]) for v in one.keys() | other.keys()), 2 * q ** (n * m))
        for x, one in laws.items()
        for y, other in laws.items()
        if (sum(x) - sum(y)) % q == 0
    )


def test_a_missing_share_shows_more_than_is_proved_for_complete_reports() -> None:
    proved = 2 ** -security_level(2, 3, 2)
    assert worst(2, 3, 2, missing=False) == Fraction(4, 9) <= proved < 0.62
    assert worst(2, 3, 2, missing=True) == Fraction(2, 3) > proved
