"""Sums of vectors: a vector is cut into blocks of coordinates, each of them a separate sum.

A vector of d coordinates is cut into k = ceil(d/b) blocks of b; the last one may be shorter. A
block is one element of a group of order q^b, with its own shares, clear share, shufflers and
permutations. Blocks of one coordinate are called separate sums, and a single block of all
coordinates one group.

The proofs depend on b and k alone: a shorter last block is counted as a full one, of which it is a
part. Longer blocks take more messages each and fewer in all. The proofs are in
docs/message-counts.md, "Vectors".
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Unpack

from ikos._validation import InvalidValue, choice, integer, number, quote
from ikos.counts.analyses import TABLE, checked_analysis, checked_scheme
from ikos.counts.private import budget_of, promised
from ikos.counts.types import (
    MAX_BITS,
    MAX_MESSAGES,
    MAX_SIGMA,
    Budget,
    MessageCount,
    Scheme,
    TrustChoices,
)

ONE_GROUP = "one group"
SEPARATE = "separate sums"

LAYOUTS = {"separate": SEPARATE, "group": ONE_GROUP, "blocks": "blocks"}
"""The argument for each layout in blocks, and its name."""

MASKED = "masked"
"""The argument for masked vectors, whose keys alone are summed in blocks."""

ENVELOPE_BYTES = 48
"""Overhead per message of an HPKE envelope: a public key of 32 bytes, and a tag of 16."""


@dataclass(frozen=True)
class Layout:
    """A layout of a vector's shares, its cost per user, and its guarantee for the whole vector.

    Attributes
    ----------
    count : MessageCount
        Messages per block. Its ``sigma`` is that of one block; its ``delta`` and ``noise_epsilon``
        are those of the whole vector.
    dimension, length : int
        Coordinates of the vector and of a block; the last block may be shorter.
    bits : int
        Bits of a coordinate, ceil(log2 q).
    sigma : float
        Proved security in bits, rounded down.
    epsilon, delta : Fraction, float or None
        For a private sum, the budget and the proved delta, rounded up.
    rate : Fraction or None
        For a private sum, the inverse scale of the discrete Laplace noise in every coordinate, in
        steps of the encoding.
    variance : Fraction or None
        Variance of Skellam noise, if that is added instead, in squared steps.
    """

    count: MessageCount
    dimension: int
    length: int
    bits: int
    sigma: float
    epsilon: Fraction | None = None
    delta: float | None = None
    rate: Fraction | None = None
    variance: Fraction | None = None

    @property
    def name(self) -> str:
        """Name in parameter hashes: "one group", "separate sums" or "blocks of 13"."""
        if self.length == self.dimension:
            return ONE_GROUP
        return SEPARATE if self.length == 1 else f"blocks of {self.length}"

    @property
    def sums(self) -> int:
        """Number of blocks, each with its own sum."""
        return sums_of(self.dimension, self.length)

    @property
    def messages_per_user(self) -> int:
        """Messages that each user sends, for all blocks together."""
        return self.sums * self.count.total

    @property
    def bits_per_message(self) -> int:
        """Bits of each message of a full block: ceil(log2 q) for each coordinate."""
        return self.length * self.bits

    @property
    def bits_per_user(self) -> int:
        """Bits that each user sends, before any encryption."""
        return self.dimension * self.bits * self.count.total

    def bytes_per_user(self, overhead: int) -> int:
        """Return the bytes per user if each message has an overhead of ``overhead`` bytes."""
        return -(-self.bits_per_user // 8) + overhead * self.messages_per_user

    def __str__(self) -> str:
        noise = "" if self.rate is None else f", noise scale {float(1 / self.rate):.4g}"
        if self.variance is not None:
            noise = f", noise standard deviation {math.sqrt(self.variance):.4g}"
        most = "at most " if self.dimension % self.length else ""
        return (
            f"{self.name}: {self.messages_per_user:,} messages of {most}"
            f"{self.bits_per_message:,} bits per user ({self.bits_per_user:,} bits){noise}"
        )


def sums_of(dimension: int, length: int) -> int:
    """Return the number of blocks of this length."""
    return -(-dimension // length)


def checked_layout(layout: object, dimension: int, messages: object) -> int:
    """Check a layout and return the length of blocks, 0 if that is to be chosen."""
    if not isinstance(layout, str):
        return integer("layout", layout, low=1, high=dimension)
    lengths = dict(zip(LAYOUTS, (1, dimension, 0), strict=True))
    if not lengths[choice("layout", layout, lengths)] and messages is not None:
        raise InvalidValue("layout", f"must be an integer if messages is given, got {layout!r}")
    return lengths[layout]


def least_bytes(layout_of: Callable[[int], Layout], dimension: int, overhead: int) -> Layout:
    """Return the layout with the fewest bytes, if no longer block takes fewer messages.

    ``made`` returns the layout for a length. Then no blocks up to the length b of ``high`` cost
    less than the messages of ``low``, each with the bytes of those of ``high``.
    """

    def cost(layout: Layout, messages: int) -> int:
        """Return the bits for a number of messages per block."""
        return messages * (layout.dimension * layout.bits + 8 * overhead * layout.sums)

    def own(layout: Layout) -> int:
        return cost(layout, layout.count.total)

    best = low = layout_of(1)
    spans = []
    while low.length < dimension and low.bits_per_user < own(best):
        high = layout_of(min(2 * low.length, dimension))
        spans.append((low, high))
        best, low = min(best, high, key=own), high
    while spans:
        low, high = spans.pop()
        if high.length - low.length > 1 and cost(high, low.count.total) < own(best):
            middle = layout_of((low.length + high.length) // 2)
            best = min(best, middle, key=own)
            spans += [(low, middle), (middle, high)]
    return best


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
        raise InvalidValue(
            "dimension",
            f"must be at most {MAX_BITS // (q.bit_length() - 1)} for this q, "
            f"got {quote(d)}: groups are counted up to order 2**{MAX_BITS}",
        )
    return d


def _layout(
    scheme: Scheme,
    count: MessageCount,
    dimension: int,
    length: int,
    budget: Budget | None = None,
    *,
    total: int | None = None,
) -> Layout:
    """Return the layout of blocks of some length."""
    sent = count.with_corruption(scheme.trust.corrupt_shufflers, total)
    level = scheme.analysis.of_sums(count.sigma, sums_of(dimension, length))
    layout = Layout(sent, dimension, length, (scheme.q - 1).bit_length(), level)
    if budget is None:
        return layout
    assert count.delta is not None
    assert count.noise_epsilon is not None
    return replace(
        layout,
        epsilon=budget.epsilon,
        delta=count.delta,
        rate=Fraction(count.noise_epsilon) / budget.sensitivity,
    )


def _blocks(scheme: Scheme, length: int) -> Scheme:
    """Return the scheme of each block, for that of one coordinate."""
    return replace(scheme, q=scheme.q ** checked_dimension(length, scheme.q))


def least_layout(scheme: Scheme, sigma: Fraction, dimension: int, length: int) -> Layout:
    """Return the fewest messages per block such that the whole vector has a level."""
    count = _blocks(scheme, length).least(sigma, sums_of(dimension, length))
    return _layout(scheme, count, dimension, length)


def secure_layout(
    scheme: Scheme,
    sigma: object,
    dimension: int,
    layout: object = "group",
    overhead: object = ENVELOPE_BYTES,
    messages: object = None,
) -> Layout:
    """Return the fewest messages per block for a level, or a given number with its level."""
    wanted = number("sigma", sigma, above=0, high=MAX_SIGMA)  # also if messages are given
    length = checked_layout(layout, dimension, messages)
    added = integer("overhead", overhead, low=0)
    if messages is not None:
        total = integer("messages", messages, low=1, high=MAX_MESSAGES)
        count = _blocks(scheme, length).proved(scheme.trust.hiding(total))
        return _layout(scheme, count, dimension, length, total=total)
    layout_of = partial(least_layout, scheme, wanted, dimension)
    return layout_of(length) if length else least_bytes(layout_of, dimension, added)


def _side_by_side(
    layout_of: Callable[[int], Layout], dimension: int, overhead: int | None
) -> tuple[Layout, ...]:
    """Return one group, separate sums and the blocks with the fewest bytes, each layout once."""
    layouts = [layout_of(dimension), layout_of(1)]
    if overhead is not None:
        layouts.append(least_bytes(layout_of, dimension, integer("overhead", overhead, low=0)))
    return tuple(dict.fromkeys(layouts))


def vector_layouts(
    n: int,
    q: int,
    sigma: float | Fraction,
    dimension: int,
    *,
    overhead: int | None = None,
    **choices: Unpack[TrustChoices],
) -> tuple[Layout, ...]:
    """Return the layouts for sums of vectors with sigma bits of security, to compare them.

    Parameters
    ----------
    n, q, sigma, **choices
        As in `ikos.message_count`; q is the order of each coordinate's group, sigma the level of
        the whole vector.
    dimension : int
        Coordinates.
    overhead : int, optional
        Transport overhead per message in bytes, such as 48 for an HPKE envelope.

    Returns
    -------
    tuple of Layout
        "one group" and "separate sums", each with the fewest messages that prove sigma, and with
        an ``overhead`` the blocks with the fewest bytes. Equal layouts are listed once.

    Examples
    --------
    >>> print(vector_layouts(10_000, 2**32, 80, 100)[1])
    separate sums: 1,700 messages of 32 bits per user (54,400 bits)
    >>> blocks = vector_layouts(10_000, 2**32, 80, 100, overhead=48)[2]
    >>> print(blocks)
    blocks of 10: 390 messages of 320 bits per user (124,800 bits)
    >>> blocks.bytes_per_user(48)
    34320
    """
    scheme = checked_scheme(n, q, **choices)
    wanted = number("sigma", sigma, above=0, high=MAX_SIGMA)
    d = integer("dimension", dimension, low=1)
    return _side_by_side(partial(least_layout, scheme, wanted, d), d, overhead)


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
    overhead: int | None = None,
    **choices: Unpack[TrustChoices],
) -> tuple[Layout, ...]:
    """Return the layouts for (epsilon, delta)-private sums of vectors, to compare them.

    Parameters
    ----------
    n, q, epsilon, delta, precision, reserve, **choices
        As in `ikos.private_message_count`; each coordinate is in {0..precision}. The guarantee is
        for the replacement of one user's whole vector.
    dimension : int
        Coordinates, d.
    sensitivity : int, optional
        A promised bound on the shift of the sum by replacing one user's vector, in l1 norm and
        steps of the encoding: 2 for one-hot vectors with precision 1, for instance. By default d *
        precision, which holds for all vectors. Privacy rests on it. Reals are rounded at random,
        which can raise the norm, so that anything below d * precision is for integers.
    overhead : int, optional
        As in `vector_layouts`.

    Returns
    -------
    tuple of Layout
        Those of `vector_layouts` have one noise for the whole vector, discrete Laplace of rate
        noise_epsilon / sensitivity in each coordinate, and one proof. Proofs:
        docs/message-counts.md, "Vectors".

    Examples
    --------
    >>> print(private_vector_layouts(10_000, 2**15, 1, 1e-8, 1, 100, sensitivity=2)[1])
    separate sums: 400 messages of 15 bits per user (6,000 bits), noise scale 2.005
    """
    scheme = checked_scheme(n, q, **choices)
    each = budget_of(epsilon, delta, reserve, precision)
    d = checked_dimension(dimension, scheme.q)
    total_shift = promised(sensitivity, d * each.sensitivity)

    def layout_of(length: int) -> Layout:
        whole = replace(each, sensitivity=total_shift, dimension=length, sums=sums_of(d, length))
        return _layout(scheme, _blocks(scheme, length).least_private(whole), d, length, whole)

    return _side_by_side(layout_of, d, overhead)
