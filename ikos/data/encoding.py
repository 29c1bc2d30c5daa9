"""Values of a domain as integers in {0..p} and back: randomized rounding and recentring.

BBGN20, Section 5.3 and Appendix F. The precision p must be an integer: with any other scale the
sensitivity would be its ceiling, and the privacy budget would be exceeded.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ikos._validation import InvalidType, InvalidValue, flag, integer
from ikos.data.domains import TOLERANCE, Bounds, Coordinates, Domain, Vectors, whole
from ikos.data.sensitivity import Sensitivity, Shift
from ikos.primitives.concurrency import Scratch
from ikos.primitives.modular import blocks
from ikos.primitives.randomness import RandomSource

MAX_PRECISION = 1 << 52
_ROUNDING_BITS = 53  # random bits that decide a rounding, in total
_FIRST_BITS = 16  # random bits drawn at first: they decide all but one value in 2^16
_NARROW_BITS = 18  # bits of a precision up to which int32 has room for 13 random bits next to it

_VALUES_PER_CALL = 1 << 18  # values: threads lose time at each call of numpy
_BLOCK = 1 << 21

_SLACK = Fraction(1, 1 << 50)
"""A coordinate is scaled to {0..p} in four roundings to doubles, each with a relative error of
2^-53: within half of this times p. The bits that decide a rounding add 2^-53 to the bias."""


def encode(
    x: NDArray[np.float64],
    p: int,
    rng: RandomSource,
    *,
    bounds: Bounds | None = None,
    out: NDArray[Any] | None = None,
    scratch: Scratch | None = None,
) -> NDArray[Any]:
    """Round x p to one of its two neighbouring integers at random, without bias, for p <= 2^52.

    ``x`` holds doubles in [0, 1], or between ``bounds``. The results are always in {0..p}: the
    sensitivity is exactly p. The expectation is the double nearest to x p, up to 2^-53. Results are
    written to ``out``, of any type that holds p, if it is given.

    Privacy rests only on the range {0..p}, which floating point cannot leave: with d digits drawn
    at first, the whole part of x p 2^d is a number of at most p with d binary digits behind the
    point, and the amount added to it is below 1. A value is rounded up when the digits F of its
    fraction and d random ones, H, carry: F + H >= 2^d. If F + H = 2^d - 1, there is a tie, which 53
    - d more random bits decide: up, if they are below the rest of the fraction.
    """
    result = np.empty(x.size, dtype=np.int64) if out is None else out
    narrow = p.bit_length() <= _NARROW_BITS
    digits = min(_FIRST_BITS, (31 if narrow else 62) - p.bit_length())
    ones, scale = (1 << digits) - 1, float(p << digits)
    memory, size = scratch or Scratch(), min(x.size, _VALUES_PER_CALL)
    scaled, drawn = memory("scaled", size, np.float64), memory("drawn digits", size, np.uint16)
    fixed = memory("fixed", size, np.int32 if narrow else np.int64)
    behind, tie = memory("behind", size, fixed.dtype), memory("tie", size, np.bool_)
    ties: list[NDArray[np.int64]] = []
    rests: list[NDArray[np.float64]] = []
    for part in blocks(x.size, _VALUES_PER_CALL):
        length = part.stop - part.start
        scaled, drawn = scaled[:length], drawn[:length]
        fixed, behind = fixed[:length], behind[:length]
        units = x[part] if bounds is None else bounds.unit(x[part], out=scaled)
        np.multiply(units, scale, out=scaled)
        np.copyto(fixed, scaled, casting="unsafe")
        rng.fill(drawn)
        if digits < 16:
            np.right_shift(drawn, 16 - digits, out=drawn)
        np.add(fixed, drawn, out=fixed)
        np.bitwise_and(fixed, ones, out=behind)
        if np.maximum.reduce(behind) == ones:
            tied = np.flatnonzero(np.equal(behind, ones, out=tie[:length]))
            rests.append(scaled[tied] - np.floor(scaled[tied]))  # exact, for doubles
            ties.append(part.start + tied)
        np.right_shift(fixed, digits, out=fixed)
        np.copyto(result[part], fixed, casting="unsafe")
    if ties:
        more = rng.uniform(1 << (_ROUNDING_BITS - digits), sum(tied.size for tied in ties))
        ups = more < np.concatenate(rests) * (1 << (_ROUNDING_BITS - digits))
        result[np.concatenate(ties)[ups]] += 1
    return result


def steps_of(
    values: NDArray[np.float64], bounds: Bounds, p: int, rng: RandomSource
) -> NDArray[np.int64]:
    """Return checked values as steps in {0..p}, rounded at random unless all are whole steps."""
    if bounds.rounding(p):
        return encode(bounds.unit(values), p, rng)
    # differences of integers are below 2^53 and exact, and products are at most p
    return (values - bounds.lower).astype(np.int64) * (p // int(bounds.width))


def decode(z: int, users: int, p: int, q: int) -> int:
    """Return the noisy sum of encodings represented by a sum ``z`` modulo q, q > users p.

    The true sum lies in {0..users p}, and sum plus noise most likely in the window of q integers
    around it: z > (users p + q) / 2 becomes z - q.
    """
    return z - q if 2 * z > users * p + q else z


@dataclass(frozen=True)
class Encoding(Coordinates):
    """The encoding of numbers and vectors in {0..precision}, rounded unless they are exact.

    Then the precision is a multiple of ``upper - lower``.
    """

    precision: int = field(kw_only=True)

    @property
    def step(self) -> float:
        """Data units of one step."""
        return self.bounds.width / self.precision

    def shift(self, dimension: int) -> Shift:
        """Return bounds on the shift of a sum of encodings by replacing one user."""
        p = self.precision
        if self.promise is None:
            return Sensitivity(linf=p).steps(dimension)
        width = Fraction(self.bounds.upper) - Fraction(self.bounds.lower)
        scale, bias = Fraction(p) / width, None if self.exact else (p + 1) * _SLACK
        shift = self.promise.steps(dimension, scale=scale, bias=bias, most=p)
        # integers that differ are one or more apart
        moved = int(shift.l1 / scale) if self.exact else dimension
        return replace(shift, moved=min(dimension, moved))

    def encode(
        self,
        values: NDArray[Any],
        rng: RandomSource,
        out: NDArray[Any] | None = None,
        scratch: Scratch | None = None,
    ) -> NDArray[Any]:
        """Return checked values of any shape as steps, rounded at random where necessary.

        They are written to ``out``, one-dimensional, if it is given.
        """
        flat = values.reshape(-1).astype(np.float64, copy=False)
        steps = np.empty(flat.size, dtype=np.int64) if out is None else out
        if self.exact:
            # differences of integers are below 2^53 and exact, and products are at most p
            steps[:] = (flat - self.bounds.lower).astype(np.int64)
            steps *= self.precision // int(self.bounds.width)
        else:
            encode(flat, self.precision, rng, bounds=self.bounds, out=steps, scratch=scratch)
        return steps.reshape(values.shape)

    def check(self, values: NDArray[Any], first: int = 0) -> None:
        """Refuse values that visibly break a promise; the domain was checked before.

        A promised sensitivity is refuted by two users whose vectors are further apart. In the linf
        norm all pairs are compared, in other norms each vector with the first. Messages count users
        from ``first``.
        """
        if not (self.exact or self.promised):
            return
        for part in blocks(values.shape[0], max(1, _BLOCK // math.prod(values.shape[1:]))):
            rows = values[part].astype(np.float64, copy=False)
            number = first + part.start
            if self.exact:
                whole(rows, number)
            if self.promised:
                apart = np.abs(rows - values[0].astype(np.float64)).reshape(len(rows), -1)
                with np.errstate(under="ignore"):
                    norms = {"l1": apart.sum(axis=1), "l2": np.sqrt((apart**2).sum(axis=1))}
                for norm, distances in norms.items():
                    worst = int(np.argmax(distances))
                    self._kept(norm, distances[worst], number + worst, first)
        if self.promised:
            flat = values.reshape(len(values), -1)
            low, high = flat.min(axis=0).astype(np.float64), flat.max(axis=0).astype(np.float64)
            j = int(np.argmax(high - low))
            least, most = (first + int(end) for end in (flat[:, j].argmin(), flat[:, j].argmax()))
            self._kept("linf", high[j] - low[j], least, most)

    def _kept(self, norm: str, apart: float, user: int, other: int) -> None:
        """Refuse vectors of two users that are further apart than promised."""
        bound = getattr(self.promise, norm)
        # computed norms are within this relative distance of the true ones
        if bound is not None and apart > float(bound) * (1 + 4 * TOLERANCE):
            raise InvalidValue(
                f"x[{user}]",
                f"must differ from x[{other}] by at most {float(bound):g} in {norm}, as promised",
                row=user,
            )


def coordinates_of(domain: Domain, integers: object, sensitivity: object) -> Coordinates:
    """Return what the encoding of a domain of vectors depends on."""
    whole = flag("integers", integers)
    if sensitivity is not None and not isinstance(sensitivity, Sensitivity):
        raise InvalidType("sensitivity", f"must be a Sensitivity, got {type(sensitivity).__name__}")
    if not isinstance(domain, Vectors):
        raise InvalidType(
            "domain",
            f"must be of vectors, such as a Box or Categories, got {type(domain).__name__}",
        )
    return domain.coordinates(whole, sensitivity)


def encoding_of(known: Coordinates, precision: object) -> Callable[[int], Encoding] | Encoding:
    """Return the encoding of a domain, or a function of the precision while that is still open."""

    def encoding(precision: int) -> Encoding:
        return Encoding(**vars(known), precision=precision)

    if known.exact:
        return encoding(known.bounds.whole_steps(precision))
    if precision is not None:
        return encoding(integer("precision", precision, low=1, high=MAX_PRECISION))
    return encoding


def converge(
    make: Callable[[int], Encoding], signal: Callable[[Encoding], float], spread: float
) -> Encoding:
    """Return the coarsest encoding, to a factor of two, at which rounding costs about 1 % or less.

    ``signal``, the range of a coordinate over the standard deviation of the noise, must be within
    1 % of its limit, and the variance of rounding in the sum, ``spread^2`` in steps, at most 1 % of
    the variance of the noise.
    """
    limit = signal(make(1 << 45))
    p = 1
    while p < 1 << 45:
        ratio = signal(make(p))
        if ratio >= 0.99 * limit and spread * ratio <= p / 10:
            break
        p *= 2
    return make(p)
