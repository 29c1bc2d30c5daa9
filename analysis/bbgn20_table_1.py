"""BBGN20's Table 1, measured: how errors and messages grow, next to the orders that are stated.

    python -m analysis.bbgn20_table_1 --output DIR

writes into DIR ``bbgn20-table-1.md`` and ``.csv``. Every statement of the table is measured in each
variable that it has, with the others fixed: the values over the stated order, which must stay
bounded, and the exponent, the slope of the values on logarithmic axes over the first and the last
step. Nothing is drawn: the same bytes each time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from analysis.output import Files, csv_text, main, markdown, plain_number, program, steps
from ikos import PrivateSum, message_count
from ikos.accounting import optimized_digits, paper_digits
from ikos.baselines import SparseNoise, UnaryEncoding
from ikos.primitives.randomized_response import response_variance

N, EPSILON, DELTA = 10**6, 1.0, 1e-10
"""What is fixed while something else varies."""

_LOG_DELTA = -math.log(DELTA)
_USERS = tuple(10.0**e for e in range(3, 10))
_FEW_USERS = tuple(10.0**e for e in range(3, 6))
_EPSILONS = (0.1, 0.2, 0.4, 0.8)
_LOGS = tuple(math.log(10) * e for e in (6, 12, 24, 48))
"""ln(1/delta)."""
_MESSAGES = (3, 4, 5)
_DOUBLE_LOGS = tuple(math.log(2 * 3**m * math.log(2)) for m in _MESSAGES)
"""ln ln n where n = 2^(2 * 3^m), so that floor(log_3 log_2 n) = m."""


def _blanket(n: float, epsilon: float = EPSILON) -> float:
    users = round(n)
    return optimized_digits(users, epsilon, DELTA, 1, composition="basic").mse(users)


def _unary(n: float, epsilon: float = EPSILON, log_delta: float = _LOG_DELTA) -> float:
    messages = math.ceil(epsilon * math.sqrt(n))
    return UnaryEncoding(round(n), epsilon, math.exp(-log_delta), messages=messages).mse


def _sparse(epsilon: float = EPSILON, log_delta: float = _LOG_DELTA, n: float = N) -> SparseNoise:
    return SparseNoise(round(n), epsilon, math.exp(-log_delta), accountant="published")


# Section 4


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


def _digits_delta(log_delta: float) -> float:
    return optimized_digits(10**9, EPSILON, math.exp(-log_delta), 3).mse(10**9)


def _depth(n: float) -> int:
    """Return floor(log_3 log_2 n)."""
    return math.floor(math.log(math.log2(n), 3))


def theorem_error(m: int, log_delta: float = _LOG_DELTA, *, advanced: bool = False) -> float:
    """Return the error by Theorem 4.2's formulas for n = 2^(2 * 3^m) users, m from 3 to 5.

    The precisions p_j = 4^(3^(j - 1)) are n^(3^(j - m - 1)). The probabilities are Theorem 4.1's
    for p + 1 values, the budget of each digit epsilon / m or, for Corollary 4.1 with half of delta
    for the composition, epsilon / (2 sqrt(2 m ln(2 / delta))) (SCM22, Corollary 4.3).

    Examples
    --------
    >>> round(theorem_error(3)), round(theorem_error(3, advanced=True))
    (14301, 929760)
    """
    n = 2 ** (2 * 3**m)
    precisions = [4 ** (3**j) for j in range(m)]
    domains = (*(p + 1 for p in precisions[:-1]), precisions[-1] + 2)
    places = tuple(math.prod(precisions[j + 1 :]) for j in range(m))
    log_each = math.log(4 if advanced else 2) + math.log(m) + log_delta  # of 2 / delta_j
    parts = 2 * math.sqrt(2 * m * (math.log(2) + log_delta)) if advanced else float(m)
    scale = 14 * log_each * (parts / EPSILON) ** 2 / (n - 1)
    largest = math.prod(precisions)
    answers = sum(
        (place / largest) ** 2 * response_variance(k, k * scale)
        for k, place in zip(domains, places, strict=True)
    )
    return float(n * (1 / (4 * largest**2) + answers))


# Sections 5 and 6

_SINGLE: dict[str, Any] = {"shuffler": "single", "clear_share": False}
"""Of the analyses before Section 6."""


def _sum_error(analysis: str) -> Callable[[float, float], float]:
    """Return the error of a private sum of n users."""
    roles = {} if analysis == "balle2020" else _SINGLE

    def error(n: float, epsilon: float) -> float:
        return PrivateSum(round(n), epsilon, DELTA, analysis=analysis, **roles).mse

    return error


def _count(analysis: str) -> Callable[..., int]:
    """Return messages for n users and delta = e^-x, with q = 2 n^1.5 and sigma by Lemma 5.2."""
    roles = {} if analysis == "balle2020" else _SINGLE

    def count(n: float, log_delta: float, q: int | None = None) -> int:
        sigma = (math.log1p(math.exp(EPSILON)) + log_delta) / math.log(2)
        modulus = q or math.ceil(2 * n**1.5)
        return message_count(round(n), modulus, sigma, analysis=analysis, **roles).total

    return count


_MESSAGES_OF = dict(zip(_DOUBLE_LOGS, _MESSAGES, strict=True))


_IMPROVED, _GHAZI, _ORIGINAL = _count("balle2020"), _count("ghazi2020"), _count("ishai2006")


def _log_n(n: float = N, log_delta: float = _LOG_DELTA) -> float:
    return 1 + log_delta / math.log(n)


@dataclass(frozen=True)
class Order:
    """One statement of Table 1 in one variable; ``stated`` is its order up to a constant."""

    reference: str
    what: str
    of: str
    order: str
    exponent: float | None
    points: tuple[float, ...]
    value: Callable[[float], float]
    stated: Callable[[float], float]
    note: str = ""


def _power(exponent: float) -> Callable[[float], float]:
    return lambda x: x**exponent


def _constant_errors(reference: str, analysis: str) -> tuple[Order, Order]:
    """Return the orders of a private sum's error."""
    error = _sum_error(analysis)
    return (
        Order(reference, "mse", "n", "1/ε²", 0.0, _USERS, lambda n: error(n, EPSILON), _power(0)),
        Order(reference, "mse", "ε", "1/ε²", -2.0, _EPSILONS, lambda e: error(N, e), _power(-2)),
    )


_LOG_N_ORDER, _LOG_ORDER = "1 + log_n(1/δ)", "log(n/δ)"
_LOG_LOG = "(log log n)² log(1/δ)/ε²"

ORDERS = (
    Order(
        "CSUZZ19 [9]", "messages", "n", "ε √n", 1 / 2, _USERS,
        lambda n: math.ceil(EPSILON * math.sqrt(n)), _power(1 / 2),
    ),
    Order(
        "CSUZZ19 [9]", "mse", "n", "log²(n/δ)/ε²", None, _FEW_USERS, _unary,
        lambda n: (math.log(n) + _LOG_DELTA) ** 2, "the exact distribution has no log n",
    ),
    Order(
        "CSUZZ19 [9]", "mse", "ln 1/δ", "log²(n/δ)/ε²", None, _LOGS,
        lambda x: _unary(1e4, log_delta=x), lambda x: (math.log(1e4) + x) ** 2,
        "nor a square: the exponent is 1",
    ),
    Order(
        "CSUZZ19 [9]", "mse", "ε", "log²(n/δ)/ε²", -2.0, _EPSILONS,
        lambda epsilon: _unary(1e4, epsilon), _power(-2),
    ),
    Order("BBGN19 [2]", "mse", "n", "n^(1/3)/ε^(4/3)", 1 / 3, _USERS, _blanket, _power(1 / 3)),
    Order(
        "BBGN19 [2]", "mse", "ε", "n^(1/3)/ε^(4/3)", -4 / 3, _EPSILONS,
        lambda epsilon: _blanket(1e9, epsilon), _power(-4 / 3),
    ),
    Order(
        "GPV19 [13]", "mse", "ln 1/δ", "log(1/δ)/ε²", 1.0, _LOGS,
        lambda x: _sparse(log_delta=x).mse, _power(1), "noise of a few random users (SCRCS11)",
    ),
    Order(
        "GPV19 [13]", "mse", "ε", "log(1/δ)/ε²", -2.0, _EPSILONS,
        lambda epsilon: _sparse(epsilon).mse, _power(-2),
    ),
    Order(
        "GPV19 [13]", "messages", "n", "log(n/(εδ))", None, _USERS,
        lambda n: _ORIGINAL(n, _LOG_DELTA, _sparse(n=n).modulus),
        lambda n: math.log(n) + _LOG_DELTA, "counted by IKOS06's bound",
    ),
    Order(
        "GPV19 [13]", "messages", "ln 1/δ", "log(n/(εδ))", None, _LOGS,
        lambda x: _ORIGINAL(N, x, _sparse(log_delta=x).modulus), lambda x: math.log(N) + x,
        "counted by IKOS06's bound",
    ),
    *_constant_errors("GMPV20 [15]", "ghazi2020"),
    Order(
        "GMPV20 [15]", "messages", "n", _LOG_N_ORDER, None, _USERS,
        lambda n: _GHAZI(n, _LOG_DELTA), _log_n, "a large constant",
    ),
    Order(
        "GMPV20 [15]", "messages", "ln 1/δ", _LOG_N_ORDER, None, _LOGS,
        lambda x: _GHAZI(N, x), lambda x: _log_n(log_delta=x),
    ),
    Order(
        "Section 4, m = 2", "mse", "n", "n^(1/9)", 1 / 9, _USERS, _published(2), _power(1 / 9),
        "Theorem 4.2's precisions, made private",
    ),
    Order(
        "Section 4, m = 2, optimized", "mse", "n", "n^(1/9)", 1 / 9, _USERS, _digits(2),
        _power(1 / 9),
    ),
    Order(
        "Section 4, m = 3", "mse", "n", "n^(1/27)", 1 / 27, _USERS, _published(3), _power(1 / 27),
        "rounding n^(1/27) and n^(1/9) to integers hides the slope",
    ),
    Order(
        "Section 4, m = 3, optimized", "mse", "n", "n^(1/27)", 1 / 27, _USERS, _digits(3),
        _power(1 / 27),
    ),
    Order(
        "Section 4, m = 2, optimized", "mse", "ε", "1/ε² at the published precisions", -2.0,
        _EPSILONS, _digits_epsilon, _power(-2), "the best precisions give ε^(-16/9)",
    ),
    Order(
        "Section 4", "messages", "ln ln n", "log log n", 1.0, _DOUBLE_LOGS,
        lambda x: _MESSAGES_OF[x], _power(1), "m = ⌊log₃ log₂ n⌋",
    ),
    Order(
        "Section 4", "mse", "ln ln n", "(log log n)³/ε² (Theorem 4.2)", 3.0, _DOUBLE_LOGS,
        lambda x: theorem_error(_MESSAGES_OF[x]), _power(3),
    ),
    Order(
        "Section 4", "mse", "ln ln n", _LOG_LOG, 2.0, _DOUBLE_LOGS,
        lambda x: theorem_error(_MESSAGES_OF[x], advanced=True), _power(2),
        "advanced composition, worse than basic below m of about 190",
    ),
    Order(
        "Section 4", "mse", "ln 1/δ", _LOG_LOG, 1.0, _LOGS,
        lambda x: theorem_error(3, x, advanced=True), _power(1), "advanced composition gives 2",
    ),
    Order(
        "Section 4, optimized", "mse", "n", _LOG_LOG, None, _USERS,
        lambda n: _digits(_depth(n))(n), lambda n: math.log(math.log(n)) ** 2,
        "m = ⌊log₃ log₂ n⌋ is 2, and 3 from n = 2^27 on",
    ),
    Order(
        "Section 4, m = 3, optimized", "mse", "ln 1/δ", _LOG_LOG, 1.0, _LOGS, _digits_delta,
        _power(1), "numerical composition",
    ),
    *_constant_errors("Section 5", "ishai2006"),
    Order(
        "Section 5", "messages", "n", _LOG_ORDER, None, _USERS,
        lambda n: _ORIGINAL(n, _LOG_DELTA), lambda n: math.log(n) + _LOG_DELTA,
    ),
    Order(
        "Section 5", "messages", "ln 1/δ", _LOG_ORDER, None, _LOGS,
        lambda x: _ORIGINAL(N, x), lambda x: math.log(N) + x, "exponent 1 at large ln 1/δ",
    ),
    *_constant_errors("Section 6", "balle2020"),
    Order(
        "Section 6", "messages", "n", _LOG_N_ORDER, None, _USERS,
        lambda n: _IMPROVED(n, _LOG_DELTA), _log_n, "falls to a constant",
    ),
    Order(
        "Section 6", "messages", "ln 1/δ", _LOG_N_ORDER, None, _LOGS,
        lambda x: _IMPROVED(N, x), lambda x: _log_n(log_delta=x), "exponent 1 at large ln 1/δ",
    ),
)  # fmt: skip


def slopes(points: Sequence[float], values: Sequence[float]) -> tuple[float, float]:
    """Return the slopes on logarithmic axes between the first two points, and the last two."""

    def slope(i: int, j: int) -> float:
        return math.log(values[j] / values[i]) / math.log(points[j] / points[i])

    return slope(0, 1), slope(-2, -1)


_NOTE = f"""\
Each order that BBGN20's Table 1 states, against the calculators' values. *over the order*: the
values divided by what the order has of the variable, with natural logarithms, which must stay
bounded. *first*, *last*: the slopes of the values on logarithmic axes over the first and the last
step, next to the stated *exponent*, if the order is a power. Fixed where not varied: n = 10^6,
ε = {EPSILON:g}, δ = {DELTA:g}; but n = 10^4 for CSUZZ19, and n = 10^9 for BBGN19 and for the
optimized digits in ε and δ. In ln ln n, m = 3, 4, 5 at n = 2^(2·3^m), by the theorem's formulas;
ln 1/δ is varied there at m = 3.
"""


def _shown(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 or value == round(value) else f"{value:.3g}"


def _point(of: str, value: float) -> str:
    return plain_number(round(value)) if of == "n" else f"{value:.3g}"


def _ends(cells: Sequence[str]) -> str:
    return f"{cells[0]} … {cells[-1]}"


def _tables(quick: bool) -> Iterator[tuple[str, str]]:
    lines, rows = [], []
    with steps("measuring orders", len(ORDERS)) as step:
        for order in ORDERS:
            points = order.points[:2] if quick else order.points
            values = [order.value(point) for point in points]
            ratios = [
                value / order.stated(point) for point, value in zip(points, values, strict=True)
            ]
            lines.append(
                [
                    order.reference,
                    order.what,
                    f"{order.of} = {_ends([_point(order.of, point) for point in points])}",
                    order.order,
                    _ends([_shown(value) for value in values]),
                    _ends([_shown(ratio) for ratio in ratios]),
                    "–" if order.exponent is None else f"{order.exponent:.3f}",
                    *(f"{slope:.3f}" for slope in slopes(points, values)),
                    order.note,
                ]
            )
            name = (order.reference, order.what, order.of, order.order, order.exponent)
            rows += [(*name, *cells) for cells in zip(points, values, ratios, strict=True)]
            step()
    header = ["row", "what", "in", "order", "values", "over the order", "exponent", "first", "last"]
    yield "bbgn20-table-1.md", f"{_NOTE}\n{markdown([*header, 'note'], lines)}"
    columns = ["row", "what", "of", "order", "exponent", "point", "value", "over_order"]
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
