"""Values from lists, arrays, memory maps and iterators: one and the same sum."""

from __future__ import annotations

import re
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ikos import PrivateSum, SecureSum
from ikos.data import reading
from ikos.data.reading import Reader
from ikos.data.tables import open_column
from ikos.primitives import sharing
from ikos.primitives.concurrency import Interrupted
from ikos.primitives.mixing import Encoder
from ikos.primitives.modular import blocks
from ikos.primitives.randomness import RandomSource
from ikos.primitives.samplers import polya_shares
from ikos.results.conditions import SEEDED
from ikos.testing import DeterministicRandom
from ikos.transports import shares as transport

N = 1000
VALUES = np.random.default_rng(0).uniform(-2, 3, N)


@cache
def private() -> PrivateSum:
    return PrivateSum(N, 1, 1e-6, lower=-2, upper=3, analysis="second_moment")


def cut(x: Any, sizes: list[int]) -> Iterator[Any]:
    """Yield x in pieces of the sizes, and then the rest."""
    start = 0
    for size in sizes:
        yield x[start : start + size]
        start += size
    yield x[start:]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make users come in blocks of 64."""
    for module in (sharing, reading, transport):
        monkeypatch.setattr(module, "USERS_PER_SOURCE", 64)


# The same, however they come


def test_blocks_of_different_types_keep_every_digit() -> None:
    """Joined first, int64 and uint64 would be rounded to doubles."""
    protocol = SecureSum(4, 2**64, messages=3)
    large = np.array([2**64 - 1, 2**63 + 1], dtype=np.uint64)
    small = np.array([5, 7], dtype=np.int64)
    assert protocol.run(iter([small, large])) == (2**63 + 12) % 2**64
    wide = SecureSum(3, 2**100, messages=3)
    assert wide.run(iter([[2**99], small])) == 2**99 + 12


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("size", [10, 64, 250])
def test_an_iterator_may_write_all_of_its_blocks_to_the_same_memory(
    threads: int, size: int
) -> None:
    def blocks() -> Iterator[NDArray[np.float64]]:
        memory = np.empty(size)
        for start in range(0, N, size):
            some = memory[: min(size, N - start)]
            some[:] = VALUES[start : start + size]
            yield some
        memory[:] = -2

    expected = private().run(VALUES, DeterministicRandom(5))
    assert private().run(blocks(), DeterministicRandom(5), threads=threads) == expected


def gathered(reader: Reader, x: Any, rng: RandomSource) -> NDArray[Any]:
    """Return the elements that users share of their numbers."""
    elements = reader.read(x).numbers(rng)
    if not isinstance(elements, Encoder):
        return elements
    column = np.empty(elements.users, dtype=reader.ring.dtype)
    for number, part in enumerate(blocks(elements.users, reading.USERS_PER_SOURCE)):
        elements.write(number, part, column[part])
    return column


def changing(reader: Reader, memory: NDArray[Any], bad: Any) -> Reader:
    """Return a reader whose caller makes values bad as soon as they were looked at."""

    class Changing(Reader):
        def checked(self, x: Any, first: int = 0) -> NDArray[Any]:
            values = super().checked(x, first)
            memory[:] = bad
            return values

    return Changing(**{field.name: getattr(reader, field.name) for field in fields(reader)})


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("bad", [np.nan, 1e9, -3.0])
@pytest.mark.parametrize("by_blocks", [False, True])
def test_what_was_looked_at_is_what_is_used(bad: float, by_blocks: bool) -> None:
    """Whoever writes to a shared memory map in the middle must not get beyond the bounds."""
    memory = VALUES[:64].copy()
    protocol = PrivateSum(64, 1, 1e-6, lower=-2, upper=3)
    x = iter([memory]) if by_blocks else memory
    reader = protocol.reader
    expected = gathered(reader, VALUES[:64], DeterministicRandom(1))
    assert (gathered(changing(reader, memory, bad), x, DeterministicRandom(1)) == expected).all()
    assert not (memory == VALUES[:64]).all()


@pytest.mark.usefixtures("small")
def test_elements_that_need_no_conversion_are_copied_too() -> None:
    memory = np.arange(64, dtype=np.uint32)
    reader = changing(SecureSum(64, 1009).reader, memory, 2000)
    assert (gathered(reader, memory, DeterministicRandom(1)) == np.arange(64)).all()
    assert (memory == 2000).all()


# Randomness


@pytest.mark.usefixtures("small")
def test_blocks_of_users_draw_apart() -> None:
    """Two blocks of the same values, rounded at random; alike with probability 2^-64.

    Noise that is not 0 has probability 1e-6.
    """
    reader = PrivateSum(128, 15, 1e-6, precision=1).reader
    elements = gathered(reader, np.full(128, 0.5), DeterministicRandom(3))
    assert (elements[:64] != elements[64:]).any()


@pytest.mark.slow
@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("honest", [32, 64, 150, 300])
def test_noise_is_drawn_for_as_many_blocks_as_one_variable_serves(honest: int) -> None:
    """One run of blocks after the other, each from its own source."""
    protocol = PrivateSum(300, 0.1, 1e-6, upper=9, integers=True, min_honest=honest)
    found = gathered(protocol.reader, np.zeros(300), DeterministicRandom(6))
    streams, size = DeterministicRandom(6).streams(), max(1, honest // 64) * 64
    expected = np.zeros(300, dtype=np.int64)
    for run, first in enumerate(range(0, 300, size)):
        wanted = size if size > 64 else min(64, 300 - first)
        users, noise = polya_shares(wanted, protocol.noise.rate, honest, streams((1 << 64) + run))
        here = users < 300 - first
        expected[first + users[here]] = noise[here]
    assert expected.any()
    assert (found == expected % protocol.modulus).all()


def test_a_seeded_run_is_void() -> None:
    guarantee = private().run(VALUES, DeterministicRandom(5)).guarantee
    assert guarantee.conditions == (SEEDED, *private().guarantee.conditions)


# Refusals


@pytest.mark.slow
@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("place", [0, 64, 999])
@pytest.mark.parametrize(
    "form", [lambda x: x, list, lambda x: cut(x, [300, 1, 64]), lambda x: iter([list(x)])]
)
def test_a_bad_value_is_named_wherever_it_is(
    place: int, form: Callable[[NDArray[Any]], Any]
) -> None:
    bad = VALUES.copy()
    bad[place] = 3.5
    with pytest.raises(ValueError, match=rf"x\[{place}\] must be in \[-2, 3\]$"):
        private().run(form(bad))
    bad[place] = np.nan
    with pytest.raises(ValueError, match=rf"x\[{place}\] must be in"):
        private().run(form(bad))
    whole = np.arange(N)
    whole[place] = 2**20
    with pytest.raises(ValueError, match=rf"x\[{place}\] must be in \[0, q\)"):
        SecureSum(N, 2**20, messages=3).run(form(whole))
    halves = np.zeros(N)
    halves[place] = 0.5
    with pytest.raises(ValueError, match=rf"x\[{place}\] must be an integer"):
        PrivateSum(N, 1, 1e-6, upper=3, integers=True).run(form(halves))


@pytest.mark.parametrize(
    ("x", "error", "said"),
    [
        (lambda: iter([["a"] * N]), TypeError, r"x\[0\] must be a float, .* got str"),
        (lambda: iter([np.zeros((N, 1))]), ValueError, "x must be one-dimensional"),
        (lambda: (v for v in VALUES), ValueError, "x must be one-dimensional"),
        (lambda: iter(["ab"]), TypeError, "x must be an array, got str"),
        (lambda: np.zeros((N, 1)), ValueError, r"x must be one-dimensional, got shape \(1000, 1\)"),
        (lambda: 5, ValueError, "x must be one-dimensional"),
        (lambda: np.ma.masked_less(VALUES, 0), ValueError, "x must not hold masked values"),
        (lambda: iter([np.ma.masked_less(VALUES, 0)]), ValueError, "must not hold masked values"),
    ],
)
def test_what_is_no_column_is_refused(x: Any, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        private().run(x())


def test_a_dask_collection_is_not_gathered_here() -> None:
    array = pytest.importorskip("dask.array", reason="Dask is not installed")
    with pytest.raises(TypeError, match="pass cluster= to run on Dask workers"):
        private().run(array.from_array(VALUES, chunks=100))


def test_threads_are_not_for_a_cluster() -> None:
    with pytest.raises(ValueError, match="threads must be None with cluster=, got 2"):
        private().run(VALUES, threads=2, cluster=object())  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"cluster must be an ikos\.cluster\.Cluster, got 'x'"):
        private().run(VALUES, cluster="x")


def test_an_error_of_the_iterator_comes_out_as_it_is() -> None:
    def broken() -> Iterator[NDArray[np.float64]]:
        yield VALUES[:300]
        raise OSError("the disk is gone")

    for threads in (1, 2):
        with pytest.raises(OSError, match="the disk is gone"):
            private().run(broken(), threads=threads)


@pytest.mark.parametrize("threads", [1, 2])
def test_an_interruption_while_values_are_read_releases_nothing(threads: int) -> None:
    def stopped() -> Iterator[NDArray[np.float64]]:
        yield VALUES[:300]
        raise KeyboardInterrupt

    with pytest.raises(Interrupted, match="interrupted while values were read"):
        private().run(stopped(), threads=threads)


# Memory


def test_an_iterator_is_read_as_it_is_needed() -> None:
    """A million values made a few at a time: their elements and one column, and little else."""
    n, step = 1 << 20, 1 << 14
    protocol = SecureSum(n, 2**32, messages=8)
    tracemalloc.start()
    made = (np.arange(start, start + step) for start in range(0, n, step))
    assert protocol.run(made, threads=1) == n * (n - 1) // 2 % 2**32
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 3.5 * 4 * n  # of four bytes each: parts and whole, or whole and a column


@pytest.mark.parametrize("cuts", [1, 2])
def test_long_blocks_of_an_iterator_are_held_twice_at_most(cuts: int) -> None:
    n = 1 << 20
    values = np.arange(n, dtype=np.uint64)
    protocol = SecureSum(n, 2**64, messages=3)
    tracemalloc.start()
    assert protocol.run(iter(np.split(values, cuts)), threads=1) == n * (n - 1) // 2
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2.8 * 8 * n  # a column, another, and what is drawn of 2^18 users each


def test_blocks_of_users_are_copies() -> None:
    """What a transport is given is what was looked at, whoever writes to the memory."""
    x = np.arange(4, dtype=np.uint32)
    for values in (x, iter([x[:1], x[1:]])):
        for block in SecureSum(4, 1009, messages=2).reader.read(values).blocks(3):
            assert not np.shares_memory(block, x)


def test_an_iterator_without_end_is_refused() -> None:
    """As soon as there are too many users."""
    read = []

    def endless() -> Iterator[NDArray[np.int64]]:
        while True:
            read.append(1)
            yield np.zeros(400, dtype=np.int64)

    with pytest.raises(
        ValueError, match="x must hold one value for each of the n = 1000 users, got at least 1200"
    ):
        SecureSum(1000, 2**64, messages=3).run(endless())
    assert len(read) == 3


def test_a_column_of_a_table_is_read_block_by_block(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("age\n1\n2\n3\n")
    protocol = PrivateSum(3, 1, 0.5, lower=0, upper=4, integers=True)
    assert protocol.run(open_column(tmp_path / "a.csv", "age")).users == 3


@pytest.mark.parametrize(
    ("bad", "integers", "said"),
    [
        ("9", False, "which must be in [0, 4]"),
        ("2.5", True, "which must be an integer"),
    ],
)
def test_a_bad_row_of_a_table_is_named_with_its_file(
    tmp_path: Path, bad: str, integers: bool, said: str
) -> None:
    (tmp_path / "a.csv").write_text("age\n1\n2\n3\n")
    (tmp_path / "b.csv").write_text(f"age\n1\n{bad}\n3\n")
    protocol = PrivateSum(6, 1, 0.5, lower=0, upper=4, integers=integers)
    column = open_column(tmp_path, "age")
    where = f"{str(tmp_path / 'b.csv')!r}: row 2 has a value in column 'age', "
    for steps in (protocol.run, protocol.randomize):
        with pytest.raises(
            ValueError,
            match=re.escape(where + said),
        ):
            steps(column)


def test_too_few_rows_of_a_table_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("age\n1\n2\n3\n")
    with pytest.raises(
        ValueError, match="x must hold one value for each of the n = 4 users, got 3"
    ):
        PrivateSum(4, 1, 0.5, lower=0, upper=4).run(open_column(tmp_path / "a.csv", "age"))
