"""The documentation's walk-through with all parties on one machine, as it stands there."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

pytest.importorskip("starlette")

from deployment_processes import free_ports

PAGE = Path(__file__).parents[2] / "docs" / "deployment.md"
FIRST, LAST = 8100, 8106


def walk_through(language):
    """Return the blocks of the section."""
    section = PAGE.read_text("utf-8").partition("\n## On this machine\n")[2].partition("\n## ")[0]
    return re.findall(rf"^```{language}\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_the_walk_through(tmp_path):
    ports = dict(zip(range(FIRST, LAST + 1), free_ports(LAST - FIRST + 1), strict=True))

    def at_free_ports(text):
        return re.sub(r"\b81\d\d\b", lambda port: str(ports[int(port[0])]), text)

    ikos = tmp_path / "bin" / "ikos"
    ikos.parent.mkdir()
    ikos.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m ikos "$@"\n')
    ikos.chmod(0o755)
    run = subprocess.Popen(
        ["bash", "-eu", "-c", at_free_ports("".join(walk_through("sh")))],
        cwd=tmp_path,
        env={**os.environ, "PATH": f"{ikos.parent}:{os.environ['PATH']}"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        out, said = run.communicate(timeout=300)
    finally:
        with suppress(ProcessLookupError):  # parties that a command that failed left behind
            os.killpg(run.pid, signal.SIGKILL)
    assert run.returncode == 0, said
    lines = out.splitlines()
    shown = [line for block in walk_through("output") for line in block.splitlines()]
    assert len(shown) == 14
    for line in shown:  # estimates differ from run to run, and nothing else
        exact = not line.startswith("  sum ")
        pattern = re.escape(at_free_ports(line))
        pattern = pattern if exact else r"  sum +[\d,]+ +-?[\d,]+ +[\d,]+"
        assert any(re.fullmatch(pattern, one) for one in lines), (line, out)
    assert lines.count("INFO ikos.deployment stopped") == len(ports)
    sums = [float(line.split()[1]) for line in lines if line.startswith("  sum ")]
    assert len(sums) == 2  # of the release and of the status after it
    assert sums[0] == sums[1]
    assert abs(sums[0] - 704) < 150  # ten times what it may be off in the mean
    assert [path.name for path in tmp_path.iterdir()] == ["bin"]
