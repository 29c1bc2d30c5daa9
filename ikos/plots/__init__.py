"""Plots: how many messages each analysis asks for, and how many components share graphs have.

``curves`` computes with the library's calculators alone. ``figures`` turns curves into matplotlib
figures, ``components`` checks of the component bounds, ``share_graphs`` graphs, ``protocols`` the
error of each: these need matplotlib (the extra ``plot``). ``style`` is what figures have in common;
``files`` writes whole files.
"""

from ikos.plots.curves import BOTH_WAYS, Curve, attack_estimate, grid, private_curves, secure_curves
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
