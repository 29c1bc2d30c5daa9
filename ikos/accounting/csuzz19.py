"""The published analysis of shuffled binary randomized response, for comparison.

A. Cheu, A. Smith, J. Ullman, D. Zeber, M. Zhilyaev, *Distributed differential privacy via
shuffling*, EUROCRYPT 2019 (CSUZZ19). Each of n users answers at random with probability lambda/n.
The formulas are quoted from memory, and consistent (:ref:`proof-csuzz19`); lambda is 4 to 25 times
what the exact divergence (`ikos.accounting.binary_response`) needs at the usual budgets.
"""

from __future__ import annotations

import math
from fractions import Fraction

from ikos._validation import integer, number, quote
from ikos.accounting.binary_response import binary_response_gamma
from ikos.accounting.blanket import local_gamma
from ikos.accounting.composition import advanced_share
from ikos.randomized_response import grid_up
from ikos.results import at_least

_ROUNDING = 1e-12  # relative error allowed for a few operations on doubles
_SHAVED = Fraction(1, 10**12)  # subtracted from delta0: more than the rounding of its sum


def published_lambda(epsilon: float | Fraction, delta: float | Fraction, n: int) -> float:
    """Return CSUZZ19's lambda, the mean number of users who answer at random.

    (64/eps^2) ln(4/delta) for eps >= sqrt(192 ln(4/delta)/n), and otherwise
    n - eps n^(3/2)/sqrt(432 ln(4/delta)); rounded up. ValueError outside the theorem's conditions.
    """
    users = integer("n", n, low=1)
    eps = float(number("epsilon", epsilon, above=0, high=1))
    small = float(number("delta", delta, above=0, below=1))
    log = math.log(4 / small)
    least = math.sqrt(3456) * log / users * (1 + _ROUNDING)
    if eps < least:
        raise ValueError(
            f"epsilon must be at least sqrt(3456) ln(4/delta)/n = {at_least(least, 3)} for the "
            f"published lambda, got {quote(epsilon)}"
        )
    if eps * eps >= 192 * log / users:
        lam = 64 * log / (eps * eps)
    else:
        lam = users - eps * users**1.5 / math.sqrt(432 * log)
    lam = min(float(users), lam * (1 + _ROUNDING))
    if lam < 14 * log:
        raise ValueError(
            f"n must be larger: lambda = {lam:.4g} is below 14 ln(4/delta), got n = {users}"
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
    """Return the gamma for several bits of each user by composition, as in CSUZZ19.

    Each of the ``bits`` is (eps0, delta0)-private, by `binary_response_gamma` or, for "csuzz19", by
    `published_gamma`; they compose by basic or advanced composition, whichever allows the larger
    eps0. Advanced composition spends half of delta as its slack. A multiple of 2^-53.
    """
    total = number("epsilon", epsilon, above=0)
    small = number("delta", delta, above=0, below=1)
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
    found = run(*max(basic, advanced))
    return min(found, local_gamma(total / each, 2)) if accountant == "exact" else found
