"""Ratios of the library's time to a floor measured in the same run, and a table of all of them."""

from __future__ import annotations

import platform
import statistics
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from analysis.machine_rates import machine

_VERSIONS = ("scipy", "gmpy2", "networkx", "cryptography")
_HEADER = ("benchmark", "ms, least", "median", "baseline, ms", "ratio, least", "median")

_rows: list[tuple[str, ...]] = []
_notes: list[str] = []


def pytest_addoption(parser: Any) -> None:
    parser.addoption("--table", type=Path, help="Write the table of ratios to a Markdown file.")


@pytest.fixture
def against(benchmark: Any, request: pytest.FixtureRequest) -> Callable[..., float]:
    """Time a target and a floor in turn, A B A B ..., and report the median ratio.

    Pairing holds when the machine's speed drifts; the absolute times are the benchmark's table. The
    clock is that of a mark ``benchmark(timer=...)``, if there is one.
    """
    marked = request.node.get_closest_marker("benchmark")
    clock = marked.kwargs["timer"] if marked else time.perf_counter

    def measure(
        target: Callable[[], object],
        floor: Callable[[], object],
        *,
        rounds: int = 9,
        setup: Callable[[], object] | None = None,
    ) -> float:
        floors: list[float] = []

        def before() -> None:
            if setup is not None:
                setup()
            start = clock()
            floor()
            floors.append(clock() - start)
            if setup is not None:
                setup()

        benchmark.pedantic(target, setup=before, rounds=rounds, warmup_rounds=2)
        targets = benchmark.stats.stats.data
        pairs = [t / f for t, f in zip(targets, floors[-len(targets) :], strict=True)]
        ratio = statistics.median(pairs)
        benchmark.extra_info["floor_seconds"] = statistics.median(floors)
        benchmark.extra_info["ratio"] = ratio
        times = (min(targets), statistics.median(targets), statistics.median(floors))
        milliseconds = (f"{1000 * seconds:,.1f}" for seconds in times)
        name = benchmark.name.removeprefix("test_")
        _rows.append((name, *milliseconds, f"{min(pairs):.2f}", f"{ratio:.2f}"))
        return ratio

    return measure


@pytest.fixture
def note(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Add a line to the summary."""
    return lambda text: _notes.append(f"{request.node.name.removeprefix('test_')}: {text}")


def _table() -> str:
    """Return the ratios and notes of a run, and where they were measured, in Markdown."""
    versions = ", ".join(f"{name} {version(name)}" for name in _VERSIONS)
    where = f"{machine()}; Python {platform.python_version()}, {versions}."
    rows = [_HEADER, ("---", *["--:"] * 5), *sorted(_rows)]
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([where, "", *lines, "", *(f"- {text}" for text in sorted(_notes))]) + "\n"


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    if not _rows and not _notes:
        return
    terminalreporter.section("ratios to the floors of the same run")
    terminalreporter.write(_table())
    if path := config.getoption("--table"):
        path.write_text(_table(), encoding="utf-8")
