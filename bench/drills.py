"""Drills as workloads: many groups translated after a cluster was killed, many translated back, running applications moved.

Rules: the registered actions run in the order of their runbooks; times are those that the steps recorded, or of the
applications' histories; positions are compared with those each group had before, and records are judged by the
independent checker from the applications' histories. Every run
has its own topic, aliases and groups. No group is at a topic's beginning, because the failback leaves such positions
out. Not for: drills under faults (the tests), reports.
"""

from __future__ import annotations

import itertools
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from confluent_kafka import Producer
from javaproperties import join_key_value

from bench.engines import alias
from bench.meter import Meter, Surroundings
from bench.results import Run
from bench.site import SOURCE, Site, create_topics, python_path
from bench.sources import TOPIC
from bench.workloads import Kind, Workload
from drlib.client import pointer as pointers
from drlib.client import pointer_file
from drlib.clock import now_ms
from drlib.config.settings import load_mirror_settings
from drlib.drill.plan.plan import Argument, Call
from drlib.drill.run.registry import make_action
from drlib.drill.step import rto_clock
from drlib.drill.step import step_output as details
from drlib.drill.step.action import Evidence
from drlib.drill.step.context import DrillContext
from drlib.errors import DrlibError
from drlib.files import write_whole
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.descriptions import CommittedOffset
from drlib.kafka.admin.group_offsets import commit_all, committed
from drlib.lab.apps import specs
from drlib.lab.checker import scan
from drlib.lab.checker.round_trip import Trip, check_round_trip
from drlib.lab.lab import mirror_properties
from drlib.lab.processes import wait_until
from drlib.lab.workload.applications import LabApplications
from drlib.mirror.offsets.translation.translate_groups import checkpointed_positions
from drlib.mirror.offsets.unreplicated.lag import replication_lag
from drlib.model import Flow, TopicPartition
from drlib.runs.abort import Abort

RECORDS: Final = 20  # in each partition
_PATIENCE_S: Final = 120.0
_PRODUCER: Final = "bench-producer"

Positions = Mapping[str, Mapping[TopicPartition, CommittedOffset]]


def words(workload: Workload) -> str:
    """What is on the clusters."""
    if workload.kind is Kind.SWITCHOVER:
        return f"{workload.records:,} records a second on {workload.partitions} partitions, {workload.groups} groups"
    each = workload.partitions * (2 if workload.kind is Kind.FAILBACK else 1)
    return f"{workload.groups:,} groups with {each} positions each, {workload.groups * each:,} in all"


def measure(site: Site, workload: Workload, tag: str) -> Run:
    """One run of a drill."""
    around = Surroundings(site.pids)
    with _scene(site, workload, tag) as scene:
        meter = Meter([scene.worker])
        kinds = {Kind.FAILOVER: _failover, Kind.FAILBACK: _failback, Kind.SWITCHOVER: _switchover}
        metrics = kinds[workload.kind](scene)
        other = around.other_load(meter.cpu())
    at = datetime.now(UTC).isoformat(timespec="seconds")
    return Run(workload.name, "drlib", at, metrics, around.load_before, other)


@dataclass(frozen=True)
class _Scene:
    """Two clusters, a mirror between them, and where the drill keeps its files. `worker` is the mirror's process."""

    site: Site
    workload: Workload
    place: DrillContext
    topic: str
    worker: int

    @property
    def flow(self) -> Flow:
        return self.place.flow

    @property
    def groups(self) -> tuple[str, ...]:
        return tuple(f"{self.topic}.g{n:04}" for n in range(self.workload.groups))

    def partitions(self, topic: str) -> list[TopicPartition]:
        return [TopicPartition(topic, n) for n in range(self.workload.partitions)]

    def mirror(self, of: str) -> str:
        """The mirror of the scene's topic of cluster `of`."""
        return f"{of}.{self.topic}"

    def do(self, name: str, **arguments: str | float | bool) -> Evidence:
        """One step of a drill: planned and done."""
        given = tuple(Argument(key, value) for key, value in arguments.items())
        step = make_action(Call(name, given), self.place, name.replace(".", "-"))
        return step.act(step.changes(step.observe()), Abort(self.place.run_dir))

    def wait(self, what: str, holds: Callable[..., bool]) -> None:
        """Raises `TimeoutError` naming `what`, with what the worker said last."""
        if not wait_until(holds, _PATIENCE_S):
            log = (self.site.root / f"worker-{self.topic}.log").read_text(errors="replace")
            raise TimeoutError(f"not within {_PATIENCE_S:g} s: {what}\n{log[-2000:]}")

    def mirrored(self, flow: Flow) -> bool:
        """Has `flow` everything of the scene's topic?"""
        settings = self.place.mirror_settings()
        try:
            with Cluster(self.place.cluster(flow.source)) as source:
                return not replication_lag(settings, flow, source, self.partitions(self.topic)).missing
        except DrlibError:
            return False  # no journal yet, or one that is being written

    def stand(self, where: str, positions: Positions) -> None:
        """Put groups there. Raises the first refusal."""
        answers = commit_all(self.place.cluster(where), positions, _PATIENCE_S)
        for error in answers.values():
            if error is not None:
                raise error

    def standing(self, where: str) -> dict[str, Mapping[TopicPartition, CommittedOffset]]:
        """Where groups are. Raises the first refusal."""
        found: dict[str, Mapping[TopicPartition, CommittedOffset]] = {}
        for group, answer in committed(self.place.cluster(where), self.groups, _PATIENCE_S).items():
            if isinstance(answer, DrlibError):
                raise answer
            found[group] = answer
        return found

    def mid(self, topic: str) -> Positions:
        """A position in the middle of each partition for each group, another one for each."""
        return {
            group: {p: CommittedOffset(1 + (number + p.partition) % (RECORDS - 1)) for p in self.partitions(topic)}
            for number, group in enumerate(self.groups)
        }

    def wrong(self, where: str, topic: str, at: Positions, on: str, source: str) -> int:
        """Positions in `topic` on `where` that are not at the record which `at` has in `source` on `on`."""
        names = {where: topic, on: source}
        numbers: dict[str, dict[TopicPartition, dict[int, int]]] = {}
        for cluster, name in names.items():
            bootstrap = ",".join(self.place.cluster(cluster).bootstrap_servers)
            found: dict[TopicPartition, dict[int, int]] = {}
            for record in scan.scan(bootstrap, name):
                found.setdefault(TopicPartition("", record.partition), {})[record.offset] = record.n
            numbers[cluster] = found
        bad = 0
        standing = self.standing(where)
        for group, positions in at.items():
            for partition, position in positions.items():
                if partition.topic != source:
                    continue
                bare = TopicPartition("", partition.partition)
                there = standing[group].get(TopicPartition(topic, partition.partition))
                wanted = numbers[on][bare][position.offset]
                bad += there is None or numbers[where][bare].get(there.offset) != wanted
        return bad


def _failover(scene: _Scene) -> dict[str, float]:
    """The source is killed; clocked from the decision until every group stands on the target."""
    flow, run_dir = scene.flow, scene.place.run_dir
    _fill(scene, flow.source)
    scene.wait("the topic is mirrored", lambda: scene.mirrored(flow))
    at = scene.mid(scene.topic)
    scene.stand(flow.source, at)
    wanted = scene.workload.groups * scene.workload.partitions
    settings = scene.place.mirror_settings()

    def known() -> bool:
        found = checkpointed_positions(settings, flow)
        return sum(group in at and p.offset == at[group][tp].offset for (group, tp), p in found.items()) == wanted

    scene.wait("every position is known on the target", known)
    lab = scene.site.lab.clusters[SOURCE]
    lab.kill()
    try:
        scene.do("failover.triage")
        scene.do("source.fence")
        drained = now_ms()
        scene.do("mirror.drain")
        drained = now_ms() - drained
        reported = scene.do("groups.translate", groups=f"{scene.topic}.*")
        decided = rto_clock.at(run_dir, "decide")
        done = next(
            m.at_ms for m in details.read_part(run_dir, "groups-translate").marks if m.name == "groups translated"
        )
        scene.do("pointer.move")
    finally:
        lab.restart()
    assert decided is not None, "triage keeps the moment of the decision"
    return {
        "groups moved": (done - decided) / 1000,
        "each group": (done - decided) / scene.workload.groups,
        "drained": drained / 1000,
        "translated": float(str(reported["translated_s"])),
        "committed": float(str(reported["committed_s"])),
        "not exact": scene.wrong(flow.target, scene.mirror(flow.source), at, flow.source, scene.topic),
    }


def _failback(scene: _Scene) -> dict[str, float]:
    """Both serve, groups have read the mirror out and are somewhere in the local topic; clocked until they stand at home."""
    home, away = scene.flow.source, scene.flow.target
    for site in (home, away):
        _fill(scene, site)
    for flow in (scene.flow, scene.flow.reverse):
        scene.wait(f"{flow} has everything", lambda flow=flow: scene.mirrored(flow))
    mirror, at = scene.mirror(home), scene.mid(scene.topic)
    with Cluster(scene.place.cluster(away)) as cluster:
        ends = {p: CommittedOffset(end) for p, end in cluster.log_ends(scene.partitions(mirror)).items()}
    scene.stand(away, {group: {**positions, **ends} for group, positions in at.items()})
    scene.do("reverse.verify")
    scene.do("reverse.wait")
    began = now_ms()
    scene.do("groups.translate_back")
    took = now_ms() - began
    inexact = scene.wrong(home, scene.mirror(away), at, away, scene.topic)
    with Cluster(scene.place.cluster(home)) as cluster:
        local = cluster.log_ends(scene.partitions(scene.topic))
    for positions in scene.standing(home).values():
        inexact += sum(p not in positions or positions[p].offset != end for p, end in local.items())
    return {"groups moved": took / 1000, "each group": took / scene.workload.groups, "not exact": inexact}


def _switchover(scene: _Scene) -> dict[str, float]:
    """Producer and consumers run; they are moved to the target and back, and their histories judged."""
    home, away, topic = scene.flow.source, scene.flow.target, scene.topic
    pointer = scene.place.pointer
    assert pointer is not None, "a switchover has a pointer"
    pointer_file.write_atomic(pointer, pointers.Pointer(1, home, scene.site.source_direct))
    applications = LabApplications(scene.site.lab, scene.place.run_dir / "history")
    rate = float(scene.workload.records)
    names = {_PRODUCER, *scene.groups}
    produce = specs.ProducerSpec(
        str(pointer),
        str(applications.history_path(_PRODUCER)),
        topic=topic,
        records_per_second=rate,
        status=str(applications.status_path(_PRODUCER)),
    )
    applications.start(_PRODUCER, produce)
    for group in scene.groups:
        reader = specs.ConsumerSpec(
            str(pointer),
            str(applications.history_path(group)),
            group,
            topic,
            status=str(applications.status_path(group)),
        )
        applications.start(group, reader)
    try:
        for flow, there in ((scene.flow, away), (scene.flow.reverse, home)):
            sent = applications.done(_PRODUCER)
            scene.wait("traffic", lambda sent=sent: applications.done(_PRODUCER) > sent + 3 * rate)
            read = {group: applications.done(group) for group in scene.groups}
            for group in scene.groups:
                scene.wait(f"{group} reads", lambda group=group, read=read: applications.done(group) > read[group])
            scene.do("switchover.move", source=flow.source, target=there)
        sent = applications.done(_PRODUCER)
        scene.wait("traffic at home", lambda: applications.done(_PRODUCER) > sent + rate)
        applications.stop(_PRODUCER)
        acknowledged = len({row.id for row in applications.history(_PRODUCER).produced if row.status == "acked"})
        for group in scene.groups:
            scene.wait(
                f"{group} has read everything", lambda group=group: applications.processed(group) >= acknowledged
            )
    finally:
        applications.stop(*(name for name in sorted(names) if applications.runs(name)))
    logs = [
        tuple(itertools.chain(*(scan.scan(bootstrap, name) for name in (topic, scene.mirror(other)))))
        for bootstrap, other in ((scene.site.source_direct, away), (scene.site.target_direct, home))
    ]
    report = check_round_trip(
        Trip(home, away, topic, scene.groups, applications.history(*sorted(names)), logs[0], logs[1])
    )
    return {
        "producers held": max(report.pauses_s),
        "lost": report.lost,
        "written twice": report.doubled,
        "read twice": sum(group.again + group.again_failover for group in report.groups),
        "skipped": sum(group.skipped for group in report.groups),
    }


def _fill(scene: _Scene, cluster: str) -> None:
    """`RECORDS` in each partition of the topic there, numbered as applications number theirs."""
    producer = Producer(
        {"bootstrap.servers": ",".join(scene.place.cluster(cluster).bootstrap_servers), "linger.ms": 5, "log_level": 0}
    )
    for number, partition in itertools.product(range(RECORDS), range(scene.workload.partitions)):
        producer.produce(
            scene.topic,
            b"%s %d %d" % (cluster.encode(), partition, number),
            partition=partition,
            headers=[("n", b"%d" % number)],
        )
    if rest := producer.flush(60):
        raise TimeoutError(f"{rest} records of {scene.topic} could not be produced")


@contextmanager
def _scene(site: Site, workload: Workload, tag: str) -> Iterator[_Scene]:
    source, target, topic = alias(tag), f"TO{tag}", f"{TOPIC}.{tag}"
    chosen = re.escape(topic)
    flow = Flow(source, target)
    both = workload.kind is not Kind.FAILOVER
    for bootstrap in (site.source_direct, site.target_direct)[: 2 if both else 1]:
        create_topics(bootstrap, [topic], workload.partitions)
    file = site.root / f"{topic}.properties"
    keys = {
        **mirror_properties(source, target, {source: site.source, target: site.target}, topics=chosen),
        f"{flow.reverse}.enabled": str(both).lower(),
        "groups": f"{chosen}\\..*",
        "emit.heartbeats.enabled": "false",
        "heartbeats.replication.enabled": "false",  # brokers may be shared: those of other flows stay where they are
    }
    write_whole(file, "".join(f"{join_key_value(key, value)}\n" for key, value in keys.items()))
    name = f"worker-{topic}"
    argv = [sys.executable, "-m", "drlib.cli", "mirror", str(file)]
    log = site.root / f"{name}.log"
    record = site.lab.registry.start(name, argv, log=log, env={"PYTHONPATH": python_path()["PYTHONPATH"]})
    try:
        with tempfile.TemporaryDirectory(prefix="run-", dir=site.root) as folder:
            place = DrillContext(
                clusters=load_mirror_settings(file).clusters,
                flow=flow,
                run_dir=Path(folder),
                properties=file,
                pointer=Path(folder) / pointers.POINTER_NAME,
            )
            if workload.kind is Kind.FAILOVER and place.pointer is not None:
                pointer_file.write_atomic(place.pointer, pointers.Pointer(1, source, site.source_direct))
            yield _Scene(site, workload, place, topic, record.pid)
    finally:
        site.lab.registry.stop(name, deadline_s=15.0)
