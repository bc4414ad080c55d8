"""Observes what a console shows: clusters, workers, the lab's processes and links, and the folders of runs.

Rules: clusters are polled by one thread, at most once a second, never by the thread that draws; local files (a drill's
journal, the lab's processes) are read when a state is requested. A lab's cluster whose brokers are known to be down is not
polled. A failed poll is reported with its reason, beside the last successful answer. The lab is read from its folder each
time, so a lab that was stopped or started again is noticed. While no page is connected to the kernel, nothing is polled.
`close` ends the thread. Nothing here changes anything.
"""

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from drlib import clock
from drlib.config.flow_settings import FlowSettings
from drlib.config.settings import MirrorSettings, load_mirror_settings
from drlib.drill.readiness.observe.applications.applications import take_inventory
from drlib.drill.run.request import ClusterTarget
from drlib.drill.session import find_running as running
from drlib.drill.session import left_behind, unfinished_runs
from drlib.drill.session.find_running import Run
from drlib.errors import DrlibError, UsageError
from drlib.lab import clocks
from drlib.lab.environment import Environment, environment_at
from drlib.lab.lab import Lab
from drlib.mirror.monitor.flow_view import FlowView
from drlib.mirror.monitor.observer import FlowObserver
from drlib.mirror.monitor.polling_thread import PollingThread
from drlib.mirror.monitor.survey import Survey
from drlib.mirror.status import worker_status as status
from drlib.ui.console import state as console_state
from drlib.ui.console.presence import Attention, connections_here
from drlib.ui.console.state import KILLED, PAUSED, Applications, ClusterSeen, ConsoleState

LOOK_S: Final = 1.0
UNFINISHED_S: Final = 5.0  # between two looks at the state of drills
APPLICATIONS_S: Final = 15.0  # between two inventories of applications, which take as long as a poll
LOOK_BEHIND_S: Final = 4.0  # for the answers to one of them
LONGEST_S: Final = 10.0  # between two rounds, however long one takes
DEFAULT_FILE: Final = "connect-mirror-maker.properties"
_FAULTS: Final = (DrlibError, OSError, TimeoutError)


@dataclass(frozen=True)
class Subject:
    """What a console observes: a lab, or the flows of a file; `flow` ("A->B") restricts it to one."""

    lab: Lab | None
    properties: Path | None
    runs_dir: Path
    flow: str = ""

    @property
    def target(self) -> ClusterTarget:
        return ClusterTarget(self.properties) if self.lab is None else ClusterTarget(lab_dir=self.lab.root)


class Watching:
    """Observes `subject` from `start` to `close`."""

    def __init__(self, subject: Subject, attention: Attention | None = None) -> None:
        self.subject = subject
        self._attention = attention or Attention(connections_here)
        self._environment = environment_at(subject.properties, lab=subject.lab is not None) or Environment.PRODUCTION
        self.resting = False
        self._observer = FlowObserver(groups=True, ages=True)
        self._views: tuple[FlowView, ...] = ()
        self._surveys: tuple[Survey, ...] = ()
        self._unseen: tuple[str, ...] = ()
        self._looked = threading.Event()
        self._unfinished = unfinished_runs.NONE
        self._unfinished_at = -UNFINISHED_S
        self._applications = Applications()
        self._applications_at = -APPLICATIONS_S
        self._polling = PollingThread(
            self._poll, name="drlib-console-survey", interval_s=LOOK_S, longest_pause_s=LONGEST_S
        )

    def start(self) -> None:
        """Start polling. Safe to repeat."""
        self._polling.start()

    def close(self, wait_s: float = 5.0) -> None:
        """Stop polling; a poll in progress ends by itself. Safe to repeat."""
        self._polling.close(wait_s)

    @property
    def closed(self) -> bool:
        return self._polling.closed

    @property
    def looking(self) -> bool:
        return self._polling.alive

    def look(self) -> None:
        """Poll the clusters and the workers once. Errors of clusters are kept for `state`, never raised."""
        unseen: list[str] = []
        chosen: list[tuple[MirrorSettings, FlowSettings]] = []
        try:
            files = self._files()
        except UsageError as error:  # of a lab that is gone no older answer means anything
            self._surveys, self._views, self._unseen = (), (), (str(error),)
            self._applications = Applications()
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
        try:
            self._find_unfinished(chosen)
            self._find_applications(chosen)
        except _FAULTS as error:
            unseen.append(str(error))
        self._unseen = tuple(unseen)
        self._looked.set()

    def _find_unfinished(self, chosen: Sequence[tuple[MirrorSettings, FlowSettings]]) -> None:
        if time.monotonic() - self._unfinished_at < UNFINISHED_S:
            return
        flows = [(each.flow, settings.clusters[each.flow.target]) for settings, each in chosen]
        down = frozenset(self._source_errors())
        self._unfinished = unfinished_runs.find(flows, self.subject.runs_dir, self.subject.target, down=down)
        self._unfinished_at = time.monotonic()

    def _find_applications(self, chosen: Sequence[tuple[MirrorSettings, FlowSettings]]) -> None:
        """Who uses the topics, and who was left behind. Flows of one file are asked for together."""
        if not chosen or time.monotonic() - self._applications_at < APPLICATIONS_S:
            return
        settings = chosen[0][0]
        silent = {each.alias: each.detail for each in console_state.clusters_of_surveys(self._surveys) if each.detail}
        silent |= self._source_errors()
        flows = [each for of, each in chosen if of.path == settings.path]
        found, _ = take_inventory(settings, flows, LOOK_BEHIND_S, silent, activity=False)
        moves = left_behind.newest_moves(self.subject.runs_dir, [each.flow for each in flows], self.subject.target)
        looked = [left_behind.look(settings, move, seconds=LOOK_BEHIND_S, silent=silent) for move in moves]
        self._applications = Applications(found, left_behind.lines(looked))
        self._applications_at = time.monotonic()

    def state(self) -> ConsoleState:
        """The latest observations; reads local files and the lab's link proxy, never a cluster."""
        unseen = list(self._unseen)
        if not self._looked.is_set():
            unseen.append("waiting for the first answer of the clusters")
        environment, run = self._environment, None
        try:
            run = self.run()
            drill = console_state.drill_of(run, environment=environment)
        except _FAULTS as error:
            drill = None
            unseen.append(str(error))
        clusters = self._clusters(unseen)
        banner = console_state.banner_of(environment, run, [view.flow for view in self._views])
        now_ms = clock.now_ms()
        first = unfinished_runs.lines(self._unfinished, now_ms)
        lab, moved = self.subject.lab is not None, self._unfinished.moved
        views = tuple(console_state.with_expected_workers(view, lab=lab, moved=moved) for view in self._views)
        said = tuple(dict.fromkeys(unseen))
        seen = self._applications
        return ConsoleState(now_ms, clusters, views, drill, said, banner=banner, first=first, applications=seen)

    def lab(self) -> Lab | None:
        """The lab as its folder says now; None where the subject is a file. Raises `UsageError` when the lab was stopped."""
        return None if self.subject.lab is None else Lab.attach(self.subject.lab.root)

    def settings(self) -> MirrorSettings:
        """The clusters as the first file has them. Raises `UsageError` where there is no file, or it is wrong."""
        for file in self._files():
            return load_mirror_settings(file)
        raise UsageError("nothing was read", "no properties file names the clusters", "Start a mirror, or name a file.")

    def run(self) -> Run | None:
        """The drill on these clusters, if one runs or was left unfinished."""
        return running.find(self.subject.runs_dir, self.subject.target)

    # -- inside --------------------------------------------------------------------------------------------------------

    def _poll(self) -> None:
        self.resting = self._attention.away()
        if not self.resting:
            self.look()

    def _files(self) -> list[Path]:
        """Properties files of the lab's running workers; else of its stopped workers; else the lab's own."""
        lab = self.lab()
        if lab is None:
            return [self.subject.properties] if self.subject.properties is not None else []
        workers = [(process.alive, lab.root / f"{process.name}.properties") for process in lab.status()]
        existing = [(alive, path) for alive, path in workers if path.is_file()]
        running_ = [path for alive, path in existing if alive]
        default = lab.root / DEFAULT_FILE
        return running_ or [path for _, path in existing] or ([default] if default.is_file() else [])

    def _source_errors(self) -> dict[str, str]:
        """By alias, why a cluster of the lab is not polled: none of its brokers can answer."""
        return {c.alias: f"its broker is {c.word}" for c in self._lab_clusters() if c.word in (KILLED, PAUSED)}

    def _told(self) -> list[status.WorkerStatus]:
        """The last status file of each of the lab's running workers."""
        statuses: list[status.WorkerStatus] = []
        lab = self.lab()
        if lab is None:
            return statuses
        for process in lab.status():
            path = lab.root / f"{process.name}.status.json"
            if process.alive and path.with_name(f"{process.name}.properties").is_file():
                try:
                    statuses.append(status.read(path))
                except UsageError:
                    continue  # not written yet
        return statuses

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
