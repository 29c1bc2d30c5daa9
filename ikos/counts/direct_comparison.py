"""Differential privacy of the private sum by comparing the views of two neighbours directly.

The two views are compared given the total of the noise. With m parallel shufflers, a clear share
and n users whose noise adds up to one discrete Laplace variable that is eps0-DP, the private sum is
(eps0 + ln(1 + c), delta)-DP. Delta adds up what is seen of user i alone (high moments of its own
number of tuples), of other users one by one and in pairs (what the total tells of their noise, by
high moments), a remainder in mean square, and a bad event in which the numbers of tuples of the
others are far from their mean. The theorem, its lemmas by number, and the proofs are in
docs/direct-comparison.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

import gmpy2
import numpy as np
from gmpy2 import mpfr, mpq
from numpy.typing import NDArray

from ikos._validation import InvalidValue
from ikos.counts.higher_moments import (
    MIN_USERS,
    Array,
    HigherMoments,
    Logs,
    TupleSetting,
    hiding,
    least_power,
    logarithms,
    poisson_moments,
    setting,
    tail_constant,
)
from ikos.counts.tuple_moments import (
    HIGHEST,
    TupleMoments,
    cluster_moments,
    tuple_moments,
    without_singletons,
)
from ikos.counts.types import (
    Budget,
    FixedNoise,
    PrivacyProof,
    RemainingPrivacy,
    Scheme,
    Uncovered,
)
from ikos.numeric.rounding import DOWN, NEAREST, UP, exact, float_up, nearest, rounding

THEOREM = "direct comparison of neighbours, docs/direct-comparison.md"

_ONE = mpfr(1)
_LONGEST = 24
"""The highest moment where those up to HIGHEST nearly reach delta: more take longer."""
_NEARLY = 1.5  # times delta
_DEGREES = (2, 3, 4, 6)  # the values of d that are tried
_TALLEST = 1.8  # the largest h_1 that is tried
_SUMMED = 128  # terms of F that are added before an integral bounds the rest


@dataclass(frozen=True)
class RevealedNoise:
    """What the total of discrete Laplace noise reveals of its jumps, rounded up: Lemma 5.

    ``epsilon`` is that of the noise, and ``jumps`` has E J^a, a = 0..48, of their number J.
    If the total moves by at most the sensitivity, the mean number of jumps moves by at most
    ``mean``, D, and their intensities by ``total``, D_1, in the 1-norm, and the root of ``square``,
    D_2^2, in the 2-norm; modulo q by ``folded``, eta, more.
    """

    epsilon: mpfr
    jumps: Sequence[mpfr]
    mean: mpfr
    total: mpfr
    square: mpfr
    folded: mpfr


@lru_cache(maxsize=256)
def discrete_laplace(q: int, rate: Fraction, sensitivity: int) -> RevealedNoise:
    """Return what is revealed, modulo q, of noise of a law proportional to exp(-rate |k|)."""
    with rounding(UP):  # of 1 - alpha and 1 - alpha^2: rounded down
        gap, least = (-gmpy2.expm1(-exact(k * rate, DOWN)) for k in (1, 2))
    with rounding(DOWN):
        jumps = -2 * gmpy2.log(gap)  # their mean number, rounded up
        most = -gmpy2.expm1(-exact(2 * rate, UP))  # 1 - alpha^2, rounded up
        sum_least = 1 + gmpy2.exp(-exact(rate, UP))
    with rounding(UP):
        mean = _increase(rate, sensitivity, most)
        total = 2 * _increase(rate, -(-sensitivity // 2), most)
        square = most * total
        folded = total
        if (k := q // 4 - sensitivity) >= 0:
            beyond = gmpy2.exp(-exact(rate * q / 2, DOWN))
            inside = min(total, 4 * beyond / q / least)
            rare = 2 * total * total * gmpy2.exp(-exact(rate * (k + 1), DOWN)) / sum_least
            folded = gmpy2.sqrt(inside * inside + rare)
    moments = poisson_moments(jumps, 2 * _LONGEST)
    return RevealedNoise(exact(rate * sensitivity, UP), moments, mean, total, square, folded)


def _increase(rate: Fraction, x: int, most: mpfr) -> mpfr:
    """Return an upper bound on F(x) - F(0); ``most`` is one on 1 - alpha^2.

    The terms of F fall and are convex, so that each is at most its integral from half a step before
    to half a step after.
    """
    with rounding(DOWN):
        rest = -gmpy2.eint(-exact(rate * (2 * (x + _SUMMED) + 1), DOWN))  # E_1, rounded up
    with rounding(UP):
        square = gmpy2.exp(-exact(2 * rate, DOWN))
        power, terms = _ONE, []
        for y in range(1, _SUMMED + 1):
            power = power * square
            terms.append(power / (x + y))
        terms += [
            gmpy2.exp(exact(2 * rate * x, UP)) * rest,
            gmpy2.digamma(mpfr(x + 1)) + gmpy2.const_euler(),  # 1 + 1/2 + ... + 1/x
            gmpy2.log(most),
        ]
        return gmpy2.fsum(terms)


@dataclass(frozen=True)
class Tuples:
    """The quantities that depend on the users, the group and the shufflers only, rounded up.

    ``clusters`` has y_B of Lemma 7 and ``fourths`` the moments of p_4, by exponent. By degree j,
    ``special`` is S_j of Lemma 3', and ``alike`` its factor in r.
    """

    setting: TupleSetting
    moments: TupleMoments
    clusters: Sequence[mpfr]
    fourths: dict[int, mpfr]
    special: Sequence[mpfr]
    alike: Sequence[mpfr]


@lru_cache(maxsize=256)
def tuples(n: int, q: int, m: int, highest: int = HIGHEST) -> Tuples | None:
    """Return the quantities independent of the noise, or None where the theorem proves nothing.

    Moments are those up to ``highest``.
    """
    at = setting(n, q, m)
    if at is None:
        return None
    moments = tuple_moments(n, q, m, highest)
    special, alike = [_ONE] * 2, [_ONE] * 2  # of degrees that do not occur
    for j in range(2, len(at.generic)):
        blocks = sum(count * n**u for u, count in enumerate(without_singletons(2 * j)))
        whole = mpq(blocks, n**j)  # tau_j
        others = whole - math.prod(range(1, 2 * j, 2))  # without pairings
        with rounding(DOWN):
            places = mpfr(n) ** (j * m)
            surplus = (1 + mpfr(mpq(math.perm(n, j), n**j))) ** m - 1
        with rounding(UP):
            few = mpfr(others)
            single = j * (j - 1) * ((2 + few) ** m - 1) + m * few * (1 + few) ** (m - 1)
            several = 2 * mpfr(q) ** (j - 2) * mpfr(whole) ** m
            special.append((mpfr(q - 1) ** (j - 1) * single + several) / places)
            alike.append((1 + at.loss[j]) * (1 + 1 / surplus))
    with rounding(UP):
        fourths = {k: mpfr(n - 1) ** (k // 4) * moments.single[k] for k in range(4, highest + 1, 4)}
    return Tuples(at, moments, cluster_moments(n, q, m, highest), fourths, special, alike)


@dataclass(frozen=True)
class DirectTerms:
    """The terms at one c that do not depend on the free parameters, rounded up.

    ``user`` has X_k of Lemma 7, ``single`` the moments of Y, of other users one by one, and
    ``paired`` those of Q, of pairs of them: without (1) and with (2) c times the pairs of r.
    """

    tuples: Tuples
    noise: RevealedNoise
    c: mpfr
    user: Sequence[mpfr]
    single: dict[int, mpfr]
    paired: dict[int, dict[int, mpfr]]

    @classmethod
    def of(cls, tuples: Tuples, noise: RevealedNoise, c: mpfr) -> DirectTerms:
        """Return the terms at c; whatever c is, it is used as it is."""
        at, total, size = tuples.setting, tuples.moments.total, len(tuples.clusters)
        with rounding(DOWN):
            places = mpfr(at.n) ** at.m
        with rounding(UP):
            both = 1 + (1 + c) ** 2  # b_c
            scale = [both * at.q / places if k == 2 else (2 + c) ** k for k in range(size)]
            connected = [
                one if k == 2 else one * y
                for k, (one, y) in enumerate(zip(scale, tuples.clusters, strict=True))
            ]
            user = [_ONE, mpfr(0)]
            for k in range(2, size):
                parts = [
                    math.comb(k - 1, b - 1) * connected[b] * user[k - b] for b in range(2, k + 1)
                ]
                user.append(gmpy2.fsum(parts))
            single = {K: _spread(noise, at.n, c, K, 1) ** K * total[K] for K in total}
            paired = {
                lifted: {
                    K: ((_spread(noise, at.n, c, K, 2) + extra) / 2) ** K
                    * at.loss[2] ** (K // 2) * total[2 * K]
                    for K in range(2, size // 2 + 1, 2)
                }
                for lifted, extra in ((1, mpfr(0)), (2, c))
            }  # fmt: skip
        return cls(tuples, noise, c, user, single, paired)

    def remainder(self, d: int, lifted: int) -> mpfr:
        """Return an upper bound on |R|^2, without the terms of degree two that are ``lifted``."""
        low, least = 3 if lifted else 2, 3 if lifted == 2 else 2
        at, c, noise = self.tuples.setting, self.c, self.noise
        n, m, weights = at.n, at.m, at.weights
        extra = mpq(at.q, at.q - 1)  # u
        seen, moved, twice = _revealed(noise, c)
        with rounding(UP):
            both, root = 1 + (1 + c) ** 2, gmpy2.sqrt(mpfr(extra))
            cross, without, reference = [], [], list(weights[d + 1 :])
            for s in range(1, d + 1):  # user i and s others
                gamma = root * (mpq(s, n) * seen + mpq(m * s * (s + 1), 2 * n) * gmpy2.sqrt(both))
                cross.append(mpq(s + 1, n) * weights[s + 1] * gamma * gamma)
                apart = extra * both * at.generic[s + 1] + (2 + c) ** 2 * self.tuples.special[s + 1]
                cross.append(gmpy2.comb(n - 1, s) * apart)
            cross += [  # user i and more others
                (2 + c) ** 2 * mpq(s, n) * weights[s] for s in range(d + 2, at.cutoff)
            ]
            for s in range(low, at.cutoff):  # s users without i
                loss = root * (mpq(s, n) * moved + mpq(s * s, n * n) * twice)  # l_s
                without.append(weights[s] * loss * loss)
            for j in range(least, d + 1):
                apart = at.generic[j] + self.tuples.special[j] * self.tuples.alike[j]
                reference.append(gmpy2.comb(n - 1, j) * apart)
            square = (gmpy2.sqrt(gmpy2.fsum(without)) + c * gmpy2.sqrt(gmpy2.fsum(reference))) ** 2
            return gmpy2.fsum(cross) + square + (2 + c) ** 2 * at.rest


def _revealed(noise: RevealedNoise, c: mpfr) -> tuple[mpfr, mpfr, mpfr]:
    """Return, rounded up, the factors of s/n in gamma_s, and of s/n and (s/n)^2 in l_s."""
    _, mean, second, *_ = noise.jumps
    with rounding(UP):
        two, many = gmpy2.sqrt(mpfr(2)), gmpy2.sqrt(second)  # f
        pairs = gmpy2.sqrt(mean**4 + 4 * mean**3 + 2 * mean**2)  # g_2
        moved = gmpy2.sqrt(noise.mean**2 + noise.square) + noise.folded
        moved += two * c * (many + noise.mean)
        seen = two * (many + (1 + c) * (many + noise.mean))
        return seen, moved, two * pairs * (1 + gmpy2.exp(noise.epsilon / 2))


def _spread(noise: RevealedNoise, n: int, c: mpfr, K: int, s: int) -> mpfr:
    """Return beta_{K,s}, rounded up: what the noise of s users reveals, as a K-th moment."""
    with rounding(UP):
        norm = gmpy2.rootn(noise.jumps[K], K)  # of J
        square = gmpy2.rootn(noise.jumps[2 * K], K)
        twice = mpq(2 * s, n) * square * (1 + gmpy2.exp(noise.epsilon / K))
        return mpq(s, n) * (2 * noise.total + twice + 2 * c * (norm + noise.mean))


@dataclass(frozen=True)
class DirectPoint:
    """The theorem's free parameters.

    They are d, h_1, h_2, y, c_0 / c, b / c_0, the fractions c_Y and c_P of (c - c_0) g_0, and even
    exponents: of user i, Y and Q, and in the bad event of p_1, p_2 (2l), p_4 and user i. Terms of
    degree two are ``lifted`` from R to Q: none (0), those without user i (1), and those of r (2).
    ``far`` is c_2 / c.
    """

    d: int
    h1: float
    h2: float
    y: float
    part: float
    shift: float
    share: float
    pairs: float
    lifted: int
    K: int
    K_Y: int
    K_Q: int
    K1: int
    l: int  # noqa: E741
    K4: int
    K3: int
    far: float = 1.0


@dataclass(frozen=True)
class DirectBound:
    """The theorem's delta and its parts: `ikos.counts.certificate.DirectCertificate`."""

    point: DirectPoint
    relative: mpfr
    main: mpfr
    remainder: mpfr
    user: mpfr
    single: mpfr
    paired: mpfr
    tall: mpfr
    wide: mpfr
    fourth: mpfr
    own: mpfr
    proved: mpfr


def bound(terms: DirectTerms, point: DirectPoint) -> DirectBound | None:
    """Return the theorem's delta, or None where the parameters prove nothing."""
    at, moments, c, d = terms.tuples.setting, terms.tuples.moments, terms.c, point.d
    h1, h2, y = (exact(Fraction(x), UP) for x in (point.h1, point.h2, point.y))
    exponents = (point.K1, 2 * point.l, point.K4, point.K3)
    inside = h1 > 0 and h2 > 0 and 0 < y < 1 and c > 0 and point.far > 0 and min(exponents) > d
    inside = inside and point.K % 2 == point.K3 % 2 == 0 < point.K < len(terms.user)
    if not inside or not 2 <= d <= at.cutoff - 2:  # so that 2 d + 2 < (d + 4)^2 / 4 <= n
        return None
    main = _main(d, h1, h2, y)
    with rounding(UP):
        part = mpfr(point.part) * c  # c_0
        shift = mpfr(point.shift) * part  # theta
        far = mpfr(point.far) * c  # c_2
    with rounding(DOWN):
        room = (c - part) * main
        single, pairs = mpfr(point.share) * room, mpfr(point.pairs) * room
        raised = (part + shift) ** (point.K - 1)
        powers = h1**point.K1, h2**point.l, y**point.K4, far**point.K3
        singles, pairings = single ** (point.K_Y - 1), pairs ** (point.K_Q - 1)
    with rounding(UP):
        used = single + pairs
    with rounding(DOWN):
        rest = 4 * (room - used)
    if not (main > 0 and part > 0 and shift >= 0 and single > 0 and pairs >= 0 and rest > 0):
        return None
    remainder = terms.remainder(d, point.lifted)
    values = (
        moments.total[point.K1], moments.squares[point.l],
        terms.tuples.fourths[point.K4], terms.user[point.K3],
    )  # fmt: skip
    with rounding(UP):
        user = gmpy2.fsum(
            [
                math.comb(point.K, k) * shift ** (point.K - k) * moment
                for k, moment in enumerate(terms.user[: point.K + 1])
            ]
        )
        one = terms.single[point.K_Y]
        delta = tail_constant(point.K) * user / raised
        delta += tail_constant(point.K_Y) * one / singles
        two = mpfr(0)
        if point.lifted:
            two = terms.paired[point.lifted][point.K_Q]
            delta += tail_constant(point.K_Q) * two / pairings
        delta += remainder / rest
        bad = gmpy2.fsum([value / power for value, power in zip(values, powers, strict=True)])
        most = max(h1, gmpy2.sqrt(h2))
        front = (far + c) * gmpy2.fsum([most**j for j in range(d + 1)]) + c * main
        delta += front * bad
    return DirectBound(point, c, main, remainder, user, one, two, *values, delta)


def _main(d: int, h1: mpfr, h2: mpfr, y: mpfr) -> mpfr:
    """Return g_0 of Lemma 4', rounded down."""
    with rounding(DOWN):
        log = gmpy2.log1p(-y)
        below = y + y**2 / 2 + y**3 / 3
        coefficients = [_ONE, h1]
        for j in range(2, d + 1):
            coefficients.append((h1 * coefficients[-1] + h2 * coefficients[-2]) / j)
        first = gmpy2.fsum(coefficients)
    with rounding(UP):
        whole = gmpy2.exp(h1 + h2 / 2)
        curve = gmpy2.sqrt(h2) * y**2 / 3 - log - below  # L
        lost = whole - first + whole * gmpy2.expm1(curve)
        exponent = h1 + h2 / 2
    with rounding(DOWN):
        return gmpy2.exp(-exponent) - lost


def least_delta(n: int, q: int, m: int, c: mpfr) -> float:
    """Return a number that the theorem's delta is seldom below, in floating point, without y_B.

    It has the moments of user i as if they were normal, and p_1 in the bad event. It decides what
    is tried, never what is proved.
    """
    moments = tuple_moments(n, q, m).total
    part = nearest(c)
    deviation = (math.log1p((1 + part) ** 2) + math.log(q) - m * math.log(n)) / 2
    normal = np.array([0.0 if k % 2 else math.prod(range(1, k, 2)) for k in range(HIGHEST + 1)])
    with np.errstate(divide="ignore"):
        log, *_ = _user_tail(np.log(normal), np.array([math.log(part) - deviation]))
    tall = min(log - K * math.log(_TALLEST) for K, log in logarithms(moments).items())
    return float(math.exp(deviation + log[0]) + 2 * part * math.exp(min(tall, 1.0)))


_SHIFTS = np.array([1e-3, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 1.5])  # b / c_0
_EXPONENTS = np.arange(2, _LONGEST + 1, 2)
_CONSTANTS = (_EXPONENTS - 1) * np.log(_EXPONENTS - 1) - _EXPONENTS * np.log(_EXPONENTS)
_CHOICES = np.array(
    [
        [math.log(math.comb(K, k)) if k <= K else -math.inf for k in range(_LONGEST + 1)]
        for K in range(2, _LONGEST + 1, 2)
    ]
)


def _user_tail(logs: Array, room: Array) -> tuple[Array, NDArray[Any], Array]:
    """Return the log of user i's term at each log of c_0, from those of X_k, and its K and b."""
    shift = room[:, None] + np.log(_SHIFTS)
    known, size = _EXPONENTS[: len(logs) // 2], len(logs)
    powers = np.maximum(known[:, None] - np.arange(size), 0)
    terms = _CHOICES[: len(known), :size] + logs + shift[..., None, None] * powers
    top = terms.max(axis=-1, keepdims=True)
    sums = top[..., 0] + np.log(np.exp(terms - top).sum(axis=-1))
    divisor = (known - 1) * (room[:, None] + np.log1p(_SHIFTS))[..., None]
    values = (_CONSTANTS[: len(known)] + sums - divisor).reshape(len(room), -1)
    at = values.argmin(axis=1)
    shifts, exponents = np.unravel_index(at, (len(_SHIFTS), len(known)))
    return values[np.arange(len(room)), at], _EXPONENTS[exponents], _SHIFTS[shifts]


_GRID = (  # where h_1 is between its ends; sqrt(h_2) / h_1; y / sqrt(h_2); and c_0 / c
    np.linspace(0, 1, 24),
    np.array([0.25, 0.35, 0.45, 0.6, 0.8]),
    np.array([0.08, 0.12, 0.17, 0.25, 0.35, 0.5]),
    np.array([0.03, 0.06, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6, 0.7, 0.8]),
)
_NEARBY = (  # factors of the best of these
    np.array([0.88, 0.92, 0.96, 1.0, 1.04, 1.08, 1.12]),
    np.array([0.88, 0.94, 1.0, 1.06, 1.12]),
    np.array([0.8, 0.9, 1.0, 1.1, 1.2]),
    np.array([0.8, 0.87, 0.93, 1.0, 1.07, 1.13, 1.2]),
)
_PARTS = np.array([1e-4, 1e-3, 0.005, 0.02, 0.05, 0.1, 0.2, 0.3, 0.45, 0.6, 0.75, 0.9])
_SHARES = (  # of c_Y and of c_P: without and with terms of degree two lifted
    np.stack([_PARTS, np.zeros(len(_PARTS))]),
    np.array([(y, pairs) for y in _PARTS for pairs in _PARTS if y + pairs < 0.97]).T,
)
_FAR = np.array([1.0, 1.15, 1.3, 1.5, 2.0])
_ROOMS = np.linspace(math.log(1e-4), 0, 40), np.linspace(-0.8, 0.8, 9)
"""The logarithm of (c - c_0) g_0 / c, and of its ratio to the best one."""


Place = tuple[float, float, float, float]
"""h_1, sqrt(h_2), y and c_0 / c."""


class _DirectSearch:
    """Logarithms of the terms in floating point, for a search of parameters.

    For fixed h_1, h_2, y and c_0 the terms of Y, Q and R depend on (c - c_0) g_0 alone.
    """

    def __init__(
        self, terms: DirectTerms, degrees: Sequence[int], lifts: Sequence[int], rooms: Array
    ) -> None:
        tuples = terms.tuples
        self.c, self.lifts = nearest(terms.c), lifts
        self.totals = logarithms(tuples.moments.total)
        self.squares = {2 * j: log for j, log in logarithms(tuples.moments.squares).items()}
        self.fourths = logarithms(tuples.fourths)
        user = logarithms(dict(enumerate(terms.user)))
        self.user = np.array(list(user.values()))
        self.own = {K: user[K] for K in self.totals}
        constants = dict(zip(map(int, _EXPONENTS), _CONSTANTS, strict=True))
        self.single = _with(constants, logarithms(terms.single))
        self.paired = {
            lifted: _with(constants, logarithms(moments))
            for lifted, moments in terms.paired.items()
        }
        with rounding(NEAREST, 53):
            self.remainders = {
                (d, lifted): float(terms.remainder(d, lifted) / 4)
                for d in degrees
                for lifted in lifts
            }
        self.rooms = rooms + math.log(self.c)
        rooms = np.exp(self.rooms)[:, None]
        self.rest = {d: np.full(len(rooms), np.inf) for d in degrees}
        for lifted in lifts:
            apart, used = self._shared(rooms, lifted, _SHARES[lifted > 0])
            for d in degrees:
                values = (apart + self.remainders[d, lifted] / ((1 - used) * rooms)).min(axis=1)
                self.rest[d] = np.minimum(self.rest[d], values)

    def _shared(self, rooms: Array, lifted: int, shares: Array) -> tuple[Array, Array]:
        """Return the terms of Y and Q, and the shares that are used."""
        single, pairs = shares
        value = least_power(self.single, -np.log(single * rooms), 2)[0] * single * rooms
        if lifted:
            value = (
                value
                + least_power(self.paired[lifted], -np.log(pairs * rooms), 2)[0] * pairs * rooms
            )
        return value, single + pairs

    def best(
        self, d: int, h1: Array, ratio: Array, inner: Array, part: Array
    ) -> tuple[float, int, Place]:
        """Return the least delta of a grid, d, and the place."""
        h1, x = h1[:, None, None], ratio[:, None] * h1[:, None, None]
        y = np.minimum(inner * x, 0.9)
        h1, x, y = (np.broadcast_to(one, y.shape).ravel() for one in (h1, x, y))
        whole = np.exp(h1 + x * x / 2)
        before, last = np.ones_like(h1), h1
        first = before + last
        for j in range(2, d + 1):
            before, last = last, (h1 * last + x * x * before) / j
            first = first + last
        curve = x * y * y / 3 - np.log1p(-y) - y - y * y / 2 - y**3 / 3
        main = 1 / whole - (whole - first) - whole * np.expm1(curve)
        kept = main > 0.01
        h1, x, y, main = h1[kept], x[kept], y[kept], main[kept]
        if not kept.any():
            return math.inf, d, (1.0, 1.0, 0.5, 0.5)
        bad, _ = self._bad(d, h1, x, y, main)
        user = np.exp(_user_tail(self.user, np.log(part * self.c))[0])
        rooms = np.log(self.c * (1 - part) * main[:, None])
        rest = np.exp(np.interp(rooms, self.rooms, np.log(self.rest[d])))
        delta = user + bad[:, None] + rest
        i, j = np.unravel_index(delta.argmin(), delta.shape)
        return float(delta[i, j]), d, (float(h1[i]), float(x[i]), float(y[i]), float(part[j]))

    def _bad(self, d: int, h1: Array, x: Array, y: Array, main: Array) -> tuple[Array, Array]:
        """Return the term of the bad event, and its c_2 / c."""
        others = least_power(self.totals, -np.log(h1), d + 1)[0]
        others = others + least_power(self.squares, -np.log(x), d + 1)[0]
        others = others + least_power(self.fourths, -np.log(y), d + 1)[0]
        powers = np.sum([np.maximum(h1, x) ** j for j in range(d + 1)], axis=0)
        own, _ = least_power(self.own, -np.log(self.c * _FAR), d + 1)
        fronts = self.c * ((1 + _FAR) * powers[..., None] + main[..., None])
        values = (others[..., None] + own) * fronts
        return values.min(axis=-1), _FAR[values.argmin(axis=-1)]

    def point(self, d: int, place: Place, main: float) -> DirectPoint:
        """Return the parameters with the best shares and exponents."""
        h1, x, y, part = place
        room = np.array([[self.c * (1 - part) * main]])
        tried: list[tuple[float, int, float, float]] = []
        for lifted in self.lifts:
            shares = _SHARES[lifted > 0]
            for _ in range(2):
                apart, used = self._shared(room, lifted, shares)
                values = (apart + self.remainders[d, lifted] / ((1 - used) * room))[0]
                at = int(values.argmin())
                tried.append(
                    (float(values[at]), lifted, float(shares[0, at]), float(shares[1, at]))
                )
                steps = np.array([0.5, 0.7, 0.85, 1.0, 1.2, 1.4, 1.8])
                nearby = np.stack([np.repeat(steps, 7), np.tile(steps, 7)])
                shares = shares[:, [at]] * nearby
                shares = shares[:, shares.sum(axis=0) < 0.99]
        _, lifted, share, pairs = min(tried)

        def exponent(logs: Logs, step: float, low: int) -> int:
            return int(least_power(logs, np.array(step), low)[1])

        one = room[0, 0]
        _, K, shift = _user_tail(self.user, np.array([math.log(part * self.c)]))
        K_Q = exponent(self.paired[lifted], -math.log(pairs * one), 2) if lifted else 2
        far = float(self._bad(d, *map(np.array, (h1, x, y, main)))[1])
        return DirectPoint(
            d, h1, x * x, y, part, float(shift[0]), share, pairs, lifted, int(K[0]),
            exponent(self.single, -math.log(share * one), 2), K_Q,
            exponent(self.totals, -math.log(h1), d + 1),
            exponent(self.squares, -math.log(x), d + 1) // 2,
            exponent(self.fourths, -math.log(y), d + 1),
            exponent(self.own, -math.log(self.c * far), d + 1), far,
        )  # fmt: skip


def _with(constants: Logs, moments: Logs) -> Logs:
    return {K: constants[K] + log for K, log in moments.items()}


@np.errstate(over="ignore", under="ignore", divide="ignore")  # infinite: nothing is proved
def search(terms: DirectTerms, near: DirectPoint | None = None) -> DirectPoint | None:
    """Return nearly the best parameters, in floating point, or None if there are none.

    With ``near``, the best parameters for a similar c, only those close to it are tried.
    """
    at = terms.tuples.setting
    if near is None:
        degrees = [d for d in _DEGREES if at.cutoff >= d + 2]
        look = _DirectSearch(terms, degrees, (0, 1, 2), _ROOMS[0])
        low = min(max(0.01, 3 * math.exp(look.totals[2] / 2)), _TALLEST / 4)
        heights = low * (_TALLEST / low) ** _GRID[0]
        value, d, place = min(look.best(d, heights, *_GRID[1:]) for d in degrees)
        if value == math.inf:
            return None
    else:
        d, place = near.d, (near.h1, math.sqrt(near.h2), near.y, near.part)
        room = (1 - near.part) * nearest(_main_at(d, place))
        look = _DirectSearch(terms, [d], [near.lifted], math.log(room) + _ROOMS[1])
    for _ in range(3):
        h1, x, y, part = place
        value, _, nearer = look.best(
            d, h1 * _NEARBY[0], x / h1 * _NEARBY[1], y / x * _NEARBY[2],
            np.minimum(0.97, part * _NEARBY[3]),
        )  # fmt: skip
        if value == math.inf or nearer == place:
            break
        place = nearer
    main = _main_at(d, place)
    return look.point(d, place, nearest(main)) if main > 0 else None


def _main_at(d: int, place: Place) -> mpfr:
    h1, x, y, _ = place
    return _main(d, *(exact(Fraction(value), UP) for value in (h1, x * x, y)))


@lru_cache(maxsize=1 << 12)
def best(
    n: int,
    q: int,
    m: int,
    rate: Fraction,
    sensitivity: int,
    c: mpfr,
    near: DirectPoint | None = None,
    highest: int = HIGHEST,
) -> DirectBound | None:
    """Return the theorem at nearly the best parameters, or None where it proves nothing.

    The noise is proportional to exp(-rate |k|), and the values of one user differ by at most the
    sensitivity.
    """
    at = tuples(n, q, m, highest)
    if at is None or not c > 0:
        return None
    terms = DirectTerms.of(at, discrete_laplace(q, rate, sensitivity), c)
    point = search(terms, near)
    return None if point is None else bound(terms, point)


@dataclass(frozen=True)
class DirectPrivacy(PrivacyProof):
    """A proof with its bound and parameters, for each of so many sums: ``times``."""

    bound: DirectBound
    times: int


class DirectComparison(HigherMoments):
    """Direct comparison of neighbours, for private sums of single values.

    Separate sums of a vector compose: those in which the user's values differ, each with its own c.
    """

    name = "direct_comparison"
    theorem = THEOREM

    def refusal(self, scheme: Scheme, m: int | None = None) -> str | None:
        if scheme.trust.min_honest < MIN_USERS:
            return f"needs min_honest >= {MIN_USERS}"
        return super().refusal(scheme, m)

    def enough(self, scheme: Scheme, m: int, budget: Budget) -> bool:
        proof = self.proof(scheme, m, budget, steps=0, most=float(budget.delta))
        return proof is not None and proof.delta <= budget.delta

    def privacy(
        self, scheme: Scheme, m: int, budget: Budget, *, steps: int = 8
    ) -> PrivacyProof | None:
        """Return the proof with nearly the least c that reaches delta, or the best one, if any.

        ``steps`` halve the distance from the least c.
        """
        return self.proof(scheme, m, budget, steps=steps)

    def proof(
        self, scheme: Scheme, m: int, budget: Budget, *, steps: int, most: float = 1.0
    ) -> DirectPrivacy | None:
        """Return that proof, or None where its delta is likely to be above ``most``."""
        if budget.dimension > 1:
            what = f"{budget.dimension} coordinates in one group"
            raise Uncovered(self, what, "needs a group, and shares, for each coordinate")
        if not budget.reserve:
            raise InvalidValue("reserve", f"must be above 0 with analysis={self.name!r}, got 0")
        sizes, epsilon = (scheme.trust.min_honest, scheme.q, hiding(scheme, m)), budget.epsilon
        if setting(*sizes) is None:
            return None
        times = min(budget.sums, budget.sensitivity)  # sums in which one user's values differ

        def at(
            share: Fraction, near: DirectPoint | None, most: float, highest: int
        ) -> DirectPrivacy | None:
            """Return the proof with this fraction of epsilon spent on c."""
            noise_epsilon = min(budget.whole, float_up(exact(epsilon * (1 - share), UP)))
            with rounding(DOWN):
                c = gmpy2.expm1(exact((epsilon - Fraction(noise_epsilon)) / times, DOWN))
            c = min(c, _ONE)  # a smaller c is a smaller epsilon
            if not c > 0 or times * least_delta(*sizes, c) > most:
                return None
            rate = Fraction(noise_epsilon) / budget.sensitivity
            bound = best(*sizes, rate, budget.sensitivity, c, near, highest)
            if bound is None:
                return None
            with rounding(UP):
                delta = min(1.0, float_up(times * bound.proved))
            return DirectPrivacy(delta, noise_epsilon, self.name, THEOREM, bound, times)

        proof: DirectPrivacy | None = None
        for part in (1, 2, 4):  # a larger c is not always better
            high = budget.reserve / part
            for highest in (HIGHEST, _LONGEST):  # searched for anew: `enough` skips some of these
                tried = at(high, None, most, highest)
                if tried is None or not budget.delta < tried.delta <= _NEARLY * budget.delta:
                    break
            if tried is not None and tried.delta <= most:
                proof, most = tried, tried.delta
            if proof is not None and proof.delta <= budget.delta:
                break
            if not steps and tried is not None and tried.delta > 8 * budget.delta:
                return proof  # terms fall at most as c does
        else:
            return proof
        low = Fraction(0)
        for _ in range(steps):
            middle = (low + high) / 2
            tried = at(middle, proof.bound.point, float(budget.delta), highest)
            if tried is not None and tried.delta <= budget.delta:
                proof, high = tried, middle
            else:
                low = middle
        return proof

    def remaining_privacy(
        self, scheme: Scheme, m: int, noise: FixedNoise, delta: Fraction
    ) -> RemainingPrivacy:
        """Return the proved privacy for the noise of all planned users.

        The search for the least c begins where delta is not clearly out of reach.
        """
        if noise.part != 1:
            what = "fewer honest users than share the noise"
            raise Uncovered(self, what, "needs all of the noise")
        level = exact(Fraction(noise.epsilon), UP)
        nothing = RemainingPrivacy(level, _ONE, self.name, THEOREM)
        sizes = noise.users, scheme.q, hiding(scheme, m)
        if setting(*sizes) is None:
            return nothing

        def at(c: mpfr) -> RemainingPrivacy:
            with rounding(UP):
                epsilon = level + gmpy2.log1p(c)
            for highest in (HIGHEST, _LONGEST):
                bound = best(*sizes, noise.rate, noise.sensitivity, c, highest=highest)
                reached = _ONE if bound is None else min(_ONE, bound.proved)
                if not delta < reached <= _NEARLY * delta:
                    break
            return replace(nothing, epsilon=epsilon, delta=reached)

        scale = [exact(Fraction(2, 1 << k), UP) for k in range(25, 0, -1)]  # of c
        tried, low = [nothing], mpfr(0)
        for high in scale:
            if least_delta(*sizes, high) <= delta:
                tried.append(at(high))
                if tried[-1].delta <= delta:
                    break
            low = high
        else:
            tried += map(at, scale[::-2])  # out of reach: the least delta that is not
            return min(tried, key=lambda proof: proof.preference(delta))
        best_proof = tried[-1]
        for _ in range(8):
            with rounding(UP):
                middle = (low + high) / 2
            if (halved := at(middle)).preference(delta) < best_proof.preference(delta):
                best_proof, high = halved, middle
            else:
                low = middle
        return best_proof
