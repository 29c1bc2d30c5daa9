"""``ikos sum``, ``mean``, ``secure-sum`` and ``demo``: the sum of a column, private or exact."""

from __future__ import annotations

import shlex
from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import click

from ikos.cli import release
from ikos.cli.errors import Command
from ikos.cli.options import connected, option, options
from ikos.cli.output import plain
from ikos.cli.types import INTEGER, SIGMA, Honest
from ikos.results.report import Field, Report, digits, values

KEYS = [
    *release.SUM_KEYS,
    Field("sum", "the estimate of the sum, in the data's units, unbiased and not clipped",
          value="sum.value"),
    Field("sum_low", "lower end of its interval", value="sum.interval.low"),
    Field("sum_high", "upper end of its interval", value="sum.interval.high"),
    Field("mean", "the estimate of the mean", value="mean.value"),
    Field("mean_low", "lower end of its interval", value="mean.interval.low"),
    Field("mean_high", "upper end of its interval", value="mean.interval.high"),
    Field("confidence", "of the intervals"),
    Field("standard_error", "bound on the root mean squared error of the sum",
          value="result.standard_error"),
    Field("epsilon", "epsilon of the guarantee", value="guarantee.epsilon"),
    Field("delta", "proved delta; 1 if nothing is proved",
          value=lambda found: found.guarantee.delta if found.proved else 1.0),
    Field("requested_delta", "the delta requested"),
    Field("precision", "steps of the encoding between the bounds", value="protocol.precision"),
    Field("integers", "whether values were taken as integers, without rounding",
          value="protocol.integers"),
    Field("wrap_probability", "bound on the probability that the estimate wrapped around",
          value="result.error.wrap_probability"),
    release.LEDGER,
    Field("not_private", "with --show-true the truth: true_sum, true_mean, sum_error, "
          "clamped_values, true_sum_before_clamping; else null"),
]  # fmt: skip

SECTIONS = {"column": "Values", "epsilon": "Privacy", "precision": "Protocol",
            "threads": "Where to run", "confidence": "Output"}  # fmt: skip

EXAMPLES = """\b
Examples
  ikos {0} people.csv --column age \\
      --lower 0 --upper 100 --epsilon 1 --delta 1e-9
  grep -v '^#' people.csv | ikos {0} - --column age \\
      --lower 0 --upper 100 --epsilon 1 --delta 1e-9
"""


def _command(name: str, names: str) -> click.Command:
    """Return the command that releases a sum or a mean."""

    @click.command(
        name, cls=Command, sections=SECTIONS, keys=KEYS, columns=release.COLUMNS,
        epilog=EXAMPLES.format(name),
        help=f"""Release the private {names} of a column of TABLE.

        TABLE is CSV (also .gz) or Parquet, one row per user, a folder of such files, or - for CSV
        from standard input. All users, shufflers and the analyzer are simulated here, or on a
        cluster. The bounds must not be taken from the data: they are public, as is the number of
        rows. Every further release about the same people adds to their privacy loss.""",
    )  # fmt: skip
    @release.of_table
    @options(
        "--lower", "--upper", "--on-out-of-range", "--integers", "--epsilon", "--delta",
        "--ledger", "--min-honest", "--corrupt-shufflers", "--precision", "--modulus", "--messages",
        "--unproved", "--analysis", "--shuffler", "--clear-share/--no-clear-share", "--threads",
        required=("--lower", "--upper", "--epsilon", "--delta"),
    )  # fmt: skip
    @options("--workers", "--scheduler", "--confidence")
    @option("--show-true", is_flag=True, help="Also print the truth, which is NOT private.")
    @release.nothing_released()
    def command(confidence: float, show_true: bool, unproved: bool, **given: Any) -> Report:
        from ikos.results.sums import budget_warnings
        from ikos.results.text import percent
        from ikos.sums import PrivateSum

        source, rule = release.taken(given)
        lower, upper = rule.lower, rule.upper
        epsilon, delta = given.pop("epsilon"), given.pop("delta")
        threads, workers = given.pop("threads"), given.pop("workers")
        ledger = release.opened(given.pop("ledger"))
        truth = release.Truth() if show_true else None
        with connected(workers, given.pop("scheduler")) as cluster:
            users, column = release.read(source.values, rule, truth)
            given["min_honest"] = Honest.of(given["min_honest"], users)
            protocol = PrivateSum(users, epsilon, delta, lower=lower, upper=upper, **given)
            how: dict[str, Any] = {"threads": threads, "cluster": cluster, "ledger": ledger}
            result = release.run(protocol, column, unproved=unproved, **how)

        guarantee = result.guarantee
        found = SimpleNamespace(
            source=source, rule=rule, users=users, protocol=protocol, secure=protocol.secure_sum,
            result=result, guarantee=guarantee, cost=result.cost, confidence=confidence,
            requested_delta=delta, not_private=None, ledger=ledger,
            proved=protocol.guarantee.proved,
            sum=release.Estimate("sum", result.estimate, result.interval(confidence)),
            mean=release.Estimate("mean", result.mean(), result.mean_interval(confidence)),
        )  # fmt: skip
        notes = [f"Each interval holds the true value with {percent(confidence)} confidence."]
        if not users * lower <= result.estimate <= users * upper:
            notes.append("The noise is large: the estimate is outside the possible range.")
        if truth is not None:
            error = result.estimate - truth.total
            notes.append(
                f"The truth, NOT private, do not publish: sum {truth.total:,.15g}, mean "
                f"{truth.total / users:,.10g}; the estimated sum is off by {error:,.6g}."
            )
            found.not_private = {
                "true_sum": truth.total, "true_mean": truth.total / users, "sum_error": error,
                "clamped_values": truth.clamped, "true_sum_before_clamping": truth.before_clamping,
            }  # fmt: skip
        warnings = release.warnings_of(protocol)
        if not guarantee.vacuous:
            warnings += budget_warnings(epsilon, delta, users)
            if Fraction(guarantee.delta) > delta:
                got, wanted = f"{guarantee.delta:.3g}", f"{float(delta):.3g}"
                warnings.append(f"the delta proved is {got}, not the {wanted} asked for")
        proved = "Private" if guarantee.proved else "NOT PRIVATE, nothing is proved:"
        title = f"{proved} {names} of {source.which}"
        rows = [getattr(found, name) for name in names.split(" and ")]
        notes += release.notes_of(found) + release.ledger_notes(ledger)
        return Report(title, release.COLUMNS, rows, notes, values(KEYS, found), warnings)

    return command


command = _command("sum", "sum and mean")
command_mean = _command("mean", "mean")

# The demo


@click.command(
    "demo", cls=Command, epilog="\b\nExample\n  ikos demo --json", columns=release.COLUMNS,
    keys=[*KEYS, Field("equivalent", "the equivalent command line")],
)  # fmt: skip
def command_demo() -> Report:
    """Run a private sum on real data that comes with the package.

    944 respondents of the American National Election Study of 1996 said for
    whom they would vote. How many for Bob Dole (1) rather than Bill Clinton
    (0)? The answers are public, so the truth is shown next to the
    estimate.
    """
    from ikos.data.datasets import anes96_path

    words = [str(anes96_path()), "--column", "vote", "--lower", "0", "--upper", "1", "--integers",
             "--epsilon", "1", "--delta", "1e-6", "--show-true"]  # fmt: skip
    equivalent = shlex.join(["ikos", "sum", *words])
    run: Any = command.callback
    report: Report = run(**command.make_context("sum", words).params)
    notes = [
        "944 people said whom they would vote for in 1996: 1 for Bob Dole, 0 for Bill Clinton. "
        "The sum is how many chose Dole, the mean is their share. These answers are public.",
        f"The same as: {equivalent}",
    ]
    data = {**report.data, "equivalent": equivalent}
    return replace(report, notes=[*notes, *report.notes], data=data)


# The exact sum

EXACT_KEYS = [
    *release.SUM_KEYS,
    Field("sum", "exact, a string of digits", value=lambda found: digits(found.sum)),
    Field("mean", "the nearest double; null beyond their range"),
    Field("differentially_private", "always false: the analyzer learns the exact sum",
          value=lambda _: False),
    Field("guarantee", "sigma (total variation at most 2^-sigma), theorem, conditions"),
    Field("sigma", "sigma of the guarantee; null if there is nothing to hide",
          value=lambda found: found.guarantee.sigma if found.proved else 0.0),
    Field("requested_sigma", "the security requested"),
]  # fmt: skip

EXACT_COLUMNS = [
    Field("name", "sum or mean", ""), Field("value", "exact sum, rounded mean", "exact"),
]  # fmt: skip

EXACT_EXAMPLES = """\b
Examples
  ikos secure-sum people.csv --column age --upper 100
  ikos secure-sum people/ --column age \\
      --lower -1 --upper 100 --sigma 40 --shuffler single
"""

EXPOSED = (
    "NOT differentially private: the analyzer learns the exact sum. A party that knows the "
    "other values, or the sum of the same people without one of them, subtracts. 'ikos sum' adds "
    "noise against that."
)


@click.command(
    "secure-sum", cls=Command, epilog=EXACT_EXAMPLES, keys=EXACT_KEYS, columns=EXACT_COLUMNS,
    sections=SECTIONS | {"sigma": "Security", "modulus": "Protocol", "how": "Output"},
)  # fmt: skip
@release.of_table
@option("--lower", type=INTEGER, default=0)
@option("--upper", type=INTEGER, required=True)
@option("--on-out-of-range")
@option("--sigma", type=SIGMA, default="80", help="Security in bits, e.g. 80.")
@options("--min-honest", "--corrupt-shufflers")
@option("--modulus", show_default="holds every sum")
@options("--analysis", "--shuffler", "--clear-share/--no-clear-share", "--unproved", "--threads")
@release.nothing_released()
def command_secure_sum(
    modulus: int | None, unproved: bool, threads: int | None, **given: Any
) -> Report:
    """Sum a column of TABLE, exactly and securely.

    The values are integers. The analyzer learns their sum and, up to a
    probability of 2^-sigma, nothing else. The sum itself is NOT
    differentially private: for that, use 'ikos sum'.

    TABLE is CSV (also .gz) or Parquet, one row per user, a folder of such
    files, or - for CSV from standard input. All users, shufflers and the
    analyzer are simulated here. The bounds must not be taken from the data:
    they are public, as is the number of rows.
    """
    from ikos.counts.published import covered
    from ikos.sums import SecureSum

    source, rule = release.taken(given, exact=True)
    lower, upper = int(rule.lower), int(rule.upper)
    users, column = release.read(source.values, rule)
    least = users * (upper - lower) + 1
    if modulus is not None and modulus < least:
        raise click.UsageError(
            f"--modulus must be at least {digits(least)}, or a sum of {users} values in "
            f"[{plain(lower)}, {plain(upper)}] could wrap around, got {plain(modulus)}"
        )
    q = 1 << (least - 1).bit_length() if modulus is None else modulus
    if modulus is None and given["analysis"] == "ghazi2020":  # proved for primes only
        q = covered("ghazi2020", least)
    given["min_honest"] = Honest.of(given["min_honest"], users)
    protocol = SecureSum(users, q, upper=upper - lower, **given)
    total = release.run(protocol, column, unproved=unproved, threads=threads) + users * lower

    mean = Fraction(total, users)
    found = SimpleNamespace(
        source=source, rule=rule, users=users, protocol=protocol, secure=protocol,
        guarantee=protocol.guarantee, cost=protocol.cost(), sum=total, mean=mean,
        requested_sigma=given["sigma"], proved=protocol.guarantee.proved,
    )  # fmt: skip
    proved = "Exact" if found.proved else "NOT SECURE, nothing is proved: exact"
    whole = mean.denominator == 1 or abs(mean) >= 1 << 1000
    shown = round(mean) if whole else float(mean)
    rows = [{"name": "sum", "value": total}, {"name": "mean", "value": shown}]
    notes = [EXPOSED, *release.notes_of(found)]
    data, warnings = values(EXACT_KEYS, found), release.warnings_of(protocol)
    title = f"{proved} sum and mean of {source.which}"
    return Report(title, EXACT_COLUMNS, rows, notes, data, warnings)
