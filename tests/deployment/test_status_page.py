"""The status page: every state, whatever a shuffler answers, and nothing that a browser runs."""

from __future__ import annotations

import base64
import hashlib
import re
from collections import Counter
from datetime import timedelta
from html.parser import HTMLParser

import numpy as np
import pytest

pytest.importorskip("starlette")

from deployment_tasks import small_task

from ikos.deployment.status_page import task_page, tasks_page
from ikos.deployment.wire import AnalyzerStatus, ReleaseState, Result, ShufflerStatus
from ikos.results import Interval
from ikos.testing import DeterministicRandom

HOSTILE = "<script>alert('x')</script>\"&lt;<img src=x onerror=y>"
VOID = {"meta"}
TAGS = {
    "html", "head", "meta", "title", "style", "body", "main", "p", "b", "a", "table", "thead",
    "tbody", "tr", "th", "td", "ul", "li", "pre", "figure", "figcaption", "svg", "rect", "text",
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
NOW = TASK.opens + timedelta(minutes=1)


def status(state="collecting", *, complete=None, result=None, **release):
    common = {"task": TASK.name, "opens": "", "closes": "", "reports": 5}
    return AnalyzerStatus(
        state=state, complete=complete, result=result, release=ReleaseState(**release), **common
    )


def all_tell(state="collecting"):
    common = {"task": TASK.name, "state": state, "reports": 4, "opens": "", "closes": ""}
    return [ShufflerStatus(party=party, **common) for party in range(1, TASK.columns + 1)]


def read(state, columns=None, at=None):
    columns = all_tell() if columns is None else columns
    return Reader(task_page(TASK, state, columns, at or NOW))


@pytest.fixture(scope="module")
def result():
    return Result.of(TASK.protocol.run(np.array([1, 0, 1, 1]), DeterministicRandom(3)))


def test_the_task_and_its_guarantee():
    page = read(status())
    assert page.tags["title"] == page.tags["main"] == page.tags["table"] == 1
    guarantee = TASK.protocol.guarantee
    assert "its operator sees it all" in page.text  # addresses on this machine
    for one in (
        TASK.name, "integers yes", "upper 1", "Nothing is released for fewer than 3",
        str(guarantee), TASK.opens.isoformat(), TASK.closes.isoformat(),
        *guarantee.conditions,
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
            "shuffler 2 does not answer.It is tried again in 8 s.", "5",
        ),
        (
            "stopped", "closed", {"message": "too few"},
            "Stopped for good: nothing will ever be released.Why: too few.", None,
        ),
        (
            "stopped", "deleted, nothing was sent", {"message": "too few; shuffler 3", "again": 0},
            "It is tried again in 0 s.", "5",
        ),
    ],
)  # fmt: skip
def test_states(state, shufflers, release, words, refresh):
    known = {"batch agreed": "agreed", "deleted, nothing was sent": "deleted"}
    page = read(status(state, **release), all_tell(known.get(shufflers, shufflers)))
    assert words in page.text
    assert page.text.count(shufflers) >= TASK.columns
    assert ("Time left" in page.text) == (state == "collecting")
    assert page.metas.get("refresh") == refresh


def test_before_it_opens():
    at = TASK.opens - timedelta(hours=2, minutes=5, seconds=7)
    page = read(status(), at=at)
    assert "Not open yet.Opens in 2:05:07, at" in page.text
    assert page.text.count("not open yet") == 3 + TASK.columns  # the title twice, and all rows
    assert "collecting" not in page.text
    assert "not open until" in Reader(tasks_page([(TASK, "collecting", 0)], at)).text
    assert "not open" not in Reader(tasks_page([(TASK, "closed", 0)], at)).text


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


def test_a_chart_of_reports_over_time():
    """Bars in proportion, within the picture, each with its time; and none before any came."""
    assert "svg" not in read(status()).tags
    found = status().model_copy(update={"bars": [0, 3, 0, 4], "bar_hours": 2})
    text = task_page(TASK, found, all_tell(), NOW)
    page = Reader(text)
    assert page.tags["svg"] == 1
    assert "Clear shares that came in each 2 hours, 4 at most." in page.text
    bars = re.findall(r'<rect x="(\S+)" y="(\S+)" width="(\S+)" height="(\S+)"><title>', text)
    (x3, y3, width, high3), (x4, y4, _, high4) = (map(float, bar) for bar in bars)
    assert TASK.closes - TASK.opens == timedelta(hours=25)
    each = 720 / 13
    assert (x3, x4) == pytest.approx((each, 3 * each), abs=0.01)
    assert 0 < width < each
    assert (high3, high4, y3, y4) == (90, 120, 30, 0)
    assert f"{TASK.opens + timedelta(hours=6):%Y-%m-%d %H:%M:%S} UTC: 4" in page.text


def test_when_it_is_deleted(result):
    expires = TASK.closes + timedelta(days=9)
    words = f"What is not released by {expires:%Y-%m-%d %H:%M:%S} UTC is deleted."
    for state in ("collecting", "closed", "agreed", "stopped"):
        found = status(state).model_copy(update={"expires": expires.isoformat()})
        assert (words in read(found).text) == (state != "stopped")


def test_released(result):
    page = read(status("released", complete=4, result=result), all_tell("sent"))
    for one in (
        "Released.", " ".join(result.text.split()), str(Interval(result.sum_low, result.sum_high)),
        "batch sent and deleted", "4 reports are complete.",
    ):  # fmt: skip
        assert one in page.text
    assert page.tags["pre"] == 2
    assert "refresh" not in page.metas


def test_a_shuffler_that_does_not_answer():
    page = read(status(), [*all_tell()[:-1], "does not answer"])
    assert page.text.count("does not answer") == 1


def test_words_of_others_are_escaped(result):
    """As text they are there: the reader refuses what they would be as a part of the page."""
    columns = [*all_tell()[:-1], HOSTILE]
    for release in ({"message": HOSTILE}, {"running": True, "step": HOSTILE}):
        for state in ("closed", "stopped"):
            assert read(status(state, **release), columns).text.count(HOSTILE) == 2
    found = result.model_copy(update={"text": HOSTILE})
    assert read(status("released", result=found)).text.count("alert") == 1
    assert Reader(tasks_page([(TASK, HOSTILE, 0)], NOW)).text.count(HOSTILE) == 1


def test_nothing_is_loaded_but_the_style():
    page = task_page(TASK, status(), all_tell(), NOW)
    policy = Reader(page).metas["Content-Security-Policy"]
    style = page.partition("<style>")[2].partition("</style>")[0]
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert policy.startswith(f"default-src 'none'; style-src 'sha256-{digest}'; ")
    assert "unsafe" not in policy
    assert "url(" not in page
    assert "@import" not in page


def test_the_page_of_all_tasks():
    first, later = TASK, small_task(40, 20, 4, closes=TASK.closes + timedelta(1))
    page = Reader(tasks_page([(later, "released", 1234), (first, "collecting", 5)], NOW))
    assert page.text.index(first.name) < page.text.index(later.name)
    for task, reports in ((first, "5 of 6"), (later, "1,234 of 40")):
        row = page.text[page.text.index(task.name) :].replace(" ", "")
        words = f"integers 0 to 1 {task.closes:%Y-%m-%d %H:%M:%S} UTC {reports}"
        assert words.replace(" ", "") in row
    assert page.metas["refresh"] == "5"
    ended = tasks_page([(first, "released", 5), (later, "stopped", 5)], NOW)
    assert "refresh" not in Reader(ended).metas
    assert "There is no task here." in Reader(tasks_page([], NOW)).text
