"""The consumer protocol's bytes: what is encoded is decoded, and garbage is a `DrlibError`."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drlib.errors import DrlibError
from drlib.mirror.engine.fencing import assignment

TOPICS = st.text(alphabet="abcXYZ019._-", min_size=1, max_size=249)
PARTITIONS = st.lists(st.integers(0, 2**31 - 1), unique=True, max_size=50)


@given(TOPICS, PARTITIONS)
def test_decode_returns_encoded_partitions(topic: str, partitions: list[int]) -> None:
    expected = {topic: tuple(partitions)} if partitions else {}
    assert assignment.decode(assignment.encode(topic, partitions)) == expected


def test_encode_bytes_are_those_of_kafka() -> None:
    assert assignment.encode("ab", [1, 258]) == bytes.fromhex(
        "0000 00000001 0002 6162 00000002 00000001 00000102 ffffffff"
    )
    assert assignment.encode("ab", []) == bytes.fromhex("0000 00000000 ffffffff")
    assert assignment.subscription("ab") == bytes.fromhex("0000 00000001 0002 6162 ffffffff")


def test_members_that_mirror_something_else_are_named_to_each() -> None:
    members = {
        "a-1": assignment.subscription("j", b"same"),
        "b-2": assignment.subscription("j", b"other"),
        "c-3": assignment.subscription("j", b"same"),
        "old": assignment.subscription("j"),
        "garbage": b"\x00\x00\x7f\xff\xff\xff\x00",
    }
    others = assignment.differing(members)
    assert others == {"a-1": ("b-2",), "b-2": ("a-1", "c-3"), "c-3": ("b-2",), "old": (), "garbage": ()}
    for partitions in ([], [3, 4]):
        found = assignment.encode("j", partitions, others["b-2"])
        assert assignment.decode_differing(found) == ("a-1", "c-3")
        assert assignment.decode(found) == ({"j": (3, 4)} if partitions else {})
    assert assignment.decode_differing(assignment.encode("j", [1])) == ()


def test_members_say_which_worker_they_are_and_differ_by_what_they_mirror_alone() -> None:
    """A group that has a worker of an earlier version, too, is of metadata without it."""
    digest, other = b"d" * assignment.DIGEST_BYTES, b"o" * assignment.DIGEST_BYTES
    members = {
        "a-1": assignment.subscription("j", digest, b"worker a"),
        "b-2": assignment.subscription("j", digest, b"worker b"),
        "c-3": assignment.subscription("j", other, b"worker c"),
        "old": assignment.subscription("j", digest),
        "garbage": b"\x00\x00\x7f\xff\xff\xff\x00",
    }
    named = {"a-1": b"worker a", "b-2": b"worker b", "c-3": b"worker c", "old": b"", "garbage": b""}
    assert assignment.workers(members) == named
    assert assignment.differing(members)["a-1"] == assignment.differing(members)["old"] == ("c-3",)


@given(st.binary(max_size=200))
def test_members_of_any_bytes_give_no_exception(data: bytes) -> None:
    assignment.differing({"a": data, "b": assignment.subscription("j", b"x")})
    assignment.workers({"a": data})
    assignment.decode_differing(data)


def test_decode_several_topics() -> None:
    one, two = assignment.encode("one", [3]), assignment.encode("two", [4, 5])
    both = struct.pack(">hi", 0, 2) + one[6:-4] + two[6:]
    assert assignment.decode(both) == {"one": (3,), "two": (4, 5)}


def test_decode_empty_bytes_assign_nothing() -> None:
    assert assignment.decode(b"") == {}


@given(TOPICS, PARTITIONS.filter(bool), st.data())
def test_decode_truncated_bytes_are_refused(topic: str, partitions: list[int], data: st.DataObject) -> None:
    whole = assignment.encode(topic, partitions)[:-4]  # user data is not read
    cut = data.draw(st.integers(1, len(whole) - 1))
    with pytest.raises(DrlibError, match="no consumer assignment"):
        assignment.decode(whole[:cut])


@pytest.mark.parametrize(
    "garbage",
    [
        struct.pack(">hih", 0, 1, -2) + bytes(20),
        struct.pack(">hih", 0, 1, 1) + b"a" + struct.pack(">i", -1),
        struct.pack(">hih", 0, 1, 1) + b"a" + struct.pack(">i", 2**31 - 1),
        struct.pack(">hih", 0, 1, 1) + b"\xff" + struct.pack(">i", 0),
        struct.pack(">hi", 0, -3),
    ],
    ids=["negative name", "negative count", "endless count", "no UTF-8", "negative topics"],
)
def test_decode_impossible_lengths_are_refused(garbage: bytes) -> None:
    with pytest.raises(DrlibError, match="no consumer assignment"):
        assignment.decode(garbage)


@given(st.binary(max_size=60))
def test_decode_any_bytes_are_an_assignment_or_a_drlib_error(data: bytes) -> None:
    try:
        found = assignment.decode(data)
    except DrlibError:
        return
    assert all(isinstance(partition, int) for partitions in found.values() for partition in partitions)
