"""What each transport takes for a number, a histogram and a long vector: the table of a choice.

    python -m analysis.transports --output DIR

writes into DIR ``transports.md``. Nothing is run: all numbers are what the protocols compute about
themselves.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from analysis.output import Files, main, markdown, plain_number, program, steps
from ikos import Ball, Categories
from ikos.baselines import ComparisonRow, comparison
from ikos.counts.vectors import ENVELOPE_BYTES
from ikos.data.domains import Bounds, Domain
from ikos.results.sums import at_least

TRANSPORTS = {
    "shares": ("private-sum", "private-vector-sum"),
    "masks": ("masked-vector-sum",),
    "helper, noise of users": ("helpers-sum", "helpers-vector-sum"),
    "helper, noise of parties": ("helpers-sum-parties", "helpers-vector-sum-parties"),
    "verified, a relay": ("verified-sum", "verified-vector-sum"),
    "verified, shufflers": ("verified-sum-shuffled", "verified-vector-sum-shuffled"),
    "frequencies": ("frequency-estimation",),
}


@dataclass(frozen=True)
class Sum:
    """A sum: of whom, with which guarantee."""

    words: str
    domain: Domain
    users: int
    epsilon: int
    delta: float

    def rows(self) -> dict[str, ComparisonRow]:
        """Return the protocols that are possible, by transport."""
        numbers = isinstance(self.domain, Bounds)
        keys = {
            name: key
            for name, all_keys in TRANSPORTS.items()
            for key in all_keys
            if ("vector" not in key and key != "frequency-estimation") == numbers
        }
        rows = comparison(
            self.users, self.epsilon, self.delta, domain=self.domain,
            overhead=ENVELOPE_BYTES, protocols=list(keys.values()),
        )  # fmt: skip
        possible = {row.key: row for row in rows if row.protocol is not None}
        return {name: possible[key] for name, key in keys.items() if key in possible}


SUMS = (
    Sum("a number in [0, 1]", Bounds(0, 1), 10**6, 1, 1e-12),
    Sum("a histogram of 1,000 classes", Categories([1000]), 10**6, 1, 1e-12),
    Sum("a vector of norm 1 and 10^5 coordinates", Ball(10**5), 1000, 8, 1e-6),
)


def table() -> str:
    """Return what each transport takes for each sum."""
    lines = []
    with steps("computing", len(SUMS)) as step:
        for asked in SUMS:
            what = f"{asked.words}, {plain_number(asked.users)} users"
            for name, row in asked.rows().items():
                assert row.protocol is not None
                cost = row.protocol.cost()
                octets = math.ceil(cost.bits_per_user / 8 + ENVELOPE_BYTES * cost.messages_per_user)
                error = at_least(math.sqrt(row.protocol.mse / asked.domain.dimension), 3)
                lines.append((what, name, f"{row.servers}", f"{octets:,}", error))
            step()
    return markdown(("sum", "transport", "servers", "bytes a client", "error"), lines)


@program(printed=True)
def command(files: Files) -> None:
    """Compute what each transport takes. Takes half a minute."""
    files.report("transports", table())


if __name__ == "__main__":
    main(command)
