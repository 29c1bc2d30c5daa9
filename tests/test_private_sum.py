"""PrivateSum: guarantee, parameters, accuracy on real data, refusals."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import gmpy2
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import signal, stats
from statistical import FALSE_ALARM, discrete_laplace_law

from ikos import PrivateSum, SecureSum, private_message_count
from ikos.counts import private_remaining
from ikos.results.error import NoisySum
from ikos.testing import DeterministicRandom

SETTINGS = list(itertools.product(("parallel", "single"), (True, False)))


@pytest.fixture(scope="module")
def ages(adult: Path) -> NDArray[np.float64]:
    """Ages of the UCI Adult training file, divided by their maximum."""
    lines = adult.read_text().splitlines()
    ages = np.array([float(line.split(",")[0]) for line in lines if line.strip()])
    assert ages.size == 32561
    return np.asarray(ages / ages.max())


def mean_absolute_error(x: NDArray[Any], p: int, epsilon: float) -> tuple[float, float]:
    """Return mean and deviation of abs(noise + rounding error) / p, from their exact laws."""
    s = epsilon / p
    last = math.ceil(45 / s)
    noise = np.exp(-s * np.abs(np.arange(-last, last + 1)))
    noise /= noise.sum()
    fraction = x * p - np.floor(x * p)
    deviation = math.sqrt(float((fraction * (1 - fraction)).sum()))
    reach = math.ceil(9 * deviation) + 1
    # Bernoulli errors of 32,561 users: normal to far below the accuracy needed here
    rounding = stats.norm(0, deviation or 1e-9).pdf(np.arange(-reach, reach + 1))
    law = signal.fftconvolve(noise, rounding / rounding.sum())
    error = np.abs(np.arange(law.size) - law.size // 2) / p
    first = float((law * error).sum())
    return first, math.sqrt(float((law * error**2).sum()) - first**2)


@pytest.mark.slow
@pytest.mark.parametrize("precision", [181, None])
def test_measured_error_on_adult_ages_many_runs(ages, precision):
    """12,500 runs pin the mean absolute error to 1 %.

    With one message per user: how values are shared does not touch the estimate.
    """
    n, runs = ages.size, 12_500
    protocol = PrivateSum(n, 1, n**-2.0, precision=precision, messages=1)
    rng = DeterministicRandom(2)
    truth = ages.sum()
    errors = [abs(protocol.run(ages, rng).mean() - truth / n) for _ in range(runs)]
    assert 3.0e-5 < np.mean(errors) < 3.5e-5
    expected, deviation = mean_absolute_error(ages, protocol.precision, 1.0)
    assert abs(np.mean(errors) - expected / n) < 6.2 * deviation / n / math.sqrt(runs)


@pytest.mark.points(0)
@pytest.mark.parametrize(
    "min_honest", [100, *(pytest.param(few, marks=pytest.mark.slow) for few in (60, 7))]
)
def test_intervals_cover_as_often_as_they_say(min_honest: int) -> None:
    """2,000 runs at 90 %: fewer than 1,700 hits have probability below 1e-9."""
    n, runs = 100, 2000
    x = np.linspace(0, 1, n)
    protocol = PrivateSum(n, 1, 0.5, min_honest=min_honest, messages=1)
    rng = DeterministicRandom(4)
    results = [protocol.run(x, rng) for _ in range(runs)]
    # of every run the same width, about its estimate
    low, high = results[0].interval(0.9)
    reach = (high - low) / 2
    for result in results[-3:]:
        assert result.interval(0.9) == pytest.approx(
            (result.estimate - reach, result.estimate + reach)
        )
    hits = sum(abs(result.estimate - x.sum()) <= reach for result in results)
    assert stats.binom(runs, 0.9).cdf(1699) < 1e-9
    assert hits >= 1700
    assert hits <= 1960  # and is not wasteful: 98 % at most


@pytest.mark.slow
@pytest.mark.parametrize("min_honest", [None, 50])
def test_integers_are_encoded_exactly(min_honest: int | None) -> None:
    x = np.arange(100) - 20
    protocol = PrivateSum(100, 40, 1e-3, lower=-20, upper=80, integers=True, min_honest=min_honest)
    assert protocol.precision == 100
    result = protocol.run(x)
    assert float(result.estimate).is_integer()
    assert abs(result.estimate - x.sum()) < 200
    # with a noise that is almost surely zero, nothing is left that could change the sum
    silent = PrivateSum(100, 10**6, 1e-3, lower=-20, upper=80, integers=True, messages=1)
    assert silent.run(x).estimate == x.sum()
    assert silent.mse < 1e-9


@pytest.mark.points(1)
@pytest.mark.parametrize("min_honest", [None, 90])
@pytest.mark.parametrize("confidence", [0.5, 1 - 1e-9])
@pytest.mark.parametrize("epsilon", [0.1, 20])
def test_intervals_of_integers_have_integers_as_ends(epsilon, confidence, min_honest):
    protocol = PrivateSum(
        100, epsilon, 1e-3, lower=-2, upper=5, integers=True, min_honest=min_honest
    )
    result = protocol.run(np.arange(100) % 6, DeterministicRandom(1))
    low, high = result.interval(confidence)
    assert low.is_integer()
    assert high.is_integer()
    assert result.estimate - low == high - result.estimate
    assert str(result.interval(confidence)) == f"[{low:,.0f}, {high:,.0f}]"
    assert result.mean_interval(confidence) == (low / 100, high / 100)
    # no shorter than the law of the noise allows, and not longer than the interval of reals
    k = np.arange(-4000, 4001)
    share = 100 / protocol.min_honest
    law = stats.nbinom(share, -math.expm1(-float(protocol.noise.rate)))
    pmf = signal.fftconvolve(law.pmf(np.arange(8001)), law.pmf(np.arange(8001))[::-1])[4000:12001]
    half = int(high - result.estimate)
    assert pmf[abs(k) <= half].sum() >= confidence - 1e-9
    miss = 1 - confidence - result.error.wrap_probability
    assert half == math.floor(result.error.coordinate.noise.half_width(miss, 0))  # type: ignore[attr-defined]


class _Reach:
    """The law of a noise, but for how far it reaches."""

    variance = 100.0
    integers = True

    def __init__(self, reach: float) -> None:
        self.reach = reach

    def half_width(self, miss: float, users: int) -> float:
        return self.reach


@pytest.mark.parametrize(
    ("estimate", "reach", "ends"),
    [
        (10.0, 3.5, (7, 13)),
        (10.0, 4.0, (6, 14)),
        (10.0, 4 - 1e-9, (6, 14)),  # a rounding error cuts nothing off
        (10.0, 0.0, (10, 10)),
        (-10.0, 0.999, (-10, -10)),
        (2.0**53, 1.0, (2**53 - 5, 2**53 + 4)),  # the estimate may have been 2^53 + 1
        (2.0**60 + 2**9, 10.0, (2**60, 2**60 + 2**10)),
    ],
)
def test_ends_of_integers_are_rounded_towards_safety(estimate, reach, ends):
    result = PrivateSum(100, 1, 1e-3, upper=2, integers=True).run([1.0] * 100)
    law: Any = _Reach(reach)
    error = NoisySum(law, 2, 100, 2.0, rounded=False).error()
    moved = dataclasses.replace(result, estimate=estimate, error=error)
    assert moved.interval() == ends


@pytest.mark.slow
def test_non_integers_are_refused_where_integers_were_promised() -> None:
    protocol = PrivateSum(19, 1, 1e-2, lower=0, upper=10, integers=True)
    with pytest.raises(ValueError, match=r"x\[3\] must be an integer"):
        protocol.run([0, 1, 2, 0.5] * 4 + [1, 2, 3])


@pytest.mark.slow
def test_parameters_are_those_of_the_calculator() -> None:
    n = 10**4
    protocol = PrivateSum(n, 1, 1e-8)
    count = private_message_count(n, protocol.modulus, 1, 1e-8, protocol.precision)
    assert protocol.messages == count
    assert protocol.guarantee.epsilon == 1
    assert protocol.guarantee.delta == count.delta
    assert protocol.guarantee.adjacency == "replace-one"
    assert "higher moments" in protocol.guarantee.theorem
    assert protocol.noise.rate == Fraction(count.noise_epsilon) / protocol.precision
    assert 0.99 <= count.noise_epsilon < 1
    published = PrivateSum(n, 1, 1e-8, analysis="balle2020")
    assert published.messages == private_message_count(
        n, published.modulus, 1, 1e-8, published.precision, analysis="balle2020"
    )
    assert published.messages.total == 9 > protocol.messages.total
    assert "Lemma 5.2" in published.guarantee.theorem
    assert published.noise.rate == Fraction(1, published.precision)


@pytest.mark.slow
def test_given_messages_state_what_is_proved() -> None:
    chosen = PrivateSum(1000, 1, 1e-6)
    assert PrivateSum(1000, 1, 1e-6, messages=chosen.messages.total).messages == chosen.messages
    fewer = PrivateSum(1000, 1, 1e-6, messages=chosen.messages.total - 1)
    assert fewer.guarantee.delta > 1e-6
    assert fewer.messages.total == chosen.messages.total - 1
    for analysis in ("second_moment", "balle2020"):
        nothing = PrivateSum(1000, 1, 1e-6, messages=2, analysis=analysis)
        assert nothing.guarantee.delta == 1.0
        assert nothing.messages.noise_epsilon == 1.0
        assert "no differential privacy is proved" in str(nothing.run(np.zeros(1000)))
        assert "no differential privacy is proved" in repr(nothing)


@pytest.mark.slow
def test_corrupt_shufflers_and_min_honest_enter_the_guarantee() -> None:
    plain = PrivateSum(1000, 1, 1e-6)
    careful = PrivateSum(1000, 1, 1e-6, corrupt_shufflers=2, min_honest=800)
    honest_only = PrivateSum(800, 1, 1e-6, precision=careful.precision, modulus=careful.modulus)
    assert careful.messages.total == honest_only.messages.total + 2
    assert careful.guarantee.delta == honest_only.guarantee.delta
    text = str(careful.guarantee.conditions)
    assert "at least 800 of 1,000 users" in text
    assert "at most 2 of the shufflers" in text
    assert "no shuffler colludes" in str(plain.guarantee.conditions)
    assert "the shuffler does not" in str(
        PrivateSum(1000, 1, 1e-6, shuffler="single").guarantee.conditions
    )


@pytest.mark.points(1)
@pytest.mark.parametrize("clear_share", [True, False])
@pytest.mark.parametrize("corrupt", [0, 2])
def test_given_messages_prove_what_they_do_for_those_who_are_honest(clear_share, corrupt):
    """Of the messages that are left by corrupt shufflers, to the users who may be honest alone."""
    options: dict[str, Any] = {
        "min_honest": 300, "corrupt_shufflers": corrupt, "clear_share": clear_share
    }  # fmt: skip
    chosen = PrivateSum(1000, 1, 1e-6, **options)
    total, group = chosen.messages.total, {"precision": chosen.precision, "modulus": chosen.modulus}
    assert PrivateSum(1000, 1, 1e-6, messages=total, **options).messages == chosen.messages
    assert PrivateSum(1000, 1, 1e-6, messages=total).guarantee.delta < 1e-6
    few = PrivateSum(1000, 1, 1e-6, messages=total - 1, **options, **group)
    left = few.messages.total - corrupt
    alone = PrivateSum(300, 1, 1e-6, messages=left, clear_share=clear_share, **group)
    assert few.guarantee.delta == alone.guarantee.delta > 1e-6


@pytest.mark.slow
def test_reports_of_single_users_have_the_noise_together() -> None:
    """Of zeros nothing else is left: 1,000 times the reports of all two users."""
    protocol = PrivateSum(2, 1, 0.5, precision=4, messages=2)
    rng, q, noise = DeterministicRandom(7), protocol.modulus, []
    for _ in range(1000):
        reports = [protocol.report(0, rng) for _ in range(2)]
        total = sum(int(rows.sum()) for one in reports for part in one.parts for rows in part)
        noise.append((total + q // 2) % q - q // 2)
    law = discrete_laplace_law(float(protocol.noise.rate))
    assert law.p_value(np.array(noise)) > FALSE_ALARM


@pytest.mark.slow
def test_what_is_printed_of_a_budget_holds() -> None:
    guarantee = PrivateSum(100, 1.0000004, 1e-4).guarantee
    assert "(1.00001, " in str(guarantee)
    third = PrivateSum(100, Fraction(1, 3), 1e-4).guarantee
    assert Fraction(third.epsilon) >= Fraction(1, 3)
    printed = str(guarantee).split(", ")[1].split(")")[0]
    assert Fraction(printed) >= Fraction(guarantee.delta)


@pytest.mark.parametrize("modulus", [2**600, 2**2000, 1001])
def test_any_modulus_makes_a_result_that_prints(modulus: int) -> None:
    protocol = PrivateSum(100, 1, 1e-3, precision=10, modulus=modulus, messages=3)
    result = protocol.run(np.zeros(100))
    assert "95 % interval" in str(result)
    assert protocol.mse > 0
    assert len(protocol.parameter_hash) == 64


@pytest.mark.parametrize("options", [{"analysis": "balle2020"}, {"reserve": 0}])
def test_the_noise_of_min_honest_users_is_in_the_error(options: dict[str, Any]) -> None:
    plain = PrivateSum(1000, 1, 1e-6, precision=100, **options)
    careful = PrivateSum(1000, 1, 1e-6, precision=100, min_honest=500, **options)
    noise, rounding = plain.mse - 1000 / 4 / 100**2, 1000 / 4 / 100**2
    assert math.isclose(careful.mse, 2 * noise + rounding, rel_tol=1e-6)


def test_the_fewest_messages_may_take_more_noise() -> None:
    given = {"precision": 100, "modulus": 2**21, "analysis": "direct_comparison"}
    usual, fewest = (PrivateSum(10**4, 1, 1e-8, reserve=r, **given) for r in (0.01, "fewest"))
    assert (usual.messages.total, fewest.messages.total) == (5, 4)
    assert usual.mse < fewest.mse < 1.04**2 * usual.mse
    options = {"analysis": "direct_comparison", "messages": 4, "reserve": "fewest"}
    assert PrivateSum(10**4, 1, 1e-8, **(given | options)).messages == fewest.messages


@pytest.mark.points(0)
@pytest.mark.parametrize("reserve", [0.0, 0.01, 0.2, "fewest"])
def test_what_is_spent_on_hiding_is_missing_from_the_noise(reserve: float | str) -> None:
    n, p = 1000, 100
    protocol = PrivateSum(n, 1, 1e-6, precision=p, min_honest=500, reserve=reserve)
    left = protocol.messages.noise_epsilon
    assert left is not None
    most = 0.04 if isinstance(reserve, str) else reserve
    assert 1 - most <= left <= 1
    assert (left == 1) == (reserve == 0)
    assert protocol.noise.rate == Fraction(left) / p
    alpha = math.exp(-left / p)
    noise = 2 * alpha / (p * (1 - alpha)) ** 2
    assert math.isclose(protocol.mse, 2 * noise + n / 4 / p**2, rel_tol=1e-6)
    # the guarantee is the whole budget's, and any split of it is among what the parties agree on
    assert protocol.guarantee.epsilon == 1
    assert protocol.guarantee.delta <= 1e-6
    assert protocol.parameters["noise_rate"] == str(protocol.noise.rate)


@pytest.mark.parametrize("analysis", ["balle2020", "second_moment"])
def test_mse_is_the_papers_bound(analysis: str) -> None:
    n, p, q, epsilon = 100, 10, 1500, 0.7
    protocol = PrivateSum(n, epsilon, 1e-3, precision=p, modulus=q, analysis=analysis)
    left = protocol.messages.noise_epsilon
    assert left is not None
    assert (left == epsilon) == (analysis == "balle2020")
    alpha = math.exp(-left / p)
    bound = 2 * alpha / (p * (1 - alpha)) ** 2 + n / (4 * p**2)
    bound += (q / p) ** 2 * alpha ** ((q - n * p) / 2)
    assert math.isclose(protocol.mse, bound, rel_tol=1e-9)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"n": 10**400}, "^n .*an integer of"),
        ({"precision": 2**60}, "^precision "),
        ({"modulus": 100, "precision": 1}, r"^modulus must be above n \* precision"),
        ({"lower": 2}, "^upper "),
        ({"messages": 0}, "^messages "),
        ({"n": 10, "analysis": "balle2020"}, "n >= 19"),
        ({"reserve": 0.6}, "^reserve "),
        ({"integers": True, "lower": 0.5, "upper": 3}, "^lower must be an integer of at most 2.52"),
        ({"integers": True, "lower": 0, "upper": 2.0**60}, "^upper must be an integer"),
        ({"integers": True, "upper": 10, "precision": 5}, "^precision must be upper - lower = 10"),
    ],
)
def test_bad_parameters_are_refused(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        PrivateSum(**{"n": 100, "epsilon": 1, "delta": 1e-4, **arguments})


def test_where_sums_wrap_around_an_interval_is_all_that_can_be_decoded() -> None:
    """With probability 0.22 here."""
    result = PrivateSum(100, 1, 1e-4, precision=1, modulus=103).run(np.zeros(100))
    low, high = result.interval(0.9)
    assert (high - low) / 2 == pytest.approx((103 + 100) / 2)
    with pytest.raises(ValueError, match="confidence must be"):
        result.interval(1)


@pytest.mark.parametrize(("shuffler", "clear_share"), SETTINGS)
@pytest.mark.parametrize("n", [1, 2])
def test_few_users_are_covered_in_every_setting(n: int, shuffler: str, clear_share: bool) -> None:
    protocol = PrivateSum(n, 1, 1e-4, shuffler=shuffler, clear_share=clear_share)
    assert protocol.guarantee.delta <= 1e-4
    assert "second moment" in protocol.guarantee.theorem
    low, high = protocol.run(np.linspace(0, 1, n)).interval(1 - 1e-10)
    assert low <= n / 2 + 1e-9
    assert n / 2 - 1e-9 <= high


def test_wrap_around_is_stated_and_recentring_takes_negative_sums() -> None:
    protocol = PrivateSum(19, 0.05, 1e-1, precision=4, messages=1)
    rng = DeterministicRandom(6)
    estimates = [protocol.run(np.zeros(19), rng).estimate for _ in range(200)]
    assert min(estimates) < 0 < max(estimates)
    assert protocol.run(np.zeros(19)).error.wrap_probability <= 2.0**-40
    assert max(map(abs, estimates)) < 28 / 0.05


def test_sums_of_fewer_users_are_decoded_for_as_many_as_there_are() -> None:
    """The smallest group has room beside n p for one step alone, and beside k p for more."""
    protocol = PrivateSum(100, 1, 0.5, precision=10, modulus=1001, messages=1, min_honest=50)
    rng = DeterministicRandom(12)
    estimates = [protocol.run([0.0] * 50, rng).estimate for _ in range(60)]
    assert min(estimates) < 0
    assert max(map(abs, estimates)) < 37.5


@pytest.mark.parametrize("protocol", [PrivateSum, SecureSum])
def test_a_theorem_that_does_not_cover_the_group_is_said_to(protocol) -> None:
    """The formula is stated for every modulus, and proved for primes."""
    ways = {"analysis": "ghazi2020", "shuffler": "single", "clear_share": False}
    for q, first in ((2**31 - 1, "while"), (2**31, "NOT for this group: not proved for a comp")):
        given = (50, q) if protocol is SecureSum else (50, 1, 1e-4)
        more = {} if protocol is SecureSum else {"modulus": q}
        made = protocol(*given, **more, **ways)
        assert made.guarantee.conditions[0].text.startswith(first)
        assert made.guarantee.proved == (first == "while")
        assert not made.guarantee.vacuous
        assert ("NOT for this group" in str(made.guarantee)) == (first != "while")


def test_by_default_the_group_is_one_that_the_theorem_covers() -> None:
    ways = {"shuffler": "single", "clear_share": False}
    usual = PrivateSum(50, 1, 1e-4, **ways).modulus
    found = PrivateSum(50, 1, 1e-4, analysis="ghazi2020", **ways)
    assert found.modulus == gmpy2.next_prime(usual)
    assert found.guarantee.conditions == PrivateSum(50, 1, 1e-4, **ways).guarantee.conditions
    assert found.run(np.ones(50)).error.wrap_probability <= 2.0**-40


@pytest.mark.slow
def test_what_remains_is_that_of_the_messages_and_the_noise() -> None:
    protocol = PrivateSum(2000, 1, 1e-6, min_honest=1800, corrupt_shufflers=1)
    planned, count = protocol.remaining(delta=1e-6), protocol.messages
    assert count.noise_epsilon is not None
    assert count.noise_epsilon < planned.epsilon <= 1
    given = (2000, protocol.modulus, count.total, count.noise_epsilon, 0.1, protocol.precision)
    for honest, corrupt in ((1000, 1), (1900, 0), (1800, 2)):
        left = protocol.remaining(honest=honest, corrupt_shufflers=corrupt, delta=0.1)
        assert left == private_remaining(
            *given, honest=honest, noise_users=1800, corrupt_shufflers=corrupt
        )
    assert count.delta is not None
    smaller = protocol.remaining(delta=count.delta / 100)
    assert smaller.delta <= count.delta / 100
    assert smaller.epsilon > planned.epsilon
    assert planned.count.sigma == pytest.approx(protocol.messages.sigma)
    with pytest.raises(ValueError, match=r"^(delta|total) "):
        protocol.remaining(corrupt_shufflers=3)


@pytest.mark.slow
@pytest.mark.parametrize(
    "make",
    [
        lambda: PrivateSum(2, 1, 1e-6, min_honest=1),
        lambda: PrivateSum(200, 20, 1e-3, min_honest=100, reserve=0.5, shuffler="single"),
        lambda: PrivateSum(200, 0.5, 1e-4, min_honest=100, corrupt_shufflers=2, reserve=0.5),
    ],
)
def test_nothing_is_lost_where_all_is_as_planned(make: Callable[[], PrivateSum]) -> None:
    protocol = make()
    assert protocol.guarantee.proved
    left = protocol.remaining()
    assert left.epsilon <= float(protocol.epsilon) * (1 + 1e-9)
    assert left.delta <= protocol.delta
