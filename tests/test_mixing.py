"""A sum in pieces: the same messages, the same law and the same sum, however it is cut."""

from __future__ import annotations

import gc
import threading
import time
import tracemalloc
from collections import Counter
from collections.abc import Callable, Hashable
from contextlib import nullcontext
from fractions import Fraction
from itertools import chain, pairwise, product
from typing import Any

import numpy as np
import pytest
from exact.enumeration import Ideal, exact_law, view_law
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from ikos import SecureSum
from ikos.primitives import mixing, sharing
from ikos.primitives.concurrency import Interrupted
from ikos.primitives.mixing import Encoder, Partition, mixed_sum, planned
from ikos.primitives.modular import Zq
from ikos.primitives.randomness import RandomSource, SecureRandom
from ikos.primitives.sharing import Sharing, SharingScheme
from ikos.testing import DeterministicRandom

SETTINGS = [("parallel", True), ("parallel", False), ("single", True), ("single", False)]
GROUPS = {
    "97": 97, "2^20": 2**20, "2^32": 2**32, "2^61-1": 2**61 - 1, "2^64": 2**64, "2^70+3": 2**70 + 3,
}  # fmt: skip
each_setting = pytest.mark.parametrize(("shuffler", "clear"), SETTINGS)
each_group = pytest.mark.parametrize("q", GROUPS.values(), ids=GROUPS.keys())


def scheme(q: int, messages: int, clear: bool = True, shuffler: str = "parallel") -> SharingScheme:
    return SharingScheme(Zq(q), messages, shuffler == "single", clear)


class Recorder:
    """An analyzer that keeps what it receives."""

    def __init__(self, group: Zq) -> None:
        self.group = group
        self.pieces: dict[tuple[int, int], NDArray[Any]] = {}

    def __call__(self, piece: Partition, messages: NDArray[Any]) -> int:
        assert (piece.shuffler, piece.part) not in self.pieces
        low, high = piece.ends(self.group.q)
        values = messages.tolist()
        assert all(low <= value <= high for value in values)
        assert values == sorted(values)
        self.pieces[piece.shuffler, piece.part] = messages.copy()  # the memory is used again
        return self.group.sum(messages)

    def columns(self) -> list[list[int]]:
        """Return each shuffler's output."""
        joined: dict[int, list[int]] = {}
        for (shuffler, _), messages in sorted(self.pieces.items(), key=lambda item: item[0]):
            joined.setdefault(shuffler, []).extend(messages.tolist())
        return [joined[shuffler] for shuffler in sorted(joined)]


# The same messages


def written(elements: NDArray[Any]) -> Encoder:
    """Return what writes elements block by block."""

    def write(number: int, part: slice, out: NDArray[Any]) -> None:
        assert part.start == number * sharing.USERS_PER_SOURCE
        out[:] = elements[part]

    return Encoder(elements.size, write)


@pytest.mark.slow
@each_group
@each_setting
@pytest.mark.parametrize("cut", [1 << 18, pytest.param(7, marks=pytest.mark.slow)])
def test_the_view_is_message_for_message_that_of_shares_that_are_shuffled(
    monkeypatch: pytest.MonkeyPatch, q: int, shuffler: str, clear: bool, cut: int
) -> None:
    """For every number of threads, any number of messages at once, and blocks of users of any size.

    And whether elements are there at the beginning, or are still to be written.
    """
    monkeypatch.setattr(sharing, "USERS_PER_SOURCE", cut)
    for n, messages in product((1, 40), (1, 2, 5)):
        if messages == 1 and clear and shuffler == "single":
            continue
        protocol = SecureSum(n, q, messages=messages, shuffler=shuffler, clear_share=clear)
        x = [(i * i * 7919 + q - 1) % q for i in range(n)]
        view = protocol.shuffle(protocol.share(x, DeterministicRandom(1)))
        for threads, most, encoded in product((1, 2, 3), (10, 90, 10**9), (True, False)):
            recorder, rng = Recorder(protocol.transport.group), DeterministicRandom(1)
            rng.streams()  # those of the clients
            elements = protocol.reader.checked(x)
            total = mixed_sum(
                elements if encoded else written(elements),
                protocol.transport.scheme,
                rng,
                threads=threads,
                receive=recorder,
                most=most,
            )
            assert total == sum(x) % q
            assert recorder.columns() == [column.tolist() for column in view.columns if column.size]
            if clear and encoded:
                assert view.clear is not None
                assert elements.tolist() == view.clear.tolist()


@pytest.mark.parametrize(("users", "threads"), [(40, 1), (60, 2)])
def test_small_columns_are_not_spread_over_threads(
    monkeypatch: pytest.MonkeyPatch, users: int, threads: int
) -> None:
    """However many there are: handing over each would take longer than to make it."""
    monkeypatch.setattr(mixing, "MESSAGES_FOR_ALL_CORES", 100)
    monkeypatch.setattr(mixing, "_COLUMN_FOR_THREADS", 50)
    monkeypatch.setattr(mixing, "cores", lambda: 2)
    used, plan = [], planned
    monkeypatch.setattr(
        mixing, "planned", lambda *given, **how: used.append(how["threads"]) or plan(*given, **how)
    )
    assert SecureSum(users, 101, messages=9).run([1] * users) == users
    assert used == [threads]


class Replayed(Ideal):
    """A source whose family answers a source that is asked again with what it answered before."""

    def family(self) -> Callable[[int], RandomSource]:
        drawn: dict[int, list[int]] = {}
        return lambda number: Again(self, drawn.setdefault(number, []))


class Again(Ideal):
    """One member of a family: what was drawn from it before, and then more."""

    def __init__(self, script: Ideal, drawn: list[int]) -> None:
        super().__init__([], Fraction(0))
        self.script, self.drawn, self.place = script, drawn, 0

    def choose(self, count: int) -> int:
        if self.place == len(self.drawn):
            self.drawn.append(self.script.choose(count))
        self.place += 1
        return self.drawn[self.place - 1]


class InTurn(nullcontext[Any]):
    """Threads that do one step after the other, so that draws are in one order."""

    map = staticmethod(map)

    def __enter__(self) -> Any:
        return self


@pytest.mark.parametrize(("q", "n", "messages"), [(2, 2, 3), (3, 2, 2), (2, 3, 2), (4, 1, 3)])
@each_setting
@pytest.mark.parametrize(("threads", "most"), [(1, 1), (1, 10**9), (2, 10**9)])
def test_the_law_of_the_view_is_exactly_that_of_the_definition(
    monkeypatch: pytest.MonkeyPatch,
    q: int,
    n: int,
    messages: int,
    shuffler: str,
    clear: bool,
    threads: int,
    most: int,
) -> None:
    """Every outcome of the randomness, users in blocks of one, one range of values or several."""
    monkeypatch.setattr(sharing, "USERS_PER_SOURCE", 1)
    monkeypatch.setattr(mixing, "ThreadPoolExecutor", InTurn)
    setting = scheme(q, messages, clear, shuffler)

    def experiment(x: tuple[int, ...], rng: RandomSource) -> Hashable:
        recorder = Recorder(setting.group)
        elements = setting.group.elements(x)
        how = {"threads": threads, "most": most}
        assert mixed_sum(elements, setting, rng, receive=recorder, **how) == sum(x) % q
        columns = tuple(tuple(column) for column in recorder.columns())
        return columns, tuple(elements.tolist()) if clear else None

    for x in product(range(q), repeat=n):
        law, unfinished = exact_law(lambda rng, x=x: experiment(x, rng), Replayed)
        assert unfinished == 0
        assert law == view_law(x, q, messages - clear, shuffler, clear)


# The plan

plans = st.builds(
    lambda shuffled, clear, single, users, threads, most: (
        setting := scheme(97, shuffled + clear, clear, "single" if single else "parallel"),
        planned(setting, users, threads=threads, most=most),
        users,
        threads,
        most,
    ),
    st.integers(1, 30),
    st.booleans(),
    st.booleans(),
    st.integers(1, 1000),
    st.integers(1, 40),
    st.sampled_from([50, 1000, 10**6]),
)


@given(plans)
def test_every_shuffler_releases_every_value_exactly_once(case: Any) -> None:
    setting, plan, *_ = case
    pieces: dict[int, list[Partition]] = {}
    for piece in chain.from_iterable(plan.groups):
        pieces.setdefault(piece.shuffler, []).append(piece)
    rows = []
    for parts in pieces.values():
        assert [piece.part for piece in parts] == list(range(parts[0].parts))
        assert len({(piece.rows, piece.parts) for piece in parts}) == 1
        assert all(low <= high for low, high in (piece.ends(97) for piece in parts))
        rows += list(parts[0].rows)
    assert sorted(rows) == list(range(setting.shuffled))
    assert len(pieces) == (1 if setting.single else setting.shuffled)


def case(most: int) -> Any:
    return (setting := scheme(97, 3)), planned(setting, 1000, threads=1, most=most), 1000, 1, most


@given(plans)
@example(case(1000))
@example(case(1999))
@example(case(2000))
def test_no_more_messages_than_asked_are_held_at_once(case: Any) -> None:
    """But of ranges as small as one value, and up to chance."""
    setting, plan, users, threads, most = case
    if plan.kept and setting.clear:
        assert (len(plan.groups[0][0].rows) + 1) * users <= most
    for group in plan.groups:
        parts = group[0].parts
        assert len({piece.shuffler for piece in group}) == 1
        assert len(group) <= threads
        size = len(group[0].rows) * users
        assert parts == min(97, size) or len(group) * size <= most * parts


@given(plans)
def test_a_last_row_that_is_released_is_kept(case: Any) -> None:
    setting, plan, *_ = case
    assert plan.kept or setting.clear


@given(st.integers(2, 2**70), st.integers(1, 50))
def test_ranges_cut_the_group(q: int, parts: int) -> None:
    ends = [Partition(0, range(1), part, parts).ends(q) for part in range(parts)]
    assert ends[0][0] == 0
    assert ends[-1][1] == q - 1
    for (_, high), (low, _) in pairwise(ends):
        assert low == high + 1
    if parts <= q:
        assert max(high - low for low, high in ends) <= q // parts


@pytest.mark.parametrize("threads", range(1, 9))
def test_no_thread_is_idle_for_long(threads: int) -> None:
    """Each thread makes a range of each column."""
    plan = planned(scheme(97, 8), 10**6, threads=threads, most=10**9)
    assert [len(group) for group in plan.groups] == [threads] * 7


# What cannot be seen in a sum


@pytest.mark.parametrize("rng", [DeterministicRandom(2), SecureRandom()])
@pytest.mark.parametrize("users", [1, 16])
def test_no_two_messages_share_randomness(
    monkeypatch: pytest.MonkeyPatch, users: int, rng: RandomSource
) -> None:
    """Rows and blocks of users all differ; equal by chance with probability below 2^-48."""
    monkeypatch.setattr(sharing, "USERS_PER_SOURCE", users)
    shares = Sharing(np.zeros(64, dtype=np.uint64), Zq(2**64), rng)
    seen: list[int] = []
    for row in range(3):
        for block, part in enumerate(shares.blocks):
            out = np.empty(part.stop - part.start, dtype=np.uint64)
            shares.draw(row, block, out, subtract_from_last=True)
            seen += out.tolist()
    assert len(set(seen)) == len(seen) == 3 * 64


def test_two_sums_share_no_randomness() -> None:
    """Secure sources: shares of the same users twice, equal with probability 2^-6400."""
    recorders = [Recorder(Zq(2**64)) for _ in range(2)]
    setting, rng = scheme(2**64, 2), SecureRandom()
    for recorder in recorders:
        mixed_sum(np.zeros(100, dtype=np.uint64), setting, rng, receive=recorder)
    assert not set(recorders[0].columns()[0]) & set(recorders[1].columns()[0])


# Threads


def test_users_are_changed_by_one_thread_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Changes take long, so that threads that do not wait meet: six rows, three threads."""
    monkeypatch.setattr(sharing, "USERS_PER_SOURCE", 50)
    under_way: list[NDArray[Any]] = []
    clashes: list[int] = []
    right = Zq.subtract_lazily

    def slowly(group: Zq, a: NDArray[Any], b: NDArray[Any]) -> None:
        # of two threads that meet, the second sees the first
        clashes.extend(a.ctypes.data for other in list(under_way) if np.shares_memory(a, other))
        under_way.append(a)
        time.sleep(0.01)
        right(group, a, b)
        under_way[:] = [other for other in under_way if other is not a]

    monkeypatch.setattr(Zq, "subtract_lazily", slowly)
    setting, x = scheme(2**64, 7), np.arange(100, dtype=np.uint64)
    assert mixed_sum(x, setting, DeterministicRandom(8), threads=3) == 4950
    assert not clashes


@pytest.mark.slow
@pytest.mark.parametrize("shuffler", ["parallel", "single"])
def test_ranges_leave_the_last_row_in_its_order(shuffler: str) -> None:
    """Several threads read it at once."""
    protocol = SecureSum(1000, 97, messages=3, shuffler=shuffler, clear_share=False)
    shares = protocol.share([1] * 1000, DeterministicRandom(9))
    elements, rng = protocol.reader.checked([1] * 1000), DeterministicRandom(9)
    rng.streams()  # those of the clients
    assert mixed_sum(elements, protocol.transport.scheme, rng, threads=2) == 1000 % 97
    assert (elements == shares[-1]).all()


# Errors and interruptions


def of_zeros(users: int, setting: SharingScheme, **options: Any) -> int:
    zeros = np.zeros(users, dtype=setting.group.dtype)
    return mixed_sum(zeros, setting, DeterministicRandom(4), **options)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_elements_that_fail_end_the_sum(threads: int, error: type[BaseException]) -> None:
    def failing(number: int, part: slice, out: NDArray[Any]) -> None:
        raise error

    before, setting = threading.active_count(), scheme(2**64, 7)
    with pytest.raises(Interrupted if error is KeyboardInterrupt else error):
        mixed_sum(Encoder(1000, failing), setting, DeterministicRandom(4), threads=threads)
    assert threading.active_count() == before


def test_the_error_is_that_of_the_step_that_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    """And not the interruption of another that stops because of it."""
    monkeypatch.setattr(sharing, "USERS_PER_SOURCE", 1)
    failed = threading.Event()

    def write(number: int, part: slice, out: NDArray[Any]) -> None:
        if number == 1:
            failed.set()
            raise ZeroDivisionError
        failed.wait(10)
        time.sleep(0.05)

    with pytest.raises(ZeroDivisionError):
        mixed_sum(Encoder(2, write), scheme(2**64, 3), DeterministicRandom(4), threads=2)


@pytest.mark.parametrize("threads", [1, 3])
def test_an_interruption_says_what_was_done_and_ends_the_threads(threads: int) -> None:
    before = threading.active_count()

    def interrupt(done: int, whole: int) -> None:
        if done == 2:
            raise KeyboardInterrupt

    setting = scheme(2**64, 7)
    with pytest.raises(Interrupted, match=rf"after 2 of {6 * threads} pieces") as caught:
        of_zeros(1000, setting, threads=threads, progress=interrupt)
    assert caught.value.partial is None
    assert (caught.value.done, caught.value.trials) == (2, 6 * threads)
    assert threading.active_count() == before


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2])
def test_threads_stop_at_the_next_block_of_users(
    monkeypatch: pytest.MonkeyPatch, threads: int
) -> None:
    """And not at the end of their columns, of 500 blocks that take a millisecond each."""
    monkeypatch.setattr(sharing, "USERS_PER_SOURCE", 2)
    drawn, stopped_at, draw = Counter[str](), [0], Sharing.draw

    def slowly(self: Sharing, *arguments: Any, **options: Any) -> None:
        drawn["blocks"] += 1
        time.sleep(0.001)
        draw(self, *arguments, **options)

    def interrupt(done: int, whole: int) -> None:
        stopped_at[0] = drawn["blocks"]
        raise KeyboardInterrupt

    monkeypatch.setattr(Sharing, "draw", slowly)
    setting = scheme(2**64, 9)
    with pytest.raises(Interrupted):
        of_zeros(1000, setting, threads=threads, progress=interrupt)
    assert drawn["blocks"] - stopped_at[0] < 400


def test_all_threads_together_sort_a_bounded_number_of_messages() -> None:
    setting, longest = scheme(2**64, 5), []

    def receive(piece: Partition, messages: NDArray[Any]) -> int:
        longest.append(messages.size)
        return 0

    for threads in (1, 4):
        longest.clear()
        of_zeros(2000, setting, threads=threads, receive=receive, most=1000)
        assert sum(longest) == 4 * 2000
        # expected to be the limit: half as many more have probability below 2^-40
        assert threads * max(longest) < 1500


class Zeros(RandomSource):
    """All shares are 0, and therefore in one range."""

    def _read_into(self, out: memoryview) -> None:
        out[:] = bytes(len(out))

    def family(self) -> Callable[[int], RandomSource]:
        return lambda number: self


def test_a_range_may_get_more_messages_than_expected() -> None:
    recorder, setting = Recorder(Zq(2**64)), scheme(2**64, 4)
    mixed_sum(np.zeros(2000, dtype=np.uint64), setting, Zeros(), threads=2, receive=recorder)
    assert {piece: part.size for piece, part in recorder.pieces.items()} == {
        (0, 0): 2000, (0, 1): 0, (1, 0): 2000, (1, 1): 0, (2, 0): 2000, (2, 1): 0
    }  # fmt: skip


class Given(RandomSource):
    """The shares of each row, block by block of one user."""

    def __init__(self, rows: list[list[int]]) -> None:
        self.rows = rows

    def _read_into(self, out: memoryview) -> None:
        raise AssertionError("all that is drawn is shares")

    def family(self) -> Callable[[int], RandomSource]:
        return lambda number: Given([[self.rows[number >> 64][number % (1 << 64)]]])

    def uniform_into(self, out: NDArray[Any], group: Zq) -> None:
        out[:] = self.rows[0]


@pytest.mark.parametrize("low", range(300, 401))
def test_no_range_overruns_the_next(monkeypatch: pytest.MonkeyPatch, low: int) -> None:
    """Room for 376 messages is left where 200 are expected: less by a little, as much, and more."""
    monkeypatch.setattr(sharing, "USERS_PER_SOURCE", 1)
    column = [2**64 - 1] * (400 - low) + [0] * low
    recorder, setting = Recorder(Zq(2**64)), scheme(2**64, 2)
    zeros = np.zeros(400, dtype=np.uint64)
    mixed_sum(zeros, setting, Given([column]), threads=2, receive=recorder)
    assert recorder.columns() == [sorted(column)]


class Slow(list[int]):
    """Lets another thread in between what is read and what is written."""

    def __getitem__(self, place: Any) -> Any:
        found = super().__getitem__(place)
        time.sleep(0.0001)
        return found


def test_places_in_a_range_are_given_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharing, "USERS_PER_SOURCE", 10)
    make = mixing._ShufflerOutput.__init__

    def slowly(column: Any, *arguments: Any) -> None:
        make(column, *arguments)
        column.stops = Slow(column.stops)

    monkeypatch.setattr(mixing._ShufflerOutput, "__init__", slowly)
    x = np.arange(500, dtype=np.uint64)
    assert mixed_sum(x, scheme(2**64, 3), DeterministicRandom(8), threads=3) == 124_750


def test_a_group_of_ranges_takes_the_memory_of_the_one_before() -> None:
    """Ranges differ in length by chance, up to the room that is left for that."""
    work: list[Any] = []
    starts = set()

    def receive(piece: Partition, messages: NDArray[Any]) -> int:
        base = messages
        while base.base is not None:
            base = base.base
        starts.add(base.ctypes.data)
        work.append(base)  # so that no other memory has its address
        return 0

    of_zeros(2000, scheme(2**64, 5), threads=1, most=1000, receive=receive)
    assert len(work) == 8
    assert len(starts) == 1


@pytest.mark.parametrize("fails", [False, True])
def test_no_memory_is_kept_after_a_sum(fails: bool) -> None:
    """Not until Python looks for references in circles, either."""

    def receive(piece: Partition, messages: NDArray[Any]) -> int:
        if fails:
            raise ZeroDivisionError
        return 0

    gc.disable()
    tracemalloc.start()
    try:
        for _ in range(10):  # sometimes both threads fail
            with pytest.raises(ZeroDivisionError) if fails else nullcontext():
                of_zeros(100_000, scheme(2**64, 4), threads=2, receive=receive)
        assert tracemalloc.get_traced_memory()[0] < 8 * 100_000
    finally:
        tracemalloc.stop()
        gc.enable()


def test_an_interruption_while_clear_shares_are_added_is_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupt(group: Zq, a: NDArray[Any]) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(Zq, "sum", interrupt)
    with pytest.raises(Interrupted, match=r"interrupted after 5 of 6 pieces"):
        of_zeros(10, scheme(2**64, 7), receive=lambda piece, messages: 0)


@pytest.mark.parametrize("threads", [1, 2])
def test_an_analyzer_that_fails_ends_the_sum(threads: int) -> None:
    def fail(piece: Partition, messages: NDArray[Any]) -> int:
        if piece.shuffler == 1:
            raise ZeroDivisionError
        return 0

    before = threading.active_count()
    with pytest.raises(ZeroDivisionError):
        of_zeros(1000, scheme(2**64, 5), threads=threads, receive=fail)
    assert threading.active_count() == before


def test_progress_counts_every_piece() -> None:
    seen: list[tuple[int, int]] = []
    setting = scheme(100, 6, clear=False)
    of_zeros(10, setting, threads=2, progress=lambda *told: seen.append(told))
    whole = seen[0][1]
    assert seen == [(done, whole) for done in range(1, whole + 1)]


@pytest.mark.parametrize(
    ("threads", "error", "said"),
    [
        (0, ValueError, "threads must be at least 1, got 0"),
        (2000, ValueError, "threads must be at most 1024"),
        (True, TypeError, "threads must be an integer"),
        (1.5, TypeError, "threads must be an integer"),
    ],
)
def test_bad_threads_are_refused(threads: Any, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        SecureSum(3, 97).run([1, 2, 3], threads=threads)
