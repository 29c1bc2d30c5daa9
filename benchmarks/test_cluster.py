"""What a cluster saves: sums of a folder of Parquet files on two workers, and on one thread."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ikos import PrivateSum, SecureSum
from ikos.cluster import Cluster
from ikos.data.tables import open_column

pytest.importorskip("distributed")
pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

SIZES = pytest.mark.parametrize(
    ("n", "rounds"), [(10**6, 9), (10**7, 9), (10**8, 3)], ids=["n=10^6", "n=10^7", "n=10^8"]
)
FILES = 16


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(workers=2) as cluster:
        yield cluster


def write(folder: Path, n: int) -> Path:
    """Write the ages and the numbers of so many people."""
    rng = np.random.default_rng(0)
    for k in range(FILES):
        users = (k + 1) * n // FILES - k * n // FILES
        table = {
            "age": rng.uniform(0, 100, users).round(2),
            "id": rng.integers(1 << 32, size=users),
        }
        pq.write_table(pa.table(table), folder / f"{k:02}.parquet")
    return folder


@SIZES
def test_secure_sum_on_two_workers(
    against: Callable[..., float], cluster: Cluster, tmp_path: Path, n: int, rounds: int
) -> None:
    x: Any = open_column(write(tmp_path, n), "id", integers=True)
    protocol = SecureSum(n, 2**64, messages=8)
    against(
        lambda: protocol.run(x, cluster=cluster), lambda: protocol.run(x, threads=1), rounds=rounds
    )


@SIZES
def test_private_sum_on_two_workers(
    against: Callable[..., float], cluster: Cluster, tmp_path: Path, n: int, rounds: int
) -> None:
    x: Any = open_column(write(tmp_path, n), "age")
    protocol = PrivateSum(n, 1, 1e-12, lower=0, upper=100)
    against(
        lambda: protocol.run(x, cluster=cluster), lambda: protocol.run(x, threads=1), rounds=rounds
    )
