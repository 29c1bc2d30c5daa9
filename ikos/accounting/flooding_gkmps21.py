"""Flooding for correlated-noise sums: how messages that cancel hide differences.

Ghazi, Kumar, Manurangsi, Pagh, Sinha, *Differentially Private Aggregation in the Shuffle Model:
Almost Central Accuracy in Almost a Single Message*, ICML 2021 (GKMPS21).

Values are x in {0..p}. All users together send geometric numbers N+ of +1 and N- of -1, and Z_a
copies of each zero-sum atom, s_1 = {1, -1} and s_i = {i, floor(-i/2), ceil(-i/2)} for 2 <= abs(i)
<= p. A value is a shift of the Z_a (``decomposition``). ``paper_flooding`` checks the paper's
constants for the given parameters; ``flooding_delta`` certifies others. Proofs:
:ref:`proof-flooding`.

NB(r, e^-a) has P[k] proportional to Gamma(k + r) / k! e^(-a k), k >= 0. Let f be its distribution
and f_d that of K + d. "down" is f against f_d, with an infinite loss below d; "up" is f_d against
f, with losses up to a d. Tails are sums of positive terms, correct to 5e-9 of their value; results
are enlarged by more than that (:ref:`proof-shifts`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, lru_cache, partial

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from ikos._validation import InvalidValue, integer, number, quote
from ikos.numeric.search import last_safe
from ikos.numeric.underflow import may_underflow
from ikos.results.sums import at_least

MAX_STEPS = 1 << 16  # largest p
_LOST = 0.3  # fraction of delta for outcomes where floods are too small
_SLACK = 1e-8  # relative enlargement of probabilities and divergences, and absolute of log moments
_ETA = 1e-12  # relative error allowed for in a loss
_MAX_SHAPE = 1 << 12  # largest shape, with which rounding errors grow
_MAX_RATE = 100  # largest rate: there is almost no noise
_BLOCKS = 256
_ENTRIES_PER_PASS = 1 << 22
_TINY = 1e-300  # least probability: smaller doubles have fewer digits

Floats = NDArray[np.float64]


def _terms(r: int, a: float, k: Floats, many: int) -> tuple[Floats, float, Floats]:
    """Return trials, their odds, and ln P[j successes], j = 1, ..., many; K < k is r of them."""
    trials, odds = np.maximum(k, 1.0) + (r - 1), math.expm1(a)
    j = np.arange(1, many + 1, dtype=np.float64)
    with np.errstate(divide="ignore"):
        steps = np.log(np.maximum(trials[:, np.newaxis] - j + 1, 0.0) * (odds / j))
    return trials, odds, np.cumsum(steps, axis=1) - (a * trials)[:, np.newaxis]


@np.errstate(under="ignore")
def _from(r: int, a: float, k: Floats) -> Floats:
    """Return P[K >= k], to a relative error of at most 5e-9."""
    trials, _, logs = _terms(r, a, k, r - 1)
    above = np.exp(-trials * a) + np.exp(logs).sum(axis=1)
    return np.asarray(np.where(k > 0, above, 1.0))


@np.errstate(under="ignore")
def _below(r: int, a: float, k: Floats) -> Floats:
    """Return P[K < k], to a relative error of at most 5e-9."""
    # terms that fall from j = r on are added up; otherwise the remainder is at least a half
    many = r + 64 + 8 * math.isqrt(r)
    trials, odds, logs = _terms(r, a, k, many)
    # ratios of terms fall: from the last one on, the rest is at most a geometric series
    ratio = np.clip((trials - many) * odds / (many + 1), 0.0, 0.99)
    terms = np.exp(logs[:, r - 1 :])
    below = terms.sum(axis=1) + terms[:, -1] * ratio / (1 - ratio)
    falling = (trials - r) * odds <= r + 1
    if not falling.all():
        below = np.where(falling, below, 1 - _from(r, a, k))
    return np.asarray(np.where(k > 0, below, 0.0))


def _rising(r: int, d: Floats, k: Floats) -> Floats:
    """Return T(k), the loss above its least value -a d; infinite for k < d."""
    apart = (k - d)[:, np.newaxis] + np.arange(1, r, dtype=np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        total = np.log1p(d[:, np.newaxis] / apart).sum(axis=1)
    return np.asarray(np.where(k < d, np.inf, total), dtype=np.float64)


def _first_at_most(r: int, d: Floats, level: Floats) -> Floats:
    """Return the first k >= d where T(k) is at most a positive level, between convex bounds."""
    if r == 1:
        return d
    with np.errstate(over="ignore"):
        x: Floats = d / np.expm1(level / (r - 1))
    low: Floats = np.maximum(np.floor(x - r / 2) - 2, -1.0) + d
    high: Floats = np.maximum(np.ceil(x) + 1, 0.0) + d
    for _ in range(r.bit_length() + 3):
        middle = np.floor((low + high) / 2)
        inner = (low < middle) & (middle < high)
        small = _rising(r, d, middle) <= level
        low = np.where(inner & ~small, middle, low)
        high = np.where(inner & small, middle, high)
    return high


def negative_binomial_divergence(
    shape: int, rate: float, shift: ArrayLike, epsilon: ArrayLike
) -> Floats:
    """Return the delta at which NB(shape, e^-rate) hides shifts at given epsilons.

    The larger hockey-stick divergence of both directions, rounded up by about 1e-8 of it and of the
    probability of the event where it is attained. Shifts are integers of at least 1.
    """
    r = integer("shape", shape, low=1, high=_MAX_SHAPE)
    number("rate", rate, above=0, high=_MAX_RATE)
    d, eps = np.broadcast_arrays(
        *(np.atleast_1d(np.asarray(value, np.float64)) for value in (shift, epsilon))
    )
    size = max(1, _ENTRIES_PER_PASS // (2 * r + 128))
    parts = [
        _divergence(r, rate, d[at : at + size], eps[at : at + size])
        for at in range(0, d.size, size)
    ]
    return np.concatenate(parts) if parts else np.empty(0)


def _divergence(r: int, a: float, d: Floats, eps: Floats) -> Floats:
    eta = _ETA * (eps + a * d)
    less = np.exp(eps - 3 * eta) * (1 - _SLACK)
    k = _first_at_most(r, d, eps + a * d - eta)
    down = _below(r, a, k) * (1 + _SLACK) - less * _below(r, a, k - d)
    ever = a * d * (1 + _ETA) > eps
    k = _first_at_most(r, d, np.where(ever, a * d - eps + eta, 1.0))
    up = _from(r, a, k - d) * (1 + _SLACK) - less * _from(r, a, k)
    larger = np.maximum(down, np.where(ever, up, 0.0))
    return np.clip(larger * (1 + _SLACK) + _TINY, 0.0, 1.0)


@dataclass(frozen=True)
class ShiftMoments:
    """Bounds on ln E exp(order * loss) between NB and its ``shifts``, at least 0, (shifts, orders).

    ``down`` leaves out the smallest outcomes, of probability ``lost``, which counts as delta.
    """

    shifts: NDArray[np.int64]
    up: Floats
    down: Floats
    lost: float


@may_underflow()
def shift_moments(
    shape: int, rate: float, shifts: NDArray[np.int64], orders: Floats, lost: float
) -> ShiftMoments:
    """Return bounds on the moments of losses, from blocks of outcomes at their largest loss."""
    shape = integer("shape", shape, low=1, high=_MAX_SHAPE)
    number("rate", rate, above=0, high=_MAX_RATE)
    first = _quantile(shape, rate, lost)
    top = (shape + 16 * math.sqrt(shape) + 25) / rate + first + 2
    edges = np.ceil(np.linspace(first ** (1 / 3), top ** (1 / 3), _BLOCKS) ** 3)
    edges = np.unique(np.maximum(edges, first))
    edges[0] = first
    below = np.append(_below(shape, rate, edges), 1.0)
    above = np.append(_from(shape, rate, edges), 0.0)
    mass = np.where(
        below[1:] < 0.5, np.diff(below) + _SLACK * below[1:], -np.diff(above) + _SLACK * above[:-1]
    )
    log_mass = np.log(np.maximum(mass, _TINY))
    start = math.log(max(below[0] * (1 + _SLACK), _TINY))
    j = np.arange(1, shape, dtype=np.float64)[:, np.newaxis]
    ends = np.append(edges[1:] - 1, np.inf)

    up, down = np.empty((shifts.size, orders.size)), np.empty((shifts.size, orders.size))
    for row, d in enumerate(shifts.tolist()):
        rising = rate * d - np.log1p(d / (ends + j)).sum(axis=0)
        moment = _log_sum(orders[:, np.newaxis] * rising + log_mass)
        if first > 0:
            least = rate * d - float(np.log1p(d / (first - 1 + j)).sum())
            moment = np.logaddexp(moment, orders * least + start)
        up[row] = moment
        if d > first:
            down[row] = np.inf
        else:
            falling = -rate * d - np.log1p(-d / (edges + j)).sum(axis=0)
            down[row] = _log_sum(orders[:, np.newaxis] * falling + log_mass)
    lost = float(below[0]) * (1 + _SLACK)
    up, down = (
        np.where(shifts[:, np.newaxis] > 0, np.maximum(moments, 0.0) + _SLACK, 0.0)
        for moments in (up, down)
    )
    return ShiftMoments(shifts, up, down, lost)


@np.errstate(under="ignore")
def _log_sum(logs: Floats) -> Floats:
    """Return the logarithm of the sum of the exponentials of each row."""
    most = logs.max(axis=1)
    return np.asarray(most + np.log(np.exp(logs - most[:, np.newaxis]).sum(axis=1)))


def _quantile(shape: int, rate: float, lost: float) -> int:
    """Return a k, at most one below the largest, with P[K < k] at most ``lost``."""
    low, high = 0, math.ceil(shape / rate) + 2
    near = scipy.special.gammaincinv(shape, lost) / rate - shape / 2
    between = np.unique(np.clip(np.floor(near) + np.arange(-16, 17), low, high))
    while True:
        fits = _below(shape, rate, between) <= lost
        low = int(between[fits][-1]) if fits.any() else low
        high = int(between[~fits][0]) if not fits.all() else high
        if high - low <= 1:
            return low
        between = np.unique(np.floor(np.linspace(low, high, 34)[1:-1]))


def atom(i: int) -> tuple[int, ...]:
    """Return the messages of a zero-sum atom: (1, -1), or such as (5, -3, -2) and (-5, 2, 3)."""
    return (1, -1) if i == 1 else (i, -i // 2, i // 2 - i if i % 2 == 0 else -i // 2 + 1)


def rate_down(rate: float | Fraction) -> Fraction:
    """Return a rate of machine words, at most this one (more noise), by about 2^-20 of it."""
    if rate < 2.0**-20:
        return Fraction(1, math.ceil(1 / Fraction(rate)))
    bits = 20 - min(0, math.floor(math.log2(rate)))
    return Fraction(math.floor(Fraction(rate) * (1 << bits)), 1 << bits)


@dataclass(frozen=True)
class Flood:
    """Copies of some atoms that all users together send: independent NB(shape, e^-rate) of each."""

    atoms: tuple[int, ...]
    shape: Fraction
    rate: Fraction

    @property
    def mean(self) -> float:
        """Expected total number of messages."""
        pairs = self.atoms.count(1)
        copies = float(self.shape) / math.expm1(self.rate)
        return copies * (2 * pairs + 3 * (len(self.atoms) - pairs))


@dataclass(frozen=True)
class Flooding:
    """The noise of all users together, for values in {0..steps}, and its proved delta.

    ``central`` is the rate of the numbers of +1 and of -1, both geometric.
    """

    steps: int
    central: Fraction
    floods: tuple[Flood, ...]
    delta: float

    @property
    def mean(self) -> float:
        """Expected total number of messages, without the values'."""
        return sum(flood.mean for flood in self.floods) + 2 / math.expm1(self.central)


@dataclass(frozen=True)
class Decomposition:
    """The atoms that make up each message x in {0..p}, in addition to copies of 1.

    Message x contains atom ``atoms[j, x]`` (0 for none) ``counts[j, x]`` times, with the sign of
    the atom, for each row j, and s_1 ``pairs[x]`` times, at most 0.
    """

    atoms: NDArray[np.int64]
    counts: NDArray[np.int64]
    pairs: NDArray[np.int64]

    def largest(self) -> NDArray[np.int64]:
        """Return the largest coefficient of each atom from -p to p, in absolute value."""
        p = self.pairs.size - 1
        result = np.zeros(2 * p + 1, dtype=np.int64)
        np.maximum.at(result, self.atoms.ravel() + p, self.counts.ravel())
        return result


@lru_cache(maxsize=8)
def decomposition(steps: int) -> Decomposition:
    """Return how recursive halving writes each message of {0..steps} by +1 and zero-sum atoms."""
    x = np.arange(steps + 1, dtype=np.int64)
    atoms, counts = [], []
    pairs = np.zeros_like(x)
    for depth in range(steps.bit_length()):
        whole, rest = x >> depth, x & ((1 << depth) - 1)
        sign = -1 if depth % 2 else 1
        for value, count in ((whole, (1 << depth) - rest), (whole + 1, rest)):
            used = (whole >= 1) & (value >= 2) & (count > 0)
            atoms.append(np.where(used, sign * value, 0))
            counts.append(np.where(used, count, 0))
        # leaves: ones at this depth, and both halves of its twos at the next
        leaves = (1 << depth) - rest if depth % 2 else 2 * rest
        pairs -= np.where(whole == 1, leaves, 0)
    return Decomposition(np.array(atoms), np.array(counts), pairs)


def paper_weights(steps: int) -> NDArray[np.int64]:
    """Return t_i = ceil(Gamma / i) at index i >= 1, Gamma = steps (ceil(log2 steps) + 1)."""
    gamma = steps * ((steps - 1).bit_length() + 1)
    i = np.arange(1, steps + 1, dtype=np.int64)
    return np.concatenate(([0], -(-gamma // i)))


def weighted_size(steps: int, weights: NDArray[np.int64]) -> float:
    """Return the largest sum of abs(c_a(x)) / t_a over x; the paper needs at most 1."""
    parts = decomposition(steps)
    sizes = np.abs(parts.atoms)
    terms = np.where(parts.counts > 0, parts.counts / np.maximum(weights[sizes], 1), 0.0)
    return float((terms.sum(axis=0) + np.abs(parts.pairs) / weights[1]).max())


def paper_flooding(steps: int, central: Fraction, epsilon: float, delta: float) -> Flooding:
    """Return GKMPS21's flooding, checked numerically for these parameters.

    The ``central`` noise has that rate, which is central * steps-private by itself; epsilon and
    delta are the flooding's, half for the first flood of {1, -1} and half for the atoms. ValueError
    if a step of the proof fails for the parameters.
    """
    t = paper_weights(steps)
    if weighted_size(steps, t) > 1 + 1e-12:
        raise InvalidValue("steps", f"must have weights that hold every message, got {steps}")
    eps, share = epsilon / 2, delta / 2
    atoms_in_all = 2 * steps - 1
    shape = Fraction(math.ceil(3072 * (1 + math.log(1 / share))), 1024)
    first = Flood((1,), shape, rate_down(0.2 * eps / steps))
    hidden = negative_binomial_divergence(math.floor(shape), float(first.rate), steps, eps)
    shape = Fraction(math.ceil(3072 * (1 + math.log(atoms_in_all / share))), 1024)
    largest = decomposition(steps).largest()
    largest = np.maximum(largest[steps:], largest[steps::-1])
    largest[1] = np.abs(decomposition(steps).pairs).max()
    floods, worst = [first], 0.0
    for weight in np.unique(t[1:])[::-1].tolist():
        sizes = np.flatnonzero(t[1:] == weight) + 1
        atoms = [sign * i for i in sizes.tolist() for sign in ((1,) if i == 1 else (1, -1))]
        floods.append(Flood(tuple(atoms), shape, rate_down(0.1 * eps / weight)))
        # for the atoms of one weight, and so of one rate, the largest shift suffices
        d = np.arange(1, int(largest[sizes].max()) + 1)
        each = negative_binomial_divergence(
            math.floor(shape), float(floods[-1].rate), d, d * (eps / (2 * weight))
        )
        worst = max(worst, float(each.max(initial=0.0)))
    proved = float(hidden[0]) + atoms_in_all * worst
    if not proved <= delta:
        raise ValueError(
            f"flooding: the paper's constants give delta = {at_least(proved, 6)} for epsilon = "
            f"{quote(epsilon)} and delta = {quote(delta)}; use flooding='certified'"
        )
    return Flooding(steps, central, tuple(floods), proved)


def _grid(largest: int) -> NDArray[np.int64]:
    """Return shifts up to a largest, included, each at most an eighth above the one before."""
    grid = [0]
    while grid[-1] < largest:
        grid.append(grid[-1] + max(1, grid[-1] >> 3))
    grid[-1] = largest
    return np.array(grid, dtype=np.int64)


def _table(flood: Flood, largest: int, orders: NDArray[np.float64], lost: float) -> ShiftMoments:
    """Return the moments for shifts up to the largest."""
    if flood.shape.denominator != 1:
        raise InvalidValue("floods", f"must have integer shapes, got {flood.shape}")
    return shift_moments(int(flood.shape), float(flood.rate), _grid(largest), orders, lost)


def flooding_delta(flooding: Flooding, epsilon: float, lost: float) -> float:
    """Return a proved delta of a flooding at an epsilon, central noise included; 1 for none.

    Shapes must be integers. ``lost`` is about the fraction of delta for outcomes with too small
    floods; any positive value is sound.
    """
    p, s = flooding.steps, float(flooding.central) * (1 + 1e-12)
    if epsilon <= s * p or lost >= 1:
        return 1.0
    order = _orders(epsilon - s * p, lost)
    parts = decomposition(p)
    largest = parts.largest()
    bound = np.zeros(2 * p + 1, dtype=np.int64)  # each atom's flood, counted from 1
    tables: list[ShiftMoments] = []
    pair: ShiftMoments | None = None
    each = lost / (4 * p.bit_length() + 2)
    for flood in flooding.floods:
        members = np.array(flood.atoms, dtype=np.int64)
        if (members == 1).any():
            pair = _table(flood, 2 * p, order, each)
            members = members[members != 1]
        if members.size:
            tables.append(_table(flood, int(largest[members + p].max()), order, each))
            bound[members + p] = len(tables)
    largest[p] = 0
    if pair is None or not bound[largest > 0].all():
        return 1.0  # a required atom has no flood at all

    here, there, gone = _sums(parts, bound, tables, order.size)
    left_out = float(gone[0].max() + gone[1].max()) + pair.lost
    total = _worst(p, s, order, here, there, pair, parts.pairs)
    return min(1.0, (left_out + _tail(total, order, epsilon)) * (1 + 1e-9))


def _tail(total: NDArray[np.float64], order: NDArray[np.float64], epsilon: float) -> float:
    """Return the delta of log moments of the loss, by the best order."""
    tail = total - order * epsilon - np.log1p(order) + order * np.log(order / (1 + order))
    return math.exp(min(0.0, float(tail.min())))


def _orders(epsilon: float, delta: float, many: int = 6) -> NDArray[np.float64]:
    """Return orders of moments around the best for Gaussian losses, and lower ones."""
    return np.asarray(np.geomspace(0.5, 3.0, many) * math.log(1 / delta) / epsilon)


def _sums(
    parts: Decomposition, bound: NDArray[np.int64], tables: list[ShiftMoments], orders: int
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return log moments of x and of y, (orders, p + 1), and what they leave out, (2, p + 1)."""
    # for x, positive atoms are shifted up and negative ones down; for y the other way
    p = parts.pairs.size - 1
    here, there = np.zeros((2, orders, p + 1))
    gone = np.zeros((2, p + 1))
    for values, counts in zip(parts.atoms, parts.counts, strict=True):
        which = bound[values + p]
        for index, table in enumerate(tables, start=1):
            x = np.flatnonzero(which == index)
            if not x.size:
                continue
            cell = np.searchsorted(table.shifts, counts[x])  # rounded up
            up, down = table.up[cell].T, table.down[cell].T
            positive = values[x] > 0
            here[:, x] += np.where(positive, up, down)
            there[:, x] += np.where(positive, down, up)
            gone[0, x] += np.where(positive, 0.0, table.lost)
            gone[1, x] += np.where(positive, table.lost, 0.0)
    return here, there, gone


_CELLS = 512
_WIDTHS = (64, 8, 1)  # runs that are taken together, before pairs of them are refined
_PAIRS = 1 << 15  # of runs, at a time


def _worst(
    p: int,
    s: float,
    order: NDArray[np.float64],
    here: NDArray[np.float64],
    there: NDArray[np.float64],
    pair: ShiftMoments,
    pairs: NDArray[np.int64],
) -> NDArray[np.float64]:
    """Return the largest log moment over all pairs (x, y) and all sums t, for each order."""
    # values are grouped into runs, each with its largest moments
    starts = np.unique(np.linspace(0, p + 1, min(p + 1, _CELLS) + 1).astype(np.int64)[:-1])
    # the moment of s_1 for every shift from -2 p to 2 p, rounded up
    cell = np.searchsorted(pair.shifts, np.arange(2 * p + 1))
    of_shift = np.concatenate((pair.down[cell][:0:-1], pair.up[cell])).T

    def moments(width: int, ways: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return bounds for runs of x, of y, and 0 for x >= y or 1, taking ``width`` together."""
        begin = starts[::width]
        end = np.append(begin[1:], p + 1) - 1
        low, high = np.minimum.reduceat(pairs, begin), np.maximum.reduceat(pairs, begin)
        a = np.maximum.reduceat(here, begin, axis=1)
        b = np.maximum.reduceat(there, begin, axis=1)
        result = np.full((order.size, ways.shape[1]), -np.inf)
        for at in range(0, ways.shape[1], _PAIRS):
            i, j, falling = ways[:, at : at + _PAIRS]
            more, less = np.where(falling, (j, i), (i, j))
            d, e = end[more] - begin[less], np.maximum(begin[more] - end[less], 0)
            # s_1 is shifted by c_1(x) - c_1(y) + j, less the distance if x < y, with 0 <= j <= it
            least, most = low[i] - high[j] - falling * d, high[i] - low[j] - falling * e
            for part, until in ((0.0, 0.25), (0.25, 0.5), (0.5, 1.0)):
                # of a distance u in [e, d]: part u <= j <= until u, which together are all j, so
                # that the loss s (u - 2 j) is at most s (1 - 2 part) u
                loss = s * (1 - 2 * part) * d
                first = np.clip(least + np.ceil(part * e).astype(np.int64), -2 * p, 2 * p)
                last = np.clip(most + np.floor(until * d).astype(np.int64), -2 * p, 2 * p)
                shifted = np.maximum(of_shift[:, first + 2 * p], of_shift[:, last + 2 * p])
                exponents = order[:, np.newaxis] * loss + shifted + a[:, i] + b[:, j]
                exponents = np.where(d >= 0, exponents, -np.inf)  # otherwise there is no such pair
                np.maximum(result[:, at : at + _PAIRS], exponents, out=result[:, at : at + _PAIRS])
        return result

    def parts(ways: NDArray[np.int64], wide: int, width: int) -> NDArray[np.int64]:
        """Return the parts of ``width`` of pairs of runs that were taken together."""
        inner = np.arange(wide // width)
        i, j, falling = ways[:, :, np.newaxis, np.newaxis]
        i, j = i * inner.size + inner[:, np.newaxis], j * inner.size + inner
        result = np.stack([indices.ravel() for indices in np.broadcast_arrays(i, j, falling)])
        return result[:, (result[:2] < -(-starts.size // width)).all(axis=0)]

    # Only pairs whose bound exceeds the largest one of the finest are refined.
    many = -(-starts.size // _WIDTHS[0])
    ways = np.indices((many, many, 2)).reshape(3, -1)
    worst = np.full(order.size, -np.inf)
    for width, finer in zip(_WIDTHS, (*_WIDTHS[1:], 1), strict=True):
        bounds = moments(width, ways)
        best = ways[:, np.unique(bounds.argmax(axis=1))]
        worst = np.maximum(worst, moments(1, parts(best, width, 1)).max(axis=1))
        ways = parts(ways[:, (bounds > worst[:, np.newaxis]).any(axis=0)], width, finer)
        if not ways.size:
            break
    return worst


@lru_cache(maxsize=8)
def _classes(steps: int) -> dict[int, tuple[int, ...]]:
    """Return the required atoms by largest shift, rounded up to 1, 2, 3, 4, 6, 8, 12."""
    largest = decomposition(steps).largest()
    largest[steps] = 0
    result: dict[int, list[int]] = {}
    for index in np.flatnonzero(largest > 0).tolist():
        d = int(largest[index])
        half = 1 << max(0, d.bit_length() - 2)
        result.setdefault(-(-d // half) * half, []).append(index - steps)
    return {d: tuple(atoms) for d, atoms in sorted(result.items())}


def _scaled(steps: int, central: Fraction, shape: int, scale: float) -> Flooding:
    """Return the flooding of a shape with rates proportional to cost^(1/3) / shift."""
    floods = [Flood((1,), Fraction(shape), rate_down(scale * (2 * steps) ** (1 / 3) / steps))]
    for d, atoms in _classes(steps).items():
        rate = rate_down(scale * (3 * d * len(atoms)) ** (1 / 3) / d)
        floods.append(Flood(atoms, Fraction(shape), rate))
    return Flooding(steps, central, tuple(floods), 1.0)


def _rough_delta(flooding: Flooding, epsilon: float, lost: float) -> float:
    """Return an estimate of the certificate: every flood shifted by its largest shift, once."""
    p, s = flooding.steps, float(flooding.central)
    order = _orders(epsilon - s * p, lost, 16)
    total, left_out = order * s * p, 0.0
    largest = decomposition(p).largest()
    for flood in flooding.floods:
        d = p if flood.atoms == (1,) else int(largest[np.array(flood.atoms) + p].max())
        moments = shift_moments(
            int(flood.shape), float(flood.rate), np.array([d]), order, lost / len(flooding.floods)
        )
        total = total + np.maximum(moments.up[0], moments.down[0])
        left_out += moments.lost
    return left_out + _tail(total, order, epsilon)


_LEAST_SCALE, _LARGEST_SCALE = math.log(1e-12), math.log(64.0)
_SLOPE = 20.0  # of ln delta as a function of the scale's logarithm, about
_SHAPES = (2, 3, 4, 6, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64, 80, 96, 128, 192, 256, 384, 512)


@lru_cache(maxsize=64)
def certified_flooding(steps: int, central: Fraction, epsilon: float, delta: float) -> Flooding:
    """Return a flooding with few messages whose privacy is certified by `flooding_delta`.

    The rate of the ``central`` noise is below epsilon / steps, and (epsilon, delta) is the whole
    guarantee. ValueError if nothing could be certified.
    """
    lost = _LOST * delta

    scales: dict[int, float] = {}

    def excess(shape: int, proof: Callable[..., float], log_scale: float) -> float:
        if not _LEAST_SCALE < log_scale < _LARGEST_SCALE:
            return math.copysign(1.0, log_scale)
        flooding = _scaled(steps, central, shape, math.exp(log_scale))
        # without what small floods lose, which does not fall with the scale
        proved = max(proof(flooding, epsilon, lost) - lost, 1e-3 * delta)
        return math.log(proved / (delta - lost))

    def scale(index: int) -> float:
        if index not in scales:
            near = min(scales, key=lambda other: abs(other - index), default=None)
            start = math.log(epsilon / steps)
            if near is not None:
                start = scales[near] + math.log(_SHAPES[index] / _SHAPES[near])
            rough = partial(excess, _SHAPES[index], _rough_delta)
            scales[index] = last_safe(rough, _SLOPE, start=start, close=1e-2)
        return scales[index]

    @cache
    def mean(index: int) -> float:
        return _scaled(steps, central, _SHAPES[index], math.exp(scale(index))).mean

    low, high = 0, len(_SHAPES) - 1
    while low < high:  # the mean falls and then rises with the shape
        middle = (low + high) // 2
        low, high = (low, middle) if mean(middle) <= mean(middle + 1) else (middle + 1, high)
    proof = partial(excess, _SHAPES[low], flooding_delta)
    scale_log = last_safe(proof, _SLOPE, start=scale(low), close=5e-3)
    flooding = _scaled(steps, central, _SHAPES[low], math.exp(scale_log))
    proved = flooding_delta(flooding, epsilon, lost)
    if proved > delta:
        raise ValueError(f"delta: no flooding could be certified for {delta!r}; use a larger one")
    return replace(flooding, delta=proved)
