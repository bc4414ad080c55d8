"""What a drill plays on: a lab, the mirror between its clusters, and applications that produce and consume.

Rules: everything runs as a process of its own, started through the lab's registry and found there by its name, so that
`drlib lab down`, an abort and the process that takes a run up find all of it; it lives as long as the lab's brokers do.
Every wait has a deadline and says what it waited for. The applications are moved by the pointer alone.
Not for: deciding or judging; the drill does that.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from drlib.client import pointer as pointers
from drlib.client import pointer_file
from drlib.config.settings import MirrorSettings, load_mirror_settings
from drlib.errors import UsageError
from drlib.lab.apps import specs
from drlib.lab.apps.process import AppStatus, read_status
from drlib.lab.lab import Lab
from drlib.lab.workload.topics import SOURCE_TOPICS, STANDBY_TOPICS, create_topics
from drlib.mirror.status import worker_status as mirror_status
from drlib.model import Flow
from drlib.runs.abort import Abort
from drlib.runs.waiting import look_at, wait_for

GROUPS = ("arrivals", "delays")
PRODUCERS = ("flights", "flights-tx", "flights-2013")
APPLICATIONS = (*PRODUCERS, *GROUPS)
ENDS_BY_ITSELF = "flights-2013"  # it writes its records and exits
MIRROR = "mirror"
FLOW = Flow("LEFT", "RIGHT")
_LOOK_S = 0.05  # at files on this machine
SILENT_EVENTS = frozenset({"SourceUnreachable", "GroupTailUnavailable"})


def _keys(flow: Flow, lanes: int) -> dict[str, str]:
    """What the drill sets in the mirror's file. A short session makes a dead worker's lanes free sooner."""
    return {
        "drlib.lanes": str(lanes),
        "drlib.session.timeout.ms": "3000",
        f"{flow}.enabled": "true",
        f"{flow.reverse}.enabled": "false",
    }


@dataclass(frozen=True, slots=True)
class Traffic:
    """How much the applications do. Rates are records per second; `backlog` records go first, as fast as they can."""

    records_per_second: float = 3000.0
    backlog: int = 30_000
    delays_per_second: float = 2000.0


class FailoverTestbed:
    """The processes of one drill. `histories` are written to `run_dir`/history; `flow` is the mirror's.

    Any process that can attach to the lab may have one; without `traffic` the applications do what they were started with.
    """

    def __init__(
        self, lab: Lab, run_dir: Path, traffic: Traffic | None = None, lanes: int | None = None, flow: Flow = FLOW
    ) -> None:
        self.lab = lab
        self.run_dir = run_dir
        self.flow = flow
        self.histories = run_dir / "history"
        self.pointer_path = lab.root / pointers.POINTER_NAME
        self._traffic = traffic
        self._tag = "" if flow == FLOW else f"-{flow.source}-{flow.target}"
        path = None if flow == FLOW else lab.root / f"mirror{self._tag}.properties"
        if lanes is not None:
            lab.write_properties(path, topics="flights.*", **_keys(flow, lanes))
        self.properties = path or lab.root / "connect-mirror-maker.properties"

    @property
    def settings(self) -> MirrorSettings:
        return load_mirror_settings(self.properties)

    @property
    def traffic(self) -> Traffic:
        """As it was given, else as the applications were started."""
        if self._traffic is None:
            started = specs.load(self._spec_path("flights"), specs.ProducerSpec)
            slow = specs.load(self._spec_path("delays"), specs.ConsumerSpec)
            self._traffic = Traffic(started.records_per_second, started.backlog, slow.records_per_second)
        return self._traffic

    # -- mirror --------------------------------------------------------------------------------------------------

    @property
    def mirror_status_path(self) -> Path:
        return self.lab.root / f"mirror{self._tag}-status.json"

    def mirror_name(self, number: int) -> str:
        """The name on record of the `number`th worker of this flow, from 1."""
        return f"{MIRROR}{self._tag}-{number}"

    def mirrors(self) -> int:
        """How many workers of this flow were started and are on record."""
        names = {record.name for record in self.lab.registry.records()}
        return sum(self.mirror_name(number) in names for number in range(1, len(names) + 1))

    def launch_mirror(self, number: int) -> None:
        """Start the `number`th worker, and return at once."""
        self.mirror_status_path.unlink(missing_ok=True)
        name, status = self.mirror_name(number), str(self.mirror_status_path)
        argv = [sys.executable, "-m", "drlib.cli", "mirror", str(self.properties), "--status", status]
        self._launch(name, argv)

    def mirror_runs(self) -> bool:
        """Does the worker that wrote last live, and run all lanes? A dead one's are free only after its session."""
        told = self.mirror()
        alive = {status.pid for status in self.lab.status() if status.alive}
        wanted = self.settings.flow(self.flow.source, self.flow.target).lanes
        running = [
            lane.lane
            for flow in told.flows
            for lane in flow.lanes
            if flow.flow == str(self.flow) and lane.state == "running"
        ]
        return told.state == "running" and told.pid in alive and len(running) == wanted

    def mirror(self) -> mirror_status.WorkerStatus:
        """What the worker last said."""
        try:
            return mirror_status.read(self.mirror_status_path)
        except UsageError:
            return mirror_status.WorkerStatus(0, 0, "starting", ())

    def alert(self) -> str:
        """The worker's open event about its source, empty when there is none."""
        for event in self.mirror().events:
            if event.name in SILENT_EVENTS and event.resolved_ms is None:
                return f"{event.name}: {event.detail}"
        return ""

    # -- applications --------------------------------------------------------------------------------------------

    def start_applications(self) -> None:
        """Make the topics, point everybody at the source, start producers and consumers; those that run are left.

        Raises `UsageError` where applications of another drill run.
        """
        self.refuse_strangers()
        start = self.lab.clusters[self.flow.source]
        create_topics(start.bootstrap, SOURCE_TOPICS)
        create_topics(self.lab.clusters[self.flow.target].bootstrap, STANDBY_TOPICS)
        self.histories.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not self.pointer_path.exists():
            pointer_file.write_atomic(self.pointer_path, pointers.Pointer(1, self.flow.source, start.bootstrap))
        produce, traffic = specs.ProducerMode, self.traffic
        self._produce(
            "flights", produce.FLIGHTS, records_per_second=traffic.records_per_second, backlog=traffic.backlog
        )
        self._produce(ENDS_BY_ITSELF, produce.FLIGHTS_2013, topic=ENDS_BY_ITSELF)
        self._produce("flights-tx", produce.FLIGHTS_TX, topic="flights-tx")
        self._consume("arrivals", 0.0)
        self._consume("delays", traffic.delays_per_second)

    def running(self, name: str) -> bool:
        return self.lab.registry.alive(name)

    def started(self, name: str) -> bool:
        """Does this drill's application run, or did it end as it should?"""
        return self.running(name) or (name == ENDS_BY_ITSELF and self.history(name).exists())

    def _history_in_spec(self, name: str) -> str:
        path = self._spec_path(name)
        if name in GROUPS:
            return specs.load(path, specs.ConsumerSpec).history
        return specs.load(path, specs.ProducerSpec).history

    def refuse_strangers(self) -> None:
        """Raises `UsageError` where an application runs that writes another drill's history."""
        for name in APPLICATIONS:
            if self.running(name) and self._history_in_spec(name) != str(self.history(name)):
                raise UsageError(
                    f"the lab's application {name} runs for another drill",
                    "its history is written to another run's folder",
                    "End that drill, or take the lab down and up: drlib lab down.",
                )

    def _produce(self, name: str, mode: specs.ProducerMode, *, topic: str = "flights", **rates: float) -> None:
        spec = specs.ProducerSpec(
            pointer=str(self.pointer_path),
            history=str(self.history(name)),
            mode=mode,
            topic=topic,
            status=str(self._status_path(name)),
            records_per_second=float(rates.get("records_per_second", 2000.0)),
            backlog=int(rates.get("backlog", 0)),
        )
        self._start(name, "producer", spec)

    def _consume(self, group: str, rate: float) -> None:
        spec = specs.ConsumerSpec(
            pointer=str(self.pointer_path),
            history=str(self.history(group)),
            group=group,
            records_per_second=rate,
            after_move_records_per_second=0.0,
            status=str(self._status_path(group)),
        )
        self._start(group, "consumer", spec)

    def _start(self, name: str, module: str, spec: specs.ProducerSpec | specs.ConsumerSpec) -> None:
        if self.started(name):
            return
        path = self._spec_path(name)
        specs.write(path, spec)
        self._launch(name, [sys.executable, "-m", f"drlib.lab.apps.{module}", str(path)])

    def _launch(self, name: str, argv: list[str]) -> None:
        log = self.lab.root / f"{name}.log"
        self.lab.registry.start(name, argv, log=log, die_with_parent=self.lab.dies_with_parent)

    def _spec_path(self, name: str) -> Path:
        return self.lab.root / f"{name}.spec.json"

    def history(self, name: str) -> Path:
        return self.histories / f"{name}.jsonl"

    def _status_path(self, name: str) -> Path:
        return self.lab.root / f"{name}.status.json"

    def application(self, name: str) -> AppStatus | None:
        return read_status(self._status_path(name))

    def done(self, name: str) -> int:
        """Records an application has had acknowledged or has processed."""
        found = self.application(name)
        return found.done if found else 0

    def stop(self, *names: str) -> None:
        """SIGTERM, so that histories end whole."""
        for name in names:
            self.lab.registry.stop(name)

    def wait(self, what: str, holds: Callable[[], bool], deadline_s: float, abort: Abort | None = None) -> None:
        """Wait for `holds`. Raises `Unreachable` naming `what` after `deadline_s` seconds; `Aborted`, where there is one."""
        wait_for(abort, what, holds, deadline_s, look_at(self.lab.root), look_s=_LOOK_S)
