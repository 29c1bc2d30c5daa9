"""Private training: gradients, budgets, and what the program writes."""

from __future__ import annotations

import csv
import math
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("sklearn", reason="scikit-learn is not installed")
pytest.importorskip("matplotlib", reason="matplotlib is not installed")

from click.testing import CliRunner
from pages import page, rows

from analysis import federated_learning as module
from analysis.federated_learning import (
    CLIP,
    CONTENDERS,
    DELTA,
    ROUNDS,
    SHOWN,
    Budget,
    gradients,
    task,
    train,
)
from ikos.accounting.composition import optimal_delta
from ikos.testing import DeterministicRandom


def test_gradients_are_those_of_the_loss_and_clipped() -> None:
    """Against differences of the cross entropy, at weights where nothing is clipped."""
    data = task()
    images, labels = data.images[:5], data.labels[:5]
    weights = np.random.default_rng(0).normal(0, 20, (10, 65))

    def loss(w: np.ndarray, i: int) -> float:
        scores = images[i] @ w.T
        return float(np.log(np.exp(scores - scores.max()).sum()) + scores.max() - scores[labels[i]])

    found = gradients(weights, images, labels)
    norms = np.linalg.norm(found, axis=1)
    assert (norms <= CLIP * (1 + 1e-12)).all()
    for i in range(5):
        numeric = np.zeros((10, 65))
        for place in ((0, 3), (4, 20), (9, 64), (labels[i], 30)):
            step = np.zeros((10, 65))
            step[place] = 1e-5
            numeric[place] = (loss(weights + step, i) - loss(weights - step, i)) / 2e-5
            scale = norms[i] / np.linalg.norm(gradients_unclipped(weights, images[i], labels[i]))
            assert found[i].reshape(10, 65)[place] == pytest.approx(
                scale * numeric[place], abs=1e-7
            )


def gradients_unclipped(weights: np.ndarray, image: np.ndarray, label: int) -> np.ndarray:
    scores = weights @ image
    chances = np.exp(scores - scores.max())
    chances /= chances.sum()
    chances[label] -= 1
    return np.outer(chances, image)


def test_users_are_the_training_images_and_none_is_in_the_test() -> None:
    data = task()
    assert data.users == 1437
    assert data.test_labels.size == 360
    assert np.linalg.norm(data.images, axis=1).max() <= 1 + 1e-12
    train_rows = {row.tobytes() for row in data.images}
    assert sum(row.tobytes() in train_rows for row in data.test_images) == 0


def test_rounds_spend_the_budget_together() -> None:
    for epsilon in (1.0, SHOWN):
        each, delta = Budget(epsilon, DELTA, ROUNDS).each
        assert optimal_delta(epsilon, ROUNDS, each, delta) <= DELTA
        assert optimal_delta(epsilon, ROUNDS, 1.01 * each, delta) > DELTA


@pytest.mark.slow
@pytest.mark.parametrize("name", ["central Gaussian", "private vector sum"])
def test_guarantees_are_of_all_rounds(name: str) -> None:
    learner = CONTENDERS[name](1437, 650, Budget(SHOWN, DELTA, ROUNDS))
    assert learner.cost is not None
    once = CONTENDERS[name](1437, 650, Budget(SHOWN, DELTA, 1))
    ratio = learner.error / once.error
    assert 0.8 * math.sqrt(ROUNDS) < ratio < 1.3 * math.sqrt(ROUNDS)


@pytest.mark.slow
def test_training_without_privacy_learns_and_noise_disturbs() -> None:
    data = task()
    budget = Budget(SHOWN, DELTA, 5)
    plain = train(data, CONTENDERS["no privacy"](1437, 650, budget), 5, DeterministicRandom(0))
    private = train(
        data, CONTENDERS["central Gaussian"](1437, 650, budget), 5, DeterministicRandom(0)
    )
    assert plain[-1] > 0.85
    assert 0.6 < private[-1] <= plain[-1] + 0.05


@pytest.mark.slow
def test_files(tmp_path: Path) -> None:
    run = CliRunner().invoke(module.command, ["--quick", "--output", str(tmp_path)])
    assert run.exit_code == 0, run.output
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {f"federated-learning.{suffix}" for suffix in ("csv", "md", "png", "svg")}
    with (tmp_path / "federated-learning.csv").open() as file:
        rows = {row["protocol"]: row for row in csv.DictReader(file)}
    assert rows.keys() == CONTENDERS.keys()
    assert "at most" in rows["single-message grid"]["reason"]
    errors = {name: float(row["error"]) for name, row in rows.items() if row["error"]}
    order = [
        "no privacy",
        "central Gaussian",
        "private vector sum",
        "Kashin, private sums",
        "Kashin, correlated noise",
    ]
    assert [errors[name] for name in order] == sorted(errors[name] for name in order)
    assert (tmp_path / "federated-learning.md").read_text().count("\n") == len(CONTENDERS) + 2


TRAINED = (
    "no privacy",
    "central Gaussian",
    "private vector sum",
    "sampled coordinates",
    "one sampled coordinate",
    "collision, ternary",
    "single-message grid",
)
"""Those that train in seconds; the other two take ten for each of three trainings."""


@pytest.mark.slow
@pytest.mark.reproduces
def test_the_documentations_table_is_the_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    ((head, shown),) = rows(page("figures/federated-learning.md")).items()
    assert [row[0] for row in shown] == list(CONTENDERS)
    made = []

    def untrained(*_: object) -> list[float]:
        return [0.0] * ROUNDS

    for name in CONTENDERS:
        if name not in TRAINED:
            with monkeypatch.context() as patch:
                patch.setattr(module, "train", untrained)
                made.append(table(name, patch, head)[:-1])
        else:
            made.append(table(name, monkeypatch, head))
    assert [row if row[0] in TRAINED else row[:-1] for row in shown] == made


def table(name: str, patch: pytest.MonkeyPatch, head: tuple[str, ...]) -> tuple[str, ...]:
    """Return the row of one protocol, whose random numbers depend on its place."""
    number = list(CONTENDERS).index(name)
    alone = dict.fromkeys(map(str, range(number)), CONTENDERS["single-message grid"])
    with patch.context() as inner:
        inner.setattr(module, "CONTENDERS", {**alone, name: CONTENDERS[name]})
        found = list(module.measure(task(), (SHOWN,), ROUNDS, 3, 1))[-1:]
    return rows(module._table(found, task().users))[head][0]
