"""The client in JavaScript agrees with the library, and its reports count."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("starlette")

from deployment_tasks import KEY as HYBRID
from statistical import FALSE_ALARM, polya_law, skellam_law

from ikos import Box, Categories
from ikos.deployment import tokens
from ikos.deployment.hpke import PrivateKey
from ikos.deployment.reports import ClientReport
from ikos.deployment.wire import decoded

KEY = PrivateKey(HYBRID.raw, "x25519")
OTHER = PrivateKey(bytes(range(1, 33)), "x25519")
HERE = Path(__file__).resolve()
EXAMPLES = HERE.parents[2] / "examples"
VECTORS = HERE.with_name("wire_client.mjs")

node = shutil.which("node")
curves = (EXAMPLES / "node_modules" / "@noble" / "curves").exists()
needs_curves = pytest.mark.skipif(not curves, reason="needs npm install in examples/")
pytestmark = pytest.mark.skipif(node is None, reason="node, which runs JavaScript, is not here")


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [node, *map(str, arguments)], capture_output=True, text=True, timeout=300, check=False
    )


@pytest.mark.slow
def test_it_agrees_with_the_vectors():
    vectors = json.loads((HERE.parents[1] / "golden" / "wire.json").read_text("utf-8"))
    compared = len(vectors) - sum(one == "wire openings" for one, *_ in vectors) * (not curves)
    assert (run(VECTORS).stdout, len(vectors)) == (f"{compared}\n", 54)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "parameter", "clients"),
    [("laplace", "1/3", 2), ("skellam", "5/2", 1), ("skellam", "7", 3), ("skellam", "100/3", 1)],
)
def test_its_noise_has_the_distribution_of_the_page(kind, parameter, clients):
    drawn = np.array(json.loads(run(VECTORS, 20_000, kind, parameter, clients).stdout))
    value = float(Fraction(parameter))
    law = skellam_law(value / clients)
    if kind == "laplace":
        law = polya_law(1 / clients, value).minus(polya_law(1 / clients, value))
    assert drawn.size == 20_000
    assert law.p_value(drawn) > FALSE_ALARM
    assert law.p_value(drawn + 1) < FALSE_ALARM


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the parties of tests need Linux")
@pytest.mark.parametrize(
    ("options", "values"),
    [
        ({"lower": -2, "upper": 5, "windows": 2}, [-2, 5, 0, 3]),
        ({"domain": Categories([3]), "labels": ["rot", "grün", "blå"], "integers": False},
         ["grün", "blå", "grün", "rot"]),
        ({"domain": Box(3, -2, 5), "layout": 2, "columns": 9},
         [[-2, 5, 0], [1, 1, 4], [5, -2, 3], [0, 0, 0]]),
        ({"domain": Box(3, -2, 5), "transport": "helpers", "columns": 2, "keys": [KEY, OTHER]},
         [[-2, 5, 0], [1, 1, 4], [5, -2, 3], [0, 0, 0]]),
        pytest.param(
            {"domain": Box(2, -2, 5), "transport": "verified", "columns": 2, "keys": [KEY, OTHER]},
            [[-2, 5], [1, 1], [5, -2], [0, 0]], marks=needs_curves),
    ],
    ids=["numbers", "categories", "blocks", "helpers", "verified"],
)  # fmt: skip
def test_its_reports_are_counted_with_those_of_the_library(tmp_path, options, values):
    """With the analyzer's key all noise is known: the result is exactly that of what was sent."""
    from deployment_helpers import opened as opened_by_helpers
    from deployment_helpers import opened_by_relays
    from deployment_processes import Fleet, opened

    kept, given, labels = tmp_path / "reports", values * 6, options.get("labels")
    verified = options.get("transport") == "verified"
    program = EXAMPLES / ("verified.mjs" if verified else "client.mjs")
    fleet = Fleet(tmp_path, kem="x25519", **{"columns": 6, "keys": [KEY], **options})
    try:
        (running,) = fleet.tasks
        task, secrets = running.task, running.secrets
        agreed = ["--max-epsilon=1", "--max-delta=0.9", f"--hash={task.name}"]

        def submit(client, *more):
            token = tmp_path / f"token-{client}"
            token.write_text(tokens.to_text(secrets[client]))
            files = (running.home / "task.json", token, kept / f"{client}.json")
            return run(program, *agreed, *more, "--", *files, given[client % len(given)])

        running.submit(given[:12], store=kept)
        assert submit(12, "--max-epsilon=0.99").stderr == "the task's epsilon is 1\n"
        assert not (kept / "12.json").exists()
        with ThreadPoolExecutor(2) as executor:
            for done in executor.map(submit, [*range(12, 24), 23]):  # the last once more
                assert (done.returncode, done.stderr) == (0, "")
        assert running.reports() == [24] * task.parties
        found = running.release()
        assert found["state"] == "released", found["release"]
        late = submit(24, "--window=0")
        assert late.returncode == 1
        assert "taskClosed" in late.stderr
    finally:
        fleet.end()
    sent = {}
    for file in kept.glob("*.json"):
        written = json.loads(file.read_text())
        parts = [
            decoded(text, task.part_bytes(party)) for party, text in enumerate(written["parts"])
        ]
        if "transport" in options:
            report = ClientReport(decoded(written["id"], 16), tuple(parts))
            by_parties = opened_by_relays if verified else opened_by_helpers
            sent[file.stem] = by_parties(task.at(0), report, options["keys"])
        else:
            sent[file.stem] = np.array(opened(task.at(0), parts, KEY))
    del sent["24"]
    q, steps = (
        task.modulus,
        [[x == label for label in labels] if labels else np.ravel(x) + 2 for x in given],
    )
    for client in range(12, 24):
        noise = (sent[f"{client}"] - steps[client] + q // 2) % q - q // 2
        assert np.abs(noise).max() < 40 * task.protocol.noise.deviation
    total = np.sum(steps, axis=0)
    noise = (sum(sent.values()) - total + q // 2) % q - q // 2
    lowest = 0 if labels else -2 * len(given)
    if verified:  # the mean of the noise is subtracted
        lowest -= len(given) * (int(task.noise[1]) - 1) / 2
        assert found["refused"] == 0
    assert np.ravel(found["result"]["estimate"]).tolist() == (lowest + total + noise).tolist()
    assert found["complete"] == len(sent) == len(given)
