"""The published message counts: printed values, an independent evaluation, refusals."""

from __future__ import annotations

import math
from fractions import Fraction
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


@pytest.mark.parametrize(
    ("n", "delta", "total"),
    [(10**2, 1e-4, 10), (10**3, 1e-6, 9), (10**4, 1e-8, 9), (10**6, 1e-12, 9), (10**3, 1e-12, 14)],
)
def test_lemma_5_2_with_equation_4(n: int, delta: float, total: int) -> None:
    p = math.ceil(math.sqrt(n))
    q = 1 << (2 * n * p - 1).bit_length()
    count = private_message_count(n, q, 1, delta, p, analysis="balle2020")
    assert count.total == total
    assert count.delta is not None
    assert count.delta <= delta
    assert count.noise_epsilon == 1.0


@given(
    name=st.sampled_from(sorted(SETTING)),
    n=st.integers(19, 10**13),
    q=st.one_of(st.integers(2, 2**70), st.integers(2, 4200).map(lambda k: 2**k - 1)),
    m=st.integers(4, 4000),
)
def test_levels_are_below_the_formula_and_within_1e_12(name: str, n: int, q: int, m: int) -> None:
    level = security_level(n, q, m, analysis=name, **SETTING[name])
    true = ball(name, n, q, m)
    threshold = 1 if name == "balle2020" else 0
    if true > threshold:
        assert level <= true.upper()
        assert not level > true
        assert true - level < 1e-12 * max(1.0, level)
    else:
        assert level == 0.0


@given(
    name=st.sampled_from(sorted(SETTING)),
    n=st.integers(19, 10**13),
    bits=st.integers(1, 5000),
    sigma=st.one_of(st.integers(1, 1200), st.floats(1, 1200)),
)
def test_counts_are_minimal_and_carry_their_level(
    name: str, n: int, bits: int, sigma: float
) -> None:
    setting = SETTING[name]
    q = 2**bits
    count = message_count(n, q, sigma, analysis=name, **setting)
    assert count.sigma >= sigma
    assert count.sigma == security_level(n, q, count.shuffled, analysis=name, **setting)
    least = 3 if name == "balle2020" else 4 if name == "ghazi2020" else 1
    if count.shuffled > least:
        assert security_level(n, q, count.shuffled - 1, analysis=name, **setting) < sigma


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


@given(
    n=st.integers(19, 10**9),
    q=st.integers(2, 2**64),
    m=st.integers(4, 60),
    clear=st.booleans(),
    shuffler=st.sampled_from(["parallel", "single"]),
)
def test_levels_move_the_right_way(n: int, q: int, m: int, clear: bool, shuffler: str) -> None:
    def level(n: int = n, q: int = q, m: int = m) -> float:
        return security_level(n, q, m, analysis="balle2020", shuffler=shuffler, clear_share=clear)

    assert level(m=m + 1) >= level()
    assert level(n=n + 1) >= level()
    assert level(q=q + 1) <= level()


@pytest.mark.parametrize("shuffler", ["parallel", "single"])
def test_without_a_clear_share_one_more_message_is_shuffled(shuffler: str) -> None:
    with_clear = message_count(1000, 2**32, 60, analysis="balle2020", shuffler=shuffler)
    without = message_count(
        1000, 2**32, 60, analysis="balle2020", shuffler=shuffler, clear_share=False
    )
    assert without.total == without.shuffled == with_clear.total
    assert without.sigma == with_clear.sigma


@pytest.mark.parametrize(
    ("setting", "names"),
    [
        ({}, {"balle2020"}),
        ({"shuffler": "single"}, {"balle2020"}),
        ({"clear_share": False}, {"balle2020"}),
        (SINGLE, {"balle2020", "ghazi2020", "ishai2006"}),
    ],
)
def test_the_default_takes_no_more_messages_than_any_that_covers_the_setting(
    setting: dict[str, Any], names: set[str]
) -> None:
    for n, q in [(20, 2), (20, 2**64), (10**6, 2**64), (3, 2**20), (2, 2**8)]:
        best = message_count(n, q, 40, **setting)
        covering = set()
        for name in SETTING:
            try:
                count = message_count(n, q, 40, analysis=name, **setting)
            except ValueError:
                continue
            covering.add(name)
            assert best.total <= count.total
            assert best.sigma >= 40
            assert security_level(n, q, count.shuffled, **setting) >= count.sigma
        assert best.analysis == "second_moment"
        assert security_level(n, q, best.shuffled, **setting) == best.sigma
        assert covering <= names
        assert covering == names or n < 19


@given(
    epsilon=st.floats(1e-6, 50),
    delta=st.floats(1e-300, 0.5),
    n=st.integers(19, 10**12),
)
def test_delta_is_the_lemma_rounded_up(epsilon: float, delta: float, n: int) -> None:
    count = private_message_count(n, 2**40, epsilon, delta, 100, analysis="balle2020")
    assert count.delta is not None
    exact = flint.arb(epsilon)
    lemma = (1 + exact.exp()) * flint.arb(2) ** (-flint.arb(count.sigma))
    assert not lemma > count.delta
    assert count.delta <= delta
    if count.delta > 1e-290:
        assert lemma > count.delta * (1 - 1e-12)
    assert count.noise_epsilon == epsilon
    assert "Lemma 5.2" in count.theorem


@given(n=st.integers(19, 10**12), q=st.integers(2, 2**70), sigma=st.integers(1, 300))
@pytest.mark.slow
def test_the_default_never_needs_more_than_the_published(n: int, q: int, sigma: int) -> None:
    for name, setting in SETTING.items():
        best = message_count(n, q, sigma, **setting)
        assert best.total <= message_count(n, q, sigma, analysis=name, **setting).total


@pytest.mark.parametrize("name", sorted(SETTING))
@given(low=st.integers(19, 300), more=st.integers(0, 3000), bits=st.integers(1, 80))
def test_a_range_of_users_is_as_weak_as_its_weakest(
    name: str, low: int, more: int, bits: int
) -> None:
    setting = SETTING[name]
    count = message_count(low + more, 2**bits, 20, min_honest=low, analysis=name, **setting)
    for n in {low, low + more // 3, low + more // 2, low + more}:
        assert security_level(n, 2**bits, count.shuffled, analysis=name, **setting) >= count.sigma
    assert count.sigma >= 20


@pytest.mark.parametrize("analysis", ["balle2020", "second_moment"])
def test_rationals_and_floats_agree(analysis: str) -> None:
    exactly = message_count(100, 2**16, Fraction(81, 2), analysis=analysis)
    assert exactly == message_count(100, 2**16, 40.5, analysis=analysis)


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
    with pytest.raises(ValueError, match="analysis='best' covers this range"):
        message_count(10**6, 2**8, 0.5, analysis="balle2020")
    count = message_count(10**6, 2**8, 1, analysis="balle2020")
    assert count.sigma >= 1
    assert count.shuffled == 3
    # the default proves levels below 1 as they are
    assert 0.5 <= message_count(100, 2**8, 0.5).sigma < 10


@pytest.mark.parametrize("n", [2, 3, 18, 19, 20])
def test_edges_of_the_ranges(n: int) -> None:
    assert message_count(n, 2, 10, analysis="ishai2006", **SINGLE).sigma >= 10
    assert message_count(n, 2, 10).sigma >= 10
    if n < 19:
        with pytest.raises(ValueError, match="n >= 19"):
            message_count(n, 2, 10, analysis="balle2020")
    else:
        assert message_count(n, 2, 10, analysis="balle2020").sigma >= 10
    if n < 3:
        with pytest.raises(ValueError, match="n > 2"):
            message_count(n, 2, 10, analysis="ghazi2020", **SINGLE)
    else:
        assert message_count(n, 2, 10, analysis="ghazi2020", **SINGLE).sigma >= 10


@pytest.mark.parametrize(
    ("name", "reason"), [("balle2020", "n >= 19"), ("ghazi2020", "n > 2"), ("ishai2006", "n >= 2")]
)
def test_one_user_is_refused_with_a_reason(name: str, reason: str) -> None:
    with pytest.raises(ValueError, match=f"{name} needs {reason}, got n = 1; analysis='best'"):
        message_count(1, 2**8, 10, analysis=name, **SETTING[name])


@pytest.mark.parametrize("name", ["best", "exact"])
def test_best_is_the_bound_that_proves_most(name: str) -> None:
    count = message_count(10**6, 2**64, 80, analysis=name)
    assert count == message_count(10**6, 2**64, 80)
    assert count.analysis == "second_moment"
    assert security_level(50, 2**9, 5, analysis=name) == max(
        security_level(50, 2**9, 5, analysis=each) for each in ("second_moment", "balle2020")
    )
    private = private_message_count(1000, 2**20, 1, 1e-6, 100, analysis=name)
    assert private.analysis == "higher_moments"


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
