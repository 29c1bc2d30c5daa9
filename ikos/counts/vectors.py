"""Sums of vectors: as one sum over a larger group, or as a sum for each coordinate.

A vector of d coordinates in Z_q can be shared as *one group*, each message an element of Z_q^d,
whose order q^d asks for more messages, each d times as long; or as d *separate sums*, each with
shufflers and shares of its own (messages carry the number of their coordinate; two sums must not be
shuffled by the same permutation, which would be the first layout with too few messages). The first
takes fewer messages, the second far fewer bits. Noise is added to each coordinate either way.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import gmpy2
from gmpy2 import mpfr

from ikos._validation import integer, number, quote
from ikos.counts.private import (
    MAX_PRECISION,
    MIN_DELTA,
    MIN_EPSILON,
    checked_budget,
    lemma_5_2,
    near,
    private_message_count,
    private_proved,
)
from ikos.counts.rounding import DOWN, UP, exact, float_down, float_up, log2, log2_e, rounding
from ikos.counts.secure import (
    MAX_BITS,
    MAX_SIGMA,
    checked_analysis,
    checked_trust,
    least,
    proved,
    setting,
    smallest,
)
from ikos.counts.types import MessageCount
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
        Proved security of the whole vector in bits, rounded down: the views of two inputs with the
        same sum are within total variation ``2**-sigma``.
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


# Two bounds of what the views of d separate sums give away, each sum at level s, so that its views
# are within TV 2^-s for any inputs with the same sum.
#
# *Union bound.* The sums are run independently. Change the input of one coordinate at a time: the
# d + 1 hybrids are each within 2^-s of the next, and the first and the last within d 2^-s.
#
# *Product bound*, for the exact analysis. Its 2^-s is at least sqrt(D / 2), for an upper bound D of
# E[q^(C-1); C >= 2]. Let K(x, x') = sum_v P_x(v) P_x'(v) / U(v), averaged over the clear shares
# where there are any. By the collision identity it is E[q^(C-1); a condition that always holds for
# C = 1], hence between c = P[C = 1] <= 1 and c + D. For d sums the laws, the averages (clear shares
# of different coordinates are independent), and so K, are products, each between c^d and (c + D)^d.
# Hence
#
#     (2 TV)^2  <=  K(x, x) + K(x', x') - 2 K(x, x')  <=  2 ((c + D)^d - c^d)
#               <=  2 d D (1 + D)^(d-1)  <=  2 d D e^((d-1) D),
#
# and with D = 2^(1 - 2s),   log TV <= -s + (log d)/2 + (d - 1) 2^(-2s) log e.


def level_of_sums(sigma: float, sums: int, *, analysis: str | None) -> float:
    """Return the level, in bits, of so many separate sums together.

    Parameters
    ----------
    sigma : float
        Proved level of each of them.
    sums : int
        Their number d.
    analysis : str or None
        What proved it: by the union bound ``log2 d`` bits are lost, and for "second_moment" only
        half of that.

    Returns
    -------
    float
        Rounded down; 0.0 where nothing is left.

    Examples
    --------
    >>> level_of_sums(80.0, 256, analysis="balle2020")
    72.0
    >>> round(level_of_sums(80.0, 256, analysis="second_moment"), 9)
    76.0
    """
    sums = integer("sums", sums, low=1)
    if analysis is not None:
        analysis = checked_analysis(analysis)
    if sums == 1 or math.isinf(sigma):
        return sigma
    apart = log2(sums, UP)
    with rounding(DOWN):
        bound = mpfr(sigma) - apart
    if analysis == "second_moment":
        with rounding(UP):
            second = (sums - 1) * gmpy2.exp2(-2 * mpfr(sigma)) * log2_e(UP)
            lost = apart / 2 + second
        with rounding(DOWN):
            bound = max(bound, mpfr(sigma) - lost)
    return max(0.0, float_down(bound))


def checked_dimension(dimension: object, q: int) -> int:
    """Return the dimension, of a group Z_q^dimension whose order is not too large to be counted."""
    d = integer("dimension", dimension, low=1)
    if d * (q.bit_length() - 1) > MAX_BITS:
        raise ValueError(
            f"dimension must be at most {MAX_BITS // (q.bit_length() - 1)} for this q, "
            f"got {quote(d)}: groups are counted up to order 2**{MAX_BITS}"
        )
    return d


def vector_layouts(
    n: int,
    q: int,
    sigma: float | Fraction,
    dimension: int,
    *,
    analysis: str = "best",
    shuffler: str = "parallel",
    clear_share: bool = True,
    min_honest: int | None = None,
    corrupt_shufflers: int = 0,
) -> tuple[Layout, ...]:
    """Return the ways to sum vectors with sigma bits of security, side by side.

    Parameters
    ----------
    n, q, analysis, shuffler, clear_share
        As in `ikos.security_level`; q is the order of each coordinate's group.
    sigma : float
        Security in bits of the whole vector.
    dimension : int
        Coordinates.
    min_honest : int, optional
        The level holds for every number of honest users from this to ``n``; ``n`` by default.
    corrupt_shufflers : int
        How many of the parallel shufflers of each sum may collude with the analyzer.

    Returns
    -------
    tuple of Layout
        "one group" and "separate sums", each with the fewest messages that prove sigma; the first
        alone for one coordinate, where they are the same.

    Raises
    ------
    ValueError
        If an argument is out of range, or the analysis does not cover the setting.

    Examples
    --------
    >>> for layout in vector_layouts(10_000, 2**32, 80, 100):
    ...     print(layout)
    one group: 272 messages of 3,200 bits per user (870,400 bits)
    separate sums: 1,700 messages of 32 bits per user (54,400 bits)
    """
    n, q, analysis, shuffler, clear_share = setting(n, q, analysis, shuffler, clear_share)
    wanted = number("sigma", sigma, above=0, high=MAX_SIGMA)
    d = checked_dimension(dimension, q)
    honest, corrupt = checked_trust(n, min_honest, corrupt_shufflers, shuffler)
    users, bits = (honest, n), (q - 1).bit_length()
    how = {"analysis": analysis, "shuffler": shuffler}
    group = least(users, q**d, wanted, clear_share=clear_share, **how)
    layouts = [Layout(ONE_GROUP, group.with_corruption(corrupt), 1, d * bits, group.sigma)]
    if d == 1:
        return tuple(layouts)

    def each(m: int) -> MessageCount:
        return proved(users, q, m, clear_share=clear_share, **how)

    def together(m: int) -> float:
        return level_of_sums(each(m).sigma, d, analysis=analysis)

    apart = min(wanted + Fraction(float_up(log2(d, UP))), Fraction(MAX_SIGMA))
    near = least(users, q, apart, clear_share=clear_share, **how).shuffled
    m = smallest(lambda m: together(m) >= wanted, near)
    layouts.append(Layout(SEPARATE, each(m).with_corruption(corrupt), d, bits, together(m)))
    return tuple(layouts)


def private_vector_layouts(
    n: int,
    q: int,
    epsilon: float | Fraction,
    delta: float | Fraction,
    precision: int,
    dimension: int,
    *,
    sensitivity: int | None = None,
    analysis: str = "best",
    shuffler: str = "parallel",
    clear_share: bool = True,
    min_honest: int | None = None,
    corrupt_shufflers: int = 0,
    reserve: float | Fraction = 0.01,
) -> tuple[Layout, ...]:
    """Return the ways to sum vectors with (epsilon, delta)-differential privacy, side by side.

    Parameters
    ----------
    n, q, epsilon, delta, precision, analysis, shuffler, clear_share, min_honest, reserve
        As in `ikos.private_message_count`; each coordinate is in {0..precision} and its group of
        order q. The guarantee is for the replacement of one user's whole vector.
    dimension : int
        Coordinates, d.
    sensitivity : int, optional
        A promise how far the replacement of one user's vector moves the sum at most, in l1 norm and
        steps of the encoding: 2 for one-hot vectors with precision 1, for instance. By default
        d * precision, which any vectors keep. Privacy rests on it. The promise is about encoded
        vectors: reals are rounded at random, and a real vector of small norm can become one of a
        larger norm, so that anything below d * precision is for integers.
    corrupt_shufflers : int
        How many of the parallel shufflers of each sum may collude with the analyzer.

    Returns
    -------
    tuple of Layout
        "one group" and "separate sums" have one noise for the whole vector, discrete Laplace of
        rate noise_epsilon / sensitivity in each coordinate, and one proof. "separate sums,
        composed" are d private sums that know nothing of each other, each with (epsilon/d, delta/d)
        by basic composition, and so with rate noise_epsilon / min(precision, sensitivity) for a
        noise_epsilon of about epsilon/d. All but the first are left out for one coordinate.

    Raises
    ------
    ValueError
        If an argument is out of range, or the analysis does not cover the setting.

    Notes
    -----
    With one noise for separate sums, M_i, in which user i carries the noise of all
    coordinates, is private because vector noise of rate epsilon / sensitivity is, and what the
    views tell apart is the product of the coordinates' views: ``ikos.counts.hockey_stick`` for
    "exact", BBGN20, Lemma 5.2, with the level of the separate sums for the others.

    Examples
    --------
    A histogram of 100 bins: separate budgets would cost 50 times the noise.

    >>> for layout in private_vector_layouts(10_000, 2**15, 1, 1e-8, 1, 100, sensitivity=2):
    ...     print(layout)
    one group: 128 messages of 1,500 bits per user (192,000 bits), noise scale 2
    separate sums: 600 messages of 15 bits per user (9,000 bits), noise scale 2
    separate sums, composed: 600 messages of 15 bits per user (9,000 bits), noise scale 100.7
    """
    n, q, analysis, shuffler, clear_share = setting(n, q, analysis, shuffler, clear_share)
    budget, allowed, spare = checked_budget(epsilon, delta, reserve)
    p = integer("precision", precision, low=1, high=MAX_PRECISION)
    d = checked_dimension(dimension, q)
    moved = integer("sensitivity", d * p if sensitivity is None else sensitivity, low=1, high=d * p)
    honest, corrupt = checked_trust(n, min_honest, corrupt_shufflers, shuffler)
    bits = (q - 1).bit_length()
    for name, value, least_value in (
        ("epsilon", budget, MIN_EPSILON),
        ("delta", allowed, MIN_DELTA),
    ):
        if value < least_value * d:
            raise ValueError(
                f"{name} must be at least {at_least(least_value * d, 6)} for {d} coordinates, "
                f"got {quote(value)}"
            )

    def build(
        name: str, parts: int, order: int, find: Callable[[int], MessageCount], share: int = 1
    ) -> Layout:
        """Return a layout of ``parts`` sums with 1/share of the budget for each proof."""
        goal = allowed / share

        def enough(m: int) -> bool:
            found = find(m).delta
            assert found is not None
            return found <= goal

        count = find(smallest(enough, _near(analysis, honest, order, goal, shuffler, clear_share)))
        assert count.delta is not None
        assert count.noise_epsilon is not None
        most = moved if share == 1 else min(p, moved)
        return Layout(
            name,
            count.with_corruption(corrupt),
            parts,
            d * bits // parts,
            level_of_sums(count.sigma, parts, analysis=analysis),
            budget,
            _up(Fraction(count.delta) * share),
            Fraction(count.noise_epsilon) / most,
        )

    how: dict[str, Any] = {"analysis": analysis, "shuffler": shuffler}
    if analysis != "second_moment":  # refuse what it does not cover
        private_message_count(honest, q, budget, allowed, p, clear_share=clear_share, **how)

    given = {"clear_share": clear_share, "reserve": spare, "most": n, **how}

    def whole(m: int) -> MessageCount:
        return private_proved(
            honest, q**d, m, budget, allowed, p, dimension=d, sensitivity=moved, **given
        )

    def apart(m: int) -> MessageCount:
        if analysis == "second_moment":
            return private_proved(
                honest, q, m, budget, allowed, p, sums=d, sensitivity=moved, **given
            )
        each = proved((honest, honest), q, m, clear_share=clear_share, **how)
        level = level_of_sums(each.sigma, d, analysis=analysis)
        together = replace(each, sigma=level, analysis=analysis if level > 0 else None)
        present = proved((honest, n), q, m, clear_share=clear_share, **how)
        return replace(lemma_5_2(together, budget), sigma=present.sigma)

    def composed(m: int) -> MessageCount:
        return private_proved(
            honest, q, m, budget / d, allowed / d, p, sensitivity=min(p, moved), **given
        )

    if d == 1:
        return (build(ONE_GROUP, 1, q, whole),)
    return (
        build(ONE_GROUP, 1, q**d, whole),
        build(SEPARATE, d, q, apart),
        build(COMPOSED, d, q, composed, d),
    )


def _near(analysis: str, n: int, q: int, delta: Fraction, shuffler: str, clear_share: bool) -> int:
    """Return a count to begin the search at."""
    if analysis == "second_moment":
        return near(n, q, delta, shuffler, clear_share)
    bits = 1 + max(0.0, -float(gmpy2.log2(exact(delta, DOWN))))
    how = {"analysis": analysis, "shuffler": shuffler}
    return least((n, n), q, Fraction(bits), clear_share=clear_share, **how).shuffled


def _up(value: Fraction) -> float:
    return min(1.0, float_up(exact(value, UP)))
