"""The comparison with published accountants and protocols, which serve as oracles."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from scipy import fft, stats

from analysis import peers as module
from ikos.noise.skellam_noise import least_skellam

CHECKS = (
    *(0.0432062, 0.118153, 0.131801, 0.0378431, 0.0952164, 0.106526),
    *(0.080161, 0.080161, 0.00637547, 0.00188297, 10.36, 10.28, 10.2006176, 7.21, 7.88),
)
"""Of each row what other numerics gave for the same proof; for histograms, what there was."""


@cache
def ours(i: int) -> float:
    return module.ROWS[i].ours()


@pytest.mark.slow
@pytest.mark.parametrize("i", range(len(module.ROWS)))
def test_no_sound_peer_is_better(i: int) -> None:
    row = module.ROWS[i]
    assert ours(i) <= 1.002 * CHECKS[i]
    assert row.false or ours(i) <= 1.002 * row.peer
    least = row.least(ours(i))
    assert least is None or least <= ours(i)
    assert row.false == (least is not None and row.peer < least)


def test_one_published_number_is_false() -> None:
    (row,) = (row for row in module.ROWS if row.false)
    assert row.attained is not None
    assert row.attained(row.peer) > 1.0065e-6 > row.delta == 1e-6


@pytest.mark.parametrize("local", [1, 4, 6])
def test_laplace_noise_among_zeros_is_a_report_of_two_laws(local: int) -> None:
    report = module.laplace_among_zeros(local, cells=64)
    ends = np.concatenate(([-np.inf], np.linspace(0, 1, 65), [np.inf]))
    for found, centre in ((report.first, 0), (report.second, 1)):
        exact = np.diff(stats.laplace.cdf(ends, centre, 1 / local))
        np.testing.assert_allclose(found, exact, rtol=1e-9)
    low, high = report.second_ratio
    mean = report.second / report.blanket
    assert np.all(low <= mean * (1 + 1e-12))
    assert np.all(mean <= high * (1 + 1e-12))


# The peers, anew


def rounded_up(z: np.ndarray, mass: np.ndarray, n: int, local: int) -> float:
    """Return E[(Z_1 + ... + Z_n)_+] / n by SCW25's transform, each Z rounded up to its step."""
    step, points = math.expm1(local) / 1200, 1 << 23
    law = np.zeros(points)
    np.add.at(law, np.ceil(z / step - 1e-12).astype(np.int64) % points, mass)
    total = fft.irfft(fft.rfft(law) ** n, points)
    places = np.arange(1, points // 2)
    return step / n * float(np.dot(places, total[1 : points // 2]))


@pytest.mark.slow
@pytest.mark.parametrize("i", [i for i, row in enumerate(module.ROWS) if row.source == "SCW25"])
def test_the_numbers_of_scw25(i: int) -> None:
    row = module.ROWS[i]
    n, local = ((10**4, 1), (10**5, 4), (10**6, 6), (1000, 1))[i - 3]
    assert divergence(row, n, local, row.peer) <= row.delta
    assert divergence(row, n, local, row.peer * 0.999) > row.delta


def divergence(row: module.Row, n: int, local: int, epsilon: float) -> float:
    p, o = math.exp(local), math.exp(epsilon)
    if "Laplace" in row.what:
        y = np.linspace(0, 0.5, 20_001)
        mass = -np.expm1(-local * np.diff(y)) / 2 * np.exp(-local * (1 - y[1:]))
        u = np.exp(local * (1 - y[1:] - y[:-1]))
        z = np.concatenate(([p - o, 1 - p * o], u - o, 1 - o * u, [0]))
        mass = np.concatenate(([1 / (2 * p)] * 2, mass, mass, [1 - math.exp(-local / 2)]))
    else:
        z, mass = np.array([p - o, 1 - p * o, 1 - o, 0]), np.array([1, 1, 8, p - 1]) / (p + 9)
    return rounded_up(z, mass, n, local)


def test_the_noise_of_lwy22() -> None:
    """That P[1 + X >= e^eps X'] is at most delta: 97.9614 is in their program's own output."""

    def misses(noise: float, n: int) -> float:
        x = np.arange(1000)
        above = stats.binom.sf(np.maximum(np.ceil(math.e * x - 1), 0) - 1, n, noise / n)
        return float(np.dot(stats.binom.pmf(x, n, noise / n), above))

    for noise, delta in ((97.9614, 1e-10), (module.NOISE, 1e-8)):
        assert misses(noise, 10**5) <= delta < misses(noise - 0.2, 10**5)


def test_the_number_of_akl21_is_that_of_renyi_orders() -> None:
    """At many steps a unit, where Skellam noise is as private as Gaussian noise."""
    dp_accounting = pytest.importorskip("dp_accounting")
    orders = np.linspace(10, 60, 501)
    peer = next(row.peer for row in module.ROWS if row.source == "AKL21")
    found = dp_accounting.rdp.rdp_privacy_accountant.compute_epsilon(
        orders, orders * 2 / peer**2, 1e-8
    )[0]
    assert found == pytest.approx(1, abs=2e-3)


def test_the_analytic_gaussian_of_dp_accounting() -> None:
    mechanisms = pytest.importorskip("dp_accounting.pld.privacy_loss_mechanism")
    common = pytest.importorskip("dp_accounting.pld.common")
    parameters = common.DifferentialPrivacyParameters(*module.STRICT)
    loss = mechanisms.GaussianPrivacyLoss.from_privacy_guarantee(parameters, sensitivity=2)
    i, row = next((i, row) for i, row in enumerate(module.ROWS) if row.source == "BW18")
    assert row.peer == pytest.approx(loss.standard_deviation, rel=1e-6)
    assert row.peer < ours(i) < 1.0001 * row.peer


def test_skellam_noise_by_dp_accounting() -> None:
    """A whole shift in one coordinate, by its losses in doubles."""
    pld = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    noise = least_skellam(Fraction(1), Fraction(1e-8), 60**2)
    rate, reach = float(noise.variance) / 2, round(9 * noise.deviation)
    x = np.arange(-reach, reach)
    laws = [dict(enumerate(stats.skellam.logpmf(x - s, rate, rate).tolist())) for s in (0, 60)]
    loss = pld.from_two_probability_mass_functions(*laws, pessimistic_estimate=False)
    assert 0.99 * noise.delta < loss.get_delta_for_epsilon(1.0) <= noise.delta <= 1e-8
