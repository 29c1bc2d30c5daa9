"""What a server logs, a line for each event, and leaves when it crashes: nothing."""

from __future__ import annotations

import io
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("uvicorn")

from ikos.deployment import server


@pytest.fixture(name="logged")
def fixture_logged(monkeypatch):
    """Return a function that gives the lines; the loggers are as before, after the test."""
    names = ("ikos.deployment", "uvicorn", "asyncio")
    before = [
        (logger, logger.handlers[:], logger.level, logger.propagate)
        for logger in map(logging.getLogger, names)
    ]
    text = io.StringIO()
    monkeypatch.setattr(sys, "stderr", text)
    server.log_lines()
    yield lambda: text.getvalue().splitlines()
    for logger, handlers, level, propagate in before:
        logger.handlers[:], logger.propagate = handlers, propagate
        logger.setLevel(level)


def test_warnings_that_strangers_cause_are_not_logged(logged):
    logging.getLogger("uvicorn.error").warning("Invalid HTTP request received.")
    assert not logged()


def test_no_traceback(logged):
    try:
        raise ValueError("what a request held")
    except ValueError:
        logging.getLogger("asyncio").exception("Exception in callback\nhandle: <Handle>")
    (line,) = logged()
    assert line == "ERROR asyncio Exception in callback handle: <Handle>"


@pytest.mark.points(1)
@pytest.mark.skipif(not Path("/proc/self/limits").exists(), reason="limits are read from /proc")
@pytest.mark.parametrize("kept", [False, True])
@pytest.mark.slow
def test_a_crash_leaves_no_dump(tmp_path, kept):
    """The system is told to write none; without that it is free to write one."""
    code = (
        "import os, resource, sys\n"
        "hard = resource.getrlimit(resource.RLIMIT_CORE)[1]\n"
        "resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))\n"
        "from ikos.deployment import server\n"
        f"{'pass' if kept else 'server.leave_no_dump()'}\n"
        "print(resource.getrlimit(resource.RLIMIT_CORE) == (0, 0), hard == 0, flush=True)\n"
        "os.abort()\n"
    )
    done = subprocess.Popen(
        [sys.executable, "-c", code], cwd=tmp_path, stdout=subprocess.PIPE, text=True
    )
    said, _ = done.communicate(timeout=60)
    assert done.returncode < 0
    none, never = said.split()
    assert none == str(not kept or never == "True")
    if not kept:
        assert os.listdir(tmp_path) == []
