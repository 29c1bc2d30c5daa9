"""``ikos sum`` and ``ikos mean``: the private sum and mean of a column."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import click

from ikos.cli import release
from ikos.cli.cluster import connected
from ikos.cli.errors import Command
from ikos.cli.options import check_bounds, format_options, option, options
from ikos.cli.output import power_text, print_report, progress
from ikos.report import Report

if TYPE_CHECKING:
    from ikos.aggregation.shuffled_sum import Engine

KEYS = {
    **release.KEYS,
    "sum": "the estimate of the sum, in the data's units, unbiased and not clipped",
    "sum_low": "lower end of its interval",
    "sum_high": "upper end of its interval",
    "mean": "the estimate of the mean",
    "mean_low": "lower end of its interval",
    "mean_high": "upper end of its interval",
    "confidence": "of the intervals",
    "standard_error": "of the sum: bound on the root of its mean squared error",
    "epsilon": "that of the guarantee",
    "delta": "that of the guarantee: what is proved, 1 where nothing is",
    "requested_delta": "the delta that was asked for",
    "precision": "steps of the encoding between the bounds",
    "integers": "whether values were taken as integers, without rounding",
    "wrap_probability": "bound on the probability that the estimate wrapped around",
    "not_private": "with --show-true the truth: true_sum, true_mean, sum_error, clamped_values, "
    "true_sum_before_clamping; else null",
}

SECTIONS = {
    "column": "Values",
    "epsilon": "Privacy",
    "precision": "Protocol",
    "threads": "Where to run",
    "confidence": "Output",
}

EXAMPLES = """\b
Examples
  ikos {0} people.csv --column age \\
      --lower 0 --upper 100 --epsilon 1 --delta 1e-9
  ikos {0} adult.data --no-header --column 1 --integers \\
      --lower 0 --upper 99 --epsilon 1 --delta 1e-9 --json
  grep -v '^#' people.csv | ikos {0} - --column age \\
      --lower 0 --upper 100 --epsilon 1 --delta 1e-9
"""


def release_sum(
    source: release.Source,
    *,
    command: str,
    lower: float,
    upper: float,
    epsilon: Fraction,
    delta: Fraction,
    confidence: float = 0.95,
    on_out_of_range: str = "reject",
    show_true: bool = False,
    unproved: bool = False,
    threads: int | None = None,
    cluster: Engine | None = None,
    **parameters: Any,
) -> Report:
    """Run the private sum of a column, and report it; ``parameters`` are those of `PrivateSum`."""
    from ikos import PrivateSum
    from ikos.results import percent

    check_bounds(lower, upper)
    clamp = on_out_of_range == "clamp"
    rule = release.Rule(lower, upper, clamp, bool(parameters.get("integers", False)))
    truth = release.Truth() if show_true else None
    users, values = release.read(source.open(), rule, truth)
    release.honest_users(parameters, users)
    protocol = PrivateSum(users, epsilon, delta, lower=lower, upper=upper, **parameters)
    release.check_runnable(protocol, protocol.modulus, unproved=unproved)
    with progress("adding up shares") as shown:
        result = protocol.run(values, threads=threads, cluster=cluster, progress=shown)

    total, mean = result.interval(confidence), result.mean_interval(confidence)
    found = {"sum": (result.estimate, total), "mean": (result.mean(), mean)}
    if command == "mean":
        del found["sum"]
    columns, rows = release.estimates(found)
    secure, guarantee = protocol.secure_sum, result.guarantee
    sent = f"{result.cost}, integers modulo {power_text(protocol.modulus)}"
    notes = [f"Each interval holds the true value with {percent(confidence)} confidence."]
    if not users * lower <= result.estimate <= users * upper:
        notes.append("The noise is large: the estimate is beyond what the bounds allow.")
    if truth is not None:
        error = result.estimate - truth.total
        notes.append(
            f"The truth, NOT private, do not publish: sum {truth.total:,.15g}, mean "
            f"{truth.total / users:,.10g}; the estimated sum is off by {error:,.6g}."
        )
    notes += release.notes_of(guarantee, lower, upper, users, sent, clamp=clamp)
    warnings = release.warnings_of(protocol, protocol.modulus, secure.corrupt_shufflers)
    title = f"Private {' and '.join(found)} of {source.which}"
    if not guarantee.proved:
        title = f"NOT PRIVATE, nothing is proved: {' and '.join(found)} of {source.which}"
    return Report(
        title,
        columns,
        rows,
        notes,
        {
            "command": command,
            **release.about(source, protocol, secure, clamp),
            "lower": lower,
            "upper": upper,
            "sum": result.estimate,
            "sum_low": total.low,
            "sum_high": total.high,
            "mean": result.mean(),
            "mean_low": mean.low,
            "mean_high": mean.high,
            "confidence": confidence,
            "standard_error": result.standard_error,
            "guarantee": guarantee,
            "epsilon": guarantee.epsilon,
            "delta": guarantee.delta if protocol.guarantee.proved else 1.0,
            "requested_delta": delta,
            "cost": result.cost,
            "precision": protocol.precision,
            "integers": protocol.integers,
            "wrap_probability": result.error.wrap_probability,
            "warnings": warnings + release.budget_said(guarantee, epsilon, delta, users),
            "not_private": truth
            and {
                "true_sum": truth.total,
                "true_mean": truth.total / users,
                "sum_error": result.estimate - truth.total,
                "clamped_values": truth.clamped,
                "true_sum_before_clamping": truth.before_clamping,
            },
        },
    )


def _command(name: str, what: str) -> click.Command:
    """Return the command that releases a sum or a mean."""

    @click.command(
        name, cls=Command, sections=SECTIONS, keys=KEYS, columns=release.COLUMNS,
        epilog=EXAMPLES.format(name),
        help=f"""Release the private {what} of a column of TABLE.

        TABLE is CSV (.gz as well) or Parquet, a row per user, a folder of such files, or - for CSV
        from standard input. All users, shufflers and the analyzer are simulated here, or on a
        cluster. The bounds must not be taken from the data: they are public, as is the number of
        rows. Every further release about the same people adds to what it costs them.""",
    )  # fmt: skip
    @release.of_table
    @options(
        "--lower", "--upper", "--on-out-of-range", "--integers", "--epsilon", "--delta",
        "--min-honest", "--corrupt-shufflers", "--precision", "--modulus", "--messages",
        "--unproved", "--analysis", "--shuffler", "--clear-share/--no-clear-share", "--threads",
        required=("--lower", "--upper", "--epsilon", "--delta"),
    )  # fmt: skip
    @option(
        "--workers",
        help="Run in this many processes of Dask on this machine instead. Needs the extra "
        "'cluster'.",
    )
    @options("--scheduler", "--confidence")
    @option("--show-true", is_flag=True, help="Print the truth as well, which is NOT private.")
    @format_options
    def command(
        how: str,
        workers: int | None,
        scheduler: str | None,
        **given: Any,
    ) -> None:
        if given["threads"] is not None and (workers is not None or scheduler is not None):
            raise click.UsageError("--threads goes without --workers and --scheduler")
        source = release.Source.taken(given)
        with release.nothing_released(), connected(workers, scheduler) as cluster:
            chosen = {key: value for key, value in given.items() if value is not None}
            report = release_sum(source, command=name, cluster=cluster, **chosen)
        print_report(report, how)

    return command


command = _command("sum", "sum and mean")
command_mean = _command("mean", "mean")
