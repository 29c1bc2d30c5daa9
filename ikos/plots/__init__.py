"""Plots: how many messages each analysis asks for, as curves and as figures.

`curves` computes with the library's calculators alone; `drawing` turns curves into matplotlib
figures, and is the one module that needs it (the extra ``plot``); `files` writes whole files.
"""

from ikos.plots.curves import (
    BOTH_WAYS,
    Curve,
    attack_estimate,
    grid,
    private_curves,
    secure_curves,
)
from ikos.plots.files import SUFFIXES, save, written_whole

__all__ = [
    "BOTH_WAYS",
    "SUFFIXES",
    "Curve",
    "attack_estimate",
    "grid",
    "private_curves",
    "save",
    "secure_curves",
    "written_whole",
]
