"""Runs keep who uses the topics they move; afterwards those who stayed are listed until they are gone.

Real groups, share groups, a Kafka Streams application of KIP-1071 and producers; a source that is killed.
"""

from __future__ import annotations

import json
import subprocess
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from command_line import drlib
from confluent_kafka import AcknowledgeType, Consumer, Producer
from deadline import Deadline
from fix_engine import Engine, create_topic, produce, wait_for
from fix_lab import LabFactory
from testbed_moves import Place, drill, in_process, step
from testbed_share_groups import begin_at_earliest, consume, in_group
from testbed_streams import sums_command

from drlib.config.settings import load_mirror_settings
from drlib.drill.inventory.kept import read_kept
from drlib.drill.inventory.left_behind import Stand
from drlib.drill.inventory.rules import Application, Kind, Way
from drlib.drill.plan.plan import Mode
from drlib.drill.readiness.observe.applications.applications import take_inventory
from drlib.drill.run.request import Request
from drlib.drill.step.step_output import read_part
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.descriptions import GroupState
from drlib.lab.lab import Lab
from drlib.mirror.offsets.translation.translate_groups import checkpointed_positions
from drlib.mirror.offsets.translation.two_way import groups_of
from drlib.model import Flow

IDENTITY = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"


@dataclass
class Site:
    """A mirrored topic, and a file of clusters that no other test has."""

    engine: Engine
    tag: str

    @property
    def topic(self) -> str:
        return f"left.{self.tag}"

    @property
    def flow(self) -> Flow:
        return Flow(self.engine.source, self.engine.target)

    def member(self, group: str) -> Consumer:
        """A consumer of the source that has partitions and has committed."""
        config = {"bootstrap.servers": self.engine.left, "group.id": group, "client.id": f"{group}-1", "log_level": 0}
        consumer = Consumer({**config, "auto.offset.reset": "earliest", "enable.auto.commit": False})
        consumer.subscribe([self.topic])
        deadline = Deadline(60)
        while (message := consumer.poll(0.2)) is None or message.error() is not None:
            assert not deadline.passed, f"{group} was given no record"
        consumer.commit(message, asynchronous=False)
        return consumer

    def run(self, folder: Path, *actions: str, mode: Mode = Mode.PLANNED) -> None:
        """A run of these actions, as the command line leaves it."""
        folder.mkdir(parents=True)
        Request(runbook=Path("moving.yaml"), properties=self.engine.properties).write(folder)
        place = Place(
            properties=str(self.engine.properties),
            pointer=str(folder.parent.parent / "pointer.json"),
            source=self.engine.source,
            target=self.engine.target,
        )
        wanted = replace(drill(*(step(name.replace(".", "-"), name) for name in actions), mode=mode), flow=self.flow)
        assert in_process(folder, wanted, place) == 0

    def left(self, runs: Path, run: str, code: int) -> dict[str, tuple[str, str]]:
        """What `drlib inventory --left-behind` says: where each application is, and why."""
        answer = drlib(
            "inventory", str(self.engine.properties), "--left-behind", run, "--runs-dir", str(runs), "--json"
        )
        assert answer.returncode == code, answer.stdout + answer.stderr
        return {row["name"]: (row["stand"], row["why"]) for row in json.loads(answer.stdout)["applications"]}


@pytest.fixture
def site(lab: Lab, tmp_path: Path) -> Iterator[Site]:
    tag = uuid.uuid4().hex[:6]
    left, right = lab.clusters["LEFT"].bootstrap, lab.clusters["RIGHT"].bootstrap
    extra = {"groups": f".*-{tag}"}
    engine = Engine(tmp_path, left, right, f"SRC{tag}", f"DST{tag}", f"left.{tag}", extra)
    found = Site(engine, tag)
    try:
        create_topic(left, found.topic, 2)
        produce(left, found.topic, 20, partitions=2)
        engine.start()
        engine.wait_caught_up(found.topic, 2)
        yield found
    finally:
        engine.close()


def test_those_left_behind_by_a_move_are_listed_until_they_are_closed(site: Site, tmp_path: Path) -> None:
    moves, stays, share = (f"{name}-{site.tag}" for name in ("moves", "stays", "share"))
    runs = tmp_path / "runs"
    begin_at_earliest(site.engine.left, share)
    writer = Producer({"bootstrap.servers": site.engine.left, "enable.idempotence": True, "log_level": 0})
    with ExitStack() as open_ones:
        shared = open_ones.enter_context(in_group(site.engine.left, share, site.topic))
        consume(shared, lambda _: AcknowledgeType.ACCEPT, lambda seen: len(seen) >= 5)
        mover, stayer = site.member(moves), site.member(stays)
        open_ones.callback(stayer.close)
        site.run(runs / "20260101T000000Z-moving-000001", "inventory.take", "pointer.move")
        (kept,) = read_kept(runs / "20260101T000000Z-moving-000001")
        table = read_part(runs / "20260101T000000Z-moving-000001", "inventory-take").tables[0]
        mover.close()
        writer.produce(site.topic, b"late")
        assert writer.flush(30) == 0
        before = site.left(runs, "20260101T000000Z-moving-000001", 3)
        status = drlib("status", str(site.engine.properties), "--runs-dir", str(runs))
    rows = {row.name: row for row in kept.movers}
    assert {rows[name].members for name in (moves, stays, share)} == {1}
    assert rows[stays].clients == (f"{stays}-1",)
    assert rows[share].hosts == ("127.0.0.1",)
    active = {name: (rows[name].last_ms or 0) > kept.taken_ms - 120_000 for name in (moves, stays, share)}
    assert all(active.values()), (active, kept.inventory.notes)
    assert {moves, stays, share} <= {row[0] for row in table.rows}
    assert before[stays] == (Stand.THERE, "it has 1 member")
    assert before[share] == (Stand.THERE, "it has 1 member")
    assert before[moves] == (Stand.GONE, "it has no members")
    assert (Stand.NEW, "it wrote after the move") in before.values()  # whose ID was not known before
    assert f"LEFT BEHIND on {site.engine.source}" in status.stdout, status.stdout + status.stderr
    assert f"{stays}-1" in status.stdout

    def groups_left() -> dict[str, str]:
        answer = drlib(
            "inventory", str(site.engine.properties), "--left-behind", "20260101T000000Z-moving-000001",
            "--runs-dir", str(runs), "--json",
        )  # fmt: skip
        found = json.loads(answer.stdout)["applications"]
        return {row["name"]: row["stand"] for row in found if row["name"] in (moves, stays, share)}

    wait_for("none is left", lambda: set(groups_left().values()) == {Stand.GONE})
    status = drlib("status", str(site.engine.properties), "--runs-dir", str(runs))
    assert stays not in status.stdout


def test_inventory_of_share_and_streams_groups_has_members_and_when_they_were_active(
    site: Site, tmp_path: Path
) -> None:
    share, sums = f"share-{site.tag}", f"sums-{site.tag}"
    numbers, totals = f"numbers-{site.tag}", f"totals-{site.tag}"
    for topic in (numbers, totals):
        create_topic(site.engine.left, topic, 1)
    writer = Producer({"bootstrap.servers": site.engine.left, "log_level": 0})
    for number in range(10):
        writer.produce(numbers, key=f"{number}/k", value=str(number))
    assert writer.flush(30) == 0
    file = tmp_path / "all.properties"
    file.write_text(
        site.engine.properties.read_text() + f"topics = .*{site.tag}.*\nreplication.policy.class = {IDENTITY}\n"
    )
    settings = load_mirror_settings(file)
    flow = settings.flow(site.engine.source, site.engine.target)
    began_ms = int(time.time() * 1000)
    command = [*sums_command(site.engine.left, sums, tmp_path / "state", numbers, totals), "group.protocol=streams"]

    def seen() -> dict[str, Application]:
        found, _ = take_inventory(settings, [flow], only=[site.engine.source])
        assert not found.unknown, found.unknown
        assert not found.notes, found.notes
        return {row.name: row for row in found.applications}

    begin_at_earliest(site.engine.left, share)
    log = tmp_path / "sums.log"
    with log.open("wb") as out, subprocess.Popen(command, stdout=out, stderr=out) as process:
        try:
            with in_group(site.engine.left, share, site.topic) as consumer:
                consume(consumer, lambda _: AcknowledgeType.ACCEPT, lambda found: len(found) >= 5)
                wait_for(
                    "the application has committed",
                    lambda: sums in (rows := seen()) and rows[sums].last_ms is not None,
                    deadline_s=90,
                )
                rows = seen()
            moved = groups_of(settings, flow.flow)  # of a planned move, which waits for those that have members
            with Cluster(settings.clusters[site.engine.source]) as cluster:
                states = cluster.group_states([sums, share])
        finally:
            process.kill()
    assert (sums in moved, share in moved) == (True, False), moved
    assert states == {sums: GroupState.ACTIVE, share: GroupState.ABSENT}  # no group with committed offsets
    assert (rows[share].kind, rows[share].members, rows[share].hosts) == (Kind.SHARE, 1, ("127.0.0.1",))
    assert rows[share].clients
    assert rows[share].topics == (site.topic,)
    assert (rows[share].last_ms or 0) >= began_ms
    assert (rows[sums].kind, rows[sums].hosts, rows[sums].way) == (Kind.STREAMS, ("127.0.0.1",), Way.ADDRESS)
    assert rows[sums].members == 1
    assert rows[sums].clients
    assert {numbers, f"{sums}-total-changelog", f"{sums}-by-key-repartition"} <= set(rows[sums].topics)
    assert (rows[sums].last_ms or 0) >= began_ms


def test_inventory_of_a_dead_source_is_what_the_target_knows_and_what_the_last_run_kept(
    lab_factory: LabFactory, tmp_path: Path
) -> None:
    lab = lab_factory()
    left, right = lab.clusters["LEFT"].bootstrap, lab.clusters["RIGHT"].bootstrap
    engine = Engine(tmp_path, left, right, "LEFT", "RIGHT", "left.*")
    site = Site(engine, "dead")
    runs = tmp_path / "runs"
    try:
        create_topic(left, site.topic, 1)
        produce(left, site.topic, 20, partitions=1)
        engine.start()
        engine.wait_caught_up(site.topic, 1)
        billing = site.member("billing")
        site.run(runs / "20260101T000000Z-moving-000001", "inventory.take")
        later = site.member("later")
        settings = load_mirror_settings(engine.properties)
        wait_for(
            "its checkpoint is there",
            lambda: "later" in {group for group, _ in checkpointed_positions(settings, site.flow)},
        )
        billing.close()
        later.close()
        lab.clusters["LEFT"].kill()
        folder = runs / "20260102T000000Z-moving-000002"
        site.run(folder, "inventory.take", "pointer.move", mode=Mode.EMERGENCY)
        (kept,) = read_kept(folder)
        table = read_part(folder, "inventory-take").tables[0]
        left_there = site.left(runs, folder.name, 3)
    finally:
        engine.close()
    rows = {row.name: row for row in kept.movers}
    assert kept.older == "20260101T000000Z-moving-000001"
    assert (rows["billing"].clients, rows["billing"].members) == (("billing-1",), 1)
    assert rows["billing"].known_by == "run 20260101T000000Z-moving-000001"
    assert rows["later"].known_by == "checkpoints on RIGHT"
    assert rows["later"].members is None
    assert "LEFT did not answer" in table.caption
    assert kept.older in table.caption
    assert left_there["billing"][0] == Stand.NOT_KNOWN
    assert "LEFT does not answer" in left_there["billing"][1]
