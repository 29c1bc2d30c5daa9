"""Amplification by shuffling for any locally private messages, by clones, as published.

Another user's message is, with probability e^-e0, a clone of the one to be hidden. The multiset of
all messages is then a function of the numbers of clones of either kind, whose divergence is
computed exactly (:ref:`proof-clones`). `ikos.accounting.amplification` proves more clones.

Feldman, McMillan, Talwar, *Hiding Among the Clones: A Simple and Nearly Optimal Analysis of Privacy
Amplification by Shuffling*, FOCS 2021 (FMT21), Theorem 3.1 and its numerical bound.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from ikos.accounting.amplification import checked, excess, labels_delta, three_labels
from ikos.numeric.rounding import DOWN, UP


def clones_delta(epsilon: float | Fraction, n: int, local_epsilon: float | Fraction) -> float:
    """Return a delta for which n shuffled messages are together (epsilon, delta)-private.

    FMT21's bound with the divergence computed exactly, rounded up; the same in both orders.

    Parameters
    ----------
    epsilon, n, local_epsilon
        As for `ikos.accounting.amplified_delta`, which is smaller.

    Examples
    --------
    >>> clones_delta(0.5, 10**5, 4.0) < 1e-8  # each message is 4-private, all of them 0.5
    True
    """
    eps, users, local = checked(epsilon, n, local_epsilon)
    if eps >= local:
        return 0.0
    p1 = excess(local, UP)
    labels = three_labels(excess(eps, DOWN), p1, p1 / (2 + p1))
    return labels_delta(replace(labels, share=1 / (1 + p1)), users)
