"""The example with Flower: a training in its simulation, and what its parties refuse."""

from __future__ import annotations

import importlib
import importlib.util
import json
import re
import subprocess
import sys
from http.client import HTTPConnection
from itertools import count
from pathlib import Path
from threading import Thread
from time import monotonic, sleep
from types import SimpleNamespace
from typing import Any
from urllib.error import HTTPError

import numpy as np
import pytest

from ikos import Ball, PrivateVectorSum
from ikos.deployment.opening import HYBRID, public_key, suite
from ikos.transports import Helpers

FOLDER = Path(__file__).resolve().parents[1] / "examples" / "flower"
PROTOCOL = PrivateVectorSum(
    4, Ball(3), 1e4, 1e-6, releases=2, min_honest=3, transport=Helpers(1, noise="parties")
)
"""With hardly any noise, so that results can be checked."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        importlib.util.find_spec("flwr") is None,
        reason="Flower is not installed: make test-flower",
    ),
    pytest.mark.filterwarnings("ignore"),
]


def test_a_model_is_trained_in_the_simulation() -> None:
    ran = subprocess.run(
        [sys.executable, "app.py"], cwd=FOLDER, capture_output=True, text=True, check=True
    )
    printed = re.sub(r"\x1b\[[0-9;]*m", "", ran.stdout + ran.stderr)
    accuracies = [
        float(one) for one in re.findall(r"MetricRecord: {'accuracy': ([0-9.]+)", printed)
    ]
    assert len(accuracies) == 5
    assert accuracies[-1] > 0.8  # 0.864 without noise, 0.45 at first
    assert printed.count("Aggregated MetricRecord: {'clients': 100}") == 5


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Return the example's modules, a helper that listens, and what makes a message."""
    monkeypatch.syspath_prepend(str(FOLDER))
    monkeypatch.setenv("FLWR_TELEMETRY_ENABLED", "0")
    rounds, module = map(importlib.import_module, ("private_rounds", "helper"))
    monkeypatch.setattr(module, "DELAY", 0)
    flower = importlib.import_module("flwr.app")
    identity = importlib.import_module("flwr.supercore.task_identity").TaskIdentity
    identity.run_id = identity.task_id = identity.node_id = 1
    helper = module.Helper(PROTOCOL, "secret")
    monkeypatch.setenv("IKOS_HELPER", f"http://127.0.0.1:{helper.server_port}")
    monkeypatch.setenv("IKOS_HELPER_KEY", helper.key.public_bytes.hex())
    monkeypatch.setenv("IKOS_SECRET", "secret")
    monkeypatch.setenv("IKOS_ANSWERED", str(tmp_path))
    thread = Thread(target=helper.serve_forever)
    thread.start()
    yield SimpleNamespace(rounds=rounds, module=module, helper=helper, app=flower)
    helper.shutdown()
    thread.join()
    helper.server_close()


CLIENTS = count()
OLD = [np.float32([1, 2]), np.float64([[3]])]


def client(world: Any, update: Any, kind: str = "train", number: int = 1, who: Any = None) -> Any:
    """Return the answer of a new client, or ``who``, for an update of the weights."""
    app = world.app
    content = {
        "arrays": app.ArrayRecord(OLD), "config": app.ConfigRecord({"server-round": number})
    }  # fmt: skip
    message = app.Message(app.RecordDict(content), dst_node_id=2, message_type=kind)

    def trained(message: Any, _context: Any) -> Any:
        new = [OLD[0] + np.float32(update[:2]), OLD[1] + update[2]]
        return app.Message(app.RecordDict({"arrays": app.ArrayRecord(new)}), reply_to=message)

    config = {"partition-id": next(CLIENTS) if who is None else who}
    context = SimpleNamespace(run_id=7, state=app.RecordDict(), node_config=config)
    return world.rounds.private_update(PROTOCOL)(message, context, trained)


def strategy(world: Any) -> Any:
    averaging = world.rounds.PrivateAveraging(PROTOCOL, 7)
    averaging.arrays = world.app.ArrayRecord(OLD)
    return averaging


def test_the_result_is_that_of_the_clients_both_parties_have(world: Any) -> None:
    averaging = strategy(world)
    replies = [client(world, one) for one in ([0.5, 0, 0], [0, 0.5, 0], [0, 3, 4], [0, 0, 0])]
    lost = replies.pop()  # which the helper has
    assert list(lost.content) == ["report"]
    assert sorted(lost.content["report"]) == ["id", "share"]
    bad = [world.app.Message(world.app.Error(1), reply_to=lost), lost]
    bad[1].content["report"]["share"] = b"short"
    arrays, metrics = averaging.aggregate_train(1, replies + bad)
    assert dict(metrics) == {"clients": 3}
    weights, intercept = arrays.to_numpy_ndarrays()
    assert (weights.dtype, intercept.shape) == (np.float32, (1, 1))
    np.testing.assert_allclose(weights, [1 + 0.5 / 3, 2 + 1.1 / 3], atol=0.01)  # clipped to 1
    np.testing.assert_allclose(intercept, [[3 + 0.8 / 3]], atol=0.01)


def test_a_client_answers_a_round_once_and_nothing_but_training(world: Any) -> None:
    """Whatever Flower knows of earlier answers, and also if they are asked for together."""
    strategy(world)
    client(world, [0, 0, 0], who="one")
    with pytest.raises(FileExistsError):
        client(world, [0, 0, 0], who="one")
    for number in (0, 3):
        with pytest.raises(ValueError, match=f"round {number} exceeds"):
            client(world, [0, 0, 0], number=number)
    client(world, [0, 0, 0], number=2, who="one")
    for kind in ("evaluate", "query"):
        with pytest.raises(ValueError, match="would not be private"):
            client(world, [0, 0, 0], kind)
    with pytest.raises(ValueError, match="must be finite"):
        client(world, [np.nan, 0, 0])


def refused(ask: Any, reason: str, *arguments: Any) -> None:
    with pytest.raises(HTTPError) as caught:
        ask(*arguments)
    assert caught.value.code == 400
    assert reason in caught.value.read().decode()


def test_the_helper_refuses_what_would_tell_more_than_a_sum(world: Any) -> None:
    ask, helper = world.rounds.ask, world.helper
    with pytest.raises(HTTPError):  # no round is open
        client(world, [0, 0, 0])
    averaging = strategy(world)
    replies = [client(world, [0, 0, 0]) for _ in range(4)]
    ids = sorted(reply.content["report"]["id"].hex() for reply in replies)
    # planted and copied envelopes: another report, another round
    bound = world.rounds.bound(PROTOCOL, "7-1", bytes(16))
    sealed = suite(HYBRID).encrypt(bytes(32), public_key(helper.key.public_bytes, HYBRID), bound)
    ask("PUT", f"7-1/{bytes(16).hex()}", sealed)
    for path in (f"7-1/{bytes(15).hex()}01", f"7-2/{bytes(16).hex()}"):
        refused(ask, "could not be decrypted", "PUT", path, sealed)
    refused(ask, "server's", "GET", "7-1", None, "guess")
    for name in ("8-1", "7-3"):  # a second run, and more rounds than the budget is for
        refused(ask, name, "GET", name, None, "secret")
    twice, few, all_of_them, others = (
        ("POST", "7-1", json.dumps(some).encode(), "secret")
        for some in ([ids[0], *ids], ids[:1], ids, ids[1:])
    )
    refused(ask, "different reports", *twice)
    refused(ask, "min_honest = 3", *few)
    first = ask(*all_of_them)
    assert ask(*all_of_them) == first
    refused(ask, "already released", *others)
    refused(ask, "only release", "PUT", f"7-1/{bytes(16).hex()}", sealed)
    assert not helper.rounds["7-1"].ids  # seeds are deleted, also of reports outside the set
    with pytest.raises(ValueError, match="min_honest = 3"):
        averaging.aggregate_train(2, [])


def test_the_time_of_a_release_tells_nothing(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not to a server either that sends its request slowly, or asks for more meanwhile."""
    strategy(world)
    ids = sorted(client(world, [0, 0, 0]).content["report"]["id"].hex() for _ in range(3))
    slept = []

    def noted(seconds: float) -> None:
        slept.append((seconds, world.helper.lock.locked()))

    monkeypatch.setattr(world.module, "DELAY", 9)
    monkeypatch.setattr(world.module, "time", SimpleNamespace(monotonic=monotonic, sleep=noted))
    body = json.dumps(ids).encode()
    connection = HTTPConnection("127.0.0.1", world.helper.server_port)
    connection.putrequest("POST", "/7-1")
    connection.putheader("Content-Length", str(len(body)))
    connection.putheader("Authorization", "secret")
    connection.endheaders()
    sleep(0.5)
    connection.send(body)
    assert connection.getresponse().status == 200
    [(seconds, alone)] = slept
    assert 8.6 < seconds < 9
    assert alone
