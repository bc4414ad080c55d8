"""How ready a real flow is: all is well, then one fault after another is planted, named with its fix, and mended by it."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import time
import urllib.request
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from confluent_kafka import Consumer
from fix_engine import Engine, alter, create_topic, delete_records, produce, wait_for
from prometheus_client.parser import text_string_to_metric_families
from sample_scorecard import finished_run, scorecard
from testbed_share_groups import in_group, members_gone

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
from drlib.mirror.offsets.translation.translate_groups import translate_groups
from drlib.model import Flow, TopicPartition
from drlib.runs.abort import Abort
from drlib.ui.terminal.doctor import render_readiness

DAY_MS = 86_400_000
TOOLS = {"kafka-topics.sh": "org.apache.kafka.tools.TopicCommand"}


@dataclass
class DoctoredFlow:
    """A running flow with a topic of two partitions, a group with committed offsets in it, and a drill of two days ago."""

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

    def diagnose(self, objectives: Objectives | None = None, file: Path | None = None) -> Readiness:
        settings = load_mirror_settings(file or self.engine.properties)
        (found,) = doctor(settings, objectives=objectives, runs=self.runs)
        return found


@pytest.fixture(scope="module")
def flow(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DoctoredFlow]:
    root, tag = tmp_path_factory.mktemp("doctor"), uuid.uuid4().hex[:6]
    left, right = lab.clusters["LEFT"].bootstrap, lab.clusters["RIGHT"].bootstrap
    extra = {
        "groups": f".*{tag}",
        "heartbeats.replication.enabled": "false",
        "drlib.metrics.address": "127.0.0.1:0",
        "drlib.forecast.interval.ms": "200",
    }
    engine = Engine(root, left, right, f"SRC{tag}", f"DST{tag}", f"orders-{tag}", extra)
    found = DoctoredFlow(engine, root / "runs", tag)
    run = found.runs / "20261119T100000Z-failover-drill-9f31c2"
    drill = {"flow": f"{engine.source}->{engine.target}"}
    finished_run(run, scorecard(finished_ms=int(time.time() * 1000) - 2 * DAY_MS, environment=drill))
    create_topic(left, found.topic, 2)
    create_topic(right, found.topic, 3)  # what producers write to after a failover
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


def test_doctor_exports_readiness_to_a_textfile_and_at_an_address_that_checks_again(
    flow: DoctoredFlow, tmp_path: Path
) -> None:
    page = tmp_path / "drlib.prom"
    command = [sys.executable, "-m", "drlib.cli", "doctor", str(flow.engine.properties), "--runs-dir", str(flow.runs)]
    done = subprocess.run([*command, "--textfile", str(page)], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode in (0, 3), done.stderr
    assert page.stat().st_mode & 0o777 == 0o644
    labels = {"source": flow.engine.source, "target": flow.engine.target}
    first = samples(page.read_text(), labels)
    assert first["drlib_readiness_ready"] == (done.returncode == 0)
    assert 0 < first["drlib_readiness_score"] <= 100
    assert time.time() - first["drlib_readiness_timestamp_seconds"] < 120

    service = subprocess.Popen(
        [*command, "--metrics", "127.0.0.1:0", "--every", "200ms"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert service.stdout is not None
        address = service.stdout.readline().split()[-1]
        seen: list[float] = []

        def checked_twice() -> bool:
            with urllib.request.urlopen(address, timeout=10) as answer:
                at = samples(answer.read().decode(), labels).get("drlib_readiness_timestamp_seconds")
            seen.extend([] if at is None else [at])
            return bool(seen) and seen[-1] > seen[0]

        wait_for("the flow was checked twice", checked_twice, 120)
        line = service.stdout.readline()
        assert re.fullmatch(rf"{labels['source']}->{labels['target']}: \d+ of 100, (not )?ready\n", line)
    finally:
        service.kill()
        service.communicate()


def samples(page: str, labels: dict[str, str]) -> dict[str, float]:
    """The values of the metrics that have no other labels than these, by name."""
    return {
        sample.name: sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
        if sample.labels == labels
    }


def others_are_ok(found: Readiness, *checks: str) -> None:
    wrong = [f for f in found.findings if f.check not in checks and f.severity is not Severity.OK]
    assert not wrong


def run_with_kafkas_own_tool(command: str) -> None:
    name, *words = shlex.split(command)
    classpath = os.pathsep.join(str(jar) for jar in jars.classpath("kafka"))
    argv = [str(jars.java().path), "-cp", classpath, TOOLS[name], *words]
    result = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


def test_doctor_healthy_flow_scores_100(flow: DoctoredFlow) -> None:
    def well() -> bool:
        return flow.diagnose().score == 100

    wait_for("the worker's first heartbeats and looks", well, 20)
    found = flow.diagnose()
    assert {f.check for f in found.findings} == {check.id for check in CHECKS}
    others_are_ok(found)
    assert named(found, "groups-exact", Severity.OK, "").evidence == "2 positions of 1 group: all exact"
    assert named(found, "drill-age", Severity.OK, "").expires_ms > found.at_ms + 27 * DAY_MS


def probed(flow: DoctoredFlow, name: str, **arguments: object) -> Answer:
    """The answer of a steady-state probe about the flow."""
    place, values = workplace(flow), tuple(Argument(key, value) for key, value in arguments.items())  # type: ignore[arg-type]
    return find(PROBES, name, "here").parse(Call(name, values), "here").bind(place)(Abort(place.run_dir))


def workplace(flow: DoctoredFlow) -> DrillContext:
    settings = load_mirror_settings(flow.engine.properties)
    run_dir, direction = flow.runs / "drill", Flow(flow.engine.source, flow.engine.target)
    return DrillContext(clusters=settings.clusters, flow=direction, run_dir=run_dir, properties=settings.path)


def test_gate_open_and_probes_hold_on_healthy_flow(flow: DoctoredFlow) -> None:
    source, target = flow.engine.source, flow.engine.target
    assert gate.pass_gate(workplace(flow), Mode.PLANNED) == f"open: {source}->{target} scores 100 of 100, 80 required"
    assert gate.pass_gate(workplace(flow), Mode.EMERGENCY, skip="it\nburns") == "skipped: it burns"
    for name, arguments, holds, evidence in (
        ("cluster.answers", {"cluster": target}, True, f"{target} is cluster "),
        ("topic.exists", {"cluster": target, "topic": flow.mirror, "partitions": 2}, True, "has 2 partitions"),
        ("topic.exists", {"cluster": target, "topic": flow.mirror, "partitions": 3}, False, "3 are required"),
        ("topic.exists", {"cluster": target, "topic": "none"}, False, "there is no topic none"),
        ("mirror.lag", {"at_most": 0}, True, "0 records of "),
        (
            "group.active",
            {"cluster": source, "group": flow.group, "within_seconds": 0.5},
            False,
            "2 positions do not move",
        ),
        ("readiness.score", {"at_least": 100}, True, "scores 100 of 100"),
    ):
        answer = probed(flow, name, **arguments)
        assert (answer.holds, evidence in answer.evidence) == (holds, True), (name, answer)


def test_probe_group_active_with_members(flow: DoctoredFlow) -> None:
    group, handle = f"moves-{flow.tag}", flow.engine.left
    consumer = Consumer(
        {"bootstrap.servers": handle, "group.id": group, "auto.offset.reset": "earliest", "log_level": 0}
    )
    consumer.subscribe([flow.topic])
    try:
        wait_for("it has its partitions", lambda: consumer.poll(0.1) is not None and bool(consumer.assignment()), 30)
        answer = probed(flow, "group.active", cluster=flow.engine.source, group=group)
        assert (answer.holds, "1 members" in answer.evidence) == (True, True), answer
    finally:
        consumer.close()
    with flow.at("LEFT") as left:
        left.delete_group(group)


def test_probe_group_active_with_members_of_a_share_group(flow: DoctoredFlow) -> None:
    group = f"shared-{flow.tag}"
    with in_group(flow.engine.left, group, flow.topic) as consumer:
        consumer.poll(1)
        wait_for("it is a member", lambda: not members_gone(flow.engine.left, group), 30)
        answer = probed(flow, "group.active", cluster=flow.engine.source, group=group, within_seconds=0.5)
    assert answer.holds, answer


def test_doctor_group_reading_unmirrored_topic_is_named(flow: DoctoredFlow) -> None:
    topic, group = f"refunds-{flow.tag}", f"books-{flow.tag}"
    create_topic(flow.engine.left, topic, 1)
    flow.commit("LEFT", group, topic, 0)
    found = flow.diagnose()
    finding = named(found, "groups-mirrored", Severity.WARN, group)
    assert topic in finding.evidence
    assert f"Add {topic} to '{flow.engine.source}->{flow.engine.target}.topics'" in finding.fix
    assert found.score < 100
    others_are_ok(found, "groups-mirrored")
    with flow.at("LEFT") as left:
        left.delete_group(group)
    assert flow.diagnose().score == 100


def test_doctor_topic_differences_are_fixed_by_printed_commands(flow: DoctoredFlow) -> None:
    with flow.at("RIGHT") as right:
        right.create_partitions(flow.mirror, 3)
    alter(flow.engine.right, flow.mirror, "delete.retention.ms", "12345678")
    alter(flow.engine.left, flow.topic, "retention.ms", "60000")
    found = flow.diagnose()
    settings = named(found, "topic-settings", Severity.WARN, flow.mirror)
    assert "delete.retention.ms: 12345678 -> (default)" in settings.evidence
    assert "--delete-config delete.retention.ms" in settings.fix
    assert "--add-config retention.ms=60000" in settings.fix
    kept = named(found, "retention", Severity.WARN, flow.topic)
    assert "it keeps records for 60 s" in kept.evidence
    assert "--add-config retention.ms=7200000" in kept.fix
    grown = named(found, "partitions", Severity.WARN, flow.topic)
    assert "2 partitions, 3 of" in grown.evidence
    named(found, "producer-topics", Severity.WARN, flow.topic)
    others_are_ok(found, "topic-settings", "retention", "partitions", "producer-topics")
    assert found.score < 95
    run_with_kafkas_own_tool(grown.fix)
    alter(flow.engine.left, flow.topic, "retention.ms", "-1")  # as the clusters of these tests keep records by default

    def only_settings() -> bool:
        return {f.check for f in flow.diagnose().findings if f.severity is not Severity.OK} == {"topic-settings"}

    wait_for("the partition that is new on both sides is mirrored", only_settings, 20)


def test_doctor_position_ahead_and_no_drill_lower_score(flow: DoctoredFlow, tmp_path: Path) -> None:
    readings: list[Readiness] = []

    def only_settings() -> bool:
        readings.append(flow.diagnose())
        return {f.check for f in readings[-1].findings if f.severity is not Severity.OK} <= {"topic-settings"}

    wait_for("nothing else costs points", only_settings, 20)
    flow.commit("RIGHT", flow.group, flow.mirror, 125, 130)
    settings = load_mirror_settings(flow.engine.properties)
    (found,) = doctor(settings, runs=tmp_path / "cannot be moved")
    ahead = named(found, "positions-ahead", Severity.WARN, flow.group)
    match = re.search(r"committed offset 125 is \d+ ahead of the source's position, (\d+)", ahead.evidence)
    assert match is not None, ahead
    assert 120 <= int(match[1]) < 125  # markers of the mirror's claims take an offset each
    assert f"--topic {flow.mirror}:0 --reset-offsets --to-offset {match[1]}" in ahead.fix
    none = named(found, "drill-age", Severity.WARN, str(tmp_path / "cannot be moved"))
    assert f"no drill of {found.flow} is recorded" in none.evidence
    assert found.score < readings[-1].score
    with flow.at("RIGHT") as right:
        right.delete_group(flow.group)


def test_doctor_stopped_worker_closes_gate(flow: DoctoredFlow) -> None:
    before = flow.diagnose()
    assert flow.engine.stop(flow.engine.processes[0]) == 0, flow.engine.log()
    produce(flow.engine.left, flow.topic, 60, partitions=3)
    flow.commit("LEFT", flow.group, flow.topic, 515, 130)
    alter(flow.engine.left, flow.topic, "retention.ms", "600000")
    found = flow.diagnose(Objectives(rpo_records=10))
    start = f"drlib mirror {flow.engine.properties}"
    assert start in named(found, "worker", Severity.CRITICAL, found.flow).fix
    lag = named(found, "lag", Severity.CRITICAL, found.flow)
    assert "60 records not on the target" in lag.evidence
    assert start in lag.fix
    placed = named(found, "groups-exact", Severity.WARN, flow.group)
    assert "1 position ahead of the mirror by 15 records" in placed.evidence
    soon = [f for f in found.findings if f.check == "retention"]
    assert {f.entity for f in soon} == {f"{flow.topic}-{n}" for n in range(3)}
    assert all("by retention.ms" in f.evidence and f.severity is Severity.WARN for f in soon)
    assert found.score < before.score - 20
    # the gate, as a script meets it
    command = [sys.executable, "-m", "drlib.cli", "doctor", str(flow.engine.properties), "--json"]
    command += ["--rpo-records", "10", "--runs-dir", str(flow.runs)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 3, result.stderr
    assert "not ready for a failover" in result.stderr
    assert "Traceback" not in result.stderr
    (row,) = json.loads(result.stdout)
    assert (row["ready"], row["minimum"]) == (False, MINIMUM)
    assert row["findings"][0]["verdict"] == "critical"
    assert row["findings"][0]["expires_at_ms"] > row["at_ms"]


def with_dead_source(flow: DoctoredFlow) -> Path:
    """A file that names a source address where no broker listens."""
    text = flow.engine.properties.read_text()
    file = flow.engine.properties.with_name("dead.properties")
    file.write_text(text.replace(f"{flow.engine.source}.bootstrap.servers = {flow.engine.left}",
                                 f"{flow.engine.source}.bootstrap.servers = 127.0.0.1:1"))  # fmt: skip
    return file


def test_doctor_unreachable_source_keeps_target_findings(flow: DoctoredFlow) -> None:
    found = flow.diagnose(file=with_dead_source(flow))
    named(found, "source-answers", Severity.CRITICAL, flow.engine.source)
    named(found, "target-answers", Severity.OK, "")
    named(found, "durability", Severity.OK, "")
    named(found, "rights", Severity.OK, "")
    named(found, "cluster-ids", Severity.UNKNOWN, flow.engine.source)
    for check in ("lag", "retention", "groups-mirrored", "partitions", "topic-settings"):
        assert found.severity(check) is Severity.UNKNOWN, check
    # positions come from the checkpoints, which are as old as their headers say
    assert {f.entity for f in found.findings if f.check == "groups-exact"} <= {"", flow.group}
    assert not found.ready(0)
    assert render_readiness([found], MINIMUM)


def test_doctor_group_that_is_idle_for_longer_than_records_are_kept_is_a_warning_whether_the_source_serves_or_not(
    flow: DoctoredFlow,
) -> None:
    idle, dead = f"idle-{flow.tag}", with_dead_source(flow)
    flow.engine.start()
    flow.commit("LEFT", idle, flow.topic, 10, 130)

    def known() -> bool:
        return idle in {position.group for position in translate_groups(settings, chosen, source_alive=False)}

    settings, chosen = load_mirror_settings(flow.engine.properties), Flow(flow.engine.source, flow.engine.target)
    wait_for("the group has a checkpoint", known, 30)
    delete_records(flow.engine.left, flow.topic, 100)
    delete_records(flow.engine.right, flow.mirror, 110)
    words = r"1 position before the log start on the target: \d+ records that it had not read have expired there"
    by_day = named(flow.diagnose(), "groups-exact", Severity.WARN, idle)
    assert re.match(words, by_day.evidence)
    lost = flow.diagnose(file=dead)
    assert re.match(words, named(lost, "groups-exact", Severity.WARN, idle).evidence)
    assert lost.emergency == ()
