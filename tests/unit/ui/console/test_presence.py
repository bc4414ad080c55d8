"""A console pauses when its notebook is closed, but not for a reload, nor where that is unknown."""

from __future__ import annotations

import pytest

from drlib.ui.console.presence import AWAY_S, LOOK_S, Attention, Presence, connections_here


class Front:
    """A clock, and how many front ends there are; counts how often that is asked."""

    def __init__(self) -> None:
        self.now, self.count, self.asked = 100.0, 1, 0

    def clock(self) -> float:
        return self.now

    def connections(self) -> int | None:
        self.asked += 1
        return self.count


@pytest.fixture
def front() -> Front:
    return Front()


def test_attention_is_away_after_a_while_and_back_on_reconnect(front: Front) -> None:
    attention = Attention(front.connections, front.clock)
    assert not attention.away()
    front.count = 0
    front.now += AWAY_S - 1
    assert not attention.away(), "a page may be reloaded"
    front.now += AWAY_S
    assert attention.away()
    front.count, front.now = 1, front.now + 6
    assert not attention.away()


def test_attention_asks_the_server_seldom(front: Front) -> None:
    attention = Attention(front.connections, front.clock)
    for _ in range(100):
        attention.away()
        front.now += 0.1
    assert front.asked <= 3


def test_attention_with_unknown_connections_is_not_away(front: Front) -> None:
    front.count = None  # type: ignore[assignment]
    attention = Attention(front.connections, front.clock)
    for _ in range(10):
        front.now += AWAY_S
        assert not attention.away()


def test_presence_is_a_connected_page_and_false_when_unknown(front: Front) -> None:
    present = Presence(front.connections, front.clock)
    assert present()
    front.count = 0
    assert present(), "it was asked just now"
    front.now += LOOK_S
    assert not present()
    front.count = None  # type: ignore[assignment]
    front.now += LOOK_S
    assert not present()
    assert front.asked == 3


def test_connections_outside_a_kernel_are_unknown() -> None:
    assert connections_here() is None
