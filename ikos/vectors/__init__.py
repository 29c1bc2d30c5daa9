"""Sums of vectors: private protocols behind one interface, `VectorProtocol`."""

from __future__ import annotations

from ikos.accounting.vector_noise import Sensitivity
from ikos.vectors.categories import Categories
from ikos.vectors.central_gaussian import CentralGaussian
from ikos.vectors.collision_wlqdly21 import Collision
from ikos.vectors.columns import (
    ColumnSums,
    Histograms,
    Variances,
    histograms,
    linear_statistics,
    means,
    variances,
)
from ikos.vectors.domains import Ball, Box, Domain, SparseTernary
from ikos.vectors.interface import (
    Band,
    VectorBaseline,
    VectorError,
    VectorProtocol,
    VectorResult,
)
from ikos.vectors.kashin import KashinFrame
from ikos.vectors.kashin_correlated_noise_afnntz24 import KashinCorrelatedNoise
from ikos.vectors.kashin_private_sum_afnntz24 import KashinPrivateSum
from ikos.vectors.key_values import KeyValueBaseline, KeyValueResult, Ternarizer
from ikos.vectors.pckv import PCKVGRR, PCKVUE
from ikos.vectors.private_sum import PrivateVectorSum
from ikos.vectors.privkv import PrivKV
from ikos.vectors.registry import (
    VECTOR_PROTOCOLS,
    VectorProtocolSpec,
    VectorRow,
    vector_comparison,
)
from ikos.vectors.sampled_coordinates_scm22 import SampledCoordinates
from ikos.vectors.secure_sum import SecureVectorSum
from ikos.vectors.simplex import project_simplex, projected_frequencies
from ikos.vectors.single_message_afnntz24 import SingleMessageGrid

__all__ = [
    "PCKVGRR",
    "PCKVUE",
    "VECTOR_PROTOCOLS",
    "Ball",
    "Band",
    "Box",
    "Categories",
    "CentralGaussian",
    "Collision",
    "ColumnSums",
    "Domain",
    "Histograms",
    "KashinCorrelatedNoise",
    "KashinFrame",
    "KashinPrivateSum",
    "KeyValueBaseline",
    "KeyValueResult",
    "PrivKV",
    "PrivateVectorSum",
    "SampledCoordinates",
    "SecureVectorSum",
    "Sensitivity",
    "SingleMessageGrid",
    "SparseTernary",
    "Ternarizer",
    "Variances",
    "VectorBaseline",
    "VectorError",
    "VectorProtocol",
    "VectorProtocolSpec",
    "VectorResult",
    "VectorRow",
    "histograms",
    "linear_statistics",
    "means",
    "project_simplex",
    "projected_frequencies",
    "variances",
    "vector_comparison",
]
