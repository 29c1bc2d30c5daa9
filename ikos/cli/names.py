"""Names that help and completion need at once.

The library defines them in modules that are slow to import; a test compares them.
"""

from __future__ import annotations

ANALYSES = ("best", "second_moment", "balle2020", "ghazi2020", "ishai2006", "exact")
"""The names in `ikos.counts`, with "best" and its older name."""

SHUFFLERS = ("parallel", "single")
"""Those of `ikos.counts`."""

PROTOCOLS = (
    "central-laplace", "central-discrete",
    "private-sum", "private-sum-bbgn20", "designated-noise", "sparse-noise",
    "sparse-noise-scrcs11", "correlated-noise", "privacy-blanket", "recursive-2-paper",
    "recursive-3-paper", "recursive-2", "recursive-3", "recursive-4", "binary-response",
    "unary-encoding", "sample-threshold",
    "local-response", "local-laplace",
)  # fmt: skip
"""The keys of `ikos.baselines.PROTOCOLS` for numbers."""

VECTOR_PROTOCOLS = (
    "central-gaussian",
    "private-vector-sum", "kashin-private-sum", "kashin-correlated-noise",
    "kashin-sampled-noise", "sampled-coordinates", "one-coordinate", "single-message-grid",
    "collision", "privkv", "pckv-grr", "pckv-ue",
    "local-collision", "local-privkv",
)  # fmt: skip
"""The keys of `ikos.baselines.PROTOCOLS` for vectors."""

MAX_WORKERS = 1024
"""That of `ikos.cluster.connection`."""
