"""What BBGN20 states of the recursive protocol: the second precisions, and the order of errors."""

from __future__ import annotations

import math

import pytest

from analysis.bbgn20_published import (
    doubly_exponential_precisions,
    published_gammas,
    recursive_order,
)
from ikos.accounting.digits_bbgn20 import paper_digits, published_precisions


def last_gamma(n: int) -> float:
    return published_gammas(n, 1, n**-2.0, doubly_exponential_precisions(n))[-1]


@pytest.mark.parametrize(
    ("n", "messages", "gamma"),
    [(10**4, 2, 56.9), (10**5, 2, 7.0), (2**27, 3, 4942), (10**9, 3, 731), (10**11, 3, 8.9)],
)
def test_the_second_choice_has_no_probabilities(n: int, messages: int, gamma: float) -> None:
    precisions = doubly_exponential_precisions(n)
    assert len(precisions) == messages == math.floor(math.log(math.log2(n), 3) + 1e-12)
    assert precisions == tuple(2**3**j for j in range(1, messages + 1))
    assert last_gamma(n) == pytest.approx(gamma, rel=0.01)


def test_where_the_second_choice_begins_to_exist() -> None:
    for n in (822_375, 963_607_747_125):
        assert last_gamma(n - 1) >= 1 > last_gamma(n)
    assert last_gamma(2**27 - 1) < 0.01
    assert min(map(last_gamma, range(8, 512))) > 3


def test_it_is_the_first_choice_for_one_message_fewer() -> None:
    assert published_precisions(2**27, 2) == doubly_exponential_precisions(2**27 - 1) == (8, 512)


def test_the_printed_gammas_are_those_of_the_closed_form_for_one_value_fewer() -> None:
    n, delta = 10**6, 1e-12
    found = paper_digits(n, 1, delta, accountant="closed-form")
    printed = published_gammas(n, 1, delta, published_precisions(n, 2))
    for gamma, k, each in zip(found.gammas, found.domains, printed, strict=True):
        assert float(gamma) == pytest.approx(each * k / (k - 1), rel=1e-5)


@pytest.mark.parametrize(("log_n", "m", "epsilon"), [(9.0, 1, 1.0), (20.0, 2, 0.5), (60.0, 3, 2.0)])
def test_the_best_real_a(log_n: float, m: int, epsilon: float) -> None:
    best = recursive_order(log_n, m, epsilon)
    a = ((3**m - 1) * math.exp(log_n) * epsilon**2 / m**3) ** 3.0 ** (-m - 1)
    assert best == pytest.approx(recursive_order(log_n, m, epsilon, a), rel=1e-9)
    assert best == pytest.approx(a**3 * m**3 / epsilon**2 / (1 - 3.0**-m), rel=1e-9)
    for other in (0.99 * a, 1.01 * a):
        assert recursive_order(log_n, m, epsilon, other) > best


def test_remark_a1() -> None:
    """The best real a and number of messages: the order (log log n)^3, from above."""
    ratios = []
    for power in (4, 10, 100, 10**4, 10**8, 10**12):
        log_n = power * math.log(10)
        best = min(recursive_order(log_n, m) for m in range(1, 60))
        ratios.append(best / math.log(log_n, 3) ** 3)
    assert ratios == sorted(ratios, reverse=True)
    assert 1 < ratios[-1] < ratios[0] < 3.1
