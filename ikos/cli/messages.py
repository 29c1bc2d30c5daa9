"""``ikos messages``: how many messages each user must send, by every analysis that covers it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from itertools import chain
from operator import attrgetter
from pathlib import Path

import click

from ikos.cli.errors import Command
from ikos.cli.message_rows import CountRow, MessagesRequest, Question, RowSetting
from ikos.cli.options import DOMAIN_KEYS, check_plot, domain_values, takes
from ikos.cli.output import at_least, at_most, power_text, progress
from ikos.results.report import Field, Report, values

SUM_KEYS = [
    Field("users", "number of users"),
    Field("min_honest", "minimum number of honest users", value="honest"),
    Field("corrupt_shufflers", "shufflers, of each sum, that may collude with the analyzer",
          value="request.corrupt_shufflers"),
    Field("modulus", "order of the group of the shares, for each coordinate; a string of digits"),
    Field("bits_per_message", "bits of one coordinate of a message"),
    Field("sigma", "requested security of the whole vector in bits, or null"),
    Field("epsilon", "requested epsilon; null for a secure sum", value="request.epsilon"),
    Field("delta", "requested delta; null for a secure sum", value="request.delta"),
    Field("reserve", "largest fraction of epsilon that imperfect hiding may take, or null"),
    Field("releases", "number of sums over the same users that share the budget, or null"),
    Field("precision", "steps between the bounds of a private sum, or null"),
    Field("integers", "whether values are integers, so that nothing is rounded",
          value="request.integers"),
    Field("overhead", "transport overhead per message of vectors in bytes, or null",
          value="request.overhead"),
    Field("helpers", "requested number of helpers, or null", value="request.helpers"),
    Field("relays", "requested number of relays, or null", value="request.relays"),
]  # fmt: skip
KEYS = [*SUM_KEYS, *DOMAIN_KEYS, Field("plot", "the file that was written, or null")]
"""Keys whose values differ between several sums are null: they are in the rows."""


def _level(sigma: float) -> str:
    from ikos.results.text import hundredths

    return f"{hundredths(sigma):,}" if math.isfinite(sigma) else "no limit"


COLUMNS = [
    Field("best", "whether no proved row of shares for the same users and level has fewer messages "
          "or, with --messages, a higher level", "", "*".__mul__),
    Field("smallest", "likewise fewer bits, or with --overhead fewer bytes; false with --messages",
          "", "+".__mul__),
    Field("users", "number of users", "users", value="question.users"),
    Field("min_honest", "minimum number of honest users", value="question.honest"),
    Field("modulus", "order of the group of the shares", value="question.modulus"),
    Field("precision", "steps between the bounds of a private sum, or null",
          value="question.precision"),
    Field("requested_sigma", "requested security in bits, or null", "sigma >=",
          "{:.6g}".format, value=lambda row: row.question.sigma and float(row.question.sigma)),
    Field("transport", "shares, masks, helpers, verified or verified-shuffled",
          "transport"),
    Field("noise", "who adds the noise with other transports: users or parties; or null"),
    Field("analysis", "the analysis of shares", "analysis", value="setting.analysis"),
    Field("shuffler", "parallel or single", "shuffler", value="setting.shuffler"),
    Field("clear_share", "whether a message bypasses the shufflers", value="setting.clear_share"),
    Field("layout", "layout of vectors: separate sums, one group, or blocks of b coordinates; of "
          "other transports, what is sent; null for scalars", "layout"),
    Field("sums", "number of sums, one per block", value="counts.sums"),
    Field("shuffled", "shuffled messages of each sum (with masks, of keys); null with helpers, "
          "relays and where nothing is covered", "shuffled", value="count.shuffled"),
    Field("necessary", "proved lower bound on shuffled messages; null where unknown", "necessary"),
    Field("clear", "clear messages of each sum; null likewise", "clear", value="count.clear"),
    Field("total", "messages of each sum", value="counts.count.total"),
    Field("messages_per_user", "messages of all sums; null where nothing is covered", "in all",
          value="counts.messages_per_user", needed=True),
    Field("bits_per_user", "bits of all sums", "bits/user", value="counts.bits_per_user"),
    Field("bytes_per_user", "bytes of all sums, with --overhead for each message; null without it",
          "bytes/user"),
    Field("sigma", "proved security in bits; null where unlimited", "sigma", _level),
    Field("unlimited", "whether nothing is lost, as with a single user, or only by the assumptions "
          "that the theorem names"),
    Field("reserve", "largest fraction of epsilon that imperfect hiding may take, or null; a row "
          "with more than was requested is listed where that saves messages", "reserve",
          "{:.6g}".format, value=lambda row: row.setting and row.question.reserve
          and float(row.question.reserve)),
    Field("delta", "proved delta of a private sum", "delta", partial(at_least, digits=2),
          "counts.delta"),
    Field("noise_epsilon", "the epsilon left for the noise by shares", "noise eps",
          partial(at_most, digits=4), "counts.count.noise_epsilon"),
    Field("standard_error", "bound on the root mean squared error of a private sum", "error",
          partial(at_least, digits=4)),
    Field("influence", "greatest distance by which one user can move a verified sum; else null",
          "influence", partial(at_least, digits=4)),
    Field("proved", "false where nothing is covered, or the row is for comparison only", "proved"),
    Field("servers", "number of servers: the analyzer, and the fewest shufflers, helpers or "
          "relays",
          "servers"),
    Field("trusted", "who must be trusted, with what", "who is trusted with what"),
    Field("theorem", "the theorem that proves it, with computational assumptions"),
    Field("reason", "why nothing is covered or proved, or null"),
]  # fmt: skip

EXAMPLES = """\b
Examples
  ikos messages --users 10^6 --modulus 2^64 --sigma 80
  ikos messages --users 1000,10^6 --modulus 2^64 --sigma 40,80 --analysis best
  ikos messages --users 10^6 --modulus 2^64 --messages 15
  ikos messages --users 10^6 --epsilon 1 --delta 1e-12
  ikos messages --users 10^5 --epsilon 1 --delta 1e-10 \\
      --domain ball --dimension 1024
  ikos messages --users 500 --modulus 2^23 --sigma 80 --dimension 1000 \\
      --overhead 48
"""

SECTIONS = {"users": "Users", "modulus": "A secure sum", "epsilon": "A private sum",
            "domain": "Vectors (a secure sum takes --dimension alone)", "analysis": "What to list",
            "plot": "Output"}  # fmt: skip

PRIVATE_COLUMNS = (
    "delta: proved upper bound. noise eps: the epsilon left for the noise, after the fraction "
    "spent on imperfect hiding. error: bound on the RMSE of the sum."
)

INFLUENCE = (
    "influence: bound on how far one user can move a verified sum. That each value is valid "
    "assumes that discrete logarithms on secp256k1 are hard and SHA-256 and SHA-512 are random "
    "oracles."
)

RESERVES = (
    "reserve: largest fraction of epsilon that imperfect hiding may take. Rows of 2 or 4 % are "
    "listed where they save messages, unless --reserve is given; their error is larger. In Python, "
    "reserve='fewest' takes them."
)


@click.command(
    "messages", cls=Command, epilog=EXAMPLES, sections=SECTIONS, columns=COLUMNS, keys=KEYS
)
@takes(MessagesRequest)
def command(request: MessagesRequest) -> Report:
    """Show how many messages each user must send.

    For a secure sum give --modulus and --sigma (or --messages, to list the
    security of a given number); for a differentially private one --epsilon
    and --delta. Every analysis that applies is listed, for
    parallel shufflers and for a single one, with and without a clear share
    (one message per user that bypasses the shufflers).

    With --dimension (secure) or --domain (private) the sums are of vectors,
    whose coordinates are summed separately, or as one group; with --overhead
    also in blocks.

    Unless an analysis, a shuffler or a clear share is chosen, other transports
    of the same sum are listed too, with the servers that each takes and who is
    trusted with what: a helper, and for vectors masks.

    The output also gives a lower bound on the number of shuffled messages,
    which holds for every analysis.
    """
    from ikos.results.sums import budget_warnings, trust_warnings

    check_plot(request.plot)
    request.check()
    questions = request.questions()
    rows = _rows(questions)
    shuffled = max((row.count.shuffled for row in rows if row.count is not None), default=0)
    if request.plot is not None:
        _plot(questions[0], request.plot)
    warnings = trust_warnings(request.corrupt_shufflers, shuffled)
    if request.epsilon is not None and request.delta is not None:
        each = [budget_warnings(request.epsilon, request.delta, users) for users in request.users]
        warnings = [*dict.fromkeys(chain(*each)), *warnings]
    first, *others = [values(SUM_KEYS, question) for question in questions]
    data = {key: one if all(one == other[key] for other in others) else None
            for key, one in first.items()}  # fmt: skip
    data |= domain_values(request.domain, questions[0].space)
    data |= {"dimension": questions[0].dimension, "plot": request.plot}
    columns = [*map(partial(_shown, rows), COLUMNS)]
    return Report(_title(questions), columns, rows, _notes(request, rows), data, warnings)


def _shown(rows: Sequence[CountRow], column: Field) -> Field:
    """Return a column, for programs alone if it tells no sums apart and is in the title."""
    title = column.title
    single = len({*map(column.of, rows)} - {None}) <= 1
    if column.key in ("users", "requested_sigma", "reserve") and single:
        title = None
    if column.key in ("transport", "servers", "trusted") and all(row.setting for row in rows):
        title = None
    return replace(column, title=title)


def _rows(questions: Sequence[Question]) -> list[CountRow]:
    """Return the result of every analysis in every setting, with the cheapest rows marked."""
    request = questions[0].request
    analyses, settings = request.analyses(), request.settings()
    rows: list[CountRow] = []
    with progress("counting messages") as shown:
        done = 0
        for question in questions:
            answers: list[CountRow] = []
            for analysis in analyses:
                listed: list[CountRow] = []
                for setting in settings:
                    listed += question.rows(RowSetting(analysis, *setting))
                    done += 1
                    shown(done, len(questions) * len(analyses) * len(settings))
                answers += sorted(listed, key=attrgetter("messages"))
            others = [*question.others()]
            if not any(row.counts for row in (*answers, *others)):
                which = "this" if len(questions) == 1 else f"{question.users:,} users"
                raise click.UsageError(f"no theorem covers {which}: {'; '.join(_reasons(answers))}")
            rows += [*_marked(answers), *others]
    return rows


def _marked(rows: Sequence[CountRow]) -> list[CountRow]:
    """Return the rows of one sum, with the proved ones marked that are best."""
    cost = min((row.cost for row in rows if row.proved), default=None)
    size = min((row.size for row in rows if row.proved), default=None)
    return [
        replace(row, best=row.cost == cost, smallest=row.size == size and not row.question.total)
        if row.proved
        else row
        for row in rows
    ]


def _reasons(rows: Sequence[CountRow]) -> list[str]:
    """Return why nothing is covered or proved, each reason once."""
    analyses: dict[str, dict[str, None]] = {}
    for row in rows:
        if row.reason is not None:
            analyses.setdefault(row.reason, {})[row.name] = None
    return [f"{', '.join(names)}: {reason}" for reason, names in analyses.items()]


def _notes(request: MessagesRequest, rows: Sequence[CountRow]) -> list[str]:
    """Return theorems, explanations of columns and marks, and reasons where nothing is covered."""
    stated = [row for row in rows if row.counts and row.sigma != 0]
    notes = [f"{row.name}: {row.theorem}" for row in stated]
    notes += [PRIVATE_COLUMNS] * (request.epsilon is not None)
    notes += [INFLUENCE] * (request.relays is not None)
    if len({row.question.reserve for row in rows}) > 1:
        notes.append(RESERVES)
    if any(row.necessary for row in rows):
        notes.append("necessary: proved lower bound on the number of shuffled messages.")
    notes += [f"Not covered, or not proved: {reason}." for reason in _reasons(rows)]
    unit = "bits" if request.overhead is None else "bytes"
    marks = f"is sufficient; * marks the fewest messages, + the fewest {unit}"
    if request.messages:
        marks = "has at least this level, sigma in bits; * marks the highest"
    if not all(row.setting for row in rows):
        marks = marks.replace("; *", "; of shares, *")
    notes.append(f"Each proved row {marks}.")
    return list(dict.fromkeys(notes))


def _title(questions: Sequence[Question]) -> str:
    question, request = questions[0], questions[0].request
    honest = [f"{each.honest:,}" for each in questions if each.honest < each.users]
    users = f"{_either(map(power_text, request.users))} user{'s' * (request.users != (1,))}"
    users += f", {_either(honest)} of them honest" if honest else ""
    users += f", {request.corrupt_shufflers} corrupt shufflers" * bool(request.corrupt_shufflers)
    summed = f"vectors of {question.dimension:,} coordinates" if request.vectors else "scalars"
    moduli = dict.fromkeys(each.q for each in questions)
    modulo = f", modulo {power_text(question.q)}" * (len(moduli) == 1)
    return f"{_subject(request)}: {summed} of {users}{modulo}"


def _subject(request: MessagesRequest) -> str:
    """Return what is listed, for which kind of sum."""
    if request.messages:
        plural = "s" * (request.messages != (1,))
        totals = _either(map("{:,}".format, request.messages))
        each = " and sum" * request.vectors
        return f"Security of a secure sum with {totals} message{plural} per user{each}"
    if request.epsilon is None or request.delta is None:
        levels = _either(f"{float(sigma):g}" for sigma in request.levels)
        return f"Messages per user for a secure sum with {levels} bits of security"
    releases = request.releases or 1
    shared = f", one of {releases:,} that share this budget" * (releases > 1)
    budget = f"({float(request.epsilon):g}, {float(request.delta):g})"
    return f"Messages per user for a {budget}-private sum{shared}"


def _either(texts: Iterable[str]) -> str:
    """Return the different texts, joined by commas and a last "or"."""
    *others, last = dict.fromkeys(texts)
    return f"{', '.join(others)} or {last}" if others else last


def _plot(question: Question, path: Path) -> None:
    """Write the figure: at the requested users, and as far to both sides."""
    from ikos.counts.published import unproved
    from ikos.plots import BOTH_WAYS, grid, save
    from ikos.plots.figures import messages_figure

    request, secure, asked = question.request, question.sigma is not None, question.users
    low, high = max(2, asked // 1000), min(1 << 53, 1000 * max(2, asked))
    users = grid(low, high, 30 if secure else 3, also=[asked])
    corrupt, honest = request.corrupt_shufflers, Fraction(question.honest, asked)
    settings = request.settings()
    chosen = BOTH_WAYS if len(settings) == 4 else settings
    title = _subject(request)
    title += f", modulo {power_text(question.q)}" * secure
    with progress("plotting") as shown:
        curves = question.curves(
            users, analyses=request.analyses(), honest=honest, corrupt=corrupt, progress=shown,
            settings=[way for way in chosen if way[0] == "parallel" or not corrupt],
        )  # fmt: skip
    notes = ["Totals count the clear share where there is one."]
    reasons = {curve.name: unproved(curve.name, question.q) for curve in curves}
    notes += [f"{name}: {reason}." for name, reason in reasons.items() if reason]
    if "attack" in reasons:
        notes.append("The attack is on parallel shufflers; an estimate, not a proof.")
    if corrupt:
        notes.append(f"Shufflers that may collude with the analyzer: {corrupt:,}.")
    footnote = "\n".join(notes)
    figure = messages_figure(curves, title, mark=asked, honest=honest, footnote=footnote)
    save(figure, path)
