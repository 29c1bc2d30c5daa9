"""Sums of independent losses on a lattice, by a tilted Fourier transform with bounded rounding.

Proofs: :ref:`proof-blanket-convolution`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import gmpy2
import numpy as np
import scipy
from gmpy2 import mpfr
from numpy.typing import NDArray

from ikos.numeric.search import crossing

Array = NDArray[np.float64]

UNIT = 2.0**-53
TAIL_LOG_MASS = 28.0  # windows of the sum leave out about e^-28 of their tilted mass
MAX_POINTS = 1 << 23  # of a Fourier transform


@np.errstate(under="ignore")
def tilt(masses: Array, values: Array, n: int, top: float) -> float:
    """Return theta > 0 at which E[Z e^(theta Z)] is about 0, or about 100 / top."""
    deviation = math.sqrt(float(np.dot(masses, values**2)))

    def mean(theta: float) -> float:
        return -float(np.dot(masses, values * np.exp(np.minimum(theta * values, 300.0))))

    high = 1e-3 / (deviation * math.sqrt(n))
    while mean(high) > 0 and high * top < 100:
        high *= 2
    if mean(high) > 0:
        return high
    while (before := mean(high / 2)) <= 0 and high * top > 1e-9:
        high /= 2
    return crossing(mean, high / 2, high) if before > 0 else high


@dataclass(frozen=True, eq=False)
class Lattice:
    """The distribution of J: ``masses[i]`` is the probability of ``first`` + i."""

    first: int
    masses: NDArray[Any]

    @classmethod
    def of(cls, places: Array, masses: Array) -> Lattice:
        """Return the distribution with these masses at these integers."""
        first = int(places.min())
        return cls(first, np.bincount((places - first).astype(np.int64), weights=masses))

    @np.errstate(under="ignore")
    def excess(self, theta: float, step: float, n: int, points: int) -> tuple[float, float]:
        """Return bounds on E[(J_1 + ... + J_n)_+] step / n, masses within 2^-47 of theirs."""
        places = self.first + np.arange(self.masses.size, dtype=np.float64)
        used = self.masses > 0
        places, masses = places[used], self.masses[used]
        slope = theta * step
        logs = np.log(masses) + slope * places
        mean = math.fsum(np.exp(logs))
        logs -= math.log(mean)
        tilted = np.exp(logs)
        while points < MAX_POINTS and _outside(places, logs, n, points) > math.exp(
            -TAIL_LOG_MASS / 2
        ):
            points *= 2
        folded = np.bincount((places % points).astype(np.int64), weights=tilted, minlength=points)
        transform = scipy.fft.rfft(folded)
        power, base, exponent = np.ones_like(transform), transform, n
        while exponent:
            if exponent & 1:
                power *= base
            exponent >>= 1
            if exponent:
                base = base * base
        probabilities = scipy.fft.irfft(power, points)
        j = np.arange(1, points // 2, dtype=np.float64)
        weights = j * np.exp(-slope * j)
        total = float(np.dot(weights, probabilities[1 : points // 2]))
        part = 32 * math.log2(points) * UNIT  # of the norms, for one transform
        grown = math.exp(n * part * math.sqrt(points) * float(np.linalg.norm(tilted)))
        error = grown * n * part * float(np.linalg.norm(tilted))
        error += (4 * n * UNIT + 2 * part) * float(np.linalg.norm(probabilities)) * grown
        error *= 1.01 * float(np.linalg.norm(weights))
        error += _outside(places, logs, n, points) / (math.e * slope)
        error += 2 * j.size * UNIT * float(np.dot(weights, np.abs(probabilities[1 : points // 2])))
        relative = n * 4 * UNIT * (float(np.abs(slope * places).max()) + 32)
        with gmpy2.context(precision=128):
            scale = gmpy2.exp(n * gmpy2.log(mpfr(mean)) + gmpy2.log(mpfr(step) / n))
            low, high = (
                float(scale * mpfr(total + sign * error) * gmpy2.exp(mpfr(sign * relative)))
                for sign in (-1, 1)
            )
        return low * (1 - 1e-12), high * (1 + 1e-12)


def _outside(places: Array, logs: Array, n: int, points: int) -> float:
    """Return a bound on the mass of the tilted sum outside the window, by Chernoff."""
    if n * float(np.abs(places).max()) < points / 2 - 1:
        return 0.0
    deviation = max(1.0, math.sqrt(float(np.dot(np.exp(logs), places * places))))
    total = 0.0
    for side in (-1, 1):
        best = math.inf
        for factor in (0.25, 0.5, 0.75, 1.0, 1.5, 2.0):
            rate = factor * math.sqrt(2 * TAIL_LOG_MASS / n) / deviation
            with np.errstate(over="ignore"):
                moment = float(np.exp(logs + side * rate * places).sum())
            best = min(best, n * math.log(moment) - rate * (points / 2 - 1))
        total += math.exp(min(best, 0.0))
    return min(1.0, total * math.exp(2 * n * places.size * UNIT))


def merge(values: Array, masses: Array) -> Lattice:
    """Return integers whose distribution is below that of the values in increasing convex order.

    Values are merged with others, from either end, until their mean is an integer. The rest of a
    run takes some of the mass placed beyond its integer, and goes down if there is none.
    """
    order = np.argsort(-values, kind="stable")
    z, w = values[order].tolist(), masses[order].tolist()
    split = int(np.searchsorted(-values[order], -values.min() / 2))
    placed: dict[int, float] = {}
    rests: list[tuple[int, int, float, float]] = []
    for side, run in ((1, range(split)), (-1, range(len(z) - 1, split - 1, -1))):
        mass = moment = 0.0  # of what is being merged; the moment is about its integer, the target
        target: int | None = None
        for i in run:
            value, remaining = side * z[i], w[i]
            while remaining > 0:
                if target is None:
                    target = math.floor(value)
                need = moment / (target - value) if value < target else math.inf
                if target == value and not mass:
                    need = remaining
                if need > remaining:
                    mass += remaining
                    moment += remaining * (value - target)
                    break
                placed[side * target] = placed.get(side * target, 0.0) + mass + need
                remaining -= need
                mass = moment = 0.0
                target = None
        if target is not None:
            rests.append((side, target, mass, moment))
    for side, target, mass, moment in reversed(rests):
        for place in sorted((p for p in placed if side * p < target), key=lambda p: -side * p):
            need = min(placed[place], moment / (target - side * place))
            placed[place] -= need
            mass += need
            moment -= need * (target - side * place)
        if side < 0 and moment > 1e-12 * mass:
            target += 1  # away from the middle is down
        placed[side * target] = placed.get(side * target, 0.0) + mass
    return Lattice.of(np.array(list(placed)), np.array(list(placed.values())))


def excess_over(values: Array, masses: Array, lower: Lattice) -> float:
    """Return a bound on the excess of E[(J - k)_+] of the lattice over that of the values."""
    places = lower.first + np.arange(lower.masses.size, dtype=np.float64)

    def excess(side: int) -> float:
        k = side * np.concatenate((values, places))
        k = k[k >= 0]
        bounds = []
        for z, w in ((places, lower.masses), (values, masses)):
            order = np.argsort(-side * z, kind="stable")
            mass = np.concatenate(([0.0], np.cumsum(w[order])))
            moment = np.concatenate(([0.0], np.cumsum((w * side * z)[order])))
            count = np.searchsorted(-side * z[order], -k)
            bounds.append(moment[count] - k * mass[count])
        return float((bounds[0] - bounds[1]).max(initial=0.0))

    # below 0, E[(Z - k)_+] = E[Z] - k + E[(k - Z)_+]
    mean = math.fsum(lower.masses * places) - math.fsum(masses * values)
    uneven = abs(math.fsum(lower.masses) - math.fsum(masses)) * float(np.abs(values).max() + 1)
    size = places.size + values.size
    rounding = 8 * size * UNIT * float(np.dot(masses, np.abs(values)))
    return max(excess(1), excess(-1) + max(mean, 0.0) + uneven) + rounding
