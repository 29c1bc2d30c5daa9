"""``ikos verify``: what it prints of certificates that are valid, and of others one line."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest

pytest.importorskip("coincurve")
pytest.importorskip("starlette")

from deployment_tasks import KEYS, SIGNERS
from verified.test_certificate import INVALID, PROTOCOLS, made, number, text

from ikos import Categories
from ikos.cli import verify
from ikos.cli.errors import KEYS as COMMON
from ikos.deployment import Task


@pytest.fixture
def saved(tmp_path):
    def saved(of):
        path = tmp_path / "a.certificate"
        path.write_bytes(text(of))
        return path

    return saved


def words(out):
    return " ".join(out.split())


def test_what_is_proved_and_what_is_not(run, saved):
    said = words(run("verify", saved(number())).out)
    assert "A valid certificate of 5 reports" in said
    assert "each of the reports commits to a value from -1 to 7, in 9 steps, plus noise of" in said
    assert "logarithms on secp256k1 are hard and SHA-256 and SHA-512 are random oracles" in said
    assert "Estimated: the sum has the noise of all reports, less the noise's mean;" in said
    assert "Signed: all 2 parties signed this list of reports" in said
    assert "Not proved: that each report is of another eligible person, that none is left" in said
    assert "Not compared with a task" in said


def test_nobody_signed_a_run(run, saved):
    path = saved(replace(number(), keys=(), signatures=()))
    said = words(run("verify", path).out)
    assert "Signed:" not in said
    assert "Nobody signed it: whoever made this file can list other reports" in said
    assert run("verify", path, "--json").json["keys"] == []


def test_sums_of_categories_and_exact_sums(run, saved):
    said = words(run("verify", saved(made(*PROTOCOLS["class"]))).out)
    assert "commits to one of 3 categories, in 1 step, plus noise of 0 to 3 for each;" in said
    of = made(*PROTOCOLS["vector"])
    result = run("verify", saved(of), "--json").json
    assert [row["sum"] for row in result["rows"]] == of.sums == [6, 5]
    assert (result["lower"], result["precision"]) == (None, None)
    said = words(run("verify", saved(of)).out)
    assert "commits to a value from 0 to 3;" in said
    assert "Estimated" not in said


def test_json(run, saved):
    result = run("verify", saved(number()), "--json").json
    assert set(result) == set(verify.command.keys)
    assert set(COMMON) < set(result)
    assert set(result["rows"][0]) == set(verify.command.columns)
    of = number()
    assert (result["reports"], result["min_honest"], result["lower"]) == (5, 4, -1)
    assert result["rows"][0]["steps"] == of.sums[0]
    assert result["keys"] == [key.hex() for key in of.keys]
    assert result["parameters"] == PROTOCOLS["number"][0].parameter_hash
    assert (result["task"], result["window"]) == (None, None)


def test_the_line_that_does_not_fit(run, tmp_path):
    lines = text(number()).splitlines(keepends=True)
    path = tmp_path / "bad"
    path.write_bytes(b"".join([*lines[:2], lines[2][:-3] + b"00\n", *lines[3:]]))
    assert run("verify", path, status=2).err == (f"ikos verify: error: line 3: {INVALID}\n")
    path.write_bytes(b"".join([lines[0].replace(b'"n": 6', b'"n": -6'), *lines[1:]]))
    assert run("verify", path, status=2).err == (
        "ikos verify: error: line 1: n must be at least 1, got -6\n"
    )
    assert "no such file" in run("verify", tmp_path / "none", status=2).err


# With a task


def described(users, *budget, **values):
    public = [key.public_key().public_bytes_raw() for key in SIGNERS]
    return Task.new(
        users, *budget, transport="verified", windows=3, kem=KEYS[0].kem,
        public_keys=[key.public_bytes for key in KEYS[:3]], signing_keys=public[:2],
        analyzer="http://127.0.0.1:9000", shufflers=["http://127.0.0.1:9001"],
        closes=timedelta(hours=1), **values,
    )  # fmt: skip


@pytest.fixture(scope="module")
def task():
    return described(6, 20, 0.01, lower=-1, upper=7, min_honest=3, corrupt_clients=1)


def certified(task, number=2, users=5, name=None, signers=SIGNERS[:2]):
    """Return the certificate of a window."""
    values, name = [0, 7, 3.5, -1, 2][:users], name or task.at(number).bound
    return made(task.protocol, values, signers, name=name)


def test_a_window_of_a_task(run, saved, task, tmp_path):
    file = tmp_path / "task.json"
    file.write_text(task.to_json())
    path = saved(certified(task))
    for folder in (tmp_path, file):
        result = run("verify", path, "--task", folder, "--json").json
        assert (result["task"], result["window"]) == (task.name, 2)
    said = words(run("verify", path, "--task", file).out)
    assert f"those of window 2 of the task {task.name}." in said
    assert "Not compared" not in said


def test_names_of_categories(run, saved, tmp_path):
    names = ["yes", "no", "unknown"]
    votes = described(4, 30, 0.01, domain=Categories([3]), labels=names)
    (tmp_path / "task.json").write_text(votes.to_json())
    of = made(votes.protocol, np.eye(3)[[0, 1, 1, 2]], SIGNERS[:2], name=votes.at(0).bound)
    found = run("verify", saved(of), "--task", tmp_path, "--json").json
    assert [row["coordinate"] for row in found["rows"]] == names


@pytest.mark.slow
def test_certificates_of_something_else(run, saved, task, tmp_path):
    file = tmp_path / "task.json"
    file.write_text(task.to_json())
    for of, why in (
        (number(), "is not of the task, or of none of its windows"),
        (certified(task, name=task.id + bytes([0, 0, 0, 3])), "or of none of its windows"),
        (certified(task, name=task.at(0).bound + b"\0"), "or of none of its windows"),
        (certified(task, signers=SIGNERS[1:]), "not signed with the keys of the task"),
        (certified(task, signers=SIGNERS[1::-1]), "not signed with the keys of the task"),
        (certified(task, signers=()), "not signed with the keys of the task"),
        (certified(task, users=3), "has 3 reports, and the task needs 4"),
    ):
        assert why in run("verify", saved(of), "--task", file, status=2).err
