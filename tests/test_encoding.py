"""Randomized rounding and recentring: in range, unbiased and exact."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from statistical import FALSE_ALARM, p_value_bound

from ikos.data import encoding
from ikos.data.domains import Bounds
from ikos.data.encoding import MAX_PRECISION, decode, encode
from ikos.primitives.modular import BLOCK
from ikos.testing import DeterministicRandom

PRECISIONS = [1, 2, 3, 10, 1000, 2**20 + 1, 2**31, 2**52 - 1, 2**52]
UNIT = 2**53


def reference(x: NDArray[np.float64], p: int, draws: NDArray[Any]) -> NDArray[np.int64]:
    """Round as the definition says: up, where a number of 53 random bits is below the fraction."""
    scaled = x * p
    floor = np.floor(scaled)
    fraction = scaled - floor  # exact, for doubles
    return np.asarray(floor.astype(np.int64) + (draws < fraction * UNIT))


class Fixed(DeterministicRandom):
    """A source whose every number of 53 bits, drawn in two parts, is the same.

    The first digits carry where the random number is below the fraction: they are its complement.
    """

    def __init__(self, value: int) -> None:
        super().__init__(0)
        self.value = value

    def fill(self, out: NDArray[Any]) -> None:
        assert out.dtype == np.uint16
        out[:] = 0xFFFF - (self.value >> 37)

    def uniform(self, q: int, size: int) -> NDArray[Any]:
        assert UNIT % q == 0
        return np.full(size, self.value % q, dtype=np.uint64)


class Recorded(DeterministicRandom):
    """A source that keeps what it drew."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.filled: list[NDArray[Any]] = []
        self.rests: list[NDArray[Any]] = []

    def fill(self, out: NDArray[Any]) -> None:
        super().fill(out)
        if out.dtype == np.uint16:
            self.filled.append(out.copy())

    def uniform(self, q: int, size: int) -> NDArray[Any]:
        self.rests.append(super().uniform(q, size))
        return self.rests[-1]


def encoded(x: float, p: int, draw: int) -> int:
    return int(encode(np.array([x]), p, Fixed(draw))[0])


@pytest.mark.parametrize("p", PRECISIONS)
@pytest.mark.parametrize("draw", [0, UNIT - 1])
def test_the_range_is_never_left_whatever_the_randomness(p: int, draw: int) -> None:
    tiny = [0.0, 5e-324, 2**-1022, 2**-60, 0.25, 1 / 3, 0.5]
    x = np.array([*tiny, *(1 - v for v in tiny), math.nextafter(1, 0), -0.0])
    values = encode(x, p, Fixed(draw))
    assert values.dtype == np.int64
    assert values.min() >= 0
    assert values.max() <= p
    assert values[0] == values[-1] == 0
    assert values[7] == p  # x = 1


@given(st.floats(0, 1), st.sampled_from(PRECISIONS), st.integers(0, UNIT - 1))
def test_rounding_goes_to_a_neighbour_of_the_scaled_value(x: float, p: int, draw: int) -> None:
    value = encoded(x, p, draw)
    assert 0 <= value <= p
    assert abs(value - Fraction(x * p)) < 1


@given(st.floats(0, 1), st.sampled_from(PRECISIONS))
def test_rounding_is_unbiased_up_to_2_to_the_minus_53(x: float, p: int) -> None:
    """Exactly the draws below the fraction round up: the number of these is the probability."""
    scaled = Fraction(x * p)
    low = math.floor(scaled)
    fraction = scaled - low
    ups = math.ceil(fraction * UNIT)
    assert 0 <= Fraction(ups, UNIT) - fraction < Fraction(1, UNIT)
    if ups > 0:
        assert encoded(x, p, ups - 1) == low + 1
    if ups < UNIT:
        assert encoded(x, p, ups) == low


@pytest.mark.parametrize("p", [*PRECISIONS, 2**15 - 1, 2**15, 2**18 - 1, 2**18, 2**46])
def test_rounding_is_that_by_its_definition(p: int) -> None:
    """On every value, with the digits that were drawn, and with those beside the fraction's."""
    x = np.random.default_rng(p).random(2 * BLOCK + 7)
    x[::5] = np.round(x[::5] * 4) / 4
    rng = Recorded(123)
    values = encode(x, p, rng)
    digits = min(16, (31 if p < 2**18 else 62) - p.bit_length())
    first = np.concatenate(rng.filled).astype(np.uint64) >> np.uint64(16 - digits)
    scaled = x * p
    whole = np.floor((scaled - np.floor(scaled)) * 2**digits).astype(np.uint64)
    tied = np.flatnonzero(first + whole == 2**digits - 1)
    draws = (2**digits - 1 - first) << np.uint64(53 - digits)
    if tied.size:
        (rests,) = rng.rests
        assert rests.size == tied.size
        assert int(rests.max()) < 2 ** (53 - digits)
        draws[tied] += rests
    assert np.array_equal(values, reference(x, p, draws))
    for value in (0.1, 1 / 3, 0.5, 0.7, *x[:5]):
        fraction = int((value * p - math.floor(value * p)) * UNIT)
        for draw in {max(0, min(UNIT - 1, fraction + by)) for by in (-(2**37), -1, 0, 1, 2**37)}:
            wanted = reference(np.array([value]), p, np.array([draw]))
            assert encoded(float(value), p, draw) == wanted[0]


class AllWords(DeterministicRandom):
    """A source that draws every combination of the first digits and of the others, once."""

    def __init__(self, first: int, rest: int) -> None:
        super().__init__(0)
        self.first, self.rest = first, rest

    def fill(self, out: NDArray[Any]) -> None:
        assert out.size == 1 << (self.first + self.rest)
        # what is below the digits that count must not
        out[:] = (np.arange(out.size) >> self.rest << (16 - self.first)) + np.arange(out.size) % 3

    def uniform(self, q: int, size: int) -> NDArray[Any]:
        assert q == 1 << self.rest
        assert size in (0, q)  # one value of the first digits ties, with all of the others
        return np.arange(size, dtype=np.uint64)


def ups(x: float, p: int, first: int, rest: int) -> int:
    many = np.full(1 << (first + rest), x)
    values = encode(many, p, AllWords(first, rest))
    low = math.floor(x * p)
    assert set(values.tolist()) <= {low, low + 1}
    return int((values == low + 1).sum())


@pytest.mark.parametrize(("first", "rest"), [(1, 1), (2, 3), (4, 1), (3, 6), (5, 0)])
@pytest.mark.parametrize("p", [1, 3, 2**17 + 1])
def test_the_law_is_exact_by_enumeration_of_all_digits(
    p: int, first: int, rest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of all words of so many bits, as many round up as multiples of their unit fit below."""
    monkeypatch.setattr(encoding, "_FIRST_BITS", first)
    monkeypatch.setattr(encoding, "_ROUNDING_BITS", first + rest)
    words = 1 << (first + rest)
    cases = [k / words / p for k in range(words + 1)] if p < 1000 else []
    for x in [*cases, 0.0, 1.0, 5e-324, 0.1, 1 / 3, 0.49999, math.nextafter(1, 0)]:
        fraction = Fraction(x * p) - math.floor(x * p)
        assert ups(x, p, first, rest) == math.ceil(fraction * words)


def test_ties_taken_as_up_or_down_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoding, "_FIRST_BITS", 2)
    monkeypatch.setattr(encoding, "_ROUNDING_BITS", 5)
    x = 3 / 32
    assert ups(x, 1, 2, 3) == 3
    for taken in (0, 7):
        monkeypatch.setattr(AllWords, "uniform", lambda _, q, size, t=taken: np.full(size, t))
        assert ups(x, 1, 2, 3) in (0, 8)


@pytest.mark.parametrize("dtype", [np.uint32, np.uint64, np.int64, object])
@pytest.mark.parametrize("bounds", [Bounds(0, 1), Bounds(-3, 5), Bounds(0.1, 0.3)], ids=repr)
def test_values_within_bounds_are_encoded_where_they_belong(dtype: Any, bounds: Bounds) -> None:
    x = bounds.lower + np.random.default_rng(1).random(2 * BLOCK + 3) * bounds.width
    x[[0, -1]] = bounds.lower, bounds.upper
    x = np.clip(x, bounds.lower, bounds.upper)
    before = x.copy()
    out = np.empty(x.size, dtype=dtype)
    assert encode(x, 1000, DeterministicRandom(124), bounds=bounds, out=out) is out
    wanted = encode(bounds.unit(x), 1000, DeterministicRandom(124))
    assert out.tolist() == wanted.tolist()
    assert (out[0], out[-1]) == (0, 1000)
    assert type(out.tolist()[1]) is int
    assert np.array_equal(x, before)


@pytest.mark.parametrize("p", [1, 2, 16, 1000, 2**52])
def test_multiples_of_a_step_are_never_rounded(p: int) -> None:
    steps = sorted({0, 1, p // 4, p // 2, p - 1, p})
    exact = [k for k in steps if Fraction(k / p) * p == k]
    for draw in (0, UNIT - 1):
        values = encode(np.array([k / p for k in exact]), p, Fixed(draw))
        assert values.tolist() == exact


@pytest.mark.parametrize(("x", "p"), [(0.3, 1), (0.9, 1), (0.123, 10), (1 / 3, 7)])
def test_rounding_fits_its_law(x: float, p: int) -> None:
    """Proved false-alarm rate 1e-9; a bias of a hundredth is rejected."""
    size = 2 * BLOCK + 5
    values = encode(np.full(size, x), p, DeterministicRandom(120))
    fraction = x * p - math.floor(x * p)
    ups = int((values - math.floor(x * p)).sum())
    assert p_value_bound([size - ups, ups], [1 - fraction, fraction]) > FALSE_ALARM
    shifted = fraction + 0.02 if fraction < 0.5 else fraction - 0.02
    assert p_value_bound([size - ups, ups], [1 - shifted, shifted]) < FALSE_ALARM


def test_users_are_rounded_independently() -> None:
    values = encode(np.full(80_000, 0.5), 1, DeterministicRandom(121)).reshape(-1, 4)
    cells = values @ np.array([8, 4, 2, 1])
    assert p_value_bound(np.bincount(cells, minlength=16), np.full(16, 1 / 16)) > FALSE_ALARM


@pytest.mark.parametrize("size", [0, 1, BLOCK - 1, BLOCK, BLOCK + 1])
def test_every_value_is_encoded_in_its_place(size: int) -> None:
    wanted = np.arange(size) % 9
    x = wanted / 8
    before = x.copy()
    assert (encode(x, 8, DeterministicRandom(122)) == wanted).all()
    assert (x == before).all()


def test_the_largest_precision_is_exact_in_doubles_and_int64() -> None:
    assert float(MAX_PRECISION) == MAX_PRECISION
    assert encoded(math.nextafter(1, 0), MAX_PRECISION, 0) in (MAX_PRECISION - 1, MAX_PRECISION)


# Recentring


@pytest.mark.parametrize(("users", "p", "q"), [(3, 2, 7), (3, 2, 16), (4, 1, 9), (1, 5, 6)])
def test_decoding_inverts_reduction_on_the_window_centred_on_the_sums(
    users: int, p: int, q: int
) -> None:
    """Every noisy sum t with (np - q)/2 < t <= (np + q)/2, q integers in all."""
    middle = Fraction(users * p, 2)
    window = [t for t in range(-2 * q, 3 * q) if middle - Fraction(q, 2) < t <= middle + q / 2]
    assert len(window) == q
    assert [decode(t % q, users, p, q) for t in window] == window
    assert set(range(users * p + 1)) <= set(window)


@given(st.integers(1, 1000), st.integers(1, 2**52), st.integers(1, 2**70), st.data())
def test_decoding_is_exact_for_big_numbers(users: int, p: int, gap: int, data: Any) -> None:
    q = users * p + gap
    z = data.draw(st.integers(0, q - 1))
    t = decode(z, users, p, q)
    assert t % q == z
    assert users * p - q < 2 * t <= users * p + q
