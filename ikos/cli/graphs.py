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

from ikos.cli.cluster import connected, scheduler_option
from ikos.cli.errors import Command, Interrupted, Quiet
from ikos.cli.output import print_json, print_text, progress
from ikos.cli.types import MODULUS, NAME, PLOT, Decimal, Whole
from ikos.cluster.processes import MAX_WORKERS, interrupts_held

if TYPE_CHECKING:
    from ikos.cli.graphs_report import Asked
    from ikos.graphs import ComponentCheck

__all__ = ["command"]

EXAMPLES = """\b
Examples
  ikos graphs --users 100 --messages 3 --trials 100000
  ikos graphs --users 30 --messages 2 --trials 10000 --shuffler single \\
      --no-clear-share --seed 1 --json

\b
Exit status
  0 nothing contradicts anything; 1 a bound does not hold, or the samples
  contradict the exact law or a bound; 2 a mistake; 130 interrupted
"""

MOST_TRIALS = 1 << 50
MOST_ROWS = 64

FAILED = 1
INTERRUPTED = 130


@click.command("graphs", cls=Command, epilog=EXAMPLES)
@click.option("--users", required=True, type=Whole(low=1), help="How many; 100, or 10^6.")
@click.option(
    "--messages", required=True, type=Whole(low=1), help="Shuffled messages of each user, e.g. 4."
)
@click.option(
    "--trials",
    required=True,
    type=Whole(low=1, high=MOST_TRIALS),
    help="How many graphs to sample, e.g. 10^6.",
)
@click.option("--modulus", type=MODULUS, help="Compare E[q^C] too, for this order q of the group.")
@click.option(
    "--shuffler",
    type=NAME["shuffler"],
    default="parallel",
    help="parallel: one per message [default]; single: one for all.",
)
@click.option(
    "--clear-share/--no-clear-share",
    default=True,
    help="Whether one more message of each user bypasses the shufflers [yes].",
)
@click.option(
    "--largest",
    type=Whole(low=1, high=MOST_ROWS),
    help="The largest number of components to compare [6].",
)
@click.option(
    "--planted",
    type=Whole(high=MOST_TRIALS),
    help="How many importance samples, with components planted, for each number of components "
    "from 2 on; 0 for none [2000, of large graphs fewer].",
)
@click.option(
    "--confidence",
    type=Decimal(above="0", below="1"),
    default="0.95",
    help="Of each interval [0.95].",
)
@click.option(
    "--backend",
    type=click.Choice(["scipy", "networkx"]),
    default="scipy",
    help="What counts the components: scipy [default], or the slower reference.",
)
@click.option(
    "--seed", type=Whole(), help="Sample the same graphs each time; any number [secure randomness]."
)
@click.option(
    "--workers",
    type=Whole(low=1, high=MAX_WORKERS),
    metavar="INTEGER",
    help="How many processes sample [1], without Dask; the results do not depend on it.",
)
@scheduler_option
@click.option(
    "--plot",
    type=PLOT,
    help="Also plot the probabilities, e.g. --plot components.png; or .svg, .pdf. Needs "
    "matplotlib (the extra 'plot').",
)
@click.option("--json", "json", is_flag=True, help="Print one JSON object.")
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

    Ctrl-C prints what was found until then.
    """
    from ikos import graphs
    from ikos.cli.graphs_report import Asked, headline
    from ikos.testing import DeterministicRandom

    if plot is not None:
        import ikos.plots.components  # noqa: F401  (says at once whether it can be done)
    asked = Asked(trials, backend, seed)
    try:
        with _executor(workers, scheduler) as executor, progress("sampling graphs") as shown:
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
        if stop.partial is None:
            raise Interrupted from None
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
    click.echo(f"{click.get_current_context().command_path}: error: {message}", err=True)
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
        reason = (error.strerror or "output error").lower()
        raise click.UsageError(f"cannot write {str(path)!r}: {reason}") from None


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
