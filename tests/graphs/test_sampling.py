"""Sampled counts: their law, who draws them, interruptions, and what is refused.

Statistical tests have a proved false-alarm rate of at most 1e-9 each (see `statistical`).
"""

from __future__ import annotations

import multiprocessing
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from types import FrameType
from typing import Any

import numpy as np
import pytest
from exact.share_graph import SETTINGS
from numpy.typing import NDArray
from statistical import FALSE_ALARM, p_value_bound

from ikos.graphs import (
    Interrupted,
    Tally,
    component_counts,
    component_pmf,
    count_components,
    sample_targets,
    sampling,
    tally_components,
)
from ikos.primitives.randomness import SecureRandom
from ikos.results.confidence import clopper_pearson
from ikos.testing import DeterministicRandom

# The law of the counts

Draw = Callable[..., NDArray[np.int64]]

MODELS = [(shuffler, clear) for shuffler, clear in SETTINGS]
SIZES = [(6, 1), (3, 2), (12, 2), (4, 3)]


def check_counts_fit_the_law(
    draw: Draw, n: int, m: int, shuffler: str, clear: bool, trials: int = 40_000, seed: int = 600
) -> None:
    counts = draw(n, m, trials, shuffler=shuffler, clear_share=clear, rng=DeterministicRandom(seed))
    assert counts.shape == (trials,)
    pmf = component_pmf(n, m, shuffler=shuffler, clear_share=clear)
    assert counts.min() >= 1
    assert counts.max() <= n
    assert p_value_bound(np.bincount(counts, minlength=n + 1)[1:], pmf) > FALSE_ALARM


@pytest.mark.parametrize(("shuffler", "clear"), MODELS)
@pytest.mark.parametrize(("n", "m"), SIZES)
def test_sampled_counts_fit_the_exact_law(n: int, m: int, shuffler: str, clear: bool) -> None:
    check_counts_fit_the_law(component_counts, n, m, shuffler, clear)


@pytest.mark.points(1)
@pytest.mark.parametrize(("shuffler", "clear"), MODELS)
def test_counts_of_secure_randomness_and_of_many_batches_fit_the_exact_law(
    monkeypatch: pytest.MonkeyPatch, shuffler: str, clear: bool
) -> None:
    """Batches of 50 graphs: if they shared a stream, each graph would count 200 times."""
    monkeypatch.setattr(sampling, "_SLOTS_IN_BATCH", 500)

    def draw(n: int, m: int, trials: int, **options: Any) -> NDArray[np.int64]:
        return component_counts(n, m, trials, **(options | {"rng": SecureRandom()}))

    check_counts_fit_the_law(draw, 5, 2, shuffler, clear, trials=10_000)
    check_counts_fit_the_law(component_counts, 5, 2, shuffler, clear, trials=10_000)


def test_batches_draw_from_streams_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "_SLOTS_IN_BATCH", 500)
    for rng in (DeterministicRandom(601), None):
        counts = component_counts(50, 1, 100, rng=rng).reshape(10, 10)
        # ten counts of cycles agree with ten others with probability below 1e-7
        assert len(np.unique(counts, axis=0)) == 10


# Both backends draw the same graphs


@pytest.mark.points(1)
@pytest.mark.parametrize(("shuffler", "clear"), MODELS)
def test_backends_agree_graph_by_graph(
    monkeypatch: pytest.MonkeyPatch, shuffler: str, clear: bool
) -> None:
    monkeypatch.setattr(sampling, "_SLOTS_IN_BATCH", 100)
    for n in (*range(1, 20), 40, 60):
        model: dict[str, Any] = {"shuffler": shuffler, "clear_share": clear}
        m = 1 + n % 4
        fast, slow = (
            component_counts(n, m, 7, backend=backend, rng=DeterministicRandom(n), **model)
            for backend in ("scipy", "networkx")
        )
        assert fast.dtype == slow.dtype == np.int64
        assert fast.tolist() == slow.tolist()
        tallies = [
            tally_components(n, m, 7, backend=backend, rng=DeterministicRandom(n), **model)
            for backend in ("scipy", "networkx")
        ]
        assert tallies[0] == tallies[1]


# Tallies


@pytest.mark.parametrize(("shuffler", "clear"), MODELS)
def test_tallies_are_of_the_same_graphs_as_counts(
    monkeypatch: pytest.MonkeyPatch, shuffler: str, clear: bool
) -> None:
    monkeypatch.setattr(sampling, "_SLOTS_IN_BATCH", 1000)
    model: dict[str, Any] = {"shuffler": shuffler, "clear_share": clear}
    counts = component_counts(6, 2, 3000, rng=DeterministicRandom(602), **model)
    tally = tally_components(6, 2, 3000, rng=DeterministicRandom(602), **model)
    values, times = np.unique(counts, return_counts=True)
    assert tally.counts == dict(zip(values.tolist(), times.tolist(), strict=True))
    assert list(tally.counts) == sorted(tally.counts)
    assert (tally.n, tally.trials) == (6, 3000)
    assert (tally.graph.m, tally.graph.shuffler, tally.graph.clear_share) == (2, shuffler, clear)
    for c in range(8):
        assert tally[c] == int((counts == c).sum())
        assert tally.at_least(c) == int((counts >= c).sum())
        assert tally.probability(c) == clopper_pearson(tally[c], 3000, 0.95)
        assert tally.tail(c, 0.99) == clopper_pearson(tally.at_least(c), 3000, 0.99)
    assert tally.probability(2) != tally.probability(2, 0.5)


def test_tallies_are_in_ascending_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where a number of components is met after a larger one."""
    monkeypatch.setattr(sampling, "_SLOTS_IN_BATCH", 1)
    counts = component_counts(10, 1, 50, rng=DeterministicRandom(611)).tolist()
    tally = tally_components(10, 1, 50, rng=DeterministicRandom(611))
    assert list(dict.fromkeys(counts)) != list(tally.counts) == sorted(set(counts))


def test_users_alone_are_counted_once_for_each_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    """The batches' own streams, drawn once more; and some graphs have several users alone."""
    monkeypatch.setattr(sampling, "_SLOTS_IN_BATCH", 4 * 2 * 100)
    family = DeterministicRandom(603).streams()
    graphs = np.concatenate([sample_targets(4, 2, 100, rng=family(k)) for k in range(5)])
    alone = count_components(graphs).alone
    tally = tally_components(4, 2, 500, rng=DeterministicRandom(603))
    assert tally.alone == int((alone > 0).sum()) < int(alone.sum())


# Executors: results do not depend on who draws, or when


def wanted(**options: Any) -> tuple[list[int], Tally]:
    """Draw 35 graphs in batches of four, the last one of three."""
    counts = component_counts(10, 1, 35, rng=DeterministicRandom(604), **options)
    tally = tally_components(10, 1, 35, rng=DeterministicRandom(604), **options)
    return counts.tolist(), tally


@pytest.fixture(name="small_batches")
def fixture_small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "_SLOTS_IN_BATCH", 43)


class Lazy(Future[Any]):
    """Runs when somebody waits for it; then the executor runs all that it has, last ones first."""

    def __init__(self, executor: Backwards, work: Callable[[], Any]) -> None:
        super().__init__()
        self.executor, self.work = executor, work

    def result(self, timeout: float | None = None) -> Any:
        self.executor.run()
        return super().result(0)


class Backwards(Executor):
    """Finishes in reverse order, and notes how many futures were under way at most."""

    def __init__(self, workers: int | None = 2) -> None:
        if workers is not None:
            self._max_workers = workers
        self.made: list[Lazy] = []
        self.most = 0
        self.order: list[int] = []

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future = Lazy(self, partial(fn, *args, **kwargs))
        self.made.append(future)
        self.most = max(self.most, sum(not made.done() for made in self.made))
        return future

    def run(self) -> None:
        for number, future in reversed(list(enumerate(self.made))):
            if not future.done():
                self.order.append(number)
                try:
                    future.set_result(future.work())
                except BaseException as error:
                    future.set_exception(error)


def test_batches_that_finish_in_any_order_are_returned_in_theirs(small_batches: None) -> None:
    executor = Backwards()
    assert wanted(executor=executor) == wanted()
    assert executor.order != sorted(executor.order)  # the test's own claim
    assert len(executor.made) == 2 * 9


@pytest.mark.parametrize("workers", [1, 3])
def test_threads_give_what_one_core_gives(small_batches: None, workers: int) -> None:
    with ThreadPoolExecutor(workers) as executor:
        assert wanted(executor=executor) == wanted()


@pytest.mark.points(0)
@pytest.mark.parametrize(
    "workers",
    [pytest.param(1, marks=pytest.mark.slow), 2, pytest.param(3, marks=pytest.mark.slow)],
)
def test_processes_give_what_one_core_gives(small_batches: None, workers: int) -> None:
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=context) as executor:
        assert wanted(executor=executor) == wanted()
        assert wanted(executor=executor, backend="networkx") == wanted()
        secure = [component_counts(50, 1, 30, executor=executor).tolist() for _ in range(2)]
        assert secure[0] != secure[1]  # 30 counts of cycles agree with probability below 1e-15


def test_batches_of_one_call_are_the_same_family_whatever_their_number(
    small_batches: None,
) -> None:
    """The first graphs of a long run are those of a short one."""
    long = component_counts(10, 1, 35, rng=DeterministicRandom(605)).tolist()
    for trials in range(1, 36):
        short = component_counts(10, 1, trials, rng=DeterministicRandom(605)).tolist()
        whole = trials - trials % 4
        assert short[:whole] == long[:whole]


def test_one_source_gives_other_graphs_at_each_call() -> None:
    for rng in (DeterministicRandom(606), SecureRandom(), None):
        drawn = {tuple(component_counts(50, 1, 40, rng=rng).tolist()) for _ in range(3)}
        assert len(drawn) == 3  # two agree with probability below 1e-20


@pytest.mark.slow
@pytest.mark.parametrize(("workers", "most"), [(1, 4), (3, 12), (None, 256)])
def test_only_so_many_batches_are_under_way(
    monkeypatch: pytest.MonkeyPatch, workers: int | None, most: int
) -> None:
    """Of 300 batches; an executor that does not tell its workers is taken for a cluster of 64."""
    monkeypatch.setattr(sampling, "_SLOTS_IN_BATCH", 1)
    for function in (component_counts, tally_components):
        executor = Backwards(workers)
        function(2, 1, 300, executor=executor, rng=DeterministicRandom(607))
        assert len(executor.made) == 300
        assert 1 < executor.most <= most
        assert all(future.done() for future in executor.made)


def test_batches_take_their_size_from_the_graph_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where sizes are numpy's small integers, whose product overflows."""
    monkeypatch.setattr(sampling, "_SLOTS_IN_BATCH", 1200)
    sizes = []
    for n, m in ((200, 3), (np.uint8(200), np.uint8(3)), (np.int16(200), np.int8(3))):
        executor = Backwards()
        component_counts(n, m, 10, executor=executor, rng=DeterministicRandom(608))  # type: ignore[arg-type]
        sizes.append([future.result()[0].size for future in executor.made])
    assert sizes == [[2, 2, 2, 2, 2]] * 3
    tally = tally_components(np.uint8(128), np.uint8(2), 5, rng=DeterministicRandom(608))  # type: ignore[arg-type]
    assert tally == tally_components(128, 2, 5, rng=DeterministicRandom(608))
    assert type(tally.n) is type(tally.graph.m) is int


# Progress


@pytest.mark.parametrize("function", [component_counts, tally_components])
@pytest.mark.parametrize("executor", [None, Backwards()])
def test_progress_rises_to_the_end(
    small_batches: None, function: Callable[..., Any], executor: Executor | None
) -> None:
    seen: list[tuple[int, int]] = []
    function(10, 1, 35, executor=executor, progress=lambda *state: seen.append(state))
    assert seen == [(done, 35) for done in (*range(4, 33, 4), 35)]


# Interruption


def interrupted_after(batches: int) -> Callable[[int, int], None]:
    def progress(done: int, trials: int) -> None:
        nonlocal batches
        batches -= 1
        if batches == 0:
            raise KeyboardInterrupt

    return progress


def complete(function: Callable[..., Any], trials: int) -> Any:
    return function(10, 1, trials, rng=DeterministicRandom(609))


def check_partial(function: Callable[..., Any], found: Interrupted) -> None:
    """Assert that what was done is what fewer trials give."""
    assert found.trials == 35
    if not found.done:
        assert found.partial is None
        return
    expected = complete(function, found.done)
    if function is tally_components:
        assert found.partial == expected
        assert sum(found.partial.counts.values()) == found.done
    else:
        assert found.partial.tolist() == expected.tolist()


@pytest.mark.parametrize("function", [component_counts, tally_components])
@pytest.mark.parametrize("batches", [2, 9])
@pytest.mark.parametrize("workers", [None, "threads", "backwards"])
def test_an_interruption_keeps_what_was_done(
    small_batches: None, function: Callable[..., Any], batches: int, workers: str | None
) -> None:
    executor = {
        None: lambda: None, "threads": lambda: ThreadPoolExecutor(2), "backwards": Backwards
    }[workers]()  # fmt: skip
    with pytest.raises(KeyboardInterrupt, match=r"interrupted after \d+ of 35 graphs") as caught:
        function(
            10,
            1,
            35,
            rng=DeterministicRandom(609),
            executor=executor,
            progress=interrupted_after(batches),
        )
    if executor is not None:
        executor.shutdown()
    assert type(caught.value) is Interrupted
    assert caught.value.done == min(4 * batches, 35)
    check_partial(function, caught.value)


@pytest.mark.parametrize("function", [component_counts, tally_components])
def test_an_interruption_cancels_what_is_pending(
    small_batches: None, function: Callable[..., Any]
) -> None:
    executor = Backwards()
    with pytest.raises(Interrupted):
        function(10, 1, 400, executor=executor, progress=interrupted_after(1))
    assert len(executor.made) == 8  # four for each worker, one of which was waited for
    assert all(future.done() for future in executor.made)

    class Idle(Backwards):
        """Finishes what is waited for, and nothing else."""

        def run(self) -> None:
            future = next(made for made in self.made if not made.done())
            future.set_result(future.work())

    executor = Idle()
    with pytest.raises(Interrupted):
        function(10, 1, 400, executor=executor, progress=interrupted_after(3))
    assert [future.cancelled() for future in executor.made] == [False] * 3 + [True] * 7


@pytest.mark.parametrize("function", [component_counts, tally_components])
def test_an_interruption_while_waiting_cancels_what_is_waited_for_too(
    small_batches: None, function: Callable[..., Any]
) -> None:
    class Stuck(Backwards):
        """Ctrl-C comes while the first result is awaited."""

        def run(self) -> None:
            raise KeyboardInterrupt

    executor = Stuck()
    with pytest.raises(Interrupted) as caught:
        function(10, 1, 35, executor=executor)
    assert (caught.value.partial, caught.value.done) == (None, 0)
    assert all(future.cancelled() for future in executor.made)


@pytest.mark.points(0)
@pytest.mark.parametrize("function", [component_counts, tally_components])
def test_an_interruption_at_any_instruction_leaves_a_whole_number_of_batches(
    small_batches: None, function: Callable[..., Any]
) -> None:
    """Ctrl-C before each instruction in turn: what is kept is always what fewer trials give.

    The first instructions are before anything is drawn, and the last ones after all is done;
    there the exception may be a plain one.
    """
    code = sampling.run_batches.__code__

    def at(instruction: int) -> tuple[bool, BaseException | None]:
        left = instruction

        def trace(frame: FrameType, event: str, arg: object) -> Any:
            nonlocal left
            if frame.f_code is not code:
                return None
            frame.f_trace_opcodes = True
            if event == "opcode":
                left -= 1
                if left == 0:
                    raise KeyboardInterrupt
            return trace

        before = sys.gettrace()
        sys._getframe().f_trace_opcodes = True  # Python 3.12 asks for it before it begins to trace
        sys.settrace(trace)
        try:
            complete(function, 35)
        except KeyboardInterrupt as error:
            return True, error
        finally:
            sys.settrace(before)
        return False, None

    kept = set()
    for instruction in range(1, 10_000):
        raised, error = at(instruction)
        if not raised:
            break
        if isinstance(error, Interrupted):
            check_partial(function, error)
            kept.add(error.done)
    assert kept == {0, *range(4, 33, 4), 35}


# Memory


def peak(work: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.slow
def test_a_tally_does_not_keep_its_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten times as many graphs in about the same memory; an array of counts takes four times it."""
    monkeypatch.setattr(sampling, "_SLOTS_IN_BATCH", 10_000)
    few, many = 50_000, 500_000

    def needed(function: Callable[..., Any], trials: int, executor: Executor | None = None) -> int:
        rng = DeterministicRandom(610)
        return peak(lambda: function(10, 1, trials, rng=rng, executor=executor))

    assert needed(tally_components, many) < 2 * needed(tally_components, few) < 4 * many
    assert needed(component_counts, many) > 8 * many
    with ThreadPoolExecutor(2) as executor:
        bound = 2 * needed(tally_components, few, executor)
        assert needed(tally_components, many, executor) < bound < 8 * many


LARGE = """
import resource, sys
from ikos.graphs import component_counts
counts = component_counts(10**7, 4, 1)
assert counts.tolist() == [1], counts
unit = 1 if sys.platform == "darwin" else 1024
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit)
"""


@pytest.mark.slow
def test_ten_million_users_fit_into_two_gibibytes() -> None:
    """There is more than one component with probability about n^(1 - m), 1e-21."""
    done = subprocess.run([sys.executable, "-c", LARGE], check=True, capture_output=True, text=True)
    assert 2**28 < int(done.stdout) < 2**31


# What is refused


@pytest.mark.parametrize("function", [component_counts, tally_components])
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n": 2**29, "m": 3}, r"n and m must have .* 3"),
        ({"trials": 2**51}, "trials must be .* 2251799813685248"),
    ],
)
def test_refusals_come_before_anything_is_drawn(
    function: Callable[..., Any], arguments: dict[str, int], message: str
) -> None:
    executor = Backwards()
    with pytest.raises(ValueError, match=message):
        function(**{"n": 4, "m": 2, "trials": 10, "executor": executor, **arguments})
    assert not executor.made


def test_errors_of_batches_arrive(small_batches: None) -> None:
    def broken(done: int, trials: int) -> None:
        raise OSError("no terminal")

    for executor in (None, Backwards()):
        with pytest.raises(OSError, match="no terminal"):
            component_counts(10, 1, 35, executor=executor, progress=broken)


def test_tallies_of_independent_samples_add_up() -> None:
    first, second = (tally_components(6, 2, 500, rng=DeterministicRandom(s)) for s in (1, 2))
    both = first + second
    assert both.trials == 1000
    assert both.alone == first.alone + second.alone
    assert all(both[c] == first[c] + second[c] for c in range(1, 7))
    assert list(both.counts) == sorted(both.counts)
    for other in (
        tally_components(6, 3, 10, rng=DeterministicRandom(1)),
        tally_components(7, 2, 10, rng=DeterministicRandom(1)),
    ):
        with pytest.raises(ValueError, match="other must be of n = 6"):
            first + other
    with pytest.raises(TypeError):
        first + 1
