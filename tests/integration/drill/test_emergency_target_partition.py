"""An emergency failover to a cluster of which a dead broker held one mirror partition alone, and coordinated some groups.

The tests run in their order.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import testbed_moves
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as At
from confluent_kafka.admin import AdminClient, NewTopic
from fix_engine import wait_for
from testbed_moves import Place, one_way_file, step

from drlib import publish_pointer, translate_offsets
from drlib.config.settings import load_mirror_settings
from drlib.drill.actions.failover.observe_flow import observe_flow
from drlib.drill.plan.plan import Mode, Step
from drlib.drill.readiness.doctor import doctor
from drlib.drill.step import step_output
from drlib.errors import DrlibError, NoLeader, Unreachable
from drlib.kafka.admin.cluster import Cluster
from drlib.lab.lab import Lab
from drlib.mirror.offsets.map.flow_maps import worker_group
from drlib.mirror.offsets.translation.translate_groups import checkpointed_positions
from drlib.mirror.offsets.unreplicated.lag import replication_lag
from drlib.model import Flow, TopicPartition, TranslationKind
from drlib.runs import journal
from drlib.runs.check import Verdict
from drlib.runs.journal import JOURNAL

pytestmark = [pytest.mark.long, pytest.mark.timeout(400)]
FLOW = Flow("LEFT", "RIGHT")
BROKERS = {
    "default.replication.factor": "3",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "3",
}


def coordinated(group: str) -> int:
    """The partition of `__consumer_offsets` that keeps a group's positions (`Utils.abs` of Java's hash)."""
    found = 0
    for letter in group:
        found = (31 * found + ord(letter)) & 0xFFFFFFFF
    return abs(found - (1 << 32) if found >> 31 else found) % 3


LOST_COORDINATOR = coordinated(worker_group(FLOW))


def named(kind: str, *, lost: bool = False) -> str:
    """A group whose coordinator is lost with the broker, or not."""
    return next(name for n in range(99) if (coordinated(name := f"{kind}-{n}") == LOST_COORDINATOR) is lost)


ALL, SOME, LAST, ELSEWHERE = named("all"), named("some"), named("last"), named("elsewhere", lost=True)
GROUPS = {ALL: (0, 1, 2), SOME: (0, 1), LAST: (2,), ELSEWHERE: (0,)}
MIRRORS = [TopicPartition("LEFT.alone", number) for number in range(3)]
LOST = MIRRORS[2]
MOVED = 41  # the position 40 of the source: a marker of the worker's claim lies before its records
ENDED = ("step-succeeded", "step-failed")


@dataclass(frozen=True)
class Mirrored:
    left: Lab
    right: Lab
    file: Path

    def run(self, folder: Path, *steps: Step) -> tuple[int, dict[str, dict[str, object]]]:
        """Exit code, and what the journal has of each step that ended."""
        folder.mkdir()
        drill = testbed_moves.drill(*steps, mode=Mode.EMERGENCY)
        code = testbed_moves.in_process(folder, drill, Place(properties=str(self.file)))
        lines = journal.read(folder / JOURNAL)
        return code, {str(line.data["step"]): dict(line.data) for line in lines if line.event in ENDED}

    def committed(self) -> dict[str, dict[TopicPartition, int]]:
        """On the target."""
        with Cluster(self.right.clusters["RIGHT"].settings()) as cluster:
            found = {group: cluster.group_offsets(group) for group in (ALL, SOME, LAST)}
        return {group: {at: p.offset for at, p in positions.items()} for group, positions in found.items()}


@pytest.fixture(scope="module")
def mirrored(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mirrored]:
    left = Lab(tmp_path_factory.mktemp("left"), ("LEFT",))
    right = Lab(tmp_path_factory.mktemp("right"), ("RIGHT",), brokers=3, extra=BROKERS)
    with left, right:
        source, target = left.clusters["LEFT"], right.clusters["RIGHT"]
        more = {
            "checkpoints.topic.replication.factor": "3",
            "drlib.journal.replication.factor": "3",
            "drlib.lanes": "2",
        }
        file = one_way_file(left, right, "alone", more)
        nodes = [broker.spec.node_id for broker in target.brokers]
        placed = NewTopic("LEFT.alone", num_partitions=3, replica_assignment=[[node] for node in nodes])
        # the third broker has the last mirror partition, and is the coordinator of the workers' group
        kept = [[nodes[(number - LOST_COORDINATOR + 2) % 3]] for number in range(3)]
        positions = NewTopic(
            "__consumer_offsets", num_partitions=3, replica_assignment=kept, config={"cleanup.policy": "compact"}
        )
        wanted = (
            (source.bootstrap, NewTopic("alone", 3, 1)),
            (target.bootstrap, placed),
            (target.bootstrap, positions),
        )
        for bootstrap, topic in wanted:
            admin = AdminClient({"bootstrap.servers": bootstrap})
            admin.create_topics([topic])[topic.topic].result(20)
        producer = Producer({"bootstrap.servers": source.bootstrap})
        for number in range(300):
            producer.produce("alone", str(number), partition=number % 3)
        assert producer.flush(30) == 0
        for group, numbers in GROUPS.items():
            with contextlib.closing(Consumer({"bootstrap.servers": source.bootstrap, "group.id": group})) as consumer:
                consumer.commit(offsets=[At("alone", number, 40) for number in numbers], asynchronous=False)
        left.start_module("mirror", "drlib.cli", "mirror", str(file))
        settings = load_mirror_settings(file)

        def checkpointed() -> bool:
            known = checkpointed_positions(settings, FLOW)
            return {
                (group, TopicPartition("alone", n)) for group, numbers in GROUPS.items() for n in numbers
            } <= known.keys()

        wait_for("checkpoints", checkpointed, 60)
        publish_pointer(file, "LEFT")
        left.registry.kill("mirror")
        target.brokers[2].kill()

        def offline() -> bool:
            with contextlib.suppress(Unreachable), Cluster(settings.clusters["RIGHT"]) as cluster:
                return cluster.topics(["LEFT.alone"])["LEFT.alone"].offline == {2}
            return False  # a controller is being elected

        wait_for("a mirror partition has no leader", offline, 60)
        yield Mirrored(left, right, file)


@contextlib.contextmanager
def reading(mirrored: Mirrored, group: str) -> Iterator[None]:
    """While it lasts, a consumer of `group` reads on the target from the position that it is given there."""
    stop = threading.Event()

    def read() -> None:
        while not mirrored.committed()[group] and not stop.wait(0.2):
            pass
        keys = {"bootstrap.servers": mirrored.right.clusters["RIGHT"].bootstrap, "group.id": group}
        with contextlib.closing(Consumer(keys)) as consumer:
            consumer.subscribe(["LEFT.alone"])
            while not stop.is_set():
                if (message := consumer.poll(0.2)) is not None and not message.error():
                    consumer.commit(message, asynchronous=False)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        yield
    finally:
        stop.set()
        reader.join()


def test_status_and_doctor_name_the_partition_and_know_all_others(mirrored: Mirrored, tmp_path: Path) -> None:
    state = observe_flow(Place(properties=str(mirrored.file)).workplace(tmp_path), FLOW)
    assert {p.partition: (p.known, p.lag) for p in state.view.partitions if p.known} == {0: (True, 0), 1: (True, 0)}
    assert [p.partition for p in state.view.partitions if not p.known] == [2]
    assert state.not_mirrored is None
    assert [e.detail for e in state.view.open_events if e.name == "TargetUnreachable"] == [state.survey.target_partly]
    assert str(LOST) in state.survey.target_partly
    (readiness,) = doctor(load_mirror_settings(mirrored.file), flow=FLOW)
    found = [f for f in readiness.worst_first() if "alone-2" in f"{f.entity} {f.evidence}"]
    assert {f.severity.name for f in found} & {"CRITICAL", "UNKNOWN"}


def test_planned_work_is_refused_with_the_name_of_the_partition(mirrored: Mirrored, tmp_path: Path) -> None:
    settings = load_mirror_settings(mirrored.file)
    with Cluster(settings.clusters["LEFT"]) as source, pytest.raises(NoLeader, match=str(LOST)):
        replication_lag(settings, FLOW, source, [TopicPartition("alone", number) for number in range(3)])
    with Cluster(settings.clusters["RIGHT"]) as cluster, pytest.raises(DrlibError, match=str(LOST)):
        cluster.log_ends(MIRRORS)
    code, _ = mirrored.run(
        tmp_path / "planned", step("decide", "failover.triage", expect="serving", force_reason="now")
    )
    assert code != 0


def test_emergency_without_a_reason_is_refused_and_nothing_is_moved(mirrored: Mirrored, tmp_path: Path) -> None:
    mirrored.left.clusters["LEFT"].kill()
    code, ended = mirrored.run(tmp_path / "refused", step("decide", "failover.triage"))
    assert code != 0
    assert str(LOST) in str(ended["decide"])
    assert "or give force_reason" in str(ended["decide"])
    assert mirrored.committed() == {ALL: {}, SOME: {}, LAST: {}}


def test_emergency_with_a_reason_moves_all_but_the_partition_and_names_it(mirrored: Mirrored, tmp_path: Path) -> None:
    folder = tmp_path / "forced"
    with reading(mirrored, ALL):
        code, evidence = mirrored.run(
            folder,
            step("decide", "failover.triage", force_reason="its disk is lost"),
            step("drain", "mirror.drain"),
            step("translate", "groups.translate"),
            step("move", "pointer.move"),
            step("verify", "groups.verify", groups=(ALL,), members_s=60),
        )
    assert code == 0
    assert "cannot take over in full: answers: 2 brokers" in str(evidence["decide"]["why"])
    assert str(LOST) in str(evidence["decide"]["not_determined"])
    assert evidence["drain"]["rpo_records"] is None
    assert (evidence["translate"]["exact"], evidence["translate"]["unknown"], evidence["translate"]["left"]) == (
        5,
        2,
        3,
    )
    committed = mirrored.committed()
    assert committed[SOME] == dict.fromkeys(MIRRORS[:2], MOVED)
    assert committed[ALL].keys() == {*MIRRORS[:2]}
    assert committed[LAST] == {}
    assert evidence["verify"]["served"] == 1
    rows = step_output.read_rows(folder, "translate")
    assert {(row["group"], row["partition"]) for row in rows if row["left because"]} == {
        (ALL, 2),
        (LAST, 2),
        (ELSEWHERE, 0),
    }
    (check,) = (c for c in step_output.read_part(folder, "translate").checks if c.name.startswith("consumer groups"))
    assert check.verdict is Verdict.CONDITIONS
    assert f"{LOST} ({ALL}, {LAST}): it has no leader on RIGHT" in check.evidence
    assert f"2 groups were moved, 1 were left: {ELSEWHERE}: " in check.evidence
    assert "the group of the workers has no coordinator" in str(evidence["drain"]["not_determined"])
    assert str(LOST) in str(evidence["verify"]["not_observed"])


def test_positions_kept_elsewhere_are_translated_but_for_those_in_the_partition(mirrored: Mirrored) -> None:
    found = translate_offsets(mirrored.file, "LEFT", "RIGHT", [("alone", number, 70) for number in range(3)])
    assert [(each.translation.kind, each.translation.offset) for each in found[:2]] == [(TranslationKind.EXACT, 71)] * 2
    assert found[2].translation.kind is TranslationKind.UNKNOWN
    assert str(LOST) in found[2].why


def test_step_that_is_run_again_once_the_leader_is_back_completes_the_rest(mirrored: Mirrored, tmp_path: Path) -> None:
    target = mirrored.right.clusters["RIGHT"]
    target.brokers[2].restart()

    def back() -> bool:
        with contextlib.suppress(Unreachable), Cluster(target.settings()) as cluster:
            return not cluster.topics(["LEFT.alone"])["LEFT.alone"].offline
        return False

    wait_for("the partition has its leader again", back, 60)
    code, _ = mirrored.run(tmp_path / "again", step("translate", "groups.translate", leave=(ALL,)))
    assert code == 0  # `ALL` has read on meanwhile in what it was moved to
    committed = mirrored.committed()
    assert [committed[LAST][LOST], committed[ALL][LOST]] == [MOVED, MOVED]
    assert committed[ALL][MIRRORS[0]] > MOVED
    assert committed[SOME] == dict.fromkeys(MIRRORS[:2], MOVED)
    with Cluster(target.settings()) as cluster:
        assert cluster.group_offsets(ELSEWHERE)[MIRRORS[0]].offset == MOVED
