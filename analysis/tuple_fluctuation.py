"""Tuple counts of single inputs, and how much they fluctuate.

If the other users' inputs are uniform, the likelihood of a target's value, relative to a view of
independent uniform messages, is its tuple count relative to n^m / q.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from ikos._validation import MAX_SIMULATED_USERS, flag, integer
from ikos.attacks.tuple_counting import (
    MAX_MESSAGES,
    MAX_MODULUS,
    _counts_at,
    _drawn_views,
    _inputs,
    _own_residues,
)
from ikos.primitives.modular import Zq
from ikos.primitives.randomness import RandomSource, secure
from ikos.primitives.shuffling import View


def consistent_tuples(view: View, q: int, user: int, value: int) -> int:
    """Count the tuples that add up to a certain input of a user less its clear share, if any.

    Parameters
    ----------
    view : View
        Received from parallel shufflers, with or without clear shares.
    q : int
        As for `tuple_counts`.
    user : int
        The target, counted from 0. Without clear shares the count is the same for all users.
    value : int
        The input to try, in ``[0, q)``. The true one has a count of at least 1.

    Examples
    --------
    >>> import numpy as np
    >>> view = View((np.array([5, 8, 1]), np.array([3, 3, 9])), np.array([0, 4, 2]))
    >>> consistent_tuples(view, 10, user=2, value=0)  # 5 + 3 + 2 twice, 9 + 9 + 2 never
    2
    """
    group = Zq(integer("q", q, low=2, high=MAX_MODULUS))
    if not isinstance(view, View):
        raise TypeError(f"view must be an ikos.View, got {type(view).__name__}")
    arrays = view.columns if view.clear is None else (*view.columns, view.clear)
    sizes = sorted({array.size for array in arrays})
    if not view.columns or len(sizes) != 1 or not sizes[0]:
        raise ValueError(f"view must hold as many messages per shuffler as users, got {view!r}")
    target = integer("user", user, low=0, high=sizes[0] - 1)
    tried = integer("value", value, low=0, high=group.q - 1)
    columns = np.stack([group.elements(column, "view.columns") for column in view.columns])
    clear = 0 if view.clear is None else int(group.elements(view.clear, "view.clear")[target])
    return int(_counts_at(columns[None], group.q, np.array([[(tried - clear) % group.q]]))[0, 0])


def count_moments(n: int, q: int, m: int) -> tuple[Fraction, Fraction]:
    """Return the exact mean and variance of a target's tuple count: of N(y_1), over the messages.

    Without a clear share, also over uniform inputs. For other residues only the mean is 1 less.
    """
    others = n**m - 1
    return 1 + Fraction(others, q), Fraction(others * (q - 1), q * q)


@dataclass(frozen=True)
class Fluctuation:
    """How much a tuple count N fluctuates, relative to n^m / q.

    ``estimate`` is the root of the mean square of ``(N - mean) / (n^m / q)``, for the exact mean,
    with a ``standard_error`` from the sample. Its limit is ``exact``.
    """

    n: int
    q: int
    m: int
    trials: int
    estimate: float
    standard_error: float
    exact: float


def fluctuation(
    n: int,
    q: int,
    m: int,
    trials: int,
    *,
    clear_share: bool = True,
    rng: RandomSource | None = None,
) -> Fluctuation:
    """Measure the relative fluctuation of a target's tuple count.

    If the other users' inputs are uniform, the likelihood of a target's value, relative to a view
    of independent uniform messages, is exactly N / (n^m / q): each tuple is equally likely to be
    the target's. Differential privacy has to cover the deviation of these ratios from 1.

    Parameters
    ----------
    n, q, m, trials, clear_share
        As in `measure_advantage`; the target is the first user, with its true value.

    Examples
    --------
    >>> from ikos.testing import DeterministicRandom
    >>> found = fluctuation(20, 16, 2, 2_000, rng=DeterministicRandom(1))
    >>> abs(found.estimate - found.exact) < 0.01
    True
    """
    n = integer("n", n, low=2, high=MAX_SIMULATED_USERS)
    m = integer("m", m, low=1, high=MAX_MESSAGES)
    trials, clear_share = integer("trials", trials, low=1), flag("clear_share", clear_share)
    group, source = Zq(integer("q", q, low=2, high=MAX_MODULUS)), secure(rng)
    mean, variance = count_moments(n, group.q, m)
    by_chance = Fraction(n**m, group.q)
    base = math.floor(mean)  # subtracted from the counts exactly, before they become doubles
    second = fourth = 0.0
    for x in _inputs(trials, n, group, m, clear_share, source):
        columns, clear = _drawn_views(x, group, m, clear_share, source)
        counts = _counts_at(columns, group.q, _own_residues(x, clear, group.q)[:, :1])[:, 0]
        deviations = (counts - base).astype(np.float64) - float(mean - base)
        squares = (deviations / float(by_chance)) ** 2
        second += float(squares.sum())
        fourth += float((squares**2).sum())
    estimate = math.sqrt(second / trials)
    deviation = math.sqrt(max(0.0, fourth / trials - (second / trials) ** 2) / trials)
    error = deviation / (2 * estimate) if estimate else 0.0
    return Fluctuation(n, group.q, m, trials, estimate, error, math.sqrt(variance / by_chance**2))
