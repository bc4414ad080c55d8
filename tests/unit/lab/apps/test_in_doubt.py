"""Where an application looks for records in doubt after a move."""

from __future__ import annotations

import pytest

from drlib.client.pointer import Pointer
from drlib.lab.apps.in_doubt import mirror_of

RIGHT = Pointer(2, "RIGHT", "127.0.0.1:1")


@pytest.mark.parametrize(
    ("pointer", "topic"),
    [
        (Pointer(2, "RIGHT", "127.0.0.1:1", "LEFT.", {"LEFT.flights": (3,)}), "LEFT.flights"),
        (Pointer(2, "RIGHT", "127.0.0.1:1", None, {"flights": (3,)}), "flights"),
        (Pointer(2, "RIGHT", "127.0.0.1:1", None, {"orders": (3,)}), None),
        (RIGHT, None),
    ],
)
def test_mirror_of_is_the_remote_topic_or_the_topic_that_kept_its_name(pointer: Pointer, topic: str | None) -> None:
    assert mirror_of(pointer, "flights") == topic
