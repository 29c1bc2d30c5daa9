"""Sums of vectors: as one sum over a larger group, or as a sum for each coordinate.

A vector of d coordinates in Z_q can be shared as *one group*, each message an element of Z_q^d,
whose order q^d asks for more messages, each d times as long; or as d *separate sums*, each with
shufflers and shares of its own (two sums must not be shuffled by the same permutation). The first
takes fewer messages, the second far fewer bits. Noise is added to each coordinate either way.
"""

from __future__ import annotations

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
        Each coordinate that a message holds takes ceil(log2 q) bits.
    sigma : float
        Proved security of the whole vector in bits, rounded down.
    epsilon : Fraction or None
        For a private sum, the budget of the whole vector.
    delta : float or None
        For a private sum, the proved delta of the whole vector, rounded up.
    rate : Fraction or None
        For a private sum, the inverse scale of the discrete Laplace noise in every coordinate, in
        steps of the encoding.
    """

    name: str
    count: MessageCount
    sums: int
    bits_per_message: int
    sigma: float
    epsilon: Fraction | None = None
    delta: float | None = None
    rate: Fraction | None = None

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
        return (
            f"{self.name}: {self.messages_per_user:,} messages of {self.bits_per_message:,} bits "
            f"per user ({self.bits_per_user:,} bits){noise}"
        )


def level_of_sums(sigma: float, sums: int, *, analysis: str | None) -> float:
    """Return the level, in bits, of separate sums together, each of level ``sigma``, rounded down.

    By the union bound ``log2 sums`` bits are lost; for "second_moment" only half of that.

    Examples
    --------
    >>> level_of_sums(80.0, 256, analysis="balle2020")
    72.0
    >>> round(level_of_sums(80.0, 256, analysis="second_moment"), 9)
    76.0
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
        As in `ikos.message_count`: ``analysis``, ``shuffler``, ``clear_share``, ``min_honest``,
        ``corrupt_shufflers`` (of each sum). q is the order of each coordinate's group, sigma the
        level of the whole vector.
    dimension : int
        Coordinates.

    Returns
    -------
    tuple of Layout
        "one group" and "separate sums", each with the fewest messages that prove sigma; only the
        first for one coordinate, where they are the same.

    Examples
    --------
    >>> for layout in vector_layouts(10_000, 2**32, 80, 100):
    ...     print(layout)
    one group: 272 messages of 3,200 bits per user (870,400 bits)
    separate sums: 1,700 messages of 32 bits per user (54,400 bits)
    """
    scheme = checked_scheme(n, q, **choices)
    wanted = number("sigma", sigma, above=0, high=MAX_SIGMA)
    return layouts(scheme, wanted, checked_dimension(dimension, scheme.q))


def layouts(scheme: Scheme, sigma: Fraction, d: int) -> tuple[Layout, ...]:
    """Return the ways to sum vectors of d coordinates with a level."""
    group = replace(scheme, q=scheme.q**d).least(sigma)
    one = _layout(ONE_GROUP, scheme, group, 1, d)
    if d == 1:
        return (one,)
    return one, _layout(SEPARATE, scheme, scheme.least(sigma, d), d, d)


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
        As in `ikos.private_message_count` and `vector_layouts`; each coordinate is in
        {0..precision}. The guarantee is for the replacement of one user's whole vector.
    dimension : int
        Coordinates, d.
    sensitivity : int, optional
        A promise how far the replacement of one user's vector moves the sum at most, in l1 norm and
        steps of the encoding: 2 for one-hot vectors with precision 1, for instance. By default
        d * precision, which holds for all vectors. Privacy rests on it. The promise is about
        encoded vectors: reals are rounded at random, which can raise the norm, so that anything
        below d * precision is for integers.

    Returns
    -------
    tuple of Layout
        "one group" and "separate sums" have one noise for the whole vector, discrete Laplace of
        rate noise_epsilon / sensitivity in each coordinate, and one proof. "separate sums,
        composed" are d private sums, each with (epsilon/d, delta/d) by basic composition and rate
        noise_epsilon / min(precision, sensitivity), where noise_epsilon is about epsilon/d. Only
        the first for one coordinate. Proofs: documentation, How many messages, "Vectors".

    Examples
    --------
    A histogram of 100 bins: separate budgets would cost 50 times the noise.

    >>> for layout in private_vector_layouts(10_000, 2**15, 1, 1e-8, 1, 100, sensitivity=2):
    ...     print(layout)
    one group: 128 messages of 1,500 bits per user (192,000 bits), noise scale 2
    separate sums: 600 messages of 15 bits per user (9,000 bits), noise scale 2
    separate sums, composed: 600 messages of 15 bits per user (9,000 bits), noise scale 100.7
    """
    scheme = checked_scheme(n, q, **choices)
    each = budget_of(epsilon, delta, reserve, precision)
    d = checked_dimension(dimension, scheme.q)
    return private_layouts(scheme, each, d, promised(sensitivity, d * each.sensitivity))


def private_layouts(scheme: Scheme, each: Budget, d: int, sensitivity: int) -> tuple[Layout, ...]:
    """Return the ways to sum vectors of d coordinates with privacy.

    ``each`` is the budget of the whole vector, with the sensitivity of one coordinate.
    """
    for name, value, least in (
        ("epsilon", each.epsilon, MIN_EPSILON),
        ("delta", each.delta, MIN_DELTA),
    ):
        if value < least * d:
            raise ValueError(
                f"{name} must be at least {at_least(least * d, 6)} for {d} coordinates, "
                f"got {quote(value)}"
            )
    whole = replace(each, sensitivity=sensitivity, dimension=d)
    group = replace(scheme, q=scheme.q**d).least_private(whole)
    one = _layout(ONE_GROUP, scheme, group, 1, d, whole)
    if d == 1:
        return (one,)
    apart = replace(whole, dimension=1, sums=d)
    alone = replace(
        each,
        epsilon=each.epsilon / d,
        delta=each.delta / d,
        sensitivity=min(each.sensitivity, sensitivity),
    )
    return (
        one,
        _layout(SEPARATE, scheme, scheme.least_private(apart), d, d, apart),
        _layout(COMPOSED, scheme, scheme.least_private(alone), d, d, alone, d),
    )
