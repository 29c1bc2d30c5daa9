"""Z_q: every operation equals Python's integers, at every size at which the arrays change."""

from __future__ import annotations

import random
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from ikos.primitives.modular import BLOCK, Zq, blocks

ORDERS = [
    2,
    3,
    2**31 - 1,
    2**31 + 1,
    2**32,
    2**32 + 15,
    3 * 2**61,
    2**63 + 29,
    2**64 - 59,
    2**64,
    2**64 + 13,
    2**127 - 1,
]


def name(q: int) -> str:
    """Return an order as a short test id: 2^61-1 rather than its digits."""
    bits = q.bit_length()
    near = min((1 << (bits - 1), 1 << bits, 3 << (bits - 2)), key=lambda power: abs(q - power))
    power = f"3*2^{bits - 2}" if near == 3 << (bits - 2) else f"2^{near.bit_length() - 1}"
    return str(q) if q < 1000 else power + (f"{q - near:+d}" if q != near else "")


each_order = pytest.mark.parametrize("q", ORDERS, ids=name)


def extremes(q: int) -> list[int]:
    """Return the elements at which carries and borrows happen."""
    around = {0, 1, q // 2, q - 1, 2**31, 2**32 - 1, 2**32, 2**63 - 1, 2**63, 2**64 - 1}
    return sorted({v + d for v in around for d in (-1, 0, 1) if 0 <= v + d < q})


def array(group: Zq, values: list[int]) -> NDArray[Any]:
    result = np.empty(len(values), dtype=group.dtype)
    result[:] = values
    return result


def pairs(q: int, size: int) -> tuple[list[int], list[int]]:
    """Return all pairs of extremes, filled up with random ones to the given size."""
    special = extremes(q)
    both = [(a, b) for a in special for b in special]
    rng = random.Random(q)
    both += [(rng.randrange(q), rng.randrange(q)) for _ in range(size - len(both))]
    rng.shuffle(both)
    return [a for a, _ in both], [b for _, b in both]


def plain(a: NDArray[Any]) -> list[int]:
    return [int(value) for value in a]


@each_order
def test_dtype_is_the_smallest_exact_one(q: int) -> None:
    expected = np.uint32 if q <= 2**32 else np.uint64 if q <= 2**64 else object
    group = Zq(q)
    assert group.dtype == np.dtype(expected)
    assert 2 ** (group.bits - 1) < q <= 2**group.bits
    assert group.power_of_two == (q in {2**k for k in range(1, 4097)})


@each_order
def test_taking_off_and_finishing_is_subtracting(q: int) -> None:
    """Many times before it is reduced once, and nothing is reduced too late to be right."""
    group = Zq(q)
    a, b = pairs(q, 300)
    some, taken = array(group, a), array(group, b)
    for _ in range(5):
        group.subtract_lazily(some, taken)
    group.reduce_in_place(some)
    assert plain(some) == [(x - 5 * y) % q for x, y in zip(a, b, strict=True)]
    assert group.contains(some)


@each_order
@pytest.mark.parametrize("size", [BLOCK + 1])
def test_arithmetic_equals_python_integers_across_block_boundaries(q: int, size: int) -> None:
    if q > 2**64:
        size //= 16  # no blocks in the arithmetic on Python integers
    group = Zq(q)
    a, b = pairs(q, size)
    first, second = array(group, a), array(group, b)

    difference = first.copy()
    group.subtract(difference, second)
    assert plain(difference) == [(x - y) % q for x, y in zip(a, b, strict=True)]

    assert group.sum(first) == sum(a) % q
    twice = first.copy()
    group.subtract(twice, twice)
    assert not twice.any()
    for result in (difference,):
        assert group.contains(result)
    assert plain(second) == b


@each_order
@pytest.mark.parametrize("size", [0, 1, 4 * BLOCK + 1])
def test_sum_of_the_largest_elements_does_not_overflow(q: int, size: int) -> None:
    if q > 2**64:
        size = min(size, 1000)
    group = Zq(q)
    assert group.sums(array(group, [q - 1, 1] * size).reshape(size, 2).T) == [
        size * (q - 1) % q, size % q
    ]  # fmt: skip
    assert group.sum(array(group, [q - 1] * size)) == size * (q - 1) % q


@pytest.mark.slow
def test_sum_of_more_than_2_to_the_32_words_does_not_overflow() -> None:
    q, size = 2**32 - 5, 2**32 + 10
    assert size * (q - 1) > 2**64
    a = np.broadcast_to(np.uint32(q - 1), (size,))
    assert Zq(q).sum(a) == size * (q - 1) % q


@each_order
def test_sum_of_a_matrix_or_a_strided_array_counts_each_element_once(q: int) -> None:
    group = Zq(q)
    a, _ = pairs(q, 600)
    matrix = array(group, a[:600]).reshape(20, 30)
    assert group.sum(matrix) == sum(a[:600]) % q
    assert group.sum(matrix.T) == sum(a[:600]) % q
    assert group.sum(matrix[:, ::7]) == sum(plain(matrix[:, ::7].reshape(-1))) % q


@each_order
def test_reduce_equals_python_remainder_for_every_int64(q: int) -> None:
    group = Zq(q)
    special = {0, 1, 2**31, 2**32, 2**62, 2**63 - 1, q, q - 1, 2 * q}
    values = sorted({v for s in special for v in (s, -s, -s - 1) if -(2**63) <= v < 2**63})
    reduced = group.reduce(np.array(values, dtype=np.int64))
    assert reduced.dtype == group.dtype
    assert plain(reduced) == [v % q for v in values]


@each_order
def test_reduce_of_python_integers_of_any_size(q: int) -> None:
    group = Zq(q)
    values = [0, -1, q, -q, q * q + 1, -(q**3) - 1, 2**200, -(2**200)]
    reduced = group.reduce(np.array(values, dtype=object).reshape(2, 4))
    assert reduced.shape == (2, 4)
    assert group.contains(reduced)
    assert plain(reduced.reshape(-1)) == [v % q for v in values]


@st.composite
def groups_with_elements(draw: st.DrawFn) -> tuple[int, list[int], list[int]]:
    bits = draw(st.integers(1, 130))
    q = draw(st.integers(2**bits - min(2 ** (bits - 1), 99), 2**bits + 99).filter(lambda v: v > 1))
    element = st.integers(0, q - 1) | st.sampled_from([0, 1, q - 1])
    size = draw(st.integers(0, 40))
    lists = st.lists(element, min_size=size, max_size=size)
    return q, draw(lists), draw(lists)


@pytest.mark.slow
@given(groups_with_elements())
def test_arithmetic_equals_python_integers_for_any_order(
    case: tuple[int, list[int], list[int]],
) -> None:
    q, a, b = case
    group = Zq(q)
    first, second = group.elements(a), group.elements(b)
    assert plain(first) == a
    group.subtract(first, second)
    assert plain(first) == [(x - y) % q for x, y in zip(a, b, strict=True)]
    assert group.sum(second) == sum(b) % q


@given(st.integers(2, 2**70), st.lists(st.integers(-(2**63), 2**63 - 1), max_size=20))
def test_reduce_equals_python_remainder_for_any_order(q: int, values: list[int]) -> None:
    assert plain(Zq(q).reduce(np.array(values, dtype=np.int64))) == [v % q for v in values]


@given(st.integers(0, 10**6), st.integers(1, 10**5))
def test_blocks_cut_a_range_without_gap_or_overlap(length: int, size: int) -> None:
    end = 0
    for part in blocks(length, size):
        assert part.start == end
        assert 0 < part.stop - part.start <= size
        end = part.stop
    assert end == length


@each_order
@pytest.mark.parametrize("kind", ["list", "object", "uint64", "int8"])
def test_elements_takes_integers_of_every_kind(q: int, kind: str) -> None:
    values = extremes(q)
    given_as: Any
    if kind in ("list", "tuple", "object"):
        given_as = {"list": list, "tuple": tuple}.get(kind, lambda v: np.array(v, dtype=object))(
            values
        )
    else:
        values = [v for v in values if v <= np.iinfo(kind).max]
        given_as = np.array(values, dtype=kind)
    result = Zq(q).elements(given_as)
    assert result.dtype == Zq(q).dtype
    assert plain(result) == values
    if q > 2**64:
        assert all(type(v) is int for v in result)


def test_elements_of_a_list_may_be_numpy_integers() -> None:
    assert plain(Zq(300).elements([np.uint8(255), np.int64(299), 7])) == [255, 299, 7]


@pytest.mark.parametrize(
    ("x", "index", "kind"),
    [
        ([1, 1.0], 1, "float"),
        (["1"], 0, "str"),
        ([0, b"1"], 1, "bytes"),
        ([Fraction(1, 2)], 0, "Fraction"),
        ([Decimal("1.5")], 0, "Decimal"),
        ([[1], [1, 2]], 0, "list"),
        (np.array([1, 2.5], dtype=object), 1, "float"),
    ],
)
def test_elements_refuses_other_kinds_and_names_them(x: Any, index: int, kind: str) -> None:
    with pytest.raises(TypeError, match=rf"^votes\[{index}\] must be an integer, got {kind}$"):
        Zq(10).elements(x, "votes")


def test_elements_may_be_integers_of_any_kind() -> None:
    given = [True, np.False_, Decimal("3.0"), Fraction(4), Decimal(2**70)]
    assert Zq(2**80).elements(given).tolist() == [1, 0, 3, 4, 2**70]
    assert Zq(10).elements(np.array([True, False])).tolist() == [1, 0]


@pytest.mark.parametrize("x", [np.zeros(3), np.array(["1"]), "12", 1.0, np.zeros(2, dtype=complex)])
def test_elements_refuses_arrays_of_other_kinds_and_names_their_type(x: Any) -> None:
    with pytest.raises(TypeError, match=rf"votes must hold integers.*{np.asarray(x).dtype}"):
        Zq(10).elements(x, "votes")


@pytest.mark.parametrize("q", [2, 2**32, 2**64, 2**127 - 1])
@pytest.mark.parametrize("as_array", [False, True])
def test_elements_refuses_values_outside_the_group(q: int, as_array: bool) -> None:
    for bad in (-1, q, q + 1, -(2**63)):
        values = [0, 1, bad, 1]
        x = values
        if as_array:
            fits = -(2**63) <= bad < 2**63
            x = np.array(values, dtype=np.int64 if fits else object)
        with pytest.raises(ValueError) as caught:
            Zq(q).elements(x, "votes")
        assert str(caught.value) == f"votes[2] must be in [0, q) for q = {q}"


def test_elements_refuses_a_uint64_above_the_order() -> None:
    with pytest.raises(ValueError, match=r"x\[0\] must be in"):
        Zq(2**63 + 29).elements(np.array([2**64 - 1], dtype=np.uint64))


def test_a_huge_order_is_quoted_by_its_length() -> None:
    with pytest.raises(ValueError, match=r"x\[0\].*an integer of 4097 bits$"):
        Zq(2**4096).elements([2**4096])


@each_order
def test_contains_tells_reduced_arrays_of_the_right_type(q: int) -> None:
    group = Zq(q)
    assert group.contains(array(group, extremes(q)))
    assert group.contains(array(group, []))
    assert not group.contains(np.zeros(2, dtype=np.int64))
    if q not in (2**32, 2**64):
        assert not group.contains(array(group, [0, q]))
    if q > 2**64:
        assert not group.contains(array(group, [-1]))
        assert not group.contains(np.array([1, True], dtype=object))
        assert not group.contains(np.array([1.0], dtype=object))
