"""Settings shared by all tests."""

from __future__ import annotations

import signal

from hypothesis import settings

# A shell lets what it runs in the background ignore Ctrl-C, and so would the programs under test.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Derandomized: a run of the suite is reproducible, and needs no database on disk.
settings.register_profile("ikos", deadline=None, derandomize=True, database=None, max_examples=60)
settings.load_profile("ikos")
