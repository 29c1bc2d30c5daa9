"""``ikos sum``, ``mean``, ``secure-sum`` and ``demo``: the sum of a column, private or exact."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, cast

import click

from ikos.cli import groups, release
from ikos.cli.errors import Command
from ikos.cli.options import CLEAR_SHARE, check_plot, connected, from_option, takes, takes_columns
from ikos.cli.output import plain
from ikos.cli.types import INTEGER, SIGMA, Honest
from ikos.results.report import Field, Report, digits, values

if TYPE_CHECKING:
    from ikos.results.guarantees import SecureGuarantee
    from ikos.results.sums import SumResult
    from ikos.sums import PrivateSum, SecureSum
    from ikos.sums.ledger import Ledger

KEYS = [
    *release.SUM_KEYS,
    Field("sum", "the estimate of the sum, in the data's units, unbiased and not clipped; with "
          "--by or several columns null, as are all estimates beside those in rows",
          value="sum.value"),
    Field("sum_low", "lower end of its interval", value="sum.interval.low"),
    Field("sum_high", "upper end of its interval", value="sum.interval.high"),
    Field("mean", "the estimate of the mean", value="mean.value"),
    Field("mean_low", "lower end of its interval", value="mean.interval.low"),
    Field("mean_high", "upper end of its interval", value="mean.interval.high"),
    Field("confidence", "confidence level of the intervals", value="request.confidence"),
    Field("standard_error", "bound on the root mean squared error of the sum; "
          "with --by, --on-missing exclude and several columns null"),
    Field("epsilon", "epsilon of the guarantee", value="guarantee.epsilon"),
    Field("delta", "proved delta; 1 without a proof"),
    Field("requested_delta", "the delta requested", value="request.delta"),
    Field("precision", "steps of the encoding between the bounds"),
    Field("integers", "whether values were taken as integers, without rounding",
          value="request.integers"),
    Field("wrap_probability", "bound on the probability that the estimate wrapped around",
          value="result.error.wrap_probability"),
    *groups.KEYS,
    *groups.fields("count", "with --on-missing exclude and without --by, "),
    *groups.fields("missing", "without --by, "),
    release.LEDGER,
    release.PLOT,
    Field("not_private", "with --show-true, the true values: true_sum, true_mean, sum_error, "
          "clamped_values, true_sum_before_clamping; else null"),
]  # fmt: skip

NUMBERS = ("count", "sum", "mean", "missing")

EXAMPLES = """\b
Examples
  ikos {0} people.csv --column age \\
      --lower 0 --upper 100 --epsilon 1 --delta 1e-9
  ikos {0} people.csv --column age --by region --groups north,south \\
      --lower 0 --upper 100 --epsilon 1 --delta 1e-9 --on-missing exclude
  ikos {0} people.csv --column age --column pay \\
      --lower 0 --upper 100 --upper 10^6 --epsilon 1 --delta 1e-9
  grep -v '^#' people.csv | ikos {0} - --column age \\
      --lower 0 --upper 100 --epsilon 1 --delta 1e-9
"""


@dataclass(frozen=True, kw_only=True)
class PrivateSumRequest(groups.NumbersRequest):
    """Options of private sums and means."""

    precision: int | None
    modulus: int | None
    messages: int | None
    unproved: bool
    threads: int | None
    workers: int | None
    scheduler: str | None
    confidence: float
    plot: Path | None
    show_true: bool = from_option(
        is_flag=True, help="Also print the true values, which are NOT private."
    )

    def protocol(self, users: int) -> PrivateSum:
        """Return the protocol for a number of users."""
        from ikos.sums import PrivateSum

        return PrivateSum(
            users, self.epsilon, self.delta, lower=self.lower, upper=self.upper,
            integers=self.integers, precision=self.precision, modulus=self.modulus,
            messages=self.messages, **self.trust(users),
        )  # fmt: skip

    def check_together(self, several: bool) -> None:
        """Refuse options of the sum of all users where there are several sums."""
        names = (
            "precision", "modulus", "messages", "unproved", "threads", "workers", "scheduler",
            "show_true",
        )  # fmt: skip
        where = "several columns" if several else "--by and --on-missing exclude"
        for name in ("integers", *names) if several else names:
            if getattr(self, name):
                raise click.UsageError(f"--{name.replace('_', '-')} is not for {where}")


@dataclass(frozen=True)
class PrivateOutcome(release.SumOutcome):
    """A private sum that was released; with ``truth`` only if that was requested."""

    request: PrivateSumRequest
    result: SumResult
    ledger: Ledger | None
    truth: release.Truth | None
    count: ClassVar[None] = None
    missing: ClassVar[None] = None

    @property
    def delta(self) -> float:
        """The proved delta."""
        return self.result.guarantee.delta if self.protocol.guarantee.proved else 1.0

    @property
    def precision(self) -> int:
        """Steps of the encoding between the bounds."""
        return cast("PrivateSum", self.protocol).precision

    @property
    def standard_error(self) -> float:
        """Bound on the root mean squared error of the sum."""
        return self.result.standard_error

    @property
    def sum(self) -> release.EstimateRow:
        """The estimate of the sum."""
        result = self.result
        return release.EstimateRow("sum", result.estimate, result.interval(self.request.confidence))

    @property
    def mean(self) -> release.EstimateRow:
        """The estimate of the mean."""
        interval = self.result.mean_interval(self.request.confidence)
        return release.EstimateRow("mean", self.result.mean(), interval)

    @property
    def not_private(self) -> dict[str, float] | None:
        """The true values, if they were requested."""
        truth = self.truth
        return None if truth is None else {
            "true_sum": truth.total, "true_mean": truth.total / self.users,
            "sum_error": self.result.estimate - truth.total, "clamped_values": truth.clamped,
            "true_sum_before_clamping": truth.before_clamping,
        }  # fmt: skip


def _released(request: PrivateSumRequest) -> PrivateOutcome:
    """Release the sum of a column."""
    rule = request.rule
    source = request.source(gaps=request.fill is not None)
    ledger = release.opened(request.ledger, request.note)
    truth = release.Truth() if request.show_true else None
    with connected(request.workers, request.scheduler) as cluster:
        users, column = release.read(source.values, rule, truth)
        protocol = request.protocol(users)
        release.check_proved(protocol, unproved=request.unproved)
        with release.adding_up():
            result = protocol.run(column, threads=request.threads, cluster=cluster, ledger=ledger)
    return PrivateOutcome(
        source, rule, users, protocol, result.guarantee, result.cost, request, result, ledger,
        truth,
    )  # fmt: skip


def _notes(outcome: PrivateOutcome) -> list[str]:
    from ikos.results.text import percent

    estimate, users, rule = outcome.result.estimate, outcome.users, outcome.rule
    confidence = percent(outcome.request.confidence)
    notes = [f"Each interval contains the true value with {confidence} confidence."]
    if not users * rule.lower <= estimate <= users * rule.upper:
        notes.append("The noise is large: the estimate is outside the possible range.")
    if outcome.truth is not None:
        total = outcome.truth.total
        notes.append(
            f"True values (NOT private, do not publish): sum {total:,.15g}, mean "
            f"{total / users:,.10g}; the estimated sum is off by {estimate - total:,.6g}."
        )
    return notes + release.notes_of(outcome) + release.ledger_notes(outcome.ledger)


def _warnings(outcome: PrivateOutcome) -> list[str]:
    from ikos.results.sums import budget_warnings, noise_warnings

    request, result = outcome.request, outcome.result
    guarantee = result.guarantee
    warnings = release.warnings_of(outcome.protocol, request.corrupt_shufflers)
    warnings += noise_warnings(result.domain, outcome.users, result.standard_error)
    if not guarantee.vacuous:
        warnings += budget_warnings(request.epsilon, request.delta, outcome.users)
        if Fraction(guarantee.delta) > request.delta:
            proved, requested = f"{guarantee.delta:.3g}", f"{float(request.delta):.3g}"
            warnings.append(f"the proved delta is {proved}, not the requested {requested}")
    return warnings


def _released_together(requests: list[PrivateSumRequest], quantities: str) -> Report:
    """Release several sums and means, or those of users who have a value."""
    from ikos.statistics import mean, means

    request, *others = requests
    request.check_together(bool(others))
    ledger = release.opened(request.ledger, request.note)
    values_read, arguments = request.arguments(*others)
    with release.adding_up():
        result = (means if others else mean)(values_read, **arguments, ledger=ledger)
    numbers = quantities.split(" and ")
    report = groups.report(
        requests, result, "sum", NUMBERS, KEYS, title=quantities, confidence=request.confidence,
        ledger=ledger, shown=(*numbers, "count", "missing"),
    )  # fmt: skip
    numbers += ["count"] if request.by else ["count", "missing"] if request.excluded else []
    return release.drawn(report, request.plot, result, *numbers)


def _command(name: str, quantities: str) -> click.Command:
    """Return the command that releases a sum or a mean."""

    @click.command(
        name, cls=Command, sections=groups.SECTIONS, keys=KEYS,
        columns=[*release.COLUMNS, *groups.columns_of_several(*NUMBERS)],
        epilog=EXAMPLES.format(name),
        help=f"""Release a differentially private {quantities} of a table column, or of several.

        {groups.TABLE}

        {groups.PUBLIC}""",
    )  # fmt: skip
    @release.of_table
    @release.nothing_released()
    @takes_columns(PrivateSumRequest)
    def command(requests: list[PrivateSumRequest]) -> Report:
        request, *others = requests
        check_plot(request.plot)
        if others or request.by or request.excluded or request.groups or request.other is not None:
            return _released_together(requests, quantities)
        outcome = _released(request)
        proved = "Private" if outcome.guarantee.proved else "NOT PRIVATE (no proof):"
        title = f"{proved} {quantities} of {outcome.source.which}"
        drawn = quantities.split(" and ")
        estimates = {"sum": outcome.sum, "mean": outcome.mean}
        rows = [estimates[one] for one in drawn]
        data = values(KEYS, outcome)
        report = Report(title, release.COLUMNS, rows, _notes(outcome), data, _warnings(outcome))
        return release.drawn(report, request.plot, outcome.result, *drawn)

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

    944 respondents of the American National Election Study of 1996 said whom
    they would vote for. How many would vote for Bob Dole (1) rather than Bill
    Clinton (0)? The answers are public, so the true values are shown next to
    the estimates.
    """
    from ikos.data.datasets import anes96_path

    words = [str(anes96_path()), "--column", "vote", "--lower", "0", "--upper", "1", "--integers",
             "--epsilon", "1", "--delta", "1e-6", "--show-true"]  # fmt: skip
    equivalent = shlex.join(["ikos", "sum", *words])
    run: Any = command.callback
    report: Report = run(**command.make_context("sum", words).params)
    notes = [
        "944 people said whom they would vote for in 1996: 1 for Bob Dole, 0 for Bill Clinton. "
        "The sum is the number who chose Dole, the mean their proportion. These answers are "
        "public.",
        f"Same as: {equivalent}",
    ]
    data = {**report.data, "equivalent": equivalent}
    return replace(report, notes=[*notes, *report.notes], data=data)


# The exact sum

EXACT_KEYS = [
    *release.SUM_KEYS,
    Field("sum", "exact, a string of digits", value="digits"),
    Field("mean", "the nearest double; null beyond their range"),
    Field("differentially_private", "always false: the analyzer learns the exact sum"),
    Field("guarantee", "sigma (total variation at most 2^-sigma), theorem, conditions"),
    Field("sigma", "sigma of the guarantee; null if there is nothing to hide"),
    Field("requested_sigma", "the security requested"),
]

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
    "NOT differentially private: the analyzer learns the exact sum. Anyone who also knows the "
    "other values, or the sum without one of these people, learns that person's value by "
    "subtraction. 'ikos sum' adds noise to prevent this."
)


@dataclass(frozen=True, kw_only=True)
class ExactRequest(release.BoundedRequest):
    """Options of exact sums, between integer bounds."""

    lower: int = from_option(type=INTEGER, default=0)
    upper: int = from_option(type=INTEGER, required=True)
    sigma: Fraction = from_option(type=SIGMA, default="80", help="Security level sigma in bits.")
    min_honest: int | Fraction | None
    corrupt_shufflers: int
    modulus: int | None = from_option(show_default="large enough for every sum")
    analysis: str
    shuffler: str
    clear_share: bool = from_option(CLEAR_SHARE)
    unproved: bool
    threads: int | None

    def order(self, users: int) -> int:
        """Return the order of a group in which the sum cannot wrap around."""
        from ikos.counts.published import covered

        least = users * (self.upper - self.lower) + 1
        if self.modulus is None:  # ghazi2020 is proved for primes only
            prime = self.analysis == "ghazi2020"
            return covered("ghazi2020", least) if prime else 1 << (least - 1).bit_length()
        if self.modulus < least:
            raise click.UsageError(
                f"--modulus must be at least {digits(least)}, or a sum of {users} values in "
                f"[{plain(self.lower)}, {plain(self.upper)}] could wrap around, got "
                f"{plain(self.modulus)}"
            )
        return self.modulus

    def protocol(self, users: int) -> SecureSum:
        """Return the protocol for a number of users."""
        from ikos.sums import SecureSum

        return SecureSum(
            users, self.order(users), upper=self.upper - self.lower, sigma=self.sigma,
            analysis=self.analysis, shuffler=self.shuffler, clear_share=self.clear_share,
            min_honest=Honest.of(self.min_honest, users),
            corrupt_shufflers=self.corrupt_shufflers,
        )  # fmt: skip


@dataclass(frozen=True)
class ExactOutcome(release.SumOutcome):
    """An exact sum."""

    guarantee: SecureGuarantee
    sum: int
    requested_sigma: Fraction
    differentially_private: bool = False

    @property
    def digits(self) -> str:
        """The sum, however large."""
        return digits(self.sum)

    @property
    def mean(self) -> Fraction:
        """The exact mean."""
        return Fraction(self.sum, self.users)

    @property
    def sigma(self) -> float:
        """The proved security in bits."""
        return self.guarantee.sigma if self.guarantee.proved else 0.0


@click.command(
    "secure-sum", cls=Command, epilog=EXACT_EXAMPLES, keys=EXACT_KEYS, columns=EXACT_COLUMNS,
    sections={"column": "Values", "lower": "Values", "sigma": "Security",
              "no_header": "Table format", "modulus": "Protocol", "threads": "Where to run",
              "format": "Output"},
)  # fmt: skip
@release.of_table
@release.nothing_released()
@takes(ExactRequest)
def command_secure_sum(request: ExactRequest) -> Report:
    """Compute an exact sum securely, without differential privacy.

    The values are integers. The analyzer learns their sum and, up to a
    probability of 2^-sigma, nothing else. The sum itself is NOT
    differentially private: for that, use 'ikos sum'.

    TABLE is as for 'ikos sum'. The bounds and the number of rows are public:
    do not take bounds from the data.
    """
    rule = release.Rule.of(request, exact=True)
    source = request.source(integers=True)
    users, column = release.read(source.values, rule)
    protocol = request.protocol(users)
    release.check_proved(protocol, unproved=request.unproved)
    with release.adding_up():
        shifted = protocol.run(column, threads=request.threads)
    outcome = ExactOutcome(
        source, rule, users, protocol, protocol.guarantee, protocol.cost(),
        shifted + users * request.lower, request.sigma,
    )  # fmt: skip
    proved = "Exact" if outcome.guarantee.proved else "NOT SECURE (no proof): exact"
    mean = outcome.mean
    whole = mean.denominator == 1 or abs(mean) >= 1 << 1000
    rows = [
        {"name": "sum", "value": outcome.sum},
        {"name": "mean", "value": round(mean) if whole else float(mean)},
    ]
    notes = [EXPOSED, *release.notes_of(outcome)]
    title = f"{proved} sum and mean of {source.which}"
    warnings = release.warnings_of(protocol, request.corrupt_shufflers)
    return Report(title, EXACT_COLUMNS, rows, notes, values(EXACT_KEYS, outcome), warnings)
