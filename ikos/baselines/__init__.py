"""Published protocols for sums, behind the interface of `ikos.PrivateSum`.

Each is a `SumProtocol`: it states its guarantee and theorem, its messages, bounds on its error, and
the influence of one dishonest user; and it can be run.
"""

from __future__ import annotations

from ikos.baselines.base import Baseline
from ikos.baselines.binary_response_csuzz19 import BinaryRandomizedResponse, UnaryEncoding
from ikos.baselines.central_model import CentralDiscreteLaplace, CentralGaussian, CentralLaplace
from ikos.baselines.collision_wlqdly21 import Collision
from ikos.baselines.correlated_noise_gkmps21 import CorrelatedNoise
from ikos.baselines.frequency_estimation_lwy22 import FrequencyEstimation
from ikos.baselines.kashin import KashinFrame
from ikos.baselines.kashin_sums_afnntz24 import KashinCorrelatedNoise, KashinPrivateSum
from ikos.baselines.key_values import KeyValueBaseline, KeyValueResult, Ternarizer
from ikos.baselines.local_model import LocalLaplace, LocalRandomizedResponse
from ikos.baselines.measurement import Measurement, measure
from ikos.baselines.pckv import PCKVGRR, PCKVUE
from ikos.baselines.privkv import PrivKV
from ikos.baselines.recursive_sum_bbgn20 import PrivacyBlanket, RecursiveSum
from ikos.baselines.registry import PROTOCOLS, ComparisonRow, ProtocolSpec, comparison
from ikos.baselines.sample_and_threshold_cb22 import SampleAndThreshold
from ikos.baselines.sampled_coordinates_scm22 import SampledCoordinates
from ikos.baselines.secure_noise import DesignatedNoise, SparseNoise
from ikos.baselines.single_message_afnntz24 import SingleMessageGrid
from ikos.sums.protocol import SumProtocol

__all__ = [
    "PCKVGRR", "PCKVUE", "PROTOCOLS", "Baseline", "BinaryRandomizedResponse",
    "CentralDiscreteLaplace", "CentralGaussian", "CentralLaplace", "Collision", "ComparisonRow",
    "CorrelatedNoise", "DesignatedNoise", "FrequencyEstimation", "KashinCorrelatedNoise",
    "KashinFrame", "KashinPrivateSum", "KeyValueBaseline", "KeyValueResult", "LocalLaplace",
    "LocalRandomizedResponse", "Measurement", "PrivKV", "PrivacyBlanket", "ProtocolSpec",
    "RecursiveSum", "SampleAndThreshold", "SampledCoordinates", "SingleMessageGrid", "SparseNoise",
    "SumProtocol", "Ternarizer", "UnaryEncoding", "comparison", "measure",
]  # fmt: skip
