"""The Collision mechanism: a sparse vector of signs in a short message (WLQDLY21, Definition 3)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import ArrayLike, NDArray

from ikos._validation import InvalidType, InvalidValue, integer
from ikos.accounting.wlqdly21 import MAX_VALUES, collision_parameters, collision_variances
from ikos.baselines.base import Description
from ikos.baselines.key_values import SetResponse, events_of, key_value_terms
from ikos.data.domains import SparseTernary
from ikos.primitives.modular import blocks
from ikos.primitives.randomness import RandomSource

SEED_BITS = 48  # bits of the seed of a hash function
_VALUE_BITS = 16
_KEY = b"ikos.collision.1"  # public: it makes one family of functions out of AES
_CELLS = 1 << 16
_MOST_ROWS = 255  # counts of a block fit in a byte


def hash_values(seeds: ArrayLike, events: ArrayLike, t: int) -> NDArray[np.int64]:
    """Return the values of hash functions, one per seed, at events.

    Parameters
    ----------
    seeds, events : array_like of int
        In [0, 2^48) and [0, 2^40), of compatible shapes: event 2j is "coordinate j is +1", 2j + 1
        is "-1".
    t : int
        Number of values, from 2 to 2^16.

    Notes
    -----
    AES-128 with the public key ``ikos.collision.1`` is applied to the block of two little-endian
    64-bit words ``seed, event // 2``. The upper 48 bits u of the half ``event % 2`` become floor(u
    t / 2^48): as good as independent and uniform, up to a relative t 2^-48. Estimates are unbiased
    to the same extent. Privacy does not rest on this.

    Examples
    --------
    >>> hash_values([0, 1], [[0], [1]], 1000).tolist()
    [[566, 681], [360, 753]]
    """
    values = integer("t", t, low=2, high=MAX_VALUES)
    seed, event = np.broadcast_arrays(np.asarray(seeds), np.asarray(events))
    for name, array, bits in (("seeds", seed, SEED_BITS), ("events", event, 40)):
        if array.dtype.kind not in "iu":
            raise InvalidType(name, f"must be integers, got an array of {array.dtype}")
        if array.size and not 0 <= array.min() <= array.max() < 1 << bits:
            raise InvalidValue(name, f"must be in [0, 2^{bits}); there are others")
    result = np.empty(seed.size, dtype=np.int64)
    flat_seed, flat_event = seed.reshape(-1), event.reshape(-1).astype(np.int64)
    for part in blocks(seed.size, _CELLS):
        words = np.empty((result[part].size, 2), dtype="<u8")
        words[:, 0] = flat_seed[part]
        words[:, 1] = flat_event[part] >> 1
        half = flat_event[part] & 1
        drawn = _encrypted(words, np.empty(words.nbytes + 16, dtype=np.uint8))
        upper = np.take_along_axis(drawn, half[:, np.newaxis], axis=1)[:, 0] >> np.uint64(16)
        result[part] = (upper * np.uint64(values) >> np.uint64(48)).astype(np.int64)
    return result.reshape(seed.shape)


def _encrypted(words: NDArray[np.uint64], space: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """Return blocks of two words encrypted, in a space with room for one block more."""
    cipher = Cipher(algorithms.AES(_KEY), modes.ECB()).encryptor()
    cipher.update_into(words.reshape(-1).view(np.uint8).data, space.data)
    return space[: words.nbytes].view("<u8").reshape(words.shape)


def support_counts(
    seeds: NDArray[np.uint64], values: NDArray[np.int64], dimension: int, t: int
) -> NDArray[np.int64]:
    """Return for each event the number of messages (seed, z) with H(event) = z."""
    # floor(u t / 2^48) = z if and only if u is between two edges; shifted by 16 bits, the rest of
    # the half word is below the last bit that counts.
    edges = [-((-z << SEED_BITS) // t) for z in range(t + 1)]
    low = np.array([edge << 16 for edge in edges[:-1]], dtype=np.uint64)
    width = np.array([(after - before) << 16 for before, after in pairwise(edges)], dtype=np.uint64)
    total = np.zeros((dimension, 2), dtype=np.int64)
    rows = max(1, min(_MOST_ROWS, _CELLS // dimension, max(seeds.size, 1)))
    for first in range(0, dimension, _CELLS):
        some = np.arange(first, min(first + _CELLS, dimension), dtype="<u8")
        words = np.empty((rows, some.size, 2), dtype="<u8")
        words[:, :, 1] = some
        space = np.empty(words.nbytes + 16, dtype=np.uint8)
        hit = np.empty(words.shape, dtype=np.bool_)
        for part in blocks(seeds.size, rows):
            count = seeds[part].size
            words[:count, :, 0] = seeds[part][:, np.newaxis]
            drawn = _encrypted(words[:count], space)
            z = values[part]
            drawn -= low[z][:, np.newaxis, np.newaxis]  # wraps around below the lower edge
            np.less(drawn, width[z][:, np.newaxis, np.newaxis], out=hit[:count])
            total[first : first + _CELLS] += hit[:count].view(np.uint8).sum(axis=0, dtype=np.uint8)
    return total


def respond_in_sets(
    owners: NDArray[np.int64],
    values: NDArray[np.int64],
    users: int,
    *,
    size: int,
    t: int,
    gamma: Fraction,
    rng: RandomSource,
) -> NDArray[np.int64]:
    """Return one value in {0..t-1} for each user, more likely one of the user's set.

    With probability gamma a uniform value; otherwise a uniform element of a set of exactly ``size``
    values: the distinct values given, completed by a uniformly random choice of others.
    """
    keys = np.unique(owners * t + values)  # each user's distinct values, in order
    keepers = keys // t
    counts = np.bincount(keepers, minlength=users)
    starts = np.cumsum(counts) - counts
    result = np.empty(users, dtype=np.int64)
    random = rng.bernoullis(gamma, users)
    result[random] = rng.uniform(t, int(random.sum())).astype(np.int64)
    element = rng.below(np.full(users, size, dtype=np.int64))
    inside = np.flatnonzero(~random & (element < counts))
    result[inside] = keys[starts[inside] + element[inside]] - inside * t
    # An element beyond the given values is in the choice of others: a uniform other value.
    other = np.flatnonzero(~random & (element >= counts))
    while other.size:
        drawn = rng.uniform(t, other.size).astype(np.int64)
        result[other] = drawn
        other = other[np.isin(other * t + drawn, keys, assume_unique=True)]
    return result


@dataclass(frozen=True, init=False, repr=False)
class Collision(SetResponse):
    """The Collision mechanism of WLQDLY21: one hashed event per user, or a random value.

    A user draws a hash function from the 2d events "coordinate j is +1" and "is -1" to t values,
    and sends its seed with one value: that of one of its events, or with some probability another
    one. For each event, the analyzer counts the messages whose value it hashes to.

    Parameters
    ----------
    n, domain, epsilon, delta, local_epsilon, min_honest
        As for `KeyValueBaseline`. Shuffled messages have a much smaller error.
    t : int, optional
        Number of hash values: above the sparsity, at least twice that if delta is positive, and at
        most 2^16. By default the number with the smallest error that
        ``ikos.accounting.wlqdly21.collision_parameters`` finds.

    Attributes
    ----------
    t : int
        Number of hash values.
    gamma : Fraction
        Probability of a uniform value, t / (s e^eps + t - s) for a local guarantee eps.

    Notes
    -----
    A message is ``seed << 16 | value``, with a seed of 48 bits. The guarantee of the shuffled
    messages does not depend on the hash functions or the dimension; the unbiasedness of estimates
    does: see `hash_values`.

    Examples
    --------
    >>> from ikos import SparseTernary
    >>> local = Collision(10_000, SparseTernary(8, 2), epsilon=1)
    >>> shuffled = Collision(10_000, SparseTernary(8, 2), epsilon=1, delta=1e-6)
    >>> local.t, shuffled.t, round(local.mse / shuffled.mse)
    (8, 111, 41)
    >>> published = Collision(10_000, SparseTernary(8, 2), epsilon=1, delta=1e-6, t=9)
    >>> round(published.mse / shuffled.mse, 1)
    3.6
    """

    t: int

    def __init__(
        self,
        n: int,
        domain: SparseTernary,
        epsilon: float | Fraction,
        delta: float | Fraction = 0,
        *,
        t: int | None = None,
        local_epsilon: float | Fraction | None = None,
        min_honest: int | None = None,
    ) -> None:
        values = None if t is None else integer("t", t, low=2, high=MAX_VALUES)
        terms, most = key_value_terms(n, domain, epsilon, delta, local_epsilon, min_honest)
        self._init(terms, **self._calibrated(terms, most, values))

    @classmethod
    def _calibrated(
        cls, terms: Any, most: Fraction | None, t: int | None = None
    ) -> dict[str, object]:
        d, s = terms.domain.dimension, terms.domain.sparsity
        best = collision_parameters(
            terms.min_honest, d, s, terms.epsilon, terms.delta, most_local=most, t=t
        )
        return {
            "t": best.t,
            "gamma": best.gamma,
            "variances": collision_variances(best.t, s, best.gamma),
            "_alphabet": best.t,
            "_answers": Fraction(best.t, s),
        }

    def _describe(self) -> Description:
        # A message's support has 2d indicators: two differ by at most 2 sqrt(d)/(p - 1/t), for
        # every hash function. A random message moves the estimate by about sqrt(2 d/t)/(p - 1/t);
        # to do better one must search for seeds.
        return self._response_described(
            f"hashed to {self.t} values,",
            "WLQDLY21, "
            + ("Definition 3, as answers from sets" if self.delta else "Proposition 1"),
            influence=2 * math.sqrt(self.dimension) / self._gain,
            seed_bits=SEED_BITS,
        )

    @property
    def _gain(self) -> float:
        """Return p - 1/t."""
        s, t = self.domain.sparsity, self.t
        return float((1 - self.gamma) * Fraction(t - s, s * t))

    def _messages(self, rows: NDArray[np.float64], rng: RandomSource) -> NDArray[Any]:
        seeds, s = np.empty(rows.shape[0], dtype=np.uint64), self.domain.sparsity
        rng.fill(seeds)
        seeds >>= np.uint64(64 - SEED_BITS)
        owners, events = events_of(rows)
        hashed = hash_values(seeds[owners], events, self.t)
        values = respond_in_sets(
            owners, hashed, rows.shape[0], size=s, t=self.t, gamma=self.gamma, rng=rng
        )
        return (seeds << np.uint64(_VALUE_BITS) | values.astype(np.uint64))[np.newaxis]

    def _valid(self, column: NDArray[Any]) -> bool:
        values = column & np.uint64(MAX_VALUES - 1) if column.dtype == np.uint64 else None
        return values is not None and bool((values < self.t).all())

    def _counts(self, column: NDArray[Any]) -> NDArray[np.float64]:
        seeds = column >> np.uint64(_VALUE_BITS)
        values = (column & np.uint64(MAX_VALUES - 1)).astype(np.int64)
        support = support_counts(seeds, values, self.domain.dimension, self.t)
        return np.asarray((support - column.size / self.t) / self._gain, dtype=np.float64)
