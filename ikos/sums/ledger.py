"""A ledger of the releases about the same users, which refuses one that exceeds the budget.

An SQLite file to which any number of programs write, one at a time. An entry is on disk before
``Ledger.enter`` returns, and a killed program leaves a whole entry or none. A privacy filter
decides whether a release fits, so that every release may depend on the results of those before it:
docs/how-to/budget.md. Nothing about the users is stored.

The digests of the entries form a chain that ends in the row of the total, which also has the amount
spent, so that accidental damage is an error. They do not stop anyone who can write to the file, and
an old copy of the file is not recognized.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from copy import copy
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from os import PathLike
from pathlib import Path
from typing import Any

from ikos._validation import InvalidType, InvalidValue, choice, quote, round_up
from ikos.accounting.privacy_filter import Account, Charge, EpsilonDelta, PrivacyFilter
from ikos.results.guarantees import Guarantee
from ikos.results.sums import at_least

__all__ = ["BudgetExceeded", "Entry", "Ledger"]

ADJACENCIES = ("replace-one", "add-or-remove-one")

_KIND, _VERSION = 0x696B6F73, 1  # "ikos"
_WAIT_SECONDS = 60  # seconds for other writers
_SCHEMA = """
CREATE TABLE total (
    epsilon TEXT, delta TEXT, slack TEXT, composition_order TEXT, adjacency TEXT,
    entries INTEGER, epsilons TEXT, deltas TEXT, moments TEXT, adding INTEGER, digest TEXT
);
CREATE TABLE entry (
    number INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, time TEXT NOT NULL,
    epsilon TEXT NOT NULL, delta TEXT NOT NULL, mu TEXT,
    statement TEXT NOT NULL, parameters TEXT NOT NULL, note TEXT NOT NULL, digest TEXT NOT NULL
);
"""


class BudgetExceeded(InvalidValue):
    """A release that exceeds the remaining budget, ``left``; it was not recorded."""

    def __init__(self, what: str, left: EpsilonDelta) -> None:
        super().__init__("epsilon and delta", what)
        self.left = left


@dataclass(frozen=True)
class Entry:
    """A release in a ledger.

    Attributes
    ----------
    number : int
        Counted from 1.
    key, time : str
        The idempotency key of the release, and when it was recorded (UTC).
    epsilon, delta, mu : Fraction
        Its proved guarantee; ``mu`` is None unless it is mu-Gaussian private.
    statement, parameters, note : str
        Theorem and conditions of its guarantee, the protocol's parameter hash, and free text.
    """

    number: int
    key: str
    time: str
    epsilon: Fraction
    delta: Fraction
    mu: Fraction | None
    statement: str
    parameters: str
    note: str

    @property
    def charge(self) -> Charge:
        """The budget that the release spends."""
        return Charge(self.epsilon, self.delta, self.mu)


@dataclass(frozen=True)
class _Head:
    """The row of the total, and the digest of the last entry."""

    adjacency: str
    entries: int
    account: Account
    last: str = ""

    @property
    def row(self) -> tuple[Any, ...]:
        """As stored, with its digest."""
        total, spent = self.account.total, self.account
        fixed = (total.epsilon, total.delta, total.slack, total.order)
        sums = (spent.epsilons, spent.deltas, spent.moments)
        row = (*map(str, fixed), self.adjacency, self.entries, *map(str, sums), int(spent.adding))
        return (*row, _digest(self.last, row))

    def after(self, account: Account, row: tuple[Any, ...]) -> _Head:
        """Return the head after an entry; its digest covers all earlier entries."""
        return _Head(self.adjacency, self.entries + 1, account, _digest(self.row[-1], row))


class Ledger:
    """The privacy budget of a group of users: a total, and the releases recorded so far.

    Opens a ledger; `new` creates one. ``ledger=`` of a protocol's `run` and of `ikos.statistics`
    records a release before it is made, and ``ledger=ledger.noted("mean age, March")`` records it
    with that note. If the run fails afterwards, the entry stays.

    Parameters
    ----------
    path : path
        The file.

    Attributes
    ----------
    total : PrivacyFilter
        Its ``epsilon`` and ``delta`` hold for all recorded releases together.
    adjacency : str
        The neighbouring relation: "replace-one" or "add-or-remove-one".
    note : str
        The note of entries that have no other, from `noted`.

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> ledger = Ledger.new(f"{folder.name}/survey.ledger", epsilon=1, delta=1e-6)
    >>> entry = ledger.enter(0.25, note="mean age")
    >>> print(ledger.left)
    (0.75, 5e-07)
    >>> ledger.enter(2, 0)
    Traceback (most recent call last):
    ...
    ikos.sums.ledger.BudgetExceeded: epsilon and delta must be within the remaining budget, ...
    >>> folder.cleanup()
    """

    def __init__(self, path: str | PathLike[str]) -> None:
        self.path, self.note = Path(path), ""
        with _using(self.path) as connection:
            head = _head(connection)
        self.total, self.adjacency = head.account.total, head.adjacency

    @classmethod
    def new(
        cls,
        path: str | PathLike[str],
        epsilon: float | Fraction,
        delta: float | Fraction,
        *,
        slack: float | Fraction | None = None,
        adjacency: str = "replace-one",
    ) -> Ledger:
        """Create a ledger, or open an existing one with the same total.

        Parameters
        ----------
        path : path
            The file.
        epsilon, delta : float
            The guarantee of all releases together.
        slack : float, optional
            The part of ``delta`` reserved for composition, half of it by default; the deltas of the
            releases may add up to the rest. With 0, only basic composition is used.
        adjacency : {"replace-one", "add-or-remove-one"}
            The neighbouring relation of all entries. The guarantees of all protocols here are
            replace-one.
        """
        total = PrivacyFilter.of(epsilon, delta, slack)
        head = _Head(choice("adjacency", adjacency, ADJACENCIES), 0, Account(total))
        with _using(Path(path), new=True) as connection:
            connection.execute("BEGIN IMMEDIATE")
            if not connection.execute("SELECT * FROM sqlite_master").fetchone():
                for statement in _SCHEMA.split(";"):
                    connection.execute(statement)
                connection.execute(f"PRAGMA application_id={_KIND}")
                connection.execute(f"PRAGMA user_version={_VERSION}")
                _write(connection, head)
            connection.execute("COMMIT")
        ledger = cls(path)
        old = ledger.total
        same = (old.epsilon, old.delta, old.slack) == (total.epsilon, total.delta, total.slack)
        if not same or ledger.adjacency != adjacency:
            raise ValueError(
                f"{str(path)!r} already holds a ledger with another total: epsilon = "
                f"{quote(old.epsilon)}, delta = {quote(old.delta)}, slack = {quote(old.slack)}, "
                f"{ledger.adjacency}"
            )
        return ledger

    def noted(self, note: str) -> Ledger:
        """Return this ledger with a note for the releases that are recorded through it."""
        ledger = copy(self)
        ledger.note = note
        return ledger

    @property
    def entries(self) -> tuple[Entry, ...]:
        """The releases, in the order of their entry, all checked."""
        with _using(self.path) as connection:
            return _checked(connection)

    @property
    def spent(self) -> float:
        """The fraction of the budget that is spent, from 0 to 1."""
        return self._account().spent

    @property
    def left(self) -> EpsilonDelta:
        """The largest epsilon of the next release, and the largest delta at that epsilon."""
        return self._account().left

    def _account(self) -> Account:
        with _using(self.path) as connection:
            return _head(connection).account

    def enter(
        self,
        epsilon: float | Fraction,
        delta: float | Fraction = 0,
        *,
        mu: float | Fraction | None = None,
        key: str | None = None,
        note: str = "",
        statement: str = "recorded by hand",
        parameters: str = "",
    ) -> Entry:
        """Record a release before it is made.

        Parameters
        ----------
        epsilon, delta : float
            Its guarantee, for the ledger's adjacency. Numbers are taken exactly, and the double 0.1
            is a little more than a tenth: ``Fraction(1, 10)`` fits ten times in 1.
        mu : float, optional
            Set if the release is also mu-Gaussian private, as with Gaussian noise on all of it.
        key : str, optional
            An idempotency key: recording it again changes nothing, so a program that was killed may
            begin anew; another result must not be published under the same key. By default, every
            entry is a separate release.
        note, statement, parameters : str
            As in `ikos.sums.ledger.Entry`.

        Returns
        -------
        Entry
            The entry, now on disk. ``BudgetExceeded`` is raised for a release that exceeds the
            budget, ValueError for a key that is recorded with another guarantee.
        """
        charge = Charge.of(epsilon, delta, mu)
        texts = (key or secrets.token_hex(8), statement, parameters, note or self.note)
        words = tuple(map(str, texts))
        with _using(self.path) as connection:
            connection.execute("BEGIN IMMEDIATE")
            head = _head(connection)
            same = connection.execute("SELECT * FROM entry WHERE key = ?", words[:1]).fetchone()
            if same is not None:
                entry = _entry(same)
                if entry.charge != charge:
                    raise InvalidValue(
                        "key",
                        f"must not be reused for another guarantee, got {quote(key)}, the key of "
                        f"entry {entry.number}",
                    )
                return entry
            if (account := head.account.after(charge)) is None:
                left = head.account.left
                charged = (at_least(charge.epsilon, 6), at_least(charge.delta, 3))
                raise BudgetExceeded(
                    f"must be within the remaining budget, at most {left}, got "
                    f"({', '.join(charged)})",
                    left,
                )
            now = datetime.now(UTC).isoformat(timespec="seconds")
            numbers = (None if x is None else str(x) for x in charge)
            row = (head.entries + 1, words[0], now, *numbers, *words[1:])
            head = head.after(account, row)
            connection.execute(f"INSERT INTO entry VALUES ({'?, ' * 9}?)", (*row, head.last))
            _write(connection, head)
            connection.execute("COMMIT")
        return _entry(row)

    def enter_run(self, protocol: Any, *, key: str | None = None, note: str = "") -> Entry:
        """Record a run of a private protocol, by its guarantee; one that is not proved is refused.

        A guarantee for several ``releases`` is recorded whole: do it once, before the first of
        them.
        """
        proved = protocol.guarantee
        if not isinstance(proved, Guarantee):
            raise InvalidType("ledger", f"must be None for an exact sum, got {quote(self)}")
        if not proved.proved:
            raise InvalidValue("ledger", f"must be None if nothing is proved: {proved}")
        if proved.adjacency != self.adjacency:
            raise InvalidValue("ledger", f"must be for {proved.adjacency}, got {self.adjacency}")
        # the requested epsilon, if the proved one is its rounding
        exact = round_up(protocol.epsilon) == proved.epsilon
        return self.enter(
            protocol.epsilon if exact else proved.epsilon,
            proved.delta,
            key=key,
            note=note or self.note or type(protocol).__name__,
            statement="\n".join((proved.theorem, *map(str, proved.conditions))),
            parameters=getattr(protocol, "parameter_hash", ""),
        )

    def __repr__(self) -> str:
        account, name = self._account(), repr(str(self.path))
        return f"<Ledger {name}: {account.spent:.1%} spent, {account.left} left>"


def enter_run(ledger: Ledger | None, protocol: Any) -> None:
    """Record a run in a ledger, if there is one."""
    if isinstance(ledger, Ledger):
        ledger.enter_run(protocol)
    elif ledger is not None:
        raise InvalidType("ledger", f"must be an ikos.Ledger, got {quote(ledger)}")


@contextmanager
def _using(path: Path, new: bool = False) -> Iterator[sqlite3.Connection]:
    """Open a connection that waits for other writers, undoing what is not committed.

    ValueError for a file that is not a ledger or is damaged, OSError if it cannot be used.
    """
    path.parent.stat()  # raises an error that names the missing file or folder
    if new:
        with suppress(FileExistsError):  # readable by its owner alone, who may permit others
            os.close(os.open(path, os.O_CREAT | os.O_EXCL, 0o600))
    else:
        path.stat()
    address = f"{path.absolute().as_uri()}?mode={'rwc' if new else 'rw'}"
    try:
        options: dict[str, Any] = {"timeout": _WAIT_SECONDS, "uri": True, "isolation_level": None}
        with closing(sqlite3.connect(address, **options)) as connection:
            connection.execute("PRAGMA synchronous=EXTRA")  # also when the journal is deleted
            yield connection
    except sqlite3.Error as error:
        if type(error) is sqlite3.DatabaseError:
            raise _damaged(str(path), str(error)) from None
        raise OSError(f"the ledger {str(path)!r} cannot be used: {error}") from None


def _damaged(path: str, why: str) -> ValueError:
    return ValueError(f"{path!r} is not a ledger, or is damaged: {why}")


def _digest(before: str, row: tuple[Any, ...]) -> str:
    return hashlib.sha256(json.dumps([before, *row], default=str).encode()).hexdigest()


def _write(connection: sqlite3.Connection, head: _Head) -> None:
    connection.execute("DELETE FROM total")
    connection.execute(f"INSERT INTO total VALUES ({'?, ' * 10}?)", head.row)


def _head(connection: sqlite3.Connection) -> _Head:
    """Return the row of the total; ValueError if it was changed."""
    path = connection.execute("PRAGMA database_list").fetchone()[2]
    for name, value in (("application_id", _KIND), ("user_version", _VERSION)):
        if connection.execute(f"PRAGMA {name}").fetchone()[0] != value:
            raise _damaged(path, f"it has another {name}")
    last = connection.execute("SELECT max(number), digest FROM entry").fetchone()[1] or ""
    rows = connection.execute("SELECT * FROM total").fetchall()
    if len(rows) != 1 or _digest(last, rows[0][:-1]) != rows[0][-1]:
        raise _damaged(path, "its total is not what was written")
    fixed, (adjacency, entries), sums, adding = rows[0][:4], rows[0][4:6], rows[0][6:9], rows[0][9]
    epsilons, deltas, moments = map(Fraction, sums)
    total = PrivacyFilter(*map(Fraction, fixed))
    account = Account(total, epsilons, deltas, moments, bool(adding))
    return _Head(adjacency, entries, account, last)


def _checked(connection: sqlite3.Connection) -> tuple[Entry, ...]:
    """Return all entries; ValueError if one was changed."""
    connection.execute("BEGIN")
    head = _head(connection)
    chain, entries = _Head(head.adjacency, 0, Account(head.account.total)), []
    for *row, digest in connection.execute("SELECT * FROM entry ORDER BY number"):
        entries.append(entry := _entry(row))
        account = chain.account.after(entry.charge)
        chain = chain.after(account or chain.account, tuple(row))
        if account is None or chain.last != digest:
            path = connection.execute("PRAGMA database_list").fetchone()[2]
            raise _damaged(path, f"entry {chain.entries} is not what was written")
    return tuple(entries)


def _entry(row: Sequence[Any]) -> Entry:
    numbers = (None if x is None else Fraction(x) for x in row[3:6])
    return Entry(*row[:3], *numbers, *row[6:9])
