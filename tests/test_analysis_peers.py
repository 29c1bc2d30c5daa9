"""The comparison with published accountants and protocols."""

from __future__ import annotations

import pytest

from analysis import peers as module

ROWS = {row.what: row for row in module.ROWS}


def test_the_curator_is_the_analytic_gaussian() -> None:
    row = ROWS["the same with a curator, d = 64"]
    assert row.peer == pytest.approx(10.2006176, abs=1e-7)
    assert row.peer < row.ours() < row.peer * 1.0001


def test_every_row_has_a_source() -> None:
    text = module.table([(row, 1.0) for row in module.ROWS])
    assert len(text.splitlines()) == len(ROWS) + 2
    assert all(row.source in text for row in module.ROWS)


@pytest.mark.slow
def test_no_row_claims_less_than_is_needed() -> None:
    """One published bound is false: see its row."""
    row = next(row for row in module.ROWS if "false" in row.source)
    assert row.peer < 0.080131 <= row.ours()
