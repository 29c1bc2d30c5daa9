"""What ``ikos graphs`` prints: a check of the component bounds as text, and as a JSON object.

The JSON object that ``--json`` prints; all keys are always there:

- ``command``, ``version``: strings; ``users``, ``messages``: shuffled ones of each user;
  ``shuffler``; ``clear_share`` (boolean); ``modulus``: a string of digits, because it can exceed
  2^53, or null; ``confidence``; ``backend``; ``seed``: a string of digits, or null for secure
  randomness.
- ``trials``: how many graphs were asked for; ``sampled``: how many were drawn; ``interrupted``
  (boolean): at Ctrl-C. Then fewer graphs, perhaps none, or fewer importance samples than asked for
  were drawn, and the rest of the object is about those.
- ``holds``, ``bounded``, ``agrees`` (boolean): whether nothing contradicts anything; whether the
  exact law is proved to be below all bounds, or null where one of these is not known; whether the
  samples agree with the exact law, or null where it is not known; ``contradicted``: a list of the c
  that sampled graphs had more often than a bound allows; ``fit``, ``importance_fit``: upper bounds
  of the p-values of the samples under the exact law, or null; ``verdict``: a list of sentences.
- ``rows``: a list of objects, one for each number of components:

  - ``c``;
  - ``exact``: P[C = c], an object with ``low`` and ``high``, between which it lies; null for more
    than 2048 users. Numbers below 1e-308 cannot be told from 0 here: see ``log10``;
  - ``lemma_c5``, ``bound``: upper bounds of P[C = c], by Lemma C.5 of BBGN20 and by this library;
    null where none is stated;
  - ``log10``: an object with the decimal logarithms of ``exact``, ``lemma_c5`` and ``bound``, null
    where these are null or 0;
  - ``slack``: by what factor ``exact`` is below the smaller bound, at least; or null;
  - ``seen``: how many sampled graphs had c components, and ``interval``: what that says of
    P[C = c], an object with ``low`` and ``high``;
  - ``importance``: what importance sampling says of P[C = c], such an object; or null.

- ``tally``: a list of pairs, a number of components and how many sampled graphs had it; ``alone``:
  in how many some user was a component of its own; ``unseen``: the smallest c that no sampled graph
  reached, or null.
- ``importance``: a list of objects, one for each c from 2 on for which it was done: ``at_least``
  (c), ``trials``, ``estimate`` and ``interval`` (of P[C >= c]).
- ``excess``, ``excess_bound``: with a modulus q, upper bounds of E[q^C]/q - 1: computed, and by
  Lemma C.5. Null without one, where none is known, and above 1.7e308.
- ``plot``: the file that was written, or null.

Every number that is an integer here is below 2^53.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import gmpy2
from gmpy2 import mpfr

from ikos import __version__
from ikos.cli.output import aligned, bold, integer_text, power_text, wrapped
from ikos.counts.rounding import DOWN, float_down, float_up, rounding
from ikos.results import Interval, at_least, at_most, percent

if TYPE_CHECKING:
    from ikos.graphs import ComponentCheck, Enclosure


@dataclass(frozen=True)
class Asked:
    """What the options say beyond the check itself."""

    trials: int
    backend: str
    seed: int | None
    interrupted: bool = False


# JSON


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _ends(interval: Interval | None) -> dict[str, float] | None:
    return None if interval is None else {"low": interval.low, "high": interval.high}


def _enclosed(ends: Enclosure | None) -> dict[str, float] | None:
    if ends is None:
        return None
    return {"low": float_down(ends.low), "high": float_up(ends.high)}


def _up(value: mpfr | None) -> float | None:
    return None if value is None else float_up(value)


def _log10(value: mpfr | None) -> float | None:
    return float(gmpy2.log10(value)) if value else None


def as_json(asked: Asked, check: ComponentCheck, plot: Path | None) -> dict[str, Any]:
    """Return the object that ``--json`` prints."""
    rows = []
    for row in check.rows:
        exact = row.exact
        rows.append(
            {
                "c": row.c,
                "exact": _enclosed(exact),
                "lemma_c5": _up(row.lemma),
                "bound": _up(row.bound),
                "log10": {
                    "exact": _log10(exact and exact.high),
                    "lemma_c5": _log10(row.lemma),
                    "bound": _log10(row.bound),
                },
                "slack": _finite(row.slack),
                "seen": row.seen,
                "interval": _ends(row.sampled),
                "importance": _enclosed(row.planted),
            }
        )
    graph = check.graph
    return {
        "command": "graphs",
        "version": __version__,
        "users": check.n,
        "messages": graph.m,
        "shuffler": graph.shuffler,
        "clear_share": graph.clear_share,
        "modulus": None if check.q is None else integer_text(check.q),
        "confidence": check.confidence,
        "backend": asked.backend,
        "seed": None if asked.seed is None else integer_text(asked.seed),
        "trials": asked.trials,
        "sampled": check.tally.trials,
        "interrupted": asked.interrupted,
        "holds": check.holds,
        "bounded": check.bounded,
        "agrees": check.agrees,
        "contradicted": list(check.contradicted),
        "fit": check.fit,
        "importance_fit": check.planted_fit,
        "verdict": list(check.verdict),
        "rows": rows,
        "tally": [list(pair) for pair in check.tally.counts.items()],
        "alone": check.tally.alone,
        "unseen": check.unseen if check.unseen <= check.n else None,
        "importance": [
            {
                "at_least": tally.parts,
                "trials": tally.trials,
                "estimate": tally.estimate,
                "interval": _ends(tally.interval(check.confidence)),
            }
            for tally in check.planted
        ],
        "excess": _finite(check.excess),
        "excess_bound": _finite(check.excess_bound),
        "plot": None if plot is None else str(plot),
    }


# Text


def headline(done: int, trials: int) -> str:
    """Return how far an interrupted check came."""
    if done < trials:
        return f"interrupted after {done:,} of {trials:,} graphs"
    return f"interrupted after all {trials:,} graphs, during importance sampling"


def as_text(asked: Asked, check: ComponentCheck, plot: Path | None) -> list[str]:
    """Return the lines of the text."""
    lines = []
    if asked.interrupted:
        said = headline(check.tally.trials, asked.trials)
        lines += [bold(line) for line in wrapped(said[0].upper() + said[1:], "", "")]
    lines += [bold(line) for line in wrapped(_heading(check), "", "")]
    lines += ["", *_bounds_table(check)]
    if check.tally.trials:
        lines += [bold("What samples say of P[C = c]"), *_samples_table(check), ""]
    if check.q is not None:
        lines += [*wrapped(_about_moment(check, check.q), "", ""), ""]
    for sentence in check.verdict:
        lines += wrapped(sentence, "", "")
    if plot is not None:
        lines += ["", f"Plotted in {click.format_filename(plot)}"]
    return lines


def _heading(check: ComponentCheck) -> str:
    graph, trials = check.graph, check.tally.trials
    shufflers = "parallel shufflers" if graph.shuffler == "parallel" else "a single shuffler"
    return (
        f"The number of components C of {trials:,} random share graph{'s' * (trials != 1)}: "
        f"{check.n:,} user{'s' * (check.n > 1)}, {graph.m:,} message{'s' * (graph.m > 1)} of each "
        f"through {shufflers}, and {'one' if graph.clear_share else 'none'} in the clear"
    )


def _bounds_table(check: ComponentCheck) -> list[str]:
    """Return the exact law and its bounds, or nothing where neither is known."""
    columns = [["c", *(str(row.c) for row in check.rows)]]
    exact = [row.exact for row in check.rows if row.exact is not None]
    if exact:
        columns.append(["exact P[C = c]", *(_number(value.high, "N") for value in exact)])
    lemma = [row.lemma for row in check.rows if row.lemma is not None]
    if lemma:
        columns.append(["Lemma C.5", *(_number(value, "U") for value in lemma)])
    bound = [row.bound for row in check.rows if row.bound is not None]
    if bound:
        columns.append(["our bound", *(_number(value, "U") for value in bound)])
    if exact and bound:
        slacks = [row.slack for row in check.rows if row.slack is not None]
        columns.append(
            ["slack", *(at_most(slack, 3) if math.isfinite(slack) else "-" for slack in slacks)]
        )
    if len(columns) == 1:
        return []
    title = (
        "The exact law and its bounds"
        if exact and len(columns) > 2
        else ("The exact law" if exact else "The bounds of P[C = c]")
    )
    return [bold(title), *aligned(list(zip(*columns, strict=True))), ""]


def _samples_table(check: ComponentCheck) -> list[str]:
    sure = percent(check.confidence)
    columns = [
        ["c", *(str(row.c) for row in check.rows)],
        ["graphs", *(f"{row.seen:,}" for row in check.rows)],
        [f"{sure} interval", *(_interval(*row.sampled) for row in check.rows)],
    ]
    if check.planted:
        columns.append(
            [
                f"by importance sampling, {sure}",
                *(
                    "" if row.planted is None else _interval(row.planted.low, row.planted.high)
                    for row in check.rows
                ),
            ]
        )
    return aligned(list(zip(*columns, strict=True)))


def _about_moment(check: ComponentCheck, q: int) -> str:
    from ikos.graphs import component_moment

    order = power_text(q)
    if check.excess is None:
        text = f"E[q^C]/q - 1 is not computed here for q = {order}"
    elif math.isfinite(check.excess):
        text = f"E[q^C]/q - 1 is at most {at_least(check.excess, 3)} for q = {order}"
    elif check.rows[0].exact is not None:
        graph = check.graph
        moment = component_moment(
            check.n, graph.m, q, shuffler=graph.shuffler, clear_share=graph.clear_share
        )
        text = f"E[q^C]/q - 1 is at most {moment.excess:.2Ue} for q = {order}"
    else:
        text = f"E[q^C]/q - 1 is not known to be below 1.7e308 for q = {order}"
    if check.excess_bound is not None:
        return f"{text}; Lemma C.5 bounds it by {at_least(check.excess_bound, 3)}."
    if check.rows[0].lemma is not None:
        return f"{text}; Lemma C.5 says nothing of so large a q."
    return f"{text}."


_FIXED = -3  # smaller powers of ten are written with an exponent


def _number(value: mpfr, direction: str) -> str:
    """Return a probability to three digits, rounded to the nearest (N) or up (U)."""
    if not value or value >= 1:
        return "1" if value else "0"
    if value >= 10.0**_FIXED:
        return f"{value:.5{direction}f}"
    return f"{value:.2{direction}e}"


def _interval(low: float | mpfr, high: float | mpfr) -> str:
    """Return an interval with its ends rounded outwards, to about a hundredth of its width."""
    # a float is a 53-bit mpfr; another mpfr stays as it is
    low, high = (mpfr(end) if isinstance(end, float) else end for end in (low, high))
    if low <= 0:
        return "0 to 1" if high >= 1 else f"below {_outwards(high, 'U', 1)}"
    with rounding(DOWN):
        step = math.floor(gmpy2.log10(high - low)) - 1 if high > low else None
    ends = []
    for end, direction in ((low, "D"), (high, "U")):
        first = math.floor(gmpy2.log10(end))
        digits = 4 if step is None else first - step
        ends.append(_outwards(end, direction, max(1, min(digits, 6))))
    return " to ".join(ends)


def _outwards(end: mpfr, direction: str, digits: int) -> str:
    """Return an end with so many digits after the first."""
    first = math.floor(gmpy2.log10(end))
    if end >= 1:
        return "1"
    if first >= _FIXED:
        return f"{end:.{digits - first}{direction}f}"
    return f"{end:.{digits}{direction}e}"
