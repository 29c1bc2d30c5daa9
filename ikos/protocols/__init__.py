"""The other protocols for sums, beside `ikos.PrivateSum`, behind one interface.

Each answers the same questions: what is guaranteed and by which theorem, what is sent, how large
the error can be, what one dishonest user can do; and each runs. `SumProtocol` says how.
"""

from __future__ import annotations

from ikos.protocols.central_laplace import CentralDiscreteLaplace, CentralLaplace
from ikos.protocols.interface import Baseline, BaselineResult, SumProtocol
from ikos.protocols.local_laplace import LocalLaplace

__all__ = [
    "Baseline",
    "BaselineResult",
    "CentralDiscreteLaplace",
    "CentralLaplace",
    "LocalLaplace",
    "SumProtocol",
]
