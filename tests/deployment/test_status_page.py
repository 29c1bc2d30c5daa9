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

from ikos.deployment import status_page
from ikos.deployment.status_page import task_page, tasks_page
from ikos.deployment.wire import AnalyzerStatus, ReleaseState, Result, ShufflerStatus
from ikos.results.sums import Interval
from ikos.testing import DeterministicRandom

HOSTILE = "<script>alert('x')</script>\"&lt;<img src=x onerror=y>"
VOID = {"meta"}
TAGS = {
    "html", "head", "meta", "title", "style", "body", "main", "p", "b", "a", "table", "thead",
    "tbody", "tr", "th", "td", "ul", "li", "pre", "figure", "figcaption", "svg", "rect",
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
    return Reader(task_page(FIRST, state, columns, [(FIRST, 5)], at or NOW))


@pytest.fixture(scope="module")
def result():
    return Result.of(TASK.protocol.run(np.array([1, 0, 1, 1]), DeterministicRandom(3)))


def test_the_task_and_its_guarantee():
    page = read(status())
    assert page.tags["title"] == page.tags["main"] == page.tags["table"] == 1
    guarantee = TASK.protocol.guarantee
    assert "its operator sees everything" in page.text  # addresses on this machine
    for one in (
        TASK.name, "integers yes", "domain number: lower 0.0, upper 1.0",
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
            "Aborted permanently: nothing will ever be released.Why: too few.", None,
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
    assert page.text.count("not open yet") == 3 + TASK.columns  # the title twice, and all rows
    assert "collecting" not in page.text
    assert "not open until" in Reader(tasks_page([(FIRST, "collecting", 0)], at)).text
    assert "not open" not in Reader(tasks_page([(FIRST, "closed", 0)], at)).text


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
    """Bars in proportion, each of which links to its window; and none for a single window."""
    assert "svg" not in read(status()).tags
    task = small_task(windows=3)
    bars = [(task.at(number), reports) for number, reports in enumerate((30, 0, 40))]
    text = task_page(task.at(2), status(), all_tell(), bars, NOW)
    page = Reader(text)
    assert "Clear shares in each window, 40 at most." in page.text
    assert f"Window 2, {task.at(2).opens:%Y-%m-%d %H:%M:%S} UTC: 40" in page.text
    drawn = re.findall(r'<rect x="(\S+)" y="(\S+)" width="24" height="(\S+)"></rect></a>', text)
    assert drawn == [("0", "30.0", "91.0"), ("30", "120.0", "1.0"), ("60", "0.0", "121.0")]
    assert re.findall('<a href="([^"]+)"><title>', text) == [f"{one.path}/page" for one, _ in bars]


def test_released(result):
    page = read(status("released", complete=4, result=result), all_tell("sent"))
    for one in (
        "Released.", " ".join(result.text.split()), str(Interval(result.sum_low, result.sum_high)),
        "batch sent and deleted", "4 reports are complete.",
    ):  # fmt: skip
        assert one in page.text
    assert page.tags["pre"] == 2
    assert "refresh" not in page.metas


def test_a_vector_is_a_table(result, monkeypatch):
    sums = {"estimate": [5.0, 7.0, 9.0], "sum_low": [4.0, 6.0, 8.0], "sum_high": [6.0, 8.0, 10.0]}
    found = status("released", complete=4, result=result.model_copy(update=sums))
    assert read(found).text.count("CoordinateSumFromTo0546176829810") == 1
    monkeypatch.setattr(status_page, "_ROWS", 2)
    page = read(found)
    assert "CoordinateSumFromTo05461768Each" in page.text
    assert "These are the first 2 of 3 coordinates." in page.text
    window = SimpleNamespace(task=SimpleNamespace(labels=("yes", HOSTILE, "no")))
    text = Reader(status_page._result(window, found.result)).text
    assert f"yes546{HOSTILE}768" in text


def test_what_is_known_of_a_shuffler():
    *others, (found, _) = all_tell("sent")
    page = read(status(), [*others, (found, "has a clock 75 s ahead")])
    assert page.text.count("4batch sent and deleted; has a clock 75 s ahead") == 1
    assert read(status(), [*others, (None, "no answer")]).text.count("no answer") == 1


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
    page = task_page(FIRST, status(), all_tell(), [(FIRST, 5)], NOW)
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
    for window, reports in ((first, "5 of 6"), (later, "1,234 of 40")):
        row = page.text[page.text.index(window.task.name) :].replace(" ", "")
        closes = f"{window.closes:%Y-%m-%d %H:%M:%S} UTC"
        words = f"number: lower 0.0, upper 1.0, integers {closes} {reports}"
        assert words.replace(" ", "") in row
    assert page.metas["refresh"] == "5"
    ended = tasks_page([(first, "released", 5), (later, "stopped", 5)], NOW)
    assert "refresh" not in Reader(ended).metas
    assert "There is no task here." in Reader(tasks_page([], NOW)).text
