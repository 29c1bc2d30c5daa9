"""The group of commitments: secp256k1, of prime order, by coincurve (libsecp256k1).

Points are 33 bytes, compressed; scalars are 32 bytes, big-endian and below the order. coincurve
cannot hold the identity, which is None here, and aborts the process on some input of a wrong
length: points are made here alone, and each length is checked before.
"""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Sequence
from functools import cache

from ikos._validation import InvalidValue
from ikos.verified.statements import ORDER as ORDER
from ikos.verified.statements import POINT_BYTES as POINT_BYTES
from ikos.verified.statements import SCALAR_BYTES as SCALAR_BYTES

try:
    from coincurve import PublicKey
except ImportError:
    raise ImportError("verified sums need coincurve: pip install 'ikos[verified]'") from None

Point = PublicKey

BASE = Point.from_secret(b"\1")
"""The generator of the curve's standard."""

_FEW = 300  # up to so many points, a product each costs less than buckets
_TABLE = 1 << 22  # entries of about 200 bytes


def decode(data: bytes) -> Point:
    """Return the point of a compressed encoding; a ValueError if there is none."""
    if len(data) != POINT_BYTES or data[0] not in (2, 3):
        raise ValueError("not a compressed point")
    return Point(bytes(data))


def encode(point: Point | None) -> bytes:
    """Return the compressed encoding of a point; a ValueError for the identity."""
    if point is None:
        raise InvalidValue("point", "must not be the identity")
    return point.format()


def scalars(data: bytes) -> list[int]:
    """Return consecutive scalars; a ValueError if one is not below the order."""
    starts = range(0, len(data), SCALAR_BYTES)
    found = [int.from_bytes(data[at : at + SCALAR_BYTES]) for at in starts]
    if len(data) % SCALAR_BYTES or any(scalar >= ORDER for scalar in found):
        raise ValueError("not scalars")
    return found


@cache
def generator(label: str) -> Point:
    """Return the generator of a label: nobody knows its relation to others.

    Its y is even, and its x the hash of the label and the least counter for which there is one.
    """
    for counter in itertools.count():
        seed = b"ikos verified generator" + counter.to_bytes(4) + label.encode()
        try:
            return decode(b"\2" + hashlib.sha256(seed).digest())
        except ValueError:
            continue
    raise AssertionError


def hash_scalar(label: bytes, *parts: bytes) -> int:
    """Return the SHA-512 hash of a label and some parts, each after its length, as a scalar."""
    hashed = hashlib.sha512(label)
    for part in parts:
        hashed.update(len(part).to_bytes(4) + part)
    return int.from_bytes(hashed.digest()) % ORDER


def combine(points: Sequence[Point | None]) -> Point | None:
    """Return the product of some points."""
    present = [point for point in points if point is not None]
    try:
        return Point.combine_keys(present) if present else None
    except ValueError:  # raised for the identity alone
        return None


def power_product(points: Sequence[Point | None], exponents: Sequence[int]) -> Point | None:
    """Return the product of powers, in a time that depends on the exponents.

    Many points are put into buckets by some bits of their exponents (Pippenger): in a product of
    many, each costs a tenth of a product of two, and a hundredth of a power.
    """
    reduced = [(p, e % ORDER) for p, e in zip(points, exponents, strict=True) if p is not None]
    powers = [(point, exponent) for point, exponent in reduced if exponent]
    if len(powers) <= _FEW:
        return combine([p.multiply(e.to_bytes(SCALAR_BYTES)) for p, e in powers])
    width = len(powers).bit_length() - 5
    result = None
    for shift in reversed(range(0, ORDER.bit_length(), width)):
        buckets: list[list[Point | None]] = [[] for _ in range(1 << width)]
        for point, exponent in powers:
            buckets[exponent >> shift & (1 << width) - 1].append(point)
        sums = [None, *map(combine, buckets[1:])]
        for bit in reversed(range(width)):
            having = (total for digit, total in enumerate(sums) if digit >> bit & 1)
            result = combine([result, result, *having])
    return result


def discrete_logarithm(point: Point | None, bound: int) -> int | None:
    """Return x in 0 .. ``bound`` for which a point is the x-th power of `BASE`, or None.

    By baby steps and giant steps: 2^16 of 6 microseconds for a bound of 2^30, 2^21 with 200 MB for
    2^40. From 2^44 on, memory stays at 800 MB, and the time doubles with the bound.
    """
    size = min(math.isqrt(bound) + 1, _TABLE)
    table: dict[bytes, int] = {}
    step: Point | None = None
    for baby in range(1, size):
        step = combine([step, BASE])
        table[encode(step)] = baby
    back = power_product([BASE], [-size])
    for giant in range(0, bound + 1, size):
        found = 0 if point is None else table.get(encode(point))
        if found is not None:
            return giant + found if giant + found <= bound else None
        point = combine([point, back])
    return None
