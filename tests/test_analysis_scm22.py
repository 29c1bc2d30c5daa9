"""The program that computes SCM22's figures anew."""

from __future__ import annotations

import importlib

import numpy as np
import pytest

from ikos import Box
from ikos.baselines import SampledCoordinates
from ikos.testing import DeterministicRandom

pytest.importorskip("matplotlib")


@pytest.fixture(name="module", scope="module")
def fixture_module():
    return importlib.import_module("analysis.scm22_figures")


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


@pytest.mark.slow
def test_exponents_and_references(module):
    x = (1.0, 2.0, 5.0)
    assert module.exponent(x, [v**-1.5 for v in x]) == pytest.approx(-1.5)
    base = module.FigureSetting(False, n=20_000)
    by_n = [module.best_own(module.replace(base, n=n)) for n in (20_000, 500_000)]
    assert module.exponent([20_000, 500_000], by_n) == pytest.approx(-5 / 3, abs=0.1)
    by_d = [module.best_own(module.replace(base, d=d)) for d in (10, 1000)]
    assert module.exponent([10, 1000], by_d) == pytest.approx(2, abs=1e-6)  # not 8/3
    published = module.FigureSetting(True, n=10**7)
    bounds = [module.bound(module.replace(published, d=d)) for d in (10, 20)]
    assert module.exponent([10, 20], bounds) == pytest.approx(8 / 3, abs=0.05)
    assert module.bound(module.FigureSetting(True, n=300)) is None


@pytest.mark.parametrize("k", [1, 2, 3])
def test_the_variance_of_an_answer_is_that_of_all_outcomes(module, k):
    gamma = 0.3
    for x in (0.0, 0.2, 0.5, 0.9, 1.0):
        below = min(int(x * k), k - 1)
        law = np.full(k + 1, gamma / (k + 1))
        law[below] += (1 - gamma) * (below + 1 - x * k)
        law[below + 1] += (1 - gamma) * (x * k - below)
        debiased = (np.arange(k + 1) / k - gamma / 2) / (1 - gamma)
        assert law @ debiased == pytest.approx(x)
        expected = law @ (debiased - x) ** 2
        assert module.answer_variance(x, k, gamma) == pytest.approx(expected)


@pytest.mark.slow
@pytest.mark.reproduces
def test_the_precision_of_the_vector_tables_is_the_best_one():
    from analysis.vector_tables import BUDGET, PRECISIONS

    n, box = 10**7, Box(1024)
    below, best, above = (
        SampledCoordinates(n, box, *BUDGET, messages=1024, precision=PRECISIONS[n] + step).mse
        for step in (-1, 0, 1)
    )
    assert best < min(below, above)
