"""The program that measures AFNNTZ24's laws for many messages."""

from __future__ import annotations

import csv
import importlib
import math
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from pages import page, prose, rows

pytest.importorskip("matplotlib")

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(name="module", scope="module")
def fixture_module():
    return importlib.import_module("analysis.afnntz24_rates")


def table(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.slow
def test_quick(module, tmp_path):
    result = CliRunner().invoke(module.command, ["--quick", "--output", str(tmp_path)])
    assert result.exit_code == 0, result.output
    names = {f"afnntz24-{name}" for name in ("errors", "messages", "kashin")}
    assert {path.stem for path in tmp_path.iterdir()} == names | {"afnntz24-rates"}
    assert len(list(tmp_path.iterdir())) == 10
    rows = table(tmp_path / "afnntz24-errors.csv")
    assert {row["protocol"] for row in rows} == set(module.PROTOCOLS)
    for row in rows:
        # of three runs; a mean square beyond 50 times the bound has a probability below 1/50
        assert float(row["measured"]) < 50 * float(row["bound"])
    for row in table(tmp_path / "afnntz24-messages.csv"):
        assert row["measured"] == ""
        assert float(row["messages"]) > 0


def test_constants_are_between_what_is_possible_and_the_default(module):
    found = module.kashin_constants(16, 10, 1)
    raw = found.pop("no search: coefficients of U x")
    assert all(1.2 <= constant <= 2.5 for constant in found.values())
    assert max(found.values()) < raw <= 4.0 + 1e-9  # sqrt(d), which rows of the frame nearly reach


@pytest.mark.slow
def test_errors_follow_the_law(module):
    """The bounds' exponents in d and epsilon are those of Theorem 2.6, n's is 0."""
    plain = next(iter(module.PROTOCOLS.values()))
    for settings, law in (
        ([(10**5, d, 1.0) for d in (32, 128, 512)], 1.0),
        ([(10**5, 64, e) for e in (0.25, 0.5, 1.0)], -2.0),
        ([(n, 64, 1.0) for n in (10**3, 10**4, 10**5)], 0.0),
    ):
        place = next(i for i in range(3) if len({setting[i] for setting in settings}) > 1)
        varied = [float(setting[place]) for setting in settings]
        found = module.exponent(varied, [plain(*setting).mse for setting in settings])
        assert found == pytest.approx(law, abs=0.12)


def test_data_have_norm_1(module):
    x = module.data(50, 7, 3)
    assert np.allclose(np.linalg.norm(x, axis=1), 1)
    assert np.linalg.norm(x.sum(axis=0)) > math.sqrt(50)


# What the documentation shows


def shown():
    """Return the rows of the documentation's table, by what varies."""
    (body,) = rows(page("figures/afnntz24-rates.md")).values()
    return {panel: [row for row in body if row[0] == panel] for panel in ("d", "n", "ε")}


def test_the_documentations_exponents_are_those_of_its_table(module):
    assert "```{include} figures/afnntz24-rates.md\n```" in page("vector-protocols.md")
    exponents = []
    for place, (panel, body) in enumerate(shown().items()):
        n, d, epsilon = (
            [float(row[i].replace("10^", "1e").replace(",", "")) for row in body] for i in (1, 2, 3)
        )
        assert list(zip(n, d, epsilon, strict=True)) == list(module.ERRORS[panel])
        errors = [float(row[-1].replace(",", "")) for row in body]
        exponents.append(module.exponent((d, n, epsilon)[place], errors))
    first, second, third = (f"{value:.2f}".replace("-", "−") for value in exponents)
    assert f"as d^{first}, n^{second} and ε^{third}, where" in prose(page("vector-protocols.md"))


@pytest.mark.slow
@pytest.mark.reproduces
def test_the_documentations_errors_are_the_programs(module, monkeypatch):
    """Those that take seconds: all of epsilon, some of d and n."""
    first = next(iter(module.PROTOCOLS))
    monkeypatch.setattr(module, "PROTOCOLS", {first: module.PROTOCOLS[first]})
    table = shown()
    for panel, most in (("ε", 5), ("n", 2), ("d", 3)):
        some = module.ERRORS[panel][:most]
        text = module.measured_table(module.points({panel: some}, 20, 1))
        (body,) = rows(text).values()
        assert body == table[panel][:most]
