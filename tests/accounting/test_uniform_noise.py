"""Uniform noise: exact distributions by integers, the accountant by rationals, composition."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache
from itertools import accumulate, product

import gmpy2
import numpy as np
import pytest
from exact.enumeration import Ideal, exact_law
from hypothesis import given
from hypothesis import strategies as st
from mpmath import mp, mpf
from scipy.stats import norm
from statistical import FALSE_ALARM, IntegerLaw, uniform_p_value

from ikos.accounting import gaussian_delta
from ikos.accounting.loss_masses import BITS, Masses
from ikos.accounting.uniform_noise import composed_delta
from ikos.data.sensitivity import Sensitivity, Shift
from ikos.noise.uniform_noise import UniformNoise, most_steps
from ikos.numeric import uniform_sum
from ikos.numeric.uniform_sum import UniformSum
from ikos.testing import DeterministicRandom


@cache
def counts(users: int, width: int) -> list[int]:
    """Return the number of outcomes with each sum, by multiplying polynomials."""
    slot = users * width.bit_length() + 1
    return [int(c) for c in gmpy2.unpack(gmpy2.pack([1] * width, slot) ** users, slot)]


def tails(users: int, width: int) -> list[Fraction]:
    """Return P[Z >= T] for T = 0, 1, ..., top."""
    all_of_them = width**users
    return [Fraction(c, all_of_them) for c in accumulate(counts(users, width)[::-1])][::-1]


def hockey_stick(p: list[int], q: list[int], odds: mpf) -> mpf:
    return sum(max(mpf(a) - odds * b, mpf(0)) for a, b in zip(p, q, strict=True)) / sum(p)


def exact_delta(users: int, width: int, steps: int, epsilon: float) -> mpf:
    """Return the worst divergence of all shifts by up to ``steps``, in both orders, by definition.

    To 60 digits.
    """
    law = counts(users, width)
    with mp.workdps(60):
        odds = mp.exp(mpf(epsilon))
        shifted = ([0] * s + law + [0] * (steps - s) for s in range(steps + 1))
        first = law + [0] * steps
        pairs = [(first, second) for second in shifted]
        return max(hockey_stick(*order, odds) for a, b in pairs for order in ((a, b), (b, a)))


@pytest.mark.parametrize(
    ("users", "width"),
    [(1, 2), (1, 9), (2, 3), (7, 2), (30, 4), (388, 3), (389, 2), (390, 2), (401, 6)],
)
def test_tails_are_those_of_counted_outcomes(users, width):
    law, exact = UniformSum(users, width), tails(users, width)
    assert law.margin == (0 if users <= 388 else Fraction(1, 1 << 300))
    for least in range(-2, law.top + 3):
        true = exact[least] if 0 <= least <= law.top else Fraction(least <= 0)
        found = law.tail(least)
        found = Fraction(*map(int, found.as_integer_ratio()))
        assert abs(found - true) <= Fraction(*law.margin.as_integer_ratio())


@pytest.mark.parametrize(("users", "width"), [(400, 1 << 20), (10**7, 16), (10**9, 3)])
def test_far_tails_are_within_the_margin_of_others_that_are_computed_otherwise(
    users, width, monkeypatch
):
    """With twice the period and many more terms."""
    law = UniformSum(users, width)
    deviation = math.sqrt(law.variance)
    places = [law.top // 2 + round(x * deviation) for x in (-30, -6, -0.3, 0, 1, 5.5, 12, 19, 60)]
    before = [law.tail(least) for least in places]
    assert norm.sf(1) == pytest.approx(float(before[4]), abs=1e-2)
    assert before[-1] <= law.margin
    monkeypatch.setattr(uniform_sum, "_ENOUGH", 900)
    other = UniformSum(users, width)
    after = [UniformSum.tail.__wrapped__(other, least) for least in places]
    assert len(other._series[1]) > 1.5 * len(law._series[1])
    assert all(abs(a - b) <= law.margin for a, b in zip(before, after, strict=True))


@pytest.mark.parametrize("epsilon", [0.0, 0.1, 1.0, 4.0])
@pytest.mark.parametrize(
    ("users", "width", "steps"),
    [
        (1, 2, 1),
        (1, 4, 2),
        (1, 3, 3),
        (2, 2, 1),
        (2, 5, 3),
        (3, 2, 3),
        (3, 2, 4),
        (7, 2, 2),
        (6, 4, 5),
        (20, 4, 5),
    ],
)
def test_delta_is_the_worst_divergence_of_any_shift_in_both_orders(users, width, steps, epsilon):
    true = exact_delta(users, width, steps, epsilon)
    found = composed_delta(users, width, steps, epsilon)
    assert true <= found <= true * (1 + mpf(2) ** -51)


@pytest.mark.slow
@pytest.mark.parametrize("width", [2, 5])
@pytest.mark.parametrize(("steps", "epsilon"), [(4, 0.1), (9, 0.9), (14, 5.0)])
def test_delta_of_many_is_exact_but_for_the_last_bit(width, steps, epsilon):
    true = exact_delta(400, width, steps, epsilon)
    found = composed_delta(400, width, steps, epsilon)
    assert true <= found <= true * (1 + mpf(2) ** -51) + mpf(10) ** -58


CHECKED = {
    (7, 2, 2, 1.0): "0.330107385721", (20, 4, 5, 1.0): "0.127754043265",
    (50, 16, 30, 0.5): "0.205972250499", (10**3, 16, 34, 1.0): "7.76881447501e-07",
    (10**4, 16, 90, 1.0): "8.9445159126e-09", (10**6, 16, 903, 1.0): "9.74197796905e-09",
    (9, 16, 1, 2.0): "3.8e-11",
}  # fmt: skip


@pytest.mark.parametrize(("setting", "digits"), CHECKED.items(), ids=str)
def test_deltas_are_the_published_ones(setting, digits):
    precision = len(digits.split("e")[0].replace(".", "").lstrip("0"))
    assert f"{composed_delta(*setting):.{max(precision, 3)}g}" in (digits, f"{float(digits):.3g}")


@pytest.mark.parametrize(
    ("honest", "epsilon"), [(9900, 1.005316), (9000, 1.057176), (5000, 1.443017)]
)
def test_what_remains_among_fewer_users_is_as_published(honest, epsilon):
    planned = 8.9445159126e-9
    assert composed_delta(honest, 16, 90, epsilon + 5e-7) <= planned
    assert composed_delta(honest, 16, 90, epsilon - 5e-7) > planned


@pytest.mark.slow
@given(
    st.integers(1, 60), st.integers(2, 20), st.integers(1, 40),
    st.fractions(0, 5, max_denominator=100),
)  # fmt: skip
def test_delta_falls_with_users_and_rises_with_steps(users, width, steps, epsilon):
    delta = composed_delta(users, width, steps, epsilon)
    assert composed_delta(users + 1, width, steps, epsilon) <= delta
    assert composed_delta(users, width, steps + 1, epsilon) >= delta
    assert composed_delta(users, width, steps, epsilon + 1) <= delta


def test_a_delta_that_is_lost_in_the_margin_is_not_proved():
    assert composed_delta(1000, 16, 1, 50) == 1.0
    assert composed_delta(100, 2, 1, 50) == 0.5**100  # counted
    assert composed_delta(3, 1, 1, 1) == 1.0


# Several coordinates


def exact_composed(users: int, width: int, steps: tuple[int, ...], epsilon: float) -> mpf:
    """Return the worst of both orders for a vector of shifts, by the product of distributions."""
    law = counts(users, width)
    with mp.workdps(40):
        odds, total = mp.exp(mpf(epsilon)), mpf(0)
        axes = [
            [
                (law[z] if 0 <= z < len(law) else 0, law[z - s] if 0 <= z - s < len(law) else 0)
                for z in range(min(s, 0), len(law) + max(s, 0))
            ]
            for s in steps
        ]
        totals = [mpf(0), mpf(0)]
        for cells in product(*axes):
            p, q = (mpf(math.prod(c[i] for c in cells)) for i in (0, 1))
            totals = [totals[0] + max(p - odds * q, 0), totals[1] + max(q - odds * p, 0)]
        total = max(totals)
        return total / mpf(sum(law)) ** len(steps)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 2.5])
@pytest.mark.parametrize(
    ("users", "width", "steps"),
    [(3, 4, (2, 2)), (10, 2, (1, -1)), (10, 2, (1, 1, -1)), (12, 4, (3, 3)), (6, 3, (2, -2, 2))],
)
def test_many_coordinates_are_at_least_as_private_as_proved(users, width, steps, epsilon):
    true = exact_composed(users, width, steps, epsilon)
    found = composed_delta(users, width, max(steps), Fraction(epsilon), len(steps))
    assert true <= found <= true * 1.12 + 1e-3


@pytest.mark.slow
@pytest.mark.parametrize(
    ("users", "width", "steps", "coordinates"),
    [(10**4, 16, 63, 2), (10**6, 2, 69, 2), (10**4, 16, 4, 500), (10**6, 16, 28, 1000)],
)
def test_many_coordinates_of_many_users_are_nearly_gaussian(users, width, steps, coordinates):
    mu = steps / math.sqrt(UniformSum(users, width).variance / coordinates)
    found = composed_delta(users, width, steps, Fraction(1), coordinates)
    assert 0.98 < found / gaussian_delta(1, mu) < 1.03


@given(
    st.lists(st.integers(0, 1 << 158), min_size=1, max_size=9), st.integers(-9, 3),
    st.integers(1, 2), st.integers(0, 1 << 150), st.fractions(0, 2, max_denominator=9),
)  # fmt: skip
def test_divergences_of_masses_are_rounded_up(finite, first, stride, infinite, epsilon):
    found = Masses(first, stride, finite, infinite).divergence(0.3, epsilon)
    with mp.workdps(60):
        eps = mpf(epsilon.numerator) / epsilon.denominator
        losses = [(first + i * stride) * mpf(0.3) for i in range(len(finite))]
        true = mpf(infinite) + sum(
            mass * max(0, 1 - mp.exp(eps - loss)) for mass, loss in zip(finite, losses, strict=True)
        )
        true = min(mpf(1), true / mpf(2) ** BITS)
        assert true <= found <= true * (1 + mpf(2) ** -51) + mpf(10) ** -60


@pytest.mark.slow
def test_windows_are_composed_as_loss_distributions():
    pytest.importorskip("dp_accounting")
    from ikos.accounting.loss_distributions import composed, loss_of_curve

    loss = loss_of_curve(lambda e: composed_delta(10**4, 16, 30, e), np.arange(1, 101) / 100)
    windows = composed(loss.self_compose(9), 1e-7)
    proved = composed_delta(10**4, 16, 30, Fraction(windows.epsilon), 9)
    assert proved == pytest.approx(1e-7, rel=0.05)


# The noise

TABLE = {
    (100, 1, -4): 14, (10**3, 1, -6): 34, (10**4, 1, -8): 90, (10**4, Fraction(1, 10), -8): 10,
    (10**5, 1, -8): 285, (10**6, 1, -8): 903,
}  # fmt: skip


@pytest.mark.parametrize(("setting", "steps"), TABLE.items(), ids=str)
def test_the_most_steps_are_the_published_ones(setting, steps):
    users, epsilon, exponent = setting
    delta = Fraction(10) ** exponent
    assert most_steps(users, 16, Fraction(epsilon), delta) == steps
    noise = UniformNoise.least(Fraction(epsilon), delta, Shift(1, steps, steps**2, steps), users)
    assert noise == UniformNoise(16, users, composed_delta(users, 16, steps, epsilon))
    assert noise.delta <= delta < composed_delta(users, 15, steps, epsilon)


@pytest.mark.slow
@pytest.mark.parametrize("unit", [1, 3, 7])
@pytest.mark.parametrize("moved", [1, 2])
def test_steps_are_multiples_and_no_more_are_private(moved, unit):
    delta = Fraction(1, 10**5)
    steps = most_steps(1000, 9, Fraction(1), delta, moved, unit)
    assert steps % unit == 0 < steps
    assert composed_delta(1000, 9, steps, Fraction(1), moved) <= delta
    assert composed_delta(1000, 9, steps + unit, Fraction(1), moved) > delta


def test_no_step_is_private_with_few_coins():
    assert most_steps(100, 2, Fraction(1), Fraction(1, 10**8)) == 0


@pytest.mark.slow
def test_all_coordinates_of_all_releases_count():
    shift = Sensitivity(linf=5).steps(10)
    assert shift.moved == 10
    assert shift.repeated(3).moved == 30
    noise = UniformNoise.least(Fraction(1), Fraction(1, 10**6), shift.repeated(2), 500)
    assert noise.delta == composed_delta(500, noise.width, 5, Fraction(1), 20)
    assert composed_delta(500, noise.width - 1, 5, Fraction(1), 20) > 1e-6


def noise_of(width: int, users: int = 5) -> UniformNoise:
    return UniformNoise(width, users, 0.1)


@pytest.mark.parametrize("width", [2, 3, 4])
def test_shares_are_independent_uniform_integers(width):
    def draw(rng):
        places, amounts = noise_of(width).shares(3, 5, rng)
        assert places.tolist() == [0, 1, 2]
        assert amounts.dtype == np.int64
        return tuple(amounts.tolist())

    law, unfinished = exact_law(draw, Ideal)
    assert not unfinished
    assert law == dict.fromkeys(product(range(width), repeat=3), Fraction(1, width**3))


@pytest.mark.parametrize("width", [2, 5, 16, 100])
def test_drawn_shares_and_their_sums_fit(width):
    _, drawn = noise_of(width).shares(5 * 20_000, 5, DeterministicRandom(70))
    assert uniform_p_value(drawn, width) > FALSE_ALARM
    pmf = np.array(counts(5, width), dtype=np.float64) / float(width) ** 5
    assert IntegerLaw(0, pmf).p_value(drawn.reshape(-1, 5).sum(axis=1)) > FALSE_ALARM


def test_the_distribution_is_that_of_all_users_present():
    noise = noise_of(16, users=400)
    assert noise.distribution(Fraction(1001, 400)) == UniformSum(1001, 16)
    assert noise.deviation == pytest.approx(math.sqrt(400 * 255 / 12))
    assert UniformSum(3, 4).integers is False
    assert UniformSum(3, 5).integers is True


# The error


@pytest.mark.parametrize(("users", "width"), [(1, 2), (3, 4), (12, 2), (25, 16), (400, 3)])
@pytest.mark.parametrize("miss", [0.5, 0.05, 1e-6, 1e-30])
def test_half_widths_without_rounding_are_the_least(users, width, miss):
    law, exact = UniformSum(users, width), [*tails(users, width), Fraction(0)]
    half = law.half_width(miss, 0)
    least = round(half + law.top / 2) + 1
    assert 2 * least - 2 - law.top == 2 * half
    assert 2 * exact[least] <= miss
    assert half in (0, 0.5) or 2 * exact[least - 1] > miss


@pytest.mark.parametrize(("users", "width"), [(1, 2), (3, 4), (12, 2), (25, 16), (390, 3)])
@pytest.mark.parametrize("miss", [0.5, 0.05, 1e-6])
def test_half_widths_hold_with_the_worst_rounding(users, width, miss):
    """Every value is halfway between two steps: a coin each, centred, in halves of a step."""
    half = UniformSum(users, width).half_width(miss, users)
    noise, coins = (
        np.array(counts(users, width), dtype=object),
        np.array(counts(users, 2), dtype=object),
    )
    both = np.convolve(noise, coins)
    errors = np.arange(both.size) - Fraction(both.size - 1, 2)
    beyond = sum(int(c) for c, e in zip(both, errors, strict=True) if abs(e) > Fraction(half))
    assert Fraction(beyond, (2 * width) ** users) <= miss
    spread = math.sqrt(users * (width**2 - 1) / 12 + users / 4)
    assert half <= 1.5 * spread * norm.isf(miss / 2) + 2


@pytest.mark.parametrize(("users", "width"), [(1, 2), (3, 4), (40, 7)])
def test_bounds_on_moments_and_tails(users, width):
    law, exact = UniformSum(users, width), [*tails(users, width), Fraction(0)]
    for theta in (1e-3, 0.1, 1.0, 5.0):
        with mp.workdps(40):
            true = sum(
                c * mp.exp(theta * (z - mpf(law.top) / 2))
                for z, c in enumerate(counts(users, width))
            )
            assert mp.log(true) - users * mp.log(width) <= law.log_mgf(theta) * (1 + 1e-15)
        assert law.log_mgfs(np.array([theta]))[0] == pytest.approx(law.log_mgf(theta))
    for halves in range(law.top + 3):
        ends = (min(law.top + 1, (law.top + halves + up) // 2) for up in (1, 2))  # from t, above t
        assert sum(exact[least] for least in ends) <= law.tail_bound(Fraction(halves, 2))
    assert law.log_tail_bound(law.top / 2 + 0.5) == -math.inf
    assert law.log_tail_bound(-1) == 0.0
    assert law.variance == pytest.approx(users * (width**2 - 1) / 12)
