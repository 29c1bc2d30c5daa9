"""Sums of 10^5 vectors of 1,024 coordinates, against what no implementation can beat."""

from __future__ import annotations

import hashlib
import resource
from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
from floors import add_up, keystream
from numpy.typing import NDArray

from ikos import Ball, Box, PrivateVectorSum, SecureVectorSum, SparseTernary
from ikos.baselines import (
    PCKVGRR,
    PCKVUE,
    CentralGaussian,
    Collision,
    KashinCorrelatedNoise,
    KashinPrivateSum,
    PrivKV,
    SampledCoordinates,
    SingleMessageGrid,
    SumProtocol,
)

N, D = 10**5, 1024
BUDGET = 1, 1e-8
LIMIT = 4 << 30

PROTOCOLS: dict[str, Callable[[], SumProtocol]] = {
    "central-gaussian": lambda: CentralGaussian(N, Ball(D), *BUDGET),
    "private-vector-sum": lambda: PrivateVectorSum(N, Ball(D), *BUDGET),
    "kashin-private-sum": lambda: KashinPrivateSum(N, Ball(D), *BUDGET),
    "kashin-correlated-noise": lambda: KashinCorrelatedNoise(N, Ball(D), *BUDGET),
    "kashin-sampled-noise": lambda: KashinCorrelatedNoise(N, Ball(D), *BUDGET, sampling="auto"),
    "one-coordinate": lambda: SampledCoordinates(N, Box(D), *BUDGET),
    "sampled-32": lambda: SampledCoordinates(N, Box(D), *BUDGET, messages=32, precision=3),
    "collision": lambda: Collision(N, SparseTernary(D, 16), *BUDGET),
    "privkv": lambda: PrivKV(N, SparseTernary(D, 16), *BUDGET),
    "pckv-grr": lambda: PCKVGRR(N, SparseTernary(D, 16), *BUDGET),
    "pckv-ue": lambda: PCKVUE(N, SparseTernary(D, 16), *BUDGET),
}


@cache
def balls() -> NDArray[np.float64]:
    x = np.random.default_rng(0).normal(size=(N, D))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    return x


@cache
def signs() -> NDArray[np.int8]:
    rng = np.random.default_rng(1)
    x = np.zeros((N, D), dtype=np.int8)
    chosen = rng.random((N, D), dtype=np.float32).argpartition(16, axis=1)[:, :16]
    np.put_along_axis(x, chosen, rng.choice(np.array([-1, 1], dtype=np.int8), (N, 16)), axis=1)
    return x


def vectors(protocol: SumProtocol) -> NDArray[np.float64] | NDArray[np.int8]:
    if isinstance(protocol.domain, SparseTernary):
        return signs()
    return np.abs(balls()) if isinstance(protocol.domain, Box) else balls()


@pytest.mark.parametrize("name", PROTOCOLS)
def test_run_against_one_pass(
    against: Callable[..., float], note: Callable[[str], None], name: str
) -> None:
    """A whole run against one pass over all users' coordinates, in doubles."""
    protocol = PROTOCOLS[name]()
    x, wide = vectors(protocol), balls()
    against(lambda: protocol.run(x), lambda: wide.sum(), rounds=2)
    peak = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    note(f"peak memory so far, data included: {peak / (1 << 30):.2f} GiB")
    assert peak < LIMIT


def test_secure_sum_against_shares(against: Callable[..., float]) -> None:
    """Vectors over Z_q with q = 2^32 against the keystream of their shares, and one pass."""
    protocol = SecureVectorSum(N, D, 2**32, sigma=80)
    x = np.random.default_rng(2).integers(0, 2**32, (N, D), dtype=np.uint32)
    rows = np.zeros((protocol.layout.count.total, N), dtype=np.uint32)

    def floor() -> None:
        for _ in range(D):
            keystream(rows)
            add_up(rows)

    against(lambda: protocol.run(x), floor, rounds=1)


@pytest.mark.parametrize("users", [1000, 10_000])
def test_masked_client(
    against: Callable[..., float], note: Callable[[str], None], users: int
) -> None:
    """A client of 10^6 coordinates against the bytes of the public polynomials alone."""
    protocol = SecureVectorSum(users, 10**6, upper=2**20 // users, sigma=80, layout="masked")
    ring, found = protocol.transport.polynomials, protocol.transport.masks
    x = np.zeros(10**6, dtype=np.int64)
    size = 8 * ring.words * found.degree * found.samples
    against(
        lambda: protocol.report(x, context=b"benchmark"),
        lambda: hashlib.shake_128(b"benchmark").digest(size),
        rounds=5,
    )
    note(f"N = {found.degree}; {found.masked_bytes:,} bytes masked, {size:,} public")


def test_single_message_grid_refuses_many_coordinates(note: Callable[[str], None]) -> None:
    """It has no sound parameters there, and says up to which dimension it has."""
    with pytest.raises(ValueError, match="at most") as refused:
        SingleMessageGrid(N, Box(D), *BUDGET)
    note(str(refused.value))
