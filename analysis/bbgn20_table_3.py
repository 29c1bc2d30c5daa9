"""BBGN20's Table 3, computed anew, next to the printed one.

    python -m analysis.bbgn20_table_3 --output DIR

writes into DIR ``bbgn20-table-3.md`` and ``.csv``, messages and bounds of the mean squared error of
the sum at delta = 1/n^2, and ``bbgn20-table-3-floors.md`` and ``.csv``, below what no private
digits can get. Nothing is drawn: the same bytes each time.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from analysis.digit_floor import digit_floor
from analysis.output import Files, csv_text, main, markdown, plain_number, program, stepped, steps
from ikos import PrivateSum, message_count
from ikos.accounting import paper_digits
from ikos.baselines import (
    CentralLaplace,
    LocalRandomizedResponse,
    PrivacyBlanket,
    RecursiveSum,
    UnaryEncoding,
)

CELLS = ((10**4, 0.5), (10**4, 1.0), (10**5, 0.5), (10**5, 1.0))
"""Users and epsilon; delta is 1/n^2."""

_ANY: tuple[int | None, ...] = (None,) * 4
_IKOS = (8.2, 2.2, 8.2, 2.2)

PRINTED: dict[str, tuple[tuple[int | None, ...], tuple[float, ...]]] = {
    "LocalDP": ((1,) * 4, (41677.0, 11706.7, 416769.8, 117067.4)),
    "CuratorDP": (_ANY, (8.0, 2.0, 8.0, 2.0)),
    "CheuEtAl": ((50, 100, 159, 317), (693.5, 206.3, 888.0, 252.4)),
    "BalleEtAl": ((1,) * 4, (592.9, 278.8, 1433.4, 683.8)),
    "Recursive (2 msg)": ((2,) * 4, (361.6, 153.4, 989.6, 418.7)),
    "Recursive (3 msg)": ((3,) * 4, (math.inf, 161.9, 530.6, 316.8)),
    "Recursive (2 msg optimized)": ((2,) * 4, (353.5, 121.8, 114.4, 234.9)),
    "Recursive (3 msg optimized)": ((3,) * 4, (354.8, 128.8, 197.0, 152.4)),
    "IKOS (Original)": ((69, 70, 84, 84), _IKOS),
    "IKOS (Improved)": ((9,) * 4, _IKOS),
    "IKOS (GhaziEtAl)": ((411, 415, 399, 402), _IKOS),
}
"""What the paper prints: messages, and mean squared errors."""

REASONS = {
    "LocalDP": "the same",
    "CuratorDP": "the same",
    "CheuEtAl": "the same messages; exact law of the view in place of the published noise",
    "BalleEtAl": "exact divergence, k = p + 1 values counted; the printed bound is Bennett's",
    "Recursive (2 msg)": "Theorem 4.2's digits made private: all values counted, exact divergence",
    "Recursive (3 msg)": "Theorem 4.2's digits made private: all values counted, exact divergence",
    "Recursive (2 msg optimized)": "exact losses composed; 114.4 is below the floor",
    "Recursive (3 msg optimized)": "exact losses composed; 197.0 is below the floor",
    "IKOS (Original)": "Appendix E.1's formula, with log(n - 1) inside",
    "IKOS (Improved)": "the same; 8.25 and 2.25 are printed as 8.2 and 2.2",
    "IKOS (GhaziEtAl)": "the stated formula at sigma; the printed one is at sigma + 1",
    "IKOS, exact": "not in the paper: the exact analysis, and a finer encoding",
}


@dataclass(frozen=True)
class Cell:
    """A protocol at one of `CELLS`: messages of each user, and the bound of the error."""

    messages: int | float
    mse: float


@cache
def _summed(n: int, epsilon: float, analysis: str) -> Cell:
    """Return a row of the private sum: p about sqrt n, q = 2 n^1.5, sigma by Lemma 5.2."""
    q = math.ceil(2 * n * math.sqrt(n))
    sigma = math.log2((1 + math.exp(epsilon)) * n**2)
    plain = analysis != "balle2020"
    count = message_count(
        n,
        q,
        sigma,
        analysis=analysis,
        shuffler="single" if plain else "parallel",
        clear_share=not plain,
    )
    steps_of_value = math.isqrt(n - 1) + 1
    protocol = PrivateSum(n, epsilon, n**-2.0, precision=steps_of_value, analysis="balle2020")
    return Cell(count.total, protocol.mse)


def _cell(name: str, n: int, epsilon: float) -> Cell:
    delta = n**-2.0
    match name:
        case "LocalDP":
            return Cell(1, LocalRandomizedResponse(n, epsilon).mse)
        case "CuratorDP":
            return Cell(1, CentralLaplace(n, epsilon).mse)
        case "CheuEtAl":
            unary = UnaryEncoding(n, epsilon, delta, messages=math.ceil(epsilon * math.sqrt(n)))
            return Cell(unary.messages, unary.mse)
        case "BalleEtAl":
            return Cell(1, PrivacyBlanket(n, epsilon, delta).mse)
        case "Recursive (2 msg)" | "Recursive (3 msg)":
            m = int(name[11])
            return Cell(m, paper_digits(n, epsilon, delta, m).mse(n))
        case "Recursive (2 msg optimized)" | "Recursive (3 msg optimized)":
            m = int(name[11])
            return Cell(m, RecursiveSum(n, epsilon, delta, messages=m).mse)
        case "IKOS (Original)":
            return _summed(n, epsilon, "ishai2006")
        case "IKOS (Improved)":
            return _summed(n, epsilon, "balle2020")
        case "IKOS (GhaziEtAl)":
            return _summed(n, epsilon, "ghazi2020")
    protocol = PrivateSum(n, epsilon, delta)
    return Cell(protocol.cost().messages_per_user, protocol.mse)


def rows() -> Iterator[tuple[str, list[Cell]]]:
    """Yield each row's name and its cells, in the order of `CELLS`."""
    for name in REASONS:
        yield name, [_cell(name, n, epsilon) for n, epsilon in CELLS]


_NOTE = """\
BBGN20's Table 3 at δ = 1/n². *mse*: bound of the mean squared error of the sum; *msg*: messages of
each user; *paper* as printed, *ours* as computed and guaranteed. A dash: not in the paper.
"""


def _number(value: float) -> str:
    return "∞" if value == math.inf else f"{value:.1f}"


def _tables(found: list[tuple[str, list[Cell]]]) -> Iterator[tuple[str, str]]:
    lines, values = [], []
    for name, cells in found:
        messages, errors = PRINTED.get(name, (_ANY, _ANY))
        for (n, epsilon), cell, sent, error in zip(CELLS, cells, messages, errors, strict=True):
            lines.append(
                [
                    name,
                    plain_number(n),
                    f"{epsilon:g}",
                    "–" if sent is None else f"{sent}",
                    f"{cell.messages:g}",
                    "–" if error is None else _number(error),
                    _number(cell.mse),
                ]
            )
            values.append((name, n, epsilon, sent, cell.messages, error, cell.mse, REASONS[name]))
    header = ["protocol", "n", "ε", "msg paper", "msg ours", "mse paper", "mse ours"]
    reasons = markdown(["protocol", "difference"], ([name, REASONS[name]] for name, _ in found))
    yield "bbgn20-table-3.md", f"{_NOTE}\n{markdown(header, lines)}\n{reasons}"
    columns = ["protocol", "n", "epsilon", "messages_printed", "messages", "mse_printed", "mse"]
    yield "bbgn20-table-3.csv", csv_text([*columns, "difference"], values)


# Floors

FLOORS = ((10**5, 0.5, 2, False), (10**5, 0.5, 2, True), (10**5, 0.5, 3, True))
"""Users, epsilon, messages, and whether the digits have to be private together or each alone."""


def floors(ratio: float) -> Iterator[tuple[int, float, int, bool, float, float, float]]:
    """Yield the setting, the floor, the printed error and ours.

    Notes
    -----
    The floor of three digits is not looked for above what rounds to the printed number.
    """
    for n, epsilon, m, together in FLOORS:
        name = f"Recursive ({m} msg optimized)"
        printed = PRINTED[name][1][CELLS.index((n, epsilon))]
        ours = RecursiveSum(n, epsilon, n**-2.0, messages=m).mse
        below = printed + 0.05 if m == 3 else ours  # more than rounds to the printed one
        found = digit_floor(n, epsilon, n**-2.0, m, below=below, ratio=ratio, together=together)
        yield n, epsilon, m, together, found.mse, printed, ours


_FLOORS_NOTE = """\
No digits of the recursive protocol that are (ε, 1/n²)-private have a bound of the mean squared
error below *floor* (rounded down). *alone*: each digit must be private by itself. *together*: all
of them must be. For three digits it was not looked for floors above the printed number.
"""


def _floor_tables(ratio: float) -> Iterator[tuple[str, str]]:
    lines, values = [], []
    with steps("looking for private digits", len(FLOORS)) as step:
        for n, epsilon, m, together, least, printed, ours in floors(ratio):
            how = "together" if together else "alone"
            least = math.floor(100 * least) / 100
            numbers = [f"{least:.2f}", f"{printed:.1f}", f"{ours:.1f}"]
            lines.append([plain_number(n), f"{epsilon:g}", str(m), how, *numbers])
            values.append((n, epsilon, m, how, least, printed, ours))
            step()
    header = ["n", "ε", "digits", "private", "floor", "paper", "ours"]
    yield "bbgn20-table-3-floors.md", f"{_FLOORS_NOTE}\n{markdown(header, lines)}"
    columns = ["n", "epsilon", "digits", "private", "floor", "printed", "ours"]
    yield "bbgn20-table-3-floors.csv", csv_text(columns, values)


@program()
def command(files: Files, quick: bool) -> None:
    """Compute BBGN20's Table 3, and floors below it.

    Takes two minutes.
    """
    found = stepped("finding parameters", len(REASONS), rows())
    for name, text in _tables(found):
        files.text(name, text)
    if quick:  # the floors take the most of the time
        return
    for name, text in _floor_tables(1.1):
        files.text(name, text)


if __name__ == "__main__":
    main(command)
