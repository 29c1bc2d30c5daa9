"""What Dask adds: a sum by two workers against the same sum in this process, on two threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest

from ikos import PrivateSum, SecureSum

pytest.importorskip("distributed")
from ikos.cluster import Cluster

WORKERS = 2


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(workers=WORKERS) as cluster:
        yield cluster


@pytest.mark.parametrize("n", [10**6, 10**7], ids=["n=10^6", "n=10^7"])
def test_secure_sum_against_threads(
    against: Callable[..., float], cluster: Cluster, n: int
) -> None:
    x = np.arange(n, dtype=np.uint64)
    protocol = SecureSum(n, 2**64, messages=8)
    against(
        lambda: protocol.run(x, cluster=cluster),
        lambda: protocol.run(x, threads=WORKERS),
        rounds=5,
    )


@pytest.mark.parametrize("n", [10**6, 10**7], ids=["n=10^6", "n=10^7"])
def test_private_sum_against_threads(
    against: Callable[..., float], cluster: Cluster, n: int
) -> None:
    x = np.random.default_rng(0).random(n)
    protocol = PrivateSum(n, 1, 1e-12)
    against(
        lambda: protocol.run(x, cluster=cluster),
        lambda: protocol.run(x, threads=WORKERS),
        rounds=5,
    )
