"""Words that a shell completes: which, how quickly, and in bash, zsh and fish."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys

import pytest
from click.shell_completion import BashComplete, get_completion_class
from command_lines import POSIX, PROGRAM, program

from ikos.baselines import PROTOCOLS
from ikos.cli.program import COMMANDS, commands

SLOW = (
    "cryptography", "dask", "distributed", "gmpy2", "httpx", "matplotlib", "networkx", "numpy",
    "pyarrow", "scipy", "starlette", "uvicorn",
)  # fmt: skip
"""What takes longer to be imported than anybody waits for a word."""


def completed(line):
    """Return what completes the last word of a line, empty after a blank."""
    words = shlex.split(line)[1:] + [""] * line.endswith(" ")
    complete = BashComplete(commands, {}, "ikos", "_IKOS_COMPLETE")
    return complete.get_completions(words[:-1], words[-1])


class TestWords:
    @pytest.mark.parametrize(
        ("line", "words"),
        [
            ("ikos ", [*COMMANDS, "help"]),
            ("ikos su", ["sum", "submit"]),
            ("ikos --v", ["--version"]),
            ("ikos task ", ["new", "status", "close", "release", "certificate"]),
            ("ikos serve a", ["analyzer"]),
            ("ikos sum --sh", ["--show-values", "--shuffler", "--show-true"]),
            ("ikos sum --no-", ["--no-header", "--no-clear-share"]),
            ("ikos sum --on-out-of-range ", ["reject", "clamp"]),
            ("ikos sum t.csv --shuffler s", ["single"]),
            ("ikos messages --analysis b", ["best", "balle2020"]),
            ("ikos graphs --backend=n", ["networkx"]),
            ("ikos compare --protocol ", [one.key for one in PROTOCOLS]),
            ("ikos compare --protocol private-sum --protocol local-la", ["local-laplace"]),
            ("ikos compare --domain b", ["box", "ball"]),
            (
                "ikos sum --epsilon x --delimiter ;; --threads -1 --show",
                ["--show-values", "--show-true"],
            ),
            ("ikos sum --threads 1 --thr", []),
            ("ikos sum --epsilon ", []),
        ],
    )
    def test_of_the_program(self, line, words):
        got = [item.value for item in completed(line) if item.type == "plain"]
        assert got == words

    def test_in_silence_beside_mistakes(self, capsys):
        for line in ("ikos bogus ", "ikos task bogus ", "ikos sum --bo 1 "):
            completed(line)
            captured = capsys.readouterr()
            assert (captured.out, captured.err) == ("", "")

    @pytest.mark.parametrize(
        "line",
        [
            "ikos sum ", "ikos sum peo", "ikos compare --data ", "ikos messages --plot ",
            "ikos task new --output ", "ikos task status ", "ikos task release --ca ",
            "ikos serve shuffler ", "ikos serve shuffler a ", "ikos serve analyzer --config ",
            "ikos submit ", "ikos submit --ca ",
        ],
    )  # fmt: skip
    def test_of_files_by_the_shell(self, line):
        assert [item.type for item in completed(line)] == ["file"]

    def test_explanations_are_whole(self):
        for line in ("ikos ", "ikos task ", "ikos sum --", "ikos task new --"):
            for item in completed(line):
                assert item.help
                assert "..." not in item.help
                assert "[default" not in item.help
                assert item.help.isascii()


@pytest.mark.slow
def test_nothing_slow_is_imported():
    lines = [
        "ikos ", "ikos --", "ikos su", "ikos sum t.csv --delimiter ; --sh",
        "ikos sum --analysis ", "ikos task new --", "ikos graphs --",
        "ikos compare --protocol private-sum --plot x.png --mi", "ikos messages --plot ",
        "ikos serve analyzer x --", "ikos histogram --",
    ]  # fmt: skip
    script = f"""
import shlex, sys
from click.shell_completion import BashComplete
from ikos.cli.program import commands
complete = BashComplete(commands, {{}}, "ikos", "_IKOS_COMPLETE")
for line in {lines}:
    words = shlex.split(line)[1:] + [""] * line.endswith(" ")
    assert complete.get_completions(words[:-1], words[-1]), line
commands.main(["--help"], "ikos", standalone_mode=False)
print(*sys.modules, file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.startswith("Usage: "), done.stderr
    assert {name.partition(".")[0] for name in done.stderr.split()}.isdisjoint(SLOW)


@POSIX
class TestShells:
    """The scripts, as they are, in the shells that there are."""

    @staticmethod
    def in_shell(shell, script, *options):
        found = shutil.which(shell)
        if found is None:
            pytest.skip(f"there is no {shell} here")
        if len(PROGRAM) > 1:
            pytest.skip("the program is not installed")
        path = os.pathsep.join([os.path.dirname(PROGRAM[0]), os.environ["PATH"]])
        done = subprocess.run(
            [found, *options, "-c", script],
            env={**os.environ, "PATH": path}, capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        assert done.stderr == ""
        return done.stdout

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("words", "expected"),
        [(["su"], "sum submit"), (["sum", "--on-out-of-range", ""], "reject clamp")],
        ids=str,
    )  # fmt: skip
    def test_bash(self, words, expected):
        line = shlex.join(["ikos", *words])
        script = f"""
            eval "$(_IKOS_COMPLETE=bash_source ikos)"
            complete -p ikos > /dev/null || exit 1
            COMP_WORDS=({line}); COMP_CWORD={len(words)}
            _ikos_completion ikos
            echo ${{COMPREPLY[@]}}
        """
        assert self.in_shell("bash", script, "--norc").split() == expected.split()

    @pytest.mark.points(1)
    @pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
    def test_scripts_are_for_the_program(self, shell):
        assert get_completion_class(shell) is not None
        done = program(env={**os.environ, "_IKOS_COMPLETE": f"{shell}_source"})
        assert (done.returncode, done.stderr) == (0, "")
        assert "_IKOS_COMPLETE" in done.stdout
        assert "_ikos_completion" in done.stdout
