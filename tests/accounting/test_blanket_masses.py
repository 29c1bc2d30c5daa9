"""Masses of losses above many levels: enumerated, and against divergences one by one."""

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ikos.accounting import blanket_masses
from ikos.accounting.blanket import ResponseBlanket, TooManyTermsError
from ikos.accounting.blanket_masses import masses_above
from ikos.numeric.binomial import binomial_window, log_pmf

TAIL = 1e-20


def enumerated(blanket, level):
    """Return the masses under x and x' of the views whose loss is above a level, as rationals."""
    n, k, gamma = blanket.n, Fraction(blanket.k), blanket.gamma
    first = second = Fraction(0)
    for m in range(1, n + 1):
        others = math.comb(n - 1, m - 1) * gamma ** (m - 1) * (1 - gamma) ** (n - m)
        for a in range(m + 1):
            for b in range(m + 1 - a):
                ways = math.comb(m, a) * math.comb(m - a, b)
                chance = others * ways * (1 / k) ** (a + b) * (1 - 2 / k) ** (m - a - b)
                p, q = (gamma + (1 - gamma) * k * c / m for c in (a, b))
                if chance and p > Fraction(math.exp(level)) * q:
                    first, second = first + chance * p, second + chance * q
    return float(first), float(second)


@pytest.mark.parametrize("k", [2, Fraction(5, 2), 3, 7])
@pytest.mark.parametrize(("n", "gamma"), [(1, Fraction(1, 3)), (7, Fraction(1, 2))])
def test_they_are_those_of_an_enumeration(n, k, gamma):
    blanket = ResponseBlanket(n, k, gamma)
    levels = np.array([0.0, 0.1, 0.45, 1.0, 1.7, blanket.local_epsilon])
    upper, lower, lost = masses_above(blanket, levels, TAIL)
    for level, p, q in zip(levels, upper, lower, strict=True):
        exact = enumerated(blanket, level)
        assert p == pytest.approx(exact[0], rel=1e-12)
        assert q == pytest.approx(exact[1], rel=1e-12)
    assert upper[-1] == 0 < lost < 1e-18


@pytest.mark.parametrize(
    ("n", "k", "gamma"),
    [(10**4, 5, Fraction(1, 40)), (300, 2, Fraction(1, 5)), (10**6, 24, Fraction(1, 800))],
)
def test_they_are_those_of_divergences_one_by_one(n, k, gamma):
    blanket = ResponseBlanket(n, k, gamma)
    levels = np.linspace(0, 1, 12)
    upper, lower, lost = masses_above(blanket, levels, TAIL)
    for level, p, q in zip(levels, upper, lower, strict=True):
        assert p - math.exp(level) * q == pytest.approx(blanket.divergence(level), rel=1e-6)
        assert lost < 1e-6 * p


@pytest.mark.points(1)
@pytest.mark.parametrize("k", [2, 5])
def test_with_or_without_a_table_of_halves(k, monkeypatch):
    blanket, levels = ResponseBlanket(3000, k, Fraction(1, 9)), np.linspace(0, 0.8, 9)
    table = masses_above(blanket, levels, TAIL)
    monkeypatch.setattr(blanket_masses, "_DIRECT", 0)
    monkeypatch.setattr(blanket_masses, "_ENTRIES_PER_BLOCK", 1000)  # and in many blocks
    direct = masses_above(blanket, levels, TAIL)
    for one, other in zip(table, direct, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10)


@pytest.mark.parametrize("k", [2, 4])
def test_fewer_messages_are_only_less_private(k, monkeypatch):
    """Rounding M down enlarges every divergence, the more the coarser."""
    blanket, levels = ResponseBlanket(5000, k, Fraction(1, 10)), np.linspace(0, 0.8, 9)
    found = []
    for part in (0.0, 0.01, 0.1):
        monkeypatch.setattr(blanket_masses, "_DROPPED_FRACTION", part)
        upper, lower, _ = masses_above(blanket, levels, TAIL)
        found.append(upper - np.exp(levels) * lower)
    assert all((fine[1:] < coarse[1:]).all() for fine, coarse in pairwise(found))
    assert (found[1] < 1.3 * found[0]).all()


def test_too_many_terms_are_refused():
    with pytest.raises(TooManyTermsError, match="epsilon must be larger"):
        masses_above(ResponseBlanket(10**4, 3, Fraction(1, 2)), np.zeros(1), TAIL, 1000)


@given(st.integers(1, 400), st.fractions(0, 1, max_denominator=1000), st.data())
def test_binomial_probabilities(n, p, data):
    k = data.draw(st.integers(0, n))
    if 0 < p < 1:
        exact = math.comb(n, k) * p**k * (1 - p) ** (n - k)
        if exact > Fraction(1, 10**300):
            found = float(np.exp(log_pmf(k, n, float(p))))
            assert found == pytest.approx(float(exact), rel=1e-11)


@pytest.mark.parametrize(("n", "p"), [(30, 0.3), (10**6, 1e-4), (10**9, 0.25)])
def test_a_window_is_the_binomial_in_it(n, p):
    window = binomial_window(n, p, p / (1 - p), 40)
    points = np.linspace(0, window.pmf.size - 1, 7).astype(int)
    exact = np.exp(log_pmf(points + window.first, n, p))
    np.testing.assert_allclose(window.pmf[points], exact, rtol=1e-9)
    assert window.complete == (n == 30)
