"""Laws of messages about sparse vectors of signs, by their definitions and in rationals.

Written from the papers' definitions and not with the library's samplers, to test those.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from fractions import Fraction
from itertools import combinations, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

Law = Mapping[Any, Fraction]


def sparse_vectors(d: int, s: int, *, exactly: bool = False) -> list[tuple[int, ...]]:
    """Return all vectors of -1, 0 and 1 with at most, or exactly, s entries that are not 0."""
    found = []
    for x in product((0, 1, -1), repeat=d):
        entries = sum(map(abs, x))
        if entries == s or (entries < s and not exactly):
            found.append(x)
    return found


def events(x: Sequence[int]) -> list[int]:
    """Return the events of a vector: 2j for 1 at coordinate j, 2j + 1 for -1."""
    return [2 * j + (value < 0) for j, value in enumerate(x) if value]


def collision_law(hits: Iterable[int], s: int, t: int, odds: Fraction) -> dict[int, Fraction]:
    """Return P[z | x] for one hash function, word by word WLQDLY21's Definition 3."""
    distinct = set(hits)
    omega = s * odds + t - s
    rest = (omega - odds * len(distinct)) / ((t - len(distinct)) * omega)
    return {z: odds / omega if z in distinct else rest for z in range(t)}


def privkv_law(x: Sequence[int], gamma: Fraction) -> dict[int, Fraction]:
    """Return the law of 3 key + answer."""
    d = len(x)
    return {
        3 * j + a: (gamma / 3 + (1 - gamma) * (a == x[j] % 3)) / d
        for j in range(d)
        for a in range(3)
    }


def grr_law(x: Sequence[int], gamma: Fraction) -> dict[int, Fraction]:
    """Return the law of an event: one of the user's own, or a uniform one."""
    own = events(x)
    m = 2 * len(x)
    return {e: gamma / m + (1 - gamma) * Fraction(own.count(e), len(own)) for e in range(m)}


def ue_law(x: Sequence[int], s: int, q: Fraction) -> dict[tuple[int, ...], Fraction]:
    """Return the law of the bits: one of s places drawn, its event's bit kept with 1/2."""
    own: list[int | None] = [*events(x)]
    own += [None] * (s - len(own))
    law: dict[tuple[int, ...], Fraction] = {}
    for bits in product((0, 1), repeat=2 * len(x)):
        for drawn in own:
            chance = Fraction(1, s)
            for place, bit in enumerate(bits):
                one = Fraction(1, 2) if place == drawn else q
                chance *= one if bit else 1 - one
            law[bits] = law.get(bits, Fraction(0)) + chance
    return law


def worst_ratio(laws: Sequence[Law]) -> Fraction:
    """Return the largest ratio of probabilities of one message under two laws."""
    for law in laws:
        assert sum(law.values()) == 1
    return max(max(law[m] for law in laws) / min(law[m] for law in laws) for m in laws[0])


class Views:
    """The laws of what is seen of n shuffled messages: all multisets.

    Parameters
    ----------
    laws : sequence of mapping
        Of one message, for each vector; one set of keys.
    n : int
        Users, 2 or 3.
    """

    def __init__(self, laws: Sequence[Law], n: int) -> None:
        messages = list(laws[0])
        self.n = n
        self.laws = np.array([[float(law[m]) for m in messages] for law in laws])
        every = np.sort(np.array(list(product(range(len(messages)), repeat=n))), axis=1)
        code = every @ len(messages) ** np.arange(n)
        self._cell = np.unique(code, return_inverse=True)[1]

    def law(self, users: Sequence[int]) -> NDArray[np.float64]:
        """Return the law of the view where the users have these vectors."""
        joint = self.laws[users[0]]
        for user in users[1:]:
            joint = np.multiply.outer(joint, self.laws[user])
        return np.bincount(self._cell, weights=joint.reshape(-1))

    def divergence(self, epsilon: float, others: Sequence[Sequence[int]] | None = None) -> float:
        """Return the largest hockey-stick divergence over all changes of one user's vector."""
        count = len(self.laws)
        if others is None:
            rest = np.arange(count)
            others = [(i,) for i in rest] if self.n == 2 else list(combinations(rest, 2))
        worst = 0.0
        for known in others:
            seen = [self.law((x, *known)) for x in range(count)]
            for first, second in product(seen, repeat=2):
                excess = np.maximum(first - math.exp(epsilon) * second, 0).sum()
                worst = max(worst, float(excess))
        return worst


def moments(
    law: Mapping[Hashable, Fraction], estimate: Callable[[Any], NDArray[np.float64]]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return mean and variance of estimates that are made of one message."""
    chance = np.array([float(p) for p in law.values()])
    values = np.array([estimate(message) for message in law])
    mean = np.tensordot(chance, values, 1)
    return mean, np.tensordot(chance, (values - mean) ** 2, 1)


def check_variances(protocol: Any, x: Sequence[int], law: Law, message: Callable[..., Any]) -> None:
    """Unbiased counts and sums from one message, and exactly the variances that are claimed."""

    def counts(m: Any) -> NDArray[np.float64]:
        return protocol._counts(message(m))

    said = protocol.variances
    mean, variance = moments(law, counts)
    truth = np.array([[value == 1, value == -1] for value in x], dtype=float)
    np.testing.assert_allclose(mean, truth, atol=1e-11)
    wanted = np.where(truth == 1, said.present, said.absent)
    np.testing.assert_allclose(variance, wanted, rtol=1e-10)

    mean, variance = moments(law, lambda m: counts(m)[:, 0] - counts(m)[:, 1])
    np.testing.assert_allclose(mean, x, atol=1e-11)
    wanted = np.where(np.array(x) == 0, said.zero, said.nonzero)
    np.testing.assert_allclose(variance, wanted, rtol=1e-10)
    most = max(float(np.abs(counts(m)[:, 0] - counts(m)[:, 1] - x).max()) for m in law)
    assert most <= said.largest * (1 + 1e-12)
