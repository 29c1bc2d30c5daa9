"""The status pages for operators: plain HTML without scripts, rendered for each request.

A page loads nothing, and its policy forbids loading. A shuffler may answer anything: the page shows
only a possible count and the name of a state (`ikos.deployment.remote.RemoteShuffler.status`).
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from html import escape

from ikos.deployment.task import Task
from ikos.deployment.wire import AnalyzerStatus, ShufflerStatus

_ENDED = ("released", "stopped")
_WORDS = {
    "collecting": "collecting reports",
    "closed": "closed: no more reports are accepted, and nothing is released yet",
    "agreed": "releasing: the complete reports are known",
    "stopped": "stopped for good: nothing will ever be released",
}
_SHUFFLER = {
    "agreed": "batch agreed",
    "sent": "batch sent and deleted",
    "deleted": "deleted, nothing was sent",
}
_STYLE = """
:root { color-scheme: light dark; }
body { font: 1rem/1.5 system-ui, sans-serif; max-width: 50rem; margin: 0 auto; padding: 1rem; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; padding: 0.3rem 0.8rem 0.3rem 0; border-bottom: 1px solid #8888; }
code, td, pre { overflow-wrap: anywhere; white-space: pre-wrap; }
"""
_HASH = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
_AGAIN = '<meta http-equiv="refresh" content="5">\n'


def _document(title: str, body: Iterable[str], *, over: bool) -> str:
    content = "\n".join(body)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" \
content="default-src 'none'; style-src 'sha256-{_HASH}'; base-uri 'none'; form-action 'none'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
{"" if over else _AGAIN}<title>{escape(title)}</title>
<style>{_STYLE}</style>
</head>
<body>
<main>
{content}
</main>
</body>
</html>
"""


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return an HTML table of rows; the first cell of each is its head."""
    lines = ["".join(f'<th scope="col">{head}</th>' for head in heads)]
    for first, *others in rows:
        cells = "".join(f"<td>{cell}</td>" for cell in others)
        lines.append(f'<th scope="row">{first}</th>{cells}')
    return "<table>\n" + "\n".join(f"<tr>{line}</tr>" for line in lines) + "\n</table>"


def _time(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"


def _span(time: timedelta) -> str:
    """Return whole seconds, never negative: the clock and the state are read separately."""
    return str(max(timedelta(), timedelta(time.days, time.seconds)))


def _early(task: Task, state: str, now: datetime) -> bool:
    """Whether a task does not accept reports yet."""
    return state == "collecting" and now < task.opens


def tasks_page(tasks: Iterable[tuple[Task, str, int]], now: datetime) -> str:
    """Return the page of all tasks, each with the analyzer's state and reports, soonest first."""
    found, rows = sorted(tasks, key=lambda one: (one[0].closes, one[0].name)), []
    for task, state, reports in found:
        words = escape(_WORDS.get(state, state))
        rows.append((
            f'<a href="/tasks/{task.name}/page"><code>{task.name}</code></a>',
            f"{'integers' if task.integers else 'numbers'} from {task.lower:g} to {task.upper:g}",
            _time(task.closes),
            f"{reports:,} of {task.users:,}",
            f"not open until {_time(task.opens)}" if _early(task, state, now) else words,
        ))  # fmt: skip
    table = _table(("Task", "Values", "Closes", "Reports", "State"), rows)
    over = {state for _, state, _ in found} <= set(_ENDED)
    body = ["<h1>Tasks</h1>", table if rows else "<p>There is no task here.</p>"]
    return _document("Tasks", body, over=over)


def task_page(
    task: Task, status: AnalyzerStatus, columns: Sequence[ShufflerStatus | str], now: datetime
) -> str:
    """Return the page of one task, with the status of each shuffler, or why there is none."""
    state, release = status.state, status.release
    own: str = "not open yet" if _early(task, state, now) else state
    rows = [("Analyzer: clear shares", task.analyzer, f"{status.reports:,}", own)]
    for party, (address, one) in enumerate(zip(task.shufflers, columns, strict=True), 1):
        reports, words = "", one
        if not isinstance(one, str):
            reports, words = f"{one.reports:,}", _SHUFFLER.get(one.state, one.state)
            words = "not open yet" if _early(task, one.state, now) else words
        rows.append((f"Shuffler {party}", escape(address), reports, escape(str(words))))
    known = "How many are complete is known when a release begins."
    if status.complete is not None:
        known = f"{status.complete:,} reports are complete."
    body = [
        "<h1>Private sum</h1>",
        f'<p>Task <code>{task.name}</code> (<a href="/">all tasks</a>)</p>',
        *(f"<p>{escape(line)}</p>" for line in _state(task, status, now)),
    ]
    if status.result is not None:
        body += ["<h2>Result</h2>", f"<pre>{escape(status.result.text)}</pre>"]
    body += [
        "<h2>Reports</h2>",
        f"<p>{known} At least {task.min_reports:,} reports must be complete, at all parties, of at "
        f"most {task.users:,}.</p>",
        _table(("Party", "Address", "Reports", "State"), rows),
        "<h2>Task</h2>",
        f"<pre>{escape(task.explain())}</pre>",
        f"<p>As of {_time(now)}.</p>",
    ]
    over = state in _ENDED and not release.running and release.again is None
    return _document(f"{own}: private sum", body, over=over)


def _state(task: Task, status: AnalyzerStatus, now: datetime) -> Iterable[str]:
    """Yield the state in words, the time left, and a release's progress."""
    state, release = status.state, status.release
    if _early(task, state, now):
        yield f"Not open yet. Opens in {_span(task.opens - now)}, at {_time(task.opens)}."
    else:
        yield f"{_WORDS.get(state, state).capitalize()}."
        if state == "collecting":
            yield f"Time left: {_span(task.closes - now)}, until {_time(task.closes)}."
    if release.running:
        yield f"Under way: {release.step or 'beginning'}."
    elif release.message is not None:
        yield f"{'Why' if state == 'stopped' else 'Waiting'}: {release.message}."
    if release.again is not None:
        yield f"It is tried again in {release.again} s."
