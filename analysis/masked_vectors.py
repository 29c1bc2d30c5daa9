"""Masked vectors: lattice attacks that break toys, what they need in earnest, and bytes per client.

    python -m analysis.masked_vectors --output DIR

writes into DIR ``masked-attacks.md``, the least moduli at which LLL finds small keys;
``masked-blocks.md``, the block sizes that the same attack needs at the table's moduli; and
``masked-bytes.md``, ``.svg`` and ``.png``, what a client sends in every layout. It takes
about a minute, and most of it the attacks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from flint import fmpz_mat
from numpy.typing import NDArray

from analysis.output import Files, main, markdown, program
from analysis.plots.panels import Line, Panel, panels_figure
from ikos import SecureVectorSum
from ikos.counts.masks import ASSUMED_VARIANCE, DEVIATION, LARGEST_MODULUS
from ikos.counts.types import MAX_BITS
from ikos.counts.vectors import ENVELOPE_BYTES
from ikos.primitives.samplers import discrete_gaussian
from ikos.testing import DeterministicRandom
from ikos.transports import Masks, Shares

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Integers = NDArray[np.int64]

# The primal attack


def rotations(a: Integers) -> Integers:
    """Return the matrix whose row i is X^i a modulo X^N + 1, so that s @ it is the product a s."""
    n = a.size
    shifted = np.subtract.outer(np.arange(n), np.arange(n)).T
    return np.asarray(np.where(shifted < 0, -1, 1) * a[shifted % n])


def lattice(a: Integers, modulus: int) -> Integers:
    """Return a basis of all (a s, -s), the first half modulo Q, by rows."""
    n = a.size
    basis = np.zeros((2 * n, 2 * n), dtype=np.int64)
    basis[:n, :n] = modulus * np.eye(n, dtype=np.int64)
    basis[n:, :n], basis[n:, n:] = rotations(a), -np.eye(n, dtype=np.int64)
    return basis


def remainder(basis: Integers, target: Integers) -> Integers | None:
    """Return the target less a lattice point, short, as LLL finds it by Kannan's embedding."""
    embedded = np.zeros((target.size + 1, target.size + 1), dtype=np.int64)
    embedded[:-1, :-1], embedded[-1, :-1], embedded[-1, -1] = basis, target, 1
    reduced = fmpz_mat(embedded.tolist()).lll()
    first = np.array([int(reduced[0, column]) for column in range(target.size + 1)])
    return first[-1] * first[:-1] if abs(first[-1]) == 1 else None


def drawn(variance: float, degree: int, rng: DeterministicRandom) -> Integers:
    """Return errors and a key, as one vector."""
    return discrete_gaussian(variance, 2 * degree, rng).astype(np.int64)


def sample(e_s: Integers, a: Integers, modulus: int) -> Integers:
    """Return (a s + e, 0)."""
    e, s = np.split(e_s, 2)
    return np.concatenate([(s @ rotations(a) + e) % modulus, np.zeros_like(s)])


def alone(variance: float, degree: int, bits: int, seed: int) -> bool:
    """Return whether the attack finds a key of some variance from one sample."""
    rng = DeterministicRandom(seed)
    a = rng.uniform(1 << bits, degree).astype(np.int64)
    e_s = drawn(variance, degree, rng)
    found = remainder(lattice(a, 1 << bits), sample(e_s, a, 1 << bits))
    return found is not None and bool((found == e_s).all())


def with_sum(degree: int, bits: int, seed: int) -> bool:
    """Return whether it finds a client's key given the sums of two clients' keys and errors.

    The key less half of the sum, and the errors less half of theirs, are shorter; all is doubled.
    """
    rng = DeterministicRandom(seed)
    a = rng.uniform(1 << bits, degree).astype(np.int64)
    e_s, others = drawn(DEVIATION**2, degree, rng), drawn(DEVIATION**2, degree, rng)
    target = 2 * sample(e_s, a, 1 << bits) - (e_s + others)
    found = remainder(2 * lattice(a, 1 << bits), target)
    return found is not None and bool((found == e_s - others).all())


ATTACKS: Mapping[str, tuple[float, Callable[[int, int, int], bool]]] = {
    "3.2, as assumed": (math.sqrt(ASSUMED_VARIANCE), partial(alone, float(ASSUMED_VARIANCE))),
    "6, the sum of two known": (DEVIATION / math.sqrt(2), with_sum),
    "6": (DEVIATION, partial(alone, DEVIATION**2)),
}
"""Keys and errors by name: their deviation as it counts, and the attack."""

DEGREES, TRIALS = (16, 32, 64), 5

LLL = 1.0219
"""The root Hermite factor that LLL is known to reach."""


def needed_factor(degree: int, bits: int, deviation: float) -> float:
    """Return the root Hermite factor at which the short vector stands out.

    Of 2 N dimensions and volume Q^N: the shortest vector of a random lattice is longer by
    sqrt(Q / (2 pi e)) / deviation.
    """
    gap = math.sqrt(2.0**bits / (2 * math.pi * math.e)) / deviation
    return math.exp(math.log(gap) / (2 * degree))


def predicted_bits(degree: int, deviation: float, factor: float = LLL) -> float:
    """Return log Q from which a root Hermite factor is enough."""
    gap = 2 * degree * math.log2(factor)
    return 2 * (gap + math.log2(deviation * math.sqrt(2 * math.pi * math.e)))


def broken(attack: Callable[[int, int, int], bool], degree: int, low: int, trials: int) -> int:
    """Return the least bits of the modulus, from ``low`` on, at which all keys are found."""
    bits = low
    while not all(attack(degree, bits, seed) for seed in range(trials)):
        bits += 1
    return bits


def attacks(degrees: Sequence[int], trials: int) -> str:
    """Return the moduli at which LLL breaks toys, and what was to be expected."""
    rows = []
    for degree in degrees:
        for name, (deviation, attack) in ATTACKS.items():
            expected = predicted_bits(degree, deviation)
            bits = broken(attack, degree, int(expected) - 3, trials)
            factor = needed_factor(degree, bits, deviation)
            rows.append((str(degree), name, str(bits), f"{expected:.1f}", f"{factor:.4f}"))
    return markdown(("N", "deviation", "K broken", "expected", "root Hermite factor"), rows)


# In earnest


def block_factor(block: int) -> float:
    """Return the root Hermite factor of BKZ, for blocks from about 50 on."""
    ball = (math.pi * block) ** (1 / block) * block / (2 * math.pi * math.e)
    return math.exp(math.log(ball) / (2 * (block - 1)))


def block_size(degree: int, bits: float, deviation: float) -> int:
    """Return the blocks of BKZ that the attack needs, with the best number of equations.

    By the usual estimate (Alkim, Ducas, Poppelmann, Schwabe 2016): the projection of the short
    vector, deviation sqrt(b), is at most delta^(2b - d) Q^(m/d), d = N + m + 1.
    """
    m = np.arange(1, 2 * degree + 1)
    d = degree + m + 1
    for block in range(50, 2 * degree):
        grown = (2 * block - d) * math.log(block_factor(block)) + bits * math.log(2) * m / d
        if (grown >= math.log(deviation * math.sqrt(block))).any():
            return block
    raise ValueError(f"bits must be large enough for lattices to help, got {bits}")


def blocks() -> str:
    """Return what the attack needs at the largest moduli that are allowed."""
    deviation, rows = math.sqrt(ASSUMED_VARIANCE), []
    for degree, bits in LARGEST_MODULUS.items():
        size, factor = block_size(degree, bits, deviation), needed_factor(degree, bits, deviation)
        lll = math.ceil(predicted_bits(degree, deviation))
        core = f"2^{0.292 * size:.0f}", f"2^{0.265 * size:.0f}"
        rows.append((f"{degree:,}", str(bits), f"{factor:.4f}", str(size), *core, f"{lll:,}"))
    header = ("N", "K", "root Hermite factor", "block size", "sieve", "quantum", "K for LLL")
    return markdown(header, rows)


# Bytes

USERS, UPPER = 10**4, 209
DIMENSIONS = tuple(10**k for k in range(3, 7))
MOST_SHARES = 10**8
"""Coordinates of all shares of a report that is made."""


Bytes = tuple[float, int | None]
"""What was computed, and what the messages have that a client made, if they fit in memory."""


def sent(dimension: int) -> dict[str, Bytes]:
    """Return the bytes that a client sends in each layout, in envelopes of 48 bytes."""
    found: dict[str, Bytes] = {}
    bits = (USERS * UPPER).bit_length()
    for layout in ("group", "separate", "blocks", "masked"):
        if layout != "group" or dimension * bits <= MAX_BITS:
            protocol = SecureVectorSum(USERS, dimension, upper=UPPER, layout=layout)
            computed = protocol.layout.bytes_per_user(ENVELOPE_BYTES)
            shares = protocol.layout.count.total * dimension
            fits = layout == "masked" or shares <= MOST_SHARES
            found[layout] = computed, report_bytes(protocol) if fits else None
    return found | {"the bare sum": (dimension * bits / 8, None)}


def report_bytes(protocol: SecureVectorSum) -> int:
    """Return the bytes of what a client makes, each message of whole bytes in an envelope."""
    transport = protocol.transport
    x, rng = np.ones(protocol.dimension, dtype=np.int64), DeterministicRandom(0)
    parts = protocol.report(x, rng, context=b"a report").parts
    if isinstance(transport, Shares):
        return row_bytes(transport) * sum(map(len, parts))
    assert isinstance(transport, Masks)
    octets = sum(rows.size for part in parts for rows in part if rows.dtype == np.uint8)
    shares = sum(rows.dtype != np.uint8 for part in parts for rows in part)
    return octets + ENVELOPE_BYTES + shares * row_bytes(transport.keys)


def row_bytes(shares: Shares) -> int:
    """Return the bytes of one share of each block, in envelopes."""
    sizes = (block.stop - block.start for block in shares.blocks)
    return sum(ENVELOPE_BYTES + math.ceil(size * shares.group.bits / 8) for size in sizes)


def kilobytes(found: Mapping[int, Mapping[str, Bytes]]) -> str:
    """Return the table of bytes, in kB: computed, and of the messages that were made."""
    names = list(next(iter(found.values())))

    def cell(both: Bytes) -> str:
        return " / ".join(f"{math.ceil(one / 1000):,}" for one in both if one is not None)

    rows = [
        (f"{d:,}", *(cell(one[name]) if name in one else "" for name in names))
        for d, one in found.items()
    ]
    return markdown(("d", *names), rows)


def bytes_figure(found: Mapping[int, Mapping[str, Bytes]]) -> Figure:
    """Return the figure of bytes."""
    lines = []
    for name in next(iter(found.values())):
        points = [(float(d), *one[name]) for d, one in found.items() if name in one]
        x, y = tuple(d for d, *_ in points), tuple(computed for _, computed, _ in points)
        made = tuple((d, float(size)) for d, _, size in points if size is not None)
        kind = "dashed" if "bare" in name else ""
        key = "masked-vector-sum" if name == "masked" else ""
        lines.append(Line(name, x, y, kind, measured=made, protocol=key))
    title = (
        f"{USERS:,} users with values up to {UPPER}, 80 bits of security, envelopes of "
        "48 bytes; lines are computed, points are of messages that a client made"
    )
    panel = Panel("", tuple(lines), "coordinates")
    return panels_figure([("bytes", [panel])], "What a client sends", title, beside=1.8)


@program(printed=True)
def command(files: Files, *, quick: bool) -> None:
    """Attack toys of masked vectors, and count what clients send."""
    degrees, trials = ((16,), 2) if quick else (DEGREES, TRIALS)
    files.report("masked-attacks", attacks(degrees, trials))
    files.report("masked-blocks", blocks())
    found = {d: sent(d) for d in DIMENSIONS}
    files.report("masked-bytes", kilobytes(found))
    files.figure("masked-bytes", bytes_figure(found))


if __name__ == "__main__":
    main(command)
