"""What runs of vector protocols take on this machine: time and memory, of all parties at once.

    python -m analysis.vector_runs
    python -m analysis.vector_runs --protocol collision --protocol privkv --repeats 5

runs each protocol on 10^5 vectors in a fresh process, over values in a memory map, and prints what
making it took (the search for its parameters) and the shortest of its runs, in processor time, and
the most memory beyond what the process had before. With ``--output`` it also writes
``vector-runs.md`` and, with the time on the clock, ``vector-runs.csv``. The times are this
machine's of this moment, so that no two runs write the same bytes.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import astuple, dataclass, fields
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Protocol

import click
import numpy as np
from numpy.typing import NDArray

from analysis.large_sums import bytes_of_process, fresh_process
from analysis.machine_rates import machine
from analysis.output import Files, csv_text, main, markdown, program, steps
from ikos import Ball, Box, Categories, PrivateVectorSum, SecureVectorSum, SparseTernary
from ikos.baselines import (
    PCKVGRR,
    PCKVUE,
    Collision,
    KashinCorrelatedNoise,
    KashinPrivateSum,
    PrivKV,
    SampledCoordinates,
    SingleMessageGrid,
)
from ikos.cli.types import Whole
from ikos.results.sums import at_least

USERS, DIMENSION, FEW, ENTRIES = 10**5, 1024, 8, 16
BUDGET = 1, 1e-6


class Runs(Protocol):
    """What is measured: something that takes all users' vectors."""

    def run(self, x: Any, /) -> object:
        """Play all the parties."""


@dataclass(frozen=True)
class Run:
    """A protocol, and the vectors that it takes.

    Attributes
    ----------
    name : str
        What the table calls it.
    make : callable
        Makes it for this many users and coordinates.
    data : {"ball", "box", "few", "signs", "categories", "integers"}
        Which vectors.
    """

    name: str
    make: Callable[[int, int], Runs]
    data: str


def _sampled(t: int) -> Callable[[int, int], Runs]:
    return lambda n, d: SampledCoordinates(n, Box(d), *BUDGET, messages=min(t, d), precision=3)


def _signs(d: int) -> SparseTernary:
    return SparseTernary(d, ENTRIES)


RUNS: Mapping[str, Run] = {
    "secure-sum": Run(
        "`SecureVectorSum`, q = 2^32", lambda n, d: SecureVectorSum(n, d, 2**32), "integers"
    ),
    "private-ball": Run(
        "`PrivateVectorSum`, ball", lambda n, d: PrivateVectorSum(n, Ball(d), *BUDGET), "ball"
    ),
    "private-box": Run(
        "`PrivateVectorSum`, box", lambda n, d: PrivateVectorSum(n, Box(d), *BUDGET), "box"
    ),
    "private-categories": Run(
        "`PrivateVectorSum`, one category of d",
        lambda n, d: PrivateVectorSum(n, Categories([d]), *BUDGET),
        "categories",
    ),
    "sampled-1": Run("`SampledCoordinates`, k = 3, t = 1", _sampled(1), "box"),
    "sampled-32": Run("`SampledCoordinates`, k = 3, t = 32", _sampled(32), "box"),
    "sampled-all": Run("`SampledCoordinates`, k = 3, t = d", _sampled(DIMENSION), "box"),
    "collision": Run(
        f"`Collision`, {ENTRIES} entries", lambda n, d: Collision(n, _signs(d), *BUDGET), "signs"
    ),
    "privkv": Run(
        f"`PrivKV`, {ENTRIES} entries", lambda n, d: PrivKV(n, _signs(d), *BUDGET), "signs"
    ),
    "pckv-grr": Run(
        f"`PCKVGRR`, {ENTRIES} entries", lambda n, d: PCKVGRR(n, _signs(d), *BUDGET), "signs"
    ),
    "pckv-ue": Run(
        f"`PCKVUE`, {ENTRIES} entries", lambda n, d: PCKVUE(n, _signs(d), *BUDGET), "signs"
    ),
    "kashin-private": Run(
        "`KashinPrivateSum`", lambda n, d: KashinPrivateSum(n, Ball(d), *BUDGET), "ball"
    ),
    "kashin-correlated": Run(
        "`KashinCorrelatedNoise`", lambda n, d: KashinCorrelatedNoise(n, Ball(d), *BUDGET), "ball"
    ),
    "kashin-sampled": Run(
        '`KashinCorrelatedNoise`, `sampling="auto"`',
        lambda n, d: KashinCorrelatedNoise(n, Ball(d), *BUDGET, sampling="auto"),
        "ball",
    ),
    "grid": Run(
        f"`SingleMessageGrid`, {FEW} coordinates",
        lambda n, _: SingleMessageGrid(n, Ball(FEW), *BUDGET),
        "few",
    ),
}
"""What is measured, by the name of the option."""


@dataclass(frozen=True)
class Measured:
    """One row of the table.

    Attributes
    ----------
    name : str
        Of `RUNS`.
    users, coordinates : int
        Of the vectors.
    making : float
        Seconds of the processor that it took to make the protocol.
    seconds, core_seconds : float
        Wall time, and processor time of all threads: the least of all runs.
    memory, data : int
        Bytes at most beyond what the process had before, and bytes of the vectors.
    """

    name: str
    users: int
    coordinates: int
    making: float
    seconds: float
    core_seconds: float
    memory: int
    data: int


def _vectors(kind: str, n: int, d: int) -> NDArray[Any]:
    rng = np.random.default_rng(0)
    if kind == "integers":
        return rng.integers(0, 2**16, (n, d), dtype=np.uint32)
    if kind == "box":
        return rng.random((n, d))
    if kind in ("signs", "categories"):
        few = np.zeros((n, d), dtype=np.int8)
        for row in few:
            places = rng.permutation(d)[: ENTRIES if kind == "signs" else 1]
            row[places] = rng.choice([-1, 1], ENTRIES) if kind == "signs" else 1
        return few
    x = rng.normal(size=(n, FEW if kind == "few" else d))
    return np.asarray(x / np.linalg.norm(x, axis=1, keepdims=True))


def _serve(name: str, n: int, d: int, values: Path, repeats: int, pipe: Connection) -> None:
    """Make a protocol, run it, and say what that took."""
    start = time.process_time()
    protocol = RUNS[name].make(n, d)
    making = time.process_time() - start
    x = np.load(values, mmap_mode="r")
    assert np.isfinite(x.ravel()[::512].max())  # its pages are read before memory is measured
    before, runs = bytes_of_process("VmRSS"), []
    for _ in range(repeats):
        wall, core = time.perf_counter(), time.process_time()
        protocol.run(x)
        runs.append((time.perf_counter() - wall, time.process_time() - core))
    memory = bytes_of_process("VmHWM") - before
    pipe.send((making, min(r[0] for r in runs), min(r[1] for r in runs), max(0, memory)))
    pipe.close()


def measured(name: str, n: int, d: int, repeats: int) -> Measured:
    """Return what runs of a protocol took, in a fresh process."""
    with tempfile.TemporaryDirectory(prefix="ikos-") as folder:
        x = _vectors(RUNS[name].data, n, d)
        (rows, columns), size = x.shape, x.nbytes
        values = Path(folder) / "values.npy"
        np.save(values, x)
        del x
        with fresh_process(_serve, name, n, d, values, repeats) as (pipe, _):
            took = pipe.recv()
    making, seconds, core_seconds, memory = took
    return Measured(name, rows, columns, making, seconds, core_seconds, memory, size)


def _table(rows: list[Measured]) -> str:
    header = ["protocol", "making it", "a run", "memory", "the data"]
    body = [
        (
            RUNS[row.name].name,
            f"{at_least(row.making, 2)} s",
            f"{at_least(row.core_seconds, 2)} s",
            f"{at_least(row.memory / 1e9, 2)} GB",
            f"{at_least(row.data / 1e9, 2)} GB",
        )
        for row in rows
    ]
    return markdown(header, body)


@program("", "--protocol collision --repeats 5", printed=True)
@click.option(
    "--protocol", type=click.Choice(list(RUNS)), multiple=True, help="Which; all of them."
)
@click.option("--repeats", type=Whole(1), default=3, help="Runs of each [3].")
def command(files: Files, protocol: tuple[str, ...], repeats: int, quick: bool) -> None:
    """Measure runs of vector protocols here: time and memory.

    Takes about half an hour, 3 GB of memory and 1 GB of disk. Linux only.
    """
    if not Path("/proc/self/status").exists():
        raise click.UsageError("memory is read from /proc, which this system does not have")
    n, d = (2000, 32) if quick else (USERS, DIMENSION)
    names = list(dict.fromkeys(protocol)) or list(RUNS)
    rows = []
    with steps("measuring", len(names)) as step:
        for name in names:
            rows.append(measured(name, n, d, 1 if quick else repeats))
            step()
    text = (
        f"{n:,} vectors of d = {d:,} coordinates, all parties in one process: processor time of "
        f"making\nthe protocol and of a run (the least of {1 if quick else repeats}), and memory "
        "beyond that of the data. Rounded up.\nMeasured on "
        f"{machine()}.\n\n{_table(rows)}"
    )
    files.report("vector-runs", text)
    columns: list[Any] = [field.name for field in fields(Measured)]
    files.text("vector-runs.csv", csv_text(columns, map(astuple, rows)))


if __name__ == "__main__":
    main(command)
