"""The programs that check Lemmas C.4 and C.5: what they print, and what they make of a mistake."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from analysis import enumeration, lemma_c4, lemma_c5
from ikos.graphs import Slack, Sweep, component_bound, exact_component_law


def run(program, *arguments, status=0):
    result = CliRunner().invoke(program.command, arguments)
    assert result.exit_code == status, result.output
    return result.stdout


@pytest.mark.slow
def test_lemma_c4_on_the_whole_default_grid():
    sizes = list(lemma_c4.default_grid())
    assert len(sizes) == len(set(sizes)) > 50
    for shuffler in ("parallel", "single"):
        assert {q for *_, q, which in sizes if which == shuffler} == {2, 3, 4, 6}
    found = json.loads(run(lemma_c4, "--json"))
    assert found["holds"] is True
    assert [check["equal"] for check in found["checks"]] == [True] * len(sizes)


def test_a_failure_is_told_and_is_the_exit_status(monkeypatch):
    true = enumeration._mean_power
    monkeypatch.setattr(enumeration, "_mean_power", lambda law, q, slots: true(law, q, slots - 1))
    arguments = ("--users", "2", "--messages", "2", "--modulus", "3", "--shuffler", "parallel")
    assert "The identity fails in 1 of 1 cases." in run(lemma_c4, *arguments, status=1)
    assert json.loads(run(lemma_c4, *arguments, "--json", status=1))["holds"] is False


def test_lemma_c5_is_compared_with_the_law():
    """The factors, against rationals."""
    result = run(lemma_c5, "--users", "19:22", "--messages", "3", "--json")
    (smallest,) = json.loads(result)["smallest"]
    factors = {
        (n, c): component_bound(n, 3, c) / float(chance)
        for n in range(19, 23)
        for c, chance in enumerate(exact_component_law(n, 3), 1)
        if c > 1
    }
    n, c = min(factors, key=factors.__getitem__)
    assert (smallest["users"], smallest["components"]) == (n, c)
    assert smallest["factor"] == pytest.approx(factors[n, c], rel=1e-12)


@pytest.mark.parametrize("many", [1, 100])
def test_a_violation_is_told_and_is_the_exit_status(monkeypatch, many):
    bad = tuple(Slack(20, 3, c, 0.5) for c in range(2, 2 + many))
    wrong = Sweep("lemma_c5", "parallel", True, (19, 20), (3, 3), 50, bad, bad[:1])
    monkeypatch.setattr(lemma_c5, "sweep", lambda *_, **__: wrong)
    times = "at least 100" if many == 100 else many
    assert f"NOT PROVED, {times} times" in run(lemma_c5, status=1)
    assert json.loads(run(lemma_c5, "--json", status=1))["holds"] is False
