"""An emergency failover with a source whose controllers live, and of which a dead broker's partitions have no leader."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
import testbed_moves
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from fix_engine import wait_for
from testbed_moves import Place, one_way_file, step

from drlib import publish_pointer
from drlib.config.settings import load_mirror_settings
from drlib.drill.actions.failover.observe_flow import observe_flow
from drlib.drill.plan.plan import Mode
from drlib.kafka.admin.reachability import ClusterService, examine
from drlib.lab.lab import Lab
from drlib.model import Flow
from drlib.runs import journal
from drlib.runs.journal import JOURNAL

OFFLINE = "mirrored partitions without a leader, whose ends are unknown: 1, alone-"
EMERGENCY = (
    step("decide", "failover.triage"),
    step("fence", "source.fence"),
    step("drain", "mirror.drain"),
    step("move", "pointer.move"),
)


def evidence(folder: Path) -> dict[str, dict[str, object]]:
    lines = journal.read(folder / JOURNAL)
    return {str(line.data["step"]): dict(line.data) for line in lines if line.event == "step-succeeded"}


@pytest.mark.long
@pytest.mark.timeout(300)
def test_emergency_partition_without_leader_has_an_unknown_end_and_is_drained(tmp_path: Path) -> None:
    with contextlib.ExitStack() as stack:
        left = stack.enter_context(Lab(tmp_path / "left", ("LEFT",), brokers=3))
        right = stack.enter_context(Lab(tmp_path / "right", ("RIGHT",)))
        source = left.clusters["LEFT"]
        file = one_way_file(left, right, "alone", {"LEFT->RIGHT.emit.heartbeats.enabled": "false"})
        nodes = [broker.spec.node_id for broker in source.brokers]
        placed = NewTopic("alone", num_partitions=3, replica_assignment=[[node] for node in nodes])
        admin = AdminClient({"bootstrap.servers": source.bootstrap})
        admin.create_topics([placed])["alone"].result(20)
        producer = Producer({"bootstrap.servers": source.bootstrap})
        for number in range(300):
            producer.produce("alone", str(number), partition=number % 3)
        assert producer.flush(30) == 0
        left.start_module("mirror", "drlib.cli", "mirror", str(file))
        place = Place(properties=str(file))
        settings = load_mirror_settings(file)
        for name in ("observed", "worker", "alone"):
            (tmp_path / name).mkdir()

        def lag() -> int | None:
            view = observe_flow(place.workplace(tmp_path / "observed"), Flow("LEFT", "RIGHT")).view
            return view.lag if len(view.partitions) == 3 and view.workers else None

        wait_for("the mirror has everything", lambda: lag() == 0, 60)
        publish_pointer(file, "LEFT")
        source.brokers[2].kill()

        def offline() -> bool:
            found = examine([settings.clusters["LEFT"]], {})["LEFT"]
            return (
                isinstance(found, ClusterService)
                and not found.silent  # the controllers do not list it any more
                and [at.partition for at in found.not_led(["alone"])] == [2]
            )

        wait_for("the dead broker's partition has no leader", offline, 60)
        drill = testbed_moves.drill(*EMERGENCY, mode=Mode.EMERGENCY)
        assert testbed_moves.in_process(tmp_path / "worker", drill, place) == 0
        with_worker = evidence(tmp_path / "worker")
        assert "1 partitions without a leader" in str(with_worker["decide"]["source"])
        drained = with_worker["drain"]
        assert (drained["rpo_records"], drained["rpo_at_least"]) == (0, True)  # by the last report of its leader
        assert drained["rpo_seconds"] != 0
        assert drained["not_determined"] == f"LEFT: {OFFLINE}2"

        left.registry.kill("mirror")
        publish_pointer(file, "LEFT")
        assert testbed_moves.in_process(tmp_path / "alone", drill, place) == 0
        drained = evidence(tmp_path / "alone")["drain"]
        assert (drained["rpo_records"], drained["rpo_at_least"]) == (None, True)
        assert drained["not_determined"] == f"LEFT: {OFFLINE}2"
