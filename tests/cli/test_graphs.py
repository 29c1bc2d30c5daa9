"""``ikos graphs``: what it prints is the check, whoever samples and whatever interrupts it."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from command_lines import once
from gmpy2 import mpfr

from ikos import graphs
from ikos.cli import graphs as program
from ikos.cli import graphs_report, main
from ikos.counts.rounding import float_down, float_up
from ikos.graphs.components import BACKENDS
from ikos.testing import DeterministicRandom

PROGRAM = [sys.executable, "-m", "ikos", "graphs"]

POSIX = pytest.mark.skipif(os.name != "posix", reason="signals and permissions of POSIX")


def up(value):
    return None if value is None else float_up(value)


SMALL = ("--users", "20", "--messages", "3", "--trials", "2000", "--seed", "1")
NO_BOUND = ("--users", "20", "--messages", "1", "--trials", "100")
BEYOND = ("--users", "3000", "--messages", "3", "--trials", "20", "--planted", "5")

TOP = {
    "command", "version", "users", "messages", "shuffler", "clear_share", "modulus", "confidence",
    "backend", "seed", "trials", "sampled", "interrupted", "holds", "bounded", "agrees",
    "contradicted", "fit", "importance_fit", "verdict", "rows", "tally", "alone", "unseen",
    "importance", "excess", "excess_bound", "plot",
}  # fmt: skip
ROW = {
    "c", "exact", "lemma_c5", "bound", "log10", "slack", "seen", "interval", "importance",
}  # fmt: skip
IMPORTANCE = {"at_least", "trials", "estimate", "interval"}


def check(n=20, m=3, trials=2000, **options):
    return graphs.check_components(n, m, trials, rng=DeterministicRandom(1), **options)


@pytest.fixture
def fails(monkeypatch, capsys):
    """Run a command line that prints a result and fails all the same."""

    def fails(*arguments):
        monkeypatch.setattr(sys, "argv", ["ikos", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            main()
        captured = capsys.readouterr()
        assert captured.err.count("\n") == 1
        return end.value.code, captured.out, captured.err

    return fails


# What is printed


@pytest.mark.parametrize(
    "options", [SMALL, (*SMALL, "--modulus", "2^16"), NO_BOUND, BEYOND, (*SMALL, "--planted", "0")]
)
def test_json_has_every_documented_key(run, options):
    result = run("graphs", *options, "--json").json
    assert set(result) == TOP
    assert all(set(row) == ROW for row in result["rows"])
    assert all(set(found) == IMPORTANCE for found in result["importance"])
    assert set(re.findall(r"``(\w+)``", graphs_report.__doc__ or "")) >= TOP | ROW | IMPORTANCE


@pytest.mark.parametrize("q", [None, 2**4, 2**40])
@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        ((), {}),
        (("--shuffler", "single", "--no-clear-share"), {"shuffler": "single", "clear_share": 0}),
        (("--largest", "9", "--planted", "40"), {"largest": 9, "planted": 40}),
        (("--confidence", "0.999"), {"confidence": 0.999}),
        pytest.param(("--backend", "networkx"), {"backend": "networkx"}, marks=pytest.mark.slow),
    ],
)
def test_numbers_are_the_checks(run, arguments, options, q):
    modulus = () if q is None else ("--modulus", q)
    result = run("graphs", *SMALL, *arguments, *modulus, "--json").json
    found = check(q=q, **{k: bool(v) if k == "clear_share" else v for k, v in options.items()})
    assert (result["users"], result["messages"], result["trials"]) == (20, 3, 2000)
    assert result["sampled"] == 2000
    assert result["modulus"] == (None if q is None else str(q))
    assert result["seed"] == "1"
    assert result["backend"] == options.get("backend", "scipy")
    assert result["verdict"] == list(found.verdict)
    assert (result["holds"], result["bounded"], result["agrees"]) == (True, True, True)
    assert (result["fit"], result["importance_fit"]) == (found.fit, found.planted_fit)
    assert (result["alone"], result["unseen"]) == (found.tally.alone, found.unseen)
    assert result["contradicted"] == list(found.contradicted)
    assert (result["interrupted"], result["plot"]) == (False, None)
    assert (result["excess"], result["excess_bound"]) == (found.excess, found.excess_bound)
    assert dict(result["tally"]) == found.tally.counts
    assert len(result["rows"]) == len(found.rows)
    for row, said in zip(found.rows, result["rows"], strict=True):
        assert said["c"] == row.c
        assert said["exact"]["low"] <= row.exact.low <= row.exact.high
        assert said["exact"]["high"] >= min(1, row.exact.high)
        assert (said["lemma_c5"], said["bound"]) == (up(row.lemma), up(row.bound))
        assert (said["slack"], said["seen"]) == (row.slack, row.seen)
        assert said["interval"] == {"low": row.sampled.low, "high": row.sampled.high}
        if row.planted is None:
            assert said["importance"] is None
        else:
            assert said["importance"] == {
                "low": float_down(row.planted.low),
                "high": up(row.planted.high),
            }
        assert 10 ** said["log10"]["bound"] == pytest.approx(float(row.bound))
        assert 10 ** said["log10"]["exact"] == pytest.approx(float(row.exact))
    for tally, said in zip(found.planted, result["importance"], strict=True):
        assert (said["at_least"], said["trials"]) == (tally.parts, tally.trials)
        assert said["estimate"] == tally.estimate
        low, high = tally.interval(found.confidence)
        assert said["interval"] == {"low": low, "high": high}


def test_what_is_not_zero_or_empty_elsewhere(run, fails, monkeypatch):
    """Users alone, a fit that is below 1, nothing unseen, a contradiction."""
    options = ("--users", "5", "--messages", "1", "--trials", "1000", "--seed", "1", "--json")
    result = run("graphs", *options).json
    assert result["unseen"] is None
    assert result["alone"] > 0
    found = graphs.check_components(5, 1, 1000, rng=DeterministicRandom(1))
    assert found.fit < 1
    assert (result["fit"], result["alone"]) == (found.fit, found.tally.alone)
    monkeypatch.setattr(graphs.partition_bound, "upper_bound", lambda *_: mpfr(1e-30))
    status, out, err = fails("graphs", *BEYOND, "--json")
    assert status == 1
    assert err == "ikos graphs: error: the check failed: the samples contradict a bound\n"
    result = json.loads(out)
    assert (result["contradicted"], result["holds"]) == ([1], False)


def test_the_moment_is_rounded_up(run):
    for q in (16, 17, 1000):
        line = next(
            line
            for line in run("graphs", *SMALL, "--modulus", str(q)).out.splitlines()
            if line.startswith("E[q^C]/q - 1 is at most")
        )
        said = float(re.search(r"at most ([\d.e+-]+)", line)[1])
        excess = check(q=q).excess
        assert excess <= said <= 1.01 * excess


def test_confidence_is_never_said_to_be_complete(run):
    out = " ".join(run("graphs", *SMALL, "--confidence", "0.99999999").out.split())
    assert "100 %" not in out
    assert out.count("99.9999 %") == 3


def test_numbers_below_the_smallest_float(run):
    options = (
        "--users",
        "60",
        "--messages",
        "40",
        "--trials",
        "20",
        "--planted",
        "5",
        "--largest",
        "9",
    )
    result = run("graphs", *options, "--modulus", "2^4000", "--json").json
    last = result["rows"][-1]
    assert last["exact"]["low"] == 0
    exact, bound, lemma = (last["log10"][name] for name in ("exact", "bound", "lemma_c5"))
    assert -1000 < exact <= bound <= lemma < -308
    assert math.log10(last["slack"]) == pytest.approx(bound - exact, abs=1e-6)
    text = run("graphs", *options).out
    assert text.count(f"e-{math.ceil(-exact)} ") >= 2  # exact law, importance samples
    assert "e-324" not in text


def test_a_moment_that_no_float_holds(run):
    options = ("--users", "5", "--messages", "2", "--trials", "9", "--modulus", "2^3000")
    assert run("graphs", *options, "--json").json["excess"] is None
    flat = " ".join(run("graphs", *options).out.split())
    moment = graphs.component_moment(5, 2, 2**3000).excess
    (said,) = re.findall(r"E\[q\^C\]/q - 1 is at most (\S+) for q = 2\^3000\.", flat)
    assert moment <= mpfr(said) <= 1.01 * moment
    beyond = (*BEYOND, "--modulus", "2^9000")
    flat = " ".join(run("graphs", *beyond).out.split())
    assert "E[q^C]/q - 1 is not known to be below 1.7e308 for q = 2^9000" in flat


@pytest.mark.parametrize(
    "options",
    [
        SMALL,
        (*SMALL, "--modulus", "2^16"),
        (*SMALL, "--largest", "20", "--confidence", "0.999999"),
        NO_BOUND,
        (*NO_BOUND, "--no-clear-share"),
        BEYOND,
        ("--users", "3000", "--messages", "1", "--trials", "2"),
        ("--users", "1", "--messages", "1", "--trials", "1"),
        ("--users", "90", "--messages", "5", "--trials", "9", "--planted", "3", "--largest", "64"),
    ],
)
def test_words(run, options):
    text = run("graphs", *options).out
    assert max(map(len, text.splitlines())) <= 80
    assert text.startswith("The number of components C of ")
    flat = " ".join(text.split())
    for word in ("nan", "inf", "None", "mpfr", "  \n"):
        assert word not in flat
    assert ("Lemma C.5" in text) == (options[1] != "1" and options[3] != "1")
    assert ("our bound" in text) == (options[3] != "1")
    assert ("by importance sampling" in text) == (options[3] != "1")


def test_the_table(run):
    found = check()
    text = run("graphs", *SMALL).out
    bounds, samples = text.split("What samples say of P[C = c]\n")
    for row in found.rows:
        (line,) = re.findall(rf"^  {row.c}  .*$", bounds, re.MULTILINE)
        _, exact, lemma, bound, slack = line.split()
        assert float(exact) == pytest.approx(float(row.exact), rel=0.005)
        assert row.lemma <= float(lemma) <= 1.01 * row.lemma
        assert row.bound * (1 - 1e-9) <= float(bound) <= 1.01 * row.bound
        assert float(slack) <= row.slack <= 1.01 * float(slack)
        (line,) = re.findall(rf"^  {row.c}  .*$", samples, re.MULTILINE)
        assert line.split()[1] == f"{row.seen:,}"


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [
        (0.0, 1.0, "0 to 1"),
        (0.0, 3.689e-5, "below 3.7e-05"),
        (0.0, 0.0036, "below 0.0036"),
        (6.18e-6, 8.767e-5, "6.1e-06 to 8.8e-05"),
        (9.9856e-5, 1.000411e-4, "9.985e-05 to 1.0005e-04"),
        (0.99631, 1.0, "0.9963 to 1"),
        (0.9999123, 0.9999939, "0.999912 to 0.999994"),
        (0.25, 0.25, "0.25000 to 0.25000"),
        (mpfr("1.234e-4000"), mpfr("5.678e-4000"), "1.2e-4000 to 5.7e-4000"),
    ],
)
def test_intervals_are_rounded_outwards(low, high, text):
    assert graphs_report._interval(low, high) == text


def test_models(run):
    parallel = run("graphs", *SMALL).out
    assert "3 messages of each through parallel shufflers, and one in the clear" in " ".join(
        parallel.split()
    )
    single = run("graphs", *SMALL, "--shuffler", "single", "--no-clear-share").out
    assert "through a single shuffler, and none in the clear" in " ".join(single.split())


def test_the_lemma_has_a_largest_modulus(run):
    options = ("--users", "100", "--messages", "4", "--trials", "99", "--planted", "0", "--modulus")
    small, large = (run("graphs", *options, q).out for q in ("2^8", "2^80"))
    assert "for q = 256; Lemma C.5 bounds it by 0.00515." in small
    assert "Lemma C.5 says nothing of so large a q." in " ".join(large.split())


def test_the_choices_are_the_librarys():
    assert set(BACKENDS) == {"scipy", "networkx"}
    assert program.MOST_ROWS == graphs.check.MAX_ROWS
    assert program.MOST_TRIALS == graphs.sampling.MAX_TRIALS


@pytest.mark.slow
def test_examples_run(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = run("graphs", "--help").out.partition("Examples\n")[2].partition("Exit status")[0]
    lines = text.replace("\\\n", " ").strip().splitlines()
    assert len(lines) == 3, lines
    assert all(line.isprintable() for line in lines)
    for line in lines:
        run(*shlex.split(line)[1:])


def test_progress(run, monkeypatch):
    seen = []

    @contextlib.contextmanager
    def shown(label):
        yield lambda *step: seen.append((label, *step))

    monkeypatch.setattr(program, "progress", shown)
    run("graphs", *SMALL)
    (whole,) = {whole for _, _, whole in seen}
    assert seen == sorted(seen)
    assert seen[-1] == ("checking bounds", whole, whole)


def test_without_a_seed_graphs_differ(run):
    options = ("--users", "30", "--messages", "1", "--trials", "2000", "--json")
    first, second = (run("graphs", *options).json["tally"] for _ in range(2))
    assert first != second


# Failure


def test_a_violated_bound_is_an_exit_status(fails, monkeypatch):
    real = graphs.check_components

    def wrong(*arguments, **options):
        found = real(*arguments, **options)
        rows = (*found.rows[:1], dataclasses.replace(found.rows[1], slack=0.5), *found.rows[2:])
        return dataclasses.replace(found, rows=rows)

    monkeypatch.setattr(graphs, "check_components", wrong)
    status, out, err = fails("graphs", *SMALL)
    assert status == 1
    assert "VIOLATED: the exact law is above a bound, at c = 2." in out
    assert err == "ikos graphs: error: the check failed: the exact law is above a bound\n"
    status, out, _ = fails("graphs", *SMALL, "--json")
    assert (status, json.loads(out)["holds"]) == (1, False)


def test_samples_that_contradict_the_law_are_an_exit_status(fails, monkeypatch):
    real = graphs.check_components
    monkeypatch.setattr(
        graphs,
        "check_components",
        lambda *arguments, **options: dataclasses.replace(real(*arguments, **options), fit=1e-30),
    )
    status, out, err = fails("graphs", *SMALL)
    assert status == 1
    assert "CONTRADICTED" in out
    assert "the samples contradict the exact law" in err


# Interruption


LAW = 12  # reports of progress before those of samples: six rows, and six c beyond them


def interrupting(monkeypatch, when):
    """Interrupt the sampling at the first report of its progress, or where it says."""

    @contextlib.contextmanager
    def shown(label):
        calls = []

        def update(done, whole):
            calls.append(done)
            if when == "the law" or (when == "sampling" and len(calls) > LAW):
                raise KeyboardInterrupt

        yield update

    monkeypatch.setattr(program, "progress", shown)
    if when == "a batch":
        from ikos.graphs import sampling

        def stop_batch(*arguments):
            raise KeyboardInterrupt

        monkeypatch.setattr(sampling, "_tallied", stop_batch)
    if when == "planting":
        from ikos.graphs import check as module

        def stop(*arguments, **options):
            raise KeyboardInterrupt

        monkeypatch.setattr(module, "rare_components", stop)


LONG = ("--messages", "3", "--trials", "10^6", "--planted", "10")


def test_interrupted_while_sampling(fails, monkeypatch):
    interrupting(monkeypatch, "sampling")
    status, out, err = fails("graphs", "--users", "200", *LONG)
    assert status == 130
    (done,) = re.findall(r"^Interrupted after ([\d,]+) of 1,000,000 graphs\n", out)
    assert err == f"ikos graphs: error: interrupted after {done} of 1,000,000 graphs\n"
    assert f"The number of components C of {done} random share graphs" in out
    assert "Lemma C.5" in out


def test_interrupted_later(fails, monkeypatch):
    interrupting(monkeypatch, "planting")
    status, out, err = fails("graphs", *SMALL)
    assert status == 130
    said = "nterrupted after all 2,000 graphs, during importance sampling\n"
    assert out.startswith(f"I{said}")
    assert err == f"ikos graphs: error: i{said}"


def test_interrupted_json_and_no_plot(fails, monkeypatch, tmp_path):
    pytest.importorskip("matplotlib")
    interrupting(monkeypatch, "sampling")
    path = tmp_path / "x.png"
    status, out, _ = fails("graphs", "--users", "200", *LONG, "--json", "--plot", path)
    result = json.loads(out)
    assert (status, result["interrupted"], result["plot"]) == (130, True, None)
    assert 0 < result["sampled"] < result["trials"] == 10**6
    assert set(result) == TOP
    assert not path.exists()


@pytest.mark.parametrize("users", ["200", "3000"])
def test_interrupted_before_a_graph_was_sampled(fails, monkeypatch, users):
    """What is known of the law and its bounds is printed."""
    interrupting(monkeypatch, "a batch")
    status, out, err = fails("graphs", *LONG, "--users", users)
    said = "nterrupted after 0 of 1,000,000 graphs\n"
    assert (status, err) == (130, f"ikos graphs: error: i{said}")
    assert out.startswith(f"I{said}")
    assert ("exact P[C = c]" in out) == (users == "200")
    assert "our bound" in out
    assert "No graph was sampled." in out
    assert "What samples say" not in out
    assert "0 random share graphs" in out
    result = json.loads(fails("graphs", *LONG, "--users", users, "--json")[1])
    assert (result["interrupted"], result["sampled"], result["agrees"]) == (True, 0, None)
    assert set(result) == TOP


def test_interrupted_before_the_law_is_complete(run, monkeypatch):
    interrupting(monkeypatch, "the law")
    assert run("graphs", *SMALL, status=130).err == "ikos: error: interrupted\n"


def interrupted_program(*arguments, after):
    """Send Ctrl-C to a program and all its processes, as a terminal does."""
    process = subprocess.Popen(
        [*PROGRAM, *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        # a shell lets its background processes, such as these tests may be, ignore Ctrl-C
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    try:
        time.sleep(after)
        os.killpg(process.pid, signal.SIGINT)
        sent = time.monotonic()
        out, err = process.communicate(timeout=60)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    return process.returncode, out, err, time.monotonic() - sent


@POSIX
@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_program_is_interrupted(workers):
    """However long it takes to start here: until something was sampled."""
    endless = ("--users", "200", "--messages", "3", "--trials", "10^9", "--workers", str(workers))
    for after in (1.5 * workers, 5, 10, 30):
        status, out, err, took = interrupted_program(*endless, after=after)
        assert status == 130
        assert "Traceback" not in err
        assert err.count("\n") == 1
        assert took < 20
        if out:
            break
    (done,) = re.findall(r"^Interrupted after ([\d,]+) of 1,000,000,000 graphs\n", out)
    assert err == f"ikos graphs: error: interrupted after {done} of 1,000,000,000 graphs\n"
    assert f"The number of components C of {done} random share graphs" in out


@POSIX
@pytest.mark.slow
@pytest.mark.parametrize("after", [1.0, 1.2, 1.4, 1.7, 2.0, 2.5])
def test_a_pool_is_interrupted_at_any_time(after):
    """While processes start, while they import, while they sample."""
    endless = ("--users", "200", "--messages", "3", "--trials", "10^9", "--workers", "3")
    status, _, err, took = interrupted_program(*endless, after=after)
    assert "ikos" in err.partition("\n")[0]
    if "importlib" not in err:  # the program itself was still being imported
        assert status == 130
        assert err.count("\n") == 1
        assert "error: interrupted" in err
    assert took < 20


@pytest.mark.slow
@POSIX
@pytest.mark.parametrize(
    "number", [pytest.param(signal.SIGTERM, marks=pytest.mark.slow), signal.SIGKILL]
)
def test_workers_end_with_a_program_that_is_killed(number):
    """They hold its output open: its reader gets to the end as soon as the last is gone."""
    process = subprocess.Popen(
        [*PROGRAM, "--users", "200", "--messages", "3", "--trials", "10^9", "--workers", "2"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    try:
        time.sleep(4)
        process.send_signal(number)
        process.communicate(timeout=30)
        assert process.returncode == -number
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


# Processes


@pytest.mark.slow
def test_the_results_do_not_depend_on_the_workers(run):
    options = ("--users", "200", "--messages", "2", "--trials", "8000", "--seed", "7", "--json")
    alone, shared = (run("graphs", *options, "--workers", w).out for w in (1, 2))
    assert alone == shared


@pytest.mark.slow
def test_a_scheduler_gives_what_this_process_gives(run):
    cluster = pytest.importorskip("ikos.cluster")
    pytest.importorskip("distributed")
    options = (*SMALL, "--json")
    with cluster.Cluster(workers=1) as local:
        address = local.client.scheduler_info()["address"]
        there = run("graphs", *options, "--scheduler", address).out
    assert there == run("graphs", *options).out


def test_a_scheduler_that_is_not_there(refused):
    pytest.importorskip("distributed")
    said = refused("graphs", *SMALL, "--scheduler", "nowhere://x")
    assert said.startswith("--scheduler: no scheduler answers at 'nowhere://x': ")


def test_a_worker_that_ends(refused, monkeypatch):
    def end(*arguments, executor, **options):
        executor.submit(os._exit, 1).result()

    monkeypatch.setattr(graphs, "check_components", end)
    said = refused("graphs", *SMALL, "--workers", "2")
    assert said == "a worker process has ended; where memory is short, use fewer --workers"


# Plots


@pytest.mark.parametrize(
    "name", ["a.png", *(pytest.param(name, marks=pytest.mark.slow) for name in ("b.svg", "c.pdf"))]
)
def test_plot(run, tmp_path, name):
    pytest.importorskip("matplotlib")
    path = tmp_path / name
    assert f"Plotted in {path}\n" in run("graphs", *SMALL, "--plot", path).out
    first = path.read_bytes()
    assert run("graphs", *SMALL, "--plot", path, "--json").json["plot"] == str(path)
    assert path.read_bytes() == first
    assert list(tmp_path.iterdir()) == [path]


def never(*arguments, **options):
    raise AssertionError("the work must not start")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("x.gif", "does not end in .png, .svg, .pdf"),
        ("missing/x.png", "no such file or directory"),
        ("folder.png", "is a folder"),
    ],
)
def test_files_that_cannot_be_plotted_into(refused, tmp_path, monkeypatch, name, message):
    monkeypatch.setattr(graphs, "check_components", never)
    (tmp_path / "folder.png").mkdir()
    assert message in refused("graphs", *SMALL, "--plot", tmp_path / name)


@POSIX
def test_a_folder_that_cannot_be_written(refused, tmp_path, monkeypatch):
    monkeypatch.setattr(graphs, "check_components", never)
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != tmp_path.resolve())
    said = refused("graphs", *SMALL, "--plot", tmp_path / "x.png")
    assert said.endswith("cannot be written: permission denied")


def test_a_full_disk_is_said(refused, tmp_path, monkeypatch):
    figure = pytest.importorskip("matplotlib.figure")

    def full(self, file, **options):
        file.write(b"half of it")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(figure.Figure, "savefig", full)
    path = tmp_path / "x.png"
    assert "no space left on device" in refused("graphs", *SMALL, "--plot", path)
    assert not list(tmp_path.iterdir())


def test_without_matplotlib(refused, run, tmp_path, monkeypatch):
    monkeypatch.setattr(graphs, "check_components", never)
    for name in list(sys.modules):
        if name.partition(".")[0] == "matplotlib" or name == "ikos.plots.components":
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    said = refused("graphs", *SMALL, "--plot", tmp_path / "x.png")
    assert said == "--plot needs matplotlib: pip install 'ikos[plot]'"


# Mistakes


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "missing --users, --messages, --trials"),
        (SMALL[:2], "missing --messages, --trials"),
        (SMALL[:4], "missing option '--trials'"),
        ((*SMALL, "--users", "0"), "--users must be at least 1, got 0"),
        ((*SMALL, "--messages", "0"), "--messages must be at least 1, got 0"),
        ((*SMALL, "--trials", "0"), "--trials must be at least 1, got 0"),
        ((*SMALL, "--trials", "-1"), "--trials must be at least 1, got -1"),
        ((*SMALL, "--trials", "1.5"), "'1.5' is not a whole number"),
        ((*SMALL, "--trials", "1e20"), "--trials must be at most 1125899906842624, got 1e20"),
        ((*SMALL, "--users", "1e10"), "--users must be at most 1073741823, got 10000000000"),
        ((*SMALL, "--messages", "1e10"), "--messages must be at most 1073741823"),
        (
            (*SMALL, "--users", "1e6", "--messages", "2000"),
            "--users * --messages must be at most 1073741823, got 1000000 * 2000",
        ),
        ((*SMALL, "--largest", "0"), "--largest must be at least 1, got 0"),
        ((*SMALL, "--largest", "21"), "--largest must be at most 20, got 21"),
        ((*SMALL, "--largest", "65"), "--largest must be at most 64, got 65"),
        ((*SMALL, "--planted", "-1"), "--planted must be at least 0, got -1"),
        (
            (*NO_BOUND, "--planted", "10"),
            "--planted must be 0 where fewer than two messages hide, got 10",
        ),
        ((*SMALL, "--modulus", "1"), "--modulus must be at least 2, got 1"),
        ((*SMALL, "--confidence", "1"), "--confidence must be less than 1, got 1"),
        ((*SMALL, "--confidence", "0"), "--confidence must be greater than 0, got 0"),
        (
            (*SMALL, "--confidence", "0." + "9" * 20),
            "--confidence must be at most 0.9999999999999999",
        ),
        ((*SMALL, "--backend", "igraph"), "'igraph' is not one of scipy, networkx"),
        ((*SMALL, "--shuffler", "both"), "'both' is not one of parallel, single"),
        ((*SMALL, "--workers", "0"), "--workers must be at least 1, got 0"),
        (
            (*SMALL, "--workers", "2", "--scheduler", "tcp://127.0.0.1:1"),
            "--workers are started here, without --scheduler: give one of them",
        ),
        ((*SMALL, "--workers", "9999"), "--workers must be at most 1024, got 9999"),
        ((*SMALL, "--seed", "-1"), "--seed must be at least 0, got -1"),
        ((*SMALL, "--seed", "luck"), "'luck' is not a whole number"),
        ((*SMALL, "extra"), "unexpected extra argument"),
    ],
)
def test_mistakes(refused, options, message):
    assert message in refused("graphs", *once(*options))
