"""Openings of commitments: each that does not fit is named; sums of openings open products."""

from __future__ import annotations

import random

import pytest

from ikos import InvalidValue
from ikos.verified import group, proofs
from ikos.verified.group import ORDER
from ikos.verified.proofs import Proofs
from ikos.verified.statements import bounded


def made(of, n, seed=3):
    rng = random.Random(seed)
    d = of.statement.dimension
    values = [[rng.randrange(ORDER) for _ in range(d)] for _ in range(n)]
    blindings = [rng.randrange(ORDER) for _ in range(n)]
    pairs = zip(values, blindings, strict=True)
    return [of.commit(v, s) for v, s in pairs], values, blindings


@pytest.mark.parametrize("dimension", [1, 3])
@pytest.mark.parametrize("batch", [7, 1000])
@pytest.mark.points(4)
def test_each_share_that_does_not_fit_is_named(dimension, batch, monkeypatch):
    monkeypatch.setattr(proofs, "_BATCH", batch)
    of = Proofs(bounded(5, dimension), b"context")
    n = 60
    points, values, blindings = made(of, n)
    assert of.unopened(points, values, blindings) == []
    changes = {
        1: lambda v, s: (v[0] + 1, s),
        2: lambda v, s: (v[0] - 1, s),  # cancels the one before
        5: lambda v, s: (v[0], s + 1),
        6: lambda v, s: (v[0], s - 1),
        20: lambda v, s: (v[0] + ORDER, s),  # another encoding of the same
        21: lambda v, s: (v[0], s + ORDER),
        22: lambda v, s: (v[0] - ORDER, s),
        23: lambda v, s: (v[0], s - ORDER),
        40: lambda v, s: (s, v[0]),
        59: lambda v, s: (0, 0),
    }
    for place, change in changes.items():
        values[place][0], blindings[place] = change(values[place], blindings[place])
    bad = [b"", bytes(33), points[31][:32], b"\4" + points[33][1:], points[30]]
    points[30:35] = bad
    assert of.unopened(points, values, blindings) == sorted({*changes, *range(30, 35)})


def test_the_last_value_counts():
    of = Proofs(bounded(5, 3), b"context")
    points, values, blindings = made(of, 4)
    values[2][2] += 1
    assert of.unopened(points, values, blindings) == [2]


def test_sums_of_openings_open_the_product():
    of = Proofs(bounded(5, 2), b"context")
    points, values, blindings = made(of, 100)
    sums = [sum(column) % ORDER for column in zip(*values, strict=True)]
    assert of.opens(points, sums, sum(blindings) % ORDER)
    for off in ((1, 0, 0), (0, 1, 0), (0, 0, 1), (1, -1, 0)):
        lied = [x + by for x, by in zip(sums, off, strict=False)]
        assert not of.opens(points, lied, sum(blindings) + off[2])
    assert not of.opens(points[1:], sums, sum(blindings))
    assert not of.opens([], sums, sum(blindings))
    assert of.opens([], [0, 0], 0)


def test_a_product_may_be_the_identity():
    """As two users can arrange: coincurve cannot hold it, and nothing depends on that."""
    of = Proofs(bounded(5), b"context")
    pair = [of.commit([0], 9), of.commit([0], ORDER - 9)]
    assert of.opens(pair, [0], 0)
    assert not of.opens(pair, [0], 1)
    assert of.total(pair, 0, 10) == 0
    both = b"".join(pair)
    proof = of.prove([0], 0, [both], b"id", bytes(32))
    assert of.refused([(b"id", both, proof)]) == []
    with pytest.raises(InvalidValue, match="must not be the identity"):
        of.commit([0], 0)


@pytest.mark.parametrize("sum_of", [0, 1, 30, 31, 99, 100])
def test_the_total_is_the_logarithm(sum_of):
    of = Proofs(bounded(5), b"context")
    points = [of.commit([sum_of - 7], 11), of.commit([7], 12)]
    assert of.total(points, 23, 100) == sum_of
    assert of.total(points, 23, sum_of) == sum_of
    assert of.total(points, 24, 100) is None
    if sum_of:
        assert of.total(points, 23, sum_of - 1) is None


def test_logarithms_beyond_the_table(monkeypatch):
    monkeypatch.setattr(group, "_TABLE", 10)
    for x in (0, 1, 9, 10, 11, 105, 1000):
        point = group.power_product([group.BASE], [x])
        assert group.discrete_logarithm(point, 1000) == x
    assert group.discrete_logarithm(group.power_product([group.BASE], [1001]), 1000) is None


def test_buckets_give_the_product_of_powers():
    """Of many points, against one product for each; with zeros, ones, the identity and inverses."""
    rng = random.Random(5)
    for count in (0, 1, 300, 301, 1000):
        points = [
            group.power_product([group.BASE], [rng.randrange(1, ORDER)]) for _ in range(count)
        ]
        exponents = [rng.randrange(1 << rng.choice([1, 8, 128, 256])) for _ in range(count)]
        if count > 300:
            points[3], exponents[4], exponents[5] = None, 0, 1
            points[7], exponents[7], exponents[8] = points[8], ORDER - 5, 5  # they cancel
            points[9:40], exponents[9:40] = [points[9]] * 31, [exponents[9]] * 31
        singly = [group.power_product([p], [e]) for p, e in zip(points, exponents, strict=True)]
        expected = group.combine(singly)
        found = group.power_product(points, exponents)
        assert (found and found.format()) == (expected and expected.format())


@pytest.mark.parametrize(
    "encoding",
    [
        b"",
        bytes(33),
        bytes(32),
        b"\2" * 32,
        b"\2" * 34,
        b"\2" + b"\xff" * 32,
        b"\2" * 65,
        group.BASE.format(compressed=False),
        b"\6" + group.BASE.format(compressed=False)[1:],
    ],
)
def test_what_is_no_point(encoding):
    with pytest.raises(ValueError):
        group.decode(encoding)


def test_scalars_are_below_the_order():
    assert group.scalars((ORDER - 1).to_bytes(32) + bytes(32)) == [ORDER - 1, 0]
    for data in (ORDER.to_bytes(32), b"\xff" * 32, bytes(31), bytes(65)):
        with pytest.raises(ValueError):
            group.scalars(data)
