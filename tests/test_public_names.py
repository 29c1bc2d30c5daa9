"""What `import ikos` shows, and what it costs."""

from __future__ import annotations

import subprocess
import sys

import pytest

import ikos


def test_every_name_is_there_and_shown() -> None:
    """Also of modules that are not imported yet, to whoever completes names with a key."""
    code = "import ikos; print(*dir(ikos)); print(*(getattr(ikos, n) is None for n in dir(ikos)))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    names, missing = (line.split() for line in ran.stdout.splitlines())
    assert names == sorted(ikos.__all__)
    assert set(missing) == {"False"}


def test_a_name_that_is_elsewhere_is_not_found_here() -> None:
    with pytest.raises(AttributeError, match=r"no attribute 'RecursiveSum'; .* ikos\.protocols"):
        _ = ikos.RecursiveSum  # type: ignore[attr-defined]


def test_importing_takes_no_extra_and_no_heavy_module() -> None:
    code = (
        "import sys, ikos; print(*{'matplotlib', 'pyarrow', 'dask', 'httpx', 'sklearn',"
        " 'networkx', 'click', 'scipy.stats', 'scipy.optimize'} & set(sys.modules))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == []
