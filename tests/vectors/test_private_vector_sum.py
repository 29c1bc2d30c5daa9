"""PrivateVectorSum: exact laws of views, noise, errors, parameters, and what is refused.

Statistical tests have a proved false-alarm rate of at most 1e-9 each, at fixed sizes.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from baselines.views import noise_modulo, view_law
from exact.share_graph import Group
from numpy.typing import NDArray
from statistical import FALSE_ALARM, discrete_laplace_law, skellam_delta, skellam_law

from ikos import Ball, Box, Categories, PrivateSum, PrivateVectorSum, SparseTernary
from ikos.baselines import CentralGaussian
from ikos.counts import private_vector_layouts, skellam
from ikos.counts.analyses import checked_scheme
from ikos.counts.hockey_stick import NoiseJumps, divergences
from ikos.counts.share_graph import ShareGraph
from ikos.counts.types import Trust
from ikos.data.domains import Bounds, Domain
from ikos.data.encoding import Encoding
from ikos.data.reading import Participation
from ikos.data.sensitivity import Sensitivity, Shift
from ikos.noise.base import Noise as VectorNoise
from ikos.noise.laplace_noise import LaplaceNoise
from ikos.noise.skellam_noise import SkellamNoise
from ikos.results.conditions import PROMISED
from ikos.testing import DeterministicRandom
from ikos.transports.base import Need
from ikos.transports.shares_budget import SharesBudget

ROOT = Path(__file__).resolve().parents[2]
ONES = Sensitivity(linf=1)


def delta_of_noise(epsilon: float, noise: VectorNoise, shift: Shift) -> float:
    if isinstance(noise, LaplaceNoise):
        return 0.0 if noise.rate * shift.l1 <= Fraction(epsilon) else 1.0
    square, failing = shift.likely(Fraction(noise.delta) / 200)
    return skellam_delta(Fraction(epsilon), noise.variance, square) + float(failing)


def budget(
    users: int,
    shift: Shift,
    *,
    releases: int = 1,
    clear: bool = True,
    analysis: str = "second_moment",
    reserve: Fraction = Fraction(1, 100),
    length: int = 1,
) -> SharesBudget:
    """Return how vectors of users who all are honest are planned, for (1, 1e-6)."""
    domain = Box(shift.dimension)  # whatever has this shift
    wanted = domain, Fraction(1), Fraction(1, 10**6)
    need = Need(Participation(users, users), *wanted, shift, releases, scalar=False)
    trust = Trust("parallel", clear, users)
    return SharesBudget(need, trust, analysis, reserve, length, overhead=48)


def rate_of(protocol: PrivateVectorSum) -> Fraction:
    assert isinstance(protocol.noise, LaplaceNoise)
    return protocol.noise.rate


def variance_of(protocol: PrivateVectorSum) -> Fraction:
    assert isinstance(protocol.noise, SkellamNoise)
    return protocol.noise.variance


def share_modulo(q: int, protocol: PrivateVectorSum, noise: VectorNoise) -> NDArray[Any]:
    """Return the law modulo q of one user's share of noise."""
    if isinstance(noise, LaplaceNoise):
        return noise_modulo(q, 1 / protocol.min_honest, float(noise.rate))
    return skellam_modulo(q, float(noise.variance) / protocol.min_honest)


def skellam_modulo(q: int, variance: float) -> NDArray[Any]:
    law = skellam_law(variance)
    places = (law.first + np.arange(law.pmf.size)) % q
    return np.bincount(places, weights=law.pmf, minlength=q)


LAYOUTS: list[Any] = ["separate", "group", 3]


# Privacy of the view, exactly


def product_delta(protocol: PrivateVectorSum, inputs: Any, changed: Any, epsilon: float) -> float:
    """Return the divergence of the views of two inputs, each coordinate behind a shuffler.

    Noise and shares of different coordinates are independent, and the view's law a product.
    """
    n, q, m = protocol.n, protocol.modulus, protocol.layout.count.shuffled
    noises = (share_modulo(q, protocol, protocol.noise),) * n
    laws = []
    for vectors in (inputs, changed):
        law = np.ones(1)
        for c in range(protocol.dimension):
            column = tuple(row[c] for row in vectors)
            law = np.multiply.outer(law, view_law(column, noises, q, m).ravel()).ravel()
        laws.append(law)
    return float(np.maximum(laws[0] - math.exp(epsilon) * laws[1], 0).sum())


def worst_delta(protocol: PrivateVectorSum, epsilon: float) -> float:
    bits = list(itertools.product((0, 1), repeat=2))
    worst = 0.0
    for others in itertools.product(bits, repeat=protocol.n - 1):
        for first, second in itertools.permutations(bits, 2):
            pair = (first, *others), (second, *others)
            worst = max(worst, product_delta(protocol, *pair, epsilon))
    return worst


TINY: list[Any] = [
    {"n": 2, "modulus": 3, "messages": 6},
    {"n": 2, "modulus": 3, "messages": 10},
    {"n": 2, "modulus": 3, "messages": 14},
    pytest.param({"n": 3, "modulus": 4, "messages": 3}, marks=pytest.mark.slow),
]


@pytest.mark.points(1)
@pytest.mark.parametrize("setting", TINY, ids=str)
@pytest.mark.parametrize(
    ("epsilon", "delta", "method"), [(1, 0.5, "skellam"), (2, 0.1, "skellam"), (1, 1e-3, "laplace")]
)
def test_the_views_divergence_is_at_most_delta(setting, epsilon, delta, method):
    """Two coordinates, inputs of 0 and 1, every pair of neighbours."""
    protocol = PrivateVectorSum(
        domain=Box(2), epsilon=epsilon, delta=delta, integers=True, shuffler="single",
        clear_share=False, **setting,
    )  # fmt: skip
    assert protocol.noise.kind == method
    proved = protocol.guarantee.delta
    assert worst_delta(protocol, epsilon) <= proved + 1e-11


@cache
def shares_of_one(moduli: tuple[int, ...], m: int, base: int) -> list[NDArray[np.int64]]:
    """Return the multisets of m shares, as numbers, their sums, and how often each occurs."""
    group, found = Group(moduli), Counter({(0, 0): 1})
    for _ in range(m):
        longer: Counter[tuple[int, int]] = Counter()
        for (seen, total), count in found.items():
            for share in range(group.q):
                longer[seen + base**share, group.add(total, share)] += count
        found = longer
    return [np.array(column) for column in (*zip(*found, strict=True), tuple(found.values()))]


def block_law(protocol: PrivateVectorSum, rows: Any) -> NDArray[Any]:
    """Return the law of the view of a block behind one shuffler, by ascending multisets."""
    q, m, b = protocol.modulus, protocol.layout.count.shuffled, len(rows[0])
    seen, sums, counts = shares_of_one((q,) * b, m, m * len(rows) + 1)
    noise, views, law = share_modulo(q, protocol, protocol.noise), np.zeros(1, int), np.ones(1)
    for row in rows:
        chances = np.ones(1)
        for value in row[::-1]:  # the first coordinate is the lowest digit of an element
            chances = np.multiply.outer(chances, np.roll(noise, value)).ravel()
        own = chances[sums] * counts / q ** (b * (m - 1))
        views, places = np.unique(np.add.outer(views, seen), return_inverse=True)
        law = np.bincount(places.ravel(), np.multiply.outer(law, own).ravel())
    return law


@pytest.mark.slow
@pytest.mark.parametrize(
    ("messages", "epsilon", "delta", "method"),
    [
        (5, 0.3, 0.5, "skellam"),
        (5, 0.05, 0.5, "skellam"),
        pytest.param(6, 1, 0.001, "laplace", marks=pytest.mark.slow),
    ],
)
def test_the_divergence_of_the_views_of_blocks_is_at_most_delta(messages, epsilon, delta, method):
    """Two users, three coordinates: a block of two and a shorter one."""
    protocol = PrivateVectorSum(
        2, Box(3), epsilon, delta, integers=True, modulus=3, layout=2, messages=messages,
        shuffler="single", clear_share=False,
    )  # fmt: skip
    assert (protocol.noise.kind, protocol.transport.blocks) == (method, (slice(0, 2), slice(2, 3)))
    proved, other = protocol.guarantee.delta, (0, 1, 1)
    laws = []
    for x in ((0, 0, 0), (1, 1, 1)):
        parts = [block_law(protocol, (x[cut], other[cut])) for cut in protocol.transport.blocks]
        laws.append(np.multiply.outer(*parts))
    assert laws[0].sum() == pytest.approx(1, abs=1e-9)
    true = np.maximum(laws[0] - math.exp(epsilon) * laws[1], 0).sum()
    assert 0 < true <= proved < 1


@pytest.mark.parametrize(
    ("epsilon", "delta", "d"), [(1, 0.5, 2), (2, 0.1, 2), (0.3, 0.02, 2), (1, 0.3, 1)]
)
def test_noise_alone_nearly_reaches_delta_and_less_of_it_exceeds_it(epsilon, delta, d):
    """One user, a large group: nothing is hidden but by noise of two coordinates or releases."""
    protocol = PrivateVectorSum(
        1, Box(d), epsilon, delta, integers=True, modulus=600, messages=2, releases=3 - d
    )

    def exact(variance: float) -> float:
        law = skellam_modulo(600, variance)
        first = np.multiply.outer(law, law)
        second = np.multiply.outer(np.roll(law, 1), np.roll(law, 1))
        return float(np.maximum(first - math.exp(epsilon) * second, 0).sum())

    assert protocol.guarantee.proved
    assert protocol.layout.count.noise_epsilon == epsilon
    variance = float(variance_of(protocol))
    assert 0.3 * delta <= exact(variance) <= protocol.guarantee.delta + 1e-11
    assert exact(variance / 2) > delta


# Budgets


@pytest.mark.slow
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("analysis", ["second_moment", "balle2020"])
@pytest.mark.parametrize("domain", [Box(64), Ball(64), Categories([40])], ids=str)
def test_budgets_are_kept(domain: Domain, analysis: str, layout: Any) -> None:
    for n, epsilon, delta in ((100, 1.0, 1e-8), (10**5, 0.3, 1e-5)):
        protocol = PrivateVectorSum(n, domain, epsilon, delta, layout=layout, analysis=analysis)
        assert protocol.guarantee.epsilon == epsilon
        assert 0 < protocol.guarantee.delta <= delta
        count, shift = protocol.layout.count, protocol.encoding.shift(domain.dimension)
        level = count.noise_epsilon
        assert level is not None
        assert 0.99 * epsilon <= level <= epsilon
        noise = delta_of_noise(level, protocol.noise, shift)
        assert noise <= protocol.noise.delta
        assert protocol.noise.delta <= protocol.guarantee.delta
        fewer = PrivateVectorSum(
            n, domain, epsilon, delta, layout=layout, analysis=analysis,
            messages=count.total - 1, modulus=protocol.modulus,
        )  # fmt: skip
        assert fewer.guarantee.delta > delta


def test_pure_noise_has_the_messages_of_the_layouts() -> None:
    protocol = PrivateVectorSum(10_000, Categories([100]), 1, 1e-8, modulus=2**15)
    _, expected = private_vector_layouts(10_000, 2**15, 1, 1e-8, 1, 100, sensitivity=2)
    assert protocol.noise.kind == "laplace"
    assert protocol.layout == expected
    group = PrivateVectorSum(10_000, Categories([100]), 1, 1e-8, modulus=2**15, layout="group")
    assert group.layout == private_vector_layouts(10_000, 2**15, 1, 1e-8, 1, 100, sensitivity=2)[0]


@pytest.mark.slow
@pytest.mark.filterwarnings("error")
def test_groups_beyond_what_a_double_holds_are_searched_for() -> None:
    protocol = PrivateVectorSum(500, Categories([100]), 1, 1e-8, layout="group")
    assert protocol.guarantee.delta <= 1e-8


@pytest.mark.slow
def test_one_coordinate_is_the_scalar_private_sum() -> None:
    scalar = PrivateSum(100, 1, 1e-8, precision=128)
    vector = PrivateVectorSum(100, Box(1), 1, 1e-8, precision=128)
    assert vector.modulus == scalar.modulus
    assert rate_of(vector) == scalar.noise.rate
    assert vector.layout.count.total == scalar.messages.total
    assert vector.mse == pytest.approx(scalar.mse)
    assert vector.influence == scalar.influence


@pytest.mark.parametrize(
    ("n", "d", "messages", "bits", "error"),
    [(10**4, 64, 6, 23, 10.33), (10**5, 64, 6, 26, 10.33), (10**6, 64, 5, 30, 10.31),
     (10**4, 1000, 7, 24, 10.27), (10**5, 1000, 6, 27, 10.27), (10**6, 1000, 6, 30, 10.31)],
)  # fmt: skip
def test_gradients_have_the_messages_and_errors_of_the_documentation(n, d, messages, bits, error):
    protocol = PrivateVectorSum(n, Ball(d), 1, 1e-8)
    assert (protocol.layout.count.total, protocol.layout.bits_per_message) == (messages, bits)
    assert error - 0.01 < math.sqrt(protocol.mse / d) <= error
    page = (ROOT / "docs" / "skellam.md").read_text("utf-8")
    power = f"$10^{round(math.log10(n))}$"
    assert f"| {power} | {d:,} | {messages} | {bits} | {error:.2f} |" in page


@pytest.mark.parametrize(
    "protocol",
    [
        PrivateSum(2000, 1, 1e-6, min_honest=1000),
        PrivateVectorSum(2000, Categories([3]), 1, 1e-6, min_honest=1000),
        PrivateVectorSum(2000, Ball(64), 1, 1e-6, min_honest=1000),
        PrivateVectorSum(2000, Box(200, 0, 3), 1, 1e-6, min_honest=1000, integers=True),
    ],
    ids=lambda protocol: protocol.noise.kind,
)
def test_each_user_adds_noise_of_its_own_to_the_error(protocol: Any) -> None:
    """Twice as many users as must be honest: twice the variance, of noise and of rounding."""
    half, whole = (protocol.error(users) for users in (1000, 2000))
    assert whole.mean_square == pytest.approx(2 * half.mean_square, rel=1e-3)
    steps = protocol.encoding.step**2 * protocol.dimension
    noise = protocol.noise.deviation**2 * steps
    rounding = 0 if protocol.encoding.exact else 2000 / 4 * steps
    assert whole.mean_square == pytest.approx(2 * noise + rounding, rel=1e-3)


def test_reserve_bounds_what_is_spent_on_hiding() -> None:
    protocol = PrivateVectorSum(10**4, Ball(64), 1, 1e-8, reserve=0)
    assert protocol.layout.count.noise_epsilon == 1.0
    assert (
        protocol.layout.count.total > PrivateVectorSum(10**4, Ball(64), 1, 1e-8).layout.count.total
    )


def test_a_single_honest_user_hides_behind_the_noise() -> None:
    protocol = PrivateVectorSum(3, Box(50), 1, 1e-6, min_honest=1)
    assert protocol.noise.kind == "skellam"
    assert protocol.guarantee.delta <= 1e-6
    assert protocol.layout.count.total <= 2


def test_what_is_given_is_labelled() -> None:
    bare = PrivateVectorSum(100, Ball(8), 1, 1e-8, messages=1)
    assert not bare.guarantee.proved
    assert bare.guarantee.conditions == ()
    hiding = budget(10, ONES.steps(100), reserve=Fraction(0))
    assert hiding.proved(2**10, 0)[0].delta == 1
    assert not hiding.pure


# What is proved, from its parts


def chained(
    moments: tuple[float, float], c: float, level: float, noise: float, times: int
) -> float:
    """Return the delta of T releases by the chain of views, each within D_(1+c) <= eta."""
    apart, excess = moments
    if c == 0:
        return (1 + math.exp(level)) * times * math.sqrt(apart / 2) + noise
    eta = (math.sqrt(apart / (2 * c)) + math.sqrt(c * excess / 4)) ** 2
    grown = (1 + c) ** times
    each = (1 + (1 + c) * math.exp(level)) * eta
    return times * (1 + c) ** (2 * times - 2) * each + grown * noise


@pytest.mark.parametrize("clear", [True, False])
@pytest.mark.parametrize(
    ("length", "dimension", "times", "messages"),
    [
        (1, 64, 1, 7),
        (1, 64, 30, 7),
        (1, 20, 30, 8),
        (1, 3, 2, 8),
        (2, 3, 2, 10),
        (5, 64, 1, 14),
        (5, 20, 30, 14),
        (64, 64, 1, 86),
        (64, 64, 30, 86),
        (20, 20, 30, 30),
    ],
)
def test_exact_hiding_proves_no_more_than_its_parts(length, dimension, times, messages, clear):
    """The divergences of one block, put together here: several blocks, T releases."""
    hiding = budget(500, ONES.steps(dimension), clear=clear, length=length, releases=times)
    sums, order = math.ceil(dimension / length), 2 ** (10 * length)
    graph = ShareGraph(messages, "parallel", clear)
    # for the budget's share of the hiding, and for the least delta that there is
    tried = [
        way
        for allowed in (Fraction(1, 10**8), Fraction(1, 10**30))
        for way in hiding._ways(2**10, graph, allowed)
    ]
    assert tried
    for way in tried:
        c = float(way.relative)
        assert way.noise_epsilon + 2 * times * math.log1p(c) <= 1 + 1e-12
        noise = delta_of_noise(way.noise_epsilon, way.noise, ONES.steps(dimension * times))
        if isinstance(way.noise, LaplaceNoise):
            jumps = NoiseJumps.discrete_laplace(500, way.noise.rate, length)
            one = divergences(order, graph, jumps)
            excess = float(one.excess)
            difference = float(one.difference) * (1 + excess) ** (sums - 1)
            difference *= sums if clear else sums**2
        else:
            one = skellam.divergences(2**10, graph, 500, way.noise.variance, length, 1)
            excess = float(one.excess)
            difference = float(one.difference) / (1 + excess)
            difference *= sums * (1 + excess) ** (sums - 1) * (1 + sums * excess)
            if not clear:
                difference = math.expm1(sums * math.log1p(excess)) / 2
        together = (difference, math.expm1(sums * math.log1p(excess)))
        least = chained(together, c, way.noise_epsilon, noise, times)
        assert min(1, least) * (1 - 1e-9) <= way.delta <= 1
    best = hiding.proved(2**10, messages)[0]
    assert best.delta is not None
    if clear:
        assert best.delta in [way.delta for way in tried]


@pytest.mark.parametrize(
    ("length", "dimension", "times", "messages"),
    [
        (1, 64, 1, 9),
        (1, 64, 30, 9),
        (1, 20, 30, 10),
        (5, 64, 1, 15),
        (64, 64, 1, 91),
        (20, 20, 30, 33),
    ],
)
def test_hiding_by_the_lemma_proves_no_more_than_its_parts(length, dimension, times, messages):
    """(1 + e^eps0) 2^-sigma for each release, where d sums lose log2 d bits."""
    hiding = budget(500, ONES.steps(dimension), analysis="balle2020", length=length, releases=times)
    found, rate = hiding.proved(2**10, messages)
    level, delta = found.count.noise_epsilon, found.delta
    assert level == 1
    assert delta is not None
    sums, order = math.ceil(dimension / length), 2 ** (10 * length)
    one = checked_scheme(500, order, analysis="balle2020", shuffler="parallel",
        clear_share=True).proved(messages)  # fmt: skip
    hidden = times * (1 + math.e) * sums * 2**-one.sigma
    noise = delta_of_noise(1, rate, ONES.steps(dimension * times))
    assert (hidden + noise) * (1 - 1e-9) <= delta < 1
    assert hidden > 1e-6 * noise  # so that it shows


# Noise and errors


@pytest.mark.points(1)
@pytest.mark.parametrize("present", [10, 20])
def test_the_noise_is_discrete_laplace_in_every_coordinate(present: int) -> None:
    """Of zeros nothing is left but noise; with twice the users, of two variables."""
    protocol = PrivateVectorSum(
        20, Categories([2000]), 1, 1e-3, min_honest=10, messages=2, modulus=2**20
    )
    x, rng = np.zeros((present, 2000)), DeterministicRandom(3)
    x[:, 0] = 1
    runs = [protocol.run(x, rng).estimate - x.sum(axis=0) for _ in range(2)]
    noise = np.concatenate(runs).astype(np.int64)
    law = discrete_laplace_law(float(rate_of(protocol)))
    if present == 20:
        assert law.p_value(noise) < FALSE_ALARM
        law = law.minus(law)  # symmetric: the law of the sum
    assert law.p_value(noise) > FALSE_ALARM


@pytest.mark.points(1)
@pytest.mark.parametrize("present", [10, 20])
def test_the_noise_is_skellam_in_every_coordinate(present: int) -> None:
    """Of zeros nothing is left but noise; with twice the users, of twice the variance."""
    protocol = PrivateVectorSum(20, Box(2000), 9, 1e-3, integers=True, min_honest=10, messages=2)
    x, rng = np.zeros((present, 2000)), DeterministicRandom(3)
    noise = np.concatenate([protocol.run(x, rng).estimate for _ in range(2)]).astype(np.int64)
    variance = float(variance_of(protocol))
    assert skellam_law(variance * present / 10).p_value(noise) > FALSE_ALARM
    assert skellam_law(variance * present / 20).p_value(noise) < FALSE_ALARM


@pytest.mark.points(0)
@pytest.mark.slow
def test_the_noise_of_different_coordinates_is_independent() -> None:
    """Products of neighbouring coordinates' noise average out."""
    protocol = PrivateVectorSum(5, Box(4000), 100, 1e-3, integers=True, messages=2)
    rng, deviation = DeterministicRandom(4), protocol.noise.deviation
    noise = protocol.run(np.zeros((5, 4000)), rng).estimate / deviation
    products = np.clip(noise[::2] * noise[1::2], -4, 4)
    # Hoeffding: 2000 products within [-4, 4], of mean 0 by symmetry
    assert abs(products.mean()) < 8 * math.sqrt(math.log(2 / FALSE_ALARM) / (2 * 2000))


def test_a_wrapped_sum_is_within_the_window() -> None:
    """A modulus that is too small: intervals become the window, the error bound grows."""
    small = PrivateVectorSum(10, Box(2), 1, 1e-3, integers=True, modulus=11)
    assert small.error(10).wrap_probability > 0.1
    result = small.run(np.zeros((10, 2)), DeterministicRandom(7))
    low, high = result.interval(0.99)
    assert (high - low >= 20).all()
    assert small.mse > PrivateVectorSum(10, Box(2), 1, 1e-3, integers=True).mse
    assert PrivateVectorSum(10, Box(2), 1, 1e-3, integers=True).error(10).wrap_probability <= 2**-39


@pytest.mark.points(1)
@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.95, 0.999])
def test_intervals_of_integers_end_at_integers(confidence: float) -> None:
    """As those of numbers do; of real numbers they do not."""
    box = PrivateVectorSum(50, Box(1, -2, 3), 1, 1e-6, integers=True)
    line = PrivateSum(50, 1, 1e-6, lower=-2, upper=3, integers=True)
    assert rate_of(box) == line.noise.rate
    assert box.modulus == line.modulus
    x = np.arange(50) % 6 - 2
    found = box.run(x[:, np.newaxis], DeterministicRandom(8))
    number = line.run(x, DeterministicRandom(8))
    (low,), (high,) = found.interval(confidence)
    ends = number.interval(confidence)
    assert low - found.estimate[0] == ends.low - number.estimate
    assert high - found.estimate[0] == ends.high - number.estimate
    for domain, one in (
        (Categories([2, 3]), [1, 0, 0, 1, 0]),
        (SparseTernary(4, 2), [1, 0, -1, 0]),
    ):
        result = PrivateVectorSum(50, domain, 1, 1e-6).run([one] * 50)
        assert result.error.integers
        for simultaneous in (False, True):
            band = np.array(result.interval(confidence, simultaneous=simultaneous))
            assert (band == np.rint(band)).all()
            assert (band[0] < band[1]).all()
    real = PrivateVectorSum(50, Ball(2), 1, 1e-6)
    assert not real.error(50).integers
    band = real.run([[0.6, 0.8]] * 50).interval(confidence)
    assert (band.low != np.rint(band.low)).any()


def test_no_integer_within_reach_is_left_out() -> None:
    """P[abs(error) > half width] is at most what may be missed, and more for one step less."""
    protocol = PrivateVectorSum(50, Box(1, 0, 4), 1, 1e-6, integers=True)
    alpha = math.exp(-rate_of(protocol))
    for miss in (0.5, 0.3, 0.1, 0.05, 1e-3):
        reach = protocol.error(50).coordinate.half_width(miss)
        assert reach == int(reach)
        tail = [2 * alpha ** (t + 1) / (1 + alpha) for t in (reach, reach - 1)]
        assert tail[0] <= miss < tail[1]


# One interface


def test_one_user_reaches_the_influence_and_no_more() -> None:
    protocol = PrivateVectorSum(4, Box(2, -1, 1), 1, 0.5, precision=3, modulus=16, messages=3)
    honest = protocol.randomize(np.zeros((4, 2)), DeterministicRandom(10))
    estimates = []
    for first, second in itertools.product(range(16), repeat=2):
        messages = honest.copy()
        messages[-1, 0] = (first, second)
        estimates.append(protocol.analyze(protocol.shuffle(messages)).estimate)
    apart = max(np.linalg.norm(a - b) for a, b in itertools.combinations(estimates, 2))
    assert apart == pytest.approx(protocol.influence)


def test_what_blocks_of_vectors_hold_is_refused_where_it_is() -> None:
    protocol = PrivateVectorSum(4, Box(2, -1, 1), 1, 1e-3, sensitivity=Sensitivity(linf=1))
    with pytest.raises(ValueError, match=r"^x\[3, 1\] must be in"):
        protocol.run(iter([np.zeros((2, 2)), [[0, 0], [0, 3]]]))
    with pytest.raises(ValueError, match=r"^x\[2\] must differ from x\[0\]"):
        protocol.run(iter([np.full((2, 2), 0.9), np.full((2, 2), -0.9)]))
    with pytest.raises(
        ValueError, match=r"^x must hold one value for each of the n = 4 users, got at least 6"
    ):
        protocol.run(iter([np.zeros((3, 2))] * 5))


@pytest.mark.parametrize("epsilon", [pytest.param(1e3, marks=pytest.mark.slow), 1e5])
def test_noise_that_underflows_on_a_coarse_grid_takes_a_finer_one(epsilon: float) -> None:
    protocol = PrivateVectorSum(5, Ball(3), epsilon, 0.4)
    assert protocol.encoding.precision > 2 * epsilon
    assert 0 < protocol.mse < 100 / epsilon**2


# Promises


def test_a_promised_sensitivity_shrinks_the_noise() -> None:
    loose = PrivateVectorSum(100, Box(50), 1, 1e-8, integers=True)
    close = PrivateVectorSum(
        100, Box(50), 1, 1e-8, integers=True, sensitivity=Sensitivity(l1=2, linf=1)
    )
    assert close.noise.deviation < loose.noise.deviation / 10
    assert close.noise == PrivateVectorSum(100, Categories([50]), 1, 1e-8).noise
    assert PROMISED in close.guarantee.conditions
    assert PROMISED not in loose.guarantee.conditions


@pytest.mark.parametrize("proved", [False, True])
def test_promises_that_the_data_break_are_refused(proved: bool) -> None:
    """Also if the caller says that they are proved: it is no condition then, but checked."""
    protocol = PrivateVectorSum(
        3, Box(4), 1, 1e-3, integers=True, sensitivity=Sensitivity(l1=2, linf=1, proved=proved)
    )
    assert (PROMISED in protocol.guarantee.conditions) != proved
    kept = [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 0, 1]]
    protocol.run(kept)
    for use in (protocol.run, protocol.randomize):
        with pytest.raises(ValueError, match=r"x\[2\] must differ from x\[0\] by at most 2 in l1"):
            use([*kept[:2], [0, 1, 1, 1]])


def test_in_linf_norm_all_pairs_are_compared() -> None:
    """Both are within the promise of the first vector, and not of each other."""
    protocol = PrivateVectorSum(3, Box(2, -1, 1), 1, 1e-3, sensitivity=Sensitivity(linf=1))
    said = r"x\[2\] must differ from x\[1\] by at most 1 in linf, as promised$"
    for use in (protocol.run, protocol.randomize):
        use([[0, 0], [0.5, 0.5], [-0.5, 0.5]])
        with pytest.raises(ValueError, match=said):
            use([[0, 0], [0.5, 0.75], [0.5, -0.75]])


def test_rounded_vectors_of_promised_sensitivity_stay_within_the_shift() -> None:
    """Every rounding of two vectors one unit apart in l1, three steps to a unit."""
    protocol = PrivateVectorSum(
        5, Box(3), 1, 1e-3, precision=3, sensitivity=Sensitivity(l1=1, linf=0.5)
    )
    shift = protocol.encoding.shift(3)
    first, second = np.array([0.1, 0.5, 0.9]), np.array([0.6, 0.4, 0.5])
    worst = np.zeros(3)
    for ups in itertools.product((0, 1), repeat=6):
        a = np.floor(3 * first) + ups[:3]
        b = np.floor(3 * second) + ups[3:]
        k = np.abs(a - b)
        worst = np.maximum(worst, [k.sum(), (k * k).sum(), k.max()])
    assert (worst <= [shift.l1, shift.l2_squared, shift.linf]).all()
    assert shift.l1 <= 3 + 6


def test_two_roundings_of_close_vectors_are_two_steps_apart() -> None:
    """0.34 and 0.32 are 0.06 steps apart: with an error of one step in all, no two would be."""
    protocol = PrivateVectorSum(5, Box(1), 1, 1e-3, precision=3, sensitivity=Sensitivity(l1=0.02))
    rng = DeterministicRandom(14)
    high, low = (
        set(protocol.encoding.encode(np.full((1, 2000), value), rng)[0].tolist())
        for value in (0.34, 0.32)
    )
    assert (high, low) == ({1, 2}, {0, 1})
    assert protocol.encoding.shift(1).l1 == max(high) - min(low) == 2


def test_the_shift_counts_with_the_rounding_of_doubles() -> None:
    """Scaling at 2^45 steps is off by a part of 2^-50 of them: below a step, but not nothing."""
    encoding = Encoding(
        Bounds(0, 1), False, Sensitivity(l1=Fraction(1, 2)), True, precision=1 << 45
    )
    shift = encoding.shift(1000)
    assert shift.l1 == (1 << 44) + 1000 * 2 + math.floor(1000 * Fraction(1, 1 << 5))


@pytest.mark.slow
def test_vectors_of_a_ball_are_no_further_apart_than_the_noise_counts_with() -> None:
    """Those that are taken for rounding are in it: two opposite ones are 2 + 2e-9 apart."""
    domain = Ball(1, 3.0)
    ends = np.array([[3.0], [-3.0]]) * (1 + 0.999e-9)
    assert (domain.values(ends) == ends).all()
    promise = PrivateVectorSum(100, domain, 1, 1e-6, precision=2**40).encoding.promise
    assert promise is not None
    assert promise.l2 is not None
    assert promise.l2 >= Fraction(float(ends[0, 0])) - Fraction(float(ends[1, 0]))
    assert CentralGaussian(100, domain, 1, 1e-6, precision=2**40).encoding.promise == promise


# What is refused


@pytest.mark.points(8)
@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"precision": 10, "modulus": 100}, ValueError, "^modulus "),
        ({"messages": 0}, ValueError, "^messages "),
        ({"sensitivity": 3}, TypeError, "^sensitivity "),
        ({"domain": Ball(3), "integers": True}, ValueError, "^(integers|sensitivity) must"),
        ({"domain": Categories([2]), "sensitivity": ONES}, ValueError, "^sensitivity "),
        ({"domain": SparseTernary(3, 1), "precision": 5}, ValueError, "^precision "),
        ({"domain": Box(2, 0, 1.5), "integers": True}, ValueError, "^upper "),
        ({"sensitivity": Sensitivity(l1=0.5), "integers": True}, ValueError, "at least one step"),
    ],
    ids=str,
)
def test_bad_parameters(change: dict[str, Any], error: type[Exception], message: str) -> None:
    given: dict[str, Any] = {"n": 10, "domain": Box(2), "epsilon": 1, "delta": 1e-3} | change
    with pytest.raises(error, match=message):
        PrivateVectorSum(**given)


# Several releases


@pytest.mark.parametrize("analysis", ["second_moment", "balle2020"])
def test_the_budget_of_several_releases_is_kept(analysis: str) -> None:
    """As many coordinates of noise; and what hides each is paid for each time."""
    protocol = PrivateVectorSum(
        500, Box(20), 1, 1e-6, integers=True, releases=30, analysis=analysis
    )
    level = protocol.layout.count.noise_epsilon
    assert level is not None
    noise = delta_of_noise(level, protocol.noise, ONES.steps(600))
    assert 0.9e-6 < noise <= protocol.noise.delta <= protocol.guarantee.delta <= 1e-6
    fewer = PrivateVectorSum(
        500, Box(20), 1, 1e-6, integers=True, releases=30, analysis=analysis,
        messages=protocol.layout.count.total - 1, modulus=protocol.modulus,
    )  # fmt: skip
    assert fewer.guarantee.delta > 1e-6


def test_several_releases_of_tiny_views() -> None:
    """Two users, twice the same values: the exact divergence of two views."""
    protocol = PrivateVectorSum(
        2, Box(1), 1.5, 0.2, integers=True, releases=2, modulus=3, messages=16,
        shuffler="single", clear_share=False,
    )  # fmt: skip
    noises = (share_modulo(3, protocol, protocol.noise),) * 2
    for other in (0, 1):
        laws = [view_law((value, other), noises, 3, 16).ravel() for value in (0, 1)]
        first, second = (np.multiply.outer(law, law) for law in laws)
        true = float(np.maximum(first - math.exp(1.5) * second, 0).sum())
        assert true <= protocol.guarantee.delta < 0.25
