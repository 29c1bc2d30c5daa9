"""Running the command line, in this process and as a program."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass

import pytest

from ikos import PrivateSum
from ikos.cli import main, output
from ikos.testing import DeterministicRandom


@dataclass
class Outcome:
    status: int
    out: str
    err: str

    @property
    def json(self):
        def refuse(constant):
            raise AssertionError(f"JSON has no {constant}")

        assert self.out.isascii()
        return json.loads(self.out, parse_constant=refuse)


@pytest.fixture
def run(monkeypatch, capsys):
    """Run a command line and return its outcome; one that succeeds unless told."""
    # on a slow machine a command may take long enough for lines of progress
    monkeypatch.setattr(output, "SECONDS_PER_LINE", 10_000)

    def run(*arguments, status=0, warning=None):
        monkeypatch.setattr(sys, "argv", ["ikos", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            main()
        captured = capsys.readouterr()
        outcome = Outcome(end.value.code or 0, captured.out, captured.err)
        assert outcome.status == status, outcome
        if status:
            assert outcome.out == ""
            assert outcome.err.count("\n") == 1
            assert outcome.err.endswith("\n")
            assert "Traceback" not in outcome.err
        elif warning is None:
            assert outcome.err == ""
        else:
            expected = [warning] if isinstance(warning, str) else warning
            said = outcome.err.splitlines()
            assert len(said) == len(expected)
            assert all(text in line for text, line in zip(expected, said, strict=True))
        return outcome

    return run


@pytest.fixture
def refused(run):
    """Run a command line that must be refused and return what is said."""

    def refused(*arguments):
        outcome = run(*arguments, status=2)
        command, _, message = outcome.err.rstrip("\n").partition(": error: ")
        assert f"{' '.join(map(str, ('ikos', *arguments)))} ".startswith(f"{command} ")
        assert message
        assert message.isprintable()
        return message

    return refused


@pytest.fixture
def seeded(monkeypatch):
    """Make private sums reproducible."""
    real = PrivateSum.run

    def seeded(self, x, rng=None, **options):
        assert rng is None, "the command line must use secure randomness"
        return real(self, x, DeterministicRandom(1), **options)

    monkeypatch.setattr(PrivateSum, "run", seeded)


@pytest.fixture
def people(tmp_path):
    """Return a file of 1000 people."""
    path = tmp_path / "people.csv"
    rows = (f"p{i},{20 + i % 50},{i % 7 / 4}\n" for i in range(1000))
    path.write_text("name,age,score\n" + "".join(rows))
    return path
