"""Coordinates drawn at random through randomized response (SCM22): what a guarantee takes.

A user draws t of d coordinates independently of its vector, rounds each at random to {0..k}, and
sends (coordinate, value) through randomized response on these ``k + 1`` values. One such message
hides among all n users in any dimension; SCM22 reveals the coordinate to the adversary, so that it
hides among only n / d users. Messages from t runs of coordinates ("stratified") are t independent
copies, composed numerically, or by advanced or basic composition if that takes too long.
Coordinates drawn without replacement ("uniform") hide among the users who drew the same ones.
Proofs: :ref:`proof-scm22`.

*Several coordinates in one message*, as in SCM22, is another mechanism, to which no composition
theorem applies; it is covered only by ``ikos.accounting.scm22_published``.

SCM22 is Scott, Cormode, Maple, "Applying the Shuffle Model of Differential Privacy to Vector
Aggregation", 2021.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
import scipy

from ikos._validation import choice, integer, number, round_down
from ikos.accounting.blanket import MAX_USERS, ResponseBlanket, TooManyTermsError
from ikos.accounting.composition import LossLattice, advanced_share, blanket_losses
from ikos.accounting.gaussian_losses import gaussian_gamma, gaussian_mu
from ikos.accounting.scm22_published import MOST, response_shares
from ikos.accounting.shuffled_response import (
    MAX_EPSILON,
    MIN_EPSILON,
    response_accountant,
    response_delta,
    response_gamma,
)
from ikos.accounting.solve import bisect_integers
from ikos.randomized_response import GRID, grid_down, grid_up

COMPOSITIONS = {
    "single": "with a coordinate (of each run) drawn at random the dimension does not enter",
    "numerical": "numerical composition of {t} messages' exact losses",
    "advanced": "advanced composition of {t} messages (Kairouz, Oh, Viswanath 2015)",
    "basic": "basic composition of {t} messages",
}
"""The proof of a guarantee of t messages."""

SAMPLINGS = ("stratified", "uniform")
"""How t of d coordinates are drawn: one of each of t runs, or t without replacement."""

MAX_MESSAGES = 1 << 20
MAX_VALUES = (1 << 20) + 1

_SLACK = 1e-6
"""Enlargement of composed divergences, on top of `ikos.accounting.blanket.SLACK`.

The masses of a cell are differences of doubles known to 1e-13. The effect on the sum of a few
thousand losses is below 1e-8 of its deviation.
"""

_STEPS = ((5.0, 1 << 17), (3.0, 1 << 19), (1.5, 1 << 20))
"""Points of a loss per standard deviation, and the most terms of a point: fine, then coarse."""

_TINY = 1e-12  # divergences of several messages are not computed more precisely below it

_LADDER = (*range(1, 13), 14, 16, 19, 23, 28, 34, 41, 50, 64, 82, 105, 140, 200, 300, 500, 1000)

_Delta = tuple[float, str, str]
"""A divergence, the one of `COMPOSITIONS` that proves it, and one answer's of ``ACCOUNTANTS``."""


# How coordinates are drawn, and the weight of an answer about a drawn one


def stratum_sizes(d: int, t: int) -> tuple[int, int, int]:
    """Return how many of t runs have the smaller size, that size, and how many have one more."""
    coordinates = integer("d", d, low=1)
    runs = integer("t", t, low=1, high=coordinates)
    size, longer = divmod(coordinates, runs)
    return runs - longer, size, longer


def weights(d: int, t: int, sampling: str) -> list[tuple[Fraction, int]]:
    """Return each weight, one over the chance that a coordinate is drawn, and how many have it."""
    fewer, size, longer = stratum_sizes(d, t)
    if choice("sampling", sampling, SAMPLINGS) == "uniform":
        return [(Fraction(d, t), d)]
    runs = [(Fraction(size), fewer * size), (Fraction(size + 1), longer * (size + 1))]
    return [(weight, count) for weight, count in runs if count]


# Several independent answers of each user


def _trimmed(losses: LossLattice, negligible: float) -> LossLattice:
    """Return a loss at most as private with fewer points: no mass is lost, and tails move up."""
    masses = losses.masses
    above = np.cumsum(masses[::-1])[::-1]
    last = int(np.count_nonzero(above > negligible))  # from there on the losses are infinite
    infinite = losses.infinite + (float(above[last]) if last < masses.size else 0.0)
    below = np.cumsum(masses[:last])
    first = int(np.count_nonzero(below <= negligible))
    first = min(first, max(last - 1, 0))
    kept = masses[first:last].copy()
    if first and kept.size:
        kept[0] += below[first - 1]  # a loss moved up is less private
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


def numerical_delta(epsilon: float, blanket: ResponseBlanket, times: int, expected: float) -> float:
    """Return a bound on the divergence of independent copies, about as fine as expected."""
    if blanket.gamma == 1:
        return 0.0
    k, gamma = float(blanket.k), float(blanket.gamma)
    deviation = (1 - gamma) * math.sqrt(2 * k / (gamma * blanket.n))
    negligible = 1e-7 * expected / times
    for fine, terms in _STEPS:
        step = min(epsilon / 40, deviation / fine)
        try:
            losses = blanket_losses(blanket, step, negligible, terms)
        except TooManyTermsError:
            if fine == _STEPS[-1][0]:
                raise
            continue
        break
    total = _repeated(losses, times, negligible)
    return min(1.0, total.divergence(epsilon) * (1 + _SLACK))


def _proved_repeated(
    epsilon: float, n: int, k: int, gamma: Fraction, times: int, expected: float
) -> _Delta:
    """Return the divergence of copies of one answer, each shuffled among n users; and its proof.

    ``expected`` is the approximate delta; it only decides how finely losses are counted.
    """

    def single(eps: float) -> tuple[float, str]:
        return response_delta(eps, n, k, gamma), response_accountant(eps, n, k, gamma)

    if times == 1:
        delta, accountant = single(epsilon)
        return delta, "single", accountant
    try:
        found = min(expected, 1e-9)
        blanket = ResponseBlanket(n, k, gamma)
        for _ in range(2):  # losses cut off as infinite hide a much smaller divergence
            before, found = found, numerical_delta(epsilon, blanket, times, found)
            if found >= 1e-3 * before or found < _TINY:
                break
        return found, "numerical", "exact"
    except TooManyTermsError:
        pass
    best: _Delta = (1.0, "basic", "exact")
    for method, each, slack in _shares(epsilon, expected, times):
        delta, accountant = single(each)
        delta = (slack + times * delta) * (1 + 1e-12)
        best = min(best, (min(1.0, delta), method, accountant))
    return best


def _shares(epsilon: float, delta: float, times: int) -> Iterator[tuple[str, float, float]]:
    """Yield how much of epsilon each of several messages may spend, and the slack of delta."""
    for method, each, slack in (
        ("basic", epsilon / times, 0.0),
        ("advanced", advanced_share(epsilon, delta / 2, times), delta / 2),
    ):
        if each >= 2 * MIN_EPSILON:
            yield method, each * (1 - 1e-12), slack


# Coordinates drawn without replacement: the risk that few others drew one is part of delta


def _missing(m: int, n: int, d: int, t: int) -> float:
    """Return a bound on t P[N + 1 < m] for N ~ Bin(n - 1, t / d), rounded up."""
    if t == d:
        return 0.0 if m <= n else 1.0
    return min(1.0, t * float(scipy.stats.binom.cdf(m - 2, n - 1, t / d)) * (1 + 1e-6))


def _least_users(n: int, d: int, t: int, tail: float) -> int:
    """Return the largest m with t P[N + 1 < m] at most ``tail``; 1 always suffices."""
    return bisect_integers(lambda m: _missing(m, n, d, t) <= tail, 1, n + 1)


def _proved_uniform(
    eps: float, n: int, d: int, k: int, gamma: Fraction, t: int, expected: float
) -> _Delta:
    """Return the divergence of t answers about t of d coordinates drawn without replacement.

    t P[N + 1 < m] plus that of `_proved_repeated` among m users, for the best m of a few.
    """
    if t in (1, d):  # one coordinate, or all of them
        return _proved_repeated(eps, n, k, gamma, t, expected)
    best: _Delta = (1.0, "basic", "exact")
    tail = expected / 20
    for _ in range(4):  # the fewer users are required, the less likely they are missing
        m = _least_users(n, d, t, tail)
        hidden, method, accountant = _proved_repeated(eps, m, k, gamma, t, expected)
        here = min(1.0, (_missing(m, n, d, t) + hidden) * (1 + 1e-12))
        if here >= best[0]:
            break
        best = (here, method, accountant)
        if here < _TINY:
            break
        tail *= 1e-5
        expected = here
    return best


# How much randomness makes sampled coordinates private


@dataclass(frozen=True)
class SampledAnswers:
    """How a user's coordinates are drawn and answered.

    Each user reports ``messages`` coordinates, drawn by ``sampling``, in values of {0..precision}
    that are replaced by a uniform one with probability ``gamma``, a multiple of 2^-53. The
    guarantee rests on ``composition``, of ``COMPOSITIONS``, and for one answer on ``accountant``,
    of ``ACCOUNTANTS``.
    """

    messages: int
    precision: int
    gamma: Fraction
    sampling: str
    composition: str
    accountant: str = "exact"


def _searched(
    bound: Callable[[Fraction], float], first: float, n: int, k: int, small: float
) -> Fraction | None:
    """Return a sufficient gamma, within a thousandth of the smallest; None if there is none.

    Steps in the noise gamma / (1 - gamma)^2, in which ln delta is about linear.
    """
    low, high = 0.0, math.inf
    best: Fraction | None = None
    scale = first
    for _ in range(40):
        gamma = Fraction(min(max(1, round(gaussian_gamma(k, 1 / scale, n) * GRID)), GRID), GRID)
        if gamma >= 1 - Fraction(1, 1 << 20):
            return best
        delta = bound(gamma)
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
) -> tuple[Fraction, str, str]:
    """Return gamma, 1 if nothing below suffices, and its proof, as of `_Delta`."""
    if t == 1:
        gamma = grid_up(response_gamma(eps, small, n, k))
        return gamma, "single", response_accountant(eps, n, k, gamma)
    tail, m = 0.0, n
    if sampling == "uniform" and t < d:
        tail = small / 20
        m = _least_users(n, d, t, tail)
    left = (small - tail) * (1 - 1e-12)
    noise = gaussian_mu(eps, left) ** 2 / t

    def bound(gamma: Fraction) -> float:
        return numerical_delta(eps, ResponseBlanket(m, k, gamma), t, left)

    try:
        found = _searched(bound, 1.05 / noise, m, k, left)
        return (Fraction(1) if found is None else found), "numerical", "exact"
    except TooManyTermsError:
        pass
    best = Fraction(1), "basic", "exact"
    for method, each, slack in _shares(eps, left, t):
        gamma = response_gamma(each, (left - slack) / t * (1 - 1e-12), m, k)
        if gamma < best[0]:
            best = gamma, method, response_accountant(each, m, k, gamma)
    return best


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

    For all of a user's messages together and n users who answer at random as they should; gamma is
    within a thousandth of the smallest that the search finds, and 1 if only noise is private.
    """
    eps = number("epsilon", epsilon, low=MIN_EPSILON, high=MAX_EPSILON)
    small = number("delta", delta, above=0, below=1)
    users = integer("n", n, low=1, high=MAX_USERS)
    coordinates = integer("d", d, low=1)
    k = integer("precision", precision, low=1, high=MAX_VALUES - 1)
    t = integer("messages", messages, low=1, high=min(coordinates, MAX_MESSAGES))
    name = choice("sampling", sampling, SAMPLINGS)
    gamma, *proof = _sampled(round_down(eps), round_down(small), users, coordinates, k + 1, t, name)
    return SampledAnswers(t, k, gamma, name, *proof)


def sampled_delta(
    answers: SampledAnswers, epsilon: float | Fraction, n: int, d: int, delta: float
) -> tuple[float, str, str]:
    """Return the proved delta of answers, rounded up, and its proof.

    The proof is a key of `COMPOSITIONS`, and one answer's of ``ACCOUNTANTS``. ``delta`` is the
    approximate result: it only decides how finely losses are counted.
    """
    eps = round_down(number("epsilon", epsilon, low=MIN_EPSILON, high=MAX_EPSILON))
    users = integer("n", n, low=1, high=MAX_USERS)
    coordinates = integer("d", d, low=1)
    k = integer("answers.precision", answers.precision, low=1, high=MAX_VALUES - 1) + 1
    t = integer("answers.messages", answers.messages, low=1, high=min(coordinates, MAX_MESSAGES))
    gamma = grid_down(number("answers.gamma", answers.gamma, above=0, high=1))
    expected = float(number("delta", delta, above=0, low=1e-300, below=1))
    if choice("answers.sampling", answers.sampling, SAMPLINGS) == "uniform":
        return _proved_uniform(eps, users, coordinates, k, gamma, t, expected)
    return _proved_repeated(eps, users, k, gamma, t, expected)


# The error of one coordinate, and of the sum over all users


@dataclass(frozen=True)
class SampledError:
    """The largest error of one user's part in one coordinate, in units of the width.

    ``mean_square`` is the total, ``sampling`` the part left if values are reported unchanged.
    """

    mean_square: float
    sampling: float


def coordinate_error(
    precision: int, gamma: float | Fraction, weight: float | Fraction, centre: float | Fraction = 0
) -> SampledError:
    """Return the error of a coordinate that is reported with probability 1 / weight.

    The estimate of a value u in [0, 1] is the centre c if nothing is reported, and c + w (v - c)
    for a debiased answer v: unbiased for any c, and with the smallest worst case at 1/2.
    ``precision`` is the steps k of the rounding, ``gamma`` at most 1 - 2^-53, and the weight w >= 1
    is d / t, or the length of a run. Exact, up to the rounding of doubles: w E[(v - c)^2] is linear
    in u between two steps.
    """
    k = integer("precision", precision, low=1, high=MAX_VALUES - 1)
    g, share = response_shares(gamma)
    w = float(number("weight", weight, low=1, high=MOST))
    c = float(number("centre", centre, low=0, high=1))
    values = (np.arange(k + 1) / k - g / 2) / share
    squares = (values - c) ** 2
    at = w * (share * squares + g * squares.mean())
    steps = np.arange(k) / k
    slope = (at[1:] - at[:-1]) * k
    worst = np.clip(c + slope / 2, steps, np.arange(1, k + 1) / k)
    error = at[:-1] + slope * (worst - steps) - (worst - c) ** 2
    sampling = (w - 1) * max(c, 1 - c) ** 2
    return SampledError(max(sampling, float(error.max())) * (1 + 1e-12), sampling)


def total_error(
    n: int, d: int, answers: SampledAnswers, centre: float | Fraction = Fraction(1, 2)
) -> SampledError:
    """Return the error of the sum over n users and d coordinates, in units of the width."""
    users = integer("n", n, low=0, high=MOST)
    coordinates = integer("d", d, low=1, high=MOST)
    found = np.zeros(2)
    for weight, count in weights(coordinates, answers.messages, answers.sampling):
        one = coordinate_error(answers.precision, answers.gamma, weight, centre)
        found += float(users * count) * np.array((one.mean_square, one.sampling))
    return SampledError(float(found[0]), float(found[1]))


# The number of messages and the precision of the smallest error


def _approximate_gamma(k: int, t: int, n: int, d: int, mu: float, sampling: str) -> float:
    """Return the approximate gamma that suffices if losses are Gaussian."""
    users = float(n)
    if sampling == "uniform" and 1 < t < d:
        users = n * t / d - 6 * math.sqrt(n * t / d)
        if users < 2:
            return 1.0
    return gaussian_gamma(k + 1, mu * mu / t, max(2, int(users)))


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
    """Return the answers with the smallest error that a search finds.

    ``messages`` and ``precision`` are searched for if they are None. Not proved to be the best: the
    search takes the privacy losses for Gaussian, and compares the best few by the exact accountant.
    ValueError if there are too few users for any gamma below 1.
    """
    eps = number("epsilon", epsilon, low=MIN_EPSILON, high=MAX_EPSILON)
    small = number("delta", delta, above=0, below=1)
    users = integer("n", n, low=1, high=MAX_USERS)
    coordinates = integer("d", d, low=1)
    name = choice("sampling", sampling, SAMPLINGS)
    most = min(coordinates, MAX_MESSAGES)
    counts, steps = sorted({*(t for t in _LADDER if t < most), most}), list(_LADDER)
    if messages is not None:
        counts = [integer("messages", messages, low=1, high=most)]
    if precision is not None:
        steps = [integer("precision", precision, low=1, high=MAX_VALUES - 1)]
    c = number("centre", centre, low=0, high=1)
    mu = gaussian_mu(round_down(eps), round_down(small))

    def error(found: SampledAnswers) -> float:
        return total_error(users, coordinates, found, c).mean_square

    sketches = [
        (error(SampledAnswers(t, k, Fraction(gamma), name, "sketch")), t, k)
        for t, k in itertools.product(counts, steps)
        if (gamma := _approximate_gamma(k, t, users, coordinates, mu, name)) < 0.999
    ]
    sketches = sorted(sketches) or [(math.inf, counts[0], steps[0])]
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
