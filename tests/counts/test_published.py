"""The published message counts: printed values, an independent evaluation, refusals."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ikos import MessageCount, message_count, private_message_count, security_level
from ikos.counts import ANALYSES
from ikos.counts.analyses import checked_scheme

flint = pytest.importorskip("flint", reason="python-flint is the independent evaluator")

SINGLE: dict[str, Any] = {"shuffler": "single", "clear_share": False}
SETTING: dict[str, dict[str, Any]] = {
    "balle2020": {"shuffler": "parallel", "clear_share": True},
    "ghazi2020": SINGLE,
    "ishai2006": SINGLE,
}


def log2(x: Any) -> Any:
    return flint.arb(x).log() / flint.arb(2).log()


def ball(name: str, n: int, q: int, m: int) -> Any:
    """Each formula once more, in ball arithmetic, from the papers."""
    if name == "balle2020":
        return ((m - 1) * (log2(n) - 1 / flint.arb(2).log()) - log2(q)) / 2
    if name == "ghazi2020":
        return (m - 4) * (log2(n) - 1) / flint.arb(100) - log2(q)
    ceiling = math.ceil(math.log2(q)) if q < 2**40 else (q - 1).bit_length()
    root = log2(flint.arb.pi() * (m + flint.arb(1) / 2)) / 4
    return m - 1 - log2(n - 1) - flint.arb(5 * ceiling) / 2 - root


@pytest.fixture(autouse=True)
def _precise() -> Any:
    before, flint.ctx.prec = flint.ctx.prec, 600
    yield
    flint.ctx.prec = before


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
    assert ball("ishai2006", n, q, added_after) < sigma


def test_extreme_arguments_are_answered() -> None:
    count = message_count(10**12, 2**1_000_000, 1000, analysis="balle2020")
    assert not ball("balle2020", 10**12, 2**1_000_000, count.shuffled) < 1000
    assert ball("balle2020", 10**12, 2**1_000_000, count.shuffled - 1) < 1000
    # 2 * 5000 + 1 bits at log2(10^100 / e) a message
    assert message_count(10**100, 2, 5000, analysis="balle2020").shuffled == 32


@pytest.mark.parametrize(
    ("arguments", "error", "said"),
    [
        ({"q": 2**10**7}, ValueError, "q must be .* 10000001 bits"),
        ({"sigma": "80"}, TypeError, "sigma must be .* '80'"),
        ({"n": 18, "analysis": "balle2020"}, ValueError, "balle2020 needs n >= 19"),
        ({"analysis": "ishai2006"}, ValueError, "analysis='best' covers this setting"),
        ({"sigma": 0.5, "analysis": "balle2020"}, ValueError, "balle2020 needs sigma >= 1"),
    ],
)
def test_bad_arguments_are_named_and_quoted(
    arguments: dict[str, Any], error: type[Exception], said: str
) -> None:
    good: dict[str, Any] = {"n": 1000, "q": 2**32, "sigma": 40}
    with pytest.raises(error, match=said):
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
    with pytest.raises(ValueError, match="needs sigma >= 1; analysis='best' covers this setting"):
        message_count(10**6, 2**8, 0.5, analysis="balle2020")
    count = message_count(10**6, 2**8, 1, analysis="balle2020")
    assert count.sigma >= 1
    assert count.shuffled == 3
    # the default proves levels below 1 as they are
    assert 0.5 <= message_count(100, 2**8, 0.5).sigma < 10


def test_names_and_printed_form() -> None:
    assert ANALYSES == ("higher_moments", "second_moment", "balle2020", "ghazi2020", "ishai2006")
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
