"""Exact noise by integer arithmetic: geometric, Polya, discrete Laplace and Gaussian, Skellam.

There is no floating point: the scale ``s`` is a rational (a float stands for its exact value), and
neither ``exp(-s)`` nor a logarithm is computed. The time of a draw depends on its value, so a
client should send at a time that does not depend on it.

CKS20 is Canonne, Kamath, Steinke, "The Discrete Gaussian for Differential Privacy", 2020; GX17 is
Goryczka, Xiong, "A Comprehensive Comparison of Multiparty Secure Additions with Differential
Privacy", 2017; BBGN20 is Balle, Bell, Gascon, Nissim, "Private Summation in the Multi-Message
Shuffle Model", CCS 2020.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import lru_cache, partial
from itertools import accumulate
from typing import Any, overload

import numpy as np
from gmpy2 import isqrt
from numpy.typing import NDArray

from ikos._validation import integer, number
from ikos.primitives.randomness import RandomSource, secure

__all__ = [
    "discrete_gaussian", "discrete_laplace", "geometric", "polya", "polya_population", "skellam",
]  # fmt: skip

Real = int | float | Fraction

INT64_MAX = (1 << 63) - 1

MAX_DRAWS = 1 << 40
"""Largest number of draws of one call."""

MAX_SHAPE = 10**6
"""Largest shape of `polya`; its time grows with the shape."""

MAX_SKELLAM = 1 << 40
_MAX_TABLE_VARIANCE = 1 << 34  # largest variance drawn from one table
"""Largest variance of `skellam`; its table has some 14 standard deviations of entries."""

_MAX_SINGLE_DRAWS = 8  # from here on it is faster to draw all at once than one by one


@overload
def geometric(s: Real, size: None = None, rng: RandomSource | None = None) -> int: ...
@overload
def geometric(s: Real, size: int, rng: RandomSource | None = None) -> NDArray[Any]: ...
def geometric(
    s: Real, size: int | None = None, rng: RandomSource | None = None
) -> int | NDArray[Any]:
    """Draw exactly from the geometric distribution, P[k] proportional to exp(-s k) for k >= 0.

    Parameters
    ----------
    s : int, float or Fraction
        Rate, positive; a float stands for its exact value.
    size : int, optional
        Number of independent draws; a single Python int by default.
    rng : RandomSource, optional
        Secure randomness by default.

    Returns
    -------
    int or (size,) ndarray
        int64, or object if a draw does not fit.
    """
    return _deliver(partial(geometric_draws, number("s", s, above=0)), size, rng)


@overload
def discrete_laplace(s: Real, size: None = None, rng: RandomSource | None = None) -> int: ...
@overload
def discrete_laplace(s: Real, size: int, rng: RandomSource | None = None) -> NDArray[Any]: ...
def discrete_laplace(
    s: Real, size: int | None = None, rng: RandomSource | None = None
) -> int | NDArray[Any]:
    """Draw exactly from the discrete Laplace distribution, P[k] proportional to ``exp(-s |k|)``.

    Added to an integer of sensitivity D it gives (s D)-differential privacy. The variance is 2 e^-s
    / (1 - e^-s)^2, about 2 / s^2. Parameters and result are as for `geometric`.

    Examples
    --------
    >>> from ikos.testing import DeterministicRandom
    >>> draws = discrete_laplace(Fraction(1, 50), 1000, DeterministicRandom(0))
    >>> draws.dtype, bool(abs(draws.mean()) < 20)
    (dtype('int64'), True)
    """
    return _deliver(partial(_laplace, number("s", s, above=0)), size, rng)


@overload
def discrete_gaussian(
    variance: Real, size: None = None, rng: RandomSource | None = None
) -> int: ...
@overload
def discrete_gaussian(
    variance: Real, size: int, rng: RandomSource | None = None
) -> NDArray[Any]: ...
def discrete_gaussian(
    variance: Real, size: int | None = None, rng: RandomSource | None = None
) -> int | NDArray[Any]:
    """Draw exactly from the discrete Gaussian, P[k] proportional to exp(-k^2 / (2 variance)).

    Added to every coordinate of an integer vector, it is as private as Gaussian noise of a variance
    smaller by about 1/12 (:ref:`proof-gaussian`).

    ``variance`` is the parameter v = sigma^2, taken exactly; the true variance is at most v, and
    almost v if v is above 1. The rest is as for `geometric`.
    """
    return _deliver(partial(_gaussian, number("variance", variance, above=0)), size, rng)


@overload
def polya(r: Real, s: Real, size: None = None, rng: RandomSource | None = None) -> int: ...
@overload
def polya(r: Real, s: Real, size: int, rng: RandomSource | None = None) -> NDArray[Any]: ...
def polya(
    r: Real, s: Real, size: int | None = None, rng: RandomSource | None = None
) -> int | NDArray[Any]:
    """Draw exactly from the Polya distribution, P[k] proportional to exp(-s k) Gamma(k + r)/k!.

    Parameters
    ----------
    r : int, float or Fraction
        Shape, positive and at most 10^6; a float stands for its exact value (write ``Fraction(1,
        n)``, not ``1 / n``). Above 1, time is proportional to it.
    s, size, rng
        As for `geometric`, like the result.

    Examples
    --------
    >>> from ikos.testing import DeterministicRandom
    >>> share = polya(Fraction(1, 100), 0.05, 100, DeterministicRandom(3))
    >>> share.shape, bool((share >= 0).all())
    ((100,), True)
    """
    shape, rate = number("r", r, above=0, high=MAX_SHAPE), number("s", s, above=0)
    return _deliver(partial(_polya, shape, rate), size, rng)


def polya_population(
    n: int, s: Real, *, parties: int | None = None, rng: RandomSource | None = None
) -> NDArray[Any]:
    """Draw the noise of a whole population: n independent differences of two Polya(1/parties).

    With ``parties = n`` the results add up to discrete Laplace noise of rate s. Time is that of a
    few draws and one pass over the output.

    Parameters
    ----------
    n, s, rng
        ``n`` is the number of users. ``s``, ``rng`` and the type of the (n,) result are as for
        `geometric`.
    parties : int, optional
        Number of users whose noise adds up to one discrete Laplace variable; ``n`` by default. The
        sum over all n has n / parties times its variance. A single client takes ``n = 1``.

    Examples
    --------
    >>> from ikos.testing import DeterministicRandom
    >>> noise = polya_population(10**6, 0.001, rng=DeterministicRandom(4))
    >>> noise.shape, bool(0 < (noise != 0).sum() < 100)
    ((1000000,), True)
    """
    n = integer("n", n, low=1, high=MAX_DRAWS)
    parties = n if parties is None else integer("parties", parties, low=1, high=1 << 62)
    users, noise = polya_shares(n, number("s", s, above=0), parties, secure(rng))
    result = np.zeros(n, dtype=noise.dtype)
    result[users] = noise
    return result


@overload
def skellam(variance: Real, size: None = None, rng: RandomSource | None = None) -> int: ...
@overload
def skellam(variance: Real, size: int, rng: RandomSource | None = None) -> NDArray[Any]: ...
def skellam(
    variance: Real, size: int | None = None, rng: RandomSource | None = None
) -> int | NDArray[Any]:
    """Draw exactly from the Skellam distribution, the difference of two equal Poisson variables.

    The variances of independent variables add up, so that one of variance v is the sum of n of
    variance v/n. Added to every coordinate of an integer vector, it is Gaussian differentially
    private: `ikos.noise.skellam_noise`. ``variance`` is at most 2^40, and taken exactly; the rest
    is as for `geometric`.

    Examples
    --------
    >>> from ikos.testing import DeterministicRandom
    >>> draws = skellam(Fraction(2500, 3), 1000, DeterministicRandom(0))
    >>> draws.dtype, bool(24 < draws.std() < 34)
    (dtype('int64'), True)
    """
    checked = number("variance", variance, above=0, high=MAX_SKELLAM)
    return _deliver(partial(skellam_draws, checked), size, rng)


def _deliver(
    draw: Callable[[int, RandomSource], NDArray[Any]], size: object, rng: RandomSource | None
) -> int | NDArray[Any]:
    """Return one draw as a Python int for ``size=None``, or an array of int64 if all fit."""
    count = 1 if size is None else integer("size", size, low=0, high=MAX_DRAWS)
    draws = draw(count, secure(rng))
    return int(draws[0]) if size is None else _shortened(draws)


def _shortened(draws: NDArray[Any]) -> NDArray[Any]:
    """Return draws as int64 if all of them fit."""
    if draws.dtype == object and all(abs(int(value)) <= INT64_MAX for value in draws):
        return draws.astype(np.int64)
    return draws


def _plus(a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
    """Return a + b without overflow: as object arrays if int64 might not suffice."""
    if _largest(a) + _largest(b) > INT64_MAX:
        return np.asarray(a.astype(object) + b.astype(object))
    return np.asarray(a + b)


def _largest(values: NDArray[Any]) -> int:
    """Return the largest absolute value; 0 for no values."""
    return max(abs(int(values.max(initial=0))), abs(int(values.min(initial=0))))


# Bernoulli variables


def bernoulli(numerators: NDArray[Any], denominator: int, rng: RandomSource) -> NDArray[np.bool_]:
    """Return independent Bernoulli variables of probability ``numerators / denominator``."""
    if denominator == 1:
        return numerators >= 1
    drawn = rng.uniform(denominator, numerators.size)
    return np.asarray(drawn < numerators, dtype=bool)


def bernoulli_exp(
    numerators: NDArray[Any], denominator: int, rng: RandomSource
) -> NDArray[np.bool_]:
    """Return Bernoulli variables of probability exp(-numerators / denominator), each in [0, 1].

    CKS20, Algorithm 1: with A_k ~ Bernoulli(x / k), the first k at which A_k = 0 is odd with
    probability 1 - x + x^2/2 - ... = exp(-x).
    """
    result = np.empty(numerators.size, dtype=bool)
    active = np.arange(numerators.size)
    k = 1
    while active.size:
        going_on = bernoulli(numerators, denominator * k, rng)
        result[active[~going_on]] = k % 2 == 1
        active, numerators = active[going_on], numerators[going_on]
        k += 1
    return result


def one_bernoulli_exp(numerator: int, denominator: int, rng: RandomSource) -> bool:
    """Return one Bernoulli variable, as `bernoulli_exp` does."""
    k = 1
    while rng.integer(denominator * k) < numerator:
        k += 1
    return k % 2 == 1


def bernoulli_exp_any(
    numerators: NDArray[Any], denominator: int, rng: RandomSource
) -> NDArray[np.bool_]:
    """Return Bernoulli variables of probability exp(-numerators / denominator), each at least 0.

    CKS20, Algorithm 1: a variable of probability exp(-1) for each unit of the exponent's whole
    part, until one fails, and then one for the rest.
    """
    result = np.zeros(numerators.size, dtype=bool)
    active = np.arange(numerators.size)
    whole, rest = numerators // denominator, numerators % denominator
    while active.size:
        done = np.asarray(whole == 0, dtype=bool)
        finished = active[done]
        result[finished] = bernoulli_exp(rest[finished], denominator, rng)
        active, whole = active[~done], whole[~done] - 1
        kept = bernoulli_exp(np.ones(active.size, dtype=np.int64), 1, rng)
        active, whole = active[kept], whole[kept]
    return result


# Distributions


def geometric_draws(s: Fraction, count: int, rng: RandomSource) -> NDArray[Any]:
    """Return ``count`` draws with P[k] proportional to exp(-s k): int64 where all fit, or object.

    CKS20, Algorithm 2: with s = a/b, P[X = x] is proportional to exp(-x / b) for X = U + b V, where
    U in [0, b) is kept with probability exp(-U / b) and V counts successes of Bernoulli(exp(-1));
    the draw is floor(X / a).
    """
    a, b = s.numerator, s.denominator
    low = np.empty(0, dtype=object)
    if b == 1:
        low = np.zeros(count, dtype=np.int64)
    while low.size < count:
        drawn = rng.uniform(b, count - low.size)
        kept = drawn[bernoulli_exp(drawn, b, rng)]
        low = kept if not low.size else np.concatenate((low, kept))
    high = np.zeros(count, dtype=np.int64)
    active = np.arange(count)
    while active.size:
        active = active[bernoulli_exp(np.ones(active.size, dtype=np.int64), 1, rng)]
        high[active] += 1
    above = b * (int(high.max(initial=0)) + 1)  # exceeds every X
    if max(a, above) <= INT64_MAX:
        return np.asarray((low.astype(np.int64) + b * high) // a)
    wide = (low.astype(object) + b * high.astype(object)) // a
    return np.asarray(wide.astype(np.int64) if above // a <= INT64_MAX else wide)


def one_geometric(s: Fraction, rng: RandomSource) -> int:
    """Return one draw, as `geometric_draws` does."""
    a, b = s.numerator, s.denominator
    low, high = rng.integer(b), 0
    while not one_bernoulli_exp(low, b, rng):
        low = rng.integer(b)
    while one_bernoulli_exp(1, 1, rng):
        high += 1
    return (low + b * high) // a


def _laplace(s: Fraction, count: int, rng: RandomSource) -> NDArray[Any]:
    """Return discrete Laplace draws, differences of two independent geometric variables."""
    return np.asarray(geometric_draws(s, count, rng) - geometric_draws(s, count, rng))


def _gaussian(variance: Fraction, count: int, rng: RandomSource) -> NDArray[Any]:
    """Return ``count`` draws with P[k] proportional to exp(-k^2 / (2 variance)).

    CKS20, Algorithm 3: Y is discrete Laplace of rate 1/t, t = floor(sigma) + 1, and kept with
    probability exp(-(|Y| - v/t)^2 / (2 v)) for the variance parameter v. That times exp(-|Y| / t)
    is proportional to exp(-Y^2 / (2 v)). The exponent is (|Y| b t - a)^2 / (2 a b t^2) for v = a/b.
    """
    a, b = variance.numerator, variance.denominator
    t = int(isqrt(a // b)) + 1
    rate, denominator = Fraction(1, t), 2 * a * b * t * t
    draws = np.empty(0, dtype=np.int64)
    while draws.size < count:
        # kept with probability above 1/2 for t >= 2: a third round is rare
        drawn = _laplace(rate, count - draws.size, rng)
        size = np.abs(drawn)
        if max(_largest(size) * b * t, a) ** 2 > INT64_MAX or denominator > INT64_MAX:
            size = size.astype(object)
        distance = size * (b * t) - a
        kept = drawn[bernoulli_exp_any(distance * distance, denominator, rng)]
        draws = kept if not draws.size else np.concatenate((draws, kept))
    return draws


def _polya(shape: Fraction, rate: Fraction, count: int, rng: RandomSource) -> NDArray[Any]:
    """Return Polya draws: geometric ones for the whole part of the shape, and a thinned one."""
    whole, part = divmod(shape, 1)
    draws = np.zeros(count, dtype=np.int64)
    for _ in range(whole):
        draws = _plus(draws, geometric_draws(rate, count, rng))
    if part:
        draws = _plus(draws, _thin(geometric_draws(rate, count, rng), part, rng))
    return draws


def _first_cycle(remaining: NDArray[Any], rng: RandomSource) -> NDArray[Any]:
    """Return the length of the cycle through a point of a uniform permutation: 1..remaining."""
    if remaining.dtype == object:
        return np.array([1 + rng.integer(int(value)) for value in remaining], dtype=object)
    return 1 + rng.below(remaining)


def _cycles(
    points: NDArray[Any], rng: RandomSource
) -> Iterator[tuple[NDArray[np.int64], NDArray[Any]]]:
    """Yield the cycles of uniform permutations of these numbers of points: permutation and length.

    Each step yields the next cycle of each permutation that has points left.
    """
    index = np.flatnonzero(points > 0)
    remaining = points[index]
    while index.size:
        cycle = _first_cycle(remaining, rng)
        yield index, cycle
        remaining = remaining - cycle
        going_on = np.asarray(remaining > 0, dtype=bool)
        index, remaining = index[going_on], remaining[going_on]


def _thin(total: NDArray[Any], keep: Fraction, rng: RandomSource) -> NDArray[Any]:
    """Return the Polya(keep, alpha) parts of geometric variables, for keep <= 1.

    The cycles of a uniform permutation of ``total`` points are kept with probability ``keep``
    each; the proof is in docs/noise.md.
    """
    kind = object if keep.denominator > INT64_MAX else np.int64
    kept = np.zeros_like(total)
    for index, cycle in _cycles(total, rng):
        chosen = bernoulli(np.full(index.size, keep.numerator, kind), keep.denominator, rng)
        kept[index[chosen]] += cycle[chosen]
    return kept


def polya_shares(
    n: int, rate: Fraction, parties: int, rng: RandomSource
) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Return the users with any noise of `polya_population`, ascending, and their noise."""
    added, above = polya_jumps(n, rate, parties, rng)
    taken, below = polya_jumps(n, rate, parties, rng)
    users, places = np.unique(np.concatenate((added, taken)), return_inverse=True)
    large = sum(map(int, above)) + sum(map(int, below)) > INT64_MAX  # otherwise no partial sum is
    noise = np.zeros(users.size, dtype=object if large else np.int64)
    np.add.at(noise, places[: added.size], above)
    np.subtract.at(noise, places[added.size :], below)
    return users, _shortened(noise)


def polya_jumps(
    n: int, rate: Fraction, parties: int, rng: RandomSource, variables: int = 1
) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Draw n independent Polya(variables / parties, e^-rate) variables as jumps of at least 1.

    Returns users, possibly repeated, and the jump of each. Imaginary users, whose noise is
    dropped, complete the last group of ``parties``. Each group shares one geometric variable per
    sign, whose cycles go to uniformly random members: docs/noise.md.
    """
    groups = -(-n // parties)
    if groups * variables <= _MAX_SINGLE_DRAWS:
        return _few_jumps(n, rate, parties, rng, variables)
    points = geometric_draws(rate, groups * variables, rng)
    users: list[NDArray[np.int64]] = [np.empty(0, dtype=np.int64)]
    amounts: list[NDArray[Any]] = [np.empty(0, dtype=points.dtype)]
    for index, cycle in _cycles(points, rng):
        member = rng.below(np.full(index.size, parties, dtype=np.int64))
        user = index // variables * parties + member
        real = user < n
        users.append(user[real])
        amounts.append(cycle[real])
    return np.concatenate(users), np.concatenate(amounts)


def _few_jumps(
    n: int, rate: Fraction, parties: int, rng: RandomSource, variables: int
) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Return the same as `polya_jumps`, one variable at a time."""
    users, amounts = [], []
    for variable in range(-(-n // parties) * variables):
        first, remaining = variable // variables * parties, one_geometric(rate, rng)
        while remaining:
            cycle = 1 + rng.integer(remaining)
            user = first + rng.integer(parties)
            if user < n:
                users.append(user)
                amounts.append(cycle)
            remaining -= cycle
    large = max(amounts, default=0) > INT64_MAX
    return (np.array(users, dtype=np.int64), np.array(amounts, dtype=object if large else np.int64))


def skellam_draws(variance: Fraction, count: int, rng: RandomSource) -> NDArray[Any]:
    """Return ``count`` draws of this variance: sums of differences of two Poisson variables."""
    parts = -(-variance // _MAX_TABLE_VARIANCE)
    table = _PoissonTable.of(variance * Fraction(1, 2 * parts))
    total = np.zeros(count, dtype=np.int64)
    for _ in range(parts):
        total += np.subtract(table.draws(count, rng), table.draws(count, rng), dtype=np.int64)
    return total


_WORD = 64
_PREFIX = 16  # leading bits that alone decide most draws


def _boundaries(rate: Fraction, bits: int) -> tuple[int, list[int]]:
    """Return a least value k and lower bounds on 2^bits P[Poisson(rate) < k + i], i = 0, 1, ...

    Each is within 2 of the true value. So are those left out: 0 below the first, 2^bits above the
    last. The proof is in docs/noise.md.
    """
    a, b = rate.numerator, rate.denominator
    mode = a // b
    scale = bits + 96 + 2 * mode.bit_length()
    above, below, k = [weight := 1 << scale], [], mode
    while weight := weight * a // (b * (k := k + 1)):
        above.append(weight)
    weight, k = above[0], mode
    while k and (weight := weight * b * k // a):
        below.append(weight)
        k -= 1
    weights = below[::-1] + above
    steps = len(weights)
    error = steps * (steps + 2 * (mode + steps + 2))
    total = sum(weights) + error
    return mode - len(below), [(w << bits) // total for w in accumulate(weights, initial=0)]


class _PoissonTable:
    """Draws Poisson variables, less the least value, by inversion.

    The bits of a uniform real are compared with boundaries, and more of them taken until none is
    near. ``likely`` has the draw for every `_PREFIX` bits that decide it, and -1 for the others.
    """

    def __init__(self, rate: Fraction) -> None:
        self.rate = rate
        self.least, boundaries = _boundaries(rate, _WORD)
        self.near = np.array(boundaries, dtype=np.uint64)
        first = np.arange(1 << _PREFIX, dtype=np.uint64) << np.uint64(_WORD - _PREFIX)
        values, certain = self._among(first)
        last, _ = self._among(first | np.uint64((1 << (_WORD - _PREFIX)) - 1))
        self.likely = np.where(certain & (values == last), values, -1).astype(np.int32)

    @staticmethod
    @lru_cache(maxsize=4)
    def of(rate: Fraction) -> _PoissonTable:
        """Return the table of a rate, cached as it takes a moment to compute."""
        return _PoissonTable(rate)

    def _among(self, words: NDArray[np.uint64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return the draw that each word determines, and whether it does."""
        places = np.searchsorted(self.near, words, side="right") - 1
        return places, words - self.near[places] >= 2

    def draws(self, count: int, rng: RandomSource) -> NDArray[np.int32]:
        """Return independent draws."""
        prefix = np.empty(count, dtype=np.uint16)
        rng.fill(prefix)
        result = self.likely[prefix]
        rest = np.flatnonzero(result < 0)
        words = np.empty(rest.size, dtype=np.uint64)
        rng.fill(words)
        words >>= np.uint64(_PREFIX)
        words |= prefix[rest].astype(np.uint64) << np.uint64(_WORD - _PREFIX)
        values, certain = self._among(words)
        for i in np.flatnonzero(~certain):
            values[i] = self._settled(int(words[i]), rng)
        result[rest] = values
        return result

    def _settled(self, word: int, rng: RandomSource) -> int:
        """Return the draw of a uniform real whose first word does not decide it."""
        bits = _WORD
        while True:
            bits += _WORD
            word = word << _WORD | rng.integer(1 << _WORD)
            least, near = _boundaries(self.rate, bits)
            place = bisect_right(near, word) - 1
            if word - near[place] >= 2:
                return least + place - self.least
