"""A lower bound on the total variation of the secure sum, and so on the number of messages.

2 TV >= E |D_1| - sqrt(2 R), where E |D_1| is bounded by Hoelder's inequality from the exact second
and fourth moment, or by a normal limit with Goldstein's constant. D_1, R and the proofs are in
docs/necessary-messages.md.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import gmpy2
from gmpy2 import mpfr, mpq

from ikos._validation import number
from ikos.counts.analyses import checked_scheme
from ikos.counts.floor import counting_floor
from ikos.counts.largest_component import applies, largest_component
from ikos.counts.recursion import enclosed
from ikos.counts.secure import security_level
from ikos.counts.share_graph import ShareGraph, share_graph
from ikos.counts.types import MAX_SIGMA
from ikos.numeric.rounding import DOWN, UP, float_up, rounding
from ikos.numeric.search import first

THEOREM = "moments of tuple counts, docs/necessary-messages.md"

_ZERO = mpfr(0)
_RECURSION = 96  # largest number of users for whom the remainder is also computed by the recursion
_SUMMED = 1024  # messages up to which the exact sums of a single shuffler are computed
_LOOKAHEAD_BITS = 64.0  # bits up to which bounds for more messages are tried for fewer
_SCANNED = 256  # counts excluded one by one where more messages are not known to hide more

THRESHOLDS = tuple(mpq(k, 1000) for k in (500, 700, 800, 900, 950, 990, 999))
"""Values of theta that are tried."""

Difference = Sequence[tuple[int, int]]
"""The entries of y that are not 0, each with the number of users who have it."""


@dataclass(frozen=True)
class LowerBound:
    """The bounds for inputs that differ by y: `ikos.counts.certificate.NecessaryCertificate`."""

    y: Difference
    second: mpfr
    fourth: mpfr
    mean: mpfr
    rest: mpfr
    method: str

    @property
    def total_variation(self) -> mpfr:
        """The bound, at least 0."""
        with rounding(UP):
            away = gmpy2.sqrt(2 * self.rest)
        with rounding(DOWN):
            return max(_ZERO, (self.mean - away) / 2)

    @property
    def level(self) -> float:
        """Upper bound on the level of security in bits, infinite where nothing is proved."""
        if not (variation := self.total_variation):
            return math.inf
        with rounding(DOWN):
            log = gmpy2.log2(variation)
        with rounding(UP):
            return max(0.0, float_up(-log))


def ways(n: int, graph: ShareGraph, direction: int) -> mpfr:
    """Return K, rounded in a direction."""
    with rounding(direction):
        if graph.shuffler == "parallel":
            return mpfr(n) ** graph.m
        return graph.growth(n, direction) * n ** (1 if graph.clear_share else 2)


@lru_cache(maxsize=256)
def _coincidences(n: int, graph: ShareGraph) -> tuple[tuple[mpfr, ...], tuple[mpfr, ...]]:
    """Return lower and upper bounds on E_0, ..., E_3."""
    m = graph.m
    if graph.shuffler == "parallel":
        bounds = []
        for direction, other in ((DOWN, UP), (UP, DOWN)):
            with rounding(other):
                square, cube = mpfr(n) ** (2 * m), mpfr(n) ** (3 * m)
            with rounding(direction):
                pairs = (mpfr(k) ** m / cube for k in (2 * n - 1, 3 * n - 2))
                bounds.append((1 / cube, 1 / square, *pairs))
        return bounds[0], bounds[1]
    sums = [1, 3]  # of C(t, i)^2 C(2 i, i) over i, by its recurrence
    for t in range(1, m):
        step = (10 * t * t + 10 * t + 3) * sums[t] - 9 * t * t * sums[t - 1]
        sums.append(step // (t + 1) ** 2)
    double = triple = 0
    for c in range(m + 1):
        t = m - c
        placed = math.perm(m * n, 2 * m - c)
        shared = math.factorial(c) * math.factorial(t) ** 2
        double += placed * math.comb(2 * t, t) // shared
        triple += placed * sums[t] // shared
    ways = math.comb(m * n, m)
    values = mpq(1, ways**3), mpq(1, ways**2), mpq(double, ways**4), mpq(triple, ways**4)
    with rounding(DOWN):
        low = tuple(map(mpfr, values))
    with rounding(UP):
        return low, tuple(map(mpfr, values))


def _moment(n: int, graph: ShareGraph, *coefficients: int) -> mpfr:
    """Return a sum of coefficients times E_0, ..., E_3, rounded up."""
    low, high = _coincidences(n, graph)
    with rounding(UP):
        return gmpy2.fsum(
            [c * (high if c > 0 else low)[k] for k, c in enumerate(coefficients) if c]
        )


def fourth_moment(n: int, q: int, graph: ShareGraph, y: int) -> mpfr:
    """Return E g_b^4 for the entry y in Z_q, rounded up."""
    third = 0 if q % 2 or y % 2 == 0 else 16
    second = 3 * (6 * q + 2 * q * (2 * y % q == 0) - third)
    first = 12 * q * q - 2 * second - 3 * third
    return _moment(n, graph, 2 * q**3 - first - second - third, first, second, third)


def pair_moment(n: int, q: int, graph: ShareGraph, y: int, z: int) -> mpfr:
    """Return an upper bound on E g_b^2 g_b'^2 for the entries y and z of two users.

    In Z_q, or in Z_p^d of this order. Exact in Z_q if y and z differ by a unit, or are the same.
    """
    matching = 4 * q + 2 * q * ((y - z) % q == 0) + 2 * q * ((y + z) % q == 0)
    if max(math.gcd(y - z, q), math.gcd(y + z, q)) > 1:  # perhaps the same, or opposite, in Z_p^d
        matching = max(matching, 6 * q)
    third = 0 if q % 2 or y % 2 == 0 or z % 2 == 0 else 16
    second = 2 * (matching - third)
    return _moment(n, graph, 0, 4 * q * q - second - third, second, third)


def _differences(n: int, q: int, graph: ShareGraph) -> Iterator[Difference]:
    """Yield the differences that are tried."""
    if not graph.clear_share:  # the same entry for all users
        if n >= 5 and graph.m >= 3 and math.gcd(n, q) > 1:
            yield [(q // 2 if n % 2 == q % 2 == 0 else q // math.gcd(n, q), n)]
        return
    for entry in (1, 2) if 8 % q == 0 else (2,):
        for users in {2: (2,), 3: (2,), 4: (3,)}.get(n, (n, n - 1)):
            half = users // 2
            parts = [(entry, half), (-entry, half)]
            if users % 2:
                parts = [(entry, half + 1), (-entry, half - 1), (-2 * entry, 1)]
            merged: Counter[int] = Counter()
            for y, count in parts:
                merged[y % q] += count
            if 0 not in merged:
                yield [(y, count) for y, count in merged.items() if count]


def _rest(n: int, q: int, graph: ShareGraph, users: int) -> mpfr:
    """Return an upper bound on R for a difference with this many entries."""
    if n == 2:
        return _ZERO
    bounds = [gmpy2.inf()]
    if graph.clear_share and n <= _RECURSION:
        moments = enclosed(n, q, graph)
        with rounding(DOWN):
            xi = q * moments.weight_down[n - 1] / moments.weight[n]
            balanced = xi * (1 - moments.connected[n - 1]) * users / n
        with rounding(UP):
            # Delta by the component of user 1, but for the graphs with one of n - 1 users
            terms = [
                s * moments.connected[s] * moments.weight[s] * moments.colourings[n - s]
                for s in range(2, n - 1)
            ]
            terms.append(q * moments.weight[n - 1] * moments.divergence[n - 1])
            bounds.append(gmpy2.fsum(terms) / n / moments.weight_down[n] - balanced)
    if applies(n, graph):
        part = largest_component(n, q, graph)
        with rounding(UP):
            terms = [part.moments.colourings[j] / part.ratio[j] for j in range(2, part.cutoff)]
            bounds.append(gmpy2.fsum(terms) + part.remainder)
    return min(bounds)


def lower_bound(
    n: int, q: int, graph: ShareGraph, y: Difference, *, normal: bool = True
) -> LowerBound | None:
    """Return the bounds for inputs that differ by y, or None where no theorem covers them.

    The entries of y must be different, not 0, and add up to 0.
    """
    if not _covered(n, q, graph, y):
        return None
    users = sum(count for _, count in y)
    # of two users there is one class, and so one user's g
    factor = 1 if n == 2 else users if graph.clear_share else n * n
    most = ways(n, graph, UP)
    with rounding(DOWN):
        second = mpfr(2 * q * factor) / most
    fourths, fourth = _fourth_moments(n, q, graph, y)
    with rounding(DOWN):
        bounds = [(second * gmpy2.sqrt(second / fourth), "hoelder")]
    if normal and graph.clear_share and n > 2 and users == n - 1:
        bounds.append((_normal(n, q, graph, y, second, fourths), "normal limit"))
    mean, method = max(bounds, key=lambda bound: bound[0])
    return LowerBound(y, second, fourth, mean, _rest(n, q, graph, users), method)


def _covered(n: int, q: int, graph: ShareGraph, y: Difference) -> bool:
    """Whether a theorem covers inputs that differ by y."""
    users = sum(count for _, count in y)
    if graph.shuffler == "single" and graph.m > _SUMMED:
        return False
    if sum(entry * count for entry, count in y) % q:
        return False
    if graph.clear_share:
        return n == 2 == users or (graph.m >= 2 and n >= 3 and (n >= 5 or users < n))
    return n >= 5 and graph.m >= 3 and len(y) == 1 and users == n


def _fourth_moments(n: int, q: int, graph: ShareGraph, y: Difference) -> tuple[mpfr, mpfr]:
    """Return the sum of the users' fourth moments, and that of the sum of their g, rounded up."""
    each = [fourth_moment(n, q, graph, entry) for entry, _ in y]
    with rounding(UP):
        fourths = gmpy2.fsum([count * fourth for (_, count), fourth in zip(y, each, strict=True)])
        if not graph.clear_share:
            return fourths, mpfr(n) ** 4 * each[0]
        if n == 2:
            return fourths, each[0]
        pairs = [
            count * (others - (entry == other)) * pair_moment(n, q, graph, entry, other)
            for entry, count in y
            for other, others in y
        ]
        return fourths, fourths + 3 * gmpy2.fsum(pairs)


def _normal(n: int, q: int, graph: ShareGraph, y: Difference, second: mpfr, fourths: mpfr) -> mpfr:
    """Return a lower bound on E |D_1| by a normal limit, at least 0."""
    most, best = ways(n, graph, UP), _ZERO
    with rounding(UP):
        pair = max(pair_moment(n, q, graph, a, b) for a, _ in y for b, _ in y)
        kappa = pair * most * most / 4 / q / q - 1
        spread, circle = gmpy2.sqrt(1 + kappa), gmpy2.const_pi()
    if not 0 <= kappa < 1:
        return best
    for theta in THRESHOLDS:
        with rounding(DOWN):
            gap = mpfr((1 - theta) ** 2)
        with rounding(UP):
            lost = kappa * gmpy2.sqrt(mpfr(theta)) / gap
            error = gmpy2.sqrt(fourths * (1 / theta)) / second
        with rounding(DOWN):
            kept = 1 / spread - lost
            if kept > 0:
                best = max(best, gmpy2.sqrt(second) * (gmpy2.sqrt(2 / circle) * kept - error))
    return best


@lru_cache(maxsize=1 << 12)
def best(n: int, q: int, graph: ShareGraph) -> LowerBound | None:
    """Return the best lower bound among the differences tried, or None without any."""
    tried = (lower_bound(n, q, graph, y) for y in _differences(n, q, graph))
    return max(filter(None, tried), key=lambda bound: bound.total_variation, default=None)


def level(n: int, q: int, graph: ShareGraph) -> float:
    """Return an upper bound on the level of security in bits, infinite where nothing is proved."""
    bound = best(n, q, graph)
    return math.inf if bound is None else bound.level


def necessary_messages(
    n: int,
    q: int,
    sigma: float | Fraction,
    *,
    shuffler: str = "parallel",
    clear_share: bool = True,
    min_honest: int | None = None,
    corrupt_shufflers: int = 0,
) -> int:
    """Return a proved lower bound on the number of shuffled messages for sigma bits of security.

    With fewer, some inputs with the same sum have views whose total variation is above
    ``2**-sigma``.

    Parameters
    ----------
    n, q, sigma, shuffler, clear_share, min_honest, corrupt_shufflers
        As in `ikos.message_count`. The group is cyclic, or Z_p^d of order q = p^d with a p that
        does not divide 8 and, without a clear share, is not 2 modulo 4.

    Returns
    -------
    int
        At least 1, and at most ``message_count(...).shuffled``; rounded down.

    Notes
    -----
    Proved by moments of tuple counts (docs/necessary-messages.md) or by counting inputs, whichever
    gives the larger bound.

    Examples
    --------
    >>> necessary_messages(10**6, 2**64, 80), necessary_messages(10, 2**64, 128)
    (13, 91)
    """
    scheme = checked_scheme(
        n, q, min_honest, corrupt_shufflers, shuffler=shuffler, clear_share=clear_share
    )
    wanted = number("sigma", sigma, above=0, high=MAX_SIGMA)
    users, corrupt = scheme.trust.min_honest, scheme.trust.corrupt_shufflers
    clear = scheme.trust.clear_share or corrupt > 0  # any clear messages are like one

    def possible(m: int) -> bool:
        return not level(users, q, share_graph(m, shuffler, clear)) < wanted

    low = counting_floor(users, q, wanted, shuffler=shuffler)
    if shuffler == "single" and not clear:  # more messages are not known to hide at least as much
        return next((m for m in range(low, low + _SCANNED) if possible(m)), low + _SCANNED)
    high, step = scheme.least(wanted).shuffled, 1
    while high > low and possible(max(low, high - step)):
        high, step = max(low, high - step), 2 * step
    return corrupt + (first(possible, max(low, high - step), high) if high > low else high)


def security_interval(
    n: int, q: int, m: int, *, shuffler: str = "parallel", clear_share: bool = True
) -> tuple[float, float]:
    """Return lower and upper bounds on the security of m shuffled messages, in bits.

    Parameters
    ----------
    n, q, m, shuffler, clear_share
        As in `ikos.security_level`. The group is cyclic, or Z_p^d of order q = p^d with a p that
        does not divide 8 and, without a clear share, is not 2 modulo 4.

    Returns
    -------
    low, high : float
        ``-log2`` of the largest total variation between the views of two inputs with the same sum
        is in between. ``low`` is `ikos.security_level`, rounded down; ``high`` is rounded up, and
        infinite where nothing is proved.

    Notes
    -----
    Where the theorem does not cover m, a bound for more messages is used, if they hide no less.

    Examples
    --------
    >>> low, high = security_interval(10**6, 2**64, 13)
    >>> f"{low:.2f} to {high:.2f}"
    '88.09 to 88.42'
    """
    low = at_most = security_level(n, q, m, shuffler=shuffler, clear_share=clear_share)
    high = level(n, q, share_graph(m, shuffler, clear_share))
    monotone = clear_share or shuffler == "parallel"
    while monotone and high == math.inf and at_most < _LOOKAHEAD_BITS:
        m += 1
        high = level(n, q, share_graph(m, shuffler, clear_share))
        at_most = security_level(n, q, m, shuffler=shuffler, clear_share=clear_share)
    return low, high
