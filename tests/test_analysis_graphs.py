"""The scripts of the page on random graphs."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.slow
@pytest.mark.parametrize("number", [0, 1])
def test_the_pages_scripts_run(number, tmp_path):
    """They start processes, which the other blocks of the documentation do not."""
    if number:
        pytest.importorskip("distributed")
    page = (ROOT / "docs" / "random-graphs.md").read_text(encoding="utf-8")
    script = tmp_path / "script.py"
    blocks = re.findall(r"^```py\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    script.write_text(blocks[number], encoding="utf-8")
    command = [sys.executable, "-W", "error", str(script)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert ended.returncode == 0, ended.stderr
    counts = dict(re.findall(r"(\d+): (\d+)", ended.stdout))
    assert sum(map(int, counts.values())) == 1_000_000
    assert int(counts["2"]) == pytest.approx(2518, abs=400)
