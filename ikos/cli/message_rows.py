"""The counts of ``ikos messages``: a request, and each analysis's proof for it."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ikos.cli.errors import in_options
from ikos.cli.options import CHOSEN, CLEAR_SHARE, DomainRequest, from_option
from ikos.cli.types import SIGMAS, USERS, Cases, Honest, Whole
from ikos.results.report import digits

if TYPE_CHECKING:
    from ikos.counts import Layout, MessageCount
    from ikos.data.domains import Bounds, Domain
    from ikos.plots.curves import Curve
    from ikos.sums import PrivateSum, PrivateVectorSum
    from ikos.transports import Recipe

DEFAULT_RESERVE = Fraction(1, 100)

ADDED = {"helpers": "helper", "verified": "relay"}
"""Transports whose parties add, and the name of a party."""


@dataclass(frozen=True, kw_only=True)
class MessagesRequest(DomainRequest):
    """Options of the command."""

    users: tuple[int, ...] = from_option(
        required=True, type=USERS, help="Number of users, e.g. 1000; or several: 1000,10^6."
    )
    min_honest: int | Fraction | None
    corrupt_shufflers: int
    modulus: int | None = from_option(show_default=f"{CHOSEN} for a private sum")
    sigma: tuple[Fraction, ...] | None = from_option(
        type=SIGMAS, help="Security level in bits, e.g. 80; or several: 40,80."
    )
    messages: tuple[int, ...] | None = from_option(
        type=Cases(Whole(1, 10**8)), show_default=None, help="Instead of --sigma: number of "
        "messages per user (and sum, if vectors are several sums), the clear share included, whose "
        "security to list; or several: 10,15.",
    )  # fmt: skip
    epsilon: Fraction | None
    delta: Fraction | None
    lower: float | None = from_option(show_default="0")
    upper: float | None = from_option(show_default="1")
    integers: bool
    precision: int | None
    reserve: Fraction | None
    releases: int | None = from_option(
        type=Whole(1, 10**6), show_default="1",
        help="Vectors only: number of sums over the same users that share the budget.")  # fmt: skip
    domain: str | None
    dimension: int | None
    radius: float | None
    sparsity: int | None
    sizes: tuple[int, ...] | None
    overhead: int | None = from_option(
        help="Bytes that transport adds to each message, e.g. 48 for an HPKE envelope; also lists "
        "bytes, and the blocks of coordinates that minimize them."
    )
    analysis: str | None = from_option(
        default=None, show_default="all", help="Analysis to list: best, direct_comparison, "
        "higher_moments, second_moment, balle2020, ghazi2020 or ishai2006.")  # fmt: skip
    shuffler: str | None = from_option(default=None, show_default="both")
    clear_share: bool | None = from_option(CLEAR_SHARE, default=None, show_default="both")
    helpers: int | None = from_option(
        type=Whole(1), show_default="1, unless shares are chosen",
        help="Number of helpers: also list other transports of the same sum, helpers with noise of "
        "users or of the parties and, of vectors, masks.",
    )  # fmt: skip
    relays: int | None = from_option(
        type=Whole(1), show_default="no verified sums",
        help="Number of relays: also list verified sums of the same values, which relays add up "
        "or shufflers mix.",
    )  # fmt: skip
    plot: Path | None = from_option(
        help="Plot messages against users (scalar sums only) to a .png, .svg or .pdf file. Needs "
        "the extra 'plot'."
    )

    @property
    def vectors(self) -> bool:
        """Whether the sums are of vectors."""
        return self.domain is not None or self.dimension is not None

    def check(self) -> None:
        """Refuse options that do not go together."""
        private = {
            "epsilon": self.epsilon, "delta": self.delta, "lower": self.lower, "upper": self.upper,
            "integers": self.integers or None, "precision": self.precision,
            "reserve": self.reserve, "releases": self.releases, "domain": self.domain,
            "radius": self.radius, "sparsity": self.sparsity, "sizes": self.sizes,
        }  # fmt: skip
        secure = {"sigma": self.sigma, "messages": self.messages}
        asked = [name for name, value in secure.items() if value is not None]
        if len(asked) == 2:
            raise click.UsageError("--sigma and --messages cannot be combined")
        for name, parties in {"helpers": self.helpers, "relays": self.relays}.items():
            if self.messages and parties:
                raise click.UsageError(f"--{name} and --messages cannot be combined")
        for name, value in private.items():
            if asked and value is not None:
                raise click.UsageError(
                    f"--{name} is for a private sum, --{asked[0]} for a secure one"
                )
        if self.releases is not None and self.domain is None:
            raise click.UsageError("--releases needs --domain")
        if self.overhead is not None and not self.vectors:
            raise click.UsageError("--overhead needs --dimension or --domain")
        if self.plot is not None and self.vectors:
            raise click.UsageError("--plot is for scalar sums, without --domain and --dimension")
        if self.plot is not None and (self.messages or len(self.users) > 1 or len(self.levels) > 1):
            raise click.UsageError("--plot takes one number of --users and one --sigma")

    @property
    def levels(self) -> tuple[Fraction, ...]:
        """Requested levels of security; none for a private sum."""
        return self.sigma or ()

    def questions(self) -> list[Question]:
        """Return the sums, for each number of users, with the numbers that they choose."""
        if self.epsilon is not None and self.delta is not None:
            budget = self.epsilon, self.delta
            return [PrivateQuestion.of(self, users, budget) for users in self.users]
        wanted: list[tuple[Fraction | None, int | None]] = [
            *((sigma, None) for sigma in self.levels),
            *((None, total) for total in self.messages or ()),
        ]
        if wanted and self.modulus is not None:
            return [
                SecureQuestion(self, users, self.modulus, self.dimension or 1, sigma, total=total)
                for users in self.users for sigma, total in wanted
            ]  # fmt: skip
        raise click.UsageError(
            "give --modulus and --sigma (or --messages) for a secure sum, or --epsilon and --delta "
            "for a private one"
        )

    def settings(self) -> list[tuple[str, bool]]:
        """Return the shufflers, with and without a clear share."""
        from ikos.counts import SHUFFLERS

        return [
            (shuffler, clear_share)
            for shuffler in ([self.shuffler] if self.shuffler else SHUFFLERS)
            for clear_share in ((True, False) if self.clear_share is None else (self.clear_share,))
        ]

    def transports(self) -> list[tuple[str, str | None, Recipe]]:
        """Return other transports to list, with those who add noise: none if shares are chosen."""
        from ikos.transports import Helpers, Masked, Shuffled, Verified, VerifiedShuffled

        if self.messages:
            return []
        users, corrupt = None if self.epsilon is None else "users", self.corrupt_shufflers
        listed: list[tuple[str, str | None, Recipe]] = []
        if not (self.analysis or self.shuffler or self.clear_share is not None) or self.helpers:
            if self.vectors:
                keys = Shuffled(
                    layout="blocks", corrupt_shufflers=corrupt, overhead=self.overhead or 0
                )
                listed.append(("masks", users, Masked(keys)))
            helpers = self.helpers or 1
            listed.append(("helpers", users, Helpers(helpers)))
            if users:
                listed.append(("helpers", "parties", Helpers(helpers, "parties")))
        if self.relays:
            shares = Shuffled(clear_share=False, corrupt_shufflers=corrupt)
            listed.append(("verified", users, Verified(self.relays)))
            listed.append(("verified-shuffled", users, VerifiedShuffled(shares)))
        return listed

    def analyses(self) -> Sequence[str]:
        """Return the analyses to list."""
        from ikos.counts import ANALYSES
        from ikos.counts.analyses import LEVELS
        from ikos.counts.secure import checked_analysis

        if self.analysis:
            return [checked_analysis(self.analysis)]
        return LEVELS if self.epsilon is None else ANALYSES


@dataclass(frozen=True)
class RowSetting:
    """An analysis, and the shufflers."""

    analysis: str
    shuffler: str
    clear_share: bool


@dataclass(frozen=True)
class CountRow:
    """The result of an analysis in a setting: ``counts``, or the ``reason`` why there are none.

    Other transports than shares have no setting.
    """

    question: Question
    setting: RowSetting | None
    layout: str | None = None
    transport: str = "shares"
    noise: str | None = None
    theorem: str | None = None
    counts: Layout | None = None
    standard_error: float | None = None
    influence: float | None = None
    necessary: int | None = None
    reason: str | None = None
    best: bool = False
    smallest: bool = False

    @property
    def name(self) -> str:
        """The analysis, or another transport."""
        if self.setting is not None:
            return self.setting.analysis
        return f"{self.transport}, noise of {self.noise}" if self.noise else self.transport

    @property
    def count(self) -> MessageCount | None:
        """Messages of each sum, of those that shufflers mix."""
        return None if self.counts is None or self.transport in ADDED else self.counts.count

    @property
    def servers(self) -> int | None:
        """The analyzer, and the shufflers or those who add."""
        if self.counts is None:
            return None
        single = self.setting is not None and self.setting.shuffler == "single"
        return 2 if single else 1 + self.counts.count.shuffled

    @property
    def trusted(self) -> str | None:
        """Who must be trusted, with what."""
        if self.servers is None:
            return None
        others = self.servers - 1
        if self.transport not in ADDED:
            whom = f"{others:,} shufflers" if others > 1 else "shuffler"
            return f"{whom}: who sent what; users: randomness"
        one = ADDED[self.transport]
        whom = f"analyzer or one of {others} {one}s" if others > 1 else f"analyzer or {one}"
        if self.noise == "parties":
            return f"{whom}: its shares and noise"
        return f"{whom}: its shares; users: {'randomness' if self.noise else 'presence'}"

    @property
    def proved(self) -> bool:
        """Whether it is proved, and not for comparison only."""
        return self.counts is not None and self.reason is None

    @property
    def sigma(self) -> float | None:
        """The proved security of a secure sum, for the whole vector."""
        return None if self.counts is None or self.counts.epsilon is not None else self.counts.sigma

    @property
    def unlimited(self) -> bool | None:
        """Whether a secure sum has nothing to hide, as with a single user."""
        return None if self.sigma is None else math.isinf(self.sigma)

    @property
    def bytes_per_user(self) -> int | None:
        """Bytes that each user sends, with the overhead of each message."""
        overhead = self.question.request.overhead
        if self.counts is None or overhead is None:
            return None
        return self.counts.bytes_per_user(overhead)

    @property
    def messages(self) -> float:
        """Messages that each user sends, infinite where nothing is covered."""
        return math.inf if self.counts is None else self.counts.messages_per_user

    @property
    def cost(self) -> float:
        """Messages or, of a given number of them, the level negated."""
        return self.messages if self.question.total is None else -(self.sigma or 0.0)

    @property
    def size(self) -> float:
        """Bytes, or without an overhead bits, that each user sends; infinite likewise."""
        if self.counts is None:
            return math.inf
        return self.bytes_per_user or self.counts.bits_per_user


@dataclass(frozen=True)
class Question(ABC):
    """A sum whose messages are counted, with the numbers that it chooses."""

    request: MessagesRequest
    users: int
    q: int
    dimension: int
    sigma: Fraction | None = None
    space: Domain | Bounds | None = None
    reserve: Fraction | None = None
    releases: int | None = None
    precision: int | None = None
    total: int | None = None

    @property
    def honest(self) -> int:
        """Minimum number of honest users."""
        return Honest.of(self.request.min_honest, self.users)

    @property
    def modulus(self) -> str:
        """Order of the group of each coordinate, in digits."""
        return digits(self.q)

    @property
    def bits_per_message(self) -> int:
        """Bits of one coordinate of a message."""
        return (self.q - 1).bit_length()

    @abstractmethod
    def curves(self, users: Sequence[int], **shared: Any) -> list[Curve]:
        """Return the curves of a figure."""

    @abstractmethod
    def _protocol(self, **options: Any) -> Any:
        """Return the sum in a setting and a layout."""

    @abstractmethod
    def _other(self, recipe: Recipe) -> Any:
        """Return the sum in another transport, with its own precision and modulus."""

    @abstractmethod
    def _necessary(self, setting: RowSetting, length: int) -> int | None:
        """Return a lower bound on shuffled messages for blocks of a length, if one is known."""

    def rows(self, setting: RowSetting) -> Iterator[CountRow]:
        """Yield a row for each layout: the proved counts, or why nothing is covered."""
        from ikos.counts.types import Uncovered
        from ikos.counts.vectors import LAYOUTS

        overhead = self.request.overhead
        for layout, name in LAYOUTS.items():
            if layout == "blocks" and overhead is None:
                continue
            if layout != "group" and self.dimension == 1:
                continue  # the same as one group
            row = CountRow(self, setting, name if self.request.vectors else None)
            try:
                row = self._counted(row, layout)
            except Uncovered as error:  # the setting is in the row
                row = replace(row, reason=error.reason)
            except ValueError as error:
                row = replace(row, reason=in_options(error))
            if row.layout == name or row.layout not in LAYOUTS.values():  # not blocks of one or all
                yield row

    def others(self) -> Iterator[CountRow]:
        """Yield a row for each other transport: what it takes, or why it is not possible."""
        for name, noise, recipe in self.request.transports():
            row = CountRow(self, None, transport=name, noise=noise)
            try:
                protocol = self._other(recipe)
            except ValueError as error:
                yield replace(row, reason=in_options(error))
                continue
            transport = protocol.transport
            assumed = (str(one) for one in transport.conditions if one.computational)
            counts, question = transport.layout, replace(self, q=transport.q)
            if noise:
                budget = {"epsilon": protocol.epsilon, "delta": protocol.total_delta}
                counts = replace(counts, **budget)
                question = replace(question, precision=protocol.precision)
            theorem = "; ".join((transport.theorem, *assumed))
            influence = protocol.influence if noise else getattr(transport, "reach", None)
            yield replace(
                row, question=question, counts=counts, theorem=theorem,
                layout=counts.name if self.request.vectors else None,
                standard_error=math.sqrt(protocol.mse) if noise else None,
                influence=influence if transport.verified else None,
            )  # fmt: skip

    def _counted(self, row: CountRow, layout: str) -> CountRow:
        """Return a row with the proved counts and the lower bound."""
        from ikos.counts.analyses import checked_scheme
        from ikos.counts.published import unproved

        request, setting = self.request, row.setting
        assert setting is not None
        if request.corrupt_shufflers and setting.shuffler == "single":
            raise ValueError("a single shuffler must be honest: it sees everything")
        options = (
            {"layout": layout, "overhead": request.overhead or 0} if self.dimension > 1 else {}
        )
        protocol = self._protocol(
            **asdict(setting), **options, min_honest=self.honest,
            corrupt_shufflers=request.corrupt_shufflers,
        )  # fmt: skip
        counts: Layout = protocol.transport.layout
        reason = unproved(setting.analysis, self.q, counts.length)
        if self.total is not None and not counts.sigma:
            trust = request.corrupt_shufflers
            scheme = checked_scheme(self.users, self.q, self.honest, trust, **asdict(setting))
            scheme.refuse_uncovered(scheme.trust.hiding(self.total))
            reason = f"nothing is proved for {self.total:,} messages"
        return replace(
            row, counts=counts, layout=counts.name if request.vectors else None,
            standard_error=None if request.epsilon is None else math.sqrt(protocol.mse),
            necessary=self._necessary(setting, counts.length),
            reason=reason, theorem=counts.count.theorem,
        )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class SecureQuestion(Question):
    """A secure sum: of a level ``sigma``, or of ``total`` messages per user."""

    def curves(self, users: Sequence[int], **shared: Any) -> list[Curve]:
        """Return the curves of a figure."""
        from ikos.plots import secure_curves

        assert self.sigma is not None  # check() refuses figures without it
        return secure_curves(users, self.q, self.sigma, **shared)

    def _protocol(self, **options: Any) -> Any:
        from ikos.sums import SecureVectorSum

        options |= {"messages": self.total} if self.sigma is None else {"sigma": self.sigma}
        return SecureVectorSum(self.users, self.dimension, self.q, **options)

    def _other(self, recipe: Recipe) -> Any:
        from ikos.sums import SecureSum, SecureVectorSum
        from ikos.transports import Helpers, Masked

        options: dict[str, Any] = {"transport": recipe, "min_honest": self.honest}
        if isinstance(recipe, Helpers):
            return self._protocol(**options)
        # not modulo q: sums of values that never wrap around are the same
        options |= {"upper": (self.q - 1) // self.users, "sigma": self.sigma}
        if not self.request.vectors:
            return SecureSum(self.users, **options)
        q = self.q if isinstance(recipe, Masked) else None
        return SecureVectorSum(self.users, self.dimension, q, **options)

    def _necessary(self, setting: RowSetting, length: int) -> int | None:
        from ikos.counts import necessary_messages

        request, q = self.request, self.q
        covered = 8 % q and (setting.clear_share or q % 4 != 2)
        if self.sigma is None or self.users == 1 or not (length == 1 or covered):
            return None  # outside the theorem, or no level
        return max(
            necessary_messages(
                users, q**length, self.sigma, shuffler=setting.shuffler,
                clear_share=setting.clear_share, corrupt_shufflers=request.corrupt_shufflers,
            )
            for users in {max(2, self.honest), self.users}
        )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class PrivateQuestion(Question):
    """A private sum; its choices do not depend on the number of messages."""

    space: Domain | Bounds
    budget: tuple[Fraction, Fraction]
    reserve: Fraction
    releases: int
    precision: int

    @classmethod
    def of(
        cls, request: MessagesRequest, users: int, budget: tuple[Fraction, Fraction]
    ) -> PrivateQuestion:
        """Return the question, with the precision and the modulus that the sum chooses."""
        space = request.space
        reserve = DEFAULT_RESERVE if request.reserve is None else request.reserve
        draft = cls(
            request, users, 0, space.dimension, space=space, budget=budget, reserve=reserve,
            releases=request.releases or 1, precision=0,
        )  # fmt: skip
        chosen = draft._sum(
            precision=request.precision, modulus=request.modulus, messages=5,
            min_honest=draft.honest,
        )  # fmt: skip
        return replace(draft, q=chosen.modulus, precision=chosen.precision)

    def curves(self, users: Sequence[int], **shared: Any) -> list[Curve]:
        """Return the curves of a figure."""
        from ikos.plots import private_curves

        request = self.request
        precision = self.precision if request.integers else request.precision
        return private_curves(
            users, *self.budget, precision=precision, modulus=request.modulus,
            reserve=self.reserve, **shared,
        )  # fmt: skip

    def rows(self, setting: RowSetting) -> Iterator[CountRow]:
        """Yield also rows of the least larger reserve that saves messages, if none is requested."""
        from ikos.counts.analyses import TABLE
        from ikos.counts.private import RESERVES

        usual = [*super().rows(setting)]
        yield from usual
        if self.request.reserve is not None or not TABLE[setting.analysis].private:
            return
        fewest = {row.layout: row for row in usual}
        for reserve in RESERVES[1:]:
            for row in Question.rows(replace(self, reserve=reserve), setting):
                if row.layout in fewest and row.messages < fewest[row.layout].messages:
                    fewest[row.layout] = row
        yield from (row for row in fewest.values() if row not in usual)

    def _sum(self, **options: Any) -> PrivateSum | PrivateVectorSum:
        from ikos.data.domains import Bounds
        from ikos.sums import PrivateSum, PrivateVectorSum

        request, (epsilon, delta) = self.request, self.budget
        options |= {"integers": request.integers}
        if "transport" not in options:
            options["reserve"] = self.reserve
        if isinstance(self.space, Bounds):
            options |= {"lower": self.space.lower, "upper": self.space.upper}
            return PrivateSum(self.users, epsilon, delta, **options)
        options["releases"] = self.releases
        return PrivateVectorSum(self.users, self.space, epsilon, delta, **options)

    def _protocol(self, **options: Any) -> Any:
        return self._sum(precision=self.precision, modulus=self.q, **options)

    def _other(self, recipe: Recipe) -> Any:
        chosen = {"precision": self.request.precision, "modulus": self.request.modulus}
        return self._sum(**chosen, min_honest=self.honest, transport=recipe)

    def _necessary(self, setting: RowSetting, length: int) -> int | None:  # noqa: ARG002
        from ikos.counts import necessary_private_messages

        request = self.request  # known for scalars and parallel shufflers with a clear share
        if request.vectors or setting.shuffler != "parallel" or not setting.clear_share:
            return None
        return necessary_private_messages(
            self.users, self.q, *self.budget, self.precision, min_honest=self.honest,
            corrupt_shufflers=request.corrupt_shufflers, reserve=self.reserve,
        )  # fmt: skip
