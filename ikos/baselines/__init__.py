"""Published protocols for sums, behind the interface of `ikos.PrivateSum`.

For each, `SumProtocol` states the guarantee and its theorem, what is sent, how large the error can
be and what one dishonest user can do; and each can be run.
"""

from __future__ import annotations

from ikos.aggregation.protocol import BaseProtocol, SumProtocol
from ikos.baselines.base import Baseline
from ikos.baselines.binary_response_csuzz19 import BinaryRandomizedResponse, UnaryEncoding
from ikos.baselines.central_model import CentralDiscreteLaplace, CentralLaplace
from ikos.baselines.correlated_noise_gkmps21 import CorrelatedNoise
from ikos.baselines.local_model import LocalLaplace, LocalRandomizedResponse
from ikos.baselines.recursive_sum_bbgn20 import PrivacyBlanket, RecursiveSum
from ikos.baselines.registry import (
    PROTOCOLS,
    ComparisonRow,
    Measurement,
    ProtocolSpec,
    comparison,
    measure,
)
from ikos.baselines.sample_and_threshold_cb22 import SampleAndThreshold
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
