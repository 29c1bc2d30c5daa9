"""A search for the number of messages and the precision of the smallest error."""

from __future__ import annotations

import math
from fractions import Fraction

from ikos._validation import choice, integer, number, round_down
from ikos.accounting.blanket import MAX_USERS
from ikos.accounting.gaussian_losses import gaussian_gamma, gaussian_mu
from ikos.accounting.scm22.answers import SampledAnswers, sampled_answers
from ikos.accounting.scm22.errors import total_error
from ikos.accounting.scm22.repeated import MAX_MESSAGES, MAX_VALUES
from ikos.accounting.scm22.sampling import SAMPLINGS
from ikos.accounting.shuffled_response import (
    MAX_EPSILON,
    MIN_EPSILON,
)

_LADDER = (*range(1, 13), 14, 16, 19, 23, 28, 34, 41, 50, 64, 82, 105, 140, 200, 300, 500, 1000)


def _approximate_gamma(k: int, t: int, n: int, d: int, mu: float, sampling: str) -> float:
    """Return about the gamma that is enough, by a Gaussian law of the losses."""
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
    mu = gaussian_mu(round_down(eps), round_down(small))

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
