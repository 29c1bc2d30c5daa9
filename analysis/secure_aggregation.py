"""One helper beside SecAgg+ as Flower has it: the same vectors, in one process.

    python -m analysis.secure_aggregation --output DIR

writes into DIR ``secure-aggregation.md``: for 100 clients with 10^5 coordinates, of whom 10 % are
lost, the bytes that a client sends and the processor time of a client and of the servers. It needs
Flower (``examples/flower/requirements.txt``).

SecAgg+ (BBGLR20) runs by Flower's own functions for clients and the server, between which messages
are passed in memory; bytes are those of its messages, as Flower writes them. Clients are lost after
they shared their keys. With a helper, clients are lost before they send anything, since they speak
once; their sums have noise, those of SecAgg+ none. Times are without a network.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from time import process_time
from types import SimpleNamespace
from typing import Any, cast

import click
import numpy as np
from numpy.typing import NDArray

from analysis.output import Files, main, markdown, program, stepped
from ikos import Ball, PrivateVectorSum
from ikos.deployment.opening import HYBRID, PrivateKey, public_key, suite, unsealed
from ikos.deployment.packed import add_packed, packed
from ikos.primitives.randomness import SecureRandom
from ikos.transports import AddedShares, Helpers
from ikos.transports.helpers import AddedVectors
from ikos.vectors import clip

USERS, DIMENSION, LOST = 100, 100_000, 10
BITS = 18
EPSILON, DELTA = 8.0, 1e-6
NEIGHBOURS = (0.1, 0.5)
"""Of a client of SecAgg+, as a part of all; half of their shares recover a key."""

STEPS = 2048
"""Steps to which both round a coordinate: sums of 100 clients have 18 bits, noise included."""

Array = NDArray[np.float32]


@dataclass(frozen=True)
class Measured:
    """Bytes and seconds of each client that stays, seconds of the servers, and the estimate."""

    rounds: int
    sent: Sequence[int]
    seconds: Sequence[float]
    server: float
    helper: float | None
    estimate: NDArray[np.float64]


@dataclass
class Stopwatch:
    """Processor time, added up."""

    seconds: float = 0.0

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """Add the time of a block."""
        start = process_time()
        yield
        self.seconds += process_time() - start


def updates(users: int, dimension: int) -> Array:
    """Return a vector of norm 1 for each user."""
    drawn = np.random.default_rng(0).standard_normal((users, dimension))
    return np.array([clip(row.astype(np.float32), 1) for row in drawn])


# SecAgg+


class Clients:
    """Flower's clients in memory: what its server sees of a network."""

    def __init__(self, vectors: Array, lost: int) -> None:
        from flwr.app import Context, RecordDict

        self.vectors = dict(enumerate(vectors, 1))
        self.lost = set(list(self.vectors)[:lost])
        self.contexts = {
            node: Context(1, node, {}, RecordDict(), {}, 1) for node in (0, *self.vectors)
        }
        self.sent = dict.fromkeys(self.vectors, 0)
        self.times = {node: Stopwatch() for node in self.vectors}
        self.rounds, self.all = 0, Stopwatch()

    def _trained(self, message: Any, context: Any) -> Any:
        from flwr.app import Message
        from flwr.common import Code, FitRes, Status, ndarrays_to_parameters
        from flwr.compat.common.recorddict_compat import fitres_to_recorddict

        parameters = ndarrays_to_parameters([self.vectors[context.node_id]])
        result = FitRes(Status(Code.OK, ""), parameters, 1, {})
        return Message(fitres_to_recorddict(result, False), reply_to=message)

    def send_and_receive(self, messages: Sequence[Any], *, timeout: float | None = None) -> Any:
        """Return the clients' answers; those who are lost give none from the third round on."""
        from flwr.client.mod import secaggplus_mod
        from flwr.common.serde import recorddict_from_proto, recorddict_to_proto

        del timeout
        self.rounds += 1
        replies = []
        with self.all():
            for message in messages:
                node = message.metadata.dst_node_id
                if self.rounds > 2 and node in self.lost:
                    continue
                # as over a network: messages share their contents, and clients change them
                message.content = recorddict_from_proto(recorddict_to_proto(message.content))
                with self.times[node]():
                    reply = secaggplus_mod(message, self.contexts[node], self._trained)
                self.sent[node] += recorddict_to_proto(reply.content).ByteSize()
                replies.append(reply)
        return replies


def by_neighbours(vectors: Array, lost: int, neighbours: float) -> Measured:
    """Add up by SecAgg+, as Flower has it, which takes the mean of what it has."""
    from flwr.app import ConfigRecord
    from flwr.common import FitIns, ndarrays_to_parameters, parameters_to_ndarrays
    from flwr.compat.common.recorddict_compat import parameters_to_arrayrecord
    from flwr.server.compat import LegacyContext
    from flwr.server.workflow import SecAggPlusWorkflow
    from flwr.supercore.task_identity import TaskIdentity

    TaskIdentity.run_id = TaskIdentity.task_id = TaskIdentity.node_id = 1  # who makes messages
    clients, means = Clients(vectors, lost), []
    parameters = ndarrays_to_parameters([np.zeros(1, dtype=np.float32)])

    class Strategy:
        def configure_fit(self, *_: Any) -> Any:
            nodes = [SimpleNamespace(node_id=node) for node in clients.vectors]
            return [(node, FitIns(parameters, {})) for node in nodes]

        def aggregate_fit(self, _round: int, results: Any, _failures: Any) -> Any:
            means.extend(parameters_to_ndarrays(results[0][1].parameters))
            return None, {}

    manager = SimpleNamespace(num_available=lambda: len(vectors))
    context = LegacyContext(clients.contexts[0], None, Strategy(), manager)
    context.state.config_records["config"] = ConfigRecord({"current_round": 1})
    context.state.array_records["parameters"] = parameters_to_arrayrecord(parameters, True)
    workflow = SecAggPlusWorkflow(
        neighbours, 0.5, max_weight=1.0, clipping_range=float(np.abs(vectors).max()),
        quantization_range=STEPS, modulus_range=1 << BITS,
    )  # fmt: skip
    server = Stopwatch()
    with server():
        workflow(clients, context)
    # neighbours are random: this fails in one run of a hundred, and never in --quick
    assert means, "a client of SecAgg+ lost too many neighbours: run it again"
    (mean,) = means
    kept = [node for node in clients.vectors if node not in clients.lost]
    return Measured(
        clients.rounds,
        [clients.sent[node] for node in kept],
        [clients.times[node].seconds for node in kept],
        server.seconds - clients.all.seconds,
        None,
        mean * len(kept),
    )


# A helper


def protocol_of(users: int, dimension: int, lost: int) -> PrivateVectorSum:
    """Return the private sum, whose noise is complete without those who are lost."""
    return PrivateVectorSum(
        users, Ball(dimension), EPSILON, DELTA, min_honest=users - lost, precision=STEPS,
        modulus=1 << BITS, transport=Helpers(),
    )  # fmt: skip


def by_helper(vectors: Array, lost: int) -> Measured:
    """Add up with one helper, each party by itself; seeds in envelopes, without a network."""
    users, dimension = vectors.shape
    protocol, key = protocol_of(users, dimension, lost), PrivateKey.generate(HYBRID)
    name, transport = b"round 1", cast(AddedShares, protocol.transport)
    helper = protocol.parties(name)[1]
    sent, times, server, adding = [], [], Stopwatch(), Stopwatch()
    kept = dict[bytes, bytes]()
    for vector in vectors[lost:]:
        times.append(Stopwatch())
        with times[-1]():
            report = protocol.report(vector, context=name)
            (id,), ((share,), (seed,)) = report.ids, report.parts
            data, bound = packed(share[0], BITS), protocol.context(name) + id
            envelope = suite(HYBRID).encrypt(
                seed.tobytes(), public_key(key.public_bytes, HYBRID), bound
            )
        sent.append(len(data) + len(envelope) + 2 * len(id))
        kept[id] = data
        with adding():
            opened = np.frombuffer(unsealed(envelope, key, bound), np.uint8)
            helper.receive(id, (opened[np.newaxis],))
    chosen = sorted(helper.ids.intersection(kept))
    with adding():
        released = helper.release(chosen)
    with server():
        total = np.zeros(dimension, dtype=np.uint64)
        for id in chosen:
            add_packed(total, [kept[id]], BITS)
        own = transport.noisy(transport.elements(total), SecureRandom())
        view = AddedVectors(own, len(chosen)), released.messages
        result = protocol.result(transport.totals(view, protocol.context(name)))
    seconds = [one.seconds for one in times]
    return Measured(1, sent, seconds, server.seconds, adding.seconds, result.estimate)


# What is written

HEADER = (
    "", "rounds", "bytes of a client", "seconds of a client", "seconds of the server",
    "seconds of the helper", "error",
)  # fmt: skip


def row(name: str, measured: Measured, truth: NDArray[np.float64]) -> tuple[str, ...]:
    """Return a row of the table, with medians over clients."""
    helper = "-" if measured.helper is None else f"{measured.helper:.2g}"
    return (
        name,
        str(measured.rounds),
        f"{statistics.median(measured.sent):,.0f}",
        f"{statistics.median(measured.seconds):.2g}",
        f"{measured.server:.2g}",
        helper,
        f"{np.linalg.norm(measured.estimate - truth):.3g}",
    )


def rows(users: int, dimension: int, lost: int) -> Iterator[tuple[str, ...]]:
    """Yield the rows of all ways to add up."""
    vectors = updates(users, dimension)
    truth = vectors[lost:].sum(axis=0, dtype=np.float64)
    yield row(f"one helper, noise for ε = {EPSILON:g}", by_helper(vectors, lost), truth)
    for neighbours in NEIGHBOURS:
        name = f"SecAgg+ (Flower {version('flwr')}), {neighbours:.0%} as neighbours, no noise"
        yield row(name, by_neighbours(vectors, lost, neighbours), truth)


@program(printed=True)
def command(files: Files, quick: bool) -> None:
    """Add up the same vectors with a helper and by SecAgg+ as Flower has it.

    Takes two minutes.
    """
    try:
        version("flwr")
    except PackageNotFoundError:
        raise click.UsageError(
            "this needs Flower: pip install -r examples/flower/requirements.txt"
        ) from None
    size = (20, 1000, 1) if quick else (USERS, DIMENSION, LOST)
    cells = stepped("adding up", 1 + len(NEIGHBOURS), rows(*size))
    files.report("secure-aggregation", markdown(HEADER, cells))


if __name__ == "__main__":
    main(command)
