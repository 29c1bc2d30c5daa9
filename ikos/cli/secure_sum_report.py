"""What ``ikos secure-sum`` prints: its result as text, and as a JSON object.

The JSON object that ``--json`` prints; all keys are always there:

- ``command``, ``version``, ``file``, ``column``: strings.
- ``users``, ``lower``, ``upper`` (strings of digits from 2^53 on), ``out_of_range`` ("reject" or
  "clamp"): what is public.
- ``sum``: exact, a string of digits, because it can exceed 2^53; ``mean``: the nearest double.
- ``differentially_private``: false, always. The analyzer learns the sum as it is.
- ``sigma``: what is proved, rounded down: the analyzer's views of any two inputs with the same sum
  are within total variation 2^-sigma; null where ``unlimited`` (boolean: of a single user there is
  nothing to hide). ``requested_sigma``, ``proved`` (boolean), ``theorem``, ``conditions``
  (strings), ``warnings`` (strings): the rest of the guarantee.
- ``analysis``, ``shuffler``, ``clear_share`` (boolean), ``shuffled``, ``clear``, ``total``,
  ``bits_per_message``, ``bits_per_user``, ``all_messages``, ``modulus`` (a string of digits),
  ``min_honest``, ``corrupt_shufflers``: what was sent.

Every number that is an integer here is below 2^53 in size.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from ikos import __version__
from ikos.cli.output import bold, integer_text, power_text, wrapped
from ikos.cli.release import ways, which
from ikos.results import trust_warnings

if TYPE_CHECKING:
    from ikos import SecureSum


@dataclass(frozen=True)
class Report:
    """A secure sum that was run, and how to present it."""

    file: str
    column: str
    lower: int
    upper: int
    clamp: bool
    sigma: Fraction
    protocol: SecureSum
    total: int

    @property
    def unproved(self) -> str | None:
        """Why the guarantee is no proof, though its formula says something."""
        from ikos.counts.published import unproved

        return unproved(self.protocol.messages.analysis, self.protocol.q)

    def warnings(self) -> list[str]:
        """Return what must be said beside the result where the guarantee is not as asked."""
        said = [f"{self.protocol.messages.analysis}: {self.unproved}"] if self.unproved else []
        return said + trust_warnings(
            self.protocol.corrupt_shufflers, self.protocol.messages.shuffled
        )

    def text(self) -> list[str]:
        """Return the result in words, in lines of at most 80 columns."""
        mean = Fraction(self.total, self.protocol.n)
        shown = f"{float(mean):,.15g}"
        rounded = "" if Fraction(shown.replace(",", "")) == mean else " (rounded)"
        lines = [
            bold(
                f"{'Exact' if self.protocol.guarantee.proved else 'NOT SECURE, nothing is proved:'}"
                f" sum and mean of {which(self.column)}"
            ),
            f"  sum   {self.total:,}",
            f"  mean  {shown}{rounded}",
        ]
        if self.clamp:
            lines += wrapped(
                "Values outside the bounds were moved to the nearest bound, and the sum is of the "
                "moved values. Their number, which is not private, is not shown."
            )
        lines += ["", *_exposed_lines(), "", *self._guarantee_lines(), "", *self._sent_lines()]
        return lines

    def _guarantee_lines(self) -> list[str]:
        guarantee, protocol = self.protocol.guarantee, self.protocol
        public = (
            f"The number of users, {protocol.n:,}, and the bounds, {self.lower:,} and "
            f"{self.upper:,}, are public and not protected."
        )
        if protocol.n == 1:
            alone = "With a single user there is nothing to hide: the sum is the user's value."
            return [bold("What is guaranteed"), *wrapped(alone), *wrapped(public)]
        if self.unproved:
            nothing = f"NOTHING is proved: {protocol.messages.analysis} is {self.unproved}."
            return [bold("What is guaranteed"), *wrapped(nothing), *wrapped(public)]
        asked = ""
        if guarantee.sigma >= self.sigma + Fraction("0.01"):
            asked = f" (2^-{float(self.sigma):.10g} was asked for; whole messages prove more)"
        coalition = ""
        if protocol.min_honest < protocol.n:
            coalition = " Users who tell the analyzer their values leave it the sum of the others'."
        return [
            bold("What is guaranteed"),
            *wrapped(
                "All but the sum is hidden. With all that the analyzer sees, any two inputs with "
                "the same sum can be told apart with an advantage of at most "
                f"{guarantee.distance}: its views of them are within that total variation"
                f"{asked}.{coalition}"
            ),
            *wrapped(f"The proof: {guarantee.theorem}."),
            *wrapped("It holds"),
            *(line for item in guarantee.conditions for line in wrapped(item, "  - ", "    ")),
            *wrapped(public),
            *wrapped(
                "The sum is exact if all users follow the protocol. Any one of them can shift it "
                "by any amount, and nobody can tell."
            ),
        ]

    def _sent_lines(self) -> list[str]:
        protocol, cost = self.protocol, self.protocol.cost()
        less = "" if self.lower == 0 else "Each value is sent less the lower bound. "
        size = math.ceil(cost.bits_per_user / 8)
        return [
            bold("What was sent (here, in a simulation of all parties)"),
            *wrapped(
                f"{less}{cost.messages_per_user:,} message{'s' * (cost.messages_per_user != 1)} of "
                f"{cost.bits_per_message:,} bit{'s' * (cost.bits_per_message != 1)} per user "
                f"({size:,} byte{'s' * (size != 1)}): "
                f"{ways(protocol.messages, protocol.shuffler)}. {cost.messages:,} messages in all, "
                f"numbers modulo {power_text(protocol.q)}, which no sum of values within the "
                "bounds reaches."
            ),
        ]

    def json(self) -> dict[str, Any]:
        """Return the object that the module's documentation describes."""
        protocol, count, cost = self.protocol, self.protocol.messages, self.protocol.cost()
        guarantee = protocol.guarantee
        sigma = 0.0 if self.unproved else guarantee.sigma
        return {
            "command": "secure-sum",
            "version": __version__,
            "file": self.file,
            "column": self.column,
            "users": protocol.n,
            "lower": _exact(self.lower),
            "upper": _exact(self.upper),
            "out_of_range": "clamp" if self.clamp else "reject",
            "sum": integer_text(self.total),
            "mean": self.total / protocol.n,
            "differentially_private": False,
            "sigma": None if math.isinf(sigma) else sigma,
            "unlimited": math.isinf(guarantee.sigma),
            "requested_sigma": float(self.sigma),
            "proved": guarantee.proved,
            "theorem": guarantee.theorem,
            "conditions": list(guarantee.conditions),
            "warnings": self.warnings(),
            "analysis": count.analysis,
            "shuffler": protocol.shuffler,
            "clear_share": protocol.clear_share,
            "shuffled": count.shuffled,
            "clear": count.clear,
            "total": count.total,
            "bits_per_message": cost.bits_per_message,
            "bits_per_user": cost.bits_per_user,
            "all_messages": cost.messages,
            "modulus": integer_text(protocol.q),
            "min_honest": protocol.min_honest,
            "corrupt_shufflers": protocol.corrupt_shufflers,
        }


def _exact(value: int) -> int | str:
    """Return an integer as JSON holds it: a reader may have only doubles."""
    return value if abs(value) < 1 << 53 else integer_text(value)


def _exposed_lines() -> list[str]:
    return [
        bold("NOT differentially private"),
        *wrapped(
            "The analyzer learns the sum as it is. Whoever knows the other values, or the sum of "
            "the same people without one of them, subtracts, and has that one's value. 'ikos sum' "
            "adds noise against that."
        ),
    ]
