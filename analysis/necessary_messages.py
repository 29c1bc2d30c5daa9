"""Secure sums from both sides: messages proved necessary, and proved to be enough.

    python -m analysis.necessary_messages --output DIR

writes into DIR ``necessary-messages.md`` and ``.csv`` (parallel shufflers and a clear share),
``necessary-settings.md`` (every setting) and ``necessary-private.md`` (the private sum's lower
bound of delta).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from analysis.output import Files, csv_text, main, markdown, plain_number, program, stepped
from ikos import message_count
from ikos.counts import necessary, necessary_messages, necessary_private, security_interval
from ikos.counts.floor import counting_floor
from ikos.counts.share_graph import ShareGraph

SETTINGS = (("parallel", True), ("parallel", False), ("single", True), ("single", False))
USERS = (10, 10**2, 10**3, 10**4, 10**6, 10**9)
SIGMAS = (40, 80, 128)
MODULI_BITS = (32, 64, 128)
PRIVATE = ((10**2, 10, 11), (10**3, 32, 16), (10**4, 100, 21), (10**6, 1000, 31),
           (10**8, 10**4, 41))  # fmt: skip
"""Users, precision and the logarithm of q."""


@dataclass(frozen=True)
class Row:
    """One setting; counts are of shuffled messages, ``low`` and ``high`` levels at the larger."""

    n: int
    sigma: int
    bits: int
    shuffler: str
    clear_share: bool
    floor: int
    necessary: int
    sufficient: int
    low: float
    high: float

    @property
    def kappa(self) -> float:
        """E D_1^4 / (E D_1^2)^2, the smaller the closer the bound is to the truth."""
        graph = ShareGraph(self.sufficient, self.shuffler, self.clear_share)
        found = necessary.best(self.n, 1 << self.bits, graph)
        assert found is not None
        return float(found.fourth / found.second**2)

    @property
    def interval(self) -> str:
        """The level at the sufficient count, the first number rounded down, the other up."""
        return f"{math.floor(100 * self.low) / 100:.2f} to {math.ceil(100 * self.high) / 100:.2f}"


def row(n: int, sigma: int, bits: int, shuffler: str, clear_share: bool) -> Row:
    """Return what is proved of one setting."""
    q, how = 1 << bits, {"shuffler": shuffler, "clear_share": clear_share}
    enough = message_count(n, q, sigma, **how).shuffled  # type: ignore[arg-type]
    low, high = security_interval(n, q, enough, **how)  # type: ignore[arg-type]
    floor = counting_floor(n, q, sigma, **how)  # type: ignore[arg-type]
    needed = necessary_messages(n, q, sigma, **how)  # type: ignore[arg-type]
    return Row(n, sigma, bits, shuffler, clear_share, floor, needed, enough, low, high)


_NOTE = """\
Shuffled messages of each user for a secure sum with parallel shufflers and a clear share. *floor*:
necessary by counting inputs alone. *level*: the security of the sufficient count, in bits. κ₄: the
fourth moment that the lower bound rests on, 3 for a normal variable.
"""

_SETTINGS_NOTE = """\
Shuffled messages, necessary and enough, and the level of the larger count in bits. For a single
shuffler without a clear share more messages are not known to hide more, and so the first number is
often that of the counting floor; *not {m}* says that the count m, too, is proved not to be enough.
"""

_PRIVATE_NOTE = """\
What delta of a private sum with ε = 1 is at least, for m shuffled messages of parallel shufflers
and a clear share: rounded down, a dash where nothing is proved. Reserve is the largest share of ε
that is not spent on noise. *necessary* is for δ = 10⁻⁸ and a reserve of 1 %.
"""


def _settings(rows: list[Row]) -> Iterator[list[str]]:
    """Yield the lines of the table of all settings, from four rows each."""
    for start in range(0, len(rows), len(SETTINGS)):
        group = rows[start : start + len(SETTINGS)]
        first = group[0]
        cells = [f"{one.necessary}/{one.sufficient} ({one.interval})" for one in group]
        last, below = group[-1], group[-1].sufficient - 1
        graph = ShareGraph(below, last.shuffler, last.clear_share) if below else None
        if graph and necessary.level(last.n, 1 << last.bits, graph) < last.sigma:
            cells[-1] += f", not {below}"
        yield [plain_number(first.n), str(first.sigma), f"2^{first.bits}", *cells]


def _private() -> Iterator[list[str]]:
    """Yield the lines of the table of the private sum."""
    for n, precision, bits in PRIVATE:
        cells = []
        for m, reserve in ((2, Fraction(1, 100)), (3, Fraction(1, 100)), (3, Fraction(0))):
            found = necessary_private.delta(n, 1 << bits, m, precision, Fraction(1), 1 - reserve)
            cells.append(f"{float(found):.6g}" if found else "–")
        needed = necessary_private.necessary_private_messages(n, 1 << bits, 1, 1e-8, precision)
        yield [plain_number(n), f"{precision:,}", f"2^{bits}", *cells, str(needed)]


@program()
def command(files: Files, quick: bool) -> None:
    """Compute the tables of messages that are proved necessary."""
    users = USERS[1:3] if quick else USERS
    cells = [(n, sigma, bits) for n in users for sigma in SIGMAS for bits in MODULI_BITS]
    found = (row(*cell, *setting) for cell in cells for setting in SETTINGS)
    rows = stepped("counting messages", len(cells) * len(SETTINGS), found)
    header = ["n", "σ", "q", "floor", "necessary", "enough", "level", "κ₄"]
    table = markdown(
        header,
        (
            [plain_number(one.n), str(one.sigma), f"2^{one.bits}", str(one.floor),
             str(one.necessary), str(one.sufficient), one.interval, f"{one.kappa:.3g}"]
            for one in rows
            if (one.shuffler, one.clear_share) == SETTINGS[0]
        ),
    )  # fmt: skip
    files.text("necessary-messages.md", f"{_NOTE}\n{table}")
    names = ["parallel, clear", "parallel", "single, clear", "single"]
    table = markdown(["n", "σ", "q", *names], _settings(rows))
    files.text("necessary-settings.md", f"{_SETTINGS_NOTE}\n{table}")
    columns = ["n", "sigma", "bits", "shuffler", "clear_share", "floor", "necessary", "sufficient"]
    lines = ([getattr(one, name) for name in (*columns, "low", "high")] for one in rows)
    text = csv_text([*columns, "level_low", "level_high"], lines)
    files.text("necessary-messages.csv", text)
    header = ["n", "p", "q", "m = 2", "m = 3", "m = 3, no reserve", "necessary"]
    files.text("necessary-private.md", f"{_PRIVATE_NOTE}\n{markdown(header, _private())}")


if __name__ == "__main__":
    main(command)
