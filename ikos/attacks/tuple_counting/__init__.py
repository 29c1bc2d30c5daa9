"""The tuple-counting attack on IKOS summation with parallel shufflers.

A target's m shuffled messages, one in the output of each shuffler, add up to its input less its
clear share (to the input itself where there is none). The attack counts the tuples, one message
from each shuffler, that do: N(r) of the n^m tuples add up to a residue r, about n^m / q of them
by chance, and one more where r is the target's own. The count's fluctuations hide the one.

To tell an input x from x' = x + (d, -d, 0, ..., 0) in this way, let y_i be the residue of user i
under x and compare

    S = N(y_1) - N(y_1 + d) + N(y_2) - N(y_2 - d)

with zero: positive speaks for x, negative for x', and at zero a coin is tossed. Under x' the
distribution of S is that of -S under x, by the automorphism -1 of the group.

S has mean 2 and variance 4 (n^m + 2^m - 2)/q, exactly (``moments``), so that it stands at about
sqrt(q / n^m) of its standard deviations from zero. Were it normal, the advantage would be
2 Phi(sqrt(q / (n^m + 2^m - 2))) - 1, about 0.8 sqrt(q / n^m): a guide to where the experiment
should come out, not a bound (with few residues S is far from normal, a product rather than a sum,
and the advantage smaller). The proved bound on the total variation for a change on two users is
sqrt(Delta_A / 2), where Delta_A = 2 q n^-m to leading order in q n^(1-m), hence again
sqrt(q / n^m). Where q n^(1-m) is small the two are within a small factor of each other; where it
is not the proved bound is much the larger.
"""

from __future__ import annotations

from ikos.attacks.tuple_counting.advantage import Advantage, measure_advantage
from ikos.attacks.tuple_counting.comparison import statistic
from ikos.attacks.tuple_counting.counts import MAX_MODULUS, consistent_tuples, tuple_counts
from ikos.attacks.tuple_counting.fluctuations import Fluctuation, fluctuation
from ikos.attacks.tuple_counting.moments import count_moments, statistic_moments
from ikos.attacks.tuple_counting.views import MAX_MESSAGES, MAX_USERS, sample_views

__all__ = [
    "MAX_MESSAGES",
    "MAX_MODULUS",
    "MAX_USERS",
    "Advantage",
    "Fluctuation",
    "consistent_tuples",
    "count_moments",
    "fluctuation",
    "measure_advantage",
    "sample_views",
    "statistic",
    "statistic_moments",
    "tuple_counts",
]
