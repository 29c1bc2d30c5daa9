"""Options that are passed on are those of the protocol that takes them, with their types."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, get_type_hints

import pytest

from ikos import PrivateSum, PrivateVectorSum, statistics
from ikos.statistics import histograms, linear_statistics, means, variances
from ikos.statistics.release import GroupOptions, MeanOptions, SumOptions, VectorSumOptions


@pytest.mark.parametrize(
    ("options", "protocol", "own"),
    [
        (SumOptions, PrivateSum, {"lower", "upper", "integers"}),
        (MeanOptions, PrivateSum, {"lower", "upper"}),
        (VectorSumOptions, PrivateVectorSum, {"sensitivity", "integers"}),
        (GroupOptions, PrivateVectorSum, {"sensitivity"}),
    ],
)
def test_options_are_those_of_the_protocol(options: Any, protocol: Any, own: set[str]) -> None:
    made = protocol.__init__
    taken = {
        name: get_type_hints(made)[name]
        for name, one in inspect.signature(made).parameters.items()
        if one.kind is one.KEYWORD_ONLY and name not in own
    }
    assert get_type_hints(options) == taken
    assert not options.__required_keys__


@pytest.mark.parametrize(
    ("function", "options"),
    [
        (statistics.mean, GroupOptions),
        (statistics.quantiles, GroupOptions),
        (statistics.median, GroupOptions),
        (statistics.count, VectorSumOptions),
        (statistics.variance, VectorSumOptions),
        (statistics.histogram, SumOptions),
        (means, VectorSumOptions),
        (variances, VectorSumOptions),
        (histograms, VectorSumOptions),
        (linear_statistics, VectorSumOptions),
    ],
)
def test_a_type_checker_knows_them(function: Callable[..., Any], options: Any) -> None:
    assert inspect.signature(function).parameters["options"].annotation == (
        f"Unpack[{options.__name__}]"
    )
