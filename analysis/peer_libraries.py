"""Three jobs on a CSV, beside libraries for a trusted curator: lines of code, errors, intervals.

    python -m analysis.peer_libraries --output DIR

runs the jobs with ikos and with those of OpenDP, PipelineDP and diffprivlib that are installed (the
extra ``peers``), and prints and writes ``peer-libraries.md``. The lines are those of the functions
here, from the imports to the estimates, as they ran. Noise is fresh: another run differs by a few
percent.

All errors are at epsilon 1 for a row that is replaced, also if its value becomes missing. Where a
peer protects a row that is added or removed, it gets epsilon 1/2: a replaced row is one removed and
one added.
"""

from __future__ import annotations

import ast
import inspect
import math
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from numpy.typing import NDArray

from analysis.output import Files, csv_text, main, markdown, program, stepped
from ikos.cli.output import print_text

UPPER = 100_000
SIZES = (1_000, 10_000)
QUARTILES = (0.25, 0.5, 0.75)

Answer = Mapping[str, Sequence[Any]]
"""Estimates by name: values alone, or values and the ends of their 95 % intervals."""


@dataclass(frozen=True)
class Table:
    """A table of people: a region, an age, and a salary that a tenth of them do not state."""

    rows: int
    regions: int

    @property
    def labels(self) -> list[str]:
        """The regions, in alphabetical order."""
        return [f"region {i:02}" for i in range(self.regions)]

    @cached_property
    def columns(self) -> dict[str, NDArray[Any]]:
        """The columns; a missing salary is NaN."""
        rng = np.random.default_rng((self.rows, self.regions))
        salary = np.round(40_000 * np.exp(0.4 * rng.standard_normal(self.rows))).clip(0, UPPER)
        salary[rng.permutation(self.rows)[: self.rows // 10]] = math.nan
        regions = rng.permutation(np.resize(self.labels, self.rows))
        return {"region": regions, "age": rng.integers(18, 98, self.rows), "salary": salary}

    def text(self) -> str:
        """Return the table as a CSV with empty cells."""
        region, age, salary = self.columns.values()
        cells = ["" if math.isnan(one) else int(one) for one in salary]
        return csv_text(list(self.columns), zip(region, age, cells, strict=True))

    @cached_property
    def truth(self) -> dict[str, NDArray[np.float64]]:
        """What the jobs estimate."""
        region, age, salary = self.columns.values()
        known = ~np.isnan(salary)
        groups = [salary[known & (region == label)] for label in self.labels]
        quartiles = np.quantile(salary[known], QUARTILES, method="inverted_cdf")
        return {
            "count": np.array([len(one) for one in groups], dtype=np.float64),
            "mean": np.array([one.mean() for one in groups]),
            "quartile": quartiles,
            "bin": np.bincount((age - 18) // 8, minlength=10).astype(np.float64),
        }


# Mean and number of the salaries that are stated, by region


def _groups_ikos(path: Path, table: Table, epsilon: float) -> Answer:
    import pandas as pd

    import ikos

    data = pd.read_csv(path)
    result = ikos.mean(
        data["salary"],
        by=data["region"],
        groups=table.labels,
        missing="exclude",
        lower=0,
        upper=100_000,
        epsilon=epsilon,
        delta=1e-6,
    )
    counts, means = result.counts(), result.means()
    return {"count": (counts, *result.count_interval()), "mean": (means, *result.mean_interval())}


def _groups_opendp(path: Path, table: Table, epsilon: float) -> Answer:
    import opendp.prelude as dp
    import polars as pl

    dp.enable_features("contrib")
    context = dp.Context.compositor(
        data=pl.scan_csv(path).filter(pl.col("salary").is_not_null()),
        privacy_unit=dp.unit_of(contributions=1),
        privacy_loss=dp.loss_of(epsilon=epsilon),
        split_evenly_over=1,
        margins=[dp.polars.Margin(by=["region"], max_length=table.rows)],
    )
    sums = pl.col("salary").fill_null(0).dp.sum((0, 100_000))
    query = context.query().group_by("region").agg(dp.len(signed=True), sums)
    query = query.with_keys(pl.LazyFrame({"region": table.labels}))
    accuracy = query.summarize(alpha=0.05)["accuracy"][0]
    result = query.release().collect().sort("region")
    counts, means = result["len"].to_numpy(), (result["salary"] / result["len"]).to_numpy()
    return {"count": (counts, counts - accuracy, counts + accuracy), "mean": (means,)}


def _groups_pipelinedp(path: Path, table: Table, epsilon: float) -> Answer:
    import pandas as pd
    import pipeline_dp

    data = pd.read_csv(path).dropna()
    accountant = pipeline_dp.NaiveBudgetAccountant(total_epsilon=epsilon, total_delta=0)
    engine = pipeline_dp.DPEngine(accountant, pipeline_dp.LocalBackend())
    params = pipeline_dp.AggregateParams(
        metrics=[pipeline_dp.Metrics.COUNT, pipeline_dp.Metrics.MEAN],
        max_partitions_contributed=1,
        max_contributions_per_partition=1,
        min_value=0,
        max_value=100_000,
    )
    extractors = pipeline_dp.DataExtractors(
        privacy_id_extractor=lambda row: row.Index,
        partition_extractor=lambda row: row.region,
        value_extractor=lambda row: row.salary,
    )
    rows = list(data.itertuples())
    aggregate = engine.aggregate(rows, params, extractors, public_partitions=table.labels)
    accountant.compute_budgets()
    result = [metrics for _, metrics in sorted(aggregate)]
    return {"count": ([one.count for one in result],), "mean": ([one.mean for one in result],)}


def _groups_diffprivlib(path: Path, table: Table, epsilon: float) -> Answer:
    import numpy as np
    import pandas as pd
    from diffprivlib import tools

    data, labels = pd.read_csv(path), table.labels
    places = data["region"][data["salary"].notna()].map(labels.index)
    ends = (0, len(labels))
    counts, _ = tools.histogram(places, epsilon=epsilon / 2, bins=len(labels), range=ends)
    columns = [data["salary"].where(data["region"] == one).fillna(0) for one in labels]
    sums = [tools.sum(column, epsilon=epsilon / 2, bounds=(0, 100_000)) for column in columns]
    return {"count": (counts,), "mean": (sums / np.maximum(counts, 1),)}


# Quartiles of the salaries that are stated


def _quartiles_ikos(path: Path, table: Table, epsilon: float) -> Answer:
    import pandas as pd

    import ikos

    salary = pd.read_csv(path)["salary"]
    result = ikos.quantiles(
        salary,
        [0.25, 0.5, 0.75],
        missing="exclude",
        lower=0,
        upper=100_000,
        epsilon=epsilon,
        delta=1e-6,
    )
    return {"quartile": (result.estimate, *result.interval())}


def _quartiles_opendp(path: Path, table: Table, epsilon: float) -> Answer:
    import opendp.prelude as dp
    import polars as pl

    dp.enable_features("contrib")
    context = dp.Context.compositor(
        data=pl.scan_csv(path).filter(pl.col("salary").is_not_null()),
        privacy_unit=dp.unit_of(contributions=1),
        privacy_loss=dp.loss_of(epsilon=epsilon),
        split_evenly_over=1,
        margins=[dp.polars.Margin(max_length=table.rows)],
    )
    salary, candidates = pl.col("salary").fill_null(0), list(range(0, 100_001, 100))
    quartiles = [salary.dp.quantile(q, candidates).alias(str(q)) for q in (0.25, 0.5, 0.75)]
    return {"quartile": (context.query().select(quartiles).release().collect().row(0),)}


def _quartiles_pipelinedp(path: Path, table: Table, epsilon: float) -> Answer:
    import pandas as pd
    import pipeline_dp

    data = pd.read_csv(path).dropna()
    accountant = pipeline_dp.NaiveBudgetAccountant(total_epsilon=epsilon, total_delta=0)
    engine = pipeline_dp.DPEngine(accountant, pipeline_dp.LocalBackend())
    params = pipeline_dp.AggregateParams(
        metrics=[pipeline_dp.Metrics.PERCENTILE(p) for p in (25, 50, 75)],
        max_partitions_contributed=1,
        max_contributions_per_partition=1,
        min_value=0,
        max_value=100_000,
    )
    extractors = pipeline_dp.DataExtractors(
        privacy_id_extractor=lambda row: row.Index,
        partition_extractor=lambda row: 0,
        value_extractor=lambda row: row.salary,
    )
    rows = list(data.itertuples())
    aggregate = engine.aggregate(rows, params, extractors, public_partitions=[0])
    accountant.compute_budgets()
    ((_, result),) = aggregate
    return {"quartile": (result,)}


def _quartiles_diffprivlib(path: Path, table: Table, epsilon: float) -> Answer:
    import pandas as pd
    from diffprivlib import tools

    salary = pd.read_csv(path)["salary"].dropna()
    result = tools.quantile(salary, [0.25, 0.5, 0.75], epsilon=epsilon, bounds=(0, 100_000))
    return {"quartile": (result,)}


# Histogram of ages


def _histogram_ikos(path: Path, table: Table, epsilon: float) -> Answer:
    import pandas as pd

    import ikos

    places = (pd.read_csv(path)["age"] - 18) // 8
    result = ikos.histogram(places, range(10), epsilon=epsilon, delta=1e-6)
    low, high = zip(*result.intervals().values(), strict=True)
    return {"bin": (list(result.estimates().values()), low, high)}


def _histogram_opendp(path: Path, table: Table, epsilon: float) -> Answer:
    import opendp.prelude as dp
    import polars as pl

    dp.enable_features("contrib")
    context = dp.Context.compositor(
        data=pl.scan_csv(path).with_columns(bin=(pl.col("age") - 18) // 8),
        privacy_unit=dp.unit_of(contributions=1),
        privacy_loss=dp.loss_of(epsilon=epsilon),
        split_evenly_over=1,
    )
    query = context.query().group_by("bin").agg(dp.len(signed=True))
    query = query.with_keys(pl.LazyFrame({"bin": range(10)}))
    accuracy = query.summarize(alpha=0.05)["accuracy"][0]
    counts = query.release().collect().sort("bin")["len"].to_numpy()
    return {"bin": (counts, counts - accuracy, counts + accuracy)}


def _histogram_pipelinedp(path: Path, table: Table, epsilon: float) -> Answer:
    import pandas as pd
    import pipeline_dp

    data = pd.read_csv(path)
    accountant = pipeline_dp.NaiveBudgetAccountant(total_epsilon=epsilon, total_delta=0)
    engine = pipeline_dp.DPEngine(accountant, pipeline_dp.LocalBackend())
    params = pipeline_dp.AggregateParams(
        metrics=[pipeline_dp.Metrics.COUNT],
        max_partitions_contributed=1,
        max_contributions_per_partition=1,
    )
    extractors = pipeline_dp.DataExtractors(
        privacy_id_extractor=lambda row: row.Index,
        partition_extractor=lambda row: (row.age - 18) // 8,
        value_extractor=lambda row: 0,
    )
    rows = list(data.itertuples())
    aggregate = engine.aggregate(rows, params, extractors, public_partitions=range(10))
    accountant.compute_budgets()
    return {"bin": ([metrics.count for _, metrics in sorted(aggregate)],)}


def _histogram_diffprivlib(path: Path, table: Table, epsilon: float) -> Answer:
    import pandas as pd
    from diffprivlib import tools

    ages = pd.read_csv(path)["age"]
    counts, _ = tools.histogram(ages, epsilon=epsilon, bins=10, range=(18, 98))
    return {"bin": (counts,)}


# What is measured


@dataclass(frozen=True)
class Library:
    """A library, its functions above, what they protect, and the numbers of runs.

    Epsilon is halved for neighbours that differ by a row that is `MOVED`.
    """

    name: str
    package: str
    jobs: tuple[Callable[[Path, Table, float], Answer], ...]
    neighbours: tuple[str, str, str]
    runs: tuple[int, int, int] = (200, 200, 200)

    @property
    def version(self) -> str | None:
        """The version that is installed, None if there is none."""
        try:
            return version(self.package)
        except PackageNotFoundError:
            return None


MOVED, REPLACED = "row added or removed", "row replaced"
LIBRARIES = (
    Library(
        "ikos",
        "ikos",
        (_groups_ikos, _quartiles_ikos, _histogram_ikos),
        (REPLACED,) * 3,
        (400, 100, 400),
    ),
    Library(
        "OpenDP", "opendp", (_groups_opendp, _quartiles_opendp, _histogram_opendp), (MOVED,) * 3
    ),
    Library(
        "PipelineDP",
        "pipeline-dp",
        (_groups_pipelinedp, _quartiles_pipelinedp, _histogram_pipelinedp),
        (MOVED,) * 3,
        (100, 100, 100),
    ),
    Library(
        "diffprivlib",
        "diffprivlib",
        (_groups_diffprivlib, _quartiles_diffprivlib, _histogram_diffprivlib),
        (MOVED, "either", MOVED),  # a rank changes by at most 1 either way
    ),
)

ROWS = (
    ("count, 3 regions", "count", 0, 3),
    ("count, 50 regions", "count", 0, 50),
    ("mean, 3 regions", "mean", 0, 3),
    ("mean, 50 regions", "mean", 0, 50),
    ("quartiles", "quartile", 1, 3),
    ("histogram", "bin", 2, 3),
)
"""Of each row of the table: its title, the estimate, the number of the job, and regions."""


def lines(function: Callable[..., Answer]) -> int:
    """Return the lines of a function's body that are not blank."""
    source = inspect.getsource(function)
    (definition,) = ast.parse(source).body
    assert isinstance(definition, ast.FunctionDef)
    body = source.splitlines()[definition.body[0].lineno - 1 :]
    return sum(bool(line.strip()) for line in body)


@dataclass(frozen=True)
class Errors:
    """Errors of all estimates of a name in some runs, and which of their intervals hold, if any."""

    errors: NDArray[np.float64]
    holds: NDArray[np.bool_] | None

    @property
    def rmse(self) -> float:
        """Their root mean square."""
        return math.sqrt(float(np.mean(self.errors**2)))


def errors(answers: Sequence[Answer], table: Table) -> dict[str, Errors]:
    """Compare answers with the truth.

    Means and quartiles outside the bounds are moved to them, and NaN is the middle of the bounds.
    """
    result = {}
    for name in answers[0]:
        truth = table.truth[name]
        values, *ends = np.array([one[name] for one in answers], dtype=np.float64).swapaxes(0, 1)
        if name in ("mean", "quartile"):
            values = np.nan_to_num(values, nan=UPPER / 2).clip(0, UPPER)
        holds = (ends[0] <= truth) & (truth <= ends[1]) if ends else None
        result[name] = Errors(values - truth, holds)
    return result


@contextmanager
def scales_remembered() -> Iterator[None]:
    """Let OpenDP, if it is there, search for a query's scale once: this takes it seconds."""
    try:
        from opendp.extras import polars
        from opendp.mod import binary_search_param
    except ImportError:
        yield
        return
    scales: list[float] = []

    def chain(make: Callable[[float], Any], d_in: Any, d_out: Any, **options: Any) -> Any:
        if not scales:
            scales.append(binary_search_param(make, d_in, d_out, **options))
        measurement = make(scales[0])
        assert measurement.check(d_in, d_out)
        return measurement

    with mock.patch.object(polars, "binary_search_chain", chain):
        yield


def measured(
    library: Library, job: int, table: Table, epsilon: float, runs: int
) -> dict[str, Errors]:
    """Run a job some times."""
    with tempfile.TemporaryDirectory() as folder, scales_remembered():
        path = Path(folder, "people.csv")
        path.write_text(table.text())
        return errors([library.jobs[job](path, table, epsilon) for _ in range(runs)], table)


HEADER = (
    "estimate", "library", "trust", "neighbours", "lines",
    *(f"RMSE, n = {n:,}" for n in SIZES), f"RMSE, n = {SIZES[-1]:,}, own ε = 1",
    "95 % intervals that hold",
)  # fmt: skip


def rounded(x: float) -> str:
    """Return three digits of a number."""
    return f"{float(f'{x:.3g}'):,.10g}"


def rows(
    library: Library, runs: Sequence[int], sizes: Sequence[int] = SIZES
) -> Iterator[tuple[str, ...]]:
    """Yield the rows of a library; those of fifty regions take a quarter of the runs."""

    @cache
    def results(job: int, regions: int, n: int, epsilon: float) -> dict[str, Errors]:
        times = max(runs[job] // 4, 1) if regions > 3 else runs[job]
        return measured(library, job, Table(n, regions), epsilon, times)

    for title, name, job, regions in ROWS:
        halves = library.neighbours[job] == MOVED
        some = [results(job, regions, n, 0.5 if halves else 1.0)[name] for n in sizes]
        typed = results(job, regions, sizes[-1], 1.0)[name].rmse if halves else some[-1].rmse
        held = [one.holds.ravel() for one in some if one.holds is not None]
        yield (
            title,
            library.name,
            "shuffle model" if library.package == "ikos" else "trusted curator",
            library.neighbours[job],
            str(lines(library.jobs[job])),
            *(rounded(one.rmse) for one in some),
            rounded(typed),
            f"{100 * np.mean(np.concatenate(held)):.1f} %" if held else "none",
        )


@program(printed=True)
def command(files: Files, quick: bool) -> None:
    """Run three jobs on a CSV with ikos and with other libraries, and compare the errors."""
    there = [library for library in LIBRARIES if library.version]
    for library in LIBRARIES:
        if not library.version:
            print_text([f"{library.name} is not installed: pip install ikos[peers]"])
    found = (row for one in there for row in rows(one, (2, 2, 2) if quick else one.runs))
    cells = stepped("running", len(ROWS) * len(there), found)
    order = [title for title, *_ in ROWS]
    cells.sort(key=lambda row: order.index(row[0]))
    files.report("peer-libraries", markdown(HEADER, cells))


if __name__ == "__main__":
    main(command)
