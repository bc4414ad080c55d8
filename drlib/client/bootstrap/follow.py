"""Follow a pointer for an event loop: a thread looks at the source, and hands on what is new.

Rules: what cannot be read is a doubt, never an end. Not for: deciding what a pointer means (`rules`), where it is stored.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from drlib.client.pointer import Pointer, PointerSource, looked
from drlib.errors import explain

LOOK_S: Final = 0.2


@dataclass(frozen=True, slots=True)
class Look:
    """`doubt`: why `pointer` may not be the newest, "" without a reason. `settled`: every place was asked that may have one."""

    pointer: Pointer | None
    doubt: str
    settled: bool


class Follower:
    """Calls `on_look`, in a thread of its own, with the first look at `source` and with each that differs; until `close`."""

    def __init__(self, source: PointerSource, on_look: Callable[[Look], None]) -> None:
        self._source = source
        self._on_look = on_look
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="bootstrap-pointer", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Blocks for a few seconds at most."""
        self._ended.set()
        self._thread.join(LOOK_S + 1)
        self._source.close()

    def _follow(self) -> None:
        before: Look | None = None
        while not self._ended.is_set():
            look = self._look()
            if look != before and not self._ended.is_set():
                before = look
                self._on_look(look)
            if look.pointer is None:
                self._ended.wait(LOOK_S)
            else:
                self._source.wait_newer(look.pointer.version, LOOK_S)

    def _look(self) -> Look:
        try:
            return Look(*looked(self._source), self._source.settled())
        except Exception as error:  # whatever it is, the thread lives on: without it a move would never be noticed
            return Look(None, explain(error), settled=True)
