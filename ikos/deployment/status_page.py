"""The status page for operators: plain HTML, made anew for each request, without scripts.

It loads nothing, and its policy forbids loading. A shuffler may answer anything: only a count that
can be true and the name of a state are shown (`ikos.deployment.remote.RemoteShuffler.status`).
"""

from __future__ import annotations

import base64
import hashlib
import math
from collections.abc import Iterable, Sequence
from datetime import datetime
from html import escape
from string import Template
from urllib.parse import urlsplit

from ikos.deployment import endpoint
from ikos.deployment.task import Task, on_loopback, values_in_words
from ikos.deployment.wire import AnalyzerStatus, Release, Result, ShufflerStatus
from ikos.modular import Zq
from ikos.results import Interval, at_least

_BUSY_SECONDS = 2
_IDLE_SECONDS = 10

_ENDED = ("released", "stopped")
_ANALYZER = {
    "collecting": "collecting reports",
    "closed": "closed: no more reports are accepted, and nothing is released yet",
    "agreed": "releasing: the complete reports are known",
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
_PAGE = Template(f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" \
content="default-src 'none'; style-src 'sha256-{_HASH}'; base-uri 'none'; form-action 'none'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
$refresh<title>$title</title>
<style>{_STYLE}</style>
</head>
<body>
<main>
$body
</main>
</body>
</html>
""")


def _document(title: str, body: Iterable[str], refresh: int | None) -> str:
    again = "" if refresh is None else f'<meta http-equiv="refresh" content="{refresh}">\n'
    return _PAGE.substitute(title=escape(title), body="\n".join(body), refresh=again)


def _table(caption: str, rows: Iterable[str], heads: Sequence[str] = ()) -> str:
    """Return a table of rows in HTML; heads that begin with # are of numbers."""
    head = "".join(
        f'<th scope="col"{_NUMBER if one[0] == "#" else ""}>{one.lstrip("#")}</th>' for one in heads
    )
    head = f"<thead><tr>{head}</tr></thead>\n" if head else ""
    body = "".join(f"<tr>{row}</tr>\n" for row in rows)
    return f"<table>\n<caption>{caption}</caption>\n{head}<tbody>\n{body}</tbody>\n</table>"


_NUMBER = ' class="number"'


def _pair(name: str, value: str) -> str:
    return f'<th scope="row">{escape(name)}</th><td>{escape(value)}</td>'


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


def _early(task: Task, state: str, now: datetime) -> bool:
    """Whether a task has not begun to accept reports."""
    return state == "collecting" and now < task.opens


def tasks_page(tasks: Iterable[tuple[Task, str, int]], *, at: datetime | None = None) -> str:
    """Return the page of all tasks, each with the analyzer's state and reports, soonest first."""
    now = endpoint.now() if at is None else at
    found = sorted(tasks, key=lambda one: (one[0].closes, one[0].name))
    rows = []
    for task, state, reports in found:
        kind = "integers" if task.integers else "numbers"
        words = escape(_ANALYZER.get(state, state))
        if _early(task, state, now):
            words = f"not open until {_time(task.opens)}"
        rows.append(
            f'<th scope="row"><a href="/tasks/{task.name}/page"><code>{task.name}</code></a></th>'
            f"<td>{kind} from {task.lower:g} to {task.upper:g}</td><td>{_time(task.closes)}</td>"
            f"<td{_NUMBER}>{reports:,} of {task.users:,}</td><td>{words}</td>"
        )
    heads = ("Task", "Values", "Closes", "#Reports", "State")
    table = _table("Tasks of this analyzer.", rows, heads)
    over = {state for _, state, _ in found} <= set(_ENDED)
    body = ["<h1>Tasks</h1>", table if rows else "<p>There is no task here.</p>"]
    return _document("Tasks", body, None if over else _IDLE_SECONDS)


def task_page(
    task: Task,
    status: AnalyzerStatus,
    columns: Sequence[ShufflerStatus | str],
    *,
    at: datetime | None = None,
) -> str:
    """Return the page of one task."""
    now = endpoint.now() if at is None else at
    title = "not open yet" if _early(task, status.state, now) else status.state
    release = status.release
    body = [
        "<h1>Private sum</h1>",
        f'<p>Task <code>{task.name}</code> (<a href="/">all tasks</a>)</p>',
        *_state(task, status.state, release, now),
        *(() if status.result is None else _result(task, status.result)),
        *_reports(task, status, columns, title, now),
        *_description(task),
        *_guarantee(task, status.result),
        f'<p class="quiet">As of {_time(now)}.</p>',
    ]
    over = status.state in _ENDED and not release.running and release.again is None
    refresh = None if over else _BUSY_SECONDS if release.running else _IDLE_SECONDS
    return _document(f"{title}: private sum", body, refresh)


def _state(task: Task, state: str, release: Release, now: datetime) -> list[str]:
    """Return the state in words, with the time that is left, and how far a release is."""
    early = _early(task, state, now)
    words = "not open yet" if early else _ANALYZER[state]
    lines = [f"<p>{words[:1].upper() + words[1:]}.</p>"]
    if early:
        left = (task.opens - now).total_seconds()
        lines.append(f"<p>Opens in {_span(left)}, at {_time(task.opens)}.</p>")
    elif state == "collecting":
        left = (task.closes - now).total_seconds()
        lines.append(f"<p>Time left: {_span(left)}, until {_time(task.closes)}.</p>")
    if release.running:
        lines.append(f"<p>Under way: {escape(release.step or 'beginning')}.</p>")
    elif release.message is not None:
        stopped = state == "stopped"
        begin = "<p>Why" if stopped else '<p class="missing">Waiting'
        lines.append(f"{begin}: {escape(release.message)}.</p>")
    if release.again is not None:
        lines.append(f"<p>It is tried again in {_span(release.again)}.</p>")
    marked = state if state in _ENDED else "open"
    return [f'<div class="state {marked}" role="status">', *lines, "</div>"]


def _result(task: Task, result: Result) -> list[str]:
    error, low, high = result.standard_error, result.sum_low, result.sum_high
    known = low is not None and high is not None
    interval = str(Interval(low, high)) if known else "none at this confidence"
    pairs = [
        ("95 % interval of the sum", interval),
        ("Standard error of the sum", f"{float(at_least(error, 4)):,.4g}, at most"),
        ("Mean", _figure(result.mean, error / result.users)),
        ("Clients in the sum", f"{result.users:,}"),
    ]
    return [
        "<h2>Result</h2>",
        f'<p class="estimate">{_figure(result.estimate, error, whole=task.integers)}</p>',
        f'<p class="quiet">Estimate of the sum of {result.users:,} values from {task.lower:g} to '
        f"{task.upper:g}.</p>",
        _table("Its error.", [_pair(*pair) for pair in pairs]),
    ]


def _reports(
    task: Task,
    status: AnalyzerStatus,
    columns: Sequence[ShufflerStatus | str],
    title: str,
    now: datetime,
) -> list[str]:
    def row(party: str, address: str, count: str, words: str, mark: str = "") -> str:
        return (
            f'<th scope="row">{party}<br><span class="quiet">{escape(address)}</span></th>'
            f"<td{_NUMBER}>{count}</td><td{mark}>{escape(words)}</td>"
        )

    words = "releasing" if title == "agreed" else title
    rows = [row("Analyzer: clear shares", task.analyzer, f"{status.reports:,}", words)]
    for party, (address, one) in enumerate(zip(task.shufflers, columns, strict=True), 1):
        if isinstance(one, str):
            cells = ("", one, ' class="missing"')
        else:
            early = _early(task, one.state, now)
            cells = (f"{one.reports:,}", "not open yet" if early else _SHUFFLER[one.state], "")
        rows.append(row(f"Shuffler {party}", address, *cells))
    known = (
        "How many are complete is known when a release begins."
        if status.complete is None
        else f"<strong>{status.complete:,} reports are complete.</strong>"
    )
    return [
        "<h2>Reports</h2>",
        f"<p>{known} At least {task.min_reports:,} reports must be complete, at all parties, of at "
        f"most {task.users:,}.</p>",
        _table("Reports at each party.", rows, ("Party", "#Reports", "State")),
    ]


def _description(task: Task) -> list[str]:
    pairs = [
        ("Values", values_in_words(task)),
        ("Clients", f"at most {task.users:,}"),
        ("Complete reports (n_min)", f"at least {task.min_reports:,}, or nothing is released"),
        ("Shufflers", f"{task.columns}, and a share in the clear to the analyzer"),
        ("Modulus", f"{task.modulus} ({Zq(task.modulus).bits} bits)"),
        ("Error", f"{at_least(task.protocol.mse**0.5, 4)} (sum of all, root mean square, at most)"),
    ]
    times = (("Opens", task.opens), ("Closes", task.closes))
    rows = [_pair(*pair) for pair in pairs]
    rows += [f'<th scope="row">{name}</th><td>{_time(moment)}</td>' for name, moment in times]
    lines = ["<h2>Task</h2>", _table("What the parties agreed on.", rows)]
    if any(on_loopback(urlsplit(one).hostname or "") for one in (task.analyzer, *task.shufflers)):
        lines.append(
            "<p>Some addresses are on one machine alone: its operator sees what they see.</p>"
        )
    return lines


def _guarantee(task: Task, result: Result | None) -> list[str]:
    proved = task.protocol.guarantee
    text, conditions = str(proved), list(proved.conditions)
    if result is not None:
        conditions = result.conditions
        text = (
            f"({at_least(result.epsilon, 6)}, {at_least(result.delta, 3)})-"
            f"differential privacy, {proved.adjacency} ({result.theorem})"
        )
    listed = "".join(f"<li>{escape(one)}</li>" for one in conditions)
    return [
        "<h2>Guarantee to each client</h2>",
        f"<p>{escape(text)}, under all of these conditions:</p>",
        f"<ul>{listed}</ul>",
    ]
