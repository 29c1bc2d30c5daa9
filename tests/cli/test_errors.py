"""From exceptions, and from nonsense on the command line, to one line."""

from __future__ import annotations

import errno
import os
import ssl

import click
import pytest
from command_lines import EVERY

from ikos import counts
from ikos.baselines import PROTOCOLS
from ikos.cli import errors, names
from ikos.cli.program import SETTINGS
from ikos.cluster.processes import MAX_WORKERS


def failed(number, *names):
    """Return what the operating system says of a file, or of none."""
    name, *other = [*names, None]
    return OSError(number, os.strerror(number), name, None, *other[:1])


class TestProblem:
    @pytest.mark.parametrize(
        ("error", "said"),
        [
            (ValueError("delta must be less than 1, got 2"), "--delta must be less than 1, got 2"),
            (TypeError("n must be an integer, got str"), "--users must be an integer, got str"),
            (ValueError("x must be a number, got 'a'"), "x must be a number, got 'a'"),
            (ValueError(""), "ValueError"),
            (MemoryError(), "not enough memory for this"),
            (OverflowError("int too large"), "a number is too large or too small to compute with"),
            (ZeroDivisionError("division by zero"), "division by zero"),
            (ImportError("No module named 'httpx'", name="httpx"),
             "this needs the extra 'deployment': pip install 'ikos[deployment]'"),
            (ImportError("install pandas", name="pandas"), "install pandas"),
            # files: neither reading nor writing, as nobody knows which of them failed
            (failed(errno.EACCES, "out/x.csv"), "'out/x.csv': permission denied"),
            (failed(errno.ENOSPC, "out/x.csv"), "'out/x.csv': no space left on device"),
            (failed(errno.EXDEV, "a", "b"), "'a' and 'b': invalid cross-device link"),
            (failed(errno.EACCES, "a\nb\x1b"), r"'a\nb\x1b': permission denied"),
            # streams and sockets have no name, and errors of the library no number
            (failed(errno.EADDRINUSE), "address already in use"),
            (OSError("the store cannot be read: locked"), "the store cannot be read: locked"),
            (OSError(), "OSError"),
            (ssl.SSLError(1, "[SSL] no start line"), "[SSL] no start line"),
        ],
        ids=repr,
    )  # fmt: skip
    def test_words(self, error, said):
        assert errors.problem(error) == said

    def test_long_names_are_cut(self):
        said = errors.problem(failed(errno.ENAMETOOLONG, "x" * 5000))
        assert said.endswith("xxx...': file name too long")
        assert len(said) < 350

    def test_unwritten(self):
        said = errors.unwritten("a/b.png", failed(errno.EROFS, "a/b.png.tmp"))
        assert isinstance(said, click.UsageError)
        assert str(said) == "cannot write 'a/b.png': read-only file system"

    @pytest.mark.parametrize(
        ("message", "said"),
        [
            ("n must be at least 1, got 0", "--users must be at least 1, got 0"),
            ("shufflers[3] must begin with https", "--shuffler must begin with https"),
            ("host and port must be free", "--host and --port must be free"),
            ("n * m must be at most 9, got 12", "--users * --messages must be at most 9, got 12"),
            ("clear_share=False, or give precision=", "--no-clear-share, or give --precision"),
            ("analysis='best' covers this", "--analysis best covers this"),
            ("host must be x: give certificate and private_key",
             "--host must be x: give --certificate and --private-key"),
            ("the number n must be at least 1", "the number n must be at least 1"),
        ],
    )  # fmt: skip
    def test_parameters_are_options(self, message, said):
        assert errors.in_options(message) == said


NONSENSE = [
    "", " ", "-1", "0", "nan", "-inf", "1e999999999", "1" * 5000, "9" * 20 + "%", "0x10", "1_000",
    "1,5", "é", "١٢", "\u200b", "\udcff", "\x1b[31m", "a\nb", "--", "-", "/", "/dev/full",
    "nothing/at/all", "x" * 300,
]  # fmt: skip


class TestNonsense:
    @EVERY
    def test_one_line(self, name, words, command, tmp_path, monkeypatch):
        """What is refused as it is parsed is refused in a line that can be read."""
        monkeypatch.chdir(tmp_path)
        known = [one for one in command.params if isinstance(one, click.Option)]
        context = click.Context(command, info_name=name, **SETTINGS)
        for option in (one for one in known if not one.is_flag):
            for value in NONSENSE:
                # a shell completes beside any nonsense
                line = [option.opts[0], value, "x"]
                command.make_context(name, line, resilient_parsing=True)
                try:
                    option.type_cast_value(context, [value] if option.multiple else value)
                except click.ClickException as error:
                    said = errors.one_line(error)
                    assert said.isprintable(), (option.opts, value)
                    assert len(said) < 450, (option.opts, value)
                    assert option.opts[0] in said or option.name in said

    @pytest.mark.parametrize(
        ("words", "said"),
        [
            (("task", "new", "--output", ""), "--output must be the name of a folder, got ''"),
            (("serve", "shuffler", ""), "FOLDER must be the name of a folder, got ''"),
            (("serve", "shuffler", "x", "--ca", ""), "--ca must be the name of a file, got ''"),
            (("messages", "--users", "9", "--min-honest", "1" * 5000),
             "--min-honest must be at most 9007199254740992, got 1111"),
            (("task", "new", "--modulus", "2^4097"), "--modulus must be at most 2^4096, got 2^"),
        ],
        ids=["output", "folder", "ca", "min-honest", "modulus"],
    )  # fmt: skip
    def test_refused(self, run, words, said):
        assert f": error: {said}" in run(*words, status=2).err


def test_names_are_the_librarys():
    assert ("best", *counts.ANALYSES, "exact") == names.ANALYSES
    assert names.SHUFFLERS == counts.SHUFFLERS
    assert tuple(one.key for one in PROTOCOLS) == names.PROTOCOLS + names.VECTOR_PROTOCOLS
    assert names.MAX_WORKERS == MAX_WORKERS
