"""The comparison of protocols for vectors makes each as its class does, or says why not."""

from __future__ import annotations

import inspect
import re
from fractions import Fraction
from functools import cache
from typing import Any

import pytest

import ikos.vectors
from ikos.baselines import BaseProtocol, SumProtocol
from ikos.vectors import (
    VECTOR_PROTOCOLS,
    Ball,
    Box,
    Categories,
    CentralGaussian,
    Collision,
    Domain,
    KashinPrivateSum,
    PrivateVectorSum,
    PrivKV,
    SampledCoordinates,
    SparseTernary,
    VectorRow,
    vector_comparison,
)

DELTA = Fraction(1, 10**4)
SLOW = {"kashin-sampled-noise", "sampled-coordinates"}  # their parameters take a search


DOMAINS: tuple[Domain, ...] = (Box(4, -1, 1), Ball(4), SparseTernary(6, 2))


@cache
def compared(domain: Domain) -> tuple[VectorRow, ...]:
    """Return all protocols for a domain of `DOMAINS`, some of which take a search."""
    return vector_comparison(400, domain, 2, DELTA)


def by_key(rows: tuple[VectorRow, ...]) -> dict[str, VectorRow]:
    return {row.key: row for row in rows}


def test_keys_are_distinct_and_in_kebab_case() -> None:
    keys = [contender.key for contender in VECTOR_PROTOCOLS]
    assert len(set(keys)) == len(keys)
    assert all(len(key) <= 24 and key == key.lower() and " " not in key for key in keys)


@pytest.mark.slow
@pytest.mark.parametrize("domain", DOMAINS, ids=str)
def test_all_that_are_for_a_domain_are_made(domain: Domain) -> None:
    rows = compared(domain)
    assert {row.key for row in rows} == {
        contender.key for contender in VECTOR_PROTOCOLS if isinstance(domain, contender.domains)
    }
    for row in rows:
        assert row.reason is None
        assert row.protocol is not None
        assert row.protocol.n == 400
        assert row.guarantee is not None
        assert row.guarantee.epsilon == 2
        assert row.guarantee.delta <= float(DELTA) * (1 + 1e-12)
        assert row.messages
        assert row.rmse
    models = [row.contender.model for row in rows]
    assert models == sorted(models, key=["central", "shuffle", "local"].index)
    for model in set(models):
        errors = [row.mse or 0.0 for row in rows if row.contender.model == model]
        assert errors == sorted(errors)


def test_every_protocol_of_the_package_is_compared() -> None:
    exported = {getattr(ikos.vectors, name) for name in ikos.vectors.__all__}
    concrete = {
        item
        for item in exported
        if isinstance(item, type)
        and issubclass(item, BaseProtocol)
        and not inspect.isabstract(item)
    }
    made = {type(row.protocol) for domain in DOMAINS for row in compared(domain)}
    assert made == concrete


def test_rows_are_the_protocols_own_answers() -> None:
    ball, signs = Ball(5, 2), SparseTernary(5, 2)
    expected: list[tuple[Domain, str, SumProtocol]] = [
        (ball, "central-gaussian", CentralGaussian(500, ball, 1, DELTA)),
        (ball, "private-vector-sum", PrivateVectorSum(500, ball, 1, DELTA)),
        (ball, "kashin-private-sum", KashinPrivateSum(500, ball, 1, DELTA)),
        (
            ball,
            "one-coordinate",
            SampledCoordinates(500, Box(5, -ball.reach, ball.reach), 1, DELTA),
        ),
        (signs, "collision", Collision(500, signs, 1, DELTA)),
        (signs, "local-collision", Collision(500, signs, 1)),
        (signs, "local-privkv", PrivKV(500, signs, 1)),
    ]
    for domain, key, protocol in expected:
        (row,) = vector_comparison(500, domain, 1, DELTA, protocols=[key])
        assert row.mse == protocol.mse
        assert row.guarantee == protocol.guarantee
        assert row.bits == protocol.cost().bits_per_user
        assert row.influence == protocol.influence


def test_min_honest_is_passed_on() -> None:
    few = by_key(vector_comparison(500, Ball(4), 1, DELTA, min_honest=300, protocols=KEYS))
    all_of_them = by_key(vector_comparison(500, Ball(4), 1, DELTA, protocols=KEYS))
    for key in KEYS:
        protocol = few[key].protocol
        assert protocol is not None
        assert protocol.min_honest == 300
        assert (few[key].mse or 0) > (all_of_them[key].mse or 0)


KEYS = ("private-vector-sum", "kashin-private-sum", "one-coordinate")


def test_what_is_impossible_says_why() -> None:
    rows = by_key(vector_comparison(1000, Box(64), 1, DELTA, protocols=["single-message-grid"]))
    assert "at most" in (rows["single-message-grid"].reason or "")
    (row,) = vector_comparison(1000, Box(64), 1, DELTA, protocols=["collision"])
    assert row.reason == "domain must be a SparseTernary, got Box"
    assert (row.messages, row.mse, row.guarantee) == (None, None, None)


def test_rows_print_in_a_line() -> None:
    found, none = vector_comparison(
        1000, Box(64), 1, DELTA, protocols=["one-coordinate", "single-message-grid"]
    )
    assert re.fullmatch(r"one-coordinate: error \d+(\.\d)?, 1 message .*", str(found))
    assert str(none).startswith("single-message-grid: none, domain must have at most")


@pytest.mark.slow
def test_categories_are_compared() -> None:
    rows = vector_comparison(1000, Categories([3, 4]), 1, DELTA)
    assert [row.key for row in rows] == ["central-gaussian", "private-vector-sum"]
    assert all(row.reason is None for row in rows)


def test_progress_counts_all() -> None:
    seen: list[tuple[int, int]] = []
    keys = [key for key in KEYS if key not in SLOW]
    vector_comparison(
        200, Ball(3), 1, DELTA, protocols=keys, progress=lambda *step: seen.append(step)
    )
    assert seen == [(i + 1, len(keys)) for i in range(len(keys))]


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        ({"n": 0}, ValueError, "n must be at least 1"),
        ({"n": 2.5}, TypeError, "n must be an integer"),
        ({"domain": 5}, TypeError, "domain must be a Domain, got int"),
        ({"epsilon": -1}, ValueError, "epsilon must be at least"),
        ({"delta": 2}, ValueError, "delta must be less than 1"),
        ({"min_honest": 101}, ValueError, "min_honest must be at most 100"),
        ({"protocols": "collision"}, TypeError, "protocols must be a sequence"),
        ({"protocols": 3}, TypeError, "protocols must be a sequence of keys, got int 3"),
        ({"progress": 3}, TypeError, "progress must be callable, got int 3"),
        ({"protocols": ["colision"]}, ValueError, "protocols must be one of"),
    ],
)
def test_wrong_arguments_are_refused(
    change: dict[str, Any], error: type[Exception], text: str
) -> None:
    given: dict[str, Any] = {"n": 100, "domain": Ball(3), "epsilon": 1, "delta": 1e-6}
    with pytest.raises(error, match=text):
        vector_comparison(**given | change)
