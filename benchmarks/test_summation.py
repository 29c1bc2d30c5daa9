"""End-to-end sums, their parts against their floors, and their memory."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from floors import add_up, keystream, sort_rows, take_off
from numpy.typing import NDArray

from ikos import PrivateSum, SecureSum
from ikos.primitives.concurrency import cores
from ikos.primitives.modular import Zq
from ikos.primitives.randomness import SecureRandom
from ikos.primitives.sharing import split
from ikos.primitives.shuffling import release

N, M = 10**6, 10
MODULI = [
    pytest.param(2**64, id="q=2^64"),
    pytest.param(2**61 - 1, id="q=2^61-1"),
    pytest.param(2**32, id="q=2^32"),
]


def values(q: int, n: int = N) -> NDArray[Any]:
    return SecureRandom().uniform(q, n)


def messages(q: int) -> NDArray[Any]:
    return np.stack([values(q) for _ in range(M)])


@pytest.mark.parametrize("q", MODULI)
def test_sharing_against_keystream(against: Callable[..., float], q: int) -> None:
    x, group, rng = values(q), Zq(q), SecureRandom()
    rows = np.zeros((M - 1, N), dtype=group.dtype)
    against(lambda: split(x, group, M, rng), lambda: keystream(rows))


@pytest.mark.parametrize("q", MODULI)
def test_shuffling_against_sort(against: Callable[..., float], q: int) -> None:
    original, rng = messages(q), SecureRandom()
    rows = original.copy()

    def target() -> None:
        for row in rows:
            release(row, "sorted", rng)

    against(target, lambda: sort_rows(rows), setup=lambda: np.copyto(rows, original))


@pytest.mark.parametrize("q", MODULI)
@pytest.mark.parametrize("shuffler", ["parallel", "single"])
def test_secure_sum_against_floors(against: Callable[..., float], q: int, shuffler: str) -> None:
    """The whole against keystream, sorts and one pass over messages of the same number."""
    x = values(q)
    protocol = SecureSum(N, q, messages=M, shuffler=shuffler, clear_share=False)
    rows = np.zeros((M, N), dtype=Zq(q).dtype)
    sorted_as = rows if shuffler == "parallel" else rows.reshape(1, -1)

    def floor() -> None:
        keystream(rows)  # uniform rows, to be sorted next
        sort_rows(sorted_as)
        add_up(rows)

    against(lambda: protocol.run(x), floor)


def floor_of(protocol: SecureSum, passes: str) -> Callable[[], object]:
    """Return the floor of a whole sum: keystream, a sort of what is shuffled, passes over all.

    Column by column, in the memory of two, new in each run as it is in a sum's: where the system
    has to find pages first, that is a good part of the time.

    Parameters
    ----------
    protocol : SecureSum
        Of which.
    passes : str
        The analyzer's addition alone, or the client's subtraction besides, which makes the shares
        add up: no protocol of shares can do without either.
    """
    count, dtype, n = protocol.messages, protocol.transport.group.dtype, protocol.n

    def floor() -> None:
        rows = np.empty((2, n), dtype=dtype)
        rows[-1] = 0
        for _ in range(count.shuffled):
            keystream(rows[0])  # uniform, to be sorted next
            if passes == "both":
                take_off(rows)
            sort_rows(rows[:1])
            add_up(rows[0])
        add_up(rows[-1])

    return floor


def sums(n: int, kind: str, messages: int = M) -> tuple[SecureSum, Callable[[int], object]]:
    """Return a sum's protocol, and what runs it on this many threads."""
    if kind == "private":
        private, x = PrivateSum(n, 1, 1e-12), np.random.default_rng(0).random(n)
        return private.transport, lambda threads: private.run(x, threads=threads)
    q = {"q=2^64": 2**64, "q=2^61-1": 2**61 - 1}[kind]
    secure, elements = SecureSum(n, q, messages=messages), values(q, n)
    return secure, lambda threads: secure.run(elements, threads=threads)


WHOLE = [
    pytest.param(n, kind, id=f"{kind}-n=10^{len(str(n)) - 1}")
    for n in (10**6, 10**7)
    for kind in ("private", "q=2^64", "q=2^61-1")
]


@pytest.mark.parametrize("passes", ["both", "addition"])
@pytest.mark.parametrize(("n", "kind"), WHOLE)
def test_whole_sum_on_one_core_against_floors(
    against: Callable[..., float], n: int, kind: str, passes: str
) -> None:
    protocol, run = sums(n, kind)
    against(lambda: run(1), floor_of(protocol, passes), rounds=9 if n == N else 5)


@pytest.mark.parametrize("columns", [3, 4, 5, 9])
@pytest.mark.parametrize("kind", ["q=2^64", "q=2^61-1"])
def test_columns_on_two_cores_against_one(
    against: Callable[..., float], kind: str, columns: int
) -> None:
    """The ratio's inverse is the speed-up: 0.5 would be all of it."""
    if cores() < 2:
        pytest.skip("there is one core")
    _, run = sums(10**7, kind, columns + 1)
    against(lambda: run(2), lambda: run(1), rounds=5)


@pytest.mark.parametrize("n", [10**6, 10**7])
def test_private_sum_on_two_cores_against_one(against: Callable[..., float], n: int) -> None:
    if cores() < 2:
        pytest.skip("there is one core")
    _, run = sums(n, "private")
    against(lambda: run(2), lambda: run(1), rounds=5)


@pytest.mark.parametrize("shuffler", ["parallel", "single"])
def test_memory_per_message(note: Callable[[str], None], shuffler: str) -> None:
    x = values(2**64)
    protocol = SecureSum(N, 2**64, messages=M, shuffler=shuffler, clear_share=False)
    tracemalloc.start()
    expected = protocol.run(x)
    run = tracemalloc.get_traced_memory()[1]
    tracemalloc.reset_peak()
    shares = protocol.share(x)
    view = protocol.shuffle(shares)
    assert protocol.analyze(view) == expected
    staged = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    copies = N * M * 8
    note(
        f"{run / N / M:.1f} bytes per message in run ({run / copies:.2f} copies), "
        f"{staged / copies:.2f} copies for share, shuffle and analyze with both kept"
    )
    assert run <= 2.5 * copies
    assert staged <= 2.5 * copies


def test_ten_million_users_in_blocks(benchmark: Any, note: Callable[[str], None]) -> None:
    n = 10**7
    x = values(2**64, n)
    protocol = SecureSum(n, 2**64, messages=M)
    benchmark.pedantic(lambda: protocol.run(x), rounds=3)
    tracemalloc.start()
    protocol.run(x)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    note(f"peak {peak / 2**20:.0f} MiB besides the input, {peak / (8 * n):.2f} columns of {M}")
    assert peak <= 4 * 8 * n
