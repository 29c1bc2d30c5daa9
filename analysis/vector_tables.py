"""The tables of the documentation's page on vectors that calculators fill: messages and errors.

    python -m analysis.vector_tables --output DIR

writes into DIR ``vector-layouts.md``, messages of secure sums in the layouts; ``vector-blocks.md``,
what blocks of several lengths cost; ``vector-noise.md``
and ``vector-messages.md``, noise and messages of private ones; ``kashin-sampling.md`` and
``kashin-sums.md``, what even coefficients cost; ``vector-choice.md``, what every protocol sends and
how far off it is; and ``vector-users.md``, how two of them compare as users become more. Nothing is
run: all numbers are what the protocols compute about themselves.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from analysis.output import Files, main, markdown, plain_number, program, steps
from ikos import Ball, Box, Categories, PrivateVectorSum, SecureVectorSum, SparseTernary
from ikos.baselines import (
    PCKVGRR,
    PCKVUE,
    CentralGaussian,
    Collision,
    KashinCorrelatedNoise,
    KashinPrivateSum,
    PrivKV,
    SampledCoordinates,
    SumProtocol,
)
from ikos.counts import vector_layouts
from ikos.counts.vectors import ENVELOPE_BYTES
from ikos.results.sums import at_least

if TYPE_CHECKING:
    from ikos.data.domains import Domain


USERS = 100_000
DIMENSIONS = (1, 16, 256, 1024)
BUDGET = 1, 1e-6
"""Epsilon and delta of the comparisons; noise and layouts are at ``STRICT``."""

STRICT = 1, 1e-8
SPARSE = SparseTernary(1024, 16)

Maker = Callable[[int], SumProtocol]


def rounded(value: float) -> str:
    """Return a bound to three digits, rounded up, without an exponent."""
    return "unlimited" if math.isinf(value) else f"{float(at_least(value, 3)):,.10g}"


def whole_bytes(bits: float) -> str:
    """Return bits as bytes, rounded up."""
    return f"{math.ceil(bits / 8):,}"


def deviation(protocol: SumProtocol, dimension: int) -> float:
    """Return the root of the mean, over coordinates, of the bound on the mean squared error."""
    return math.sqrt(protocol.mse / dimension)


# Secure and private sums


def layouts() -> str:
    """Return messages of the secure sum of n vectors at 80 bits, in each layout."""
    rows = []
    for d in DIMENSIONS:
        found = vector_layouts(USERS, 2**32, 80, d, overhead=ENVELOPE_BYTES)
        group, separate = found[0], found[min(d, 2) - 1]
        blocks = min(found, key=lambda one: one.bytes_per_user(ENVELOPE_BYTES))
        cells = [
            (f"{one.messages_per_user:,}", f"{one.bits_per_user:,}")
            for one in (group, separate, blocks)
        ]
        rows.append((f"{d:,}", *cells[0], *cells[1], str(blocks.length), *cells[2]))
    sent = "messages", "bits"
    header = ("d", *(f"{name}, {what}" for name in ("one group", "separate sums") for what in sent),
              "best b", *sent)  # fmt: skip
    return markdown(header, rows)


SIZES = ((10**4, 20, 2048), (500, 23, 1000))
"""Users, bits and coordinates of the sums whose blocks are compared."""


def blocks() -> str:
    """Return what blocks of several lengths cost, by themselves and in envelopes."""
    best = {n: SecureVectorSum(n, d, 2**bits, layout="blocks").layout for n, bits, d in SIZES}
    lengths = {1, 4, 8, 16, 32, 128, *(one.length for one in best.values())}
    rows = []
    for length in sorted(lengths):
        cells = []
        for n, bits, d in SIZES:
            one = SecureVectorSum(n, d, 2**bits, layout=length).layout
            mark = " (best)" if one == best[n] else ""
            sent = (f"{math.ceil(one.bytes_per_user(o) / 1000):,}" for o in (0, ENVELOPE_BYTES))
            cells += [f"{one.messages_per_user:,}", " / ".join(sent) + mark]
        rows.append((str(length), *cells))
    header = [
        f"{plain_number(n)} users, {what}" for n, _, _ in SIZES for what in ("messages", "kB")
    ]
    return markdown(("b", *header), rows)


def _domains() -> Iterator[tuple[str, Domain]]:
    for d in DIMENSIONS:
        yield "`Box`", Box(d)
    for d in DIMENSIONS:
        yield "`Ball`", Ball(d)
    yield "one category of d", Categories([1024])


def _pure(protocol: PrivateVectorSum) -> float:
    """Return the deviation of noise whose rate is epsilon over the l1 sensitivity."""
    encoding = protocol.encoding
    step = encoding.bounds.width / encoding.precision
    return math.sqrt(2) * step * float(encoding.shift(protocol.dimension).l1 / protocol.epsilon)


def noise() -> str:
    """Return the deviation of each coordinate's noise, next to pure and central noise."""
    rows = []
    for name, domain in _domains():
        d, protocol = domain.dimension, PrivateVectorSum(USERS, domain, *STRICT)
        central = deviation(CentralGaussian(USERS, domain, *STRICT), d)
        errors = [rounded(value) for value in (_pure(protocol), deviation(protocol, d), central)]
        rows.append((name, f"{d:,}", *errors[:2], protocol.noise.kind, errors[2]))
    return markdown(("domain", "d", "pure noise", "here", "by", "central Gaussian"), rows)


def messages() -> str:
    """Return messages of private sums of vectors, in either layout."""
    rows = []
    for domain in (*map(Box, DIMENSIONS[1:]), *map(Ball, DIMENSIONS[1:])):
        kind, d = type(domain).__name__, domain.dimension
        separate = PrivateVectorSum(USERS, domain, *STRICT)
        group = PrivateVectorSum(USERS, domain, *STRICT, layout="group", modulus=separate.modulus)
        cells = [
            f"{value:,}"
            for one in (separate.layout, group.layout)
            for value in (one.messages_per_user, one.bits_per_user)
        ]
        rows.append((f"`{kind}`", f"{d:,}", f"2^{separate.modulus.bit_length() - 1}", *cells))
    header = ("domain", "d", "q", "separate sums, messages", "bits", "one group, messages", "bits")
    return markdown(header, rows)


# Even coefficients


def kashin_sampling() -> str:
    """Return what reporting some coefficients saves, and costs."""
    rows = []
    for n in (10**4, 10**5, 10**6):
        for sampling in (1, "auto"):
            protocol = KashinCorrelatedNoise(n, Ball(1024), *BUDGET, sampling=sampling)
            part = float(protocol.sampling)
            rows.append(
                (
                    plain_number(n),
                    "all" if part == 1 else f"{100 * part:.0f} %",
                    f"{math.ceil(protocol.mse / 1024):,}",
                    f"{protocol.cost().messages_per_user:,.0f}",
                    f"{part * protocol.coefficients:,.0f}",
                )
            )
    header = ("users", "reported", "error ε²/d", "messages of each user", "of them values, at most")
    return markdown(header, rows)


KASHIN: Mapping[str, Maker] = {
    "`KashinCorrelatedNoise`": lambda n: KashinCorrelatedNoise(n, Ball(1024), *BUDGET),
    '`KashinCorrelatedNoise`, `sampling="auto"`': lambda n: KashinCorrelatedNoise(
        n, Ball(1024), *BUDGET, sampling="auto"
    ),
    "`KashinPrivateSum`": lambda n: KashinPrivateSum(n, Ball(1024), *BUDGET),
    "`PrivateVectorSum`": lambda n: PrivateVectorSum(n, Ball(1024), *BUDGET),
}


def kashin_sums() -> str:
    """Return what sums of vectors of bounded norm cost."""
    rows = []
    for name, make in KASHIN.items():
        protocol = make(USERS)
        cost = protocol.cost()
        sent = whole_bytes(cost.bits_per_user), f"{cost.messages_per_user:,.0f}"
        rows.append((name, f"{math.ceil(protocol.mse / 1024):,}", sent[1], sent[0]))
    return markdown(("protocol", "error ε²/d", "messages of each user", "bytes"), rows)


# All of them


BALLS_BOX = Box(1024, -1, 1)
"""The smallest box around the ball."""

PRECISIONS = {10**5: 2, 10**6: 4, 10**7: 7}
"""The best ones where all users report everything; to find one takes a minute."""


def _all(n: int, domain: Box) -> SampledCoordinates:
    """Return the protocol in which all users report every coordinate."""
    return SampledCoordinates(n, domain, *BUDGET, messages=1024, precision=PRECISIONS[n])


CHOICE: Mapping[str, Mapping[str, Maker]] = {
    "`Ball(1024)`": {
        "`CentralGaussian`, trusted curator": lambda n: CentralGaussian(n, Ball(1024), *BUDGET),
        "`PrivateVectorSum`": KASHIN["`PrivateVectorSum`"],
        "`KashinPrivateSum`": KASHIN["`KashinPrivateSum`"],
        "`KashinCorrelatedNoise`": KASHIN["`KashinCorrelatedNoise`"],
        'the same, `sampling="auto"`': KASHIN['`KashinCorrelatedNoise`, `sampling="auto"`'],
        "`SampledCoordinates`, all of them": lambda n: _all(n, BALLS_BOX),
        "`SampledCoordinates`, one": lambda n: SampledCoordinates(n, BALLS_BOX, *BUDGET),
    },
    "`Box(1024)`": {
        "`CentralGaussian`, trusted curator": lambda n: CentralGaussian(n, Box(1024), *BUDGET),
        "`SampledCoordinates`, all of them": lambda n: _all(n, Box(1024)),
        "`PrivateVectorSum`": lambda n: PrivateVectorSum(n, Box(1024), *BUDGET),
        "`SampledCoordinates`, one": lambda n: SampledCoordinates(n, Box(1024), *BUDGET),
    },
    "`SparseTernary(1024, 16)`": {
        "`PrivateVectorSum`": lambda n: PrivateVectorSum(n, SPARSE, *BUDGET),
        "`PCKVGRR` (exactly 16 entries)": lambda n: PCKVGRR(n, SPARSE, *BUDGET),
        "`Collision`": lambda n: Collision(n, SPARSE, *BUDGET),
        "`PCKVUE`": lambda n: PCKVUE(n, SPARSE, *BUDGET),
        "`PrivKV`": lambda n: PrivKV(n, SPARSE, *BUDGET),
        "`Collision` without a shuffler": lambda n: Collision(n, SPARSE, BUDGET[0]),
    },
}
"""Protocols by domain and by what the table calls them; each makes one for some number of users."""


def choice() -> str:
    """Return what every protocol sends, its error, and what one dishonest user can do."""
    rows = []
    for domain, makers in CHOICE.items():
        for name, make in makers.items():
            protocol = make(USERS)
            cost = protocol.cost()
            rows.append(
                (
                    domain,
                    name,
                    f"{cost.messages_per_user:,.0f}",
                    whole_bytes(cost.bits_per_user),
                    rounded(deviation(protocol, 1024)),
                    rounded(protocol.influence),
                )
            )
    return markdown(("domain", "protocol", "messages", "bytes", "error", "one user"), rows)


def users() -> str:
    """Return errors in a box against the number of users."""
    rows = []
    for n in PRECISIONS:
        errors = (_all(n, Box(1024)), PrivateVectorSum(n, Box(1024), *BUDGET))
        rows.append((plain_number(n), *(rounded(deviation(one, 1024)) for one in errors)))
    header = ("users", "`SampledCoordinates`, all of them", "`PrivateVectorSum`")
    return markdown(header, rows)


TABLES: Mapping[str, Callable[[], str]] = {
    "vector-layouts": layouts,
    "vector-blocks": blocks,
    "vector-noise": noise,
    "vector-messages": messages,
    "kashin-sampling": kashin_sampling,
    "kashin-sums": kashin_sums,
    "vector-choice": choice,
    "vector-users": users,
}
"""Every table by the name of its file."""


@program()
def command(files: Files) -> None:
    """Compute the tables of messages and errors of vector protocols.

    Takes about a minute.
    """
    with steps("computing", len(TABLES)) as step:
        for name, table in TABLES.items():
            text = table()
            step()
            files.text(f"{name}.md", text)


if __name__ == "__main__":
    main(command)
