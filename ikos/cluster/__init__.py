"""Sums and graph experiments on a cluster, by Dask (the extra ``cluster``)."""

from ikos.cluster.connection import Cluster, ClusterError

__all__ = ["Cluster", "ClusterError"]
