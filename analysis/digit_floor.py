"""A floor below the error of every choice of digits: what privacy costs the recursive protocol.

Take the inputs on which all other users hold the same value, whose every digit is a third one (the
first one where a digit has two values only), and one user holds the value with first digits or with
second ones. Every digit then differs between the two, and what the shufflers put out is
independent. The hockey-stick divergence of these two views is a lower bound of the delta of the
protocol, of whatever analysis. It is computed as a sum over a part of the views, with losses
rounded *down* to a lattice: both only make it smaller.

It does not rise when a probability gamma_j does, for the messages of the larger one arise when each
message of the smaller one is randomized once more. So where the upper corner of a box of
probabilities is not private enough, no point of it is; and the error rises with each gamma_j, so
that it is at least that at the lower corner. `digit_floor` covers all probabilities by such boxes.
The layout is the one that wastes nothing, precision k_1 ... k_m - 1. For other mixed radices with
the same domains the precision is smaller, and the error larger.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, xlog1py, xlogy

from ikos.primitives.randomized_response import response_variance

_REACH = 7.0
"""Standard deviations around the mean that are summed over."""

Losses = tuple[int, NDArray[np.float64]]
"""The smallest loss in steps of a lattice, and the masses from it on."""

_SAFE = 1 - 1e-6
"""More than the doubles' errors in a divergence, which are those of a few thousand logarithms."""


def _log_binomial(n: int, counts: NDArray[np.float64], p: float) -> NDArray[np.float64]:
    """Return ln P[Bin(n, p) = count], -inf outside of {0..n}."""
    inside = (counts >= 0) & (counts <= n)
    c = np.where(inside, counts, 0)
    value = gammaln(n + 1) - gammaln(c + 1) - gammaln(n - c + 1) + xlogy(c, p) + xlog1py(n - c, -p)
    return np.where(inside, value, -np.inf)


def _window(n: int, p: float) -> NDArray[np.float64]:
    reach = _REACH * math.sqrt(n * p * (1 - p)) + 2 * _REACH
    low, high = max(0.0, n * p - reach), min(float(n), n * p + reach)
    return np.arange(math.floor(low), math.ceil(high) + 1, dtype=np.float64)


def _two_values(n: int, gamma: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return masses of the number of second values if the user holds the second and the first."""
    p = gamma / 2
    counts = _window(n, p)
    none, one = (np.exp(_log_binomial(n - 1, counts - shift, p)) for shift in (0, 1))
    return (1 - p) * one + p * none, p * one + (1 - p) * none


def _more_values(n: int, k: int, gamma: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return masses of the numbers of first and of second values, the others holding a third."""
    p = gamma / k
    counts = _window(n, p)
    counts = np.concatenate([[counts[0] - 1], counts])  # for the views with one more or less
    each = np.where(counts >= 0, xlogy(counts, p) - gammaln(np.maximum(counts, 0) + 1), -np.inf)
    rest = n - 1 - (2 * counts[0] + np.arange(2 * counts.size - 1))
    least = np.maximum(rest, 0)
    third = xlog1py(least, -2 * p) - gammaln(least + 1)
    third = np.where(rest >= 0, third, -np.inf) + gammaln(n)
    pairs = np.add.outer(np.arange(counts.size), np.arange(counts.size))
    others = np.exp(each[:, np.newaxis] + each[np.newaxis, :] + third[pairs])
    truth = 1 - gamma + p
    first = truth * others[:-1, 1:] + p * others[1:, :-1] + (gamma - 2 * p) * others[1:, 1:]
    return first.ravel(), first.T.ravel()


@lru_cache(maxsize=4096)
def view_losses(n: int, k: int, gamma: float, step: float) -> Losses:
    """Return a lattice of privacy losses of one digit that are at most the true ones."""
    first, second = _two_values(n, gamma) if k == 2 else _more_values(n, k, gamma)
    known = (first > 1e-30) & (second > 0)
    losses = np.floor(np.log(first[known] / second[known]) / step - 1e-9).astype(np.int64)
    low = int(losses.min())
    return low, np.asarray(np.bincount(losses - low, weights=first[known]), dtype=np.float64)


def _divergence(epsilon: float, step: float, parts: list[Losses]) -> float:
    low, masses = parts[0]
    for other, more in parts[1:]:
        low, masses = low + other, np.convolve(masses, more)
    losses = step * (low + np.arange(masses.size))
    above = losses > epsilon
    return float(np.dot(masses[above], -np.expm1(epsilon - losses[above]))) * _SAFE


@dataclass(frozen=True)
class Floor:
    """What no choice of digits gets below."""

    mse: float
    domains: tuple[int, ...]
    covered: int


@dataclass(frozen=True)
class _Cover:
    """Boxes of probabilities: gamma = largest ratio^-i for i = 0, 1, ..."""

    n: int
    epsilon: float
    delta: float
    ratio: float
    step: float

    def gamma(self, index: int) -> float:
        return math.pow(self.ratio, -index)

    def private(self, domains: tuple[int, ...], indices: tuple[int, ...]) -> bool:
        """Whether the lower bound of delta allows these probabilities."""
        losses = [
            view_losses(self.n, k, self.gamma(i), self.step)
            for k, i in zip(domains, indices, strict=True)
        ]
        return _divergence(self.epsilon, self.step, losses) <= self.delta

    def last(self, domains: tuple[int, ...], fixed: tuple[int, ...], top: int) -> int:
        """Return the largest index up to ``top`` of the next digit that may be private; or -1."""
        known = domains[: len(fixed) + 1]
        low, high = -1, top
        if self.private(known, (*fixed, top)):
            return top
        while high - low > 1:
            middle = (low + high) // 2
            if middle > 0 and self.private(known, (*fixed, middle)):
                low = middle
            elif middle == 0:
                return 0  # always at random: private
            else:
                high = middle
        return low


@lru_cache(maxsize=1 << 16)
def _least(cover: _Cover, k: int) -> int:
    """Return the largest index at which a digit of k values alone may be private."""
    low, high = 0, 1
    if k > 3:  # about in proportion to k
        low = _least(cover, k - 1) - 1
        high = low + 2
    while low > 0 and not cover.private((k,), (low,)):
        low, high = low - 1, low
    while cover.private((k,), (high,)):
        low, high = high, high + max(1, high - low)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if cover.private((k,), (middle,)) else (low, middle)
    return low


def _term(cover: _Cover, k: int, index: int) -> float:
    """Return the least variance, in (k - 1)^2, of a digit whose probability is in a box."""
    return response_variance(k, cover.gamma(index + 1))


def _error(cover: _Cover, domains: tuple[int, ...], indices: tuple[int, ...]) -> float:
    whole = math.prod(domains)
    precision = whole - 1
    place = whole
    total = 1 / 4
    for k, index in zip(domains, indices, strict=True):
        place //= k
        total += place**2 * _term(cover, k, index)
    return float(cover.n * total / precision**2)


def _allocations(
    cover: _Cover, domains: tuple[int, ...], alone: tuple[int, ...], below: float
) -> Iterator[tuple[int, ...]]:
    """Yield the boxes that may be private and whose error may be below a number."""

    def extend(fixed: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        j = len(fixed)
        if j == len(domains) - 1:
            index = cover.last(domains, fixed, alone[j])
            if index >= 0:
                yield (*fixed, index)
            return
        for index in range(alone[j], -1, -1):
            if _error(cover, domains, (*fixed, index, *alone[j + 1 :])) >= below:
                return
            yield from extend((*fixed, index))

    yield from extend(())


def _choices(cover: _Cover, m: int, below: float) -> Iterator[tuple[int, ...]]:
    """Yield the domains whose digits, each private for itself, may have an error below a number.

    The first digit's term alone is at least n B(k_1, gamma) / k_1^2, and so on; terms rise with k.
    """

    def extend(fixed: tuple[int, ...], factor: float) -> Iterator[tuple[int, ...]]:
        k = 2
        while True:
            term = cover.n * _term(cover, k, _least(cover, k)) / k**2 * factor
            if term >= below:
                return
            here = (*fixed, k)
            if len(here) == m:
                yield here
            else:
                yield from extend(here, factor / k**2)
            k += 1

    yield from extend((), 1.0)


def digit_floor(
    n: int,
    epsilon: float,
    delta: float,
    messages: int,
    *,
    below: float,
    ratio: float = 1.05,
    together: bool = True,
) -> Floor:
    """Return a lower bound of the error of all private digits."""
    cover = _Cover(n, epsilon, delta, ratio, epsilon / 60)
    best, covered = below, 0
    where: tuple[int, ...] = ()
    for domains in _choices(cover, messages, below):
        covered += 1
        alone = tuple(_least(cover, k) for k in domains)
        if _error(cover, domains, alone) >= best:
            continue
        if not together:
            best, where = _error(cover, domains, alone), domains
            continue
        for indices in _allocations(cover, domains, alone, best):
            error = _error(cover, domains, indices)
            if error < best:
                best, where = error, domains
    return Floor(best, where, covered)


def view_divergence(
    n: int, domains: tuple[int, ...], gammas: tuple[float, ...], epsilon: float
) -> float:
    """Return a lower bound of the delta of digits with these probabilities, at epsilon."""
    step = epsilon / 200
    losses = [view_losses(n, k, g, step) for k, g in zip(domains, gammas, strict=True)]
    return _divergence(epsilon, step, losses)
