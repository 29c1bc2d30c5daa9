"""The protocols of the literature for sums, behind the interface of `ikos.PrivateSum`.

Each answers the same questions: what is guaranteed and by which theorem, what is sent, how large
the error can be, what one dishonest user can do; and each runs. `SumProtocol` says how.
"""

from __future__ import annotations

from ikos.aggregation.protocol import BaseProtocol, SumProtocol
from ikos.baselines.base import Baseline
from ikos.baselines.binary_csuzz19 import BinaryRandomizedResponse
from ikos.baselines.blanket_bbgn19 import PrivacyBlanket
from ikos.baselines.central_laplace import CentralDiscreteLaplace, CentralLaplace
from ikos.baselines.correlated_noise_gkmps21 import CorrelatedNoise
from ikos.baselines.designated_bbgn20 import DesignatedNoise
from ikos.baselines.local_laplace import LocalLaplace
from ikos.baselines.local_randomized_response import LocalRandomizedResponse
from ikos.baselines.measuring import Measurement, measure
from ikos.baselines.recursive_bbgn20 import RecursiveSum
from ikos.baselines.registry import PROTOCOLS, ComparisonRow, ProtocolSpec, comparison
from ikos.baselines.sample_and_threshold import SampleAndThreshold
from ikos.baselines.sparse_noise_scrcs11 import SparseNoise
from ikos.baselines.unary_csuzz19 import UnaryEncoding

__all__ = [
    "PROTOCOLS",
    "BaseProtocol",
    "Baseline",
    "BinaryRandomizedResponse",
    "CentralDiscreteLaplace",
    "CentralLaplace",
    "ComparisonRow",
    "CorrelatedNoise",
    "DesignatedNoise",
    "LocalLaplace",
    "LocalRandomizedResponse",
    "Measurement",
    "PrivacyBlanket",
    "ProtocolSpec",
    "RecursiveSum",
    "SampleAndThreshold",
    "SparseNoise",
    "SumProtocol",
    "UnaryEncoding",
    "comparison",
    "measure",
]
