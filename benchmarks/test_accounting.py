"""Accountants and the searches for parameters that use them, in time of the processor."""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable
from fractions import Fraction
from functools import _lru_cache_wrapper

import numpy as np
import pytest
from scipy import fft
from scipy.special import betainc

from ikos.accounting import (
    amplified_epsilon,
    laplace_report,
    report_delta,
    response_epsilon,
)
from ikos.accounting.blanket import ResponseBlanket
from ikos.accounting.composition import composed_divergence
from ikos.accounting.digits_bbgn20 import optimized_digits
from ikos.baselines import comparison
from ikos.data.domains import Ball

pytestmark = pytest.mark.benchmark(timer=time.process_time)

FOUND = optimized_digits(10**4, 1, 1e-8, 3)
BLANKETS = [
    ResponseBlanket(10**4, k, gamma) for k, gamma in zip(FOUND.domains, FOUND.gammas, strict=True)
]


def forget() -> None:
    """Empty every cache of the accountants, so that each call does all of its work."""
    for cached in gc.get_objects():
        if isinstance(cached, _lru_cache_wrapper) and cached.__module__.startswith("ikos."):
            cached.cache_clear()


def losses() -> None:
    """Compose the losses of three digits once: what any proof of them takes."""
    composed_divergence(1.0, BLANKETS, delta=1e-8, cells=120)


def test_search_of_digits(against: Callable[..., float]) -> None:
    """Three digits of 10^4 users; the floor is one composition of their losses."""
    against(lambda: optimized_digits(10**4, 1, 1e-8, 3), losses, setup=forget, rounds=9)


def test_comparison(against: Callable[..., float]) -> None:
    """All protocols for numbers, n = 10^4; the floor is the same."""
    against(lambda: comparison(10**4, 1, 1e-8), losses, setup=forget, rounds=5)


def test_comparison_of_a_million(against: Callable[..., float]) -> None:
    against(lambda: comparison(10**6, 1, 1e-12), losses, setup=forget, rounds=3)


def test_comparison_of_vectors(against: Callable[..., float]) -> None:
    """All protocols for a ball of 64 dimensions."""
    ball = Ball(64)
    against(lambda: comparison(10**4, 1, 1e-8, domain=ball), losses, setup=forget, rounds=5)


def beta_functions(terms: int) -> None:
    """Compute as many tails of a binomial variable."""
    k = np.arange(1.0, terms + 1)
    betainc(k * 0.7 + 1, k * 0.3 + 1, 0.5)


def test_any_randomizer(against: Callable[..., float]) -> None:
    """Epsilon of a million 6-private messages; a beta function for each number of labels."""
    deviation = math.sqrt(10**6 * 2 / (math.exp(6) + 1))
    against(
        lambda: amplified_epsilon(1e-8, 10**6, 6),
        lambda: beta_functions(round(20 * deviation)),
        setup=forget,
    )


def test_convolution(against: Callable[..., float]) -> None:
    """Both bounds on delta for a million Laplace reports; two transforms there and back."""
    report, law = laplace_report(6), np.random.default_rng(0).random(1 << 21)

    def floor() -> None:
        for _ in range(2):
            fft.irfft(fft.rfft(law), law.size)

    against(lambda: report_delta(report, 0.1065, 10**6), floor, setup=forget)


def test_answers_of_a_hundred_million(against: Callable[..., float]) -> None:
    """Epsilon of 3-private answers on 10 values; a beta function for each number of two values."""
    gamma = Fraction(10 / (math.exp(3) + 9))
    deviation = math.sqrt(10**8 * 2 / 10 * gamma)
    against(
        lambda: response_epsilon(1e-8, 10**8, 10, gamma),
        lambda: beta_functions(round(15 * deviation)),
        setup=forget,
    )
