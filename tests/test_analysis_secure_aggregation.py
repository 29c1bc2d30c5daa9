"""A helper beside SecAgg+: both add up the same vectors, and the documentation has the bytes."""

from __future__ import annotations

import importlib.util
import math

import numpy as np
import pytest
from click.testing import CliRunner
from pages import page, rows

from analysis import secure_aggregation as module

flower = importlib.util.find_spec("flwr") is not None
VECTORS = module.updates(20, 500)
TRUTH = VECTORS[3:].sum(axis=0, dtype=np.float64)


def sent_with_a_helper(dimension):
    """Return a packed vector, and an envelope of a seed, with an id each."""
    return math.ceil(dimension * module.BITS / 8) + 1168 + 2 * 16


def test_a_helper():
    measured = module.by_helper(VECTORS, 3)
    assert measured.rounds == 1
    assert len(measured.sent) == len(measured.seconds) == 17
    assert set(measured.sent) == {sent_with_a_helper(500)}
    noise = module.protocol_of(20, 500, 3).error(17).mean_square
    # a sum of 500 squares is within a half of its mean
    assert 0.5 < np.square(measured.estimate - TRUTH).sum() / noise < 1.5


@pytest.mark.slow
@pytest.mark.skipif(not flower, reason="Flower is not installed: make test-flower")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("neighbours", [0.5, 1.0])
def test_neighbours(neighbours):
    """So many that no client can lose too many of them."""
    measured = module.by_neighbours(VECTORS, 3, neighbours)
    assert measured.rounds == 4
    assert len(measured.sent) == len(measured.seconds) == 17
    assert min(measured.sent) > 8 * 500
    step = 2 * np.abs(VECTORS).max() / module.STEPS
    assert np.abs(measured.estimate - TRUTH).max() < 17 * step


@pytest.mark.skipif(flower, reason="Flower is installed")
def test_it_needs_flower():
    result = CliRunner().invoke(module.command, ["--quick"])
    assert result.exit_code == 2
    assert "pip install -r examples/flower/requirements.txt" in result.output


def test_the_documentations_table():
    """Bytes and rounds; times are of a machine, and the errors of a run."""
    ((header, body),) = rows(page("figures/secure-aggregation.md")).items()
    assert header == module.HEADER
    helper, *others = body
    assert helper[1:3] == ("1", f"{sent_with_a_helper(module.DIMENSION):,}")
    assert [row[1] for row in others] == ["4"] * len(module.NEIGHBOURS)
