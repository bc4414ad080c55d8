"""Opens the live view of an incident: live in a notebook that takes input, else as a picture.

Rules: only public files are read: the public journal and the observations. A kernel has one live view (`one_live`).
Not for: the incident's calls (`drlib.training.incidents.session`).
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from drlib import clock
from drlib.errors import UsageError
from drlib.training.incidents.live.form import Known, Make, known_of
from drlib.training.incidents.live.picture import LivePicture
from drlib.training.incidents.live.state import LiveState, live_state
from drlib.training.incidents.record import IncidentRecord
from drlib.ui.console.board import attended_kernel
from drlib.ui.console.one_live import OneLive

if TYPE_CHECKING:
    from drlib.training.incidents.live.widget import LiveWidget


class LiveView(OneLive):
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
        self._estimates = estimates
        super().__init__(attended)

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

    def controls(self) -> "LiveWidget":
        from drlib.training.incidents.live.widget import LiveWidget

        return LiveWidget(self.state, self.known, self._make, self._variable, estimates=self._estimates)
