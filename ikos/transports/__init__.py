"""Transports: ways to add up many users' integers and reveal only the sum. One module each.

A new one is a module with a `Transport` and its recipe, and an entry in ``TRANSPORTS``.
"""

from __future__ import annotations

from ikos.transports.base import Recipe, Reports, Transport
from ikos.transports.helpers import AddedShares, Helpers
from ikos.transports.masks import Masked, Masks
from ikos.transports.shares import Shares, Shuffled
from ikos.transports.verified import AddedOpenings, Verified
from ikos.transports.verified_shuffled import ShuffledOpenings, VerifiedShuffled

__all__ = [
    "TRANSPORTS", "AddedOpenings", "AddedShares", "Helpers", "Masked", "Masks", "Recipe", "Reports",
    "Shares", "Shuffled", "ShuffledOpenings", "Transport", "Verified", "VerifiedShuffled",
]  # fmt: skip

TRANSPORTS: dict[str, type[Recipe]] = {
    Shares.name: Shuffled,
    Masks.name: Masked,
    AddedShares.name: Helpers,
    AddedOpenings.name: Verified,
    ShuffledOpenings.name: VerifiedShuffled,
}
"""The recipe of each transport, by its name."""
