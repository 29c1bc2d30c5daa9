"""Tasks whose clients send their category among random ones, to be counted (LWY22).

There is one shuffler. A client sends it envelopes of one message each, in a random order: its own
category, random ones, and as many that hold no message as make their number the same for all. To
the analyzer it sends its report's id alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Literal, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic.dataclasses import dataclass

from ikos._validation import InvalidType, InvalidValue, number, quote, round_down
from ikos.baselines.frequency_estimation_lwy22 import FrequencyEstimation
from ikos.data.domains import Categories, Domain
from ikos.deployment.envelopes import EnvelopeTerms, encrypted
from ikos.deployment.task_fields import Integer
from ikos.deployment.terms import Chosen, Opened, Wanted
from ikos.primitives.randomness import RandomSource
from ikos.results.conditions import Condition, Kind
from ikos.results.sums import Cost, SumResult
from ikos.transports.base import Reports, Totals, drawn_ids

if TYPE_CHECKING:
    from ikos.deployment.task import Task, Window

_PASSED_ON = Condition(
    Kind.PARTIES,
    "while the shuffler passes on the envelopes of one set of reports, once, all and unchanged",
)

_COUNT_SECONDS = 5e-9
"""What one core takes in a release to count a category of a message, and a category at all."""


@dataclass(frozen=True)
class FrequenciesTerms(EnvelopeTerms):
    """Terms of counts of categories.

    Messages name ``set_size`` categories, by arithmetic modulo ``progression_modulus``. A client
    sends up to ``extra`` random ones.
    """

    set_size: Integer
    progression_modulus: Integer
    extra: Integer
    _: KW_ONLY
    kind: Literal["frequencies"] = "frequencies"

    work: ClassVar[str] = "collect"
    columns: ClassVar[int] = 1
    options: ClassVar[frozenset[str]] = frozenset({"set_size"})

    # How a task is made

    @classmethod
    def chosen(
        cls,
        wanted: Wanted,
        *,
        min_honest: int | None = None,
        set_size: int | None = None,
        **options: Any,
    ) -> dict[str, Any]:
        """Return the fields of a task that follow from a guarantee."""
        options.pop("integers", None)  # counts are, either way
        for name, value in options.items():
            if value is not None and (name, value) != ("corrupt_shufflers", 0):
                raise InvalidValue(name, f"must not be given with frequencies, got {quote(value)}")
        if wanted.shufflers not in (None, 1):
            raise InvalidValue(
                "shufflers", f"must be 1 address for frequencies, got {wanted.shufflers}"
            )
        domain, budget = wanted.domain, (wanted.epsilon, wanted.delta)
        if not isinstance(domain, Categories):
            raise InvalidType("domain", f"must be Categories for frequencies, got {domain}")
        size = 1 if set_size is None else set_size
        protocol = _protocol(wanted.users, domain, *budget, size, min_honest, wanted.kem)
        return cls.fields_of(protocol, domain)

    @classmethod
    def fields_of(cls, protocol: FrequencyEstimation, domain: Domain) -> dict[str, Any]:
        """Return the fields of a task that follow from its protocol."""
        return {
            "users": protocol.n,
            "epsilon": protocol.epsilon,
            "domain": domain,
            "integers": True,
            "transport": cls(protocol.set_size, protocol.modulus, protocol.extra),
            "noise": ("binomial", protocol.chance),
            "parameters": protocol.parameter_hash,
            "precision": 1,
            "modulus": protocol.universe + 1,
            "min_honest": protocol.min_honest,
            "corrupt_shufflers": 0,
        }

    def protocol(self, task: Task) -> FrequencyEstimation:
        """Return the protocol that clients and analyzer run."""
        domain = cast(Categories, task.domain)
        budget = task.epsilon, task.delta, self.set_size, task.min_honest
        return _protocol(task.users, domain, *budget, task.kem)

    # What is sent

    @property
    def copies(self) -> int:
        """Envelopes of a client: one for its category, and one for each random message."""
        return self.extra + 1

    def order(self, task: Task) -> int:
        """Return the number of messages, and one more for none."""
        return task.modulus

    def blocks(self, task: Task) -> tuple[int, ...]:
        """Return that an envelope holds one message."""
        del task
        return (1,)

    # The clients

    def checked(self, task: Task, x: ArrayLike, first: int) -> NDArray[Any]:
        """Return clients' values, checked."""
        return task.domain.values(x, first)

    def reports(self, window: Window, values: NDArray[Any], rng: RandomSource) -> Reports:
        """Return a few clients' messages, which all go to the shuffler."""
        messages = _of(window.task).padded(values, rng)
        return Reports(drawn_ids(len(values), rng), ((), (messages[..., np.newaxis],)))

    def parts(self, window: Window, report: Reports) -> tuple[bytes, ...]:
        """Return nothing for the analyzer, and the envelopes for the shuffler."""
        _, (messages,) = report.parts
        return b"", self.envelopes(window, 1, messages[0].tolist())

    # The analyzer

    def check(self, task: Task, part: bytes) -> None:
        """Accept the empty part, the only one of its length."""

    def gathered(self, task: Task, contents: Iterable[tuple[int, list[int]]]) -> list[int]:
        """Return how often each category is named, and the number of messages."""
        values = [np.array(some, dtype=np.int64) for _, some in contents]
        messages = np.concatenate([np.empty(0, dtype=np.int64), *values])
        messages = messages[messages != 0]
        return [*_of(task).counts(messages).tolist(), messages.size]

    def totals(self, window: Window, opened: Sequence[Opened], chosen: Chosen) -> Totals:
        """Return how often each category is named, and the number of messages."""
        del window
        ((counts, _),) = opened
        return Totals(counts, sum(1 for _ in chosen.parts()))

    def result(self, task: Task, totals: Totals) -> SumResult:
        """Return the estimated counts."""
        *counts, sent = totals.sums
        result = _of(task).counted(np.array(counts), sent, totals.users)
        return replace(result, cost=Cost(totals.users, self.copies, (task.order - 1).bit_length()))

    def release_seconds(self, task: Task) -> float:
        """Return what opening all envelopes and counting takes."""
        entries = self.set_size * (self.progression_modulus + task.users * self.copies)
        return super().release_seconds(task) + entries * _COUNT_SECONDS


def _protocol(
    users: int,
    domain: Categories,
    epsilon: float | Fraction,
    delta: float | Fraction,
    set_size: int,
    min_honest: int | None,
    kem: str,
) -> FrequencyEstimation:
    """Return the protocol between parties.

    The analyzer sees nothing but ids before it chooses a set, and random messages do not depend on
    these: the guarantee holds for every set with enough honest clients.
    """
    # a float, as that of the guarantee, and not above the one of the task
    allowed = round_down(number("delta", delta, above=0, below=1))
    return FrequencyEstimation(
        users, domain, epsilon, allowed, set_size=set_size, min_honest=min_honest,
        assumptions=(_PASSED_ON, encrypted(kem)),
    )  # fmt: skip


def _of(task: Task) -> FrequencyEstimation:
    return cast(FrequencyEstimation, task.protocol)
