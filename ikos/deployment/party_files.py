"""A party's folder: the task, and what this party alone knows.

``task.json`` is the same everywhere and public. Beside it are, readable by their owner alone,

- at a shuffler: ``seat.json`` (which party it is, and the digest of the secret that may command
  it) and ``tokens`` (digests of the tokens that it accepts);
- at the analyzer: the same, ``private-key``, and ``controls.json``, the secrets that command the
  shufflers;
- at the operator: ``control``, the secret that commands the analyzer;
- at the clients: ``tokens.txt``, a secret a line, to be given out one by one.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import shlex
import shutil
import stat
from dataclasses import dataclass
from pathlib import Path

from ikos._validation import integer
from ikos.deployment import tokens
from ikos.deployment.hpke import PrivateKey
from ikos.deployment.task import LONGEST, Task

__all__ = ["read_secret", "read_secrets", "read_task", "write_seats"]

TASK = "task.json"
SEAT = "seat.json"
TOKENS = "tokens"
KEY = "private-key"
CONTROLS = "controls.json"
CONTROL = "control"
SECRETS = "tokens.txt"
STORE = "store.sqlite3"


def write_new(path: Path, data: bytes, *, public: bool = False) -> None:
    """Write a new file, on disk when this returns, readable by its owner alone unless public."""
    mode = 0o644 if public else 0o600
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def owner_alone(path: Path) -> None:
    """Refuse a file of secrets that others than its owner may use.

    Raises
    ------
    ValueError
        If its mode says so.
    """
    try:
        mode = path.stat().st_mode
    except OSError:  # who reads it says so
        return
    if os.name == "posix" and stat.S_ISREG(mode) and mode & 0o077:
        raise ValueError(
            f"{str(path)!r} must be readable by its owner alone, and its mode is "
            f"{stat.S_IMODE(mode):04o}: run chmod 600 {shlex.quote(str(path))}"
        )


def read_task(folder: Path) -> Task:
    """Return the task of a folder, or of a file.

    Raises
    ------
    ValueError
        If there is none, or it is not a task of this version.
    """
    path = folder / TASK if folder.is_dir() else folder
    text = _read(path, "a task").decode("utf-8", "replace")
    try:
        return Task.from_json(text)
    except ValueError as error:
        raise ValueError(f"{str(path)!r} is no task: {error}") from None


def _read(path: Path, what: str) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(LONGEST + 1)
    except OSError as error:
        reason = (error.strerror or "it cannot be read").lower()
        raise ValueError(f"{str(path)!r} must be {what}: {reason}") from None


def _secret(path: Path, what: str) -> bytes:
    owner_alone(path)
    try:
        return tokens.from_text(_read(path, what).decode("ascii", "replace").strip())
    except ValueError:
        raise ValueError(f"{str(path)!r} must be {what}") from None


def read_secret(path: Path) -> bytes:
    """Return the secret that a file holds.

    Raises
    ------
    ValueError
        If there is none, of which nothing is quoted; or if others may read the file.
    """
    return _secret(path, "a client's secret")


def read_secrets(folder: Path) -> list[bytes]:
    """Return the secrets of all clients, in the order of the file.

    Raises
    ------
    ValueError
        If a line is none, of which nothing is quoted; or if others may read the file.
    """
    path = folder / SECRETS
    owner_alone(path)
    secrets = []
    try:
        with path.open(encoding="ascii", errors="replace") as file:
            for line, text in enumerate(file, 1):
                try:
                    secrets.append(tokens.from_text(text.strip()))
                except ValueError:
                    raise ValueError(
                        f"{str(path)!r} must hold a client's secret in each line: look at line "
                        f"{line}"
                    ) from None
    except OSError as error:
        reason = (error.strerror or "it cannot be read").lower()
        raise ValueError(f"{str(path)!r} must be the clients' secrets: {reason}") from None
    return secrets


@dataclass(frozen=True, repr=False)
class PartyConfig:
    """What a shuffler knows, and what the analyzer knows as one that accepts reports.

    Attributes
    ----------
    folder : Path
        Where it is; the party's store is beside it.
    task : Task
        The task.
    party : int
        0 for the analyzer, j for shuffler j.
    control : bytes
        SHA-256 of the secret that may command this party.
    tokens : TokenList
        The tokens that it accepts.
    """

    folder: Path
    task: Task
    party: int
    control: bytes
    tokens: tokens.TokenList

    @classmethod
    def read(cls, folder: Path) -> PartyConfig:
        """Return the seat of a folder.

        Raises
        ------
        ValueError
            If it is none.
        """
        task = read_task(folder)
        path = folder / SEAT
        try:
            values = json.loads(_read(path, "a seat"))
            party = integer("party", values["party"], low=0, high=task.columns)
            control = bytes.fromhex(values["control"])
            if len(control) != hashlib.sha256().digest_size or values["task"] != task.name:
                raise ValueError
            accepted = tokens.TokenList(folder / TOKENS)
        except (ValueError, TypeError, KeyError, OSError):
            raise ValueError(f"{str(folder)!r} must be a party's folder for its task") from None
        return cls(folder, task, party, control, accepted)

    @property
    def store(self) -> Path:
        """Where this party keeps what it accepted."""
        return self.folder / STORE

    @property
    def part_bytes(self) -> int:
        """Bytes of what each client sends to this party."""
        from ikos.deployment.hpke import size

        return size(self.task) if self.party else self.task.share_bytes

    def commanded_by(self, secret: bytes) -> bool:
        """Whether a secret may command this party; takes the same time for all."""
        return hmac.compare_digest(tokens.digest(secret), self.control)

    def __repr__(self) -> str:
        return f"<Seat {self.party} of task {self.task.name}>"


@dataclass(frozen=True, repr=False)
class AnalyzerSeat:
    """What the analyzer knows besides.

    Attributes
    ----------
    seat : Seat
        As one that accepts clear shares.
    key : PrivateKey
        Opens envelopes.
    controls : tuple of bytes
        The secrets that command the shufflers, the first for shuffler 1.
    """

    seat: PartyConfig
    key: PrivateKey
    controls: tuple[bytes, ...]

    @classmethod
    def read(cls, folder: Path) -> AnalyzerSeat:
        """Return the analyzer's seat of a folder; ValueError if it is none."""
        seat = PartyConfig.read(folder)
        if seat.party != 0:
            raise ValueError(f"{str(folder)!r} must be the analyzer's, got shuffler {seat.party}'s")
        key = PrivateKey(_secret(folder / KEY, "a private key"))
        if key.public_bytes != seat.task.public_key:
            raise ValueError(f"the private key in {str(folder)!r} must be that of the task")
        path = folder / CONTROLS
        owner_alone(path)
        try:
            controls = tuple(map(tokens.from_text, json.loads(_read(path, "secrets"))))
        except (ValueError, TypeError):
            raise ValueError(f"{str(path)!r} must hold secrets") from None
        if len(controls) != seat.task.columns:
            raise ValueError(f"{str(path)!r} must hold a secret for each shuffler")
        return cls(seat, key, controls)

    def __repr__(self) -> str:
        return f"<AnalyzerSeat of task {self.seat.task.name}>"


@dataclass(frozen=True, repr=False)
class Operator:
    """Who may close a task and release its result."""

    task: Task
    control: bytes

    @classmethod
    def read(cls, folder: Path) -> Operator:
        """Return the operator's folder; ValueError if it is none."""
        return cls(read_task(folder), _secret(folder / CONTROL, "the operator's secret"))


def write_seats(task: Task, key: PrivateKey, output: Path) -> None:
    """Write the folders of all parties of a new task, to be handed out; all or nothing.

    Parameters
    ----------
    task : Task
        The task, with a client's secret for each of its users.
    key : PrivateKey
        The analyzer's.
    output : Path
        A folder that is not there yet.

    Raises
    ------
    ValueError
        If it is there, or cannot be written.
    """
    if key.public_bytes != task.public_key:
        raise ValueError("key must be the private key of the task's public key")
    made = output.with_name(f".{output.name}.{os.urandom(4).hex()}")
    try:
        if output.exists():
            raise ValueError(f"output must not be there yet, got {str(output)!r}")
        made.mkdir(mode=0o700)
        try:
            _write_seats(task, key, made)
            made.rename(output)
        except BaseException:
            with contextlib.suppress(OSError):
                shutil.rmtree(made)
            raise
    except OSError as error:
        reason = (error.strerror or "an error").lower()
        raise ValueError(f"cannot write {str(output)!r}: {reason}") from None


def _write_seats(task: Task, key: PrivateKey, made: Path) -> None:
    secrets = [tokens.fresh() for _ in range(task.users)]
    controls = [tokens.fresh() for _ in range(task.columns + 1)]
    write_new(made / TASK, task.to_json().encode() + b"\n", public=True)
    names = ["analyzer", *(f"shuffler-{j}" for j in range(1, task.columns + 1))]
    for name in (*names, "operator", "clients"):
        (made / name).mkdir(mode=0o700)
        write_new(made / name / TASK, task.to_json().encode() + b"\n", public=True)
    for party, name in enumerate(names):
        folder = made / name
        seat = {"task": task.name, "party": party, "control": tokens.digest(controls[party]).hex()}
        write_new(folder / SEAT, json.dumps(seat).encode() + b"\n")
        own = (tokens.for_party(secret, task, party) for secret in secrets)
        tokens.TokenList.write(folder / TOKENS, own)
    write_new(made / "analyzer" / KEY, tokens.to_text(key.raw).encode() + b"\n")
    commands = [tokens.to_text(control) for control in controls[1:]]
    write_new(made / "analyzer" / CONTROLS, json.dumps(commands).encode() + b"\n")
    write_new(made / "operator" / CONTROL, tokens.to_text(controls[0]).encode() + b"\n")
    given = "".join(f"{tokens.to_text(secret)}\n" for secret in secrets)
    write_new(made / "clients" / SECRETS, given.encode())
