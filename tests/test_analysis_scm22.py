"""The program that computes SCM22's figures anew."""

from __future__ import annotations

import csv
import importlib
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from pages import assert_drawn, page, prose, rows

from ikos import Box
from ikos.baselines import SampledCoordinates
from ikos.testing import DeterministicRandom

pytest.importorskip("matplotlib")

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(name="module", scope="module")
def fixture_module():
    return importlib.import_module("analysis.scm22_figures")


def test_the_data_are_in_the_box_and_the_same_every_time(module):
    x = module.heartbeats(500, 60, 1)
    assert x.shape == (500, 60)
    assert x.min() == 0
    assert 0.9 < x.max() <= 1
    assert (x[:, -1] == 0).mean() > 0.9  # curves end before the time does
    assert x[:, 13].mean() > 3 * x[:, 40].mean()  # the peak
    module.heartbeats.cache_clear()
    assert (module.heartbeats(500, 60, 1) == x).all()
    assert (module.heartbeats(500, 60, 2) != x).any()


@pytest.mark.slow
def test_both_errors_where_they_can_be_told(module):
    """Where everybody reports everything, both are the same but for their scale."""
    x = np.asarray(module.heartbeats(400, 6, 1))
    protocol = SampledCoordinates(400, Box(6), 3, 1e-3, messages=6, precision=2)
    own, whole = module.errors(protocol, x, DeterministicRandom(1))
    assert own == pytest.approx(whole * 6**2, rel=1e-9)
    # with few random answers and many steps hardly anything but the sampling is left
    for messages, sampling in ((1, "stratified"), (2, "stratified"), (2, "uniform")):
        protocol = SampledCoordinates(
            400, Box(6), 50, 0.1, messages=messages, precision=200, sampling=sampling, centre=0
        )
        own, whole = module.errors(protocol, x, DeterministicRandom(1))
        spread = float(((6 / messages - 1) * (x**2).sum(axis=0)).sum()) / 400**2
        assert own < whole / 5
        assert spread / 20 < whole < spread * 20


def test_measured_errors_are_below_the_bounds(module):
    """A seeded run: the means of 20 runs stay below 1.5 times what they can be."""
    for setting in (
        module.Setting(True, d=10, n=5000),
        module.Setting(False, d=10, n=5000, t=2),
    ):
        protocol = setting.protocol()
        found = module.measure(setting, 20, 1)
        assert 0 < found.own < 1.5 * protocol.published_error()
        assert 0 < found.whole < 1.5 * protocol.mse / 5000**2
        assert found.gamma == float(protocol.gamma)
        assert found.proved_delta == protocol.guarantee.delta
        assert found.own_error < found.own


@pytest.mark.slow
def test_exponents_and_references(module):
    x = (1.0, 2.0, 5.0)
    assert module.exponent(x, [v**-1.5 for v in x]) == pytest.approx(-1.5)
    base = module.Setting(False, n=20_000)
    by_n = [module.best_own(module.replace(base, n=n)) for n in (20_000, 500_000)]
    assert module.exponent([20_000, 500_000], by_n) == pytest.approx(-5 / 3, abs=0.1)
    by_d = [module.best_own(module.replace(base, d=d)) for d in (10, 1000)]
    assert module.exponent([10, 1000], by_d) == pytest.approx(2, abs=1e-6)  # not 8/3
    published = module.Setting(True, n=10**7)
    bounds = [module.bound(module.replace(published, d=d)) for d in (10, 20)]
    assert module.exponent([10, 20], bounds) == pytest.approx(8 / 3, abs=0.05)
    assert module.bound(module.Setting(True, n=300)) is None


@pytest.mark.slow
def test_a_quick_run_writes_what_it_says(module, tmp_path):
    result = CliRunner().invoke(module.command, ["--output", str(tmp_path), "--quick"])
    assert result.exit_code == 0, result.output
    names = {path.name for path in tmp_path.iterdir()}
    figures = {f"scm22-figure-{i}.{kind}" for i in (1, 2, 3) for kind in ("svg", "png")}
    assert names == {"scm22-errors.csv", "scm22.md", *figures}
    with (tmp_path / "scm22-errors.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["figure"] for row in rows} == {"1", "2", "3"}
    assert {row["parameters"] for row in rows} == {"published", "exact"}
    for row in rows:
        assert float(row["proved_delta"]) <= float(row["delta"])
        assert 0 < float(row["gamma"]) < 1
        assert float(row["own_over_reports"]) == pytest.approx(
            float(row["own"]) / int(row["t"]) ** 2
        )
    text = (tmp_path / "scm22.md").read_text()
    assert text.count("exact accountant") == 4
    assert "whole error" in text


def run_figures(module, monkeypatch, folder, *numbers):
    """Compute some of the figures in full, and return the tables that are written."""
    monkeypatch.setattr(module, "FIGURES", {number: module.FIGURES[number] for number in numbers})
    made = CliRunner().invoke(module.command, ["--output", str(folder)])
    assert made.exit_code == 0, made.output
    return rows((folder / "scm22.md").read_text(encoding="utf-8"))


@pytest.mark.slow
@pytest.mark.reproduces
def test_the_documentations_figure_and_table_are_the_programs(module, monkeypatch, tmp_path):
    """Figure 1, which takes most of the program's time: nearly a minute."""
    computed = run_figures(module, monkeypatch, tmp_path, 1)
    assert_drawn("scm22-figure-1", tmp_path)
    (head,) = (head for head in computed if "t" in head)
    shown = rows(page("vector-protocols.md"))[head]
    assert len(shown) == 5
    assert set(shown) <= set(computed[head])
    whole = {(row[0], row[1]): float(row[-1]) for row in computed[head]}
    text = prose(page("vector-protocols.md"))
    assert f"falls by a factor of {whole['exact', '1'] / whole['exact', '100']:.0f} " in text
    first, second = (row for row in computed[head] if row[0] == "paper" and row[1] in "12")
    assert f"γ is {float(first[2]):.2f} for t = 1, {float(second[2]):.2f} for t = 2" in text
    assert f"10^-{first[3].rpartition('-')[2]}" in text


@pytest.mark.slow
@pytest.mark.reproduces
def test_the_documentations_exponents_are_the_programs(module, monkeypatch, tmp_path):
    """Those of figures 2 and 3; the page has one digit, and two of an exponent of the law."""
    computed = run_figures(module, monkeypatch, tmp_path, 2, 3)
    (body,) = (body for head, body in computed.items() if "paper's law" in head)
    found = {(row[0], row[1].split()[0]): row for row in body}
    text = prose(page("vector-protocols.md"))

    def one(axis, parameters, column):
        return f"{float(found[axis, parameters][column]):.1f}".replace("-", "−")

    axes = "coordinates d", "users n", "ε up to 1", "ε above 1"
    own = [one(axis, "the", 3) for axis in axes]
    assert "its own error on the same data has {}, {} and {} ({} above ε = 1)".format(*own) in text
    best = [one(axes[0], "exact", 4), found[axes[1], "exact"][4].replace("-", "−")]
    best += [one(axis, "exact", 4) for axis in axes[2:]]
    assert "in the worst case, it has {}, {} and {} ({} above 1,".format(*best) in text
    whole = [one(axis, "exact", 6) for axis in axes]
    assert whole[2] == whole[3]
    assert "The whole error has {}, {} and {}.".format(*whole) in text


@pytest.mark.slow
def test_the_documentations_random_answers_are_the_calculators(module):
    text = prose(page("vector-protocols.md"))
    base = module.Setting(False, t=2)
    stratified = base.protocol().gamma
    uniform = module.sampled_answers(
        base.epsilon, base.delta, base.n, base.d, base.k, base.t, sampling="uniform"
    ).gamma
    assert f"{float(uniform / stratified):.0f} times in the example with t = 2" in text
    published = module.Setting(True)
    above = [
        t
        for t in (12, 13, 14)
        if base.k * module.published_gamma(published.epsilon, 0.5, base.n, base.d, 1, t) >= 1
    ]
    assert f"and above 1 from t = {above[0]} on" in text
