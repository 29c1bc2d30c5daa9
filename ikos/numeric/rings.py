"""Polynomials modulo X^N + 1 and 2^K, K <= 128, in words of 64 bits: sums, products and packing.

An array of words, (words, ..., N), holds the low 64 bits of coefficients first. Sums wrap around at
the last word, of which 2^K is a divisor; `Negacyclic.reduce` reduces them modulo 2^K.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]

_WORD = 64
_PIECE = 18  # bits of a coefficient that are transformed together
_DIGIT = 7  # bits of a factor's coefficient, between -64 and 63


def add(total: Words, more: Words) -> None:
    """Add coefficients to others, in place."""
    np.add(total[0], more[0], out=total[0])
    if len(total) > 1:
        np.add(total[1], more[1], out=total[1])
        np.add(total[1], total[0] < more[0], out=total[1], casting="unsafe")


def scaled(values: NDArray[np.int64], bits: int, words: int) -> Words:
    """Return signed values times 2^bits in a number of words."""
    result = np.zeros((words, *values.shape), dtype=np.uint64)
    place, bits = divmod(bits, _WORD)
    if place < words:
        np.left_shift(values.view(np.uint64), np.uint64(bits), out=result[place])
    if place + 1 < words:  # a shift by 64 would be undefined; the sign is left in any case
        result[place + 1] = (values >> min(_WORD - bits, _WORD - 1)).view(np.uint64)
    return result


def above(coefficients: Words, bits: int) -> Words:
    """Return floor(coefficients / 2^bits), for up to all bits of the words."""
    result = np.zeros_like(coefficients)
    place, bits = divmod(bits, _WORD)
    for low, word in enumerate(range(place, len(coefficients))):
        result[low] = coefficients[word] >> np.uint64(bits)
        if bits and word + 1 < len(coefficients):
            result[low] |= coefficients[word + 1] << np.uint64(_WORD - bits)
    return result


def raised(coefficients: Words, bits: int) -> Words:
    """Return coefficients times 2^bits, for fewer bits than a word has."""
    result = coefficients << np.uint64(bits)
    if bits and len(coefficients) > 1:
        result[1] |= coefficients[0] >> np.uint64(_WORD - bits)
    return result


def below(coefficients: Words, bits: int) -> None:
    """Reduce coefficients modulo 2^bits, in place."""
    for word, row in enumerate(coefficients):
        bits_here = min(max(bits - _WORD * word, 0), _WORD)
        np.bitwise_and(row, np.uint64((1 << bits_here) - 1), out=row)


@dataclass(frozen=True)
class Negacyclic:
    """The ring of polynomials modulo X^degree + 1 and 2^bits."""

    degree: int
    bits: int

    @property
    def words(self) -> int:
        """Words of a coefficient."""
        return -(-self.bits // _WORD)

    def zeros(self, polynomials: int) -> Words:
        """Return zero polynomials, (words, polynomials, degree)."""
        return np.zeros((self.words, polynomials, self.degree), dtype=np.uint64)

    def reduce(self, coefficients: Words) -> None:
        """Reduce coefficients, in place."""
        below(coefficients, self.bits)

    def public(self, seed: bytes, numbers: range) -> Words:
        """Return polynomials that a hash determines, by SHAKE-128 of it and of their numbers.

        Each coefficient takes whole words, of which the low bits are used: uniform, as 2^K is a
        power of two.
        """
        result = self.zeros(len(numbers))
        for place, number in enumerate(numbers):
            stream = hashlib.shake_128(seed + number.to_bytes(8, "little"))
            octets = stream.digest(8 * self.words * self.degree)
            result[:, place] = np.frombuffer(octets, dtype="<u8").reshape(self.words, -1)
        self.reduce(result)
        return result

    @cached_property
    def _twist(self) -> NDArray[np.complex128]:
        """The powers of a root of -1, by which X^N becomes 1."""
        return np.asarray(np.exp(1j * np.pi / self.degree * np.arange(self.degree)))

    def transform(self, polynomials: Words) -> list[NDArray[np.complex128]]:
        """Return the transforms of pieces of reduced coefficients, two real ones in each."""
        pieces = []
        for first in range(0, self.bits, 2 * _PIECE):
            rest = above(polynomials, first)[0]
            both = np.empty(rest.shape, dtype=np.complex128)
            both.real = rest & np.uint64((1 << _PIECE) - 1)
            both.imag = rest >> np.uint64(_PIECE) & np.uint64((1 << _PIECE) - 1)
            pieces.append(np.fft.fft(both * self._twist))
        return pieces

    def product(self, pieces: list[NDArray[np.complex128]], factor: NDArray[np.int64]) -> Words:
        """Return the products of transformed polynomials and one of any signed coefficients.

        A piece times a digit of the factor has coefficients of at most N 2^18 2^6 <= 2^36 in
        absolute value, which transforms of doubles find to far less than 1/4: by Cauchy and
        Schwarz, the error is some 2^6 times 2^-53 times the product of the Euclidean norms.
        """
        result = self.zeros(pieces[0].shape[0])
        shift = 0
        while factor.any():
            rest = (factor + (1 << _DIGIT - 1)) >> _DIGIT
            spectrum = np.fft.fft((factor - (rest << _DIGIT)) * self._twist)
            for number, piece in enumerate(pieces):
                coefficients = np.fft.ifft(piece * spectrum) * self._twist.conj()
                place = shift + 2 * _PIECE * number
                add(result, scaled(_nearest(coefficients.real), place, self.words))
                add(result, scaled(_nearest(coefficients.imag), place + _PIECE, self.words))
            factor, shift = rest, shift + _DIGIT
        return result


def _nearest(values: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the integers that a transform found; ArithmeticError if one is in doubt."""
    whole = np.rint(values)
    if not np.abs(values - whole).max() < 0.25:
        raise ArithmeticError("a product of polynomials is not exact")
    return whole.astype(np.int64)


def _fields(bits: int, words: int) -> list[int]:
    """Return the number of packed bits of each word."""
    return [min(_WORD, bits - _WORD * word) for word in range(words) if bits > _WORD * word]


def to_bytes(coefficients: Words, bits: int) -> bytes:
    """Return the low bits of coefficients, one polynomial after the other.

    Coefficient j N/64 + i has bits j b to (j + 1) b - 1 of lane i, b of 64 N/64; word k of all
    lanes comes before word k + 1. Of two words, all the low ones come first.
    """
    rows, degree = coefficients.shape[1:]
    packed = np.zeros((rows, bits, degree // _WORD), dtype="<u8")
    first = 0
    for width, word in zip(_fields(bits, len(coefficients)), coefficients, strict=False):
        lanes = word.reshape(rows, _WORD, -1) & np.uint64((1 << width) - 1)
        for j in range(_WORD):
            place, shift = divmod(j * width, _WORD)
            packed[:, first + place] |= lanes[:, j] << np.uint64(shift)
            if shift + width > _WORD:
                packed[:, first + place + 1] |= lanes[:, j] >> np.uint64(_WORD - shift)
        first += width
    return packed.tobytes()


def from_bytes(octets: NDArray[np.uint8], bits: int, words: int, degree: int) -> Words:
    """Return the polynomials that `to_bytes` packed."""
    packed = octets.view("<u8").reshape(-1, bits, degree // _WORD)
    rows = len(packed)
    result = np.zeros((words, rows, degree), dtype=np.uint64)
    first = 0
    for width, word in zip(_fields(bits, words), result, strict=False):
        lanes = word.reshape(rows, _WORD, -1)
        for j in range(_WORD):
            place, shift = divmod(j * width, _WORD)
            lanes[:, j] = packed[:, first + place] >> np.uint64(shift)
            if shift + width > _WORD:
                lanes[:, j] |= packed[:, first + place + 1] << np.uint64(_WORD - shift)
        word &= np.uint64((1 << width) - 1)
        first += width
    return result
