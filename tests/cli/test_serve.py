"""``ikos serve``: where it listens, how it ends, and what it refuses."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("httpx", reason="needs the extra ikos[deployment]")

import httpx
from cryptography.hazmat.primitives import serialization
from deployment_processes import killed
from deployment_tls import certificates
from deployment_wired import LITTLE, SMALL, addresses, small
from starlette.applications import Starlette

from ikos.deployment import server
from ikos.deployment.http import uvicorn_config
from ikos.deployment.party_files import PartyConfig, write_new
from ikos.deployment.remote import connect
from ikos.deployment.settings import Listening

__all__ = ["small"]

POSIX = pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")


@pytest.fixture
def refused(run):
    """Run a command that must be refused and return what is said, without the command's name."""

    def refused(*arguments):
        said = run("serve", *arguments, status=2).err.rstrip("\n")
        assert said.isprintable()
        return said.partition(": error: ")[2]

    return refused


@pytest.fixture
def listened(monkeypatch):
    """What servers were asked for, by role; they are not run."""
    asked = {}
    for role in ("shuffler", "analyzer"):
        monkeypatch.setattr(
            server,
            f"serve_{role}",
            lambda folders, listening, role=role: asked.update({role: (folders, listening)}),
        )
    return asked


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    """A certificate for localhost, its key, also under a password, and who signed it."""
    folder = tmp_path_factory.mktemp("pair")
    _, certificate = certificates(folder)
    key = certificate.with_suffix(".key").rename(folder / "key.pem")
    certificate.rename(folder / "chain.pem")
    locked = serialization.load_pem_private_key(key.read_bytes(), None).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"word"),
    )
    write_new(folder / "locked.pem", locked)
    return folder


class TestSettings:
    def test_all_from_a_file(self, run, listened, pair):
        (pair / "party.toml").write_text(
            'host = "0.0.0.0"\nport = 8443\ncertificate = "chain.pem"\nprivate_key = "key.pem"\n'
            'ca = "/etc/ca.pem"\nrate = 12\n'
        )
        run("serve", "shuffler", "a", "b", "--config", pair / "party.toml")
        folders, listening = listened["shuffler"]
        assert folders == (Path("a"), Path("b"))
        assert listening == Listening(
            "0.0.0.0", 8443, pair / "chain.pem", pair / "key.pem", Path("/etc/ca.pem"), 12.0
        )

    def test_flags_win(self, run, listened, tmp_path):
        (tmp_path / "party.toml").write_text('host = "localhost"\nport = 1\nrate = 12\n')
        given = ("--port", "2", "--rate", "0.5", "--ca", "c")
        run("serve", "analyzer", "a", "--config", tmp_path / "party.toml", *given)
        expected = Listening("localhost", 2, ca=Path("c"), rate=0.5)
        assert listened["analyzer"][1] == expected

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ('hots = "x"', "hots is unknown"),
            ("[server]\nport = 1", "server is unknown"),
            ('host = ""', "host must "),
            ('port = "80"', "port must be a valid integer, got '80'"),
            ("port = true", "port must be a valid integer, got True"),
            ("port = 65536", "port must be less than or equal to 65535, got 65536"),
            ("ca = 1", "ca must be a valid path"),
            ("rate = nan", "rate must be less than 1000000000, got nan"),
            ("rate = 0", "rate must be greater than 0, got 0"),
            ("port = 1\nport = 2", "--config must be TOML, got "),
            ('host = "\udcff"', "--config must be TOML, got "),
        ],
    )
    def test_refused(self, refused, tmp_path, text, said):
        path = tmp_path / "party.toml"
        path.write_bytes(text.encode("utf-8", "surrogateescape"))
        message = refused("shuffler", tmp_path, "--config", path)
        assert said in message
        assert repr(str(path)) in message

    def test_what_a_file_says_is_said_of_the_file(self, refused, small, tmp_path):
        path = tmp_path / "party.toml"
        path.write_text('host = "0.0.0.0"\n')
        command = ("shuffler", small / "shuffler-1", "--config", path)
        said = refused(*command)
        assert said.startswith(f"'{path}': host must be on loopback without a certificate")
        said = refused(*command, "--host", "0.0.0.1")
        assert said.startswith("--host must be on loopback without a certificate")

    def test_no_file(self, refused, tmp_path):
        said = refused("shuffler", tmp_path, "--config", tmp_path / "none")
        assert re.match(r"--config must be a file that can be read, got .*: no such file", said)


class TestPlace:
    def test_of_an_address_elsewhere(self, run, refused, tmp_path, pair):
        far = [word.replace("http://127.0.0.1", "https://far.example") for word in addresses()]
        run("task", "new", *SMALL, *far, "--output", tmp_path / "far", warning=LITTLE)
        folder = tmp_path / "far" / "shuffler-1"
        said = refused("shuffler", folder)
        assert said == (
            "--host must be given: the party's address in the task, https://far.example:9001, is "
            "not on this machine alone"
        )
        said = refused("shuffler", folder, "--host", "localhost")
        assert said.startswith("--certificate and --private-key must be given for https://far.")
        # what has the certificate passes requests on to another port
        here = Listening("127.0.0.1", 8000).of([PartyConfig.read(folder)])
        assert (here.host, here.port) == ("127.0.0.1", 8000)

    def test_of_different_addresses(self, refused, small):
        for other in ("shuffler-1", "shuffler-2"):
            said = refused("shuffler", small / "shuffler-1", small / other)
            assert said == "folders must be of different tasks: one party sees one column"

    def test_in_use(self, refused, small):
        with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as taken:
            port = taken.getsockname()[1]
            said = refused("shuffler", small / "shuffler-1", "--port", port)
        assert said == (
            f"--host and --port must be free on this machine, got 127.0.0.1:{port}: address "
            "already in use"
        )
        assert not (small / "shuffler-1" / "store.sqlite3").exists()

    @pytest.mark.parametrize(
        ("certificate", "key"),
        [("none.pem", "key.pem"), ("key.pem", "chain.pem"), ("chain.pem", "locked.pem")],
    )
    def test_files_that_are_no_pair(self, refused, small, pair, certificate, key):
        files = ("--certificate", pair / certificate, "--private-key", pair / key)
        said = refused("shuffler", small / "shuffler-1", *files)
        assert said.startswith("--certificate and --private-key must be PEM files of ")
        said = refused("shuffler", small / "shuffler-1", *files[:2])
        assert said == "--certificate and --private-key must be given together"

    @pytest.mark.slow
    @POSIX
    def test_secrets_that_others_may_use(self, refused, small, pair, tmp_path):
        """Of each file, but for the public task, and of the folder; or those of its group."""
        folder = tmp_path / "analyzer"
        shutil.copytree(small / "analyzer", folder)
        (folder / "store.sqlite3").touch(0o600)
        for name in ("key.pem", "chain.pem"):
            shutil.copy(pair / name, tmp_path)
        files = ("--certificate", tmp_path / "chain.pem", "--private-key", tmp_path / "key.pem")
        start = ("analyzer", folder, "--host", "256.0.0.1", "--port", "0", *files)
        ready = "--host and --port must be free on this machine"
        paths = [path for path in folder.iterdir() if path.name != "task.json"]
        assert len(paths) == 5
        for path in (*paths, tmp_path / "key.pem"):
            for mode, grouped in ((0o640, True), (0o660, True), (0o604, False), (0o602, False)):
                path.chmod(mode)
                said = (
                    f"'{path}' must be readable by its owner alone, and its mode is 0{mode:o}: run "
                    f"chmod 600 {path}"
                )
                assert refused(*start) == said
                assert refused(*start, "--group-access").startswith(ready if grouped else said)
            path.chmod(0o600)
        for mode, said in ((0o777, "writable"), (0o730, "writable"), (0o755, ready)):
            folder.chmod(mode)
            assert said in refused(*start)
        folder.chmod(0o770)
        assert refused(*start, "--group-access").startswith(ready)


@pytest.mark.parametrize(
    ("role", "folder", "said"),
    [
        ("shuffler", "analyzer", "analyzer' must be a shuffler's, got the analyzer's"),
        ("analyzer", "shuffler-1", "must be the analyzer's, got shuffler 1's"),
        ("shuffler", "operator", "must be a party's folder for its task"),
        ("shuffler", "clients", "must be a party's folder for its task"),
        ("analyzer", "none", "none' as a task: no such file or directory"),
    ],
)
def test_a_wrong_folder(refused, small, role, folder, said):
    message = refused(role, small / folder, "--port", "0")
    assert said in message
    assert str(small / folder) in message
    assert "missing argument 'FOLDER...'" in refused(role)


def test_nobody_is_let_in_before_the_stores_are_checked(small):
    """A client would wait for an answer, and whoever watches the port take it for healthy."""
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as free:
        port = free.getsockname()[1]
    with contextlib.ExitStack() as stack:

        def start(*_):
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(("127.0.0.1", port))
            stack.enter_context(socket.create_server(("127.0.0.1", port)))  # somebody is faster
            return SimpleNamespace(end=lambda: None)

        with pytest.raises(ValueError, match="host and port must be free on this machine, got 127"):
            server._serve("shuffler", [small / "shuffler-1"], Listening(port=port), start,
                         lambda: None)  # fmt: skip


@contextlib.contextmanager
def served(folder, log, *options, role="shuffler"):
    """Run a party in a process of its own."""
    with log.open("wb") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "ikos", "serve", role, str(folder), "--port", "0",
             *map(str, options)],
            stdout=errors, stderr=errors,
            env={key: text for key, text in os.environ.items() if key != "JOURNAL_STREAM"},
        )  # fmt: skip
    with killed(process):
        yield process


def logged(log, words, times=1):
    until = time.monotonic() + 120
    while log.read_text().count(words) < times:
        assert time.monotonic() < until, log.read_text()
        time.sleep(0.05)


def listens(log):
    """Return the port, once it does."""
    logged(log, "listening on")
    return int(re.findall(r"listening on \S+:(\d+)", log.read_text())[0])


@POSIX
@pytest.mark.slow
def test_a_folder_is_served_by_one_process(refused, small, tmp_path):
    """Problem while the first runs; and free when it was killed, with no chance to say so."""
    folder, log = small / "shuffler-1", tmp_path / "log"
    for _ in range(2):
        with served(folder, log) as process:
            listens(log)
            said = refused("shuffler", folder, "--port", "0")
            assert said == f"'{folder}' cannot be served: another process serves it"
            process.kill()
            process.wait()


@POSIX
@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_before_it_listens(small, tmp_path, number):
    """At any time from when the command runs; sooner than that Python answers."""
    log = tmp_path / "log"
    statuses = set()
    for delay in (0.0, 0.3):
        with served(small / "shuffler-1", log) as process:
            until = time.monotonic() + 60
            maps = Path(f"/proc/{process.pid}/maps")
            while "_ssl" not in maps.read_text() and time.monotonic() < until:
                time.sleep(0.005)
            time.sleep(delay)
            process.send_signal(number)
            statuses.add(process.wait(60))
            said = log.read_text()
            assert "Traceback" not in said, (delay, said)
            assert len(said.splitlines()) <= 2
    assert statuses <= {0, -number}


@POSIX
@pytest.mark.slow
@pytest.mark.parametrize(
    ("role", "folder", "number", "tls"),
    [
        ("shuffler", "shuffler-1", signal.SIGTERM, True),
        ("analyzer", "analyzer", signal.SIGINT, False),
    ],
)
def test_it_says_where_it_listens_and_stops_when_told(
    small, pair, tmp_path, role, folder, number, tls
):
    log, files = tmp_path / "log", ("--host", "localhost")
    if tls:
        files += ("--certificate", pair / "chain.pem", "--private-key", pair / "key.pem")
    with served(small / folder, log, *files, role=role) as process:
        address = f"{'https' if tls else 'http'}://localhost:{listens(log)}"
        assert log.read_text() == f"INFO ikos.deployment listening on {address}\n"
        with connect(pair / "authority.pem" if tls else None) as http:
            assert http.get(f"{address}/health", timeout=30).text == "ok\n"
        with connect() as other, pytest.raises(httpx.TransportError):  # who trusts it not
            other.get(f"{address.replace('http:', 'https:')}/health", timeout=30)
        process.send_signal(number)
        assert process.wait(60) == 0
        assert "Traceback" not in log.read_text()
        assert log.read_text().splitlines()[-1] == "INFO ikos.deployment stopped"


def shown(port):
    """Return the certificate that a server shows."""
    return ssl.get_server_certificate(("127.0.0.1", port), timeout=60)


@POSIX
@pytest.mark.slow
def test_a_certificate_is_read_again(small, tmp_path):
    """At SIGHUP, and if it is not one with its key, the old one stays."""
    (tmp_path / "other").mkdir()
    _, certificate = certificates(tmp_path)
    _, other = certificates(tmp_path / "other")
    key, other_key = certificate.with_suffix(".key"), other.with_suffix(".key")
    log = tmp_path / "log"
    files = ("--certificate", certificate, "--private-key", key)
    with served(small / "shuffler-1", log, *files) as process:
        port = listens(log)
        first = shown(port)
        assert first == certificate.read_text()
        old = socket.create_connection(("127.0.0.1", port))  # a handshake that is under way
        other.replace(certificate)
        process.send_signal(signal.SIGHUP)  # half of it
        logged(log, "the old certificate stays in force: certificate and private_key must be")
        assert shown(port) == first
        other_key.chmod(0o644)
        other_key.replace(key)
        process.send_signal(signal.SIGHUP)
        logged(log, f"the old certificate stays in force: '{key}' must be readable by its owner")
        assert shown(port) == first
        key.chmod(0o600)
        process.send_signal(signal.SIGHUP)
        logged(log, "read the certificate again")
        assert shown(port) == certificate.read_text() != first
        old.close()
        process.terminate()
        assert process.wait(60) == 0
        assert "Traceback" not in log.read_text()


def test_a_header_does_not_say_where_a_request_comes_from():
    application = Starlette()
    config = uvicorn_config(application)
    config.load()
    assert config.loaded_app is application
