"""The programs of AFNNTZ24's single message and attacks, and their figures."""

from __future__ import annotations

import importlib
import math

import pytest
from pages import page, rows

pytest.importorskip("matplotlib")


def program(name):
    return importlib.import_module(f"analysis.{name}")


# What the documentation shows


@pytest.mark.slow
def test_the_documentations_poisoning_is_the_programs():
    module = program("afnntz24_attacks")
    tables = rows(page("vector-protocols.md"))
    shown = next(body for head, body in tables.items() if "ten users" in head)
    made = []
    for case in module._attacked(512, 1):
        if not case.name.startswith("Kashin"):
            continue
        for s in (1, 16, 256, 1024):
            found = module.poisoned(case, s, 1)
            made.append((found.attacked, found.limit))
    cells = [tuple(f"{x:,.0f}" if x > 10 else f"{x:.1f}" for x in pair) for pair in made]
    assert shown == [(f"{s:,}", *cells[i], *cells[i + 4]) for i, s in enumerate((1, 16, 256, 1024))]


@pytest.mark.slow
def test_one_dishonest_user_is_limited_by_one_message_alone():
    module = program("afnntz24_attacks")
    grid, kashin = module.dishonest(1)
    assert grid[2] == pytest.approx(grid[3])
    assert math.isinf(kashin[3])
    assert kashin[2] > 100 * grid[2]
