"""Transports: ways to add up many users' integers and reveal only the sum. One module each.

A new one is a module with a `Transport` and its recipe, and an entry in ``TRANSPORTS``.
"""

from __future__ import annotations

from ikos.transports.base import Recipe, Reports, Transport
from ikos.transports.masks import Masked, Masks
from ikos.transports.shares import Shares, Shuffled

__all__ = ["TRANSPORTS", "Masked", "Masks", "Recipe", "Reports", "Shares", "Shuffled", "Transport"]

TRANSPORTS: dict[str, type[Recipe]] = {Shares.name: Shuffled, Masks.name: Masked}
"""The recipe of each transport, by its name."""
