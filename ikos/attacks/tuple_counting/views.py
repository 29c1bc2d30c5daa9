"""Views of an analyzer, many at once, of inputs that the attack knows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ikos._validation import flag, integer
from ikos.attacks.tuple_counting.counts import checked_modulus, enumerable, reduced
from ikos.modular import Zq
from ikos.randomness import RandomSource, secure
from ikos.sharing import split

MAX_USERS = 1 << 18
"""Most users of an experiment."""

MAX_MESSAGES = 50
"""Most shuffled messages of an experiment: n^m stays within floats."""

WORK = 1 << 17
"""Array elements that a block of trials takes, about: 1 MiB of counts."""


def _permuted(columns: NDArray[np.uint32], q: int, rng: RandomSource) -> NDArray[np.uint32]:
    """Return each row along the last axis in an independent, uniformly random order.

    The values are sorted by random keys above them in the same words. A row in which two keys tie
    is drawn again: given that no two tie, every order is equally likely.
    """
    shape = columns.shape
    values = columns.reshape(-1, shape[-1]).astype(np.uint64)
    bits = np.uint64((q - 1).bit_length())
    todo = np.arange(len(values))
    out = np.empty(values.shape, dtype=np.uint32)
    while todo.size:
        packed = np.empty((todo.size, shape[-1]), dtype=np.uint64)
        rng.fill(packed)
        packed >>= bits
        packed <<= bits
        packed |= values[todo]
        packed.sort(axis=1)
        out[todo] = packed & ((np.uint64(1) << bits) - np.uint64(1))
        packed >>= bits
        todo = todo[(packed[:, 1:] == packed[:, :-1]).any(axis=1)]
    return out.reshape(shape)


def sample_views(
    x: NDArray[Any], q: int, m: int, *, clear_share: bool = True, rng: RandomSource | None = None
) -> tuple[NDArray[np.uint32], NDArray[np.uint32] | None]:
    """Draw what the analyzer sees of IKOS summation with parallel shufflers, for many inputs.

    Parameters
    ----------
    x : (trials, n) ndarray of int
        The users' inputs in each trial, in ``[0, q)``.
    q : int
        Order of the group, from 2 to 2^26.
    m : int
        Shuffled messages of each user.
    clear_share : bool
        Whether each user sends one further share that bypasses the shufflers.
    rng : RandomSource, optional
        Secure randomness by default.

    Returns
    -------
    columns : (trials, m, n) ndarray
        The shufflers' outputs, each in a uniformly random order of its own.
    clear : (trials, n) ndarray or None
        The clear shares in the users' order.

    Examples
    --------
    >>> import numpy as np
    >>> columns, clear = sample_views(np.array([[3, 5], [0, 0]]), 10, 2)
    >>> (columns.sum(axis=(1, 2)) + clear.sum(axis=1)) % 10
    array([8, 0], dtype=uint64)
    """
    group = Zq(checked_modulus(q))
    inputs = group.elements(x)
    if inputs.ndim != 2:
        raise ValueError(f"x must have shape (trials, n), got shape {inputs.shape}")
    integer("n", inputs.shape[1], low=1, high=MAX_USERS)
    m = integer("m", m, low=1)
    return drawn_views(inputs, group, m, flag("clear_share", clear_share), secure(rng))


def drawn_views(
    x: NDArray[np.uint32], group: Zq, m: int, clear_share: bool, rng: RandomSource
) -> tuple[NDArray[np.uint32], NDArray[np.uint32] | None]:
    """Return `sample_views` of what is checked already."""
    # Users share independently of each other, so all trials' users are one long row of them.
    shares = split(x.reshape(-1), group, m + clear_share, rng).reshape(-1, *x.shape)
    columns = _permuted(np.swapaxes(shares[:m], 0, 1), group.q, rng)
    return columns, shares[m] if clear_share else None


def trial_blocks(trials: int, n: int, q: int, m: int) -> Iterator[int]:
    """Yield sizes of blocks of trials whose arrays take about `WORK` elements."""
    half = (m + 1) // 2
    tuples = n ** enumerable(n, half, q)
    size = max(1, WORK // (m * n + 2 * q + tuples))
    for start in range(0, trials, size):
        yield min(size, trials - start)


def checked_setting(n: object, q: object, m: object, trials: object) -> tuple[int, Zq, int, int]:
    """Check and return the sizes of an experiment."""
    return (
        integer("n", n, low=2, high=MAX_USERS),
        Zq(checked_modulus(q)),
        integer("m", m, low=1, high=MAX_MESSAGES),
        integer("trials", trials, low=1),
    )


def known_inputs(
    size: int, n: int, group: Zq, clear_share: bool, rng: RandomSource
) -> NDArray[np.uint32]:
    """Return the inputs x: zero where clear shares make the views alike, uniform elsewhere."""
    if clear_share:
        return np.zeros((size, n), dtype=np.uint32)
    return rng.uniform(group.q, size * n).reshape(size, n)


def own_residues(
    x: NDArray[np.uint32], clear: NDArray[np.uint32] | None, q: int
) -> NDArray[np.uint32]:
    """Return what the shuffled messages of users 1 and 2 add up to if the inputs are x."""
    if clear is None:
        return x[:, :2]
    return reduced(x[:, :2] + (np.uint32(q) - clear[:, :2]), q)
