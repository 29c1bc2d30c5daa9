"""``ikos messages``: how many messages each user must send, by every analysis that says."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ikos.cli.domains import KEYS as DOMAIN_KEYS
from ikos.cli.domains import OPTIONS, described, domain_of
from ikos.cli.errors import Command, in_options
from ikos.cli.options import (
    check_bounds,
    check_plot,
    format_options,
    option,
    options,
    save_plot,
)
from ikos.cli.output import at_least, at_most, power_text, print_report, progress
from ikos.cli.release import unproved_for
from ikos.cli.types import SIGMA, Honest
from ikos.report import KEYS as REPORT_KEYS
from ikos.report import READ, Field, Report, digits

if TYPE_CHECKING:
    from ikos.vectors import Domain

KEYS = {
    **REPORT_KEYS,
    "users": "how many there are",
    "min_honest": "how many of them are honest, at least",
    "corrupt_shufflers": "how many shufflers, of each sum, may collude with the analyzer",
    "modulus": "order of the group of the shares, of each coordinate; a string of digits",
    "bits_per_message": "of one coordinate",
    "sigma": "security asked for in bits, of the whole vector; null for a private sum",
    "epsilon": "privacy asked for; null for a secure sum",
    "delta": "the same",
    "reserve": "the part of epsilon that hiding may take at most, or null",
    "releases": "for how many sums about the same users the budget is, or null",
    "precision": "steps between the bounds of a private sum, or null",
    "integers": "whether values are integers, so that nothing is rounded",
    **DOMAIN_KEYS,
    "plot": "the file that was written, or null",
}


def _level(sigma: float) -> str:
    from ikos.results import hundredths

    return f"{hundredths(sigma):,}" if math.isfinite(sigma) else "no limit"


COLUMNS = [
    Field("best", "whether no proved row has fewer messages", "", lambda best: "*" * best),
    Field("smallest", "whether no proved row has fewer bits", "", lambda best: "+" * best),
    Field("analysis", "which bound", "analysis"),
    Field("shuffler", "parallel or single", "shuffler"),
    Field("clear_share", "whether a message bypasses the shufflers"),
    Field("layout", "of vectors: separate sums or one group; null for numbers", "layout"),
    Field("sums", "how many sums: 1, or one for each coordinate"),
    Field("shuffled", "shuffled messages of each sum; null where nothing is covered", "shuffled"),
    Field("clear", "clear messages of each sum", "clear"),
    Field("total", "messages of each sum"),
    Field("messages_per_user", "of all sums", "in all"),
    Field("bits_per_user", "of all sums", "bits/user"),
    Field(
        "sigma", "security proved in bits; null where unlimited", "sigma",
        _level,
    ),
    Field("unlimited", "whether there is nothing to hide, as of a single user"),
    Field("delta", "of a private sum", "delta", lambda delta: at_least(delta, 2)),
    Field("noise_epsilon", "what is left of epsilon for the noise", "noise eps",
           lambda left: at_most(left, 4)),
    Field("standard_error", "of a private sum: bound on the root of its mean squared error",
           "error", lambda error: at_least(error, 4)),
    Field("floor", "of a secure sum: shuffled messages below which nothing can be proved",
           "floor"),
    Field("proved", "false where nothing is covered, or the row is for comparison only", "proved"),
    Field("theorem", "what proves it"),
    Field("reason", "why nothing is covered or proved, or null"),
]  # fmt: skip

EXAMPLES = """\b
Examples
  ikos messages --users 10^6 --modulus 2^64 --sigma 80
  ikos messages --users 10^6 --epsilon 1 --delta 1e-12
  ikos messages --users 10^5 --epsilon 1 --delta 1e-10 \\
      --domain ball --dimension 1024
"""

SECTIONS = {
    "users": "Users",
    "modulus": "A secure sum",
    "epsilon": "A private sum",
    "domain": "Vectors (a secure sum takes --dimension alone)",
    "analysis": "What to list",
    "plot": "Output",
}

PRIVATE = ("epsilon", "delta", "lower", "upper", "integers", "precision", "reserve", "releases",
           "domain", "radius", "sparsity", "sizes")  # fmt: skip
"""Options of private sums alone."""

LAYOUTS = ("separate sums", "one group")


@click.command(
    "messages", cls=Command, epilog=EXAMPLES, sections=SECTIONS, keys=KEYS, columns=COLUMNS
)
@options("--users", "--min-honest", "--corrupt-shufflers", required=("--users",))
@option("--modulus", shown="chosen for a private sum")
@option("--sigma", type=SIGMA, help="Security in bits, e.g. 80.")
@options("--epsilon", "--delta")
@option("--lower", shown="0")
@option("--upper", shown="1")
@options("--integers", "--precision", "--reserve")
@option("--releases", type=click.IntRange(1, 10**6), shown="1",
        help="Of vectors: how many sums about the same users share the budget.")  # fmt: skip
@options("--domain", *OPTIONS)
@option("--analysis", default=None, shown="all")
@option("--shuffler", default=None, shown="both")
@option("--clear-share/--no-clear-share", default=None, shown="both")
@option("--plot", help="Plot the messages against the users, of numbers, to a .png, .svg or .pdf.")
@format_options
def command(
    how: str,
    users: int,
    min_honest: int | Fraction | None,
    corrupt_shufflers: int,
    analysis: str | None,
    shuffler: str | None,
    clear_share: bool | None,
    plot: Path | None,
    **given: Any,
) -> None:
    """Print how many messages each user must send.

    For a secure sum give --modulus and --sigma; for a differentially private
    one --epsilon and --delta. Every analysis that says something is listed,
    for parallel shufflers and for a single one, with and without a clear share
    (one message of each user that bypasses the shufflers).

    With --dimension (secure) or --domain (private) the sums are of vectors,
    whose coordinates are summed separately, or as one group.

    For a secure sum, it also prints the floor: the number of shuffled messages
    below which no analysis, present or future, can get.
    """
    from ikos.counts import ANALYSES, SHUFFLERS
    from ikos.counts.secure import checked_analysis
    from ikos.results import budget_warnings, trust_warnings

    check_plot(plot)
    given["integers"] = given["integers"] or None
    check_together(given, plot)
    request = Request.of(users, Honest.of(min_honest, users), corrupt_shufflers, given)
    analyses = [checked_analysis(analysis)] if analysis else list(ANALYSES)
    settings = [
        (kind, clear)
        for kind in ([shuffler] if shuffler else SHUFFLERS)
        for clear in ((True, False) if clear_share is None else (clear_share,))
    ]
    rows: list[dict[str, Any]] = []
    with progress("counting messages", parts=analyses) as shown:
        for done, one in enumerate(analyses, 1):
            found = [row for setting in settings for row in request.rows(one, *setting)]
            rows += sorted(found, key=lambda row: row.get("messages_per_user", math.inf))
            if shown is not None:
                shown(done, len(analyses))
    covered = [row for row in rows if "total" in row]
    reasons = dict.fromkeys(f"{row['analysis']}: {row['reason']}" for row in rows if row["reason"])
    if not covered:
        raise click.UsageError(f"no theorem covers this: {'; '.join(reasons)}")
    for mark, key in (("best", "messages_per_user"), ("smallest", "bits_per_user")):
        least = min((row[key] for row in covered if row["proved"]), default=None)
        for row in covered:
            row[mark] = row["proved"] and row[key] == least
    if plot is not None:
        _plot(plot, request, analyses, settings, given)

    notes = [f"{row['analysis']}: {row['theorem']}" for row in covered]
    warnings = trust_warnings(corrupt_shufflers, max(row["shuffled"] for row in covered))
    if request.sigma is None:
        warnings = budget_warnings(request.epsilon, request.delta, users) + warnings
        notes.append(
            "delta and noise eps: what is proved, and what is left of epsilon for the noise after "
            "what imperfect hiding takes. error: of the sum, root mean square, at most."
        )
    elif any(row["floor"] is not None for row in covered):
        notes.append("floor: no analysis can prove the security with fewer shuffled messages.")
    notes += [f"Not covered, or not proved: {reason}." for reason in reasons]
    notes.append(
        "Each proved row is enough by itself; * marks the fewest messages, + the fewest bits."
    )
    data = {**request.described(), "plot": plot, "warnings": warnings}
    shown_rows = covered if how in READ else rows
    print_report(Report(request.title, COLUMNS, shown_rows, list(dict.fromkeys(notes)), data), how)


def check_together(given: Mapping[str, Any], plot: Path | None) -> None:
    """Refuse options that do not go together."""
    sigma, epsilon, delta = given["sigma"], given["epsilon"], given["delta"]
    if sigma is None and epsilon is None and delta is None:
        raise click.UsageError(
            "give --modulus and --sigma for a secure sum, --epsilon and --delta for a private one"
        )
    if sigma is not None:
        for name in PRIVATE:
            if given[name] is not None:
                raise click.UsageError(f"--{name} is for a private sum, --sigma for a secure one")
        if given["modulus"] is None:
            raise click.UsageError("--sigma needs --modulus, e.g. --modulus 2^64")
    elif epsilon is None or delta is None:
        known, missing = ("delta", "epsilon") if epsilon is None else ("epsilon", "delta")
        raise click.UsageError(f"--{known} needs --{missing}")
    elif given["releases"] is not None and given["domain"] is None:
        raise click.UsageError("--releases needs --domain")
    if plot is not None and (given["domain"] or given["dimension"]):
        raise click.UsageError("--plot is for sums of numbers, without --domain and --dimension")


@dataclass(frozen=True)
class Request:
    """What is asked, with the parameters of a private sum filled in; numbers have no domain."""

    users: int
    honest: int
    corrupt: int
    q: int
    sigma: Fraction | None
    dimension: int
    vectors: bool
    named: str | None = None
    domain: Domain | None = None
    epsilon: Fraction = Fraction(0)
    delta: Fraction = Fraction(0)
    options: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, users: int, honest: int, corrupt: int, given: Mapping[str, Any]) -> Request:
        """Return what the options ask for."""
        if given["sigma"] is not None:
            from ikos.counts.vectors import checked_dimension

            d = given["dimension"]
            checked_dimension(d or 1, given["modulus"])
            return cls(
                users, honest, corrupt, given["modulus"], given["sigma"], d or 1, d is not None
            )
        name = given["domain"]
        domain = domain_of(name, given)
        chosen = {key: given[key] for key in ("precision", "integers", "reserve", "releases")}
        chosen = {key: value for key, value in chosen.items() if value is not None}
        if domain is None:
            chosen["lower"] = 0.0 if given["lower"] is None else given["lower"]
            chosen["upper"] = 1.0 if given["upper"] is None else given["upper"]
            check_bounds(chosen["lower"], chosen["upper"])
        request = cls(
            users, honest, corrupt, 0, None, 1 if domain is None else domain.dimension,
            domain is not None, name, domain, given["epsilon"], given["delta"], chosen,
        )  # fmt: skip
        # what a private sum chooses does not depend on the number of messages
        made = request.private(modulus=given["modulus"], messages=5, min_honest=honest)
        return replace(request, q=made.modulus, options={**chosen, "precision": made.precision})

    @property
    def title(self) -> str:
        """What is counted."""
        what = f"vectors of {self.dimension:,} coordinates" if self.vectors else "numbers"
        kind, level = "secure", f" with {float(self.sigma or 0):g} bits of security"
        if self.sigma is None:
            kind, level = f"({float(self.epsilon):g}, {float(self.delta):g})-private", ""
        who = f"{power_text(self.users)} user{'s' * (self.users != 1)}"
        who += f", {self.honest:,} of them honest" * (self.honest < self.users)
        trust = f", {self.corrupt} shufflers corrupt" * bool(self.corrupt)
        of = f"{what} of {who}{trust}, modulo {power_text(self.q)}"
        return f"Messages of each user for a {kind} sum{level}: {of}"

    def described(self) -> dict[str, Any]:
        """Return what JSON says of it, of `KEYS`."""
        private, chosen = self.sigma is None, self.options
        found = {
            "command": "messages",
            "users": self.users,
            "min_honest": self.honest,
            "corrupt_shufflers": self.corrupt,
            "modulus": digits(self.q),
            "bits_per_message": (self.q - 1).bit_length(),
            "sigma": self.sigma,
            "epsilon": self.epsilon if private else None,
            "delta": self.delta if private else None,
            "reserve": chosen.get("reserve", Fraction(1, 100)) if private else None,
            "releases": chosen.get("releases", 1) if private else None,
            "precision": chosen.get("precision"),
            "integers": bool(chosen.get("integers")),
            **described(self.named, self.domain),
            "dimension": self.dimension,
        }
        return found | {key: chosen[key] for key in ("lower", "upper") if key in chosen}

    def private(self, **how: Any) -> Any:
        """Return the private sum that is asked for."""
        from ikos import PrivateSum
        from ikos.vectors import PrivateVectorSum

        parameters = {**self.options, **({"modulus": self.q} if self.q else {}), **how}
        if self.domain is None:
            return PrivateSum(self.users, self.epsilon, self.delta, **parameters)
        return PrivateVectorSum(self.users, self.domain, self.epsilon, self.delta, **parameters)

    def rows(self, analysis: str, shuffler: str, clear: bool) -> Iterator[dict[str, Any]]:
        """Yield a row for each layout."""
        layouts = LAYOUTS if self.dimension > 1 else LAYOUTS[1:]
        for layout in layouts:
            row = {
                "analysis": analysis, "shuffler": shuffler, "clear_share": clear,
                "layout": layout if self.vectors else None,
                "sums": self.dimension if layout == LAYOUTS[0] else 1,
                "best": False, "smallest": False, "proved": False, "reason": None,
            }  # fmt: skip
            try:
                yield row | self._counted(layout, row)
            except ValueError as problem:
                said = in_options(str(problem))
                if said.startswith("analysis ") and ": " in said:  # the setting is in the row
                    said = said.partition(": ")[2].partition("; ")[0]
                yield row | {"reason": said.removeprefix(f"{analysis} ")}

    def _counted(self, layout: str, row: Mapping[str, Any]) -> dict[str, Any]:
        from ikos.counts import vector_layouts

        how = {
            "analysis": row["analysis"],
            "shuffler": row["shuffler"],
            "clear_share": row["clear_share"],
            "min_honest": self.honest,
            "corrupt_shufflers": self.corrupt,
        }
        found: dict[str, Any] = {}
        bits = (self.q - 1).bit_length() * (self.dimension // row["sums"])
        if self.sigma is None:
            if self.vectors and self.dimension > 1:
                how["layout"] = layout
            protocol = self.private(**how)
            whole = protocol.layout if self.vectors else protocol.messages
            count = whole.count if self.vectors else whole
            found["delta"], found["noise_epsilon"] = whole.delta, count.noise_epsilon
            found["standard_error"] = math.sqrt(protocol.mse)
        else:
            made = vector_layouts(self.users, self.q, self.sigma, self.dimension, **how)
            (whole,) = (one for one in made if one.name == layout)
            count = whole.count
            found["floor"] = self._floor(row)
            found["sigma"] = whole.sigma
            found["unlimited"] = math.isinf(whole.sigma)
        why = unproved_for(row["analysis"], self.q, self.dimension // row["sums"])
        return found | {
            "shuffled": count.shuffled,
            "clear": count.clear,
            "total": count.total,
            "messages_per_user": row["sums"] * count.total,
            "bits_per_user": row["sums"] * count.total * bits,
            "proved": why is None,
            "theorem": count.theorem,
            "reason": why,
        }

    def _floor(self, row: Mapping[str, Any]) -> int | None:
        """Return the highest floor of some numbers of honest users: the level is for all of them.

        What corrupt shufflers pass on is as good as clear, and clear messages do not count. Where
        a vector is hidden, so is each coordinate.
        """
        from ikos.counts.floor import counting_floor

        if self.users == 1 or self.sigma is None:
            return None
        q = self.q ** (self.dimension // row["sums"])
        how = {"shuffler": row["shuffler"], "clear_share": row["clear_share"]}
        sizes = {max(2, self.honest), self.users}
        return self.corrupt + max(counting_floor(n, q, self.sigma, **how) for n in sizes)


def _plot(
    path: Path,
    request: Request,
    analyses: list[str],
    settings: list[tuple[str, bool]],
    given: Mapping[str, Any],
) -> None:
    """Write the figure: as asked at the asked users, and as much to both sides."""
    from ikos.plots import BOTH_WAYS, grid, private_curves, secure_curves
    from ikos.plots.figures import messages_figure

    low, high = max(2, request.users // 1000), min(1 << 53, 1000 * max(2, request.users))
    chosen = list(BOTH_WAYS) if len(settings) == 4 else settings
    honest = Fraction(request.honest, request.users)
    how: dict[str, Any] = {
        "analyses": analyses,
        "settings": [way for way in chosen if way[0] == "parallel" or not request.corrupt],
        "honest": honest,
        "corrupt": request.corrupt,
    }
    with progress("plotting", parts=()) as shown:
        if request.sigma is not None:
            users = grid(low, high, 30, also=[request.users])
            curves = secure_curves(users, request.q, request.sigma, progress=shown, **how)
        else:
            steps = request.options["precision"] if given["integers"] else given["precision"]
            users = grid(low, high, 12, also=[request.users])
            curves = private_curves(
                users, request.epsilon, request.delta, precision=steps, modulus=given["modulus"],
                reserve=request.options.get("reserve", Fraction(1, 100)),
                progress=shown, **how,
            )  # fmt: skip
    notes = ["Totals count the clear share where there is one."]
    if any(curve.name == "attack" for curve in curves):
        notes.append("The attack is on parallel shufflers; an estimate, not a proof.")
    reasons = {curve.name: unproved_for(curve.name, request.q) for curve in curves}
    notes += [f"{name}: {why}." for name, why in reasons.items() if why]
    if request.corrupt:
        notes.append(f"Shufflers that may collude with the analyzer: {request.corrupt:,}.")
    title = request.title.partition(": ")[0]
    if request.sigma is not None:
        title += f", modulo {power_text(request.q)}"
    figure = messages_figure(
        curves, title, mark=request.users, honest=honest, footnote="\n".join(notes)
    )
    save_plot(figure, path)
