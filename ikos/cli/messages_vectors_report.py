"""What ``ikos messages-vectors`` prints: its answers as text, and as a JSON object.

The JSON object that ``--json`` prints; all keys are always there:

- ``command``, ``version``: strings; ``users``; ``min_honest``: how many of them are honest, at
  least; ``corrupt_shufflers``: how many of each sum's may collude with the analyzer;
  ``modulus``: of each coordinate, a string of digits, because it can exceed 2^53;
  ``dimension``: coordinates.
- ``sigma``: the level asked for, or null; ``epsilon``, ``delta``, ``reserve``, ``releases``: the
  privacy asked for, the largest part of epsilon that hiding may take, and for how many sums about
  the same users, or null.
- ``domain``, ``lower``, ``upper``, ``radius``, ``sparsity``, ``sizes``: of a private sum, where
  vectors lie, null where it is another domain's; ``precision``: steps of a coordinate; null for a
  secure sum; ``integers`` (boolean): whether entries of a box are, so that nothing is rounded.
- ``rows``: a list of objects, one for each analysis, setting and layout; of an analysis the fewest
  messages first and what is not covered last. They have

  - ``analysis``; ``assumes``: who proved it, under which conditions; ``shuffler``;
    ``clear_share`` (boolean); ``layout``: "separate sums" or "one group"; ``sums``: how many;
  - ``covered`` (boolean) and ``reason``: why not, or null. Where not, all that follows is null, or
    false where it is a boolean;
  - ``proved`` (boolean): false where the formula's proof does not cover the group, so that the row
    is for comparison only;
  - ``best`` (boolean: proved, and no proved row has fewer messages), ``smallest`` (the same of
    bits), ``shuffled``, ``clear`` and ``total``: messages of each sum; ``messages_per_user``,
    ``bits_per_message``, ``bits_per_user``: of all sums; ``theorem``;
  - ``proved_sigma``: of the whole vector; null where ``unlimited`` (boolean: of a single user
    there is nothing to hide);
  - for a private sum ``proved_delta``, ``noise_epsilon`` (what is left of epsilon for the noise)
    and ``standard_error`` (bound on the root of the mean squared Euclidean error of the sum, in
    the units of the vectors); else null.

- ``floor``: for a secure sum of two or more users a list of objects, one for each layout and
  setting, with ``layout``, ``shuffler``, ``clear_share``, ``shuffled``, ``clear`` and ``total``,
  of each sum: no analysis can ever prove ``sigma`` for fewer messages. Else null.
- ``warnings``: a list of strings, on budgets that protect little.

Integers of more than 2^53, if any, are null.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from ikos import __version__
from ikos.cli import counting
from ikos.cli.counting import ASSUMES, assumptions, best, each_enough, others_honest, users_asked
from ikos.cli.output import (
    MAX_EXACT,
    aligned,
    bold,
    integer_text,
    power_text,
    wrapped,
)

if TYPE_CHECKING:
    from ikos.counts import Layout
    from ikos.vectors import Domain

SHORT = {"one group": "group", "separate sums": "separate"}
"""Layouts, as the table calls them."""

DEFAULT = ("second_moment", "parallel", True, "separate sums")
"""The analysis, the setting and the layout that protocols have unless told otherwise."""

NO_DOMAIN = dict.fromkeys(("domain", "lower", "upper", "radius", "sparsity", "sizes"))


@dataclass(frozen=True)
class Noise:
    """What makes a sum private, with the domain of its vectors in words and for JSON."""

    epsilon: Fraction
    delta: Fraction
    releases: int
    integers: bool
    reserve: Fraction
    precision: int | None
    domain: Domain
    words: str
    described: dict[str, Any]

    @property
    def real(self) -> bool:
        """Whether entries are real numbers, which are rounded."""
        return self.described["domain"] in ("box", "ball") and not self.integers

    @property
    def options(self) -> dict[str, Any]:
        """What `ikos.vectors.PrivateVectorSum` takes of it by keyword."""
        return {
            "precision": self.precision,
            "integers": self.integers,
            "reserve": self.reserve,
            "releases": self.releases,
        }

    def with_precision(self, precision: int) -> Noise:
        """Return the same with a precision that was chosen."""
        return replace(self, precision=precision)


@dataclass(frozen=True)
class Asked:
    """What the options say, with the parameters of a private sum filled in."""

    users: int
    min_honest: int
    corrupt_shufflers: int
    q: int
    dimension: int
    sigma: Fraction | None
    noise: Noise | None = None

    @property
    def layouts(self) -> tuple[str, ...]:
        """Which there are; of a single coordinate they are the same."""
        return ("separate sums", "one group")[self.dimension == 1 :]


@dataclass(frozen=True)
class Row(counting.Row):
    """A row with its layout; ``name`` is there also where nothing is proved."""

    name: str = ""
    layout: Layout | None = None

    @property
    def fewest(self) -> int | None:
        """Messages of each user for all sums together, where they are proved to be enough."""
        return None if self.layout is None or self.unproved else self.layout.messages_per_user

    @property
    def bits(self) -> int | None:
        """Bits of each user, where they are proved to be enough."""
        return None if self.layout is None or self.unproved else self.layout.bits_per_user

    @property
    def cost(self) -> tuple[float, float]:
        """Messages, then bits: what rows are sorted by."""
        if self.layout is None:
            return math.inf, math.inf
        return self.layout.messages_per_user, self.layout.bits_per_user


@dataclass(frozen=True)
class Floor:
    """The fewest messages of each sum that counting does not exclude.

    Those that only make up for colluding shufflers are counted.
    """

    name: str
    shuffler: str
    clear_share: bool
    shuffled: int


def _smallest(rows: list[Row]) -> int | None:
    return min((row.bits for row in rows if row.bits is not None), default=None)


def _exact(value: int) -> int | None:
    return value if value <= MAX_EXACT else None


def as_json(
    asked: Asked, rows: list[Row], floor: list[Floor] | None, warnings: list[str]
) -> dict[str, Any]:
    """Return the object that ``--json`` prints."""
    noise, fewest, smallest = asked.noise, best(rows), _smallest(rows)

    def shown(row: Row) -> dict[str, Any]:
        count, layout = row.count, row.layout
        return {
            "analysis": row.analysis,
            "assumes": ASSUMES[row.analysis],
            "shuffler": row.shuffler,
            "clear_share": row.clear_share,
            "layout": row.name,
            "sums": asked.dimension if row.name == "separate sums" else 1,
            "covered": count is not None,
            "proved": count is not None and not row.unproved,
            "best": row.fewest is not None and row.fewest == fewest,
            "smallest": row.bits is not None and row.bits == smallest,
            "shuffled": count and count.shuffled,
            "clear": count and count.clear,
            "total": count and count.total,
            "messages_per_user": layout and _exact(layout.messages_per_user),
            "bits_per_message": layout and layout.bits_per_message,
            "bits_per_user": layout and _exact(layout.bits_per_user),
            "theorem": count and count.theorem,
            "proved_sigma": layout.sigma if layout and math.isfinite(layout.sigma) else None,
            "unlimited": layout is not None and math.isinf(layout.sigma),
            "proved_delta": layout and layout.delta,
            "noise_epsilon": count and count.noise_epsilon,
            "standard_error": row.error if row.error and math.isfinite(row.error) else None,
            "reason": row.reason,
        }

    return {
        "command": "messages-vectors",
        "version": __version__,
        "users": asked.users,
        "min_honest": asked.min_honest,
        "corrupt_shufflers": asked.corrupt_shufflers,
        "modulus": integer_text(asked.q),
        "dimension": asked.dimension,
        "sigma": None if asked.sigma is None else float(asked.sigma),
        "epsilon": noise and float(noise.epsilon),
        "delta": noise and float(noise.delta),
        "reserve": noise and float(noise.reserve),
        "releases": noise and noise.releases,
        **(NO_DOMAIN if noise is None else noise.described),
        "precision": noise and noise.precision,
        "integers": noise is not None and noise.integers,
        "rows": [shown(row) for row in rows],
        "floor": floor
        and [
            {
                "layout": found.name,
                "shuffler": found.shuffler,
                "clear_share": found.clear_share,
                "shuffled": found.shuffled,
                "clear": int(found.clear_share),
                "total": found.shuffled + found.clear_share,
            }
            for found in floor
        ],
        "warnings": warnings,
    }


def as_text(asked: Asked, rows: list[Row], floor: list[Floor] | None) -> list[str]:
    """Return the lines of the text."""
    covered = [row for row in rows if row.layout is not None]
    lines = [bold(line) for line in wrapped(_heading(asked), "", "")]
    if asked.noise is not None:
        lines += wrapped(_error(asked, asked.noise, covered))
    lines += ["", *_table(rows, asked), ""]
    if floor is not None:
        lines += [bold("The floor"), *_floor_text(floor, asked), ""]
    lines += assumptions(rows)
    return [*lines, "", bold("What it means"), *_meaning(covered, asked)]


def _heading(asked: Asked) -> str:
    who = users_asked(asked.users, asked.min_honest)
    if asked.corrupt_shufflers:
        others = f"at most {asked.corrupt_shufflers:,} of the shufflers of each sum"
        who += f"{'' if who[-1] == ',' else ','} while {others} may collude,"
    if asked.noise is None:
        assert asked.sigma is not None
        count = f"{asked.dimension:,} coordinate{'s' * (asked.dimension > 1)}"
        return (
            f"{who} for a secure sum of vectors of {count} modulo {power_text(asked.q)} with "
            f"{float(asked.sigma):,.10g} bits of security"
        )
    noise = asked.noise
    times = "a" if noise.releases == 1 else f"{noise.releases:,} sums that together are"
    return (
        f"{who} for {times} ({float(noise.epsilon):.10g}, {float(noise.delta):.3g})-differentially "
        f"private{' sum' * (noise.releases == 1)}, of vectors {noise.words}"
    )


def _error(asked: Asked, noise: Noise, covered: list[Row]) -> str:
    """Return what becomes of the vectors, and how far off the sum can be."""
    from ikos.results import at_least

    assert noise.precision is not None
    steps = f"{noise.precision:,} step{'s' * (noise.precision != 1)}"
    taken = f"Coordinates are rounded to {steps}" if noise.real else "Coordinates are integers"
    error = max(row.error for row in covered if row.error is not None)
    return (
        f"{taken} and added modulo {power_text(asked.q)}. Whichever row is chosen, "
        f"{'the sum' if noise.releases == 1 else 'each sum'} will be off by at most "
        f"{at_least(error, 4)} (Euclidean norm, root mean square), the mean by "
        f"{at_least(error / asked.users, 3)}."
    )


def _short(value: int) -> str:
    return f"{value:,}" if value < 10**8 else f"{value:.4g}"


def _table(rows: list[Row], asked: Asked) -> list[str]:
    from ikos.results import at_least, hundredths

    covered = [row for row in rows if row.layout is not None]
    fewest, smallest = best(covered), _smallest(covered)
    table = [["analysis", "shuffler", "layout", "per sum", "in all"]]
    table[0] += ["sigma" if asked.noise is None else "delta"]
    table[0] += ["bits/user"]
    for row in covered:
        layout = row.layout
        assert layout is not None
        count = layout.count
        if asked.noise is None:
            proved = "no limit" if math.isinf(layout.sigma) else f"{hundredths(layout.sigma):,}"
        else:
            assert layout.delta is not None
            proved = at_least(layout.delta, 2)
        table.append(
            [
                row.analysis,
                row.shuffler,
                SHORT[row.name],
                f"{count.shuffled:,} + {count.clear}",
                _short(layout.messages_per_user),
                proved,
                _short(layout.bits_per_user),
            ]
        )
    lines = aligned(table)
    marks = set()
    for i, row in enumerate(covered, 1):
        mark = " "
        if row.unproved:
            mark = "!"
        elif row.fewest == fewest:
            mark = "*" if row.bits != smallest else "#"
        elif row.bits == smallest:
            mark = "+"
        marks.add(mark)
        lines[i] = mark + lines[i][1:]
        if mark in "*+#":
            lines[i] = bold(lines[i])
    legend = {"*": "fewest messages", "+": "fewest bits", "#": "fewest messages and bits"}
    lines += [f"  {mark} {text}" for mark, text in legend.items() if mark in marks]
    for why in dict.fromkeys(row.unproved for row in covered if row.unproved):
        lines += wrapped(f"! {why}; for comparison", "  ", "    ")
    lines += wrapped(
        "per sum: shuffled and clear messages"
        + (f"; separate: {asked.dimension:,} sums, one for each coordinate." if _apart(covered)
           else ".")
    )  # fmt: skip
    for name, why in _refused(rows).items():
        lines += wrapped(f"{SHORT[name]}: {why}", "  ", "    ")
    for row in covered:
        default = (row.analysis, row.shuffler, row.clear_share, row.name) == DEFAULT
        if default and row.layout is not None:
            kind = "SecureVectorSum" if asked.noise is None else "PrivateVectorSum"
            lines += wrapped(
                f"Unless told otherwise ikos.vectors.{kind} uses separate sums, parallel shufflers "
                f"and a clear share: {row.layout.messages_per_user:,} messages here."
            )
    return lines


def _refused(rows: list[Row]) -> dict[str, str]:
    """Return why a layout has no row at all, if another one has."""
    covered = {row.name for row in rows if row.layout is not None}
    refused = [row for row in rows if row.name not in covered]
    return {row.name: str(row.reason) for row in reversed(refused)}


def _apart(rows: list[Row]) -> bool:
    return any(row.name != "one group" for row in rows)


def _floor_text(floor: list[Floor], asked: Asked) -> list[str]:
    assert asked.sigma is not None
    if all(found.shuffled == 1 for found in floor):
        return wrapped(
            "Counting excludes nothing here: the floor is 1 shuffled message of each sum. Whether "
            "so few can be enough is not known."
        )
    parts = []
    for name in dict.fromkeys(found.name for found in floor):
        counts = {found.shuffler: found.shuffled for found in floor if found.name == name}
        where = "as one group" if name == "one group" else "of each separate sum"
        if len(set(counts.values())) == 1:
            parts.append(f"{next(iter(counts.values())):,} {where}")
        else:
            each = " or ".join(
                f"{least:,} ({'parallel shufflers' if kind == 'parallel' else 'a single one'})"
                for kind, least in counts.items()
            )
            parts.append(f"{each} {where}")
    return wrapped(
        f"No analysis can get below so many shuffled messages: {'; '.join(parts)}. With fewer, "
        "what comes out of the shufflers fits too few of the inputs with that sum for "
        f"{float(asked.sigma):,.10g} bits of security. Whether so few can be enough is not known."
    )


def _meaning(covered: list[Row], asked: Asked) -> list[str]:
    noise = asked.noise
    if asked.users == 1:
        text = "With a single user there is nobody to hide among"
        text += (
            " and nothing to hide: the sum is the user's vector, whatever is sent."
            if noise is None
            else ": the sum is the user's vector, and the noise alone protects it."
        )
        return wrapped(text)
    noisy = "" if noise is None else ", in integers and with a little noise in each coordinate,"
    text = f"Each user splits its vector{noisy} into random shares that add up to it. "
    if asked.dimension > 1 and _apart(covered):
        text += (
            "With separate sums every coordinate has shares and shufflers of its own; two sums "
            "must not pass the same permutation. "
        )
    if asked.dimension > 1 and any(row.name == "one group" for row in covered):
        text += "As one group, a message is a whole vector of shares. "
    if noise is None:
        text += (
            "The analyzer adds everything up. It learns the sum and next to nothing else: with all "
            "that it sees, two inputs with the same sum can be told apart with an advantage of at "
            "most 2^-sigma, all coordinates together. "
        )
    else:
        text += (
            "The analyzer adds everything up. It learns a noisy sum and next to nothing about "
            "anybody: up to a factor e^epsilon and a probability delta, it would have seen the "
            "same had one user's whole vector been another. "
        )
        if noise.releases > 1:
            text += f"That holds for all {noise.releases:,} sums together. "
    text += others_honest(asked.users, asked.min_honest)
    if asked.corrupt_shufflers:
        text += (
            f"At most {asked.corrupt_shufflers:,} of the shufflers of each sum may tell it all: "
            "that is as good as clear, and as many messages more make up for it. "
        )
    return wrapped(text + each_enough(covered))
