"""Higher moments: values of another implementation, and the truth in Z_2, where sums are short."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction

import gmpy2
import numpy as np
import pytest
from gmpy2 import mpfr
from numpy.typing import NDArray

from ikos.counts.higher_moments import Jumps, MomentBound, Point, best, bound, search, setting
from ikos.counts.tuple_moments import tuple_moments
from ikos.numeric.rounding import DOWN, UP, exact, float_up, rounding

Array = NDArray[np.float64]


def spent(epsilon: Fraction, reserve: Fraction) -> tuple[mpfr, float]:
    """Return c and the noise's epsilon when all of a reserve is spent."""
    noise = float_up(exact(epsilon * (1 - reserve), UP))
    with rounding(DOWN):
        return gmpy2.expm1(exact(epsilon - Fraction(noise), DOWN) / 2), noise


def proved(n: int, q: int, m: int, precision: int, epsilon: Fraction, reserve: Fraction) -> float:
    c, noise = spent(epsilon, reserve)
    jumps = Jumps.discrete_laplace(q, Fraction(noise) / precision)
    found = best(n, q, m, jumps, c)
    return 1.0 if found is None else float(found.delta(noise))


@pytest.mark.parametrize(
    ("n", "bits", "m", "precision", "values"),
    [
        (10**3, 16, 4, 32, (4.97675e-8, 1.14742e-5, 2.33999e-4)),
        (10**4, 21, 4, 100, (6.95849e-16, 1.26414e-15, 2.66372e-15)),
        (10**5, 26, 3, 317, (7.05753e-10, 4.80023e-9, 1.40703e-5)),
        (10**6, 31, 3, 1000, (4.54101e-13, 6.5088e-13, 1.41649e-12)),
        (10**8, 41, 3, 10000, (6.74343e-18, 4.277e-18, 3.20789e-18)),
    ],
)
def test_as_good_as_another_search(n, bits, m, precision, values):
    """At reserves of 1, 1/2 and 1/4 per cent; that search bounds degree two in mean square."""
    for reserve, value in zip((100, 200, 400), values, strict=True):
        found = proved(n, 2**bits, m, precision, Fraction(1), Fraction(1, reserve))
        assert found < 1.05 * value


@pytest.mark.parametrize(
    ("n", "bits", "m", "precision", "k", "d", "difference", "reference"),
    [
        (10**3, 16, 4, 32, 7, 2, 2.0427e-13, 1.92743e-11),
        (10**4, 21, 4, 100, 9, 3, 2.1784e-18, 1.22013e-15),
        (10**5, 26, 3, 317, 12, 4, 2.66611e-13, 8.72088e-10),
        (10**8, 41, 3, 10000, 18, 4, 4.04988e-22, 7.26765e-16),
    ],
)
def test_remainders(n, bits, m, precision, k, d, difference, reference):
    found = setting(n, 2**bits, m)
    assert found is not None
    _, noise = spent(Fraction(1), Fraction(1, 100))
    jumps = Jumps.discrete_laplace(2**bits, Fraction(noise) / precision)
    remainders = found.remainders(jumps, k, d)
    assert [float(f"{float(one):.6g}") for one in remainders] == [difference, reference]


@pytest.mark.parametrize(
    ("n", "bits", "m", "precision", "k", "d", "parameters", "main", "first", "eta"),
    [
        (10**3, 16, 4, 32, 7, 2, (0.1, 0.005, 0.5, 0.75), 0.900252, 5.87973e-9, 1.34335e-8),
        (10**4, 21, 4, 100, 9, 3, (0.1, 0.005, 0.1, 0.1), 0.901637, 1.12828e-30, 1.87828e-16),
        (10**5, 26, 3, 317, 12, 4, (0.75, 0.1, 0.5, 0.25), 0.330088, 9.00579e-12, 1.90501e-10),
        (10**6, 31, 3, 1000, 14, 4, (0.6, 0.05, 0.2, 0.01), 0.493581, 2.39049e-16, 1.22573e-13),
        (10**8, 41, 3, 10000, 18, 4, (0.3, 0.02, 0.05, 0.01), 0.725791, 6.1108e-69, 1.82022e-18),
    ],
)
def test_terms_at_parameters_of_another_implementation(
    n: int, bits: int, m: int, precision: int, k: int, d: int,
    parameters: tuple[float, float, float, float], main: float, first: float, eta: float,
) -> None:  # fmt: skip
    """With the best exponents, which enter separate terms."""
    found = setting(n, 2**bits, m)
    assert found is not None
    c, noise = spent(Fraction(1), Fraction(1, 100))
    jumps = Jumps.discrete_laplace(2**bits, Fraction(noise) / precision)

    def at(point: Point) -> MomentBound:
        proof = bound(found, jumps, k, c, point)
        assert proof is not None
        return proof

    point = Point(d, *parameters, 20, 20, 10, 20)
    least = d // 2 + 1
    for name, values in [
        ("K", range(2, 21, 2)), ("K1", range(2 * least, 21, 2)), ("l", range(least, 11)),
        ("K3", range(2 * least, 21, 2)),
    ]:  # fmt: skip
        tried = (replace(point, **{name: value}) for value in values)
        point = min(tried, key=lambda point: at(point).eta)
    best = at(point)
    assert float(best.main) == pytest.approx(main, rel=2e-6)
    assert float(best.eta) == pytest.approx(eta, rel=5e-6)
    room = float(c) * (1 - point.part) * main * point.share
    constant = (point.K - 1) ** (point.K - 1) / point.K**point.K * float(1 + c) ** point.K
    moments = float(best.spread) * float(best.first)
    assert constant * moments / room ** (point.K - 1) == pytest.approx(first, rel=2e-5)


def test_where_nothing_is_proved() -> None:
    assert setting(8, 16, 3) is None  # too few users for the remainder
    assert setting(1000, 2**16, 1) is None
    assert proved(10**6, 2**31, 2, 1000, Fraction(1), Fraction(1, 100)) == 1
    assert proved(10**6, 2**31, 3, 1000, Fraction(1), Fraction(0)) == 1


@pytest.mark.parametrize(
    ("q", "rate"), [(2, Fraction(1, 2)), (8, Fraction(1, 20)), (50, Fraction(1))]
)
def test_jumps_are_within_their_bounds(q: int, rate: Fraction) -> None:
    found = Jumps.discrete_laplace(q, rate)
    alpha = math.exp(-rate)
    mean = -2 * math.log1p(-alpha)
    assert float(found.fewest) == pytest.approx(mean, rel=1e-14)
    assert found.fewest < found.most
    sizes = np.arange(1, 5000)
    chance = alpha**sizes / (mean * sizes)
    law = np.bincount(sizes % q, chance, q) + np.bincount(-sizes % q, chance, q)
    assert law.sum() == pytest.approx(1)
    assert law[0] <= found.zero
    assert (law**2).sum() <= found.equal
    total = np.arange(200)
    poisson = np.exp(-mean + total * math.log(mean) - [math.lgamma(j + 1) for j in total])
    for power, moment in enumerate(found.moments()[:8]):
        assert (poisson * total**power).sum() == pytest.approx(float(moment), rel=1e-9)


# In Z_2 a view matters through the numbers of ones of each shuffled column and of the clear shares


def signs(n: int) -> Array:
    """Return, at (s, t), the sum over sets S of s of n users of (-1)^(ones in S), t ones in all."""
    table = np.zeros((n + 1, n + 1))
    for t in range(n + 1):
        row = np.ones(1)
        for factor in [[1, -1]] * t + [[1, 1]] * (n - t):
            row = np.convolve(row, factor)
        table[:, t] = row
    return table


@dataclass(frozen=True)
class Truth:
    """The terms of the decomposition on all views of n users in Z_2, n odd, with their chances.

    The first axis is over columns, the second over the ones among the others' clear shares; the
    clear share of user i follows from the sum. Jumps are ``odd`` ones; even ones move nothing.
    """

    chance: Array
    mechanism: Array
    reference: Array
    difference: Array  # R
    remainder: Array  # r
    linear: Array  # Y
    pairs: Array  # the terms of R of two users without i
    reference_pairs: Array  # those of r

    @classmethod
    def of(cls, n: int, m: int, odd: int, k: int, d: int) -> Truth:
        sets = np.array([math.comb(n, s) for s in range(n + 1)], dtype=float)
        phi, product, chance = np.ones(1), np.ones((1, n + 1)), np.ones(1)
        parity = np.zeros(1, dtype=int)
        for _ in range(m):
            ones = np.arange(n + 1)
            phi = (phi[:, None] * (1 - 2 * ones / n)).ravel()
            product = (product[:, None, :] * (signs(n) / sets[:, None]).T).reshape(-1, n + 1)
            chance = (chance[:, None] * sets / 2**n).ravel()
            parity = (parity[:, None] + ones).ravel() % 2
        others = signs(n - 1)
        t = np.arange(n)
        chance = chance[:, None] * sets_of(n - 1) / 2 ** (n - 1)
        # all encodings 0: the sum of all is that of the jumps
        own = (-1.0) ** (parity[:, None] + t + odd)
        phi = phi[:, None]
        half = (n - 1) // 2
        mechanism = np.zeros_like(chance)
        reference = np.zeros_like(chance)
        for s in range(half + 1):
            factor = (1 - 2 * s / n) ** odd
            without = product[:, [s]] * others[s]
            mechanism += factor * without
            reference += (1 - s / (n - 1)) ** k * without
            if s:
                within = own * product[:, [s]] * others[s - 1]
                mechanism += factor * within
                reference += (-1) ** odd * ((s - 1) / (n - 1)) ** k * within
        main = sum((1 - j / (n - 1)) ** k * phi**j * others[j] for j in range(d + 1))
        linear = ((1 - 2 / n) ** odd - (1 - 1 / (n - 1)) ** k) * phi * others[1]
        apart = mechanism - reference
        difference = apart - own * phi * (1 - 2 / n) ** odd * main - linear
        both, bar = product[:, [2]] * others[2], (1 - 2 / (n - 1)) ** k
        pairs = ((1 - 4 / n) ** odd - bar) * both
        reference_pairs = bar * (both - phi**2 * others[2])
        return cls(
            chance, mechanism, reference, difference, reference - main, linear, pairs,
            reference_pairs,
        )  # fmt: skip

    def mean(self, values: Array) -> float:
        return float((self.chance * values).sum())

    def divergences(self, c: float) -> tuple[float, float]:
        """Return the hockey-stick divergences of order 1 + c, the mechanism's first."""
        pair = (self.mechanism, self.reference), (self.reference, self.mechanism)
        first, second = (self.mean(np.maximum(a - (1 + c) * b, 0)) for a, b in pair)
        return first, second


def sets_of(n: int) -> Array:
    return np.array([math.comb(n, s) for s in range(n + 1)], dtype=float)


@pytest.mark.parametrize(
    ("m", "odd", "k", "c", "linear", "difference", "remainder", "divergences"),
    [
        (2, 1, 1, "1/2", "9/2500", "74331/6250000", "7/400", ("27/5120", "1/640")),
        (
            3, 2, 2, "1/4", "6561/5000000", "293620761/625000000000", "1/2560",
            ("393/409600", "13/81920"),
        ),
    ],
)  # fmt: skip
def test_the_decomposition_of_five_users(m, odd, k, c, linear, difference, remainder, divergences):
    """As counted over all views by another implementation."""
    truth = Truth.of(5, m, odd, k, 1)
    found = (
        truth.mean(truth.linear**2),
        truth.mean(truth.difference**2),
        truth.mean(truth.remainder**2),
        *truth.divergences(float(Fraction(c))),
    )
    stated = (linear, difference, remainder, *divergences)
    assert truth.mean(truth.mechanism) == pytest.approx(1)
    assert truth.mean(truth.reference) == pytest.approx(1)
    assert found == pytest.approx([float(Fraction(value)) for value in stated], rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(("n", "m", "odd", "k"), [(9, 2, 1, 1), (13, 3, 2, 1), (21, 3, 0, 3)])
def test_moments_of_degree_two(n: int, m: int, odd: int, k: int) -> None:
    truth = Truth.of(n, m, odd, k, 2)
    total = tuple_moments(n, 2, m).total
    loss, beta = (n / (n - 1)) ** m, (2 * odd + k) / (n - 1)
    for K in range(2, 11, 2):
        most = float(total[2 * K]) * loss**K
        assert 0 < truth.mean(truth.pairs**K) <= most * beta**K
        assert 0 < truth.mean(truth.reference_pairs**K) <= most / 2**K
    # what is left when they are taken out is still within the bounds in mean square
    jumps = Jumps.discrete_laplace(2, Fraction(1))
    found = setting(n, 2, m)
    assert found is not None
    whole, without = (found.remainders(jumps, k, 2, least) for least in (2, 3))
    left = truth.mean((truth.remainder - truth.reference_pairs) ** 2)
    assert left <= float(without[1]) < float(whole[1])
    assert without[0] < whole[0]


@pytest.mark.points(1)
@pytest.mark.parametrize(
    ("n", "m", "rate", "c"), [(9, 4, 2, 0.5), (13, 3, 1, 0.5), (21, 3, 1, 0.1), (25, 2, 3, 0.5)]
)
def test_true_divergences_are_below_the_bound(n: int, m: int, rate: int, c: float) -> None:
    jumps = Jumps.discrete_laplace(2, Fraction(rate))
    found = setting(n, 2, m)
    assert found is not None
    k = max(1, round(float(jumps.most)))
    point = search(found, jumps, k, c)
    assert point is not None
    proof = bound(found, jumps, k, mpfr(c), point)
    assert proof is not None
    assert not point.pairs or proof.paired > 0
    remainders = np.array(found.remainders(jumps, k, point.d), dtype=float)
    alpha = math.exp(-rate)
    mean = math.log((1 + alpha) / (1 - alpha))  # of the odd jumps
    true, squares, weight = np.zeros(2), np.zeros(2), 0.0
    for odd in range(12):
        chance = math.exp(-mean) * mean**odd / math.factorial(odd)
        truth = Truth.of(n, m, odd, k, point.d)
        true += chance * np.array(truth.divergences(c))
        squares += chance * np.array(
            [truth.mean(truth.difference**2), truth.mean(truth.remainder**2)]
        )
        weight += chance
    assert weight > 1 - 1e-6
    assert (squares <= remainders).all()
    assert (squares > remainders / 500).all()  # the bounds would notice a term that is missing
    assert (true <= float(proof.eta)).all()


def exact_delta(n: int, m: int, noise: float, epsilon: float) -> float:
    """Return the private sum's delta in Z_2, precision 1, to double precision."""
    alpha = math.exp(-noise)
    odd = math.log((1 + alpha) / (1 - alpha))  # their mean number
    sets = sets_of(n)
    product, chance = np.exp(-2 * odd * np.arange(n + 1) / n)[None], np.ones(1)
    for _ in range(m):
        product = (product[:, None, :] * (signs(n) / sets[:, None]).T).reshape(-1, n + 1)
        chance = (chance[:, None] * sets / 2**n).ravel()
    table = signs(n - 1)
    without = product[:, :n] @ table
    within = product[:, 1:] @ table
    weight = chance[:, None] * sets_of(n - 1) / 2**n
    return float(
        sum(
            (weight * np.maximum(a - math.exp(epsilon) * b, 0)).sum()
            for a, b in ((without + within, without - within), (without - within, without + within))
        )
    )


@pytest.mark.points(1)
@pytest.mark.parametrize(
    ("n", "m", "epsilon", "reserve"),
    [(13, 4, 1, 0.5), (17, 4, 1, 0.2), (25, 3, 4, 0.25), (81, 2, 1, 0.1), (41, 3, 0.5, 0.2)],
)
def test_true_delta_is_below(n: int, m: int, epsilon: float, reserve: float) -> None:
    _, noise = spent(Fraction(epsilon), Fraction(reserve))
    found = proved(n, 2, m, 1, Fraction(epsilon), Fraction(reserve))
    assert exact_delta(n, m, noise, epsilon) <= found
    assert found < 1 or m == 2
