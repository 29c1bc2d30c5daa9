"""``ikos graphs``: sample share graphs, and check the bounds of their number of components.

The JSON object that ``--json`` prints is described in `ikos.cli.graphs_report`.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import BrokenExecutor, CancelledError, Executor, ProcessPoolExecutor
from contextlib import contextmanager, suppress
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ikos.cli.cluster import connected
from ikos.cli.errors import Command, unwritten
from ikos.cli.options import FIGURE, option
from ikos.cli.output import Quiet, complain, print_json, print_text, progress
from ikos.cli.types import Name, Whole

if TYPE_CHECKING:
    from ikos.cli.graphs_report import Asked
    from ikos.graphs import ComponentCheck

EXAMPLES = """\b
Examples
  ikos graphs --users 100 --messages 3 --trials 100000
  ikos graphs --users 30 --messages 2 --trials 10000 \\
      --shuffler single --no-clear-share --seed 1 --json
  ikos graphs --users 100 --messages 4 --trials 10^5 \\
      --modulus 2^8 --workers 2 --plot components.png

\b
Exit status
  1    the check failed: a bound does not hold, or the
       samples contradict the exact law or a bound
  130  interrupted: the table is of what was done
"""

SECTIONS = {
    "users": "The graphs",
    "largest": "The check",
    "workers": "Where to work",
    "plot": "Output",
}

MOST_TRIALS = 1 << 50
MOST_ROWS = 64

FAILED = 1
INTERRUPTED = 130


@click.command("graphs", cls=Command, epilog=EXAMPLES, sections=SECTIONS)
@option("--users", required=True, type=Whole(low=1))
@option(
    "--messages", required=True, type=Whole(low=1), help="Shuffled messages of each user, e.g. 4."
)
@option("--shuffler")
@option("--clear-share/--no-clear-share")
@option(
    "--trials",
    required=True,
    type=Whole(low=1, high=MOST_TRIALS),
    help="How many graphs to sample, e.g. 10^6.",
)
@option("--seed", help="Sample the same graphs each time; any number.")
@option(
    "--backend",
    type=Name("scipy", "networkx"),
    default="scipy",
    help="What counts the components; networkx is the slower reference.",
)
@option(
    "--largest",
    type=Whole(low=1, high=MOST_ROWS),
    shown="6",
    help="The largest number of components to compare.",
)
@option(
    "--planted",
    type=Whole(high=MOST_TRIALS),
    shown="2000, of large graphs fewer",
    help="How many importance samples, with components planted, for each number of components "
    "from 2 on; 0 for none.",
)
@option(
    "--modulus",
    shown=None,
    help="Compare E[q^C] too, for this order q of the group of the shares.",
)
@option("--confidence")
@option(
    "--workers",
    shown="1",
    help="How many processes sample, without Dask; the results do not depend on it.",
)
@option("--scheduler")
@option("--plot", help=FIGURE.format("the probabilities"))
@option("--json", "json")
def command(
    users: int,
    messages: int,
    trials: int,
    modulus: int | None,
    confidence: Fraction,
    backend: str,
    seed: int | None,
    workers: int | None,
    scheduler: str | None,
    plot: Path | None,
    json: bool,
    **options: Any,
) -> None:
    """Sample share graphs and check the bounds of their components.

    The share graph joins users who hide among each other; what it hides is a
    matter of its number C of connected components. The probability of C = 1,
    2, ... is computed exactly (up to 2048 users) and compared with its bounds,
    with sampled graphs, and with importance samples of those that are too rare
    to be seen.

    Ctrl-C prints what was found until then, once the exact law is known.
    """
    from ikos import graphs
    from ikos.cli.graphs_report import Asked, headline
    from ikos.testing import DeterministicRandom

    if plot is not None:
        import ikos.plots.components  # noqa: F401  (says at once whether it can be done)
    asked = Asked(trials, backend, seed)
    try:
        with _executor(workers, scheduler) as executor, progress("checking bounds") as shown:
            check = graphs.check_components(
                users,
                messages,
                trials,
                q=modulus,
                confidence=float(confidence),
                backend=backend,
                rng=None if seed is None else DeterministicRandom(seed),
                executor=executor,
                progress=shown,
                **options,
            )
    except graphs.Interrupted as stop:
        _print(Asked(trials, backend, seed, interrupted=True), stop.partial, None, json)
        _end(headline(stop.done, trials), INTERRUPTED)
    except BrokenExecutor:
        raise click.UsageError(
            "a worker process has ended; where memory is short, use fewer --workers"
        ) from None
    except CancelledError:
        raise click.UsageError("the connection to the scheduler was lost") from None
    if plot is not None:
        _plot(plot, check)
    _print(asked, check, plot, json)
    if not check.holds:
        _end("the check failed: " + _failure(check), FAILED)


def _print(asked: Asked, check: ComponentCheck, plot: Path | None, json: bool) -> None:
    from ikos.cli.graphs_report import as_json, as_text

    if json:
        print_json(as_json(asked, check, plot))
    else:
        print_text(as_text(asked, check, plot))


def _end(message: str, status: int) -> None:
    complain(click.get_current_context().command_path, "error", message)
    raise Quiet(status)


def _failure(check: ComponentCheck) -> str:
    if check.bounded is False:
        return "the exact law is above a bound"
    if check.agrees is False:
        return "the samples contradict the exact law"
    return "the samples contradict a bound"


def _plot(path: Path, check: ComponentCheck) -> None:
    from ikos.plots import save
    from ikos.plots.components import components_figure

    try:
        save(components_figure(check), path)
    except OSError as error:
        raise unwritten(path, error) from None


# Processes


@contextmanager
def _executor(workers: int | None, scheduler: str | None) -> Iterator[Executor | None]:
    """Give an executor of processes here or of a cluster, or None."""
    if scheduler is None:
        with _pool(workers or 1) as executor:
            yield executor
        return
    with connected(workers, scheduler) as cluster:
        yield None if cluster is None else cluster.executor


@contextmanager
def _pool(workers: int) -> Iterator[Executor | None]:
    """Give an executor of so many processes, or None for one.

    Whatever ends it early, Ctrl-C for one, ends the processes at once: what they are at is
    no longer wanted. Ctrl-C goes to all processes of a terminal; these leave it to this one.
    """
    if workers == 1:
        yield None
        return
    from ikos.cluster.processes import interrupts_held

    before = set(multiprocessing.active_children())
    # spawn, because threads of numerical libraries do not survive a fork
    executor = ProcessPoolExecutor(
        workers,
        mp_context=multiprocessing.get_context("spawn"),
        initializer=_leave_interrupts,
    )
    try:
        with interrupts_held():
            for _ in range(workers):
                executor.submit(_ready)  # starts a process, which goes without interrupts as well
        yield executor
    except BaseException:
        try:
            _forget(executor)
        finally:
            for process in set(multiprocessing.active_children()) - before:
                process.terminate()
        raise
    executor.shutdown()


def _forget(executor: Executor) -> None:
    """Cancel what is not begun, and return when that is done: in a second at most."""
    with suppress(RuntimeError):  # the executor may be broken
        last = executor.submit(_ready)
        executor.shutdown(wait=False, cancel_futures=True)
        # Another thread cancels. Processes that end before it has done so make it, in versions
        # of Python before 3.13, stumble over what was cancelled already.
        patience = time.monotonic() + 1
        while not (last.done() or last.running()) and time.monotonic() < patience:
            time.sleep(0.002)


def _leave_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_the_parent, daemon=True).start()


def _end_with_the_parent() -> None:
    """End this process once its parent is gone, killed in a way that left it no time to say so."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _ready() -> None:
    """Do nothing."""
