"""A party's folder: the task, and this party's secrets, readable by their owner alone.

docs/deployment.md describes each folder. ``seat.json`` states which party it is, with the digest
of the secret that may command it; ``tokens`` has digests, ``tokens.txt`` the clients' secrets.
"""

from __future__ import annotations

import contextlib
import hmac
import json
import os
import shlex
import sqlite3
import stat
import tempfile
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from pydantic import BaseModel, Field

from ikos._validation import InvalidValue
from ikos.deployment import tokens
from ikos.deployment.opening import PrivateKey
from ikos.deployment.task import LONGEST, Task, Window

__all__ = ["read_secret", "read_secrets", "read_task", "write_party_files"]

TASK = "task.json"
CONFIG = "seat.json"
TOKENS = "tokens"
KEY = "private-key"
SIGNING = "signing-key"
CONTROLS = "controls.json"
CONTROL = "control"
SECRETS = "tokens.txt"
STORE = "store.sqlite3"
LOCK = "lock.sqlite3"
_ERASED = 43 * "."  # as long as a key


def write_new(path: Path, data: bytes, *, public: bool = False) -> None:
    """Write a new file, on disk on return, readable by its owner alone unless public.

    An error leaves no file, or a whole one, which another program may have read.
    """
    mode, rest = 0o644 if public else 0o600, memoryview(data)
    number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(number, "wb", buffering=0) as file:
            while rest:
                rest = rest[file.write(rest) :]
            os.fsync(file.fileno())
    except BaseException:
        with contextlib.suppress(OSError):
            if path.stat().st_size < len(data):
                path.unlink()
        raise


def write_pieces(path: Path, pieces: Iterable[bytes]) -> None:
    """Write a file, whole and on disk on return, in the place of an earlier one."""
    part = path.with_name(f"{path.name}.part")
    with part.open("wb") as file:
        file.writelines(pieces)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def owner_alone(path: Path, *, group: bool = False) -> None:
    """Raise ValueError for a file of secrets that other users may use, or a folder they may change.

    With ``group``, users of its group may. Files of systemd's LoadCredential are for this service
    alone, whatever their mode.
    """
    try:
        mode, place = path.stat().st_mode, path.resolve(strict=True)
    except OSError:  # reading it reports this
        return
    credentials = os.environ.get("CREDENTIALS_DIRECTORY")
    if credentials and place.is_relative_to(Path(credentials).resolve()):
        return
    shared = 0o077 * stat.S_ISREG(mode) | 0o022 * stat.S_ISDIR(mode)
    if os.name == "posix" and mode & shared & (0o007 if group else 0o077):
        what, right = ("writable", 700) if stat.S_ISDIR(mode) else ("readable", 600)
        raise ValueError(
            f"{str(path)!r} must be {what} by its owner alone, and its mode is "
            f"{stat.S_IMODE(mode):04o}: run chmod {right} {shlex.quote(str(path))}"
        )


def reason(error: OSError, otherwise: str = "an error") -> str:
    """Return the system's description of an error, to follow a colon."""
    return (error.strerror or otherwise).lower()


def _read(path: Path, what: str, most: int | None = LONGEST + 1) -> str:
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            return file.read(most)
    except OSError as error:
        why = reason(error, "it cannot be opened")
        raise ValueError(f"cannot read {str(path)!r} as {what}: {why}") from None


def read_task(folder: Path) -> Task:
    """Return the task in a folder or file; ValueError if there is no valid task of this version."""
    path = folder / TASK if folder.is_dir() else folder
    text = _read(path, "a task")
    try:
        return Task.from_json(text)
    except ValueError as error:
        raise ValueError(f"{str(path)!r} is not a valid task: {error}") from None


def _secrets(path: Path, what: str, most: int | None = LONGEST) -> list[bytes]:
    """Return the secrets in a file of its owner's, one per line; quote none of it."""
    owner_alone(path)
    secrets = []
    for line, text in enumerate(_read(path, what, most).splitlines(), 1):
        try:
            secrets.append(tokens.from_text(text.strip()))
        except ValueError:
            raise ValueError(f"{str(path)!r} must be {what}: look at line {line}") from None
    return secrets


def _secret(path: Path, what: str) -> bytes:
    secrets = _secrets(path, what)
    if len(secrets) != 1:
        raise ValueError(f"{str(path)!r} must be {what}, got {len(secrets)} lines")
    return secrets[0]


def read_secret(path: Path) -> bytes:
    """Return the secret in a file; ValueError, which quotes none of it, if others may read it."""
    return _secret(path, "a client's secret")


def read_secrets(folder: Path) -> list[bytes]:
    """Return the secrets of all clients, in the order of the file; errors as for `read_secret`."""
    return _secrets(folder / SECRETS, "the clients' secrets, one in each line", None)


def read_control(folder: Path) -> bytes:
    """Return the secret in the operator's folder, which commands the analyzer."""
    return _secret(folder / CONTROL, "the operator's secret")


class KeyFile:
    """A party's private keys, a line each: the ``remaining`` ones; others were erased.

    There is no file without keys.
    """

    def __init__(self, path: Path, public_keys: Sequence[bytes], kem: str) -> None:
        self._path, self._count, self._kem = path, len(public_keys), kem
        self.remaining = set[int]()
        self._held, self._holding = dict[int, PrivateKey](), threading.Lock()
        lines = self._lines() if public_keys else []
        if len(lines) != self._count:
            raise ValueError(f"{str(path)!r} must have a line for each key of the task")
        for number, line in enumerate(lines):
            if line != _ERASED:
                self.remaining.add(number)
            # a line that was partly erased when the power failed will be erased again
            if "." not in line and self._key(line).public_bytes != public_keys[number]:
                raise ValueError(
                    f"the private key in line {number + 1} of {str(path)!r} must be that of the "
                    "task"
                )

    def _lines(self) -> list[str]:
        return _read(self._path, "private keys").splitlines()

    def _key(self, line: str) -> PrivateKey:
        try:
            raw = tokens.from_text(line)
        except ValueError:
            raise ValueError(f"{str(self._path)!r} must hold a private key in each line") from None
        return PrivateKey(raw, self._kem)

    def read(self, number: int) -> PrivateKey:
        """Return a key, which is in memory only while it is used; OSError if it is gone."""
        try:
            return self._key(self._lines()[number])
        except (ValueError, LookupError):
            raise OSError(f"there is no private key in line {number + 1}") from None

    def hold(self, number: int) -> PrivateKey:
        """Return a key as `read`, which stays in memory until it is erased."""
        with self._holding:
            if number not in self._held:
                self._held[number] = self.read(number)
            return self._held[number]

    def erase(self, number: int) -> None:
        """Overwrite a key on the disk; OSError if that fails."""
        length = len(_ERASED) + 1
        with self._holding, self._path.open("r+b", buffering=0) as file:
            self._held.pop(number, None)
            if os.fstat(file.fileno()).st_size != length * self._count:
                raise OSError(f"{str(self._path)!r} is not as it was written")
            file.seek(number * length)
            file.write(_ERASED.encode())
            os.fsync(file.fileno())
        self.remaining.discard(number)


def _read_controls(folder: Path, task: Task) -> tuple[bytes, ...]:
    """Return the controls in the analyzer's folder."""
    path = folder / CONTROLS
    try:
        controls = tuple(map(tokens.from_text, json.loads(_read(path, "secrets", None))))
    except (ValueError, TypeError):
        controls = ()
    if len(controls) != task.columns:
        name = task.transport.intermediary
        raise ValueError(f"{str(path)!r} must hold a secret for each {name}")
    return controls


def _read_signing(folder: Path, public: bytes) -> Ed25519PrivateKey:
    """Return the key with which a party signs, if it can also verify: it needs the extra."""
    from ikos.verified import group

    del group
    path = folder / SIGNING
    key = Ed25519PrivateKey.from_private_bytes(_secret(path, "a party's signing key"))
    if key.public_key().public_bytes_raw() != public:
        raise ValueError(f"the signing key in {str(path)!r} must be that of the task")
    return key


class _ConfigFile(BaseModel):
    """Content of ``seat.json``."""

    task: str
    party: int = Field(strict=True, ge=0)
    control: str = Field(pattern="^[0-9a-f]{64}$")
    ledger: Path | None = None
    note: str = ""


@dataclass(frozen=True, repr=False)
class PartyConfig:
    """A party's configuration: shuffler or helper j, or as 0 the analyzer.

    ``control`` is the digest of the secret that may command it; the analyzer alone has the others'
    ``controls``. In ``ledger`` it records each release, with the ``note``; ``keep`` is the
    retention period of unreleased reports, from the closing of a window.
    """

    folder: Path
    task: Task
    party: int
    control: bytes
    tokens: tokens.TokenList
    keys: KeyFile
    signing: Ed25519PrivateKey | None = None
    controls: tuple[bytes, ...] = ()
    ledger: Path | None = None
    note: str = ""
    keep: timedelta = timedelta(days=30)

    @classmethod
    def read(cls, folder: Path, *, group: bool = False) -> PartyConfig:
        """Return the configuration in a folder; ValueError if it is not a valid party's folder.

        With ``group``, users of the group of the folder and its files may use them.
        """
        task = read_task(folder)
        names = (CONFIG, TOKENS, KEY, SIGNING, CONTROLS, LOCK)
        for path in (folder, *map(folder.joinpath, names), *folder.glob(f"{STORE}*")):
            owner_alone(path, group=group)
        refused = ValueError(f"{str(folder)!r} must be a party's folder for its task")
        try:
            seat = _ConfigFile.model_validate_json(_read(folder / CONFIG, "a party's"))
            accepted = tokens.TokenList(folder / TOKENS)
        except (ValueError, OSError):
            raise refused from None
        if seat.task != task.name or seat.party > task.columns:
            raise refused
        keys = KeyFile(folder / KEY, task.keys_of(seat.party), task.kem)
        public = task.transport.signing_keys
        signing = _read_signing(folder, public[seat.party]) if public else None
        more = (_read_controls(folder, task), seat.ledger, seat.note) if seat.party == 0 else ()
        control = bytes.fromhex(seat.control)
        return cls(folder, task, seat.party, control, accepted, keys, signing, *more)

    @property
    def store(self) -> Path:
        """Path of this party's store."""
        return self.folder / STORE

    @property
    def part_bytes(self) -> int:
        """Bytes that each client sends to this party."""
        return self.task.part_bytes(self.party)

    def expires(self, window: Window) -> datetime:
        """Return when unreleased reports of a window are deleted, before the year 10000."""
        return window.closes + min(self.keep, datetime.max.replace(tzinfo=UTC) - window.closes)

    def commanded_by(self, secret: bytes) -> bool:
        """Whether a secret may command this party, in constant time."""
        return hmac.compare_digest(tokens.digest(secret), self.control)


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Lock a party's folder for this process, as its store has one writer; ValueError if held.

    The lock is SQLite's, on its own empty database: it works wherever the store does.
    """
    path = folder / LOCK
    with contextlib.ExitStack() as held:
        try:
            path.touch(mode=0o600, exist_ok=True)
            lock = sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False)
            held.enter_context(contextlib.closing(lock))
            lock.execute("BEGIN EXCLUSIVE")
        except (OSError, sqlite3.Error) as error:
            busy = getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_BUSY
            why = "another process serves it" if busy else str(error)
            raise ValueError(f"{str(folder)!r} cannot be served: {why}") from None
        yield


def folder_of(task: Task, party: int) -> str:
    """Return the name of a party's folder."""
    return f"{task.transport.intermediary}-{party}" if party else "analyzer"


def write_party_files(
    task: Task,
    keys: Sequence[PrivateKey],
    output: Path,
    ledger: Path | None = None,
    note: str = "",
    signing: Sequence[Ed25519PrivateKey] = (),
) -> dict[str, str]:
    """Write a folder for each party of a new task, and a secret for each client: all or nothing.

    Returns the recipient of each folder or file in ``output``, a new folder; ValueError if it
    exists, or cannot be written. ``ledger`` and ``note`` are the analyzer's; ``signing`` are the
    parties' keys, the analyzer's first, if they sign.
    """
    if tuple(key.public_bytes for key in keys) != task.public_keys:
        raise InvalidValue("keys", "must be the private keys of the task's public keys")
    if tuple(key.public_key().public_bytes_raw() for key in signing) != task.transport.signing_keys:
        raise InvalidValue("signing", "must be the private keys of the task's signing keys")
    try:
        if output.exists():
            raise InvalidValue("output", f"must not exist yet, got {str(output)!r}")
        with tempfile.TemporaryDirectory(prefix=f".{output.name}.", dir=output.parent) as parent:
            whole = Path(parent) / "whole"
            whole.mkdir(mode=0o700)
            _write_party_files(task, keys, whole, ledger, note, signing)
            whole.rename(output)
    except OSError as error:
        raise ValueError(f"cannot write {str(output)!r}: {reason(error)}") from None
    whom = {
        **{
            folder_of(task, j): f"{task.party_name(j)}, {task.address(j)}"
            for j in (*range(1, task.parties), 0)
        },
        "operator": "the person who may close and release",
        f"clients/{SECRETS}": "the clients, a line each",
        TASK: "all of them",
    }
    return {str(output / name): recipient for name, recipient in whom.items()}


def _write_party_files(
    task: Task,
    keys: Sequence[PrivateKey],
    output: Path,
    ledger: Path | None,
    note: str,
    signing: Sequence[Ed25519PrivateKey],
) -> None:
    secrets = [tokens.fresh() for _ in range(task.users)]
    controls = [tokens.fresh() for _ in range(task.parties)]

    def write(name: str, *lines: str, public: bool = False) -> None:
        text = "".join(f"{line}\n" for line in lines)
        write_new(output / name, text.encode(), public=public)

    write(TASK, task.to_json(), public=True)
    names = [folder_of(task, party) for party in range(task.parties)]
    for name in (*names, "operator", "clients"):
        (output / name).mkdir(mode=0o700)
        write(f"{name}/{TASK}", task.to_json(), public=True)
    for party, name in enumerate(names):
        control = tokens.digest(controls[party]).hex()
        config = {"task": task.name, "party": party, "control": control}
        if ledger is not None and party == 0:
            config |= {"ledger": str(ledger.absolute()), "note": note}
        write(f"{name}/{CONFIG}", json.dumps(config))
        accepted = (tokens.for_party(secret, task, party) for secret in secrets)
        write_new(output / name / TOKENS, tokens.TokenList.pack(accepted))
    for place, party in enumerate(task.key_holders):
        own = keys[place :: len(task.key_holders)]
        write(f"{names[party]}/{KEY}", *(tokens.to_text(key.raw) for key in own))
    for name, signer in zip(names, signing, strict=False):
        write(f"{name}/{SIGNING}", tokens.to_text(signer.private_bytes_raw()))
    write(f"analyzer/{CONTROLS}", json.dumps([tokens.to_text(secret) for secret in controls[1:]]))
    write(f"operator/{CONTROL}", tokens.to_text(controls[0]))
    write(f"clients/{SECRETS}", *map(tokens.to_text, secrets))
