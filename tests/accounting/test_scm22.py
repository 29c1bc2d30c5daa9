"""Sampled coordinates: composition, binomial tails, errors, and the paper's formulas."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from analysis.scm22_repaired import dimension_free_gamma, published_error, repaired_gamma
from ikos.accounting import advanced_composition, response_delta, response_gamma, scm22
from ikos.accounting.blanket import ResponseBlanket, TooManyTermsError
from ikos.accounting.composition import LossLattice, advanced_share
from ikos.accounting.scm22 import (
    SampledAnswers,
    coordinate_error,
    optimized_answers,
    published_gamma,
    published_precision,
    published_single_gamma,
    sampled_answers,
    sampled_delta,
    stratum_sizes,
    total_error,
    weights,
)


def repeated_delta(epsilon, n, k, gamma, times, *, delta=1e-9):
    answers = SampledAnswers(times, k - 1, gamma, "stratified", "")
    return sampled_delta(answers, epsilon, n, times, delta)[0]


def uniform_delta(epsilon, n, d, k, gamma, t, *, delta=1e-9):
    answers = SampledAnswers(t, k - 1, gamma, "uniform", "")
    return sampled_delta(answers, epsilon, n, d, delta)[0]


# Composition


@pytest.mark.points(1)
@pytest.mark.parametrize("gamma", [Fraction(1, 4), Fraction(5, 8)])
def test_it_bounds_the_exact_product_of_small_mechanisms(gamma):
    """Two and three answers of two users, whose losses have few values: by enumeration."""

    def losses(n):
        law = {}
        for m in range(1, n + 1):
            chance = binom.pmf(m - 1, n - 1, float(gamma))
            for a in range(m + 1):
                b = m - a  # k = 2
                draws = math.comb(m, a) / 2**m
                weight = float(gamma * m + (1 - gamma) * 2 * a) / m
                other = float(gamma * m + (1 - gamma) * 2 * b) / m
                here = law.setdefault((a, b), [0.0, 0.0])
                here[0] += chance * draws * weight
                here[1] += chance * draws * other
        return list(law.values())

    for n in (1, 2, 4):
        pieces = losses(n)
        assert sum(p for p, _ in pieces) == pytest.approx(1)
        together = pieces
        for times in (2, 3):
            together = [(p * a, q * b) for p, q in together for a, b in pieces]
            for epsilon in (0.3, 1.0):
                exact = sum(max(0.0, p - math.exp(epsilon) * q) for p, q in together)
                found = repeated_delta(epsilon, n, 2, gamma, times, delta=max(exact, 1e-9))
                assert exact * (1 - 1e-9) <= found <= exact * 1.2 + 1e-6


@given(st.integers(0, 2**32), st.integers(2, 9), st.floats(0.0, 0.2))
def test_trimming_is_never_more_private(seed, times, negligible):
    rng = np.random.default_rng(seed)
    masses = rng.dirichlet(np.full(9, 0.3)) * 0.99
    losses = LossLattice(0.25, -4, masses, 0.01)
    trimmed = scm22._trimmed(losses, negligible)
    assert trimmed.masses.sum() + trimmed.infinite == pytest.approx(1)
    for epsilon in (0.0, 0.3, 0.8, 2.0):
        assert trimmed.divergence(epsilon) >= losses.divergence(epsilon) * (1 - 1e-9)
    together = scm22._repeated(losses, times, negligible)
    exact = scm22._repeated(losses, times, 0.0)
    assert together.divergence(0.5) >= exact.divergence(0.5) * (1 - 1e-9)


def test_squaring_is_the_sum_of_so_many():
    losses = LossLattice(0.5, -1, np.array([0.25, 0.5, 0.2]), 0.05)
    for times in range(1, 12):
        found = scm22._repeated(losses, times, 0.0)
        one_by_one = losses
        for _ in range(times - 1):
            one_by_one = one_by_one + losses
        finite = 0.95**times
        assert found.masses.sum() == pytest.approx(finite)
        for epsilon in (-1.0, 0.0, 0.7):
            rest = found.divergence(epsilon)
            assert rest == pytest.approx(one_by_one.divergence(epsilon), rel=1e-9)


@pytest.mark.slow
def test_one_answer_is_the_exact_divergence_whatever_the_dimension():
    assert repeated_delta(1, 1000, 4, 0.25, 1) == response_delta(1, 1000, 4, 0.25)
    for d in (1, 10**5):
        found = sampled_answers(1, 1e-6, 5000, d, 3)
        assert found.gamma == response_gamma(1, 1e-6, 5000, 4)
        assert uniform_delta(1, 5000, d, 4, 0.25, 1) == response_delta(1, 5000, 4, 0.25)


def too_many(*_arguments, **_options):
    raise TooManyTermsError("epsilon", "must be larger")


@pytest.mark.points(1)
@pytest.mark.parametrize("times", [4, 100, 1000])
def test_what_is_proved_without_exact_losses_is_composed(monkeypatch, times):
    """By basic composition, or by advanced, of which half of delta is the slack."""
    monkeypatch.setattr(scm22, "numerical_delta", too_many)
    expected, gamma = 1e-6, Fraction(1, 4)
    found, method, _ = scm22._proved_repeated(1.0, 10**7, 4, gamma, times, expected)
    if method == "basic":
        assert found >= times * response_delta(1.0 / times, 10**7, 4, gamma)
        return
    single = advanced_share(1.0, expected / 2, times)
    parts = [(single, response_delta(single, 10**7, 4, gamma))] * times
    epsilon, delta = advanced_composition(parts, expected / 2)
    assert epsilon <= 1
    assert delta <= found * (1 + 1e-11)


@pytest.mark.parametrize(
    "messages",
    [4, pytest.param(100, marks=pytest.mark.slow), pytest.param(1000, marks=pytest.mark.slow)],
)
def test_answers_without_exact_losses_are_composed_within_delta(monkeypatch, messages):
    monkeypatch.setattr(scm22, "numerical_delta", too_many)
    n, k, delta = 10**7, 4, 1e-6
    found = sampled_answers.__wrapped__(1.0, delta, n, 5000, k - 1, messages)
    gamma = found.gamma
    assert gamma < 1
    if found.composition == "basic":
        assert messages * response_delta(1.0 / messages, n, k, gamma) <= delta
        return
    single = advanced_share(1.0, delta / 2, messages) * (1 - 1e-9)
    parts = [(single, response_delta(single, n, k, gamma))] * messages
    assert advanced_composition(parts, delta / 2)[1] <= delta * (1 + 1e-4)


def test_a_single_point_that_takes_too_long_is_not_hidden(monkeypatch):
    monkeypatch.setattr(scm22, "_STEPS", ((5.0, 1),))
    scm22.blanket_losses.cache_clear()
    with pytest.raises(TooManyTermsError):
        scm22.numerical_delta(1.0, ResponseBlanket(10**5, 3, Fraction(1, 4)), 5, 1e-6)


@pytest.mark.parametrize(("t", "k", "sampling"), [(2, 1, "stratified"), (3, 1, "uniform")])
def test_gamma_is_enough_and_hardly_more(t, k, sampling):
    n, d, delta = 20_000, 12, 1e-6
    found = sampled_answers(1, delta, n, d, k, t, sampling=sampling)
    assert found.composition == "numerical"
    assert sampled_delta(found, 1, n, d, delta)[0] <= delta
    less = SampledAnswers(t, k, found.gamma * Fraction(97, 100), sampling, "numerical")
    assert sampled_delta(less, 1, n, d, delta)[0] > delta


# Uniform draws


@pytest.mark.parametrize(("n", "d", "t"), [(5, 3, 2), (7, 4, 2), (4, 4, 3)])
def test_missing_users_by_enumeration(n, d, t):
    """The chance that some coordinate of a user was drawn by fewer than m - 1 of the others."""
    sets = list(combinations(range(d), t))
    others = {(0,) * t: Fraction(1)}
    for _ in range(n - 1):
        following = {}
        for counts, chance in others.items():
            for drawn in sets:
                after = tuple(c + (j in drawn) for j, c in enumerate(counts))
                following[after] = following.get(after, 0) + chance / len(sets)
        others = following
    for m in range(1, n + 1):
        exact = sum(chance for counts, chance in others.items() if min(counts) + 1 < m)
        bound = scm22._missing(m, n, d, t)
        assert float(exact) <= bound * (1 + 1e-12)
        assert m == 1 or bound <= t * float(exact) * (1 + 1e-5)


def test_the_least_users_are_the_most_that_a_tail_allows():
    for n, d, t in ((10**4, 100, 5), (50, 7, 3), (10**6, 10**4, 2)):
        for tail in (1e-3, 1e-9):
            m = scm22._least_users(n, d, t, tail)
            assert scm22._missing(m, n, d, t) <= tail
            assert scm22._missing(m + 1, n, d, t) > tail
    assert scm22._least_users(10, 4, 4, 1e-9) == 10  # nobody is missing where all is reported


@pytest.mark.parametrize(("n", "gamma"), [(40, 0.7), (60, 0.5)])
def test_missing_users_are_paid_for(n, gamma):
    """No number of users is better than the best of all, each with the chance that some miss."""
    d, k, t = 4, 2, 2
    every = [
        scm22._missing(m, n, d, t) + repeated_delta(1, m, k, gamma, t, delta=1e-3)
        for m in range(1, n // 2 + 2)
    ]
    hints = (0.5, 0.05, 0.003)
    found = [uniform_delta(1, n, d, k, gamma, t, delta=hint) for hint in hints]
    assert min(found) >= min(every) * 0.99
    assert min(found) <= min(every) * 1.5


# Errors


def brute_error(k, gamma, weight, centre, u):
    low = min(int(u * k), k - 1)
    up = u * k - low
    total = Fraction(0)
    for rounded, chance in ((low, 1 - up), (low + 1, up)):
        for y in range(k + 1):
            here = chance * (gamma / (k + 1) + (1 - gamma) * (y == rounded))
            v = (Fraction(y, k) - gamma / 2) / (1 - gamma)
            total += here * (centre + weight * (v - centre) - u) ** 2 / weight
    return total + (1 - 1 / weight) * (centre - u) ** 2


@pytest.mark.parametrize("k", [1, 5])
@pytest.mark.parametrize("gamma", [Fraction(0), Fraction(3, 4)])
@pytest.mark.parametrize("weight", [Fraction(1), Fraction(40)])
@pytest.mark.parametrize("centre", [Fraction(0), Fraction(7, 10)])
def test_the_error_of_a_coordinate_is_the_largest(k, gamma, weight, centre):
    found = coordinate_error(k, gamma, weight, centre)
    values = [Fraction(i, 20 * k) for i in range(20 * k + 1)]
    errors = [float(brute_error(k, gamma, weight, centre, u)) for u in values]
    assert max(errors) <= found.mean_square * (1 + 1e-9)
    assert found.mean_square <= max(errors) * 1.02 + 1e-4
    assert 0 <= found.sampling <= found.mean_square + 1e-12
    assert found.sampling <= float((weight - 1) * max(centre, 1 - centre) ** 2) * (1 + 1e-12)


def test_the_error_of_a_scalar_is_the_one_of_the_privacy_blanket():
    from ikos.primitives.randomized_response import response_variance

    for k, gamma in ((1, 0.3), (4, 0.05), (9, 0.6)):
        known = response_variance(k + 1, gamma) / k**2
        found = coordinate_error(k, gamma, 1).mean_square
        assert known * (1 - 1e-9) <= found <= (known + 1 / (4 * k * k)) * (1 + 1e-9)


@given(st.integers(1, 300), st.integers(1, 300))
def test_runs_cover_all_coordinates(d, t):
    t = min(d, t)
    fewer, size, longer = stratum_sizes(d, t)
    assert fewer + longer == t
    assert fewer * size + longer * (size + 1) == d
    for sampling in scm22.SAMPLINGS:
        found = weights(d, t, sampling)
        assert sum(count for _, count in found) == d
        assert sum(count / weight for weight, count in found) == t  # reports of a user


@pytest.mark.slow
def test_the_search_finds_what_an_exhaustive_one_does():
    n, d = 500, 2
    found = optimized_answers(1, 1e-5, n, d, messages=None)
    best = min(
        total_error(n, d, answers).mean_square
        for t in range(1, d + 1)
        for k in range(1, 5)
        if (answers := sampled_answers(1, 1e-5, n, d, k, t)).gamma < 1
    )
    assert total_error(n, d, found).mean_square <= best * 1.03


def test_too_few_users_are_refused():
    with pytest.raises(ValueError, match=r"n must be larger .* got 3 honest"):
        optimized_answers(1e-5, 1e-9, 3, 50, messages=10)
    assert sampled_answers(1e-5, 1e-9, 3, 50, 3, 10).gamma == 1


# The paper's formulas

SIZES = {"n": 50_000, "d": 100, "k": 3}


def test_values_of_the_papers_formulas():
    """By hand: 14 * 300 * ln 4 / (49999 * 0.9025), and so on."""
    one = published_single_gamma
    assert one(0.95, 0.5, **SIZES) == pytest.approx(max(0.129030, 27 * 300 / 49_999 / 0.95), 1e-5)
    assert one(0.95, 1e-6, **SIZES) == pytest.approx(1.350411, rel=1e-5)
    assert one(2, 0.5, **SIZES) == pytest.approx(80 * 300 * math.log(4) / 49_999 / 4)
    assert one(5, 0.99999, 50_000, 100, 3) == pytest.approx(
        max(80 * 300 * math.log(2) / 25, 36 * 300 / 55) / 49_999, rel=1e-4
    )
    assert published_gamma(0.95, 0.5, **SIZES, t=5) == pytest.approx(
        56 * 300 * math.log(2) * math.log(20) / 49_999 / 0.95**2
    )
    ratio = published_gamma(1.0001, 0.5, **SIZES, t=2) / published_gamma(1, 0.5, **SIZES, t=2)
    assert ratio == pytest.approx(36, rel=1e-3)


@pytest.mark.parametrize("epsilon", [0.3, 1.5])
@pytest.mark.parametrize("t", [1, 4])
def test_the_papers_error_is_its_formula_at_its_precision(epsilon, t):
    """(1 / (4 k^2) + gamma / 2) t d^2 / n / (1 - gamma)^2, with n for n - 1."""
    n, d, delta = 10**7, 50, 0.01
    k = published_precision(epsilon, delta, n, d, t)
    per_step = (
        published_single_gamma(epsilon, delta, n, d, 1)
        if t == 1
        else published_gamma(epsilon, delta, n, d, 1, t)
    )
    gamma = k * per_step
    # both terms are equal, which is not where their sum is smallest
    assert 1 / (4 * k * k) == pytest.approx(gamma / 2, rel=1e-6)
    expected = t * d * d / n * (1 / (4 * k * k) + gamma / 2) / (1 - gamma) ** 2
    assert published_error(epsilon, delta, n, d, gamma, t) == pytest.approx(expected, rel=1e-6)
    better = 2 ** (1 / 3) * k
    least = 1 / (4 * better**2) + better * per_step / 2
    assert least < 0.95 * (1 / (4 * k * k) + gamma / 2)


def test_the_chernoff_steps_of_the_dimension_free_formula():
    for epsilon in np.linspace(1e-3, 6, 4000):
        a = epsilon / 2
        c, least = (14, epsilon / 27) if epsilon <= 1 else (80, 11 * epsilon / 36)
        x = math.expm1(a) - least  # at c = 27 / eps, or 36 / (11 eps)
        y = -math.expm1(-a)
        c = c / epsilon**2  # times ln(2 / delta)
        assert c * ((1 + x) * math.log1p(x) - x) >= 1
        assert c * y * y / 2 >= 1
    # the paper's exponent x^2 / 3 is no bound for large x: Chernoff's own is smaller
    x = math.exp(3) - 1
    assert (1 + x) * math.log1p(x) - x < x * x / 3


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 1.001, 6.0])
@pytest.mark.parametrize("k", [1, 9])
def test_the_dimension_free_formula_is_enough(epsilon, k):
    checked = 0
    for n in (300, 5000, 10**6):
        for delta in (0.5, 1e-3, 1e-8):
            gamma = dimension_free_gamma(epsilon, delta, n, k)
            if gamma < 1:
                checked += 1
                assert response_delta(epsilon, n, k + 1, gamma) <= delta
    assert checked
    # and so is the paper's for one coordinate of two or more: d k >= k + 1
    assert published_single_gamma(epsilon, 1e-3, 5000, 2, k) >= (
        dimension_free_gamma(epsilon, 1e-3, 5000, k) * (1 - 1e-9)
    )


@pytest.mark.slow
def test_the_repaired_formula_is_enough():
    for n, d, k, t in ((10**7, 5, 1, 3), (2 * 10**7, 10, 1, 2)):
        for delta in (0.1, 1e-6):
            exact = sampled_answers(0.9, delta, n, d, k, t, sampling="uniform").gamma
            assert exact < repaired_gamma(0.9, delta, n, d, k, t) < 1
    with pytest.raises(ValueError, match="n must be at least"):
        repaired_gamma(1, 1e-6, 1000, 100, 3, 5)
    with pytest.raises(ValueError, match="epsilon must be at most 1"):
        repaired_gamma(1.5, 1e-6, 10**9, 100, 3, 5)


ANSWERS = SampledAnswers(2, 3, Fraction(1, 4), "stratified", "numerical")


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: coordinate_error(3, 1.0, 1), "gamma"),
        (lambda: coordinate_error(3, 1 - Fraction(1, 10**30), 1), "1 - gamma"),
        (lambda: sampled_delta(ANSWERS, 0, 100, 5, 0.1), "epsilon"),
        (lambda: published_error(1, 0.5, 100, 5, 1), "gamma"),
        (lambda: published_gamma(1, Fraction(1, 10**400), 9, 5, 3, 2), "delta"),
        (lambda: published_gamma(7, 0.1, 100, 10, 3, 2), "epsilon"),
        (lambda: repaired_gamma(1, 0.1, 100, 10, 3, 11), "t"),
        (lambda: dimension_free_gamma(1, 0.1, 1, 3), "n"),
        (lambda: sampled_answers(1, 0.1, 100, 10, 3, 11), "messages"),
        (lambda: sampled_answers(1, 0.1, 100, 10, 3, sampling="all"), "sampling"),
    ],
)
def test_bad_arguments_are_named(call, words):
    with pytest.raises(ValueError, match=f"^{words} must be"):
        call()
