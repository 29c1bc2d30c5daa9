"""What verified sums take: noise and influence, shares, and the time of each party.

    python -m analysis.verified_sums --output DIR

writes into DIR ``verified-noise.md`` and ``verified-shares.md``, which are computed, and
``verified-costs.md``: bytes, and processor time per user on this machine.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from time import process_time
from typing import Any

import numpy as np

import ikos
from analysis.output import Files, main, markdown, plain_number, program
from ikos.numeric.gaussian import gaussian_mu
from ikos.primitives.randomness import SecureRandom
from ikos.results.sums import at_least
from ikos.transports import Recipe, Verified, VerifiedShuffled
from ikos.transports.shares import Shuffled
from ikos.transports.verified import USERS_PER_BLOCK
from ikos.verified.statements import SCALAR_BYTES

SETTINGS = (
    *((10**2, 1.0, 1e-4), (10**3, 1.0, 1e-6), (10**4, 1.0, 1e-8), (10**4, 0.1, 1e-8)),
    *((10**5, 1.0, 1e-8), (10**6, 1.0, 1e-8)),
)
"""Users, epsilon and delta."""

ENVELOPE = 1136  # bytes that ML-KEM-768 with X25519 adds to a message

MEASURED = ((10**4, 0, 10_000), (10**5, 0, 10_000), (10**4, 10, 2000), (10**4, 50, 1000),
            (10**5, 200, 300))  # fmt: skip
"""Users, classes (0 is a number), and the reports that are made and verified together."""


def power(delta: float) -> str:
    """Return a power of ten, in few characters."""
    return f"{delta:.0e}".replace("e-0", "e-")


def noise_table() -> str:
    """Return the noise, the influence of a user and the bytes of numbers, with one relay."""
    rows = []
    for n, epsilon, delta in SETTINGS:
        sums = [
            ikos.PrivateSum(n, epsilon, delta, transport=Verified(noise=noise))
            for noise in ("uniform", "laplace")
        ]
        uniform, laplace = sums
        largest = round(uniform.influence * uniform.precision)
        gaussian = 1 / gaussian_mu(Fraction(epsilon), Fraction(delta))
        rows.append((
            f"{plain_number(n)}, {epsilon:g}, {power(delta)}", str(uniform.precision),
            f"{largest}, {largest.bit_length()}", at_least(uniform.influence, 3),
            at_least(math.sqrt(uniform.mse), 3), f"{gaussian:.2f}",
            str(uniform.cost().bits_per_user // 8),
            f"{at_least(laplace.influence, 3)}, {at_least(math.sqrt(laplace.mse), 3)}",
        ))  # fmt: skip
    head = ("users, ε, δ", "t", "N, bits", "influence", "RMSE", "Gaussian", "bytes",
            "cut Laplace: influence, RMSE")  # fmt: skip
    return markdown(head, rows)


def shares_table() -> str:
    """Return the shares of a blinding factor with shufflers."""

    def shuffled(n: int, delta: float, **options: Any) -> int:
        recipe = VerifiedShuffled(Shuffled(clear_share=False, **options))
        return ikos.PrivateSum(n, 1, delta, transport=recipe).messages.shuffled

    rows = []
    for n, epsilon, delta in SETTINGS:
        if epsilon == 1:
            private = shuffled(n, delta)
            secure = ikos.SecureSum(n, upper=1, sigma=80, transport=VerifiedShuffled())
            rows.append((
                f"{plain_number(n)}, {power(delta)}", str(private),
                f"{private * (SCALAR_BYTES + ENVELOPE) / 1000:.1f}",
                str(shuffled(n, delta, shuffler="single")), str(secure.messages.shuffled),
            ))  # fmt: skip
    head = ("users, δ", "private, ε = 1", "the same, kB in envelopes", "private, one shuffler",
            "secure, 80 bits")  # fmt: skip
    return markdown(head, rows)


def timed(act: Callable[[], Any]) -> tuple[Any, float]:
    """Return a result and the processor time that it took."""
    start = process_time()
    return act(), process_time() - start


def measured(n: int, classes: int, reports: int) -> tuple[str, ...]:
    """Return the bytes and milliseconds of a client, the analyzer and a relay."""
    rng, context = SecureRandom(), b"measured"
    recipe: Recipe = Verified()
    protocol: Any = ikos.PrivateSum(n, 1, 1e-8, transport=recipe)
    values: Any = np.linspace(0, 1, reports)
    if classes:
        protocol = ikos.PrivateVectorSum(n, ikos.Categories([classes]), 1, 1e-8, transport=recipe)
        values = np.eye(classes, dtype=np.int64)[np.arange(reports) % classes]
    transport, reader = protocol.transport, protocol.reader
    blocks = [values[at : at + USERS_PER_BLOCK] for at in range(0, reports, USERS_PER_BLOCK)]
    made, client = timed(lambda: [transport.report(reader, x, rng, context) for x in blocks])
    ids = [id for block in made for id in block.ids]
    parts = [
        tuple(map(np.concatenate, zip(*part, strict=True)))
        for part in zip(*(block.parts for block in made), strict=True)
    ]
    receipts = transport.receipts(parts[0])
    of = {"ids": ids, "context": context, "receipts": receipts}
    times = [client]
    for party, part in enumerate(parts):
        refused, spent = timed(partial(transport.refused, party, part, **of))
        assert not refused
        times.append(spent)
    sizes = (sum(rows.shape[1] for rows in part) for part in parts)
    what = f"{classes} classes" if classes else "a number"
    shown = (f"{time / reports * 1000:.2g} ms" for time in times)
    return (f"{what}, {plain_number(n)} users", *(f"{size:,}" for size in sizes), *shown)


@program(printed=True)
def command(files: Files, quick: bool) -> None:
    """Compute and measure what verified sums take. Takes a minute."""
    files.report("verified-noise", noise_table())
    files.report("verified-shares", shares_table())
    rows = [measured(n, d, min(reports, 100) if quick else reports) for n, d, reports in MEASURED]
    head = ("", "bytes to the analyzer", "to the relay", "client", "analyzer", "relay")
    files.report("verified-costs", markdown(head, rows))


if __name__ == "__main__":
    main(command)
