"""What every analysis of `ikos.counts.analyses.TABLE` must do, in every setting that it covers.

Its levels are below the truth, and next to it: the second moment by another evaluation in ball
arithmetic, or the paper's formula. Counts are minimal, hold for every number of users in a range,
and move the right way; deltas are those of BBGN20, Lemma 5.2, or better.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from counts.moments import SETTINGS, bits, flint, precisely, recursion
from hypothesis import given, settings
from hypothesis import strategies as st

from ikos import message_count, private_message_count, security_level
from ikos.counts import private_proved
from ikos.counts.analyses import TABLE, checked_scheme

CASES = [
    (name, shuffler, clear)
    for name, analysis in TABLE.items()
    for shuffler, clear in SETTINGS
    if not analysis.refusal(
        checked_scheme(100, 2, analysis=name, shuffler=shuffler, clear_share=clear)
    )
]
LEVELS = [case for case in CASES if TABLE[case[0]].level_analysis.name == case[0]]
every_level = pytest.mark.parametrize(("name", "shuffler", "clear"), LEVELS)
every_case = pytest.mark.parametrize(
    ("name", "shuffler", "clear"),
    [case if case in LEVELS else pytest.param(*case, marks=pytest.mark.slow) for case in CASES],
)
"""Where higher moments apply, each search takes a second."""

ORDERS = st.one_of(st.integers(2, 2**70), st.integers(1, 3000).map(lambda b: 2**b + b % 2))
SIGMAS = st.one_of(st.integers(1, 600), st.floats(1, 600))


def options(name: str, shuffler: str, clear: bool) -> dict[str, Any]:
    return {"analysis": name, "shuffler": shuffler, "clear_share": clear}


def log2(x: Any) -> Any:
    return flint.arb(x).log() / flint.arb(2).log()


def truth(name: str, n: int, q: int, m: int, shuffler: str, clear: bool) -> Any:
    """What is proved for m shuffled messages, as a ball."""
    if name == "balle2020":
        hidden = m if clear else m - 1
        return ((hidden - 1) * (log2(n) - 1 / flint.arb(2).log()) - log2(q)) / 2
    if name == "ghazi2020":
        return (m - 4) * (log2(n) - 1) / flint.arb(100) - log2(q)
    if name == "ishai2006":
        root = log2(flint.arb.pi() * (m + flint.arb(1) / 2)) / 4
        return m - 1 - log2(n - 1) - flint.arb(5 * (q - 1).bit_length()) / 2 - root
    return bits(recursion(n, q, m, shuffler, clear).divergence[n])


@pytest.mark.points(2)
@pytest.mark.points(len(LEVELS))
@every_level
@given(st.data())
def test_levels_are_below_the_truth_and_next_to_it(name, shuffler, clear, data):
    formula = not TABLE[name].private
    n = data.draw(st.integers(19, 10**13 if formula else 30))
    q, sigma = data.draw(ORDERS), data.draw(SIGMAS)
    how = options(name, shuffler, clear)
    m = message_count(n, q, sigma, **how).shuffled + data.draw(st.integers(-1, 2))
    scheme = checked_scheme(n, q, **how)
    level = scheme.proved(m).sigma
    if scheme.analysis.refusal(scheme, m):
        assert level == 0
        return
    with precisely(600):
        true = truth(name, n, q, m, shuffler, clear)
        assert not level > true or level == 0
        if true > max(1, TABLE[name].min_sigma):
            assert true - level < 1e-12 * max(1.0, level) if formula else true - level < 1e-6


@every_level
@given(st.data())
def test_counts_are_minimal_and_move_the_right_way(name, shuffler, clear, data):
    n = data.draw(st.one_of(st.integers(19, 60), st.integers(1025, 10**12)))
    q, sigma, how = data.draw(ORDERS), data.draw(SIGMAS), options(name, shuffler, clear)
    count = message_count(n, q, sigma, **how)
    m = count.shuffled

    def level(n: int = n, q: int = q, m: int = m) -> float:
        return checked_scheme(n, q, **how).proved(m).sigma

    assert count.sigma == level() >= sigma > level(m=m - 1)
    assert (count.clear, count.total, count.analysis) == (int(clear), m + clear, name)
    assert level(m=m + 1) >= level()
    assert level(q=q + 1) <= level()
    assert level(q=q * q) <= level()
    if name == "ishai2006":  # more users take more steps
        assert level(n=2 * n) <= level()
    elif n > 1024 or name != "second_moment":
        assert level(n=2 * n) >= level() - 1e-9
    assert message_count(n, q, sigma + 3, **how).total >= count.total
    assert message_count(n, q, Fraction(sigma), **how) == count


@pytest.mark.points(1)
@pytest.mark.points(len(LEVELS))
@every_level
@given(low=st.integers(19, 60), more=st.integers(0, 3000), bits=st.integers(1, 80))
def test_a_range_of_users_is_as_weak_as_its_weakest(name, shuffler, clear, low, more, bits):
    q, how = 2**bits, options(name, shuffler, clear)
    high = low + (more if more % 3 else more // 100)
    count = message_count(high, q, 20, min_honest=low, **how)
    assert count.sigma >= 20
    for n in {low, low + 1, (low + high) // 2, high}:
        if n <= high:
            assert security_level(n, q, count.shuffled, **how) >= count.sigma
    with_corrupt = {} if shuffler == "single" else {"corrupt_shufflers": 3}
    sent = message_count(high, q, 20, min_honest=low, **with_corrupt, **how)
    assert sent == replace(count, shuffled=count.shuffled + 3 * bool(with_corrupt))


@every_level
@pytest.mark.parametrize("q", [2, 2**64, 2**1_000_000])
def test_extremes_are_answered(name: str, shuffler: str, clear: bool, q: int) -> None:
    how = options(name, shuffler, clear)
    for n in (19, 1000, 1025, 10**100):
        for sigma in (1, 1000, 10**6):
            count = message_count(n, q, sigma, **how)
            assert count.sigma >= sigma
            if count.shuffled > 1:
                assert checked_scheme(n, q, **how).proved(count.shuffled - 1).sigma < sigma
        for few in (0, 1):
            nothing = checked_scheme(n, q, **how).proved(few)
            if few == 0 or q > 2 or not clear:
                assert (nothing.sigma, nothing.analysis) == (0.0, None)
                assert math.copysign(1, nothing.sigma) == 1
    # one user has nothing to hide, which the published ones do not say
    if TABLE[name].private:
        assert message_count(1, q, 80, **how).sigma == security_level(1, q, 1, **how) == math.inf
    else:
        with pytest.raises(ValueError, match=f"{name} needs n .*, got n = 1; analysis='best'"):
            message_count(1, q, 80, **how)


@every_level
def test_numpy_integers_are_integers(name: str, shuffler: str, clear: bool) -> None:
    how = options(name, shuffler, clear)
    count = message_count(np.int32(1000), np.uint16(40_000), np.float64(40), **how)
    assert count == message_count(1000, 40_000, 40, **how)
    assert (type(count.shuffled), type(count.sigma)) == (int, float)


@pytest.mark.slow
@given(n=st.integers(19, 200), q=ORDERS, sigma=SIGMAS)
@settings(max_examples=10)
def test_the_default_is_the_best_of_all_that_cover_a_setting(n: int, q: int, sigma: float) -> None:
    for name, shuffler, clear in LEVELS:
        count = message_count(n, q, sigma, **options(name, shuffler, clear))
        best = message_count(n, q, sigma, shuffler=shuffler, clear_share=clear)
        assert best.total <= count.total
        level = security_level(n, q, count.shuffled, shuffler=shuffler, clear_share=clear)
        assert level >= count.sigma
    assert message_count(n, q, sigma, analysis="exact") == message_count(n, q, sigma)


@given(n=st.integers(19, 200), q=ORDERS, m=st.integers(4, 60))
def test_what_is_shuffled_more_is_hidden_better(n: int, q: int, m: int) -> None:
    """A clear share may be shuffled too, and one shuffler may do what several do."""
    for name in ("second_moment", "balle2020"):

        def level(m: int, shuffler: str, clear: bool, name: str = name) -> float:
            return security_level(n, q, m, **options(name, shuffler, clear))

        assert level(m + 1, "parallel", False) == level(m, "parallel", True)
        assert level(m + 1, "single", False) >= level(m, "single", True)
        assert level(m, "single", True) >= level(m, "parallel", True) * (1 - 1e-12)


# Private sums


BUDGETS = given(
    n=st.one_of(st.integers(19, 60), st.integers(1025, 10**9)),
    order=st.integers(1, 80),
    epsilon=st.floats(0.01, 10),
    delta=st.floats(1e-100, 0.5),
    precision=st.integers(1, 10**3),
)


def check_private_count(
    name: str, shuffler: str, clear: bool, n: int, order: int, epsilon: float, delta: float,
    precision: int,
) -> None:  # fmt: skip
    q, how = 2**order, options(name, shuffler, clear)
    count = private_message_count(n, q, epsilon, delta, precision, **how)
    assert count.delta is not None
    assert count.noise_epsilon is not None
    assert count.delta <= delta
    assert 0.99 * epsilon * (1 - 2**-50) <= count.noise_epsilon <= epsilon
    assert private_proved(n, q, count.shuffled, epsilon, delta, precision, **how) == count
    for more, reached in ((-1, False), (1, True)):
        other = private_proved(n, q, count.shuffled + more, epsilon, delta, precision, **how)
        assert other.delta is not None
        assert (other.delta <= delta) == reached
    stricter = private_message_count(n, q, epsilon, delta / 10, precision, **how)
    assert stricter.total >= count.total
    if not TABLE[name].private:
        assert count.noise_epsilon == epsilon
        assert "BBGN20, Lemma 5.2, with" in count.theorem
        with precisely():
            lemma = (1 + flint.arb(epsilon).exp()) * flint.arb(2) ** -flint.arb(count.sigma)
            assert lemma <= count.delta
            assert count.delta < 1e-290 or count.delta < lemma * (1 + flint.arb(2) ** -50)


@every_level
@BUDGETS
def test_private_counts_are_minimal_and_keep_to_the_budget(name, shuffler, clear, **budget):
    check_private_count(name, shuffler, clear, **budget)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "shuffler", "clear"), CASES[:12])
@BUDGETS
@settings(max_examples=8)
def test_so_are_those_of_private_sums_alone(name, shuffler, clear, **budget):
    assert name in ("best", "direct_comparison", "higher_moments")
    if name == "direct_comparison":  # by which no number of messages proves any smaller one
        budget["delta"] = max(budget["delta"], 1e-50)
    check_private_count(name, shuffler, clear, **budget)


@every_case
def test_private_counts_are_for_the_fewest_honest_users(name, shuffler, clear):
    """A level is about inputs that differ anywhere, for every number who may be honest."""
    budget: Any = (2**31 - 1, 1.0, 1e-9, 1000)
    how = options(name, shuffler, clear)
    for honest in (20, 50):
        count = private_message_count(10**6, *budget, min_honest=honest, **how)
        alone = private_message_count(honest, *budget, **how)
        everywhere = checked_scheme(10**6, budget[0], honest, **how).proved(count.shuffled)
        if TABLE[name].private:
            assert count == replace(alone, sigma=everywhere.sigma)
        assert count.total == alone.total
        assert everywhere.sigma <= alone.sigma
    if not clear or shuffler == "single":
        return
    sent = private_message_count(10**6, *budget, min_honest=50, corrupt_shufflers=3, **how)
    assert sent == replace(count, shuffled=count.shuffled + 3)


@every_case
@pytest.mark.parametrize(("epsilon", "delta"), [(1e-100, 1e-300), (20, 1 - 2**-53), (500, 1e-9)])
def test_extreme_budgets_are_answered(name, shuffler, clear, epsilon, delta):
    how = options(name, shuffler, clear)
    if name == "direct_comparison" and epsilon < 1e-50:
        with pytest.raises(ValueError, match=r"^no number of messages up to 100000000 is proved"):
            private_message_count(60, 2**20, epsilon, delta, 10, **how)
        return
    for n in (19, 60, 10**9 if name == "second_moment" else 30):
        count = private_message_count(n, 2**20, epsilon, delta, 10, **how)
        assert count.delta is not None
        assert count.delta <= delta
    for m in (0, 1):
        nothing = private_proved(1000, 2**30, m, Fraction(1, 3), 1e-6, 32, **how)
        assert (nothing.delta, nothing.sigma, nothing.analysis) == (1.0, 0.0, None)
        assert nothing.noise_epsilon is not None
        assert Fraction(1, 3) - Fraction(1, 2**50) < Fraction(nothing.noise_epsilon) <= 1 / 3
    if name == "direct_comparison":
        with pytest.raises(ValueError, match=r"does not cover n = 1 .* needs min_honest >= 9"):
            private_message_count(1, 2**20, epsilon, delta, 32, **how)
    elif TABLE[name].private:
        one = private_message_count(1, 2**20, epsilon, delta, 32, **how)
        assert (one.shuffled, one.delta, one.noise_epsilon) == (1, 0.0, epsilon)
