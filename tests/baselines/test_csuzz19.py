"""Shuffled bits, one or many per user: the exact law of what the analyzer sees, and errors."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from fractions import Fraction
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
import pytest
from exact.enumeration import Halves, Law, exact_law
from numpy.typing import NDArray
from scipy import stats
from statistical import FALSE_ALARM, IntegerLaw

from analysis.csuzz19_equivalent import response_counts, subset_counts
from ikos import View
from ikos.baselines import BinaryRandomizedResponse, UnaryEncoding
from ikos.results.confidence import clopper_pearson
from ikos.testing import DeterministicRandom


def seen(view: View) -> Hashable:
    return tuple(tuple(column.tolist()) for column in view.columns)


def view_law(protocol: Any, x: tuple[float, ...], *, streamed: bool = False) -> Law:
    values = np.array(x)

    def staged(rng: Any) -> Hashable:
        return seen(protocol.shuffle(protocol.randomize(values, rng), rng))

    def played(rng: Any) -> Hashable:
        return seen(protocol._view(values, rng))

    law, unfinished = exact_law(played if streamed else staged, Halves)
    assert unfinished == 0
    return law


def divergence(first: Law, second: Law, epsilon: float) -> float:
    gains = (float(p) - math.exp(epsilon) * float(second.get(y, 0)) for y, p in first.items())
    return sum(gain for gain in gains if gain > 0)


def worst_divergence(protocol: Any, values: tuple[float, ...]) -> float:
    """Return the largest over all neighbouring inputs; users are alike to the shuffler."""
    laws = {x: view_law(protocol, x) for x in combinations_with_replacement(values, protocol.n)}
    worst = 0.0
    for others in combinations_with_replacement(values, protocol.n - 1):
        ends = [laws[tuple(sorted((*others, value)))] for value in values]
        for one in ends:
            for other in ends:
                worst = max(worst, divergence(one, other, float(protocol.epsilon)))
    return worst


def halved(protocol: Any) -> Any:
    """Return the protocol with half of its random answers: the mutant."""
    object.__setattr__(protocol, "gamma", protocol.gamma / 2)
    return protocol


TINY: dict[str, Callable[[], Any]] = {
    "binary-2": lambda: BinaryRandomizedResponse(2, 1, 0.05),
    "binary-4": lambda: BinaryRandomizedResponse(4, 0.5, 0.03),
    "unary-1x3": lambda: UnaryEncoding(1, 1.5, 0.1, messages=3),
    "unary-2x2": lambda: UnaryEncoding(2, 1, 0.05, messages=2),
    "unary-3x2": lambda: UnaryEncoding(3, 1, 0.01, messages=2),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", TINY)
def test_the_view_is_private_and_hardly_more_than_needed(name: str) -> None:
    protocol = TINY[name]()
    values = (0.0, 0.25, 0.5, 0.75, 1.0) if protocol.n == 2 and "2x2" in name else (0.0, 0.5, 1.0)
    worst = worst_divergence(protocol, values)
    assert 0.98 * protocol.delta <= worst <= protocol.delta
    assert worst_divergence(halved(TINY[name]()), (0.0, 1.0)) > 1.5 * protocol.delta


@pytest.mark.parametrize("gamma", [Fraction(1, 2), Fraction(3, 10)])
def test_the_equivalent_algorithm_has_the_same_law(gamma: Fraction) -> None:
    for n in range(1, 6):
        for bits in combinations_with_replacement((0, 1), n):
            law = response_counts(bits, gamma)
            assert sum(law) == 1
            assert subset_counts(bits, gamma) == law


def test_the_law_is_that_of_the_view() -> None:
    protocol = BinaryRandomizedResponse(3, 1, 0.5, gamma=0.5)
    for bits in combinations_with_replacement((0, 1), 3):
        counts = response_counts(bits, Fraction(1, 2))
        law = {tuple([0] * (3 - ones) + [1] * ones): p for ones, p in enumerate(counts)}
        assert view_law(protocol, bits) == {(view,): p for view, p in law.items()}


@pytest.mark.parametrize(("n", "gamma"), [(1, 0.5), (4, 0.25), (6, 0.375)])
def test_a_given_gamma_has_the_delta_that_is_proved(n: int, gamma: float) -> None:
    laws = [response_counts([0] * (n - t) + [1] * t, Fraction(gamma)) for t in range(n + 1)]
    worst = max(
        sum(max(0.0, float(p) - math.e * float(q)) for p, q in zip(*pair, strict=True))
        for t in range(n)
        for pair in (laws[t : t + 2], laws[t : t + 2][::-1])
    )
    proved = BinaryRandomizedResponse(n, 1, 0.9, gamma=gamma).proved_delta
    assert worst <= proved < worst * 1.001
    for protocol in (
        BinaryRandomizedResponse(n, 1, proved, gamma=gamma),
        BinaryRandomizedResponse(n + 50, 1, 0.9, gamma=gamma, min_honest=n),
    ):
        assert protocol.gamma == gamma
        assert protocol.guarantee.delta == proved
    with pytest.raises(ValueError, match=r"^gamma must ask for more random answers"):
        BinaryRandomizedResponse(n, 1, math.nextafter(proved, 0), gamma=gamma)


@pytest.mark.slow
@pytest.mark.parametrize("accountant", ["composition"])
def test_composition_is_private_and_more_than_needed(accountant: str) -> None:
    protocol = UnaryEncoding(3, 1, 0.01, messages=2, accountant=accountant)
    assert worst_divergence(protocol, (0.0, 1.0)) < 0.9 * protocol.delta


@pytest.mark.parametrize("x", [(0.0, 1.0), (0.5, 0.5), (0.25, 0.75), (1.0, 0.25)])
def test_streaming_makes_the_same_view(x: tuple[float, ...]) -> None:
    protocol = UnaryEncoding(2, 1, 0.05, messages=2)
    assert view_law(protocol, x) == view_law(protocol, x, streamed=True)


def ones_law(zeros: int, ones: int, g: float, halves: int = 0) -> IntegerLaw:
    pmf = np.convolve(
        stats.binom.pmf(np.arange(zeros + 1), zeros, g),
        stats.binom.pmf(np.arange(ones + 1), ones, 1 - g),
    )
    return IntegerLaw(0, np.convolve(pmf, stats.binom.pmf(np.arange(halves + 1), halves, 0.5)))


def runs(protocol: Any, x: NDArray[np.float64], count: int, *, staged: bool) -> NDArray[np.int64]:
    rng = DeterministicRandom(5)
    found = []
    for _ in range(count):
        if staged:
            view = protocol.shuffle(protocol.randomize(x, rng), rng, order="permuted")
        else:
            view = protocol._view(x, rng)
        column = view.columns[0]
        found.append(column[1] if isinstance(protocol, UnaryEncoding) else column.sum())
    return np.array(found, dtype=np.int64)


@pytest.mark.slow
@pytest.mark.parametrize("staged", [False, True])
def test_the_law_of_the_count_at_a_larger_size(staged: bool) -> None:
    x = np.array([0.0, 1.0, 0.5, 0.0] * 50)
    g = 0.0
    for protocol in (
        BinaryRandomizedResponse(200, 1, 1e-4),
        UnaryEncoding(200, 1, 1e-4, messages=5),
    ):
        r = getattr(protocol, "messages", 1)
        g = float(protocol.gamma / 2)
        # half of five: two are 1, two are 0, one is a coin
        law = ones_law(100 * r + 50 * (r // 2), 50 * r + 50 * (r // 2), g, halves=50)
        found = runs(protocol, x, 3000, staged=staged)
        assert law.p_value(found) > FALSE_ALARM
        half = runs(halved(protocol), x, 3000, staged=staged)
        assert law.p_value(half) < FALSE_ALARM


def test_bits_are_the_papers_encoding() -> None:
    """Bits 1 to mu - 1 are 1, bit mu by chance, the rest 0, with mu = ceil(x r)."""
    protocol = UnaryEncoding(6, 1, 0.4, messages=4)
    object.__setattr__(protocol, "gamma", Fraction(0))
    x = np.array([0.0, 0.1, 0.25, 0.6, 0.99, 1.0])
    for seed in range(20):
        bits = protocol.randomize(x, DeterministicRandom(seed))
        for user, value in enumerate(x):
            mu = math.ceil(value * 4)
            assert bits[: max(mu - 1, 0), user].all()
            assert not bits[mu:, user].any()
    drawn = np.concatenate(
        [protocol.randomize(x, DeterministicRandom(s))[:, 3] for s in range(100, 400)]
    ).reshape(-1, 4)
    low, high = clopper_pearson(int(drawn[:, 2].sum()), 300, 1 - Fraction(FALSE_ALARM))
    assert low <= 0.6 * 4 - 2 <= high


def test_one_message_is_binary_randomized_response() -> None:
    one, other = BinaryRandomizedResponse(500, 1, 1e-5), UnaryEncoding(500, 1, 1e-5, messages=1)
    assert (one.gamma, one.mse, one.influence) == (other.gamma, other.mse, other.influence)


def test_debiasing_is_the_papers() -> None:
    protocol = BinaryRandomizedResponse(100, 1, 1e-3)
    lam = protocol.gamma * 100
    view = View((np.array([0] * 40 + [1] * 60, dtype=np.uint8),), None)
    assert protocol._totals(view, 100) == pytest.approx(float(100 / (100 - lam) * (60 - lam / 2)))


@pytest.mark.parametrize("accountant", ["exact", "composition", "csuzz19"])
def test_bits_are_as_random_as_the_honest_users_need(accountant: str) -> None:
    """Whatever accounts for them: those of no more users count."""

    def unary(n: int, **options: Any) -> UnaryEncoding:
        return UnaryEncoding(n, 1, 1e-6, messages=3, accountant=accountant, **options)

    few = unary(10**5)
    assert unary(10**7, min_honest=10**5).gamma == few.gamma > unary(10**7).gamma


@pytest.mark.points(0)
def test_defaults_and_published_accountants() -> None:
    assert UnaryEncoding(10**4, 0.5, 1e-4).messages == 50
    assert UnaryEncoding(10**4, 0.5, 1e-4).cost().messages_per_user == 50
    exact = BinaryRandomizedResponse(10**4, 1, 1e-8)
    published = BinaryRandomizedResponse(10**4, 1, 1e-8, accountant="csuzz19")
    assert published.gamma > 12 * exact.gamma
    assert "CSUZZ19" in published.guarantee.theorem
    composed = UnaryEncoding(10**4, 1, 1e-8, messages=5, accountant="composition")
    assert composed.gamma > UnaryEncoding(10**4, 1, 1e-8, messages=5).gamma
    with pytest.raises(ValueError, match="published"):
        UnaryEncoding(10**4, 1, 1e-8, accountant="csuzz19")
    assert UnaryEncoding(10**6, 1, 1e-6, messages=2, accountant="csuzz19").gamma < 0.1
