"""Kashin's representation: the frame, the coefficients' bound, and what is refused."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.linalg import hadamard

from ikos.baselines import KashinFrame
from ikos.baselines.kashin import _columns, walsh_hadamard


@pytest.mark.points(2)
@pytest.mark.parametrize("length", [1, 2, 4, 64, 128, 4096])
def test_the_fast_transform_is_the_dense_one(length: int) -> None:
    a = np.random.default_rng(length).normal(size=(5, length))
    dense = a @ hadamard(length) / math.sqrt(length)
    found = a.copy()
    walsh_hadamard(found)
    assert np.abs(found - dense).max() < 1e-12
    walsh_hadamard(found)
    assert np.abs(found - a).max() < 1e-12


@pytest.mark.parametrize("dimension", [1, 2, 3, 6, 7, 16, 33])
def test_it_is_a_tight_frame_of_even_rows(dimension: int) -> None:
    frame = KashinFrame(dimension)
    dense = frame.apply(np.eye(dimension)).T
    assert dense.shape == (frame.rows, dimension)
    assert 2 * dimension <= frame.rows < 4 * dimension
    assert np.abs(dense.T @ dense - np.eye(dimension)).max() < 1e-12
    # the error of a sum of vectors is d / D of that of all coefficients
    assert np.allclose((dense**2).sum(axis=1), dimension / frame.rows)
    a = np.random.default_rng(0).normal(size=(4, frame.rows))
    assert np.allclose(frame.vectors(a), a @ dense, atol=1e-12)


def kinds(frame: KashinFrame, users: int) -> dict[str, NDArray[np.float64]]:
    """Return unit vectors of many kinds, none of them chosen for the seed but rows and signs."""
    d, draw = frame.dimension, np.random.default_rng(1)
    sparse = np.zeros((users, d))
    for row in sparse:
        k = draw.integers(1, d + 1)
        row[draw.permutation(d)[:k]] = draw.choice([-1, 1], k)
    signs = draw.choice([-1.0, 1.0], (users, frame.rows))
    unit = np.eye(frame.rows)[: min(users, frame.rows)]
    found = {
        "even": np.ones((1, d)),
        "basis": np.eye(d)[:users],
        "normal": draw.normal(size=(users, d)),
        "heavy": draw.laplace(size=(users, d)) ** 3,
        "sparse": sparse,
        "rows of the frame": frame.vectors(unit),
        "signs of its rows": frame.vectors(signs),
    }
    lengths = {name: np.linalg.norm(x, axis=1, keepdims=True) for name, x in found.items()}
    return {
        name: (x / np.where(lengths[name] > 1e-9, lengths[name], 1))[lengths[name][:, 0] > 1e-9]
        for name, x in found.items()
    }


@pytest.mark.points(2)
@pytest.mark.parametrize(
    "dimension",
    [1, 2, 3, 5, 6, 7, 9, 16, 31, 64, 100, 256, pytest.param(4096, marks=pytest.mark.slow)],
)
@pytest.mark.parametrize("seed", [0, 1])
def test_coefficients_are_even_and_give_the_vector_back(dimension: int, seed: int) -> None:
    frame = KashinFrame(dimension, seed)
    for x in kinds(frame, 40).values():
        for length in (1.0, 0.3, 0.0):
            a = frame.coefficients(length * x)
            assert np.abs(a).max() <= frame.largest
            assert np.abs(frame.vectors(a) - length * x).max() < 1e-10


@pytest.mark.slow
@pytest.mark.parametrize("dimension", [7, 8, 15, 16, 32])
def test_hardly_any_vector_is_refused(dimension: int) -> None:
    """Of 100,000 that do not know the seed none is: P <= 2.1e-4 but with probability 1e-9."""
    frame = KashinFrame(dimension, 5)
    x = np.random.default_rng(2).normal(size=(100_000, dimension))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    assert np.abs(frame.coefficients(x)).max() <= frame.largest


def test_few_coordinates_need_no_search() -> None:
    for dimension in range(1, 7):
        frame = KashinFrame(dimension)
        assert frame.bound == pytest.approx(math.sqrt(dimension))
        x = np.random.default_rng(3).normal(size=(200, dimension))
        x /= np.linalg.norm(x, axis=1, keepdims=True)
        worst = np.sign(frame.apply(np.eye(dimension)).T)  # along the frame's own rows
        both = np.concatenate((x, worst / math.sqrt(dimension)))
        assert np.array_equal(frame.coefficients(both), frame.apply(both))


def test_no_vectors_have_no_coefficients() -> None:
    frame = KashinFrame(20)
    assert frame.coefficients(np.empty((0, 20))).shape == (0, frame.rows)


def structured(frame: KashinFrame, points: int) -> NDArray[np.float64] | None:
    """Return a unit vector on columns that are a coset of a subgroup: its transform is sparse."""
    columns, signs = _columns(frame.dimension, frame.rows, frame.seed)
    draw = np.random.default_rng(0)
    for _ in range(10**5):
        left = set(columns.tolist())
        moves = [0]
        while len(moves) < points:
            by = int(draw.integers(1, frame.rows))
            if by in moves:
                continue
            left = {c for c in left if c ^ by in left}
            moves += [move ^ by for move in moves]
        if left:
            coset = np.array([min(left) ^ move for move in moves])
            x = np.zeros((1, frame.dimension))
            place = np.searchsorted(columns, coset)
            x[0, place] = signs[place] / math.sqrt(points)
            return x
    return None


def test_a_vector_that_has_no_even_coefficients_is_refused() -> None:
    """For any y, x . y <= norm(a, inf) norm(U y, 1): with y = x, K >= sqrt(8) here."""
    frame = KashinFrame(64)
    x = structured(frame, 8)
    assert x is not None
    assert 1 / np.abs(frame.apply(x)).sum() * math.sqrt(frame.rows) == pytest.approx(math.sqrt(8))
    good = np.zeros((3, 64))
    with pytest.raises(ValueError, match=r"x\[5\] has no coefficients within 2.5/sqrt\(128\)"):
        frame.coefficients(np.concatenate((good, good[:2], x)))
    # with another public seed it has
    for seed in (1, 2, 3):
        KashinFrame(64, seed).coefficients(x)
    assert np.abs(KashinFrame(64, 0, 4).coefficients(x)).max() * math.sqrt(128) < 4


def test_a_seed_is_a_frame() -> None:
    x = np.eye(9)
    first, again, other = (KashinFrame(9, seed).apply(x) for seed in (4, 4, 5))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
    assert KashinFrame(9, 4) == KashinFrame(9, 4) != KashinFrame(9, 5)
    chosen = {tuple(_columns(2, 4, seed)[0].tolist()) for seed in range(60)}
    assert len(chosen) == 6  # all pairs of columns occur


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (([[0.1, math.nan, 0.0]],), r"x\[0, 1\] must be finite, not missing$"),
        (([0.1, 0.2, 0.3],), r"x must have shape \(users, 3\)"),
        (([[0.1, 0.2]],), r"x must have shape \(users, 3\)"),
        (([[0.1, 1.2, 0.0]],), r"x\[0\] must have a norm of at most 1"),
        (([["a", "b", "c"]],), r"x\[0, 0\] must be a float"),
    ],
)
def test_which_vectors_it_refuses(arguments: tuple[Any, ...], said: str) -> None:
    with pytest.raises((TypeError, ValueError), match=said):
        KashinFrame(3).coefficients(*arguments)


def test_lists_and_integers_are_vectors() -> None:
    frame = KashinFrame(3)
    assert np.allclose(frame.vectors(frame.coefficients([[0, -1, 0]])), [[0, -1, 0]], atol=1e-12)
