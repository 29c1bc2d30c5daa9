"""Noise that is none, tasks that are read once, and a date that can be moved."""

from __future__ import annotations

from contextlib import ExitStack
from datetime import UTC, datetime
from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest


@pytest.fixture
def quiet(monkeypatch):
    """Let no client add noise: sums are exact."""
    from ikos.noise import laplace_noise, skellam_noise

    none = np.empty(0, dtype=np.int64)
    monkeypatch.setattr(laplace_noise, "polya_shares", lambda *_, **__: (none, none))
    monkeypatch.setattr(
        skellam_noise, "skellam_draws", lambda _, size, __: np.zeros(size, np.int64)
    )


@cache
def _read(text):
    from ikos.deployment.task import Task

    return Task.from_json(text)


@pytest.fixture
def remembered(monkeypatch):
    """Let a task be checked once, which takes a while."""
    from ikos.deployment import party_files

    monkeypatch.setattr(party_files, "Task", SimpleNamespace(from_json=_read))


@pytest.fixture
def date(monkeypatch):
    """The date of all parties, ``date.now``; without one it is that of this machine."""
    from ikos.deployment import analyzer, endpoint

    date = SimpleNamespace(now=None)
    for module in (analyzer, endpoint):
        monkeypatch.setattr(module, "now", lambda: date.now or datetime.now(UTC))
    return date


@pytest.fixture(scope="session")
def unused(tmp_path_factory):
    """Return all parties of a task, who were here once, to be copied: that is faster."""
    from deployment_world import World

    @cache
    def unused(task):
        world = World(task, tmp_path_factory.mktemp("unused"))
        world.stop()
        return world

    return unused


@pytest.fixture
def world_of(tmp_path, unused, quiet):
    """Return all parties of tasks, without noise, which end with the test."""
    from deployment_world import World

    with ExitStack() as stack:

        def world_of(task, **options):
            (folder := tmp_path / "world").mkdir()
            world = World(task, folder, None if options else unused(task), **options)
            stack.callback(world.stop)
            return world

        yield world_of
