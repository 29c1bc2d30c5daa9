"""Settings shared by all tests."""

from __future__ import annotations

from hypothesis import settings

# Derandomized: a run of the suite is reproducible, and needs no database on disk.
settings.register_profile("ikos", deadline=None, derandomize=True, database=None, max_examples=60)
settings.load_profile("ikos")
