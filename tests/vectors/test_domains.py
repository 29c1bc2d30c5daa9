"""Domains of vectors: what is in, what is refused and how, and what tolerance there is."""

from __future__ import annotations

import decimal
import inspect
import itertools
import math
from datetime import date
from decimal import Decimal
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from statistical import skellam_delta

from ikos import (
    Ball,
    Box,
    Categories,
    Portions,
    PrivateSum,
    PrivateVectorSum,
    SparseTernary,
    statistics,
)
from ikos._validation import NUMBER
from ikos.data.domains import (
    MAX_DIMENSION,
    MAX_RADIUS,
    TOLERANCE,
    Bounds,
    CategoryLabels,
    Domain,
    IntegerBounds,
    Residues,
)
from ikos.noise.laplace_noise import LaplaceNoise
from ikos.primitives.modular import Zq
from ikos.testing import DeterministicRandom

DOMAINS: list[Domain] = [Box(3), Box(3, -2, 5), Ball(3, 0.5), SparseTernary(3, 2)]


@pytest.mark.parametrize("domain", DOMAINS, ids=str)
@pytest.mark.parametrize(
    ("x", "error"),
    [
        (np.zeros(3), ValueError),
        (np.zeros((2, 4)), ValueError),
        (np.zeros((2, 3, 1)), ValueError),
        (0.5, ValueError),
        ([["0", "0", "0"]], TypeError),
        ([[0j, 0j, 0j]], TypeError),
        ([[None, 0, 0]], ValueError),
        ([[date(2020, 1, 1), 0, 0]], TypeError),
        (np.ma.masked_array(np.zeros((1, 3)), [[True, False, False]]), ValueError),
        ([[math.nan, 0, 0]], ValueError),
        ([[0, math.inf, 0]], ValueError),
        ([[0, 0, -math.inf]], ValueError),
    ],
    ids=str,
)
def test_what_are_not_real_vectors_is_refused(domain, x, error):
    with pytest.raises(error, match=r"x.* must"):
        domain.values(x)


@pytest.mark.parametrize("domain", DOMAINS, ids=str)
def test_vectors_come_back_as_they_were(domain: Domain) -> None:
    assert domain.values(np.zeros((2, 3), dtype=bool)).tolist() == [[0, 0, 0]] * 2
    for dtype in (np.int8, np.uint16, np.float32, np.float64):
        x = np.zeros((4, 3), dtype=dtype)
        assert domain.values(x).dtype == dtype
        assert domain.value(x[0]).shape == (1, 3)
    assert domain.values(np.zeros((0, 3))).shape == (0, 3)
    with pytest.raises(ValueError, match="x must be one vector of 3, got shape"):
        domain.value(x)


@pytest.mark.parametrize(
    ("domain", "lower", "upper"),
    [
        (Box(3, -2, 5), -2, 5),
        (Ball(3, 0.5), -0.5, 0.5),
        (SparseTernary(3, 2), -1, 1),
        (Categories([1, 2]), 0, 1),
    ],
    ids=str,
)
def test_results_tell_the_range_of_a_coordinate(domain: Any, lower: float, upper: float) -> None:
    x = [[1, 0, 1]] if isinstance(domain, Categories) else [[0, 0, 0]]
    result = PrivateVectorSum(1, domain, 1, 1e-6, messages=3).run(x)
    assert (result.lower, result.upper) == (lower, upper)


@pytest.mark.parametrize("domain", DOMAINS, ids=str)
def test_rows_of_different_lengths_are_refused_by_name(domain: Domain) -> None:
    with pytest.raises(ValueError, match="inhomogeneous"):
        domain.values([[0, 0, 0], [0, 0]])
    with pytest.raises(ValueError, match=r"masked values"):
        domain.values(np.ma.masked_array(np.zeros((2, 3)), np.eye(2, 3)))
    rows: Any = [np.zeros(3), np.ma.masked_array(np.zeros(3), [0, 1, 0])]
    with pytest.raises(ValueError, match="x must not hold masked values"):
        domain.values(rows)


@pytest.mark.parametrize("lost", [None, math.nan, np.float32("nan"), pd.NA, pd.NaT, Decimal("NaN")])
def test_what_is_missing_is_named(lost: Any) -> None:
    said = r"^x\[3, 0\] must be .*, not missing$"
    for domain in (Box(1), Ball(1), SparseTernary(1, 1), Categories([1])):
        with pytest.raises(ValueError, match=said):
            domain.values([[1], [lost]], first=2)
    for check in (Bounds(0, 1).values, Zq(10).elements):
        with pytest.raises(ValueError, match=r"^x\[1\] must be .*, not missing$"):
            check(pd.Series([1, lost], dtype=object))
    for call in (statistics.count, partial(statistics.histogram, categories=[True])):
        with pytest.raises(ValueError, match=r"^x\[1\] must be .*, not missing$"):
            call([True, lost], epsilon=1, delta=1e-3)


def test_numbers_outside_are_not_called_missing() -> None:
    for domain in (Box(1), Ball(1), SparseTernary(1, 1), Categories([1])):
        with pytest.raises(ValueError, match=r"^x\[0.*\] must (?!.*missing)"):
            domain.values([[3.0]])


@pytest.mark.slow
@pytest.mark.parametrize("trapped", [False, True])
def test_labels_that_are_numbers_are_compared_exactly(trapped: bool) -> None:
    """All pairs of short numerals, whatever decimal's context is."""
    whole, behind, power = ["", "0", "1", "01", "10"], ["", ".", ".0", ".10"], ["", "E1", "e-1"]
    parts = itertools.product(["", "-", "+"], whole, behind, power)
    texts = [text for text in map("".join, parts) if NUMBER.fullmatch(text)]
    assert len(texts) == 3 * (5 * 4 - 2) * 3
    context = decimal.Context(prec=1, Emax=1, Emin=-1)
    context.traps = dict.fromkeys(context.traps, trapped)
    with decimal.localcontext(context):
        for one in texts:
            equal = [Fraction(one) == Fraction(other) for other in texts]
            assert (CategoryLabels("x", [one]).places(texts) == 0).tolist() == equal


@pytest.mark.parametrize(
    ("labels", "cells", "places"),
    [
        (["0", "1"], ["0.0", "01", "1e0", "+1", "-0"], [0, 1, 1, 1, 0]),
        (["0", "1"], ["1.5", "x", "True"], [-1] * 3),
        (["0", "1"], ["", "NaN", "NA", "null", "None", "n/a", "inf"], [-2] * 6 + [-1]),
        (["0", "unknown"], ["0.0", "unknown", "NA", ""], [0, 1, -1, -2]),
        (["NA", "DE"], ["NA", "nan", ""], [0, -1, -2]),  # Namibia
        ([str(2**53)], [str(2**53 + 1), f"{2.0**53}"], [-1, 0]),
        (["0.1"], ["0.1000000000000000055", ".10"], [-1, 0]),
        (["1000", "16"], ["1_000", "1,000", "0x10", "１６", "1 000"], [-1] * 5),
        (["1"], ["1e999999999999999999999", "1e-999999999", "1" * 10_000], [-1] * 3),
        (["é", "E\u0301"], ["e\u0301", "É", "e"], [0, 1, -1]),
    ],
)  # fmt: skip
def test_places_among_labels(labels: list[str], cells: list[str], places: list[int]) -> None:
    assert CategoryLabels("x", labels).places(cells).tolist() == places


@pytest.mark.parametrize("labels", [["1", "01"], ["a", "a"], ["0.5", "b", ".50"], ["é", "e\u0301"]])
def test_labels_that_are_one(labels: list[str]) -> None:
    with pytest.raises(ValueError, match=r"^categories must be distinct"):
        CategoryLabels("categories", labels)


def test_the_first_that_is_wrong_is_named_beyond_a_block() -> None:
    users = (1 << 20) + 5
    x = np.zeros((users, 3), dtype=np.float32)
    x[users - 2, 1] = 2
    for domain, where in (
        (Box(3), rf"x\[{users - 2}, 1\] must be in \[0, 1\]$"),
        (Ball(3), rf"x\[{users - 2}\] must have a norm of at most 1;"),
        (SparseTernary(3, 1), rf"x\[{users - 2}, 1\] must be -1, 0 or 1$"),
    ):
        with pytest.raises(ValueError, match=where):
            domain.values(x)


def test_box() -> None:
    box = Box(2, -1, 3)
    assert box.values([[-1, 3]]).tolist() == [[-1, 3]]
    for outside in (-1 - 1e-15, 3 + 1e-15):
        with pytest.raises(ValueError, match=r"x\[0, 1\] must be in \[-1, 3\]"):
            box.values([[0, outside]])


@given(
    st.lists(st.floats(-1, 1), min_size=1, max_size=6).filter(any),
    st.sampled_from([1e-100, 1e-3, 1.0, 7.5, MAX_RADIUS]),
)
def test_normalized_vectors_are_in_the_ball_and_longer_ones_are_not(x, radius):
    unit = np.array([x]) / np.abs(x).max()
    unit /= np.linalg.norm(unit)
    ball = Ball(len(x), radius)
    for factor in (0.5, 1.0, 1 + TOLERANCE / 4):
        ball.values(unit * factor * radius)
    with pytest.raises(ValueError, match=r"x\[0\] must have a norm of at most"):
        ball.values(unit * radius * (1 + 3 * TOLERANCE))


def test_vectors_that_were_clipped_in_single_precision_are_told_so() -> None:
    x = np.random.default_rng(0).normal(size=(100, 8)).astype(np.float32)
    clipped = x / np.maximum(np.float32(1), np.linalg.norm(x, axis=1, keepdims=True))
    with pytest.raises(ValueError, match=r"at most 1; clip it with ikos.vectors.clip$"):
        Ball(8).values(clipped)


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=5))
def test_what_a_ball_takes_is_within_its_reach(x: list[float]) -> None:
    """In exact arithmetic, whatever floating point made of the norm."""
    ball = Ball(len(x), 0.75)
    try:
        ball.values([x])
    except ValueError:
        assert sum(Fraction(v) ** 2 for v in x) > Fraction(0.75) ** 2
    else:
        assert sum(Fraction(v) ** 2 for v in x) <= Fraction(ball.reach) ** 2


def test_sparse_ternary_vectors_exhaustively() -> None:
    domain = SparseTernary(3, 2)
    for x in itertools.product((-1, 0, 1, 2), repeat=3):
        allowed = max(x) < 2 and np.count_nonzero(x) <= 2
        if allowed:
            assert domain.values([x]).tolist() == [list(x)]
        else:
            with pytest.raises(ValueError, match=r"x\[0.* must"):
                domain.values([x])


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: Ball(MAX_DIMENSION + 1), ValueError, "dimension must be at most"),
        (lambda: Box(2, 1, 1), ValueError, "upper must be greater than lower"),
        (lambda: Ball(2, 1e100), ValueError, "radius must be at most 1e.99, got 1e.100"),
        (lambda: Categories({2, 3}), TypeError, "sizes must be a sequence, got set"),
    ],
)
def test_wrong_domains_are_refused(make: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        make()


def test_the_largest_ball_has_coordinates_within_bounds() -> None:
    ball = Ball(2, MAX_RADIUS)
    assert Bounds(-ball.reach, ball.reach).upper == ball.reach
    assert Categories(np.array([2, 3])) == Categories([2, 3])


# Sensitivity, by all pairs of neighbouring values

SMALL: list[Any] = [
    PrivateSum(5, 1, 1e-3, lower=-1, upper=3, integers=True),
    PrivateSum(5, 1, 1e-3, lower=-1, upper=3, precision=5),
    *(
        PrivateVectorSum(5, domain, 1, 1e-3, precision=precision, integers=integers)
        for domain, precision, integers in (
            (Box(2, -1, 2), None, True), (Box(2, -1, 2), 3, False), (Box(3), 2, False),
            (Ball(1, 3.0), 5, False), (Ball(2, 0.5), 5, False), (Ball(3), 2, False),
            *((SparseTernary(d, s), None, False) for d in (1, 2, 3, 4) for s in range(1, d + 1)),
            *((Categories(sizes), None, False) for sizes in ([2], [4], [2, 2], [3, 2], [2, 2, 2])),
            (Categories([1, 2]), None, False),
            *((Portions(sizes, 2), None, False) for sizes in ([2], [3], [2, 1], [1, 1], [2, 2])),
        )
    ),
]  # fmt: skip


def encodings(protocol: Any) -> set[tuple[int, ...]]:
    """Return what a value of the domain may become, over thirds of a step where it is rounded."""
    domain, encoding = protocol.domain, protocol.encoding
    low, high = (Fraction(end) for end in (encoding.bounds.lower, encoding.bounds.upper))
    parts = 1 if encoding.exact else 3
    places = [Fraction(k, parts) for k in range(encoding.precision * parts + 1)]
    found: set[tuple[int, ...]] = set()
    for place in itertools.product(places, repeat=domain.dimension):
        x = [float(low + (high - low) * k / encoding.precision) for k in place]
        try:
            checked = protocol.reader.checked([x[0] if protocol.reader.scalar else x])
        except ValueError:
            continue
        if encoding.exact:
            steps = encoding.encode(checked, DeterministicRandom(0)).reshape(-1)
            found.add(tuple(steps.tolist()))
        else:
            ends = ({math.floor(k), math.ceil(k)} for k in place)
            found |= set(itertools.product(*ends))
    return found


@pytest.mark.points(len(SMALL))
@pytest.mark.parametrize("protocol", SMALL, ids=lambda protocol: str(protocol.domain))
def test_no_two_values_are_further_apart_than_the_noise_counts_with(protocol: Any) -> None:
    """In each norm, and no less far: but in a ball, and for questions with a single answer."""
    points = np.array(sorted(encodings(protocol)))
    apart = np.abs(points[:, np.newaxis] - points)
    l1, l2_squared, linf = (
        int(norm.max()) for norm in (apart.sum(axis=2), (apart**2).sum(axis=2), apart)
    )
    domain = protocol.domain
    shift = protocol.encoding.shift(domain.dimension)
    said = shift.l1, shift.l2_squared, shift.linf
    if isinstance(domain, Ball) or domain == Categories([1, 2]):
        assert all(most >= least for most, least in zip(said, (l1, l2_squared, linf), strict=True))
    else:
        assert said == (l1, l2_squared, linf)
    if isinstance(protocol.noise, LaplaceNoise):
        assert 0.98 < protocol.noise.rate * shift.l1 <= 1
        assert protocol.noise.rate * l1 <= 1
    else:
        assert skellam_delta(Fraction(1), protocol.noise.variance, l2_squared) <= 1e-3


def test_every_domain_is_among_these() -> None:
    """But residues, whose sums are told exactly, and integers of bounds, which are numbers too."""
    found, open_ = set(), [Domain]
    while open_:
        kind = open_.pop()
        open_ += kind.__subclasses__()
        told = inspect.isabstract(kind) or issubclass(kind, Residues | IntegerBounds)
        if not told and kind.__module__.startswith("ikos."):
            found.add(kind)
    assert found == {type(protocol.domain) for protocol in SMALL}
