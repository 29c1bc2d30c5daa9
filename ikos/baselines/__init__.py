"""Published protocols for sums, behind the interface of `ikos.PrivateSum`.

For each, `SumProtocol` states the guarantee and its theorem, what is sent, how large the error can
be and what one dishonest user can do; and each can be run.
"""

from __future__ import annotations

from ikos.aggregation.protocol import BaseProtocol, SumProtocol
from ikos.baselines.added_noise import CentralDiscreteLaplace, CentralLaplace, LocalLaplace
from ikos.baselines.base import Baseline
from ikos.baselines.bits import (
    BinaryRandomizedResponse,
    LocalRandomizedResponse,
    SampleAndThreshold,
    UnaryEncoding,
)
from ikos.baselines.correlated_noise_gkmps21 import CorrelatedNoise
from ikos.baselines.digits import PrivacyBlanket, RecursiveSum
from ikos.baselines.registry import (
    PROTOCOLS,
    ComparisonRow,
    Measurement,
    ProtocolSpec,
    comparison,
    measure,
)
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
