"""The published message counts: printed values and refusals."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ikos import MessageCount, message_count, private_message_count, security_level
from ikos.counts import ANALYSES
from ikos.counts.analyses import checked_scheme

SINGLE: dict[str, Any] = {"shuffler": "single", "clear_share": False}


@pytest.mark.parametrize(("n", "total"), [(10**3, 29), (10**6, 15)])
def test_table_of_balle2020_counts_the_clear_share(n: int, total: int) -> None:
    assert message_count(n, 2**64, 80, analysis="balle2020").total == total


def test_the_introduction_of_balle2020_on_ghazi2020() -> None:
    assert message_count(10**6, 2**64, 80, analysis="ghazi2020", **SINGLE).total == 765


@pytest.mark.parametrize(("n", "epsilon"), [(10**4, 0.5), (10**5, 1.0)])
def test_table_3_of_balle2020(n: int, epsilon: float) -> None:
    p = math.ceil(math.sqrt(n))
    q = 1 << (2 * n * p - 1).bit_length()
    count = private_message_count(n, q, epsilon, n**-2.0, p, analysis="balle2020")
    assert (count.total, count.clear) == (9, 1)


def test_an_exact_tie_counts_as_reached() -> None:
    # log n - 1 = 9 and 100 (80 + 64) / 9 = 1600: no rounding may push it to 1605.
    assert message_count(2**10, 2**64, 80, analysis="ghazi2020", **SINGLE).total == 1604


@given(n=st.integers(2, 10**6), bits=st.integers(1, 200), sigma=st.integers(1, 300))
def test_ishai2006_never_needs_more_than_its_plain_form(n: int, bits: int, sigma: int) -> None:
    plain = math.ceil(2 + 5 * bits + 2 * sigma + 2 * math.log2(n - 1)) if n > 1 else 0
    assert message_count(n, 2**bits, sigma, analysis="ishai2006", **SINGLE).total <= plain


def test_log_of_n_minus_1_stands_inside_the_root() -> None:
    # Added after the root, as Appendix E.1 of BBGN20 says, it falls short of sigma by a hair.
    n, sigma, q = 10, 50, 2**59
    count = message_count(n, q, sigma, analysis="ishai2006", **SINGLE)
    m = 1.0
    for _ in range(60):
        m = 1 + sigma + 2.5 * 59 + math.log2(math.pi * (m + 0.5)) / 4
    added_after = math.ceil(m + math.log2(n - 1))
    assert added_after == count.total - 1
    assert security_level(n, q, added_after, analysis="ishai2006", **SINGLE) < sigma


@pytest.mark.points(4)
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"q": 2**10**7}, "q must be .* 10000001 bits"),
        ({"n": 18, "analysis": "balle2020"}, "balle2020 needs n >= 19"),
        ({"analysis": "ishai2006"}, "analysis='best' covers this setting"),
        ({"sigma": 0.5, "analysis": "balle2020"}, "balle2020 needs sigma >= 1"),
    ],
)
def test_bad_arguments_are_named_and_quoted(arguments: dict[str, Any], said: str) -> None:
    good: dict[str, Any] = {"n": 1000, "q": 2**32, "sigma": 40}
    with pytest.raises(ValueError, match=said):
        message_count(**{**good, **arguments})


@pytest.mark.parametrize(
    ("n", "m", "setting"),
    [(18, 5, {}), (100, 2, {}), (100, 3, {"clear_share": False}), (2, 9, {"shuffler": "single"})],
)
def test_balle2020_refuses_outside_its_conditions(n: int, m: int, setting: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="balle2020 needs"):
        security_level(n, 2**8, m, analysis="balle2020", **setting)
    count = checked_scheme(n, 2**8, analysis="balle2020", **setting).proved(m)
    assert (count.sigma, count.analysis) == (0.0, None)


def test_small_levels_are_proved_through_level_1() -> None:
    count = message_count(10**6, 2**8, 1, analysis="balle2020")
    assert count.sigma >= 1
    assert count.shuffled == 3
    # the default proves levels below 1 as they are
    assert 0.5 <= message_count(100, 2**8, 0.5).sigma < 10


def test_names_and_printed_form() -> None:
    proved = ("direct_comparison", "higher_moments", "second_moment")
    assert (*proved, "balle2020", "ghazi2020", "ishai2006") == ANALYSES
    assert str(message_count(10**6, 2**64, 80)) == (
        "13 shuffled + 1 clear messages; sigma = 88.08 bits (analysis: second_moment)"
    )
    assert str(message_count(10**6, 2**64, 80, analysis="balle2020")) == (
        "14 shuffled + 1 clear messages; sigma = 88.17 bits (analysis: balle2020)"
    )
    left = MessageCount(5, 1, 88.0, "second_moment", "a theorem", 1e-12, 0.99999988)
    assert str(left).endswith("; delta = 1e-12, noise_epsilon = 0.999999 (analysis: second_moment)")
    nothing = MessageCount(2, 0, 0.0, None, "nothing")
    assert "nothing is proved" in str(nothing)
