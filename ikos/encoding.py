"""Reals in [0, 1] to integers in {0..p} and back: randomized rounding and recentring.

BBGN20, Section 5.3 and Appendix F. The precision p is an integer: with any other scale the
sensitivity would be its ceiling, and the privacy budget would be exceeded.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ikos.modular import blocks
from ikos.randomness import RandomSource

__all__ = ["MAX_PRECISION", "decode", "encode"]

MAX_PRECISION = 1 << 52
_UNIT = 1 << 53


def encode(x: NDArray[np.float64], p: int, rng: RandomSource) -> NDArray[np.int64]:
    """Round x p to one of its two neighbouring integers at random, without bias.

    Parameters
    ----------
    x : (n,) ndarray of float64
        Values in [0, 1].
    p : int
        Precision, from 1 to 2^52.
    rng : RandomSource
        Decides the rounding.

    Returns
    -------
    (n,) ndarray of int64
        Values in {0..p}, whatever the rounding: the sensitivity is exactly p. The expectation is
        the double nearest to x p, up to 2^-53.

    Notes
    -----
    Floating point is harmless here. Privacy rests on the range {0..p} alone, which it cannot
    leave: x p <= p, and an integer has no fraction to round up.
    """
    result = np.empty(x.size, dtype=np.int64)
    for part in blocks(x.size):
        scaled = x[part] * p
        floor = np.floor(scaled)
        fraction = scaled - floor  # exact, for doubles
        up = rng.uniform(_UNIT, scaled.size) < fraction * _UNIT
        result[part] = floor.astype(np.int64) + up
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
