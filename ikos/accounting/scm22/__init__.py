"""Coordinates drawn at random through randomized response (SCM22): what a guarantee takes.

A user draws t of d coordinates without regard to its vector, rounds each at random to {0..k}, and
sends (coordinate, value) through randomized response on these ``k + 1`` values.

*One message.* The dimension does not enter: the shuffled messages are as private as those of a
scalar protocol with ``k + 1`` values and all n users. For a user who answers with the truth has d
messages of its own, one for each coordinate, of which it sends a uniform one; an adversary who
does not know which coordinate that was cannot count the messages of this coordinate alone. That is
the case of answers of which a user has several in `ikos.accounting.blanket`. SCM22 tells the
adversary the coordinate, so that only n / d users are left to hide among.

*Several messages, one from each of t runs of coordinates* ("stratified"). These are t independent
copies of that, whose privacy losses add (`repeated_delta`).

*Several messages, t coordinates without replacement* ("uniform"). The draws depend on each other.
Let the adversary know who drew which coordinates. Of the others N ~ Bin(n - 1, t / d) drew a given
one, and the user's t answers are randomized response among N + 1 users each, independent given the
draws. More users hide better: with probability at least 1 - t P[N + 1 < m] this is at most t
answers among m users each (`uniform_delta`).

*Several coordinates in one message*, as SCM22 has it, is another mechanism: what it sends can be
told from others' by how many of its places agree, and no composition theorem applies. Nothing here
is about it but SCM22's own formulas, which are named *published*.

SCM22 is Scott, Cormode, Maple, "Applying the Shuffle Model of Differential Privacy to Vector
Aggregation", 2021.
"""

from __future__ import annotations

from ikos.accounting.scm22.answers import SampledAnswers, sampled_answers, sampled_delta
from ikos.accounting.scm22.errors import CoordinateError, coordinate_error, total_error
from ikos.accounting.scm22.optimized import optimized_answers
from ikos.accounting.scm22.published import (
    dimension_free_gamma,
    published_error,
    published_gamma,
    published_precision,
    published_single_gamma,
    repaired_gamma,
)
from ikos.accounting.scm22.repeated import COMPOSITIONS, MAX_VALUES, repeated_delta
from ikos.accounting.scm22.sampling import SAMPLINGS, stratum_sizes, weights
from ikos.accounting.scm22.uniform import uniform_delta

__all__ = [
    "COMPOSITIONS",
    "MAX_VALUES",
    "SAMPLINGS",
    "CoordinateError",
    "SampledAnswers",
    "coordinate_error",
    "dimension_free_gamma",
    "optimized_answers",
    "published_error",
    "published_gamma",
    "published_precision",
    "published_single_gamma",
    "repaired_gamma",
    "repeated_delta",
    "sampled_answers",
    "sampled_delta",
    "stratum_sizes",
    "total_error",
    "uniform_delta",
    "weights",
]
