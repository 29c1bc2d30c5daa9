"""A plan on paper: what each party of a sum over up to 10^10 users needs, from measured rates.

    python -m analysis.deployment_plan
    python -m analysis.deployment_plan --users 1e9 --epsilon 1 --delta 1e-12
    python -m analysis.deployment_plan --users 1e9 --modulus 2^64 --sigma 80 --output DIR

measures what one core of this machine takes for each part (`analysis.machine_rates`), prints what
follows for each party and number of users, and says what breaks first. With ``--output`` it also
writes ``deployment-plan.md``, ``.csv``, ``.svg`` and ``.png``. The rates are this machine's of this
moment, so that no two runs write the same bytes.
"""

from __future__ import annotations

import math
import resource
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from operator import itemgetter
from typing import Any

import click

from analysis.machine_rates import Rates, machine, measured, share_bytes
from analysis.output import Files, csv_text, main, markdown, plain_number, program, steps
from ikos import PrivateSum, SecureSum
from ikos.cli.output import power_text
from ikos.cli.types import DELTA, EPSILON, MODULUS, SIGMA, WHOLE
from ikos.results.sums import at_least
from ikos.transports import Shares

ID = 16
"""Bytes of a report's id."""

ANSWER = 64
"""Bytes of an answer to a client: it was stored."""

HELD = 1.0
"""Seconds that a client's connection stays open: assumed."""

USERS = tuple(10**k for k in range(6, 11))
SIZES = (10**5, 10**6, 4 * 10**6)


@dataclass(frozen=True)
class Machine:
    """What the plan calls one machine.

    Attributes
    ----------
    cores : int
        As fast as those measured.
    memory : float
        Bytes.
    network : float
        Bytes a second, each way.
    window : float
        Seconds in which reports come in, and again in which each party must be done.
    files : int
        What one process may have open at once.
    """

    cores: int
    memory: float
    network: float
    window: float
    files: int


@dataclass(frozen=True)
class Need:
    """What one party needs in all.

    Attributes
    ----------
    party : str
        "client", "shuffler" or "analyzer".
    parties : int
        How many there are of it.
    messages : int
        Shares that each sends (a client) or gets.
    bytes_in, bytes_out : int
        Through its network.
    seconds : float
        Of a core.
    memory : float
        Bytes at once.
    """

    party: str
    parties: int
    messages: int
    bytes_in: int
    bytes_out: int
    seconds: float
    memory: float


def ordering_seconds(rates: Rates, size: int) -> float:
    """Return what one core takes to order this many envelopes.

    Up to the largest size that was measured: as for each envelope of the next larger one, at least
    the truth. Beyond: the time for each grows with the logarithm, as that of a sort by comparison
    does. This is an extrapolation, and no bound: it knows nothing of memory beyond caches.
    """
    for ordering in rates.orderings:
        if size <= ordering.size:
            return size * ordering.seconds
    largest = rates.orderings[-1]
    return size * largest.seconds * math.log2(size) / math.log2(largest.size)


def needs(protocol: Shares, rates: Rates) -> tuple[Need, Need, Need]:
    """Return what a client, a shuffler and the analyzer need, with parallel shufflers.

    Notes
    -----
    With n users, m shuffled messages, w bytes of a share, E of an envelope and I of an id, and u
    and d bytes up and down for a connection and its answer:

    - a client makes m + 1 connections and sends m envelopes and one share, each with its id:
      m (I + E) + I + w + (m + 1) u;
    - a shuffler gets n envelopes, sends n ids to the analyzer, gets back those that are complete
      (at most n), and sends n envelopes: n (I + E + u + I) in, n (d + I + E) out. In memory it
      orders all of them at once;
    - the analyzer gets n clear shares, m lists of ids and m n envelopes, n (I + w + u) +
      m n (I + E), and sends n d + m n I. It holds two lists of ids, 2 n I, and opens and adds the
      rest piece by piece.
    """
    n, m = protocol.n, protocol.messages.shuffled
    share = share_bytes(protocol.group)
    envelope = share + rates.overhead
    up, down = rates.connection.up, rates.connection.down + ANSWER
    client = Need(
        "client",
        n,
        m + 1,
        (m + 1) * down,
        m * (ID + envelope) + ID + share + (m + 1) * up,
        rates.report + m * rates.seal + (m + 1) * rates.connection.client,
        0.0,
    )
    shuffler = Need(
        "shuffler",
        m,
        n,
        n * (ID + envelope + up) + n * ID,
        n * down + n * ID + n * envelope,
        n * rates.connection.server + ordering_seconds(rates, n),
        n * max(ordering.memory for ordering in rates.orderings),
    )
    analyzer = Need(
        "analyzer",
        1,
        (m + 1) * n,
        n * (ID + share + up) + m * n * (ID + envelope),
        n * down + m * n * ID,
        n * rates.connection.server + m * n * rates.open + (m + 1) * n * rates.add,
        2.0 * n * ID,
    )
    return client, shuffler, analyzer


def limits(found: Sequence[Need], one: Machine) -> dict[str, float]:
    """Return how many machines, windows or pieces each limit takes: above 1 it breaks."""
    shares = {}
    for need in found:
        if need.party == "client":
            continue
        name = "one shuffler" if need.party == "shuffler" else "the analyzer"
        moved = max(need.bytes_in, need.bytes_out)
        shares[f"{name}: cores"] = need.seconds / (one.cores * one.window)
        shares[f"{name}: network"] = moved / (one.network * one.window)
        shares[f"{name}: memory"] = need.memory / one.memory
    users = found[0].parties
    shares["each party: open connections"] = users * HELD / one.window / one.files
    return shares


# Texts


def _shown(value: float, units: Sequence[tuple[float, str]]) -> str:
    """Return a quantity to two digits, rounded up, in the largest unit that is not above it."""
    factor, name = next((u for u in reversed(units) if value >= u[0]), units[0])
    return f"{float(at_least(value / factor, 2)):,g} {name}"


_BYTES = [(10.0 ** (3 * k), name) for k, name in enumerate(("B", "kB", "MB", "GB", "TB", "PB"))]
_TIMES = [(1e-9, "ns"), (1e-6, "µs"), (1e-3, "ms"), (1.0, "s"), (3600.0, "h")]


def bytes_text(value: float) -> str:
    """Return bytes for a table, rounded up."""
    return _shown(value, _BYTES)


def time_text(value: float) -> str:
    """Return a time for a table, rounded up."""
    return _shown(value, _TIMES)


def _rates_table(rates: Rates) -> str:
    rows = [
        ("client: round, draw noise, share", time_text(rates.report)),
        ("the same among many in one call", time_text(rates.together)),
        ("client: seal one share (HPKE)", time_text(rates.seal)),
        ("analyzer: open one envelope", time_text(rates.open)),
        ("client: one TLS connection and request", time_text(rates.connection.client)),
        ("server: the same", time_text(rates.connection.server)),
        *(
            (f"shuffler: order one envelope of {plain_number(o.size)}", time_text(o.seconds))
            for o in rates.orderings
        ),
        ("analyzer: check and add one share", time_text(rates.add)),
        ("`run`: one user, all parties in one process", time_text(rates.simulated)),
        ("an envelope beyond its share", bytes_text(rates.overhead)),
        ("a connection beyond request and answer, up", bytes_text(rates.connection.up)),
        ("the same, down", bytes_text(rates.connection.down)),
        (
            "shuffler: memory to order one envelope",
            bytes_text(max(o.memory for o in rates.orderings)),
        ),
    ]
    return markdown(["part", "measured, one core"], rows)


def shares_of(protocol: PrivateSum | SecureSum) -> Shares:
    """Return the transport of a protocol."""
    assert isinstance(protocol.transport, Shares)
    return protocol.transport


@dataclass(frozen=True)
class _Case:
    """A number of users with what follows."""

    protocol: PrivateSum | SecureSum
    needs: tuple[Need, Need, Need]
    limits: dict[str, float]

    @property
    def secure(self) -> Shares:
        return shares_of(self.protocol)


def _parties_table(cases: Sequence[_Case]) -> str:
    rows = []
    for case in cases:
        for need in case.needs:
            memory = bytes_text(need.memory) if need.memory else "–"
            rows.append(
                (
                    plain_number(case.secure.n),
                    need.party,
                    f"{float(at_least(need.messages, 2)):,.0f}",
                    bytes_text(need.bytes_in),
                    bytes_text(need.bytes_out),
                    time_text(need.seconds),
                    memory,
                )
            )
    header = ["n", "each", "messages", "bytes in", "bytes out", "core time", "memory"]
    return markdown(header, rows)


def _parameters_table(cases: Sequence[_Case], rates: Rates) -> str:
    rows = [
        (
            plain_number(case.secure.n),
            f"{case.protocol.precision:,}" if isinstance(case.protocol, PrivateSum) else "–",
            power_text(case.secure.q),
            f"{case.secure.messages.shuffled} + 1",
            bytes_text(share_bytes(case.secure.group) + rates.overhead),
            time_text(case.secure.n * rates.simulated),
        )
        for case in cases
    ]
    return markdown(["n", "p", "q", "messages", "envelope", "`run` on one core"], rows)


def _limits_table(cases: Sequence[_Case]) -> str:
    rows = [(name, *(at_least(case.limits[name], 2) for case in cases)) for name in cases[0].limits]
    first = [max(case.limits.items(), key=itemgetter(1))[0] for case in cases]
    header = ["limit", *(plain_number(case.secure.n) for case in cases)]
    return markdown(header, [*rows, ("*largest*", *first)])


def _intro(what: str) -> str:
    return f"""\
Plan for a {what}. Rates measured on one core of: {machine()}.
Times are of the processor, the slowest of several repetitions. Every number is rounded up to two
digits. All that concerns more users than were measured is extrapolated: in proportion to n, but
for ordering, whose time for each envelope grows with log n. Disks, losses and retries are left out,
and a chain of certificates is longer than the one here.
"""


def _limits_intro(one: Machine) -> str:
    speed, hours = one.network * 8 / 1e9, one.window / 3600
    return f"""\
What breaks first: how many machines (for memory: or pieces) it takes. One has {one.cores} such
cores, {one.memory / 2**30:g} GiB, {speed:g} Gbit/s each way and {hours:g} hours. A process may have
{one.files:,} open files (the limit here). Connections come evenly over the time and stay open
for {HELD:g} s: assumed. Above 1, one machine is not enough.
"""


def plan(what: str, cases: Sequence[_Case], rates: Rates, one: Machine) -> str:
    """Return the whole plan as Markdown."""
    return "\n".join(
        [
            _intro(what),
            _rates_table(rates),
            _parameters_table(cases, rates),
            _parties_table(cases),
            _limits_intro(one),
            _limits_table(cases),
        ]
    )


def _csv(cases: Sequence[_Case]) -> str:
    header = ["n", "q", "shuffled", "party", "parties", "messages", "bytes_in", "bytes_out"]
    return csv_text(
        [*header, "core_seconds", "memory"],
        (
            (
                case.secure.n,
                case.secure.q,
                case.secure.messages.shuffled,
                need.party,
                need.parties,
                need.messages,
                need.bytes_in,
                need.bytes_out,
                need.seconds,
                need.memory,
            )
            for case in cases
            for need in case.needs
        ),
    )


# The program


def _maker(
    epsilon: Fraction | None, delta: Fraction | None, modulus: int | None, sigma: Fraction | None
) -> tuple[str, Callable[[int], PrivateSum | SecureSum]]:
    """Return which sum is asked for, and how it is made for n users."""
    secure = modulus is not None or sigma is not None
    if secure and (epsilon is not None or delta is not None):
        raise click.UsageError("give --epsilon and --delta, or --modulus and --sigma, not both")
    if secure:
        if modulus is None or sigma is None:
            raise click.UsageError("--modulus and --sigma must be given together")
        q, bits = modulus, sigma
        what = f"secure sum, q = {power_text(q)}, sigma = {float(bits):g}"
        return what, lambda n: SecureSum(n, q, sigma=bits)
    budget, allowed = epsilon or Fraction(1), delta or Fraction("1e-12")
    what = f"private sum, epsilon = {float(budget):g}, delta = {float(allowed):g}"
    return what, lambda n: PrivateSum(n, budget, allowed)


def _limit_of_files() -> int:
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return soft if soft > 0 else 1 << 20


@program("", "--users 1e9 --users 1e10 --cores 64", "--modulus 2^64 --sigma 80", printed=True)
@click.option("--users", type=WHOLE, multiple=True, help="How many; any number of times.")
@click.option("--epsilon", type=EPSILON, help="Of a private sum [1].")
@click.option("--delta", type=DELTA, help="Of a private sum [1e-12].")
@click.option("--modulus", type=MODULUS, help="Of a secure sum, e.g. 2^64.")
@click.option("--sigma", type=SIGMA, help="Of a secure sum, in bits.")
@click.option("--cores", type=WHOLE, default=16, help="Of a machine [16].")
@click.option("--memory", type=WHOLE, default=64, help="Of a machine, GiB [64].")
@click.option("--network", type=WHOLE, default=10, help="Gbit/s, each way [10].")
@click.option("--hours", type=WHOLE, default=24, help="For all of it [24].")
def command(
    files: Files,
    users: tuple[int, ...],
    epsilon: Fraction | None,
    delta: Fraction | None,
    modulus: int | None,
    sigma: Fraction | None,
    cores: int,
    memory: int,
    network: int,
    hours: int,
    quick: bool,
) -> None:
    """Plan a deployment: messages, bytes, core time and memory of each party.

    Measures this machine for some ten seconds first.
    """
    what, make = _maker(epsilon, delta, modulus, sigma)
    counts = sorted(set(users)) or list(USERS)
    protocols = [make(n) for n in counts]  # refuses what it must before anything is measured
    sizes = SIZES[:1] if quick else SIZES
    with steps("measuring", 5 + len(sizes)) as step:
        rates = measured(
            make,
            counts[-1],
            sizes,
            id_bytes=ID,
            repeats=1 if quick else 3,
            count=20 if quick else 1000,
            crowd=1 << (16 if quick else 22),
            step=step,
        )
    one = Machine(cores, memory * 2.0**30, network * 1e9 / 8, 3600.0 * hours, _limit_of_files())
    cases = []
    for protocol in protocols:
        found = needs(shares_of(protocol), rates)
        cases.append(_Case(protocol, found, limits(found, one)))
    text = plan(what, cases, rates, one)
    files.report("deployment-plan", text)
    files.text("deployment-plan.csv", _csv(cases))
    files.figure("deployment-plan", _figure(what, cases))


def _figure(what: str, cases: Sequence[_Case]) -> Any:
    from analysis.plots.deployment import limits_figure

    by_limit: Mapping[str, Mapping[int, float]] = {
        name: {case.secure.n: case.limits[name] for case in cases} for name in cases[0].limits
    }
    return limits_figure(by_limit, f"What one machine of each party can do: {what}")


if __name__ == "__main__":
    main(command)
