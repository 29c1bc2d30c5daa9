"""The reference has all that the packages offer."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

REFERENCE = Path(__file__).parent.parent / "docs" / "api.md"
PACKAGES = (
    "ikos", "ikos.accounting", "ikos.attacks", "ikos.baselines", "ikos.counts",
    "ikos.data.datasets", "ikos.graphs", "ikos.noise", "ikos.plots", "ikos.primitives.randomness",
    "ikos.statistics", "ikos.sums", "ikos.testing",
)  # fmt: skip
ASIDE = {
    "ikos": {"__version__"},
    # for the command line and for those who write figures of their own
    "ikos.plots": {"BOTH_WAYS", "SUFFIXES", "written_whole"},
}


@pytest.mark.skipif(not REFERENCE.exists(), reason="the documentation is not here")
@pytest.mark.parametrize("package", PACKAGES)
def test_every_name_has_a_place(package):
    names = set(importlib.import_module(package).__all__) - ASIDE.get(package, set())
    text = REFERENCE.read_text()
    assert sorted(name for name in names if not re.search(rf"\b{name}\b", text)) == []
    assert package in text
