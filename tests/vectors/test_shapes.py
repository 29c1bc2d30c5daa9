"""Matrices and tensors: every protocol for vectors does the same for values of another shape."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from baselines.suite import VECTORS, vectors
from numpy.typing import NDArray

from ikos import (
    Ball,
    Box,
    Categories,
    InvalidValue,
    PrivateVectorSum,
    SecureVectorSum,
    Sensitivity,
    SparseTernary,
)
from ikos.baselines import (
    PCKVGRR,
    PCKVUE,
    CentralGaussian,
    Collision,
    FrequencyEstimation,
    KashinCorrelatedNoise,
    KashinPrivateSum,
    PrivKV,
    SampledCoordinates,
    SingleMessageGrid,
    Ternarizer,
    comparison,
    measure,
)
from ikos.data.domains import ResidueVectors, Vectors
from ikos.primitives.modular import Zq
from ikos.statistics import linear_statistics
from ikos.testing import DeterministicRandom

SHAPE = (2, 3)
N = 12

SIGNS = SparseTernary(6, 2)
PROTOCOLS: list[tuple[Callable[..., Any], Vectors]] = [
    (partial(PrivateVectorSum, integers=True), Box(6, 0, 9)),
    (partial(SampledCoordinates, messages=4), Box(6, -1, 2)),
    (CentralGaussian, Ball(6)),
    (FrequencyEstimation, Categories([6])),
    (PrivKV, SIGNS),
    (PCKVGRR, SIGNS),
    (PCKVUE, SIGNS),
]
SLOW: list[tuple[Callable[..., Any], Vectors]] = [
    (partial(PrivateVectorSum, layout=4), Ball(6)),
    (SampledCoordinates, Box(6)),
    (SingleMessageGrid, Box(6)),
    (KashinCorrelatedNoise, Ball(6, 2)),
    (KashinPrivateSum, Ball(6)),
    (Collision, SIGNS),
]


def in_shape(rows: Any) -> NDArray[Any]:
    """Return arrays of the shape from vectors, which are on the first axis, or those before it."""
    found = np.asarray(rows)
    return found.reshape(*found.shape[:-1], *SHAPE)


@pytest.mark.parametrize(
    ("make", "domain"),
    [*PROTOCOLS, *(pytest.param(*one, marks=pytest.mark.slow) for one in SLOW)],
    ids=str,
)
def test_results_are_those_of_vectors_in_the_shape(
    make: Callable[..., Any], domain: Vectors
) -> None:
    """With the same randomness, of all users or step by step; nothing else is taken."""
    kinds = domain, replace(domain, shape=SHAPE)
    flat, shaped = (make(N, one, epsilon=5.5, delta=0.09) for one in kinds)
    x = vectors(domain, N)
    x = np.floor(x) if domain == Box(6, 0, 9) else x
    tensor = in_shape(x)
    assert shaped.mse == flat.mse
    assert shaped.domain.shape == SHAPE

    def both(call: Callable[[Any, Any, Any], Any]) -> tuple[Any, Any]:
        """Return what a call returns for the vectors and for the tensor."""
        return tuple(
            call(protocol, values, DeterministicRandom(1))
            for protocol, values in ((flat, x), (shaped, tensor))
        )  # type: ignore[return-value]

    expected, result = both(lambda protocol, values, rng: protocol.run(values, rng))
    assert (result.estimate == in_shape(expected.estimate)).all()
    assert not result.estimate.flags.writeable
    for interval in ("interval", "mean_interval"):
        ends, low_and_high = (getattr(one, interval)(0.9) for one in (expected, result))
        assert (np.array(low_and_high) == in_shape(ends)).all()
    assert str(result) == str(expected)
    if hasattr(result, "counts"):
        assert (result.counts == np.moveaxis(in_shape(expected.counts.T), 0, -1)).all()
        means = expected.conditional_mean(), result.conditional_mean()
        assert np.array_equal(means[1], in_shape(means[0]), equal_nan=True)
    ones, others = both(lambda protocol, values, rng: protocol.randomize(values, rng))
    assert (ones == others).all()
    steps = [
        protocol.analyze(protocol.shuffle(ones, DeterministicRandom(2))).estimate
        for protocol in (flat, shaped)
    ]
    assert (steps[1] == in_shape(steps[0])).all()
    reports = both(lambda protocol, values, rng: protocol.report(values[0], rng))
    if isinstance(reports[0], np.ndarray):
        assert (reports[0] == reports[1]).all()
    measured = both(lambda protocol, values, rng: measure(protocol, values, 2, rng).errors)
    assert measured[0] == measured[1]
    for wrong in (x, tensor.transpose(0, 2, 1), tensor[..., np.newaxis]):
        with pytest.raises(InvalidValue, match=r"^x must have shape \(users, 2, 3\)"):
            shaped.run(wrong)
    for wrong in (x[0], tensor[0].T):
        with pytest.raises(InvalidValue, match=r"^x must (be one vector of 2 x 3|have shape)"):
            shaped.report(wrong)


@pytest.mark.slow
def test_these_are_all_protocols_for_vectors() -> None:
    covered = {getattr(make, "func", make) for make, _ in PROTOCOLS + SLOW}
    assert covered == {type(case.small()) for case in VECTORS.values()}


def test_a_federated_round_of_weight_matrices() -> None:
    """A layer of 10 x 10 weights is trained without a line of reshaping."""
    draw = np.random.default_rng(0)
    users, target = 400, draw.normal(size=(10, 10))
    domain = Ball(100, 5.0, shape=(10, 10))
    protocol = PrivateVectorSum(users, domain, epsilon=8, delta=1e-6, releases=5)
    weights, rng = np.zeros((10, 10)), DeterministicRandom(0)
    for _ in range(5):
        steps = (target - weights) + 0.1 * draw.normal(size=(users, 10, 10))
        norms = np.linalg.norm(steps, axis=(1, 2), keepdims=True)
        weights += protocol.run(steps / np.maximum(1, norms / 5), rng).mean()
    assert weights.shape == (10, 10)
    assert np.abs(weights - target).max() < 0.5 < np.abs(target).max()


# Where a value becomes a row


def test_arrays_are_not_copied() -> None:
    x = np.zeros((5, 2, 3))
    for domain in (Box(6, shape=SHAPE), ResidueVectors(Zq(8), None, 6, shape=SHAPE)):
        values = x.astype(np.uint8) if isinstance(domain, ResidueVectors) else x
        rows = domain.values(values)
        assert rows.shape == (5, 6)
        assert np.shares_memory(rows, values)
        assert np.shares_memory(domain.shaped(rows), values)
        assert domain.shaped(rows).shape == values.shape
    protocol = PrivateVectorSum(5, Box(6, shape=SHAPE), 1, 1e-3, messages=3)
    for values in (x, x.astype(np.float32)):
        inputs = protocol.reader.read(values)
        assert np.shares_memory(inputs.vectors(), values)
        assert [block.shape for block in inputs.blocks(3)] == [(3, 6), (2, 6)]  # checked again


@pytest.mark.parametrize(
    ("domain", "value", "message"),
    [
        (Box(6, shape=SHAPE), 2, r"^x\[9, 1, 2\] must be in \[0, 1\]$"),
        (Box(6, shape=(1, 2, 3)), math.nan, r"^x\[9, 0, 1, 2\] must .*, not missing$"),
        (Ball(6, shape=SHAPE), 2, r"^x\[9\] must have a norm"),
        (Ball(6, shape=SHAPE), math.inf, r"^x\[9, 1, 2\] must be finite"),
        (SparseTernary(6, 1, shape=SHAPE), 2, r"^x\[9, 1, 2\] must be -1, 0 or 1"),
        (Categories([6], shape=SHAPE), 2, r"^x\[9, 1, 2\] must be 0 or 1"),
        (Categories([3, 3], shape=SHAPE), 0, r"^x\[7\] .* among its entries \(0, 0\) to \(0, 2\)"),
        (ResidueVectors(Zq(2), None, 6, shape=SHAPE), 2, r"^x\[:, 1, 2\]\[9\] must be in \[0, q\)"),
        (Box(6, shape=SHAPE), None, r"^x\[9, 1, 2\] must be .*, not missing"),
    ],
    ids=str,
)  # fmt: skip
def test_errors_name_the_place_in_the_array(domain: Any, value: Any, message: str) -> None:
    x = np.zeros((3, *domain.shape), object if value is None else float)
    x = x.astype(int) if isinstance(domain, ResidueVectors) else x
    x[2].flat[-1] = value
    with pytest.raises(InvalidValue, match=message) as caught:
        domain.values(x, first=7)
    assert caught.value.row is None or 7 <= caught.value.row <= 9


def test_promises_about_matrices_are_checked() -> None:
    integers = PrivateVectorSum(
        3, Box(6, 0, 4, shape=SHAPE), 1, 1e-3, messages=3, integers=True,
        sensitivity=Sensitivity(l1=2),
    )  # fmt: skip
    x = np.ones((3, 2, 3))
    x[2, 1, 2] = 0.5
    curator = CentralGaussian(3, integers.domain, 1, 1e-3, integers=True)
    for protocol in (integers, curator):
        with pytest.raises(InvalidValue, match=r"^x\[2, 1, 2\] must be an integer$"):
            protocol.run(x)
    x[2, 1, 2] = 2
    assert integers.run(x).users == 3
    x[2, 1] = 2
    with pytest.raises(InvalidValue, match=r"^x\[2\] must differ from x\[0\] by at most 2 in l1"):
        integers.run(x)
    x[1:, 1] = 1, 1, 0
    x[2, 1, 2] = 2
    close = PrivateVectorSum(
        3, integers.domain, 1, 1e-3, messages=3, sensitivity=Sensitivity(linf=1)
    )
    with pytest.raises(InvalidValue, match=r"^x\[1\] must differ from x\[2\] by at most 1 in linf"):
        close.run(iter([x[:1], x[1:]]))


def test_secure_sums_have_a_shape() -> None:
    x = np.arange(5 * 6).reshape(5, 3, 2) % 10
    for layout in ("separate", 4):
        protocol = SecureVectorSum(5, 6, upper=9, shape=(3, 2), layout=layout)
        assert (protocol.run(x) == x.sum(axis=0)).all()
        assert "shape=(3, 2), dimension=6" in str(protocol)
    big = SecureVectorSum(5, 6, 2**100, shape=(3, 2), messages=3)
    assert big.run(x.astype(object) << 90).tolist() == (x.astype(object).sum(axis=0) << 90).tolist()
    with pytest.raises(InvalidValue, match=r"^x must have shape \(users, 3, 2\)"):
        protocol.run(x.reshape(5, 6))
    assert pickle.loads(pickle.dumps(protocol)) == protocol


def test_functions_of_matrices_have_weights_of_their_shape() -> None:
    x = np.random.default_rng(0).uniform(size=(500, 2, 3))
    weights = np.stack([np.ones((2, 3)), np.eye(2, 3)])
    budget: dict[str, Any] = {"epsilon": 1, "delta": 1e-3}
    found, expected = (
        linear_statistics(values, w, domain, **budget, rng=DeterministicRandom(0))
        for values, w, domain in (
            (x, weights, Box(6, shape=SHAPE)),
            (x.reshape(-1, 6), weights.reshape(2, 6), Box(6)),
        )
    )
    assert (found.means() == expected.means()).all()
    with pytest.raises(ValueError, match=r"^weights must have shape \(functions, 2, 3\)"):
        linear_statistics(x, weights.reshape(2, 6), Box(6, shape=SHAPE), **budget)


def test_signs_are_drawn_in_the_shape_of_the_values() -> None:
    x = np.random.default_rng(0).uniform(-1, 1, (20, 2, 3))
    shaped, flat = Ternarizer(6, 2, shape=SHAPE), Ternarizer(6, 2)
    signs = shaped(x, DeterministicRandom(0))
    assert (signs == flat(x.reshape(20, 6), DeterministicRandom(0)).reshape(x.shape)).all()
    assert shaped.domain == SparseTernary(6, 2, shape=SHAPE)
    assert shaped.mean_square(x) == flat.mean_square(x.reshape(20, 6))


@pytest.mark.slow
def test_comparisons_keep_the_shape() -> None:
    keys = ["central-gaussian", "one-coordinate"]
    rows = comparison(1000, epsilon=1, delta=1e-6, domain=Ball(6, shape=SHAPE), protocols=keys)
    for row in rows:
        assert row.protocol is not None
        assert row.protocol.run(np.zeros((1000, 2, 3))).estimate.shape == SHAPE


@pytest.mark.parametrize(
    ("shape", "error", "message"),
    [
        ((2, 2), ValueError, r"^shape must have dimension = 6 entries, got \(2, 2\)"),
        ((7,), ValueError, "^shape must have dimension = 6 entries"),
        ((-2, -3), ValueError, "^shape must be at least 1, got -2"),
        ((2.0, 3), TypeError, "^shape must be an integer"),
        (6, TypeError, "^shape must be a sequence"),
        (None, TypeError, "^shape must be a sequence"),
    ],
)
def test_wrong_shapes_are_refused(shape: Any, error: type[Exception], message: str) -> None:
    for make in (
        partial(Box, 6), partial(Ball, 6), partial(SparseTernary, 6, 2),
        partial(Categories, [2, 4]), partial(SecureVectorSum, 3, 6, 16),
    ):  # fmt: skip
        with pytest.raises(error, match=message):
            make(shape=shape)


def test_a_shape_of_one_axis_is_that_of_vectors() -> None:
    assert Box(6, shape=[6]) == Box(6)
    assert Box(6).shape == (6,)
    assert repr(Box(6, shape=(6,))) == "Box(dimension=6, lower=0.0, upper=1.0)"
    shaped = Box(6, shape=SHAPE)
    assert shaped != Box(6)
    assert eval(repr(shaped)) == shaped == pickle.loads(pickle.dumps(shaped))
