"""Reserved bytes count until the last reference to them is dropped."""

from __future__ import annotations

import pytest

from drlib.config.quantities import parse_memory
from drlib.errors import UsageError
from drlib.mirror.engine.fetch.memory import Memory, data_share


def test_reservation_counts_until_its_last_reference_is_dropped() -> None:
    memory = Memory(100)
    share = memory.share("lane")
    one = share.reserve(60)
    other = one
    assert share.has_room()
    two = share.reserve(60)
    assert not share.has_room()
    del one
    assert memory.reserved == 120
    del other
    assert memory.reserved == 60
    assert share.has_room()
    two.resize(10)
    assert memory.reserved == 10
    two.resize(30)
    assert memory.reserved == 30


def test_when_freed_calls_each_callback_once() -> None:
    memory = Memory(100)
    share = memory.share("lane")
    calls: list[str] = []
    first, second = share.reserve(90), share.reserve(90)

    def tell() -> None:
        calls.append("room")

    share.when_freed(tell)
    share.when_freed(tell)
    del first
    assert calls == ["room"]
    del second
    assert calls == ["room"]


def test_memory_at_its_limit_has_no_room() -> None:
    memory = Memory(100)
    share, other = memory.share("lane 0"), memory.share("lane 1")
    calls: list[str] = []
    one, rest = other.reserve(50), share.reserve(49)
    assert share.has_room()
    share.when_freed(lambda: calls.append("room"))
    rest.resize(49)
    assert calls == []  # nothing was released
    rest.resize(50)
    assert not share.has_room()
    one.resize(51)
    one.resize(50)
    assert calls == []  # that made no room
    one.resize(49)
    assert calls == ["room"]
    assert Memory().limit == 128 << 20


def test_reserve_more_outlives_the_first_reservation() -> None:
    memory = Memory(100)
    share = memory.share("lane")
    frame = share.reserve(60)
    copy = frame.reserve_more(20)
    assert memory.reserved == 80
    del frame
    assert memory.reserved == 20
    del copy
    assert memory.reserved == 0


def test_share_without_bytes_is_called_while_others_fill_the_memory() -> None:
    """A lane whose own records have all left may read on, whatever the other lanes keep."""
    memory = Memory(100)
    other, share = memory.share("other"), memory.share("lane")
    full, own = other.reserve(200), share.reserve(10)
    calls: list[str] = []
    share.when_freed(lambda: calls.append("lane"))
    other.when_freed(lambda: calls.append("other"))
    del own
    assert (calls, share.held, memory.by_owner()) == (["lane"], 0, {"other": 200})
    del full
    assert calls == ["lane", "other"]


def test_share_close_ends_what_is_still_referred_to() -> None:
    memory = Memory(100)
    share = memory.share("lane")
    forgotten = share.reserve(100)
    calls: list[str] = []
    memory.share("other").when_freed(lambda: calls.append("room"))
    share.close(drained=True)
    assert (memory.reserved, memory.leaked, calls) == (0, 100, ["room"])
    forgotten.resize(10)
    late = share.reserve(50)
    del forgotten, late
    share.close(drained=True)
    assert (memory.reserved, memory.leaked, memory.by_owner()) == (0, 100, {})


def test_share_closed_by_a_fault_is_no_leak() -> None:
    memory = Memory(100)
    share = memory.share("lane")
    queued = share.reserve(60)
    share.close()
    assert (memory.reserved, memory.leaked, queued.size) == (0, 0, 60)


def test_memory_in_words_names_the_owner_of_most_bytes() -> None:
    memory = Memory(10 << 10)
    assert memory.in_words() == "this worker keeps 0 of 10 KiB of records"
    kept = [memory.share(owner).reserve(size) for owner, size in (("lane 0", 2048), ("lane 1", 5000), ("lane 2", 1024))]
    assert memory.in_words() == "this worker keeps 7 of 10 KiB of records, most of them, 4 KiB, for lane 1"
    assert len(kept) == 3


def test_data_share_subtracts_reserved_and_refuses_too_little() -> None:
    assert data_share(256 << 20) == 128 << 20
    assert data_share(160 << 20) == 32 << 20
    assert data_share(1 << 30) == (1 << 30) - (128 << 20)
    with pytest.raises(UsageError, match="at least 160MiB"):
        data_share(100 << 20)
    with pytest.raises(UsageError, match=r"of 1 MiB is too little: a worker"):
        data_share(1 << 20)
    with pytest.raises(
        UsageError, match=r"of 1048575 bytes is too little: a number without a unit is bytes, and a worker"
    ):
        data_share((1 << 20) - 1)


@pytest.mark.parametrize(
    ("text", "size"),
    [("256MiB", 256 << 20), ("1GiB", 1 << 30), ("300MB", 300_000_000), ("268435456", 256 << 20), ("5M", 5_000_000)],
)
def test_parse_memory_accepts_units(text: str, size: int) -> None:
    assert parse_memory(text) == size


def test_parse_memory_invalid_size_is_named() -> None:
    with pytest.raises(UsageError, match="--memory plenty is not a size"):
        parse_memory("plenty")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("5", "--memory of 5 bytes is too little: a number without a unit is bytes, and a worker takes 128 MiB"),
        ("64MiB", "--memory of 64 MiB is too little: a worker takes 128 MiB"),
    ],
)
def test_memory_that_is_too_little_says_how_it_was_taken(given: str, said: str) -> None:
    with pytest.raises(UsageError) as refused:
        data_share(parse_memory(given))
    assert str(refused.value).startswith(said)
