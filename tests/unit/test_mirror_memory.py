"""Bytes count as long as anybody can still look at them."""

from __future__ import annotations

from drlib.mirror.memory import Memory


def test_a_hold_counts_until_the_last_reference_goes() -> None:
    memory = Memory(100)
    one = memory.hold(60)
    other = one
    assert memory.room()
    two = memory.hold(60)
    assert not memory.room()
    del one
    assert memory.held == 120
    del other
    assert memory.held == 60
    assert memory.room()
    two.resize(10)
    assert memory.held == 10
    two.resize(30)
    assert memory.held == 30


def test_who_waits_is_told_once_there_is_room() -> None:
    memory = Memory(100)
    told: list[str] = []
    first, second = memory.hold(90), memory.hold(90)

    def tell() -> None:
        told.append("room")

    memory.when_freed(tell)
    memory.when_freed(tell)
    del first
    assert told == ["room"]
    del second
    assert told == ["room"]
