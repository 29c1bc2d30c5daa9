"""The guarantee of a task holds for whichever reports the analyzer chooses, its own shares seen."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from functools import cache
from itertools import combinations, product

import pytest

from ikos import PrivateSum, security_level
from ikos.counts import private_proved
from ikos.data.domains import Bounds
from ikos.deployment.shares import SharesTerms


@cache
def columns(inputs: tuple[int, ...], q: int, m: int) -> dict[tuple[tuple[int, ...], ...], Fraction]:
    """Return the exact law of m sorted columns of shares of fixed inputs."""
    n = len(inputs)
    views: Counter[tuple[tuple[int, ...], ...]] = Counter()
    for free in product(product(range(q), repeat=n), repeat=m - 1):
        last = tuple((x - sum(shares)) % q for x, *shares in zip(inputs, *free, strict=True))
        views[tuple(tuple(sorted(column)) for column in (*free, last))] += 1
    return {view: Fraction(count, q ** (n * (m - 1))) for view, count in views.items()}


@cache
def distance(inputs: tuple[int, ...], others: tuple[int, ...], q: int, m: int) -> Fraction:
    """Return the exact total variation distance of what two inputs show, without a clear share."""
    one, other = columns(inputs, q, m), columns(others, q, m)
    return sum(abs(one.get(v, 0) - other.get(v, 0)) for v in one.keys() | other.keys()) / Fraction(
        2
    )


def chosen(reports: int, n: int, q: int, m: int) -> Fraction:
    """Return the distance of all 0 and all 1 when n of the reports are chosen by clear shares."""
    found = Fraction(0)
    for clear in product(range(q), repeat=reports):
        found += max(
            distance(tuple(-u % q for u in batch), tuple((1 - u) % q for u in batch), q, m)
            for batch in combinations(sorted(clear), n)
        )
    return found / q**reports


@pytest.mark.slow
def test_a_choice_breaks_what_is_proved_for_users_fixed_beforehand():
    """Three of seven reports: more is seen than a clear share and a fixed batch allow."""
    n = q = 3
    proved = 2 ** -security_level(n, q, 2)
    assert chosen(3, n, q, 2) == Fraction(31, 81) <= proved
    assert chosen(7, n, q, 2) == Fraction(7, 9) > proved


@pytest.mark.slow
@pytest.mark.parametrize(("n", "q", "m"), [(3, 3, 3), (2, 2, 4), (2, 2, 6)])
def test_no_choice_breaks_what_is_proved_without_a_clear_share(n, q, m):
    """The bound is for any fixed differences, so it is for those that a choice leaves."""
    proved = 2 ** -security_level(n, q, m, clear_share=False)
    assert proved < 1
    sums = [
        distance(one, other, q, m)
        for one in product(range(q), repeat=n)
        for other in product(range(q), repeat=n)
        if (sum(one) - sum(other)) % q == 0
    ]
    assert chosen(n + 2, n, q, m) <= max(sums) <= proved


@pytest.mark.parametrize("corrupt", [0, 2])
def test_the_analyzers_own_shares_are_not_counted_on(corrupt):
    made = SharesTerms.private_sum(
        1000, Bounds(0, 7), 1, 1e-6, min_honest=900, corrupt_shufflers=corrupt
    )
    assert not made.transport.trust.clear_share
    hiding = made.messages.total - 1 - corrupt
    how = {"delta": 1e-6, "precision": made.precision, "clear_share": False}
    assert private_proved(900, made.modulus, hiding, 1, **how).delta == made.guarantee.delta <= 1e-6
    assert private_proved(900, made.modulus, hiding - 1, 1, **how).delta > 1e-6
    text = "no shuffler colludes" if corrupt == 0 else "at most 2 of the shufflers collude"
    assert f"while {text} with the analyzer" in map(str, made.guarantee.conditions)


@pytest.mark.parametrize("wrong", [-1, 0.5, "1", None, True])
def test_corrupt_shufflers_are_refused_as_they_are_given(wrong):
    with pytest.raises((TypeError, ValueError), match=r"^corrupt_shufflers must ") as caught:
        SharesTerms.private_sum(1000, Bounds(0, 1), 1, 1e-6, corrupt_shufflers=wrong)
    assert repr(wrong) in str(caught.value)


def test_who_is_missing_may_depend_on_shares_here_alone():
    numbers = {"epsilon": 1, "delta": 1e-6, "min_honest": 900}
    words = "while at least 900 of 1,000 users are honest and present"
    assert (
        SharesTerms.private_sum(1000, Bounds(0, 1), **numbers).guarantee.conditions[0].text == words
    )
    fixed = PrivateSum(1000, **numbers).guarantee.conditions[0].text
    assert fixed == f"{words}, and which users drop out is independent of their shares and noise"


def test_nothing_is_said_of_too_few_messages():
    found = SharesTerms.private_sum(1000, Bounds(0, 1), 1, 1e-6, messages=1).guarantee
    assert not found.proved
    assert found.conditions == ()
