"""The other protocols for sums, beside `ikos.PrivateSum`, behind one interface.

Each answers the same questions: what is guaranteed and by which theorem, what is sent, how large
the error can be, what one dishonest user can do; and each runs. `SumProtocol` says how.
"""

from __future__ import annotations

from ikos.protocols.central_laplace import CentralDiscreteLaplace, CentralLaplace
from ikos.protocols.designated_bbgn20 import DesignatedNoise
from ikos.protocols.interface import Baseline, BaselineResult, SumProtocol
from ikos.protocols.local_laplace import LocalLaplace
from ikos.protocols.sparse_noise_scrcs11 import SparseNoise

__all__ = [
    "Baseline",
    "BaselineResult",
    "CentralDiscreteLaplace",
    "CentralLaplace",
    "DesignatedNoise",
    "LocalLaplace",
    "SparseNoise",
    "SumProtocol",
]
