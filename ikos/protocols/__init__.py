"""The other protocols for sums, beside `ikos.PrivateSum`, behind one interface.

Each answers the same questions: what is guaranteed and by which theorem, what is sent, how large
the error can be, what one dishonest user can do; and each runs. `SumProtocol` says how.
"""

from __future__ import annotations

from ikos.protocols.binary_csuzz19 import BinaryRandomizedResponse
from ikos.protocols.blanket_bbgn19 import PrivacyBlanket
from ikos.protocols.central_laplace import CentralDiscreteLaplace, CentralLaplace
from ikos.protocols.correlated_noise_gkmps21 import CorrelatedNoise
from ikos.protocols.designated_bbgn20 import DesignatedNoise
from ikos.protocols.interface import Baseline, BaselineResult, SumProtocol
from ikos.protocols.local_laplace import LocalLaplace
from ikos.protocols.local_randomized_response import LocalRandomizedResponse
from ikos.protocols.recursive_bbgn20 import RecursiveSum
from ikos.protocols.registry import (
    PROTOCOLS,
    Measurement,
    ProtocolSpec,
    Row,
    comparison,
    measure,
)
from ikos.protocols.sample_and_threshold import SampleAndThreshold
from ikos.protocols.sparse_noise_scrcs11 import SparseNoise
from ikos.protocols.unary_csuzz19 import UnaryEncoding

__all__ = [
    "PROTOCOLS",
    "Baseline",
    "BaselineResult",
    "BinaryRandomizedResponse",
    "CentralDiscreteLaplace",
    "CentralLaplace",
    "CorrelatedNoise",
    "DesignatedNoise",
    "LocalLaplace",
    "LocalRandomizedResponse",
    "Measurement",
    "PrivacyBlanket",
    "ProtocolSpec",
    "RecursiveSum",
    "Row",
    "SampleAndThreshold",
    "SparseNoise",
    "SumProtocol",
    "UnaryEncoding",
    "comparison",
    "measure",
]
