"""Parties as processes of their own on loopback, which end by SIGKILL where a test says so.

Run as a program this is one party, or one client: see `main`.
"""

from __future__ import annotations

import base64
import contextlib
import ctypes
import hashlib
import json
import os
import random
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from operator import add
from pathlib import Path

import httpx

PATIENCE = 180.0
"""Seconds that anything may take here; machines of tests are busy."""


# In the process of a party


def die_where_told(orders: Path) -> None:
    """End this process where a file says: ``Class.method`` and ``before``, ``after``, ``within``.

    The file is deleted first, so that a party that is started again goes on.
    """
    from ikos.deployment import (
        analyzer,
        client,
        endpoint,
        envelopes,
        helper,
        intake,
        party_files,
        relay,
        remote,
        server,
        shuffler,
        store,
    )  # fmt: skip
    from ikos.sums import ledger

    clock = orders.with_name("clock")

    def moved():
        ahead = float(clock.read_text()) if clock.exists() else 0
        return datetime.now(UTC) + timedelta(seconds=ahead)

    endpoint.now = moved
    server.LOOK_SECONDS, server.STEADY_SECONDS = 0.5, 1.0
    counting = threading.Lock()  # shufflers are asked at once: two threads must not count as one

    def die(point: str) -> None:
        with counting:
            die_if_told(point)

    def die_if_told(point: str) -> None:
        try:
            told = orders.read_text()
        except FileNotFoundError:
            return
        name, _, times = told.partition(" ")
        if name == point:
            if int(times) > 1:
                orders.write_text(f"{name} {int(times) - 1}")
                return
            orders.unlink()
            os.kill(os.getpid(), signal.SIGKILL)

    def wrapped(owner, name):
        usual = getattr(owner, name)
        label = f"{owner.__name__.rpartition('.')[2]}.{name}"

        def work(*arguments, **options):
            die(f"{label}:before")
            found = usual(*arguments, **options)
            if hasattr(found, "add_done_callback"):  # on disk, and nobody has been told
                found.add_done_callback(lambda _: die(f"{label}:after"))
            else:
                die(f"{label}:after")
            return found

        setattr(owner, name, work)

    for owner, names in (
        (intake.Intake, ("accept",)),
        (endpoint.Endpoint, ("close", "note", "expire")),
        (ledger.Ledger, ("enter_run",)),
        (ledger, ("_write",)),
        (party_files.KeyFile, ("erase",)),
        (shuffler.ShufflerEndpoint, ("ids", "agree", "batch", "forget")),
        (helper.HelperEndpoint, ("ids", "agree", "sum", "_keep", "batch", "forget")),
        (relay.RelayEndpoint, ("examine", "agree", "sum", "_keep", "batch")),
        (store.Store, ("shrink", "_write_tally", "_line")),
        (analyzer.AnalyzerEndpoint, ("close_all", "_agree", "_open_batches", "_sum", "_conclude")),
        (analyzer.AnalyzerEndpoint, ("_examined", "_certify")),
        (remote.RemoteShuffler, ("close", "ids", "agree", "batch", "forget")),
        (client, ("send_part",)),
    ):
        for name in names:
            wrapped(owner, name)

    envelopes._ENVELOPES_PER_PIECE = 3
    released = shuffler.ShufflerEndpoint.released

    def pieces(self, parts):
        for piece in released(self, parts):
            yield piece
            die("ShufflerEndpoint.released:within")

    shuffler.ShufflerEndpoint.released = pieces


def end_with(parent: int) -> None:
    """End this process when the one that started it has ended, however that came."""

    def watch():
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def nurse(parent: int) -> list[str] | None:
    """Import everything once; a line of input forks a child of the parent, which returns here."""
    from ikos.deployment import client, server  # noqa: F401

    for line in sys.stdin:
        log, *arguments = json.loads(line)
        if os.fork() == 0:
            if os.fork():
                os._exit(0)  # its child is now of the parent, which has asked for such orphans
            while os.getppid() != parent:
                time.sleep(0.001)
            os.write(1, f"{os.getpid()}\n".encode())
            with open(os.devnull, "r+b") as nothing, open(log, "ab") as errors:
                for number, file in enumerate((nothing, nothing, errors)):
                    os.dup2(file.fileno(), number)
            return arguments
        os.wait()
    return None


@contextlib.contextmanager
def orphans_adopted():
    """Make this process the parent of orphans, for a while: nobody waits for those of others."""
    subreaper = partial(ctypes.CDLL(None).prctl, 36)  # PR_SET_CHILD_SUBREAPER
    subreaper(1)
    try:
        yield
    finally:
        subreaper(0)


class Forked(subprocess.Popen):
    """A process that `nurse` forked, by its number."""

    def _execute_child(self, args, *_):
        self.pid, self._child_created = int(args), True


def main(arguments: list[str]) -> None:
    """Run a party or a client, for as long as the process PARENT runs.

    PARENT ``shuffler`` ORDERS CERTIFICATE CA FOLDER..., or ``helper`` or ``analyzer``, with - for
    no file;
    PARENT ``client`` ORDERS FOLDER NUMBER STORE VALUE WINDOW.
    """
    from ikos.deployment import server
    from ikos.deployment.client import Client
    from ikos.deployment.party_files import read_secrets, read_task
    from ikos.deployment.settings import Listening

    if arguments[1:] == ["nurse"]:
        found = nurse(int(arguments[0]))
        if found is None:
            return
        arguments = found
    parent, role, orders, *rest = arguments
    end_with(int(parent))
    die_where_told(Path(orders))
    if role == "client":
        folder, number, store, value, window = rest
        secret = read_secrets(Path(folder, "clients"))[int(number)]
        client = Client(read_task(Path(folder)), secret, store=store)
        print(client.submit(float(value), window=int(window), timeout=PATIENCE).again)
        return
    certificate, ca, *folders = (None if one == "-" else Path(one) for one in rest)
    listening = Listening(
        certificate=certificate,
        private_key=certificate and certificate.with_suffix(".key"),
        ca=ca,
    )
    getattr(server, f"serve_{role}")(
        [folder for folder in folders if folder is not None], listening
    )


# In the process of a test


def free_ports(count: int) -> list[int]:
    """Return ports of loopback that nobody listens at now."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def until(check, what: str, seconds: float = PATIENCE):
    """Return what a check returns once it is true; fail after so many seconds."""
    end = time.monotonic() + seconds
    while True:
        found = check()
        if found:
            return found
        assert time.monotonic() < end, f"not within {seconds:g} seconds: {what}"
        time.sleep(0.05)


@contextlib.contextmanager
def beside(work):
    """Let a thread work, with an event that is set when it must end."""
    over = threading.Event()
    thread = threading.Thread(target=work, args=(over,))
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@contextlib.contextmanager
def killed(process: subprocess.Popen):
    """End a process at last."""
    try:
        yield process
    finally:
        process.kill()
        process.wait()


class Fleet:
    """An analyzer and shufflers in processes, for some tasks at once.

    Parameters
    ----------
    folder : Path
        For everything.
    tasks : int
        How many; all parties serve all of them.
    columns : int
        Shufflers.
    certificate, ca : Path, optional
        TLS.
    ledger, keys : Path, sequence of PrivateKey, optional
        Of the analyzer.
    options : object
        Of `Task.new`.
    """

    def __init__(
        self, folder: Path, tasks: int = 1, columns: int = 4, certificate=None, ca=None,
        ledger=None, keys=(), **options
    ):  # fmt: skip
        from deployment_tasks import KEY, SIGNERS

        from ikos.deployment.party_files import (
            PartyConfig,
            read_control,
            read_secrets,
            write_party_files,
        )
        from ikos.deployment.task import Task

        keys = keys or [KEY]
        self.folder, self.columns = folder, columns
        self.certificate, self.ca = certificate, ca
        self.processes: dict[int, subprocess.Popen] = {}
        self.ends: list[int] = []
        self._lock = threading.Lock()
        self._nurse = run("nurse", stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        ports = free_ports(columns + 1)
        scheme = "http://127.0.0.1" if certificate is None else "https://localhost"
        now = datetime.now(UTC).replace(microsecond=0)
        numbers = {"users": 40, "min_honest": 20, "epsilon": 1, "delta": 0.9, "integers": True}
        times = {"opens": now - timedelta(hours=1), "closes": now + timedelta(days=1)}
        signing = SIGNERS[: columns + 1] if options.get("transport") == "verified" else []
        if signing:
            numbers["signing_keys"] = [key.public_key().public_bytes_raw() for key in signing]
        self.tasks = []
        for number in range(tasks):
            task = Task.new(
                shufflers=[f"{scheme}:{port}" for port in ports[1:]],
                analyzer=f"{scheme}:{ports[0]}",
                public_keys=[key.public_bytes for key in keys],
                **{**times, **numbers, **options},
            )
            home = folder / f"task-{number}"
            write_party_files(task, keys, home, ledger, signing=signing)
            self.tasks.append(
                Running(
                    self, task, home, read_secrets(home / "clients"),
                    read_control(home / "operator"),
                    PartyConfig.read(home / "analyzer").controls,
                )
            )  # fmt: skip
        self._fresh = iter(self.tasks)
        from ikos.deployment.remote import connect

        self.http = connect(ca)
        try:
            for party in range(columns + 1):
                self.start(party)
            self.ready()
        except BaseException:
            self.end()
            raise

    def fresh(self) -> Running:
        """Return a task that no test has had."""
        return next(self._fresh)

    def home(self, task: Running, party: int) -> Path:
        from ikos.deployment.party_files import folder_of

        return task.home / folder_of(task.task, party)

    def log(self, party: int) -> Path:
        return self.folder / f"log-{party}"

    def orders(self, party: int) -> Path:
        return self.folder / f"orders-{party}"

    def set_clock(self, ahead: float) -> None:
        """Let all parties' clocks be so many seconds ahead."""
        made = self.folder / "clock.new"
        made.write_text(str(ahead))
        made.rename(self.folder / "clock")

    def start(self, party: int) -> None:
        arguments = [
            self.log(party), os.getpid(),
            self.tasks[0].task.transport.intermediary if party else "analyzer",
            self.orders(party), self.certificate or "-", self.ca or "-",
            *(self.home(task, party) for task in self.tasks),
        ]  # fmt: skip
        with self._lock, orphans_adopted():
            self._nurse.stdin.write(json.dumps([*map(str, arguments)]) + "\n")
            self._nurse.stdin.flush()
            self.processes[party] = Forked(self._nurse.stdout.readline())

    def address(self, party: int) -> str:
        return self.tasks[0].task.address(party)

    def answers(self, party: int) -> bool:
        try:
            # not the health, for which each task's store is written
            return self.http.get(f"{self.address(party)}/metrics", timeout=5).is_success
        except httpx.HTTPError:
            return False

    def ready(self) -> None:
        """Start what does not run, and wait until all answer."""
        for party, process in list(self.processes.items()):
            if process.poll() is not None:
                self.start(party)

        def answers(party):
            assert self.processes[party].poll() is None, self.log(party).read_text()
            return self.answers(party)

        for party in self.processes:
            until(lambda p=party: answers(p), f"party {party} answers")

    @property
    def deaths(self) -> int:
        """How many processes ended while they were watched."""
        return len(self.ends)

    def kill(self, party: int, number: int = signal.SIGKILL) -> int:
        """End a party, and return its status."""
        process = self.processes[party]
        process.send_signal(number)
        return process.wait(PATIENCE)

    def limit_files(self, party: int, size: int) -> None:
        """Let a party write no file longer than this, as where the disk is full."""
        most = resource.RLIM_INFINITY
        resource.prlimit(self.processes[party].pid, resource.RLIMIT_FSIZE, (size, most))

    @contextlib.contextmanager
    def watched(self):
        """Start parties again that end, as an init system does."""

        def watch(over):
            while not over.wait(0.05):
                for party, process in list(self.processes.items()):
                    if process.poll() is not None and not over.is_set():
                        self.ends.append(process.returncode)
                        self.start(party)

        with beside(watch):
            yield

    @contextlib.contextmanager
    def storm(self, rng: random.Random, points: tuple[Sequence[str], Sequence[str]]):
        """Kill, stop and starve parties at random moments; ``points``: shufflers', analyzer's."""

        def strike(over):
            party = rng.randrange(self.columns + 1)
            what, moment = rng.random(), rng.uniform(0.2, 1.5)
            if what < 0.5:
                self.processes[party].kill()
            elif what < 0.8:
                point = rng.choice(points[party == 0])
                self.orders(party).write_text(f"{point} {rng.randint(1, 4)}")
            elif what < 0.82:
                for process in list(self.processes.values()):
                    process.kill()
            elif what < 0.91:
                stores = self.home(self.tasks[0], party).glob("store.sqlite3*")
                largest = max(path.stat().st_size for path in stores)
                self.limit_files(party, rng.choice([4096, largest]))
                over.wait(moment)
                self.limit_files(party, resource.RLIM_INFINITY)
            else:
                self.processes[party].send_signal(signal.SIGSTOP)
                over.wait(moment)
                self.processes[party].send_signal(signal.SIGCONT)

        def blow(over):
            while not over.wait(rng.uniform(0, 1)):
                if rng.random() < 0.8:  # otherwise some are still starting
                    until(lambda: over.is_set() or all(map(self.answers, self.processes)), "calm")
                with contextlib.suppress(ProcessLookupError, FileNotFoundError):
                    strike(over)

        with self.watched():
            with beside(blow):
                yield
            for _ in range(2):  # a party that was counting may have written its order again
                for party in self.processes:
                    self.orders(party).unlink(missing_ok=True)
                until(lambda: all(map(self.answers, self.processes)), "all answer again")

    def end(self) -> None:
        for process in self.processes.values():
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
        for process in self.processes.values():
            process.wait(PATIENCE)
        self._nurse.communicate(timeout=PATIENCE)
        self.http.close()


def run(*arguments: object, **options: object) -> subprocess.Popen:
    """Start this module as a program."""
    return subprocess.Popen(
        [sys.executable, __file__, str(os.getpid()), *map(str, arguments)],
        **{"stdin": subprocess.DEVNULL, **options},
    )


def opened(window, parts, key) -> list[int]:
    """Return what the shares of a report add up to, of each coordinate."""
    from ikos.deployment.hpke import read_clear, unseal

    task = window.task
    sums = read_clear(parts[0], task)
    for column, part in enumerate(parts[1:], 1):
        first = 0
        for block, where in enumerate(task.protocol.transport.blocks):
            envelope = part[first : first + task.block_bytes(block)]
            sums[where] = map(add, sums[where], unseal(envelope, key, window, column, block))
            first += len(envelope)
    return [one % task.modulus for one in sums]


def put_part(http, window, secret, report, party) -> bool:
    """Send the part of one party, once; False where it is to be tried again."""
    from ikos.deployment.client import send_part
    from ikos.deployment.remote import RemoteError

    try:
        send_part(http, window, secret, report, party)
    except RemoteError:
        return False
    return True


class Running:
    """One task of a fleet."""

    def __init__(self, fleet, task, home, secrets, operator, controls):
        self.fleet, self.task, self.home = fleet, task, home
        self.secrets, self.operator, self.controls = secrets, operator, controls

    def ask(self, party, method, path="", control=None, window=0, **options):
        """Ask a party until it answers."""
        from ikos.deployment import tokens

        headers = dict(options.pop("headers", {}))
        if control is not None:
            headers["Authorization"] = f"Bearer {tokens.to_text(control)}"
        address = f"{self.task.address(party)}{self.task.at(window).path}{path}"

        def answer():
            try:
                return self.fleet.http.request(method, address, headers=headers, **options)
            except httpx.HTTPError:
                return None

        # an answer may be a problem, and problems are not true
        return until(lambda: (found := answer()) is not None and (found,), f"{method} {path}")[0]

    def submit(self, values, first: int = 0, window: int = 0, **options) -> int:
        """Let clients report, from this process, and return the sum of their values."""
        from ikos.deployment.client import submit_many

        secrets = self.secrets[first : first + len(values)]
        options = {"ca": self.fleet.ca, "connections": 4, "window": window, **options}
        options.setdefault("timeout", PATIENCE)
        assert submit_many(self.task, secrets, values, **options) == len(values)
        return sum(values) if isinstance(values[0], (int, float)) else len(values)

    def put(self, client, report, parties=None) -> None:
        """Send a report, or some of its parts."""
        for party in range(self.task.parties) if parties is None else parties:
            assert put_part(self.fleet.http, self.task.at(0), self.secrets[client], report, party)

    def status(self, client, report, party, window=0):
        """Send a part once; return the answer's status, or None where there is none."""
        from ikos.deployment import tokens
        from ikos.deployment.wire import encoded

        token = tokens.to_text(tokens.for_party(self.secrets[client], self.task, party))
        digest = base64.b64encode(hashlib.sha256(report.parts[party]).digest()).decode()
        place = f"{self.task.address(party)}{self.task.at(window).path}"
        try:
            return self.fleet.http.put(
                f"{place}/reports/{encoded(report.id)}",
                content=report.parts[party],
                headers={
                    "Authorization": f"Bearer {token}", "Content-Digest": f"sha-256=:{digest}:",
                },
            ).status_code  # fmt: skip
        except httpx.HTTPError:
            return None

    def release(self, window=0):
        """Release as an operator does who asks until it is done; return the analyzer's status."""

        def done():
            found = self.ask(0, "GET", window=window).json()
            if found["state"] in ("released", "stopped") and not found["release"]["running"]:
                del found["time"]
                return found
            if not found["release"]["running"]:
                self.ask(0, "POST", "/release", self.operator, window)
            return None

        return until(done, "a release")

    def reports(self):
        """Return how many reports each party has acknowledged."""
        return [self.ask(party, "GET").json()["reports"] for party in range(self.task.parties)]


if __name__ == "__main__":
    main(sys.argv[1:])
