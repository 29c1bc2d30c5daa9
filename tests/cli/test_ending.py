"""How the program ends, as a process: exit statuses, streams that fail, Ctrl-C, terminals."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from command_lines import BOUNDS, COUNT, POSIX, PROGRAM, program

import ikos
from ikos import PrivateSum, PrivateVectorSum, SecureSum

FULL = pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
TASK = ("task", "new", "--users", "100", "--min-honest", "90", "--lower", "0", "--upper", "1",
        "--epsilon", "1", "--delta", "1e-3")  # fmt: skip

PRINTED = pytest.mark.parametrize(
    "words",
    [COUNT, ("demo", "--json")],
    ids=" ".join,
)  # fmt: skip
"""Ways in which something is printed."""


class TestStatus:
    @pytest.mark.slow
    def test_done(self):
        done = program(*COUNT)
        assert (done.returncode, done.stderr) == (0, "")
        assert "\x1b" not in done.stdout

    def test_mistake(self):
        done = program("sum", "nothing.csv", "--column", "a")
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr == "ikos sum: error: missing option '--lower'\n"

    def test_as_a_module(self):
        done = subprocess.run(
            [sys.executable, "-m", "ikos", "--version"], capture_output=True, text=True
        )
        assert (done.returncode, done.stdout) == (0, f"ikos {ikos.__version__}\n")


class TestStreams:
    @pytest.mark.slow
    def test_narrow_encodings(self, tmp_path):
        path = tmp_path / "t.csv"
        path.write_text("café\n" + "1\n" * 30, encoding="utf-8")
        environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
        done = program("sum", path, "--column", "café", *BOUNDS[2:], env=environment)
        assert (done.returncode, done.stderr) == (0, "")
        assert r"column 'caf\xe9'" in done.stdout

    @pytest.mark.slow
    @POSIX
    def test_tables_from_standard_input(self):
        done = program("sum", "-", *BOUNDS, "--json", input="a\n" + "1\n" * 30)
        assert done.returncode == 0, done.stderr
        assert '"users": 30' in done.stdout

    @pytest.mark.points(2)
    @POSIX
    @PRINTED
    @pytest.mark.slow
    def test_broken_pipe(self, words):
        """As other programs: in silence, with the status of one that SIGPIPE ends."""
        reader, writer = os.pipe()
        os.close(reader)
        with os.fdopen(writer, "wb") as closed:
            done = program(*words, stdout=closed)
        assert (done.returncode, done.stderr) == (141, "")

    @pytest.mark.points(2)
    @FULL
    @PRINTED
    @pytest.mark.slow
    def test_full_disk(self, words):
        with open("/dev/full", "wb") as full:
            done = program(*words, stdout=full)
        assert done.returncode == 2
        assert done.stderr.count("\n") == 1
        assert "error: cannot write the output: no space left on device" in done.stderr

    @pytest.mark.points(2)
    @POSIX
    @PRINTED
    @pytest.mark.slow
    def test_closed_output(self, words):
        line = shlex.join([*PROGRAM, *words]) + " >&-"
        done = subprocess.run(["sh", "-c", line], stderr=subprocess.PIPE, text=True)
        assert done.returncode == 2
        assert done.stderr.count("\n") == 1
        assert "error: cannot write the output: standard output is closed" in done.stderr

    @FULL
    @pytest.mark.slow
    def test_nobody_reads_the_errors(self):
        """What matters is the status, and the result."""
        weak = ("messages", "--users", "9", "--epsilon", "20", "--delta", "1e-3")
        for closing, words, status in (("2>/dev/full", ("bogus",), 2), ("2>&-", weak, 0)):
            line = f"{shlex.join([*PROGRAM, *words])} {closing}"
            done = subprocess.run(["sh", "-c", line], stdout=subprocess.PIPE, text=True)
            assert done.returncode == status
            assert bool(done.stdout) == (status == 0)


INTERRUPTER = """
import os, signal, sys

class Interrupter:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == os.environ["INTERRUPTED_AT"]:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupter)
"""


@POSIX
class TestInterrupted:
    @pytest.mark.points(1)
    @pytest.mark.parametrize(
        ("module", "words"),
        [
            ("ikos.cli.program", ("--version",)),
            ("ikos.counts.secure", COUNT),
            ("ikos.data.tables", ("compare", "--data", "t.csv", *BOUNDS)),
            ("ikos.deployment.task", (*TASK, "--dry-run")),
        ],
        ids=lambda value: value if isinstance(value, str) else value[0],
    )
    def test_while_something_is_imported(self, tmp_path, module, words):
        (tmp_path / "sitecustomize.py").write_text(INTERRUPTER)
        path = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")]))
        environment = {**os.environ, "PYTHONPATH": path, "INTERRUPTED_AT": module}
        done = program(*words, env=environment)
        said = "ikos: error: interrupted\n"
        assert (done.returncode, done.stdout, done.stderr) == (130, "", said)

    @pytest.mark.slow
    def test_while_a_file_is_read(self, tmp_path):
        """Ctrl-C while a file is read: here a pipe that nobody writes to."""
        pipe = tmp_path / "pipe.csv"
        os.mkfifo(pipe)
        process = subprocess.Popen(
            [*PROGRAM, "sum", str(pipe), *BOUNDS],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        writer = os.open(pipe, os.O_WRONLY)  # returns once the program has opened the pipe
        time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        os.close(writer)
        said = "ikos sum: interrupted; nothing was released\n"
        assert (process.returncode, out, err) == (130, "", said)


@pytest.mark.parametrize("command", ["sum", "mean", "secure-sum", "histogram"])
def test_an_interrupted_run_releases_nothing(run, people, monkeypatch, command):
    def interrupt(*args, **kwargs):
        raise KeyboardInterrupt

    for protocol in (PrivateSum, SecureSum, PrivateVectorSum):
        monkeypatch.setattr(protocol, "run", interrupt)
    budget = () if command == "secure-sum" else ("--epsilon", "1", "--delta", "1e-6")
    values = ("--bins", "0,50,100") if command == "histogram" else ("--lower", "0", "--upper", "99")
    assert run(command, people, "--column", "age", *values, *budget, status=130).err == (
        f"ikos {command}: interrupted; nothing was released\n"
    )


@POSIX
class TestTerminal:
    @pytest.fixture
    def on_terminal(self):
        """Run the program on a terminal of 80 columns and return what it showed."""
        pty = pytest.importorskip("pty")

        def on_terminal(*arguments, status=0, **environment):
            ours, theirs = pty.openpty()
            process = subprocess.Popen(
                [*PROGRAM, *map(str, arguments)],
                stdout=theirs, stderr=theirs, stdin=theirs,
                env={**os.environ, "TERM": "xterm", **environment},
            )  # fmt: skip
            os.close(theirs)
            shown = b""
            while True:
                try:
                    part = os.read(ours, 1 << 16)
                except OSError:  # the other end is closed
                    break
                if not part:
                    break
                shown += part
            os.close(ours)
            assert process.wait(60) == status
            return shown.decode()

        return on_terminal

    @pytest.mark.parametrize(
        ("words", "status", "style"),
        [
            (COUNT, 0, "\x1b[1mMessages per user"),
            (("bogus",), 2, "ikos: \x1b[31m\x1b[1merror\x1b[0m: no such command"),
            (("messages", "--users", "9", "--epsilon", "20", "--delta", "1e-3"), 0,
             "ikos messages: \x1b[33m\x1b[1mwarning\x1b[0m: epsilon = 20"),
        ],
        ids=["heading", "error", "warning"],
    )  # fmt: skip
    @pytest.mark.slow
    def test_styles(self, on_terminal, monkeypatch, words, status, style):
        monkeypatch.delenv("NO_COLOR", raising=False)
        assert style in on_terminal(*words, status=status)

    @pytest.mark.slow
    def test_styles_are_for_terminals_that_have_them(self, on_terminal, monkeypatch):
        monkeypatch.delenv("NO_COLOR", raising=False)
        assert "\x1b" in on_terminal("bogus", status=2, NO_COLOR="")
        assert "\x1b" not in on_terminal("bogus", status=2, NO_COLOR="1")
        assert "\x1b" not in on_terminal("bogus", status=2, TERM="dumb")
        assert "\x1b" not in program("bogus").stderr

    @pytest.mark.slow
    def test_progress(self, on_terminal):
        shown = on_terminal("graphs", "--users", "2048", "--messages", "4", "--trials", "10")
        plain = re.sub(r"\x1b\[[\d;]*m", "", shown)
        shares = [int(share) for share in re.findall(r"(\d+)%", plain)]
        # A fast machine draws few of them: the bar moves, and ends full.
        assert shares == sorted(shares)
        assert shares[0] < 100 == shares[-1]
