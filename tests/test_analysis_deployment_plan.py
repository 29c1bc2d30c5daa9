"""The plan on paper: its formulas with rates that are made up, and the program with real ones."""

from __future__ import annotations

import importlib
import math

import pytest
from pages import page, rows

from ikos import PrivateSum, SecureSum

pytest.importorskip("matplotlib")


def module(name):
    return importlib.import_module(f"analysis.{name}")


@pytest.fixture(name="program", scope="module")
def fixture_program():
    return module("deployment_plan")


@pytest.fixture(name="measuring", scope="module")
def fixture_measuring():
    return module("machine_rates")


@pytest.fixture(name="rates", scope="module")
def fixture_rates(measuring):
    return measuring.Rates(
        overhead=48,
        report=1.0,
        together=0.5,
        seal=2.0,
        open=3.0,
        connection=measuring.Connection(5.0, 7.0, 300, 900),
        orderings=(measuring.Ordering(2**4, 0.25, 100.0), measuring.Ordering(2**10, 0.5, 120.0)),
        add=0.125,
        simulated=0.1,
    )


# Formulas


def test_what_each_party_needs(program, rates):
    n, m, share, envelope = 1000, 4, 5, 53
    protocol = SecureSum(n, 2**37, messages=m + 1).transport
    client, shuffler, analyzer = program.needs(protocol, rates)
    assert (client.parties, shuffler.parties, analyzer.parties) == (n, m, 1)
    assert client.messages == 5
    assert client.bytes_out == 4 * (16 + envelope + 300) + (16 + share + 300)
    assert client.bytes_in == 5 * (900 + 64)
    assert client.seconds == 1 + 4 * 2 + 5 * 5
    assert shuffler.messages == n
    assert shuffler.bytes_in == n * (16 + envelope + 300) + 16 * n
    assert shuffler.bytes_out == n * (900 + 64) + 16 * n + envelope * n
    assert shuffler.seconds == 7 * n + 0.5 * n
    assert shuffler.memory == 120 * n
    assert analyzer.messages == 5 * n
    assert analyzer.bytes_in == n * (16 + share + 300) + 4 * n * (16 + envelope)
    assert analyzer.bytes_out == n * (900 + 64) + 4 * 16 * n
    assert analyzer.seconds == 7 * n + 4 * n * 3 + 5 * n * 0.125
    assert analyzer.memory == 32 * n


def test_what_is_sent_is_received(program, rates):
    """Over all parties: bytes out are bytes in, up to the lists of ids and of the complete ones."""
    protocol = SecureSum(100, 2**64, messages=8).transport
    found = program.needs(protocol, rates)
    sent = sum(need.parties * need.bytes_out for need in found)
    got = sum(need.parties * need.bytes_in for need in found)
    assert sent == got


# Measuring


@pytest.mark.slow
@pytest.mark.parametrize(
    "make", [lambda n: PrivateSum(n, 1, 1e-6), lambda n: SecureSum(n, 2**64, messages=4)]
)
def test_rates_of_both_sums(measuring, make):
    steps = []
    rates = measuring.measured(
        make, 10**6, [3000, 1000], id_bytes=16, repeats=1, count=3, crowd=100,
        step=lambda: steps.append(1),
    )  # fmt: skip
    assert [o.size for o in rates.orderings] == [1000, 3000]
    assert rates.overhead == 48
    width = math.ceil(getattr(make(10**6), "modulus", 2**64).bit_length() / 8)
    for ordering in rates.orderings:  # the envelopes before and after are held at once
        assert ordering.memory >= 2 * (48 + width - 1)
    assert len(steps) == 7
    times = (rates.report, rates.together, rates.seal, rates.open, rates.simulated)
    assert min(times) > 0


# What the documentation shows


@pytest.mark.points(0)
def test_the_documentations_parameters_are_those_of_the_sums():
    (body,) = (
        body for head, body in rows(page("figures/deployment-plan.md")).items() if head[1] == "p"
    )
    assert [row[0] for row in body] == [f"10^{e}" for e in range(6, 11)]
    for e, row in enumerate(body, 6):
        protocol = PrivateSum(10**e, 1, 1e-12)
        bits = protocol.modulus.bit_length() - 1
        assert row[1:5] == (
            f"{protocol.precision:,}",
            f"2^{bits}",
            f"{protocol.messages.shuffled} + 1",
            f"{48 + -(-bits // 8)} B",
        )
