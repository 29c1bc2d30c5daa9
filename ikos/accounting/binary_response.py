"""Amplification by shuffling of bits that are flipped at random, from the exact count of ones.

The analyzer's view of n users' r shuffled bits is the number of ones: the sum of two binomial
variables. Its hockey-stick divergence is computed and rounded up, by tilting, windows and Fourier
transforms, for the r bits of one user and every number t of ones among the others' bits. Cells
cover all t: they give up some of the others' noise, and are refined where the bound is largest.
Proofs, including the rounding: :ref:`proof-binary-response`.

For comparison: the published analysis of A. Cheu, A. Smith, J. Ullman, D. Zeber, M. Zhilyaev,
*Distributed differential privacy via shuffling*, EUROCRYPT 2019 (CSUZZ19), quoted from memory and
consistent (:ref:`proof-csuzz19`). It needs 4 to 25 times as many random answers.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache, partial

import gmpy2
import numpy as np
import scipy
from gmpy2 import mpfr
from numpy.typing import NDArray

from ikos._validation import InvalidValue, integer, number, quote, round_down
from ikos.accounting.blanket import local_gamma
from ikos.accounting.composition import advanced_share
from ikos.numeric.binomial import binomial_window
from ikos.numeric.rounding import rational
from ikos.numeric.search import halve
from ikos.primitives.randomized_response import GRID, grid_down, grid_up
from ikos.results.sums import at_least

MAX_BITS = 1 << 39  # largest total number of bits of all users
MAX_EPSILON = 100.0
_UNIT = 2.0**-53
_MASS = 36.0  # windows leave out at most e^-36 of their mass
_DIRECT = 1 << 21  # products up to which a convolution is summed directly
_TINY = 1e-290  # larger than any quantity that underflows
_CLOSE = 1e-4  # refinement ends here, as a fraction of delta
_PRECISION = 256


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
        zeros = binomial_window(bits, self._p0, self._odds0, self._mass)
        ones = binomial_window(bits, self._p1, self._odds1, self._mass).reversed(bits)
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

    @np.errstate(under="ignore")
    def at(self, zeros: int, ones: int) -> float:
        """Return a bound on the divergence for the others' numbers of zeros and ones."""
        if self.pure:
            return 0.0
        p = binomial_window(zeros, self._p0, self._odds0, self._mass)
        q = binomial_window(ones, self._p1, self._odds1, self._mass).reversed(ones)
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
        total = float((terms * weights).sum()) * (1 + terms.size * _UNIT) + _TINY
        if not (p.complete and q.complete and self._complete):
            total += 8 * math.exp(-self._mass)
        with gmpy2.context(precision=_PRECISION):
            result = float(gmpy2.exp(log_scale) * mpfr(total) * (1 + mpfr(2) ** -40))
        # 2^-40: the exponents of the weights are below 700, with an error below 2^-52 of them
        return min(1.0, math.nextafter(result, math.inf))

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
        transform = self._transforms[size]
        for window in (p, q):
            if window.size > 1:  # otherwise it is 1
                transform = transform * scipy.fft.rfft(window, size)
        difference = scipy.fft.irfft(transform, size)[:length]
        # No probability of a sum exceeds the largest of a summand.
        peak = 2 * min(float(p.max()), float(q.max()), 1.0)
        norms = 2 * math.sqrt(float((p * p).sum()) * float((q * q).sum()))
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
        bound, t, more = -heap[0][0], *heap[0][1:]
        decided = enough is not None and (bound <= enough or least > enough)
        if decided or more == 0 or bound <= least * (1 + _CLOSE):
            break
        half = more // 2
        heapq.heapreplace(heap, cell(t, half))
        second = cell(t + half + 1, more - half - 1)
        heapq.heappush(heap, second)
        for value, _, left in (heap[0], second):
            if left == 0:
                least = max(least, -value)
    return -heap[0][0]


def binary_response_delta(
    epsilon: float | Fraction, n: int, gamma: float | Fraction, *, bits: int = 1
) -> float:
    """Return the delta of shuffled binary randomized response, rounded up.

    The bound holds for both orders of any two values of a user. It is too large by less than 3 %
    (measured) if the noise has a standard deviation below 300, by less than a half below 10^4, and
    by a factor of 2 or 3 beyond.

    Parameters
    ----------
    epsilon : float
        From 0 to 100.
    n : int
        Number of honest users, including the protected one.
    gamma : float
        Probability of a random answer to each bit, from 2^-53 to 1.
    bits : int
        Bits per user, who may change all of them; they go through one shuffler.

    Examples
    --------
    >>> round(binary_response_delta(1, 1, 0.25), 9)  # 7/8 - e/8
    0.535214771
    >>> binary_response_delta(1, 10**4, 1 / 100) < 1e-8
    True
    """
    eps = number("epsilon", epsilon, low=0, high=MAX_EPSILON)
    each = integer("bits", bits, low=1)
    users = integer("n", n, low=1, high=MAX_BITS // each)
    # on the grid, as answers are drawn; others are rounded down to it, which is less noise
    chance = grid_down(number("gamma", gamma, low=2.0**-53, high=1))
    return _largest(_ResponseDivergences(eps, each, chance), (users - 1) * each)


@lru_cache(maxsize=256)
def binary_response_gamma(
    epsilon: float | Fraction, delta: float | Fraction, n: int, *, bits: int = 1
) -> Fraction:
    """Return the smallest gamma found at which shuffled binary randomized response is private.

    A multiple of 2^-53 at which `binary_response_delta` is at most delta. The smallest possible is
    about 0.1 % below, and about 1, 2 or 4 % below if the noise's standard deviation is above 300,
    3000 or 10000.

    Parameters
    ----------
    epsilon, delta : float
        Epsilon from 1e-9 to 100, delta in [0, 1).
    n, bits
        As for `binary_response_delta`.

    Examples
    --------
    >>> 0.0097 < binary_response_gamma(1, 1e-8, 10**4) < 0.0098
    True
    """
    eps = number("epsilon", epsilon, low=1e-9, high=MAX_EPSILON)
    target = number("delta", delta, low=0, below=1)
    each = integer("bits", bits, low=1)
    others = (integer("n", n, low=1, high=MAX_BITS // each) - 1) * each
    local = local_gamma(eps / each, 2)
    if target == 0:
        return local
    goal = round_down(target)

    def at_the_ends(kept: int, gamma: Fraction) -> bool:
        group = _ResponseDivergences(eps, each, gamma)
        return group.at(0, kept) <= goal and group.at(kept, 0) <= goal

    def everywhere(gamma: Fraction) -> bool:
        return _largest(_ResponseDivergences(eps, each, gamma), others, goal) <= goal

    # Delta falls as gamma grows: the shuffler could add that noise. The ends of t are quick, and
    # nearly the worst, so every t is tried only from there on.
    ends = _least(partial(at_the_ends, others), Fraction(1, GRID), local, 2.0**-14)
    if ends == local:
        return local
    first, _ = _ResponseDivergences(eps, each, ends).cells(others)
    if first > 8:
        # Here every t is nearly as bad, and a cell at an end is nearly as bad as any other.
        kept = others - others // first
        ends = _least(partial(at_the_ends, kept), ends, local, 2.0**-12)
    low = above = ends
    step = 2.0**-10
    while above < local and not everywhere(above):
        low, step = above, 2 * step
        above = min(local, grid_up(ends * Fraction(1 + step)))
    return above if first > 8 else _least(everywhere, low, above, 2.0**-11)


def _least(
    holds: Callable[[Fraction], bool], low: Fraction, high: Fraction, close: float
) -> Fraction:
    """Return a grid point at which a condition holds, ``close`` to one at which it does not."""

    def middle(high: Fraction, low: Fraction) -> Fraction | None:
        if high <= low * Fraction(1 + close) or (high - low) * GRID <= 1:
            return None
        point = grid_up(low * Fraction(math.sqrt(high / low)))
        return point if low < point < high else grid_up((low + high) / 2)

    return halve(holds, high, low, middle) if low < high else high


# The published analysis

_ROUNDING = 1e-12  # relative error allowed for a few operations on doubles
_SHAVED = Fraction(1, 10**12)  # subtracted from delta0: more than the rounding of its sum


def published_lambda(epsilon: float | Fraction, delta: float | Fraction, n: int) -> float:
    """Return CSUZZ19's lambda, the mean number of users who answer at random.

    (64/eps^2) ln(4/delta) for eps >= sqrt(192 ln(4/delta)/n), and otherwise
    n - eps n^(3/2)/sqrt(432 ln(4/delta)); rounded up. ValueError outside the theorem's conditions.
    """
    users = integer("n", n, low=1, high=MAX_BITS)
    eps = float(number("epsilon", epsilon, above=0, high=1))
    small = float(number("delta", delta, above=0, below=1))
    log = math.log(4 / small)
    least = math.sqrt(3456) * log / users * (1 + _ROUNDING)
    if eps < least:
        raise InvalidValue(
            "epsilon",
            f"must be at least sqrt(3456) ln(4/delta)/n = {at_least(least, 3)} for the "
            f"published lambda, got {quote(epsilon)}",
        )
    if eps * eps >= 192 * log / users:
        lam = 64 * log / (eps * eps)
    else:
        lam = users - eps * users**1.5 / math.sqrt(432 * log)
    lam = min(float(users), lam * (1 + _ROUNDING))
    if lam < 14 * log:
        raise InvalidValue(
            "n", f"must be larger: lambda = {lam:.4g} is below 14 ln(4/delta), got n = {users}"
        )
    return lam


def published_gamma(epsilon: float | Fraction, delta: float | Fraction, n: int) -> Fraction:
    """Return `published_lambda` / n, rounded up to the grid of 2^-53."""
    return min(Fraction(1), grid_up(Fraction(published_lambda(epsilon, delta, n)) / n))


def composed_gamma(
    epsilon: float | Fraction,
    delta: float | Fraction,
    n: int,
    bits: int,
    *,
    accountant: str = "exact",
) -> Fraction:
    """Return the gamma for several bits per user by composition, as in CSUZZ19.

    Each of the ``bits`` is (eps0, delta0)-private, by `binary_response_gamma` or, for "csuzz19", by
    `published_gamma`; they compose by basic or advanced composition, whichever allows the larger
    eps0. Advanced composition spends half of delta as its slack. A multiple of 2^-53.
    """
    total = number("epsilon", epsilon, low=1e-9)
    small = number("delta", delta, low=1e-300, below=1)
    each = integer("bits", bits, low=1)

    def run(eps: Fraction, part: Fraction) -> Fraction:
        if accountant == "csuzz19":
            return published_gamma(eps, part, n)
        return binary_response_gamma(eps, part, n)

    if each == 1:
        return run(total, small)
    basic = (total / each, small / each)
    part = Fraction(advanced_share(float(total), float(small / 2), each))
    advanced = (part, small * (1 - _SHAVED) / (2 * each))
    gamma = run(*max(basic, advanced))
    return min(gamma, local_gamma(total / each, 2)) if accountant == "exact" else gamma
