"""Federated averaging by private sums: a mod for Flower's clients, and a strategy for its server.

In each round a client clips its update, and splits it into a vector for the server and a seed for
the helper. The seed goes to the helper directly, encrypted to a key that clients do not have from
the server. The environment has the helper's address, its key, and the server's secret at it; and a
folder of each client's own, where it notes which rounds it has answered.
"""

from __future__ import annotations

import json
from contextlib import suppress
from logging import WARNING
from os import environ
from pathlib import Path
from urllib.request import Request, urlopen

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, MessageType, MetricRecord, RecordDict
from flwr.common.logger import log
from flwr.serverapp.strategy import FedAvg

from ikos.deployment.opening import HYBRID, public_key, suite
from ikos.transports.helpers import AddedVectors
from ikos.transports.roles import PartyRelease
from ikos.vectors import clip


def bound(protocol, name, id):
    """Return what an envelope is bound to: the parameters, the round, the helper, the report."""
    return b"ikos flower 1 helper 1 " + protocol.context(name.encode()) + id


def ask(method, path, body=None, secret=""):
    """Return the helper's answer; HTTPError if it refuses."""
    request = Request(f"{environ['IKOS_HELPER']}/{path}", body, method=method)
    request.add_header("Authorization", secret)
    with urlopen(request, timeout=60) as answer:
        return answer.read()


def flat(arrays):
    """Return all weights of a model as one vector."""
    return np.concatenate([array.reshape(-1) for array in arrays.to_numpy_ndarrays()])


def private_update(protocol):
    """Return a mod: the server gets no more than its share of a clipped update."""

    def mod(message, context, call_next):
        if message.metadata.message_type != MessageType.TRAIN:
            raise ValueError("answers to anything but training would not be private")
        number = message.content["config"]["server-round"]
        if not 0 < number <= protocol.releases:
            raise ValueError(f"round {number} exceeds the budget")
        before, name = flat(message.content["arrays"]), f"{context.run_id}-{number}"
        # once: Flower's own state is empty after a restart, and of messages that come together
        # each has the state before all of them
        note = f"{context.node_config.get('partition-id', 0)}-{name}"
        Path(environ["IKOS_ANSWERED"], note).touch(exist_ok=False)
        update = flat(call_next(message, context).content["arrays"]) - before
        bounded = clip(update, protocol.domain.radius)
        report = protocol.report(bounded, context=name.encode())
        (id,), ((share,), (seed,)) = report.ids, report.parts
        key = public_key(bytes.fromhex(environ["IKOS_HELPER_KEY"]), HYBRID)
        envelope = suite(HYBRID).encrypt(seed.tobytes(), key, bound(protocol, name, id))
        ask("PUT", f"{name}/{id.hex()}", envelope)
        sent = ConfigRecord({"id": id, "share": share.tobytes()})
        return Message(RecordDict({"report": sent}), reply_to=message)

    return mod


class PrivateAveraging(FedAvg):
    """Federated averaging of which the server sees the noisy sums alone."""

    def __init__(self, protocol, run):
        super().__init__(fraction_evaluate=0.0, min_available_nodes=protocol.min_honest)
        self.protocol, self.run, self.secret = protocol, run, environ["IKOS_SECRET"]
        ask("GET", f"{run}-1", secret=self.secret)  # from now on the helper takes seeds

    def configure_train(self, server_round, arrays, config, grid):
        """Ask all clients for their updates of these weights."""
        self.arrays = arrays
        return super().configure_train(server_round, arrays, config, grid)

    def aggregate_train(self, server_round, replies):
        """Return the weights, moved by the noisy mean of the updates that both parties have."""
        name, group = f"{self.run}-{server_round}", self.protocol.transport.group
        analyzer = self.protocol.parties(name.encode())[0]
        for reply in replies:
            with suppress(ValueError, KeyError, TypeError):  # other clients' reports still count
                report = reply.content["report"]
                share = np.frombuffer(report["share"], group.dtype)
                analyzer.receive(report["id"], (share[np.newaxis],))
        held = json.loads(ask("GET", name, secret=self.secret))
        chosen = analyzer.choose(frozenset(map(bytes.fromhex, held)))
        body = json.dumps([id.hex() for id in chosen]).encode()
        added = np.frombuffer(ask("POST", name, body, self.secret), group.dtype)
        result = analyzer.analyze([PartyRelease(1, chosen, AddedVectors(added, len(chosen)))])
        for warning in result.warnings():
            log(WARNING, warning)
        old = self.arrays.to_numpy_ndarrays()
        steps = np.split(result.mean(), np.cumsum([array.size for array in old])[:-1])
        new = [array + step.reshape(array.shape) for array, step in zip(old, steps, strict=True)]
        arrays = [array.astype(was.dtype) for array, was in zip(new, old, strict=True)]
        return ArrayRecord(arrays), MetricRecord({"clients": result.users})
