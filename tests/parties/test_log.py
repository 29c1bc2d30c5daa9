"""What a server logs: a line for each event, and none again and again for what strangers do."""

from __future__ import annotations

import io
import logging
import sys

import pytest

pytest.importorskip("uvicorn")

from ikos.parties import serve


@pytest.fixture(name="logged")
def fixture_logged(monkeypatch):
    """Return a function that gives the lines; the loggers are as before, after the test."""
    names = ("ikos.parties", "uvicorn", "asyncio")
    before = [
        (logger, logger.handlers[:], logger.level, logger.propagate)
        for logger in map(logging.getLogger, names)
    ]
    text = io.StringIO()
    monkeypatch.setattr(sys, "stderr", text)
    monkeypatch.delenv("JOURNAL_STREAM", raising=False)
    serve.log_lines()
    yield lambda: text.getvalue().splitlines()
    for logger, handlers, level, propagate in before:
        logger.handlers[:], logger.propagate = handlers, propagate
        logger.setLevel(level)


def test_others_are_heard_once_a_while(logged, monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(serve.time, "monotonic", lambda: now[0])
    for step in range(1000):
        now[0] += 0.01
        logging.getLogger("asyncio").error(
            "socket.accept() out of system resource\nsocket: <%s>", step
        )
        logging.getLogger("uvicorn.error").warning("Invalid HTTP request received.")
    assert len(logged()) == 2
    now[0] += serve.SELDOM_SECONDS
    logging.getLogger("uvicorn.error").warning("Invalid HTTP request received.")
    assert len(logged()) == 3


def test_one_s_own_words_are_all_heard(logged):
    for _ in range(3):
        logging.getLogger("ikos.parties").info("batch released")
    assert logged() == ["INFO ikos.parties batch released"] * 3


def test_no_traceback(logged):
    try:
        raise ValueError("what a request held")
    except ValueError:
        logging.getLogger("asyncio").exception("Exception in callback\nhandle: <Handle>")
    (line,) = logged()
    assert line == "ERROR asyncio Exception in callback handle: <Handle>"


def test_many_kinds_of_words_are_not_all_remembered(logged):
    for step in range(5000):
        logging.getLogger("asyncio").error("kind %s of words" % step)  # noqa: UP031
    assert len(logged()) == 5000
    handler = logging.getLogger("asyncio").handlers[0]
    assert len(handler.filters[0]._passed) <= 1001
