"""What shuffling buys for bits that are each flipped at random, from the exact count of ones.

The analyzer's view of n users' r shuffled bits is the number of ones: the sum of two binomial
variables. Its hockey-stick divergence is computed and rounded up, by tilting, windows and Fourier
transforms, for the r bits of one user and every number t of ones among the others' bits. The worst
pair is r ones against none. Cells cover all t: they give up some of the others' noise, and are
refined where the bound is largest. Proofs, including the rounding: :ref:`proof-binary-response`.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, partial

import gmpy2
import numpy as np
import scipy
from gmpy2 import mpfr
from numpy.typing import NDArray

from ikos._validation import integer, number, quote, round_down
from ikos.accounting import blanket
from ikos.accounting.binomials import reach_up
from ikos.accounting.solve import bisect
from ikos.counts.rounding import rational
from ikos.randomized_response import GRID, grid_down, grid_up

MAX_BITS = 1 << 39  # most bits of all users together
MAX_EPSILON = 100.0
_UNIT = 2.0**-53
_MASS = 36.0  # windows leave out at most e^-36 of their mass
_DIRECT = 1 << 21  # products up to which a convolution is summed directly
_TINY = 1e-290  # exceeds anything that underflows
_CLOSE = 1e-4  # refinement ends here, as a part of delta
_PRECISION = 256


@dataclass(frozen=True)
class _Window:
    """The probabilities of ``first``, ``first`` + 1, ... that matter, normalized."""

    first: int
    pmf: NDArray[np.float64]
    complete: bool

    def reversed(self, n: int) -> _Window:
        """Return the window of n minus the variable."""
        return _Window(n - self.first - self.pmf.size + 1, self.pmf[::-1], self.complete)


def _binomial(n: int, p: float, odds: float, mass: float) -> _Window:
    """Return Bin(n, p) without e^-mass of it, by Bernstein's inequality; odds = p / (1 - p)."""
    mean = n * p
    reach = reach_up(mean * (1 - p), mass + 1)
    low = max(0, math.floor(mean - reach) - 1)
    high = min(n, math.ceil(mean + reach) + 1)
    mode = min(max(math.floor((n + 1) * p), low), high)
    k = np.arange(mode, high, dtype=np.float64)
    above = np.cumprod((n - k) / (k + 1) * odds)
    k = np.arange(mode, low, -1, dtype=np.float64)
    below = np.cumprod(k / ((n - k + 1) * odds))
    pmf = np.concatenate((below[::-1], [1.0], above))
    return _Window(low, pmf / pmf.sum(), low == 0 and high == n)


class _ResponseDivergences:
    """Divergences of r = ``bits`` ones against r zeros of one user, for one gamma and epsilon."""

    def __init__(self, epsilon: Fraction, bits: int, gamma: Fraction) -> None:
        self.bits = bits
        self.pure = False
        g = gamma / 2
        with gmpy2.context(precision=_PRECISION):
            # c is rounded down: the divergence at a smaller epsilon is larger.
            with gmpy2.context(precision=_PRECISION, round=gmpy2.RoundDown):
                c = gmpy2.exp(mpfr(rational(epsilon / bits)))
            flip, keep = mpfr(rational(g)), mpfr(rational(1 - g))
            # Numbers of 54 bits and c below 2^150: within 2^-100 of 0, c is taken smaller.
            tiny = mpfr(2) ** -100
            if flip == keep or keep - c * flip <= -tiny:
                self.pure = True
                return
            c = max(mpfr(1), min(c, (keep - tiny) / flip))
            s = (c * keep - flip) / (keep - c * flip)
            of_zero, of_one = keep + flip * s, flip + keep * s
            self._log_of_zero, self._log_of_one = gmpy2.log(of_zero), gmpy2.log(of_one)
            self._theta = gmpy2.log(s)
            self.theta = float(self._theta)
            self._p0, self._odds0 = float(flip * s / of_zero), float(flip * s / keep)
            self._p1, self._odds1 = float(flip / of_one), float(flip / (keep * s))
            self._mean0, self._mean1 = flip * s / of_zero, keep * s / of_one
        self._mass = min(_MASS + 3 * self.theta, 600.0)
        zeros = _binomial(bits, self._p0, self._odds0, self._mass)
        ones = _binomial(bits, self._p1, self._odds1, self._mass).reversed(bits)
        self._first = min(zeros.first, ones.first)
        last = max(zeros.first + zeros.pmf.size, ones.first + ones.pmf.size)
        self._difference = np.zeros(last - self._first)
        self._sum = np.zeros(last - self._first)
        for sign, window in ((1, ones), (-1, zeros)):
            place = slice(window.first - self._first, window.first - self._first + window.pmf.size)
            self._difference[place] += sign * window.pmf
            self._sum[place] += window.pmf
        self._complete = zeros.complete and ones.complete
        self._transforms: dict[int, NDArray[np.complex128]] = {}

    def cells(self, others: int) -> tuple[int, int]:
        """Return the numbers of initial cells and of cells to split: fewer if each is slow."""
        p = max(self._p0 * (1 - self._p0), self._p1 * (1 - self._p1))
        deviation = math.sqrt(others * p)
        if deviation < 300:
            return 8, 250
        if deviation < 10000:
            return (128, 32) if deviation < 3000 else (64, 16)
        return 32, 8

    def at(self, zeros: int, ones: int) -> float:
        """Return a bound on the divergence for the others' numbers of zeros and ones.

        It is too large by a few units of rounding; at the local epsilon by more, of almost nothing.
        """
        if self.pure:
            return 0.0
        p = _binomial(zeros, self._p0, self._odds0, self._mass)
        q = _binomial(ones, self._p1, self._odds1, self._mass).reversed(ones)
        with gmpy2.context(precision=_PRECISION):
            start = int(gmpy2.floor((zeros + self.bits) * self._mean0 + ones * self._mean1)) - 2
            log_scale = zeros * self._log_of_zero + (ones + self.bits) * self._log_of_one
            log_scale -= self._theta * start
        difference, error = self._differences(p.pmf, q.pmf)
        first = p.first + q.first + self._first
        skip = max(0, start - first)
        terms = np.maximum(difference[skip:] + (error[skip:] if error.ndim else error), 0.0)
        steps = np.arange(first + skip - start, first + skip - start + terms.size)
        weights = np.exp(-np.minimum(self.theta * steps, 700.0))
        total = float(np.dot(terms, weights)) * (1 + terms.size * _UNIT) + _TINY
        if not (p.complete and q.complete and self._complete):
            total += 8 * math.exp(-self._mass)
        with gmpy2.context(precision=_PRECISION):
            result = gmpy2.exp(log_scale) * mpfr(total) * (1 + mpfr(2) ** -40)
        # 2^-40: the exponents of the weights are below 700, with an error below 2^-52 of them
        return min(1.0, math.nextafter(float(result), math.inf))

    def _differences(
        self, p: NDArray[np.float64], q: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the tilted difference on the others' window, and a bound on its error."""
        d = self._difference
        relative = 16 * (p.size + q.size + d.size) * _UNIT
        length = p.size + q.size + d.size - 2
        small = min(p.size, q.size)
        if small * max(p.size, q.size) + (p.size + q.size) * d.size <= _DIRECT:
            both = np.convolve(p, q)
            return np.convolve(both, d), relative * np.convolve(both, self._sum)
        step = 1 << max(0, length.bit_length() - 4)  # few sizes, so that one transform is reused
        size = scipy.fft.next_fast_len(-(-length // step) * step, real=True)
        if size not in self._transforms:
            self._transforms[size] = scipy.fft.rfft(d, size)
        transform = scipy.fft.rfft(p, size)
        transform *= scipy.fft.rfft(q, size)
        transform *= self._transforms[size]
        difference = scipy.fft.irfft(transform, size)[:length]
        # No probability of a sum exceeds the largest of a summand.
        peak = 2 * min(float(p.max()), float(q.max()), 1.0)
        norms = float(np.linalg.norm(p)) * float(np.linalg.norm(q)) * 2
        absolute = 32 * math.log2(size) * _UNIT * norms
        return difference, np.asarray(relative * peak + absolute)


def _largest(group: _ResponseDivergences, others: int, enough: float | None = None) -> float:
    """Return a bound on the divergence over all t, by cells; stop once it is ``enough``."""
    if group.pure:
        return 0.0
    least = max(group.at(0, others), group.at(others, 0))

    def cell(t: int, more: int) -> tuple[float, int, int]:
        return -group.at(others - t - more, t), t, more

    first, budget = group.cells(others)
    width = -(-(others + 1) // first)
    heap = [cell(t, min(width, others + 1 - t) - 1) for t in range(0, others + 1, width)]
    heapq.heapify(heap)
    for _ in range(budget):
        bound, t, more = -heap[0][0], heap[0][1], heap[0][2]
        if more == 0 or bound <= least * (1 + _CLOSE):
            break
        if enough is not None and (bound <= enough or least > enough):
            break
        half = more // 2
        heapq.heapreplace(heap, cell(t, half))
        second = cell(t + half + 1, more - half - 1)
        heapq.heappush(heap, second)
        for value, _, left in (heap[0], second):
            if left == 0:
                least = max(least, -value)
    return -heap[0][0]


def _checked(n: object, bits: object) -> tuple[int, int]:
    users = integer("n", n, low=1)
    each = integer("bits", bits, low=1)
    if users * each > MAX_BITS:
        raise ValueError(f"n * bits must be at most 2^39, got {quote(users * each)}")
    return users, each


def _gamma(gamma: object) -> Fraction:
    # on the grid, as answers are drawn; otherwise rounded down to it, which is less noise
    return grid_down(number("gamma", gamma, low=2.0**-53, high=1))


def local_gamma(epsilon: float | Fraction, *, bits: int = 1) -> Fraction:
    """Return the gamma at which a user's bits are epsilon-private by themselves.

    The smallest multiple of 2^-53 that is at least 2/(e^(epsilon/bits) + 1).
    """
    eps = number("epsilon", epsilon, low=0, high=MAX_EPSILON)
    each = integer("bits", bits, low=1)
    return blanket.local_gamma(eps / each, 2)


def binary_response_delta(
    epsilon: float | Fraction, n: int, gamma: float | Fraction, *, bits: int = 1
) -> float:
    """Return the delta of shuffled binary randomized response.

    Parameters
    ----------
    epsilon : float
        From 0 to 100.
    n : int
        Number of honest users, including the protected one.
    gamma : float
        Probability of a random answer to each bit, from 2^-53 to 1.
    bits : int
        Bits of each user. All go through one shuffler, and all bits of a user may change.

    Returns
    -------
    float
        Upper bound on the hockey-stick divergence between the views of any two neighbouring inputs:
        too large by less than 3 % (measured) if the noise has a standard deviation below 300, by
        less than a half below 10^4, and by a factor of two or three beyond.

    Examples
    --------
    >>> round(binary_response_delta(1, 1, 0.25), 9)  # 7/8 - e/8
    0.535214771
    >>> binary_response_delta(1, 10**4, 1 / 100) < 1e-8
    True
    """
    eps = number("epsilon", epsilon, low=0, high=MAX_EPSILON)
    users, each = _checked(n, bits)
    return _largest(_ResponseDivergences(eps, each, _gamma(gamma)), (users - 1) * each)


def binary_response_epsilon(
    delta: float | Fraction, n: int, gamma: float | Fraction, *, bits: int = 1
) -> float:
    """Return an epsilon of shuffled binary randomized response, to a relative 1e-6.

    Parameters
    ----------
    delta : float
        In [0, 1).
    n, gamma, bits
        As for `binary_response_delta`.

    Returns
    -------
    float
        An epsilon at which `binary_response_delta` is at most delta, or that of the user's bits by
        themselves, bits * ln(2/gamma - 1), rounded up, at which the true delta is 0. ValueError if
        it would exceed 100.

    Examples
    --------
    >>> 0.97 < binary_response_epsilon(1e-8, 10**4, 0.01) < 1
    True
    """
    target = number("delta", delta, low=0, below=1)
    users, each = _checked(n, bits)
    probability = _gamma(gamma)

    def proved(eps: float) -> bool:
        group = _ResponseDivergences(Fraction(eps), each, probability)
        return _largest(group, (users - 1) * each, float(target)) <= target

    if probability == 1 or proved(0.0):
        return 0.0
    with gmpy2.context(precision=_PRECISION):
        local = each * gmpy2.log(mpfr(rational(2 / probability - 1)))
    high = math.nextafter(float(local) * (1 + 2.0**-50), math.inf)
    if high > MAX_EPSILON:
        high = MAX_EPSILON
        if not proved(high):
            raise ValueError(f"no epsilon up to 100 has a delta of at most {quote(delta)}")
    low = high
    while proved(low / 4):
        low /= 4
    return bisect(proved, low, low / 4)


def binary_response_gamma(
    epsilon: float | Fraction, delta: float | Fraction, n: int, *, bits: int = 1
) -> Fraction:
    """Return the smallest gamma found at which shuffled binary randomized response is private.

    Parameters
    ----------
    epsilon : float
        From 1e-9 to 100.
    delta : float
        In [0, 1).
    n, bits
        As for `binary_response_delta`.

    Returns
    -------
    Fraction
        A multiple of 2^-53, at most ``local_gamma``, at which `binary_response_delta` was found to
        be at most delta. The smallest possible is about 0.1 % below, and about 1, 2 or 4 % below if
        the noise has a standard deviation above 300, 3000 or 10000.

    Examples
    --------
    >>> 0.0097 < binary_response_gamma(1, 1e-8, 10**4) < 0.0098
    True
    """
    eps = number("epsilon", epsilon, low=1e-9, high=MAX_EPSILON)
    target = number("delta", delta, low=0, below=1)
    users, each = _checked(n, bits)
    return _smallest_gamma(eps, target, users, each)


@lru_cache(maxsize=256)
def _smallest_gamma(eps: Fraction, target: Fraction, n: int, bits: int) -> Fraction:
    local = local_gamma(eps, bits=bits)
    others = (n - 1) * bits
    if target == 0:
        return local
    goal = round_down(target)

    def at_the_ends(kept: int, gamma: Fraction) -> bool:
        group = _ResponseDivergences(eps, bits, gamma)
        return group.at(0, kept) <= goal and group.at(kept, 0) <= goal

    def everywhere(gamma: Fraction) -> bool:
        return _largest(_ResponseDivergences(eps, bits, gamma), others, goal) <= goal

    # Delta falls as gamma grows: the shuffler could add that noise. The ends of t are quick, and
    # nearly the worst, so every t is tried only from there on.
    ends = _between(partial(at_the_ends, others), Fraction(1, GRID), local, 2.0**-14)[1]
    if ends == local:
        return local
    first, _ = _ResponseDivergences(eps, bits, ends).cells(others)
    if first > 8:
        # Here every t is nearly as bad, and a cell at an end is nearly as bad as any other.
        kept = others - others // first
        ends = _between(partial(at_the_ends, kept), ends, local, 2.0**-12)[1]
    low = above = ends
    step = 2.0**-10
    while above < local and not everywhere(above):
        low, step = above, 2 * step
        above = min(local, grid_up(ends * Fraction(1 + step)))
    return above if first > 8 else _between(everywhere, low, above, 2.0**-11)[1]


def _between(
    holds: Callable[[Fraction], bool], low: Fraction, high: Fraction, close: float
) -> tuple[Fraction, Fraction]:
    """Return grid points, ``close`` to each other, at which it is false and true."""
    if low >= high:
        return low, min(low, high)
    while high > low * Fraction(1 + close) and (high - low) * GRID > 1:
        middle = grid_up(low * Fraction(math.sqrt(high / low)))
        if not low < middle < high:
            middle = grid_up((low + high) / 2)
        low, high = (low, middle) if holds(middle) else (middle, high)
    return low, high
