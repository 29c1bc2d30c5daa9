"""Secure and private aggregation in the shuffle model.

Many users each hold a number. Each splits it into random shares that add up to it modulo q;
shufflers mix the shares of all users, and an analyzer learns the sum by adding them up. With noise
shares that add up to exactly discrete Laplace noise, the sum is differentially private, and no
single party is trusted to add the noise.

`mean`, `variance`, `count`, `histogram`, `median` and `quantiles` release statistics of a column;
`ikos.statistics` has more. `SecureSum` and `PrivateSum` run the protocols, and `message_count` and
`ikos.counts` compute how many messages suffice. Other protocols are in `ikos.baselines`; the
documentation lists all modules.
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
        data,
        deployment,
        graphs,
        noise,
        plots,
        statistics,
        testing,
        vectors,
    )
    from ikos._validation import InvalidType, InvalidValue
    from ikos.counts import MessageCount, message_count, private_message_count, security_level
    from ikos.data.domains import Ball, Box, Categories, Portions, SparseTernary
    from ikos.data.sensitivity import Sensitivity
    from ikos.primitives.shuffling import View
    from ikos.results.guarantees import Guarantee
    from ikos.results.sums import SumResult
    from ikos.statistics import count, histogram, mean, median, quantiles, variance
    from ikos.sums import PrivateSum, PrivateVectorSum, SecureSum, SecureVectorSum
    from ikos.sums.ledger import Ledger

__version__ = "0.1.0"

__all__ = [
    "Ball", "Box", "Categories", "Guarantee", "InvalidType", "InvalidValue", "Ledger",
    "MessageCount", "Portions", "PrivateSum", "PrivateVectorSum", "SecureSum", "SecureVectorSum",
    "Sensitivity", "SparseTernary", "SumResult", "View", "__version__", "accounting", "attacks",
    "baselines", "cluster", "count", "counts", "data", "deployment", "graphs", "histogram", "mean",
    "median", "message_count", "noise", "plots", "private_message_count", "quantiles",
    "security_level", "statistics", "testing", "variance", "vectors",
]  # fmt: skip


_NAMES = {
    "_validation": ("InvalidType", "InvalidValue"),
    "counts": ("MessageCount", "message_count", "private_message_count", "security_level"),
    "data.domains": ("Ball", "Box", "Categories", "Portions", "SparseTernary"),
    "data.sensitivity": ("Sensitivity",),
    "primitives.shuffling": ("View",),
    "results.guarantees": ("Guarantee",),
    "results.sums": ("SumResult",),
    "statistics": ("count", "histogram", "mean", "median", "quantiles", "variance"),
    "sums": ("PrivateSum", "PrivateVectorSum", "SecureSum", "SecureVectorSum"),
    "sums.ledger": ("Ledger",),
}
"""The modules of the names above, imported on first use so that a program starts fast."""


if not TYPE_CHECKING:  # type checkers know all names from above and find misspelled ones

    def __getattr__(name: str) -> Any:
        """Import a name or a module."""
        for module, names in _NAMES.items():
            if name in names:
                globals()[name] = value = getattr(importlib.import_module(f"ikos.{module}"), name)
                return value
        if name in __all__:
            return importlib.import_module(f"ikos.{name}")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """Return the public names, with modules that are not imported yet."""
    return sorted(__all__)
