"""Moments of message tuples: known integers and rationals, and views counted one by one."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from gmpy2 import mpq
from numpy.typing import NDArray

from ikos.counts.tuple_moments import (
    arrangements,
    connecting,
    partitions,
    tuple_moments,
    without_singletons,
)

TIGHT = 1 + mpq(1, 2**200)


def test_partitions_are_counted() -> None:
    assert [len(list(partitions(k, 1))) for k in range(8)] == [1, 1, 2, 3, 5, 7, 11, 15]
    assert list(partitions(6, 2)) == [(6,), (4, 2), (3, 3), (2, 2, 2)]
    # all partitions of six points without singletons, by their blocks
    assert without_singletons(6) == (0, 1, 25, 15)
    assert sum(map(arrangements, partitions(6, 2))) == 41


@pytest.mark.parametrize(
    ("blocks", "counts"),
    [
        ((2, 2), (0, 1, 2)),
        ((3, 2), (0, 1, 9)),
        ((2, 2, 2), (0, 1, 22, 8)),
        ((4, 2), (0, 1, 24, 12)),
        ((3, 3), (0, 1, 24, 15)),
    ],
)
def test_partitions_that_connect_all_blocks(blocks, counts):
    assert connecting(blocks) == counts


def test_rationals() -> None:
    found = tuple_moments(5, 4, 2)
    for bound, true in (
        (found.total[2], mpq(16, 25)),
        (found.total[4], mpq(111424, 15625)),
        (found.total[6], mpq(6104993536, 9765625)),
        (found.squares[1], mpq(16, 25)),
        (found.squares[2], mpq(49472, 15625)),
        (found.squares[3], mpq(138572032, 1953125)),
        (found.single[2], mpq(4, 25)),
        (found.single[4], mpq(2344, 15625)),
        (found.single[6], mpq(5073024, 9765625)),
    ):
        assert true <= mpq(bound) <= true * TIGHT


@pytest.mark.parametrize(
    ("n", "bits", "m", "values"),
    [
        (10**3, 16, 4, (1.50624e-14, 5.89142e-19, 1.37652e-25, 1.27588e-22)),
        (10**4, 21, 4, (1.38384e-19, 1.65152e-29, 4.41902e-45, 1.70449e-33)),
        (10**5, 26, 3, (1.35181e-14, 1.18464e-9, 2.34604e-13, 1.14268e-13)),
        (10**8, 41, 3, (1.45071e-23, 1.18361e-18, 1.76756e-28, 1.13864e-22)),
    ],
)
def test_values_of_another_implementation(n, bits, m, values):
    found = tuple_moments(n, 2**bits, m)
    bounds = (found.single[4], found.total[12], found.total[20], found.squares[6])
    assert [float(f"{float(bound):.6g}") for bound in bounds] == list(values)


def surpluses(n: int, q: int, m: int) -> NDArray[np.float64]:
    """Return eps(w) for every outcome of the shuffled shares, a row each, and every w."""
    rows = []
    for shares in product(product(range(q), repeat=n), repeat=m):
        law = np.array([1.0] + [0.0] * (q - 1))
        for column in shares:
            counts = np.bincount(column, minlength=q)
            law = sum(c * np.roll(law, s) for s, c in enumerate(counts))
        rows.append(q / n**m * law - 1)
    return np.array(rows)


@pytest.mark.parametrize(
    ("n", "q", "m", "second", "fourth", "total", "squares"),
    [
        (5, 2, 2, "1/25", "169/15625", "1352/3125", "2704/15625"),
        *(
            pytest.param(*values, marks=pytest.mark.slow)
            for values in (
                (5, 2, 3, "1/125", "2197/1953125", "17576/390625", "35152/1953125"),
                (5, 3, 2, "2/25", "486/15625", "13608/15625", "5832/15625"),
            )
        ),
    ],
)
def test_true_moments_are_below(n, q, m, second, fourth, total, squares):
    """Over all views: n - 1 of the clear shares are uniform and independent of the shares."""
    eps = surpluses(n, q, m)
    found = tuple_moments(n, q, m)
    power = {k: (eps**k).mean(axis=1) for k in (1, 2, 3, 4)}  # over the clear share of one user
    others = n - 1
    assert np.abs(power[1]).max() < 1e-12
    truth = {
        "second": power[2].mean(),
        "fourth": power[4].mean(),
        # sums over independent users of mean zero
        "total": (others * power[4] + 3 * others * (others - 1) * power[2] ** 2).mean(),
        "squares": (others * power[4] + others * (others - 1) * power[2] ** 2).mean(),
    }
    stated = {"second": second, "fourth": fourth, "total": total, "squares": squares}
    for name, value in stated.items():
        assert math.isclose(truth[name], Fraction(value), rel_tol=1e-9), name
    assert truth["second"] <= float(found.single[2]) * (1 + 1e-12)
    assert truth["fourth"] <= float(found.single[4])
    assert truth["total"] <= float(found.total[4])
    assert truth["squares"] <= float(found.squares[2])
