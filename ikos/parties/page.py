"""The status page for operators: plain HTML, made anew for each look, without scripts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from ikos.parties.task import Task

__all__ = ["task_page", "tasks_page"]


def tasks_page(states: Mapping[str, str]) -> str:
    """Return the page of all tasks: their names and states."""
    rows = "".join(
        f'<li><a href="/tasks/{escape(name)}/page">{escape(name)}</a>: {escape(state)}</li>'
        for name, state in states.items()
    )
    return f"<!doctype html><title>Tasks</title><ul>{rows}</ul>"


def task_page(
    task: Task, status: Mapping[str, Any], columns: Sequence[Mapping[str, Any] | None]
) -> str:
    """Return the page of one task.

    Parameters
    ----------
    task : Task
        The task.
    status : mapping
        What the analyzer tells of it (`ikos.parties.analyzer_service.Office.status`).
    columns : sequence of mapping or None
        What each shuffler tells; None for one that does not answer.
    """
    reports = "".join(
        f"<li>shuffler {party}: {escape(str(told and told['reports']))}</li>"
        for party, told in enumerate(columns, 1)
    )
    return (
        f"<!doctype html><title>{escape(task.name)}</title>"
        f"<p>{escape(str(status['state']))}</p><ul>{reports}</ul>"
    )
