"""Noise that is none, for tests that must find a sum exactly."""

from __future__ import annotations

import numpy as np
import pytest


@pytest.fixture
def quiet(monkeypatch):
    """Let no client add noise: sums are exact."""
    from ikos.sums import private as private_sum

    none = np.empty(0, dtype=np.int64)
    monkeypatch.setattr(private_sum, "polya_shares", lambda *_, **__: (none, none))
    monkeypatch.setattr(private_sum, "skellam_draws", lambda _, size, __: np.zeros(size, np.int64))
