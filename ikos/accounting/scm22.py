"""Coordinates drawn at random through randomized response (SCM22): sufficient parameters.

A user draws t of d coordinates independently of its vector, rounds each at random to {0..k}, and
sends (coordinate, value) through randomized response on these ``k + 1`` values. One such message
hides among all n users in any dimension. Messages from t runs of coordinates ("stratified") are t
independent copies, composed numerically, or by advanced or basic composition if that takes too
long. Coordinates drawn without replacement ("uniform") hide among the users who drew the same ones.
Proofs: :ref:`proof-scm22`. No composition theorem applies to several coordinates in one message, as
in SCM22, whose own formulas guarantee nothing.

SCM22 is Scott, Cormode, Maple, "Applying the Shuffle Model of Differential Privacy to Vector
Aggregation", 2021.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, partial

import numpy as np

from ikos._validation import MAX_PROTOCOL_USERS, InvalidValue, choice, integer, number, round_down
from ikos.accounting.blanket import ResponseBlanket, TooManyTermsError
from ikos.accounting.composition import LossLattice, advanced_share, blanket_losses
from ikos.accounting.shuffled_response import (
    MAX_EPSILON,
    MIN_EPSILON,
    response_accountant,
    response_delta,
    response_gamma,
)
from ikos.numeric.binomial import at_most
from ikos.numeric.gaussian import gaussian_gamma, gaussian_mu
from ikos.numeric.search import bisect_integers
from ikos.primitives.randomized_response import GRID, grid_down, grid_up

# the proof of a guarantee of t messages
COMPOSITIONS = {
    "single": "with a coordinate (of each run) drawn at random the dimension does not matter",
    "numerical": "numerical composition of {t} messages' exact losses",
    "advanced": "advanced composition of {t} messages (Kairouz, Oh, Viswanath 2015)",
    "basic": "basic composition of {t} messages",
}
SAMPLINGS = ("stratified", "uniform")  # one coordinate of each of t runs, or t without replacement
MAX_MESSAGES = 1 << 20
MAX_VALUES = (1 << 20) + 1
_SLACK = 1e-6  # enlargement of composed divergences: masses are differences of doubles
# points of a loss per standard deviation, and the most terms of all: fine, then coarse
_STEPS = ((5.0, 1 << 27), (1.5, 1 << 30))
_TINY = 1e-12  # divergences of several messages are not computed more precisely below it
_LADDER = (*range(1, 13), 14, 16, 19, 23, 28, 34, 41, 50, 64, 82, 105, 140, 200, 300, 500, 1000)

# a divergence, the one of `COMPOSITIONS` that proves it, and one answer's of ``ACCOUNTANTS``
_Delta = tuple[float, str, str]


def stratum_sizes(d: int, t: int) -> tuple[int, int, int]:
    """Return how many of t runs have the smaller size, that size, and how many have one more."""
    size, longer = divmod(d, t)
    return t - longer, size, longer


def weights(d: int, t: int, sampling: str) -> list[tuple[Fraction, int]]:
    """Return each weight, one over the probability of a coordinate, and how many have it."""
    if sampling == "uniform":
        return [(Fraction(d, t), d)]
    fewer, size, longer = stratum_sizes(d, t)
    runs = [(Fraction(size), fewer * size), (Fraction(size + 1), longer * (size + 1))]
    return [(weight, count) for weight, count in runs if count]


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
    """Return the divergence of copies of an answer, each shuffled among n users, and its proof."""

    def single(eps: float) -> tuple[float, str]:
        return response_delta(eps, n, k, gamma), response_accountant(eps, n, k, gamma)

    if times == 1:
        delta, accountant = single(epsilon)
        return delta, "single", accountant
    try:
        bound = min(expected, 1e-9)
        blanket = ResponseBlanket(n, k, gamma)
        for _ in range(2):  # losses cut off as infinite hide a much smaller divergence
            before, bound = bound, numerical_delta(epsilon, blanket, times, bound)
            if bound >= 1e-3 * before or bound < _TINY:
                break
        return bound, "numerical", "exact"
    except TooManyTermsError:
        best: _Delta = (1.0, "basic", "exact")
    for method, each, slack in _shares(epsilon, expected, times):
        delta, accountant = single(each)
        delta = (slack + times * delta) * (1 + 1e-12)
        best = min(best, (min(1.0, delta), method, accountant))
    return best


def _shares(epsilon: float, delta: float, times: int) -> Iterator[tuple[str, float, float]]:
    """Yield the epsilon that each of several messages may spend, and the slack of delta."""
    for method, each, slack in (
        ("basic", epsilon / times, 0.0),
        ("advanced", advanced_share(epsilon, delta / 2, times), delta / 2),
    ):
        if each >= 2 * MIN_EPSILON:
            yield method, each * (1 - 1e-12), slack


def _missing(m: int, n: int, d: int, t: int) -> float:
    """Return a bound on t P[N + 1 < m] for N ~ Bin(n - 1, t / d), rounded up."""
    return min(1.0, t * float(at_most(m - 2, n - 1, t / d)) * (1 + 1e-6)) if m > 1 else 0.0


def _least_users(n: int, d: int, t: int, tail: float) -> int:
    """Return the largest m with t P[N + 1 < m] at most ``tail``; 1 always suffices."""
    return bisect_integers(lambda m: _missing(m, n, d, t) <= tail, 1, n + 1)


@dataclass(frozen=True)
class SampledAnswers:
    """The draw and the randomized response of a user's coordinates.

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
    bound: Callable[[Fraction], float], scale: float, n: int, k: int, small: float
) -> Fraction:
    """Return a sufficient gamma, near the smallest; 1 if there is none."""
    # steps in the noise gamma / (1 - gamma)^2, in which ln delta is about linear
    low, high, best = 0.0, math.inf, Fraction(1)
    target, last, log_last = math.log(small / 2), 0.0, 0.0
    for _ in range(40):
        gamma = Fraction(max(1, round(gaussian_gamma(k, 1 / scale, n) * GRID)), GRID)
        if gamma >= 1 - Fraction(1, 1 << 20):
            break
        delta = bound(gamma)
        if delta <= small:
            high, best = scale, gamma
        else:
            low = scale
        if 0.997 * small <= delta <= small or high <= low * (1 + 1e-4):
            break
        log = math.log(max(min(delta, 0.99), 1e-300) / 2)
        bend = (log - log_last) / (scale - last)  # at first from a delta of 2 without noise
        wanted = scale + (target - log) / bend if bend < 0 else scale * target / log
        last, log_last = scale, log
        ends = (low * 1.002, low * 4) if low else (high / 4, high * 0.998)
        if low and high < math.inf:
            ends = low + (high - low) * 0.05, high - (high - low) * 0.05
        scale = min(max(wanted * (1 + 1e-4), ends[0]), ends[1])
    return best


@lru_cache(maxsize=1024)
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

    For all of a user's messages together and n users who follow the protocol; gamma is within a
    thousandth of the smallest that the search finds, and 1 if only noise is private.
    """
    eps = round_down(number("epsilon", epsilon, low=MIN_EPSILON, high=MAX_EPSILON))
    small = round_down(number("delta", delta, above=0, below=1))
    m = integer("n", n, low=1, high=MAX_PROTOCOL_USERS)
    k = integer("precision", precision, low=1, high=MAX_VALUES - 1) + 1
    t = integer("messages", messages, low=1, high=min(integer("d", d, low=1), MAX_MESSAGES))
    choice("sampling", sampling, SAMPLINGS)
    answers = partial(SampledAnswers, t, precision, sampling=sampling)
    if t == 1:
        gamma = grid_up(response_gamma(eps, small, n, k))
        proof = response_accountant(eps, n, k, gamma)
        return answers(gamma, composition="single", accountant=proof)
    tail = 0.0
    if sampling == "uniform" and t < d:
        tail = small / 20
        m = _least_users(n, d, t, tail)
    available = (small - tail) * (1 - 1e-12)

    def bound(gamma: Fraction) -> float:
        return numerical_delta(eps, ResponseBlanket(m, k, gamma), t, available)

    noise = gaussian_mu(eps, available) ** 2 / t
    try:
        return answers(_searched(bound, 1.05 / noise, m, k, available), composition="numerical")
    except TooManyTermsError:
        best = answers(Fraction(1), composition="basic")
    for method, each, slack in _shares(eps, available, t):
        gamma = response_gamma(each, (available - slack) / t * (1 - 1e-12), m, k)
        if gamma < best.gamma:
            proof = response_accountant(each, m, k, gamma)
            best = answers(gamma, composition=method, accountant=proof)
    return best


def sampled_delta(
    answers: SampledAnswers, epsilon: float | Fraction, n: int, d: int, delta: float
) -> tuple[float, str, str]:
    """Return the proved delta of answers, rounded up, and its proof.

    The proof is a key of `COMPOSITIONS`, and one answer's of ``ACCOUNTANTS``. ``delta`` is the
    approximate result: it only decides how finely losses are counted.
    """
    eps = round_down(number("epsilon", epsilon, low=MIN_EPSILON, high=MAX_EPSILON))
    k, t, gamma = answers.precision + 1, answers.messages, grid_down(answers.gamma)
    if answers.sampling == "stratified" or t in (1, d):
        return _proved_repeated(eps, n, k, gamma, t, delta)
    # t P[N + 1 < m] plus what is proved among m users, for the best m of a few
    best: _Delta = (1.0, "basic", "exact")
    tail = delta / 20
    for _ in range(4):  # a smaller required number of users is more likely to be reached
        m = _least_users(n, d, t, tail)
        hidden, method, accountant = _proved_repeated(eps, m, k, gamma, t, delta)
        here = min(1.0, (_missing(m, n, d, t) + hidden) * (1 + 1e-12))
        if here >= best[0]:
            break
        best = (here, method, accountant)
        if here < _TINY:
            break
        tail *= 1e-5
        delta = here
    return best


@dataclass(frozen=True)
class SampledError:
    """The largest error of one user's part in one coordinate, in units of the width.

    ``mean_square`` is the total, ``sampling`` the part that remains if values are reported
    unchanged.
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
    k, w, c = precision, float(weight), float(centre)
    g, share = response_shares(gamma)
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
    errors = np.zeros(2)
    for weight, count in weights(d, answers.messages, answers.sampling):
        error = coordinate_error(answers.precision, answers.gamma, weight, centre)
        errors += float(n * count) * np.array((error.mean_square, error.sampling))
    return SampledError(float(errors[0]), float(errors[1]))


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
    users = integer("n", n, low=1, high=MAX_PROTOCOL_USERS)
    most = min(d, MAX_MESSAGES)
    counts = sorted({*(t for t in _LADDER if t < most), most}) if messages is None else [messages]
    steps = _LADDER if precision is None else (precision,)
    mu = gaussian_mu(round_down(eps), round_down(small))

    def error(answers: SampledAnswers) -> float:
        return total_error(users, d, answers, centre).mean_square

    sketches = [
        (error(SampledAnswers(t, k, Fraction(gamma), sampling, "sketch")), t, k)
        for t, k in itertools.product(counts, steps)
        if (gamma := _approximate_gamma(k, t, users, d, mu, sampling)) < 0.999
    ]
    sketches = sorted(sketches) or [(math.inf, counts[0], steps[0])]
    candidates = []
    for _, t, k in sketches[: 5 if sketches[0][1] == 1 else 2]:
        here = sampled_answers(eps, small, users, d, k, t, sampling=sampling)
        if here.gamma < 1:
            candidates.append((error(here), t, k, here))
    if not candidates:
        raise InvalidValue(
            "n",
            f"must be larger for epsilon = {float(eps):g}, delta = {float(small):.3g} and "
            f"{sketches[0][1]} messages per user, got {users} honest users: every answer "
            "would be random",
        )
    return min(candidates)[3]


# SCM22's own formulas, as printed: they guarantee nothing, see the errata


def response_shares(gamma: object) -> tuple[float, float]:
    """Return a probability of random answers below 1, and that of the others, both as doubles."""
    random = number("gamma", gamma, low=0, below=1)
    return float(random), float(number("1 - gamma", 1 - random, low=1 / GRID))


def budget(epsilon: object, delta: object) -> tuple[float, float]:
    """Check and return a budget, rounded down."""
    eps = number("epsilon", epsilon, above=0, low=1e-100, high=6)
    return round_down(eps), round_down(number("delta", delta, above=0, low=1e-300, below=1))


def published_gamma(
    epsilon: float | Fraction, delta: float | Fraction, n: int, d: int, k: int, t: int
) -> float:
    """Return the gamma of SCM22, Theorem 4.1, for t coordinates; it may exceed 1.

    ``56 d k ln(1/delta) ln(2t/delta) / ((n-1) eps^2)``, with 2016 for 56 if epsilon is above 1. Its
    proof is not sound: see docs/errata.md.
    """
    eps, small = budget(epsilon, delta)
    constant = 56 if eps <= 1 else 2016
    logs = math.log(1 / small) * math.log(2 * t / small)
    return constant * d * k * logs / ((n - 1) * eps**2)


def published_single_gamma(
    epsilon: float | Fraction, delta: float | Fraction, n: int, d: int, k: int
) -> float:
    """Return the gamma of SCM22, Section 4.5, for one coordinate; it may exceed 1.

    ``max(14 d k ln(2/delta) / ((n-1) eps^2), 27 d k / ((n-1) eps))``, or, if epsilon is above 1,
    ``max(80 d k ln(2/delta) / ((n-1) eps^2), 36 d k / (11 (n-1) eps))``.
    """
    return closed_gamma(*budget(epsilon, delta), n, d * k)


def closed_gamma(eps: float, small: float, n: int, values: int) -> float:
    """Return the gamma of Section 4.5, with any number of values instead of d k."""
    first, second = (14.0, 27.0) if eps <= 1 else (80.0, 36 / 11)
    square = first * math.log(2 / small) / eps**2
    return values * max(square, second / eps) / (n - 1)


def published_precision(
    epsilon: float | Fraction, delta: float | Fraction, n: int, d: int, t: int = 1
) -> float:
    """Return the k of SCM22, Sections 4.4 and 4.5, a real number.

    It makes the two terms of the error equal. The bound is smallest at 2^(1/3) times this k.
    """
    # the error is 1 / (4 k^2) + gamma / 2, with gamma proportional to k
    if t == 1:  # the paper writes n for n - 1 here
        gamma = published_single_gamma(epsilon, delta, n, d, 1) * (n - 1) / n
    else:
        gamma = published_gamma(epsilon, delta, n, d, 1, t)
    return float((1 / (2 * gamma)) ** (1 / 3))
