"""Uniform elements and permutations against the bare keystream and sort."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from floors import keystream, sort_rows

from ikos.primitives.modular import Zq
from ikos.primitives.randomness import SecureRandom

N = 10**7


MODULI = [
    2**64, 2**61 - 1, 2**61 + 15, 2**63 + 1, 2**40 + 15,
    2**32, 2**32 - 5, 2**31 + 11, 2**20 + 7, 97,
]  # fmt: skip


@pytest.mark.parametrize("q", MODULI, ids=hex)
def test_uniform_against_keystream(against: Callable[..., float], q: int) -> None:
    group, rng = Zq(q), SecureRandom()
    out = np.zeros(N, dtype=group.dtype)
    against(lambda: rng.uniform_into(out, group), lambda: keystream(out), rounds=5)


def test_permutation_against_sort(against: Callable[..., float]) -> None:
    rng = SecureRandom()
    keys = np.zeros((1, N), dtype=np.uint64)

    def floor() -> None:
        keystream(keys)
        sort_rows(keys)

    against(lambda: rng.permutation(N), floor, rounds=5)
