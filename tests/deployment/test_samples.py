"""The samples in deploy/: settings, units, containers, a proxy; checked with what is here."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import tomllib
from dataclasses import fields
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

pytest.importorskip("starlette")

import httpx
from deployment_processes import PATIENCE, free_ports, killed, until
from deployment_tls import certificates

from ikos.deployment.party_files import owner_alone, read_task
from ikos.deployment.remote import connect
from ikos.deployment.settings import Listening

DEPLOY = Path(__file__).parents[2] / "deploy"
UNITS = ["ikos-shuffler@.service", "ikos-analyzer@.service"]


def settings(unit):
    """Return the settings of a unit, each with its values."""
    found = {}
    for line in (DEPLOY / unit).read_text().splitlines():
        if "=" in line and not line.startswith("#"):
            name, _, value = line.partition("=")
            found.setdefault(name, []).append(value)
    return found


def test_settings(tmp_path):
    """Each setting is there; what is commented out is the default."""
    text = (DEPLOY / "party.toml").read_text()
    _, certificate = certificates(tmp_path)
    certificate.replace(tmp_path / "chain.pem")
    certificate.with_suffix(".key").replace(tmp_path / "key.pem")
    shutil.copy(DEPLOY / "party.toml", tmp_path)
    assert Listening.read(tmp_path / "party.toml", {}).port == 8443
    every = tomllib.loads(re.sub(r"^#(?=\w+ = )", "", text, flags=re.MULTILINE))
    assert set(every) == {field.name for field in fields(Listening)}
    plain = Listening()
    for name in re.findall(r"^#(\w+) = ", text, re.MULTILINE):
        default = getattr(plain, name)
        assert default is None or default == every[name], name
    (tmp_path / "party.toml").write_text(re.sub(r"^#(?=\w+ = )", "", text, flags=re.MULTILINE))
    assert Listening.read(tmp_path / "party.toml", {}).metrics_port == 9464


@pytest.mark.skipif(os.name != "posix", reason="modes of POSIX")
def test_credentials_of_systemd(tmp_path, monkeypatch):
    """On some systems their mode shows a group that has no members but this service."""
    for name in ("run", "etc"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "key").touch(mode=0o440)
        (tmp_path / name / "key").chmod(0o440)
    (tmp_path / "link").symlink_to(tmp_path / "run" / "key")
    with pytest.raises(ValueError, match="must be readable by its owner alone"):
        owner_alone(tmp_path / "run" / "key")
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path / "run"))
    owner_alone(tmp_path / "run" / "key")
    owner_alone(tmp_path / "link")
    for path in (tmp_path / "etc" / "key", tmp_path / "run" / ".." / "etc" / "key"):
        with pytest.raises(ValueError, match="must be readable by its owner alone"):
            owner_alone(path)


@pytest.mark.parametrize("unit", UNITS)
def test_units(unit, tmp_path):
    """They are hardened, and systemd accepts them where it is installed."""
    found = settings(unit)
    for name in ("NoNewPrivileges", "DynamicUser", "ProtectHome", "PrivateTmp", "PrivateDevices"):
        assert found[name] == ["yes"]
    assert found["ProtectSystem"] == ["strict"]
    assert found["CapabilityBoundingSet"] == [""]
    assert found["LimitCORE"] == found["MemorySwapMax"] == ["0"]
    # not the analyzer's private keys, as what is a credential cannot be erased
    given = {one.partition(":")[0] for one in found["LoadCredential"]}
    assert given == {"chain.pem", "key.pem"}
    if shutil.which("systemd-analyze") is None:
        return
    made = tmp_path / unit.replace("@", "@visits")
    text = (DEPLOY / unit).read_text()
    made.write_text(text.replace("/opt/ikos/bin/ikos", sys.executable))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", made], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "")


def commands(tmp_path, ports):
    """Return the command line of each unit and of each container, run here, with its port."""
    yaml = pytest.importorskip("yaml")
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    assert list(services) == ["analyzer", *(f"shuffler-{j}" for j in range(1, 6))]
    for port, (name, service) in enumerate(services.items(), 8100):
        assert service["environment"] == {"PORT": port}
        assert service["network_mode"] == "host"
        (volume,) = service["volumes"]
        source, target = volume.split(":")
        assert source == f"./visits/{name}"
        words = [str(tmp_path / "visits" / name) if word == target else word
                 for word in service["command"]]  # fmt: skip
        check = service["healthcheck"]["test"][1].replace("$$PORT", str(ports[port]))
        yield words, re.sub(r"^python", shlex.quote(sys.executable), check)


@contextlib.contextmanager
def running(words, log, **environment):
    with log.open("wb") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "ikos", *words], stderr=errors, stdin=subprocess.DEVNULL,
            env={**os.environ, **environment},
        )  # fmt: skip
    with killed(process):
        yield process


def made(tmp_path, text, ports):
    """Run the commands of a sample that make its task, at free ports."""
    block = re.search(r"#   (ikos task new .*(?:\n#       .*)*)", text)[1]
    block = re.sub(r"\b81\d\d\b", lambda port: str(ports[int(port[0])]), block)
    words = shlex.split(re.sub(r"\\\n#", "", block))[1:]
    done = subprocess.run(
        [sys.executable, "-m", "ikos", *words], cwd=tmp_path, check=False, capture_output=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return read_task(tmp_path / "visits")


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="healthchecks run in a shell of Linux")
def test_the_containers_commands(tmp_path):
    """As plain processes: each is healthy by its own check, and takes a report."""
    ports = dict(zip(range(8100, 8106), free_ports(6), strict=True))
    task = made(tmp_path, (DEPLOY / "compose.yaml").read_text(), ports)
    with contextlib.ExitStack() as stack:
        checks = []
        for number, (words, check) in enumerate(commands(tmp_path, ports)):
            stack.enter_context(running(words, tmp_path / f"{number}.log"))
            checks.append(check)
        for check in checks:
            until(
                lambda check=check: (
                    subprocess.run(["sh", "-c", check], capture_output=True, check=False).returncode
                    == 0
                ),
                check,
            )
        token = tmp_path / "token"
        token.touch(mode=0o600)
        secrets = tmp_path / "visits" / "clients" / "tokens.txt"
        token.write_text(secrets.read_text().splitlines()[-1])
        done = subprocess.run(
            [sys.executable, "-m", "ikos", "submit", tmp_path / "visits" / "task.json", "--token",
             token, "--value", "3"], cwd=tmp_path, check=False, capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert "All 6 parties have the report" in done.stdout
        assert httpx.get(f"{task.analyzer}{task.at(0).path}").json()["reports"] == 1


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="units are for Linux")
@pytest.mark.parametrize("unit", UNITS)
def test_the_units_commands(tmp_path, unit):
    """With the files where systemd puts them."""
    ports = dict(zip(range(8100, 8106), free_ports(6), strict=True))
    made(tmp_path, (DEPLOY / "compose.yaml").read_text(), ports)
    credentials = tmp_path / "credentials"
    credentials.mkdir()
    authority, certificate = certificates(tmp_path)
    shutil.copy(certificate, credentials / "chain.pem")
    shutil.copy(certificate.with_suffix(".key"), credentials / "key.pem")
    (credentials / "key.pem").chmod(0o440)
    state = tmp_path / "visits" / ("analyzer" if "analyzer" in unit else "shuffler-1")
    config = tmp_path / "party.toml"
    config.write_text((DEPLOY / "party.toml").read_text().replace("8443", "0"))
    (line,) = settings(unit)["ExecStart"]
    places = {"STATE_DIRECTORY": str(state), "CREDENTIALS_DIRECTORY": str(credentials)}
    line = re.sub(r"\$\{(\w+)\}", lambda name: places[name[1]], line)
    words = shlex.split(line.replace("/etc/ikos/party.toml", str(config)))
    assert words.pop(0) == "/opt/ikos/bin/ikos"
    log = tmp_path / "log"
    with running(words, log, **places) as process:
        until(lambda: "listening on" in log.read_text(), "it listens")
        port = re.search(r"listening on https://0\.0\.0\.0:(\d+)", log.read_text())[1]
        with connect(authority) as client:
            assert client.get(f"https://localhost:{port}/health").text == "ok\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0


def test_what_the_container_file_copies():
    """The files are there, and no folder of a task is among them."""
    root, copied = DEPLOY.parent, []
    for line in (DEPLOY / "Containerfile").read_text().splitlines():
        if line.startswith("COPY ") and "--from" not in line:
            copied += line.split()[1:-1]
    assert copied == ["pyproject.toml", "README.md", "LICENSE", "ikos"]
    assert all((root / name).exists() for name in copied)
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    assert {project["readme"], *project["license-files"]} <= set(copied)


NGINX = shutil.which("nginx") or shutil.which("/usr/sbin/nginx")


@pytest.mark.slow
@pytest.mark.skipif(NGINX is None, reason="needs nginx")
def test_the_proxy(tmp_path):
    """It passes requests on without an address, writes nothing down, and answers 429 by itself."""
    port, behind = free_ports(2)
    heard = []

    class Echo(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_PUT(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            heard.append((dict(self.headers.items()), body))
            self.send_response(201)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    _, certificate = certificates(tmp_path)
    text = (
        (DEPLOY / "nginx.conf").read_text().replace("8443", str(port)).replace("rate=100", "rate=1")
    )
    text = text.replace("8001", str(behind)).replace("burst=100", "burst=5")
    text = text.replace("/etc/ikos/chain.pem", str(certificate))
    text = text.replace("/etc/ikos/key.pem", str(certificate.with_suffix(".key")))
    (tmp_path / "ikos.conf").write_text(text)
    places = "".join(
        f"{kind}_temp_path {tmp_path}/{kind};\n"
        for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    (tmp_path / "nginx.conf").write_text(
        f"daemon off; pid {tmp_path}/pid; error_log stderr crit; events {{}}\n"
        f"http {{ {places} include {tmp_path}/ikos.conf; }}\n"
    )
    server = ThreadingHTTPServer(("127.0.0.1", behind), Echo)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    log = tmp_path / "log"
    with log.open("wb") as errors:
        proxy = subprocess.Popen(
            [NGINX, "-p", tmp_path, "-e", "stderr", "-c", tmp_path / "nginx.conf"],
            stdout=errors, stderr=errors,
        )  # fmt: skip
    forged = {"X-Forwarded-For": "203.0.113.7", "Forwarded": "for=203.0.113.7", "X-Real-IP": "x"}
    address = f"https://127.0.0.1:{port}/tasks/t/reports/r"
    long = b"envelope" * 500_000  # of a histogram of thousands of classes
    try:
        with httpx.Client(verify=False) as client:

            def put(content=b"envelope"):
                with contextlib.suppress(httpx.TransportError):
                    return client.put(address, content=content, headers=forged)

            assert until(put, "it answers").status_code == 201
            for kind in ("client_body", "proxy"):  # nothing can be written there
                (tmp_path / kind).rmdir()
                (tmp_path / kind).touch()
            assert put(long).status_code == 201
            answers = [put() for _ in range(12)]
            assert client.get(f"https://127.0.0.1:{port}/metrics").status_code in (404, 429)
    finally:
        proxy.terminate()
        proxy.wait(PATIENCE)
        server.shutdown()
        server.server_close()
    codes = [answer.status_code for answer in answers]
    assert set(codes) == {201, 429}
    assert heard.pop(1)[1] == long
    assert all(one.headers.get("retry-after") == "1" for one in answers if one.status_code == 429)
    for headers, body in heard:
        assert body == b"envelope"
        assert "Transfer-Encoding" not in headers
        assert not {"Forwarded", "X-Forwarded-For", "X-Real-IP"} & headers.keys()
        assert "203.0.113.7" not in str(headers)
    assert log.read_text() == ""
