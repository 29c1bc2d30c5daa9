"""Exact noise by integer arithmetic alone: geometric, Polya, discrete Laplace and Gaussian.

No floating point occurs anywhere: the scale ``s`` is a rational (a float is taken at its exact
value), and neither ``exp(-s)`` nor a logarithm is ever computed. The number of steps that a
draw takes depends on its value, which a client that sends the moment it is done gives away:
decouple sending from sampling.

The samplers work on many draws in lockstep, so that a million cost about a second and one costs
little.

CKS20 is Canonne, Kamath, Steinke, "The Discrete Gaussian for Differential Privacy", 2020; GX17 is
Goryczka, Xiong, "A Comprehensive Comparison of Multiparty Secure Additions with Differential
Privacy", 2017; BBGN20 is Balle, Bell, Gascon, Nissim, "Private Summation in the Multi-Message
Shuffle Model", CCS 2020.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, overload

import numpy as np
from gmpy2 import isqrt
from numpy.typing import NDArray

from ikos._validation import integer, number
from ikos.randomness import RandomSource, secure

__all__ = [
    "discrete_gaussian",
    "discrete_laplace",
    "geometric",
    "polya",
    "polya_counts",
    "polya_jumps",
    "polya_population",
    "polya_shares",
]

Real = int | float | Fraction
_INT64_MAX = (1 << 63) - 1

_FEW = 8
"""Variables up to which drawing one after the other is faster than drawing all in lockstep."""

MAX_SHAPE = 10**6
"""Largest shape of `polya`, whose time grows with it."""


def _bernoulli(numerators: NDArray[Any], denominator: int, rng: RandomSource) -> NDArray[np.bool_]:
    """Return independent Bernoulli variables of probability ``numerators / denominator``."""
    if denominator == 1:
        return numerators >= 1
    drawn = rng.uniform(denominator, numerators.size)
    return np.asarray(drawn < numerators, dtype=bool)


def _bernoulli_exp(
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
        going_on = _bernoulli(numerators, denominator * k, rng)
        result[active[~going_on]] = k % 2 == 1
        active, numerators = active[going_on], numerators[going_on]
        k += 1
    return result


def _geometric(s: Fraction, count: int, rng: RandomSource) -> NDArray[Any]:
    """Return ``count`` draws with P[k] proportional to exp(-s k): int64 where all fit, or object.

    CKS20, Algorithm 2: with s = a/b, X = U + b V has law proportional to exp(-x / b) when U in
    [0, b) is kept with probability exp(-U / b) and V counts successes of Bernoulli(exp(-1));
    then floor(X / a) has the law wanted.
    """
    a, b = s.numerator, s.denominator
    low = np.empty(0, dtype=object)
    if b == 1:
        low = np.zeros(count, dtype=np.int64)
    while low.size < count:
        missing = count - low.size
        drawn = rng.uniform(b, missing)
        kept = drawn[_bernoulli_exp(drawn, b, rng)]
        low = kept if not low.size else np.concatenate((low, kept))
    high = np.zeros(count, dtype=np.int64)
    active = np.arange(count)
    while active.size:
        active = active[_bernoulli_exp(np.ones(active.size, dtype=np.int64), 1, rng)]
        high[active] += 1
    above = b * (int(high.max(initial=0)) + 1)  # exceeds every X
    if max(a, above) <= _INT64_MAX:
        return np.asarray((low.astype(np.int64) + b * high) // a)
    wide = (low.astype(object) + b * high.astype(object)) // a
    return np.asarray(wide.astype(np.int64) if above // a <= _INT64_MAX else wide)


def _positive(name: str, value: object) -> Fraction:
    return number(name, value, above=0)


def _size(size: object) -> int:
    return 1 if size is None else integer("size", size, low=0)


def _deliver(draws: NDArray[Any], size: object) -> Any:
    """Return one draw as a Python int for ``size=None``, or the array in its smallest dtype."""
    if size is None:
        return int(draws[0])
    if draws.dtype == object and all(abs(int(value)) <= _INT64_MAX for value in draws):
        return draws.astype(np.int64)
    return draws


def _plus(a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
    """Return a + b without overflow: as object arrays where int64 might not do."""
    if _largest(a) + _largest(b) > _INT64_MAX:
        return np.asarray(a.astype(object) + b.astype(object))
    return np.asarray(a + b)


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
        Rate, positive; a float is taken at its exact value.
    size : int, optional
        How many independent draws; a single Python int by default.
    rng : RandomSource, optional
        Secure randomness by default.

    Returns
    -------
    int or (size,) ndarray
        int64, or object where a draw does not fit.

    Raises
    ------
    ValueError
        If ``s`` is not positive and finite, or ``size`` is negative.

    Examples
    --------
    >>> from ikos.testing import DeterministicRandom
    >>> geometric(0.01, rng=DeterministicRandom(2)) >= 0
    True
    """
    draws = _geometric(_positive("s", s), _size(size), secure(rng))
    result: int | NDArray[Any] = _deliver(draws, size)
    return result


@overload
def discrete_laplace(s: Real, size: None = None, rng: RandomSource | None = None) -> int: ...
@overload
def discrete_laplace(s: Real, size: int, rng: RandomSource | None = None) -> NDArray[Any]: ...
def discrete_laplace(
    s: Real, size: int | None = None, rng: RandomSource | None = None
) -> int | NDArray[Any]:
    """Draw exactly from the discrete Laplace distribution, P[k] proportional to ``exp(-s |k|)``.

    Added to an integer of sensitivity D it gives (s D)-differential privacy. It is drawn as the
    difference of two independent geometric variables, which has exactly this law.

    Parameters
    ----------
    s : int, float or Fraction
        Inverse scale, positive; a float is taken at its exact value. The variance is
        2 e^-s / (1 - e^-s)^2, about 2 / s^2.
    size : int, optional
        How many independent draws; a single Python int by default.
    rng : RandomSource, optional
        Secure randomness by default.

    Returns
    -------
    int or (size,) ndarray
        int64, or object where a draw does not fit.

    Raises
    ------
    ValueError
        If ``s`` is not positive and finite, or ``size`` is negative.

    Examples
    --------
    >>> from fractions import Fraction
    >>> from ikos.testing import DeterministicRandom
    >>> draws = discrete_laplace(Fraction(1, 50), 1000, DeterministicRandom(0))
    >>> draws.dtype, bool(abs(draws.mean()) < 20)
    (dtype('int64'), True)
    """
    rate, count, source = _positive("s", s), _size(size), secure(rng)
    draws = _plus(_geometric(rate, count, source), -_geometric(rate, count, source))
    result: int | NDArray[Any] = _deliver(draws, size)
    return result


def _bernoulli_exp_any(
    numerators: NDArray[Any], denominator: int, rng: RandomSource
) -> NDArray[np.bool_]:
    """Return Bernoulli variables of probability exp(-numerators / denominator), each at least 0.

    CKS20, Algorithm 1: the whole part of the exponent by as many variables of probability exp(-1),
    until one fails, and then the rest.
    """
    result = np.zeros(numerators.size, dtype=bool)
    active = np.arange(numerators.size)
    whole, rest = numerators // denominator, numerators % denominator
    while active.size:
        done = np.asarray(whole == 0, dtype=bool)
        finished = active[done]
        result[finished] = _bernoulli_exp(rest[finished], denominator, rng)
        active, whole = active[~done], whole[~done] - 1
        kept = _bernoulli_exp(np.ones(active.size, dtype=np.int64), 1, rng)
        active, whole = active[kept], whole[kept]
    return result


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
        # kept with probability above 1/2 for t of two and more: rarely a third round
        missing = count - draws.size
        drawn = _plus(_geometric(rate, missing, rng), -_geometric(rate, missing, rng))
        size = np.abs(drawn)
        if max(_largest(size) * b * t, a) ** 2 > _INT64_MAX or denominator > _INT64_MAX:
            size = size.astype(object)
        distance = size * (b * t) - a
        kept = drawn[_bernoulli_exp_any(distance * distance, denominator, rng)]
        draws = kept if not draws.size else np.concatenate((draws, kept))
    return draws


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

    Added to every coordinate of an integer vector of l2 sensitivity D it gives
    (D^2 / (2 variance))-concentrated differential privacy (CKS20, Theorem 14);
    `ikos.accounting.vector_noise` has the delta.

    Parameters
    ----------
    variance : int, float or Fraction
        The parameter v = sigma^2, positive; a float is taken at its exact value. The true variance
        is at most v, and hardly less where v is above 1.
    size : int, optional
        How many independent draws; a single Python int by default.
    rng : RandomSource, optional
        Secure randomness by default.

    Returns
    -------
    int or (size,) ndarray
        int64, or object where a draw does not fit.

    Raises
    ------
    ValueError
        If ``variance`` is not positive and finite, or ``size`` is negative.

    Examples
    --------
    >>> from ikos.testing import DeterministicRandom
    >>> draws = discrete_gaussian(10_000, 1000, DeterministicRandom(0))
    >>> draws.dtype, bool(90 < draws.std() < 110)
    (dtype('int64'), True)
    """
    draws = _gaussian(_positive("variance", variance), _size(size), secure(rng))
    result: int | NDArray[Any] = _deliver(draws, size)
    return result


def _first_cycle(remaining: NDArray[Any], rng: RandomSource) -> NDArray[Any]:
    """Return the length of the cycle through a point of a uniform permutation: 1..remaining."""
    if remaining.dtype == object:
        return np.array([1 + rng.integer(int(value)) for value in remaining], dtype=object)
    return 1 + rng.below(remaining)


def _thin(total: NDArray[Any], keep: Fraction, rng: RandomSource) -> NDArray[Any]:
    """Split geometric variables: return the part that is Polya(keep, alpha), for keep <= 1.

    The cycles of a uniform permutation of ``total`` points are kept with probability ``keep``
    each. Permutations of x points weighted by r^cycles add up to r (r+1) ... (r+x-1), so the
    points kept and the others are independent, Polya(r, alpha) and Polya(1 - r, alpha).
    """
    kept = np.zeros_like(total)
    active = np.flatnonzero(total > 0)
    remaining = total[active]
    while active.size:
        cycle = _first_cycle(remaining, rng)
        ones = np.full(active.size, keep.numerator, dtype=object if _wide(keep) else np.int64)
        chosen = _bernoulli(ones, keep.denominator, rng)
        kept[active[chosen]] += cycle[chosen]
        remaining = remaining - cycle
        going_on = np.asarray(remaining > 0, dtype=bool)
        active, remaining = active[going_on], remaining[going_on]
    return kept


def _wide(value: Fraction) -> bool:
    return value.denominator > _INT64_MAX


@overload
def polya(r: Real, s: Real, size: None = None, rng: RandomSource | None = None) -> int: ...
@overload
def polya(r: Real, s: Real, size: int, rng: RandomSource | None = None) -> NDArray[Any]: ...
def polya(
    r: Real, s: Real, size: int | None = None, rng: RandomSource | None = None
) -> int | NDArray[Any]:
    """Draw exactly from the Polya (negative binomial) distribution with real shape.

    P[k] is proportional to exp(-s k) Gamma(k + r) / k!, for k >= 0. The sum of n independent
    Polya(1/n) variables is geometric, and the difference of two such sums discrete Laplace
    (BBGN20, Section 5.2; GX17).

    Parameters
    ----------
    r : int, float or Fraction
        Shape, positive and at most 10^6; a float is taken at its exact value (write
        ``Fraction(1, n)``, not ``1 / n``). Takes time proportional to ``r`` where it is above 1.
    s : int, float or Fraction
        Rate, positive; a float is taken at its exact value.
    size : int, optional
        How many independent draws; a single Python int by default.
    rng : RandomSource, optional
        Secure randomness by default.

    Returns
    -------
    int or (size,) ndarray
        int64, or object where a draw does not fit.

    Raises
    ------
    ValueError
        If ``r`` or ``s`` is not positive and finite, or ``size`` is negative.

    Notes
    -----
    A draw takes about ln(1/s) steps: the cycle lengths of a uniform permutation of a geometric
    number of points, each cycle kept with probability r.

    Examples
    --------
    >>> from fractions import Fraction
    >>> from ikos.testing import DeterministicRandom
    >>> share = polya(Fraction(1, 100), 0.05, 100, DeterministicRandom(3))
    >>> share.shape, bool((share >= 0).all())
    ((100,), True)
    """
    shape, rate = number("r", r, above=0, high=MAX_SHAPE), _positive("s", s)
    count, source = _size(size), secure(rng)
    whole, part = divmod(shape, 1)
    draws = np.zeros(count, dtype=np.int64)
    for _ in range(whole):
        draws = _plus(draws, _geometric(rate, count, source))
    if part:
        draws = _plus(draws, _thin(_geometric(rate, count, source), part, source))
    result: int | NDArray[Any] = _deliver(draws, size)
    return result


def polya_population(
    n: int, s: Real, *, parties: int | None = None, rng: RandomSource | None = None
) -> NDArray[Any]:
    """Draw the noise of a whole population at once: n differences of two Polya(1/parties).

    The n results are exactly independent, each the difference of two independent
    Polya(1/parties, e^-s) variables, at the price of a few steps in all and one pass over the
    output. With ``parties = n`` they add up to discrete Laplace noise of rate s.

    Parameters
    ----------
    n : int
        Users, at least 1.
    s : int, float or Fraction
        Rate of the noise, positive; a float is taken at its exact value.
    parties : int, optional
        How many users' noise makes one discrete Laplace variable; ``n`` by default. With
        ``parties < n`` the sum of all n carries n / parties times its variance; with
        ``parties > n`` accordingly less (one client alone is ``n = 1``).
    rng : RandomSource, optional
        Secure randomness by default.

    Returns
    -------
    (n,) ndarray
        int64, or object where a draw does not fit.

    Raises
    ------
    ValueError
        If ``n`` or ``parties`` is below 1, or ``s`` not positive and finite.

    Notes
    -----
    The users are filled up to a multiple of ``parties`` with imaginary ones. Each group of
    ``parties`` users shares one geometric variable for each sign; each cycle of a uniform
    permutation of its points goes to a uniformly random member, which splits it into independent
    Polya(1/parties) parts (the colouring of the cycles that `polya` does with two colours, done
    with ``parties``). What falls to imaginary users is dropped.

    Examples
    --------
    >>> from ikos.testing import DeterministicRandom
    >>> noise = polya_population(10**6, 0.001, rng=DeterministicRandom(4))
    >>> noise.shape, bool(0 < (noise != 0).sum() < 100)
    ((1000000,), True)
    """
    users, noise = polya_shares(n, s, parties=parties, rng=rng)
    result = np.zeros(n, dtype=noise.dtype)
    result[users] = noise
    return result


def polya_shares(
    n: int, s: Real, *, parties: int | None = None, rng: RandomSource | None = None
) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Draw what `polya_population` draws, and return it for those users who get any.

    Takes no time for the others: one pass less over a population.

    Parameters
    ----------
    n, s, parties, rng
        As of `polya_population`.

    Returns
    -------
    users : (k,) ndarray of int64
        In increasing order. Who does not occur gets 0.
    noise : (k,) ndarray
        What each gets; int64, or object where a value does not fit.

    Examples
    --------
    >>> from ikos.testing import DeterministicRandom
    >>> users, noise = polya_shares(10**6, 0.001, rng=DeterministicRandom(4))
    >>> bool((np.diff(users) > 0).all()), users.size == noise.size < 100
    (True, True)
    """
    n = integer("n", n, low=1, high=1 << 62)
    parties = n if parties is None else integer("parties", parties, low=1, high=1 << 62)
    rate, source = _positive("s", s), secure(rng)
    jumps = [_jumps(n, rate, parties, source) for _ in range(2)]
    users, places = np.unique(np.concatenate([user for user, _ in jumps]), return_inverse=True)
    noise = np.zeros(users.size, dtype=np.int64)
    if sum(int(amount) for _, amounts in jumps for amount in amounts) > _INT64_MAX:
        noise = noise.astype(object)  # else no partial sum of any user exceeds it
    first = jumps[0][0].size
    np.add.at(noise, places[:first], jumps[0][1])
    np.subtract.at(noise, places[first:], jumps[1][1])
    delivered: NDArray[Any] = _deliver(noise, users.size)
    return users, delivered


def polya_jumps(
    n: int, s: Real, *, variables: int, parties: int, rng: RandomSource | None = None
) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Draw n independent Polya(variables / parties, e^-s) variables, as the jumps they are made of.

    Takes time and memory in proportion to the jumps, about ``n variables / parties`` times
    ln(1/s), however many users there are to whom nothing falls.

    Parameters
    ----------
    n : int
        Users, at least 1.
    s : int, float or Fraction
        Rate, positive; a float is taken at its exact value.
    variables, parties : int
        So many geometric variables are shared by so many users: ``parties`` users' variables add up
        to Polya(variables, e^-s).
    rng : RandomSource, optional
        Secure randomness by default.

    Returns
    -------
    users, amounts : (jumps,) ndarray
        Users in {0..n-1}, who may occur repeatedly, and what each gets, at least 1; int64, or
        object where an amount does not fit. What does not occur is 0.

    Raises
    ------
    ValueError
        If an integer is below 1, or ``s`` not positive and finite.

    Examples
    --------
    >>> from ikos.testing import DeterministicRandom
    >>> users, amounts = polya_jumps(
    ...     10**9, 1.0, variables=20, parties=10**9, rng=DeterministicRandom(1)
    ... )
    >>> bool(users.size < 100), bool(amounts.min() >= 1)
    (True, True)
    """
    n = integer("n", n, low=1, high=1 << 62)
    shared = integer("variables", variables, low=1, high=MAX_SHAPE)
    parties = integer("parties", parties, low=1, high=1 << 62)
    return _jumps(n, _positive("s", s), parties, secure(rng), shared)


def polya_counts(
    n: int, s: Real, *, variables: int, parties: int, rng: RandomSource | None = None
) -> NDArray[Any]:
    """Draw n independent Polya(variables / parties, e^-s) variables at once.

    As ``polya_jumps``, added up for each user.

    Parameters
    ----------
    n, s, variables, parties, rng
        As of ``polya_jumps``.

    Returns
    -------
    (n,) ndarray
        int64, or object where a draw does not fit; at least 0.

    Examples
    --------
    >>> from ikos.testing import DeterministicRandom
    >>> counts = polya_counts(
    ...     10**6, 0.01, variables=3, parties=10**6, rng=DeterministicRandom(2)
    ... )
    >>> counts.shape, bool(0 < counts.sum() < 5000)
    ((1000000,), True)
    """
    users, amounts = polya_jumps(n, s, variables=variables, parties=parties, rng=rng)
    result = np.zeros(n, dtype=np.int64)
    if sum(map(int, amounts)) > _INT64_MAX:
        result = result.astype(object)
    np.add.at(result, users, amounts)
    delivered: NDArray[Any] = _deliver(result, n)
    return delivered


def _jumps(
    n: int, rate: Fraction, parties: int, rng: RandomSource, variables: int = 1
) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Return users of one sign's noise and the amounts they get; a user may occur repeatedly."""
    groups = -(-n // parties)
    if groups * variables <= _FEW:
        return _few_jumps(n, rate, parties, rng, variables)
    remaining = _geometric(rate, groups * variables, rng)
    index = np.flatnonzero(remaining > 0)
    remaining = remaining[index]
    group = index // variables
    users: list[NDArray[np.int64]] = [np.empty(0, dtype=np.int64)]
    amounts: list[NDArray[Any]] = [np.empty(0, dtype=remaining.dtype)]
    while group.size:
        cycle = _first_cycle(remaining, rng)
        user = group * parties + rng.below(np.full(group.size, parties, dtype=np.int64))
        real = user < n
        users.append(user[real])
        amounts.append(cycle[real])
        remaining = remaining - cycle
        going_on = np.asarray(remaining > 0, dtype=bool)
        group, remaining = group[going_on], remaining[going_on]
    return np.concatenate(users), np.concatenate(amounts)


def _few_jumps(
    n: int, rate: Fraction, parties: int, rng: RandomSource, variables: int
) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Return what `_jumps` does, one variable after the other: faster than lockstep for few."""
    users, amounts = [], []
    for one in range(-(-n // parties) * variables):
        first, remaining = one // variables * parties, _one_geometric(rate, rng)
        while remaining:
            cycle = 1 + rng.integer(remaining)
            user = first + rng.integer(parties)
            if user < n:
                users.append(user)
                amounts.append(cycle)
            remaining -= cycle
    large = max(amounts, default=0) > _INT64_MAX
    return (
        np.array(users, dtype=np.int64),
        np.array(amounts, dtype=object if large else np.int64),
    )


def _one_geometric(s: Fraction, rng: RandomSource) -> int:
    """Return one draw, as `_geometric` does."""
    a, b = s.numerator, s.denominator
    low, high = rng.integer(b), 0
    while not _one_bernoulli_exp(low, b, rng):
        low = rng.integer(b)
    while _one_bernoulli_exp(1, 1, rng):
        high += 1
    return (low + b * high) // a


def _one_bernoulli_exp(numerator: int, denominator: int, rng: RandomSource) -> bool:
    """Return one Bernoulli variable, as `_bernoulli_exp` does."""
    k = 1
    while rng.integer(denominator * k) < numerator:
        k += 1
    return k % 2 == 1


def _largest(values: NDArray[Any]) -> int:
    return max(abs(int(values.max(initial=0))), abs(int(values.min(initial=0))))
