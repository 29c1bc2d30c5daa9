"""Private training over rounds: 102,400 weights, one masked vector of each user in each round.

    python -m analysis.federated_learning --output DIR

writes into DIR ``federated-learning.md``, ``.svg``, ``.png`` and ``.csv``, the accuracies;
``federated-learning-round.md``, a round by the parties' programs; and
``federated-learning-bytes.md``, what a user sends in each round.

Softmax regression of handwritten digits: the 1,797 images of 8 by 8 that come with scikit-learn,
1,437 of which are for training, each of a user of its own. An image becomes 10,240 random features,
with which a linear model approximates one with a Gaussian kernel. In every round each user
computes the gradient of its loss, scales it down to a norm of at most ``CLIP``, and a private
vector sum adds up all gradients. What was chosen by hand (the kernel, rounds, clipping, the step)
was chosen without privacy, and partly by the accuracy on the images for testing.

To save time, most sums are drawn from the law of the protocol's result: gradients rounded by user,
and the noise of all users at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import click
import numpy as np
from numpy.typing import NDArray

from analysis.output import Files, csv_text, main, markdown, program, steps
from ikos import Ball, PrivateVectorSum
from ikos.counts.vectors import ENVELOPE_BYTES
from ikos.noise.skellam_noise import SkellamNoise
from ikos.primitives.randomness import RandomSource
from ikos.primitives.samplers import skellam
from ikos.results.sums import at_least
from ikos.testing import DeterministicRandom

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DELTA = 1e-5
EPSILONS = (1.0, 2.0, 4.0, 8.0)
SHOWN = 4.0
"""The epsilon of one round by the parties, and of the bytes."""

CLASSES = 10
FEATURES = 10_240
FREQUENCY = 0.6
"""Standard deviation of the random features' frequencies, for pixels from 0 to 1."""

ROUNDS = 10
CLIP = 0.5
STEP = 60.0
REPETITIONS = 3

NEIGHBOURS = 300
"""Of a client of SecAgg+ (BBGLR20): 3 % of 10^4, against a semi-malicious server."""

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Task:
    """Features and labels, for training and for the test."""

    features: Array
    labels: NDArray[np.int64]
    test_features: Array
    test_labels: NDArray[np.int64]

    @property
    def users(self) -> int:
        """Training images."""
        return int(self.labels.size)

    @property
    def weights(self) -> int:
        """Weights of the model, coordinates of each gradient."""
        return CLASSES * int(self.features.shape[1])


@cache
def task(features: int = FEATURES) -> Task:
    """Return random features (Rahimi, Recht 2007) of the digits, sqrt(2/D) cos(W x + b)."""
    try:
        from sklearn.datasets import load_digits
        from sklearn.model_selection import train_test_split
    except ImportError:
        raise click.UsageError("this needs scikit-learn: pip install 'ikos[learning]'") from None
    images, labels = load_digits(return_X_y=True)
    public = np.random.default_rng(0)
    frequencies = public.normal(0, FREQUENCY, (images.shape[1], features))
    shifts = public.uniform(0, 2 * math.pi, features)
    found = math.sqrt(2 / features) * np.cos(images / 16 @ frequencies + shifts)
    split = train_test_split(found, labels, test_size=360, random_state=0, stratify=labels)
    return Task(split[0], split[2].astype(np.int64), split[1], split[3].astype(np.int64))


def residuals(weights: Array, data: Task) -> Array:
    """Return r, (n, 10): a user's clipped gradient of the cross entropy is r times its features."""
    scores = data.features @ weights.T
    scores -= scores.max(axis=1, keepdims=True)
    chances = np.exp(scores)
    chances /= chances.sum(axis=1, keepdims=True)
    chances[np.arange(data.users), data.labels] -= 1
    norms = np.linalg.norm(chances, axis=1) * np.linalg.norm(data.features, axis=1)
    return np.asarray(chances / np.maximum(1.0, norms / CLIP)[:, np.newaxis])


# Sums of gradients

Aggregate = Callable[[Array, Task, RandomSource], Array]


def without_privacy(r: Array, data: Task, _rng: RandomSource) -> Array:
    """Return the sum of the gradients, (10, D)."""
    return np.asarray(r.T @ data.features)


def protocol_of(data: Task, epsilon: float, layout: str = "masked") -> PrivateVectorSum:
    """Return the protocol of each round, with one budget for all of them."""
    ball = Ball(data.weights, CLIP)
    return PrivateVectorSum(data.users, ball, epsilon, DELTA, releases=ROUNDS, layout=layout)


def by_parties(protocol: PrivateVectorSum) -> Aggregate:
    """Return the sum as all parties compute it."""

    def aggregate(r: Array, data: Task, rng: RandomSource) -> Array:
        gradients = (
            np.multiply.outer(mine, features).reshape(1, -1)
            for mine, features in zip(r, data.features, strict=True)
        )
        return np.asarray(protocol.run(gradients, rng).estimate).reshape(CLASSES, -1)

    return aggregate


def in_law(protocol: PrivateVectorSum) -> Aggregate:
    """Return what has the law of the protocol's result, but for floating-point rounding.

    Users round each coordinate to one of its two neighbours, and shares of Skellam noise add up to
    Skellam noise.
    """
    noise = protocol.noise
    assert isinstance(noise, SkellamNoise)

    def aggregate(r: Array, data: Task, rng: RandomSource) -> Array:
        step, drawn = protocol.encoding.step, np.random.default_rng(list(rng.bytes(32)))
        total = skellam(noise.variance, protocol.dimension, rng).astype(np.float64)
        total = total.reshape(CLASSES, -1)
        features = data.features.astype(np.float32)
        for k in range(CLASSES):
            steps = features * (r[:, k, np.newaxis] / step).astype(np.float32)
            steps += drawn.random(steps.shape, dtype=np.float32)
            total[k] += np.floor(steps, out=steps).sum(axis=0, dtype=np.float64)
        return np.asarray(step * total)

    return aggregate


def train(data: Task, aggregate: Aggregate, rounds: int, rng: RandomSource) -> list[float]:
    """Return the accuracy on the test images after each round."""
    weights = np.zeros((CLASSES, data.features.shape[1]))
    accuracies = []
    for _ in range(rounds):
        total = aggregate(residuals(weights, data), data, rng)
        weights -= STEP / data.users * total
        guesses = (data.test_features @ weights.T).argmax(axis=1)
        accuracies.append(float((guesses == data.test_labels).mean()))
    return accuracies


# What is written

NONE = "no privacy"

Found = dict[float, Array]
"""Accuracies by epsilon, a row for each repetition; infinity is no privacy."""


def measure(data: Task, epsilon: float, rounds: int, repetitions: int, seed: int) -> Array:
    """Return the accuracies of trainings at one epsilon."""
    if math.isinf(epsilon):
        return np.array([train(data, without_privacy, rounds, DeterministicRandom(seed))])
    aggregate, first = in_law(protocol_of(data, epsilon)), 1000 * seed + 10 * int(epsilon)
    return np.array(
        [
            train(data, aggregate, rounds, DeterministicRandom(first + again))
            for again in range(repetitions)
        ]
    )


def percent(accuracy: float) -> str:
    """Return an accuracy as it is shown."""
    return f"{100 * accuracy:.1f} %"


def row(data: Task, epsilon: float, accuracies: Array) -> list[str]:
    """Return the table's row of one epsilon: errors are those of the mean gradient, at most."""
    means = [percent(float(accuracies[:, after - 1].mean())) for after in (1, accuracies.shape[1])]
    if math.isinf(epsilon):
        return [NONE, "-", "-", *means]
    error = math.sqrt(protocol_of(data, epsilon).mse) / data.users
    each = error / math.sqrt(data.weights)
    return [f"{epsilon:g}", at_least(error, 3), at_least(each, 3), *means]


HEADER = ["epsilon", "error", "in each coordinate", "after one round", "after all"]


def one_round(data: Task, aggregate: Aggregate, rng: RandomSource) -> list[str]:
    """Return the error of the first round's mean gradient, and the accuracy after it."""
    r, found = residuals(np.zeros((CLASSES, data.features.shape[1])), data), []

    def kept(r: Array, data: Task, rng: RandomSource) -> Array:
        found.append(aggregate(r, data, rng))
        return found[0]

    (accuracy,) = train(data, kept, 1, rng)
    error = np.linalg.norm(found[0] - without_privacy(r, data, rng)) / data.users
    return [f"{error:.4f}", percent(accuracy)]


def pairwise_bytes(dimension: int, bits: int, neighbours: int) -> int:
    """Return what a client with pairwise masks sends, as BIK17 counts it.

    With each neighbour two public keys and five shares, of 32 bytes. SecAgg+ (BBGLR20) has fewer
    neighbours than users.
    """
    return math.ceil(dimension * bits / 8) + 7 * 32 * neighbours


def bytes_sent(data: Task) -> list[tuple[str, int]]:
    """Return the bytes of a user in each round, in envelopes of 48 bytes."""
    masked, blocks = (protocol_of(data, SHOWN, layout) for layout in ("masked", "blocks"))
    size, layout = (data.weights, (masked.modulus - 1).bit_length()), masked.layout
    return [
        ("the bare sum", pairwise_bytes(*size, 0)),
        ("SecAgg+", pairwise_bytes(*size, NEIGHBOURS)),
        ("masked vectors, without envelopes", math.ceil(layout.bits_per_user / 8)),
        ("masked vectors", math.ceil(layout.bytes_per_user(ENVELOPE_BYTES))),
        ("blocks", math.ceil(blocks.layout.bytes_per_user(ENVELOPE_BYTES))),
    ]


def figure(data: Task, found: Found) -> Figure:
    """Return the figure: by round for each epsilon, and after the last round by epsilon."""
    from analysis.plots.learning import learning_figure

    private = {epsilon: runs for epsilon, runs in found.items() if math.isfinite(epsilon)}
    return learning_figure(
        {
            f"ε = {epsilon:g}" if epsilon in private else NONE: runs.mean(axis=0)
            for epsilon, runs in found.items()
        },
        {
            NONE: dict.fromkeys(private, found[math.inf][:, -1]),
            "private": {epsilon: runs[:, -1] for epsilon, runs in private.items()},
        },
        f"{data.weights:,} weights, {data.users:,} users, {found[math.inf].shape[1]} rounds, "
        "δ = 10⁻⁵ in all",
        reference=NONE,
    )


def _csv(found: Found) -> Iterator[list[float | int]]:
    for epsilon, runs in found.items():
        for again, accuracies in enumerate(runs):
            for after, accuracy in enumerate(accuracies, 1):
                yield [epsilon, again, after, accuracy]


@program(printed=True)
def command(files: Files, seed: int, quick: bool) -> None:
    """Train a model of 102,400 weights on private sums of clipped gradients.

    Takes some minutes.
    """
    data = task(20) if quick else task()
    epsilons: Sequence[float] = (math.inf, SHOWN) if quick else (math.inf, *EPSILONS[::-1])
    rounds, repetitions = (2, 1) if quick else (ROUNDS, REPETITIONS)
    found: Found = {}
    with steps("training", len(epsilons) + 1) as step:
        for epsilon in epsilons:
            found[epsilon] = measure(data, epsilon, rounds, repetitions, seed)
            step()
        protocol, rows = protocol_of(data, SHOWN), []
        for name, make in (("by the parties", by_parties), ("drawn from its law", in_law)):
            rows.append([name, *one_round(data, make(protocol), DeterministicRandom(seed))])
        step()
    files.report(
        "federated-learning",
        markdown(HEADER, [row(data, epsilon, runs) for epsilon, runs in found.items()]),
    )
    files.report("federated-learning-round", markdown(["sum", "error", "accuracy"], rows))
    sent = [(name, f"{count:,}") for name, count in bytes_sent(data)]
    files.report("federated-learning-bytes", markdown(["protocol", "bytes"], sent))
    columns = ["epsilon", "repetition", "round", "accuracy"]
    files.text("federated-learning.csv", csv_text(columns, _csv(found)))
    files.figure("federated-learning", figure(data, found))


if __name__ == "__main__":
    main(command)
