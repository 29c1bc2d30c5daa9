"""Other parties over HTTP, with time limits; every failure is an OSError, to be retried."""

from __future__ import annotations

import queue
import socket
import ssl
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.cookiejar import DefaultCookiePolicy
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import httpcore
import httpx
from pydantic import ValidationError

from ikos._validation import InvalidValue
from ikos.deployment import tokens
from ikos.deployment.party_files import reason
from ikos.deployment.task import Task, Window
from ikos.deployment.wire import (
    ID_BYTES,
    SLOWEST,
    Agreement,
    AnalyzerStatus,
    Message,
    Peers,
    ProblemDetails,
    Schedule,
    ShufflerStatus,
    Status,
    first_few,
)
from ikos.results.report import printable

__all__ = ["RemoteAnalyzer", "RemoteError", "Untrusted", "connect"]

CONNECT_SECONDS = 5.0
ANSWER_SECONDS = 60.0
CLOSE_SECONDS = 120.0  # the analyzer asks all shufflers before it answers
PEER_SECONDS = 20.0  # less than the analyzer's limit for a shuffler that waits for a peer
STATUS_SECONDS = 2.0  # for a shuffler, for the page
_ANSWER = 1 << 16  # most bytes of an answer that is neither a batch nor a list of ids
_OTHER_HOST = "have one issued for the address in the task"
_CERTIFICATE_ADVICE = {  # by the error's number in OpenSSL
    9: "check the clock here",
    10: "renew it there, or check the clock here",
    62: _OTHER_HOST,
    64: _OTHER_HOST,
}

_PAUSE = 0.1
_LONGEST_PAUSE = 2.0

_A = TypeVar("_A")
_T = TypeVar("_T", bound=Message)
_S = TypeVar("_S", bound=Status)

_limit = threading.local()


class RemoteError(OSError):
    """A party that answers unexpectedly, or refuses for now; ``name`` is the problem's."""

    def __init__(self, words: str, name: str = "") -> None:
        super().__init__(words)
        self.name = name


class Untrusted(RemoteError):  # noqa: N818
    """A party whose certificate is not verified; an immediate retry would not help."""


class Unanswered(RemoteError):  # noqa: N818
    """A party that does not answer at all: it may be starting."""


# The timeouts of httpx are for one read each: a party that sends a byte now and then, even within
# the head of an answer, would hold its reader forever.


@contextmanager
def within(seconds: float) -> Generator[None, None, None]:
    """Limit the time of this thread's exchanges: `httpx.TimeoutException` beyond it."""
    _limit.until = time.monotonic() + seconds
    try:
        yield
    finally:
        del _limit.until


def _remaining(
    timeout: float | None, late: type[Exception] = httpcore.ConnectTimeout
) -> float | None:
    """Return the timeout of one step: the given one, or the time left if that is less."""
    until: float | None = getattr(_limit, "until", None)
    if until is None:
        return timeout
    remaining = until - time.monotonic()
    if remaining <= 0:
        raise late("the exchange took too long")
    return remaining if timeout is None else min(timeout, remaining)


class _TimedStream(httpcore.NetworkStream):
    def __init__(self, stream: httpcore.NetworkStream) -> None:
        self._stream = stream
        self.close = stream.close  # type: ignore[method-assign]
        self.get_extra_info = stream.get_extra_info  # type: ignore[method-assign]

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, _remaining(timeout, httpcore.ReadTimeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._stream.write(buffer, _remaining(timeout, httpcore.WriteTimeout))

    def start_tls(self, *arguments: Any, **options: Any) -> httpcore.NetworkStream:
        options["timeout"] = _remaining(options.get("timeout"))
        return _TimedStream(self._stream.start_tls(*arguments, **options))


class _Backend(httpcore.SyncBackend):
    def connect_tcp(self, *arguments: Any, **options: Any) -> httpcore.NetworkStream:
        options["timeout"] = _remaining(options.get("timeout"))
        return _TimedStream(super().connect_tcp(*arguments, **options))


def connect(ca: Path | None = None) -> httpx.Client:
    """Return a client that trusts the system's authorities or those in a PEM file."""
    try:
        context = ssl.create_default_context(cafile=None if ca is None else str(ca))
    except OSError as error:  # including errors of ssl
        why = "it holds none" if isinstance(error, ssl.SSLError) else reason(error)
        raise InvalidValue(
            "ca", f"must be a PEM file of authorities, got {str(ca)!r}: {why}"
        ) from None
    transport = httpx.HTTPTransport(verify=context, trust_env=False)
    transport._pool._network_backend = _Backend()
    client = httpx.Client(
        transport=transport,
        timeout=httpx.Timeout(ANSWER_SECONDS, connect=CONNECT_SECONDS),
        headers={"Accept-Encoding": "identity"},
        trust_env=False,
    )
    # nothing from one party is passed to another, as cookies would be
    client.cookies.jar.set_policy(DefaultCookiePolicy(allowed_domains=[]))
    return client


def in_parallel(
    ask: Callable[[int], _A], parties: Sequence[int], most: int = 32
) -> Iterator[tuple[int, _A | OSError]]:
    """Yield the answer of each party as it comes, or the OSError from asking it."""
    answers: queue.SimpleQueue[tuple[int, _A | BaseException]] = queue.SimpleQueue()
    free = threading.Semaphore(most)

    def work(party: int) -> None:
        answer: _A | BaseException
        try:
            with free:
                answer = ask(party)
        except BaseException as error:
            answer = error
        answers.put((party, answer))

    for party in parties:
        # daemons, unlike an executor's threads: a program told to end waits for no party
        threading.Thread(target=work, args=(party,), name="asking", daemon=True).start()
    for _ in parties:
        party, answer = answers.get()
        if isinstance(answer, BaseException) and not isinstance(answer, OSError):
            raise answer
        yield party, answer


def exchange(
    client: httpx.Client,
    method: str,
    address: str,
    who: str,
    *,
    limit: int = _ANSWER,
    content: bytes | None = None,
    headers: dict[str, str] | None = None,
    seconds: float = ANSWER_SECONDS,
    sink: BinaryIO | None = None,
) -> httpx.Response:
    """Return a whole answer; RemoteError if it is too long or takes too long.

    With a ``sink``, the content of a success goes there.
    """
    timeout = httpx.Timeout(seconds, connect=min(seconds, CONNECT_SECONDS))
    beyond = max(0, limit - _ANSWER) + len(content or b"")
    try:
        with (
            within(seconds + beyond / SLOWEST),
            client.stream(
                method, address, content=content, headers=headers, timeout=timeout
            ) as response,
        ):
            read, length = bytearray(), 0
            for piece in response.iter_raw():  # raw: a few bytes could decompress to very many
                length += len(piece)
                if sink is not None and response.is_success:
                    sink.write(piece)
                else:
                    read += piece
                if length > max(limit, _ANSWER):
                    if response.is_success:
                        raise RemoteError(f"{who} sent too long an answer")
                    break
            kind = {"Content-Type": response.headers.get("Content-Type", "")}
            return httpx.Response(response.status_code, headers=kind, content=bytes(read))
    except httpx.HTTPError as error:
        raise _failure(who, error) from None


def _failure(who: str, error: httpx.HTTPError) -> RemoteError:
    """Return the error for a failed connection, in words for people."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, OSError):
        cause = cause.__cause__ or cause.__context__  # the underlying error of the system
    if isinstance(cause, ssl.SSLCertVerificationError):
        why = cause.verify_message.rstrip(".")
        advice = _CERTIFICATE_ADVICE.get(cause.verify_code, "see --ca")
        return Untrusted(f"{who}: its certificate cannot be verified ({advice}): {why}")
    words = "the connection broke"
    if isinstance(cause, ssl.SSLError):
        words = "its TLS is not understood"
    elif isinstance(cause, socket.gaierror):
        words = "no such host"
    elif isinstance(error, httpx.TimeoutException):
        words = "no answer in time"
    elif cause is not None:
        words = reason(cause, words)
    return Unanswered(f"{who} does not answer: {words}")


def problem_of(response: httpx.Response) -> tuple[str, str]:
    """Return the name and description of the problem in a party's answer; trust neither."""
    try:
        problem = ProblemDetails.model_validate_json(response.content)
    except ValidationError:
        return "unknown", f"HTTP status {response.status_code}"
    name = problem.type.removeprefix("urn:ikos:parties:")
    return printable(name[:40]), printable(" ".join(problem.detail.split())[:300])


def _unexpected(who: str) -> RemoteError:
    return RemoteError(f"{who} sent an unexpected answer")


def _read(kind: type[_T], response: httpx.Response, who: str) -> _T:
    """Return the message in a party's answer."""
    try:
        return kind.model_validate_json(response.content)
    except ValidationError:
        raise _unexpected(who) from None


def open_window(client: httpx.Client, task: Task) -> Window:
    """Return the window that is open, by the analyzer's clock; RemoteError if none is."""
    who = f"the analyzer at {task.analyzer}"
    response = exchange(client, "GET", f"{task.analyzer}/tasks/{task.name}", who)
    if not response.is_success:
        raise RemoteError(f"{who} refuses: {problem_of(response)[1]}")
    schedule = _read(Schedule, response, who)
    if (schedule.task, schedule.windows) != (task.name, task.windows):
        raise _unexpected(who)
    if schedule.open is None:
        raise RemoteError("no window of the task is open")
    try:
        return task.at(schedule.open)
    except ValueError:
        raise _unexpected(who) from None


class _RemoteParty:
    """A party's work on a window, over a connection."""

    def __init__(
        self, client: httpx.Client, window: Window, party: int, control: bytes | None = None
    ) -> None:
        task = window.task
        self._client, self._window, self._task, self.party = client, window, task, party
        self._place = f"{task.address(party)}{window.path}"
        self.name = task.party_name(party)
        self._who = self.name if party else f"{self.name} at {task.analyzer}"
        self._headers = {}
        if control is not None:
            self._headers["Authorization"] = f"Bearer {tokens.to_text(control)}"

    def _ask(
        self, method: str, path: str = "", *, absent: bool = False, **options: Any
    ) -> httpx.Response:
        """Return the answer to a command; with ``absent``, 404 is allowed."""
        response = exchange(
            self._client, method, self._place + path, self._who, headers=self._headers, **options
        )
        if not (response.is_success or (absent and response.status_code == 404)):
            name, detail = problem_of(response)
            raise RemoteError(f"{self._who} refuses: {detail} ({name})", name)
        return response

    def _status(self, kind: type[_S], method: str = "GET", path: str = "", **options: Any) -> _S:
        """Return a party's status, if it is from that party and plausible."""
        status = _read(kind, self._ask(method, path, **options), self._who)
        place = (self._task.name, self._window.number, self.party)
        belongs = (status.task, status.window, status.party) == place
        if not belongs or status.reports > self._task.users:
            raise _unexpected(self._who)
        return status

    def unreachable(self, seconds: float = ANSWER_SECONDS) -> list[str]:
        """Return, for each shuffler that it cannot reach, why."""
        peers = _read(Peers, self._ask("GET", "/peers", seconds=seconds), self._who)
        return list(map(printable, first_few(peers.unreachable)))


class RemoteShuffler(_RemoteParty):
    """A shuffler of a window, for its peers and for the analyzer, which has its control secret."""

    def status(self, seconds: float = STATUS_SECONDS) -> ShufflerStatus:
        """Return the shuffler's public status, if it answers at once."""
        return self._status(ShufflerStatus, seconds=seconds)

    def agreement(self) -> str | None:
        """Return the digest of the batch to which it agreed, if any."""
        response = self._ask("GET", "/agreement", seconds=PEER_SECONDS, absent=True)
        return _read(Agreement, response, self._who).digest if response.is_success else None

    def close(self) -> None:
        """Close the window."""
        self._ask("POST", "/close")

    def ids(self) -> bytes:
        """Return the ids of its reports, in order."""
        return self._bytes("/reports", ID_BYTES * self._task.users)

    def examine(self, receipts: bytes) -> bytes:
        """Hand it the receipts of reports; return the ids of those that it refuses."""
        limit = ID_BYTES * self._task.users
        return self._bytes("/receipts", limit, method="PUT", content=receipts)

    def agree(self, ids: bytes) -> None:
        """Send it the ids of the complete reports."""
        self._ask("PUT", "/batch", content=ids)

    def batch(self, limit: int) -> bytes:
        """Return the envelopes of the complete reports."""
        return self._bytes("/batch", limit)

    def forget(self) -> None:
        """Tell it that the batch is no longer needed."""
        self._ask("DELETE", "/batch")

    def _bytes(
        self, path: str, limit: int, *, method: str = "GET", content: bytes | None = None
    ) -> bytes:
        """Return bytes; a page from a proxy instead is an error."""
        response = self._ask(method, path, limit=limit, content=content)
        if response.headers["Content-Type"] != "application/octet-stream":
            raise _unexpected(self._who)
        return response.content


class RemoteAnalyzer(_RemoteParty):
    """The analyzer of a window, over a connection from `connect`; the status needs no secret."""

    def __init__(self, client: httpx.Client, window: Window, control: bytes | None = None) -> None:
        super().__init__(client, window, 0, control)
        self.ordered = False  # whether `finish` requested the release

    def status(self) -> AnalyzerStatus:
        """Return the analyzer's public status."""
        return self._status(AnalyzerStatus)

    def certificate(self, sink: BinaryIO) -> None:
        """Write the certificate of a verified sum."""
        longest = _ANSWER + self._task.users * (2 * self._task.part_bytes(0) + 256)
        self._ask("GET", "/certificate", limit=longest, sink=sink)

    def close(self) -> AnalyzerStatus:
        """Close the window; ``missing`` of the status lists the shufflers not notified yet."""
        return self._status(AnalyzerStatus, "POST", "/close", seconds=CLOSE_SECONDS)

    def release(self) -> AnalyzerStatus:
        """Request the release of the result; the status shows its progress."""
        return self._status(AnalyzerStatus, "POST", "/release")

    def finish(
        self, seconds: float = 600.0, say: Callable[[str], None] = lambda _: None
    ) -> AnalyzerStatus:
        """Request the release, and follow it until it is ``released``, or ``stopped`` permanently.

        ``say`` is called with a line for each step and obstacle. RemoteError if the analyzer does
        not answer or refuses; if it is not done in time, when it continues by itself; or, before
        anything is closed, if an open window has too few reports, with which the release would be
        stopped permanently, or a party cannot reach a shuffler.
        """
        status, until = self.status(), time.monotonic() + seconds
        if status.state == "collecting":
            self._check_ready(status, until, say)
        self.ordered = True
        pause, hindered, shown = _PAUSE, "", set[str]()
        status = self.release()  # once: the analyzer retries by itself, with growing pauses
        while status.state not in ("released", "stopped"):
            progress = status.release
            words = printable(progress.message or progress.step or "beginning")
            hindered = hindered if progress.running else words
            if not progress.running and progress.again is None:
                raise RemoteError(f"the analyzer gave up: {words}; release again to resume")
            if words not in shown:  # a new attempt repeats steps
                say(printable(progress.words or words))
                shown.add(words)
                pause = _PAUSE
            if (remaining := until - time.monotonic()) <= 0:
                why = hindered or words
                raise RemoteError(
                    f"not released in {seconds:g} s: {why}; release again to follow it"
                )
            time.sleep(min(remaining, pause))
            pause = min(2 * pause, _LONGEST_PAUSE)
            status = self.status()
        return status

    def _check_ready(
        self, status: AnalyzerStatus, until: float, say: Callable[[str], None]
    ) -> None:
        """Refuse to end a collection with too few reports, or with unreachable parties."""
        least = self._task.min_reports
        if status.reports < least:  # at most as many can be complete
            now = datetime.now(UTC).replace(microsecond=0)
            rest = max(timedelta(), self._window.closes - now)
            raise RemoteError(
                f"the window is still collecting, and has {status.reports:,} of the "
                f"{least:,} reports that a release needs: a release now would be aborted "
                f"permanently. It closes in {rest}; to end it anyway, close it first"
            )
        say("asking all parties whether they can reach each other")
        seconds = min(CLOSE_SECONDS, max(CONNECT_SECONDS, until - time.monotonic()))
        try:
            unreachable = self.unreachable(seconds)
        except Unanswered as error:
            raise RemoteError(f"nothing is closed: {error}") from None
        if unreachable:
            raise RemoteError(
                f"a release could not end, and nothing is closed: {'; '.join(unreachable)}"
            )
