"""The private sum by direct comparison of neighbours: counts, deltas, and what is necessary.

    python -m analysis.direct_comparison --output DIR

writes into DIR ``direct-comparison.md`` and ``.csv`` (what is proved at several reserves),
``direct-comparison-settings.md`` (messages that are necessary and sufficient, by epsilon and users)
and ``direct-comparison-grid.md`` (how often messages are saved, over a grid of settings). The
precision is the square root of n, rounded up, and q the least power of two that is at least 2 n
times it.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from fractions import Fraction
from statistics import NormalDist

from analysis.higher_moments import GRID, counted, size
from analysis.output import Files, csv_text, main, markdown, plain_number, program, steps
from ikos import private_message_count
from ikos.counts import necessary_private_messages, private_delta
from ikos.results.sums import at_least

COUNTS = (
    (10**3, 1e-6, 1), (10**4, 1e-6, 1), (10**4, 1e-8, 1), (10**5, 1e-10, 1), (10**6, 1e-12, 1),
    (10**8, 1e-16, 1), (10**4, 1e-6, 2), (10**4, 1e-6, 4),
)  # fmt: skip
"""Users, delta and epsilon."""

RESERVES = [Fraction(1, part) for part in (5000, 1000, 400, 200, 100, 50, 25)]

EPSILONS = tuple(Fraction(part, 10) for part in (1, 5, 10, 20, 40))
USERS = [round(10.0**k) for k in range(3, 10)]
DELTA = 1e-6


def percent(part: float | Fraction) -> str:
    """Return a fraction as a percentage."""
    return f"{100 * float(part):.3g} %"


def _counts() -> Iterator[tuple[list[str], list[float]]]:
    """Yield cells for people and for programs: totals, and deltas of the fewest by reserve."""
    for n, delta, epsilon in COUNTS:
        precision, q = size(n)
        asked = (n, q, epsilon, delta, precision)
        fewest = private_message_count(*asked, reserve="fewest")
        assert fewest.noise_epsilon is not None
        spent = 1 - fewest.noise_epsilon / epsilon
        deltas = [
            private_delta(
                n, q, fewest.shuffled, epsilon, precision, reserve=reserve,
                analysis="direct_comparison",
            )
            for reserve in RESERVES
        ]  # fmt: skip
        totals = [
            counted(asked).total, private_message_count(*asked).total, fewest.total,
            1 + necessary_private_messages(*asked),
        ]  # fmt: skip
        *counts, necessary = map(str, totals)
        shown = [plain_number(n), f"{delta:g}", str(epsilon), *counts, percent(spent), necessary]
        yield [*shown, *(at_least(one, 2) for one in deltas)], [
            n, delta, epsilon, *totals, spent, *deltas
        ]  # fmt: skip


def counts_text(lines: Sequence[list[str]]) -> str:
    """Return the table of counts, and that of deltas: those of a count are in one row."""
    header = ["n", "δ", "ε", "before", "now", "fewest", "spent", "necessary"]
    counts = markdown(header, [line[: len(header)] for line in lines])
    rows = {(line[0], line[2], line[5]): line[len(header) :] for line in lines}
    deltas = [f"δ at {percent(reserve)}" for reserve in RESERVES]
    table = markdown(["n", "ε", "messages", *deltas], [[*key, *row] for key, row in rows.items()])
    return f"{_NOTE}\n{counts}\n{_DELTAS_NOTE}\n{table}"


def _settings() -> Iterator[tuple[Fraction, int, int, int, int, float]]:
    """Yield epsilon, users, and what is necessary, enough at 1 %, and at a larger reserve."""
    for epsilon, n in itertools.product(EPSILONS, USERS):
        precision, q = size(n)
        asked = (n, q, epsilon, DELTA, precision)
        fewest = private_message_count(*asked, reserve="fewest")
        assert fewest.noise_epsilon is not None
        spent = 1 - fewest.noise_epsilon / float(epsilon)
        usual = private_message_count(*asked).total
        yield epsilon, n, 1 + necessary_private_messages(*asked), usual, fewest.total, spent


def settings_text() -> str:
    """Return the table of necessary and sufficient messages, and its gaps by name."""
    table: dict[Fraction, list[str]] = {epsilon: [] for epsilon in EPSILONS}
    gaps = []
    for epsilon, n, necessary, usual, fewest, spent in _settings():
        totals = [necessary, usual] + [fewest] * (fewest < usual)
        table[epsilon].append(" / ".join(map(str, totals)))
        if necessary < usual:
            reached = f"{fewest} at {percent(spent)}" if fewest < usual else ""
            estimate = 1 + next(
                m for m in itertools.count(1) if estimated_delta(n, m, epsilon) <= DELTA
            )
            counts = map(str, (necessary, usual, reached, estimate))
            gaps.append([f"{float(epsilon):g}", plain_number(n), *counts])
    rows = [[f"{float(epsilon):g}", *cells] for epsilon, cells in table.items()]
    lines = markdown(["ε", *map(plain_number, USERS)], rows)
    header = ["ε", "n", "necessary", "sufficient", "larger reserve", "estimate"]
    return f"{_SETTINGS_NOTE}\n{lines}\n{_GAPS_NOTE}\n{markdown(header, gaps)}"


def estimated_delta(n: int, shuffled: int, epsilon: Fraction) -> float:
    """Return the estimate of delta at a reserve of 1 %, which is not proved."""
    _, q = size(n)
    c = math.expm1(float(epsilon) / 100)
    sigma = math.sqrt((1 + (1 + c) ** 2) * q / float(n) ** shuffled)
    normal = NormalDist(0, sigma)
    return (sigma**2 * normal.pdf(c) - c * normal.cdf(-c)) / 2


_NOTE = """\
Messages per user, for parallel shufflers and with the clear share. *Before* is proved without this
theorem and *now* with it, both at a reserve of 1 %. *Fewest* is for `reserve="fewest"`, of which
the percentage *spent* is used. *Necessary* is a proved lower bound for reserves of at most 1 %. The
precision is √n, rounded up, which is coarser than the default, and q the least power of two that is
at least 2n times that.
"""

_DELTAS_NOTE = """\
The δ that this theorem proves for the *fewest* messages of the table above, rounded up, by reserve;
all, a half or a quarter of it is spent:
"""

_GAPS_NOTE = """\
All gaps at 1 %, with the messages that a larger reserve takes, where that is fewer, and those that
the estimate of the section before takes at 1 %, which is not proved:
"""

_SETTINGS_NOTE = """\
Messages per user for δ = 10⁻⁶: a proved lower bound for reserves of at most 1 % / sufficient at 1 %
/ sufficient with `reserve="fewest"`, where that is fewer.
"""


def grid_text(users: list[int], step_of: str = "settings") -> str:
    """Return how many messages are saved over the grid."""
    saved: Counter[int] = Counter()
    settings = list(itertools.product(users, *GRID[1:]))
    with steps(step_of, len(settings)) as step:
        for n, epsilon, delta, precision, reserve in settings:
            q = 1 << (2 * n * precision - 1).bit_length()
            asked = (n, q, epsilon, delta, precision)
            now = private_message_count(*asked, reserve=reserve).total
            saved[counted(asked, reserve).total - now] += 1
            step()
    rows = [[str(k), f"{count:,}"] for k, count in sorted(saved.items())]
    return f"{len(settings):,} settings.\n\n" + markdown(["messages saved", "settings"], rows)


@program()
def command(files: Files, quick: bool) -> None:
    """Compute the tables of the private sum by direct comparison of neighbours.

    The grid takes about ten minutes; --quick takes a part of it.
    """
    lines, numbers = zip(*_counts(), strict=True)
    files.text("direct-comparison.md", counts_text(lines))
    columns = ["n", "delta", "epsilon", "before", "now", "fewest", "necessary", "spent"]
    names = [f"delta_at_{float(reserve):g}" for reserve in RESERVES]
    files.text("direct-comparison.csv", csv_text([*columns, *names], numbers))
    files.text("direct-comparison-settings.md", settings_text())
    files.text("direct-comparison-grid.md", grid_text(GRID[0][:: 28 if quick else 8]))


if __name__ == "__main__":
    main(command)
