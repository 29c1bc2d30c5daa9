"""The probabilities that a blanket's privacy loss exceeds each of many levels, all at once.

The blanket's own ``divergence`` is for one epsilon. A discretized loss has hundreds of levels,
which share two tables: of S = A + B and M, and of B given S. Proof: :ref:`proof-masses`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import partial

import numpy as np
import scipy

from ikos.accounting.blanket import ResponseBlanket, TooManyTermsError
from ikos.numeric.binomial import Floats, binomial_range, binomial_window, log_pmf
from ikos.numeric.underflow import may_underflow

MAX_TERMS = 1 << 27  # most entries of all tables: a second or two
_DROPPED_FRACTION = 2e-5  # fraction of the messages by which their number is rounded down
_DIRECT = 200  # more values of B than this for each level are not tabulated
_ENTRIES_PER_BLOCK = 1 << 18  # entries of the tables of a block of rows
_LOWERED = 1e-13  # fraction by which e^level is lowered: more than the rounding of an edge


@may_underflow()
def masses_above(
    blanket: ResponseBlanket, levels: Floats, tail: float, most_terms: int = MAX_TERMS
) -> tuple[Floats, Floats, float]:
    """Return the masses under x and under x' of losses above levels >= 0, and the mass left out.

    Of a mechanism that is at most as private as the blanket: its M is rounded down, by less than
    2e-5 of its mean. TooManyTermsError above ``most_terms``.
    """
    n, k, gamma = blanket.n, blanket.k, float(blanket.gamma)
    mass = -math.log(tail)
    messages = binomial_window(n - 1, gamma, gamma / float(1 - blanket.gamma), mass)
    width = 1 + math.floor(_DROPPED_FRACTION * n * gamma)
    starts = np.arange(0, messages.pmf.size, width)
    m = starts.astype(np.float64) + messages.first + 1
    chance = np.add.reduceat(messages.pmf, starts)
    low, high = binomial_range(n - 1, float(2 * blanket.gamma / k), mass)
    s = m if k == 2 else np.arange(max(1.0, low - width), high + 2.0)
    span = math.ceil(math.sqrt(s[-1] * (mass + 1) / 2)) + 1  # B below S / 2, by Hoeffding
    direct = span > _DIRECT * levels.size
    columns = 1 if k == 2 else m.size
    terms = s.size * (columns + (_DIRECT * levels.size if direct else span))
    if terms > most_terms:
        raise TooManyTermsError(
            "epsilon",
            f"must be larger for exact losses at n = {n}, k = {k}, gamma = {gamma:.3g}: "
            f"they would take {terms:.2g} terms; use composition='basic'",
        )
    truth = float((1 - blanket.gamma) * k)
    rise = np.maximum(np.expm1(levels) - _LOWERED * np.exp(levels), 0.0)[:, np.newaxis]
    slope, twice = gamma * rise / truth, 2 + rise  # above where twice B < S - slope M
    with np.errstate(divide="ignore"):
        inverse = 1 / (slope * width)
    masses = np.zeros((2, levels.size))
    rows = max(1, _ENTRIES_PER_BLOCK // max(columns, 1 if direct else span, levels.size))
    for part in np.split(s, range(rows, s.size, rows)):
        joint, over = _of_messages(part, m, chance, k)
        upto_b = partial(_half, part) if direct else _tabulated(part, span)
        line = np.arange(part.size)
        reach = (part, part) if k == 2 else (m[0], m[-1])
        first, last = (np.maximum(np.ceil((part - slope * at) / twice) - 1, -1) for at in reach)
        steps = int((first - last).max()) + 1
        left = part - twice * first
        before, before_over = np.zeros((2, *first.shape))
        for step in range(steps):  # B <= b counts for the next M, up to the end for this b
            end = np.ceil((left + step * twice) * inverse - m[0] / width)
            end = np.clip(end, 0, columns) if step < steps - 1 else np.full(end.shape, columns)
            index = end.astype(np.intp) + line * (columns + 1)
            upto, upto_over = joint.take(index), over.take(index)
            below, seen = upto_b(first - step)
            here, of_each = upto - before, truth * (upto_over - before_over)
            before, before_over = upto, upto_over
            blank = gamma * np.einsum("ij,ij->i", below, here)
            of_other = np.einsum("ij,ij->i", seen, of_each)
            masses[0] += blank + np.einsum("ij,ij,j->i", below, of_each, part) - of_other
            masses[1] += blank + of_other
    return masses[0], masses[1], 6 * tail


def _of_messages(s: Floats, m: Floats, chance: Floats, k: int | Fraction) -> Floats:
    """Return for each s the sums of P[S = s, M] and of that / M over the first M, from none on."""
    column = s[:, np.newaxis]
    if k == 2:  # M = S
        m, joint = column, chance[np.searchsorted(m, column)]
    else:  # from one s to the next, by logarithms as the first may be below all doubles
        with np.errstate(divide="ignore"):
            start = log_pmf(s[0], np.maximum(m, s[0]), float(2 / Fraction(k))) + np.log(chance)
            steps = np.log(np.maximum(m - column[:-1], 0.0) / column[1:] * float(2 / (k - 2)))
        start = np.where(m < s[0], -np.inf, start)
        joint = np.exp(np.cumsum(np.vstack((start, steps)), axis=0))
    sums = np.zeros((2, s.size, joint.shape[1] + 1))
    np.cumsum(joint, axis=1, out=sums[0, :, 1:])
    np.cumsum(joint / m, axis=1, out=sums[1, :, 1:])
    return sums


def _tabulated(s: Floats, span: int) -> Callable[[Floats], tuple[Floats, Floats]]:
    """Return `_half` of s, from a table of B down to ``span`` below s / 2, and 0 beyond."""
    column = s[:, np.newaxis]
    b = column // 2 - np.arange(span)
    pmf = np.ones((s.size, span))
    np.cumprod(np.maximum(b[:, :-1], 0.0) / (column - b[:, 1:]), axis=1, out=pmf[:, 1:])
    # up to s // 2 it adds up to a half, and for even s half of the middle more
    pmf /= (2 * pmf.sum(axis=1) - (s % 2 == 0))[:, np.newaxis]
    below, seen = np.zeros((2, s.size, span + 1))
    below[:, :-1] = np.cumsum(pmf[:, ::-1], axis=1)[:, ::-1]
    seen[:, :-1] = np.cumsum((pmf * b)[:, ::-1], axis=1)[:, ::-1]
    middle = s // 2
    starts = np.arange(s.size) * (span + 1)

    def at(b: Floats) -> tuple[Floats, Floats]:
        index = np.minimum(middle - b, span).astype(np.intp) + starts
        return below.take(index), seen.take(index)

    return at


def _half(s: Floats, b: Floats) -> tuple[Floats, Floats]:
    """Return P[B <= b] and E[B; B <= b], B ~ Bin(s, 1/2), for b <= s / 2."""
    inside = np.clip(b, 0, s - 1)
    below = np.where(b < 0, 0.0, scipy.special.betainc(s - inside, inside + 1, 0.5))
    short = (inside + 1) / 2 * np.exp(log_pmf(inside + 1, s, 0.5))
    return below, np.where(b < 0, 0.0, s / 2 * below - short)
