"""Shuffled reports of any randomizer with a density: its own blanket's divergence, from both sides.

Every user sends one report through a shuffler. With omega the pointwise infimum of the densities of
all inputs, P and Q those of a user's two values, and Z = (P - e^eps Q)(Y) / omega(Y) for Y drawn
from omega (Z = 0 with the mass that omega lacks), the view's divergence is at most
E[(Z_1 + ... + Z_n)_+] / n (BBGN19). Z is discretized to a lattice, by a mean-preserving spread for
an upper bound and a contraction for a lower one, and convolved by a tilted Fourier transform with a
bound on its rounding: :ref:`proof-blanket-convolution`. The larger divergence of both orders of the
two values is taken.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise

import gmpy2
import numpy as np
import scipy
from gmpy2 import mpfr
from numpy.typing import ArrayLike, NDArray

from ikos._validation import (
    MAX_PROTOCOL_USERS,
    InvalidType,
    InvalidValue,
    doubles,
    integer,
    number,
    ordered,
    quote,
    round_down,
)
from ikos.accounting.blanket_lattice import (
    MAX_POINTS,
    TAIL_LOG_MASS,
    UNIT,
    Lattice,
    excess_over,
    merge,
    tilt,
)
from ikos.numeric.rounding import exp_down, rational
from ikos.numeric.search import crossing, log_excess
from ikos.numeric.underflow import may_underflow

Array = NDArray[np.float64]

_ABOUT = 1 + 1e-9
_CELLS = 4096  # of either half of the outputs
_MAX_CELLS = 1 << 23
_MAX_RATIO = 1e100  # of likelihoods; no number of users hides more, and its square is a double
_FINEST = 1 << 17  # most points of a lattice on either side of 0


@dataclass(frozen=True, eq=False)
class ReportLaw:
    """Distributions of a report: masses of cells of outputs, and likelihood ratios within each.

    Parameters
    ----------
    blanket, first, second : array
        Of each cell, the mass under omega and under the two values of the user, with a relative
        error of at most 2^-49. Omega is nowhere above the density of any value; its total may be
        below 1.
    first_ratio, second_ratio : (array, array)
        Least and largest density of either value over that of omega in the cell, likewise; at most
        1e100.
    lost : (float, float)
        Mass under either value outside all cells, which counts as revealed.

    Examples
    --------
    A uniform report of the interval [x - 1, x + 1]: half of it is the same for both values.

    >>> half = [0.5]
    >>> uniform = ReportLaw(half, half, half, ([1.0], [1.0]), ([1.0], [1.0]), lost=(0.5, 0.5))
    >>> report_delta(uniform, 0.1, 100)  # the other half is never hidden
    (0.0, 0.5)
    """

    blanket: Array
    first: Array
    second: Array
    first_ratio: tuple[Array, Array]
    second_ratio: tuple[Array, Array]
    lost: tuple[float, float] = (0.0, 0.0)

    def __post_init__(self) -> None:
        lost = [float(number("lost", mass, low=0, high=1)) for mass in ordered("lost", self.lost)]
        if len(lost) != 2:
            raise InvalidValue("lost", f"must have 2 masses, got {len(lost)}")
        object.__setattr__(self, "lost", tuple(lost))
        for name, missing in zip(("blanket", "first", "second"), (1.0, *lost), strict=True):
            masses = doubles(name, getattr(self, name))
            if not (masses.ndim == 1 and masses.size and np.all(masses >= 0)):
                raise InvalidValue(name, "must be a vector of masses, at least 0 and not NaN")
            total = math.fsum(masses)
            if not 1 - missing - 1e-9 <= total <= 1 + 1e-9:
                raise InvalidValue(name, f"must have a total mass of 1, got {total:.12g}")
            object.__setattr__(self, name, masses)
        if not np.all(self.blanket > 0):
            raise InvalidValue(
                "blanket", "must be positive in every cell: otherwise nothing is hidden"
            )
        for name in ("first", "second"):
            low, high = (doubles(f"{name}_ratio", end) for end in getattr(self, f"{name}_ratio"))
            with np.errstate(over="ignore"):
                mean = getattr(self, name) / self.blanket
            if not np.all((low >= 0) & (low <= mean * _ABOUT) & (mean <= high * _ABOUT)):
                raise InvalidValue(
                    f"{name}_ratio", f"must have {name} / blanket between, in each cell"
                )
            if not np.all(high <= _MAX_RATIO):
                raise InvalidValue(
                    f"{name}_ratio", f"must be at most {_MAX_RATIO:g}, more counts as lost"
                )
            object.__setattr__(self, f"{name}_ratio", (low, high))

    @cached_property
    def orders(self) -> tuple[ReportLaw, ...]:
        """The report, and that with the values exchanged unless it has the same cells."""
        turned = ReportLaw(
            self.blanket, self.second, self.first, self.second_ratio, self.first_ratio,
            self.lost[::-1],
        )  # fmt: skip
        same = self.lost == turned.lost and np.array_equal(self._cells, turned._cells)
        return (self,) if same else (self, turned)

    @property
    def _cells(self) -> Array:
        """The bounds on each cell, sorted by its masses."""
        laws = self.first, self.second, self.blanket, *self.first_ratio, *self.second_ratio
        return np.array(laws)[:, np.lexsort(laws[:3])]

    def together(self, other: ReportLaw) -> ReportLaw:
        """Return two independent reports in one message."""
        if self.blanket.size * other.blanket.size > _MAX_CELLS:
            raise InvalidValue("reports", f"must have at most {_MAX_CELLS} cells together")
        return self._with(other, lambda a, b: np.multiply.outer(a, b).ravel(), (1.0, 1.0))

    def either(self, other: ReportLaw, share: float | Fraction) -> ReportLaw:
        """Return a message that is one of two reports, and reveals which.

        Each user draws which one, whatever their value: this one with probability ``share``.
        """
        part = number("share", share, above=0, below=1)
        shares = float(part), float(1 - part)
        return self._with(other, lambda a, b: np.concatenate((a, b)), shares)

    def _with(
        self, other: ReportLaw, join: Callable[[Array, Array], Array], shares: tuple[float, float]
    ) -> ReportLaw:
        def masses(name: str) -> Array:
            return join(shares[0] * getattr(self, name), shares[1] * getattr(other, name))

        def ratios(name: str) -> tuple[Array, Array]:
            (a, b), (c, d) = getattr(self, name), getattr(other, name)
            return join(a, c), join(b, d)

        def lost(value: int) -> float:
            both = shares[0] * self.lost[value] + shares[1] * other.lost[value]
            return min(1.0, both * (1 + 4 * UNIT))

        return ReportLaw(
            masses("blanket"),
            masses("first"),
            masses("second"),
            ratios("first_ratio"),
            ratios("second_ratio"),
            (lost(0), lost(1)),
        )


Real = Callable[[mpfr], mpfr]


def noise_report(
    below: Real, ratio: Real, edges: ArrayLike, *, reach: float | Fraction = math.inf
) -> ReportLaw:
    """Return the report of a value in [0, 1] with symmetric noise of log-concave density f.

    For the values 0 and 1, which are not proved to be the worst. Reports that only one of them can
    send count as revealed.

    Parameters
    ----------
    below : callable
        Probability of noise of at most y. It takes and returns ``gmpy2.mpfr``, in a context of 160
        bits: use gmpy2's functions.
    ratio : callable
        Density ratio f(y) / f(1 - y) for y up to 1/2, likewise.
    edges : array
        Edges of the cells, increasing up to 1/2; those from there on mirror them. Reports below the
        first edge, and above its mirror image, count as revealed. It may be -inf.
    reach : float
        The noise is truncated to [-reach, reach], above 1/2.

    Examples
    --------
    Logistic noise of scale 1:

    >>> from gmpy2 import exp
    >>> logistic = noise_report(
    ...     lambda y: 1 / (1 + exp(-y)),
    ...     lambda y: exp(1 - 2 * y) * ((1 + exp(y - 1)) / (1 + exp(-y))) ** 2,
    ...     np.linspace(-30, 0.5, 2000),
    ... )
    >>> round(report_epsilon(logistic, 1e-6, 10**3), 4)
    0.0793
    """
    y = doubles("edges", edges)
    if not (y.ndim == 1 and y.size > 1 and np.all(y[1:] > y[:-1]) and y[-1] == 0.5):
        raise InvalidValue("edges", "must increase up to 1/2")
    with gmpy2.context(precision=160):
        points, outside = [mpfr(float(at)) for at in y], mpfr(0)
        if reach != math.inf:
            end = mpfr(rational(number("reach", reach, above=0.5)))
            if points[0] < 1 - end:
                points = [1 - end, *(at for at in points if at > 1 - end)]
            outside = below(-end)
        near, far = (
            [(below(at - value) - outside) / (1 - 2 * outside) for at in points] for value in (0, 1)
        )
        first, second = (
            np.array([float(b - a) for a, b in pairwise(each)]) for each in (near, far)
        )
        lost = float(near[0] + far[0]) * (1 + 1e-12)
        ratios = np.array([float(ratio(at)) for at in points])

    def halves(a: Array, b: Array) -> Array:
        return np.concatenate((a, b))

    low, high, ones = ratios[1:], ratios[:-1], np.ones(first.size)
    return ReportLaw(
        halves(second, second),
        halves(first, second),
        halves(second, first),
        (halves(low, ones), halves(high, ones)),
        (halves(ones, low), halves(ones, high)),
        (lost, lost),
    )


def laplace_report(
    local_epsilon: float | Fraction, cells: int = _CELLS, *, reach: float | Fraction = math.inf
) -> ReportLaw:
    """Return the report of a value in [0, 1] with Laplace noise of scale 1 / local_epsilon.

    For the values 0 and 1, which are the worst unless the noise is truncated by ``reach``, as for
    `noise_report`; the same if the report is rounded to [0, 1].
    """
    eps = rational(number("local_epsilon", local_epsilon, above=0, low=1e-20, high=20))
    count = integer("cells", cells, low=1, high=1 << 16)

    def below(y: mpfr) -> mpfr:
        tail = gmpy2.exp(-eps * abs(y)) / 2
        return tail if y < 0 else 1 - tail

    def ratio(y: mpfr) -> mpfr:
        return gmpy2.exp(eps * min(mpfr(1), 1 - 2 * y))

    edges = np.concatenate(([-math.inf], np.linspace(0, 0.5, count + 1)))
    return noise_report(below, ratio, edges, reach=reach)


@may_underflow()
def gaussian_report(
    sigma: float | Fraction,
    lost: float | Fraction = 1e-10,
    cells: int = _CELLS,
    *,
    reach: float | Fraction = math.inf,
) -> ReportLaw:
    """Return the report of a value in [0, 1] with Gaussian noise of standard deviation sigma.

    For the values 0 and 1, which are not proved to be the worst. Reports beyond [-L, 1 + L] count
    as revealed, where ``lost`` is about the probability of one below -L for the value 0: choose a
    tenth of delta, say. ``reach`` as for `noise_report`.
    """
    deviation = float(number("sigma", sigma, above=0, high=1e3))
    small = float(number("lost", lost, above=0, below=1))
    count = integer("cells", cells, low=1, high=1 << 16)
    least = float(scipy.special.ndtri(small)) * deviation
    if (1 - 2 * least) / (2 * deviation**2) > 60:
        raise InvalidValue("sigma", f"must be larger for lost = {small:g}, got {quote(sigma)}")
    with gmpy2.context(precision=160):
        scale = mpfr(deviation) * gmpy2.sqrt(mpfr(2))
    return noise_report(
        lambda y: gmpy2.erfc(-y / scale) / 2,
        lambda y: gmpy2.exp((1 - 2 * y) / scale**2),
        np.linspace(least, 0.5, count + 1),
        reach=reach,
    )


def sets_report(
    local_epsilon: float | Fraction, share: float | Fraction, common: float | Fraction
) -> ReportLaw:
    """Return the report of a value by a randomizer that prefers a set of messages for each value.

    For a value, a message of its set has e^local_epsilon times the probability of any other,
    relative to one fixed distribution: subset selection, unary encoding, local hashing.

    Parameters
    ----------
    local_epsilon : float
        Local epsilon of one report by itself.
    share, common : float
        Probability, under the fixed distribution, of any value's set, and an upper bound on that of
        the intersection of two values' sets.

    Examples
    --------
    Subsets of 5 out of 20 values:

    >>> subsets = sets_report(1, Fraction(5, 20), Fraction(5 * 4, 20 * 19))
    >>> round(report_epsilon(subsets, 1e-6, 10**3), 4)
    0.1039
    """
    odds = exp_down(number("local_epsilon", local_epsilon, above=0, high=60))
    part = number("share", share, above=0, below=1)
    both = number("common", common, low=max(0.0, float(2 * part - 1)), high=float(part))
    cells = [
        (mass / (1 + (odds - 1) * part), x, y)
        for mass, x, y in (
            (both, odds, odds),
            (part - both, odds, Fraction(1)),
            (part - both, Fraction(1), odds),
            (1 - 2 * part + both, Fraction(1), Fraction(1)),
        )
        if mass > 0
    ]
    masses = [[mass, mass * x, mass * y] for mass, x, y in cells]
    return _discrete(*np.array(masses, dtype=np.float64).T)


def _discrete(
    blanket: Array, first: Array, second: Array, lost: tuple[float, float] = (0.0, 0.0)
) -> ReportLaw:
    """Return the report with cells of one output each."""
    return ReportLaw(blanket, first, second, (first / blanket,) * 2, (second / blanket,) * 2, lost)


def discrete_report(law: object, first: int, second: int) -> ReportLaw:
    """Return the report with a row of output probabilities for each value, for two of the values.

    Outputs that some value never sends, or less than another one by a factor of 1e100, count as
    revealed.
    """
    rows = doubles("law", law)
    if rows.ndim != 2 or len(rows) < 2 or not np.all(rows >= 0):
        raise InvalidValue(
            "law", "must have at least two rows of probabilities, at least 0 and not NaN"
        )
    for row in rows:
        if abs(math.fsum(row) - 1) > 1e-12:
            raise InvalidValue("law", f"must have rows with a sum of 1, got {math.fsum(row):.15g}")
    pair = [
        integer(name, at, low=0, high=len(rows) - 1)
        for name, at in (("first", first), ("second", second))
    ]
    blanket = rows.min(axis=0)
    kept = blanket * _MAX_RATIO > rows.max(axis=0)
    if not kept.any():
        raise InvalidValue("law", "must have an output that every value can send")
    p, q = rows[pair[0]], rows[pair[1]]
    lost = (min(1.0, math.fsum(each[~kept]) * (1 + 1e-12)) for each in (p, q))
    return _discrete(blanket[kept], p[kept], q[kept], (next(lost), next(lost)))


def report_delta(report: ReportLaw, epsilon: float | Fraction, n: int) -> tuple[float, float]:
    """Return bounds on the divergence of the blanket for n shuffled reports, in both orders.

    Parameters
    ----------
    report : ReportLaw
        The report of every user.
    epsilon : float
        Epsilon of all reports together, positive and at most 60.
    n : int
        Number of users who follow the protocol, from 2 to 10^9.

    Returns
    -------
    (float, float)
        Shuffled reports are (epsilon, second)-private for the two values, even if everything but
        the blanket is known: the divergence of each value from the other is at most this. The first
        is a lower bound on E[(Z_1 + ... + Z_n)_+] / n, of the report's cells, in one of the orders;
        the others' inputs need not attain it. The second never exceeds the divergence of one report
        alone; it may be far above the first where reports hide little.

    Examples
    --------
    >>> low, high = report_delta(laplace_report(1.0), 0.0378431, 10**4)
    >>> high < 1.0001e-6, low / high > 0.995
    (True, True)
    """
    eps = round_down(number("epsilon", epsilon, above=0, high=60))
    users = integer("n", n, low=2, high=MAX_PROTOCOL_USERS)
    each = [_bounds(order, eps, users) for order in _checked(report).orders]
    return max(lower() for lower, _ in each), max(upper() for _, upper in each)


def _checked(report: object) -> ReportLaw:
    if not isinstance(report, ReportLaw):
        raise InvalidType(
            "report", f"must be a ReportLaw, such as laplace_report gives, got {report!r}"
        )
    return report


def _bounds(report: ReportLaw, eps: float, users: int) -> tuple[Callable[[], float], ...]:
    """Return functions that compute both bounds of `report_delta` in one order."""
    odds = math.exp(eps) * (1 - 4 * UNIT), math.exp(eps) * (1 + 4 * UNIT)
    slack = 64 * UNIT * (report.first_ratio[1] + odds[1] * report.second_ratio[1])
    means = (report.first - odds[0] * report.second) / report.blanket
    top = float((report.first_ratio[1] - odds[0] * report.second_ratio[0] + slack).max())
    if top <= 0:
        return lambda: 0.0, lambda: report.lost[0]
    # the standard deviation of the sum, and a lattice that its window can afford
    deviation = math.sqrt(users * float(np.dot(report.blanket, means**2)))
    reach = 1.1 * deviation * math.sqrt(2 * TAIL_LOG_MASS) + 2 * top
    points = min(MAX_POINTS, max(1 << 13, 1 << math.ceil(math.log2(2e3 * math.sqrt(users)))))
    step = top / math.ceil(top * points / (2 * reach))
    step = max(step, float(np.abs(means).max()) / _FINEST)  # if hardly a loss exceeds epsilon
    theta = tilt(report.blanket, means, users, max(top, step))
    zero = 1 - math.fsum(report.blanket)

    def upper() -> float:
        """Put each cell at the lattice points around its values, with the same mean."""
        least = report.first_ratio[0] - odds[1] * report.second_ratio[1] - slack
        most = report.first_ratio[1] - odds[0] * report.second_ratio[0] + slack
        low, high = np.floor(least / step), np.ceil(most / step)
        middle = np.clip((means + slack) / step, low, high)
        width = np.maximum(high - low, 1)
        masses = (
            report.blanket * (high - middle) / width,
            report.blanket * (middle - low) / width,
            [max(zero, 0.0) + 8 * UNIT],
        )
        spread = Lattice.of(np.concatenate((low, high, [0.0])), np.concatenate(masses))
        excess = spread.excess(theta, step, users, points)[1]
        # of one report: z_+ is at most its chord over a cell
        part = (np.clip(means + slack, least, most) - least) / (most - least)
        chord = part * np.maximum(most, 0) + (1 - part) * np.maximum(least, 0)
        alone = float(np.dot(report.blanket, chord)) * (1 + 2.0**-40)
        return min(1.0, min(excess, alone) + report.lost[0])

    def lower() -> float:
        """Merge cells until their means are on the lattice."""
        values = np.concatenate((means - slack, [0.0])) / step
        masses = np.concatenate((report.blanket, [max(zero - 8 * UNIT, 0.0)]))
        merged = merge(values, masses)
        loss = step * excess_over(values, masses, merged)
        return max(0.0, merged.excess(theta, step, users, points)[0] - loss)

    return lower, upper


def report_epsilon(report: ReportLaw, delta: float | Fraction, n: int) -> float:
    """Return an epsilon for which shuffled reports are (epsilon, delta)-private, rounded up.

    For both orders of the two values. Within about a millionth of the smallest epsilon at which the
    second bound of `report_delta` is at most delta, or below 1e-9; ValueError if there is none up
    to 60.

    Parameters
    ----------
    report, n
        As for `report_delta`.
    delta : float
        In (0, 1), and more than either mass of ``report.lost``, which it includes.

    Examples
    --------
    >>> round(report_epsilon(laplace_report(1.0), 1e-6, 10**3), 4)
    0.1302
    """
    small = round_down(number("delta", delta, above=max(_checked(report).lost), below=1))
    users = integer("n", n, low=2, high=MAX_PROTOCOL_USERS)

    def excess(eps: float) -> float:
        return log_excess(max(_bounds(order, eps, users)[1]() for order in report.orders), small)

    high = 0.01
    while excess(high) > 0:
        if high == 60:
            raise InvalidValue(
                "delta", f"must be larger for any epsilon up to 60, got {quote(delta)}"
            )
        high = min(4 * high, 60)
    while excess(low := high / 4) <= 0:
        if low < 1e-9:
            return low
        high = low
    return crossing(excess, low, high)
