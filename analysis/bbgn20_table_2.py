"""BBGN20's Table 2, computed anew: the error of the mean of the ages of the Adult data set.

    python -m analysis.bbgn20_table_2 --data adult.data --output DIR

writes into DIR ``bbgn20-table-2.md`` and ``.csv``. The data are not part of the project: adult.data
of the UCI Machine Learning Repository, https://archive.ics.uci.edu/dataset/2/adult, 32,561 records.
The ages are divided by the greatest, 90, as the paper does; in production a bound must not come
from the data.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np
from numpy.typing import NDArray

from analysis.experiments import NAMES, Errors, expected_error, measured, protocols
from analysis.output import Files, csv_text, main, markdown, program, stepped
from ikos.baselines import SumProtocol
from ikos.testing import DeterministicRandom

SHA256 = "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d"
"""Of adult.data."""

USERS = 32_561

PRINTED = {
    "CentralLaplace": (3.53e-5, 3.21e-5),
    "LocalLaplace": (4.28e-3, 3.47e-3),
    "IKOS": (7.5e-6, 6.17e-6),
    "SingleMessage": (6.65e-4, 4.01e-4),
    "Recursive, 2 msg.": (4.58e-4, 3.67e-4),
    "Recursive, 2 msg., opt.": (4.12e-4, 2.34e-4),
    "Recursive, 3 msg.": (5.25e-4, 3.79e-4),
    "Recursive, 3 msg., opt.": (3.7e-4, 2.66e-4),
}
"""The mean and the standard deviation of 20 runs that the paper prints."""

_FEW = 20


def normalized_ages(path: Path) -> NDArray[np.float64]:
    """Return the ages of adult.data, divided by the greatest."""
    try:
        content = path.read_bytes()
    except OSError as error:
        reason = (error.strerror or "input error").lower()
        raise click.UsageError(f"cannot read {str(path)!r}: {reason}") from None
    found = hashlib.sha256(content).hexdigest()
    if found != SHA256:
        raise click.UsageError(
            f"--data must be adult.data of the UCI Adult data set, with SHA-256 {SHA256}, got one "
            f"with {found}"
        )
    lines = content.decode("ascii").splitlines()
    ages = np.array([int(line.split(",")[0]) for line in lines if line.strip()], dtype=np.float64)
    return np.asarray(ages / ages.max())


@dataclass(frozen=True)
class Row:
    """A protocol and its errors."""

    name: str
    protocol: SumProtocol
    errors: Errors


def table_rows(x: NDArray[np.float64], runs: int, seed: int) -> Iterator[Row]:
    """Run every protocol on the same values, at epsilon = 1 and delta = 1/n^2."""
    for number, (name, protocol) in enumerate(protocols(x.size, 1.0, x.size**-2.0).items()):
        rng = DeterministicRandom(1000 * seed + number)
        yield Row(name, protocol, measured(protocol, x, runs, rng))


_NOTE = """\
Absolute error of the mean of n = {n:,} ages divided by the greatest, at ε = 1 and δ = 1/n².
*paper*: mean and standard deviation of 20 runs as printed. *20 runs*: ours. *{runs} runs*: the
mean, with the normal approximation's 95 % interval. *expected*: proved bounds of the expectation,
where there is a closed form. *√mse*: the proved bound of the root of the mean square, which bounds
the mean.
"""


def _ends(low: float, high: float) -> str:
    return f"[{low:.3g}, {high:.3g}]"


def _tables(found: list[Row], n: int, runs: int) -> Iterator[tuple[str, str]]:
    lines, values = [], []
    for row in found:
        few, printed = row.errors.first(_FEW), PRINTED[row.name]
        bounds, low_high = expected_error(row.protocol), row.errors.interval()
        root = math.sqrt(row.protocol.mse) / n
        lines.append(
            [
                row.name,
                f"{printed[0]:.3g} ({printed[1]:.3g})",
                f"{few.mean:.3g} ({few.deviation:.3g})",
                f"{row.errors.mean:.3g} {_ends(*low_high)}",
                "–" if bounds is None else _ends(*bounds),
                f"{root:.3g}",
            ]
        )
        means = (few.mean, few.deviation, row.errors.mean, *low_high)
        values.append((row.name, *printed, *means, *(bounds or (None, None)), root))
    note = _NOTE.format(n=n, runs=runs)
    header = ["protocol", "paper", "20 runs", f"{runs} runs", "expected", "√mse"]
    yield "bbgn20-table-2.md", f"{note}\n{markdown(header, lines)}"
    columns = ["protocol", "printed_mean", "printed_deviation", "mean_20", "deviation_20"]
    more = ["mean", "mean_low", "mean_high", "expected_low", "expected_high", "root_mse"]
    yield "bbgn20-table-2.csv", csv_text([*columns, *more], values)


@program("--data adult.data --output build/figures")
@click.option(
    "--data",
    required=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="adult.data, from https://archive.ics.uci.edu/dataset/2/adult; not part of the project.",
)
def command(files: Files, data: Path, seed: int, quick: bool) -> None:
    """Compute BBGN20's Table 2 on the ages of the Adult data set.

    Takes a minute or two.
    """
    runs = 2 * _FEW if quick else 1000
    x = normalized_ages(data)
    found = stepped("running", len(NAMES), table_rows(x, runs, seed))
    for name, text in _tables(found, x.size, runs):
        files.text(name, text)


if __name__ == "__main__":
    main(command)
