"""The random graphs behind the bounds: samples, their exact distribution, checks of the bounds.

``share_graphs`` has the graphs, as arrays and for networkx, and their components, ``sampling``
draws many, and ``importance_sampling`` draws rare ones. ``component_distribution`` is exact,
``component_bounds`` has the bounds and compares them with the exact distribution over ranges.
``check`` compares all of these.
"""

from ikos.graphs.check import ComponentCheck, check_components
from ikos.graphs.component_bounds import (
    Slack,
    Sweep,
    component_bound,
    excess_bound,
    parts_bound,
    sweep,
)
from ikos.graphs.component_distribution import (
    Enclosure,
    component_moment,
    component_pmf,
    enclosed_law,
    exact_component_law,
)
from ikos.graphs.importance_sampling import PlantedTally, rare_components
from ikos.graphs.sampling import Tally, component_counts, tally_components
from ikos.graphs.share_graphs import (
    component_labels,
    count_components,
    multigraph,
    replayed_targets,
    sample_targets,
)
from ikos.primitives.concurrency import Interrupted

__all__ = [
    "ComponentCheck",
    "Enclosure",
    "Interrupted",
    "PlantedTally",
    "Slack",
    "Sweep",
    "Tally",
    "check_components",
    "component_bound",
    "component_counts",
    "component_labels",
    "component_moment",
    "component_pmf",
    "count_components",
    "enclosed_law",
    "exact_component_law",
    "excess_bound",
    "multigraph",
    "parts_bound",
    "rare_components",
    "replayed_targets",
    "sample_targets",
    "sweep",
    "tally_components",
]
