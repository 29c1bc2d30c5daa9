"""``ikos submit``: one report for one client, whatever is asked, and no secret in sight."""

from __future__ import annotations

import io
import os
import sys
import time

import pytest

pytest.importorskip("httpx", reason="needs the extra ikos[deployment]")

from deployment_tasks import made_of
from deployment_wired import LITTLE, SMALL, addresses, small, wired

from ikos.cli import errors, main, submit
from ikos.deployment import tokens
from ikos.deployment.reports import ClientReport
from ikos.deployment.task import Task

__all__ = ["small", "wired"]


@pytest.fixture(autouse=True)
def private():
    """Let nobody else read the files of a test, as those of secrets must be."""
    before = os.umask(0o077)
    yield
    os.umask(before)


@pytest.fixture
def client(small, tmp_path):
    """The folder of one client."""
    folder = tmp_path / "client"
    folder.mkdir()
    (folder / "task.json").write_bytes((small / "task.json").read_bytes())
    secret = (small / "clients" / "tokens.txt").read_text().split()[0]
    (folder / "token").write_text(secret + "\n")
    return folder


@pytest.fixture
def typed(monkeypatch):
    """Type something on standard input."""
    return lambda text: monkeypatch.setattr(sys, "stdin", io.StringIO(text))


class TestOne:
    @pytest.mark.slow
    def test_a_report_is_made_once(self, run, small, client, wired):
        parties = wired(small)
        found = run("submit", client, "--value", "2", "--json").json
        assert set(found) == set(submit.command.keys)
        assert (found["clients"], found["parties"], found["again"]) == (1, 6, False)
        assert found["store"] == str(client / "reports")
        (place,) = (client / "reports").glob("*.json")
        kept = place.read_bytes()
        text = run("submit", client, "--value", "3").out
        assert "its value stands, and this one was not used" in " ".join(text.split())
        assert place.read_bytes() == kept
        assert parties.analyzer.reports() == 1
        assert sorted(path.name for path in client.iterdir()) == ["reports", "task.json", "token"]

    def test_an_empty_name_is_no_folder(self, refused, client):
        """Of a variable that is not set: a second store could make a second report."""
        said = refused("submit", client, "--value", "2", "--store", "")
        assert "'--store': must name a folder, got ''" in said
        assert "must name" in refused("submit", "", "--value", "2")

    def test_a_task_that_proves_less_than_it_says_gets_no_report(self, refused, client):
        """One shuffler fewer, and all else computed anew."""
        task = Task.new(2000, 1, 1e-8, min_honest=1900)
        (client / "task.json").write_text(made_of(task, messages=task.columns)[0])
        said = refused("submit", client, "--value", "1")
        assert "delta must be at least the " in said
        assert sorted(path.name for path in client.iterdir()) == ["task.json", "token"]

    @pytest.mark.slow
    def test_no_secret_is_printed_or_in_a_name(self, run, small, client, wired):
        wired(small)
        secret = (client / "token").read_text().strip()
        found = run("submit", client, "--value", "2", "--json")
        assert secret not in found.out + found.err
        names = [path.name for path in (client / "reports").iterdir()]
        assert len(names) == 2
        key = tokens.from_text(secret)
        assert not any(key.hex()[:8] in name or secret[:6] in name for name in names)

    @pytest.mark.slow
    def test_from_standard_input(self, run, small, client, wired, typed):
        parties = wired(small)
        secrets = (small / "clients" / "tokens.txt").read_text().split()
        typed("3\n")
        run("submit", client, "--value", "-")
        typed(secrets[1] + "\n")
        found = run("submit", client / "task.json", "--value", "1", "--token", "-", "--json").json
        assert found["again"] is False  # another client has another store
        assert parties.analyzer.reports() == 2

    def test_a_value_that_the_task_does_not_allow(self, refused, small, client, wired):
        parties = wired(small)
        for value in ("4", "1.50", "-1e0", "much", "1e999999"):
            said = refused("submit", client, "--value", value)
            assert said.startswith("--value must be ")
        assert parties.wires.requests == []
        assert sorted(path.name for path in client.iterdir()) == ["task.json", "token"]

    @pytest.mark.slow
    def test_a_value_that_is_not_allowed_is_refused_after_a_report_too(
        self, run, refused, small, client, wired
    ):
        parties = wired(small)
        run("submit", client, "--value", "1")
        sent = len(parties.wires.requests)
        for value in ("9", "1.5", "-1"):
            assert refused("submit", client, "--value", value).startswith("--value must be ")
        assert len(parties.wires.requests) == sent
        assert "its value stands" in " ".join(run("submit", client, "--value", "2").out.split())

    @pytest.mark.slow
    def test_a_secret_of_nobody(self, refused, small, client, wired):
        wired(small)
        (client / "token").write_text("A" * 43 + "\n")
        assert "(unauthorized)" in refused("submit", client, "--value", "1")
        (client / "token").write_text("secret?\n")
        said = refused("submit", client, "--value", "1")
        assert said == f"'{client / 'token'}' must be a client's secret: look at line 1"

    def test_a_secret_that_others_can_read(self, refused, small, client, wired):
        wired(small)
        (client / "token").chmod(0o640)
        said = refused("submit", client, "--value", "1")
        assert f"'{client / 'token'}' must be readable by its owner alone" in said
        assert "its mode is 0640: run chmod 600 " in said
        assert not (client / "reports").exists()

    def test_a_secret_is_no_argument(self, refused, small, client, wired):
        wired(small)
        secret = (client / "token").read_text().strip()
        said = refused("submit", client, "--value", "1", "--token", secret)
        assert said.startswith("--token must be a file with the client's secret, not the secret it")
        assert secret not in said

    def test_interrupted(self, run, small, client, wired, monkeypatch):
        """What may have been sent is said; before a report was made there is nothing to say."""
        wired(small)
        command = ("submit", client, "--value", "1")
        with monkeypatch.context() as patched:
            patched.setattr(ClientReport, "make", interrupted)
            assert run(*command, status=130).err == "ikos: error: interrupted\n"
        monkeypatch.setattr(time, "sleep", interrupted)  # the report is on disk by then
        assert run(*command, status=130).err == (
            "ikos submit: interrupted; parts of the report may have reached some parties: submit "
            "again to resume\n"
        )

    def test_standard_input_is_for_one_of_them(self, refused, client, typed):
        said = refused("submit", client, "--value", "-", "--token", "-")
        assert said.startswith("--value and --token cannot both ")
        for wrong in ("x", ""):
            typed(wrong)
            said = refused("submit", client, "--value", "1", "--token", "-")
            assert said == "--token must be a client's secret"
        assert refused("submit", client, "--value", "-").startswith("--value must be ")


def interrupted(*_):
    raise KeyboardInterrupt


class TestPromise:
    @pytest.mark.points(1)
    @pytest.mark.parametrize("many", [False, True])
    def test_a_task_that_promises_too_little(self, refused, small, client, wired, tmp_path, many):
        """Problem before anything is sent or kept."""
        parties = wired(small)
        table = tmp_path / "values.csv"
        table.write_text("visits\n3\n")
        one = (client, "--value", "1")
        command = (small / "clients", "--values", table, "--column", "visits") if many else one
        said = refused("submit", *command, "--max-epsilon", "7.99")
        assert said == (
            "--max-epsilon must be at least the epsilon that the task guarantees, 8, got 7.99"
        )
        said = refused("submit", *command, "--max-epsilon", "8", "--max-delta", "1e-8")
        assert "max-delta must be at least the delta that the task guarantees, 0." in said
        assert parties.wires.requests == []
        assert sorted(path.name for path in client.iterdir()) == ["task.json", "token"]

    @pytest.mark.slow
    def test_it_is_shown_before_anything_is_sent(self, run, small, client, wired, monkeypatch):
        parties = wired(small)
        asked = []
        monkeypatch.setattr(
            submit, "on_terminal", lambda _: asked.append(parties.wires.requests[:])
        )
        run("submit", client, "--value", "1")
        assert asked == [[]]
        monkeypatch.setattr(submit, "on_terminal", lambda _: True)
        flat = " ".join(parties.task.explain().split())
        shown = " ".join(submit_and_say(monkeypatch, client).split())
        assert flat in shown
        assert shown.index(flat) < shown.index("All 6 parties")


def submit_and_say(monkeypatch, client):
    """Return all that is said, in order."""
    said = []
    monkeypatch.setattr(submit, "say", said.append)
    monkeypatch.setattr(errors, "print_report", lambda report: said.append(str(report)))
    monkeypatch.setattr(sys, "argv", ["ikos", "submit", str(client), "--value", "1"])
    with pytest.raises(SystemExit) as end:
        main()
    assert not end.value.code
    return "\n".join(said)


class TestMany:
    @pytest.fixture
    def votes(self, run, tmp_path):
        """The folder of a small task of categories that are numbers."""
        given = (*SMALL[: SMALL.index("--lower")], "--categories", "0,1", *addresses())
        run("task", "new", *given, "--output", tmp_path / "votes", warning=LITTLE)
        return tmp_path / "votes"

    @pytest.fixture
    def table(self, tmp_path):
        path = tmp_path / "values.csv"
        path.write_text("visits\n" + "3\n" * 25)
        return path

    def test_refused(self, refused, small, wired, table):
        parties = wired(small)
        many = ("submit", small / "clients", "--values", table, "--column")
        assert "has no column 'other'" in refused(*many, "other")
        table.write_text("visits\n" + "3\n" * 24 + "9\n")
        said = refused(*many, "visits")
        assert said.endswith("row 25 has a value in column 'visits', which must be in [0, 3]")
        assert "has 9 in column 'visits'" in refused(*many, "visits", "--show-values")
        table.write_text("visits\n" + "3\n" * 61)
        assert "has 61 rows, and there are 60 clients" in refused(*many, "visits")
        assert parties.wires.requests == []
        (small / "clients" / "tokens.txt").write_text("hidden\n" * 61)
        said = refused(*many, "visits")
        assert "must be the clients' secrets, one in each line: look at line 1" in said
        assert "hidden" not in said

    @pytest.mark.slow
    def test_labels(self, run, refused, votes, wired, table):
        """Those that are numbers are found as numbers; what is refused has a row."""
        parties = wired(votes)
        many = ("submit", votes / "clients", "--values", table, "--column", "visits")
        for word, lost in [("2", ""), ("yes", ""), ("NaN", ", not missing")]:
            table.write_text(f"visits\n1.0\n{word}\n")
            said = refused(*many)
            assert "row 2 has a value in column 'visits', which must be one of the labels" in said
            assert said.endswith(f"('0', '1'){lost}")
        table.write_text("visits\n0.0\n1.0\n01\n")
        assert run(*many, "--json").json["clients"] == parties.analyzer.reports() == 3

    @pytest.mark.slow
    def test_columns_are_as_many_as_the_task_has(self, run, refused, votes, small, wired, table):
        """Also of vectors, whose columns are found by the names of the coordinates."""
        table.write_text("b;a\n1;0.5\n0;0.25\n")
        many = ("--values", table, "--delimiter", ";", "--column", "a", "--column")
        for folder, of in [(small, "numbers"), (votes, "categories")]:
            said = refused("submit", folder / "clients", *many, "b")
            assert said == f"--column must be given once for a task of {of}"
        pair = votes.parent / "pair"
        bounds = ("--lower", "0", "--upper", "1", "--coordinates", "b,a")
        budget = SMALL[: SMALL.index("--lower")]
        run("task", "new", *budget, *bounds, *addresses(8), "--output", pair, warning=LITTLE)
        for more in (("a",), ("b", "--column", "c")):
            said = refused("submit", pair / "clients", *many, *more)
            assert "once for each of 2 different columns for a task of vectors of 2" in said
        parties, sent = wired(pair), []
        submit_many = "ikos.deployment.client.submit_many"
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(submit_many, lambda _, __, x, **___: sent.append(x.tolist()) or len(x))
            run("submit", pair / "clients", *many, "b")
        assert (sent, parties.wires.requests) == ([[[1, 0.5], [0, 0.25]]], [])

    @pytest.mark.slow
    def test_it_goes_on(self, run, refused, small, wired, table):
        """With the same shares, so that a party that was away makes no secret useless."""
        parties = wired(small)
        many = ("submit", small / "clients", "--values", table, "--column", "visits")
        parties.wires.cut.add(parties.task.address(2))
        said = refused(*many, "--wait", "0.1")
        assert said.startswith(
            "all parties have the reports of 0 of 25 clients, and the same command resumes with "
            "the others. Row 1: 5 of 6 parties have the report"
        )
        parties.wires.cut.clear()
        reports = small / "clients" / "reports"
        kept = {path: path.read_bytes() for path in reports.iterdir()}
        assert kept
        table.write_text("visits\n" + "1\n" * 25)
        text = run(*many).out
        assert "Reports made by an earlier call keep the values" in " ".join(text.split())
        assert all(path.read_bytes() == content for path, content in kept.items())
        assert parties.analyzer.reports() == 25
        # what is done is not sent again, and more rows are
        before = len(parties.wires.requests)
        table.write_text("visits\n" + "1\n" * 26)
        found = run(*many, "--json").json
        assert (found["clients"], found["again"]) == (26, True)
        assert found["store"] == str(reports)
        assert len(parties.wires.requests) == before + 6

    def test_interrupted(self, run, small, wired, table, monkeypatch):
        wired(small)
        monkeypatch.setattr("ikos.deployment.client.submit_many", interrupted_many)
        many = ("submit", small / "clients", "--values", table, "--column", "visits")
        assert run(*many, status=130).err == (
            "ikos submit: interrupted; all parties have the reports of 3 of 25 clients, and the "
            "same command resumes with the others\n"
        )


def interrupted_many(*_, progress, **__):
    progress(3, 25)
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), "give --value for one client, or --values and --column for many"),
        (("--value", "1", "--values", "t.csv"), "give --value for one client, or "),
        (("--values", "t.csv"), "--values and --column belong together"),
        (("--value", "1", "--column", "a"), "--values and --column belong together"),
        (("--values", "t.csv", "--column", "a", "--token", "x"), "--token is for --value"),
    ],
)
def test_options_that_do_not_fit(refused, tmp_path, options, said):
    assert said in refused("submit", tmp_path, *options)
