"""The helper: adds up what clients' seeds stand for, with noise, once in each round of one run.

    IKOS_SECRET=... python helper.py 8470

prints its public key, for the clients. Whoever has the secret is the server.
"""

from __future__ import annotations

import hmac
import json
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from os import environ
from threading import Lock

import numpy as np
from private_rounds import bound

from ikos.deployment.opening import HYBRID, PrivateKey, unsealed

MAX_BODY = 1 << 20
DELAY = 0.5  # seconds of a release, more than it takes: the time to draw noise depends on it


class Helper(ThreadingHTTPServer):
    """Its key and its rounds are in memory, and end with it. A proxy adds TLS."""

    def __init__(self, protocol, secret, port=0):
        super().__init__(("127.0.0.1", port), Handler)
        self.protocol, self.secret, self.lock, self.rounds = protocol, secret, Lock(), {}
        self.key = PrivateKey.generate(HYBRID)

    def answer(self, method, path, body, secret):
        """Return the answer to a request; ValueError, TypeError or KeyError if it is refused."""
        _, name, *ids = path.split("/")
        if method == "PUT":
            id = bytes.fromhex("".join(ids))
            seed = unsealed(body, self.key, bound(self.protocol, name, id))
            return self.rounds[name].receive(id, (np.frombuffer(seed, np.uint8)[None],)) or b""
        if not hmac.compare_digest(secret.encode(), self.secret.encode()):
            raise ValueError("the secret must be the server's")
        if not self.rounds:  # of the first run alone: together they spend the budget
            names = [f"{name.split('-')[0]}-{i + 1}" for i in range(self.protocol.releases)]
            self.rounds = {one: self.protocol.parties(one.encode())[1] for one in names}
        if method == "GET":
            return json.dumps([id.hex() for id in self.rounds[name].ids]).encode()
        ids, start = list(map(bytes.fromhex, json.loads(body))), time.monotonic()
        release = self.rounds[name].release(ids)
        time.sleep(max(0, start + DELAY - time.monotonic()))  # other requests wait as well
        return release.messages.sums.tobytes()


class Handler(BaseHTTPRequestHandler):
    """A request to the helper."""

    def answer(self):
        """Answer it, and close the connection."""
        secret, status = self.headers.get("Authorization", ""), 200
        try:
            body = self.rfile.read(range(MAX_BODY).index(int(self.headers["Content-Length"] or 0)))
            with self.server.lock:
                data = self.server.answer(self.command, self.path, body, secret)
        except (ValueError, TypeError, KeyError) as error:
            data, status = str(error).encode(), 400
        self.send_response(status)
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_PUT = do_POST = answer  # noqa: N815

    def log_message(self, *_):
        """Log nothing about clients."""


if __name__ == "__main__":
    from app import PROTOCOL

    helper = Helper(PROTOCOL, environ["IKOS_SECRET"], int(sys.argv[1]))
    print(helper.key.public_bytes.hex(), flush=True)
    helper.serve_forever()
