"""What comes back is not what failed: an older copy, topics created again, empty disks, another cluster.

`drlib failback` refuses each with what it is, why, and the next command, and nothing is changed.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from fix_engine import create_topic, delete_topic, wait_for
from testbed_way_back import FLOW, MIRROR, TOPIC, Night, a_night

from drlib import publish_pointer
from drlib.drill.actions.failback.returned_rules import Found
from drlib.drill.plan.states import DrillState
from drlib.drill.session.settle import settle
from drlib.lab.brokers.broker import new_id


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
        settle(night.settings("lyon"), FLOW, "lyon")
        wait_for("the flow is not mirrored any more", lambda: night.members(FLOW) == 0)

        paris.kill()
        shutil.rmtree(data)
        shutil.copytree(backup, data)
        paris.start()
        refused(night, Found.OLDER, "orders (50)")

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
