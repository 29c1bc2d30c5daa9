"""Processes that decrypt envelopes, one per core."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from ikos.deployment import opening
from ikos.deployment.opening import PrivateKey
from ikos.primitives.concurrency import cores, spread

if TYPE_CHECKING:
    from ikos.deployment.task import Task

ENOUGH = 2000
"""Least number of envelopes per process, which takes 0.1 s to start."""

Chunk = tuple[int, bytes, str, int, int]
"""The number of a block, some of its envelopes, and the rest that `opening.WORK` takes."""

Answer = tuple[int, int, list[int]]
"""The number of a block, how many of its envelopes were decrypted, and the result of the work."""


class _Process:
    """Decrypts envelopes with a key, which goes through a pipe: no other program can read it there.

    It ends with the pipe, and so with this program, even if this is killed.
    """

    def __init__(self, key: PrivateKey, task: Task, work: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-P", opening.__file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            process_group=0,  # Ctrl-C in a terminal is for this program alone
        )
        self._head = [key.raw.hex(), key.kem, task.width, task.order, work]

    def ask(self, data: bytes, *rest: Any) -> tuple[int, list[int]]:
        """Return the result of the work for a chunk; OSError if the process has ended."""
        source, target = self._process.stdout, self._process.stdin
        assert source is not None
        assert target is not None
        try:
            for line in filter(None, (self._head, [len(data), *rest])):
                target.write(json.dumps(line).encode() + b"\n")
            self._head = []
            target.write(data)
            target.flush()
            opened, values = json.loads(source.readline())
        except (OSError, ValueError):
            raise OSError("a process that opens envelopes has ended") from None
        return opened, values

    def end(self) -> None:
        self._process.kill()
        with suppress(OSError), self._process:  # which closes its pipes and waits
            pass


@contextmanager
def openers(
    key: PrivateKey, task: Task, envelopes: int, work: str = "add up"
) -> Iterator[Callable[[Iterable[Chunk]], Iterator[Answer]]]:
    """Yield a function that decrypts chunks of envelopes, on all cores if there are enough.

    ``work`` is one of `opening.WORK`. At most four chunks per process are read ahead. OSError
    if a process ends by itself.
    """
    executor: ThreadPoolExecutor | None = None
    free: SimpleQueue[_Process] = SimpleQueue()

    def answer(block: int, *chunk: Any) -> Answer:
        if executor is None:
            return block, *opening.WORK[work](key, task.width, task.order, *chunk)
        process = free.get()
        try:
            return block, *process.ask(*chunk)
        finally:
            free.put(process)

    with ExitStack() as ending:
        if (count := min(cores(), envelopes // ENOUGH)) > 1:
            for _ in range(count):
                process = _Process(key, task, work)
                ending.callback(process.end)
                free.put(process)
            executor = ending.enter_context(ThreadPoolExecutor(count))
        yield lambda chunks: spread(answer, chunks, executor)
