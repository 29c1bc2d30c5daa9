"""Sample and threshold: its divergence by definition, its bias and error, and the protocol."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import gmpy2
import numpy as np
import pytest
from gmpy2 import mpfr, mpq
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from statistical import FALSE_ALARM, IntegerLaw

from ikos.accounting.sample_threshold import (
    best_sample_threshold,
    largest_divergence,
    sample_threshold_mse,
    smallest_threshold,
    suppression,
)
from ikos.baselines import SampleAndThreshold
from ikos.baselines.sample_and_threshold_cb22 import Thresholded
from ikos.testing import DeterministicRandom


def delta_of(epsilon: float, n: int, p: float | Fraction, tau: int) -> float:
    """Return the accountant's delta: its bound for a goal so small that it is above the goal."""
    found, goal = 0.0, 1.0
    while found <= goal and goal > 1e-120:
        goal /= 1024
        found = largest_divergence(epsilon, n, float(p), tau, goal)
    return found


def published_law(t: int, p: Fraction, tau: int) -> list[mpq]:
    """Return the law of what is published, from the definition."""
    p = mpq(p)
    law = [mpq(math.comb(t, y)) * p**y * (1 - p) ** (t - y) for y in range(t + 1)]
    return [sum(law[:tau], mpq(0)), *([mpq(0)] * (tau - 1)), *law[tau:]]


def definition(epsilon: float, n: int, p: Fraction, tau: int) -> mpfr:
    worst = mpfr(0)
    with gmpy2.context(precision=200):
        ratio = gmpy2.exp(mpfr(epsilon))
        for t in range(1, n + 1):
            one, other = (published_law(count, p, tau) for count in (t, t - 1))
            one, other = ([*law, *[mpq(0)] * (n + 2)][: n + 2] for law in (one, other))
            for first, second in ((one, other), (other, one)):
                gains = (mpfr(a) - ratio * b for a, b in zip(first, second, strict=True))
                worst = max(worst, sum((gain for gain in gains if gain > 0), mpfr(0)))
    return worst


@pytest.mark.slow
@given(
    st.integers(1, 24),
    st.integers(1, 63),
    st.integers(1, 26),
    st.sampled_from([0.01, 0.3, 1.0, 2.0]),
)
def test_delta_by_definition(n: int, part: int, tau: int, epsilon: float) -> None:
    p = Fraction(part, 64)
    truth = definition(epsilon, n, p, tau)
    found = delta_of(epsilon, n, p, tau)
    assert truth <= found <= float(truth) * (1 + 1e-4) + 1e-6 * 2.0**-60 + 1e-11


@pytest.mark.parametrize("epsilon", [0.01, 0.09579336128, 0.3])
@pytest.mark.parametrize(
    ("p", "tau"),
    [(0.875, 45), (0.9375, 50), (0.98, 55), (0.98, 60), (0.98, 64), (0.9990234375, 58)],
)
def test_delta_where_nearly_everybody_is_counted(epsilon: float, p: float, tau: int) -> None:
    """Suppression alone may tell most: outcomes up to tau - 1 are one, and not up to tau."""
    truth = definition(epsilon, 64, Fraction(p), tau)
    found = delta_of(epsilon, 64, p, tau)
    assert truth <= found <= float(truth) * (1 + 1e-5) + 1e-100


@given(st.integers(1, 63), st.floats(0.05, 2), st.integers(2, 60))
@pytest.mark.slow
def test_the_worst_count_is_looked_at(part: int, epsilon: float, tau: int) -> None:
    """More users make nothing worse beyond where Chernoff's bound ends the search."""
    p = Fraction(part, 64)
    some, many = (delta_of(epsilon, n, p, tau) for n in (200, 4000))
    assert some <= many * (1 + 1e-7)
    assert delta_of(epsilon, 30_000, p, tau) == pytest.approx(many, rel=1e-2, abs=1e-7)


@given(st.integers(1, 63), st.floats(0.05, 2), st.floats(1e-9, 0.1), st.integers(10, 500))
@pytest.mark.slow
def test_the_smallest_threshold(part: int, epsilon: float, delta: float, n: int) -> None:
    p = Fraction(part, 64)
    tau = smallest_threshold(epsilon, delta, n, float(p))
    assert delta_of(epsilon, n, p, tau) <= delta * (1 + 1e-12)
    if 1 < tau <= n:
        assert delta_of(epsilon, n, p, tau - 1) > delta


@pytest.mark.parametrize(
    ("n", "p", "tau"), [(60, 0.5, 8), (60, 0.875, 20), (25, 0.25, 2), (400, 0.75, 3)]
)
def test_the_error_bound_holds_and_is_nearly_attained(n: int, p: float, tau: int) -> None:
    """Where all values are bits; the bound for these alone is nearer."""
    errors = []
    for t in range(n + 1):
        y = np.arange(t + 1)
        estimate = np.where(y >= tau, y / p, 0)
        errors.append(float(np.dot(stats.binom.pmf(y, t, p), (estimate - t) ** 2)))
    bound = sample_threshold_mse(n, p, tau)
    of_bits = sample_threshold_mse(n, p, tau, bits=True)
    assert 0.3 * bound < max(errors) <= of_bits * (1 + 1e-12)
    assert 0.4 * of_bits < max(errors)
    assert of_bits < bound


@pytest.mark.parametrize("miss", [0.5, 0.05, 1e-4])
def test_the_interval_of_bits(miss: float) -> None:
    n, p, tau = 300, 0.75, 40
    width = Thresholded(n, p, tau, 1.0, 1.0, bits=True).half_width(miss)
    for t in range(n + 1):
        y = np.arange(t + 1)
        error = np.where(y >= tau, y / p, 0) - t
        assert stats.binom.pmf(y, t, p)[np.abs(error) > width].sum() <= miss
    assert width <= Thresholded(n, p, tau, 1.0, 1.0, bits=False).half_width(miss) * (1 + 1e-9)


def test_reals_within_the_error_bound() -> None:
    """Poisson-binomial counts of values that are rounded first, by their exact law."""
    rng, n, p, tau = np.random.default_rng(3), 30, 0.75, 9
    for _ in range(40):
        x = rng.uniform(0, 1, n) ** rng.uniform(0.2, 6)
        law = np.ones(1)
        for value in x:
            law = np.convolve(law, [1 - p * value, p * value])
        y = np.arange(n + 1)
        mean_square = float(np.dot(law, (np.where(y >= tau, y / p, 0) - x.sum()) ** 2))
        assert mean_square <= sample_threshold_mse(n, p, tau)
        assert law[:tau].sum() <= suppression(np.array([x.sum()]), n, p, tau)[0] * (1 + 1e-9)


@pytest.mark.slow
def test_parameters_are_private_and_better_than_others() -> None:
    best = best_sample_threshold(1, 1e-8, 10**4)
    assert delta_of(1, 10**4, best.sampling, best.threshold) <= 1e-8
    assert sample_threshold_mse(10**4, float(best.sampling), best.threshold) == best.mse
    for p in (0.1, 0.3, 0.7, 0.9):
        tau = smallest_threshold(1.0, 1e-8, 10**4, p)
        assert sample_threshold_mse(10**4, p, tau) > 0.95 * best.mse
    with pytest.raises(ValueError, match="every count would be suppressed"):
        best_sample_threshold(0.5, 1e-12, 2)


def released(protocol: SampleAndThreshold, t: int, runs: int) -> np.ndarray[Any, Any]:
    x = np.zeros(protocol.n)
    x[:t] = 1
    rng = DeterministicRandom(t)
    return np.array([protocol._view(x, rng).columns[0][1] for _ in range(runs)], dtype=np.int64)


@pytest.mark.slow
def test_what_is_published_has_the_law_of_the_accountant() -> None:
    protocol = SampleAndThreshold(300, 1, 1e-3)
    p, tau = float(protocol.sampling), protocol.threshold
    for t in (math.ceil(tau / p), 200):
        pmf = stats.binom.pmf(np.arange(t + 1), t, p)
        pmf[0], pmf[1:tau] = pmf[:tau].sum(), 0
        found = released(protocol, t, 2000)
        assert not ((found > 0) & (found < tau)).any()
        assert IntegerLaw(0, pmf).p_value(found) > FALSE_ALARM
        pmf = stats.binom.pmf(np.arange(t + 1), t, min(1.0, p * 1.3))
        pmf[0], pmf[1:tau] = pmf[:tau].sum(), 0
        assert IntegerLaw(0, pmf).p_value(found) < FALSE_ALARM


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: best_sample_threshold(0, 0.1, 5), "epsilon must be at least"),
        (lambda: best_sample_threshold(1, 0, 5), "delta must be greater than 0"),
        (lambda: delta_of(1e-6, 10**9, 0.5, 9), "epsilon is too small"),
    ],
)
def test_bad_input_is_refused(call: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        call()
