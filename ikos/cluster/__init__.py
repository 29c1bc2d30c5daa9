"""Sums and graph experiments on a cluster, by Dask (the extra ``cluster``).

A task plays the clients of a block of users, or a shuffler with all blocks' envelopes or a range of
their values; the driver gets back a sum, a number of messages, and a digest of nonces.
`docs/scale.md` explains how, and why a lost worker never makes a wrong sum. Values, shares and
secrets appear in no task name, log or printed form.
"""

from ikos.cluster.connection import Cluster
from ikos.cluster.waiting import ClusterError

__all__ = ["Cluster", "ClusterError"]
