"""Reals in [0, 1] to integers in {0..p} and back: randomized rounding and recentring.

BBGN20, Section 5.3 and Appendix F. The precision p is an integer: with any other scale the
sensitivity would be its ceiling, and the privacy budget would be exceeded.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ikos.bounds import Bounds
from ikos.modular import BLOCK, blocks
from ikos.randomness import RandomSource

MAX_PRECISION = 1 << 52
_ALL = 53  # random bits that decide a rounding, in all
_FIRST = 16  # of them, that are drawn at once: all that it takes, but for one value in 2^16
_NARROW = 18  # bits of a precision up to which there is room for 13 of them next to it in int32


def encode(
    x: NDArray[np.float64],
    p: int,
    rng: RandomSource,
    *,
    bounds: Bounds | None = None,
    out: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """Round x p to one of its two neighbouring integers at random, without bias.

    Parameters
    ----------
    x : (n,) ndarray of float64
        Values in [0, 1], or within ``bounds``.
    p : int
        Precision, from 1 to 2^52.
    rng : RandomSource
        Decides the rounding.
    bounds : Bounds, optional
        Between which the values are; they are encoded as parts of the way.
    out : (n,) ndarray, optional
        Where to write; any type that holds p.

    Returns
    -------
    (n,) ndarray of int64
        Values in {0..p}, whatever the rounding: the sensitivity is exactly p. The expectation is
        the double nearest to x p, up to 2^-53. ``out`` where it is given.

    Notes
    -----
    Floating point is harmless here. Privacy rests on the range {0..p} alone, which it cannot
    leave. With d digits drawn at first, x p 2^d <= p 2^d, a double, and its whole part is a
    number of at most p with d binary digits behind the point. What is added to it is below 1, and
    p has no digits to carry from.

    It is rounded up when the digits F of its fraction and as many random ones, H, carry: F + H >=
    2^d, which F of the 2^d values of H do. One further value, F + H = 2^d - 1, is a tie, which
    53 - d more random bits decide: up, if they are below the rest of the fraction, which doubles
    hold exactly. Of the 2^53 values of all bits together, as many round up as there are multiples
    of 2^-53 in [0, fraction), which is what comparing a number of 53 random bits would do.
    """
    result = np.empty(x.size, dtype=np.int64) if out is None else out
    narrow = p.bit_length() <= _NARROW
    digits = min(_FIRST, (31 if narrow else 62) - p.bit_length())
    ones, scale = (1 << digits) - 1, float(p << digits)
    size = min(x.size, BLOCK)
    scaled = np.empty(size, dtype=np.float64)
    drawn = np.empty(size, dtype=np.uint16)
    fixed = np.empty(size, dtype=np.int32 if narrow else np.int64)
    behind = np.empty_like(fixed)
    ties: list[NDArray[np.int64]] = []
    rests: list[NDArray[np.float64]] = []
    for part in blocks(x.size):
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
            tied = np.flatnonzero(behind == ones)
            rests.append(scaled[tied] - np.floor(scaled[tied]))  # exact, for doubles
            ties.append(part.start + tied)
        np.right_shift(fixed, digits, out=fixed)
        np.copyto(result[part], fixed, casting="unsafe")
    if ties:
        more = rng.uniform(1 << (_ALL - digits), sum(tied.size for tied in ties))
        ups = more < np.concatenate(rests) * (1 << (_ALL - digits))
        result[np.concatenate(ties)[ups]] += 1
    return result


def decode(z: int, users: int, p: int, q: int) -> int:
    """Return the noisy sum of encodings that an element of Z_q stands for.

    The true sum lies in {0..users p}; the window of q integers centred on that range is the
    likeliest place for sum plus noise: z > (users p + q) / 2 becomes z - q.

    Parameters
    ----------
    z : int
        Sum modulo q.
    users : int
        How many users' reports were added.
    p, q : int
        Precision and modulus, q > users p.
    """
    return z - q if 2 * z > users * p + q else z
