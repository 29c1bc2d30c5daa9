"""A private sum of a column of values: run, then put into words or JSON.

The JSON object of ``ikos sum`` and ``ikos demo``; all keys are always there:

- ``command``, ``version``, ``file``, ``column``: strings.
- ``users``, ``lower``, ``upper``, ``out_of_range`` ("reject" or "clamp"): what is public.
- ``sum``, ``sum_low``, ``sum_high``, ``mean``, ``mean_low``, ``mean_high``, ``confidence``,
  ``standard_error`` (of the sum): the release, in the data's units.
- ``epsilon``, ``delta`` (proved; 1 where nothing is), ``requested_delta``, ``noise_epsilon`` (what
  is left of epsilon for the noise), ``proved`` (boolean), ``adjacency``, ``theorem``,
  ``conditions`` (strings; none where nothing is proved), ``warnings`` (strings): the guarantee.
- ``analysis`` (null where nothing is proved), ``sigma`` (0 there; null where ``unlimited``, a
  boolean), ``shuffler``, ``clear_share`` (boolean), ``shuffled``, ``clear``, ``total``,
  ``bits_per_message``, ``bits_per_user``, ``all_messages``, ``precision``, ``modulus`` (a string of
  digits, because it can exceed 2^53), ``integers`` (boolean), ``min_honest``,
  ``corrupt_shufflers``, ``wrap_probability``: what was sent.
- ``not_private``: null, or with ``--show-true`` an object of ``true_sum``, ``true_mean``,
  ``sum_error``, ``mean_error`` (all of the values that went into the protocol),
  ``clamped_values`` and ``true_sum_before_clamping``.

Every number that is an integer here is below 2^53.
"""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from ikos import __version__
from ikos.cli.errors import Interrupted
from ikos.cli.output import (
    aligned,
    bold,
    figures,
    integer_text,
    outwards,
    power_text,
    progress,
    remaining,
    wrapped,
)
from ikos.cli.types import Honest
from ikos.concurrency import Interrupted as Stopped
from ikos.counts.published import unproved
from ikos.results import at_least, at_most, budget_warnings, percent, trust_warnings

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ikos import MessageCount, PrivateSum, SumResult
    from ikos.aggregation.execution import Engine
    from ikos.tables import Column

MAX_MESSAGES = 10**11
"""About a quarter of an hour on one core."""


@dataclass(frozen=True)
class Truth:
    """What the data holder knows and nobody else may: never printed unless asked for."""

    total: float
    clamped: int
    before_clamping: float


class Reading:
    """How far the reading has come, for whoever interrupts it, and the truth where it is wanted."""

    def __init__(self) -> None:
        self.rows = 0
        self.whole = False
        self._inside: list[float] = []
        self._given: list[float] = []
        self._clamped = 0

    def add(self, given: NDArray[np.float64], inside: NDArray[np.float64]) -> None:
        """Add what is true of a block, as it is given and as it goes into the protocol."""
        self._inside = _summands([*self._inside, *inside.tolist()])
        self._given = _summands([*self._given, *given.tolist()])
        self._clamped += int((inside != given).sum())

    @property
    def truth(self) -> Truth:
        """The sums, correctly rounded: as if all numbers had been added by `math.fsum` at once."""
        return Truth(math.fsum(self._inside), self._clamped, math.fsum(self._given))

    @contextmanager
    def told(self, path: str) -> Iterator[None]:
        """Say at Ctrl-C what was done.

        Parameters
        ----------
        path : str
            The command, for the message.
        """
        try:
            yield
        except KeyboardInterrupt as stop:
            if isinstance(stop, Stopped) and (stop.trials or not self.rows):
                said = str(stop)
            elif self.whole:
                said = f"interrupted after reading all {self.rows:,} rows"
            elif self.rows:
                said = f"interrupted after reading {self.rows:,} rows"
            else:
                said = "interrupted before any row was read"
            raise Interrupted(f"{path}: {said}; nothing was released") from None


def _summands(values: list[float]) -> list[float]:
    """Return few numbers, of decreasing size, whose sum is exactly that of all of these."""
    # fsum rounds correctly. What its rounding left out is a sum of the same numbers and of the
    # sums found so far, so that it is rounded correctly too, until nothing is left.
    found = []
    while rest := math.fsum(values):
        found.append(rest)
        values.append(-rest)
    return found


@dataclass(frozen=True)
class Rule:
    """What is done with values before anybody encodes them. It can be pickled."""

    lower: float
    upper: float
    clamp: bool
    integers: bool

    def __call__(self, values: NDArray[np.float64], before: int) -> NDArray[np.float64]:
        """Return a block of values within the bounds, or refuse one of them."""
        import numpy as np

        from ikos.tables import BadRow

        del before
        outside = (values < self.lower) | (values > self.upper)
        inside = values
        if outside.any():
            if not self.clamp:
                raise BadRow(
                    int(np.argmax(outside)),
                    f"outside [{self.lower:.10g}, {self.upper:.10g}]; give public bounds that hold "
                    "every value, or --on-out-of-range clamp",
                )
            inside = np.clip(values, self.lower, self.upper)
        if self.integers and (broken := inside != np.floor(inside)).any():
            raise BadRow(int(np.argmax(broken)), "which is no integer as --integers says")
        return inside


@dataclass(frozen=True)
class Release:
    """A private sum that was run, and how to present it."""

    command: str
    file: str
    column: str
    clamp: bool
    confidence: float
    delta: Fraction
    protocol: PrivateSum
    result: SumResult
    truth: Truth | None

    @property
    def unproved(self) -> str | None:
        """Why the guarantee is no proof, though its formula says something."""
        return unproved(self.protocol.messages.analysis, self.protocol.modulus)

    @property
    def proved(self) -> bool:
        """Whether the messages prove something for this group."""
        return self.protocol.guarantee.proved

    def warnings(self) -> list[str]:
        """Return what must be said beside the result where the guarantee is not as asked."""
        guarantee = self.result.guarantee
        sent = many(self.protocol.messages.total)
        if guarantee.vacuous:
            return [f"{sent} nothing: this result has no differential privacy guarantee"]
        said = budget_warnings(self.protocol.epsilon, self.delta, self.result.users)
        said += trust_warnings(
            self.protocol.secure_sum.corrupt_shufflers, self.protocol.messages.shuffled
        )
        if self.unproved:
            said.append(f"{self.protocol.messages.analysis}: {self.unproved}")
        if Fraction(guarantee.delta) > self.delta:
            said += [
                f"{sent} delta = {at_least(guarantee.delta, 3)} only, not the "
                f"{float(self.delta):.3g} asked for"
            ]
        return said

    def text(self) -> list[str]:
        """Return the result in words, in lines of at most 80 columns."""
        result = self.result
        sum_ends = result.interval(self.confidence)
        mean_ends = result.mean_interval(self.confidence)
        rows = [
            ("", "estimate", f"{percent(self.confidence)} interval"),
            ("sum", *_with_interval(result.estimate, sum_ends)),
            ("mean", *_with_interval(result.mean(), mean_ends)),
        ]
        title = (
            "Private sum and mean"
            if self.proved
            else "NOT PRIVATE, nothing is proved: sum and mean"
        )
        lines = [bold(f"{title} of {which(self.column)}"), *aligned(rows)]
        lowest, highest = result.users * result.lower, result.users * result.upper
        if not lowest <= result.estimate <= highest:
            lines += wrapped(
                "The estimate is beyond what the bounds allow: the noise is large against so few "
                "users. Nothing is clipped, so that it stays unbiased."
            )
        if self.clamp:
            lines += wrapped(
                "Values outside the bounds were moved to the nearest bound, and the estimates are "
                "of the moved values. Their number, which is not private, is not shown."
            )
        if self.truth is not None:
            lines += ["", *self._truth_lines(self.truth, sum_ends.high - sum_ends.low)]
        lines += ["", *self._guarantee_lines(), "", *self._sent_lines()]
        return lines

    def _truth_lines(self, truth: Truth, width: float) -> list[str]:
        result = self.result
        n = result.users
        error = result.estimate - truth.total
        rows = [
            ("", "true value", "error of the estimate"),
            ("sum", *(figures(value, _scale(value, width)) for value in (truth.total, error))),
            ("mean", figures(truth.total / n, width / 2 / n), figures(error / n, width / 2 / n)),
        ]
        heading = "The truth, NOT private: do not publish"
        if self.command == "demo":
            heading = "The truth (these answers are public; of your own data, do not publish it)"
        lines = [bold(heading), *aligned(rows)]
        if self.clamp:
            lines += wrapped(
                f"{truth.clamped:,} value{'s were' if truth.clamped != 1 else ' was'} clamped. "
                "Before that the sum was "
                f"{figures(truth.before_clamping, _scale(truth.before_clamping, width))}."
            )
        return lines

    def _guarantee_lines(self) -> list[str]:
        guarantee, result, count = self.result.guarantee, self.result, self.protocol.messages
        heading = bold("What is guaranteed to each user")
        public = (
            f"The number of users, {result.users:,}, and the bounds, {result.lower:.10g} and "
            f"{result.upper:.10g}, are public and not protected."
        )
        if not self.proved:
            why = (
                f": {count.analysis} is {self.unproved}"
                if self.unproved
                else " for so few messages"
            )
            nothing = f"NOTHING is proved{why}. The shares may give the values away."
            return [heading, *wrapped(nothing), *wrapped(public)]
        adjacency = "replacement of one user's value"
        if guarantee.adjacency != "replace-one":
            adjacency = f"{guarantee.adjacency} adjacency"
        return [
            heading,
            *wrapped(
                f"({at_least(guarantee.epsilon, 6)}, {at_least(guarantee.delta, 3)})-"
                f"differential privacy under {adjacency}{self._asked()}: up to a factor e^epsilon "
                "and a probability delta, everything would have looked the same had that value "
                f"been another.{self._left()}"
            ),
            *wrapped(f"The proof: {guarantee.theorem}."),
            *wrapped("It holds"),
            *(line for item in guarantee.conditions for line in wrapped(item, "  - ", "    ")),
            *wrapped(public),
        ]

    def _asked(self) -> str:
        """Return why the delta proved is not the one asked for, if what is printed is not."""
        proved, asked = self.result.guarantee.delta, f"{float(self.delta):.3g}"
        if Fraction(proved) >= self.delta or at_least(proved, 3) == asked:
            return ""
        return f" (delta = {asked} was asked for; whole messages prove more)"

    def _left(self) -> str:
        """Return how much of epsilon is left for the noise, if not all of it."""
        epsilon, noise_epsilon = self.protocol.epsilon, self.protocol.messages.noise_epsilon
        assert noise_epsilon is not None
        left = remaining(noise_epsilon, epsilon)
        if left == epsilon:
            return ""
        return f" Of epsilon, {at_most(left, 4)} is left for the noise; hiding takes the rest."

    def _sent_lines(self) -> list[str]:
        count, cost = self.protocol.messages, self.result.cost
        kinds = ways(count, self.protocol.secure_sum.shuffler)
        return [
            bold("What was sent (here, in a simulation of all parties)"),
            *wrapped(
                f"{cost.messages_per_user:,} message{'s' * (count.total > 1)} of "
                f"{cost.bits_per_message:,} bit{'s' * (cost.bits_per_message != 1)} per user "
                f"({-(-cost.bits_per_user // 8):,} bytes): {kinds}. "
                f"{cost.messages:,} messages in all, numbers modulo "
                f"{power_text(self.protocol.modulus)}; "
                + (
                    "the integers are added as they are."
                    if self.protocol.integers
                    else f"values are rounded at random to {self.protocol.precision:,} "
                    f"step{'s' * (self.protocol.precision != 1)}."
                )
            ),
        ]

    def json(self) -> dict[str, Any]:
        """Return the object that the module's documentation describes."""
        result, protocol, count = self.result, self.protocol, self.protocol.messages
        sum_ends = result.interval(self.confidence)
        mean_ends = result.mean_interval(self.confidence)
        guarantee, cost = result.guarantee, result.cost
        return {
            "command": self.command,
            "version": __version__,
            "file": self.file,
            "column": self.column,
            "users": result.users,
            "lower": result.lower,
            "upper": result.upper,
            "out_of_range": "clamp" if self.clamp else "reject",
            "sum": result.estimate,
            "sum_low": sum_ends.low,
            "sum_high": sum_ends.high,
            "mean": result.mean(),
            "mean_low": mean_ends.low,
            "mean_high": mean_ends.high,
            "confidence": self.confidence,
            "standard_error": result.standard_error,
            "epsilon": guarantee.epsilon,
            "delta": guarantee.delta if self.proved else 1,
            "requested_delta": float(self.delta),
            "noise_epsilon": count.noise_epsilon,
            "proved": self.proved,
            "adjacency": guarantee.adjacency,
            "theorem": guarantee.theorem,
            "conditions": list(guarantee.conditions) if self.proved else [],
            "warnings": self.warnings(),
            "analysis": count.analysis if self.proved else None,
            "sigma": (count.sigma if self.proved else 0) if math.isfinite(count.sigma) else None,
            "unlimited": math.isinf(count.sigma),
            "shuffler": protocol.secure_sum.shuffler,
            "clear_share": bool(count.clear),
            "shuffled": count.shuffled,
            "clear": count.clear,
            "total": count.total,
            "bits_per_message": cost.bits_per_message,
            "bits_per_user": cost.bits_per_user,
            "all_messages": cost.messages,
            "precision": protocol.precision,
            "modulus": integer_text(protocol.modulus),
            "integers": protocol.integers,
            "min_honest": protocol.min_honest,
            "corrupt_shufflers": protocol.secure_sum.corrupt_shufflers,
            "wrap_probability": result.error.wrap_probability,
            "not_private": None if self.truth is None else self._truth_json(self.truth),
        }

    def _truth_json(self, truth: Truth) -> dict[str, Any]:
        users, error = self.result.users, self.result.estimate - truth.total
        return {
            "true_sum": truth.total,
            "true_mean": truth.total / users,
            "sum_error": error,
            "mean_error": error / users,
            "clamped_values": truth.clamped,
            "true_sum_before_clamping": truth.before_clamping,
        }


def release(
    table: Column,
    reading: Reading,
    *,
    command: str,
    file: str,
    column: str,
    lower: float,
    upper: float,
    epsilon: Fraction,
    delta: Fraction,
    clamp: bool,
    show_true: bool,
    confidence: float,
    options: Mapping[str, Any],
    threads: int | None = None,
    cluster: Engine | None = None,
) -> Release:
    """Run the private sum of a column.

    Where the number of rows is known, values are read as they are added up, by the workers of a
    cluster if there is one. Else they are read first, 8 bytes for each.

    Parameters
    ----------
    table : Column
        The values, one per user.
    reading : Reading
        Told how far the reading has come.
    command, file, column : str
        Where it comes from, for the report.
    lower, upper, epsilon, delta
        As for `PrivateSum`.
    clamp : bool
        Move values outside the bounds to the nearest bound, rather than refuse them.
    show_true : bool
        Whether to find the truth as well.
    confidence : float
        Of the intervals that will be reported.
    options : mapping
        Further arguments of `PrivateSum`; ``min_honest`` may be a share of the users.
    threads, cluster
        As for `PrivateSum.run`.

    Raises
    ------
    ValueError
        If a value is outside the bounds and not to be clamped, or the parameters are refused.
    """
    from ikos import PrivateSum

    rule = Rule(lower, upper, clamp, bool(options.get("integers", False)))
    by_workers = cluster is not None and table.rows is not None

    def look(values: NDArray[np.float64], before: int) -> NDArray[np.float64]:
        inside = rule(values, before)
        reading.rows += values.size
        if show_true:
            reading.add(values, inside)
        return inside

    def blocks() -> Iterator[NDArray[np.float64]]:
        with progress("reading") as report:
            yield from table.seen(look).blocks(report)
        reading.whole = True

    users = table.rows
    held: deque[NDArray[np.float64]] = deque()
    if users is None:
        held.extend(blocks())
        users = reading.rows
    given = {"integers": False, **options}
    anyway = given.pop("unproved", False)
    if isinstance(given.get("min_honest"), Fraction):
        given["min_honest"] = Honest.of(given["min_honest"], users)
    try:
        protocol = PrivateSum(users, epsilon, delta, lower=lower, upper=upper, **given)
    except ValueError as error:
        # the steps are chosen, so that nobody knows them who reads the product alone
        found = re.match(r"modulus must be above n \* precision = (\d+)", message := str(error))
        if found is None:
            raise
        least = int(found[1])
        raise ValueError(
            f"--modulus must be above users * steps = {users:,} * {least // users:,} = {least:,}"
            f"{message[found.end() :]}"
        ) from None
    if not (anyway or protocol.guarantee.proved):
        raise ValueError(refusal(protocol.messages, protocol.modulus))
    if users * protocol.messages.total > MAX_MESSAGES:
        raise ValueError(
            f"{users:,} users with {protocol.messages.total:,} messages each are more than "
            f"the {MAX_MESSAGES:,} messages that can be run here; give fewer --messages"
        )
    if by_workers and show_true:
        for _ in blocks():  # the workers say nothing of the truth
            pass
    values: Any = drained(held) if held else table.seen(rule) if by_workers else blocks()
    with progress("adding up shares") as report:
        result = protocol.run(values, threads=threads, cluster=cluster, progress=report)
    truth = reading.truth if show_true else None
    made = Release(command, file, column, clamp, confidence, delta, protocol, result, truth)
    result.interval(confidence)  # refused here, before anything is printed
    return made


def refusal(count: MessageCount, q: int) -> str:
    """Return why a sum that hides nothing provably is not run."""
    why = unproved(count.analysis, q)
    said = f"{count.analysis} is {why}" if why else f"{many(count.total)} nothing"
    return f"{said}; --unproved runs it all the same"


def many(total: int) -> str:
    """Return the beginning of a sentence on what messages prove."""
    return "1 message per user proves" if total == 1 else f"{total:,} messages per user prove"


def ways(count: MessageCount, shuffler: str) -> str:
    """Return how many messages of each user go which way."""
    kinds = []
    if count.shuffled:
        parallel = shuffler == "parallel" and count.shuffled > 1
        through = "each through a shuffler of its own" if parallel else "through one shuffler"
        kinds.append(f"{count.shuffled:,} shuffled, {through}")
    if count.clear:
        kinds.append("1 clear")
    return ", and ".join(kinds)


def drained(held: deque[NDArray[Any]]) -> Iterator[NDArray[Any]]:
    """Yield blocks, each forgotten when it is."""
    while held:
        yield held.popleft()


def which(column: str) -> str:
    """Return a column as it is called."""
    return f"column {column}" if column.isdigit() else f"column {column!r}"


def _with_interval(value: float, ends: tuple[float, float]) -> tuple[str, str]:
    return figures(value, _scale(value, ends[1] - ends[0])), " to ".join(outwards(*ends))


def _scale(value: float, width: float) -> float:
    """Return what a number is uncertain by, at least so much that an integer has no decimals."""
    return max(width / 2, 100.0) if float(value).is_integer() else width / 2
