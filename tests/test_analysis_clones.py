"""Amplification by clones: by its definition, and against the blanket's own."""

import itertools
import math
from fractions import Fraction

import mpmath

from analysis.clones_fmt21 import clones_delta
from ikos.accounting import binary_response_delta
from ikos.accounting.blanket import blanket_divergence


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
            assert clones_delta(local, n, local) == 0


def test_who_knows_the_randomizer_does_better():
    n, local = 10**4, 3.0
    gamma = 2 / (math.exp(local) + 1)
    clones = clones_delta(0.3, n, local)
    assert binary_response_delta(0.3, n, gamma) < clones
    assert blanket_divergence(0.3, n, 2, Fraction(gamma)) < clones
