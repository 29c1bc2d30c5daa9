"""Private sums of vectors, behind one interface: `ikos.baselines.SumProtocol`."""

from __future__ import annotations

from ikos.accounting.vector_noise import Sensitivity
from ikos.aggregation.private_sum import PrivateVectorSum
from ikos.aggregation.secure_sum import SecureVectorSum
from ikos.baselines.central_model import CentralGaussian
from ikos.baselines.collision_wlqdly21 import Collision
from ikos.baselines.frequency_estimation_lwy22 import FrequencyEstimation
from ikos.baselines.kashin import KashinFrame
from ikos.baselines.kashin_sums_afnntz24 import KashinCorrelatedNoise, KashinPrivateSum
from ikos.baselines.key_values import KeyValueBaseline, KeyValueResult, Ternarizer
from ikos.baselines.pckv import PCKVGRR, PCKVUE
from ikos.baselines.privkv import PrivKV
from ikos.baselines.sampled_coordinates_scm22 import SampledCoordinates
from ikos.baselines.single_message_afnntz24 import SingleMessageGrid
from ikos.domains import Ball, Box, Categories, Domain, SparseTernary
from ikos.statistics import (
    ColumnSums,
    Histograms,
    Variances,
    histograms,
    linear_statistics,
    means,
    projected_frequencies,
    variances,
)

__all__ = [
    "PCKVGRR", "PCKVUE", "Ball", "Box", "Categories", "CentralGaussian", "Collision", "ColumnSums",
    "Domain", "FrequencyEstimation", "Histograms", "KashinCorrelatedNoise", "KashinFrame",
    "KashinPrivateSum", "KeyValueBaseline", "KeyValueResult", "PrivKV", "PrivateVectorSum",
    "SampledCoordinates", "SecureVectorSum", "Sensitivity", "SingleMessageGrid", "SparseTernary",
    "Ternarizer", "Variances", "histograms", "linear_statistics", "means",
    "projected_frequencies", "variances",
]  # fmt: skip
