"""How much randomness makes sampled coordinates private, and what is proved of given answers."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from ikos._validation import choice, integer, number, round_down
from ikos.accounting.blanket import MAX_USERS, ResponseBlanket, TooManyTermsError
from ikos.accounting.gaussian_losses import gaussian_gamma, gaussian_mu
from ikos.accounting.scm22.repeated import (
    MAX_MESSAGES,
    MAX_VALUES,
    Delta,
    advanced_epsilon,
    numerical_delta,
    proved_repeated,
)
from ikos.accounting.scm22.sampling import SAMPLINGS
from ikos.accounting.scm22.uniform import least_users, proved_uniform
from ikos.accounting.shuffled_response import (
    MAX_EPSILON,
    MIN_EPSILON,
    response_accountant,
    response_gamma,
)
from ikos.randomized_response import GRID, grid_down, grid_up


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
    accountant : str
        Which of ``ACCOUNTANTS`` that of one answer rests on.
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
    """Return a gamma that is enough, within a thousandth of the smallest; None for no gamma.

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
    """Return gamma, 1 where nothing below is enough, and what proves it, as of ``Delta``."""
    if t == 1:
        gamma = grid_up(response_gamma(eps, small, n, k))
        return gamma, "single", response_accountant(eps, n, k, gamma)
    tail, m = 0.0, n
    if sampling == "uniform" and t < d:
        tail = small / 20
        m = least_users(n, d, t, tail)
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
    budgets = (
        ("basic", eps / t, left / t),
        ("advanced", advanced_epsilon(eps, left / 2, t), left / 2 / t),
    )
    for name, each, delta in budgets:
        if each >= 2 * MIN_EPSILON:
            part = each * (1 - 1e-12)
            gamma = response_gamma(part, delta * (1 - 1e-12), m, k)
            if gamma < best[0]:
                best = gamma, name, response_accountant(part, m, k, gamma)
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
    gamma, *proof = _sampled(round_down(eps), round_down(small), users, coordinates, k + 1, t, name)
    return SampledAnswers(t, k, gamma, name, *proof)


def sampled_delta(
    answers: SampledAnswers, epsilon: float | Fraction, n: int, d: int, delta: float
) -> Delta:
    """Return the delta that is proved for answers, and what proves it.

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
    tuple of float, str and str
        An upper bound, rounded up; a key of `COMPOSITIONS`; and one of ``ACCOUNTANTS``, which
        proves what one answer by itself guarantees.

    Raises
    ------
    TypeError, ValueError
        If an argument is of the wrong kind or out of range.
    """
    eps = round_down(number("epsilon", epsilon, low=MIN_EPSILON, high=MAX_EPSILON))
    users = integer("n", n, low=1, high=MAX_USERS)
    coordinates = integer("d", d, low=1)
    k = integer("answers.precision", answers.precision, low=1, high=MAX_VALUES - 1) + 1
    t = integer("answers.messages", answers.messages, low=1, high=min(coordinates, MAX_MESSAGES))
    gamma = grid_down(number("answers.gamma", answers.gamma, above=0, high=1))
    expected = float(number("delta", delta, above=0, low=1e-300, below=1))
    if choice("answers.sampling", answers.sampling, SAMPLINGS) == "uniform":
        return proved_uniform(eps, users, coordinates, k, gamma, t, expected)
    return proved_repeated(eps, users, k, gamma, t, expected)
