"""The plan on paper: its formulas with rates that are made up, and the program with real ones."""

from __future__ import annotations

import csv
import importlib
import math
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from pages import page, rows

from ikos import PrivateSum, SecureSum

pytest.importorskip("matplotlib")

ROOT = Path(__file__).resolve().parents[1]


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


@pytest.fixture(name="refused")
def fixture_refused(program, monkeypatch, capsys):
    def refused(*arguments):
        monkeypatch.setattr(sys, "argv", ["program", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            program.main(program.command)
        assert end.value.code == 2
        said = capsys.readouterr()
        assert said.out == ""
        assert said.err.count("\n") == 1
        return said.err

    return refused


# Formulas


def test_what_each_party_needs(program, rates):
    n, m, share, envelope = 1000, 4, 5, 53
    protocol = SecureSum(n, 2**37, messages=m + 1)
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
    protocol = SecureSum(100, 2**64, messages=8)
    found = program.needs(protocol, rates)
    sent = sum(need.parties * need.bytes_out for need in found)
    got = sum(need.parties * need.bytes_in for need in found)
    assert sent == got


def test_ordering_rises_and_is_that_of_the_next_larger_size(program, rates):
    assert program.ordering_seconds(rates, 10) == 10 * 0.25
    assert program.ordering_seconds(rates, 17) == 17 * 0.5
    assert program.ordering_seconds(rates, 2**10) == 2**10 * 0.5
    assert program.ordering_seconds(rates, 2**20) == 2**20 * 0.5 * 2
    times = [program.ordering_seconds(rates, n) for n in range(1, 5000)]
    assert times == sorted(times)


def test_limits(program, rates):
    protocol = SecureSum(1000, 2**37, messages=5)
    found = program.needs(protocol, rates)
    one = program.Machine(cores=2, memory=60_000.0, network=100.0, window=1000.0, files=2)
    shares = program.limits(found, one)
    assert shares["one shuffler: memory"] == 2
    assert shares["one shuffler: cores"] == 7500 / 2000
    assert shares["one shuffler: network"] == max(found[1].bytes_in, found[1].bytes_out) / 1e5
    assert shares["the analyzer: memory"] == 32_000 / 60_000
    assert shares["each party: open connections"] == 0.5
    assert not any("client" in name for name in shares)


@pytest.mark.parametrize("value", [1, 999, 1001, 123456, 9.99e5, 1e12, 3.3e15, 5e16])
def test_texts_are_not_below_the_truth(program, value):
    number, unit = program.bytes_text(value).replace(",", "").split()
    shown = float(number) * 1000 ** ("B", "kB", "MB", "GB", "TB", "PB").index(unit)
    assert value * (1 - 1e-12) <= shown <= 1.1 * value


# Measuring


def test_a_connection_costs_both_ends(measuring):
    made = measuring.connection(100)
    assert made.client > 0
    assert made.server > 0
    assert 200 < made.up < 10_000
    assert 500 < made.down < 10_000  # with a certificate


def test_the_slowest_counts(measuring):
    loops = iter([1, 300_000, 1])
    assert measuring.slowest(lambda: sum(range(next(loops))), 3) > 1e-4


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


def test_no_two_limits_look_alike(program, rates):
    from matplotlib.colors import to_hex

    from analysis.plots.deployment import limits_figure

    one = program.Machine(cores=1, memory=1.0, network=1.0, window=1.0, files=1)
    found = program.limits(program.needs(SecureSum(1000, 2**37, messages=5), rates), one)
    figure = limits_figure({name: {1000: value} for name, value in found.items()}, "Limits")
    lines = figure.axes[0].get_lines()
    colours = {to_hex(line.get_color()) for line in lines}
    assert len(colours) == len(lines) == len(found) + 1  # and the line at one machine


# The program


@pytest.mark.slow
def test_the_program(program, tmp_path):
    arguments = ["--quick", "--users", "1e6", "--users", "10^9", "--output", str(tmp_path / "new")]
    made = CliRunner().invoke(program.command, arguments)
    assert made.exit_code == 0, made.output
    names = {path.name for path in (tmp_path / "new").iterdir()}
    assert names == {f"deployment-plan.{end}" for end in ("md", "csv", "svg", "png")}
    text = (tmp_path / "new" / "deployment-plan.md").read_text(encoding="utf-8")
    assert made.stdout.startswith(text)
    with (tmp_path / "new" / "deployment-plan.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(int(row["n"]), row["party"]) for row in rows] == [
        (n, party) for n in (10**6, 10**9) for party in ("client", "shuffler", "analyzer")
    ]
    for row in rows:
        protocol = PrivateSum(int(row["n"]), 1, 1e-12)
        assert int(row["q"]) == protocol.modulus
        assert int(row["shuffled"]) == protocol.messages.shuffled
        assert f"{protocol.precision:,}" in text
        assert float(row["core_seconds"]) > 0
    assert int(rows[5]["messages"]) == 10**9 * protocol.messages.total
    assert "extrapolated" in text


def test_a_secure_sum_is_planned_and_nothing_is_written(program, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    arguments = ["--quick", "--users", "1e7", "--modulus", "2^64", "--sigma", "80"]
    made = CliRunner().invoke(program.command, [*arguments, "--memory", "1e3", "--cores", "2^6"])
    assert made.exit_code == 0, made.output
    assert "One has 64 such\ncores, 1000 GiB," in made.stdout
    assert "2^64" in made.stdout
    assert f"{SecureSum(10**7, 2**64).messages.shuffled} + 1" in made.stdout
    assert list(tmp_path.iterdir()) == []


def test_what_is_refused(refused, tmp_path):
    assert "not both" in refused("--epsilon", 1, "--sigma", 80)
    assert "together" in refused("--modulus", "2^64")
    assert "--users" in refused("--users", "many")
    assert "--delta" in refused("--delta", 2)
    assert refused("--memory", 0).endswith("--memory must be at least 1, got 0\n")
    assert "--hours" in refused("--hours", 1.5)
    blocked = tmp_path / "file"
    blocked.write_text("here")
    assert "output" in refused("--quick", "--output", blocked)


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
