"""Differential privacy of the private sum's view, computed exactly and not by any theorem.

The noise of a user modulo q has a closed form: the law whose discrete Fourier transform is
((1 - alpha)^2 / |1 - alpha w^j|^2)^r, w the q-th root of unity, with nothing cut off. Reports
are independent, so the view's law is a mixture (or, with one shuffler, a convolution) of exact
counts. Only alpha = exp(-epsilon / p) is irrational: laws are in doubles, and every comparison
leaves `ROUNDING` for that.

Inputs are the extremes 0 and 1 of each user: any other input is a mixture of roundings to
{0..p}, and the divergence is jointly convex; neighbours differ in one user.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable
from fractions import Fraction
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pytest
from exact.enumeration import view_law
from numpy.typing import NDArray
from scipy.signal import fftconvolve
from statistical import FALSE_ALARM, outcome_p_value, polya_law

from ikos import PrivateSum
from ikos.testing import DeterministicRandom

ROUNDING = 1e-11
SETTINGS = [("parallel", False), ("single", False), ("parallel", True), ("single", True)]


def noise_modulo(q: int, r: float, s: float) -> NDArray[np.float64]:
    """Return the law modulo q of the difference of two Polya(r, exp(-s)) variables."""
    alpha = math.exp(-s)
    root = np.exp(2j * np.pi * np.arange(q) / q)
    transform = ((1 - alpha) ** 2 / np.abs(1 - alpha * root) ** 2) ** r
    law = np.fft.fft(transform).real / q
    assert abs(law.sum() - 1) < 1e-13
    return law


@pytest.mark.parametrize(("q", "r", "s"), [(3, 0.5, 1.0), (4, 1 / 3, 0.25), (7, 1.0, 2.0)])
def test_noise_modulo_q_is_the_folded_law(q: int, r: float, s: float) -> None:
    law = polya_law(r, s).minus(polya_law(r, s))
    residues = (law.first + np.arange(law.pmf.size)) % q
    folded = np.bincount(residues, weights=law.pmf, minlength=q)
    np.testing.assert_allclose(noise_modulo(q, r, s), folded, atol=1e-13)


def hockey_stick(first: NDArray[np.float64], second: NDArray[np.float64], epsilon: float) -> float:
    """Return the smallest delta at which the first law is within e^epsilon of the second."""
    return float(np.maximum(first - math.exp(epsilon) * second, 0).sum())


# One shuffler, no clear share: a user's report is a vector of counts, and reports add up


@cache
def multiset_laws(q: int, m: int) -> NDArray[np.float64]:
    """Return, for each value y, the law of the counts of residues 1..q-1 among its m shares."""
    counts = np.zeros((q, *(m + 1,) * (q - 1)))
    counts[0].flat[0] = 1
    for _ in range(m):
        new = np.zeros_like(counts)
        for y in range(q):
            for residue in range(q):
                moved = counts[(y - residue) % q]
                if residue:
                    moved = np.roll(moved, 1, axis=residue - 1)  # the last slice is empty till m
                new[y] += moved
        counts = new
    return counts / float(q) ** (m - 1)


def single_view_law(
    x: tuple[int, ...], noise: NDArray[np.float64], q: int, m: int
) -> NDArray[np.float64]:
    """Return the law of the counts of residues in the view of inputs x with this noise each."""
    laws = multiset_laws(q, m)
    view = np.ones((1,) * (q - 1))
    for value in x:
        report = sum(noise[k] * laws[(value + k) % q] for k in range(q))
        view = fftconvolve(view, report)
    assert abs(view.sum() - 1) < 1e-12
    return np.maximum(view, 0)


def single_view_delta(
    users: int, noise: NDArray[np.float64], q: int, m: int, p: int, epsilon: float
) -> float:
    """Return the largest divergence between inputs that differ in the first user."""
    worst = 0.0
    for others in product((0, p), repeat=users - 1):
        low, high = (single_view_law((x, *others), noise, q, m) for x in (0, p))
        worst = max(worst, hockey_stick(low, high, epsilon), hockey_stick(high, low, epsilon))
    return worst


def test_multiset_laws_count_what_the_enumeration_counts() -> None:
    for q, m in [(2, 3), (3, 2), (3, 3), (4, 2)]:
        for y in range(q):
            expected = np.zeros((m + 1,) * (q - 1))
            for (columns, _), chance in view_law((y,), q, m, "single", False).items():
                shares = columns[0]
                expected[tuple(shares.count(residue) for residue in range(1, q))] += float(chance)
            np.testing.assert_allclose(multiset_laws(q, m)[y], expected, atol=1e-15)


def private_sum(n: int, epsilon: Any, q: int, p: int, **options: Any) -> PrivateSum:
    options = {"delta": 0.5, "shuffler": "single", "clear_share": False} | options
    delta = options.pop("delta")
    return PrivateSum(n, epsilon, delta, precision=p, modulus=q, **options)


@pytest.mark.parametrize(
    ("n", "q", "epsilon", "delta"),
    [
        *((2, q, epsilon, delta) for q in (3, 4) for epsilon in (Fraction(1, 2), 1, 2)
          for delta in (0.5, 0.01)),
        (3, 4, 1, 0.25),
    ],
)  # fmt: skip
def test_a_private_sum_is_as_private_as_it_states(
    n: int, q: int, epsilon: Fraction | int, delta: float
) -> None:
    protocol = private_sum(n, epsilon, q, 1, delta=delta, analysis="ishai2006")
    guarantee = protocol.guarantee
    assert guarantee.delta <= delta
    noise = noise_modulo(q, 1 / n, float(protocol.noise.rate))
    true = single_view_delta(n, noise, q, protocol.messages.total, 1, guarantee.epsilon)
    assert true <= guarantee.delta
    if delta == 0.5:  # smaller ones fall below what doubles resolve
        assert true > ROUNDING
    # The shares hide imperfectly: with fewer of them the same computation finds the leak.
    leaking = single_view_delta(n, noise, q, 2, 1, guarantee.epsilon)
    assert leaking > max(true, 0.001)


@pytest.mark.slow
def test_users_with_a_finer_encoding_are_as_private_as_stated() -> None:
    """p = 2: the noise is of rate epsilon / 2, the sensitivity 2."""
    protocol = private_sum(2, 1, 5, 2, delta=0.5, analysis="ishai2006")
    assert protocol.noise.rate == Fraction(1, 2)
    noise = noise_modulo(5, 1 / 2, 0.5)
    true = single_view_delta(2, noise, 5, protocol.messages.total, 2, 1.0)
    assert true <= protocol.guarantee.delta
    # Noise of rate epsilon, as if the sensitivity were 1, breaks even the sum's own guarantee.
    total = noise_modulo(5, 1, 1.0)
    assert hockey_stick(total, np.roll(total, 2), 1.0) > 0.001


@pytest.mark.parametrize("epsilon", [Fraction(1, 2), 1])
def test_guarantee_with_min_honest_survives_a_colluding_user(epsilon: Fraction | int) -> None:
    """Three users, noise for two: one adds no noise and shows its shares to the analyzer.

    The others' part of the view is then a view of two. With all three honest it is no worse
    than stated either, and without the larger noise the collusion would break the guarantee.
    """
    protocol = private_sum(3, epsilon, 4, 1, min_honest=2, analysis="ishai2006")
    assert protocol.min_honest == 2
    m, guarantee = protocol.messages.total, protocol.guarantee
    noise = noise_modulo(4, 1 / 2, float(protocol.noise.rate))
    assert single_view_delta(2, noise, 4, m, 1, guarantee.epsilon) <= guarantee.delta
    assert single_view_delta(3, noise, 4, m, 1, guarantee.epsilon) <= guarantee.delta
    # Noise for three, added by two: no number of messages makes up for it.
    for shares in (m, m + 5):
        weak = noise_modulo(4, 1 / 3, float(protocol.noise.rate))
        strong = single_view_delta(2, noise, 4, shares, 1, guarantee.epsilon)
        assert single_view_delta(2, weak, 4, shares, 1, guarantee.epsilon) > strong + 0.01


# All settings, by brute force


def noisy_view_law(
    x: tuple[int, ...], noise: NDArray[np.float64], q: int, m: int, shuffler: str, clear: bool
) -> dict[Hashable, float]:
    law: dict[Hashable, float] = defaultdict(float)
    for shifts in product(range(q), repeat=len(x)):
        chance = math.prod(float(noise[k]) for k in shifts)
        for view, p in plain_view_law(
            tuple((v + k) % q for v, k in zip(x, shifts, strict=True)), q, m, shuffler, clear
        ).items():
            law[view] += chance * p
    return dict(law)


@cache
def plain_view_law(
    y: tuple[int, ...], q: int, m: int, shuffler: str, clear: bool
) -> dict[Hashable, float]:
    return {view: float(p) for view, p in view_law(y, q, m, shuffler, clear).items()}


@pytest.mark.points(0)
@pytest.mark.parametrize(("shuffler", "clear"), SETTINGS)
@pytest.mark.parametrize("draws", [1500, pytest.param(5000, marks=pytest.mark.slow)])
def test_library_views_of_private_sums_fit_the_computed_law(
    shuffler: str, clear: bool, draws: int
) -> None:
    """Encoding, noise, shares and shufflers together; proved false-alarm rate 1e-9."""
    q, m, x = 3, 2, (0, 1)
    total = m if not clear else 2
    shuffled = total - clear
    protocol = private_sum(2, 1, q, 1, messages=total, shuffler=shuffler, clear_share=clear)
    rng = DeterministicRandom(80)

    def drawn() -> Hashable:
        view = protocol.shuffle(protocol.randomize(x, rng), rng)
        columns = tuple(tuple(column.tolist()) for column in view.columns)
        return columns, None if view.clear is None else tuple(view.clear.tolist())

    sample = [drawn() for _ in range(draws)]
    law = noisy_view_law(x, noise_modulo(q, 1 / 2, 1.0), q, shuffled, shuffler, clear)
    assert outcome_p_value(sample, law) > FALSE_ALARM
    halved = noisy_view_law(x, noise_modulo(q, 1 / 4, 1.0), q, shuffled, shuffler, clear)
    assert outcome_p_value(sample, halved) < FALSE_ALARM


@pytest.mark.slow
@pytest.mark.parametrize("draws", [1500, pytest.param(5000, marks=pytest.mark.slow)])
def test_library_views_with_min_honest_carry_the_larger_noise(draws: int) -> None:
    """Two users, either of whom must be covered alone: Polya(1) noise each, not Polya(1/2)."""
    protocol = private_sum(2, 1, 3, 1, messages=2, min_honest=1)
    rng = DeterministicRandom(81)
    views = (protocol.shuffle(protocol.randomize((0, 1), rng), rng) for _ in range(draws))
    sample = [((tuple(view.columns[0].tolist()),), None) for view in views]
    for shape, fits in ((1, True), (1 / 2, False)):
        law = noisy_view_law((0, 1), noise_modulo(3, shape, 1.0), 3, 2, "single", False)
        assert (outcome_p_value(sample, law) > FALSE_ALARM) == fits
