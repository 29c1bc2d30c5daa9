"""Private training: gradients, sums of them, and what the program writes."""

from __future__ import annotations

import math

import numpy as np
import pytest

pytest.importorskip("sklearn", reason="scikit-learn is not installed")
pytest.importorskip("matplotlib", reason="matplotlib is not installed")

from pages import page, rows

from analysis import federated_learning as module
from analysis.federated_learning import (
    CLIP,
    HEADER,
    SHOWN,
    Task,
    by_parties,
    bytes_sent,
    in_law,
    measure,
    one_round,
    pairwise_bytes,
    protocol_of,
    residuals,
    row,
    task,
    without_privacy,
)
from analysis.output import markdown
from ikos.testing import DeterministicRandom


def test_gradients_are_those_of_the_loss_and_clipped() -> None:
    """Against differences of the cross entropy."""
    data = task(6)
    weights = np.random.default_rng(0).normal(0, 3, (10, 6))
    found = residuals(weights, data)[:5, :, np.newaxis] * data.features[:5, np.newaxis]
    assert (np.linalg.norm(found, axis=(1, 2)) <= CLIP * (1 + 1e-12)).all()

    def loss(w: np.ndarray, i: int) -> float:
        scores = data.features[i] @ w.T
        return float(np.log(np.exp(scores - scores.max()).sum()) + scores.max()) - float(
            scores[data.labels[i]]
        )

    for i in range(5):
        numeric = np.zeros((10, 6))
        for place in np.ndindex(10, 6):
            step = np.zeros((10, 6))
            step[place] = 1e-5
            numeric[place] = (loss(weights + step, i) - loss(weights - step, i)) / 2e-5
        numeric /= max(1.0, float(np.linalg.norm(numeric)) / CLIP)
        assert found[i] == pytest.approx(numeric, abs=1e-7)


@pytest.fixture(name="first", scope="module")
def fixture_first() -> tuple[Task, np.ndarray]:
    """Return a model of 2,000 weights, and the first round."""
    data = task(200)
    return data, residuals(np.zeros((10, 200)), data)


@pytest.mark.slow
def test_rounding_is_unbiased(first, monkeypatch):
    """By Hoeffding's inequality, false alarms in all coordinates below 1e-9."""
    data, r = first
    monkeypatch.setattr(module, "skellam", lambda _v, size, _rng: np.zeros(size, dtype=np.int64))
    protocol = protocol_of(data, SHOWN)
    total = in_law(protocol)(r, data, DeterministicRandom(0)) / protocol.encoding.step
    off = total - without_privacy(r, data, DeterministicRandom(0)) / protocol.encoding.step
    bound = math.sqrt(data.users * math.log(2 * total.size * 1e9) / 2)
    assert total == pytest.approx(np.round(total), abs=1e-6)
    assert 0.1 * math.sqrt(data.users) < off.std() < 0.5 * math.sqrt(data.users)
    assert np.abs(off).max() < bound


@pytest.mark.parametrize(
    ("log_users", "log_dimension", "expansion"), [(10, 20, 1.73), (14, 24, 1.98)]
)
def test_bytes_of_pairwise_masks_are_as_published(log_users, log_dimension, expansion):
    """BIK17's abstract, for values of 16 bits and their sums."""
    d = 1 << log_dimension
    found = pairwise_bytes(d, 16 + log_users, 1 << log_users) / (2 * d)
    assert expansion <= found < expansion + 0.01


@pytest.mark.slow
@pytest.mark.parametrize("make", [by_parties, in_law])
def test_both_sums_have_the_error_of_the_protocol(first, make):
    """The mean of 2,000 squares: 0.22 is about seven of its standard deviations."""
    data, r = first
    protocol = protocol_of(data, SHOWN)
    error = make(protocol)(r, data, DeterministicRandom(1)) - without_privacy(
        r, data, DeterministicRandom(1)
    )
    assert (error**2).sum() == pytest.approx(protocol.mse, rel=0.22)


@pytest.mark.slow
@pytest.mark.reproduces
def test_the_documentations_tables_are_the_programs() -> None:
    """All but the trainings at other epsilons, and the round by the parties, which take longer."""
    data = task()
    assert data.weights == 102_400
    ((head, shown),) = rows(page("figures/federated-learning.md")).items()
    assert list(head) == HEADER
    for epsilon, place in ((math.inf, 0), (SHOWN, 2)):
        runs = measure(data, epsilon, module.ROUNDS, module.REPETITIONS, 1)
        assert list(shown[place]) == row(data, epsilon, runs)
    (sums,) = rows(page("figures/federated-learning-round.md")).values()
    law = one_round(data, in_law(protocol_of(data, SHOWN)), DeterministicRandom(1))
    assert list(sums[1][1:]) == law
    sent = [(name, f"{count:,}") for name, count in bytes_sent(data)]
    assert markdown(["protocol", "bytes"], sent) == page("figures/federated-learning-bytes.md")
