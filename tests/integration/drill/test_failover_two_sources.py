"""`drlib failover` with two sources of one target: rome->hub and paris->hub, whose clusters fail."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from confluent_kafka import Consumer
from fix_engine import commit, create_topic, produce, wait_for
from own_processes import said_until_end
from repository_root import ROOT

from drlib import publish_pointer
from drlib.client.pointer_topic import read_pointer
from drlib.config.settings import load_mirror_settings
from drlib.drill.plan.states import DrillState
from drlib.drill.session.unfinished_runs import read_state
from drlib.kafka.admin.cluster import Cluster
from drlib.lab.lab import ONE_BROKER, Lab
from drlib.mirror.offsets.translation.translate_groups import checkpointed_positions
from drlib.model import Flow, TopicPartition

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]
FLOWS = Flow("rome", "hub"), Flow("paris", "hub")
TOPIC, RECORDS, READ = "orders", 200, 70


@dataclass(frozen=True)
class Hub:
    lab: Lab
    file: Path
    runbook: Path

    def start(self, flow: Flow) -> subprocess.Popen[str]:
        argv = [sys.executable, "-m", "drlib.cli", "failover", str(self.file), str(flow), "--yes", "hub", "--json"]
        argv += ["--runbook", str(self.runbook), "--runs-dir", str(self.file.parent / "runs")]
        return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def ended(self, process: subprocess.Popen[str]) -> list[dict[str, object]]:
        out, err = said_until_end(process, 150)
        assert process.returncode == 0, out[-3000:] + err[-3000:]
        return [json.loads(line) for line in out.splitlines()]

    @property
    def active(self) -> str:
        pointer = read_pointer([self.lab.clusters["hub"].settings()]).pointer
        assert pointer is not None
        return pointer.active

    def prefix(self, application: str) -> str | None:
        """Of the mirrors that the application reads."""
        pointer = read_pointer([self.lab.clusters["hub"].settings()], application).pointer
        return None if pointer is None else pointer.remote_prefix

    def next_record(self, flow: Flow) -> int:
        """The number of the record at which the flow's group continues on the hub."""
        address = self.lab.clusters["hub"].bootstrap
        found: list[int] = []
        consumer = Consumer(
            {"bootstrap.servers": address, "group.id": f"of-{flow.source}", "auto.offset.reset": "error"}
        )
        try:
            consumer.subscribe([f"{flow.source}.{TOPIC}"])

            def read() -> bool:
                for message in consumer.consume(1, 0.2):
                    assert message.error() is None
                    found.append(int(dict(message.headers() or ())["n"]))
                return bool(found)

            wait_for(f"the group of {flow.source} reads on", read, 30)
        finally:
            consumer.close()
        return found[0]


@pytest.fixture
def hub(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Hub]:
    """Each source has a topic of the same name and a group that has read some of it; both are mirrored by one worker. Without
    any group where the parameter is False."""
    groups = getattr(request, "param", True)
    runbook = yaml.safe_load((ROOT / "runbooks" / "emergency-failover.yaml").read_text())
    runbook["notebook"] = str(ROOT / "notebooks" / "10_run_a_drill.ipynb")
    del runbook["objectives"]  # no application is started here
    runbook["drill"]["steps"][-1]["arguments"] |= {"deadline_s": 5, "members_s": 0}
    book = tmp_path / "failover.yaml"
    book.write_text(yaml.safe_dump(runbook, sort_keys=False))
    with Lab(tmp_path / "lab", ("rome", "paris", "hub")) as lab:
        keys = {
            "clusters": "rome, paris, hub",
            **{f"{alias}.bootstrap.servers": cluster.bootstrap for alias, cluster in lab.clusters.items()},
            **{f"{flow}.enabled": "true" for flow in FLOWS},
            **{f"{flow}.topics": TOPIC for flow in FLOWS},
            **{f"{flow.reverse}.emit.heartbeats.enabled": "false" for flow in FLOWS},
            **ONE_BROKER,
            "drlib.metrics.address": "127.0.0.1:0",
            "emit.checkpoints.interval.seconds": "1",
        }
        file = tmp_path / "mirror.properties"
        file.write_text("".join(f"{key} = {value}\n" for key, value in keys.items()))
        for flow in FLOWS:
            address = lab.clusters[flow.source].bootstrap
            create_topic(address, TOPIC, 1)
            produce(address, TOPIC, RECORDS, partitions=1)
            if groups:
                commit(address, f"of-{flow.source}", TOPIC, READ)
        lab.start_module("mirror", "drlib.cli", "mirror", str(file))
        settings = load_mirror_settings(file)

        def mirrored() -> bool:
            with Cluster(lab.clusters["hub"].settings()) as cluster:
                wanted = [name for f in FLOWS for name in (f"{f.source}.{TOPIC}", f"{f.source}.checkpoints.internal")]
                if len(cluster.topics(wanted)) < len(wanted):
                    return False
                ends = cluster.log_ends([TopicPartition(f"{flow.source}.{TOPIC}", 0) for flow in FLOWS])
                if min(ends.values()) < RECORDS:
                    return False
            return not groups or all(checkpointed_positions(settings, flow) for flow in FLOWS)

        wait_for("both flows are mirrored, with checkpoints", mirrored, 60)
        yield Hub(lab, file, book)


def test_failover_of_two_sources_at_the_same_time_moves_both(hub: Hub) -> None:
    for flow in FLOWS:
        hub.lab.clusters[flow.source].kill()
    for process in [hub.start(flow) for flow in FLOWS]:
        assert hub.ended(process)[-1]["event"] == "result"
    for flow in FLOWS:
        assert read_state(hub.lab.clusters["hub"].settings(), flow).state is DrillState.FAILED_OVER
        assert hub.next_record(flow) == READ
    assert hub.active == "hub"


def test_failover_of_a_source_leaves_the_pointer_that_names_the_other_one(hub: Hub) -> None:
    rome, paris = FLOWS
    publish_pointer(hub.file, "paris")
    hub.lab.clusters["rome"].kill()
    said = hub.ended(hub.start(rome))
    assert said[0]["pointer"] == "paris"
    assert hub.active == "paris"
    assert hub.next_record(rome) == READ
    assert hub.ended(hub.start(rome))[0]["next"] == "nothing"
    publish_pointer(hub.file, "hub", "of-rome", remote_prefix="rome.", cutover={f"rome.{TOPIC}": (RECORDS,)})
    hub.lab.clusters["paris"].kill()
    hub.ended(hub.start(paris))
    assert hub.active == "hub"
    assert hub.next_record(paris) == READ
    prefixes = {name: hub.prefix(name) for name in ("*", "of-paris", "of-rome")}
    assert prefixes == {"*": "paris.", "of-paris": "paris.", "of-rome": "rome."}


@pytest.mark.parametrize("hub", [False], indirect=True)
def test_failover_of_a_flow_without_groups_moves_its_producers(hub: Hub) -> None:
    hub.lab.clusters["rome"].kill()
    said = hub.ended(hub.start(FLOWS[0]))
    assert (said[0]["groups"], said[-1]["verdict"]) == ([], "conditions")
    assert hub.active == "hub"
    with Cluster(hub.lab.clusters["hub"].settings()) as cluster:
        assert TOPIC in cluster.topics([TOPIC])
