"""``ikos messages``: how many messages each user must send, by every analysis that covers it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import click

from ikos.cli.errors import Command, in_options
from ikos.cli.options import DOMAIN_KEYS, DOMAIN_OPTIONS, check_plot, domain_of, option, options
from ikos.cli.output import at_least, at_most, power_text, progress
from ikos.cli.types import SIGMA, Honest, Whole
from ikos.results.report import Field, Report, digits, values

if TYPE_CHECKING:
    from ikos.counts import Layout

KEYS = [
    Field("users", "how many there are"),
    Field("min_honest", "how many of them are honest, at least"),
    Field("corrupt_shufflers", "how many shufflers, of each sum, may collude with the analyzer"),
    Field("modulus", "order of the group of the shares, of each coordinate; a string of digits",
          value=lambda asked: digits(asked.q)),
    Field("bits_per_message", "of one coordinate", value=lambda asked: (asked.q - 1).bit_length()),
    Field("sigma", "security asked for in bits, of the whole vector; null for a private sum"),
    Field("epsilon", "privacy asked for; null for a secure sum"),
    Field("delta", "the same"),
    Field("reserve", "the part of epsilon that hiding may take at most, or null"),
    Field("releases", "for how many sums about the same users the budget is, or null"),
    Field("precision", "steps between the bounds of a private sum, or null"),
    Field("integers", "whether values are integers, so that nothing is rounded"),
    Field("overhead", "bytes by which each message of vectors grows on its way, or null"),
    *DOMAIN_KEYS,
    Field("plot", "the file that was written, or null"),
]  # fmt: skip


def _level(sigma: float) -> str:
    from ikos.results.text import hundredths

    return f"{hundredths(sigma):,}" if math.isfinite(sigma) else "no limit"


COLUMNS = [
    Field("best", "whether no proved row has fewer messages", "", lambda best: "*" * best),
    Field("smallest", "whether no proved row has fewer bits, or with --overhead fewer bytes", "",
          lambda best: "+" * best),
    Field("analysis", "which bound", "analysis"),
    Field("shuffler", "parallel or single", "shuffler"),
    Field("clear_share", "whether a message bypasses the shufflers"),
    Field("layout", "of vectors: separate sums, one group or blocks of so many coordinates; null "
          "for numbers", "layout"),
    Field("sums", "how many sums, one for each block", value="counts.sums"),
    Field("shuffled", "shuffled messages of each sum; null where nothing is covered", "shuffled",
          value="counts.count.shuffled", needed=True),
    Field("necessary", "shuffled messages: fewer are proved not to be enough; null where unknown",
          "necessary"),
    Field("clear", "clear messages of each sum", "clear", value="counts.count.clear"),
    Field("total", "messages of each sum", value="counts.count.total"),
    Field("messages_per_user", "of all sums", "in all", value="counts.messages_per_user"),
    Field("bits_per_user", "of all sums", "bits/user", value="counts.bits_per_user"),
    Field("bytes_per_user", "of all sums, each message with --overhead more; null without it",
          "bytes/user"),
    Field("sigma", "security proved in bits; null where unlimited", "sigma", _level),
    Field("unlimited", "whether there is nothing to hide, as of a single user",
          value=lambda row: row.sigma and math.isinf(row.sigma)),
    Field("delta", "of a private sum", "delta", lambda delta: at_least(delta, 2), "counts.delta"),
    Field("noise_epsilon", "what is left of epsilon for the noise", "noise eps",
          lambda left: at_most(left, 4), "counts.count.noise_epsilon"),
    Field("standard_error", "of a private sum: bound on the root of its mean squared error",
          "error", lambda error: at_least(error, 4)),
    Field("proved", "false where nothing is covered, or the row is for comparison only", "proved"),
    Field("theorem", "what proves it", value="counts.count.theorem"),
    Field("reason", "why nothing is covered or proved, or null"),
]  # fmt: skip

EXAMPLES = """\b
Examples
  ikos messages --users 10^6 --modulus 2^64 --sigma 80
  ikos messages --users 10^6 --epsilon 1 --delta 1e-12
  ikos messages --users 10^5 --epsilon 1 --delta 1e-10 \\
      --domain ball --dimension 1024
  ikos messages --users 500 --modulus 2^23 --sigma 80 --dimension 1000 \\
      --overhead 48
"""

SECTIONS = {"users": "Users", "modulus": "A secure sum", "epsilon": "A private sum",
            "domain": "Vectors (a secure sum takes --dimension alone)", "analysis": "What to list",
            "plot": "Output"}  # fmt: skip

PRIVATE = ("epsilon", "delta", "lower", "upper", "integers", "precision", "reserve", "releases",
           "domain", "radius", "sparsity", "sizes")  # fmt: skip
"""Options of private sums alone."""


@click.command(
    "messages", cls=Command, epilog=EXAMPLES, sections=SECTIONS, columns=COLUMNS, keys=KEYS
)
@options("--users", "--min-honest", "--corrupt-shufflers", required=("--users",))
@option("--modulus", show_default="chosen for a private sum")
@option("--sigma", type=SIGMA, help="Security in bits, e.g. 80.")
@options("--epsilon", "--delta")
@option("--lower", show_default="0")
@option("--upper", show_default="1")
@options("--integers", "--precision", "--reserve")
@option("--releases", type=Whole(1, 10**6), show_default="1",
        help="Of vectors: how many sums about the same users share the budget.")  # fmt: skip
@options(*DOMAIN_OPTIONS)
@option("--overhead", help="Also list blocks of coordinates that take the fewest bytes, if each "
        "message grows by this many on its way: 48 in an HPKE envelope.")  # fmt: skip
@option("--analysis", default=None, show_default="all")
@option("--shuffler", default=None, show_default="both")
@option("--clear-share/--no-clear-share", default=None, show_default="both")
@option("--plot", help="Plot the messages against the users, of numbers, to a .png, .svg or .pdf.")
def command(
    analysis: str | None, shuffler: str | None, clear_share: bool | None, **given: Any
) -> Report:
    """Print how many messages each user must send.

    For a secure sum give --modulus and --sigma; for a differentially private
    one --epsilon and --delta. Every analysis that says something is listed,
    for parallel shufflers and for a single one, with and without a clear share
    (one message of each user that bypasses the shufflers).

    With --dimension (secure) or --domain (private) the sums are of vectors,
    whose coordinates are summed separately, or as one group; with --overhead
    also in blocks.

    It also prints how many shuffled messages are necessary: no analysis,
    present or future, can get below that.
    """
    from ikos.counts import ANALYSES, SHUFFLERS
    from ikos.counts.analyses import LEVELS
    from ikos.counts.secure import checked_analysis
    from ikos.results.sums import budget_warnings, trust_warnings

    check_plot(given["plot"])
    _check_together(given)
    asked = _asked(given)
    every = ANALYSES if asked.sigma is None else LEVELS
    analyses = [checked_analysis(analysis)] if analysis else list(every)
    settings = [
        (kind, clear)
        for kind in ([shuffler] if shuffler else SHUFFLERS)
        for clear in ((True, False) if clear_share is None else (clear_share,))
    ]
    rows: list[CountRow] = []
    with progress("counting messages") as shown:
        for done, one in enumerate(analyses, 1):
            found = [row for setting in settings for row in _rows(asked, one, *setting)]
            rows += sorted(found, key=lambda row: row.cost("messages_per_user"))
            if shown is not None:
                shown(done, len(analyses))
    covered = [row.counts.count for row in rows if row.counts is not None]
    reasons: dict[str, dict[str, None]] = {}
    for row in rows:
        if row.reason is not None:
            reasons.setdefault(row.reason, {})[row.analysis] = None
    said = [f"{', '.join(names)}: {reason}" for reason, names in reasons.items()]
    if not covered:
        raise click.UsageError(f"no theorem covers this: {'; '.join(said)}")
    for mark, key in (("best", "messages_per_user"), ("smallest", "size")):
        least = min((row.cost(key) for row in rows if row.proved), default=None)
        for row in rows:
            setattr(row, mark, row.proved and row.cost(key) == least)
    if asked.plot is not None:
        _plot(asked, analyses, settings)

    notes = [f"{row.analysis}: {row.counts.count.theorem}" for row in rows if row.counts]
    warnings = trust_warnings(asked.corrupt_shufflers, max(one.shuffled for one in covered))
    if asked.sigma is None:
        warnings = budget_warnings(asked.epsilon, asked.delta, asked.users) + warnings
        notes.append(
            "delta and noise eps: what is proved, and what is left of epsilon for the noise after "
            "what imperfect hiding takes. error: of the sum, root mean square, at most."
        )
    if any(row.necessary for row in rows):
        notes.append("necessary: fewer shuffled messages are proved not to be enough.")
    notes += [f"Not covered, or not proved: {one}." for one in said]
    notes.append(
        "Each proved row is enough by itself; * marks the fewest messages, + the fewest "
        f"{'bits' if asked.overhead is None else 'bytes'}."
    )
    who = f"{power_text(asked.users)} user{'s' * (asked.users != 1)}"
    who += f", {asked.min_honest:,} of them honest" * (asked.min_honest < asked.users)
    who += f", {asked.corrupt_shufflers} shufflers corrupt" * bool(asked.corrupt_shufflers)
    what = f"vectors of {asked.dimension:,} coordinates" if asked.vectors else "numbers"
    title = f"{asked.title}: {what} of {who}, modulo {power_text(asked.q)}"
    return Report(title, COLUMNS, rows, list(dict.fromkeys(notes)), values(KEYS, asked), warnings)


def _check_together(given: Mapping[str, Any]) -> None:
    """Refuse options that do not go together."""
    secure = given["sigma"] is not None
    if None in [given[name] for name in (("modulus",) if secure else ("epsilon", "delta"))]:
        raise click.UsageError(
            "give --modulus and --sigma for a secure sum, --epsilon and --delta for a private one"
        )
    for name in PRIVATE:
        if secure and given[name] is not None and given[name] is not False:
            raise click.UsageError(f"--{name} is for a private sum, --sigma for a secure one")
    if given["releases"] is not None and given["domain"] is None:
        raise click.UsageError("--releases needs --domain")
    if given["overhead"] is not None and not (given["domain"] or given["dimension"]):
        raise click.UsageError("--overhead needs --dimension or --domain")
    if given["plot"] is not None and (given["domain"] or given["dimension"]):
        raise click.UsageError("--plot is for sums of numbers, without --domain and --dimension")


@dataclass
class CountRow:
    """What an analysis proves in a setting; without ``counts`` nothing, for the ``reason``."""

    analysis: str
    shuffler: str
    clear_share: bool
    layout: str | None
    overhead: int | None
    counts: Layout | None = None
    standard_error: float | None = None
    necessary: int | None = None
    reason: str | None = None
    best: bool = False
    smallest: bool = False

    @property
    def proved(self) -> bool:
        """Whether it is more than a comparison."""
        return self.counts is not None and self.reason is None

    @property
    def sigma(self) -> float | None:
        """Of a secure sum, what is proved of the whole vector."""
        return None if self.counts is None or self.counts.epsilon is not None else self.counts.sigma

    @property
    def bytes_per_user(self) -> int | None:
        """What each user sends, with what each message grows by."""
        if self.counts is None or self.overhead is None:
            return None
        return self.counts.bytes_per_user(self.overhead)

    def cost(self, key: str) -> float:
        """Return the messages or the size of each user, infinite where nothing is covered."""
        if self.counts is None:
            return math.inf
        if key == "size":
            return float(self.bytes_per_user or self.counts.bits_per_user)
        return float(self.counts.messages_per_user)


def _asked(given: Mapping[str, Any]) -> Any:
    """Return what is asked, with what a private sum chooses; ``make`` returns such a sum."""
    from ikos.sums import PrivateSum, PrivateVectorSum, SecureVectorSum

    asked = SimpleNamespace(**given)
    asked.min_honest = Honest.of(asked.min_honest, asked.users)
    asked.vectors = asked.domain is not None or asked.dimension is not None
    asked.title = "Messages of each user for a "
    if asked.sigma is not None:
        asked.title += f"secure sum with {float(asked.sigma):g} bits of security"
        asked.q, asked.dimension = asked.modulus, asked.dimension or 1
        given_ = asked.users, asked.dimension, asked.q
        asked.make = partial(SecureVectorSum, *given_, sigma=asked.sigma)
        return asked
    domain: Any = domain_of(asked.domain, given)
    asked.domain, asked.dimension, asked.releases = domain, domain.dimension, asked.releases or 1
    asked.title += f"({float(asked.epsilon):g}, {float(asked.delta):g})-private sum"
    if asked.releases > 1:
        asked.title += f", each of {asked.releases:,} that are so private together"
    asked.reserve = Fraction(1, 100) if asked.reserve is None else asked.reserve
    how: dict[str, Any] = {"reserve": asked.reserve, "integers": asked.integers}
    budget = asked.epsilon, asked.delta
    if asked.vectors:
        how["releases"] = asked.releases
        make: Any = partial(PrivateVectorSum, asked.users, domain, *budget, **how)
    else:
        how |= {"lower": domain.lower, "upper": domain.upper}
        make = partial(PrivateSum, asked.users, *budget, **how)
    # what a private sum chooses does not depend on the number of messages
    chosen = {"precision": asked.precision, "modulus": asked.modulus}
    made = make(messages=5, min_honest=asked.min_honest, **chosen)
    asked.wanted_precision = asked.precision
    asked.precision, asked.q = made.precision, made.modulus
    asked.make = partial(make, precision=asked.precision, modulus=asked.q)
    return asked


def _rows(asked: Any, analysis: str, shuffler: str, clear_share: bool) -> Iterator[CountRow]:
    """Yield for each layout what an analysis proves, or why it covers nothing."""
    from ikos.counts.types import Uncovered
    from ikos.counts.vectors import LAYOUTS

    for layout, name in LAYOUTS.items():
        if layout == "blocks" and asked.overhead is None:
            continue
        if layout != "group" and asked.dimension == 1:
            continue  # the same as one group
        shown = name if asked.vectors else None
        row = CountRow(analysis, shuffler, clear_share, shown, asked.overhead)
        try:
            _count(asked, row, layout)
        except Uncovered as error:  # the setting is in the row
            row.reason = error.reason
        except ValueError as error:
            row.reason = in_options(error)
        if row.layout == name or row.layout not in LAYOUTS.values():  # not blocks of one or all
            yield row


def _count(asked: Any, row: CountRow, layout: str) -> None:
    """Find what is proved for a row, and what is necessary for the fewest or for all users."""
    from ikos.counts import necessary_messages, necessary_private_messages
    from ikos.counts.published import unproved

    if asked.corrupt_shufflers and row.shuffler == "single":
        raise ValueError("a single shuffler must be honest: it sees everything")
    way: dict[str, Any] = {"shuffler": row.shuffler, "clear_share": row.clear_share}
    how = {"analysis": row.analysis, "min_honest": asked.min_honest, **way}
    how["corrupt_shufflers"] = asked.corrupt_shufflers
    laid_out = {"layout": layout, "overhead": asked.overhead or 0} if asked.dimension > 1 else {}
    protocol = asked.make(**how, **laid_out)
    row.counts, together = protocol.layout, protocol.layout.length
    if asked.vectors:
        row.layout = row.counts.name
    if asked.sigma is None:
        row.standard_error = math.sqrt(protocol.mse)
        if not asked.vectors and (row.shuffler, row.clear_share) == ("parallel", True):
            row.necessary = necessary_private_messages(
                asked.users, asked.q, asked.epsilon, asked.delta, asked.precision,
                min_honest=asked.min_honest, corrupt_shufflers=asked.corrupt_shufflers,
                reserve=asked.reserve,
            )  # fmt: skip
    else:
        q, fewest = asked.q**together, {max(2, asked.min_honest), asked.users}
        covered = 8 % asked.q and (row.clear_share or asked.q % 4 != 2)
        if asked.users > 1 and (together == 1 or covered):  # the theorem is not for all vectors
            way["corrupt_shufflers"] = asked.corrupt_shufflers
            row.necessary = max(necessary_messages(n, q, asked.sigma, **way) for n in fewest)
    row.reason = unproved(row.analysis, asked.q, together)


def _plot(asked: Any, analyses: list[str], settings: Any) -> None:
    """Write the figure: as asked at the asked users, and as much to both sides."""
    from ikos.counts.published import unproved
    from ikos.plots import BOTH_WAYS, grid, private_curves, save, secure_curves
    from ikos.plots.figures import messages_figure

    low, high = max(2, asked.users // 1000), min(1 << 53, 1000 * max(2, asked.users))
    users = grid(low, high, 12 if asked.sigma is None else 30, also=[asked.users])
    corrupt, honest = asked.corrupt_shufflers, Fraction(asked.min_honest, asked.users)
    chosen = list(BOTH_WAYS) if len(settings) == 4 else settings
    how: dict[str, Any] = {"analyses": analyses, "honest": honest, "corrupt": corrupt}
    how["settings"] = [way for way in chosen if way[0] == "parallel" or not corrupt]
    title, notes = asked.title, ["Totals count the clear share where there is one."]
    with progress("plotting") as shown:
        if asked.sigma is not None:
            title += f", modulo {power_text(asked.q)}"
            curves = secure_curves(users, asked.q, asked.sigma, progress=shown, **how)
        else:
            how["precision"] = asked.precision if asked.integers else asked.wanted_precision
            how |= {"reserve": asked.reserve, "modulus": asked.modulus, "progress": shown}
            curves = private_curves(users, asked.epsilon, asked.delta, **how)
    reasons = {curve.name: unproved(curve.name, asked.q) for curve in curves}
    notes += [f"{name}: {why}." for name, why in reasons.items() if why]
    if "attack" in reasons:
        notes.append("The attack is on parallel shufflers; an estimate, not a proof.")
    if corrupt:
        notes.append(f"Shufflers that may collude with the analyzer: {corrupt:,}.")
    footnote = "\n".join(notes)
    figure = messages_figure(curves, title, mark=asked.users, honest=honest, footnote=footnote)
    save(figure, asked.plot)
