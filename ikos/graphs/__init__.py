"""The random graphs behind the bounds: sample them, know their law, check the bounds against it."""

from ikos.graphs.component_law import (
    Enclosure,
    Moment,
    component_moment,
    component_pmf,
    enclosed_law,
    exact_component_law,
)
from ikos.graphs.components import Components, component_labels, count_components
from ikos.graphs.models import multigraph, sample_targets
from ikos.graphs.sampling import Interrupted, Tally, component_counts, tally_components

__all__ = [
    "Components",
    "Enclosure",
    "Interrupted",
    "Moment",
    "Tally",
    "component_counts",
    "component_labels",
    "component_moment",
    "component_pmf",
    "count_components",
    "enclosed_law",
    "exact_component_law",
    "multigraph",
    "sample_targets",
    "tally_components",
]
