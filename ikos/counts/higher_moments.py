"""Differential privacy of the private sum by higher moments of its message tuples.

The information in one tuple of messages about one user, and terms of pairs of users, are bounded by
their high moments (`ikos.counts.tuple_moments`), and a smaller remainder in mean square. The
private sum of m parallel shufflers and a clear share is then (eps0 + 2 ln(1+c), eta (1 + (1+c)
e^eps0))-DP if its noise is eps0-DP. The theorem, its eta, and the proof are in
docs/higher-moments.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, lru_cache
from typing import Any

import gmpy2
import numpy as np
from gmpy2 import mpfr, mpq
from numpy.typing import NDArray

from ikos.counts.largest_component import at_cutoff
from ikos.counts.recursion import enclosed
from ikos.counts.second_moment import SecondMoment
from ikos.counts.share_graph import ShareGraph
from ikos.counts.tuple_moments import HIGHEST, tuple_moments, without_singletons
from ikos.counts.types import Analysis, Budget, FixedNoise, PrivacyProof, RemainingPrivacy, Scheme
from ikos.numeric.rounding import (
    DOWN,
    NEAREST,
    UP,
    exact,
    float_up,
    log2,
    nearest,
    rational,
    rounding,
)

THEOREM = "higher moments of the message tuples, docs/higher-moments.md"

MIN_USERS = 9

_ONE = mpfr(1)
_LARGEST_CUTOFF = 16
_DEGREES = (2, 3, 4, 6)  # the values of d that are tried


def poisson_moments(mean: mpfr, highest: int) -> list[mpfr]:
    """Return upper bounds on E J^a for a = 0..highest, J Poisson."""
    with rounding(UP):
        powers = [mean**i for i in range(highest + 1)]
        return [
            gmpy2.fsum([count * power for count, power in zip(counts, powers, strict=False)])
            for counts in _stirling(highest)
        ]


@cache
def _stirling(highest: int) -> list[list[int]]:
    """Return the Stirling numbers of the second kind of 0..highest."""
    rows = [[1]]
    for _ in range(highest):
        pairs = zip([*rows[-1], 0], [0, *rows[-1]], strict=True)
        rows.append([i * same + new for i, (same, new) in enumerate(pairs)])
    return rows


@dataclass(frozen=True)
class Jumps:
    """Discrete Laplace noise as jumps of uniformly random users.

    Their number is Poisson, with a mean between ``fewest`` and ``most``; ``zero`` and ``equal`` are
    upper bounds on the probabilities that a jump is 0, and that two jumps agree, modulo q.
    """

    fewest: mpfr
    most: mpfr
    zero: mpfr
    equal: mpfr

    @classmethod
    def discrete_laplace(cls, q: int, rate: Fraction, count: Fraction | int = 1) -> Jumps:
        """Return the jumps, modulo q, of ``count`` (or a fraction) variables exp(-rate |k|)."""
        with rounding(UP):
            alpha = gmpy2.exp(exact(-rate, UP))
            gap = -gmpy2.expm1(exact(-rate, UP))  # 1 - alpha, rounded down: the sign is exact
        with rounding(DOWN):
            least_alpha = gmpy2.exp(exact(-rate, DOWN))
            most = -gmpy2.log(gap)  # of lambda: rounded up
        with rounding(UP):
            fewest = -gmpy2.log1p(-least_alpha)  # rounded down
            mean = 2 * rational(count) * most
        with rounding(DOWN):
            least = 2 * rational(count) * fewest
            scale, ends = fewest * gap, (mpfr(q), mpfr(-(-q // 2)))
            square = 12 * fewest * fewest
        if not scale > 0:
            return cls(least, mean, _ONE, _ONE)
        with rounding(UP):
            zero, apart = (alpha**x / x / scale for x in ends)
            equal = gmpy2.const_pi() ** 2 / square + 2 * apart
        return cls(least, mean, min(_ONE, zero), min(_ONE, equal))

    def moments(self) -> list[mpfr]:
        """Return upper bounds on E J^a for a = 0..HIGHEST, J the number of jumps."""
        return poisson_moments(self.most, HIGHEST)

    def spread(self, n: int, k: int | mpfr) -> dict[int, mpfr]:
        """Return upper bounds on E beta^K, beta = (2 J + k) / (n - 1)."""
        moments = self.moments()
        with rounding(UP):
            powers = [mpfr(k) ** i for i in range(HIGHEST + 1)]
            return {
                K: gmpy2.fsum(
                    [math.comb(K, a) * 2**a * powers[K - a] * moments[a] for a in range(K + 1)]
                )
                / (n - 1) ** K
                for K in range(2, HIGHEST + 1, 2)
            }


@dataclass(frozen=True)
class TupleSetting:
    """The quantities that depend on the users, the group and the shufflers only, rounded up.

    ``weights`` has W_s for degrees s below ``cutoff``, and ``rest`` bounds the sum of the others.
    By degree j, ``generic`` and ``special`` are the two parts of Lemma 3, and ``loss`` is t_j^-2m.
    """

    n: int
    q: int
    m: int
    cutoff: int
    weights: Sequence[mpfr]
    rest: mpfr
    generic: Sequence[mpfr]
    special: Sequence[mpfr]
    loss: Sequence[mpfr]

    def remainders(self, jumps: Jumps, k: int, d: int, least: int = 2) -> tuple[mpfr, mpfr]:
        """Return upper bounds on |R|^2, averaged over the jumps, and on |r|^2.

        ``least`` is the least degree of the terms without user i.
        """
        n, m, q, weights = self.n, self.m, self.q, self.weights
        blurred = mpq(k * n, n - 1)
        with rounding(UP):  # a rational operand is rounded as the result: not so for differences
            most_blurred = mpfr(blurred)
        with rounding(DOWN):
            missing, least_blurred = jumps.fewest - most_blurred, mpfr(blurred)
        with rounding(UP):
            _, mean, second, _, fourth, *_ = jumps.moments()
            difference = [4 * self.rest]
            for s in range(1, d + 1):  # user i and s others
                each = mpq(2 * s, n)
                same = mpq(k * s + s, n - 1) + mpq(m * s * (s + 1), 2 * n)
                gamma = same * same + 2 * same * each * mean + each * each * second
                difference.append(mpq(s + 1, n) * weights[s + 1] * gamma)
                apart = self.generic[s + 1] + self.special[s + 1]
                difference.append(gmpy2.comb(n - 1, s) * apart)
            difference += [  # user i and more others
                mpq(s, n) * weights[s] * (1 + mpfr(mpq(s - 1, n - 1)) ** k) ** 2
                for s in range(d + 2, self.cutoff)
            ]
            away = max(mean - least_blurred, -missing)
            psi = away * away + 2 * jumps.zero * (second + blurred * mean)
            psi += 2 * mean + mean * mean * jumps.equal
            linear = gmpy2.sqrt(mpq(q, q - 1) * psi) / n
            square = gmpy2.sqrt(16 * fourth + 8 * k * k * second + k**4) / 2 / (n - 1) ** 2
            difference += [  # s users without i
                weights[s] * (s * linear + s * s * square) ** 2 for s in range(least, self.cutoff)
            ]
            reference = [self.rest, *weights[d + 1 :]]
            for j in range(2, d + 1):
                apart = self.generic[j] + self.special[j] * (1 + self.loss[j])
                if j >= least:
                    reference.append(gmpy2.comb(n - 1, j) * apart)
                alike = mpfr(mpq(j - 1, n - 1)) ** (2 * k)
                reference.append(mpq(j, n) * weights[j] * alike)
            return gmpy2.fsum(difference), gmpy2.fsum(reference)


@lru_cache(maxsize=256)
def setting(n: int, q: int, m: int) -> TupleSetting | None:
    """Return the quantities independent of the noise, or None where the theorem proves nothing."""
    if n < MIN_USERS or m < 2 or (n - 1) * q > n ** min(m, q.bit_length() + 1):
        # E p_1^2 is above 1
        return None
    cutoff = next(j for j in range(_LARGEST_CUTOFF, 2, -2) if (j + 2) ** 2 <= 4 * n)
    graph = ShareGraph(m, "parallel", True)
    rest = at_cutoff(n, q, graph, cutoff).remainder
    if not gmpy2.is_finite(rest):
        return None
    colours = enclosed(cutoff, q - 1, graph)
    weights, generic, special, loss = [], [], [], []
    for s in range(cutoff):
        with rounding(DOWN):
            sets = mpfr(gmpy2.comb(n, s)) ** (m - 1) * colours.weight_down[s]
        with rounding(UP):
            weights.append(colours.colourings[s] / sets)
    for j in range(max(_DEGREES) + 2):
        injective = math.perm(n, j)
        blocks = sum(count * n**u for u, count in enumerate(without_singletons(2 * j)))
        with rounding(UP):
            colliding = mpfr(mpq(n**j - injective, n**j))
        with rounding(DOWN):
            log = m * gmpy2.log1p(-colliding)  # of t_j^m
            missed = gmpy2.expm1(log)
            places = mpfr(injective) ** m
        with rounding(UP):
            generic.append(mpfr(q - 1) ** j / places * -missed)
            relations = max(0, 3**j - 1 - 2 * j) // 2 * mpfr(q - 1) ** max(0, j - 1)
            special.append(relations * mpfr(mpq(blocks, n ** (2 * j))) ** m)
            loss.append(gmpy2.exp(-2 * log))
    return TupleSetting(n, q, m, cutoff, weights, rest, generic, special, loss)


@dataclass(frozen=True)
class Point:
    """The theorem's free parameters: d, h_1, h_2, c_1 / c, fractions c_Y and c_2, and exponents.

    Without a fraction for c_2, terms of degree two are bounded in mean square with the others.
    """

    d: int
    h1: float
    h2: float
    part: float
    share: float
    K: int
    K1: int
    l: int  # noqa: E741
    K3: int
    pairs: float = 0.0
    K2: int = 2


Array = NDArray[np.float64]

_GRID = (  # where h_1 is between its ends; sqrt(h_2) / h_1; and c_1 / c
    np.linspace(0, 1, 20)[:, None, None, None],
    np.array([0.35, 0.5, 0.7, 0.9])[:, None, None],
    np.array([0.02, 0.05, 0.1, 0.15, 0.2, 0.275, 0.35, 0.45, 0.55, 0.65, 0.8])[:, None],
)

_SHARES = (  # of c_Y and of c_2: with terms of degree two in mean square, and by moments
    np.array([(y, 0) for y in (0.002, 0.01, 0.03, 0.07, 0.15, 0.25, 0.35, 0.5, 0.65, 0.8, 0.95)]).T,
    np.array([
        (y, pairs)
        for y in (0.005, 0.03, 0.1, 0.2, 0.4, 0.7)
        for pairs in (0.02, 0.1, 0.25, 0.4, 0.6, 0.8)
        if y + pairs < 0.95
    ]).T,
)  # fmt: skip

Logs = dict[int, float]


def logarithms(values: dict[int, mpfr]) -> Logs:
    """Return the natural logarithms of moments, by exponent."""
    with rounding(NEAREST, 53):
        return {K: float(gmpy2.log(value)) for K, value in values.items()}


def least_power(logs: Logs, step: Array, low: int) -> tuple[Array, NDArray[np.int64]]:
    """Return the least exp(logs[K] + K step) over K >= low, and its K."""
    lines = [line for line in logs.items() if line[0] >= low]
    hull, starts = [max(lines)], []  # the lowest lines, from step = -inf on
    while rest := [line for line in lines if line[0] < hull[-1][0]]:
        last = hull[-1]
        start, line = min(((log - last[1]) / (last[0] - K), (K, log)) for K, log in rest)
        starts.append(start)
        hull.append(line)
    at = np.searchsorted(starts, step)
    exponents = np.array([K for K, _ in hull])[at]
    with np.errstate(over="ignore", under="ignore"):
        return np.exp(np.array([log for _, log in hull])[at] + exponents * step), exponents


class _Search:
    """Logarithms of moments in floating point, by exponent, for a search of parameters."""

    def __init__(self, setting: TupleSetting, jumps: Jumps, k: int, c: float) -> None:
        self.setting, self.jumps, self.k, self.c = setting, jumps, k, c
        moments = tuple_moments(setting.n, setting.q, setting.m)
        self.totals, self.singles = logarithms(moments.total), logarithms(moments.single)
        self.squares = {2 * j: log for j, log in logarithms(moments.squares).items()}
        loss = logarithms({2: setting.loss[2]})[2] / 2
        pairs = {K // 2: K // 2 * loss + log for K, log in self.totals.items() if K % 4 == 0}
        # of C_K times the moments of (1+c) |Y|, and of the terms of degree two
        self.singly = self._tails(self.totals, k)
        self.doubly = self._tails(pairs, _pairs_shift(setting.n, k, exact(Fraction(c), UP)))

    def _tails(self, moments: Logs, shift: int | mpfr) -> Logs:
        spread = logarithms(self.jumps.spread(self.setting.n, shift))
        return {
            K: (K - 1) * math.log(K - 1) - K * math.log(K) + K * math.log1p(self.c)
            + spread[K] + log
            for K, log in moments.items()
        }  # fmt: skip

    @np.errstate(over="ignore", under="ignore")  # infinite: nothing is proved
    def best(self, d: int, *grid: Array) -> tuple[float, Point]:
        """Return the least eta of a grid, and its parameters."""
        n, c = self.setting.n, self.c
        h1, ratio, part, (share, pairs) = grid
        x = np.minimum(ratio * h1, 0.95)  # sqrt(h_2)
        curve = -np.log1p(-x) - x
        main = np.exp(-h1) - h1 ** (d + 1) / math.factorial(d + 1)
        main = main - (np.exp(h1) * np.expm1(curve) + d * self.k / (n - 1) * np.expm1(h1 + curve))
        usable = main > 0.02
        main = np.where(usable, main, 1.0)
        room = c * (1 - part) * main
        tall, K1 = least_power(self.totals, -np.log(h1), d + 1)
        wide, L2 = least_power(self.squares, -np.log(x), d + 1)
        own, K3 = least_power(self.singles, np.log((1 + c) / (part * c)), d + 1)
        first, K = least_power(self.singly, -np.log(share * room), 2)
        paired = bool(pairs.any())
        squares = self.setting.remainders(self.jumps, self.k, d, 3 if paired else 2)
        with rounding(NEAREST, 53):
            roots = list(map(gmpy2.sqrt, squares))
        difference, reference = map(np.float64, roots)
        eta = ((1 + c) * difference + c * reference) ** 2 / 4 / (1 - share - pairs) / room
        front = c * ((1 + part) * sum(h1**j for j in range(d + 1)) + main)
        eta = eta + first * share * room + front * (tall + wide + own)
        K2 = np.array(2)
        if paired:
            double, K2 = least_power(self.doubly, -np.log(pairs * room), 2)
            eta = eta + double * pairs * room
        eta = np.where(usable, eta, np.inf)
        at = np.unravel_index(eta.argmin(), eta.shape)

        def chosen(value: NDArray[Any]) -> Any:
            return np.broadcast_to(value, eta.shape)[at].item()

        point = Point(
            d, chosen(h1), chosen(x * x), chosen(part), chosen(share), chosen(K), chosen(K1),
            chosen(L2) // 2, chosen(K3), chosen(pairs), chosen(K2),
        )  # fmt: skip
        return float(eta[at]), point


def search(
    setting: TupleSetting, jumps: Jumps, k: int, c: float, near: Point | None = None
) -> Point | None:
    """Return nearly the best parameters, in floating point, or None if there are none.

    With ``near``, the best parameters for a similar c, only those close to it are tried.
    """
    at = _Search(setting, jumps, k, c)
    tried: list[tuple[float, Point]] = []
    if near is None:
        root = max(1e-30, math.exp(at.totals[2] / 2))
        high = min(1.2, 400 * root)
        low = min(3 * root, high / 4)
        h1 = low * (high / low) ** _GRID[0]
        tried = [
            at.best(d, h1, *_GRID[1:], shares)
            for d in _DEGREES
            if setting.n > 2 * d + 2 and setting.cutoff >= d + 2
            for shares in _SHARES
        ]
        eta, near = min(tried, key=lambda way: way[0], default=(math.inf, None))
        if near is None or eta == math.inf:
            return None
    factors = np.array([0.9, 0.95, 1.0, 1.05, 1.1])
    for _ in range(1 if tried else 3):
        ratio = math.sqrt(near.h2) / near.h1 * factors[1:4, None, None]
        part = np.minimum(0.95, near.part * np.array([0.75, 0.87, 1, 1.15, 1.33]))[:, None]
        steps = np.array([0.6, 1.0, 1.5])
        shares = np.stack([np.repeat(near.share * steps, 3), np.tile(near.pairs * steps, 3)])
        shares = shares[:, shares.sum(axis=0) < 0.97]
        h1 = near.h1 * factors[:, None, None, None]
        tried.append(at.best(near.d, h1, ratio, part, shares))
        near = tried[-1][1]
    return min(tried, key=lambda way: way[0])[1]


def _pairs_shift(n: int, k: int, c: mpfr) -> mpfr:
    """Return the value of k in the spread of the terms of degree two, rounded up."""
    with rounding(DOWN):
        grown = 1 + c
    with rounding(UP):
        return k + c / grown * mpq(n - 1, 2)


@dataclass(frozen=True)
class MomentBound:
    """The theorem's eta and its parts: `ikos.counts.certificate.MomentCertificate`."""

    point: Point
    k: int
    relative: mpfr
    main: mpfr
    difference: mpfr
    reference: mpfr
    spread: mpfr
    first: mpfr
    tall: mpfr
    wide: mpfr
    own: mpfr
    paired: mpfr
    eta: mpfr

    def delta(self, noise_epsilon: float) -> mpfr:
        """Return the delta proved for noise_epsilon-DP noise, at most 1."""
        with rounding(UP):
            return min(_ONE, self.eta * (1 + (1 + self.relative) * gmpy2.exp(mpfr(noise_epsilon))))


def bound(setting: TupleSetting, jumps: Jumps, k: int, c: mpfr, point: Point) -> MomentBound | None:
    """Return the theorem's eta, or None where the parameters prove nothing."""
    n, d = setting.n, point.d
    h1, h2 = exact(Fraction(point.h1), UP), exact(Fraction(point.h2), UP)
    inside = h1 > 0 and 0 < h2 < 1 and 0 < point.part < 1 and 0 < point.share < 1
    inside = inside and 0 <= point.pairs < 1 and n > 2 * d + 2 and setting.cutoff >= d + 2
    if not inside or 2 * point.K2 > HIGHEST or min(point.K1, 2 * point.l, point.K3) <= d:
        return None
    difference, reference = setting.remainders(jumps, k, d, 3 if point.pairs else 2)
    moments, spread = tuple_moments(n, setting.q, setting.m), jumps.spread(n, k)[point.K]
    total, tall = moments.total[point.K], moments.total[point.K1]
    wide, single = moments.squares[point.l], moments.single[point.K3]
    with rounding(DOWN):
        width = gmpy2.sqrt(h2)
        tall_power, wide_power = h1**point.K1, h2**point.l
    with rounding(UP):
        x = gmpy2.sqrt(h2)
        h = max(h1, x)
    with rounding(DOWN):
        log = gmpy2.log1p(-x)
    with rounding(UP):
        curve = -log - width
        lost = h1 ** (d + 1) / math.factorial(d + 1) + gmpy2.exp(h1) * gmpy2.expm1(curve)
        lost += mpq(d * k, n - 1) * gmpy2.expm1(h1 + curve)
        part = mpfr(point.part) * c  # this is c_1
    with rounding(DOWN):
        main = gmpy2.exp(-h1) - lost  # the proof takes any number up to g_0 for it
        room = (c - part) * main
        own, pairs = mpfr(point.share) * room, mpfr(point.pairs) * room
        power, pairs_power = own ** (point.K - 1), pairs ** (point.K2 - 1)
    with rounding(UP):
        used = own + pairs
    with rounding(DOWN):
        rest = room - used
    if not (main > 0 and own > 0 and rest > 0):
        return None
    paired, third = mpfr(0), mpfr(0)
    if point.pairs:
        widened = jumps.spread(n, _pairs_shift(n, k, c))[point.K2]
        with rounding(UP):
            each = setting.loss[2] ** (point.K2 // 2) * moments.total[2 * point.K2]
            paired = (1 + c) ** point.K2 * widened * each
            third = tail_constant(point.K2) * paired / pairs_power
    with rounding(UP):
        first = tail_constant(point.K) * (1 + c) ** point.K * spread * total / power
        second = ((1 + c) * gmpy2.sqrt(difference) + c * gmpy2.sqrt(reference)) ** 2 / 4 / rest
        front = (part + c) * gmpy2.fsum([h**j for j in range(d + 1)]) + c * main
        bad = tall / tall_power + wide / wide_power + single * ((1 + c) / part) ** point.K3
        eta = first + second + third + front * bad
    return MomentBound(
        point, k, c, main, difference, reference, spread, total, tall, wide, single, paired, eta
    )


def tail_constant(K: int) -> mpq:
    """Return C_K: (y - a)_+ is at most C_K y^K / a^(K-1)."""
    return mpq((K - 1) ** (K - 1), K**K)


@lru_cache(maxsize=1 << 12)
def best(
    n: int, q: int, m: int, jumps: Jumps, c: mpfr, near: Point | None = None
) -> MomentBound | None:
    """Return the theorem at nearly the best parameters, or None where it proves nothing."""
    tuples = setting(n, q, m)
    if tuples is None or not c > 0:
        return None
    c = min(c, _ONE)  # a smaller c is a smaller epsilon
    k = max(1, round(nearest(jumps.most) * (1 - 1 / n)))  # any number is sound
    point = search(tuples, jumps, k, nearest(c), near)
    return None if point is None else bound(tuples, jumps, k, c, point)


@dataclass(frozen=True)
class MomentPrivacy(PrivacyProof):
    """A proof with its bound and parameters, None where nothing is proved."""

    bound: MomentBound | None


class HigherMoments(SecondMoment):
    """Higher moments of message tuples, for private sums.

    Security levels, separate sums of a vector, and sums of fewer than MIN_USERS users are proved by
    the second moment, which also applies where no epsilon may be spent on hiding.
    """

    name = "higher_moments"
    theorem = THEOREM

    @property
    def level_analysis(self) -> Analysis:
        return SecondMoment()

    def guess(self, scheme: Scheme, goal: float | Budget) -> int:
        """Return the second-moment guess at half the bits, as delta is nearly its square."""
        if isinstance(goal, Budget) and applies(scheme, goal):
            half = Fraction(math.sqrt(goal.delta))
            goal = replace(goal, epsilon=goal.epsilon / 2, delta=half)
        return super().guess(scheme, goal)

    def enough(self, scheme: Scheme, m: int, budget: Budget) -> bool:
        if applies(scheme, budget) and _out_of_reach(scheme, m, budget):
            return False
        proof = HigherMoments.privacy(self, scheme, m, budget, steps=0)
        return proof is not None and proof.delta <= budget.delta

    def privacy(
        self, scheme: Scheme, m: int, budget: Budget, *, steps: int = 8
    ) -> PrivacyProof | None:
        """Return the proof with nearly the least c that reaches delta, or the best one, if any.

        ``steps`` halve the distance from the least c.
        """
        if not applies(scheme, budget):
            return super().privacy(scheme, m, budget)
        sizes, epsilon = (scheme.trust.min_honest, scheme.q, hiding(scheme, m)), budget.epsilon
        if setting(*sizes) is None:
            return None
        # that of one coordinate; a smaller modulus is safe
        modulus = int(gmpy2.iroot(scheme.q, budget.dimension)[0])

        def at(share: Fraction, near: Point | None) -> MomentPrivacy:
            """Return the proof with this fraction of epsilon spent on c."""
            noise_epsilon = min(budget.whole, float_up(exact(epsilon * (1 - share), UP)))
            with rounding(DOWN):
                c = gmpy2.expm1(exact(epsilon - Fraction(noise_epsilon), DOWN) / 2)
            rate = Fraction(noise_epsilon) / budget.sensitivity
            jumps = Jumps.discrete_laplace(modulus, rate, budget.dimension)
            bound = best(*sizes, jumps, c, near)
            reached = 1.0 if bound is None else float_up(bound.delta(noise_epsilon))
            return MomentPrivacy(reached, noise_epsilon, HigherMoments.name, THEOREM, bound)

        proof, near = None, None
        for part in (1, 2, 4):  # a larger c is not always better
            high = budget.reserve / part
            tried = at(high, near)
            near = near if tried.bound is None else tried.bound.point
            if tried.delta < (1 if proof is None else proof.delta):
                proof = tried
            if tried.delta <= budget.delta:
                break
        else:
            return proof
        low = Fraction(0)
        for _ in range(steps):
            middle = (low + high) / 2
            tried = at(middle, near)
            if tried.delta <= budget.delta:
                proof, high = tried, middle
                near = near if tried.bound is None else tried.bound.point
            else:
                low = middle
        return proof

    def remaining_privacy(
        self, scheme: Scheme, m: int, noise: FixedNoise, delta: Fraction
    ) -> RemainingPrivacy:
        if noise.users < MIN_USERS:
            return SecondMoment().remaining_privacy(scheme, m, noise, delta)
        level = exact(Fraction(noise.epsilon), UP)
        nothing = RemainingPrivacy(level, _ONE, HigherMoments.name, THEOREM)
        sizes = noise.users, scheme.q, hiding(scheme, m)
        if setting(*sizes) is None:
            return nothing
        jumps = Jumps.discrete_laplace(scheme.q, noise.rate, noise.part)

        def at(c: mpfr) -> RemainingPrivacy:
            with rounding(UP):
                epsilon = noise.epsilon + 2 * gmpy2.log1p(c)
            bound = best(*sizes, jumps, c)
            reached = _ONE if bound is None else bound.delta(noise.epsilon)
            return replace(nothing, epsilon=epsilon, delta=reached)

        scale = [exact(Fraction(2, 1 << k), UP) for k in range(25)]  # of c
        tried = [at(c) for c in scale[:-1]]
        place = min(range(len(tried)), key=lambda k: tried[k].preference(delta))
        best_proof, high, low = tried[place], scale[place], scale[place + 1]
        for _ in range(8):
            with rounding(UP):
                middle = (low + high) / 2
            if (halved := at(middle)).preference(delta) < best_proof.preference(delta):
                best_proof, high = halved, middle
            else:
                low = middle
        return best_proof


def applies(scheme: Scheme, budget: Budget) -> bool:
    """Whether the theorem covers such a sum."""
    return scheme.trust.min_honest >= MIN_USERS and budget.reserve > 0 and budget.sums == 1


def _out_of_reach(scheme: Scheme, m: int, budget: Budget) -> bool:
    """Whether user i alone keeps delta from being reached: the less is spent, the more so."""
    sizes = scheme.trust.min_honest, scheme.q, hiding(scheme, m)
    if setting(*sizes) is None:
        return True
    c = min(1.0, math.expm1(min(2.0, float(budget.epsilon * budget.reserve / 2))))  # as `best` does
    logs = logarithms(tuple_moments(*sizes).single)
    step = math.log1p(1 / c)
    least = min(log + K * step for K, log in logs.items() if min(_DEGREES) < K)
    wanted = nearest(log2(budget.delta, UP)) * math.log(2)
    return least + math.log(c) > wanted  # with a factor of 2 to spare


def hiding(scheme: Scheme, m: int) -> int:
    """Return how many messages hide as those of parallel shufflers with a clear share."""
    return m if scheme.trust.clear_share else m - 1
