from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from statistical import FALSE_ALARM, discrete_laplace_law, p_value_bound, polya_law

from ikos.baselines import CorrelatedNoise
from ikos.primitives.shuffling import View
from ikos.testing import DeterministicRandom


def small(n: int = 6, **options: object) -> CorrelatedNoise:
    return CorrelatedNoise(n, 8, 0.01, precision=2, **options)  # type: ignore[arg-type]


def copies(view: View, steps: int) -> list[int]:
    column = view.columns[0]
    return [int((column == m).sum()) for m in range(-steps, steps + 1) if m]


@pytest.mark.slow
def test_sent_messages_and_runs_have_one_law() -> None:
    """How often 2 is sent, one by one and all at once, with a number of users that is no multiple.

    Of a value of 2 by everybody, with copies of {2, -1, -1} and no other set that holds a 2.
    """
    protocol = small(n=6, min_honest=4)
    flood = next(f for f in protocol.noise.floods if 2 in f.atoms)
    law = polya_law(float(flood.shape) * 6 / 4, float(flood.rate))
    rng, x = DeterministicRandom(1), np.ones(6)
    runs = 900
    apart = np.array(
        [copies(protocol.shuffle(protocol.randomize(x, rng)), 2)[3] for _ in range(runs)]
    )
    together = np.array([copies(protocol._view(x, rng), 2)[3] for _ in range(runs)])
    for twos in (apart, together):
        assert law.p_value(twos - 6) > FALSE_ALARM
        assert polya_law(float(flood.shape), float(flood.rate)).p_value(twos - 6) < FALSE_ALARM


@pytest.mark.slow
def test_sums_have_discrete_laplace_noise() -> None:
    protocol = CorrelatedNoise(10, 1, 0.01, precision=3, integers=False)
    rng, x = DeterministicRandom(2), np.ones(10)
    runs = 1200
    law = discrete_laplace_law(float(protocol.noise.central))
    apart = [protocol._listed(x, rng)[1].sum(dtype=np.int64) - 30 for _ in range(runs)]
    together = [protocol._view(x, rng).columns[0].sum(dtype=np.int64) - 30 for _ in range(runs)]
    for noise in (apart, together):
        assert law.p_value(np.array(noise)) > FALSE_ALARM


@pytest.mark.slow
def test_every_message_alone_has_the_law_of_its_sum_over_atoms() -> None:
    """The number of -1 less that of 1, halves of +-2 accounted: a linear map of the view."""
    protocol = small()
    rng, x = DeterministicRandom(3), np.zeros(6)
    seen = np.array([copies(protocol._view(x, rng), 2) for _ in range(1500)])
    minus_one, one, two = seen[:, 1], seen[:, 2], seen[:, 3]
    assert (seen[:, 0] == 0).all()  # no copies of {-2, 1, 1}: nothing needs them at precision 2
    noise = one - (minus_one - 2 * two)
    assert discrete_laplace_law(float(protocol.noise.central)).p_value(noise) > FALSE_ALARM


@pytest.mark.slow
def test_number_of_messages_is_the_cost() -> None:
    protocol = CorrelatedNoise(1000, 1, 1e-6, precision=5, min_honest=700)
    rng = DeterministicRandom(5)
    sent = [protocol._listed(np.ones(1000), rng)[0].size / 1000 for _ in range(30)]
    together = [protocol._view(np.ones(1000), rng).columns[0].size / 1000 for _ in range(300)]
    expected = protocol.cost().messages_per_user  # one run's standard error is 8.2 %
    assert np.mean(sent) == pytest.approx(expected, rel=0.12)  # 8 standard errors
    assert np.mean(together) == pytest.approx(expected, rel=0.035)  # 7.4


@pytest.mark.points(0)
def test_one_users_report_is_the_users_column() -> None:
    protocol, runs = small(n=3), 400
    rng = DeterministicRandom(6)
    empty = [protocol.report(0.0, rng).size == 0 for _ in range(runs)]
    columns = [(protocol.randomize(np.zeros(3), rng)[:, 1] == 0).all() for _ in range(runs)]
    chance = math.prod(
        (1 - math.exp(-float(kind.rate))) ** (len(kind.sets) * kind.variables / kind.parties)
        for kind in protocol._kinds
    )
    for none in (empty, columns):
        silent = int(sum(none))
        assert p_value_bound([silent, runs - silent], [chance, 1 - chance]) > FALSE_ALARM


@pytest.mark.slow
@pytest.mark.parametrize("flooding", ["certified", "paper"])
@pytest.mark.parametrize("honest", [1, 2, 3])
def test_min_honest_users_make_all_of_the_noise(flooding: str, honest: int) -> None:
    protocol = CorrelatedNoise(3, 1, 0.1, precision=4, flooding=flooding, min_honest=honest)
    for kind, flood in zip(protocol._kinds[1:], protocol.noise.floods, strict=True):
        assert Fraction(kind.variables * honest, kind.parties) >= flood.shape
        assert kind.rate == flood.rate
        assert len(kind.sets) == len(flood.atoms)
    assert protocol._kinds[0].parties == honest
    assert protocol.noise.delta <= 0.1


@pytest.mark.slow
def test_integers_are_sent_as_they_are() -> None:
    protocol = CorrelatedNoise(100, 100, 0.1, integers=True, lower=-3, upper=300)
    rng = DeterministicRandom(7)
    x = np.arange(100) * 3 - 3
    assert protocol.precision == 303
    assert abs(protocol.run(x, rng).estimate - x.sum()) < 60 * 303 / 90
    assert np.array_equal(protocol._steps(x * 1.0, rng), x + 3)
    for low, high in ((0, 303), (-(2**51), -(2**51) + 303)):
        every = CorrelatedNoise(2, 1, 0.5, integers=True, lower=low, upper=high)
        values = low + np.arange(304.0)
        assert np.array_equal(every._steps(values, rng), np.arange(304))


@pytest.mark.slow
def test_beyond_memory_the_sum_is_simulated(monkeypatch: pytest.MonkeyPatch) -> None:
    protocol = CorrelatedNoise(50, 1, 1e-4, precision=6)
    monkeypatch.setattr("ikos.baselines.correlated_noise_gkmps21.MAX_LISTED", 100)
    rng, x = DeterministicRandom(8), np.ones(50)
    with pytest.raises(ValueError, match="use run"):
        protocol.randomize(x, rng)
    noise = [round((protocol.run(x, rng).estimate - 50) * protocol.precision) for _ in range(3000)]
    law = discrete_laplace_law(float(protocol.noise.central))
    assert law.p_value(np.array(noise)) > FALSE_ALARM
    assert protocol.run(x, rng).cost == protocol.cost()


@pytest.mark.parametrize(
    ("epsilon", "delta", "precision"),
    [
        (1e-3, 1e-30, 3),
        (30, 1e-6, 20),
        (100, 0.5, 2),
        (1, 1e-100, 7),
        (0.1, 1e-10, 150),
        pytest.param(0.1, 1e-10, 700, marks=pytest.mark.slow),
    ],
)
@pytest.mark.slow
def test_parameters_at_the_edge_are_certified(epsilon: float, delta: float, precision: int) -> None:
    protocol = CorrelatedNoise(1000, epsilon, delta, precision=precision)
    assert 0 < protocol.noise.delta <= delta
    assert protocol.guarantee.epsilon == epsilon
    assert protocol.influence == math.inf
