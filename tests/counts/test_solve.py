"""What messages buy: round trips with the counts, minimality, and the noise of too few users."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import product
from typing import Any

import pytest
from counts.moments import bits, flint, precisely, recursion
from counts.test_private import ball, difference, given_sum, mean_jumps, theorem
from exact.share_graph import SETTINGS, views
from exact.test_private_view import noise_modulo
from gmpy2 import mpfr
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ikos import message_count, private_message_count, security_level
from ikos.counts import (
    hockey_stick,
    private_delta,
    private_epsilon,
    private_proved,
    private_remaining,
    remaining,
    short_noise_epsilon,
    smallest_users,
)
from ikos.counts.analyses import checked_scheme
from ikos.counts.partial_noise import _series
from ikos.numeric.rounding import DOWN, UP

SINGLE: dict[str, Any] = {"shuffler": "single", "clear_share": False}
each_setting = pytest.mark.parametrize(("shuffler", "clear"), SETTINGS)


@pytest.fixture(autouse=True)
def _precise() -> Iterator[None]:
    with precisely():
        yield


# Deltas


@pytest.mark.slow
@settings(max_examples=30)
@given(
    n=st.one_of(st.integers(2, 60), st.integers(1025, 10**9)),
    bits=st.integers(1, 40),
    epsilon=st.floats(1e-3, 8),
    delta=st.floats(1e-30, 0.1),
    p=st.integers(1, 10**4),
    setting=st.sampled_from(SETTINGS),
)
@example(n=11, bits=7, epsilon=3.0, delta=0.0625, p=2, setting=("parallel", True))
def test_delta_and_count_are_inverses(n, bits, epsilon, delta, p, setting):
    how: dict[str, Any] = {"shuffler": setting[0], "clear_share": setting[1]}
    count = private_message_count(n, 2**bits, epsilon, delta, p, **how)
    found = private_delta(n, 2**bits, count.shuffled, epsilon, p, **how)
    assert found <= delta
    if count.shuffled > 1:
        assert private_delta(n, 2**bits, count.shuffled - 1, epsilon, p, **how) > delta
    if found > 0:
        again = private_message_count(n, 2**bits, epsilon, found, p, **how)
        assert again.shuffled == count.shuffled
        assert again.delta is not None
        assert again.delta <= found


def test_more_reserve_buys_a_smaller_delta() -> None:
    deltas = [private_delta(1000, 2**16, 5, 1, 32, reserve=r) for r in (0, 0.001, 0.01, 0.1)]
    assert deltas == sorted(deltas, reverse=True)
    assert deltas[0] > 10 * deltas[2]


@pytest.mark.slow
def test_deltas_of_published_analyses_and_of_nothing() -> None:
    found = private_delta(1000, 2**16, 12, 1, 32, analysis="balle2020")
    sigma = security_level(1000, 2**16, 12, analysis="balle2020")
    assert found == pytest.approx((1 + math.e) * 2**-sigma)
    assert private_delta(1000, 2**16, 1, 1, 32) == 1.0


# Epsilons


@pytest.mark.points(0)
@pytest.mark.parametrize(
    ("n", "bits", "m", "delta", "p", "how"),
    [
        (1000, 16, 5, 1e-6, 32, {}),
        (50, 12, 7, 1e-5, 10, {}),
        (10**6, 31, 4, 1e-10, 1000, {}),
        (10**4, 22, 5, 1e-8, 354, SINGLE),
        (10**4, 22, 5, 1e-6, 354, {"reserve": 0.1}),
    ],
)
def test_epsilon_is_certified_and_near_the_smallest(n, bits, m, delta, p, how):
    def proved_delta(epsilon: float) -> float:
        found = private_proved(n, 2**bits, m, epsilon, delta, p, **how).delta
        assert found is not None
        return found

    epsilon = private_epsilon(n, 2**bits, m, delta, p, **how)
    assert proved_delta(epsilon) <= delta
    for factor in (1 - 1e-9, 0.9, 0.5, 0.1, 0.01, 1e-6):
        assert proved_delta(epsilon * factor) > delta
    assert private_message_count(n, 2**bits, epsilon, delta, p, **how).shuffled <= m


@pytest.mark.slow
def test_noise_of_every_size_may_be_hidden() -> None:
    assert private_epsilon(50, 2**12, 30, 1e-6, 8) == 1e-100
    found = private_proved(50, 2**12, 30, 1e-100, 1e-6, 8).delta
    assert found is not None
    assert found <= 1e-6


@pytest.mark.slow
def test_what_no_epsilon_reaches_is_refused_with_what_one_does() -> None:
    with pytest.raises(ValueError, match=r"delta must be at least .*, got 1e-30") as refusal:
        private_epsilon(5000, 2**16, 5, 1e-30, 32)
    said = str(refusal.value)
    least = float(said.split("at least ")[1].split(",")[0])
    assert private_epsilon(5000, 2**16, 5, 1.01 * least, 32) > 0
    with pytest.raises(ValueError, match="m must be larger: no epsilon can be proved"):
        private_epsilon(5000, 2**16, 1, 1e-3, 32)


# Users


@each_setting
@pytest.mark.parametrize(("q", "sigma", "m"), [(2**16, 20, 9), (2**8, 8, 6)])
def test_smallest_users_by_brute_force(shuffler, clear, q, sigma, m):
    how: dict[str, Any] = {"shuffler": shuffler, "clear_share": clear}
    found = smallest_users(q, sigma, m, **how)
    assert found > 1
    assert security_level(found - 1, q, m, **how) < sigma
    for n in [*range(found, found + 8), 2 * found, 1024, 1025, 10**6, 10**12]:
        if n >= found:
            assert security_level(n, q, m, **how) >= sigma
    assert message_count(found, q, sigma, **how).shuffled <= m


def test_one_user_is_enough_for_enough_messages() -> None:
    assert smallest_users(2, 1, 30) == 1


def test_many_users() -> None:
    n = smallest_users(2**64, 80, 5)
    assert n > 10**9
    assert security_level(n, 2**64, 5) >= 80 > security_level(n - 1, 2**64, 5)


@pytest.mark.parametrize(("analysis", "how"), [("balle2020", {}), ("ghazi2020", SINGLE)])
def test_smallest_users_of_published_analyses(analysis: str, how: dict[str, Any]) -> None:
    m = 900 if analysis == "ghazi2020" else 20
    found = smallest_users(2**32, 40, m, analysis=analysis, **how)
    assert security_level(found, 2**32, m, analysis=analysis, **how) >= 40
    below = checked_scheme(found - 1, 2**32, analysis=analysis, **how).proved(m)
    assert below.sigma < 40


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"m": 1}, "m must be at least 2 for more users to hide better, got 1"),
        ({"m": 2, "clear_share": False}, "m must be at least 3 for more users"),
        ({"sigma": 10**5}, r"sigma must be at most .* proved for 10\^100 users, got 100000"),
        ({"analysis": "ishai2006", **SINGLE}, "proves less for more users"),
        ({"analysis": "ghazi2020"}, "ghazi2020 needs a single shuffler"),
    ],
)
def test_no_number_of_users_is_refused(arguments: dict[str, Any], said: str) -> None:
    good: dict[str, Any] = {"q": 2**16, "sigma": 40, "m": 10}
    with pytest.raises(ValueError, match=said):
        smallest_users(**{**good, **arguments})


# What is left: secure sums


@each_setting
def test_remaining_is_the_weakest_of_what_may_be_left(shuffler: str, clear: bool) -> None:
    how: dict[str, Any] = {"shuffler": shuffler, "clear_share": clear}
    count = message_count(200, 2**20, 40, **how)
    assert remaining(200, 2**20, count.total, **how) == count
    corrupt = 2 if shuffler == "parallel" else 0
    left = remaining(200, 2**20, count.total, honest=150, corrupt_shufflers=corrupt, **how)
    assert left.total == count.total
    levels = [
        security_level(n, 2**20, count.shuffled - corrupt, **how) for n in range(150, 201, 10)
    ]
    assert left.sigma == pytest.approx(min(levels), rel=1e-9)
    assert left.sigma <= min(levels)


def test_nothing_remains_of_too_few_messages() -> None:
    left = remaining(200, 2**20, 5, corrupt_shufflers=9)
    assert (left.sigma, left.analysis, left.total) == (0.0, None, 5)


# The noise of too few users


def test_whole_noise_is_discrete_laplace() -> None:
    assert short_noise_epsilon(Fraction(1, 40), Fraction(1), 20) == 0.5


def least_epsilon(rate: Fraction, shape: Fraction, p: int) -> Any:
    """ln(P[0] / P[p]), by Gauss's hypergeometric function in ball arithmetic."""
    r, s = ball(shape), ball(rate)
    z = (-2 * s).exp()
    first = (r + p).lgamma() - r.lgamma() - flint.arb(p + 1).lgamma()
    none, apart = z.hypgeom_2f1(r, r, 1), z.hypgeom_2f1(r, r + p, p + 1)
    return none.log() - apart.log() - first + s * p


EXACT_NOISE = [(Fraction(1, 1), 1), (Fraction(1, 20), 1), (Fraction(1, 63), 40), (Fraction(7), 3)]
"""Rates at which every term of the series is taken by itself."""

NOISE = [
    (Fraction(1, 64), 64),
    (Fraction(1, 500), 1000),
    (Fraction(1, 10**4), 1000),
    (Fraction(1, 10**6), 1),
    (Fraction(1, 10**6), 10**7),
]


@pytest.mark.slow
def test_short_noise_is_the_hypergeometric_function_rounded_up() -> None:
    """Never below the exact value, and hardly above; to the last digits at large rates."""
    for part in (Fraction(1, 100), Fraction(1, 3), Fraction(9, 10), Fraction(99, 100)):
        for rate, p in EXACT_NOISE:
            excess = ball(short_noise_epsilon(rate, part, p)) - least_epsilon(rate, part, p)
            assert excess > 0
            assert excess < 1e-9
        for rate, p in NOISE:
            excess = ball(short_noise_epsilon(rate, part, p)) - least_epsilon(rate, part, p)
            assert excess > 0
            assert excess < 3e-4


@pytest.mark.slow
def test_sums_of_short_noise_are_bounds() -> None:
    """Both sums by themselves: that for P[0] is an upper bound, and that for P[p] a lower one."""
    for part in (Fraction(1, 100), Fraction(1, 3), Fraction(9, 10), Fraction(99, 100)):
        for rate, p in (*EXACT_NOISE, *NOISE[:2]):
            r, z = ball(part), (-2 * ball(rate)).exp()
            first = ((r + p).lgamma() - r.lgamma() - flint.arb(p + 1).lgamma()).exp()
            above = ball(rational(_series(rate, part, 0, UP))) / z.hypgeom_2f1(r, r, 1)
            below = ball(rational(_series(rate, part, p, DOWN)))
            below /= first * z.hypgeom_2f1(r, r + p, p + 1)
            assert above > 1
            assert below < 1
            assert above < 1.0003
            assert below > 0.9997


def rational(value: mpfr) -> Fraction:
    return Fraction(*map(int, value.as_integer_ratio()))


# What is left: private sums


@pytest.mark.points(0)
def test_everybody_honest_is_what_was_promised() -> None:
    for how in ({}, SINGLE, {"clear_share": False}, {"analysis": "balle2020"}):
        count = private_message_count(2000, 2**20, 1, 1e-9, 100, **how)
        assert count.noise_epsilon is not None
        left = private_remaining(2000, 2**20, count.total, count.noise_epsilon, 1e-9, 100, **how)
        assert left.epsilon <= 1 + 1e-4  # the search for c ends within a hundredth of it
        assert left.epsilon >= left.noise_epsilon == count.noise_epsilon
        assert left.delta <= 1e-9
        assert left.users == 2000
        assert left.count.total == count.total


@pytest.mark.slow
def test_what_remains_is_enough_for_who_is_counted() -> None:
    """As many honest as make noise: the theorem for that many, whoever else there is."""
    count = private_message_count(2000, 2**20, 1, 1e-9, 100, min_honest=1000)
    assert count.noise_epsilon is not None
    given_ = (2**20, count.total, count.noise_epsilon, 1e-9, 100)
    lefts = [
        private_remaining(2000, *given_, honest=h, noise_users=1000) for h in (1000, 1500, 2000)
    ]
    for left in (*lefts, private_remaining(1000, *given_)):
        # but for the level, which is about inputs of all who are honest
        assert replace(left, count=replace(left.count, sigma=0.0)) == replace(
            lefts[0], count=replace(lefts[0].count, sigma=0.0)
        )
        assert left.count.sigma >= lefts[0].count.sigma
    assert lefts[0].users == 1000


@pytest.mark.slow
def test_less_and_less_remains() -> None:
    count = private_message_count(2000, 2**20, 1, 1e-9, 100, min_honest=1600).with_corruption(1)
    assert count.noise_epsilon is not None
    given_ = (2000, 2**20, count.total, count.noise_epsilon, 1e-6, 100)
    epsilons = [
        private_remaining(*given_, honest=h, noise_users=1600, corrupt_shufflers=1).epsilon
        for h in (2000, 1600, 1599, 1500, 800)
    ]
    assert epsilons[0] == epsilons[1] < epsilons[2] < epsilons[3] < epsilons[4] < 3
    with pytest.raises(ValueError, match=r"delta must be larger to be proved with 1600 "):
        private_remaining(*given_, noise_users=1600, corrupt_shufflers=2)
    with pytest.raises(ValueError, match="total must be larger to be proved"):
        private_remaining(*given_, noise_users=1600, corrupt_shufflers=count.total)


@pytest.mark.parametrize(("shuffler", "clear"), SETTINGS)
@pytest.mark.parametrize("noise_users", [2, 3, 6])
def test_what_remains_of_two_users_by_enumeration(shuffler, clear, noise_users):
    """Two honest users hold bits in Z_2; the exact delta at the epsilon that is claimed."""
    n, q, m, s = 2, 2, 7, 1.0
    shuffled, noise = views((q,), n, m, shuffler), noise_modulo(q, 1 / noise_users, s)
    claims = []
    for delta in (0.5, 0.3, 0.2, 0.1):
        try:
            claims.append(
                private_remaining(
                    noise_users,
                    q,
                    m + clear,
                    s,
                    delta,
                    1,
                    honest=n,
                    noise_users=noise_users,
                    shuffler=shuffler,
                    clear_share=clear,
                )
            )
        except ValueError:
            continue
    assert claims

    def law(x: tuple[int, ...], row: tuple[int, ...]) -> dict[int, float]:
        found: dict[int, float] = {}
        for shifts in product(range(q), repeat=n):
            chance = math.prod(float(noise[k]) for k in shifts)
            shares = tuple((v + k - r) % q for v, k, r in zip(x, shifts, row, strict=True))
            for view, ways in shuffled.law(shares).items():
                found[view] = found.get(view, 0.0) + chance * ways / shuffled.choices
        return found

    rows = list(product(range(q), repeat=n)) if clear else [(0,) * n]
    for other, (a, b) in product(range(2), [(0, 1), (1, 0)]):
        laws = [(law((a, other), row), law((b, other), row)) for row in rows]
        for left in claims:
            factor = math.exp(left.epsilon)
            truth = sum(
                max(0.0, p - factor * second.get(view, 0.0))
                for first, second in laws
                for view, p in first.items()
            ) / len(rows)
            assert truth <= left.delta + 1e-11


@pytest.mark.slow
def test_what_remains_is_the_theorem_for_the_noise_that_is_left() -> None:
    """The parts of what is left: the noise's own epsilon, c, and the theorem's delta for it."""
    q, p, own, makers = 2**7, 5, Fraction(3, 2), 20
    spends = set()
    for shuffler, honest, m in product(("parallel", "single"), (20, 19, 15, 6), (8, 12)):
        of = recursion(honest, q, m, shuffler, True)
        shape, rate = Fraction(honest, makers), own / p
        level = ball(own) if honest == makers else least_epsilon(rate, shape, p)
        of_a = difference(of, honest, mean_jumps(rate) * ball(shape))
        for delta in (Fraction(1, 10**k) for k in range(1, 7)):
            try:
                left = private_remaining(
                    makers, q, m + 1, own, delta, p, honest=honest, noise_users=makers,
                    analysis="second_moment", shuffler=shuffler,
                )  # fmt: skip
            except ValueError:
                continue
            spends.add((honest, left.epsilon > left.noise_epsilon))
            assert left.users == honest
            assert not ball(left.noise_epsilon) < level
            assert ball(left.noise_epsilon) < level + 1e-9
            assert left.delta <= delta
            spent = ball(left.epsilon) - ball(left.noise_epsilon)
            # epsilon is rounded up, and so c may be a hair less than it says
            c = (spent / 2).expm1() if left.epsilon > left.noise_epsilon else flint.arb(0)
            ways = [theorem(of_a, of.excess[honest], left.noise_epsilon, c)]
            ways += [given_sum(of, honest)] * (c == 0)
            reached, near = ball(left.delta), 1 - ball(2) ** -30
            assert any(way * near < reached < way * ball("1.01") for way in ways)
    assert spends == set(product((20, 19, 15, 6), (False, True)))


@pytest.mark.points(0)
def test_nothing_is_spent_where_nothing_need_be() -> None:
    """c = 0 if its delta is enough; the least c otherwise is near 0, but not 0."""
    moments = hockey_stick.Divergences(mpfr("1e-20"), mpfr("1e-6"))
    c, reached = hockey_stick.least_relative(moments, 1.0, Fraction(1, 10**9))
    assert c == 0
    assert reached == pytest.approx((1 + math.e) * math.sqrt(1e-20 / 2))
    some, reached = hockey_stick.least_relative(moments, 1.0, Fraction(1, 10**10))
    assert some > 0
    assert reached <= 1e-10
    for honest in (2000, 1900):
        left = private_remaining(2000, 2**16, 12, 1, 1e-6, 32, honest=honest)
        assert left.epsilon == left.noise_epsilon


# Levels for every number of honest users


@pytest.mark.parametrize("honest", [1, 5])
def test_levels_hold_for_every_number_of_honest_users(honest: int) -> None:
    """At most that of each number of users from ``honest`` to n, and that of one of them."""
    n, q = 12, 5
    for shuffler, clear in SETTINGS:
        left = private_remaining(
            n, q, 8 + clear, 1, 0.5, 1, honest=honest, noise_users=honest, shuffler=shuffler,
            clear_share=clear,
        )  # fmt: skip
        m, sigma = left.count.shuffled, left.count.sigma
        ways = [(m, True)] if clear else [(m, False), (m - 1, True)]
        found = [recursion(n, q, of, shuffler, kind) for of, kind in ways if of]
        least = min(
            max(bits(moments.divergence[k]) for moments in found)
            for k in range(max(2, honest), n + 1)
        )
        assert math.isfinite(sigma)  # there may be two
        assert sigma == 0 or not ball(sigma) > least
        if clear:
            assert not ball(sigma) < least - 1e-3


def test_published_levels_hold_for_every_number_of_honest_users() -> None:
    """What ishai2006 proves falls with the number of users."""
    n, honest, q = 4000, 40, 2**8
    how: dict[str, Any] = {"analysis": "ishai2006", **SINGLE}
    count = private_message_count(n, q, 1, 1e-5, 1, min_honest=honest, **how)
    assert count.noise_epsilon is not None
    given_ = (n, q, count.shuffled, count.noise_epsilon, 1e-5, 1)
    left = private_remaining(*given_, honest=honest, noise_users=honest, **how)
    secure = remaining(n, q, count.shuffled, honest=honest, **how)
    for k in (honest, 100, n):
        level = security_level(k, q, count.shuffled, **how)
        for found in (count, left.count, secure):
            assert found.sigma <= level
