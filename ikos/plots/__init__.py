"""Plots: how many messages each analysis needs, and how many components share graphs have.

``curves`` uses only the library's calculators. The other modules need matplotlib (the extra
``plot``): ``figures`` draws curves, ``components`` checks of the component bounds, ``share_graph``
a graph, and ``protocols`` the error of each protocol. ``style`` is common to all figures; ``files``
writes whole files.
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
