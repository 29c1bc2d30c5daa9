"""How far apart views are: exactly, at sizes where all views can be counted.

The other modules of this package prove bounds. Here the distribution of the view is counted, in
integers, for every input of a few users in a small group.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from fractions import Fraction
from itertools import combinations_with_replacement, product
from typing import Any

import gmpy2
import numpy as np
from gmpy2 import mpfr
from numpy.typing import NDArray

from ikos._validation import InvalidValue, choice, flag, integer, number, round_up
from ikos.counts.private import MAX_EPSILON, MIN_EPSILON
from ikos.counts.share_graph import SHUFFLERS
from ikos.numeric.rounding import NEAREST, exp_down, rational, rounding

CASES = ("worst", "offset", "independent")
"""Pairs of inputs with the same sum: any two, a random one and its shift, or two random ones."""

MAX_CASES = 10**8
"""Most combinations of two inputs and a view: some seconds, and less than a gigabyte."""

_MAX_SIZE = 64  # of users, group and messages: larger ones have too many cases
_LARGEST = 1 << 62  # number of choices of shares, and code of a view: exact in 64 bits
_NOISE_BITS = 200
_NOISE_COST = 10  # of a case with noise, whose probabilities are long integers
_PAIR_COST = 10  # of a pair of inputs with an offset

Inputs = tuple[int, ...]  # a multiset: the values of all users, sorted
Law = tuple[NDArray[np.int64], NDArray[np.int64]]
"""Views, as increasing codes, and how many choices of shares lead to each."""


def exact_total_variation(
    n: int,
    q: int,
    m: int,
    *,
    case: str = "worst",
    shuffler: str = "parallel",
    clear_share: bool = True,
) -> Fraction:
    """Return the exact total variation between views of the secure sum.

    Parameters
    ----------
    n, q, m, shuffler, clear_share
        As in `ikos.security_level`, and small: at most `ikos.counts.exact_views.MAX_CASES`
        combinations of two inputs and a view.
    case : {"worst", "offset", "independent"}
        The inputs X and X', which have the same sum. "worst" is the maximum over all pairs. In
        average-case security (BBGN20, Section 6), both are uniform, and the result is a mean:
        "offset" takes X' = X + d for the worst fixed d, and "independent" an X' that is independent
        of X, given the sum.

    Returns
    -------
    Fraction
        The total variation. With a clear share the first two cases are equal, by Lemma 6.1 of
        BBGN20; "independent" is not above them, and no bound for them.

    Raises
    ------
    ValueError
        If there are too many cases to count.

    See Also
    --------
    ikos.security_level : A proved bound at every size.

    Examples
    --------
    >>> exact_total_variation(3, 2, 3)
    Fraction(1, 8)
    >>> exact_total_variation(3, 2, 3, clear_share=False)
    Fraction(1, 4)
    >>> exact_total_variation(3, 2, 3, case="offset", clear_share=False)
    Fraction(1, 8)
    """
    return _secure(n, q, m, Fraction(1), case, shuffler, clear_share)


def exact_delta(
    n: int,
    q: int,
    m: int,
    epsilon: float | Fraction,
    *,
    case: str = "worst",
    shuffler: str = "parallel",
    clear_share: bool = True,
) -> float:
    """Return the smallest delta for which views of the secure sum are (epsilon, delta)-close.

    Parameters
    ----------
    epsilon : float
        At least 0. At 0 delta is the total variation.
    n, q, m, case, shuffler, clear_share
        As in `exact_total_variation`.

    Returns
    -------
    float
        The maximum, or the mean, of ``P[V(X) in E] - exp(epsilon) P[V(X') in E]`` for the worst
        event E, where V is the view. Rounded up.

    Raises
    ------
    ValueError
        If there are too many cases to count.

    Examples
    --------
    >>> [exact_delta(3, 2, 3, epsilon) for epsilon in (0, 1)]
    [0.125, 0.0625]
    """
    ratio = exp_down(number("epsilon", epsilon, low=0, high=MAX_EPSILON))
    return round_up(_secure(n, q, m, ratio, case, shuffler, clear_share))


def exact_private_delta(
    n: int,
    q: int,
    m: int,
    epsilon: float | Fraction,
    precision: int,
    *,
    noise_epsilon: float | Fraction | None = None,
    shuffler: str = "parallel",
    clear_share: bool = True,
) -> float:
    """Return the smallest delta at which a private sum is (epsilon, delta)-private.

    Parameters
    ----------
    precision : int
        Values are encoded in {0..precision}, and ``n * precision`` is below q.
    noise_epsilon : float, optional
        The epsilon of the noise alone, by default all of it. `ikos.private_message_count` has the
        one that a private sum uses.
    n, q, m, epsilon, shuffler, clear_share
        As in `ikos.private_message_count`, and small: at most a tenth as many cases as in
        `exact_total_variation`.

    Returns
    -------
    float
        For the worst values of all users and the worst change of one. Rounded up, also for the
        noise, whose probabilities are computed to 60 decimal digits: by less than e^epsilon 10^-56.

    Raises
    ------
    ValueError
        If there are too many cases to count.

    See Also
    --------
    ikos.counts.private_delta : A proved bound at every size.

    Examples
    --------
    >>> from ikos.counts import private_proved
    >>> proved = private_proved(2, 3, 4, 1, 0.5, 1)
    >>> exact = exact_private_delta(2, 3, 4, 1, 1, noise_epsilon=proved.noise_epsilon)
    >>> f"{exact:.4f} {proved.delta:.4f}"
    '0.0092 0.3062'
    """
    n, q, m = _checked(n, q, m, shuffler, _NOISE_COST)
    clear_share = flag("clear_share", clear_share)
    p = integer("precision", precision, low=1)
    if n * p >= q:
        raise InvalidValue("q", f"must be greater than n precision = {n * p}, got {q}")
    limits = {"low": MIN_EPSILON, "high": MAX_EPSILON}
    wanted = number("epsilon", epsilon, **limits)
    spent = wanted if noise_epsilon is None else number("noise_epsilon", noise_epsilon, **limits)
    ratio, total = exp_down(wanted), q ** ((m - 1) * n) << (_NOISE_BITS * n)
    noisy = _mixed(n, q, _view_laws(n, q, m, shuffler), _noise_masses(n, q, spent / p))
    floors = {x: _floors(law, ratio, 2 * total) for x, law in noisy.items()}

    def excess(others: Inputs, value: int, changed: int) -> Fraction:
        x, y = (tuple(sorted((*others, new % q))) for new in (value, changed))
        return _excess(noisy[x], noisy[y], floors[y], ratio)

    # Values between the steps are rounded at random. The divergence is jointly convex, so that no
    # pair is worse than the worst of its roundings, which are inputs as well.
    if clear_share:
        # Given the clear shares u, the others are shares of x + noise - u: all values are uniform,
        # and the two inputs differ by a fixed step of one user. With all values, noise and shares
        # negated, the step is negative, and the noise has the same distribution.
        weights = _orders(combinations_with_replacement(range(q), n - 1))
        worst = max(
            sum(w * excess(others, value, value + step)
                for others, w in weights.items() for value in range(q)) / q**n
            for step in range(1, p + 1)
        )  # fmt: skip
    else:
        worst = max(
            excess(others, value, changed)
            for others in combinations_with_replacement(range(p + 1), n - 1)
            for value, changed in product(range(p + 1), repeat=2)
        )
    # Each of the q probabilities of a user's noise is within one unit. So the distributions of all
    # noise, and of views, are within n q units (1 + q units)^n in l1 norm, which is below 2 n q.
    slack = (1 + ratio) * Fraction(2 * n * q, 1 << _NOISE_BITS)
    return min(1.0, round_up(worst / total + slack))


def _checked(
    n: object, q: object, m: object, shuffler: object, cost: int = 1
) -> tuple[int, int, int]:
    """Check the size, and refuse one with too many cases of a cost."""
    users, order, messages = (
        integer(name, value, low=low, high=_MAX_SIZE)
        for name, value, low in (("n", n, 1), ("q", q, 2), ("m", m, 1))
    )
    parallel = choice("shuffler", shuffler, SHUFFLERS) == "parallel"
    columns, length = (messages, users) if parallel else (1, messages * users)
    inputs = math.comb(users + order - 1, users)
    views = math.comb(length + order - 1, length) ** columns
    counted = views * max(cost * inputs, order ** (messages - 1))
    # about as many offsets as inputs, whose pairs with an offset grow user by user
    pairs = max(inputs**2, users * order * min(inputs**2, order**users) // 2)
    cases = inputs * max(counted, _PAIR_COST * pairs)
    largest = max(order ** ((messages - 1) * users), (length + 1) ** ((order - 1) * columns))
    if cases > MAX_CASES or largest > _LARGEST:
        what = "must be smaller for all views to be counted, got"
        raise InvalidValue("n, q or m", f"{what} {users}, {order} and {messages}")
    return users, order, messages


def _view_laws(n: int, q: int, m: int, shuffler: str) -> dict[Inputs, Law]:
    """Return the laws of the views of the shuffled messages, for each multiset of inputs.

    A law does not depend on the order of the users, whose shares are mixed: another order of the
    inputs is another order of all choices of shares.
    """
    # A view is how often each shuffler releases each residue but 0, whose number follows. Written
    # as the digits of a number, the views of disjoint users add up: no digit reaches the base.
    columns, base = (m, n + 1) if shuffler == "parallel" else (1, m * n + 1)
    reports: list[Counter[int]] = [Counter() for _ in range(q)]
    for shares in product(range(q), repeat=m):
        code = sum(
            base ** ((q - 1) * (slot % columns) + share - 1)
            for slot, share in enumerate(shares)
            if share
        )
        reports[sum(shares) % q][code] += 1
    one_user = [tuple(np.array([*part]) for part in zip(*r.items(), strict=True)) for r in reports]
    laws: dict[Inputs, Law] = {(): (np.array([0]), np.array([1]))}
    for users in range(1, n + 1):
        longer = {}
        for x in combinations_with_replacement(range(q), users):
            (codes, counts), (more, ways) = laws[x[:-1]], one_user[x[-1]]
            views, places = np.unique(np.add.outer(codes, more), return_inverse=True)
            law = np.zeros(views.size, dtype=np.int64)
            np.add.at(law, places.ravel(), np.multiply.outer(counts, ways).ravel())
            longer[x] = views, law
        laws = longer
    return laws


def _rows(laws: list[Law]) -> NDArray[np.int64]:
    """Return laws as the rows of a matrix, with a column for each view of any of them."""
    every = np.unique(np.concatenate([codes for codes, _ in laws]))
    rows = np.zeros((len(laws), every.size), dtype=np.int64)
    for row, (codes, counts) in zip(rows, laws, strict=True):
        row[np.searchsorted(every, codes)] = counts
    return rows


def _floors(law: NDArray[Any], ratio: Fraction, most: int) -> NDArray[Any]:
    """Return the integer parts of ``ratio`` times a law, cut off at ``most``."""
    values, places = np.unique(law, return_inverse=True)
    floors = [min(ratio.numerator * int(v) // ratio.denominator, most) for v in values]
    return np.array(floors, dtype=law.dtype)[places]


def _excess(
    first: NDArray[Any], second: NDArray[Any], floors: NDArray[Any], ratio: Fraction
) -> Fraction:
    """Return the sum over views of the positive part of first - ratio second."""
    event = first > floors  # of integers: exactly where it exceeds ratio second
    return int(first[event].sum()) - ratio * int(second[event].sum())


def _excesses(n: int, q: int, m: int, ratio: Fraction, shuffler: str) -> dict[Any, Fraction]:
    """Return the divergence of every ordered pair of multisets with the same sum."""
    laws = _view_laws(n, q, m, shuffler)
    choices = q ** ((m - 1) * n)
    excesses = {}
    for total in range(q):
        inputs = [x for x in laws if sum(x) % q == total]
        rows = _rows([laws[x] for x in inputs])
        for y, second in zip(inputs, rows, strict=True):
            floors = _floors(second, ratio, choices)
            for x, first in zip(inputs, rows, strict=True):
                excesses[x, y] = _excess(first, second, floors, ratio) / choices
    return excesses


def _orders(multisets: Iterator[Inputs]) -> dict[Inputs, int]:
    """Return the number of orders of each multiset."""
    return {
        x: math.factorial(len(x)) // math.prod(map(math.factorial, Counter(x).values()))
        for x in multisets
    }


def _shifted(q: int, offset: Inputs) -> Counter[tuple[Inputs, Inputs]]:
    """Return how many X there are with each pair of multisets of X and X + offset."""
    pairs: Counter[tuple[Inputs, Inputs]] = Counter({((), ()): 1})
    for step in offset:
        longer: Counter[tuple[Inputs, Inputs]] = Counter()
        for (x, y), ways in pairs.items():
            for value in range(q):
                longer[tuple(sorted((*x, value))), tuple(sorted((*y, (value + step) % q)))] += ways
        pairs = longer
    return pairs


def _secure(
    n: object, q: object, m: object, ratio: Fraction, case: object, shuffler: str, clear: object
) -> Fraction:
    """Return the divergence of views of the secure sum, in one of the `CASES`."""
    n, q, m = _checked(n, q, m, shuffler)
    clear_share, pairs = flag("clear_share", clear), choice("case", case, CASES)
    excesses = _excesses(n, q, m, ratio, shuffler)
    multisets = combinations_with_replacement(range(q), n)
    # With clear shares u, the inputs x and x + d are X = x - u and X + d, and X is uniform. So a
    # mean over independent inputs is the same with a clear share and without.
    if pairs == "independent":
        weights = _orders(multisets)
        total = sum(
            (weights[x] * weights[y] * value for (x, y), value in excesses.items()), Fraction(0)
        )
        return Fraction(total, q ** (2 * n - 1))
    if pairs == "worst" and not clear_share:
        return max(excesses.values())
    # the order of the users does not matter: it is that of X, too
    totals = (
        sum((ways * excesses[pair] for pair, ways in _shifted(q, offset).items()), Fraction(0))
        for offset in multisets
        if sum(offset) % q == 0
    )
    return Fraction(max(totals), q**n)


# Noise


def _noise_masses(n: int, q: int, rate: Fraction) -> list[int]:
    """Return the distribution modulo q of one user's noise, each within a unit of 2^-200.

    The difference of two Polya(1/n, a) variables, a = exp(-rate), has the characteristic function
    ((1 - a)^2 / |1 - a w|^2)^(1/n), and |1 - a w|^2 = (1 - a)^2 + 4 a sin^2(t / 2) for w = e^(it).
    """
    # All terms are positive and at most 1, with few operations each: errors are below 2^-240.
    with rounding(NEAREST):
        a, rest = gmpy2.exp(-mpfr(rational(rate))), -gmpy2.expm1(-mpfr(rational(rate)))
        angle = 2 * gmpy2.const_pi() / q
        transform = [
            (rest**2 / (rest**2 + 4 * a * gmpy2.sin(angle * j / 2) ** 2)) ** (mpfr(1) / n)
            for j in range(q)
        ]
        return [
            int(gmpy2.rint(sum(t * gmpy2.cos(angle * (j * k % q)) for j, t in enumerate(transform))
                           / q * gmpy2.exp2(mpfr(_NOISE_BITS))))
            for k in range(q)
        ]  # fmt: skip


def _mixed(
    n: int, q: int, laws: dict[Inputs, Law], masses: list[int]
) -> dict[Inputs, NDArray[np.object_]]:
    """Return the laws of views of inputs to which every user adds noise, view by view."""
    mixtures: dict[Inputs, Mapping[Inputs, int]] = {(): {(): 1}}
    for users in range(1, n + 1):
        longer: dict[Inputs, Mapping[Inputs, int]] = {}
        for x in combinations_with_replacement(range(q), users):
            mixture: Counter[Inputs] = Counter()
            for z, weight in mixtures[x[:-1]].items():
                for noise, mass in enumerate(masses):
                    mixture[tuple(sorted((*z, (x[-1] + noise) % q)))] += weight * mass
            longer[x] = mixture
        mixtures = longer
    rows = _rows(list(laws.values())).astype(object)
    return {
        x: np.array([mixture[z] for z in laws], dtype=object) @ rows
        for x, mixture in mixtures.items()
    }
