"""The status page: every state, whatever a shuffler answers, and nothing that a browser runs."""

from __future__ import annotations

import base64
import hashlib
import re
from collections import Counter
from datetime import timedelta
from html.parser import HTMLParser
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("starlette")

from deployment_tasks import small_task

from ikos import Categories
from ikos.deployment import status_page
from ikos.deployment.status_page import task_page, tasks_page
from ikos.deployment.wire import AnalyzerStatus, ReleaseState, Result, ShufflerStatus
from ikos.results.sums import Interval
from ikos.testing import DeterministicRandom

HOSTILE = "<script>alert('x')</script>\"&lt;<img src=x onerror=y>"
VOID = {"meta"}
TAGS = {
    "html", "head", "meta", "title", "style", "body", "main", "section", "h1", "h2", "p", "a",
    "div", "small", "span", "table", "thead", "tbody", "tr", "th", "td", "ul", "li", "pre",
    "figure", "figcaption", "svg", "rect", "line", "text",
}  # fmt: skip


class Reader(HTMLParser):
    """Reads a page, and refuses what is not well-formed."""

    def __init__(self, page):
        super().__init__()
        self.open, self.tags, self.texts, self.metas = [], Counter(), [], {}
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        assert tag in TAGS
        attrs = dict(attrs)
        assert not {name for name in attrs if name.startswith("on") or name in ("src", "style")}
        if "href" in attrs:
            assert attrs["href"].startswith("/")  # of this server, and no program
        if tag == "html":
            assert attrs["lang"] == "en"
        if tag == "meta":
            self.metas[attrs.get("http-equiv") or attrs.get("name") or "charset"] = attrs.get(
                "content"
            )
        self.tags[tag] += 1
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1:] != ["style"]:
            self.texts.append(data)

    @property
    def text(self):
        return " ".join("".join(self.texts).split())


TASK = small_task()
FIRST = TASK.at(0)
NOW = TASK.opens + timedelta(minutes=1)


def status(state="collecting", *, complete=None, result=None, **release):
    common = {"task": TASK.name, "window": 0, "opens": "", "closes": "", "reports": 5}
    common["expires"] = (TASK.closes + timedelta(days=9)).isoformat()
    return AnalyzerStatus(
        state=state, complete=complete, result=result, release=ReleaseState(**release), **common
    )


def all_tell(state="collecting"):
    common = {
        "task": TASK.name,
        "window": 0,
        "state": state,
        "reports": 4,
        "opens": "",
        "closes": "",
        "expires": "",
    }
    return [(ShufflerStatus(party=party, **common), "") for party in range(1, TASK.columns + 1)]


def read(state, columns=None, at=None):
    columns = all_tell() if columns is None else columns
    return Reader(task_page(FIRST, state, columns, [(FIRST, "collecting", 5)], at or NOW))


@pytest.fixture(scope="module")
def result():
    return Result.of(TASK.protocol.run(np.array([1, 0, 1, 1]), DeterministicRandom(3)))


def test_the_task_and_its_guarantee():
    page = read(status())
    assert page.tags["main"] == page.tags["h1"] == 1
    assert page.text.count("Sum of integers from 0 to 1") == 2  # the title and the heading
    guarantee = TASK.protocol.guarantee
    assert "its operator sees everything" in page.text  # addresses on this machine
    for one in (
        TASK.name, "integersyes", "domainnumber: lower 0, upper 1",
        "Nothing is released for fewer than 3",
        str(guarantee), TASK.opens.isoformat(), TASK.closes.isoformat(),
        *map(str, guarantee.conditions),
    ):  # fmt: skip
        assert one in page.text


@pytest.mark.parametrize(
    ("state", "shufflers", "release", "words", "refresh"),
    [
        ("collecting", "collecting", {}, "Collecting reports.Time left: 1 day, 0:59:00", "5"),
        ("closed", "closed", {}, "Closed: no more reports are accepted, and nothing is", "5"),
        (
            "agreed", "batch agreed", {"running": True, "step": "receiving the batch"},
            "Under way: receiving the batch.", "5",
        ),
        (
            "agreed", "batch agreed", {"message": "shuffler 2 does not answer", "again": 8},
            "shuffler 2 does not answer.The analyzer retries in 8 s.", "5",
        ),
        (
            "stopped", "closed", {"message": "too few"},
            "nothing will ever be released. Clients can report again in another window or task."
            "Why: too few.", None,
        ),
        (
            "stopped", "deleted", {"message": "too few; shuffler 3", "again": 0},
            "The analyzer retries in 0 s.", "5",
        ),
    ],
)  # fmt: skip
def test_states(state, shufflers, release, words, refresh):
    known = {"batch agreed": "agreed"}
    page = read(status(state, **release), all_tell(known.get(shufflers, shufflers)))
    assert words in page.text
    assert page.text.count(shufflers) >= TASK.columns
    assert ("Time left" in page.text) == (state == "collecting")
    expires = TASK.closes + timedelta(days=9)
    deleted = f"Anything not released by {expires:%Y-%m-%d %H:%M:%S} UTC will be deleted."
    assert (deleted in page.text) == (state != "stopped")
    assert page.metas.get("refresh") == refresh


def test_before_it_opens():
    at = TASK.opens - timedelta(hours=2, minutes=5, seconds=7)
    page = read(status(), at=at)
    assert "Not open yet.Opens in 2:05:07, at" in page.text
    # the title, the heading, all parties, and a sentence
    assert page.text.count("ot open yet") == 4 + TASK.columns
    assert "collecting" not in page.text
    opens = f"not open yetopens {FIRST.opens:%Y-%m-%d %H:%M:%S} UTC"
    assert opens in Reader(tasks_page([(FIRST, "collecting", 0)], at)).text
    assert "opens" not in Reader(tasks_page([(FIRST, "closed", 0)], at)).text


@pytest.mark.parametrize(
    ("left", "words"),
    [
        (timedelta(days=1, seconds=59), "1 day, 0:00:59"),
        (timedelta(hours=23, minutes=59, seconds=59), "23:59:59"),
        (timedelta(seconds=61), "0:01:01"),
        (timedelta(seconds=-1), "0:00:00"),  # its clock and the state are read apart
    ],
)
def test_times(left, words):
    page = read(status(), at=TASK.closes - left)
    assert f"Time left: {words}, until " in page.text


def test_a_chart_of_the_reports_of_each_window():
    """Bars in proportion, each of which links to its window; an axis, its unit, the minimum."""
    task = small_task(40, 20, 4, windows=3)
    states = ("released", 30), ("stopped", 0), ("agreed", 40)
    bars = [(task.at(number), *state) for number, state in enumerate(states)]
    text = task_page(task.at(2), status(), all_tell()[:4], bars, NOW)
    page = Reader(text)
    assert f"Window 2, {task.at(2).opens:%Y-%m-%d %H:%M:%S} UTC: 40" in page.text
    drawn = re.findall(r'y="(\S+)" height="(\S+)" class="(\w+)"></rect></a>', text)
    tops = {"released": 176 - 152 * 30 / 44, "stopped": 176, "pending": 176 - 152 * 40 / 44}
    assert [(float(y), float(high) - 1, kind) for y, high, kind in drawn] == [
        (pytest.approx(top, abs=0.1), pytest.approx(176 - top, abs=0.1), kind)
        for kind, top in tops.items()
    ]
    least = 176 - 152 * 20 / 44
    assert f'y1="{least:.1f}" y2="{least:.1f}" class="minimum"' in text
    assert re.findall('<text[^>]*>([^<]*)<', text) == [
        "reports", "0", "20", "40", "window", "0", "1", "2", "- - minimum 20",
    ]  # fmt: skip
    for words in ("a release needs the minimum 20.", "\u25a0 aborted"):
        assert words in page.text
    assert re.findall('<a href="([^"]+)"><title>', text) == [one.path + "/page" for one, *_ in bars]
    empty = status_page._chart(task.at(0), [(task.at(0), "collecting", 0)])
    assert f'y1="{176 - 152 / 1.1:.1f}" y2="{176 - 152 / 1.1:.1f}" class="minimum"' in empty
    opens = [f"{window.opens:%Y-%m-%d %H:%M:%S} UTC" for window, *_ in bars]
    rows = f"2{opens[2]}40releasing1{opens[1]}0aborted0{opens[0]}30released"
    assert f"WindowReportsState{rows}" in page.text


def test_released(result):
    page = read(status("released", complete=4, result=result), all_tell("sent"))
    for one in (
        "Released.", " ".join(result.text.split()), str(Interval(result.sum_low, result.sum_high)),
        "batch sent and deleted", "Of 5 reports at the analyzer, 4 are complete.",
    ):  # fmt: skip
        assert one in page.text
    interval = Interval(result.sum_low, result.sum_high)
    assert f"Sum95 % intervalcomplete reports{result.estimate:g}{interval}Each" in page.text
    assert "refresh" not in page.metas


def test_a_vector_is_a_table(result, monkeypatch):
    sums = {"estimate": [5.0, 7.0, 9.0], "sum_low": [4.0, 6.0, 8.0], "sum_high": [6.0, 8.0, 10.0]}
    found = status("released", complete=4, result=result.model_copy(update=sums))
    rows = "CoordinateSum95 % interval05[4, 6]17[6, 8]"
    assert f"{rows}29[8, 10]" in read(found).text
    monkeypatch.setattr(status_page, "_ROWS", 2)
    page = read(found)
    assert f"{rows}These are the first 2 of 3 coordinates." in page.text


def test_categories_have_their_names(result):
    """In the heading, in the result and in the list of tasks, whatever they are."""
    task = small_task(20, 12, 9, (("domain", Categories([3])), ("labels", ("yes", HOSTILE, "no"))))
    sums = {"estimate": [5.0, 7.0, 9.0], "sum_low": [4.0, 6.0, 8.0], "sum_high": [6.0, 8.0, 10.0]}
    found = status("released", result=result.model_copy(update=sums))
    bars = [(task.at(0), "released", 5)]
    page = Reader(task_page(task.at(0), found, [(None, "")] * 9, bars, NOW))
    assert f"Counts of 3 categories: releasedCategories: yes; {HOSTILE}; no." in page.text
    assert f"CategoryCount95 % intervalyes5[4, 6]{HOSTILE}7[6, 8]no9[8, 10]" in page.text
    assert page.text.count("is being asked") == 9
    assert f"yes; {HOSTILE}; no" in Reader(tasks_page(bars, NOW)).text


def test_labels_beyond_the_first_are_counted():
    labels = tuple(map(str, range(14)))
    assert status_page._labels(SimpleNamespace(labels=labels[:12])).endswith("; 10; 11")
    assert status_page._labels(SimpleNamespace(labels=labels)).endswith("; 10; 11; and 2 more")


@pytest.mark.parametrize("most", [1.1, 4.4, 8.8, 11, 1234.5, 2e6])
def test_ticks_are_few_and_round(most):
    ticks = status_page._ticks(most)
    assert 2 <= len(ticks) <= 5
    assert ticks[-1] <= most < ticks[-1] + ticks.step
    assert str(ticks.step).rstrip("0") in ("1", "2", "5")


def test_what_is_known_of_a_shuffler():
    *others, (found, _) = all_tell("sent")
    last = TASK.columns
    page = read(status(), [*others, (found, "has a clock 75 s ahead")])
    assert f"What needs attentionShuffler {last} has a clock 75 s ahead.Reports" in page.text
    assert "unknown" not in page.text
    page = read(status(), [*others, (None, f"shuffler {last} does not answer")])
    assert f"Shuffler {last} does not answer.A shuffler whose state is unknown must" in page.text
    assert page.text.count(f"Shuffler {last}{TASK.shufflers[-1]}unknown") == 1
    assert "attention" not in read(status(), all_tell()).text


def test_who_begins_a_release():
    """The operator, unless it is under way, or the analyzer goes on by itself."""
    words = "with 'ikos task release'"
    assert words in read(status("closed")).text
    assert words in read(status("agreed", message="an error of the program")).text
    for state, release in (
        ("closed", {"running": True}), ("agreed", {"message": "no answer", "again": 3}),
        ("collecting", {}), ("stopped", {"message": "too few"}),
    ):  # fmt: skip
        assert words not in read(status(state, **release)).text


def test_too_few_reports():
    words = "Fewer reports came than a release needs"
    few = status("closed").model_copy(update={"reports": TASK.min_reports - 1})
    assert words in read(few).text
    assert words not in read(few.model_copy(update={"state": "collecting"})).text
    assert words not in read(few.model_copy(update={"reports": TASK.min_reports})).text


def test_words_of_others_are_escaped(result):
    """As text they are there: the reader refuses what they would be as a part of the page."""
    columns = [*all_tell()[:-1], (None, HOSTILE)]
    for release in ({"message": HOSTILE}, {"running": True, "step": HOSTILE}):
        for state in ("closed", "stopped"):
            assert read(status(state, **release), columns).text.count(HOSTILE) == 2
    found = result.model_copy(update={"text": HOSTILE})
    assert read(status("released", result=found)).text.count("alert") == 1
    assert Reader(tasks_page([(FIRST, HOSTILE, 0)], NOW)).text.count(HOSTILE) == 1


def test_nothing_is_loaded_but_the_style():
    page = task_page(FIRST, status(), all_tell(), [(FIRST, "collecting", 5)], NOW)
    policy = Reader(page).metas["Content-Security-Policy"]
    style = page.partition("<style>")[2].partition("</style>")[0]
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert policy.startswith(f"default-src 'none'; style-src 'sha256-{digest}'; ")
    assert "unsafe" not in policy
    assert "url(" not in page
    assert "@import" not in page


def test_the_page_of_all_tasks():
    first, later = FIRST, small_task(40, 20, 4, period=TASK.period + 86400).at(0)
    page = Reader(tasks_page([(later, "released", 1234), (first, "collecting", 5)], NOW))
    assert page.text.index(first.task.name) < page.text.index(later.task.name)
    for window, words in ((first, "5minimum 3collecting"), (later, "1,234minimum 20released")):
        closes = f"{window.closes:%Y-%m-%d %H:%M:%S} UTC"
        row = f"Sum of integers from 0 to 1Task {window.task.name}{words}closes {closes}"
        assert row in page.text
    assert page.metas["refresh"] == "5"
    ended = [(first, "released", 5), (later, "stopped", 5)]
    assert "refresh" not in Reader(tasks_page(ended, NOW)).metas
    more = small_task(windows=2).at(0), "released", 5  # the next window will open
    assert "refresh" in Reader(tasks_page([*ended, more], NOW)).metas
    assert "There is no task here." in Reader(tasks_page([], NOW)).text
