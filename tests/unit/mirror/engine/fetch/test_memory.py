"""Reserved bytes count until the last reference to them is dropped."""

from __future__ import annotations

import pytest

from drlib.config.quantities import parse_memory
from drlib.errors import UsageError
from drlib.mirror.engine.fetch.memory import Memory, data_share


def test_reservation_counts_until_its_last_reference_is_dropped() -> None:
    memory = Memory(100)
    one = memory.reserve(60)
    other = one
    assert memory.has_room()
    two = memory.reserve(60)
    assert not memory.has_room()
    del one
    assert memory.reserved == 120
    del other
    assert memory.reserved == 60
    assert memory.has_room()
    two.resize(10)
    assert memory.reserved == 10
    two.resize(30)
    assert memory.reserved == 30


def test_when_freed_calls_each_callback_once() -> None:
    memory = Memory(100)
    calls: list[str] = []
    first, second = memory.reserve(90), memory.reserve(90)

    def tell() -> None:
        calls.append("room")

    memory.when_freed(tell)
    memory.when_freed(tell)
    del first
    assert calls == ["room"]
    del second
    assert calls == ["room"]


def test_reserve_more_outlives_the_first_reservation() -> None:
    memory = Memory(100)
    frame = memory.reserve(60)
    copy = frame.reserve_more(20)
    assert memory.reserved == 80
    del frame
    assert memory.reserved == 20
    del copy
    assert memory.reserved == 0


def test_data_share_subtracts_reserved_and_refuses_too_little() -> None:
    assert data_share(256 << 20) == 128 << 20
    assert data_share(1 << 30) == (1 << 30) - (128 << 20)
    with pytest.raises(UsageError, match="at least 160MiB"):
        data_share(100 << 20)


@pytest.mark.parametrize(
    ("text", "size"),
    [("256MiB", 256 << 20), ("1GiB", 1 << 30), ("300MB", 300_000_000), ("268435456", 256 << 20), ("5M", 5_000_000)],
)
def test_parse_memory_accepts_units(text: str, size: int) -> None:
    assert parse_memory(text) == size


def test_parse_memory_invalid_size_is_named() -> None:
    with pytest.raises(UsageError, match="--memory plenty is not a size"):
        parse_memory("plenty")
