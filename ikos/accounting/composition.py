"""Composition: the joint guarantee of several mechanisms.

Advanced composition; numerical composition of the exact privacy losses of several privacy blankets,
discretized to distributions that are at most as private ("connecting the dots": Doroshenko et al.,
PoPETs 2022; :ref:`proof-lattice`); and the exact composition of k copies of any (e0, d0)-private
mechanism (Kairouz, Oh, Viswanath, *The Composition Theorem for Differential Privacy*, ICML 2015,
KOV15). The least private one reveals its input with probability d0, and otherwise answers by
randomized response with budget e0; every other mechanism is a function of its answer:

    delta(epsilon) = 1 - (1 - d0)^k (1 - R(epsilon)),
    R(epsilon) = sum_i C(k, i) e^((k - i) e0) / (1 + e^e0)^k (1 - e^(epsilon - (k - 2 i) e0))_+ .
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import gmpy2
import numpy as np
from gmpy2 import mpfr
from numpy.typing import NDArray

from ikos._validation import InvalidValue, integer, number, ordered, quote, round_down, round_up
from ikos.accounting.blanket import SLACK, ResponseBlanket, TooManyTermsError
from ikos.accounting.blanket_masses import MAX_TERMS, masses_above
from ikos.numeric.binomial import log_pmf
from ikos.numeric.rounding import DOWN, UP, exact, float_up, rounding
from ikos.numeric.search import bisect
from ikos.results.sums import at_most

_NEGLIGIBLE = 1e-5  # largest fraction of delta due to losses beyond the lattice
_LOST = 1e-3  # fraction of that for the mass that windows leave out
_MAX_CELLS = 2000  # most steps of a lattice above 0

Budget = tuple[float | Fraction, float | Fraction]


def advanced_composition(budgets: Iterable[Budget], slack: float | Fraction) -> tuple[float, float]:
    """Return the guarantee of several mechanisms by advanced composition, rounded up.

    Parameters
    ----------
    budgets : iterable of (epsilon, delta)
        Budgets of mechanisms with independent randomness.
    slack : float
        The delta that the theorem spends, in (0, 1).

    Returns
    -------
    (float, float)
        By KOV15, Theorem 3.5, or the sum of the epsilons if it is smaller, and slack + sum delta_j.

    Examples
    --------
    >>> epsilon, delta = advanced_composition([(0.01, 0.0)] * 1000, 1e-9)
    >>> round(epsilon, 3), delta <= 1.1e-9
    (2.086, True)
    """
    spent = number("slack", slack, above=0, below=1)
    epsilons, deltas = [], []
    for epsilon, delta in ordered("budgets", budgets):
        epsilons.append(number("epsilon", epsilon, low=0))
        deltas.append(number("delta", delta, low=0, high=1))
    with rounding(DOWN):
        log = gmpy2.log(exact(spent, DOWN))
    mean = squares = mpfr(0)
    with rounding(UP):  # in numbers whose squares do not underflow
        for each, times in Counter(epsilons).items():
            mean += times * exact(each, UP) * gmpy2.tanh(exact(each, UP) / 2)
            squares += times * exact(each, UP) ** 2
        together = mean + gmpy2.sqrt(-2 * log * squares)
    basic, delta = (exact(Fraction(total), UP) for total in (sum(epsilons), spent + sum(deltas)))
    return float_up(min(together, basic)), min(1.0, float_up(delta))


def advanced_share(epsilon: float, slack: float, times: int) -> float:
    """Return nearly the largest epsilon per mechanism, for equal ones, by advanced composition."""
    reach = math.sqrt(-2 * math.log(slack) * times)

    def within(each: float) -> bool:
        return (times * each * math.tanh(each / 2) + reach * each) * (1 + 1e-9) <= epsilon

    return bisect(within, 0.0, epsilon, close=1e-12)


@dataclass(frozen=True, eq=False)
class LossLattice:
    """A discretized privacy loss distribution, at most as private as the mechanism it represents.

    ``masses[i]`` is that of the loss ``step (first + i)``, ``infinite`` that of an infinite one.
    """

    step: float
    first: int
    masses: NDArray[np.float64]
    infinite: float

    def __add__(self, other: LossLattice) -> LossLattice:
        """Return the loss of both mechanisms together; on the same lattice."""
        return LossLattice(
            self.step,
            self.first + other.first,
            np.convolve(self.masses, other.masses),
            self.infinite + other.infinite,
        )

    def divergence(self, epsilon: float) -> float:
        """Return an upper bound on the hockey-stick divergence of order e^epsilon."""
        losses = self.step * (self.first + np.arange(self.masses.size))
        above = losses > epsilon
        finite = np.dot(self.masses[above], -np.expm1(epsilon - losses[above]))
        return min(1.0, (float(finite) + self.infinite) * (1 + SLACK))


@lru_cache(maxsize=256)
def blanket_losses(
    blanket: ResponseBlanket, step: float, negligible: float, most_terms: int = MAX_TERMS
) -> LossLattice:
    """Return the privacy loss of shuffled randomized response, discretized with a given step.

    Losses exceeded with at most ``negligible`` probability count as infinite.
    """
    negligible = max(negligible, _LEAST)
    deviation = math.sqrt(2 * blanket.k * (1 - blanket.gamma) ** 2 / (blanket.gamma * blanket.n))
    # about as far as Gaussian losses reach, but no further than those of one answer
    reach = deviation * (deviation / 2 + math.sqrt(-2 * math.log(negligible)))
    cells = math.ceil(1.1 * reach / step)
    most = min(_MAX_CELLS, math.ceil(blanket.local_epsilon / step))
    while True:
        cells = min(most, cells)
        levels = step * np.arange(cells + 1, dtype=np.float64)
        upper, lower, lost = masses_above(blanket, levels, negligible * _LOST, most_terms)
        if upper[-1] <= negligible:
            break
        if cells == _MAX_CELLS:
            raise TooManyTermsError(
                "epsilon",
                f"must be larger for exact losses: they reach {_MAX_CELLS} times as far as "
                f"a step of {step:.3g}; use composition='basic'",
            )
        cells = math.ceil(cells * math.sqrt(math.log(negligible) / math.log(upper[-1]))) + 2
    cells = max(1, int(np.argmax(upper <= negligible)))
    upper, lower = upper[: cells + 1], lower[: cells + 1]
    infinite = float(upper[-1]) + lost
    p, q = upper[:-1] - upper[1:], lower[:-1] - lower[1:]
    edges = step * np.arange(cells)
    # of mass p with likelihood ratio p / q, the part at the right end; the rest is at the left end
    shrink = -math.expm1(-step)
    right = np.clip((p - q * np.exp(edges)) / shrink, 0.0, np.maximum(p, 0.0))
    masses = np.zeros(2 * cells + 1)
    masses[cells:-1] += p - right
    masses[cells + 1 :] += right
    # Losses below 0 mirror those above with x and x' exchanged: a cell [a, b] of masses p, q is a
    # cell [-b, -a] of masses q, p.
    mirrored = np.clip((q - p * np.exp(-edges - step)) / shrink, 0.0, np.maximum(q, 0.0))
    masses[1 : cells + 1][::-1] += mirrored
    masses[:cells][::-1] += q - mirrored
    # what is left has loss 0 exactly, or lies beyond the lattice
    masses[cells] += max(0.0, 1.0 - float(masses.sum()) - infinite)
    return LossLattice(step, -cells, np.maximum(masses, 0.0), infinite)


def composed_divergence(
    epsilon: float, blankets: Sequence[ResponseBlanket], *, delta: float, cells: int = 200
) -> float:
    """Return an upper bound on the divergence of several shuffled messages, in both orders.

    Losses that could add a hundred-thousandth of ``delta``, the approximate result, count as
    infinite; the lattice has ``cells`` steps up to epsilon.
    """
    step = epsilon / cells
    negligible = _NEGLIGIBLE * delta / len(blankets)
    losses = [blanket_losses(blanket, step, negligible) for blanket in blankets]
    total = sum(losses[1:], losses[0])
    return total.divergence(epsilon)


# Many copies of one mechanism

MAX_COPIES = 1 << 22
MAX_LOCAL = 60.0  # largest epsilon of a copy, and of the composition in a search for a copy's
_COPIES_SLACK = 1e-9  # relative error of a sum of binomial probabilities, generously
_LEAST = 1e-290  # exceeds what is lost if probabilities fall below the range of doubles


def optimal_delta(
    epsilon: float | Fraction,
    copies: int,
    local_epsilon: float | Fraction,
    local_delta: float | Fraction = 0,
) -> float:
    """Return the smallest delta for the composition of any equal private mechanisms.

    Parameters
    ----------
    epsilon : float
        Epsilon of the composition, at least 0.
    copies : int
        Number of mechanisms with independent randomness, from 1 to 2^22.
    local_epsilon, local_delta : float
        Guarantee of each: ``0 <= local_epsilon <= 60`` and ``0 <= local_delta <= 1``.

    Returns
    -------
    float
        Rounded up by a relative 1e-9 and 1e-290, for a local epsilon larger by a relative 1e-15;
        0.0 only if it is 0. No smaller one holds for all such mechanisms (KOV15, Theorem 3.3).

    Examples
    --------
    >>> from ikos.accounting import advanced_composition
    >>> delta = optimal_delta(1.0, 1000, 0.0053)
    >>> f"{delta:.3g}", round(advanced_composition([(0.0053, 0.0)] * 1000, delta)[0], 2)
    ('4.77e-11', 1.17)
    """
    eps = round_down(number("epsilon", epsilon, low=0))
    k = integer("copies", copies, low=1, high=MAX_COPIES)
    local = round_up(number("local_epsilon", local_epsilon, low=0, high=MAX_LOCAL))
    d0 = round_up(number("local_delta", local_delta, low=0, high=1))
    return copies_delta(eps, k, local, d0)


def copies_delta(eps: float, k: int, local: float, d0: float = 0.0) -> float:
    """Return `optimal_delta` for doubles that are already rounded."""
    covered = Fraction(eps) >= k * Fraction(local)  # exactly: no loss is above epsilon
    if covered and not d0:
        return 0.0
    response = 0.0 if covered else _response(eps, k, local)
    if d0 >= 1 or response >= 1:
        return 1.0
    together = -math.expm1(k * math.log1p(-d0) + math.log1p(-response))
    return min(1.0, together * (1 + _COPIES_SLACK) + _LEAST)  # also if a response came out as 0


@np.errstate(under="ignore")
def _response(eps: float, k: int, local: float) -> float:
    """Return R(eps) before it is rounded up, if some loss is above epsilon."""
    # Larger by more than the rounding below, where losses close to epsilon cancel.
    local *= 1 + 2.0**-50
    # Losses (k - 2 i) e0 above eps: i below (k - eps / e0) / 2.
    last = min(k, math.ceil((k - eps / local) / 2))
    chance = 1 / (1 + math.exp(local))
    spread = math.sqrt(k * chance) + 1
    # Below ``first`` there is less than e^-700, by Chernoff's bound.
    first = max(0, math.floor(min(last, k * chance) - 60 * spread - 60))
    total = 0.0
    for start in range(first, last + 1, 1 << 20):
        i = np.arange(start, min(last + 1, start + (1 << 20)), dtype=np.float64)
        beyond = np.minimum(eps - (k - 2 * i) * local, 0.0)
        total += float(np.dot(np.exp(log_pmf(i, k, chance)), -np.expm1(beyond)))
    return total


def optimal_local_epsilon(
    epsilon: float | Fraction,
    delta: float | Fraction,
    copies: int,
    local_delta: float | Fraction = 0,
) -> float:
    """Return the largest epsilon allowed for each of many mechanisms, rounded down.

    `optimal_delta` of it is at most delta, and exceeds delta for a number larger by a relative
    1e-7. At least ``epsilon / copies``, as basic composition allows.

    Parameters
    ----------
    epsilon, delta : float
        Guarantee of the composition, epsilon from 1e-100 to 60, delta in (0, 1).
    copies, local_delta
        As for `optimal_delta`. ValueError unless ``copies * local_delta`` is well below delta.

    Examples
    --------
    >>> round(optimal_local_epsilon(1.0, 1e-9, 1000), 5)
    0.00577
    """
    eps = round_down(number("epsilon", epsilon, above=0, low=1e-100, high=MAX_LOCAL))
    allowed = round_down(number("delta", delta, above=0, below=1))
    k = integer("copies", copies, low=1, high=MAX_COPIES)
    d0 = round_up(number("local_delta", local_delta, low=0, high=1))
    low, high = eps / k * (1 - 1e-15), MAX_LOCAL
    if copies_delta(eps, k, low, d0) > allowed:
        together = max(0.0, allowed - _LEAST) * (1 - 4 * _COPIES_SLACK)
        most = at_most(-math.expm1(math.log1p(-together) / k), 6)
        raise InvalidValue(
            "local_delta",
            f"must be at most {most} for {k} copies and "
            f"delta = {quote(delta)}, got {quote(local_delta)}",
        )

    def enough(local: float) -> bool:
        return copies_delta(eps, k, local, d0) <= allowed

    return bisect(enough, low, high, close=1e-7, geometric=True)
