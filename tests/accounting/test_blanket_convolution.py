"""Shuffled reports by their own blankets: enumeration, check values, refusals."""

import itertools
import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

from ikos.accounting import report_delta, report_epsilon
from ikos.accounting.blanket import blanket_divergence
from ikos.accounting.blanket_convolution import (
    Report,
    discrete_report,
    gaussian_report,
    laplace_report,
)

ROWS = [
    [[0.5, 0.25, 0.25], [0.25, 0.5, 0.25], [0.25, 0.25, 0.5]],
    [[0.625, 0.25, 0.125], [0.125, 0.25, 0.625]],
    [[0.5, 0.5, 0.0], [0.25, 0.5, 0.25], [0.0, 0.5, 0.5]],
    [[0.75, 0.125, 0.0625, 0.0625], [0.25, 0.25, 0.25, 0.25]],
]


def shuffled(rows):
    """Return the law of the counts of all outputs, one drawn from each row."""
    law = Counter({(0,) * len(rows[0]): Fraction(1)})
    for row in rows:
        following = Counter()
        for seen, chance in law.items():
            for y, here in enumerate(row):
                counts = (*seen[:y], seen[y] + 1, *seen[y + 1 :])
                following[counts] += chance * Fraction(here)
        law = following
    return law


def hockey_stick(p, q, odds):
    return sum((max(Fraction(0), p[view] - odds * q[view]) for view in p), Fraction(0))


def blanket_excess(rows, x, y, n, odds):
    """Return E[(Z_1 + ... + Z_n)_+] / n exactly, and what is outside the blanket."""
    omega = [min(map(Fraction, column)) for column in zip(*rows, strict=True)]
    one = Counter({Fraction(0): 1 - sum(omega)})
    for w, p, q in zip(omega, rows[x], rows[y], strict=True):
        if w:
            one[(Fraction(p) - odds * Fraction(q)) / w] += w
    law = Counter({Fraction(0): Fraction(1)})
    for _ in range(n):
        following = Counter()
        for (a, p), (b, q) in itertools.product(law.items(), one.items()):
            following[a + b] += p * q
        law = following
    return sum(p * max(z, Fraction(0)) for z, p in law.items()) / n


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("n", [2, 3, pytest.param(5, marks=pytest.mark.slow)])
def test_bounds_hold_for_every_view(rows, n):
    """Exhaustively: every pair of values, whatever the others hold."""
    for epsilon in (0.1, 0.4):
        odds = Fraction(math.exp(epsilon))
        for x, y in itertools.permutations(range(len(rows)), 2):
            report = discrete_report(rows, x, y)
            low, high = report_delta(report, epsilon, n)
            exact = blanket_excess(rows, x, y, n, odds)
            assert Fraction(low) <= exact <= Fraction(high - report.lost) + Fraction(1, 10**15)
            assert high - report.lost <= float(exact) * 1.001 + 1e-9
            for others in itertools.combinations_with_replacement(range(len(rows)), n - 1):
                views = [shuffled([rows[at], *(rows[o] for o in others)]) for at in (x, y)]
                assert hockey_stick(*views, odds) <= Fraction(high)


@pytest.mark.slow
@pytest.mark.parametrize("rows", ROWS[:2])
@pytest.mark.parametrize("n", [8, 12])
def test_bounds_hold_for_more_users(rows, n):
    odds = Fraction(math.exp(0.2))
    for x, y in ((0, 1), (1, 0)):
        low, high = report_delta(discrete_report(rows, x, y), 0.2, n)
        for o in range(len(rows)):
            views = [shuffled([rows[at], *[rows[o]] * (n - 1)]) for at in (x, y)]
            assert hockey_stick(*views, odds) <= Fraction(high)
        assert Fraction(low) <= blanket_excess(rows, x, y, min(n, 8), odds) or n > 8


def test_it_agrees_with_randomized_response():
    k, gamma = 10, Fraction(1, 4)
    rows = np.full((k, k), float(gamma / k)) + np.eye(k) * float(1 - gamma)
    for n, epsilon in ((50, 1.0), (10**4, 0.1)):
        exact = blanket_divergence(epsilon, n, k, gamma)
        low, high = report_delta(discrete_report(rows, 0, 1), epsilon, n)
        assert low <= exact <= high * (1 + 2e-7)
        assert low > 0.97 * exact
        assert high < 1.002 * exact


@pytest.mark.parametrize(
    ("n", "local", "delta", "epsilon"),
    [
        (10**4, 1, 1e-6, 0.0378431),
        pytest.param(10**5, 4, 1e-6, 0.0952164, marks=pytest.mark.slow),
        pytest.param(10**6, 6, 1e-8, 0.106526, marks=pytest.mark.slow),
    ],
)
def test_laplace_noise(n, local, delta, epsilon):
    """Against another computation, to its digits."""
    report = laplace_report(local)
    low, high = report_delta(report, epsilon, n)
    assert low <= delta * (1 + 1e-3)
    assert high == pytest.approx(delta, rel=3e-4)
    assert low > 0.99 * high


@pytest.mark.slow
def test_gaussian_noise():
    low, high = report_delta(gaussian_report(1, 1.9e-8), 0.06018, 10**4)
    assert 0.95e-6 < low < high
    assert high == pytest.approx(1e-6, rel=2e-3)


def test_epsilon_is_enough_and_hardly_more():
    report = laplace_report(2, 64)
    epsilon = report_epsilon(report, 1e-6, 100)
    assert (
        report_delta(report, epsilon, 100)[1]
        <= 1e-6
        < report_delta(report, epsilon * 0.999, 100)[0]
    )


def test_reports_in_one_message_are_one_report():
    """Two answers in one message are one of a product: the same law, found as one."""
    rows = np.array(ROWS[0])
    twice = np.kron(rows, rows)
    pair = discrete_report(rows, 0, 1)
    for bounds in zip(
        report_delta(pair.together(pair), 0.5, 40),
        report_delta(discrete_report(twice, 0, 4), 0.5, 40),
        strict=True,
    ):
        assert bounds[0] == pytest.approx(bounds[1], rel=1e-6)


def test_below_the_local_guarantee_nothing_is_left():
    assert report_delta(laplace_report(1), 1.0001, 100) == (0.0, 0.0)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: laplace_report(0), "local_epsilon must be greater than 0"),
        (lambda: laplace_report(math.inf), "local_epsilon must be finite"),
        (lambda: gaussian_report(0), "sigma must be"),
        (lambda: gaussian_report(0.05), "sigma must be larger"),
        (lambda: discrete_report([[1.0]], 0, 0), "law must have at least two rows"),
        (lambda: discrete_report([[0.5, math.nan], [0.5, 0.5]], 0, 1), "law must"),
        (lambda: discrete_report([[0.5, 0.4], [0.5, 0.5]], 0, 1), "rows with a sum of 1"),
        (lambda: discrete_report([[1.0, 0.0], [0.0, 1.0]], 0, 1), "every value can send"),
        (lambda: report_delta(laplace_report(1), 0, 10), "epsilon must be"),
        (lambda: report_delta(laplace_report(1), 0.5, 1), "n must be at least 2"),
        (lambda: report_epsilon(laplace_report(1), 0, 10), "delta must be"),
        (lambda: report_epsilon(laplace_report(1), 1, 10), "delta must be"),
        (lambda: report_epsilon(gaussian_report(1, 1e-6, 8), 1e-7, 10), "delta must be"),
        (
            lambda: Report(np.ones(1), np.array([math.nan]), np.ones(1), (1, 1), (1, 1)),
            "first must be",
        ),
    ],
)
def test_nonsense_is_refused(call, said):
    with pytest.raises(ValueError, match=said):
        call()
