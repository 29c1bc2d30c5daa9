"""The status pages for operators: plain HTML and SVG without scripts, rendered for each request.

A page loads nothing, and its policy forbids loading. A shuffler may answer anything: the page shows
only a possible count, the name of a state (`ikos.deployment.remote.RemoteShuffler.status`), and in
the same row, as text, how its clock or version differs, or why it refuses.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from html import escape
from operator import itemgetter
from urllib.parse import urlsplit

from ikos.deployment.task import Window
from ikos.deployment.task_fields import on_loopback, words_of
from ikos.deployment.wire import AnalyzerStatus, Result, ShufflerStatus
from ikos.results.report import Field, Report

Seen = tuple[ShufflerStatus | None, str]
"""The status of a shuffler, if it answers, and what is wrong with it, if anything."""

_ENDED = ("released", "stopped")
_EARLY = "not open yet"
_WORDS = {
    "collecting": "collecting reports",
    "closed": "closed: no more reports are accepted, and nothing is released yet",
    "agreed": "releasing: the complete reports are known",
    "stopped": "aborted permanently: nothing will ever be released",
}
_SHUFFLER = {
    "agreed": "batch agreed",
    "sent": "batch sent and deleted",
}
_STYLE = """
:root { color-scheme: light dark; }
body { font: 1rem/1.5 system-ui, sans-serif; max-width: 50rem; margin: 0 auto; padding: 1rem; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; padding: 0.3rem 0.8rem 0.3rem 0; border-bottom: 1px solid #8888; }
td, pre { overflow-wrap: anywhere; white-space: pre-wrap; }
figure { margin: 1rem 0; }
svg { width: 100%; height: auto; }
"""
_WIDE, _HIGH = 720, 120  # of the chart
_ROWS = 1000  # of a table
_HASH = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
_AGAIN = '<meta http-equiv="refresh" content="5">\n'


def _columns(*names: str) -> list[Field]:
    return [Field(name, "", name, value=itemgetter(i)) for i, name in enumerate(names)]


def _document(report: Report, more: Iterable[str], *, over: bool) -> str:
    content = "\n".join([report._repr_html_(), *more])
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" \
content="default-src 'none'; style-src 'sha256-{_HASH}'; base-uri 'none'; form-action 'none'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
{"" if over else _AGAIN}<title>{escape(report.title)}</title>
<style>{_STYLE}</style>
</head>
<body>
<main>
{content}
</main>
</body>
</html>
"""


def _time(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"


def _span(time: timedelta) -> str:
    """Return whole seconds, never negative: the clock and the state are read separately."""
    return str(max(timedelta(), timedelta(time.days, time.seconds)))


def _shown(window: Window, state: str, now: datetime) -> str:
    return _EARLY if state == "collecting" and now < window.opens else state


def tasks_page(windows: Iterable[tuple[Window, str, int]], now: datetime) -> str:
    """Return the page of all tasks, each with a window's state and reports, soonest first."""
    soonest = sorted(windows, key=lambda row: (row[0].closes, row[0].path))
    rows = []
    for window, state, reports in soonest:
        task = window.task
        shown = _shown(window, state, now)
        words = _WORDS.get(shown, shown)
        words = f"not open until {_time(window.opens)}" if shown == _EARLY else words
        values = words_of(task.domain) + ", integers" * task.integers
        of = f"{reports:,} of {task.users:,}"
        rows.append((task.name, values, _time(window.closes), of, words))
    columns = _columns("Task", "Values", "Closes", "Reports", "State")
    report = Report("Tasks", columns, rows, [] if rows else ["There is no task here."])
    links = [
        f'<p><a href="{window.path}/page">Task {window.task.name}, window {window.number} of '
        f"0 to {window.task.windows - 1}</a></p>"
        for window, _, _ in soonest
    ]
    return _document(report, links, over=all(state in _ENDED for _, state, _ in soonest))


def task_page(
    window: Window,
    status: AnalyzerStatus,
    columns: Sequence[Seen],
    bars: Sequence[tuple[Window, int]],
    now: datetime,
) -> str:
    """Return the page of one window, with the status of each shuffler, and what is wrong with it.

    ``bars`` are the reports in windows of the task, for a chart.
    """
    task, state, release = window.task, _shown(window, status.state, now), status.release
    rows: list[tuple[object, ...]]
    rows = [("Analyzer: clear shares", task.analyzer, status.reports, state)]
    for party, (address, (seen, wrong)) in enumerate(zip(task.shufflers, columns, strict=True), 1):
        shown, reports = ("", None) if seen is None else (seen.state, seen.reports)
        shown = _shown(window, shown, now)
        words = "; ".join(filter(None, (_SHUFFLER.get(shown, shown), wrong)))
        rows.append((f"Shuffler {party}", address, reports, words))
    heads = _columns("Party", "Address", "Reports", "State")
    report = Report(f"Private sum: {state}", heads, rows, list(_notes(window, status, state, now)))
    more = ['<p><a href="/">All tasks</a></p>', f"<pre>{escape(task.explain())}</pre>"]
    if task.windows > 1:
        more.insert(0, _chart(bars))
    if status.result is not None:
        more.insert(0, f"<pre>{escape(status.result.text)}</pre>")
        if isinstance(status.result.estimate, list):
            more.insert(0, _result(window, status.result))
    over = state in _ENDED and not release.running and release.again is None
    return _document(report, more, over=over)


def _result(window: Window, result: Result) -> str:
    """Return a table of the coordinates of a result, of the first thousand if there are more."""
    rows = [(*row, *ends) for *row, ends in result.rows(window.task.labels)]
    heads = _columns("Coordinate", "Sum", "From", "To")
    notes = ["Each interval contains the true value with 95% confidence."]
    if len(rows) > _ROWS:
        notes.append(f"These are the first {_ROWS:,} of {len(rows):,} coordinates.")
    return Report("Result", heads, rows[:_ROWS], notes)._repr_html_()


def _chart(bars: Sequence[tuple[Window, int]]) -> str:
    """Return a chart of the reports in each window, which links to their pages."""
    most = max(1, *(reports for _, reports in bars))
    each = _WIDE / max(24, len(bars))
    drawn = "".join(
        f'<a href="{window.path}/page"><title>Window {window.number}, {_time(window.opens)}: '
        f'{reports:,}</title><rect x="{i * each:g}" y="0" width="{each:g}" height="{_HIGH}" '
        f'fill-opacity="0"></rect><rect x="{i * each:g}" y="{_HIGH * (1 - reports / most):.1f}" '
        f'width="{0.8 * each:g}" height="{_HIGH * reports / most + 1:.1f}"></rect></a>\n'
        for i, (window, reports) in enumerate(bars)
    )
    about = f"Clear shares in each window, {most:,} at most"
    return f"""<figure>
<svg viewBox="0 0 {_WIDE} {_HIGH + 1}" role="img" aria-label="{about}" fill="currentColor">
{drawn}</svg>
<figcaption>{about}.</figcaption>
</figure>"""


def _notes(window: Window, status: AnalyzerStatus, state: str, now: datetime) -> Iterator[str]:
    """Yield the state in words, the time left, and a release's progress."""
    release, task = status.release, window.task
    if task.windows > 1:
        yield f"Window {window.number}, of 0 to {task.windows - 1}."
    yield f"{_WORDS.get(state, state).capitalize()}."
    if state == _EARLY:
        yield f"Opens in {_span(window.opens - now)}, at {_time(window.opens)}."
    if state == "collecting":
        yield f"Time left: {_span(window.closes - now)}, until {_time(window.closes)}."
    if release.running:
        yield f"Under way: {release.step or 'beginning'}."
    elif release.message is not None:
        yield f"{'Why' if state == 'stopped' else 'Waiting'}: {release.message}."
    if release.again is not None:
        yield f"The analyzer retries in {release.again} s."
    if state not in _ENDED:
        expires = datetime.fromisoformat(status.expires)
        yield f"Anything not released by {_time(expires)} will be deleted."
    known = "How many are complete is known when a release begins."
    if status.complete is not None:
        known = f"{status.complete:,} reports are complete."
    yield (
        f"{known} At least {task.min_reports:,} reports must be complete, at all parties, of at "
        f"most {task.users:,}."
    )
    addresses = (task.analyzer, *task.shufflers)
    if any(on_loopback(urlsplit(address).hostname or "") for address in addresses):
        yield "Some addresses are on a single machine: its operator sees everything."
    yield f"As of {_time(now)}."
