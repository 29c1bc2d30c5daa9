"""The status pages for operators: plain HTML and SVG without scripts, rendered for each request.

A page loads nothing, and its policy forbids loading. `_tag` escapes all text and attributes. A
shuffler may answer anything: the page shows only a possible count, the name of a state
(`ikos.deployment.remote.RemoteShuffler.status`), and, as text, how its clock or version differs, or
why it refuses.
"""

from __future__ import annotations

import base64
import hashlib
import math
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from html import escape
from itertools import islice
from urllib.parse import urlsplit

from ikos.data.domains import Bounds, Categories
from ikos.deployment.task import Task, Window
from ikos.deployment.task_fields import on_loopback
from ikos.deployment.wire import AnalyzerStatus, Result, ShufflerStatus
from ikos.results.report import cell
from ikos.results.sums import Interval
from ikos.results.text import figures

Seen = tuple[ShufflerStatus | None, str]
"""The status of a shuffler, if it answers, and what is wrong with it, if anything."""

Count = tuple[Window, str, int]
"""A window with its state and its number of reports at the analyzer."""

_ENDED = ("released", "stopped")
_EARLY = "not open yet"
_WORDS = {
    "collecting": "collecting reports",
    "closed": "closed: no more reports are accepted, and nothing is released yet",
    "agreed": "releasing: the complete reports are known",
    "stopped": "aborted permanently: nothing will ever be released. Clients can report again in "
    "another window or task",
}
_SHORT = {"stopped": "aborted", "agreed": "releasing"}
_LEGEND = {"released": "released", "stopped": "aborted", "pending": "not released yet"}
_SHUFFLER = {
    "agreed": "batch agreed",
    "sent": "batch sent and deleted",
}
_STYLE = """
:root { color-scheme: light dark; }
body { font: 1rem/1.5 system-ui, sans-serif; max-width: 50rem; margin: 0 auto; padding: 1rem;
  overflow-wrap: break-word; }
h1 { font-size: 1.5rem; line-height: 1.25; }
h2 { font-size: 1.1rem; margin: 2rem 0 0.5rem; }
ul { padding-left: 1.2rem; }
small { display: block; opacity: 0.75; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; padding: 0.3rem 1rem 0.3rem 0; border-bottom: 1px solid #8888;
  vertical-align: top; }
td:first-child, td:last-child:nth-child(2) { overflow-wrap: anywhere; }
th:last-child, td:last-child { padding-right: 0; }
.number { text-align: right; font-variant-numeric: tabular-nums; }
pre { white-space: pre-wrap; font-size: 0.8rem; }
.attention { border-left: 4px solid #d9534f; padding-left: 0.8rem; }
.attention h2 { margin-top: 0; }
figure { margin: 1rem 0; }
svg { display: block; width: 100%; }
text { font-size: 12px; fill: currentColor; }
line { stroke: currentColor; stroke-opacity: 0.25; }
figcaption p { margin: 0.3rem 0; }
figcaption small { display: inline-block; margin-right: 1rem; opacity: 1; }
.minimum { stroke-opacity: 1; stroke-dasharray: 6 4; }
.shown { font-weight: bold; text-decoration: underline; }
.released { fill: #4a90d9; color: #4a90d9; }
.stopped { fill: #d9534f; color: #d9534f; }
.pending { fill: #888; color: #888; }
"""
_HIGH, _TOP, _BOTTOM = 204, 24, 176  # of the chart, in pixels: its labels do not scale
_MARGIN, _SLOTS = 16.0, 8  # percent of its width for labels of the axis; least number of bars
_ROWS = 1000  # of a table
_LABELS = 12  # in a list
_REFRESH_SECONDS = 5
_HASH = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
_AGAIN = f'<meta http-equiv="refresh" content="{_REFRESH_SECONDS}">\n'


class _Html(str):
    """An element, as opposed to text."""

    __slots__ = ()


def _tag(name: str, *content: object, **attributes: object) -> _Html:
    """Return an element of text, which is escaped, and of other elements."""
    stated = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(str(value))}"'
        for key, value in attributes.items()
    )
    inner = "".join(one if isinstance(one, _Html) else escape(str(one)) for one in content)
    return _Html(f"<{name}{stated}>{inner}</{name}>")


def _cell(first: object, *lines: str) -> _Html:
    """Return the content of a cell, with small lines below the first."""
    return _tag("div", first, *(_tag("small", line) for line in lines))


def _list(sentences: Iterable[str]) -> _Html:
    return _tag("ul", *(_tag("li", sentence) for sentence in sentences))


def _table(heads: Sequence[str], rows: Iterable[Sequence[object]], numbers: Sequence[int]) -> _Html:
    """Return a table, with some columns of numbers."""

    def line(kind: str, cells: Sequence[object]) -> _Html:
        classes = [{"class_": "number"} if i in numbers else {} for i in range(len(cells))]
        shown = zip(cells, classes, strict=True)
        return _tag("tr", *(_tag(kind, one, **attributes) for one, attributes in shown))

    body = _tag("tbody", *(line("td", row) for row in rows))
    return _tag("table", _tag("thead", line("th", heads)), body)


def _document(title: str, content: Iterable[_Html], now: datetime, *, over: bool) -> str:
    again = "" if over else f" This page reloads itself every {_REFRESH_SECONDS} s."
    main = _tag("main", *content, _tag("p", f"As of {_time(now)}.{again}"))
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
{main}
</body>
</html>
"""


def _sentence(words: str) -> str:
    return words[:1].upper() + words[1:]


def _time(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"


def _span(time: timedelta) -> str:
    """Return whole seconds, never negative: the clock and the state are read separately."""
    return str(max(timedelta(), timedelta(time.days, time.seconds)))


def _shown(window: Window, state: str, now: datetime) -> str:
    return _EARLY if state == "collecting" and now < window.opens else state


def _short(window: Window, state: str, now: datetime) -> str:
    """Return a state in a few words."""
    shown = _shown(window, state, now)
    return _SHORT.get(shown, shown)


def _subject(task: Task) -> str:
    """Return what a task measures."""
    domain = task.domain
    if isinstance(domain, Bounds):
        kind = "integers" if task.integers else "numbers"
        return f"Sum of {kind} from {cell(domain.lower)} to {cell(domain.upper)}"
    what = "categories" if isinstance(domain, Categories) else "coordinates"
    return f"{'Counts' if what == 'categories' else 'Sums'} of {domain.dimension:,} {what}"


def _labels(task: Task) -> str:
    """Return the labels of a task's coordinates: the first few, and the number of others."""
    more = len(task.labels) - _LABELS
    return "; ".join((*task.labels[:_LABELS], *([f"and {more:,} more"] * (more > 0))))


def _page(window: Window) -> str:
    return f"{window.path}/page"


def tasks_page(windows: Iterable[Count], now: datetime) -> str:
    """Return the page of all tasks, each with a window's state and reports, soonest first."""
    soonest = sorted(windows, key=lambda row: (row[0].closes, row[0].path))
    rows, over = [], True
    for window, state, reports in soonest:
        task, shown = window.task, _shown(window, state, now)
        subject = _tag("a", _subject(task), href=_page(window))
        labels = [_labels(task)] if task.labels else []
        number = [f"window {window.number} of 0 to {task.windows - 1}"] if task.windows > 1 else []
        opens = [f"opens {_time(window.opens)}"] if shown == _EARLY else []
        times = [*number, *opens, f"closes {_time(window.closes)}"]
        rows.append(
            (
                _cell(subject, *labels, f"Task {task.name}"),
                _cell(f"{reports:,}", f"minimum {task.min_reports:,}"),
                _cell(_SHORT.get(shown, shown), *times),
            )
        )
        over = over and state in _ENDED and window.number == task.windows - 1
    content = [_tag("h1", "Tasks")]
    if rows:
        content.append(_table(("Task", "Reports", "State"), rows, [1]))
    else:
        content.append(_tag("p", "There is no task here."))
    return _document("Tasks", content, now, over=over)


def task_page(
    window: Window,
    status: AnalyzerStatus,
    columns: Sequence[Seen],
    bars: Sequence[Count],
    now: datetime,
) -> str:
    """Return the page of one window, with the status of each shuffler, and what is wrong with it.

    ``bars`` are windows of the task, for a chart and a table.
    """
    task, state, release = window.task, _shown(window, status.state, now), status.release
    subject, words = _subject(task), _SHORT.get(state, state)
    content = [_tag("p", _tag("a", "All tasks", href="/")), _tag("h1", f"{subject}: {words}")]
    if task.labels:
        what = "Categories" if isinstance(task.domain, Categories) else "Coordinates"
        content.append(_tag("p", f"{what}: {_labels(task)}."))
    content.append(_list(_notes(window, status, state, now)))
    if wrong := list(_wrong(task, columns)):
        head = _tag("h2", "What needs attention")
        content.append(_tag("section", head, _list(wrong), class_="attention"))
    if status.result is not None:
        content += _result(window, status.result)
    content += [_tag("h2", "Reports in each window"), _chart(window, bars)]
    content += [_tag("h2", "Parties"), _parties(window, status, columns, state, now)]
    if task.windows > 1:
        rows = (
            (
                _cell(_tag("a", one.number, href=_page(one)), _time(one.opens)),
                f"{reports:,}",
                _short(one, found, now),
            )
            for one, found, reports in reversed(bars)
        )
        heads = ("Window", "Reports", "State")
        content += [_tag("h2", "Windows"), _table(heads, rows, [1])]
    summary = task.summary()
    lines = ((row["name"], row["text"]) for row in summary.rows)
    content += [_tag("h2", summary.title), _table(("", "value"), lines, []), _list(summary.notes)]
    over = state in _ENDED and not release.running and release.again is None
    title = f"{subject}, window {window.number}: {words}"
    return _document(title, content, now, over=over)


def _parties(
    window: Window, status: AnalyzerStatus, columns: Sequence[Seen], state: str, now: datetime
) -> _Html:
    """Return a table of the analyzer and all shufflers."""
    parties = [("Analyzer", f"{status.reports:,}", _SHORT.get(state, state))]
    for party, (seen, wrong) in enumerate(columns, 1):
        waiting = "unknown" if wrong else "is being asked"
        shown = waiting if seen is None else _shown(window, seen.state, now)
        reports = "" if seen is None else f"{seen.reports:,}"
        name = _sentence(window.task.party_name(party))
        parties.append((name, reports, _SHUFFLER.get(shown, shown)))
    places = (window.task.analyzer, *window.task.shufflers)
    rows = [
        (_cell(name, place), *cells) for (name, *cells), place in zip(parties, places, strict=True)
    ]
    return _table(("Party", "Reports", "State"), rows, [1])


def _wrong(task: Task, columns: Sequence[Seen]) -> Iterator[str]:
    """Yield what is wrong with each shuffler, and what its operator can do."""
    for party, (seen, wrong) in enumerate(columns, 1):
        if wrong and seen is None:
            yield f"{_sentence(wrong)}."
        elif wrong:
            yield f"{_sentence(task.party_name(party))} {wrong}."
    if any(wrong and seen is None for seen, wrong in columns):
        yield (
            f"A {task.transport.intermediary} whose state is unknown must be running, serve this "
            "task, and be reachable from the analyzer at its address; its log says more."
        )


@lru_cache(16)  # strangers may open the pages of released windows, which do not change
def _sums(heads: tuple[str, ...], rows: tuple[tuple[str, float, Interval], ...]) -> _Html:
    """Return a table of sums with their intervals."""
    shown = (
        (name or "complete reports", figures(value, interval._scale(value)), interval)
        for name, value, interval in rows
    )
    return _table(heads, shown, [1, 2])


def _result(window: Window, result: Result) -> Iterator[_Html]:
    """Yield a table of a result, of the first thousand coordinates if there are more, and text."""
    task = window.task
    rows = tuple(islice(result.rows(task.labels), _ROWS))
    total = len(result.estimate) if isinstance(result.estimate, list) else 1
    categories = isinstance(task.domain, Categories)
    first = ("Category" if categories else "Coordinate") if total > 1 else ""
    heads = (first, "Count" if categories else "Sum", "95 % interval")
    yield _tag("h2", "Result")
    yield _sums(heads, rows)
    if total > _ROWS:
        yield _tag("p", f"These are the first {_ROWS:,} of {total:,} coordinates.")
    yield _tag("p", "Each interval contains the true value with 95 % confidence.")
    yield _tag("pre", result.text)
    if task.transport.signing_keys:
        link = _tag("a", "certificate", href=f"{window.path}/certificate", download="certificate")
        yield _tag("p", "Anyone can check the ", link, " with ikos verify.")


def _ticks(most: float) -> range:
    """Return at most five round numbers of reports from 0 on."""
    power = 10 ** max(0, math.floor(math.log10(most / 4)))
    step = next(step * power for step in (1, 2, 5, 10) if 4 * step * power >= most)
    return range(0, math.floor(most) + 1, step)


def _chart(shown: Window, bars: Sequence[Count]) -> _Html:
    """Return a chart of the reports in each window, with the minimum; bars link to their pages."""
    task = shown.task
    most = max(1, task.min_reports, *(reports for _, _, reports in bars)) * 1.1
    each = (100 - _MARGIN) / max(_SLOTS, len(bars))

    def y(reports: float) -> str:
        return f"{_BOTTOM - (_BOTTOM - _TOP) * reports / most:.1f}"

    def across(reports: float, **kind: object) -> _Html:
        return _tag("line", x1=f"{_MARGIN}%", x2="100%", y1=y(reports), y2=y(reports), **kind)

    label = {"x": f"{_MARGIN - 1}%", "text_anchor": "end"}
    drawn = [_tag("text", "reports", x=0, y=12)]
    for tick in _ticks(most):
        drawn += [across(tick), _tag("text", f"{tick:,}", **label, y=y(tick), dy=4)]
    drawn.append(_tag("text", "window", x=0, y=_BOTTOM + 20))
    seen = set()
    for i, (window, state, reports) in enumerate(bars):
        x, kind = _MARGIN + i * each, state if state in _LEGEND else "pending"
        seen.add(kind)
        title = f"Window {window.number}, {_time(window.opens)}: {reports:,}"
        place = {"x": f"{x:.3f}%", "width": f"{0.8 * each:.3f}%"}
        whole = _tag("rect", **place, y=_TOP, height=_BOTTOM - _TOP, fill_opacity=0)
        high = f"{(_BOTTOM - _TOP) * reports / most + 1:.1f}"
        bar = _tag("rect", **place, y=y(reports), height=high, class_=kind)
        drawn.append(_tag("a", _tag("title", title), whole, bar, href=_page(window)))
        if (window.number - shown.number) % -(-len(bars) // _SLOTS) == 0:
            middle = {"x": f"{x + 0.4 * each:.3f}%", "y": _BOTTOM + 20, "text_anchor": "middle"}
            name = {"class_": "shown"} if window.number == shown.number else {}
            drawn.append(_tag("text", window.number, **middle, **name))
    least = f"minimum {task.min_reports:,}"
    drawn += [
        across(task.min_reports, class_="minimum"),
        _tag("text", f"- - {least}", x="100%", y=12, text_anchor="end"),
    ]
    first, last = bars[0][0], bars[-1][0]
    numbers = f"window {last.number}"
    if first.number < last.number:
        numbers = f"windows {first.number} to {last.number}"
    times = f"from {_time(first.opens)} to {_time(last.closes)}"
    about = f"Reports at the analyzer in {numbers}, {times}; a release needs the {least}."
    legend = [
        _tag("small", _tag("span", "\u25a0", class_=kind), f" {words}")
        for kind, words in _LEGEND.items()
        if kind in seen
    ]
    svg = _tag("svg", *drawn, height=_HIGH, role="img", aria_label=about)
    return _tag("figure", svg, _tag("figcaption", about, _tag("p", *legend)))


def _notes(window: Window, status: AnalyzerStatus, state: str, now: datetime) -> Iterator[str]:
    """Yield the state in words, the time left, and a release's progress."""
    release, task = status.release, window.task
    if task.windows > 1:
        times = f"from {_time(window.opens)} to {_time(window.closes)}"
        yield f"Window {window.number} of 0 to {task.windows - 1}, {times}."
    yield f"{_sentence(_WORDS.get(state, state))}."
    if state == _EARLY:
        yield f"Opens in {_span(window.opens - now)}, at {_time(window.opens)}."
    if state == "collecting":
        yield f"Time left: {_span(window.closes - now)}, until {_time(window.closes)}."
    if state == "closed" and status.reports < task.min_reports:
        yield "Fewer reports came than a release needs: it would be aborted permanently."
    elif state in ("closed", "agreed") and not release.running and release.again is None:
        yield "The operator begins or resumes the release with 'ikos task release'."
    if release.running:
        yield f"Under way: {release.step or 'beginning'}."
    elif release.message is not None:
        yield f"{'Why' if state == 'stopped' else 'Waiting'}: {release.message}."
    if release.again is not None:
        yield f"The analyzer retries in {release.again} s."
    if state not in _ENDED:
        expires = datetime.fromisoformat(status.expires)
        yield f"Anything not released by {_time(expires)} will be deleted."
    known = f"Reports at the analyzer: {status.reports:,}. "
    known += "How many are complete is known when a release begins."
    if status.complete is not None:
        known = f"Of {status.reports:,} reports at the analyzer, {status.complete:,} are complete"
        known += f", {status.refused:,} refused." if status.refused else "."
    yield (
        f"{known} At least {task.min_reports:,} must be complete, at all parties, of at most "
        f"{task.users:,}."
    )
    addresses = (task.analyzer, *task.shufflers)
    if any(on_loopback(urlsplit(address).hostname or "") for address in addresses):
        yield "Some addresses are on a single machine: its operator sees everything."
