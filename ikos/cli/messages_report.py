"""What ``ikos messages`` prints: its answers as text, and as a JSON object.

The JSON object that ``--json`` prints; all keys are always there:

- ``command``, ``version``: strings; ``users``; ``min_honest``: how many of them are honest, at
  least; ``corrupt_shufflers``: how many may collude with the analyzer; ``modulus``: a string of
  digits, because it can exceed 2^53.
- ``sigma``: the level asked for, or null; ``epsilon``, ``delta``, ``reserve``: the privacy asked
  for and the largest part of epsilon that hiding may take, or null.
- ``precision``: of the private sum; ``lower``, ``upper``: the bounds of its values; null for a
  secure sum; ``integers`` (boolean): whether they are, so that nothing is rounded.
- ``bits_per_message``.
- ``rows``: a list of objects, one for each analysis in each setting; of an analysis the fewest
  messages first and what is not covered last. They have

  - ``analysis``; ``assumes``: who proved it, under which conditions; ``shuffler``;
    ``clear_share`` (boolean);
  - ``covered`` (boolean) and ``reason``: why not, or null. Where not, all that follows is null, or
    false where it is a boolean;
  - ``proved`` (boolean): false where the formula's proof does not cover the modulus, so that the
    row is for comparison only;
  - ``best`` (boolean: proved, and no proved row has fewer messages), ``shuffled``, ``clear``,
    ``total``, ``bits_per_user``, ``theorem``;
  - ``sigma``: proved; null where ``unlimited`` (boolean: of a single user there is nothing to
    hide);
  - for a private sum ``delta`` (proved), ``noise_epsilon`` (what is left of epsilon for the noise)
    and ``standard_error`` (of the sum, at most, in the units of the values); else null.

- ``floor``: for a secure sum of two or more users a list of objects, one for each setting, with
  ``shuffler``, ``clear_share``, ``shuffled``, ``clear`` and ``total``: no analysis can ever prove
  ``sigma`` for fewer messages. Else null.
- ``plot``: the file that was written, or null; ``warnings``: a list of strings, on budgets that
  protect little.

Every number that is an integer here is below 2^53.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import click

from ikos import __version__
from ikos.cli.counting import (
    ASSUMES,
    Row,
    assumptions,
    best,
    each_enough,
    others_honest,
    users_asked,
)
from ikos.cli.output import (
    aligned,
    bold,
    integer_text,
    power_text,
    remaining,
    wrapped,
)


@dataclass(frozen=True)
class Values:
    """What is known of the values before they are: their bounds, and whether they are integers."""

    lower: float
    upper: float
    integers: bool


UNIT = Values(0.0, 1.0, integers=False)


@dataclass(frozen=True)
class Asked:
    """What the options say, with the parameters of a private sum filled in."""

    users: int
    honest: int
    q: int
    sigma: Fraction | None
    epsilon: Fraction | None
    delta: Fraction | None
    reserve: Fraction | None
    precision: int | None
    values: Values = UNIT
    corrupt: int = 0

    @property
    def bits(self) -> int:
        """Bits of a message."""
        return (self.q - 1).bit_length()


DEFAULT = ("second_moment", "parallel", True)
"""The analysis and the setting that protocols have unless told otherwise."""


@dataclass(frozen=True)
class Floor:
    """The fewest messages that counting does not exclude, in one setting.

    Those that only make up for colluding shufflers are counted.
    """

    shuffler: str
    clear_share: bool
    shuffled: int


def _number(value: Fraction | None) -> float | None:
    return None if value is None else float(value)


def as_json(
    asked: Asked,
    rows: list[Row],
    floor: list[Floor] | None,
    plot: Path | None,
    warnings: list[str],
) -> dict[str, Any]:
    """Return the object that ``--json`` prints."""
    fewest = best(rows)

    def described(row: Row) -> dict[str, Any]:
        count = row.count
        return {
            "analysis": row.analysis,
            "assumes": ASSUMES[row.analysis],
            "shuffler": row.shuffler,
            "clear_share": row.clear_share,
            "covered": count is not None,
            "proved": count is not None and not row.unproved,
            "best": row.fewest is not None and row.fewest == fewest,
            "shuffled": count and count.shuffled,
            "clear": count and count.clear,
            "total": count and count.total,
            "sigma": count.sigma if count and math.isfinite(count.sigma) else None,
            "unlimited": count is not None and math.isinf(count.sigma),
            "delta": count and count.delta,
            "noise_epsilon": count and count.noise_epsilon,
            "standard_error": row.error,
            "bits_per_user": count and count.total * asked.bits,
            "theorem": count and count.theorem,
            "reason": row.reason,
        }

    return {
        "command": "messages",
        "version": __version__,
        "users": asked.users,
        "min_honest": asked.honest,
        "corrupt_shufflers": asked.corrupt,
        "modulus": integer_text(asked.q),
        "sigma": _number(asked.sigma),
        "epsilon": _number(asked.epsilon),
        "delta": _number(asked.delta),
        "reserve": _number(asked.reserve),
        "precision": asked.precision,
        "lower": None if asked.sigma is not None else asked.values.lower,
        "upper": None if asked.sigma is not None else asked.values.upper,
        "integers": asked.values.integers,
        "bits_per_message": asked.bits,
        "rows": [described(row) for row in rows],
        "floor": floor
        and [
            {
                "shuffler": found.shuffler,
                "clear_share": found.clear_share,
                "shuffled": found.shuffled,
                "clear": int(found.clear_share),
                "total": found.shuffled + found.clear_share,
            }
            for found in floor
        ],
        "plot": None if plot is None else str(plot),
        "warnings": warnings,
    }


def as_text(
    asked: Asked, rows: list[Row], floor: list[Floor] | None, plot: Path | None
) -> list[str]:
    """Return the lines of the text."""
    covered = [row for row in rows if row.count]
    lines = [bold(line) for line in wrapped(_heading(asked), "", "")]
    error = max((row.error for row in covered if row.error is not None), default=None)
    if error is not None:
        from ikos.results import at_least

        scale = "; both scale with the width of the bounds" * (asked.values == UNIT)
        lines += wrapped(
            f"{_encoded(asked)} and added modulo {power_text(asked.q)}. Whichever row is chosen, "
            f"the sum will be off by at most {at_least(error, 4)} (root mean square), the mean by "
            f"{at_least(error / asked.users, 3)}{scale}."
        )
    lines += ["", *_table(covered, asked), ""]
    if floor is not None:
        lines += [bold("The floor"), *_floor_text(floor, asked), ""]
    lines += assumptions(rows)
    lines += ["", bold("What it means"), *_meaning(covered, asked)]
    if plot is not None:
        lines += ["", f"Plotted in {click.format_filename(plot)}"]
    return lines


def _encoded(asked: Asked) -> str:
    """Return what becomes of the values."""
    values, steps = asked.values, asked.precision
    bounds = f"[{values.lower:.10g}, {values.upper:.10g}]"
    if values.integers:
        return f"Integers in {bounds} are taken as they are"
    return f"Values in {bounds} are rounded to {steps:,} step{'s' * (steps != 1)}"


def _heading(asked: Asked) -> str:
    who = users_asked(asked.users, asked.honest)
    if asked.corrupt:
        others = f"{asked.corrupt:,} shuffler{'s' * (asked.corrupt > 1)}"
        who += f"{'' if who[-1] == ',' else ','} while at most {others} may collude,"
    if asked.sigma is not None:
        return (
            f"{who} for a secure sum modulo {power_text(asked.q)} with "
            f"{float(asked.sigma):,.10g} bits of security"
        )
    assert asked.epsilon is not None
    assert asked.delta is not None
    return (
        f"{who} for a ({float(asked.epsilon):.10g}, {float(asked.delta):.3g})-differentially "
        "private sum"
    )


def _table(covered: list[Row], asked: Asked) -> list[str]:
    from ikos.results import at_least, at_most, hundredths

    fewest = best(covered)
    table = [["analysis", "shuffler", "shuffled+clear", "total"]]
    table[0] += ["sigma"] if asked.sigma is not None else ["delta", "noise eps"]
    table[0] += ["bits/user"]
    for row in covered:
        count = row.count
        assert count is not None
        sent = count.total * asked.bits
        if asked.sigma is not None:
            proved = ["no limit" if math.isinf(count.sigma) else f"{hundredths(count.sigma):,}"]
        else:
            assert count.delta is not None
            assert count.noise_epsilon is not None
            assert asked.epsilon is not None
            left = remaining(count.noise_epsilon, asked.epsilon)
            proved = [at_least(count.delta, 2), at_most(left, 4)]
        table.append(
            [
                row.analysis,
                row.shuffler,
                f"{count.shuffled:,} + {count.clear}",
                f"{count.total:,}",
                *proved,
                f"{sent:,}" if sent < 10**10 else f"{sent:.4g}",
            ]
        )
    lines = aligned(table)
    for i, row in enumerate(covered, 1):
        if row.unproved:
            lines[i] = "!" + lines[i][1:]
        elif row.fewest == fewest:
            lines[i] = bold("*" + lines[i][1:])
    if fewest is not None:
        lines.append("  * fewest messages")
    reasons = dict.fromkeys(row.unproved for row in covered if row.unproved)
    for reason in reasons:
        lines += wrapped(f"! {reason}; for comparison", "  ", "    ")
    for row in covered:
        if (row.analysis, row.shuffler, row.clear_share) == DEFAULT and row.count is not None:
            kind = "secure-sum and SecureSum" if asked.sigma is not None else "sum and PrivateSum"
            text = (
                f"Unless told otherwise ikos {kind} use parallel shufflers and a clear share: "
                f"{row.count.shuffled:,} + 1 messages here."
            )
            starred = next((each for each in covered if each.fewest == fewest), row)
            if fewest is not None and row.count.total > fewest:
                text += (
                    " Who is trusted decides which setting fits, so the default does not follow "
                    f"the counts; for the first starred row give {_options(starred)}."
                )
            lines += wrapped(text)
    return lines


def _options(row: Row) -> str:
    """Return the options that choose a row rather than the default."""
    _, shuffler, clear = DEFAULT
    options = [f"--shuffler {row.shuffler}"] if row.shuffler != shuffler else []
    options += ["--no-clear-share"] if row.clear_share != clear else []
    return " and ".join(options)


def _floor_text(floor: list[Floor], asked: Asked) -> list[str]:
    assert asked.sigma is not None
    counts = {found.shuffler: found.shuffled for found in floor}
    clear = ", a clear share not counted" if any(found.clear_share for found in floor) else ""
    if set(counts.values()) == {1}:
        return wrapped(
            f"Counting excludes nothing here: the floor is 1 shuffled message{clear}. Whether so "
            "few can be enough is not known."
        )
    words = {"parallel": "with parallel shufflers", "single": "with a single shuffler"}
    if len(set(counts.values())) == 1:
        text = f"{floor[0].shuffled:,} shuffled message{'s' * (floor[0].shuffled > 1)}"
    else:
        parts = [f"{shuffled:,} {words[shuffler]}" for shuffler, shuffled in counts.items()]
        text = f"{' or '.join(parts)} (shuffled messages)"
    if asked.corrupt:
        text += f", {asked.corrupt:,} of them for shufflers that collude"
    return wrapped(
        f"No analysis can get below {text}{clear}. With fewer, what comes out of the shufflers "
        f"fits too few of the inputs with that sum for {float(asked.sigma):,.10g} bits of "
        "security. Whether so few can be enough is not known."
    )


def _meaning(covered: list[Row], asked: Asked) -> list[str]:
    sound = [row for row in covered if not row.unproved]
    counts = (row.count for row in sound or covered if row.count)
    count = min(counts, key=lambda found: found.total)
    kinds, clear = {row.shuffler for row in covered}, any(row.clear_share for row in covered)
    many = f"{count.total:,} random number{'s' * (count.total != 1)}"
    noisy = "" if asked.sigma is not None else ", rounded and with a little noise,"
    if asked.users == 1:
        text = "With a single user there is nobody to hide among"
        if asked.sigma is not None:
            text += " and nothing to hide: the sum is the user's value, whatever is sent."
        else:
            text += ": the sum is the user's value, and the noise alone protects it."
        return wrapped(text)
    text = (
        f"Each user splits its value{noisy} into {many} that add up to it. "
        + ("Each parallel shuffler mixes one number of every user. " if "parallel" in kinds else "")
        + ("A single shuffler mixes all numbers of all users. " if "single" in kinds else "")
        + ("A clear share goes straight to the analyzer. " if clear else "")
        + "The analyzer adds everything up. "
    )
    if asked.sigma is not None:
        text += (
            "It learns the sum and next to nothing else: with all that it sees, two inputs with "
            "the same sum can be told apart with an advantage of at most 2^-sigma. "
        )
    else:
        text += (
            "It learns a noisy sum and next to nothing about anybody: up to a factor e^epsilon "
            "and a probability delta, it would have seen the same had one user's value been "
            "another. Shuffled numbers hide a value well but not perfectly; what is missing costs "
            "the delta listed and a part of epsilon, and the noise gets the rest, the noise "
            "epsilon. "
        )
    text += others_honest(asked.users, asked.honest)
    if asked.corrupt:
        text += (
            f"At most {asked.corrupt:,} of the shufflers may tell it all that "
            f"{'it sees' if asked.corrupt == 1 else 'they see'}: that is as "
            "good as clear, and as many messages more make up for it. "
        )
    return wrapped(text + each_enough(covered))
