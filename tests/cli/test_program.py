"""The program: its help, its examples, the demo, and how numbers and progress are shown."""

from __future__ import annotations

import csv
import gzip
import io
import re
import shlex
import sys
import time
from pathlib import Path

import click
import pytest
from command_lines import BOUNDS, EVERY, PATHS

import ikos
from ikos import counts
from ikos.cli import main, output, types
from ikos.cli.program import COMMANDS, SETTINGS, commands
from ikos.results.report import FORMATS, Field, Report


def examples(text):
    """Return the examples of a help, as command lines."""
    found = re.search(r"^  Examples?\n(.*?)(?=\n\n|\Z)", text, re.MULTILINE | re.DOTALL)
    return found[1].replace("\\\n", " ").strip().splitlines() if found else []


VALUES = ("TABLE", "--column", "age")
BUDGET = ("--epsilon", "1", "--delta", "1e-6")
KEYED = [
    ("sum", *VALUES, "--lower", "0", "--upper", "100", *BUDGET),
    ("mean", *VALUES, "--lower", "0", "--upper", "100", *BUDGET),
    ("variance", *VALUES, "--lower", "0", "--upper", "100", *BUDGET),
    ("count", *VALUES, "--where", "18..65", *BUDGET),
    ("quantiles", *VALUES, "--lower", "0", "--upper", "100", "--bins", "20", *BUDGET),
    ("histogram", *VALUES, "--bins", "0,50,100", *BUDGET),
    ("secure-sum", *VALUES, "--upper", "100"),
    ("messages", "--users", "100", *BUDGET),
    ("messages", "--users", "100", "--modulus", "9", "--sigma", "20", "--dimension", "2"),
    ("compare", "--users", "100", *BUDGET, "--protocol", "local-laplace"),
    ("graphs", "--users", "9", "--messages", "2", "--trials", "9", "--planted", "0"),
    ("demo",),
]


class TestHelp:
    @EVERY
    def test_every_command(self, run, name, words, command):
        text = run(*words, "--help").out
        assert text.startswith(f"Usage: {name} ")
        assert text.isascii()
        assert max(map(len, text.splitlines())) <= 80
        assert run(*words, "-h").out == text
        assert run("help", *words).out == text
        if isinstance(command, click.Group):
            assert run(*words).out == text
        if words:
            assert examples(text)
            assert all(f"{name} " in f"{line} " for line in examples(text))
        assert "--json" in text or words[:1] in [(), ("serve",), ("help",)]

    @EVERY
    def test_summaries_are_whole(self, run, monkeypatch, name, words, command):
        for width in ("80", "60"):
            monkeypatch.setenv("COLUMNS", width)
            text = run(*words, "--help").out
            assert "..." not in text.partition("Commands:")[2]

    @EVERY
    def test_options_are_explained_by_sentences(self, name, words, command):
        for option in command.params:
            if isinstance(option, click.Option):
                assert re.fullmatch(r"[A-Z].*\.", option.help), (option.opts, option.help)

    def test_one_name_is_one_thing(self):
        """What an option takes is the same everywhere."""
        kinds = {}
        for name, _, command in PATHS:
            for option in command.params:
                if not isinstance(option, click.Option):
                    continue
                shown, _ = option.get_help_record(click.Context(command, **SETTINGS))
                kind = shown.split(" ")[1:], option.is_flag
                for word in option.opts:
                    # of tasks it is an address, as there is one for each; histograms have edges,
                    # and categories
                    if name != "ikos secure-sum" and (name, word) not in (
                        ("ikos task new", "--shuffler"), ("ikos quantiles", "--bins"),
                        ("ikos histogram", "--on-missing"),
                    ):  # fmt: skip
                        kinds.setdefault(word, {}).setdefault(str(kind), []).append(name)
        assert [(word, found) for word, found in kinds.items() if len(found) > 1] == []

    @pytest.mark.parametrize("words", KEYED, ids=lambda words: words[0])
    def test_json_has_every_documented_key_and_no_other(self, run, people, words):
        command = commands.get_command(click.Context(commands, **SETTINGS), words[0])
        given = [people if word == "TABLE" else word for word in words]
        result = run(*given, "--json").json
        assert set(result) == set(command.keys)
        assert result["version"] == 1
        columns = set(command.columns)
        if words[0] in (
            "sum",
            "mean",
            "variance",
            "count",
            "histogram",
        ):  # some are those of groups: see test_groups
            assert columns > {"name", "estimate", "low", "high"}
            assert "group" in columns
            columns = {"name", "estimate", "low", "high"}
        assert set(result["rows"][0]) == columns
        for how in ("text", "csv", "markdown"):
            assert run(*given, "--format", how).out

    def test_all(self, run):
        text = run("--help").out
        assert all(re.search(rf"^  {command} ", text, re.MULTILINE) for command in COMMANDS)

    def test_version(self, run):
        assert run("--version").out == f"ikos {ikos.__version__}\n"

    @pytest.mark.parametrize(
        ("words", "said"),
        [
            (("task", "bogus"), "no such command 'bogus'\n"),
            (("sum", "--bogus"), "no such option"),
            (("messages", "--shufler"), "no such option"),
            (("sum", "--json=1"), "option '--json' does not take a value"),
            (("demo", "x" * 5000), "got unexpected extra argument"),
            (("x" * 5000,), "no such command 'xxx"),
            (("histgram",), "no such command 'histgram'. Did you mean 'histogram'?"),
            (("task", "knew"), "no such command 'knew'. Did you mean 'new'?"),
            (("histogram", "x", "--bin", "3"), "no such option"),
        ],
    )
    def test_what_is_not_there(self, run, words, said):
        error = run(*words, status=2).err  # how it goes on depends on the version of click
        name = " ".join(("ikos", *(word for word in words[:1] if word in (*COMMANDS, "help"))))
        assert error.startswith(f"{name}: error: {said}")

    @pytest.mark.parametrize(
        ("words", "name"),
        [
            (("messages", "--users", "9", "--users", "9"), "--users"),
            (("sum", "t.csv", *("--clear-share", "--no-clear-share")), "--clear-share"),
            (("messages", "--users", "9", "--json", "--json"), "--json"),
        ],
    )  # fmt: skip
    def test_options_that_are_given_twice(self, refused, words, name):
        """Neither value is dropped in silence."""
        rest = ("--modulus", "9", "--sigma", "1") if words[0] == "messages" else BOUNDS
        assert refused(*words, *rest) == f"{name} can be given only once"


RUN = (
    "sum", "secure-sum", "mean", "variance", "count", "histogram", "quantiles", "messages",
    "compare", "graphs", "demo", "help",
)  # fmt: skip
"""The commands of which examples run; those of parties need parties."""
SLOW = ("compare", "graphs")
EXAMPLES = [
    pytest.param(
        line,
        words[0] in RUN or "--dry-run" in line,
        id=f"{' '.join(words)}-{i}",
        marks=[pytest.mark.slow] * (words[0] in SLOW),
    )
    for _, words, command in PATHS
    if words
    for i, line in enumerate(examples(command.get_help(click.Context(command, **SETTINGS))))
]


@pytest.mark.points(1)
@pytest.mark.usefixtures("coarse_digits")
@pytest.mark.parametrize(("line", "runs"), EXAMPLES)
def test_examples(line, runs, people, tmp_path, monkeypatch, capsys):
    """What the help shows runs as it stands."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "people"
    folder.mkdir()
    first, *rows = people.read_text().splitlines()
    more = (f"{row},yes,north,{i}" for i, row in enumerate(rows))
    people.write_text("\n".join([f"{first},vote,region,pay", *more, ""]))
    (folder / "1.csv").write_bytes(people.read_bytes())
    Path("people.csv.gz").write_bytes(gzip.compress(people.read_bytes()))
    Path("adult.data").write_text("".join(f"{20 + i % 50}, x\n" for i in range(100)))
    if not runs or "|" in line:
        own = line.rpartition("| ")[2].partition(" < ")[0]
        found, arguments = commands, shlex.split(own)[1:]
        while isinstance(found, click.Group):
            name = arguments.pop(0)
            found = found.get_command(click.Context(found, **SETTINGS), name)
        found.make_context(name, arguments, **SETTINGS)  # which refuses what there is not
        return
    monkeypatch.setattr(output, "SECONDS_PER_LINE", 10_000)  # no progress, on slow machines too
    monkeypatch.setattr(sys, "argv", shlex.split(line))
    with pytest.raises(SystemExit) as end:
        main()
    out, err = capsys.readouterr()
    assert not end.value.code, err
    assert out
    assert all(": warning: " in said for said in err.splitlines())


def test_names_are_the_librarys():
    assert ("best", *counts.ANALYSES, "exact") == types.ANALYSES
    assert types.SHUFFLERS == counts.SHUFFLERS


HOSTILE = "\x1b[2J\x9b31m\u202e evil\r\n\tand\x00more"
"""Clears a terminal, colours it, turns the line around, and begins another."""

TEXTS = [(words, one) for _, words, one in PATHS if not isinstance(one, click.Group)]


class TestForeignWords:
    """What others wrote, as in a task or a ledger, controls no terminal and ends no line."""

    @pytest.fixture
    def hostile(self, monkeypatch):
        def hostile(command, result):
            """Let a command do no more than this."""
            monkeypatch.setattr(
                command, "params", [p for p in command.params if not p.expose_value]
            )
            monkeypatch.setattr(command, "callback", lambda **_: result())

        return hostile

    def reported(self, columns):
        """Return a report, everything in which is hostile."""
        fields = [Field(key, "", HOSTILE) for key in columns]
        fields += [Field("other", "", HOSTILE, show=lambda _: HOSTILE, value=lambda _: 1)]
        fields += [Field("row", "", HOSTILE, text=lambda _: HOSTILE, value=lambda _: 1)]
        rows = [dict.fromkeys(columns, HOSTILE)] * 2
        return Report(HOSTILE, fields, rows, [HOSTILE] * 2, {"words": HOSTILE}, [HOSTILE])

    @pytest.mark.parametrize("terminal", [False, True])
    def test_in_reports(self, run, hostile, monkeypatch, terminal):
        shown = set()
        for words, command in TEXTS:
            if not command.columns:
                continue
            hostile(command, lambda command=command: self.reported(command.columns))
            monkeypatch.setattr(output, "on_terminal", lambda _: terminal)
            for form in FORMATS:
                out = run(*words, "--format", form, warning="evil").out
                plain = re.sub("\x1b\\[[01]m", "", out) if terminal else out
                if form == "csv" and not terminal:
                    (_, *rows), names = csv.reader(io.StringIO(out)), list(command.columns)
                    assert [row[: len(names)] for row in rows] == [[HOSTILE] * len(names)] * 2
                    continue
                assert all(line.isprintable() for line in plain.split("\n"))
                assert plain.count("evil") > len(command.columns)
                if form == "csv":
                    assert plain.count("\n") == 3
            shown.add(words[0])
        assert shown == set(COMMANDS) - {"serve"}

    def test_in_errors(self, run, hostile):
        def fail():
            raise ValueError(HOSTILE)

        for words, command in TEXTS:
            hostile(command, fail)
            said = run(*words, status=2).err
            assert said[:-1].isprintable()
            assert "evil" in said

    def test_nothing_else_prints(self):
        for path in Path(output.__file__).parent.glob("*.py"):
            found = re.search(r"\b(print|s?echo|style)\(|\bstd(out|err)\.write", path.read_text())
            assert not found or path.name == "output.py", (path, found)


class TestProgress:
    class Terminal:
        """A standard error that says that it is a terminal."""

        encoding = "utf-8"

        def __init__(self):
            self.text = ""

        def write(self, text):
            self.text += text
            return len(text)

        def flush(self):
            pass

        def isatty(self):
            return True

    def terminal(self, monkeypatch):
        terminal = self.Terminal()
        monkeypatch.setattr(sys, "stderr", terminal)
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.setenv("COLUMNS", "80")
        monkeypatch.setenv("NO_COLOR", "1")
        return terminal

    def wait(self, terminal, text):
        last = time.monotonic() + 10
        while text not in terminal.text:
            assert time.monotonic() < last, terminal.text
            time.sleep(0.01)

    def test_on_a_terminal(self, monkeypatch):
        terminal = self.terminal(monkeypatch)
        with output.progress("reading") as report:
            report(1, 4)
            self.wait(terminal, "25%")
            assert "reading" in terminal.text

    def dumb(self, monkeypatch, seconds):
        terminal = self.Terminal()
        monkeypatch.setattr(sys, "stderr", terminal)
        monkeypatch.setenv("TERM", "dumb")
        monkeypatch.setattr(output, "SECONDS_PER_LINE", seconds)
        return terminal

    def test_lines_on_a_terminal_that_cannot_move_back(self, monkeypatch):
        terminal = self.dumb(monkeypatch, 0.01)
        with output.progress("reading") as report:
            report(1, 4)
            self.wait(terminal, "reading: 25 %\nreading: 25 %\n")  # though nothing more is reported

    def test_the_wait_for_a_line_includes_what_went_before(self, monkeypatch):
        assert output.SECONDS_PER_LINE == 10
        terminal = self.dumb(monkeypatch, 100)
        with click.Context(click.Command("x")) as context:
            context.meta["ikos.last_line"] = [time.monotonic() - 101]
            for label in ("reading", "counting"):
                with output.progress(label) as report:
                    report(1, 4)
                    self.wait(terminal, "reading: ")
        assert terminal.text.count("\n") == 1
