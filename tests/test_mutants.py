"""Known-bad variants: each check passes on the library and fails on the mutant that it names.

A suite that cannot fail proves nothing. The checks take the part under test as an argument; the
mutants are small subclasses or functions with one mistake each, all seen in published code or in
the papers. Statistical checks have a proved false-alarm rate of at most 1e-9 (see `statistical`).
"""

from __future__ import annotations

import math
import os
import threading
from collections import Counter
from collections.abc import Callable
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
    KEY_BYTES,
    NONCE_BYTES,
    Keystream,
    RandomSource,
    SecureRandom,
    secure,
)
from ikos.primitives.samplers import discrete_laplace, polya, polya_population
from ikos.primitives.sharing import split
from ikos.primitives.shuffling import release, shuffle
from ikos.testing import DeterministicRandom

# Noise

Population = Callable[[int, Fraction, int, RandomSource], Any]
RATE = Fraction(1, 20)


def check_users_noise_adds_up_to_discrete_laplace(population: Population) -> None:
    """150 000 groups of four users, each group's sum against the discrete Laplace law."""
    noise = population(600_000, RATE, 4, DeterministicRandom(200))
    totals = np.asarray(noise).reshape(-1, 4).sum(axis=1)
    assert discrete_laplace_law(float(RATE)).p_value(totals) > FALSE_ALARM


def of_population(n: int, s: Fraction, parties: int, rng: RandomSource) -> Any:
    return polya_population(n, s, parties=parties, rng=rng)


def of_single_users(n: int, s: Fraction, parties: int, rng: RandomSource) -> Any:
    shape = Fraction(1, parties)
    return polya(shape, s, n, rng) - polya(shape, s, n, rng)


def with_swapped_alpha(n: int, s: Fraction, parties: int, rng: RandomSource) -> Any:
    """1 - alpha for alpha: what happens when a library expects the other parameter."""
    return of_single_users(n, Fraction(-math.log(-math.expm1(-float(s)))), parties, rng)


def with_half_the_shape(n: int, s: Fraction, parties: int, rng: RandomSource) -> Any:
    """Polya(1/(2n)), as if the noise were one variable of shape 1/n."""
    return of_single_users(n, s, 2 * parties, rng)


def with_one_sign(n: int, s: Fraction, parties: int, rng: RandomSource) -> Any:
    return polya(Fraction(1, parties), s, n, rng)


def with_a_rate_five_per_cent_off(n: int, s: Fraction, parties: int, rng: RandomSource) -> Any:
    return of_single_users(n, s * Fraction(21, 20), parties, rng)


def with_independent_laplace_each(n: int, s: Fraction, parties: int, rng: RandomSource) -> Any:
    return discrete_laplace(s, n, rng)


@pytest.mark.parametrize("population", [of_population, of_single_users])
def test_noise_of_the_library_passes(population: Population) -> None:
    check_users_noise_adds_up_to_discrete_laplace(population)


@pytest.mark.parametrize(
    "mutant",
    [
        with_swapped_alpha,
        with_half_the_shape,
        with_one_sign,
        with_a_rate_five_per_cent_off,
        with_independent_laplace_each,
    ],
)
def test_wrong_noise_is_caught(mutant: Population) -> None:
    with pytest.raises(AssertionError):
        check_users_noise_adds_up_to_discrete_laplace(mutant)


# Uniform elements


def check_uniform_on_an_order_that_is_no_power_of_two(rng: RandomSource, q: int) -> None:
    """The leading digit, where a remainder piles up what is above the last multiple of q, and the
    trailing one, which a double does not reach. q must be a multiple of 24.
    """
    values = [int(v) for v in rng.uniform(q, 60_000)]
    assert max(values) < q
    assert uniform_p_value([v * 24 // q for v in values], 24) > FALSE_ALARM
    assert uniform_p_value([v % 6 for v in values], 6) > FALSE_ALARM


class BiasedModulo(DeterministicRandom):
    """A remainder in place of rejection."""

    def uniform_into(self, out: NDArray[Any], group: Zq) -> None:
        self.fill(out)
        out %= out.dtype.type(group.q)


class ScaledFloat(DeterministicRandom):
    """A double scaled to the range: 53 bits at best."""

    def uniform_into(self, out: NDArray[Any], group: Zq) -> None:
        words = np.empty(out.size, dtype=np.uint64)
        self.fill(words)
        out[:] = (words / 2.0**64 * group.q).astype(out.dtype)


class ExclusiveEnd(DeterministicRandom):
    """Never the value q - 1."""

    def uniform_into(self, out: NDArray[Any], group: Zq) -> None:
        super().uniform_into(out, Zq(group.q - 1))

    def family(self) -> Callable[[int], RandomSource]:
        seed = self.integer(1 << 64)
        return lambda number: type(self)((seed << 128) + number)


@pytest.mark.parametrize("q", [3 * 2**30, 3 * 2**62])
def test_uniform_elements_of_the_library_pass(q: int) -> None:
    check_uniform_on_an_order_that_is_no_power_of_two(DeterministicRandom(201), q)
    check_uniform_on_an_order_that_is_no_power_of_two(SecureRandom(), q)


@pytest.mark.parametrize(
    ("mutant", "q"),
    [(BiasedModulo, 3 * 2**30), (BiasedModulo, 3 * 2**62), (ScaledFloat, 3 * 2**62)],
)
def test_biased_elements_are_caught(mutant: type[DeterministicRandom], q: int) -> None:
    with pytest.raises(AssertionError):
        check_uniform_on_an_order_that_is_no_power_of_two(mutant(201), q)


def check_shares_take_every_value(rng: RandomSource, q: int) -> None:
    """Each of three rows of shares against the uniform law on all of Z_q."""
    group = Zq(q)
    for row in split(group.elements([1] * 60_000), group, 3, rng):
        assert p_value_bound(np.bincount(row, minlength=q), np.full(q, 1 / q)) > FALSE_ALARM


def test_shares_of_the_library_take_every_value() -> None:
    check_shares_take_every_value(DeterministicRandom(202), 5)


def test_shares_that_avoid_a_value_are_caught() -> None:
    with pytest.raises(AssertionError):
        check_shares_take_every_value(ExclusiveEnd(202), 5)


# Permutations


class ShortKeys(DeterministicRandom):
    """Sort keys of two random bits, so that ties are common."""

    def fill(self, out: NDArray[Any]) -> None:
        super().fill(out)
        out &= out.dtype.type(3 << (8 * out.dtype.itemsize - 2))


class TiesLeft(ShortKeys):
    """Ties stay in the order of the indices."""

    def _break_ties(self, order: NDArray[np.int64], keys: NDArray[np.uint64]) -> None:
        pass


class NaiveSwaps(DeterministicRandom):
    """Swaps each place with any other: the common wrong shuffle."""

    def permutation(self, n: int) -> NDArray[np.int64]:
        order = np.arange(n)
        for i in range(n):
            j = self.integer(n)
            order[i], order[j] = order[j], order[i]
        return order


def check_permutations_are_uniform(rng: RandomSource) -> None:
    orders = {order: i for i, order in enumerate(permutations(range(4)))}
    drawn = [orders[tuple(rng.permutation(4).tolist())] for _ in range(10_000)]
    assert uniform_p_value(drawn, 24) > FALSE_ALARM


@pytest.mark.parametrize("source", [DeterministicRandom, ShortKeys])
def test_permutations_of_the_library_are_uniform(source: type[DeterministicRandom]) -> None:
    check_permutations_are_uniform(source(203))


@pytest.mark.parametrize("mutant", [TiesLeft, NaiveSwaps])
def test_biased_permutations_are_caught(mutant: type[DeterministicRandom]) -> None:
    with pytest.raises(AssertionError):
        check_permutations_are_uniform(mutant(203))


# Shufflers

Shuffler = Callable[[NDArray[Any], str, RandomSource], View]


def by_the_library(shares: NDArray[Any], order: str, rng: RandomSource) -> View:
    return View(shuffle(shares, shuffler="parallel", order=order, rng=rng), None)


def with_one_permutation(shares: NDArray[Any], order: str, rng: RandomSource) -> View:
    """The same permutation for all shufflers: the columns' sums are then the inputs."""
    return View(tuple(shares[:, rng.permutation(shares.shape[1])]), None)


def with_an_unshuffled_column(shares: NDArray[Any], order: str, rng: RandomSource) -> View:
    columns = [release(row.copy(), order, rng) for row in shares[:-1]]
    return View((*columns, shares[-1].copy()), None)


def with_a_rotation(shares: NDArray[Any], order: str, rng: RandomSource) -> View:
    """Rotated by a random amount: neighbours stay neighbours."""
    n = shares.shape[1]
    return View(tuple(np.roll(row, rng.integer(n)) for row in shares), None)


def check_columns_do_not_add_up_to_the_inputs(shuffler: Shuffler) -> None:
    """1000 inputs in Z_(2^64): a sum across hits one by chance with probability below 1e-13."""
    x = DeterministicRandom(204).uniform(2**64, 1000)
    shares = split(x, Zq(2**64), 4, DeterministicRandom(205))
    view = shuffler(shares, "permuted", DeterministicRandom(206))
    across = np.sum(np.stack(view.columns), axis=0, dtype=np.uint64)
    assert not set(across.tolist()) & set(x.tolist())


def check_sorted_columns_hide_who_sent_what(shuffler: Shuffler) -> None:
    shares = split(np.zeros(50, dtype=np.uint64), Zq(2**64), 4, DeterministicRandom(207))
    moved = np.stack([row[DeterministicRandom(208 + j).permutation(50)] for j, row in
                      enumerate(shares)])  # fmt: skip
    views = [shuffler(given, "sorted", DeterministicRandom(209)) for given in (shares, moved)]
    for one, other in zip(views[0].columns, views[1].columns, strict=True):
        assert one.tolist() == other.tolist()


def check_permuted_columns_are_in_uniform_order(shuffler: Shuffler) -> None:
    shares = np.arange(8, dtype=np.uint32).reshape(2, 4)
    orders = {order: i for i, order in enumerate(permutations(range(4)))}
    rng = DeterministicRandom(210)
    views = [shuffler(shares, "permuted", rng) for _ in range(4000)]
    for j in range(2):
        drawn = [orders[tuple((view.columns[j] % 4).tolist())] for view in views]
        assert uniform_p_value(drawn, 24) > FALSE_ALARM


SHUFFLER_CHECKS = [
    check_columns_do_not_add_up_to_the_inputs,
    check_sorted_columns_hide_who_sent_what,
    check_permuted_columns_are_in_uniform_order,
]


@pytest.mark.parametrize("check", SHUFFLER_CHECKS)
def test_shufflers_of_the_library_pass(check: Callable[[Shuffler], None]) -> None:
    check(by_the_library)


@pytest.mark.parametrize(
    ("check", "mutant"),
    [
        (check_columns_do_not_add_up_to_the_inputs, with_one_permutation),
        (check_sorted_columns_hide_who_sent_what, with_an_unshuffled_column),
        (check_sorted_columns_hide_who_sent_what, with_one_permutation),
        (check_permuted_columns_are_in_uniform_order, with_an_unshuffled_column),
        (check_permuted_columns_are_in_uniform_order, with_a_rotation),
    ],
)
def test_leaking_shufflers_are_caught(check: Callable[[Shuffler], None], mutant: Shuffler) -> None:
    with pytest.raises(AssertionError):
        check(mutant)


# Sums


class Int64Sums(Zq):
    """Sums in numpy's default signed words."""

    def sum(self, a: NDArray[Any]) -> int:
        return int(a.astype(np.int64).sum()) % self.q


class WrappingSums(Zq):
    """Sums in unsigned words, right for powers of two alone."""

    def sum(self, a: NDArray[Any]) -> int:
        return int(a.astype(np.uint64).sum()) % self.q


class FloatSums(Zq):
    def sum(self, a: NDArray[Any]) -> int:
        return int(a.astype(np.float64).sum()) % self.q


class SmallDifferences(Zq):
    """The minimum of a difference and itself plus q, which is ambiguous near the word's size."""

    def subtract(self, a: NDArray[Any], b: NDArray[Any]) -> None:
        np.subtract(a, b, out=a)
        np.minimum(a, a + a.dtype.type(self.q % 2**64), out=a)


def check_arithmetic_is_exact(kind: type[Zq]) -> None:
    """The extremes of groups below and above half of a word."""
    for q in (2**31 - 1, 2**32 - 5, 2**61 - 1, 2**63 + 29, 2**64 - 59):
        group = kind(q)
        values = [q - 1, q - 1, 0, 1, q // 2, q - 2, 3] * 9
        other = [1, q - 1, q - 1, 2, q - 1, 1, 5] * 9
        a, b = group.elements(values), group.elements(other)
        assert group.sum(a) == sum(values) % q
        group.subtract(a, b)
        assert a.tolist() == [(v - w) % q for v, w in zip(values, other, strict=True)]


def test_arithmetic_of_the_library_is_exact() -> None:
    check_arithmetic_is_exact(Zq)


@pytest.mark.parametrize("mutant", [Int64Sums, WrappingSums, FloatSums, SmallDifferences])
def test_overflowing_arithmetic_is_caught(mutant: type[Zq]) -> None:
    with pytest.raises(AssertionError):
        check_arithmetic_is_exact(mutant)


# The protocol


class DroppedLastShare(SecureSum):
    """Adds up all shares but the last."""

    def analyze(self, view: View) -> int:
        if view.clear is None:
            return super().analyze(View((*view.columns[:-1], view.columns[-1] * 0), None))
        return super().analyze(View(view.columns, view.clear * 0))


class LostMessage(SecureSum):
    """One message of one user goes missing, and another takes its place."""

    def analyze(self, view: View) -> int:
        first = view.columns[0].copy()
        first[0] = first[1]
        return super().analyze(View((first, *view.columns[1:]), view.clear))


def check_sums_are_right(kind: type[SecureSum]) -> None:
    """A broken protocol's sum is right by chance, 1 in q, each time: 2^-122 for both."""
    q = 2**61 - 1
    for clear in (True, False):
        protocol = kind(5, q, messages=4, clear_share=clear)
        rng = DeterministicRandom(211)
        x = [q - 1, 0, 1, q - 2, 12345]
        view = protocol.shuffle(protocol.share(x, rng), rng)
        assert protocol.analyze(view) == sum(x) % q


def test_sums_of_the_library_are_right() -> None:
    check_sums_are_right(SecureSum)


@pytest.mark.parametrize("mutant", [DroppedLastShare, LostMessage])
def test_missing_shares_are_caught(mutant: type[SecureSum]) -> None:
    with pytest.raises(AssertionError):
        check_sums_are_right(mutant)


def check_incomplete_views_are_refused(kind: type[SecureSum]) -> None:
    protocol = kind(5, 2**16, messages=3)
    view = protocol.shuffle(protocol.share([1, 2, 3, 4, 5]))
    assert view.clear is not None
    short = View((view.columns[0][:-1], *view.columns[1:]), view.clear)
    for broken in (short, View(view.columns[:-1], view.clear), View(view.columns, None)):
        refused = False
        try:
            protocol.analyze(broken)
        except ValueError:
            refused = True
        assert refused


class UncheckedCounts(SecureSum):
    def analyze(self, view: View) -> int:
        parts = [*view.columns, *([] if view.clear is None else [view.clear])]
        return sum(self.group.sum(part) for part in parts) % self.q


def test_incomplete_views_are_refused_by_the_library() -> None:
    check_incomplete_views_are_refused(SecureSum)


def test_sums_of_incomplete_views_are_caught() -> None:
    with pytest.raises(AssertionError):
        check_incomplete_views_are_refused(UncheckedCounts)


# Streams


class SurvivesFork(SecureRandom):
    """One keystream for good, whoever draws from it."""

    def __init__(self) -> None:
        super().__init__()
        self._only = Keystream(lambda: os.urandom(KEY_BYTES + NONCE_BYTES))

    def _stream(self) -> Keystream:
        return self._only


class SharedSeed(SecureRandom):
    """A keystream for each thread, all from one seed."""

    def __init__(self) -> None:
        super().__init__()
        self._seed = os.urandom(KEY_BYTES + NONCE_BYTES)

    def _stream(self) -> Keystream:
        if not hasattr(self._local, "stream"):
            self._local.stream = Keystream(lambda: self._seed)
        stream: Keystream = self._local.stream
        return stream


def check_fork_draws_differently(rng: SecureRandom) -> None:
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


def check_threads_draw_differently(rng: SecureRandom) -> None:
    drawn: list[bytes] = []
    for _ in range(3):
        thread = threading.Thread(target=lambda: drawn.append(rng.bytes(32)))
        thread.start()
        thread.join()
    assert Counter(drawn).most_common(1)[0][1] == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_stream_that_survives_a_fork_is_caught() -> None:
    check_fork_draws_differently(SecureRandom())
    with pytest.raises(AssertionError):
        check_fork_draws_differently(SurvivesFork())


def test_threads_on_one_seed_are_caught() -> None:
    check_threads_draw_differently(SecureRandom())
    with pytest.raises(AssertionError):
        check_threads_draw_differently(SharedSeed())


# The secure default


def check_seedable_generators_are_refused(accept: Callable[[Any], Any]) -> None:
    for rng in (np.random.default_rng(0), 42):
        refused = False
        try:
            accept(rng)
        except TypeError:
            refused = True
        assert refused


def check_default_is_not_reproducible(accept: Callable[[Any], RandomSource]) -> None:
    assert isinstance(accept(None), SecureRandom)
    assert accept(None).bytes(32) != accept(None).bytes(32)


def lenient(rng: Any) -> Any:
    """Takes whatever it is given."""
    return SecureRandom() if rng is None else rng


def seeded_by_default(rng: Any) -> RandomSource:
    return DeterministicRandom(0) if rng is None else secure(rng)


def test_a_seedable_generator_in_place_of_the_secure_one_is_caught() -> None:
    check_seedable_generators_are_refused(secure)
    check_default_is_not_reproducible(secure)
    with pytest.raises(AssertionError):
        check_seedable_generators_are_refused(lenient)
    with pytest.raises(AssertionError):
        check_default_is_not_reproducible(seeded_by_default)
