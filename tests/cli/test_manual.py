"""The page of the documentation that is the page of the manual."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from command_lines import PATHS

from ikos.cli import output

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "cli.md").read_text(encoding="utf-8")


def section(heading):
    return PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


def test_statuses():
    """All that the tests of the program expect, and no other."""
    statuses = [int(status) for status in re.findall(r"^(\d+)\n: ", section("Exit status"), re.M)]
    assert statuses == [0, 1, 2, 130, output.SIGPIPE_STATUS]


def test_variables():
    """All that the command line reads, and no other, but for what click reads."""
    source = "".join(path.read_text() for path in Path(output.__file__).parent.glob("*.py"))
    read = set(re.findall(r'environ(?:\.get\(|\[)"(\w+)"', source))
    documented = set(re.findall(r"^`(\w+)`\n: ", section("Environment"), re.M))
    assert documented == read | {"COLUMNS", "_IKOS_COMPLETE"}


def test_commands():
    for name, words, _ in PATHS:
        if len(words) == 1:
            assert f"`{name}`" in section("Synopsis")


@pytest.mark.slow
def test_it_is_built(tmp_path):
    pytest.importorskip("sphinx")
    pytest.importorskip("furo")
    build = [sys.executable, "-m", "sphinx", "-W", "-q", "-b", "man", str(DOCS), str(tmp_path)]
    done = subprocess.run(build, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    page = (tmp_path / "ikos.1").read_text(encoding="utf-8")
    assert re.search(r'^\.TH "?IKOS"? "?1"? ', page, re.M)
    assert "ikos \\- sum private numbers" in page
    headings = re.findall(r"^\.SH (.*)$", page, re.M)
    assert {"SYNOPSIS", "EXIT STATUS", "ENVIRONMENT", "FILES"} <= {
        heading.upper() for heading in headings
    }
