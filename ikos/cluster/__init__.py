"""Sums and graph experiments on a cluster, by Dask (the extra ``cluster``).

The clients of a block of users are a task, and so is a shuffler with all blocks' envelopes, or a
range of their values; what comes back to the driver is a sum, a number of messages, and a digest of
nonces. `docs/scale.md` says how, and why a lost worker never makes a wrong sum. Values, shares and
secrets are in no name of a task, no log and no printed form.
"""

from ikos.cluster.connection import Cluster
from ikos.cluster.waiting import ClusterError

__all__ = ["Cluster", "ClusterError"]
