"""What comes back is not what failed: an older copy, topics created again, empty disks, another cluster.

`drlib failback` refuses each with what it is, why, and the next command, and nothing is changed.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from fix_engine import create_topic, delete_topic, wait_for
from testbed_way_back import FLOW, MIRROR, TOPIC, Night, a_night

from drlib import publish_pointer
from drlib.config.settings import load_mirror_settings
from drlib.drill.actions.failback.returned import observe_source
from drlib.drill.actions.failback.returned_rules import Found, judge
from drlib.drill.plan.states import DrillState
from drlib.drill.session.declare_serving import declare_serving
from drlib.lab.brokers.broker import new_id
from drlib.lab.lab import Lab, mirror_properties
from drlib.model import Flow


def refused(night: Night, found: Found, words: str) -> None:
    """`drlib failback` with every confirmation says what came back, and changes nothing."""
    (assessed,), err = night.cli("failback", str(night.file), "--yes", "paris", "--tail", "recover", code=3)
    assert (assessed["found"], assessed["next"]) == (found.value, "refuse")
    assert words in err
    assert "nothing was changed" in err
    assert "Give the cluster a new name" in err
    assert (night.state().state, night.active) == (DrillState.FAILED_OVER, "lyon")
    assert not night.runs_dir.exists()


@pytest.mark.long
@pytest.mark.timeout(300)
def test_failback_to_what_is_not_the_cluster_that_failed_is_refused_with_its_procedure(tmp_path: Path) -> None:
    with a_night(tmp_path) as night:
        paris = night.lab.clusters["paris"]
        (broker,) = paris.brokers
        data, backup = Path(broker.spec.directory) / "data", tmp_path / "backup"
        paris.stop()
        shutil.copytree(data, backup)
        paris.start()
        night.write("paris", 50)
        wait_for("they are mirrored", lambda: night.end("lyon", MIRROR) >= 450)
        publish_pointer(night.file, "lyon")
        declare_serving(night.settings("lyon"), FLOW, "lyon")
        wait_for("the flow is not mirrored any more", lambda: night.members(FLOW) == 0)

        paris.kill()
        shutil.rmtree(data)
        shutil.copytree(backup, data)
        paris.start()
        refused(night, Found.OLDER, "orders (50)")
        night.write("paris", 60)  # its log is longer than what was mirrored
        refused(night, Found.OLDER, "orders (others in their place)")

        delete_topic(paris.bootstrap, TOPIC)
        create_topic(paris.bootstrap, TOPIC, 1)
        night.write("paris", 3)
        refused(night, Found.OTHER_TOPICS, "not those that were mirrored: orders")

        paris.kill()
        shutil.rmtree(data)
        broker.prepare({})
        paris.start()
        refused(night, Found.EMPTY, "none of the 1 topics that were mirrored: orders")

        paris.kill()
        shutil.rmtree(data)
        broker.prepare({})
        meta = data / "meta.properties"
        other = new_id()
        meta.write_text(meta.read_text().replace(broker.spec.cluster_id, other))
        paris.start()
        refused(night, Found.OTHER_CLUSTER, f"its cluster ID is {other}; what failed was {broker.spec.cluster_id}")


@pytest.mark.long
@pytest.mark.timeout(180)
def test_source_that_comes_back_with_too_few_copies_in_sync_is_a_part_of_it(tmp_path: Path) -> None:
    """Its partitions are led, and no producer with acks=all can write to them."""
    with Lab(tmp_path / "lab", ("west",), brokers=3) as lab:
        cluster = lab.clusters["west"]
        file = tmp_path / "mm2.properties"
        address = {"west": cluster.bootstrap, "east": cluster.bootstrap.replace("127.0.0.1", "localhost")}
        keys = mirror_properties("west", "east", address, topics="orders")
        file.write_text("".join(f"{key} = {value}\n" for key, value in keys.items()))
        settings, flow = load_mirror_settings(file), Flow("west", "east")
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        orders = NewTopic("orders", 3, 3, config={"min.insync.replicas": "3"})
        admin.create_topics([orders])["orders"].result(20)
        wait_for("it serves", lambda: observe_source(settings, flow).side.serves)
        cluster.brokers[2].kill()
        wait_for("the other two lead all of it", lambda: not observe_source(settings, flow).side.leaderless)
        seen = observe_source(settings, flow)
        assert (seen.side.serves, seen.side.not_writable) == (False, 3)
        assert judge(seen, file.name).found is Found.PARTIAL
