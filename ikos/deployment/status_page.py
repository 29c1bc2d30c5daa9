"""The status page for operators: plain HTML, made anew for each look, without scripts.

It loads nothing, and its policy lets it load nothing. What a shuffler answers may be anything: of
it only a count that can be true and the name of a state are shown.
"""

from __future__ import annotations

import base64
import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from html import escape
from typing import Any
from urllib.parse import urlsplit

from ikos.deployment import collection
from ikos.deployment.task import Task, on_loopback, values_in_words
from ikos.modular import Zq
from ikos.results import Interval, at_least

_BUSY_SECONDS = 2
_IDLE_SECONDS = 10

_ENDED = ("released", "stopped")
_ANALYZER = {
    "collecting": "collecting reports",
    "closed": "closed: no more reports are accepted, and nothing is released yet",
    "agreed": "releasing: which reports are complete is settled",
    "stopped": "stopped for good: nothing will ever be released",
    "released": "released",
}
_SHUFFLER = {
    "collecting": "collecting",
    "closed": "closed",
    "agreed": "batch agreed",
    "sent": "batch sent and deleted",
    "deleted": "deleted, nothing was sent",
}

_STYLE = """
:root { color-scheme: light dark; --line: #8888; --quiet: #555; --bad: #a40000; --good: #0a6b2d; }
@media (prefers-color-scheme: dark) {
  :root { --quiet: #b5b5b5; --bad: #ff8a80; --good: #7fd99a; }
}
* { box-sizing: border-box; }
body { font: 1rem/1.5 system-ui, sans-serif; max-width: 46rem; margin: 0 auto; padding: 1rem; }
h1 { font-size: 1.5rem; margin: 0.5rem 0; }
h2 { font-size: 1.15rem; margin: 2rem 0 0.5rem; border-bottom: 1px solid var(--line); }
code, th .quiet { overflow-wrap: anywhere; }
td, li, p { overflow-wrap: break-word; }
table { border-collapse: collapse; width: 100%; }
caption { text-align: left; color: var(--quiet); padding-bottom: 0.3rem; }
th, td { text-align: left; vertical-align: top; padding: 0.3rem 0.8rem 0.3rem 0; }
tr { border-bottom: 1px solid var(--line); }
th { font-weight: 600; }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.state { border-left: 0.4rem solid var(--line); padding: 0.1rem 0.8rem; }
.state p { margin: 0.4rem 0; }
.state p:first-child { font-weight: 600; }
.stopped { border-color: var(--bad); }
.released { border-color: var(--good); }
.missing { color: var(--bad); }
.quiet { color: var(--quiet); }
th .quiet { font-weight: 400; font-size: 0.85rem; }
.estimate { font-size: 1.9rem; font-weight: 600; margin: 0.2rem 0; }
""".strip()

_HASH = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
_POLICY = f"default-src 'none'; style-src 'sha256-{_HASH}'; base-uri 'none'; form-action 'none'"


def tasks_page(tasks: Iterable[tuple[Task, str, int]], *, at: datetime | None = None) -> str:
    """Return the page of all tasks, the one that closes first at the top.

    Parameters
    ----------
    tasks : iterable of (Task, str, int)
        Each with the analyzer's state of it, and the reports that it has.
    at : datetime, optional
        The time of the page, now by default.
    """
    now = collection.now() if at is None else at
    found = sorted(tasks, key=lambda one: (one[0].closes, one[0].name))
    rows = [
        f'<th scope="row"><a href="/tasks/{task.name}/page"><code>{task.name}</code></a></th>'
        f"<td>{escape(_values(task))}</td><td>{_time(task.closes)}</td>"
        f'<td class="number">{reports:,} of {task.users:,}</td>'
        f"<td>{_at(task, state, now)}</td>"
        for task, state, reports in found
    ]
    refresh = None if {state for _, state, _ in found} <= set(_ENDED) else _IDLE_SECONDS
    body = ["<h1>Tasks</h1>"]
    if rows:
        heads = ("Task", "Values", "Closes", "Reports", "State")
        body.append(_table("Tasks of this analyzer.", heads, rows, numbers=(3,)))
    else:
        body.append("<p>There is no task here.</p>")
    return _document("Tasks", body, refresh)


def _at(task: Task, state: str, now: datetime) -> str:
    """Return the state of a task in a few words."""
    if _early(task, state, now):
        return f"not open until {_time(task.opens)}"
    return escape(_ANALYZER.get(state, state))


def _early(task: Task, state: str, now: datetime) -> bool:
    """Whether a task has not begun to accept reports."""
    return state == "collecting" and now < task.opens


def _values(task: Task) -> str:
    kind = "integers" if task.integers else "numbers"
    return f"{kind} from {task.lower:g} to {task.upper:g}"


def task_page(
    task: Task,
    status: Mapping[str, Any],
    columns: Sequence[object],
    *,
    at: datetime | None = None,
) -> str:
    """Return the page of one task.

    Parameters
    ----------
    task : Task
        The task.
    status : mapping
        What the analyzer tells of it (`ikos.deployment.analyzer_service.Office.status`).
    columns : sequence
        What each shuffler tells, of any kind: it may be dishonest. None for one that does not
        answer.
    at : datetime, optional
        The time of the page, now by default.
    """
    now = collection.now() if at is None else at
    state = str(status["state"])
    release: Mapping[str, Any] = status.get("release") or {}
    running = bool(release.get("running"))
    result = status.get("result")
    body = [
        "<h1>Private sum</h1>",
        f'<p>Task <code>{escape(task.name)}</code> (<a href="/">all tasks</a>)</p>',
        *_state(task, state, release, now),
        *(() if result is None else _result(task, result)),
        *_reports(task, status, columns, now),
        *_description(task),
        *_guarantee(task, result),
        f'<p class="quiet">As of {_time(now)}.</p>',
    ]
    over = state in _ENDED and not running and release.get("again") is None
    refresh = None if over else _BUSY_SECONDS if running else _IDLE_SECONDS
    return _document(f"{_title(task, state, now)}: private sum", body, refresh)


def _title(task: Task, state: str, now: datetime) -> str:
    return "not open yet" if _early(task, state, now) else state


def _state(task: Task, state: str, release: Mapping[str, Any], now: datetime) -> list[str]:
    """Return the state in words, with the time that is left, and how far a release is."""
    early = _early(task, state, now)
    words = "not open yet" if early else _ANALYZER.get(state, state)
    marked = state if state in _ENDED else "open"
    lines = [f"<p>{escape(words[:1].upper() + words[1:])}.</p>"]
    if early:
        left = (task.opens - now).total_seconds()
        lines.append(f"<p>Opens in {_span(left)}, at {_time(task.opens)}.</p>")
    elif state == "collecting":
        left = (task.closes - now).total_seconds()
        lines.append(f"<p>Time left: {_span(left)}, until {_time(task.closes)}.</p>")
    message, step = release.get("message"), release.get("step")
    if release.get("running"):
        lines.append(f"<p>Under way: {escape(str(step or 'beginning'))}.</p>")
    elif message is not None and state == "stopped":
        lines.append(f"<p>Why: {escape(str(message))}.</p>")
    elif message is not None:
        lines.append(f'<p class="missing">What hinders: {escape(str(message))}.</p>')
    again = release.get("again")
    if again is not None:
        lines.append(f"<p>It is tried again in {_span(float(again))}.</p>")
    return [f'<div class="state {marked}" role="status">', *lines, "</div>"]


def _result(task: Task, result: Mapping[str, Any]) -> list[str]:
    error = float(result["standard_error"])
    users = int(result["users"])
    estimate = _figure(float(result["estimate"]), error, whole=task.integers)
    low, high = result["sum_low"], result["sum_high"]
    pairs = [
        (
            "95 % interval of the sum",
            "none at this probability" if low is None else str(Interval(low, high)),
        ),
        ("Standard error of the sum", f"{float(at_least(error, 4)):,.4g}, at most"),
        ("Mean", _figure(float(result["mean"]), error / users)),
        ("Clients in the sum", f"{users:,}"),
    ]
    bounds = f"{users:,} values from {task.lower:g} to {task.upper:g}"
    return [
        "<h2>Result</h2>",
        f'<p class="estimate">{escape(estimate)}</p>',
        f'<p class="quiet">Estimate of the sum of {escape(bounds)}.</p>',
        _pairs("How far off it can be.", pairs),
    ]


def _reports(
    task: Task, status: Mapping[str, Any], columns: Sequence[object], now: datetime
) -> list[str]:
    complete = status.get("complete")
    rows = [
        _row(
            "Analyzer: clear shares",
            task.analyzer,
            f"{status['reports']:,}",
            _short(_title(task, str(status["state"]), now)),
        )
    ]
    for party, address in enumerate(task.shufflers, 1):
        told = columns[party - 1] if party <= len(columns) else None
        count, words, right = _told(task, party, told, now)
        rows.append(_row(f"Shuffler {party}", address, count, words, right=right))
    needed = (
        f"At least {task.min_reports:,} reports must be complete, there at all parties, of at most "
        f"{task.users:,}."
    )
    known = (
        "How many are complete is known when a release begins."
        if complete is None
        else f"<strong>{complete:,} reports are complete.</strong>"
    )
    return [
        "<h2>Reports</h2>",
        f"<p>{known} {needed}</p>",
        _table("Reports at each party.", ("Party", "Reports", "State"), rows, numbers=(1,)),
    ]


def _short(state: str) -> str:
    return "releasing" if state == "agreed" else state


def _row(party: str, address: str, count: str, words: str, *, right: bool = True) -> str:
    marked = "" if right else ' class="missing"'
    return (
        f'<th scope="row">{escape(party)}<br><span class="quiet">{escape(address)}</span></th>'
        f'<td class="number">{escape(count)}</td><td{marked}>{escape(words)}</td>'
    )


def _told(task: Task, party: int, told: object, now: datetime) -> tuple[str, str, bool]:
    """Return count and state of what a shuffler tells, and whether it can be true."""
    if told is None:
        return "", "does not answer", False
    odd = "", "answers something else", False
    if not isinstance(told, Mapping):
        return odd
    count, state = told.get("reports"), told.get("state")
    if told.get("task") != task.name or type(told.get("party")) is not int:
        return odd
    if told["party"] != party or type(count) is not int or not 0 <= count <= task.users:
        return odd
    if not isinstance(state, str) or state not in _SHUFFLER:
        return odd
    words = "not open yet" if _early(task, state, now) else _SHUFFLER[state]
    return f"{count:,}", words, True


def _description(task: Task) -> list[str]:
    addresses = (task.analyzer, *task.shufflers)
    pairs = [
        ("Values", values_in_words(task)),
        ("Clients", f"at most {task.users:,}"),
        ("Complete reports (n_min)", f"at least {task.min_reports:,}, or nothing is released"),
        ("Shufflers", f"{task.columns}, and a share in the clear to the analyzer"),
        ("Modulus", f"{task.modulus} ({Zq(task.modulus).bits} bits)"),
        ("Error", f"{at_least(task.protocol.mse**0.5, 4)} (sum of all, root mean square, at most)"),
    ]
    times = [("Opens", _time(task.opens)), ("Closes", _time(task.closes))]
    here = any(on_loopback(urlsplit(address).hostname or "") for address in addresses)
    return [
        "<h2>Task</h2>",
        _pairs("What the parties agreed on.", pairs, times),
        *(
            ["<p>Some addresses are on one machine alone: whoever runs it sees what they see.</p>"]
            if here
            else ()
        ),
    ]


def _guarantee(task: Task, result: Mapping[str, Any] | None) -> list[str]:
    proved = task.protocol.guarantee
    if result is None:
        text, conditions = str(proved), proved.conditions
    else:
        conditions = tuple(map(str, result["conditions"]))
        text = (
            f"({at_least(float(result['epsilon']), 6)}, {at_least(float(result['delta']), 3)})-"
            "differential privacy, "
            f"{proved.adjacency} ({result['theorem']})"
        )
    listed = "".join(f"<li>{escape(one)}</li>" for one in conditions)
    return [
        "<h2>Guarantee to each client</h2>",
        f"<p>{escape(text)}, under all of these conditions:</p>",
        f"<ul>{listed}</ul>",
    ]


# Pieces


def _document(title: str, body: Iterable[str], refresh: int | None) -> str:
    again = "" if refresh is None else f'<meta http-equiv="refresh" content="{refresh}">\n'
    inner = "\n".join(body)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f"{again}<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n"
        f"<body>\n<main>\n{inner}\n</main>\n</body>\n</html>\n"
    )


def _table(
    caption: str, heads: Sequence[str], rows: Iterable[str], *, numbers: Sequence[int] = ()
) -> str:
    """Return a table; the cells of each row are HTML."""
    head = "".join(
        f'<th scope="col"{_number if i in numbers else ""}>{escape(text)}</th>'
        for i, text in enumerate(heads)
    )
    body = "".join(f"<tr>{row}</tr>\n" for row in rows)
    return (
        f"<table>\n<caption>{escape(caption)}</caption>\n<thead><tr>{head}</tr></thead>\n"
        f"<tbody>\n{body}</tbody>\n</table>"
    )


_number = ' class="number"'


def _pairs(
    caption: str, pairs: Iterable[tuple[str, str]], more: Iterable[tuple[str, str]] = ()
) -> str:
    """Return a table of names and values; the values of ``more`` are HTML."""
    cells = [*((name, escape(value)) for name, value in pairs), *more]
    rows = (
        f'<tr><th scope="row">{escape(name)}</th><td>{value}</td></tr>' for name, value in cells
    )
    inner = "\n".join(rows)
    return f"<table>\n<caption>{escape(caption)}</caption>\n<tbody>\n{inner}\n</tbody>\n</table>"


def _time(moment: datetime) -> str:
    return f'<time datetime="{moment:%Y-%m-%dT%H:%M:%SZ}">{moment:%Y-%m-%d %H:%M:%S} UTC</time>'


def _span(seconds: float) -> str:
    """Return a time in its two largest units, rounded down."""
    left = max(0, math.floor(seconds))
    parts: list[str] = []
    for name, length in (("day", 86400), ("hour", 3600), ("minute", 60), ("second", 1)):
        count, left = divmod(left, length)
        if count or parts:
            parts.append(f"{count:,} {name}{'s' * (count != 1)}")
    return " ".join(parts[:2]) or "less than a second"


def _figure(value: float, error: float, *, whole: bool = False) -> str:
    """Return a number to two digits of its error; of a ``whole`` one no decimals."""
    if not (math.isfinite(value) and math.isfinite(error) and error > 0):
        return f"{value:,.10g}"
    decimals = 0 if whole and value.is_integer() else 1 - math.floor(math.log10(error))
    text = f"{value:,.{min(max(decimals, 0), 17)}f}"
    return text if len(text) <= 30 else f"{value:.10g}"
