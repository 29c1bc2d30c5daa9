from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from itertools import permutations
from typing import Any

import gmpy2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from ikos.accounting import flooding_gkmps21
from ikos.accounting.flooding_gkmps21 import (
    Flood,
    Flooding,
    atom,
    certified_flooding,
    decomposition,
    flooding_delta,
    negative_binomial_divergence,
    paper_flooding,
    paper_weights,
    rate_down,
    shift_moments,
    weighted_size,
)


def negative_binomial(shape: float, rate: float, length: int) -> NDArray[np.float64]:
    return np.asarray(stats.nbinom.pmf(np.arange(length), shape, -math.expm1(-rate)))


def length_of(shape: float, rate: float, left: float) -> int:
    return int(stats.nbinom.isf(left, shape, -math.expm1(-rate))) + 2


# The view's law, multiset by multiset: no decomposition, no theorem


def view_law(flooding: Flooding, left: float) -> tuple[NDArray[np.float64], list[int]]:
    """Return the law of the numbers of each message, without the values' own.

    Axes are the messages that occur; what is cut off has probability ``1 - law.sum()``.
    """
    parts = [((1,), 1.0, float(flooding.central)), ((-1,), 1.0, float(flooding.central))]
    for flood in flooding.floods:
        parts += [(atom(i), float(flood.shape), float(flood.rate)) for i in flood.atoms]
    axes = sorted({message for messages, _, _ in parts for message in messages})
    laws = [negative_binomial(r, a, length_of(r, a, left)) for _, r, a in parts]
    reach = [1] * len(axes)
    for (messages, _, _), pmf in zip(parts, laws, strict=True):
        for message, copies in Counter(messages).items():
            reach[axes.index(message)] += copies * (pmf.size - 1)
    law = np.zeros(reach)
    law[(0,) * len(axes)] = 1.0
    for (messages, _, _), pmf in zip(parts, laws, strict=True):
        step = Counter(messages)
        fresh = np.zeros_like(law)
        for k, p in enumerate(pmf):
            moved = [k * step[axis] for axis in axes]
            into = tuple(slice(m, None) for m in moved)
            source = tuple(slice(None, n - m) for m, n in zip(moved, reach, strict=True))
            fresh[into] += p * law[source]
        law = fresh
    return law, axes


def divergence(law: NDArray[np.float64], axes: list[int], x: int, y: int, epsilon: float) -> float:
    """Return the hockey-stick divergence of the views of values x and y, without what is cut."""

    def with_message(value: int) -> NDArray[np.float64]:
        at = axes.index(value) if value else None
        return np.pad(law, [(1, 0) if i == at else (0, 1) for i in range(law.ndim)])

    def padded(value: int) -> NDArray[np.float64]:
        if value:
            return with_message(value)
        return np.pad(law, [(0, 1)] * law.ndim)

    return float(np.maximum(padded(x) - math.exp(epsilon) * padded(y), 0.0).sum())


def exact_bounds(flooding: Flooding, epsilon: float, left: float) -> tuple[float, float]:
    """Return a lower and an upper bound of the largest divergence over all pairs of values."""
    law, axes = view_law(flooding, left)
    cut = max(0.0, 1.0 - float(law.sum()))
    worst = max(
        divergence(law, axes, x, y, epsilon) for x, y in permutations(range(flooding.steps + 1), 2)
    )
    return worst - math.exp(epsilon) * cut, worst + cut


SETTINGS = [(1, 1.0, 1e-3), (1, 0.5, 1e-6), (2, 4.0, 0.01), (2, 6.0, 1e-4)]


def certified(steps: int, epsilon: float, delta: float) -> Flooding:
    central = rate_down(Fraction(epsilon) * Fraction(1, 2) / steps)
    return certified_flooding(steps, central, epsilon, delta)


@pytest.mark.slow
@pytest.mark.parametrize(("steps", "epsilon", "delta"), SETTINGS)
def test_exact_view_has_the_certified_delta(steps: int, epsilon: float, delta: float) -> None:
    """And a twentieth of the flooding is not private."""
    flooding = certified(steps, epsilon, delta)
    _, upper = exact_bounds(flooding, epsilon, delta * 1e-4)
    assert upper <= flooding.delta <= delta
    lower, _ = exact_bounds(weaker(flooding, 20), epsilon, delta * 1e-4)
    assert lower > delta


def weaker(flooding: Flooding, times: int) -> Flooding:
    """Return floods with a shape divided by ``times``."""
    floods = tuple(replace(flood, shape=flood.shape / times) for flood in flooding.floods)
    return replace(flooding, floods=floods)


@pytest.mark.slow
@pytest.mark.parametrize("dropped", [0, 1])
def test_every_flood_is_needed(dropped: int) -> None:
    flooding = certified(2, 6.0, 1e-4)
    kept = tuple(flood for i, flood in enumerate(flooding.floods) if i != dropped)
    none = Flood((1, 2), Fraction(1, 1000), Fraction(9))
    lower, _ = exact_bounds(replace(flooding, floods=(*kept, none)), 6.0, 1e-8)
    assert lower > 1e-4
    assert flooding_delta(replace(flooding, floods=kept), 6.0, 3e-5) == 1.0


@pytest.mark.slow
def test_certificate_sees_what_is_too_little() -> None:
    flooding = certified(10, 1.0, 1e-8)
    fewer = tuple(replace(f, rate=f.rate * 3) for f in flooding.floods)
    assert (
        flooding_delta(flooding, 1.0, 3e-9)
        <= 1e-8
        < flooding_delta(replace(flooding, floods=fewer), 1.0, 3e-9)
    )
    assert flooding_delta(flooding, 0.5, 3e-9) > 1e-8  # below what the central noise takes


def test_paper_constants_are_private_for_the_exact_view() -> None:
    epsilon, delta = 6.0, 0.5  # large, so that the law can be enumerated
    central = rate_down(3.0)
    flooding = paper_flooding(1, central, epsilon - 3.0, delta)
    _, upper = exact_bounds(flooding, epsilon, 1e-8)
    assert upper <= delta
    assert upper <= flooding.delta


# Decompositions


@pytest.mark.parametrize("steps", [1, 2, 12, 100])
def test_messages_are_ones_and_atoms(steps: int) -> None:
    parts = decomposition(steps)
    for x in range(steps + 1):
        total = Counter({1: x})
        for i, count in zip(parts.atoms[:, x].tolist(), parts.counts[:, x].tolist(), strict=True):
            for message in atom(i) if count else ():
                total[message] += count if i > 0 else -count
        for message in atom(1):
            total[message] += int(parts.pairs[x])
        assert {m: c for m, c in total.items() if c} == ({x: 1} if x else {})


@given(st.integers(2, 10**9), st.sampled_from([1, -1]))
def test_atoms_add_up_to_nothing(size: int, sign: int) -> None:
    first, *halves = atom(sign * size)
    assert first == sign * size
    assert sum(halves) == -first
    assert abs(halves[0] - halves[1]) <= 1


def test_paper_weights_hold_every_message() -> None:
    for steps in (1, 2, 3, 4, 5, 8, 9, 16, 17, 100, 1000, 1024, 1025):
        assert weighted_size(steps, paper_weights(steps)) <= 1


def test_weights_by_a_natural_logarithm_do_not() -> None:
    steps = 1024
    gamma = steps * (math.ceil(math.log(steps)) + 1)
    i = np.arange(1, steps + 1)
    weights = np.concatenate(([0], -(-gamma // i)))
    assert weighted_size(steps, weights) > 1


@pytest.mark.points(1)
@pytest.mark.parametrize(
    ("steps", "epsilon", "delta"),
    [
        pytest.param(steps, *budget, marks=[pytest.mark.slow] * (steps in (10, 100)))
        for steps in (1, 2, 10, 100, 1000)
        for budget in ((0.01, 1e-12), (1.9, 0.01))
    ],
)
def test_paper_constants_hold_and_the_certified_are_fewer(steps, epsilon, delta):
    central = rate_down(9 * epsilon / steps)
    paper = paper_flooding(steps, central, epsilon, delta)
    assert paper.delta <= delta
    if steps <= 100:
        whole = float(central * steps) + epsilon
        assert certified_flooding(steps, central, whole, delta).mean < paper.mean


# Shifts of the negative binomial law


def direct(shape: float, rate: float, d: int, epsilon: float) -> float:
    f = negative_binomial(shape, rate, length_of(shape, rate, 1e-18) + d)
    here, there = np.append(f, np.zeros(d)), np.append(np.zeros(d), f)
    e = math.exp(epsilon)
    return max(
        float(np.maximum(here - e * there, 0).sum()), float(np.maximum(there - e * here, 0).sum())
    )


@given(st.integers(1, 60), st.floats(0.01, 20), st.integers(1, 30), st.floats(0.001, 5))
def test_divergence_is_that_of_the_sum(shape: int, rate: float, d: int, epsilon: float) -> None:
    exact = direct(shape, rate, d, epsilon)
    computed = float(negative_binomial_divergence(shape, rate, d, epsilon)[0])
    assert exact <= computed + 1e-15
    assert computed <= exact * (1 + 1e-6) + 1e-7


BITS = 1000


def tail(r: int, rate: float, k: int) -> Any:
    """Return P[K >= k]: fewer than r successes in k + r - 1 trials."""
    if k <= 0:
        return gmpy2.mpfr(1)
    odds, trials = gmpy2.expm1(gmpy2.mpfr(rate)), k + r - 1
    term = total = gmpy2.exp(-gmpy2.mpfr(rate) * trials)
    for j in range(r - 1):
        term *= gmpy2.mpfr(trials - j) / (j + 1) * odds
        total += term
    return total


def true_divergence(r: int, rate: float, d: int, epsilon: float) -> Any:
    """Return the divergence in 1000 bits, at the thresholds where losses cross epsilon."""

    def first(level: Any) -> int:
        low, high = d - 1, d
        while rising(high) > level:
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if rising(middle) <= level else (middle, high)
        return high

    def rising(k: int) -> Any:
        return sum((gmpy2.log1p(gmpy2.mpfr(d) / (k - d + j)) for j in range(1, r)), gmpy2.mpfr(0))

    with gmpy2.context(precision=BITS):
        worst, e = gmpy2.mpfr(rate) * d, gmpy2.exp(gmpy2.mpfr(epsilon))
        k = first(epsilon + worst)
        found = (1 - tail(r, rate, k)) - e * (1 - tail(r, rate, k - d))
        if epsilon < worst:
            k = first(worst - epsilon)
            found = max(found, tail(r, rate, k - d) - e * tail(r, rate, k))
        return found


@pytest.mark.slow
@pytest.mark.parametrize("rate", [1e-13, 1e-7, 0.1, 5.0])
@pytest.mark.parametrize("shape", [1, 2, 16, pytest.param(120, marks=pytest.mark.slow)])
def test_divergences_are_not_below_the_truth_however_small_the_rate(shape, rate):
    for part in (1e-6, 1e-3, 0.1):
        d = max(1, round(part / rate))
        for epsilon in (0.1 * rate * d, 0.999999 * rate * d, 3 * rate * d, 50 * rate * d):
            exact = true_divergence(shape, rate, d, epsilon)
            computed = negative_binomial_divergence(shape, rate, d, epsilon)[0]
            assert exact <= computed
            # the slack, of the divergence and of the probability of its event
            assert computed <= exact * (1 + 1e-6) + 3e-8


def test_paper_constants_at_a_small_epsilon() -> None:
    """The first flood alone has a divergence of 1.67e-20; cancellation once hid most of it."""
    noise = paper_flooding(100, Fraction(1, 10**8), 1e-5 / 2, 1e-3)
    first = noise.floods[0]
    shape = math.ceil(first.shape)  # more noise
    rate = float(first.rate)
    assert true_divergence(shape, rate, 100, 1e-5 / 4) <= noise.delta <= 1e-3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rate": 0.0}, "rate must be greater than 0, got 0.0"),
        ({"rate": 101.0}, "rate must be at most 100"),
        ({"shape": 0}, "shape must be at least 1"),
    ],
)
def test_bad_shifts(change: dict[str, Any], message: str) -> None:
    given: dict[str, Any] = {"shape": 2, "rate": 0.5, "shift": [1, 2], "epsilon": 0.1} | change
    with pytest.raises(ValueError, match=message):
        negative_binomial_divergence(**given)


def test_what_no_flooding_is_is_refused() -> None:
    flood = Flood((1, 2), Fraction(4), Fraction(1, 100))
    flooding = Flooding(2, Fraction(1, 10), (flood,), 1.0)
    assert flooding_delta(flooding, 4.0, 1e-3) < 1
    assert flooding_delta(flooding, 4.0, 2.0) == 1
    for change, message in (
        ({"rate": Fraction(0)}, "rate must be"),
        ({"rate": Fraction(101)}, "rate must be"),
        ({"shape": Fraction(5000)}, "shape must be at most 4096"),
        ({"shape": Fraction(5, 2)}, "floods must have integer shapes"),
    ):
        with pytest.raises(ValueError, match=message):
            flooding_delta(replace(flooding, floods=(replace(flood, **change),)), 4.0, 1e-3)


@pytest.mark.parametrize(("shape", "rate", "d"), [(1, 0.3, 2), (5, 0.05, 1), (20, 0.01, 7)])
def test_moments_are_those_of_the_sum(shape: int, rate: float, d: int) -> None:
    orders = np.array([0.5, 3.0, 20.0])
    found = shift_moments(shape, rate, np.array([d]), orders, 1e-3)
    f = negative_binomial(shape, rate, length_of(shape, rate, 1e-18))
    log_f = np.log(f)
    first = int(np.searchsorted(np.cumsum(f), found.lost * (1 - 1e-6))) + 1 if found.lost else 0
    blocks = 0.05 * rate * d / math.sqrt(shape) + 1e-6  # part of the loss's standard deviation
    for j, order in enumerate(orders):
        up = np.log(np.sum(f[:-d] * np.exp(order * (log_f[:-d] - log_f[d:]))))
        assert up <= found.up[0, j] <= up * 1.05 + order * blocks
        if first < d:
            assert found.down[0, j] == math.inf
        else:
            k = np.arange(first, f.size)
            down = np.log(np.sum(f[k] * np.exp(order * (log_f[k] - log_f[k - d]))))
            assert max(down, 0) <= found.down[0, j] <= max(down, 0) * 1.05 + order * blocks


# The certificate against the loss of the hardest pair, composed exactly


def losses(
    shape: float, rate: float, d: int, up: bool, width: float
) -> tuple[int, NDArray[np.float64]]:
    """Return the law of the loss under a shift, in cells of a width; infinite ones left out."""
    f = negative_binomial(shape, rate, length_of(shape, rate, 1e-16))
    p, q = np.append(f, np.zeros(d)), np.append(np.zeros(d), f)
    if up:
        p, q = q, p
    both = (p > 0) & (q > 0)
    cells = np.round(np.log(p[both] / q[both]) / width).astype(np.int64)
    least = int(cells.min())
    return least, np.bincount(cells - least, weights=p[both])


@pytest.mark.slow
@pytest.mark.parametrize("steps", [4, pytest.param(10, marks=pytest.mark.slow)])
def test_certificate_covers_composed_losses(steps: int) -> None:
    flooding, width = certified(steps, 1.0, 1e-6), 2e-3
    parts, s = decomposition(steps), float(flooding.central)
    of = {i: flood for flood in flooding.floods for i in flood.atoms}
    shifts = {
        i: c if i > 0 else -c
        for i, c in zip(
            parts.atoms[:, steps].tolist(), parts.counts[:, steps].tolist(), strict=True
        )
        if c
    }
    worst = 0.0
    for sign in (1, -1):  # from the largest value to 0 and back, D's loss at its largest
        pair = int(parts.pairs[steps]) if sign == 1 else -int(parts.pairs[steps]) - steps
        low, total = 0, np.ones(1)
        for i, c in [*shifts.items(), (1, sign * pair)]:
            d = sign * c
            if not d:
                continue
            flood = of[i]
            least, pmf = losses(float(flood.shape), float(flood.rate), abs(d), d > 0, width)
            low, total = low + least, np.convolve(total, pmf)
        loss = (low + np.arange(total.size)) * width + s * steps
        worst = max(worst, float(np.sum(total * np.maximum(-np.expm1(1.0 - loss), 0.0))))
    # D has its largest loss with a probability above 1/2
    assert 1e-12 < worst / 2 <= flooding.delta


@pytest.mark.slow
@pytest.mark.parametrize("cells", [1, pytest.param(8, marks=pytest.mark.slow)])
def test_runs_of_values_only_add_to_delta(cells: int, monkeypatch: pytest.MonkeyPatch) -> None:
    flooding = certified(20, 1.0, 1e-6)
    exact = flooding_delta(flooding, 1.0, 3e-7)
    monkeypatch.setattr(flooding_gkmps21, "_CELLS", cells)
    assert exact <= flooding_delta(flooding, 1.0, 3e-7)


def largest_moment(
    s: float, order: float, here: Any, there: Any, up: Any, down: Any, pairs: NDArray[np.int64]
) -> float:
    """Return the largest log moment by definition: pair by pair of values, and sum by sum."""
    worst = -math.inf
    for x, y in permutations(range(pairs.size), 2):
        for t in range(-2, pairs.size + 2):
            loss = s * (abs(t - y) - abs(t - x))
            shift = max(x - t, 0) - max(y - t, 0) + int(pairs[x] - pairs[y])
            pair = float((up if shift > 0 else down)[abs(shift), 0])
            worst = max(worst, order * loss + pair + float(here[0, x] + there[0, y]))
    return worst


@pytest.mark.parametrize("steps", [1, 3, 9])
@pytest.mark.parametrize("s", [0.05, 1.0])
def test_largest_moment_is_over_all_pairs_and_sums(steps, s, monkeypatch):
    rng, order = np.random.default_rng(steps), np.array([2.0])
    grid = np.arange(2 * steps + 1)
    pairs, none = decomposition(steps).pairs, np.zeros(steps + 1, dtype=np.int64)
    tables = []
    for slope in (0.1, 0.5, 2.0, 8.0):
        for _ in range(2):
            rises = rng.uniform(0, slope, (2, grid.size, 1))
            rises[:, 0] = 0
            tables.append((np.cumsum(rises, axis=1), pairs))
    for jump in range(1, steps + 1):  # as high as D's loss
        step = np.where(grid >= jump, order[0] * s * steps, 0.0)[:, np.newaxis]
        tables.append((np.array([step, 0 * step]), none))
    for (up, down), shifts in tables:
        here, there = rng.uniform(0, 0.2, (2, 1, steps + 1)) * (shifts is pairs)
        table = flooding_gkmps21.ShiftMoments(grid, up, down, 0.0)
        worst = largest_moment(s, 2.0, here, there, up, down, shifts)
        for cells in (1, 3, steps + 1):  # runs of values, and each by itself
            monkeypatch.setattr(flooding_gkmps21, "_CELLS", cells)
            found = flooding_gkmps21._worst(steps, s, order, here, there, table, shifts)
            assert worst <= found[0] * (1 + 1e-12)  # the certificate adds a part of 1e-9
        # sums t are taken in three parts, with the largest loss and the largest shift of each
        assert found[0] <= worst * 1.55


def test_pairs_that_are_not_refined_are_not_the_worst(monkeypatch: pytest.MonkeyPatch) -> None:
    """For each of several orders, the same as if all pairs of runs were looked at."""
    steps, order = 150, np.array([0.5, 1.0, 4.0])
    pairs, grid = decomposition(steps).pairs, np.arange(2 * steps + 1)
    for seed, scale in enumerate((0.01, 0.1, 1.0)):
        rng = np.random.default_rng(seed)
        here, there = rng.uniform(0, 1, (2, 3, steps + 1))
        up, down = np.cumsum(rng.uniform(0, scale, (2, grid.size, 3)), axis=1)
        table = flooding_gkmps21.ShiftMoments(grid, up, down, 0.0)
        found = flooding_gkmps21._worst(steps, 0.01, order, here, there, table, pairs)
        with monkeypatch.context() as patch:
            patch.setattr(flooding_gkmps21, "_WIDTHS", (1,))
            every = flooding_gkmps21._worst(steps, 0.01, order, here, there, table, pairs)
        assert found.tolist() == every.tolist()


def test_rates_are_rounded_down() -> None:
    for rate in (1e-9, 0.3, 1.0, 7.7, Fraction(1, 3)):
        rounded = rate_down(rate)
        assert rate * (1 - Fraction(1, 2**19)) <= rounded <= rate
        assert rounded.denominator < 1 << 62
