"""Sums of vectors: as one sum over a larger group, or as a sum for each coordinate."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Unpack

from ikos._validation import integer, number, quote
from ikos.counts.analyses import TABLE, checked_analysis, checked_scheme
from ikos.counts.private import MIN_DELTA, MIN_EPSILON, budget_of, promised
from ikos.counts.rounding import UP, exact, float_up
from ikos.counts.types import MAX_BITS, MAX_SIGMA, Budget, MessageCount, Scheme, TrustChoices
from ikos.results import at_least

ONE_GROUP = "one group"
SEPARATE = "separate sums"
COMPOSED = "separate sums, composed"


@dataclass(frozen=True)
class Layout:
    """A way to share a vector, what it costs each user, and what is proved for the whole vector.

    Attributes
    ----------
    name : {"one group", "separate sums", "separate sums, composed"}
        The last one is separate private sums with budgets of their own.
    count : MessageCount
        Messages of each sum. Its ``sigma`` is that of one sum; its ``delta`` and ``noise_epsilon``
        are those of the whole vector, but of one sum in the last layout.
    sums : int
        How many sums there are: 1, or one for each coordinate.
    bits_per_message : int
        ceil(log2 q) for each coordinate that a message holds.
    sigma : float
        Proved security in bits, rounded down.
    epsilon, delta : Fraction, float or None
        For a private sum, the budget and the proved delta, rounded up.
    rate : Fraction or None
        For a private sum, the inverse scale of the discrete Laplace noise in every coordinate, in
        steps of the encoding.
    variance : Fraction or None
        Of Skellam noise in its place, in squared steps.
    """

    name: str
    count: MessageCount
    sums: int
    bits_per_message: int
    sigma: float
    epsilon: Fraction | None = None
    delta: float | None = None
    rate: Fraction | None = None
    variance: Fraction | None = None

    @property
    def messages_per_user(self) -> int:
        """Messages that each user sends, for all sums together."""
        return self.sums * self.count.total

    @property
    def bits_per_user(self) -> int:
        """Bits that each user sends, before any encryption."""
        return self.messages_per_user * self.bits_per_message

    def __str__(self) -> str:
        noise = "" if self.rate is None else f", noise scale {float(1 / self.rate):.4g}"
        if self.variance is not None:
            noise = f", noise deviation {math.sqrt(self.variance):.4g}"
        return (
            f"{self.name}: {self.messages_per_user:,} messages of {self.bits_per_message:,} bits "
            f"per user ({self.bits_per_user:,} bits){noise}"
        )


def level_of_sums(sigma: float, sums: int, *, analysis: str | None) -> float:
    """Return the level, in bits, of separate sums together, each of level ``sigma``, rounded down.

    By the union bound ``log2 sums`` bits are lost; for "second_moment" only half of that.
    """
    # without an analysis the level is 0, of any number of sums
    name = "balle2020" if analysis is None else checked_analysis(analysis)
    return TABLE[name].of_sums(sigma, integer("sums", sums, low=1))


def checked_dimension(dimension: object, q: int) -> int:
    """Return the dimension, of a group Z_q^dimension whose order is not too large to be counted."""
    d = integer("dimension", dimension, low=1)
    if d * (q.bit_length() - 1) > MAX_BITS:
        raise ValueError(
            f"dimension must be at most {MAX_BITS // (q.bit_length() - 1)} for this q, "
            f"got {quote(d)}: groups are counted up to order 2**{MAX_BITS}"
        )
    return d


def _layout(
    name: str,
    scheme: Scheme,
    count: MessageCount,
    sums: int,
    dimension: int,
    budget: Budget | None = None,
    shares: int = 1,
) -> Layout:
    """Return a layout of ``sums`` sums; ``budget`` is 1/shares of the whole vector's."""
    bits = dimension // sums * (scheme.q - 1).bit_length()
    sent = count.with_corruption(scheme.trust.corrupt_shufflers)
    layout = Layout(name, sent, sums, bits, scheme.analysis.of_sums(count.sigma, sums))
    if budget is None:
        return layout
    assert count.delta is not None
    assert count.noise_epsilon is not None
    return replace(
        layout,
        epsilon=budget.epsilon * shares,
        delta=min(1.0, float_up(exact(Fraction(count.delta) * shares, UP))),
        rate=Fraction(count.noise_epsilon) / budget.sensitivity,
    )


def vector_layouts(
    n: int, q: int, sigma: float | Fraction, dimension: int, **choices: Unpack[TrustChoices]
) -> tuple[Layout, ...]:
    """Return the ways to sum vectors with sigma bits of security, side by side.

    Parameters
    ----------
    n, q, sigma, **choices
        As in `ikos.message_count`; q is the order of each coordinate's group, sigma the level of
        the whole vector.
    dimension : int
        Coordinates.

    Returns
    -------
    tuple of Layout
        "one group" and "separate sums", each with the fewest messages that prove sigma; only the
        first for one coordinate.

    Examples
    --------
    >>> print(vector_layouts(10_000, 2**32, 80, 100)[1])
    separate sums: 1,700 messages of 32 bits per user (54,400 bits)
    """
    scheme = checked_scheme(n, q, **choices)
    wanted = number("sigma", sigma, above=0, high=MAX_SIGMA)
    d = checked_dimension(dimension, scheme.q)
    group = replace(scheme, q=scheme.q**d).least(wanted)
    one = _layout(ONE_GROUP, scheme, group, 1, d)
    if d == 1:
        return (one,)
    return one, _layout(SEPARATE, scheme, scheme.least(wanted, d), d, d)


def private_vector_layouts(
    n: int,
    q: int,
    epsilon: float | Fraction,
    delta: float | Fraction,
    precision: int,
    dimension: int,
    *,
    sensitivity: int | None = None,
    reserve: float | Fraction = 0.01,
    **choices: Unpack[TrustChoices],
) -> tuple[Layout, ...]:
    """Return the ways to sum vectors with (epsilon, delta)-differential privacy, side by side.

    Parameters
    ----------
    n, q, epsilon, delta, precision, reserve, **choices
        As in `ikos.private_message_count`; each coordinate is in {0..precision}. The guarantee is
        for the replacement of one user's whole vector.
    dimension : int
        Coordinates, d.
    sensitivity : int, optional
        A promise how far the replacement of one user's vector moves the sum at most, in l1 norm and
        steps of the encoding: 2 for one-hot vectors with precision 1, for instance. By default
        d * precision, which holds for all vectors. Privacy rests on it. Reals are rounded at
        random, which can raise the norm, so that anything below d * precision is for integers.

    Returns
    -------
    tuple of Layout
        "one group" and "separate sums" have one noise for the whole vector, discrete Laplace of
        rate noise_epsilon / sensitivity in each coordinate, and one proof. "separate sums,
        composed" are d private sums with (epsilon/d, delta/d) each, by basic composition. Only the
        first for one coordinate. Proofs: documentation, How many messages, "Vectors".

    Examples
    --------
    >>> print(private_vector_layouts(10_000, 2**15, 1, 1e-8, 1, 100, sensitivity=2)[1])
    separate sums: 600 messages of 15 bits per user (9,000 bits), noise scale 2
    """
    scheme = checked_scheme(n, q, **choices)
    each = budget_of(epsilon, delta, reserve, precision)
    d = checked_dimension(dimension, scheme.q)
    moved = promised(sensitivity, d * each.sensitivity)
    for name, value, least in (
        ("epsilon", each.epsilon, MIN_EPSILON),
        ("delta", each.delta, MIN_DELTA),
    ):
        if value < least * d:
            raise ValueError(
                f"{name} must be at least {at_least(least * d, 6)} for {d} coordinates, "
                f"got {quote(value)}"
            )
    whole = replace(each, sensitivity=moved, dimension=d)
    group = replace(scheme, q=scheme.q**d).least_private(whole)
    one = _layout(ONE_GROUP, scheme, group, 1, d, whole)
    if d == 1:
        return (one,)
    apart = replace(whole, dimension=1, sums=d)
    alone = replace(
        each,
        epsilon=each.epsilon / d,
        delta=each.delta / d,
        sensitivity=min(each.sensitivity, moved),
    )
    return (
        one,
        _layout(SEPARATE, scheme, scheme.least_private(apart), d, d, apart),
        _layout(COMPOSED, scheme, scheme.least_private(alone), d, d, alone, d),
    )
