"""Optimal composition against rationals, other formulas, and another library."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import gmpy2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ikos.accounting import advanced_composition, optimal_delta, optimal_local_epsilon


def rational_delta(odds: Fraction, copies: int, local_odds: Fraction, d0: Fraction) -> Fraction:
    """Return the divergence of copies of the least private mechanism, by all of its answers."""
    p = local_odds / (1 + local_odds)
    first = {"x": d0, "y": Fraction(0), 0: (1 - d0) * p, 1: (1 - d0) * (1 - p)}
    second = {"x": Fraction(0), "y": d0, 0: (1 - d0) * (1 - p), 1: (1 - d0) * p}
    total = Fraction(0)
    for answers in itertools.product(first, repeat=copies):
        here = math.prod((first[a] for a in answers), start=Fraction(1))
        there = math.prod((second[a] for a in answers), start=Fraction(1))
        total += max(Fraction(0), here - odds * there)
    return total


@pytest.mark.parametrize("copies", [1, 5])
@pytest.mark.parametrize("d0", [Fraction(0), Fraction(1, 7)])
@pytest.mark.parametrize("odds", [Fraction(1), Fraction(3, 2), Fraction(5)])
def test_it_is_the_divergence_of_the_least_private_mechanism(copies, d0, odds):
    for local_odds in (Fraction(1), Fraction(3, 2), Fraction(4)):
        exact = rational_delta(odds, copies, local_odds, d0)
        found = optimal_delta(math.log(odds), copies, math.log(local_odds), d0)
        # budgets are rounded to doubles here, which moves the rest by about 1e-16
        assert float(exact) - 1e-14 <= found <= float(exact) * (1 + 2e-9) + 1e-14


def published(copies: int, local: float, i: int) -> float:
    """Return delta_i of KOV15, Theorem 3.3, for epsilon = (copies - 2 i) local."""
    top = sum(
        math.comb(copies, j)
        * (math.exp((copies - j) * local) - math.exp((copies - 2 * i + j) * local))
        for j in range(i)
    )
    return top / (1 + math.exp(local)) ** copies


@pytest.mark.parametrize("copies", [4, 11])
def test_it_is_the_published_formula_at_the_published_budgets(copies: int) -> None:
    for i in range(copies // 2 + 1):
        found = optimal_delta((copies - 2 * i) * 0.3, copies, 0.3)
        assert found == pytest.approx(published(copies, 0.3, i), rel=1e-8, abs=1e-15)


def precise_delta(epsilon: float, copies: int, local: float) -> gmpy2.mpfr:
    with gmpy2.context(precision=200):
        e0, e = gmpy2.mpfr(local), gmpy2.mpfr(epsilon)
        # terms from the last with a loss above epsilon downwards
        q = 1 / (1 + gmpy2.exp(e0))
        last = math.ceil((copies - epsilon / local) / 2)
        i = last
        pmf = gmpy2.exp(
            gmpy2.lgamma(gmpy2.mpfr(copies + 1))[0]
            - gmpy2.lgamma(gmpy2.mpfr(i + 1))[0]
            - gmpy2.lgamma(gmpy2.mpfr(copies - i + 1))[0]
            + i * gmpy2.log(q)
            + (copies - i) * gmpy2.log(1 - q)
        )
        total = gmpy2.mpfr(0)
        while i >= 0:
            if (copies - 2 * i) * e0 > e:
                total += pmf * (1 - gmpy2.exp(e - (copies - 2 * i) * e0))
            if i and pmf < total * gmpy2.mpfr(2) ** -120:
                break
            pmf *= gmpy2.mpfr(i) / (copies - i + 1) * (1 - q) / q
            i -= 1
        return total


@pytest.mark.parametrize(
    ("epsilon", "copies", "local"),
    [(1.0, 2048, 0.005), (1.0, 10**5, 7e-4), (0.1, 10**5, 1e-4), (8.0, 4096, 0.03), (3, 64, 0.25)],
)
def test_it_is_rounded_up_and_by_little(epsilon: float, copies: int, local: float) -> None:
    exact = precise_delta(epsilon, copies, local)
    found = optimal_delta(epsilon, copies, local)
    assert exact <= found <= exact * (1 + 2e-9)


def every_term(epsilon: float, copies: int, local: float) -> gmpy2.mpfr:
    """Return R(epsilon) of budgets taken exactly, by all terms."""
    with gmpy2.context(precision=400):
        e0, e = gmpy2.mpfr(local), gmpy2.mpfr(epsilon)
        q = 1 / (1 + gmpy2.exp(e0))
        return sum(
            math.comb(copies, i)
            * q**i
            * (1 - q) ** (copies - i)
            * -gmpy2.expm1(min(gmpy2.mpfr(0), e - (copies - 2 * i) * e0))
            for i in range(copies + 1)
        )


@pytest.mark.parametrize("copies", [1, 7, 100])
@pytest.mark.parametrize("local", [0.013, 0.7, 2.3])
def test_it_is_rounded_up_where_a_loss_is_hardly_above_epsilon(copies: int, local: float) -> None:
    """There 1 - e^(epsilon - loss) is of the order of the rounding of the loss."""
    for false in range(min(3, (copies + 1) // 2)):
        epsilon = (copies - 2 * false) * local
        for _ in range(4):
            found = optimal_delta(epsilon, copies, local)
            exact = every_term(epsilon, copies, local)
            assert exact <= found <= exact * (1 + 2e-9) + copies * local * 1e-14
            epsilon = math.nextafter(epsilon, 0)


@pytest.mark.parametrize(
    ("epsilon", "copies", "local"),
    [
        (1.0, 10**6, 0.01),
        (0.0, 10**5, 0.02),
        (3.0, 10**5, 1e-3),
        # rare false answers, whose law is as wide as the sum is: 26,770 of them, more or less 164
        ((4 * 10**6 - 2 * 27_600) * 5.0, 4 * 10**6, 5.0),
    ],
)
def test_nothing_but_the_slack_is_lost_near_1_and_in_the_tail(epsilon, copies, local):
    """The slack of 1e-9 is for rounding, and must not have to make up for terms left out."""
    found = optimal_delta(epsilon, copies, local) / (1 + 1e-9)
    assert found == pytest.approx(float(precise_delta(epsilon, copies, local)), rel=1e-12, abs=0)


def test_a_delta_below_the_range_of_doubles_is_not_0() -> None:
    """No loss above epsilon means 0, and nothing else does."""
    for epsilon, copies, local in ((1e5, 1 << 22, 0.024), (59.0, 10**4, 0.0059001)):
        assert copies * Fraction(local) > epsilon
        assert precise_delta(epsilon, copies, local) < 1e-300
        assert 0 < optimal_delta(epsilon, copies, local) < 1e-289
    assert optimal_delta(1e5, 1 << 22, Fraction(100_000, 1 << 22)) == 0.0
    assert optimal_delta(59.0, 1 << 13, Fraction(59, 1 << 13)) == 0.0


@pytest.mark.parametrize(("local", "d0"), [(0.05, 0.0), (0.1, 1e-4)])
def test_it_agrees_with_another_library(local: float, d0: float) -> None:
    pld = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    common = pytest.importorskip("dp_accounting.pld.common")
    step = local / 500  # losses are multiples of it: nothing is rounded
    theirs = pld.from_privacy_parameters(
        common.DifferentialPrivacyParameters(local, d0), value_discretization_interval=step
    ).self_compose(100)
    for epsilon in (0.5, 1.0, 2.0):
        found = optimal_delta(epsilon, 100, local, d0)
        assert found == pytest.approx(theirs.get_delta_for_epsilon(epsilon), rel=1e-4, abs=1e-12)


@given(
    copies=st.integers(1, 3000),
    local=st.floats(1e-4, 2.0),
    part=st.floats(0.0, 1.2),
    d0=st.sampled_from([0.0, 1e-9, 1e-3]),
)
@pytest.mark.slow
def test_it_is_never_above_other_theorems(copies, local, part, d0):
    epsilon = part * copies * local
    found = optimal_delta(epsilon, copies, local, d0)
    assert found >= optimal_delta(epsilon * 1.01 + 0.01, copies, local, d0)
    assert found >= optimal_delta(epsilon, copies, local * 0.99, d0)
    if part >= 1:
        assert found <= d0 * copies * (1 + 1e-8) + 1e-280
    for slack in (1e-9, 1e-3):
        reached, delta = advanced_composition([(local, d0)] * copies, slack)
        assert optimal_delta(reached, copies, local, d0) <= delta * (1 + 1e-8)


@pytest.mark.points(2)
@pytest.mark.parametrize("copies", [1, 16, 10**4])
@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-9), (8.0, 1e-12)])
def test_the_largest_budget_is_enough_and_no_larger_one(copies, epsilon, delta):
    for d0 in (0.0, delta / (2 * copies)):
        local = optimal_local_epsilon(epsilon, delta, copies, d0)
        assert local >= epsilon / copies * (1 - 1e-15)
        assert optimal_delta(epsilon, copies, local, d0) <= delta
        assert optimal_delta(epsilon, copies, local * (1 + 3e-7), d0) > delta


@pytest.mark.slow
def test_the_budgets_of_afnntz24_are_enough_unless_epsilon_is_large() -> None:
    """Algorithm 3: eps0 = eps / (2 sqrt(2 d ln(2/delta))), delta0 = delta / (4 d), 2 d of them."""
    for d in (1, 8, 1024, 10**5):
        for delta in (1e-12, 1e-6, 1e-3):
            for epsilon in (0.01, 1.0, 4.0):
                printed = epsilon / (2 * math.sqrt(2 * d * math.log(2 / delta)))
                assert optimal_delta(epsilon, 2 * d, printed, delta / (4 * d)) <= delta
                best = optimal_local_epsilon(epsilon, delta, 2 * d, delta / (4 * d))
                assert 1.4 * printed < best
    # its own proof, advanced composition, needs more than epsilon above about 1.2 ln(2/delta)
    epsilon, d, delta = 30.0, 1000, 1e-6
    printed = epsilon / (2 * math.sqrt(2 * d * math.log(2 / delta)))
    assert advanced_composition([(printed, 0.0)] * (2 * d), delta / 2)[0] < epsilon
    spent = printed * math.sqrt(2 * 2 * d * math.log(2 / delta))
    assert spent + 2 * d * printed * math.expm1(printed) > epsilon


def test_budgets_that_differ_by_less_than_doubles_do() -> None:
    above = Fraction(1) + Fraction(1, 1 << 80)
    true = math.expm1(2.0**-80) * math.e / (1 + math.e)
    assert optimal_delta(1, 1, above) >= true
    assert optimal_delta(1, 1, 1) == optimal_delta(1, 4, 0.25) == 0.0
    close = math.nextafter(1.0, 2.0)
    assert true < math.expm1(2.0**-52) * math.e / (1 + math.e) <= optimal_delta(1, 1, close) < 1e-14


def test_many_mechanisms_that_may_fail_are_too_much() -> None:
    for delta, k, local in ((1e-6, 1000, 2e-9), (0.5, 1000, 1e-3), (1e-300, 3, 1e-10)):
        with pytest.raises(ValueError, match="local_delta must be at most") as refused:
            optimal_local_epsilon(1.0, delta, k, local)
        most = float(str(refused.value).split("at most ")[1].split()[0])
        assert optimal_local_epsilon(1.0, delta, k, most) > 0  # what is named is accepted
        if most:
            with pytest.raises(ValueError, match="local_delta must be at most"):
                optimal_local_epsilon(1.0, delta, k, most * 1.00001)
    assert optimal_delta(100.0, 10, 0.1, 1.0) == 1.0
    assert optimal_delta(0.0, 10, 0.0, 0.0) == 0.0
    assert 0.99 < optimal_delta(0.0, 10**5, 2.0) <= 1.0
