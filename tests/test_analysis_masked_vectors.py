"""Attacks on toys of masked vectors, and the tables of the documentation."""

from __future__ import annotations

import importlib
import math

import numpy as np
import pytest

from ikos.testing import DeterministicRandom

pytest.importorskip("matplotlib")
flint = pytest.importorskip("flint")
module = importlib.import_module("analysis.masked_vectors")


@pytest.mark.points(2)
@pytest.mark.parametrize("degree", [1, 4, 32])
def test_rotations_multiply_modulo_x_to_the_n_plus_one(degree: int) -> None:
    rng = DeterministicRandom(degree)
    a, s = (rng.uniform(1000, degree).astype(np.int64) for _ in range(2))
    product = flint.fmpz_poly(a.tolist()) * flint.fmpz_poly(s.tolist())
    ring = flint.fmpz_poly([1] + [0] * (degree - 1) + [1])
    expected = [int(x) for x in (product % ring).coeffs()]
    assert (s @ module.rotations(a)).tolist()[: len(expected)] == expected


@pytest.mark.parametrize("name", module.ATTACKS)
def test_toys_are_broken_and_only_with_a_large_modulus(name: str) -> None:
    _, attack = module.ATTACKS[name]
    assert attack(16, 14, 0)
    assert not attack(32, 8, 0)


def test_a_block_of_the_known_estimate() -> None:
    """NewHope's: N = 1024, q = 12289, deviation sqrt(8), 967 with 0.292 b = 282 bits."""
    size = module.block_size(1024, math.log2(12289), math.sqrt(8))
    assert size == pytest.approx(967, abs=5)


@pytest.mark.slow
def test_whole_bytes_add_less_than_one_to_each_message() -> None:
    made = [(size, computed) for computed, size in module.sent(1000).values() if size]
    assert made
    assert all(computed <= size < 1.02 * computed for size, computed in made)
