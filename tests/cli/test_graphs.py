"""``ikos graphs``: what it prints is the check, whoever samples and whatever interrupts it."""

from __future__ import annotations

import dataclasses
import json
import re
import sys

import pytest
from gmpy2 import mpfr

from ikos import graphs
from ikos.cli import main, output
from ikos.numeric.rounding import float_down, float_up
from ikos.testing import DeterministicRandom

SMALL = ("graphs", "--users", "20", "--messages", "3", "--trials", "2000", "--seed", "1")
LONG = ("graphs", "--users", "200", "--messages", "3", "--trials", "10^6", "--planted", "10")


def check(n=20, m=3, trials=2000, **options):
    return graphs.check_components(n, m, trials, rng=DeterministicRandom(1), **options)


@pytest.fixture
def fails(monkeypatch, capsys):
    """Run a command line that prints a result and fails all the same."""
    monkeypatch.setattr(output, "SECONDS_PER_LINE", 10_000)  # no progress, on slow machines too

    def fails(*arguments):
        monkeypatch.setattr(sys, "argv", ["ikos", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            main()
        captured = capsys.readouterr()
        assert captured.err.count("\n") == 1
        return end.value.code, captured.out, captured.err

    return fails


@pytest.mark.points(0)
@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        (("--modulus", "2^16", "--confidence", "0.9"), {"q": 2**16, "confidence": 0.9}),
        (("--shuffler", "single", "--no-clear-share", "--largest", "3", "--planted", "50"),
         {"shuffler": "single", "clear_share": False, "largest": 3, "planted": 50}),
        (("--backend", "networkx", "--planted", "0"), {"backend": "networkx", "planted": 0}),
    ],
)  # fmt: skip
def test_numbers_are_the_checks(run, arguments, options):
    result = run(*SMALL, *arguments, "--json").json
    found = check(**options)
    assert result["modulus"] == (str(options["q"]) if "q" in options else None)
    assert (result["trials"], result["sampled"], result["seed"]) == (2000, 2000, 1)
    assert (result["holds"], result["bounded"], result["agrees"]) == (
        found.holds, found.bounded, found.agrees,
    )  # fmt: skip
    assert (result["fit"], result["importance_fit"]) == (found.fit, found.planted_fit)
    assert (result["excess"], result["excess_bound"]) == tuple(
        value and float_up(value.high) for value in (found.excess, found.excess_bound)
    )
    assert result["tally"] == [list(pair) for pair in found.tally.counts.items()]
    assert [one["estimate"] for one in result["importance"]] == [
        tally.estimate for tally in found.planted
    ]
    assert (result["alone"], result["unseen"]) == (
        found.tally.alone, found.unseen if found.unseen <= found.n else None,
    )  # fmt: skip
    assert result["notes"][: len(found.verdict)] == list(found.verdict)
    for row, known in zip(result["rows"], found.rows, strict=True):
        assert (row["c"], row["seen"], row["low"], row["high"]) == (
            known.c, known.seen, *known.sampled,
        )  # fmt: skip
        assert row["exact_low"] == float_down(known.exact.low)
        assert row["exact_high"] == float_up(known.exact.high)
        for key, bound in (("lemma_c5", known.lemma), ("bound", known.bound)):
            assert row[key] == (None if bound is None else float_up(bound))
        rare = known.planted
        assert row["importance_low"] == (None if rare is None else float_down(rare.low))


def test_the_table_is_rounded_outwards(run):
    rows = {row["c"]: row for row in run(*SMALL, "--json").json["rows"]}
    lines = [line.split() for line in run(*SMALL).out.splitlines()]
    table = [words for words in lines if words and words[0].isdigit()][:6]
    for c, exact, lemma, bound, slack, seen, low, high, *rare in table:
        row = rows[int(c)]
        assert float(exact) >= row["exact_high"]
        assert (float(lemma), float(bound)) >= (row["lemma_c5"], row["bound"])
        assert float(slack) <= row["slack"]
        assert int(seen.replace(",", "")) == row["seen"]
        assert float(low) <= row["low"] <= row["high"] <= float(high)
        if rare:
            assert float(rare[0]) <= row["importance_low"] <= row["importance_high"]
            assert float(rare[1]) >= row["importance_high"]


@pytest.mark.slow
def test_numbers_below_the_smallest_float(run):
    given = ("--users", "200", "--messages", "60", "--trials", "1", "--planted", "0", "--json")
    row = run("graphs", *given).json["rows"][-1]
    assert row["exact_log10"] < -308
    assert row["bound_log10"] >= row["exact_log10"]
    assert row["exact_low"] == 0 < row["exact_high"] < 1e-307
    # P[C = 2] = 6.9e-585, which agrees with a bound in all digits
    given = ("graphs", "--users", "20", "--messages", "450", "--trials", "10", "--modulus", "16")
    found = run(*given).out
    assert found.count("< 5e-324") == 20
    assert "4.94e-324" not in found
    assert "UNDECIDED" in found
    assert "E[q^C]/q - 1 is at most 1.04e-583 (by Lemma C.5: 1.1e-388)" in found


def test_without_a_seed_graphs_differ(run):
    given = (*SMALL[:-2], "--json")
    one, other = run(*given).json, run(*given).json
    assert one["seed"] is None
    assert one["tally"] != other["tally"] or one["importance"] != other["importance"]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda found: dataclasses.replace(found, rows=(
            dataclasses.replace(found.rows[0], slack=0.5, bound=mpfr(0)), *found.rows[1:])),
         "a bound"),
        (lambda found: dataclasses.replace(found, fit=1e-30), "the samples contradict"),
    ],
    ids=["bound", "samples"],
)  # fmt: skip
def test_a_failed_check_is_an_exit_status(fails, monkeypatch, wrong, said):
    real = graphs.check_components
    monkeypatch.setattr(
        graphs, "check_components", lambda *given, **options: wrong(real(*given, **options))
    )
    status, out, err = fails(*SMALL, "--json")
    assert (status, json.loads(out)["holds"]) == (1, False)
    assert err.startswith(f"ikos graphs: error: the check failed: {said}")


# Interruption


@pytest.mark.slow
def test_interrupted_while_sampling(fails, monkeypatch, tmp_path):
    """What was found until then is printed, and nothing plotted."""
    pytest.importorskip("matplotlib")
    from ikos.graphs import sampling

    real, left = sampling._tallied, [True]

    def stop_second(*arguments):
        if not left:
            raise KeyboardInterrupt
        left.pop()
        return real(*arguments)

    monkeypatch.setattr(sampling, "_tallied", stop_second)
    path = tmp_path / "x.png"
    status, out, err = fails(*LONG, "--json", "--plot", path)
    result = json.loads(out)
    assert (status, result["interrupted"], result["plot"]) == (130, True, None)
    assert 0 < result["sampled"] < result["trials"] == 10**6
    assert re.fullmatch(r"ikos graphs: error: interrupted after [\d,]+ of 1,000,000 graphs\n", err)
    assert not path.exists()


@pytest.mark.slow
def test_a_scheduler_gives_what_this_process_gives(run):
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=False, protocol="tcp://", memory_limit=0,
        dashboard_address="127.0.0.1:0", silence_logs=50,
    ) as local:  # fmt: skip
        there = run(*SMALL, "--json", "--scheduler", local.scheduler_address).json
    assert there == run(*SMALL, "--json").json


@pytest.mark.slow
def test_plot(run, tmp_path):
    pytest.importorskip("matplotlib")
    path = tmp_path / "x.svg"
    graph = tmp_path / "graph.svg"
    run(*SMALL, "--plot", path, "--draw", graph)
    assert path.read_text() != graph.read_text()
    for drawn in (path, graph):
        assert drawn.read_text().startswith("<?xml")


def test_what_is_too_large_to_draw_is_refused_before_it_is_checked(refused, tmp_path):
    pytest.importorskip("matplotlib")
    path = tmp_path / "x.svg"
    for users, messages in ((101, 1), (100, 11)):
        given = ("--users", users, "--messages", messages, "--trials", 10**9, "--draw", path)
        said = refused("graphs", *map(str, given))
        assert "--draw takes at most 100 users and 1,000 edges" in said
        assert not path.exists()
