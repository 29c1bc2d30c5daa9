"""Reconstruction of one user's vector from few messages per user (AFNNTZ24, Algorithms 1 and 2).

In a protocol of n users with k messages each, one of the C(n k, k) sets of k messages is what the
target sent. If the analyzer adds up the messages, the sum of that set is off by at most one user's
part of the error: E dist(v, S)^2 <= Err / n for S the set of all such sums (Proposition 2.3). For
any other unbiased analyzer the sum is replaced by the mean of its estimate when the set is mixed
with messages of dummies whose vectors average to zero (Proposition 2.4).

The attack ends with a set, not with a vector. It gains something if the set is so small that a
vector that no user has is much further from it: at most C(n k, k) r^d of the unit ball is within r
of the set. So about d / log n messages are needed (:ref:`proof-bounds`). `SplitSum` is a target.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain, combinations, islice
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from ikos._validation import InvalidType, InvalidValue, integer, number, refuse_missing
from ikos.data.encoding import encode
from ikos.primitives.randomness import RandomSource, secure
from ikos.primitives.samplers import polya

MAX_SUBSETS = 10**7  # most sets of messages tried, and most estimates of dummies
MAX_MODULUS = 1 << 40
_WORK = 1 << 16  # approximate entries of a block of sets

Analyzer = Callable[[NDArray[Any]], NDArray[np.float64]]
"""Maps messages of several runs, (runs, n k, w), to estimates, (runs, d)."""


def _subsets(name: str, count: int, k: object) -> tuple[int, int]:
    """Check k and return it with the number of subsets."""
    size = integer("k", k, low=1, high=count)
    subsets = math.comb(count, size)
    if subsets > MAX_SUBSETS:
        raise InvalidValue(
            name,
            f"must have at most {MAX_SUBSETS} sets of k = {size} messages, got "
            f"{count} messages with {subsets:.3g}",
        )
    return size, subsets


def _finite(name: str, values: ArrayLike, dimensions: int = 2) -> NDArray[Any]:
    """Check and return an array of numbers."""
    given = np.asarray(refuse_missing(name, values))
    if given.dtype.kind not in "iuf":
        raise InvalidType(name, f"must be numbers, got an array of {given.dtype}")
    if given.ndim != dimensions or not given.size:
        raise InvalidValue(name, f"must have {dimensions} dimensions, got shape {given.shape}")
    if not np.isfinite(given).all():
        raise InvalidValue(name, "must be finite; there are others")
    return given


def _centred(sums: NDArray[Any], modulus: int | None) -> NDArray[Any]:
    """Return sums modulo an integer, in [-modulus/2, modulus/2)."""
    if modulus is None:
        return sums
    half = modulus // 2
    return np.asarray((sums + half) % modulus - half)


def _members(count: int, k: int) -> Iterator[NDArray[np.int64]]:
    """Yield all k-subsets of range(count), (block, k), in lexicographic order."""
    members = chain.from_iterable(combinations(range(count), k))
    size = k * max(1, _WORK // k)
    while (part := np.fromiter(islice(members, size), dtype=np.int64)).size:
        yield part.reshape(-1, k)


def subset_sums(
    messages: ArrayLike, k: int, *, modulus: int | None = None
) -> Iterator[NDArray[Any]]:
    """Yield the sums of all sets of k messages, some at a time (AFNNTZ24, Algorithm 1).

    Parameters
    ----------
    messages : (m, d) array_like
        The shuffled messages of all users: vectors, in any order.
    k : int
        Messages per user.
    modulus : int, optional
        If given, sums of integers are taken modulo it, centred about 0; at most 2^40.

    Yields
    ------
    (block, d) ndarray
        C(m, k) rows in total, at most 10^7.

    Examples
    --------
    >>> [sums.tolist() for sums in subset_sums([[1, 0], [0, 1], [5, 5]], 2)]
    [[[1, 1], [6, 5], [5, 6]]]
    """
    rows = _finite("messages", messages)
    size, _ = _subsets("messages", len(rows), k)
    if modulus is not None:
        integer("modulus", modulus, low=2, high=MAX_MODULUS)
        if rows.dtype.kind == "f":
            raise InvalidType("messages", f"must be integers with a modulus, got {rows.dtype}")
        rows = (rows % modulus).astype(np.int64)
    for members in _members(len(rows), size):
        sums = rows[members[:, 0]]
        for j in range(1, size):
            sums = sums + rows[members[:, j]]
        yield _centred(sums, modulus)


def distances(
    messages: ArrayLike,
    k: int,
    targets: ArrayLike,
    *,
    scale: float = 1.0,
    modulus: int | None = None,
) -> NDArray[np.float64]:
    """Return the Euclidean distances of vectors from the nearest sum of k messages, (t,).

    Parameters
    ----------
    messages, k, modulus
        As for `subset_sums`.
    targets : (t, d) array_like of float
        Vectors, in the data's units.
    scale : float
        Steps of the messages per unit of the data.

    Examples
    --------
    >>> distances([[1, 0], [0, 1], [5, 5]], 2, [[1, 1], [5, 9]])
    array([0., 3.])
    """
    wanted = _finite("targets", targets)
    if wanted.shape[1] != np.shape(messages)[-1]:
        raise InvalidValue("targets", f"must be as long as the messages, got shape {wanted.shape}")
    unit = float(number("scale", scale, above=0))
    best = np.full(len(wanted), math.inf)
    for sums in subset_sums(messages, k, modulus=modulus):
        points = sums / unit
        for i, target in enumerate(wanted):
            best[i] = min(best[i], float(((points - target) ** 2).sum(axis=1).min()))
    return np.asarray(np.sqrt(best))


# Any unbiased analyzer


def dummy_candidates(
    messages: ArrayLike, k: int, analyzer: Analyzer, dummies: ArrayLike
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the mean estimate for each set of k messages, by any unbiased analyzer (Algorithm 2).

    Also return the roots of the estimated mean squared distances from the true means. At most 10^7
    estimates.

    Parameters
    ----------
    messages, k
        As for `subset_sums`; w numbers each.
    analyzer : callable
        Maps messages, (runs, m, w), to estimates of the sum, (runs, d). It must not depend on the
        order of the messages.
    dummies : (samples, m - k, w) array_like
        Independent samples of the messages of all users but one, with vectors uniform on the
        sphere. All sets share them, so errors of the points are dependent.

    Examples
    --------
    >>> dummy_candidates([[1.0], [4.0]], 1, lambda m: m.sum(axis=1), [[[2.0]], [[-2.0]]])
    (array([[1.],
           [4.]]), array([2., 2.]))
    """
    rows = _finite("messages", messages)
    size, subsets = _subsets("messages", len(rows), k)
    mixed = _finite("dummies", dummies, 3)
    if mixed.shape[1:] != (len(rows) - size, rows.shape[1]) or len(mixed) < 2:
        raise InvalidValue(
            "dummies",
            f"must have shape (samples, {len(rows) - size}, {rows.shape[1]}) with two "
            f"samples or more, got {mixed.shape}",
        )
    samples = len(mixed)
    if subsets * samples > MAX_SUBSETS:
        raise InvalidValue(
            "dummies",
            f"must be at most {MAX_SUBSETS // subsets} samples for {subsets} sets, got {samples}",
        )
    points, errors = [], []
    for members in _members(len(rows), size):
        for chosen in members:
            own = np.broadcast_to(rows[chosen], (samples, size, rows.shape[1]))
            estimates = analyzer(np.concatenate([own, mixed], axis=1))
            points.append(estimates.mean(axis=0))
            errors.append(math.sqrt(float(estimates.var(axis=0, ddof=1).sum()) / samples))
    return np.array(points), np.array(errors)


# A protocol to try it on


def random_unit(count: int, d: int, rng: RandomSource | None = None) -> NDArray[np.float64]:
    """Return independent uniform vectors of norm 1, (count, d)."""
    drawn = secure(rng).uniform(1 << 53, count * d).astype(np.float64)
    normal = ndtri((drawn + 0.5) / (1 << 53)).reshape(count, d)
    return np.asarray(normal / np.linalg.norm(normal, axis=1, keepdims=True))


@dataclass(frozen=True)
class SplitSum:
    """Vectors of norm at most 1, rounded, with noise, split into k messages that add up to them.

    Parameters
    ----------
    n, d, k : int
        Numbers of users, coordinates, and messages per user.
    precision : int
        Steps per unit.
    rate : Fraction
        The noise of each coordinate of the sum is discrete Laplace with P[z] proportional to
        exp(-rate |z|), in steps; each user adds a difference of two Polya variables.
    modulus : int, optional
        If given, messages are additive shares modulo it, as in a secure sum with one shuffler. It
        must exceed twice the largest noisy sum that can be expected.
    spread : int
        Without a modulus, all messages but one are uniform in {-spread..spread} in each coordinate.

    Notes
    -----
    A demonstration, without any claim of privacy. The mean squared error is at most `mse`: ``d
    (noise + n/4)`` in squared steps, for the noise's variance in one coordinate of the sum, and
    1/4, the largest variance of a rounding.

    Examples
    --------
    >>> from ikos.testing import DeterministicRandom
    >>> protocol = SplitSum(n=3, d=2, k=4, precision=100, rate=Fraction(1, 50))
    >>> messages = protocol.randomize([[1, 0], [0, 1], [0, 0]], DeterministicRandom(0))
    >>> messages.shape, (abs(protocol.analyze(messages) - [1, 1]) < 10).tolist()
    ((3, 4, 2), [True, True])
    """

    n: int
    d: int
    k: int
    precision: int
    rate: Fraction
    modulus: int | None = None
    spread: int = 0

    def __post_init__(self) -> None:
        for name in ("n", "d", "k", "precision"):
            integer(name, getattr(self, name), low=1, high=1 << 20)
        number("rate", self.rate, above=0)
        integer("spread", self.spread, low=0, high=MAX_MODULUS)
        if self.modulus is not None:
            integer("modulus", self.modulus, low=2 * self.n * self.precision, high=MAX_MODULUS)

    @property
    def mse(self) -> float:
        """Bound on the mean squared error of the sum, in the data's units; without wrap-around."""
        x = math.exp(-float(self.rate))
        noise = 2 * x / (1 - x) ** 2
        return self.d * (noise + self.n / 4) / self.precision**2

    def randomize(self, x: ArrayLike, rng: RandomSource | None = None) -> NDArray[np.int64]:
        """Return messages, (n, k, d), in steps."""
        source = secure(rng)
        given = np.asarray(refuse_missing("x", x), dtype=np.float64)
        inside = given.shape == (self.n, self.d)
        if not inside or not (np.linalg.norm(given, axis=1) <= 1 + 1e-9).all():  # False for NaN
            raise InvalidValue("x", f"must hold {self.n} vectors of {self.d} of norm at most 1")
        unit = np.clip((given.reshape(-1) + 1) / 2, 0, 1)
        total = encode(unit, 2 * self.precision, source) - self.precision
        share = Fraction(1, self.n)
        noise = [polya(share, self.rate, total.size, source) for _ in range(2)]
        total = (total + noise[0] - noise[1]).astype(np.int64)
        first = self.n * (self.k - 1) * self.d
        span = self.modulus or 2 * self.spread + 1
        pieces = np.zeros(first, dtype=np.int64)
        if span > 1:
            pieces = source.uniform(span, first).astype(np.int64) - span // 2
        messages = np.empty((self.n, self.k, self.d), dtype=np.int64)
        messages[:, 1:] = pieces.reshape(self.n, self.k - 1, self.d)
        rest = total.reshape(self.n, self.d) - messages[:, 1:].sum(axis=1)
        messages[:, 0] = _centred(rest, self.modulus)
        return messages

    def shuffled(self, x: ArrayLike, rng: RandomSource | None = None) -> NDArray[np.int64]:
        """Return the output of one shuffler, (n k, d): all messages in random order."""
        source = secure(rng)
        messages = self.randomize(x, source).reshape(-1, self.d)
        return np.asarray(messages[source.permutation(len(messages))])

    def analyze(self, messages: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the estimate of the sum, (d,)."""
        total = messages.reshape(-1, self.d).sum(axis=0)
        return np.asarray(_centred(total, self.modulus) / self.precision)


@dataclass(frozen=True)
class Reconstruction:
    """How near the attack came, over independent runs.

    ``own`` and ``other`` are distances from the set: of the target's vector, and of one, uniform on
    the sphere, that no user has. ``subsets`` is a bound on the size of the set, and ``mean_square``
    on the mean square of ``own``, Err / n.
    """

    own: tuple[float, ...]
    other: tuple[float, ...]
    subsets: int
    mean_square: float

    @property
    def gain(self) -> float:
        """Fraction of runs in which the target's vector is the nearer one; 1/2 is no gain."""
        pairs = list(zip(self.own, self.other, strict=True))
        ties = sum(own == other for own, other in pairs)
        return (sum(own < other for own, other in pairs) + ties / 2) / len(pairs)


def measure_reconstruction(
    protocol: SplitSum, trials: int, rng: RandomSource | None = None
) -> Reconstruction:
    """Attack independent runs of a protocol with vectors that are uniform on the sphere.

    There can be at most 10^7 sets of k messages.

    Examples
    --------
    >>> from ikos.testing import DeterministicRandom
    >>> protocol = SplitSum(n=5, d=8, k=2, precision=1000, rate=Fraction(1, 100), spread=500)
    >>> found = measure_reconstruction(protocol, 20, DeterministicRandom(0))
    >>> found.subsets, found.gain, max(found.own) < 0.5 < min(found.other)
    (45, 1.0, True)
    """
    source = secure(rng)
    runs = integer("trials", trials, low=1, high=10**6)
    _, subsets = _subsets("protocol", protocol.n * protocol.k, protocol.k)
    how: dict[str, Any] = {"scale": protocol.precision, "modulus": protocol.modulus}
    found = []
    for _ in range(runs):
        x = random_unit(protocol.n + 1, protocol.d, source)
        messages = protocol.shuffled(x[:-1], source)
        found.append(distances(messages, protocol.k, x[[0, -1]], **how).tolist())
    own, other = map(tuple, zip(*found, strict=True))
    return Reconstruction(own, other, subsets, protocol.mse / protocol.n)
