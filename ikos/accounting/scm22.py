"""Coordinates drawn at random through randomized response (SCM22): what a guarantee takes.

A user draws t of d coordinates without regard to its vector, rounds each at random to {0..k}, and
sends (coordinate, value) through randomized response on these ``k + 1`` values.

*One message.* The dimension does not enter: the shuffled messages are as private as those of a
scalar protocol with ``k + 1`` values and all n users. For a user who answers with the truth has d
messages of its own, one for each coordinate, of which it sends a uniform one; an adversary who
does not know which coordinate that was cannot count the messages of this coordinate alone. That is
the case of answers of which a user has several in `ikos.accounting.blanket`. SCM22 tells the
adversary the coordinate, so that only n / d users are left to hide among.

*Several messages, one from each of t runs of coordinates* ("stratified"). These are t independent
copies of that, whose privacy losses add (`repeated_delta`).

*Several messages, t coordinates without replacement* ("uniform"). The draws depend on each other.
Let the adversary know who drew which coordinates. Of the others N ~ Bin(n - 1, t / d) drew a given
one, and the user's t answers are randomized response among N + 1 users each, independent given the
draws. More users hide better: with probability at least 1 - t P[N + 1 < m] this is at most t
answers among m users each (`uniform_delta`).

*Several coordinates in one message*, as SCM22 has it, is another mechanism: what it sends can be
told from others' by how many of its places agree, and no composition theorem applies. Nothing here
is about it but SCM22's own formulas, which are named *published*.

SCM22 is Scott, Cormode, Maple, "Aggregation and Transformation of Vector-Valued Messages in the
Shuffle Model of Differential Privacy", 2022.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from scipy.stats import binom

from ikos._validation import choice, down, integer, number
from ikos.accounting.blanket import MAX_USERS, ResponseBlanket, TooManyTermsError
from ikos.accounting.composition import LossLattice, advanced_composition, blanket_losses
from ikos.accounting.digits_bbgn20 import _gamma_of, _gaussian
from ikos.accounting.shuffled_response import (
    MAX_EPSILON,
    MIN_EPSILON,
    response_delta,
    response_gamma,
)
from ikos.randomized_response import GRID, grid_up

__all__ = [
    "COMPOSITIONS",
    "SAMPLINGS",
    "CoordinateError",
    "SampledAnswers",
    "coordinate_error",
    "dimension_free_gamma",
    "optimized_answers",
    "published_error",
    "published_gamma",
    "published_precision",
    "published_single_gamma",
    "repaired_gamma",
    "repeated_delta",
    "sampled_answers",
    "sampled_delta",
    "stratum_sizes",
    "total_error",
    "uniform_delta",
    "weights",
]

SAMPLINGS = ("stratified", "uniform")
"""How t of d coordinates are drawn: one of each of t runs, or t without replacement."""

COMPOSITIONS = {
    "single": "with a coordinate (of each run) drawn at random the dimension does not enter",
    "numerical": "numerical composition of {t} messages' exact losses",
    "advanced": "advanced composition of {t} messages (Kairouz, Oh, Viswanath 2015)",
    "basic": "basic composition of {t} messages",
}
"""What proves a guarantee of t messages."""

MAX_MESSAGES = 1 << 20
MAX_VALUES = (1 << 20) + 1

_MOST = 1 << 53
"""Of sizes that are counted in doubles."""

_SLACK = 1e-6
"""What composed divergences are enlarged by beside `ikos.accounting.blanket.SLACK`.

The masses of a cell are differences of doubles that are known to 1e-13. What that moves the sum of
a few thousand losses by is below 1e-8 of its deviation.
"""


# What is known of the adversary's view


def stratum_sizes(d: int, t: int) -> tuple[int, int, int]:
    """Return how many runs of t have the smaller size, that size, and how many have one more.

    Parameters
    ----------
    d : int
        Coordinates.
    t : int
        Runs, from 1 to d.

    Examples
    --------
    >>> stratum_sizes(10, 4)  # 2, 2, 3, 3
    (2, 2, 2)
    """
    coordinates = integer("d", d, low=1)
    runs = integer("t", t, low=1, high=coordinates)
    size, longer = divmod(coordinates, runs)
    return runs - longer, size, longer


def _trimmed(losses: LossLattice, negligible: float) -> LossLattice:
    """Return a loss at most as private with fewer points: nothing is lost, and tails move up."""
    masses = losses.masses
    above = np.cumsum(masses[::-1])[::-1]
    last = int(np.count_nonzero(above > negligible))  # from there on the losses are infinite
    infinite = losses.infinite + (float(above[last]) if last < masses.size else 0.0)
    below = np.cumsum(masses[:last])
    first = int(np.count_nonzero(below <= negligible))
    first = min(first, max(last - 1, 0))
    kept = masses[first:last].copy()
    if first and kept.size:
        kept[0] += below[first - 1]  # a loss that is moved up is less private
    return LossLattice(losses.step, losses.first + first, kept, infinite)


def _repeated(losses: LossLattice, times: int, negligible: float) -> LossLattice:
    """Return the loss of independent copies, by repeated squaring."""
    result: LossLattice | None = None
    while True:
        if times & 1:
            result = losses if result is None else _trimmed(result + losses, negligible)
        times >>= 1
        if not times:
            assert result is not None
            return result
        losses = _trimmed(losses + losses, negligible)


_STEPS = ((5.0, 1 << 17), (3.0, 1 << 19), (1.5, 1 << 20))
"""Points of a loss in a standard deviation, and the most terms of a point: fine, then coarse."""


def _numerical(epsilon: float, blanket: ResponseBlanket, times: int, expected: float) -> float:
    if blanket.gamma == 1:
        return 0.0
    k, gamma = float(blanket.k), float(blanket.gamma)
    deviation = (1 - gamma) * math.sqrt(2 * k / (gamma * blanket.n))
    negligible = 1e-7 * expected / times
    failed: TooManyTermsError | None = None
    for fine, terms in _STEPS:
        step = min(epsilon / 40, deviation / fine)
        try:
            losses = blanket_losses(blanket, step, negligible, terms)
        except TooManyTermsError as error:
            failed = error
            continue
        total = _repeated(losses, times, negligible)
        return min(1.0, total.divergence(epsilon) * (1 + _SLACK))
    assert failed is not None
    raise failed


_TINY = 1e-12
"""Below it a divergence that needs several messages is not worked out any further."""

Delta = tuple[float, str]
"""A divergence, and which of `COMPOSITIONS` proves it."""


def _repeated_delta(
    epsilon: float, n: int, k: int, gamma: Fraction, times: int, expected: float
) -> Delta:
    if times == 1:
        return response_delta(epsilon, n, k, gamma), "single"
    try:
        found = min(expected, 1e-9)
        blanket = ResponseBlanket(n, k, gamma)
        for _ in range(2):  # losses that are cut off as infinite hide a much smaller divergence
            before, found = found, _numerical(epsilon, blanket, times, found)
            if found >= 1e-3 * before or found < _TINY:
                break
        return found, "numerical"
    except TooManyTermsError:
        pass
    candidates = []
    if epsilon / times >= 2 * MIN_EPSILON:
        each = response_delta(epsilon / times * (1 - 1e-12), n, k, gamma)
        candidates.append((min(1.0, times * each * (1 + 1e-12)), "basic"))
    single = _advanced_epsilon(epsilon, expected / 2, times)
    if single >= 2 * MIN_EPSILON:
        each = response_delta(single, n, k, gamma)
        delta = (expected / 2 + times * each) * (1 + 1e-12)
        candidates.append((min(1.0, delta), "advanced"))
    if not candidates:
        return 1.0, "basic"
    return min(candidates)


def _advanced_epsilon(epsilon: float, slack: float, times: int) -> float:
    """Return an epsilon of each message that advanced composition takes to at most epsilon."""
    low, high = 0.0, epsilon
    for _ in range(50):
        middle = (low + high) / 2
        if advanced_composition([(middle, 0.0)], slack)[0] > epsilon:
            high = middle
            continue
        mean = times * middle * math.tanh(middle / 2)
        reach = math.sqrt(-2 * math.log(slack) * times) * middle
        low, high = (middle, high) if mean + reach <= epsilon * (1 - 1e-9) else (low, middle)
    return low


def repeated_delta(
    epsilon: float | Fraction,
    n: int,
    k: int,
    gamma: float | Fraction,
    times: int,
    *,
    delta: float = 1e-9,
) -> float:
    """Return a delta of several independent randomized responses, each shuffled among n users.

    Parameters
    ----------
    epsilon : float
        Of all of them together.
    n : int
        Users among whom each answer is hidden.
    k : int
        Values of an answer, at least 2; it may be about a coordinate that was drawn at random.
    gamma : float or Fraction
        Probability of a uniform answer.
    times : int
        Answers of each user.
    delta : float
        About what is expected: it decides how finely losses are counted, and is no condition.

    Returns
    -------
    float
        An upper bound, rounded up: by numerical composition, or, where that takes too long, by
        advanced or basic composition.

    Examples
    --------
    >>> f"{repeated_delta(1, 10**4, 4, 0.1, 4):.0e}"
    '2e-11'
    """
    eps = number("epsilon", epsilon, low=MIN_EPSILON, high=MAX_EPSILON)
    users = integer("n", n, low=1, high=MAX_USERS)
    values = integer("k", k, low=2, high=MAX_VALUES)
    chance = grid_down(number("gamma", gamma, above=0, high=1))
    count = integer("times", times, low=1, high=MAX_MESSAGES)
    expected = float(number("delta", delta, above=0, below=1))
    return _repeated_delta(down(eps), users, values, chance, count, expected)[0]


def grid_down(gamma: Fraction) -> Fraction:
    """Return the largest multiple of 2^-53 that is at most a probability, but not 0."""
    return Fraction(max(1, math.floor(gamma * GRID)), GRID)


def _missing(m: int, n: int, d: int, t: int) -> float:
    """Return a bound of t P[N + 1 < m] for N ~ Bin(n - 1, t / d), rounded up."""
    if t == d:
        return 0.0 if m <= n else 1.0
    return min(1.0, t * float(binom.cdf(m - 2, n - 1, t / d)) * (1 + 1e-6))


def _least_users(n: int, d: int, t: int, tail: float) -> int:
    """Return the largest m with t P[N + 1 < m] at most ``tail``; 1 is always enough."""
    low, high = 1, n + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _missing(middle, n, d, t) <= tail else (low, middle)
    return low


def uniform_delta(
    epsilon: float | Fraction,
    n: int,
    d: int,
    k: int,
    gamma: float | Fraction,
    t: int,
    *,
    delta: float = 1e-9,
) -> float:
    """Return a delta of t answers about t of d coordinates, drawn without replacement.

    The answers are messages of their own; see the module on those that travel together.

    Parameters
    ----------
    epsilon, k, gamma, delta
        As of `repeated_delta`.
    n : int
        Users.
    d : int
        Coordinates.
    t : int
        Coordinates that each user draws, at most d.

    Returns
    -------
    float
        t P[N + 1 < m] plus `repeated_delta` among m users, for the best m of a few.

    Examples
    --------
    >>> f"{uniform_delta(1, 10**5, 100, 4, 0.15, 4):.0e}"
    '6e-08'
    """
    eps = number("epsilon", epsilon, low=MIN_EPSILON, high=MAX_EPSILON)
    users = integer("n", n, low=1, high=MAX_USERS)
    coordinates = integer("d", d, low=1)
    values = integer("k", k, low=2, high=MAX_VALUES)
    chance = grid_down(number("gamma", gamma, above=0, high=1))
    count = integer("t", t, low=1, high=coordinates)
    expected = float(number("delta", delta, above=0, below=1))
    return _uniform_delta(down(eps), users, coordinates, values, chance, count, expected)[0]


def _uniform_delta(
    eps: float, n: int, d: int, k: int, gamma: Fraction, t: int, expected: float
) -> Delta:
    if t in (1, d):  # one coordinate, or all of them
        return _repeated_delta(eps, n, k, gamma, t, expected)
    best: Delta = (1.0, "basic")
    tail = expected / 20
    for _ in range(4):  # the fewer users are asked for, the less likely they are missing
        m = _least_users(n, d, t, tail)
        hidden, method = _repeated_delta(eps, m, k, gamma, t, expected)
        here = min(1.0, (_missing(m, n, d, t) + hidden) * (1 + 1e-12))
        if here >= best[0]:
            break
        best = (here, method)
        if here < _TINY:
            break
        tail *= 1e-5
        expected = here
    return best


# How much randomness is enough


@dataclass(frozen=True)
class SampledAnswers:
    """How a user's coordinates are drawn and answered.

    Attributes
    ----------
    messages : int
        Coordinates that each user reports, t.
    precision : int
        Values are rounded to {0..precision}, k.
    gamma : Fraction
        With which probability a value is replaced by a uniform one; a multiple of 2^-53.
    sampling : {"stratified", "uniform"}
        How the coordinates are drawn.
    composition : str
        Which of `COMPOSITIONS` the guarantee rests on.
    """

    messages: int
    precision: int
    gamma: Fraction
    sampling: str
    composition: str


def _searched(
    bound: Callable[[Fraction], Delta], first: float, n: int, k: int, small: float
) -> Fraction | None:
    """Return a gamma that is enough, within a thousandth of the smallest; None for no gamma.

    Steps in the noise gamma / (1 - gamma)^2, in which ln delta is about linear.
    """
    low, high = 0.0, math.inf
    best: Fraction | None = None
    scale = first
    for _ in range(40):
        gamma = Fraction(min(max(1, round(_gamma_of(k, 1 / scale, n) * GRID)), GRID), GRID)
        if gamma >= 1 - Fraction(1, 1 << 20):
            return best
        delta = bound(gamma)[0]
        if delta <= small:
            high, best = scale, gamma
            if delta >= 0.985 * small:
                break
        else:
            low = scale
        if high <= low * (1 + 1e-3):
            break
        wanted = scale * math.log(small / 2) / math.log(max(min(delta, 0.99), 1e-300) / 2)
        wanted *= 1 + 4e-4
        if low and high < math.inf:
            edge = (high - low) * 0.05
            wanted = min(max(wanted, low + edge), high - edge)
        elif low:
            wanted = min(max(wanted, low * 1.002), low * 4)
        else:
            wanted = min(max(wanted, high / 4), high * 0.998)
        scale = wanted
    return best


@lru_cache(maxsize=1024)
def _sampled(
    eps: float, small: float, n: int, d: int, k: int, t: int, sampling: str
) -> tuple[Fraction, str]:
    """Return gamma and which of `COMPOSITIONS` proves it; 1 where nothing below is enough."""
    if t == 1:
        return grid_up(response_gamma(eps, small, n, k)), "single"
    tail, m = 0.0, n
    if sampling == "uniform" and t < d:
        tail = small / 20
        m = _least_users(n, d, t, tail)
    left = (small - tail) * (1 - 1e-12)
    noise = _gaussian(eps, left) ** 2 / t

    def bound(gamma: Fraction) -> Delta:
        return _numerical(eps, ResponseBlanket(m, k, gamma), t, left), "numerical"

    try:
        found = _searched(bound, 1.05 / noise, m, k, left)
        return (Fraction(1) if found is None else found), "numerical"
    except TooManyTermsError:
        pass
    best, method = Fraction(1), "basic"
    budgets = (
        ("basic", eps / t, left / t),
        ("advanced", _advanced_epsilon(eps, left / 2, t), left / 2 / t),
    )
    for name, each, delta in budgets:
        if each >= 2 * MIN_EPSILON:
            gamma = response_gamma(each * (1 - 1e-12), delta * (1 - 1e-12), m, k)
            if gamma < best:
                best, method = gamma, name
    return best, method


def sampled_answers(
    epsilon: float | Fraction,
    delta: float | Fraction,
    n: int,
    d: int,
    precision: int,
    messages: int = 1,
    *,
    sampling: str = "stratified",
) -> SampledAnswers:
    """Return a probability of uniform answers that makes sampled coordinates private.

    Parameters
    ----------
    epsilon, delta : float
        The guarantee, of all of a user's messages together.
    n : int
        Users who answer at random as they should.
    d : int
        Coordinates.
    precision : int
        Steps k of the rounding; answers have k + 1 values.
    messages : int
        Coordinates that each user reports, at most d.
    sampling : {"stratified", "uniform"}
        How they are drawn; for one message, and for all d, this is the same.

    Returns
    -------
    SampledAnswers
        Within a thousandth of the smallest gamma that the search finds. A gamma of 1 means that
        only noise is private.

    Examples
    --------
    >>> found = sampled_answers(0.95, 1e-6, 50_000, 100, 3)
    >>> round(float(found.gamma), 5)  # the paper's formula gives 1.35
    0.00366
    """
    eps = number("epsilon", epsilon, low=MIN_EPSILON, high=MAX_EPSILON)
    small = number("delta", delta, above=0, below=1)
    users = integer("n", n, low=1, high=MAX_USERS)
    coordinates = integer("d", d, low=1)
    k = integer("precision", precision, low=1, high=MAX_VALUES - 1)
    t = integer("messages", messages, low=1, high=min(coordinates, MAX_MESSAGES))
    name = choice("sampling", sampling, SAMPLINGS)
    gamma, method = _sampled(down(eps), down(small), users, coordinates, k + 1, t, name)
    return SampledAnswers(t, k, gamma, name, method)


def sampled_delta(
    answers: SampledAnswers, epsilon: float | Fraction, n: int, d: int, delta: float
) -> Delta:
    """Return the delta that is proved for answers, and which of `COMPOSITIONS` proves it.

    Parameters
    ----------
    answers : SampledAnswers
        How coordinates are drawn and answered.
    epsilon : float
        Of all of a user's messages together.
    n : int
        Users who answer at random as they should.
    d : int
        Coordinates, at least ``answers.messages``.
    delta : float
        About what is expected, in (0, 1); as of `repeated_delta`.

    Returns
    -------
    tuple of float and str
        An upper bound, rounded up, and a key of `COMPOSITIONS`.

    Raises
    ------
    TypeError, ValueError
        If an argument is of the wrong kind or out of range.
    """
    eps = down(number("epsilon", epsilon, low=MIN_EPSILON, high=MAX_EPSILON))
    users = integer("n", n, low=1, high=MAX_USERS)
    coordinates = integer("d", d, low=1)
    k = integer("answers.precision", answers.precision, low=1, high=MAX_VALUES - 1) + 1
    t = integer("answers.messages", answers.messages, low=1, high=min(coordinates, MAX_MESSAGES))
    gamma = grid_down(number("answers.gamma", answers.gamma, above=0, high=1))
    expected = float(number("delta", delta, above=0, low=1e-300, below=1))
    if choice("answers.sampling", answers.sampling, SAMPLINGS) == "uniform":
        return _uniform_delta(eps, users, coordinates, k, gamma, t, expected)
    return _repeated_delta(eps, users, k, gamma, t, expected)


# Errors


@dataclass(frozen=True)
class CoordinateError:
    """The error of one user's part in the estimate of one coordinate, in units of the width.

    Attributes
    ----------
    mean_square : float
        The largest over all values.
    sampling : float
        The largest that is left if values are reported as they are; at most ``mean_square``.
    """

    mean_square: float
    sampling: float


def _shares(gamma: object) -> tuple[float, float]:
    """Return a probability of random answers below 1, and that of the others, both as doubles."""
    random = number("gamma", gamma, low=0, below=1)
    return float(random), float(number("1 - gamma", 1 - random, low=1 / GRID))


def coordinate_error(
    precision: int, gamma: float | Fraction, weight: float | Fraction, centre: float | Fraction = 0
) -> CoordinateError:
    """Return the error of a coordinate that is reported with probability 1 / weight.

    The estimate of a value u of [0, 1] is c where nothing is reported, and c + w (v - c) for a
    debiased answer v: without bias whatever the centre c is.

    Parameters
    ----------
    precision : int
        Steps k of the rounding.
    gamma : float
        Probability of a uniform answer, at most 1 - 2^-53.
    weight : float
        w >= 1: d / t, or the length of a run.
    centre : float
        c, in [0, 1]. 1/2 makes the worst case of the sampling the smallest.

    Returns
    -------
    CoordinateError
        Exact, up to the rounding of doubles: w E[(v - c)^2] is linear in u between two steps, so
        that w E[(v - c)^2] - (u - c)^2 has its maximum where it can be read off.

    Raises
    ------
    TypeError, ValueError
        If an argument is of the wrong kind or out of range.

    Examples
    --------
    >>> coordinate_error(3, 0.0, 1)  # rounding alone, 1 / (4 k^2)
    CoordinateError(mean_square=0.0277..., sampling=0.0)
    >>> coordinate_error(3, 0.0, 100).sampling, coordinate_error(3, 0.0, 100, 0.5).sampling
    (99.0, 24.75)
    """
    k = integer("precision", precision, low=1, high=MAX_VALUES - 1)
    g, share = _shares(gamma)
    w = float(number("weight", weight, low=1, high=_MOST))
    c = float(number("centre", centre, low=0, high=1))
    values = (np.arange(k + 1) / k - g / 2) / share
    squares = (values - c) ** 2
    at = w * (share * squares + g * squares.mean())
    steps = np.arange(k) / k
    slope = (at[1:] - at[:-1]) * k
    worst = np.clip(c + slope / 2, steps, np.arange(1, k + 1) / k)
    error = at[:-1] + slope * (worst - steps) - (worst - c) ** 2
    sampling = (w - 1) * max(c, 1 - c) ** 2
    return CoordinateError(max(sampling, float(error.max())) * (1 + 1e-12), sampling)


def total_error(
    n: int, d: int, answers: SampledAnswers, centre: float | Fraction = Fraction(1, 2)
) -> CoordinateError:
    """Return the error of the sum over n users and d coordinates, in units of the width."""
    users = integer("n", n, low=0, high=_MOST)
    coordinates = integer("d", d, low=1, high=_MOST)
    found = np.zeros(2)
    for weight, count in weights(coordinates, answers.messages, answers.sampling):
        one = coordinate_error(answers.precision, answers.gamma, weight, centre)
        found += float(users * count) * np.array((one.mean_square, one.sampling))
    return CoordinateError(float(found[0]), float(found[1]))


def weights(d: int, t: int, sampling: str) -> list[tuple[Fraction, int]]:
    """Return each weight, one over the chance that a coordinate is drawn, and of how many."""
    fewer, size, longer = stratum_sizes(d, t)
    if choice("sampling", sampling, SAMPLINGS) == "uniform":
        return [(Fraction(d, t), d)]
    runs = [(Fraction(size), fewer * size), (Fraction(size + 1), longer * (size + 1))]
    return [(weight, count) for weight, count in runs if count]


_LADDER = (*range(1, 13), 14, 16, 19, 23, 28, 34, 41, 50, 64, 82, 105, 140, 200, 300, 500, 1000)


def _approximate_gamma(k: int, t: int, n: int, d: int, mu: float, sampling: str) -> float:
    """Return about the gamma that is enough, by a Gaussian law of the losses."""
    users = float(n)
    if sampling == "uniform" and 1 < t < d:
        users = n * t / d - 6 * math.sqrt(n * t / d)
        if users < 2:
            return 1.0
    return _gamma_of(k + 1, mu * mu / t, max(2, int(users)))


def optimized_answers(
    epsilon: float | Fraction,
    delta: float | Fraction,
    n: int,
    d: int,
    *,
    messages: int | None = 1,
    precision: int | None = None,
    sampling: str = "stratified",
    centre: float | Fraction = Fraction(1, 2),
) -> SampledAnswers:
    """Return the answers of the smallest error that a search finds.

    Parameters
    ----------
    epsilon, delta, n, d, sampling
        As of `sampled_answers`.
    messages : int, optional
        Coordinates that each user reports; None for a search.
    precision : int, optional
        Steps of the rounding; None for a search.
    centre : float
        Of `coordinate_error`.

    Returns
    -------
    SampledAnswers
        Not proved to be the best; its guarantee and its error are. The search takes the privacy
        losses for Gaussian ones, and compares the best few by the exact accountant.

    Raises
    ------
    ValueError
        If an argument is out of range, or the users are too few for any gamma below 1.

    Examples
    --------
    >>> found = optimized_answers(0.95, 1e-6, 50_000, 100)
    >>> found.precision, round(float(found.gamma), 4)
    (2, 0.0028)
    """
    eps = number("epsilon", epsilon, low=MIN_EPSILON, high=MAX_EPSILON)
    small = number("delta", delta, above=0, below=1)
    users = integer("n", n, low=1, high=MAX_USERS)
    coordinates = integer("d", d, low=1)
    name = choice("sampling", sampling, SAMPLINGS)
    most = min(coordinates, MAX_MESSAGES)
    if messages is None:
        counts = sorted({*(t for t in _LADDER if t < most), most})
    else:
        counts = [integer("messages", messages, low=1, high=most)]
    if precision is None:
        steps = list(_LADDER)
    else:
        steps = [integer("precision", precision, low=1, high=MAX_VALUES - 1)]
    c = number("centre", centre, low=0, high=1)
    mu = _gaussian(down(eps), down(small))

    def error(found: SampledAnswers) -> float:
        return total_error(users, coordinates, found, c).mean_square

    sketches = []
    for t in counts:
        for k in steps:
            gamma = _approximate_gamma(k, t, users, coordinates, mu, name)
            if gamma < 0.999:
                sketch = SampledAnswers(t, k, Fraction(gamma), name, "sketch")
                sketches.append((error(sketch), t, k))
    sketches.sort()
    if not sketches:
        sketches = [(math.inf, counts[0], steps[0])]
    found = []
    for _, t, k in sketches[: 5 if sketches[0][1] == 1 else 2]:
        here = sampled_answers(eps, small, users, coordinates, k, t, sampling=name)
        if here.gamma < 1:
            found.append((error(here), t, k, here))
    if not found:
        raise ValueError(
            f"n must be larger for epsilon = {float(eps):g}, delta = {float(small):.3g} and "
            f"{sketches[0][1]:,} messages of each user, got {users} honest users: every answer "
            "would be random"
        )
    return min(found)[3]


# The paper's formulas, and what they should have been


def _budget(epsilon: object, delta: object) -> tuple[float, float]:
    eps = number("epsilon", epsilon, above=0, low=1e-100, high=6)
    return down(eps), down(number("delta", delta, above=0, low=1e-300, below=1))


def _sizes(n: object, d: object, k: object, t: object = 1) -> tuple[int, int, int, int]:
    coordinates = integer("d", d, low=1, high=_MOST)
    return (
        integer("n", n, low=2, high=MAX_USERS),
        coordinates,
        integer("k", k, low=1, high=_MOST),
        integer("t", t, low=1, high=coordinates),
    )


def published_gamma(
    epsilon: float | Fraction, delta: float | Fraction, n: int, d: int, k: int, t: int
) -> float:
    """Return the gamma of SCM22, Theorem 4.1, for t coordinates; it may exceed 1.

    ``56 d k ln(1/delta) ln(2t/delta) / ((n-1) eps^2)``, with 2016 for 56 where epsilon is above 1.
    Its proof is not sound: see `repaired_gamma`, and the errata of the documentation.

    Examples
    --------
    >>> round(published_gamma(0.95, 0.5, 50_000, 100, 3, 5), 3)
    0.773
    """
    eps, small = _budget(epsilon, delta)
    users, coordinates, steps, count = _sizes(n, d, k, t)
    constant = 56 if eps <= 1 else 2016
    logs = math.log(1 / small) * math.log(2 * count / small)
    return constant * coordinates * steps * logs / ((users - 1) * eps**2)


def published_single_gamma(
    epsilon: float | Fraction, delta: float | Fraction, n: int, d: int, k: int
) -> float:
    """Return the gamma of SCM22, Section 4.5, for one coordinate; it may exceed 1.

    ``max(14 d k ln(2/delta) / ((n-1) eps^2), 27 d k / ((n-1) eps))``, or, where epsilon is above 1,
    ``max(80 d k ln(2/delta) / ((n-1) eps^2), 36 d k / (11 (n-1) eps))``.

    Examples
    --------
    >>> round(published_single_gamma(0.95, 0.5, 50_000, 100, 3), 3)
    0.171
    >>> round(published_single_gamma(0.95, 1e-6, 50_000, 100, 3), 2)
    1.35
    """
    eps, small = _budget(epsilon, delta)
    users, coordinates, steps, _ = _sizes(n, d, k)
    return _closed_gamma(eps, small, users, coordinates * steps)


def _closed_gamma(eps: float, small: float, users: int, values: int) -> float:
    first, second = (14.0, 27.0) if eps <= 1 else (80.0, 36 / 11)
    square = first * math.log(2 / small) / eps**2
    return values * max(square, second / eps) / (users - 1)


def dimension_free_gamma(
    epsilon: float | Fraction, delta: float | Fraction, n: int, k: int
) -> float:
    """Return `published_single_gamma` with k + 1 in place of d k, which is enough; rounded up.

    Parameters
    ----------
    epsilon : float
        Positive, at most 6.
    delta : float
        In (0, 1).
    n : int
        Users, at least 2.
    k : int
        Steps of the rounding.

    Notes
    -----
    Given that the user tells the truth, let the views' likelihood ratio be N / N', where N - 1 and
    N' count the uniform messages among the own ones of the two vectors; what they share makes it
    nearer to 1. Both are Bin(n - 1, gamma / (k + 1)), of mean c, whatever the dimension. With
    a = eps / 2 the ratio exceeds e^eps with probability at most P[N >= c e^a] + P[N' <= c e^-a],
    and by Chernoff P[N - 1 >= c (1 + x)] <= exp(-c ((1 + x) ln(1 + x) - x)) and
    P[N' <= c (1 - y)] <= exp(-c y^2 / 2), where y = 1 - e^-a. Above epsilon = 1 the formula has
    c >= 80 ln(2/delta) / eps^2 and 1 / c <= 11 eps / 36, so that x >= 7 eps / 36, and each term is
    at most delta / 2 up to epsilon = 6. SCM22 has exp(-c x^2 / 3) there, which is true for x <= 1
    alone. `ikos.accounting.response_gamma` is about five times smaller.

    Examples
    --------
    >>> round(dimension_free_gamma(0.95, 1e-6, 50_000, 3), 4)  # exact: 0.0037
    0.018
    """
    eps, small = _budget(epsilon, delta)
    users, _, steps, _ = _sizes(n, 1, k)
    return _closed_gamma(eps, small, users, steps + 1) * (1 + 1e-12)


def repaired_gamma(
    epsilon: float | Fraction, delta: float | Fraction, n: int, d: int, k: int, t: int
) -> float:
    """Return a gamma for t messages about t of d coordinates, by SCM22's proof without its gaps.

    ``224 d (k+1) ln(3/delta) ln(6t/delta) / ((n-1) eps^2)`` or, if that is larger,
    ``108 d (k+1) sqrt(2 t ln(3/delta)) / (t (n-1) eps)``; it may exceed 1.

    Parameters
    ----------
    epsilon : float
        Positive, at most 1.
    delta : float
        In (0, 1).
    n : int
        Users; (n - 1) t must be at least 8 d ln(3t/delta).
    d, k, t : int
        Coordinates, steps of the rounding, messages of each user.

    Notes
    -----
    The number s of others who drew a coordinate is at least half its mean (n - 1) t / d but for
    exp(-(n-1) t / (8 d)), at most delta / (3 t). Each message is (eps', delta / (3t))-private
    among s + 1 users by BBGN19, Theorem 3.1, with k + 1 values, where
    eps' = eps / (2 sqrt(2 t ln(3/delta))); and advanced composition spends delta / 3. The exact
    accountants ask for far less: `sampled_answers`.

    Examples
    --------
    >>> round(repaired_gamma(1, 1e-6, 10**9, 100, 3, 5), 4)
    0.023
    """
    eps, small = _budget(epsilon, delta)
    users, coordinates, steps, count = _sizes(n, d, k, t)
    number("epsilon", epsilon, high=1)
    least = 8 * coordinates * math.log(3 * count / small)
    if (users - 1) * count < least:
        raise ValueError(
            f"n must be at least {math.ceil(least / count) + 1:,} for {count} of {coordinates} "
            f"coordinates, got {users}"
        )
    each = eps / (2 * math.sqrt(2 * count * math.log(3 / small)))
    others = (users - 1) * count / (2 * coordinates)
    square = 14 * math.log(6 * count / small) / each**2
    return (steps + 1) * max(square, 27 / each) / others * (1 + 1e-12)


def published_precision(
    epsilon: float | Fraction, delta: float | Fraction, n: int, d: int, t: int = 1
) -> float:
    """Return the k of SCM22, Sections 4.4 and 4.5, a real number.

    It makes the two terms of the error equal. The bound is smallest at 2^(1/3) times as many.

    Examples
    --------
    >>> round(published_precision(0.95, 0.5, 50_000, 100), 2)
    2.06
    """
    eps, small = _budget(epsilon, delta)
    users, coordinates, _, count = _sizes(n, d, 1, t)
    # the error is 1 / (4 k^2) + gamma / 2, with gamma proportional to k
    if count == 1:
        gamma = published_single_gamma(eps, small, users, coordinates, 1)
    else:
        gamma = published_gamma(eps, small, users, coordinates, 1, count)
    if count == 1:  # the paper writes n for n - 1 here
        gamma *= (users - 1) / users
    return float((1 / (2 * gamma)) ** (1 / 3))


def published_error(
    epsilon: float | Fraction,
    delta: float | Fraction,
    n: int,
    d: int,
    gamma: float,
    t: int = 1,
) -> float:
    """Return SCM22's bound on its normalized error at its k: Theorem 4.6, for t = 1 Section 4.5.

    Of the sums of what was drawn, over (n / d)^2: without the sampling, and with the mean number
    of reports of a coordinate for t = 1 whatever t is.

    Parameters
    ----------
    epsilon, delta, n, d, t
        As of `published_precision`.
    gamma : float
        The probability at that k, below 1; it enters as (1 - gamma)^-2.

    Examples
    --------
    >>> round(published_error(0.95, 0.5, 50_000, 100, 0.2), 4)
    0.0367
    """
    eps, small = _budget(epsilon, delta)
    users, coordinates, _, count = _sizes(n, d, 1, t)
    _, share = _shares(gamma)
    scale = coordinates ** (8 / 3) / (share**2 * users ** (5 / 3))
    if count > 1:
        logs = math.log(1 / small) * math.log(2 * count / small)
        first, inner = (2, 14) if eps <= 1 else (8, 63)
        return float(scale * first * count * (inner * logs) ** (2 / 3) / eps ** (4 / 3))
    log = math.log(2 / small)
    if eps <= 1:
        terms = (98 ** (1 / 3) * log ** (2 / 3) / eps ** (4 / 3), 18 / (4 * eps) ** (2 / 3))
    else:
        terms = (
            2 * (20 * log) ** (2 / 3) / eps ** (4 / 3),
            2 * 9 ** (2 / 3) / (11 * eps) ** (2 / 3),
        )
    return float(scale * max(terms))
