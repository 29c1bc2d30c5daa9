"""Several independent randomized responses of each user: what all of them guarantee together.

The privacy losses of one response are put on a lattice (`ikos.accounting.composition`) and added up
by repeated squaring. Where that takes too long, advanced or basic composition is what is proved.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from ikos._validation import integer, number, round_down
from ikos.accounting.blanket import MAX_USERS, ResponseBlanket, TooManyTermsError
from ikos.accounting.composition import LossLattice, advanced_composition, blanket_losses
from ikos.accounting.shuffled_response import (
    MAX_EPSILON,
    MIN_EPSILON,
    response_accountant,
    response_delta,
)
from ikos.randomized_response import grid_down

COMPOSITIONS = {
    "single": "with a coordinate (of each run) drawn at random the dimension does not enter",
    "numerical": "numerical composition of {t} messages' exact losses",
    "advanced": "advanced composition of {t} messages (Kairouz, Oh, Viswanath 2015)",
    "basic": "basic composition of {t} messages",
}
"""What proves a guarantee of t messages."""

MAX_MESSAGES = 1 << 20

MAX_VALUES = (1 << 20) + 1

_SLACK = 1e-6
"""What composed divergences are enlarged by beside `ikos.accounting.blanket.SLACK`.

The masses of a cell are differences of doubles that are known to 1e-13. What that moves the sum of
a few thousand losses by is below 1e-8 of its deviation.
"""


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


def numerical_delta(epsilon: float, blanket: ResponseBlanket, times: int, expected: float) -> float:
    """Return a bound of the divergence of independent copies, about as fine as is expected."""
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


TINY = 1e-12
"""Below it a divergence that needs several messages is not worked out any further."""

Delta = tuple[float, str, str]
"""A divergence, which of `COMPOSITIONS` proves it, and which of ``ACCOUNTANTS`` of one answer."""


def proved_repeated(
    epsilon: float, n: int, k: int, gamma: Fraction, times: int, expected: float
) -> Delta:
    """Return the divergence of `repeated_delta`, and what proves it; nothing is checked."""
    if times == 1:
        return (
            response_delta(epsilon, n, k, gamma),
            "single",
            response_accountant(epsilon, n, k, gamma),
        )
    try:
        found = min(expected, 1e-9)
        blanket = ResponseBlanket(n, k, gamma)
        for _ in range(2):  # losses that are cut off as infinite hide a much smaller divergence
            before, found = found, numerical_delta(epsilon, blanket, times, found)
            if found >= 1e-3 * before or found < TINY:
                break
        return found, "numerical", "exact"
    except TooManyTermsError:
        pass
    candidates = []
    if epsilon / times >= 2 * MIN_EPSILON:
        part = epsilon / times * (1 - 1e-12)
        delta = min(1.0, times * response_delta(part, n, k, gamma) * (1 + 1e-12))
        candidates.append((delta, "basic", response_accountant(part, n, k, gamma)))
    single = advanced_epsilon(epsilon, expected / 2, times)
    if single >= 2 * MIN_EPSILON:
        each = response_delta(single, n, k, gamma)
        delta = (expected / 2 + times * each) * (1 + 1e-12)
        proved = response_accountant(single, n, k, gamma)
        candidates.append((min(1.0, delta), "advanced", proved))
    if not candidates:
        return 1.0, "basic", "exact"
    return min(candidates)


def advanced_epsilon(epsilon: float, slack: float, times: int) -> float:
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
    return proved_repeated(round_down(eps), users, values, chance, count, expected)[0]
