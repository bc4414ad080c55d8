"""A view of a notebook that is live where a front end takes input, else a picture; a kernel has one live view of each kind.

Rules: showing one closes the one before, so that a cell that runs twice leaves no second thread behind.
Not for: what is shown, and what its widgets do.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Final, Protocol

_LOCK: Final = threading.Lock()


class Controls(Protocol):
    """The widgets of a view, and what draws them."""

    box: Any

    def start(self) -> None: ...

    def close(self) -> None: ...


class OneLive(ABC):
    """Displayed as the last expression of a cell. `attended`: does the front end take input?"""

    live: ClassVar[dict[type, OneLive]] = {}  # by kind

    def __init__(self, attended: Callable[[], bool]) -> None:
        self._attended = attended
        self.widget: Controls | None = None

    def __repr__(self) -> str:
        return repr(self.picture())

    @abstractmethod
    def picture(self) -> object:
        """The state now as text, HTML and a figure."""

    @abstractmethod
    def controls(self) -> Controls:
        """New widgets of the live view."""

    def show(self) -> None:
        """Display it here: live where a front end takes input, else as a picture."""
        from IPython.display import display

        if not self._attended():
            display(self.picture())  # type: ignore[no-untyped-call]
            return
        from drlib.ui.console.show.front_end import display_controls

        with _LOCK:
            before = self.live.pop(type(self), None)
        if before is not None:
            before.close()
        with _LOCK:
            self.live[type(self)] = self
        self.widget = self.controls()
        self.widget.start()
        display_controls(self.widget.box)

    def _ipython_display_(self) -> None:
        self.show()

    def close(self) -> None:
        """End its threads; what it shows continues. Safe to repeat."""
        if self.widget is not None:
            self.widget.close()
        with _LOCK:
            if self.live.get(type(self)) is self:
                del self.live[type(self)]
