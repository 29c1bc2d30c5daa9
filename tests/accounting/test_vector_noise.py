"""Sensitivities of integer vectors, and discrete Gaussian noise against exact laws."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from ikos.data.sensitivity import Sensitivity, Shift
from ikos.noise.gaussian_noise import least_variance
from ikos.numeric.gaussian import gaussian_mu


def gaussian_law(variance: float, reach: int) -> Any:
    k = np.arange(-reach, reach + 1, dtype=np.float64)
    law = np.exp(-k * k / (2 * variance))
    return law / law.sum()


def exact_delta(law: Any, k: tuple[int, ...], epsilon: float) -> float:
    """Return the divergence of product laws shifted by k, up to what the laws' grids leave out."""
    most = max(map(abs, k))
    padded = np.pad(law, most)
    p, q = np.ones(1), np.ones(1)
    for shift in k:
        p = np.multiply.outer(p, padded).ravel()
        q = np.multiply.outer(q, np.roll(padded, shift)).ravel()
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum())


@pytest.mark.parametrize("k", [(1, 0), (0, 5), (3, 4), (2, 2)])
@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 0.1), (1.0, 1e-3), (4.0, 1e-2)])
def test_gaussian_variances_suffice_for_the_exact_law(k, epsilon, delta):
    """And hardly smaller ones do not, if noise is wider than a step."""
    square = sum(x * x for x in k)
    variance = float(least_variance(Fraction(epsilon), Fraction(delta), square))
    assert exact_delta(gaussian_law(variance, 100), k, epsilon) <= delta * (1 + 1e-12)
    if variance > 1:
        assert exact_delta(gaussian_law(0.92 * variance, 100), k, epsilon) > delta


@pytest.mark.parametrize("variance", [0.02, 0.16, 1, 5.5, 40])
def test_steps_of_the_discrete_gaussian_decrease(variance: float) -> None:
    """What the proof says of normal quantiles of its distribution function, in 60 digits."""
    with mpmath.workdps(60):
        v = mpmath.mpf(variance)
        weights = [mpmath.exp(-mpmath.mpf(k * k) / (2 * v)) for k in range(int(15 * v**0.5) + 20)]
        total = 2 * mpmath.fsum(weights) - 1
        quantiles, beyond = [], mpmath.fsum(weights[1:]) / total
        for weight in weights[1:]:
            if beyond < 1e-25:
                break
            quantiles.append(mpmath.sqrt(2) * mpmath.erfinv(1 - 2 * beyond))
            beyond -= weight / total
        steps = [2 * quantiles[0], *(b - a for a, b in itertools.pairwise(quantiles))]
        assert all(b < a for a, b in itertools.pairwise(steps))
        assert steps[0] == pytest.approx(2 * mpmath.sqrt(2) * mpmath.erfinv(1 / total))
        assert 1 / total <= 1 / mpmath.sqrt(2 * mpmath.pi * v)


@pytest.mark.parametrize("square", [3, 5, 6, 7, 11, 15])
def test_doubles_that_stand_for_roots_are_not_below_them(square: int) -> None:
    """A norm that is an irrational root is given as a double, which may be the one below."""
    assert Sensitivity(l2=math.sqrt(square)).steps(100).l2_squared == square


# Sensitivities


@given(
    st.lists(st.integers(-9, 9), min_size=1, max_size=6).filter(any),
    st.sampled_from(["l1", "l2", "linf"]),
)
def test_norms_that_follow_hold(k: list[int], known: str) -> None:
    norms = {
        "l1": sum(map(abs, k)),
        "l2": math.sqrt(sum(x * x for x in k)),
        "linf": max(map(abs, k)),
    }
    shift = Sensitivity(**{known: norms[known]}).steps(len(k))
    assert shift.l1 >= norms["l1"]
    assert shift.l2_squared >= sum(x * x for x in k)
    assert shift.linf >= norms["linf"]


@given(st.lists(st.tuples(*[st.floats(-3, 3)] * 4), min_size=1, max_size=5), st.integers(1, 50))
def test_rounding_of_both_vectors_is_covered(entries, scale):
    """Any rounding to a neighbouring step, of both vectors, stays within the shift."""
    x, y, up, down = (np.array(column) for column in zip(*entries, strict=True))
    difference = np.abs(x - y)
    if difference.max() < 1e-9:
        return
    sensitivity = Sensitivity(
        l1=float(difference.sum()) * (1 + 1e-12),
        l2=float(np.linalg.norm(difference)) * (1 + 1e-12),
        linf=float(difference.max()) * (1 + 1e-12),
    )
    shift = sensitivity.steps(len(entries), scale=scale, bias=0)
    first = np.where(up > 0, np.ceil(x * scale), np.floor(x * scale))
    second = np.where(down > 0, np.ceil(y * scale), np.floor(y * scale))
    k = np.abs(first - second).astype(int)
    assert k.sum() <= shift.l1
    assert (k * k).sum() <= shift.l2_squared
    assert k.max() <= shift.linf


@given(
    st.lists(st.tuples(st.integers(-24, 24), st.integers(-24, 24)), min_size=1, max_size=4),
    st.fractions(Fraction(1, 1000), Fraction(1, 2)),
)
def test_likely_norms_fail_with_at_most_the_probability(pairs, failing):
    """Of two vectors in eighths of a step, rounded at random: all outcomes, as fractions."""
    square = sum((x - y) ** 2 for x, y in pairs)
    shift = Shift(len(pairs), 10**6, 10**6, 10**6, Fraction(math.isqrt(square) + 1, 8))
    bound, _ = shift.likely(failing)
    law = {0: Fraction(1)}
    for pair in pairs:
        ups = [(v // 8, Fraction(v % 8, 8)) for v in pair]
        found: dict[int, Fraction] = {}
        for (total, p), up, down in itertools.product(law.items(), (0, 1), (0, 1)):
            (a, above), (b, below) = ups
            chance = (above if up else 1 - above) * (below if down else 1 - below)
            key = total + (a + up - b - down) ** 2
            found[key] = found.get(key, Fraction(0)) + p * chance
        law = found
    assert sum(p for total, p in law.items() if total > bound) <= failing


@pytest.mark.parametrize(("d", "apart"), [(64, 41), (300, 9), (1000, 1), (1000, 0)])
@pytest.mark.parametrize("failing", [Fraction(1, 50), Fraction(1, 10**10)])
def test_likely_norms_of_long_vectors_that_vary_most(d: int, apart: int, failing: Fraction) -> None:
    """Both vectors are halfway between steps: coordinates move by -1, 0, 1 with 1/4, 1/2, 1/4."""
    bound, _ = Shift(d, d**9, d**9, d, Fraction(apart * (math.isqrt(d - 1) + 1))).likely(failing)
    moved = np.arange(d + 1)  # by 1 in either direction
    chance = stats.binom.pmf(moved, d, 0.5)
    # with j of them by 1, the square is d apart^2 + 2 apart (2 j - moved) + moved
    least = np.floor((bound - d * apart**2 - moved + 2 * apart * moved) / (4 * max(apart, 1)))
    beyond = stats.binom.sf(least, moved, 0.5) if apart else (moved > bound) * 1.0
    assert (chance * beyond).sum() <= failing


@pytest.mark.parametrize(
    ("d", "steps", "conditional", "likely"),
    [(64, 256, 259.454035, 258.49), (1000, 512, 515.728419, 514.66)],
)
def test_likely_norms_are_below_those_of_conditional_rounding(d, steps, conditional, likely):
    """Half of the norm for two vectors of a ball, next to KLS21's for one; on the page."""
    level = math.sqrt(2 * math.log(1e10))
    published = math.sqrt(steps**2 + d / 4 + level * (steps + math.sqrt(d) / 2))
    assert published == pytest.approx(conditional, abs=1e-6)
    square, _ = Sensitivity(l2=2).steps(d, scale=steps, bias=0).likely(Fraction(1, 10**10))
    assert math.sqrt(square) / 2 == pytest.approx(likely, abs=0.005)


def test_likely_norms_of_several_sums_share_the_probability() -> None:
    one = Shift(64, 10**6, 10**6, 99, Fraction(500))
    several = Shift(64, 10**4, 10**6, 99, Fraction(500)).repeated(10)
    failing = Fraction(1, 10**8)
    assert several.likely(failing) == (10 * one.likely(failing / 10)[0], failing)
    # where they are no smaller, and without rounding, the bounds are those that cannot fail
    assert Shift(2, 99, 40, 99, Fraction(4)).likely(failing) == (40, 0)
    assert Shift(2, 99, 40, 99).likely(failing) == (40, 0)


def test_a_bias_moves_expectations_apart() -> None:
    """Of fine steps, where doubles are off by whole ones: in each of d coordinates."""
    shift = Sensitivity(l2=2).steps(9, scale=8, bias=Fraction(1, 2))
    assert shift.expected is not None
    assert Fraction(16 + 3 * 0.5) <= shift.expected < Fraction(17.5 + 1e-9)


def test_shifts_are_made_tight() -> None:
    assert Sensitivity(l1=2, linf=1).steps(100) == Shift(100, 2, 2, 1)
    assert Sensitivity(l2=math.sqrt(2)).steps(100) == Shift(100, 2, 2, 1)
    assert Sensitivity(linf=3).steps(4) == Shift(4, 12, 36, 3)
    assert Sensitivity(linf=9).steps(4, most=3) == Shift(4, 12, 36, 3)


# Inverses


@pytest.mark.parametrize("square", [1, 7, 10**12])
def test_variances_are_a_twelfth_above_those_of_gaussian_noise(square: int) -> None:
    for epsilon, delta in ((1, 1e-8), (0.1, 1e-5), (5, 1e-3)):
        variance = least_variance(Fraction(epsilon), Fraction(delta), square)
        analytic = square / gaussian_mu(epsilon, delta) ** 2
        assert analytic < variance
        assert variance < (analytic + 1 / 12) * (1 + 2e-7) + 0.01 / analytic


# Bad input


def test_sensitivities_that_are_none_or_below_a_step() -> None:
    with pytest.raises(ValueError, match="at least one of l1, l2, linf"):
        Sensitivity()
    with pytest.raises(ValueError, match="at least one step"):
        Sensitivity(l1=0.5).steps(3)
