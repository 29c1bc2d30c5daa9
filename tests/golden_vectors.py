"""Golden vectors: what the library computes from given inputs, to be the same in every version.

``python tests/golden_vectors.py`` writes them to ``tests/golden``; `test_golden_vectors` compares.
A commit that changes a file there says why. Each line is [operation, arguments, value]. Other
implementations may use them: randomness is that of ``ikos.testing.DeterministicRandom(seed)``, a
string of digits, perhaps with a slash, is an integer beyond 2^53 or a fraction.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import json
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pyhpke

import ikos
from ikos import accounting, counts
from ikos.baselines import PROTOCOLS
from ikos.counts.helpers import HelpersLayout
from ikos.data.domains import Bounds
from ikos.data.reading import Participation
from ikos.deployment import helpers, hpke, tokens
from ikos.deployment.client import check_value, send_part
from ikos.deployment.hpke import PrivateKey
from ikos.deployment.opening import unsealed
from ikos.deployment.packed import packed
from ikos.deployment.reports import ClientReport
from ikos.deployment.task import Task, Window
from ikos.deployment.verified import added_openings
from ikos.primitives import samplers as noise
from ikos.primitives.randomness import RandomSource
from ikos.testing import DeterministicRandom
from ikos.transports.helpers import AddedShares
from ikos.transports.packing import unpack
from ikos.verified.statements import ORDER

FOLDER = Path(__file__).with_name("golden")

Entries = Iterator[tuple[str, dict[str, Any]]]


def plain(value: Any) -> Any:
    """Return a value as JSON holds it."""
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, np.ndarray | list | tuple):
        return [plain(one) for one in value]
    if isinstance(value, dict):
        return {name: plain(one) for name, one in value.items()}
    if isinstance(value, Fraction):
        return str(value)
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 1 << 53:
        return str(value)
    return value


def given(value: Any) -> Any:
    """Return a value of JSON as an argument."""
    if isinstance(value, list):
        return [given(one) for one in value]
    if isinstance(value, dict):
        return {name: given(one) for name, one in value.items()}
    if isinstance(value, str) and re.fullmatch(r"-?\d+(/\d+)?", value):
        return Fraction(value) if "/" in value else int(value)
    return value


def digest(values: Any) -> str:
    """Return the SHA-256 of many integers, written in decimal with a comma between them."""
    return hashlib.sha256(",".join(map(str, np.ravel(values).tolist())).encode()).hexdigest()


# What is computed


def _steps(protocol: Any, share: Callable[..., Any], x: Any) -> dict[str, Any]:
    shares = share(x, DeterministicRandom(1))
    ordered = protocol.shuffle(shares)
    permuted = protocol.shuffle(shares, DeterministicRandom(2), order="permuted")
    found = protocol.analyze(permuted)
    return {
        "shares": shares,
        "sorted": [ordered.columns, ordered.clear],
        "permuted": [permuted.columns, permuted.clear],
        "result": getattr(found, "estimate", found),
    }


def _secure_sum(x: Any, **options: Any) -> dict[str, Any]:
    protocol = ikos.SecureSum(len(x), **options)
    return _steps(protocol, protocol.share, x)


def _private_sum(x: Any, **options: Any) -> dict[str, Any]:
    protocol = ikos.PrivateSum(len(x), **options)
    return _steps(protocol, protocol.randomize, x)


def _secure_sum_of_indices(n: int, q: int) -> list[Any]:
    protocol, x = ikos.SecureSum(n, q, messages=3), np.arange(n)
    shares = protocol.share(x, DeterministicRandom(3))
    return [digest(shares), protocol.run(x, DeterministicRandom(3))]


def _private_sum_of_indices(n: int) -> list[Any]:
    protocol, x = ikos.PrivateSum(n, 1, 1e-9), np.arange(n) / n
    shares = protocol.randomize(x, DeterministicRandom(4))
    return [digest(shares), protocol.run(x, DeterministicRandom(4)).estimate]


LAYOUTS = ("separate", "group")
DOMAINS = {"box": ikos.Box(4), "ball": ikos.Ball(4), "sparse": ikos.SparseTernary(8, 2)}


def _vectors(protocol: Any, share: Callable[..., Any], x: Any) -> list[Any]:
    messages = share(x, DeterministicRandom(1))
    result = protocol.run(x, DeterministicRandom(1))
    return [digest(messages), np.ravel(messages)[:8], getattr(result, "estimate", result)]


def _secure_vector_sum(x: Any, q: int, layout: str, **how: Any) -> list[Any]:
    data = np.array(x)
    n, d = data.shape
    protocol = ikos.SecureVectorSum(n, d, q, messages=3, layout=layout, **how)
    return _vectors(protocol, protocol.share, data)


def _view_of_blocks(x: Any, q: int, **how: Any) -> list[Any]:
    protocol = ikos.SecureVectorSum(len(x), len(x[0]), q, messages=3, **how)
    shares = protocol.share(x, DeterministicRandom(1))
    view = protocol.shuffle(shares, DeterministicRandom(2), order="permuted")
    transport = protocol.transport
    each = len(view.columns) // len(transport.blocks)
    received = [(a, transport.blocks[i // each]) for i, a in enumerate(view.columns)]
    return [unpack(a, transport.group, block.stop - block.start) for a, block in received]


def _private_vector_sum(x: Any, domain: str, layout: str) -> list[Any]:
    protocol = ikos.PrivateVectorSum(len(x), DOMAINS[domain], 1, 0.01, messages=3, layout=layout)
    return _vectors(protocol, protocol.randomize, np.array(x))


def _masked_vector(x: Any, d: int, upper: int, **how: Any) -> list[Any]:
    """Return what one of three users sends for a vector, in which entries go round."""
    protocol = ikos.SecureVectorSum(3, d, upper=upper, layout="masked", sigma=1, **how)
    vector = np.resize(np.array(x), d)
    report = protocol.report(vector, DeterministicRandom(9), context=b"golden")
    (masked, *clear), *mixed = report.parts
    octets = b"".join((*report.ids, masked.tobytes(), *(seal.tobytes() for _, seal in mixed)))
    rows = [rows.reshape(-1, protocol.transport.keys.dimension) for rows, _ in mixed]
    shares = np.concatenate([*rows, *clear])
    return [protocol.parameter_hash, hashlib.sha256(octets).hexdigest(), digest(shares)]


def _masked_sum(x: Any, d: int, upper: int) -> list[Any]:
    data = np.array([np.resize(row, d) for row in x])
    protocol = ikos.SecureVectorSum(len(x), d, upper=upper, layout="masked", sigma=1)
    return [digest(protocol.run(data, DeterministicRandom(10), threads=1))]


def _private_masked_sum(n: int, d: int, releases: int) -> list[Any]:
    protocol = ikos.PrivateVectorSum(n, ikos.Box(d), 1, 0.01, layout="masked", releases=releases)
    data = np.resize(np.arange(7) / 7, (n, d))
    result = protocol.run(data, DeterministicRandom(11), threads=1)
    guarantee = protocol.guarantee
    return [protocol.parameter_hash, guarantee.delta, protocol.mse, digest(result.estimate)]


def _polya_population(n: int, s: Any) -> list[Any]:
    drawn = noise.polya_population(n, s, rng=DeterministicRandom(7))
    return [digest(drawn), drawn.sum()]


def _count(found: Any) -> list[Any]:
    return [found.shuffled, found.clear, found.sigma, found.delta, found.noise_epsilon]


def _layouts(found: Any) -> list[Any]:
    return [[one.sums, *_count(one.count), one.bits_per_user] for one in found]


def _blocks(protocol: Any) -> list[Any]:
    layout = protocol.layout
    return [layout.name, *_layouts([layout])[0], layout.sigma, protocol.parameter_hash]


def _private_remaining(honest: int) -> list[float]:
    left = ikos.PrivateSum(10_000, 1, 1e-8).remaining(honest=honest, delta=1e-6)
    return [left.epsilon, left.delta]


def _figures(protocol: Any, x: Any) -> list[Any]:
    cost, guarantee = protocol.cost(), protocol.guarantee
    return [
        guarantee.epsilon, guarantee.delta, protocol.mse, protocol.influence,
        cost.messages_per_user, cost.bits_per_user,
        protocol.run(x, DeterministicRandom(8)).estimate,
    ]  # fmt: skip


def _protocol(name: str) -> list[Any]:
    (one,) = (one for one in PROTOCOLS if one.key == name)
    return _figures(one.make(2000, Bounds(0, 1), 1, 1e-6), np.arange(2000) % 2)


def _vector_protocol(name: str, domain: str) -> list[Any]:
    (one,) = (one for one in PROTOCOLS if one.key == name)
    angles = np.arange(2000)[:, None] * np.arange(1, 5)
    data = {
        "box": (angles % 7) / 6,
        "ball": np.cos(angles) / 2,
        "sparse": np.array([np.roll([1, 0, 0, -1, 0, 0, 0, 0], i) for i in range(2000)]),
    }
    return _figures(one.make(2000, DOMAINS[domain], Fraction(1), Fraction(1, 10**6)), data[domain])


def _made_task(users: int, delta: float, columns: int, **options: Any) -> Task:
    made = Task.new(
        users, 1, delta, **options,
        shufflers=[f"https://s{j}.example:8443" for j in range(columns)],
        analyzer="https://analyzer.example:8443",
        opens=datetime(2030, 1, 1, tzinfo=UTC), closes=timedelta(days=1),
    )  # fmt: skip
    held = {field.name: getattr(made, field.name) for field in fields(made) if field.init}
    return Task(**held | {"nonce": bytes(16)})


def _task(users: int, honest: int) -> list[str]:
    options = {"lower": 0, "upper": 100, "min_honest": honest, "corrupt_clients": 10}
    task = _made_task(users, 1e-8, 8, kem="x25519", public_keys=[bytes(range(32))], **options)
    return [task.to_json(), task.name]


# What clients send: docs/wire-format.md

WIRE: dict[str, dict[str, Any]] = {
    "number": {"lower": -0.5, "upper": 100, "windows": 3, "keys": 2},
    "integers": {"lower": -3, "upper": 4, "integers": True, "modulus": 2**80 + 13},
    "box": {"domain": ikos.Box(2, 0.1, 10), "layout": "group"},
    "ball": {"domain": ikos.Ball(12, 0.3), "layout": 5},
    "categories": {"domain": ikos.Categories([3]), "labels": ["rot", "grün", "blå"]},
    "questions": {"domain": ikos.Categories([2, 3])},
    "hybrid": {"domain": ikos.Categories([2]), "kem": "mlkem768-x25519"},
    "masks": {"domain": ikos.Box(3000), "transport": "masks"},
    "frequencies": {"domain": ikos.Categories([50]), "transport": "frequencies", "set_size": 3},
    "helpers": {"domain": ikos.Categories([11]), "transport": "helpers", "helpers": 2},
    "parties": {
        "lower": -0.5, "upper": 100, "transport": "helpers", "helpers": 2, "noise": "parties",
        "windows": 3, "keys": 2, "modulus": 2**59,
    },
    "verified": {
        "lower": -0.5, "upper": 100, "transport": "verified", "relays": 2, "windows": 3, "keys": 2,
    },
    "classes": {"domain": ikos.Categories([4]), "transport": "verified"},
}  # fmt: skip


def _wire_key(name: str, number: int) -> PrivateKey:
    return PrivateKey(bytes(range(number, number + 32)), WIRE[name].get("kem", "x25519"))


@functools.cache
def _wire(name: str) -> Task:
    options = {"min_honest": 500, "kem": "x25519", "keys": 1, **WIRE[name]}
    draft = Task.new(600, 1, 0.01, **options)
    keys = [_wire_key(name, number).public_bytes for number in range(len(draft.public_keys))]
    del options["keys"]
    return _made_task(600, 0.01, draft.columns, public_keys=keys, **options)


def _wire_opened(name: str, window: int, shuffler: int, block: int, envelope: str) -> Any:
    where = _wire(name).at(window)
    key = _wire_key(name, where.key)
    bound = hpke.info(where, shuffler, block)
    shares = hpke.unseal(bytes.fromhex(envelope), key, where, shuffler, block)
    return {"private": key.raw.hex(), "info": bound.hex(), "shares": shares}


def _wire_task(name: str) -> dict[str, Any]:
    task = _wire(name)
    return {
        "text": task.to_json(),
        "hash": task.name,
        "width": task.width,
        "blocks": task.blocks,
        "parts": [task.part_bytes(party) for party in range(task.parties)],
        "open": [
            [int(moment.timestamp()) for moment in (window.opens, window.closes)]
            for window in map(task.at, range(task.windows))
        ],
    }


def _wire_steps(name: str, value: Any) -> list[str]:
    protocol = _wire(name).protocol
    x = check_value(_wire(name), value)
    bounds = protocol.encoding.bounds
    low, width = Fraction(bounds.lower), Fraction(bounds.upper) - Fraction(bounds.lower)
    exact = [(Fraction(one) - low) * protocol.precision / width for one in np.ravel(x).tolist()]
    for seed in range(20):
        made = protocol.encoding.encode(np.array([x]), DeterministicRandom(seed))
        assert all(abs(one - t) < 1 for one, t in zip(np.ravel(made).tolist(), exact, strict=True))
    return [str(t) for t in exact]


def _wire_categories(name: str, message: int) -> list[int]:
    return [int(k) for k in np.flatnonzero(_wire(name).protocol.counts(np.array([message])))]


class _Kept(RandomSource):
    """A reproducible source that keeps what it gave."""

    def __init__(self, seed: int) -> None:
        self.source, self.given = DeterministicRandom(seed), b""

    def _read_into(self, out: memoryview) -> None:
        out[:] = self.source.bytes(len(out))
        self.given += bytes(out)


def _wire_noise(rate: Any, n: int) -> list[Any]:
    source = _Kept(9)
    drawn = [int(sum(noise.polya_shares(1, Fraction(rate), n, source)[1])) for _ in range(20)]
    return [source.given.hex(), drawn]


def _wire_report(name: str, window: int) -> dict[str, Any]:
    task, rng = _wire(name), DeterministicRandom(10)
    where = task.at(window)
    dimension = task.domain.dimension
    shares = rng.uniform(task.modulus, task.parties * dimension).reshape(-1, dimension)
    secret, number = rng.bytes(32), rng.bytes(16)
    keys, infos, parts = [], [], [hpke.clear_part(shares[-1].tolist(), task)]
    for column in range(1, task.parties):
        own, part = [rng.bytes(32) for _ in task.blocks], b""
        for block, (raw, some) in enumerate(
            zip(own, task.transport.shares_of(task).blocks, strict=True)
        ):
            infos.append(hpke.info(where, column, block))
            held = shares[column - 1, some].tolist()
            envelope = _sealed(where.public_key(0), infos[-1], hpke.clear_part(held, task), raw)
            key = _wire_key(name, where.key)
            assert hpke.unseal(envelope, key, where, column, block) == held
            part += envelope
        keys.append([raw.hex() for raw in own])
        parts.append(part)
    more = {
        "shares": shares,
        "ephemeral": keys,
        "y": [sum(column) % task.modulus for column in shares.T.tolist()],
        "infos": [one.hex() for one in infos],
    }
    return _sent(where, secret, ClientReport(number, tuple(parts)), **more)


def _wire_seeds(name: str, window: int) -> dict[str, Any]:
    task, rng = _wire(name), DeterministicRandom(10)
    where, transport = task.at(window), helpers.added_shares(task)
    y = rng.uniform(task.modulus, transport.dimension)
    secret, number = rng.bytes(32), rng.bytes(16)
    seeds, keys, infos, envelopes, vectors = [], [], [], [], []
    left = y.copy()
    for party in task.key_holders:
        seeds.append(rng.bytes(32))
        keys.append(rng.bytes(32))
        words = transport.keystream(seeds[-1], party, number, task.transport.context(where))
        vectors.append(transport.elements(words))
        transport.group.subtract(left, vectors[-1])
        infos.append(task.transport.info(where, party, number))
        envelopes.append(_sealed(where.public_key(party), infos[-1], seeds[-1], keys[-1]))
        holder = _wire_key(name, where.key * task.columns + party - 1)
        assert unsealed(envelopes[-1], holder, infos[-1]) == seeds[-1]
    parts = (packed(left, transport.group.bits), *envelopes)
    more = {
        "y": y,
        "seeds": [seed.hex() for seed in seeds],
        "vectors": vectors,
        "left": left,
        "ephemeral": [raw.hex() for raw in keys],
        "infos": [one.hex() for one in infos],
    }
    return _sent(where, secret, ClientReport(number, parts), **more)


def _wire_openings(name: str, window: int) -> dict[str, Any]:
    task, rng = _wire(name), DeterministicRandom(10)
    where, terms = task.at(window), task.transport
    transport, d = added_openings(task), task.domain.dimension
    y = [3] * d if transport.valid.one_hot is None else [1, *[0] * (d - 2), task.precision + 1]
    secret, number, fresh = rng.bytes(32), rng.bytes(16), rng.bytes(32)
    drawn = rng.uniform(ORDER, task.parties * (d + 1)).reshape(task.parties, d + 1)
    drawn[0, :-1] = [
        (one - sum(others)) % ORDER for one, others in zip(y, drawn[1:, :-1].T, strict=True)
    ]
    openings = drawn.tolist()
    proofs = transport.proofs(terms.context(where))
    commitments = [proofs.commit(values, blinding) for *values, blinding in openings]
    proof = proofs.prove(y, sum(drawn[:, -1]) % ORDER, commitments, number, fresh)
    own, *others = (b"".join(one.to_bytes(32) for one in opening) for opening in openings)
    keys, infos, envelopes = [], [], []
    for party, content in enumerate(others, 1):
        keys.append(rng.bytes(32))
        infos.append(terms.info(where, party, number))
        envelopes.append(_sealed(where.public_key(party), infos[-1], content, keys[-1]))
    part = b"".join((*commitments, proof, own))
    ((_, receipt),) = terms.receipts(where, [(number, part)])
    assert receipt is not None
    more = {
        "y": y,
        "openings": [[str(one) for one in opening] for opening in openings],
        "fresh": fresh.hex(),
        "ephemeral": [raw.hex() for raw in keys],
        "bits": proofs.statement.witness(y),
        "commitments": [one.hex() for one in commitments],
        "proof": proof.hex(),
        "infos": [one.hex() for one in infos],
    }
    return _sent(where, secret, ClientReport(number, (part, *envelopes)), **more)


def _wire_keystream(dimension: int, bits: int) -> dict[str, Any]:
    """The vector of a seed: the last elements are of the last chunk, and all are in the digest."""
    seed, number, context = bytes(range(32)), bytes(range(16)), bytes(range(68))
    users = Participation(9, 9)
    transport = AddedShares(users, 1 << bits, HelpersLayout.of(9, dimension, bits, 1))
    words = transport.elements(transport.keystream(seed, 1, number, context))
    digest = hashlib.sha256(packed(words, bits)).hexdigest()
    return {"first": words[:3], "last": words[-3:], "packed": digest}


def _sealed(public: bytes, info: bytes, content: bytes, ephemeral: bytes) -> bytes:
    """Return the envelope with an ephemeral private X25519 key."""
    suite = pyhpke.CipherSuite.new(
        pyhpke.KEMId.DHKEM_X25519_HKDF_SHA256, pyhpke.KDFId.HKDF_SHA256, pyhpke.AEADId.AES128_GCM
    )
    pair = pyhpke.KEMKeyPair(
        suite.kem.deserialize_private_key(ephemeral),
        suite.kem.deserialize_public_key(PrivateKey(ephemeral, "x25519").public_bytes),
    )
    key = suite.kem.deserialize_public_key(public)
    enc, context = suite.create_sender_context(key, info, eks=pair)
    return bytes(enc + context.seal(content))


def _sent(where: Window, secret: bytes, report: ClientReport, **more: Any) -> dict[str, Any]:
    """Return a report's id, and its requests with a client's secret; between them what is more."""
    requests: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        requests.append(request)
        return httpx.Response(201, stream=httpx.ByteStream(b""))

    with httpx.Client(transport=httpx.MockTransport(answer)) as http:
        for party in range(where.task.parties):
            send_part(http, where, secret, report, party)
    names = ("Authorization", "Content-Digest", "Content-Type")
    return {
        "secret": tokens.to_text(secret),
        "id": report.id.hex(),
        **more,
        "requests": [
            {
                "url": str(one.url),
                "headers": {name: one.headers[name] for name in names},
                "body": one.content.hex(),
            }
            for one in requests
        ],
    }


OPERATIONS: dict[str, Callable[..., Any]] = {
    "secure sum": _secure_sum,
    "secure sum of 0..n-1": _secure_sum_of_indices,
    "private sum": _private_sum,
    "private sum of 0..n-1 over n": _private_sum_of_indices,
    "secure vector sum": _secure_vector_sum,
    "view of blocks": _view_of_blocks,
    "private vector sum": _private_vector_sum,
    "masked vector": _masked_vector,
    "masked sum": _masked_sum,
    "private masked sum": _private_masked_sum,
    "discrete laplace": lambda s: noise.discrete_laplace(s, 20, DeterministicRandom(5)),
    "skellam": lambda variance: noise.skellam(variance, 20, DeterministicRandom(8)),
    "polya": lambda r, s: noise.polya(r, s, 20, DeterministicRandom(6)),
    "polya population": _polya_population,
    "hash of a secure sum": lambda **a: ikos.SecureSum(**a).parameter_hash,
    "hash of a private sum": lambda **a: ikos.PrivateSum(**a).parameter_hash,
    "hash of a secure vector sum": lambda **a: ikos.SecureVectorSum(**a).parameter_hash,
    "hash of a private vector sum": lambda **a: (
        ikos.PrivateVectorSum(a["n"], ikos.Box(a["box"]), 1, 1e-6).parameter_hash
    ),
    "message count": lambda **a: _count(ikos.message_count(**a)),
    "security level": ikos.security_level,
    "remaining level": lambda **a: _count(counts.remaining(**a)),
    "private message count": lambda **a: _count(ikos.private_message_count(**a)),
    "remaining epsilon": _private_remaining,
    "blocks": lambda **a: _blocks(ikos.SecureVectorSum(**a, layout="blocks")),
    "private blocks": lambda n, dimension, **a: _blocks(
        ikos.PrivateVectorSum(n, ikos.Ball(dimension), 1, 1e-8, layout="blocks", **a)
    ),
    "vector layouts": lambda **a: _layouts(counts.vector_layouts(**a)),
    "private vector layouts": lambda **a: _layouts(counts.private_vector_layouts(**a)),
    "response delta": accounting.response_delta,
    "response gamma": accounting.response_gamma,
    "binary response gamma": accounting.binary_response_gamma,
    "amplified local epsilon": accounting.amplified_local_epsilon,
    "optimal local epsilon": accounting.optimal_local_epsilon,
    "paper digits": lambda **a: accounting.paper_digits(**a).gammas,
    "optimized digits": lambda **a: accounting.optimized_digits(**a).gammas,
    "protocol": _protocol,
    "vector protocol": _vector_protocol,
    "task": _task,
    "wire task": _wire_task,
    "wire steps": _wire_steps,
    "wire categories": _wire_categories,
    "wire noise": _wire_noise,
    "wire report": _wire_report,
    "wire seeds": _wire_seeds,
    "wire openings": _wire_openings,
    "wire keystream": _wire_keystream,
    "wire opened": _wire_opened,
}


def compute(operation: str, arguments: dict[str, Any]) -> Any:
    """Return what an operation gives for arguments of JSON, as JSON."""
    try:
        found = plain(OPERATIONS[operation](**given(arguments)))
    except ValueError:
        return "refused"
    return json.loads(json.dumps(found))


# For which inputs


def _settings() -> list[dict[str, Any]]:
    ways = itertools.product(("parallel", "single"), (True, False))
    return [{"shuffler": shuffler, "clear_share": clear} for shuffler, clear in ways]


def _secure_sums() -> Entries:
    for q, how in itertools.product((2, 1000, 2**32, 2**61 - 1, 2**64, 2**80 + 1), _settings()):
        x = [value % q for value in (5, 0, q - 1, 12345)]
        yield "secure sum", {"x": x, "q": q, "messages": 4, **how}
    for n, q in ((1000, 2**61 - 1), (300_000, 2**32), (300_000, 2**64)):
        yield "secure sum of 0..n-1", {"n": n, "q": q}


def _private_sums() -> Entries:
    x = [0.0, 0.25, 0.3, 1.0]
    for epsilon, how in itertools.product((Fraction(1, 10), 1, 5), _settings()):
        yield "private sum", {"x": x, "epsilon": epsilon, "delta": 0.01, "messages": 4, **how}
    more = {"lower": -2, "upper": 5, "integers": True, "min_honest": 3}
    yield "private sum", {"x": [-2, 5, 0, 1], "epsilon": 1, "delta": 0.01, "messages": 3, **more}
    for n in (1000, 300_000):
        yield "private sum of 0..n-1 over n", {"n": n}


def _vector_sums() -> Entries:
    x = [[1, 2], [3, 4], [0, 7]]
    for layout, how in itertools.product(LAYOUTS, _settings()):
        yield "secure vector sum", {"x": x, "q": 11, "layout": layout, **how}
    five = [[1, 2, 3, 4, 5], [6, 7, 8, 9, 10], [0, 1, 0, 1, 0]]
    for how in _settings():
        yield "view of blocks", {"x": five, "q": 11, "layout": 2, **how}
    data = {
        "box": [[0.5, 0.75, 0, 1], [0.0, 0.25, 0.1, 1], [1.0, 1.0, 1.0, 0.3]],
        "ball": [[0.5, 0.75, 0, 0], [0.0, -0.25, 0.1, 0.5], [1.0, 0.0, 0.0, 0]],
        "sparse": [[1, 0, 0, -1, 0, 0, 0, 0], [0] * 8, [0, 1, 1, 0, 0, 0, 0, 0]],
    }
    for domain, layout in itertools.product(data, LAYOUTS):
        yield "private vector sum", {"x": data[domain], "domain": domain, "layout": layout}
    for upper, how in itertools.product((200, 2**58), _settings()):
        yield "masked vector", {"x": [0, upper, 7], "d": 5000, "upper": upper, **how}
    yield "masked sum", {"x": [[0, 200], [7, 8], [200, 1]], "d": 5000, "upper": 200}
    for releases in (1, 3):
        yield "private masked sum", {"n": 5, "d": 3000, "releases": releases}


def _noise() -> Entries:
    for s in (Fraction(1, 1000), Fraction(1, 3), 1, 0.1, 7):
        yield "discrete laplace", {"s": s}
        for r in (Fraction(1, 1000), Fraction(1, 2), 3):
            yield "polya", {"r": r, "s": s}
        for n in (3, 10_000):
            yield "polya population", {"n": n, "s": s}
    for variance in (Fraction(1, 3), 25, 10**8):
        yield "skellam", {"variance": variance}


def _hashes() -> Entries:
    for how in _settings():
        for n, q in ((10, 7), (10**6, 2**64), (1000, 2**100)):
            yield "hash of a secure sum", {"n": n, "q": q, "sigma": 40, **how}
        for epsilon, delta in ((1, 1e-6), (Fraction(1, 3), 1e-9)):
            more = {"lower": -1, "upper": 2, "min_honest": 900, **how}
            yield ("hash of a private sum", {"n": 1000, "epsilon": epsilon, "delta": delta, **more})
    for d in (1, 16):
        yield "hash of a secure vector sum", {"n": 1000, "dimension": d, "q": 2**32}
        yield "hash of a private vector sum", {"n": 1000, "box": d}


ANALYSES = ("best", "balle2020", "ghazi2020", "ishai2006")


def _secure_counts() -> Entries:
    grid = itertools.product(
        (1, 2, 3, 19, 60, 2000, 10**4, 10**6, 10**9), (2, 2**16, 2**61 - 1, 2**64, 2**1000),
        (1, 40, 80, 128), ANALYSES, _settings(),
    )  # fmt: skip
    for n, q, sigma, analysis, how in grid:
        yield "message count", {"n": n, "q": q, "sigma": sigma, "analysis": analysis, **how}
    for n, m, how in itertools.product((2, 5, 100, 10**6), (1, 2, 5, 14), _settings()):
        yield "security level", {"n": n, "q": 2**32, "m": m, **how}
    for honest, corrupt in itertools.product((400, 990), (0, 2)):
        trust = {"honest": honest, "corrupt_shufflers": corrupt}
        yield "remaining level", {"n": 1000, "q": 2**32, "total": 20, **trust}


def _private_counts() -> Entries:
    grid = itertools.product(
        (2, 30, 1500, 10**4, 10**6, 10**9), (Fraction(1, 10), 1, 4), (1e-4, 1e-9, 1e-20),
        (1, 1000), ("second_moment", *ANALYSES[1:]), _settings(),
    )  # fmt: skip
    grid = itertools.chain(grid, itertools.product(
        (30, 1500, 10**4, 10**6), (Fraction(1, 10), 1), (1e-4, 1e-9), (1000,), ("best",),
        _settings(),
    ))  # fmt: skip
    for n, epsilon, delta, p, analysis, how in grid:
        q = 1 << (4 * n * p).bit_length()
        budget = {"epsilon": epsilon, "delta": delta, "precision": p, "analysis": analysis}
        yield "private message count", {"n": n, "q": q, **budget, **how}
    base = {"n": 10**4, "q": 2**30, "epsilon": 1, "delta": 1e-8, "precision": 100}
    for least, corrupt, reserve in itertools.product((5000, 9000), (0, 3), (0.001, 0.1)):
        trust = {"min_honest": least, "corrupt_shufflers": corrupt, "reserve": reserve}
        yield "private message count", {**base, **trust}
    for honest in (3000, 9000, 10_000):
        yield "remaining epsilon", {"honest": honest}


def _vector_counts() -> Entries:
    for how in _settings():
        yield "blocks", {"n": 500, "q": 2**23, "dimension": 1000, **how}
        yield "private blocks", {"n": 2000, "dimension": 50, **how}
    for n, d, how in itertools.product((100, 10**4, 10**6), (1, 16, 1024), _settings()):
        yield "vector layouts", {"n": n, "q": 2**32, "sigma": 80, "dimension": d, **how}
        budget = {"epsilon": 1, "delta": 1e-8, "precision": 50}
        yield "private vector layouts", {"n": n, "q": 2**40, **budget, "dimension": d, **how}


def _accountants() -> Entries:
    for n, k, gamma in itertools.product((2, 100, 10**5), (2, 10, 1000), (0.1, 0.9)):
        for accountant, epsilon in itertools.product(accounting.ACCOUNTANTS, (0.2, 1)):
            asked = {"epsilon": epsilon, "n": n, "k": k, "gamma": gamma, "accountant": accountant}
            yield "response delta", asked
    for n, epsilon, delta in itertools.product((100, 10**4, 10**6), (0.2, 1), (1e-5, 1e-9)):
        asked = {"epsilon": epsilon, "delta": delta, "n": n}
        yield "response gamma", {**asked, "k": 10}
        yield "binary response gamma", asked
        yield "amplified local epsilon", asked
        yield "optimal local epsilon", {"epsilon": epsilon, "delta": delta, "copies": n}
        if n == 10**4:
            yield "paper digits", asked
            yield "optimized digits", asked


def _protocols() -> Entries:
    numbers = [one.key for one in PROTOCOLS if Bounds in one.domains]
    for key in numbers:
        yield "protocol", {"name": key}
    others = [one.key for one in PROTOCOLS if one.key not in numbers]
    for key, domain in itertools.product(others, DOMAINS):
        yield "vector protocol", {"name": key, "domain": domain}


def _tasks() -> Entries:
    yield "task", {"users": 1000, "honest": 900}
    yield "task", {"users": 10**6, "honest": 800_000}


def _wires() -> Entries:
    for name in WIRE:
        yield "wire task", {"name": name}
    values = {
        "number": [-0.5, 0.1, 33, 100.0],
        "integers": [-3, 0, 4],
        "box": [[0.1, 10], [0.3, 7.7]],
        "ball": [[0] * 12, [0.1, -0.05, *[0.07, -0.01] * 5], [*[0] * 11, -0.3]],
        "categories": ["grün", [0, 0, 1]],
        "questions": [[0, 1, 1, 0, 0]],
    }
    for name, given in values.items():
        for value in given:
            yield "wire steps", {"name": name, "value": value}
    for rate, n in ((Fraction(1, 1000), 3), (Fraction(10**30 + 1, 3 * 10**31), 2), (3, 1)):
        yield "wire noise", {"rate": rate, "n": n}
    for message in (1, 60, 1 + 53 * 51, 53 * 52):
        yield "wire categories", {"name": "frequencies", "message": message}
    for name in WIRE:
        last = {"name": name, "window": _wire(name).windows - 1}
        if not WIRE[name].keys() & {"kem", "transport"}:
            yield "wire report", last
        elif "helpers" in WIRE[name]:
            yield "wire seeds", last
        elif WIRE[name].get("transport") == "verified":
            yield "wire openings", last
    for dimension, bits in ((5, 1), (5, 8), (9, 9), (7, 33), (5, 64), (262_147, 18), (131_073, 40)):
        yield "wire keystream", {"dimension": dimension, "bits": bits}
    window = _wire("hybrid").at(0)  # ML-KEM draws its own randomness: each envelope is a new one
    for place in ({"shuffler": 1, "block": 0}, {"shuffler": 3, "block": 1}):
        envelope = hpke.seal([place["shuffler"]], window, *place.values()).hex()
        yield "wire opened", {"name": "hybrid", "window": 0, **place, "envelope": envelope}


FILES: dict[str, Callable[[], Entries]] = {
    "secure-sums": _secure_sums,
    "private-sums": _private_sums,
    "vector-sums": _vector_sums,
    "noise": _noise,
    "parameter-hashes": _hashes,
    "secure-counts": _secure_counts,
    "private-counts": _private_counts,
    "vector-counts": _vector_counts,
    "accountants": _accountants,
    "protocols": _protocols,
    "tasks": _tasks,
    "wire": _wires,
}


def write(names: list[str]) -> None:
    """Write files, all of them unless some are named."""
    FOLDER.mkdir(exist_ok=True)
    for name in names or FILES:
        entries = [(operation, plain(asked)) for operation, asked in FILES[name]()]
        lines = [json.dumps([*one, compute(*one)]) for one in entries]
        text = "[\n" + ",\n".join(lines) + "\n]\n"
        (FOLDER / f"{name}.json").write_text(text, encoding="utf-8")
        print(name, len(lines))


if __name__ == "__main__":
    write(sys.argv[1:])
