"""What the filter accepts keeps the total, also against whoever chooses by what was seen."""

from __future__ import annotations

from fractions import Fraction
from functools import cache

import mpmath
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from ikos.accounting import advanced_composition, gaussian_delta, optimal_delta
from ikos.accounting.privacy_filter import Account, Charge, PrivacyFilter, log_moment

HALF, TENTH = Fraction(1, 2), Fraction(1, 10)


def accepted(total: PrivacyFilter, *charges: Charge) -> list[Charge]:
    """Return those that a filter accepts, each after those before it."""
    account, taken = Account(total), []
    for charge in charges:
        if (after := account.after(charge)) is not None:
            account = after
            taken.append(charge)
    return taken


def test_equal_parts_fit_exactly() -> None:
    total = PrivacyFilter.of(1, Fraction(1, 10**6))
    part = Charge(TENTH, Fraction(1, 2 * 10**7))
    assert accepted(total, *[part] * 12) == [part] * 10
    assert not accepted(total, Charge.of(np.nextafter(1, 2)))
    assert not accepted(total, Charge(Fraction(0), HALF * 10**-6 + Fraction(1, 10**20)))
    pure = PrivacyFilter.of(1, 0)
    assert accepted(pure, *[Charge(TENTH, Fraction(0))] * 12) == [Charge(TENTH, Fraction(0))] * 10


@pytest.mark.parametrize(
    ("epsilon", "delta", "each", "times", "advanced"),
    # by KOV15, for one list fixed beforehand: 528, 84, 92
    [(1, 1e-6, 0.01, 462, 333), (1, 1e-9, 0.02, 78, 57), (8, 1e-6, 0.16, 84, 68)],
)
def test_more_fit_than_by_advanced_composition(epsilon, delta, each, times, advanced):
    taken = len(accepted(PrivacyFilter.of(epsilon, delta), *[Charge.of(each)] * 1000))
    assert taken == times
    assert advanced_composition([(each, 0)] * advanced, delta / 2)[0] <= epsilon
    assert advanced_composition([(each, 0)] * (advanced + 1), delta / 2)[0] > epsilon
    assert optimal_delta(epsilon, times, each) <= delta / 2


@given(
    st.one_of(st.floats(0.01, 1000), st.floats(1e3, 1e10)),
    st.one_of(st.floats(0, 20), st.floats(20, 1e6), st.floats(0, 1e-20)),
)
def test_log_moments_are_rounded_up_once(order: float, epsilon: float) -> None:
    with mpmath.workdps(60):
        lam, eps = mpmath.mpf(order), mpmath.mpf(epsilon)
        p = mpmath.exp(eps) / (1 + mpmath.exp(eps))
        true = mpmath.log(p * mpmath.exp(lam * eps) + (1 - p) * mpmath.exp(-lam * eps))
        found = log_moment(Fraction(order), Fraction(epsilon))
        assert true * (1 - mpmath.mpf(10) ** -40) <= mpmath.mpf(float(found))
        assert float(found) <= true * (1 + 2**-51) + 1e-50


@given(st.floats(0.01, 10), st.floats(1e-12, 0.5), st.floats(0.1, 100))
def test_the_limit_is_that_of_slack(epsilon: float, slack: float, order: float) -> None:
    """At the limit, no value of the loss has a divergence beyond its bound, and one attains it."""
    total = PrivacyFilter(*map(Fraction, (epsilon, 2 * slack, slack, order)))
    with mpmath.workdps(60):
        lam = mpmath.mpf(order)
        best = mpmath.log(1 + 1 / lam)  # beyond epsilon
        height = (1 - mpmath.exp(-best)) * mpmath.exp(-lam * best)
        true = lam * epsilon + mpmath.log(slack) - mpmath.log(height)
        assert true - abs(true) * 2**-50 - 1e-14 <= total.limit <= true
        for off in (0.9, 1.1):
            assert (1 - mpmath.exp(-off * best)) * mpmath.exp(-off * lam * best) <= height


CHARGES = st.builds(
    Charge,
    st.fractions(0, 2, max_denominator=50),
    st.sampled_from([Fraction(0), Fraction(1, 10**8), Fraction(1, 10**7)]),
    st.sampled_from([None, None, Fraction(1, 100), Fraction(1, 20)]),
)


@pytest.mark.slow
@given(st.floats(0.1, 5), st.sampled_from([0, 1e-9, 1e-6]), st.lists(CHARGES, max_size=12))
def test_what_is_left_fits_and_no_more(epsilon: float, delta: float, charges: list[Charge]) -> None:
    account = Account(PrivacyFilter.of(epsilon, delta))
    spent = 0.0
    for charge in charges:
        account = account.after(charge) or account
        assert spent <= account.spent <= 1
        spent = account.spent
    left = account.left
    assert account.after(Charge(*left)) is not None
    assert account.after(Charge(left.epsilon, left.delta + Fraction(1, 10**30))) is None
    assume(left.epsilon > 1e-5 * account.total.epsilon)
    assert account.after(Charge(left.epsilon * Fraction(1 + 1e-8), left.delta)) is None


def test_oracle() -> None:
    """Releases accepted together are as private as another library computes, not less."""
    pytest.importorskip("dp_accounting")
    from dp_accounting.pld import privacy_loss_distribution as losses

    from ikos.accounting.loss_distributions import loss_of_curve

    kinds = {
        Charge.of(0.01, 1e-11): loss_of_curve(lambda _: 1e-11, [0.01]),
        Charge.of(0.05): loss_of_curve(lambda _: 0.0, [0.05]),
        Charge.of(0.1, 1e-11, 0.015): loss_of_curve(
            lambda e: gaussian_delta(e, 0.015), np.arange(1, 110) / 1000
        ),
    }
    draws = np.random.default_rng(5).integers(0, 3, 600)
    taken = accepted(PrivacyFilter.of(1, 1e-6), *(list(kinds)[i] for i in draws))
    assert len(taken) > 60
    loss = losses.identity(value_discretization_interval=1e-4)
    for charge, own in kinds.items():
        loss = loss.compose(own.self_compose(taken.count(charge)))
    assert 1e-8 < loss.get_delta_for_epsilon(1.0) <= 1e-6


def outcomes(charge: Charge) -> list[tuple[float, float]]:
    """Return the probabilities of what a release says under either neighbour.

    Randomized response that tells all with probability delta; of Gaussian privacy, between which
    of a few thresholds a normal variable lies.
    """
    if charge.mu is not None:
        mu = float(charge.mu)
        ends = np.concatenate([[-np.inf], mu / 2 + np.linspace(-2, 2, 5), [np.inf]])
        return np.diff([stats.norm.cdf(ends - mu), stats.norm.cdf(ends)]).T.tolist()
    eps, delta = float(charge.epsilon), float(charge.delta)
    p = (1 - delta) / (1 + np.exp(-eps))
    return [(p, 1 - delta - p), (1 - delta - p, p), (delta, 0.0)]


def worst(total: PrivacyFilter, charges: list[Charge], most: int) -> float:
    """Return the largest divergence of any choice of up to ``most`` releases by earlier results."""
    said = {charge: outcomes(charge) for charge in charges}
    bound = np.exp(float(total.epsilon))

    @cache
    def value(account: Account, p: float, q: float, left: int) -> float:
        best = max(0.0, p - bound * q)
        for charge in charges if left and q else ():
            if (after := account.after(charge)) is not None:
                parts = ((p * a, q * b) for a, b in said[charge])
                best = max(best, sum(value(after, a, b, left - 1) for a, b in parts))
        return best

    return value(Account(total), 1.0, 1.0, most)


def test_adding_does_not_resume_after_a_release_that_it_does_not_cover() -> None:
    """The delta of one by mu is not counted, so that its epsilon cannot be added to others'."""
    total, first = PrivacyFilter.of(1, 1e-6), Charge.of(0.1, gaussian_delta(0.1, 0.2), 0.2)
    account = Account(total).after(first)
    assert account is not None
    assert (account.deltas, account.adding) == (0, False)
    assert account.after(Charge.of(0.9)) is None
    assert account.after(Charge.of(0.01)) is not None


def test_both_conditions_hold_up_to_their_limits() -> None:
    total = PrivacyFilter.of(1, 1e-6)
    limit, most, little = Fraction(total.limit), total.delta - total.slack, Fraction(1, 10**30)
    nothing, free = Charge(Fraction(0), Fraction(0)), Charge.of(0, 1, 0)
    for charge in (nothing, free):
        assert Account(total, moments=limit, deltas=most, adding=False).after(charge) is not None
        assert Account(total, moments=limit + little, adding=False).after(charge) is None
    assert Account(total, deltas=most, adding=False).after(Charge(Fraction(0), little)) is None
    for epsilons, deltas in ((1, most), (1 + little, most), (1, most + little)):
        plain = Account(total, Fraction(epsilons), deltas, moments=limit + little)
        assert (plain.after(nothing) is not None) == (epsilons == 1 and deltas == most)


def test_tiny_totals_and_large_releases() -> None:
    for epsilon, delta in ((1e-6, 1e-300), (1e-6, Fraction(1, 10**400)), (1e6, 5e-324)):
        account = Account(PrivacyFilter.of(epsilon, delta))
        assert account.after(Charge.of(1e6, 0.5)) is None
        assert account.after(Charge.of(1e-6 * epsilon)) is not None
        assert epsilon < 1e6 or account.after(Charge.of(1e6)) is not None


MENUS = {
    "pure": [Charge.of(0.9), Charge.of(0.35), Charge.of(0.2)],
    "delta": [Charge.of(0.6, 0.05), Charge.of(0.3, 0.02), Charge.of(0.3)],
    "gaussian": [Charge.of(0.5, gaussian_delta(0.5, 0.4), 0.4), Charge.of(0.5)],
    "both": [Charge.of(0.4, 0.06), Charge.of(1, gaussian_delta(1, 0.5), 0.5), Charge.of(0.3)],
}


@pytest.mark.parametrize("menu", MENUS)
@pytest.mark.parametrize("delta", [0.12, 0.3])
@pytest.mark.parametrize("most", [3, pytest.param(6, marks=pytest.mark.slow)])
def test_no_one_who_chooses_by_results_overspends(menu: str, delta: float, most: int) -> None:
    """By enumeration of all choices, so that stopping and going on by results are among them."""
    for slack in (0, None, 0.9 * delta):
        total = PrivacyFilter.of(1, delta, slack)
        assert worst(total, MENUS[menu], most) <= delta + 1e-12


NEARLY = 1 - Fraction(1, 10**20)  # a double is 1


def test_a_slack_that_is_nearly_one() -> None:
    total = PrivacyFilter.of(1, NEARLY, slack=NEARLY)
    assert total.order > 0
    assert Account(total).left.epsilon >= 1


def test_a_slack_above_delta_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^slack must be "):
        PrivacyFilter.of(1, NEARLY, (1 + NEARLY) / 2)
