"""A planned move away from a cluster that a third one fills, and whose groups have positions in topics that are gone."""

from __future__ import annotations

import struct
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from beside import beside
from confluent_kafka import Producer
from fix_engine import Engine, create_topic, produce, wait_for
from fix_lab import LabFactory
from testbed_applications import Stage, stage
from testbed_switchover import Moving

from drlib.client import pointer_file
from drlib.client.pointer import OPEN
from drlib.config.settings import load_mirror_settings
from drlib.drill.actions.failback.switchover import MoveApplications
from drlib.drill.actions.groups.tried_positions import TriedPositions
from drlib.drill.actions.moving.gone_topics import CHECK
from drlib.drill.plan.progress import Reach
from drlib.drill.step import step_output
from drlib.drill.step.action import DrillAction
from drlib.drill.step.context import DrillContext
from drlib.errors import Deviated, UsageError
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.descriptions import CommittedOffset, Range
from drlib.kafka.admin.group_offsets import commit_all
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.mirror.status import worker_status as status
from drlib.mirror.sync.source_groups import OFFSETS_TOPIC
from drlib.model import Flow, TopicPartition
from drlib.runs.abort import Abort
from drlib.runs.check import Verdict

PARTITIONS = 2


def moving(engine: Engine, root: Path, on: Stage) -> Moving:
    run = root / "run"
    run.mkdir(exist_ok=True)
    settings = load_mirror_settings(engine.properties)
    place = DrillContext(
        clusters=settings.clusters,
        flow=Flow(engine.source, engine.target),
        run_dir=run,
        properties=engine.properties,
        pointer=on.pointer,
    )
    return Moving(engine, on, place)


def runs(engine: Engine, flows: int) -> bool:
    try:
        state = status.read(engine.status_path(0))
    except UsageError:
        return False
    return [{lane.state for lane in flow.lanes} for flow in state.flows] == [{"running"}] * flows


def test_switchover_away_from_a_cluster_that_a_third_one_fills_does_not_wait_for_its_mirror(
    engine: Engine, tmp_path: Path, lab_factory: LabFactory
) -> None:
    """Its logs never stand still: the applications were held for `held_s`, and stayed."""
    third, topic = lab_factory(("THIRD",)).clusters["THIRD"].bootstrap, engine.topics
    home, away, far = engine.source, engine.target, f"FAR{engine.source}"
    for bootstrap in (engine.left, engine.right, third):
        create_topic(bootstrap, topic, PARTITIONS)
    engine.topics = f".*{topic}"
    engine.extra = {
        "clusters": f"{home}, {away}, {far}",
        f"{far}.bootstrap.servers": third,
        f"{away}->{home}.enabled": "true",
        f"{far}->{home}.enabled": "true",
        "emit.heartbeats.enabled": "false",
    }
    engine.start()
    filled, group = f"{far}.{topic}", f"{topic}.readers"
    produce(engine.left, topic, 100, partitions=PARTITIONS)
    produce(third, topic, 100, partitions=PARTITIONS)
    wait_for("all flows run", lambda: runs(engine, 3))
    end = 0
    with stage(tmp_path) as on:
        on.point(1, home, engine.left)
        both = moving(engine, tmp_path, on)

        def writing(over: threading.Event) -> None:
            producer, number = Producer({"bootstrap.servers": third, "linger.ms": 0, "log_level": 0}), 0
            while not over.is_set():
                producer.produce(topic, b"%d" % number, partition=number % PARTITIONS)
                producer.poll(0.002)
                number += 1
            assert producer.flush(20) == 0

        with beside(writing), Cluster(both.place.cluster(home)) as cluster:
            part = TopicPartition(filled, 0)

            def grows() -> bool:
                nonlocal end
                end = cluster.log_ends([part])[part] if filled in cluster.topics([filled]) else 0
                return end > 200

            wait_for("the third cluster fills it", grows)
            commit_all(both.place.cluster(home), {group: {part: CommittedOffset(end - 5)}}, 20.0)
            assert both.act("clients.gone", members=False, still_s=0.5, within_s=5.0)["partitions"] == PARTITIONS
            fence = both.step("source.fence", still_s=0.5, deadline_s=5.0)
            assert isinstance(fence, DrillAction)
            assert fence.act(fence.changes(fence.observe()), Abort(both.place.run_dir))["fenced"]
            fence.undo(())
            found = both.there()
    assert both.active == away
    assert (found["positions"], found["exact_positions"]) == (1, 1)
    cutover = pointer_file.read(on.pointer).cutover
    assert set(cutover[f"{home}.{filled}"]) == {OPEN}
    assert OPEN not in cutover[f"{home}.{topic}"]
    there = TopicPartition(f"{home}.{filled}", 0)
    with Cluster(both.place.cluster(home)) as source, Cluster(both.place.cluster(away)) as target:
        placed = target.group_offsets(group)[there].offset
        (next_here,) = source.read({part: Range(end - 5, end - 4)})
        (next_there,) = target.read({there: Range(placed, placed + 1)})
    assert next_here.value == next_there.value


@pytest.fixture
def both_ways(engine: Engine, tmp_path: Path) -> Iterator[Moving]:
    engine.extra = {f"{engine.target}->{engine.source}.enabled": "true", "emit.heartbeats.enabled": "false"}
    for bootstrap in (engine.left, engine.right):
        create_topic(bootstrap, engine.topics, PARTITIONS)
    produce(engine.left, engine.topics, 100, partitions=PARTITIONS)
    engine.start()
    wait_for("both flows run", lambda: runs(engine, 2))
    with stage(tmp_path) as on:
        on.point(1, engine.source, engine.left)
        yield moving(engine, tmp_path, on)


def test_switchover_that_does_not_stand_still_names_the_topics_and_who_writes(both_ways: Moving) -> None:
    home, away, topic = both_ways.engine.source, both_ways.engine.target, both_ways.engine.topics

    def writing(over: threading.Event) -> None:
        producer = Producer({"bootstrap.servers": both_ways.engine.left, "linger.ms": 0, "log_level": 0})
        while not over.is_set():
            producer.produce(topic, b"v", partition=0)
            producer.poll(0.002)
        assert producer.flush(20) == 0

    with beside(writing), pytest.raises(Deviated, match=f"records still arrive in {topic}-0") as refused:
        both_ways.act("switchover.move", source=home, target=away, held_s=2.0)
    assert f"See who writes to {topic}: drlib inventory" in refused.value.remedy
    assert both_ways.active == home


def test_switchover_that_fails_puts_back_what_it_wrote_and_one_that_was_killed_knows_it(
    both_ways: Moving, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The positions stayed, as if the group had read there: it was refused when it was set back meanwhile."""
    home, away = (both_ways.place.cluster(alias) for alias in (both_ways.engine.source, both_ways.engine.target))
    group, topic = f"{both_ways.engine.topics}.readers", both_ways.engine.topics
    there, begun = TopicPartition(f"{both_ways.engine.source}.{topic}", 0), TopicPartition(topic, 0)
    commit_all(away, {group: {there: CommittedOffset(3)}}, 20.0)

    def late(*_: object) -> None:
        raise Deviated("late", "as if it took too long", "")

    def position() -> int:
        with Cluster(away) as cluster:
            return cluster.group_offsets(group)[there].offset

    def step() -> DrillAction:
        made = both_ways.step("switchover.move", source=both_ways.engine.source, target=both_ways.engine.target)
        assert isinstance(made, DrillAction)
        return made

    def failing(offset: int) -> None:
        commit_all(home, {group: {begun: CommittedOffset(offset)}}, 20.0)
        with monkeypatch.context() as patch:
            patch.setattr(MoveApplications, "_refuse_late", late)
            with pytest.raises(Deviated, match="late"):
                both_ways.there()

    def killed(offset: int) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(TriedPositions, "put_back", lambda _: None)
            failing(offset)

    failing(40)
    assert (position(), step().probe(())) == (3, Reach.UNTOUCHED)
    killed(40)
    placed = position()
    assert (placed >= 40, step().probe(())) == (True, Reach.PARTLY)
    step().undo(())
    assert (position(), step().probe(())) == (3, Reach.UNTOUCHED)
    killed(40)
    commit_all(home, {group: {begun: CommittedOffset(20)}}, 20.0)
    assert both_ways.there()["exact_positions"] == 1
    assert (position(), both_ways.active) == (placed - 20, both_ways.engine.target)
    assert TriedPositions(both_ways.place.run_dir, away, step().step).kept() == ()


def leave_position(bootstrap: str, group: str, partition: TopicPartition, offset: int) -> None:
    """Write a committed offset as a coordinator does, which checks nothing; one that starts reads it."""
    key = struct.pack(">hh", 1, len(group)) + group.encode()
    key += struct.pack(">h", len(partition.topic)) + partition.topic.encode() + struct.pack(">i", partition.partition)
    value = struct.pack(">hqihq", 3, offset, -1, 0, int(1000 * time.time()))
    number = 0
    for letter in group:  # Java's hash
        number = (31 * number + ord(letter)) & 0xFFFFFFFF
    number = min(number, (1 << 32) - number)  # its absolute value as a signed integer
    with Cluster(ClusterSettings("LEFT", (bootstrap,))) as cluster:
        count = cluster.topics([OFFSETS_TOPIC])[OFFSETS_TOPIC].partitions
    config = {
        "bootstrap.servers": bootstrap,
        "client.id": "__admin_client",
        "log_level": 0,
    }  # others may not write there
    refused: list[object] = []

    def delivered(error: object, _: object) -> None:
        refused.extend([error] if error else [])

    producer = Producer(config)
    producer.produce(OFFSETS_TOPIC, value, key=key, partition=number % count, on_delivery=delivered)
    assert producer.flush(20) == 0
    assert refused == []


def test_switchover_leaves_out_a_position_in_a_topic_that_is_gone_and_names_it(
    engine: Engine, tmp_path: Path, lab_factory: LabFactory
) -> None:
    """It was advised to wait until the mirror has copied what will never come."""
    clusters = lab_factory().clusters
    engine.left, engine.right, topic = clusters["LEFT"].bootstrap, clusters["RIGHT"].bootstrap, engine.topics
    engine.topics = f"{topic}.*"
    engine.extra = {f"{engine.target}->{engine.source}.enabled": "true", "emit.heartbeats.enabled": "false"}
    for bootstrap in (engine.left, engine.right):
        create_topic(bootstrap, topic, PARTITIONS)
    produce(engine.left, topic, 100, partitions=PARTITIONS)
    group, live, gone = f"{topic}.readers", TopicPartition(topic, 0), TopicPartition(f"{topic}.gone", 0)
    home = ClusterSettings(engine.source, (engine.left,))
    commit_all(home, {group: {live: CommittedOffset(7)}}, 20.0)
    leave_position(engine.left, group, gone, 5)
    clusters["LEFT"].restart()
    with Cluster(home) as cluster:
        wait_for("its coordinator has it", lambda: gone in cluster.group_offsets(group))
    engine.start()
    wait_for("both flows run", lambda: runs(engine, 2))
    with stage(tmp_path) as on:
        on.point(1, engine.source, engine.left)
        both = moving(engine, tmp_path, on)
        step = both.step("switchover.move", source=engine.source, target=engine.target)
        found = step.act(step.changes(step.observe()), Abort(both.place.run_dir))
        part = step_output.read_part(both.place.run_dir, "switchover-move")
    assert (both.active, found["positions"], found["exact_positions"]) == (engine.target, 1, 1)
    (check,) = [each for each in part.checks if each.name == CHECK]
    assert check.verdict is Verdict.CONDITIONS
    assert f"{group} in {gone} at 5" in check.evidence
