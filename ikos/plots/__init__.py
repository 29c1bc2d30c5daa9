"""Plots: how many messages each analysis asks for, and how many components share graphs have.

``curves`` computes with the library's calculators alone; ``drawing`` turns curves into matplotlib
figures, ``components`` checks of the component bounds, ``share_graphs`` graphs,
``second_moments`` what the bounds are for, ``protocols`` the error of each, ``experiments``
measured errors: these six need matplotlib (the extra ``plot``).
``style`` is what figures have in common; ``files`` writes whole files.
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
