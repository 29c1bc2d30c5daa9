"""What dishonest users do to a sum of vectors that is sent by coefficients (AFNNTZ24, Section 4).

Users send a message (coefficient, value) for each of D coefficients of their vectors. A single
shuffler can count a user's D messages, but not see that they are about D coefficients: a dishonest
user sends all D about one, each with the largest value. With s shufflers it has D/s messages in
each (Theorem 1.5, Lemma 4.2). `CoefficientSum` is the arithmetic of such protocols, as far as the
attack needs it, and `CoefficientSum.forged` what the attacker sends. That adds
`analysis.afnntz24_bounds.coefficient_influence`, compared with sending nothing.

Privacy noise is no part of it: as messages it would raise the limit on how many a user may send,
and the attacker could use the whole of that limit. `flooded` does that to a protocol's messages.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from analysis.afnntz24_bounds import group_sizes
from ikos._validation import integer, number, refuse_missing
from ikos.data.encoding import encode
from ikos.primitives.randomness import RandomSource, secure
from ikos.primitives.samplers import discrete_laplace

__all__ = ["CoefficientSum", "Poisoned", "flooded", "poison"]


def _identity(coefficients: NDArray[np.float64]) -> NDArray[np.float64]:
    return coefficients


@dataclass(frozen=True)
class CoefficientSum:
    """Sums of coefficients, each within [-bound, bound] and sent as one of {0..steps}.

    Parameters
    ----------
    coefficients : int
        D, of each vector.
    bound : float
        Of each coefficient.
    steps : int
        From the smallest value to the largest.
    shufflers : int
        Each takes an even part of the coefficients, in their order.
    limit : int
        Messages that a user may send for each coefficient of a shuffler; honest ones send one.
    inverse : callable
        From the sums of the coefficients, (D,), to the sum of the vectors, (d,); linear. By default
        coefficients are coordinates.

    Examples
    --------
    >>> from ikos.testing import DeterministicRandom
    >>> protocol = CoefficientSum(coefficients=4, bound=1.0, steps=2, shufflers=2)
    >>> labels = protocol.randomize([[1, 0, -1, 1]], DeterministicRandom(0))
    >>> labels.tolist(), protocol.totals(labels.ravel(), users=1).tolist()
    ([[2, 4, 6, 11]], [1.0, 0.0, -1.0, 1.0])
    >>> protocol.forged().tolist(), protocol.totals(protocol.forged(), users=1).tolist()
    ([2, 2, 8, 8], [3.0, -1.0, 3.0, -1.0])
    """

    coefficients: int
    bound: float
    steps: int
    shufflers: int = 1
    limit: int = 1
    inverse: Callable[[NDArray[np.float64]], NDArray[np.float64]] = _identity

    def __post_init__(self) -> None:
        sizes = group_sizes(self.coefficients, self.shufflers)
        object.__setattr__(self, "coefficients", sum(sizes))
        object.__setattr__(self, "bound", float(number("bound", self.bound, above=0)))
        object.__setattr__(self, "steps", integer("steps", self.steps, low=1, high=1 << 30))
        object.__setattr__(self, "limit", integer("limit", self.limit, low=1))

    @property
    def groups(self) -> list[range]:
        """The coefficients of each shuffler."""
        ends = np.cumsum([0, *group_sizes(self.coefficients, self.shufflers)]).tolist()
        return [range(a, b) for a, b in pairwise(ends)]

    def randomize(self, a: ArrayLike, rng: RandomSource | None = None) -> NDArray[np.int64]:
        """Return honest users' labels, (n, D), for their coefficients, (n, D).

        A label is ``coefficient (steps + 1) + value``.
        """
        given = np.asarray(refuse_missing("a", a), dtype=np.float64)
        if given.ndim != 2 or given.shape[1] != self.coefficients:
            raise ValueError(f"a must have shape (n, {self.coefficients}), got {given.shape}")
        if not (np.abs(given) <= self.bound * (1 + 1e-9)).all():
            raise ValueError(f"a must hold coefficients within {self.bound:g}; there are others")
        unit = np.clip((given / self.bound + 1) / 2, 0, 1).reshape(-1)
        values = encode(unit, self.steps, secure(rng)).reshape(given.shape)
        return np.asarray(values + np.arange(self.coefficients) * (self.steps + 1))

    def allowed(self, labels: NDArray[np.int64]) -> bool:
        """Return whether the shufflers let one user's labels pass: they count, and look no further.

        Each can tell that a label is one of its own, and how many of them the user sent. A label
        of no shuffler does not pass.
        """
        coefficient = labels // (self.steps + 1)
        if ((coefficient < 0) | (coefficient >= self.coefficients)).any():
            return False
        return all(
            np.count_nonzero((coefficient >= group.start) & (coefficient < group.stop))
            <= self.limit * len(group)
            for group in self.groups
        )

    def forged(self) -> NDArray[np.int64]:
        """Return what a dishonest user sends: all about one coefficient of each shuffler."""
        return np.concatenate(
            [
                np.full(self.limit * len(group), group.start * (self.steps + 1) + self.steps)
                for group in self.groups
            ]
        )

    def totals(self, labels: NDArray[np.int64], *, users: int) -> NDArray[np.float64]:
        """Return the estimated sums of the coefficients, (D,), for all users' labels, (m,)."""
        count, given = integer("users", users, low=0), np.asarray(refuse_missing("labels", labels))
        if given.ndim != 1 or given.dtype.kind not in "iu":
            raise ValueError(
                f"labels must be integers of shape (m,), got {given.dtype} of shape {given.shape}"
            )
        most = self.coefficients * (self.steps + 1)
        if given.size and not 0 <= int(given.min()) <= int(given.max()) < most:
            raise ValueError(f"labels must be from 0 to {most - 1}; there are others")
        coefficient, value = np.divmod(given.astype(np.int64), self.steps + 1)
        sums = np.bincount(coefficient, weights=value, minlength=self.coefficients)
        return np.asarray((2 * sums / self.steps - count) * self.bound)

    @property
    def influence(self) -> float:
        """Greatest distance of two sums of coefficients that differ in one user's messages.

        What a shuffler of m coefficients lets pass adds a nonnegative vector of norm at most
        ``2 bound limit m``. Two of them are furthest apart, sqrt(2) times that, if they are about
        different coefficients; a shuffler of one coefficient has no other. The distance of two
        estimates is no larger if ``inverse`` makes nothing longer.
        """
        squares = sum(size**2 * min(size, 2) for size in map(len, self.groups))
        return 2 * self.bound * self.limit * math.sqrt(squares)


@dataclass(frozen=True)
class Poisoned:
    """Squared Euclidean errors of one run, in the data's units.

    Attributes
    ----------
    honest, attacked : float
        If all users are honest, and if some send forged messages: from the sum of all vectors.
    limit : float
        The square of how far forged messages can move the estimate, if the protocol's ``inverse``
        makes nothing longer. Rounding and noise add their own errors to ``attacked``.
    """

    honest: float
    attacked: float
    limit: float


def poison(
    protocol: CoefficientSum,
    coefficients: ArrayLike,
    malicious: int,
    *,
    noise: float | Fraction | None = None,
    rng: RandomSource | None = None,
) -> Poisoned:
    """Run a protocol on all users' coefficients, and again with forged messages of some.

    Parameters
    ----------
    protocol : CoefficientSum
        What is attacked.
    coefficients : (n, D) array_like of float
        Of each user's vector.
    malicious : int
        How many of the first users send `CoefficientSum.forged`.
    noise : float, optional
        Rate of discrete Laplace noise in each sum of coefficients, in steps; none by default. It is
        the same in both runs.
    rng : RandomSource, optional
        Secure randomness by default.

    Examples
    --------
    >>> from ikos.testing import DeterministicRandom
    >>> protocol = CoefficientSum(coefficients=64, bound=1 / 8, steps=2)
    >>> found = poison(protocol, np.zeros((100, 64)), 1, rng=DeterministicRandom(0))
    >>> round(found.honest), round(found.attacked), round(found.limit)
    (0, 253, 512)
    """
    source = secure(rng)
    given = np.asarray(refuse_missing("coefficients", coefficients), dtype=np.float64)
    labels = protocol.randomize(given, source)
    users = len(labels)
    liars = integer("malicious", malicious, low=0, high=users)
    added = np.zeros(protocol.coefficients)
    if noise is not None:
        drawn = discrete_laplace(noise, protocol.coefficients, source)
        added = drawn.astype(np.float64) * (2 * protocol.bound / protocol.steps)
    truth = protocol.inverse(given.sum(axis=0))
    forged = protocol.forged()
    assert protocol.allowed(forged)
    attacked = np.concatenate([labels[liars:].reshape(-1), *[forged] * liars])
    squares = []
    for sent in (labels.reshape(-1), attacked):
        estimate = protocol.inverse(protocol.totals(sent, users=users) + added)
        squares.append(float(((estimate - truth) ** 2).sum()))
    return Poisoned(squares[0], squares[1], (liars * protocol.influence) ** 2)


def flooded(messages: NDArray[Any], user: int, label: int) -> NDArray[Any]:
    """Return all users' messages with those of a dishonest user replaced by copies of one label.

    ``messages``, (m, k), are as the ``randomize`` of a protocol with labels returns them: column i
    holds those of user i, padded to the most that any user sends and the shuffler has to let pass.

    Examples
    --------
    >>> flooded(np.array([[1, 4], [2, 0]]), 1, 7)
    array([[1, 7],
           [2, 7]])
    """
    if messages.ndim != 2:
        raise ValueError(f"messages must have shape (messages, users), got {messages.shape}")
    result = messages.copy()
    result[:, integer("user", user, low=0, high=messages.shape[1] - 1)] = label
    return result
