"""The failover drill's testbed: a lab, the mirror of one flow, and applications that produce and consume flights.

Rules: everything runs as a process registered with the lab and is found there by its name, so that `drlib lab down`, an
abort and the process that resumes a run find all of it; it lives as long as the lab's brokers do. Every wait has a deadline
and names what it waits for. The applications are moved by the pointer alone. How mirror topics are named is what the lab's file
says: under identical names one worker copies every topic in both directions, and the topics are there before it starts.
Not for: deciding or judging; the drill's actions and proofs do that.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from drlib.client import pointer as pointers
from drlib.client import pointer_file
from drlib.config.both_ways.shared_topics import all_shared
from drlib.config.replication_policy import IDENTITY, Names
from drlib.config.settings import MirrorSettings, load_mirror_settings
from drlib.errors import UsageError
from drlib.lab.apps import specs
from drlib.lab.lab import Lab
from drlib.lab.workload.applications import LabApplications
from drlib.lab.workload.mirrors import MirrorWorker, partition_statuses
from drlib.lab.workload.topics import SOURCE_TOPICS, STANDBY_TOPICS, TopicSpec, create_topics, log_ends, partitions_of
from drlib.mirror.status.worker_status import WorkerStatus
from drlib.model import Flow
from drlib.runs.abort import Abort
from drlib.runs.waiting import look_at, wait_for

GROUPS = ("arrivals", "delays")
PRODUCERS = ("flights", "flights-tx", "flights-2013")
APPLICATIONS = (*PRODUCERS, *GROUPS)
PROPERTIES_NAME = "connect-mirror-maker.properties"
ENDS_BY_ITSELF = "flights-2013"  # it writes its records and exits
MIRROR = "mirror"
FLOW = Flow("LEFT", "RIGHT")
SILENT_EVENTS = frozenset({"SourceUnreachable", "GroupTailUnavailable"})
_POLL_S = 0.05  # files on this machine


def _keys(flow: Flow, lanes: int, *, shared: bool) -> dict[str, str]:
    """Keys that the drill adds to the mirror's file. A short session frees a dead worker's lanes sooner."""
    return {
        "drlib.lanes": str(lanes),
        "drlib.session.timeout.ms": "3000",
        f"{flow}.enabled": "true",
        f"{flow.reverse}.enabled": str(shared).lower(),
        **({"replication.policy.class": IDENTITY} if shared else {}),
    }


def name_topics(lab: Lab, names: Names, flow: Flow = FLOW) -> None:
    """Write the file of a lab that no mirror has run on, so that mirror topics are named so; else leave it as it is.

    A secured lab's roles have the rights that its prefixed topics need.
    """
    testbed = FailoverTestbed(lab, lab.root, flow=flow)
    wanted = names is Names.IDENTICAL
    if testbed.shared != wanted and not testbed.mirrored and not lab.operator:
        lab.write_properties(None, **_keys(flow, 2, shared=wanted))


@dataclass(frozen=True, slots=True)
class Traffic:
    """The applications' load. Rates are records per second; the first `backlog` records are sent without pacing."""

    records_per_second: float = 3000.0
    backlog: int = 30_000
    delays_per_second: float = 2000.0


class FailoverTestbed:
    """The processes of one drill. Histories are written to `run_dir`/history; `flow` is the mirror's.

    Any process that can attach to the lab can make one; without `traffic` it is the load the applications were started with.
    """

    def __init__(
        self, lab: Lab, run_dir: Path, traffic: Traffic | None = None, lanes: int | None = None, flow: Flow = FLOW
    ) -> None:
        self.lab = lab
        self.run_dir = run_dir
        self.flow = flow
        self.applications = LabApplications(lab, run_dir / "history")
        self.pointer_path = lab.root / pointers.POINTER_NAME
        self._traffic = traffic
        self._tag = "" if flow == FLOW else f"-{flow.source}-{flow.target}"
        usual = lab.root / PROPERTIES_NAME
        self.shared = usual.exists() and all_shared(load_mirror_settings(usual), flow)
        self._own = "" if self.shared else self._tag
        self.properties = lab.root / f"mirror{self._own}.properties" if self._own else usual
        if lanes is not None:
            lab.write_properties(self.properties, topics="flights.*", **_keys(flow, lanes, shared=self.shared))

    @property
    def settings(self) -> MirrorSettings:
        return load_mirror_settings(self.properties)

    @property
    def traffic(self) -> Traffic:
        """The load that was given, else the one the applications were started with."""
        if self._traffic is None:
            flights = specs.load(self.applications.spec_path("flights"), specs.ProducerSpec)
            delays = specs.load(self.applications.spec_path("delays"), specs.ConsumerSpec)
            self._traffic = Traffic(flights.records_per_second, flights.backlog, delays.records_per_second)
        return self._traffic

    # -- mirror --------------------------------------------------------------------------------------------------

    @property
    def mirror_status_path(self) -> Path:
        return self.lab.root / f"mirror{self._own}-status.json"

    def worker(self, number: int) -> MirrorWorker:
        """The `number`th worker of this flow, from 1. All of them report to one file."""
        return MirrorWorker(self.lab, f"{MIRROR}{self._tag}-{number}", self.properties, self.mirror_status_path)

    def mirror_runs(self) -> bool:
        """Whether the worker that reported last is alive and runs all lanes. A dead one's are free after its session."""
        status = self.mirror()
        alive = {process.pid for process in self.lab.status() if process.alive}
        lanes = self.settings.flow(self.flow.source, self.flow.target).lanes
        wanted = {str(flow) for flow in self._flows}
        running = [
            (flow.flow, lane.lane)
            for flow in status.flows
            for lane in flow.lanes
            if flow.flow in wanted and lane.state == "running"
        ]
        return status.state == "running" and status.pid in alive and len(running) == lanes * len(wanted)

    @property
    def _flows(self) -> tuple[Flow, ...]:
        """What a worker mirrors."""
        return (self.flow, self.flow.reverse) if self.shared else (self.flow,)

    @property
    def mirrored(self) -> bool:
        """Has a worker ever been started on the lab?"""
        return any(record.name.startswith(MIRROR) for record in self.lab.registry.records())

    def share(self, topics: Iterable[TopicSpec]) -> None:
        """Create `topics` on both clusters, as those are that both directions copy.

        Raises `UsageError` where they hold records that no mirror has seen: which of them are copies is not known.
        """
        both = [self.lab.clusters[alias] for alias in (self.flow.source, self.flow.target)]
        wanted = tuple(topics)
        for cluster in both:
            create_topics(cluster.settings(), wanted)
        if self.mirrored:
            return
        if holding := [each.alias for each in both if any(log_ends(each, [topic.name for topic in wanted]).values())]:
            raise UsageError(
                f"the lab's topics on {' and '.join(holding)} hold records already",
                "a topic that both directions copy has to be empty when its mirror is first started",
                "Take the lab down and up again: drlib lab down.",
            )

    def copies(self, topics: Iterable[TopicSpec]) -> bool:
        """Has the worker claimed all partitions of `topics`, in each direction? What is written before that is unexplained."""
        status, wanted = self.mirror(), {partition for topic in topics for partition in partitions_of(topic)}
        return all(wanted <= partition_statuses(status, flow).keys() for flow in self._flows)

    def mirror(self) -> WorkerStatus:
        """The last report of a worker."""
        return self.worker(1).status() or WorkerStatus(0, 0, "starting", ())

    def alert(self) -> str:
        """The worker's open event about its source, empty when there is none."""
        for event in self.mirror().events:
            if event.name in SILENT_EVENTS and event.resolved_ms is None:
                return f"{event.name}: {event.detail}"
        return ""

    # -- applications --------------------------------------------------------------------------------------------

    @property
    def pointer_entity(self) -> str:
        """What a plan calls the applications' pointer."""
        return f"active cluster, as {self.pointer_path.name} says"

    def active(self) -> str | None:
        """The cluster that the pointer names, None when there is no pointer."""
        try:
            return pointer_file.read(self.pointer_path).active
        except FileNotFoundError:
            return None

    def moved_at(self, topic: str) -> dict[int, int]:
        """By partition, where a topic that keeps its name ended on the cluster that the pointer names, when it moved there."""
        return dict(enumerate(pointer_file.read(self.pointer_path).cutover.get(topic, ())))

    def start_applications(self) -> None:
        """Create the topics, point the applications at the source, start those that do not run.

        Raises `UsageError` where applications of another drill run.
        """
        self.refuse_other_drill()
        source = self.lab.clusters[self.flow.source]
        create_topics(source.settings(), SOURCE_TOPICS)
        create_topics(self.lab.clusters[self.flow.target].settings(), STANDBY_TOPICS)
        if not self.pointer_path.exists():
            pointer_file.write_atomic(self.pointer_path, pointers.Pointer(1, self.flow.source, source.bootstrap))
        mode, traffic = specs.ProducerMode, self.traffic
        rates = {"records_per_second": traffic.records_per_second, "backlog": traffic.backlog}
        self._start_producer("flights", mode.FLIGHTS, **rates)
        self._start_producer(ENDS_BY_ITSELF, mode.FLIGHTS_2013)
        self._start_producer("flights-tx", mode.FLIGHTS_TX)
        self._start_consumer("arrivals", 0.0)
        self._start_consumer("delays", traffic.delays_per_second)

    def started(self, name: str) -> bool:
        """Whether this drill's application runs, or ended as it should."""
        ended = name == ENDS_BY_ITSELF and self.applications.history_path(name).exists()
        return ended or self.applications.runs(name)

    def refuse_other_drill(self) -> None:
        """Raises `UsageError` where an application runs that writes another drill's history."""
        for name in APPLICATIONS:
            if self.applications.runs(name) and self._history_in_spec(name) != self._history(name):
                raise UsageError(
                    f"the lab's application {name} runs for another drill",
                    "its history is written to another run's folder",
                    "End that drill, or take the lab down and up: drlib lab down.",
                )

    def _history(self, name: str) -> str:
        return str(self.applications.history_path(name))

    def _history_in_spec(self, name: str) -> str:
        path = self.applications.spec_path(name)
        if name in GROUPS:
            return specs.load(path, specs.ConsumerSpec).history
        return specs.load(path, specs.ProducerSpec).history

    def _start_producer(self, name: str, mode: specs.ProducerMode, **rates: float) -> None:
        spec = specs.ProducerSpec(
            pointer=str(self.pointer_path),
            history=self._history(name),
            mode=mode,
            topic=name,
            status=str(self.applications.status_path(name)),
            records_per_second=float(rates.get("records_per_second", 2000.0)),
            backlog=int(rates.get("backlog", 0)),
        )
        if not self.started(name):
            self.applications.start(name, spec)

    def _start_consumer(self, group: str, rate: float) -> None:
        spec = specs.ConsumerSpec(
            pointer=str(self.pointer_path),
            history=self._history(group),
            group=group,
            records_per_second=rate,
            after_move_records_per_second=0.0,
            status=str(self.applications.status_path(group)),
        )
        self.applications.start(group, spec)

    def wait(self, what: str, holds: Callable[[], bool], deadline_s: float, abort: Abort | None = None) -> None:
        """Wait for `holds`. Raises `Unreachable` naming `what` after `deadline_s` seconds, `Aborted` where `abort` is given."""
        wait_for(abort, what, holds, deadline_s, look_at(self.lab.root), look_s=_POLL_S)

    def wait_for_count(
        self, what: str, count: Callable[[], float], enough: float, deadline_s: float, abort: Abort | None = None
    ) -> None:
        """Wait until `count` returns `enough`; the deadline counts from its last progress. Raises as `wait` does."""
        where = look_at(self.lab.root)
        wait_for(abort, what, lambda: count() >= enough, deadline_s, where, look_s=_POLL_S, progress=count)
