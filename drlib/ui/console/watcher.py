"""Where a console's state comes from: clusters, workers, the lab's processes and links, and the folders of runs.

Rules: clusters are asked on one thread, at most once a second and never by whoever draws; what is on this machine (a
drill's journal, the lab's processes) is looked at when a state is asked for. A cluster whose brokers the lab knows to be
down is not asked and waited for. What could not be asked is said, with the reason; an older answer stays beside it.
A lab is looked up in its folder each time: one that was taken down is said to be gone, and one that was started anew there is
the one looked at. While nobody's page is open, nobody is asked. `close` ends the thread. Nothing here changes anything.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from drlib import clock
from drlib.config.flow_settings import FlowSettings
from drlib.config.settings import MirrorSettings, load_mirror_settings
from drlib.drill.session import find_running as running
from drlib.drill.session.find_running import Place, Run
from drlib.errors import DrlibError, UsageError
from drlib.lab import clocks
from drlib.lab.lab import Lab
from drlib.mirror.monitor.flow_view import FlowView
from drlib.mirror.monitor.observer import FlowObserver
from drlib.mirror.monitor.polling_thread import PollingThread
from drlib.mirror.monitor.survey import Survey
from drlib.mirror.status import worker_status as status
from drlib.ui.console import state as console_state
from drlib.ui.console.presence import Attention, connections_here
from drlib.ui.console.state import KILLED, PAUSED, ClusterSeen, ConsoleState

LOOK_S: Final = 1.0
LONGEST_S: Final = 10.0  # between two rounds, however long one takes
DEFAULT_FILE: Final = "connect-mirror-maker.properties"
_FAULTS: Final = (DrlibError, OSError, TimeoutError)


@dataclass(frozen=True)
class Subject:
    """What is looked at: a lab, or the flows of a file; `flow` ("A->B") narrows it to one."""

    lab: Lab | None
    properties: Path | None
    runs_dir: Path
    flow: str = ""

    @property
    def place(self) -> Place:
        return Place(self.lab.root if self.lab is not None else None, self.properties)


class Watching:
    """Looks at `subject` from `start` to `close`."""

    def __init__(self, subject: Subject, attention: Attention | None = None) -> None:
        self.subject = subject
        self._attention = attention or Attention(connections_here)
        self.resting = False
        self._observer = FlowObserver(groups=True)
        self._views: tuple[FlowView, ...] = ()
        self._surveys: tuple[Survey, ...] = ()
        self._unseen: tuple[str, ...] = ()
        self._looked = threading.Event()
        self._polling = PollingThread(
            self._poll, name="drlib-console-survey", interval_s=LOOK_S, longest_pause_s=LONGEST_S
        )

    def start(self) -> None:
        """Begin to look. Safe to repeat."""
        self._polling.start()

    def close(self, wait_s: float = 5.0) -> None:
        """Stop looking; a look under way ends by itself. Safe to repeat."""
        self._polling.close(wait_s)

    @property
    def closed(self) -> bool:
        return self._polling.closed

    @property
    def looking(self) -> bool:
        return self._polling.alive

    def look(self) -> None:
        """Ask the clusters and the workers. Raises nothing a cluster can cause."""
        unseen: list[str] = []
        chosen: list[tuple[MirrorSettings, FlowSettings]] = []
        try:
            files = self._files()
        except UsageError as error:  # of a lab that is gone no older answer means anything
            self._surveys, self._views, self._unseen = (), (), (str(error),)
            self._looked.set()
            return
        for file in files:
            try:
                settings = load_mirror_settings(file)
            except _FAULTS as error:
                unseen.append(str(error))
                continue
            known = {str(flow.flow) for _, flow in chosen}
            chosen += [
                (settings, flow)
                for flow in settings.flows
                if flow.enabled and str(flow.flow) not in known and self.subject.flow in ("", str(flow.flow))
            ]
        try:
            self._surveys = self._observer.survey_blocking(chosen, self._source_errors())
            self._views = self._observer.views(self._told())
        except _FAULTS as error:
            unseen.append(str(error))
        self._unseen = tuple(unseen)
        self._looked.set()

    def state(self) -> ConsoleState:
        """What is known now; reads this machine's files and asks the lab's link, never a cluster."""
        unseen = list(self._unseen)
        if not self._looked.is_set():
            unseen.append("the clusters are being asked")
        try:
            drill = console_state.drill_of(self.run())
        except _FAULTS as error:
            drill = None
            unseen.append(str(error))
        clusters = self._clusters(unseen)
        return ConsoleState(clock.now_ms(), clusters, self._views, drill, tuple(dict.fromkeys(unseen)))

    def lab(self) -> Lab | None:
        """The lab as its folder says now; None where the subject is none. Raises `UsageError` where it was taken down."""
        return None if self.subject.lab is None else Lab.attach(self.subject.lab.root)

    def run(self) -> Run | None:
        """The drill that concerns these clusters."""
        return running.find(self.subject.runs_dir, self.subject.place)

    # -- inside --------------------------------------------------------------------------------------------------------

    def _poll(self) -> None:
        self.resting = self._attention.away()
        if not self.resting:
            self.look()

    def _files(self) -> list[Path]:
        """The files of the lab's workers that run, those that ended where none does, and the lab's own."""
        lab = self.lab()
        if lab is None:
            return [self.subject.properties] if self.subject.properties is not None else []
        workers = [(one.alive, lab.root / f"{one.name}.properties") for one in lab.status()]
        there = [(alive, path) for alive, path in workers if path.is_file()]
        running_ = [path for alive, path in there if alive]
        default = lab.root / DEFAULT_FILE
        return running_ or [path for _, path in there] or ([default] if default.is_file() else [])

    def _source_errors(self) -> dict[str, str]:
        """By alias, why a cluster of the lab need not be asked: none of its brokers can answer."""
        return {c.alias: f"its broker is {c.word}" for c in self._lab_clusters() if c.word in (KILLED, PAUSED)}

    def _told(self) -> list[status.WorkerStatus]:
        """What the lab's workers last wrote of themselves."""
        found: list[status.WorkerStatus] = []
        lab = self.lab()
        if lab is None:
            return found
        for one in lab.status():
            path = lab.root / f"{one.name}.status.json"
            if one.alive and path.with_name(f"{one.name}.properties").is_file():
                try:
                    found.append(status.read(path))
                except UsageError:
                    continue  # it has not said anything yet
        return found

    def _clusters(self, unseen: list[str]) -> tuple[ClusterSeen, ...]:
        if self.subject.lab is None:
            return console_state.clusters_of_surveys(self._surveys)
        try:
            return self._lab_clusters()
        except _FAULTS as error:
            unseen.append(str(error))
            return ()

    def _lab_clusters(self) -> tuple[ClusterSeen, ...]:
        lab = self.lab()
        if lab is None:
            return ()
        try:
            links = lab.proxy.links()
        except DrlibError:  # said as "link unknown"
            links = ()
        brokers = {alias: [b.name for b in cluster.brokers] for alias, cluster in lab.clusters.items()}
        behind = {alias: clocks.behind_ms(lab.root, alias) for alias in lab.clusters}
        return console_state.clusters_of_lab(brokers, lab.status(), links, behind)
