"""Opens the live view of an incident: live in a notebook that takes input, else as a picture.

Rules: a kernel has one live view; opening another closes it, so that a cell that runs twice leaves no second thread behind.
Only public files are read: the public journal and the observations.
Not for: the incident's calls (`drlib.training.incidents.session`).
"""

import threading
from collections.abc import Callable
from typing import Final

from drlib import clock
from drlib.errors import UsageError
from drlib.training.incidents.live.form import Known, Make, known_of
from drlib.training.incidents.live.picture import LivePicture
from drlib.training.incidents.live.state import LiveState, live_state
from drlib.training.incidents.record import IncidentRecord
from drlib.ui.console.board import attended_kernel

_LOCK: Final = threading.Lock()
_open: "list[LiveView]" = []


class LiveView:
    """The view of the incident in `record`, displayed as the last expression of a cell; `make` carries out a move.

    `estimates`: a move that changes something needs an estimate, as in a team.
    """

    def __init__(
        self,
        record: IncidentRecord,
        make: Make,
        variable: str = "incident",
        *,
        estimates: bool = False,
        attended: Callable[[], bool] = attended_kernel,
    ) -> None:
        if not variable.isidentifier():
            raise UsageError(
                f"variable {variable}", "Python has no such names", 'Name it as the notebook does: "incident".'
            )
        self._record, self._make, self._variable = record, make, variable
        self._attended, self._estimates = attended, estimates
        self.widget: object | None = None

    def __repr__(self) -> str:
        return repr(self.picture())

    def state(self) -> LiveState:
        """The state now. Raises `UsageError` where there is no incident, `JournalTampered`."""
        observations = self._record.observations()
        return live_state(self._record.lines(), clock.now_ms(), observations[-1].at_ms if observations else None)

    def known(self) -> Known:
        """Names of topics, groups and applications."""
        return known_of(self._record.observations())

    def picture(self) -> LivePicture:
        """The state now as text, HTML and a figure."""
        return LivePicture(self.state())

    def _ipython_display_(self) -> None:
        """Display it here: live where a front end takes input, else as a picture."""
        from IPython.display import display

        if not self._attended():
            display(self.picture())  # type: ignore[no-untyped-call]
            return
        from drlib.training.incidents.live.widget import LiveWidget
        from drlib.ui.console.show.front_end import display_controls

        _alone(self)
        widget = LiveWidget(self.state, self.known, self._make, self._variable, estimates=self._estimates)
        self.widget = widget
        widget.start()
        display_controls(widget.box)

    def close(self) -> None:
        """End its threads; the incident continues. Safe to repeat."""
        if self.widget is not None:
            from drlib.training.incidents.live.widget import LiveWidget

            assert isinstance(self.widget, LiveWidget)
            self.widget.close()
        with _LOCK:
            _open[:] = [view for view in _open if view is not self]


def _alone(view: LiveView) -> None:
    """Close every other view of this kernel, and the earlier widget of `view`."""
    with _LOCK:
        others = list(_open)
    for other in others:
        other.close()
    with _LOCK:
        _open.append(view)
