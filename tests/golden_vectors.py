"""Golden vectors: what the library computes from given inputs, to be the same in every version.

``python tests/golden_vectors.py`` writes them to ``tests/golden``; `test_golden_vectors` compares.
A commit that changes a file there says why. Each line is [operation, arguments, value]. Other
implementations may use them: randomness is that of ``ikos.testing.DeterministicRandom(seed)``, a
string of digits, perhaps with a slash, is an integer beyond 2^53 or a fraction.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import fields
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

import ikos
from ikos import accounting, counts, noise, vectors
from ikos.baselines import PROTOCOLS
from ikos.bounds import Bounds
from ikos.deployment.task import Task
from ikos.testing import DeterministicRandom

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


LAYOUTS = {"separate": "separate sums", "group": "one group"}
DOMAINS = {
    "box": vectors.Box(4),
    "ball": vectors.Ball(4),
    "sparse": vectors.SparseTernary(8, 2),
}


def _vectors(protocol: Any, share: Callable[..., Any], x: Any) -> list[Any]:
    messages = share(x, DeterministicRandom(1))
    result = protocol.run(x, DeterministicRandom(1))
    return [digest(messages), np.ravel(messages)[:8], getattr(result, "estimate", result)]


def _secure_vector_sum(x: Any, q: int, layout: str, **how: Any) -> list[Any]:
    data = np.array(x)
    n, d = data.shape
    protocol = vectors.SecureVectorSum(n, d, q, messages=3, layout=LAYOUTS[layout], **how)
    return _vectors(protocol, protocol.share, data)


def _private_vector_sum(x: Any, domain: str, layout: str) -> list[Any]:
    protocol = vectors.PrivateVectorSum(
        len(x), DOMAINS[domain], 1, 0.01, messages=3, layout=LAYOUTS[layout]
    )
    return _vectors(protocol, protocol.randomize, np.array(x))


def _masked_vector(x: Any, d: int, upper: int, **how: Any) -> list[Any]:
    """Return what one of three users sends for a vector, in which entries go round."""
    protocol = vectors.SecureVectorSum(3, d, upper=upper, layout="masked", sigma=1, **how)
    vector = np.resize(np.array(x), d)
    report = protocol.client(vector, b"golden", DeterministicRandom(9))
    parts = b"".join((report.id, report.masked, *(part.seal for part in report.parts)))
    clear = [] if report.clear is None else [report.clear[np.newaxis]]
    shares = np.concatenate([*(part.shares for part in report.parts), *clear])
    return [protocol.parameter_hash, hashlib.sha256(parts).hexdigest(), digest(shares)]


def _discrete_laplace(s: Any) -> Any:
    return noise.discrete_laplace(s, 20, DeterministicRandom(5))


def _polya(r: Any, s: Any) -> Any:
    return noise.polya(r, s, 20, DeterministicRandom(6))


def _skellam(variance: Any) -> Any:
    return noise.skellam(variance, 20, DeterministicRandom(8))


def _polya_population(n: int, s: Any) -> list[Any]:
    drawn = noise.polya_population(n, s, rng=DeterministicRandom(7))
    return [digest(drawn), drawn.sum()]


def _count(found: Any) -> list[Any]:
    return [found.shuffled, found.clear, found.sigma, found.delta, found.noise_epsilon]


def _layouts(found: Any) -> list[Any]:
    return [[one.sums, *_count(one.count), one.bits_per_user] for one in found]


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


def _task(users: int, honest: int) -> list[str]:
    made = Task.new(
        users, 1, 1e-8, lower=0, upper=100, min_honest=honest, corrupt_clients=10,
        shufflers=[f"https://s{j}.example:8443" for j in range(8)],
        analyzer="https://analyzer.example:8443", public_key=bytes(range(32)),
        opens=datetime(2030, 1, 1, tzinfo=UTC), closes=datetime(2030, 1, 2, tzinfo=UTC),
    )  # fmt: skip
    held = {field.name: getattr(made, field.name) for field in fields(made) if field.init}
    task = Task(**held | {"nonce": bytes(16)})
    return [task.to_json(), task.name]


OPERATIONS: dict[str, Callable[..., Any]] = {
    "secure sum": _secure_sum,
    "secure sum of 0..n-1": _secure_sum_of_indices,
    "private sum": _private_sum,
    "private sum of 0..n-1 over n": _private_sum_of_indices,
    "secure vector sum": _secure_vector_sum,
    "private vector sum": _private_vector_sum,
    "masked vector": _masked_vector,
    "discrete laplace": _discrete_laplace,
    "skellam": _skellam,
    "polya": _polya,
    "polya population": _polya_population,
    "hash of a secure sum": lambda **a: ikos.SecureSum(**a).parameter_hash,
    "hash of a private sum": lambda **a: ikos.PrivateSum(**a).parameter_hash,
    "hash of a secure vector sum": lambda **a: vectors.SecureVectorSum(**a).parameter_hash,
    "hash of a private vector sum": lambda **a: (
        vectors.PrivateVectorSum(a["n"], vectors.Box(a["box"]), 1, 1e-6).parameter_hash
    ),
    "message count": lambda **a: _count(ikos.message_count(**a)),
    "security level": ikos.security_level,
    "remaining level": lambda **a: _count(counts.remaining(**a)),
    "private message count": lambda **a: _count(ikos.private_message_count(**a)),
    "remaining epsilon": _private_remaining,
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
    data = {
        "box": [[0.5, 0.75, 0, 1], [0.0, 0.25, 0.1, 1], [1.0, 1.0, 1.0, 0.3]],
        "ball": [[0.5, 0.75, 0, 0], [0.0, -0.25, 0.1, 0.5], [1.0, 0.0, 0.0, 0]],
        "sparse": [[1, 0, 0, -1, 0, 0, 0, 0], [0] * 8, [0, 1, 1, 0, 0, 0, 0, 0]],
    }
    for domain, layout in itertools.product(data, LAYOUTS):
        yield "private vector sum", {"x": data[domain], "domain": domain, "layout": layout}
    for upper, how in itertools.product((200, 2**58), _settings()):
        yield "masked vector", {"x": [0, upper, 7], "d": 5000, "upper": upper, **how}


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
            yield (
                "hash of a private sum",
                {"n": 1000, "epsilon": epsilon, "delta": delta, **more},
            )
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
