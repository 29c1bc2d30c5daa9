"""The program that computes WLQDLY21's figures: what it simulates has the protocols' law."""

from __future__ import annotations

import csv
import importlib
import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from click.testing import CliRunner
from pages import assert_drawn, page
from pages import rows as table_rows
from scipy import stats
from vectors.key_value_laws import collision_law

from ikos import SparseTernary
from ikos.baselines import PCKVGRR, PCKVUE, Collision, PrivKV
from ikos.testing import DeterministicRandom

pytest.importorskip("matplotlib")


FALSE_ALARM = 1e-9


@pytest.fixture(name="program", scope="module")
def fixture_program():
    return importlib.import_module("analysis.wlqdly21_figures")


# What is simulated


@pytest.mark.parametrize(("s", "t"), [(1, 2), (2, 3), (3, 4), (2, 5)])
def test_the_law_of_hits_is_definition_3s(program, s, t):
    """Over all hash values of a user's s events."""
    gamma = Fraction(1, 3)
    odds = 1 + Fraction(t, s) * (1 - gamma) / gamma
    law = [Fraction(0)] * (s + 1)
    for values in product(range(t), repeat=s):
        for z, chance in collision_law(values, s, t, odds).items():
            law[values.count(z)] += chance / t**s
    np.testing.assert_allclose(program.hits_law(s, t, float(gamma)), [float(p) for p in law])


SMALL = {
    "collision": lambda n, **b: Collision(n, SparseTernary(6, 3), **b),
    "privkv": lambda n, **b: PrivKV(n, SparseTernary(6, 3), **b),
    "pckv-grr": lambda n, **b: PCKVGRR(n, SparseTernary(6, 3), **b),
    "pckv-ue": lambda n, **b: PCKVUE(n, SparseTernary(6, 3), **b),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
def test_simulated_counts_have_the_law_of_a_run(program, name):
    """Kolmogorov and Smirnov's test of two samples, with the exact law of its statistic."""
    protocol = SMALL[name](200, epsilon=2)
    rng = np.random.default_rng(1)
    people = program.People.drawn(200, 6, 3, rng)
    source, x = DeterministicRandom(2), people.vectors
    runs = 300
    made = np.array([program.simulated(protocol, people, rng) for _ in range(runs)])
    real = np.array([protocol.run(x, source).counts for _ in range(runs)])
    weights = np.arange(1, 13).reshape(6, 2)
    summaries = (
        lambda c: c[:, 0, 0],
        lambda c: c[:, 5, 1],
        lambda c: (c * weights).sum(axis=(1, 2)),
        lambda c: np.array([program.errors(one, people)[0] for one in c]),
    )
    for summary in summaries:
        test = stats.ks_2samp(summary(made), summary(real), method="exact")
        assert test.pvalue > FALSE_ALARM


def test_errors_are_of_projected_frequencies(program):
    people = program.People.drawn(50, 4, 2, np.random.default_rng(0))
    assert program.errors(people.counts.reshape(4, 2).astype(float), people) == pytest.approx(
        (0, 0)
    )
    tve, mae = program.guess_errors(people)
    away = np.abs(people.counts / 50 - 2 / 8)
    assert (tve, mae) == pytest.approx((away.sum(), away.max()))
    tve, mae = program.errors(1e9 * np.eye(8)[0].reshape(4, 2), people)  # one event has it all
    assert tve == pytest.approx(2 * (2 - people.counts[0] / 50))
    assert mae == pytest.approx(2 - people.counts[0] / 50)


def test_central_noise_is_the_smaller_of_two(program):
    assert program.central_noise(1, 0.5, 1e-5) == pytest.approx(math.sqrt(2) * 4)
    sigma = program.central_noise(64, 0.5, 1e-5)
    assert sigma < math.sqrt(2) * 2 * 64 / 0.5
    a, b = 16 / (2 * sigma), 0.5 * sigma / 16
    delta = stats.norm.cdf(a - b) - math.exp(0.5) * stats.norm.cdf(-a - b)
    assert delta == pytest.approx(1e-5, rel=1e-6)


# What the documentation shows


@pytest.mark.slow
@pytest.mark.reproduces
def test_the_documentations_figure_tables_and_numbers_are_the_programs(program, tmp_path):
    """The whole program, three quarters of a minute."""
    made = CliRunner().invoke(program.command, ["--output", str(tmp_path)])
    assert made.exit_code == 0, made.output
    for name in (
        "wlqdly21-figures-1-2", "wlqdly21-figures-3-4", "wlqdly21-figures-5-6", "wlqdly21-local",
        "wlqdly21-shuffled",
    ):  # fmt: skip
        assert_drawn(name, tmp_path)
    computed = table_rows((tmp_path / "wlqdly21.md").read_text(encoding="utf-8"))
    text = page("vector-protocols.md")
    shown = {head: body for head, body in table_rows(text).items() if "PCKV-GRR" in head}
    assert [len(body) for body in shown.values()] == [4, 4]
    for head, body in shown.items():
        assert set(body) <= set(computed[head])

    with (tmp_path / "wlqdly21-errors.csv").open(newline="") as file:
        points = list(csv.DictReader(file))
    found = {}
    for row in points:
        where = row["figures"], row["s"], float(row["epsilon"])
        found.setdefault(where, {})[row["mechanism"]] = float(row["tve"]), float(row["mae"])
    for (_, _, epsilon), errors in found.items():
        ours, guess = errors["Collision"], errors.pop(program.GUESS)
        others = [errors[name] for name in ("PrivKV", "PCKV-GRR", "PCKV-UE")]
        assert epsilon < 0.01 or all(
            a < b for one in others for a, b in zip(ours, one, strict=True)
        )
        assert all(a < b for one in errors.values() for a, b in zip(guess, one, strict=True))
