"""How ready a real flow is: all is well, then one fault after another is planted, named with its fix, and mended by it."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from confluent_kafka import Consumer
from fix_engine import Engine, alter, create_topic, produce, wait_for
from sample_scorecard import scorecard

from drlib.config.settings import load_mirror_settings
from drlib.drill.plan.plan import Argument, Call, Mode
from drlib.drill.readiness import gate
from drlib.drill.readiness.checks.objectives import Objectives
from drlib.drill.readiness.doctor import doctor
from drlib.drill.readiness.score import CHECKS, MINIMUM, Finding, Readiness, Severity
from drlib.drill.run.registry import PROBES, find
from drlib.drill.step.action import Answer
from drlib.drill.step.context import DrillContext
from drlib.errors import DrlibError
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.descriptions import CommittedOffset
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.lab import jars
from drlib.lab.lab import Lab
from drlib.model import Flow, TopicPartition
from drlib.runs.abort import Abort
from drlib.ui.terminal.doctor import readiness_of

DAY_MS = 86_400_000
TOOLS = {"kafka-topics.sh": "org.apache.kafka.tools.TopicCommand"}


@dataclass
class Patient:
    """A running flow with a topic of two partitions, a group that stands in it, and a drill of two days ago."""

    engine: Engine
    runs: Path
    tag: str
    healthy: list[int] = field(default_factory=list)

    @property
    def topic(self) -> str:
        return f"orders-{self.tag}"

    @property
    def mirror(self) -> str:
        return f"{self.engine.source}.{self.topic}"

    @property
    def group(self) -> str:
        return f"billing-{self.tag}"

    def at(self, cluster: str) -> Cluster:
        return Cluster(ClusterSettings(cluster, (self.engine.left if cluster == "LEFT" else self.engine.right,)))

    def commit(self, cluster: str, group: str, topic: str, *offsets: int) -> None:
        wanted = {TopicPartition(topic, n): CommittedOffset(at) for n, at in enumerate(offsets)}

        def committed() -> bool:
            try:
                handle.alter_group_offsets(group, wanted)
            except DrlibError as error:  # a cluster's first group waits for its coordinator to be made and loaded
                if not error.retriable and getattr(error, "code", "") != "NOT_COORDINATOR":
                    raise
                return False
            return True

        with self.at(cluster) as handle:
            wait_for(f"{group} has positions", committed, 20)

    def look(self, objectives: Objectives | None = None, file: Path | None = None) -> Readiness:
        settings = load_mirror_settings(file or self.engine.properties)
        (found,) = doctor(settings, objectives=objectives, runs=self.runs)
        return found


@pytest.fixture(scope="module")
def patient(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Patient]:
    root, tag = tmp_path_factory.mktemp("doctor"), uuid.uuid4().hex[:6]
    left, right = lab.clusters["LEFT"].bootstrap, lab.clusters["RIGHT"].bootstrap
    extra = {
        "groups": f".*{tag}",
        "heartbeats.replication.enabled": "false",
        "drlib.metrics.address": "127.0.0.1:0",
        "drlib.forecast.interval.ms": "200",
    }
    engine = Engine(root, left, right, f"SRC{tag}", f"DST{tag}", f"orders-{tag}", extra)
    found = Patient(engine, root / "runs", tag)
    run = found.runs / "20261119T100000Z-failover-drill-9f31c2"
    run.mkdir(parents=True)
    scorecard(finished_ms=int(time.time() * 1000) - 2 * DAY_MS).write(run / "scorecard.json")
    create_topic(left, found.topic, 2)
    produce(left, found.topic, 1000, partitions=2)
    found.commit("LEFT", found.group, found.topic, 120, 130)
    engine.start()
    engine.wait_caught_up(found.topic, 2)
    try:
        yield found
    finally:
        engine.close()


def named(found: Readiness, check: str, verdict: Severity, entity: str) -> Finding:
    """The one finding of `check` about `entity`."""
    mine = [f for f in found.findings if f.check == check and f.entity == entity]
    assert [f.severity for f in mine] == [verdict], found.findings
    return mine[0]


def others_are_ok(found: Readiness, *checks: str) -> None:
    wrong = [f for f in found.findings if f.check not in checks and f.severity is not Severity.OK]
    assert not wrong


def run_with_kafkas_own_tool(command: str) -> None:
    name, *words = shlex.split(command)
    classpath = os.pathsep.join(str(jar) for jar in jars.classpath("kafka"))
    argv = [str(jars.java().path), "-cp", classpath, TOOLS[name], *words]
    result = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


def test_doctor_healthy_flow_scores_100(patient: Patient) -> None:
    def well() -> bool:
        return patient.look().score == 100

    wait_for("the worker's first heartbeats and looks", well, 20)
    found = patient.look()
    assert {f.check for f in found.findings} == {check.id for check in CHECKS}
    others_are_ok(found)
    assert named(found, "groups-exact", Severity.OK, "").evidence == "2 positions of 1 group: all exact"
    assert named(found, "drill-age", Severity.OK, "").expires_ms > found.at_ms + 27 * DAY_MS


def probed(patient: Patient, name: str, **arguments: object) -> Answer:
    """What a hypothesis's probe says of the flow."""
    place, values = workplace(patient), tuple(Argument(key, value) for key, value in arguments.items())  # type: ignore[arg-type]
    return find(PROBES, name, "here").parse(Call(name, values), "here").bind(place)(Abort(place.run_dir))


def workplace(patient: Patient) -> DrillContext:
    settings = load_mirror_settings(patient.engine.properties)
    run_dir, flow = patient.runs / "drill", Flow(patient.engine.source, patient.engine.target)
    return DrillContext(clusters=settings.clusters, flow=flow, run_dir=run_dir, properties=settings.path)


def test_gate_open_and_probes_hold_on_healthy_flow(patient: Patient) -> None:
    source, target = patient.engine.source, patient.engine.target
    assert gate.pass_gate(workplace(patient), Mode.PLANNED) == f"open: {source}->{target} scores 100 of 100, 80 asked"
    assert gate.pass_gate(workplace(patient), Mode.EMERGENCY, skip="it\nburns") == "skipped: it burns"
    for name, arguments, holds, told in (
        ("cluster.answers", {"cluster": target}, True, f"{target} is cluster "),
        ("topic.exists", {"cluster": target, "topic": patient.mirror, "partitions": 2}, True, "has 2 partitions"),
        ("topic.exists", {"cluster": target, "topic": patient.mirror, "partitions": 3}, False, "3 are asked for"),
        ("topic.exists", {"cluster": target, "topic": "none"}, False, "there is no topic none"),
        ("mirror.lag", {"at_most": 0}, True, "0 records of "),
        (
            "group.active",
            {"cluster": source, "group": patient.group, "within_seconds": 0.5},
            False,
            "2 positions do not move",
        ),
        ("readiness.score", {"at_least": 100}, True, "scores 100 of 100"),
    ):
        answer = probed(patient, name, **arguments)  # type: ignore[arg-type]
        assert (answer.holds, told in answer.evidence) == (holds, True), (name, answer)


def test_probe_group_active_with_members(patient: Patient) -> None:
    group, handle = f"moves-{patient.tag}", patient.engine.left
    consumer = Consumer(
        {"bootstrap.servers": handle, "group.id": group, "auto.offset.reset": "earliest", "log_level": 0}
    )
    consumer.subscribe([patient.topic])
    try:
        wait_for("it has its partitions", lambda: consumer.poll(0.1) is not None and bool(consumer.assignment()), 30)
        answer = probed(patient, "group.active", cluster=patient.engine.source, group=group)
        assert (answer.holds, "1 members" in answer.evidence) == (True, True), answer
    finally:
        consumer.close()
    with patient.at("LEFT") as left:
        left.delete_group(group)


def test_doctor_group_reading_unmirrored_topic_is_named(patient: Patient) -> None:
    topic, group = f"refunds-{patient.tag}", f"books-{patient.tag}"
    create_topic(patient.engine.left, topic, 1)
    patient.commit("LEFT", group, topic, 0)
    found = patient.look()
    finding = named(found, "groups-mirrored", Severity.WARN, group)
    assert topic in finding.evidence
    assert f"Add {topic} to '{patient.engine.source}->{patient.engine.target}.topics'" in finding.fix
    assert found.score < 100
    others_are_ok(found, "groups-mirrored")
    with patient.at("LEFT") as left:
        left.delete_group(group)
    assert patient.look().score == 100


def test_doctor_topic_differences_are_fixed_by_printed_commands(patient: Patient) -> None:
    with patient.at("RIGHT") as right:
        right.create_partitions(patient.mirror, 3)
    alter(patient.engine.right, patient.mirror, "delete.retention.ms", "12345678")
    alter(patient.engine.left, patient.topic, "retention.ms", "60000")
    found = patient.look()
    settings = named(found, "topic-settings", Severity.WARN, patient.mirror)
    assert "delete.retention.ms: 12345678 -> (default)" in settings.evidence
    assert "--delete-config delete.retention.ms" in settings.fix
    assert "--add-config retention.ms=60000" in settings.fix
    kept = named(found, "retention", Severity.WARN, patient.topic)
    assert "it keeps records for 60 s" in kept.evidence
    assert "--add-config retention.ms=7200000" in kept.fix
    grown = named(found, "partitions", Severity.WARN, patient.topic)
    assert "2 partitions, 3 of" in grown.evidence
    others_are_ok(found, "topic-settings", "retention", "partitions")
    assert found.score < 95
    run_with_kafkas_own_tool(grown.fix)
    alter(patient.engine.left, patient.topic, "retention.ms", "604800000")

    def only_settings() -> bool:
        return {f.check for f in patient.look().findings if f.severity is not Severity.OK} == {"topic-settings"}

    wait_for("the partition that is new on both sides is mirrored", only_settings, 20)


def test_doctor_position_ahead_and_no_drill_lower_score(patient: Patient, tmp_path: Path) -> None:
    looks: list[Readiness] = []

    def only_settings() -> bool:
        looks.append(patient.look())
        return {f.check for f in looks[-1].findings if f.severity is not Severity.OK} <= {"topic-settings"}

    wait_for("nothing else costs points", only_settings, 20)
    patient.commit("RIGHT", patient.group, patient.mirror, 125, 130)
    settings = load_mirror_settings(patient.engine.properties)
    (found,) = doctor(settings, runs=tmp_path / "cannot be moved")
    ahead = named(found, "positions-ahead", Severity.WARN, patient.group)
    there = re.search(r"committed offset 125 is \d+ ahead of the source's position, (\d+)", ahead.evidence)
    assert there is not None, ahead
    assert 120 <= int(there[1]) < 125  # markers of the mirror's claims take an offset each
    assert f"--topic {patient.mirror}:0 --reset-offsets --to-offset {there[1]}" in ahead.fix
    assert (
        "no drill is recorded" in named(found, "drill-age", Severity.WARN, str(tmp_path / "cannot be moved")).evidence
    )
    assert found.score < looks[-1].score
    with patient.at("RIGHT") as right:
        right.delete_group(patient.group)


def test_doctor_stopped_worker_closes_gate(patient: Patient) -> None:
    before = patient.look()
    assert patient.engine.stop(patient.engine.processes[0]) == 0, patient.engine.log()
    produce(patient.engine.left, patient.topic, 60, partitions=3)
    patient.commit("LEFT", patient.group, patient.topic, 515, 130)
    alter(patient.engine.left, patient.topic, "retention.ms", "600000")
    found = patient.look(Objectives(rpo_records=10))
    start = f"drlib mirror {patient.engine.properties}"
    assert start in named(found, "worker", Severity.CRITICAL, found.flow).fix
    lag = named(found, "lag", Severity.CRITICAL, found.flow)
    assert "60 records not on the target" in lag.evidence
    assert start in lag.fix
    placed = named(found, "groups-exact", Severity.WARN, patient.group)
    assert "1 position ahead of the mirror by 15 records" in placed.evidence
    soon = [f for f in found.findings if f.check == "retention"]
    assert {f.entity for f in soon} == {f"{patient.topic}-{n}" for n in range(3)}
    assert all("by retention.ms" in f.evidence and f.severity is Severity.WARN for f in soon)
    assert found.score < before.score - 20
    # the gate, as a script meets it
    command = [sys.executable, "-m", "drlib.cli", "doctor", str(patient.engine.properties), "--json"]
    command += ["--rpo-records", "10", "--runs-dir", str(patient.runs)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 3, result.stderr
    assert "not ready for a failover" in result.stderr
    assert "Traceback" not in result.stderr
    (row,) = json.loads(result.stdout)
    assert (row["ready"], row["minimum"]) == (False, MINIMUM)
    assert row["findings"][0]["verdict"] == "critical"
    assert row["findings"][0]["expires_at_ms"] > row["at_ms"]


def test_doctor_unreachable_source_keeps_target_findings(patient: Patient) -> None:
    """Asked of a file whose source is at an address where nobody is."""
    text = patient.engine.properties.read_text()
    file = patient.engine.properties.with_name("dead.properties")
    file.write_text(text.replace(f"{patient.engine.source}.bootstrap.servers = {patient.engine.left}",
                                 f"{patient.engine.source}.bootstrap.servers = 127.0.0.1:1"))  # fmt: skip
    found = patient.look(file=file)
    named(found, "source-answers", Severity.CRITICAL, patient.engine.source)
    named(found, "target-answers", Severity.OK, "")
    named(found, "durability", Severity.OK, "")
    named(found, "rights", Severity.OK, "")
    named(found, "cluster-ids", Severity.UNKNOWN, patient.engine.source)
    for check in ("lag", "retention", "groups-mirrored", "partitions", "topic-settings"):
        assert found.severity(check) is Severity.UNKNOWN, check
    # positions come from the checkpoints, which are as old as their headers say
    assert {f.entity for f in found.findings if f.check == "groups-exact"} <= {"", patient.group}
    assert not found.ready(0)
    assert readiness_of([found], MINIMUM)
