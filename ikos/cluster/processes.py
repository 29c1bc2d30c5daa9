"""Processes that work for this one."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

MAX_WORKERS = 1024


@contextmanager
def interrupts_held() -> Iterator[None]:
    """Hold back Ctrl-C, which a terminal sends to all, from processes that start meanwhile."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    from multiprocessing import resource_tracker

    # as it starts, which it does with the first process, it lets all signals through
    resource_tracker.ensure_running()
    held = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, held)
