"""The description of a task: one text for each, and no task that is not what it says."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime, timedelta
from fractions import Fraction

import pytest

pytest.importorskip("starlette")

from deployment_tasks import KEY, made_of, small_task

from ikos import Ball, Categories, PrivateSum
from ikos.counts import private_proved
from ikos.data.domains import Bounds
from ikos.deployment import Task
from ikos.deployment.opening import KEMS
from ikos.deployment.shares import SharesTerms
from ikos.deployment.wire import Result, decoded, encoded
from ikos.results.conditions import Kind

NOW = datetime(2030, 1, 1, tzinfo=UTC)


def new(**changed):
    options = {
        "shufflers": [f"https://s{j}.example:8443" for j in range(6)],
        "analyzer": "https://a.example",
        "public_keys": [KEY.public_bytes],
        "opens": NOW,
        "closes": NOW + timedelta(hours=1),
    }
    return Task.new(1000, 1, 1e-3, **{**options, **changed})


@pytest.mark.slow
def test_the_numbers_are_those_of_the_private_sum():
    task = new()
    needed = SharesTerms.private_sum(1000, Bounds(0, 1), 1, 1e-3)
    assert (task.precision, task.modulus) == (needed.precision, needed.modulus)
    assert task.columns == 6 >= needed.messages.total - 1
    assert task.protocol.guarantee.delta <= 1e-3
    assert task.protocol.guarantee.epsilon == 1
    assert task.parameters == task.protocol.parameter_hash
    assert 2 ** (8 * task.width) >= task.modulus


@pytest.mark.slow
def test_a_draft_says_how_many_shufflers_are_needed():
    """It has no key, so that nothing can be sent to it; a task with a key has all addresses."""
    draft = Task.new(1000, 1, 1e-3)
    assert draft.columns == SharesTerms.private_sum(1000, Bounds(0, 1), 1, 1e-3).messages.total - 1
    assert draft.public_keys == (bytes(1216),)
    assert len(Task.new(1000, 1, 1e-3, windows=5, kem="x25519").public_keys) == 5
    assert draft.closes - draft.opens == timedelta(days=1)
    assert all(address.endswith(".invalid") for address in (draft.analyzer, *draft.shufflers))
    for missing in ({"analyzer": None}, {"shufflers": None}):
        with pytest.raises(ValueError, match="must be given with public_keys"):
            new(**missing)
    with pytest.raises(ValueError, match="closes must be in the future"):
        new(opens=datetime(2020, 1, 1, tzinfo=UTC), closes=timedelta(hours=1))


BLOCKS = {"domain": Categories([12]), "min_honest": 9000, "opens": NOW}


@pytest.mark.slow
@pytest.mark.parametrize("count", [6, 7, 10, 30])
def test_blocks_are_the_fewest_that_the_shufflers_prove(count):
    shufflers = [f"https://s{j}.example" for j in range(count)]
    task = Task.new(10**4, 1, 1e-9, layout="blocks", shufflers=shufflers, **BLOCKS)
    assert task.columns == count
    number = len(task.blocks)
    assert -(-12 // number) == task.transport.block_length
    if number > 1:
        with pytest.raises(ValueError, match="shufflers must be at least"):
            Task.new(10**4, 1, 1e-9, layout=-(-12 // (number - 1)), shufflers=shufflers, **BLOCKS)


@pytest.mark.slow
@pytest.mark.parametrize("kem", KEMS)
def test_a_draft_has_the_blocks_of_the_fewest_bytes(kem):
    def sent(layout):
        task = Task.new(10**4, 1, 1e-9, layout=layout, kem=kem, **BLOCKS)
        return sum(map(task.part_bytes, range(task.parties)))

    assert sent("blocks") == min(map(sent, range(1, 13)))


def test_numbers_are_blocks_of_one():
    for layout in (None, "separate", "group", "blocks", 1):
        assert new(layout=layout).transport.block_length == 1
    for layout in (2, 0, "one group"):
        with pytest.raises(ValueError, match="layout must be"):
            new(layout=layout)


@pytest.mark.slow
def test_the_summary_is_what_the_task_says():
    task = new(min_honest=900, corrupt_clients=50)
    data = task.summary().as_dict()
    assert (data["task"], data["users"], data["min_reports"]) == (task.name, 1000, 950)
    assert (data["epsilon"], data["requested_delta"]) == (1.0, 1e-3)
    assert data["delta"] == task.protocol.guarantee.delta <= 1e-3
    assert {row["name"]: row["value"] for row in data["rows"]}["modulus"] == str(task.modulus)
    assert str(task.summary()) == task.explain()


def test_too_few_shufflers_are_refused_with_the_number_that_is_needed():
    needed = SharesTerms.private_sum(1000, Bounds(0, 1), 1, 1e-3).messages.total - 1
    with pytest.raises(ValueError, match=f"at least {needed} addresses .* got 1$"):
        new(shufflers=["https://s.example"])


@pytest.mark.slow
def test_a_task_is_read_as_it_was_written():
    task = new(lower=-0.1, upper=math.pi, min_honest=900, corrupt_shufflers=1)
    again = Task.from_json(task.to_json() + "\n")
    assert again == task
    assert again.id == task.id
    assert again.to_json() == task.to_json()
    assert decoded(task.name, 32, "name") == task.id
    assert len(task.name) == 43


CHANGES = {
    "users": 1001, "min_honest": 999, "epsilon": "2", "delta": "1/100",
    "domain": {"kind": "number", "lower": (-1.0).hex(), "upper": (2.0).hex()},
    "integers": True, "corrupt_clients": 7, "corrupt_shufflers": 1,
    "precision": 3,
    "modulus": str(2**40), "analyzer": "https://b.example",
    "public_keys": [encoded(bytes(1216))], "kem": "x25519", "opens": "2029-12-31T23:00:00Z",
    "period": 7200, "windows": 2, "labels": ["x"], "nonce": encoded(bytes(16)),
    "shufflers": [f"https://t{j}.example" for j in range(6)], "parameters": "0" * 64,
    "noise": ["laplace", "1/2"],
    "transport": {"kind": "shares", "messages": 8, "block_length": 1},
}  # fmt: skip


@pytest.mark.parametrize("part", CHANGES)
def test_every_part_is_in_the_hash_or_refused(part):
    """Where a changed part still makes a task, it is another one."""
    task = new(min_honest=900)
    values = json.loads(task.to_json())
    assert set(values) == set(CHANGES) | {"version"}
    values[part] = CHANGES[part]
    text = json.dumps(values, sort_keys=True, separators=(",", ":"))
    try:
        other = Task.from_json(text)
    except ValueError:
        # whatever the protocol computes is bound by the parameters
        assert part not in {
            "analyzer", "public_keys", "opens", "period", "windows", "nonce", "shufflers",
            "corrupt_clients", "labels",
        }  # fmt: skip
    else:
        assert other.id != task.id


# A description with everything computed anew, so that all of it fits together


PROOF = (
    "min_honest", "modulus", "corrupt_shufflers", "epsilon", "delta", "precision",
)  # fmt: skip
TASKS = {
    "numbers": Task.new(2000, 1, 1e-8, min_honest=1900, opens=NOW),
    "collusion": Task.new(2000, 1, 1e-8, min_honest=1900, corrupt_shufflers=2, opens=NOW),
    "categories": Task.new(2000, 1, 1e-8, domain=Categories([3]), min_honest=1900, opens=NOW),
    "ball": Task.new(2000, 1, 1e-8, domain=Ball(40), min_honest=1900, layout=8, opens=NOW),
}
WEAKER = [
    lambda task: {"messages": task.columns},
    lambda task: {"messages": task.columns - 1},
    lambda task: {"messages": 2},
    lambda task: {"corrupt_shufflers": task.corrupt_shufflers + 1},
    lambda task: {"corrupt_shufflers": task.columns - 1},
    lambda task: {"modulus": task.modulus**4},
]


@pytest.mark.points(12)
@pytest.mark.parametrize("weaker", WEAKER)
@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
def test_a_description_that_proves_less_than_it_says_is_refused(task, weaker):
    """Though all of its parts fit together; one as it was made is read."""
    assert Task.from_json(made_of(task)[0]).parameters == task.parameters
    text, guarantee = made_of(task, **weaker(task))
    assert not guarantee.proved or guarantee.delta > Fraction(json.loads(text)["delta"])
    with pytest.raises(ValueError, match=r"delta must be at least the .* prove"):
        Task.from_json(text)


OTHERS = [
    {"min_honest": 1500}, {"min_honest": 1950}, {"precision": 10}, {"epsilon": Fraction(2)},
    {"epsilon": Fraction(1, 4)}, {"modulus": 2**20}, {"modulus": 2**30},
    {"delta": Fraction(1, 10)}, {"delta": Fraction(1, 10**9)}, {"delta": Fraction(1, 10**18)},
    {"users": 2500},
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", ["numbers", "collusion"])
def test_what_is_read_proves_what_it_says(name):
    """By the counts' own proof, without the clear share and with the analyzer among the corrupt."""
    task, read = TASKS[name], 0
    for changed in OTHERS:
        text, guarantee = made_of(task, **changed)
        parts = {name: changed.get(name, getattr(task, name)) for name in PROOF}
        parts["messages"] = task.transport.messages
        hiding = parts.pop("messages") - 1 - parts.pop("corrupt_shufflers")
        order = parts.pop("min_honest"), parts.pop("modulus"), hiding, parts.pop("epsilon")
        proved = private_proved(*order, **parts, clear_share=False)
        assert proved.delta == guarantee.delta
        if proved.delta > parts["delta"]:
            with pytest.raises(ValueError, match=r"delta must be at least the .* prove"):
                Task.from_json(text)
            continue
        read += 1
        rate = Fraction(proved.noise_epsilon) / parts["precision"]
        assert Task.from_json(text).noise == ("laplace", rate)
        for other in (2 * rate, rate / 2):
            values = {**json.loads(text), "noise": ["laplace", str(other)]}
            with pytest.raises(ValueError, match="parameters and noise"):
                Task.from_json(json.dumps(values, sort_keys=True, separators=(",", ":")))
    assert 0 < read < len(OTHERS)


@pytest.mark.parametrize(
    "text",
    [
        "", "[]", "{}", "null", "1e999", '{"version":"ikos-parties-1"}', "\x00", "{" * 10_000,
        '{"version":"ikos-parties-3"}', "x" * (1 << 17), "[" * 60_000,
    ],
)  # fmt: skip
def test_other_texts_are_no_tasks(text):
    with pytest.raises(ValueError, match="task"):
        Task.from_json(text)


WRONG = [
    ("users", "6"), ("users", 6.0), ("users", True), ("users", 0), ("users", None),
    ("epsilon", 1), ("epsilon", "1/0"), ("epsilon", "nan"), ("epsilon", "1e999999999"),
    ("delta", "1e-999999999"), ("epsilon", "1_0"), ("epsilon", "9" * 60_000), ("epsilon", "1.0"),
    ("precision", None), ("precision", True), ("min_honest", None),
    ("delta", "-1"), ("delta", "2"),
    *(
        ("domain", {"kind": "number", "lower": "0x0p+0", "upper": "0x1p+0", **wrong})
        for wrong in (
            {"lower": 0}, {"lower": "inf"}, {"lower": "0x1p+9999"}, {"upper": "nan"}, {"x": 1},
            {"kind": "line"}, {"kind": []}, {"upper": None}, {"upper": [1]},
        )
    ),
    ("domain", []), ("domain", {}), ("domain", {"kind": "box", "dimension": 0}), ("integers", 1),
    ("domain", {"kind": "categories", "sizes": 3}), ("labels", ["a", "b"]), ("labels", "a"),
    ("labels", [""]), ("labels", [1]), ("labels", ["\x1b[2J"]), ("labels", ["a\nb"]),
    ("labels", ["\u202ea"]),
    *(
        ("transport", {"kind": "shares", "messages": 7, "block_length": 1, **wrong})
        for wrong in (
            {"block_length": 0}, {"block_length": 2}, {"block_length": True}, {"messages": None},
            {"block_length": "separate"}, {"messages": 1}, {"messages": 10**9}, {"kind": "masks"},
            {"kind": "helpers"}, {"kind": None}, {"degree": 2048},
        )
    ),
    ("transport", "shares"), ("transport", None), ("transport", {}),
    ("noise", ["skellam", "1"]), ("noise", ["gauss", "1"]), ("noise", "1"),
    ("period", 0), ("period", 1 << 60),
    ("period", "60"), ("windows", 0), ("windows", 10_001), ("windows", True),
    ("corrupt_clients", -1), ("corrupt_clients", 1), ("corrupt_clients", True),
    ("corrupt_clients", "0"),
    ("precision", 1 << 60), ("modulus", 4096), ("modulus", "1"),
    ("shufflers", "https://s.example"), ("shufflers", []),
    ("shufflers", ["https://a.example"] * 5), ("shufflers", [1, 2, 3, 4, 5]),
    ("analyzer", 1), ("analyzer", "http://a.example"), ("analyzer", "https://u:p@a.example"),
    ("analyzer", "https://a.example/x"), ("analyzer", "https://a.example?x"),
    ("analyzer", "https://"), ("analyzer", "https://a.example:99999"), ("analyzer", "ftp://a"),
    ("analyzer", "https://s1.example:8443"), ("public_keys", ["A"]),
    ("public_keys", None), ("public_keys", []),
    ("nonce", encoded(bytes(15))), ("opens", "2030-01-01"), ("opens", 5),
]  # fmt: skip


@pytest.mark.parametrize(("part", "value"), WRONG)
def test_wrong_parts_are_refused_in_one_line(part, value):
    values = json.loads(new().to_json())
    values[part] = value
    with pytest.raises(ValueError, match=r"[aeiou]") as caught:
        Task.from_json(json.dumps(values, sort_keys=True, separators=(",", ":")))
    assert "\n" not in str(caught.value)
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_values_of_a_task_have_no_shape():
    """Results of tasks are lists of numbers."""
    wanted = r"domain must be of scalars or vectors in a task, got shape \(10, 4\)"
    with pytest.raises(ValueError, match=wanted):
        Task.new(2000, 1, 1e-8, domain=Ball(40, shape=(10, 4)), opens=NOW)
    text = TASKS["ball"].to_json()
    for shape, message in ("[10,4]", wanted), ("[40]", "byte for byte"):
        with pytest.raises(ValueError, match=message):
            Task.from_json(text.replace('"radius"', f'"shape":{shape},"radius"'))


def test_another_form_of_the_same_task_is_refused():
    """There is one text, hence one hash, for each task."""
    text = new().to_json()
    with pytest.raises(ValueError, match="byte for byte"):
        Task.from_json(json.dumps(json.loads(text), indent=1))
    with pytest.raises(ValueError, match=r"its parts|byte for byte"):
        Task.from_json(text.replace('"users":1000', '"users":1000,"users":1000'))


def test_a_library_that_computes_other_parameters_refuses(monkeypatch):
    text = small_task().to_json()
    monkeypatch.setattr(PrivateSum, "parameter_hash", "0" * 64)
    with pytest.raises(ValueError, match="the same version"):
        Task.from_json(text)


@pytest.mark.parametrize(
    "address",
    [
        "https://a.example", "https://A.Example:65535", "https://a_b-c.example:1/",
        "https://192.0.2.7:8443", "https://[2001:db8::7]:8443", "http://[::1]:1", "https://host:1",
        "https://xn--bcher-kva.example",
    ],
)  # fmt: skip
def test_addresses_that_can_be(address):
    assert new(analyzer=address).analyzer == address.removesuffix("/")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("http://localhost:22104", "http://127.0.0.1:22104"),
        ("http://localhost:22104", "https://[::1]:22104"),
        ("https://a.example", "https://A.example:443"),
        ("https://a.example:8443", "https://a.example:08443"),
        ("https://[2001:db8::7]:1", "https://[2001:db8:0::7]:1"),
    ],
)
def test_two_parties_at_one_place(one, other):
    spare = [f"https://s{j}.example" for j in range(4)]
    with pytest.raises(ValueError, match=r"got one place for analyzer and shufflers\[4\]: '"):
        new(analyzer=one, shufflers=[*spare, other])
    with pytest.raises(ValueError, match=r"got one place for shufflers\[0\] and shufflers\[4\]"):
        new(shufflers=[one, *spare[:3], other], analyzer="https://b.example")


@pytest.mark.parametrize(
    "text", ["", "A", "AAA=", "AAAA", "AB", "A*", "AA\n", "AA==", None, 3, "é"]
)
def test_base64url_has_one_form(text):
    """One byte: AA is 0; AB would have a bit beside it."""
    with pytest.raises(ValueError, match="must be 1 bytes in base64url") as caught:
        decoded(text, 1, "it")
    assert "got" not in str(caught.value)
    assert decoded("AA", 1, "it") == b"\0"


def test_the_guarantee_rests_on_encryption_besides():
    """In the description, and in whatever is released, as in any other list of what it needs."""
    task = new()
    plain = PrivateSum(1000, 1, 1e-3, messages=7).guarantee
    conditions = list(task.protocol.guarantee.conditions)
    (last,) = (one for one in conditions if one.kind is Kind.CRYPTOGRAPHY)
    conditions.remove(last)
    assert conditions == list(plain.conditions)
    assert last.text.startswith(
        "the encryption of the envelopes holds (HPKE with ML-KEM-768 and X25"
    )
    assert last.text in " ".join(task.explain().split())
    run = task.protocol.run([0.5] * 1000)
    assert last.text in Result.of(run).conditions
    assert last.text in Result.of(run).text


@pytest.mark.parametrize(
    "address",
    [
        "https://a.example:0", "https://a.example:65536", "https://a.example:", "https://a b:1",
        "https://a..b:1", "https://.a:1", "https://a.:1", "https://ä.example:1",
        "https://256.1.1.1:1", "https://127.1:1", "https://127.0x1:1", "https://0x7f000001:1",
        "https://[fe80::1%25eth0]:1", "HTTPS://a.example:1", "http://a.example:1",
        "http://0.0.0.0:1", "http://localhost.example:1", "https://u:p@a.example", "ftp://a",
        "https://a.example:1 ", "https://a.example: ", "https://a.example ", "http://[::1]:1 ",
        "http://localhost:1 ", "https://@a.example:1", "https://:@a.example:1", "https://a!b:1",
        "https://-a:1", "https://a-.b:1", "https://*.b:1", "https://a&amp;b:1",
        f"https://{'a' * 64}.b:1", f"https://{'a.' * 127}b:1",
    ],
)  # fmt: skip
def test_addresses_that_cannot_be(address):
    with pytest.raises(ValueError, match=r"^analyzer must ") as caught:
        new(analyzer=address)
    assert "got 'http" in str(caught.value).lower() or address == "ftp://a"


def test_options_of_other_sums_are_refused():
    with pytest.raises(TypeError, match="reserve is not an option"):
        Task.new(2000, 1, 1e-8, min_honest=1900, reserve=0.5)
