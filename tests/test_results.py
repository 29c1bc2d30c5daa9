"""What results look like: rounded in the safe direction, and in words in notebooks."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import ikos
from ikos import Ball, Box, PrivateVectorSum, SecureVectorSum
from ikos.baselines import ComparisonRow, CorrelatedNoise, comparison
from ikos.counts import MessageCount
from ikos.data.domains import Bounds
from ikos.results.conditions import Condition, Kind
from ikos.results.error import Bounded, SumError
from ikos.results.guarantees import Guarantee
from ikos.results.sums import (
    Cost,
    Interval,
    at_least,
    at_most,
    footer,
    shown,
)
from ikos.results.text import grouped, hundredths
from ikos.statistics import histograms, means, variances
from ikos.testing import DeterministicRandom


def results():
    """Return one of each kind of result."""
    x = np.linspace(0, 1, 100)
    budget = {"epsilon": 1, "delta": 1e-4}
    protocol = ikos.PrivateSum(100, **budget)
    yield protocol.run(x)
    yield protocol.guarantee
    yield protocol.messages
    yield protocol.cost()
    yield ikos.statistics.variance(x, lower=0, upper=1, **budget)
    yield ikos.statistics.histogram(list("ab" * 50), list("ab"), **budget)
    yield histograms({"a": list("xy" * 50)}, {"a": list("xy")}, **budget)
    yield means(np.zeros((100, 2)), lower=0, upper=1, **budget)
    yield variances(np.zeros((100, 2)), lower=0, upper=1, **budget)
    yield from comparison(100, 1, 1e-4, protocols=["privacy-blanket"])


@pytest.mark.slow
def test_notebooks_show_what_print_shows() -> None:
    pretty = pytest.importorskip("IPython.lib.pretty").pretty
    shown = list(results())
    assert len({type(result) for result in shown}) == len(shown) - 1  # variances are of one class
    for result in shown:
        text = str(result)
        assert not text.startswith(type(result).__name__ + "(")  # the fields, one by one
        assert pretty(result) == text


def test_the_end_of_what_is_printed() -> None:
    guarantee = Guarantee(
        1.0,
        1e-8,
        "theorem of someone",
        tuple(Condition(Kind.SCOPE, text) for text in ("if so", "and if so")),
    )
    assert footer(guarantee, "all of it", 10**6) == (
        "guarantee (1, 1e-08)-differential privacy, replace-one",
        "          by theorem of someone",
        "          if so",
        "          and if so",
        "sent      all of it",
    )
    nothing = replace(guarantee, delta=1.0, conditions=())
    assert footer(nothing, "all of it", 10**9) == (
        "guarantee no differential privacy is proved: too few messages",
        "sent      all of it",
    )


def test_words_are_no_conditions() -> None:
    """Of which no one knows whether they are met."""
    with pytest.raises(TypeError, match=r"^conditions must be of type Condition, got 'if so'"):
        Guarantee(1.0, 1e-8, "theorem of someone", ("if so",))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("epsilon", "delta", "users", "said"),
    [
        (1.0, 1e-8, 10**8 - 1, None),
        (1.0, 1e-8, 10**8 + 1, "beware: delta = 1e-08 is not below 1/users = 1e-08"),
        (10.0, 1e-8, 1000, None),
        (10.5, 1e-8, 1000, "beware: epsilon = 10.5 is very weak protection"),
    ],
)
def test_budgets_that_protect_little_are_said_to(
    epsilon: float, delta: float, users: int, said: str | None
) -> None:
    printed = footer(Guarantee(epsilon, delta, "a theorem", ()), "all of it", users)
    assert len(printed) == 3 + (said is not None)
    assert said is None or printed[1].strip().startswith(said)


@pytest.mark.slow
def test_every_kind_says_guarantee_conditions_and_cost() -> None:
    for result in results():
        if not hasattr(result, "guarantee") or "\n" not in str(result):
            continue
        text = str(result)
        assert result.guarantee.budget in text
        assert f"\n          by {result.guarantee.theorem}\n" in text
        assert all(f"\n          {one}\n" in text for one in result.guarantee.conditions)
        assert "\nsent      " in text


@given(st.floats(1e-3, 1e4), st.floats(1e-300, 0.99))
def test_what_is_printed_of_a_count_holds(sigma: float, delta: float) -> None:
    """A level is rounded down, and a delta up."""
    secure = MessageCount(3, 1, sigma, "second_moment", "a theorem")
    assert float(str(secure).split("sigma = ")[1].split()[0]) <= sigma
    private = MessageCount(3, 1, sigma, "second_moment", "a theorem", delta, 0.5)
    assert float(str(private).split("delta = ")[1].split(",")[0]) >= delta


@pytest.mark.slow
def test_one_honest_user_is_spoken_of_as_one() -> None:
    for protocol, options in ((PrivateVectorSum, {"domain": Ball(2)}), (CorrelatedNoise, {})):
        for least, said in ((1, "1 of 50 users is honest"), (40, "40 of 50 users are honest")):
            found = protocol(50, epsilon=1, delta=1e-3, min_honest=least, **options).guarantee
            there = f"while at least {said} and present, and which users drop out is "
            assert f"{there}independent of their shares and noise" in map(str, found.conditions)


FINITE = st.floats(allow_nan=False, allow_infinity=False)


def read(text: str) -> float:
    """Return a number as a double, after checking that nothing but its thousands is separated."""
    assert re.fullmatch(r"-?\d{1,3}(,\d{3})*(\.\d+)?(e[+-]\d+)?|-?inf", text), text
    return float(text.replace(",", ""))


@given(st.floats(allow_nan=False), st.integers(1, 17))
@example(1e9, 3)
@example(999_999_999.0, 9)
def test_separators_change_no_digit(value: float, digits: int) -> None:
    text = f"{value:.{digits}g}"
    assert read(grouped(text)) == float(text)
    assert "e+" not in grouped(text) or abs(value) > 999_999_994


@given(FINITE | st.floats(-1e6, 1e6), FINITE | st.floats(0, 1e6) | st.just(0.0))
@example(1e9 / 3, 0.0)
@example(-1e308, 2e308)
@example(1e16 + 2, 1e-300)
@example(0.1, 0.0)
@example(5e-324, 5e-324)
@example(1.23456789567e308, math.inf)
def test_a_printed_interval_holds_the_interval(low: float, width: float) -> None:
    """At every width, 0 and more than a double holds included, however far from 0."""
    high = low + abs(width)
    printed_low, printed_high = map(read, str(Interval(low, high)).strip("[]").split(", "))
    assert printed_low <= low
    assert printed_high >= high
    if low == high:
        assert printed_low == low == printed_high


@given(st.just(0.0) | st.floats(1e-300, allow_infinity=False), st.integers(1, 6))
def test_numbers_are_rounded_in_the_direction_asked_for(value: float, digits: int) -> None:
    below, above = at_most(value, digits), at_least(value, digits)
    assert float(below) <= value <= float(above)
    for text in (below, above):  # and no farther than a step
        assert text == "inf" or float(text) == pytest.approx(value, rel=10.0 ** (1 - digits))
    exact = Fraction(value)
    above = at_least(exact, digits)
    assert Fraction(at_most(exact, digits)) <= exact
    assert above == "inf" or Fraction(above) >= exact


def test_numbers_that_are_no_fractions_are_printed_too() -> None:
    assert [at_least(math.inf, 3), at_most(-math.inf, 3), at_most(math.inf, 3)] == [
        "inf", "-inf", "inf",
    ]  # fmt: skip


@given(st.floats(1e-300, 1e300))
def test_a_printed_error_is_at_least_the_error(error: float) -> None:
    guarantee, known = Guarantee(1.0, 1e-8, "theorem", ()), SumError.number(Bounded(error, 1.0))
    result = ikos.SumResult(0.5, 10, Bounds(0, 1), guarantee, Cost(10, 1, 8), known)
    printed = str(result).split("error     ")[1].split()[0]
    assert read(printed) >= result.standard_error == math.sqrt(error)


def test_a_result_says_that_it_may_have_wrapped_around() -> None:
    usual = ikos.PrivateSum(100, 1, 1e-4)
    narrow = ikos.PrivateSum(100, 1, 1e-4, precision=10, modulus=1024)
    for protocol, said in ((usual, False), (narrow, True)):
        assert ("wrapped around" in str(protocol.run(np.ones(100)))) == said


@pytest.mark.parametrize(
    "protocol",
    [
        ikos.PrivateSum(5, 1, 1e-4, lower=18, upper=90),
        ikos.PrivateSum(1, 1, 1e-4, lower=18, upper=90),
        ikos.PrivateVectorSum(50, ikos.Ball(400), 1, 1e-6),
        ikos.PrivateVectorSum(2, ikos.Box(4, 10, 20), 0.5, 1e-6),
    ],
    ids=["numbers", "one-number", "ball", "box"],
)
def test_a_warning_means_that_a_guess_without_data_is_nearer(protocol: Any) -> None:
    """Than estimates are, on the average, whatever the data are; and without it, not always."""
    domain, rng = protocol.domain, DeterministicRandom(5)
    if isinstance(domain, ikos.Ball):
        farthest = np.eye(1, 400)[0]
    else:
        farthest = np.full(domain.shape, domain.upper)
    middle = np.full(domain.shape, (domain.lower + domain.upper) / 2)
    distance = np.linalg.norm(protocol.n * (farthest - middle))
    assert protocol.n * domain.circumradius == pytest.approx(distance)
    results = [protocol.run(np.array([farthest] * protocol.n), rng) for _ in range(40)]
    errors = [np.linalg.norm(one.estimate - protocol.n * farthest) for one in results]
    exceeds = protocol.mse > distance**2
    assert (np.sqrt(np.mean(np.square(errors))) > distance) == exceeds
    for printed in (str(protocol), str(results[0]), " ".join(results[0].warnings())):
        assert ("noise exceeds the signal" in printed) == exceeds


def test_the_ordinary_case_has_no_warning() -> None:
    result = ikos.PrivateVectorSum(1000, ikos.Ball(64), 1, 1e-8).run(np.zeros((1000, 64)))
    assert "beware" not in f"{result}{ikos.PrivateSum(100, 1, 1e-8)}"
    assert not result.warnings()


def stands_within(text: str) -> None:
    estimate, low, high = re.search(r"(\S+)  95 % interval \[(\S+), (\S+)\]", text).groups()  # type: ignore[union-attr]
    assert read(low) <= read(estimate) <= read(high)


@given(st.floats(-1e18, 1e18), st.floats(0, 1e15) | st.just(1e-9), st.booleans())
@example(17000431328637.0, 2.6e5, False)
@example(1e300, 1e290, False)
@example(-0.001, 2.0, False)
@example(712.0, 2.0, True)
def test_a_printed_estimate_lies_in_its_printed_interval(
    middle: float, reach: float, whole: bool
) -> None:
    if whole:
        middle, reach = float(round(middle)), float(round(reach))
    interval = Interval(middle - reach, middle + reach)
    text = shown(middle, interval)
    stands_within(text)
    if whole and max(map(abs, interval)) < 2**53:
        assert "." not in text


@pytest.mark.slow
def test_results_far_from_zero_are_printed_to_the_digits_of_their_intervals() -> None:
    budget: dict[str, Any] = {"epsilon": 1, "delta": 1e-6, "rng": DeterministicRandom(1)}
    low, high = 1_700_000_000, 1_700_086_400
    x = np.linspace(low, high, 2000)
    found: list[Any] = [
        ikos.statistics.mean(x, lower=low, upper=high, **budget),
        ikos.statistics.variance(x, lower=low, upper=high, **budget),
        ikos.baselines.PrivacyBlanket(2000, 1, 1e-6, lower=low, upper=high).run(x),
        means(x[:, np.newaxis], lower=low, upper=high, **budget),
        variances(x[:, np.newaxis], lower=low, upper=high, **budget),
    ]
    for result in found:
        for line in str(result).splitlines():
            if "interval" in line:
                stands_within(line)
    vectors = PrivateVectorSum(2000, Box(1, low, high), 1, 1e-6).run(x[:, np.newaxis])
    printed = read(re.search(r"\((\S+)\)", str(vectors)).group(1))  # type: ignore[union-attr]
    assert abs(printed - vectors.estimate[0]) <= 0.5


@pytest.mark.points(1)
@pytest.mark.parametrize("precision", [10, 333, 4567])
def test_the_error_of_a_sum_is_printed_rounded_up(precision: int) -> None:
    protocol = ikos.PrivateSum(100, epsilon=0.7, delta=1e-4, precision=precision)
    found = protocol.run(np.linspace(0, 1, 100))
    printed = str(found).split("error     ")[1].split()[0]
    assert found.standard_error <= float(printed) <= 1.001 * found.standard_error


@given(st.floats(1e-100, 1e100), st.floats(1e-100, 1e100) | st.just(math.inf))
def test_a_printed_comparison_promises_no_more_than_is_proved(mse: float, influence: float) -> None:
    @dataclass
    class Made:
        mse: float
        influence: float

        def cost(self, users: int | None = None) -> Cost:
            return Cost(10, 1, 8)

    @dataclass
    class Name:
        key: str = "some"
        model: str = "shuffle"

    row = ComparisonRow(Name(), Made(mse, influence))  # type: ignore[arg-type]
    text = str(row)
    assert float(text.split("error ")[1].split(",")[0]) >= math.sqrt(mse)
    assert float(text.rsplit(" ", 1)[1]) >= influence


@given(st.floats(0, 1e6), st.integers(0, 10**8))
def test_levels_to_two_decimals_are_rounded_down(value: float, cents: int) -> None:
    """Also just below a hundredth, where a product in doubles is rounded up."""
    for one in (value, math.nextafter(cents / 100, 0), cents / 100):
        if one >= 0:
            shown = Fraction(hundredths(one))
            assert shown <= Fraction(one) < shown + Fraction(1, 100)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("build", "title"),
    [
        (
            lambda: ikos.PrivateSum(1000, 1, 1e-6, lower=-1, upper=100, modulus=2**20),
            "PrivateSum of 1,000 users, values in [-1, 100], precision=112, q=1048576, parallel",
        ),
        (
            lambda: SecureVectorSum(100, 3, 2**32, min_honest=90),
            "SecureVectorSum of 100 users, dimension=3, separate sums, q=4294967296, parallel, "
            "min_honest=90",
        ),
        (
            lambda: PrivateVectorSum(1000, Ball(8), 1, 1e-6),
            "PrivateVectorSum of 1,000 users, Ball(",
        ),
        (lambda: CorrelatedNoise(100, 1, 1e-6), "CorrelatedNoise of 100 users, "),
    ],
)
def test_protocols_print_what_they_guarantee_and_cost(build: Any, title: str) -> None:
    protocol = build()
    first, *rest = str(protocol).splitlines()
    assert first.startswith(title)
    assert rest[-1] == f"sent      {protocol.cost()}"
    for condition in protocol.guarantee.conditions:
        assert f"          {condition}" in rest
    assert f"          by {protocol.guarantee.theorem}" in rest
    assert repr(protocol).startswith(f"<{type(protocol).__name__} ")
