"""What every transport must do with every domain: the same tests on each of `cases.CASES`.

Results are compared exactly where the same draws are made, and within the noise where they are not.
"""

from __future__ import annotations

import copy
import dataclasses
import pickle
import re
from collections.abc import Callable, Iterator
from functools import partial
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from statistical import FALSE_ALARM, uniform_p_value
from transports.cases import (
    CASES,
    CONTEXT,
    KINDS,
    LEAST,
    WAYS,
    Case,
    N,
    by_parties,
    released,
    reports_of,
    same,
    sent,
    verify,
)

from ikos import SecureSum, SecureVectorSum
from ikos.data import reading
from ikos.data.reading import Participation
from ikos.primitives import sharing
from ikos.primitives.concurrency import Interrupted
from ikos.sums.base import CONTEXT_BYTES
from ikos.testing import DeterministicRandom
from ikos.transports import Shuffled, masks, shares


def each_with(chosen: Callable[[Case], bool]) -> pytest.MarkDecorator:
    """Run a test on the cases for which a condition holds."""
    cases = [
        pytest.param(case, id=name, marks=[] if case.quick else pytest.mark.slow)
        for name, case in CASES.items()
        if chosen(case)
    ]
    return pytest.mark.parametrize("case", cases)


each = each_with(lambda case: True)
pytestmark = pytest.mark.points(4)


@pytest.fixture
def small(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make users come in blocks of two, and coordinates of vectors too."""
    monkeypatch.setattr(masks, "COEFFICIENTS_PER_PASS", 1 << 12)
    if case.slow:
        return  # of keys there are 2,048 coordinates
    for module in (sharing, reading, shares):
        monkeypatch.setattr(module, "USERS_PER_SOURCE", 2)
    for name in ("COLUMNS_PER_PASS", "ENTRIES_PER_PASS"):
        monkeypatch.setattr(reading, name, 2)
    for name in ("ENTRIES_PER_SOURCE", "ENTRIES_PER_BUNCH"):
        monkeypatch.setattr(reading, name, 4)


def cut(x: NDArray[Any]) -> Iterator[Any]:
    """Yield blocks of values of other lengths than any that are worked on, one of them a list."""
    yield from (x[:0], x[:3], x[3:4].tolist(), x[4:])


# One sum


@each
def test_run_steps_and_parties_have_the_same_sum(case: Case) -> None:
    """Run and steps draw the same; reports of single users their own."""
    protocol, x = case.protocol, case.values
    result = protocol.run(x, DeterministicRandom(1))
    share = protocol.randomize if case.private else protocol.share
    for order in ("sorted", "permuted"):
        rng = DeterministicRandom(1)
        context = rng.bytes(CONTEXT_BYTES) if protocol.transport.bound else b""
        everything = share(x, rng, context=context)
        view = protocol.shuffle(everything, rng, order=order, context=context)
        assert same(protocol.analyze(view, context=context), result)
        with pytest.raises(ValueError, match=r"^order must be one of"):
            protocol.shuffle(everything, order="as sent", context=context)
    case.check(result)
    case.check(by_parties(protocol, reports_of(protocol, x)))


@each
@pytest.mark.usefixtures("small")
def test_no_sum_depends_on_threads_or_on_how_values_come(case: Case, tmp_path: Path) -> None:
    protocol, x = case.protocol, case.values
    forms = [lambda: x, lambda: cut(x), x.tolist, lambda: np.asfortranarray(x)]
    if x.dtype != object:
        np.save(tmp_path / "x.npy", x)
        forms.append(lambda: np.load(tmp_path / "x.npy", mmap_mode="r"))
    expected = protocol.run(x, DeterministicRandom(2), threads=1)
    case.check(expected)
    for form in forms[: 2 if case.slow else None]:
        for threads in (1, 2)[case.slow :]:
            assert same(protocol.run(form(), DeterministicRandom(2), threads=threads), expected)


@each
def test_types_of_whole_values_do_not_matter(case: Case) -> None:
    protocol, x = case.protocol, case.values
    expected = protocol.run(x, DeterministicRandom(3))
    machine = (np.int8, np.uint8, np.int64, np.uint64, *[np.float32] * case.private)
    for kind in (object, *([] if x.dtype == object else machine)):
        with np.errstate(all="ignore"):
            given = x.astype(kind)
        if (given == x).all():
            assert same(protocol.run(given, DeterministicRandom(3)), expected)
            assert (given == x).all()


@each
def test_an_interrupted_run_releases_nothing(case: Case) -> None:
    def interrupt(done: int, of: int) -> None:
        raise KeyboardInterrupt

    seen: list[tuple[int, int]] = []
    case.protocol.run(case.values, progress=lambda *step: seen.append(step))
    assert [done for done, _ in seen] == sorted({done for done, _ in seen})
    assert seen[-1][0] == seen[-1][1]
    with pytest.raises(Interrupted) as caught:
        case.protocol.run(case.values, progress=interrupt)
    assert caught.value.partial is None


# Reports that parties have, and lack


@each
def test_only_reports_that_all_parties_have_are_counted(case: Case) -> None:
    """Users 3 and 4 each lack a part, of any party; a part that comes twice counts once."""
    protocol = case.protocol
    reports = reports_of(protocol, case.values)
    for lacking in {0, 1, protocol.transport.parties}:
        parties = protocol.parties(CONTEXT)
        sent(parties, [reports[2], *reports[:3]])
        sent([one for one in parties if one.number != lacking], [reports[3]])
        sent([one for one in parties if one.number == lacking], [reports[4]])
        case.check(parties[0].analyze(released(parties)[:]), users=3)


@each
def test_a_party_releases_one_set_once(case: Case) -> None:
    """Whoever asks again gets the same answer; another set is refused, and another choice."""
    parties = case.protocol.parties(CONTEXT)
    sent(parties, reports_of(case.protocol, case.values))
    analyzer, *others = parties
    verify(parties)
    held = [one.ids for one in others]
    ids = sorted(analyzer.ids)
    for party in parties:
        for bad in (ids[:1] * LEAST, [*ids[:-1], bytes(16)], ids[: LEAST - 1]):
            with pytest.raises(ValueError, match=r"^ids must "):
                party.release(bad)
    with pytest.raises(ValueError, match=r"^released must be of a set that was chosen"):
        analyzer.analyze([])
    with pytest.raises(ValueError, match=r"^ids must be those of \d+ other parties"):
        analyzer.choose(*held, held[0])
    chosen = analyzer.choose(*held)
    with pytest.raises(ValueError, match=r"^ids must not be chosen twice"):
        analyzer.choose(*(one - {chosen[0]} for one in held))
    with pytest.raises(TypeError, match=r"^released must hold releases of parties"):
        analyzer.analyze([np.zeros(3)])
    answers = [one.release(chosen) for one in others]
    for party, answer in zip(others, answers, strict=True):
        assert party.release(reversed(chosen)) is answer
        with pytest.raises(ValueError, match=r"^ids must be the set that was already released"):
            party.release(chosen[1:])
        with pytest.raises(ValueError, match=r"^id must come before this party's only release"):
            party.receive(bytes(16), ())
    result = analyzer.analyze(answers)
    case.check(result)
    assert same(analyzer.analyze(answers), result)
    for wrong in (answers[1:], [answers[0], *answers], answers[:1] * len(answers)):
        if [one.number for one in wrong] != [one.number for one in answers]:
            with pytest.raises(ValueError, match=r"^released must hold one release of each of \d"):
                analyzer.analyze(wrong)
    assert same(analyzer.analyze(answers[::-1]), result)


@each
def test_what_parties_released_of_another_set_is_refused(case: Case) -> None:
    parties = case.protocol.parties(CONTEXT)
    sent(parties, reports_of(case.protocol, case.values))
    analyzer, *others = parties
    verify(parties)
    chosen = analyzer.choose(*(one.ids for one in others))
    for other, wrong in product((chosen[1:], chosen[:-1]), range(1, len(others) + 1)):
        twins = [copy.deepcopy(one) for one in others]
        answers = [one.release(other if i < wrong else chosen) for i, one in enumerate(twins)]
        with pytest.raises(ValueError, match=r"^released must be of the set that was chosen"):
            analyzer.analyze(answers)
        forged = [dataclasses.replace(one, ids=chosen) for one in answers]
        with pytest.raises(ValueError, match=r"^(view|released) must hold "):
            analyzer.analyze(forged)


@each
def test_what_parties_released_of_another_set_of_the_same_size_is_refused(case: Case) -> None:
    """It would open to a random sum, or to that of other users."""
    parties = case.protocol.parties(CONTEXT)
    reports = reports_of(case.protocol, case.values)
    sent(parties[:1], reports[:4])
    sent(parties[1:], reports)
    analyzer, *others = parties
    verify(parties)
    analyzer.choose(*(one.ids for one in others))
    if analyzer.transport.verified:  # the last report has no receipt
        for one in others:
            with pytest.raises(ValueError, match=r"^ids must be those of different reports that "):
                one.release(report.ids[0] for report in reports[1:])
        return
    answers = [one.release(report.ids[0] for report in reports[1:]) for one in others]
    with pytest.raises(ValueError, match=r"^released must be of the set that was chosen"):
        analyzer.analyze(answers)


def order_of(transport: Any, rows: NDArray[Any] | None = None) -> int:
    """Return the order of the group of shares: of keys, where there are any, and of these rows."""
    keys, coordinates = (getattr(transport, name, None) for name in ("keys", "coordinates"))
    if coordinates is not None and rows is not None and rows.dtype != object:
        return int(coordinates.q)
    return int((keys or transport).q)


@each
def test_forged_parts_are_refused(case: Case) -> None:
    """Of another length, shape, type or range, of two users, or under another report's id."""
    protocol = case.protocol
    report, other = reports_of(protocol, case.values[:2])
    for party in protocol.parties(CONTEXT):
        part = report.parts[party.number]
        party.receive(report.ids[0], part)
        forged = [(*part, np.zeros((1, 1), np.uint32))]
        for place, rows in enumerate(part):
            others = [rows[..., 1:], rows[0], np.zeros_like(rows, np.int32)]
            others += [np.concatenate([rows, rows]), rows[:0]]  # two users', and no user's
            q = order_of(protocol.transport, rows)
            if rows.dtype != np.uint8 and q != 2**64:  # of which all words are elements
                others.append(np.where(rows >= 0, type(rows.flat[0])(q), rows).astype(rows.dtype))
            forged += [(*part[:place], one, *part[place + 1 :]) for one in others]
            forged.append((*part[:place], *part[place + 1 :]))
        for bad in forged:
            with pytest.raises(ValueError, match=r"^part must "):
                party.receive(other.ids[0], bad)
        if part:
            with pytest.raises(ValueError, match=r"^id must not be reused for a different report"):
                party.receive(report.ids[0], other.parts[party.number])
        assert party.ids == {report.ids[0]}


@each
def test_too_few_and_too_many_users_are_refused(case: Case) -> None:
    protocol, x = case.protocol, case.values
    share = protocol.randomize if case.private else protocol.share
    for users in (0, LEAST - 1, N + 1):
        some = np.concatenate([x, x])[:users]
        for form in (some, some.tolist(), iter([some[:1], some[1:]])):
            with pytest.raises(
                ValueError, match=rf"^x must (have|hold) .*, got (at least |shape \()?{users}"
            ):
                protocol.run(form)
        with pytest.raises(ValueError, match=r"^x must (have|hold) "):
            protocol.analyze(protocol.shuffle(share(some, context=CONTEXT), context=CONTEXT))
    case.check(protocol.run(x[:LEAST]), LEAST)
    careless = not (case.private or case.slow or protocol.transport.verified)
    if careless:  # shares and a view that only careless parties make
        few = case.make(min_honest=1).share(x[: LEAST - 1], context=CONTEXT)
        with pytest.raises(ValueError, match=r"^shares must hold "):
            protocol.shuffle(few, context=CONTEXT)
        users = Participation(N, 1)
        view = protocol.transport.shuffle(few, DeterministicRandom(0), "sorted", users)
        with pytest.raises(ValueError, match=r"^view must hold "):
            protocol.analyze(view, context=CONTEXT)
    parties = protocol.parties(CONTEXT)
    sent(parties, reports_of(protocol, x[: LEAST - 1]))
    with pytest.raises(ValueError, match=r"^ids must hold "):
        released(parties)
    sent(parties, reports_of(protocol, [*x, *x])[LEAST - 1 :])
    with pytest.raises(ValueError, match=r"^ids must hold "):
        released(parties)


@each
def test_a_bad_value_is_named_wherever_it_is(case: Case) -> None:
    """And not shown."""
    protocol, x = case.protocol, case.values
    share = protocol.randomize if case.private else protocol.share
    bad = x.astype(object)
    exact = not case.private or protocol.encoding.exact
    for wrong in (-123_456_789, *[1.23] * exact):
        bad[3] = wrong
        for call in (protocol.run, partial(share, context=CONTEXT)):
            for form in (bad, bad.tolist(), iter([bad[:2], bad[2:].tolist()])):
                with pytest.raises(
                    (TypeError, ValueError), match=r"^x\[(3|:(, 0)+\]\[3|3(, 0)+)\] must "
                ) as caught:
                    call(form)
                assert "123" not in str(caught.value)
    with pytest.raises((TypeError, ValueError), match=r"^x\["):
        protocol.report(bad[3], context=CONTEXT)
    for form in (x[..., np.newaxis], x.astype(str), np.ma.masked_array(x, True), None):
        with pytest.raises((TypeError, ValueError), match=r"^x(\[.*\])? must"):
            protocol.run(form)


# What parts tell


@each
def test_every_part_is_uniform_whatever_the_value(case: Case) -> None:
    """Those of a value of which every user holds the same, each party's alone: 1e-9 a test."""
    protocol = case.protocol
    alone = case.way in ("alone", "mask")
    users = 2 if case.slow else 400
    for value in case.values[:2]:
        reports = [protocol.report(value, DeterministicRandom(i), context=CONTEXT)
                   for i in range(users)]  # fmt: skip
        for number, parts in enumerate(zip(*(report.parts for report in reports), strict=True)):
            if alone and number:
                continue  # a single shuffler without clear shares has all of a user's
            # proofs are uniform subject to their equations: tests/verified
            proved = protocol.transport.verified and not number
            for rows in list(map(np.concatenate, zip(*parts, strict=True)))[proved:]:
                q = order_of(protocol.transport, rows)
                octets, drawn = rows.dtype == np.uint8, [int(v) for v in rows.flat]
                cells = 256 if octets else min(q, 32)
                top = drawn if octets else [v * cells // q for v in drawn]
                assert uniform_p_value(top, cells) > FALSE_ALARM
                assert octets or uniform_p_value([v % cells for v in drawn], cells) > (
                    FALSE_ALARM if q % cells == 0 or q > 2**50 else -1
                )


def columns(released: Any) -> list[Any]:
    """Return the arrays of shares that a party released."""
    if isinstance(released, np.ndarray):
        return [] if released.dtype == np.uint8 else [released.tolist()]
    return [column for one in released for column in columns(one)]


@each_with(lambda case: WAYS[case.way].mixes)
def test_released_shares_do_not_tell_whose_they_are(case: Case) -> None:
    """The same parts under each other's ids: the same columns in the same order."""
    reports = reports_of(case.protocol, case.values)
    renamed = [
        dataclasses.replace(one, ids=other.ids)
        for one, other in zip(reports, reports[::-1], strict=True)
    ]
    answers = []
    for some in (reports, renamed):
        parties = case.protocol.parties(CONTEXT)
        sent(parties, some)
        answers.append([columns(answer.messages) for answer in released(parties)])
    assert answers[0] == answers[1]


@each_with(lambda case: case.kind in ("residues", "large", "columns", "words") or case.slow)
def test_no_two_parts_have_draws_in_common(case: Case) -> None:
    """Of one report, of two of the same value, and of all users at once, in a large group."""
    protocol, x = case.protocol, case.values
    share = protocol.randomize if case.private else protocol.share
    q = order_of(protocol.transport)
    one, other = (protocol.report(x[0], context=CONTEXT) for _ in range(2))
    assert one.ids != other.ids
    everybody = share(np.array([x[0]] * N), context=CONTEXT)
    drawn: list[Any] = []
    for parts in (one.parts, other.parts, getattr(everybody, "parts", (everybody,))):
        for rows in (rows for part in parts for rows in part):
            if rows.dtype == np.uint8 or q < 2**50:  # seals, and keys of 2,048 coordinates
                drawn += [row.tobytes() for row in rows.reshape(-1, rows.shape[-1])]
            else:
                drawn += rows.ravel().tolist()
    assert len(set(drawn)) == len(drawn)


@each
def test_randomness_is_secure_by_default(case: Case) -> None:
    protocol, x = case.protocol, case.values
    share = protocol.randomize if case.private else protocol.share
    sharing = (partial(share, x, context=CONTEXT), partial(protocol.report, x[0], context=CONTEXT))
    for call in (partial(protocol.run, x), *sharing):
        for rng in (np.random.default_rng(0), 7, "seed"):
            with pytest.raises(TypeError, match=r"^rng must be None"):
                call(rng)


# Parameters


@each
def test_sums_are_values_and_travel(case: Case) -> None:
    protocol, again = case.protocol, case.make()
    assert protocol == again == pickle.loads(pickle.dumps(protocol)) == copy.deepcopy(protocol)
    assert hash(protocol) == hash(again)
    assert protocol.parameter_hash == again.parameter_hash
    assert protocol != case.make(min_honest=N)
    for name in ("reader", "transport"):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(protocol, name, None)
    reports = pickle.loads(pickle.dumps(reports_of(protocol, case.values)))
    case.check(by_parties(pickle.loads(pickle.dumps(protocol)), reports))


@pytest.mark.slow
def test_no_two_sums_have_the_same_parameters() -> None:
    hashes = {name: case.protocol.parameter_hash for name, case in CASES.items() if case.quick}
    adaptive = Shuffled(clear_share=False, corrupt_shufflers=1, messages=4, layout=2)
    hashes["unclear-reals-1"] = CASES["unclear-reals"].make(transport=adaptive).parameter_hash
    for (one, first), (other, second) in combinations(hashes.items(), 2):
        assert first != second, (one, other)


@each
def test_what_is_sent_is_bound_to_a_context_or_says_that_it_is_not(case: Case) -> None:
    protocol, x = case.protocol, case.values
    reports = reports_of(protocol, x)
    expected = by_parties(protocol, reports)
    if protocol.transport.verified:  # none of them is valid
        with pytest.raises(ValueError, match=r"^ids must hold .*, got 0"):
            by_parties(protocol, reports, b"another sum")
    else:
        other = by_parties(protocol, reports, b"another sum")
        assert same(other, expected) != protocol.transport.bound
    for call in (protocol.parties, lambda c: protocol.report(x[0], context=c)):
        with pytest.raises(TypeError, match=r"^context must be bytes, got 'a name'"):
            call("a name")
        if protocol.transport.bound:
            with pytest.raises(ValueError, match=r"^context must be a name that no other sum"):
                call(b"")


@each
def test_costs_are_those_of_the_parts(case: Case) -> None:
    protocol = case.protocol
    (report,) = reports_of(protocol, case.values[:1])
    bits = 0
    for part in report.parts:
        for rows in part:
            octets, q = rows.dtype == np.uint8, order_of(protocol.transport, rows)
            bits += rows.size * (8 if octets else (q - 1).bit_length())
    cost = protocol.cost()
    assert len(report.parts) == protocol.transport.parties + 1
    assert (cost.bits_per_user, cost.users) == (bits, N)
    assert cost.messages == N * cost.messages_per_user
    assert protocol.cost(LEAST).users == LEAST


@each
def test_what_is_printed_names_the_parties_and_no_value(case: Case) -> None:
    protocol = case.protocol
    name = type(protocol).__name__
    assert repr(protocol).startswith(f"<{name} n={N}, ")
    assert str(protocol).startswith(f"{name} of {N} users, ")
    for text in (repr(protocol), str(protocol)):
        assert protocol.transport.description in text
        assert str(protocol.cost()) in text
    parties = protocol.parties(CONTEXT)
    (report,) = reports_of(protocol, case.values[:1])
    sent(parties, [report])
    for text in (repr(report), *map(repr, parties)):
        assert not re.search(r"\d{5}", re.sub(r"0x[0-9a-f]+", "", text))
    assert repr(report) == f"<Reports: 1, with parts for {len(parties)} parties>"


# Recipes


def test_what_a_transport_does_not_add_up_is_refused() -> None:
    for way in WAYS.values():
        if not way.numbers:
            with pytest.raises(ValueError, match=r"^transport must not be 'masks' for numbers"):
                SecureSum(N, upper=9, transport=way.recipe)
        if way.moduli == "none":
            with pytest.raises(TypeError, match=r"^upper must be given"):
                SecureVectorSum(N, 3, 2**20, transport=way.recipe)
        if not way.secure:
            with pytest.raises(ValueError, match=r"^noise must be 'users' for a secure sum"):
                SecureSum(N, upper=9, transport=way.recipe)
        elif way.moduli == "powers":
            for q, words in ((2**61 - 1, r"a power of two"), (2**65, r"at most 2\^64")):
                with pytest.raises(ValueError, match=rf"^q must be {words} with helpers"):
                    SecureSum(N, q, transport=way.recipe)


def test_recipes_are_given_or_named_and_not_both() -> None:
    make = KINDS["vectors"].make
    arguments: dict[str, Any] = {"n": N, **KINDS["vectors"].arguments}
    recipe = WAYS["parallel"].recipe
    assert make(**arguments, transport=recipe) == make(**arguments, messages=4)
    assert make(**arguments, transport="shares", messages=4) == make(**arguments, messages=4)
    with pytest.raises(ValueError, match=r"^transport must not be a recipe beside options"):
        make(**arguments, transport=recipe, messages=4)
    with pytest.raises(ValueError, match=r"^transport must be one of"):
        make(**arguments, transport="pigeons")
    for wrong in (3, type(recipe)):
        with pytest.raises(TypeError, match=r"^transport must be a recipe or its name, got "):
            make(**arguments, transport=wrong)
