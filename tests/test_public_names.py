"""What `import ikos` shows, and what it costs."""

from __future__ import annotations

import importlib
import importlib.resources
import subprocess
import sys

import pytest

import ikos


@pytest.mark.points(0)
def test_every_name_is_there_and_shown() -> None:
    """Also of modules that are not imported yet, to whoever completes names with a key."""
    code = "import ikos; print(*dir(ikos)); print(*(getattr(ikos, n) is None for n in dir(ikos)))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    names, missing = (line.split() for line in ran.stdout.splitlines())
    assert names == sorted(ikos.__all__)
    assert set(missing) == {"False"}


def test_a_name_that_is_elsewhere_is_not_found_here() -> None:
    with pytest.raises(AttributeError, match="no attribute 'RecursiveSum'"):
        _ = ikos.RecursiveSum  # type: ignore[attr-defined]


def test_importing_takes_nothing_else() -> None:
    """So that the command line answers at once."""
    code = "import sys; before = set(sys.modules); import ikos; print(*set(sys.modules) - before)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    roots = {name.partition(".")[0] for name in ran.stdout.split()}
    assert roots - {"ikos"} <= set(sys.stdlib_module_names)


def test_names_are_what_their_modules_say() -> None:
    for room, names in vars(ikos)["_NAMES"].items():
        for name in names:
            assert getattr(ikos, name) is getattr(importlib.import_module(f"ikos.{room}"), name)
            assert name in ikos.__all__


def test_it_is_typed() -> None:
    """As type checkers know, that look for this file."""
    assert (importlib.resources.files("ikos") / "py.typed").is_file()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "absent", "extra"),
    [
        ("plots.figures", "matplotlib", "plot"),
        ("accounting.loss_distributions", "dp_accounting", "dp-accounting"),
        ("deployment", "pydantic", "deployment"),
        ("deployment.client", "cryptography.hazmat.primitives.hpke", "client"),
    ],
)
def test_an_extra_that_is_missing_is_named(name: str, absent: str, extra: str) -> None:
    code = f"import sys; sys.modules[{absent!r}] = None; import ikos.{name}"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    last = ran.stderr.splitlines()[-1]
    assert last.startswith("ImportError: ")
    assert f"pip install 'ikos[{extra}]'" in last or f"'ikos[{extra}]' for clients" in last
