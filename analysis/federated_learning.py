"""Private training over rounds: the mean of clipped gradients by every protocol for vectors.

    python -m analysis.federated_learning --output DIR

writes into DIR ``federated-learning.svg``, ``.png``, ``.csv`` and ``.md``. Softmax regression of
handwritten digits: the 1,797 images of 8 by 8 that come with scikit-learn, 1,437 of which are for
training, each of a user of its own; 650 weights. In every round each user computes the gradient of
its loss, scales it down to a norm of at most ``CLIP``, and a protocol adds the gradients of all
users up; the server knows the sums alone. All protocols have the same guarantee for all rounds
together. What was chosen by hand (rounds, clipping, the step) was chosen without privacy, on the
training images.

Protocols for another domain get what fits it: coordinates within bounds for `SampledCoordinates`,
signs for `Collision`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING, Any

import click
import numpy as np
from numpy.typing import NDArray

from analysis.output import Files, csv_text, main, markdown, program, steps
from ikos.accounting.composition import optimal_local_epsilon
from ikos.baselines import SumProtocol
from ikos.plots.figures import Figure
from ikos.randomness import RandomSource
from ikos.results import at_least
from ikos.testing import DeterministicRandom
from ikos.vectors import (
    Ball,
    Box,
    CentralGaussian,
    Collision,
    KashinCorrelatedNoise,
    KashinPrivateSum,
    PrivateVectorSum,
    SampledCoordinates,
    SingleMessageGrid,
    SparseTernary,
    Ternarizer,
)

if TYPE_CHECKING:
    from ikos.results import Cost


DELTA = 1e-5
EPSILONS = (1.0, 2.0, 4.0, 8.0)
SHOWN = 4.0
"""The epsilon of the curves by round."""

ROUNDS = 20
CLIP = 0.3
COORDINATE = 0.06
"""Bound of each coordinate where a protocol needs one: few clipped gradients exceed it."""

STEP = 100.0
SIGNS = 8
"""Signs of a ternary gradient."""

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Task:
    """Images and labels, for training and for the test."""

    images: Array
    labels: NDArray[np.int64]
    test_images: Array
    test_labels: NDArray[np.int64]

    @property
    def users(self) -> int:
        """Training images."""
        return int(self.labels.size)


@cache
def task() -> Task:
    """Return the digits, scaled to norms of at most 1, with a constant as the last feature."""
    try:
        from sklearn.datasets import load_digits
        from sklearn.model_selection import train_test_split
    except ImportError:
        raise click.UsageError("this needs scikit-learn: pip install 'ikos[learning]'") from None
    images, labels = load_digits(return_X_y=True)
    features = np.hstack([images / 16, np.ones((len(images), 1))]) / math.sqrt(65)
    split = train_test_split(features, labels, test_size=360, random_state=0, stratify=labels)
    return Task(split[0], split[2].astype(np.int64), split[1], split[3].astype(np.int64))


def gradients(weights: Array, images: Array, labels: NDArray[np.int64]) -> Array:
    """Return the gradient of each image's cross entropy, (n, d), scaled down to a norm of CLIP."""
    scores = images @ weights.T
    scores -= scores.max(axis=1, keepdims=True)
    chances = np.exp(scores)
    chances /= chances.sum(axis=1, keepdims=True)
    chances[np.arange(labels.size), labels] -= 1
    found = (chances[:, :, np.newaxis] * images[:, np.newaxis, :]).reshape(labels.size, -1)
    norms = np.linalg.norm(found, axis=1, keepdims=True)
    return np.asarray(found / np.maximum(1.0, norms / CLIP))


# Protocols: each sums clipped gradients

Aggregate = Callable[[Array, RandomSource], Array]


@dataclass(frozen=True, eq=False)
class Learner:
    """A way to add clipped gradients up, for one round of many."""

    aggregate: Aggregate
    cost: Cost | None = None
    error: float = 0.0
    """Bound on the root mean square of the error of the sum, Euclidean norm."""


def _of(protocol: SumProtocol) -> Learner:
    return Learner(
        lambda x, rng: protocol.run(x, rng).estimate, protocol.cost(), math.sqrt(protocol.mse)
    )


def _in_box(protocol: SampledCoordinates) -> Learner:
    """Coordinates that exceed their bound are moved to it: a bias, like that of clipping."""

    def aggregate(x: Array, rng: RandomSource) -> Array:
        return np.asarray(protocol.run(np.clip(x, -COORDINATE, COORDINATE), rng).estimate)

    return Learner(aggregate, protocol.cost(), math.sqrt(protocol.mse))


def _ternary(protocol: Collision, signs: Ternarizer) -> Learner:
    def aggregate(x: Array, rng: RandomSource) -> Array:
        bounded = np.clip(x, -signs.bound, signs.bound)
        return np.asarray(signs.scale * protocol.run(signs(bounded, rng), rng).estimate)

    worst = signs.mean_square(np.full((1, signs.dimension), signs.bound)) * protocol.n
    return Learner(aggregate, protocol.cost(), math.sqrt(signs.scale**2 * protocol.mse + worst))


@dataclass(frozen=True)
class Budget:
    """The guarantee of all rounds, and what each may spend by optimal composition."""

    epsilon: float
    delta: float
    rounds: int

    @property
    def each(self) -> tuple[float, Fraction]:
        """Epsilon and delta of one round: half of delta is for the deltas of the rounds."""
        part = Fraction(self.delta) / (2 * self.rounds)
        return optimal_local_epsilon(self.epsilon, self.delta, self.rounds, part), part


def _collision(n: int, d: int, budget: Budget) -> Learner:
    epsilon, delta = budget.each
    protocol = Collision(n, SparseTernary(d, SIGNS), epsilon=epsilon, delta=delta)
    return _ternary(protocol, Ternarizer(d, SIGNS, COORDINATE))


CONTENDERS: dict[str, Callable[[int, int, Budget], Learner]] = {
    "no privacy": lambda _n, _d, _b: Learner(lambda x, _: x.sum(axis=0)),
    "central Gaussian": lambda n, d, b: _of(
        CentralGaussian(n, Ball(d, CLIP), b.epsilon, b.delta, releases=b.rounds)
    ),
    "private vector sum": lambda n, d, b: _of(
        PrivateVectorSum(n, Ball(d, CLIP), b.epsilon, b.delta, releases=b.rounds)
    ),
    "Kashin, private sums": lambda n, d, b: _of(
        KashinPrivateSum(n, Ball(d, CLIP), b.epsilon, b.delta, releases=b.rounds)
    ),
    "Kashin, correlated noise": lambda n, d, b: _of(
        KashinCorrelatedNoise(n, Ball(d, CLIP), b.epsilon, b.delta, releases=b.rounds)
    ),
    "sampled coordinates": lambda n, d, b: _in_box(
        SampledCoordinates(n, Box(d, -COORDINATE, COORDINATE), *b.each, messages=None)
    ),
    "one sampled coordinate": lambda n, d, b: _in_box(
        SampledCoordinates(n, Box(d, -COORDINATE, COORDINATE), *b.each)
    ),
    "collision, ternary": _collision,
    "single-message grid": lambda n, d, b: _of(SingleMessageGrid(n, Ball(d, CLIP), *b.each)),
}
"""Protocols by name; each makes one round's for users, weights and a budget, or raises."""


def train(data: Task, learner: Learner, rounds: int, rng: RandomSource) -> list[float]:
    """Return the accuracy on the test images after each round."""
    classes = 10
    weights = np.zeros((classes, data.images.shape[1]))
    accuracies = []
    for _ in range(rounds):
        total = learner.aggregate(gradients(weights, data.images, data.labels), rng)
        weights -= STEP / data.users * total.reshape(weights.shape)
        guesses = (data.test_images @ weights.T).argmax(axis=1)
        accuracies.append(float((guesses == data.test_labels).mean()))
    return accuracies


# What is written


@dataclass(frozen=True, eq=False)
class Found:
    """A protocol's accuracies at one epsilon, a row for each repetition, or why there are none."""

    name: str
    epsilon: float
    learner: Learner | None
    accuracies: Array
    reason: str = ""


def measure(
    data: Task, epsilons: Sequence[float], rounds: int, repetitions: int, seed: int
) -> Iterator[Found]:
    """Yield what each protocol reaches."""
    d = 10 * data.images.shape[1]
    for epsilon in epsilons:
        for number, (name, make) in enumerate(CONTENDERS.items()):
            try:
                learner = make(data.users, d, Budget(epsilon, DELTA, rounds))
            except ValueError as problem:
                yield Found(name, epsilon, None, np.zeros((0, rounds)), str(problem))
                continue
            runs = [
                train(
                    data,
                    learner,
                    rounds,
                    DeterministicRandom(10**6 * seed + 1000 * number + 10 * int(epsilon) + again),
                )
                for again in range(repetitions)
            ]
            yield Found(name, epsilon, learner, np.array(runs))


def _rows(found: Sequence[Found], users: int) -> Iterator[list[Any]]:
    for one in found:
        if one.learner is None:
            yield [one.name, one.epsilon, None, None, None, None, one.reason]
            continue
        cost = one.learner.cost
        yield [
            one.name,
            one.epsilon,
            None if cost is None else cost.messages_per_user,
            None if cost is None else cost.bits_per_user,
            one.learner.error / users,
            float(one.accuracies[:, -1].mean()),
            "",
        ]


def _table(found: Sequence[Found], users: int) -> str:
    header = ["protocol", "messages", "bytes", "error of the mean", "accuracy"]
    rows = []
    for name, epsilon, messages, bits, error, accuracy, _ in _rows(found, users):
        if epsilon != SHOWN:
            continue
        rows.append(
            [
                name,
                "-" if messages is None else f"{messages:,.0f}",
                "-" if bits is None else f"{math.ceil(bits / 8):,}",
                at_least(error, 3) if error else "-",
                "impossible" if accuracy is None else f"{100 * accuracy:.1f} %",
            ]
        )
    return markdown(header, rows)


def figure(found: Sequence[Found]) -> Figure:
    """Return the figure: by round at one epsilon, and after the last round by epsilon."""
    from analysis.plots.learning import learning_figure

    return learning_figure(
        {
            one.name: one.accuracies.mean(axis=0)
            for one in found
            if one.learner is not None and one.epsilon == SHOWN
        },
        {
            name: {
                one.epsilon: one.accuracies[:, -1]
                for one in found
                if one.name == name and one.learner is not None
            }
            for name in dict.fromkeys(one.name for one in found if one.learner is not None)
        },
        f"Softmax regression of digits, 1,437 users, {found[0].accuracies.shape[1]} rounds, "
        "δ = 10⁻⁵ in all",
        shown=SHOWN,
        reference="no privacy",
    )


@program()
def command(files: Files, seed: int, quick: bool) -> None:
    """Train a small model on private sums of clipped gradients.

    Takes some minutes.
    """
    epsilons = (SHOWN,) if quick else EPSILONS
    rounds, repetitions = (2, 1) if quick else (ROUNDS, 3)
    data, found = task(), []
    with steps("training", len(epsilons) * len(CONTENDERS)) as step:
        for one in measure(data, epsilons, rounds, repetitions, seed):
            found.append(one)
            step()
    columns = ["protocol", "epsilon", "messages", "bits", "error", "accuracy", "reason"]
    files.text("federated-learning.csv", csv_text(columns, _rows(found, data.users)))
    files.text("federated-learning.md", _table(found, data.users))
    files.figure("federated-learning", figure(found))


if __name__ == "__main__":
    main(command)
