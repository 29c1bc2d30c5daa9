"""Every protocol for sums of vectors: a new one is one entry of `CASES`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ikos.vectors import (
    PCKVGRR,
    PCKVUE,
    Ball,
    Box,
    CentralGaussian,
    Collision,
    Domain,
    KashinCorrelatedNoise,
    KashinPrivateSum,
    PrivateVectorSum,
    PrivKV,
    SampledCoordinates,
    SingleMessageGrid,
    SparseTernary,
)

FALSE_ALARM = 1e-9


@dataclass(frozen=True)
class Case:
    """A protocol and how it is tested.

    Parameters
    ----------
    make : callable
        Returns the protocol for n users and other arguments that it takes.
    few : int
        Users where few are enough: the protocol must be possible for so many.
    ragged : bool
        Whether the number of a user's messages is random; arrays of them are padded.
    exactly : bool
        Whether vectors must have exactly as many entries as the domain allows.
    """

    make: Callable[..., Any]
    few: int = 12
    ragged: bool = False
    exactly: bool = False

    @cache  # noqa: B019 - some take a second to make, and all are immutable
    def small(self, **options: Any) -> Any:
        """Return the protocol for few users."""
        return self.make(self.few, **options)


def vectors(domain: Domain, users: int, seed: int = 0) -> NDArray[np.float64]:
    """Return vectors of a domain that differ from each other, its extreme ones among them."""
    draw = np.random.default_rng(seed)
    d = domain.dimension
    if isinstance(domain, Box):
        x = draw.uniform(domain.lower, domain.upper, (users, d))
        x[0], x[-1] = domain.lower, domain.upper
        return x
    if isinstance(domain, Ball):
        x = draw.normal(size=(users, d))
        x *= domain.radius / np.linalg.norm(x, axis=1, keepdims=True)
        x[1::3] *= 0.5
        return x
    assert isinstance(domain, SparseTernary)
    x = np.zeros((users, d))
    for row in x:
        chosen = draw.choice(d, domain.sparsity, replace=False)
        row[chosen] = draw.choice([-1, 1], domain.sparsity)
    return x


CASES: dict[str, Case] = {
    "central-gaussian": Case(lambda n, **options: CentralGaussian(n, Ball(3), 1, 1e-3, **options)),
    "private-vector-sum-box": Case(
        lambda n, **options: PrivateVectorSum(n, Box(2, -1, 3), 1, 1e-3, **options)
    ),
    "private-vector-sum-ball": Case(
        lambda n, **options: PrivateVectorSum(n, Ball(3, 2), 1, 1e-3, **options)
    ),
    "private-vector-sum-signs": Case(
        lambda n, **options: PrivateVectorSum(n, SparseTernary(4, 2), 1, 1e-3, **options)
    ),
    "private-vector-sum-one-group": Case(
        lambda n, **options: PrivateVectorSum(
            n, Ball(2), 1, 1e-3, **{"layout": "one group", **options}
        )
    ),
    "sampled-coordinates": Case(
        lambda n, **options: SampledCoordinates(n, Box(4, -1, 2), 3, 1e-2, **options)
    ),
    "sampled-coordinates-of-runs": Case(
        lambda n, **options: SampledCoordinates(n, Box(5), 4, 1e-2, messages=2, **options)
    ),
    "sampled-coordinates-uniform": Case(
        lambda n, **options: SampledCoordinates(
            n, Box(4), 5, 1e-2, messages=2, precision=1, sampling="uniform", **options
        )
    ),
    "single-message-box": Case(
        lambda n, **options: SingleMessageGrid(n, Box(2, -1, 1), 5, 1e-2, **options)
    ),
    "single-message-ball": Case(
        lambda n, **options: SingleMessageGrid(n, Ball(3, 2.0), 6, 1e-2, **options)
    ),
    "collision": Case(
        lambda n, **options: Collision(n, SparseTernary(5, 2), epsilon=2, delta=1e-2, **options)
    ),
    "collision-local": Case(
        lambda n, **options: Collision(n, SparseTernary(5, 2), epsilon=2, **options)
    ),
    "privkv": Case(
        lambda n, **options: PrivKV(n, SparseTernary(5, 2), epsilon=2, delta=1e-2, **options)
    ),
    "privkv-local": Case(lambda n, **options: PrivKV(n, SparseTernary(5, 2), epsilon=2, **options)),
    "pckv-grr": Case(
        lambda n, **options: PCKVGRR(n, SparseTernary(5, 2), epsilon=2, delta=1e-2, **options),
        exactly=True,
    ),
    "pckv-grr-published": Case(
        lambda n, **options: PCKVGRR(
            n, SparseTernary(5, 2), epsilon=2, sampling="published", **options
        ),
        exactly=True,
    ),
    "pckv-ue": Case(
        lambda n, **options: PCKVUE(n, SparseTernary(5, 2), epsilon=2, delta=1e-2, **options)
    ),
    "pckv-ue-local": Case(
        lambda n, **options: PCKVUE(n, SparseTernary(5, 2), epsilon=2, **options)
    ),
    "kashin-correlated-noise": Case(
        lambda n, **options: KashinCorrelatedNoise(
            n, Ball(3), 4, 1e-2, **{"precision": 2, **options}
        ),
        ragged=True,
    ),
    "kashin-correlated-noise-sampled": Case(
        lambda n, **options: KashinCorrelatedNoise(
            n, Ball(3), 4, 1e-2, **{"precision": 1, "sampling": 0.5, **options}
        ),
        ragged=True,
    ),
    "kashin-private-sum": Case(
        lambda n, **options: KashinPrivateSum(n, Ball(3), 4, 1e-2, **options)
    ),
}
