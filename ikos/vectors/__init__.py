"""Sums of vectors: private protocols behind one interface, `VectorProtocol`."""

from __future__ import annotations

from ikos.vectors.domains import Ball, Box, Domain, SparseTernary
from ikos.vectors.interface import (
    Band,
    VectorBaseline,
    VectorError,
    VectorProtocol,
    VectorResult,
)

__all__ = [
    "Ball",
    "Band",
    "Box",
    "Domain",
    "SparseTernary",
    "VectorBaseline",
    "VectorError",
    "VectorProtocol",
    "VectorResult",
]
