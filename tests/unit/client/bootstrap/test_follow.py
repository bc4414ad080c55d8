"""A thread that hands each new look on, and lives on whatever its source does."""

from __future__ import annotations

import queue
import threading

from drlib.client.bootstrap.follow import Follower, Look
from drlib.client.pointer import Pointer


class Source:
    """Says what the test puts into `says`; an exception is raised."""

    def __init__(self) -> None:
        self.says: Pointer | Exception | None = None
        self.closed = threading.Event()

    def current(self) -> Pointer | None:
        if isinstance(self.says, Exception):
            raise self.says
        return self.says

    def doubt(self) -> str:
        return ""

    def settled(self) -> bool:
        return True

    def wait_newer(self, version: int, timeout_s: float) -> Pointer | None:
        self.closed.wait(0.01)
        return None

    def close(self) -> None:
        self.closed.set()


def test_follower_hands_on_what_differs_and_lives_on_after_any_error() -> None:
    source, looks = Source(), queue.Queue[Look]()
    follower = Follower(source, looks.put)
    assert looks.get(timeout=20) == Look(None, "", settled=True)
    source.says = RuntimeError("a defect")
    assert looks.get(timeout=20).doubt == "RuntimeError: a defect"
    source.says = Pointer(3, "paris", "p:1")
    assert looks.get(timeout=20).pointer == Pointer(3, "paris", "p:1")
    source.says = Pointer(4, "lyon", "l:1")
    assert looks.get(timeout=20).pointer == Pointer(4, "lyon", "l:1")
    follower.close()
    assert source.closed.is_set()
    assert looks.empty(), "the same look was handed on twice"
