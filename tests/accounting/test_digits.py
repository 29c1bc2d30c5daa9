"""Parameters of the recursive protocol: sound, near the best, and those of the tables."""

import itertools
import math
from fractions import Fraction

import pytest

from ikos.accounting import digits_bbgn20 as digits
from ikos.accounting import optimized_digits, paper_digits, response_delta
from ikos.accounting.blanket import ResponseBlanket
from ikos.accounting.composition import advanced_composition, composed_divergence
from ikos.accounting.shuffled_response import response_epsilon
from ikos.numeric.gaussian import gaussian_mu

TABLE = [(n, epsilon) for n in (10**4, 10**5) for epsilon in (0.5, 1.0)]


def check(found, n, epsilon, delta):
    """Assert that all messages together are (epsilon, delta)-private, on a finer lattice."""
    digits_of = zip(found.domains, found.gammas, strict=True)
    blankets = [ResponseBlanket(n, k, gamma) for k, gamma in digits_of]
    composed = composed_divergence(epsilon, blankets, delta=delta, cells=150)
    assert composed <= delta * (1 + 1e-4)  # lattices differ by a little
    return composed


# Table 3 of BBGN20 at delta = 1/n^2: what the exact accountant must reach
@pytest.mark.points(1)
@pytest.mark.parametrize(
    ("n", "epsilon", "most"),
    [(10**4, 1.0, 221.2), (10**5, 1.0, 540.9), (10**4, 0.5, 515.8), (10**5, 0.5, 1248.8)],
)
def test_the_single_message_row(n, epsilon, most):
    found = optimized_digits(n, epsilon, 1 / n**2, 1)
    assert found.domains == (found.precision + 1,)
    assert response_delta(epsilon, n, found.precision + 1, found.gammas[0]) <= 1 / n**2
    assert most - 1 < found.mse(n) <= most


@pytest.mark.parametrize(
    ("n", "epsilon", "messages", "printed"),
    [
        pytest.param(10**4, 1.0, 2, 121.8, marks=pytest.mark.slow),
        pytest.param(10**4, 0.5, 2, 353.5, marks=pytest.mark.slow),
        pytest.param(10**5, 1.0, 2, 234.9, marks=pytest.mark.slow),
        pytest.param(10**4, 0.5, 3, 354.8, marks=pytest.mark.slow),
        pytest.param(10**4, 1.0, 3, 128.8, marks=pytest.mark.slow),
        pytest.param(10**5, 1.0, 3, 152.4, marks=pytest.mark.slow),
    ],
)
def test_optimized_rows_are_below_the_printed_ones(n, epsilon, messages, printed):
    found = optimized_digits(n, epsilon, 1 / n**2, messages)
    assert found.mse(n) < 0.8 * printed
    assert check(found, n, epsilon, 1 / n**2) > 0.97 / n**2  # and nothing is wasted


def added_up(found, n, delta, composition):
    """Return the epsilon of the messages together, each at an equal part of delta."""
    m = len(found.domains)
    slack = Fraction(delta) / 2 if composition == "advanced" else Fraction(0)
    each = (Fraction(delta) - slack) / m
    budgets = [
        (response_epsilon(each, n, k, gamma), each)
        for k, gamma in zip(found.domains, found.gammas, strict=True)
    ]
    assert slack + each * m <= Fraction(delta) * (1 + Fraction(1, 10**12))
    if not slack:
        return sum(epsilon for epsilon, _ in budgets)
    return advanced_composition(budgets, slack)[0]


@pytest.mark.slow
@pytest.mark.parametrize("messages", [2, 3])
def test_basic_composition_is_what_it_says(messages):
    n, delta = 10**4, 1e-8
    found = optimized_digits(n, 1.0, delta, messages, composition="basic")
    assert 1 - 1e-4 < added_up(found, n, delta, "basic") <= 1 + 1e-5
    check(found, n, 1.0, delta)
    assert found.mse(n) >= optimized_digits(n, 1.0, delta, messages).mse(n)


@pytest.mark.slow
def test_advanced_composition_is_what_it_says_and_seldom_helps():
    # Fewer than 2 ln(1/delta) messages gain nothing from it, and at most 8 are sent.
    n, delta = 10**4, 1e-8
    even = [1 / 3] * 3
    split = [
        digits._split_gammas(n, (3, 3, 3), even, 1, delta, composition, "exact")
        for composition in ("advanced", "basic")
    ]
    assert split[0] == split[1]
    n, delta, domains = 10**4, 0.2, (2,) * 8
    gammas = {
        composition: digits._split_gammas(n, domains, [1 / 8] * 8, 1, delta, composition, "exact")
        for composition in ("advanced", "basic")
    }
    found = digits.DigitParameters(255, domains, digits._layout(domains), *gammas["advanced"])
    assert 1 - 1e-3 < added_up(found, n, delta, "advanced") <= 1 + 1e-5
    assert gammas["advanced"][0][0] != gammas["basic"][0][0]


@pytest.mark.parametrize(("n", "epsilon"), TABLE)
def test_the_search_over_two_domains_misses_nothing(n, epsilon, monkeypatch):
    """The descent ends at the best of all pairs of domains, by its own measure."""
    mu = gaussian_mu(epsilon, 1 / n**2)
    all_pairs = min(
        digits._sketch(domains, n, mu, 2.0) for domains in itertools.product(range(2, 60), repeat=2)
    )
    assert digits._search(n, 2, mu, 2.0)[0] == all_pairs


def test_the_papers_parameters_count_every_value():
    found = paper_digits(10**5, 1.0, 1e-10, 2)
    assert digits.published_precisions(10**5, 2) == (4, 46)
    assert found.precision == 4 * 46
    assert found.domains == (5, 48)
    assert found.places == (46, 1)
    for k, gamma in zip(found.domains, found.gammas, strict=True):
        assert response_delta(0.5, 10**5, k, gamma) <= 0.5e-10
    check(found, 10**5, 1.0, 1e-10)


def test_mean_squared_error_by_its_parts():
    made = digits.DigitParameters(11, (3, 4), (4, 1), (Fraction(1, 4), Fraction(1, 2)))
    by_hand = 1 / 4
    for k, place, gamma in ((3, 4, 0.25), (4, 1, 0.5)):
        values = range(k)
        mean = sum(values) / k
        square = sum(v * v for v in values) / k
        worst = max(
            gamma * square + (1 - gamma) * x * x - (gamma * mean + (1 - gamma) * x) ** 2
            for x in values
        )
        by_hand += place**2 * worst / (1 - gamma) ** 2
    assert math.isclose(made.mse(7), 7 * by_hand / 121)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (
            lambda: optimized_digits(50, 1, 1e-9, 3, composition="basic", accountant="closed-form"),
            "n must be larger for 3 messages",
        ),
        (lambda: optimized_digits(10**4, 1, 1e-8, 2, accountant="bennett"), "accountant must be"),
        (
            lambda: paper_digits(100, 0.5, 1e-4, 3, accountant="closed-form"),
            "n must be larger for the published",
        ),
    ],
)
def test_nonsense_is_refused(call, said):
    with pytest.raises(ValueError, match=said):
        call()


@pytest.mark.slow
@pytest.mark.parametrize(("n", "messages"), [(10**3, 2), (10**9, 4)])
def test_other_sizes(n, messages):
    delta = 1 / n**2
    found = optimized_digits(n, 1.0, delta, messages)
    check(found, n, 1.0, delta)
