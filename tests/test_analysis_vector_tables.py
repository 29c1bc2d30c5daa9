"""The tables of messages and errors on the pages about vectors."""

from __future__ import annotations

import pytest
from pages import page

from analysis import vector_tables as module
from ikos import Box
from ikos.baselines import SampledCoordinates


@pytest.mark.slow
@pytest.mark.parametrize("name", module.TABLES)
@pytest.mark.reproduces
def test_the_documentations_tables_are_the_programs(name: str) -> None:
    assert page(f"figures/{name}.md") == module.TABLES[name](), "make figures, and copy it"
    pages = page("vectors.md") + page("vector-protocols.md")
    assert f"```{{include}} figures/{name}.md\n```" in pages


@pytest.mark.slow
@pytest.mark.reproduces
def test_the_precision_is_the_best_one() -> None:
    n, box = 10**7, Box(1024)
    below, best, above = (
        SampledCoordinates(n, box, *module.BUDGET, messages=1024, precision=k).mse
        for k in (module.PRECISIONS[n] + step for step in (-1, 0, 1))
    )
    assert best < min(below, above)


def test_numbers_are_shortened() -> None:
    assert module.rounded(8388608.0) == "8,390,000"
    assert module.rounded(189.889) == "190"
    assert module.rounded(12.986) == "13"
    assert module.rounded(float("inf")) == "unlimited"
    assert module.whole_bytes(8) == "1"
    assert module.whole_bytes(8.1) == "2"
