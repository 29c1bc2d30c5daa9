"""What no protocol for sums of vectors can do, and the published rules of one that does.

AFNNTZ24 is Asi, Feldman, Nelson, Nguyen, Talwar, Zhou, "Private Vector Mean Estimation in the
Shuffle Model: Optimal Rates Require Many Messages", ICML 2024. Its theorems are stated up to
constants. What stands here has all of them, and is proved where it stands: some of the printed
proofs do not hold as they are. Throughout, n users send k messages each through one shuffler, the
view is (epsilon, delta)-private under replacement of one user's vector, Err bounds the mean squared
error of the estimated sum for all vectors of Euclidean norm at most 1, and a = Err / n.
"""

from __future__ import annotations

from ikos.accounting.bounds_afnntz24.few_messages import least_messages
from ikos.accounting.bounds_afnntz24.malicious_users import (
    coefficient_influence,
    group_sizes,
    poisoning_floor,
)
from ikos.accounting.bounds_afnntz24.one_message import single_message_floor
from ikos.accounting.bounds_afnntz24.published import (
    published_error,
    published_gamma,
    published_levels,
)
from ikos.accounting.bounds_afnntz24.rate_limits import counter_bits, token_bits

__all__ = [
    "coefficient_influence",
    "counter_bits",
    "group_sizes",
    "least_messages",
    "poisoning_floor",
    "published_error",
    "published_gamma",
    "published_levels",
    "single_message_floor",
    "token_bits",
]
