"""Settings shared by all tests."""

from __future__ import annotations

import signal

import pytest
from hypothesis import settings

# A shell lets what it runs in the background ignore Ctrl-C, and so would the programs under test.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Derandomized: a run of the suite is reproducible, and needs no database on disk.
settings.register_profile("ikos", deadline=None, derandomize=True, database=None, max_examples=60)
settings.load_profile("ikos")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol():
    """Let each test find Ctrl-C as the first did: a program that ends leaves it ignored."""
    before = signal.getsignal(signal.SIGINT)
    try:
        return (yield)
    finally:
        signal.signal(signal.SIGINT, before)
