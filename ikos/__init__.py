"""Secure and private aggregation in the shuffle model.

Many users each hold a number. Each splits it into random shares that add up to it modulo q,
shufflers mix all users' shares, and an analyzer adds them up and learns the sum. With noise
shares that add up to exactly discrete Laplace noise, the sum is differentially private, and no
single party is trusted to add the noise.

- `message_count`, `security_level`, `private_message_count`: how many messages are enough.
- `SecureSum`, `PrivateSum`: run the protocols.
- `ikos.counts`: what else can be asked of messages, users and budgets.
- `ikos.statistics`: means, variances, counts and histograms built from them.
- `ikos.graphs`: the random graphs behind the bounds, to sample and to verify.
- `ikos.baselines`, `ikos.accounting`: the other protocols for sums, and what they guarantee.
- `ikos.vectors`: sums of vectors, and the protocols of the literature for them.
- `ikos.attacks`: what an adversary can do, measured.
- `ikos.noise`: the exact samplers. `ikos.testing`: reproducible randomness, not private.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ikos import (
        accounting,
        attacks,
        baselines,
        cluster,
        counts,
        datasets,
        deployment,
        graphs,
        noise,
        plots,
        statistics,
        tables,
        testing,
        vectors,
    )
    from ikos.aggregation import PrivateSum, SecureSum
    from ikos.counts import MessageCount, message_count, private_message_count, security_level
    from ikos.results import Guarantee, SumResult
    from ikos.shuffling import View
    from ikos.vectors import Ball, Box, PrivateVectorSum, SecureVectorSum

__version__ = "0.1.0"

__all__ = [
    "Ball",
    "Box",
    "Guarantee",
    "MessageCount",
    "PrivateSum",
    "PrivateVectorSum",
    "SecureSum",
    "SecureVectorSum",
    "SumResult",
    "View",
    "__version__",
    "accounting",
    "attacks",
    "baselines",
    "cluster",
    "counts",
    "datasets",
    "deployment",
    "graphs",
    "message_count",
    "noise",
    "plots",
    "private_message_count",
    "security_level",
    "statistics",
    "tables",
    "testing",
    "vectors",
]


_NAMES = {
    "Ball": "vectors",
    "Box": "vectors",
    "Guarantee": "results",
    "MessageCount": "counts",
    "PrivateSum": "aggregation",
    "PrivateVectorSum": "vectors",
    "SecureSum": "aggregation",
    "SecureVectorSum": "vectors",
    "SumResult": "results",
    "View": "shuffling",
    "message_count": "counts",
    "private_message_count": "counts",
    "security_level": "counts",
}
"""Where names are from that are imported when they are first used.

So are modules. Few programs need all of them, and the command line answers at once.
"""


if not TYPE_CHECKING:  # which knows all names from above, and finds slips

    def __getattr__(name: str) -> Any:
        """Import a name, or a module."""
        if name in _NAMES:
            found = getattr(importlib.import_module(f"ikos.{_NAMES[name]}"), name)
            globals()[name] = found
            return found
        if name in __all__:
            return importlib.import_module(f"ikos.{name}")
        raise AttributeError(
            f"module {__name__!r} has no attribute {name!r}; the other protocols are in "
            "ikos.baselines and ikos.vectors"
        )


def __dir__() -> list[str]:
    """Name what is public, with the modules that are not imported yet."""
    return sorted(__all__)
