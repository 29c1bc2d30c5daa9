"""The direct comparison: stated values, every term in ball arithmetic, and exact views in Z_2."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from fractions import Fraction

import gmpy2
import numpy as np
import pytest
from counts.direct import NoiseBalls, ball, clusters, evaluate
from counts.moments import flint, precisely
from counts.test_higher_moments import exact_delta, sets_of, signs
from gmpy2 import mpfr
from numpy.typing import NDArray

from ikos.counts import (
    private_delta,
    private_message_count,
    private_proved,
    private_remaining,
    private_vector_layouts,
)
from ikos.counts.analyses import checked_scheme
from ikos.counts.direct_comparison import (
    DirectBound,
    DirectPoint,
    DirectPrivacy,
    DirectTerms,
    RevealedNoise,
    Tuples,
    best,
    bound,
    discrete_laplace,
    search,
    tuples,
)
from ikos.counts.tuple_moments import cluster_moments
from ikos.counts.types import Budget
from ikos.numeric.rounding import DOWN, UP, exact, float_up, rounding

Array = NDArray[np.float64]


def spent(epsilon: Fraction, reserve: Fraction) -> tuple[mpfr, Fraction]:
    """Return c and the noise's epsilon when all of a reserve is spent."""
    noise = float_up(exact(epsilon * (1 - reserve), UP))
    with rounding(DOWN):
        return gmpy2.expm1(exact(epsilon - Fraction(noise), DOWN)), Fraction(noise)


def terms_of(
    n: int, bits: int, m: int, precision: int, reserve: Fraction, epsilon: Fraction = Fraction(1)
) -> DirectTerms:
    c, noise = spent(epsilon, reserve)
    known = tuples(n, 2**bits, m)
    assert known is not None
    return DirectTerms.of(known, discrete_laplace(2**bits, noise / precision, precision), c)


def digits(value: mpfr, count: int = 6) -> float:
    return float(f"{value:.{count}g}")


COLUMNS = [
    (10**3, 16, 4, 32, Fraction(1, 100)), (10**4, 21, 3, 100, Fraction(4, 100)),
    (10**5, 26, 3, 317, Fraction(1, 100)), (10**6, 31, 3, 1000, Fraction(1, 100)),
]  # fmt: skip


@pytest.mark.parametrize(
    ("column", "c", "noise", "user", "clusters", "special", "beta"),
    [
        (
            0, 0.0100502, (6.98243, 1.59382, 2.27425, 0.136454),
            (1.32396e-7, 3.48803e-14, 5.35122e-14, 3.63391e-36, 1.03535e-55),
            (4.29497e-15, 5.67354e-17), (1.97067e-18, 4.14683e-25), (0.00518023, 0.0112258),
        ),
        (
            1, 0.0408108, (9.30158, 1.59276, 2.27965, 0.0433518),
            (4.36897e-6, 3.73825e-11, 5.73334e-11, 7.40079e-29, 1.80916e-45),
            (4.39805e-12, 4.0182e-15), (2.93658e-17, 1.85558e-22), (5.62703e-4, 1.13888e-3),
        ),
        (
            2, 0.0100502, (11.541, 1.62132, 2.33267, 0.0145246),
            (1.35573e-7, 3.65747e-14, 5.51471e-14, 6.46718e-38, 1.38201e-60),
            (4.5036e-15, 4.07241e-19), (9.39542e-22, 1.89236e-28), (4.96731e-5, 9.95381e-5),
        ),
        (
            3, 0.0100502, (13.8366, 1.62345, 2.33318, 0.00461512),
            (4.33835e-9, 3.74525e-17, 5.64645e-17, 6.93189e-47, 1.54722e-75),
            (4.61169e-18, 4.15667e-23), (3.00648e-26, 1.93699e-34), (5.00656e-6, 1.00157e-5),
        ),
    ],
)  # fmt: skip
def test_values_of_another_implementation(column, c, noise, user, clusters, special, beta):
    """To six digits; what bounds the noise is an integral for a sum, and a little larger."""
    terms = terms_of(*COLUMNS[column])
    assert digits(terms.c) == c
    found = terms.noise.jumps[1], terms.noise.mean, terms.noise.total, terms.noise.square
    assert list(map(float, found)) == pytest.approx(list(noise), rel=6e-6)
    assert tuple(digits(terms.user[k]) for k in (2, 3, 4, 12, 20)) == user
    assert tuple(digits(terms.tuples.clusters[k]) for k in (3, 4)) == clusters
    assert tuple(digits(terms.tuples.special[j]) for j in (2, 3)) == special
    n, m = terms.tuples.setting.n, terms.tuples.setting.m
    total = terms.tuples.moments.total
    single = float(terms.single[4] / total[4]) ** 0.25
    pair = 2 * (1 - 1 / n) ** m * float(terms.paired[1][4] / total[8]) ** 0.25
    assert (single, pair) == pytest.approx(beta, rel=6e-6)


@pytest.mark.parametrize(
    ("column", "parameters", "lifted", "main", "delta"),
    [
        (0, (0.3237, 0.1144, 0.04, 0.45, 0.25, 0.05), 2, 0.7187, 4.7537e-12),
        (1, (1.303, 0.5221, 0.13, 0.3, 0.1, 0.1), 1, 0.2113, 9.5776e-9),
        (2, (0.8192, 0.3476, 0.06, 0.3, 0.03, 0.6), 2, 0.4134, 8.6486e-12),
        (3, (0.6488, 0.2538, 0.04, 0.3, 0.005, 0.3), 2, 0.5058, 4.1361e-15),
    ],
)
def test_deltas_of_another_implementation(column, parameters, lifted, main, delta):
    """At its parameters, which are rounded, with the best exponents and b; and the search's."""
    terms = terms_of(*COLUMNS[column])
    h1, root, y, part, share, pairs = parameters
    point = DirectPoint(
        6, h1, root**2, y, part, 0.0, share, pairs, lifted, 20, 20, 10, 20, 10, 20, 20
    )

    def at(point: DirectPoint) -> DirectBound:
        proof = bound(terms, point)
        assert proof is not None
        return proof

    for name, values in [
        ("shift", np.arange(0, 1, 0.01)), ("K", range(2, 21, 2)), ("K_Y", range(2, 21, 2)),
        ("K_Q", range(2, 11, 2)), ("K1", range(8, 21, 2)), ("l", range(4, 11)),
        ("K4", (8, 12, 16, 20)), ("K3", range(8, 21, 2)),
    ]:  # fmt: skip
        tried = [replace(point, **{name: value}) for value in values]
        point = min(tried, key=lambda point: at(point).proved)
    assert digits(at(point).main, 4) == main
    assert float(at(point).proved) == pytest.approx(delta, rel=3e-3)
    found = search(terms)
    assert found is not None
    assert at(found).proved < 1.001 * delta


POINTS = [
    DirectPoint(6, 1.3, 0.27, 0.13, 0.3, 0.03, 0.1, 0.1, 1, 20, 18, 10, 20, 10, 20, 20),
    DirectPoint(2, 0.8, 0.1, 0.1, 0.8, 0.2, 0.5, 0.0, 0, 6, 4, 2, 4, 2, 4, 4, 1.75),
    # moments of the bad event are above 1, and are no probabilities
    DirectPoint(3, 0.02, 1e-6, 0.002, 0.4, 0.0, 0.2, 0.3, 2, 12, 8, 6, 14, 7, 12, 16),
]


@pytest.mark.parametrize(
    ("n", "q", "m", "precision", "reserve"),
    [
        (1000, 2**16, 4, 32, Fraction(1, 100)), (10**4, 2**21, 3, 100, Fraction(4, 100)),
        (30, 64, 3, 12, Fraction(1, 5)), (30, 16, 2, 12, Fraction(1, 5)),
    ],
)  # fmt: skip
def test_terms_are_verified_independently(n, q, m, precision, reserve):
    """Rounded up, and by no more than the integral that bounds the rest of F."""
    c, level = spent(Fraction(1), reserve)
    noise, known = discrete_laplace(q, level / precision, precision), tuples(n, q, m)
    assert known is not None
    terms = DirectTerms.of(known, noise, c)
    with precisely():
        balls = NoiseBalls.of(q, level / precision, precision)
        for point in POINTS:
            if point.d + 2 > known.setting.cutoff:
                continue
            found, true = bound(terms, point), evaluate(n, q, m, balls, ball(c), point)
            if not true.main > 0:
                assert found is None
                continue
            assert found is not None
            assert not ball(found.main) > true.main
            assert ball(found.main) > true.main * (1 - 1e-12)
            for name in ("remainder", "user", "single", "paired", "own", "proved"):
                upper, value = ball(getattr(found, name)), getattr(true, name)
                assert not upper < value, (name, point)
                assert not upper > value * (1 + 3e-5), (name, point)


def test_what_is_spent_and_left_is_epsilon() -> None:
    found = private_proved(10**4, 2**21, 3, 1, 1e-8, 100, reserve=0.04)
    assert found.analysis == "direct_comparison"
    noise = Fraction(found.noise_epsilon)
    with precisely():
        proof = best(10**4, 2**21, 3, noise / 100, 100, spent_by(noise))
        assert proof is not None
        assert not (1 + ball(proof.relative)).log() + ball(noise) > 1


def spent_by(noise: Fraction) -> mpfr:
    with rounding(DOWN):
        return gmpy2.expm1(exact(1 - noise, DOWN))


def joined_fours(n: int, q: int, m: int) -> Fraction:
    """Return y_4: partitions of four points, without singletons, whose common join is one block."""
    kinds = [p for p in set_partitions(4) if min(map(len, p)) >= 2]
    total = Fraction(0)
    for chosen in itertools.product(kinds, repeat=m):
        if components(chosen) != 1:
            continue
        # the first partition, and each other one with it: the geometric mean of their counts
        base, others = chosen[0], chosen[1:]
        counts = [q ** (4 - len(base) - len(other) + components((base, other))) for other in others]
        weight = math.prod(Fraction(n) ** (len(one) - 4) for one in chosen)
        total += weight * Fraction(math.prod(counts) ** (1 / len(counts)))
    return total


def set_partitions(size: int) -> list[list[set[int]]]:
    if not size:
        return [[]]
    found = []
    for rest in set_partitions(size - 1):
        found += [
            [*rest[:i], part | {size}, *rest[i + 1 :]] for i, part in enumerate([*rest, set()])
        ]
    return found


def components(chosen: tuple[list[set[int]], ...]) -> int:
    """Return the number of blocks of the join."""
    parts = [{i} for i in range(1, 5)]
    for block in itertools.chain(*chosen):
        met = [part for part in parts if part & block]
        parts = [part for part in parts if not part & block] + [set().union(*met)]
    return len(parts)


def test_clusters_are_joined_by_all_partitions() -> None:
    """Not by the first one with each other one: {12|34, 12|34, 1234} is connected."""
    true = float(joined_fours(1000, 7, 3))
    assert true == pytest.approx(1.08e-16, rel=5e-3)
    assert cluster_moments(1000, 7, 3)[4] <= true  # the direct count is smaller


@pytest.mark.parametrize(("n", "q", "m"), [(1000, 7, 3), (10**8, 2**41, 3), (20, 5, 2)])
def test_clusters_are_rounded_up(n: int, q: int, m: int) -> None:
    with precisely(2000):
        true, users = clusters(n, q, m, 20), flint.arb(n) ** m
        two = 3 * ((n + 1) ** m - users - 1) * q**2
        direct = (two + ((3 * n + 1) ** m - 3 * flint.arb(n + 1) ** m + 2) * q + q**3) / users**3
        for size, found in enumerate(cluster_moments(n, q, m)):
            value = true[size] if size != 4 else true[4].min(direct)
            assert not ball(found) < value
            assert not ball(found) > value * (1 + 1e-12)
        assert true[4] > 0
        assert float(true[4]) == pytest.approx(float(joined_fours(n, q, m)), rel=1e-9)


# In Z_2 a view matters through the numbers of ones of each column and of the clear shares. The
# total of the noise is an integer; the parity of a user's noise depends on it.


def user_noise(rate: float, share: float, length: int) -> Array:
    """Return the law of the difference of two Polya variables on -length..length."""
    alpha, law = math.exp(-rate), [1.0]
    for k in range(1, length + 1):
        law.append(law[-1] * alpha * (k - 1 + share) / k)
    one = np.array(law) * (1 - alpha) ** share
    return np.convolve(one, one[::-1])


def parities(n: int, rate: float, length: int = 60) -> tuple[Array, Array]:
    """Return P[N = s], and E[(-1)^(noise of j users) | N = s] at (s, j), s = -length..length."""
    middle = 6 * length
    keep = slice(middle - length, middle + length + 1)
    signed = (-1.0) ** np.abs(np.arange(-middle, middle + 1))
    rows = []
    for j in range(n + 1):
        some = (
            user_noise(rate, j / n, middle) * signed if j else np.eye(1, 2 * middle + 1, middle)[0]
        )
        rest = (
            user_noise(rate, (n - j) / n, middle) if j < n else np.eye(1, 2 * middle + 1, middle)[0]
        )
        rows.append(np.convolve(some, rest)[2 * middle - middle : 2 * middle + middle + 1][keep])
    total = user_noise(rate, 1, middle)[keep]
    return total, np.array(rows).T / total[:, None]


@dataclass(frozen=True)
class Views:
    """All views of n users in Z_2: the columns on the first axis, others' clear ones on the second.

    ``product`` has, by size, the means of the characters of a set over placements, ``others`` the
    sums of characters over sets of the other users, and ``own`` that of user i if the sum is even.
    """

    n: int
    m: int
    chance: Array
    phi: Array
    others: Array
    own: Array
    product: Array

    @classmethod
    def of(cls, n: int, m: int) -> Views:
        columns = np.array(list(itertools.combinations_with_replacement(range(n + 1), m)))
        orders = [
            math.factorial(m) // math.prod(map(math.factorial, np.bincount(row).tolist()))
            for row in columns
        ]
        sets = sets_of(n)
        phi = (1 - 2 * columns / n).prod(axis=1)
        product = (signs(n) / sets[:, None]).T[columns].prod(axis=1)
        chance = np.array(orders) * (sets / 2**n)[columns].prod(axis=1)
        own = (-1.0) ** (columns.sum(axis=1)[:, None] + np.arange(n))
        chance = chance[:, None] * sets_of(n - 1) / 2 ** (n - 1)
        return cls(n, m, chance, phi[:, None], signs(n - 1), own, product)

    def mean(self, values: Array) -> float:
        return float((self.chance * values).sum())

    def density(self, kappa: Array, own: Array, flip: int) -> Array:
        """Return L for the noise's kappa by size, where user i's encoding flips its character."""
        total = np.zeros_like(self.chance)
        for r in range(self.n + 1):
            column = kappa[r] * self.product[:, [r]]
            if r < self.n:
                total = total + column * self.others[r]
            if r:
                total = total + flip * column * own * self.others[r - 1]
        return total / 2


@dataclass(frozen=True)
class Sizes:
    """True mean squares and moments, averaged over the total of the noise."""

    delta: float
    remainder: list[float]
    single: dict[int, float]
    paired: dict[int, dict[int, float]]
    user: dict[int, float]
    loss: dict[int, float]
    unbiased: float


def sizes(n: int, m: int, rate: float, c: float, a: int, d: int) -> Sizes:
    views = Views.of(n, m)
    chance, kappa = parities(n, rate)
    middle, span = len(chance) // 2, 25
    remainder, delta, unbiased = np.zeros(3), 0.0, 0.0
    single = dict.fromkeys((2, 4, 6), 0.0)
    paired = {lifted: dict.fromkeys((2, 4), 0.0) for lifted in (1, 2)}
    user, loss = dict.fromkeys((2, 4, 6), 0.0), dict.fromkeys((1, 2, 3), 0.0)
    main = sum(views.phi**j * views.others[j] for j in range(d + 1))
    for s in range(-span, span + 1):
        weight, here, there = chance[middle + s], kappa[middle + s], kappa[middle + s - a]
        own = views.own * (-1) ** s
        flip = (-1) ** a
        T = views.density(here, own, 1) - (1 + c) * views.density(there, own, flip)
        moved = here - (1 + c) * there + c
        a_i = own * views.phi * (here[1] - (1 + c) * flip * there[1])
        Y = moved[1] * views.phi * views.others[1]
        Q = moved[2] * views.product[:, [2]] * views.others[2]
        r_2 = (views.product[:, [2]] - views.phi**2) * views.others[2]
        R = T - (a_i - c) * main - Y
        for lifted, part in enumerate((0 * Q, Q, Q - c * r_2)):
            remainder[lifted] += weight * views.mean((R - part) ** 2)
            for K in paired.get(lifted, ()):
                paired[lifted][K] += weight * views.mean(part**K)
        for K in single:
            single[K] += weight * views.mean(Y**K)
        for K in user:
            user[K] += weight * views.mean(a_i**K)
        for j in loss:
            loss[j] += weight * moved[j] ** 2
        unbiased = max(unbiased, abs(views.mean(np.maximum(a_i - c / 2, 0) * (main - 1))))
        delta += weight * views.mean(np.maximum(T, 0))
    return Sizes(
        delta, list(remainder), single, paired, user,
        {j: math.sqrt(value) for j, value in loss.items()}, unbiased,
    )  # fmt: skip


def noise_and_tuples(n: int, m: int, rate: float, shift: int) -> tuple[RevealedNoise, Tuples]:
    known = tuples(n, 2, m)
    assert known is not None
    return discrete_laplace(2, Fraction(rate), shift), known


@pytest.mark.points(1)
@pytest.mark.parametrize(
    ("n", "m"), [(9, 3), pytest.param(9, 4, marks=pytest.mark.slow), (12, 4), (16, 2)]
)
def test_every_term_is_above_its_true_value(n: int, m: int) -> None:
    """Over all views and the totals of the users' own noise, for shifts of one step and of two."""
    for rate, c, p, a in [
        (1.0, 0.1, 1, 1),
        (0.5, 0.4, 2, -2),
        (0.5, 0.02, 2, 1),
        (2.0, 0.3, 1, -1),
    ]:
        noise, known = noise_and_tuples(n, m, rate, p)
        terms, d = DirectTerms.of(known, noise, mpfr(c)), 2
        true = sizes(n, m, rate, c, a, d)
        assert true.unbiased < 1e-12  # E[f(u_i, v) E] = E f(u_i, v)
        for lifted in (0, 1, 2):
            upper = float(terms.remainder(d, lifted))
            assert upper / 1000 < true.remainder[lifted] <= upper
        for K, moment in true.single.items():
            assert 0 < moment <= terms.single[K]
        for lifted, moments in true.paired.items():
            for K, moment in moments.items():
                assert 0 < moment <= terms.paired[lifted][K]
        for K, moment in true.user.items():
            assert 0 < moment <= terms.user[K]
        # E X^k for both differences z, and S_j for the only character
        eps = Views.of(n, m)
        for z, scale in ((0, -c), (1, 2 + c)):
            for k in range(2, 11):
                assert abs(eps.mean((scale * eps.phi + 0 * eps.chance) ** k)) <= terms.user[k], z
        assert eps.mean(((2 + c) * eps.phi + 0 * eps.chance) ** 2) > 0.5 * float(terms.user[2])
        columns = Views.of(n, 1)
        for j in (2, 3):
            X = n**j * columns.mean(columns.phi ** (2 * j) + 0 * columns.chance)
            true_special = (X**m - 1) / n ** (j * m)
            assert 0 < true_special <= known.special[j]
        assert true.loss[1] > 0


@pytest.mark.points(1)
@pytest.mark.parametrize(
    ("n", "m", "epsilon", "reserve"),
    [(13, 4, 1, 0.5), (17, 4, 1, 0.2), (25, 3, 4, 0.25), (41, 3, 0.5, 0.2)],
)
def test_true_delta_is_below(n: int, m: int, epsilon: float, reserve: float) -> None:
    c, noise = spent(Fraction(epsilon), Fraction(reserve))
    proof = best(n, 2, m, noise, 1, c)
    assert proof is not None
    assert exact_delta(n, m, float(noise), epsilon) <= proof.proved < 0.03


@pytest.mark.parametrize("seed", range(3))
def test_main_part_is_above_its_bound(seed: int) -> None:
    """E over numbers of tuples that keep to h_1, h_2 and y: Lemma 4'."""
    random = np.random.default_rng(seed)
    known = tuples(10**4, 2**21, 3)
    assert known is not None
    terms = DirectTerms.of(known, discrete_laplace(2**21, Fraction(1, 100), 100), mpfr(0.04))
    for _ in range(200):
        d = int(random.choice([2, 3, 4, 6]))
        eps = random.normal(0, random.uniform(0.01, 0.1), 40) + random.uniform(-0.03, 0.03)
        p = [float((eps**r).sum()) for r in range(5)]
        e = np.poly(-eps)[: d + 1].sum()
        point = replace(POINTS[0], d=d, h1=abs(p[1]), h2=p[2], y=p[4] ** 0.25)
        found = bound(terms, point)
        assert found is None or e >= float(found.main) - 1e-12


@pytest.mark.parametrize(
    ("n", "delta", "epsilon", "reserve", "total"),
    [
        (10**4, 1e-6, 1, Fraction(105, 10000), 4), (10**4, 1e-8, 1, Fraction(4, 100), 4),
        # with moments up to 24
        (10**4, 1e-6, 1, Fraction(1, 100), 4), (10**4, 1e-8, 1, Fraction(22, 1000), 4),
        (10**5, 1e-10, 1, Fraction(1, 100), 4), (10**6, 1e-12, 1, Fraction(1, 1000), 4),
        (10**8, 1e-16, 1, Fraction(2, 10000), 4), (10**3, 1e-6, 1, Fraction(25, 10000), 5),
        (10**4, 1e-6, 2, Fraction(1, 100), 4), (10**4, 1e-6, 4, Fraction(1, 100), 4),
    ],
)  # fmt: skip
def test_totals(n, delta, epsilon, reserve, total):
    precision = math.isqrt(n - 1) + 1
    q = 1 << (2 * n * precision - 1).bit_length()
    asked = n, q, epsilon, delta, precision
    assert private_message_count(*asked, reserve=reserve).total == total
    found = private_message_count(*asked, reserve=reserve, analysis="direct_comparison")
    assert found.total == total
    assert found.analysis == "direct_comparison"


@pytest.mark.slow
@pytest.mark.parametrize("n", [10**4, 30, 100, 316, 1000, 10**6])
def test_the_best_takes_no_more_messages_than_any(n: int) -> None:
    for epsilon, delta, p in itertools.product((0.1, 1, 2), (1e-4, 1e-8), (1, 100)):
        asked = n, 1 << (2 * n * p - 1).bit_length(), epsilon, delta, p
        counts = {
            name: private_message_count(*asked, analysis=name)
            for name in ("best", "direct_comparison", "higher_moments", "second_moment")
        }
        totals = {name: count.total for name, count in counts.items()}
        assert totals["best"] == min(totals.values())
        assert counts["best"].delta <= delta


def test_the_other_settings() -> None:
    """A message for each corrupt shuffler; all messages shuffled are worth one clear share."""
    asked = 10**4, 2**21, 2, 1e-6, 100
    by = {"analysis": "direct_comparison"}
    total = private_message_count(*asked, **by).total
    assert private_message_count(*asked, corrupt_shufflers=2, **by).total == total + 2
    for shuffler in ("parallel", "single"):
        for clear in (True, False):
            found = private_message_count(*asked, shuffler=shuffler, clear_share=clear, **by)
            assert found.total == total
    fewer = private_message_count(20_000, 2**22, 2, 1e-6, 100, min_honest=10**4, **by)
    assert fewer.total == total


@pytest.mark.parametrize(
    ("n", "changes", "message"),
    [
        (8, {}, "does not cover n = 8 .*: direct_comparison needs min_honest >= 9"),
        (100, {"min_honest": 8}, "needs min_honest >= 9"),
        (100, {"reserve": 0}, "^reserve must be above 0 with analysis='direct_comparison', got 0"),
    ],
)
def test_what_is_refused(n, changes, message):
    with pytest.raises(ValueError, match=message):
        private_message_count(n, 2**12, 1, 1e-6, 10, analysis="direct_comparison", **changes)


@pytest.mark.slow
def test_more_moments() -> None:
    """Up to 24, another implementation has 9.23e-9 and 8.04e-9; both terms and ends are checked."""
    for reserve, delta in ((Fraction(25, 1000), 9.23e-9), (Fraction(4, 100), 8.04e-9)):
        c, level = spent(Fraction(1), reserve)
        sizes = 10**4, 2**21, 3
        proof = best(*sizes, level / 100, 100, c, highest=24)
        assert proof is not None
        assert proof.proved < delta
        point = proof.point
        assert max(point.K, point.K1, 2 * point.l, point.K3) > 20
        with precisely():
            noise = NoiseBalls.of(2**21, level / 100, 100)
            true = evaluate(*sizes, noise, ball(c), point, highest=24)
            assert not ball(proof.proved) < true.proved
            assert not ball(proof.proved) > true.proved * (1 + 3e-5)


def test_where_nothing_is_proved() -> None:
    assert best(8, 16, 3, Fraction(1), 1, mpfr(0.1)) is None  # too few users for the remainder
    assert best(1000, 2**16, 1, Fraction(1, 32), 32, mpfr(0.1)) is None
    assert best(1000, 2**16, 3, Fraction(1, 32), 32, mpfr(0)) is None


@pytest.mark.parametrize(("sensitivity", "times"), [(800, 16), (2, 2)])
def test_separate_sums_compose(sensitivity: int, times: int) -> None:
    """Those in which one user's values differ: at most one for each step of the l1 norm."""
    scheme = checked_scheme(10**5, 2**26, analysis="direct_comparison")
    budget = Budget(Fraction(1), Fraction(1e-8), Fraction(1, 100), sensitivity, sums=16)
    found = scheme.analysis.privacy(scheme, 4, budget)
    assert isinstance(found, DirectPrivacy)
    rate, c = Fraction(found.noise_epsilon) / sensitivity, found.bound.relative
    again = best(10**5, 2**26, 4, rate, sensitivity, c, found.bound.point)
    assert again is not None
    with precisely():
        assert not ball(Fraction(found.noise_epsilon)) + times * (1 + ball(c)).log() > 1
        assert not ball(found.delta) < times * ball(found.bound.proved)
        balls = NoiseBalls.of(2**26, rate, sensitivity)
        true = evaluate(10**5, 2**26, 4, balls, ball(c), found.bound.point)
        assert not ball(found.bound.proved) < true.proved
    assert found.delta <= 1e-8


def test_vectors() -> None:
    asked = {"precision": 50, "dimension": 16, "analysis": "direct_comparison"}
    with pytest.raises(ValueError, match="does not cover 16 coordinates in one group"):
        private_vector_layouts(10**6, 2**27, 1, 1e-8, **asked)
    best_of_all = private_vector_layouts(10**6, 2**27, 1, 1e-8, 50, 16)
    assert [layout.count.analysis for layout in best_of_all] == [
        "second_moment", "direct_comparison"
    ]  # fmt: skip
    second = private_vector_layouts(10**6, 2**27, 1, 1e-8, 50, 16, analysis="second_moment")
    assert [layout.messages_per_user for layout in best_of_all] < [
        layout.messages_per_user for layout in second
    ]


@pytest.mark.slow
def test_remaining_privacy() -> None:
    by = {"analysis": "direct_comparison"}
    count = private_message_count(10**4, 2**21, 2, 1e-6, 100, **by)
    given = (10**4, 2**21, count.total, count.noise_epsilon, 1e-6, 100)
    found = private_remaining(*given, **by)
    assert 1.99 < found.epsilon <= 2 * (1 + 1e-4)
    assert found.delta <= 1e-6
    assert private_remaining(*given).epsilon <= found.epsilon
    with pytest.raises(ValueError, match="does not cover fewer honest users than share the noise"):
        private_remaining(*given, honest=9_900, **by)
    larger = (*given[:4], 1e-5, 100)
    assert private_remaining(*larger, honest=9_990).count.analysis == "higher_moments"


@pytest.mark.slow
def test_large_epsilons_are_counted() -> None:
    """What may be spent on hiding is beyond any double; c is at most 1."""
    for epsilon in (100, 10**6):
        asked = 1000, 2**40, epsilon, 1e-6, 2**20
        total = private_message_count(*asked).total
        assert total == private_message_count(*asked, analysis="second_moment").total
        assert private_message_count(*asked, analysis="direct_comparison").total > total


def test_a_count_keeps_to_delta_where_part_of_the_reserve_proves_more() -> None:
    """The search for the least c takes the same steps as the count."""
    delta = 4.4858e-9
    by = {"reserve": 0.2, "analysis": "direct_comparison"}
    count = private_message_count(4905, 2**18, 0.401151, delta, 21, **by)
    assert (count.shuffled, count.delta <= delta) == (3, True)


def test_more_messages_prove_more() -> None:
    """However small the moments are, h_1 need not be."""
    by = {"reserve": 0.01, "analysis": "direct_comparison"}
    deltas = [private_delta(1000, 2**16, m, 1, 32, **by) for m in (5, 6, 7, 8, 12)]
    assert deltas == sorted(deltas, reverse=True)
    assert deltas[-1] < 1e-50


def test_exponents_without_moments_prove_nothing() -> None:
    terms = terms_of(*COLUMNS[0])
    assert bound(terms, replace(POINTS[0], K=20)) is not None
    for wrong in ({"K": 0}, {"K": 22}, {"K": 19}, {"K3": 19}, {"K1": 6}, {"l": 3}, {"K3": 6}):
        assert bound(terms, replace(POINTS[0], **wrong)) is None


def test_what_remains_is_the_theorem_for_the_noise_and_its_sensitivity() -> None:
    sizes, rate, level = (10**4, 2**21, 3), Fraction(96, 10**4), Fraction(96, 100)
    found = private_remaining(*sizes[:2], 4, level, 1e-8, 100, analysis="direct_comparison")
    with rounding(DOWN):
        c = gmpy2.expm1(exact(Fraction(found.epsilon) - level, DOWN))
    for highest in (20, 24):
        proof = best(*sizes, rate, 100, c, highest=highest)
        assert proof is not None
        if float(proof.proved) == pytest.approx(found.delta, rel=1e-6):
            break
    else:
        pytest.fail("another delta")
