"""Lemma C.4 of BBGN20 by enumeration, at sizes where every permutation can be listed.

The bounds rest on an identity. For X uniform in Z_q^n, R and R' independent sharings of X into m
messages of each user, all of them shuffled, and S the shuffler,

    P[R(X) = S(R'(X))] = E[q^(C - mn)],

where C counts the components of the share graph with one vertex per user; by Lemma C.2 the
left-hand side is the probability that two independent views of X agree. All three are counted here
exactly, each from its definition, without any formula of the library.

Slot h of user i is number i m + h.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain, islice, permutations, product

import numpy as np
from numpy.typing import NDArray

from ikos._validation import InvalidValue, choice, integer
from ikos.counts.share_graph import SHUFFLERS
from ikos.graphs.component_distribution import exact_component_law
from ikos.graphs.share_graphs import count_components
from ikos.primitives.modular import blocks

MAX_PERMUTATIONS = 4_000_000  # most permutations enumerated: a few seconds
MAX_TUPLES = 1 << 20  # most tuples of shares, q^(mn)
MAX_CASES = 100_000_000
"""Most pairs of a tuple and a permutation, and of a tuple and an input: about ten seconds."""

_TOGETHER = 1 << 18  # numbers handled in one call

Integers = NDArray[np.int64]


def _order(n: int, m: int, shuffler: str) -> int:
    return math.factorial(n) ** m if shuffler == "parallel" else math.factorial(m * n)


def _too_large(n: int, m: int, what: str) -> InvalidValue:
    name, value = ("n", n) if n > 1 else ("m", m)
    return InvalidValue(name, f"must be smaller for at most {what}, got {value}")


def _checked(n: object, m: object, shuffler: object) -> tuple[int, int, str]:
    """Check that the shuffler's group is small enough to be listed."""
    users, messages = integer("n", n, low=1, high=10), integer("m", m, low=1, high=64)
    kind = choice("shuffler", shuffler, SHUFFLERS)
    if _order(users, messages, kind) > MAX_PERMUTATIONS:
        raise _too_large(users, messages, f"{MAX_PERMUTATIONS} permutations")
    return users, messages, kind


def _checked_group(n: object, m: object, q: object, shuffler: object) -> tuple[int, int, int, str]:
    """Check that the tuples of shares, too, are few enough."""
    users, messages, kind = _checked(n, m, shuffler)
    order = integer("q", q, low=2, high=MAX_TUPLES)
    tuples = order ** (messages * users)
    cases = tuples * max(_order(users, messages, kind), order**users)
    if tuples > MAX_TUPLES or cases > MAX_CASES:
        what = f"{MAX_TUPLES} tuples of shares and {MAX_CASES} cases"
        raise _too_large(users, messages, what)
    return users, messages, order, kind


def case_count(n: int, m: int, q: int, *, shuffler: str = "parallel") -> int:
    """Return the number of cases of `check_collision_identity`, or refuse as it does."""
    n, m, q, shuffler = _checked_group(n, m, q, shuffler)
    return _order(n, m, shuffler) * int(q ** (m * n))


# The permutations


def _permutations(n: int, m: int, shuffler: str) -> Iterator[Integers]:
    """Yield the whole group of the shuffler in blocks of rows: slot j goes to slot ``row[j]``."""
    each: Iterable[Iterable[int]] = permutations(range(m * n))
    if shuffler == "parallel":  # one permutation of the users after the other
        each = map(chain.from_iterable, product(permutations(range(n)), repeat=m))
    numbers, size = chain.from_iterable(each), m * n * max(1, _TOGETHER // (m * n))
    while (block := np.fromiter(islice(numbers, size), dtype=np.int64)).size:
        if shuffler == "parallel":
            block = m * block.reshape(-1, m, n).transpose(0, 2, 1) + np.arange(m)
        yield block.reshape(-1, m * n)


def enumerated_component_law(
    n: int, m: int, *, shuffler: str = "parallel", clear_share: bool = True
) -> tuple[Fraction, ...]:
    """Return P[C = c] for c = 1..n, from the graph of every permutation.

    The arguments are those of `ikos.graphs.component_counts`, such that (n!)^m or (mn)! is at most
    `MAX_PERMUTATIONS`.

    Examples
    --------
    >>> enumerated_component_law(3, 2)
    (Fraction(13, 18), Fraction(1, 4), Fraction(1, 36))
    """
    n, m, kind = _checked(n, m, shuffler)
    graphs = np.zeros(n + 1, dtype=np.int64)
    for block in _permutations(n, m, kind):
        targets = (block // m).reshape(-1, n, m)  # slots become their users
        found = count_components(targets, clear_share=clear_share)
        graphs += np.bincount(found.counts, minlength=n + 1)
    return tuple(Fraction(int(count), int(graphs.sum())) for count in graphs[1:])


# Shares and views


def _digits(numbers: Integers, q: int, places: int) -> Integers:
    """Return numbers in base q, the lowest digit first."""
    return numbers[:, None] // q ** np.arange(places) % q


def collision_probability(n: int, m: int, q: int, *, shuffler: str = "parallel") -> Fraction:
    """Return P[R(X) = S(R'(X))], the left-hand side of Lemma C.4, by enumeration.

    Parameters
    ----------
    n, m, shuffler
        As for `enumerated_component_law`; all messages are shuffled.
    q : int
        Order of the group, at least 2, prime or not. Within `MAX_TUPLES` and `MAX_CASES`.

    Examples
    --------
    >>> collision_probability(2, 2, 3)
    Fraction(1, 18)
    """
    n, m, q, shuffler = _checked_group(n, m, q, shuffler)
    # An outcome is a permutation pi, inputs x, and sharings a and b of x; there are |P| q^n
    # (q^((m-1)n))^2 of them, equally likely. Those with a = pi(b) are counted by b alone, which
    # decides x and a: the only question is whether a is a sharing of x.
    matches = 0
    for shuffled_to in _permutations(n, m, shuffler):
        shuffled_from = np.argsort(shuffled_to, axis=1)
        for part in _parts(q ** (m * n), m * n):
            b = _digits(np.arange(part.start, part.stop), q, m * n).reshape(-1, 1, n, m)
            inputs = b.sum(axis=3) % q
            for rows in _parts(len(shuffled_from), b.size):
                a = b.reshape(-1, m * n)[:, shuffled_from[rows]].reshape(len(b), -1, n, m)
                matches += int((a.sum(axis=3) % q == inputs).all(axis=2).sum())
    outcomes = _order(n, m, shuffler) * q**n * q ** (2 * (m - 1) * n)
    return Fraction(matches, outcomes)


def _parts(count: int, weight: int) -> Iterator[slice]:
    return blocks(count, max(1, _TOGETHER // weight))


def view_agreement(n: int, m: int, q: int, *, shuffler: str = "parallel") -> Fraction:
    """Return P[V(X) = V'(X)] for independent views of the same uniform X, by enumeration.

    The distribution of the view is counted for each input. By Lemma C.2 of BBGN20 the result equals
    `collision_probability`, of the same arguments; they share only the listing of permutations and
    tuples.

    Examples
    --------
    >>> view_agreement(2, 2, 3)
    Fraction(1, 18)
    """
    n, m, q, shuffler = _checked_group(n, m, q, shuffler)
    slots = m * n
    # a tuple is a number in base q: the content of slot j is shuffled to this place of it
    places = q ** np.concatenate(list(_permutations(n, m, shuffler))).T
    choices = q ** ((m - 1) * n)
    free = _digits(np.arange(choices), q, (m - 1) * n).reshape(choices, n, m - 1)
    squares = 0
    for x in _digits(np.arange(q**n), q, n):
        last = (x - free.sum(axis=2)) % q
        sharings = np.concatenate((free, last[:, :, None]), axis=2).reshape(-1, slots)
        views = np.zeros(q**slots, dtype=np.int64)
        for part in _parts(places.shape[1], choices):
            shuffled = sharings @ places[:, part]
            views += np.bincount(shuffled.ravel(), minlength=q**slots)
        counts, times = np.unique(views, return_counts=True)
        squares += sum(int(k) ** 2 * int(t) for k, t in zip(counts, times, strict=True))
    outcomes = _order(n, m, shuffler) * choices
    return Fraction(squares, q**n * outcomes**2)


# The identity


@dataclass(frozen=True)
class CollisionIdentity:
    """Lemma C.4 of BBGN20 at one size, with all ``permutations`` and all ``tuples`` of shares.

    ``matched`` is the left-hand side, P[R(X) = S(R'(X))], and ``views`` is P[V(X) = V'(X)].
    ``expected`` is the right-hand side, E[q^(C - mn)], from the enumerated distribution of C, and
    ``formula`` the same from `ikos.graphs.exact_component_law`.
    """

    n: int
    m: int
    q: int
    shuffler: str
    permutations: int
    tuples: int
    matched: Fraction
    views: Fraction
    expected: Fraction
    formula: Fraction

    @property
    def holds(self) -> bool:
        """Whether all four numbers are equal."""
        return self.matched == self.views == self.expected == self.formula


def check_collision_identity(
    n: int, m: int, q: int, *, shuffler: str = "parallel"
) -> CollisionIdentity:
    """Compute both sides of Lemma C.4 by enumeration, and by the library's distribution of C.

    The arguments are those of `collision_probability`.

    Examples
    --------
    >>> found = check_collision_identity(2, 2, 4, shuffler="single")
    >>> found.permutations, found.tuples, found.matched, found.holds
    (24, 256, Fraction(3, 128), True)
    """
    n, m, q, shuffler = _checked_group(n, m, q, shuffler)
    return CollisionIdentity(
        n, m, q, shuffler, _order(n, m, shuffler), int(q ** (m * n)),
        matched=collision_probability(n, m, q, shuffler=shuffler),
        views=view_agreement(n, m, q, shuffler=shuffler),
        expected=_mean_power(enumerated_component_law(n, m, shuffler=shuffler), q, m * n),
        formula=_mean_power(exact_component_law(n, m, shuffler=shuffler), q, m * n),
    )  # fmt: skip


def _mean_power(law: tuple[Fraction, ...], q: int, slots: int) -> Fraction:
    """Return E[q^(C - slots)]."""
    return sum(
        (chance * Fraction(q) ** (c - slots) for c, chance in enumerate(law, 1)), Fraction(0)
    )
