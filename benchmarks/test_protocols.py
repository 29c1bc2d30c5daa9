"""The baselines and their accountants, against what no implementation can beat."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from floors import add_up, keystream, sort_rows
from numpy.typing import NDArray
from scipy.special import betainc

from ikos.accounting.blanket import ResponseBlanket
from ikos.baselines import (
    BinaryRandomizedResponse,
    CentralDiscreteLaplace,
    CentralLaplace,
    CorrelatedNoise,
    DesignatedNoise,
    LocalLaplace,
    LocalRandomizedResponse,
    PrivacyBlanket,
    RecursiveSum,
    SparseNoise,
    SumProtocol,
)
from ikos.numeric.binomial import binomial_range
from ikos.primitives.randomness import SecureRandom

N = 10**6
SHUFFLED: dict[str, Callable[[], SumProtocol]] = {
    "binary": lambda: BinaryRandomizedResponse(N, 1, 1e-12),
    "blanket": lambda: PrivacyBlanket(N, 1, 1e-12),
    "recursive-2": lambda: RecursiveSum(N, 1, 1e-12, messages=2),
    "recursive-3": lambda: RecursiveSum(N, 1, 1e-12, messages=3),
    "correlated": lambda: CorrelatedNoise(N, 1, 1e-12, precision=10),
    "designated": lambda: DesignatedNoise(N, 1, 1e-12),
    "sparse": lambda: SparseNoise(N, 1, 1e-12),
}
UNSHUFFLED: dict[str, Callable[[], SumProtocol]] = {
    "central": lambda: CentralLaplace(N, 1),
    "central-discrete": lambda: CentralDiscreteLaplace(N, 1),
    "local": lambda: LocalLaplace(N, 1),
    "local-response": lambda: LocalRandomizedResponse(N, 1),
}


def values() -> NDArray[np.float64]:
    return np.random.default_rng(0).random(N)


@pytest.mark.parametrize("name", SHUFFLED)
def test_shuffled_sum_against_floors(against: Callable[..., float], name: str) -> None:
    """A million users: the keystream, sorts and one pass over as many 64-bit messages."""
    x, protocol = values(), SHUFFLED[name]()
    rows = np.zeros((max(1, round(protocol.cost().messages_per_user)), N), dtype=np.uint64)

    def floor() -> None:
        keystream(rows)
        sort_rows(rows)
        add_up(rows)

    against(lambda: protocol.run(x), floor)


@pytest.mark.parametrize("name", UNSHUFFLED)
def test_unshuffled_sum_against_keystream(against: Callable[..., float], name: str) -> None:
    """A million users: one 64-bit word of keystream for each, and one pass."""
    x, protocol = values(), UNSHUFFLED[name]()
    row = np.zeros((1, N), dtype=np.uint64)

    def floor() -> None:
        keystream(row)
        add_up(row)

    against(lambda: protocol.run(x), floor)


def test_bernoullis_against_keystream(against: Callable[..., float]) -> None:
    """Ten million draws against the byte that each takes."""
    rng, out = SecureRandom(), np.zeros(10**7, dtype=np.uint8)
    against(lambda: rng.bernoullis(Fraction(1, 1 << 10), out.size), lambda: keystream(out))


@pytest.mark.parametrize(("n", "k"), [(10**4, 7), (10**9, 1000)])
def test_blanket_divergence_against_beta_functions(
    against: Callable[..., float], n: int, k: int
) -> None:
    """One divergence against one incomplete beta function for each term of its sum."""
    gamma = Fraction(60 * k, n)
    low, high = binomial_range(n, float(2 * gamma / k), 50)
    terms: NDArray[Any] = np.arange(low + 1, high + 1, dtype=np.float64)

    def floor() -> None:
        betainc(terms * 0.7 + 1, terms * 0.3 + 1, 0.5)

    # a new object each time: results of one are kept
    against(lambda: ResponseBlanket(n, k, gamma).divergence(1.0), floor)
