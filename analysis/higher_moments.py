"""The private sum by higher moments: counts, deltas, and what each theorem before asked for.

    python -m analysis.higher_moments --output DIR

writes into DIR ``higher-moments.md`` and ``.csv`` (what is proved at three reserves),
``higher-moments-grid.md`` (how often a message or more is saved, over a grid of settings) and
``message-progress.md`` (messages by year of the theorem). Epsilon is 1 unless stated; precision is
the square root of n, rounded up, and q the least power of two that is at least 2 n times it.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from operator import attrgetter

from analysis.output import Files, csv_text, main, markdown, plain_number, program, steps
from ikos import MessageCount, message_count, private_message_count
from ikos.counts import (
    necessary_messages,
    necessary_private_messages,
    private_delta,
    private_proved,
)

COUNTS = (
    (100, 1e-4, 1), (10**3, 1e-6, 1), (10**3, 1e-12, 1), (10**4, 1e-6, 1), (10**4, 1e-8, 1),
    (10**4, 1e-12, 1), (10**5, 1e-9, 1), (10**5, 1e-10, 1), (200_000, 2.5e-11, 1),
    (10**6, 1e-12, 1), (10**7, 1e-14, 1), (10**8, 1e-16, 1), (10**4, 1e-8, Fraction(1, 10)),
    (10**6, 1e-12, Fraction(1, 10)), (10**6, 1e-12, 4),
)  # fmt: skip
"""Users, delta and epsilon."""

PRIVATE = ((10**3, 1e-6), (10**4, 1e-8), (10**5, 1e-9), (10**6, 1e-12), (10**8, 1e-16))
SECURE = ((10**3, 64, 80), (10**4, 64, 80), (10**6, 64, 80), (10**6, 128, 128))
"""Users, bits of the modulus, and the level."""

ANALYSES = ("second_moment", "higher_moments")

GRID = (
    [round(10 ** (k / 8)) for k in range(16, 73)],
    [Fraction(1, 10), Fraction(1, 2), 1, 2],
    [1e-4, 1e-6, 1e-8, 1e-10, 1e-12, 1e-16, 1e-20],
    [1, 10, 100, 1000],
    [Fraction(1, 100), Fraction(1, 10)],
)
"""Users, epsilon, delta, precision and reserve: 12,768 settings."""


def size(n: int) -> tuple[int, int]:
    """Return the precision and the modulus."""
    precision = math.isqrt(n - 1) + 1
    return precision, 1 << (2 * n * precision - 1).bit_length()


def counted(
    asked: tuple[int, int, float | Fraction, float, int], reserve: Fraction = Fraction(1, 100)
) -> MessageCount:
    """Return the fewer messages of the second moment and of higher moments."""
    counts = (private_message_count(*asked, analysis=name, reserve=reserve) for name in ANALYSES)
    return min(counts, key=attrgetter("total"))


def _counts() -> Iterator[tuple[list[str], list[float]]]:
    """Yield lines for people and for programs: totals, and deltas at three reserves."""
    for n, delta, epsilon in COUNTS:
        precision, q = size(n)
        asked = (n, q, epsilon, delta, precision)
        old = private_message_count(*asked, analysis="second_moment").total
        new = counted(asked)
        deltas = [
            private_delta(
                n, q, new.shuffled, epsilon, precision, reserve=Fraction(1, part),
                analysis="higher_moments",
            )
            for part in (100, 200, 400)
        ]  # fmt: skip
        fewer = min(
            private_proved(n, q, new.shuffled - 1, epsilon, delta, precision, analysis=name).delta
            or 1.0
            for name in ANALYSES
        )
        necessary = 1 + necessary_private_messages(*asked)
        shown = [
            plain_number(n), f"{delta:g}", f"{float(epsilon):g}",
            f"2^{q.bit_length() - 1}", str(old), str(new.total), str(necessary),
            *(f"{one:.3g}" for one in (*deltas, fewer)),
        ]  # fmt: skip
        yield shown, [n, delta, float(epsilon), q, old, new.total, necessary, *deltas, fewer]


def _progress() -> Iterator[list[str]]:
    """Yield totals by theorem; the published ones prove differential privacy by Lemma 5.2."""
    single = {"shuffler": "single", "clear_share": False}
    ways = [("ishai2006", single), ("ghazi2020", single), ("balle2020", {}), ("second_moment", {})]
    for n, bits, sigma in SECURE:
        totals = [
            message_count(n, 1 << bits, sigma, analysis=name, **how).total  # type: ignore[arg-type]
            for name, how in ways
        ]
        necessary = 1 + necessary_messages(n, 1 << bits, sigma)
        what = f"{sigma} bits, q = 2^{bits}"
        yield [plain_number(n), what, *(f"{one:,}" for one in totals), "", str(necessary)]
    for n, delta in PRIVATE:
        precision, q = size(n)
        totals = [
            private_message_count(n, q, 1, delta, precision, analysis=name, **how).total  # type: ignore[arg-type]
            for name, how in (*ways, ("higher_moments", {}))
        ]
        necessary = 1 + necessary_private_messages(n, q, 1, delta, precision)
        what = f"ε = 1, δ = {delta:g}"
        yield [plain_number(n), what, *(f"{one:,}" for one in totals), str(necessary)]


_NOTE = """\
Messages of each user in all, for parallel shufflers and a clear share: by the second moment, by
higher moments, and proved necessary. The next columns are the delta that higher moments prove for
their count at a reserve of 1, 1/2 and 1/4 %, and the last is what is proved for a message fewer.
"""

_PROGRESS_NOTE = """\
Messages of each user in all, as each theorem asks for them: IKOS06 and GMPV20 with the constants
that BBGN20 states and for a single shuffler, the others for parallel shufflers and a clear share.
A secure sum has no theorem by higher moments, as the second moment is already tight.
"""


def grid_text(users: list[int], step_of: str = "settings") -> str:
    """Return how many messages are saved over the grid; at most the second moment's everywhere."""
    saved: Counter[int] = Counter()
    settings = list(itertools.product(users, *GRID[1:]))
    with steps(step_of, len(settings)) as step:
        for n, epsilon, delta, precision, reserve in settings:
            q = 1 << (2 * n * precision - 1).bit_length()
            asked = (n, q, epsilon, delta, precision)
            old = private_message_count(*asked, analysis="second_moment", reserve=reserve)
            saved[old.total - counted(asked, reserve).total] += 1
            step()
    rows = [[str(k), f"{count:,}"] for k, count in sorted(saved.items())]
    return f"{len(settings):,} settings.\n\n" + markdown(["messages saved", "settings"], rows)


@program()
def command(files: Files, quick: bool) -> None:
    """Compute the tables of the private sum by higher moments.

    The grid takes about ten minutes; --quick takes a part of it.
    """
    lines, numbers = zip(*_counts(), strict=True)
    header = ["n", "δ", "ε", "q", "second moment", "higher moments", "necessary"]
    deltas = ["δ at 1 %", "1/2 %", "1/4 %", "one fewer"]
    files.text("higher-moments.md", f"{_NOTE}\n{markdown([*header, *deltas], lines)}")
    columns = ["n", "delta", "epsilon", "q", "second_moment", "higher_moments", "necessary"]
    reserves = ["delta_at_100", "delta_at_200", "delta_at_400", "delta_of_one_fewer"]
    files.text("higher-moments.csv", csv_text([*columns, *reserves], numbers))
    header = ["n", "for", "IKOS06", "GMPV20", "BBGN20", "second moment", "higher moments"]
    table = markdown([*header, "necessary"], _progress())
    files.text("message-progress.md", f"{_PROGRESS_NOTE}\n{table}")
    files.text("higher-moments-grid.md", grid_text(GRID[0][::28] if quick else GRID[0]))


if __name__ == "__main__":
    main(command)
