"""Layouts of vectors: minimal, as secure as they say, and the product bounds by enumeration."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from itertools import product
from typing import Any

import gmpy2
import pytest
from counts.moments import bits, precisely, recursion
from counts.test_private import averaged, ball, difference, mean_jumps, relative, theorem
from exact.share_graph import SETTINGS, Views, support, unmatched, views
from gmpy2 import mpfr
from hypothesis import given
from hypothesis import strategies as st

from ikos import SecureVectorSum, message_count, private_message_count, security_level
from ikos.counts import hockey_stick, private_proved, private_vector_layouts, vector_layouts
from ikos.counts.hockey_stick import Divergences
from ikos.counts.recursion import rational, rational_split
from ikos.counts.share_graph import ShareGraph
from ikos.counts.types import Budget, MessageCount
from ikos.counts.vectors import ONE_GROUP, Layout, least_bytes, level_of_sums

each_setting = pytest.mark.parametrize(("shuffler", "clear"), SETTINGS)


@pytest.fixture(autouse=True)
def _precise() -> Iterator[None]:
    with precisely():
        yield


# The product bounds, for two blocks


Laws = list[tuple[Counter[int], Counter[int], int]]  # of the views of x and y, and a weight


def pairs(shuffled: Views, clear: bool) -> Iterator[tuple[int, Laws]]:
    """Yield on how many users two inputs differ, and the laws to average over."""
    group, n = shuffled.group, shuffled.n
    if not clear:
        for x, y in product(group.multisets(n), repeat=2):
            if group.sum(x) == group.sum(y):
                yield unmatched(x, y), [(shuffled.law(x), shuffled.law(y), 1)]
        return
    for d in [(0,) * n, *group.zero_sums(n)]:
        weights: Counter[tuple[Any, Any]] = Counter()
        for x in product(range(group.q), repeat=n):
            y = tuple(group.add(a, b) for a, b in zip(x, d, strict=True))
            weights[tuple(sorted(x)), tuple(sorted(y))] += 1
        laws = [(shuffled.law(x), shuffled.law(y), count) for (x, y), count in weights.items()]
        yield support(d), laws


def joint(first: Laws, second: Laws, c: Fraction, choices: int) -> Fraction:
    """Return the divergence of order 1 + c between the views of two blocks together."""
    a, b = c.denominator, c.denominator + c.numerator
    found = weights = 0
    for (p1, q1, w1), (p2, q2, w2) in product(first, second):
        gain = 0
        for (v1, n1), (v2, n2) in product(p1.items(), p2.items()):
            gain += max(0, a * n1 * n2 - b * q1[v1] * q2[v2])
        found += gain * w1 * w2
        weights += w1 * w2
    return Fraction(found, a * choices * weights)


BLOCKS: list[Any] = [  # of the groups of two blocks: two coordinates, b and b, or b and fewer
    ((2,), (2,), 2, 2), ((2,), (2,), 2, 4), ((3,), (3,), 2, 2), ((2,), (2,), 3, 2),
    ((2,), (2,), 3, 3), ((2, 2), (2,), 2, 2), ((2, 2), (2,), 2, 3),
    *(pytest.param(*sizes, marks=pytest.mark.slow)
      for sizes in (((2, 2), (2, 2), 2, 2), ((2, 2), (2,), 3, 2), ((3, 3), (3,), 2, 2))),
]  # fmt: skip


@each_setting
@pytest.mark.parametrize(("full", "last", "n", "m"), BLOCKS)
def test_two_blocks_are_within_the_product_bounds_of_full_ones(shuffler, clear, full, last, n, m):
    """Every pair of inputs: total variation, and divergences of order 1 + c."""
    graph, blocks = ShareGraph(m, shuffler, clear), [views(q, n, m, shuffler) for q in (full, last)]
    order, choices = blocks[0].q, math.prod(block.choices for block in blocks)
    moments = rational(n, order, graph)
    D, x = Fraction(moments.divergence[n]), Fraction(moments.excess[n])
    split = {k: Fraction(rational_split(n, order, graph, k)) for k in range(2, n + 1)}
    split |= {0: Fraction(0), 1: Fraction(0)}
    first_inputs, last_inputs = (list(pairs(block, clear)) for block in blocks)
    for (k, first), (j, second) in product(first_inputs, last_inputs):
        variation = joint(first, second, Fraction(0), choices)
        assert variation**2 <= D * (1 + D)  # 2 D (1 + D) / 2
        one, two = split[k], split[j]
        # (sqrt(one) + sqrt(two))^2 <= 2 (one + two); what the library takes is 4 max(one, two)
        difference = (one + two if clear else 2 * (one + two)) * (1 + x)
        assert 2 * variation**2 <= difference
        for c in (Fraction(1, 4), Fraction(1)):
            a, b = difference / (2 * c), c * ((1 + x) ** 2 - 1) / 4
            eta = joint(first, second, c, choices)
            assert eta <= a + b or (eta - a - b) ** 2 <= 4 * a * b


def exactly(value: mpfr) -> Fraction:
    return Fraction(*map(int, value.as_integer_ratio()))


def test_second_moments_of_sums_are_rounded_up() -> None:
    one = Divergences(mpfr("1e-9"), mpfr("0.001"))
    for clear, times in ((True, 5), (False, 25)):
        found = one.of_sums(5, ShareGraph(4, "parallel", clear))
        x = exactly(one.excess)
        assert exactly(found.difference) >= times * exactly(one.difference) * (1 + x) ** 4
        assert exactly(found.excess) >= (1 + x) ** 5 - 1
        assert float(found.difference) == pytest.approx(times * 1e-9 * 1.001**4)
        assert float(found.excess) == pytest.approx(1.001**5 - 1)
    assert one.of_sums(1, ShareGraph(4, "parallel", False)) is one


# Levels


@given(sigma=st.floats(0, 1000), d=st.integers(1, 10**6))
def test_the_level_of_sums_is_the_better_of_two_bounds(sigma: float, d: int) -> None:
    union, better = (level_of_sums(sigma, d, analysis=a) for a in ("balle2020", "second_moment"))
    assert 0 <= union <= better <= sigma
    assert union == pytest.approx(max(0.0, sigma - math.log2(d)), abs=1e-9)
    if d > 1 and sigma > 20 + math.log2(d):
        assert better == pytest.approx(sigma - math.log2(d) / 2, abs=1e-5)


@each_setting
@pytest.mark.parametrize(("n", "q", "sigma", "d"), [(50, 2**16, 40, 10), (10**5, 5, 25, 1000)])
def test_layouts_are_minimal(shuffler, clear, n, q, sigma, d):
    how: dict[str, Any] = {"shuffler": shuffler, "clear_share": clear}
    group, apart = vector_layouts(n, q, sigma, d, **how)
    assert (group.name, group.sums, apart.name, apart.sums) == ("one group", 1, "separate sums", d)
    assert group.count == message_count(n, q**d, sigma, **how)
    bits = (q - 1).bit_length()
    assert group.bits_per_user == group.count.total * d * bits
    assert apart.messages_per_user == d * apart.count.total
    assert apart.bits_per_user == d * apart.count.total * bits

    def level(m: int) -> float:
        return level_of_sums(security_level(n, q, m, **how), d, analysis="second_moment")

    enough = next(m for m in range(1, 200) if level(m) >= sigma)
    assert apart.count.shuffled == enough
    assert apart.sigma == level(enough) >= sigma
    union = message_count(n, q, sigma + Fraction(math.log2(d) + 1e-9), **how)
    assert apart.count.total <= union.total


@each_setting
@pytest.mark.parametrize("length", [2, 5, 7])
def test_blocks_have_the_fewest_messages_for_the_level_of_all_of_them(shuffler, clear, length):
    n, q, sigma, d = 60, 2**16, 40, 12
    how: dict[str, Any] = {"shuffler": shuffler, "clear_share": clear}
    layout = SecureVectorSum(n, d, q, sigma=sigma, layout=length, **how).layout
    sums = math.ceil(d / length)
    assert (layout.name, layout.sums) == (f"blocks of {length}", sums)

    def level(m: int) -> float:
        each = security_level(n, q**length, m, **how)
        return level_of_sums(each, sums, analysis="second_moment")

    m = layout.count.shuffled
    assert layout.sigma == level(m) >= sigma > level(m - 1)
    assert layout.messages_per_user == sums * layout.count.total
    assert layout.bits_per_user == d * 16 * layout.count.total
    assert layout.bytes_per_user(48) == 2 * d * layout.count.total + 48 * layout.messages_per_user


TABLE = {
    (500, 23, 1000): {1: 24_000, 4: 7750, 8: 5250, 16: 3906, 32: 3296, 128: 3128},
    (10**4, 20, 2048): {1: 34_816, 4: 10_752, 8: 6912, 16: 4992, 32: 4032, 128: 3488},
}
"""Messages at 80 bits by the length of blocks, for some users, bits and coordinates."""

LEAST = {(500, 23, 1000): (13, 354_989), (10**4, 20, 2048): (14, 439_236)}
"""The best length, and bytes in envelopes of 48 more, of a last block padded with zeros."""


@pytest.mark.points(1)
@pytest.mark.parametrize("size", TABLE, ids=str)
def test_messages_of_blocks_are_those_computed_before(size: tuple[int, int, int]) -> None:
    n, bits, d = size
    for length, messages in TABLE[size].items():
        assert SecureVectorSum(n, d, 2**bits, layout=length).layout.messages_per_user == messages
    best = SecureVectorSum(n, d, 2**bits, layout="blocks").layout
    length, least = LEAST[size]
    sent = best.messages_per_user
    assert best.length == length
    assert math.ceil(sent * (length * bits / 8 + 48)) in (least, least + 1)
    assert 0.997 * least < best.bytes_per_user(48) <= least
    assert vector_layouts(n, 2**bits, 80, d, overhead=48)[2] == best


@given(
    counts=st.lists(st.integers(0, 4), min_size=1, max_size=60),
    bits=st.integers(1, 64),
    overhead=st.integers(0, 100),
)
def test_the_least_bytes_are_found_if_messages_grow_with_the_length(counts, bits, overhead):
    d, totals = len(counts), list(itertools.accumulate(counts, initial=2))

    def made(length: int) -> Layout:
        return Layout(MessageCount(totals[length], 0, 80.0, None, ""), d, length, bits, 80.0)

    def cost(layout: Layout) -> int:
        return layout.bits_per_user + 8 * overhead * layout.messages_per_user

    found = least_bytes(made, d, overhead)
    assert cost(found) == min(cost(made(length)) for length in range(1, d + 1))


def test_the_least_overheads_take_the_ends() -> None:
    one, separate = vector_layouts(500, 2**16, 40, 12, overhead=0)  # that is, separate sums
    assert (one.length, separate.length) == (12, 1)
    assert len(vector_layouts(500, 2**16, 40, 12, overhead=10**4)) == 2  # one group
    group, separate, blocks = vector_layouts(10**4, 2**32, 80, 100, overhead=48)
    assert blocks.name == f"blocks of {blocks.length}"
    assert blocks.bytes_per_user(48) < min(one.bytes_per_user(48) for one in (group, separate))


@pytest.mark.slow
@each_setting
def test_private_blocks_are_proved_as_a_whole(shuffler: str, clear: bool) -> None:
    given = 2000, 2**14, 1, 1e-7, 1, 30
    how: dict[str, Any] = {"shuffler": shuffler, "clear_share": clear}
    group, separate, blocks = private_vector_layouts(*given, overhead=48, **how)
    assert blocks.name == f"blocks of {blocks.length}"
    assert blocks.bytes_per_user(48) < min(one.bytes_per_user(48) for one in (group, separate))
    n, q, epsilon, delta, p, d = given

    def proved(m: int) -> MessageCount:
        return private_proved(
            n, q**blocks.length, m, epsilon, delta, p, dimension=blocks.length, sums=blocks.sums,
            sensitivity=d * p, **how,
        )  # fmt: skip

    m = blocks.count.shuffled
    assert blocks.count == proved(m)
    fewer = proved(m - 1).delta
    assert fewer is not None
    assert blocks.delta is not None
    assert blocks.delta <= delta < fewer


def test_one_coordinate_is_a_scalar() -> None:
    (only,) = vector_layouts(1000, 2**32, 80, 1)
    assert only.count == message_count(1000, 2**32, 80)
    (private,) = private_vector_layouts(1000, 2**16, 1, 1e-9, 32, 1)
    assert private.count == private_message_count(1000, 2**16, 1, 1e-9, 32)


def test_published_levels_take_the_union_bound() -> None:
    _, apart = vector_layouts(1000, 2**32, 40, 64, analysis="balle2020")
    assert apart.count == message_count(1000, 2**32, 46, analysis="balle2020")
    assert apart.sigma == apart.count.sigma - 6


def test_honest_users_and_shufflers() -> None:
    plain = vector_layouts(500, 2**16, 40, 8)
    robust = vector_layouts(1000, 2**16, 40, 8, min_honest=500, corrupt_shufflers=2)
    for layout, base in zip(robust, plain, strict=True):
        assert layout.count.shuffled == base.count.shuffled + 2
        assert layout.sigma <= base.sigma


# Privacy


@pytest.mark.slow
@each_setting
@pytest.mark.parametrize("sensitivity", [None, 2])
def test_private_layouts_are_minimal(shuffler: str, clear: bool, sensitivity: int | None) -> None:
    n, q, epsilon, delta, p, d = 2000, 2**14, 1, 1e-7, 1, 12
    how: dict[str, Any] = {"shuffler": shuffler, "clear_share": clear}
    group, apart = private_vector_layouts(
        n, q, epsilon, delta, p, d, sensitivity=sensitivity, **how
    )
    moved = d * p if sensitivity is None else sensitivity

    def least(delta_of: Any, goal: float) -> int:
        return next(m for m in range(1, 100) if delta_of(m).delta <= goal)

    whole = least(
        lambda m: private_proved(
            n, q**d, m, epsilon, delta, p, dimension=d, sensitivity=moved, **how
        ),
        delta,
    )
    assert group.count.shuffled == whole
    each = least(
        lambda m: private_proved(n, q, m, epsilon, delta, p, sums=d, sensitivity=moved, **how),
        delta,
    )
    assert apart.count.shuffled == each
    for layout in (group, apart):
        assert layout.delta is not None
        assert layout.rate is not None
        assert layout.delta <= delta
        assert layout.epsilon == epsilon
        assert layout.count.noise_epsilon is not None
        assert layout.rate == Fraction(layout.count.noise_epsilon) / moved
        assert 0.99 * epsilon <= layout.count.noise_epsilon <= epsilon


@pytest.mark.parametrize("analysis", ["balle2020", "ishai2006"])
def test_published_analyses_pay_by_their_level(analysis: str) -> None:
    how: dict[str, Any] = {"analysis": analysis}
    if analysis == "ishai2006":
        how |= {"shuffler": "single", "clear_share": False}
    for layout in private_vector_layouts(1000, 2**12, 1, 1e-6, 1, 16, **how):
        assert layout.delta is not None
        assert layout.delta <= 1e-6
        assert (1 + math.e) * 2**-layout.sigma <= 1.0001e-6
        assert layout.count.analysis == analysis


# One noise for several sums: the theorem once more, from the recursion in ball arithmetic

SIZES = [(2, 2), (2, 3), (3, 2), (5, 7)]  # users and sums


def several(of_a: Any, excess: Any, d: int, clear: bool) -> tuple[Any, Any]:
    """Delta_A and x of d sums together."""
    others = (1 + excess) ** (d - 1)
    return (d if clear else d * d) * of_a * others, (1 + excess) ** d - 1


def given_sums(n: int, q: int, m: int, shuffler: str, clear: bool, d: int) -> Any:
    """The distance of views of d sums that are the same."""
    sigma = bits(recursion(n, q, m, shuffler, clear).divergence[n])
    return 2 ** -max(level_by_product(sigma, d), sigma - log2(d), key=float)


def averages(n: int, q: int, m: int, shuffler: str, clear: bool, mean: Any) -> tuple[Any, Any]:
    """Delta_A over the noise, exactly, and over the component of user 1: the same if clear."""
    split = averaged(n, q, ShareGraph(m, shuffler, clear), mean)
    return split, difference(recursion(n, q, m, shuffler, clear), n, mean)


def test_several_sums_are_proved_by_their_second_moments() -> None:
    """What is proved for d sums is by the second moments of d sums."""
    for (shuffler, clear), (n, d), (m, q) in product(SETTINGS, SIZES, [(4, 7), (6, 2**8)]):
        graph = ShareGraph(m, shuffler, clear)
        found = hockey_stick.privacy(
            n, q, graph, Budget(Fraction(1), Fraction(1, 10**4), Fraction(1, 10), d, sums=d)
        )
        if not found.divergences.difference < gmpy2.inf():
            assert found.delta == 1  # given up
            continue
        mean = mean_jumps(Fraction(found.noise_epsilon) / d)
        excess = recursion(n, q, m, shuffler, clear).excess[n]
        least, most = averages(n, q, m, shuffler, clear, mean)
        of_a, together = several(least, excess, d, clear)
        given_difference, given_excess = map(
            ball, (exactly(found.divergences.difference), exactly(found.divergences.excess))
        )
        assert not given_difference < of_a
        assert given_difference < several(most, excess, d, clear)[0] * ball("1.01")
        assert not given_excess < together
        assert given_excess < together * ball("1.01")


def test_delta_of_several_sums_is_the_theorem_rounded_up() -> None:
    """delta is that of one of the theorems for d sums."""
    for (shuffler, clear), (n, d), m in product(SETTINGS, SIZES, (5, 8)):
        q, p, epsilon = 13, 3, Fraction(1)
        for moved, reserve in product((d * p, 2), (Fraction(0), Fraction(1, 10))):
            count = private_proved(
                n, q, m, epsilon, Fraction(1, 10**3), p, sums=d, sensitivity=moved,
                reserve=reserve, shuffler=shuffler, clear_share=clear,
            )  # fmt: skip
            eps0 = count.noise_epsilon
            mean, c = mean_jumps(Fraction(eps0) / moved), relative(epsilon, eps0)
            ways = []
            for shuffled, kind in [(m, clear)] if clear else [(m, False), (m - 1, True)]:
                excess = recursion(n, q, shuffled, shuffler, kind).excess[n]
                of_a = averages(n, q, shuffled, shuffler, kind, mean)[0]
                ways.append(theorem(*several(of_a, excess, d, kind), eps0, c))
            if eps0 == epsilon:
                ways.append(given_sums(n, q, m, shuffler, clear, d))
            assert count.delta == 1 or any(not ball(count.delta) < way for way in ways)
            if clear and count.theorem == hockey_stick.THEOREM:
                assert ball(count.delta) < ways[0] * ball("1.01")


# Layouts of private vectors: rate, delta and budget as they are written down

PRIVATE: dict[str, Any] = {
    "n": 6, "q": 2**7, "epsilon": Fraction(3, 2), "delta": Fraction(1, 10**4), "precision": 7,
    "dimension": 3, "sensitivity": 4,
}  # fmt: skip


def test_private_layouts_are_proved_for_the_noise_that_they_name() -> None:
    """delta is that of a theorem for noise of the rate that the layout says."""
    n, q, d, moved = (PRIVATE[key] for key in ("n", "q", "dimension", "sensitivity"))
    for shuffler, reserve in product(("parallel", "single"), (Fraction(0), Fraction(1, 10))):
        for layout in private_vector_layouts(**PRIVATE, shuffler=shuffler, reserve=reserve):
            group = layout.name == ONE_GROUP
            order, coordinates = (q**d, d) if group else (q, 1)
            eps0, m = layout.count.noise_epsilon, layout.count.shuffled
            assert layout.epsilon == PRIVATE["epsilon"]
            assert layout.rate == Fraction(eps0) / moved
            mean = coordinates * mean_jumps(layout.rate)
            moments = recursion(n, order, m, shuffler, True)
            of_a = difference(moments, n, mean)
            c = relative(PRIVATE["epsilon"], eps0)
            ways = [theorem(*several(of_a, moments.excess[n], layout.sums, True), eps0, c)]
            if eps0 == PRIVATE["epsilon"]:
                ways.append(given_sums(n, order, m, shuffler, True, layout.sums))
            delta, most = ball(layout.delta), ball("1.01")
            assert any(not delta < way and delta < way * most for way in ways)
            assert layout.delta <= PRIVATE["delta"]


# Levels for every number of honest users


def own_levels(n: int, q: int, m: int, shuffler: str, clear: bool, d: int) -> list[Any]:
    """The level of d sums for 2, 3, ..., n users, in bits: the best that any way proves."""
    ways = [(m, True)] if clear else [(m, False), (m - 1, True)]
    levels = []
    found = [recursion(n, q, shuffled, shuffler, kind) for shuffled, kind in ways if shuffled]
    for k in range(2, n + 1):
        least = min((moments.divergence[k] for moments in found), key=float)
        levels.append(max(level_by_product(bits(least), d), bits(least) - log2(d), key=float))
    return levels


def log2(value: Any) -> Any:
    return ball(value).log() / ball(2).log()


def level_by_product(sigma: Any, d: int) -> Any:
    """-log2 TV from TV^2 = d D (1 + D)^(d-1) / 2 with D = 2^(1 - 2 sigma)."""
    D = (2 * ball(2) ** (-2 * sigma)) if d > 1 else None
    return sigma if D is None else -(d * D * (1 + D) ** (d - 1) / 2).log() / ball(2).log() / 2


def secure_layouts(n: int, q: int, honest: int, d: int, **how: Any) -> list[Layout]:
    return list(vector_layouts(n, q, 7, d, min_honest=honest, **how))


def private_layouts(n: int, q: int, honest: int, d: int, **how: Any) -> list[Layout]:
    return list(private_vector_layouts(n, q, 1, 0.01, 1, d, min_honest=honest, **how))


@pytest.mark.parametrize("honest", [1, 5])
@pytest.mark.parametrize("find", [secure_layouts, private_layouts])
def test_layouts_have_their_level_for_every_number_of_honest_users(find, honest):
    """Each number of honest users, from the fewest to all, has the level; one of them no more."""
    n, q, d = 12, 5, 3
    for shuffler, clear in SETTINGS:
        for layout in find(n, q, honest, d, shuffler=shuffler, clear_share=clear):
            order = q**d if layout.name == ONE_GROUP else q
            m = layout.count.shuffled
            levels = own_levels(n, order, m, shuffler, clear, layout.sums)
            least = max(ball(0), min(levels[max(honest, 2) - 2 :], key=float), key=float)
            assert math.isfinite(layout.sigma)  # there may be two
            assert not ball(layout.sigma) > least
            if clear:
                assert float(layout.sigma) >= float(least) - 1e-3


def test_published_levels_of_layouts_hold_for_every_number_of_honest_users() -> None:
    """What ishai2006 proves falls with the number of users."""
    n, honest, q, d = 4000, 40, 2**8, 3
    how: dict[str, Any] = {"analysis": "ishai2006", "shuffler": "single", "clear_share": False}
    secure = vector_layouts(n, q, 20, d, min_honest=honest, **how)
    private = private_vector_layouts(n, q, 1, 1e-5, 1, d, min_honest=honest, **how)
    for layout in (*secure, *private):
        order = q**d if layout.name == ONE_GROUP else q
        for k in (honest, 100, n):
            level = security_level(k, order, layout.count.shuffled, **how)
            assert layout.sigma <= level_of_sums(level, layout.sums, analysis="ishai2006")
            assert layout.count.sigma <= level


# Levels of sums where the second-order term matters


def test_the_level_of_sums_is_below_the_exact_product() -> None:
    """At most the better of the exact product and union bounds, and near it."""
    for d in (2, 3, 10, 1000, 10**6):
        for tenths in range(80):
            sigma = math.log2(d) / 2 + tenths / 10
            product_bound, union = level_by_product(ball(sigma), d), ball(sigma) - log2(d)
            found = ball(level_of_sums(sigma, d, analysis="second_moment"))
            assert found == 0 or not found > max(product_bound, union, key=float)
            D = 2 * 4.0**-sigma
            assert float(found) >= float(product_bound) - (d - 1) * D * D / 2
            assert not found < max(union, ball(0), key=float) - ball(2) ** -40


def test_the_names_of_the_best_bound_are_one_bound() -> None:
    levels = {level_of_sums(80.0, 256, analysis=a) for a in ("best", "exact", "second_moment")}
    assert len(levels) == 1
    assert levels != {level_of_sums(80.0, 256, analysis="balle2020")}
