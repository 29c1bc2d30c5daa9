"""The noise: samplers against exact laws, and nothing but integer arithmetic in them.

Statistical tests have a proved false-alarm rate of at most 1e-9 each (see `statistical`); the
laws themselves are computed in doubles, to about 1e-13. Their power is part of what is tested:
half the shape, or a rate that is off by five per cent, is rejected. `exact/test_sampler_law.py`
proves the steps of the samplers as fractions.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any, assert_type

import numpy as np
import pytest
from numpy.typing import NDArray
from statistical import (
    FALSE_ALARM,
    IntegerLaw,
    discrete_laplace_law,
    p_value_bound,
    polya_law,
    skellam_law,
)

import ikos.primitives.samplers
from ikos.primitives.samplers import (
    discrete_gaussian,
    discrete_laplace,
    geometric,
    polya,
    polya_jumps,
    polya_population,
    skellam,
)
from ikos.testing import DeterministicRandom

Rate = Fraction | float | int
RATES: list[Rate] = [Fraction(3, 2), Fraction(1, 1000), 0.1]
SHAPES: list[Rate] = [Fraction(1, 100), Fraction(1, 3), Fraction(5, 2)]
each_rate = pytest.mark.parametrize("s", RATES, ids=str)


def polya_counts(n: int, s: Rate, **how: Any) -> np.ndarray:
    """Return n independent Polya(variables / parties, e^-s) variables, added up from jumps."""
    users, amounts = polya_jumps(n, Fraction(s), **how)
    result = np.zeros(n, dtype=np.int64)
    np.add.at(result, users, amounts)
    return result


def polya_difference(r: float, s: float) -> IntegerLaw:
    return polya_law(r, s).minus(polya_law(r, s))


@each_rate
def test_geometric_fits_its_law_and_not_a_rate_five_per_cent_off(s: Rate) -> None:
    draws = geometric(s, 200_000, DeterministicRandom(40))
    assert polya_law(1, float(s)).p_value(draws) > FALSE_ALARM
    for wrong in (0.95, 1.05):
        assert polya_law(1, wrong * float(s)).p_value(draws) < FALSE_ALARM


@each_rate
def test_discrete_laplace_fits_its_law_and_not_a_rate_five_per_cent_off(s: Rate) -> None:
    draws = discrete_laplace(s, 200_000, DeterministicRandom(41))
    assert discrete_laplace_law(float(s)).p_value(draws) > FALSE_ALARM
    for wrong in (0.95, 1.05):
        assert discrete_laplace_law(wrong * float(s)).p_value(draws) < FALSE_ALARM


@pytest.mark.parametrize("variance", [Fraction(1, 3), Fraction(50), 17_000, 10**7], ids=str)
def test_skellam_fits_its_law_and_not_a_variance_five_per_cent_off(variance: Rate) -> None:
    draws = skellam(variance, 200_000, DeterministicRandom(46))
    assert skellam_law(float(variance)).p_value(draws) > FALSE_ALARM
    for wrong in (0.95, 1.05):
        assert skellam_law(wrong * float(variance)).p_value(draws) < FALSE_ALARM


def test_large_variances_are_drawn_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ikos.primitives.samplers, "_MAX_TABLE_VARIANCE", 7)
    draws = skellam(Fraction(100, 7), 200_000, DeterministicRandom(48))  # three of them
    assert skellam_law(100 / 7).p_value(draws) > FALSE_ALARM
    assert skellam_law(0.95 * 100 / 7).p_value(draws) < FALSE_ALARM


def test_skellam_shares_of_all_users_add_up() -> None:
    draws = skellam(Fraction(100, 7), 7 * 60_000, DeterministicRandom(47)).reshape(7, -1)
    assert skellam_law(100).p_value(draws.sum(axis=0)) > FALSE_ALARM
    joint = np.sign(draws[0]) * 3 + np.sign(draws[1])
    law = skellam_law(100 / 7).pmf
    zero = law[law.size // 2]
    each = np.array([(1 - zero) / 2, zero, (1 - zero) / 2])
    assert p_value_bound(np.bincount(joint + 4, minlength=9), np.outer(each, each).ravel()) > (
        FALSE_ALARM
    )


@each_rate
@pytest.mark.parametrize("r", SHAPES, ids=str)
def test_polya_fits_its_law_and_not_half_the_shape(r: Rate, s: Rate) -> None:
    draws = polya(r, s, 60_000, DeterministicRandom(42))
    assert polya_law(float(r), float(s)).p_value(draws) > FALSE_ALARM
    if float(s) < 1 or r != SHAPES[0]:  # else nearly every draw is 0 under both
        assert polya_law(float(r) / 2, float(s)).p_value(draws) < FALSE_ALARM


# Sums over users


def sum_of_users(
    users: int, shape: Fraction, s: Rate, rounds: int, rng: DeterministicRandom
) -> Any:
    draws = polya(shape, s, users * rounds, rng) - polya(shape, s, users * rounds, rng)
    return draws.reshape(rounds, users).sum(axis=1)


@pytest.mark.slow
@each_rate
def test_noise_of_all_users_adds_up_to_discrete_laplace(s: Rate) -> None:
    total = sum_of_users(10, Fraction(1, 10), s, 30_000, DeterministicRandom(44))
    assert discrete_laplace_law(float(s)).p_value(total) > FALSE_ALARM


@each_rate
def test_noise_of_half_of_the_users_has_half_the_shape(s: Rate) -> None:
    total = sum_of_users(5, Fraction(1, 10), s, 30_000, DeterministicRandom(45))
    assert polya_difference(0.5, float(s)).p_value(total) > FALSE_ALARM
    assert discrete_laplace_law(float(s)).p_value(total) < FALSE_ALARM


# A whole population at once


@each_rate
@pytest.mark.parametrize("parties", [1, 10])
def test_population_in_groups_adds_up_to_discrete_laplace_in_each(s: Rate, parties: int) -> None:
    noise = polya_population(parties * 20_000, s, parties=parties, rng=DeterministicRandom(48))
    groups = noise.reshape(-1, parties)
    assert discrete_laplace_law(float(s)).p_value(groups.sum(axis=1)) > FALSE_ALARM
    assert polya_difference(1 / parties, float(s)).p_value(groups[:, 0]) > FALSE_ALARM
    assert polya_difference(1 / parties, float(s)).p_value(groups[:, -1]) > FALSE_ALARM


def repeated(draw: Callable[[DeterministicRandom], Any], count: int, seed: int) -> Any:
    rng = DeterministicRandom(seed)
    return np.array([draw(rng) for _ in range(count)])


@pytest.mark.slow
@pytest.mark.parametrize(("n", "parties"), [(1, 5), (3, 10), (7, 4), (5, 2)])
def test_population_of_other_size_than_parties_has_shape_n_over_parties(n, parties):
    s = Fraction(1, 20)
    noise = repeated(lambda rng: polya_population(n, s, parties=parties, rng=rng), 1500, 50)
    assert noise.shape == (1500, n)
    assert polya_difference(n / parties, float(s)).p_value(noise.sum(axis=1)) > FALSE_ALARM
    for user in (0, n - 1):
        assert polya_difference(1 / parties, float(s)).p_value(noise[:, user]) > FALSE_ALARM


@pytest.mark.slow
@pytest.mark.parametrize("n", [95, 65], ids=["together", "one by one"])
def test_users_of_an_incomplete_last_group_have_their_noise(n: int) -> None:
    """Ten groups are drawn together and seven one by one; of the last, five users are there."""
    s = Fraction(1, 5)
    last = repeated(lambda rng: polya_population(n, s, parties=10, rng=rng)[-5:], 300, 76)
    assert polya_difference(0.5, float(s)).p_value(last.sum(axis=1)) > FALSE_ALARM
    assert polya_difference(0.1, float(s)).p_value(last.ravel()) > FALSE_ALARM


@pytest.mark.parametrize(
    ("sampler", "name"),
    [
        (lambda rng: polya_population(40_000, 0.5, parties=2, rng=rng), "in groups"),
        (lambda rng: polya(0.5, 0.5, 40_000, rng) - polya(0.5, 0.5, 40_000, rng), "one by one"),
    ],
)
def test_two_users_noise_is_jointly_independent(sampler, name):
    """Both samplers against the product of the exact laws, on the 7 x 7 pooled values."""
    pairs = np.clip(sampler(DeterministicRandom(51)).reshape(-1, 2), -3, 3) + 3
    law = polya_difference(0.5, 0.5)
    values = np.clip(law.first + np.arange(law.pmf.size), -3, 3) + 3
    one = np.bincount(values, weights=law.pmf)
    counts = np.bincount(7 * pairs[:, 0] + pairs[:, 1], minlength=49)
    assert p_value_bound(counts, np.outer(one, one).ravel()) > FALSE_ALARM
    # and the same test tells users who share their noise
    shared = np.bincount(8 * pairs[:, 0], minlength=49)
    assert p_value_bound(shared, np.outer(one, one).ravel()) < FALSE_ALARM


# Sizes and types


SAMPLERS: dict[str, Callable[..., Any]] = {
    "geometric": geometric,
    "discrete_laplace": discrete_laplace,
    "polya": lambda s, size=None, rng=None: polya(Fraction(1, 3), s, size, rng),
    "polya, shape above 1": lambda s, size=None, rng=None: polya(Fraction(7, 3), s, size, rng),
}
each_sampler = pytest.mark.parametrize("sampler", SAMPLERS.values(), ids=SAMPLERS.keys())


@each_sampler
def test_no_size_gives_a_python_int_and_a_size_an_int64_array(sampler: Callable[..., Any]) -> None:
    rng = DeterministicRandom(53)
    assert type(sampler(0.5, rng=rng)) is int
    for size in (0, 1, 1000):
        draws = sampler(0.5, size, rng)
        assert draws.shape == (size,)
        assert draws.dtype == np.int64


@each_sampler
def test_draws_that_do_not_fit_are_python_integers(sampler: Callable[..., Any]) -> None:
    """At s = 10^-30 a draw is below 10^28 with probability at most 0.25, so 60 of them never."""
    s = Fraction(1, 10**30)
    draws = sampler(s, 60, DeterministicRandom(54))
    assert draws.dtype == object
    assert all(type(v) is int for v in draws)
    assert max(abs(v) for v in draws) > 10**28
    assert max(abs(v) for v in draws) < 10**33
    assert type(sampler(s, rng=DeterministicRandom(55))) is int


def test_geometric_with_a_tiny_rate_has_the_exponential_law() -> None:
    """s X is exponential up to 1e-30: compare with uniform quantiles."""
    draws = geometric(Fraction(1, 10**30), 20_000, DeterministicRandom(56))
    uniform = -np.expm1(-np.array([float(Fraction(int(v), 10**30)) for v in draws]))
    assert p_value_bound(np.bincount((uniform * 20).astype(int)), np.full(20, 0.05)) > FALSE_ALARM


def test_huge_rates_give_zero() -> None:
    """P[not 0] is exp(-10^6) or less."""
    for s in (10**6, 10**30, 1e300, Fraction(10**40, 3)):
        assert not geometric(s, 100).any()
        assert not discrete_laplace(s, 100).any()
        assert not polya(Fraction(1, 2), s, 100).any()
        assert not polya_population(100, s).any()


@pytest.mark.parametrize("s", [Fraction(2**70 + 1, 2**70 + 3), Fraction(10**25, 3), 0.1, 1e-3])
def test_rates_with_long_fractions_work(s: Rate) -> None:
    draws = geometric(s, 5000, DeterministicRandom(57))
    assert polya_law(1, float(s)).p_value(draws) > FALSE_ALARM


def test_shapes_with_long_fractions_work() -> None:
    r = Fraction(2**70 + 1, 2**71)
    draws = polya(r, 0.1, 20_000, DeterministicRandom(58))
    assert polya_law(float(r), 0.1).p_value(draws) > FALSE_ALARM


def test_float_is_taken_at_its_exact_value() -> None:
    for sampler in SAMPLERS.values():
        by_float = sampler(0.1, 1000, DeterministicRandom(59))
        by_fraction = sampler(Fraction(0.1), 1000, DeterministicRandom(59))
        assert (by_float == by_fraction).all()


@pytest.mark.parametrize(("n", "parties"), [(1, 1), (1, 1000), (7, 3), (1000, 10), (1000, 1)])
def test_population_has_its_shape_and_type(n: int, parties: int) -> None:
    noise = polya_population(n, 0.01, parties=parties, rng=DeterministicRandom(60))
    assert noise.shape == (n,)
    assert noise.dtype == np.int64


def test_population_that_does_not_fit_is_of_python_integers() -> None:
    noise = polya_population(5, Fraction(1, 10**30), rng=DeterministicRandom(61))
    assert noise.dtype == object
    assert all(type(v) is int for v in noise)
    assert 2**63 <= max(abs(v) for v in noise) < 10**33


def test_noise_whose_jumps_fit_words_and_whose_sum_does_not_is_exact() -> None:
    """Mean jumps of 2^60 and more: the noise is what the same jumps are as Python integers."""
    s, beyond = Fraction(1, 1 << 63), 0
    for seed in range(40):
        rng, wanted = DeterministicRandom(seed), [0] * 5
        for sign in (1, -1):
            users, amounts = polya_jumps(5, Fraction(s), variables=1, parties=5, rng=rng)
            for user, amount in zip(users.tolist(), amounts.tolist(), strict=True):
                wanted[user] += sign * amount
        noise = polya_population(5, s, rng=DeterministicRandom(seed))
        assert [int(value) for value in noise] == wanted
        beyond += max(map(abs, wanted)) >= 1 << 63
    assert beyond > 5


def test_sums_of_words_beyond_a_word_are_exact() -> None:
    """Sixty geometric variables of mean 2^59: each fits a word, and together they do not."""
    draws = polya(60, Fraction(1, 1 << 59), 20, DeterministicRandom(75))
    assert draws.dtype == object
    assert min(draws) > 1 << 63


SCALES = [
    Fraction(1, 3), Fraction(2**40 + 1, 2**42),
    *(Fraction(1, (1 << k) + more) for k in (30, 31, 32, 61, 62, 63, 64) for more in (-1, 0, 1)),
    Fraction(3, 1 << 64), Fraction((1 << 63) + 1, 1 << 65), Fraction(1, 3 << 60),
]  # fmt: skip
AT_ANY_SCALE: dict[str, Callable[[Fraction, DeterministicRandom], Any]] = {
    "geometric": lambda s, rng: geometric(s, 60, rng),
    "discrete Laplace": lambda s, rng: discrete_laplace(s, 60, rng),
    "discrete Gaussian": lambda s, rng: discrete_gaussian(1 / s, 60, rng),
    "Polya": lambda s, rng: polya(Fraction(7, 3), s, 30, rng),
    "few groups": lambda s, rng: polya_population(20, s, parties=3, rng=rng),
    "many groups": lambda s, rng: polya_population(40, s, parties=3, rng=rng),
}


@pytest.mark.slow
@pytest.mark.points(len(AT_ANY_SCALE))
@pytest.mark.parametrize("sampler", AT_ANY_SCALE.values(), ids=AT_ANY_SCALE)
def test_draws_in_machine_words_are_those_in_python_integers(sampler, monkeypatch):
    """Around every size at which something stops to fit a word: the same, from the same source."""

    def first_cycle(remaining: NDArray[Any], rng: DeterministicRandom) -> NDArray[Any]:
        cycles = [1 + rng.integer(int(value)) for value in remaining]
        return np.array(cycles, dtype=remaining.dtype)

    monkeypatch.setattr(ikos.primitives.samplers, "_first_cycle", first_cycle)
    dtypes = set()
    for s in SCALES:
        found = sampler(s, DeterministicRandom(77))
        with monkeypatch.context() as patch:
            patch.setattr(ikos.primitives.samplers, "INT64_MAX", 0)
            wanted = sampler(s, DeterministicRandom(77))
        assert found.tolist() == wanted.tolist()
        dtypes.add(found.dtype.kind)
    assert dtypes == set("iO") or sampler is AT_ANY_SCALE["discrete Gaussian"]


def test_default_randomness_is_fresh() -> None:
    """Two runs of 100 draws agree with probability below 1e-100: no value has a tenth of it."""
    for sampler in SAMPLERS.values():
        assert (sampler(1e-6, 100) != sampler(1e-6, 100)).any()


# No floating point

FLOATING = {
    "exp", "expm1", "log", "log2", "log1p", "sqrt", "power", "random", "float", "float16",
    "float32", "float64", "floating", "double", "divide", "true_divide", "mean", "linspace",
}  # fmt: skip


def floating_point_in(source: str) -> list[str]:
    """Return the places in a module's code where floating point might come in."""
    found = []
    for node in ast.walk(ast.parse(source)):
        what = None
        if isinstance(node, ast.Constant) and isinstance(node.value, (float, complex)):
            what = f"the literal {node.value!r}"
        elif isinstance(node, (ast.BinOp, ast.AugAssign)) and isinstance(node.op, ast.Div):
            what = "a true division"
        elif isinstance(node, ast.Attribute) and node.attr in FLOATING:
            what = f"the attribute {node.attr}"
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            what = f"a call of {node.func.id}" if node.func.id in FLOATING else None
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            modules = [alias.name for alias in node.names] + [getattr(node, "module", "") or ""]
            if {"math", "cmath", "random", "scipy"} & {m.split(".")[0] for m in modules}:
                what = "an import of floating-point functions"
        if what:
            found.append(f"line {node.lineno}: {what}")
    return found


def test_noise_has_no_floating_point_in_its_code() -> None:
    source = Path(str(ikos.primitives.samplers.__file__)).read_text(encoding="utf-8")
    assert floating_point_in(source) == []


class IntegersOnly(np.ndarray[Any, Any]):
    """An integer array on which every operation that makes floats fails, and so for its results."""

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        plain = [np.asarray(v) if isinstance(v, IntegersOnly) else v for v in inputs]
        if "out" in kwargs:
            kwargs["out"] = tuple(
                np.asarray(v) if isinstance(v, IntegersOnly) else v for v in kwargs["out"]
            )
        result = getattr(ufunc, method)(*plain, **kwargs)
        dtype = np.asarray(result).dtype
        assert dtype.kind in "iubO", f"{ufunc.__name__} made {dtype}"
        return result.view(IntegersOnly) if isinstance(result, np.ndarray) else result


class IntegerSource(DeterministicRandom):
    """A source whose arrays notice floating point."""

    def uniform(self, q: int, size: int) -> Any:
        return super().uniform(q, size).view(IntegersOnly)

    def below(self, bounds: Any) -> Any:
        return super().below(np.asarray(bounds)).view(IntegersOnly)


@pytest.mark.points(1)
@pytest.mark.parametrize("s", [0.1, Fraction(1, 10**30)], ids=str)
def test_no_array_in_a_run_of_the_samplers_is_of_floats(s: Rate) -> None:
    rng = IntegerSource(62)
    for sampler in SAMPLERS.values():
        assert sampler(s, 200, rng).dtype.kind in "iO"
    assert polya_population(50, s, rng=rng).dtype.kind in "iO"
    assert skellam(s, 200, rng).dtype == np.int64
    with pytest.raises(AssertionError, match="made float64"):
        rng.uniform(10, 3) / 2


# Polya variables of a whole population, of any shape


def test_counts_of_a_population_have_the_polya_law() -> None:
    users, s = 20_000, 0.2
    for variables, parties in ((3, 40), (5, 2), (61, 7)):
        counts = polya_counts(
            users, s, variables=variables, parties=parties, rng=DeterministicRandom(70)
        )
        assert counts.dtype == np.int64
        assert polya_law(variables / parties, s).p_value(counts) > FALSE_ALARM
        assert polya_law(variables / parties / 1.2, s).p_value(counts) < FALSE_ALARM


def test_jumps_are_of_users_and_positive() -> None:
    users, amounts = polya_jumps(
        100, Fraction(0.1), variables=4, parties=30, rng=DeterministicRandom(73)
    )
    assert users.max() < 100
    assert amounts.min() >= 1


def test_jumps_beyond_machine_words_are_exact() -> None:
    rng = DeterministicRandom(74)
    _, amounts = polya_jumps(2, Fraction(1, 10**30), variables=3, parties=2, rng=rng)
    assert amounts.dtype == object
    assert amounts.sum() > 1 << 63


def test_one_draw_is_an_integer_and_several_an_array() -> None:
    """To the type checker too."""
    one, three = (assert_type(geometric(1), int), assert_type(geometric(1, 3), NDArray[Any]))
    assert (type(one), three.shape) == (int, (3,))
    assert_type(discrete_laplace(1), int)
    assert_type(discrete_laplace(1, 3), NDArray[Any])
    assert_type(discrete_gaussian(1), int)
    assert_type(discrete_gaussian(1, 3), NDArray[Any])
    assert_type(polya(1, 1), int)
    assert_type(polya(1, 1, 3), NDArray[Any])
