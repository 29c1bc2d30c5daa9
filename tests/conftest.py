"""Settings shared by all tests."""

from __future__ import annotations

import os
import random
import signal
from contextlib import nullcontext
from pathlib import Path

import pytest
from hostile import hostile
from hypothesis import settings

# Whole packages first: pytest would run a module whose package is not loaded a second time, for its
# doctests, and its classes would not be those that others have imported.
import ikos.sums  # noqa: F401

POINTS = 2

# A shell lets what it runs in the background ignore Ctrl-C, and so would the programs under test.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Derandomized: a run of the suite is reproducible, and needs no database on disk.
COMMON = {"deadline": None, "derandomize": True, "database": None}
settings.register_profile("ikos", **COMMON, max_examples=60)
settings.register_profile("sample", **COMMON, max_examples=14)


class Examples:
    """Runs the examples of docstrings as a caller with settings of its own: see `hostile`."""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item):
        with hostile() if isinstance(item, pytest.DoctestItem) else nullcontext():
            return (yield)


def pytest_configure(config):
    config.pluginmanager.register(Examples())  # hooks of this file see no test outside its folder
    settings.load_profile("sample" if config.option.markexpr == "not slow" else "ikos")


def pytest_make_parametrize_id(val):
    """Name large integers by their size, and long texts by how they begin."""
    if isinstance(val, int) and abs(val) >= 10**9:
        power = val.bit_length() - 1
        return f"2^{power}" if val == 1 << power else f"{val.bit_length()}bits"
    return ascii(val[:30])[1:-1] if isinstance(val, str) else None


def spread(items, size):
    """Return a sample that has as many values of each parameter as it can, the same in each run."""
    rest = list(items)
    random.Random(rest[0].originalname).shuffle(rest)
    sample, seen = set(), set()
    while len(sample) < size:
        values = [set(enumerate(item.callspec.id.split("-"))) for item in rest]
        best = max(range(len(rest)), key=lambda i: len(values[i] - seen))
        seen |= values[best]
        sample.add(rest.pop(best))
    return sample


@pytest.hookimpl(wrapper=True)
def pytest_pycollect_makeitem():
    """Of a test with many parameters, leave a sample quick: the other points are slow."""
    items = yield
    if isinstance(items, list):
        grid = [item for item in items if not item.get_closest_marker("slow")]
        marker = items[0].get_closest_marker("points") if items else None
        size = POINTS if marker is None else marker.args[0]
        if len(grid) > size:
            sample = spread(grid, size)
            for item in set(grid) - sample:
                item.add_marker(pytest.mark.slow)
                item.add_marker(pytest.mark.grid)
    return items


@pytest.fixture(scope="session")
def adult():
    """Return the path of adult.data of the UCI Adult data set, which is not part of the project."""
    path = Path(os.environ.get("ADULT", Path(__file__).parents[2] / "shared/data/adult.data"))
    if not path.is_file():
        pytest.skip("adult.data is neither at ../shared/data nor where ADULT says")
    return path


@pytest.fixture
def coarse_digits(monkeypatch):
    """Let digits be bounded coarsely but for 10^4 users: otherwise each size takes seconds."""
    from ikos.baselines import recursive_sum_bbgn20 as digits

    exact = digits.optimized_digits

    def composed(users, *rest, **options):
        if users != 10**4:
            options |= {"composition": "basic", "accountant": "hoeffding"}
        return exact(users, *rest, **options)

    monkeypatch.setattr(digits, "optimized_digits", composed)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol():
    """Let each test find Ctrl-C as the first did: a program that ends leaves it ignored."""
    before = signal.getsignal(signal.SIGINT)
    try:
        return (yield)
    finally:
        signal.signal(signal.SIGINT, before)
