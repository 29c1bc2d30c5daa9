"""Sparse vectors of signs in one message: what it guarantees, its error, the size of the hash.

A user has at most s events out of 2d, "coordinate j is +1" or "is -1", and sends one message.

*Sets of answers.* In three of the mechanisms the message is, with probability gamma, uniform on all
possible ones, and otherwise uniform on a set of them that the vector determines, perhaps with the
help of more randomness. Let 1/k be the set's share of all messages:

- Collision (Definition 3) draws a hash function H from 2d events to {0..t-1} and a value z. Its
  probabilities are e^eps / Omega for a z that an event hits, Omega = s e^eps + t - s, and the rest
  spread evenly over the others. If c <= s distinct values are hit, fill them up with a uniformly
  random choice of others to a set S of size s. Send a uniform value with probability
  gamma = t / Omega, otherwise a uniform element of S: a value that is hit then has probability
  1/Omega + (e^eps - 1)/Omega = e^eps / Omega, one that is not
  (1 + (e^eps - 1) (s - c)/(t - c)) / Omega = (Omega - c e^eps) / ((t - c) Omega), which is the
  Definition. So k = t / s.
- PrivKV draws a coordinate and answers by randomized response on its three values: k = 3.
- PCKV-GRR draws one of the user's s events and answers by randomized response on all 2d. It is
  the same to answer from the set of all s events, and k = 2d / s, not 2d.

*By itself* a message is ln(1 + k (1 - gamma) / gamma)-private: its probability is between
gamma / M and gamma / M + (1 - gamma) k / M, of M possible messages, the seed and the coordinate
counted.

*Shuffled*, n of them are as private as `ikos.accounting.blanket` says for k. The hash function, or
its seed, travels with z and tells messages apart; this is allowed for. Fix for each user a choice S
for each seed. The messages (seed, z) are then answers from a set, whose share is s / t = 1 / k for
every hash function, good or bad, and for every vector; and that module's docstring shows that the
divergence is at most that of disjoint sets of this share. A user's law is a mixture over the
choices of S, for the one vector and for the other. The law of the view is linear in it, and the
hockey-stick divergence jointly convex, so that the mixtures are no further apart. The others' laws
are gamma uniform whatever their vectors are, which is all that the blanket needs of them.

*In error* per user, exactly, for independent uniform hash values: see `SupportVariances`.

WLQDLY21 is Wang, Li, Qian, Du, Lin, Yang, *Hiding Numerical Vectors in Local Private and Shuffled
Messages*, IJCAI 2021. What its formulas state is in functions named ``published_...``.
"""

from __future__ import annotations

from ikos.accounting.wlqdly21.collision import MAX_VALUES, CollisionParameters, collision_parameters
from ikos.accounting.wlqdly21.privacy import (
    exp_down,
    local_epsilon,
    raised,
    set_response_gamma,
    set_response_theorem,
)
from ikos.accounting.wlqdly21.published import (
    published_amplification,
    published_local_epsilon,
    published_lower_bound,
    published_shuffled_values,
    published_values,
)
from ikos.accounting.wlqdly21.variances import (
    SupportVariances,
    collision_variances,
    pckv_grr_variances,
    pckv_ue_variances,
    privkv_variances,
)

__all__ = [
    "MAX_VALUES",
    "CollisionParameters",
    "SupportVariances",
    "collision_parameters",
    "collision_variances",
    "exp_down",
    "local_epsilon",
    "pckv_grr_variances",
    "pckv_ue_variances",
    "privkv_variances",
    "published_amplification",
    "published_local_epsilon",
    "published_lower_bound",
    "published_shuffled_values",
    "published_values",
    "raised",
    "set_response_gamma",
    "set_response_theorem",
]
