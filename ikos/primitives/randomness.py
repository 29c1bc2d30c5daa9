"""Secure randomness: an AES keystream, and the exact samplers that everything else uses.

docs/randomness.md explains it, and the meaning of "uniform" here.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any, NoReturn

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms, modes
from numpy.typing import NDArray

from ikos._validation import InvalidType, InvalidValue, integer, number, quote
from ikos.primitives.concurrency import Scratch
from ikos.primitives.modular import Zq, blocks

__all__ = ["RandomSource", "SecureRandom", "secure"]

KEY_BYTES = 32
NONCE_BYTES = 16
REKEY_BYTES = 1 << 20
_ZEROS = bytes(REKEY_BYTES)  # one call per key, because threads lose time at each call

_SHORT_ROW = 256  # this many keys of 24 bits tie in one row of 500
_LONG_ROW = 1 << 16  # this many keys of 48 bits tie in one row of 130,000
_KEYS_PER_SORT = 1 << 18


@dataclass(eq=False, repr=False)
class Keystream:
    """AES-256 in counter mode, with a new key and counter for every 2^20 bytes.

    ``next_seed`` returns `KEY_BYTES` + `NONCE_BYTES` fresh bytes at each call. There is no buffer:
    each piece of output is one call into the cipher, which advances its counter, so that a signal
    handler that draws during a draw gets other bytes.
    """

    _next_seed: Callable[[], bytes]
    _context: CipherContext | None = None
    _left: int = 0

    def read_into(self, out: memoryview) -> None:
        """Overwrite ``out`` (contiguous bytes) with keystream."""
        done = 0
        while done < len(out):
            available = self._left  # read once: a signal handler that draws changes it
            if available <= 0:
                seed = self._next_seed()
                cipher = Cipher(algorithms.AES(seed[:KEY_BYTES]), modes.CTR(seed[KEY_BYTES:]))
                self._context = cipher.encryptor()
                available = self._left = REKEY_BYTES
            assert self._context is not None
            step = min(len(out) - done, available, len(_ZEROS))
            zeros = _ZEROS if step == len(_ZEROS) else memoryview(_ZEROS)[:step]
            self._context.update_into(zeros, out[done : done + step])
            self._left -= step
            done += step


class RandomSource(ABC):
    """Exact samplers over a stream of uniform bits.

    Functions take one as ``rng``: `SecureRandom`, which ``None`` stands for, or
    `ikos.testing.DeterministicRandom`, which is reproducible and not private.
    """

    @abstractmethod
    def _read_into(self, out: memoryview) -> None:
        """Overwrite ``out`` with uniform bytes."""

    def bytes(self, count: int) -> bytes:
        """Return ``count`` uniform bytes."""
        result = bytearray(integer("count", count, low=0))
        self._read_into(memoryview(result))
        return bytes(result)

    def fill(self, out: NDArray[Any]) -> None:
        """Overwrite a C-contiguous array of unsigned integers with uniform bits, in place."""
        if out.dtype.kind != "u":
            raise InvalidType("out", f"must hold unsigned integers, got {out.dtype}")
        if not out.flags.c_contiguous or not out.flags.writeable:
            raise InvalidValue("out", "must be C-contiguous and writeable")
        if out.size:
            self._read_into(out.data.cast("B"))

    def integer(self, bound: int) -> int:
        """Return an unbiased integer in ``[0, bound)``, for a positive bound of any size."""
        bits = (integer("bound", bound, low=1) - 1).bit_length()
        size, mask = (bits + 7) // 8, (1 << bits) - 1
        while True:
            value = int.from_bytes(self.bytes(size), "little") & mask
            if value < bound:
                return value

    def bernoulli(self, probability: Fraction | int | float) -> bool:
        """Return True with exactly the given probability, a rational or a float."""
        p = number("probability", probability, low=0, high=1)
        return self.integer(p.denominator) < p.numerator

    def bernoullis(self, probability: Fraction, size: int) -> NDArray[np.bool_]:
        """Return variables that are True with exactly this probability, a multiple of 2^-64.

        Each compares uniform base-256 digits with those of the probability until they differ.
        """
        p = number("probability", probability, low=0, high=1)
        scaled = p * (1 << 64)
        if scaled.denominator != 1:
            raise InvalidValue(
                "probability", f"must be a multiple of 2^-64, got {quote(probability)}"
            )
        size = integer("size", size, low=0)
        result = np.zeros(size, dtype=np.bool_)
        if p == 1:
            result[:] = True
            return result
        digits = int(scaled).to_bytes(8, "big").rstrip(b"\0")
        for part in blocks(size, 1 << 18):
            block = result[part]
            undecided = np.arange(block.size)
            for digit in digits:
                drawn = np.empty(undecided.size, dtype=np.uint8)
                self.fill(drawn)
                block[undecided[drawn < digit]] = True
                undecided = undecided[drawn == digit]
        return result

    def uniform_into(self, out: NDArray[Any], group: Zq) -> None:
        """Overwrite a 1-d array of the group's dtype with uniform elements, in place."""
        if group.dtype == object:
            out[:] = self._big(group, out.size)
            return
        kind, width = out.dtype.type, 8 * out.dtype.itemsize
        low = max(group.bits - 9, 0)
        digits = -(-group.q >> low)  # values of the leading digit, of up to 9 bits
        spare, used = np.empty(0, out.dtype), 0  # replaces values of q or more
        scratch = Scratch()
        length = REKEY_BYTES // out.dtype.itemsize  # in cache
        for part in blocks(out.size, length):
            block = out[part]
            self.fill(block)
            if digits == 1 << (group.bits - low):  # every bit pattern, or nearly
                if group.bits < width:
                    np.bitwise_and(block, kind((1 << group.bits) - 1), out=block)
                if group.power_of_two or np.maximum.reduce(block) < group.q:
                    continue
            elif group.bits + 4 <= width:  # at most 1 in 16 is replaced, below at most 1 in 109
                np.floor_divide(block, kind((1 << width) // group.q), out=block)
            else:
                leading = scratch("leading", block.size, np.uint16)
                shifted = scratch("shifted", block.size, kind)
                self.fill(leading)
                # a quotient beyond the last digit gives an element beyond q, but within the type
                np.floor_divide(leading, np.uint16((1 << 16) // digits), out=leading)
                np.copyto(shifted, leading)
                np.left_shift(shifted, kind(low), out=shifted)
                np.bitwise_and(block, kind((1 << low) - 1), out=block)
                np.bitwise_or(block, shifted, out=block)
            beyond = np.greater_equal(block, group.q, out=scratch("beyond", block.size, np.bool_))
            places = np.flatnonzero(beyond)
            if places.size > spare.size - used:
                ahead = min(16, -(-(out.size - part.start) // length))  # blocks
                spare, used = np.empty(places.size * ahead, out.dtype), 0
                self.uniform_into(spare, group)
            block[places] = spare[used : used + places.size]
            used += places.size

    def uniform(self, q: int, size: int) -> NDArray[Any]:
        """Return independent uniform elements of Z_q, in the dtype of ``Zq``."""
        group = Zq(q)
        result = np.empty(integer("size", size, low=0), dtype=group.dtype)
        self.uniform_into(result, group)
        return result

    def _big(self, group: Zq, count: int) -> list[int]:
        """Return uniform elements of a group beyond machine words."""
        size, mask = (group.bits + 7) // 8, (1 << group.bits) - 1
        accepted: list[int] = []
        while len(accepted) < count:
            raw = self.bytes((count - len(accepted)) * size)
            drawn = (
                int.from_bytes(raw[start : start + size], "little") & mask
                for start in range(0, len(raw), size)
            )
            accepted.extend(value for value in drawn if value < group.q)
        return accepted

    def below(self, bounds: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return independent unbiased integers, entry i in ``[0, bounds[i])``."""
        if bounds.size and int(bounds.min()) < 1:
            raise InvalidValue("bounds", f"must be positive, got {int(bounds.min())}")
        # the smallest 2^j - 1 that is at least bound - 1, by copying the leading bit to all lower
        # ones
        masks = (bounds - 1).astype(np.uint64)
        for shift in (1, 2, 4, 8, 16, 32):
            masks |= masks >> np.uint64(shift)
        limits = bounds.astype(np.uint64)
        result = np.empty(bounds.size, dtype=np.uint64)
        todo = np.arange(bounds.size)
        while todo.size:
            fresh = np.empty(todo.size, dtype=np.uint64)
            self.fill(fresh)
            fresh &= masks[todo]
            result[todo] = fresh
            todo = todo[fresh >= limits[todo]]
        return result.astype(np.int64)

    def permutation(self, n: int) -> NDArray[np.int64]:
        """Return a uniformly random permutation of ``range(n)``.

        Random keys that carry the index in their low bits are sorted; ties are broken by fresh
        keys. The proof that this is exact is in docs/randomness.md.
        """
        n = integer("n", n, low=0, high=1 << 40)
        bits = np.uint64(max(n - 1, 0).bit_length())
        packed = np.empty(n, dtype=np.uint64)
        self.fill(packed)
        packed >>= bits
        packed <<= bits
        packed |= np.arange(n, dtype=np.uint64)
        packed.sort()
        order = (packed & ((np.uint64(1) << bits) - np.uint64(1))).astype(np.int64)
        packed >>= bits
        self._break_ties(order, packed)
        return order

    def permutations(self, count: int, n: int) -> NDArray[np.int32]:
        """Return independent uniformly random permutations of ``range(n)``, one per row.

        All short rows are sorted in one call, and a row with tied keys is drawn again: given
        distinct keys, every order is equally likely.
        """
        count = integer("count", count, low=0)
        n = integer("n", n, low=0, high=(1 << 31) - 1)
        result = np.empty((count, n), dtype=np.int32)
        if n > _LONG_ROW:
            for row in result:
                row[:] = self.permutation(n)
            return result
        rows = max(1, _KEYS_PER_SORT // max(n, 1))
        for first in range(0, count, rows):
            self._sorted_rows(result[first : first + rows])
        return result

    def _sorted_rows(self, out: NDArray[np.int32]) -> None:
        """Overwrite rows with permutations, from keys of 32 bits where these rarely tie."""
        count, n = out.shape
        kind = np.uint32 if n <= _SHORT_ROW else np.uint64
        bits = kind(max(n - 1, 0).bit_length())
        low = (kind(1) << bits) - kind(1)
        packed = np.empty((count, n), dtype=kind)
        todo = np.arange(count)
        while todo.size:
            self.fill(packed)
            packed &= ~low
            packed |= np.arange(n, dtype=kind)
            packed.sort(axis=1)
            out[todo] = packed & low
            packed >>= bits
            todo = todo[(packed[:, 1:] == packed[:, :-1]).any(axis=1)]
            packed = packed[: todo.size]

    def streams(self) -> Callable[[int], RandomSource]:
        """Return a family of independent sources, for work in several processes.

        It maps k = 0, 1, 2, ... to source k, and can be pickled. For a secure source, each is the
        secure source of the process that uses it; for a reproducible source, they are reproducible,
        and depend on k and on earlier draws.
        """
        return self.family()

    def family(self) -> Callable[[int], RandomSource]:
        """Return a family of independent sources that can be replayed.

        Like `streams`, but source k draws the same values each time it is requested, so that draws
        need not be kept. One secret, drawn now, determines all sources; those of a secure source
        are keyed by AES-256 under it.
        """
        return partial(_derived, self.bytes(2 * KEY_BYTES))

    def _break_ties(self, order: NDArray[np.int64], keys: NDArray[np.uint64]) -> None:
        """Put the entries of ``order`` whose sorted ``keys`` tie into uniformly random order."""
        same = keys[1:] == keys[:-1]
        if not same.any():
            return
        tied = np.zeros(keys.size, dtype=bool)
        tied[1:] |= same
        tied[:-1] |= same
        places = np.flatnonzero(tied)
        group = np.cumsum(np.concatenate(([False], keys[places][1:] != keys[places][:-1])))
        while True:
            fresh = np.empty(places.size, dtype=np.uint64)
            self.fill(fresh)
            rank = np.lexsort((fresh, group))
            sorted_fresh = fresh[rank]
            # if any two tie, all are drawn again: given distinct keys, all orders are equally
            # likely
            if not ((sorted_fresh[1:] == sorted_fresh[:-1]) & (group[1:] == group[:-1])).any():
                order[places] = order[places][rank]
                return


def _hashed(root: bytes, number: int) -> bytes:
    """Return the seed of key ``number`` under a secret, by SHA-512."""
    return hashlib.sha512(root + number.to_bytes(8, "big")).digest()[: KEY_BYTES + NONCE_BYTES]


def _seed(key: bytes, number: int) -> bytes:
    """Return the seed of a number below 2^126: blocks 4 number to 4 number + 2 of a keystream."""
    counter = (4 * number).to_bytes(16, "big")
    stream = Cipher(algorithms.AES(key), modes.CTR(counter)).encryptor()
    return stream.update(bytes(KEY_BYTES + NONCE_BYTES))


class Expanded(RandomSource):
    """The source that a secret of at least `KEY_BYTES` determines; ``seed`` derives its keys."""

    def __init__(self, root: bytes, seed: Callable[[bytes, int], bytes] = _hashed) -> None:
        numbers = itertools.count(1)
        self._lock = threading.RLock()  # a signal handler may draw while its thread draws
        self._keystream = Keystream(lambda: seed(root, next(numbers)))

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"a {type(self).__name__} cannot be copied or pickled: both would draw the same "
            "bits; create each from its own seed, or pass on its streams()"
        )

    def _read_into(self, out: memoryview) -> None:
        with self._lock:
            self._keystream.read_into(out)


def _derived(root: bytes, number: int) -> RandomSource:
    label = b"ikos.randomness.streams" + root + number.to_bytes(16, "big")
    return Expanded(hashlib.sha512(label).digest())


def _enciphered(key: bytes, number: int) -> RandomSource:
    return Expanded(_seed(key, number)[:KEY_BYTES], _seed)


class SecureRandom(RandomSource):
    """Randomness keyed from the operating system, safe across forks and threads.

    Each thread has its own keystream, and a forked process discards those that it inherits, so that
    no two threads or processes draw from the same one. A copy or a pickle is a new source.
    """

    def __init__(self) -> None:
        self._local = threading.local()

    def _stream(self) -> Keystream:
        local = self._local
        # the hook sees every fork by Python, the process id those by C extensions
        mark = (_forks, os.getpid())
        if getattr(local, "mark", None) != mark:
            local.stream = Keystream(partial(os.urandom, KEY_BYTES + NONCE_BYTES))
            local.mark = mark
        stream: Keystream = local.stream
        return stream

    def _read_into(self, out: memoryview) -> None:
        self._stream().read_into(out)

    def streams(self) -> Callable[[int], RandomSource]:
        """Return a family of secure sources; keys never leave the process that uses them."""
        return _fresh

    def family(self) -> Callable[[int], RandomSource]:
        """Return a family of sources keyed by AES-256 under one secret."""
        return partial(_enciphered, self.bytes(KEY_BYTES))

    def __reduce__(self) -> tuple[type[SecureRandom], tuple[()]]:
        return SecureRandom, ()


def _fresh(number: int) -> RandomSource:
    del number
    return _SECURE


_forks = 0


def _count_fork() -> None:
    global _forks
    _forks += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_count_fork)

_SECURE = SecureRandom()


def secure(rng: RandomSource | None) -> RandomSource:
    """Return ``rng``, or the process's secure source for ``None``.

    Anything else is refused: numpy's generators and integer seeds are predictable, so a sum drawn
    from them is not private.
    """
    if rng is None:
        return _SECURE
    if not isinstance(rng, RandomSource):
        raise InvalidType(
            "rng",
            "must be None (secure) or an ikos random source such as "
            f"ikos.testing.DeterministicRandom, got {type(rng).__name__}",
        )
    return rng
