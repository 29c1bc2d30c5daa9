"""The description of a task, which all parties share: immutable, identified by its hash."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass as plain_dataclass
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from functools import cached_property
from typing import Annotated, Any, Final, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import Field, Strict, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from ikos._validation import InvalidType, InvalidValue, choice, integer, quote, text_of
from ikos.data.domains import CategoryLabels
from ikos.deployment.envelopes import envelope_overhead
from ikos.deployment.opening import HYBRID, KEMS
from ikos.deployment.planning import chosen_fields, report_of
from ikos.deployment.protocols import AnyTerms
from ikos.deployment.task_fields import (
    MAX_WINDOWS,
    MOMENT,
    NONCE_BYTES,
    Address,
    Bytes,
    Integer,
    Label,
    Modulus,
    Moment,
    Noise,
    Nonce,
    Ratio,
    Values,
    category_labels,
    check_addresses,
    check_keys,
    check_labels,
    check_schedule,
)
from ikos.deployment.terms import Terms
from ikos.deployment.wire import encoded, refusal
from ikos.results.report import Report
from ikos.results.sums import at_least

VERSION: Final = "ikos-parties-3"
EARLIER = ("ikos-parties-1", "ikos-parties-2")
LONGEST = 1 << 20
"""Largest number of characters of a description."""

MAX_BATCH = 10**9
"""Bytes of a shuffler's batch, which is one value in the analyzer's store."""


class BatchTooLarge(InvalidValue):
    """Too many clients for what each sends a shuffler."""


@dataclass(frozen=True)
class Task:
    """The agreed parameters of all parties of a private sum, of numbers, vectors or categories.

    Everything in it is public. Its hash is bound into every envelope, token and request, so that
    parties with different descriptions cannot communicate. `Task.new` chooses the numbers.

    Attributes
    ----------
    users, min_honest, corrupt_clients : int
        Clients that may take part; honest ones that the guarantee needs in a release; dishonest
        ones that it tolerates. Nothing is released for fewer reports than the sum of the last two.
    epsilon, delta : Fraction
        The guarantee of each client, under replacement of its value.
    domain, integers : Domain, bool
        Where values lie: `ikos.data.domains.Bounds` for numbers, or a `Box`, `Ball` or
        `Categories`; and whether those of bounds or a box are integers.
    labels : tuple of str
        Names of the coordinates of vectors, such as the categories of a histogram; or none.
    corrupt_shufflers : int
        Number of shufflers that may collude with the analyzer.
    precision, modulus : int
        As in `ikos.PrivateSum` and `ikos.PrivateVectorSum`.
    transport : SharesTerms, MasksTerms, HelpersTerms, VerifiedTerms or FrequenciesTerms
        Whether clients send shares of their vectors, or masked vectors and shares of keys: the
        ``messages`` of each block, of which one goes to the analyzer itself in the clear; its
        ``block_length``, the coordinates in one envelope, where the last block may be shorter; and
        how vectors are masked, which follows from the other numbers, as ``noise``. Or a vector,
        and a seed for each helper. Or commitments with a proof, and an opening for each relay. Or
        their category, among ``extra`` random messages.
    shufflers, analyzer : tuple of str, str
        Their addresses: a shuffler per shuffled message, one of frequencies, or helpers or relays.
    kem, public_keys : str, tuple of bytes
        How envelopes are encrypted, ``"mlkem768-x25519"`` or ``"x25519"``; the keys of the
        analyzer, helpers or relays, who erase the private ones as windows are over. Key k of K is
        that of the windows w, of W, with floor(w K / W) = k; first come all helpers' first keys.
    opens, period, windows : datetime, int, int
        When the first window opens, in UTC to the second; the seconds for which each is open; the
        number of consecutive windows. Each has its own reports and result.
    noise : (str, Fraction)
        That of a coordinate of a sum over ``min_honest`` clients: ("laplace", rate) or ("skellam",
        variance); of frequencies ("binomial", the probability of each random message); of verified
        sums ("uniform", the number of values of a client's share). It follows from the other
        numbers, for clients that cannot compute it.
    nonce, parameters : bytes, str
        Random bytes; the protocol's ``parameter_hash``, which every party computes again.
    """

    users: Integer
    min_honest: Integer
    epsilon: Ratio
    delta: Ratio
    domain: Values
    integers: Annotated[bool, Strict()]
    labels: tuple[Label, ...]
    corrupt_clients: Integer
    corrupt_shufflers: Integer
    precision: Integer
    modulus: Modulus
    transport: Annotated[AnyTerms, Field(discriminator="kind")]
    noise: Noise
    shufflers: tuple[Address, ...]
    analyzer: Address
    kem: Literal["mlkem768-x25519", "x25519"]
    public_keys: tuple[Bytes, ...]
    opens: Moment
    period: Integer
    windows: Integer
    nonce: Nonce
    parameters: Annotated[str, Strict()]
    version: Literal["ikos-parties-3"] = VERSION

    def __post_init__(self) -> None:
        check_addresses(self.analyzer, self.shufflers)
        check_schedule(self.opens, self.period, self.windows)
        check_keys(self.public_keys, self.kem, self.windows, len(self.key_holders))
        _ = self.protocol  # which refuses numbers that make none
        check_labels(self.labels, self.domain.dimension)
        _ = self._category_labels
        self._check_size()
        integer("corrupt_clients", self.corrupt_clients, low=0, high=self.users - self.min_honest)
        self._check_proof()

    def _check_size(self) -> None:
        """Refuse batches and descriptions that are too long."""
        if (length := self.transport.batch_bytes(self, self.users)) > MAX_BATCH:
            size = length // self.users
            raise BatchTooLarge(
                "users",
                f"must be at most {MAX_BATCH // size:,} where a client sends each "
                f"{self.transport.intermediary} {size:,} bytes, got {self.users:,}: a batch is at "
                f"most {MAX_BATCH:,} bytes",
            )
        if (length := len(self.to_json())) > LONGEST:
            raise InvalidValue(
                "windows",
                f"must have fewer keys, or fewer labels: the description is {length} "
                f"characters, and must be at most {LONGEST}",
            )

    def _check_proof(self) -> None:
        """Refuse messages that do not prove delta, and parameters of another version."""
        if len(self.shufflers) != self.columns:
            raise InvalidValue(
                "shufflers",
                f"must be one address for each of {self.columns} that the numbers are for, got "
                f"{len(self.shufflers)}",
            )
        protocol, guarantee = self.protocol, self.protocol.guarantee
        if not guarantee.proved or guarantee.delta > self.delta:
            raise InvalidValue(
                "delta",
                f"must be at least the {at_least(guarantee.delta, 6)} that the other numbers of "
                f"the task prove, got {quote(self.delta)}",
            )
        computed = self.transport.fields_of(protocol, self.domain)
        if any(getattr(self, name) != value for name, value in computed.items()):
            raise ValueError(
                "transport, parameters and noise of the task are not those that this version of "
                "ikos computes from its numbers: all parties need the same version"
            )

    @classmethod
    def new(
        cls,
        users: int,
        epsilon: float | Fraction,
        delta: float | Fraction,
        *,
        shufflers: Sequence[str] | None = None,
        analyzer: str | None = None,
        kem: str = HYBRID,
        public_keys: Sequence[bytes] = (),
        keys: int | None = None,
        opens: datetime | None = None,
        closes: datetime | timedelta = timedelta(days=1),
        windows: int = 1,
        **values: Any,
    ) -> Task:
        """Return a new task, with precision, modulus and messages chosen for it.

        Parameters
        ----------
        users, epsilon, delta, windows
            As for a task.
        shufflers, analyzer, public_keys
            If there are more shufflers than the guarantee needs, all are used. Without keys the
            task is a draft, which needs no addresses and cannot run: it has the number of shufflers
            needed, ``columns``, and the guarantee.
        kem
            KEM of the keys. By default the hybrid of ML-KEM-768 and X25519, which
            ``cryptography`` has from version 48 on.
        keys
            Number of keys of a draft, for each who has any; by default one for each window.
        opens, closes : datetime, datetime or timedelta
            When the first window opens, now by default; when it closes, or for how long each is
            open.
        domain : Domain, optional
            Domain of vectors. By default, values are numbers between ``lower`` and ``upper``, by
            default 0 and 1.
        labels, corrupt_clients
            As for a task.
        transport : {"shares", "masks", "helpers", "verified", "frequencies"}
            Whether clients send shares of their vectors; or masked vectors, for thousands of
            coordinates or more (documentation, Masked vectors); or a vector, and seeds to parties
            that add instead of shuffling (documentation, Helpers); or, for one question, their
            category among random ones, to one shuffler that must be trusted to pass all on
            (documentation, Counts of many categories); or commitments with a proof, and openings
            to parties that check and add (documentation, Verified sums).
        layout : {"separate", "group", "blocks"} or int
            For shares, coordinates per envelope: 1 (the default), all, the best number, or this
            integer. "blocks" are the longest that the ``shufflers`` support; without ``shufflers``,
            those with the fewest bytes. Keys of masks are always in such blocks.
        helpers, noise
            For helpers, their number, by default 1 or that of ``shufflers``, and who adds noise,
            "users" or "parties", as in `ikos.transports.Helpers`.
        relays, signing_keys
            For verified sums, the number of relays, by default 1 or that of ``shufflers``, and the
            parties' public Ed25519 keys, the analyzer's first.
        set_size
            For frequencies, the categories in each message, as in
            `ikos.baselines.FrequencyEstimation`; 1 by default.
        integers, min_honest, corrupt_shufflers, precision, modulus
            As in `ikos.PrivateSum`.

        Examples
        --------
        >>> draft = Task.new(2000, 1, 1e-8, min_honest=1900, upper=7, integers=True)
        >>> draft.columns
        5
        >>> from ikos import Categories
        >>> votes = Categories([3])
        >>> draft = Task.new(2000, 1, 1e-8, domain=votes, labels=["yes", "no", "unknown"])
        >>> draft.columns, draft.blocks, draft.part_bytes(1)
        (5, (1, 1, 1), 3414)
        """
        if isinstance(shufflers, str):
            raise InvalidType("shufflers", f"must be addresses, got {quote(shufflers)}")
        if public_keys and (shufflers is None or analyzer is None):
            raise InvalidValue("shufflers and analyzer", "must be given with public_keys")
        choice("kem", kem, KEMS)
        windows = integer("windows", windows, low=1, high=MAX_WINDOWS)
        count = integer("keys", windows if keys is None else keys, low=1, high=MAX_WINDOWS)
        columns = None if shufflers is None else len(shufflers)
        fields = chosen_fields(users, epsilon, delta, columns, kem, **values)
        terms: Terms = fields["transport"]
        count *= len(terms.key_holders(terms.columns))
        drafted = [number.to_bytes(KEMS[kem].public) for number in range(count)]
        if shufflers is None:
            needed = range(1, terms.columns + 1)
            shufflers = [f"https://{terms.intermediary}-{j}.invalid" for j in needed]
        opens, period = _schedule(opens, closes)
        try:
            task = cls(
                **fields,
                analyzer=analyzer or "https://analyzer.invalid",
                shufflers=tuple(shufflers),
                public_keys=tuple(public_keys or drafted),
                opens=opens,
                period=period,
                windows=windows,
                nonce=os.urandom(NONCE_BYTES),
            )
        except ValidationError as error:
            raise refusal(error) from None
        if task.closes <= datetime.now(UTC):
            raise InvalidValue("closes", f"must be in the future, got {task.closes:{MOMENT}}")
        return task

    @cached_property
    def protocol(self) -> Any:
        """The protocol that clients and analyzer run, with its guarantee: a `SumProtocol`."""
        return self.transport.protocol(self)

    @property
    def closes(self) -> datetime:
        """When the last window closes."""
        return self.opens + self.windows * timedelta(seconds=self.period)

    def at(self, number: int) -> Window:
        """Return a window by its number, from 0."""
        return Window(self, integer("window", number, low=0, high=self.windows - 1))

    def current(self, now: datetime) -> Window:
        """Return the open window; before the first one opens the first, after all the last."""
        passed = (now - self.opens) // timedelta(seconds=self.period)
        return self.at(min(max(0, passed), self.windows - 1))

    @property
    def key_holders(self) -> range:
        """The parties that decrypt envelopes, each with its own keys."""
        return self.transport.key_holders(self.columns)

    @property
    def keys(self) -> int:
        """Number of keys of each of them, each for consecutive windows."""
        return len(self.public_keys) // len(self.key_holders)

    def keys_of(self, party: int) -> tuple[bytes, ...]:
        """Return a party's public keys, in the order of the windows; none if it has none."""
        if party not in self.key_holders:
            return ()
        return self.public_keys[self.key_holders.index(party) :: len(self.key_holders)]

    def windows_of(self, key: int) -> range:
        """Return the windows of a key, which are consecutive."""
        keys, windows = self.keys, self.windows
        return range(-(-key * windows // keys), -(-(key + 1) * windows // keys))

    @property
    def min_reports(self) -> int:
        """Number of complete reports that a release needs."""
        return self.min_honest + self.corrupt_clients

    @property
    def columns(self) -> int:
        """Number of shufflers, helpers or relays."""
        return self.transport.columns

    @property
    def parties(self) -> int:
        """Number of shufflers, helpers or relays, and the analyzer."""
        return self.columns + 1

    def party_name(self, party: int) -> str:
        """Return a party in words."""
        return f"{self.transport.intermediary} {party}" if party else "the analyzer"

    @cached_property
    def order(self) -> int:
        """Number of elements: a coordinate of an envelope is one of them."""
        return self.transport.order(self)

    @cached_property
    def width(self) -> int:
        """Bytes of one coordinate of an envelope."""
        return ((self.order - 1).bit_length() + 7) // 8

    @cached_property
    def blocks(self) -> tuple[int, ...]:
        """The coordinates of each block, which are in one envelope; 1 for numbers."""
        return self.transport.blocks(self)

    def block_bytes(self, block: int) -> int:
        """Return the bytes of each envelope of a block."""
        return envelope_overhead(self.kem) + self.width * self.blocks[block]

    @cached_property
    def envelope_bytes(self) -> int:
        """Bytes of a client's envelopes for one shuffler."""
        return self.transport.copies * sum(map(self.block_bytes, range(len(self.blocks))))

    def part_bytes(self, party: int) -> int:
        """Return the bytes that a client sends to a party."""
        return self.transport.part_bytes(self, party)

    @cached_property
    def _category_labels(self) -> CategoryLabels | None:
        """Find values among the labels of categories; other domains have none."""
        return category_labels(self.domain, self.labels)

    def values(self, x: ArrayLike, first: int = 0) -> NDArray[Any]:
        """Return some clients' values in the form that the protocol takes; labels become vectors.

        TypeError or ValueError for an invalid one, by its position counted from ``first``.
        """
        array = x if isinstance(x, np.ndarray) else np.asarray(x, dtype=object)
        if self._category_labels is None or array.ndim != 1:
            return self.transport.checked(self, x, first)
        places = self._category_labels.places(list(map(text_of, array)))
        if (wrong := places < 0).any():
            row = int(np.argmax(wrong))
            missing = ", not missing" * bool(places[row] == CategoryLabels.MISSING)
            raise InvalidValue(
                f"x[{first + row}]",
                f"must be one of the labels {quote(self.labels)}{missing}",
                row=first + row,
            )
        rows = np.zeros((array.size, len(self.labels)), np.uint8)
        rows[np.arange(array.size), places] = 1
        return self.transport.checked(self, rows, first)

    def address(self, party: int) -> str:
        """Return the address of a party: 0 for the analyzer, j for another."""
        integer("party", party, low=0, high=self.columns)
        return self.analyzer if party == 0 else self.shufflers[party - 1]

    @cached_property
    def id(self) -> bytes:
        """SHA-256 of the description."""
        return hashlib.sha256(self.to_json().encode()).digest()

    @property
    def name(self) -> str:
        """The hash in 43 characters, as in addresses."""
        return encoded(self.id)

    def to_json(self) -> str:
        """Return the description as canonical JSON: one line, keys in order, one text per task."""
        values = _ADAPTER.dump_python(self, mode="json")
        return json.dumps(values, sort_keys=True, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Task:
        """Return the task of a description; ValueError unless it is exactly that of `to_json`."""
        if not isinstance(text, str):
            raise InvalidType("text", f"must be a string, got {type(text).__name__}")
        if len(text) > LONGEST:
            raise ValueError(f"a task must be at most {LONGEST} characters, got {len(text)}")
        try:
            values = json.loads(text)
            if (version := values["version"]) in EARLIER:
                raise InvalidValue(
                    "version",
                    f"must be {VERSION!r}, got {version!r}, of an earlier ikos: make it again",
                )
            if version != VERSION:
                raise ValueError
            task = cls(**values)
        except ValidationError as error:
            raise ValueError(f"a task is refused: {refusal(error)}") from None
        except (InvalidType, InvalidValue) as error:
            raise ValueError(f"a task is refused: {error}") from None
        except (ValueError, TypeError, LookupError, ArithmeticError, RecursionError):
            raise ValueError(f"a task must be a JSON object of version {VERSION!r}") from None
        if task.to_json() != text.strip():
            raise ValueError(
                "a task must be byte for byte as it was created, got a different serialization"
            )
        return task

    def summary(self) -> Report:
        """Return the choices and the guarantee, as a report for people and programs."""
        return report_of(self)

    def explain(self) -> str:
        """Return `summary` as text."""
        return str(self.summary())


def _schedule(opens: datetime | None, closes: datetime | timedelta) -> tuple[datetime, int]:
    """Return when the first window opens, and its seconds."""
    now = datetime.now(UTC)
    opens = now if opens is None else opens
    if not isinstance(opens, datetime):
        raise InvalidType("opens", f"must be a datetime, got {quote(opens)}")
    if not isinstance(closes, datetime | timedelta):
        raise InvalidType("closes", f"must be a datetime or a timedelta, got {quote(closes)}")
    period = closes if isinstance(closes, timedelta) else closes - opens
    if period <= timedelta():
        start, end = (moment.astimezone(UTC) for moment in (max(opens, now), opens + period))
        raise InvalidValue("closes", f"must be later than {start:{MOMENT}}, got {end:{MOMENT}}")
    return opens, math.ceil(period.total_seconds())


@plain_dataclass(frozen=True)
class Window:
    """One collection of a task, with its own reports, release and result."""

    task: Task
    number: int

    @property
    def opens(self) -> datetime:
        """When it begins to accept reports."""
        return self.task.opens + self.number * timedelta(seconds=self.task.period)

    @property
    def closes(self) -> datetime:
        """When it stops accepting reports."""
        return self.opens + timedelta(seconds=self.task.period)

    @property
    def key(self) -> int:
        """The number of its key, which consecutive windows may share."""
        return self.number * self.task.keys // self.task.windows

    def public_key(self, party: int) -> bytes:
        """Return the key to which the envelopes that a party decrypts are encrypted."""
        return self.task.keys_of(party)[self.key]

    @property
    def bound(self) -> bytes:
        """The context that is bound into its envelopes: the task's hash, and its number."""
        return self.task.id + self.number.to_bytes(4, "big")

    @property
    def path(self) -> str:
        """Its path at each party."""
        return f"/tasks/{self.task.name}/windows/{self.number}"


_ADAPTER = TypeAdapter(Task)
