"""Other parties, from afar: HTTP with timeouts; every failure is an OSError, to be tried again."""

from __future__ import annotations

import socket
import ssl
from http.cookiejar import DefaultCookiePolicy
from pathlib import Path
from typing import Any

import httpx

from ikos._validation import printable
from ikos.deployment import tokens
from ikos.deployment.task import Task
from ikos.deployment.timeouts import SLOWEST, Punctual, within

__all__ = ["RemoteAnalyzer", "RemoteError", "Untrusted", "connect"]

CONNECT_SECONDS = 5.0
ANSWER_SECONDS = 60.0
CLOSE_SECONDS = 120.0  # the analyzer asks all shufflers before it answers
PEER_SECONDS = 20.0  # less than the analyzer waits for who waits for a peer
_ANSWER = 1 << 16  # bytes of an answer that is no batch and no list of ids, at most


class RemoteError(OSError):
    """A party that does not answer, or refuses for now."""


class Untrusted(RemoteError):  # noqa: N818
    """A party whose certificate is not verified: it is of no use to ask again at once."""


def connect(ca: Path | None = None) -> httpx.Client:
    """Return a client with timeouts, which trusts the system's authorities or those of a file.

    Raises
    ------
    ValueError
        If it is no file of authorities.
    """
    try:
        context = ssl.create_default_context(cafile=None if ca is None else str(ca))
    except OSError as error:  # of ssl as well
        known = not isinstance(error, ssl.SSLError) and error.strerror
        reason = str(known).lower() if known else "it holds none"
        raise ValueError(
            f"ca must be a PEM file of authorities, got {str(ca)!r}: {reason}"
        ) from None
    client = httpx.Client(
        transport=Punctual(context),
        timeout=httpx.Timeout(ANSWER_SECONDS, connect=CONNECT_SECONDS),
        follow_redirects=False,
        headers={"Accept-Encoding": "identity"},
        trust_env=False,
    )
    # no party's word goes to another, as cookies would, of one host or of one domain
    client.cookies.jar.set_policy(DefaultCookiePolicy(allowed_domains=[]))
    return client


def failure(who: str, error: httpx.HTTPError) -> RemoteError:
    """Return what a connection that failed means, in words for people."""
    found: BaseException | None = error
    while found is not None and not isinstance(found, OSError):
        found = found.__cause__ or found.__context__  # what the library below it met
    if isinstance(found, ssl.SSLCertVerificationError):
        why = found.verify_message.rstrip(".")
        return Untrusted(f"{who}: its certificate cannot be verified (see --ca): {why}")
    if isinstance(found, ssl.SSLError):
        words = "it speaks no TLS that is understood"
    elif isinstance(found, socket.gaierror):
        words = "no such host"
    elif isinstance(error, httpx.TimeoutException):
        words = "no answer in time"
    else:
        words = (found.strerror or "").lower() if found is not None else ""
    return RemoteError(f"{who} does not answer: {words or 'the connection broke'}")


def problem_of(response: httpx.Response) -> tuple[str, str]:
    """Return the name of what a party answered instead, and its words; both may be made up."""
    found = _object(response)
    if "type" in found and "detail" in found:
        name = str(found["type"]).removeprefix("urn:ikos:parties:")
        detail = str(found["detail"])
    else:
        name, detail = "unknown", f"HTTP status {response.status_code}"
    return printable(name[:40]), printable(" ".join(detail.split())[:300])


def _object(response: httpx.Response) -> dict[str, Any]:
    """Return the JSON object that a party answers; an empty one where it is something else."""
    try:
        found = response.json()
    except (ValueError, RecursionError):  # brackets without end, to end the program
        return {}
    return found if isinstance(found, dict) else {}


def agreement_of(client: httpx.Client, task: Task, party: int) -> str | None:
    """Return the digest of the batch that a shuffler agreed to, if any; OSError if it is silent."""
    who, address = f"shuffler {party}", f"{_place(task, party)}/agreement"
    response = _answer(client, "GET", address, who, seconds=PEER_SECONDS)
    if response.status_code == httpx.codes.NOT_FOUND:
        return None
    _succeeded(response, who)
    digest = _object(response).get("digest")
    if not isinstance(digest, str):
        raise RemoteError(f"{who} answers something else")
    return digest


class _Party:
    """A party of a task, at the other end of a connection."""

    def __init__(
        self, client: httpx.Client, task: Task, party: int, who: str, control: bytes | None
    ) -> None:
        self._client = client
        self._task = task
        self._place = _place(task, party)
        self._who = who
        self._headers = {} if control is None else _commanding(control)

    def _ask(
        self,
        method: str,
        path: str,
        *,
        limit: int = _ANSWER,
        content: bytes | None = None,
        seconds: float = ANSWER_SECONDS,
    ) -> httpx.Response:
        """Return what it answers, if it does what it is told."""
        response = _answer(
            self._client,
            method,
            self._place + path,
            self._who,
            limit=limit,
            content=content,
            headers=self._headers,
            seconds=seconds,
        )
        _succeeded(response, self._who)
        return response


class RemoteShuffler(_Party):
    """One shuffler of a task, as the analyzer speaks to it.

    Parameters
    ----------
    client : httpx.Client
        The connection.
    task : Task
        The task.
    party : int
        Which shuffler.
    control : bytes
        The secret that commands it.
    """

    def __init__(self, client: httpx.Client, task: Task, party: int, control: bytes) -> None:
        super().__init__(client, task, party, f"shuffler {party}", control)

    def status(self, seconds: float) -> dict[str, Any]:
        """Return what the shuffler tells everybody, if it does within so many seconds."""
        found = _object(self._ask("GET", "", seconds=seconds))
        if not isinstance(found.get("reports"), int) or not isinstance(found.get("state"), str):
            raise RemoteError(f"{self._who} answers something else")
        return found

    def close(self) -> None:
        """Close the task."""
        self._ask("POST", "/close")

    def ids(self) -> bytes:
        """Return the ids of its reports, in order."""
        return self._bytes("/reports", 16 * self._task.users)

    def agree(self, ids: bytes) -> None:
        """Tell it which reports are complete."""
        self._ask("PUT", "/batch", content=ids)

    def batch(self, limit: int) -> bytes:
        """Return the envelopes of the complete reports."""
        return self._bytes("/batch", limit)

    def forget(self) -> None:
        """Tell it that the batch is stored."""
        self._ask("DELETE", "/batch")

    def _bytes(self, path: str, limit: int) -> bytes:
        """Return bytes; a page that some server between answers instead is none."""
        response = self._ask("GET", path, limit=limit)
        if response.headers["Content-Type"] != "application/octet-stream":
            raise RemoteError(f"{self._who} answers something else")
        return response.content


class RemoteAnalyzer(_Party):
    """The analyzer of a task, as its operator and everybody else speak to it.

    Parameters
    ----------
    client : httpx.Client
        The connection.
    task : Task
        The task.
    control : bytes, optional
        The secret that commands it; the status needs none.
    """

    def __init__(self, client: httpx.Client, task: Task, control: bytes | None = None) -> None:
        super().__init__(client, task, 0, f"the analyzer at {task.analyzer}", control)

    def status(self) -> dict[str, Any]:
        """Return what the analyzer tells everybody."""
        return self._told("GET", "")

    def close(self) -> dict[str, Any]:
        """Close the task; the status, with which parties do not know it yet as ``missing``."""
        return self._told("POST", "/close", CLOSE_SECONDS)

    def release(self) -> dict[str, Any]:
        """Let it release the result; the status, which tells how far that is."""
        return self._told("POST", "/release")

    def _told(self, method: str, path: str, seconds: float = ANSWER_SECONDS) -> dict[str, Any]:
        found = _object(self._ask(method, path, seconds=seconds))
        if found.get("task") != self._task.name or not isinstance(found.get("state"), str):
            raise RemoteError(
                f"what answers at {self._task.analyzer} is not the analyzer of this task"
            )
        return found


def _commanding(control: bytes) -> dict[str, str]:
    return {"Authorization": f"Bearer {tokens.to_text(control)}"}


def _place(task: Task, party: int) -> str:
    return f"{task.address(party)}/tasks/{task.name}"


def _answer(
    client: httpx.Client,
    method: str,
    address: str,
    who: str,
    *,
    limit: int = _ANSWER,
    content: bytes | None = None,
    headers: dict[str, str] | None = None,
    seconds: float = ANSWER_SECONDS,
) -> httpx.Response:
    """Return a whole answer; one that is longer than it may be, or never ends, is given up."""
    timeout = httpx.Timeout(seconds, connect=min(seconds, CONNECT_SECONDS))
    beyond = max(0, limit - _ANSWER) + len(content or b"")
    try:
        with (
            within(seconds + beyond / SLOWEST),
            client.stream(
                method, address, content=content, headers=headers, timeout=timeout
            ) as response,
        ):
            parts, length = [], 0
            for piece in response.iter_raw():  # as it comes: a little could unpack to very much
                parts.append(piece)
                length += len(piece)
                if length > max(limit, _ANSWER):
                    raise RemoteError(f"{who} answers too much")
            kind = response.headers.get("Content-Type", "")
            return httpx.Response(
                response.status_code, headers={"Content-Type": kind}, content=b"".join(parts)
            )
    except httpx.HTTPError as error:
        raise failure(who, error) from None


def _succeeded(response: httpx.Response, who: str) -> None:
    if not response.is_success:
        name, detail = problem_of(response)
        raise RemoteError(f"{who} refuses: {detail} ({name})")
