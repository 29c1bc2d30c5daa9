"""Ratios of the library's time to a floor measured in the same run, and their summary."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import pytest

_ratios: list[str] = []


@pytest.fixture
def against(benchmark: Any) -> Callable[..., float]:
    """Time a target and a floor in turn, A B A B ..., and report the median ratio.

    Pairing holds when the machine's speed drifts; the absolute times are the benchmark's table.
    """

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
            start = time.perf_counter()
            floor()
            floors.append(time.perf_counter() - start)
            if setup is not None:
                setup()

        benchmark.pedantic(target, setup=before, rounds=rounds, warmup_rounds=2)
        targets = benchmark.stats.stats.data
        pairs = [t / f for t, f in zip(targets, floors[-len(targets) :], strict=True)]
        ratio = statistics.median(pairs)
        benchmark.extra_info["floor_seconds"] = statistics.median(floors)
        benchmark.extra_info["ratio"] = ratio
        _ratios.append(
            f"{benchmark.name:<55} {statistics.median(targets) * 1e3:9.1f} ms  "
            f"floor {statistics.median(floors) * 1e3:9.1f} ms  ratio {ratio:5.2f}  "
            f"({min(pairs):.2f} to {max(pairs):.2f})"
        )
        return ratio

    return measure


@pytest.fixture
def note(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Add a line to the summary."""
    return lambda text: _ratios.append(f"{request.node.name:<55} {text}")


def pytest_terminal_summary(terminalreporter: Any) -> None:
    if _ratios:
        terminalreporter.section("ratios to the floors of the same run")
        for line in _ratios:
            terminalreporter.line(line)
