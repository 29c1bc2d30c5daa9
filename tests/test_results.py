"""What results look like: rounded in the safe direction, and in words in notebooks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ikos
from ikos.counts import MessageCount
from ikos.protocols import CorrelatedNoise, comparison
from ikos.results import Guarantee, footer
from ikos.vectors import Ball, PrivateVectorSum, histograms, means, variances


def results():
    """Return one of each kind of result."""
    x = np.linspace(0, 1, 100)
    budget = {"epsilon": 1, "delta": 1e-4}
    protocol = ikos.PrivateSum(100, **budget)
    yield protocol.run(x)
    yield protocol.guarantee
    yield protocol.messages
    yield protocol.cost()
    yield ikos.statistics.variance(x, lower=0, upper=1, **budget)
    yield ikos.statistics.histogram(list("ab" * 50), list("ab"), **budget)
    yield PrivateVectorSum(100, Ball(2), 1, 1e-4).run(np.zeros((100, 2)))
    yield histograms({"a": list("xy" * 50)}, {"a": list("xy")}, **budget)
    yield means(np.zeros((100, 2)), lower=0, upper=1, **budget)
    yield variances(np.zeros((100, 2)), lower=0, upper=1, **budget)
    yield from comparison(100, 1, 1e-4, protocols=["privacy-blanket"])


def test_notebooks_show_what_print_shows() -> None:
    pretty = pytest.importorskip("IPython.lib.pretty").pretty
    shown = list(results())
    assert len({type(result) for result in shown}) == len(shown)
    for result in shown:
        text = str(result)
        assert not text.startswith(type(result).__name__ + "(")  # the fields, one by one
        assert pretty(result) == text


def test_the_end_of_what_is_printed() -> None:
    guarantee = Guarantee(1.0, 1e-8, "theorem of somebody", ("if so", "and if so"))
    assert footer(guarantee, "all of it") == (
        "guarantee (1, 1e-08)-differential privacy, replace-one",
        "          by theorem of somebody",
        "          if so",
        "          and if so",
        "sent      all of it",
    )
    nothing = replace(guarantee, delta=1.0, conditions=())
    assert footer(nothing, "all of it") == (
        "guarantee no differential privacy is proved: too few messages",
        "sent      all of it",
    )


def test_every_kind_says_guarantee_conditions_and_cost() -> None:
    for result in results():
        if not hasattr(result, "guarantee") or "\n" not in str(result):
            continue
        text = str(result)
        assert result.guarantee.budget in text
        assert f"\n          by {result.guarantee.theorem}\n" in text
        assert all(f"\n          {one}\n" in text for one in result.guarantee.conditions)
        assert "\nsent      " in text


@given(st.floats(1e-3, 1e4), st.floats(1e-300, 0.99))
def test_what_is_printed_of_a_count_holds(sigma: float, delta: float) -> None:
    """A level is rounded down, and a delta up."""
    secure = MessageCount(3, 1, sigma, "exact", "a theorem")
    assert float(str(secure).split("sigma = ")[1].split()[0]) <= sigma
    private = MessageCount(3, 1, sigma, "exact", "a theorem", delta, 0.5)
    assert float(str(private).split("delta = ")[1].split(",")[0]) >= delta


def test_one_honest_user_is_spoken_of_as_one() -> None:
    for protocol, options in ((PrivateVectorSum, {"domain": Ball(2)}), (CorrelatedNoise, {})):
        for least, said in ((1, "1 of 50 users is honest"), (40, "40 of 50 users are honest")):
            found = protocol(50, epsilon=1, delta=1e-3, min_honest=least, **options).guarantee
            assert f"while at least {said} and present" in found.conditions
