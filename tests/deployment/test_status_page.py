"""The status page: every state, whatever a shuffler answers, and nothing that a browser runs."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from html.parser import HTMLParser

import numpy as np
import pytest

pytest.importorskip("starlette")

from deployment_tasks import small_task

from ikos.deployment.analyzer import result_json
from ikos.deployment.status_page import task_page, tasks_page
from ikos.results import Interval
from ikos.testing import DeterministicRandom

HOSTILE = "<script>alert('x')</script>\"&lt;<img src=x onerror=y>"
VOID = {"meta", "br"}
TAGS = {
    "html", "head", "meta", "title", "style", "body", "main", "h1", "h2", "p", "code", "a", "div",
    "table", "caption", "thead", "tbody", "tr", "th", "td", "ul", "li", "span", "br", "time",
    "strong",
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
        if tag == "th":
            assert attrs["scope"] in ("row", "col")
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


def status(state="collecting", *, complete=None, result=None, reports=5, **release):
    return {
        "state": state,
        "reports": reports,
        "complete": complete,
        "release": {"running": False, "step": None, "message": None, "again": None, **release},
        "result": result,
    }


def told(party, state="collecting", reports=4, **changed):
    task = small_task()
    return {"task": task.name, "party": party, "state": state, "reports": reports, **changed}


def all_tell(state="collecting", reports=4):
    return [told(party, state, reports) for party in range(1, small_task().columns + 1)]


def read(state, columns=None, at=None):
    task = small_task()
    columns = all_tell() if columns is None else columns
    return Reader(task_page(task, state, columns, at=at or task.opens + timedelta(minutes=1)))


@pytest.fixture(scope="module")
def result():
    run = small_task().protocol.run(np.array([1, 0, 1, 1]), DeterministicRandom(3))
    return result_json(run)


def test_the_task_and_its_guarantee():
    task = small_task()
    page = read(status())
    assert task.name in page.text
    assert page.tags["h1"] == page.tags["title"] == page.tags["main"] == 1
    assert "integers from 0 to 1 " in page.text
    assert "step" not in page.text
    assert "at least 3, or nothing is released" in page.text
    assert f"{task.opens:%Y-%m-%d %H:%M:%S} UTC" in page.text
    assert f"{task.closes:%Y-%m-%d %H:%M:%S} UTC" in page.text
    for one in (str(task.protocol.guarantee), *task.protocol.guarantee.conditions):
        assert one in page.text
    assert page.text.count("HPKE") == 1
    assert "on one machine alone" in page.text
    assert page.tags["h2"] == 3


def test_collecting():
    page = read(status())
    assert "Collecting reports." in page.text
    assert "Time left: 1 day" in page.text
    assert "How many are complete is known when a release begins." in page.text
    assert page.text.count("collecting") == 2 + small_task().columns  # the title's and analyzer's
    assert page.metas["refresh"] == "10"


def test_before_it_opens():
    opens = small_task().opens
    page = read(status(), at=opens - timedelta(hours=2, minutes=5, seconds=7))
    assert "Not open yet." in page.text
    assert "Opens in 2 hours 5 minutes, at" in page.text
    assert page.text.count("not open yet") == 2 + small_task().columns  # the title, and all rows
    assert "collecting" not in page.text
    early = read(status(), at=opens - timedelta(days=400, hours=3, minutes=4))
    assert "Opens in 400 days 3 hours, at" in early.text
    assert "Time left" not in page.text
    assert page.metas["refresh"] == "10"


@pytest.mark.parametrize(
    ("left", "words"),
    [
        (timedelta(days=1, hours=0, minutes=59), "1 day 0 hours"),
        (timedelta(hours=23, minutes=59, seconds=59), "23 hours 59 minutes"),
        (timedelta(hours=1, minutes=1, seconds=1), "1 hour 1 minute"),
        (timedelta(seconds=61), "1 minute 1 second"),
        (timedelta(seconds=9.9), "9 seconds"),
        (timedelta(seconds=0.5), "less than a second"),
        (timedelta(seconds=-1), "less than a second"),  # its clock and the state are read apart
    ],
)
def test_times(left, words):
    page = read(status(), at=small_task().closes - left)
    assert f"Time left: {words}, until " in page.text


def test_closed():
    page = read(status("closed"), all_tell("closed"))
    assert "Closed: no more reports are accepted, and nothing is released yet." in page.text
    assert "Time left" not in page.text
    assert page.metas["refresh"] == "10"


def test_a_release_that_runs():
    page = read(
        status("agreed", complete=4, running=True, step="receiving the batch of shuffler 3"),
        all_tell("agreed"),
    )
    assert "Under way: receiving the batch of shuffler 3." in page.text
    assert "4 reports are complete." in page.text
    assert "batch agreed" in page.text
    assert page.text.count("agreed") == 2 + small_task().columns  # the title, and a caption
    assert page.metas["refresh"] == "2"


def test_a_release_that_was_interrupted():
    page = read(status("agreed", complete=4, message="shuffler 2 does not answer", again=8))
    assert "What hinders: shuffler 2 does not answer." in page.text
    assert "It is tried again in 8 seconds." in page.text
    assert page.metas["refresh"] == "10"


def test_a_release_that_stopped():
    page = read(status("stopped", complete=2, message="2 reports are complete"), all_tell("closed"))
    assert "Stopped for good: nothing will ever be released." in page.text
    assert "Why: 2 reports are complete." in page.text
    assert "tried again" not in page.text
    assert "refresh" not in page.metas
    page = read(
        status("stopped", message="2 reports are complete; shuffler 3 does not answer", again=0),
        all_tell("deleted"),
    )
    assert "It is tried again in less than a second." in page.text
    assert page.text.count("deleted, nothing was sent") == small_task().columns
    assert page.metas["refresh"] == "10"


def test_released(result):
    page = read(status("released", complete=4, result=result), all_tell("sent"))
    assert "Released." in page.text
    assert result["standard_error"] < 10  # so that a sum of numbers would have a decimal
    assert f"Result {result['estimate']:.0f} Estimate of the sum" in " ".join(page.text.split())
    assert str(Interval(result["sum_low"], result["sum_high"])) in page.text
    assert "Estimate of the sum of 4 values from 0 to 1." in page.text
    assert "95 % interval of the sum" in page.text
    assert "batch sent and deleted" in page.text
    for one in (result["theorem"], *result["conditions"]):
        assert one in page.text
    assert page.text.count("HPKE") == 1
    assert f"({result['epsilon']:.6g}, {result['delta']:.3g})-differential privacy" in page.text
    assert page.tags["h2"] == 4
    assert "refresh" not in page.metas


def test_a_result_without_an_interval(result):
    page = read(status("released", result={**result, "sum_low": None, "sum_high": None}))
    assert "none at this probability" in page.text


@pytest.mark.parametrize(
    ("estimate", "error", "shown"),
    [
        (7024.0, 10.148, "7,024"),
        (-3.25, 0.0123, "-3.250"),
        (1234567.891, 0.5, "1,234,567.89"),
        (1e60, 1e50, "1e+60"),
        (12.5, 0.0, "12.5"),
    ],
)
def test_digits_of_an_estimate(result, estimate, error, shown):
    found = {**result, "estimate": estimate, "standard_error": error}
    page = task_page(small_task(), status("released", result=found), all_tell("sent"))
    assert f'<p class="estimate">{shown}</p>' in page


def test_a_shuffler_that_does_not_answer():
    columns = all_tell()
    columns[1] = None
    assert read(status(), columns).text.count("does not answer") == 1
    page = read(status(), [])  # nobody was asked yet
    assert page.text.count("does not answer") == small_task().columns


@pytest.mark.parametrize(
    "answer",
    [
        HOSTILE,
        5,
        True,
        [],
        [HOSTILE],
        {},
        {HOSTILE: HOSTILE},
        told(1, reports=HOSTILE),
        told(1, reports=True),
        told(1, reports=3.5),
        told(1, reports=float("nan")),
        told(1, reports=-1),
        told(1, reports=7),
        told(1, reports=10**4000),
        told(1, reports=None),
        told(1, reports=[]),
        told(1, HOSTILE),
        told(1, None),
        told(1, ["collecting"]),
        told(1, {}),
        told(1, "stopped"),
        told(2),
        told(True),
        told(1, task=HOSTILE),
        told(1, task=[]),
    ],
    ids=lambda answer: type(answer).__name__,  # names of tasks differ from process to process
)
def test_a_shuffler_that_answers_something_else(answer):
    columns = all_tell()
    columns[0] = answer
    page = read(status(), columns)
    assert page.text.count("answers something else") == 1
    assert "alert" not in page.text


def test_what_else_a_shuffler_tells_is_not_shown():
    columns = all_tell()
    columns[0] |= {"more": HOSTILE, "opens": HOSTILE}
    page = read(status(), columns)
    assert "alert" not in page.text
    assert "something else" not in page.text


@pytest.mark.parametrize("where", ["message", "step"])
@pytest.mark.parametrize("state", ["closed", "agreed", "stopped"])
def test_words_of_others_are_escaped(state, where):
    page = read(status(state, **{where: HOSTILE, "running": where == "step"}))
    assert HOSTILE in page.text  # as text: the reader refuses what it would be as a part of it
    source = task_page(small_task(), status(state, **{where: HOSTILE}), all_tell())
    assert "<script" not in source
    assert "<img" not in source


def test_a_result_is_escaped(result):
    found = {**result, "theorem": HOSTILE, "conditions": [HOSTILE, 3], "text": HOSTILE}
    page = read(status("released", result=found))
    assert page.text.count("alert") == 2


def test_nothing_is_loaded():
    page = task_page(small_task(), status(), all_tell())
    policy = Reader(page).metas["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy
    assert "url(" not in page
    assert "@import" not in page
    assert "prefers-color-scheme: dark" in page
    assert Reader(page).metas["viewport"].startswith("width=device-width")


def test_the_policy_allows_the_style():
    import base64
    import hashlib

    page = task_page(small_task(), status(), all_tell())
    style = page.partition("<style>")[2].partition("</style>")[0]
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert f"'sha256-{digest}'" in page


def test_the_page_of_all_tasks():
    first, later = small_task(), small_task(40, 20, 4, closes=small_task().closes + timedelta(1))
    page = Reader(tasks_page([(later, "released", 1234), (first, "collecting", 5)]))
    assert page.text.index(first.name) < page.text.index(later.name)
    for task, reports in ((first, "5 of 6"), (later, "1,234 of 40")):
        row = page.text[page.text.index(task.name) :]
        words = f"integers from 0 to 1 {task.closes:%Y-%m-%d %H:%M:%S} UTC {reports}".replace(
            " ", ""
        )
        assert words in row.replace(" ", "")
    assert "collecting reports" in page.text
    assert page.tags["a"] == 2
    assert page.metas["refresh"] == "10"
    ended = tasks_page([(first, "released", 5), (later, "stopped", 5)])
    assert "refresh" not in Reader(ended).metas
    assert "There is no task here." in Reader(tasks_page([])).text


def test_the_page_of_all_tasks_before_one_opens():
    task = small_task()
    for state, early in (("collecting", True), ("closed", False)):
        at = task.opens - timedelta(seconds=1)
        page = Reader(tasks_page([(task, state, 0)], at=at))
        assert (f"not open until {task.opens:%Y-%m-%d %H:%M:%S} UTC" in page.text) is early
    assert "not open" not in Reader(tasks_page([(task, "collecting", 0)], at=task.opens)).text


def test_the_page_of_all_tasks_is_escaped():
    assert Reader(tasks_page([(small_task(), HOSTILE, 0)])).text.count(HOSTILE) == 1
