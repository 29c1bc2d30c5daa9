"""Long work: in order, and a bounded number at once."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import ikos
from ikos.primitives.concurrency import reporting, spread


def test_results_are_in_order() -> None:
    expected = [i * i for i in range(100)]
    tasks = [(i,) for i in range(100)]
    assert list(spread(lambda i: i * i, tasks, None)) == expected
    with ThreadPoolExecutor(3) as executor:
        assert list(spread(lambda i: i * i, tasks, executor)) == expected


def test_four_per_worker_are_under_way() -> None:
    taken = 0

    def tasks():
        nonlocal taken
        for taken in range(1, 101):
            yield (taken,)

    with ThreadPoolExecutor(2) as executor:
        results = spread(lambda i: i, tasks(), executor)
        assert next(results) == 1
        assert taken == 8
        results.close()


def test_tasks_that_have_not_begun_are_cancelled() -> None:
    done: list[int] = []

    def work(number: int) -> int:
        time.sleep(0.01)
        done.append(number)
        return number

    with ThreadPoolExecutor(2) as executor:
        results = spread(work, ((i,) for i in range(200)), executor)
        assert next(results) == 0
        results.close()
    assert len(done) < 100


def test_sums_run_by_other_functions_report_their_progress() -> None:
    def count() -> None:
        ikos.histogram(["yes", "no"] * 50, ["yes", "no"], epsilon=1, delta=1e-3)

    seen: list[tuple[int, int]] = []
    with reporting(lambda *progress: seen.append(progress)):
        count()
    assert seen[-1][0] == seen[-1][1] > 0
    before = len(seen)
    count()
    assert len(seen) == before
