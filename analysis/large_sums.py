"""What large sums take on this machine: time, memory, and what a second thread gains.

    python -m analysis.large_sums
    python -m analysis.large_sums --users 1e7 --threads 1 --threads 2 --repeats 5
    python -m analysis.large_sums --users 1e7 --threads 1 --workers 2

runs each sum in a fresh process, over values in a memory map, and prints the shortest of several
runs; and also what two processes at once, on one thread each, do of the work of one. With
``--workers`` it also runs each sum on this many workers of Dask, on values in memory, and says how
long these take to start. With ``--output`` it also writes ``large-sums.md`` and ``.csv``. The times
are this machine's of this moment, so that no two runs write the same bytes.
"""

from __future__ import annotations

import multiprocessing
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass, fields
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess as Process
from pathlib import Path
from typing import Any

import click
import numpy as np

from analysis.machine_rates import machine
from analysis.output import Files, csv_text, main, markdown, plain_number, program, steps
from ikos import PrivateSum, SecureSum
from ikos.cli.types import WHOLE, Whole
from ikos.primitives.concurrency import cores
from ikos.results.sums import at_least

KINDS = {
    "secure": "secure, q = 2^64, 8 messages",
    "private": "private, epsilon = 1, delta = 1e-12",
    "colluding": "the same, 2 shufflers may collude",
}
"""The sums, and what the table calls them."""

USERS = (10**7, 10**8)


def protocol(kind: str, users: int) -> SecureSum | PrivateSum:
    """Return the protocol of a kind of sum."""
    if kind == "secure":
        return SecureSum(users, 2**64, messages=8)
    return PrivateSum(users, 1, 1e-12, corrupt_shufflers=2 if kind == "colluding" else 0)


@dataclass(frozen=True)
class Measured:
    """One row of the table.

    Attributes
    ----------
    kind : str
        One of `KINDS`.
    users, shuffled, threads : int
        Of the sum; shuffled messages of each user, besides a clear share.
    seconds, core_seconds : float
        Wall time, and processor time of all threads: the least of all runs.
    memory : int
        Bytes at most beyond what the process had before, of all runs.
    speed_up : float
        Wall time on one thread by this.
    at_once : float
        What two processes at once did of the work of one; NaN where it was not measured.
    """

    kind: str
    users: int
    shuffled: int
    threads: int
    seconds: float
    core_seconds: float
    memory: int
    speed_up: float
    at_once: float


def bytes_of_process(name: str) -> int:
    """Return a number of bytes that Linux has about this process."""
    with open("/proc/self/status") as file:
        return next(1024 * int(line.split()[1]) for line in file if line.startswith(name + ":"))


def _serve(kind: str, users: int, values: Path, pipe: Connection) -> None:
    """Answer each number of threads with what a sum took."""
    sums, x = protocol(kind, users), np.load(values, mmap_mode="r")
    assert float(x[::512].min()) >= 0  # its pages are this process's before memory is measured
    before = bytes_of_process("VmRSS")
    pipe.send(sums.messages.shuffled)
    while threads := pipe.recv():
        wall, core = time.perf_counter(), time.process_time()
        sums.run(x, threads=threads)
        took = time.perf_counter() - wall, time.process_time() - core
        pipe.send((*took, bytes_of_process("VmHWM") - before))
    pipe.close()


@contextmanager
def fresh_process(serve: Callable[..., None], *work: Any) -> Iterator[tuple[Connection, Process]]:
    """Start a new process that calls ``serve`` with the work and a pipe; give the other end."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=serve, args=(*work, there), daemon=True)
    process.start()
    there.close()
    try:
        yield here, process
    finally:
        process.terminate()
        process.join()


@contextmanager
def _process(kind: str, users: int, values: Path) -> Iterator[tuple[Connection, int]]:
    """Start a process that runs sums; give its pipe and the number of its messages."""
    with fresh_process(_serve, kind, users, values) as (pipe, process):
        yield pipe, pipe.recv()
        pipe.send(0)
        process.join()


def _runs(pipes: Sequence[Connection], threads: int) -> float:
    """Run one sum in each of some processes, and return how long all of them took."""
    start = time.perf_counter()
    for pipe in pipes:
        pipe.send(threads)
    for pipe in pipes:
        pipe.recv()
    return time.perf_counter() - start


def _file(folder: Path, kind: str, users: int) -> Path:
    path = folder / f"{kind}.npy"
    dtype = np.uint64 if kind == "secure" else np.float64
    values = np.lib.format.open_memmap(path, mode="w+", dtype=dtype, shape=(users,))
    rng = np.random.default_rng(0)
    for start in range(0, users, 1 << 20):
        part = values[start : start + (1 << 20)]
        part[:] = rng.integers(0, 2**63, part.size) if kind == "secure" else rng.random(part.size)
    values.flush()
    return path


def measured(kind: str, users: int, threads: Sequence[int], repeats: int) -> Iterator[Measured]:
    """Yield what a sum takes, for each number of threads."""
    with tempfile.TemporaryDirectory(prefix="ikos-") as folder:
        values = _file(Path(folder), kind, users)
        first = 0.0
        for count in threads:
            with _process(kind, users, values) as (pipe, shuffled):
                runs = []
                for _ in range(repeats):
                    pipe.send(count)
                    runs.append(pipe.recv())
            seconds, core_seconds = min(run[0] for run in runs), min(run[1] for run in runs)
            first = first or seconds
            at_once = _two(kind, users, values, repeats) if count == 2 else float("nan")
            yield Measured(
                kind,
                users,
                shuffled,
                count,
                seconds,
                core_seconds,
                max(run[2] for run in runs),
                first / seconds,
                at_once,
            )


def _two(kind: str, users: int, values: Path, repeats: int) -> float:
    """Return what two processes at once do of the work of one."""
    with _process(kind, users, values) as (one, _), _process(kind, users, values) as (two, _):
        alone = min(_runs([one], 1) for _ in range(repeats))
        return 2 * alone / min(_runs([one, two], 1) for _ in range(repeats))


def on_workers(kind: str, users: int, workers: int, repeats: int) -> tuple[float, float]:
    """Return how long workers of Dask take to start, and the shortest of their sums."""
    from ikos.cluster import Cluster

    sums = protocol(kind, users)
    with tempfile.TemporaryDirectory(prefix="ikos-") as folder:
        x = np.load(_file(Path(folder), kind, users))
    start = time.perf_counter()
    with Cluster(workers=workers) as cluster:
        started, times = time.perf_counter() - start, []
        for _ in range(repeats):
            start = time.perf_counter()
            sums.run(x, cluster=cluster)
            times.append(time.perf_counter() - start)
    return started, min(times)


def _check_room(users: int, threads: int) -> None:
    """Refuse what does not fit on the disk or in the memory there is."""
    folder = tempfile.gettempdir()
    # eight bytes a user for each of these: the values, which are mapped, the last shares, and a
    # column that each thread draws; at least five where two processes measure at the same time
    with open("/proc/meminfo") as file:
        available = next(1024 * int(line.split()[1]) for line in file if "MemAvailable" in line)
    for what, needed, there in (
        (f"disk in {folder}", 8 * users, shutil.disk_usage(folder).free),
        ("memory", 8 * users * max(2 + threads, 5), available),
    ):
        if needed > there:
            raise click.UsageError(
                f"--users {users:,} needs {needed / 1e9:,.1f} GB of {what}, of which there are "
                f"{there / 1e9:,.1f}"
            )


def _table(rows: Sequence[Measured]) -> str:
    header = ["sum", "n", "messages", "threads", "wall time", "processor time", "memory"]
    body = [
        (
            KINDS[row.kind],
            plain_number(row.users),
            f"{row.shuffled} + 1",
            str(row.threads),
            f"{at_least(row.seconds, 2)} s",
            f"{at_least(row.core_seconds, 2)} s",
            f"{at_least(row.memory / 1e9, 2)} GB",
            f"{row.speed_up:.2f}",
            "–" if np.isnan(row.at_once) else f"{row.at_once:.2f}",
        )
        for row in rows
    ]
    return markdown([*header, "speed-up", "two processes"], body)


def _workers_table(found: Sequence[tuple[str, int, int, float, float]]) -> str:
    rows = [
        (KINDS[kind], plain_number(n), str(workers), f"{at_least(a, 2)} s", f"{at_least(b, 2)} s")
        for kind, n, workers, a, b in found
    ]
    return markdown(["sum", "n", "workers of Dask", "their start", "wall time"], rows)


@program("", "--users 1e7 --kind private --repeats 9", printed=True)
@click.option("--kind", type=click.Choice(list(KINDS)), multiple=True, help="Which; all of them.")
@click.option("--users", type=WHOLE, multiple=True, help="How many; 1e7 and 1e8.")
@click.option("--threads", type=Whole(1, 1024), multiple=True, help="Of a sum; 1 and all cores.")
@click.option("--repeats", type=Whole(1), default=3, help="Runs of each sum [3].")
@click.option("--workers", type=Whole(1, 1024), help="Of Dask, to run each sum on as well.")
def command(
    files: Files,
    kind: tuple[str, ...],
    users: tuple[int, ...],
    threads: tuple[int, ...],
    repeats: int,
    workers: int | None,
    quick: bool,
) -> None:
    """Measure large sums here: time, memory, and the speed-up of threads.

    Needs eight bytes of disk for each user, and 40 of memory for each: with more
    than three threads eight more a thread. Linux only.
    """
    if not Path("/proc/self/status").exists():
        raise click.UsageError("memory is read from /proc, which this system does not have")
    sizes = sorted(set(users)) or ([10**5] if quick else list(USERS))
    counts = list(dict.fromkeys(threads)) or sorted({1, cores()})
    kinds = list(dict.fromkeys(kind)) or list(KINDS)
    for which in kinds:
        for size in sizes:
            protocol(which, size)  # refuses what it must before anything is measured
    _check_room(sizes[-1], max(counts))
    rows: list[Measured] = []
    elsewhere: list[tuple[str, int, int, float, float]] = []
    runs = 1 if quick else repeats
    with steps("measuring", len(kinds) * len(sizes) * (len(counts) + bool(workers))) as step:
        for which in kinds:
            for size in sizes:
                for row in measured(which, size, counts, runs):
                    rows.append(row)
                    step()
                if workers:
                    took = on_workers(which, size, workers, runs)
                    elsewhere.append((which, size, workers, *took))
                    step()
    intro = f"Measured on {machine()}.\n"
    text = f"{intro}\n{_table(rows)}"
    if elsewhere:
        text += f"\n{_workers_table(elsewhere)}"
    files.report("large-sums", text)
    names: list[Any] = [field.name for field in fields(Measured)]
    files.text("large-sums.csv", csv_text(names, map(astuple, rows)))


if __name__ == "__main__":
    main(command)
