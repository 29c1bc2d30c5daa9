"""Secure and private aggregation in the shuffle model.

Many users each hold a number. Each splits it into random shares that add up to it modulo q,
shufflers mix everybody's shares, and an analyzer adds them up and learns the sum. With noise
shares that add up to exactly discrete Laplace noise, the sum is differentially private and nobody
is trusted to add the noise.

- `message_count`, `security_level`, `private_message_count`: how many messages are enough.
- `SecureSum`, `PrivateSum`: run the protocols.
- `ikos.statistics`: means, variances, counts and histograms built from them.
- `ikos.noise`: the exact samplers. `ikos.testing`: reproducible randomness, not private.
"""

from ikos import noise, statistics
from ikos.counts import MessageCount, message_count, private_message_count, security_level
from ikos.results import Guarantee, SumResult
from ikos.shuffling import View
from ikos.summation import PrivateSum, SecureSum

__version__ = "0.1.0"

__all__ = [
    "Guarantee",
    "MessageCount",
    "PrivateSum",
    "SecureSum",
    "SumResult",
    "View",
    "__version__",
    "message_count",
    "noise",
    "private_message_count",
    "security_level",
    "statistics",
]
