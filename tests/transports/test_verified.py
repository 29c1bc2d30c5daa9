"""Verified sums: every lie is refused by name, or stops the sum, and the rest is exact."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from io import BytesIO
from typing import Any

import gmpy2
import numpy as np
import pytest
from transports.cases import sent, verify

from ikos import (
    Ball,
    Box,
    Categories,
    PrivateSum,
    PrivateVectorSum,
    SecureSum,
    SecureVectorSum,
)
from ikos.accounting.uniform_noise import composed_delta
from ikos.counts.hockey_stick import any_noise
from ikos.counts.share_graph import share_graph
from ikos.counts.types import Trust
from ikos.data.domains import Bounds
from ikos.data.reading import Participation
from ikos.data.sensitivity import Shift
from ikos.noise.uniform_noise import UniformNoise
from ikos.testing import DeterministicRandom
from ikos.transports import Helpers, Reports, Shuffled, Verified, VerifiedShuffled
from ikos.transports.base import Need, Totals
from ikos.transports.verified import NONCES, ORDER, Valid, opening_of, scalars
from ikos.transports.verified_shuffled import _Hiding
from ikos.verified import certificate
from ikos.verified.proofs import Proofs
from ikos.verified.statements import bounded

N, UPPER, CONTEXT = 6, 9, b"one sum"
FEW = VerifiedShuffled(Shuffled(clear_share=False, messages=4))

Lie = Callable[[Any, Reports], Reports]


def sum_of(recipe: Any, **options: Any) -> SecureSum:
    return SecureSum(N, upper=UPPER, min_honest=2, transport=recipe, **options)


def outcome(
    protocol: Any, reports: Sequence[Reports], meddle: Any = None
) -> tuple[Any, set[bytes]]:
    """Return the result of all parties, and the ids of the reports that any of them refused."""
    parties = protocol.parties(CONTEXT)
    sent(parties, reports)
    verify(parties)
    analyzer, *others = parties
    chosen = analyzer.choose(*(party.ids for party in others))
    answers = [party.release(chosen) for party in others]
    if meddle is not None:
        answers = meddle(answers)
    result = analyzer.analyze(answers)
    assert set(analyzer.totals.refused) == set(analyzer.refused)
    return result, set().union(*(party.refused for party in parties))


def honest(protocol: Any, values: Sequence[int], seed: int = 1) -> list[Reports]:
    rng = DeterministicRandom(seed)
    return [protocol.report(value, rng, context=CONTEXT) for value in values]


def made(protocol: Any, value: int, witness: int) -> Reports:
    """Return a liar's report of a value outside, with the proof of another that is valid."""

    class Lying(Proofs):
        def prove(self, values: Any, *rest: Any) -> bytes:
            return super().prove([witness], *rest)

    transport = protocol.transport

    class Liar(type(transport)):  # type: ignore[misc]
        def proofs(self, context: bytes) -> Proofs:
            return Lying(self.valid.statement, context)

    names = ("users", "valid", "layout", "assumptions")
    more = ("keys", "coordinates") if hasattr(transport, "keys") else ()
    liar = Liar(*(getattr(transport, name) for name in names),
                **{name: getattr(transport, name) for name in more})  # fmt: skip
    elements = np.array([value % ORDER], dtype=object)
    return liar._reports(elements, DeterministicRandom(99), protocol.context(CONTEXT))


def edited(report: Reports, party: int, place: int, edit: Callable[[Any], Any]) -> Reports:
    """Return a report with one array of one part changed."""
    parts = [list(part) for part in report.parts]
    parts[party][place] = edit(parts[party][place].copy())
    return Reports(report.ids, tuple(map(tuple, parts)))


def flipped(at: int) -> Callable[[Any], Any]:
    def edit(rows: Any) -> Any:
        rows[0, at] ^= 1
        return rows

    return edit


def added(amount: int, at: int = 0) -> Callable[[Any], Any]:
    """Return a change of an opening."""

    def edit(rows: Any) -> Any:
        opening = opening_of(rows[0])
        opening[at] = (opening[at] + amount) % ORDER
        return scalars(np.array([opening], dtype=object))

    return edit


both = pytest.mark.parametrize("recipe", [Verified(2), FEW], ids=["added", "shuffled"])


@both
@pytest.mark.parametrize("value", [UPPER + 1, 10**6, -1, -5, ORDER // 2])
def test_values_outside_are_refused_by_name(recipe: Any, value: int) -> None:
    protocol = sum_of(recipe)
    liar = made(protocol, value, min(max(value, 0), UPPER))
    result, refused = outcome(protocol, [*honest(protocol, [3, 9, 0]), liar])
    assert (result, refused) == (12, {liar.ids[0]})


@both
def test_a_proof_for_another_value_id_sum_or_task_is_refused(recipe: Any) -> None:
    protocol = sum_of(recipe)
    linked = made(protocol, 4, 5)
    copied = replace(honest(protocol, [7], 2)[0], ids=(bytes(16),))
    window = protocol.report(7, DeterministicRandom(3), context=b"another sum")
    task = SecureSum(N, upper=UPPER, min_honest=3, transport=recipe).report(
        7, DeterministicRandom(4), context=CONTEXT
    )
    lies = [linked, copied, window, task]
    result, refused = outcome(protocol, [*honest(protocol, [3, 9]), *lies])
    assert (result, refused) == (12, {lie.ids[0] for lie in lies})


@both
def test_each_flipped_byte_of_a_report_is_refused(recipe: Any) -> None:
    protocol = SecureSum(400, upper=UPPER, min_honest=1, transport=recipe)
    size = sum(protocol.transport.public_bytes)
    reports = honest(protocol, [1] * (size // 5 + 2))
    bad = [edited(one, 0, 0, flipped(5 * i)) for i, one in enumerate(reports[2:])]
    result, refused = outcome(protocol, [*reports[:2], *bad])
    assert (result, refused) == (2, {one.ids[0] for one in bad})


def test_openings_that_do_not_fit_are_refused_by_their_party() -> None:
    protocol = sum_of(Verified(2))
    for party in range(3):
        for at in (0, 1):
            liar = edited(honest(protocol, [5], 7)[0], party, -1, added(1, at))
            parties = protocol.parties(CONTEXT)
            sent(parties, [*honest(protocol, [3, 9]), liar])
            verify(parties)
            refusing = {one.number for one in parties if liar.ids[0] in one.refused}
            # without the analyzer's receipt, relays refuse it too
            assert refusing == (set(range(3)) if party == 0 else {party})
        result, refused = outcome(protocol, [*honest(protocol, [3, 9]), liar])
        assert (result, refused) == (12, {liar.ids[0]})


def test_consistent_openings_of_another_value_are_refused() -> None:
    """One more at a relay and in its commitment: the product no longer fits the proof."""
    protocol = sum_of(Verified(1))
    report = honest(protocol, [5], 7)[0]
    liar = edited(report, 1, 0, added(1))
    *values, blinding = opening_of(liar.parts[1][0][0])
    commitment = Proofs(bounded(UPPER), b"").commit(values, blinding)

    def recommitted(rows: Any) -> Any:
        rows[0, 33:66] = np.frombuffer(commitment, np.uint8)
        return rows

    liar = edited(liar, 0, 0, recommitted)
    result, refused = outcome(protocol, [*honest(protocol, [3, 9]), liar])
    assert (result, refused) == (12, {liar.ids[0]})


@pytest.mark.parametrize("party", [1, 2])
@pytest.mark.parametrize("at", [0, 1])
def test_a_relay_that_shifts_its_sum_is_named(party: int, at: int) -> None:
    protocol = sum_of(Verified(2))

    def meddle(answers: Any) -> Any:
        messages = list(answers[party - 1].messages)
        messages[at] = (messages[at] + 1) % ORDER
        answers[party - 1] = replace(answers[party - 1], messages=messages)
        return answers

    with pytest.raises(ValueError, match=rf"^view must hold sums .*; that of relay {party} is "):
        outcome(protocol, honest(protocol, [3, 9, 1]), meddle)


def test_shares_that_do_not_add_up_stop_a_shuffled_sum() -> None:
    protocol = sum_of(FEW)
    liar = edited(honest(protocol, [5], 7)[0], 2, 0, lambda rows: (rows + 1) % ORDER)
    with pytest.raises(ValueError, match=r"^view must hold the shares of its reports: some were "):
        outcome(protocol, [*honest(protocol, [3, 9]), liar])

    def repeated(answers: Any) -> Any:
        ((column,),) = answers[1].messages
        answers[1] = replace(answers[1], messages=((column[[0, 0, *range(2, len(column))]],),))
        return answers

    with pytest.raises(ValueError, match=r"^view must hold the shares of its reports: some were "):
        outcome(protocol, honest(protocol, [3, 9, 4]), repeated)


def test_altered_shares_of_coordinates_stop_a_shuffled_sum() -> None:
    protocol = SecureVectorSum(N, 2, upper=UPPER, min_honest=2, transport=FEW)
    reports = honest(protocol, [[1, 2], [3, 4], [0, 9]])  # type: ignore[list-item]
    q = protocol.transport.coordinates.q
    liar = edited(reports[2], 1, 1, lambda rows: (rows + np.array([[1, 0]], rows.dtype)) % q)
    with pytest.raises(ValueError, match=r"^view must hold the shares of its reports: some were "):
        outcome(protocol, [*reports[:2], liar])
    result, refused = outcome(protocol, reports)
    assert (result.tolist(), refused) == ([4, 15], set())


@both
def test_a_set_is_chosen_of_verified_reports_alone(recipe: Any) -> None:
    protocol = sum_of(recipe)
    parties = protocol.parties(CONTEXT)
    sent(parties, honest(protocol, [3, 9]))
    analyzer, *others = parties
    unverified = r"^ids must be of reports that were verified"
    with pytest.raises(ValueError, match=unverified):
        analyzer.choose(*(party.ids for party in others))
    with pytest.raises(ValueError, match=unverified):
        others[0].release(others[0].ids)
    verify(parties)
    sent(parties, honest(protocol, [1], 8))  # one more, that is not yet verified
    with pytest.raises(ValueError, match=unverified):
        analyzer.choose(*(party.ids for party in others))
    verify(parties)
    chosen = analyzer.choose(*(party.ids for party in others))
    assert analyzer.analyze([party.release(chosen) for party in others]) == 13


def test_parameters_that_no_verified_sum_has_are_refused() -> None:
    for bad, match in (
        ({"q": 2**20}, r"^upper must be given"),
        ({"q": 2**20, "upper": 9}, r"^q must not be given with verified sums, got 1048576"),
        ({"upper": 2**62}, r"^n times the largest value must be below 2\^62"),
        ({"upper": 9, "messages": 4}, r"^transport must not be 'verified' with options"),
    ):
        with pytest.raises((TypeError, ValueError), match=match):
            SecureSum(N, transport="verified", **bad)
    with pytest.raises(ValueError, match=r"^n times the largest value must be at most 2\^50"):
        SecureSum(N, upper=2**50, transport="verified-shuffled")
    with pytest.raises(ValueError, match=r"^relays must be at least 1, got 0|^relays must be "):
        Verified(0)
    with pytest.raises(TypeError, match=r"^shares must be Shuffled, got 'single'"):
        VerifiedShuffled("single")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"^dimension must be"):
        SecureVectorSum(N, 501, upper=1, transport="verified")


def test_the_reach_is_the_greatest_distance_of_two_valid_values() -> None:
    assert Valid(1, 9).reach == 9
    assert Valid(4, 3).reach == 6
    steps, width = 5, 3
    values = [np.array(z) + steps * np.eye(3, dtype=int)[i]
              for z in np.ndindex(width, width, width) for i in range(3)]  # fmt: skip
    most = max(np.linalg.norm(x - y) for x in values for y in values)
    assert Valid(3, steps + width - 1, (steps, width)).reach == pytest.approx(most)


@pytest.mark.parametrize("recipe", [Verified(2), VerifiedShuffled()])
def test_guarantees_name_all_that_privacy_rests_on(recipe: Any) -> None:
    conditions = sum_of(recipe).guarantee.conditions
    assert [one.text for one in conditions if "SHA-512" in one.text] == [NONCES.text]
    assert not any("logarithm" in one.text for one in conditions)


@both
def test_a_report_that_is_sent_again_and_well_is_not_refused(recipe: Any) -> None:
    protocol = sum_of(recipe)
    parties, reports = protocol.parties(CONTEXT), honest(protocol, [3, 9])
    sent(parties, [reports[0], edited(reports[1], 0, 0, flipped(-1))])
    verify(parties)
    assert parties[0].refused == {reports[1].ids[0]}
    sent(parties, reports)
    verify(parties)
    analyzer, *others = parties
    chosen = analyzer.choose(*(party.ids for party in others))
    assert analyzer.analyze([party.release(chosen) for party in others]) == 12
    assert analyzer.totals.refused == ()


@both
def test_a_report_counts_once(recipe: Any) -> None:
    protocol, rng = sum_of(recipe), DeterministicRandom(6)
    reports = protocol.share([3, 9, 0], rng, context=CONTEXT)
    view = protocol.shuffle(reports, rng, context=CONTEXT)
    for ids in ((reports.ids[0],) * 3, reports.ids[:2]):
        with pytest.raises(ValueError, match=r"^shares must have an id of its own for each"):
            protocol.shuffle(replace(reports, ids=ids), rng, context=CONTEXT)
        with pytest.raises(ValueError, match=r"^view must hold an id of its own for each report"):
            protocol.analyze(replace(view, ids=ids), context=CONTEXT)


@both
@pytest.mark.parametrize(
    "make",
    [
        lambda recipe: PrivateSum(N, 60, 0.4, upper=4, min_honest=3, transport=recipe),
        lambda recipe: PrivateVectorSum(
            N, Categories([3]), 90, 0.4, min_honest=3, transport=recipe
        ),
    ],
    ids=["numbers", "classes"],
)
def test_a_run_has_a_certificate_that_anyone_can_check(recipe: Any, make: Any) -> None:
    protocol = make(recipe)
    x = np.eye(3)[[0, 2, 2, 1]] if protocol.dimension > 1 else [0, 4, 2, 1]
    result = protocol.run(x, DeterministicRandom(5))
    lines = list(result.certificate.lines())
    checked = certificate.verify(BytesIO(b"".join(lines)))
    assert (checked.users, checked.parameters) == (4, protocol.parameters)
    assert checked.estimates == pytest.approx(np.ravel(result.estimate))
    assert lines == list(result.certificate.lines())  # again
    (lines[2], lines[3]) = (lines[3], lines[2])
    with pytest.raises(ValueError, match=r"^line 4: the id must be greater"):
        certificate.verify(BytesIO(b"".join(lines)))


@both
def test_exact_sums_and_parties_have_certificates_too(recipe: Any) -> None:
    protocol = sum_of(recipe)
    parties = protocol.parties(CONTEXT)
    sent(parties, honest(protocol, [3, 9, 0]))
    verify(parties)
    analyzer, *others = parties
    chosen = analyzer.choose(*(party.ids for party in others))
    assert analyzer.analyze([party.release(chosen) for party in others]) == 12
    file = b"".join(protocol.certificate(analyzer.totals).lines())
    checked = certificate.verify(BytesIO(file))
    assert (checked.sums, checked.window, checked.estimates) == ((12,), CONTEXT, None)
    assert sum_of(Helpers()).certificate(Totals([1], 2)) is None


def test_what_is_proved_of_private_values() -> None:
    numbers = PrivateSum(100, 1, 1e-4, transport="verified")
    steps, width = numbers.precision, numbers.noise.width
    assert numbers.transport.valid == Valid(1, steps + width - 1)
    assert numbers.influence == (steps + width - 1) / steps
    classes = PrivateVectorSum(100, Categories([3]), 1, 1e-4, transport="verified")
    steps, width = classes.precision, classes.noise.width
    assert classes.transport.valid == Valid(3, steps + width - 1, (steps, width))
    for domain in (Ball(3), Categories([2, 3])):
        with pytest.raises(ValueError, match=r"^domain must be numbers, a Box or Categories of on"):
            PrivateVectorSum(100, domain, 1, 1e-4, transport="verified")


@pytest.mark.parametrize(
    ("users", "delta", "private", "secure"),
    [(100, 1e-4, 50, 65), (10**4, 1e-8, 25, 34), (10**5, 1e-8, 20, 27), (10**6, 1e-8, 17, 23)],
)
def test_shuffled_messages_of_a_set_that_the_analyzer_chooses(
    users: int, delta: float, private: int, secure: int
) -> None:
    exact = SecureSum(users, upper=1, transport="verified-shuffled")
    assert exact.messages.total == secure
    noisy = PrivateSum(users, 1, delta, transport="verified-shuffled")
    assert (noisy.messages.total, noisy.messages.clear) == (private, 0)
    assert 0 < noisy.noise.delta < noisy.total_delta <= delta
    clear = Shuffled(messages=exact.messages.total)  # with a clear share, which there is not
    assert VerifiedShuffled.of(clear).shares.clear_share is False


def test_second_moments_of_independent_shares_multiply() -> None:
    users, noise = Participation(10**4, 10**4), UniformNoise(16, 10**4, 1e-8)
    need = Need(
        users, Bounds(0, 1), Fraction(1), Fraction(1, 10**8), Shift(1, 90, 8100, 90), 1, True
    )
    hiding = _Hiding(need, noise, Trust.of(10**4, clear_share=False))
    one, other = gmpy2.mpfr("2e-18"), gmpy2.mpfr("5e-18")
    both_of_them = hiding.delta(one, other)
    assert both_of_them == pytest.approx(hiding.delta(one + other + one * other), rel=1e-12)
    assert hiding.delta(one) < hiding.delta(other) < both_of_them
    assert hiding.delta(one, gmpy2.mpfr("inf")) == 1


@pytest.mark.parametrize("vector", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_hiding_is_charged_to_the_budget(vector: bool) -> None:
    """The theorem's delta, for the relative error that is chosen, in doubles."""
    users, epsilon, delta, times = 10**4, 1.0, 1e-8, 1 + vector
    if vector:
        protocol: Any = PrivateVectorSum(
            users, Box(2), epsilon, delta, precision=9, releases=times,
            transport="verified-shuffled",
        )  # fmt: skip
    else:
        protocol = PrivateSum(users, epsilon, delta, transport="verified-shuffled")
    transport, moved = protocol.transport, 2 * times if vector else 1
    second = 1.0
    for shares, sums in ((transport.keys, 1), (transport.coordinates, 2))[: 1 + vector]:
        graph = share_graph(shares.layout.count.total, "parallel", False)
        second *= 1 + float(any_noise(shares.q, graph, users, sums).excess)
    excess = second - 1

    def proved(c: float) -> float:
        if c == 0:
            hidden = (1 + math.exp(epsilon)) * math.sqrt(excess / 4)
        else:
            root = math.sqrt(excess / 4 / c) + math.sqrt(c * excess / 4)
            hidden = root**2 * (1 + (1 + c) * math.exp(epsilon))
        left = Fraction(epsilon) - Fraction(2 * times * math.log1p(c))
        noise = composed_delta(users, protocol.noise.width, protocol.precision, left, moved)
        return times * (1 + c) ** (2 * times) * hidden + (1 + c) ** times * noise

    candidates = [0.0, *np.geomspace(1e-9, 0.1, 400)]
    best = min(proved(c) for c in candidates)
    assert best * 0.99 < protocol.total_delta <= delta
    allowed = [c for c in candidates if proved(c) <= protocol.total_delta * 1.02]
    assert allowed  # what is claimed is proved by some relative error
    assert transport.sigma <= min(transport.keys.sigma, protocol.transport.keys.sigma)
    if vector:
        lost = 2**-transport.keys.sigma + 2**-transport.coordinates.sigma
        assert transport.sigma == pytest.approx(-math.log2(lost), abs=1e-6)
        assert transport.sigma <= -math.log2(lost)
