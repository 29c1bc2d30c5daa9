"""One message per user: a point of a grid, sometimes a random one (AFNNTZ24)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ikos._validation import InvalidValue, integer
from ikos.accounting.shuffled_response import THEOREMS, response_accountant, response_gamma
from ikos.baselines.base import Baseline, Description, checked, exact_sums
from ikos.data.domains import Ball, Bounds, Box
from ikos.data.encoding import encode
from ikos.numeric.search import bisect_integers
from ikos.primitives.randomized_response import debias, respond
from ikos.primitives.randomness import RandomSource
from ikos.primitives.shuffling import View
from ikos.results.conditions import alone
from ikos.results.error import Bounded, SumError

MAX_POINTS = 1 << 40  # largest number of grid points
MAX_GRID_DIMENSION = 40  # with two levels of each coordinate there are then 2^40 points


def _worst_variance(levels: int, gamma: float) -> float:
    """Return the largest variance of a coordinate's debiased answer, in units of squared width.

    m = i + f steps up, 0 <= f <= 1, it is ((1-g) f (1-f) + g r (r+2) / 12 + g (1-g) (m - r/2)^2) /
    (1-g)^2: concave in f, and largest in the last cell, at f = (1 + g (r-2)) / (2 (1-g)) or 1.
    """
    r, g = levels, gamma
    start = r / 2 - 1
    f = min(1.0, (1 + 2 * g * start) / (2 * (1 - g)))
    worst = f * (1 - f) + g * (start + f) ** 2
    return ((1 - g) * worst + g * r * (r + 2) / 12) / (1 - g) ** 2 / r**2


def _worst_total(levels: int, gamma: float, d: int, *, ball: bool) -> float:
    """Return a bound on the variance of all of a user's coordinates, in units of squared width.

    In a ball the squares of (m - r/2) over all coordinates add up to (r/2)^2, not to d times that.
    """
    each = d * _worst_variance(levels, gamma)
    if not ball:
        return each
    r, g = levels, gamma
    bound = (1 - g) * (d / 4 + g * r * r / 4) + g * d * r * (r + 2) / 12
    return min(each, bound / (1 - g) ** 2 / r**2)


@dataclass(frozen=True)
class Grids:
    """Grids for one message per user: the search for the number of steps of a coordinate.

    Errors are mean squared errors of the sum, in units of squared width.
    """

    users: int
    honest: int
    epsilon: Fraction
    delta: Fraction
    dimension: int
    ball: bool

    def error(self, levels: int) -> float:
        """Return the error of a grid; infinite if none is private."""
        points = (levels + 1) ** self.dimension
        gamma = response_gamma(self.epsilon, self.delta, self.honest, points)
        if gamma == 1:
            return math.inf
        return self.users * _worst_total(levels, float(gamma), self.dimension, ball=self.ball)

    @property
    def uninformed(self) -> float:
        """The error of the middle of the domain as an estimate, which needs no messages."""
        return self.users**2 / 4 * (1 if self.ball else self.dimension)

    def best(self) -> int:
        """Return the number of steps with the smallest error found by a search."""
        d, most = self.dimension, 1
        if d < MAX_GRID_DIMENSION:
            most = math.floor(MAX_POINTS ** (1 / d) * (1 - 1e-12)) - 1
        return _smallest(self.error, max(1, min(most, 1 << 20)))

    def refusal(self) -> ValueError:
        """Return the error for a domain with too many coordinates."""

        def works(d: int) -> bool:
            smaller = replace(self, dimension=d)
            return smaller.error(1) < smaller.uninformed

        most = bisect_integers(works, 0, MAX_GRID_DIMENSION + 1)
        terms = (
            f"{self.honest:,} honest users, epsilon = {float(self.epsilon):g} and delta = "
            f"{float(self.delta):.3g}"
        )
        if not most:
            return InvalidValue("n", f"must be larger: with {terms} one message reveals nothing")
        return InvalidValue(
            "domain",
            f"must have at most {most} coordinates for {terms}, got {self.dimension}: a "
            "larger grid hides the sum as well (use several messages per user)",
        )


def _smallest(error: Callable[[int], float], most: int) -> int:
    """Return the minimizer of a function on {1..most} that falls and then rises."""
    high = 1
    while 2 * high <= most and error(2 * high) < error(high):
        high *= 2
    return 1 + bisect_integers(lambda r: error(r + 1) < error(r), high // 2, min(2 * high, most))


@dataclass(frozen=True, init=False, repr=False)
class SingleMessageGrid(Baseline):
    """One message per user: its vector on a grid, or with some probability any point of the grid.

    Each user rounds every coordinate at random to one of {0..levels} steps between its bounds, and
    sends the point as one integer, or with probability gamma a uniform one of the ``(levels +
    1)^d`` points (AFNNTZ24, Algorithms 5 and 6). The mean squared error grows as ``d n^(d/(d+2))
    epsilon^(-4/(d+2))`` if there are enough users for several levels.

    Parameters
    ----------
    n, epsilon, delta, min_honest
        As for `Baseline`.
    domain : Box or Ball
        The set of the vectors, of at most 40 coordinates. A ball is put into the smallest box.
    levels : int, optional
        Steps r of each coordinate; by default the number with the smallest error that a search
        finds.

    Attributes
    ----------
    gamma : Fraction
        Probability of a random point: the smallest that the exact accountant finds for
        (r + 1)^d values.

    Raises
    ------
    ValueError
        Also if the error would be no smaller than that of the middle of the domain, which needs no
        message: the number of points is exponential in d.

    Examples
    --------
    >>> from ikos import Box
    >>> protocol = SingleMessageGrid(10**4, Box(3, -1, 1), epsilon=1, delta=1e-8)
    >>> protocol.levels, protocol.points, round(protocol.mse)
    (2, 27, 13056)
    """

    levels: int
    gamma: Fraction

    def __init__(
        self,
        n: int,
        domain: Box | Ball,
        epsilon: float | Fraction,
        delta: float | Fraction,
        *,
        levels: int | None = None,
        min_honest: int | None = None,
    ) -> None:
        terms = checked(n, domain, epsilon, delta, min_honest, (Box, Ball))
        d, (eps, small, honest) = domain.dimension, terms._budget
        grids = Grids(terms.n, honest, eps, small, d, isinstance(domain, Ball))
        if d > MAX_GRID_DIMENSION:
            raise grids.refusal()
        r = grids.best() if levels is None else integer("levels", levels, low=1)
        points = (min(r, MAX_POINTS) + 1) ** d
        if points > MAX_POINTS:
            raise InvalidValue(
                "levels", f"must leave at most 2^40 points of a grid in {d} dimensions, got {r}"
            )
        if grids.error(r) >= grids.uninformed:
            if r == 1 or levels is None:
                raise grids.refusal()
            raise InvalidValue(
                "levels",
                f"must be smaller, got {r}: the error would be that of the middle of the "
                "domain or larger",
            )
        self._init(terms, levels=r, gamma=response_gamma(eps, small, honest, points))

    def _describe(self) -> Description:
        proof = response_accountant(self.epsilon, self.min_honest, self.points, self.gamma)
        return self._described(
            f"{self.domain}, {self.levels} steps of each coordinate, a random point with "
            f"probability {float(self.gamma):.4g}",
            f"{THEOREMS[proof]}, for {self.points:,} points (AFNNTZ24, Lemma 3.1)",
            self._answering,
            alone(),
            # From one corner of the box to the opposite one, over 1 - gamma: for a ball, more than
            # sqrt(d) times its diameter.
            influence=self.box.width * math.sqrt(self.dimension) / float(1 - self.gamma),
            sent=(1, (self.points - 1).bit_length()),
        )

    @property
    def points(self) -> int:
        """Number of grid points, which are the possible messages, (levels + 1)^d."""
        count: int = (self.levels + 1) ** self.dimension
        return count

    @property
    def box(self) -> Bounds:
        """Bounds on each coordinate."""
        if isinstance(self.domain, Ball):
            return Bounds(-self.domain.reach, self.domain.reach)
        assert isinstance(self.domain, Box)
        return self.domain.bounds

    def _error(self, users: int) -> SumError:
        g, width = float(self.gamma), self.box.width
        each = users * width**2 * _worst_variance(self.levels, g)
        ball = isinstance(self.domain, Ball)
        total = users * width**2 * _worst_total(self.levels, g, self.dimension, ball=ball)
        # Largest distance of one user's debiased answer from the value that it stands for.
        largest = width * (1 - g / 2) / (1 - g) * (1 + 1e-12)
        return SumError(Bounded(each, largest), total)

    def expected_square(self, x: ArrayLike) -> float:
        """Return the exact mean squared error of a sum of given vectors, up to rounding of doubles.

        ``x`` holds vectors of the domain, (k, d), ``min_honest <= k <= n``; nothing is sent.
        """
        r, g = self.levels, float(self.gamma)
        total = 0.0
        values = self._values(x)
        for rows in self._rows(values):
            m = self.box.unit(rows) * r
            f = m - np.floor(m)
            total += float(((1 - g) * (f * (1 - f) + g * (m - r / 2) ** 2)).sum())
        total += values.size * g * r * (r + 2) / 12
        return total / (1 - g) ** 2 * (self.box.width / r) ** 2

    def _messages(self, rows: NDArray[np.float64], rng: RandomSource) -> NDArray[Any]:
        # Each coordinate lies within the box, also for a ball: a computed norm is off by less than
        # its tolerance. So the parts are in [0, 1], and the point is on the grid.
        rounded = encode(self.box.unit(rows).reshape(-1), self.levels, rng).reshape(rows.shape)
        places = (self.levels + 1) ** np.arange(self.dimension, dtype=np.int64)
        points = rounded @ places
        return respond(points, self.points, self.gamma, rng)[np.newaxis]

    def _users_of(self, view: View) -> int:
        return int(self._below(view, "points", self.points)[0].size)

    def _totals(self, view: View, users: int) -> NDArray[np.float64]:
        # Points are below 2^40, so that they fit; 10^9 steps of 2^40 would not add up in int64.
        base, points = self.levels + 1, view.columns[0].astype(np.int64, copy=False)
        totals = []
        for _ in range(self.dimension):
            points, digit = np.divmod(points, base)
            steps = debias(int(exact_sums(digit)), users, base, self.gamma)
            totals.append(self.box.total(steps / self.levels, users))
        return np.array(totals)
