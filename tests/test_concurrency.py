"""Long work: in order, and a bounded number at once."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from ikos.concurrency import spread


@pytest.mark.parametrize("ahead", [None, 1, 3, 1000])
def test_results_are_in_order(ahead: int | None) -> None:
    expected = [i * i for i in range(100)]
    tasks = [(i,) for i in range(100)]
    assert list(spread(lambda i: i * i, tasks, None, ahead=ahead)) == expected
    with ThreadPoolExecutor(3) as executor:
        assert list(spread(lambda i: i * i, tasks, executor, ahead=ahead)) == expected


@pytest.mark.parametrize(("ahead", "under_way"), [(None, 8), (3, 3), (20, 20)])
def test_no_more_are_under_way_than_are_asked_for(ahead: int | None, under_way: int) -> None:
    taken = 0

    def tasks():
        nonlocal taken
        for taken in range(1, 101):
            yield (taken,)

    with ThreadPoolExecutor(2) as executor:
        results = spread(lambda i: i, tasks(), executor, ahead=ahead)
        assert next(results) == 1
        assert taken == under_way
        results.close()


def test_short_tasks_do_not_wait_for_a_long_one_before_them() -> None:
    """The first ends when all others have, which eight at once would never do."""
    others = threading.Semaphore(0)

    def work(number: int) -> int:
        if number:
            others.release()
            return 0
        return sum(others.acquire(timeout=10) for _ in range(50))

    with ThreadPoolExecutor(2) as executor:
        assert next(spread(work, ((i,) for i in range(51)), executor, ahead=100)) == 50


def test_tasks_that_have_not_begun_are_cancelled() -> None:
    done: list[int] = []

    def work(number: int) -> int:
        time.sleep(0.01)
        done.append(number)
        return number

    with ThreadPoolExecutor(2) as executor:
        results = spread(work, ((i,) for i in range(200)), executor, ahead=150)
        assert next(results) == 0
        results.close()
    assert len(done) < 100
