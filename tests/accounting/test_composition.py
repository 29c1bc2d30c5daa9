"""Composition against enumeration and against another library's accountant."""

import math
from fractions import Fraction
from functools import cache

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ikos.accounting import advanced_composition
from ikos.accounting.blanket import ResponseBlanket
from ikos.accounting.composition import blanket_losses, composed_divergence

EXTREME = st.one_of(st.floats(0, 1), st.sampled_from([5e-324, 1e-300, 1e-165, 1e-100, 1e200]))


@cache
def pair(blanket):
    """Return the laws, for x and for x', of (A, B, M): what the blanket's adversary sees."""
    n, k, gamma = blanket.n, blanket.k, float(blanket.gamma)
    first, second = {}, {}
    for a in range(n + 1):
        for b in range(n + 1 - a):
            for c in range(n + 1 - a - b) if k > 2 else [0]:
                m = a + b + c
                chance = (
                    math.comb(n, m) * gamma**m * (1 - gamma) ** (n - m)
                    * math.factorial(m) / math.factorial(a) / math.factorial(b) / math.factorial(c)
                    * (1 / k) ** (a + b) * (1 - 2 / k) ** c
                )  # fmt: skip
                first[a, b, m] = chance * (gamma * m + (1 - gamma) * k * a) / (gamma * n)
                second[a, b, m] = chance * (gamma * m + (1 - gamma) * k * b) / (gamma * n)
    assert math.isclose(sum(first.values()), 1)
    assert math.isclose(sum(second.values()), 1)
    return first, second


def product_divergence(epsilon, blankets):
    first, second = np.ones(1), np.ones(1)
    for one, other in map(pair, blankets):
        first = np.outer(first, [one[view] for view in one]).ravel()
        second = np.outer(second, [other[view] for view in one]).ravel()
    orders = (first, second), (second, first)
    return max(float(np.maximum(p - math.exp(epsilon) * q, 0).sum()) for p, q in orders)


TWO = [ResponseBlanket(8, 3, Fraction(1, 2)), ResponseBlanket(10, 2, Fraction(2, 5))]
THREE = [*TWO, ResponseBlanket(3, 4, Fraction(3, 4))]


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 2.5])
@pytest.mark.parametrize("blankets", [TWO[:1], TWO, THREE], ids=len)
def test_it_is_hardly_above_the_true_divergence_of_the_product(epsilon, blankets):
    exact = product_divergence(epsilon, blankets)
    found = composed_divergence(epsilon, blankets, delta=exact, cells=300)
    assert exact <= found <= exact * 1.001 + 1e-12


def test_a_coarse_lattice_is_only_less_private():
    exact = product_divergence(1.0, TWO)
    found = [composed_divergence(1.0, TWO, delta=exact, cells=cells) for cells in (1, 3, 10, 100)]
    assert all(exact <= value for value in found)
    assert found[0] > found[-1]


@pytest.mark.points(0)
def test_of_one_message_it_is_the_divergence_itself():
    one = ResponseBlanket(10**5, 9, Fraction(1, 100))
    for epsilon in (0.4, 1.0):
        single = one.divergence(epsilon)
        found = composed_divergence(epsilon, [one], delta=single)
        assert single <= found * (1 + 1e-9)
        assert found <= single * (1 + 1e-4)


@pytest.mark.slow
def test_it_agrees_with_another_library():
    pld = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    blankets = [ResponseBlanket(40, 3, Fraction(1, 3)), ResponseBlanket(60, 2, Fraction(1, 4))]
    composed = None
    for blanket in blankets:
        first, second = pair(blanket)
        upper = {view: math.log(p) for view, p in first.items() if p > 0}
        lower = {view: math.log(q) for view, q in second.items() if q > 0}
        loss = pld.from_two_probability_mass_functions(
            lower, upper, pessimistic_estimate=True, value_discretization_interval=1e-4
        )
        composed = loss if composed is None else composed.compose(loss)
    for epsilon in (0.5, 1.0):
        theirs = composed.get_delta_for_epsilon(epsilon)
        ours = composed_divergence(epsilon, blankets, delta=theirs, cells=400)
        assert ours <= theirs * (1 + 1e-6)  # theirs rounds every loss up
        assert ours >= theirs * 0.99


@pytest.mark.slow
def test_small_deltas_keep_their_precision():
    # far below what a Fourier transform of masses that add up to 1 can tell from 0
    one = ResponseBlanket(10**6, 3, Fraction(1, 500))
    alone = one.divergence(1.0)
    assert alone < 1e-20
    together = composed_divergence(
        1.0, [one, ResponseBlanket(10**6, 2, Fraction(1, 2))], delta=alone
    )
    assert alone * 0.999 < together < alone * 1.2


@pytest.mark.parametrize("n", [5, 2000])
def test_the_lattice_holds_a_law(n):
    lattice = blanket_losses(ResponseBlanket(n, 4, Fraction(1, 3)), 0.01, 1e-12)
    assert math.isclose(lattice.masses.sum() + lattice.infinite, 1, rel_tol=1e-12)
    assert (lattice.masses >= 0).all()
    assert 0 < lattice.infinite <= 1.1e-12  # no loss is beyond the lattice of n = 5, but windows
    losses = lattice.step * (lattice.first + np.arange(lattice.masses.size))
    # the masses under the other input add up to at most 1 as well
    assert float(np.dot(lattice.masses, np.exp(-losses))) <= 1 + 1e-9


def test_advanced_composition():
    many = [(0.01, 1e-12)] * 10_000
    epsilon, delta = advanced_composition(iter(many), 1e-8)
    expected = 10_000 * 0.01 * math.tanh(0.005) + math.sqrt(2 * math.log(1e8) * 10_000) * 0.01
    assert expected * (1 - 1e-15) <= epsilon <= expected * (1 + 1e-9) < 100
    assert 2e-8 <= delta <= 2e-8 * (1 + 1e-9)
    # where few mechanisms gain nothing, epsilons are added up
    assert advanced_composition([(0.25, 0.0), (0.5, 0.0)], 1e-9)[0] == 0.75
    tiny = Fraction(1, 10**400)
    assert advanced_composition([(tiny, 0)], tiny) == (5e-324, 5e-324)


@given(
    st.lists(st.tuples(EXTREME, st.floats(0, 0.1)), min_size=1, max_size=4),
    st.integers(1, 100),
    st.floats(1e-323, 0.5),
)
def test_advanced_composition_is_rounded_up_at_any_size(budgets, times, slack):
    """In 60 digits: squares of doubles may be below or above all doubles."""
    epsilon, delta = advanced_composition(budgets * times, slack)
    with mpmath.workdps(60):
        each = [mpmath.mpf(eps) for eps, _ in budgets]
        mean = times * sum(eps * mpmath.tanh(eps / 2) for eps in each)
        squares = times * sum(eps**2 for eps in each)
        advanced = mean + mpmath.sqrt(2 * mpmath.log(1 / mpmath.mpf(slack)) * squares)
        true = min(advanced, times * sum(each))
        assert true <= epsilon <= true * (1 + mpmath.mpf(2) ** -52) + mpmath.mpf("5e-324")
    assert delta >= min(1, Fraction(slack) + times * sum(Fraction(d) for _, d in budgets))


def test_advanced_composition_covers_randomized_response():
    # binary responses, k of them: the loss is eps (2 Bin(k, p) - k), p = e^eps / (1 + e^eps)
    k, eps, slack = 400, 0.05, 1e-3
    total, _ = advanced_composition([(eps, 0.0)] * k, slack)
    p = math.exp(eps) / (1 + math.exp(eps))
    exact = sum(
        math.comb(k, j) * p**j * (1 - p) ** (k - j) * -math.expm1(total - eps * (2 * j - k))
        for j in range(k + 1)
        if eps * (2 * j - k) > total
    )
    assert 0 < exact <= slack


@pytest.mark.parametrize(("budget", "name"), [((-1, 0), "epsilon"), ((1, 2), "delta")])
def test_nonsense_is_refused(budget, name):
    with pytest.raises(ValueError, match=f"{name} must be"):
        advanced_composition([budget], 0.1)
