"""Amplification by clones: against enumeration, other randomizers, and the blanket's own."""

import itertools
import math
from collections import Counter
from fractions import Fraction

import mpmath
import pytest

from analysis.clones_fmt21 import clones_delta
from ikos.accounting import binary_response_delta
from ikos.accounting.blanket import blanket_divergence


def reduction(epsilon, n, local):
    """Return the divergence of (A, B) by its definition."""
    p, chance = 1 / (1 + math.exp(-local)), math.exp(-local)
    first, second = Counter(), Counter()
    for c in range(n):
        for a in range(c + 1):
            weight = math.comb(n - 1, c) * chance**c * (1 - chance) ** (n - 1 - c)
            weight *= math.comb(c, a) / 2**c
            first[a + 1, c - a] += weight * p
            first[a, c - a + 1] += weight * (1 - p)
            second[a + 1, c - a] += weight * (1 - p)
            second[a, c - a + 1] += weight * p
    return sum(max(0.0, first[s] - math.exp(epsilon) * second[s]) for s in first)


@pytest.mark.parametrize("n", [1, 2, 40])
@pytest.mark.parametrize("local", [0.3, 3.0])
@pytest.mark.parametrize("epsilon", [0.0, 0.9])
def test_it_is_the_divergence_of_the_reduction(n, local, epsilon):
    exact = reduction(epsilon, n, local)
    found = clones_delta(epsilon, n, local)
    if epsilon >= local:
        assert found == 0
        assert exact < 1e-12
    else:
        assert exact * (1 - 1e-12) <= found <= exact * (1 + 1e-6)


def test_it_is_rounded_up():
    """By the definition in 60 digits: E[(gain A - loss B)_+] over A, B given C."""
    with mpmath.workdps(60):
        for n, local, eps in itertools.product((2, 3, 7, 20), (0.5, 2.0, 3.7), (0.0, 0.4)):
            odds, p = mpmath.exp(eps), 1 / (1 + mpmath.exp(-local))
            gain, loss, chance = p - odds * (1 - p), odds * p - (1 - p), mpmath.exp(-local)
            true = mpmath.mpf(0)
            for c in range(n):
                given = mpmath.binomial(n - 1, c) * chance**c * (1 - chance) ** (n - 1 - c)
                for a in range(c + 2):
                    likely = mpmath.binomial(c + 1, a) * mpmath.mpf(2) ** -c / (c + 1)
                    true += given * likely * max(0, gain * a - loss * (c + 1 - a))
            found = clones_delta(eps, n, local)
            assert true <= found <= true * (1 + 1e-6) + 1e-20


# Laws of messages for the values 0, 1, 2 on three outputs, far from randomized response
RANDOMIZERS = [
    [(0.5, 0.3, 0.2), (0.2, 0.5, 0.3), (0.3, 0.2, 0.5)],
    [(0.6, 0.25, 0.15), (0.3, 0.4, 0.3), (0.15, 0.25, 0.6)],
    [(0.7, 0.2, 0.1), (0.1, 0.2, 0.7), (0.35, 0.3, 0.35)],
]


@pytest.mark.parametrize("laws", RANDOMIZERS)
@pytest.mark.parametrize("n", [2, 3, pytest.param(4, marks=pytest.mark.slow)])
def test_it_covers_views_of_any_randomizer(laws, n):
    local = max(math.log(p[y] / q[y]) for p in laws for q in laws for y in range(3))
    for epsilon in (0.1, 0.5):
        for others in itertools.combinations_with_replacement(range(3), n - 1):
            views = []
            for x in range(3):
                law = Counter()
                for answers in itertools.product(range(3), repeat=n):
                    chance = math.prod(
                        laws[v][y] for v, y in zip((x, *others), answers, strict=True)
                    )
                    law[tuple(sorted(answers))] += chance
                views.append(law)
            for one, other in itertools.permutations(views, 2):
                apart = sum(max(0.0, one[s] - math.exp(epsilon) * other[s]) for s in one)
                assert apart <= clones_delta(epsilon, n, local)


def test_who_knows_the_randomizer_does_better():
    n, local = 10**4, 3.0
    gamma = 2 / (math.exp(local) + 1)
    clones = clones_delta(0.3, n, local)
    assert binary_response_delta(0.3, n, gamma) < clones
    assert blanket_divergence(0.3, n, 2, Fraction(gamma)) < clones
