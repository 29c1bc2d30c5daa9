"""What mistakes of published code and of the papers would break, one check for each kind.

The mistakes are in `mutants.toml`, with this file as what must notice them. Statistical checks have
a proved false-alarm rate of at most 1e-9 (see `statistical`).
"""

from __future__ import annotations

import os
import threading
from collections import Counter
from fractions import Fraction
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from statistical import FALSE_ALARM, discrete_laplace_law, p_value_bound, uniform_p_value

from ikos import SecureSum, View
from ikos.primitives.modular import Zq
from ikos.primitives.randomness import (
    RandomSource,
    SecureRandom,
    secure,
)
from ikos.primitives.samplers import polya_population
from ikos.primitives.sharing import split
from ikos.primitives.shuffling import shuffle
from ikos.testing import DeterministicRandom

# Noise

RATE = Fraction(1, 20)


@pytest.mark.slow
def test_users_noise_adds_up_to_discrete_laplace() -> None:
    """150 000 groups of four users, each group's sum against the discrete Laplace law."""
    noise = polya_population(600_000, RATE, parties=4, rng=DeterministicRandom(200))
    totals = np.asarray(noise).reshape(-1, 4).sum(axis=1)
    assert discrete_laplace_law(float(RATE)).p_value(totals) > FALSE_ALARM


# Uniform elements


@pytest.mark.parametrize("q", [3 * 2**30, 3 * 2**62])
@pytest.mark.parametrize("rng", [DeterministicRandom(201), SecureRandom()], ids=["seed", "secure"])
@pytest.mark.points(4)
def test_elements_are_uniform_on_an_order_that_is_no_power_of_two(
    rng: RandomSource, q: int
) -> None:
    """The leading digit, where a remainder piles up what is above the last multiple of q, and the
    trailing one, which a double does not reach. q must be a multiple of 24.
    """
    values = [int(v) for v in rng.uniform(q, 60_000)]
    assert max(values) < q
    assert uniform_p_value([v * 24 // q for v in values], 24) > FALSE_ALARM
    assert uniform_p_value([v % 6 for v in values], 6) > FALSE_ALARM


def test_shares_take_every_value() -> None:
    """Each of three rows of shares against the uniform law on all of Z_q."""
    q, group = 5, Zq(5)
    for row in split(group.elements([1] * 60_000), group, 3, DeterministicRandom(202)):
        assert p_value_bound(np.bincount(row, minlength=q), np.full(q, 1 / q)) > FALSE_ALARM


# Permutations


class ShortKeys(DeterministicRandom):
    """Sort keys of two random bits, so that ties are common."""

    def fill(self, out: NDArray[Any]) -> None:
        super().fill(out)
        out &= out.dtype.type(3 << (8 * out.dtype.itemsize - 2))


@pytest.mark.slow
@pytest.mark.parametrize("source", [DeterministicRandom, ShortKeys])
def test_permutations_are_uniform(source: type[DeterministicRandom]) -> None:
    rng = source(203)
    orders = {order: i for i, order in enumerate(permutations(range(4)))}
    drawn = [orders[tuple(rng.permutation(4).tolist())] for _ in range(10_000)]
    assert uniform_p_value(drawn, 24) > FALSE_ALARM


# Shufflers


def shuffled(shares: NDArray[Any], order: str, rng: RandomSource) -> tuple[NDArray[Any], ...]:
    return shuffle(shares, shuffler="parallel", order=order, rng=rng)


def test_columns_do_not_add_up_to_the_inputs() -> None:
    """1000 inputs in Z_(2^64): a sum across hits one by chance with probability below 1e-13."""
    x = DeterministicRandom(204).uniform(2**64, 1000)
    shares = split(x, Zq(2**64), 4, DeterministicRandom(205))
    columns = shuffled(shares, "permuted", DeterministicRandom(206))
    across = np.sum(np.stack(columns), axis=0, dtype=np.uint64)
    assert not set(across.tolist()) & set(x.tolist())


def test_sorted_columns_hide_who_sent_what() -> None:
    shares = split(np.zeros(50, dtype=np.uint64), Zq(2**64), 4, DeterministicRandom(207))
    moved = np.stack([row[DeterministicRandom(208 + j).permutation(50)] for j, row in
                      enumerate(shares)])  # fmt: skip
    views = [shuffled(given, "sorted", DeterministicRandom(209)) for given in (shares, moved)]
    for one, other in zip(*views, strict=True):
        assert one.tolist() == other.tolist()


def test_permuted_columns_are_in_uniform_order() -> None:
    shares = np.arange(8, dtype=np.uint32).reshape(2, 4)
    orders = {order: i for i, order in enumerate(permutations(range(4)))}
    rng = DeterministicRandom(210)
    views = [shuffled(shares, "permuted", rng) for _ in range(4000)]
    for j in range(2):
        drawn = [orders[tuple((view[j] % 4).tolist())] for view in views]
        assert uniform_p_value(drawn, 24) > FALSE_ALARM


# Sums


def test_arithmetic_is_exact() -> None:
    """The extremes of groups below and above half of a word."""
    for q in (2**31 - 1, 2**32 - 5, 2**61 - 1, 2**63 + 29, 2**64 - 59):
        group = Zq(q)
        values = [q - 1, q - 1, 0, 1, q // 2, q - 2, 3] * 9
        other = [1, q - 1, q - 1, 2, q - 1, 1, 5] * 9
        a, b = group.elements(values), group.elements(other)
        assert group.sum(a) == sum(values) % q
        group.subtract(a, b)
        assert a.tolist() == [(v - w) % q for v, w in zip(values, other, strict=True)]


# The protocol


def test_sums_are_right() -> None:
    """A broken protocol's sum is right by chance, 1 in q, each time: 2^-122 for both."""
    q = 2**61 - 1
    for clear in (True, False):
        protocol = SecureSum(5, q, messages=4, clear_share=clear)
        rng = DeterministicRandom(211)
        x = [q - 1, 0, 1, q - 2, 12345]
        view = protocol.shuffle(protocol.share(x, rng), rng)
        assert protocol.analyze(view) == sum(x) % q


def test_incomplete_views_are_refused() -> None:
    protocol = SecureSum(5, 2**16, messages=3)
    view = protocol.shuffle(protocol.share([1, 2, 3, 4, 5]))
    assert view.clear is not None
    short = View((view.columns[0][:-1], *view.columns[1:]), view.clear)
    for broken in (short, View(view.columns[:-1], view.clear), View(view.columns, None)):
        with pytest.raises(ValueError, match="view"):
            protocol.analyze(broken)


# Streams


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_draws_differently() -> None:
    rng = SecureRandom()
    rng.bytes(1)
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.write(write_end, rng.bytes(32))
        finally:
            os._exit(0)
    os.waitpid(pid, 0)
    child = os.read(read_end, 32)
    os.close(read_end)
    os.close(write_end)
    assert len(child) == 32
    assert child != rng.bytes(32)


def test_threads_draw_differently() -> None:
    rng = SecureRandom()
    drawn: list[bytes] = []
    for _ in range(3):
        thread = threading.Thread(target=lambda: drawn.append(rng.bytes(32)))
        thread.start()
        thread.join()
    assert Counter(drawn).most_common(1)[0][1] == 1


# The secure default


def test_seedable_generators_are_refused_and_the_default_is_not_reproducible() -> None:
    for rng in (np.random.default_rng(0), 42):
        with pytest.raises(TypeError):
            secure(rng)  # type: ignore[arg-type]
    assert isinstance(secure(None), SecureRandom)
    assert secure(None).bytes(32) != secure(None).bytes(32)
