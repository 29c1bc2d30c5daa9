"""Long work: in order, a bounded number at once, and Ctrl-C that is kept."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from ikos.concurrency import interrupts_kept, spread


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


@pytest.fixture(name="usual_handler")
def fixture_usual_handler():
    usual = signal.getsignal(signal.SIGINT)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, usual)


@pytest.mark.usefixtures("usual_handler")
def test_a_handler_that_was_set_in_the_meantime_stays() -> None:
    def own(*_: object) -> None:
        """Whoever sets it wants it."""

    with interrupts_kept():
        assert signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    with interrupts_kept():
        signal.signal(signal.SIGINT, own)
    assert signal.getsignal(signal.SIGINT) is own


@pytest.mark.usefixtures("usual_handler")
def test_ctrl_c_that_others_swallow_comes_at_the_end() -> None:
    ended = []

    def work() -> None:
        with interrupts_kept():
            with contextlib.suppress(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)
            ended.append(True)

    with pytest.raises(KeyboardInterrupt):
        work()
    assert ended


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
