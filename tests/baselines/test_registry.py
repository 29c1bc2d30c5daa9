"""The comparison makes each protocol as its class does, and measures what runs are off by."""

from __future__ import annotations

import dataclasses
import inspect
import math
import re
from fractions import Fraction
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import ikos
import ikos.baselines
from ikos import Ball, Box, Categories, PrivateSum, PrivateVectorSum, SparseTernary
from ikos.accounting import optimal_delta
from ikos.baselines import (
    PROTOCOLS,
    Baseline,
    CentralGaussian,
    Collision,
    ComparisonRow,
    DesignatedNoise,
    KashinPrivateSum,
    LocalLaplace,
    Measurement,
    PrivacyBlanket,
    PrivKV,
    SampledCoordinates,
    SparseNoise,
    SumProtocol,
    UnaryEncoding,
    comparison,
    measure,
    measurement,
)
from ikos.data.domains import Bounds, Domain
from ikos.deployment import Task
from ikos.testing import DeterministicRandom
from ikos.transports import Helpers

SEARCHED = {"recursive-2", "recursive-3", "recursive-4", "correlated-noise"}
"""Those whose parameters take a search."""

QUICK = [one.key for one in PROTOCOLS if Bounds in one.domains and one.key not in SEARCHED]

DELTA = Fraction(1, 10**5)
UNIT = Bounds(0, 1)
PARTIES = Helpers(noise="parties")
DOMAINS: tuple[Domain, ...] = (UNIT, Box(4, -1, 1), Ball(4), SparseTernary(6, 2))


@cache
def compared(domain: Domain) -> tuple[ComparisonRow, ...]:
    keys = QUICK if domain is UNIT else None
    given: dict[str, Any] = {} if domain is UNIT else {"domain": domain}
    return comparison(400, 2, DELTA, protocols=keys, **given)


def by_key(rows: tuple[ComparisonRow, ...]) -> dict[str, ComparisonRow]:
    return {row.key: row for row in rows}


def test_every_protocol_of_the_package_is_compared() -> None:
    exported = map(ikos.baselines.__dict__.get, ikos.baselines.__all__)
    concrete = {
        item
        for item in exported
        if isinstance(item, type) and issubclass(item, Baseline) and not inspect.isabstract(item)
    }
    made = {one.made_by for one in PROTOCOLS if isinstance(one.made_by, type)}
    assert made | {SampledCoordinates} == concrete | {PrivateSum, ikos.PrivateVectorSum}


@pytest.mark.slow
@pytest.mark.parametrize(
    "domain", [pytest.param(one, marks=[pytest.mark.slow] * (one is not UNIT)) for one in DOMAINS]
)
def test_all_keep_the_guarantee_and_are_ordered_by_model_and_error(domain: Domain) -> None:
    rows = compared(domain)
    fit = {one.key for one in PROTOCOLS if isinstance(domain, one.domains)}
    assert {row.key for row in rows} == fit - (SEARCHED if domain is UNIT else set())
    for row in rows:
        assert row.reason is None
        assert row.protocol is not None
        assert row.protocol.n == 400
        assert row.protocol.domain == domain or row.spec.note
        assert row.guarantee is not None
        assert row.guarantee.epsilon == 2
        assert Fraction(row.guarantee.delta) <= DELTA * (1 + Fraction(1, 2**40))
        assert row.guarantee.delta == 0 or not row.spec.pure
        assert row.guarantee.delta > 0 or row.spec.pure or row.spec.model == "helpers"
        assert row.messages
    models = [row.spec.model for row in rows]
    assert models == sorted(models, key=["central", "helpers", "shuffle", "local"].index)
    for model in set(models):
        errors = [row.mse or 0 for row in rows if row.spec.model == model]
        assert errors == sorted(errors)


@pytest.mark.slow
def test_all_of_them() -> None:
    rows = comparison(1000, 1, DELTA)
    assert {row.key for row in rows} == {*QUICK, *SEARCHED}
    assert all(row.protocol is not None for row in rows)
    found = by_key(rows)
    digits = [found[f"recursive-{m}"].mse or 0 for m in (2, 3, 4)]
    assert digits == sorted(digits, reverse=True)
    assert (found["recursive-2"].mse or 0) < (found["privacy-blanket"].mse or 0)
    assert (found["central-laplace"].mse or 0) < (found["private-sum"].mse or 0) < 2.1
    of_categories = comparison(1000, 1, DELTA, domain=Categories([3, 4]))
    assert [row.key for row in of_categories] == [
        "central-gaussian",
        "helpers-vector-sum",
        "helpers-vector-sum-parties",
        "verified-vector-sum",
        "masked-vector-sum",
        "private-vector-sum",
        "verified-vector-sum-shuffled",
        "frequency-estimation",
        "frequency-sets",
    ]
    assert all("one question" in str(row.reason) for row in of_categories[6:])


@pytest.mark.points(0)
def test_rows_are_the_protocols_own_answers() -> None:
    ball, signs, at = Ball(5, 2), SparseTernary(5, 2), {"lower": -1, "upper": 3}
    box = Box(5, -ball.reach, ball.reach)
    expected: list[tuple[Domain, str, SumProtocol]] = [
        (UNIT, "private-sum", PrivateSum(100, 1, DELTA, **at)),
        (UNIT, "helpers-sum", PrivateSum(100, 1, DELTA, **at, transport="helpers")),
        (UNIT, "helpers-sum-parties", PrivateSum(100, 1, DELTA, **at, transport=PARTIES)),
        (UNIT, "private-sum-bbgn20", PrivateSum(100, 1, DELTA, **at, analysis="balle2020")),
        (UNIT, "designated-noise", DesignatedNoise(100, 1, DELTA, **at)),
        (UNIT, "sparse-noise-scrcs11", SparseNoise(100, 1, DELTA, accountant="published", **at)),
        (UNIT, "privacy-blanket", PrivacyBlanket(100, 1, DELTA, **at)),
        (UNIT, "unary-encoding", UnaryEncoding(100, 1, DELTA, **at)),
        (UNIT, "local-laplace", LocalLaplace(100, 1, **at)),
        (ball, "central-gaussian", CentralGaussian(100, ball, 1, DELTA)),
        (ball, "private-vector-sum", PrivateVectorSum(100, ball, 1, DELTA)),
        (
            ball,
            "helpers-vector-sum-parties",
            PrivateVectorSum(100, ball, 1, DELTA, transport=PARTIES),
        ),
        (ball, "kashin-private-sum", KashinPrivateSum(100, ball, 1, DELTA)),
        (ball, "one-coordinate", SampledCoordinates(100, box, 1, DELTA)),
        (signs, "collision", Collision(100, signs, 1, DELTA)),
        (signs, "local-collision", Collision(100, signs, 1)),
        (signs, "local-privkv", PrivKV(100, signs, 1)),
    ]
    for domain, key, protocol in expected:
        given: Any = at if domain is UNIT else {"domain": domain}
        (row,) = comparison(100, 1, DELTA, **given, protocols=[key])
        assert row.protocol == protocol
        cost = protocol.cost()
        assert (row.messages, row.bits) == (cost.messages_per_user, cost.bits_per_user)
        assert (row.guarantee, row.influence) == (protocol.guarantee, protocol.influence)
        assert (row.mse, row.rmse) == (protocol.mse, math.sqrt(protocol.mse))


@pytest.mark.slow
def test_fewer_honest_users() -> None:
    rows = by_key(comparison(200, 1, DELTA, min_honest=100, protocols=QUICK))
    assert rows["private-sum"].mse == PrivateSum(200, 1, DELTA, min_honest=100).mse
    assert rows["local-laplace"].mse == LocalLaplace(200, 1).mse
    for key in ("designated-noise", "sample-threshold"):
        assert rows[key].protocol is None
        assert rows[key].reason == "it needs all users to be honest and present"
        assert rows[key].messages is rows[key].bits is rows[key].guarantee is None
        assert rows[key].mse is rows[key].rmse is rows[key].influence is None
    (all_honest,) = comparison(200, 1, DELTA, min_honest=200, protocols=["designated-noise"])
    assert all_honest.protocol is not None
    (few,) = comparison(500, 1, DELTA, domain=Ball(4), min_honest=300, protocols=["one-coordinate"])
    assert few.protocol is not None
    assert few.protocol.min_honest == 300


def test_what_is_not_possible_says_why_and_stands_last() -> None:
    rows = comparison(5, 1, 0.01, protocols=["private-sum-bbgn20", "collision", "private-sum"])
    assert [row.key for row in rows] == ["private-sum", "private-sum-bbgn20", "collision"]
    assert "needs n >= 19" in (rows[1].reason or "")
    assert rows[2].reason == "domain must be a SparseTernary, got Bounds"
    made, not_made = rows[0].as_dict(), rows[1].as_dict()
    assert list(made) == list(not_made)
    numbers = ("messages", "bits", "mse", "rmse", "influence")
    assert all(made[name] == getattr(rows[0], name) for name in numbers)
    assert all(not_made[name] is None for name in (*numbers, "epsilon", "delta"))
    assert (made["reason"], not_made["reason"]) == (None, rows[1].reason)
    assert re.fullmatch(r"private-sum: error \d+(\.\d+)?, \d+ messages .*", str(rows[0]))
    assert str(rows[1]).startswith("private-sum-bbgn20: none, ")


def test_progress() -> None:
    calls: list[tuple[int, int]] = []
    keys = ["private-sum", "local-laplace", "private-sum"]
    comparison(100, 1, 0.01, protocols=keys, progress=lambda *step: calls.append(step))
    assert calls == [(1, 2), (2, 2)]


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        ({"n": 0}, ValueError, "n must"),
        ({"n": 10**9 + 1}, ValueError, "n must"),
        ({"epsilon": 0}, ValueError, "epsilon must"),
        ({"delta": 1}, ValueError, "delta must"),
        ({"lower": 1}, ValueError, "upper must"),
        ({"domain": 5}, TypeError, "domain must"),
        ({"domain": Ball(3), "upper": 2}, ValueError, "lower, upper and integers must"),
        ({"min_honest": 101}, ValueError, "min_honest must"),
        ({"protocols": "collision"}, TypeError, "protocols must be a sequence"),
        ({"protocols": 3}, TypeError, "protocols must be a sequence"),
        ({"protocols": [["private-sum"]]}, TypeError, "protocols must be a string"),
        ({"protocols": ["colision"]}, ValueError, "protocols must be one of"),
        ({"releases": 0}, ValueError, "releases must be at least 1"),
        ({"progress": 3}, TypeError, "progress must"),
    ],
)
def test_wrong_arguments_are_refused(change, error, text):
    given: dict[str, Any] = {"n": 100, "epsilon": 1, "delta": 1e-6}
    with pytest.raises(error, match=text):
        comparison(**given | change)


# Several releases


@pytest.mark.parametrize("key", ["private-sum", "central-discrete", "local-laplace"])
def test_releases_that_are_not_accounted_for_compose_to_the_guarantee(key: str) -> None:
    (row,) = comparison(1000, 1, DELTA, releases=52, protocols=[key])
    assert row.protocol is not None
    assert row.guarantee is not None
    each = row.protocol.guarantee
    assert each.epsilon > 1 / 52
    together = optimal_delta(1, 52, each.epsilon, each.delta)
    assert (row.guarantee.epsilon, row.guarantee.delta) == (1, together)
    assert together <= DELTA
    assert "52 reports per user in all" in " ".join(map(str, row.guarantee.conditions))
    assert not any("one report per user" in str(one) for one in row.guarantee.conditions)
    assert row.as_dict()["delta"] == together


@pytest.mark.points(0)
def test_releases_are_passed_to_those_that_account_for_them() -> None:
    keys = ["central-gaussian", "private-vector-sum"]
    central, ours = comparison(1000, 1, DELTA, domain=Box(3), releases=9, protocols=keys)
    assert central.protocol == CentralGaussian(1000, Box(3), 1, DELTA, releases=9)
    assert ours.protocol == PrivateVectorSum(1000, Box(3), 1, DELTA, releases=9)
    assert ours.protocol is not None
    assert ours.guarantee == ours.protocol.guarantee


# Servers, trust and tasks


@pytest.mark.points(0)
def test_servers_who_is_trusted_and_how_it_is_deployed() -> None:
    keys = ["central-laplace", "private-sum", "designated-noise", "privacy-blanket",
            "local-laplace"]  # fmt: skip
    rows = by_key(comparison(1000, 1, DELTA, protocols=keys))
    sent = rows["private-sum"].messages
    assert [rows[key].servers for key in keys] == [1, sent, rows[keys[2]].messages, 2, 1]
    assert [rows[key].task for key in keys] == [None, "shares", None, None, None]
    words = [str(rows[key].trusted) for key in keys]
    assert words[0] == "curator: all values, noise"
    assert words[1] == f"{(rows['private-sum'].servers or 0) - 1} shufflers: who sent what; " + (
        "users: randomness"
    )
    assert words[2].startswith("first user: all noise; ")
    assert words[3:] == ["shuffler: who sent what; users: randomness", "no one"]
    helped = comparison(1000, 1, DELTA, protocols=["helpers-sum", "helpers-sum-parties"])
    assert [(row.servers, row.messages, row.spec.model) for row in helped] == [
        (2, 2, "helpers")
    ] * 2
    assert [row.trusted for row in helped] == [
        "analyzer or helper: its shares; users: randomness",
        "analyzer or helper: its shares and noise",
    ]


@pytest.mark.slow
def test_tasks_have_the_transport_of_their_row() -> None:
    keys = ["private-vector-sum", "masked-vector-sum", "frequency-estimation"]
    for row in comparison(1000, 1, DELTA, domain=Categories([3]), protocols=keys):
        task = Task.new(
            1000, 1, DELTA, domain=Categories([3]), transport=row.task, min_honest=1000,
            kem="x25519",
        )  # fmt: skip
        assert task.protocol.mse == pytest.approx(row.mse, rel=0.05)
        if row.task == "shares":
            assert task.columns == row.servers  # one more
        if row.task == "frequencies":
            assert task.parties == row.servers
    signs = comparison(1000, 1, DELTA, domain=SparseTernary(6, 2), protocols=keys)
    assert [row.task for row in signs] == [None] * 3


def test_one_that_is_impossible_has_no_servers() -> None:
    (row,) = comparison(5, 1, 0.01, protocols=["collision"])
    assert (row.servers, row.trusted, row.task) == (None, None, None)


# Measuring


def row_of(key: str, n: int, **options: Any) -> ComparisonRow:
    (row,) = comparison(n, 1, Fraction(1, n**2), protocols=[key], **options)
    return row


@pytest.mark.parametrize(
    "key", ["private-sum", "helpers-sum-parties", "unary-encoding", "local-laplace"]
)
def test_errors_are_those_of_runs(key: str) -> None:
    row, values = row_of(key, 200, upper=7), np.linspace(0, 7, 200)
    measured = measure(row, values, 3, DeterministicRandom(5))
    assert row.protocol is not None
    source = DeterministicRandom(5)
    expected = [row.protocol.run(values, source).estimate - math.fsum(values) for _ in range(3)]
    assert list(measured.errors) == expected
    assert measure(row.protocol, values, 3, DeterministicRandom(5)).errors == measured.errors
    assert measured.runs == 3
    assert measured.rmse == pytest.approx(math.sqrt(np.mean(np.square(expected))))
    assert measured.seconds > 0


def test_errors_of_vectors_are_norms() -> None:
    protocol, x = PrivateVectorSum(50, Box(3), 1, 1e-3), np.full((50, 3), 0.25)
    measured = measure(protocol, x, 2, DeterministicRandom(5))
    source = DeterministicRandom(5)
    norms = [np.linalg.norm(protocol.run(x, source).estimate - 12.5) for _ in range(2)]
    assert measured.errors == pytest.approx(norms)


def test_a_protocol_of_ones_own_is_measured() -> None:
    result = SimpleNamespace(estimate=2.5)
    members: dict[str, Any] = dict.fromkeys(dir(LocalLaplace), lambda *_: result)
    members |= {"n": 4, "min_honest": 4, "domain": UNIT, "cost": LocalLaplace(4, 1).cost}
    protocol: Any = SimpleNamespace(**members)
    assert isinstance(protocol, SumProtocol)
    assert measure(protocol, [0.5, 1, 0, 0.75], 3).errors == (0.25, 0.25, 0.25)
    with pytest.raises(ValueError, match=r"x\[1\] must be in \[0, 1\]"):
        measure(protocol, [0.5, 2, 0, 0.75], 3)


@pytest.mark.parametrize("row", [None, "private-sum", PrivateSum, PROTOCOLS[0]])
def test_what_is_no_protocol_is_not_measured(row: Any) -> None:
    with pytest.raises(TypeError, match="row must be a ComparisonRow or a SumProtocol"):
        measure(row, [0.5], 1)


def test_interval_is_chi_square_with_two_fifths_of_a_degree_for_each_run() -> None:
    # 5 runs: two degrees, where the distribution is exponential with mean 2
    measured = Measurement((1.0, -2.0, 3.0, -4.0, 5.0), 0.1)
    low, high = measured.interval(0.9)
    scale = math.sqrt(2 * 55 / 5)
    assert low == pytest.approx(scale / math.sqrt(-2 * math.log(0.05)))
    assert high == pytest.approx(scale / math.sqrt(-2 * math.log(0.95)))
    assert tuple(Measurement((0.0, 0.0), 0.1).interval()) == (0, 0)


@pytest.mark.slow
@pytest.mark.parametrize("law", ["laplace", "normal"])
@pytest.mark.parametrize("runs", [2, 5, 20, 100])
def test_interval_covers(law: str, runs: int) -> None:
    """Of 2000 intervals each; 0.925 is five standard errors below 0.95."""
    rng = np.random.default_rng(2)
    draw = rng.laplace if law == "laplace" else rng.normal
    errors = draw(size=(2000, runs)) / (math.sqrt(2) if law == "laplace" else 1)
    inside = 0
    for sample in errors:
        low, high = Measurement(tuple(map(float, sample)), 0.0).interval()
        inside += low <= 1 <= high
    assert inside / 2000 > 0.925


@pytest.mark.slow
def test_runs_that_are_too_large_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    row = row_of("private-sum", 10**8)
    with pytest.raises(ValueError, match="a run has"):
        measure(row, [0.5], 1)
    with pytest.raises(ValueError, match="runs must be at least 1"):
        measure(row, [0.5], 0)
    absent = dataclasses.replace(row, protocol=None, refusal=ValueError("so it is"))
    with pytest.raises(ValueError, match="got none: so it is"):
        measure(absent, [0.5], 1)
    monkeypatch.setattr(measurement, "MAX_RUN", 10)
    row = row_of("unary-encoding", 100)
    assert row.protocol is not None
    assert measure(row, [0.5] * 100, 1).runs == measure(row.protocol, [0.5] * 100, 1).runs == 1
    with pytest.raises(ValueError, match="a run has"):
        measure(PrivacyBlanket(100, 1, 1e-4), [0.5] * 100, 1)
