"""Lemma C.5 of BBGN20 compared with the exact law, at every n, m and c of a grid.

    python -m analysis.lemma_c5

computes P[C = c], the law of the number of components of the share graph, for every number of
users n from 19 to 300, every m from 3 to 10 and every c from 1 to n, and compares it with the
lemma's bound. All of it is in directed rounding: each comparison is a proof, up to bugs. With
``--bound parts`` it is the library's sharper bound, which has no condition on n and is for all four
models. The exit status is 0 if the bound holds everywhere, and 1 if not.

``--json`` prints an object with

- ``bound``, ``shuffler``, ``clear_share``: what was compared;
- ``users``, ``messages``: the ends of the ranges;
- ``compared``: how many triples (n, m, c);
- ``smallest``: for each m the smallest ``factor`` bound / P[C = c] over c >= 2, rounded down, and
  the ``users`` and ``components`` where it is attained;
- ``unproved``: the same where the factor is below 1, at most a hundred of them;
- ``holds``: whether there are none.
"""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING, Any

import click

from analysis.output import aligned, main
from ikos.cli.errors import Command
from ikos.cli.output import print_text, progress
from ikos.cli.types import NAME
from ikos.graphs import Slack, Sweep, sweep
from ikos.graphs.component_bounds import BOUNDS
from ikos.results.sums import at_most

if TYPE_CHECKING:
    Base = click.ParamType[tuple[int, int]]
else:
    Base = click.ParamType  # not subscriptable in older versions


USERS = (19, 300)
MESSAGES = (3, 10)

NAMES = {"lemma_c5": "Lemma C.5 of BBGN20", "parts": "The bound by parts"}
"""What the bounds are called."""

SHOWN = 10
"""Most comparisons without a proof that are printed."""

EXAMPLES = """\b
Examples
  python -m analysis.lemma_c5
  python -m analysis.lemma_c5 --users 19:60 --messages 3
  python -m analysis.lemma_c5 --bound parts --shuffler single --no-clear-share --users 2:100
"""


class Range(Base):
    """A range of positive integers, LOW:HIGH with both ends, or one number."""

    name = "low:high"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, int]:
        """Return the ends."""
        if isinstance(value, tuple):
            return value
        match = re.fullmatch(r"([0-9]{1,9})(?::([0-9]{1,9}))?", value.strip())
        if match is None:
            shown = value if len(value) <= 40 else value[:37] + "..."
            self.fail(f"{shown!r} is no range such as 19:300, and no number", param, ctx)
        low = int(match[1])
        high = low if match[2] is None else int(match[2])
        if low > high:
            self.fail(f"{value.strip()} ends before it begins", param, ctx)
        return low, high


def factor_text(factor: float) -> str:
    """Return a factor for a table, rounded down."""
    return f"{math.floor(factor):,}" if 1000 <= factor < 1e9 else at_most(factor, 4)


def _range(ends: tuple[int, int]) -> str:
    return f"{ends[0]}" if ends[0] == ends[1] else f"{ends[0]} to {ends[1]}"


def _text(found: Sweep) -> list[str]:
    """Return the table and the verdict."""
    shuffler = "a single shuffler" if found.shuffler == "single" else "parallel shufflers"
    clear = "a clear share" if found.clear_share else "no clear share"
    rows = [
        (str(slack.m), f"{slack.n:,}", f"{slack.c:,}", factor_text(slack.factor))
        for slack in found.smallest
    ]
    return [
        f"{NAMES[found.bound]} and the exact law of C: {shuffler}, {clear}",
        "",
        "The smallest factor between the two, over c >= 2, for each m:",
        "",
        *aligned([("m", "n", "c", "bound / P[C = c]"), *rows]),
        "",
        *(_unproved(slack) for slack in found.unproved[:SHOWN]),
        *_verdict(found),
    ]


def _unproved(slack: Slack) -> str:
    return f"n = {slack.n}, m = {slack.m}, c = {slack.c}: bound / P[C = c] is {slack.factor:.6g}"


def _verdict(found: Sweep) -> list[str]:
    where = f"n = {_range(found.users)}, m = {_range(found.messages)} and every c"
    if not found.holds:
        many = len(found.unproved)
        return [f"NOT PROVED, {'at least 100' if many == 100 else many} times, for {where}."]
    tightest = factor_text(found.tightest.factor)
    return [
        f"Holds for {where}:",
        f"{found.compared:,} comparisons in directed rounding, "
        f"by a factor of {tightest} or more where c >= 2.",
    ]


def _json(found: Sweep) -> dict[str, Any]:
    def shown(slack: Slack) -> dict[str, Any]:
        return {
            "messages": slack.m,
            "users": slack.n,
            "components": slack.c,
            "factor": slack.factor if slack.factor < float("inf") else None,
        }

    return {
        "bound": found.bound,
        "shuffler": found.shuffler,
        "clear_share": found.clear_share,
        "users": list(found.users),
        "messages": list(found.messages),
        "compared": found.compared,
        "smallest": [shown(slack) for slack in found.smallest],
        "unproved": [shown(slack) for slack in found.unproved],
        "holds": found.holds,
    }


@click.command(
    "python -m analysis.lemma_c5",
    cls=Command,
    epilog=EXAMPLES,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80},
)
@click.option("--users", type=Range(), default="19:300", show_default=True, help="Both ends count.")
@click.option("--messages", type=Range(), default="3:10", show_default=True, help="Of each user.")
@click.option(
    "--bound",
    type=click.Choice(tuple(BOUNDS)),
    default="lemma_c5",
    show_default=True,
    help="The published one, or the sharper one for all models.",
)
@click.option(
    "--shuffler",
    type=NAME["shuffler"],
    default="parallel",
    metavar="[parallel|single]",
    help="One for each message, or one for all.",
)
@click.option(
    "--clear-share/--no-clear-share", default=True, help="Whether a message is not shuffled."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(
    users: tuple[int, int],
    messages: tuple[int, int],
    bound: str,
    shuffler: str,
    clear_share: bool,
    as_json: bool,
) -> None:
    """Compare Lemma C.5 of BBGN20 with the exact law of the components.

    For every number of users n, of messages m, and of components c. The
    default takes about ten seconds; time grows with the cube of the users.

    The exit status is 1 if the bound is not proved to hold everywhere.
    """
    with progress("comparing") as shown:
        found = sweep(
            users, messages, bound=bound, shuffler=shuffler, clear_share=clear_share, progress=shown
        )
    if as_json:
        print_text([json.dumps(_json(found), indent=2, allow_nan=False)])
    else:
        print_text(_text(found))
    if not found.holds:
        click.get_current_context().exit(1)


if __name__ == "__main__":
    main(command)
