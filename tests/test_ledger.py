"""The ledger: durable, safe with two writers, and never overspent, whatever is killed or broken."""

from __future__ import annotations

import os
import signal
import sqlite3
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from ikos import Box, Ledger, PrivateSum, PrivateVectorSum, SecureSum
from ikos.accounting import gaussian_mu
from ikos.baselines import LocalLaplace
from ikos.statistics import (
    count,
    histogram,
    histograms,
    linear_statistics,
    mean,
    means,
    variance,
    variances,
)
from ikos.sums import ledger as module
from ikos.sums.ledger import BudgetExceeded
from ikos.testing import DeterministicRandom

TENTH = Fraction(1, 10)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.ledger"


@pytest.fixture
def ledger(path: Path) -> Ledger:
    return Ledger.new(path, 1, 1e-6)


class TestEntries:
    def test_are_kept_in_order_with_all_that_was_said(self, path: Path, ledger: Ledger) -> None:
        first = ledger.enter(TENTH, 1e-9, note="é\n'", key="a", statement="by hand", parameters="f")
        second = ledger.enter(0.2, mu=0.01)
        assert Ledger(path).entries == (first, second)
        assert (first.number, first.key, first.note, first.mu) == (1, "a", "é\n'", None)
        assert (first.epsilon, first.delta) == (TENTH, Fraction(1e-9))
        assert (second.number, second.epsilon, second.mu) == (2, Fraction(0.2), Fraction(0.01))
        assert first.time.endswith("+00:00")
        assert f"{len(second.key)}" == "16"

    def test_ten_tenths_fit_and_no_more(self, ledger: Ledger) -> None:
        assert (ledger.spent, ledger.left.epsilon) == (0, 1)
        for i in range(10):
            assert ledger.left.epsilon == 1 - i * TENTH
            ledger.enter(TENTH)
        assert (ledger.spent, ledger.left.epsilon) == (1, 0)
        with pytest.raises(BudgetExceeded, match=r"at most \(0, 5e-07\), got \(0.25, 0\)") as error:
            ledger.enter(0.25)
        assert error.value.left == ledger.left
        assert len(ledger.entries) == 10
        assert "100.0% spent, (0, 5e-07) left" in repr(ledger)

    def test_a_key_is_entered_once(self, ledger: Ledger) -> None:
        entry = ledger.enter(0.6, 1e-7, key="task 3, monday")
        assert ledger.enter(0.6, 1e-7, key="task 3, monday", note="again") == entry
        assert ledger.entries == (entry,)
        with pytest.raises(ValueError, match=r"^key must not be reused .* 'task 3, monday'"):
            ledger.enter(0.5, 1e-7, key="task 3, monday")
        with pytest.raises(BudgetExceeded):
            ledger.enter(0.6, 1e-7, key="task 3, tuesday")

    def test_a_note_is_of_what_is_recorded_through_it(self, ledger: Ledger) -> None:
        march = ledger.noted("mean age, March")
        LocalLaplace(2, TENTH).run([0, 1], ledger=march)
        march.enter(TENTH)
        march.enter(TENTH, note="another")
        LocalLaplace(2, TENTH).run([0, 1], ledger=ledger)
        notes = ["mean age, March", "mean age, March", "another", "LocalLaplace"]
        assert [entry.note for entry in ledger.entries] == notes

    def test_a_key_is_known_when_nothing_is_left(self, ledger: Ledger) -> None:
        entry = ledger.enter(1, key="all")
        assert ledger.enter(1, key="all") == entry

    def test_what_is_far_beyond_the_total_is_refused(self, path: Path) -> None:
        ledger = Ledger.new(path, 1e-6, 1e-300)
        with pytest.raises(BudgetExceeded, match=r"at most \(1e-06, 5e-301\), got \(1e\+06, 0\)"):
            ledger.enter(1e6)
        ledger.enter(1e-6)

    @pytest.mark.parametrize(
        ("given", "named"), [((-1,), "epsilon"), ((0.1, 2), "delta"), ((0.1, 0, -1), "mu")]
    )
    def test_refusals(self, ledger: Ledger, given: tuple[float, ...], named: str) -> None:
        with pytest.raises(ValueError, match=f"^{named} must be "):
            ledger.enter(*given[:2], mu=given[2] if len(given) > 2 else None)
        assert not ledger.entries


class TestMaking:
    @pytest.mark.skipif(os.name != "posix", reason="modes of POSIX")
    def test_is_for_its_owner_who_may_let_others_in(self, path: Path) -> None:
        Ledger.new(path, 1, 0.5)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        path.chmod(0o640)
        Ledger.new(path, 1, 0.5)
        assert stat.S_IMODE(path.stat().st_mode) == 0o640

    def test_again_opens_the_same(self, path: Path, ledger: Ledger) -> None:
        ledger.enter(0.5)
        assert len(Ledger.new(path, 1, 1e-6).entries) == 1

    @pytest.mark.parametrize(
        "other",
        [
            {"epsilon": 2}, {"delta": 1e-5}, {"slack": 1e-7}, {"adjacency": "add-or-remove-one"},
        ],
    )  # fmt: skip
    def test_with_another_total_is_refused(self, path: Path, other: dict[str, object]) -> None:
        Ledger.new(path, 1, 1e-6)
        given = {"epsilon": 1, "delta": 1e-6, **other}
        with pytest.raises(
            ValueError, match=r"already holds a ledger with another total: epsilon = 1, "
        ):
            Ledger.new(path, **given)

    def test_refusals_leave_no_file(self, path: Path) -> None:
        with pytest.raises(ValueError, match=r"^epsilon must be "):
            Ledger.new(path, 0, 0)
        with pytest.raises(ValueError, match=r"^adjacency must be one of "):
            Ledger.new(path, 1, 0, adjacency="edit")  # type: ignore[arg-type]
        assert not path.exists()

    def test_a_file_that_is_no_ledger(self, tmp_path: Path) -> None:
        text, other, empty = tmp_path / "text", tmp_path / "other", tmp_path / "empty"
        text.write_text("epsilon " * 1000)
        empty.touch()
        connection = sqlite3.connect(other)
        connection.execute("CREATE TABLE total (epsilon)")
        connection.close()
        for path in (text, other, empty):
            before = path.read_bytes()
            with pytest.raises(ValueError, match="is not a ledger, or is damaged"):
                Ledger(path)
            assert path.read_bytes() == before
        for path in (text, other):
            with pytest.raises(ValueError, match="is not a ledger, or is damaged"):
                Ledger.new(path, 1, 0)
        assert Ledger.new(empty, 1, 0).left.epsilon == 1  # as one killed while it was made

    def test_missing(self, tmp_path: Path) -> None:
        folder = tmp_path / "none"
        for use in (
            lambda: Ledger(folder),
            lambda: Ledger(folder / "x"),
            lambda: Ledger.new(folder / "x", 1, 0),
        ):
            with pytest.raises(FileNotFoundError, match=f"No such file or directory: '{folder}'$"):
                use()


class TestDamage:
    def changes(self, path: Path, statement: str) -> None:
        connection = sqlite3.connect(path)
        connection.execute(statement)
        connection.commit()
        connection.close()

    @pytest.mark.parametrize(
        "statement",
        [
            "UPDATE total SET epsilon = '2'",
            "UPDATE total SET epsilons = '0'",
            "UPDATE total SET adding = 0",
            "UPDATE total SET digest = x'00'",
            "DELETE FROM total",
            "DELETE FROM entry WHERE number = 3",
            "DELETE FROM entry",
        ],
    )
    def test_of_the_total_stops_everything(
        self, path: Path, ledger: Ledger, statement: str
    ) -> None:
        for _ in range(3):
            ledger.enter(TENTH)
        self.changes(path, statement)
        for use in (lambda: Ledger(path), lambda: ledger.enter(0), lambda: ledger.entries):
            with pytest.raises(ValueError, match="damaged: its total is not what was written"):
                use()

    @pytest.mark.parametrize(
        "statement",
        [
            "UPDATE entry SET epsilon = '1/20' WHERE number = 2",
            "UPDATE entry SET note = 'x' WHERE number = 2",
            "DELETE FROM entry WHERE number = 2",
        ],
    )
    def test_of_an_entry_is_seen_where_all_are_read(
        self, path: Path, ledger: Ledger, statement: str
    ) -> None:
        for _ in range(3):
            ledger.enter(TENTH)
        self.changes(path, statement)
        with pytest.raises(ValueError, match="damaged: entry 2 is not what was written"):
            _ = ledger.entries

    @pytest.mark.slow
    def test_of_any_byte_is_no_traceback_and_never_more_budget(
        self, path: Path, ledger: Ledger
    ) -> None:
        for i in range(5):
            ledger.enter(TENTH, note=f"release {i}")
        whole = path.read_bytes()
        draws, seen = np.random.default_rng(0), 0
        for _ in range(150):
            broken = bytearray(whole)
            broken[int(draws.integers(len(whole)))] ^= 1 << int(draws.integers(8))
            path.write_bytes(broken)
            try:
                assert ledger.left.epsilon <= Fraction(1, 2)
                assert len(ledger.entries) == 5
            except (ValueError, OSError):
                seen += 1
        assert seen > 5

    def test_cut_short(self, path: Path, ledger: Ledger) -> None:
        ledger.enter(0.5)
        path.write_bytes(path.read_bytes()[:5000])
        with pytest.raises((ValueError, OSError)):
            ledger.enter(0.5)


class TestDisk:
    def test_read_only(self, path: Path, ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
        ledger.enter(0.5)
        real = sqlite3.connect

        def read_only(address: str, **how: object) -> sqlite3.Connection:
            return real(address.replace("mode=rw", "mode=ro"), **how)  # type: ignore[call-overload]

        monkeypatch.setattr(sqlite3, "connect", read_only)
        assert Ledger(path).spent == 0.5
        with pytest.raises(OSError, match="cannot be used: attempt to write a readonly database"):
            ledger.enter(0.1)

    @pytest.mark.slow
    def test_full(self, path: Path, ledger: Ledger) -> None:
        """An entry that cannot be written raises, and those before it are kept."""
        code = (
            "import resource, signal, sys; from ikos import Ledger\n"
            "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
            "ledger = Ledger(sys.argv[1])\n"
            "resource.setrlimit(resource.RLIMIT_FSIZE, (24 * 1024,) * 2)\n"
            "for i in range(500):\n"
            "    try:\n"
            "        ledger.enter(0, note='x' * 200)\n"
            "    except OSError as error:\n"
            "        print(i, error)\n"
            "        break\n"
        )
        ran = run(code, path)
        entered, said = ran.split(" ", 1)
        assert "cannot be used: " in said
        assert len(ledger.entries) == int(entered) > 5
        ledger.enter(0.5)


def run(code: str, *arguments: object) -> str:
    """Run Python in a process of its own; return what it prints."""
    words = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


WRITER = (
    "import sys; from ikos.sums.ledger import Ledger, BudgetExceeded\n"
    "from fractions import Fraction\n"
    "ledger = Ledger(sys.argv[1])\n"
    "print('ready', flush=True)\n"
    "for i in range(10**6):\n"
    "    try:\n"
    "        entry = ledger.enter(Fraction(sys.argv[2]), key=f'{sys.argv[3]} {i}')\n"
    "    except BudgetExceeded:\n"
    "        break\n"
    "    print(entry.key, flush=True)\n"
)


def writer(path: Path, each: str, name: str) -> subprocess.Popen[str]:
    words = [sys.executable, "-c", WRITER, str(path), each, name]
    return subprocess.Popen(words, stdout=subprocess.PIPE, text=True)


class TestProcesses:
    def test_one_reads_after_the_other_has_written(
        self, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        real, together = module._head, threading.Barrier(2)

        def head(connection: sqlite3.Connection) -> object:
            found = real(connection)
            with suppress(threading.BrokenBarrierError):
                together.wait(0.05)  # which both do only if both have read
            return found

        monkeypatch.setattr(module, "_head", head)
        with ThreadPoolExecutor(2) as pool:
            numbers = [entry.number for entry in pool.map(ledger.enter, [TENTH] * 2)]
        assert sorted(numbers) == [1, 2]

    @pytest.mark.slow
    def test_two_writers_spend_the_total_once(self, path: Path) -> None:
        ledger = Ledger.new(path, 1, 0)
        both = [writer(path, "1/60", name) for name in "ab"]
        keys = [key for one in both for key in one.communicate()[0].splitlines()[1:]]
        assert len(keys) == 60
        assert {entry.key for entry in ledger.entries} == set(keys)
        assert ledger.left.epsilon == 0

    @pytest.mark.slow
    def test_the_same_keys_of_two_writers_are_one_release(self, path: Path) -> None:
        ledger = Ledger.new(path, 1, 0)
        both = [writer(path, "1/60", "a") for _ in "ab"]
        keys = [one.communicate()[0].splitlines()[1:] for one in both]
        assert keys[0] == keys[1] == [entry.key for entry in ledger.entries]

    @pytest.mark.slow
    def test_killed_at_any_moment(self, path: Path) -> None:
        """What was acknowledged is there, at most one more is, and nothing is overspent."""
        ledger = Ledger.new(path, 1, 0)
        draws, told = np.random.default_rng(1), set()
        for turn in range(25):
            process = writer(path, "1/10000", f"{turn}")
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            time.sleep(draws.uniform(0, 0.2))
            process.send_signal(signal.SIGKILL)
            lines = process.communicate()[0].split("\n")[:-1]  # the last may be cut
            told |= set(lines)
            there = {entry.key for entry in ledger.entries}
            assert told <= there
            assert len(there - told) <= turn + 1
        assert ledger.left.epsilon == 1 - Fraction(len(there), 10**4)
        assert len(there) > 25


X = np.linspace(0, 1, 1000)
BUDGET = {"epsilon": TENTH, "delta": 1e-9}


class TestRuns:
    @pytest.mark.slow
    @pytest.mark.parametrize(
        "make",
        [
            lambda: PrivateSum(1000, TENTH, 1e-9),
            lambda: PrivateVectorSum(1000, Box(1), TENTH, 1e-9),
            lambda: LocalLaplace(1000, TENTH),
        ],
        ids=["PrivateSum", "PrivateVectorSum", "LocalLaplace"],
    )
    def test_are_entered_by_their_guarantee(
        self, ledger: Ledger, make: Callable[[], object]
    ) -> None:
        protocol = make()
        x = X[:, np.newaxis] if isinstance(protocol, PrivateVectorSum) else X
        result = protocol.run(x, ledger=ledger)  # type: ignore[attr-defined]
        (entry,) = ledger.entries
        assert (entry.epsilon, entry.delta) == (TENTH, Fraction(result.guarantee.delta))
        assert entry.statement.split("\n") == [
            result.guarantee.theorem,
            *map(str, result.guarantee.conditions),
        ]
        assert entry.parameters == getattr(protocol, "parameter_hash", "")
        assert entry.note == type(protocol).__name__

    @pytest.mark.slow
    def test_of_statistics(self, ledger: Ledger) -> None:
        table = np.stack([X, X], axis=1)
        mean(X, lower=0, upper=1, ledger=ledger, **BUDGET)
        count(X > 0.5, ledger=ledger, **BUDGET)
        variance(X, lower=0, upper=1, ledger=ledger, **BUDGET)
        means(table, lower=0, upper=1, ledger=ledger, **BUDGET)
        variances(table, lower=0, upper=1, ledger=ledger, **BUDGET)
        linear_statistics(table, np.eye(2), Box(2), ledger=ledger, **BUDGET)
        histogram(list(X > 0.5), [True, False], ledger=ledger, **BUDGET)
        histogram(list(X > 0.5), [True, False], max_bytes=1e6, ledger=ledger, **BUDGET)
        histograms({"a": X > 0.5}, {"a": [True, False]}, ledger=ledger, **BUDGET)
        assert [entry.epsilon for entry in ledger.entries] == [TENTH] * 9

    def test_that_overspend_draw_nothing(
        self, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        ledger.enter(0.95)
        rng = DeterministicRandom(0)
        monkeypatch.setattr(rng, "streams", lambda *_: pytest.fail("drawn"))
        monkeypatch.setattr(rng, "_read_into", lambda *_: pytest.fail("drawn"))
        for protocol in (PrivateSum(1000, TENTH, 1e-9), LocalLaplace(1000, TENTH)):
            with pytest.raises(BudgetExceeded):
                protocol.run(X, rng, ledger=ledger)
        assert len(ledger.entries) == 1

    def test_that_fail_stay_entered(self, ledger: Ledger) -> None:
        with pytest.raises(ValueError, match=r"x\[500\]"):
            PrivateSum(1000, TENTH, 1e-9).run(2 * X, ledger=ledger)
        assert len(ledger.entries) == 1

    def test_that_prove_nothing_are_refused(self, ledger: Ledger) -> None:
        with pytest.raises(ValueError, match=r"^ledger must be None if nothing is proved"):
            PrivateSum(1000, 1, 1e-9, messages=1).run(X, ledger=ledger)
        with pytest.raises(TypeError, match=r"^ledger must be None for an exact sum"):
            SecureSum(10, 16).run(np.arange(10), ledger=ledger)

    @pytest.mark.parametrize(
        "protocol", [PrivateSum(1000, TENTH, 1e-9), LocalLaplace(1000, TENTH)], ids=type
    )
    def test_a_path_is_no_ledger(self, ledger: Ledger, protocol: PrivateSum) -> None:
        with pytest.raises(TypeError, match=r"^ledger must be an ikos.Ledger, got '/"):
            protocol.run(X, ledger=str(ledger.path))  # type: ignore[arg-type]

    def test_of_another_adjacency_are_refused(self, path: Path) -> None:
        ledger = Ledger.new(path, 1, 1e-6, adjacency="add-or-remove-one")
        with pytest.raises(ValueError, match=r"^ledger must be for replace-one, got add-or-rem"):
            PrivateSum(1000, TENTH, 1e-9).run(X, ledger=ledger)
        ledger.enter(TENTH)

    def test_with_a_key(self, ledger: Ledger) -> None:
        task = PrivateSum(1000, TENTH, 1e-9)
        for window in (1, 2, 2):
            ledger.enter_run(task, key=f"{task.parameter_hash} {window}")
        assert len(ledger.entries) == 2


def test_entries_are_forced_to_disk(ledger: Ledger) -> None:
    with module._using(ledger.path) as connection:
        assert connection.execute("PRAGMA synchronous").fetchone() == (3,)
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)


def test_gaussian_releases_cost_what_their_mu_says(ledger: Ledger) -> None:
    """13 fit, each (0.3, 1e-9)-private, whose epsilons add up to 3.9."""
    mu = gaussian_mu(0.3, 1e-9)
    for _ in range(13):
        ledger.enter(0.3, 1e-9, mu=mu)
    assert ledger.left.epsilon < TENTH
    assert ledger.spent > 0.9
