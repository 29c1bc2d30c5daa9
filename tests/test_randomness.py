"""Secure randomness: exact laws, the keystream itself, and streams that never meet.

Statistical tests have a proved false-alarm rate of at most 1e-9 each (see `statistical`).
"""

from __future__ import annotations

import copy
import hashlib
import math
import os
import pickle
import random
import sys
import threading
import time
from collections.abc import Callable
from fractions import Fraction
from itertools import permutations, product
from types import FrameType
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from exact.enumeration import Script, Words, exact_law, words
from numpy.typing import NDArray
from scipy.stats import hypergeom
from statistical import FALSE_ALARM, p_value_bound, uniform_p_value

import ikos.primitives.randomness
from ikos.primitives.modular import BLOCK, Zq
from ikos.primitives.randomness import (
    KEY_BYTES,
    NONCE_BYTES,
    Keystream,
    RandomSource,
    SecureRandom,
    secure,
)
from ikos.testing import DeterministicRandom

forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
# Newer Pythons warn of a fork while threads run; the tests' threads have ended by then.
quiet_fork = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


@pytest.fixture(name="rng", params=[SecureRandom, lambda: DeterministicRandom(20)])
def fixture_rng(request: pytest.FixtureRequest) -> RandomSource:
    """Return the secure source, then the reproducible one."""
    source: RandomSource = request.param()
    return source


# Uniform elements


@pytest.mark.parametrize("q", [2, 4, 8])
def test_uniform_elements_are_exactly_uniform_by_enumeration_of_the_words(q: int) -> None:
    law, unfinished = exact_law(
        lambda rng: tuple(int(v) for v in rng.uniform(q, 2)), words(q.bit_length() - 1, 1)
    )
    assert len(law) == q * q
    assert len(set(law.values())) == 1
    assert unfinished == 0


class Played(RandomSource):
    """Gives these words, and leaves what is to be drawn again at the largest word."""

    def __init__(self, *played: NDArray[Any]) -> None:
        self.played = list(played)

    def _read_into(self, out: memoryview) -> None:
        out[:] = self.played.pop(0).data.cast("B")

    def uniform_into(self, out: NDArray[Any], group: Zq) -> None:
        if self.played:
            super().uniform_into(out, group)
        else:
            out[:] = np.iinfo(out.dtype).max


@pytest.mark.parametrize(
    "q",
    [
        2**10 - 1, 2**24 - 1, 2**28 + 1, 2**31 + 11, 2**33 - 1, 2**60 - 1, 2**60 + 1, 2**61 + 15,
        2**63 + 1, 2**64 - 2**57,
    ],
)  # fmt: skip
def test_elements_with_the_same_low_bits_are_equally_likely(q: int) -> None:
    """For all values of 16 bits that give the leading digit, and for low bits at their ends.

    The other bits of a word do not matter.
    """
    group = Zq(q)
    width, low = 8 * group.dtype.itemsize, group.bits - 9
    digits, rest = -(-q >> low), q % (1 << low)
    every, other = np.arange(1 << 16), SecureRandom().uniform(1 << width, 1 << 16)
    for bits in {0, (1 << low) // 3, rest - 1, rest, (1 << low) - 1} - {-1}:
        fixed = np.full(1 << 16, bits, dtype=group.dtype)
        if digits == 1 << group.bits - low:  # one word, masked
            extra = []
            first = ((every % digits).astype(group.dtype) << low) | fixed
            first |= (other >> group.bits - 1) >> 1 << group.bits - 1 << 1
        else:  # 16 bits of their own
            extra = [every.astype(np.uint16)]
            first = fixed | (other >> low << low)
        out = np.empty(1 << 16, dtype=group.dtype)
        Played(first.astype(group.dtype), *extra).uniform_into(out, group)
        seen = {int(v): int(k) for v, k in zip(*np.unique(out, return_counts=True), strict=True)}
        rejected = seen.pop(int(np.iinfo(out.dtype).max), 0)
        assert sorted(seen) == list(range(bits, q, 1 << low))
        assert len(set(seen.values())) == 1
        assert rejected <= (1 << 16) * (1 / 128 + 1 / digits) + 1


@pytest.mark.parametrize(
    "q",
    [3, 97, 129, 255, 257, 3 * 2**15, 2**20 + 7, 2**33 + 1, 2**40 + 2**39 + 5, 2**64 // 17 + 1],
)
def test_as_many_words_have_each_quotient(q: int) -> None:
    """The first and the last of them do, and quotients increase; few words are beyond the last."""
    group = Zq(q)
    words = 1 << 8 * group.dtype.itemsize
    each = words // q
    elements = np.array([0, 1, q // 3, q - 2, q - 1], dtype=group.dtype)
    firsts = elements * group.dtype.type(each)
    played = np.concatenate([firsts, firsts + group.dtype.type(each - 1)])
    beyond = np.array([q * each, words - 1] * (q * each < words), dtype=group.dtype)
    out = np.empty(played.size + beyond.size, dtype=group.dtype)
    Played(np.concatenate([played, beyond])).uniform_into(out, group)
    assert out.tolist() == [*elements.tolist() * 2, *[words - 1] * beyond.size]
    assert 16 * (words - q * each) <= words


@pytest.mark.parametrize("q", [2**31 + 11, 2**64 // 17 + 1])
def test_what_is_rejected_is_drawn_again_where_it_was(q: int) -> None:
    """In each block of 2^20 bytes, where some elements are rejected but with probability 1e-300."""
    drawn = DeterministicRandom(24).uniform(q, 2**19 + 5)
    assert drawn.max() < q
    assert np.unique(drawn[-5:]).size > 1


class Numbered(Played):
    """Draws 1, 2, 3, ... in place of rejected elements."""

    drawn = 0

    def uniform_into(self, out: NDArray[Any], group: Zq) -> None:
        if out.size > 10:
            RandomSource.uniform_into(self, out, group)
        else:
            out[:] = np.arange(out.size) + self.drawn + 1
            self.drawn += out.size


def test_each_rejected_element_gets_one_of_its_own() -> None:
    """Drawn ahead for three blocks, and anew for one that needs more than are left."""
    words = np.zeros((3, 1 << 18), dtype=np.uint32)
    words[0, [3, 5]] = words[1, [0, 7, 9]] = words[2, [1, 2]] = 2**32 - 1
    out = np.empty(words.size, dtype=np.uint32)
    Numbered(*words).uniform_into(out, Zq(97))
    assert np.flatnonzero(out).tolist() == np.flatnonzero(words).tolist()
    assert out[out > 0].tolist() == [1, 2, 3, 4, 5, 7, 8]


BIG = {
    "2^32+15": 2**32 + 15,
    "2^64-59": 2**64 - 59,
    "2^64+13": 2**64 + 13,
    "2^521-1": 2**521 - 1,
}


@pytest.mark.parametrize("q", BIG.values(), ids=BIG.keys())
def test_uniform_on_big_groups_is_uniform_in_its_leading_and_its_trailing_digits(q: int) -> None:
    """Buckets hold q/60 elements each up to one, which shifts no probability by over 2^-24."""
    drawn = DeterministicRandom(21).uniform(q, 60_000)
    values = [int(v) for v in drawn]
    assert max(values) < q
    assert uniform_p_value([v * 60 // q for v in values], 60) > FALSE_ALARM
    assert uniform_p_value([v % 60 for v in values], 60) > FALSE_ALARM


@pytest.mark.parametrize("q", [3, 3 * 2**62])
def test_neighbouring_elements_are_independent(q: int) -> None:
    """Pairs of leading digits; rejection must not tie an element to the one before it."""
    digits = (DeterministicRandom(22).uniform(q, 100_000).astype(object) * 3 // q).astype(int)
    pair = 3 * digits[:-1:2] + digits[1::2]
    p = [len([v for v in range(q) if v * 3 // q == d]) / q if q < 9 else 1 / 3 for d in range(3)]
    assert p_value_bound(np.bincount(pair, minlength=9), np.outer(p, p).ravel()) > FALSE_ALARM


@pytest.mark.parametrize("q", [2**16 + 1, 2**33 - 9, 2**64])
def test_uniform_into_writes_every_element_across_blocks(q: int) -> None:
    """An element is 0 in 60 fills with probability q^-60, one of them below 1e-280."""
    size = 2 * BLOCK + 3
    rng, group = DeterministicRandom(23), Zq(q)
    seen = np.zeros(size, dtype=group.dtype)
    for _ in range(60):
        out = np.zeros(size, dtype=group.dtype)
        rng.uniform_into(out, group)
        assert group.contains(out)
        seen |= out
    assert (seen > 0).all()


# Single integers, Bernoulli


@pytest.mark.parametrize("bound", [1, 2, 3, 5, 16, 17])
def test_integer_is_exactly_uniform_by_enumeration_of_the_bytes(bound: int) -> None:
    bits = (bound - 1).bit_length()
    law, unfinished = exact_law(lambda rng: rng.integer(bound), words(bits, 3))
    assert sorted(law) == list(range(bound))
    assert len(set(law.values())) == 1
    assert unfinished == (1 - Fraction(bound, 2**bits)) ** 3


@pytest.mark.parametrize("p", [Fraction(1, 3), 0, 1, 0.25, Fraction(15, 16)])
def test_bernoulli_has_exactly_its_probability(p: Fraction | int | float) -> None:
    bits = (Fraction(p).denominator - 1).bit_length()
    law, unfinished = exact_law(lambda rng: rng.bernoulli(p), words(bits, 2))
    assert law.get(True, Fraction(0)) == Fraction(p) * (1 - unfinished)


def test_bernoulli_of_a_float_uses_its_exact_value() -> None:
    """0.1 is a fraction over 2^55: accepted exactly below its numerator."""

    class Fixed(DeterministicRandom):
        def integer(self, bound: int) -> int:
            assert bound == 2**55
            return self.value

        value = 0

    rng = Fixed(0)
    rng.value = Fraction(0.1).numerator - 1
    assert rng.bernoulli(0.1)
    rng.value += 1
    assert not rng.bernoulli(0.1)


# Integers below many bounds


def test_below_is_exactly_uniform_by_enumeration_of_the_words() -> None:
    """Each entry under its own bound, and the entries independent."""
    bounds = np.array([1, 2, 3])
    law, _ = exact_law(lambda rng: tuple(rng.below(bounds)), words(2, 3))
    assert len(law) == 6
    assert len(set(law.values())) == 1


def test_below_fits_the_uniform_law_for_each_of_many_bounds() -> None:
    kinds = np.array([1, 2, 3, 5, 8, 9, 3 * 2**40, 2**62 + 1, 2**63 - 1])
    bounds = np.tile(kinds, 20_000)
    drawn = DeterministicRandom(26).below(bounds).reshape(-1, kinds.size)
    for column, bound in zip(drawn.T, (int(k) for k in kinds), strict=True):
        assert column.min() >= 0
        if bound < 10:
            assert uniform_p_value(column, bound) > FALSE_ALARM
        else:
            assert column.max() < bound
            lead = [int(v) * 48 // bound for v in column]
            assert uniform_p_value(lead, 48) > FALSE_ALARM
            assert uniform_p_value(column % 6, 6) > FALSE_ALARM


# Permutations


class ShortKeys(DeterministicRandom):
    """Sort keys with three random bits, so that most permutations have ties to break."""

    def fill(self, out: NDArray[Any]) -> None:
        super().fill(out)
        out &= out.dtype.type(7 << (8 * out.dtype.itemsize - 3))


@pytest.mark.parametrize(("n", "bits", "draws"), [(2, 1, 4), (3, 2, 2)])
def test_permutation_with_ties_is_exactly_uniform_by_enumeration_of_the_keys(
    n: int, bits: int, draws: int
) -> None:
    """However many draws the ties take, every order is equally likely."""
    for rounds in range(1, draws + 1):
        law, unfinished = exact_law(
            lambda rng: tuple(rng.permutation(n)), words(bits, rounds, top=True)
        )
        assert sorted(law) == sorted(permutations(range(n)))
        assert len(set(law.values())) == 1
        assert unfinished < 1


@pytest.mark.parametrize("n", [0, 1, 2, 10**5])
@pytest.mark.parametrize("source", [DeterministicRandom, ShortKeys])
def test_permutation_holds_each_index_once(source: type[DeterministicRandom], n: int) -> None:
    if source is ShortKeys and n > 3:
        n = 6  # three bits do not tell more apart
    order = source(28).permutation(n)
    assert order.dtype == np.int64
    assert (np.sort(order) == np.arange(n)).all()


def test_long_permutation_moves_indices_uniformly() -> None:
    """From each tenth of 10^5 places to each: hypergeometric, 200 tails at 1e-9 / 200 each."""
    order = DeterministicRandom(29).permutation(100_000)
    law = hypergeom(100_000, 10_000, 10_000)
    table = np.bincount(order // 10_000 * 10 + np.arange(100_000) // 10_000, minlength=100)
    assert min(law.cdf(table).min(), law.sf(table - 1).min()) > FALSE_ALARM / 200


# Many permutations at once


class RowWords(Words):
    """The same words, for arrays of rows."""

    def fill(self, out: NDArray[Any]) -> None:
        flat = np.empty(out.size, dtype=out.dtype)
        super().fill(flat)
        out[:] = flat.reshape(out.shape)


@pytest.mark.parametrize(
    ("count", "n", "bits", "draws"), [(1, 2, 1, 4), (1, 3, 2, 2), (2, 2, 1, 3), (3, 2, 1, 2)]
)
@pytest.mark.parametrize("short", [256, 1], ids=["32 bits", "64 bits"])
def test_rows_with_ties_are_exactly_uniform_by_enumeration_of_the_keys(
    monkeypatch: pytest.MonkeyPatch, count: int, n: int, bits: int, draws: int, short: int
) -> None:
    """However many draws the ties take, all combinations of orders are equally likely."""
    monkeypatch.setattr(ikos.primitives.randomness, "_SHORT_ROW", short)
    for rounds in range(1, draws + 1):
        law, unfinished = exact_law(
            lambda rng: tuple(map(tuple, rng.permutations(count, n).tolist())),
            lambda path, least, rounds=rounds: RowWords(path, least, bits, rounds, True),  # type: ignore[misc]
        )
        assert sorted(law) == sorted(product(permutations(range(n)), repeat=count))
        assert len(set(law.values())) == 1
        tied = 1 - Fraction(math.perm(2**bits, n), 2 ** (bits * n))
        assert 1 - unfinished == (1 - tied**rounds) ** count


def check_rows_are_uniform(rng: RandomSource, n: int) -> None:
    """Each row, and each two rows that follow each other."""
    orders = {order: i for i, order in enumerate(permutations(range(n)))}
    rows = [orders[tuple(row)] for row in rng.permutations(24_000, n).tolist()]
    assert uniform_p_value(rows, len(orders)) > FALSE_ALARM
    pairs = np.array(rows[::2]) * len(orders) + np.array(rows[1::2])
    assert uniform_p_value(pairs, len(orders) ** 2) > FALSE_ALARM


KINDS = [(256, 1 << 16), (2, 1 << 16), (1, 2)]
"""Longest rows whose keys have 32 and 64 bits: all rows of the first kind, or the second, or so
long that they are permuted one by one."""


@pytest.mark.slow
@pytest.mark.parametrize("source", [DeterministicRandom, ShortKeys])
@pytest.mark.parametrize(("short", "long"), KINDS)
def test_rows_fit_the_uniform_law_on_all_orders(
    monkeypatch: pytest.MonkeyPatch, source: type[DeterministicRandom], short: int, long: int
) -> None:
    """Also with keys of three bits: 59 rows of 100 have ties."""
    monkeypatch.setattr(ikos.primitives.randomness, "_SHORT_ROW", short)
    monkeypatch.setattr(ikos.primitives.randomness, "_LONG_ROW", long)
    check_rows_are_uniform(source(32), 4)


@pytest.mark.parametrize("n", [0, 1, 256, 257, 65_536, 65_537])
@pytest.mark.parametrize("count", [0, 3])
def test_rows_hold_each_index_once(n: int, count: int) -> None:
    """The kinds of keys change at 256 and 65 536."""
    rows = DeterministicRandom(35).permutations(count, n)
    assert rows.shape == (count, n)
    assert rows.dtype == np.int32
    assert (np.sort(rows, axis=1) == np.arange(n)).all()
    if n > 100 and count > 1:
        assert (rows[0] != rows[1]).any()


@pytest.mark.parametrize("n", [256, 257])
def test_long_rows_move_every_index_uniformly(n: int) -> None:
    """Where the first, a middle and the last index go; on both sides of the change of keys."""
    rows = DeterministicRandom(36).permutations(5000, n)
    for index in (0, n // 2, n - 1):
        where = np.argmax(rows == index, axis=1)
        assert uniform_p_value(where, n) > FALSE_ALARM
        assert uniform_p_value(rows[:, index], n) > FALSE_ALARM


@pytest.mark.parametrize("together", [1, 8, 23])
def test_rows_are_sorted_in_blocks_of_any_size(
    monkeypatch: pytest.MonkeyPatch, together: int
) -> None:
    monkeypatch.setattr(ikos.primitives.randomness, "_KEYS_PER_SORT", together)
    rows = DeterministicRandom(37).permutations(601, 4)
    assert (np.sort(rows, axis=1) == np.arange(4)).all()
    if together == 8:
        check_rows_are_uniform(DeterministicRandom(37), 3)


# Raw words


@pytest.mark.parametrize("dtype", [np.uint8, np.uint64])
def test_fill_writes_every_byte_in_place_and_no_other(
    rng: RandomSource, dtype: type[np.unsignedinteger[Any]]
) -> None:
    """A byte stays zero in 8 fills with probability 2^-64, over 8000 bytes below 1e-15."""
    whole = np.zeros((3, 1000), dtype=dtype)
    seen = np.zeros(1000 * whole.itemsize, dtype=np.uint8)
    for _ in range(8):
        rng.fill(whole[1])
        seen |= whole[1].view(np.uint8)
    assert (seen > 0).all()
    assert not whole[0].any()
    assert not whole[2].any()
    rng.fill(whole)
    assert whole[2].any()
    frozen = np.zeros(4, dtype=dtype)
    frozen.setflags(write=False)
    for out in (whole[:, ::2], frozen, whole.T):
        with pytest.raises(ValueError, match="out must be C-contiguous"):
            rng.fill(out)
    assert not frozen.any()


# The keystream


SEGMENT = 1 << 20
"""Bytes under one key."""


def counter_mode(key: bytes, counter: bytes, count: int) -> bytes:
    """Return AES-256-CTR keystream from the block cipher alone."""
    first = int.from_bytes(counter, "big")
    blocks = b"".join(((first + i) % 2**128).to_bytes(16, "big") for i in range((count + 15) // 16))
    encryptor = Cipher(algorithms.AES(key), modes.ECB()).encryptor()
    return encryptor.update(blocks)[:count]


def seeds(count: int) -> list[bytes]:
    size = KEY_BYTES + NONCE_BYTES
    return [hashlib.shake_256(bytes([i])).digest(size) for i in range(count)]


def expected_stream(segments: int) -> bytes:
    return b"".join(
        counter_mode(seed[:KEY_BYTES], seed[KEY_BYTES:], SEGMENT) for seed in seeds(segments)
    )


def read(stream: Keystream, count: int) -> bytes:
    out = bytearray(count)
    stream.read_into(memoryview(out))
    return bytes(out)


def test_keystream_is_aes_256_ctr_of_nist_sp_800_38a() -> None:
    """Section F.5.5: the first output blocks of CTR-AES256."""
    key = bytes.fromhex("603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4")
    stream = Keystream(lambda: key + bytes(range(0xF0, 0x100)))
    assert read(stream, 16).hex() == "0bdf7df1591716335e9a8b15c860c502"
    assert counter_mode(key, bytes(range(0xF0, 0x100)), 16) == bytes.fromhex(
        "0bdf7df1591716335e9a8b15c860c502"
    )


@pytest.mark.points(1)
@pytest.mark.parametrize("step", [1 << 20, 65_537, 3 * 2**20 + 5])
def test_keystream_takes_a_new_key_every_2_to_the_20_bytes_whatever_the_requests(
    step: int,
) -> None:
    used = iter(seeds(4))
    stream = Keystream(lambda: next(used))
    out = bytearray(4 * SEGMENT)
    for start in range(0, len(out), step):
        stream.read_into(memoryview(out)[start : start + step])
    assert bytes(out) == expected_stream(4)
    with pytest.raises(StopIteration):
        stream.read_into(memoryview(bytearray(1)))


def test_counter_wraps_around_like_the_block_cipher() -> None:
    seed = bytes(KEY_BYTES) + b"\xff" * NONCE_BYTES
    stream = Keystream(lambda: seed)
    out = bytearray(100)
    stream.read_into(memoryview(out))
    assert bytes(out) == counter_mode(bytes(KEY_BYTES), b"\xff" * NONCE_BYTES, 100)


class BufferedKeystream(Keystream):
    """Small reads from a buffer: an interruption between slicing and storing repeats bytes."""

    _buffer = b""

    def read_into(self, out: memoryview) -> None:
        if len(self._buffer) < len(out):
            fresh = bytearray(4096)
            super().read_into(memoryview(fresh))
            self._buffer = bytes(fresh)
        piece = self._buffer[: len(out)]
        out[: len(piece)] = piece
        self._buffer = self._buffer[len(out) :]


@pytest.mark.parametrize(("kind", "repeats"), [(Keystream, False), (BufferedKeystream, True)])
def test_draws_that_interrupt_a_draw_get_other_bytes(kind: type[Keystream], repeats: bool) -> None:
    """As a signal handler would, before any instruction; also where keys change.

    Pieces of 16 ideal random bytes would agree with probability below 2^-100.
    """
    stream = kind(lambda: os.urandom(KEY_BYTES + NONCE_BYTES))
    interrupting: list[bytes] = []

    def interrupt(frame: FrameType, event: str, arg: object) -> Any:
        if frame.f_code.co_name not in ("read", "read_into"):
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            interrupting.append(read(stream, 16))
            stream._left = min(stream._left, 40)  # so that keys are soon used up
        return interrupt

    before = sys.gettrace()
    sys._getframe().f_trace_opcodes = True  # Python 3.12 asks for it before it begins to trace
    sys.settrace(interrupt)
    try:
        interrupted = [read(stream, 48) for _ in range(50)]
    finally:
        sys.settrace(before)
    pieces = [piece[i : i + 16] for piece in interrupted for i in (0, 16, 32)] + interrupting
    assert len(interrupting) > 1000
    assert (len(set(pieces)) < len(pieces)) == repeats


# Streams that never meet


@pytest.mark.parametrize(
    "clone",
    [copy.copy, copy.deepcopy, lambda rng: pickle.loads(pickle.dumps(rng))],
    ids=["copy", "deepcopy", "pickle"],
)
def test_a_copy_is_an_independent_source(clone: Callable[[SecureRandom], SecureRandom]) -> None:
    rng = SecureRandom()
    before = pickle.dumps(rng)
    rng.bytes(16)
    assert pickle.dumps(rng) == before  # it holds no state
    twin = clone(rng)
    drawn = [one.bytes(32) for one in (rng, twin, rng, SecureRandom(), secure(None))]
    assert len(set(drawn)) == 5


@pytest.mark.parametrize("clone", [copy.copy, copy.deepcopy, pickle.dumps])
@pytest.mark.parametrize(
    "source",
    [DeterministicRandom(5), DeterministicRandom(5).streams()(0), SecureRandom().family()(0)],
    ids=["seed", "stream", "family"],
)
def test_what_a_secret_determines_is_not_copied(
    clone: Callable[[RandomSource], object], source: RandomSource
) -> None:
    with pytest.raises(TypeError, match=r"cannot be copied or pickled: .* seed, .*streams\(\)"):
        clone(source)


def test_a_reproducible_source_shows_its_seed() -> None:
    assert repr(DeterministicRandom(7)) == "DeterministicRandom(7)"
    assert repr(DeterministicRandom(2**5000)) == "DeterministicRandom(an integer of 5001 bits)"


def in_threads(draw: Callable[[], bytes], count: int) -> list[bytes]:
    results: list[bytes] = []
    gate = threading.Barrier(count)

    def work() -> None:
        gate.wait()
        results.append(draw())

    threads = [threading.Thread(target=work) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def in_child(draw: Callable[[], bytes]) -> bytes:
    """Return what ``draw`` returns in a forked child."""
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:  # no cover: runs in the child
        status = 1
        try:
            os.close(read_end)
            with os.fdopen(write_end, "wb") as pipe:
                pipe.write(draw())
            status = 0
        finally:
            os._exit(status)
    os.close(write_end)
    with os.fdopen(read_end, "rb") as pipe:
        result = pipe.read()
    assert os.waitpid(pid, 0)[1] == 0
    return result


def test_each_thread_has_a_keystream_of_its_own() -> None:
    rng = SecureRandom()
    streams = [rng._stream(), rng._stream()]
    in_threads(lambda: streams.append(rng._stream()) or b"", 4)  # type: ignore[func-returns-value]
    assert len({id(stream) for stream in streams}) == 5
    assert streams[0] is streams[1]
    assert len(set(in_threads(lambda: rng.bytes(32), 8))) == 8


@forks
@quiet_fork
def test_a_forked_child_draws_differently_from_its_parent_and_its_siblings() -> None:
    rng = SecureRandom()
    rng.bytes(5)  # the parent has a stream, and a buffer of it, before the fork

    def draw() -> bytes:
        return rng.bytes(32) + rng.bytes(2000)

    children = [in_child(draw), in_child(draw)]
    both = in_child(lambda: in_child(draw) + draw())  # a grandchild's, and its parent's
    half = len(both) // 2
    assert len({*children, both[:half], both[half:], draw()}) == 5


@forks
@quiet_fork
def test_a_fork_behind_pythons_back_is_noticed_by_the_process_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As after a fork by a C extension, which runs no hook: only the process number changes."""
    rng = SecureRandom()
    rng.bytes(5)
    mark = ikos.primitives.randomness._forks

    def draw() -> bytes:
        ikos.primitives.randomness._forks = mark
        return rng.bytes(32)

    assert in_child(draw) != draw()


@forks
def test_a_fork_within_one_process_number_is_noticed_by_the_hook() -> None:
    """As when a process number is used again: only the count of forks changes."""
    rng = SecureRandom()
    before = rng._stream()
    assert rng._stream() is before
    ikos.primitives.randomness._count_fork()
    assert rng._stream() is not before


# What is accepted as a source


@pytest.mark.parametrize(
    "rng",
    [
        np.random.default_rng(0),
        random.Random(0),
        random.SystemRandom(),
        random,
        0,
        SecureRandom,
        os.urandom,
        False,
    ],
    ids=lambda rng: type(rng).__name__,
)
def test_secure_refuses_anything_but_its_own_sources(rng: Any) -> None:
    with pytest.raises(TypeError, match=f"rng must be None .* got {type(rng).__name__}"):
        secure(rng)


def test_secure_takes_none_as_the_operating_systems_and_its_own_sources_as_they_are() -> None:
    assert isinstance(secure(None), SecureRandom)
    for rng in (SecureRandom(), DeterministicRandom(0)):
        assert secure(rng) is rng


def test_secure_source_is_keyed_from_the_operating_system(monkeypatch: pytest.MonkeyPatch) -> None:
    seed = bytes(range(48))
    monkeypatch.setattr(os, "urandom", lambda count: seed[:count])
    assert SecureRandom().bytes(64) == counter_mode(seed[:32], seed[32:], 64)


# The reproducible source


GOLDEN_BYTES = "069dfb4393aaf4bb7644e518861097b2"
GOLDEN_UNIFORM = [265, 734, 97, 697, 959, 700]
GOLDEN_PERMUTATION = [6, 3, 4, 5, 7, 1, 2, 0]
GOLDEN_BIG = 67245771757716795514830783743530867974


def test_deterministic_source_is_reproducible_and_pinned() -> None:
    """SHA-512 of the seed under a label, then of a counter, keys AES-256-CTR."""
    root = hashlib.sha512(b"ikos.testing.DeterministicRandom" + b"\x07").digest()
    key = hashlib.sha512(root + (1).to_bytes(8, "big")).digest()
    assert DeterministicRandom(7).bytes(64) == counter_mode(key[:32], key[32:48], 64)
    assert DeterministicRandom(7).bytes(16).hex() == GOLDEN_BYTES
    assert DeterministicRandom(7).uniform(1000, 6).tolist() == GOLDEN_UNIFORM
    assert DeterministicRandom(7).permutation(8).tolist() == GOLDEN_PERMUTATION
    assert DeterministicRandom(7).uniform(2**127 - 1, 1)[0] == GOLDEN_BIG
    tried = [0, 1, 255, 256, 2**64, 2**64 + 1, 10**30]
    assert len({DeterministicRandom(seed).bytes(16) for seed in tried}) == len(tried)


# Families of sources


def test_families_are_reproducible_and_pinned() -> None:
    """Source k is keyed by SHA-512 of a label, of 64 bytes of its parent, and of k."""
    root = DeterministicRandom(7).bytes(64)
    for k in (0, 1, 255, 256, 2**40):
        label = b"ikos.randomness.streams" + root + k.to_bytes(16, "big")
        inner = hashlib.sha512(label).digest()
        key = hashlib.sha512(inner + (1).to_bytes(8, "big")).digest()
        expected = counter_mode(key[:32], key[32:48], 64)
        for _ in range(2):
            assert DeterministicRandom(7).streams()(k).bytes(64) == expected


def test_a_family_depends_on_what_was_drawn_before() -> None:
    fresh, used = DeterministicRandom(41), DeterministicRandom(41)
    used.bytes(1)
    assert fresh.streams()(0).bytes(16) != used.streams()(0).bytes(16)


def test_families_are_pickled() -> None:
    family = DeterministicRandom(44).streams()
    twin = pickle.loads(pickle.dumps(family))
    assert twin(3).bytes(32) == family(3).bytes(32)
    assert isinstance(twin(3), RandomSource)


def test_no_key_of_a_secure_family_leaves_its_process() -> None:
    """A pickle is the same bytes for every family, so that it holds nothing of any."""
    rng = SecureRandom()
    families = [rng.streams(), rng.streams(), SecureRandom().streams(), secure(None).streams()]
    rng.bytes(100)
    families.append(rng.streams())
    assert len({pickle.dumps(family) for family in families}) == 1
    twin = pickle.loads(pickle.dumps(families[0]))
    drawn = [family(k).bytes(32) for family in (*families, twin) for k in (0, 0, 1)]
    assert len(set(drawn)) == len(drawn)
    assert all(type(family(0)) is SecureRandom for family in (*families, twin))


class Known(SecureRandom):
    """Secure but for its bytes, which are 0, 1, 2, ..."""

    def bytes(self, count: int) -> bytes:
        return bytes(range(count))


@pytest.mark.points(1)
@pytest.mark.parametrize("number", [0, 1, 2, 77, (3 << 64) + 5, 2**126 - 1])
def test_secure_families_are_aes_256_twice_under_32_bytes_and_pinned(number: int) -> None:
    """Source k has the key at block 4k of its secret's keystream, and so on for its own seeds."""
    key = counter_mode(bytes(range(32)), (4 * number).to_bytes(16, "big"), 32)
    expected = b""
    for rekey in (1, 2, 3):
        seed = counter_mode(key, (4 * rekey).to_bytes(16, "big"), 48)
        expected += counter_mode(seed[:32], seed[32:], 1 << 20)
    for _ in range(2):
        assert Known().family()(number).bytes(5 << 19) == expected[: 5 << 19]


def test_numbers_beyond_the_blocks_of_a_family_are_refused() -> None:
    with pytest.raises(OverflowError):
        SecureRandom().family()(2**126)


def test_no_two_seeds_share_a_block() -> None:
    numbers = [(row << 64) + block for row in (0, 1, 2, 3, 2**40) for block in range(50)]
    seeds = [ikos.primitives.randomness._seed(bytes(32), number) for number in numbers]
    cut = [each[start : start + 16] for each in seeds for start in (0, 16, 32)]
    assert {len(each) for each in seeds} == {48}
    assert len(set(cut)) == len(cut)


def test_sources_of_secure_families_differ() -> None:
    """Of all families, numbers and places no two agree, though each source can be asked again."""
    rng = SecureRandom()
    families = [rng.family(), rng.family(), SecureRandom().family()]
    families.append(families[0](1).family())
    numbers = (0, 1, 2, 1 << 64, (1 << 64) + 1)
    drawn = [family(number).bytes(64) for family in families for number in numbers]
    assert drawn == [family(number).bytes(64) for family in families for number in numbers]
    cut = [some[start : start + 16] for some in drawn for start in range(0, 64, 16)]
    assert len(set(cut)) == len(cut)
    assert pickle.loads(pickle.dumps(families[0]))(2).bytes(64) == drawn[2]


def test_a_derived_source_is_drawn_from_by_one_thread_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Reads take long, so that threads that do not wait meet in one keystream."""
    inside: list[int] = []
    clashes: list[int] = []
    real = Keystream.read_into

    def slowly(self: Keystream, out: memoryview) -> None:
        clashes.extend(inside)
        inside.append(threading.get_ident())
        time.sleep(0.01)
        real(self, out)
        inside.pop()

    monkeypatch.setattr(Keystream, "read_into", slowly)
    source = SecureRandom().family()(0)
    in_threads(lambda: source.bytes(8), 4)
    in_threads(lambda: source.fill(np.empty(4, dtype=np.uint64)) or b"", 4)  # type: ignore[func-returns-value]
    assert not clashes


# Bernoulli variables: digits of a probability to base 256, compared with uniform ones


class Digits(Script):
    """Plays the uniform bytes of `RandomSource.bernoullis` in classes that it cannot tell apart.

    Of a byte matters whether it is below, at or above the digit that it is compared with. Those
    are known: each byte is drawn as one of three representatives, with the class's probability.
    """

    def __init__(self, path: list[tuple[int, int]], least: Fraction, digits: bytes) -> None:
        super().__init__(path, least)
        self.digits, self.rounds = digits, 0

    def fill(self, out: NDArray[Any]) -> None:
        assert out.dtype == np.uint8
        if not out.size:
            return
        digit = self.digits[self.rounds]
        self.rounds += 1
        for i in range(out.size):
            if self.flip(Fraction(digit, 256)):
                out[i] = digit - 1
            else:
                out[i] = digit if self.flip(Fraction(1, 256 - digit)) else digit + 1


@pytest.mark.parametrize(
    "probability",
    [
        Fraction(0),
        Fraction(1),
        Fraction(255, 256),
        1 - Fraction(1, 2**64),
        Fraction(0x80_00_00_00_00_00_00_01, 2**64),
        Fraction(0x00_FF_00_01, 2**32),
        Fraction(0.3),
    ],
    ids=str,
)
@pytest.mark.parametrize("size", [1, 2])
def test_bernoullis_are_exactly_as_likely_as_asked(probability: Fraction, size: int) -> None:
    """Every path through the digits, ties to the last one included."""
    digits = int(probability * 2**64).to_bytes(8, "big").rstrip(b"\0") if probability < 1 else b""
    law, unfinished = exact_law(
        lambda rng: tuple(rng.bernoullis(probability, size).tolist()),
        lambda path, least: Digits(path, least, digits),
    )
    assert unfinished == 0
    for outcome in product((True, False), repeat=size):
        hits = sum(outcome)
        expected = probability**hits * (1 - probability) ** (size - hits)
        assert law.get(outcome, Fraction(0)) == expected


class Scripted(RandomSource):
    """Gives the bytes that it was given, one round after the other."""

    def __init__(self, *rounds: list[int]) -> None:
        self.rounds = list(rounds)

    def _read_into(self, out: memoryview) -> None:
        out[:] = bytes(self.rounds.pop(0))


def test_bernoullis_draw_again_for_ties_alone() -> None:
    probability = Fraction(0x80_40, 2**16)
    source = Scripted([0x7F, 0x80, 0x81, 0x80, 0x80], [0x3F, 0x40, 0x41])
    drawn = source.bernoullis(probability, 5)
    assert drawn.tolist() == [True, True, False, False, False]
    assert not source.rounds


def test_bernoullis_fit_their_law(rng: RandomSource) -> None:
    """Probabilities whose first digit says little; 600,000 draws over several blocks."""
    for probability in (Fraction(1, 512), Fraction(3, 512), Fraction(511, 512), Fraction(1, 2)):
        drawn = rng.bernoullis(probability, 600_000)
        hits = int(drawn.sum())
        chance = float(probability)
        assert p_value_bound([hits, drawn.size - hits], [chance, 1 - chance]) > FALSE_ALARM
        pairs = 2 * drawn[:-1:2].astype(int) + drawn[1::2]
        law = np.outer([1 - chance, chance], [1 - chance, chance]).ravel()
        assert p_value_bound(np.bincount(pairs, minlength=4), law) > FALSE_ALARM


# Refusals


@pytest.mark.parametrize(
    ("call", "arguments", "error", "name"),
    [
        ("bernoulli", (1.5,), ValueError, "probability"),
        ("bernoulli", (float("nan"),), ValueError, "probability"),
        ("bernoullis", (Fraction(-1, 2), 3), ValueError, "probability"),
        ("bernoullis", (Fraction(1, 3), 3), ValueError, r"multiple of 2\^-64"),
        ("bernoullis", ("1/2", 3), TypeError, "probability"),
        ("bernoullis", (Fraction(1, 2), -1), ValueError, "size"),
        ("below", (np.array([5, 0]),), ValueError, "bounds"),
        ("permutation", (-1,), ValueError, "n must"),
        ("fill", (np.zeros(3),), TypeError, "out"),
        ("bytes", (-1,), ValueError, "count"),
    ],
)
def test_refusals(call: str, arguments: tuple[Any, ...], error: type[Exception], name: str) -> None:
    with pytest.raises(error, match=name):
        getattr(SecureRandom(), call)(*arguments)


def test_nothing_is_drawn_where_nothing_is_asked_for() -> None:
    rng = DeterministicRandom(0)
    assert rng.below(np.empty(0, dtype=np.int64)).shape == (0,)
    assert rng.bernoullis(Fraction(1, 2), 0).size == 0
    rng.fill(np.empty(0, dtype=np.uint32))
    for q in (2, 2**40, 2**65):
        assert rng.uniform(q, 0).dtype == Zq(q).dtype
    assert rng.bytes(16) == DeterministicRandom(0).bytes(16)
