"""The program that measures AFNNTZ24's laws for many messages."""

from __future__ import annotations

import importlib

import pytest
from pages import assert_drawn, page, rows

pytest.importorskip("matplotlib")


@pytest.fixture(name="module", scope="module")
def fixture_module():
    return importlib.import_module("analysis.afnntz24_rates")


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


# What the documentation shows


def shown():
    """Return the rows of the documentation's table, by what varies."""
    (body,) = rows(page("figures/afnntz24-rates.md")).values()
    return {panel: [row for row in body if row[0] == panel] for panel in ("d", "n", "ε")}


@pytest.mark.slow
@pytest.mark.reproduces
def test_the_documentations_messages_are_the_programs(module, tmp_path):
    counted = list(module.points(module.MESSAGES, 0, 1))
    module.Files(tmp_path).figure("afnntz24-messages", module.message_figure(counted))
    assert_drawn("afnntz24-messages", tmp_path)


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
