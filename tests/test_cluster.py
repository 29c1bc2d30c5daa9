"""`ikos.cluster`: the plain sum, exact whatever happens to workers, and nothing left behind."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import pickle
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pytest
from recorded_randomness import Recorded, records

import ikos
from ikos import Categories, PrivateSum, PrivateVectorSum, SecureSum, SecureVectorSum
from ikos.cluster import Cluster, ClusterError, connection, driver, waiting
from ikos.cluster.driver import (
    Block,
    BlockSharing,
    Checked,
    Envelope,
    Refusal,
    digest,
    mixed,
    posted,
)
from ikos.data import reading
from ikos.primitives import sharing
from ikos.primitives.randomness import SecureRandom
from ikos.testing import DeterministicRandom
from ikos.transports import Helpers, Masked, Shuffled
from ikos.transports import shares as transport

da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")
pd = pytest.importorskip("pandas")
dask = pytest.importorskip("dask")
distributed = pytest.importorskip("distributed")
psutil = pytest.importorskip("psutil")

POSIX = pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
N = 1000
TRIES = 5  # to lose a worker in time: what it holds may have been copied a moment before


@pytest.fixture(scope="module")
def cluster():
    with pytest.MonkeyPatch.context() as patch:
        # Dask's own clusters, as of other tests, leave this in the environment
        patch.delenv("MALLOC_TRIM_THRESHOLD_", raising=False)
        with Cluster(workers=2) as cluster:
            yield cluster


@contextmanager
def workers_here(number):
    """Workers in this process, which start at once; all that they are told is sent to them."""
    with distributed.LocalCluster(
        n_workers=number,
        threads_per_worker=1,
        processes=False,
        protocol="tcp://",
        memory_limit=0,
        dashboard_address="127.0.0.1:0",
        silence_logs=50,
    ) as local:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(connection, "_local", lambda opened, workers: local)
            cluster = Cluster(workers=number)
        with cluster:
            yield cluster


@pytest.fixture(scope="module")
def here():
    with workers_here(2) as cluster:
        yield cluster


@dataclass
class Part:
    """A part of a column, as `ikos.data.tables.open_column` gives them."""

    values: list
    rows: int | None = None

    def blocks(self):
        yield from np.array_split(np.asarray(self.values), 3)


@dataclass
class Column:
    parts: list


def values(q, n=N):
    return SecureRandom().uniform(q, n)


def truth(x, q):
    return sum(map(int, x)) % q


def soon(happened, what, seconds=120):
    """Wait until something has happened, and fail where it does not."""
    end = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < end, f"after {seconds} s {what}"
        time.sleep(0.01)


def forgotten(cluster):
    """Wait until the scheduler knows no task any more."""
    tasks = cluster.client.cluster.scheduler.tasks
    soon(lambda: not tasks, "the scheduler still knows tasks", 30)


# The same as the plain sum


@pytest.mark.points(1)
@pytest.mark.parametrize(
    ("q", "shuffler", "clear"), [(2**64, "parallel", True), (2**127 - 1, "single", False)]
)
def test_sums_of_dask_arrays(here, q, shuffler, clear):
    x = values(q)
    told = []
    protocol = SecureSum(N, q, messages=3, shuffler=shuffler, clear_share=clear)
    given = da.from_array(x, chunks=300)
    found = protocol.run(given, cluster=here, progress=lambda *now: told.append(now))
    assert found == truth(x, q)
    whole = 1 if shuffler == "single" else 3 - clear
    assert told == [(i + 1, whole) for i in range(whole)]


@pytest.mark.slow
@pytest.mark.parametrize("q", [2, 2**127 - 1])
@pytest.mark.parametrize("shuffler", ["parallel", "single"])
@pytest.mark.parametrize(("messages", "clear"), [(1, True), (4, True), (4, False)])
@pytest.mark.parametrize("longest", [N // 7, 1 << 26])
def test_all_settings(here, monkeypatch, q, shuffler, clear, messages, longest):
    """With columns cut into ranges of values, and whole."""
    monkeypatch.setattr(driver, "MESSAGES_PER_TASK", longest)
    x = values(q)
    protocol = SecureSum(N, q, messages=messages, shuffler=shuffler, clear_share=clear)
    assert protocol.run(x, cluster=here) == truth(x, q)


def vectors_of(x):
    return {
        "array": x,
        "iterator": iter(np.array_split(x, 3)),
        "dask array": da.from_array(x, chunks=(300, 2)),
        "data frame": dd.from_pandas(pd.DataFrame(x), npartitions=3),
    }


@pytest.mark.slow
@pytest.mark.parametrize("kind", vectors_of(np.zeros((1, 3))))
def test_sums_of_vectors(here, kind):
    """Each coordinate for itself, whatever is shuffled together."""
    d, q = 3, 2**61 - 1
    x = values(q, N * d).reshape(N, d) if kind != "data frame" else np.arange(N * d).reshape(N, d)
    told = []
    protocol = SecureVectorSum(N, d, q, messages=3, clear_share=kind == "array", layout="group")
    given = vectors_of(x)[kind]
    found = protocol.run(given, cluster=here, progress=lambda *now: told.append(now))
    assert found.tolist() == [truth(column, q) for column in x.T]
    whole = d * (3 - (kind == "array"))
    assert told == [(i + 1, whole) for i in range(whole)]


@pytest.mark.slow
def test_private_sums_of_vectors(here):
    x = np.eye(4, dtype=int)[np.arange(N) % 4]
    protocol = PrivateVectorSum(N, Categories([4]), 1, 1e-6, shuffler="single")
    found = [protocol.run(x, DeterministicRandom(5), cluster=here) for _ in range(2)]
    assert found[0] == found[1]
    low, high = found[0].interval(1 - 1e-12, simultaneous=True)
    assert (low <= N / 4).all()
    assert (high >= N / 4).all()
    x[777] = 1
    with pytest.raises(ValueError, match=r"x\[177\] must have exactly one 1 .* \(in partition 2"):
        protocol.run(da.from_array(x, chunks=300), cluster=here)
    with pytest.raises(ValueError, match="x must have 2 axes, got 1"):
        protocol.run(da.ones(N), cluster=here)


@pytest.mark.slow
def test_sums_of_matrices(here):
    """In partitions of some users, which are cut within matrices too, and in one array."""
    x = np.arange(N * 6).reshape(N, 2, 3) % 7
    protocol = SecureVectorSum(N, 6, upper=7, shape=(2, 3), messages=3)
    for form in (x, da.from_array(x, chunks=(300, 1, 2))):
        assert (protocol.run(form, cluster=here) == x.sum(axis=0)).all()
    for wrong in (x.reshape(N, 6), x.transpose(0, 2, 1)):
        with pytest.raises(ValueError, match="x must have "):
            protocol.run(da.from_array(wrong, chunks=300), cluster=here)


def kinds(x):
    unknown = da.from_array(x, chunks=400)
    return {
        "array": x,
        "list": [int(value) for value in x],
        "range": range(N),
        "iterator": iter(np.array_split(x, 7)),
        "empty blocks": iter([x[:0], x[:500], x[:0], x[500:]]),
        "series": dd.from_pandas(pd.DataFrame({"age": x}), npartitions=3)["age"],
        "filtered": dd.from_pandas(pd.DataFrame({"age": x}), npartitions=3, sort=False).query(
            "age >= 0 and age < 10**9"
        )["age"],
        "unknown chunks": unknown[unknown < 10**9],
        "empty chunks": da.concatenate([unknown[:0], unknown, unknown[:0]]),
        "persisted": unknown,
        "parts": Column([Part(x[:300].tolist()), Part([]), Part(x[300:].tolist(), 700)]),
    }


@pytest.mark.slow
@pytest.mark.parametrize("kind", kinds(np.arange(N)))
def test_sums_of_all_kinds(here, kind):
    x = np.arange(N)
    given = kinds(x)[kind]
    if kind == "persisted":
        given = here.client.persist(given)
    protocol = SecureSum(N, 2**20, messages=2)
    if kind == "parts":  # an empty part has no integers
        protocol = PrivateSum(N, 1, 1e-6, lower=0, upper=N, integers=True)
        result = protocol.run(given, cluster=here)
        assert result.users == N
        low, high = result.interval(1 - 1e-12)
        assert low <= x.sum() <= high
        return
    assert protocol.run(given, cluster=here) == x.sum()


@pytest.mark.points(0)
@pytest.mark.parametrize("size", [64, 250])
def test_an_iterator_may_write_all_of_its_blocks_to_the_same_memory(here, monkeypatch, size):
    """Though several blocks are held before they are sent."""
    for module in (sharing, reading, transport, driver):
        monkeypatch.setattr(module, "USERS_PER_SOURCE", 64)
    x = np.random.default_rng(0).random(N)

    def blocks():
        memory = np.empty(size)
        for start in range(0, N, size):
            some = memory[: min(size, N - start)]
            some[:] = x[start : start + size]
            yield some

    protocol = PrivateSum(N, 1, 1e-6)
    expected = protocol.run(x, DeterministicRandom(5))
    assert protocol.run(blocks(), DeterministicRandom(5), cluster=here) == expected


@pytest.mark.slow
def test_private_sums(here):
    x = np.random.default_rng(1).random(N)
    protocol = PrivateSum(N, 1, 1e-6, min_honest=900)
    result = protocol.run(da.from_array(x[:950], chunks=100), cluster=here)
    low, high = result.interval(1 - 1e-12)
    assert low <= x[:950].sum() <= high
    assert result.users == 950
    assert result.guarantee == protocol.guarantee


@pytest.mark.slow
def test_a_seed_gives_what_it_gives_here(here):
    """Blocks of an array have the sources that they have on one machine."""
    x = np.random.default_rng(1).random(N)
    protocol = PrivateSum(N, 1, 1e-6)
    expected = protocol.run(x, DeterministicRandom(5))
    assert protocol.run(x, DeterministicRandom(5), cluster=here).estimate == expected.estimate
    blocks = [protocol.run(da.from_array(x, chunks=100), DeterministicRandom(5), cluster=here)]
    blocks += [protocol.run(da.from_array(x, chunks=100), DeterministicRandom(5), cluster=here)]
    assert blocks[0].estimate == blocks[1].estimate


@pytest.mark.parametrize("noise", ["users", "parties"])
def test_sums_with_helpers_are_what_they_are_here(here, noise):
    """With the noise of all parties, once; and as exact as others."""
    recipe = Helpers(2, noise)
    protocol = PrivateSum(N, 1, 1e-6, transport=recipe)
    x = np.random.default_rng(1).random(N)
    expected = protocol.run(x, DeterministicRandom(5))
    assert protocol.run(x, DeterministicRandom(5), cluster=here) == expected
    x = values(2**64, 2 * N).reshape(N, 2)
    protocol = SecureVectorSum(N, 2, 2**64, transport=Helpers(2))
    found = protocol.run(da.from_array(x, chunks=(300, 1)), cluster=here)
    assert found.tolist() == [truth(column, 2**64) for column in x.T]


def test_a_transport_that_has_no_shares_is_refused(here):
    protocol = SecureVectorSum(2, 2, upper=3, transport=Masked(Shuffled(messages=4)))
    with pytest.raises(ValueError, match=r"^cluster must be None for transport 'masks'$"):
        protocol.run(np.ones((2, 2), int), cluster=here)


# Refusals


def test_bad_values_are_said_as_they_are(here):
    protocol = SecureSum(N, 100, messages=2)
    bad = np.arange(N) % 100
    bad[777] = 100
    with pytest.raises(ValueError, match=r"x\[177\] must be in .* \(in partition 2") as caught:
        protocol.run(da.from_array(bad, chunks=300), cluster=here)
    assert "in partition 2, counted from 0" in str(caught.value)
    assert caught.value.__cause__ is None
    with pytest.raises(ValueError, match=r"x\[777\] must be in"):
        protocol.run(bad, cluster=here)
    with pytest.raises(TypeError, match="must hold integers"):
        protocol.run(da.ones(N, chunks=300), cluster=here)
    forgotten(here)


def test_bad_values_are_in_no_log(here, caplog):
    """Of workers and scheduler, which are in this process."""
    x = np.arange(N) % 100
    x[777] = 7654321
    with (
        caplog.at_level(logging.INFO, "distributed"),
        pytest.raises(ValueError, match=r"must be in"),
    ):
        SecureSum(N, 100, messages=2).run(da.from_array(x, chunks=300), cluster=here)
    assert "7654321" not in caplog.text
    assert here.client.submit(int, "x7654321").exception()
    soon(lambda: "x7654321" in caplog.text, "what a task raises is in no log", 30)


@pytest.mark.slow
def test_parts_say_themselves_where_they_are(here):
    column = Column([Part([1] * 500), Part([1] * 499 + [-1])])
    with pytest.raises(ValueError, match=r"^x\[499\] must be in \[0, q\) for q = 100$"):
        SecureSum(N, 100, messages=2).run(column, cluster=here)


class Pipe(Part):
    def __getstate__(self):
        raise TypeError("people.csv is a pipe")


@pytest.mark.points(8)
@pytest.mark.parametrize(
    ("x", "options", "said"),
    [
        (np.arange(N - 1), {}, "x must hold one value for each of the n = 1000 users"),
        (da.arange(N + 1, chunks=90), {}, "x must hold one value for each of the n = 1000 users"),
        (iter(()), {}, "x must hold one value for each of the n = 1000 users"),
        (Column([Pipe([1] * N)]), {}, r"^people\.csv is a pipe$"),
        (da.ones((10, 100)), {}, "x must have 1 axes, got 2"),
        (dask.delayed(np.arange)(N), {}, "x must be a Dask array"),
        (da.ones(N), {"cluster": None}, "cluster="),
        (np.arange(N), {"threads": 2}, "threads must be None"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_refusals(here, x, options, said):
    with pytest.raises((TypeError, ValueError), match=said):
        SecureSum(N, 2**32, messages=2).run(x, **{"cluster": here, **options})


def test_messages_that_are_missing(here, monkeypatch):
    real = driver._DistributedSum._released

    def fewer(self, todo):
        for released in real(self, todo):
            yield replace(released, count=released.count - 1)

    monkeypatch.setattr(driver._DistributedSum, "_released", fewer)
    with pytest.raises(ClusterError, match="released 2998 messages of 1500 users"):
        SecureSum(1500, 2**64, messages=3).run(np.arange(1500), cluster=here)


@pytest.mark.points(5)
@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"workers": 2, "scheduler": "tcp://127.0.0.1:1"}, "workers must be None where scheduler"),
        ({"workers": 0}, "workers must be at least 1, got 0"),
        ({"scheduler": 8786}, "scheduler must be an address, got 8786"),
        ({"scheduler": "nowhere://x"}, "no scheduler answers at 'nowhere://x'"),
        ({"client": "there"}, r"client must be a distributed\.Client, got 'there'"),
    ],
)
def test_arguments(options, said):
    with pytest.raises((ClusterError, TypeError, ValueError), match=said):
        Cluster(**options)


def test_who_gave_a_client_closes_it(here):
    with Cluster(client=here.client) as same:
        assert SecureSum(3, 8, messages=2).run([1, 2, 3], cluster=same) == 6
    assert here.client.status == "running"


def test_a_greeting_that_comes_with_more_is_asked_for_again(here, monkeypatch):
    asked, connect = [], here.client.__class__

    def busy(*place, **how):
        asked.append(place)
        if len(asked) == 1:
            raise AssertionError
        return connect(*place, **how)

    monkeypatch.setattr("distributed.Client", busy)
    with Cluster(scheduler=here.client.cluster.scheduler_address) as cluster:
        assert SecureSum(3, 8, messages=2).run([1, 2, 3], cluster=cluster) == 6
    assert len(asked) == 2


def test_a_cluster_that_was_closed(here):
    with Cluster(scheduler=here.client.cluster.scheduler_address) as cluster:
        pass
    for use in (
        lambda: SecureSum(3, 8, messages=2).run([1, 2, 3], cluster=cluster),
        lambda: cluster.executor,
    ):
        with pytest.raises(ClusterError, match=r"^the connection to the cluster was closed$"):
            use()


@pytest.mark.slow
def test_ikos_needs_no_dask():
    code = (
        "import sys, ikos, ikos.cluster, ikos.cli.options\n"
        "assert not {'dask', 'distributed', 'pandas'} & set(sys.modules)\n"
        "sys.modules['distributed'] = None\n"
        "try:\n    ikos.cluster.Cluster()\n"
        "except ImportError as error:\n    print(error)"
    )
    said = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    assert said.stdout == (
        "a cluster needs Dask, which is not installed: pip install 'ikos[cluster]'\n"
    )


# Nobody is told what is private, and nothing is in one place


def sharing_of(protocol):
    streams = SecureRandom().streams()
    return BlockSharing(protocol.reader, protocol.transport.scheme, streams, streams)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (np.ma.MaskedArray([1, 0, 0], mask=[0, 1, 0]), "masked"),
        (
            np.array([1, 0, None], dtype=object),
            "x[2] must be in [0, 1], not missing (in partition 4, counted from 0)",
        ),
    ],
)
def test_missing_values_of_a_partition_are_refused(values, said):
    found = sharing_of(PrivateSum(3, 1, 1e-6, lower=0, upper=1))(values, 4)
    assert isinstance(found, Refusal)
    assert said in str(found.error)


def drawn(block, coordinate=0):
    """Return the rows of a block of a few users whose keys it has."""
    (users,), q = block.sizes, 2**64
    return [key(0).uniform(q, users).tolist() for key in block.keys[coordinate]]


def test_printed_forms_show_no_values():
    protocol = SecureSum(3, 2**64, messages=3, clear_share=False)
    desk = sharing_of(protocol)
    block = desk(Checked([np.array([11, 22, 33], dtype=np.uint64)]), 0)
    assert isinstance(block, Block)
    (last,) = block.last[0]
    shown = [repr(Checked([np.array([424242])])), repr(Envelope(0, b"nonce", [3], [], [last]))]
    shown.append(repr(block))
    shown.append(repr(Refusal.of(ValueError("got 424242"), "")))
    for text in shown:
        assert "424242" not in text
        assert not any(str(share) in text for share in last)
    again = pickle.loads(pickle.dumps(block))
    rows = [[*drawn(one), one.last[0][0].tolist()] for one in (block, again)]
    assert rows[0] == rows[1]
    assert [sum(column) % 2**64 for column in zip(*rows[0], strict=True)] == [11, 22, 33]
    assert again.nonce == block.nonce


@pytest.mark.slow
def test_tasks_are_named_by_what_they_do(here):
    """A seeded source is printed with its secret, and keys of tasks are in every log."""
    names = set()

    def look(done, wanted):
        names.update(map(str, here.client.cluster.scheduler.tasks))

    protocol, seed = SecureSum(N, 2**64, messages=4), DeterministicRandom(5)
    for x in (np.arange(N), da.from_array(np.arange(N), chunks=100)):
        protocol.run(x, seed, cluster=here, progress=look)
    ours = {name.partition("-")[0] for name in names if not name.startswith("(")}
    assert {"clients", "posted", "mixed"} <= ours <= {"clients", "described", "posted", "mixed"}
    assert all(len(name) < 60 for name in names)


def on_blocks(monkeypatch, protocol, x, rng):
    """Return a few blocks, as workers make them, of several sources each."""
    for module in (reading, driver):
        monkeypatch.setattr(module, "USERS_PER_SOURCE", 64)
    desk = BlockSharing(protocol.reader, protocol.transport.scheme, rng.streams(), rng.streams())
    parts = np.array_split(np.asarray(x), 3)
    return [desk(part, number) for number, part in enumerate(parts)]


@pytest.mark.slow
@pytest.mark.parametrize("q", [3, 2**20, 2**127 - 1])
@pytest.mark.parametrize(
    ("shuffler", "clear"), [("parallel", True), ("parallel", False), ("single", False)]
)
def test_a_shuffler_has_keys_of_its_rows_only_and_all_add_up(monkeypatch, q, shuffler, clear):
    """With ranges of values that hold more than an equal part, as 0 and 1 modulo 3 do."""
    x = values(q)
    protocol = SecureSum(N, q, messages=4, shuffler=shuffler, clear_share=clear)
    blocks = on_blocks(monkeypatch, protocol, x, SecureRandom())
    todo = driver.pieces(protocol.transport.scheme, N, dimension=1, threads=8)
    assert max(piece.parts for _, piece in todo) > 1
    total, count = sum(block.clear[0] for block in blocks), 0
    for c, piece in todo:
        envelopes = [pickle.loads(pickle.dumps(posted(b, c, piece, q))) for b in blocks]
        for envelope in envelopes:
            assert len(envelope.keys) + bool(envelope.last) == len(piece.rows)
            assert bool(envelope.last) == (not clear and piece.rows.stop == 4)
        released = mixed(envelopes, c, piece, protocol.transport.group)
        total, count = total + released.total, count + released.count
    assert total % q == truth(x, q)
    assert count == N * (4 - clear)


def test_no_two_messages_are_drawn_alike(monkeypatch, tmp_path):
    """Each user's place in each row is drawn from a source of its own, by clients and shufflers."""
    n, d = 600, 2
    protocol = SecureVectorSum(n, d, 2**64, messages=4)
    blocks = on_blocks(monkeypatch, protocol, np.ones((n, d), dtype=int), Recorded(tmp_path))
    sources = d * 3 * sum(len(block.sizes) for block in blocks)
    assert sum(sum(block.sizes) for block in blocks) == n
    assert sources > d * 3 * len(blocks)

    def drawn():
        return Counter((entry[1], entry[4]) for entry in records(tmp_path) if entry[0] == "drawn")

    assert set(drawn().values()) == {1}
    assert len(drawn()) == sources
    for c, piece in driver.pieces(protocol.transport.scheme, n, dimension=d, threads=1):
        mixed(
            [posted(block, c, piece, 2**64) for block in blocks], c, piece, protocol.transport.group
        )
    assert set(drawn().values()) == {2}
    assert len(drawn()) == sources


@pytest.mark.points(1)
@pytest.mark.parametrize("threads", [1, 2, 50])
def test_parts_of_a_table_are_read_together_with_the_same_noise(threads):
    parts = [Part([0.5] * rows, rows) for rows in (10, 1, 4, 5, 20, 3)]
    runs = list(driver._stored(parts, threads))
    assert [part for _, run in runs for part in run.parts] == parts
    assert len(runs) >= min(threads, len(parts))
    protocol = PrivateSum(43, 1, 1e-6)

    def total(runs):
        rng, q = DeterministicRandom(5), protocol.modulus
        desk = BlockSharing(
            protocol.reader, protocol.transport.scheme, rng.streams(), rng.streams()
        )
        found = 0
        for number, run in runs:
            block = desk(run, number)
            for key in block.keys[0]:
                found += sum(
                    int(key(k).uniform(protocol.modulus, n).sum())
                    for k, n in enumerate(block.sizes)
                )
            found += block.clear[0]
        return found % q

    assert total(runs) == total([(k, driver.Stored([part])) for k, part in enumerate(parts)])


def test_digests_tell_sharings_apart():
    sharings = [(0, b"a" * 16), (1, b"b" * 16)]
    assert digest(sharings) == digest(sharings[::-1])
    others = [sharings[:1], [*sharings, sharings[0]], [(0, b"b" * 16), (1, b"a" * 16)]]
    assert len({digest(some) for some in (sharings, *others)}) == 4


@pytest.mark.parametrize("q", [2, 2**64])
@pytest.mark.parametrize("single", [False, True])
@pytest.mark.parametrize(("users", "threads"), [(1, 1), (4097, 3), (50_000, 5), (1 << 19, 64)])
def test_each_message_is_in_one_piece_and_no_piece_is_long(monkeypatch, q, single, users, threads):
    longest = 4096
    monkeypatch.setattr(driver, "MESSAGES_PER_TASK", longest)
    setting = SecureSum(2, q, messages=9, shuffler="single" if single else "parallel")
    found = driver.pieces(setting.transport.scheme, users, dimension=2, threads=threads)
    if q == 2**64:  # few values cannot be cut as small
        assert max(len(piece.rows) * users / piece.parts for _, piece in found) <= longest
    ends = {}
    for coordinate, piece in found:
        for row in piece.rows:
            ends.setdefault((coordinate, row), []).append(piece.ends(q))
    assert sorted(ends) == [(c, row) for c in range(2) for row in range(8)]
    for pairs in ends.values():
        assert all(low <= high for low, high in pairs)
        assert [low for low, _ in pairs] == [0, *(high + 1 for _, high in pairs[:-1])]
        assert pairs[-1][1] == q - 1


@pytest.mark.slow
def test_no_task_holds_much(here, monkeypatch):
    """2^18 users with 6 messages each: 12 MiB of messages, 2 MiB of values."""
    from distributed.diagnostics.plugin import SchedulerPlugin

    class Sizes(SchedulerPlugin):
        def __init__(self):
            self.held = Counter()

        def transition(self, key, start, finish, *args, **options):
            if finish == "memory" and key in scheduler.tasks:
                name = str(key).partition("-")[0]
                self.held[name] = max(self.held[name], scheduler.tasks[key].nbytes)

    n, m = 1 << 18, 6
    monkeypatch.setattr(driver, "MESSAGES_PER_TASK", 1 << 15)
    received = []
    results = driver.results

    def weighed(client, tasks):
        found = results(client, tasks)
        received.extend(len(pickle.dumps(one)) for one in found)
        return found

    monkeypatch.setattr(driver, "results", weighed)
    plugin = Sizes()
    scheduler = here.client.cluster.scheduler
    scheduler.add_plugin(plugin, name="sizes")
    try:
        x = da.arange(n, chunks=n // 8)
        found = SecureSum(n, 2**64, messages=m, shuffler="single").run(x, cluster=here)
    finally:
        scheduler.remove_plugin("sizes")
    assert found == n * (n - 1) // 2
    chunk = 8 * n // 8
    assert max(plugin.held.values()) < 1.2 * chunk
    assert 0 < plugin.held["mixed"] < 1000
    assert max(received) < 1000


@pytest.mark.slow
def test_workers_here_keep_memory_for_the_next_array(cluster):
    """Dask would have them return all of it at once."""
    assert set(cluster.client.run(os.getenv, "MALLOC_TRIM_THRESHOLD_").values()) == {None}


# Workers that are lost


def kill(cluster, *, everyone):
    """Kill all workers, or one that alone holds a block, and wait until the scheduler knows."""
    local = cluster.client.cluster
    scheduler = local.scheduler
    blocks = [task for key, task in scheduler.tasks.items() if str(key).startswith("clients-")]
    alone = [next(iter(task.who_has)) for task in blocks if len(task.who_has) == 1]
    # blocks move about: if both workers have all of them, no single one can be lost
    victims = list(scheduler.workers.values()) if everyone or not alone else alone[:1]
    pids = {nanny.worker_address: nanny.pid for nanny in local.workers.values()}
    for victim in victims:
        os.kill(pids[victim.address], signal.SIGKILL)
    # not by the address, which another worker may get
    soon(
        lambda: not any(one is victim for one in scheduler.workers.values() for victim in victims),
        "the scheduler does not know that a worker was killed",
    )


def killing(cluster, told, *, times=1, everyone=False):
    """Return a callback that kills after the first shuffler, in each of so many attempts."""

    def progress(done, wanted):
        told.append((done, wanted))
        if done == 1 and attempts(told) <= times:
            kill(cluster, everyone=everyone)
            if everyone:
                whole(cluster)

    return progress


def attempts(told):
    return [done for done, _ in told].count(1)


def whole(cluster):
    """Wait until there are two workers again."""
    cluster.client.wait_for_workers(2, timeout=120)


def lose_a_worker(cluster, run, in_time):
    """Lose a worker in the middle of a sum, again until what it held was really lost.

    Parameters
    ----------
    run : callable
        Given a callback, runs a sum and returns what is of interest.
    in_time : callable
        Given that, and what the callback was told, tells whether the loss came in time.
    """
    for _ in range(TRIES):
        whole(cluster)
        told = []
        try:
            found = run(killing(cluster, told))
        finally:
            whole(cluster)
        assert told[-1][0] == told[-1][1]
        if in_time(found, told):
            return found, told
    pytest.fail(f"a worker was lost {TRIES} times, and never in time")
    return None


def again(_, told):
    return attempts(told) > 1


@POSIX
@pytest.mark.slow
def test_a_lost_worker(cluster, tmp_path):
    """Clients run again, and no two rows of shares have a secret in common."""
    n, tries = 5000, []

    def run(progress):
        tries.append(tmp_path / f"{len(tries)}")
        tries[-1].mkdir()
        x = values(2**64, n)
        protocol, given = SecureSum(n, 2**64, messages=12), da.from_array(x, chunks=500)
        found = protocol.run(given, Recorded(tries[-1]), cluster=cluster, progress=progress)
        return found, truth(x, 2**64)

    (found, true), told = lose_a_worker(cluster, run, again)
    assert found == true
    done = [now for now, _ in told]
    assert sum(later <= before for before, later in pairwise(done)) == attempts(told) - 1
    assert done[-1] == told[-1][1] == 11
    forgotten(cluster)
    entries = records(tries[-1])
    secrets = [entry[1:] for entry in entries if entry[0] == "secret"]
    assert len({number for _, number, _ in secrets}) == 10
    rows = Counter((number, run) for _, number, run in secrets)
    assert len(rows) > 10, "nothing was run again"
    assert set(rows.values()) == {11}
    whose = {secret: (number, run) for secret, number, run in secrets}
    assert len(whose) == len(secrets), "two rows share a secret"
    drawn = [entry[1:] for entry in entries if entry[0] == "drawn"]
    assert all(whose[secret] == (number, run) for secret, number, run, _ in drawn)
    assert {secret for secret, *_ in drawn} == set(whose)


@pytest.mark.slow
@POSIX
def test_a_worker_that_is_lost_before_the_first_shuffler(cluster, monkeypatch):
    """There is one piece, whose sharings are compared with those of the clear shares."""
    attempts = []
    planned = driver.pieces

    def pieces(*about, **more):
        attempts.append(about)
        if len(attempts) == 1:
            kill(cluster, everyone=True)
            whole(cluster)
        return planned(*about, **more)

    monkeypatch.setattr(driver, "pieces", pieces)
    whole(cluster)
    told = []
    protocol = SecureSum(5000, 2**64, messages=12, shuffler="single")
    x = values(2**64, 5000)
    found = protocol.run(
        da.from_array(x, chunks=500), cluster=cluster, progress=lambda *now: told.append(now)
    )
    assert found == truth(x, 2**64)
    assert told == [(1, 1)]
    assert len(attempts) == 2


@POSIX
@pytest.mark.slow
@pytest.mark.parametrize("given", ["array", "iterator"])
def test_values_that_were_sent_are_there_still(cluster, given):
    x = values(2**64, 1 << 20)
    protocol = SecureSum(x.size, 2**64, messages=8)

    def run(progress):
        some = x if given == "array" else iter(np.array_split(x, 50))
        found = protocol.run(some, cluster=cluster, progress=progress)
        assert found == truth(x, 2**64)

    lose_a_worker(cluster, run, again)


@POSIX
@pytest.mark.slow
def test_workers_that_are_lost_again_and_again(cluster, monkeypatch):
    whole(cluster)
    monkeypatch.setattr(driver, "MAX_ATTEMPTS", 2)
    progress = killing(cluster, [], times=9, everyone=True)
    with pytest.raises(ClusterError, match="in the middle of each of 2 attempts"):
        SecureSum(5000, 2**64, messages=12).run(
            da.arange(5000, chunks=500), cluster=cluster, progress=progress
        )
    forgotten(cluster)


def restless(chunk, folder):
    """Return other values, and fewer of them, the first time than later."""
    first = os.path.join(folder, f"{int(chunk[0])}")
    if os.path.exists(first):
        return chunk
    open(first, "w").close()
    return chunk[:-10] + 1


@POSIX
@pytest.mark.slow
def test_values_that_read_differently_the_second_time(cluster, tmp_path):
    """The sum is one of values that were read together with the users who are counted."""
    n = 5000
    protocol = SecureSum(n, 2**64, messages=12, min_honest=4000)
    blocks = np.arange(n).reshape(10, 500)
    read = [(int(block[:-10].sum()) + 490, int(block.sum())) for block in blocks]
    possible = {0}
    for pair in read:
        possible = {total + one for total in possible for one in pair}

    def run(progress):
        folder = tempfile.mkdtemp(dir=tmp_path)
        x = da.arange(n, chunks=500).map_blocks(restless, folder, dtype=int)
        return protocol.run(x, cluster=cluster, progress=progress)

    found, _ = lose_a_worker(cluster, run, again)
    assert found in possible
    assert found != sum(first for first, _ in read)


# Workers that never come back


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(waiting, "LOOK_SECONDS", 0.05)
    monkeypatch.setattr(waiting, "LIMIT_SECONDS", 0.3)


def end(cluster):
    """End all workers for good."""
    cluster.client.cluster.scale(0)
    workers = cluster.client.cluster.scheduler.workers
    soon(lambda: not workers, "there are workers still", 30)


def pause(cluster):
    """Pause all workers, as Dask does where memory is short."""

    async def pause():
        for worker in cluster.client.cluster.workers.values():
            worker.status = distributed.Status.paused

    cluster.client.sync(pause)
    running = cluster.client.cluster.scheduler.running
    soon(lambda: not running, "there are workers at work still", 30)


GIVEN_UP = [
    (end, r"^for 0 s the cluster had no workers that stayed, and the work was given up; nothing"),
    (pause, r"^for 0 s all workers \(2\) were paused, which Dask does where memory is short, and"),
]


@pytest.mark.slow
@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(("happen", "said"), GIVEN_UP)
def test_a_cluster_that_does_nothing_is_given_up(happen, said):
    with workers_here(2) as cluster:
        protocol = SecureSum(N, 2**64, messages=12)
        assert protocol.run(np.arange(N), cluster=cluster) == N * (N - 1) // 2
        with pytest.raises(ClusterError, match=said):
            protocol.run(
                da.arange(N, chunks=100),
                cluster=cluster,
                progress=lambda done, _: happen(cluster) if done == 1 else None,
            )
        forgotten(cluster)


@pytest.mark.slow
def test_calls():
    with workers_here(1) as cluster, cluster.executor as executor:
        made = [executor.submit(divmod, 7, 2), executor.submit(divmod, 7, 0)]
        assert made[0].result() == (3, 1)
        assert isinstance(made[1].exception(), ZeroDivisionError)


@pytest.mark.slow
@pytest.mark.usefixtures("impatient")
def test_workers_that_start_and_end_for_ever_are_none():
    """As where Dask ends each as soon as it has started, because it has too little memory."""

    class Client:
        def __init__(self):
            self.scheduler = self
            self.looks = 0

        async def identity(self):
            self.looks += 1
            return {"workers": {f"tcp://{self.looks}": {"status": "running"}}}

    client = Client()
    watch = waiting.Watch(client)

    with pytest.raises(ClusterError, match="had no workers that stayed"):
        asyncio.run(asyncio.wait_for(watch.over(asyncio.sleep(60)), 60))
    assert client.looks > 1


@pytest.mark.slow
def test_the_time_that_a_look_takes_is_no_time_without_looks(monkeypatch):
    """A step, and an answer that does not come, are longer than what makes it forget a look."""
    for name, seconds in {"LOOK": 0.1, "LIMIT": 0.05, "ANSWER": 0.1}.items():
        monkeypatch.setattr(waiting, f"{name}_SECONDS", seconds)

    class Client:
        async def identity(self):
            await asyncio.sleep(60)

    client = Client()
    client.scheduler = client
    with pytest.raises(ClusterError, match="the scheduler did not answer"):
        asyncio.run(asyncio.wait_for(waiting.Watch(client).over(asyncio.sleep(60)), 30))


@pytest.mark.slow
@pytest.mark.usefixtures("impatient")
def test_a_cluster_without_workers(monkeypatch):
    monkeypatch.setattr(connection, "WORKER_SECONDS", 0.3)
    with workers_here(1) as cluster:
        address = cluster.client.cluster.scheduler_address
        pause(cluster)
        with pytest.raises(ClusterError, match="has no workers that are not paused for lack of"):
            Cluster(scheduler=address)
        end(cluster)
        with pytest.raises(ClusterError, match=r"^the scheduler '.*' has no workers$"):
            Cluster(scheduler=address)
        with pytest.raises(ClusterError, match=r"^the cluster has no workers$"):
            SecureSum(3, 8, messages=2).run([1, 2, 3], cluster=cluster)


@pytest.mark.slow
def test_workers_that_do_not_start(tmp_path, monkeypatch):
    stuck = tmp_path / "stuck.py"
    stuck.write_text("def dask_setup(worker):\n    import time\n    time.sleep(1000)\n")
    monkeypatch.setattr(connection, "START_SECONDS", 5)
    with (
        dask.config.set({"distributed.worker.preload": [str(stuck)]}),
        pytest.raises(ClusterError, match=r"^no workers could be started here: they have not st"),
    ):
        Cluster(workers=1)


@POSIX
@pytest.mark.slow
@pytest.mark.parametrize("closing", [connection.CLOSING_SECONDS, 0.5])
def test_a_worker_that_hears_nothing_is_ended(monkeypatch, closing):
    monkeypatch.setattr(connection, "CLOSING_SECONDS", closing)
    with Cluster(workers=1) as cluster:
        (nanny,) = cluster.client.cluster.workers.values()
        process = psutil.Process(nanny.pid)
        process.suspend()
    soon(lambda: not process.is_running(), "the worker is there still", 30)


class Newer:
    __version__ = "9.8.7"


def test_workers_of_another_version(here, monkeypatch):
    protocol, there = SecureSum(3, 8, messages=2), re.escape(ikos.__version__)
    monkeypatch.setattr(waiting, "ikos", Newer)
    said = rf"^the worker tcp://\S+ has version {there} of ikos, and here is 9\.8\.7: they must be"
    for run in (lambda: protocol.run([1, 2, 3], cluster=here), lambda: here.executor):
        with pytest.raises(ClusterError, match=said):
            run()
    monkeypatch.undo()
    assert protocol.run([1, 2, 3], cluster=here) == 6


# Ctrl-C, and a scheduler that is gone


@pytest.mark.slow
def test_interrupted_in_the_middle(here):
    def stop(done, wanted):
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        SecureSum(N, 2**64, messages=9).run(da.arange(N, chunks=100), cluster=here, progress=stop)
    forgotten(here)


@pytest.mark.slow
def test_interrupted_while_values_are_read(here):
    def stop():
        yield np.arange(N)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        SecureSum(N, 2**64, messages=9).run(stop(), cluster=here)
    forgotten(here)


def contents(file):
    try:
        return json.loads(file.read_text())
    except (OSError, ValueError):  # not there, or half of it
        return None


@pytest.fixture
def scheduler(tmp_path):
    """A scheduler in a process of its own, which has a worker."""
    file = tmp_path / "scheduler.json"
    program = [sys.executable, "-m"]
    listening = ["--host", "127.0.0.1", "--port", "0", "--no-dashboard"]
    with ExitStack() as running, (tmp_path / "log").open("wb") as log:

        def start(*words):
            process = subprocess.Popen(
                [*program, *map(str, words)],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=tmp_path,
            )  # fmt: skip
            running.callback(process.wait, timeout=60)
            running.callback(process.kill)
            return process

        process = start("distributed.cli.dask_scheduler", *listening, "--scheduler-file", file)
        soon(lambda: contents(file), "the scheduler has not said where it is")
        address = contents(file)["address"]
        start("distributed.cli.dask_worker", address, "--nthreads", 1, "--no-nanny", *listening[:2])
        with distributed.Client(address, timeout=60, set_as_default=False) as client:
            client.wait_for_workers(1, timeout=120)
        yield address, process


@POSIX
@pytest.mark.slow
def test_a_scheduler_that_is_lost(scheduler):
    address, process = scheduler
    with Cluster(scheduler=address) as cluster:
        protocol = SecureSum(N, 2**64, messages=9)
        x = np.arange(N)
        assert protocol.run(x, cluster=cluster) == x.sum()
        with pytest.raises(ClusterError, match="nothing was released"):
            protocol.run(x, cluster=cluster, progress=lambda *now: process.kill())


@pytest.mark.slow
def test_a_worker_that_is_said_to_have_gone_twice_does_not_matter() -> None:
    """Dask's own cluster would raise a KeyError when it is closed, after a right result."""
    with Cluster(workers=1) as once:
        local = once.client.cluster
        local._update_worker_status("remove", "tcp://127.0.0.1:1")
        assert SecureSum(10, 97).run(range(10), cluster=once) == 45
    assert local.status.name == "closed"
