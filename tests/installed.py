"""Install the built wheel in new environments, as users do, and try it there: `make test-dist`.

``python tests/installed.py dist`` takes the wheel in a folder. Alone, it must run the README's
samples and name what a missing extra needs; with each extra, at the lowest versions that are
allowed, it must import what the extra is for. mypy and pyright check a program that uses it.
"""

from __future__ import annotations

import doctest
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from zipfile import ZipFile

ROOT = Path(__file__).resolve().parents[1]
TOOLS = Path(sys.executable).parent

EXTRAS = {
    "parquet": "pyarrow.parquet",
    "plot": "ikos.plots.figures",
    "dp-accounting": "ikos.accounting.loss_distributions",
    "cluster": "ikos.cluster.driver",
    "client": "ikos.deployment.client",
    "deployment": "ikos.deployment.server",
    "verified": "ikos.verified.group",
}
"""A module that needs all of each extra."""

KINDS = re.compile(r"ikos-[^/]*\.dist-info/.*|ikos/(?!.*test_).*(\.py|py\.typed|README\.md|\.csv)")
"""Files of a wheel: no tests and no figures."""

NEEDED = """
import importlib
for name, extra in {pairs}:
    try:
        importlib.import_module(name)
    except ImportError as error:
        assert f"pip install 'ikos[{{extra}}]'" in str(error), (name, str(error))
    else:
        raise SystemExit(f"{{name}} needs nothing")
"""

TYPED = """
import ikos
from ikos.statistics import means

protocol = ikos.PrivateSum(1000, epsilon=1, delta=1e-6, lower=0, upper=100)
result: ikos.SumResult = protocol.run([50.0] * 1000)
estimate: float = result.estimate + 1
total: int = ikos.message_count(10**6, 2**64, 80).total
ikos.message_count(10**6, 2**64, "80")  # type: ignore[arg-type]
ikos.PrivateSums  # type: ignore[attr-defined]
"""
"""Both mistakes must be found: an ignored line that is right is an error itself."""


def run(*command: str | Path, folder: Path) -> str:
    """Return what a command prints; its output is shown if it fails."""
    settings = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    done = subprocess.run(
        command, cwd=folder, env=settings, text=True, capture_output=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


def environment(folder: Path, wheel: Path, resolution: str, *extra: str) -> Path:
    """Return the interpreter of a new environment with the wheel and what it requires."""
    uv, python = TOOLS / "uv", folder / "bin" / "python"
    run(uv, "venv", "--quiet", "--python", sys.executable, folder, folder=ROOT)
    install = (uv, "pip", "install", "--quiet", "--python", python)
    required = ("--resolution", resolution, "--requirements", "pyproject.toml", *extra)
    run(*install, *required, folder=ROOT)  # of a wheel, uv would not take the lowest versions
    run(*install, "--no-deps", wheel, folder=ROOT)
    return python


def samples() -> Iterator[str]:
    """Yield the README's Python, block by block, except that which draws."""
    text = (ROOT / "README.md").read_text("utf-8")
    for block in re.findall(r"^```(?:python|pycon)\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        if "ikos.plots" not in block:
            yield doctest.script_from_examples(block) if ">>>" in block else block


def bare(wheel: Path, folder: Path) -> None:
    """Try what is installed without extras."""
    python = environment(folder / "bare", wheel, "highest")
    assert run(python.parent / "ikos", "--version", folder=folder).split()[1] in wheel.name
    (folder / "readme.py").write_text("\n".join(samples()), encoding="utf-8")
    run(python, "-W", "error", "readme.py", folder=folder)
    run(environment(folder / "lowest", wheel, "lowest-direct"), "readme.py", folder=folder)
    names = ("plot", "dp-accounting", "deployment")
    pairs = [(EXTRAS[extra], extra) for extra in names]
    run(python, "-c", NEEDED.format(pairs=pairs), folder=folder)
    (folder / "typed.py").write_text(TYPED, encoding="utf-8")
    run(
        TOOLS / "mypy", "--strict", "--config-file=", "--python-executable", python, "typed.py",
        folder=folder,
    )  # fmt: skip
    (folder / "pyrightconfig.json").write_text('{"reportUnnecessaryTypeIgnoreComment": "error"}')
    run(TOOLS / "pyright", "--pythonpath", python, "typed.py", folder=folder)


def alone(wheel: Path, extra: str, folder: Path) -> None:
    """Try an extra without the others."""
    python = environment(folder / extra, wheel, "lowest-direct", "--extra", extra)
    run(python, "-W", "ignore", "-c", f"import {EXTRAS[extra]}", folder=folder)


def main(dist: Path) -> None:
    """Print a line for each environment."""
    (wheel,) = dist.resolve().glob("*.whl")
    strange = [name for name in ZipFile(wheel).namelist() if not KINDS.fullmatch(name)]
    assert not strange, strange
    with tempfile.TemporaryDirectory(prefix="ikos-installed-") as name:
        for extra in ("", *EXTRAS):
            begun = time.monotonic()
            if extra:
                alone(wheel, extra, Path(name))
            else:
                bare(wheel, Path(name))
            print(f"{time.monotonic() - begun:4.0f} s  {f'ikos[{extra}]' if extra else 'ikos'}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
