"""The exact distances of views: against a count from the definition, the bounds, and Lemma 6.1."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache
from itertools import product
from typing import Any

import gmpy2
import numpy as np
import pytest
from exact.enumeration import Law, hockey_stick, view_law, worst_case_variation
from exact.test_private_view import (
    ROUNDING,
    noise_modulo,
    noisy_view_law,
    single_view_delta,
)
from exact.test_private_view import hockey_stick as float_hockey_stick
from hypothesis import given
from hypothesis import strategies as st

from ikos import security_level
from ikos.counts import (
    exact_delta,
    exact_private_delta,
    exact_total_variation,
    necessary_messages,
    private_delta_interval,
    private_proved,
    security_interval,
)

SETTINGS = [("parallel", False), ("single", False), ("parallel", True), ("single", True)]
TINY = [(1, 3, 2), (2, 2, 1), (2, 2, 2), (2, 2, 3), (2, 3, 1), (2, 3, 2), (3, 2, 2), (2, 4, 1)]
SMALL = [*TINY, (2, 5, 2), (3, 2, 4), (3, 3, 2), (3, 3, 3), (3, 4, 2), (4, 2, 3), (5, 2, 3)]

each_setting = pytest.mark.parametrize(("shuffler", "clear"), SETTINGS)
settings_drawn = st.sampled_from(SETTINGS)
cases_drawn = st.sampled_from(["worst", "offset", "independent"])
epsilons = st.sampled_from([0, 0.1, Fraction(1, 3), math.log(2), 1, 30, 1000])


@cache
def laws(n: int, q: int, m: int, shuffler: str, clear: bool) -> dict[tuple[int, ...], Law]:
    return {x: view_law(x, q, m, shuffler, clear) for x in product(range(q), repeat=n)}


@cache
def counted(
    n: int, q: int, m: int, shuffler: str, clear: bool, case: str, ratio: Fraction
) -> Fraction:
    """Return the divergence by the definition of a case: all inputs, in all orders."""
    views = laws(n, q, m, shuffler, clear)

    def divergence(x: tuple[int, ...], y: tuple[int, ...]) -> Fraction:
        return hockey_stick(views[x], views[y], ratio)

    pairs = [(x, y) for x in views for y in views if (sum(x) - sum(y)) % q == 0]
    if case == "worst":
        return max(divergence(x, y) for x, y in pairs)
    if case == "independent":
        return sum((divergence(x, y) for x, y in pairs), Fraction(0)) / len(pairs)
    return max(
        sum(
            (divergence(x, tuple((a + b) % q for a, b in zip(x, d, strict=True))) for x in views),
            Fraction(0),
        )
        for d in views
        if sum(d) % q == 0
    ) / len(views)


def powers(epsilon: float | Fraction) -> tuple[Fraction, Fraction]:
    """Return rationals below and above e^epsilon, a relative 2^-300 apart."""
    with gmpy2.context(precision=400):
        power = gmpy2.exp(gmpy2.mpfr(gmpy2.mpq(Fraction(epsilon))))
    middle = Fraction(*map(int, power.as_integer_ratio()))
    return middle * (1 - Fraction(1, 2**300)), middle * (1 + Fraction(1, 2**300))


@given(st.sampled_from(TINY), settings_drawn, cases_drawn)
def test_total_variation_is_that_of_all_inputs(
    size: tuple[int, int, int], setting: tuple[str, bool], case: str
) -> None:
    exact = exact_total_variation(*size, case=case, shuffler=setting[0], clear_share=setting[1])
    assert exact == counted(*size, *setting, case, Fraction(1))


@given(st.sampled_from(TINY), settings_drawn, cases_drawn, epsilons)
def test_delta_is_that_of_all_inputs_rounded_up(
    size: tuple[int, int, int], setting: tuple[str, bool], case: str, epsilon: float | Fraction
) -> None:
    exact = exact_delta(*size, epsilon, case=case, shuffler=setting[0], clear_share=setting[1])
    low, high = powers(epsilon)
    least, most = (counted(*size, *setting, case, max(ratio, Fraction(1))) for ratio in (high, low))
    assert least <= exact <= most * (1 + Fraction(1, 2**50))


@pytest.mark.points(2)
@pytest.mark.parametrize(
    ("size", "parallel", "single", "with_clear"),
    [
        ((2, 2, 2), Fraction(1, 2), Fraction(1, 2), Fraction(1, 4)),
        ((3, 2, 3), Fraction(1, 4), Fraction(9, 64), Fraction(1, 8)),
        ((4, 2, 3), Fraction(13, 64), Fraction(5, 32), Fraction(41, 512)),
        ((3, 3, 2), Fraction(7, 9), Fraction(5, 9), Fraction(31, 81)),
    ],
)
def test_worst_case_total_variation_has_its_published_exact_values(
    size: tuple[int, int, int], parallel: Fraction, single: Fraction, with_clear: Fraction
) -> None:
    expected = [parallel, single, with_clear]
    settings: list[tuple[str, bool]] = [("parallel", False), ("single", False), ("parallel", True)]
    assert [worst_case_variation(*size, *setting) for setting in settings] == expected
    assert [
        exact_total_variation(*size, shuffler=shuffler, clear_share=clear)
        for shuffler, clear in settings
    ] == expected


# Lemma 6.1, and what it needs


@pytest.mark.parametrize(
    ("size", "worst", "independent"),
    [
        ((2, 2, 2), Fraction(1, 4), Fraction(1, 8)),
        ((3, 2, 3), Fraction(1, 8), Fraction(3, 32)),
        ((3, 3, 2), Fraction(31, 81), Fraction(230, 729)),
        ((4, 2, 2), Fraction(13, 64), Fraction(85, 512)),
    ],
)
def test_an_extra_share_gives_the_average_over_the_worst_offset(
    size: tuple[int, int, int], worst: Fraction, independent: Fraction
) -> None:
    """Of the protocol without it; the average over independent inputs is smaller."""
    n, q, m = size
    assert exact_total_variation(n, q, m) == worst
    assert exact_total_variation(n, q, m + 1, clear_share=False) == worst
    assert exact_total_variation(n, q, m, clear_share=False, case="offset") == worst
    assert exact_total_variation(n, q, m, clear_share=False, case="independent") == independent


@given(st.sampled_from(SMALL), st.sampled_from(["parallel", "single"]), epsilons)
def test_cases_are_ordered(
    size: tuple[int, int, int], shuffler: str, epsilon: float | Fraction
) -> None:
    n, q, m = size

    def delta(case: str, clear: bool, more: int = 0) -> float:
        return exact_delta(n, q, m + more, epsilon, case=case, shuffler=shuffler, clear_share=clear)

    cases = ("independent", "offset", "worst")
    assert delta("independent", False) <= delta("offset", False) <= delta("worst", False)
    assert [delta(case, True) for case in cases] == [
        delta("independent", False), delta("offset", False), delta("offset", False)
    ]  # fmt: skip
    assert delta("worst", False, more=1) <= delta("worst", True)  # shuffling it hides no less


# Proved bounds


def within_bits(variation: Fraction, low: float, high: float) -> bool:
    if low == math.inf:  # one user
        return variation == 0
    tiny = Fraction(1, 10**14)  # of 2^-sigma in doubles
    most, least = (Fraction(2.0**-sigma) for sigma in (low, high))
    return least * (1 - tiny) <= variation <= most * (1 + tiny)


@given(st.sampled_from(SMALL), settings_drawn)
def test_proved_bounds_enclose_the_exact_distance(
    size: tuple[int, int, int], setting: tuple[str, bool]
) -> None:
    shuffler, clear = setting
    exact = exact_total_variation(*size, shuffler=shuffler, clear_share=clear)
    level = security_level(*size, shuffler=shuffler, clear_share=clear)
    low, high = security_interval(*size, shuffler=shuffler, clear_share=clear)
    assert level == low
    assert within_bits(exact, low, high)


@pytest.mark.points(2)
@pytest.mark.parametrize(
    ("n", "q", "sigma", "shuffler", "clear"),
    [
        (3, 4, 1, "parallel", True),
        (3, 7, 2, "parallel", True),
        (5, 5, 2, "parallel", False),
        (3, 2, 4, "single", True),
    ],
)
def test_fewer_messages_than_necessary_do_not_reach_the_level(
    n: int, q: int, sigma: int, shuffler: str, clear: bool
) -> None:
    least = necessary_messages(n, q, sigma, shuffler=shuffler, clear_share=clear)
    assert least > 1
    few = exact_total_variation(n, q, least - 1, shuffler=shuffler, clear_share=clear)
    assert few > Fraction(1, 2**sigma)


@pytest.mark.points(1)
@pytest.mark.parametrize(("n", "m"), [(19, 3), (20, 3), (21, 3), (19, 4)])
def test_corollary_6_1_holds_exactly_at_the_edge_of_its_range(n: int, m: int) -> None:
    """n = 19, q = 2, m = 3 is the smallest case that it covers."""
    sigma = security_level(n, 2, m, analysis="balle2020")
    assert sigma > 0
    assert 0 < exact_total_variation(n, 2, m) <= Fraction(2.0**-sigma)


# Private sums


def noisy_delta(
    n: int, q: int, m: int, epsilon: float, p: int, rate: float, shuffler: str, clear: bool
) -> float:
    """Return the largest divergence of neighbours, over all encoded values, in doubles."""
    noise = noise_modulo(q, 1 / n, rate)
    views: dict[tuple[int, ...], Any] = {
        x: noisy_view_law(x, noise, q, m, shuffler, clear) for x in product(range(p + 1), repeat=n)
    }
    worst = 0.0
    for x, first in views.items():
        for y, second in views.items():
            if sum(a != b for a, b in zip(x, y, strict=True)) == 1:
                gain = (chance - math.exp(epsilon) * second[view] for view, chance in first.items())
                worst = max(worst, math.fsum(g for g in gain if g > 0))
    return worst


@each_setting
@pytest.mark.points(4)
@pytest.mark.parametrize(
    ("n", "q", "m", "p", "epsilon", "noise_epsilon"),
    [
        (2, 3, 2, 1, 1.0, 1.0),
        (2, 3, 2, 1, 0.5, 0.25),
        (2, 5, 2, 2, 1.0, 0.75),
        (3, 4, 1, 1, 2.0, 2.0),
        (1, 4, 2, 3, 0.1, 1.0),
    ],
)
def test_private_delta_is_that_of_all_neighbours(
    n: int, q: int, m: int, p: int, epsilon: float, noise_epsilon: float, shuffler: str, clear: bool
) -> None:
    exact = exact_private_delta(
        n, q, m, epsilon, p, noise_epsilon=noise_epsilon, shuffler=shuffler, clear_share=clear
    )
    true = noisy_delta(n, q, m, epsilon, p, noise_epsilon / p, shuffler, clear)
    assert exact == pytest.approx(true, abs=ROUNDING)


@pytest.mark.parametrize(("n", "q", "m", "epsilon"), [(2, 3, 5, 1.0), (3, 4, 4, 0.5)])
def test_private_delta_is_that_of_convolved_reports(n: int, q: int, m: int, epsilon: float) -> None:
    exact = exact_private_delta(n, q, m, epsilon, 1, shuffler="single", clear_share=False)
    true = single_view_delta(n, noise_modulo(q, 1 / n, epsilon), q, m, 1, epsilon)
    assert exact == pytest.approx(true, abs=ROUNDING)


def test_hidden_noise_alone_keeps_to_its_epsilon() -> None:
    """One message of one user is its noisy value: no delta at all, and one at a smaller epsilon."""
    for clear in (True, False):
        exact = exact_private_delta(1, 32, 1, 1, 1, clear_share=clear)
        noise = noise_modulo(32, 1.0, 1.0)
        units = (1 + math.e) * 2 * 32  # what the rounding of the noise may have taken off
        assert units / 2**200 <= exact < 2 * units / 2**200
        less = exact_private_delta(1, 32, 1, 0.5, 1, noise_epsilon=1, clear_share=clear)
        true = float_hockey_stick(noise, np.roll(noise, -1), 0.5)
        assert less == pytest.approx(true, abs=ROUNDING)


@each_setting
@pytest.mark.points(4)
@pytest.mark.parametrize(("n", "q", "m"), [(2, 3, 3), (2, 3, 4), (2, 4, 3), (3, 4, 2)])
def test_proved_private_bounds_enclose_the_exact_delta(
    n: int, q: int, m: int, shuffler: str, clear: bool
) -> None:
    options: dict[str, Any] = {"shuffler": shuffler, "clear_share": clear}
    proved = private_proved(n, q, m, 1, 1e-9, 1, **options)
    assert proved.delta is not None
    noise = proved.noise_epsilon
    exact = exact_private_delta(n, q, m, 1, 1, noise_epsilon=noise, **options)
    assert 0 < exact <= proved.delta
    if clear and shuffler == "parallel":
        assert private_delta_interval(n, q, m, 1, 1)[0] <= exact


@each_setting
@pytest.mark.points(4)
@pytest.mark.parametrize(("n", "q", "m"), [(2, 3, 4), (3, 4, 2)])
def test_given_the_sum_epsilon_enlarges_no_distance(
    n: int, q: int, m: int, shuffler: str, clear: bool
) -> None:
    options: dict[str, Any] = {"shuffler": shuffler, "clear_share": clear}
    apart = exact_total_variation(n, q, m, **options)
    for epsilon in (0.1, 1, 4, 20, 40):
        assert exact_private_delta(n, q, m, epsilon, 1, **options) <= apart
    proved = private_proved(n, q, m, 40, 1e-9, 1, **options)
    assert proved.noise_epsilon == 40
    assert proved.delta == pytest.approx(2 ** -security_level(n, q, m, **options), rel=1e-12)
    assert apart <= proved.delta


# Refusals


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((30, 5, 4), {}, r"^n, q or m must be smaller for all views to .*, got 30, 5 and 4$"),
        ((1, 2, 40), {}, r"^n, q or m must be smaller .*, got 1, 2 and 40$"),
        ((64, 2, 3), {"shuffler": "single"}, r"^n, q or m must be smaller"),
        ((3, 65, 2), {}, r"^q must be at most 64, got 65$"),
        ((3, 2, 0), {}, r"^m must be at least 1"),
        ((3, 2, 2), {"case": "average"}, r"^case must be one of 'worst', .*, got 'average'$"),
        ((3, 2, 2), {"shuffler": "two"}, r"^shuffler must be one of"),
    ],
)
def test_what_cannot_be_counted_is_refused(
    arguments: tuple[int, int, int], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        exact_total_variation(*arguments, **options)
    with pytest.raises(ValueError, match=message):
        exact_delta(*arguments, 1, **options)


def test_sums_that_wrap_around_are_refused() -> None:
    with pytest.raises(ValueError, match=r"^q must be greater than n precision = 4, got 4$"):
        exact_private_delta(2, 4, 2, 1, 2)
    with pytest.raises(ValueError, match=r"^epsilon must be at least 0"):
        exact_delta(2, 2, 2, -1)
