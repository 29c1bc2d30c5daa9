"""All protocols for sums: a registry, and a comparison of their costs and errors."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from ikos._validation import (
    MAX_PROTOCOL_USERS,
    InvalidType,
    InvalidValue,
    choice,
    integer,
    quote,
    round_up,
)
from ikos.accounting.composition import optimal_delta, optimal_local_epsilon
from ikos.accounting.digits_bbgn20 import checked_budget
from ikos.baselines.binary_response_csuzz19 import BinaryRandomizedResponse, UnaryEncoding
from ikos.baselines.central_model import CentralDiscreteLaplace, CentralGaussian, CentralLaplace
from ikos.baselines.collision_wlqdly21 import Collision
from ikos.baselines.correlated_noise_gkmps21 import CorrelatedNoise
from ikos.baselines.frequency_estimation_lwy22 import FrequencyEstimation
from ikos.baselines.kashin_sums_afnntz24 import KashinCorrelatedNoise, KashinPrivateSum
from ikos.baselines.local_model import LocalLaplace, LocalRandomizedResponse
from ikos.baselines.pckv import PCKVGRR, PCKVUE
from ikos.baselines.privkv import PrivKV
from ikos.baselines.recursive_sum_bbgn20 import PrivacyBlanket, RecursiveSum
from ikos.baselines.sample_and_threshold_cb22 import SampleAndThreshold
from ikos.baselines.sampled_coordinates_scm22 import SampledCoordinates
from ikos.baselines.secure_noise import DesignatedNoise, SparseNoise
from ikos.baselines.single_message_afnntz24 import SingleMessageGrid
from ikos.counts import MessageCount
from ikos.data.domains import (
    Ball,
    Bounds,
    Box,
    Categories,
    Domain,
    IntegerBounds,
    SparseTernary,
    number_bounds,
)
from ikos.primitives.concurrency import Progress
from ikos.results.conditions import ONE_REPORT, reports
from ikos.results.guarantees import Guarantee
from ikos.results.sums import Cost
from ikos.results.text import Printed, at_least
from ikos.sums import PrivateSum
from ikos.sums.private import MAX_RELEASES, PrivateVectorSum
from ikos.sums.protocol import SumProtocol
from ikos.transports import Helpers, Recipe, Verified, VerifiedShuffled

MODELS = ("central", "helpers", "shuffle", "local")
"""Whom users trust: a curator; one of the parties that add; shufflers; or no one."""

TASK_DOMAINS = (Bounds, Box, Ball, Categories)
"""The domains of tasks between parties."""


@dataclass(frozen=True)
class ProtocolSpec:
    """An entry of the registry: a protocol's class, names and domains.

    Attributes
    ----------
    key, name, source : str
        Its permanent name in programs; its name for people; its paper.
    model : {"central", "helpers", "shuffle", "local"}
        The parties whom users trust.
    trusted : str
        Who must be trusted with what, where ``{shufflers}`` stands for the shufflers.
    made_by, options : callable, mapping
        The protocol's class, and further arguments.
    domains : tuple of type
        The domains that it supports; `ikos.data.domains.Bounds` for numbers.
    note : str or None
        A special trust assumption, or how it treats a domain that it was not designed for.
    pure : bool
        Whether its delta is 0, so that it takes no ``delta``.
    honest : {"counted", "all", "any"}
        Whether it takes ``min_honest``, needs all users, or protects each without the others.
    counted : bool
        Whether a run draws the number of copies of each message, not each message.
    accounts : bool
        Whether it takes ``releases``: the number of sums that its guarantee covers.
    task : str or None
        The transport of tasks that run it between parties (`ikos.deployment.Task`), if any.
    """

    key: str
    name: str
    source: str
    model: str
    trusted: str
    made_by: Callable[..., SumProtocol]
    domains: tuple[type[Domain], ...] = (Bounds,)
    options: Mapping[str, Any] = field(default_factory=dict, hash=False)
    note: str | None = None
    pure: bool = False
    honest: str = "counted"
    counted: bool = False
    accounts: bool = False
    task: str | None = None

    def make(
        self,
        n: int,
        domain: Domain,
        epsilon: float | Fraction,
        delta: float | Fraction,
        *,
        min_honest: int | None = None,
        overhead: int | None = None,
        releases: int = 1,
    ) -> SumProtocol:
        """Return the protocol, for vectors with an overhead in blocks; ValueError if impossible.

        The budget is for all ``releases`` about the same users.
        """
        if not isinstance(domain, self.domains):
            names = " or ".join(kind.__name__ for kind in self.domains)
            # not InvalidType: a row gives the reason, as for any other impossible protocol
            raise InvalidValue("domain", f"must be a {names}, got {type(domain).__name__}")
        options = dict(self.options)
        if overhead is not None and self.made_by is PrivateVectorSum and "transport" not in options:
            options = {"layout": "blocks"} | options | {"overhead": overhead}
        if min_honest is not None and min_honest < n:
            if self.honest == "all":
                raise ValueError("it needs all users to be honest and present")
            if self.honest == "counted":
                options["min_honest"] = min_honest
        if self.accounts:
            options["releases"] = releases
        elif releases > 1:
            epsilon, delta = budget_each(epsilon, delta, releases, pure=self.pure)
        spent = (epsilon,) if self.pure else (epsilon, delta)
        if isinstance(domain, Bounds):
            if isinstance(domain, IntegerBounds):
                options["integers"] = True
            return self.made_by(n, *spent, lower=domain.lower, upper=domain.upper, **options)
        return self.made_by(n, domain, *spent, **options)


def budget_each(
    epsilon: float | Fraction, delta: float | Fraction, releases: int, *, pure: bool = False
) -> tuple[float, Fraction]:
    """Return the budget of each of several releases that have one together (KOV15).

    Half of delta is for the deltas of the releases, unless they are 0.
    """
    each = Fraction(0) if pure else Fraction(delta) / (2 * releases)
    return optimal_local_epsilon(epsilon, delta, releases, each), each


def _together(each: Guarantee, epsilon: Fraction, releases: int) -> Guarantee:
    """Return the guarantee of several releases of which each has one (KOV15, Theorem 3.3)."""
    conditions = (reports(releases) if one == ONE_REPORT else one for one in each.conditions)
    return replace(
        each,
        epsilon=round_up(epsilon),
        delta=optimal_delta(epsilon, releases, each.epsilon, each.delta),
        theorem=f"KOV15, Theorem 3.3, for {releases:,} releases; {each.theorem}",
        conditions=tuple(conditions),
    )


@dataclass(frozen=True)
class ComparisonRow(Printed):
    """A protocol for some users, domain and guarantee, or why it is impossible.

    Attributes
    ----------
    spec : ProtocolSpec
        Its entry in the registry.
    protocol : SumProtocol or None
        The protocol for these users.
    guarantee : Guarantee or None
        The guarantee of each user, for all releases together.
    refusal : ValueError or None
        Why it is impossible; its message is the ``reason``.
    """

    spec: ProtocolSpec
    protocol: SumProtocol | None
    guarantee: Guarantee | None = None
    refusal: ValueError | None = None

    @property
    def reason(self) -> str | None:
        """Why it is impossible, in words."""
        return None if self.refusal is None else str(self.refusal)

    def __str__(self) -> str:
        if self.protocol is None:
            return f"{self.key}: none, {self.reason}"
        return (
            f"{self.key}: error {at_least(math.sqrt(self.protocol.mse), 4)}, {self._cost}; "
            f"one user can move it by {at_least(self.protocol.influence, 4)}"
        )

    @property
    def key(self) -> str:
        """Its name in programs."""
        return self.spec.key

    @property
    def _cost(self) -> Cost | None:
        return None if self.protocol is None else self.protocol.cost()

    @property
    def messages(self) -> int | float | None:
        """Messages per user; the mean if the number is random."""
        return None if self._cost is None else self._cost.messages_per_user

    @property
    def bits(self) -> int | float | None:
        """Bits per user."""
        return None if self._cost is None else self._cost.bits_per_user

    @property
    def servers(self) -> int | None:
        """The number of servers (a curator, or the analyzer with a helper or fewest shufflers)."""
        if self.protocol is None:
            return None
        count = getattr(self.protocol, "messages", None)
        others = count.shuffled if isinstance(count, MessageCount) else 1
        return 1 + others * (self.spec.model in ("helpers", "shuffle"))

    @property
    def trusted(self) -> str | None:
        """Who must be trusted, with what."""
        if self.servers is None:
            return None
        shufflers = f"{self.servers - 1} shufflers" if self.servers > 2 else "shuffler"
        return self.spec.trusted.format(shufflers=shufflers)

    @property
    def task(self) -> str | None:
        """The transport of tasks that run it between parties, if any."""
        supported = isinstance(getattr(self.protocol, "domain", None), TASK_DOMAINS)
        return self.spec.task if supported else None

    @property
    def mse(self) -> float | None:
        """Bound on the mean squared error of the sum, in squared data units."""
        return None if self.protocol is None else self.protocol.mse

    @property
    def rmse(self) -> float | None:
        """Its root, in the data's units."""
        return None if self.protocol is None else math.sqrt(self.protocol.mse)

    @property
    def influence(self) -> float | None:
        """Greatest change of the sum by one user's messages, in the data's units."""
        return None if self.protocol is None else self.protocol.influence

    def as_dict(self) -> dict[str, str | int | float | None]:
        """Return a row of a data frame: numbers and words by name, None for missing ones."""
        names = ("messages", "bits", "mse", "rmse", "influence")
        return {
            "key": self.key,
            "model": self.spec.model,
            "servers": self.servers,
            "trusted": self.trusted,
            "task": self.task,
            **{name: getattr(self, name) for name in names},
            "epsilon": None if self.guarantee is None else self.guarantee.epsilon,
            "delta": None if self.guarantee is None else self.guarantee.delta,
            "reason": self.reason,
        }


def _sampled(n: int, domain: Box | Ball, *spent: Fraction, **options: Any) -> SumProtocol:
    """Return sampled coordinates for a box, or for the smallest box around a ball."""
    if isinstance(domain, Ball):
        domain = Box(domain.dimension, -domain.reach, domain.reach, shape=domain.shape)
    return SampledCoordinates(n, domain, *spent, **options)


def _of(model: str, trusted: str, **fixed: Any) -> Callable[..., ProtocolSpec]:
    """Return a function that makes entries of a model from a key, a name, a source and a class."""

    def entry(key: str, name: str, source: str, made_by: Any, **more: Any) -> ProtocolSpec:
        whom = more.pop("trusted", trusted)
        return ProtocolSpec(key, name, source, model, whom, made_by, **fixed, **more)

    return entry


_central = _of("central", "curator: all values, noise", honest="any")
_shuffle = _of("shuffle", "{shufflers}: who sent what; users: randomness")
_local = _of("local", "no one", pure=True, honest="any")


def _recursive(messages: int, whose: str) -> ProtocolSpec:
    suffix, by = ("-paper", "BBGN20's parameters") if whose == "paper" else ("", "optimized")
    return _shuffle(
        f"recursive-{messages}{suffix}",
        f"recursive protocol with {messages} messages, {by}",
        "BBGN20, Section 4",
        RecursiveSum,
        options={"messages": messages, "parameters": whose},
    )


def _helped(key: str, made_by: Any, recipe: Helpers, **more: Any) -> ProtocolSpec:
    """Return the entry of a sum with one helper."""
    name, trusted = {
        "users": ("noise of all users", "analyzer or helper: its shares; users: randomness"),
        "parties": ("noise of both parties", "analyzer or helper: its shares and noise"),
    }[recipe.noise]
    name += ", over shares that a helper adds"
    source = "BBGN20, Section 5, helpers of this library"
    more |= {"options": {"transport": recipe}, "task": "helpers"}
    return ProtocolSpec(key, name, source, "helpers", trusted, made_by, **more)


def _verified(key: str, made_by: Any, recipe: Recipe, **more: Any) -> ProtocolSpec:
    """Return the entry of a sum of values that users prove to be valid."""
    model, trusted, name, task = (
        ("helpers", "analyzer or relay: its shares; users: randomness", "a relay adds", "verified")
        if isinstance(recipe, Verified)
        else ("shuffle", "{shufflers}: who sent what; users: randomness", "are shuffled", None)
    )
    name = f"bounded noise of all users, proved values, over openings that {name}"
    source = "BBGN20, Section 5, verified sums of this library"
    more |= {"options": {"transport": recipe}, "task": task, "note": _LOGARITHMS}
    return ProtocolSpec(key, name, source, model, trusted, made_by, **more)


_CURATOR = "all users trust the curator with what they hold, and to add the noise"
_COUNTING = "all users trust the shuffler to count the ones, and to suppress small counts"
_DESIGNATED = (
    "all users trust the first one to add the noise and to keep it to itself; "
    "no one is protected from that user"
)
_LOGARITHMS = "that values are valid rests on the hardness of discrete logarithms"
_LATTICE = "rests on the hardness of Ring-LWE"
_IN_BOX = "for a ball, in the box around it"
_ALL_VECTORS = (Box, Ball, SparseTernary, Categories)
_SECURE = "noise of all users, over secure summation"
_SPARSE = "noise of a few random users, over secure summation"

# fmt: off
PROTOCOLS: tuple[ProtocolSpec, ...] = (
    # of numbers
    _central("central-laplace", "central Laplace noise", "Dwork, McSherry, Nissim, Smith 2006",
        CentralLaplace, note=_CURATOR, pure=True),
    _central("central-discrete", "central discrete Laplace noise",
        "Ghosh, Roughgarden, Sundararajan 2009", CentralDiscreteLaplace, note=_CURATOR, pure=True),
    _helped("helpers-sum", PrivateSum, Helpers()),
    _helped("helpers-sum-parties", PrivateSum, Helpers(noise="parties")),
    _verified("verified-sum", PrivateSum, Verified()),
    _verified("verified-sum-shuffled", PrivateSum, VerifiedShuffled()),
    _shuffle("private-sum", _SECURE, "BBGN20, Section 5, counts of this library", PrivateSum,
        task="shares"),
    _shuffle("private-sum-bbgn20", _SECURE, "BBGN20, Section 5, and its counts", PrivateSum,
        options={"analysis": "balle2020"}),
    _shuffle("designated-noise", "noise of one designated user, over secure summation",
        "BBGN20, Section 5.2", DesignatedNoise, note=_DESIGNATED, honest="all",
        trusted="first user: all noise; {shufflers}: who sent what; users: presence"),
    _shuffle("sparse-noise", _SPARSE, "SCRCS11 and GPV19, exact divergence", SparseNoise),
    _shuffle("sparse-noise-scrcs11", _SPARSE, "SCRCS11 and GPV19", SparseNoise,
        options={"accountant": "published"}),
    _shuffle("correlated-noise", "noise of all users, hidden in messages that cancel",
        "GKMPS21, certified numerically", CorrelatedNoise, counted=True),
    _shuffle("privacy-blanket", "single-message privacy blanket", "BBGN19", PrivacyBlanket),
    _recursive(2, "paper"),
    _recursive(3, "paper"),
    _recursive(2, "optimized"),
    _recursive(3, "optimized"),
    _recursive(4, "optimized"),
    _shuffle("binary-response", "shuffled randomized response on one bit", "CSUZZ19",
        BinaryRandomizedResponse),
    _shuffle("unary-encoding", "shuffled randomized response on many bits",
        "CSUZZ19, exact divergence", UnaryEncoding, counted=True),
    _shuffle("sample-threshold", "sampled ones, and no small counts", "after CSUZZ19",
        SampleAndThreshold, note=_COUNTING, honest="all",
        trusted="{shufflers}: who sent what, the exact count; users: randomness"),
    _local("local-response", "local randomized response on one bit",
        "Warner 1965, after randomized rounding", LocalRandomizedResponse),
    _local("local-laplace", "local Laplace noise", "Dwork, McSherry, Nissim, Smith 2006",
        LocalLaplace),
    # of vectors
    _central("central-gaussian", "central discrete Gaussian noise",
        "Canonne, Kamath, Steinke 2020", CentralGaussian, domains=_ALL_VECTORS,
        note=_CURATOR, accounts=True),
    _helped("helpers-vector-sum", PrivateVectorSum, Helpers(), domains=_ALL_VECTORS,
        accounts=True),
    _helped("helpers-vector-sum-parties", PrivateVectorSum, Helpers(noise="parties"),
        domains=_ALL_VECTORS, accounts=True),
    _verified("verified-vector-sum", PrivateVectorSum, Verified(), domains=(Box, Categories),
        accounts=True),
    _verified("verified-vector-sum-shuffled", PrivateVectorSum, VerifiedShuffled(),
        domains=(Box, Categories), accounts=True),
    _shuffle("private-vector-sum", _SECURE, "BBGN20, Section 5, accounts of this library",
        PrivateVectorSum, domains=_ALL_VECTORS, accounts=True, task="shares"),
    _shuffle("masked-vector-sum", "noise of all users, under masks whose keys are summed securely",
        "BBGN20, Section 5, masked vectors of this library", PrivateVectorSum,
        domains=_ALL_VECTORS, options={"layout": "masked"}, note=_LATTICE, accounts=True,
        task="masks"),
    _shuffle("kashin-private-sum",
        "noise of all users in even coefficients, over secure summation",
        "AFNNTZ24, Section 2.2, with BBGN20's sums", KashinPrivateSum, domains=(Ball,),
        accounts=True),
    _shuffle("kashin-correlated-noise", "correlated noise in even coefficients",
        "AFNNTZ24, Algorithms 3 and 4, with GKMPS21", KashinCorrelatedNoise, domains=(Ball,),
        accounts=True),
    _shuffle("kashin-sampled-noise", "correlated noise in a sample of even coefficients",
        "AFNNTZ24, end of Section 2.2, with GKMPS21", KashinCorrelatedNoise, domains=(Ball,),
        options={"sampling": "auto"}, accounts=True),
    _shuffle("sampled-coordinates", "randomized response on sampled coordinates",
        "SCM22, exact divergence, stratified", _sampled, domains=(Box, Ball),
        options={"messages": None}, note=_IN_BOX),
    _shuffle("one-coordinate", "randomized response on one coordinate of each user",
        "SCM22, exact divergence", _sampled, domains=(Box, Ball), note=_IN_BOX),
    _shuffle("single-message-grid", "randomized response on a grid of vectors",
        "AFNNTZ24, Algorithms 5 and 6, exact divergence", SingleMessageGrid, domains=(Box, Ball)),
    _shuffle("collision", "collision of hashed entries", "WLQDLY21, exact divergence", Collision,
        domains=(SparseTernary,)),
    _shuffle("privkv", "randomized response on one key", "PrivKV, exact divergence", PrivKV,
        domains=(SparseTernary,)),
    _shuffle("pckv-grr", "randomized response on one of a user's keys", "PCKV, exact divergence",
        PCKVGRR, domains=(SparseTernary,),
        note="vectors must have exactly as many entries as allowed"),
    _shuffle("pckv-ue", "unary encoding of one of a user's keys", "PCKV, as any randomizer",
        PCKVUE, domains=(SparseTernary,)),
    _shuffle("frequency-estimation", "one's category among random ones",
        "LWY22, exact divergence", FrequencyEstimation, domains=(Categories,),
        task="frequencies"),
    _shuffle("frequency-sets", "a set with one's category among random sets",
        "LWY22, divergence of disjoint sets", FrequencyEstimation, domains=(Categories,),
        options={"set_size": None}, task="frequencies"),
    _local("local-collision", "collision of hashed entries", "WLQDLY21", Collision,
        domains=(SparseTernary,)),
    _local("local-privkv", "randomized response on one key", "PrivKV", PrivKV,
        domains=(SparseTernary,)),
)
# fmt: on
"""All protocols that are compared."""


def comparison(
    n: int,
    epsilon: float | Fraction,
    delta: float | Fraction,
    *,
    lower: float = 0.0,
    upper: float = 1.0,
    integers: bool = False,
    domain: Domain | None = None,
    min_honest: int | None = None,
    overhead: int | None = None,
    releases: int = 1,
    protocols: Sequence[str] | None = None,
    progress: Progress | None = None,
) -> tuple[ComparisonRow, ...]:
    """Return every protocol for a domain, with the same users and the same guarantee.

    Parameters
    ----------
    n, epsilon, delta, lower, upper, integers, min_honest
        As for `Baseline`. Protocols with pure differential privacy have a delta of 0.
    domain : Domain, optional
        The set of the users' vectors, instead of bounds on numbers.
    overhead : int, optional
        Transport overhead per message in bytes: `PrivateVectorSum` then takes the blocks of
        coordinates that need the fewest bytes.
    releases : int
        Number of sums about the same users that have the guarantee together. Protocols that do not
        account for it get the largest equal budgets by the optimal composition theorem (KOV15),
        with half of delta. Errors and costs are those of one sum.
    protocols : sequence of str, optional
        Keys of the protocols; by default all ``PROTOCOLS`` for the domain.
    progress : callable, optional
        Called with the number of protocols done and their total number: some take seconds.

    Returns
    -------
    tuple of ComparisonRow
        The central model first, then sums with a helper, the shuffle model and the local one;
        within each, ordered by the bound on the mean squared error, with impossible ones last.

    Examples
    --------
    >>> for row in comparison(
    ...     10**4, 1, 1e-8, protocols=["private-sum", "privacy-blanket", "local-laplace"]
    ... ):
    ...     print(row.key, row.messages, round(row.mse))
    private-sum 5 2
    privacy-blanket 1 221
    local-laplace 1 20000
    """
    users = integer("n", n, low=1, high=MAX_PROTOCOL_USERS)
    eps, small = checked_budget(epsilon, delta)
    bounds = number_bounds(lower, upper, integers)
    domain = bounds if domain is None else domain
    if not isinstance(domain, Domain):
        raise InvalidType("domain", f"must be a Domain, got {type(domain).__name__}")
    if domain is not bounds and bounds != Bounds(0, 1):
        raise ValueError(
            "lower, upper and integers must be left out with a domain, which has its own"
        )
    honest = None if min_honest is None else integer("min_honest", min_honest, low=1, high=users)
    times = integer("releases", releases, low=1, high=MAX_RELEASES)
    wanted = _chosen(protocols, domain)
    if progress is not None and not callable(progress):
        raise InvalidType("progress", f"must be callable, got {quote(progress)}")
    rows = []
    for done, spec in enumerate(wanted, 1):
        try:
            protocol = spec.make(
                users, domain, eps, small, min_honest=honest, overhead=overhead, releases=times
            )
            guarantee = protocol.guarantee
            if times > 1 and not spec.accounts:
                guarantee = _together(guarantee, eps, times)
            rows.append(ComparisonRow(spec, protocol, guarantee))
        except ValueError as problem:
            rows.append(ComparisonRow(spec, None, refusal=problem.with_traceback(None)))
        if progress is not None:
            progress(done, len(wanted))

    return tuple(sorted(rows, key=lambda row: (MODELS.index(row.spec.model), row.mse or math.inf)))


def _chosen(keys: object, domain: Domain) -> list[ProtocolSpec]:
    """Return the protocols for some keys, or all for a domain."""
    if keys is None:
        return [spec for spec in PROTOCOLS if isinstance(domain, spec.domains)]
    if isinstance(keys, str) or not isinstance(keys, Iterable):
        raise InvalidType("protocols", f"must be a sequence of keys, got {quote(keys)}")
    known = {spec.key: spec for spec in PROTOCOLS}
    return [known[key] for key in dict.fromkeys(choice("protocols", key, known) for key in keys)]
