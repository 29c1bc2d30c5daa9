"""Settings shared by all tests."""

from __future__ import annotations

import random
import signal
from collections import defaultdict

import pytest
from hypothesis import settings

POINTS = 5

# A shell lets what it runs in the background ignore Ctrl-C, and so would the programs under test.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Derandomized: a run of the suite is reproducible, and needs no database on disk.
settings.register_profile("ikos", deadline=None, derandomize=True, database=None, max_examples=40)
settings.load_profile("ikos")


def pytest_configure(config):
    config.addinivalue_line("markers", "every_point: quick at every point (see tests/conftest.py)")


def spread(items, size):
    """Return a sample that has as many values of each parameter as it can, the same in each run."""
    rest = list(items)
    random.Random(rest[0].originalname).shuffle(rest)
    sample, seen = [], set()
    while len(sample) < size:
        values = [set(enumerate(item.callspec.id.split("-"))) for item in rest]
        best = max(range(len(rest)), key=lambda i: len(values[i] - seen))
        seen |= values[best]
        sample.append(rest.pop(best))
    return sample


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Of a test with many parameters, leave a sample quick: the other points are slow.

    Where a file or a test is named, every point is as it is marked: so each mutant of
    `mutants.toml` meets every point of the files that should notice it.
    """
    if any(".py" in argument for argument in config.args):
        return
    points = defaultdict(list)
    for item in items:
        if hasattr(item, "callspec") and not any(map(item.get_closest_marker, ("slow", "every_point"))):
            points[item.nodeid.partition("[")[0]].append(item)
    for grid in points.values():
        if len(grid) > POINTS:
            sample = set(spread(grid, POINTS))
            for item in grid:
                if item not in sample:
                    item.add_marker(pytest.mark.slow)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol():
    """Let each test find Ctrl-C as the first did: a program that ends leaves it ignored."""
    before = signal.getsignal(signal.SIGINT)
    try:
        return (yield)
    finally:
        signal.signal(signal.SIGINT, before)
