"""The exact accountant of shuffled bits, against the definition, and its bounds in between."""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from itertools import product

import gmpy2
import pytest
from gmpy2 import mpfr, mpq
from hypothesis import given
from hypothesis import strategies as st

from ikos.accounting import binary_response
from ikos.accounting.binary_response import binary_response_delta, binary_response_gamma
from ikos.accounting.blanket import blanket_divergence, local_gamma
from ikos.primitives.randomized_response import GRID, grid_up


@cache
def count_law(g: Fraction, zeros: int, ones: int) -> tuple[mpq, ...]:
    """Return the law of the number of ones among flipped bits, by adding one bit at a time."""
    law = [mpq(1)]
    for p in [mpq(g)] * zeros + [1 - mpq(g)] * ones:
        law = [
            (law[y] if y < len(law) else 0) * (1 - p) + (law[y - 1] if y else 0) * p
            for y in range(len(law) + 1)
        ]
    return tuple(law)


def hockey_stick(first: tuple[mpq, ...], second: tuple[mpq, ...], epsilon: float) -> mpfr:
    with gmpy2.context(precision=200):
        ratio = gmpy2.exp(mpfr(epsilon))
        return sum(
            (max(a - ratio * b, mpfr(0)) for a, b in zip(first, second, strict=True)), mpfr()
        )


def definition(epsilon: float, n: int, gamma: Fraction, bits: int) -> list[list[mpfr]]:
    """Return the largest divergence for each t, of all pairs of inputs and of the extreme one."""
    g, others = gamma / 2, (n - 1) * bits
    rows = []
    for t in range(others + 1):
        laws = [count_law(g, others - t + bits - j, t + j) for j in range(bits + 1)]
        pairs = [hockey_stick(a, b, epsilon) for a, b in product(laws, repeat=2)]
        ends = [hockey_stick(laws[i], laws[-1 - i], epsilon) for i in (0, -1)]
        rows.append([max(pairs), max(ends)])
    return rows


TINY = [(1, 1), (1, 4), (2, 1), (2, 3), (3, 2), (4, 3), (5, 1), (8, 1)]


@pytest.mark.parametrize("gamma", [Fraction(1, 16), Fraction(1, 4), Fraction(3, 5)])
@pytest.mark.parametrize(("n", "bits"), TINY)
def test_exact_at_tiny_sizes(n: int, bits: int, gamma: Fraction) -> None:
    for epsilon in (0.0, 0.1, 0.5, 1.0, 2.5, 9.0):
        rows = definition(epsilon, n, gamma, bits)
        # all zeros against all ones is the worst pair
        assert all(pairs == ends for pairs, ends in rows)
        worst = max(pairs for pairs, _ in rows)
        found = binary_response_delta(epsilon, n, gamma, bits=bits)
        assert worst <= found <= float(worst) * (1 + 1e-9) + 1e-60


@pytest.mark.parametrize("distance", [2**60, 2**150])
def test_answers_that_tell_next_to_nothing(distance: int) -> None:
    gamma = 1 - Fraction(1, distance)
    truth = max(pairs for pairs, _ in definition(0.0, 2, gamma, 1))
    assert 0 < truth <= binary_response_delta(0, 2, gamma) < 1e-13


def binomial(n: int, p: mpfr, last: int) -> list[mpfr]:
    """Return the first probabilities of Bin(n, p)."""
    law = [(1 - p) ** n]
    for k in range(min(n, last)):
        law.append(law[-1] * (n - k) / (k + 1) * p / (1 - p))
    return law


@pytest.mark.points(1)
@pytest.mark.parametrize(
    ("n", "t", "gamma", "epsilon"),
    [
        (10**5, 10**5 - 1, Fraction(1, 800), 1.0),
        (10**5, 0, Fraction(1, 800), 1.0),
        (10**5, 300, Fraction(1, 800), 1.0),
        (10**9, 0, Fraction(1, 4 * 10**6), 1.0),
        (10**9, 10**9 // 3, Fraction(1, 4 * 10**6), 1.0),
    ],
)
def test_large_sizes_in_many_digits(n: int, t: int, gamma: Fraction, epsilon: float) -> None:
    """Both windows from 0, with 300 bits: nothing that matters is left out."""
    others, last = n - 1, 900
    t = min(t, others)
    with gmpy2.context(precision=300):
        g, ratio = mpfr(mpq(gamma / 2)), gmpy2.exp(mpfr(epsilon))
        up, down = binomial(others - t, g, last), binomial(t, g, last)
        f: dict[int, mpfr] = {}
        for i, p in enumerate(up):
            if p < mpfr("1e-80") and i > 200:
                break
            for j, q in enumerate(down):
                if q < mpfr("1e-80") and j > 200:
                    break
                f[i - j] = f.get(i - j, mpfr(0)) + p * q
        ys = sorted(f)
        zero = mpfr(0)
        truth = sum(
            max(
                (1 - g - ratio * g) * f.get(y - 1, zero) - (ratio * (1 - g) - g) * f.get(y, zero),
                zero,
            )
            for y in [*ys, ys[-1] + 1]
        )
    found = binary_response._ResponseDivergences(Fraction(epsilon), 1, gamma).at(others - t, t)
    assert truth <= found <= float(truth) * (1 + 1e-9)


@pytest.mark.parametrize("bits", [1, 40])
@pytest.mark.parametrize("epsilon", [0.05, 0.5])
def test_fourier_and_direct_sums_agree(bits, epsilon, monkeypatch):
    group = binary_response._ResponseDivergences(Fraction(epsilon), bits, Fraction(1, 4))
    direct = [group.at(9000 - t, t) for t in (0, 4000, 9000)]
    monkeypatch.setattr(binary_response, "_DIRECT", 0)
    for one, t in zip(direct, (0, 4000, 9000), strict=True):
        other = group.at(9000 - t, t)
        assert one * (1 - 1e-9) <= other <= one * (1 + 1e-3) + 1e-12


@pytest.mark.points(0)
@given(
    st.integers(1, 60),
    st.integers(0, 60),
    st.integers(0, 40),
    st.integers(1, 3),
    st.integers(1, 60),
    st.floats(0.01, 3),
)
def test_what_is_given_away_bounds_every_t(zeros, ones, more, bits, part, epsilon):
    group = binary_response._ResponseDivergences(Fraction(epsilon), bits, Fraction(part, 64))
    bound = group.at(zeros, ones)
    for taken in {0, more // 3, more}:
        assert group.at(zeros + more - taken, ones + taken) <= bound * (1 + 1e-9) + 1e-60


@given(st.integers(1, 3000), st.integers(1, 4), st.floats(0.01, 4), st.floats(1e-12, 0.5))
@pytest.mark.slow
def test_the_smallest_gamma_is_private_and_hardly_larger_than_needed(n, bits, epsilon, delta):
    gamma = binary_response_gamma(epsilon, delta, n, bits=bits)
    assert (gamma * GRID).denominator == 1
    assert gamma <= local_gamma(Fraction(epsilon) / bits, 2)
    assert binary_response_delta(epsilon, n, gamma, bits=bits) <= delta
    smaller = gamma * Fraction(97, 100)
    if smaller >= Fraction(1, GRID):
        assert binary_response_delta(epsilon, n, smaller, bits=bits) > delta


@pytest.mark.slow
@given(st.integers(2, 2000), st.integers(2, 60), st.floats(0.05, 3))
def test_more_users_more_noise_and_more_epsilon_make_less_delta(n, part, epsilon):
    gamma = Fraction(part, 64)
    delta = binary_response_delta(epsilon, n, gamma)
    room = 1 + 2e-4
    assert binary_response_delta(epsilon, n + n // 5 + 1, gamma) <= delta * room + 1e-90
    assert binary_response_delta(epsilon, n, gamma + Fraction(1, 64)) <= delta * room + 1e-90
    assert binary_response_delta(epsilon * 1.1, n, gamma) <= delta * room + 1e-90
    # the others' truth makes noise too, which an adversary who knows who answered at random lacks
    assert delta <= blanket_divergence(epsilon, n, 2, gamma) * (1 + 1e-6)


@pytest.mark.parametrize("epsilon", [1e-6, 1.0, 100.0])
@pytest.mark.parametrize("bits", [1, 3])
def test_local_gamma_is_on_the_right_side(epsilon: float, bits: int) -> None:
    gamma = local_gamma(Fraction(epsilon) / bits, 2)
    with gmpy2.context(precision=400):
        ratio = gmpy2.exp(mpfr(mpq(Fraction(epsilon) / bits)))
        assert mpq(1 - gamma / 2) <= ratio * mpq(gamma / 2)
        less = gamma - Fraction(1, GRID)
        assert mpq(1 - less / 2) > ratio * mpq(less / 2)


def test_no_shuffler_is_needed_at_the_local_gamma() -> None:
    local = local_gamma(Fraction(1), 2)
    assert binary_response_gamma(1, 0, 10**6) == local
    assert binary_response_delta(1, 10**6, local) < 1e-25
    assert binary_response_delta(1, 10**6, grid_up(0.54)) == 0
    assert binary_response_delta(0, 10, 1) == 0
    # where the smallest probability of the grid is enough
    assert binary_response_gamma(100, 1e-6, 10**6) == Fraction(1, GRID)


def test_published_values() -> None:
    """What the exact law lets Table 3's settings run at; computed here once, and stable."""
    lambdas = {(10**4, 0.5): 259.33, (10**4, 1): 97.26, (10**5, 0.5): 360.9, (10**5, 1): 130.09}
    for (n, epsilon), value in lambdas.items():
        found = float(binary_response_gamma(epsilon, n**-2.0, n)) * n
        assert found == pytest.approx(value, rel=2e-3)


def test_more_bits_than_are_computed_are_refused() -> None:
    with pytest.raises(ValueError, match="n must be at most"):
        binary_response_delta(1, 10**9, 0.5, bits=10**4)
