"""Ways to mix a column of messages, against the sort that the shufflers here use.

    python -m analysis.mixing_ways

prints nanoseconds of the processor for each message of 64 bits, on one thread, the least of several
runs. What a shuffler releases must be sorted, or in a uniformly random order; all ways but the last
two end with sorted messages. With ``--output`` it also writes ``mixing-ways.md``. The times are
this machine's of this moment.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import click
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array

from analysis.machine_rates import machine
from analysis.output import Files, main, markdown, plain_number, program, steps
from ikos.cli.types import Whole
from ikos.primitives.randomness import SecureRandom
from ikos.results.sums import at_least

Messages = NDArray[np.uint64]
SIZES = (10**6, 10**7)


def sorted_at_once(x: Messages) -> Messages:
    """Sort, as the library does."""
    return np.sort(x)


def in_parts(x: Messages, parts: int) -> Messages:
    """Move messages to the part of the column that they belong to, then sort each part."""
    moved = x.copy()
    pieces = [moved]
    while len(pieces) < parts:
        for piece in pieces:
            piece.partition(len(piece) // 2)
        pieces = [half for piece in pieces for half in np.split(piece, [len(piece) // 2])]
    for piece in pieces:
        piece.sort()
    return moved


def scattered(x: Messages, bits: int) -> Messages:
    """Put messages in the order of their first bits alone, by a conversion to rows of scipy."""
    rows = (x >> np.uint64(64 - bits)).astype(np.int32)
    there = np.arange(len(x), dtype=np.int32)
    return np.asarray(coo_array((x, (rows, there)), shape=(1 << bits, len(x))).tocsr().data)


def permuted(x: Messages) -> Messages:
    """Put messages in a uniformly random order, by secure randomness."""
    return np.asarray(x[SecureRandom().permutation(len(x))])


WAYS: Mapping[str, Callable[[Messages], Messages]] = {
    "`numpy.sort`": sorted_at_once,
    **{
        f"`numpy.partition` by values into {k} parts, then a sort of each": partial(
            in_parts, parts=k
        )
        for k in (4, 16, 64)
    },
    "scatter by the first 8 bits alone (`scipy.sparse`)": partial(scattered, bits=8),
    "a secure random permutation": permuted,
}
"""Every way by what the table calls it."""


def nanoseconds(way: Callable[[Messages], Messages], x: Messages, repeats: int) -> float:
    """Return the least processor time for a message, of several runs."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        way(x)
        times.append(time.process_time() - start)
    return 1e9 * min(times) / len(x)


def _table(sizes: Sequence[int], repeats: int) -> str:
    rows = []
    columns = [np.random.default_rng(n).integers(0, 2**64, n, dtype=np.uint64) for n in sizes]
    with steps("measuring", len(WAYS)) as step:
        for name, way in WAYS.items():
            found = [at_least(nanoseconds(way, x, repeats), 2) for x in columns]
            rows.append((name, *found))
            step()
    return markdown(("way", *(f"n = {plain_number(n)}" for n in sizes)), rows)


@program("", "--repeats 20", printed=True)
@click.option("--repeats", type=Whole(1), default=9, help="Runs of each [9].")
def command(files: Files, repeats: int, quick: bool) -> None:
    """Measure ways to mix a column of messages here.

    Takes half a minute, on one thread.
    """
    table = _table((10**4, 10**5) if quick else SIZES, repeats)
    text = (
        "Nanoseconds of the processor for a message of 64 bits, on one thread, the least of "
        f"{repeats} runs,\nrounded up. Measured on {machine()}.\n\n{table}"
    )
    files.report("mixing-ways", text)


if __name__ == "__main__":
    main(command)
