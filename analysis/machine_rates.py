"""What one core of this machine takes for each part of a deployment: measured, not assumed.

Times are of the processor (`time.process_time`), so that other programs do not count, and each is
the slowest of several repetitions: a plan made of them errs towards too many machines.
"""

from __future__ import annotations

import datetime
import math
import os
import platform
import ssl
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from numpy.typing import NDArray

from ikos import PrivateSum, SecureSum
from ikos.primitives.concurrency import cores
from ikos.primitives.modular import Zq
from ikos.primitives.randomness import secure

try:
    from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite
except ImportError:  # before version 47
    raise ImportError("envelopes need HPKE: pip install 'ikos[deployment]'") from None


INFO = 48
"""Bytes of context that an envelope is bound to: the hash of the task, column and version."""

Protocol = PrivateSum | SecureSum


def slowest(work: Callable[[], object], repeats: int) -> float:
    """Return the most processor time, in seconds, of several calls."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return max(times)


def machine() -> str:
    """Return what was measured on: processor, cores, memory, versions."""
    model = platform.processor() or platform.machine()
    try:
        with open("/proc/cpuinfo") as file:
            names = [line.partition(":")[2].strip() for line in file if "model name" in line]
        model = names[0] if names else model
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    except (OSError, ValueError):
        return f"{model}, {cores()} cores; numpy {np.__version__}"
    return f"{model}, {cores()} cores, {memory:.0f} GiB; numpy {np.__version__}"


# Connections


@dataclass(frozen=True)
class Connection:
    """A TLS 1.3 connection of which one request of some bytes is made and answered.

    Attributes
    ----------
    client, server : float
        Processor seconds at the two ends, for the whole.
    up, down : int
        Bytes beyond the request and the answer.
    """

    client: float
    server: float
    up: int
    down: int


_ANSWER = 64


def _contexts() -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Return a client's and a server's context; the certificate is signed by its own key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = certificate.public_bytes(serialization.Encoding.PEM)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "both.pem")
        path.write_bytes(
            pem
            + key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        server.load_cert_chain(path)
    client = ssl.create_default_context(cadata=pem.decode())
    for context in (client, server):
        context.minimum_version = ssl.TLSVersion.TLSv1_3
    return client, server


def connection(request: int) -> Connection:
    """Make a connection in memory, send a request and an answer, and measure both ends."""
    contexts = _contexts()
    toward_server, toward_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    up = down = 0
    spent = [0.0, 0.0]

    def timed(side: int, work: Callable[[], object]) -> object:
        start = time.process_time()
        try:
            return work()
        except ssl.SSLWantReadError:
            return ssl.SSLWantReadError
        finally:
            spent[side] += time.process_time() - start

    client = contexts[0].wrap_bio(toward_client, toward_server, server_hostname="localhost")
    server = contexts[1].wrap_bio(toward_server, toward_client, server_side=True)
    waiting = [True, True]
    while any(waiting):
        for side, end in enumerate((client, server)):
            if waiting[side]:
                before = toward_server.pending, toward_client.pending
                waiting[side] = timed(side, end.do_handshake) is ssl.SSLWantReadError
                up += max(0, toward_server.pending - before[0])
                down += max(0, toward_client.pending - before[1])
    timed(0, lambda: client.write(bytes(request)))
    up += toward_server.pending
    timed(1, lambda: server.read(request))
    before_answer = toward_client.pending
    timed(1, lambda: server.write(bytes(_ANSWER)))
    down += toward_client.pending - before_answer
    timed(0, lambda: client.read(_ANSWER))
    return Connection(spent[0], spent[1], up - request, down - _ANSWER)


def _connections(request: int, count: int, repeats: int) -> Connection:
    """Return the slowest batch's mean at each end, and the most bytes each way."""
    batches = [[connection(request) for _ in range(count)] for _ in range(repeats)]
    made = [one for batch in batches for one in batch]
    return Connection(
        max(sum(one.client for one in batch) for batch in batches) / count,
        max(sum(one.server for one in batch) for batch in batches) / count,
        max(one.up for one in made),
        max(one.down for one in made),
    )


# Shufflers


@dataclass(frozen=True)
class Ordering:
    """A uniformly random order of envelopes in memory.

    Attributes
    ----------
    size : int
        Envelopes.
    seconds, memory : float
        Processor seconds, and bytes at the most, the envelopes before and after included; for
        each of them.
    """

    size: int
    seconds: float
    memory: float


def _ordering(size: int, width: int, repeats: int) -> Ordering:
    rng = secure(None)
    envelopes = np.zeros((size, width), dtype=np.uint8)
    envelopes[:, :8] = np.arange(size).view(np.uint8).reshape(size, 8)  # no page is shared

    def order() -> NDArray[np.uint8]:
        return np.take(envelopes, rng.permutation(size), axis=0)

    seconds = slowest(order, repeats)
    tracemalloc.start()
    order()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return Ordering(size, seconds / size, (peak + envelopes.nbytes) / size)


# All of it


@dataclass(frozen=True)
class Rates:
    """What one core takes, in seconds, for one of each.

    Attributes
    ----------
    overhead : int
        Bytes of an envelope beyond its share.
    report : float
        A client rounds, draws noise and shares, by a call for itself alone.
    together : float
        The same for a user among many, in one call: what a simulation pays.
    seal, open : float
        An envelope is made, and opened.
    connection : Connection
        With one request.
    orderings : tuple of Ordering
        By size, ascending.
    add : float
        A message is checked and added.
    simulated : float
        A user of `run`, all parties in one process on one core.
    """

    overhead: int
    report: float
    together: float
    seal: float
    open: float
    connection: Connection
    orderings: tuple[Ordering, ...]
    add: float
    simulated: float


def measured(
    make: Callable[[int], Protocol],
    n: int,
    sizes: Iterable[int],
    *,
    id_bytes: int,
    repeats: int = 3,
    count: int = 1000,
    crowd: int = 1 << 22,
    step: Callable[[], None] = lambda: None,
) -> Rates:
    """Measure all rates on this machine."""
    protocol = make(n)
    group = protocol.transport.group
    value: int = 1
    report = slowest(lambda: [protocol.report(value) for _ in range(count)], repeats) / count
    step()

    crowded = make(crowd)
    values = np.arange(crowd) % 2
    together = slowest(lambda: _shares(crowded, values), repeats) / crowd
    simulated = slowest(lambda: crowded.run(values, threads=1), repeats) / crowd
    step()

    suite, key = Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.AES_128_GCM), X25519PrivateKey.generate()
    public = key.public_key()
    width, info = share_bytes(group), bytes(INFO)
    sealed: list[bytes] = []

    def seal() -> None:
        sealed[:] = [suite.encrypt(bytes(width), public, info) for _ in range(count)]

    sealing = slowest(seal, repeats) / count
    opening = slowest(lambda: [suite.decrypt(e, key, info) for e in sealed], repeats) / count
    overhead = len(sealed[0]) - width
    step()

    tls = _connections(id_bytes + width + overhead, max(10, count // 10), repeats)
    step()

    orderings = []
    for size in sorted(sizes):
        orderings.append(_ordering(size, width + overhead, repeats))
        step()

    column = secure(None).uniform(group.q, 1 << 20 if group.dtype != object else 1 << 14)

    def add() -> int:
        if not group.contains(column):
            raise AssertionError("a uniform element is outside of the group")
        return group.sum(column)

    adding = slowest(add, repeats) / column.size
    step()
    return Rates(
        overhead,
        report,
        together,
        sealing,
        opening,
        tls,
        tuple(orderings),
        adding,
        simulated,
    )


def _shares(protocol: Protocol, values: NDArray[np.int64]) -> Any:
    """Return all users' shares, as their clients make them."""
    if isinstance(protocol, SecureSum):
        return protocol.share(values)
    return protocol.randomize(values)


def share_bytes(group: Zq) -> int:
    """Return the bytes that hold any element."""
    return math.ceil(group.bits / 8)
