"""Polynomials modulo X^N + 1 and 2^K against Python's integers and python-flint."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from ikos.numeric.rings import Negacyclic, above, add, below, from_bytes, raised, scaled, to_bytes

SEED = bytes(32)


def integers(coefficients: NDArray[np.uint64]) -> list[int]:
    """Return all coefficients as Python's integers."""
    rows = coefficients.reshape(len(coefficients), -1).tolist()
    return [sum(word << 64 * i for i, word in enumerate(some)) for some in zip(*rows, strict=True)]


def words_of(values: list[int], words: int) -> NDArray[np.uint64]:
    """Return integers modulo 2^(64 words) as coefficients."""
    rows = [[value >> 64 * i & (1 << 64) - 1 for value in values] for i in range(words)]
    return np.array(rows, dtype=np.uint64)


@pytest.mark.points(3)
@pytest.mark.parametrize("factor", ["ordinary", "lowest", "highest", "sum"])
@pytest.mark.parametrize(("degree", "bits"), [(2048, 44), (2048, 53), (4096, 97), (4096, 106)])
def test_products_are_those_of_flint(degree: int, bits: int, factor: str) -> None:
    fmpz_poly: Any = pytest.importorskip("flint").fmpz_poly
    ring, rng = Negacyclic(degree, bits), np.random.default_rng(bits)
    public = ring.public(SEED, range(2))
    public[:, 1] = words_of([(1 << bits) - 1], ring.words)  # all coefficients at their largest
    values = {
        "ordinary": rng.integers(-40, 41, degree),
        "lowest": np.full(degree, -64),
        "highest": np.full(degree, 63),
        "sum": rng.integers(-60_000, 60_000, degree),
    }[factor]
    found = ring.product(ring.transform(public), values)
    ring.reduce(found)
    for row in range(2):
        whole = fmpz_poly(integers(public[:, row])) * fmpz_poly(values.tolist())
        c = [int(whole[i]) for i in range(2 * degree)]
        truth = [(c[i] - c[i + degree]) % (1 << bits) for i in range(degree)]
        assert integers(found[:, row]) == truth


@settings(max_examples=20)
@given(st.data())
def test_products_of_small_degree_are_those_of_schoolbook(data: st.DataObject) -> None:
    bits, degree = data.draw(st.integers(1, 128)), 64
    ring = Negacyclic(degree, bits)
    public = ring.public(data.draw(st.binary(min_size=32, max_size=32)), range(1))
    values = data.draw(st.lists(st.integers(-(2**40), 2**40), min_size=degree, max_size=degree))
    found = ring.product(ring.transform(public), np.array(values))
    ring.reduce(found)
    whole = np.convolve(np.array(integers(public), dtype=object), np.array(values, dtype=object))
    truth = whole[:degree] - np.append(whole[degree:], 0)
    assert integers(found) == [value % (1 << bits) for value in truth]


@settings(max_examples=40)
@given(st.integers(1, 2), st.data())
def test_words_are_integers_modulo_a_power_of_two(words: int, data: st.DataObject) -> None:
    size, full = 3, 1 << 64 * words
    coefficients = st.lists(st.integers(0, full - 1), min_size=size, max_size=size)
    a, b = data.draw(coefficients), data.draw(coefficients)
    signed = data.draw(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=size, max_size=size))
    total = words_of(a, words)
    add(total, words_of(b, words))
    assert integers(total) == [(x + y) % full for x, y in zip(a, b, strict=True)]
    bits = data.draw(st.integers(0, 64 * words + 5))
    assert integers(scaled(np.array(signed), bits, words)) == [(x << bits) % full for x in signed]
    assert integers(above(words_of(a, words), bits)) == [x >> bits for x in a]
    assert integers(raised(words_of(a, words), bits % 64)) == [(x << bits % 64) % full for x in a]
    total = words_of(a, words)
    below(total, bits)
    assert integers(total) == [x % (1 << bits) for x in a]


@pytest.mark.parametrize("bits", [1, 13, 39, 63, 64, 65, 92, 128])
def test_packed_bits_are_where_the_format_says(bits: int) -> None:
    degree, words = 128, -(-bits // 64)
    ring = Negacyclic(degree, bits)
    some = ring.public(SEED, range(3))
    octets = to_bytes(some, bits)
    assert len(octets) == 3 * degree * bits // 8
    back = from_bytes(np.frombuffer(octets, dtype=np.uint8), bits, words, degree)
    np.testing.assert_array_equal(back, some)
    lanes, values = degree // 64, integers(some)
    stream = np.frombuffer(octets, dtype="<u8").reshape(3, bits, lanes)
    for row in range(3):
        for lane in range(lanes):
            here = [values[row * degree + j * lanes + lane] for j in range(64)]
            low = sum((v % 2**64) << j * min(bits, 64) for j, v in enumerate(here))
            high = sum((v >> 64) << j * (bits - 64) for j, v in enumerate(here) if bits > 64)
            whole = low | high << 64 * min(bits, 64)
            assert [whole >> 64 * k & (1 << 64) - 1 for k in range(bits)] == stream[
                row, :, lane
            ].tolist()


def test_public_polynomials_are_shake_of_the_seed_and_the_number() -> None:
    ring = Negacyclic(64, 97)
    for number, found in zip(
        (5, 6), np.moveaxis(ring.public(SEED, range(5, 7)), 1, 0), strict=True
    ):
        stream = hashlib.shake_128(SEED + number.to_bytes(8, "little")).digest(64 * 16)
        low, high = np.frombuffer(stream, dtype="<u8").reshape(2, 64).tolist()
        assert integers(found) == [x | y % 2**33 << 64 for x, y in zip(low, high, strict=True)]


def test_a_product_in_doubt_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    ring = Negacyclic(2048, 53)
    pieces = ring.transform(ring.public(SEED, range(1)))
    noisy = [piece + 2048 * 0.3 for piece in pieces]
    with pytest.raises(ArithmeticError, match="not exact"):
        ring.product(noisy, np.arange(2048) % 60)
