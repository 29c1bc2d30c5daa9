"""BBGN20's Table 1, measured: how errors and messages grow, next to the orders that are stated.

    python -m analysis.bbgn20_table_1 --output DIR

writes into DIR ``bbgn20-table-1.md`` and ``.csv``. Each order is a power of one variable, with the
others fixed; its exponent is measured as the slope of the calculator's values on logarithmic axes,
between the first two and the last two points, and over all. Nothing is drawn: the same bytes each
time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from analysis.output import Files, csv_text, main, markdown, program, steps
from ikos import PrivateSum, message_count
from ikos.accounting import optimized_digits, paper_digits
from ikos.baselines import SparseNoise, UnaryEncoding

N, EPSILON, DELTA = 10**6, 1.0, 1e-10
"""What is fixed while something else varies."""

_USERS = tuple(10.0**e for e in range(3, 10))
_FEW_USERS = tuple(10.0**e for e in range(3, 6))
_EPSILONS = (0.1, 0.2, 0.4, 0.8)
_LOGS = tuple(math.log(10) * e for e in (6, 12, 24, 48))
"""ln(1/delta)."""


def _blanket(n: float, epsilon: float = EPSILON, delta: float = DELTA) -> float:
    users = round(n)
    return optimized_digits(users, epsilon, delta, 1, composition="basic").mse(users)


def _digits(m: int) -> Callable[[float], float]:
    def error(n: float) -> float:
        users = round(n)
        return optimized_digits(users, EPSILON, DELTA, m).mse(users)

    return error


def _published(m: int) -> Callable[[float], float]:
    def error(n: float) -> float:
        users = round(n)
        return paper_digits(users, EPSILON, DELTA, m, accountant="bennett").mse(users)

    return error


def _digits_epsilon(epsilon: float) -> float:
    return optimized_digits(
        10**9, epsilon, DELTA, 2, composition="basic", accountant="bennett"
    ).mse(10**9)


def _sparse(log_delta: float) -> float:
    return SparseNoise(N, EPSILON, math.exp(-log_delta), accountant="published").mse


def _ikos(epsilon: float) -> float:
    return PrivateSum(N, epsilon, DELTA, analysis="balle2020").mse


def _count(analysis: str) -> Callable[[float, float], float]:
    """Return messages for n users and delta = e^-x, with q = 2 n^1.5 and sigma by Lemma 5.2."""
    single = analysis != "balle2020"

    def count(n: float, log_delta: float) -> float:
        q = math.ceil(2 * n**1.5)
        sigma = (math.log1p(math.exp(EPSILON)) + log_delta) / math.log(2)
        found = message_count(
            round(n),
            q,
            sigma,
            analysis=analysis,
            shuffler="single" if single else "parallel",
            clear_share=not single,
        )
        return found.total

    return count


_IMPROVED, _GHAZI, _ORIGINAL = _count("balle2020"), _count("ghazi2020"), _count("ishai2006")
_LOG_DELTA = -math.log(DELTA)


@dataclass(frozen=True)
class Order:
    """One statement of Table 1 in one variable."""

    reference: str
    what: str
    of: str
    stated: str
    exponent: float | None
    points: tuple[float, ...]
    value: Callable[[float], float]
    note: str = ""


def _unary(n: float) -> UnaryEncoding:
    return UnaryEncoding(round(n), EPSILON, DELTA, messages=math.ceil(EPSILON * math.sqrt(n)))


ORDERS = (
    Order(
        "CSUZZ19 [9]", "messages", "n", "ε √n", 1 / 2, _USERS,
        lambda n: math.ceil(EPSILON * math.sqrt(n)),
    ),
    Order(
        "CSUZZ19 [9]", "mse", "n", "log²(n/δ)/ε²", 0.0, _FEW_USERS, lambda n: _unary(n).mse,
        "δ fixed: the exact law has no log n",
    ),
    Order("BBGN19 [2]", "mse", "n", "n^(1/3)/ε^(4/3)", 1 / 3, _USERS, _blanket),
    Order(
        "BBGN19 [2]", "mse", "ε", "n^(1/3)/ε^(4/3)", -4 / 3, _EPSILONS,
        lambda epsilon: _blanket(1e9, epsilon),
    ),
    Order(
        "GPV19 [13]", "mse", "ln 1/δ", "log(1/δ)/ε²", 1.0, _LOGS, _sparse,
        "noise of a few random users (SCRCS11)",
    ),
    Order(
        "GMPV20 [15]", "messages", "ln 1/δ", "1 + log_n(1/δ)", None, _LOGS,
        lambda x: _GHAZI(N, x), "a large constant beside it",
    ),
    Order(
        "GMPV20 [15]", "messages", "n", "1 + log_n(1/δ)", None, _USERS,
        lambda n: _GHAZI(n, _LOG_DELTA),
    ),
    Order(
        "Section 4, m = 2", "mse", "n", "n^(1/9)", 1 / 9, _USERS, _published(2),
        "Theorem 4.2's precisions, made private",
    ),
    Order("Section 4, m = 2, optimized", "mse", "n", "n^(1/9)", 1 / 9, _USERS, _digits(2)),
    Order(
        "Section 4, m = 3", "mse", "n", "n^(1/27)", 1 / 27, _USERS, _published(3),
        "rounding n^(1/27) and n^(1/9) to integers hides the slope",
    ),
    Order("Section 4, m = 3, optimized", "mse", "n", "n^(1/27)", 1 / 27, _USERS, _digits(3)),
    Order(
        "Section 4, m = 2, optimized", "mse", "ε", "1/ε² at the published precisions", None,
        _EPSILONS, _digits_epsilon, "the best precisions give ε^(-16/9)",
    ),
    Order(
        "Section 5", "messages", "ln 1/δ", "log(n/δ)", None, _LOGS, lambda x: _ORIGINAL(N, x),
        "1 at large ln 1/δ",
    ),
    Order(
        "Section 6", "mse", "ε", "1/ε²", -2.0, _EPSILONS, _ikos,
    ),
    Order(
        "Section 6", "mse", "n", "1/ε²", 0.0, _USERS,
        lambda n: PrivateSum(round(n), EPSILON, DELTA, analysis="balle2020").mse,
    ),
    Order(
        "Section 6", "messages", "ln 1/δ", "1 + log_n(1/δ)", None, _LOGS,
        lambda x: _IMPROVED(N, x), "1 at large ln 1/δ",
    ),
    Order(
        "Section 6", "messages", "n", "1 + log_n(1/δ)", None, _USERS,
        lambda n: _IMPROVED(n, _LOG_DELTA), "falls to a constant",
    ),
)  # fmt: skip


def slopes(points: Sequence[float], values: Sequence[float]) -> tuple[float, float, float]:
    """Return the slopes on logarithmic axes of the first two points, the last two, and the ends."""

    def slope(i: int, j: int) -> float:
        return math.log(values[j] / values[i]) / math.log(points[j] / points[i])

    return slope(0, 1), slope(-2, -1), slope(0, -1)


_NOTE = f"""\
The orders that BBGN20's Table 1 states, and the exponents with which the calculators' values grow:
the slope on logarithmic axes over the first step, over the last, and over all. Fixed where not
varied: n = 10^6, ε = {EPSILON:g}, δ = {DELTA:g}; for ε of Section 4 and BBGN19 n = 10^9.
"""


def _shown(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 or value == round(value) else f"{value:.3g}"


def _tables(quick: bool) -> Iterator[tuple[str, str]]:
    lines, rows = [], []
    with steps("measuring orders", len(ORDERS)) as step:
        for order in ORDERS:
            points = order.points[:2] if quick else order.points
            values = [order.value(point) for point in points]
            found = slopes(points, values)
            lines.append(
                [
                    order.reference,
                    f"{order.what} in {order.of}",
                    order.stated,
                    "–" if order.exponent is None else f"{order.exponent:.3f}",
                    *(f"{slope:.3f}" for slope in found),
                    f"{_shown(values[0])} … {_shown(values[-1])}",
                    order.note,
                ]
            )
            name = (order.reference, order.what, order.of, order.stated, order.exponent)
            rows += [(*name, point, value) for point, value in zip(points, values, strict=True)]
            step()
    header = ["row", "what", "stated", "exponent", "first", "last", "all", "values", "note"]
    yield "bbgn20-table-1.md", f"{_NOTE}\n{markdown(header, lines)}"
    columns = ["row", "what", "of", "stated", "exponent", "point", "value"]
    yield "bbgn20-table-1.csv", csv_text(columns, rows)


@program()
def command(files: Files, quick: bool) -> None:
    """Measure the orders of BBGN20's Table 1.

    Takes half a minute.
    """
    for name, text in _tables(quick):
        files.text(name, text)


if __name__ == "__main__":
    main(command)
