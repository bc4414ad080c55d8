"""An emergency failover with a source that is partly dead: bounded by what is waited for, whatever does not answer.

Bounds are asserted by counting what was asked with which time-out, since the machine is busy. The tests run in their order:
LEFT has one broker of three, then none that answers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import testbed_moves
from confluent_kafka import Consumer, Producer
from fix_engine import wait_for
from testbed_moves import Place, one_way_file, step

from drlib import publish_pointer
from drlib.client.pointer_topic import read_pointer
from drlib.config.settings import load_mirror_settings
from drlib.drill.actions.failover.triage import Triage
from drlib.drill.plan.plan import Mode
from drlib.drill.readiness.doctor import doctor
from drlib.drill.step import known_silence
from drlib.kafka.admin import connect
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.reachability import ClusterService, examine
from drlib.lab.lab import Lab
from drlib.mirror.offsets.translation.translate_groups import checkpointed_positions
from drlib.model import Flow
from drlib.runs import journal
from drlib.runs.journal import JOURNAL

FLOW = Flow("LEFT", "RIGHT")
GROUPS = tuple(f"g{n}" for n in range(6))
THREE = {
    "default.replication.factor": "3",
    "offsets.topic.replication.factor": "3",
    "offsets.topic.num.partitions": "6",
    "min.insync.replicas": "2",
}
EMERGENCY = (
    step("decide", "failover.triage"),
    step("fence", "source.fence"),
    step("drain", "mirror.drain"),
    step("translate", "groups.translate"),
    step("topics", "topics.create"),
    step("move", "pointer.move"),
)


@dataclass(frozen=True)
class Mirrored:
    left: Lab
    right: Lab
    file: Path

    def evidence(self, folder: Path) -> dict[str, dict[str, object]]:
        lines = journal.read(folder / JOURNAL)
        return {str(line.data["step"]): dict(line.data) for line in lines if line.event == "step-succeeded"}

    def fail_over(self, folder: Path) -> dict[str, dict[str, object]]:
        drill = testbed_moves.drill(*EMERGENCY, mode=Mode.EMERGENCY)
        assert testbed_moves.in_process(folder, drill, Place(properties=str(self.file))) == 0
        pointer = read_pointer([self.right.clusters["RIGHT"].settings()]).pointer
        assert pointer is not None
        assert pointer.active == "RIGHT"
        return self.evidence(folder)


@pytest.fixture(scope="module")
def mirrored(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mirrored]:
    left = Lab(tmp_path_factory.mktemp("left"), ("LEFT",), brokers=3, extra=THREE)
    right = Lab(tmp_path_factory.mktemp("right"), ("RIGHT",))
    with left, right:
        source, target = left.clusters["LEFT"], right.clusters["RIGHT"]
        file = one_way_file(left, right, "orders", {"emit.checkpoints.interval.seconds": "1"})
        with Cluster(source.settings()) as cluster:
            cluster.create_topic("orders", 6, 3)
        producer = Producer({"bootstrap.servers": source.bootstrap, "linger.ms": 20})
        for number in range(600):
            producer.produce("orders", str(number), partition=number % 6)
        assert producer.flush(30) == 0
        for group in GROUPS:
            _read_some(source.bootstrap, group)
        left.start_module("mirror", "drlib.cli", "mirror", str(file))

        def checkpointed() -> bool:
            settings = load_mirror_settings(file)
            with Cluster(target.settings()) as cluster:
                if not cluster.topics(["LEFT.orders", "LEFT.checkpoints.internal"]).keys() >= {
                    "LEFT.orders",
                    "LEFT.checkpoints.internal",
                }:
                    return False
            return {group for group, _ in checkpointed_positions(settings, FLOW)} == set(GROUPS)

        wait_for("the mirror and its checkpoints are there", checkpointed, 60)
        publish_pointer(file, "LEFT")
        yield Mirrored(left, right, file)
        source.resume()


def _read_some(bootstrap: str, group: str) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest"})
    consumer.subscribe(["orders"])
    wait_for(f"{group} reads", lambda: bool(consumer.consume(100, 1.0)), 30)
    consumer.commit(asynchronous=False)
    consumer.close()


@pytest.mark.long
@pytest.mark.timeout(240)
def test_emergency_one_broker_of_three_is_advised_and_runs_to_the_move(mirrored: Mirrored, tmp_path: Path) -> None:
    source = mirrored.left.clusters["LEFT"]
    for broker in source.brokers[1:]:
        broker.kill()
    settings = load_mirror_settings(mirrored.file)
    found = examine([settings.clusters["LEFT"]], {"LEFT": ["orders"]})["LEFT"]
    assert isinstance(found, ClusterService)
    assert found.answering == 1
    assert found.not_led(["orders"]) or found.not_writable(["orders"])  # what it says of leaders may be old
    (lost,) = doctor(settings, runs=tmp_path)
    assert lost.source_lost
    assert lost.emergency == ()
    done = mirrored.fail_over(tmp_path / "run")
    assert "1 of 3 brokers" in str(done["fence"]["source"])
    assert done["fence"]["fenced"] is False
    assert "partitions whose leader does not answer" in str(done["fence"]["not_determined"])
    assert "topics written to on both sides" in str(done["decide"]["not_determined"])
    assert "silent" in str(done["decide"]["source"])
    assert done["translate"]["groups"] == len(GROUPS)
    assert "before they were translated" in str(done["translate"]["positions_as_of"])
    assert done["translate"]["not_determined"] == ""
    assert (done["topics"]["created"], done["topics"]["refused"]) == ("orders", "")
    assert done["topics"]["settings_from"] == "the mirror topics"  # nothing says what the source's are


@pytest.mark.long
@pytest.mark.timeout(240)
def test_emergency_frozen_source_is_waited_for_once(
    mirrored: Mirrored, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish_pointer(mirrored.file, "LEFT")
    mirrored.left.clusters["LEFT"].brokers[0].pause()
    place = Place(properties=str(mirrored.file)).workplace(tmp_path)
    waits: list[float] = []
    ask = connect.who_answers

    def counted(clusters: list[object], timeout_s: float, *more: object) -> object:
        waits.extend(timeout_s for each in clusters if getattr(each, "alias", "") == "LEFT")
        return ask(clusters, timeout_s, *more)  # type: ignore[arg-type]

    monkeypatch.setattr(known_silence, "who_answers", counted)
    action = Triage().bind(place, "decide")
    for _ in range(3):
        known_silence.ask_in_run(place, [place.cluster("LEFT")])
    assert waits[0] == 5.0
    assert all(wait <= known_silence.AGAIN_S for wait in waits[1:])
    assert action.probe_s == known_silence.PROBE_S
    done = mirrored.fail_over(tmp_path)  # in another process, which finds in the folder what was found here
    assert str(done["decide"]["source"]).startswith("no answer")
    assert done["fence"]["fenced"] is False
    assert done["translate"]["groups"] == len(GROUPS)
