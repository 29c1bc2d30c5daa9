"""Randomizers whose error is the same for all vectors, or for all coordinates (AFNNTZ24).

For protocols in which an analyzer adds up messages that are vectors themselves. Each user applies a
public random map to its vector, the same for all users, and its inverse to the messages: a rotation
(Lemma 2.2), after which the error of a message's sender does not depend on its vector, or a random
permutation and random signs of the coordinates (Lemma A.2).

*Privacy.* Nothing is lost. For each value of the public map the users run the protocol on the
mapped vectors, which are vectors of the domain if the domain is a ball (or, for permutations and
signs, a symmetric box), and two data sets differ in one user's mapped vector exactly if they differ
in this user's vector. What follows is a fixed one-to-one map of the messages. So the view is
(epsilon, delta)-private for each map, and then also together with a map that is drawn without
regard to the data. The map needs no secrecy, and its law no exactness; it must not depend on the
data.

Messages that are mapped back need not be of the original alphabet: the wrappers are for arguments
and experiments. A protocol can leave the messages as they are and map the estimate back instead.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from ikos._validation import integer, refuse_missing
from ikos.primitives.randomness import RandomSource, secure

__all__ = ["Rotation", "SignedPermutation", "symmetrized"]

Randomizer = Callable[[NDArray[np.float64], RandomSource], NDArray[Any]]
"""From vectors, (n, d), to messages, (n, k, d): row i are the k messages of user i."""

MAX_DIMENSION = 1 << 12
"""Of a rotation: its matrix is kept."""

_UNIT = 1 << 53

_STRETCH = 1e-10
"""What a rotation may add to a squared norm: far below the tolerance that a ball has for norms."""


def _checked(x: NDArray[Any], d: int) -> NDArray[Any]:
    """Return vectors, refusing those of another length: their coordinates would get lost."""
    given = np.asarray(x)
    if not given.ndim or given.shape[-1] != d:
        raise ValueError(f"x must hold vectors of {d} coordinates, got shape {given.shape}")
    return given


def _whole(name: str, values: ArrayLike) -> NDArray[np.int64]:
    """Return integers that fit into int64, as a new array."""
    given = np.array(refuse_missing(name, values))
    if given.dtype.kind not in "iu":
        raise TypeError(f"{name} must hold integers, got an array of {given.dtype}")
    return given.astype(np.int64)


class Symmetry(ABC):
    """A map that leaves lengths alone, and its inverse."""

    @abstractmethod
    def apply(self, x: NDArray[Any]) -> NDArray[Any]:
        """Return vectors, (..., d), mapped."""

    @abstractmethod
    def undo(self, x: NDArray[Any]) -> NDArray[Any]:
        """Return vectors, (..., d), mapped back."""


@dataclass(frozen=True, eq=False)
class Rotation(Symmetry):
    """An orthogonal matrix.

    Parameters
    ----------
    matrix : (d, d) ndarray of float
        Its rows are orthonormal, to the precision of doubles: no vector becomes longer by more than
        a part of 1e-10, which a ball's tolerance for norms covers.

    Examples
    --------
    >>> from ikos.testing import DeterministicRandom
    >>> turn = Rotation.random(3, DeterministicRandom(0))
    >>> x = np.array([[1.0, 0.0, 0.0]])
    >>> round(float(np.linalg.norm(turn.apply(x))), 12), np.allclose(turn.undo(turn.apply(x)), x)
    (1.0, True)
    """

    matrix: NDArray[np.float64]

    def __post_init__(self) -> None:
        given = np.array(refuse_missing("matrix", self.matrix), dtype=np.float64)
        if given.ndim != 2 or given.shape[0] != given.shape[1]:
            raise ValueError(f"matrix must be square, got shape {given.shape}")
        # The Frobenius norm bounds the spectral one, and so what any squared norm changes by.
        excess = float(np.linalg.norm(given @ given.T - np.eye(len(given))))
        if not excess <= _STRETCH:
            raise ValueError(
                f"matrix must have orthonormal rows, got M M^T off the identity by {excess:.3g}"
            )
        given.setflags(write=False)
        object.__setattr__(self, "matrix", given)

    @classmethod
    def random(cls, d: int, rng: RandomSource | None = None) -> Rotation:
        """Return a rotation or reflection from the uniform law on all of them.

        Parameters
        ----------
        d : int
            Dimension, at most 4096.
        rng : RandomSource, optional
            Secure randomness by default; the map is public.

        Notes
        -----
        The orthonormal rows of a matrix of normal variables, with signs that make the triangular
        part positive. Uniform to the precision of doubles.
        """
        size = integer("d", d, low=1, high=MAX_DIMENSION)
        drawn = secure(rng).uniform(_UNIT, size * size).astype(np.float64)
        normal = ndtri((drawn + 0.5) / _UNIT).reshape(size, size)
        q, triangle = np.linalg.qr(normal)
        signs = np.where(np.diagonal(triangle) < 0, -1.0, 1.0)
        return cls(np.asarray(q * signs))

    def apply(self, x: NDArray[Any]) -> NDArray[Any]:
        """Return vectors, (..., d), rotated."""
        return np.asarray(_checked(x, len(self.matrix)) @ self.matrix.T)

    def undo(self, x: NDArray[Any]) -> NDArray[Any]:
        """Return vectors, (..., d), rotated back."""
        return np.asarray(_checked(x, len(self.matrix)) @ self.matrix)


@dataclass(frozen=True, eq=False)
class SignedPermutation(Symmetry):
    """Coordinates in another order, and with other signs.

    Coordinate j becomes ``signs[j] x[order[j]]``. Its inverse takes the signs along: as printed
    (AFNNTZ24, proof of Lemma A.2) the permutation is undone first and coordinate i then gets
    ``signs[i]``, which is the sign of another one.

    Parameters
    ----------
    order : (d,) array_like of int
        A permutation of ``range(d)``.
    signs : (d,) array_like of int
        -1 or 1.

    Examples
    --------
    >>> swap = SignedPermutation([1, 2, 0], [1, -1, 1])
    >>> swap.apply(np.array([10, 20, 30])), swap.undo(swap.apply(np.array([10, 20, 30])))
    (array([ 20, -30,  10]), array([10, 20, 30]))
    """

    order: NDArray[np.int64]
    signs: NDArray[np.int64]

    def __init__(self, order: ArrayLike, signs: ArrayLike) -> None:
        places, signed = _whole("order", order), _whole("signs", signs)
        if places.ndim != 1 or (np.sort(places) != np.arange(places.size)).any():
            raise ValueError("order must be a permutation of range(d)")
        if signed.shape != places.shape or (np.abs(signed) != 1).any():
            raise ValueError(f"signs must be {places.size} of -1 and 1")
        for name, value in (("order", places), ("signs", signed)):
            value.setflags(write=False)
            object.__setattr__(self, name, value)

    @classmethod
    def random(cls, d: int, rng: RandomSource | None = None) -> SignedPermutation:
        """Return a uniformly random one of the ``d! 2^d``."""
        source = secure(rng)
        size = integer("d", d, low=1, high=1 << 24)
        signs = 2 * source.uniform(2, size).astype(np.int64) - 1
        return cls(source.permutation(size), signs)

    def apply(self, x: NDArray[Any]) -> NDArray[Any]:
        """Return vectors, (..., d), in the other order and with the other signs."""
        return np.asarray(_checked(x, self.order.size)[..., self.order] * self.signs)

    def undo(self, x: NDArray[Any]) -> NDArray[Any]:
        """Return vectors, (..., d), mapped back."""
        signed = np.asarray(_checked(x, self.order.size) * self.signs)
        result = np.empty_like(signed)
        result[..., self.order] = signed
        return result


def symmetrized(randomizer: Randomizer, symmetry: Symmetry) -> Randomizer:
    """Return a randomizer that maps vectors before, and messages back afterwards.

    Parameters
    ----------
    randomizer : callable
        From vectors, (n, d), and a source of randomness to messages, (n, k, d).
    symmetry : Symmetry
        Public, and the same for all users of a run; drawn anew for each run.

    Returns
    -------
    callable
        Of the same kind. As private as ``randomizer`` is: see the top of this module.

    Notes
    -----
    Let R(v) be the sum of a user's messages. Over a uniform rotation E |R(v) - v|^2 is the same for
    all v of one length, and the mean squared error of a sum is at most that of the worst vectors
    without it (Lemma 2.2). Over uniform permutations and signs, where all users hold
    vertices of a cube, each coordinate's error is at most the d-th part of that of the worst such
    vectors. (Lemma A.2 also says that all coordinates then have one law of errors: only if all
    users hold the same vector, up to a public sign of each coordinate.)

    Examples
    --------
    >>> from ikos.testing import DeterministicRandom
    >>> first = lambda x, rng: x[:, np.newaxis, :] * [1, 0]  # forgets the second coordinate
    >>> fair = symmetrized(first, SignedPermutation([1, 0], [1, -1]))
    >>> fair(np.array([[0.6, 0.8]]), DeterministicRandom(0))
    array([[[0. , 0.8]]])
    """

    def wrapped(x: NDArray[np.float64], rng: RandomSource) -> NDArray[Any]:
        return symmetry.undo(randomizer(symmetry.apply(x), rng))

    return wrapped
