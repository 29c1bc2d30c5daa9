"""The protocols of the literature for sums, behind the interface of `ikos.PrivateSum`.

Each answers the same questions: what is guaranteed and by which theorem, what is sent, how large
the error can be, what one dishonest user can do; and each runs. `SumProtocol` says how.
"""

from __future__ import annotations

from ikos.aggregation.protocol import BaseProtocol, SumProtocol
from ikos.baselines.base import Baseline
from ikos.baselines.bits import BinaryRandomizedResponse, LocalRandomizedResponse, UnaryEncoding
from ikos.baselines.central import CentralDiscreteLaplace, CentralLaplace
from ikos.baselines.correlated_noise_gkmps21 import CorrelatedNoise
from ikos.baselines.digits import PrivacyBlanket, RecursiveSum
from ikos.baselines.local_laplace import LocalLaplace
from ikos.baselines.measuring import Measurement, measure
from ikos.baselines.registry import PROTOCOLS, ComparisonRow, ProtocolSpec, comparison
from ikos.baselines.sample_and_threshold import SampleAndThreshold
from ikos.baselines.secure_noise import DesignatedNoise, SparseNoise

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
