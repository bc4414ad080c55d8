"""Applications move to the other cluster and back while both serve: nothing lost, nothing read twice, a short pause."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import AcknowledgeType, Consumer, Producer
from fix_engine import Engine, produce, read_all, wait_for, wait_for_markers
from repository_root import ROOT
from testbed_applications import Application, stage
from testbed_producer_ids import same_next_id
from testbed_share_groups import begin_at_earliest, consume, in_group, members_gone
from testbed_switchover import Following, Moving

import drlib
from drlib.client import pointer_file
from drlib.config.settings import load_mirror_settings
from drlib.drill.actions.applications.pointer_places import PointerPlaces
from drlib.drill.actions.applications.producer_ids import refuse_collisions
from drlib.drill.actions.clients.throttle_rules import EVERY_USER
from drlib.drill.actions.groups import commit as group_writing
from drlib.drill.plan.progress import Reach
from drlib.drill.step import step_output as details
from drlib.drill.step.context import DrillContext
from drlib.errors import Deviated, UsageError
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.connect import librdkafka
from drlib.kafka.admin.descriptions import CommittedOffset, Range
from drlib.kafka.admin.errors import GroupNotEmpty
from drlib.kafka.admin.group_offsets import commit_all, committed
from drlib.kafka.admin.quotas import STANDSTILL, Entity, producer_quotas, set_producer_quotas
from drlib.lab.checker import scan
from drlib.lab.checker.history import History, ProducedStatus
from drlib.lab.checker.round_trip import Trip, TripReport, check_round_trip
from drlib.lab.workload.topics import TopicSpec, create_topics
from drlib.mirror.offsets.unreplicated.lag import MirrorUnexplained, refuse_unexplained
from drlib.mirror.status import worker_status as status
from drlib.model import Flow, TopicPartition
from drlib.runs.abort import Abort
from drlib.runs.check import Verdict
from drlib.runs.scorecard import Scorecard

PARTITIONS = 6


@dataclass
class Both(Moving):
    """With the one topic that the applications use."""

    topic: str

    def ends(self, alias: str, topic: str) -> dict[TopicPartition, int]:
        with Cluster(self.place.cluster(alias)) as cluster:
            return cluster.log_ends(TopicPartition(topic, n) for n in range(PARTITIONS))

    def has_read(self, alias: str, group: str, topic: str) -> bool:
        """Does the group stand at the end of every partition of `topic` there?"""
        ends = self.ends(alias, topic)
        with Cluster(self.place.cluster(alias)) as cluster:
            at = cluster.group_offsets(group)
        return all(p in at and at[p].offset >= end for p, end in ends.items() if end)

    def judged(self, producer: Application, groups: dict[str, Application]) -> TripReport:
        history = producer.history()
        for application in groups.values():
            history += application.history()
        home, away = self.engine.source, self.engine.target
        return check_round_trip(
            Trip(
                home,
                away,
                self.topic,
                tuple(groups),
                history,
                (*scan.scan(self.engine.left, self.topic), *scan.scan(self.engine.left, f"{away}.{self.topic}")),
                (*scan.scan(self.engine.right, self.topic), *scan.scan(self.engine.right, f"{home}.{self.topic}")),
            )
        )


@pytest.fixture
def both(engine: Engine, tmp_path: Path) -> Iterator[Both]:
    engine.extra = {f"{engine.target}->{engine.source}.enabled": "true", "emit.heartbeats.enabled": "false"}
    topic = engine.topics
    for bootstrap in (engine.left, engine.right):
        create_topics(bootstrap, [TopicSpec(topic, PARTITIONS)])
    engine.start()
    settings = load_mirror_settings(engine.properties)
    run = tmp_path / "run"
    run.mkdir()
    with stage(tmp_path) as on:
        on.point(1, engine.source, engine.left)
        flow = Flow(engine.source, engine.target)
        place = DrillContext(
            clusters=settings.clusters, flow=flow, run_dir=run, properties=engine.properties, pointer=on.pointer
        )
        yield Both(engine, on, place, topic)


def runs(both: Both) -> bool:
    """Do the workers have all lanes of both flows?"""
    try:
        state = status.read(both.engine.status_path(0))
    except UsageError:
        return False
    return [{lane.state for lane in flow.lanes} for flow in state.flows] == [{"running"}] * 2


def seen(application: Application, cluster: str, kind: str) -> int:
    history: History = application.history()
    rows = history.produced if kind == "produced" else history.consumed
    return sum(row.cluster == cluster for row in rows)


@pytest.mark.long
def test_switchover_there_and_back_loses_and_repeats_nothing(both: Both) -> None:
    home, away, topic = both.engine.source, both.engine.target, both.topic
    producer = both.on.producer(topic, records_per_second=800.0, backlog=2000)
    names = {"arrivals": f"{topic}.arrivals", "delays": f"{topic}.delays"}
    groups = {
        names["arrivals"]: both.on.consumer(topic, names["arrivals"]),
        names["delays"]: both.on.consumer(
            topic, names["delays"], records_per_second=300.0, after_move_records_per_second=20_000.0
        ),
    }
    wait_for("traffic", lambda: seen(producer, home, "produced") > 3500)
    wait_for("both groups read", lambda: all(seen(a, home, "consumed") > 100 for a in groups.values()))
    wait_for("the flow out runs", lambda: runs(both))
    assert both.act("reverse.verify")["workers"] == 1

    # delays is far behind: it moves in the middle of what it has to read
    there = both.there()
    assert (both.active, there["rpo_records"], there["exact_positions"]) == (away, 0, there["positions"])
    for group, application in groups.items():
        wait_for(f"{group} reads at {away}", lambda a=application: seen(a, away, "consumed") > 0)
        wait_for(f"{group} has read the mirror", lambda g=group: both.has_read(away, g, f"{home}.{topic}"))
    wait_for("traffic goes on", lambda: seen(producer, away, "produced") > 1500)

    back = both.back()
    assert (both.active, back["exact_positions"]) == (home, back["positions"])
    at_return = seen(producer, home, "produced")
    wait_for("traffic is home", lambda: seen(producer, home, "produced") > at_return + 800)
    assert producer.terminate()[0] == 0
    acked = {row.id for row in producer.history().produced if row.status is ProducedStatus.ACKED}
    for group, application in groups.items():
        wait_for(f"{group} has read everything", lambda a=application: {r.id for r in a.history().consumed} >= acked)
    both.on.terminate_all()

    report = both.judged(producer, groups)
    failed = [j for j in report.checks if j.verdict is not Verdict.PASS]
    assert failed == []
    assert report.tail == 0
    assert len(report.pauses_s) == 2
    for expected, pause_s in zip((there, back), report.pauses_s, strict=True):
        assert pause_s < 5.0, (report.pauses_s, there, back)  # under 1 s alone; a busy machine stretches it
        assert float(str(expected["stopped_seconds"])) >= float(str(expected["held_seconds"])) > 0


def test_switchover_late_record_is_included(both: Both, monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow producer's last record arrives when the positions are being written, just before the pointer moves."""
    home, away, topic = both.engine.source, both.engine.target, both.topic
    produce(both.engine.left, topic, 600, partitions=PARTITIONS)
    wait_for("the flow out runs", lambda: runs(both))
    write, rounds = group_writing.write, itertools.count(1)

    def late(*given: object) -> None:
        write(*given)  # type: ignore[arg-type]
        if next(rounds) == 1:
            produce(both.engine.left, topic, 1, first=600, partitions=PARTITIONS)

    monkeypatch.setattr(group_writing, "write", late)
    there = both.there()
    assert (both.active, there["rpo_records"], next(rounds)) == (away, 0, 3)
    cutover = pointer_file.read(both.on.pointer).cutover[f"{home}.{topic}"]
    ends = both.ends(away, f"{home}.{topic}")
    assert cutover == tuple(ends[p] for p in sorted(ends))
    assert len(list(scan.scan(both.engine.right, f"{home}.{topic}"))) == 601


def test_switchover_group_reading_until_the_hold_continues_there(both: Both, monkeypatch: pytest.MonkeyPatch) -> None:
    """Positions are translated while everybody runs: what was committed after that is translated again."""
    home, away, topic = both.engine.source, both.engine.target, both.topic
    produce(both.engine.left, topic, 600, partitions=PARTITIONS)
    wait_for("the flow out runs", lambda: runs(both))
    still, reads = f"{topic}.still", f"{topic}.reads"

    def stand(group: str, offset: int) -> None:
        positions = {TopicPartition(topic, n): CommittedOffset(offset) for n in range(PARTITIONS)}
        assert commit_all(both.place.cluster(home), {group: positions}, 20.0) == {group: None}

    stand(still, 20)
    stand(reads, 20)
    hold = PointerPlaces.hold

    def late(self: PointerPlaces, limit_s: float) -> None:
        stand(reads, 33)
        hold(self, limit_s)

    monkeypatch.setattr(PointerPlaces, "hold", late)
    there = both.there()
    assert (both.active, there["exact_positions"]) == (away, there["positions"])
    with Cluster(both.place.cluster(away)) as gone_to, Cluster(both.place.cluster(home)) as left:
        for group, position in ((still, 20), (reads, 33)):
            found = gone_to.group_offsets(group)
            assert {p.topic for p in found} == {f"{home}.{topic}"}
            for partition, at in found.items():
                (record,) = gone_to.read({partition: Range(at.offset, at.offset + 1)})
                (expected,) = left.read({TopicPartition(topic, partition.partition): Range(position, position + 1)})
                assert (record.key, record.value) == (expected.key, expected.value)


def test_switchover_group_that_commits_behind_its_last_record_has_read_everything(both: Both) -> None:
    """The marker of the transaction that wrote the record has an offset, too, and most clients commit none behind it."""
    home, away, topic = both.engine.source, both.engine.target, both.topic
    producer = Producer({"bootstrap.servers": both.engine.left, "transactional.id": topic, "log_level": 0})
    producer.init_transactions(30)
    producer.begin_transaction()
    for number in range(5 * PARTITIONS):
        producer.produce(topic, b"x", partition=number % PARTITIONS)
    producer.commit_transaction(30)
    wait_for_markers(both.engine.left, topic, PARTITIONS)
    wait_for("the flow out runs", lambda: runs(both))
    keys = {"bootstrap.servers": both.engine.left, "group.id": f"{topic}.member", "auto.offset.reset": "earliest"}
    member = Consumer({**keys, "enable.auto.commit": False, "log_level": 0})
    try:
        member.subscribe([topic])
        read = 0
        while read < 5 * PARTITIONS:
            for message in member.consume(100, 1.0):
                assert message.error() is None
                member.commit(message, asynchronous=False)
                read += 1
        assert not both.has_read(home, f"{topic}.member", topic)  # by the logs' ends
        there = both.there()
    finally:
        member.close()
    assert (both.active, there["rpo_records"], there["exact_positions"]) == (away, 0, PARTITIONS)


def test_switchover_busy_applications_are_released_at_the_source(both: Both) -> None:
    """A consumer that does not honour the hold, and one that has not read the mirror to its end."""
    home, away, topic = both.engine.source, both.engine.target, both.topic
    produce(both.engine.left, topic, 600, partitions=PARTITIONS)
    wait_for("the flow out runs", lambda: runs(both))
    with drlib.OrderedConsumer(librdkafka(both.place.cluster(home)), f"{topic}.deaf", topic, max_batch=10) as deaf:
        assert deaf.poll(20) is not None
        with pytest.raises(Deviated, match=f"applications stay at {home}.*{topic}.deaf"):
            both.act("switchover.move", source=home, target=away, held_s=1.0)
        held = pointer_file.read(both.on.pointer)
        assert (held.active, held.hold) == (home, False)
        step = both.step("switchover.move", source=home, target=away)
        assert step.probe(()) is Reach.UNTOUCHED
    # one that follows the pointer: it commits what it has, leaves, and comes back when nothing moves
    config = both.place.run_dir / "clusters.properties"
    config.write_text(both.engine.properties.read_text())
    with (
        drlib.ActiveCluster("test", config, pointer=both.on.pointer) as active,
        drlib.OrderedConsumer(active, f"{topic}.held", topic, max_batch=10) as consumer,
    ):
        first = consumer.poll(20)
        assert first is not None
        held = pointer_file.read(both.on.pointer)
        both.on.point(held.version + 1, home, both.engine.left, hold=True)
        wait_for("it hands out nothing more", lambda: consumer.poll(0.2) is None)
        assert consumer.waits_for_commit
        assert consumer.commit() is drlib.CommitOutcome.ACKED
        assert consumer.poll(0.2) is None
        with Cluster(both.place.cluster(home)) as cluster:
            wait_for("its group is empty", lambda: not cluster.group_members(f"{topic}.held"))
        both.on.point(held.version + 2, home, both.engine.left)
        again = consumer.poll(20)
        assert again is not None
        assert (again.partition, again.offset) != (first.partition, first.offset)


HOLDER = """\
import sys
from pathlib import Path
from drlib.config.settings import load_mirror_settings
from drlib.runs.abort import Abort
from drlib.drill.run.registry import make_action
from drlib.drill.step.context import DrillContext
from drlib.model import Flow
from drlib.drill.plan.plan import Argument, Call
home, away, file, run, pointer = sys.argv[1:]
flow = Flow(home, away)
place = DrillContext(
    clusters=load_mirror_settings(file).clusters, flow=flow, run_dir=Path(run), properties=Path(file), pointer=Path(pointer)
)
given = {"source": home, "target": away, "quiet_s": 50, "held_s": 1, "hold_limit_s": 2}
call = Call("switchover.move", tuple(Argument(name, value) for name, value in given.items()))
step = make_action(call, place, "move")
step.act(step.changes(step.observe()), Abort(Path(run)))
"""


@pytest.mark.long
def test_applications_held_by_a_dead_drill_continue(both: Both) -> None:
    home, away, topic = both.engine.source, both.engine.target, both.topic
    producer, group = both.on.producer(topic, records_per_second=200.0), f"{topic}.readers"
    reader = both.on.consumer(topic, group)
    wait_for("traffic", lambda: seen(producer, home, "produced") > 100 and seen(reader, home, "consumed") > 0)
    wait_for("the flow out runs", lambda: runs(both))
    with pytest.raises(UsageError, match="at most 30, or a longer"):
        both.act("switchover.move", source=home, target=away, held_s=31.0)
    where = [str(path) for path in (both.engine.properties, both.place.run_dir, both.on.pointer)]
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, home, away, *where])
    try:
        wait_for("they are held", lambda: pointer_file.read(both.on.pointer).hold)
    finally:
        holder.kill()
        holder.wait(10)
    held = pointer_file.read(both.on.pointer)
    assert (held.hold, held.hold_limit_s) == (True, 2.0)
    before = seen(producer, home, "produced")
    wait_for("they continue", lambda: seen(producer, home, "produced") > before + 200, 20)
    read = seen(reader, home, "consumed")
    wait_for("the group reads on", lambda: seen(reader, home, "consumed") > read + 100, 20)
    assert pointer_file.read(both.on.pointer) == held  # the hold expired by itself; the pointer is unchanged
    pause_s = max(b.sent_ms - a.sent_ms for a, b in itertools.pairwise(producer.history().produced)) / 1000
    assert 1.5 < pause_s < 10.0

    there = both.there()  # and the move is begun again
    assert (both.active, there["rpo_records"], there["hold_limit_seconds"]) == (away, 0, 60)
    assert there["held_by_an_earlier_try"] is True
    assert producer.terminate()[0] == 0
    acked = {row.id for row in producer.history().produced if row.status is ProducedStatus.ACKED}
    wait_for("it has read everything", lambda: {r.id for r in reader.history().consumed} >= acked)
    both.on.terminate_all()
    assert len(reader.history().consumed) == len(acked)


def test_switchover_to_a_cluster_whose_producers_are_throttled_gives_its_quotas_back_and_applications_write_at_once(
    both: Both,
) -> None:
    home, away, topic = both.engine.source, both.engine.target, both.topic
    target, before = both.place.cluster(away), {EVERY_USER: 5e8}

    def quotas() -> dict[Entity, float]:
        return {quota.entity: quota.bytes_per_s for quota in producer_quotas(target)}

    set_producer_quotas(target, before)
    try:
        wait_for("the cluster has a quota", lambda: quotas() == before)
        assert both.act("clients.throttle", cluster=away)["not_throttled"] == ", ".join(
            sorted((f"drlib-{away}", "drlib-drills"))
        )
        wait_for("its producers are throttled", lambda: len(quotas()) == 3 and quotas()[EVERY_USER] == STANDSTILL)
        producer, reader = (
            both.on.producer(topic, records_per_second=200.0),
            both.on.consumer(topic, f"{topic}.readers"),
        )
        wait_for("traffic", lambda: seen(producer, home, "produced") > 100 and seen(reader, home, "consumed") > 0)
        wait_for("the flow out runs", lambda: runs(both))
        there = both.there()
        assert (both.active, there["rpo_records"], there["write_rules_lifted"]) == (away, 0, 3)
        wait_for("exactly as before", lambda: quotas() == before)
        wait_for("they write there", lambda: seen(producer, away, "produced") > 1000, 20)
        assert producer.terminate()[0] == 0
        acked = {row.id for row in producer.history().produced if row.status is ProducedStatus.ACKED}
        wait_for("the group has read everything", lambda: {r.id for r in reader.history().consumed} >= acked)
        both.on.terminate_all()
    finally:
        set_producer_quotas(target, dict.fromkeys(quotas()))


def test_unreplicated_mirror_of_unknown_origin_is_named(engine: Engine) -> None:
    """LEFT lost the journal of the flow back in an unclean end, or another replicator filled the topic."""
    topic, moving = engine.topics, Flow(engine.target, engine.source)
    settings = load_mirror_settings(engine.properties)
    create_topics(engine.right, [TopicSpec(topic, 2)])
    refuse_unexplained(settings, moving, {topic: 2})
    create_topics(engine.left, [TopicSpec(f"{engine.target}.{topic}", 2)])
    refuse_unexplained(settings, moving, {topic: 2})
    produce(engine.left, f"{engine.target}.{topic}", 10, partitions=2)
    with pytest.raises(MirrorUnexplained, match=f"cannot fill {engine.target}.{topic}"):
        refuse_unexplained(settings, moving, {topic: 2})


@pytest.mark.long
def test_translating_back_is_refused_where_it_would_lose_the_order_and_undone_where_asked(both: Both) -> None:
    home, away, topic = both.engine.source, both.engine.target, both.topic
    produce(both.engine.left, topic, 600, partitions=PARTITIONS)
    produce(both.engine.right, topic, 300, partitions=PARTITIONS, first=600)
    wait_for("the flow out runs", lambda: runs(both))
    assert both.act("reverse.wait", within_s=60.0)["behind_offsets"] == 0
    both.act("reverse.wait", source=home, target=away, within_s=60.0)
    group, mirror = f"{topic}.g", f"{home}.{topic}"
    ends = both.ends(away, mirror)

    def place(cluster: Cluster, at: dict[TopicPartition, int]) -> None:
        cluster.alter_group_offsets(group, {p: CommittedOffset(offset) for p, offset in at.items()})

    with Cluster(both.place.cluster(away)) as there, Cluster(both.place.cluster(home)) as here:
        place(there, {p: end - 40 for p, end in ends.items()})
        with pytest.raises(Deviated, match="40 records of"):
            both.act("groups.translate_back", groups=group)
        place(there, {**ends, **{TopicPartition(topic, n): 20 for n in range(PARTITIONS)}})
        step = both.step("groups.translate_back", groups=group)
        changes = step.changes(step.observe())
        done = step.act(changes, Abort(both.place.run_dir))
        assert (done["positions"], done["exact_positions"]) == (2 * PARTITIONS, 2 * PARTITIONS)
        assert len(details.read_rows(both.place.run_dir, "groups-translate_back")) == 2 * PARTITIONS
        found = here.group_offsets(group)
        assert {p: at.offset for p, at in found.items() if p.topic == topic} == both.ends(home, topic)
        remote = {p: at.offset for p, at in found.items() if p.topic == f"{away}.{topic}"}
        for partition, offset in remote.items():
            (record,) = here.read({partition: (offset, offset + 1)})  # type: ignore[dict-item]
            source = TopicPartition(topic, partition.partition)
            (expected,) = there.read({source: (20, 21)})  # type: ignore[dict-item]
            assert (record.key, record.value, record.headers) == (expected.key, expected.value, expected.headers)
        assert step.probe(changes) is Reach.PARTLY
        step.undo(changes)
        assert here.group_offsets(group) == {}
        assert step.probe(changes) is Reach.UNTOUCHED
    with pytest.raises(UsageError, match="unknown group"):
        both.act("groups.translate_back", groups="nobody")


def test_groups_return_together_and_undo_leaves_changed_positions(both: Both) -> None:
    home, away, topic = both.engine.source, both.engine.target, both.topic
    for bootstrap in (both.engine.left, both.engine.right):
        produce(bootstrap, topic, 120, partitions=PARTITIONS)
    wait_for("the flow out runs", lambda: runs(both))
    both.act("reverse.wait", within_s=60.0)
    both.act("reverse.wait", source=home, target=away, within_s=60.0)
    groups = [f"{topic}.g{number:02}" for number in range(30)]
    busy, ends = groups[17], both.ends(away, f"{home}.{topic}")
    read = {**ends, **{TopicPartition(topic, n): 5 for n in range(PARTITIONS)}}
    stand = {group: {p: CommittedOffset(offset) for p, offset in read.items()} for group in groups}
    assert not any(commit_all(both.place.cluster(away), stand, 20.0).values())
    step = both.step("groups.translate_back", groups=tuple(groups))
    changes = step.changes(step.observe())

    def at_home() -> dict[str, set[TopicPartition]]:
        return {group: set(found) for group, found in committed(both.place.cluster(home), groups, 20.0).items()}  # type: ignore[arg-type]

    member = Consumer({"bootstrap.servers": both.engine.left, "group.id": busy, "session.timeout.ms": 6000})
    member.subscribe([topic])
    try:
        wait_for("the member has joined", lambda: member.poll(0.1) is None and bool(member.assignment()))
        with pytest.raises(GroupNotEmpty, match=f"in use on {home}: {busy}:"):
            step.act(changes, Abort(both.place.run_dir))
    finally:
        member.close()
    assert not any(at_home().values())
    assert step.probe(changes) is Reach.UNTOUCHED

    done = step.act(changes, Abort(both.place.run_dir))
    assert (done["groups"], done["exact_positions"]) == (30, 30 * 2 * PARTITIONS)
    assert {len(found) for found in at_home().values()} == {2 * PARTITIONS}
    moved = TopicPartition(topic, 0)
    with Cluster(both.place.cluster(home)) as here:
        before = here.group_offsets(groups[3])[moved]
        here.alter_group_offsets(groups[3], {moved: CommittedOffset(1)})
        assert step.probe(changes) is Reach.UNKNOWN
        with pytest.raises(Deviated, match=f"{groups[3]} was at None.*another client changed it"):
            step.undo(changes)
        left = {group: len(found) for group, found in at_home().items() if found}
        assert left == {groups[3]: 2 * PARTITIONS}, "it holds up no other group"
        here.alter_group_offsets(groups[3], {moved: before})
    step.undo(changes)
    assert not any(at_home().values())


@pytest.mark.long
def test_emergency_runbook_moves_applications_of_the_pointer_topic(both: Both, tmp_path: Path) -> None:
    """On clusters of a file, as an operator runs it; the group reads every record once, each key in order."""
    home, away = both.engine.source, both.engine.target
    book = ROOT / "runbooks" / "planned-switchover.yaml"
    wait_for("the flow out runs", lambda: runs(both))
    drlib.publish_pointer(both.engine.properties, home)
    group = f"{both.topic}.reader"
    with Following(both.engine.properties, both.topic, group) as application:
        wait_for("it works", lambda: len(application.read) > 50)
        with drlib.open_drill(
            book,
            tmp_path / "planned",
            properties=both.engine.properties,
            flow=f"{home}->{away}",
            groups=[group],
            stopped_seconds=30.0,
        ) as drill:
            assert "active cluster, as topic drlib.active.internal says" in repr(drill.plan())
            drill.finish()
        sent = len(application.sent)
        wait_for("it works over there", lambda: len(application.sent) > sent + 50)
        application.stop_writing()
        wait_for("it has read everything", lambda: len(application.read) >= len(application.sent))
    assert application.failed == []
    assert sorted(application.read) == application.sent
    for key in range(7):
        assert [n for n in application.read if n % 7 == key] == [n for n in application.sent if n % 7 == key]
    card = Scorecard.read(tmp_path / "planned" / "scorecard.json")
    assert card.verdict is Verdict.PASS, card.checks


def test_switchover_with_a_redirected_producer_whose_id_is_another_ones_is_refused_before_the_hold(both: Both) -> None:
    engine, home, away = both.engine, both.engine.source, both.engine.target
    wait_for("the workers have all lanes", lambda: runs(both))

    def collide() -> bool:  # unless a writer of the mirror's got an ID between
        same_next_id(list(both.place.clusters.values()))
        for bootstrap in (engine.left, engine.right):
            produce(bootstrap, both.topic, 6, partitions=PARTITIONS)
        return "epoch 0 on both" in refuse_collisions(both.place, Flow(home, away), planned=True, allowed=False)

    wait_for("two producers have one ID", collide)
    engine.wait_caught_up(both.topic, PARTITIONS)
    engine.extra["drlib.producers.redirected"] = "true"
    assert both.place.properties == engine.properties
    before = pointer_file.read(both.on.pointer)
    with pytest.raises(Deviated, match=rf"stay at {home}: producer ID [0-9]+, epoch 0 on both clusters"):
        both.there()
    assert pointer_file.read(both.on.pointer) == before
    found = both.act("switchover.move", source=home, target=away, collide=True)
    assert "epoch 0 on both clusters" in str(found["producer_ids"])
    assert both.active == away


MEMBER = """\
import sys
from confluent_kafka import Consumer
bootstrap, group, topic = sys.argv[1:]
member = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "session.timeout.ms": 8000})
member.subscribe([topic])
while True:
    member.poll(0.1)
    if member.assignment():
        print("joined", flush=True)
"""


def test_switchover_to_a_cluster_that_has_members_of_before_waits_until_their_sessions_end(both: Both) -> None:
    engine, group = both.engine, f"old-{both.topic}"
    wait_for("the workers have all lanes", lambda: runs(both))
    produce(engine.left, both.topic, 60, partitions=PARTITIONS)
    read = {TopicPartition(both.topic, n): CommittedOffset(5) for n in range(PARTITIONS)}
    assert not any(commit_all(both.place.cluster(engine.source), {group: read}, 20.0).values())
    member = subprocess.Popen(
        [sys.executable, "-c", MEMBER, engine.right, group, both.topic], stdout=subprocess.PIPE, text=True
    )
    assert member.stdout is not None
    assert member.stdout.readline() == "joined\n"
    member.kill()  # it does not leave its group
    member.communicate()
    found = both.there()
    assert both.active == engine.target
    assert 1 < float(str(found["waited_for_old_members_seconds"])) < 30


@pytest.mark.long
def test_switchover_share_group_gets_what_it_had_not_acknowledged_and_nothing_else(both: Both) -> None:
    home, away, topic, group = both.engine.source, both.engine.target, both.topic, f"{both.topic}.shared"
    produce(both.engine.left, topic, 60, partitions=PARTITIONS)
    begin_at_earliest(both.engine.left, group)
    written = {value for records in read_all(both.engine.left, topic, PARTITIONS).values() for _, value, *_ in records}
    released = {value for value in written if value is not None and value.startswith((b"14", b"27", b"3"))}
    wait_for("the flow out runs", lambda: runs(both))
    with in_group(both.engine.left, group, topic) as consumer:
        consume(
            consumer,
            lambda value: AcknowledgeType.RELEASE if value in released else AcknowledgeType.ACCEPT,
            lambda seen: written <= seen.keys(),
        )
        there = both.there()
    assert (both.active, there["share_groups"], there["share_partitions"]) == (away, 1, PARTITIONS)
    assert there["share_redelivered_predicted"] == there["share_redelivered_by_the_target"] == 0
    assert there["share_groups_still_in_use"] == group
    verdicts = {check.name: check.verdict for check in details.read_part(both.place.run_dir, "switchover-move").checks}
    assert verdicts == {
        "share groups continue where they were": Verdict.PASS,
        "share groups have left": Verdict.CONDITIONS,
    }
    with in_group(both.engine.left, group, topic) as consumer:
        consumer.poll(1)  # it joins again
        wait_for("a member", lambda: not members_gone(both.engine.left, group))
        assert both.act("groups.left", source=home, target=away, within_s=0.5)["still_in_use"] == group
    assert both.act("groups.left", source=home, target=away) == {"groups": 1, "still_in_use": ""}
    with in_group(both.engine.right, group, f"{home}.{topic}") as consumer:
        seen = consume(consumer, lambda _: AcknowledgeType.ACCEPT, lambda seen: released <= seen.keys())
    assert seen == dict.fromkeys(released, 1)
