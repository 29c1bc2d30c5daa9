"""``ikos task``: the folders it writes, what it asks the analyzer for, and what it refuses."""

from __future__ import annotations

import json
import re
import signal
import stat
import sys

import numpy as np
import pytest
from command_lines import once

pytest.importorskip("httpx", reason="needs the extra ikos[deployment]")

from deployment_wired import LITTLE, SMALL, addresses, small, wired

from ikos import Ball, Box
from ikos.cli import main
from ikos.cli import task as commands
from ikos.deployment import tokens
from ikos.deployment.client import send_part
from ikos.deployment.opening import PrivateKey, unsealed
from ikos.deployment.party_files import PartyConfig, read_task
from ikos.deployment.remote import Unanswered
from ikos.deployment.reports import ClientReport
from ikos.deployment.wire import encoded
from ikos.results.sums import Interval

__all__ = ["small", "wired"]

NEW = ("task", "new", *SMALL)


@pytest.fixture
def release(small, monkeypatch, capsys):
    """Release, and return the status, what was printed, the steps that were said, and the rest."""

    def release(*options):
        arguments = ["ikos", "task", "release", str(small / "operator"), *options]
        monkeypatch.setattr(sys, "argv", arguments)
        interrupts = signal.getsignal(signal.SIGINT)
        try:
            with pytest.raises(SystemExit) as end:
                main()
        finally:
            signal.signal(signal.SIGINT, interrupts)
        captured = capsys.readouterr()
        lines = captured.err.splitlines()
        steps = [line for line in lines if re.match("ikos task release: (?!error)", line)]
        return end.value.code or 0, captured.out, steps, [x for x in lines if x not in steps]

    return release


@pytest.fixture
def open_(small, wired):
    """A task that collects reports."""
    return wired(small)


@pytest.fixture
def sent(run, small, open_, tmp_path):
    """A task of which 45 clients have reported 0, 1, 2, 0, ...: 45 in all."""
    table = tmp_path / "values.csv"
    table.write_text("visits\n" + "".join(f"{i % 3}\n" for i in range(45)))
    run("submit", small / "clients", "--values", table, "--column", "visits")
    return open_


def resealed(folder, window, party, report, number):
    """Return the opening in a report's envelope in one for another id."""
    terms, kem = window.task.transport, window.task.kem
    name = f"{terms.intermediary}-{party}"
    key = PrivateKey(tokens.from_text((folder / name / "private-key").read_text().strip()), kem)
    opening = unsealed(report.parts[party], key, terms.info(window, party, report.id))
    (*_, envelope) = terms.envelopes(window, number, [opening] * party)
    return envelope


class TestNew:
    def test_folders_and_words(self, run, tmp_path):
        folder = tmp_path / "visits"
        text = run(*NEW, *addresses(), "--output", folder, warning=LITTLE).out
        task = read_task(folder)
        assert (task.users, task.min_honest, task.columns) == (60, 40, 5)
        flat = " ".join(text.split())
        assert " ".join(task.explain().split()) in flat
        assert all(len(line) <= 80 or str(folder) in line for line in text.splitlines())
        for name in ("analyzer", "operator", *(f"shuffler-{j}" for j in range(1, 6))):
            assert f"Give {folder / name} to " in flat
            assert read_task(folder / name) == task
            assert stat.S_IMODE((folder / name).stat().st_mode) == 0o700
        assert f"Give {folder / 'shuffler-3'} to shuffler 3, http://127.0.0.1:9003." in flat

    def test_no_secret_is_printed(self, run, tmp_path):
        folder = tmp_path / "visits"
        for output, more in ((folder, ()), (tmp_path / "other", ("--json",))):
            text = run(*NEW, *addresses(), "--output", output, *more, warning=LITTLE).out
            secrets = (output / "clients" / "tokens.txt").read_text().split()
            secrets += [
                (output / "operator" / "control").read_text().strip(),
                (output / "analyzer" / "private-key").read_text().strip(),
                *json.loads((output / "analyzer" / "controls.json").read_text()),
            ]
            assert len(secrets) == 60 + 2 + 5
            assert not any(secret in text for secret in secrets)

    def test_json(self, run, tmp_path):
        folder = tmp_path / "visits"
        hours = ("--opens", "2030-01-01T00:00:00Z", "--hours", "1.5")
        found = run(*NEW, *addresses(), "--output", folder, *hours, "--json", warning=LITTLE).json
        task = read_task(folder)
        assert found["task"] == task.name
        assert found["shuffled"] == 5
        assert found["shufflers"] == list(task.shufflers)
        assert (found["opens"], found["closes"]) == (
            "2030-01-01T00:00:00+00:00", "2030-01-01T01:30:00+00:00",
        )  # fmt: skip
        assert found["delta"] <= found["requested_delta"] == 0.5
        assert set(found) == set(commands.new.keys)

    def test_a_histogram_in_windows_with_a_ledger(self, run, tmp_path):
        run("budget", "new", tmp_path / "ledger", "--epsilon", "9", "--delta", "0.9")
        folder = tmp_path / "votes"
        few = ("--users", "60", "--min-honest", "40", "--epsilon", "8", "--delta", "0.5")
        run(
            "task", "new", *few, "--categories", "yes, no,unknown", "--windows", "24", "--hours",
            "1", "--ledger", tmp_path / "ledger", "--note", "votes", *addresses(9),
            "--output", folder, warning=LITTLE,
        )  # fmt: skip
        task = read_task(folder)
        assert (task.domain.sizes, task.labels) == ((3,), ("yes", "no", "unknown"))
        assert (task.windows, task.period) == (24, 3600)
        assert len(set(task.public_keys)) == 24
        assert PartyConfig.read(folder / "analyzer").keys.remaining == set(range(24))
        analyzer = PartyConfig.read(folder / "analyzer")
        assert (analyzer.ledger, analyzer.note) == (tmp_path / "ledger", "votes")
        assert PartyConfig.read(folder / "shuffler-1").ledger is None

    def test_few_keys_of_the_other_kind(self, run, tmp_path):
        how = ("--windows", "5", "--keys", "2", "--kem", "x25519")
        made = run("task", "new", *SMALL, *addresses(), *how, "--output", tmp_path / "visits",
                   "--json", warning=LITTLE).json  # fmt: skip
        assert (made["kem"], made["keys"]) == ("x25519", 2)
        keys = PartyConfig.read(tmp_path / "visits" / "analyzer").keys
        assert [len(keys.read(number).public_bytes) for number in keys.remaining] == [32, 32]
        dry = run("task", "new", "--dry-run", *SMALL, *how, "--json", warning=LITTLE).json
        assert dry["keys"] == 2

    @pytest.mark.parametrize(
        ("given", "domain"),
        [
            (("--coordinates", "3", "--lower", "-1", "--upper", "1"), Box(3, -1, 1)),
            (("--coordinates", "a,b", "--lower", "-1", "--upper", "1"), Box(2, -1, 1)),
            (("--coordinates", "5", "--norm", "2"), Ball(5, 2)),
        ],
    )
    @pytest.mark.parametrize(("kem", "overhead"), [("mlkem768-x25519", 1136), ("x25519", 48)])
    def test_costs_are_shown_before_a_task_is_made(self, run, given, domain, kem, overhead):
        few = ("--users", "500", "--min-honest", "90%", "--epsilon", "1", "--delta", "1e-6")
        found = run("task", "new", "--dry-run", *few, *given, "--kem", kem, "--json").json
        assert found["blocks"] == domain.dimension
        assert found["messages"] == found["shuffled"] * domain.dimension + 1
        width = ((int(found["modulus"]) - 1).bit_length() + 7) // 8
        each = domain.dimension * (overhead + width)
        assert found["bytes_per_shuffler"] == 500 * each
        assert found["bytes_per_client"] == found["shuffled"] * each + domain.dimension * width
        assert found["release_seconds"] > 0
        assert found["disk_per_shuffler"] == 500 * (96 + each)
        assert found["disk_analyzer"] == 500 * (96 + domain.dimension * width)

    @pytest.mark.slow
    def test_what_does_not_fit_is_refused_with_what_does(self, run, refused):
        new = ("task", "new", "--dry-run", "--users", "10^6", "--min-honest", "90%", "--epsilon",
               "1", "--delta", "1e-9", "--categories", "0..99")  # fmt: skip
        first, *advice = refused(*new).strip().split("; ")
        assert first.endswith(": a batch is at most 1,000,000,000 bytes")
        transports = ["shares", "helpers", "verified", "frequencies"]
        assert [words.split()[1] for words in advice] == transports
        for words in advice:
            options, effect = words.split(" fits: ")
            found = run(*new, *options.split(), "--json").json
            assert effect == f"{found['bytes_per_client']:,} bytes per client"

    @pytest.mark.slow
    def test_masked_vectors(self, run, refused):
        few = ("--users", "500", "--min-honest", "90%", "--epsilon", "1", "--delta", "1e-6")
        new = ("task", "new", "--dry-run", *few, "--transport", "masks", "--kem", "x25519")
        bounds = ("--lower", "0", "--upper", "1", "--integers")
        vectors = ("--coordinates", "3000", *bounds)
        found = run(*new, *vectors, "--json").json
        assert found["transport"] == "masks"
        assert found["messages"] == found["shuffled"] * found["blocks"] + 1
        assert "assuming Ring-LWE with N = 2048" in " ".join(found["conditions"])
        assert refused(*new, *vectors, "--layout", "2") == (
            "--layout must not be given with masks, got 2"
        )
        assert "--transport must not be 'masks'" in refused(*new, *bounds)

    def test_coordinates_in_an_envelope(self, run, refused, tmp_path):
        few = ("--users", "500", "--min-honest", "90%", "--epsilon", "1", "--delta", "1e-6")
        new = ("task", "new", *few, "--coordinates", "5", "--lower", "0", "--upper", "1")
        found = run(*new, "--dry-run", "--layout", "2", "--json").json
        assert (found["block_length"], found["blocks"]) == (2, 3)
        given = addresses(found["shuffled"] + 1)
        run(*new, "--layout", "blocks", *given, "--output", tmp_path / "sums")
        assert read_task(tmp_path / "sums").transport.block_length > 1
        assert refused(*new, "--dry-run", "--layout", "6") == "--layout must be at most 5, got 6"
        assert "'--layout'" in refused(*new, "--dry-run", "--layout", "rows")

    @pytest.mark.parametrize(
        ("given", "said"),
        [
            *((given, "give --lower and --upper for numbers, ") for given in (
                (), ("--lower", "0"), ("--categories", "a,b", "--norm", "1"), ("--norm", "1"),
                ("--coordinates", "5"), ("--categories", "a,b", "--coordinates", "2"),
                ("--categories", "a,b", "--lower", "0"), ("--norm", "1", "--upper", "2"),
            )),
            (("--categories", "one"), "--categories must be two or more labels, got 'one'"),
            (("--categories", "a,a"), "--categories must be distinct"),
            (("--lower", "0", "--upper", "1", "--keys", "2"), "--keys must be at most 1, got 2"),
            *((("--lower", "0", "--upper", "1", "--coordinates", names), said) for names, said in (
                ("1,000", "invalid value for '--coordinates': names must not be numbers"),
                ("a,1", "invalid value for '--coordinates': names must not be numbers"),
                ("a,a", "--coordinates must be distinct"), ("0", "--coordinates must be at least"),
            )),
        ],
    )  # fmt: skip
    def test_domains(self, refused, given, said):
        few = ("--users", "500", "--min-honest", "90%", "--epsilon", "1", "--delta", "1e-6")
        assert refused("task", "new", "--dry-run", *few, *given).startswith(said)

    def test_every_option_reaches_the_task(self, run, tmp_path):
        folder = tmp_path / "visits"
        run(
            "task", "new", "--users", "1e2", "--epsilon", "1", "--delta", "1e-3", "--lower", "-1",
            "--upper", "1.5", "--precision", "50", "--modulus", "2^20", "--corrupt-shufflers", "1",
            "--min-honest", "90", *addresses(8), "--closes", "2099-01-01T00:00:00Z",
            "--output", folder,
        )  # fmt: skip
        task = read_task(folder)
        assert (task.domain.lower, task.domain.upper, task.integers) == (-1, 1.5, False)
        assert (task.precision, task.modulus, task.corrupt_shufflers) == (50, 2**20, 1)
        assert (task.users, task.min_honest, task.columns) == (100, 90, 8)
        assert task.closes.year == 2099

    def test_a_dry_run_needs_no_addresses_and_writes_nothing(self, run, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        text = run(*NEW, "--dry-run", warning=LITTLE).out
        assert text.startswith("4 shufflers are needed, and an analyzer.\n")
        assert "differential privacy" in text
        assert "invalid" not in text
        found = run(*NEW, "--dry-run", "--json", warning=LITTLE).json
        assert found["shuffled"] == 4
        assert [found[key] for key in ("task", "output", "shufflers", "analyzer")] == [None] * 4
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize(
        ("more", "said"),
        [
            (addresses(3), r"--shuffler or --helper or --relay must be at least 4 .*, got 3"),
            (addresses()[:-2], r"missing option '--analyzer' \(or --dry-run\)"),
            ((*addresses(), "--dry-run"), r"--dry-run writes nothing: omit --output"),
            ((*addresses()[:-1], "http://far.example"), r"--analyzer must begin with https://.*"),
            ((*addresses(), "--helper", "x"), r"--shuffler or --helper or --relay must be .*'x'"),
            ((*addresses(), "--closes", "soon"), r"invalid value for '--closes': 'soon' is not a "),
            ((*addresses(), "--opens", "2001-01-01T00:00:00Z"), r"--closes must be in the future"),
            (
                (*addresses(), "--closes", "2099-01-01T00:00:00Z", "--hours", "1"),
                r"give either --closes or --hours",
            ),
            ((*addresses(), "--hours", "0"), r"--hours must be greater than 0, got 0"),
            ((*addresses(), "--opens", "2099-01-01T00:00:00Z", "--closes", "2098-01-01T00:00:00Z"),
             r"--closes must be later than 2099-01-01T00:00:00Z, got 2098-01-01T00:00:00Z"),
            ((*addresses(), "--closes", "2001-01-01T02:00:00+02:00"),
             r"--closes must be later than 20..-..-..T..:..:..Z, got 2001-01-01T00:00:00Z"),
            ((*addresses(), "--min-honest", "61"), r"--min-honest must be "),
            ((*addresses(), "--modulus", "4"), r"--modulus must be "),
        ],
    )  # fmt: skip
    def test_refused(self, refused, tmp_path, more, said):
        line = once(*NEW, "--output", tmp_path / "visits", *more)
        assert re.match(said, refused(*line))
        assert list(tmp_path.iterdir()) == []


class TestAsked:
    @pytest.mark.slow
    def test_from_collecting_to_released(self, run, release, sent, small):
        text = run("task", "status", small / "task.json").out
        assert text.startswith("Collecting: 45 reports\n")
        assert "At least 40 of 60 reports must be complete." in text
        assert run("task", "close", small / "operator", "--json").json["state"] == "closed"
        status, text, steps, rest = release()
        assert (status, rest) == (0, [])
        assert steps
        found = run("task", "release", small / "operator", "--json").json
        assert found["state"] == "released"
        assert found["complete"] == found["reports"] == 45
        result = found["result"]
        assert abs(result["estimate"] - 45) <= 4
        assert set(found) == set(commands.status.keys)
        named = set(re.findall(r"\w+", " ".join(commands.status.keys.values())))
        assert set(result) | set(found["release"]) <= named

        def of_result(text):  # shares may still be deleted
            return re.sub(r"\n  Release: .*", "", text)

        said = of_result(run("task", "status", small).out)
        assert said == of_result(text)
        assert said.startswith("Released: 45 reports, 45 of them complete\n")
        assert all(len(line) <= 80 for line in said.splitlines())
        low, high = str(Interval(result["sum_low"], result["sum_high"])).strip("[]").split(", ")
        row = rf"^  sum +{int(result['estimate'])} +{low} +{high}$"
        assert re.search(row, text, re.MULTILINE)
        assert found["rows"][0]["estimate"] == result["estimate"]
        flat = " ".join(said.split())
        assert all(condition in flat for condition in result["conditions"])
        already = "the task was released already: there was nothing to close"
        closed = run("task", "close", small / "operator", warning=already).out
        assert of_result(closed) == said

    @pytest.mark.slow
    def test_helpers_from_new_to_released(self, run, wired, tmp_path):
        """The commands of other tasks, in words of helpers."""
        folder, table = tmp_path / "votes", tmp_path / "votes.csv"
        table.write_text("vote\n" + "".join(f"{'ab'[i % 2]}\n" for i in range(45)))
        parties = [word for j in (1, 2) for word in ("--helper", f"http://127.0.0.1:{9000 + j}")]
        new = ("--users", "60", "--min-honest", "40", "--epsilon", "8", "--delta", "1e-6",
               "--categories", "a,b", "--transport", "helpers", "--noise", "parties")  # fmt: skip
        made = run("task", "new", *new, *parties, "--analyzer", "http://127.0.0.1:9000",
                   "--output", folder)  # fmt: skip
        assert f"{folder / 'helper-2'} to helper 2, http://127.0.0.1:9002." in " ".join(
            made.out.split()
        )
        running = wired(folder)
        run("submit", folder / "clients", "--values", table, "--column", "vote")
        assert [one.reports() for one in running.endpoints.values()] == [45] * 3
        page = running.http.get("http://127.0.0.1:9000" + running.task.at(0).path + "/page").text
        assert "Helper 2" in page
        assert "Shuffler" not in page
        metrics = running.http.get("http://127.0.0.1:9001/metrics").text
        assert 'ikos_reports{task="' + running.task.name + '"} 45.0' in metrics
        running.analyzer.release()
        found = run("task", "release", folder / "operator", "--json").json
        assert found["state"] == "released"
        assert np.abs(np.array(found["result"]["estimate"]) - [23, 22]).max() <= 10
        states = [one.state for one in running.endpoints.values()]
        assert states.count("sent") == 2

    @pytest.mark.slow
    def test_a_verified_sum_from_new_to_its_certificate(self, run, refused, wired, tmp_path):
        """A relay that was sent another opening refuses the report, which is shown."""
        pytest.importorskip("coincurve")
        folder, table = tmp_path / "visits", tmp_path / "visits.csv"
        table.write_text("visits\n" + "".join(f"{i % 8}\n" for i in range(44)))
        parties = [word for j in (1, 2) for word in ("--relay", f"http://127.0.0.1:{9000 + j}")]
        new = ("--users", "60", "--min-honest", "40", "--epsilon", "8", "--delta", "1e-6",
               "--lower", "0", "--upper", "7", "--integers", "--transport", "verified")  # fmt: skip
        made = run("task", "new", *new, *parties, "--analyzer", "http://127.0.0.1:9000",
                   "--output", folder)  # fmt: skip
        said = " ".join(made.out.split())
        assert f"{folder / 'relay-2'} to relay 2, http://127.0.0.1:9002." in said
        assert "modulus order of secp256k1 opens" in said
        assert "One client moves the sum by at most " in said
        assert "Verified: each report commits to a valid value, and the sum is theirs, if" in said
        running = wired(folder)
        window = running.task.at(0)
        run("submit", folder / "clients", "--values", table, "--column", "visits")
        one, other = (ClientReport.make(window, 7) for _ in range(2))
        planted = resealed(folder, window, 1, other, one.id)
        liar = ClientReport(one.id, (one.parts[0], planted, one.parts[2]))
        secret = tokens.from_text((folder / "clients/tokens.txt").read_text().split()[50])
        for party in range(3):
            send_part(running.http, window, secret, liar, party)
        file = tmp_path / "certificate"
        certificate = ("task", "certificate", folder / "task.json", file)
        assert "there is no certificate (notFound)" in refused(*certificate)
        assert not file.exists()
        running.analyzer.release()
        found = run("task", "release", folder / "operator", "--json").json
        assert (found["state"], found["refused"]) == ("released", 1)
        assert found["refusals"] == {encoded(one.id): 1}
        assert (found["result"]["users"], found["result"]["refused"]) == (44, 1)
        said = " ".join(run("task", "status", folder).out.split())
        assert said.startswith("Released: 45 reports, 44 of them complete, 1 refused")
        assert f"Refused by relay 1: {encoded(one.id)}." in said
        assert "Its certificate, for anyone to check: ikos task certificate." in said
        page = running.http.get("http://127.0.0.1:9000" + window.path + "/page").text
        assert "Of 45 reports at the analyzer, 44 are complete, 1 refused." in page
        assert f'href="{window.path}/certificate"' in page
        kept = run(*certificate, "--json").json
        assert (kept["output"], kept["bytes"]) == (str(file), file.stat().st_size)
        assert file.read_bytes() == (folder / "analyzer/certificate-0").read_bytes()
        checked = run("verify", file, "--task", folder / "task.json", "--json").json
        assert (checked["reports"], checked["window"]) == (44, 0)
        assert checked["task"] == running.task.name
        assert checked["rows"][0]["sum"] == found["result"]["estimate"]
        assert "FILE must not exist yet" in refused(*certificate)

    def test_before_it_opens(self, run, refused, wired, tmp_path):
        """Said of the status, and a release would end it for all."""
        folder = tmp_path / "later"
        later = ("--opens", "2099-01-01T00:00:00Z", "--output", folder)
        run(*NEW, *addresses(), *later, warning=LITTLE)
        wired(folder)
        assert run("task", "status", folder).out.startswith("Not open yet: 0 reports\n")
        assert "the window is still collecting" in refused("task", "release", folder / "operator")

    def test_a_collection_that_has_too_few(self, release, open_):
        """It goes on: who means to end it with nothing closes it."""
        status, out, steps, rest = release()
        assert (status, out, steps) == (2, "", [])
        assert len(rest) == 1
        assert re.match(
            "ikos task release: error: the window is still collecting, and has 0 of the 40 reports "
            r"that a release needs: .* It closes in (23:59:\d\d|1 day, 0:00:00); to end it "
            "anyway, close it first",
            rest[0],
        )
        assert open_.analyzer.state == "collecting"
        assert ("POST", open_.task.analyzer) not in open_.wires.requests

    @pytest.mark.slow
    def test_too_few(self, run, release, small, open_):
        run("task", "close", small / "operator")
        for _ in range(2):  # for good
            status, out, _, rest = release()
            assert (status, rest) == (1, [])
            assert out.startswith("Stopped: 0 reports")
            why = "0 reports are complete, and nothing is released for fewer than 40"
            assert why in " ".join(out.split())
        assert run("task", "status", small).out == out
        status, out, *_ = release("--json")
        assert status == 1
        assert json.loads(out)["state"] == "stopped"

    @pytest.mark.points(0)
    def test_a_shuffler_that_is_silent(self, run, refused, release, sent, small):
        sent.wires.cut.add(sent.task.address(2))
        assert release("--wait", "0.5")[3] == [
            "ikos task release: error: a release could not end, and nothing is closed: shuffler 2 "
            "does not answer: connection refused"
        ]
        assert sent.analyzer.state == "collecting"
        assert "POST" not in {method for method, _ in sent.wires.requests}
        said = refused("task", "close", small / "operator")
        assert "shuffler 2 does not answer: connection refused; it will keep notifying them" in said
        status, out, _, rest = release("--wait", "0.5")
        assert (status, out) == (2, "")
        assert rest == [
            "ikos task release: error: not released in 0.5 s: shuffler 2 does not answer: "
            "connection refused; release again to follow it"
        ]
        text = run("task", "status", small).out
        assert re.search(
            r"Release: .*shuffler 2 does not answer.*; retries in \d+ s\.",
            " ".join(text.split()),
        )
        sent.wires.cut.clear()
        sent.analyzer.release()
        assert run("task", "release", small / "operator", "--json").json["state"] == "released"

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("at", "words"),
        [
            ("unreachable", "nothing was requested"),
            ("release", "the release goes on at the analyzer"),
        ],
    )
    def test_an_interruption(self, release, sent, monkeypatch, at, words):
        def interrupt(*_):
            raise KeyboardInterrupt

        monkeypatch.setattr(f"ikos.deployment.remote.RemoteAnalyzer.{at}", interrupt)
        status, _, steps, rest = release()
        assert (status, rest) == (130, [])
        assert steps == [
            "ikos task release: asking all parties whether they can reach each other",
            f"ikos task release: interrupted; {words}",
        ]

    @pytest.mark.slow
    @pytest.mark.parametrize(("wait", "seconds"), [("0", 5.0), ("30", 30.0), ("600", 120.0)])
    def test_asking_all_parties_ends_with_the_wait(self, release, sent, monkeypatch, wait, seconds):
        def silent(_, given):
            assert given == pytest.approx(seconds, abs=2)
            raise Unanswered("the analyzer does not answer")

        monkeypatch.setattr("ikos.deployment.remote.RemoteAnalyzer.unreachable", silent)
        said = "ikos task release: error: nothing is closed: the analyzer does not answer"
        assert release("--wait", wait)[3] == [said]
        assert sent.analyzer.state == "collecting"

    @pytest.mark.slow
    def test_a_release_is_ordered_once(self, run, release, sent, small):
        """The analyzer tries again by itself: a hindrance and each step are said once."""
        run("task", "close", small / "operator")
        sent.wires.cut.add(sent.task.address(3))
        before = len(sent.wires.requests)
        status, _, steps, _ = release("--wait", "2.5")
        assert status == 2
        ordered = sent.wires.requests[before:].count(("POST", sent.task.analyzer))
        assert ordered == 1
        assert len(steps) == len(set(steps)) <= 3
        assert re.fullmatch(
            r"ikos task release: shuffler 3 does not answer: .*; retries in \d+ s", steps[-1]
        )

    def test_folders_that_are_none(self, refused, small, tmp_path):
        said = refused("task", "status", tmp_path)
        assert (
            said
            == f"cannot read {str(tmp_path / 'task.json')!r} as a task: no such file or directory"
        )
        said = refused("task", "close", small / "analyzer")
        control = small / "analyzer" / "control"
        assert (
            said == f"cannot read '{control}' as the operator's secret: no such file or directory"
        )
        (small / "operator" / "control").write_text("x")
        assert "must be the operator's secret" in refused("task", "close", small / "operator")
        (tmp_path / "task.json").write_text("{}")
        assert "is not a valid task: a task must be" in refused("task", "status", tmp_path)

    def test_an_answer_without_end(self, refused, open_, small, monkeypatch):
        long = {"missing": "x" * (1 << 16)}
        real = type(open_.analyzer).status
        monkeypatch.setattr(
            type(open_.analyzer), "status", lambda self: real(self).model_copy(update=long)
        )
        said = refused("task", "status", small)
        assert said == "the analyzer at http://127.0.0.1:9000 sent too long an answer"

    def test_authorities_that_are_none(self, refused, small, tmp_path):
        assert re.fullmatch(
            r"--ca must be a PEM file of authorities, got '.*/none.pem': no such file or directory",
            refused("task", "status", small, "--ca", tmp_path / "none.pem"),
        )
