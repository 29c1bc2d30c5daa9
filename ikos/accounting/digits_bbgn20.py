"""Parameters of the recursive protocol (BBGN20, Section 4): digits through randomized response.

A value is encoded as an integer in {0..precision}, whose digits in a mixed radix go through k-ary
randomized response, one message per digit. With place values v_j the mean squared error of the sum
of n values is at most

    n / (4 precision^2) + n sum_j (v_j / precision)^2 B(k_j, gamma_j),

with B the largest variance of a debiased response (BBGN20, Lemma A.1). Every value of a digit
counts, where the paper counts one fewer; the optimized layout has precision k_1 ... k_m - 1.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, lru_cache, partial
from typing import Any

from ikos._validation import (
    MAX_PROTOCOL_USERS,
    InvalidType,
    InvalidValue,
    array,
    choice,
    integer,
    number,
    ordered,
    round_down,
    round_up,
)
from ikos.accounting.blanket import LEAST_GAMMA, ResponseBlanket
from ikos.accounting.composition import advanced_composition, composed_divergence
from ikos.accounting.shuffled_response import (
    ACCOUNTANTS,
    MAX_EPSILON,
    MIN_EPSILON,
    response_accountant,
    response_delta,
    response_gamma,
)
from ikos.numeric.gaussian import gaussian_gamma, gaussian_log_delta, gaussian_mu
from ikos.numeric.search import bisect, last_safe
from ikos.primitives.randomized_response import grid_up, response_variance

COMPOSITIONS = ("numerical", "advanced", "basic")  # from the tightest to the simplest
FREE_COMPOSITIONS = ("numerical", "basic")  # of digits whose probabilities are not chosen here
MIN_DELTA = math.nextafter(1e-100, 0)
MAX_MESSAGES = 8
MAX_VALUES = 1 << 20  # of all digits together in a search: rounding is then negligible
_MAX_PRECISION = 1 << 52
_MAX_DOMAIN = 1 << 30  # sums over 10^9 users fit in 64 bits
_CELLS = 120  # steps of the lattice up to epsilon


@dataclass(frozen=True)
class DigitParameters:
    """The digits of a value, and the randomized response of each.

    Values are integers in {0..precision}. Digit j has ``domains[j]`` values, counts ``places[j]``
    steps (the last counts 1), and is replaced by a uniform one with probability ``gammas[j]``;
    ``accountants`` names the accountant of each digit's guarantee, and is empty if losses are
    composed. By itself this proves nothing: see `digits_delta`.

    Parameters
    ----------
    precision : int
        Up to 2^52.
    domains, places : sequence of int
        As many of each as digits, up to 8. ValueError if some digit does not fit its domain.
    gammas : sequence of float or Fraction
        Probabilities in (0, 1], rounded up to multiples of 2^-53.

    Examples
    --------
    >>> digits = DigitParameters(11, (3, 4), (4, 1), (0.1, 0.25))
    >>> digits.split(10)
    (2, 2)
    """

    precision: int
    domains: tuple[int, ...]
    places: tuple[int, ...]
    gammas: tuple[Fraction, ...]
    accountants: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        def items(name: str) -> Iterable[object]:
            return ordered(name, getattr(self, name))

        largest = integer("precision", self.precision, low=1, high=_MAX_PRECISION)
        domains = tuple(integer("domains", k, low=2, high=_MAX_DOMAIN) for k in items("domains"))
        places = tuple(integer("places", each, low=1, high=largest) for each in items("places"))
        gammas = [number("gammas", each, low=LEAST_GAMMA, high=1) for each in items("gammas")]
        chances = tuple(map(grid_up, gammas))
        vars(self).update(precision=largest, domains=domains, places=places, gammas=chances)
        if not len(domains) == len(places) == len(gammas) or not 1 <= len(domains) <= MAX_MESSAGES:
            raise InvalidValue(
                "domains",
                f"must be 1 to {MAX_MESSAGES}, as many as places and gammas, got {len(domains)} "
                f"with {len(places)} and {len(gammas)}",
            )
        for k, place in zip(domains, places, strict=True):
            if largest // place >= k:
                raise InvalidValue(
                    "domains",
                    f"must hold the digits of this precision and these places, up to "
                    f"{largest // place}, got {k}",
                )
            largest = min(largest, place - 1)
        if largest:
            raise InvalidValue("places", f"must end with 1, got {places[-1]}")

    def split(self, encoded: Any) -> tuple[Any, ...]:
        """Return the digits, most significant first, of integers in {0..precision}."""
        steps = array("encoded", encoded)
        if steps.dtype.kind not in "iu":
            raise InvalidType("encoded", "must be integers: values times the precision, rounded")
        if steps.size and not 0 <= steps.min() <= steps.max() <= self.precision:
            raise InvalidValue("encoded", f"must be in {{0..{self.precision}}}, the precision")
        digits, rest = [], steps if steps.ndim else encoded
        for place in self.places:
            digit, rest = divmod(rest, place)
            digits.append(digit)
        return tuple(digits)

    def mse(self, n: int, rounding: Fraction = Fraction(1, 4)) -> float:
        """Return the bound on the mean squared error of the sum of n values in [0, 1].

        ``rounding`` is the largest variance of rounding a value, in steps. The other terms are
        attained at 0, all of whose digits are 0, and which is not rounded: without rounding the
        bound is the supremum.
        """
        variances = [
            (place / self.precision) ** 2 * response_variance(k, float(gamma))
            for k, place, gamma in zip(self.domains, self.places, self.gammas, strict=True)
        ]
        return n * (float(rounding / self.precision**2) + sum(variances))


def checked_budget(epsilon: object, delta: object) -> tuple[Fraction, Fraction]:
    """Check and return a budget with a positive delta."""
    eps = number("epsilon", epsilon, low=MIN_EPSILON, high=MAX_EPSILON)
    return eps, number("delta", delta, low=MIN_DELTA, below=1)


def _layout(radices: Sequence[int]) -> tuple[int, ...]:
    return tuple(math.prod(radices[j + 1 :]) for j in range(len(radices)))


def recursive_digits(
    precisions: Sequence[int], gammas: Sequence[float | Fraction]
) -> DigitParameters:
    """Return the digits of BBGN20's Algorithms 3 and 4 for given precisions and probabilities.

    Digit j of x in [0, 1] is floor(p_1 ... p_j x) - p_j floor(p_1 ... p_(j-1) x), the last one of
    x rounded at random to p_1 ... p_m steps. Nothing is proved by itself: see `digits_delta`.

    Parameters
    ----------
    precisions : sequence of int
        p_1, ..., p_m: 1 to 8 integers.
    gammas : sequence of float or Fraction
        Probability of a uniform answer for each digit, on {0..p_j}, or {0..p_m + 1} for the last.

    Notes
    -----
    A value is rounded before it is split. So a last digit of p_m, which the paper sends, is a carry
    here; the sum is the same.

    Examples
    --------
    BBGN20's example, x = 0.2342 with precisions 10 and 100, is rounded to 234 or, with probability
    0.2, to 235 steps. Its digits are 2, and 34 or 35:

    >>> digits = recursive_digits((10, 100), (0.01, 0.05))
    >>> digits.split(234), digits.split(235)
    ((2, 34), (2, 35))
    >>> digits.domains
    (11, 102)
    """
    radices = [integer("precisions", p, low=1) for p in ordered("precisions", precisions)]
    if not radices or math.prod(radices) > _MAX_PRECISION:
        raise InvalidValue("precisions", "must be at least one, with a product of at most 2^52")
    chances = tuple(ordered("gammas", gammas))
    if len(chances) != len(radices):
        raise InvalidValue(
            "gammas", f"must be {len(radices)}, one for each precision, got {len(chances)}"
        )
    return DigitParameters(math.prod(radices), _domains(radices), _layout(radices), chances)


def _domains(radices: Sequence[int]) -> tuple[int, ...]:
    """Return the numbers of values of Algorithm 3's digits."""
    return (*(p + 1 for p in radices[:-1]), radices[-1] + 2)


def published_precisions(n: int, messages: int) -> tuple[int, ...]:
    """Return the precisions p_j of BBGN20, Theorem 4.2, rounded to integers of at least 1.

    p_j = n^(3^(j - m - 1)) for n >= 3 users and m ``messages``: the first choice of the theorem.
    """
    users = integer("n", n, low=3)
    m = integer("messages", messages, low=1, high=MAX_MESSAGES)
    return tuple(max(1, round(users**3.0 ** (j - m - 1))) for j in range(1, m + 1))


def paper_digits(
    n: int,
    epsilon: float | Fraction,
    delta: float | Fraction,
    messages: int = 2,
    *,
    composition: str = "basic",
    accountant: str = "exact",
) -> DigitParameters:
    """Return the digits of BBGN20, Theorem 4.2 or Corollary 4.1, with sound probabilities.

    Parameters
    ----------
    n, epsilon, delta, messages, accountant
        As for `optimized_digits`, but n at least 3; the budget is split evenly over the messages.
    composition : {"basic", "advanced"}
        Theorem 4.2 or Corollary 4.1.
    """
    eps, small = checked_budget(epsilon, delta)
    users = integer("n", n, low=3, high=MAX_PROTOCOL_USERS)
    radices = published_precisions(users, messages)
    choice("composition", composition, COMPOSITIONS[1:])
    choice("accountant", accountant, ACCOUNTANTS)
    domains = _domains(radices)
    even = [1 / len(radices)] * len(radices)
    gammas, proved = _split_gammas(users, domains, even, eps, small, composition, accountant)
    if max(gammas) == 1:
        raise InvalidValue(
            "n",
            f"must be larger for the published parameters with {len(radices)} messages, "
            f"epsilon = {float(eps):g} and delta = {float(small):.3g}, got {users}: a digit "
            "would always be answered at random",
        )
    return DigitParameters(math.prod(radices), domains, _layout(radices), gammas, proved)


def _split_gammas(
    n: int,
    domains: Sequence[int],
    shares: Sequence[float],
    eps: Fraction,
    small: Fraction,
    composition: str,
    accountant: str,
) -> tuple[tuple[Fraction, ...], tuple[str, ...]]:
    """Return probabilities for fractions of epsilon and equal parts of delta, and their proofs."""
    m = len(domains)
    scale = Fraction(1)
    slack = Fraction(0)
    if composition == "advanced" and m > 1:
        half = small / 2

        def within(factor: float) -> bool:
            parts = [(factor * share * float(eps), 0.0) for share in shares]
            return advanced_composition(parts, half)[0] <= float(eps) * (1 - 1e-9)

        if within(1 + 1e-6):  # below, basic composition is as good
            scale, slack = Fraction(bisect(within, 1.0, 1e3, close=1e-9)), half
    if scale * eps * Fraction(min(shares)) < 2 * Fraction(MIN_EPSILON):
        raise InvalidValue("epsilon", f"must be larger for {m} messages, got {float(eps):g}")
    each = (small - slack) / m
    gammas, proved = [], []
    for k, share in zip(domains, shares, strict=True):
        # epsilon is lowered by a millionth for the rounding of the sums
        part = scale * Fraction(share) * eps * (1 - Fraction(1, 10**6))
        less = each * (1 - Fraction(1, 10**6))
        gammas.append(grid_up(response_gamma(part, less, n, k, accountant=accountant)))
        proved.append(response_accountant(part, n, k, gammas[-1], accountant=accountant))
    return tuple(gammas), tuple(proved)


_Sketch = tuple[float, tuple[int, ...], tuple[float, ...]]
# an approximate error, domains, and the budget's split among the digits


def _sketch(domains: tuple[int, ...], n: int, mu: float, power: float) -> _Sketch:
    """Return the approximate error for domains, with the best split of the budget."""
    # The error is about sum_j c_j gamma_j with gamma_j = 2 k_j / (n mu_j^2). If the mu_j^2 add up
    # (power 2) the best parts are as sqrt(c_j k_j); if the mu_j do (power 1), as its cube root.
    precision = math.prod(domains) - 1
    if precision >= MAX_VALUES:
        return math.inf, domains, tuple(1 / len(domains) for _ in domains)
    places = _layout(domains)
    weights = [
        ((place / precision) ** 2 * k * response_variance(k, 1e-9) * 1e9) ** (1 / (1 + 2 / power))
        for k, place in zip(domains, places, strict=True)
    ]
    shares = tuple(weight / sum(weights) for weight in weights)
    error = 1 / (4 * precision**2)
    for k, place, share in zip(domains, places, shares, strict=True):
        gamma = gaussian_gamma(k, (share ** (2 / power)) * mu * mu, n)
        if gamma > 0.999:
            return math.inf, domains, shares
        error += (place / precision) ** 2 * response_variance(k, gamma)
    return n * error, domains, shares


def _neighbours(domains: tuple[int, ...]) -> Iterable[tuple[int, ...]]:
    for j, k in enumerate(domains):
        for other in {k - 1, k + 1, max(2, k * 4 // 5), k + k // 4, k + k // 2}:
            if other >= 2:
                yield (*domains[:j], other, *domains[j + 1 :])
    for j in range(len(domains) - 1):  # the next digit may use the budget left by one digit
        a, b = domains[j], domains[j + 1]
        for pair in ((a + 1, max(2, b - 1)), (max(2, a - 1), b + 1), (b, a)):
            yield (*domains[:j], *pair, *domains[j + 2 :])


def _search(n: int, m: int, mu: float, power: float) -> list[_Sketch]:
    """Return the best few domains by the approximate error, found by descent from many starts."""
    seen: dict[tuple[int, ...], _Sketch] = {}

    def sketch(domains: tuple[int, ...]) -> _Sketch:
        if domains not in seen:
            seen[domains] = _sketch(domains, n, mu, power)
        return seen[domains]

    whole = max(2.0, math.sqrt(n) * mu)
    starts = {tuple([k] * m) for k in (2, 3, 5, 8, 12, 20)}
    starts |= {(k, *[3] * (m - 1)) for k in (4, 8, 16)}
    starts |= {tuple(max(2, round(whole ** (3.0 ** (j - m)))) for j in range(1, m + 1))}
    for start in starts:
        here = sketch(start)
        while True:
            best = min(map(sketch, _neighbours(here[1])))
            if not best[0] < here[0]:
                break
            here = best
    return [result for result in sorted(seen.values())[:5] if math.isfinite(result[0])]


def optimized_digits(
    n: int,
    epsilon: float | Fraction,
    delta: float | Fraction,
    messages: int = 2,
    *,
    composition: str = "numerical",
    accountant: str = "exact",
) -> DigitParameters:
    """Return digits with a proved guarantee and the smallest error that a search finds.

    Parameters
    ----------
    n : int
        Number of users who follow the protocol, up to 10^9.
    epsilon, delta : float
        The budget of all messages together.
    messages : int
        Digits, 1 to 8.
    composition : {"numerical", "advanced", "basic"}
        How the messages' guarantees are composed. "numerical" composes the exact privacy losses.
    accountant : {"exact", "bennett", "hoeffding", "closed-form"}
        For each digit, under "advanced" and "basic"; "numerical" is exact.

    Notes
    -----
    ValueError also if there are too few users. The guarantee and the error are proved, but not
    optimality: the search assumes Gaussian losses. Above an epsilon of about 8 they are far from
    Gaussian, and more messages may be worse than fewer.

    Examples
    --------
    >>> found = optimized_digits(1000, 2, 1e-3, 2)
    >>> found.domains, found.mse(1000) < 10
    ((3, 5), True)
    """
    users = integer("n", n, low=1, high=MAX_PROTOCOL_USERS)
    eps, small = checked_budget(epsilon, delta)
    m = integer("messages", messages, low=1, high=MAX_MESSAGES)
    choice("composition", composition, COMPOSITIONS)
    choice("accountant", accountant, ACCOUNTANTS)
    if composition == "numerical" and accountant != "exact":
        raise InvalidValue(
            "accountant", f"must be 'exact' with composition='numerical', got {accountant!r}"
        )
    return _optimized(users, eps, small, m, composition, accountant)


@lru_cache(maxsize=256)
def _optimized(
    n: int, eps: Fraction, small: Fraction, m: int, composition: str, accountant: str
) -> DigitParameters:
    if m == 1:  # nothing to compose
        composition = "basic"
    basic = composition == "basic"
    power = 1.0 if basic else 2.0
    mu = gaussian_mu(float(eps), float(small) / (m if basic else 1))
    candidates: list[DigitParameters] = []
    sketches = _search(n, m, mu, power)
    if composition == "numerical" and sketches:
        # how much less noise than Gaussian losses need: about the same for all domains
        compose = partial(_composed_gammas, n, eps=eps, small=small)
        _, domains, shares = sketches[0]
        gammas, scale = compose(domains, shares, mu)
        mu *= math.exp(scale / 2)
        _, best, shares = _search(n, m, mu, power)[0]
        if best != domains:
            gammas, _ = compose(best, shares, mu)
        candidates.append(_laid_out(best, gammas))
    elif m == 1 and sketches:
        candidates.append(_single(n, eps, small, sketches[0][1][0], accountant))
    else:
        for _, domains, shares in sketches:
            parts = shares if basic else [share**0.5 for share in shares]
            whole = [part / sum(parts) * (1 - 1e-12) for part in parts]
            split = _split_gammas(n, domains, whole, eps, small, composition, accountant)
            candidates.append(_laid_out(domains, *split))
    candidates = [digits for digits in candidates if max(digits.gammas) < 1]
    if not candidates:
        raise InvalidValue(
            "n",
            f"must be larger for {m} messages with epsilon = {float(eps):g} and delta = "
            f"{float(small):.3g}, got {n}",
        )
    return min(candidates, key=lambda digits: digits.mse(n))


def _laid_out(
    domains: tuple[int, ...], gammas: tuple[Fraction, ...], proved: tuple[str, ...] = ()
) -> DigitParameters:
    return DigitParameters(math.prod(domains) - 1, domains, _layout(domains), gammas, proved)


def _single(n: int, eps: Fraction, small: Fraction, k: int, accountant: str) -> DigitParameters:
    """Return the best domain of one digit, from k on while errors fall, in shrinking steps."""

    @cache
    def made(values: int) -> DigitParameters:
        return _laid_out((values,), (response_gamma(eps, small, n, values, accountant=accountant),))

    def error(values: int) -> float:
        return made(values).mse(n) if made(values).gammas[0] < 1 else math.inf

    def ruled_out(values: int) -> bool:
        """Whether no gamma with a smaller error than k values is private, from the largest."""

        def less(gamma: float) -> bool:
            return _laid_out((values,), (Fraction(gamma),)).mse(n) < error(k)

        if not less(LEAST_GAMMA):
            return True
        gamma = bisect(less, LEAST_GAMMA, 1.0, close=1e-9, geometric=True)
        return response_delta(eps, n, values, gamma, accountant=accountant) > small

    step = max(1, k // 4)
    while step:
        others = {max(2, k - step), min(k + step, MAX_VALUES)}
        best = min([k, *itertools.filterfalse(ruled_out, others)], key=error)
        step = step // 2 if best == k else 2 * step
        k = best
    gammas = made(k).gammas
    return _laid_out(
        (k,), gammas, (response_accountant(eps, n, k, gammas[0], accountant=accountant),)
    )


def _composed_gammas(
    n: int,
    domains: tuple[int, ...],
    shares: Sequence[float],
    mu: float,
    *,
    eps: Fraction,
    small: Fraction,
) -> tuple[tuple[Fraction, ...], float]:
    """Return probabilities in about these proportions that suffice by numerical composition."""
    low_eps, target = math.nextafter(float(eps), 0), math.nextafter(float(small), 0)

    def gammas(scale: float) -> tuple[Fraction, ...]:
        whole = mu * math.sqrt(scale)  # each digit's loss has about its fraction of the square
        return tuple(
            grid_up(gaussian_gamma(k, share * whole * whole, n))
            for k, share in zip(domains, shares, strict=True)
        )

    def excess(log_scale: float) -> float:
        digits = zip(domains, gammas(math.exp(log_scale)), strict=True)
        blankets = [ResponseBlanket(n, k, gamma) for k, gamma in digits]
        delta = composed_divergence(low_eps, blankets, delta=target, cells=_CELLS)
        return math.log(max(delta, 1e-300) / target)

    bend = [gaussian_log_delta(low_eps, mu * math.exp(half)) for half in (-0.005, 0.005)]
    scale = last_safe(excess, (bend[1] - bend[0]) / 0.02)
    return gammas(math.exp(scale)), scale


def accounted_digits(
    digits: DigitParameters, n: int, epsilon: Fraction, composition: str
) -> tuple[DigitParameters, float]:
    """Return digits with the accountants that prove a delta, and that delta, rounded up."""
    pairs = list(zip(digits.domains, digits.gammas, strict=True))
    # A digit whose answers all are random reveals nothing, and needs no part of epsilon.
    telling = [(k, gamma) for k, gamma in pairs if gamma < 1]
    deviations = [math.sqrt(2 * k / (float(gamma) * n)) * float(1 - gamma) for k, gamma in telling]
    if composition == "numerical" and len(telling) > 1:
        mu = max(math.hypot(*deviations), 1e-100)
        low_eps = round_down(epsilon)
        expected = max(math.exp(gaussian_log_delta(low_eps, mu)), MIN_DELTA)
        blankets = [ResponseBlanket(n, k, gamma) for k, gamma in telling]
        delta = composed_divergence(low_eps, blankets, delta=expected, cells=_CELLS)
        return replace(digits, accountants=()), delta
    least = Fraction(MIN_EPSILON)
    rest = epsilon - least * len(telling)
    if rest < 0:
        raise InvalidValue(
            "epsilon",
            f"must be at least {len(telling)}e-6, 1e-6 for each digit, got {float(epsilon):g}",
        )
    # Any split of epsilon is sound. This one has about the same exponent for all digits.
    spread = sum(map(Fraction, deviations))
    parts = iter([least + rest * Fraction(each) / spread for each in deviations])
    deltas, known = [], []
    for k, gamma in pairs:
        part = next(parts) if gamma < 1 else epsilon
        deltas.append(Fraction(response_delta(part, n, k, gamma)))
        known.append(response_accountant(part, n, k, gamma))
    return replace(digits, accountants=tuple(known)), min(1.0, round_up(sum(deltas, Fraction(0))))


def digits_delta(
    epsilon: float | Fraction, n: int, digits: DigitParameters, *, composition: str = "numerical"
) -> float:
    """Return a delta for which all shuffled digits together are (epsilon, delta)-private.

    For both orders of any two values of a user; an upper bound, rounded up. Of a digit by itself it
    is `response_delta`.

    Parameters
    ----------
    epsilon : float
        From 1e-6 to 100.
    n : int
        Number of users who follow the protocol, up to 10^9.
    digits : DigitParameters
        Such as those of `recursive_digits`.
    composition : {"numerical", "basic"}
        Composition of the exact losses, or a sum of deltas for a split of epsilon.

    Notes
    -----
    ValueError if exact losses would take too long; use "basic" then.

    Examples
    --------
    >>> digits = recursive_digits((10, 100), (0.01, 0.05))
    >>> f"{digits_delta(1, 10**5, digits):.1e} {digits_delta(1, 10**6, digits):.1e}"
    '2.7e-06 2.2e-39'
    """
    eps = number("epsilon", epsilon, low=MIN_EPSILON, high=MAX_EPSILON)
    users = integer("n", n, low=1, high=MAX_PROTOCOL_USERS)
    if not isinstance(digits, DigitParameters):
        raise InvalidType("digits", f"must be DigitParameters, got {type(digits).__name__}")
    method = choice("composition", composition, FREE_COMPOSITIONS)
    return accounted_digits(digits, users, eps, method)[1]
