"""Amplification of any randomizer: against its definition, enumerated views, and itself."""

import itertools
import math
from fractions import Fraction

import mpmath
import pytest
from accounting.shuffled_laws import hockey_stick, shuffled
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.clones_fmt21 import clones_delta
from ikos.accounting import (
    amplification,
    amplified_delta,
    amplified_delta_floor,
    amplified_epsilon,
    amplified_local_epsilon,
    response_delta,
)

# Against the definition


@pytest.mark.parametrize("n", [1, 2, 3, pytest.param(7, marks=pytest.mark.slow)])
@pytest.mark.parametrize("local", [0.3, 2.0])
@pytest.mark.parametrize("share", [0.2, 0.7, 1])
@pytest.mark.parametrize("part", [0, 0.1, 0.6])
def test_it_is_the_divergence_of_the_labels_rounded_up(n, local, share, part):
    with mpmath.workdps(40):
        p, odds = mpmath.exp(local), mpmath.exp(part * local)
        far = Fraction(math.tanh(local / 2) * share)
        a = min(mpmath.mpf(far.numerator) / far.denominator / (p - 1), 1 / (p + 1))
        c = 1 - (p + 1) * a
        laws = [(p * a, a, c, 0), (a, p * a, c, 0), (a, a, c / p, 1 - 2 * a - c / p)]
        one, other = (shuffled([laws[v] for v in (x, *(2,) * (n - 1))]) for x in (0, 1))
        exact = hockey_stick(one, other, odds)
        found = amplified_delta(part * local, n, local, total_variation=far)
        assert exact <= found <= exact * (1 + 1e-6)


@pytest.mark.parametrize("n", [1, 2, 3, pytest.param(7, marks=pytest.mark.slow)])
@pytest.mark.parametrize("local", [0.3, 2.0])
@pytest.mark.parametrize("part", [0, 0.1, 0.6])
def test_the_floor_is_the_divergence_of_three_values_rounded_down(n, local, part):
    with mpmath.workdps(40):
        p, odds = mpmath.exp(local), mpmath.exp(part * local)
        laws = [[(p if x == y else 1) / (p + 2) for y in range(3)] for x in range(3)]
        exact = hockey_stick(
            *(shuffled([laws[v] for v in (x, *(2,) * (n - 1))]) for x in (0, 1)), odds
        )
        found = amplified_delta_floor(part * local, n, local)
        assert exact * (1 - 1e-6) <= found <= exact


def test_simple_fractions():
    """Odds 3, order 2: what enumeration with rational numbers gives."""
    fractions = ["1/4", "3/16", "9/64", "27/256", "81/1024", "243/4096"]
    floors = ["1/5", "3/25", "9/125", "27/625", "108/3125", "81/3125"]
    clones = ["1/4", "5/24", "25/144", "125/864", "625/5184", "3125/31104"]
    bits = [[Fraction(3, 4), Fraction(1, 4)], [Fraction(1, 4), Fraction(3, 4)]]
    for n in range(1, 7):
        asked = (math.log(2), n, math.log(3))
        for bound, values in (
            (amplified_delta, fractions),
            (amplified_delta_floor, floors),
            (clones_delta, clones),
        ):
            assert bound(*asked) == pytest.approx(float(Fraction(values[n - 1])), rel=1e-6)
        # a response of two values attains it, if all others hold what the user does
        one, other = (shuffled([bits[v] for v in (x, *(0,) * (n - 1))]) for x in (0, 1))
        assert hockey_stick(one, other, 2) == Fraction(fractions[n - 1])


def test_a_pair_that_the_printed_bound_does_not_cover():
    """A response on four values, others at the third: 5/144 is printed for 7/144."""
    laws = [[Fraction(3 if x == y else 1, 6) for y in range(4)] for x in range(3)]
    for n, odds, exact in ((2, Fraction(9, 4), "7/144"), (5, Fraction(5, 2), "29/15552")):
        found = hockey_stick(
            *(shuffled([laws[v] for v in (x, *(2,) * (n - 1))]) for x in (0, 1)), odds
        )
        assert found == Fraction(exact)
        labels = amplified_delta(math.log(odds), n, math.log(3), total_variation=Fraction(1, 3))
        assert labels > found
        assert n > 2 or labels == pytest.approx(13 / 144, rel=1e-6)


@pytest.mark.parametrize(
    ("n", "local", "delta", "epsilon", "floor", "clones"),
    [
        (10**4, 1, 1e-6, 0.0432062, 0.0379981, 0.0530053),
        (10**5, 4, 1e-6, 0.118153, 0.117025, 0.169770),
        (10**6, 6, 1e-8, 0.131801, 0.131630, 0.189466),
    ],
)
def test_values_of_a_slower_computation(n, local, delta, epsilon, floor, clones):
    for bound, root in (
        (amplified_delta, epsilon),
        (amplified_delta_floor, floor),
        (clones_delta, clones),
    ):
        assert bound(root * (1 + 5e-6), n, local) < delta < bound(root * (1 - 5e-6), n, local)


# Against randomizers

P = 3  # e^eps0, in rational numbers


def unary(j):
    """One set bit of three, each told with odds 2 to 1: odds 4."""
    truth = tuple(int(i == j) for i in range(3))
    return [
        math.prod(Fraction(2 if b == t else 1, 3) for b, t in zip(bits, truth, strict=True))
        for bits in itertools.product((0, 1), repeat=3)
    ]


def optimized_unary(j):
    """One set bit of three, sent as 1 with probability 1/2, the others with 1/4: odds 3."""
    chances = [Fraction(1, 2) if i == j else Fraction(1, 4) for i in range(3)]
    return [
        math.prod(q if b else 1 - q for b, q in zip(bits, chances, strict=True))
        for bits in itertools.product((0, 1), repeat=3)
    ]


def subset(j):
    """Two of four values, with odds P for those with j."""
    sets = list(itertools.combinations(range(4), 2))
    return [Fraction(P if j in chosen else 1, 3 * P + 3) for chosen in sets]


def hashed(j):
    """A hash function of three values to two, and a response of odds P on the hash."""
    functions = list(itertools.product((0, 1), repeat=3))
    return [Fraction(P if f[j] == y else 1, 8 * (P + 1)) for f in functions for y in (0, 1)]


# Of each: the law, its odds, its total variation distance, and for which response on sets it is one
CHANNELS = {
    "unary": (unary, 4, Fraction(1, 3), None),  # (sqrt(p) - 1) / (sqrt(p) + 1)
    "optimized unary": (optimized_unary, 3, Fraction(1, 4), None),  # (p - 1) / (2 (p + 1))
    "subset": (subset, 3, Fraction(1, 3), 2),  # (k-s) / (k-1) s (p - 1) / (p s + k - s)
    "hashed": (hashed, 3, Fraction(1, 4), 2),  # (1 - 1/g) (p - 1) / (p + g - 1)
    "response": (lambda j: [Fraction(P if i == j else 1, P + 2) for i in range(3)], 3, 0.4, 3),
    "skew": (lambda j: [(0.6, 0.25, 0.15), (0.3, 0.4, 0.3), (0.2, 0.35, 0.45)][j], 3, 0.4, None),
}


@pytest.mark.parametrize("name", CHANNELS)
@pytest.mark.parametrize("n", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_it_covers_views_of_any_randomizer(name, n):
    channel, p, far, k = CHANNELS[name]
    laws = [channel(j) for j in range(3)]
    pairs = list(itertools.permutations(laws, 2))
    assert max(x / y for one, two in pairs for x, y in zip(one, two, strict=True)) <= p
    apart = max(sum(abs(x - y) for x, y in zip(one, two, strict=True)) / 2 for one, two in pairs)
    assert apart == pytest.approx(float(far))
    for others in itertools.combinations_with_replacement(range(3), n - 1):
        seen = [shuffled([laws[v] for v in (x, *others)]) for x in range(3)]
        for odds in (1, 1.2, 2):
            exact = max(hockey_stick(*pair, odds) for pair in itertools.permutations(seen, 2))
            far_enough = amplified_delta(math.log(odds), n, math.log(p), total_variation=far)
            assert exact <= far_enough * (1 + 1e-12)
            assert far_enough <= amplified_delta(math.log(odds), n, math.log(p)) * (1 + 1e-6)
            if k and odds > 1:
                assert exact <= response_delta(math.log(odds), n, k, Fraction(k, p - 1 + k))


def test_alone_there_is_the_local_guarantee():
    for epsilon, local in ((0, 1), (0.5, 1), (20, 25), (59, 60)):
        p, odds = math.exp(local), math.exp(epsilon)
        assert amplified_delta(epsilon, 1, local) == pytest.approx((p - odds) / (p + 1), rel=1e-6)
    assert amplified_delta(1, 1, 1) == 0


# Against itself


@pytest.mark.points(0)
@settings(max_examples=25, deadline=None)
@given(
    st.integers(1, 500),
    st.floats(0.01, 8),
    st.floats(0, 1),
    st.floats(0.01, 1),
    st.sampled_from(["n", "epsilon", "local", "far"]),
)
def test_more_noise_hides_more(n, local, part, share, grows):
    epsilon, far = part * local, share * math.tanh(local / 2)
    more = {
        "n": (epsilon, n + 1 + n // 10, local, far),
        "epsilon": (epsilon * 1.1 + 1e-3, n, local, far),
        "local": (epsilon, n, local * 0.9, min(far, math.tanh(0.45 * local))),
        "far": (epsilon, n, local, far * 0.9),
    }[grows]
    loose = amplified_delta(epsilon, n, local, total_variation=far)
    assert amplified_delta(*more[:3], total_variation=more[3]) <= loose * (1 + 1e-6) + 1e-280
    assert loose <= amplified_delta(epsilon, n, local) * (1 + 1e-6)
    assert loose <= clones_delta(epsilon, n, local) * (1 + 1e-6)
    assert amplified_delta_floor(epsilon, n, local) <= amplified_delta(epsilon, n, local)


@pytest.mark.slow
def test_a_delta_of_many_zeros():
    """Windows are wide then, and their ends far below the least double."""
    asked = {"local_epsilon": 0.5, "total_variation": 0.1}
    assert amplified_delta(0.3, 2200, **asked) < amplified_delta(0.3, 2000, **asked) < 1e-260


@pytest.mark.points(0)
def test_blocks_cost_little(monkeypatch):
    asked = (0.006, 2 * 10**5, 1.0)
    thinned = amplified_delta(*asked)
    monkeypatch.setattr(amplification, "_STEP", 0)
    monkeypatch.setattr(amplification, "_BLOCKS", 10**9)
    assert amplified_delta(*asked) < thinned < amplified_delta(*asked) * 1.0002


def test_roots_are_on_the_safe_side():
    for n, local, far in ((1000, 2.0, 1), (20, 1.0, 0.3)):
        epsilon = amplified_epsilon(1e-6, n, local, total_variation=far)
        assert amplified_delta(epsilon, n, local, total_variation=far) <= 1e-6
        assert amplified_delta(epsilon * (1 - 2e-6), n, local, total_variation=far) > 1e-6
    assert amplified_epsilon(1e-6, 1, 1.0) == pytest.approx(1, rel=1e-5)
    assert amplified_epsilon(0.5, 10**6, 0.1) == 1e-9
    local = amplified_local_epsilon(0.5, 1e-6, 1000)
    assert amplified_delta(0.5, 1000, local) <= 1e-6
    assert amplified_delta(0.5, 1000, local * (1 + 4e-6)) > 1e-6
    assert amplified_local_epsilon(0.5, 1e-12, 1) == 0.5


def test_more_users_than_are_computed_are_refused():
    with pytest.raises(ValueError, match="n must be at most 1000000"):
        amplified_delta(1.0, 10**7, 2.0, total_variation=0.1)
