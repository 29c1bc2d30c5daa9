"""Logistic regression on each client's own examples: the apps of Flower's clients and server.

    python app.py

runs a helper, and all clients in Flower's simulation, on this machine.
"""

from __future__ import annotations

from os import environ
from secrets import token_hex
from tempfile import TemporaryDirectory
from threading import Thread

import numpy as np
from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp
from private_rounds import PrivateAveraging, private_update

from ikos import Ball, PrivateVectorSum
from ikos.transports import Helpers

CLIENTS, EXAMPLES, FEATURES = 100, 50, 20
ROUNDS, STEPS, RATE, CLIP = 5, 20, 0.5, 1.0

PROTOCOL = PrivateVectorSum(
    CLIENTS, Ball(FEATURES + 1, CLIP), epsilon=4, delta=1e-6, releases=ROUNDS,
    min_honest=CLIENTS * 8 // 10, transport=Helpers(1, noise="parties"),
)  # fmt: skip
"""The sum of each round. The helper and the server each add all of the noise: no client need be
honest, and whoever sends the helper seeds of their own learns nothing about others."""

client = ClientApp(mods=[private_update(PROTOCOL)])
server = ServerApp()


def examples(number, count=EXAMPLES):
    """Return a client's features and labels, synthetic."""
    rng, truth = np.random.default_rng([7, number]), np.random.default_rng(7)
    x = rng.standard_normal((count, FEATURES))
    return x, rng.random(count) < 1 / (1 + np.exp(-x @ truth.standard_normal(FEATURES) - 0.5))


def trained(model, x, y):
    """Return a model, weights and intercept, after some steps of gradient descent."""
    weights, intercept = model
    for _ in range(STEPS):
        wrong = 1 / (1 + np.exp(-x @ weights - intercept)) - y
        weights, intercept = weights - RATE * x.T @ wrong / len(x), intercept - RATE * wrong.mean()
    return [weights, intercept]


def accuracy(model):
    """Return the accuracy on examples that no client has."""
    x, y = examples(CLIENTS, 4000)
    return float(((x @ model[0] + model[1] > 0) == y).mean())


@client.train()
def train(message, context):
    """Return a client's model; the mod keeps it from the server."""
    model = message.content["arrays"].to_numpy_ndarrays()
    arrays = ArrayRecord(trained(model, *examples(context.node_config["partition-id"])))
    return Message(RecordDict({"arrays": arrays}), reply_to=message)


@server.main()
def main(grid, context):
    """Train, and print the accuracy after each round."""

    def evaluate(_round, arrays):
        return MetricRecord({"accuracy": accuracy(arrays.to_numpy_ndarrays())})

    model = ArrayRecord([np.zeros(FEATURES), np.zeros(1)])
    averaging = PrivateAveraging(PROTOCOL, context.run_id)
    averaging.start(grid, model, ROUNDS, evaluate_fn=evaluate)


if __name__ == "__main__":
    from flwr.simulation import run_simulation
    from helper import Helper

    helper = Helper(PROTOCOL, token_hex())
    Thread(target=helper.serve_forever, daemon=True).start()
    environ["IKOS_HELPER"] = f"http://127.0.0.1:{helper.server_port}"
    environ["IKOS_HELPER_KEY"] = helper.key.public_bytes.hex()
    environ["IKOS_SECRET"] = helper.secret
    with TemporaryDirectory() as environ["IKOS_ANSWERED"]:
        run_simulation(server, client, CLIENTS)
