"""Composition: what several shuffled messages of one user guarantee together.

Basic and advanced composition for any mechanisms, and numerical composition of the exact privacy
losses of several privacy blankets.

A privacy loss is put on a lattice as its hockey-stick curve demands: a piece of mass p under x and
q under x' with losses between two neighbouring points goes to these two points such that both
masses are kept. The curve of the result is the chord between the points, and a hockey-stick
curve is convex, so that the result is at most *less* private ("connecting the dots": Doroshenko,
Ghazi, Kamath, Kumar, Manurangsi, PoPETs 2022). Losses of independent messages add, masses are
convolved term by term: all terms are positive, and unlike with Fourier transforms a delta of 1e-18
keeps its relative precision.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ikos._validation import integer, number, quote
from ikos.accounting.blanket import MAX_TERMS, SLACK, ResponseBlanket, TooManyTermsError

__all__ = ["LossLattice", "blanket_losses"]

_NEGLIGIBLE = 1e-5
"""The part of delta that losses beyond the lattice may make up."""

_MAX_CELLS = 2000
"""Most steps of a lattice above 0."""

Budget = tuple[float | Fraction, float | Fraction]


def _budgets(budgets: object) -> tuple[list[Fraction], list[Fraction]]:
    """Check and return the epsilons and the deltas of some mechanisms, of one at least."""
    if not isinstance(budgets, Iterable):
        raise TypeError(f"budgets must hold pairs (epsilon, delta), got {_shown(budgets)}")
    pairs = [_pair(budget) for budget in budgets]
    if not pairs:
        raise ValueError("budgets must hold at least one (epsilon, delta), got none")
    return [epsilon for epsilon, _ in pairs], [delta for _, delta in pairs]


def _pair(budget: object) -> tuple[Fraction, Fraction]:
    if not isinstance(budget, Collection):
        raise TypeError(f"budgets must hold pairs (epsilon, delta), got one of {_shown(budget)}")
    if len(budget) != 2:
        raise ValueError(f"budgets must hold pairs (epsilon, delta), got one of {_shown(budget)}")
    epsilon, delta = budget
    return number("epsilon", epsilon, low=0), number("delta", delta, low=0, high=1)


def _shown(value: object) -> str:
    return f"{type(value).__name__} {quote(value)}"


def _up(value: float) -> float:
    return value * (1 + 1e-14)


def basic_composition(budgets: Sequence[Budget]) -> tuple[float, float]:
    """Return the sums of epsilons and of deltas, rounded up.

    Parameters
    ----------
    budgets : sequence of (epsilon, delta)
        Of mechanisms with independent randomness.

    Raises
    ------
    TypeError, ValueError
        If an argument is of the wrong kind or out of range.

    Examples
    --------
    >>> basic_composition([(0.5, 0.0), (0.25, 0.0)])
    (0.7500000000000075, 0.0)
    """
    epsilons, deltas = _budgets(budgets)
    return _up(float(sum(epsilons))), min(1.0, _up(float(sum(deltas))))


def advanced_composition(budgets: Sequence[Budget], slack: float | Fraction) -> tuple[float, float]:
    """Return the guarantee of several mechanisms by advanced composition, rounded up.

    Parameters
    ----------
    budgets : sequence of (epsilon, delta)
        Of mechanisms with independent randomness.
    slack : float
        The delta that the theorem spends, in (0, 1).

    Returns
    -------
    (float, float)
        epsilon = sum eps_j tanh(eps_j / 2) + sqrt(2 ln(1/slack) sum eps_j^2), or that of basic
        composition where it is smaller, and delta = slack + sum delta_j (Kairouz, Oh, Viswanath,
        *The Composition Theorem for Differential Privacy*, ICML 2015, Theorem 3.5).

    Raises
    ------
    TypeError, ValueError
        If an argument is of the wrong kind or out of range.

    Examples
    --------
    >>> epsilon, delta = advanced_composition([(0.01, 0.0)] * 1000, 1e-9)
    >>> round(epsilon, 3), delta <= 1.1e-9
    (2.086, True)
    """
    epsilons, deltas = _budgets(budgets)
    spent = float(number("slack", slack, above=0, below=1))
    mean = math.fsum(float(eps) * math.tanh(float(eps) / 2) for eps in epsilons)
    squares = math.fsum(float(eps) ** 2 for eps in epsilons)
    together = _up(mean + math.sqrt(-2 * math.log(spent) * squares))
    delta = min(1.0, _up(spent + float(sum(deltas))))
    return min(together, _up(float(sum(epsilons)))), delta


@dataclass(frozen=True, eq=False)
class LossLattice:
    """A privacy loss on a lattice that is at most as private as the mechanism it stands for.

    Attributes
    ----------
    step : float
        Between neighbouring losses.
    first : int
        The smallest loss, in steps.
    masses : (k,) ndarray
        Mass, under one of the neighbouring inputs, of the losses ``step (first + i)``.
    infinite : float
        Mass of an infinite loss.
    """

    step: float
    first: int
    masses: NDArray[np.float64]
    infinite: float

    def __add__(self, other: LossLattice) -> LossLattice:
        """Return the loss of both mechanisms together; on the same lattice."""
        if self.step != other.step:
            raise ValueError(f"step must be {self.step!r} for both, got {other.step!r}")
        return LossLattice(
            self.step,
            self.first + other.first,
            np.convolve(self.masses, other.masses),
            self.infinite + other.infinite,
        )

    def divergence(self, epsilon: float) -> float:
        """Return an upper bound of the hockey-stick divergence of order e^epsilon."""
        losses = self.step * (self.first + np.arange(self.masses.size))
        above = losses > epsilon
        finite = np.dot(self.masses[above], -np.expm1(epsilon - losses[above]))
        return min(1.0, (float(finite) + self.infinite) * (1 + SLACK))


@lru_cache(maxsize=256)
def blanket_losses(
    blanket: ResponseBlanket, step: float, negligible: float, most_terms: int = MAX_TERMS
) -> LossLattice:
    """Return the privacy loss of shuffled randomized response on a lattice.

    Parameters
    ----------
    blanket : ResponseBlanket
        What is shuffled.
    step : float
        Of the lattice.
    negligible : float
        Losses beyond a point above which no more than this mass lies count as infinite.
    most_terms : int
        Of one point of the loss; TooManyTermsError for more.
    """
    points, inside, outside, curve = [0.0], [], [], []
    mass_here, mass_there, delta = blanket.tails(0.0, most_terms)
    inside.append(mass_here)
    outside.append(mass_there)
    curve.append(delta)
    while inside[-1] > negligible:
        if len(points) > _MAX_CELLS:
            raise TooManyTermsError(
                f"epsilon must be larger for exact losses: they reach {_MAX_CELLS} times as far as "
                f"a step of {step:.3g}; use composition='basic'"
            )
        epsilon = step * len(points)
        mass_here = mass_there = delta = 0.0
        if epsilon < blanket.local_epsilon:
            mass_here, mass_there, delta = blanket.tails(epsilon, most_terms)
        points.append(epsilon)
        inside.append(mass_here)
        outside.append(mass_there)
        curve.append(delta)
    cells = len(points) - 1
    upper, lower = (np.array(side) for side in (inside, outside))
    p, q = upper[:-1] - upper[1:], lower[:-1] - lower[1:]
    left = step * np.arange(cells)
    # of mass p with likelihood ratio p / q, the part at the right end; the rest is at the left end
    shrink = -math.expm1(-step)
    right = np.clip((p - q * np.exp(left)) / shrink, 0.0, np.maximum(p, 0.0))
    masses = np.zeros(2 * cells + 1)
    middle = cells
    masses[middle : middle + cells] += p - right
    masses[middle + 1 : middle + cells + 1] += right
    # Losses below 0 mirror those above with x and x' exchanged: a cell [a, b] of masses p, q is
    # a cell [-b, -a] of masses q, p.
    mirrored = np.clip((q - p * np.exp(-left - step)) / shrink, 0.0, np.maximum(q, 0.0))
    masses[middle - cells + 1 : middle + 1][::-1] += mirrored
    masses[middle - cells : middle][::-1] += q - mirrored
    # what is left has loss 0 exactly, or lies beyond the lattice
    rest = max(0.0, 1.0 - float(masses.sum()) - float(upper[-1]))
    masses[middle] += rest
    return LossLattice(step, -cells, np.maximum(masses, 0.0), float(upper[-1]))


def composed_divergence(
    epsilon: float,
    blankets: Sequence[ResponseBlanket],
    *,
    delta: float,
    cells: int = 200,
    most_terms: int = MAX_TERMS,
) -> float:
    """Return an upper bound of the divergence of several shuffled messages of one user.

    Parameters
    ----------
    epsilon : float
        Of order e^epsilon, positive.
    blankets : sequence of ResponseBlanket
        One for each message; each is shuffled apart from the others.
    delta : float
        About what is expected: losses that could add a hundred-thousandth of it are infinite.
    cells : int
        Steps of the lattice between 0 and epsilon; more are tighter and take longer.
    most_terms : int
        Of one point of a loss; ValueError where it would take more.

    Examples
    --------
    >>> from fractions import Fraction
    >>> one = ResponseBlanket(10**4, 7, Fraction(0.0399))
    >>> 1 <= composed_divergence(1.0, [one], delta=1e-8) / one.divergence(1.0) < 1.01
    True
    """
    if not blankets:
        raise ValueError("blankets must hold at least one message's, got none")
    step = float(number("epsilon", epsilon, above=0)) / integer("cells", cells, low=1)
    negligible = _NEGLIGIBLE * delta / len(blankets)
    total: LossLattice | None = None
    for blanket in blankets:
        losses = blanket_losses(blanket, step, negligible, most_terms)
        total = losses if total is None else total + losses
    assert total is not None
    return total.divergence(epsilon)
